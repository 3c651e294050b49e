// SPDX-License-Identifier: Apache-2.0
/*
 * promql_eval.c - evaluates parsed expressions with the semantics of Prometheus 2: ranges include
 * both ends, and rate() extrapolates to them
 * (prometheus.io/docs/prometheus/latest/querying/functions).
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/promql.h"
#include "base/base.h"
#include "base/budget.h"
#include "base/grow.h"

#define POINTS_AT_ONCE 16384u
#define SERIES_POINTS  4000000u	 /* maximum number of points per series */
#define VALUES_MAX     8000000u	 /* maximum number of values in a result: rows times steps */
#define WORK_MAX       100000000 /* maximum number of points that functions process */

struct promql_points {
	struct collect_point *v;
	size_t n, room;
};

struct promql_run {
	const struct api_promql *q;
	struct collect_collector *c;
	const struct api_promql_steps *steps;
	struct api_selected selected;
	struct promql_points points;
	uint64_t work;
};

/* Points */

static int64_t window_ns(const struct api_promql *q)
{
	return q->range_ns ? q->range_ns : API_PROMQL_LOOKBACK - 1000000;
}

static int load_points(struct promql_run *r, const struct api_series *s)
{
	const int64_t end = r->steps->end_ns - r->q->offset_ns + 999999;
	int64_t from = r->steps->start_ns - r->q->offset_ns - window_ns(r->q);
	/* If there is only one step, only the newest point matters. */
	const bool last = r->steps->n == 1 && r->q->function == API_PROMQL_VALUE;

	r->points.n = 0;
	while (from <= end) {
		const size_t room = last ? 1 : POINTS_AT_ONCE;

		if (r->points.n > SERIES_POINTS)
			return -ERANGE;
		if (!base_grow(&r->points.v, &r->points.room, r->points.n + room,
			       sizeof(*r->points.v)))
			return -ENOMEM;
		if (last) {
			const ssize_t n = collect_collector_history_known(
				r->c, s->instance, s->metric, r->selected.known_ns, from, end,
				r->points.v, 1, r->selected.budget);

			r->points.n = n > 0;
			break;
		}
		r->points.n += api_series_points(r->c, &r->selected, s, &from, end,
						 r->points.v + r->points.n, room);
	}
	return r->selected.budget ? r->selected.budget->err : 0;
}

/* Functions of n points, from start to end in ms */

static double to_ms(int64_t ns)
{
	return (double)(ns / 1000000);
}

static bool is_counter_function(enum api_promql_function f)
{
	return f == API_PROMQL_RATE || f == API_PROMQL_INCREASE || f == API_PROMQL_IRATE;
}

static bool extrapolate_change(enum api_promql_function f, const struct collect_point *p, size_t n,
			       double start, double end, double *out)
{
	const bool counter = is_counter_function(f);
	double grown, before, after, span, mean, whole;

	if (n < 2)
		return false;
	grown = p[n - 1].value - p[0].value;
	for (size_t i = 1; counter && i < n; i++)
		if (p[i].value < p[i - 1].value)
			grown += p[i - 1].value;
	before = (to_ms(p[0].ns) - start) / 1000;
	after = (end - to_ms(p[n - 1].ns)) / 1000;
	span = (to_ms(p[n - 1].ns) - to_ms(p[0].ns)) / 1000;
	mean = span / (double)(n - 1);
	/* A counter cannot have been below 0. */
	if (counter && grown > 0 && p[0].value >= 0)
		before = fmin(before, span * (p[0].value / grown));
	whole = span + (before < mean * 1.1 ? before : mean / 2) +
		(after < mean * 1.1 ? after : mean / 2);
	*out = grown * (whole / span);
	if (f == API_PROMQL_RATE)
		*out /= (end - start) / 1000;
	return true;
}

static bool instant_rate(const struct collect_point *p, size_t n, double *out)
{
	if (n < 2)
		return false;
	*out = p[n - 1].value - (p[n - 1].value < p[n - 2].value ? 0 : p[n - 2].value);
	*out /= (to_ms(p[n - 1].ns) - to_ms(p[n - 2].ns)) / 1000;
	return true;
}

