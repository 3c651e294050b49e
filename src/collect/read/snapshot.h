/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.h - the values of a region as of its last pass, and the rows not yet packed into
 * history. The region's worker is the only writer; any thread reads without a lock. The layout of a
 * snapshot never changes.
 */
#ifndef SL_COLLECT_READ_SNAPSHOT_H
#define SL_COLLECT_READ_SNAPSHOT_H

#include "collect/read/calc.h"
#include "collect/read/history.h"
#include "collect/read/layout.h"

struct collect_region;
struct collect_tenant;
struct collect_turn;
struct collect_worker;

struct collect_snapshot {
	unsigned int refs;
	struct collect_layout *layout;
	uint64_t seq;	  /* odd while the worker writes; 0 means never written */
	uint32_t rows;	  /* rows in the open chunk */
	uint64_t chunk;	  /* last packed chunk, as returned by collect_ring_append() */
	uint32_t target;  /* number of rows at which the open chunk is packed; worker only */
	int64_t *row_ns;  /* times of the rows; NULL means no history */
	uint64_t *row;	  /* values of the rows, [COLLECT_COLUMN_ROWS][columns] */
	size_t row_bytes; /* bytes of row_ns and row */
	/*
	 * Per column, CLOCK_REALTIME: history points older than this belong to another metric. NULL
	 * if the region's metrics never change. Set before the snapshot is published.
	 */
	int64_t *since_ns;
	struct collect_worker *worker; /* worker whose memory limit is charged for row_bytes */
	struct collect_tenant *tenant; /* tenant whose share is charged for row_bytes */
	struct collect_turn *turn;
	size_t bytes;
	uint64_t cell[]; /* [layout->cells] */
};

/* Takes a reference to the layout. Returns NULL if out of memory. */
struct collect_snapshot *collect_snapshot_new(struct collect_layout *layout,
					      const struct collect_region *r);
void collect_snapshot_put(struct collect_snapshot *s, struct collect_collector *c);
/* Publishes values by cell, read at real_ns. Worker thread only. */
void collect_snapshot_publish(struct collect_snapshot *s, const uint64_t *cell, int64_t real_ns,
			      struct collect_worker *w, uint64_t instance);
/* Packs the open rows before another snapshot replaces s. Returns the chunk. Worker thread only. */
uint64_t collect_snapshot_flush(const struct collect_snapshot *s, struct collect_worker *w,
				uint64_t instance);
/* Copies cells, all from the same pass. Thread-safe. */
void collect_snapshot_read(const struct collect_snapshot *s, uint32_t first, uint32_t count,
			   uint64_t *out);
/*
 * Brackets relaxed loads that must come from one pass; repeat the loads while retry returns true.
 */
uint64_t collect_snapshot_begin(const struct collect_snapshot *s);
bool collect_snapshot_retry(const struct collect_snapshot *s, uint64_t seq);
/* The word that the history stores for a column; cell: the cells of all columns. */
static inline uint64_t collect_column_word(const struct collect_column *col, const uint64_t *cell)
{
	return col->removed ? 0 : collect_history_word(&col->def->metric, cell + col->cell);
}

#endif
