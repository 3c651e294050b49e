// SPDX-License-Identifier: Apache-2.0
/*
 * promql_functions.c - PromQL functions that compute one value per series and step, with the
 * semantics of Prometheus 2: ranges include both ends, and rate() extrapolates to both ends
 * (prometheus.io/docs/prometheus/latest/querying/functions).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/promql_internal.h"
#include "base/base.h"

static double to_ms(int64_t ns)
{
	return (double)(ns / 1000000);
}

/* Changes over a range of at least two points */

static double extrapolate_change(const struct api_promql_window *w, bool is_counter)
{
	const struct collect_point *p = w->p;
	double grown, before, after, span, mean, whole;

	grown = p[w->n - 1].value - p[0].value;
	for (size_t i = 1; is_counter && i < w->n; i++)
		if (p[i].value < p[i - 1].value)
			grown += p[i - 1].value;
	before = (to_ms(p[0].ns) - w->start) / 1000;
	after = (w->end - to_ms(p[w->n - 1].ns)) / 1000;
	span = (to_ms(p[w->n - 1].ns) - to_ms(p[0].ns)) / 1000;
	mean = span / (double)(w->n - 1);
	/* Do not extrapolate a counter to a value below 0. */
	if (is_counter && grown > 0 && p[0].value >= 0)
		before = fmin(before, span * (p[0].value / grown));
	whole = span + (before < mean * 1.1 ? before : mean / 2) +
		(after < mean * 1.1 ? after : mean / 2);
	return grown * (whole / span);
}

static double compute_delta(const struct api_promql_window *w)
{
	return extrapolate_change(w, false);
}

static double compute_increase(const struct api_promql_window *w)
{
	return extrapolate_change(w, true);
}

static double compute_rate(const struct api_promql_window *w)
{
	return compute_increase(w) / ((w->end - w->start) / 1000);
}

static double compute_idelta(const struct api_promql_window *w)
{
	return w->p[w->n - 1].value - w->p[w->n - 2].value;
}

static double compute_irate(const struct api_promql_window *w)
{
	const struct collect_point *last = &w->p[w->n - 1];
	const bool is_reset = last[0].value < last[-1].value;

	return (is_reset ? last[0].value : compute_idelta(w)) /
	       ((to_ms(last[0].ns) - to_ms(last[-1].ns)) / 1000);
}

/* Least squares; x is the time in seconds since at_ms. Returns the slope. */
static double regress_points(const struct api_promql_window *w, double at_ms, double *intercept)
{
	double n = (double)w->n, x = 0, y = 0, xy = 0, xx = 0, slope;
	bool is_constant = true;

	for (size_t i = 0; i < w->n; i++) {
		const double t = (to_ms(w->p[i].ns) - at_ms) / 1000, v = w->p[i].value;

		is_constant &= v == w->p[0].value;
		x += t;
		y += v;
		xy += t * v;
		xx += t * t;
	}
	slope = is_constant ? (isinf(w->p[0].value) ? NAN : 0)
			    : (xy - x * y / n) / (xx - x * x / n);
	*intercept = is_constant ? w->p[0].value : y / n - slope * x / n;
	return slope;
}

static double compute_deriv(const struct api_promql_window *w)
{
	double intercept;

	return regress_points(w, to_ms(w->p[0].ns), &intercept);
}

static double compute_prediction(const struct api_promql_window *w)
{
	double intercept, slope = regress_points(w, w->now, &intercept);

	return slope * w->param + intercept;
}

/* Functions of the values in a range */

static double compute_changes(const struct api_promql_window *w)
{
	double n = 0;

	for (size_t i = 1; i < w->n; i++)
		n += w->p[i].value != w->p[i - 1].value &&
		     !(isnan(w->p[i].value) && isnan(w->p[i - 1].value));
	return n;
}

static double compute_resets(const struct api_promql_window *w)
{
	double n = 0;

	for (size_t i = 1; i < w->n; i++)
		n += w->p[i].value < w->p[i - 1].value;
	return n;
}

static double compute_last(const struct api_promql_window *w)
{
	return w->p[w->n - 1].value;
}

/* Compares points by their values, NaN first; for qsort(). */
int api_promql_order(const void *a, const void *b)
{
	const double x = ((const struct collect_point *)a)->value;
	const double y = ((const struct collect_point *)b)->value;

	if (isnan(x) || isnan(y))
		return isnan(y) - isnan(x);
	return (x > y) - (x < y);
}