static double over_time(enum api_promql_function f, const struct collect_point *p, size_t n)
{
	double sum = 0, least = p[0].value, most = p[0].value;

	if (f == API_PROMQL_COUNT)
		return (double)n;
	for (size_t i = 0; i < n; i++) {
		sum += p[i].value;
		/* The result is NaN only if all values are. */
		if (p[i].value < least || isnan(least))
			least = p[i].value;
		if (p[i].value > most || isnan(most))
			most = p[i].value;
	}
	return f == API_PROMQL_MIN   ? least
	       : f == API_PROMQL_MAX ? most
	       : f == API_PROMQL_SUM ? sum
				     : sum / (double)n;
}

static bool compute_value(enum api_promql_function f, const struct collect_point *p, size_t n,
			  double start, double end, double *out)
{
	switch (f) {
	case API_PROMQL_RATE:
	case API_PROMQL_INCREASE:
	case API_PROMQL_DELTA:
		return extrapolate_change(f, p, n, start, end, out);
	case API_PROMQL_IRATE:
		return instant_rate(p, n, out);
	case API_PROMQL_VALUE:
	case API_PROMQL_LAST:
		if (n)
			*out = p[n - 1].value;
		return n;
	default:
		if (n)
			*out = over_time(f, p, n);
		return n;
	}
}

/* Rows */

static void row_free(struct api_promql_row *row)
{
	free(row->of);
	free(row->value);
	free(row->has);
}

void api_promql_result_free(struct api_promql_result *r)
{
	for (size_t i = 0; i < r->n; i++)
		row_free(&r->row[i]);
	free(r->row);
	*r = (struct api_promql_result){.n = 0};
}

/* Copies the labels that an aggregation keeps. Returns NULL if out of memory. */
static struct export_remote_series *copy_labels(struct export_remote_series *from,
						const struct api_promql_aggregate *a)
{
	const struct api_series s = {.of = from};
	struct export_remote_series *to = malloc(sizeof(*to) + from->label_bytes);
	struct api_label label;
	size_t at = 0, before = 0;

	if (!to)
		return NULL;
	*to = (struct export_remote_series){.last_ms = INT64_MIN};
	for (; api_series_label(&s, &at, &label); before = at) {
		bool named = false;

		for (size_t i = 0; a && i < a->labels; i++)
			named |= strlen(a->label[i]) == label.name_bytes &&
				 !memcmp(a->label[i], label.name, label.name_bytes);
		/* Without an aggregation, only the name is removed. */
		if (label.name_bytes == 8 && !memcmp(label.name, "__name__", 8)
			    ? !(a && !a->without && named)
			    : a && named == a->without)
			continue;
		memcpy(to->labels + to->label_bytes, from->labels + before, at - before);
		to->label_bytes += (uint32_t)(at - before);
	}
	return to;
}

static int by_labels(const void *a, const void *b)
{
	const struct api_series x = {.of = ((const struct api_promql_row *)a)->of};
	const struct api_series y = {.of = ((const struct api_promql_row *)b)->of};

	return api_series_order(&x, &y);
}

static int evaluate_series(struct promql_run *r, const struct api_series *s,
			   struct api_promql_result *out)
{
	const struct api_promql *q = r->q;
	const size_t steps = r->steps->n;
	struct api_promql_row row = {.value = malloc(steps * sizeof(*row.value)),
				     .has = calloc(steps, sizeof(*row.has))};
	size_t first = 0, end = 0;
	bool any = false;
	int err = row.value && row.has ? load_points(r, s) : -ENOMEM;

