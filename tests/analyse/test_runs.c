// SPDX-License-Identifier: Apache-2.0
/*
 * test_runs.c - how scores of consecutive steps accumulate, and what must not add up
 * (docs/analytics.md, Runs).
 */
#include <stdlib.h>

#include "support/test.h"
#include "analyse/pipeline_internal.h"
#include "pod.h"

/* A pod that has learned for ten minutes, and may be wrong once in three hours. */
static struct pod seldom_wrong(void)
{
	struct pod d;

	false_alarms = 0.36;
	d = trained(NULL, 600);
	false_alarms = 3.6;
	for (int i = 0; i < 20; i++)
		push(&d);
	return d;
}

/* No single step shows the fault, but the sum over its steps does, as long as it lasts. */
static void a_fault_below_the_threshold_is_found_if_it_lasts(void **state)
{
	struct analyse_verdict v = {0};
	int first = 0, found = 0;
	struct pod d;

	(void)state;
	d = seldom_wrong();
	for (int i = 1; i <= 30; i++) {
		move_on(&d);
		d.values[1] += 2.2e7;
		assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
		if (v.raw > v.threshold || v.score > 2)
			fail_msg("%d: raw %g of %g, score %g", i, (double)v.raw,
				 (double)v.threshold, (double)v.score);
		found += v.anomalous;
		first = v.anomalous && !first ? i : first;
	}
	if (first < 3 || first > 10 || found < 20)
		fail_msg("first at %d, %d of 30", first, found);
	for (int i = 0; i < 8; i++)
		assert_false(push(&d).anomalous);
	analyse_pipeline_free(d.p);
}

/*
 * A metric that deviates late does not delay the end of the anomaly; the slow median still stays at
 * its level.
 */
static void what_joined_a_fault_late_makes_none_of_its_end(void **state)
{
	struct pod d = trained(NULL, 600);
	struct analyse_verdict v = {0};
	unsigned int late = 0;

	(void)state;
	for (int i = 0; i < 140; i++) {
		move_on(&d);
		d.values[1] += i >= 20 && i < 80 ? 2e8 : 0;
		d.values[4] += i >= 30 && i < 82 ? 0.5 : 0;
		assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
		if (i >= 20 && i < 80)
			assert_true(v.anomalous);
		late += i >= 84 && v.anomalous;
	}
	if (late)
		fail_msg("%u steps after it", late);
	analyse_pipeline_free(d.p);
}

/* A stall of five steps is one event and so one score. */
static void a_stall_is_one_event_however_many_steps_it_has(void **state)
{
	struct pod once = {.p = create(NULL), .t = STEP, .seed = 1};
	struct pod longer = {.p = create(NULL), .t = STEP, .seed = 1};
	struct analyse_verdict v = {0}, w = {0};

	(void)state;
	analyse_pipeline_learning(once.p, ANALYSE_LEARN_ALL);
	analyse_pipeline_learning(longer.p, ANALYSE_LEARN_ALL);
	for (int i = 0; i < 400; i++) {
		move_on(&once);
		move_on(&longer);
		if (i > 100 && i % 60 < 5) {
			longer.values[1] += 3e6 * (i / 60);
			longer.values[4] += 2e-3 * (i / 60);
		}
		if (i > 100 && i % 60 == 0) {
			once.values[1] += 3e6 * (i / 60);
			once.values[4] += 2e-3 * (i / 60);
		}
		assert_int_equal(analyse_pipeline_push(once.p, once.t, once.values, &v), 0);
		assert_int_equal(analyse_pipeline_push(longer.p, longer.t, longer.values, &w), 0);
	}
	/*
	 * Lower, because moves over more steps are more usual. If each of them were learned, it
	 * would be higher by two thirds.
	 */
	if (!(w.threshold < 0.9f * v.threshold))
		fail_msg("thresholds of one step %g, of five %g", (double)v.threshold,
			 (double)w.threshold);
	analyse_pipeline_free(once.p);
	analyse_pipeline_free(longer.p);
}

/* A long small deviation is not a fault, and hides no fault that begins during it. */
static void what_is_off_for_long_hides_no_fault(void **state)
{
	struct analyse_verdict v = {0};
	int found = 0;
	struct pod d;

	(void)state;
	d = seldom_wrong();
	for (int i = 0; i < 15; i++) {
		move_on(&d);
		d.values[1] += 2.2e7;
		assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
		/* Pretend that the previous twenty steps were just above the usual level. */
		if (i == 0)
			d.p->run.steps = 20;
		found += v.anomalous;
	}
	if (found < 3)
		fail_msg("%d of 15 steps", found);
	analyse_pipeline_free(d.p);
}

/*
 * The after-effects of a fault over some steps add up to little, and it is over within two steps.
 */
static void what_is_left_of_a_fault_does_not_prolong_it(void **state)
{
	struct pod d = seldom_wrong();
	struct analyse_verdict v = {0};
	unsigned int found = 0, late = 0, above = 0;

	(void)state;
	for (int i = 0; i < 22; i++) {
		move_on(&d);
		d.values[1] += i < 10 ? 2e9 : 9e6;
		d.values[0] += i < 10 ? 5000 : 0;
		d.values[4] += i < 10 ? 10 : 0;
		assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
		found += i < 10 && v.anomalous;
		late += i >= 12 && v.anomalous;
		above += i >= 12 && v.raw > (float)d.p->own.step.q90;
	}
	if (found < 10 || late || above < 8)
		fail_msg("%u of 10 steps, %u after it, of which %u are unusual", found, late,
			 above);
	analyse_pipeline_free(d.p);
}

/*
 * The smoothed rate of a counter that rests again falls to 0; otherwise its first event would count
 * as unusual for a hundred steps.
 */
static void an_event_is_over_when_its_counter_rests(void **state)
{
	struct analyse_pipeline_opts o = {
		.columns = 16, .false_alarms = 36, .rate_ns = STEP, .seed = 1};
	struct pod d = {.p = analyse_pipeline_create(&o), .t = STEP, .seed = 1};
	double events = 0;
	unsigned int late = 0, early = 0;

	(void)state;
	assert_non_null(d.p);
	assert_int_equal(analyse_pipeline_columns(d.p, columns, N), 0);
	analyse_pipeline_learning(d.p, ANALYSE_LEARN_ALL);
	for (int i = 0; i < 700; i++) {
		struct analyse_verdict v;

		if (i == 600)
			analyse_pipeline_learning(d.p, ANALYSE_LEARN_GATED);
		move_on(&d);
		events += i >= 620 && i < 630 ? 1000 : 0;
		d.values[3] = events;
		d.values[1] += i >= 620 && i < 630 ? 1e8 : 0;
		assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
		for (uint32_t k = 0; k < v.blamed; k++) {
			early += i >= 620 && i < 630 && v.anomalous && v.blame[k].column == 3;
			late += i >= 642 && v.blame[k].column == 3;
		}
	}
	if (early < 5 || late)
		fail_msg("%u steps while it lasts, %u after it", early, late);
	analyse_pipeline_free(d.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fault_below_the_threshold_is_found_if_it_lasts),
		cmocka_unit_test(what_joined_a_fault_late_makes_none_of_its_end),
		cmocka_unit_test(a_stall_is_one_event_however_many_steps_it_has),
		cmocka_unit_test(what_is_off_for_long_hides_no_fault),
		cmocka_unit_test(what_is_left_of_a_fault_does_not_prolong_it),
		cmocka_unit_test(an_event_is_over_when_its_counter_rests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
