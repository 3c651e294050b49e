// SPDX-License-Identifier: Apache-2.0
/* test_calc.c - quantiles, decimation, series ids, search terms and JSON text. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "collect/read/calc.h"
#include "base/json.h"

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-9 * fabs(want) + 1e-12))
		fail_msg("got %.17g, want %.17g", got, want);
}

/* ---- series ids ---- */

static void series_ids_survive_the_way_to_text_and_back(void **state)
{
	struct collect_series_id in = {.instance = 0x00b1d05a7c1f9e42, .metric = UINT32_MAX}, out;
	char text[COLLECT_SERIES_ID_BYTES], bad[40];

	(void)state;
	collect_series_id_format(in, text);
	assert_string_equal(text, "00b1d05a7c1f9e42/4294967295");
	assert_int_equal(collect_series_ids_parse(text, &out, 1, bad), 1);
	assert_true(out.instance == in.instance && out.metric == in.metric);
}

static void lists_of_series_are_split_and_counted(void **state)
{
	struct collect_series_id out[3];
	char bad[40];

	(void)state;
	assert_int_equal(collect_series_ids_parse("a/1, B/2 ,c/3", out, 3, bad), 3);
	assert_true(out[1].instance == 0xb && out[2].metric == 3);
	assert_int_equal(collect_series_ids_parse("a/1,b/2,c/3,d/4", out, 3, bad), -E2BIG);
}

static void ill_formed_series_ids_are_refused_and_named(void **state)
{
	static const char *const wrong[] = {
		"",
		"/",
		"a",
		"a/",
		"/1",
		"g/1",
		"a/x",
		"a/1,",
		",a/1",
		"a//1",
		"a/1/2",
		"a/-1",
		"a/ 1",
		"0x1/1",
		"+1/1",
		"a/4294967296",
		"a/99999999999",
		"11112222333344445/1",
		"a b/1",
	};
	struct collect_series_id out[4];
	char bad[40];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		if (collect_series_ids_parse(wrong[i], out, 4, bad) != -EINVAL)
			fail_msg("accepted: '%s'", wrong[i]);
	/* A long one is truncated, without overrunning the buffer. */
	assert_int_equal(
		collect_series_ids_parse("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
					 out, 4, bad),
		-EINVAL);
	assert_int_equal(strlen(bad), 39);
}

/* ---- search terms ---- */

static void every_search_term_has_to_be_found(void **state)
{
	static const struct region_text_label labels[] = {{"status_code", "503"},
							  {"path", "/Cart"}};
	struct collect_terms t;

	(void)state;
	assert_int_equal(collect_terms_parse("  HTTP code=5  cart ", &t), 0);
	assert_int_equal(t.count, 3);
	assert_int_equal(collect_terms_in_text(&t, "http_requests_total"), 1);
	assert_int_equal(collect_terms_in_labels(&t, labels, 2), 6);
	assert_int_equal(collect_terms_parse("\"quoted\" a=\"b\"", &t), 0);
	assert_string_equal(t.term[0], "quoted");
	assert_string_equal(t.term[1], "a=b");
	assert_int_equal(collect_terms_parse("", &t), 0);
	assert_int_equal(t.count, 0);
}

static void a_term_with_equals_matches_one_label_only(void **state)
{
	(void)state;
	assert_true(collect_term_in_label("code=5", "status_code", "503"));
	assert_true(collect_term_in_label("status_code=503", "status_code", "503"));
	assert_true(collect_term_in_label("code=", "status_code", "503"));
	assert_true(collect_term_in_label("=503", "status_code", "503"));
	assert_false(collect_term_in_label("code=03", "status_code", "503"));
	assert_false(collect_term_in_label("cod=5", "status_code", "503"));
	assert_false(collect_term_in_label("xstatus_code=5", "status_code", "503"));
}

static void too_many_or_too_long_search_terms_are_refused(void **state)
{
	struct collect_terms t;
	char text[400];

	(void)state;
	assert_int_equal(collect_terms_parse("1 2 3 4 5 6 7 8", &t), 0);
	assert_int_equal(collect_terms_parse("1 2 3 4 5 6 7 8 9", &t), -E2BIG);
	for (size_t n = 250; n < 300; n++) {
		memset(text, 'x', n);
		text[n] = '\0';
		assert_int_equal(collect_terms_parse(text, &t), n < sizeof(t.text) ? 0 : -E2BIG);
		/* The end is after a blank: nothing is written beyond the buffer. */
		strcpy(text + n, " ");
		assert_int_equal(collect_terms_parse(text, &t), n < sizeof(t.text) ? 0 : -E2BIG);
	}
}

