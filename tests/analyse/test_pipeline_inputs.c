// SPDX-License-Identifier: Apache-2.0
/*
 * test_pipeline_inputs.c - what a pipeline does with bad values, clocks, series that come and go,
 * and saved models.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "analyse/fleet.h"
#include "analyse/pipeline_internal.h"
#include "pod.h"

static void nan_infinity_and_nonsense_are_missing_and_counted(void **state)
{
	static const double odd[] = {NAN, INFINITY, -INFINITY, 1e300, -1e300, 1e15};

	(void)state;
	for (unsigned int k = 0; analyse_detectors[k]; k++) {
		struct pod d = trained(analyse_detectors[k], 200);
		struct analyse_pipeline_stats s;
		struct analyse_verdict v;

		for (int i = 0; i < 300; i++) {
			move_on(&d);
			for (uint32_t c = 0; c < N; c++)
				if (i % 3 == 0 || sketch_random_next(&d.seed) % 2)
					d.values[c] = odd[sketch_random_next(&d.seed) % 6];
			assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
			assert_true(v.score >= 0 && isfinite(v.score) && isfinite(v.raw));
			for (uint32_t c = 0; c < N; c++)
				if (!isfinite(d.values[c]) || fabs(d.values[c]) > 1e14)
					d.values[c] = 1;
		}
		analyse_pipeline_stats(d.p, &s);
		assert_true(s.missing > 1000);
		analyse_pipeline_free(d.p);
	}
}

/* 64 busy CPUs count 2e15 ns in nine hours. */
static void a_counter_may_be_arbitrarily_large(void **state)
{
	struct pod d = {.p = create(NULL), .t = STEP, .seed = 1};
	struct analyse_column counts[N];
	struct analyse_pipeline_stats s;
	struct analyse_verdict v;

	(void)state;
	memcpy(counts, columns, sizeof(counts));
	counts[8] = (struct analyse_column){"cpu_nanoseconds_total", true};
	assert_int_equal(analyse_pipeline_columns(d.p, counts, N), 0);
	d.values[8] = 2e15;
	analyse_pipeline_learning(d.p, ANALYSE_LEARN_ALL);
	for (int i = 0; i < 600; i++)
		push(&d);
	analyse_pipeline_learning(d.p, ANALYSE_LEARN_GATED);
	for (int i = 0; i < 20; i++)
		push(&d);
	analyse_pipeline_stats(d.p, &s);
	assert_int_equal(s.missing, 0);
	move_on(&d);
	d.values[8] += 1e7;
	assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
	assert_true(v.anomalous && v.blame[0].column == 8);
	analyse_pipeline_free(d.p);
}

/* One such rate would be the level from then on, and all later errors would be usual. */
static void an_absurd_increase_is_not_learned(void **state)
{
	static const double absurd[] = {1e16, 1e19, 1e25, 1e38, 1e300};

	(void)state;
	for (size_t i = 0; i < sizeof(absurd) / sizeof(*absurd); i++) {
		struct pod d = trained(NULL, 600);
		const struct analyse_count_past *errors = &d.p->slots[d.p->slot_of[3]].errors;
		const double before[] = {d.values[3], d.values[8]};
		struct analyse_verdict v;

		analyse_pipeline_learning(d.p, ANALYSE_LEARN_ALL);
		d.values[3] = d.values[8] = absurd[i];
		push(&d);
		d.values[3] = before[0];
		d.values[8] = before[1];
		for (int k = 0; k < 20; k++)
			push(&d);
		assert_true(errors->events < 100);
		analyse_pipeline_learning(d.p, ANALYSE_LEARN_GATED);
		move_on(&d);
		d.values[8] += 1e7;
		assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
		assert_true(v.anomalous && v.blame[0].column == 8);
		analyse_pipeline_free(d.p);
	}
}

static void a_counter_that_begins_anew_is_no_anomaly(void **state)
{
	struct pod d = trained(NULL, 600);
	struct analyse_pipeline_stats s;

	(void)state;
	for (int i = 0; i < 50; i++)
		push(&d);
	for (uint32_t c = 0; c < N; c++)
		if (columns[c].counter)
			d.values[c] = 0;
	for (int i = 0; i < 20; i++)
		assert_false(push(&d).anomalous);
	analyse_pipeline_stats(d.p, &s);
	assert_true(s.resets >= 3);
	analyse_pipeline_free(d.p);
}

