/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.h - queries of a view of a store; <sidelight/query.h> wraps them for applications. Pure:
 * they read the view and change nothing. Any thread. A bank may be written meanwhile: check words
 * tell torn units from whole ones.
 */
#ifndef SL_DTA_QUERY_QUERY_H
#define SL_DTA_QUERY_QUERY_H

#include "dta/store/store.h"

#include <sidelight/query.h>

struct dta_query {
	const void *key;
	size_t key_bytes;
	uint64_t epoch;	 /* ~0: the newest that has it */
	uint32_t copies; /* as the reporter wrote; 0: the store's most */
	enum sl_query_policy policy;
	uint32_t consensus; /* T */
};

void dta_view_keywrite(const struct dta_store_view *v, const struct dta_query *q,
		       struct sl_keywrite_answer *out);
/*
 * Many keys of one length, one after the other, with prefetches; the first copy that verifies
 * counts. values: count * value_bytes; found: count (enum sl_query_result). Returns how many were
 * found.
 */
size_t dta_view_keywrite_many(const struct dta_store_view *v, uint64_t epoch, uint32_t copies,
			      const void *keys, size_t key_bytes, size_t count, void *values,
			      uint8_t *found);

/* The minimum over q->copies rows (0: the store's), and count-min's bound of its error. */
void dta_view_increment(const struct dta_store_view *v, const struct dta_query *q,
			struct sl_increment_answer *out);
/* The same without the bound, which sums up a row: for many keys. */
void dta_view_count(const struct dta_store_view *v, const struct dta_query *q,
		    struct sl_increment_answer *out);

/* values: sorted, the values that hops may have; NULL: any. A path with another value is a
 * conflict. */
void dta_view_path(const struct dta_store_view *v, const struct dta_query *q,
		   const uint32_t *values, size_t count, struct sl_postcard_answer *out);

/*
 * Reads up to max items, oldest first, in whole blocks; max is at least the store's batch. Returns
 * their number; -EINVAL: no such list or lane; -EOVERFLOW: the writer has lapped the reader,
 * overrun has grown by the blocks lost, and the reader stands at the oldest block.
 */
int dta_append_read(const struct dta_store_view *v, struct sl_query_append_reader *r, void *items,
		    uint32_t max);
/* The same; polls for the first item, every 5 ms at most, up to timeout_ns (~0: no limit). */
int dta_append_wait(const struct dta_store_view *v, struct sl_query_append_reader *r, void *items,
		    uint32_t max, uint64_t timeout_ns);
/* The number of the next block of this ring, found by searching it. */
uint64_t dta_append_next(const struct dta_store_view *v, uint32_t list, uint32_t lane);
/* The number of the oldest block of this ring. */
uint64_t dta_append_oldest(const struct dta_store_view *v, uint32_t list, uint32_t lane);

struct dta_merged {
	enum sl_query_result result;
	uint64_t epoch, columns;
	uint32_t expected, ended; /* reporters */
	bool complete;
	uint64_t map[SL_STORE_REPORTERS_MAX / 64]; /* who ended */
};
/* Cells of another sketch of the same configuration, added to these: by sum, or by maximum. */
void dta_sketch_merge(const struct sl_store_config *c, void *cells, const void *more);
#define DTA_QUERY_CELLS_MAX                                                   \
	((uint64_t)64 << 20) /* bytes of a sketch that a query takes together \
			      */
/* Rows of a sketch's epoch, lanes merged, into cells (rows * slots of 8 bytes, or registers). 0,
 * -ENOMEM. */
int dta_view_sketch(const struct dta_store_view *v, uint64_t epoch, void *cells,
		    struct dta_merged *out);

/*
 * What merged cells say: of a key (count-min, count-sketch), or how many keys there were
 * (HyperLogLog, key NULL). Cells are those of src/sketch with the store's seed (docs/sketches.md):
 * columns are a power of two, and rows of a count-sketch are odd. error: the bound of count_min.h,
 * count_sketch.h; the standard error. 0, -EINVAL: no such sketch, -ENOMEM.
 */
struct dta_sketch_estimate {
	double value, error;
};
int dta_sketch_estimate(const struct sl_store_config *c, const void *cells, const void *key,
			size_t key_bytes, struct dta_sketch_estimate *out);

/*
 * The other way round, for who reports sketches or tests them: a sketch of this configuration's
 * cells. NULL with errno: EINVAL, ENOMEM. cells: rows * slots, a row behind the other, each a
 * uint64_t.
 */
struct dta_sketch_maker;
struct dta_sketch_maker *dta_sketch_maker_new(const struct sl_store_config *c);
void dta_sketch_maker_free(struct dta_sketch_maker *m);
int dta_sketch_maker_add(struct dta_sketch_maker *m, const void *key, size_t key_bytes,
			 uint64_t times);
int dta_sketch_maker_cells(const struct dta_sketch_maker *m, uint64_t *cells); /* 0, -ENOMEM */

/*
 * Of key-write and postcard: with which probability a key of so many copies is found when `newer`
 * others came after it in its epoch; and how many may, for this probability (0 < p < 1).
 */
double dta_success_after(const struct sl_store_config *c, uint32_t copies, double newer);
double dta_success_reach(const struct sl_store_config *c, uint32_t copies, double probability);

/*
 * How many units of a bank hold something, of those looked at: about `sample`, up to twice as many,
 * evenly spread (0: all). False: of another kind than key-write and postcard.
 */
bool dta_store_standing(const struct sl_store_config *c, const uint8_t *bank, uint64_t sample,
			uint64_t *looked, uint64_t *occupied);

/* How full a bank is, by looking at some `sample` units (0: all). Key-write and postcard. */
struct dta_store_load {
	uint64_t looked, occupied;
	double load; /* keys written / slots, estimated from the share that is occupied and copies
		      */
	double predicted[SL_STORE_COPIES_MAX]; /* success of a query after so many keys, by N: 1 -
						  (1 - e^-aN)^N */
};
void dta_view_load(const struct dta_store_view *v, uint64_t epoch, uint32_t copies, uint64_t sample,
		   struct dta_store_load *out);

#endif
