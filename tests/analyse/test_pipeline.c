// SPDX-License-Identifier: Apache-2.0
/*
 * test_pipeline.c - from rows of a pod to verdicts: columns that appear and vanish, missing
 * values, models.
 */
#include <string.h>

#include "support/test.h"
#include "analyse/fleet.h"
#include "analyse/pipeline_internal.h"
#include "pod.h"

/* Twenty rows in two bad seconds give two unusual scores, which are not drift. */
static void rows_of_one_step_are_one_sign_of_drift(void **state)
{
	struct pod d = trained(NULL, 600);
	struct analyse_verdict v;
	bool drift = false;

	(void)state;
	for (int i = 0; i < 20; i++)
		push(&d);
	for (int step = 0; step < 30; step++) {
		move_on(&d);
		for (int i = 0; i < 10; i++) {
			d.values[4] = 0.5 + 0.01 * i;
			assert_int_equal(analyse_pipeline_push(d.p, d.t + (uint64_t)i * (STEP / 10),
							       d.values, &v),
					 0);
			drift |= v.drift;
		}
		if (step == 2)
			assert_false(drift);
	}
	assert_true(drift);
	analyse_pipeline_free(d.p);
}

static void a_fault_is_flagged_and_its_metric_blamed(void **state)
{
	struct pod d = trained(NULL, 600);
	struct analyse_verdict v;

	(void)state;
	for (int i = 0; i < 20; i++)
		push(&d);
	move_on(&d);
	d.values[0] = 400;
	d.values[4] = 0.5;
	assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
	assert_true(v.known && v.anomalous && v.score > 1);
	assert_true(v.blamed >= 2);
	assert_true(v.blame[0].column == 0 || v.blame[0].column == 4);
	assert_true(v.blame[1].column == 0 || v.blame[1].column == 4);
	assert_true(v.blame[0].share >= v.blame[1].share && v.blame[0].share <= 1);
	analyse_pipeline_free(d.p);
}

/* One in a hundred steps; the 15 % error of 1500 scores, and that learning goes on, allow for 2. */
static void false_alarms_stay_about_the_budget(void **state)
{
	(void)state;
	for (unsigned int k = 0; analyse_detectors[k]; k++) {
		unsigned int alarms = 0;
		struct pod d;

		false_alarms = 36;
		d = trained(analyse_detectors[k], 1500);
		false_alarms = 3.6;
		for (int i = 0; i < 10000; i++)
			alarms += push(&d).anomalous;
		if (alarms > 200 || alarms < 25)
			fail_msg("%s: %u of 10000", analyse_detectors[k]->name, alarms);
		analyse_pipeline_free(d.p);
	}
}

/*
 * At a budget of one per hour, too: a value outside of everything seen so far gets a score above
 * every threshold. This is the case for a metric that hardly ever moved, as no normal row takes
 * that direction.
 */
static void fd_can_alarm_at_a_small_budget(void **state)
{
	struct analyse_verdict v;
	struct pod d;

	(void)state;
	false_alarms = 1;
	d = trained(&analyse_detector_fd, 100);
	false_alarms = 3.6;
	analyse_pipeline_learning(d.p, ANALYSE_LEARN_ALL);
	move_on(&d);
	d.values[7] = 1;
	assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
	for (int i = 0; i < 500; i++)
		push(&d);
	analyse_pipeline_learning(d.p, ANALYSE_LEARN_GATED);
	for (int i = 0; i < 20; i++)
		push(&d);
	move_on(&d);
	d.values[7] = 1000;
	assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
	if (!v.anomalous)
		fail_msg("score %g, raw %g of %g", (double)v.score, (double)v.raw,
			 (double)v.threshold);
	analyse_pipeline_free(d.p);
}

