// SPDX-License-Identifier: Apache-2.0
/* traces.c - the list of kept traces, and one of them with its spans. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "api/api.h"
#include "api/internal.h"
#include "collect/trace/trace.h"

static void put_ids(struct base_json *j, uint64_t hi, uint64_t lo)
{
	char text[33];

	snprintf(text, sizeof(text), "%016llx%016llx", (unsigned long long)hi,
		 (unsigned long long)lo);
	base_json_kstring(j, "trace_id", text);
}

static void put_id(struct base_json *j, const char *key, uint64_t id)
{
	char text[17];

	snprintf(text, sizeof(text), "%016llx", (unsigned long long)id);
	base_json_kstring(j, key, id ? text : "");
}

static void put_trace(struct base_json *j, const struct collect_trace *t)
{
	put_ids(j, t->trace_hi, t->trace_lo);
	base_json_kstring(j, "reason", act_trace_reason_name(t->reason));
	base_json_kstring(j, "root", t->root);
	base_json_kstring(j, "service", t->service);
	api_time(j, "start", t->start_ns);
	base_json_kf64(j, "duration_seconds", (double)t->duration_ns * 1e-9);
	base_json_kbool(j, "error", t->error);
	base_json_ku64(j, "spans_read", t->spans);
	base_json_ku64(j, "pods", t->pods);
	base_json_ku64(j, "orphans", t->orphans);
	base_json_ku64(j, "lost_lines", t->lost_lines);
}

/* ---- the list ---- */

struct api_traces_list_walk {
	struct base_json *j;
	uint64_t limit, given;
	bool truncated;
};

static bool list_one(const struct collect_trace *t, void *arg)
{
	struct api_traces_list_walk *walk = arg;
	struct base_json_mark mark = base_json_mark(walk->j);

	if (walk->given == walk->limit)
		return false;
	base_json_begin(walk->j, '{');
	put_trace(walk->j, t);
	base_json_end(walk->j, '}');
	walk->truncated = !api_fits(walk->j, mark);
	walk->given += !walk->truncated;
	return !walk->truncated;
}

static void get_traces(struct http_request *req, void *arg)
{
	struct api_traces_list_walk walk = {.limit = API_LIMIT_DEFAULT};
	struct collect_tracer_stats stats;
	struct api_answer *a;

	if (!api_param_u64(req, "limit", 0, API_LIMIT_MAX, &walk.limit))
		return;
	a = api_answer_begin(req);
	if (!a)
		return;
	collect_tracer_stats(arg, &stats);
	walk.j = &a->json;
	base_json_kbegin(walk.j, "traces", '[');
	collect_tracer_list(arg, list_one, &walk);
	base_json_end(walk.j, ']');
	base_json_ku64(walk.j, "held", stats.held);
	base_json_ku64(walk.j, "roots", stats.roots);
	base_json_ku64(walk.j, "spans_published", stats.spans_published);
	base_json_ku64(walk.j, "spans_read", stats.spans_kept);
	base_json_ku64(walk.j, "published_bytes", stats.lines_published * SL_LINE_SIZE);
	base_json_ku64(walk.j, "read_bytes",
		       stats.bytes_heads + stats.bytes_roots + stats.bytes_index +
			       stats.bytes_spans + stats.bytes_schema);
	base_json_kbool(walk.j, "truncated", walk.truncated);
	api_answer_end(req, a);
}

/* ---- one ---- */

struct one_walk {
	struct base_json *j;
	bool truncated;
};

static void put_span(struct base_json *j, const struct collect_trace_span *s)
{
	static const char *const kinds[] = {"internal", "server", "client", "producer", "consumer"};
	static const char *const statuses[] = {"unset", "ok", "error"};

	base_json_begin(j, '{');
	put_id(j, "span_id", s->o.span_id);
	put_id(j, "parent_id", s->o.parent_id);
	base_json_kstring(j, "name", s->o.name);
	base_json_kstring(j, "service", s->service);
	base_json_kstring(j, "pod", s->pod);
	api_instance(j, s->instance);
	base_json_kstring(j, "kind", kinds[(s->o.kind - 1) % 5]);
	base_json_kstring(j, "status", statuses[s->o.status % 3]);
	base_json_kstring(j, "message", s->o.message);
	api_time(j, "start", s->o.start_ns);
	base_json_kf64(j, "duration_seconds", (double)s->duration_ns * 1e-9);
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
	base_json_end(j, '}');
}

static void put_one(const struct collect_trace *t, void *arg)
{
	struct one_walk *walk = arg;
	struct base_json *j = walk->j;

	put_trace(j, t);
	base_json_kbegin(j, "spans", '[');
	for (const struct collect_trace_span *s = t->first; s && !walk->truncated; s = s->next) {
		struct base_json_mark mark = base_json_mark(j);

		put_span(j, s);
		walk->truncated = !api_fits(j, mark);
	}
	base_json_end(j, ']');
}

static bool read_id(const char *text, uint64_t *hi, uint64_t *lo)
{
	char half[17] = "", *end;

	if (strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32)
		return false;
	memcpy(half, text, 16);
	*hi = strtoull(half, &end, 16);
	*lo = strtoull(text + 16, &end, 16);
	return true;
}

static void get_trace(struct http_request *req, void *arg)
{
	struct one_walk walk = {0};
	struct api_answer *a;
	uint64_t hi, lo;

	if (!read_id(http_variable(req), &hi, &lo)) {
		http_reply_error(req, 400, "%.40s: not a trace ID of 32 lower-case hex digits",
				 http_variable(req));
		return;
	}
	a = api_answer(req);
	if (!a)
		return;
	walk.j = &a->json;
	base_json_begin(walk.j, '{');
	if (!collect_tracer_get(arg, hi, lo, put_one, &walk)) {
		api_drop(a);
		http_reply_error(req, 404, "no such trace: %.40s", http_variable(req));
		return;
	}
	base_json_kbool(walk.j, "truncated", walk.truncated);
	api_answer_end(req, a);
}

int api_traces(struct http *http, struct collect_tracer *t)
{
	int err = http_route(http, "GET", "/api/v1/traces", get_traces, t);

	return err ? err : http_route(http, "GET", "/api/v1/traces/{}", get_trace, t);
}
