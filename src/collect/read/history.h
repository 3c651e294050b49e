/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h - packed columns in one ring of memory per worker, of fixed size, where the newest
 * chunk overwrites the oldest. It knows neither regions nor metrics.
 *
 * One writer, any number of readers, no locks. A reader may read a chunk that is being overwritten;
 * it detects that afterwards and discards it.
 */
#ifndef SL_COLLECT_READ_HISTORY_H
#define SL_COLLECT_READ_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/read/codec.h"

/* Columns per chunk. A region with more appends several chunks at a time. */
#define COLLECT_CHUNK_COLUMNS 1024u

struct collect_ring {
	uint64_t *word;
	uint64_t words;
	/* Positions count words since the start; the index is position % words. */
	uint64_t head;	   /* written by the writer only */
	uint64_t tail;	   /* chunks from here to head are complete */
	uint64_t released; /* the control thread's: earlier memory was returned */
	/* Counters; read by any thread. */
	uint64_t chunks, dropped_chunks, expired_chunks;
	uint64_t points; /* kept now */
	/* The writer's. */
	uint64_t *scratch;
	uint64_t max_ns; /* age; 0: no bound */
};

/* The start of a chunk. */
struct collect_chunk_head {
	uint32_t words; /* of the chunk */
	uint32_t rows;
	uint32_t first;	  /* column of the region that comes first here */
	uint32_t columns; /* after the column of times */
	uint64_t prev;	  /* position + 1 of the previous chunk of the region; 0: none */
	uint64_t owner;	  /* instance of the region */
	int64_t from_ns, to_ns;
};

/* 0, -ENOMEM, or -EINVAL for too few bytes. max_ns: chunks older than this are dropped. */
int collect_ring_init(struct collect_ring *r, size_t bytes, uint64_t max_ns);
void collect_ring_free(struct collect_ring *r);
uint64_t collect_ring_bytes(const struct collect_ring *r); /* kept now */

/*
 * Packs rows x columns values, v[row * stride + column], and their times. kind[c] is true for
 * columns of doubles. Returns the position + 1 of the last chunk made, or prev if none was: columns
 * is 0, or a chunk exceeds a quarter of the ring.
 */
uint64_t collect_ring_append(struct collect_ring *r, uint64_t owner, uint64_t prev,
			     const int64_t *ns, const uint64_t *v, size_t stride, const bool *f64,
			     unsigned int rows, uint32_t columns);

/* Drops chunks older than max_ns. Writer only. */
void collect_ring_expire(struct collect_ring *r, int64_t now_ns);

/* Returns memory without chunks to the system. One thread, not the writer. */
void collect_ring_trim(struct collect_ring *r);

/* What was read of a chunk, for more of its columns. chunk is 0 at first. */
struct collect_chunk {
	const struct collect_ring *ring;
	uint64_t chunk; /* position + 1; 0: none */
	struct collect_chunk_head head;
	int64_t ns[COLLECT_COLUMN_ROWS];
	uint16_t length[COLLECT_CHUNK_COLUMNS + 1]; /* bytes of the times, and of each column */
	uint32_t last;				    /* place of a column in length[] */
	size_t offset;				    /* of that column, in bytes */
};

/*
 * Reads one column of the chunk at position chunk - 1: values, oldest first, whose times are
 * c->ns. Returns the rows, or 0 if the chunk is gone or does not have the column; *prev is the
 * chunk before, or 0 at the end. A chunk that c has is not read again.
 */
unsigned int collect_ring_read(const struct collect_ring *r, uint64_t owner, uint64_t chunk,
			       uint32_t column, struct collect_chunk *c,
			       uint64_t v[COLLECT_COLUMN_ROWS], uint64_t *prev);

/*
 * True if the whole chunk at position chunk - 1 is later than to_ns; cheaper than reading it. *prev
 * as with collect_ring_read().
 */
bool collect_ring_after(const struct collect_ring *r, uint64_t owner, uint64_t chunk, int64_t to_ns,
			uint64_t *prev);

#endif