	for (size_t i = 0; !err && i < steps; i++) {
		const int64_t at = r->steps->start_ns + (int64_t)i * r->steps->step_ns -
				   q->offset_ns;
		const int64_t from = at - window_ns(q);

		while (end < r->points.n && r->points.v[end].ns / 1000000 <= at / 1000000)
			end++;
		while (first < end && r->points.v[first].ns / 1000000 < from / 1000000)
			first++;
		r->work += end - first + 1;
		if (r->work > WORK_MAX)
			err = -ERANGE;
		else if (!base_budget_spend(r->selected.budget, 0))
			err = r->selected.budget->err;
		row.has[i] = compute_value(q->function, r->points.v + first, end - first,
					   to_ms(from), to_ms(at), &row.value[i]);
		any |= row.has[i];
	}
	if (!err && any) {
		row.of = q->function == API_PROMQL_VALUE || q->function == API_PROMQL_LAST
				 ? export_remote_series_copy(s->of)
				 : copy_labels(s->of, NULL);
		if (row.of && BASE_GROW(out->row, out->n, out->room)) {
			out->row[out->n++] = row;
			return out->n * steps > VALUES_MAX ? -ERANGE : 0;
		}
		err = -ENOMEM;
	}
	row_free(&row);
	return err;
}

/* Aggregations */

static void combine_values(enum api_promql_operator op, double *to, double v)
{
	switch (op) {
	case API_PROMQL_BY_MIN:
		*to = v < *to || isnan(*to) ? v : *to;
		break;
	case API_PROMQL_BY_MAX:
		*to = v > *to || isnan(*to) ? v : *to;
		break;
	default:
		*to += v;
	}
}

/* Combines rows with equal labels into the first row. */
static int fold_rows(struct api_promql_row *row, size_t rows, size_t steps,
		     enum api_promql_operator op)
{
	uint32_t *count = calloc(steps, sizeof(*count));

	if (!count)
		return -ENOMEM;
	for (size_t k = 0; k < rows; k++)
		for (size_t i = 0; i < steps; i++) {
			if (!row[k].has[i])
				continue;
			if (count[i]++)
				combine_values(op, &row->value[i], row[k].value[i]);
			else
				row->value[i] = row[k].value[i];
		}
	for (size_t i = 0; i < steps; i++) {
		row->has[i] = count[i];
		if (op == API_PROMQL_BY_COUNT)
			row->value[i] = count[i];
		else if (op == API_PROMQL_BY_AVG && count[i])
			row->value[i] /= count[i];
	}
	free(count);
	return 0;
}

static int aggregate_rows(struct api_promql_result *r, const struct api_promql_aggregate *a,
			  size_t steps)
{
	size_t kept = 0, end;
	int err = 0;

	for (size_t i = 0; i < r->n; i++) {
		struct export_remote_series *of = copy_labels(r->row[i].of, a);

		if (!of)
			return -ENOMEM;
		free(r->row[i].of);
		r->row[i].of = of;
	}
	if (r->n)
		qsort(r->row, r->n, sizeof(*r->row), by_labels);
	for (size_t i = 0; i < r->n; i = end) {
		for (end = i + 1; end < r->n && !by_labels(&r->row[i], &r->row[end]);)
			end++;
		err = err ? err : fold_rows(&r->row[i], end - i, steps, a->op);
		for (size_t k = i + 1; k < end; k++)
			row_free(&r->row[k]);
		r->row[kept++] = r->row[i];
	}
	r->n = kept;
	return err;
}

int api_promql_evaluate(const struct api_promql *q, struct collect_collector *c,
			const struct api_promql_steps *steps, struct base_budget *budget,
			struct api_promql_result *out)
{
	struct promql_run r = {.q = q, .c = c, .steps = steps, .selected.budget = budget};
	/* a copy, because matching records its cost in it */
	struct api_matchers matchers = q->matchers;
	int err = api_select(&r.selected, c, &matchers);

	for (size_t i = 0; !err && i < r.selected.n; i++)
		err = evaluate_series(&r, &r.selected.v[i], out);
	if (!err && out->n)
		qsort(out->row, out->n, sizeof(*out->row), by_labels);
	for (size_t i = 1; !err && !q->aggregates && i < out->n; i++)
		if (!by_labels(&out->row[i - 1], &out->row[i]))
			err = -EEXIST;
	for (size_t i = 0; !err && i < q->aggregates; i++)
		err = aggregate_rows(out, &q->aggregate[i], steps->n);
	api_selected_free(&r.selected);
	free(r.points.v);
	return err;
}
