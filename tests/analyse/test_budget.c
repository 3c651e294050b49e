// SPDX-License-Identifier: Apache-2.0
/*
 * test_budget.c - a budget of one false alarm per pod and hour holds on series of any shape
 * (docs/analytics.md, Thresholds).
 */
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "analyse/fleet.h"
#include "noise.h"

#define COLUMNS	 8u
#define PODS	 3u
#define SMOOTHED 45u /* rows of a moving mean, as of rate[45s] */
#define QUIET	 3u  /* rows without an alarm that end it */

static const struct analyse_column column[COLUMNS] = {
	{"cpu_cores", false},	{"memory_bytes", false}, {"latency_p90", false},
	{"latency_p99", false}, {"requests", false},	 {"in_flight", false},
	{"queue_depth", false}, {"sessions", false},
};

enum shape { INDEPENDENT, SMOOTH, AUTOREGRESSIVE, BURSTY, RARE, RARE_BURSTS, QUANTISED };

struct series {
	enum shape shape;
	uint64_t seed;
	bool learned; /* the rows are learned: what is rare does not occur yet */
	double ring[COLUMNS][SMOOTHED], sum[COLUMNS], last[COLUMNS];
	uint32_t at, burst;
	double height;
};

/* Returns the length of an event that begins in a row with this probability; usually 0. */
static uint32_t begin_event(struct series *s, double p, double mean)
{
	return noise_uniform(&s->seed) < p ? 1 + (uint32_t)(-mean * log(noise_uniform(&s->seed)))
					   : 0;
}

static void next_row(struct series *s, double x[COLUMNS])
{
	double z[COLUMNS];

	for (uint32_t c = 0; c < COLUMNS; c++) {
		z[c] = noise_normal(&s->seed);
		s->sum[c] += z[c] - s->ring[c][s->at];
		s->ring[c][s->at] = z[c];
		s->last[c] = 0.9 * s->last[c] + sqrt(0.19) * z[c];
		if (s->shape == SMOOTH)
			z[c] = s->sum[c] / sqrt(SMOOTHED);
		else if (s->shape == AUTOREGRESSIVE)
			z[c] = s->last[c];
	}
	s->at = (s->at + 1) % SMOOTHED;
	if (s->burst)
		s->burst--;
	else if (s->shape == BURSTY && (s->burst = begin_event(s, 0.005, 10)))
		s->height = -2 * log(noise_uniform(&s->seed));
	else if (s->shape == RARE_BURSTS && !s->learned)
		s->burst = begin_event(s, 0.005, 4);
	for (uint32_t c = 2; c < 5 && s->shape == BURSTY && s->burst; c++)
		z[c] += s->height;
	x[0] = 0.4 + 0.04 * z[0];
	x[1] = 3e8 + 3e6 * z[1];
	x[2] = 0.01 * exp(0.2 * z[2]);
	x[3] = 0.03 * exp(0.3 * z[3]);
	x[4] = 100 + 10 * z[4];
	x[5] = 5 + z[5];
	x[6] = 10 + 2 * z[6];
	x[7] = 50 + 5 * z[7];
	if (s->shape == RARE)
		x[5] = !s->learned && noise_uniform(&s->seed) < 0.02;
	if (s->shape == RARE_BURSTS)
		x[5] = s->burst > 0;
	if (s->shape == QUANTISED) {
		x[2] = exp2(floor(0.6 * z[2]) - 6);
		x[3] = exp2(floor(0.6 * z[3]) - 5);
		for (uint32_t c = 5; c < COLUMNS; c++)
			x[c] = floor(x[c] / 2);
	}
}

struct pods {
	struct analyse_fleet *fleet;
	struct analyse_pipeline *pod[PODS];
	struct series series[PODS];
	struct analyse_verdict v[PODS];
	uint64_t t;
};

static void push_row(struct pods *f, const double *x, uint64_t row_ns)
{
	f->t += row_ns;
	for (uint32_t i = 0; i < PODS; i++)
		assert_int_equal(analyse_pipeline_score(f->pod[i], f->t, x + i * COLUMNS, &f->v[i]),
				 0);
	assert_int_equal(analyse_fleet_judge(f->fleet, f->pod, f->v, PODS), 0);
}

static void next_rows(struct pods *f, double *x)
{
	for (uint32_t i = 0; i < PODS; i++)
		next_row(&f->series[i], x + i * COLUMNS);
}

