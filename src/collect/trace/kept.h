/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_TRACE_KEPT_H
#define SL_COLLECT_TRACE_KEPT_H

#include "base/table.h"
#include "collect/trace/fetch.h"

struct collect_trace_pending;
struct collect_trace_run;

struct collect_trace_kept {
	struct base_node node;
	struct collect_trace t;
	struct collect_trace_kept *open_next;
	struct collect_trace_kept *older, *newer;
	uint32_t outstanding;
	/* CLOCK_MONOTONIC when the trace was kept, and when to close it */
	uint64_t since_ns, close_ns;
	bool open;
	bool notified; /* an anomaly refers to the trace */
	bool closed;   /* closed once: later spans are sent separately */
	bool known;    /* an earlier process has sent the trace to the receiver */
	bool untidy;   /* spans were added since the last sort */
	size_t bytes;
	char *text; /* text of t.root and t.service, or NULL */
};

struct collect_trace_kept *collect_trace_kept_find(const struct collect_tracer *t, uint64_t hi,
						   uint64_t lo);
/* root is NULL if the root was not seen. */
void collect_trace_keep(struct collect_tracer *t, uint64_t hi, uint64_t lo,
			enum act_trace_reason reason, const struct collect_trace_pending *root);
/* Adds the root of a kept trace that arrived later. */
void collect_trace_kept_root(struct collect_tracer *t, struct collect_trace_kept *k,
			     const struct collect_trace_pending *root);
/* Called when a run was found: fetches the run if its trace is kept or may have to be kept. */
void collect_trace_kept_run(struct collect_tracer *t, const struct collect_trace_run *run,
			    bool error);
/* Called when the spans requested so far have arrived. */
void collect_trace_kept_show(struct collect_tracer *t, struct collect_trace_kept *k);
collect_trace_take_fn collect_trace_take_spans;
/*
 * Sorts the spans and computes the totals over them. Thread-safe with the lock held. If out of
 * memory, the next call tries again.
 */
void collect_trace_kept_tidy(struct collect_tracer *t, struct collect_trace_kept *k);
/* Closes the traces that have been open long enough. */
void collect_trace_close_some(struct collect_tracer *t, uint64_t now_ns);
void collect_trace_kept_free_all(struct collect_tracer *t);

#endif
