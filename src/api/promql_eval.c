// SPDX-License-Identifier: Apache-2.0
/*
 * promql_eval.c - evaluates the nodes of an expression, each over all steps, with the semantics of
 * Prometheus 2.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/promql_internal.h"
#include "base/grow.h"

#define POINTS_AT_ONCE 16384u
#define SERIES_POINTS  4000000u	     /* maximum number of points per series */
#define SUBQUERY_NS    60000000000ll /* default step of a subquery, as in Prometheus */
#define TIME_MAX       ((int64_t)(API_SECONDS_MAX * 1e9))

/* Times */

static int64_t step_time(const struct api_promql_steps *steps, size_t step)
{
	return steps->start_ns + (int64_t)step * steps->step_ns;
}

/* Returns the time of a step after "offset" and "@". */
static int64_t time_of(const struct api_promql_run *r, const struct api_promql_node *n,
		       const struct api_promql_steps *steps, size_t step)
{
	int64_t at = step_time(steps, step);

	if (n->at == API_PROMQL_TIME)
		at = n->at_ns;
	else if (n->at)
		at = n->at == API_PROMQL_START ? r->query->start_ns : r->query->end_ns;
	return at - n->offset_ns;
}

static int64_t window_ns(const struct api_promql_node *n)
{
	return n->range_ns ? n->range_ns : API_PROMQL_LOOKBACK - 1000000;
}

/* Points */

static int load_points(struct api_promql_run *r, const struct api_selected *selected,
		       const struct api_series *s, const struct api_promql_node *n,
		       const struct api_promql_steps *steps)
{
	const int64_t last = time_of(r, n, steps, steps->n - 1), end = last + 999999;
	int64_t from = time_of(r, n, steps, 0) - window_ns(n);
	/* If all steps have the same time, only the newest point of an instant vector matters. */
	const bool is_single = !n->range_ns && time_of(r, n, steps, 0) == last;

	r->points = 0;
	while (from <= end) {
		if (r->points > SERIES_POINTS)
			return -ERANGE;
		if (!base_grow(&r->point, &r->point_room, r->points + POINTS_AT_ONCE,
			       sizeof(*r->point)))
			return -ENOMEM;
		if (is_single) {
			r->points = api_series_last(r->c, selected, s, from, end, r->point);
			break;
		}
		r->points += api_series_points(r->c, selected, s, &from, end, r->point + r->points,
					       POINTS_AT_ONCE);
	}
	if (n->range_ns)
		r->points = api_drop_stale(r->point, r->points);
	return r->budget ? r->budget->err : 0;
}

/* Windows */

/* A function applied to windows of series. of: the matrix; or a vector, if function is NULL. */
struct promql_windows {
	const struct api_promql_node *of;
	const struct api_promql_function *function; /* NULL means the last value */
	const double *param;
	const struct api_promql_steps *steps;
	struct api_promql_result *out;
};

static int compute_windows(struct api_promql_run *r, const struct promql_windows *w,
			   const struct export_remote_series *of)
{
	const bool keeps_name = !w->function || w->function->keeps_name;
	size_t first = 0, end = 0;
	int err;
	struct api_promql_row *row =
		api_promql_row_add(r, w->out,
				   keeps_name ? export_remote_series_copy(of)
					      : api_promql_labels_keep(of, &api_promql_all, false),
				   w->steps->n, &err);

	for (size_t i = 0; i < w->steps->n && !err; i++) {
		const int64_t at = time_of(r, w->of, w->steps, i), from = at - window_ns(w->of);
		struct api_promql_window window = {
			.start = (double)(from / 1000000),
			.end = (double)(at / 1000000),
			.now = (double)(step_time(w->steps, i) / 1000000),
			.param = w->param ? w->param[i] : 0,
			.by = w->function ? w->function->by : 0};

		while (end < r->points && r->point[end].ns / 1000000 <= at / 1000000)
			end++;
		while (first < end && r->point[first].ns / 1000000 < from / 1000000)
			first++;
		window.p = r->point + first;
		window.n = end - first;
		err = api_promql_work(r, w->function ? window.n + 1 : 1);
		row->has[i] = window.n &&
			      (w->function ? window.n >= w->function->least
					   : !api_is_stale(window.p[window.n - 1].value));
		if (row->has[i])
			row->value[i] = w->function ? w->function->window(&window)
						    : window.p[window.n - 1].value;
	}
	return err;
}