/* ---- quantiles ---- */

static void classic_quantiles_are_those_of_prometheus(void **state)
{
	static const double bounds[] = {1, 2, 4};
	static const uint64_t buckets[] = {10, 20, 10, 0}, above[] = {0, 0, 0, 5}, none[4];
	static const double below_zero[] = {-1, 1};
	static const uint64_t first[] = {4, 0, 0};

	(void)state;
	/* histogram_quantile: rank 20 of 40 is the 10th of 20 in (1, 2] */
	near(collect_quantile_classic(buckets, bounds, 3, 0.5), 1.5);
	near(collect_quantile_classic(buckets, bounds, 3, 0.125), 0.5);
	near(collect_quantile_classic(buckets, bounds, 3, 0.25), 1);
	near(collect_quantile_classic(buckets, bounds, 3, 1), 4);
	near(collect_quantile_classic(above, bounds, 3, 0.5), 4);
	near(collect_quantile_classic(first, below_zero, 2, 0.5), -1);
	assert_true(isnan(collect_quantile_classic(none, bounds, 3, 0.5)));
	assert_true(isnan(collect_quantile_classic(above + 3, NULL, 0, 0.5)));
}

static void exponential_quantiles_err_by_at_most_a_bucket(void **state)
{
	uint64_t buckets[102] = {0}, zero[102] = {7}, above[102] = {0};
	const int scale = 3, first = -50;
	const double width = exp2(1 / 8.0);
	double values[1000];

	(void)state;
	for (int i = 0; i < 1000; i++) {
		int index;

		values[i] = 0.05 * pow(1.003, i);
		/* bucket i holds base^(i-1) < x <= base^i */
		index = (int)ceil(log2(values[i]) * 8);
		buckets[index - first + 1]++;
	}
	for (double q = 0.01; q < 1; q += 0.01) {
		double got = collect_quantile_exponential(buckets, 102, scale, first, 1e-9, q);
		double truth = values[(int)(q * 1000)];

		assert_true(got > truth / width && got < truth * width);
	}
	/* The middle of one bucket, geometrically. */
	memset(buckets, 0, sizeof(buckets));
	buckets[1 - first + 1] = 100;
	near(collect_quantile_exponential(buckets, 102, scale, first, 1e-9, 0.5), exp2(0.5 / 8));
	near(collect_quantile_exponential(buckets, 102, scale, first, 1e-9, 1), exp2(1 / 8.0));
	near(collect_quantile_exponential(zero, 102, scale, first, 0.5, 1), 0.5);
	/* Above all: the upper bound of the last bucket, index first + 99. */
	above[101] = 1;
	near(collect_quantile_exponential(above, 102, scale, first, 0.5, 0.5), exp2(49 / 8.0));
	assert_true(isnan(collect_quantile_exponential(zero + 1, 101, scale, first, 0.5, 0.5)));
	/* Coarse scales are factors of more than 2. */
	near(collect_exponential_bound(-2, 3), 4096);
}

static void buckets_that_overflow_64_bits_still_have_quantiles(void **state)
{
	static const uint64_t buckets[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, 0};
	static const double bounds[] = {1, 2, 3};
	static const uint64_t rounded[] = {UINT64_MAX, 3000, 0, 0};

	(void)state;
	near(collect_quantile_classic(buckets, bounds, 3, 0.5), 1.5);
	/* 2^64 + 3000 is rounded to 2^64 + 4096. */
	assert_true(collect_quantile_classic(rounded, bounds, 3, 1) <= 2);
}

static void latency_buckets_are_quarter_powers_of_two(void **state)
{
	uint64_t latency[COLLECT_LATENCY_BUCKETS] = {0};

	(void)state;
	near(collect_bucket_bound(0), 1e-6);
	near(collect_bucket_bound(4), 2e-6);
	near(collect_bucket_bound(40), 1024e-6);
	assert_true(isnan(collect_quantile_latency(latency, 0.5)));
	latency[8] = 10; /* 2^(7/4) .. 2^2 us */
	near(collect_quantile_latency(latency, 1), 4e-6);
	near(collect_quantile_latency(latency, 0.5), exp2(7.5 / 4) * 1e-6);
}

/* ---- decimation ---- */

