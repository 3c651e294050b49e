/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_TRACE_RINGS_H
#define SL_COLLECT_TRACE_RINGS_H

#include "collect/trace/fetch.h"

/* A run of spans of one trace in one ring. */
struct collect_trace_run {
	uint64_t sequence;	       /* of its insertion; tells whether a link to it is valid */
	uint64_t next;		       /* sequence of the previous run of the bucket; 0: none */
	struct collect_trace_pod *pod; /* a reference is held; NULL: gone with its spans */
	uint64_t number;
	uint32_t ring, hash;
	uint8_t lines;
	uint64_t tick; /* of its insertion */
};

/*
 * Visits the runs of this hash that may belong to a trace of this duration that has just ended,
 * newest first. Hashes have 23 bits: at 10,000 runs per second, one short
 * trace in 500 sees a run of another.
 */
void collect_trace_each_run(struct collect_tracer *t, uint32_t hash, uint64_t duration_ns,
			    void (*fn)(struct collect_tracer *, struct collect_trace_run *, void *),
			    void *arg);
void collect_trace_ask_heads(struct collect_tracer *t, struct collect_trace_pod *p);
collect_trace_take_fn collect_trace_take_heads;
collect_trace_take_fn collect_trace_take_roots;
collect_trace_take_fn collect_trace_take_index;

/* The share of bytes that may be READ is not used up. */
bool collect_trace_may_read(const struct collect_tracer *t);
/* It has room for these, however large their trace is. */
bool collect_trace_may_read_spans(const struct collect_tracer *t, uint64_t bytes);

#endif
