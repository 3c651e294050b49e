// SPDX-License-Identifier: Apache-2.0
/*
 * group.c - groups all series of a metric by label values: sums, rates, and quantiles of the
 * combined observations of histograms. Each returned group is complete; groups that do not fit in
 * the time or the response are left out, and the response says so.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "api/selected.h"
#include "api/merge.h"
#include "base/base.h"
#include "base/budget.h"
#include "base/grow.h"

#define BY_MAX	       8u
#define SERIES_MAX     200000u
#define POINTS_DEFAULT 600
#define POINTS_MAX     2000
#define GROUPS_DEFAULT 100
#define GROUPS_MAX     1000
#define READ_POINTS    65536u
/*
 * Maximum time for which a value or rate stays valid until the next one; two steps if these are
 * longer.
 */
#define HOLD_NS 5000000000ll

enum group_fn { GROUP_SUM, GROUP_RATE, GROUP_AVG, GROUP_MAX, GROUP_MIN, GROUP_QUANTILE };
static const char *const functions[] = {"sum", "rate", "avg", "max", "min",
					"p50", "p75",  "p90", "p95", "p99"};
static const double quantiles[] = {0.5, 0.75, 0.9, 0.95, 0.99};

struct group_series {
	char *key; /* values of the labels, each NUL-terminated */
	size_t key_bytes;
	struct collect_series_ref of;
	uint32_t shape;
};

struct group_step {
	/* of the current series: time (0 if none) and value of the last point, and the growth */
	int64_t at_ns;
	double value, grown;
	/* of the group of that series: the result, and the number of values in it */
	double sum;
	uint32_t count;
};

struct group_query {
	struct collect_collector *c;
	const char *metric, *fn_name;
	enum group_fn fn;
	double q;
	char by_text[256];
	const char *by[BY_MAX];
	size_t bys;
	struct api_matchers matchers;
	char error[256];
	int err;
	struct api_steps steps;
	struct base_budget *budget;
	uint64_t begun_ns, limit;
	bool late; /* true if the time for further groups is used up */

	/* Result of the selection; its kind is the kind of the first series. */
	bool found;
	enum sl_metric_kind kind;
	bool counted; /* true if values of this kind are counts, which only grow */
	char unit[SL_NAME_MAX + 1];
	uint64_t others; /* number of series of another kind */
	struct group_series *series;
	size_t n, room;
	struct api_shape *shape;
	size_t shapes, shape_room;

	struct collect_chunks *chunks;
	struct collect_point *point;
	struct group_step *step; /* [steps.n + 1]; the first is before all steps */
};

/* Parameters */

/* Parses LABEL=VALUE, LABEL!=VALUE or LABEL=~REGEX. */
static bool add_matcher(struct group_query *g, const char *text)
{
	const char *equal = strchr(text, '=');
	const bool negated = equal && equal > text && equal[-1] == '!';
	enum api_match type = negated ? API_MATCH_NOT_EQUAL : API_MATCH_EQUAL;
	const char *value;

	if (!equal || equal - negated == text) {
		g->err = base_fail(
			g->error, sizeof(g->error), -EINVAL,
			"match=%.40s: expected LABEL=VALUE, LABEL!=VALUE or LABEL=~REGEX", text);
		return false;
	}
	value = equal + 1;
	if (!negated && *value == '~') {
		type = API_MATCH_RE;
		value++;
	}
	g->err = api_matchers_add(&g->matchers, type, text, (size_t)(equal - text) - negated, value,
				  strlen(value), g->error, sizeof(g->error));
	return !g->err;
}

static bool add_match(void *arg, const char *key, const char *value)
{
	return strcmp(key, "match") || !*value || add_matcher(arg, value);
}

static bool parse_by(struct http_request *req, struct group_query *g)
{
	const char *by = api_param_text(req, "by");
	char *rest = g->by_text, *name;

	if (!by)
		return true;
	if (strlen(by) >= sizeof(g->by_text)) {
		http_reply_error(req, 400, "by: at most %zu characters are allowed",
				 sizeof(g->by_text) - 1);
		return false;
	}
	strcpy(g->by_text, by);
	while ((name = strsep(&rest, ","))) {
		if (!*name || g->bys == BY_MAX) {
			http_reply_error(req, 400,
					 "by=%.80s: expected at most %u labels separated by commas",
					 by, BY_MAX);
			return false;
		}
		g->by[g->bys++] = name;
	}
	return true;
}

