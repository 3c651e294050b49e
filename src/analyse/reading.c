// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/detector.h"
#include "analyse/fetch.h"
#include "analyse/reading.h"

#define RATES  (ANALYSE_WINDOW + 2)	    /* number of arrays for rates */
#define ARRAYS (RATES + 2 + ANALYSE_RECENT) /* number of float arrays */

int analyse_reading_init(struct analyse_reading *r, uint32_t dims, uint64_t window_ns)
{
	size_t d = dims, bytes = d * (sizeof(double) + ARRAYS * sizeof(float) + 1);

	memset(r, 0, sizeof(*r));
	r->last = aligned_alloc(64, (bytes + 63) / 64 * 64);
	if (!r->last)
		return -ENOMEM;
	r->dims = r->rates.dims = dims;
	r->rates.window = (float)window_ns * 1e-9f;
	r->rates.increase = (float *)(r->last + d);
	r->rates.earlier = r->rates.increase + ANALYSE_WINDOW * d;
	r->rates.earlier_seconds = r->rates.earlier + d;
	r->missed = r->rates.earlier_seconds + d;
	r->counter = r->missed + d;
	r->recent = r->counter + d;
	r->recents = (uint8_t *)(r->recent + ANALYSE_RECENT * d);
	for (uint32_t c = 0; c < dims; c++)
		analyse_reading_place(r, c, false);
	return 0;
}

void analyse_reading_free(struct analyse_reading *r)
{
	free(r->last);
	r->last = NULL;
}

void analyse_reading_place(struct analyse_reading *r, uint32_t c, bool counter)
{
	for (uint32_t i = 0; i < RATES; i++)
		r->rates.increase[(size_t)i * r->dims + c] = NAN;
	for (uint32_t i = 0; i < ANALYSE_RECENT; i++)
		r->recent[(size_t)i * r->dims + c] = NAN;
	r->last[c] = NAN;
	r->missed[c] = 0;
	r->counter[c] = counter;
	r->recents[c] = 0;
}

void analyse_reading_rewind(struct analyse_reading *r)
{
	r->rates.parts = 0;
	r->rates.shared = r->rates.summed = false;
	for (uint32_t c = 0; c < r->dims; c++) {
		r->last[c] = NAN;
		r->recents[c] = 0;
	}
}

/* ---- rates ---- */

#define GAP_WINDOWS 16 /* a longer part may be a clock that was set */

/*
 * Returns the number of parts that a rate covers: those in the window, and further ones until it
 * covers half a window. After a gap, the part of the gap belongs to it, because a rate over a few
 * milliseconds is often 0.
 */
static uint32_t count_covered(const struct analyse_rates *r)
{
	float all = 0;
	uint32_t i;

	for (i = 0; i < r->parts; i++) {
		float seconds = r->seconds[(r->at + ANALYSE_WINDOW - i) % ANALYSE_WINDOW];

		all += seconds;
		/* Round to the nearest part. */
		if (i && all - seconds / 2 > r->window &&
		    (all - seconds >= r->window / 2 || seconds > GAP_WINDOWS * r->window))
			break;
	}
	return i;
}

/* Sums the covered parts starting at `from`, counted from the latest. */
static void sum_up(struct analyse_rates *r, uint32_t from)
{
	float *restrict sum = r->earlier, *restrict seconds = r->earlier_seconds;

	memset(sum, 0, r->dims * sizeof(*sum));
	memset(seconds, 0, r->dims * sizeof(*seconds));
	for (uint32_t i = from; i < r->covered; i++) {
		uint32_t at = (r->at + ANALYSE_WINDOW - i) % ANALYSE_WINDOW;
		const float *increase = r->increase + (size_t)at * r->dims;
		float took = r->seconds[at];

		for (size_t c = 0; c < r->dims; c++) {
			bool known = increase[c] == increase[c];

			sum[c] += known ? increase[c] : 0;
			seconds[c] += known ? took : 0;
		}
	}
}

static void divide_rates(float *restrict row, const float *restrict sum,
			 const float *restrict seconds, uint32_t dims)
{
	for (size_t c = 0; c < dims; c++) {
		float rate = sum[c] / seconds[c];

		row[c] = row[c] == row[c] && seconds[c] > 0 ? rate : NAN;
	}
}

/* Stores the row as a new part. */
static void push_part(struct analyse_rates *r, const float *row, float seconds)
{
	r->at = (r->at + 1) % ANALYSE_WINDOW;
	r->parts = seconds > 0 ? r->parts + (r->parts < ANALYSE_WINDOW) : 0;
	r->seconds[r->at] = seconds;
	memcpy(r->increase + (size_t)r->at * r->dims, row, r->dims * sizeof(*row));
	r->covered = count_covered(r);
}

/*
 * Adds the row to the latest part. If one of its rows is unknown, so is the part, because the part
 * has one duration for all columns.
 */
static void join_part(struct analyse_rates *r, const float *restrict row, float seconds)
{
	float *restrict increase = r->increase + (size_t)r->at * r->dims;

	r->seconds[r->at] += seconds;
	for (size_t c = 0; c < r->dims; c++)
		increase[c] += row[c];
}

