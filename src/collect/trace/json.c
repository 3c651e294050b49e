// SPDX-License-Identifier: Apache-2.0
#include "collect/trace/json.h"

#include <stdio.h>

void collect_trace_put(struct base_json *j, const struct collect_trace *t)
{
	char id[33];

	snprintf(id, sizeof(id), "%016llx%016llx", (unsigned long long)t->trace_hi,
		 (unsigned long long)t->trace_lo);
	base_put(j, KV("trace_id", id), KV("reason", act_trace_reason_name(t->reason)),
		 KV("root", t->root), KV("service", t->service), KV_TIME("start", t->start_ns),
		 KV("duration_seconds", (double)t->duration_ns * 1e-9), KV("error", t->error),
		 KV("spans_read", t->spans), KV("pods", t->pods), KV("orphans", t->orphans),
		 KV("lost_lines", t->lost_lines));
}

void collect_trace_put_span(struct base_json *j, const struct collect_trace_span *s)
{
	static const char *const kinds[] = {"internal", "server", "client", "producer", "consumer"};
	static const char *const statuses[] = {"unset", "ok", "error"};

	base_put(j, KV_ID("span_id", s->o.span_id), KV_ID("parent_id", s->o.parent_id),
		 KV("name", s->o.name), KV("service", s->service), KV("pod", s->pod),
		 KV_ID("instance", s->instance), KV("kind", kinds[(s->o.kind - 1) % 5]),
		 KV("status", statuses[s->o.status % 3]), KV("message", s->o.message),
		 KV_TIME("start", s->o.start_ns),
		 KV("duration_seconds", (double)s->duration_ns * 1e-9));
	base_json_kbegin(j, "attributes", '{');
	for (size_t i = 0; i < s->o.attr_count; i++) {
		const struct export_otlp_attr *a = &s->o.attrs[i];

		base_json_key(j, a->key);
		if (a->type == EXPORT_OTLP_STRING)
			base_json_string(j, a->string);
		else if (a->type == EXPORT_OTLP_F64)
			base_json_f64(j, a->f64);
		else if (a->type == EXPORT_OTLP_BOOL)
			base_json_bool(j, a->boolean);
		else
			base_json_i64(j, a->i64);
	}
	base_json_end(j, '}');
}
