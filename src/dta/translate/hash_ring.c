/* SPDX-License-Identifier: Apache-2.0 */
/* hash_ring.c - consistent hashing (hash_ring.h) */
#include "dta/translate/hash_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "dta/store/hash.h"

static int by_place(const void *a, const void *b)
{
	const struct dta_hash_ring_point *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->member < y->member ? -1 : x->member > y->member;
}

int dta_hash_ring_init(struct dta_hash_ring *r, const char *const *names, uint32_t n)
{
	if (!n || n > DTA_HASH_RING_MEMBERS_MAX)
		return -EINVAL;
	r->members = n;
	r->points = 0;
	for (uint32_t i = 0; i < n; i++) {
		const uint64_t h = XXH3_64bits(names[i], strlen(names[i]));

		for (uint32_t k = 0; k < i; k++)
			if (!strcmp(names[k], names[i]))
				return -EINVAL;
		for (uint32_t p = 0; p < DTA_HASH_RING_POINTS; p++)
			r->point[r->points++] = (struct dta_hash_ring_point){dta_mix(h + p), i};
	}
	qsort(r->point, r->points, sizeof(*r->point), by_place);
	return 0;
}

uint64_t dta_hash_ring_hash(uint16_t tenant, uint16_t store, const void *key, size_t bytes)
{
	return XXH3_64bits_withSeed(key, bytes, (uint64_t)tenant << 16 | store);
}

uint32_t dta_hash_ring_find(const struct dta_hash_ring *r, uint64_t hash, uint64_t up)
{
	size_t low;

	BASE_LOWER_BOUND(low, 0, r->points, r->point[low].at < hash);
	for (uint32_t i = 0; i < r->points; i++) {
		const uint32_t member = r->point[(low + i) % r->points].member;

		if (up >> member & 1)
			return member;
	}
	return DTA_HASH_RING_MEMBERS_MAX;
}
