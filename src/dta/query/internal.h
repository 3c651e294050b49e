/* SPDX-License-Identifier: Apache-2.0 */
/* query_internal.h - what the queries of all kinds begin with. */
#ifndef SL_DTA_QUERY_INTERNAL_H
#define SL_DTA_QUERY_INTERNAL_H

#include <string.h>

#include "dta/store/hash.h"
#include "dta/query/query.h"
#include "region/decode.h"

/* Units of 8 bytes are read without tearing a word; what is torn between words is seen by check
 * words. */
static inline void dta_query_copy(void *to, const uint8_t *from, uint64_t bytes)
{
	region_copy_words(to, (const volatile uint64_t *)(const void *)from, bytes / 8);
}

/*
 * The epochs to look into, newest first: from *newest down to *oldest. False: the epoch that was
 * asked for is not there. ~0: all of them.
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

/* After a bank was looked at: was it that epoch's until now? Else it may have been zeroed
 * meanwhile. */
static inline bool dta_query_still(const struct dta_store_view *v, uint64_t epoch)
{
	struct dta_store_epochs e;

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return dta_store_epochs(v, &e) && epoch >= e.oldest;
}

/*
 * After epoch e was asked, of those from the newest down to the oldest: true if there is no more to
 * ask. What was found counts for nothing if the epoch went meanwhile; unless it was asked for by
 * its number, that is none left.
 */
static inline bool dta_query_over(const struct dta_store_view *v, const struct dta_query *q,
				  uint64_t e, uint64_t oldest, enum sl_query_result *result)
{
	if (!dta_query_still(v, e)) {
		*result = q->epoch == ~0ull ? SL_QUERY_EMPTY : SL_QUERY_UNKNOWN;
		return true;
	}
	return *result != SL_QUERY_EMPTY || e == oldest;
}

static inline uint32_t dta_query_copies(const struct dta_store_view *v, const struct dta_query *q,
					uint32_t most)
{
	(void)v;
	return q->copies && q->copies < most ? q->copies : most;
}

static inline bool dta_query_key_fits(const struct dta_query *q)
{
	return q->key && q->key_bytes >= SL_STORE_KEY_MIN && q->key_bytes <= SL_STORE_KEY_MAX;
}

/* The longest unit: of a path. */
#define DTA_QUERY_UNIT_WORDS ((8 + 8 + 4 + 4 * SL_STORE_HOPS_MAX + 7) / 8)
_Static_assert(DTA_QUERY_UNIT_WORDS * 8 >= 8 + SL_STORE_VALUE_MAX, "a slot is shorter");

/* What the copies of one key say: n different units that verify, and by how many copies each is
 * said. */
struct dta_query_said {
	uint64_t unit[SL_STORE_COPIES_MAX][DTA_QUERY_UNIT_WORDS];
	uint32_t agreed[SL_STORE_COPIES_MAX], n;
	uint32_t asked, occupied, verified; /* slots, each once */
};
/* unit: bytes of one; data: of them behind the check word, those that it is over. */
void dta_query_look(const struct dta_store_view *v, uint64_t epoch, struct dta_hash h,
		    uint32_t copies, uint64_t unit, uint64_t data, struct dta_query_said *out);

/*
 * Candidates of one key, each with the number of copies that say the same, and the choice among
 * them by the policy: the index, or -1 with *result saying why. agreed[0 .. n-1] in the order in
 * which they were found.
 */
int dta_query_choose(const uint32_t *agreed, uint32_t n, enum sl_query_policy policy,
		     uint32_t consensus, enum sl_query_result *result);

#endif
