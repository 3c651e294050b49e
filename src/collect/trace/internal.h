/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - internal state of the tracer. All state belongs to the tracer's thread, except for
 * the list of kept traces and the queue of answers, which have a lock each.
 *
 * In every period, the tracer reads the ring heads of each pod with spans, and then the new lines
 * of roots and index that the heads announce. Index entries go into a table by the hash of their
 * trace. The decision on a root is made one period after the root was read, when the index of the
 * other pods has been read, too. The spans of a kept trace are fetched and shown as far as the
 * table lists them; the trace stays open for later entries and is then sent. A span that arrives
 * after that reopens the trace and is sent separately.
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
/* Lists kept traces as exemplars, for collect_part.trace_links. */
size_t collect_tracer_links(void *tracer, struct collect_trace_link *out);

#define TRACE_PERIOD_NS 100000000u
#define TRACE_RUNS	262144u /* number of span runs remembered */
#define TRACE_TRIES	4u	/* periods in which unsettled lines are read again */
#define TRACE_BUCKETS	65536u
#define TRACE_PENDING	65536u

struct collect_tracer {
	struct collect_collector *c;
	struct collect_tracer_opts o;
	struct act_trace_policy *policy;
	uint64_t policy_lost;	  /* the policy's lost counter, as last added to stats */
	struct export_otlp *otlp; /* OTLP exporter, or NULL */
	uint64_t since_ns;	  /* CLOCK_REALTIME when the tracer started */
	pthread_t thread;
	bool running;
	bool judged; /* an analysis with verdicts is attached */

	pthread_mutex_t queue_lock;
	pthread_cond_t queue_filled;
	struct collect_trace_request *queue;
	bool stop;

	struct collect_trace_pod *pods;
	struct base_table by_instance;
	uint64_t tick;
	struct collect_trace_request *again; /* requests to be repeated in the next period */
	size_t asked;			     /* bytes of spans in flight */
	uint64_t lines_asked;		     /* total bytes of roots and index requested */
	struct collect_trace_run run[TRACE_RUNS];
	struct region_span_data data; /* the span being parsed, which is too large for the stack */
	uint64_t sequence;	      /* sequence of the next run; the first run is 1 */
	uint64_t bucket[TRACE_BUCKETS];
	struct collect_trace_pending pending[TRACE_PENDING];
	size_t pendings, decidable; /* pending roots; the first `decidable` ones are a period old */

	pthread_mutex_t lock; /* protects the kept traces and the published stats */
	struct collect_trace_kept *newest, *oldest;
	struct collect_trace_kept *open;
	struct base_table by_id; /* kept traces by sl_span_hash() */
	uint32_t opens;
	struct collect_tracer_stats shown;

	struct collect_tracer_stats stats; /* updated only by the tracer's thread */
};

#endif
