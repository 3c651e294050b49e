// SPDX-License-Identifier: Apache-2.0
/*
 * test_open.c - an anomaly is judged against the level before it until it is over, whatever its
 * length, with short and with long steps (docs/analytics.md, The open anomaly).
 */
#include <math.h>
#include <stdlib.h>

#include "support/test.h"
#include "analyse/fleet.h"
#include "noise.h"

#define COLUMNS 7u
#define PODS	3u
#define SECOND	1000000000ull
#define MINUTE	(60 * SECOND)
#define DAY	1440u /* minutes */

static const struct analyse_column column[COLUMNS] = {
	{"requests_per_second", false}, {"cpu_cores", false},	{"latency_p50", false},
	{"latency_p90", false},		{"latency_p99", false}, {"memory_bytes", false},
	{"queue_depth", false},
};

struct service {
	struct analyse_fleet *fleet;
	struct analyse_pipeline *pod[PODS];
	uint64_t seed, t, every, rows;
	double factor[COLUMNS]; /* of the first pod */
	double queue, growth;	/* of the first pod: requests that wait, and their growth per row */
	bool daily;
	struct analyse_verdict v[PODS];
};

static struct service make(uint64_t every, uint64_t step, uint64_t hold)
{
	struct service s = {.seed = 7, .t = 1000 * MINUTE, .every = every};

	for (uint32_t c = 0; c < COLUMNS; c++)
		s.factor[c] = 1;
	s.fleet = analyse_fleet_create((double)step / 3600e9, 1);
	assert_non_null(s.fleet);
	for (uint32_t i = 0; i < PODS; i++) {
		s.pod[i] = analyse_pipeline_create(&(struct analyse_pipeline_opts){
			.columns = 16, .step_ns = step, .hold_ns = hold, .seed = 1 + i});
		assert_non_null(s.pod[i]);
		assert_int_equal(analyse_pipeline_columns(s.pod[i], column, COLUMNS), 0);
		assert_int_equal(analyse_fleet_join(s.fleet, s.pod[i], NULL), 0);
		analyse_pipeline_learning(s.pod[i], ANALYSE_LEARN_ALL);
	}
	return s;
}

static void end(struct service *s)
{
	for (uint32_t i = 0; i < PODS; i++)
		analyse_pipeline_free(s->pod[i]);
	analyse_fleet_free(s->fleet);
}

static double jitter(struct service *s, double by)
{
	return exp(by * noise_normal(&s->seed));
}

static double events(struct service *s, double mean)
{
	double n = -1;

	for (double p = 1; p > exp(-mean); n++)
		p *= noise_uniform(&s->seed);
	return n;
}

/* Passes a row of each pod; returns true if the first pod's row is anomalous. */
static bool row(struct service *s)
{
	double load = 100;

	if (s->daily)
		load *= 1.2 + sin(2 * M_PI * (double)(s->rows % DAY) / DAY - 1.5);
	for (uint32_t i = 0; i < PODS; i++) {
		double requests = load * jitter(s, 0.02), p90 = 0.03 * (1 + load / 400);
		double v[COLUMNS] = {
			requests,
			requests * 4e-3 * jitter(s, 0.05) + 0.02,
			0.01 * (1 + load / 500) * jitter(s, 0.05),
			p90 * jitter(s, 0.1),
			p90 * 2.5 * jitter(s, 0.2),
			3e8 + 1e5 * load + 2e6 * noise_normal(&s->seed),
			events(s, 2),
		};

		for (uint32_t c = 0; c < COLUMNS && !i; c++)
			v[c] *= s->factor[c];
		s->queue += i ? 0 : s->growth;
		v[6] += i ? 0 : s->queue;
		assert_int_equal(analyse_pipeline_score(s->pod[i], s->t, v, &s->v[i]), 0);
	}
	assert_int_equal(analyse_fleet_judge(s->fleet, s->pod, s->v, PODS), 0);
	s->t += s->every;
	s->rows++;
	return s->v[0].anomalous;
}

struct found {
	unsigned int rows, anomalies; /* anomalies: rows apart by less than half a second are one */
	uint64_t last;		      /* number of rows up to the last anomalous one */
};

static struct found run(struct service *s, uint64_t rows)
{
	uint64_t quiet = 3 + SECOND / 2 / s->every, calm = quiet;
	struct found f = {0};

