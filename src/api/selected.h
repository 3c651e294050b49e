/* SPDX-License-Identifier: Apache-2.0 */
/* selected.h - the series that matchers select, with their labels, and their points. */
#ifndef SL_API_SELECTED_H
#define SL_API_SELECTED_H

#include "api/matchers.h"
#include "export/remote_write.h"

#define API_SELECTED_MAX   50000u	      /* series */
#define API_SELECTED_BYTES ((size_t)32 << 20) /* of labels */

struct api_series {
	struct export_remote_series *of; /* labels, sorted, with __name__ */
	uint64_t instance;
	uint32_t metric;
	bool counts; /* its values only grow */
};

struct api_selected {	      /* initially zero */
	struct api_series *v; /* in the order of their labels */
	size_t n, room, bytes;
	int64_t known_ns; /* CLOCK_REALTIME of the selection */
	int err;
	struct api_matchers *matchers; /* while it is made */
};

/*
 * Adds what the matchers select. 0; -ENOMEM; -E2BIG: more series or labels than an answer has;
 * -EDOM: a regular expression is too costly.
 */
int api_select(struct api_selected *s, struct collect_collector *c, struct api_matchers *m);
/* What a failure of api_select() or api_promql_evaluate() means, in words. */
const char *api_select_failure(int err);
void api_selected_free(struct api_selected *s);

/* Orders series by their labels, as Prometheus does. For qsort(), too. */
int api_series_order(const void *a, const void *b);

/* One label of a series: *at is 0 at first. False at the end. Not NUL-terminated. */
struct api_label {
	const char *name, *value;
	size_t name_bytes, value_bytes;
};
bool api_series_label(const struct api_series *s, size_t *at, struct api_label *out);

/*
 * Points from *from_ns to to_ns, oldest first, at most max (>= 2) of them, of which only the last
 * of a millisecond is kept. *from_ns becomes the time from which on to ask for more; beyond to_ns:
 * there is no more. A series that is gone has none.
 */
size_t api_series_points(struct collect_collector *c, const struct api_selected *s,
			 const struct api_series *of, int64_t *from_ns, int64_t to_ns,
			 struct collect_point *out, size_t max);

/* Milliseconds of a client to nanoseconds; what is out of range becomes the end of it. */
static inline int64_t api_ms_to_ns(int64_t ms)
{
	return ms > INT64_MAX / 1000000	  ? INT64_MAX
	       : ms < INT64_MIN / 1000000 ? INT64_MIN
					  : ms * 1000000;
}

#endif