static void time_that_does_not_advance_is_refused_and_counted(void **state)
{
	struct pod d = trained(NULL, 100);
	struct analyse_pipeline_stats s;
	struct analyse_verdict v;

	(void)state;
	assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), -EINVAL);
	assert_int_equal(analyse_pipeline_push(d.p, d.t - STEP, d.values, &v), -EINVAL);
	assert_false(v.known || v.anomalous);
	d.t += 1000 * STEP;
	push(&d);
	analyse_pipeline_stats(d.p, &s);
	assert_int_equal(s.backwards, 2);
	assert_int_equal(s.jumps, 1);
	analyse_pipeline_free(d.p);
}

/* It must not wait until the old time is reached again: that may take hours. */
static void a_clock_that_is_set_back_is_gone_along_with(void **state)
{
	struct pod d = trained(NULL, 600);
	struct analyse_pipeline_stats s;
	struct analyse_verdict v;

	(void)state;
	d.t -= 500 * STEP;
	for (int i = 0; i < 20; i++) {
		v = push(
			&d); /* none is refused; and no counter takes 500 steps back for its time */
		assert_true(v.known);
		assert_false(v.anomalous);
	}
	analyse_pipeline_stats(d.p, &s);
	assert_int_equal(s.backwards, 0);
	assert_int_equal(s.jumps, 1);
	assert_int_equal(s.resets, 0);
	analyse_pipeline_free(d.p);
}

static void series_come_and_go_and_are_known_again(void **state)
{
	struct pod d = trained(NULL, 600);
	struct analyse_column fewer[N + 8], more[40];
	struct analyse_pipeline_stats s;
	struct analyse_verdict v;
	double values[40];
	char names[40][16];

	(void)state;
	/* In another order, and without the first column: the same values are still normal. */
	for (uint32_t c = 1; c < N; c++)
		fewer[N - 1 - c] = columns[c];
	assert_int_equal(analyse_pipeline_columns(d.p, fewer, N - 1), 0);
	for (int i = 0; i < 30; i++) {
		move_on(&d);
		for (uint32_t c = 1; c < N; c++)
			values[N - 1 - c] = d.values[c];
		assert_int_equal(analyse_pipeline_push(d.p, d.t, values, &v), 0);
		assert_false(v.anomalous);
	}
	/* The column comes back and is recognised, so a fault in it is seen after two steps. */
	assert_int_equal(analyse_pipeline_columns(d.p, columns, N), 0);
	for (int i = 0; i < 3; i++)
		push(&d);
	move_on(&d);
	d.values[0] = 400;
	assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
	assert_true(v.anomalous && v.blame[0].column == 0);
	/* Columns that do not fit are refused and counted, and nothing breaks. */
	for (int i = 0; i < 40; i++) {
		snprintf(names[i], sizeof(names[i]), "new%d", i);
		more[i] = (struct analyse_column){names[i], i % 2};
		values[i] = i;
	}
	assert_int_equal(analyse_pipeline_columns(d.p, more, 40), 40 - 16);
	for (int i = 0; i < 50; i++) {
		d.t += STEP;
		assert_int_equal(analyse_pipeline_push(d.p, d.t, values, &v), 0);
	}
	more[1].name = more[0].name;
	assert_int_equal(analyse_pipeline_columns(d.p, more, 2), 1); /* one name twice */
	analyse_pipeline_stats(d.p, &s);
	assert_int_equal(s.refused, 25);
	assert_int_equal(s.forgotten, N);
	analyse_pipeline_free(d.p);
}

/* 100 errors in each second without rows are not 100000 errors in the next one. */
static void errors_during_a_gap_are_not_learned_as_one_step(void **state)
{
	struct pod d = trained(NULL, 100);
	const struct analyse_count_past *errors = &d.p->slots[d.p->slot_of[3]].errors;

	(void)state;
	analyse_pipeline_learning(d.p, ANALYSE_LEARN_ALL);
	d.t += 1000 * STEP;
	d.values[3] += 100000;
	for (int i = 0; i < 3; i++)
		push(&d);
	assert_true(errors->seconds > 90 && errors->events < 100);
	analyse_pipeline_free(d.p);
}

