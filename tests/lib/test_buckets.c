// SPDX-License-Identifier: Apache-2.0
/* test_buckets.c - boundaries of exponential buckets compared with long double, at every scale. */
#include <math.h>

#include "support/test.h"
#include "reader.h"
#include "../../lib/histogram.c" /* tests its static functions */

/* The largest double that is <= 2^(i / 2^scale). */
static double boundary(int64_t i, int scale)
{
	long double exact = exp2l(ldexpl((long double)i, -scale));
	double d = (double)exact;

	return (long double)d > exact ? nextafter(d, 0) : d;
}

static void every_boundary_is_exact_at_every_scale(void **state)
{
	static const int exponents[] = {-1021, -100, -1, 0, 1, 10, 52, 53, 1000, 1022};

	(void)state;
	if (test_valgrind()) {
		print_message("SKIP: long double is too short under valgrind\n");
		skip();
	}
	for (int scale = SCALE_MIN; scale <= SCALE_MAX; scale++) {
		for (size_t e = 0; e < sizeof(exponents) / sizeof(*exponents); e++) {
			int64_t from = (int64_t)floor(ldexp(exponents[e], scale));
			int64_t to = (int64_t)ceil(ldexp(exponents[e] + 1, scale));

			for (int64_t i = from; i <= to; i++) {
				double d = boundary(i, scale);

				if (!isnormal(d) || !isfinite(nextafter(d, INFINITY)))
					continue;
				assert_int_equal(bucket_of(d, SCALE_MAX - scale), i);
				assert_int_equal(
					bucket_of(nextafter(d, INFINITY), SCALE_MAX - scale),
					i + 1);
			}
		}
	}
}

/* The formula of OpenTelemetry, which is correct except close to the boundaries. */
static void random_values_fall_where_the_logarithm_says(void **state)
{
	uint64_t x = 88172645463325252ull;

	(void)state;
	for (int n = 0; n < 1000000; n++) {
		int scale = SCALE_MIN + n % (SCALE_MAX - SCALE_MIN + 1);
		long double position;
		double v;

		x ^= x << 13, x ^= x >> 7, x ^= x << 17; /* xorshift, Marsaglia 2003 */
		v = sl_f64_of_cell(x);
		v = fabs(v);
		if (!isnormal(v))
			continue;
		position = ldexpl(log2l(v), scale);
		if (fabsl(position - roundl(position)) < 1e-12L)
			continue;
		assert_int_equal(bucket_of(v, SCALE_MAX - scale), (int64_t)ceill(position));
	}
}

static void the_first_and_the_last_bucket_hold_min_and_max(void **state)
{
	static const double pairs[][2] = {
		{1e-6, 1e6}, {1, 2},	     {0.5, 8},	    {0.3, 0.30001},
		{1e-9, 1e9}, {0x1p-1022, 1}, {1, 0x1p1000}, {1, 0x1.fffffffffffffp1023}};

	(void)state;
	for (int scale = SCALE_MIN; scale <= SCALE_MAX; scale++) {
		for (size_t k = 0; k < sizeof(pairs) / sizeof(*pairs); k++) {
			struct sl_metric_opts o = {.scale = scale,
						   .use_scale = true,
						   .min = pairs[k][0],
						   .max = pairs[k][1]};
			struct sl__shape shape = {0};
			struct sl__buckets *b;
			uint32_t last;

			if (sl__shape_exponential(&o, &shape))
				continue; /* too many buckets */
			b = (struct sl__buckets *)sl__buckets_get(
				&(struct sl_schema_record){.cells = shape.cells,
							   .scale = (int16_t)shape.scale,
							   .first_bucket = shape.first_bucket,
							   .zero_threshold = shape.zero_threshold},
				0);
			last = shape.cells - 1;
			assert_int_equal(cell_of(b, o.min), SL_HIST_BUCKETS);
			assert_int_equal(cell_of(b, nextafter(o.min, INFINITY)),
					 SL_HIST_BUCKETS + 1);
			assert_int_equal(cell_of(b, o.max), last - 1);
			assert_int_equal(cell_of(b, INFINITY), last);
			assert_int_equal(cell_of(b, -o.min), SL_HIST_BUCKETS);
			assert_int_equal(cell_of(b, 0.0), SL_HIST_BUCKETS);
			assert_int_equal(cell_of(b, -0.0), SL_HIST_BUCKETS);
			assert_int_equal(cell_of(b, 5e-324), SL_HIST_BUCKETS);
			assert_int_equal(cell_of(b, nextafter(-o.min, -INFINITY)), SL_HIST_REFUSED);
			assert_int_equal(cell_of(b, -INFINITY), SL_HIST_REFUSED);
			assert_int_equal(cell_of(b, NAN), SL_HIST_REFUSED);
			sl__buckets_put(b);
		}
	}
	while (unused) {
		struct sl__buckets *next = unused->next;

		free(unused);
		unused = next;
	}
}

/* cell_at() computes the formula of the format in fewer steps. */
static void the_place_of_a_cell_is_that_of_the_format(void **state)
{
	(void)state;
	for (uint32_t cell = 0; cell < 1u << 24; cell += cell < 10000 ? 1 : 9973)
		assert_int_equal(cell_at(0, cell), sl_cell_offset(cell));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_boundary_is_exact_at_every_scale),
		cmocka_unit_test(random_values_fall_where_the_logarithm_says),
		cmocka_unit_test(the_first_and_the_last_bucket_hold_min_and_max),
		cmocka_unit_test(the_place_of_a_cell_is_that_of_the_format),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
