// SPDX-License-Identifier: Apache-2.0
/* test_calibrate.c - thresholds follow a budget of false alarms, without labels. */

#include "support/test.h"
#include "analyse/calibrate.h"
#include "noise.h"

enum shape { NORMAL, EXPONENTIAL, PARETO, UNIFORM, LOGNORMAL, SHAPES };

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
	case LOGNORMAL:
		return exp(noise_normal(seed));
	case SHAPES:
		break;
	}
	return 0;
}

/* The probability of more than x. */
static double beyond(enum shape shape, double x)
{
	switch (shape) {
	case NORMAL:
		return erfc(x / M_SQRT2);
	case EXPONENTIAL:
		return exp(-x);
	case PARETO:
		return pow(1 + x, -3);
	case UNIFORM:
		return fmax(1 - x, 0);
	case LOGNORMAL:
		return erfc(log(x) / M_SQRT2) / 2;
	case SHAPES:
		break;
	}
	return 0;
}

/*
 * The rate at which normal steps exceed a threshold made of this many scores; mean of some seeds.
 */
static double alarms(enum shape shape, double q, int learned, uint64_t seeds)
{
	double sum = 0;

	for (uint64_t k = 0; k < seeds; k++) {
		uint64_t seed = 1000 * k;
		struct analyse_calibration c;

		assert_int_equal(analyse_calibration_init(&c, q, ANALYSE_TAIL_ANY, 1), 0);
		for (int i = 0; i < learned; i++)
			analyse_calibration_learn(&c, draw(shape, &seed));
		sum += beyond(shape, analyse_calibration_threshold(&c));
	}
	return sum / (double)seeds;
}

/* Over 20 seeds, the mean is within a factor of 2 of the budget, if enough scores were seen. */
static void the_budget_is_kept(void **state)
{
	static const double budgets[] = {0.02, 0.005, 0.001};

	(void)state;
	for (enum shape s = NORMAL; s < SHAPES; s++)
		for (unsigned int b = 0; b < 3; b++) {
			double p = alarms(s, budgets[b], 600, 20);

			if (p > 2 * budgets[b] || (b == 0 && p < budgets[b] / 2))
				fail_msg("shape %d budget %g: %g", s, budgets[b], p);
		}
}

/*
 * One alarm per hour with steps of a second, already after half a minute: the threshold is wide
 * then, because an hour's worst step was never seen. The mean over all tails keeps the budget, and
 * each tail keeps it within a factor of three.
 */
static void of_few_scores_the_budget_is_kept_in_expectation(void **state)
{
	static const int lengths[] = {32, 48, 80, 150, 300, 600};
	const double q = 1.0 / 3600;

	(void)state;
	for (unsigned int k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
		double sum = 0;

		for (enum shape s = NORMAL; s < SHAPES; s++) {
			double p = alarms(s, q, lengths[k], 40);

			if (p > 3 * q)
				fail_msg("shape %d, %d scores: %g an hour", s, lengths[k], p / q);
			sum += p;
		}
		if (sum / SHAPES > q)
			fail_msg("%d scores: %g an hour", lengths[k], sum / SHAPES / q);
	}
}

/* ... and the threshold is not unreachable: it descends to the actual tail. */
static void the_threshold_comes_down_as_more_is_known(void **state)
{
	static const int lengths[] = {40, 150, 600, 5000};
	const double q = 1.0 / 3600, right = -log(q);
	double before = 4 * right;

	(void)state;
	for (unsigned int k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
		double sum = 0;

		for (uint64_t seed = 0; seed < 20; seed++) {
			uint64_t random = 1000 * seed;
			struct analyse_calibration c;

			analyse_calibration_init(&c, q, ANALYSE_TAIL_ANY, 1);
			for (int i = 0; i < lengths[k]; i++)
				analyse_calibration_learn(&c, draw(EXPONENTIAL, &random));
			sum += analyse_calibration_threshold(&c) / 20;
		}
		assert_true(sum > right * 0.9 && sum < before);
		before = sum;
	}
	assert_true(before < 1.2 * right);
}

#define MANY 8

/*
 * Alarms and thresholds of MANY pods whose scores have different scales, e^(spread x), after each
 * has learned the same number of scores: alarms of the mean pod and of the worst one, as a multiple
 * of the budget, with a threshold per pod and with one for all; and how high the pods' own
 * thresholds are relative to the common one. All are means over several seeds.
 */
struct pooled {
	double mean, worst, mean_of_all, worst_of_all, height;
};

static struct pooled pool(enum shape shape, double spread, int learned, double q)
{
	static struct analyse_calibration own[MANY], all;
	const uint64_t seeds = 40;
	struct pooled r = {0};

