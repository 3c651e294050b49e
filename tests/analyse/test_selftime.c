// SPDX-License-Identifier: Apache-2.0
/* Times of spans show which pod is slow; the existence and the number of spans show nothing. */
#include <errno.h>
#include <stdlib.h>

#include "support/random.h"
#include "support/test.h"

#include "analyse/selftime.h"

enum { FRONT, CART, ADS, DB, PODS };
#define MS 1000000ll

struct world {
	struct analyse_selftime *t;
	uint64_t seed;
	int64_t now;
	double slow[PODS];  /* own time, as a multiple */
	double delay[PODS]; /* ms of its network */
	float evidence[PODS];
};

static void setup(struct world *w)
{
	*w = (struct world){.t = analyse_selftime_new(), .seed = 5, .now = 1000000 * MS};
	assert_non_null(w->t);
	for (int p = 0; p < PODS; p++)
		w->slow[p] = 1;
}

static int64_t about(struct world *w, double ms)
{
	return (int64_t)(ms * (0.7 + 6e-4 * random_below(&w->seed, 1000)) * MS);
}

/*
 * A call of `to`, which works for own ms and calls `next` if that is a pod. Returns the end of the
 * call.
 */
static int64_t call(struct world *w, struct analyse_timed *s, uint32_t *n, uint32_t parent,
		    uint32_t to, double own, uint32_t next, int64_t at)
{
	double net = 1 + w->delay[s[parent].pod] + w->delay[to];
	uint32_t client = (*n)++, server = (*n)++;

	s[client] = (struct analyse_timed){s[parent].pod, parent, 100 + to, at, 0};
	at += about(w, net / 2);
	s[server] = (struct analyse_timed){to, client, 200 + to, at, 0};
	at += about(w, own * w->slow[to]);
	if (next < PODS)
		at = call(w, s, n, server, next, 3, PODS, at);
	s[server].end_ns = at;
	return s[client].end_ns = at + about(w, net / 2);
}

/* The front asks the cart, which asks the database, and after it the ads. */
static uint32_t make(struct world *w, struct analyse_timed *s)
{
	uint32_t n = 1;
	int64_t at = w->now + about(w, 2 * w->slow[FRONT]);

	s[0] = (struct analyse_timed){FRONT, ANALYSE_SPAN_ROOT, 1, w->now, 0};
	at = call(w, s, &n, 0, CART, 2, DB, at);
	at = call(w, s, &n, 0, ADS, 4, PODS, at);
	s[0].end_ns = at + about(w, 1 * w->slow[FRONT]);
	w->now = s[0].end_ns;
	return n;
}

static void step(struct world *w, int traces)
{
	struct analyse_timed s[16];

	for (int i = 0; i < traces; i++) {
		uint32_t n = make(w, s);

		assert_int_equal(analyse_selftime_add(w->t, s, n), 0);
	}
	assert_int_equal(analyse_selftime_step(w->t, w->evidence, PODS), 0);
}

/* The others are e times less likely, or more so. */
static void only(const struct world *w, uint32_t pod)
{
	for (uint32_t p = 0; p < PODS; p++)
		assert_true(w->evidence[pod] > w->evidence[p] + (p == pod ? -0.5f : 1));
	assert_true(w->evidence[pod] > 3);
}

static void that_spans_are_there_or_how_many_says_nothing(void **state)
{
	struct world w;

	(void)state;
	setup(&w);
	for (int i = 0; i < 40; i++) {
		step(&w, i % 3 ? 30 : i % 2 ? 0 : 300);
		for (uint32_t p = 0; p < PODS; p++)
			assert_true(w.evidence[p] < 0.5f);
	}
	analyse_selftime_free(w.t);
}

static void the_pod_that_works_longer_is_found_not_its_callers(void **state)
{
	struct world w;

	(void)state;
	setup(&w);
	for (uint32_t pod = 0; pod < PODS; pod++) {
		for (int i = 0; i < 8; i++)
			step(&w, 40);
		w.slow[pod] = 10;
		step(&w, 40);
		only(&w, pod);
		w.slow[pod] = 1;
	}
	analyse_selftime_free(w.t);
}

static void gaps_around_a_pod_show_that_its_network_is_slow(void **state)
{
	struct world w;

	(void)state;
	setup(&w);
	for (uint32_t pod = 0; pod < PODS; pod++) {
		for (int i = 0; i < 8; i++)
			step(&w, 40);
		w.delay[pod] = 60;
		step(&w, 40);
		only(&w, pod);
		w.delay[pod] = 0;
	}
	analyse_selftime_free(w.t);
}

