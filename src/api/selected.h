/* SPDX-License-Identifier: Apache-2.0 */
/* selected.h - the series that matchers select, with their labels and points. */
#ifndef SL_API_SELECTED_H
#define SL_API_SELECTED_H

#include <stdbool.h>
#include <stddef.h>

#include "collect/read/collect.h"
#include "export/remote_write.h"

#define API_SELECTED_MAX   50000u	      /* maximum number of series */
#define API_SELECTED_BYTES ((size_t)32 << 20) /* maximum size of all labels */

struct api_series {
	struct export_remote_series *of; /* sorted labels, including __name__ */
	struct collect_series_ref ref;
	int64_t found_ns, read_ns; /* as in struct collect_series_view */
	struct api_series *before; /* an ended region's series with the points before found_ns */
};

struct api_selected {	      /* initially zero */
	struct api_series *v; /* series, sorted by their labels */
	size_t n, room, bytes;
	int64_t known_ns; /* CLOCK_REALTIME of the selection */
	int err;
	struct api_matchers *matchers; /* only valid during the selection */
	/* budget of the request, set before the selection; NULL means no limit */
	struct base_budget *budget;
	/* also select series that ended after this time; set before the selection */
	int64_t from_ns;
	bool few_buckets; /* select only the bucket +Inf of histograms; set before the selection */
};

/*
 * Adds the series that the matchers select. Returns 0, -ENOMEM, -E2BIG if there are more series or
 * labels than a response may have, -EDOM if a regular expression is too costly, or the error of the
 * budget.
 */
int api_select(struct api_selected *s, struct collect_collector *c, struct api_matchers *m);
/* Returns the error message for a failure of api_select() or api_promql_evaluate(). */
const char *api_select_failure(int err);
void api_selected_free(struct api_selected *s);

/* Compares series by their labels, as Prometheus does. */
int api_series_order(const struct export_remote_series *a, const struct export_remote_series *b);

/*
 * A label of a series. api_series_label() reads the next one; *at is initially 0. It returns false
 * at the end. The strings are not NUL-terminated.
 */
struct api_label {
	const char *name, *value;
	size_t name_bytes, value_bytes;
};
bool api_series_label(const struct export_remote_series *s, size_t *at, struct api_label *out);

/*
 * Reads points from *from_ns to to_ns, oldest first, at most max (>= 2). Of several points in one
 * millisecond, only the last is kept. Sets *from_ns to the start of the next call's range; it
 * exceeds to_ns if there is no more. A point for which api_is_stale() is true marks the end of the
 * series.
 */
size_t api_series_points(struct collect_collector *c, const struct api_selected *s,
			 const struct api_series *of, int64_t *from_ns, int64_t to_ns,
			 struct collect_point *out, size_t max);

/* True for the value with which Prometheus marks the end of a series. */
bool api_is_stale(double value);
/* Drops points with such a value, for range vectors. Returns the number of points left. */
size_t api_drop_stale(struct collect_point *p, size_t n);

/* Reads the newest point of a range. Returns the number of points, 0 or 1. */
size_t api_series_last(struct collect_collector *c, const struct api_selected *s,
		       const struct api_series *of, int64_t from_ns, int64_t to_ns,
		       struct collect_point *out);

/*
 * Times of requests are clamped to +-4e9 s, until the year 2096. So the difference of two of them
 * fits into an int64_t of nanoseconds, even after offsets and ranges of a year.
 */
#define API_SECONDS_MAX 4e9

/* Converts a client's milliseconds to nanoseconds. Out-of-range times are clamped. */
static inline int64_t api_ms_to_ns(int64_t ms)
{
	return ms > INT64_MAX / 1000000	  ? INT64_MAX
	       : ms < INT64_MIN / 1000000 ? INT64_MIN
					  : ms * 1000000;
}

/*
 * matchers.c: selectors of Prometheus: label matchers, from a protobuf message or text. Regular
 * expressions must match a whole value. PCRE2 evaluates them, because it supports all RE2 syntax
 * that selectors use. Their cost is bounded, because expressions come from clients.
 */

#define API_MATCHERS_MAX 16u

enum api_match { API_MATCH_EQUAL, API_MATCH_NOT_EQUAL, API_MATCH_RE, API_MATCH_NOT_RE };

struct api_matchers {
	size_t n;
	/* true if a regular expression exceeded its limit: the selection is incomplete */
	bool too_costly;
	struct api_matcher {
		enum api_match type;
		char *name, *value;
		struct base_regex *regex; /* NULL means equality */
	} m[API_MATCHERS_MAX];
};

/*
 * Adds a matcher. *m is initially zero. Copies name and value. Returns 0, -ENOMEM, or -EINVAL with
 * a one-line error.
 */
int api_matchers_add(struct api_matchers *m, enum api_match type, const char *name,
		     size_t name_bytes, const char *value, size_t value_bytes, char *error,
		     size_t error_bytes);
/*
 * Parses a selector such as name{a="b",c=~"d.*"}. Returns the end of the selector, or NULL with a
 * one-line error. As in Prometheus, at least one matcher must not match the empty string.
 */
const char *api_matchers_parse(struct api_matchers *m, const char *text, char *error,
			       size_t error_bytes);
void api_matchers_free(struct api_matchers *m); /* resets *m to zero */

/*
 * Return true if the matchers for __name__ accept the name, or those for labels accept the series.
 * A missing label counts as empty. Not thread-safe.
 */
bool api_matchers_name(struct api_matchers *m, const char *name);
bool api_matchers_labels(struct api_matchers *m, const struct collect_series_view *s);

/* Returns the value of a label, or "". */
const char *api_label_of(const struct collect_series_view *s, const char *key);

/*
 * Returns a NUL-terminated copy of the bytes, or NULL if out of memory. Unlike with strndup(), ASan
 * does not expect a NUL after the bytes.
 */
char *api_copy_text(const char *s, size_t bytes);
/*
 * Decodes a quoted string of PromQL into *out, which the caller frees. Returns its end, or NULL.
 */
const char *api_promql_text(const char *s, char **out);
/* Skips white space and comments of PromQL. */
const char *api_promql_space(const char *s);
/* Returns the length of the metric or label name at s; 0 if there is no name. */
size_t api_promql_name(const char *s, bool colons);

#endif
