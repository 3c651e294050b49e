/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash_ring.h - which of several collectors has a key: consistent hashing (Karger et al., STOC
 * 1997), so that a collector that goes takes only its own keys along, and one that comes gets its
 * share from all. Who asks a query and who translates a report find the same one if they name the
 * collectors alike, in any order.
 */
#ifndef SL_DTA_TRANSLATE_HASH_RING_H
#define SL_DTA_TRANSLATE_HASH_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DTA_HASH_RING_MEMBERS_MAX 64u
#define DTA_HASH_RING_POINTS	  160u /* of a member: shares differ by some 8 % (1 / sqrt(160)) */

struct dta_hash_ring {
	uint32_t members, points;
	struct dta_hash_ring_point {
		uint64_t at;
		uint32_t member;
	} point[DTA_HASH_RING_MEMBERS_MAX * DTA_HASH_RING_POINTS];
};

/* Names as on the command line; member i is name i. -EINVAL: none, too many, one twice. */
int dta_hash_ring_init(struct dta_hash_ring *r, const char *const *names, uint32_t n);
/* Where something lies on the ring: of a store of a tenant, a key (sketches: the store alone, no
 * key). */
uint64_t dta_hash_ring_hash(uint16_t tenant, uint16_t store, const void *key, size_t bytes);
/* The member next on the ring of those that are up (bit i: member i); DTA_HASH_RING_MEMBERS_MAX:
 * none is. */
uint32_t dta_hash_ring_find(const struct dta_hash_ring *r, uint64_t hash, uint64_t up);

#endif