/* An hour after a short warm-up, at one per hour: the mean of ten pods. */
static void a_short_warm_up_costs_no_false_alarms(void **state)
{
	static const int lengths[] = {80, 150, 300};

	(void)state;
	for (unsigned int k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
		unsigned int alarms = 0;

		for (uint64_t seed = 0; seed < 10; seed++) {
			struct pod d = {.t = STEP, .seed = 1000 * seed};

			false_alarms = 1;
			d.p = create(NULL);
			false_alarms = 3.6;
			analyse_pipeline_learning(d.p, ANALYSE_LEARN_ALL);
			for (int i = 0; i < lengths[k]; i++)
				push(&d);
			analyse_pipeline_learning(d.p, ANALYSE_LEARN_GATED);
			for (int i = 0; i < 3600; i++)
				alarms += push(&d).anomalous;
			analyse_pipeline_free(d.p);
		}
		if (alarms > 15)
			fail_msg("%d steps: %.1f an hour", lengths[k], alarms / 10.0);
	}
}

static void a_fault_is_one_for_as_long_as_it_lasts(void **state)
{
	struct pod d = trained(NULL, 600);
	struct analyse_verdict v = {0};

	(void)state;
	for (int i = 0; i < 50; i++)
		push(&d);
	for (int i = 0; i < 100; i++) {
		move_on(&d);
		d.values[1] = 6e8;
		assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
		assert_true(v.anomalous);
	}
	for (int i = 0; i < 8; i++)
		assert_false(push(&d).anomalous);
	analyse_pipeline_free(d.p);
}

static void a_lasting_change_becomes_normal_without_realarm(void **state)
{
	struct analyse_verdict v = {0};
	struct pod d;
	int last = 0;

	(void)state;
	hold_ns = 10 * STEP;
	d = trained(NULL, 600);
	hold_ns = 0;
	for (int i = 0; i < 50; i++)
		push(&d);
	for (int i = 0; i < 18; i++) {
		move_on(&d);
		d.values[1] = 6e8;
		assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
		if (v.anomalous)
			last = i;
	}
	assert_int_equal(last, 9);
	for (int i = 0; i < 8; i++)
		assert_false(push(&d).anomalous);
	analyse_pipeline_free(d.p);
}

/*
 * Metrics that always wander are not kept at their old level while another metric is faulty: they
 * would prolong the anomaly by themselves.
 */
static void what_wanders_does_not_prolong_a_fault(void **state)
{
	static const unsigned int wander[] = {6, 7, 10, 11};
	struct pod d = {.p = create(NULL), .t = STEP, .seed = 1};
	struct analyse_verdict v = {0};
	unsigned int late = 0;

	(void)state;
	analyse_pipeline_learning(d.p, ANALYSE_LEARN_ALL);
	for (int i = 0; i < 860; i++) {
		bool fault = i >= 700 && i < 800;

		if (i == 600)
			analyse_pipeline_learning(d.p, ANALYSE_LEARN_GATED);
		move_on(&d);
		for (unsigned int k = 0; k < sizeof(wander) / sizeof(*wander); k++)
			d.values[wander[k]] = 500 + 500 * sin((0.02 + 0.003 * k) * i);
		if (fault)
			d.values[1] = 6e8;
		assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
		if (i >= 700 && i < 790)
			assert_true(v.anomalous);
		late += i >= 805 && v.anomalous;
	}
	assert_true(late <= 2);
	analyse_pipeline_free(d.p);
}

/* If anomalies follow each other, a short rest between them does not restart the hold. */
static void anomalies_that_come_again_become_normal_too(void **state)
{
	unsigned int alarms = 0;
	struct analyse_verdict v = {0};
	struct pod d;

	(void)state;
	hold_ns = 30 * STEP;
	d = trained(NULL, 600);
	hold_ns = 0;
	for (int i = 0; i < 300; i++) {
		move_on(&d);
		if (i % 20 < 19)
			d.values[1] = 6e8;
		assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
		alarms += i >= 100 && v.anomalous;
	}
	assert_true(alarms < 60);
	analyse_pipeline_free(d.p);
}

