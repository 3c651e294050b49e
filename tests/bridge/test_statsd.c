// SPDX-License-Identifier: Apache-2.0
/* test_statsd.c - lines of StatsD and DogStatsD, and the resulting counts. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "bridge/statsd.h"

#define SECOND 1000000000ull

struct setup {
	struct sl_publisher *p;
	struct bridge_statsd *s;
};

static struct setup begin_with(const struct bridge_statsd_opts *opts)
{
	struct setup t;

	t.p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "test", .pod = "test",
					 .flags = SL_PUBLISHER_DETACHED, .max_cells = 8192));
	t.s = bridge_statsd_new(t.p, opts);
	assert_non_null(t.s);
	return t;
}

static struct setup begin(size_t series)
{
	return begin_with(&(struct bridge_statsd_opts){.series = series});
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

static struct bridge_statsd_map *map_of(const char *text, char error[200])
{
	char path[] = "/tmp/statsd-map-XXXXXX";
	int fd = mkstemp(path);
	struct bridge_statsd_map *m;

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	m = bridge_statsd_map_open(path, error, 200);
	unlink(path);
	return m;
}

static void lines_are_taken_apart(void **state)
{
	struct bridge_statsd_line l;

	(void)state;
	assert_true(bridge_statsd_parse("a.b:1:2|ms|@0.5|#x:y,z|c:abc|T1656581400", 40, &l));
	assert_true(bridge_text_is(l.name, "a.b"));
	assert_true(bridge_text_is(l.values, "1:2"));
	assert_true(bridge_text_is(l.tags, "x:y,z"));
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
	send(&t, "tag:2|c|#flag\ntag:4|c|#flag:true,none:,:x\ntag:8|c|#none:");
	/* Names that differ only in characters that Prometheus lacks are one name. */
	assert_true(counter(&t, "a_b", NULL, 0) == 11);
	assert_true(gauge(&t, "g") == 3.5);
	assert_true(counter(&t, "tag", SL_LABELS({"env", "test"}, {"flag", "true"})) == 1);
	/* A label without a value is none to Prometheus. */
	assert_true(counter(&t, "tag", SL_LABELS({"flag", "true"})) == 6);
	assert_true(counter(&t, "tag", NULL, 0) == 8);
	assert_true(counter(&t, "_9", NULL, 0) == 1);
	assert_int_equal(bridge_statsd_counts(t.s).lines, 11);
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