/* It gets the slot of a series that counted errors. */
static void a_new_series_has_no_past_errors(void **state)
{
	struct pod d = trained(NULL, 100);
	const uint32_t slot = d.p->slot_of[3];
	struct analyse_column more[16];
	char names[16][16];

	(void)state;
	assert_true(d.p->slots[slot].errors.seconds > 0);
	for (int i = 0; i < 16; i++) {
		snprintf(names[i], sizeof(names[i]), "failed%d", i);
		more[i] = (struct analyse_column){names[i], true};
	}
	assert_int_equal(analyse_pipeline_columns(d.p, more, 16), 0);
	assert_true(d.p->slots[slot].errors.seconds == 0);
	analyse_pipeline_free(d.p);
}

static void nothing_allocates_once_it_runs(void **state)
{
	struct pod d = trained(NULL, 300);
	struct mallinfo2 before = mallinfo2(), after;

	(void)state;
	for (int i = 0; i < 2000; i++)
		push(&d);
	after = mallinfo2();
	assert_int_equal(before.uordblks, after.uordblks);
	analyse_pipeline_free(d.p);
}

/* ---- models ---- */

static void *saved(struct analyse_pipeline *p, size_t *bytes)
{
	void *buf;
	int64_t n = analyse_pipeline_save_all(&p, 1, &buf);

	assert_true(n > 0);
	*bytes = (size_t)n;
	return buf;
}

static void a_loaded_model_scores_as_the_one_saved(void **state)
{
	(void)state;
	for (unsigned int k = 0; analyse_detectors[k]; k++) {
		const struct analyse_detector_ops *ops = analyse_detectors[k];
		struct pod a = trained(ops, 600), b = {.p = create(ops)};
		struct analyse_verdict v, w;
		size_t bytes;
		void *buf;

		/* Sums over consecutive steps are in progress. */
		move_on(&a);
		a.values[0] *= 3;
		assert_int_equal(analyse_pipeline_push(a.p, a.t, a.values, &v), 0);
		analyse_pipeline_rewind(a.p);
		buf = saved(a.p, &bytes);
		assert_int_equal(analyse_pipeline_load(b.p, buf, bytes), 0);
		assert_int_equal(analyse_pipeline_columns(b.p, columns, N), 0);
		/* First without learning, then with it: learning continues as well. */
		for (int i = 0; i < 300; i++) {
			if (i % 100 == 0) {
				analyse_pipeline_learning(a.p, i ? ANALYSE_LEARN_ALL
								 : ANALYSE_LEARN_NONE);
				analyse_pipeline_learning(b.p, i ? ANALYSE_LEARN_ALL
								 : ANALYSE_LEARN_NONE);
			}
			move_on(&a);
			if (i % 7 == 0)
				a.values[0] *= 3;
			assert_int_equal(analyse_pipeline_push(a.p, a.t, a.values, &v), 0);
			assert_int_equal(analyse_pipeline_push(b.p, a.t, a.values, &w), 0);
			if (v.raw != w.raw || v.score != w.score || v.anomalous != w.anomalous)
				fail_msg("%s: row %d: %g, not %g", ops->name, i, (double)w.raw,
					 (double)v.raw);
		}
		free(buf);
		analyse_pipeline_free(a.p);
		analyse_pipeline_free(b.p);
	}
}

static void an_empty_fleet_begins_with_the_models_threshold(void **state)
{
	struct analyse_fleet *f = analyse_fleet_create(0.001, 1);
	struct pod a = trained(NULL, 600), b = {.p = create(NULL)};
	struct analyse_verdict v;
	size_t bytes;
	void *buf = saved(a.p, &bytes);

	(void)state;
	analyse_fleet_join(f, b.p, NULL);
	assert_int_equal(analyse_pipeline_load(b.p, buf, bytes), 0);
	assert_false(isinf(analyse_calibration_threshold(&analyse_fleet_thresholds(f)->step)));
	analyse_pipeline_columns(b.p, columns, N);
	move_on(&a);
	assert_int_equal(analyse_pipeline_push(b.p, a.t, a.values, &v), 0);
	assert_true(v.known);
	/* The fleet's threshold still counts; it is not replaced by another model's. */
	analyse_pipeline_recalibrate(b.p);
	assert_int_equal(analyse_fleet_thresholds(f)->step.n, 0);
	free(buf);
	analyse_pipeline_free(a.p);
	analyse_pipeline_free(b.p);
	analyse_fleet_free(f);
}

