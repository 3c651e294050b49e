// SPDX-License-Identifier: Apache-2.0
/*
 * bounds.c - computes the "le" bounds of a histogram. For an exponential histogram the set of
 * bounds depends only on the metric's parameters. If it depended on the observations, it would
 * differ between pods and over time, and sum by (le) would add buckets that don't match.
 *
 * The set contains the zero threshold, every bound of the finest coarser scale that gives at most
 * EXPORT_TEXT_BOUNDS_MAX bounds, and the upper end of the last bucket. Each is the bound of an
 * actual bucket, and halving the scale merges buckets in pairs, so all counts are exact.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "export/render.h"

static const double roots[256] = {
#include "roots.inc"
};

/*
 * Returns the upper end of bucket i: 2^(i * 2^-scale). Scale and index are untrusted and may have
 * any value.
 */
static double bucket_end(int64_t i, int scale)
{
	int64_t e;

	if (scale > 8)
		return exp2(ldexp((double)i, -scale)); /* not a valid schema */
	if (scale > 0)
		return ldexp(roots[(i & ((1 << scale) - 1)) << (8 - scale)], (int)(i >> scale));
	e = i * (scale < -12 ? 4096 : 1 << -scale);
	return ldexp(1, e > 5000 ? 5000 : e < -5000 ? -5000 : (int)e);
}

static bool add_bound(struct export_render *r, double bound, size_t bucket)
{
	struct export_bounds *b = &r->bounds;
	size_t room = b->room;

	if (b->count && !(bound > b->bound[b->count - 1]))
		return true;
	if (b->count == b->room) {
		if (!export_render_grow(r, &b->bound, &room, b->count + 1, sizeof(*b->bound)))
			return false;
		room = b->room;
		if (!export_render_grow(r, &b->bucket, &room, b->count + 1, sizeof(*b->bucket)))
			return false;
		b->room = room;
	}
	b->bound[b->count] = bound;
	b->bucket[b->count++] = (uint32_t)bucket;
	return true;
}

static bool make_exponential(struct export_render *r)
{
	const struct export_series *s = &r->series;
	int64_t first = s->first_bucket, last, step = 1, end;

	if (!s->bucket_count)
		return true;
	if (!add_bound(r,
		       s->zero_threshold > 0 && isfinite(s->zero_threshold) ? s->zero_threshold : 0,
		       0))
		return false;
	if (s->bucket_count < 3)
		return true;
	last = first + (int64_t)s->bucket_count - 3; /* index of buckets[bucket_count - 2] */
	while ((last - first) / step >= EXPORT_TEXT_BOUNDS_MAX - 2)
		step *= 2;
	for (end = first + (-first & (step - 1)); end <= last; end += step) {
		double bound = bucket_end(end, s->scale);

		if (isfinite(bound) && !add_bound(r, bound, (size_t)(end - first) + 1))
			return false;
	}
	if (isfinite(bucket_end(last, s->scale)))
		return add_bound(r, bucket_end(last, s->scale), (size_t)(last - first) + 1);
	return true;
}

/*
 * For EXPORT_DETAIL_FEW: uses the bounds 2^-22, 2^-16, 2^-10, 2^-4, 2^2, 2^8 ... within the range.
 * These are the same for all such histograms, except for bounds below the first observation.
 */
static bool make_few(struct export_render *r)
{
	const struct export_series *s = &r->series;
	int64_t first = s->first_bucket, last = first + (int64_t)s->bucket_count - 3, at = 0;
	bool any = !s->buckets; /* the counts are not known */

	if (s->scale < 0 || s->scale > 8)
		return true;
	for (int64_t octave = -22; octave <= 62; octave += 6) {
		int64_t end = octave * (1 << s->scale);

		if (end < first || end > last)
			continue;
		for (; !any && at <= end - first + 1; at++)
			any = s->buckets[at];
		if (any && !add_bound(r, bucket_end(end, s->scale), (size_t)(end - first) + 1))
			return false;
	}
	return true;
}

static bool make_classic(struct export_render *r)
{
	const struct export_series *s = &r->series;

	for (size_t i = 0; i < s->bound_count && i < s->bucket_count; i++)
		if (isfinite(s->bounds[i]) && !add_bound(r, s->bounds[i], i))
			return false;
	return true;
}

static bool is_same(const struct export_bounds *b, const struct export_series *s)
{
	if (!b->valid || b->of.exponential != s->exponential ||
	    b->of.bucket_count != s->bucket_count)
		return false;
	if (s->exponential)
		return b->of.scale == s->scale && b->of.first_bucket == s->first_bucket &&
		       b->of.zero_threshold == s->zero_threshold;
	/* the common case: finite, ascending bounds, used unchanged */
	return b->count == s->bound_count &&
	       !memcmp(b->bound, s->bounds, s->bound_count * sizeof(*s->bounds));
}

int export_bounds_of(const struct export_series *s, double **bound, uint32_t **bucket, size_t *n)
{
	struct export_render r = {.series = *s};

	if (s->exponential ? s->detail ? !make_few(&r) : !make_exponential(&r)
			   : !make_classic(&r)) {
		free(r.bounds.bound);
		free(r.bounds.bucket);
		return r.error;
	}
	*bound = r.bounds.bound;
	*bucket = r.bounds.bucket;
	*n = r.bounds.count;
	return 0;
}

bool export_bounds_make(struct export_render *r)
{
	struct export_bounds *b = &r->bounds;
	const struct export_series *s = &r->series;
	char *p;

	enum export_detail detail = s->exponential && !r->classic ? s->detail : EXPORT_DETAIL_ALL;

	/* Few bounds are quickly computed. */
	if (!detail && is_same(b, s))
		return true;
	b->count = 0;
	b->valid = false;
	if (detail == EXPORT_DETAIL_FEW && !make_few(r))
		return false;
	if (!detail && !(s->exponential ? make_exponential(r) : make_classic(r)))
		return false;
	free(b->text_at);
	free(b->text);
	b->text_at = malloc((b->count + 1) * sizeof(*b->text_at));
	b->text = malloc(b->count * (BASE_NUMBER_MAX + sizeof("le=\"\"} ")) + 1);
	if (!b->text_at || !b->text) {
		r->error = -ENOMEM;
		return false;
	}
	p = b->text;
	for (size_t i = 0; i < b->count; i++) {
		b->text_at[i] = (uint32_t)(p - b->text);
		memcpy(p, "le=\"", 4);
		p = base_print_bound(p + 4, b->bound[i], r->format == EXPORT_FORMAT_OPENMETRICS);
		memcpy(p, "\"} ", 3);
		p += 3;
	}
	b->text_at[b->count] = (uint32_t)(p - b->text);
	b->of = *s;
	b->valid = !detail;
	return true;
}
