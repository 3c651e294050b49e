/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credits.h - how many reports a reporter may have on the way: any, until a worker's sockets
 * overflow. Then half as many each time, down to CREDITS_MIN; and twice as many for each tenth of a
 * second without. Pure; one thread.
 */
#ifndef SL_DTA_TRANSLATE_CREDITS_H
#define SL_DTA_TRANSLATE_CREDITS_H

#include <stdbool.h>
#include <stdint.h>

#define DTA_CREDITS_ANY	  ~0u
#define DTA_CREDITS_FIRST 2048u /* half of a window: what is beyond it can't come late */
#define DTA_CREDITS_MIN	  64u
#define DTA_CREDITS_LESS_NS \
	10000000ull /* a reporter has to hear of it before it is told the next */
#define DTA_CREDITS_MORE_NS 100000000ull

struct dta_credits { /* zeroed at first */
	uint64_t drops, changed_ns;
	uint32_t limit; /* 0: any */
};

/* drops: of the sockets, so far. True: they were cut. */
static inline bool dta_credits_look(struct dta_credits *c, uint64_t drops, uint64_t now_ns)
{
	const bool more = drops > c->drops;

	if (more && now_ns - c->changed_ns < DTA_CREDITS_LESS_NS)
		return false; /* and counts at the next look */
	c->drops = drops;
	if (more) {
		c->limit = !c->limit			? DTA_CREDITS_FIRST
			   : c->limit > DTA_CREDITS_MIN ? c->limit / 2
							: DTA_CREDITS_MIN;
		c->changed_ns = now_ns;
	} else if (c->limit && now_ns - c->changed_ns >= DTA_CREDITS_MORE_NS) {
		c->limit = c->limit < DTA_CREDITS_FIRST ? 2 * c->limit : 0;
		c->changed_ns = now_ns;
	}
	return more;
}

static inline uint32_t dta_credits_now(const struct dta_credits *c)
{
	return c->limit ? c->limit : DTA_CREDITS_ANY;
}

#endif
