/* SPDX-License-Identifier: Apache-2.0 */
/*
 * features.h - what analysis looks at of a pod: a number a feature, of the cells of its metrics.
 * One thread a pod. Knows no detector.
 */
#ifndef SL_COLLECT_ANALYSIS_FEATURES_H
#define SL_COLLECT_ANALYSIS_FEATURES_H

#include "collect/collect.h"

#define COLLECT_FEATURE_WINDOW_NS 1000000000 /* a histogram's: one to two of these */
/*
 * Median and 99th percentile of layers are of a window of their own, which holds as many
 * observations as a 99th percentile takes (Q_BEYOND above it), or is as long as it may be. With
 * fewer than that beyond it on either side, a quantile is that of the extremes, and jumps with each
 * of them: then it is not known.
 */
#define COLLECT_FEATURE_Q_BEYOND 3
#define COLLECT_FEATURE_Q_EVENTS (100 * COLLECT_FEATURE_Q_BEYOND)
#define COLLECT_FEATURE_Q_NS	 10000000000 /* one to two of these at the longest */

struct collect_features {
	uint32_t count;
	const char **name; /* "requests_total{code=\"200\"}", "latency_seconds_p90" */
	bool *counter;	   /* its rate is what counts */
	double *value;	   /* after collect_features_take(): counters as they are; NaN: not known */
	double *shown;	   /* counters: rate since the row before */
	/* private */
	struct collect_feature_source *source;
	uint32_t sources;
	double *last;
	int64_t last_ns;
	uint64_t *window; /* cells of histograms: at the start of each window, and in its middle */
	size_t window_cells;
	int64_t old_ns, mid_ns;
	uint64_t *scratch;
	void *text;
	uint64_t layout;
	uint32_t columns;
};

/* True if f was made for this row's layout. */
bool collect_features_fit(const struct collect_features *f, const struct collect_tap_row *row);
/* Makes f anew for the layout of a row; what it remembers is forgotten. 0 or -ENOMEM (f is empty).
 */
int collect_features_make(struct collect_features *f, const struct collect_tap_row *row);
void collect_features_take(struct collect_features *f, const struct collect_tap_row *row);
void collect_features_free(struct collect_features *f);

#endif
