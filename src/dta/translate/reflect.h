/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reflect.h - limits the bytes that a worker sends to unauthenticated addresses, which may be
 * forged: no more than arrived from the address, and no more than DTA_REFLECT_RATE per second.
 * Addresses that hash to the same place replace each other and start at zero. Pure functions;
 * single-threaded.
 */
#ifndef SL_DTA_TRANSLATE_REFLECT_H
#define SL_DTA_TRANSLATE_REFLECT_H

#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

#include "dta/store/hash.h"

#define DTA_REFLECT_PLACES 4096u
#define DTA_REFLECT_MOST   65536u     /* maximum credit in bytes per address */
#define DTA_REFLECT_RATE   (1u << 20) /* bytes per second and address */

struct dta_reflect { /* initially zero except for the seed */
	uint64_t seed;
	struct dta_reflect_place {
		uint64_t tag, second;
		uint32_t brought, spent;
	} place[DTA_REFLECT_PLACES];
};

/* Finds the place of an address; IPv6 addresses in the same 64-bit network share a place. */
static inline struct dta_reflect_place *
dta_reflect_find(struct dta_reflect *r, const struct in6_addr *address, uint64_t now_ns)
{
	const uint64_t tag = XXH3_64bits_withSeed(
		address, IN6_IS_ADDR_V4MAPPED(address) ? sizeof(*address) : 8, r->seed);
	struct dta_reflect_place *p = &r->place[tag % DTA_REFLECT_PLACES];

	if (p->tag != tag)
		*p = (struct dta_reflect_place){.tag = tag};
	if (p->second != now_ns / 1000000000) {
		p->second = now_ns / 1000000000;
		p->spent = 0;
	}
	return p;
}

static inline void dta_reflect_bring(struct dta_reflect *r, const struct in6_addr *address,
				     uint32_t bytes, uint64_t now_ns)
{
	struct dta_reflect_place *p = dta_reflect_find(r, address, now_ns);

	p->brought = p->brought + bytes < DTA_REFLECT_MOST ? p->brought + bytes : DTA_REFLECT_MOST;
}

/* Returns how many bytes may be sent to the address now. */
static inline uint32_t dta_reflect_room(struct dta_reflect *r, const struct in6_addr *address,
					uint64_t now_ns)
{
	const struct dta_reflect_place *p = dta_reflect_find(r, address, now_ns);
	const uint32_t left = DTA_REFLECT_RATE - p->spent;

	return p->brought < left ? p->brought : left;
}

/* bytes: at most what dta_reflect_room() returned. */
static inline void dta_reflect_spend(struct dta_reflect *r, const struct in6_addr *address,
				     uint32_t bytes, uint64_t now_ns)
{
	struct dta_reflect_place *p = dta_reflect_find(r, address, now_ns);

	p->brought -= bytes;
	p->spent += bytes;
}

#endif
