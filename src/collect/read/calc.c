// SPDX-License-Identifier: Apache-2.0
/* calc.c - quantiles, decimation, series IDs and search terms */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"
#include "collect/read/calc.h"

void collect_series_id_format(struct collect_series_id id, char out[COLLECT_SERIES_ID_BYTES])
{
	snprintf(out, COLLECT_SERIES_ID_BYTES, "%016llx/%u", (unsigned long long)id.instance,
		 (unsigned int)id.metric);
}

int collect_instance_parse(const char *s, size_t bytes, uint64_t *instance)
{
	char digits[17] = "";

	if (bytes < 1 || bytes > 16)
		return -EINVAL;
	memcpy(digits, s, bytes);
	if (strspn(digits, "0123456789abcdefABCDEF") != bytes)
		return -EINVAL;
	*instance = strtoull(digits, NULL, 16);
	return 0;
}

static int series_id_parse(const char *s, size_t bytes, struct collect_series_id *out)
{
	const char *slash = memchr(s, '/', bytes);
	size_t digits = slash ? bytes - (size_t)(slash - s) - 1 : 0;
	uint64_t metric;
	char text[11] = "";

	if (digits < 1 || digits > 10 ||
	    collect_instance_parse(s, (size_t)(slash - s), &out->instance))
		return -EINVAL;
	memcpy(text, slash + 1, digits);
	if (base_parse_u64(text, 0, UINT32_MAX, &metric))
		return -EINVAL;
	out->metric = (uint32_t)metric;
	return 0;
}

int collect_series_ids_parse(const char *s, struct collect_series_id *out, int max, char bad[40])
{
	int n = 0;

	for (;;) {
		size_t all = strcspn(s, ","), bytes = all;
		const char *at = s;

		while (bytes && isspace((unsigned char)*at))
			at++, bytes--;
		while (bytes && isspace((unsigned char)at[bytes - 1]))
			bytes--;
		if (n == max)
			return -E2BIG;
		if (series_id_parse(at, bytes, &out[n])) {
			snprintf(bad, 40, "%.*s", (int)(bytes > 39 ? 39 : bytes), at);
			return -EINVAL;
		}
		n++;
		if (!s[all])
			return n;
		s += all + 1;
	}
}

int collect_terms_parse(const char *q, struct collect_terms *out)
{
	size_t n = 0;
	bool inside = false;

	out->count = 0;
	for (; *q; q++) {
		if (*q == '"')
			continue;
		if (isspace((unsigned char)*q)) {
			if (inside)
				out->text[n++] = '\0';
			inside = false;
			continue;
		}
		/* One byte for the character, one for the terminator. */
		if (n + 2 > sizeof(out->text))
			return -E2BIG;
		if (!inside) {
			if (out->count == COLLECT_TERMS_MAX)
				return -E2BIG;
			out->term[out->count++] = out->text + n;
			inside = true;
		}
		out->text[n++] = *q;
	}
	if (inside)
		out->text[n] = '\0';
	return 0;
}

bool collect_term_in_label(const char *term, const char *key, const char *value)
{
	const char *equals = strchr(term, '=');
	size_t key_bytes, want;

	if (!equals)
		return strcasestr(key, term) || strcasestr(value, term);
	want = (size_t)(equals - term);
	key_bytes = strlen(key);
	return want <= key_bytes && !strncasecmp(key + key_bytes - want, term, want) &&
	       !strncasecmp(value, equals + 1, strlen(equals + 1));
}

uint32_t collect_terms_in_text(const struct collect_terms *t, const char *text)
{
	uint32_t found = 0;

	for (unsigned int i = 0; i < t->count; i++)
		if (strcasestr(text, t->term[i]))
			found |= 1u << i;
	return found;
}

uint32_t collect_terms_in_labels(const struct collect_terms *t,
				 const struct region_text_label *labels, uint32_t count)
{
	uint32_t found = 0;

	for (unsigned int i = 0; i < t->count; i++)
		for (uint32_t l = 0; l < count && !(found & 1u << i); l++)
			if (collect_term_in_label(t->term[i], labels[l].key, labels[l].value))
				found |= 1u << i;
	return found;
}

double collect_history_double(const struct region_metric *m, uint64_t word)
{
	if (collect_is_f64(m))
		return region_f64(word);
	return m->kind == SL_KIND_GAUGE ? (double)(int64_t)word : (double)word;
}

