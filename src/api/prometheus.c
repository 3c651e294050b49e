// SPDX-License-Identifier: Apache-2.0
/*
 * prometheus.c - the Prometheus HTTP API (prometheus.io/docs/prometheus/latest/querying/api) over
 * the history: series, labels, and queries in the subset of promql.h. Responses and errors have
 * Prometheus' format.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "api/internal.h"
#include "api/promql.h"
#include "base/base.h"
#include "base/grow.h"
#include "base/number.h"

/* The version of Prometheus with which the tests compare this file's responses. */
#define PROMETHEUS_VERSION "2.42.0"

static void refuse_errno(struct http_request *req, int err, const char *why)
{
	if (err == -ENOMEM)
		http_reply_refused(req, 503, "unavailable", "out of memory");
	else if (err == -EINVAL)
		http_reply_refused(req, 400, "bad_data", why);
	else
		http_reply_refused(req, 422, "execution", *why ? why : api_select_failure(err));
}

/* Parameters */

/*
 * Parses a time. If the parameter is missing and not required, *ns stays unchanged. Returns false
 * after a 400 response.
 */
static bool param_time(struct http_request *req, const char *key, bool needed, int64_t *ns)
{
	const char *s = api_param_text(req, key);
	char why[128];

	if (s ? api_parse_time(s, ns) : !needed)
		return true;
	snprintf(why, sizeof(why),
		 "%s=%.40s: expected a time in Unix seconds or in RFC 3339 "
		 "format",
		 key, s ? s : "");
	http_reply_refused(req, 400, "bad_data", why);
	return false;
}

/* Series and labels */

struct prom_select {
	struct collect_collector *c;
	struct api_selected all;
	int64_t from_ns, to_ns; /* range that the client requests; unbounded by default */
	size_t given;
	int err;
	char error[256];
};

static bool add_match(void *arg, const char *key, const char *value)
{
	struct prom_select *p = arg;
	struct api_matchers m = {.n = 0};
	const char *end;

	if (strcmp(key, "match[]") && strcmp(key, "match"))
		return true;
	p->given++;
	end = api_matchers_parse(&m, value, p->error, sizeof(p->error));
	if (!end || *end)
		p->err = end ? base_fail(p->error, sizeof(p->error), -EINVAL,
					 "unexpected text after the selector: %.40s", end)
			     : -EINVAL;
	else
		p->err = api_select(&p->all, p->c, &m);
	api_matchers_free(&m);
	return !p->err;
}

/* Returns true if the series has a point in the requested time range. */
static bool has_points(const struct prom_select *p, const struct api_series *s)
{
	struct collect_point point;

	if (p->from_ns == INT64_MIN && p->to_ns == INT64_MAX)
		return true;
	return api_series_last(p->c, &p->all, s, p->from_ns, p->to_ns, &point) > 0;
}

/* Selects the series of a request. Returns false after an error response. */
static bool select_series(struct http_request *req, struct prom_select *p, bool needed)
{
	const int64_t now = (int64_t)base_realtime_ns();

	p->from_ns = INT64_MIN;
	p->to_ns = INT64_MAX;
	p->all.budget = http_budget(req);
	if (!param_time(req, "start", false, &p->from_ns) ||
	    !param_time(req, "end", false, &p->to_ns))
		return false;
	p->all.from_ns = p->from_ns == INT64_MIN ? now : p->from_ns;
	http_query_each(req, add_match, p);
	/*
	 * Grafana sends this request for all names and labels; buckets and ended pods would be too
	 * many.
	 */
	if (!p->given && !needed && !p->err) {
		p->all.few_buckets = true;
		p->all.from_ns = now;
		add_match(p, "match[]", "{__name__=~\".+\"}");
	}
	if (!p->given)
		http_reply_refused(req, 400, "bad_data", "no match[] parameter provided");
	else if (http_over_budget(req))
		; /* answered */
	else if (p->err)
		refuse_errno(req, p->err, p->error);
	else
		return true;
	api_selected_free(&p->all);
	return false;
}

static struct base_json *begin_success(struct http_request *req)
{
	struct base_json *j = api_answer(req);

	if (j)
		base_put(j, KV("status", "success"));
	return j;
}

static void put_text(struct base_json *j, const char *s, size_t n)
{
	char *text = api_copy_text(s, n);

	if (text)
		base_json_string(j, text);
	else
		j->overflow = true;
	free(text);
}

