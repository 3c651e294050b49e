/* SPDX-License-Identifier: Apache-2.0 */
/* range.h - the time that a request is about, in steps. */
#ifndef SL_API_RANGE_H
#define SL_API_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_request;

struct api_range {
	int64_t from_ns, to_ns; /* CLOCK_REALTIME */
};

/* Seconds since the epoch, or RFC 3339 in UTC or with an offset, to a millisecond. */
bool api_parse_time(const char *s, int64_t *ns);
/*
 * start and end, or last, which ends now: last_ns long by default. At most 24 h. False after a 400.
 */
bool api_param_range(struct http_request *req, uint64_t last_ns, struct api_range *out);

/* Steps of equal width that end at multiples of it since the epoch; one in progress is none. */
struct api_steps {
	int64_t first_ns; /* end of the first */
	int64_t width_ns;
	size_t n;
};
struct api_steps api_steps(const struct api_range *r, uint64_t most, int64_t least_ns);
/* Which step a time is in: below 0 or from n on, in none. */
int64_t api_step_of(const struct api_steps *s, int64_t ns);
int64_t api_step_ns(const struct api_steps *s, size_t i); /* its end */

/* How long one request may compute, and whether that is over. */
#define API_WORK_NS 1000000000ull
bool api_is_late(uint64_t begun_ns); /* base_now_ns() */

#endif
