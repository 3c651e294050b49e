/* SPDX-License-Identifier: Apache-2.0 */
/*
 * statsd_map.h - mapping rules in the format of statsd_exporter's file
 * (github.com/prometheus/statsd_exporter, Metric Mapping and Configuration). Globs are tried in
 * order before regular expressions. A rule is looked up once per series.
 */
#ifndef SL_BRIDGE_STATSD_MAP_H
#define SL_BRIDGE_STATSD_MAP_H

#include "bridge/statsd.h"

#define STATSD_CAPTURES 10u /* $0 to $9 */

struct bridge_statsd_rule {
	const char *match, *name, *help;
	const char *(*labels)[2]; /* pairs of key and value template */
	size_t label_count;
	const double
		/* for timers, histograms and distributions; NULL means exponential buckets */
		*bounds;
	size_t bound_count;
	uint64_t expire_ns; /* 0 means the default */
	bool drop;
	int type; /* the only type of lines that match; -1 means any */
	void *regex;
};

/* Returns NULL with one line in error. */
struct bridge_statsd_map *bridge_statsd_map_open(const char *path, char *error, size_t bytes);
void bridge_statsd_map_free(struct bridge_statsd_map *m); /* NULL is ignored */

/* Returns the rule for a metric, never NULL, and fills in the captures. */
const struct bridge_statsd_rule *
bridge_statsd_map_find(const struct bridge_statsd_map *m, const char *name,
		       enum bridge_statsd_type type, struct bridge_text captures[STATSD_CAPTURES]);
/* Writes a template with $1 or ${1} replaced. Returns its length, or -1 if there is no room. */
int bridge_statsd_map_expand(const char *text, const struct bridge_text captures[STATSD_CAPTURES],
			     char *out, size_t bytes);

#endif
