/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - decides which finished traces to keep, for the reasons and within the budget of
 * docs/analytics.md ("Traces"). The live collector and the benchmarks use the same policy.
 * Pure: no clock, no I/O, no lock; not thread-safe.
 *
 * Medians are learned online, from logarithmic histograms with 16 steps per octave whose counts are
 * halved at 16384. They are accurate to 2 % at best, so traces starting at 4/5 of slow_factor are
 * doubtful.
 *
 * The account starts empty: errors are kept at once, slow traces starting with the fourth trace of
 * a root, others once traces have earned their share. From the start, at most budget * (n + window
 * / 2) traces are kept, and never more than budget * total if total is known. A decision depends
 * only on earlier traces, through the account and the medians. Reordering within a few hundred
 * traces changes medians by less than a step of the histogram, so while the budget lasts, the same
 * traces are kept.
 *
 * Memory: max_routes histograms of 1.2 KiB. A new route replaces the least recently used young one
 * (with fewer than 20 traces), or a known one if less than an eighth are young: names that occur
 * only once do not displace known routes.
 */
#ifndef SL_ACT_TRACE_H
#define SL_ACT_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum act_trace_reason {
	ACT_TRACE_NO = 0,
	ACT_TRACE_ERROR,
	ACT_TRACE_SLOW,
	ACT_TRACE_VERDICT,
	ACT_TRACE_HEAD,
	ACT_TRACE_REASONS,
};
const char *
act_trace_reason_name(enum act_trace_reason reason); /* returns "", "error", ...; static storage */

struct act_trace_policy_opts {
	double budget;	    /* share of traces that may be kept, 0 to 1 */
	double slow_factor; /* multiple of the median that counts as slow; 0 means 5 */
	/*
	 * A slow trace must also take at least slow_floor_ns, and exceed the median by slow_spread
	 * times the amount by which the route's 90th percentile does. 0 means no minimum.
	 */
	uint64_t slow_floor_ns;
	double slow_spread;
	double head; /* share of traces to keep regardless of reason, 0 to 1 */
	/*
	 * number of traces over which the account is balanced; 0 means total, or 10,000 if that is
	 * unknown
	 */
	uint64_t window;
	uint64_t total; /* number of traces in a recording; 0 means unknown */
	/*
	 * Decide about each trace when it starts, in the order of the starts; its duration and
	 * errors are not known then. The account may be overdrawn for a trace whose score is among
	 * the highest of the last 1024 (the share `budget` of them). In a recording (total > 0),
	 * verdicts on other pods and head sampling leave a reserve: half of the income so far, or
	 * half of the income still to come, whichever is less. With head = 2 budget, everything is
	 * thus spent by the end, and if verdicts carry no information, as many traces are kept as
	 * by head sampling alone.
	 */
	bool at_start;
	size_t max_routes; /* maximum number of routes; 0 means 4096 */
};

struct act_trace_policy;

/* Returns NULL with errno EINVAL (a share outside 0 to 1) or ENOMEM on failure. */
struct act_trace_policy *act_trace_policy_new(const struct act_trace_policy_opts *opts);
void act_trace_policy_free(struct act_trace_policy *p); /* accepts NULL */

/* Returns a key for traces with comparable durations: a hash, never 0. */
uint64_t act_trace_key(const char *text, size_t bytes);
/* Returns the key of a root and a set of participants in any order. Sorts keys. */
uint64_t act_trace_route(uint64_t root, uint64_t *keys, size_t n);

struct act_trace_facts {
	uint64_t root;	/* key of the root's service and name */
	uint64_t route; /* key of root and participants; 0 if the participants are unknown */
	/* lower half of the trace id, which is random (W3C trace context, level 2) */
	uint64_t trace_lo;
	uint64_t duration_ns;
	bool error;
	/* In multiples of the threshold, as known at the decision; 0 means no verdict. */
	double score;	  /* score of the root's pod during the trace */
	double others;	  /* highest score of all participating pods */
	double suspicion; /* sum of the suspicions of all participating pods */
	bool kept;	  /* already kept because of an error within it: only learn from it */
};

/* Learns from a trace and decides whether to keep it. Counts traces beyond the budget. */
enum act_trace_reason act_trace_decide(struct act_trace_policy *p, const struct act_trace_facts *f);

/* Spends budget on a trace known only by an error within it. Returns false if no budget is left. */
bool act_trace_afford(struct act_trace_policy *p, enum act_trace_reason reason);
/*
 * True if act_trace_afford() would succeed, before the trace is looked up. A result of false is
 * counted.
 */
bool act_trace_could_afford(struct act_trace_policy *p, enum act_trace_reason reason);

struct act_trace_policy_stats {
	uint64_t seen, kept[ACT_TRACE_REASONS], over_budget[ACT_TRACE_REASONS];
	uint64_t routes;  /* number of routes now */
	uint64_t evicted; /* number of routes replaced by others */
	uint64_t lost;	  /* number of durations not learned for lack of memory */
};
void act_trace_policy_stats(const struct act_trace_policy *p, struct act_trace_policy_stats *out);

#endif
