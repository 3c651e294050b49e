/* SPDX-License-Identifier: Apache-2.0 */
/*
 * features.h - the features of a pod: one number each, from the cells of its metrics. One thread
 * per pod. Knows no detector.
 */
#ifndef SL_COLLECT_JUDGE_FEATURES_H
#define SL_COLLECT_JUDGE_FEATURES_H

#include "collect/read/collect.h"
#include "collect/read/attach.h"

/* A histogram's window begins at the latest mark that is this old; marks are a PART apart. */
#define COLLECT_FEATURE_WINDOW_NS 1000000000
#define COLLECT_FEATURE_PART_NS	  (COLLECT_FEATURE_WINDOW_NS / 3)
#define COLLECT_FEATURE_MARKS	  4u
/*
 * Median and 99th percentile of layers have a window of their own: until Q_BEYOND observations lie
 * above the 99th percentile, but at most Q_NS. With fewer observations beyond it on either side, a
 * quantile follows single extremes; then it is not known.
 */
#define COLLECT_FEATURE_Q_BEYOND 3
#define COLLECT_FEATURE_Q_EVENTS (100 * COLLECT_FEATURE_Q_BEYOND)
#define COLLECT_FEATURE_Q_NS	 10000000000 /* one to two of these at the longest */

struct collect_features {
	uint32_t count;
	const char **name; /* "requests_total{code=\"200\"}", "latency_seconds_p90" */
	bool *counter;	   /* its rate is the feature */
	double *value; /* after collect_features_take(): counters are not rates; NaN: not known */
	double *shown; /* counters: rate since the row before */
	/* private */
	struct collect_feature_source *source;
	uint32_t sources;
	double *last;
	int64_t last_ns;
	uint64_t *window; /* cells of histograms at the marks, and of layers' longer windows */
	size_t window_cells;
	int64_t mark_ns[COLLECT_FEATURE_MARKS]; /* 0: not yet */
	uint32_t mark;				/* the one set last */
	uint64_t *scratch;
	void *text;
	uint64_t layout;
	uint32_t columns;
};

/* True if f was made for this row's layout. */
bool collect_features_fit(const struct collect_features *f, const struct collect_tap_row *row);
/* Rebuilds f for the layout of a row and forgets the past. 0 or -ENOMEM (f is empty). */
int collect_features_make(struct collect_features *f, const struct collect_tap_row *row);
void collect_features_take(struct collect_features *f, const struct collect_tap_row *row);
void collect_features_free(struct collect_features *f);

#endif
