// SPDX-License-Identifier: Apache-2.0
/* test_ddsketch.c - DDSketch's promises against sorted values. */
#include <errno.h>
#include <float.h>

#include "support/test.h"
#include "exercise.h"
#include "streams.h"

enum { UNIFORM, LATENCY, PARETO, BIMODAL, ALL_DECADES, STEPS, SHAPES };

static double draw(int shape, uint64_t *seed)
{
	switch (shape) {
	case UNIFORM:
		return rnd_unit(seed);
	case LATENCY:
		return 0.01 * exp(rnd_normal(seed));
	case PARETO:
		return pow(rnd_unit(seed), -1);
	case BIMODAL:
		return rnd(seed) & 1 ? 1e-3 + 1e-5 * rnd_normal(seed) : 30 + rnd_normal(seed);
	case ALL_DECADES:
		return exp2(2040 * rnd_unit(seed) - 1020);
	default: /* powers of two and their neighbours: where the mapping changes its piece */
		return nextafter(exp2((int)(rnd(seed) % 60) - 30), rnd(seed) & 1 ? 0 : 1e99);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void quantiles_hold(const struct sketch_ddsketch *s, double *v, uint32_t n, double alpha)
{
	qsort(v, n, sizeof(*v), by_value);
	for (int i = 0; i <= 200; i += alpha < 0.001 ? 20 : 1) {
		double q = i / 200.0, want = v[(uint32_t)(q * (n - 1))];
		double got = sketch_ddsketch_quantile(s, q);

		if (fabs(want) >= sketch_ddsketch_exact_from(s))
			assert_true(fabs(got - want) <= alpha * (1 + 1e-9) * fabs(want));
		else
			assert_true(fabs(got) <= sketch_ddsketch_exact_from(s) * (1 + alpha));
	}
	assert_true(sketch_ddsketch_quantile(s, 0) == v[0]);
	assert_true(sketch_ddsketch_quantile(s, 1) == v[n - 1]);
}

static void every_quantile_is_within_alpha(void **state)
{
	const double alphas[] = {0.0005, 0.01, 0.05, 0.4};
	static double v[2000];
	uint64_t seed = 1;

	(void)state;
	for (unsigned int flags = 0; flags < 4; flags++)
		for (int shape = 0; shape < SHAPES; shape++)
			for (size_t a = 0; a < sizeof(alphas) / sizeof(*alphas); a++) {
				struct sketch_ddsketch *s = sketch_ddsketch_new(alphas[a], 1 << 20,
										flags);

				for (uint32_t i = 0; i < 2000; i++) {
					v[i] = draw(shape, &seed);
					if (flags & SKETCH_DDSKETCH_SIGNED && rnd(&seed) % 3 == 0)
						v[i] = rnd(&seed) % 4 ? -v[i] : 0;
					assert_int_equal(sketch_ddsketch_add(s, v[i], 1), 0);
				}
				assert_int_equal(sketch_ddsketch_count(s), 2000);
				if (alphas[a] > 0.001)
					assert_true(sketch_ddsketch_exact_from(s) == 0);
				quantiles_hold(s, v, 2000, alphas[a]);
				sketch_ddsketch_free(s);
			}
}

/* Bin by bin: both ends of each bin, and just beyond, for all magnitudes there are. */
static void no_value_is_further_than_alpha_from_its_bin(void **state)
{
	uint64_t seed = 2;

	(void)state;
	for (unsigned int flags = 0; flags < 2; flags++) {
		struct sketch_ddsketch *s = sketch_ddsketch_new(0.01, 16, flags);

		for (uint32_t i = 0; i < 15000; i++) {
			double x = exp2(2045 * rnd_unit(&seed) - 1022), got;

			if (i % 3 == 0)
				x = nextafter(exp2((int)(i % 2045) - 1022), i & 1 ? 0 : DBL_MAX);
			if (x < DBL_MIN)
				continue;
			/* The middle one of three: no clamping to the extremes helps. */
			sketch_ddsketch_clear(s);
			sketch_ddsketch_add(s, x * 0.97, 1);
			sketch_ddsketch_add(s, x, 1);
			sketch_ddsketch_add(s, fmin(x * 1.03, DBL_MAX), 1);
			got = sketch_ddsketch_quantile(s, 0.5);
			assert_true(fabs(got - x) <= 0.01 * (1 + 1e-9) * x);
		}
		sketch_ddsketch_free(s);
	}
}

static void collapsing_keeps_the_large_ones(void **state)
{
	static double v[4000];
	uint64_t seed = 3;

	(void)state;
	for (int order = 0; order < 6; order++) {
		const unsigned int flags = order < 3 ? SKETCH_DDSKETCH_SIGNED : 0;
		struct sketch_ddsketch *s = sketch_ddsketch_new(0.01, 256, flags), *other;

		for (uint32_t i = 0; i < 4000; i++)
			v[i] = (flags && rnd(&seed) & 1 ? -1 : 1) * exp2(60 * rnd_unit(&seed) - 30);
		if (order % 3)
			qsort(v, 4000, sizeof(*v), by_value);
		for (uint32_t i = 0; i < 4000; i++)
			sketch_ddsketch_add(s, v[order % 3 == 1 ? i : 3999 - i], 1);
		assert_true(sketch_ddsketch_exact_from(s) > 0);
		/* 256 bins of 2 % are 7.3 powers of two, of which the last stays whole. */
		assert_true(sketch_ddsketch_exact_from(s) < exp2(30 - 7));
		/* That it is collapsed goes along with a merge. */
		other = sketch_ddsketch_new(0.01, 256, flags);
		assert_int_equal(sketch_ddsketch_merge(other, s), 0);
		assert_true(ddsketch_same(other, s));
		quantiles_hold(s, v, 4000, 0.01);
		sketch_ddsketch_free(s);
		sketch_ddsketch_free(other);
	}
}

/* Whatever the order and the parts: collapsed, wide, weighted, one empty. */
static void merged_in_any_tree_is_the_whole_bit_for_bit(void **state)
{
	uint64_t seed = 4;

	(void)state;
	for (int round = 0; round < 60; round++) {
		enum { PARTS = 7 };
		const unsigned int flags = (unsigned int)(round & 3);
		const uint32_t bins = 1u << (4 + round % 9);
		struct sketch_ddsketch *part[PARTS],
			*whole = sketch_ddsketch_new(0.02, bins, flags);

		for (int p = 0; p < PARTS; p++)
			part[p] = sketch_ddsketch_new(0.02, bins, flags);
		for (int i = 0; i < 700; i++) {
			double x = draw((round + i) % SHAPES, &seed);
			uint64_t n = rnd(&seed) % 3;

			if (flags & SKETCH_DDSKETCH_SIGNED && rnd(&seed) & 1)
				x = -x;
			if (i % 50 == 0)
				x = 0;
			assert_int_equal(sketch_ddsketch_add(whole, x, n), 0);
			assert_int_equal(sketch_ddsketch_add(part[rnd(&seed) % (PARTS - 1)], x, n),
					 0);
		}
		for (int left = PARTS; left > 1; left--) {
			int a = (int)(rnd(&seed) % (uint64_t)(left - 1));

			assert_int_equal(sketch_ddsketch_merge(part[a], part[left - 1]), 0);
		}
		assert_true(ddsketch_same(part[0], whole));
		for (int p = 0; p < PARTS; p++)
			sketch_ddsketch_free(part[p]);
		sketch_ddsketch_free(whole);
	}
}

static void what_is_no_value_changes_nothing(void **state)
{
	struct sketch_ddsketch *s = sketch_ddsketch_new(0.01, 64, 0), *was, *other;

	(void)state;
	assert_true(isnan(sketch_ddsketch_quantile(s, 0.5)));
	sketch_ddsketch_add(s, 5, 2);
	was = ddsketch_copy(s);
	assert_int_equal(sketch_ddsketch_add(s, NAN, 1), -EINVAL);
	assert_int_equal(sketch_ddsketch_add(s, INFINITY, 1), -EINVAL);
	assert_int_equal(sketch_ddsketch_add(s, -INFINITY, 1), -EINVAL);
	assert_int_equal(sketch_ddsketch_add(s, -1, 1), -EINVAL); /* not SKETCH_DDSKETCH_SIGNED */
	assert_int_equal(sketch_ddsketch_add(s, 7, 0), 0);
	assert_int_equal(sketch_ddsketch_add(s, 7, UINT64_MAX - 1), -EOVERFLOW);
	assert_int_equal(sketch_ddsketch_merge(s, s), -EINVAL);
	other = sketch_ddsketch_new(0.02, 64, 0);
	assert_int_equal(sketch_ddsketch_merge(s, other), -EINVAL);
	sketch_ddsketch_add(s, 5, UINT64_MAX - 2);
	assert_int_equal(sketch_ddsketch_merge(s, was), -EOVERFLOW);
	assert_int_equal(sketch_ddsketch_count(s), UINT64_MAX);
	assert_true(fabs(sketch_ddsketch_quantile(s, 0.5) - 5) <= 0.05);
	sketch_ddsketch_free(s);
	s = ddsketch_copy(was);
	assert_int_equal(sketch_ddsketch_add(s, 0, 3), 0);
	assert_int_equal(sketch_ddsketch_add(s, -0.0, 1), 0);
	assert_int_equal(sketch_ddsketch_add(s, 0x1p-1074, 1), 0);
	assert_true(sketch_ddsketch_quantile(s, 0.5) == 0);
	assert_true(isnan(sketch_ddsketch_quantile(s, -0.1)) &&
		    isnan(sketch_ddsketch_quantile(s, NAN)));
	sketch_ddsketch_free(s);
	sketch_ddsketch_free(was);
	sketch_ddsketch_free(other);
	sketch_ddsketch_free(NULL);
	assert_null(sketch_ddsketch_new(0, 64, 0));
	assert_null(sketch_ddsketch_new(NAN, 64, 0));
	assert_null(sketch_ddsketch_new(0.01, 65, 0));
	assert_null(sketch_ddsketch_new(0.01, 8, 0));
	assert_null(sketch_ddsketch_new(0.01, 64, 4));
	assert_int_equal(errno, EINVAL);
}

static bool taken(const void *data, size_t n)
{
	struct sketch_ddsketch *s = ddsketch_taken(data, n);

	sketch_ddsketch_free(s);
	return s != NULL;
}

static void more_bins_than_there_are_are_refused(void **state)
{
	struct sketch_ddsketch *s = sketch_ddsketch_new(0.1, 32, 0);
	uint8_t *buf;
	size_t n;

	(void)state;
	for (int i = 0; i < 20; i++)
		sketch_ddsketch_add(s, exp(i * 0.3), 1);
	buf = ddsketch_saved(s, &n);
	assert_true(buf[24] == 32 && n > 24 + 20 * 8);
	buf[24] = 16;
	sketch_wire_seal(buf, n);
	assert_false(taken(buf, n));
	free(buf);
	sketch_ddsketch_free(s);
}

static void damaged_bytes_are_refused_and_forged_harmless(void **state)
{
	(void)state;
	for (unsigned int flags = 0; flags < 4; flags++) {
		struct sketch_ddsketch *s = sketch_ddsketch_new(0.1, 16, flags);
		uint64_t seed = 5;
		uint8_t *good;
		size_t n;

		for (int i = 0; i < 40; i++)
			sketch_ddsketch_add(s, (flags & 2 && i & 1 ? -1 : 1) * draw(LATENCY, &seed),
					    1);
		good = ddsketch_saved(s, &n);
		exercise_damage(good, n, exercise_ddsketch, taken);
		free(good);
		sketch_ddsketch_free(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_quantile_is_within_alpha),
		cmocka_unit_test(no_value_is_further_than_alpha_from_its_bin),
		cmocka_unit_test(collapsing_keeps_the_large_ones),
		cmocka_unit_test(merged_in_any_tree_is_the_whole_bit_for_bit),
		cmocka_unit_test(what_is_no_value_changes_nothing),
		cmocka_unit_test(more_bins_than_there_are_are_refused),
		cmocka_unit_test(damaged_bytes_are_refused_and_forged_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
