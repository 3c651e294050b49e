/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credits.h - the number of reports that a reporter may have in flight. It is unlimited until a
 * worker's sockets overflow; then it is halved on each overflow, down to DTA_CREDITS_MIN, and
 * doubled after each 0.1 s without overflow. Pure functions; single-threaded.
 */
#ifndef SL_DTA_TRANSLATE_CREDITS_H
#define SL_DTA_TRANSLATE_CREDITS_H

#include <stdbool.h>
#include <stdint.h>

#define DTA_CREDITS_ANY	  ~0u
#define DTA_CREDITS_FIRST 2048u /* half of the window, so that reports in flight can't be late */
#define DTA_CREDITS_MIN	  64u
/* Minimum time between cuts, so that reporters have time to react. */
#define DTA_CREDITS_LESS_NS 10000000ull
#define DTA_CREDITS_MORE_NS 100000000ull

struct dta_credits { /* initially zero */
	uint64_t drops, changed_ns;
	uint32_t limit; /* 0 means unlimited */
};

/* drops: total drops of the sockets. Returns true if credits were cut. */
static inline bool dta_credits_look(struct dta_credits *c, uint64_t drops, uint64_t now_ns)
{
	const bool more = drops > c->drops;

	if (more && now_ns - c->changed_ns < DTA_CREDITS_LESS_NS)
		return false; /* the next call counts these drops */
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