static int select_windows(struct api_promql_run *r, const struct promql_windows *w)
{
	struct api_selected selected = {
		.budget = r->budget, .from_ns = time_of(r, w->of, w->steps, 0) - window_ns(w->of)};
	/* a copy, because matching counts its cost there */
	struct api_matchers matchers = w->of->matchers;
	int err = api_select(&selected, r->c, &matchers);

	for (size_t i = 0; !err && i < selected.n; i++) {
		err = load_points(r, &selected, &selected.v[i], w->of, w->steps);
		err = err ? err : compute_windows(r, w, selected.v[i].of);
		if (!err)
			api_promql_row_drop_empty(r, w->out, w->steps->n);
	}
	api_selected_free(&selected);
	return err;
}

/* The times of a subquery are multiples of its step, counted from the Unix epoch. */
static int subquery_steps(const struct api_promql_run *r, const struct api_promql_node *n,
			  const struct api_promql_steps *steps, struct api_promql_steps *out)
{
	const int64_t step = n->step_ns ? n->step_ns : SUBQUERY_NS;
	const int64_t from = time_of(r, n, steps, 0) - n->range_ns;
	int64_t start = from / step * step;

	start += start < from ? step : 0;
	out->step_ns = step;
	out->start_ns = start;
	out->end_ns = time_of(r, n, steps, steps->n - 1);
	if (out->end_ns < start) {
		out->n = 0;
		return 0;
	}
	/* Each level of nesting may add years, and finally wrap. */
	if (start < -TIME_MAX || out->end_ns > TIME_MAX ||
	    (out->end_ns - start) / step >= SERIES_POINTS)
		return -ERANGE;
	out->n = (size_t)((out->end_ns - start) / step) + 1;
	return 0;
}

static int subquery_windows(struct api_promql_run *r, const struct promql_windows *w)
{
	struct api_promql_result in = {.n = 0};
	struct api_promql_steps steps;
	int err = subquery_steps(r, w->of, w->steps, &steps);

	if (err || !steps.n)
		return err;
	err = api_promql_eval(r, w->of->arg[0], &steps, &in);
	if (!err && !base_grow(&r->point, &r->point_room, steps.n, sizeof(*r->point)))
		err = -ENOMEM;
	for (size_t i = 0; i < in.n && !err; i++) {
		r->points = 0;
		for (size_t k = 0; k < steps.n; k++)
			if (in.row[i].has[k])
				r->point[r->points++] = (struct collect_point){step_time(&steps, k),
									       in.row[i].value[k]};
		err = compute_windows(r, w, in.row[i].of);
	}
	api_promql_rows_free(r, &in, steps.n);
	return err;
}

/* Scalars */

/* values: one value per step; NULL means that all steps have the value v. */
static int eval_constant(struct api_promql_run *r, double v, const double *values, size_t steps,
			 struct api_promql_result *out)
{
	int err;
	struct api_promql_row *row = api_promql_row_add(r, out, api_promql_labels_empty(), steps,
							&err);

	for (size_t i = 0; i < steps && !err; i++) {
		row->has[i] = true;
		row->value[i] = values ? values[i] : v;
	}
	return err;
}

/* The result of a step is its value if there is exactly one, else NaN. */
static int eval_scalar(struct api_promql_run *r, const struct api_promql_result *v, size_t steps,
		       struct api_promql_result *out)
{
	int err = eval_constant(r, NAN, NULL, steps, out);

	for (size_t i = 0; i < steps && !err; i++) {
		size_t n = 0;

		for (size_t k = 0; k < v->n; k++)
			if (v->row[k].has[i] && ++n)
				out->row[0].value[i] = v->row[k].value[i];
		if (n != 1)
			out->row[0].value[i] = NAN;
	}
	return err;
}

/* absent() */

/* Returns the labels for which the selector requires one value. Leaves out contradictory ones. */
static struct export_remote_series *absent_labels(const struct api_promql_node *n)
{
	const struct api_matchers *m = &n->matchers;
	struct export_remote_series *of = api_promql_labels_empty();

	for (size_t i = 0; n->kind == API_PROMQL_SELECTOR && of && i < m->n; i++) {
		bool is_single = m->m[i].type == API_MATCH_EQUAL;

		for (size_t k = 0; k < m->n && is_single; k++)
			is_single = k == i || strcmp(m->m[k].name, m->m[i].name);
		if (!is_single || !strcmp(m->m[i].name, "__name__"))
			continue;
		api_promql_labels_replace(&of,
					  api_promql_labels_set(of, m->m[i].name, m->m[i].value,
								strlen(m->m[i].value)));
	}
	return of;
}

