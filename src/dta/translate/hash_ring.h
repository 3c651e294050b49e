/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash_ring.h - selects the collector for a key by consistent hashing (Karger et al., STOC 1997).
 * When a collector leaves, only its keys move; a new collector takes a share from each of the
 * others. Translators and queries agree if they list the same collectors, in any order.
 */
#ifndef SL_DTA_TRANSLATE_HASH_RING_H
#define SL_DTA_TRANSLATE_HASH_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DTA_HASH_RING_MEMBERS_MAX 64u
/* points per member: shares differ by about 8 % (1 / sqrt(160)) */
#define DTA_HASH_RING_POINTS 160u

struct dta_hash_ring {
	uint32_t members, points;
	struct dta_hash_ring_point {
		uint64_t at;
		uint32_t member;
	} point[DTA_HASH_RING_MEMBERS_MAX * DTA_HASH_RING_POINTS];
};

/*
 * Member i is names[i], as given on the command line. Returns 0, or -EINVAL if there are no names,
 * too many, or a duplicate.
 */
int dta_hash_ring_init(struct dta_hash_ring *r, const char *const *names, uint32_t n);
/*
 * Returns the ring position of a store's key. A sketch has the position of its store, without a
 * key.
 */
uint64_t dta_hash_ring_hash(uint16_t tenant, uint16_t store, const void *key, size_t bytes);
/*
 * Returns the next member on the ring that is up (bit i: member i), or DTA_HASH_RING_MEMBERS_MAX if
 * there is none.
 */
uint32_t dta_hash_ring_find(const struct dta_hash_ring *r, uint64_t hash, uint64_t up);

#endif
