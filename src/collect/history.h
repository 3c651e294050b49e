/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h - where packed columns are kept: one ring of memory a worker, fixed in size, in which
 * the newest chunk takes the place of the oldest. It knows neither regions nor metrics.
 *
 * One writer, any number of readers, no locks. Memory is never given away while the ring lives, so
 * a reader may look at a chunk that is being overwritten; it finds out afterwards and leaves it.
 */
#ifndef SL_COLLECT_HISTORY_H
#define SL_COLLECT_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/codec.h"

/* Columns of one chunk. A region with more of them leaves several chunks at a time. */
#define COLLECT_CHUNK_COLUMNS 1024u

struct collect_ring {
	uint64_t *word;
	uint64_t words;
	/* Positions in words since the start; the place is position % words. */
	uint64_t head;	   /* written by the writer alone */
	uint64_t tail;	   /* chunks from here to head are whole */
	uint64_t released; /* the control thread's: memory before was given back */
	/* Counters, for anybody to read. */
	uint64_t chunks, dropped_chunks, expired_chunks;
	uint64_t points; /* kept now */
	/* The writer's own. */
	uint64_t *scratch;
	uint64_t max_ns; /* age; 0: no bound */
};

/* What a chunk says of itself, at its start. */
struct collect_chunk_head {
	uint32_t words; /* of the chunk */
	uint32_t rows;
	uint32_t first;	  /* column of the region that is the first one here */
	uint32_t columns; /* that follow the column of times */
	uint64_t prev;	  /* position + 1 of the chunk before of the same region, 0: none */
	uint64_t owner;	  /* instance of the region */
	int64_t from_ns, to_ns;
};

/* 0, -ENOMEM, or -EINVAL for too few bytes. max_ns: chunks older than this are dropped. */
int collect_ring_init(struct collect_ring *r, size_t bytes, uint64_t max_ns);
void collect_ring_free(struct collect_ring *r);
uint64_t collect_ring_bytes(const struct collect_ring *r); /* kept now */

/*
 * Packs rows x columns values, v[row * stride + column], and their times. kind[c] is true for
 * columns of doubles. Returns the position + 1 of the last chunk that was made, prev if none
 * was: columns are 0, or a chunk is larger than a quarter of the ring.
 */
uint64_t collect_ring_append(struct collect_ring *r, uint64_t owner, uint64_t prev,
			     const int64_t *ns, const uint64_t *v, size_t stride, const bool *f64,
			     unsigned int rows, uint32_t columns);

/* Drops what is older than max_ns. Writer only. */
void collect_ring_expire(struct collect_ring *r, int64_t now_ns);

/* Gives memory that holds no chunk back to the system. Any one thread but the writer. */
void collect_ring_trim(struct collect_ring *r);

/*
 * Reads one column of the chunk at position chunk - 1: times and values, oldest first. Returns the
 * rows, or 0 if the chunk is gone or does not have the column; *prev is the chunk before, or 0 at
 * the end.
 */
unsigned int collect_ring_read(const struct collect_ring *r, uint64_t owner, uint64_t chunk,
			       uint32_t column, int64_t ns[COLLECT_COLUMN_ROWS],
			       uint64_t v[COLLECT_COLUMN_ROWS], uint64_t *prev);

/*
 * True if all of the chunk at position chunk - 1 is later than to_ns, which costs less to find out
 * than to read it; *prev is the chunk before, as with collect_ring_read().
 */
bool collect_ring_after(const struct collect_ring *r, uint64_t owner, uint64_t chunk, int64_t to_ns,
			uint64_t *prev);

#endif
