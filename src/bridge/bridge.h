/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bridge.h - metrics of programs that do not link libsidelight, as all formats have them. Parsers
 * are pure: bytes in, a sink's calls out, no I/O. publish.h has the sink that publishes.
 */
#ifndef SL_BRIDGE_BRIDGE_H
#define SL_BRIDGE_BRIDGE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Not terminated; valid until the parser returns. */
struct bridge_text {
	const char *s;
	size_t n;
};

struct bridge_label {
	struct bridge_text key, value;
};

enum bridge_type {
	BRIDGE_UNKNOWN,
	BRIDGE_COUNTER,
	BRIDGE_GAUGE,
	BRIDGE_SUMMARY,
	BRIDGE_HISTOGRAM,
	BRIDGE_GAUGE_HISTOGRAM,
	BRIDGE_INFO,
	BRIDGE_STATESET,
};
#define BRIDGE_TYPES 8
extern const char *const bridge_type_names[BRIDGE_TYPES]; /* those of OpenMetrics */

/* The name is that of text 0.0.4: a counter's ends in "_total" if its samples do, an info's in
 * "_info". */
struct bridge_family {
	struct bridge_text name, help, unit;
	enum bridge_type type;
};

struct bridge_exemplar {
	const struct bridge_label *labels;
	size_t label_count;
	double value;
	uint64_t time_ns; /* since 1970; 0: not known */
	uint32_t bucket;  /* of a histogram: its number in values, from BRIDGE_BUCKETS on */
};

/* Where a point's values are. */
#define BRIDGE_VALUE	 0u /* counter, gauge, unknown; no other */
#define BRIDGE_SUM	 0u /* summary, histograms; NaN: not known */
#define BRIDGE_COUNT	 1u
#define BRIDGE_QUANTILES 2u /* summary: one for each bound */
#define BRIDGE_BUCKETS	 2u /* classic histograms: cumulated, one for each bound, then +Inf */

/* Exponential buckets: those of Prometheus' native histograms, see sidelight/region.h. */
struct bridge_exponential {
	int scale;
	double zero_threshold;
	uint64_t zero_count;
	int32_t first;		 /* number of the first bucket */
	const uint64_t *buckets; /* not cumulated */
	size_t bucket_count;
	uint64_t negative; /* observations below -zero_threshold: not published, but counted */
};

/* One series, or those of one label set that belong together. */
struct bridge_point {
	const struct bridge_label *labels; /* ascending by key, each once */
	size_t label_count;
	const double *values; /* an info has none, a state set one for each state */
	size_t value_count;
	const double *bounds; /* of a classic histogram, without +Inf; ranks of a summary */
	size_t bound_count;
	const struct bridge_exponential *exponential; /* or NULL */
	const struct bridge_text *states;
	size_t state_count;
	const struct bridge_exemplar *exemplars;
	size_t exemplar_count;
	uint64_t created_ns; /* since 1970; 0: not known */
	bool delta;	     /* to add to what is there, instead of replacing it */
};

struct bridge_sink {
	/* False: stop, as there is no room; the parser returns -ENOSPC. */
	bool (*family)(struct bridge_sink *s, const struct bridge_family *f);
	bool (*point)(struct bridge_sink *s, const struct bridge_point *p);
	/*
	 * In place of all families and points, which are those of the last time, in the same order
	 * and with the same labels: their values one after another. NULL: the parser never does so.
	 */
	void (*values)(struct bridge_sink *s, const double *values, size_t n);
};

struct bridge_error {
	int error;     /* -errno */
	uint32_t line; /* from 1; 0: not of a line */
	char text[160];
};

/* Fills in *e unless it is NULL, and returns error. */
int bridge_fail(struct bridge_error *e, int error, uint32_t line, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * Points whose samples have a time outside are left out: seconds since 1970. A region has the
 * values of now, and readers that keep to such times, as Prometheus, do not show them.
 */
struct bridge_window {
	double from, to;
};

#define BRIDGE_ALL_TIMES ((struct bridge_window){-INFINITY, INFINITY})

/* NaN: without a time. */
static inline bool bridge_timely(const struct bridge_window *w, double time)
{
	return !(time < w->from || time > w->to);
}

/* Limits of what one body may bring. */
struct bridge_limits {
	size_t points; /* 0: BRIDGE_POINTS_MAX */
	size_t values; /* numbers: buckets and quantiles count; 0: BRIDGE_VALUES_MAX */
};
#define BRIDGE_POINTS_MAX 500000u
#define BRIDGE_VALUES_MAX 2000000u
#define BRIDGE_BODY_MAX	  (64u << 20)

/*
 * number.c: the decimal number that begins at p, rounded as by strtod(): [+-]digits[.digits][e...],
 * Inf, Infinity or NaN in any case. Returns its end, or NULL.
 */
const char *bridge_number(const char *p, const char *end, double *out);

/* number.c: the seconds at p, without sign, in ns, rounded down; 0: too many, or none. */
uint64_t bridge_seconds_ns(const char *p, const char *end);

/* A string of its own, to be freed; NULL: out of memory. (strndup() may look for a NUL beyond it.)
 */
static inline char *bridge_text_copy(struct bridge_text t)
{
	char *s = malloc(t.n + 1);

	if (!s)
		return NULL;
	if (t.n)
		memcpy(s, t.s, t.n);
	s[t.n] = '\0';
	return s;
}

static inline bool bridge_text_is(struct bridge_text a, const char *s, size_t n)
{
	return a.n == n && !__builtin_memcmp(a.s, s, n);
}

static inline bool bridge_text_equal(struct bridge_text a, struct bridge_text b)
{
	return bridge_text_is(a, b.s, b.n);
}

/* Sorts by key. False: one stands twice. */
bool bridge_labels_sort(struct bridge_label *labels, size_t n);
bool bridge_labels_equal(const struct bridge_label *a, size_t n, const struct bridge_label *b,
			 size_t m);
uint64_t bridge_labels_hash(const struct bridge_label *labels, size_t n);

#endif
