// SPDX-License-Identifier: Apache-2.0
/*
 * test_judged.c - the texts about a finding: errors are no evidence if more requests explain them;
 * why the steps of an MPI rank take longer
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "act/explain.h"
#include "collect/judge/judged.h"
#include "support/test.h"

#define STEP_NS 100000000ll
#define MINUTE	600 /* rows */

enum { REQUESTS, ERRORS };
enum { STEP_MEAN, SAMPLED, CPU, FAULTS, TURNS, COLUMNS };

struct shop {
	struct act_verdicts *verdicts;
	struct collect_judged *pod;
	int64_t ns;
	double value[COLUMNS];
};

static void open_pod(struct shop *s, const char *names, size_t bytes, uint32_t columns)
{
	uint8_t entry[sizeof(struct act_pod_name) + 256] = {0};
	const struct collect_rows_entry e = {
		.instance = 7, .columns = columns, .bytes = sizeof(struct act_pod_name) + bytes};

	strcpy(((struct act_pod_name *)entry)->pod, "shop-0");
	((struct act_pod_name *)entry)->process = 12;
	memcpy(entry + sizeof(struct act_pod_name), names, bytes);
	*s = (struct shop){.ns = 1000000000000ll,
			   .verdicts = act_verdicts_new(&(struct act_verdicts_opts){0})};
	s->pod = collect_judged_new(s->verdicts, &e, entry);
	assert_non_null(s->pod);
	assert_true(collect_judged_columns(s->pod, &e, entry));
}

static void open_shop(struct shop *s)
{
	static const char names[] = "1shop_requests_total\0001shop_errors_total";

	open_pod(s, names, sizeof(names), 2);
}

static void close_shop(struct shop *s)
{
	collect_judged_free(s->pod);
	act_verdicts_free(s->verdicts);
}

/* Shows a row with this many new requests and errors. An anomalous row blames both. */
static void show_row(struct shop *s, double requests, double errors, bool anomalous)
{
	struct analyse_verdict v = {
		.score = anomalous ? 3 : 0, .known = true, .anomalous = anomalous};
	struct collect_judge_finding is = {.ns = s->ns += STEP_NS,
					   .value = s->value,
					   .verdict = &v,
					   .anomalous = anomalous,
					   .state = ANALYSE_READY};

	s->value[REQUESTS] += requests;
	s->value[ERRORS] += errors;
	if (anomalous) {
		v.blamed = 2;
		v.blame[0].column = ERRORS;
		v.blame[0].share = .7f;
		v.blame[0].now = (float)errors * 10;
		v.blame[0].before = 10;
		v.blame[1].column = REQUESTS;
		v.blame[1].share = .3f;
		v.blame[1].now = (float)requests * 10;
		v.blame[1].before = 1000;
	}
	collect_judged_show(s->pod, &is, false);
}

/* Returns the share of the errors that the pod's last anomaly names, or -1. */
static double share_of_errors(struct shop *s)
{
	struct act_pod_verdict shown;

	assert_true(act_verdicts_pod(s->verdicts, 7, &shown));
	for (uint32_t i = 0; i < shown.blames; i++)
		if (strstr(shown.blame[i].metric, "errors"))
			return shown.blame[i].share;
	return -1;
}

/* 1,000 requests per second for a minute, of which 10 fail; then this for two seconds. */
static double share_after(double requests, double errors)
{
	struct shop s;
	double share;

	open_shop(&s);
	for (int i = 0; i < MINUTE; i++)
		show_row(&s, 100, 1, false);
	for (int i = 0; i < 20; i++)
		show_row(&s, requests, errors, true);
	share = share_of_errors(&s);
	close_shop(&s);
	return share;
}

static void errors_of_more_requests_have_no_share(void **state)
{
	(void)state;
	assert_true(share_after(300, 3) == 0); /* the same part fails */
	assert_true(share_after(300, 8) ==
		    0); /* 80 instead of 30 per second may be chance in 0.1 s */
	assert_true(share_after(300, 30) > .6); /* ten times the part */
	assert_true(share_after(100, 3) > .6);	/* no more requests than usual */
	assert_true(share_after(20, 3) > .6);	/* fewer */
}