static void put_labels(struct base_json *j, const struct export_remote_series *of)
{
	struct api_label label;
	char name[SL_NAME_MAX + 1];

	base_json_begin(j, '{');
	for (size_t at = 0; api_series_label(of, &at, &label) && !j->overflow;) {
		snprintf(name, sizeof(name), "%.*s", (int)label.name_bytes, label.name);
		base_json_key(j, name);
		put_text(j, label.value, label.value_bytes);
	}
	base_json_end(j, '}');
}

static void get_series(struct http_request *req, void *arg)
{
	struct prom_select p = {.c = arg};
	struct base_json *j;

	if (!select_series(req, &p, true))
		return;
	j = begin_success(req);
	if (j) {
		base_json_kbegin(j, "data", '[');
		for (size_t i = 0; i < p.all.n && !j->overflow; i++)
			if (has_points(&p, &p.all.v[i]))
				put_labels(j, p.all.v[i].of);
		base_json_end(j, ']');
		api_answer_end(req, j);
	}
	api_selected_free(&p.all);
}

struct prom_texts { /* label names or values */
	struct prom_text {
		const char *s;
		size_t n;
	} * v;
	size_t n, room;
};

static int by_text(const void *a, const void *b)
{
	const struct prom_text *x = a, *y = b;
	const int order = memcmp(x->s, y->s, BASE_MIN(x->n, y->n));

	return order ? order : (x->n > y->n) - (x->n < y->n);
}

static void sort_unique(struct prom_texts *t)
{
	size_t kept = 0;

	if (!t->n)
		return;
	qsort(t->v, t->n, sizeof(*t->v), by_text);
	for (size_t i = 1; i < t->n; i++)
		if (by_text(&t->v[kept], &t->v[i]))
			t->v[++kept] = t->v[i];
	t->n = kept + 1;
}

/*
 * Collects all label names, or with `of` all values of that label. Returns false if out of memory.
 */
static bool gather_texts(const struct prom_select *p, const char *of, struct prom_texts *t)
{
	for (size_t i = 0; i < p->all.n; i++) {
		const struct api_series *s = &p->all.v[i];
		struct api_label label;

		if (!has_points(p, s))
			continue;
		for (size_t at = 0; api_series_label(s->of, &at, &label);) {
			if (of && (label.name_bytes != strlen(of) ||
				   memcmp(label.name, of, label.name_bytes)))
				continue;
			if (!BASE_GROW(t->v, t->n, t->room))
				return false;
			t->v[t->n++] = of ? (struct prom_text){label.value, label.value_bytes}
					  : (struct prom_text){label.name, label.name_bytes};
		}
		/* Remove duplicates early: consecutive series usually have the same labels. */
		if (t->n > 65536)
			sort_unique(t);
	}
	sort_unique(t);
	return true;
}

static void answer_texts(struct http_request *req, struct collect_collector *c, const char *of)
{
	struct prom_select p = {.c = c};
	struct prom_texts t = {.n = 0};
	struct base_json *j;

	if (!select_series(req, &p, false))
		return;
	if (!gather_texts(&p, of, &t)) {
		refuse_errno(req, -ENOMEM, "");
	} else {
		j = begin_success(req);
		if (j) {
			base_json_kbegin(j, "data", '[');
			for (size_t i = 0; i < t.n && !j->overflow; i++)
				put_text(j, t.v[i].s, t.v[i].n);
			base_json_end(j, ']');
			api_answer_end(req, j);
		}
	}
	free(t.v);
	api_selected_free(&p.all);
}

static void get_labels(struct http_request *req, void *arg)
{
	answer_texts(req, arg, NULL);
}

static void get_label_values(struct http_request *req, void *arg)
{
	const char *name = http_variable(req);
	const size_t n = strlen(name);

	/* The path ends in "NAME/values". */
	if (n > 7 && !strcmp(name + n - 7, "/values")) {
		char label[SL_NAME_MAX + 1];

		snprintf(label, sizeof(label), "%.*s", (int)(n - 7), name);
		answer_texts(req, arg, label);
	} else {
		http_reply_refused(req, 404, "not_found", "expected /api/v1/label/NAME/values");
	}
}

/* Metadata */

struct prom_metadata {
	struct base_json *j;
	const char *only; /* name of the only metric that the client wants, or NULL */
	uint64_t left;
};

