// SPDX-License-Identifier: Apache-2.0
#include "api/read_hints.h"

#include <math.h>
#include <string.h>

#include "export/pb.h"

/*
 * Maximum gap left by dropping repeated values if the evaluation times are unknown. Any useful
 * --query.lookback-delta is longer.
 */
#define LOOKBACK_GAP_NS 1000000000ll

static enum api_thin thin_of(const struct api_read_hints *h, struct base_pb name)
{
	static const struct {
		const char *name;
		enum api_thin thin;
	} functions[] = {
		{"rate", API_THIN_RATE},
		{"increase", API_THIN_RATE},
		{"delta", API_THIN_DELTA},
		{"irate", API_THIN_LAST_TWO},
		{"idelta", API_THIN_LAST_TWO},
		{"last_over_time", API_THIN_LAST},
		{"present_over_time", API_THIN_LAST},
		{"changes", API_THIN_REPEATED},
		{"resets", API_THIN_REPEATED},
		{"min_over_time", API_THIN_MIN},
		{"max_over_time", API_THIN_MAX},
	};
	const size_t n = name.at ? (size_t)(name.end - name.at) : 0;

	if (!h->range_ms && !h->step_ms)
		return API_THIN_LAST;
	if (!h->range_ms)
		return n == 9 && !memcmp(name.at, "timestamp", n) ? API_THIN_NONE
								  : API_THIN_LOOKBACK;
	/* With several windows, any point may be the first or last of one: keep all. */
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions) && !h->step_ms; i++)
		if (n == strlen(functions[i].name) && !memcmp(name.at, functions[i].name, n))
			return functions[i].thin;
	return API_THIN_NONE;
}

bool api_read_hints_take(struct api_read_hints *h, struct base_pb p)
{
	struct base_pb name = {.at = NULL};
	struct base_pb_field f;

	*h = (struct api_read_hints){.step_ms = 0};
	while (base_pb_next(&p, &f)) {
		if (f.number == 2 && f.wire == PB_LENGTH)
			name = f.data;
		if (f.wire != PB_VARINT)
			continue;
		if (f.number == 1)
			h->step_ms = (int64_t)f.value;
		else if (f.number == 3)
			h->start_ms = (int64_t)f.value;
		else if (f.number == 4)
			h->end_ms = (int64_t)f.value;
		else if (f.number == 7)
			h->range_ms = (int64_t)f.value;
	}
	/* Without an evaluation time, the hints are unusable. */
	h->thin = h->end_ms && h->start_ms <= h->end_ms ? thin_of(h, name) : API_THIN_NONE;
	return !p.bad;
}

static bool is_same(double a, double b)
{
	return !memcmp(&a, &b, sizeof(a));
}

/* Drops repeated values, unless that makes a gap of more than max_ns. */
static size_t thin_repeated(struct collect_point *p, size_t n, int64_t max_ns)
{
	size_t kept = 1;

	for (size_t i = 1; i < n; i++)
		if (i == n - 1 || !is_same(p[i].value, p[kept - 1].value) ||
		    p[i + 1].ns - p[kept - 1].ns > max_ns)
			p[kept++] = p[i];
	return kept;
}

static size_t thin_to_extreme(struct collect_point *p, size_t n, double sign)
{
	for (size_t i = 1; i < n; i++)
		if (isnan(p->value) || p[i].value * sign > p->value * sign)
			*p = p[i];
	return 1;
}

/*
 * Prometheus extrapolates to an end of the window if the nearest point is closer to it than 1.1
 * times the mean distance between points. Dropping points only increases that distance, so the
 * result does not change. Otherwise it depends on the number of points, and all are kept.
 */
static size_t thin_to_ends(const struct api_read_hints *h, struct collect_point *p, size_t n)
{
	const double first = (double)(p[0].ns / 1000000), last = (double)(p[n - 1].ns / 1000000);
	const double near = (last - first) / (double)(n - 1) * 1.1;
	size_t kept = 1;

	if (!(first - (double)h->start_ms < near && (double)h->end_ms - last < near))
		return n;
	for (size_t i = 1; i < n; i++)
		if (i == n - 1 || (h->thin == API_THIN_RATE && (!(p[i].value >= p[i - 1].value) ||
								!(p[i + 1].value >= p[i].value))))
			p[kept++] = p[i];
	return kept;
}

static size_t drop_stale(struct collect_point *p, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (!api_is_stale(p[i].value))
			p[kept++] = p[i];
	return kept;
}

size_t api_read_hints_thin(const struct api_read_hints *h, struct collect_point *p, size_t n)
{
	size_t last;

	/* Range vectors contain no staleness markers. */
	if (h->range_ms)
		n = drop_stale(p, n);
	if (n < 2)
		return n;
	switch (h->thin) {
	case API_THIN_LAST:
	case API_THIN_LAST_TWO:
		last = h->thin == API_THIN_LAST ? 1 : 2;
		memmove(p, p + n - last, last * sizeof(*p));
		return last;
	case API_THIN_REPEATED:
		return thin_repeated(p, n, INT64_MAX);
	case API_THIN_LOOKBACK:
		return thin_repeated(p, n, LOOKBACK_GAP_NS);
	case API_THIN_MIN:
	case API_THIN_MAX:
		return thin_to_extreme(p, n, h->thin == API_THIN_MIN ? -1 : 1);
	case API_THIN_DELTA:
	case API_THIN_RATE:
		return n > 2 ? thin_to_ends(h, p, n) : n;
	default:
		return n;
	}
}
