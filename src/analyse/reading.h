/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reading.h - from the values of a pod's rows to those that are analysed: rates per second of
 * counters, running medians of gauges. Knows no names, clocks or steps; columns are lanes. Not
 * thread-safe; allocates in init only.
 *
 * The time that a rate covers has up to ANALYSE_WINDOW parts. A row is one part, but rows so close
 * that they fit a sixteenth of the time together share one, so that a thousand rows per second cost
 * as little as ten, and their rates cover the time as well.
 */
#ifndef SL_ANALYSE_READING_H
#define SL_ANALYSE_READING_H

#include <stdbool.h>
#include <stdint.h>

#define ANALYSE_WINDOW 16u
#define ANALYSE_RECENT 5u /* rows of a gauge whose median is taken */

struct analyse_rates {
	uint32_t dims;
	float window;			  /* s that a rate covers; 0: the last row */
	float seconds[ANALYSE_WINDOW];	  /* that each part took; a ring */
	uint32_t at, parts;		  /* the latest part; how many there are */
	uint32_t covered;		  /* of them, by a rate */
	bool shared;			  /* the latest part has several rows */
	bool summed;			  /* earlier[] are the sums of the parts before it */
	float *increase;		  /* ANALYSE_WINDOW rows of dims, by part; NaN: unknown */
	float *earlier, *earlier_seconds; /* dims each: sums over covered parts */
};

struct analyse_reading {
	uint32_t dims;
	struct analyse_rates rates;
	double *last;	  /* dims: the latest known values */
	float *counter;	  /* dims: 1 or 0 */
	float *recent;	  /* ANALYSE_RECENT rows of dims: known values, latest first */
	uint8_t *recents; /* dims: how many of them there are */
	uint64_t resets;  /* of counters */
};

/* -ENOMEM. window_ns: that rates cover; 0: one row, and gauges are taken as they are. */
int analyse_reading_init(struct analyse_reading *r, uint32_t dims, uint64_t window_ns);
void analyse_reading_free(struct analyse_reading *r);
/* Column c belongs to another series from now on. */
void analyse_reading_place(struct analyse_reading *r, uint32_t c, bool counter);
/* Time was set back: what was read before is not known. */
void analyse_reading_rewind(struct analyse_reading *r);
/*
 * Takes a row (NaN: missing) that took this many seconds (0: it is the first). x: rates and
 * medians; NaN: unknown.
 */
void analyse_reading_push(struct analyse_reading *r, const double *row, float seconds, float *x);

#endif
