// SPDX-License-Identifier: Apache-2.0
/* test_publish.c - which series a publishing sink keeps, adds up, removes and leaves out. */
#include "support/test.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bridge/publish_internal.h"
#include "bridge/text.h"

static struct bridge_publisher *begin(size_t series_max)
{
	struct bridge_publisher *p = bridge_publish_open(&(struct bridge_publish_opts){
		.service = "test", .pod = "test", .detached = true, .series_max = series_max});

	assert_non_null(p);
	return p;
}

/*
 * Checks the last bucket of a coarser or finer scale that lies in one of ours, and the first bucket
 * beyond it.
 */
static void check_grid(int grid)
{
	static double out[SL_BUCKETS_MAX];
	const struct bridge_publish_grid g = bridge_publish_grid(grid);
	const uint64_t one = 1;
	const double values[] = {1, 1};

	assert_true(g.values <= SL_BUCKETS_MAX);
	for (int scale = -4; scale <= 10; scale++)
		for (int32_t i = -300; i <= 300; i++) {
			struct bridge_exponential e = {
				.scale = scale, .first = i, .buckets = &one, .bucket_count = 1};
			const struct bridge_point t = {
				.values = values, .value_count = 2, .exponential = &e};
			/* In units of our buckets: the upper end is base^i. */
			double end = ldexp(i, g.scale - scale);
			double at = ceil(end) - g.first + 1;
			double want = fmin(fmax(at, 0), g.buckets + 1);

			assert_true(bridge_publish_expand(&g, &t, out));
			assert_true(out[BRIDGE_BUCKETS + (size_t)want] == 1);
		}
}

static void every_bucket_goes_where_its_upper_end_is(void **state)
{
	(void)state;
	for (int grid = BRIDGE_SCALE; grid <= BRIDGE_SCALE_MAX; grid++)
		check_grid(grid);
}

/* Zeros are observations up to the threshold, so they count at its bucket and above. */
static void zeros_go_to_the_bucket_of_their_threshold(void **state)
{
	static double out[SL_BUCKETS_MAX];
	const struct bridge_publish_grid g = bridge_publish_grid(BRIDGE_SCALE);
	const double values[] = {1, 5};
	const struct {
		double threshold;
		size_t bucket; /* 0 is the zero bucket */
	} cases[] = {{0, 0},
		     {1e-9, 0},
		     {0.25, (size_t)(1 - (2 << g.scale) - g.first)},
		     {1, (size_t)(1 - g.first)},
		     {1e30, g.buckets + 1}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct bridge_exponential e = {.zero_count = 5,
					       .zero_threshold = cases[i].threshold};
		const struct bridge_point t = {
			.values = values, .value_count = 2, .exponential = &e};

		assert_true(bridge_publish_expand(&g, &t, out));
		assert_true(out[BRIDGE_BUCKETS + cases[i].bucket] == 5);
	}
}

static void tell_at(struct bridge_publisher *p, const char *name, enum bridge_type type,
		    const char *label, double v, bool delta, uint64_t time)
{
	struct bridge_sink *s = bridge_publish_sink(p);
	const struct bridge_family f = {.name = {name, strlen(name)}, .type = type};
	const struct bridge_label l = {{"x", 1}, {label, strlen(label)}};
	const struct bridge_point t = {.labels = &l,
				       .label_count = 1,
				       .values = &v,
				       .value_count = 1,
				       .delta = delta,
				       .time_ns = time};

	assert_true(s->family(s, &f));
	assert_true(s->point(s, &t));
}

static void tell(struct bridge_publisher *p, const char *name, enum bridge_type type,
		 const char *label, double v, bool delta)
{
	tell_at(p, name, type, label, v, delta, 0);
}

static double value(struct bridge_publisher *p, const char *name, const char *label)
{
	const struct sl_label l = {"x", label};
	struct sl_metric_opts o = SL_OPTS(sl_metric_opts, .name = name, .help = "", .mirror = true,
					  .utf8 = true);

	return sl_counter_f64_value(
		sl_counter_f64_with(sl_counter_f64_family_create(bridge_publish_of(p), &o), &l, 1));
}

static void differences_add_up(void **state)
{
	struct bridge_publisher *p = begin(0);

	(void)state;
	for (int i = 1; i <= 4; i++) {
		bridge_publish_begin(p);
		tell(p, "a_total", BRIDGE_COUNTER, "1", i, true);
		tell(p, "b_total", BRIDGE_COUNTER, "1", i, false);
	}
	assert_true(value(p, "a_total", "1") == 10);
	assert_true(value(p, "b_total", "1") == 4);
	bridge_publish_close(p);
}

