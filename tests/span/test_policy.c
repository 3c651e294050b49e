// SPDX-License-Identifier: Apache-2.0
/*
 * test_policy.c - which traces are kept: reasons, budget, order, start and memory, as documented in
 * act/trace.h.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "../analyse/noise.h"
#include "act/trace.h"

static uint64_t ids;

static struct act_trace_policy *policy(struct act_trace_policy_opts o)
{
	struct act_trace_policy *p = act_trace_policy_new(&o);

	assert_non_null(p);
	return p;
}

static enum act_trace_reason took(struct act_trace_policy *p, uint64_t route, uint64_t ns)
{
	struct act_trace_facts f = {
		.root = 7, .route = route, .trace_lo = ++ids, .duration_ns = ns};

	return act_trace_decide(p, &f);
}

static enum act_trace_reason scored(struct act_trace_policy *p, double score, double others)
{
	struct act_trace_facts f = {.root = 7,
				    .route = 8,
				    .trace_lo = ++ids,
				    .duration_ns = 1000,
				    .score = score,
				    .others = others};

	return act_trace_decide(p, &f);
}

/* ---- slow ---- */

static void slow_is_held_against_the_median_of_its_route(void **state)
{
	struct act_trace_policy *p = policy((struct act_trace_policy_opts){.budget = 0.5});

	(void)state;
	/* Not before three were seen. */
	for (int i = 0; i < 3; i++)
		assert_int_equal(took(p, 1, i == 1 ? 900000000 : 1000000), ACT_TRACE_NO);
	for (int i = 0; i < 200; i++)
		assert_int_equal(took(p, 1, 1000000), ACT_TRACE_NO);
	/*
	 * The median is accurate to 3 %, so a trace is slow from 5.15 medians on, and not below
	 * 3.85.
	 */
	assert_int_equal(took(p, 1, 5150000), ACT_TRACE_SLOW);
	assert_int_equal(took(p, 1, 3850000), ACT_TRACE_NO);
	/* A duration that is slow here is not slow there. */
	for (int i = 0; i < 200; i++)
		assert_int_equal(took(p, 2, 300000000), i < 3 ? ACT_TRACE_SLOW : ACT_TRACE_NO);
	assert_int_equal(took(p, 1, 5150000), ACT_TRACE_SLOW);
	/*
	 * It forgets, so a new usual duration becomes usual before it has been seen more often than
	 * the old one.
	 */
	for (int i = 0; i < 40000; i++)
		took(p, 1, 1000000);
	assert_int_equal(took(p, 1, 9000000), ACT_TRACE_SLOW);
	for (int i = 0; i < 20000; i++)
		took(p, 1, 3000000);
	assert_int_equal(took(p, 1, 9000000), ACT_TRACE_NO);
	/* Even if it was slow at first. */
	for (int i = 0; i < 1000000; i++)
		took(p, 1, 30000000);
	assert_int_equal(took(p, 1, 30000000), ACT_TRACE_NO);
	/* Extreme values of 64 bits. */
	took(p, 3, 0);
	for (int i = 0; i < 64; i++)
		took(p, 3, 1ull << i);
	assert_int_equal(took(p, 3, UINT64_MAX), ACT_TRACE_SLOW);
	act_trace_policy_free(p);
}

static void slow_has_floors(void **state)
{
	struct act_trace_policy_opts o = {.budget = 0.5, .slow_floor_ns = 1000000};
	struct act_trace_policy *p = policy(o);

	(void)state;
	/* 50 medians, of microseconds. */
	for (int i = 0; i < 200; i++)
		assert_int_equal(took(p, 1, 10000), ACT_TRACE_NO);
	assert_int_equal(took(p, 1, 500000), ACT_TRACE_NO);
	assert_int_equal(took(p, 1, 1000000), ACT_TRACE_SLOW);
	act_trace_policy_free(p);
	/* A seventh of the traces takes 6 medians, which is usual here; 20 medians are not. */
	for (int spread = 0; spread <= 2; spread += 2) {
		unsigned int kept = 0;

		o.slow_spread = spread;
		p = policy(o);
		for (int i = 0; i < 700; i++)
			kept += took(p, 1, i % 7 ? 10000000 : 60000000) == ACT_TRACE_SLOW;
		if (spread)
			assert_true(kept < 10);
		else
			assert_true(kept > 50);
		assert_int_equal(took(p, 1, 200000000), ACT_TRACE_SLOW);
		act_trace_policy_free(p);
	}
}