/* Set back by ten minutes: during these, a single quiet row was taken for the usual load. */
static void usual_load_survives_a_clock_that_was_set_back(void **state)
{
	struct shop s;

	(void)state;
	open_shop(&s);
	for (int k = 0; k < 2; k++) {
		s.ns -= k * 600000000000ll;
		for (int i = 0; i < MINUTE; i++)
			show_row(&s, 100, 1, false);
	}
	show_row(&s, 5, 0, false);
	for (int i = 0; i < 20; i++)
		show_row(&s, 100, 3, true);
	assert_true(share_of_errors(&s) > .6);
	close_shop(&s);
}

/* In one row, the line with the number of requests does not settle. */
static void a_missing_number_of_requests_raises_no_load(void **state)
{
	struct shop s;

	(void)state;
	open_shop(&s);
	for (int i = 0; i < MINUTE; i++)
		show_row(&s, 100, 1, false);
	for (int i = 0; i < 20; i++) {
		double requests = s.value[REQUESTS];

		show_row(&s, i == 15 ? (double)NAN : 100, 3, true);
		s.value[REQUESTS] = requests + 100;
	}
	assert_true(share_of_errors(&s) > .6);
	close_shop(&s);
}

/* A worker that finishes no more reports, because another one gets them, has not stopped. */
static void only_all_work_can_stop(void **state)
{
	static const char names[] = "1queue_jobs_done_total{kind=\"mail\"}\0001"
				    "queue_jobs_done_total{kind=\"report\"}";
	enum { MAIL, REPORT };
	struct analyse_verdict v = {.known = true};
	struct act_pod_verdict shown;
	struct shop s;

	(void)state;
	open_pod(&s, names, sizeof(names), 2);
	for (int i = 0; i < MINUTE + 40; i++) {
		const bool anomalous = i >= MINUTE;
		struct collect_judge_finding is = {.ns = s.ns += STEP_NS,
						   .value = s.value,
						   .verdict = &v,
						   .anomalous = anomalous,
						   .state = ANALYSE_READY};

		s.value[MAIL] += i < MINUTE + 20 ? 2 : 0;
		s.value[REPORT] += anomalous ? 0 : 1;
		v.score = anomalous ? 3 : 0;
		v.anomalous = anomalous;
		v.blamed = anomalous;
		v.blame[0].column = REPORT;
		v.blame[0].share = 1;
		v.blame[0].before = 10;
		collect_judged_show(s.pod, &is, false);
		if (i != MINUTE + 19 && i != MINUTE + 39)
			continue;
		assert_true(act_verdicts_pod(s.verdicts, 7, &shown));
		assert_int_equal(shown.blame[0].measure,
				 i == MINUTE + 19 ? ACT_MEASURE_LOAD : ACT_MEASURE_STOPPED);
	}
	close_shop(&s);
}

/* A step of a rank: its length, and the parts of it. */
struct step {
	double mean, cpu, faults, turns;
};

static void ignore_change(const struct act_anomaly *a, void *arg)
{
	(void)a, (void)arg;
}

static void show_steps(struct shop *s, struct step step, bool anomalous)
{
	struct analyse_verdict v = {
		.score = anomalous ? 3 : 0, .known = true, .anomalous = anomalous};
	struct collect_judge_finding is = {.ns = s->ns += STEP_NS,
					   .value = s->value,
					   .verdict = &v,
					   .anomalous = anomalous,
					   .state = ANALYSE_READY};
	const double steps = STEP_NS * 1e-9 / step.mean;

	s->value[STEP_MEAN] = step.mean;
	s->value[SAMPLED] += steps * step.mean;
	s->value[CPU] += steps * step.cpu;
	s->value[FAULTS] += steps * step.faults;
	s->value[TURNS] += steps * step.turns;
	v.blamed = anomalous;
	v.blame[0].share = 1;
	v.blame[0].now = (float)step.mean;
	v.blame[0].before = .02f;
	collect_judged_show(s->pod, &is, false);
}