	for (uint64_t i = 1; i <= rows; i++) {
		bool anomalous = row(s);

		f.rows += anomalous;
		f.anomalies += anomalous && calm >= quiet;
		f.last = anomalous ? i : f.last;
		calm = anomalous ? 0 : calm + 1;
	}
	return f;
}

static void learn(struct service *s, uint64_t rows)
{
	run(s, rows);
	for (uint32_t i = 0; i < PODS; i++)
		analyse_pipeline_learning(s->pod[i], ANALYSE_LEARN_GATED);
}

static void slow(struct service *s, double factor)
{
	for (uint32_t c = 2; c <= 4; c++)
		s->factor[c] = factor;
}

/* Rows of 100 ms: 200 s of a fault are one anomaly, and its end is none. */
static void an_outage_is_one_anomaly_from_beginning_to_end(void **state)
{
	struct service s = make(SECOND / 10, SECOND, 0);
	struct found f;

	(void)state;
	learn(&s, 3000);
	assert_int_equal(run(&s, 300).rows, 0);
	slow(&s, 20);
	f = run(&s, 2000);
	print_message("%u of 2000 rows, %u anomalies\n", f.rows, f.anomalies);
	assert_true(f.rows >= 1980 && f.anomalies == 1);
	slow(&s, 1);
	f = run(&s, 1200);
	print_message("after it: %u rows, the last is row %u\n", f.rows, (unsigned int)f.last);
	assert_true(f.last <= 20);
	/* The pod is judged as before. */
	slow(&s, 20);
	assert_true(run(&s, 20).rows >= 10);
	end(&s);
}

/* A metric falls towards its usual level, but is not there yet. */
static void half_a_recovery_is_no_end(void **state)
{
	struct service s = make(SECOND / 10, SECOND, 0);
	struct found f;

	(void)state;
	learn(&s, 3000);
	slow(&s, 20);
	run(&s, 600);
	slow(&s, 10);
	f = run(&s, 600);
	assert_true(f.rows >= 590);
	end(&s);
}

/* Rows a minute apart, over a daily pattern: a fault that lasts six hours. */
static void a_fault_lasts_for_hours(void **state)
{
	static const struct {
		const char *what;
		uint32_t first, last;
		double factor, least;
	} faults[] = {
		{"latency x3", 2, 4, 3, 0.9},
		{"requests to a tenth", 0, 1, 0.1, 0.9},
		{"memory x2", 5, 5, 2, 0.9},
	};

	(void)state;
	for (size_t k = 0; k < sizeof(faults) / sizeof(*faults); k++) {
		struct service s = make(MINUTE, MINUTE, 0);
		unsigned int other;
		struct found f, after;

		s.daily = true;
		learn(&s, 2 * DAY);
		other = run(&s, 560).rows;
		for (uint32_t c = faults[k].first; c <= faults[k].last; c++)
			s.factor[c] = faults[k].factor;
		f = run(&s, 350);
		for (uint32_t c = 0; c < COLUMNS; c++)
			s.factor[c] = 1;
		after = run(&s, 600);
		other += after.rows;
		print_message("%s: %u of 350 rows; %u of 1160 without a fault\n", faults[k].what,
			      f.rows, other);
		assert_true(f.rows >= faults[k].least * 350);
		assert_true(other <= 1160 / 60);
		end(&s);
	}
}

/* Load that comes three hours earlier than usual, with the CPU for it, follows the day. */
static void load_that_rises_over_minutes_does_not_last(void **state)
{
	struct service s = make(MINUTE, MINUTE, 0);
	struct found f;

	(void)state;
	s.daily = true;
	learn(&s, 2 * DAY);
	s.factor[0] = s.factor[1] = 2.2;
	f = run(&s, 180);
	print_message("%u of 180 rows\n", f.rows);
	assert_true(f.rows <= 10);
	/* but too much CPU for it does */
	s.factor[1] = 12;
	f = run(&s, 120);
	assert_true(f.rows >= 100);
	end(&s);
}

/* A new level becomes normal when the anomaly has lasted for hold_ns. */
static void a_new_level_becomes_normal_in_the_end(void **state)
{
	struct service s = make(SECOND / 10, SECOND, 600 * SECOND);
	struct found f;

	(void)state;
	learn(&s, 3000);
	slow(&s, 20);
	f = run(&s, 7000);
	print_message("%u rows, the last is row %u\n", f.rows, (unsigned int)f.last);
	assert_true(f.rows >= 5900 && f.last <= 6050);
	end(&s);
}

/*
 * A user accepts the level as normal: the anomaly ends, and later values are compared with this
 * level.
 */
