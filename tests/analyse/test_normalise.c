// SPDX-License-Identifier: Apache-2.0
/* test_normalise.c - what a surprise is worth: the rule of succession, on columns of known kinds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyse/detector.h"
#include "analyse/normalise.h"
#include "noise.h"

#define DIMS	   SL_ROW_LANES
#define NEAR(x, y) assert_float_equal(x, y, 0.02)

struct fixture {
	struct sl_normaliser n;
	float x[DIMS], z[DIMS], move[DIMS], surprise[DIMS];
};

static int make(void **state)
{
	static struct fixture f;

	*state = &f;
	return sl_normaliser_init(&f.n, DIMS);
}

static int drop(void **state)
{
	sl_normaliser_free(&((struct fixture *)*state)->n);
	return 0;
}

static void row(struct fixture *f, float x)
{
	for (uint32_t c = 0; c < DIMS; c++)
		f->x[c] = x;
	sl_normalise(&f->n, f->x, f->z, f->move, f->surprise);
	sl_normaliser_add(&f->n, f->x);
}

static void step(struct fixture *f, float x)
{
	row(f, x);
	sl_normaliser_step(&f->n, true, true, NULL);
}

/* Of normal steps, a share of p has a surprise of -log p or more, in the middle and in the tail. */
static void surprises_are_as_rare_as_they_say(void **state)
{
	static const double p[] = {0.05, 0.01, 0.002};
	unsigned int over[3] = {0}, steps = 20000;
	struct fixture *f = *state;
	uint64_t seed = 1;

	for (unsigned int i = 0; i < 4000 + steps; i++) {
		step(f, (float)exp(noise_normal(&seed)));
		for (int k = 0; k < 3 && i >= 4000; k++)
			over[k] += (double)f->surprise[0] >= -log(p[k]);
	}
	for (int k = 0; k < 3; k++)
		if (over[k] < 0.7 * p[k] * steps || over[k] > 1.3 * p[k] * steps)
			fail_msg("%u of %u steps for p = %g", over[k], steps, p[k]);
}

/* n silent steps: the first move has probability 1 / (n + 2), whatever its size if there is no unit. */
static void a_first_event_after_n_silent_steps_surprises_by_log_n(void **state)
{
	static const unsigned int silent[] = {10, 100, 1000};
	struct fixture *f = *state;
	unsigned int done = 0;

	/* The first two make the baseline, from which there are distances. */
	step(f, 0);
	step(f, 0);
	for (int k = 0; k < 3; k++) {
		for (; done < silent[k]; done++)
			step(f, 0);
		for (int size = 1; size <= 1000; size *= 1000) {
			sl_normalise(&f->n, (float[DIMS]){(float)size}, f->z, f->move, f->surprise);
			NEAR(f->surprise[0], logf((float)silent[k] + 2));
			NEAR(f->move[0], 0.02576f * ((float)silent[k] + 2));
		}
	}
	/* Once it has moved, the same again has happened twice in so many. */
	step(f, 1);
	row(f, 1);
	assert_true(f->surprise[0] > logf(1003.0f / 3) && f->surprise[0] < logf(1003.0f));
}

/* A level that has never moved is its own unit: what moves by half surprises more than by a hundredth. */
static void a_level_that_never_moved_is_its_own_unit(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 102; i++)
		step(f, 50);
	row(f, 50.05f); /* rounding */
	assert_true(f->surprise[0] == 0 && f->move[0] == 0);
	row(f, 50.5f);
	NEAR(f->surprise[0], logf(102) + logf(5));
	row(f, 75);
	NEAR(f->surprise[0], logf(102) + logf(250));
}

/*
 * However far apart its two levels are: p of a leap that comes every 20 steps is anything up to 1/20, and
 * the mean of -log p therefore log 20 + 1.
 */
static void a_metric_of_two_levels_surprises_by_how_often_it_leaps(void **state)
{
	struct fixture *f = *state;
	uint64_t seed = 2;
	double sum = 0;

	for (int i = 0; i < 4000; i++) {
		float jitter = 1 + 0.1f * (float)noise_normal(&seed);

		step(f, i % 20 ? 1 : 1000 * jitter);
		sum += i >= 2000 ? (double)f->surprise[0] : 0;
	}
	assert_float_equal(sum / 100, log(20) + 1, 0.3);
	row(f, 1e6f); /* but not if it goes further than ever */
	assert_true(f->surprise[0] > logf(4000) + logf(500));
}

/* Of the rows of a step the largest distance counts: a probability is one of a step. */
static void rows_of_a_step_count_once(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 102; i++) {
		for (int k = 0; k < 9; k++)
			row(f, k == 4 && i >= 2 ? 60 : 50);
		sl_normaliser_step(&f->n, true, true, NULL);
	}
	assert_int_equal(f->n.still[0], 0);
	row(f, 58);
	assert_true(f->surprise[0] == 0);
}

/* A threshold is learned of rows that were learned before: each is scored as if it had not been. */
static void a_row_does_not_count_for_itself(void **state)
{
	struct fixture *f = *state;
	float fresh;

	for (int i = 0; i < 102; i++)
		step(f, 50);
	row(f, 60);
	fresh = f->surprise[0];
	sl_normaliser_step(&f->n, true, true, NULL);
	f->n.again = true;
	row(f, 60);
	NEAR(f->surprise[0], fresh);
	f->n.again = false;
	row(f, 60);
	assert_true(f->surprise[0] < fresh - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(surprises_are_as_rare_as_they_say, make, drop),
		cmocka_unit_test_setup_teardown(
			a_first_event_after_n_silent_steps_surprises_by_log_n, make, drop),
		cmocka_unit_test_setup_teardown(a_level_that_never_moved_is_its_own_unit, make,
						drop),
		cmocka_unit_test_setup_teardown(
			a_metric_of_two_levels_surprises_by_how_often_it_leaps, make, drop),
		cmocka_unit_test_setup_teardown(rows_of_a_step_count_once, make, drop),
		cmocka_unit_test_setup_teardown(a_row_does_not_count_for_itself, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