/* Computes the rates over the latest part and the parts before it. */
static void divide_joined(const struct analyse_rates *r, float *restrict row)
{
	const float *part = r->increase + (size_t)r->at * r->dims;
	const float *earlier = r->earlier, *before = r->earlier_seconds;
	float took = r->seconds[r->at];

	for (size_t c = 0; c < r->dims; c++) {
		bool known = part[c] == part[c];
		float sum = earlier[c] + (known ? part[c] : 0);
		float seconds = before[c] + (known ? took : 0), rate = sum / seconds;

		row[c] = row[c] == row[c] && seconds > 0 ? rate : NAN;
	}
}

static void push_rates(struct analyse_rates *r, float *row, float seconds)
{
	bool joins = r->parts && seconds > 0 &&
		     r->seconds[r->at] + seconds <= r->window / (float)ANALYSE_WINDOW;

	if (joins) {
		join_part(r, row, seconds);
		if (!r->summed)
			sum_up(r, 1);
		r->summed = true;
	} else {
		push_part(r, row, seconds);
		/*
		 * If one part had several rows, the next probably will, too: keep the sums for
		 * reuse.
		 */
		r->summed = r->shared;
		sum_up(r, r->summed ? 1 : 0);
	}
	r->shared = joins;
	if (r->summed)
		divide_joined(r, row);
	else
		divide_rates(row, r->earlier, r->earlier_seconds, r->dims);
}

/*
 * Computes the increases of counters, which are unknown at first, after a reset, and if they are
 * impossibly large. An increase over missing values is reduced to the row's share of their time.
 */
static void count_increases(struct analyse_reading *r, const double *restrict row, float seconds,
			    float *restrict increase)
{
	const float *counter = r->counter;
	double *restrict last = r->last;
	float *restrict missed = r->missed;
	uint32_t resets = 0;

	for (size_t c = 0; c < r->dims; c++) {
		double before = last[c], by = row[c] - before;
		float took = missed[c] + seconds;

		increase[c] = by >= 0 && by < ANALYSE_LARGE ? (float)by * (seconds / took) : NAN;
		last[c] = row[c] == row[c] ? row[c] : before;
		missed[c] = row[c] == row[c] ? 0 : took;
		resets += counter[c] > 0 && by < 0;
	}
	r->resets += resets;
}

/* ---- medians ---- */

static void sort_pair(float *a, float *b)
{
	float low = *a < *b ? *a : *b, high = *a < *b ? *b : *a;

	*a = low;
	*b = high;
}

/* Seven comparisons without branches (D. E. Knuth, TAOCP 3, 5.3.3). */
static float median_of_five(float a, float b, float c, float d, float e)
{
	sort_pair(&a, &b);
	sort_pair(&d, &e);
	sort_pair(&a, &d); /* a <= three others: not the median */
	sort_pair(&b, &e); /* e >= three others: not the median */
	sort_pair(&b, &c);
	sort_pair(&c, &d);
	sort_pair(&b, &c);
	return c;
}

/* Returns the median of fewer than five values. */
static float median_of_few(const struct analyse_reading *r, uint32_t c)
{
	float sorted[ANALYSE_RECENT];

	for (uint32_t i = 0; i < r->recents[c]; i++) {
		float v = r->recent[(size_t)i * r->dims + c];
		uint32_t k = i;

		for (; k > 0 && sorted[k - 1] > v; k--)
			sorted[k] = sorted[k - 1];
		sorted[k] = v;
	}
	return sorted[(r->recents[c] - 1) / 2];
}

/*
 * A single value of a gauge, read between two rows a tenth of a second apart, says little. The
 * running median (J. W. Tukey, Exploratory Data Analysis, 1977) follows only changes that last for
 * most of the rows.
 */
static void push_medians(struct analyse_reading *r, const float *restrict row, float *restrict x)
{
	size_t d = r->dims;
	float *restrict v = r->recent;

	_Static_assert(ANALYSE_RECENT == 5, "the median of five");
	for (size_t c = 0; c < d; c++) {
		bool known = row[c] == row[c];
		float a = known ? row[c] : v[c], b = known ? v[c] : v[d + c];
		float e = known ? v[d + c] : v[2 * d + c];
		float f = known ? v[2 * d + c] : v[3 * d + c];
		float g = known ? v[3 * d + c] : v[4 * d + c];
		float m = median_of_five(a, b, e, f, g);

		v[c] = a;
		v[d + c] = b;
		v[2 * d + c] = e;
		v[3 * d + c] = f;
		v[4 * d + c] = g;
		x[c] = known ? m : NAN;
	}
	for (uint32_t c = 0; c < d; c++)
		if (r->recents[c] < ANALYSE_RECENT && !isnan(row[c]) &&
		    ++r->recents[c] < ANALYSE_RECENT)
			x[c] = median_of_few(r, c);
}

void analyse_reading_push(struct analyse_reading *r, const double *row, float seconds, float *x)
{
	float rate[ANALYSE_ROW_MAX], gauge[ANALYSE_ROW_MAX];
	const float *counter = r->counter;

	analyse_fetch(r->rates.earlier, (4 + ANALYSE_RECENT) * (size_t)r->dims * sizeof(float));
	count_increases(r, row, seconds, rate);
	push_rates(&r->rates, rate, seconds);
	for (size_t c = 0; c < r->dims; c++)
		gauge[c] = (float)row[c];
	if (r->rates.window > 0)
		push_medians(r, gauge, x);
	else
		memcpy(x, gauge, r->dims * sizeof(*x));
	for (size_t c = 0; c < r->dims; c++)
		x[c] = counter[c] > 0 ? rate[c] : x[c];
}
