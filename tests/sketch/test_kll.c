// SPDX-License-Identifier: Apache-2.0
/* test_kll.c - KLL's ranks against exact ones. */
#include <errno.h>

#include "support/test.h"
#include "exercise.h"
#include "streams.h"

enum { SORTED, REVERSED, NORMAL, ZOOM, SAWTOOTH, FEW, SHAPES };

static double value(int shape, uint32_t i, uint32_t n, uint64_t *seed)
{
	switch (shape) {
	case SORTED:
		return i;
	case REVERSED:
		return n - i;
	case NORMAL:
		return rnd_normal(seed);
	case ZOOM: /* from both ends towards the middle: hard for deterministic sketches */
		return i & 1 ? n - i / 2.0 : i / 2.0;
	case SAWTOOTH:
		return i % 97 * 1e5 + i;
	default: /* many are equal */
		return (double)(rnd(seed) % 5);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Values below x, and of no more than x, of n sorted ones. */
static void exact_rank(const double *v, uint32_t n, double x, double *below, double *with)
{
	uint32_t from = 0, to = n;

	while (from < to) {
		uint32_t mid = (from + to) / 2;

		if (v[mid] < x)
			from = mid + 1;
		else
			to = mid;
	}
	*below = from;
	for (to = n; from < to;) {
		uint32_t mid = (from + to) / 2;

		if (v[mid] <= x)
			from = mid + 1;
		else
			to = mid;
	}
	*with = from;
}

/*
 * Asks for `points` ranks and quantiles, and counts those that are further off than the bound for
 * delta allows. Adds up the squares of the ranks' errors, in units of S, which bounds their mean.
 */
static uint32_t count_off(struct sketch_kll *s, const double *v, uint32_t n, uint32_t points,
			  double delta, double *squares)
{
	const double root_s = sketch_kll_error(s, 2 / sqrt(M_E));
	const double bound = sketch_kll_error(s, delta);
	uint32_t off = 0;

	for (uint32_t i = 0; i < points; i++) {
		const double q = (i + 0.5) / points, x = v[(uint32_t)(q * n)];
		double below, with, got;

		exact_rank(v, n, x, &below, &with);
		got = sketch_kll_rank(s, x) - below;
		off += fabs(got) > bound;
		*squares += got * got / (root_s * root_s);
		got = sketch_kll_quantile(s, q);
		exact_rank(v, n, got, &below, &with);
		/* Its ranks reach from below to with; one of them has to be near. */
		off += q * (n - 1) < below - bound - 1 || q * (n - 1) > with + bound + 1;
	}
	return off;
}

static void rank_errors_exceed_the_bound_as_rarely_as_stated(void **state)
{
	enum { N = 20000, POINTS = 20, SEEDS = 12 };
	static double v[N];
	uint64_t stream = 1;

	(void)state;
	for (int shape = 0; shape < SHAPES; shape++)
		for (uint32_t k = SKETCH_KLL_K_MIN; k <= 200; k *= 5) {
			const double delta = 0.1;
			double off = 0, squares = 0;

			for (uint64_t seed = 0; seed < SEEDS; seed++) {
				struct sketch_kll *s = sketch_kll_new(k, seed);

				for (uint32_t i = 0; i < N; i++) {
					v[i] = value(shape, i, N, &stream);
					assert_int_equal(sketch_kll_add(s, v[i]), 0);
				}
				qsort(v, N, sizeof(*v), by_value);
				assert_int_equal(sketch_kll_count(s), N);
				assert_true(sketch_kll_quantile(s, 0) == v[0]);
				assert_true(sketch_kll_quantile(s, 1) == v[N - 1]);
				off += count_off(s, v, N, POINTS, delta, &squares);
				/* Not a bound that allows everything. */
				assert_true(sketch_kll_error(s, delta) < 6.0 * N / k);
				sketch_kll_free(s);
			}
			assert_true(off / (SEEDS * POINTS * 2) <= delta);
			assert_true(squares / (SEEDS * POINTS) <= 1);
		}
}

/* The coin has no side: over many seeds errors cancel out. */
static void ranks_are_right_on_average(void **state)
{
	enum { N = 3000, SEEDS = 400, POINTS = 9 };
	double sum[POINTS] = {0}, square[POINTS] = {0};

	(void)state;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct sketch_kll *s = sketch_kll_new(16, seed);

		for (uint32_t i = 0; i < N; i++)
			sketch_kll_add(s, i * 7 % N); /* 7 and N have no common factor but 1 */
		for (int p = 0; p < POINTS; p++) {
			double off = sketch_kll_rank(s, (p + 1) * 300) - (p + 1) * 300;

			sum[p] += off;
			square[p] += off * off;
		}
		sketch_kll_free(s);
	}
	for (int p = 0; p < POINTS; p++)
		assert_true(fabs(sum[p]) <= 4 * sqrt(square[p]));
}

static void few_values_are_kept_exactly(void **state)
{
	struct sketch_kll *s = sketch_kll_new(100, 1);

	(void)state;
	assert_true(isnan(sketch_kll_quantile(s, 0.5)));
	for (int i = 0; i < 100; i++)
		sketch_kll_add(s, i * 37 % 100);
	assert_true(sketch_kll_error(s, 1e-9) == 0);
	for (int i = 0; i < 100; i++) {
		assert_true(sketch_kll_rank(s, i) == i);
		assert_true(sketch_kll_quantile(s, (i + 0.5) / 100) == (int)((i + 0.5) / 100 * 99));
	}
	assert_int_equal(sketch_kll_add(s, NAN), -EINVAL);
	assert_int_equal(sketch_kll_count(s), 100);
	assert_int_equal(sketch_kll_add(s, INFINITY), 0);
	assert_int_equal(sketch_kll_add(s, -INFINITY), 0);
	assert_true(sketch_kll_quantile(s, 0) == -INFINITY &&
		    sketch_kll_quantile(s, 1) == INFINITY);
	assert_true(isnan(sketch_kll_quantile(s, 1.1)) && isnan(sketch_kll_quantile(s, NAN)));
	sketch_kll_free(s);
}

static void merged_trees_are_within_the_bound_of_the_whole(void **state)
{
	enum { PARTS = 8, N = 24000, POINTS = 20, SEEDS = 8 };
	static double v[N];
	uint64_t stream = 2;

	(void)state;
	for (int shape = 0; shape < SHAPES; shape++) {
		const double delta = 0.1;
		double off = 0, squares = 0;

		for (uint64_t seed = 0; seed < SEEDS; seed++) {
			struct sketch_kll *s[PARTS];
			double parts = 0;

			for (uint32_t p = 0; p < PARTS; p++)
				s[p] = sketch_kll_new(32, seed * PARTS + p);
			for (uint32_t i = 0; i < N; i++) {
				v[i] = value(shape, i, N, &stream);
				/* Parts of all sizes: some have many levels, some one. */
				sketch_kll_add(s[rnd(&stream) % (1 + rnd(&stream) % PARTS)], v[i]);
			}
			for (int p = 0; p < PARTS; p++)
				parts += pow(sketch_kll_error(s[p], delta), 2);
			if (seed & 1) /* one by one; otherwise in pairs */
				for (int p = 1; p < PARTS; p++)
					assert_int_equal(sketch_kll_merge(s[p], s[p - 1]), 0);
			else
				for (int step = 1; step < PARTS; step *= 2)
					for (int p = PARTS - 1; p >= step; p -= 2 * step)
						assert_int_equal(
							sketch_kll_merge(s[p], s[p - step]), 0);
			qsort(v, N, sizeof(*v), by_value);
			assert_int_equal(sketch_kll_count(s[PARTS - 1]), N);
			assert_true(sketch_kll_quantile(s[PARTS - 1], 0) == v[0]);
			assert_true(sketch_kll_quantile(s[PARTS - 1], 1) == v[N - 1]);
			assert_true(sketch_kll_rank(s[PARTS - 1], INFINITY) == N);
			/* Errors of the parts stay; a merge adds to them. */
			assert_true(pow(sketch_kll_error(s[PARTS - 1], delta), 2) >=
				    0.9999 * parts);
			assert_true(sketch_kll_error(s[PARTS - 1], delta) < 8.0 * N / 32);
			off += count_off(s[PARTS - 1], v, N, POINTS, delta, &squares);
			for (int p = 0; p < PARTS; p++)
				sketch_kll_free(s[p]);
		}
		assert_true(off / (SEEDS * POINTS * 2) <= delta);
		assert_true(squares / (SEEDS * POINTS) <= 1);
	}
}

static void merges_of_doubled_copies_reach_sixty_levels(void **state)
{
	struct sketch_kll *s = sketch_kll_new(8, 1), *other;
	int rc = 0, times = 0;

	(void)state;
	for (int i = 0; i < 1000; i++)
		sketch_kll_add(s, i);
	for (; !rc; times++) {
		other = kll_copy(s);
		rc = sketch_kll_merge(s, other);
		sketch_kll_free(other);
	}
	assert_int_equal(rc, -EOVERFLOW);
	assert_true(times > 50);
	assert_true(fabs(sketch_kll_rank(s, INFINITY) - (double)sketch_kll_count(s)) < 1);
	assert_true(sketch_kll_quantile(s, 0) == 0 && sketch_kll_quantile(s, 1) == 999);
	sketch_kll_free(s);
}

static void what_is_saved_goes_on_as_if_it_had_not_been(void **state)
{
	uint64_t stream = 3;

	(void)state;
	for (uint32_t n = 0; n < 3000; n += 211) {
		struct sketch_kll *a = sketch_kll_new(20, n), *b;

		for (uint32_t i = 0; i < n; i++)
			sketch_kll_add(a, rnd_normal(&stream));
		b = kll_copy(a);
		for (uint32_t i = 0; i < 500; i++) {
			double x = rnd_normal(&stream);

			sketch_kll_add(a, x);
			sketch_kll_add(b, x);
		}
		assert_true(kll_same(a, b));
		sketch_kll_free(a);
		sketch_kll_free(b);
	}
}

static void others_are_not_merged(void **state)
{
	struct sketch_kll *a = sketch_kll_new(8, 1), *b = sketch_kll_new(9, 1);

	(void)state;
	assert_int_equal(sketch_kll_merge(a, b), -EINVAL);
	assert_int_equal(sketch_kll_merge(a, a), -EINVAL);
	sketch_kll_free(a);
	sketch_kll_free(b);
	sketch_kll_free(NULL);
	assert_null(sketch_kll_new(SKETCH_KLL_K_MIN - 1, 0));
	assert_null(sketch_kll_new(SKETCH_KLL_K_MAX + 1, 0));
	assert_int_equal(errno, EINVAL);
}

static bool taken(const void *data, size_t n)
{
	struct sketch_kll *s = kll_taken(data, n);

	sketch_kll_free(s);
	return s != NULL;
}

static void damaged_bytes_are_refused_and_forged_harmless(void **state)
{
	struct sketch_kll *s = sketch_kll_new(8, 1);
	uint8_t *good;
	size_t n;

	(void)state;
	good = kll_saved(s, &n);
	exercise_damage(good, n, exercise_kll, taken);
	free(good);
	for (int i = 0; i < 150; i++)
		sketch_kll_add(s, i * 31 % 150);
	good = kll_saved(s, &n);
	exercise_damage(good, n, exercise_kll, taken);
	free(good);
	sketch_kll_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rank_errors_exceed_the_bound_as_rarely_as_stated),
		cmocka_unit_test(ranks_are_right_on_average),
		cmocka_unit_test(few_values_are_kept_exactly),
		cmocka_unit_test(merged_trees_are_within_the_bound_of_the_whole),
		cmocka_unit_test(merges_of_doubled_copies_reach_sixty_levels),
		cmocka_unit_test(what_is_saved_goes_on_as_if_it_had_not_been),
		cmocka_unit_test(others_are_not_merged),
		cmocka_unit_test(damaged_bytes_are_refused_and_forged_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
