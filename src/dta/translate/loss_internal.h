/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loss_internal.h - between loss.c (reporters, packets, answers), loss_window.c (one window) and
 * loss_order.c (the newest report of each key)
 */
#ifndef SL_DTA_TRANSLATE_LOSS_INTERNAL_H
#define SL_DTA_TRANSLATE_LOSS_INTERNAL_H

#include <stdbool.h>

#include "dta/translate/loss.h"

struct dta_loss_gap {
	uint64_t due_ns;
	uint32_t first, count; /* at most a window */
	uint32_t named;	       /* number of requests */
};

/* Reporters that share: of a tenant with authentication, or of an address without. */
struct dta_loss_group {
	struct dta_loss_group *chain;
	struct in6_addr id;
	uint64_t hash;
	uint32_t held;
};

/* A table: of reporters with authentication, or without. */
struct dta_loss_table {
	struct dta_loss_reporter *oldest, *youngest;
	struct dta_loss_group **group; /* l->buckets */
	uint32_t reporters, orders;
};

/* A packet beyond the window that no other has confirmed yet. */
struct dta_loss_far {
	uint64_t since_ns;
	uint64_t given_up;     /* by the last jump forward, in case it is taken back */
	uint32_t first, count; /* count 0: none */
};

struct dta_loss_reporter {
	struct dta_loss_key key; /* address, port, input: of the last packet with new reports */
	struct dta_loss_group *group;
	struct dta_loss_reporter *chain;	   /* next in its bucket */
	struct dta_loss_reporter *older, *younger; /* in order of the last packet */
	struct dta_loss_reporter *next,
		**link; /* in the list of those that need an answer; link NULL: not in it */
	struct dta_loss_gap *gap;
	uint64_t seen_ns, hash;
	uint64_t due_ns; /* when the first gap is due */
	uint32_t gaps, room;
	uint32_t top;	/* the sequence number after the newest */
	uint32_t reach; /* expected reports behind top, at most the window */
	uint32_t incarnation;
	uint64_t birth;		    /* its number in order of birth */
	uint64_t since_ns;	    /* of its first packet */
	uint64_t listed_ns, listed; /* the last list that had it, and what had arrived by then */
	uint64_t contested_ns;	    /* since when */
	uint64_t news_ns;	    /* of the last packet within the window */
	struct dta_loss_far far;
	/*
	 * Joined in mid-sequence: reports between reach and the window are not expected but taken.
	 */
	bool joined;
	bool authenticated, acknowledge;
	bool contested; /* its number has, or had, a later incarnation */
	bool lives;	/* it was heard long after a later one began */
	bool holed;	/* reports before hole may still come, and are older than those behind it */
	uint32_t hole;	/* a sequence number */
	struct dta_loss_order *order; /* NULL: not needed yet */
	uint8_t bits;
	struct dta_loss_stats s;
	uint64_t map[]; /* indexed by sequence % window */
};

struct dta_loss {
	struct dta_loss_opts o;
	struct dta_loss_reporter **bucket;
	struct dta_loss_table table[2];		    /* by authenticated */
	struct dta_loss_reporter *wanting, *cursor; /* where dta_loss_answer() continues */
	uint64_t seed, births;
	uint32_t numbers; /* reporters, of any incarnation */
	uint32_t buckets;
	const struct dta_loss_key *restarting; /* a number that gets a window; NULL: none */
	struct dta_loss_stats gone;	       /* of forgotten reporters, and totals */
	struct dta_loss_reporter *last; /* of the packet taken last; NULL: none of it was fresh */
	uint32_t last_old;		/* its reports behind top */
};

static inline uint32_t dta_loss_modulo(const struct dta_loss_reporter *r, uint32_t sequence)
{
	return r->bits == 8 ? sequence & 0xff : sequence;
}

/* The distance behind top: 1 is the newest; more than half the number space: ahead. */
static inline uint32_t dta_loss_behind(const struct dta_loss_reporter *r, uint32_t sequence)
{
	return dta_loss_modulo(r, r->top - sequence);
}

static inline uint32_t dta_loss_window_of(const struct dta_loss *l,
					  const struct dta_loss_reporter *r)
{
	return r->bits == 8 && l->o.window > 64 ? 64 : l->o.window;
}

static inline void dta_loss_give_up(struct dta_loss_reporter *r, uint64_t reports)
{
	r->s.missing -= reports;
	r->s.lost += reports;
}

/* Lists the reporter among those that need an answer. */
void dta_loss_want(struct dta_loss *l, struct dta_loss_reporter *r);
/* A missing or lost report arrived. */
void dta_loss_fill(struct dta_loss_reporter *r, uint32_t sequence);
/* Advances top; gives up what leaves the window. */
void dta_loss_slide(struct dta_loss *l, struct dta_loss_reporter *r, uint32_t by);
/* `ahead` reports were skipped: they are missing. */
void dta_loss_skip(struct dta_loss *l, struct dta_loss_reporter *r, uint32_t ahead,
		   uint64_t now_ns);
/* Reports before top may still come. */
void dta_loss_hole(struct dta_loss_reporter *r);
void dta_loss_order_free(struct dta_loss *l, struct dta_loss_reporter *r);
void dta_loss_set_bits(uint64_t *map, uint32_t at, uint32_t count, bool value);
/* Sets or clears count bits from sequence on, modulo the window. */
void dta_loss_map_range(struct dta_loss_reporter *r, uint32_t window, uint32_t sequence,
			uint32_t count, bool value);

#endif