/* Learns as sidelight replay does: all rows, and then the thresholds from the same rows. */
static void train(struct pods *f, uint32_t rows, uint64_t row_ns)
{
	double *x = calloc(rows, sizeof(*x) * PODS * COLUMNS);

	assert_non_null(x);
	for (uint32_t r = 0; r < rows; r++)
		next_rows(f, x + r * PODS * COLUMNS);
	for (uint32_t pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < PODS; i++) {
			analyse_pipeline_rewind(f->pod[i]);
			if (pass)
				analyse_pipeline_recalibrate(f->pod[i]);
			else
				analyse_pipeline_learning(f->pod[i], ANALYSE_LEARN_ALL);
		}
		f->t = 0;
		for (uint32_t r = 0; r < rows; r++)
			push_row(f, x + r * PODS * COLUMNS, row_ns);
	}
	free(x);
	for (uint32_t i = 0; i < PODS; i++) {
		analyse_pipeline_learning(f->pod[i], ANALYSE_LEARN_GATED);
		f->series[i].learned = false;
	}
}

/* Returns the alarms per pod and hour, after `learned` rows. */
static double alarms(enum shape shape, uint64_t row_ns, uint32_t learned, uint32_t hours)
{
	const uint64_t step_ns = row_ns < 1000000000 ? 1000000000 : row_ns;
	struct pods f = {.fleet = analyse_fleet_create(fmin((double)step_ns / 3.6e12, 0.5), 1)};
	uint64_t rows = hours * 3600000000000 / row_ns, quiet[PODS] = {0};
	uint32_t n = 0;

	assert_non_null(f.fleet);
	for (uint32_t i = 0; i < PODS; i++) {
		struct analyse_pipeline_opts o = {.columns = COLUMNS,
						  .seed = i,
						  .step_ns = step_ns,
						  .rate_ns = row_ns < step_ns ? step_ns : 0};

		f.pod[i] = analyse_pipeline_create(&o);
		assert_non_null(f.pod[i]);
		assert_int_equal(analyse_pipeline_columns(f.pod[i], column, COLUMNS), 0);
		assert_int_equal(analyse_fleet_join(f.fleet, f.pod[i], NULL), 0);
		f.series[i] =
			(struct series){.shape = shape, .seed = 1000 * (i + 1), .learned = true};
		quiet[i] = QUIET;
	}
	train(&f, learned, row_ns);
	for (uint64_t r = 0; r < rows; r++) {
		double x[PODS * COLUMNS];

		next_rows(&f, x);
		push_row(&f, x, row_ns);
		for (uint32_t i = 0; i < PODS; i++) {
			n += f.v[i].anomalous && quiet[i] >= QUIET;
			quiet[i] = f.v[i].anomalous ? 0 : quiet[i] + 1;
		}
	}
	for (uint32_t i = 0; i < PODS; i++) {
		analyse_fleet_leave(f.fleet, f.pod[i]);
		analyse_pipeline_free(f.pod[i]);
	}
	analyse_fleet_free(f.fleet);
	return (double)n / (PODS * hours);
}

static void hold_budget(enum shape shape, uint64_t row_ns, uint32_t learned, uint32_t hours)
{
	double rate = alarms(shape, row_ns, learned, hours);

	print_message("%.2f alarms per pod and hour\n", rate);
	if (rate > 1)
		fail_msg("%.2f alarms per pod and hour at a budget of 1", rate);
}

#define SECOND 1000000000ull
#define MINUTE (60 * SECOND)
#define SHORT  (SECOND / 100)

static void independent_rows(void **state)
{
	(void)state;
	hold_budget(INDEPENDENT, SHORT, 30000, 1);
	hold_budget(INDEPENDENT, SECOND, 200, 10);
	hold_budget(INDEPENDENT, MINUTE, 300, 200);
}

/* Rows of a smoothed series repeat one event, so their sum is no evidence. */
static void smoothed_rows(void **state)
{
	(void)state;
	hold_budget(SMOOTH, SHORT, 30000, 1);
	hold_budget(SMOOTH, SECOND, 200, 10);
	hold_budget(AUTOREGRESSIVE, SECOND, 200, 10);
	hold_budget(SMOOTH, MINUTE, 300, 200);
}

static void bursty_rows(void **state)
{
	(void)state;
	hold_budget(BURSTY, SECOND, 200, 10);
	hold_budget(BURSTY, MINUTE, 300, 200);
}

/* A gauge that was never 1 while learned is soon known to be 1 at times. */
static void rare_values(void **state)
{
	(void)state;
	hold_budget(RARE, SECOND, 600, 10);
	hold_budget(RARE_BURSTS, SECOND, 600, 10);
	hold_budget(RARE, MINUTE, 300, 200);
}

static void quantised_rows(void **state)
{
	(void)state;
	hold_budget(QUANTISED, SHORT, 30000, 1);
	hold_budget(QUANTISED, SECOND, 200, 10);
	hold_budget(QUANTISED, MINUTE, 300, 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(independent_rows), cmocka_unit_test(smoothed_rows),
		cmocka_unit_test(bursty_rows),	    cmocka_unit_test(rare_values),
		cmocka_unit_test(quantised_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
