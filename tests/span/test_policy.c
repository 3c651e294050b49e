// SPDX-License-Identifier: Apache-2.0
/* Which traces are kept: errors and slow ones first, within the budget, and no name learns for another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "act/trace.h"

static uint64_t ids;

static enum sl_trace_reason decide(struct sl_trace_policy *p, const char *name, uint64_t ns,
				   bool error, bool verdict)
{
	struct sl_trace_facts f = {.name = name,
				   .trace_hi = 1,
				   .trace_lo = ++ids * 0x9e3779b97f4a7c15ull,
				   .duration_ns = ns,
				   .error = error,
				   .verdict = verdict};

	return sl_trace_decide(p, &f);
}

static void slow_is_held_against_the_median_of_its_name(void **state)
{
	struct sl_trace_policy *p = sl_trace_policy_new(NULL);

	(void)state;
	/* Not before it was learned. */
	for (int i = 0; i < 20; i++)
		assert_int_equal(
			decide(p, "a", i == 10 ? 900000000 : 1000000 + (uint64_t)i, false, false),
			SL_TRACE_NO);
	assert_int_equal(decide(p, "a", 5000000, false, false), SL_TRACE_SLOW);
	/* At most 9 % below five medians, never above. */
	assert_true(sl_trace_slow_ns(p, "a") <= 5000000 && sl_trace_slow_ns(p, "a") >= 4440000);
	assert_int_equal(decide(p, "a", 4000000, false, false), SL_TRACE_NO);
	assert_int_equal(decide(p, "b", 5000000, false, false), SL_TRACE_NO);
	assert_true(sl_trace_slow_ns(p, "b") == UINT64_MAX);
	/* It forgets: what was slow becomes what is usual. */
	for (int i = 0; i < 20000; i++)
		decide(p, "a", 20000000, false, false);
	assert_int_equal(decide(p, "a", 20000000, false, false), SL_TRACE_NO);
	assert_int_equal(decide(p, "a", 101000000, false, false), SL_TRACE_SLOW);
	/* Whatever can be said in 64 bits. */
	assert_int_equal(decide(p, "c", 0, false, false), SL_TRACE_NO);
	assert_int_equal(decide(p, "c", UINT64_MAX, false, false), SL_TRACE_NO);
	sl_trace_policy_free(p);
}

static void the_budget_holds_and_errors_get_the_last_of_it(void **state)
{
	struct sl_trace_policy *p = sl_trace_policy_new(
		&(struct sl_trace_policy_opts){.budget = 0.1, .burst = 40, .head = 1});
	uint64_t kept[SL_TRACE_REASONS] = {0};
	struct sl_trace_policy_stats s;

	(void)state;
	/* Everything is kept by chance, until half of the burst is left. */
	for (int i = 0; i < 20; i++)
		assert_int_equal(decide(p, "n", 1000, false, false), SL_TRACE_HEAD);
	for (int i = 0; i < 10000; i++)
		kept[decide(p, "n", 1000, i % 100 == 0, i % 10 == 1)]++;
	sl_trace_policy_stats(p, &s);
	assert_int_equal(kept[SL_TRACE_ERROR], 100); /* none was left out */
	assert_true(kept[SL_TRACE_ERROR] + kept[SL_TRACE_VERDICT] + kept[SL_TRACE_HEAD] <=
		    1000 + 40);
	assert_true(kept[SL_TRACE_VERDICT] > 500);
	assert_int_equal(s.seen, 10020);
	assert_true(s.over_budget[SL_TRACE_HEAD] > 5000 && !s.over_budget[SL_TRACE_ERROR]);
	sl_trace_policy_free(p);
}

static void head_sampling_takes_its_share(void **state)
{
	struct sl_trace_policy *p = sl_trace_policy_new(
		&(struct sl_trace_policy_opts){.budget = 1, .burst = 1e6, .head = 0.2});
	unsigned int kept = 0;

	(void)state;
	for (int i = 0; i < 100000; i++)
		kept += decide(p, "n", 1000, false, false) == SL_TRACE_HEAD;
	assert_true(kept > 19000 && kept < 21000);
	sl_trace_policy_free(p);
}

static void names_are_bounded(void **state)
{
	struct sl_trace_policy *p =
		sl_trace_policy_new(&(struct sl_trace_policy_opts){.max_names = 10});
	struct sl_trace_policy_stats s;
	char name[16];

	(void)state;
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		decide(p, name, 1000, false, false);
	}
	sl_trace_policy_stats(p, &s);
	assert_int_equal(s.names, 10);
	assert_int_equal(s.names_refused, 990);
	sl_trace_policy_free(p);
	sl_trace_policy_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_is_held_against_the_median_of_its_name),
		cmocka_unit_test(the_budget_holds_and_errors_get_the_last_of_it),
		cmocka_unit_test(head_sampling_takes_its_share),
		cmocka_unit_test(names_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
