// SPDX-License-Identifier: Apache-2.0
/* test_share.c - fair shares: how much is left for others when some tenants are greedy. */
#include "support/test.h"

#include "base/share.h"

#define CAPACITY 4096u

static const struct base_share empty = {CAPACITY, 0, CAPACITY / BASE_SHARE_RESERVE};

/* Takes as much as it may, in claims of `want`. */
static void take_all(struct base_share *s, uint64_t *held, uint64_t want, bool trusted)
{
	while (base_share_may(s, *held, want, trusted)) {
		*held += want;
		s->used += want;
	}
}

static void one_takes_half_of_what_is_not_reserved(void **state)
{
	struct base_share s = empty;
	uint64_t held = 0;

	(void)state;
	take_all(&s, &held, 1, false);
	assert_int_equal(held, (CAPACITY - s.reserve) / 2);
	assert_int_equal(base_share_limit(&s, held, false), held);
}

static void each_leaves_as_much_as_it_takes(void **state)
{
	struct base_share s = empty;

	(void)state;
	for (unsigned int n = 0; n < 100; n++) {
		uint64_t open = CAPACITY - s.reserve, held = 0;

		open -= s.used < open ? s.used : open;
		take_all(&s, &held, 1, false);
		assert_true(held >= open / 2 && held <= open / 2 + 1);
		if (s.used < CAPACITY)
			assert_true(held >= 1); /* the first claim, out of the reserve */
	}
	/* Capacity that some give back is available to those who have little. */
	s.used = CAPACITY / 2;
	assert_true(base_share_may(&s, 1, CAPACITY / 8, false));
}

static void a_newcomers_first_claim_needs_no_share(void **state)
{
	struct base_share s = empty;

	(void)state;
	s.used = CAPACITY - s.reserve; /* all but the reserve */
	assert_false(base_share_may(&s, 1, 1, false));
	assert_true(base_share_may(&s, 0, CAPACITY / 64, false));
	assert_false(base_share_may(&s, 0, CAPACITY / 64 + 1, false));
	s.used = CAPACITY;
	assert_false(base_share_may(&s, 0, 1, false));
	assert_false(base_share_may(&s, 0, 1, true));
	s.used = CAPACITY + 5; /* trusted tenants have exceeded the capacity */
	assert_false(base_share_may(&s, 0, 1, true));
	assert_true(base_share_may(&s, 0, 0, false));
}

static void the_trusted_may_take_what_is_free(void **state)
{
	struct base_share s = empty;
	uint64_t held = 0, stranger = 0;

	(void)state;
	take_all(&s, &stranger, 1, false);
	take_all(&s, &held, 1, true);
	assert_int_equal(held + stranger, CAPACITY);
}

static void small_and_huge_numbers_hold(void **state)
{
	struct base_share one = {1, 0, 0}, huge = {UINT64_MAX, 0, UINT64_MAX / 8};

	(void)state;
	assert_true(base_share_may(&one, 0, 1, false));
	one.used = 1;
	assert_false(base_share_may(&one, 1, 1, false));
	assert_false(base_share_may(&huge, 0, UINT64_MAX, false));
	assert_true(base_share_may(&huge, 0, 1ull << 62, false));
	assert_true(base_share_may(&huge, 0, UINT64_MAX, true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_takes_half_of_what_is_not_reserved),
		cmocka_unit_test(each_leaves_as_much_as_it_takes),
		cmocka_unit_test(a_newcomers_first_claim_needs_no_share),
		cmocka_unit_test(the_trusted_may_take_what_is_free),
		cmocka_unit_test(small_and_huge_numbers_hold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
