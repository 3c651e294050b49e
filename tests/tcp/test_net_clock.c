// SPDX-License-Identifier: Apache-2.0
/*
 * test_net_clock.c - the offset of two clocks from synthetic packets with a known true value:
 * within its bound while the rates of the clocks satisfy the assumption, and unknown when they do
 * not.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "net_truth.h"
#include "source/tcp/net_clock.h"

#define POINTS 24000
#define WINDOW (2 * S)

static struct tcp_net_point point(const struct truth *t, bool backward, int64_t sent, int64_t took)
{
	/* sent: A's clock, of either end */
	int64_t came = sent + took;

	if (backward)
		return (struct tcp_net_point){came, sent + theta(t, sent) - came, true};
	return (struct tcp_net_point){sent, came + theta(t, came) - sent, false};
}

static int by_time(const void *a, const void *b)
{
	const struct tcp_net_point *p = a, *q = b;

	return p->at < q->at ? -1 : p->at > q->at;
}

/*
 * p must be sorted. Processes windows like net_stat.c: one by one, with the data of the adjacent
 * ones.
 */
static void windows(struct tcp_net_clock *c, const struct tcp_net_point *p, size_t n, int64_t start,
		    int64_t end)
{
	struct tcp_net_point *some = calloc(n + 1, sizeof(*some));

	for (int64_t from = start; from < end; from += WINDOW) {
		size_t m = 0;

		for (size_t i = 0; i < n; i++)
			if (p[i].at >= from - WINDOW && p[i].at < from + 2 * WINDOW)
				some[m++] = p[i];
		/* In no order. */
		for (size_t i = m; i > 1; i--) {
			size_t k = random_u64() % i;
			struct tcp_net_point swap = some[k];

			some[k] = some[i - 1];
			some[i - 1] = swap;
		}
		assert_int_equal(tcp_net_clock_add(c, some, m, from, from + WINDOW - 1), 0);
	}
	free(some);
}

/* Clocks whose rates stay within TCP_NET_SKEW_MAX. */
enum rates { CONSTANT, SWITCHING, WALKING, EXTREME, RATES };

static struct truth clocks(enum rates rates)
{
	struct truth t = {
		.offset = (int64_t)((uniform() - 0.5) * 1e15),
		.start = (int64_t)(random_u64() >> 12),
		.pieces = rates == CONSTANT ? 1 : PIECES,
	};
	double skew = (uniform() - 0.5) * 400e-6, most = TCP_NET_SKEW_MAX * (1 - 1e-6);

	for (int i = 0; i < t.pieces; i++) {
		t.piece[i].for_ns = 2 * S;
		t.piece[i].skew = skew;
		if (rates == SWITCHING) { /* like the clocks of two emulated machines */
			t.piece[i].skew = 80e-6 + (i % 2 ? 300e-6 : -300e-6);
		} else if (rates == WALKING) {
			t.piece[i].for_ns = 100 * MS;
			skew = fmax(-most, fmin(skew + (uniform() - 0.5) * 200e-6, most));
		} else if (rates == EXTREME) { /* the maximum deviation, at any time */
			t.piece[i].for_ns = (int64_t)(1 + random_u64() % (200 * MS));
			t.piece[i].skew = random_u64() & 1 ? most : -most;
		}
	}
	return t;
}

/* Computes the bounds at x from all packets, one by one. */
static void envelopes(const struct tcp_net_point *p, size_t n, int64_t from, int64_t to, int64_t x,
		      double *low, double *high)
{
	*low = -INFINITY;
	*high = INFINITY;
	for (size_t i = 0; i < n; i++) {
		double wear = TCP_NET_SKEW_MAX * fabs((double)(x - p[i].at));

		if (p[i].at < from || p[i].at >= to)
			continue;
		if (p[i].backward)
			*low = fmax(*low, (double)(p[i].ahead - p[0].ahead) - wear);
		else
			*high = fmin(*high, (double)(p[i].ahead - p[0].ahead) + wear);
	}
}