/* The score follows from the number of steps without a change, whatever the size of the change. */
static void a_constant_that_changes_counts_once_and_boundedly(void **state)
{
	struct pod d = trained(NULL, 300);
	struct analyse_verdict small, large;

	(void)state;
	push(&d);
	move_on(&d);
	d.values[6] = 43;
	assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &small), 0);
	for (int i = 0; i < 100; i++)
		push(&d);
	analyse_pipeline_free(d.p);
	d = trained(NULL, 300);
	push(&d);
	move_on(&d);
	d.values[6] = 1e12;
	assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &large), 0);
	assert_true(small.raw > 1 && small.raw < 3 && large.raw == small.raw);
	analyse_pipeline_free(d.p);
}

/*
 * Three metrics of load share a vote, so that each contributes less than one that moves alone; the
 * one that moved most is blamed first all the same.
 */
static void what_moved_most_is_blamed_first(void **state)
{
	struct pod d = trained(NULL, 600);
	struct analyse_verdict v;

	(void)state;
	push(&d);
	move_on(&d);
	d.values[2] += 1000;
	d.values[8] += 1000 * 1000;
	d.values[9] += 3000 * 1000;
	d.values[10] = 30;
	assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
	assert_int_equal(v.blamed > 0 ? v.blame[0].column : N, 8);
	analyse_pipeline_free(d.p);
}

/* A slow application also lengthens the times of other layers of its requests. */
static void the_layer_that_adds_most_seconds_is_blamed(void **state)
{
#define LAYER(layer) \
	"sidelight_tcp_layer_seconds_p95{layer=\"" layer "\",port=\"80\",role=\"server\"}"
	static const struct analyse_column layers[] = {
		{LAYER("mac_out"), false},
		{LAYER("tcp_in"), false},
		{LAYER("app"), false},
		{"sidelight_tcp_request_seconds_p95{port=\"80\",role=\"server\"}", false},
	};
	double usual[] = {4e-6, 2e-5, 5e-3, 5.05e-3}, slow[] = {9e-6, 4e-4, 0.122, 0.1225};
	struct analyse_pipeline_opts o = {.columns = 16, .false_alarms = false_alarms, .seed = 1};
	struct analyse_pipeline *p = analyse_pipeline_create(&o);
	struct analyse_verdict v = {0};
	uint64_t t = STEP, seed = 1;
	double row[4];

	(void)state;
	assert_non_null(p);
	assert_int_equal(analyse_pipeline_columns(p, layers, 4), 0);
	analyse_pipeline_learning(p, ANALYSE_LEARN_ALL);
	for (int i = 0; i < 2003; i++, t += STEP) {
		for (int c = 0; c < 4; c++)
			row[c] = (i < 2000 ? usual : slow)[c] * exp(0.05 * noise_normal(&seed));
		assert_int_equal(analyse_pipeline_push(p, t, row, &v), 0);
	}
	assert_true(v.anomalous && v.blamed);
	assert_int_equal(v.blame[0].column, 2);
	assert_true(v.blame[0].share > 0.9);
	analyse_pipeline_free(p);
}

/* The quantiles of a layer rise in the rows before a rate raises the alarm. */
static void a_slow_layer_is_blamed_after_its_level_was_learned(void **state)
{
	static const struct analyse_column columns_of_port[] = {
		{"sidelight_tcp_layer_seconds_p95{layer=\"tcp_in\",port=\"80\",role=\"server\"}",
		 false},
		{"sidelight_tcp_layer_seconds_p95{layer=\"app\",port=\"80\",role=\"server\"}",
		 false},
		{"sidelight_tcp_limited_seconds_total{limit=\"application\",port=\"80\"}", true},
	};
	struct analyse_pipeline_opts o = {.columns = 16, .false_alarms = false_alarms, .seed = 1};
	struct analyse_pipeline *p = analyse_pipeline_create(&o);
	struct analyse_verdict v = {0};
	uint64_t t = STEP, seed = 1;
	double row[3] = {0};

	(void)state;
	assert_non_null(p);
	assert_int_equal(analyse_pipeline_columns(p, columns_of_port, 3), 0);
	analyse_pipeline_learning(p, ANALYSE_LEARN_ALL);
	for (int i = 0; i < 2010; i++, t += STEP) {
		double slow = i < 2000 ? 1 : fmin(pow(1.5, i - 1999), 6);

		row[0] = 2e-5 * exp(0.05 * noise_normal(&seed));
		row[1] = 5e-3 * slow * exp(0.5 * noise_normal(&seed));
		row[2] += (i < 2009 ? 0.1 : 4) * exp(0.05 * noise_normal(&seed));
		assert_int_equal(analyse_pipeline_push(p, t, row, &v), 0);
	}
	assert_true(v.anomalous && v.blamed);
	assert_int_equal(v.blame[0].column == 1 ? 1 : v.blame[1].column, 1);
	assert_true(v.blame[0].share + v.blame[1].share > 0.9);
	analyse_pipeline_free(p);
}

