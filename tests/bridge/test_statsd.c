// SPDX-License-Identifier: Apache-2.0
/* test_statsd.c - lines of StatsD and DogStatsD, and what they count. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "bridge/statsd.h"

#define SECOND 1000000000ull

struct setup {
	struct sl_publisher *p;
	struct bridge_statsd *s;
};

static struct setup begin(size_t series)
{
	struct setup t;

	t.p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "test", .pod = "test",
					 .flags = SL_PUBLISHER_DETACHED, .max_cells = 8192));
	t.s = bridge_statsd_new(t.p, series);
	assert_non_null(t.s);
	return t;
}

static void end(struct setup *t)
{
	bridge_statsd_free(t->s);
	sl_publisher_close(t->p);
}

static void send(struct setup *t, const char *packet)
{
	bridge_statsd_packet(t->s, packet, strlen(packet), SECOND);
}

static double counter(struct setup *t, const char *name, const struct sl_label *l, size_t n)
{
	return sl_counter_f64_value(sl_counter_f64_create(
		t->p, &SL_OPTS(sl_metric_opts, .name = name, .labels = l, .label_count = n)));
}

static double gauge(struct setup *t, const char *name)
{
	return sl_gauge_f64_value(
		sl_gauge_f64_create(t->p, &SL_OPTS(sl_metric_opts, .name = name)));
}

static void lines_are_taken_apart(void **state)
{
	struct bridge_statsd_line l;

	(void)state;
	assert_true(bridge_statsd_parse("a.b:1:2|ms|@0.5|#x:y,z|c:abc|T1656581400", 40, &l));
	assert_true(bridge_text_is(l.name, "a.b", 3));
	assert_true(bridge_text_is(l.values, "1:2", 3));
	assert_true(bridge_text_is(l.tags, "x:y,z", 5));
	assert_int_equal(l.type, STATSD_TIMER);
	assert_true(l.rate == 0.5);
	for (const char *const *s =
		     (const char *const[]){"a", "a:", ":1|c", "a:1", "a:1|", "a:1|x", "a:1|c|@0",
					   "a:1|c|@2", "a:1|c|@x", "a:1|c|", "a:1|c|y",
					   "_e{1,1}:a|b", "_sc|a|0", "", NULL};
	     *s; s++)
		assert_false(bridge_statsd_parse(*s, strlen(*s), &l));
}

static void counters_and_gauges_are_exact(void **state)
{
	struct setup t = begin(0);

	(void)state;
	send(&t, "a.b:1|c\na.b:4|c|@0.5\na-b:2|c\r\ng:5|g\ng:+2|g\ng:-3.5|g");
	send(&t, "tag:1|c|#env:prod,flag,env:test\n9:1|c");
	/* Names that differ only in characters that Prometheus lacks are one name. */
	assert_true(counter(&t, "a_b", NULL, 0) == 11);
	assert_true(gauge(&t, "g") == 3.5);
	assert_true(counter(&t, "tag", SL_LABELS({"env", "test"}, {"flag", ""})) == 1);
	assert_true(counter(&t, "_9", NULL, 0) == 1);
	assert_int_equal(bridge_statsd_counts(t.s).lines, 8);
	assert_int_equal(bridge_statsd_counts(t.s).malformed, 0);
	end(&t);
}

static void observations_count_by_their_rate(void **state)
{
	struct setup t = begin(0);
	struct sl_histogram h;

	(void)state;
	send(&t, "t:250|ms|@0.1\nt:500:1000|ms\nd:7|d\nh:3|h");
	h = sl_histogram_create(t.p, &SL_OPTS(sl_metric_opts, .name = "t", .unit = "seconds",
					      .scale = 2, .use_scale = true));
	assert_int_equal(sl_histogram_count(h), 12);
	assert_true(sl_histogram_sum(h) == 4);
	end(&t);
}

static void sets_have_their_number_of_the_interval(void **state)
{
	struct setup t = begin(0);
	char line[32];

	(void)state;
	bridge_statsd_tick(t.s, SECOND, 0);
	for (int i = 0; i < 5000; i++) {
		snprintf(line, sizeof(line), "u:user:%d|s", i % 500);
		send(&t, line);
	}
	bridge_statsd_tick(t.s, 2 * SECOND, 0);
	assert_true(gauge(&t, "u") == 0);
	bridge_statsd_tick(t.s, 12 * SECOND, 0);
	assert_in_range((int)gauge(&t, "u"), 450, 550);
	bridge_statsd_tick(t.s, 23 * SECOND, 0);
	assert_true(gauge(&t, "u") == 0);
	end(&t);
}

static void what_is_wrong_is_counted(void **state)
{
	struct setup t = begin(0);
	struct bridge_statsd_counts c;

	(void)state;
	send(&t, "a:1|c\na:-1|c\na:x|c\na:inf|c\na:|c\nnonsense\nt:-5|ms\n\n");
	c = bridge_statsd_counts(t.s);
	assert_true(counter(&t, "a", NULL, 0) == 1);
	assert_int_equal(c.malformed, 6);
	send(&t, "a:1|g\nutf:1|c|#x:\xff");
	assert_int_equal(bridge_statsd_counts(t.s).refused, 2);
	end(&t);
}

static void series_are_bounded_and_expire(void **state)
{
	struct setup t = begin(4);
	char line[32];

	(void)state;
	for (int i = 0; i < 10; i++) {
		snprintf(line, sizeof(line), "a:1|c|#n:%d", i);
		send(&t, line);
	}
	assert_int_equal(bridge_statsd_series(t.s), 4);
	assert_int_equal(bridge_statsd_counts(t.s).refused, 6);
	bridge_statsd_packet(t.s, "a:1|c|#n:2", 10, 50 * SECOND);
	bridge_statsd_tick(t.s, 60 * SECOND, 30 * SECOND);
	assert_int_equal(bridge_statsd_series(t.s), 1);
	assert_int_equal(bridge_statsd_counts(t.s).expired, 3);
	/* The remaining one is found, and there is room for others again. */
	bridge_statsd_packet(t.s, "a:1|c|#n:2\na:1|c|#n:9", 21, 60 * SECOND);
	assert_int_equal(bridge_statsd_series(t.s), 2);
	assert_true(counter(&t, "a", SL_LABELS({"n", "2"})) == 3);
	end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_taken_apart),
		cmocka_unit_test(counters_and_gauges_are_exact),
		cmocka_unit_test(observations_count_by_their_rate),
		cmocka_unit_test(sets_have_their_number_of_the_interval),
		cmocka_unit_test(what_is_wrong_is_counted),
		cmocka_unit_test(series_are_bounded_and_expire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