static void points_that_come_twice_count_once(void **state)
{
	struct bridge_publisher *p = begin(0);

	(void)state;
	bridge_publish_begin(p);
	tell_at(p, "a_total", BRIDGE_COUNTER, "1", 10, false, 5);
	tell_at(p, "a_total", BRIDGE_COUNTER, "1", 3, false, 5);
	assert_true(value(p, "a_total", "1") == 10);
	/* A later point of the same body is newer. */
	tell_at(p, "a_total", BRIDGE_COUNTER, "1", 11, false, 6);
	assert_true(value(p, "a_total", "1") == 11);
	/* A delta that is sent again, in a later body; and after a gap. */
	tell_at(p, "d_total", BRIDGE_COUNTER, "1", 2, true, 5);
	bridge_publish_begin(p);
	tell_at(p, "d_total", BRIDGE_COUNTER, "1", 2, true, 5);
	tell_at(p, "d_total", BRIDGE_COUNTER, "1", 4, true, 900);
	assert_true(value(p, "d_total", "1") == 6);
	/* Two deltas of a series in one request that is sent again. */
	for (int i = 0; i < 2; i++) {
		bridge_publish_begin(p);
		tell_at(p, "d_total", BRIDGE_COUNTER, "1", 8, true, 901);
		tell_at(p, "d_total", BRIDGE_COUNTER, "1", 16, true, 902);
	}
	assert_true(value(p, "d_total", "1") == 30);
	assert_int_equal(bridge_publish_counts(p).duplicate, 4);
	assert_int_equal(bridge_publish_counts(p).refused, 4);
	/* The sender's clock is set back by an hour. */
	bridge_publish_begin(p);
	tell_at(p, "d_total", BRIDGE_COUNTER, "1", 32, true, 7200 * 1000000000ull);
	tell_at(p, "d_total", BRIDGE_COUNTER, "1", 64, true, 3600 * 1000000000ull);
	tell_at(p, "d_total", BRIDGE_COUNTER, "1", 128, true, 3610 * 1000000000ull);
	tell_at(p, "d_total", BRIDGE_COUNTER, "1", 128, true, 3610 * 1000000000ull);
	assert_true(value(p, "d_total", "1") == 254);
	assert_int_equal(bridge_publish_counts(p).duplicate, 5);
	bridge_publish_close(p);
}

static void a_histogram_without_bounds_is_a_summary(void **state)
{
	struct bridge_publisher *p = begin(0);
	struct bridge_sink *s = bridge_publish_sink(p);
	const double values[] = {2.5, 3, 3};
	struct sl_metric_opts o = SL_OPTS(sl_metric_opts, .name = "h", .help = "", .mirror = true,
					  .utf8 = true);
	struct sl_summary h;

	(void)state;
	for (int i = 0; i < 2; i++) {
		bridge_publish_begin(p);
		assert_true(s->family(s, &(struct bridge_family){.name = {"h", 1},
								 .help = {"", 0},
								 .unit = {"", 0},
								 .type = BRIDGE_HISTOGRAM}));
		assert_true(
			s->point(s, &(struct bridge_point){.values = values, .value_count = 3}));
		bridge_publish_end(p);
	}
	bridge_publish_begin(p);
	s->values(s, values, 3);
	bridge_publish_end(p);
	h = sl_summary_with(sl_summary_family_create(bridge_publish_of(p), &o), NULL, 0);
	assert_true(sl_summary_sum(h) == 2.5);
	assert_int_equal(sl_summary_count(h), 3);
	assert_int_equal(bridge_publish_counts(p).refused, 0);
	bridge_publish_close(p);
}

static void a_changed_help_text_changes_nothing_else(void **state)
{
	struct bridge_publisher *p = begin(0);
	struct bridge_sink *s = bridge_publish_sink(p);
	const struct bridge_label l = {{"x", 1}, {"1", 1}};

	(void)state;
	for (int round = 1; round <= 4; round++) {
		const struct bridge_family f = {.name = {"a_total", 7},
						.help = {round % 2 ? "Old." : "New.", 4},
						.type = BRIDGE_COUNTER};
		const double v = round;
		const struct bridge_point t = {
			.labels = &l, .label_count = 1, .values = &v, .value_count = 1};

		bridge_publish_begin(p);
		assert_true(s->family(s, &f) && s->point(s, &t));
		bridge_publish_end(p);
		assert_true(value(p, "a_total", "1") == round);
		assert_int_equal(bridge_publish_series(p), 1);
	}
	assert_int_equal(bridge_publish_counts(p).removed, 0);
	bridge_publish_close(p);
}

