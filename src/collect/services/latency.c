// SPDX-License-Identifier: Apache-2.0
#include "collect/services/latency.h"

#include <math.h>

#include "base/base.h"
#include "collect/read/calc.h"

static double get_bound(unsigned int bucket)
{
	return collect_exponential_bound(COLLECT_LATENCY_SCALE,
					 COLLECT_LATENCY_FIRST + (double)bucket);
}

/* Returns the bucket that a value falls into. */
static unsigned int bucket_of(double seconds)
{
	double i;

	if (!(seconds > 0))
		return 0;
	i = ceil(log2(seconds) * (1 << COLLECT_LATENCY_SCALE) - 1e-9) - COLLECT_LATENCY_FIRST;
	return i < 0 ? 0 : i >= COLLECT_LATENCY_COUNT ? COLLECT_LATENCY_COUNT - 1 : (unsigned int)i;
}

void collect_latency_spread(struct collect_latency *to, double low, double high, double n)
{
	unsigned int first = bucket_of(nextafter(low, INFINITY)), last = bucket_of(high);

	if (!(n > 0))
		return;
	if (!isfinite(high) || first >= last) {
		to->bucket[BASE_MIN(first, last)] += n;
		return;
	}
	for (unsigned int i = first; i <= last; i++) {
		double from = i == first ? low : get_bound(i - 1),
		       end = i == last ? high : get_bound(i);

		if (end > from)
			to->bucket[i] += n * (end - from) / (high - low);
	}
}

void collect_latency_add(struct collect_latency *to, const struct region_metric *m,
			 const uint64_t *buckets, double unit)
{
	for (uint32_t i = 0; i < m->bucket_count; i++) {
		double low = 0, high;

		if (!buckets[i])
			continue;
		if (region_is_exponential(m)) {
			double index = (double)m->first_bucket + (double)i - 1;

			high = i ? collect_exponential_bound(m->scale, index) : m->zero_threshold;
			low = i ? collect_exponential_bound(m->scale, index - 1) : 0;
		} else {
			low = i ? m->bounds[i - 1] : 0;
			high = i < m->bound_count ? m->bounds[i] : low;
		}
		low = low > 0 ? low : 0;
		/* The last bucket has no upper bound, so use its lower bound as the value. */
		if (i + 1 == m->bucket_count)
			high = low;
		collect_latency_spread(to, low * unit, high * unit, (double)buckets[i]);
	}
}

void collect_latency_grown(struct collect_latency_tick *to, const struct collect_latency *a,
			   const struct collect_latency *b)
{
	for (unsigned int i = 0; i < COLLECT_LATENCY_COUNT; i++)
		if (b->bucket[i] > a->bucket[i])
			to->bucket[i] += (float)(b->bucket[i] - a->bucket[i]);
}

void collect_latency_sum(struct collect_latency *to, const struct collect_latency_tick *from)
{
	for (unsigned int i = 0; i < COLLECT_LATENCY_COUNT; i++)
		to->bucket[i] += (double)from->bucket[i];
}

double collect_latency_count(const struct collect_latency *l)
{
	double n = 0;

	for (unsigned int i = 0; i < COLLECT_LATENCY_COUNT; i++)
		n += l->bucket[i];
	return n;
}

/* Interpolates exponentially within a bucket, like histogram_quantile() for native histograms. */
double collect_latency_quantile(const struct collect_latency *l, double q)
{
	double rank = q * collect_latency_count(l), below = 0;
	unsigned int last = 0;

	for (unsigned int i = 0; i < COLLECT_LATENCY_COUNT; i++) {
		double n = l->bucket[i];

		if (!(n > 0))
			continue;
		last = i;
		if (below + n >= rank)
			return get_bound(i) *
			       exp2(-(1 - (rank - below) / n) / (1 << COLLECT_LATENCY_SCALE));
		below += n;
	}
	return below > 0 ? get_bound(last) : NAN;
}
