/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_TRACE_RINGS_H
#define SL_COLLECT_TRACE_RINGS_H

#include "collect/trace/fetch.h"

/* A run of spans of one trace in one ring. */
struct collect_trace_run {
	/* sequence number of the run's insertion, which shows whether a link to the run is valid */
	uint64_t sequence;
	uint64_t next; /* sequence of the previous run in the bucket; 0 means none */
	/* a reference is held; NULL means the pod is gone with its spans */
	struct collect_trace_pod *pod;
	uint64_t number;
	uint32_t ring, hash;
	uint8_t lines;
	uint64_t tick; /* tick of the insertion */
};

/*
 * Visits the runs of this hash that may belong to a trace of this duration that has just ended,
 * newest first. Hashes have 23 bits: at 10,000 runs per second, one short trace in 500 also visits
 * a run of another trace.
 */
void collect_trace_each_run(struct collect_tracer *t, uint32_t hash, uint64_t duration_ns,
			    void (*fn)(struct collect_tracer *, struct collect_trace_run *, void *),
			    void *arg);
void collect_trace_ask_heads(struct collect_tracer *t, struct collect_trace_pod *p);
collect_trace_take_fn collect_trace_take_heads;
collect_trace_take_fn collect_trace_take_roots;
collect_trace_take_fn collect_trace_take_index;

/* Returns true if the share of bytes that may be READ is not used up. */
bool collect_trace_may_read(const struct collect_tracer *t);
/*
 * Returns true if the share has room for `bytes` of spans, regardless of the size of their trace.
 */
bool collect_trace_may_read_spans(const struct collect_tracer *t, uint64_t bytes);

#endif
