/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_hints.h - thins the points of a remote read. Prometheus' ReadHints say what is evaluated,
 * and points that cannot change the result are left out: with a period of 10 ms, an instant query
 * would otherwise read 30,000 points per series. If the result depends on every point, all are
 * kept.
 */
#ifndef SL_API_READ_HINTS_H
#define SL_API_READ_HINTS_H

#include "api/selected.h"
#include "base/pb_read.h"

struct api_read_hints {
	int64_t step_ms, range_ms; /* step_ms 0: a single evaluation, at end_ms */
	int64_t start_ms, end_ms;
	enum api_thin {
		API_THIN_NONE,
		API_THIN_LAST, /* only the last point matters */
		API_THIN_LAST_TWO,
		API_THIN_REPEATED, /* only changes of the value matter */
		API_THIN_MIN,
		API_THIN_MAX,
		API_THIN_DELTA,	   /* only the first and the last point matter */
		API_THIN_RATE,	   /* the same, and the points around a counter reset */
		API_THIN_LOOKBACK, /* the last point before each evaluation matters */
	} thin;
};

/* Parses a ReadHints message. Returns false if it is malformed. */
bool api_read_hints_take(struct api_read_hints *h, struct base_pb p);
/* Thins all points of a series from start_ms to end_ms, in place. Returns the number left. */
size_t api_read_hints_thin(const struct api_read_hints *h, struct collect_point *p, size_t n);

#endif
