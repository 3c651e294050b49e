// SPDX-License-Identifier: Apache-2.0
/*
 * test_api_merge.c - merging of histograms with different buckets, their recording, and steps of
 * time.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "support/test.h"
#include "api/merge.h"
#include "base/base.h"
#include "collect/read/calc.h"

static struct api_shape exponential(int scale, int32_t first, uint32_t buckets)
{
	return (struct api_shape){.exponential = true,
				  .scale = scale,
				  .first = first,
				  .buckets = buckets,
				  .zero = collect_exponential_bound(scale, first - 1)};
}

/* Finds the bucket of an observation by comparing the bounds one after the other. */
static uint32_t bucket_of(const struct api_shape *s, double x)
{
	for (uint32_t i = 0; i < s->buckets; i++)
		if (x <= api_shape_high(s, i))
			return i;
	fail_msg("%g is in no bucket", x);
	return 0;
}

/* Each observation is in the bucket of the merged histogram in which it would have been counted. */
static void every_observation_keeps_its_place(void **state)
{
	static const struct {
		int scale;
		int32_t first;
		uint32_t buckets;
	} of[] = {{3, -40, 200}, {1, -10, 40}, {3, -40, 120},
		  {2, -21, 90},	 {-1, -2, 9},  {0, -5, 20}};
	const size_t shapes = sizeof(of) / sizeof(*of);

	(void)state;
	for (size_t a = 0; a < shapes; a++)
		for (size_t b = 0; b < shapes; b++) {
			struct api_shape x = exponential(of[a].scale, of[a].first, of[a].buckets);
			struct api_shape y = exponential(of[b].scale, of[b].first, of[b].buckets);
			const struct api_shape *both[] = {&x, &y};
			struct api_shape merged;
			const char *why = NULL;

			assert_int_equal(api_shape_merge(&merged, both, 2, &why), 0);
			assert_int_equal(merged.scale, BASE_MIN(x.scale, y.scale));
			/* Not on a bound, where rounding of the bound decides. */
			for (double l = -20.013; l < 40; l += 0.0371) {
				const double v = exp2(l);

				for (int k = 0; k < 2; k++)
					assert_int_equal(api_shape_bucket(&merged, both[k],
									  bucket_of(both[k], v)),
							 bucket_of(&merged, v));
			}
		}
}

static void alone_a_histogram_stays_as_it_is(void **state)
{
	struct api_shape x = exponential(3, -40, 200), merged;
	const struct api_shape *one[] = {&x};
	const char *why = NULL;

	(void)state;
	x.zero = 1e-9; /* below its first bucket */
	assert_int_equal(api_shape_merge(&merged, one, 1, &why), 0);
	assert_int_equal(merged.first, -40);
	assert_int_equal(merged.buckets, 200);
	assert_true(merged.zero == 1e-9);
	for (uint32_t i = 0; i < 200; i++)
		assert_int_equal(api_shape_bucket(&merged, &x, i), i);
}

static void classic_bounds_that_all_have_are_kept(void **state)
{
	double one[] = {0.1, 0.5, 1, 5}, two[] = {0.2, 0.5, 5, 10}, three[] = {0.3, 7};
	struct api_shape a = {.bounds = one, .bound_count = 4, .buckets = 5};
	struct api_shape b = {.bounds = two, .bound_count = 4, .buckets = 5};
	struct api_shape c = {.bounds = three, .bound_count = 2, .buckets = 3}, merged;
	struct api_shape e = exponential(0, 0, 9);
	const struct api_shape *ab[] = {&a, &b}, *abc[] = {&a, &b, &c}, *ae[] = {&a, &e};
	const char *why = NULL;
	static const uint32_t of_a[] = {0, 0, 1, 1, 2}, of_b[] = {0, 0, 1, 2, 2};

	(void)state;
	assert_int_equal(api_shape_merge(&merged, ab, 2, &why), 0);
	assert_int_equal(merged.bound_count, 2);
	assert_true(merged.bounds[0] == 0.5 && merged.bounds[1] == 5);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(api_shape_bucket(&merged, &a, i), of_a[i]);
		assert_int_equal(api_shape_bucket(&merged, &b, i), of_b[i]);
	}
	api_shape_free(&merged);
	assert_int_equal(api_shape_merge(&merged, abc, 3, &why), -EDOM);
	assert_string_equal(why, "the histograms have no bucket bound in common");
	assert_int_equal(api_shape_merge(&merged, ae, 2, &why), -EDOM);
	assert_string_equal(why, "exponential and classic histograms have no buckets in common");
}

