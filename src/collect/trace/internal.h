/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - the tracer as its files see it. All state belongs to the tracer's thread, except
 * the list of kept traces and the queue of answers, which have a lock each.
 *
 * In every period it reads, of each pod with spans, the heads of its rings and by them the new
 * lines of roots and index. Index entries go into a table by the hash of their trace. A root is
 * decided on one period after it was read, when the index of the other pods was read, too. A kept
 * trace is fetched and shown as far as the table has it; it stays open for later entries and is
 * then sent. A span that comes after that opens it again and is sent by itself.
 */
#ifndef SL_COLLECT_TRACE_INTERNAL_H
#define SL_COLLECT_TRACE_INTERNAL_H

#include <pthread.h>

#include "collect/read/collector_internal.h"
#include "collect/read/exemplars.h"
#include "collect/trace/decide.h"
#include "collect/trace/rings.h"
#include "collect/trace/trace.h"

struct collect_trace_kept;

extern const struct collect_part collect_tracer_part; /* families.c */
/* Kept traces as exemplars: collect_part.trace_links. */
size_t collect_tracer_links(void *tracer, struct collect_trace_link *out);

#define TRACE_PERIOD_NS 100000000u
#define TRACE_RUNS	262144u /* runs of spans remembered */
#define TRACE_TRIES	4u	/* periods in which lines that do not settle are read again */
#define TRACE_BUCKETS	65536u
#define TRACE_PENDING	65536u

struct collect_tracer {
	struct collect_collector *c;
	struct collect_tracer_opts o;
	struct act_trace_policy *policy;
	uint64_t policy_lost;	  /* of its stats, counted so far */
	struct export_otlp *otlp; /* or NULL */
	uint64_t since_ns;	  /* CLOCK_REALTIME of its start */
	pthread_t thread;
	bool running;
	bool judged; /* there are verdicts */

	pthread_mutex_t queue_lock;
	pthread_cond_t queue_filled;
	struct collect_trace_request *queue;
	bool stop;

	struct collect_trace_pod *pods;
	struct collect_hash by_instance;
	uint64_t tick;
	struct collect_trace_request *again; /* to be repeated in the next period */
	size_t asked;			     /* bytes of spans in flight */
	uint64_t lines_asked;		     /* bytes of roots and index, so far */
	struct collect_trace_run run[TRACE_RUNS];
	struct region_span_data data; /* the span being parsed: too large for the stack */
	uint64_t sequence;	      /* of the next run; the first one is 1 */
	uint64_t bucket[TRACE_BUCKETS];
	struct collect_trace_pending pending[TRACE_PENDING];
	size_t pendings, decidable; /* the first of them, which are a period old */

	pthread_mutex_t lock; /* of kept traces and of the published stats */
	struct collect_trace_kept *newest, *oldest;
	struct collect_trace_kept *open;
	struct collect_hash by_id; /* by sl_span_hash() */
	uint32_t opens;
	struct collect_tracer_stats shown;

	struct collect_tracer_stats stats; /* the thread's own */
};

#endif
