/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - helpers shared by all kinds of queries */
#ifndef SL_DTA_QUERY_INTERNAL_H
#define SL_DTA_QUERY_INTERNAL_H

#include <string.h>

#include "dta/store/hash.h"
#include "dta/query/query.h"
#include "region/decode.h"

/* Copies whole words without tearing them; check words detect tears between words. */
static inline void dta_query_copy(void *to, const uint8_t *from, uint64_t bytes)
{
	region_copy_words(to, (const volatile uint64_t *)(const void *)from, bytes / 8);
}

#define DTA_QUERY_SETTLE_WORDS (SL_STORE_BATCH_MAX * SL_STORE_VALUE_MAX / 8 + 1)

enum dta_query_settled { DTA_QUERY_UNIT_EMPTY, DTA_QUERY_UNIT_SETTLED, DTA_QUERY_UNIT_TORN };
/*
 * Reads a unit of at most DTA_QUERY_SETTLE_WORDS until two reads agree, because the check word
 * can't be verified without the key. Torn means that the unit keeps changing.
 */
static inline enum dta_query_settled dta_query_settle(uint64_t *unit, const uint8_t *from,
						      uint64_t bytes)
{
	uint64_t again[DTA_QUERY_SETTLE_WORDS], any = 0;

	dta_query_copy(unit, from, bytes);
	for (int tries = 0; tries < 4; tries++) {
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		dta_query_copy(again, from, bytes);
		if (!memcmp(unit, again, bytes)) {
			for (uint64_t w = 0; w < bytes / 8; w++)
				any |= unit[w];
			return any ? DTA_QUERY_UNIT_SETTLED : DTA_QUERY_UNIT_EMPTY;
		}
		memcpy(unit, again, bytes);
	}
	return DTA_QUERY_UNIT_TORN;
}

/*
 * Computes the epochs to search, from *newest down to *oldest. asked: ~0 means all epochs. Returns
 * false if the epoch does not exist.
 */
static inline bool dta_query_epochs(const struct dta_store_view *v, uint64_t asked,
				    uint64_t *newest, uint64_t *oldest)
{
	struct dta_store_epochs e;

	if (!dta_store_epochs(v, &e))
		return false;
	*newest = asked == ~0ull ? e.epoch : asked;
	*oldest = asked == ~0ull ? e.oldest : asked;
	return *newest <= e.epoch && *oldest >= e.oldest;
}

/*
 * Whether the bank still holds the epoch after reading. If not, it may have been zeroed during the
 * read. Pairs with the release fence in dta_store_epochs_set().
 */
static inline bool dta_query_valid(const struct dta_store_view *v, uint64_t epoch)
{
	struct dta_store_epochs e;

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return dta_store_epochs(v, &e) && epoch >= e.oldest;
}

/*
 * Returns true if the search ends with epoch e. A result is void if the epoch was retired in the
 * meantime; unless the query named an epoch, there are then no older epochs left either.
 */
static inline bool dta_query_done(const struct dta_store_view *v, const struct dta_query *q,
				  uint64_t e, uint64_t oldest, enum sl_query_result *result)
{
	if (!dta_query_valid(v, e)) {
		*result = q->epoch == ~0ull ? SL_QUERY_EMPTY : SL_QUERY_UNKNOWN;
		return true;
	}
	return *result != SL_QUERY_EMPTY || e == oldest;
}

static inline bool dta_query_key_fits(const struct dta_query *q)
{
	return q->key && q->key_bytes >= SL_STORE_KEY_MIN && q->key_bytes <= SL_STORE_KEY_MAX;
}

/* Parameters of a key search: epochs, hash, and number of copies to read. */
struct dta_query_search {
	uint64_t newest, oldest;
	struct dta_hash h;
	uint32_t copies;
};

/* Returns false if the store is of another kind, the key is invalid or the epoch does not exist. */
static inline bool dta_query_begin(const struct dta_store_view *v, const struct dta_query *q,
				   uint32_t kind, struct dta_query_search *s)
{
	const uint32_t most = v->config->copies;

	if (v->config->kind != kind || !dta_query_key_fits(q) ||
	    !dta_query_epochs(v, q->epoch, &s->newest, &s->oldest))
		return false;
	s->copies = q->copies && q->copies < most ? q->copies : most;
	s->h = dta_hash(q->key, q->key_bytes, v->config->seed);
	return true;
}

#define DTA_QUERY_UNIT_WORDS ((8 + SL_STORE_VALUE_MAX) / 8)

/* Distinct verified units among a key's copies, and the number of copies that agree on each. */
struct dta_query_candidates {
	uint64_t unit[SL_STORE_COPIES_MAX][DTA_QUERY_UNIT_WORDS];
	uint32_t agreed[SL_STORE_COPIES_MAX], n;
	bool mixed; /* copies of one value stand on both sides of another value */
	uint32_t asked, occupied, verified; /* numbers of distinct slots */
};
/*
 * Chooses one of n candidates, given in the order of their first copies, according to the policy.
 * agreed: number of copies per candidate. A report writes its copies from the first on, so the
 * first candidate is the newest even if an older report had more copies. Only if the copies are
 * mixed, because reports were written at the same time, the most copies win. Returns the index, or
 * -1 with the reason in *result.
 */
int dta_query_choose(const uint32_t *agreed, uint32_t n, bool mixed, enum sl_query_policy policy,
		     uint32_t consensus, enum sl_query_result *result);

#endif
