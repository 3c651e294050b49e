/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_TRACE_KEPT_H
#define SL_COLLECT_TRACE_KEPT_H

#include "collect/read/hash.h"
#include "collect/trace/fetch.h"

struct collect_trace_pending;
struct collect_trace_run;

struct collect_trace_kept {
	struct collect_node node;
	struct collect_trace t;
	struct collect_trace_kept *open_next;
	struct collect_trace_kept *older, *newer;
	uint32_t outstanding;
	uint64_t since_ns, close_ns; /* CLOCK_MONOTONIC */
	bool open;
	bool notified; /* an anomaly has it */
	bool closed;   /* once: later spans are sent by themselves, unless ... */
	bool known;    /* ... the receiver has it from an earlier process */
	bool untidy;   /* spans were added since they were sorted */
	size_t bytes;
	char *text; /* of t.root and t.service, or NULL */
};

struct collect_trace_kept *collect_trace_kept_find(const struct collect_tracer *t, uint64_t hi,
						   uint64_t lo);
/* root: NULL if it was not seen. */
void collect_trace_keep(struct collect_tracer *t, uint64_t hi, uint64_t lo,
			enum act_trace_reason reason, const struct collect_trace_pending *root);
/* The root of a kept trace arrived later. */
void collect_trace_kept_root(struct collect_tracer *t, struct collect_trace_kept *k,
			     const struct collect_trace_pending *root);
/* A run was found: fetches it if its trace is kept or may have to be. */
void collect_trace_kept_run(struct collect_tracer *t, const struct collect_trace_run *run,
			    bool error);
/* The spans requested so far arrived. */
void collect_trace_kept_show(struct collect_tracer *t, struct collect_trace_kept *k);
collect_trace_take_fn collect_trace_take_spans;
/*
 * Sorts the spans and counts what depends on all of them. Any thread, under the lock. Out of
 * memory: the next call does it.
 */
void collect_trace_kept_tidy(struct collect_tracer *t, struct collect_trace_kept *k);
/* Closes traces that were open long enough. */
void collect_trace_close_some(struct collect_tracer *t, uint64_t now_ns);
void collect_trace_kept_free_all(struct collect_tracer *t);

#endif