static void a_damaged_model_is_refused_and_analysis_goes_on(void **state)
{
	(void)state;
	for (unsigned int k = 0; analyse_detectors[k]; k++) {
		const struct analyse_detector_ops *ops = analyse_detectors[k];
		struct pod a = trained(ops, 200), b = {.p = create(ops), .t = STEP, .seed = 1};
		size_t bytes;
		uint8_t *buf;

		buf = saved(a.p, &bytes);
		for (size_t n = 0; n < bytes; n += 1 + bytes / 97)
			assert_int_equal(analyse_pipeline_load(b.p, buf, n), -EINVAL);
		for (size_t i = 24; i < bytes; i += 1 + bytes / 97) {
			buf[i] ^= 1;
			assert_int_equal(analyse_pipeline_load(b.p, buf, bytes), -EINVAL);
			buf[i] ^= 1;
		}
		buf[8]++;
		assert_int_equal(analyse_pipeline_load(b.p, buf, bytes), -EPROTONOSUPPORT);
		analyse_pipeline_columns(b.p, columns, N);
		for (int i = 0; i < 100; i++)
			push(&b);
		free(buf);
		analyse_pipeline_free(a.p);
		analyse_pipeline_free(b.p);
	}
}

static void a_model_of_another_detector_is_refused(void **state)
{
	struct pod a = trained(&analyse_detector_fd, 100), b = {.p = create(NULL)};
	size_t bytes;
	void *buf = saved(a.p, &bytes);

	(void)state;
	assert_int_equal(analyse_pipeline_load(b.p, buf, bytes), -EINVAL);
	assert_int_equal(analyse_pipeline_merge(b.p, a.p), -EINVAL);
	free(buf);
	analyse_pipeline_free(a.p);
	analyse_pipeline_free(b.p);
}

/* A host that was always quiet learns from a busy one how a busy host looks. */
static void merged_models_know_both_hosts(void **state)
{
	struct pod quiet = {.p = create(NULL), .t = STEP, .seed = 5}, busy = trained(NULL, 600);
	struct analyse_verdict v, w;

	(void)state;
	analyse_pipeline_learning(quiet.p, ANALYSE_LEARN_ALL);
	for (int i = 0; i < 600; i++) {
		move_on(&quiet);
		for (uint32_t c = 0; c < N; c++)
			if (!columns[c].counter)
				quiet.values[c] = 1;
		assert_int_equal(analyse_pipeline_push(quiet.p, quiet.t, quiet.values, &v), 0);
	}
	assert_int_equal(analyse_pipeline_merge(quiet.p, busy.p), 0);
	analyse_pipeline_rewind(quiet.p);
	analyse_pipeline_rewind(busy.p);
	for (int i = 0; i < 20; i++) {
		v = push(&busy);
		assert_int_equal(analyse_pipeline_push(quiet.p, busy.t, busy.values, &w), 0);
		assert_true(w.raw < v.raw + 3);
	}
	analyse_pipeline_free(quiet.p);
	analyse_pipeline_free(busy.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nan_infinity_and_nonsense_are_missing_and_counted),
		cmocka_unit_test(a_counter_may_be_arbitrarily_large),
		cmocka_unit_test(an_absurd_increase_is_not_learned),
		cmocka_unit_test(a_counter_that_begins_anew_is_no_anomaly),
		cmocka_unit_test(time_that_does_not_advance_is_refused_and_counted),
		cmocka_unit_test(a_clock_that_is_set_back_is_gone_along_with),
		cmocka_unit_test(series_come_and_go_and_are_known_again),
		cmocka_unit_test(errors_during_a_gap_are_not_learned_as_one_step),
		cmocka_unit_test(a_new_series_has_no_past_errors),
		cmocka_unit_test(nothing_allocates_once_it_runs),
		cmocka_unit_test(a_loaded_model_scores_as_the_one_saved),
		cmocka_unit_test(an_empty_fleet_begins_with_the_models_threshold),
		cmocka_unit_test(a_damaged_model_is_refused_and_analysis_goes_on),
		cmocka_unit_test(a_model_of_another_detector_is_refused),
		cmocka_unit_test(merged_models_know_both_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
