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

/* Changes over a range */

static bool extrapolate_change(const struct api_promql_window *w, bool is_counter, double *out)
{
	const struct collect_point *p = w->p;
	double grown, before, after, span, mean, whole;

	if (w->n < 2)
		return false;
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
	*out = grown * (whole / span);
	return true;
}

static bool compute_delta(const struct api_promql_window *w, double param, double *out)
{
	(void)param;
	return extrapolate_change(w, false, out);
}

static bool compute_increase(const struct api_promql_window *w, double param, double *out)
{
	(void)param;
	return extrapolate_change(w, true, out);
}

static bool compute_rate(const struct api_promql_window *w, double param, double *out)
{
	const bool has = compute_increase(w, param, out);

	if (has)
		*out /= (w->end - w->start) / 1000;
	return has;
}

static bool compute_idelta(const struct api_promql_window *w, double param, double *out)
{
	(void)param;
	if (w->n < 2)
		return false;
	*out = w->p[w->n - 1].value - w->p[w->n - 2].value;
	return true;
}

static bool compute_irate(const struct api_promql_window *w, double param, double *out)
{
	const struct collect_point *last;

	if (!compute_idelta(w, param, out))
		return false;
	last = &w->p[w->n - 1];
	if (last[0].value < last[-1].value)
		*out = last[0].value;
	*out /= (to_ms(last[0].ns) - to_ms(last[-1].ns)) / 1000;
	return true;
}

static bool compute_changes(const struct api_promql_window *w, double param, double *out)
{
	(void)param;
	*out = 0;
	for (size_t i = 1; i < w->n; i++)
		*out += w->p[i].value != w->p[i - 1].value &&
			!(isnan(w->p[i].value) && isnan(w->p[i - 1].value));
	return w->n;
}

static bool compute_resets(const struct api_promql_window *w, double param, double *out)
{
	(void)param;
	*out = 0;
	for (size_t i = 1; i < w->n; i++)
		*out += w->p[i].value < w->p[i - 1].value;
	return w->n;
}

/* Least squares; x is the time in seconds since at_ms. */
static bool regress_points(const struct api_promql_window *w, double at_ms, double *slope,
			   double *intercept)
{
	double n = (double)w->n, x = 0, y = 0, xy = 0, xx = 0;
	bool is_constant = true;

	if (w->n < 2)
		return false;
	for (size_t i = 0; i < w->n; i++) {
		const double t = (to_ms(w->p[i].ns) - at_ms) / 1000, v = w->p[i].value;

		is_constant &= v == w->p[0].value;
		x += t;
		y += v;
		xy += t * v;
		xx += t * t;
	}
	*slope = is_constant ? (isinf(y) ? NAN : 0) : (xy - x * y / n) / (xx - x * x / n);
	*intercept = is_constant ? w->p[0].value : y / n - *slope * x / n;
	return true;
}

static bool compute_deriv(const struct api_promql_window *w, double param, double *out)
{
	double intercept;

	(void)param;
	return w->n >= 2 && regress_points(w, to_ms(w->p[0].ns), out, &intercept);
}

static bool compute_prediction(const struct api_promql_window *w, double seconds, double *out)
{
	double slope, intercept;

	if (!regress_points(w, w->end, &slope, &intercept))
		return false;
	*out = slope * seconds + intercept;
	return true;
}

/* Functions of the values in a range */

static bool compute_count(const struct api_promql_window *w, double param, double *out)
{
	(void)param;
	*out = (double)w->n;
	return w->n;
}

static bool compute_present(const struct api_promql_window *w, double param, double *out)
{
	(void)param;
	*out = 1;
	return w->n;
}

static bool compute_last(const struct api_promql_window *w, double param, double *out)
{
	(void)param;
	if (w->n)
		*out = w->p[w->n - 1].value;
	return w->n;
}

static bool compute_sum(const struct api_promql_window *w, double param, double *out)
{
	(void)param;
	*out = 0;
	for (size_t i = 0; i < w->n; i++)
		*out += w->p[i].value;
	return w->n;
}

static bool compute_avg(const struct api_promql_window *w, double param, double *out)
{
	const bool has = compute_sum(w, param, out);

	*out /= (double)w->n;
	return has;
}

/* The result of min and max is NaN only if all values are. */
static bool compute_min(const struct api_promql_window *w, double param, double *out)
{
	(void)param;
	*out = NAN;
	for (size_t i = 0; i < w->n; i++)
		*out = fmin(*out, w->p[i].value);
	return w->n;
}

static bool compute_max(const struct api_promql_window *w, double param, double *out)
{
	(void)param;
	*out = NAN;
	for (size_t i = 0; i < w->n; i++)
		*out = fmax(*out, w->p[i].value);
	return w->n;
}

static bool compute_stdvar(const struct api_promql_window *w, double param, double *out)
{
	double mean = 0, squares = 0;

	(void)param;
	for (size_t i = 0; i < w->n; i++) {
		const double d = w->p[i].value - mean;

		mean += d / (double)(i + 1);
		squares += d * (w->p[i].value - mean);
	}
	*out = squares / (double)w->n;
	return w->n;
}

static bool compute_stddev(const struct api_promql_window *w, double param, double *out)
{
	const bool has = compute_stdvar(w, param, out);

	*out = sqrt(*out);
	return has;
}

int api_promql_order(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	if (isnan(x) || isnan(y))
		return isnan(y) - isnan(x);
	return (x > y) - (x < y);
}