static void while_a_route_is_young_its_root_decides(void **state)
{
	struct act_trace_policy *p = policy((struct act_trace_policy_opts){.budget = 0.5});

	(void)state;
	for (int i = 0; i < 100; i++)
		took(p, 1, 1000000);
	assert_int_equal(took(p, 2, 9000000), ACT_TRACE_SLOW);
	assert_int_equal(took(p, 3, 1000000), ACT_TRACE_NO);
	assert_int_equal(took(p, 0, 9000000), ACT_TRACE_SLOW); /* the participants are not known */
	act_trace_policy_free(p);
}

static void a_route_is_a_root_and_a_set(void **state)
{
	uint64_t abc[] = {1, 2, 3}, cab[] = {3, 1, 2}, twins[] = {2, 3, 1, 3, 3, 2}, ab[] = {1, 2};
	uint64_t key = act_trace_route(9, abc, 3);

	(void)state;
	assert_true(key == act_trace_route(9, cab, 3));
	assert_true(key == act_trace_route(9, twins, 6));
	assert_true(key != act_trace_route(8, abc, 3));
	assert_true(key != act_trace_route(9, ab, 2));
	assert_true(act_trace_route(9, NULL, 0) != act_trace_route(8, NULL, 0));
	assert_true(act_trace_key("ab", 2) == act_trace_key("abc", 2));
	assert_true(act_trace_key("ab", 2) != act_trace_key("ba", 2));
}

static void slow_traces_stay_within_budget_whenever_they_come(void **state)
{
	struct act_trace_policy *p =
		policy((struct act_trace_policy_opts){.budget = 0.15, .total = 20000});
	uint64_t seed = 1, kept = 0, slow = 0, slow_kept = 0;

	(void)state;
	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t route = 1 + sketch_random_next(&seed) % 20;
		/* A long fault before much is known, and short ones. */
		bool is_slow = i >= 800 && i < 2000 ? i % 10 : i > 2000 && i % 1000 >= 950;
		/* Routes differ by factors, with noise of a third. */
		double ns = 1e6 * (double)route * exp(0.3 * noise_normal(&seed));
		enum act_trace_reason r = took(p, route, (uint64_t)(is_slow ? 12 * ns : ns));

		kept += r != ACT_TRACE_NO;
		slow += is_slow;
		slow_kept += is_slow && r == ACT_TRACE_SLOW;
	}
	assert_true(kept <= 3000);
	assert_true(slow_kept * 100 >= slow * 99);
	act_trace_policy_free(p);
}

/* ---- budget ---- */

