// SPDX-License-Identifier: Apache-2.0
/* self_trace.c - of the collector's own series, those of traces. */
#include "collect/self/self.h"

static bool part(struct collect_self *s, struct export_series *out, const char *key,
		 const char *const *names, const uint64_t *values, size_t n)
{
	return s->at < n && collect_self_label(s, out, key, names[s->at]) &&
	       collect_self_u64(out, values[s->at]);
}

bool collect_self_trace_read(struct collect_self *s, struct export_series *out)
{
	static const char *const names[] = {"heads", "roots", "index", "spans", "schema"};
	const struct collect_tracer_stats *t = &s->trace;
	const uint64_t values[] = {t->bytes_heads, t->bytes_roots, t->bytes_index, t->bytes_spans,
				   t->bytes_schema};

	return part(s, out, "part", names, values, sizeof(values) / sizeof(values[0]));
}

bool collect_self_trace_lost(struct collect_self *s, struct export_series *out)
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

bool collect_self_trace_kept(struct collect_self *s, struct export_series *out)
{
	return by_reason(s, out, s->trace.kept);
}

bool collect_self_trace_over_budget(struct collect_self *s, struct export_series *out)
{
	return by_reason(s, out, s->trace.over_budget);
}

bool collect_self_trace_export(struct collect_self *s, struct export_series *out)
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

bool collect_self_trace_export_known(struct collect_self *s, struct export_series *out)
{
	struct export_otlp_stats o;

	return collect_tracer_export_stats(s->c->tracer, &o) &&
	       collect_self_single(s, out, o.known);
}

bool collect_self_trace_export_retries(struct collect_self *s, struct export_series *out)
{
	struct export_otlp_stats o;

	return collect_tracer_export_stats(s->c->tracer, &o) &&
	       collect_self_single(s, out, o.push.retries);
}

bool collect_self_trace_roots(struct collect_self *s, struct export_series *out)
{
	return collect_self_single(s, out, s->trace.roots);
}

bool collect_self_trace_published(struct collect_self *s, struct export_series *out)
{
	return collect_self_single(s, out, s->trace.lines_published * SL_LINE_SIZE);
}

bool collect_self_trace_spans(struct collect_self *s, struct export_series *out)
{
	return collect_self_single(s, out, s->trace.spans_published);
}

bool collect_self_trace_spans_read(struct collect_self *s, struct export_series *out)
{
	return collect_self_single(s, out, s->trace.spans_kept);
}