static void the_truth_is_within_the_bound_at_any_rates(void **state)
{
	struct tcp_net_point *p = calloc(POINTS, sizeof(*p));

	(void)state;
	for (int round = 0; round < 24; round++) {
		struct truth t = clocks(round % RATES);
		struct tcp_net_clock c = {0};
		size_t n = 20 + random_u64() % (round % 3 ? 600 : POINTS - 20), known = 0;
		/* From equal delays in both directions to a ratio of a hundred. */
		int64_t least[2] = {1000 + (int64_t)(random_u64() % 100000),
				    1000 + (int64_t)(random_u64() % 10000000)};
		int64_t quickest[2] = {INT64_MAX, INT64_MAX}, end = t.start + 6 * S;

		for (size_t i = 0; i < n; i++) {
			bool back = i % 2;
			int64_t took = delay(least[back], 20000);

			if (took < quickest[back])
				quickest[back] = took;
			p[i] = point(&t, back, t.start + (int64_t)(random_u64() % (6 * S)), took);
		}
		qsort(p, n, sizeof(*p), by_time);
		windows(&c, p, n, t.start, end);
		assert_int_equal(c.stepped, 0);
		for (int i = 0; i < 1500; i++) {
			bool of_packet = i % 2;
			int64_t x = of_packet ? p[random_u64() % n].at
					      : t.start + (int64_t)(random_u64() % (6 * S));
			int64_t window = x - (x - t.start) % WINDOW, said, bound;
			double low, high;

			if (!tcp_net_clock_at(&c, x, &said, &bound))
				continue;
			known++;
			if (llabs(said - theta(&t, x)) > bound)
				fail_msg("round %d: off by %lld, and said to be within %lld", round,
					 (long long)(said - theta(&t, x)), (long long)bound);
			/* A tighter bound would require equal delays in both directions. */
			assert_true((double)bound * 2 >=
				    (double)(quickest[0] + quickest[1]) * (1 - TCP_NET_SKEW_MAX));
			/* The bound is no tighter than all packets together imply. */
			if (i % 16 && n > 1000)
				continue;
			envelopes(p, n, window - WINDOW, window + 2 * WINDOW, x, &low, &high);
			assert_true(fabs((double)(said - p[0].ahead) - (low + high) / 2) <= 3);
			assert_true(fabs((double)bound - (high - low) / 2) <= 3);
		}
		/*
		 * A packet sent at the very end may arrive later: packets outside of a window are
		 * not considered.
		 */
		if (known < 1480)
			fail_msg("round %d: known at %zu of 1500 places", round, known);
		tcp_net_clock_free(&c);
	}
	free(p);
}

static void many_packets_bound_it_by_half_the_fastest_rtt(void **state)
{
	const struct truth t = {
		.offset = 5 * 1000 * S, .start = 1234567890, .pieces = 1, .piece[0].skew = 80e-6};
	struct tcp_net_point *p = calloc(20000, sizeof(*p));
	struct tcp_net_clock c = {0};
	int64_t said, bound;

	(void)state;
	for (int i = 0; i < 20000; i++)
		p[i] = point(&t, i & 1, t.start + 2 * S / 20000 * i,
			     delay(i & 1 ? 100000 : 20000, 20000));
	assert_int_equal(tcp_net_clock_add(&c, p, 20000, t.start, t.start + 2 * S), 0);
	assert_int_equal(c.n, 1);
	assert_true(tcp_net_clock_at(&c, t.start + S, &said, &bound));
	assert_in_range(bound, 60000, 66000); /* (100 + 20) / 2 us, and a little */
	/*
	 * The estimate itself is off by half of the difference of the delays, which the bound
	 * covers.
	 */
	assert_in_range(llabs(said - theta(&t, t.start + S)), 30000, 50000);
	assert_true(c.v[0]->skew_low <= 80e-6 && c.v[0]->skew_high >= 80e-6);
	assert_true(c.v[0]->skew_high - c.v[0]->skew_low < 150e-6);
	tcp_net_clock_free(&c);
	free(p);
}

/* One request per second: its answer bounds the offset, and no packet of a second ago can. */
static void few_packets_are_bounded_by_their_own_rtt(void **state)
{
	const struct truth t = clocks(EXTREME);
	struct tcp_net_point p[40];
	struct tcp_net_clock c = {0};
	int64_t said, bound;

	(void)state;
	for (int i = 0; i < 20; i++) {
		int64_t at = t.start + S * i;

		p[2 * i] = point(&t, false, at, 70000);
		p[2 * i + 1] = point(&t, true, at + 1 * MS, 50000); /* 930 us later */
	}
	windows(&c, p, 40, t.start, t.start + 20 * S);
	for (int i = 0; i < 40; i++) {
		assert_true(tcp_net_clock_at(&c, p[i].at, &said, &bound));
		assert_true(llabs(said - theta(&t, p[i].at)) <= bound);
		assert_in_range(bound, 60000 - 100, 60000 + 1200);
	}
	tcp_net_clock_free(&c);
}

/*
 * Simulates 6 s with a packet every 0.5 ms, and 20 us or more in each direction. Returns at how
 * many packets the offset is known. If the offset changed while a packet was on its way, its value
 * at either end is right; the packet's stamps belong to the value at the time when B's clock was
 * read. unseen: further error of a clock in ns.
 */
