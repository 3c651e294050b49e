// SPDX-License-Identifier: Apache-2.0
/* test_family.c - metrics of a family: one name and help, a series per set of labels. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <sidelight/sidelight.h>

#include "reader.h"

static struct sl_publisher *open_plain(void)
{
	struct sl_publisher *p =
		sl_publisher_open(&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED));

	assert_non_null(p);
	return p;
}

static struct sl_publisher_stats stats_of(const struct sl_publisher *p)
{
	struct sl_publisher_stats stats = SL_OPTS(sl_publisher_stats);

	assert_int_equal(sl_publisher_stats(p, &stats), 0);
	return stats;
}

static void series_of_a_family_share_name_help_and_unit(void **state)
{
	struct sl_publisher *p = open_plain();
	struct sl_counter_family f =
		sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "http_requests_total",
						     .help = "Requests.", .unit = "requests"));
	struct sl_counter ok, again, lost, none, other;
	const struct region_metric *m;
	struct reader r;

	(void)state;
	assert_int_equal(stats_of(p).metrics, 0);
	ok = sl_counter_with(f, SL_LABELS({"route", "/cart"}, {"code", "200"}));
	again = sl_counter_with(f, SL_LABELS({"code", "200"}, {"route", "/cart"}));
	lost = sl_counter_with(f, SL_LABELS({"route", "/cart"}, {"code", "404"}));
	none = sl_counter_with(f, NULL, 0);
	other = sl_counter_create(
		p, &SL_OPTS(sl_metric_opts, .name = "http_requests_total",
			    .labels = (struct sl_label[]){{"code", "404"}, {"route", "/cart"}},
			    .label_count = 2));
	assert_int_equal(ok.bits, again.bits);
	assert_int_equal(lost.bits, other.bits);
	assert_true(ok.bits != lost.bits && ok.bits != none.bits);
	assert_int_equal(stats_of(p).metrics, 3);
	sl_counter_add(ok, 5);
	sl_counter_add(lost, 7);
	sl_counter_add(none, 9);

	assert_int_equal(reader_open(&r, sl_publisher_fd(p)), REGION_FAULT_NONE);
	assert_int_equal(reader_round(&r), REGION_FAULT_NONE);
	for (int i = 0; i < 2; i++) {
		m = reader_find(&r, "http_requests_total", i ? "404" : "200");
		assert_non_null(m);
		assert_string_equal(m->help, "Requests.");
		assert_string_equal(m->unit, "requests");
		assert_int_equal(m->label_count, 2);
		assert_int_equal(region_values_u64(&r.values, m->cell), i ? 7 : 5);
	}
	reader_close(&r);
	sl_publisher_close(p);
}

static void every_kind_has_families(void **state)
{
	static const char *const states[] = {"off", "on"};
	static const double bounds[] = {1, 2, 4};
	struct sl_publisher *p = open_plain();
	struct sl_counter_f64 seconds;
	struct sl_gauge open;
	struct sl_gauge_f64 load;
	struct sl_stateset power;
	struct sl_histogram native, classic;

	(void)state;
	seconds = sl_counter_f64_with(
		sl_counter_f64_family_create(p, &SL_OPTS(sl_metric_opts, .name = "s_total")),
		SL_LABELS({"k", "v"}));
	open = sl_gauge_with(sl_gauge_family_create(p, &SL_OPTS(sl_metric_opts, .name = "open")),
			     SL_LABELS({"k", "v"}));
	load = sl_gauge_f64_with(
		sl_gauge_f64_family_create(p, &SL_OPTS(sl_metric_opts, .name = "load")),
		SL_LABELS({"k", "v"}));
	power = sl_stateset_with(
		sl_stateset_family_create(p, &SL_OPTS(sl_metric_opts, .name = "power",
						      .states = states, .state_count = 2)),
		SL_LABELS({"k", "v"}));
	native = sl_histogram_with(
		sl_histogram_family_create(
			p, &SL_OPTS(sl_metric_opts, .name = "native", .min = 1e-3, .max = 1e3)),
		SL_LABELS({"k", "v"}));
	classic = sl_histogram_with(
		sl_histogram_family_create_classic(p, &SL_OPTS(sl_metric_opts, .name = "classic",
							       .bounds = bounds, .bound_count = 3)),
		SL_LABELS({"k", "v"}));
	sl_counter_f64_add(seconds, 1.5);
	sl_gauge_set(open, -3);
	sl_gauge_f64_set(load, 2.5);
	sl_stateset_set(power, 1, true);
	sl_histogram_observe(native, 5);
	sl_histogram_observe(classic, 3);
	assert_true(sl_counter_f64_value(seconds) == 1.5);
	assert_int_equal(sl_gauge_value(open), -3);
	assert_true(sl_gauge_f64_value(load) == 2.5);
	assert_true(sl_stateset_valid(power));
	assert_int_equal(sl_histogram_count(native), 1);
	assert_true(sl_histogram_sum(classic) == 3);
	assert_int_equal(stats_of(p).metrics, 6);
	assert_int_equal(stats_of(p).refused, 0);
	sl_publisher_close(p);
}

/* Each line is refused, counted once, and returns a handle that does nothing. */
static void a_refused_family_or_label_is_counted_and_harmless(void **state)
{
	static const double bounds[] = {1, 2}, others[] = {1, 3};
	struct sl_publisher *p = open_plain();
	struct sl_histogram_family h = sl_histogram_family_create_classic(
		p, &SL_OPTS(sl_metric_opts, .name = "h", .bounds = bounds, .bound_count = 2));
	struct sl_counter_family f =
		sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "c_total"));
	uint32_t refused = 0;

	(void)state;
