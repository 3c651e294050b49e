/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_TRACE_DECIDE_H
#define SL_COLLECT_TRACE_DECIDE_H

#include "collect/trace/trace.h"

struct collect_trace_pod;

struct collect_trace_pending {
	struct collect_trace_pod *pod; /* a reference is held */
	const char *name;
	struct region_span_root root;
};

void collect_trace_decide(struct collect_tracer *t, const struct collect_trace_pending *p);
/*
 * Called when a span with status error was found without its root: keeps the trace if the budget
 * allows.
 */
void collect_trace_found_error(struct collect_tracer *t, const struct region_span_data *d);
/*
 * Attaches the trace to the anomalies of the pods that have one of these spans. since_ns: when the
 * trace was kept; complete: this is the last call for the trace. Called with the lock held. Returns
 * true if there was an anomaly.
 */
bool collect_trace_notify_verdicts(struct collect_tracer *t, const struct collect_trace *k,
				   uint64_t since_ns, bool complete);

#endif