static void open_rank(struct shop *s)
{
	static const char names[] =
		"0mpi_step_seconds_mean\0001mpi_sampled_seconds_total\0"
		"1mpi_sampled_cpu_seconds_total\0001mpi_sampled_major_faults_total\0"
		"1mpi_sampled_preemptions_total";

	open_pod(s, names, sizeof(names), COLUMNS);
}

/* After a minute of steps of 20 ms, six seconds of this step are explained in these words. */
static void assert_slower(struct shop *s, struct step step, const char *says)
{
	char text[ACT_EXPLANATION_BYTES];
	struct act_anomaly a;

	for (int i = 0; i < MINUTE; i++)
		show_steps(s, (struct step){.02, .005, 0, 1}, false);
	for (int i = 0; i < 60; i++)
		show_steps(s, step, true);
	act_verdicts_keep(s->verdicts, s->ns, ignore_change, NULL);
	assert_int_equal(act_verdicts_anomalies(s->verdicts, 0, &a, 1), 1);
	if (!strstr(act_explain(text, sizeof(text), &a), says))
		print_error("not \"%s\": %s\n", says, text);
	assert_non_null(strstr(text, says));
}

static void assert_cause(struct step step, const char *says)
{
	struct shop s;

	open_rank(&s);
	assert_slower(&s, step, says);
	close_shop(&s);
}

static void a_slow_rank_says_why(void **state)
{
	(void)state;
	assert_cause((struct step){.08, .065, 0, 1},
		     ". It computes for longer: 65 ms of CPU time per step (usually 5 ms). First");
	/* More work on a CPU that others use, too, is more work. */
	assert_cause((struct step){.4, .035, 0, 40}, ". It computes for longer: 35 ms of CPU");
	/* Preempted, it finds less in its caches. */
	assert_cause((struct step){.03, .006, 0, 3}, ". It does not get the CPU");
	assert_cause((struct step){.08, .005, 0, 6},
		     ". It does not get the CPU: others use it for 75 ms of each step (usually 15 "
		     "ms). First, see what else runs on its CPUs");
	assert_cause((struct step){.08, .005, 40, 1},
		     ". It waits for memory: 40 major page faults per step (usually 0). First, "
		     "see what uses the memory of its node");
	assert_cause((struct step){.08, .005, 0, 1},
		     ". It does not run for 75 ms of each step (usually 15 ms). First, see "
		     "whether it is stopped");
}

static void a_slow_rank_says_why_after_its_clock_was_set_back(void **state)
{
	struct shop s;

	(void)state;
	open_rank(&s);
	for (int i = 0; i < MINUTE; i++)
		show_steps(&s, (struct step){.02, .005, 0, 1}, false);
	s.ns -= 600000000000ll;
	assert_slower(&s, (struct step){.08, .065, 0, 1},
		      ". It computes for longer: 65 ms of CPU time per step (usually 5 ms)");
	close_shop(&s);
}

static void long_names_are_truncated(void **state)
{
	char names[200] = "1shop_requests_total\0001";
	struct act_pod_verdict shown;
	struct shop s;

	(void)state;
	memset(names + 22, 'e', 150);
	open_pod(&s, names, 22 + 150 + 1, 2);
	show_row(&s, 100, 1, true);
	assert_true(act_verdicts_pod(s.verdicts, 7, &shown));
	assert_int_equal(shown.blames, 2);
	assert_int_equal(strlen(shown.blame[0].metric), ACT_BLAME_BYTES - 1);
	close_shop(&s);
}

int act_test_judged(void);
int act_test_judged(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(long_names_are_truncated),
		cmocka_unit_test(errors_of_more_requests_have_no_share),
		cmocka_unit_test(usual_load_survives_a_clock_that_was_set_back),
		cmocka_unit_test(a_missing_number_of_requests_raises_no_load),
		cmocka_unit_test(only_all_work_can_stop),
		cmocka_unit_test(a_slow_rank_says_why),
		cmocka_unit_test(a_slow_rank_says_why_after_its_clock_was_set_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
