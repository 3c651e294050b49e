// SPDX-License-Identifier: Apache-2.0
/* Histograms. */
#include "internal.h"

int sl__shape_exponential(const struct sl_metric_opts *o, struct sl__shape *shape)
{
	(void)o, (void)shape;
	return SL__REFUSED_SHAPE;
}
int sl__shape_classic(const struct sl_metric_opts *o, struct sl__shape *shape)
{
	(void)o, (void)shape;
	return SL__REFUSED_SHAPE;
}
const struct sl__buckets *sl__buckets_get(const struct sl__shape *shape)
{
	(void)shape;
	return NULL;
}
void sl__buckets_put(const struct sl__buckets *b)
{
	(void)b;
}
void sl_histogram_observe(struct sl_histogram h, double v)
{
	(void)h, (void)v;
}
uint64_t sl_histogram_count(struct sl_histogram h)
{
	(void)h;
	return 0;
}
double sl_histogram_sum(struct sl_histogram h)
{
	(void)h;
	return 0;
}
