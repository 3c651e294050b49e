// SPDX-License-Identifier: Apache-2.0
/*
 * test_sample.c - adaptive sampling sends samples in order and once: a baseline always, and
 * everything around an anomaly.
 */
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "act/sample.h"

#define S 1000000000ll
#define T (1000000 * S)

static const struct act_sample_opts thirty = {
	.every_ns = 30 * S, .around_ns = 5 * S, .late_ns = 2 * S};

static void without_anomalies_one_sample_an_interval_leaves(void **state)
{
	struct act_sample_pod p;
	struct act_sample_span s;
	int64_t last = T;
	int n = 0;

	(void)state;
	act_sample_init(&p, &thirty, T, 12345678901234567ull);
	assert_true(p.tick_ns > T && p.tick_ns <= T + 30 * S);
	for (int64_t now = T; now <= T + 3000 * S; now += S)
		while (act_sample_next(&p, &thirty, now, UINT64_MAX, &s)) {
			assert_true(s.last && s.from_ns == last && s.to_ns <= now - 7 * S);
			assert_true(n == 0 || s.to_ns - s.from_ns == 30 * S);
			last = s.to_ns;
			n++;
		}
	assert_true(n == 99 || n == 100);
	assert_int_equal(p.clipped_ns, 0);
}

static void samples_before_an_anomaly_leave_with_it(void **state)
{
	struct act_sample_pod p;
	struct act_sample_span s;

	(void)state;
	act_sample_init(&p, &thirty, T, 0);
	p.tick_ns = T + 30 * S;
	assert_false(act_sample_next(&p, &thirty, T + 12 * S, UINT64_MAX, &s));
	act_sample_anomaly(&p, &thirty, T + 10 * S, 0);
	assert_true(act_sample_next(&p, &thirty, T + 13 * S, UINT64_MAX, &s));
	assert_true(!s.last && s.from_ns == T + 5 * S && s.to_ns == T + 6 * S);
	assert_false(act_sample_next(&p, &thirty, T + 13 * S, UINT64_MAX, &s));
	act_sample_anomaly(&p, &thirty, T + 10 * S, 0);
	act_sample_anomaly(&p, &thirty, T + 10 * S, T + 14 * S);
	assert_true(act_sample_next(&p, &thirty, T + 60 * S, UINT64_MAX, &s));
	assert_true(!s.last && s.from_ns == T + 6 * S && s.to_ns == T + 19 * S);
	assert_true(act_sample_next(&p, &thirty, T + 60 * S, UINT64_MAX, &s));
	assert_true(s.last && s.from_ns == T + 19 * S && s.to_ns == T + 30 * S);
	assert_false(act_sample_next(&p, &thirty, T + 60 * S, UINT64_MAX, &s));
	assert_int_equal(p.clipped_ns, 0);
}

static void what_is_asked_for_too_late_is_counted(void **state)
{
	struct act_sample_pod p;
	struct act_sample_span s;

	(void)state;
	act_sample_init(&p, &thirty, T, 0);
	p.tick_ns = T + 30 * S;
	assert_true(act_sample_next(&p, &thirty, T + 50 * S, UINT64_MAX, &s));
	act_sample_anomaly(&p, &thirty, T + 30 * S, 0); /* wants 5 s that are gone */
	assert_int_equal(p.clipped_ns, 5 * S);
	assert_true(act_sample_next(&p, &thirty, T + 50 * S, UINT64_MAX, &s));
	assert_true(!s.last && s.from_ns == T + 30 * S);
	/* All of it gone. */
	act_sample_init(&p, &thirty, T, 0);
	act_sample_anomaly(&p, &thirty, T - 20 * S, T - 10 * S);
	assert_int_equal(p.clipped_ns, 20 * S);
	assert_int_equal(p.fulls, 0);
}

static void long_spans_come_in_pieces(void **state)
{
	static const struct act_sample_opts all = {.every_ns = 0, .around_ns = 5 * S};
	struct act_sample_pod p;
	struct act_sample_span s;
	int64_t last = T;

	(void)state;
	act_sample_init(&p, &all, T, 1);
	for (int i = 0; i < 4; i++) {
		assert_true(act_sample_next(&p, &all, T + 10 * S, 3 * S, &s));
		assert_true(!s.last && s.from_ns == last && s.to_ns - last <= 3 * S);
		last = s.to_ns;
	}
	assert_int_equal(last, T + 10 * S);
	assert_false(act_sample_next(&p, &all, T + 10 * S, 3 * S, &s));
}

static void what_is_given_up_is_known(void **state)
{
	struct act_sample_pod p;
	struct act_sample_span s;

	(void)state;
	act_sample_init(&p, &thirty, T, 0);
	p.tick_ns = T + 30 * S;
	act_sample_anomaly(&p, &thirty, T + 10 * S, 0);
	assert_int_equal(act_sample_skip(&p, &thirty, T + 100 * S), 100 * S);
	assert_int_equal(act_sample_skip(&p, &thirty, T + 100 * S), 0);
	assert_int_equal(p.tick_ns, T + 120 * S);
	assert_true(act_sample_next(&p, &thirty, T + 110 * S, UINT64_MAX, &s));
	assert_true(s.from_ns == T + 100 * S && s.to_ns == T + 103 * S);
}

/* ---- against a model ---- */

