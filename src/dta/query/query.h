/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.h - queries on a mapped store; <sidelight/query.h> is the public interface. Any thread may
 * call these pure functions: they read a bank while it is written and detect torn units.
 */
#ifndef SL_DTA_QUERY_QUERY_H
#define SL_DTA_QUERY_QUERY_H

#include "dta/store/store.h"

#include <sidelight/query.h>

struct dta_query {
	const void *key;
	size_t key_bytes;
	uint64_t epoch;	 /* ~0 means the newest epoch with an answer */
	uint32_t copies; /* number of copies that the reporter wrote; 0 means the store's maximum */
	enum sl_query_policy policy;
	uint32_t consensus;	   /* threshold of SL_QUERY_CONSENSUS */
	bool no_error;		   /* increment: leave out error and probability */
	struct dta_totals *totals; /* increment queries for many keys: cache of row sums, or NULL */
};

/*
 * Cache of row sums, initially {0}. The error bound of an estimate needs the sum of a whole row,
 * which is the same for all keys.
 */
#define DTA_TOTALS_MAX 16u
struct dta_totals {
	uint64_t used; /* number of entries ever added, including those replaced since */
	struct {
		const uint8_t *bank;
		uint64_t epoch;
		double total;
	} at[DTA_TOTALS_MAX];
};

void dta_view_keywrite(const struct dta_store_view *v, const struct dta_query *q,
		       struct sl_keywrite_answer *out);
/*
 * Looks up count consecutive keys of equal length with policy "first". values: count * value_bytes;
 * found: count entries of enum sl_query_result. Returns the number of keys found.
 */
size_t dta_view_keywrite_many(const struct dta_store_view *v, uint64_t epoch, uint32_t copies,
			      const void *keys, size_t key_bytes, size_t count, void *values,
			      uint8_t *found);

/*
 * Estimates a counter as the minimum over q->copies rows (0 means the store's copies). The estimate
 * is never below the true count. error: count-min's bound e / columns * total, which holds with
 * probability 1 - exp(-copies); it requires the sum of a whole row.
 */
void dta_view_increment(const struct dta_store_view *v, const struct dta_query *q,
			struct sl_increment_answer *out);

/*
 * values: the sorted values that a hop may report; NULL means any. A path with another value is a
 * conflict.
 */
void dta_view_path(const struct dta_store_view *v, const struct dta_query *q,
		   const uint32_t *values, size_t count, struct sl_postcard_answer *out);

/*
 * Reads up to max items in whole blocks, oldest first; max must be at least the store's batch.
 * Returns the number of items, 0 if there are none yet, -EINVAL for an invalid max, list or lane,
 * or -EOVERFLOW if the writer overran the reader. After an overrun, overrun counts the lost blocks
 * and the reader continues at the oldest block.
 */
int dta_append_read(const struct dta_store_view *v, struct sl_query_append_reader *r, void *items,
		    uint32_t max);
/*
 * Like dta_append_read(), but polls at least every 5 ms until there are items, for up to timeout_ns
 * (~0 means without limit).
 */
int dta_append_wait(const struct dta_store_view *v, struct sl_query_append_reader *r, void *items,
		    uint32_t max, uint64_t timeout_ns);
/*
 * A position in a lane: the number of a block and, in the bits above, the first epoch of its
 * object. Epochs of a list count its resizes.
 */
#define DTA_BLOCK_BITS 48
static inline uint64_t dta_append_position(const struct dta_store_view *v, uint64_t block)
{
	return v->config->first_epoch << DTA_BLOCK_BITS | block;
}
/*
 * Sets the reader to a position and returns the index of its object. If the object is gone, the
 * reader begins with the next one's oldest block; if the position is ~0, with the oldest of all.
 */
size_t dta_append_seek(const struct dta_held *held, uint64_t position,
		       struct sl_query_append_reader *r);
/*
 * Returns true if the lane's translator writes to a newer object than the i-th, and therefore no
 * longer to that one. If a reader then finds nothing more in the i-th, it continues in the next.
 */