static void what_a_person_accepts_is_normal(void **state)
{
	struct service s = make(SECOND / 10, SECOND, 0);
	struct found f;

	(void)state;
	learn(&s, 3000);
	slow(&s, 20);
	assert_true(run(&s, 300).rows >= 290);
	analyse_pipeline_accept(s.pod[0]);
	f = run(&s, 700);
	assert_int_equal(f.rows, 0);
	slow(&s, 400);
	assert_true(run(&s, 30).rows >= 20);
	end(&s);
}

/* A single outlier holds nothing: the next level is learned as before. */
static void an_outlier_holds_nothing(void **state)
{
	struct service s = make(SECOND / 10, SECOND, 0);
	struct analyse_pipeline_stats before, after;

	(void)state;
	learn(&s, 3000);
	slow(&s, 20);
	run(&s, 5);
	slow(&s, 1);
	run(&s, 50);
	analyse_pipeline_stats(s.pod[0], &before);
	run(&s, 600);
	analyse_pipeline_stats(s.pod[0], &after);
	assert_true(after.learned - before.learned >= 58);
	end(&s);
}

/* A queue that grows by less than it usually varies from one second to the next. */
static void a_queue_that_only_grows_is_found(void **state)
{
	struct service s = make(SECOND / 10, SECOND, 0);
	uint64_t after = 0;
	bool grows = false;

	(void)state;
	learn(&s, 3000);
	assert_int_equal(run(&s, 300).rows, 0);
	s.growth = 0.05;
	while (after < 600 && !row(&s))
		after++;
	print_message("%.1f s, when %.3g more wait\n", (double)after / 10, s.queue);
	assert_true(after < 600);
	for (uint32_t i = 0; i < s.v[0].blamed; i++)
		grows |= s.v[0].blame[i].column == 6 && s.v[0].blame[i].grows;
	assert_true(grows);
	assert_true(run(&s, 600).rows >= 590);
	/* The queue is long, but no longer grows. */
	s.growth = 0;
	run(&s, 200);
	for (uint32_t i = 0; i < s.v[0].blamed; i++)
		assert_false(s.v[0].blame[i].grows);
	end(&s);
}

/* Rows of a minute: what only repeats the first row of an anomaly counts once it lasts. */
static void rows_that_repeat_an_anomaly_count_less(void **state)
{
	struct service s = make(MINUTE, MINUTE, 0);
	unsigned int early = 0, late = 0;
	float first;

	(void)state;
	learn(&s, DAY);
	slow(&s, 3);
	assert_true(row(&s));
	first = s.v[0].score;
	for (unsigned int i = 1; i < 30; i++) {
		assert_true(row(&s));
		early += i <= 4 && s.v[0].score > first / 2;
		late += i >= 15 && s.v[0].score > first / 2;
	}
	/* A row that is stronger than all before it counts in full. */
	if (!(first > 2) || early > 2 || late < 12)
		fail_msg("first %g, half of it in %u of 4 and %u of 15 rows", (double)first, early,
			 late);
	end(&s);
}

/* Returns the evidence of a row in which memory changes by this factor. */
static float evidence_of(uint64_t step, double factor)
{
	struct service s = make(step, step, 0);
	float raw;

	learn(&s, 600);
	s.factor[5] = factor;
	row(&s);
	raw = s.v[0].raw;
	end(&s);
	return raw;
}

static void long_steps_make_small_changes_weak_evidence(void **state)
{
	(void)state;
	assert_true(evidence_of(SECOND, 1.04) > 1);
	assert_true(evidence_of(MINUTE, 1.04) < 0.5f * evidence_of(SECOND, 1.04));
	assert_true(evidence_of(MINUTE, 1.2) > 0.8f * evidence_of(SECOND, 1.2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_outage_is_one_anomaly_from_beginning_to_end),
		cmocka_unit_test(half_a_recovery_is_no_end),
		cmocka_unit_test(a_fault_lasts_for_hours),
		cmocka_unit_test(load_that_rises_over_minutes_does_not_last),
		cmocka_unit_test(a_new_level_becomes_normal_in_the_end),
		cmocka_unit_test(what_a_person_accepts_is_normal),
		cmocka_unit_test(an_outlier_holds_nothing),
		cmocka_unit_test(rows_that_repeat_an_anomaly_count_less),
		cmocka_unit_test(long_steps_make_small_changes_weak_evidence),
		cmocka_unit_test(a_queue_that_only_grows_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
