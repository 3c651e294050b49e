// SPDX-License-Identifier: Apache-2.0
/* test_reading.c - rates cover the same time at any cadence, and are unknown after a reset. */
#include <math.h>
#include <stdlib.h>

#include "support/test.h"
#include "analyse/detector.h"
#include "analyse/reading.h"
#include "sketch/hash.h"

#define DIMS	ANALYSE_ROW_LANES
#define SECOND	1000000000ull
#define COUNTER 0u
#define GAUGE	1u

struct pod {
	struct analyse_reading r;
	double row[DIMS];
	float x[DIMS];
};

static void start(struct pod *p, uint64_t window_ns)
{
	assert_int_equal(analyse_reading_init(&p->r, DIMS, window_ns), 0);
	analyse_reading_place(&p->r, COUNTER, true);
	analyse_reading_place(&p->r, GAUGE, false);
	for (uint32_t c = 0; c < DIMS; c++)
		p->row[c] = (double)NAN;
}

static void push(struct pod *p, double count, double gauge, double seconds)
{
	p->row[COUNTER] = count;
	p->row[GAUGE] = gauge;
	analyse_reading_push(&p->r, p->row, (float)seconds, p->x);
}

/* The rate jumps from 100 to 1,100 per second: returns the computed rate a given time later. */
static double after_a_step(double row_seconds, double later)
{
	double count = 0, found;
	struct pod p;

	start(&p, SECOND);
	push(&p, count, 0, 0);
	for (double t = 0; t < 3; t += row_seconds)
		push(&p, count += 100 * row_seconds, 0, row_seconds);
	assert_true(fabs((double)p.x[COUNTER] - 100) < 0.1);
	for (double t = 0; t < later - row_seconds / 2; t += row_seconds)
		push(&p, count += 1100 * row_seconds, 0, row_seconds);
	found = p.x[COUNTER];
	analyse_reading_free(&p.r);
	return found;
}

static void a_rate_covers_the_same_time_at_any_cadence(void **state)
{
	static const double cadence[] = {0.1, 0.125, 0.03, 0.01, 0.001};

	(void)state;
	for (uint32_t i = 0; i < sizeof(cadence) / sizeof(*cadence); i++) {
		/* A part is a sixteenth of a second, or a row. */
		double part = 1000 * fmax(cadence[i], 1.0 / 16);

		assert_true(fabs(after_a_step(cadence[i], 0.5) - 600) <= part);
		assert_true(fabs(after_a_step(cadence[i], 1.2) - 1100) < 1);
	}
}

static void a_row_joins_others_or_not_with_the_same_rate(void **state)
{
	struct pod p;
	double count = 0;

	(void)state;
	start(&p, SECOND);
	push(&p, 0, 0, 0);
	for (uint32_t i = 0; i < 5000; i++) {
		double seconds = i % 700 < 300 ? 0.001 : i % 700 < 500 ? 0.1 : 0.02;

		push(&p, count += 70 * seconds, 0, seconds);
		assert_true(fabs((double)p.x[COUNTER] - 70) < 0.1);
	}
	analyse_reading_free(&p.r);
}

/* The host was not read for a while, as its agent was restarted. */
static void a_rate_after_a_gap_is_not_that_of_a_moment(void **state)
{
	struct pod p;
	double count = 0;

	(void)state;
	start(&p, SECOND);
	push(&p, 0, 0, 0);
	for (uint32_t i = 0; i < 50; i++)
		push(&p, count += 3, 0, 0.1);
	push(&p, count += 78, 0, 2.6);
	assert_true(fabs((double)p.x[COUNTER] - 30) < 0.1);
	push(&p, count, 0, 0.005);
	assert_true(fabs((double)p.x[COUNTER] - 30) < 0.1);
	/* A pod that stops is known to have stopped soon afterwards. */
	for (uint32_t i = 0; i < 6; i++)
		push(&p, count, 0, 0.1);
	assert_true(p.x[COUNTER] == 0);
	analyse_reading_free(&p.r);
}