static bool parse_query(struct http_request *req, struct group_query *g)
{
	uint64_t points = POINTS_DEFAULT;
	int fn = GROUP_SUM;
	struct api_range range;

	g->limit = GROUPS_DEFAULT;
	g->metric = api_param_text(req, "metric");
	if (!g->metric) {
		http_reply_error(
			req, 400,
			"missing parameter metric=NAME, with a name as in /api/v1/metrics");
		return false;
	}
	if (!api_param_choice(req, "fn", functions, sizeof(functions) / sizeof(*functions), &fn) ||
	    !api_param_u64(req, "points", 1, POINTS_MAX, &points) ||
	    !api_param_u64(req, "limit", 1, GROUPS_MAX, &g->limit) ||
	    !api_param_range(req, 60000000000ull, &range) || !parse_by(req, g))
		return false;
	g->fn_name = functions[fn];
	g->fn = (enum group_fn)BASE_MIN(fn, (int)GROUP_QUANTILE);
	if (g->fn == GROUP_QUANTILE)
		g->q = quantiles[fn - GROUP_QUANTILE];
	http_query_each(req, add_match, g);
	if (g->err) {
		http_reply_error(req, g->err == -ENOMEM ? 503 : 400, "%s",
				 *g->error ? g->error : "out of memory");
		return false;
	}
	g->steps = api_steps(&range, points, g->fn == GROUP_QUANTILE ? API_OBSERVED_NS : 1000000);
	return true;
}

/* Selection */

static bool wants_family(void *arg, const char *name, const struct region_metric *m)
{
	const struct group_query *g = arg;

	return !strcmp(name, g->metric) || !strcmp(m->name, g->metric);
}

static bool note_shape(struct group_query *g, const struct region_metric *m, uint32_t *shape)
{
	for (size_t i = g->shapes; i-- > 0;)
		if (api_shape_is(&g->shape[i], m)) {
			*shape = (uint32_t)i;
			return true;
		}
	if (!BASE_GROW(g->shape, g->shapes, g->shape_room) || api_shape_of(&g->shape[g->shapes], m))
		return false;
	*shape = (uint32_t)g->shapes++;
	return true;
}

static bool is_counted(enum sl_metric_kind kind)
{
	return kind == SL_KIND_COUNTER || kind == SL_KIND_COUNTER_F64 || kind == SL_KIND_SUMMARY ||
	       kind == SL_KIND_HISTOGRAM || kind == SL_KIND_HISTOGRAM_EXP;
}

static bool add_series(void *arg, const struct collect_series_view *v)
{
	struct group_query *g = arg;
	struct group_series s = {.of = v->of};
	char *at;

	if (!base_budget_spend(g->budget, 0))
		return false;
	if (v->of.ended_ns && v->read_ns < g->steps.first_ns - g->steps.width_ns)
		return true; /* it ended before the first step */
	if (!api_matchers_labels(&g->matchers, v))
		return !g->matchers.too_costly;
	if (!g->found) {
		g->found = true;
		g->kind = v->m->kind;
		g->counted = is_counted(g->kind);
		snprintf(g->unit, sizeof(g->unit), "%s", v->m->unit);
	}
	if (strcmp(region_kind_name(v->m->kind), region_kind_name(g->kind))) {
		g->others++;
		return true;
	}
	if (g->n == SERIES_MAX) {
		g->err = -E2BIG;
		return false;
	}
	for (size_t i = 0; i < g->bys; i++)
		s.key_bytes += strlen(api_label_of(v, g->by[i])) + 1;
	s.key = malloc(s.key_bytes + 1);
	if (!s.key || !BASE_GROW(g->series, g->n, g->room) ||
	    (region_is_histogram(v->m) && !note_shape(g, v->m, &s.shape))) {
		free(s.key);
		g->err = -ENOMEM;
		return false;
	}
	at = s.key;
	for (size_t i = 0; i < g->bys; i++)
		at = stpcpy(at, api_label_of(v, g->by[i])) + 1;
	g->series[g->n++] = s;
	return true;
}

