// SPDX-License-Identifier: Apache-2.0
/*
 * test_slowdown.c - by which factor requests to a pod are slower than usual: the autoscaler's
 * signal.
 */

#include "support/test.h"
#include "analyse/pipeline.h"

#include <math.h>

#define STEP   1000000000ull
#define USUAL  600 /* steps */
#define WITHIN 1e-4

enum { SERVER, OTHER_SERVER, SERVER_P99, CLIENT, WHOLE, COUNTER, CPU, COLUMNS };

static const struct analyse_column columns[COLUMNS] = {
	[SERVER] = {"shop_request_duration_seconds_p90", false},
	[OTHER_SERVER] = {"admin_request_duration_seconds_p90", false},
	[SERVER_P99] = {"shop_request_duration_seconds_p99", false},
	[CLIENT] = {"client_request_duration_seconds_p90", false},
	[WHOLE] = {"shop_request_duration_seconds", false},
	[COUNTER] = {"shop_request_duration_seconds_p90_total", true},
	[CPU] = {"cpu", false},
};

struct pod {
	struct analyse_pipeline *p;
	uint64_t t;
	double values[COLUMNS];
};

static double slowdown(struct pod *d)
{
	struct analyse_verdict v;

	d->t += STEP;
	d->values[COUNTER] += 100;
	assert_int_equal(analyse_pipeline_push(d->p, d->t, d->values, &v), 0);
	return analyse_pipeline_slowdown(d->p);
}

/* Returns a pod all of whose rows were like this one. */
static struct pod of(const double values[COLUMNS])
{
	struct pod d = {.p = analyse_pipeline_create(
				&(struct analyse_pipeline_opts){.columns = 16, .seed = 1})};

	assert_non_null(d.p);
	assert_int_equal(analyse_pipeline_columns(d.p, columns, COLUMNS), 0);
	memcpy(d.values, values, sizeof(d.values));
	analyse_pipeline_learning(d.p, ANALYSE_LEARN_ALL);
	for (int i = 0; i < USUAL; i++)
		slowdown(&d);
	return d;
}

static const double usual[COLUMNS] = {
	[SERVER] = 0.02, [OTHER_SERVER] = NAN, [SERVER_P99] = 0.05,
	[CLIENT] = 0.01, [WHOLE] = 0.03,       [CPU] = 0.5,
};

static void requests_as_usual_are_one(void **state)
{
	struct pod d = of(usual);

	(void)state;
	assert_float_equal(slowdown(&d), 1, WITHIN);
	analyse_pipeline_free(d.p);
}

static void it_is_the_factor_of_the_last_row(void **state)
{
	static const double factors[] = {2, 0.5, 7, 1};
	struct pod d = of(usual);

	(void)state;
	analyse_pipeline_learning(d.p, ANALYSE_LEARN_NONE);
	for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
		d.values[SERVER] = usual[SERVER] * factors[i];
		assert_float_equal(slowdown(&d), factors[i], factors[i] * WITHIN);
	}
	analyse_pipeline_free(d.p);
}

static void several_kinds_of_requests_are_their_mean(void **state)
{
	double both[COLUMNS];
	struct pod d;

	(void)state;
	memcpy(both, usual, sizeof(both));
	both[OTHER_SERVER] = 3; /* seconds: the mean is of factors */
	d = of(both);
	d.values[SERVER] *= 4;
	assert_float_equal(slowdown(&d), 2.5, WITHIN);
	d.values[OTHER_SERVER] = NAN; /* no request of this kind */
	assert_float_equal(slowdown(&d), 4, WITHIN);
	analyse_pipeline_free(d.p);
}

/* The time that the pod waits for others, and its other work, do not affect the signal. */
static void other_metrics_do_not_move_it(void **state)
{
	struct pod d = of(usual);

	(void)state;
	for (int c = 0; c < COLUMNS; c++)
		if (c != SERVER)
			d.values[c] *= 10;
	assert_float_equal(slowdown(&d), 1, WITHIN);
	analyse_pipeline_free(d.p);
}

static void without_requests_it_is_not_known(void **state)
{
	static const double none[] = {NAN, 0};
	struct pod d = of(usual);

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		d.values[SERVER] = none[i];
		assert_true(slowdown(&d) == 0);
	}
	d.values[SERVER] = usual[SERVER];
	assert_float_equal(slowdown(&d), 1, WITHIN);
	/* The metric ends. */
	assert_int_equal(analyse_pipeline_columns(d.p, columns + SERVER_P99, COLUMNS - SERVER_P99),
			 0);
	assert_true(analyse_pipeline_slowdown(d.p) == 0);
	assert_true(slowdown(&d) == 0);
	analyse_pipeline_free(d.p);
}

static void nothing_is_usual_before_it_was_seen(void **state)
{
	struct pod d = {.p = analyse_pipeline_create(
				&(struct analyse_pipeline_opts){.columns = 16, .seed = 1})};

	(void)state;
	assert_int_equal(analyse_pipeline_columns(d.p, columns, COLUMNS), 0);
	assert_true(analyse_pipeline_slowdown(d.p) == 0);
	memcpy(d.values, usual, sizeof(d.values));
	assert_true(slowdown(&d) == 0);
	analyse_pipeline_free(d.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_as_usual_are_one),
		cmocka_unit_test(it_is_the_factor_of_the_last_row),
		cmocka_unit_test(several_kinds_of_requests_are_their_mean),
		cmocka_unit_test(other_metrics_do_not_move_it),
		cmocka_unit_test(without_requests_it_is_not_known),
		cmocka_unit_test(nothing_is_usual_before_it_was_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
