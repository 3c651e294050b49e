// SPDX-License-Identifier: Apache-2.0
/* test_kinds.c - kinds, flags and creation times that a publisher writes since minor 1. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#include "support/test.h"
#include "raw.h"

static struct sl_publisher *open_plain(void)
{
	struct sl_publisher *p =
		sl_publisher_open(&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED));

	assert_non_null(p);
	return p;
}

static uint32_t refused(const struct sl_publisher *p)
{
	struct sl_publisher_stats stats = SL_OPTS(sl_publisher_stats);

	assert_int_equal(sl_publisher_stats(p, &stats), 0);
	return stats.refused;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *observe_more(void *arg)
{
	struct sl_summary *s = arg;

	for (int i = 0; i < 1000; i++)
		sl_summary_observe(*s, 0.5);
	return NULL;
}

static void summaries_add_up_and_have_quantiles(void **state)
{
	static const double ranks[] = {0.5, 0.9, 0.99};
	struct sl_publisher *p = open_plain();
	struct sl_summary s = sl_summary_create(p, &SL_OPTS(sl_metric_opts, .name = "s_seconds",
							    .unit = "seconds", .quantiles = ranks,
							    .quantile_count = 3));
	struct sl_summary bare = sl_summary_create(p, &SL_OPTS(sl_metric_opts, .name = "bare"));
	const struct sl_schema_record *m;
	pthread_t t;
	struct raw r;

	(void)state;
	assert_true(sl_summary_valid(s) && sl_summary_valid(bare));
	sl_summary_observe(s, 2.5);
	sl_summary_add(s, 10, 4);
	assert_int_equal(pthread_create(&t, NULL, observe_more, &s), 0);
	pthread_join(t, NULL);
	sl_summary_observe(bare, 1);
	assert_int_equal(refused(p), 0);
	sl_summary_observe(s, NAN);
	sl_summary_observe(s, INFINITY);
	assert_int_equal(refused(p), 2);
	assert_int_equal(sl_summary_set_quantiles(s, (double[]){1, 2, 3}, 3), 0);
	assert_int_equal(sl_summary_set_quantiles(s, (double[]){4, NAN, 6}, 3), 0);
	assert_int_equal(sl_summary_set_quantiles(s, (double[]){1, 2}, 2), -EINVAL);
	assert_int_equal(sl_summary_set_quantiles(s, NULL, 3), -EINVAL);
	assert_int_equal(sl_summary_set_quantiles(bare, NULL, 0), 0);
	assert_int_equal(sl_summary_count(s), 1005);
	assert_true(sl_summary_sum(s) == 512.5);

	assert_true(raw_open(&r, sl_publisher_fd(p)));
	assert_int_equal(((struct sl_region_header *)r.map)->minor, SL_REGION_MINOR);
	m = raw_find(&r, "s_seconds", NULL);
	assert_non_null(m);
	assert_true(raw_check(m));
	assert_int_equal(m->kind, SL_KIND_SUMMARY);
	assert_int_equal(m->cells, 5);
	assert_int_equal(m->bound_count, 3);
	assert_memory_equal(m + 1, ranks, sizeof(ranks));
	assert_true(raw_f64(&r, m->cell + SL_SUMMARY_SUM) == 512.5);
	assert_int_equal(raw_u64(&r, m->cell + SL_SUMMARY_COUNT), 1005);
	assert_true(raw_f64(&r, m->cell + SL_SUMMARY_QUANTILES) == 4);
	assert_true(isnan(raw_f64(&r, m->cell + SL_SUMMARY_QUANTILES + 1)));
	assert_true(raw_f64(&r, m->cell + SL_SUMMARY_QUANTILES + 2) == 6);
	m = raw_find(&r, "bare", NULL);
	assert_int_equal(m->cells, 2);
	assert_true(raw_verifies(&r));
	raw_close(&r);
	sl_publisher_close(p);
}

static void what_is_set_as_a_whole_is_in_stripe_0(void **state)
{
	static const double bounds[] = {1, 2, 4};
	static const uint64_t four[] = {4, 3, 2, 1}, less[] = {1, 0, 0, 7};
	struct sl_publisher *p = open_plain();
#define MIRROR(type, n, ...) \
	sl_##type##_create(p, &SL_OPTS(sl_metric_opts, .name = n, .mirror = true, ##__VA_ARGS__))
	struct sl_counter c = MIRROR(counter, "c_total");
	struct sl_counter_f64 f = MIRROR(counter_f64, "f_total");
	struct sl_summary s = MIRROR(summary, "s");
	struct sl_unknown u =
		sl_unknown_create(p, &SL_OPTS(sl_metric_opts, .name = "u", .mirror = true));
	struct sl_histogram h =
		sl_histogram_create_classic(p, &SL_OPTS(sl_metric_opts, .name = "h", .mirror = true,
							.bounds = bounds, .bound_count = 3));
	struct sl_gauge_histogram g = sl_gauge_histogram_create_classic(
		p, &SL_OPTS(sl_metric_opts, .name = "g", .bounds = bounds, .bound_count = 3));
	struct sl_gauge_histogram e = sl_gauge_histogram_create(
		p, &SL_OPTS(sl_metric_opts, .name = "e", .use_scale = true, .min = 1, .max = 8));
	struct sl_gauge_timed t =
		sl_gauge_timed_create(p, &SL_OPTS(sl_metric_opts, .name = "t", .live = true));
	const struct sl_schema_record *m;
	uint64_t five[5] = {1, 2, 3, 4, 5}, before = now_ns();
	struct raw r;

	(void)state;
	sl_counter_mirror(c, 1000);
	sl_counter_mirror(c, 7);
	sl_counter_f64_mirror(f, 1e9);
	sl_counter_f64_mirror(f, 0.5);
	sl_summary_mirror(s, 40, 9);
	sl_summary_mirror(s, 4, 2);
	sl_unknown_set(u, -3.5);
	assert_int_equal(sl_histogram_mirror(h, four, 4, 20), 0);
	assert_int_equal(sl_histogram_mirror(h, four, 3, 20), -EINVAL);
	assert_int_equal(sl_gauge_histogram_set(g, four, 4, 20), 0);
	assert_int_equal(sl_gauge_histogram_set(g, less, 4, -1), 0);
	assert_int_equal(sl_gauge_histogram_set(g, less, 5, -1), -EINVAL);
	assert_int_equal(sl_gauge_histogram_size(g), 4);
	assert_int_equal(sl_gauge_histogram_size(e), 5);
	assert_int_equal(sl_gauge_histogram_set(e, five, 5, 9), 0);
	sl_gauge_timed_set_at(t, 1, 17);
	sl_gauge_timed_set(t, 2.25);
	assert_true(sl_gauge_timed_value(t) == 2.25 && sl_unknown_value(u) == -3.5);
	assert_int_equal(sl_counter_value(c), 7);
	assert_int_equal(sl_histogram_count(h), 10);

	assert_true(raw_open(&r, sl_publisher_fd(p)));
	m = raw_find(&r, "c_total", NULL);
	assert_int_equal(m->kind, SL_KIND_COUNTER);
	assert_int_equal(m->flags, SL_FLAG_MIRROR);
	assert_int_equal(raw_stripe_cell(&r, 0, m->cell), 7);
	m = raw_find(&r, "f_total", NULL);
	assert_true(raw_f64(&r, m->cell) == 0.5);
	m = raw_find(&r, "s", NULL);
	assert_true(raw_f64(&r, m->cell) == 4);
	assert_int_equal(raw_u64(&r, m->cell + 1), 2);
	m = raw_find(&r, "u", NULL);
	assert_int_equal(m->kind, SL_KIND_UNKNOWN);
	assert_true(raw_f64(&r, m->cell) == -3.5);
	m = raw_find(&r, "h", NULL);
	assert_int_equal(m->kind, SL_KIND_HISTOGRAM);
	assert_true(raw_f64(&r, m->cell) == 20);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(raw_stripe_cell(&r, 0, m->cell + 2 + i), four[i]);
	m = raw_find(&r, "g", NULL);
	assert_int_equal(m->kind, SL_KIND_GAUGE_HISTOGRAM);
	assert_int_equal(m->flags, 0);
	assert_true(raw_f64(&r, m->cell) == -1);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(raw_u64(&r, m->cell + 2 + i), less[i]);
	m = raw_find(&r, "e", NULL);
	assert_int_equal(m->kind, SL_KIND_GAUGE_HISTOGRAM_EXP);
	assert_int_equal(m->cells, 7);
	assert_int_equal(raw_u64(&r, m->cell + 6), 5);
	m = raw_find(&r, "t", NULL);
	assert_int_equal(m->kind, SL_KIND_GAUGE_TIMED);
	assert_int_equal(m->flags, SL_COMBINE_MOST_RECENT | SL_FLAG_LIVE);
	assert_true(raw_f64(&r, m->cell) == 2.25);
	assert_in_range(raw_stripe_cell(&r, 0, m->cell + 1), before, now_ns());
	assert_true(raw_verifies(&r));
	raw_close(&r);
	sl_publisher_close(p);
}

static void combinations_and_shapes_are_checked(void **state)
{
	static const double down[] = {0.9, 0.5}, above[] = {0.5, 1.5}, nan[] = {NAN};
	struct sl_publisher *p = open_plain();
	struct sl_gauge g = sl_gauge_create(
		p, &SL_OPTS(sl_metric_opts, .name = "g", .combine = SL_COMBINE_MAX, .live = true));
	const struct sl_schema_record *m;
	uint32_t count = 0;
	struct raw r;

	(void)state;
#define REFUSED(type, ...)                                                                     \
	do {                                                                                   \
		assert_int_equal(                                                              \
			sl_##type##_create(p, &SL_OPTS(sl_metric_opts, __VA_ARGS__)).bits, 0); \
		assert_int_equal(refused(p), ++count);                                         \
	} while (0)
	REFUSED(gauge, .name = "a", .combine = SL_COMBINE_MOST_RECENT);
	REFUSED(gauge, .name = "a", .combine = (enum sl_combine)6);
	REFUSED(gauge, .name = "g", .combine = SL_COMBINE_MIN);
	REFUSED(gauge, .name = "g");
	REFUSED(summary, .name = "s", .quantiles = down, .quantile_count = 2);
	REFUSED(summary, .name = "s", .quantiles = above, .quantile_count = 2);
	REFUSED(summary, .name = "s", .quantiles = nan, .quantile_count = 1);
	REFUSED(summary, .name = "s", .quantile_count = 1);
	REFUSED(summary, .name = "s", .labels = &(struct sl_label){"quantile", "1"},
		.label_count = 1);
	REFUSED(gauge_histogram, .name = "s", .labels = &(struct sl_label){"le", "1"},
		.label_count = 1);
	REFUSED(unknown, .name = "a b");
	REFUSED(unknown, .name = "\xff", .utf8 = true);
	REFUSED(unknown, .name = "", .utf8 = true);
	REFUSED(unknown, .name = "a b", .utf8 = true, .labels = &(struct sl_label){"__x", "1"},
		.label_count = 1);
	REFUSED(stateset, .name = "a:b", .utf8 = true);
	assert_true(raw_open(&r, sl_publisher_fd(p)));
	m = raw_find(&r, "g", NULL);
	assert_true(sl_gauge_valid(g));
	assert_int_equal(m->flags, SL_COMBINE_MAX | SL_FLAG_LIVE);
	raw_close(&r);
	sl_publisher_close(p);
}

static void names_in_utf8_have_replaceable_records(void **state)
{
	struct sl_publisher *p = open_plain();
	struct sl_counter c = sl_counter_create(
		p, &SL_OPTS(sl_metric_opts, .name = "http.requests \xc3\xa9", .utf8 = true,
			    .labels = &(struct sl_label){"http.route", "/"}, .label_count = 1));
	const struct sl_schema_record *m;
	struct raw r;

	(void)state;
	assert_true(sl_counter_valid(c));
	sl_counter_add(c, 5);
	assert_true(raw_open(&r, sl_publisher_fd(p)));
	m = raw_find(&r, "http.requests \xc3\xa9", "/");
	assert_non_null(m);
	assert_int_equal(m->kind, SL_KIND_COUNTER | SL_KIND_REPLACEABLE);
	assert_int_equal(m->length % 64, 0);
	assert_true(raw_check(m));
	assert_int_equal(raw_u64(&r, m->cell), 5);
	raw_close(&r);
	sl_publisher_close(p);
}

static void each_metric_says_since_when_it_counts(void **state)
{
	enum { COUNT = 1700 }; /* more than fit into a page of cells */
	struct sl_publisher *p = sl_publisher_open(
		&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED, .span_bytes = 32768));
	uint64_t before = now_ns(), after;
	const struct sl_region_section *s;
	struct raw r;
	char name[16];

	(void)state;
	assert_non_null(p);
	for (int i = 0; i < COUNT; i++) {
		snprintf(name, sizeof(name), "c%d_total", i);
		assert_true(sl_counter_valid(
			sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = name,
						      .created_ns = i == 9 ? 4711 : 0))));
	}
	after = now_ns();
	assert_true(raw_open(&r, sl_publisher_fd(p)));
	s = raw_section(&r, SL_SECTION_CREATED);
	assert_non_null(s);
	assert_int_equal(s->stride, 64);
	for (uint32_t i = 0; i < COUNT; i++) {
		if (i == 9)
			assert_int_equal(raw_created(&r, i), 4711);
		else
			assert_in_range(raw_created(&r, i), before, after);
	}
	assert_int_equal(raw_created(&r, COUNT), 0);
	raw_close(&r);

	/* A forked child counts from 0, and from its own start. */
	pid_t pid = fork();
	if (!pid) {
		uint64_t since = now_ns(), created;

		if (!raw_open(&r, sl_publisher_fd(p)))
			_exit(1);
		created = raw_created(&r, 8);
		_exit(created < since || created > now_ns() || raw_created(&r, 9) != 4711);
	}
	int status = -1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	sl_publisher_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(summaries_add_up_and_have_quantiles),
		cmocka_unit_test(what_is_set_as_a_whole_is_in_stripe_0),
		cmocka_unit_test(combinations_and_shapes_are_checked),
		cmocka_unit_test(names_in_utf8_have_replaceable_records),
		cmocka_unit_test(each_metric_says_since_when_it_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
