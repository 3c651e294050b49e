/* SPDX-License-Identifier: Apache-2.0 */
/*
 * latency.h - converts histograms with any buckets to one form, so that they can be added:
 * exponential buckets of factor 2^(1/8), like Prometheus' native histograms of schema 3, from 1 us
 * to 1000 s. The conversion changes an observation by less than 9 %. Pure functions.
 */
#ifndef SL_COLLECT_SERVICES_LATENCY_H
#define SL_COLLECT_SERVICES_LATENCY_H

#include "region/decode.h"

#define COLLECT_LATENCY_SCALE 3
#define COLLECT_LATENCY_FIRST (-159) /* first upper bound 2^(-159/8) s: 1.04 us */
#define COLLECT_LATENCY_COUNT 240u   /* buckets up to 2^10 s */

struct collect_latency {
	/* observations; values out of range go to the first and last bucket */
	double bucket[COLLECT_LATENCY_COUNT];
};

/* Adds the buckets of a histogram, in units of `unit` seconds. */
void collect_latency_add(struct collect_latency *to, const struct region_metric *m,
			 const uint64_t *buckets, double unit);
/* Adds n observations spread over (low, high] seconds. */
void collect_latency_spread(struct collect_latency *to, double low, double high, double n);
/* The observations of one second. */
struct collect_latency_tick {
	float bucket[COLLECT_LATENCY_COUNT];
};
/* Adds the growth from a to b, which are cumulative. */
void collect_latency_grown(struct collect_latency_tick *to, const struct collect_latency *a,
			   const struct collect_latency *b);
void collect_latency_sum(struct collect_latency *to, const struct collect_latency_tick *from);
double collect_latency_count(const struct collect_latency *l);
/* returns seconds; NaN if empty */
double collect_latency_quantile(const struct collect_latency *l, double q);

#endif