static double compute_quantile(double q, const struct collect_point *sorted, size_t n)
{
	const double rank = q * (double)(n - 1);
	size_t low, high;

	if (isnan(q))
		return NAN;
	if (q < 0 || q > 1)
		return q < 0 ? -INFINITY : INFINITY;
	low = (size_t)rank;
	high = BASE_MIN(low + 1, n - 1);
	return sorted[low].value * (1 - (rank - (double)low)) +
	       sorted[high].value * (rank - (double)low);
}

double api_promql_reduce(enum api_promql_aggregation by, double param,
			 const struct collect_point *p, size_t n)
{
	double sum = 0, mean = 0, squares = 0, most = NAN;

	switch (by) {
	case API_PROMQL_BY_COUNT:
		return (double)n;
	case API_PROMQL_BY_GROUP:
		return 1;
	case API_PROMQL_BY_QUANTILE:
		return compute_quantile(param, p, n);
	case API_PROMQL_BY_MIN:
	case API_PROMQL_BY_MAX:
		/* The result is NaN only if all values are. */
		for (size_t i = 0; i < n; i++)
			most = by == API_PROMQL_BY_MIN ? fmin(most, p[i].value)
						       : fmax(most, p[i].value);
		return most;
	case API_PROMQL_BY_SUM:
	case API_PROMQL_BY_AVG:
		for (size_t i = 0; i < n; i++)
			sum += p[i].value;
		return by == API_PROMQL_BY_SUM ? sum : sum / (double)n;
	default:
		for (size_t i = 0; i < n; i++) {
			const double d = p[i].value - mean;

			mean += d / (double)(i + 1);
			squares += d * (p[i].value - mean);
		}
		return by == API_PROMQL_BY_STDVAR ? squares / (double)n : sqrt(squares / (double)n);
	}
}

/* Returns NaN if a quantile needs more memory than there is. */
static double reduce_window(const struct api_promql_window *w)
{
	struct collect_point *sorted;
	double value;

	if (w->by != API_PROMQL_BY_QUANTILE)
		return api_promql_reduce(w->by, w->param, w->p, w->n);
	sorted = malloc(w->n * sizeof(*sorted));
	if (!sorted)
		return NAN;
	memcpy(sorted, w->p, w->n * sizeof(*sorted));
	qsort(sorted, w->n, sizeof(*sorted), api_promql_order);
	value = api_promql_reduce(w->by, w->param, sorted, w->n);
	free(sorted);
	return value;
}

/* Functions of a value */

static double compute_sgn(double v)
{
	return v < 0 ? -1 : v > 0 ? 1 : v;
}

static double compute_round(double v, const double *s)
{
	/* Divide by the inverse, as Prometheus does, so that the last digits are equal. */
	const double inverse = 1 / s[0];

	return floor(v * inverse + 0.5) / inverse;
}

/*
 * Like Go's math.Max(): unlike fmax(), returns NaN if one value is NaN, unless the other is +Inf.
 */
static double larger_value(double a, double b)
{
	const double v = fmax(a, b);

	return v == INFINITY || !(isnan(a) || isnan(b)) ? v : NAN;
}

static double compute_clamp_min(double v, const double *s)
{
	return larger_value(s[0], v);
}

static double compute_clamp_max(double v, const double *s)
{
	return -larger_value(-s[0], -v);
}

static double compute_clamp(double v, const double *s)
{
	return larger_value(s[0], compute_clamp_max(v, &s[1]));
}

static double compute_deg(double v)
{
	return v * 180 / M_PI;
}

static double compute_rad(double v)
{
	return v * M_PI / 180;
}

