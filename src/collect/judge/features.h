/* SPDX-License-Identifier: Apache-2.0 */
/*
 * features.h - the features of a pod, each a number computed from the cells of its metrics. One
 * thread per pod. Independent of the detector.
 */
#ifndef SL_COLLECT_JUDGE_FEATURES_H
#define SL_COLLECT_JUDGE_FEATURES_H

#include "collect/read/collect.h"
#include "collect/read/attach.h"

/*
 * A histogram's window starts at the latest mark that is at least this old; marks are PART_NS
 * apart.
 */
#define COLLECT_FEATURE_WINDOW_NS 1000000000
#define COLLECT_FEATURE_PART_NS	  (COLLECT_FEATURE_WINDOW_NS / 3)
#define COLLECT_FEATURE_MARKS	  4u
/*
 * The median and 99th percentile of layers use a longer window: it lasts until Q_BEYOND
 * observations lie above the 99th percentile, but at most Q_NS. With fewer observations beyond it
 * on either side, a quantile would follow individual outliers, so it is treated as unknown.
 */
#define COLLECT_FEATURE_Q_BEYOND 3
#define COLLECT_FEATURE_Q_EVENTS (100 * COLLECT_FEATURE_Q_BEYOND)
#define COLLECT_FEATURE_Q_NS	 10000000000 /* upper limit; the window lasts up to twice as long */

struct collect_features {
	uint32_t count;
	const char **name; /* "requests_total{code=\"200\"}", "latency_seconds_p90" */
	bool *counter;	   /* the feature is the counter's rate */
	double *value;	   /* raw values after collect_features_take(); NaN means unknown */
	/* Private members. */
	struct collect_feature_source *source;
	uint32_t sources;
	/* histogram cells at each mark; layers have two longer windows in addition */
	uint64_t *window;
	size_t window_cells;
	int64_t mark_ns[COLLECT_FEATURE_MARKS]; /* time of each mark; 0 means not set yet */
	uint32_t mark;				/* index of the mark set last */
	uint64_t *scratch;
	void *text;
	uint64_t layout;
	uint32_t columns;
};

/* Returns true if f was made for this row's layout. */
bool collect_features_fit(const struct collect_features *f, const struct collect_tap_row *row);
/*
 * Rebuilds f for the layout of a row and discards earlier rows. Returns 0, or -ENOMEM with f empty.
 */
int collect_features_make(struct collect_features *f, const struct collect_tap_row *row);
void collect_features_take(struct collect_features *f, const struct collect_tap_row *row);
void collect_features_free(struct collect_features *f);

#endif
