/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bridge.h - the common, format-independent model for metrics from programs that do not link
 * libsidelight. Parsers are pure: they take bytes, call a sink, and do no I/O. The sink that
 * publishes is in publish.h.
 */
#ifndef SL_BRIDGE_BRIDGE_H
#define SL_BRIDGE_BRIDGE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/pb_read.h"

/* Not NUL-terminated; valid until the parser returns. */
struct bridge_text {
	const char *s;
	size_t n;
};

/* The text of a string literal. */
#define BRIDGE_TEXT(s) ((struct bridge_text){s, sizeof(s) - 1})

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
extern const char *const bridge_type_names[BRIDGE_TYPES]; /* names as in OpenMetrics */

/*
 * The name is as in text format 0.0.4: the name of a counter ends in "_total" if the names of its
 * samples do, and the name of an info ends in "_info".
 */
struct bridge_family {
	struct bridge_text name, help, unit;
	enum bridge_type type;
};

struct bridge_exemplar {
	const struct bridge_label *labels;
	size_t label_count;
	double value;
	uint64_t time_ns; /* time since 1970; 0 means unknown */
	/* in a histogram: index of the bucket in .values, starting at BRIDGE_BUCKETS */
	uint32_t bucket;
};

/* Indices of a point's values. */
#define BRIDGE_VALUE	 0u /* index of the only value of a counter, gauge or unknown */
#define BRIDGE_SUM	 0u /* index of the sum of a summary or histogram; NaN means unknown */
#define BRIDGE_COUNT	 1u
#define BRIDGE_QUANTILES 2u /* index of a summary's first quantile; there is one per bound */
/*
 * index of the first bucket of a classic histogram; buckets are cumulative, one value per bound,
 * then +Inf
 */
#define BRIDGE_BUCKETS 2u

/* Exponential buckets as in Prometheus' native histograms; see sidelight/region.h. */
struct bridge_exponential {
	int scale;
	double zero_threshold;
	uint64_t zero_count;
	int32_t first;		 /* index of the first bucket in .buckets */
	const uint64_t *buckets; /* not cumulative */
	size_t bucket_count;
	/* number of observations below -zero_threshold, which are counted but not published */
	uint64_t negative;
};

/* A series, or all series that make up a histogram, summary or state set. */
struct bridge_point {
	const struct bridge_label *labels; /* sorted by key, without duplicates */
	size_t label_count;
	const double *values; /* an info has no values, a state set has one per state */
	size_t value_count;
	/* upper bounds of a classic histogram, without +Inf; or the quantiles of a summary */
	const double *bounds;
	size_t bound_count;
	const struct bridge_exponential *exponential; /* or NULL */
	const struct bridge_text *states;
	size_t state_count;
	const struct bridge_exemplar *exemplars;
	size_t exemplar_count;
	uint64_t created_ns; /* creation time, since 1970; 0 means unknown */
	uint64_t time_ns;    /* time of the values, since 1970; 0 means unknown */
	bool delta;	     /* add the values to the previous ones instead of replacing them */
};

struct bridge_sink {
	/* Returns false to stop because there is no room; the parser then returns -ENOSPC. */
	bool (*family)(struct bridge_sink *s, const struct bridge_family *f);
	bool (*point)(struct bridge_sink *s, const struct bridge_point *p);
	/*
	 * Called instead of the other two functions if all families and points are the same as last
	 * time, with the same labels and in the same order; passes their values one after another.
	 * If it is NULL, the parser never calls it.
	 */
	void (*values)(struct bridge_sink *s, const double *values, size_t n);
};

struct bridge_error {
	int error;     /* -errno */
	uint32_t line; /* line number, starting at 1; 0 means the error concerns no line */
	char text[160];
};

/* Fills in *e unless it is NULL. Returns error. */
int bridge_fail(struct bridge_error *e, int error, uint32_t line, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * Points with a timestamp outside this window, in seconds since 1970, are left out. A region holds
 * current values, and readers that honour timestamps, such as Prometheus, do not show older values.
 */
struct bridge_window {
	double from, to;
};

#define BRIDGE_PAST_SECONDS   300.0 /* lookback of Prometheus' queries */
#define BRIDGE_FUTURE_SECONDS 600.0 /* Prometheus refuses samples further in the future */
#define BRIDGE_ALL_TIMES      ((struct bridge_window){-INFINITY, INFINITY})

/* time: NaN means no timestamp. */
static inline bool bridge_timely(const struct bridge_window *w, double time)
{
	return !(time < w->from || time > w->to);
}

/* Limits for one body. */
struct bridge_limits {
	size_t points; /* maximum number of points; 0 means BRIDGE_POINTS_MAX */
	/* maximum number of values, including buckets and quantiles; 0 means BRIDGE_VALUES_MAX */
	size_t values;
	bool untimed; /* timestamps are not allowed */
};
#define BRIDGE_POINTS_MAX 500000u
#define BRIDGE_VALUES_MAX 2000000u
#define BRIDGE_BODY_MAX	  (64u << 20)

struct bridge_body_counts {
	size_t points, values; /* numbers of points and values in the body */
	size_t untimely;       /* points outside the window */
	/* the rest is for text only */
	size_t refused;	 /* samples without the label le or quantile of their type */
	bool same_shape; /* the body had the same shape as the one before */
};

/*
 * number.c: parses the decimal number at p, with the same rounding as strtod():
 * [+-]digits[.digits][e...], or Inf, Infinity or NaN in any case. Returns its end, or NULL.
 */
const char *bridge_number(const char *p, const char *end, double *out);

/*
 * number.c: parses unsigned seconds at p and returns ns, rounded down, or 0 if invalid or too
 * large.
 */
uint64_t bridge_seconds_ns(const char *p, const char *end);

/*
 * Returns a NUL-terminated copy that the caller frees, or NULL if out of memory. (strndup() might
 * search for a NUL beyond the text.)
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

static inline struct bridge_text bridge_text_of(struct base_pb p)
{
	return (struct bridge_text){(const char *)p.at, (size_t)(p.end - p.at)};
}

static inline bool bridge_text_equal(struct bridge_text a, struct bridge_text b)
{
	return a.n == b.n && !__builtin_memcmp(a.s, b.s, a.n);
}

static inline bool bridge_text_is(struct bridge_text a, const char *s)
{
	return bridge_text_equal(a, (struct bridge_text){s, strlen(s)});
}

/* Compares like strcmp(). */
static inline int bridge_text_compare(struct bridge_text a, struct bridge_text b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int order = n ? memcmp(a.s, b.s, n) : 0;

	return order ?: (a.n > b.n) - (a.n < b.n);
}

/* Sorts labels by key. Returns false if a key occurs twice. */
bool bridge_labels_sort(struct bridge_label *labels, size_t n);
bool bridge_labels_equal(const struct bridge_label *a, size_t n, const struct bridge_label *b,
			 size_t m);
uint64_t bridge_labels_hash(const struct bridge_label *labels, size_t n);

#endif
