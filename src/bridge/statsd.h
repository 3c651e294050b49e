/* SPDX-License-Identifier: Apache-2.0 */
/*
 * statsd.h - StatsD (github.com/statsd/statsd docs/metric_types.md) and DogStatsD: counters,
 * gauges, timers, histograms, distributions and sets, with tags and sample rates. Each line of a
 * packet is either used as a whole, or left out and counted once.
 *
 * Characters not allowed in Prometheus names become "_". Counters use library cells, timers are in
 * seconds, and the value of a set is the number of distinct values in the last interval.
 */
#ifndef SL_BRIDGE_STATSD_H
#define SL_BRIDGE_STATSD_H

#include <sidelight/sidelight.h>

#include "bridge/bridge.h"

#define STATSD_TAGS_MAX	  30u
#define STATSD_SERIES_MAX 65536u
#define STATSD_SET_NS	  10000000000ull /* counting interval of sets */

enum bridge_statsd_type {
	STATSD_COUNTER,
	STATSD_GAUGE,
	STATSD_TIMER,
	STATSD_HISTOGRAM,
	STATSD_SET
};

struct bridge_statsd_line {
	struct bridge_text name;   /* name as received */
	struct bridge_text values; /* one or more values, separated by ":"; for a set, any text */
	struct bridge_text tags;   /* tags "key:value,key", or empty */
	struct bridge_text container; /* DogStatsD's field "c:", or empty */
	double time; /* DogStatsD's field "T", in seconds since 1970; NaN means none */
	enum bridge_statsd_type type;
	double rate; /* 0 < rate <= 1 */
};

/* Parses a line. Returns false if it is malformed or is a DogStatsD event or service check. */
bool bridge_statsd_parse(const char *s, size_t n, struct bridge_statsd_line *out);

struct bridge_statsd_counts {
	uint64_t lines;		 /* lines accepted */
	uint64_t malformed;	 /* lines that are malformed, or have a malformed value */
	uint64_t events, checks; /* events and service checks of DogStatsD, which are not metrics */
	uint64_t filtered;	 /* lines that a mapping rule drops */
	uint64_t untimely;	 /* gauges whose timestamp is outside the window for scrapes */
	/* lines refused because there was no room, or the name has another type */
	uint64_t refused;
	uint64_t expired; /* number of expired series */
};

struct bridge_statsd;
struct bridge_statsd_map;

struct bridge_statsd_opts {
	size_t series; /* 0 means STATSD_SERIES_MAX */
	/* a sign does not make a gauge relative; "c:" becomes a label; "T" is used */
	bool dogstatsd;
	const struct bridge_statsd_map *map; /* mapping rules, or NULL */
};

/*
 * Publishes with p. p and the map still belong to the caller. opts may be NULL. Returns NULL if out
 * of memory.
 */
struct bridge_statsd *bridge_statsd_new(struct sl_publisher *p,
					const struct bridge_statsd_opts *opts);
void bridge_statsd_free(struct bridge_statsd *s); /* NULL is ignored */
void bridge_statsd_packet(struct bridge_statsd *s, const char *bytes, size_t n, uint64_t now_ns);
/*
 * Ends the intervals of sets, and removes series that have not been updated for expire_ns. Call it
 * about every second.
 */
void bridge_statsd_tick(struct bridge_statsd *s, uint64_t now_ns, uint64_t expire_ns);
struct bridge_statsd_counts bridge_statsd_counts(const struct bridge_statsd *s);
size_t bridge_statsd_series(const struct bridge_statsd *s);

/*
 * statsd_map.c: mapping rules in the format of statsd_exporter's file
 * (github.com/prometheus/statsd_exporter, Metric Mapping and Configuration). Globs are tried in
 * order before regular expressions. A rule is looked up once per series.
 */

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
