// SPDX-License-Identifier: Apache-2.0
/* self_trace.c - of the collector's own series, those of traces. */
#include "collect/self/self.h"

static bool part(struct self *s, struct sl_series *out, const char *key, const char *const *names,
		 const uint64_t *values, size_t n)
{
	return s->at < n && self_label(s, out, key, names[s->at]) && self_u64(out, values[s->at]);
}

bool self_trace_read(struct self *s, struct sl_series *out)
{
	static const char *const names[] = {"heads", "roots", "index", "spans", "schema"};
	const struct sl_tracer_stats *t = &s->trace;
	const uint64_t values[] = {t->bytes_heads, t->bytes_roots, t->bytes_index, t->bytes_spans,
				   t->bytes_schema};

	return part(s, out, "part", names, values, sizeof(values) / sizeof(values[0]));
}

bool self_trace_lost(struct self *s, struct sl_series *out)
{
	static const char *const names[] = {"roots_overrun", "index_overrun", "overrun",
					    "unsettled",     "pod_gone",      "lies",
					    "unread",	     "memory",	      "evicted"};
	const struct sl_tracer_stats *t = &s->trace;
	const uint64_t values[] = {t->lost_roots,     t->lost_index,  t->lost_overrun,
				   t->lost_unsettled, t->lost_gone,   t->lost_lies,
				   t->lost_unread,    t->lost_memory, t->evicted};

	return part(s, out, "cause", names, values, sizeof(values) / sizeof(values[0]));
}

static bool by_reason(struct self *s, struct sl_series *out, const uint64_t *values)
{
	enum sl_trace_reason reason = (enum sl_trace_reason)s->at + 1;

	return reason < SL_TRACE_REASONS &&
	       self_label(s, out, "reason", sl_trace_reason_name(reason)) &&
	       self_u64(out, values[reason]);
}

bool self_trace_kept(struct self *s, struct sl_series *out)
{
	return by_reason(s, out, s->trace.kept);
}

bool self_trace_over_budget(struct self *s, struct sl_series *out)
{
	return by_reason(s, out, s->trace.over_budget);
}

bool self_trace_export(struct self *s, struct sl_series *out)
{
	static const char *const names[] = {"sent", "full",	"refused", "partial",
					    "old",  "stopping", "memory"};
	struct sl_otlp_stats o;

	return sl_tracer_export_stats(s->c->tracer, &o) &&
	       part(s, out, "outcome", names,
		    (uint64_t[]){o.push.sent_items, o.push.dropped_full, o.push.dropped_refused,
				 o.push.dropped_partial, o.push.dropped_old,
				 o.push.dropped_stopping, o.dropped_memory},
		    7);
}

bool self_trace_export_known(struct self *s, struct sl_series *out)
{
	struct sl_otlp_stats o;

	return sl_tracer_export_stats(s->c->tracer, &o) && self_single(s, out, o.known);
}

bool self_trace_export_retries(struct self *s, struct sl_series *out)
{
	struct sl_otlp_stats o;

	return sl_tracer_export_stats(s->c->tracer, &o) && self_single(s, out, o.push.retries);
}

bool self_trace_roots(struct self *s, struct sl_series *out)
{
	return self_single(s, out, s->trace.roots);
}

bool self_trace_published(struct self *s, struct sl_series *out)
{
	return self_single(s, out, s->trace.lines_published * SL_LINE_SIZE);
}

bool self_trace_spans(struct self *s, struct sl_series *out)
{
	return self_single(s, out, s->trace.spans_published);
}

bool self_trace_spans_read(struct self *s, struct sl_series *out)
{
	return self_single(s, out, s->trace.spans_kept);
}