/* A packet with many sampled values costs no more than one without a rate, and counts the same. */
static void many_sampled_observations_are_exact(void **state)
{
	static const char text[] =
		"mappings:\n- {match: classic, name: classic, buckets: [0.5, 1, 4]}\n";
	static uint64_t got[162], want[162];
	const double values[] = {0, 1e-9, 1e-6, 0.5, 0.75, 1, 1.5, 2, 4, 5, 1e5, 1e6, 1e7};
	const size_t n = sizeof(values) / sizeof(*values);
	struct sl_metric_opts o = SL_OPTS(sl_metric_opts, .name = "h", .scale = 2,
					  .use_scale = true);
	struct bridge_statsd_opts opts = {.series = 0};
	char error[200] = "", packet[60000], *to = packet;
	struct sl_histogram h, one;
	struct setup t;
	double sum = 0;

	(void)state;
	opts.map = map_of(text, error);
	assert_non_null(opts.map);
	t = begin_with(&opts);
	to += sprintf(to, "h");
	for (int i = 0; i < 1000; i++)
		for (size_t k = 0; k < n; k++)
			to += sprintf(to, ":%g", values[k]);
	sprintf(to, "|h|@0.001");
	send(&t, packet);
	h = sl_histogram_create(t.p, &o);
	o.name = "one";
	one = sl_histogram_create(t.p, &o);
	for (size_t k = 0; k < n; k++) {
		sl_histogram_observe(one, values[k]);
		sum += values[k];
	}
	assert_int_equal(sl_histogram_buckets(h, got, 162), 0);
	assert_int_equal(sl_histogram_buckets(one, want, 162), 0);
	for (int i = 0; i < 162; i++)
		assert_int_equal(got[i], want[i] * 1000000);
	assert_true(fabs(sl_histogram_sum(h) / (sum * 1e6) - 1) < 1e-9);
	send(&t, "classic:0.5:0.75:4:5:6|h|@0.01");
	h = sl_histogram_create_classic(t.p, &SL_OPTS(sl_metric_opts, .name = "classic",
						      .bounds = (const double[]){0.5, 1, 4},
						      .bound_count = 3));
	assert_int_equal(sl_histogram_buckets(h, got, 4), 0);
	assert_true(got[0] == 100 && got[1] == 100 && got[2] == 100 && got[3] == 200);
	assert_true(sl_histogram_sum(h) == 1625);
	end(&t);
	bridge_statsd_map_free((struct bridge_statsd_map *)opts.map);
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

/* A malformed value is not a sign of life, either. */
static void malformed_values_create_no_series_and_keep_none(void **state)
{
	struct setup t = begin(0);

	(void)state;
	send(&t, "a:nan|g\nb:hello|g\nc:-1|c\nd:1e400|c\ne:|s\nf:1:x|c\ng:-5|ms\nh:1e308|c|@0.1");
	assert_int_equal(bridge_statsd_series(t.s), 0);
	assert_int_equal(bridge_statsd_counts(t.s).malformed, 8);
	assert_int_equal(bridge_statsd_counts(t.s).lines, 0);
	send(&t, "a:5|g");
	bridge_statsd_packet(t.s, "a:nan|g", 7, 50 * SECOND);
	bridge_statsd_tick(t.s, 60 * SECOND, 30 * SECOND);
	assert_int_equal(bridge_statsd_series(t.s), 0);
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

/* Names take memory until the end, so their number is limited, too. */
static void names_are_bounded(void **state)
{
	struct setup t = begin(4);
	char line[32];

	(void)state;
	for (int i = 0; i < 10; i++) {
		snprintf(line, sizeof(line), "a%d:1|c", i);
		send(&t, line);
		bridge_statsd_tick(t.s, 60 * SECOND, 30 * SECOND);
	}
	assert_int_equal(bridge_statsd_counts(t.s).lines, 4);
	assert_int_equal(bridge_statsd_counts(t.s).refused, 6);
	/* A known name is taken again. */
	send(&t, "a3:2|c");
	assert_true(counter(&t, "a3", NULL, 0) == 2);
	end(&t);
}

/* The reason may have ended, so a refused series is tried again, even if its lines do not stop. */
static void refused_series_are_tried_again(void **state)
{
	struct setup t = begin(0);

	(void)state;
	send(&t, "a:1|c\na:1|g");
	bridge_statsd_packet(t.s, "a:1|g", 5, 10 * SECOND);
	bridge_statsd_tick(t.s, 10 * SECOND, 3600 * SECOND);
	assert_int_equal(bridge_statsd_series(t.s), 2);
	bridge_statsd_tick(t.s, 11 * SECOND, 3600 * SECOND);
	assert_int_equal(bridge_statsd_series(t.s), 1);
	assert_int_equal(bridge_statsd_counts(t.s).refused, 2);
	assert_int_equal(bridge_statsd_counts(t.s).expired, 0);
	end(&t);
}

/* A name that cannot be published takes no memory for long, and little of it. */
static void refused_series_take_little_memory(void **state)
{
	enum { SHORT = 4000, LONG = 60000, N = 10000 };
	struct setup t = begin(0);
	char *line = malloc(LONG + 32);

	(void)state;
	sprintf(line, "%0*d:1|c", LONG, 0);
	send(&t, line);
	assert_int_equal(bridge_statsd_series(t.s), 0);
	for (int i = 0; i < N; i++) {
		sprintf(line, "%0*d:1|c", SHORT, i);
		send(&t, line);
	}
	assert_in_range(bridge_statsd_series(t.s), 1, (32 << 20) / SHORT);
	assert_int_equal(bridge_statsd_counts(t.s).refused, N + 1);
	/* Once the long names have expired, there is room for others. */
	bridge_statsd_tick(t.s, 11 * SECOND, 3600 * SECOND);
	assert_int_equal(bridge_statsd_series(t.s), 0);
	send(&t, "a:1|c");
	assert_true(counter(&t, "a", NULL, 0) == 1);
	free(line);
	end(&t);
}

static void dogstatsd_sets_negative_gauges_and_counts_others(void **state)
{
	struct setup t = begin_with(&(struct bridge_statsd_opts){.dogstatsd = true});
	struct bridge_statsd_counts c;
	char line[64];

	(void)state;
	send(&t, "g:5|g\ng:-3|g\nc:1|c|#a:b|c:ci-abc\nc:2|c|#a:b|c:in-77\n"
		 "_e{5,4}:title|text|t:warning\n_sc|db|2|#a:b\n_e{x\n_sc|db|7\nx:1|g|T12x");
	assert_true(gauge(&t, "g") == -3);
	assert_true(counter(&t, "c", SL_LABELS({"a", "b"}, {"container_id", "abc"})) == 1);
	assert_true(counter(&t, "c", SL_LABELS({"a", "b"})) == 2);
	/* A late count counts; a gauge of long ago is not the current one. */
	send(&t, "g:9|g|T1656581400\nlate:4|c|T1656581400");
	assert_true(gauge(&t, "g") == -3);
	assert_true(counter(&t, "late", NULL, 0) == 4);
	snprintf(line, sizeof(line), "g:8|g|T%llu",
		 (unsigned long long)(base_realtime_ns() / SECOND));
	send(&t, line);
	assert_true(gauge(&t, "g") == 8);
	c = bridge_statsd_counts(t.s);
	assert_int_equal(c.events, 1);
	assert_int_equal(c.checks, 1);
	assert_int_equal(c.untimely, 1);
	assert_int_equal(c.malformed, 3);
	assert_int_equal(c.lines, 6);
	end(&t);
}

static void rules_map_names_as_statsd_exporter_does(void **state)
{
	static const char text[] =
		"defaults:\n  buckets: [0.1, 1]\n"
		"mappings:\n"
		"- match: \"test.dispatcher.*.*.*\"\n  name: dispatcher_events_total\n"
		"  labels: {processor: \"$1\", action: \"${2}s\", outcome: $3, job: test}\n"
		"- match: \"app\\\\.(\\\\d+)\\\\.(wait|busy)\"\n  match_type: regex\n  name: \"app_${2}\"\n"
		"  labels: {n: $1}\n"
		"- {match: \"noise.*\", action: drop, name: x}\n"
		"- {match: \"only.*\", match_metric_type: gauge, name: \"only_gauges\"}\n"
		"- {match: \"app.7.wait\", name: glob_first, observer_type: summary, ttl: 5s}\n";
	struct bridge_statsd_opts o = {.series = 0};
	char error[200] = "";
	struct setup t;

	(void)state;
	o.map = map_of(text, error);
	if (!o.map)
		fail_msg("%s", error);
	t = begin_with(&o);
	send(&t,
	     "test.dispatcher.a.b.c:3|c\ntest.dispatcher.a.b:4|c\nnoise.a:1|c\nonly.x:5|g\nonly.x:6|c");
	send(&t, "app.12.wait:500:50|ms|#job:x\napp.7.wait:500|ms\nplain:2000|ms");
	assert_true(counter(&t, "dispatcher_events_total",
			    SL_LABELS({"action", "bs"}, {"job", "test"}, {"outcome", "c"},
				      {"processor", "a"})) == 3);
	assert_true(counter(&t, "test_dispatcher_a_b", NULL, 0) == 4);
	assert_true(gauge(&t, "only_gauges") == 5);
	assert_true(counter(&t, "only_x", NULL, 0) == 6);
	assert_int_equal(bridge_statsd_counts(t.s).filtered, 1);
	assert_int_equal(
		sl_histogram_count(sl_histogram_create_classic(
			t.p,
			&SL_OPTS(sl_metric_opts, .name = "app_wait", .unit = "seconds",
				 .bounds = (const double[]){0.1, 1}, .bound_count = 2,
				 .labels = (const struct sl_label[]){{"job", "x"}, {"n", "12"}},
				 .label_count = 2))),
		2);
	assert_int_equal(sl_histogram_count(sl_histogram_create(
				 t.p, &SL_OPTS(sl_metric_opts, .name = "glob_first",
					       .unit = "seconds", .scale = 2, .use_scale = true))),
			 1);
	bridge_statsd_tick(t.s, 8 * SECOND, 3600 * SECOND);
	assert_int_equal(bridge_statsd_counts(t.s).expired, 1);
	end(&t);
	bridge_statsd_map_free((struct bridge_statsd_map *)o.map);
	for (const char *const *bad =
		     (const char *const[]){
			     "mappings:\n- name: x\n",
			     "mappings:\n- {match: a, name: b, nonsense: 1}\n",
			     "mappings:\n- {match: \"(\", match_type: regex, name: b}\n",
			     "mappings:\n- {match: a, name: b, buckets: [2, 1]}\n", "other: 1\n",
			     NULL};
	     *bad; bad++) {
		assert_null(map_of(*bad, error));
		assert_non_null(strstr(error, "--statsd-mapping: "));
	}
}

/* Two names that are published as one end with the last of them. */
static void a_shared_series_ends_with_its_last_name(void **state)
{
	struct setup t = begin(0);

	(void)state;
	send(&t, "a.b:1|c\na-b:2|c");
	bridge_statsd_packet(t.s, "a-b:4|c", 7, 50 * SECOND);
	bridge_statsd_tick(t.s, 60 * SECOND, 30 * SECOND);
	bridge_statsd_packet(t.s, "a-b:8|c", 7, 60 * SECOND);
	assert_true(counter(&t, "a_b", NULL, 0) == 15);
	assert_int_equal(bridge_statsd_series(t.s), 1);
	end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_taken_apart),
		cmocka_unit_test(counters_and_gauges_are_exact),
		cmocka_unit_test(observations_count_by_their_rate),
		cmocka_unit_test(many_sampled_observations_are_exact),
		cmocka_unit_test(sets_have_their_number_of_the_interval),
		cmocka_unit_test(what_is_wrong_is_counted),
		cmocka_unit_test(malformed_values_create_no_series_and_keep_none),
		cmocka_unit_test(series_are_bounded_and_expire),
		cmocka_unit_test(names_are_bounded),
		cmocka_unit_test(refused_series_are_tried_again),
		cmocka_unit_test(refused_series_take_little_memory),
		cmocka_unit_test(dogstatsd_sets_negative_gauges_and_counts_others),
		cmocka_unit_test(rules_map_names_as_statsd_exporter_does),
		cmocka_unit_test(a_shared_series_ends_with_its_last_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