double api_promql_quantile(double q, const double *v, size_t n)
{
	const double rank = q * (double)(n - 1);
	size_t low, high;

	if (!n || isnan(q))
		return NAN;
	if (q < 0 || q > 1)
		return q < 0 ? -INFINITY : INFINITY;
	low = (size_t)rank;
	high = BASE_MIN(low + 1, n - 1);
	return v[low] * (1 - (rank - (double)low)) + v[high] * (rank - (double)low);
}

static bool compute_quantile(const struct api_promql_window *w, double q, double *out)
{
	double *v = w->n ? malloc(w->n * sizeof(*v)) : NULL;

	if (!v)
		return false;
	for (size_t i = 0; i < w->n; i++)
		v[i] = w->p[i].value;
	qsort(v, w->n, sizeof(*v), api_promql_order);
	*out = api_promql_quantile(q, v, w->n);
	free(v);
	return true;
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

static double compute_clamp(double v, const double *s)
{
	return isnan(v) ? v : fmax(s[0], fmin(s[1], v));
}

static double compute_clamp_min(double v, const double *s)
{
	return isnan(v) || isnan(s[0]) ? NAN : fmax(s[0], v);
}

static double compute_clamp_max(double v, const double *s)
{
	return isnan(v) || isnan(s[0]) ? NAN : fmin(s[0], v);
}

static double compute_deg(double v)
{
	return v * 180 / M_PI;
}

static double compute_rad(double v)
{
	return v * M_PI / 180;
}

#define WINDOW(n, fn)                                                 \
	{                                                             \
		.name = n, .types = "m", .returns = 'v', .window = fn \
	}
#define WINDOWS(n, t, f)                                           \
	{                                                          \
		.name = n, .types = t, .returns = 'v', .window = f \
	}
#define MATH(fn)                                                       \
	{                                                              \
		.name = #fn, .types = "v", .returns = 'v', .math1 = fn \
	}
#define SPECIAL(n, t, r, s)                                       \
	{                                                         \
		.name = n, .types = t, .returns = r, .special = s \
	}

static const struct api_promql_function functions[] = {
	WINDOW("rate", compute_rate),
	WINDOW("increase", compute_increase),
	WINDOW("delta", compute_delta),
	WINDOW("irate", compute_irate),
	WINDOW("idelta", compute_idelta),
	WINDOW("deriv", compute_deriv),
	WINDOWS("predict_linear", "ms", compute_prediction),
	WINDOW("changes", compute_changes),
	WINDOW("resets", compute_resets),
	WINDOW("avg_over_time", compute_avg),
	WINDOW("min_over_time", compute_min),
	WINDOW("max_over_time", compute_max),
	WINDOW("sum_over_time", compute_sum),
	WINDOW("count_over_time", compute_count),
	WINDOW("present_over_time", compute_present),
	WINDOW("stddev_over_time", compute_stddev),
	WINDOW("stdvar_over_time", compute_stdvar),
	WINDOWS("quantile_over_time", "sm", compute_quantile),
	{.name = "last_over_time",
	 .types = "m",
	 .returns = 'v',
	 .window = compute_last,
	 .keeps_name = true},
	MATH(ceil),
	MATH(floor),
	MATH(exp),
	MATH(log2),
	MATH(log10),
	MATH(sqrt),
	MATH(sin),
	MATH(cos),
	MATH(tan),
	MATH(asin),
	MATH(acos),
	MATH(atan),
	MATH(sinh),
	MATH(cosh),
	MATH(tanh),
	MATH(asinh),
	MATH(acosh),
	MATH(atanh),
	{.name = "abs", .types = "v", .returns = 'v', .math1 = fabs},
	{.name = "ln", .types = "v", .returns = 'v', .math1 = log},
	{.name = "sgn", .types = "v", .returns = 'v', .math1 = compute_sgn},
	{.name = "deg", .types = "v", .returns = 'v', .math1 = compute_deg},
	{.name = "rad", .types = "v", .returns = 'v', .math1 = compute_rad},
	{.name = "round", .types = "vS", .returns = 'v', .math = compute_round},
	{.name = "clamp", .types = "vss", .returns = 'v', .math = compute_clamp},
	{.name = "clamp_min", .types = "vs", .returns = 'v', .math = compute_clamp_min},
	{.name = "clamp_max", .types = "vs", .returns = 'v', .math = compute_clamp_max},
	SPECIAL("time", "", 's', API_PROMQL_DOES_TIME),
	SPECIAL("vector", "s", 'v', API_PROMQL_DOES_VECTOR),
	SPECIAL("scalar", "v", 's', API_PROMQL_DOES_SCALAR),
	SPECIAL("sort", "v", 'v', API_PROMQL_DOES_SORT),
	SPECIAL("sort_desc", "v", 'v', API_PROMQL_DOES_SORT),
	SPECIAL("absent", "v", 'v', API_PROMQL_DOES_ABSENT),
	SPECIAL("absent_over_time", "m", 'v', API_PROMQL_DOES_ABSENT_OVER_TIME),
	SPECIAL("label_replace", "vtttt", 'v', API_PROMQL_DOES_LABEL_REPLACE),
	SPECIAL("label_join", "vttT*", 'v', API_PROMQL_DOES_LABEL_JOIN),
	SPECIAL("histogram_quantile", "sv", 'v', API_PROMQL_DOES_QUANTILE),
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
