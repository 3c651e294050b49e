// SPDX-License-Identifier: Apache-2.0
/* report_filter.c - leaves out unchanged values and what sampling does not select. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "report.h"

bool sl__report_sampled(struct sl_reporter *r, const struct sl_report_dest *dest, const void *key,
			size_t bytes)
{
	uint64_t x;

	if (!dest->sample)
		return true;
	if (dest->flags & SL_REPORT_SAMPLE_BY_KEY) {
		/* No seed: all reporters select the same keys, so that paths are whole. */
		x = XXH3_64bits(key, bytes);
	} else { /* xorshift64* */
		r->chance ^= r->chance >> 12;
		r->chance ^= r->chance << 25;
		r->chance ^= r->chance >> 27;
		x = r->chance * 0x2545f4914f6cdd1dull;
	}
	return !(x >> (64 - dest->sample));
}

/* A set of four entries per hash, least recently used last. */
struct sl__change *sl__report_change(struct sl_reporter *r, const struct sl_report_dest *dest,
				     const void *key, size_t key_bytes, const void *value,
				     size_t value_bytes, uint64_t now_ns, struct sl__change *now,
				     bool *same)
{
	uint64_t seed = r->change_seed + dest->store * 0x9e3779b97f4a7c15ull;
	struct sl__change *set, was;

	*same = false;
	now->key = XXH3_64bits_withSeed(key, key_bytes, seed);
	now->key = now->key ? now->key : 1;
	now->value = XXH3_64bits_withSeed(value, value_bytes, seed);
	now->time_ns = now_ns;
	set = r->change + (now->key & r->change_mask & ~3ull);
	for (int i = 0; i < 4; i++) {
		if (set[i].key != now->key)
			continue;
		was = set[i];
		for (; i > 0; i--)
			set[i] = set[i - 1];
		set[0] = was;
		*same = was.value == now->value && now_ns - was.time_ns < r->refresh_ns;
		return set;
	}
	/* Replaces the least recently used entry by one that equals no value. */
	set[3] = set[2];
	set[2] = set[1];
	set[1] = set[0];
	set[0] = (struct sl__change){.key = now->key, .value = ~now->value};
	return set;
}
