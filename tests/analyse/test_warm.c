// SPDX-License-Identifier: Apache-2.0
/*
 * test_warm.c - learning in the first minutes of a pod: a fault in them is left out, so the next
 * fault is found as if it were the first; errors are found immediately. What is always there, or
 * comes again and again, still becomes usual.
 */
#include <math.h>
#include <stdbool.h>

#include "support/test.h"
#include "analyse/pipeline.h"
#include "noise.h"

#define COLUMNS 6u
#define STEP	1000000000ull
#define ROWS	10u /* of a step */
#define RATE	200 /* requests per second */
#define SEEDS	4   /* services that break again and again, each with its own seed */
#define WARM	90  /* steps, at least: a threshold needs 72 that are learned */

static const struct analyse_column columns[COLUMNS] = {
	{"cpu_seconds_total", true},
	{"request_duration_seconds_p90", false},
	{"database_duration_seconds_p90", false},
	{"requests_total", true},
	{"requests_total{code=\"500\"}", true},
	{"queue", false},
};

struct service {
	struct analyse_pipeline *p;
	uint64_t seed, t;
	double value[COLUMNS];
	double failing; /* share of requests */
	double slow;	/* s */
	bool warm;
};

/* Findings within some seconds. */
struct found {
	unsigned int rows, errors; /* anomalous ones; those by errors alone */
	float score;
};

static struct service begin(uint64_t seed)
{
	struct service s = {.seed = seed, .t = STEP};
	struct analyse_pipeline_opts o = {.columns = 16, .rate_ns = STEP, .seed = seed};

	s.p = analyse_pipeline_create(&o);
	assert_non_null(s.p);
	assert_int_equal(analyse_pipeline_columns(s.p, columns, COLUMNS), 0);
	analyse_pipeline_learning(s.p, ANALYSE_LEARN_WARM);
	return s;
}

static void row(struct service *s, struct found *f)
{
	const double requests = floor((double)RATE / ROWS * (1 + 0.3 * noise_normal(&s->seed)));
	struct analyse_verdict v;

	s->t += STEP / ROWS;
	s->value[0] += 0.01 * exp(0.1 * noise_normal(&s->seed));
	s->value[1] = 0.01 * exp(0.2 * noise_normal(&s->seed)) + s->slow;
	s->value[2] = 1e-6 * exp(0.1 * noise_normal(&s->seed)) +
		      s->slow * exp(0.1 * noise_normal(&s->seed));
	s->value[3] += fmax(requests, 0);
	for (int i = 0; i < requests; i++)
		s->value[4] += noise_uniform(&s->seed) < s->failing;
	s->value[5] = 5 + noise_normal(&s->seed);
	assert_int_equal(analyse_pipeline_push(s->p, s->t, s->value, &v), 0);
	/* As in the judge of a collector. */
	if (!s->warm && v.known && s->t > WARM * STEP && !analyse_pipeline_disturbed(s->p)) {
		analyse_pipeline_learning(s->p, ANALYSE_LEARN_GATED);
		s->warm = true;
	}
	f->rows += s->warm && v.anomalous;
	f->errors += v.errors > 1;
	f->score = fmaxf(f->score, v.score);
}

static struct found run_to(struct service *s, uint64_t t)
{
	struct found f = {0};

	while (s->t < t)
		row(s, &f);
	return f;
}

/* Until this second. */
static struct found run(struct service *s, unsigned int until)
{
	return run_to(s, until * STEP);
}

static struct found fault(struct service *s, unsigned int from, unsigned int seconds,
			  double failing, double slow)
{
	const double usual = s->failing;
	struct found f;

	run(s, from);
	s->failing = failing;
	s->slow = slow;
	f = run_to(s, s->t + seconds * STEP);
	s->failing = usual;
	s->slow = 0;
	return f;
}

/*
 * A fault in the warm-up is not learned: the next one is found. Returns the logarithm of its score
 * relative to its score without the first fault.
 */
static double next_fault(unsigned int at, uint64_t seed, double failing, double slow)
{
	struct service with = begin(seed), without = begin(seed);
	struct found first, next, only;

	assert_int_equal(run(&with, at).errors, 0);
	/* It can end anywhere within a step. */
	run_to(&with, with.t + seed % ROWS * STEP / ROWS);
	first = fault(&with, at, 8, failing, slow);
	/* A rate is over a second. */
	run(&with, at + 11);
	assert_int_equal(run(&with, 130).errors, 0);
	next = fault(&with, 130, 2, failing, slow);
	only = fault(&without, 130, 2, failing, slow);
	if ((failing > 0 && first.errors < 8 * ROWS - 2) || next.rows < ROWS || only.rows < ROWS)
		fail_msg("at %u: %u rows by errors, then %u, score %.2f, without %.2f", at,
			 first.errors, next.rows, (double)next.score, (double)only.score);
	analyse_pipeline_free(with.p);
	analyse_pipeline_free(without.p);
	return log((double)(next.score / only.score));
}