/* Writes the metadata of a family. Returns false, so that none of its series is visited. */
static bool put_metadata(void *arg, const char *name, const struct region_metric *m)
{
	struct prom_metadata *p = arg;
	const bool is_count = region_is_histogram(m) || m->kind == SL_KIND_SUMMARY;
	char text[SL_NAME_MAX + 16];

	snprintf(text, sizeof(text), "%.*s", (int)(strlen(name) - (is_count ? 6 : 0)), name);
	if (!p->left || (p->only && strcmp(p->only, text)))
		return false;
	p->left--;
	base_json_kbegin(p->j, text, '[');
	base_put_object(p->j, NULL, KV("type", region_kind_name(m->kind)), KV("help", m->help),
			KV("unit", m->unit));
	base_json_end(p->j, ']');
	return false;
}

static void get_metadata(struct http_request *req, void *arg)
{
	struct prom_metadata p = {.only = api_param_text(req, "metric"), .left = UINT64_MAX};
	const struct collect_series_walk walk = {put_metadata, NULL, &p, 0, COLLECT_PARTS_NONE};

	if (!api_param_u64(req, "limit", 0, UINT64_MAX, &p.left))
		return;
	p.j = begin_success(req);
	if (!p.j)
		return;
	base_json_kbegin(p.j, "data", '{');
	collect_collector_series(arg, &walk);
	base_json_end(p.j, '}');
	api_answer_end(req, p.j);
}

/* Grafana uses the version to decide which requests it may send. */
static void get_buildinfo(struct http_request *req, void *arg)
{
	struct base_json *j = begin_success(req);

	(void)arg;
	if (!j)
		return;
	base_put_object(j, "data", KV("version", PROMETHEUS_VERSION),
			KV("revision", SL_VERSION_STRING), KV("branch", "sidelight"),
			KV("buildUser", ""), KV("buildDate", ""), KV("goVersion", ""));
	api_answer_end(req, j);
}

/* Queries */

static void put_pair(struct base_json *j, int64_t ns, const char *text)
{
	base_json_begin(j, '[');
	base_json_f64(j, (double)(ns / 1000000) / 1000);
	base_json_string(j, text);
	base_json_end(j, ']');
}

static void put_point(struct base_json *j, int64_t ns, double v)
{
	char text[BASE_NUMBER_MAX + 1];

	*base_print_f64(text, v) = 0;
	put_pair(j, ns, text);
}

/* Writes a number or a string, with the time of the query. */
static void put_scalar(struct base_json *j, const struct api_promql *q,
		       const struct api_promql_result *r, const struct api_promql_steps *steps)
{
	const bool is_text = q->root->type == API_PROMQL_TEXT;

	base_json_kbegin(j, "data", '{');
	base_put(j, KV("resultType", is_text ? "string" : "scalar"));
	base_json_key(j, "result");
	if (is_text)
		put_pair(j, steps->start_ns, q->root->text);
	else
		put_point(j, steps->start_ns, r->row->value[0]);
	base_json_end(j, '}');
}

static void put_result(struct base_json *j, const struct api_promql_result *r,
		       const struct api_promql_steps *steps, bool matrix)
{
	base_json_kbegin(j, "data", '{');
	base_put(j, KV("resultType", matrix ? "matrix" : "vector"));
	base_json_kbegin(j, "result", '[');
	for (size_t i = 0; i < r->n && !j->overflow; i++) {
		const struct api_promql_row *row = &r->row[i];

		base_json_begin(j, '{');
		base_json_key(j, "metric");
		put_labels(j, row->of);
		base_json_key(j, matrix ? "values" : "value");
		if (matrix)
			base_json_begin(j, '[');
		for (size_t k = 0; k < steps->n && !j->overflow; k++)
			if (row->has[k])
				put_point(j, steps->start_ns + (int64_t)k * steps->step_ns,
					  row->value[k]);
		if (matrix)
			base_json_end(j, ']');
		base_json_end(j, '}');
	}
	base_json_end(j, ']');
	base_json_end(j, '}');
}

static int by_value(const void *a, const void *b)
{
	const struct api_promql_row *x = a, *y = b;

	if (isnan(*x->value) || isnan(*y->value))
		return isnan(*x->value) - isnan(*y->value);
	return (*x->value > *y->value) - (*x->value < *y->value);
}

static int by_value_down(const void *a, const void *b)
{
	const struct api_promql_row *x = a, *y = b;

	return isnan(*x->value) || isnan(*y->value) ? by_value(a, b) : by_value(b, a);
}

