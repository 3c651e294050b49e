// SPDX-License-Identifier: Apache-2.0
/* traces.c - the list of kept traces, and one of them with its spans. */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/internal.h"
#include "collect/trace/trace.h"

static void put_trace(struct base_json *j, const struct collect_trace *t)
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

/* ---- the list ---- */

static bool list_one(const struct collect_trace *t, void *arg)
{
	struct api_list *l = arg;

	if (!api_item(l))
		return false;
	put_trace(l->j, t);
	api_item_end(l);
	return !l->truncated;
}

static void get_traces(struct http_request *req, void *arg)
{
	struct api_list l = {.limit = API_LIMIT_DEFAULT};
	struct collect_tracer_stats stats;
	struct api_answer *a;

	if (!api_param_u64(req, "limit", 0, API_LIMIT_MAX, &l.limit))
		return;
	a = api_answer_begin(req);
	if (!a)
		return;
	collect_tracer_stats(arg, &stats);
	l.j = &a->json;
	API_EACH(l.j, "traces", collect_tracer_list, arg, list_one, &l);
	base_put(l.j, KV("held", stats.held), KV("roots", stats.roots),
		 KV("spans_published", stats.spans_published), KV("spans_read", stats.spans_kept),
		 KV("published_bytes", stats.lines_published * SL_LINE_SIZE),
		 KV("read_bytes", stats.bytes_heads + stats.bytes_roots + stats.bytes_index +
					  stats.bytes_spans + stats.bytes_schema),
		 KV("truncated", l.truncated));
	api_answer_end(req, a);
}

/* ---- one ---- */

static void put_span(struct base_json *j, const struct collect_trace_span *s)
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

static void put_one(const struct collect_trace *t, void *arg)
{
	struct api_list *l = arg;

	put_trace(l->j, t);
	base_json_kbegin(l->j, "spans", '[');
	for (const struct collect_trace_span *s = t->first; s && api_item(l); s = s->next) {
		put_span(l->j, s);
		api_item_end(l);
	}
	base_json_end(l->j, ']');
}

static void get_trace(struct http_request *req, void *arg)
{
	const char *id = http_variable(req);
	struct api_list l = {.limit = UINT64_MAX};
	struct api_answer *a;
	uint64_t hi, lo;

	if (strlen(id) != 32 || strspn(id, "0123456789abcdef") != 32 ||
	    collect_instance_parse(id, 16, &hi) || collect_instance_parse(id + 16, 16, &lo)) {
		http_reply_error(req, 400, "%.40s: not a trace ID of 32 lower-case hex digits", id);
		return;
	}
	a = api_answer(req);
	if (!a)
		return;
	l.j = &a->json;
	if (!collect_tracer_get(arg, hi, lo, put_one, &l)) {
		api_drop(a);
		http_reply_error(req, 404, "no such trace: %.40s", id);
		return;
	}
	base_put(l.j, KV("truncated", l.truncated));
	api_answer_end(req, a);
}

int api_traces(struct http *http, struct collect_tracer *t)
{
	int err = http_route(http, "GET", "/api/v1/traces", HTTP_READER, get_traces, t);

	return err ? err : http_route(http, "GET", "/api/v1/traces/{}", HTTP_READER, get_trace, t);
}
