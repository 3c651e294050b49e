// SPDX-License-Identifier: Apache-2.0
#include "api/merge.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/read/calc.h"

/* Shapes */

int api_shape_of(struct api_shape *s, const struct region_metric *m)
{
	*s = (struct api_shape){.exponential = region_is_exponential(m),
				.scale = m->scale,
				.first = m->first_bucket,
				.zero = m->zero_threshold,
				.buckets = m->bucket_count,
				.bound_count = m->bound_count};
	if (s->exponential)
		return 0;
	s->bounds = malloc((m->bound_count + 1) * sizeof(*s->bounds));
	if (!s->bounds)
		return -ENOMEM;
	if (m->bound_count)
		memcpy(s->bounds, m->bounds, m->bound_count * sizeof(*s->bounds));
	return 0;
}

bool api_shape_is(const struct api_shape *s, const struct region_metric *m)
{
	if (s->exponential != region_is_exponential(m) || s->buckets != m->bucket_count)
		return false;
	if (s->exponential)
		return s->scale == m->scale && s->first == m->first_bucket &&
		       memcmp(&s->zero, &m->zero_threshold, sizeof(s->zero)) == 0;
	return s->bound_count == m->bound_count &&
	       (!s->bound_count ||
		!memcmp(s->bounds, m->bounds, s->bound_count * sizeof(*s->bounds)));
}

void api_shape_free(struct api_shape *s)
{
	free(s->bounds);
	*s = (struct api_shape){.buckets = 0};
}

double api_shape_quantile(const struct api_shape *s, const uint64_t *buckets, double q)
{
	return s->exponential ? collect_quantile_exponential(buckets, s->buckets, s->scale,
							     s->first, s->zero, q)
			      : collect_quantile_classic(buckets, s->bounds, s->bound_count, q);
}

double api_shape_low(const struct api_shape *s, uint32_t i)
{
	if (s->exponential)
		return i ? collect_exponential_bound(s->scale, (double)s->first + i - 2) : 0;
	if (i)
		return s->bounds[i - 1];
	return s->bound_count && s->bounds[0] > 0 ? 0 : -INFINITY;
}

double api_shape_high(const struct api_shape *s, uint32_t i)
{
	if (i + 1 >= s->buckets)
		return INFINITY;
	if (!s->exponential)
		return s->bounds[i];
	return i ? collect_exponential_bound(s->scale, (double)s->first + i - 1) : s->zero;
}

/* Exponential histograms */

/*
 * Bucket i of scale s ends at 2^(i * 2^-s). It therefore lies in bucket ceil(i / 2^(s - t)) of a
 * lower scale t.
 */
static int64_t ceil_at(int64_t i, int down)
{
	return -(-i >> down);
}

static int merge_exponential(struct api_shape *out, const struct api_shape *const *of, size_t n,
			     const char **why)
{
	/* end of the zero bucket, and start of the last bucket */
	int64_t below = INT64_MIN, above = INT64_MAX;
	bool same = true;

	*out = *of[0];
	for (size_t i = 1; i < n; i++) {
		same &= of[i]->scale == out->scale && of[i]->first == of[0]->first;
		out->scale = BASE_MIN(out->scale, of[i]->scale);
		out->zero = BASE_MAX(out->zero, of[i]->zero);
	}
	for (size_t i = 0; i < n; i++) {
		const int down = of[i]->scale - out->scale;
		const int64_t zero_end = ceil_at((int64_t)of[i]->first - 1, down);
		/* The last bucket has no end. It begins at the end of the previous one. */
		const int64_t last = ((int64_t)of[i]->first + of[i]->buckets - 3) >> down;

		below = BASE_MAX(below, zero_end);
		above = BASE_MIN(above, last);
	}
	if (!same) {
		const double end = collect_exponential_bound(out->scale, (double)below);

		if (out->zero > end * (1 + 1e-9)) {
			*why = "the zero bucket of one histogram overlaps with other buckets of "
			       "another";
			return -EDOM;
		}
		out->zero = end;
	}
	if (above <= below) {
		*why = "the ranges of the histograms do not overlap";
		return -EDOM;
	}
	out->first = (int32_t)(below + 1);
	out->buckets = (uint32_t)(above - below) + 2;
	return 0;
}