static const struct api_promql_function functions[] = {
	{"rate", "m", 'v', .window = compute_rate, .least = 2},
	{"increase", "m", 'v', .window = compute_increase, .least = 2},
	{"delta", "m", 'v', .window = compute_delta, .least = 2},
	{"irate", "m", 'v', .window = compute_irate, .least = 2},
	{"idelta", "m", 'v', .window = compute_idelta, .least = 2},
	{"deriv", "m", 'v', .window = compute_deriv, .least = 2},
	{"predict_linear", "ms", 'v', .window = compute_prediction, .least = 2},
	{"changes", "m", 'v', .window = compute_changes},
	{"resets", "m", 'v', .window = compute_resets},
	{"avg_over_time", "m", 'v', .window = reduce_window, .by = API_PROMQL_BY_AVG},
	{"min_over_time", "m", 'v', .window = reduce_window, .by = API_PROMQL_BY_MIN},
	{"max_over_time", "m", 'v', .window = reduce_window, .by = API_PROMQL_BY_MAX},
	{"sum_over_time", "m", 'v', .window = reduce_window, .by = API_PROMQL_BY_SUM},
	{"count_over_time", "m", 'v', .window = reduce_window, .by = API_PROMQL_BY_COUNT},
	{"present_over_time", "m", 'v', .window = reduce_window, .by = API_PROMQL_BY_GROUP},
	{"stddev_over_time", "m", 'v', .window = reduce_window, .by = API_PROMQL_BY_STDDEV},
	{"stdvar_over_time", "m", 'v', .window = reduce_window, .by = API_PROMQL_BY_STDVAR},
	{"quantile_over_time", "sm", 'v', .window = reduce_window, .by = API_PROMQL_BY_QUANTILE},
	{"last_over_time", "m", 'v', .window = compute_last, .keeps_name = true},
	{"ceil", "v", 'v', .math1 = ceil},
	{"floor", "v", 'v', .math1 = floor},
	{"exp", "v", 'v', .math1 = exp},
	{"log2", "v", 'v', .math1 = log2},
	{"log10", "v", 'v', .math1 = log10},
	{"sqrt", "v", 'v', .math1 = sqrt},
	{"sin", "v", 'v', .math1 = sin},
	{"cos", "v", 'v', .math1 = cos},
	{"tan", "v", 'v', .math1 = tan},
	{"asin", "v", 'v', .math1 = asin},
	{"acos", "v", 'v', .math1 = acos},
	{"atan", "v", 'v', .math1 = atan},
	{"sinh", "v", 'v', .math1 = sinh},
	{"cosh", "v", 'v', .math1 = cosh},
	{"tanh", "v", 'v', .math1 = tanh},
	{"asinh", "v", 'v', .math1 = asinh},
	{"acosh", "v", 'v', .math1 = acosh},
	{"atanh", "v", 'v', .math1 = atanh},
	{"abs", "v", 'v', .math1 = fabs},
	{"ln", "v", 'v', .math1 = log},
	{"sgn", "v", 'v', .math1 = compute_sgn},
	{"deg", "v", 'v', .math1 = compute_deg},
	{"rad", "v", 'v', .math1 = compute_rad},
	{"round", "vS", 'v', .math = compute_round},
	{"clamp", "vss", 'v', .math = compute_clamp},
	{"clamp_min", "vs", 'v', .math = compute_clamp_min},
	{"clamp_max", "vs", 'v', .math = compute_clamp_max},
	{"time", "", 's', .special = API_PROMQL_DOES_TIME},
	{"vector", "s", 'v', .special = API_PROMQL_DOES_VECTOR},
	{"scalar", "v", 's', .special = API_PROMQL_DOES_SCALAR},
	{"sort", "v", 'v', .special = API_PROMQL_DOES_SORT},
	{"sort_desc", "v", 'v', .special = API_PROMQL_DOES_SORT},
	{"absent", "v", 'v', .special = API_PROMQL_DOES_ABSENT},
	{"absent_over_time", "m", 'v', .special = API_PROMQL_DOES_ABSENT_OVER_TIME},
	{"label_replace", "vtttt", 'v', .special = API_PROMQL_DOES_LABEL_REPLACE},
	{"label_join", "vttT*", 'v', .special = API_PROMQL_DOES_LABEL_JOIN},
	{"histogram_quantile", "sv", 'v', .special = API_PROMQL_DOES_QUANTILE},
};

const struct api_promql_function *api_promql_function(const char *name, size_t bytes)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
		if (strlen(functions[i].name) == bytes && !memcmp(functions[i].name, name, bytes))
			return &functions[i];
	return NULL;
}

bool api_promql_is_sort(const struct api_promql_function *f, bool down)
{
	return f->special == API_PROMQL_DOES_SORT && !strcmp(f->name, down ? "sort_desc" : "sort");
}
