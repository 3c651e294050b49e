// SPDX-License-Identifier: Apache-2.0
/* trace.c - the collector's own series about traces. */
#include <stddef.h>

#include "collect/self/self.h"

BY_LABEL(trace_read, "part", OF_WALK("heads", trace.bytes_heads),
	 OF_WALK("roots", trace.bytes_roots), OF_WALK("index", trace.bytes_index),
	 OF_WALK("spans", trace.bytes_spans), OF_WALK("schema", trace.bytes_schema))
BY_LABEL(trace_lost, "cause", OF_WALK("roots_overrun", trace.lost_roots),
	 OF_WALK("index_overrun", trace.lost_index), OF_WALK("overrun", trace.lost_overrun),
	 OF_WALK("unsettled", trace.lost_unsettled), OF_WALK("pod_gone", trace.lost_gone),
	 OF_WALK("bytes", trace.lost_bytes), OF_WALK("lies", trace.lost_lies),
	 OF_WALK("unread", trace.lost_unread), OF_WALK("memory", trace.lost_memory),
	 OF_WALK("evicted", trace.evicted))
BY_LABEL(sent_spans, "outcome", OF_WALK("sent", trace.otlp.push.sent_items),
	 OF_WALK("full", trace.otlp.push.dropped_full),
	 OF_WALK("refused", trace.otlp.push.dropped_refused),
	 OF_WALK("partial", trace.otlp.push.dropped_partial),
	 OF_WALK("old", trace.otlp.push.dropped_old),
	 OF_WALK("stopping", trace.otlp.push.dropped_stopping),
	 OF_WALK("memory", trace.otlp.dropped_memory))

static bool by_reason(struct collect_self *s, struct export_series *out, const uint64_t *values)
{
	enum act_trace_reason reason = (enum act_trace_reason)s->at + 1;

	return reason < ACT_TRACE_REASONS &&
	       collect_self_label(s, out, "reason", act_trace_reason_name(reason)) &&
	       collect_self_u64(out, values[reason]);
}

static bool trace_kept(struct collect_self *s, struct export_series *out)
{
	return by_reason(s, out, s->trace.kept);
}

static bool trace_over_budget(struct collect_self *s, struct export_series *out)
{
	return by_reason(s, out, s->trace.over_budget);
}

SINGLE(trace_roots, s->trace.roots)
SINGLE(trace_published, s->trace.lines_published *SL_LINE_SIZE)
SINGLE(trace_spans, s->trace.spans_published)
SINGLE(trace_spans_read, s->trace.spans_kept)

/* ---- OTLP, if kept traces are sent ---- */

static bool trace_export(struct collect_self *s, struct export_series *out)
{
	return s->trace.exports && sent_spans(s, out);
}

static bool trace_export_known(struct collect_self *s, struct export_series *out)
{
	return s->trace.exports && collect_self_single(s, out, s->trace.otlp.known);
}

static bool trace_export_retries(struct collect_self *s, struct export_series *out)
{
	return s->trace.exports && collect_self_single(s, out, s->trace.otlp.push.retries);
}

/* ---- the families ---- */

static bool trace_exposed(const struct collect_self *s)
{
	return s->c->tracer;
}

static const struct collect_self_family trace_families[] = {
	{"sidelight_trace_export_known", COUNTER, "",
	 "Traces not sent by OTLP because the receiver already has them.", trace_export_known},
	{"sidelight_trace_export_retries", COUNTER, "", "OTLP requests retried.",
	 trace_export_retries},
	{"sidelight_trace_exported_spans", COUNTER, "", "Spans for OTLP, by outcome.",
	 trace_export},
	{"sidelight_trace_kept", COUNTER, "", "Traces kept, by reason.", trace_kept},
	{"sidelight_trace_lost", COUNTER, "",
	 "Losses of traces, by cause, in lines of 64 bytes; for memory in traces.", trace_lost},
	{"sidelight_trace_over_budget", COUNTER, "",
	 "Traces not kept because of the budget, by reason.", trace_over_budget},
	{"sidelight_trace_published_bytes", COUNTER, "bytes",
	 "Bytes of spans that publishers wrote, the cost of exporting all of them.",
	 trace_published},
	{"sidelight_trace_published_spans", COUNTER, "", "Spans that publishers wrote.",
	 trace_spans},
	{"sidelight_trace_read_bytes", COUNTER, "bytes", "Bytes read for traces, by part.",
	 trace_read},
	{"sidelight_trace_read_spans", COUNTER, "", "Spans of kept traces.", trace_spans_read},
	{"sidelight_trace_roots", COUNTER, "", "Root spans examined.", trace_roots},
};

COLLECT_SELF_PART(trace, trace_exposed);
