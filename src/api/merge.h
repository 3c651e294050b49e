/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.h - one histogram out of several whose buckets differ. Exponential ones meet at the lowest
 * of their scales, where two buckets of the next higher scale are exactly one; classic ones at the
 * bounds that all of them have. Nothing is interpolated: what does not fit is refused.
 */
#ifndef SL_API_MERGE_H
#define SL_API_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/range.h"
#include "collect/read/past.h"
#include "region/decode.h"

struct api_shape {
	bool exponential;
	int scale;
	int32_t first; /* exponential: as in struct region_metric */
	double zero;
	uint32_t buckets;
	uint32_t bound_count;
	double *bounds; /* classic */
};

/* Copies the shape of a metric. 0 or -ENOMEM. */
int api_shape_of(struct api_shape *s, const struct region_metric *m);
bool api_shape_is(const struct api_shape *s, const struct region_metric *m);
void api_shape_free(struct api_shape *s); /* leaves it zero */

/* The shape that all n have in common. 0, -ENOMEM, or -EDOM with the reason in *why. */
int api_shape_merge(struct api_shape *out, const struct api_shape *const *of, size_t n,
		    const char **why);
/* The bucket of the merged shape that a bucket of one of those it was made of belongs to. */
uint32_t api_shape_bucket(const struct api_shape *merged, const struct api_shape *of,
			  uint32_t bucket);
double api_shape_quantile(const struct api_shape *s, const uint64_t *buckets, double q);
/* A bucket's bounds: exclusive, inclusive. */
double api_shape_low(const struct api_shape *s, uint32_t bucket);
double api_shape_high(const struct api_shape *s, uint32_t bucket);

/*
 * Adds what a histogram of shape `of` observed in each step to count[step * merged->buckets +
 * bucket]. False: there is no such histogram.
 */
bool api_shape_observed(struct collect_collector *c, uint64_t instance, uint32_t metric,
			const struct api_steps *steps, const struct api_shape *merged,
			const struct api_shape *of, uint64_t *count);
/* What was observed in a second is known at its end, and a step shorter than that has nothing. */
#define API_OBSERVED_NS 1000000000ll

#endif