bool dta_append_ended(const struct dta_held *held, size_t i, uint32_t list, uint32_t lane);
/*
 * Scans this ring for its next block number, where a restarted translator continues. budget: NULL
 * means no limit. If it is used up, the number is that of the blocks found so far.
 */
uint64_t dta_append_next(const struct dta_store_view *v, uint32_t list, uint32_t lane,
			 struct base_budget *budget);
/* Returns the oldest block, where a reader starts. */
uint64_t dta_append_oldest(const struct dta_store_view *v, uint32_t list, uint32_t lane,
			   struct base_budget *budget);

struct dta_merged {
	enum sl_query_result result;
	uint64_t epoch, columns;
	uint32_t expected, ended; /* number of reporters */
	bool complete;
	uint64_t map[SL_STORE_REPORTERS_MAX / 64]; /* reporters that have ended the epoch */
};
/* Merges the cells of two sketches of the same configuration by sum or maximum. */
void dta_sketch_merge(const struct sl_store_config *c, void *cells, const void *more);
#define DTA_QUERY_CELLS_MAX ((uint64_t)64 << 20) /* largest sketch in bytes that a query merges */
/*
 * Merges the lanes of an epoch into cells (rows * slots of 8 bytes, or registers). Returns 0 or
 * -ENOMEM. budget: NULL means no limit. If it is used up, the result is "conflict" and must not be
 * used.
 */
int dta_view_sketch(const struct dta_store_view *v, uint64_t epoch, struct base_budget *budget,
		    void *cells, struct dta_merged *out);

/*
 * Estimates a key's count (count-min, count-sketch) or the number of keys (HyperLogLog, with key
 * NULL) from merged cells. The cells must be those of src/sketch with the store's seed
 * (docs/sketches.md): the number of columns is a power of two, and a count-sketch has an odd number
 * of rows. error: see sketch/cells.h. Returns 0 or -EINVAL.
 */
struct dta_sketch_estimate {
	double value, error;
};
int dta_sketch_estimate(const struct sl_store_config *c, const void *cells, const void *key,
			size_t key_bytes, struct dta_sketch_estimate *out);

/*
 * Builds a sketch with the cells of this configuration, for reporters and tests. Returns NULL with
 * errno EINVAL or ENOMEM. cells: rows * slots, each a uint64_t.
 */
struct dta_sketch_maker;
struct dta_sketch_maker *dta_sketch_maker_new(const struct sl_store_config *c);
void dta_sketch_maker_free(struct dta_sketch_maker *m);
int dta_sketch_maker_add(struct dta_sketch_maker *m, const void *key, size_t key_bytes,
			 uint64_t times);
void dta_sketch_maker_cells(const struct dta_sketch_maker *m, uint64_t *cells);

/*
 * For key-write and postcard: returns the probability that a key with `copies` copies is found
 * after `newer` other keys have followed it in its epoch. dta_success_reach() returns how many keys
 * may follow for a given probability in (0, 1).
 */
double dta_success_after(const struct sl_store_config *c, uint32_t copies, double newer);
/* Like dta_success_after(), but takes the total number of copies of all newer keys. */
double dta_success_behind(const struct sl_store_config *c, uint32_t copies, double units);
double dta_success_reach(const struct sl_store_config *c, uint32_t copies, double probability);

/*
 * Counts the occupied units of a bank among `sample` to 2 * sample evenly spaced units (0 means all
 * units). Returns false for a store of another kind.
 */
bool dta_store_count_occupied(const struct sl_store_config *c, const uint8_t *bank, uint64_t sample,
			      uint64_t *looked, uint64_t *occupied);

/* Load of a key-write or postcard bank, estimated from about `sample` units (0 means all units). */
struct dta_store_load {
	uint64_t looked, occupied;
	double load; /* keys / slots, estimated from the share of occupied units */
	/* success probability of a query with N copies: 1 - (1 - e^-aN)^N */
	double predicted[SL_STORE_COPIES_MAX];
};
void dta_view_load(const struct dta_store_view *v, uint64_t epoch, uint64_t sample,
		   struct dta_store_load *out);

#endif
