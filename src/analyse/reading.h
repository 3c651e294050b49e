/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reading.h - converts the values of a pod's rows to the values that are analysed: rates per second
 * for counters, running medians for gauges. Independent of names, clocks and steps. Columns are
 * vector lanes. Not thread-safe; allocates only in init.
 *
 * The time covered by a rate has up to ANALYSE_WINDOW parts. A row is one part, but several rows
 * share a part if they fit into a sixteenth of that time: a thousand rows per second cost no more
 * than ten, and their rates still cover the whole time.
 */
#ifndef SL_ANALYSE_READING_H
#define SL_ANALYSE_READING_H

#include <stdbool.h>
#include <stdint.h>

#define ANALYSE_WINDOW 16u
#define ANALYSE_RECENT 5u /* number of rows in a gauge's running median */
/* Squares of larger values overflow a float. A counter may be larger, but its increase may not. */
#define ANALYSE_LARGE 1e15

struct analyse_rates {
	uint32_t dims;
	float window;		       /* seconds covered by a rate; 0 means only the last row */
	float seconds[ANALYSE_WINDOW]; /* duration of each part; a ring */
	uint32_t at, parts;	       /* index of the latest part; number of parts in the ring */
	uint32_t covered;	       /* number of parts covered by a rate */
	bool shared;		       /* true if the latest part has several rows */
	bool summed;		       /* earlier[] has the sums of the parts before the latest */
	float *increase; /* ANALYSE_WINDOW rows of increases, one per part; NaN means unknown */
	float *earlier, *earlier_seconds; /* per column, sums over the covered parts */
};

struct analyse_reading {
	uint32_t dims;
	struct analyse_rates rates;
	double *last;	  /* per column, the latest known value */
	float *missed;	  /* per column, seconds without a value since the latest known one */
	float *counter;	  /* per column, 1 for a counter, otherwise 0 */
	float *recent;	  /* ANALYSE_RECENT rows with the latest known values, latest first */
	uint8_t *recents; /* per column, the number of known values in recent */
	uint64_t resets;  /* number of counter resets */
};

/*
 * Returns 0 or -ENOMEM. window_ns: time covered by rates; 0 means one row, and no running medians.
 */
int analyse_reading_init(struct analyse_reading *r, uint32_t dims, uint64_t window_ns);
void analyse_reading_free(struct analyse_reading *r);
/* Call when column c is about to hold another series. */
void analyse_reading_place(struct analyse_reading *r, uint32_t c, bool counter);
/* Call when the time was set back. Discards all earlier values. */
void analyse_reading_rewind(struct analyse_reading *r);
/*
 * Adds a row (NaN means missing) that covers `seconds` (0 means the first row). x: receives rates
 * and medians; NaN means unknown.
 */
void analyse_reading_push(struct analyse_reading *r, const double *row, float seconds, float *x);

#endif