static void decimation_keeps_every_peak_and_its_time(void **state)
{
	enum { N = 60000 };
	struct collect_point *p = calloc(N, sizeof(*p));
	int64_t start = 1763694391000000000;
	size_t n, spikes = 0;

	(void)state;
	assert_non_null(p);
	for (int i = 0; i < N; i++) {
		p[i].ns = start + i * 1000000ll;
		p[i].value = sin(i / 2000.0);
	}
	p[12345].value = 99;
	p[54321].value = -77;
	n = collect_decimate(p, N, start, start + N * 1000000ll, 1000);
	assert_in_range(n, 900, 1000);
	for (size_t i = 0; i < n; i++) {
		if (i)
			assert_true(p[i].ns > p[i - 1].ns);
		if (p[i].value == 99 || p[i].value == -77) {
			assert_true(p[i].ns ==
				    start + (p[i].value == 99 ? 12345 : 54321) * 1000000ll);
			spikes++;
		}
	}
	assert_int_equal(spikes, 2);
	assert_true(p[0].ns == start && p[n - 1].ns == start + (N - 1) * 1000000ll);
	free(p);
}

static void decimation_never_gives_more_than_asked(void **state)
{
	(void)state;
	for (size_t max = COLLECT_DECIMATE_MIN; max < 300; max += 7)
		for (size_t n = 1; n < 700; n += 13)
			for (int64_t shift = 0; shift < 5; shift++) {
				struct collect_point p[700];
				size_t got;

				for (size_t i = 0; i < n; i++) {
					p[i].ns = 1763694391000000000 + shift * 333 +
						  (int64_t)(i * 1000 + i * i % 997);
					p[i].value = (double)(i * 7919 % 101);
				}
				got = collect_decimate(p, n, p[0].ns, p[n - 1].ns, max);
				assert_true(got == n ? n <= max : got <= max);
				assert_true(got >= 1);
			}
}

static void decimation_leaves_few_points_alone(void **state)
{
	struct collect_point p[16], was[16];

	(void)state;
	for (int i = 0; i < 16; i++)
		p[i] = (struct collect_point){.ns = i, .value = -i};
	memcpy(was, p, sizeof(p));
	assert_int_equal(collect_decimate(p, 16, 0, 16, 16), 16);
	assert_memory_equal(p, was, sizeof(p));
}

static void decimation_of_a_moving_window_keeps_its_points(void **state)
{
	enum { N = 20000 };
	static struct collect_point a[N], b[N];
	const int64_t start = 1763694391000000000, step = 1000000, window = N * step;
	size_t na, nb, common = 0, inside = 0;

	(void)state;
	for (int i = 0; i < N; i++) {
		a[i] = (struct collect_point){start + i * step, (double)(i * 7919 % 10007)};
		/* the same samples, seen 200 ms later */
		b[i] = (struct collect_point){start + (i + 200) * step,
					      (double)((i + 200) * 7919 % 10007)};
	}
	na = collect_decimate(a, N, start, start + window, 500);
	nb = collect_decimate(b, N, start + 200 * step, start + 200 * step + window, 500);
	for (size_t i = 0, k = 0; i < na; i++) {
		if (a[i].ns < start + 400 * step || a[i].ns > start + window - 400 * step)
			continue;
		inside++;
		while (k < nb && b[k].ns < a[i].ns)
			k++;
		common += k < nb && b[k].ns == a[i].ns;
	}
	assert_true(inside > 300 && common == inside);
}

static void decimation_lets_numbers_win_over_nan(void **state)
{
	struct collect_point p[1000];
	size_t n;
	bool found = false, gap = false;

	(void)state;
	for (int i = 0; i < 1000; i++)
		p[i] = (struct collect_point){i * 1000, i < 500 ? NAN : 1};
	p[101].value = 42;
	n = collect_decimate(p, 1000, 0, 1000000, 50);
	for (size_t i = 0; i < n; i++) {
		found |= p[i].value == 42;
		gap |= isnan(p[i].value) && p[i].ns > 200000;
	}
	assert_true(found && gap && n <= 50);
}

/* ---- JSON ---- */

static void numbers_read_back_as_they_were(void **state)
{
	static const double v[] = {0,
				   -0.0,
				   1,
				   -1,
				   0.1,
				   1e-300,
				   1.7976931348623157e308,
				   5e-324,
				   1e15,
				   1e16,
				   123456789.125,
				   1.0 / 3,
				   9007199254740993.0,
				   -1e21,
				   1e-7};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++) {
		struct base_json j;
		json_t *got;

		base_json_init(&j, 4096);
		base_json_f64(&j, v[i]);
		assert_false(j.overflow);
		got = json_loadb(j.buf, j.len, JSON_DECODE_ANY, NULL);
		assert_non_null(got);
		assert_true(json_number_value(got) == v[i]);
		json_decref(got);
		base_json_free(&j);
	}
}