/* A body with one histogram, or one summary, whose n bounds are 1, 2, 3... */
static void tell_shape(struct bridge_publisher *p, enum bridge_type type, const char *label,
		       size_t n)
{
	static const double bounds[] = {1, 2, 3, 4}, ranks[] = {0.1, 0.2, 0.3, 0.4};
	static const double values[] = {10, 5, 1, 2, 3, 4, 5};
	struct bridge_sink *s = bridge_publish_sink(p);
	const struct bridge_family f = {.name = {"a", 1}, .type = type};
	const struct bridge_label l = {{"x", 1}, {label, strlen(label)}};
	const struct bridge_point t = {.labels = &l,
				       .label_count = 1,
				       .values = values,
				       .value_count = n + 2 + (type != BRIDGE_SUMMARY),
				       .bounds = type == BRIDGE_SUMMARY ? ranks : bounds,
				       .bound_count = n};

	assert_true(s->family(s, &f) && s->point(s, &t));
}

/* The published number of observations; creates what is not published. */
static uint64_t observations(struct bridge_publisher *p, enum bridge_type type, const char *label,
			     size_t n)
{
	static const double bounds[] = {1, 2, 3, 4}, ranks[] = {0.1, 0.2, 0.3, 0.4};
	struct sl_metric_opts o = SL_OPTS(sl_metric_opts, .name = "a", .help = "", .mirror = true,
					  .utf8 = true, .labels = &(struct sl_label){"x", label},
					  .label_count = 1);
	struct sl_histogram h;

	if (type == BRIDGE_SUMMARY) {
		o.quantiles = ranks;
		o.quantile_count = n;
		return sl_summary_count(sl_summary_create(bridge_publish_of(p), &o));
	}
	o.bounds = bounds;
	o.bound_count = n;
	h = sl_histogram_create_classic(bridge_publish_of(p), &o);
	assert_true(sl_histogram_valid(h));
	return sl_histogram_count(h);
}

/* A target that starts again may have other buckets, and two series of a family may differ. */
static void series_may_change_their_shape(void **state)
{
	static const enum bridge_type types[] = {BRIDGE_HISTOGRAM, BRIDGE_SUMMARY};
	static const double again[] = {10, 7, 2, 4, 6, 7};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const enum bridge_type type = types[i];
		struct bridge_publisher *p = begin(0);
		const size_t values = 5 + (type == BRIDGE_HISTOGRAM);
		uint64_t bytes;

		bridge_publish_begin(p);
		tell_shape(p, type, "1", 2);
		bridge_publish_end(p);
		bytes = p->bytes;
		bridge_publish_begin(p);
		tell_shape(p, type, "1", 3);
		/* Within one body, the first shape counts. */
		tell_shape(p, type, "1", 2);
		bridge_publish_end(p);
		assert_int_equal(bridge_publish_series(p), 1);
		assert_int_equal(bridge_publish_counts(p).refused, 1);
		assert_true(observations(p, type, "1", 3) == (type == BRIDGE_SUMMARY ? 5 : 4));
		bridge_publish_begin(p);
		tell_shape(p, type, "1", 3);
		bridge_publish_end(p);
		bridge_publish_begin(p);
		bridge_publish_sink(p)->values(bridge_publish_sink(p), again, values);
		bridge_publish_end(p);
		assert_int_equal(observations(p, type, "1", 3), 7);
		/* They end like others. */
		bridge_publish_begin(p);
		tell_shape(p, type, "2", 2);
		bridge_publish_end(p);
		assert_int_equal(p->bytes, bytes);
		assert_int_equal(observations(p, type, "1", 3), 0);
		bridge_publish_close(p);
	}
}

static void what_does_not_come_again_is_removed(void **state)
{
	struct bridge_publisher *p = begin(0);
	const double again[] = {7, 8};
	char label[16];

	(void)state;
	for (int round = 0; round < 50; round++) {
		bridge_publish_begin(p);
		for (int i = 0; i < 20; i++) {
			snprintf(label, sizeof(label), "%d", (round * 7 + i * 3) % 60);
			tell(p, "a_total", BRIDGE_COUNTER, label, round * 100 + i, false);
		}
		bridge_publish_end(p);
		assert_int_equal(bridge_publish_series(p), 20);
		for (int i = 0; i < 20; i++) {
			snprintf(label, sizeof(label), "%d", (round * 7 + i * 3) % 60);
			assert_true(value(p, "a_total", label) == round * 100 + i);
		}
	}
	/* Values without names are those of the last body, whose series have known places. */
	bridge_publish_begin(p);
	tell(p, "a_total", BRIDGE_COUNTER, "1", 1, false);
	tell(p, "a_total", BRIDGE_COUNTER, "59", 1, false);
	bridge_publish_end(p);
	bridge_publish_begin(p);
	bridge_publish_sink(p)->values(bridge_publish_sink(p), again, 2);
	bridge_publish_end(p);
	assert_int_equal(bridge_publish_series(p), 2);
	assert_true(value(p, "a_total", "1") == 7);
	assert_true(value(p, "a_total", "59") == 8);
	bridge_publish_clear(p);
	assert_int_equal(bridge_publish_series(p), 0);
	bridge_publish_close(p);
}

