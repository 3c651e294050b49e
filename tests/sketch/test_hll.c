// SPDX-License-Identifier: Apache-2.0
/* test_hll.c - HyperLogLog's error over many seeds. */
#include <errno.h>
#include <stdio.h>

#include "support/test.h"
#include "sketch/cells.h"
#include "streams.h"

/*
 * The root mean square over the seeds equals the standard error within four of its own standard
 * errors, 1 / sqrt(120) with 60 seeds. A deviating mean is a bias.
 */
static void error_is_as_stated_at_any_number_of_keys(void **state)
{
	const uint32_t counts[] = {1, 10, 100, 700, 1500, 3000, 6000, 20000};
	enum { SEEDS = 60, COUNTS = sizeof(counts) / sizeof(*counts) };

	(void)state;
	for (uint32_t p = 6; p <= 10; p += 2) {
		double sum[COUNTS] = {0}, square[COUNTS] = {0}, error = 0;

		for (uint64_t seed = 0; seed < SEEDS; seed++) {
			uint8_t reg[1 << 10] = {0};
			struct sketch_cells s;
			uint64_t n = 0;
			double absolute;

			assert_int_equal(sketch_cells_init(&s, SKETCH_HLL, 1u << p, 1, seed, reg),
					 0);
			assert_true(sketch_cells_estimate(&s, 0, &absolute) == 0);
			for (int c = 0; c < COUNTS; c++) {
				double off, value;

				/* Consecutive numbers: the mixer must spread them. */
				for (; n < counts[c]; n++) {
					uint64_t key = n << 8;

					sketch_cells_add(&s, sketch_hash_bytes(&key, 8, seed), 1);
				}
				value = sketch_cells_estimate(&s, 0, &absolute);
				error = absolute / value;
				off = value / (double)n - 1;
				sum[c] += off;
				square[c] += off * off;
			}
		}
		for (int c = 0; c < COUNTS; c++) {
			assert_true(sqrt(square[c] / SEEDS) <= error * (1 + 4 / sqrt(2.0 * SEEDS)));
			assert_true(fabs(sum[c] / SEEDS) <= 4 * error / sqrt(SEEDS));
		}
	}
}

static void precision_out_of_range_is_refused(void **state)
{
	struct sketch_cells s;

	(void)state;
	assert_int_equal(sketch_cells_init(&s, SKETCH_HLL, 8, 1, 0, NULL), -EINVAL);
	assert_int_equal(sketch_cells_init(&s, SKETCH_HLL, 1u << 21, 1, 0, NULL), -EINVAL);
	assert_int_equal(sketch_cells_init(&s, SKETCH_HLL, 33, 1, 0, NULL), -EINVAL);
	assert_int_equal(sketch_cells_init(&s, SKETCH_HLL, 32, 2, 0, NULL), -EINVAL);
}

/* Every register at its maximum, and one above it. */
static void forged_registers_are_refused(void **state)
{
	struct sketch_cells s;
	uint8_t reg[32];
	double error;

	(void)state;
	memset(reg, 64 - 5 + 1, sizeof(reg));
	assert_int_equal(sketch_cells_init(&s, SKETCH_HLL, sizeof(reg), 1, 1, reg), 0);
	assert_int_equal(sketch_cells_check(&s), 0);
	assert_true(isfinite(sketch_cells_estimate(&s, 0, &error)) && isfinite(error));
	reg[17]++;
	assert_int_equal(sketch_cells_check(&s), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(error_is_as_stated_at_any_number_of_keys),
		cmocka_unit_test(precision_out_of_range_is_refused),
		cmocka_unit_test(forged_registers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
