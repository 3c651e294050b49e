/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - which traces are worth keeping, decided when they are over. The one policy: the live
 * collector and `sidelight replay` both call it. Pure: no clock, no I/O, no memory of others, no
 * lock; one thread at a time.
 *
 * Reasons, the strongest first:
 *
 *   error    the root, or a span within (act_trace_afford()), has status error.
 *   slow     it lasted over slow_factor times the median of its route (the root's name and the set
 *            of services that took part), or of its root alone while the route is not known. From
 *            4/5 of that on it is kept while there is room: medians are right to 2 % at best.
 *   verdict  its root's pod, the one that users wait for, had a score above 1; or, while less than
 *            half of the budget is spent, any pod that it visited.
 *   head     a share of ids, the same ones in every collector.
 *
 * Medians are learned online, as histograms of logarithms with 16 steps an octave that forget (all
 * counts are halved at 16384). Of slow traces two in a hundred are learned, chosen by their ids:
 * else a fault that lasts would soon be the median itself.
 *
 * Budget. Each trace brings `budget` to an account, each that is kept takes one. Up to
 * budget * window is saved. Errors and slow ones may overdraw it by half of that, as faults come in
 * bursts; the others leave a share of what came in during the window: doubtful ones a tenth,
 * verdicts a quarter, head sampling and verdicts on other pods half. A hundredth of the budget is
 * the verdicts' own, so that no flood of errors takes all of it. So of any n traces in a row at
 * most budget * (n + 1.5 window) are kept, from the start at most budget * (n + window / 2).
 * If their number is known beforehand (total), at most budget * total are, in any case.
 *
 * At the start the account is empty: errors are kept at once, slow ones from the fourth trace of
 * a root on, the others when they have brought their own share.
 *
 * Order. What is decided depends on the traces before: on their number (account) and on the
 * medians. Nothing depends on anything else: no clock, no random state, not how facts are laid out
 * in memory. Traces that change places within a few hundred change medians by less than a step of
 * the histogram, so while the budget lasts the same ones are kept.
 *
 * Memory: max_routes histograms of 1.2 KiB. A route that is new takes the place of the young one
 * (of fewer than 20 traces) that was not seen for longest, or, if less than an eighth are young, of
 * the known one: names that come once do not drive out what is known of those that stay.
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
act_trace_reason_name(enum act_trace_reason reason); /* "", "error", ... static storage */

struct act_trace_policy_opts {
	double budget;	    /* share of traces that may be kept, 0 .. 1 */
	double slow_factor; /* 0: 5 */
	double head;	    /* share of traces to keep whatever they are, 0 .. 1 */
	uint64_t window;    /* of the account, in traces; 0: total, or 10,000 */
	uint64_t total;	    /* of a recording: how many there are; 0: not known */
	/*
	 * They are decided upon when they begin, in that order: durations and errors are not known.
	 * Verdicts may overdraw the account then, if they are among the worst `budget` of the last
	 * 1024 traces. Of a recording, verdicts on other pods and head sampling then leave half of
	 * what came in or of what is still to come, whichever is less, so that with head = 2 budget
	 * all is spent at its end: verdicts that say nothing keep as many of any traces as head
	 * sampling alone would.
	 */
	bool at_start;
	size_t max_routes; /* 0: 4096 */
};

struct act_trace_policy;

/* NULL: errno EINVAL (a share is none) or ENOMEM. */
struct act_trace_policy *act_trace_policy_new(const struct act_trace_policy_opts *opts);
void act_trace_policy_free(struct act_trace_policy *p); /* NULL is nothing */

/* Keys: what durations compare by. Any number but 0 will do, these are hashes. */
uint64_t act_trace_key(const char *text, size_t bytes);
/*
 * The key of a root and of the set of those that took part, whatever their order. Keys that are
 * there more than once count once; the array is sorted.
 */
uint64_t act_trace_route(uint64_t root, uint64_t *keys, size_t n);

struct act_trace_facts {
	uint64_t root;	   /* key of the root's service and name */
	uint64_t route;	   /* 0: not known who took part */
	uint64_t trace_lo; /* lower half of its id: random (W3C trace context, level 2) */
	uint64_t duration_ns;
	bool error;
	/* In thresholds, as far as known when it is decided; 0: no verdict. */
	double score;  /* of the root's pod, while the trace was under way */
	double others; /* the largest of all pods that took part */
	bool kept;     /* it is kept already, for an error within: it is only learned from */
};

/* Learns from it, and says whether to keep it. What the budget had no room for is counted. */
enum act_trace_reason act_trace_decide(struct act_trace_policy *p, const struct act_trace_facts *f);

/* A trace is to be kept that was seen by an error in the midst of it alone. False: no budget. */
bool act_trace_afford(struct act_trace_policy *p, enum act_trace_reason reason);
/* Is it worth to find out which trace that is? False is counted, as act_trace_afford() does. */
bool act_trace_could_afford(struct act_trace_policy *p, enum act_trace_reason reason);

struct act_trace_policy_stats {
	uint64_t seen, kept[ACT_TRACE_REASONS], over_budget[ACT_TRACE_REASONS];
	uint64_t routes;  /* known now */
	uint64_t evicted; /* routes that made place for others */
	uint64_t lost;	  /* durations that were not learned for want of memory */
};
void act_trace_policy_stats(const struct act_trace_policy *p, struct act_trace_policy_stats *out);

#endif
