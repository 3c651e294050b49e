/* SPDX-License-Identifier: Apache-2.0 */
/* selected.h - the series that matchers select, with their labels and points. */
#ifndef SL_API_SELECTED_H
#define SL_API_SELECTED_H

#include "api/matchers.h"
#include "export/remote_write.h"

#define API_SELECTED_MAX   50000u	      /* maximum number of series */
#define API_SELECTED_BYTES ((size_t)32 << 20) /* maximum size of all labels */

struct api_series {
	struct export_remote_series *of; /* sorted labels, including __name__ */
	uint64_t instance;
	uint32_t metric;
	bool counts; /* true for a counter, whose values only grow */
};

struct api_selected {	      /* initially zero */
	struct api_series *v; /* series, sorted by their labels */
	size_t n, room, bytes;
	int64_t known_ns; /* CLOCK_REALTIME of the selection */
	int err;
	struct api_matchers *matchers; /* only valid during the selection */
	/* of the request; NULL means no limit; set before the selection */
	struct base_budget *budget;
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

/* Compares series by their labels, as Prometheus does. Also a callback for qsort(). */
int api_series_order(const void *a, const void *b);

/*
 * A label of a series. api_series_label() reads the next one; *at is initially 0. It returns false
 * at the end. The strings are not NUL-terminated.
 */
struct api_label {
	const char *name, *value;
	size_t name_bytes, value_bytes;
};
bool api_series_label(const struct api_series *s, size_t *at, struct api_label *out);

/*
 * Reads points from *from_ns to to_ns, oldest first, at most max (>= 2). Of several points in one
 * millisecond, only the last is kept. Sets *from_ns to the start of the next call's range; it
 * exceeds to_ns if there is no more. A series that is gone has no points.
 */
size_t api_series_points(struct collect_collector *c, const struct api_selected *s,
			 const struct api_series *of, int64_t *from_ns, int64_t to_ns,
			 struct collect_point *out, size_t max);

/* Converts a client's milliseconds to nanoseconds. Out-of-range times are clamped. */
static inline int64_t api_ms_to_ns(int64_t ms)
{
	return ms > INT64_MAX / 1000000	  ? INT64_MAX
	       : ms < INT64_MIN / 1000000 ? INT64_MIN
					  : ms * 1000000;
}

#endif
