// SPDX-License-Identifier: Apache-2.0
/* test_calibrate.c - thresholds that follow a budget of false alarms, without labels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyse/calibrate.h"
#include "noise.h"

enum shape { NORMAL, EXPONENTIAL, PARETO, UNIFORM };

static double draw(enum shape shape, uint64_t *seed)
{
	switch (shape) {
	case NORMAL:
		return fabs(noise_normal(seed));
	case EXPONENTIAL:
		return -log(noise_uniform(seed));
	case PARETO:
		return pow(noise_uniform(seed), -1 / 3.0) - 1;
	case UNIFORM:
		return noise_uniform(seed);
	}
	return 0;
}

static double alarms(enum shape shape, double q, uint64_t learned, uint64_t seed)
{
	struct sl_calibration c;
	uint64_t n = 20000, above = 0;

	assert_int_equal(sl_calibration_init(&c, q, 1), 0);
	for (uint64_t i = 0; i < learned; i++)
		sl_calibration_learn(&c, draw(shape, &seed));
	for (uint64_t i = 0; i < n; i++)
		above += draw(shape, &seed) > sl_calibration_threshold(&c);
	return (double)above / (double)n;
}

/* Of 20 seeds the mean is within a factor of 2 of the budget: the tail is known from 25 excesses. */
static void the_budget_is_kept(void **state)
{
	static const double budgets[] = {0.02, 0.005, 0.001};

	(void)state;
	for (enum shape s = NORMAL; s <= UNIFORM; s++)
		for (unsigned int b = 0; b < 3; b++) {
			double sum = 0;

			for (uint64_t seed = 0; seed < 20; seed++)
				sum += alarms(s, budgets[b], 600, seed * 1000);
			sum /= 20;
			if (sum > 2 * budgets[b] || sum < budgets[b] / 2)
				fail_msg("shape %d budget %g: %g", s, budgets[b], sum);
		}
}

static void a_smaller_budget_has_a_higher_threshold(void **state)
{
	struct sl_calibration c;
	double before = 0;
	uint64_t seed = 7;

	(void)state;
	sl_calibration_init(&c, 0.1, 1);
	for (int i = 0; i < 1000; i++)
		sl_calibration_learn(&c, draw(EXPONENTIAL, &seed));
	for (double q = 0.1; q > 1e-6; q /= 2) {
		assert_int_equal(sl_calibration_budget(&c, q), 0);
		assert_true(sl_calibration_threshold(&c) > before);
		before = sl_calibration_threshold(&c);
	}
}

static void nothing_alarms_before_enough_is_known(void **state)
{
	struct sl_calibration c;

	(void)state;
	sl_calibration_init(&c, 0.01, 1);
	for (int i = 0; i < 31; i++) {
		assert_true(isinf(sl_calibration_threshold(&c)));
		sl_calibration_learn(&c, i);
	}
	sl_calibration_learn(&c, 31);
	assert_false(isinf(sl_calibration_threshold(&c)));
}

static void probabilities_fall_as_scores_rise(void **state)
{
	struct sl_calibration c;
	double before = 1.1;
	uint64_t seed = 3;

	(void)state;
	sl_calibration_init(&c, 0.01, 1);
	for (int i = 0; i < 500; i++)
		sl_calibration_learn(&c, draw(PARETO, &seed));
	for (double x = 0; x < 1e6; x = x * 1.5 + 0.1) {
		double p = sl_calibration_p(&c, x);

		assert_true(p <= before + 1e-9 && p >= 1e-12 && p <= 1);
		before = p;
	}
}

static void the_threshold_follows_a_change_that_lasts(void **state)
{
	struct sl_calibration c;
	uint64_t seed = 5, above = 0;

	(void)state;
	sl_calibration_init(&c, 0.01, 1);
	for (int i = 0; i < 1000; i++)
		sl_calibration_learn(&c, draw(NORMAL, &seed));
	for (int i = 0; i < 20000; i++)
		sl_calibration_learn(&c, 10 + draw(NORMAL, &seed));
	for (int i = 0; i < 10000; i++)
		above += 10 + draw(NORMAL, &seed) > sl_calibration_threshold(&c);
	assert_true(above < 300);
}

static void drift_raises_its_own_alarm_and_noise_does_not(void **state)
{
	struct sl_calibration c;
	bool drift = false;
	uint64_t seed = 9;

	(void)state;
	sl_calibration_init(&c, 0.001, 1);
	for (int i = 0; i < 1000; i++)
		sl_calibration_learn(&c, draw(NORMAL, &seed));
	for (int i = 0; i < 20000; i++)
		drift |= sl_calibration_watch(&c, draw(NORMAL, &seed));
	assert_false(drift);
	/* Far below the threshold, but often above what was usual. */
	for (int i = 0; i < 200; i++)
		drift |= sl_calibration_watch(&c, 1 + draw(NORMAL, &seed));
	assert_true(drift);
	for (int i = 0; i < 500; i++)
		drift = sl_calibration_watch(&c, draw(NORMAL, &seed));
	assert_false(drift);
}

static void hostile_scores_change_nothing(void **state)
{
	struct sl_calibration c;

	(void)state;
	sl_calibration_init(&c, 0.01, 1);
	sl_calibration_learn(&c, NAN);
	sl_calibration_learn(&c, -1);
	assert_int_equal(c.n, 0);
	for (int i = 0; i < 100; i++)
		sl_calibration_learn(&c, INFINITY);
	assert_false(isnan(sl_calibration_threshold(&c)));
	assert_int_equal(sl_calibration_init(&c, 0, 1), -22);
	assert_int_equal(sl_calibration_init(&c, NAN, 1), -22);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_budget_is_kept),
		cmocka_unit_test(a_smaller_budget_has_a_higher_threshold),
		cmocka_unit_test(nothing_alarms_before_enough_is_known),
		cmocka_unit_test(probabilities_fall_as_scores_rise),
		cmocka_unit_test(the_threshold_follows_a_change_that_lasts),
		cmocka_unit_test(drift_raises_its_own_alarm_and_noise_does_not),
		cmocka_unit_test(hostile_scores_change_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