	for (uint64_t s = 0; s < seeds; s++) {
		struct analyse_calibration_spread of = {0};
		double scale[MANY], worst = 0, worst_of_all = 0;
		uint64_t seed = 1000 * s;

		analyse_calibration_init(&all, q, ANALYSE_TAIL_LOG_P, 1);
		for (int i = 0; i < MANY; i++) {
			scale[i] = exp(spread * noise_normal(&seed));
			analyse_calibration_init(&own[i], q, ANALYSE_TAIL_LOG_P, 1);
		}
		for (int k = 0; k < learned; k++)
			for (int i = 0; i < MANY; i++) {
				double x = scale[i] * draw(shape, &seed);

				analyse_calibration_learn(&own[i], x);
				analyse_calibration_learn(&all, x);
			}
		for (int i = 0; i < MANY; i++)
			analyse_calibration_compare(&of, &own[i], &all);
		analyse_calibration_compared(&of, &all);
		for (int i = 0; i < MANY; i++) {
			double mine = analyse_calibration_among(&own[i], &all);
			double of_all = analyse_calibration_threshold(&all);

			worst = fmax(worst, beyond(shape, mine / scale[i]) / q);
			worst_of_all = fmax(worst_of_all, beyond(shape, of_all / scale[i]) / q);
			r.mean += beyond(shape, mine / scale[i]) / q / MANY / (double)seeds;
			r.mean_of_all += beyond(shape, of_all / scale[i]) / q / MANY /
					 (double)seeds;
			r.height += mine / of_all / MANY / (double)seeds;
		}
		r.worst += worst / (double)seeds;
		r.worst_of_all += worst_of_all / (double)seeds;
	}
	return r;
}

/*
 * One threshold for all pods would give most alarms to the pod that is always restless, and hide
 * faults of the quiet ones. From one minute on, each pod has its own lower threshold, which keeps
 * the budget and spares the worst pod.
 */
static void pods_that_differ_have_their_own_thresholds(void **state)
{
	static const int lengths[] = {80, 300};

	(void)state;
	for (int k = 0; k < 2; k++) {
		struct pooled r = pool(EXPONENTIAL, 0.5, lengths[k], 1.0 / 3600);

		if (r.mean > 1 || r.worst > 0.6 * r.worst_of_all || r.height > 0.96)
			fail_msg("%d: mean %g worst %g, of all %g and %g; height %g", lengths[k],
				 r.mean, r.worst, r.mean_of_all, r.worst_of_all, r.height);
	}
}

/* Differences that are only due to chance are not taken for differences between pods. */
static void pods_that_are_alike_share_what_they_know(void **state)
{
	(void)state;
	for (enum shape s = NORMAL; s < SHAPES; s++) {
		struct pooled r = pool(s, 0, 80, 1.0 / 3600);

		if (fabs(r.height - 1) > 0.01 || r.worst > 1.25 * r.worst_of_all)
			fail_msg("shape %d: worst %g, of all %g; height %g", s, r.worst,
				 r.worst_of_all, r.height);
	}
}

static void who_knows_nothing_of_itself_has_no_threshold(void **state)
{
	struct analyse_calibration own, all;
	uint64_t seed = 11;

	(void)state;
	analyse_calibration_init(&own, 0.01, ANALYSE_TAIL_LOG_P, 1);
	analyse_calibration_init(&all, 0.01, ANALYSE_TAIL_LOG_P, 1);
	for (int i = 0; i < 300; i++)
		analyse_calibration_learn(&all, draw(EXPONENTIAL, &seed));
	for (int i = 0; i < 300; i++) {
		double x = draw(EXPONENTIAL, &seed);

		assert_int_equal(isinf(analyse_calibration_among(&own, &all)), i < 32);
		analyse_calibration_learn(&all, x);
		analyse_calibration_learn(&own, x);
	}
	assert_true(analyse_calibration_among(&own, &own) == analyse_calibration_threshold(&own));
}

/* Scores in lumps, most of them 0, as real scores are: a lump does not exceed itself. */
static void scores_in_lumps_keep_the_budget(void **state)
{
	struct analyse_calibration c;
	uint64_t seed = 1;

	(void)state;
	analyse_calibration_init(&c, 1.0 / 3600, ANALYSE_TAIL_ANY, 1);
	for (int i = 0; i < 4000; i++) {
		double above = 0;

		analyse_calibration_learn(&c, floor(1.5 * draw(EXPONENTIAL, &seed)));
		if (i < 300)
			continue;
		above = ceil(analyse_calibration_threshold(&c));
		assert_true(exp(-above / 1.5) < 4 / 3600.0);
		assert_true(above < 40);
	}
}

