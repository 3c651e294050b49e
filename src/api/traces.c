// SPDX-License-Identifier: Apache-2.0
/* api_traces.c - the traces that were kept, and one of them with its spans. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "api/api.h"
#include "api/internal.h"
#include "collect/trace/trace.h"

static void put_ids(struct sl_json *j, uint64_t hi, uint64_t lo)
{
	char text[33];

	snprintf(text, sizeof(text), "%016llx%016llx", (unsigned long long)hi,
		 (unsigned long long)lo);
	sl_json_kstring(j, "trace_id", text);
}

static void put_id(struct sl_json *j, const char *key, uint64_t id)
{
	char text[17];

	snprintf(text, sizeof(text), "%016llx", (unsigned long long)id);
	sl_json_kstring(j, key, id ? text : "");
}

static void put_trace(struct sl_json *j, const struct sl_trace *t)
{
	put_ids(j, t->trace_hi, t->trace_lo);
	sl_json_kstring(j, "reason", sl_trace_reason_name(t->reason));
	sl_json_kstring(j, "root", t->root);
	sl_json_kstring(j, "service", t->service);
	sl_api_time(j, "start", t->start_ns);
	sl_json_kf64(j, "duration_seconds", (double)t->duration_ns * 1e-9);
	sl_json_kbool(j, "error", t->error);
	sl_json_ku64(j, "spans_read", t->spans);
	sl_json_ku64(j, "pods", t->pods);
	sl_json_ku64(j, "orphans", t->orphans);
	sl_json_ku64(j, "lost_lines", t->lost_lines);
}

/* ---- the list -------------------------------------------------------------------------------------- */

struct list_walk {
	struct sl_json *j;
	uint64_t limit, given;
	bool truncated;
};

static bool list_one(const struct sl_trace *t, void *arg)
{
	struct list_walk *walk = arg;
	struct sl_json_mark mark = sl_json_mark(walk->j);

	if (walk->given == walk->limit)
		return false;
	sl_json_begin(walk->j, '{');
	put_trace(walk->j, t);
	sl_json_end(walk->j, '}');
	walk->truncated = !sl_api_fits(walk->j, mark);
	walk->given += !walk->truncated;
	return !walk->truncated;
}

static void get_traces(struct sl_http_request *req, void *arg)
{
	struct list_walk walk = {.limit = SL_API_LIMIT_DEFAULT};
	struct sl_tracer_stats stats;
	struct sl_api_answer *a;

	if (!sl_api_param_u64(req, "limit", 0, SL_API_LIMIT_MAX, &walk.limit))
		return;
	a = sl_api_answer(req);
	if (!a)
		return;
	sl_tracer_stats(arg, &stats);
	walk.j = &a->json;
	sl_json_begin(walk.j, '{');
	sl_json_ktime(walk.j, "time", (int64_t)sl_realtime_ns());
	sl_json_kbegin(walk.j, "traces", '[');
	sl_tracer_list(arg, list_one, &walk);
	sl_json_end(walk.j, ']');
	sl_json_ku64(walk.j, "held", stats.held);
	sl_json_ku64(walk.j, "roots", stats.roots);
	sl_json_ku64(walk.j, "spans_published", stats.spans_published);
	sl_json_ku64(walk.j, "spans_read", stats.spans_kept);
	sl_json_ku64(walk.j, "published_bytes", stats.lines_published * SL_LINE_SIZE);
	sl_json_ku64(walk.j, "read_bytes",
		     stats.bytes_heads + stats.bytes_roots + stats.bytes_index + stats.bytes_spans +
			     stats.bytes_schema);
	sl_json_kbool(walk.j, "truncated", walk.truncated);
	sl_json_end(walk.j, '}');
	sl_api_send(req, a);
}

/* ---- one ------------------------------------------------------------------------------------------- */

struct one_walk {
	struct sl_json *j;
	bool truncated;
};

static void put_span(struct sl_json *j, const struct sl_trace_span *s)
{
	static const char *const kinds[] = {"internal", "server", "client", "producer", "consumer"};
	static const char *const statuses[] = {"unset", "ok", "error"};

	sl_json_begin(j, '{');
	put_id(j, "span_id", s->span_id);
	put_id(j, "parent_id", s->parent_id);
	sl_json_kstring(j, "name", s->name);
	sl_json_kstring(j, "service", s->service);
	sl_json_kstring(j, "pod", s->pod);
	sl_api_instance(j, s->instance);
	sl_json_kstring(j, "kind", kinds[s->kind % 5]);
	sl_json_kstring(j, "status", statuses[s->status % 3]);
	sl_json_kstring(j, "message", s->message);
	sl_api_time(j, "start", s->start_ns);
	sl_json_kf64(j, "duration_seconds", (double)s->duration_ns * 1e-9);
	sl_json_kbegin(j, "attributes", '{');
	for (uint32_t i = 0; i < s->attr_count; i++) {
		const struct sl_trace_attr *a = &s->attrs[i];

		sl_json_key(j, a->key);
		if (a->type == SL_SPAN_TYPE_STRING)
			sl_json_string(j, a->string);
		else if (a->type == SL_SPAN_TYPE_F64)
			sl_json_f64(j, a->f64);
		else if (a->type == SL_SPAN_TYPE_BOOL)
			sl_json_bool(j, a->boolean);
		else
			sl_json_i64(j, a->i64);
	}
	sl_json_end(j, '}');
	sl_json_end(j, '}');
}

static void put_one(const struct sl_trace *t, void *arg)
{
	struct one_walk *walk = arg;
	struct sl_json *j = walk->j;

	put_trace(j, t);
	sl_json_kbegin(j, "spans", '[');
	for (const struct sl_trace_span *s = t->first; s && !walk->truncated; s = s->next) {
		struct sl_json_mark mark = sl_json_mark(j);

		put_span(j, s);
		walk->truncated = !sl_api_fits(j, mark);
	}
	sl_json_end(j, ']');
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

static void get_trace(struct sl_http_request *req, void *arg)
{
	struct one_walk walk = {0};
	struct sl_api_answer *a;
	uint64_t hi, lo;

	if (!read_id(sl_http_variable(req), &hi, &lo)) {
		sl_http_reply_error(req, 400, "%.40s: a trace id is 32 digits of lower-case hex",
				    sl_http_variable(req));
		return;
	}
	a = sl_api_answer(req);
	if (!a)
		return;
	walk.j = &a->json;
	sl_json_begin(walk.j, '{');
	if (!sl_tracer_get(arg, hi, lo, put_one, &walk)) {
		sl_api_drop(a);
		sl_http_reply_error(req, 404, "no such trace is kept: %.40s",
				    sl_http_variable(req));
		return;
	}
	sl_json_kbool(walk.j, "truncated", walk.truncated);
	sl_json_end(walk.j, '}');
	sl_api_send(req, a);
}

int sl_api_traces(struct sl_http *http, struct sl_tracer *t)
{
	int err = sl_http_route(http, "GET", "/api/v1/traces", get_traces, t);

	return err ? err : sl_http_route(http, "GET", "/api/v1/traces/{}", get_trace, t);
}
