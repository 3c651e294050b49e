/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - the tracer: a thread that reads the roots and the index of all regions with spans
 * (sidelight-region(5)), about a hundredth of their bytes, decides by act/trace.h which traces to
 * keep, and only then READs the spans of these traces from every pod involved. It reads only
 * through collect_collector_regions() and collect_collector_fetch(); a slow host does not delay
 * others.
 */
#ifndef SL_COLLECT_TRACE_TRACE_H
#define SL_COLLECT_TRACE_TRACE_H

#include "act/trace.h"
#include "collect/read/collect.h"
#include "export/otlp.h"
#include "region/spans.h"

struct collect_tracer;
struct export_kafka;

struct collect_trace_span {
	struct collect_trace_span *next; /* next span by start */
	uint64_t instance;		 /* instance of the region the span was read from */
	struct export_otlp_span o;	 /* the span in the form that is sent */
	uint64_t duration_ns;
	bool sent; /* passed to the exporter, if traces are sent */
	const char *service, *pod;
	const char *owner; /* act_pod_name.owner of the pod */
	size_t bytes;
};

/* A kept trace. Valid during the callback. */
struct collect_trace {
	uint64_t trace_hi, trace_lo;
	enum act_trace_reason reason;
	const char *root, *service; /* "" if the root was not seen */
	uint64_t instance;	    /* instance of the root's region; 0 if the root was not seen */
	uint64_t start_ns, duration_ns;
	bool error; /* at least one span has an error */
	uint32_t spans, pods;
	uint32_t orphans;    /* spans other than the root whose parent is missing */
	uint32_t lost_lines; /* missing lines of known spans */
	const struct collect_trace_span *first;
};

struct collect_tracer_opts {
	/* delay before a trace is sent, for spans that end after the root; 0 means 1 s */
	uint64_t linger_ns;
	/* maximum memory of kept traces; the oldest are evicted first; 0 means 16 MiB */
	size_t memory;
	double bytes; /* maximum share of the published bytes to READ; 0 means no limit */
	struct act_trace_policy_opts policy;
	const char *otlp;	    /* URL to send kept traces to, or NULL */
	const char *otlp_config;    /* connection options as in http/client.h, or NULL */
	struct export_kafka *kafka; /* owned by the caller, and must outlive the tracer; or NULL */
	const char *otlp_sent;	    /* file that records the traces sent (sent.h), or NULL */
};

/*
 * Must be called before collect_collector_start(), once per collector. Returns NULL with a one-line
 * message in error.
 */
struct collect_tracer *collect_tracer_new(struct collect_collector *c,
					  const struct collect_tracer_opts *opts, char *error,
					  size_t error_bytes);
int collect_tracer_start(struct collect_tracer *t); /* returns 0 or -errno */
/* Stops fetching. Must be called before collect_collector_free(). */
void collect_tracer_stop(struct collect_tracer *t);
/* Must be called after collect_collector_free(), which answers the last fetches. t may be NULL. */
void collect_tracer_free(struct collect_tracer *t);

/* Visits the traces, newest first, while fn returns true. Thread-safe. */
void collect_tracer_list(struct collect_tracer *t, bool (*fn)(const struct collect_trace *, void *),
			 void *arg);
/* Visits one trace with its spans. Returns false if the trace is not kept. Thread-safe. */
bool collect_tracer_get(struct collect_tracer *t, uint64_t trace_hi, uint64_t trace_lo,
			void (*fn)(const struct collect_trace *, void *), void *arg);

/* Counters since startup, except where marked. */
struct collect_tracer_stats {
	uint64_t roots; /* number of roots read */
	/*
	 * spans published, as counted by the pods; of a pod that was older than a minute when it
	 * was found, only those that its rings still held
	 */
	uint64_t spans_published;
	uint64_t lines_published; /* the cost of exporting every span, in lines of 64 bytes */
	uint64_t kept[ACT_TRACE_REASONS], over_budget[ACT_TRACE_REASONS];
	uint64_t spans_kept;
	/* bytes READ by purpose */
	uint64_t bytes_heads, bytes_roots, bytes_index, bytes_spans, bytes_schema;
	uint64_t lost_roots, lost_index; /* lines overwritten before they were read */
	/* roots and lines of spans skipped because the share of bytes was used up */
	uint64_t lost_bytes;
	/*
	 * Lines of kept traces that were overwritten before they were read, never settled, or
	 * belonged to gone pods.
	 */
	uint64_t lost_overrun, lost_unsettled, lost_gone;
	uint64_t lost_lies;	   /* invalid lines, including those of roots and index */
	uint64_t lost_unread;	   /* lines beyond the limit of spans, or out of memory */
	uint64_t lost_memory;	   /* traces, roots and requests dropped for lack of memory */
	uint64_t evicted;	   /* number of kept traces evicted */
	uint64_t held, held_bytes; /* current number and size of kept traces */
	bool exports;		   /* kept traces are sent */
	struct export_otlp_stats otlp;
};
void collect_tracer_stats(struct collect_tracer *t, struct collect_tracer_stats *out);

#endif