static void a_smaller_budget_has_a_higher_threshold(void **state)
{
	struct analyse_calibration c;
	double before = 0;
	uint64_t seed = 7;

	(void)state;
	analyse_calibration_init(&c, 0.1, ANALYSE_TAIL_ANY, 1);
	for (int i = 0; i < 1000; i++)
		analyse_calibration_learn(&c, draw(EXPONENTIAL, &seed));
	for (double q = 0.1; q > 1e-6; q /= 2) {
		assert_int_equal(analyse_calibration_budget(&c, q), 0);
		assert_true(analyse_calibration_threshold(&c) > before);
		before = analyse_calibration_threshold(&c);
	}
}

static void nothing_alarms_before_enough_is_known(void **state)
{
	struct analyse_calibration c;

	(void)state;
	analyse_calibration_init(&c, 0.01, ANALYSE_TAIL_ANY, 1);
	for (int i = 0; i < 31; i++) {
		assert_true(isinf(analyse_calibration_threshold(&c)));
		analyse_calibration_learn(&c, i);
	}
	analyse_calibration_learn(&c, 31);
	assert_false(isinf(analyse_calibration_threshold(&c)));
}

static void probabilities_fall_as_scores_rise(void **state)
{
	struct analyse_calibration c;
	double before = 1.1;
	uint64_t seed = 3;

	(void)state;
	analyse_calibration_init(&c, 0.01, ANALYSE_TAIL_ANY, 1);
	for (int i = 0; i < 500; i++)
		analyse_calibration_learn(&c, draw(PARETO, &seed));
	for (double x = 0; x < 1e6; x = x * 1.5 + 0.1) {
		double p = analyse_calibration_p(&c, x);

		assert_true(p <= before + 1e-9 && p >= 1e-12 && p <= 1);
		before = p;
	}
}

static void the_threshold_follows_a_change_that_lasts(void **state)
{
	struct analyse_calibration c;
	uint64_t seed = 5, above = 0;

	(void)state;
	analyse_calibration_init(&c, 0.01, ANALYSE_TAIL_ANY, 1);
	for (int i = 0; i < 1000; i++)
		analyse_calibration_learn(&c, draw(NORMAL, &seed));
	for (int i = 0; i < 20000; i++)
		analyse_calibration_learn(&c, 10 + draw(NORMAL, &seed));
	for (int i = 0; i < 10000; i++)
		above += 10 + draw(NORMAL, &seed) > analyse_calibration_threshold(&c);
	assert_true(above < 300);
}

static void drift_raises_its_own_alarm_and_noise_does_not(void **state)
{
	struct analyse_calibration c;
	bool drift = false;
	uint64_t seed = 9;

	(void)state;
	analyse_calibration_init(&c, 0.001, ANALYSE_TAIL_ANY, 1);
	for (int i = 0; i < 1000; i++)
		analyse_calibration_learn(&c, draw(NORMAL, &seed));
	for (int i = 0; i < 20000; i++)
		drift |= analyse_calibration_watch(&c, draw(NORMAL, &seed));
	assert_false(drift);
	/* Far below the threshold, but often above the usual level. */
	for (int i = 0; i < 200; i++)
		drift |= analyse_calibration_watch(&c, 1 + draw(NORMAL, &seed));
	assert_true(drift);
	for (int i = 0; i < 500; i++)
		drift = analyse_calibration_watch(&c, draw(NORMAL, &seed));
	assert_false(drift);
}

static void hostile_scores_change_nothing(void **state)
{
	struct analyse_calibration c;

	(void)state;
	analyse_calibration_init(&c, 0.01, ANALYSE_TAIL_ANY, 1);
	analyse_calibration_learn(&c, NAN);
	analyse_calibration_learn(&c, -1);
	assert_int_equal(c.n, 0);
	for (int i = 0; i < 100; i++)
		analyse_calibration_learn(&c, INFINITY);
	assert_false(isnan(analyse_calibration_threshold(&c)));
	assert_int_equal(analyse_calibration_init(&c, 0, ANALYSE_TAIL_ANY, 1), -22);
	assert_int_equal(analyse_calibration_init(&c, NAN, ANALYSE_TAIL_ANY, 1), -22);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_budget_is_kept),
		cmocka_unit_test(of_few_scores_the_budget_is_kept_in_expectation),
		cmocka_unit_test(the_threshold_comes_down_as_more_is_known),
		cmocka_unit_test(pods_that_differ_have_their_own_thresholds),
		cmocka_unit_test(pods_that_are_alike_share_what_they_know),
		cmocka_unit_test(who_knows_nothing_of_itself_has_no_threshold),
		cmocka_unit_test(scores_in_lumps_keep_the_budget),
		cmocka_unit_test(a_smaller_budget_has_a_higher_threshold),
		cmocka_unit_test(nothing_alarms_before_enough_is_known),
		cmocka_unit_test(probabilities_fall_as_scores_rise),
		cmocka_unit_test(the_threshold_follows_a_change_that_lasts),
		cmocka_unit_test(drift_raises_its_own_alarm_and_noise_does_not),
		cmocka_unit_test(hostile_scores_change_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