/* Any reasons to keep traces, in any order. */
static void no_stretch_of_traces_exceeds_the_budget(void **state)
{
	enum { N = 40000, WINDOW = 2000 };
	struct act_trace_policy_opts o = {.budget = 0.1, .window = WINDOW, .head = 0.3};
	struct act_trace_policy *p = policy(o);
	static uint32_t sum[N + 1];
	struct act_trace_policy_stats s;
	uint64_t seed = 3;

	(void)state;
	for (int i = 0; i < N; i++) {
		/* Periods of quiet, of mixed reasons, and of errors only. */
		int kind = i / 3000 % 3;
		struct act_trace_facts f = {
			.root = 1,
			.route = 1 + sketch_random_next(&seed) % 5,
			.trace_lo = ++ids,
			.duration_ns = kind && noise_uniform(&seed) < 0.3 ? 50000000 : 1000000,
			.error = kind == 2 || (kind && noise_uniform(&seed) < 0.1),
			.score = kind ? 2 * noise_uniform(&seed) : 0,
		};

		sum[i + 1] = sum[i] + (act_trace_decide(p, &f) != ACT_TRACE_NO);
		assert_true(sum[i + 1] <= 0.1 * (i + 1 + WINDOW / 2.0) + 1e-6);
	}
	for (int n = 1; n < N; n = n * 2 + 1)
		for (int i = n; i <= N; i++)
			assert_true(sum[i] - sum[i - n] <= 0.1 * (n + 1.5 * WINDOW) + 1e-6);
	assert_true(sum[N] > 0.08 * N); /* and it is used */
	act_trace_policy_stats(p, &s);
	assert_int_equal(s.seen, N);
	assert_int_equal(s.kept[ACT_TRACE_ERROR] + s.kept[ACT_TRACE_SLOW] +
				 s.kept[ACT_TRACE_VERDICT] + s.kept[ACT_TRACE_HEAD],
			 sum[N]);
	assert_true(s.over_budget[ACT_TRACE_ERROR] > 1000 && s.over_budget[ACT_TRACE_HEAD] > 0);
	assert_int_equal(s.kept[0] + s.over_budget[0], 0);
	act_trace_policy_free(p);
	/* Saved budget is limited, however long nothing happens. */
	p = policy((struct act_trace_policy_opts){.budget = 0.1, .window = WINDOW});
	for (int i = 0; i < N; i++)
		assert_int_equal(took(p, 1, 1000000), ACT_TRACE_NO);
	sum[0] = 0;
	for (int i = 0; i < WINDOW; i++)
		sum[0] += act_trace_decide(
				  p, &(struct act_trace_facts){.root = 1, .error = true}) != 0;
	assert_true(sum[0] <= 0.1 * 2.5 * WINDOW && sum[0] > 0.1 * 2.4 * WINDOW);
	act_trace_policy_free(p);
}

static void a_flood_of_errors_leaves_some_to_verdicts(void **state)
{
	struct act_trace_policy *p =
		policy((struct act_trace_policy_opts){.budget = 0.1, .window = 2000});
	struct act_trace_policy_stats s;

	(void)state;
	for (int i = 0; i < 50000; i++) {
		struct act_trace_facts f = {.root = 1,
					    .route = 1,
					    .trace_lo = ++ids,
					    .error = i % 10 != 0,
					    .score = i % 10 == 0 ? 2 : 0};

		act_trace_decide(p, &f);
	}
	act_trace_policy_stats(p, &s);
	/* A hundredth of the budget is reserved for them; errors get what they do not need. */
	assert_true(s.kept[ACT_TRACE_VERDICT] >= 45);
	assert_true(s.kept[ACT_TRACE_VERDICT] + s.kept[ACT_TRACE_ERROR] >= 5000);
	act_trace_policy_free(p);
}

static void of_a_recording_no_more_than_its_share_is_kept(void **state)
{
	struct act_trace_policy *p = policy(
		(struct act_trace_policy_opts){.budget = 0.2, .total = 10000, .at_start = true});
	uint64_t seed = 1, kept = 0;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		double score = 3 * noise_uniform(&seed);
		enum act_trace_reason r = scored(p, score, 0);

		assert_true(r == ACT_TRACE_NO || (r == ACT_TRACE_VERDICT && score > 1));
		kept += r != ACT_TRACE_NO;
	}
	assert_true(kept <= 2000 && kept > 1000);
	act_trace_policy_free(p);
	/* Fewer traces than the budget's share. */
	p = policy((struct act_trace_policy_opts){.budget = 0.2, .total = 4});
	for (int i = 0; i < 4; i++)
		assert_false(act_trace_afford(p, ACT_TRACE_ERROR));
	act_trace_policy_free(p);
}

/*
 * The root's pod looks normal, but a pod that it calls does not. Half of the budget is for such
 * traces.
 */
