// SPDX-License-Identifier: Apache-2.0
/* report_filter.c - what need not go out: a value that is the same, a key that is not in the
 * sample. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "report.h"

bool sl__report_sampled(struct sl_reporter *r, const struct sl_report *how, const void *key,
			size_t bytes)
{
	uint64_t x;

	if (!how->sample)
		return true;
	if (how->flags & SL_REPORT_SAMPLE_BY_KEY) {
		/* No seed: every reporter has to choose the same keys, so that a path is whole. */
		x = XXH3_64bits(key, bytes);
	} else { /* xorshift64* */
		r->chance ^= r->chance >> 12;
		r->chance ^= r->chance << 25;
		r->chance ^= r->chance >> 27;
		x = r->chance * 0x2545f4914f6cdd1dull;
	}
	return !(x >> (64 - how->sample));
}

/* Four entries that a key may be in, the one that was used last in front. */
struct sl__change *sl__report_change(struct sl_reporter *r, const struct sl_report *how,
				     const void *key, size_t key_bytes, const void *value,
				     size_t value_bytes, uint64_t now_ns, struct sl__change *now,
				     bool *same)
{
	uint64_t seed = r->change_seed + how->store * 0x9e3779b97f4a7c15ull;
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
	/* The last one makes room, and is as if it had never been: what comes of it is reported. */
	set[3] = set[2];
	set[2] = set[1];
	set[1] = set[0];
	set[0] = (struct sl__change){.key = now->key, .value = ~now->value};
	return set;
}