/* The clock of a host is an hour ahead: differences between calls and callees stay the same. */
static void clocks_of_hosts_may_differ(void **state)
{
	struct analyse_timed s[16];
	struct world w;

	(void)state;
	setup(&w);
	for (int i = 0; i < 12; i++) {
		for (int k = 0; k < 30; k++) {
			uint32_t n = make(&w, s);

			for (uint32_t j = 0; j < n; j++)
				if (s[j].pod == CART && i % 2) {
					s[j].begin_ns += 3600000 * MS;
					s[j].end_ns += 3600000 * MS;
				}
			assert_int_equal(analyse_selftime_add(w.t, s, n), 0);
		}
		assert_int_equal(analyse_selftime_step(w.t, w.evidence, PODS), 0);
		for (uint32_t p = 0; p < PODS; p++)
			assert_true(w.evidence[p] < 0.5f);
	}
	analyse_selftime_free(w.t);
}

/* A job is taken from a queue after its sender has continued: the gap is its waiting time. */
static void jobs_that_wait_longer_point_at_their_worker(void **state)
{
	struct world w;

	(void)state;
	setup(&w);
	for (int i = 0; i < 10; i++) {
		for (int k = 0; k < 30; k++) {
			int64_t at = w.now, wait = about(&w, i == 9 ? 400 : 4);
			const struct analyse_timed s[] = {
				{FRONT, ANALYSE_SPAN_ROOT, 1, at, at + about(&w, 9)},
				{FRONT, 0, 2, at + MS, at + MS + about(&w, 0.3)},
				{DB, 1, 3, at + MS + wait, at + MS + wait + about(&w, 20)},
			};

			w.now += 1000 * MS;
			assert_int_equal(analyse_selftime_add(w.t, s, 3), 0);
		}
		assert_int_equal(analyse_selftime_step(w.t, w.evidence, PODS), 0);
	}
	assert_true(w.evidence[DB] > 3 && w.evidence[CART] == 0);
	analyse_selftime_free(w.t);
}

static void what_is_no_tree_of_spans_does_no_harm(void **state)
{
	struct analyse_timed *big = calloc(ANALYSE_TRACE_MAX + 1, sizeof(*big));
	const struct analyse_timed odd[] = {
		{FRONT, 1, 1, 10, 20},		   /* a cycle */
		{CART, 0, 2, 12, 18},		   /* of two pods */
		{FRONT, 2, 3, 5, 6},		   /* its own parent */
		{ADS, ANALYSE_SPAN_LOST, 4, 9, 3}, /* ends before it begins */
		{ADS, 77, 5, 9, 30},		   /* no such parent */
		{DB, 4, 6, -5, 3},
		{PODS + 3, 4, 7, INT64_MAX - 1, INT64_MAX}, /* a pod without metrics */
	};
	struct world w;

	(void)state;
	assert_non_null(big);
	setup(&w);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(analyse_selftime_add(w.t, odd, sizeof(odd) / sizeof(*odd)), 0);
		assert_int_equal(analyse_selftime_add(w.t, NULL, 0), 0);
		assert_int_equal(analyse_selftime_step(w.t, w.evidence, PODS), 0);
		for (uint32_t p = 0; p < PODS; p++)
			assert_true(w.evidence[p] >= 0 && w.evidence[p] < 1);
	}
	assert_int_equal(analyse_selftime_add(w.t, big, ANALYSE_TRACE_MAX + 1), -E2BIG);
	assert_int_equal(analyse_selftime_add(w.t, big, ANALYSE_TRACE_MAX), 0);
	assert_int_equal(analyse_selftime_step(w.t, w.evidence, PODS), 0);
	analyse_selftime_free(w.t);
	analyse_selftime_free(NULL);
	free(big);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(that_spans_are_there_or_how_many_says_nothing),
		cmocka_unit_test(the_pod_that_works_longer_is_found_not_its_callers),
		cmocka_unit_test(gaps_around_a_pod_show_that_its_network_is_slow),
		cmocka_unit_test(clocks_of_hosts_may_differ),
		cmocka_unit_test(jobs_that_wait_longer_point_at_their_worker),
		cmocka_unit_test(what_is_no_tree_of_spans_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