/* A layer of microseconds that takes twice as long slows no request: it takes no blame. */
static void other_faults_blame_no_layer_of_microseconds(void **state)
{
	static const struct analyse_column columns_of_port[] = {
		{"sidelight_tcp_layer_seconds_p99{layer=\"mac_in\",port=\"80\",role=\"server\"}",
		 false},
		{"sidelight_tcp_layer_seconds_p99{layer=\"app\",port=\"80\",role=\"server\"}",
		 false},
		{"sidelight_tcp_request_seconds_p99{port=\"80\",role=\"server\"}", false},
		{"sidelight_tcp_retransmits_total{port=\"80\"}", true},
	};
	struct analyse_pipeline_opts o = {.columns = 16, .false_alarms = false_alarms, .seed = 1};
	struct analyse_pipeline *p = analyse_pipeline_create(&o);
	struct analyse_verdict v = {0};
	uint64_t t = STEP, seed = 1;
	double row[4] = {0};

	(void)state;
	assert_non_null(p);
	assert_int_equal(analyse_pipeline_columns(p, columns_of_port, 4), 0);
	analyse_pipeline_learning(p, ANALYSE_LEARN_ALL);
	for (int i = 0; i < 2010; i++, t += STEP) {
		row[0] = (i < 2009 ? 4e-6 : 9e-6) * exp(0.3 * noise_normal(&seed));
		row[1] = 5e-3 * exp(0.2 * noise_normal(&seed));
		row[2] = row[1] + 1e-4;
		row[3] += (i < 2009 ? 1 : 500) * exp(0.05 * noise_normal(&seed));
		assert_int_equal(analyse_pipeline_push(p, t, row, &v), 0);
	}
	assert_true(v.anomalous && v.blamed);
	assert_int_equal(v.blame[0].column, 3);
	for (uint32_t i = 1; i < v.blamed; i++)
		assert_true(v.blame[i].column != 0 || v.blame[i].share < 0.1);
	analyse_pipeline_free(p);
}

/* The same fault ten times, some seconds apart: each is an anomaly. */
static void ten_like_faults_are_all_found(void **state)
{
	static const int rhythms[][2] = {{8, 3}, {16, 4}, {40, 15}, {60, 20}};

	(void)state;
	for (unsigned int k = 0; k < sizeof(rhythms) / sizeof(*rhythms); k++) {
		struct pod d = trained(NULL, 300);
		int found = 0;

		for (int i = 0; i < 100; i++)
			push(&d);
		for (int fault = 0; fault < 10; fault++) {
			bool seen = false;

			for (int i = 0; i < rhythms[k][0]; i++) {
				struct analyse_verdict v;

				move_on(&d);
				if (i < rhythms[k][1]) {
					d.values[0] *= 4;
					d.values[4] *= 4;
					d.values[11] += 4;
				}
				assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
				seen |= v.anomalous && i < rhythms[k][1];
			}
			found += seen;
		}
		if (found < 9)
			fail_msg("one in %d steps: %d of 10", rhythms[k][0], found);
		analyse_pipeline_free(d.p);
	}
}