static void verdicts_on_others_fill_half_of_the_budget(void **state)
{
	struct act_trace_policy *p =
		policy((struct act_trace_policy_opts){.budget = 0.2, .total = 10000});
	uint64_t kept = 0;

	(void)state;
	for (int i = 0; i < 10000; i++)
		kept += scored(p, 0, 2) == ACT_TRACE_VERDICT;
	assert_true(kept > 900 && kept <= 1000);
	act_trace_policy_free(p);
}

/*
 * Evidence against any pod of a trace counts like the score of its root: four suspects with a third
 * of a threshold each, whatever the largest score is.
 */
static void suspicion_of_any_pod_weighs_like_the_roots_score(void **state)
{
	struct act_trace_facts f[] = {
		{.root = 1, .score = 1.3},
		{.root = 1, .others = 0.3, .suspicion = 1.3},
		{.root = 1, .score = 0.9, .others = 0.9, .suspicion = 0.9},
	};
	uint64_t kept[3] = {0};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct act_trace_policy *p =
			policy((struct act_trace_policy_opts){.budget = 0.2, .total = 10000});

		for (int k = 0; k < 10000; k++) {
			f[i].trace_lo = ++ids;
			kept[i] += act_trace_decide(p, &f[i]) == ACT_TRACE_VERDICT;
		}
		act_trace_policy_free(p);
	}
	assert_true(kept[0] > 1400 && kept[1] == kept[0] && kept[2] == 0);
}

/* ---- start ---- */

/*
 * For a recording, decided at the start: if verdicts are unrelated to the tenth of traces that
 * matter, the result is no worse than head sampling with the same budget, because all of it is
 * spent. Verdicts: none, on single traces, in bursts early or late, on all the time, only on
 * others.
 */
static void wrong_verdicts_are_no_worse_than_head_sampling(void **state)
{
	enum { NONE, SINGLE, EARLY, LATE, ALWAYS, OTHERS, RIGHT, KINDS };
	const int total = 20000;
	const double budget = 0.2;

	(void)state;
	for (int kind = 0; kind < KINDS; kind++) {
		struct act_trace_policy *p =
			policy((struct act_trace_policy_opts){.budget = budget,
							      .head = 2 * budget,
							      .total = (uint64_t)total,
							      .at_start = true});
		uint64_t seed = 4;
		int kept = 0, matter = 0, found = 0;

		for (int i = 0; i < total; i++) {
			bool matters = noise_uniform(&seed) < 0.1, says, kept_one;
			bool single = noise_uniform(&seed) < 0.05;
			int hour = i * 20 / total;

			says = kind == ALWAYS || (kind == SINGLE && single) ||
			       (kind == EARLY && hour < 5 && hour % 2) ||
			       (kind == LATE && hour >= 15 && hour % 2) ||
			       (kind == RIGHT && matters);
			kept_one = scored(p, says ? 2 : 0,
					  says || (kind == OTHERS && hour % 2) ? 2 : 0) !=
				   ACT_TRACE_NO;
			kept += kept_one;
			matter += matters;
			found += matters && kept_one;
		}
		/* Three standard deviations of 2000 random choices. */
		if (kept > budget * total || kept < 0.97 * budget * total ||
		    found < budget * matter - 3 * sqrt(matter * budget * (1 - budget)) ||
		    (kind == RIGHT && found < 0.95 * matter))
			fail_msg("kind %d: %d kept, %d of %d", kind, kept, found, matter);
		act_trace_policy_free(p);
	}
}