static int eval_absent(struct api_promql_run *r, const struct api_promql_node *n,
		       const struct api_promql_result *v, size_t steps,
		       struct api_promql_result *out)
{
	int err;
	struct api_promql_row *row = api_promql_row_add(r, out, absent_labels(n), steps, &err);

	for (size_t i = 0; i < steps && !err; i++) {
		row->value[i] = 1;
		row->has[i] = true;
		for (size_t k = 0; k < v->n; k++)
			row->has[i] &= !v->row[k].has[i];
	}
	return err ? err : api_promql_rows_merge(r, out, steps, false);
}

/* Calls */

/* Applies a function to each value. */
static int map_values(struct api_promql_run *r, const struct api_promql_function *f,
		      const double *const scalar[2], size_t steps, struct api_promql_result *v)
{
	int err = 0;

	for (size_t i = 0; i < v->n && !err; i++) {
		struct export_remote_series **of = &v->row[i].of;

		if (!api_promql_labels_replace(of,
					       api_promql_labels_keep(*of, &api_promql_all, false)))
			return -ENOMEM;
		err = api_promql_work(r, steps);
		for (size_t k = 0; k < steps; k++) {
			const double s[2] = {scalar[0] ? scalar[0][k] : 1,
					     scalar[1] ? scalar[1][k] : 0};
			double *x = &v->row[i].value[k];

			/* clamp() has no result if its bounds are in the wrong order. */
			if (scalar[1] && s[0] > s[1])
				v->row[i].has[k] = false;
			*x = f->math1 ? f->math1(*x) : f->math(*x, s);
		}
	}
	return err ? err : api_promql_rows_merge(r, v, steps, false);
}

static int eval_windows(struct api_promql_run *r, const struct api_promql_function *f,
			const struct api_promql_node *of, const double *param,
			const struct api_promql_steps *steps, struct api_promql_result *out)
{
	const struct promql_windows w = {of, f, param, steps, out};
	int err = of->kind == API_PROMQL_SUBQUERY ? subquery_windows(r, &w) : select_windows(r, &w);

	return err ? err : api_promql_rows_merge(r, out, steps->n, true);
}

/*
 * Evaluates functions that apply neither to windows nor to single values. v: the vector argument,
 * if any.
 */
static int eval_special(struct api_promql_run *r, const struct api_promql_node *n,
			const double *scalar, const struct api_promql_steps *steps,
			struct api_promql_result *v, struct api_promql_result *out)
{
	int err = 0;

	switch (n->function->special) {
	case API_PROMQL_DOES_TIME:
		err = eval_constant(r, 0, NULL, steps->n, out);
		for (size_t i = 0; i < steps->n && !err; i++)
			out->row[0].value[i] = (double)(step_time(steps, i) / 1000000) / 1000;
		return err;
	case API_PROMQL_DOES_VECTOR:
		return eval_constant(r, 0, scalar, steps->n, out);
	case API_PROMQL_DOES_SCALAR:
		return eval_scalar(r, v, steps->n, out);
	case API_PROMQL_DOES_ABSENT_OVER_TIME:
		err = eval_windows(r, api_promql_function("count_over_time", 15), n->arg[0], NULL,
				   steps, v);
		return err ? err : eval_absent(r, n->arg[0], v, steps->n, out);
	case API_PROMQL_DOES_ABSENT:
		return eval_absent(r, n->arg[0], v, steps->n, out);
	case API_PROMQL_DOES_LABEL_REPLACE:
	case API_PROMQL_DOES_LABEL_JOIN:
		err = api_promql_relabel(r, n, steps->n, v);
		break;
	case API_PROMQL_DOES_QUANTILE:
		err = api_promql_histogram(r, scalar, steps->n, v);
		break;
	default: /* sort() and sort_desc(): prometheus.c sorts the response */
		break;
	}
	*out = *v;
	*v = (struct api_promql_result){.n = 0};
	return err;
}