/* Requests that stop are found within three seconds; their rate of 100 can only fall to 0. */
static void work_that_stops_is_found(void **state)
{
	struct pod d = trained(NULL, 300);
	struct analyse_verdict v = {0};
	double stopped[N];
	bool found = false;

	(void)state;
	for (int i = 0; i < 100; i++)
		push(&d);
	memcpy(stopped, d.values, sizeof(stopped));
	for (int i = 0; i < 3 && !found; i++) {
		d.t += STEP;
		assert_int_equal(analyse_pipeline_push(d.p, d.t, stopped, &v), 0);
		found = v.anomalous;
	}
	assert_true(found && v.blamed && v.blame[0].column == 2);
	assert_true(v.blame[0].now == 0 && v.blame[0].before > 50);
	analyse_pipeline_free(d.p);
}

static const struct analyse_column job_columns[] = {{"queue_jobs_done_total", true},
						    {"queue_jobs_failed_total", true}};

/* A worker whose rows are a tenth of a second apart, as in a collector. */
struct worker {
	struct analyse_pipeline *p;
	uint64_t t, seed;
	double done[2];
	float most; /* largest score for errors */
};

/* Pushes the rows of a second. Returns whether one of them is anomalous. */
static bool push_second(struct worker *w, double jobs, double failures)
{
	bool found = false;

	for (int i = 0; i < 10; i++) {
		struct analyse_verdict v;

		w->t += STEP / 10;
		w->done[0] += floor(jobs * (i + 1) / 10) - floor(jobs * i / 10);
		w->done[1] += floor(failures * (i + 1) / 10) - floor(failures * i / 10);
		assert_int_equal(analyse_pipeline_push(w->p, w->t, w->done, &v), 0);
		found |= v.anomalous;
		w->most = fmaxf(w->most, v.errors);
	}
	return found;
}

/*
 * Beside a process that uses a core, jobs come in bursts, and so do those that fail. The worker is
 * known for a minute and a half, so the threshold of such bursts is still high.
 */
static struct worker busy_worker(uint64_t seed)
{
	struct worker w = {.t = STEP, .seed = seed};

	w.p = analyse_pipeline_create(&(struct analyse_pipeline_opts){
		.columns = 2, .rate_ns = STEP, .false_alarms = 1, .seed = 1});
	assert_non_null(w.p);
	assert_int_equal(analyse_pipeline_columns(w.p, job_columns, 2), 0);
	analyse_pipeline_learning(w.p, ANALYSE_LEARN_WARM);
	for (int i = 0; i < 90; i++) {
		double burst = exp(0.3 * noise_normal(&w.seed));

		if (i == 60)
			analyse_pipeline_learning(w.p, ANALYSE_LEARN_GATED);
		push_second(&w, 70 * burst,
			    floor(2 * burst * burst * -log(noise_uniform(&w.seed))));
	}
	return w;
}

static void a_worker_beside_a_busy_core_is_found_when_it_stops(void **state)
{
	unsigned int found = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct worker w = busy_worker(seed);
		bool seen = false;

		w.most = 0;
		for (int i = 0; i < 3; i++)
			seen |= push_second(&w, 0, 0);
		print_message("%.2f threshold %.1f\n", w.most,
			      analyse_pipeline_kind_threshold(w.p, ANALYSE_KIND_ERRORS));
		found += seen;
		analyse_pipeline_free(w.p);
	}
	if (found < 20)
		fail_msg("%u of 20", found);
}

/* Where other processes often keep the worker from running, its pauses are no anomaly. */
static void pauses_beside_a_busy_core_stay_within_the_budget(void **state)
{
	const int hours = 3;
	unsigned int alarms = 0, pause = 0, quiet = 10;

	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct worker w = busy_worker(seed);

		for (int i = 0; i < hours * 3600; i++) {
			double burst = exp(0.3 * noise_normal(&w.seed));
			double failures = floor(2 * burst * burst * -log(noise_uniform(&w.seed)));
			bool found;

			if (!pause && noise_uniform(&w.seed) < 0.01)
				pause = 1 + (noise_uniform(&w.seed) < 0.3);
			found = push_second(&w, pause ? 0 : 70 * burst, pause ? 0 : failures);
			pause -= pause > 0;
			alarms += found && quiet >= 3;
			quiet = found ? 0 : quiet + 1;
		}
		analyse_pipeline_free(w.p);
	}
	print_message("%u alarms in %d hours of 4 pods\n", alarms, hours);
	if (alarms > 4 * (unsigned int)hours)
		fail_msg("%u alarms", alarms);
}

