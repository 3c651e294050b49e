/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keep.h - which traces to keep, out of what is known when it is decided: the verdict of the pod
 * that users wait for, as it stood when the trace began, and, once the trace has ended, whether it
 * took long for what it did. Spans lie in memory at the pods until they are fetched, so nothing is
 * lost by waiting for the end. Knows neither spans nor files nor clocks.
 *
 * Latency: a trace is slow if it lasts over SL_SLOW_RATIO times the median of the normal traces that
 * visit the same set of pods. The median is of a histogram of the set's last ten thousand traces or
 * so; slow ones enter with probability 0.02 only: else a fault that lasts would soon be the median
 * itself. Traces between SL_DOUBT_RATIO and SL_SLOW_RATIO are kept while there is room.
 *
 * Verdict: the root pod's largest score of the last rows (the caller's) has to exceed 1, the
 * threshold of an alarm, and, while the budget is overdrawn, the (1 - budget) quantile of what the
 * last traces had, so that the worst are kept if there is too much.
 *
 * If less than half of the budget is spent, the score of any pod that the trace visited does as well.
 *
 * Budget: at most `budget` of the traces so far, plus a burst. Slow traces may use all of it; doubt
 * leaves the burst and a tenth, verdicts the burst and a fifth unless latency is off. Faults come in
 * bursts: an account that may not be overdrawn misses the first ones.
 */
#ifndef SL_ANALYSE_KEEP_H
#define SL_ANALYSE_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#define SL_KEEP_SETS 4096u /* sets of pods; more are not judged by latency, and counted */
#define SL_KEEP_SEEN 3u	   /* traces of a set before its median means anything */
#define SL_SLOW_RATIO 5.0f
#define SL_DOUBT_RATIO 4.0f

enum sl_keep_reason {
	SL_KEEP_NOT = 0,
	SL_KEEP_VERDICT,
	SL_KEEP_LATENCY,
};

struct sl_keep_opts {
	double budget;	 /* share of the traces, 0..1 */
	bool latency;	 /* false: verdicts alone */
	uint64_t burst;	  /* traces by which the budget may be overdrawn for a while */
	uint64_t at_most; /* kept traces in all; 0: no such bound */
	uint64_t seed;
};

struct sl_keep_trace {
	uint64_t pods;	   /* hash of the set of pods visited */
	uint64_t duration; /* ns */
	float score;	   /* of the root pod when it began; 0: unknown */
	float others;	   /* the largest of all pods that it visited, then */
};

struct sl_keeper;

/* NULL: errno EINVAL, ENOMEM. All memory is taken here, about 5 MiB when the sets are full. */
struct sl_keeper *sl_keeper_create(const struct sl_keep_opts *opts);
void sl_keeper_free(struct sl_keeper *k);
/* In the order in which they are decided: of their ends, or of their starts if latency is off. */
enum sl_keep_reason sl_keeper_decide(struct sl_keeper *k, const struct sl_keep_trace *t);
/* Traces whose set found no room. */
uint64_t sl_keeper_unjudged(const struct sl_keeper *k);

#endif
