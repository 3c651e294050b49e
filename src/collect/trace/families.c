// SPDX-License-Identifier: Apache-2.0
/* families.c - the collector's own series about traces */
#include <stddef.h>

#include "collect/read/self.h"
#include "collect/trace/internal.h"

#define OF_TRACER(label, field) OF(label, OWN, collect_tracer_stats, field)

static const struct collect_tracer_stats *stats_of(const struct collect_self *s)
{
	return s->own;
}

/* The family's counter is the first of an array by reason. */
static bool by_reason(struct collect_self *s, struct export_series *out)
{
	enum act_trace_reason reason = (enum act_trace_reason)s->at + 1;
	struct collect_self_counter n = *s->family->counter;

	if (reason >= ACT_TRACE_REASONS)
		return false;
	n.offset += reason * sizeof(uint64_t);
	return collect_self_label(s, out, "reason", act_trace_reason_name(reason)) &&
	       collect_self_u64(out, collect_self_sum(s, NULL, &n));
}

static bool trace_published(struct collect_self *s, struct export_series *out)
{
	return collect_self_single(s, out, stats_of(s)->lines_published * SL_LINE_SIZE);
}

/* ---- OTLP, if kept traces are sent ---- */

static bool trace_export(struct collect_self *s, struct export_series *out)
{
	return stats_of(s)->exports && collect_self_counters(s, out);
}

/* ---- the families ---- */

static const struct collect_self_family trace_families[] = {
	{"sidelight_trace_export_known", COUNTER, "",
	 "Traces not sent by OTLP because the receiver already has them.", .series = trace_export,
	 SINGLE(OF_TRACER(NULL, otlp.known))},
	{"sidelight_trace_export_retries", COUNTER, "", "OTLP requests retried.",
	 .series = trace_export, SINGLE(OF_TRACER(NULL, otlp.push.retries))},
	{"sidelight_trace_exported_spans", COUNTER, "", "Spans for OTLP, by outcome.",
	 .series = trace_export,
	 BY_LABEL("outcome", OF_TRACER("sent", otlp.push.sent_items),
		  OF_TRACER("full", otlp.push.dropped_full),
		  OF_TRACER("refused", otlp.push.dropped_refused),
		  OF_TRACER("partial", otlp.push.dropped_partial),
		  OF_TRACER("old", otlp.push.dropped_old),
		  OF_TRACER("stopping", otlp.push.dropped_stopping),
		  OF_TRACER("memory", otlp.dropped_memory))},
	{"sidelight_trace_kept", COUNTER, "", "Traces kept, by reason.", .series = by_reason,
	 SINGLE(OF_TRACER(NULL, kept[0]))},
	{"sidelight_trace_lost", COUNTER, "",
	 "Trace data lost, by cause, in lines of 64 bytes; the cause memory counts traces.",
	 BY_LABEL("cause", OF_TRACER("roots_overrun", lost_roots),
		  OF_TRACER("index_overrun", lost_index), OF_TRACER("overrun", lost_overrun),
		  OF_TRACER("unsettled", lost_unsettled), OF_TRACER("pod_gone", lost_gone),
		  OF_TRACER("bytes", lost_bytes), OF_TRACER("lies", lost_lies),
		  OF_TRACER("unread", lost_unread), OF_TRACER("memory", lost_memory),
		  OF_TRACER("evicted", evicted))},
	{"sidelight_trace_over_budget", COUNTER, "",
	 "Traces not kept because of the budget, by reason.", .series = by_reason,
	 SINGLE(OF_TRACER(NULL, over_budget[0]))},
	{"sidelight_trace_published_bytes", COUNTER, "bytes",
	 "Bytes of spans written by publishers, that is, what exporting all spans would cost.",
	 .series = trace_published},
	{"sidelight_trace_published_spans", COUNTER, "", "Spans that publishers wrote.",
	 SINGLE(OF_TRACER(NULL, spans_published))},
	{"sidelight_trace_read_bytes", COUNTER, "bytes", "Bytes read for tracing, by type of data.",
	 BY_LABEL("part", OF_TRACER("heads", bytes_heads), OF_TRACER("roots", bytes_roots),
		  OF_TRACER("index", bytes_index), OF_TRACER("spans", bytes_spans),
		  OF_TRACER("schema", bytes_schema))},
	{"sidelight_trace_read_spans", COUNTER, "", "Spans of kept traces.",
	 SINGLE(OF_TRACER(NULL, spans_kept))},
	{"sidelight_trace_roots", COUNTER, "", "Root spans examined.",
	 SINGLE(OF_TRACER(NULL, roots))},
};

/* Stores a snapshot of the statistics, which the rest of the walk uses. */
static bool trace_walk(struct collect_self *s)
{
	collect_tracer_stats(s->arg, s->own);
	return true;
}

const struct collect_part collect_tracer_part = {
	COLLECT_SELF_FAMILIES(trace),
	.walk_bytes = sizeof(struct collect_tracer_stats),
	.walk_begin = trace_walk,
	.trace_links = collect_tracer_links,
};