#define STEPS	  4000
#define STEP	  (S / 4)
#define ANOMALIES 40

struct anomaly {
	int64_t begin, end, told, over; /* told after begin, over after end */
	bool is_told, is_over;
};

static int64_t below(int64_t n)
{
	return rand() % n;
}

/* Makes random anomalies and the steps around them; returns their number. */
static int plan(const struct act_sample_opts *o, bool dense, struct anomaly *a, int *wanted)
{
	int64_t at = T + 10 * S;
	int n = 0;

	while (n < ANOMALIES) {
		at += 1 + below(dense ? 3 * S : 60 * S);
		a[n] = (struct anomaly){.begin = at, .told = at + below((int64_t)o->late_ns)};
		at += below(10 * S);
		a[n].end = at;
		at += 2 * S; /* the hold time of verdicts */
		a[n].over = at;
		if (at > T + (STEPS - 100) * STEP)
			break;
		n++;
	}
	for (int i = 0; i < n; i++)
		for (int k = 0; k < STEPS; k++) {
			int64_t t = T + k * STEP;

			wanted[k] |= t > a[i].begin - (int64_t)o->around_ns &&
				     t <= a[i].end + (int64_t)o->around_ns;
		}
	return n;
}

static void play(unsigned int seed, bool dense)
{
	struct act_sample_opts o = {.every_ns = (uint64_t)(1 + below(40)) * S,
				    .around_ns = (uint64_t)below(8) * S,
				    .late_ns = (uint64_t)(1 + below(4)) * S};
	static int sent[STEPS], wanted[STEPS];
	struct anomaly a[ANOMALIES];
	struct act_sample_pod p;
	int64_t cursor = T, ticks = 0;
	int n;

	memset(sent, 0, sizeof(sent));
	memset(wanted, 0, sizeof(wanted));
	act_sample_init(&p, &o, T, seed * 0x9e3779b97f4a7c15ull);
	n = plan(&o, dense, a, wanted);
	for (int64_t now = T; now < T + (STEPS + 400) * STEP; now += 1 + below(S)) {
		struct act_sample_span s;

		for (int i = 0; i < n; i++) {
			if (now >= a[i].told && !a[i].is_told) {
				a[i].is_told = true;
				act_sample_anomaly(&p, &o, a[i].begin, 0);
			}
			if (now >= a[i].over && !a[i].is_over) {
				a[i].is_over = true;
				act_sample_anomaly(&p, &o, a[i].begin, a[i].end);
			}
		}
		while (act_sample_next(&p, &o, now, 1 + (uint64_t)below(20 * S), &s)) {
			int newest = -1;

			assert_true(s.from_ns >= cursor && s.to_ns > s.from_ns);
			assert_true(s.to_ns <= now);
			cursor = s.to_ns;
			ticks += s.last;
			for (int k = 0; k < STEPS; k++) {
				int64_t t = T + k * STEP;

				if (t > s.from_ns && t <= s.to_ns) {
					sent[k] += !s.last;
					newest = k;
				}
			}
			if (s.last && newest >= 0)
				sent[newest]++;
		}
	}
	/* The loop reports a verdict in its next turn, up to a second later. */
	if (!p.clipped_ns)
		for (int k = 0; k < STEPS; k++)
			assert_true(sent[k] >= (wanted[k] != 0));
	assert_true(p.clipped_ns <= (uint64_t)(n * S));
	for (int k = 0; k < STEPS; k++)
		assert_true(sent[k] <= 1);
	/* No gap without samples is longer than twice the interval. */
	for (int k = 1, quiet = 0; k < STEPS - 1; k++) {
		quiet = sent[k] ? 0 : quiet + 1;
		assert_true(quiet * STEP <= 2 * (int64_t)o.every_ns);
	}
	if (!n)
		assert_true(ticks > 0);
}

/* The second (of thirty) of the rows that are sent for a pod; rows are 100 ms apart. */
static int64_t second_of_samples(uint64_t pod, int64_t start, int64_t first_row)
{
	struct act_sample_pod p;
	int64_t row;

	act_sample_init(&p, &thirty, start, pod);
	row = p.tick_ns - (p.tick_ns - first_row) % (S / 10);
	return (row + S - 1) / S % 30;
}

static void two_collectors_sample_a_pod_in_the_same_second(void **state)
{
	(void)state;
	for (uint64_t pod = 1; pod < 100; pod++) {
		uint64_t instance = pod * 0x9e3779b97f4a7c15ull;

		assert_int_equal(second_of_samples(instance, T, T - 9 * S + 17),
				 second_of_samples(instance, T + 5 * S, T - 50000000));
	}
}

static void any_anomaly_is_sampled_once_in_order_and_whole(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed <= 300; seed++) {
		srand(seed);
		play(seed, seed % 3 == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_anomalies_one_sample_an_interval_leaves),
		cmocka_unit_test(two_collectors_sample_a_pod_in_the_same_second),
		cmocka_unit_test(samples_before_an_anomaly_leave_with_it),
		cmocka_unit_test(what_is_asked_for_too_late_is_counted),
		cmocka_unit_test(long_spans_come_in_pieces),
		cmocka_unit_test(what_is_given_up_is_known),
		cmocka_unit_test(any_anomaly_is_sampled_once_in_order_and_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