/* A double, because a hostile region may hold buckets whose sum does not fit in 64 bits. */
double collect_bucket_sum(const uint64_t *buckets, size_t count)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += (double)buckets[i];
	return sum;
}

/*
 * Returns the index of the bucket that contains rank q * total, and sets *within to the relative
 * position of the rank in this bucket. total must be positive.
 */
static size_t rank_bucket(const uint64_t *buckets, size_t count, double total, double q,
			  double *within)
{
	double rank = q * total, below = 0;
	size_t last = 0;

	for (size_t i = 0; i < count; i++) {
		if (!buckets[i])
			continue;
		last = i;
		if (below + (double)buckets[i] >= rank) {
			/* Sums beyond 2^53 are rounded, so clamp the position to the bucket. */
			*within = fmin((rank - below) / (double)buckets[i], 1);
			return i;
		}
		below += (double)buckets[i];
	}
	*within = 1;
	return last;
}

double collect_quantile_classic(const uint64_t *buckets, const double *bounds, size_t bound_count,
				double q)
{
	double total = collect_bucket_sum(buckets, bound_count + 1), within, low;
	size_t i;

	if (!(total > 0))
		return NAN;
	i = rank_bucket(buckets, bound_count + 1, total, q, &within);
	if (i == bound_count)
		return bound_count ? bounds[bound_count - 1] : NAN;
	if (!i && bounds[0] <= 0)
		return bounds[0];
	low = i ? bounds[i - 1] : 0;
	return low + (bounds[i] - low) * within;
}

double collect_exponential_bound(int scale, double i)
{
	return exp2(ldexp(i, -scale));
}

double collect_quantile_exponential(const uint64_t *buckets, size_t count, int scale,
				    int32_t first_bucket, double zero_threshold, double q)
{
	double total = collect_bucket_sum(buckets, count), within, low;
	size_t i;

	if (count < 2 || !(total > 0))
		return NAN;
	i = rank_bucket(buckets, count, total, q, &within);
	if (!i)
		return zero_threshold * within;
	/* buckets[i] is bucket k = first_bucket + i - 1, which spans base^(k - 1) to base^k. */
	low = (double)first_bucket + (double)i - 2;
	if (i == count - 1)
		return collect_exponential_bound(scale, low);
	return collect_exponential_bound(scale, low + within);
}

double collect_bucket_bound(unsigned int bucket)
{
	return exp2(bucket / 4.0) * 1e-6;
}

double collect_quantile(const struct region_metric *m, const uint64_t *buckets, double q)
{
	return !region_is_exponential(m)
		       ? collect_quantile_classic(buckets, m->bounds, m->bound_count, q)
		       : collect_quantile_exponential(buckets, m->bucket_count, m->scale,
						      m->first_bucket, m->zero_threshold, q);
}

double collect_quantile_latency(const uint64_t latency[COLLECT_LATENCY_BUCKETS], double q)
{
	return collect_quantile_exponential(latency, COLLECT_LATENCY_BUCKETS, 2, 1, 1, q) * 1e-6;
}

size_t collect_decimate(struct collect_point *points, size_t n, int64_t from_ns, int64_t to_ns,
			size_t max)
{
	/* Two points per interval, one extra interval for alignment, and both end points. */
	int64_t intervals = (int64_t)(max - 2) / 2 - 1, width;
	struct collect_point first, last;
	size_t kept = 0, i = 0;

	if (n <= max)
		return n;
	first = points[0];
	last = points[n - 1];
	if (from_ns > first.ns)
		from_ns = first.ns;
	if (to_ns < last.ns)
		to_ns = last.ns;
	width = (to_ns - from_ns) / intervals + 1;
	points[kept++] = first;
	/*
	 * The write position never overtakes the read position: an interval that yields two points
	 * had at least two.
	 */
	for (i = 1; i < n - 1;) {
		int64_t interval = points[i].ns / width;
		struct collect_point low = points[i], high = points[i];

		for (; i < n - 1 && points[i].ns / width == interval; i++) {
			/* Any number replaces a NaN. */
			if (points[i].value < low.value || isnan(low.value))
				low = points[i];
			if (points[i].value > high.value || isnan(high.value))
				high = points[i];
		}
		if (low.ns == high.ns || isnan(low.value)) {
			points[kept++] = low;
		} else {
			points[kept++] = low.ns < high.ns ? low : high;
			points[kept++] = low.ns < high.ns ? high : low;
		}
	}
	points[kept++] = last;
	return kept;
}
