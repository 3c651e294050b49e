// SPDX-License-Identifier: Apache-2.0
/* traces.c - the list of kept traces, and single traces with their spans. */
#include <string.h>

#include "api/api.h"
#include "api/internal.h"
#include "base/budget.h"
#include "collect/trace/json.h"
#include "collect/trace/trace.h"

/* A list of traces or spans, and its budget. */
struct traces_answer {
	struct api_list list;
	struct base_budget *budget;
};

/* List of traces */

static bool list_one(const struct collect_trace *t, void *arg)
{
	struct traces_answer *to = arg;
	struct api_list *l = &to->list;

	if (!base_budget_spend(to->budget, 1) || !api_item(l))
		return false;
	collect_trace_put(l->j, t);
	api_item_end(l);
	return !l->truncated;
}

static void get_traces(struct http_request *req, void *arg)
{
	struct traces_answer to = {.list.limit = API_LIMIT_DEFAULT, .budget = http_budget(req)};
	struct api_list *l = &to.list;
	struct collect_tracer_stats stats;
	struct api_answer *a;

	if (!api_param_u64(req, "limit", 0, API_LIMIT_MAX, &l->limit))
		return;
	a = api_answer_begin(req);
	if (!a)
		return;
	collect_tracer_stats(arg, &stats);
	l->j = &a->json;
	API_EACH(l->j, "traces", collect_tracer_list, arg, list_one, &to);
	base_put(l->j, KV("held", stats.held), KV("roots", stats.roots),
		 KV("spans_published", stats.spans_published), KV("spans_read", stats.spans_kept),
		 KV("published_bytes", stats.lines_published * SL_LINE_SIZE),
		 KV("read_bytes", stats.bytes_heads + stats.bytes_roots + stats.bytes_index +
					  stats.bytes_spans + stats.bytes_schema),
		 KV("truncated", l->truncated));
	api_answer_end(req, a);
}

/* Single trace */

static void put_one(const struct collect_trace *t, void *arg)
{
	struct traces_answer *to = arg;
	struct api_list *l = &to->list;

	collect_trace_put(l->j, t);
	base_json_kbegin(l->j, "spans", '[');
	for (const struct collect_trace_span *s = t->first;
	     s && base_budget_spend(to->budget, 1) && api_item(l); s = s->next) {
		collect_trace_put_span(l->j, s);
		api_item_end(l);
	}
	base_json_end(l->j, ']');
}

static void get_trace(struct http_request *req, void *arg)
{
	const char *id = http_variable(req);
	struct traces_answer to = {.list.limit = UINT64_MAX, .budget = http_budget(req)};
	struct api_answer *a;
	uint64_t hi, lo;

	if (strlen(id) != 32 || strspn(id, "0123456789abcdef") != 32 ||
	    collect_instance_parse(id, 16, &hi) || collect_instance_parse(id + 16, 16, &lo)) {
		http_reply_error(req, 400, "%.40s: a trace ID has 32 lower-case hex digits", id);
		return;
	}
	a = api_answer(req);
	if (!a)
		return;
	to.list.j = &a->json;
	if (!collect_tracer_get(arg, hi, lo, put_one, &to)) {
		api_drop(a);
		http_reply_error(req, 404, "no such trace: %.40s", id);
		return;
	}
	base_put(to.list.j, KV("truncated", to.list.truncated));
	api_answer_end(req, a);
}

int api_traces(struct http *http, struct collect_tracer *t)
{
	int err = http_route_costly(http, "GET", "/api/v1/traces", HTTP_READER, get_traces, t);

	return err
		       ?: http_route_costly(http, "GET", "/api/v1/traces/{}", HTTP_READER,
					    get_trace, t);
}