static void what_does_not_overlap_is_refused(void **state)
{
	struct api_shape low = exponential(0, -20, 8), high = exponential(0, 10, 8), wide, merged;
	const struct api_shape *apart[] = {&low, &high}, *odd[] = {&low, &wide};
	const char *why = NULL;

	(void)state;
	assert_int_equal(api_shape_merge(&merged, apart, 2, &why), -EDOM);
	assert_string_equal(why, "the ranges of the histograms do not overlap");
	wide = exponential(0, -19, 8);
	wide.zero = 1;
	assert_int_equal(api_shape_merge(&merged, odd, 2, &why), -EDOM);
	assert_string_equal(
		why, "the zero bucket of one histogram overlaps with other buckets of another");
}

/* ---- the record of buckets ---- */

static void the_newest_records_stay(void **state)
{
	struct collect_bucket v[20];
	struct collect_buckets b;
	uint64_t last[3] = {0}, prev;
	int64_t ns;
	size_t n;

	(void)state;
	assert_int_equal(collect_buckets_init(&b, 1000), -EINVAL);
	assert_int_equal(collect_buckets_init(&b, 64 << 10), 0);
	for (int i = 1; i <= 3000; i++) {
		const size_t some = (size_t)(i % 20);

		for (size_t k = 0; k < some; k++)
			v[k] = (struct collect_bucket){(uint32_t)k * 3, (uint64_t)i + k};
		prev = last[i % 3];
		last[i % 3] = collect_buckets_add(&b, prev, i, 0, v, some);
		assert_true(some ? last[i % 3] != prev : last[i % 3] == prev);
	}
	for (int chain = 0; chain < 3; chain++) {
		int64_t before = 3001, first = 0;
		int read = 0;

		for (uint64_t at = last[chain]; collect_buckets_read(&b, at, &ns, &n, &prev);
		     at = prev) {
			assert_true(ns < before && ns % 3 == chain && n == (size_t)(ns % 20));
			for (size_t k = 0; k < n; k++) {
				const struct collect_bucket got = collect_buckets_get(&b, at, k);

				assert_int_equal(got.index, k * 3);
				assert_int_equal(got.count, (uint64_t)ns + k);
			}
			before = first = ns;
			read++;
		}
		/* 8192 words have about 600 of 3000 records. */
		assert_in_range(read, 100, 300);
		assert_true(first > 2000);
	}
	collect_buckets_free(&b);
}

static void a_count_of_any_size_is_recorded(void **state)
{
	const struct collect_bucket v[] = {{7, (1ull << 42) + 5}, {8, 1}};
	struct collect_buckets b;
	uint64_t at, prev, sum = 0;
	int64_t ns;
	size_t n;

	(void)state;
	assert_int_equal(collect_buckets_init(&b, 64 << 10), 0);
	at = collect_buckets_add(&b, 0, 5, 1.5, v, 2);
	assert_true(collect_buckets_read(&b, at, &ns, &n, &prev));
	for (size_t i = 0; i < n; i++) {
		const struct collect_bucket got = collect_buckets_get(&b, at, i);

		sum += got.index == 7 ? got.count : 0;
	}
	assert_true(sum == v[0].count);
	/* More than a quarter of the ring at once: not recorded, and nothing else is lost. */
	assert_int_equal(
		collect_buckets_add(&b, at, 6, 0, &(struct collect_bucket){1, UINT64_MAX}, 1), at);
	assert_true(collect_buckets_read(&b, at, &ns, &n, &prev));
	collect_buckets_free(&b);
}

/* ---- steps ---- */

static void steps_end_at_multiples_of_their_width(void **state)
{
	const int64_t s = 1000000000;
	const struct api_range r = {1700000000 * s + 123456789, 1700000060 * s + 5};

	(void)state;
	for (uint64_t most = 1; most < 2000; most += 37) {
		const struct api_steps steps = api_steps(&r, most, 1000000);

		assert_true(steps.n <= most);
		for (size_t i = 0; i < steps.n; i++) {
			const int64_t end = api_step_ns(&steps, i);

			assert_true(end % steps.width_ns == 0 && end <= r.to_ns);
			assert_true(end > r.from_ns);
			assert_int_equal(api_step_of(&steps, end), i);
			assert_int_equal(api_step_of(&steps, end + 1), i + 1);
			assert_int_equal(api_step_of(&steps, end - steps.width_ns + 1), i);
		}
		assert_int_equal(api_step_of(&steps, r.from_ns - 2 * steps.width_ns), -1);
	}
	assert_int_equal(api_steps(&r, 1000, s).width_ns, s);
	assert_int_equal(api_steps(&(struct api_range){s, s + 5}, 10, s).n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_observation_keeps_its_place),
		cmocka_unit_test(alone_a_histogram_stays_as_it_is),
		cmocka_unit_test(classic_bounds_that_all_have_are_kept),
		cmocka_unit_test(what_does_not_overlap_is_refused),
		cmocka_unit_test(the_newest_records_stay),
		cmocka_unit_test(a_count_of_any_size_is_recorded),
		cmocka_unit_test(steps_end_at_multiples_of_their_width),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