/* Checks the mean over all times within a step and some times within the warm-up. */
static void no_fault_hides_the_next(const unsigned int *at, uint64_t n, double failing, double slow)
{
	double ratio = 0;

	for (uint64_t i = 0; i < n * ROWS; i++)
		ratio += next_fault(at[i / ROWS], i, failing, slow) / (double)(n * ROWS);
	print_message("scores over those without an earlier fault: %.2f\n", exp(ratio));
	assert_true(ratio > log(0.85));
}

/* Errors are found in the warm-up, too. */
static void errors_are_found_at_once_and_never_learned(void **state)
{
	static const unsigned int at[] = {15, 25, 40, 55, 65, 70, 85};

	(void)state;
	no_fault_hides_the_next(at, sizeof(at) / sizeof(*at), 0.8, 0);
}

static void a_slow_time_is_not_learned(void **state)
{
	static const unsigned int at[] = {30, 40, 55, 70};

	(void)state;
	no_fault_hides_the_next(at, sizeof(at) / sizeof(*at), 0, 0.02);
}

/*
 * From the first request on, one in twenty fails: this is no alarm, but ten times as many are one.
 */
static void what_always_fails_is_usual(void **state)
{
	unsigned int rows = 0, errors = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 10; seed++) {
		struct service s = begin(seed);
		struct found f;

		s.failing = 0.05;
		f = run(&s, 400);
		rows += f.rows;
		errors += f.errors;
		f = fault(&s, 400, 1, 0.5, 0);
		assert_true(f.rows > ROWS / 2);
		analyse_pipeline_free(s.p);
	}
	/* The budget is 1 per hour, for 67 minutes. */
	print_message("%u rows, %u by errors\n", rows, errors);
	assert_true(rows <= 6 * ROWS && errors <= ROWS);
}

/* If a service begins to fail and continues, this is one anomaly, which ends with the warm-up. */
static void what_goes_on_to_fail_becomes_usual(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 10; seed++) {
		struct service s = begin(seed);

		run(&s, 20);
		s.failing = 0.05;
		assert_true(run(&s, 30).errors > 0);
		run(&s, 80);
		assert_int_equal(run(&s, 300).errors, 0);
		assert_true(s.warm);
		analyse_pipeline_free(s.p);
	}
}

/*
 * A level that changes before the end of the warm-up is no anomaly afterwards, but prolongs the
 * warm-up.
 */
static void what_lasts_is_no_news_after_the_warm_up(void **state)
{
	struct service s = begin(1);
	struct found f;

	(void)state;
	run(&s, 80);
	s.slow = 0.02;
	f = run(&s, WARM + 20);
	assert_true(!s.warm && analyse_pipeline_disturbed(s.p));
	f = run(&s, 400);
	assert_true(s.warm);
	assert_int_equal(f.rows, 0);
	analyse_pipeline_free(s.p);
}

/*
 * Returns the number of anomalous rows after the warm-up of a service that breaks for one second in
 * `each`.
 */
static unsigned int again(unsigned int each, double failing, double slow)
{
	unsigned int rows = 0;

	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct service s = begin(seed);

		for (unsigned int t = 5; t < 400; t += each) {
			struct found f = fault(&s, t, 1, failing, slow);

			rows += t > 130 ? f.rows : 0;
		}
		analyse_pipeline_free(s.p);
	}
	return rows;
}

/* Recurring faults are learned after the second time; those in close succession eventually. */
static void what_comes_again_and_again_is_usual(void **state)
{
	static const unsigned int each[] = {5, 9, 13, 20};

	(void)state;
	for (uint32_t i = 0; i < sizeof(each) / sizeof(*each); i++) {
		unsigned int all = SEEDS * 270 / each[i] * ROWS, slow = again(each[i], 0, 0.02),
			     failing = again(each[i], 0.8, 0);

		print_message("each %u s: %u slow and %u failing rows of %u\n", each[i], slow,
			      failing, all);
		assert_true(slow < all / 20 && failing < all / 20);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_are_found_at_once_and_never_learned),
		cmocka_unit_test(a_slow_time_is_not_learned),
		cmocka_unit_test(what_always_fails_is_usual),
		cmocka_unit_test(what_goes_on_to_fail_becomes_usual),
		cmocka_unit_test(what_lasts_is_no_news_after_the_warm_up),
		cmocka_unit_test(what_comes_again_and_again_is_usual),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