/* sort(), sort_desc() and topk() order the rows of an instant query. */
static void sort_rows(const struct api_promql_node *n, struct api_promql_result *r)
{
	const bool is_down = n->kind == API_PROMQL_AGGREGATE
				     ? n->aggregation == API_PROMQL_BY_TOPK
				     : n->kind == API_PROMQL_CALL &&
					       api_promql_is_sort(n->function, true);
	const bool is_up = n->kind == API_PROMQL_AGGREGATE
				   ? n->aggregation == API_PROMQL_BY_BOTTOMK
				   : n->kind == API_PROMQL_CALL &&
					     api_promql_is_sort(n->function, false);

	if (r->n && (is_up || is_down))
		qsort(r->row, r->n, sizeof(*r->row), is_down ? by_value_down : by_value);
}

static int check_result(const struct api_promql *q, bool matrix, char *error, size_t error_bytes)
{
	if (q->root->type == API_PROMQL_MATRIX)
		return base_fail(
			error, error_bytes, -EINVAL,
			"a range selector must be the argument of a function, as in rate(x[1s]); "
			"/api/v1/history returns the raw points");
	if (q->root->type == API_PROMQL_TEXT && matrix)
		return base_fail(error, error_bytes, -EINVAL,
				 "a range query needs a vector or a scalar, not a string");
	return 0;
}

static void answer_query(struct http_request *req, struct collect_collector *c,
			 const struct api_promql_steps *steps, bool matrix)
{
	const char *text = api_param_text(req, "query");
	struct api_promql_result r = {.n = 0};
	struct api_promql q = {.n = 0};
	struct base_json *j = NULL;
	char error[256] = "";
	int err = api_promql_parse(&q, text ? text : "", error, sizeof(error));

	err = err ? err : check_result(&q, matrix, error, sizeof(error));
	if (!err && q.root->type != API_PROMQL_TEXT)
		err = api_promql_evaluate(&q, c, steps, http_budget(req), &r, error, sizeof(error));
	if (err && !http_over_budget(req)) {
		refuse_errno(req, err, error);
	} else if (!err) {
		if (!matrix)
			sort_rows(q.root, &r);
		j = begin_success(req);
	}
	if (j) {
		if (matrix || q.root->type == API_PROMQL_VECTOR)
			put_result(j, &r, steps, matrix);
		else
			put_scalar(j, &q, &r, steps);
		api_answer_end(req, j);
	}
	api_promql_result_free(&r);
	api_promql_free(&q);
}

static void get_query(struct http_request *req, void *arg)
{
	struct api_promql_steps s = {.start_ns = (int64_t)base_realtime_ns(), .n = 1};

	if (!param_time(req, "time", false, &s.start_ns))
		return;
	s.end_ns = s.start_ns;
	answer_query(req, arg, &s, false);
}

static void get_query_range(struct http_request *req, void *arg)
{
	const char *step = api_param_text(req, "step");
	struct api_promql_steps s;

	if (!param_time(req, "start", true, &s.start_ns) ||
	    !param_time(req, "end", true, &s.end_ns))
		return;
	if (!step || api_promql_duration(step, &s.step_ns)) {
		http_reply_refused(req, 400, "bad_data",
				   "step: expected a duration of at least 1ms, such as 10ms");
	} else if (s.end_ns < s.start_ns) {
		http_reply_refused(req, 400, "bad_data", "end is before start");
	} else if ((s.end_ns - s.start_ns) / s.step_ns >= API_PROMQL_STEPS) {
		http_reply_refused(req, 400, "bad_data",
				   "more than 11000 steps: use a longer step");
	} else {
		s.n = (size_t)((s.end_ns - s.start_ns) / s.step_ns) + 1;
		answer_query(req, arg, &s, true);
	}
}

int api_prometheus_register(struct http *http, struct collect_collector *c)
{
	static const struct {
		const char *path;
		http_handler handler;
	} paths[] = {
		{"/api/v1/series", get_series},
		{"/api/v1/labels", get_labels},
		{"/api/v1/label/{*}", get_label_values},
		{"/api/v1/query", get_query},
		{"/api/v1/query_range", get_query_range},
		{"/api/v1/metadata", get_metadata},
		{"/api/v1/status/buildinfo", get_buildinfo},
	};
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(paths) / sizeof(*paths); i++)
		err = http_route_query(http, paths[i].path, HTTP_READER, paths[i].handler, c);
	return err;
}
