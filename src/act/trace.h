/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - which traces are worth keeping, decided when they are over, from what their roots say:
 * name, duration, status. Pure: no clock, no memory of others, no lock; one thread at a time.
 *
 * The latency of each root name is learned online, as a histogram of its logarithm that forgets:
 * when it holds 4096 durations all counts are halved. A trace is slow if it took longer than
 * slow_factor times the median of its name; of slow ones, one in fifty is learned. Buckets grow by
 * 2^(1/8), so that a median is right to 9 %; the threshold takes their lower bound, so that what is
 * over it is not missed.
 *
 * A budget bounds the share of traces that are kept: each trace brings `budget` tokens, each that
 * is kept takes one, and at most `burst` are saved up. Errors and slow traces may take the last
 * one; verdicts leave a quarter of the burst, head sampling half, to them.
 */
#ifndef SL_ACT_TRACE_H
#define SL_ACT_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sl_trace_reason {
	SL_TRACE_NO = 0,
	SL_TRACE_ERROR,   /* a span of it has status error */
	SL_TRACE_SLOW,    /* for its root's name */
	SL_TRACE_VERDICT, /* a pod that took part was anomalous */
	SL_TRACE_HEAD,    /* by its id alone */
	SL_TRACE_REASONS,
};
const char *sl_trace_reason_name(enum sl_trace_reason reason); /* "error", ... static storage */

struct sl_trace_policy_opts {
	double slow_factor; /* 0: 5 */
	uint32_t learn;     /* durations of a name before any is slow; 0: 20 */
	double budget;      /* share of traces, 0 .. 1; 0: 0.15 */
	double burst;       /* 0: 200 */
	double head;        /* share of traces to keep whatever they are, 0 .. 1 */
	size_t max_names;   /* 0: 4096; names beyond are taken for one */
};

struct sl_trace_policy;

struct sl_trace_policy *sl_trace_policy_new(const struct sl_trace_policy_opts *opts); /* or NULL */
void sl_trace_policy_free(struct sl_trace_policy *p);

struct sl_trace_facts {
	const char *name;    /* of the service and the root span, or whatever durations compare by */
	uint64_t trace_hi, trace_lo;
	uint64_t duration_ns;
	bool error, verdict;
};

/* Learns from it, and says whether to keep it. What the budget had no room for is counted. */
enum sl_trace_reason sl_trace_decide(struct sl_trace_policy *p, const struct sl_trace_facts *f);

/* A trace is kept that was seen by an error in the midst of it alone. False: no budget. */
bool sl_trace_afford(struct sl_trace_policy *p, enum sl_trace_reason reason);

/* Durations from here on are slow; UINT64_MAX: not learned yet. */
uint64_t sl_trace_slow_ns(const struct sl_trace_policy *p, const char *name);

struct sl_trace_policy_stats {
	uint64_t seen, kept[SL_TRACE_REASONS], over_budget[SL_TRACE_REASONS];
	uint64_t names, names_refused;
};
void sl_trace_policy_stats(const struct sl_trace_policy *p, struct sl_trace_policy_stats *out);

#endif
