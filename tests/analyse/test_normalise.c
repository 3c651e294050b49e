// SPDX-License-Identifier: Apache-2.0
/* test_normalise.c - the score of a change, on columns of known distribution. */

#include "support/test.h"
#include "analyse/detector.h"
#include "analyse/normalise.h"
#include "noise.h"

#define DIMS	   ANALYSE_ROW_LANES
#define NEAR(x, y) assert_float_equal(x, y, 0.02)

struct fixture {
	struct analyse_normaliser n;
	float x[DIMS], z[DIMS], move[DIMS];
};

static int make(void **state)
{
	static struct fixture f;

	*state = &f;
	return analyse_normaliser_init(&f.n, DIMS);
}

static int drop(void **state)
{
	analyse_normaliser_free(&((struct fixture *)*state)->n);
	return 0;
}

static void row(struct fixture *f, float x)
{
	for (uint32_t c = 0; c < DIMS; c++)
		f->x[c] = x;
	analyse_normalise(&f->n, f->x, f->z, f->move);
	analyse_normaliser_add(&f->n, f->x);
}

static void step(struct fixture *f, float x)
{
	row(f, x);
	analyse_normaliser_step(&f->n, true, ANALYSE_COUNT, true, NULL);
}

/* The unit is the 99th percentile divided by 2.576, even with heavy tails. */
static void one_move_in_a_hundred_is_larger_than_2_576(void **state)
{
	unsigned int over = 0, steps = 20000;
	struct fixture *f = *state;
	uint64_t seed = 1;

	for (unsigned int i = 0; i < 4000 + steps; i++) {
		step(f, (float)exp(noise_normal(&seed)));
		over += i >= 4000 && fabsf(f->move[0]) >= 2.576f;
	}
	if (over < steps / 100 * 7 / 10 || over > steps / 100 * 13 / 10)
		fail_msg("%u of %u steps", over, steps);
}

/* One step of ten moves, evenly by 0.4 to 1.4: a hundredth of all by more than 1.3. */
static void the_unit_is_a_quantile_and_no_bound_of_a_bin(void **state)
{
	struct fixture *f = *state;

	for (unsigned int i = 0; i < 5000; i++)
		step(f, i % 10 == 9 ? 100.4f + (float)(i / 10 % 100) / 100 : 100);
	row(f, 101);
	assert_float_equal(f->move[0], 2.576 / 1.3, 0.1);
}

/* After n silent steps, the first move has probability 1 / (n + 2), whatever its size. */
static void a_first_event_after_n_silent_steps_counts_by_n(void **state)
{
	static const unsigned int silent[] = {10, 100, 1000};
	struct fixture *f = *state;
	unsigned int done = 0;

	/* The first two steps form the baseline; distances are measured from it. */
	step(f, 0);
	step(f, 0);
	for (int k = 0; k < 3; k++) {
		for (; done < silent[k]; done++)
			step(f, 0);
		for (int size = 1; size <= 1000; size *= 1000) {
			analyse_normalise(&f->n, (float[DIMS]){(float)size}, f->z, f->move);
			NEAR(f->move[0], 0.02576f * ((float)silent[k] + 2));
			analyse_normalise(&f->n, (float[DIMS]){(float)-size}, f->z, f->move);
			NEAR(f->move[0], -0.02576f * ((float)silent[k] + 2));
		}
	}
}

/* A level that has never moved is its own unit: a change by 0.002 of it is rounding. */
static void rounding_of_a_level_is_no_move(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 102; i++)
		step(f, 50);
	row(f, 50.05f);
	assert_true(f->move[0] == 0);
	row(f, 50.5f);
	NEAR(f->move[0], 0.02576f * 102);
}

/*
 * Only the row with the largest distance in a step counts: one row in 180 leaps, which is one step
 * in 20.
 */
static void rows_of_a_step_count_once(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 402; i++) {
		for (int k = 0; k < 9; k++)
			row(f, k == 4 && i % 20 == 10 ? 60 : 50);
		analyse_normaliser_step(&f->n, true, ANALYSE_COUNT, true, NULL);
	}
	assert_int_equal(f->n.still[0], 400 - 20); /* the first two have no baseline yet */
	row(f, 60);
	assert_true(f->move[0] > 2 && f->move[0] < 3.1f);
}

static uint32_t counted(const struct fixture *f)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < ANALYSE_BINS; i++)
		sum += f->n.bins[i];
	return sum;
}

/* Postponed steps count once, by their largest distance, or not at all. */
static void steps_that_count_later_count_once(void **state)
{
	static const enum analyse_count how[] = {ANALYSE_COUNT_NOT, ANALYSE_COUNT};
	struct fixture *f = *state;

	for (int i = 0; i < 200; i++)
		step(f, i % 20 == 10 ? 60 : 50);
	for (int k = 0; k < 2; k++) {
		uint32_t moves = counted(f), still = f->n.still[0];

		for (int i = 0; i < 2; i++) {
			row(f, 1000);
			analyse_normaliser_step(&f->n, true, ANALYSE_COUNT_LATER, false, NULL);
			assert_true(counted(f) == moves && f->n.still[0] == still);
		}
		row(f, 50);
		analyse_normaliser_step(&f->n, true, how[k], true, NULL);
		assert_int_equal(counted(f), moves + (how[k] == ANALYSE_COUNT));
		assert_int_equal(f->n.still[0], still);
		for (int i = 0; i < 4; i++)
			step(f, 50);
		assert_int_equal(f->n.still[0], still + 4);
	}
}

/* A rate that falls steadily is held, for example because the pod is anomalous. */
static void no_trend_makes_a_level_negative(void **state)
{
	struct fixture *f = *state;
	float level;

	for (int i = 0; i < 250; i++)
		step(f, 300 - (float)i);
	level = f->n.slow[0];
	analyse_normaliser_drift(&f->n, 0);
	assert_float_equal(f->n.slow[0], level - 1, 0.1);
	for (int i = 0; i < 250; i++)
		analyse_normaliser_drift(&f->n, 0);
	assert_true(f->n.slow[0] == 0);
	assert_true(f->n.fast[0] == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_move_in_a_hundred_is_larger_than_2_576, make,
						drop),
		cmocka_unit_test_setup_teardown(the_unit_is_a_quantile_and_no_bound_of_a_bin, make,
						drop),
		cmocka_unit_test_setup_teardown(a_first_event_after_n_silent_steps_counts_by_n,
						make, drop),
		cmocka_unit_test_setup_teardown(rounding_of_a_level_is_no_move, make, drop),
		cmocka_unit_test_setup_teardown(rows_of_a_step_count_once, make, drop),
		cmocka_unit_test_setup_teardown(steps_that_count_later_count_once, make, drop),
		cmocka_unit_test_setup_teardown(no_trend_makes_a_level_negative, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
