/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loss_internal.h - internals shared by loss.c (reporters, packets, answers), loss_window.c (one
 * window) and loss_order.c (the newest report of each key)
 */
#ifndef SL_DTA_TRANSLATE_LOSS_INTERNAL_H
#define SL_DTA_TRANSLATE_LOSS_INTERNAL_H

#include <stdbool.h>
#include <sys/queue.h>

#include "base/table.h"
#include "dta/translate/loss.h"

struct dta_loss_gap {
	uint64_t due_ns;
	uint32_t first, count; /* count is at most a window */
	uint32_t named;	       /* number of requests */
};

/*
 * Reporters that share a quota: all reporters of a tenant (with authentication) or of an address
 * (without).
 */
struct dta_loss_group {
	struct base_node node;
	struct in6_addr id;
	uint32_t held;
};

/* The table of the reporters with authentication, or of those without. */
struct dta_loss_table {
	TAILQ_HEAD(dta_loss_ages, dta_loss_reporter) ages; /* by seen_ns, oldest first */
	struct base_table groups;			   /* of struct dta_loss_group */
	uint32_t reporters, orders;
};

/* A packet beyond the window that no other packet has confirmed yet. */
struct dta_loss_far {
	uint64_t since_ns;
	/* reports that the last jump forward declared lost, in case it is undone */
	uint64_t given_up;
	uint32_t first, count; /* count 0 means none */
};

struct dta_loss_reporter {
	struct base_node node; /* hash of the number; the newest incarnation comes first */
	/* address, port and input are taken from the last packet with new reports */
	struct dta_loss_key key;
	struct dta_loss_identity id;
	struct dta_loss_group *group;
	TAILQ_ENTRY(dta_loss_reporter) age;
	LIST_ENTRY(dta_loss_reporter) want; /* list of reporters that need an answer */
	struct dta_loss_gap *gap;
	uint64_t seen_ns; /* time of the last packet */
	uint64_t due_ns;  /* earliest due_ns of all gaps */
	uint32_t gaps, room;
	uint32_t top;	/* sequence number after the newest report */
	uint32_t reach; /* number of expected reports behind top, at most the window */
	uint32_t incarnation;
	uint64_t birth;	   /* serial number in order of creation */
	uint64_t since_ns; /* time of the first packet */
	/*
	 * time of the last dta_loss_list() that included the reporter, and number of reports that
	 * had arrived by then
	 */
	uint64_t listed_ns, listed;
	uint64_t contested_ns; /* time at which contested was set */
	uint64_t news_ns;      /* time of the last packet within the window */
	struct dta_loss_far far;
	/*
	 * joined in mid-sequence: reports between reach and the window are accepted but not
	 * expected
	 */
	bool joined;
	bool authenticated, acknowledge;
	bool wanting;	/* in the list of reporters that need an answer */
	bool contested; /* a later incarnation of this reporter number exists or existed */
	bool lives;	/* the incarnation was active long after a later one began */
	bool holed;	/* reports before hole may still arrive; they precede those after it */
	uint32_t hole;	/* a sequence number */
	struct dta_loss_order *order; /* NULL if not needed so far */
	uint8_t bits;
	struct dta_loss_stats s;
	uint64_t map[]; /* indexed by sequence % window */
};

struct dta_loss {
	struct dta_loss_opts o;
	struct base_table by_number;		/* of struct dta_loss_reporter */
	struct dta_loss_table table[2];		/* indexed by `authenticated` */
	LIST_HEAD(, dta_loss_reporter) wanting; /* reporters that need an answer */
	struct dta_loss_reporter *cursor;	/* where dta_loss_answer() continues */
	uint64_t seed, births;
	uint32_t numbers; /* number of reporters; all incarnations of a reporter count as one */
	/* the reporter that is getting a new window; NULL means none */
	const struct dta_loss_identity *restarting;
	struct dta_loss_stats gone; /* sums over forgotten reporters, and totals */
	/* reporter of the last packet; NULL if none of its reports was fresh */
	struct dta_loss_reporter *last;
	uint32_t last_old; /* number of reports in the last packet that were behind top */
};

static inline uint32_t dta_loss_modulo(const struct dta_loss_reporter *r, uint32_t sequence)
{
	return r->bits == 8 ? sequence & 0xff : sequence;
}

/*
 * Returns the distance behind top, where 1 is the newest report. A value above half the number
 * space means that sequence is ahead of top.
 */
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

/* Adds the reporter to the list of reporters that need an answer. */
void dta_loss_want(struct dta_loss *l, struct dta_loss_reporter *r);
/* Records the arrival of a missing or lost report. */
void dta_loss_fill(struct dta_loss_reporter *r, uint32_t sequence);
/* Advances top and gives up gaps that leave the window. */
void dta_loss_slide(struct dta_loss *l, struct dta_loss_reporter *r, uint32_t by);
/* Records that `ahead` reports were skipped and are missing. */
void dta_loss_skip(struct dta_loss *l, struct dta_loss_reporter *r, uint32_t ahead,
		   uint64_t now_ns);
/* Records that reports before top may still arrive. */
void dta_loss_hole(struct dta_loss_reporter *r);
void dta_loss_order_free(struct dta_loss *l, struct dta_loss_reporter *r);
void dta_loss_set_bits(uint64_t *map, uint32_t at, uint32_t count, bool value);
/* Sets or clears count bits starting at sequence, modulo the window. */
void dta_loss_map_range(struct dta_loss_reporter *r, uint32_t window, uint32_t sequence,
			uint32_t count, bool value);

#endif
