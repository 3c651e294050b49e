/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - the tracer: a thread that reads the roots and the index of all regions with spans
 * (sidelight-region(5)), about a hundredth of their bytes, decides by act/trace.h which traces to
 * keep, and only then READs the spans of those from every pod involved. It reads only by
 * collect_collector_regions() and collect_collector_fetch(); a slow host delays no other.
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
	struct collect_trace_span *next; /* by start */
	uint64_t instance;		 /* of the region it was read from */
	struct export_otlp_span o;	 /* as it is sent */
	uint64_t duration_ns;
	bool sent; /* handed over for sending, if traces are sent */
	const char *service, *pod;
	size_t bytes;
};

/* A kept trace. Valid during the callback. */
struct collect_trace {
	uint64_t trace_hi, trace_lo;
	enum act_trace_reason reason;
	const char *root, *service; /* "" if the root was not seen */
	uint64_t instance;	    /* of the root's region; 0: the root was not seen */
	uint64_t start_ns, duration_ns;
	bool error; /* of any span */
	uint32_t spans, pods;
	uint32_t orphans;    /* spans whose parent is not among them, but for the root */
	uint32_t lost_lines; /* of known spans that are missing */
	const struct collect_trace_span *first;
};

struct collect_tracer_opts {
	uint64_t linger_ns; /* before a trace is sent, for spans that end after the root; 0: 1 s */
	size_t memory;	    /* of kept traces; the oldest are evicted first; 0: 16 MiB */
	double bytes;	    /* share of the published bytes to READ at most; 0: no limit */
	struct act_trace_policy_opts policy;
	const char *otlp;	    /* URL to send kept traces to, or NULL */
	const char *otlp_config;    /* how to connect: http/client.h; or NULL */
	struct export_kafka *kafka; /* or NULL: the caller's, which outlives the tracer */
	const char *otlp_sent;	    /* file that records the traces sent, or NULL: sent.h */
};

/* Before collect_collector_start(); one per collector. NULL: error has one line. */
struct collect_tracer *collect_tracer_new(struct collect_collector *c,
					  const struct collect_tracer_opts *opts, char *error,
					  size_t error_bytes);
int collect_tracer_start(struct collect_tracer *t); /* 0 or -errno */
/* Before collect_collector_free(): stops fetching. */
void collect_tracer_stop(struct collect_tracer *t);
/* After collect_collector_free(), which answers the last fetches. NULL is fine. */
void collect_tracer_free(struct collect_tracer *t);

/* Visits the traces, newest first, without their spans, while fn returns true. Any thread. */
void collect_tracer_list(struct collect_tracer *t, bool (*fn)(const struct collect_trace *, void *),
			 void *arg);
/* Visits one trace with its spans. False: it is not kept. Any thread. */
bool collect_tracer_get(struct collect_tracer *t, uint64_t trace_hi, uint64_t trace_lo,
			void (*fn)(const struct collect_trace *, void *), void *arg);

/* Counters since the start, except where marked. */
struct collect_tracer_stats {
	uint64_t roots;		  /* read */
	uint64_t spans_published; /* as the pods count them */
	uint64_t lines_published; /* the cost of exporting every span, in lines of 64 bytes */
	uint64_t kept[ACT_TRACE_REASONS], over_budget[ACT_TRACE_REASONS];
	uint64_t spans_kept;
	uint64_t bytes_heads, bytes_roots, bytes_index, bytes_spans, bytes_schema; /* READ */
	uint64_t lost_roots, lost_index; /* lines overrun before they were read */
	uint64_t lost_bytes;		 /* roots, or lines of spans, beyond the share of bytes */
	/* Lines of kept traces: overwritten before they were read; never settled; of gone pods. */
	uint64_t lost_overrun, lost_unsettled, lost_gone;
	uint64_t lost_lies;	   /* not valid, also among roots and index */
	uint64_t lost_unread;	   /* beyond the limit of spans, or out of memory */
	uint64_t lost_memory;	   /* traces, roots and requests without memory */
	uint64_t evicted;	   /* kept traces evicted */
	uint64_t held, held_bytes; /* now */
	bool exports;		   /* kept traces are sent */
	struct export_otlp_stats otlp;
};
void collect_tracer_stats(struct collect_tracer *t, struct collect_tracer_stats *out);

#endif