static void a_counter_reset_says_nothing_of_its_row(void **state)
{
	struct pod p;

	(void)state;
	for (double seconds = 0.001; seconds < 1; seconds *= 10) {
		start(&p, SECOND);
		push(&p, 1000, 0, 0);
		assert_true(isnan(p.x[COUNTER]));
		for (uint32_t i = 1; i < 100; i++)
			push(&p, 1000 + i * seconds, 0, seconds);
		push(&p, 0, 0, seconds);
		assert_true(isnan(p.x[COUNTER]));
		assert_int_equal(p.r.resets, 1);
		push(&p, (double)NAN, (double)NAN, seconds);
		assert_true(isnan(p.x[COUNTER]) && isnan(p.x[GAUGE]));
		push(&p, 2 * seconds, 0, seconds);
		assert_true((double)p.x[COUNTER] >= 1 && (double)p.x[COUNTER] < 2.1);
		analyse_reading_rewind(&p.r);
		push(&p, 5000, 0, 0);
		assert_true(isnan(p.x[COUNTER]));
		push(&p, 5000 + 3 * seconds, 0, seconds);
		assert_true(fabs((double)p.x[COUNTER] - 3) < 1e-2);
		assert_int_equal(p.r.resets, 1);
		analyse_reading_free(&p.r);
	}
}

/* Twenty values in a row are missing: the next increase covers the time of 21 rows. */
static void an_increase_is_divided_by_the_time_it_covers(void **state)
{
	static const uint64_t window[] = {0, SECOND};
	struct pod p;

	(void)state;
	for (uint32_t w = 0; w < 2; w++)
		for (double seconds = 0.001; seconds < 100; seconds *= 10) {
			start(&p, window[w]);
			push(&p, 0, 0, 0);
			for (uint32_t i = 1; i < 2000; i++) {
				bool missing = i % 500 >= 480;

				push(&p, missing ? (double)NAN : 70 * i * seconds, 0, seconds);
				if (missing)
					assert_true(isnan(p.x[COUNTER]));
				else
					assert_true(fabs((double)p.x[COUNTER] - 70) < 0.1);
			}
			assert_int_equal(p.r.resets, 0);
			analyse_reading_free(&p.r);
		}
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of the last five known values; of an even number, the lower one. */
static void a_gauge_is_the_median_of_its_known_values(void **state)
{
	double known[5], sorted[5];
	uint64_t random = 7;
	uint32_t n = 0;
	struct pod p;

	(void)state;
	start(&p, SECOND);
	for (uint32_t i = 0; i < 2000; i++) {
		double v = (double)(sketch_random_next(&random) % 1000);
		bool missing = sketch_random_next(&random) % 4 == 0;

		push(&p, 0, missing ? (double)NAN : v, i ? 0.1 : 0);
		if (missing) {
			assert_true(isnan(p.x[GAUGE]));
			continue;
		}
		for (uint32_t k = 4; k > 0; k--)
			known[k] = known[k - 1];
		known[0] = v;
		n += n < 5;
		for (uint32_t k = 0; k < n; k++)
			sorted[k] = known[k];
		qsort(sorted, n, sizeof(*sorted), by_size);
		assert_true((double)p.x[GAUGE] == sorted[(n - 1) / 2]);
	}
	analyse_reading_free(&p.r);
}

static void without_a_time_values_are_taken_as_they_are(void **state)
{
	struct pod p;

	(void)state;
	start(&p, 0);
	push(&p, 10, 1, 0);
	push(&p, 40, 9, 60);
	assert_true((double)p.x[COUNTER] == 0.5 && (double)p.x[GAUGE] == 9);
	push(&p, 40, 2, 60);
	assert_true((double)p.x[COUNTER] == 0 && (double)p.x[GAUGE] == 2);
	analyse_reading_free(&p.r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rate_covers_the_same_time_at_any_cadence),
		cmocka_unit_test(a_row_joins_others_or_not_with_the_same_rate),
		cmocka_unit_test(a_rate_after_a_gap_is_not_that_of_a_moment),
		cmocka_unit_test(a_counter_reset_says_nothing_of_its_row),
		cmocka_unit_test(an_increase_is_divided_by_the_time_it_covers),
		cmocka_unit_test(a_gauge_is_the_median_of_its_known_values),
		cmocka_unit_test(without_a_time_values_are_taken_as_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