/* Pushes a row of a pod whose caches, threads and queue have reached this part of their size. */
static bool push_warm(struct pod *d, double part, double busier)
{
	struct analyse_verdict v;

	move_on(d);
	d->values[1] *= part;
	d->values[10] *= part;
	d->values[11] += 20 * (1 - part);
	d->values[0] *= busier;
	assert_int_equal(analyse_pipeline_push(d->p, d->t, d->values, &v), 0);
	return v.anomalous;
}

/*
 * The successor of a pod fills its caches again, which is no fault; to use more CPU is one at once.
 */
static void a_successor_may_warm_up(void **state)
{
	struct pod before = trained(NULL, 300), after = {.t = 1000 * STEP, .seed = 2};
	void *model;
	int64_t bytes = analyse_pipeline_save_all(&before.p, 1, &model);
	unsigned int alarms = 0, busy = 0, again = 0;

	(void)state;
	assert_true(bytes > 0);
	after.p = create(NULL);
	assert_int_equal(analyse_pipeline_load(after.p, model, (size_t)bytes), 0);
	free(model);
	assert_int_equal(analyse_pipeline_columns(after.p, columns, N), 0);
	for (int i = 0; i < 40; i++)
		alarms += push_warm(&after, 0.1 + 0.9 * i / 39, 1);
	assert_int_equal(alarms, 0);
	for (int i = 0; i < 5; i++)
		busy += push_warm(&after, 1, 20);
	assert_true(busy >= 4);
	for (int i = 0; i < 120; i++)
		push_warm(&after, 1, 1);
	for (int i = 0; i < 10; i++)
		again += push_warm(&after, 0.1, 1);
	assert_true(again > 0);
	analyse_pipeline_free(before.p);
	analyse_pipeline_free(after.p);
}

/* Work that comes in bursts, with silence in between as a habit, does not stop. */
static void work_with_pauses_does_not_stop(void **state)
{
	struct pod d = {.p = create(NULL), .t = STEP, .seed = 1};
	unsigned int alarms = 0;
	double requests = 0;

	(void)state;
	analyse_pipeline_learning(d.p, ANALYSE_LEARN_ALL);
	for (int i = 0; i < 1200; i++) {
		struct analyse_verdict v;

		if (i == 600)
			analyse_pipeline_learning(d.p, ANALYSE_LEARN_GATED);
		move_on(&d);
		requests += i / 20 % 2 ? 50 + floor(10 * noise_uniform(&d.seed)) : 0;
		d.values[2] = requests;
		assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
		alarms += i >= 600 && v.anomalous && v.kind == ANALYSE_KIND_ERRORS;
	}
	assert_int_equal(alarms, 0);
	analyse_pipeline_free(d.p);
}

/*
 * A job that runs now and then is an anomaly at first, and so are its next sixteen runs. If only
 * normal steps were counted, it would stay one.
 */
static void what_comes_again_and_again_becomes_usual(void **state)
{
	struct pod d = trained(NULL, 300);
	int found = 0, late = 0;

	(void)state;
	for (int i = 1; i <= 80; i++) {
		struct analyse_verdict v;

		for (int k = 0; k < 30; k++)
			push(&d);
		move_on(&d);
		d.values[0] = 500;
		assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
		found += v.anomalous && i <= 10;
		late += v.anomalous && i > 60;
	}
	assert_true(found >= 9);
	assert_true(late <= 2);
	analyse_pipeline_free(d.p);
}

/*
 * Steps of one minute have no runs. The first row of the fault stays below the threshold; its
 * distances must not count as usual in the second row or later, because the step was anomalous.
 */