static int by_key(const void *a, const void *b)
{
	const struct group_series *x = a, *y = b;
	const int order = memcmp(x->key, y->key, BASE_MIN(x->key_bytes, y->key_bytes));

	return order ? order : (x->key_bytes > y->key_bytes) - (x->key_bytes < y->key_bytes);
}

/* Keeps the series of a region together, so that their common data is read only once. */
static int by_key_and_region(const void *a, const void *b)
{
	const struct group_series *x = a, *y = b;
	const int order = by_key(a, b);

	if (order)
		return order;
	if (x->of.instance != y->of.instance)
		return x->of.instance < y->of.instance ? -1 : 1;
	return (x->of.metric > y->of.metric) - (x->of.metric < y->of.metric);
}

static bool is_bucketed(enum sl_metric_kind kind)
{
	return region_is_histogram(&(struct region_metric){.kind = kind});
}

/* Returns false after an error response. */
static bool select_series(struct http_request *req, struct group_query *g)
{
	const struct collect_series_walk walk = {wants_family, add_series, g,
						 g->steps.first_ns - g->steps.width_ns,
						 COLLECT_PARTS_NONE};
	const int err = collect_collector_series(g->c, &walk);

	g->err = g->err ? g->err : err;
	if (http_over_budget(req))
		return false;
	if (g->err || g->matchers.too_costly) {
		if (g->err == -ENOMEM)
			http_reply_error(req, 503, "out of memory");
		else
			http_reply_error(
				req, 400,
				g->err ? "more than %u series: narrow the selection with match"
				       : "match: the regular expression is too expensive to "
					 "evaluate",
				SERIES_MAX);
	} else if (!g->found) {
		http_reply_error(req, 404, "no such metric: %.200s", g->metric);
	} else if (g->fn == GROUP_QUANTILE && !is_bucketed(g->kind)) {
		http_reply_error(req, 400, "fn=%s: %.80s is a %s, not a histogram", g->fn_name,
				 g->metric, region_kind_name(g->kind));
	} else if (g->fn == GROUP_RATE && !g->counted) {
		http_reply_error(req, 400, "fn=rate: %.80s is a %s, not a counter", g->metric,
				 region_kind_name(g->kind));
	} else {
		if (g->n)
			qsort(g->series, g->n, sizeof(*g->series), by_key_and_region);
		return true;
	}
	return false;
}

/* Functions that compute one series per step. */

static int64_t hold_ns(const struct group_query *g)
{
	return BASE_MAX(HOLD_NS, 2 * g->steps.width_ns);
}

/*
 * Finds the step of each point, given points from the newest to the oldest, without a division per
 * point.
 */
struct group_place {
	struct group_step *step;
	int64_t after_ns; /* exclusive start of the step */
};

static struct group_step *go_back(const struct group_query *g, struct group_place *at, int64_t ns)
{
	while (at->step > g->step && ns <= at->after_ns) {
		at->step--;
		at->after_ns -= g->steps.width_ns;
	}
	return at->step;
}

/* Records a point. Points arrive newest first. */
static void take_value(const struct group_query *g, struct group_step *to,
		       const struct collect_point *p)
{
	if (isnan(p->value))
		return;
	if (!to->at_ns) {
		to->at_ns = p->ns;
		to->value = p->value;
	} else if (to > g->step && (g->fn == GROUP_MAX || g->fn == GROUP_MIN) && !g->counted) {
		to->value = g->fn == GROUP_MAX ? fmax(to->value, p->value)
					       : fmin(to->value, p->value);
	}
}