static size_t looked_at(const struct truth *t, struct tcp_net_clock *c, int64_t unseen)
{
	static struct tcp_net_point p[12000], sorted[12000];
	static int64_t other[12000];
	int64_t said, bound;
	size_t known = 0;

	for (int i = 0; i < 12000; i++) {
		int64_t sent = t->start + 6 * S / 12000 * i, took = delay(20000, 20000);

		p[i] = point(t, i & 1, sent, took);
		other[i] = i & 1 ? sent : sent + took;
	}
	memcpy(sorted, p, sizeof(p));
	qsort(sorted, 12000, sizeof(*p), by_time);
	windows(c, sorted, 12000, t->start, t->start + 6 * S);
	for (int i = 0; i < 12000; i++) {
		if (!tcp_net_clock_at(c, p[i].at, &said, &bound))
			continue;
		known++;
		if (llabs(said - theta(t, p[i].at)) > bound + unseen &&
		    llabs(said - theta(t, other[i])) > bound + unseen)
			fail_msg("%.4f s: off by %lld, and said to be within %lld",
				 (double)(p[i].at - t->start) / 1e9,
				 (long long)(said - theta(t, p[i].at)), (long long)bound);
	}
	return known;
}

static void a_clock_that_steps_is_seen_and_nothing_is_guessed(void **state)
{
	static const int64_t steps[] = {-50 * MS, 50 * MS, -1 * MS, 3600 * S};

	(void)state;
	for (size_t i = 0; i < 12; i++) {
		struct truth t = {.offset = 3 * S, .start = 7 * S, .pieces = 2};
		struct tcp_net_clock c = {0};
		size_t known;

		/*
		 * The machine was suspended, or its clock was set, while a packet was in transit or
		 * not.
		 */
		t.piece[0].for_ns = 2700 * MS + (int64_t)(random_u64() % (2 * MS));
		t.piece[0].skew = 20e-6;
		t.piece[1].step = steps[i % 4];
		t.piece[1].skew = -20e-6;
		known = looked_at(&t, &c, 0);
		assert_int_equal(c.stepped, 1);
		assert_in_range(known, 11980, 12000);
		tcp_net_clock_free(&c);
	}
}

/*
 * A daemon that slews by ticks, 80 ms in a second: this exceeds the assumption and must be noticed,
 * except for what is less than a round trip.
 */
static void a_clock_that_is_too_fast_is_not_believed(void **state)
{
	struct truth t = {.offset = 3 * S, .start = 7 * S, .pieces = 3};
	struct tcp_net_clock c = {0};
	size_t known;

	(void)state;
	t.piece[0].for_ns = 2500 * MS;
	t.piece[1].for_ns = 1000 * MS;
	t.piece[1].skew = 0.08;
	known = looked_at(&t, &c, 500000);
	assert_int_equal(c.stepped, 1);
	assert_in_range(known, 9800, 10020); /* of 12000, less those of that second */
	tcp_net_clock_free(&c);
}

static void packets_one_way_only_tell_nothing(void **state)
{
	struct tcp_net_point p[3] = {{1, 5, false}, {2, 6, false}, {3, 7, false}};
	struct tcp_net_clock c = {0};
	int64_t said, bound;

	(void)state;
	assert_int_equal(tcp_net_clock_add(&c, p, 3, 0, 10), 0);
	assert_int_equal(c.one_way, 1);
	assert_false(tcp_net_clock_at(&c, 5, &said, &bound));
	assert_int_equal(tcp_net_clock_add(&c, p, 0, 11, 20), 0);
	assert_false(tcp_net_clock_at(&c, 15, &said, &bound));
	tcp_net_clock_free(&c);
}

static void only_the_last_two_windows_are_remembered(void **state)
{
	const struct truth t = clocks(WALKING);
	struct tcp_net_clock c = {.most = 1};
	struct tcp_net_point p[400];
	int64_t said, bound;

	(void)state;
	for (int w = 0; w < 100; w++) {
		int64_t from = t.start + S * w;

		for (int i = 0; i < 400; i++)
			p[i] = point(&t, i & 1, from - S + S / 200 * i, 20000);
		assert_int_equal(tcp_net_clock_add(&c, p, 400, from, from + S - 1), 0);
		assert_true(c.apexes <= 3 * (200 + 10));
		for (int k = 0; k < (w ? 2 : 1); k++) {
			assert_true(tcp_net_clock_at(&c, from - k * S, &said, &bound));
			assert_true(llabs(said - theta(&t, from - k * S)) <= bound);
		}
	}
	assert_false(tcp_net_clock_at(&c, t.start + 96 * S, &said, &bound));
	tcp_net_clock_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_truth_is_within_the_bound_at_any_rates),
		cmocka_unit_test(many_packets_bound_it_by_half_the_fastest_rtt),
		cmocka_unit_test(few_packets_are_bounded_by_their_own_rtt),
		cmocka_unit_test(a_clock_that_steps_is_seen_and_nothing_is_guessed),
		cmocka_unit_test(a_clock_that_is_too_fast_is_not_believed),
		cmocka_unit_test(packets_one_way_only_tell_nothing),
		cmocka_unit_test(only_the_last_two_windows_are_remembered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
