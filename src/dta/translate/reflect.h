/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reflect.h - what a worker may send to addresses that prove nothing, as others can forge them: no
 * more bytes than came from there, and DTA_REFLECT_RATE a second. Addresses that fall into one
 * place replace each other, and begin with nothing. Pure; single-threaded.
 */
#ifndef SL_DTA_TRANSLATE_REFLECT_H
#define SL_DTA_TRANSLATE_REFLECT_H

#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

#include "dta/store/hash.h"

#define DTA_REFLECT_PLACES 4096u
#define DTA_REFLECT_MOST   65536u     /* bytes that came and are not answered yet */
#define DTA_REFLECT_RATE   (1u << 20) /* bytes per second and address */

struct dta_reflect { /* initially zero but for the seed */
	uint64_t seed;
	struct dta_reflect_place {
		uint64_t tag, second;
		uint32_t brought, spent;
	} place[DTA_REFLECT_PLACES];
};

/* IPv6: of a network of 64 bits. */
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

/* How many bytes may be sent there now. */
static inline uint32_t dta_reflect_room(struct dta_reflect *r, const struct in6_addr *address,
					uint64_t now_ns)
{
	const struct dta_reflect_place *p = dta_reflect_find(r, address, now_ns);
	const uint32_t left = DTA_REFLECT_RATE - p->spent;

	return p->brought < left ? p->brought : left;
}

/* At most as many as there is room for. */
static inline void dta_reflect_spend(struct dta_reflect *r, const struct in6_addr *address,
				     uint32_t bytes, uint64_t now_ns)
{
	struct dta_reflect_place *p = dta_reflect_find(r, address, now_ns);

	p->brought -= bytes;
	p->spent += bytes;
}

#endif