static void what_does_not_fit_is_left_out_and_counted(void **state)
{
	struct bridge_publisher *p = begin(2);
	char label[1100];

	(void)state;
	bridge_publish_begin(p);
	tell(p, "a_total", BRIDGE_COUNTER, "1", 1, false);
	tell(p, "up", BRIDGE_GAUGE, "1", 1, false);	 /* the scrape's own */
	tell(p, "a_total", BRIDGE_GAUGE, "2", 1, false); /* another type */
	memset(label, 'x', sizeof(label) - 1);
	label[sizeof(label) - 1] = 0;
	tell(p, "a_total", BRIDGE_COUNTER, label, 1, false);
	tell(p, "a_total", BRIDGE_COUNTER, "\xff", 1, false);
	assert_int_equal(bridge_publish_counts(p).refused, 4);
	tell(p, "a_total", BRIDGE_COUNTER, "3", 3, false);
	tell(p, "a_total", BRIDGE_COUNTER, "4", 4, false);
	assert_int_equal(bridge_publish_counts(p).full, 1);
	assert_int_equal(bridge_publish_series(p), 2);
	assert_true(value(p, "a_total", "3") == 3);
	bridge_publish_close(p);
}

/* Names take memory until the end, so a target that changes them does not get ever more. */
static void names_take_from_the_room(void **state)
{
	enum { BYTES = 64 << 10, N = 1000 };
	struct bridge_publisher *p = bridge_publish_open(&(struct bridge_publish_opts){
		.service = "test", .pod = "test", .detached = true, .bytes_max = BYTES});
	char name[16];

	(void)state;
	assert_non_null(p);
	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "a%d", i);
		bridge_publish_begin(p);
		tell(p, name, BRIDGE_GAUGE, "1", i, false);
		bridge_publish_end(p);
	}
	assert_in_range(p->families.count, 1, BYTES / 512);
	assert_true(p->bytes <= BYTES);
	assert_int_equal(bridge_publish_series(p), 0);
	assert_true(bridge_publish_counts(p).full >= N - p->families.count);
	assert_int_equal(bridge_publish_counts(p).refused, 0);
	bridge_publish_close(p);
}

/* The series is valid, but the bridges have used up the regions of their process. */
static void series_without_a_region_count_as_without_room(void **state)
{
	struct bridge_publisher *p = begin(0);
	struct sl_publisher *others[SL_PUBLISHER_SLOTS];
	char label[16];
	int n = 0;

	(void)state;
	while ((others[n] = sl_publisher_open(
			&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED))))
		n++;
	assert_null(bridge_publish_open(
		&(struct bridge_publish_opts){.service = "b", .pod = "b", .detached = true}));
	assert_non_null(strstr(bridge_publish_why(errno), "63 regions"));
	bridge_publish_begin(p);
	for (int i = 0; i < 20000; i++) {
		snprintf(label, sizeof(label), "%d", i);
		tell(p, "a_total", BRIDGE_COUNTER, label, 1, false);
	}
	assert_in_range(bridge_publish_series(p), 1000, 19999);
	assert_int_equal(bridge_publish_counts(p).full, 20000 - bridge_publish_series(p));
	assert_int_equal(bridge_publish_counts(p).refused, 0);
	while (n)
		sl_publisher_close(others[--n]);
	bridge_publish_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_bucket_goes_where_its_upper_end_is),
		cmocka_unit_test(zeros_go_to_the_bucket_of_their_threshold),
		cmocka_unit_test(differences_add_up),
		cmocka_unit_test(points_that_come_twice_count_once),
		cmocka_unit_test(a_histogram_without_bounds_is_a_summary),
		cmocka_unit_test(a_changed_help_text_changes_nothing_else),
		cmocka_unit_test(series_may_change_their_shape),
		cmocka_unit_test(what_does_not_come_again_is_removed),
		cmocka_unit_test(what_does_not_fit_is_left_out_and_counted),
		cmocka_unit_test(names_take_from_the_room),
		cmocka_unit_test(series_without_a_region_count_as_without_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
