/* SPDX-License-Identifier: Apache-2.0 */
/* range.h - the time range of a request and its division into steps. */
#ifndef SL_API_RANGE_H
#define SL_API_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_request;

struct api_range {
	int64_t from_ns, to_ns; /* both CLOCK_REALTIME */
};

/*
 * Parses seconds since the epoch, or RFC 3339 in UTC or with an offset, with millisecond precision.
 */
bool api_parse_time(const char *s, int64_t *ns);
/* Returns false after a 400 response. *ns is unchanged if the parameter is missing. */
bool api_param_time(struct http_request *req, const char *key, int64_t *ns);
/*
 * Parses start and end, or last, a duration that ends now (default last_ns). The range is at most
 * 24 h. Returns false after a 400 response.
 */
bool api_param_range(struct http_request *req, uint64_t last_ns, struct api_range *out);

/*
 * Steps of equal width. They end at multiples of the width since the epoch; an incomplete step is
 * excluded.
 */
struct api_steps {
	int64_t first_ns; /* end of the first step */
	int64_t width_ns;
	size_t n;
};
struct api_steps api_steps(const struct api_range *r, uint64_t most, int64_t least_ns);
/*
 * Returns the index of the step that contains a time. The result is negative or at least n outside
 * of all steps.
 */
int64_t api_step_of(const struct api_steps *s, int64_t ns);
int64_t api_step_ns(const struct api_steps *s, size_t i); /* returns the end of step i */

/* Time limit for the computation of one request, and a function that checks it. */
#define API_WORK_NS 1000000000ull
bool api_is_late(uint64_t begun_ns); /* begun_ns: start of the request by base_now_ns() */

#endif
