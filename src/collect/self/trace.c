// SPDX-License-Identifier: Apache-2.0
/* trace.c - the collector's own series about traces. */
#include "collect/self/self.h"

static bool part(struct collect_self *s, struct export_series *out, const char *key,
		 const char *const *names, const uint64_t *values, size_t n)
{
	return s->at < n && collect_self_label(s, out, key, names[s->at]) &&
	       collect_self_u64(out, values[s->at]);
}

static bool trace_read(struct collect_self *s, struct export_series *out)
{
	static const char *const names[] = {"heads", "roots", "index", "spans", "schema"};
	const struct collect_tracer_stats *t = &s->trace;
	const uint64_t values[] = {t->bytes_heads, t->bytes_roots, t->bytes_index, t->bytes_spans,
				   t->bytes_schema};

	return part(s, out, "part", names, values, sizeof(values) / sizeof(values[0]));
}

static bool trace_lost(struct collect_self *s, struct export_series *out)
{
	static const char *const names[] = {"roots_overrun", "index_overrun", "overrun",
					    "unsettled",     "pod_gone",      "lies",
					    "unread",	     "memory",	      "evicted"};
	const struct collect_tracer_stats *t = &s->trace;
	const uint64_t values[] = {t->lost_roots,     t->lost_index,  t->lost_overrun,
				   t->lost_unsettled, t->lost_gone,   t->lost_lies,
				   t->lost_unread,    t->lost_memory, t->evicted};

	return part(s, out, "cause", names, values, sizeof(values) / sizeof(values[0]));
}

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

static bool trace_export(struct collect_self *s, struct export_series *out)
{
	static const char *const names[] = {"sent", "full",	"refused", "partial",
					    "old",  "stopping", "memory"};
	struct export_otlp_stats o;

	return collect_tracer_export_stats(s->c->tracer, &o) &&
	       part(s, out, "outcome", names,
		    (uint64_t[]){o.push.sent_items, o.push.dropped_full, o.push.dropped_refused,
				 o.push.dropped_partial, o.push.dropped_old,
				 o.push.dropped_stopping, o.dropped_memory},
		    7);
}

static bool trace_export_known(struct collect_self *s, struct export_series *out)
{
	struct export_otlp_stats o;

	return collect_tracer_export_stats(s->c->tracer, &o) &&
	       collect_self_single(s, out, o.known);
}

static bool trace_export_retries(struct collect_self *s, struct export_series *out)
{
	struct export_otlp_stats o;

	return collect_tracer_export_stats(s->c->tracer, &o) &&
	       collect_self_single(s, out, o.push.retries);
}

SINGLE(trace_roots, s->trace.roots)
SINGLE(trace_published, s->trace.lines_published *SL_LINE_SIZE)
SINGLE(trace_spans, s->trace.spans_published)
SINGLE(trace_spans_read, s->trace.spans_kept)

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
