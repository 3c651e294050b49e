/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.h - merges histograms with different buckets. Exponential histograms are merged at their
 * lowest scale, where two buckets of the next higher scale form exactly one; classic histograms at
 * the bounds that all have in common. Nothing is interpolated: histograms that do not fit are
 * refused.
 */
#ifndef SL_API_MERGE_H
#define SL_API_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/internal.h"
#include "base/budget.h"
#include "collect/read/past.h"
#include "region/decode.h"

struct api_shape {
	bool exponential;
	int scale;
	int32_t first; /* exponential: first bucket, as in struct region_metric */
	double zero;
	uint32_t buckets;
	uint32_t bound_count;
	double *bounds; /* bounds of classic buckets */
};

/* Copies the shape of a metric. Returns 0 or -ENOMEM. */
int api_shape_of(struct api_shape *s, const struct region_metric *m);
bool api_shape_is(const struct api_shape *s, const struct region_metric *m);
void api_shape_free(struct api_shape *s); /* resets *s to zero */

/*
 * Finds the finest shape that all n shapes can be converted to. Returns 0, -ENOMEM, or -EDOM with
 * the reason in *why.
 */
int api_shape_merge(struct api_shape *out, const struct api_shape *const *of, size_t n,
		    const char **why);
/* Maps a bucket of one of the merged shapes to a bucket of the result. */
uint32_t api_shape_bucket(const struct api_shape *merged, const struct api_shape *of,
			  uint32_t bucket);
double api_shape_quantile(const struct api_shape *s, const uint64_t *buckets, double q);
/* Return the bounds of a bucket: the lower one is exclusive, the upper one inclusive. */
double api_shape_low(const struct api_shape *s, uint32_t bucket);
double api_shape_high(const struct api_shape *s, uint32_t bucket);

/*
 * Adds the observations of a histogram with shape `of` per step to count[step * merged->buckets +
 * bucket]. Returns false if there is no such histogram. If the budget, which may be NULL, is used
 * up, older observations are missing.
 */
bool api_shape_observed(struct collect_collector *c, const struct collect_series_ref *series,
			const struct api_steps *steps, const struct api_shape *merged,
			const struct api_shape *of, uint64_t *count, struct base_budget *budget);
/* Observations are recorded once per second, at its end: a shorter step would be empty. */
#define API_OBSERVED_NS 1000000000ll

#endif