#define REFUSED(handle)                                           \
	do {                                                      \
		assert_int_equal((handle).bits, 0);               \
		assert_int_equal(stats_of(p).refused, ++refused); \
	} while (0)
	REFUSED(sl_counter_family_create(p, NULL));
	REFUSED(sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "1x")));
	REFUSED(sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "x", .unit = "m/s")));
	REFUSED(sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "labelled",
						     .labels = &(struct sl_label){"k", "v"},
						     .label_count = 1)));
	/* The name is used by another kind, or with other buckets, of a family or a metric. */
	REFUSED(sl_gauge_family_create(p, &SL_OPTS(sl_metric_opts, .name = "c_total")));
	REFUSED(sl_histogram_family_create_classic(
		p, &SL_OPTS(sl_metric_opts, .name = "h", .bounds = others, .bound_count = 2)));
	REFUSED(sl_gauge_create(p, &SL_OPTS(sl_metric_opts, .name = "c_total")));
	REFUSED(sl_counter_with(f, SL_LABELS({"__k", "v"})));
	REFUSED(sl_counter_with(f, SL_LABELS({"k", "v"}, {"k", "w"})));
	REFUSED(sl_counter_with(f, SL_LABELS({"k", NULL})));
	REFUSED(sl_counter_with(f, NULL, 1));
	REFUSED(sl_histogram_with(h, SL_LABELS({"le", "1"})));
	/*
	 * Without a publisher, a family is refused, and there is nothing that could count the
	 * refusal.
	 */
	assert_int_equal(sl_counter_family_create(NULL, &SL_OPTS(sl_metric_opts, .name = "c")).bits,
			 0);
	assert_int_equal(sl_counter_with((struct sl_counter_family){0}, NULL, 0).bits, 0);
	assert_int_equal(sl_counter_with((struct sl_counter_family){f.bits + 100}, NULL, 0).bits,
			 0);
	/* The same family again is the same. */
	assert_int_equal(
		sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "c_total")).bits,
		f.bits);
	assert_int_equal(stats_of(p).refused, refused);
	assert_int_equal(stats_of(p).metrics, 0);
	sl_publisher_close(p);
	sl_counter_inc(sl_counter_with(f, SL_LABELS({"k", "v"}))); /* nothing, and no crash */
}

struct racing {
	struct sl_counter_family family;
	pthread_barrier_t *start;
	uint64_t bits[64];
};

static void *create_and_count(void *arg)
{
	struct racing *r = arg;

	pthread_barrier_wait(r->start);
	for (int i = 0; i < 64; i++) {
		char value[8];
		struct sl_counter c;

		snprintf(value, sizeof(value), "%d", i);
		c = sl_counter_with(r->family, SL_LABELS({"k", value}));
		sl_counter_inc(c);
		r->bits[i] = c.bits;
	}
	return NULL;
}

static void threads_that_ask_for_one_series_get_one(void **state)
{
	enum { THREADS = 8 };
	struct sl_publisher *p = open_plain();
	struct racing r[THREADS];
	pthread_barrier_t start;
	pthread_t t[THREADS];

	(void)state;
	pthread_barrier_init(&start, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		r[i].family = sl_counter_family_create(p,
						       &SL_OPTS(sl_metric_opts, .name = "c_total"));
		r[i].start = &start;
		assert_int_equal(pthread_create(&t[i], NULL, create_and_count, &r[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(stats_of(p).metrics, 64);
	for (int i = 0; i < 64; i++) {
		assert_int_equal(sl_counter_value((struct sl_counter){r[0].bits[i]}), THREADS);
		for (int k = 1; k < THREADS; k++)
			assert_int_equal(r[k].bits[i], r[0].bits[i]);
	}
	pthread_barrier_destroy(&start);
	sl_publisher_close(p);
}

static void a_forked_child_goes_on_with_the_family(void **state)
{
	struct sl_publisher *p = open_plain();
	struct sl_counter_family f =
		sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "c_total"));
	struct sl_counter before = sl_counter_with(f, SL_LABELS({"k", "before"}));
	int status = -1;
	pid_t pid;

	(void)state;
	sl_counter_add(before, 3);
	pid = fork();
	if (!pid) {
		struct sl_counter c = sl_counter_with(f, SL_LABELS({"k", "child"}));

		sl_counter_inc(c);
		sl_counter_inc(before);
		_exit(sl_counter_value(c) == 1 && sl_counter_value(before) == 1 &&
				      read_u64(sl_publisher_fd(p), "c_total") == 1
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(stats_of(p).metrics, 1);
	assert_int_equal(sl_counter_value(before), 3);
	sl_publisher_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(series_of_a_family_share_name_help_and_unit),
		cmocka_unit_test(every_kind_has_families),
		cmocka_unit_test(a_refused_family_or_label_is_counted_and_harmless),
		cmocka_unit_test(threads_that_ask_for_one_series_get_one),
		cmocka_unit_test(a_forked_child_goes_on_with_the_family),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