static void expect_text(struct base_json *j, const char *want)
{
	assert_false(j->overflow);
	assert_int_equal(j->len, strlen(want));
	assert_memory_equal(j->buf, want, j->len);
	base_json_free(j);
	base_json_init(j, 4096);
}

static void text_is_well_formed_whatever_goes_in(void **state)
{
	struct base_json j;

	(void)state;
	base_json_init(&j, 4096);
	base_json_begin(&j, '{');
	base_json_kstring(&j, "a\"b", "\x01\n\\\"</script>\xc3\xa9");
	base_json_kbegin(&j, "n", '[');
	base_json_u64(&j, UINT64_MAX);
	base_json_i64(&j, INT64_MIN);
	base_json_u64(&j, 0);
	base_json_f64(&j, NAN);
	base_json_f64(&j, -INFINITY);
	base_json_null(&j);
	base_json_bool(&j, true);
	base_json_end(&j, ']');
	base_json_kbegin(&j, "e", '{');
	base_json_end(&j, '}');
	base_json_end(&j, '}');
	expect_text(&j, "{\"a\\\"b\":\"\\u0001\\u000a\\\\\\\"</script>\xc3\xa9\",\"n\":["
			"18446744073709551615,-9223372036854775808,0,\"NaN\",\"-Inf\",null,true],"
			"\"e\":{}}");
	base_json_time(&j, 1763694391123456789);
	base_json_time(&j, -1500000000);
	expect_text(&j, "1763694391.123456,-1.500000");
	/* A C1 control, which terminals take for ESC [, and the first character after them */
	base_json_string(&j, "\xc2\x9bK\xc2\xa0");
	expect_text(&j, "\"\\u009bK\xc2\xa0\"");
	/* Ill-formed UTF-8: lone continuation, overlong, surrogate, cut short, beyond U+10FFFF */
	base_json_string(&j, "\x80|\xc0\x80|\xed\xa0\x80|\xe2\x82|\xf4\x90\x80\x80");
#define R "\xef\xbf\xbd"
	expect_text(&j, "\"" R "|" R R "|" R R R "|" R R "|" R R R R "\"");
	base_json_free(&j);
}

static void what_does_not_fit_can_be_taken_back(void **state)
{
	struct base_json j;
	struct base_json_mark mark;

	(void)state;
	base_json_init(&j, 64);
	base_json_begin(&j, '[');
	for (int i = 0; i < 100; i++) {
		mark = base_json_mark(&j);
		base_json_string(&j, "seven..");
		if (!j.overflow && j.max - j.len >= 4)
			continue;
		base_json_back(&j, mark);
		break;
	}
	base_json_end(&j, ']');
	assert_false(j.overflow);
	assert_true(j.len <= 64 && j.cap <= 64);
	json_t *got = json_loadb(j.buf, j.len, 0, NULL);
	assert_non_null(got);
	assert_int_equal(json_array_size(got), 6);
	json_decref(got);
	base_json_free(&j);
}

int collect_test_calc(void);
int collect_test_calc(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(series_ids_survive_the_way_to_text_and_back),
		cmocka_unit_test(lists_of_series_are_split_and_counted),
		cmocka_unit_test(ill_formed_series_ids_are_refused_and_named),
		cmocka_unit_test(every_search_term_has_to_be_found),
		cmocka_unit_test(a_term_with_equals_matches_one_label_only),
		cmocka_unit_test(too_many_or_too_long_search_terms_are_refused),
		cmocka_unit_test(classic_quantiles_are_those_of_prometheus),
		cmocka_unit_test(exponential_quantiles_err_by_at_most_a_bucket),
		cmocka_unit_test(buckets_that_overflow_64_bits_still_have_quantiles),
		cmocka_unit_test(latency_buckets_are_quarter_powers_of_two),
		cmocka_unit_test(decimation_keeps_every_peak_and_its_time),
		cmocka_unit_test(decimation_never_gives_more_than_asked),
		cmocka_unit_test(decimation_leaves_few_points_alone),
		cmocka_unit_test(decimation_of_a_moving_window_keeps_its_points),
		cmocka_unit_test(decimation_lets_numbers_win_over_nan),
		cmocka_unit_test(numbers_read_back_as_they_were),
		cmocka_unit_test(text_is_well_formed_whatever_goes_in),
		cmocka_unit_test(what_does_not_fit_can_be_taken_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
