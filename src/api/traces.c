// SPDX-License-Identifier: Apache-2.0
/* traces.c - the list of kept traces, and single traces with their spans. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/internal.h"
#include "base/base.h"
#include "base/budget.h"
#include "base/grow.h"
#include "collect/trace/json.h"
#include "collect/trace/trace.h"

/* A list of traces or spans, and its budget. */
struct traces_answer {
	struct api_list list;
	struct base_budget *budget;
};

/* List of traces */

struct traces_query {
	const char *service, *root;
	int failed, by_duration;       /* failed: -1 means either */
	const char *attribute, *value; /* attribute is followed by "=" and the value */
	uint64_t least_ns;
	int64_t from_ns, to_ns;
	struct base_budget *budget;
	struct trace_found {
		uint64_t duration_ns, hi, lo;
	} * found;
	size_t n, room;
	bool no_memory;
};

static bool has_value(const struct export_otlp_attr *a, const char *value)
{
	char *end;

	switch (a->type) {
	case EXPORT_OTLP_STRING:
		return !strcmp(a->string, value);
	case EXPORT_OTLP_BOOL:
		return !strcmp(a->boolean ? "true" : "false", value);
	case EXPORT_OTLP_I64:
		return strtoll(value, &end, 10) == a->i64 && end != value && !*end;
	case EXPORT_OTLP_F64:
		return fabs(strtod(value, &end) - a->f64) <= 1e-9 * fabs(a->f64) && end != value &&
		       !*end;
	}
	return false;
}

static bool has_attribute(const struct traces_query *q, const struct collect_trace_span *s)
{
	size_t n = (size_t)(q->value - q->attribute) - 1;

	for (size_t i = 0; i < s->o.attr_count; i++) {
		const struct export_otlp_attr *a = &s->o.attrs[i];

		if (!strncmp(a->key, q->attribute, n) && !a->key[n] && has_value(a, q->value))
			return true;
	}
	return false;
}

/*
 * Returns true if the spans include the service and the attribute; they may be in different spans.
 */
static bool matches_spans(const struct traces_query *q, const struct collect_trace *t)
{
	bool service = !q->service || !strcmp(q->service, t->service), attribute = !q->attribute;

	for (const struct collect_trace_span *s = t->first;
	     s && !(service && attribute) && base_budget_spend(q->budget, 1); s = s->next) {
		service |= q->service && !strcmp(q->service, s->service);
		attribute |= q->attribute && has_attribute(q, s);
	}
	return service && attribute;
}

static bool find_one(const struct collect_trace *t, void *arg)
{
	struct traces_query *q = arg;

	if (!base_budget_spend(q->budget, 1))
		return false;
	if (t->duration_ns < q->least_ns || (q->failed >= 0 && t->error != q->failed) ||
	    (int64_t)(t->start_ns + t->duration_ns) < q->from_ns ||
	    (int64_t)t->start_ns > q->to_ns || (q->root && !strcasestr(t->root, q->root)) ||
	    !matches_spans(q, t))
		return true;
	q->no_memory = !BASE_GROW(q->found, q->n, q->room);
	if (q->no_memory)
		return false;
	q->found[q->n++] = (struct trace_found){t->duration_ns, t->trace_hi, t->trace_lo};
	return true;
}

static void put_found(const struct collect_trace *t, void *arg)
{
	struct api_list *l = arg;

	if (!api_item(l))
		return;
	collect_trace_put(l->j, t);
	api_item_end(l);
}

static bool param_query(struct http_request *req, struct traces_query *q)
{
	static const char *const statuses[] = {"ok", "failed"}, *const sorts[] = {"time",
										  "duration"};
	const char *least = api_param_text(req, "min_duration");

	q->service = api_param_text(req, "service");
	q->root = api_param_text(req, "root");
	q->attribute = api_param_text(req, "attribute");
	q->to_ns = INT64_MAX;
	q->budget = http_budget(req);
	if (!api_param_choice(req, "status", statuses, 2, &q->failed) ||
	    !api_param_choice(req, "sort", sorts, 2, &q->by_duration) ||
	    !api_param_time(req, "start", &q->from_ns) || !api_param_time(req, "end", &q->to_ns))
		return false;
	if (least && base_parse_duration(least, &q->least_ns)) {
		http_reply_error(req, 400, "min_duration=%.40s: expected a duration, such as 250ms",
				 least);
		return false;
	}
	q->value = q->attribute ? strchr(q->attribute, '=') : NULL;
	if (q->attribute && !q->value) {
		http_reply_error(req, 400, "attribute=%.40s: expected KEY=VALUE", q->attribute);
		return false;
	}
	if (q->value)
		q->value++;
	return true;
}

static int longest_first(const void *a, const void *b)
{
	return base_by_u64(b, a);
}

static void get_traces(struct http_request *req, void *arg)
{
	struct traces_query q = {.failed = -1};
	struct api_list list = {.limit = API_LIMIT_DEFAULT}, *l = &list;
	struct collect_tracer_stats stats;

	if (!api_param_u64(req, "limit", 0, API_LIMIT_MAX, &l->limit) || !param_query(req, &q))
		return;
	l->j = api_answer_begin(req);
	if (!l->j)
		return;
	collect_tracer_list(arg, find_one, &q);
	if (q.by_duration)
		qsort(q.found, q.n, sizeof(*q.found), longest_first);
	collect_tracer_stats(arg, &stats);
	l->j->overflow |= q.no_memory;
	base_json_kbegin(l->j, "traces", '[');
	for (size_t i = 0;
	     i < q.n && l->given < l->limit && !l->truncated && base_budget_spend(q.budget, 1); i++)
		collect_tracer_get(arg, q.found[i].hi, q.found[i].lo, put_found, l);
	base_json_end(l->j, ']');
	free(q.found);
	base_put(l->j, KV("matching", (uint64_t)q.n), KV("held", stats.held),
		 KV("roots", stats.roots), KV("spans_published", stats.spans_published),
		 KV("spans_read", stats.spans_kept),
		 KV("published_bytes", stats.lines_published * SL_LINE_SIZE),
		 KV("read_bytes", stats.bytes_heads + stats.bytes_roots + stats.bytes_index +
					  stats.bytes_spans + stats.bytes_schema),
		 KV("truncated", l->truncated));
	api_answer_end(req, l->j);
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
	struct base_json *j;
	uint64_t hi, lo;

	if (strlen(id) != 32 || strspn(id, "0123456789abcdef") != 32 ||
	    collect_instance_parse(id, 16, &hi) || collect_instance_parse(id + 16, 16, &lo)) {
		http_reply_error(req, 400,
				 "%.40s: a trace ID must have 32 lower-case hexadecimal "
				 "digits",
				 id);
		return;
	}
	j = to.list.j = api_answer(req);
	if (!j)
		return;
	if (!collect_tracer_get(arg, hi, lo, put_one, &to)) {
		api_drop(j);
		http_reply_error(req, 404, "no such trace: %.40s", id);
		return;
	}
	base_put(j, KV("truncated", to.list.truncated));
	api_answer_end(req, j);
}

int api_traces(struct http *http, struct collect_tracer *t)
{
	int err = http_route_costly(http, "GET", "/api/v1/traces", HTTP_READER, get_traces, t);

	return err
		       ?: http_route_costly(http, "GET", "/api/v1/traces/{}", HTTP_READER,
					    get_trace, t);
}