static void the_first_row_of_a_fault_hides_not_the_next(void **state)
{
	unsigned int tried = 0;

	(void)state;
	for (double factor = 1.1; factor < 4; factor *= 1.05) {
		struct analyse_pipeline_opts o = {
			.columns = 16, .step_ns = 60 * STEP, .false_alarms = 1, .seed = 1};
		struct pod d = {.p = analyse_pipeline_create(&o), .seed = 1};
		struct analyse_verdict v;
		float unit[N];

		assert_non_null(d.p);
		assert_int_equal(analyse_pipeline_columns(d.p, columns, N), 0);
		analyse_pipeline_learning(d.p, ANALYSE_LEARN_ALL);
		for (int i = 0; i < 300; i++) {
			move_on(&d);
			assert_int_equal(analyse_pipeline_push(d.p, 60 * d.t, d.values, &v), 0);
		}
		analyse_pipeline_learning(d.p, ANALYSE_LEARN_GATED);
		move_on(&d);
		d.values[0] *= factor;
		assert_int_equal(analyse_pipeline_push(d.p, 60 * d.t, d.values, &v), 0);
		if (v.score > 0.3f && v.score < 0.9f) {
			tried++;
			for (int c = 0; c < (int)N; c++)
				unit[c] = d.p->normaliser.inv_move[c];
			for (int i = 0; i < 2; i++) {
				move_on(&d);
				d.values[0] *= i ? 1 : 20;
				assert_int_equal(analyse_pipeline_push(d.p, 60 * d.t, d.values, &v),
						 0);
				assert_true(v.anomalous == !i);
			}
			assert_memory_equal(&unit[0], &d.p->normaliser.inv_move[0], sizeof(float));
		}
		analyse_pipeline_free(d.p);
	}
	assert_true(tried > 0);
}

/* One value that is a thousand times too large, among rows learned as normal. */
static void one_outlier_in_training_blinds_no_threshold(void **state)
{
	struct pod d = trained(&analyse_detector_threshold, 300);
	struct analyse_verdict v;

	(void)state;
	analyse_pipeline_learning(d.p, ANALYSE_LEARN_ALL);
	move_on(&d);
	d.values[0] *= 1000;
	assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
	for (int i = 0; i < 300; i++)
		push(&d);
	move_on(&d);
	d.values[0] += 60; /* 20 deviations */
	assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &v), 0);
	assert_true(v.raw > 5 && v.blame[0].column == 0);
	analyse_pipeline_free(d.p);
}

static void a_shadow_scores_and_does_not_act(void **state)
{
	struct analyse_pipeline_opts o = {.columns = 16,
					  .false_alarms = 3.6,
					  .seed = 1,
					  .shadow = &analyse_detector_threshold};
	struct pod d = {.p = create(NULL), .t = STEP, .seed = 1}, s = {.t = STEP, .seed = 1};
	bool seen = false;

	(void)state;
	s.p = analyse_pipeline_create(&o);
	assert_non_null(s.p);
	analyse_pipeline_columns(s.p, columns, N);
	for (int i = 0; i < 1000; i++) {
		struct analyse_verdict a, b;

		move_on(&d);
		move_on(&s);
		if (i > 900 && i % 10 == 0)
			d.values[1] = s.values[1] = 9e8;
		assert_int_equal(analyse_pipeline_push(d.p, d.t, d.values, &a), 0);
		assert_int_equal(analyse_pipeline_push(s.p, s.t, s.values, &b), 0);
		assert_true(a.score == b.score && a.anomalous == b.anomalous);
		seen |= b.shadow_anomalous;
	}
	assert_true(seen);
	analyse_pipeline_free(d.p);
	analyse_pipeline_free(s.p);
}

static void rows_of_one_step_are_learned_once(void **state)
{
	struct pod d = {.p = create(NULL), .t = STEP, .seed = 1};
	struct analyse_pipeline_stats s;
	struct analyse_verdict v;

	(void)state;
	for (int i = 0; i < 100; i++) {
		move_on(&d);
		for (int k = 0; k < 10; k++)
			assert_int_equal(analyse_pipeline_push(d.p, d.t + (uint64_t)k * STEP / 10,
							       d.values, &v),
					 0);
	}
	analyse_pipeline_stats(d.p, &s);
	assert_int_equal(s.rows, 1000);
	assert_int_equal(s.steps, 99);
	analyse_pipeline_free(d.p);
}