/* Reads a series. Returns false if the time is used up. */
static bool read_series(struct group_query *g, const struct group_series *s)
{
	const int64_t from = g->steps.first_ns - g->steps.width_ns - hold_ns(g);
	const int64_t last = api_step_ns(&g->steps, g->steps.n - 1);
	struct group_place at = {&g->step[g->steps.n], last - g->steps.width_ns};
	double next = NAN; /* value of the point that follows, in step next_step */
	struct group_step *next_step = g->step;
	int64_t to = last;
	ssize_t n;

	for (size_t i = 0; i <= g->steps.n; i++)
		g->step[i].at_ns = g->step[i].grown = 0;
	do {
		if (api_is_late(g->begun_ns) || !base_budget_spend(g->budget, 0))
			return false;
		n = collect_collector_history_again(g->c, g->chunks, &s->of, from, to, g->point,
						    READ_POINTS, g->budget);
		for (ssize_t i = n; i-- > 0;) {
			const struct collect_point *p = &g->point[i];
			struct group_step *step = go_back(g, &at, p->ns);

			if (p->ns > to)
				continue;
			take_value(g, step, p);
			/* A total that fell was reset to 0. */
			if (g->counted && next_step > g->step)
				next_step->grown += next >= p->value ? next - p->value : next;
			next = p->value;
			next_step = step;
		}
		if (n > 0)
			to = g->point[0].ns - 1;
	} while (n == READ_POINTS);
	return true;
}

/* Adds a value of a series to its group. */
static inline void fold_value(const struct group_query *g, struct group_step *to, double v)
{
	const bool first = !to->count++;

	if (g->fn != GROUP_MAX && g->fn != GROUP_MIN)
		to->sum += v;
	else if (first)
		to->sum = v;
	else
		to->sum = g->fn == GROUP_MAX ? fmax(to->sum, v) : fmin(to->sum, v);
}

static void fold_series(struct group_query *g)
{
	const int64_t hold = hold_ns(g);
	struct group_step *last = g->step; /* the last step with a point */

	for (size_t i = 0; i < g->steps.n; i++) {
		struct group_step *here = &g->step[i + 1];

		if (!g->counted) {
			last = here->at_ns ? here : last;
			if (last->at_ns && api_step_ns(&g->steps, i) - last->at_ns <= hold)
				fold_value(g, here, last->value);
			continue;
		}
		if (!here->at_ns)
			continue;
		/*
		 * The rate since the last point before this step also applies to the steps in
		 * between.
		 */
		if (last->at_ns && here->at_ns > last->at_ns && here->at_ns - last->at_ns <= hold)
			for (struct group_step *k = last + 1; k <= here; k++)
				fold_value(g, k,
					   here->grown /
						   ((double)(here->at_ns - last->at_ns) * 1e-9));
		last = here;
	}
}

/* Groups */

static void put_points(struct group_query *g, struct base_json *j)
{
	base_json_kbegin(j, "points", '[');
	for (size_t i = 0; i < g->steps.n && !j->overflow; i++) {
		const struct group_step *s = &g->step[i + 1];

		base_json_begin(j, '[');
		base_json_time(j, api_step_ns(&g->steps, i));
		if (!s->count)
			base_json_null(j);
		else
			base_json_f64(j, g->fn == GROUP_AVG ? s->sum / s->count : s->sum);
		base_json_end(j, ']');
	}
	base_json_end(j, ']');
}

/* Computes the values of a group. Returns true if the group is complete. */
static bool values_of(struct group_query *g, const struct group_series *s, size_t n)
{
	for (size_t i = 0; i <= g->steps.n; i++)
		g->step[i].sum = g->step[i].count = 0;
	for (size_t i = 0; i < n; i++) {
		if (!read_series(g, &s[i]))
			return false;
		fold_series(g);
	}
	return true;
}

/*
 * Computes quantiles of the observations in each step. Returns 0, -ENOMEM, -ETIME, or -EDOM with
 * the reason in *why.
 */