static uint32_t exponential_bucket(const struct api_shape *merged, const struct api_shape *of,
				   uint32_t bucket)
{
	const int64_t i = ceil_at((int64_t)of->first + bucket - 1, of->scale - merged->scale);

	if (!bucket || i < merged->first)
		return 0;
	/* The last bucket of any histogram ends above the last bound of the merged one. */
	return (uint32_t)BASE_MIN(i - merged->first + 1, (int64_t)merged->buckets - 1);
}

/* Classic histograms */

static int merge_classic(struct api_shape *out, const struct api_shape *const *of, size_t n,
			 const char **why)
{
	*out = (struct api_shape){.bounds = malloc((of[0]->bound_count + 1) * sizeof(double))};
	if (!out->bounds)
		return -ENOMEM;
	for (uint32_t b = 0; b < of[0]->bound_count; b++) {
		size_t have = 1;

		for (size_t i = 1; i < n; i++)
			for (uint32_t k = 0; k < of[i]->bound_count; k++)
				have += of[i]->bounds[k] == of[0]->bounds[b];
		if (have == n)
			out->bounds[out->bound_count++] = of[0]->bounds[b];
	}
	out->buckets = out->bound_count + 1;
	if (out->bound_count || !of[0]->bound_count)
		return 0;
	api_shape_free(out);
	*why = "the histograms have no bucket bound in common";
	return -EDOM;
}

static uint32_t classic_bucket(const struct api_shape *merged, const struct api_shape *of,
			       uint32_t bucket)
{
	size_t at;

	if (bucket >= of->bound_count)
		return merged->bound_count;
	BASE_LOWER_BOUND(at, 0, merged->bound_count, merged->bounds[at] < of->bounds[bucket]);
	return (uint32_t)at;
}

int api_shape_merge(struct api_shape *out, const struct api_shape *const *of, size_t n,
		    const char **why)
{
	*out = (struct api_shape){.buckets = 0};
	for (size_t i = 1; i < n; i++)
		if (of[i]->exponential != of[0]->exponential) {
			*why = "exponential and classic histograms have no buckets in common";
			return -EDOM;
		}
	return of[0]->exponential ? merge_exponential(out, of, n, why)
				  : merge_classic(out, of, n, why);
}

uint32_t api_shape_bucket(const struct api_shape *merged, const struct api_shape *of,
			  uint32_t bucket)
{
	return of->exponential ? exponential_bucket(merged, of, bucket)
			       : classic_bucket(merged, of, bucket);
}

/* Observations */

struct merge_observed {
	const struct api_steps *steps;
	const struct api_shape *merged, *of;
	uint64_t *count;
	struct base_budget *budget;
};

static bool add_observed(void *arg, int64_t ns, const struct collect_bucket *v, size_t n)
{
	const struct merge_observed *o = arg;
	/*
	 * Choose the step by the middle of the second, so that it does not depend on the exact time
	 * of the read.
	 */
	const int64_t step = api_step_of(o->steps, ns - API_OBSERVED_NS / 2);

	if (!base_budget_spend(o->budget, n))
		return false;
	if (step < 0 || (size_t)step >= o->steps->n)
		return true;
	for (size_t i = 0; i < n; i++)
		if (v[i].index < o->of->buckets)
			o->count[(size_t)step * o->merged->buckets +
				 api_shape_bucket(o->merged, o->of, v[i].index)] += v[i].count;
	return true;
}

bool api_shape_observed(struct collect_collector *c, const struct collect_series_ref *series,
			const struct api_steps *steps, const struct api_shape *merged,
			const struct api_shape *of, uint64_t *count, struct base_budget *budget)
{
	struct merge_observed o = {steps, merged, of, count, budget};

	return collect_collector_observed(c, series, steps->first_ns - steps->width_ns,
					  api_step_ns(steps, steps->n) + API_OBSERVED_NS,
					  add_observed, &o) >= 0;
}