/* ---- across pods ---- */

#define PODS 8u

static void what_all_pods_do_is_no_pods_fault(void **state)
{
	struct analyse_fleet *f = analyse_fleet_create(0.001, 1);
	struct analyse_pipeline *pods[PODS];
	struct analyse_verdict v[PODS];
	struct pod d[PODS];

	(void)state;
	for (uint32_t i = 0; i < PODS; i++) {
		d[i] = (struct pod){.p = create(NULL), .t = STEP, .seed = 100 + i};
		pods[i] = d[i].p;
		analyse_fleet_join(f, pods[i], NULL);
		analyse_pipeline_learning(pods[i], ANALYSE_LEARN_ALL);
	}
	for (int step = 0; step < 620; step++) {
		for (uint32_t i = 0; i < PODS; i++) {
			move_on(&d[i]);
			if (step == 600)
				d[i].values[0] = i == 3 ? 150 : 50; /* one busy */
			if (step == 610)
				d[i].values[0] = 1500; /* all busy */
			assert_int_equal(
				analyse_pipeline_score(pods[i], d[i].t, d[i].values, &v[i]), 0);
		}
		assert_int_equal(analyse_fleet_judge(f, pods, v, PODS), 0);
		for (uint32_t i = 0; i < PODS; i++) {
			if (step == 600)
				assert_true(v[i].anomalous == (i == 3));
			if (step == 610)
				assert_true(v[i].common > v[i].raw / 2);
		}
	}
	for (uint32_t i = 0; i < PODS; i++)
		analyse_pipeline_free(pods[i]);
	analyse_fleet_free(f);
}

/*
 * "rates": tests that need tens of thousands of rows and run no code that the others do not. They
 * are separate so that they can be skipped under tools that make a row fifty times slower.
 */
int main(int argc, char **argv)
{
	const struct CMUnitTest rates[] = {
		cmocka_unit_test(false_alarms_stay_about_the_budget),
		cmocka_unit_test(fd_can_alarm_at_a_small_budget),
		cmocka_unit_test(a_short_warm_up_costs_no_false_alarms),
		cmocka_unit_test(pauses_beside_a_busy_core_stay_within_the_budget),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fault_is_flagged_and_its_metric_blamed),
		cmocka_unit_test(a_fault_is_one_for_as_long_as_it_lasts),
		cmocka_unit_test(a_lasting_change_becomes_normal_without_realarm),
		cmocka_unit_test(what_wanders_does_not_prolong_a_fault),
		cmocka_unit_test(anomalies_that_come_again_become_normal_too),
		cmocka_unit_test(a_constant_that_changes_counts_once_and_boundedly),
		cmocka_unit_test(what_moved_most_is_blamed_first),
		cmocka_unit_test(the_layer_that_adds_most_seconds_is_blamed),
		cmocka_unit_test(a_slow_layer_is_blamed_after_its_level_was_learned),
		cmocka_unit_test(other_faults_blame_no_layer_of_microseconds),
		cmocka_unit_test(ten_like_faults_are_all_found),
		cmocka_unit_test(what_comes_again_and_again_becomes_usual),
		cmocka_unit_test(work_that_stops_is_found),
		cmocka_unit_test(a_worker_beside_a_busy_core_is_found_when_it_stops),
		cmocka_unit_test(work_with_pauses_does_not_stop),
		cmocka_unit_test(a_successor_may_warm_up),
		cmocka_unit_test(the_first_row_of_a_fault_hides_not_the_next),
		cmocka_unit_test(one_outlier_in_training_blinds_no_threshold),
		cmocka_unit_test(a_shadow_scores_and_does_not_act),
		cmocka_unit_test(rows_of_one_step_are_learned_once),
		cmocka_unit_test(rows_of_one_step_are_one_sign_of_drift),
		cmocka_unit_test(what_all_pods_do_is_no_pods_fault),
	};

	if (argc > 1 && !strcmp(argv[1], "rates"))
		return cmocka_run_group_tests(rates, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
