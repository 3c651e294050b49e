/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.h - queries on a mapped store; <sidelight/query.h> is the public form. Pure functions, for
 * any thread: they read a bank while it is written, and detect torn units.
 */
#ifndef SL_DTA_QUERY_QUERY_H
#define SL_DTA_QUERY_QUERY_H

#include "dta/store/store.h"

#include <sidelight/query.h>

struct dta_query {
	const void *key;
	size_t key_bytes;
	uint64_t epoch;	 /* ~0: the newest that has it */
	uint32_t copies; /* copies that the reporter wrote; 0: the store's maximum */
	enum sl_query_policy policy;
	uint32_t consensus;	   /* threshold of SL_QUERY_CONSENSUS */
	struct dta_totals *totals; /* increment, many keys: of rows summed so far; or NULL */
};

/* Starts as {0}. Each bound of an estimate needs the sum of a whole row, the same for all keys. */
#define DTA_TOTALS_MAX 16u
struct dta_totals {
	uint64_t used; /* of the latest entries, also when they replaced others */
	struct {
		const uint8_t *bank;
		uint64_t epoch;
		double total;
	} at[DTA_TOTALS_MAX];
};

void dta_view_keywrite(const struct dta_store_view *v, const struct dta_query *q,
		       struct sl_keywrite_answer *out);
/*
 * Looks up count consecutive keys of one length, first match. values: count * value_bytes; found:
 * count (enum sl_query_result). Returns how many were found.
 */
size_t dta_view_keywrite_many(const struct dta_store_view *v, uint64_t epoch, uint32_t copies,
			      const void *keys, size_t key_bytes, size_t count, void *values,
			      uint8_t *found);

/*
 * Estimates a counter: the minimum over q->copies rows (0: the store's copies), never below the
 * truth. error: count-min's bound e / columns * total, which holds with probability 1 -
 * exp(-copies).
 */
void dta_view_increment(const struct dta_store_view *v, const struct dta_query *q,
			struct sl_increment_answer *out);
/* The same without error and probability, which sum up a whole row. */
void dta_view_count(const struct dta_store_view *v, const struct dta_query *q,
		    struct sl_increment_answer *out);

/*
 * values: what a hop may report, sorted; NULL: anything. A path with another value is a conflict.
 */
void dta_view_path(const struct dta_store_view *v, const struct dta_query *q,
		   const uint32_t *values, size_t count, struct sl_postcard_answer *out);

/*
 * Reads up to max items in whole blocks, oldest first; max is at least the store's batch. Returns
 * their number, 0 if there are none yet, -EINVAL (max, list, lane), -EOVERFLOW if the writer
 * overran the reader: overrun counts the lost blocks, and the reader continues at the oldest.
 */
int dta_append_read(const struct dta_store_view *v, struct sl_query_append_reader *r, void *items,
		    uint32_t max);
/*
 * The same, polling every 5 ms or less for up to timeout_ns (~0: for ever) until there are items.
 */
int dta_append_wait(const struct dta_store_view *v, struct sl_query_append_reader *r, void *items,
		    uint32_t max, uint64_t timeout_ns);
/* The next block of this ring, found by scanning it: a restarted translator continues there. */
uint64_t dta_append_next(const struct dta_store_view *v, uint32_t list, uint32_t lane);
/* The oldest block, where a reader begins. */
uint64_t dta_append_oldest(const struct dta_store_view *v, uint32_t list, uint32_t lane);

struct dta_merged {
	enum sl_query_result result;
	uint64_t epoch, columns;
	uint32_t expected, ended; /* reporters */
	bool complete;
	uint64_t map[SL_STORE_REPORTERS_MAX / 64]; /* reporters that ended the epoch */
};
/* Merges the cells of a sketch of the same configuration: by sum or maximum. */
void dta_sketch_merge(const struct sl_store_config *c, void *cells, const void *more);
#define DTA_QUERY_CELLS_MAX ((uint64_t)64 << 20) /* most bytes of a sketch that a query merges */
/* Merges the lanes of an epoch into cells (rows * slots of 8 bytes, or registers). 0, -ENOMEM. */
int dta_view_sketch(const struct dta_store_view *v, uint64_t epoch, void *cells,
		    struct dta_merged *out);

/*
 * What merged cells estimate: a key's count (count-min, count-sketch), or the number of keys
 * (HyperLogLog, key NULL). The cells must be those of src/sketch with the store's seed
 * (docs/sketches.md): columns are a power of two, rows of a count-sketch odd. error: as in
 * sketch/cells.h. 0, -EINVAL.
 */
struct dta_sketch_estimate {
	double value, error;
};
int dta_sketch_estimate(const struct sl_store_config *c, const void *cells, const void *key,
			size_t key_bytes, struct dta_sketch_estimate *out);

/*
 * Makes a sketch with the cells of this configuration, for reporters and tests. NULL with errno:
 * EINVAL, ENOMEM. cells: rows * slots, each a uint64_t.
 */
struct dta_sketch_maker;
struct dta_sketch_maker *dta_sketch_maker_new(const struct sl_store_config *c);
void dta_sketch_maker_free(struct dta_sketch_maker *m);
int dta_sketch_maker_add(struct dta_sketch_maker *m, const void *key, size_t key_bytes,
			 uint64_t times);
void dta_sketch_maker_cells(const struct dta_sketch_maker *m, uint64_t *cells);

/*
 * Key-write and postcard: the probability that a key of `copies` copies is found when `newer`
 * others followed it in its epoch; and how many may follow for a probability in (0, 1).
 */
double dta_success_after(const struct sl_store_config *c, uint32_t copies, double newer);
/* The same by the copies of all those that followed it, whatever each has. */
double dta_success_behind(const struct sl_store_config *c, uint32_t copies, double units);
double dta_success_reach(const struct sl_store_config *c, uint32_t copies, double probability);

/*
 * Counts the occupied units of a bank among `sample` to 2 * sample evenly spread ones (0: all).
 * False: a store of another kind.
 */
bool dta_store_count_occupied(const struct sl_store_config *c, const uint8_t *bank, uint64_t sample,
			      uint64_t *looked, uint64_t *occupied);

/* How full a bank is, from about `sample` units (0: all). Key-write and postcard. */
struct dta_store_load {
	uint64_t looked, occupied;
	double load;			       /* keys / slots, estimated from the occupied share */
	double predicted[SL_STORE_COPIES_MAX]; /* success of a query, by N: 1 - (1 - e^-aN)^N */
};
void dta_view_load(const struct dta_store_view *v, uint64_t epoch, uint32_t copies, uint64_t sample,
		   struct dta_store_load *out);

#endif