static int eval_call(struct api_promql_run *r, const struct api_promql_node *n,
		     const struct api_promql_steps *steps, struct api_promql_result *out)
{
	struct api_promql_result v = {.n = 0}, scalar[2] = {{.n = 0}};
	const double *value[2] = {NULL, NULL};
	const struct api_promql_node *matrix = NULL;
	size_t scalars = 0;
	int err = 0;

	for (size_t i = 0; i < n->args && !err; i++) {
		if (n->arg[i]->type == API_PROMQL_MATRIX) {
			matrix = n->arg[i];
		} else if (n->arg[i]->type == API_PROMQL_VECTOR) {
			err = api_promql_eval(r, n->arg[i], steps, &v);
		} else if (n->arg[i]->type == API_PROMQL_SCALAR) {
			err = api_promql_eval(r, n->arg[i], steps, &scalar[scalars]);
			value[scalars] = err ? NULL : scalar[scalars].row->value;
			scalars++;
		}
	}
	if (!err && n->function->window) {
		err = eval_windows(r, n->function, matrix, value[0], steps, out);
	} else if (!err && n->function->special) {
		err = eval_special(r, n, value[0], steps, &v, out);
	} else if (!err) {
		err = map_values(r, n->function, value, steps->n, &v);
		*out = v;
		v = (struct api_promql_result){.n = 0};
	}
	api_promql_rows_free(r, &v, steps->n);
	api_promql_rows_free(r, &scalar[0], steps->n);
	api_promql_rows_free(r, &scalar[1], steps->n);
	return err;
}

/* Nodes */

static int eval_aggregate(struct api_promql_run *r, const struct api_promql_node *n,
			  const struct api_promql_steps *steps, struct api_promql_result *out)
{
	struct api_promql_result param = {.n = 0};
	int err = api_promql_eval(r, n->arg[0], steps, out);

	if (!err && n->args > 1 && n->arg[1]->type == API_PROMQL_SCALAR)
		err = api_promql_eval(r, n->arg[1], steps, &param);
	err = err ? err
		  : api_promql_aggregate(r, n, param.n ? param.row->value : NULL, steps->n, out);
	api_promql_rows_free(r, &param, steps->n);
	return err;
}

static int eval_binary(struct api_promql_run *r, const struct api_promql_node *n,
		       const struct api_promql_steps *steps, struct api_promql_result *out)
{
	struct api_promql_result a = {.n = 0}, b = {.n = 0};
	int err = api_promql_eval(r, n->arg[0], steps, &a);

	err = err ? err : api_promql_eval(r, n->arg[1], steps, &b);
	err = err ? err : api_promql_binary(r, n, steps->n, &a, &b, out);
	api_promql_rows_free(r, &a, steps->n);
	api_promql_rows_free(r, &b, steps->n);
	return err;
}

static double negate_value(double v)
{
	return -v;
}

static int eval_negative(struct api_promql_run *r, const struct api_promql_node *n,
			 const struct api_promql_steps *steps, struct api_promql_result *out)
{
	static const struct api_promql_function negate = {.math1 = negate_value};
	const double *const none[2] = {NULL, NULL};
	int err = api_promql_eval(r, n->arg[0], steps, out);

	return err ? err : map_values(r, &negate, none, steps->n, out);
}

int api_promql_eval(struct api_promql_run *r, const struct api_promql_node *n,
		    const struct api_promql_steps *steps, struct api_promql_result *out)
{
	switch (n->kind) {
	case API_PROMQL_NUMBER:
		return eval_constant(r, n->number, NULL, steps->n, out);
	case API_PROMQL_SELECTOR:
		return select_windows(r, &(struct promql_windows){n, NULL, NULL, steps, out});
	case API_PROMQL_CALL:
		return eval_call(r, n, steps, out);
	case API_PROMQL_AGGREGATE:
		return eval_aggregate(r, n, steps, out);
	case API_PROMQL_BINARY:
		return eval_binary(r, n, steps, out);
	case API_PROMQL_NEGATIVE:
		return eval_negative(r, n, steps, out);
	default: /* strings and subqueries occur only as arguments of functions */
		return -EDOM;
	}
}

int api_promql_evaluate(const struct api_promql *q, struct collect_collector *c,
			const struct api_promql_steps *steps, struct base_budget *budget,
			struct api_promql_result *out, char *error, size_t error_bytes)
{
	struct api_promql_run r = {.c = c,
				   .budget = budget,
				   .query = steps,
				   .error = error,
				   .error_bytes = error_bytes};
	int err;

	*error = 0;
	err = api_promql_eval(&r, q->root, steps, out);
	free(r.point);
	return err;
}
