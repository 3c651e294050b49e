// SPDX-License-Identifier: Apache-2.0
/* test_hll.c - HyperLogLog's error over many seeds, and its unions. */
#include <errno.h>
#include <stdio.h>

#include "support/test.h"
#include "exercise.h"
#include "streams.h"

/*
 * The root mean square over the seeds is the standard error, give or take its own: with 60 seeds
 * 1 / sqrt(120), of which four are allowed. A mean that is off is a bias.
 */
static void error_is_as_stated_at_any_number_of_keys(void **state)
{
	const uint32_t counts[] = {1, 10, 100, 700, 1500, 3000, 6000, 20000};
	enum { SEEDS = 60, COUNTS = sizeof(counts) / sizeof(*counts) };

	(void)state;
	for (uint32_t p = 6; p <= 10; p += 2) {
		double sum[COUNTS] = {0}, square[COUNTS] = {0}, error = 0;

		for (uint64_t seed = 0; seed < SEEDS; seed++) {
			struct sketch_hll *s = sketch_hll_new(p, seed);
			uint32_t n = 0;

			error = sketch_hll_error(s);
			assert_true(sketch_hll_estimate(s) == 0);
			for (int c = 0; c < COUNTS; c++) {
				double off;

				/* Dense numbers: the mixer has to spread them. */
				for (; n < counts[c]; n++)
					sketch_hll_add_u64(s, n << 8);
				off = sketch_hll_estimate(s) / n - 1;
				sum[c] += off;
				square[c] += off * off;
			}
			sketch_hll_free(s);
		}
		for (int c = 0; c < COUNTS; c++) {
			assert_true(sqrt(square[c] / SEEDS) <= error * (1 + 4 / sqrt(2.0 * SEEDS)));
			assert_true(fabs(sum[c] / SEEDS) <= 4 * error / sqrt(SEEDS));
		}
	}
}

static void numbers_and_their_bytes_are_one_key(void **state)
{
	struct sketch_hll *a = sketch_hll_new(12, 7), *b = sketch_hll_new(12, 7);

	(void)state;
	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t key = i * 0x0123456789abcdefu;
		uint8_t bytes[8];

		for (int j = 0; j < 8; j++)
			bytes[j] = (uint8_t)(key >> 8 * j);
		sketch_hll_add_u64(a, key);
		sketch_hll_add(b, bytes, 8);
	}
	assert_true(hll_same(a, b));
	sketch_hll_free(a);
	sketch_hll_free(b);
}

static void precision_out_of_range_is_refused(void **state)
{
	(void)state;
	sketch_hll_free(NULL);
	assert_null(sketch_hll_new(SKETCH_HLL_MIN - 1, 0));
	assert_null(sketch_hll_new(SKETCH_HLL_MAX + 1, 0));
	assert_int_equal(errno, EINVAL);
}

static bool taken(const void *data, size_t n)
{
	struct sketch_hll *s = hll_taken(data, n);

	sketch_hll_free(s);
	return s != NULL;
}

static void damaged_bytes_are_refused_and_forged_harmless(void **state)
{
	struct sketch_hll *s = sketch_hll_new(5, 1);
	uint8_t *good, *full;
	size_t n;

	(void)state;
	for (uint64_t i = 0; i < 100; i++)
		sketch_hll_add_u64(s, i);
	good = hll_saved(s, &n);
	exercise_damage(good, n, exercise_hll, taken);
	sketch_hll_free(s);
	/* Every register as high as it can be, and one higher. */
	full = good + n - 8 - 32;
	memset(full, 64 - 5 + 1, 32);
	sketch_wire_seal(good, n);
	assert_true(taken(good, n));
	exercise_hll(good, n);
	full[17]++;
	sketch_wire_seal(good, n);
	assert_false(taken(good, n));
	free(good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(error_is_as_stated_at_any_number_of_keys),
		cmocka_unit_test(numbers_and_their_bytes_are_one_key),
		cmocka_unit_test(precision_out_of_range_is_refused),
		cmocka_unit_test(damaged_bytes_are_refused_and_forged_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