static int quantiles_of(struct group_query *g, const struct group_series *s, size_t n,
			const char **why)
{
	const struct api_shape **of = calloc(g->shapes, sizeof(*of));
	struct api_shape merged = {.buckets = 0};
	uint64_t *count = NULL;
	size_t shapes = 0;
	int err = of ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < n; i++) {
		bool have = false;

		for (size_t k = 0; k < shapes && !have; k++)
			have = of[k] == &g->shape[s[i].shape];
		if (!have)
			of[shapes++] = &g->shape[s[i].shape];
	}
	err = err ? err : api_shape_merge(&merged, of, shapes, why);
	if (!err) {
		count = calloc(g->steps.n * merged.buckets, sizeof(*count));
		err = count ? 0 : -ENOMEM;
	}
	for (size_t i = 0; !err && i < n; i++) {
		api_shape_observed(g->c, &s[i].of, &g->steps, &merged, &g->shape[s[i].shape], count,
				   g->budget);
		err = api_is_late(g->begun_ns) || !base_budget_spend(g->budget, 0) ? -ETIME : 0;
	}
	for (size_t i = 0; !err && i < g->steps.n; i++) {
		struct group_step *to = &g->step[i + 1];

		to->sum = api_shape_quantile(&merged, count + i * merged.buckets, g->q);
		to->count = !isnan(to->sum);
	}
	free(count);
	api_shape_free(&merged);
	free(of);
	return err;
}

/* Writes a group, or only counts the group if no time or room is left. */
static void put_group(struct group_query *g, struct api_list *l, const struct group_series *s,
		      size_t n)
{
	const char *value = s->key, *why = NULL;
	int err = 0;

	if (g->late || l->given >= l->limit || l->truncated) {
		l->matching++;
		return;
	}
	if (g->fn == GROUP_QUANTILE)
		err = quantiles_of(g, s, n, &why);
	else
		err = values_of(g, s, n) ? 0 : -ETIME;
	if (err == -ENOMEM)
		l->j->overflow = true;
	if (err == -ETIME || err == -ENOMEM) {
		g->late = err == -ETIME;
		l->matching++;
		return;
	}
	if (!api_item(l))
		return;
	base_json_kbegin(l->j, "labels", '{');
	for (size_t i = 0; i < g->bys; i++, value += strlen(value) + 1)
		base_put(l->j, KV(g->by[i], value));
	base_json_end(l->j, '}');
	base_put(l->j, KV("series", n));
	if (err)
		base_put(l->j, KV("error", why));
	else
		put_points(g, l->j);
	api_item_end(l);
}

static void answer_group(struct http_request *req, struct group_query *g)
{
	struct api_list l = {.j = api_answer_begin(req), .limit = g->limit};
	size_t end;

	if (!l.j)
		return;
	base_put(l.j, KV("metric", g->metric), KV("kind", region_kind_name(g->kind)),
		 KV("unit", g->unit), KV("fn", g->fn_name),
		 KV_BOOL("per_second", g->fn != GROUP_QUANTILE && g->counted),
		 KV("step_seconds", (double)g->steps.width_ns * 1e-9));
	base_json_kbegin(l.j, "groups", '[');
	for (size_t i = 0; i < g->n && !l.j->overflow; i = end) {
		for (end = i + 1; end < g->n && !by_key(&g->series[i], &g->series[end]);)
			end++;
		put_group(g, &l, &g->series[i], end - i);
	}
	base_json_end(l.j, ']');
	base_put(l.j, KV("matching", l.matching), KV("other_kinds", g->others),
		 KV_BOOL("clipped", l.matching > l.given), KV("truncated", l.truncated));
	api_answer_end(req, l.j);
}

static bool make_room(struct group_query *g)
{
	g->chunks = collect_chunks_new();
	g->point = malloc(READ_POINTS * sizeof(*g->point));
	g->step = calloc(g->steps.n + 1, sizeof(*g->step));
	return g->chunks && g->point && g->step;
}

void api_get_group(struct http_request *req, void *arg)
{
	struct group_query g = {.c = arg, .begun_ns = base_now_ns(), .budget = http_budget(req)};

	if (parse_query(req, &g) && select_series(req, &g)) {
		if (!g.steps.n)
			http_reply_error(req, 400, "the time range is shorter than one step");
		else if (!make_room(&g))
			http_reply_error(req, 503, "out of memory");
		else
			answer_group(req, &g);
	}
	for (size_t i = 0; i < g.n; i++)
		free(g.series[i].key);
	for (size_t i = 0; i < g.shapes; i++)
		api_shape_free(&g.shape[i]);
	free(g.series);
	free(g.shape);
	collect_chunks_free(g.chunks);
	free(g.point);
	free(g.step);
	api_matchers_free(&g.matchers);
}