static void errors_are_kept_first_and_verdicts_get_a_share(void **state)
{
	struct act_trace_policy *p = policy((struct act_trace_policy_opts){.budget = 0.1});
	int first = 0;

	(void)state;
	assert_true(act_trace_could_afford(p, ACT_TRACE_ERROR));
	assert_int_equal(act_trace_decide(p, &(struct act_trace_facts){.root = 1, .error = true}),
			 ACT_TRACE_ERROR);
	act_trace_policy_free(p);
	p = policy((struct act_trace_policy_opts){.budget = 0.1});
	for (int i = 1; i <= 100 && !first; i++)
		first = scored(p, 2, 0) == ACT_TRACE_VERDICT ? i : 0;
	assert_true(first >= 10 && first <= 20);
	act_trace_policy_free(p);
	/* Nothing may be kept, or all of it. */
	p = policy((struct act_trace_policy_opts){.budget = 0});
	for (int i = 0; i < 100; i++)
		assert_int_equal(scored(p, 2, 2) + act_trace_afford(p, ACT_TRACE_ERROR), 0);
	act_trace_policy_free(p);
	errno = 0;
	assert_null(act_trace_policy_new(&(struct act_trace_policy_opts){.budget = 1.1}));
	assert_int_equal(errno, EINVAL);
	assert_null(act_trace_policy_new(&(struct act_trace_policy_opts){.budget = NAN}));
	assert_null(act_trace_policy_new(&(struct act_trace_policy_opts){.head = -1}));
}

static void what_is_kept_already_costs_nothing_and_is_learned(void **state)
{
	struct act_trace_policy *p = policy((struct act_trace_policy_opts){.budget = 0.5});
	struct act_trace_policy_stats s;

	(void)state;
	for (int i = 0; i < 50; i++)
		act_trace_decide(p, &(struct act_trace_facts){.root = 1,
							      .route = 2,
							      .duration_ns = 1000000,
							      .error = true,
							      .kept = true});
	act_trace_policy_stats(p, &s);
	assert_int_equal(s.kept[ACT_TRACE_ERROR] + s.over_budget[ACT_TRACE_ERROR], 0);
	assert_int_equal(act_trace_decide(p, &(struct act_trace_facts){.root = 1,
								       .route = 2,
								       .duration_ns = 9000000}),
			 ACT_TRACE_SLOW);
	act_trace_policy_free(p);
}

/* ---- order ---- */

static void head_sampling_takes_the_same_ids_everywhere(void **state)
{
	enum { N = 50000 };
	struct act_trace_policy_opts o = {.budget = 1, .head = 0.2};
	static bool in[N];
	unsigned int kept = 0;

	(void)state;
	/* In another order, with other pods, in another collector. */
	for (int turn = 0; turn < 2; turn++) {
		struct act_trace_policy *p = policy(o);

		for (uint64_t i = 0; i < N; i++) {
			uint64_t at = turn ? N - 1 - i : i;
			struct act_trace_facts f = {.root = 1 + (turn ? i % 7 : 0),
						    .trace_lo = at * 0x9e3779b97f4a7c15ull};
			bool head = act_trace_decide(p, &f) == ACT_TRACE_HEAD;

			/*
			 * The first 100 traces of either order may find no budget, and are not
			 * compared.
			 */
			assert_true(!turn || head == in[at] || at < 100 || at >= N - 100);
			in[at] = head;
			kept += head;
		}
		act_trace_policy_free(p);
	}
	assert_true(kept > 2 * 9500 && kept < 2 * 10500);
}

/* Traces swap places with their neighbours, as happens when pods are read in turn. */
static void neighbours_may_change_places(void **state)
{
	enum { N = 20000, BLOCK = 100 };
	static struct act_trace_facts facts[N];
	static bool kept[2][N];
	uint64_t seed = 5;

	(void)state;
	for (int i = 0; i < N; i++) {
		double ns = 1e6 * exp(0.3 * noise_normal(&seed));

		facts[i] = (struct act_trace_facts){.root = 1 + sketch_random_next(&seed) % 3,
						    .route = 4 + sketch_random_next(&seed) % 9,
						    .trace_lo = sketch_random_next(&seed)};
		facts[i].duration_ns = (uint64_t)(sketch_random_next(&seed) % 25 ? ns : 20 * ns);
		facts[i].error = sketch_random_next(&seed) % 50 == 0;
	}
	for (int turn = 0; turn < 2; turn++) {
		struct act_trace_policy *p =
			policy((struct act_trace_policy_opts){.budget = 0.15, .total = N});

		for (int i = 0; i < N; i++) {
			int at = turn ? i / BLOCK * BLOCK + BLOCK - 1 - i % BLOCK : i;

			kept[turn][at] = act_trace_decide(p, &facts[at]) != ACT_TRACE_NO;
		}
		act_trace_policy_free(p);
	}
	/* After the first traces, from which medians are computed. */
	for (int i = 1000; i < N; i++)
		assert_true(kept[0][i] == kept[1][i]);
}

