/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h - packed columns in one ring per worker, of fixed size, where the newest chunk
 * overwrites the oldest. This file does not depend on regions or metrics.
 *
 * One writer, any number of readers, no locks. A reader may read a chunk that is being overwritten;
 * it detects this afterwards and discards the data.
 */
#ifndef SL_COLLECT_READ_HISTORY_H
#define SL_COLLECT_READ_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/read/codec.h"

/* Columns per chunk. A region with more columns appends several chunks at a time. */
#define COLLECT_CHUNK_COLUMNS 1024u

struct collect_ring {
	uint64_t *word;
	uint64_t words;
	/* Positions count the words written so far; the index is position % words. */
	uint64_t head; /* position of the next chunk; changed by the writer only */
	uint64_t tail; /* chunks from tail to head are complete */
	/* memory before this position was returned to the system; control thread only */
	uint64_t released;
	/* Counters; read by any thread. */
	uint64_t chunks, dropped_chunks, expired_chunks, large_chunks;
	uint64_t points; /* points kept now */
	/* Members used only by the writer. */
	uint64_t *scratch;
	uint64_t max_ns; /* maximum age of chunks; 0 means unlimited */
};

/* The start of a chunk. */
struct collect_chunk_head {
	uint32_t words; /* length of the chunk */
	uint32_t rows;
	uint32_t first;	  /* the region's column that is the first in this chunk */
	uint32_t columns; /* number of columns, without the column of times */
	uint64_t prev;	  /* position + 1 of the region's previous chunk; 0 means none */
	uint64_t owner;	  /* instance of the region */
	int64_t from_ns, to_ns;
};

/* Returns 0, -ENOMEM, or -EINVAL if bytes is too small. Chunks older than max_ns are dropped. */
int collect_ring_init(struct collect_ring *r, size_t bytes, uint64_t max_ns);
void collect_ring_free(struct collect_ring *r);
uint64_t collect_ring_bytes(const struct collect_ring *r); /* number of bytes kept now */

/*
 * Packs rows x columns values, v[row * stride + column], and their times. f64[c] is true for
 * columns of doubles. Returns the position + 1 of the last chunk made, or prev if none was made
 * because columns is 0 or a chunk exceeds a quarter of the ring, which is counted in large_chunks.
 */
uint64_t collect_ring_append(struct collect_ring *r, uint64_t owner, uint64_t prev,
			     const int64_t *ns, const uint64_t *v, size_t stride, const bool *f64,
			     unsigned int rows, uint32_t columns);

/* Drops chunks older than max_ns. Writer only. */
void collect_ring_expire(struct collect_ring *r, int64_t now_ns);

/* Returns memory without chunks to the system. Called by one thread other than the writer. */
void collect_ring_trim(struct collect_ring *r);

/*
 * A chunk that has been opened, to read several of its columns. Set chunk to 0 before the first
 * use.
 */
struct collect_chunk {
	const struct collect_ring *ring;
	uint64_t chunk; /* position + 1 of the open chunk; 0 means none */
	struct collect_chunk_head head;
	int64_t ns[COLLECT_COLUMN_ROWS];
	/* length in bytes of the times and of each column */
	uint16_t length[COLLECT_CHUNK_COLUMNS + 1];
	uint32_t last; /* index in length[] of the column read last */
	size_t offset; /* offset of column `last`, in bytes */
};

/*
 * Reads one column of the chunk at position chunk - 1: its values, oldest first; their times are in
 * c->ns. Returns the number of rows, or 0 if the chunk is gone or does not have the column. Sets
 * *prev to the previous chunk, or 0 at the end. A chunk already open in c is not read again.
 */
unsigned int collect_ring_read(const struct collect_ring *r, uint64_t owner, uint64_t chunk,
			       uint32_t column, struct collect_chunk *c,
			       uint64_t v[COLLECT_COLUMN_ROWS], uint64_t *prev);

/*
 * Returns true if the whole chunk at position chunk - 1 is later than to_ns, or does not have the
 * column; cheaper than reading the chunk. Sets *prev like collect_ring_read().
 */
bool collect_ring_skip(const struct collect_ring *r, uint64_t owner, uint64_t chunk,
		       uint32_t column, int64_t to_ns, uint64_t *prev);

#endif