/*
 * As long as the budget lasts: each median only depends on its own traces, and chance on the ids.
 */
static void what_else_there_is_does_not_matter(void **state)
{
	enum { N = 20000 };
	struct act_trace_policy *p = policy((struct act_trace_policy_opts){.budget = 1});
	struct act_trace_policy *q = policy((struct act_trace_policy_opts){.budget = 1});
	uint64_t seed = 11;

	(void)state;
	for (int i = 0; i < N; i++) {
		/* About one in four is close to the limit. */
		double ns = 1e6 * exp(0.3 * noise_normal(&seed)) *
			    (sketch_random_next(&seed) % 4 ? 1 : 3 + 3 * noise_uniform(&seed));
		struct act_trace_facts f = {.root = 1,
					    .route = 2,
					    .trace_lo = sketch_random_next(&seed),
					    .duration_ns = (uint64_t)ns};
		struct act_trace_facts other = {
			.root = 3, .route = 4, .trace_lo = i, .duration_ns = 7000000};
		enum act_trace_reason reason = act_trace_decide(p, &f);

		act_trace_decide(q, &other);
		assert_true(act_trace_decide(q, &f) == reason || i < 100);
	}
	act_trace_policy_free(p);
	act_trace_policy_free(q);
}

/* ---- memory ---- */

static void names_that_come_once_drive_out_none_that_stay(void **state)
{
	struct act_trace_policy *p =
		policy((struct act_trace_policy_opts){.budget = 0.5, .max_routes = 64});
	struct act_trace_policy_stats s;

	(void)state;
	for (uint64_t i = 0; i < 100; i++)
		for (uint64_t r = 101; r <= 120; r++)
			took(p, r, 1000000 * r);
	for (uint64_t i = 0; i < 10000; i++) {
		struct act_trace_facts f = {.root = 7, .route = 1000 + i, .duration_ns = 1000000};

		act_trace_decide(p, &f);
	}
	for (uint64_t r = 101; r <= 120; r++) {
		assert_int_equal(took(p, r, 3000000 * r), ACT_TRACE_NO);
		assert_int_equal(took(p, r, 6000000 * r), ACT_TRACE_SLOW);
	}
	act_trace_policy_stats(p, &s);
	assert_int_equal(s.routes, 64);
	assert_int_equal(s.evicted, 20 + 1 + 10000 - 64);
	act_trace_policy_free(p);
	act_trace_policy_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_is_held_against_the_median_of_its_route),
		cmocka_unit_test(slow_has_floors),
		cmocka_unit_test(while_a_route_is_young_its_root_decides),
		cmocka_unit_test(a_route_is_a_root_and_a_set),
		cmocka_unit_test(slow_traces_stay_within_budget_whenever_they_come),
		cmocka_unit_test(no_stretch_of_traces_exceeds_the_budget),
		cmocka_unit_test(a_flood_of_errors_leaves_some_to_verdicts),
		cmocka_unit_test(of_a_recording_no_more_than_its_share_is_kept),
		cmocka_unit_test(verdicts_on_others_fill_half_of_the_budget),
		cmocka_unit_test(suspicion_of_any_pod_weighs_like_the_roots_score),
		cmocka_unit_test(wrong_verdicts_are_no_worse_than_head_sampling),
		cmocka_unit_test(errors_are_kept_first_and_verdicts_get_a_share),
		cmocka_unit_test(what_is_kept_already_costs_nothing_and_is_learned),
		cmocka_unit_test(head_sampling_takes_the_same_ids_everywhere),
		cmocka_unit_test(neighbours_may_change_places),
		cmocka_unit_test(what_else_there_is_does_not_matter),
		cmocka_unit_test(names_that_come_once_drive_out_none_that_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
