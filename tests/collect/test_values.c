// SPDX-License-Identifier: Apache-2.0
/* test_values.c - the collector against simulated hosts: exact sums within its bounds. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#undef relaxed_load
#include "collect/read/link.h"

static void sums_are_exact(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p;
	uint32_t a, b, g, f;
	double d = 2.5;

	(void)state;
	pod_make(&p, 7, LABELS("service\0shop\0pod\0shop-\"0\"\\\n"));
	a = counter(&p, "a_total", "path", "/\"x\"\\\n");
	b = counter(&p, "b_total", NULL, NULL);
	g = metric_of(&p, SL_KIND_GAUGE, "level");
	f = metric_of(&p, SL_KIND_COUNTER_F64, "spent_seconds_total");
	make_cell_set(&p.m, 0, a, 1);
	make_cell_set(&p.m, 1, a, 20);
	make_cell_set(&p.m, 2, a, 300);
	make_cell_set(&p.m, 1, b, UINT64_MAX); /* wraps */
	make_cell_set(&p.m, 2, b, 6);
	make_cell_set(&p.m, 0, g, (uint64_t)-5);
	make_cell_set(&p.m, 0, f, sl_cell_of_f64(d));
	make_cell_set(&p.m, 1, f, sl_cell_of_f64(d));
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(3000, collect_collector_ready(c));
#define REGION "service=\"shop\",pod=\"shop-\\\"0\\\"\\\\\\n\",host=\"node-1\",process=\"4711\""
	assert_true(has(c, "a_total{" REGION ",path=\"/\\\"x\\\"\\\\\\n\"} 321"));
	assert_true(has(c, "b_total{" REGION "} 5"));
	assert_true(has(c, "level{" REGION "} -5"));
	assert_true(has(c, "spent_seconds_total{" REGION "} 5"));
	set(h, &p, 1, a, 21);
	WITHIN(3000, has(c, "a_total{" REGION ",path=\"/\\\"x\\\"\\\\\\n\"} 322"));
	collect_collector_free(c);
	make_free(&p.m);
}

/*
 * Counters of two publishers in one process; an earlier process with the same PID is a different
 * one.
 */
static void adds_up_counters_of_one_process(void **state)
{
	static const uint32_t kinds[] = {SL_KIND_COUNTER, SL_KIND_COUNTER_F64, SL_KIND_COUNTER_F64};
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p[3];

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		uint32_t cell;

		pod_make(&p[i], 7 + i, LABELS("pod\0p"));
		p[i].m.header->start_ticks += i == 2;
		make_header_check(&p[i].m);
		cell = metric_of(&p[i], kinds[i], "a_total");
		make_cell_set(&p[i].m, 1, cell, i ? sl_cell_of_f64(0.25) : 10);
	}
	put(h, 0, 1, &p[0], SL_STATE_LIVE);
	put(h, 1, 2, &p[1], SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(3000, has(c, "a_total{pod=\"p\",host=\"node-1\",process=\"4711\"} 10.25"));
	assert_true(self_value(c, "sidelight_collector_conflicts", NULL) == 0);
	put(h, 2, 3, &p[2], SL_STATE_LIVE);
	WITHIN(3000, self_value(c, "sidelight_collector_conflicts", "\"duplicate\"") == 1);
	assert_true(has(c, "a_total{pod=\"p\",host=\"node-1\",process=\"4711\"} 10.25"));
	collect_collector_free(c);
	for (unsigned int i = 0; i < 3; i++)
		make_free(&p[i].m);
}

static void sums_processes_with_the_expired(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	static const double bounds[] = {1, 2};
	struct collect_collector *c;
	struct pod p[3];
	uint32_t a[3], g[3], x[3];

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		pod_make(&p[i], 7 + i, LABELS("pod\0p"));
		p[i].m.header->pid = 100 + i;
		make_header_check(&p[i].m);
		a[i] = counter(&p[i], "a_total", "k", "v");
		g[i] = metric_of(&p[i], SL_KIND_GAUGE, "level");
		x[i] = make_metric(&p[i].m, &(struct make_metric){.kind = SL_KIND_HISTOGRAM,
								  .name = "h",
								  .bounds = bounds,
								  .bound_count = 2});
		make_cell_set(&p[i].m, 1, a[i], 10u + i);
		make_cell_set(&p[i].m, 0, g[i], 100);
		make_cell_set(&p[i].m, 1, x[i], sl_cell_of_f64(1.5));
		make_cell_set(&p[i].m, 1, x[i] + 3, 1);
		put(h, i, i + 1, &p[i], SL_STATE_LIVE);
	}
	c = start(&(struct collect_collector_opts){.period_ns = MS, .sum_processes = true});
	WITHIN(3000, collect_collector_ready(c));
	assert_true(has(c, "a_total{pod=\"p\",host=\"node-1\",k=\"v\"} 33"));
	assert_true(has(c, "level{pod=\"p\",host=\"node-1\"} 300"));
	assert_true(has(c, "h_sum{pod=\"p\",host=\"node-1\"} 4.5"));
	assert_true(has(c, "h_count{pod=\"p\",host=\"node-1\"} 3"));
	for (unsigned int i = 0; i < 3; i++) {
		set(h, &p[i], 2, a[i], 100);
		put(h, i, i + 1, &p[i], SL_STATE_DEAD);
		WITHIN(1000, self_value(c, "sidelight_collector_regions", "dead") == 1);
		/* Gauges of dead publishers no longer count, unless no pod is left. */
		if (i < 2)
			WITHIN(1000, self_value(c, "level", NULL) == 200 - 100.0 * i);
		put(h, i, i + 1, &p[i], SL_STATE_RETIRED);
		WITHIN(1000, self_value(c, "sidelight_collector_regions", "dead") == 0);
		/* The sum never decreases. */
		for (int k = 0; k < 50; k++) {
			assert_true(self_value(c, "a_total", NULL) >= 33 + 100.0 * (i + 1));
			usleep(4000);
		}
	}
	/* An expired region is shown until the next index. */
	WITHIN(3000, !mentions(c, "\nlevel{"));
	assert_true(has(c, "a_total{pod=\"p\",host=\"node-1\",k=\"v\"} 333"));
	assert_true(has(c, "h_sum{pod=\"p\",host=\"node-1\"} 4.5"));
	assert_true(has(c, "h_bucket{pod=\"p\",host=\"node-1\",le=\"2\"} 3"));
	collect_collector_free(c);
	for (unsigned int i = 0; i < 3; i++)
		make_free(&p[i].m);
}

/* No counter may fall while its service runs, and the pods of last week must not stay for ever. */
static void sums_expire_after_their_last_process(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p[3];

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		pod_make(&p[i], 7 + i, i < 2 ? "pod\0p" : "pod\0q", sizeof("pod\0p"));
		p[i].m.header->pid = 100 + i;
		make_header_check(&p[i].m);
		make_cell_set(&p[i].m, 1, counter(&p[i], "a_total", NULL, NULL), 10u + i);
		put(h, i, i + 1, &p[i], SL_STATE_LIVE);
	}
	c = start(&(struct collect_collector_opts){
		.period_ns = MS, .sum_processes = true, .retired_ns = 1000 * MS});
	WITHIN(3000, has(c, "a_total{pod=\"p\",host=\"node-1\"} 21"));
	put(h, 0, 1, &p[0], SL_STATE_RETIRED);
	put(h, 2, 3, &p[2], SL_STATE_RETIRED);
	WITHIN(3000, GET(c->retired_cells) == 2);
	WITHIN(5000, !mentions(c, "a_total{pod=\"q\""));
	for (int i = 0; i < 300; i++) {
		assert_true(has(c, "a_total{pod=\"p\",host=\"node-1\"} 21"));
		usleep(10000);
	}
	assert_int_equal(GET(c->retired_cells), 1);
	put(h, 1, 2, &p[1], SL_STATE_RETIRED);
	WITHIN(5000, !mentions(c, "a_total{"));
	assert_int_equal(GET(c->retired_cells), 0);
	/* It is not an error. */
	assert_true(self_value(c, "sidelight_collector_refused_total", "retired_sums") == 0);
	collect_collector_free(c);
	for (unsigned int i = 0; i < 3; i++)
		make_free(&p[i].m);
}

/* Each gauge states how it is combined over the processes of a service; the default is the sum. */
static void combines_gauges_as_they_say(void **state)
{
	static const struct {
		const char *name;
		uint16_t kind, flags;
		double shown, later; /* when the second has ended, and when it has expired */
	} cases[] = {
		{"by_default", SL_KIND_GAUGE_F64, 0, 6, 4},
		{"sum", SL_KIND_GAUGE_F64, SL_COMBINE_SUM, 6, 6},
		{"least", SL_KIND_GAUGE_F64, SL_COMBINE_MIN, 1, 1},
		{"greatest", SL_KIND_GAUGE_F64, SL_COMBINE_MAX, 3, 3},
		{"live_greatest", SL_KIND_GAUGE_F64, SL_COMBINE_MAX | SL_FLAG_LIVE, 3, 3},
		{"live_sum", SL_KIND_GAUGE_F64, SL_COMBINE_SUM | SL_FLAG_LIVE, 6, 4},
		{"live_least", SL_KIND_GAUGE_F64, SL_COMBINE_MIN | SL_FLAG_LIVE, 1, 1},
		{"integer", SL_KIND_GAUGE, SL_COMBINE_MIN, -3, -3},
		{"latest", SL_KIND_GAUGE_TIMED, SL_COMBINE_MOST_RECENT, 2, 2},
	};
	enum { CASES = sizeof(cases) / sizeof(*cases) };
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p[3];

	(void)state;
	/* Labels "pod" that are only defaults distinguish no more than processes. */
	pod_make(&p[0], 7, LABELS("pod\0s-100\0service\0s"));
	pod_make(&p[1], 8, LABELS("pod\0s-101\0service\0s"));
	pod_make(&p[2], 9, LABELS("pod\0s-102\0service\0s"));
	for (unsigned int i = 0; i < 3; i++) {
		p[i].m.header->pid = 100 + i;
		make_header_check(&p[i].m);
		for (unsigned int k = 0; k < CASES; k++) {
			uint32_t cell = make_metric(&p[i].m,
						    &(struct make_metric){.kind = cases[k].kind,
									  .flags = cases[k].flags,
									  .name = cases[k].name});

			make_cell_set(&p[i].m, 0, cell,
				      cases[k].kind == SL_KIND_GAUGE ? -(uint64_t)(i + 1)
								     : sl_cell_of_f64(i + 1.0));
			if (cases[k].kind == SL_KIND_GAUGE_TIMED) /* the second is the latest */
				make_cell_set(&p[i].m, 0, cell + 1, i == 1 ? 9 : i + 1);
		}
		make_metric(&p[i].m, &(struct make_metric){.kind = SL_KIND_GAUGE,
							   .flags = SL_COMBINE_ALL,
							   .name = "apart"});
		put(h, i, i + 1, &p[i], SL_STATE_LIVE);
	}
	c = start(&(struct collect_collector_opts){.period_ns = MS, .sum_processes = true});
	WITHIN(3000, collect_collector_ready(c));
	for (unsigned int k = 0; k < CASES; k++)
		WITHIN(3000, self_value(c, cases[k].name, NULL) == cases[k].shown);
	assert_true(
		mentions(c, "apart{pod=\"s-101\",service=\"s\",host=\"node-1\",process=\"101\"}"));
	assert_false(mentions(c, "least{pod=\"s-101\""));
	put(h, 1, 2, &p[1], SL_STATE_DEAD);
	for (unsigned int k = 0; k < CASES; k++)
		WITHIN(3000, self_value(c, cases[k].name, NULL) == cases[k].later);
	assert_true(
		mentions(c, "apart{pod=\"s-101\",service=\"s\",host=\"node-1\",process=\"101\"}"));
	put(h, 1, 2, &p[1], SL_STATE_RETIRED);
	WITHIN(3000,
	       !mentions(c, "apart{pod=\"s-101\",service=\"s\",host=\"node-1\",process=\"101\"}"));
	for (unsigned int k = 0; k < CASES; k++)
		WITHIN(3000, self_value(c, cases[k].name, NULL) == cases[k].later);
	collect_collector_free(c);
	for (unsigned int i = 0; i < 3; i++)
		make_free(&p[i].m);
}

static void keeps_and_counts_its_bounds(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p[4];

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		pod_make(&p[i], 7 + i, LABELS("pod\0p"));
		p[i].m.header->pid = 100 + i;
		make_header_check(&p[i].m);
		counter(&p[i], "a_total", NULL, NULL);
		counter(&p[i], "b_total", NULL, NULL);
		put(h, i, i + 1, &p[i], SL_STATE_LIVE);
	}
	c = start(&(struct collect_collector_opts){
		.period_ns = MS, .max_regions = 3, .max_series = 5});
	WITHIN(3000, collect_collector_ready(c));
	WITHIN(1000, self_value(c, "sidelight_collector_refused_total", "max_series") == 1);
	WITHIN(1000, self_value(c, "sidelight_collector_refused_total", "max_regions") == 1);
	WITHIN(1000, self_value(c, "sidelight_collector_series", NULL) == 5);
	/* A refused region is admitted as soon as there is room. */
	put(h, 0, 1, &p[0], SL_STATE_RETIRED);
	WITHIN(4000, mentions(c, "\na_total{pod=\"p\",host=\"node-1\",process=\"103\"}"));
	assert_true(self_value(c, "sidelight_collector_refused_total", "max_regions") == 1);
	collect_collector_free(c);
	for (unsigned int i = 0; i < 4; i++)
		make_free(&p[i].m);
}

static void refused_series_return_when_room_appears(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p, q;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	pod_make(&q, 8, LABELS("pod\0q"));
	for (unsigned int i = 0; i < 3; i++) {
		char name[] = "m0_total";

		name[1] = (char)('0' + i);
		counter(&p, name, NULL, NULL);
		make_cell_set(&q.m, 1, counter(&q, name, NULL, NULL), 70 + i);
	}
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = MS, .max_series = 4});
	WITHIN(3000, collect_collector_ready(c));
	put(h, 1, 2, &q, SL_STATE_LIVE);
	WITHIN(3000, self_value(c, "m0_total", "\"q\"") == 70);
	assert_false(mentions(c, "\nm2_total{pod=\"q\""));
	put(h, 0, 1, &p, SL_STATE_RETIRED);
	WITHIN(3000, self_value(c, "m2_total", "\"q\"") == 72);
	WITHIN(3000, self_value(c, "sidelight_collector_refused_total", "max_series") == 2);
	collect_collector_free(c);
	make_free(&p.m);
	make_free(&q.m);
}

/* How many lines of an exposition begin and end like that. */
static unsigned int lines_like(struct collect_collector *c, const char *begin, const char *end)
{
	char *text = scrape(c), *rest = text, *line;
	unsigned int n = 0;

	while ((line = strsep(&rest, "\n"))) {
		size_t length = strlen(line);

		n += length > strlen(end) && !strncmp(line, begin, strlen(begin)) &&
		     !strcmp(line + length - strlen(end), end);
	}
	free(text);
	return n;
}

static bool late; /* delays control, and workers that receive a layout, as on a busy machine */

int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	char name[16] = "";

	if (relaxed_load(late) && !pthread_getname_np(pthread_self(), name, sizeof(name)) &&
	    !strcmp(name, "control"))
		usleep(20000);
	return __real_poll(fds, n, timeout);
}

void __real_collect_schema_install(struct collect_link *l, struct collect_region *r,
				   uint64_t now_ns);
void __wrap_collect_schema_install(struct collect_link *l, struct collect_region *r,
				   uint64_t now_ns);

void __wrap_collect_schema_install(struct collect_link *l, struct collect_region *r,
				   uint64_t now_ns)
{
	if (relaxed_load(late) && relaxed_load(r->built))
		usleep(4000);
	__real_collect_schema_install(l, r, now_ns);
}

/* Each new metric causes a new layout of its region; earlier values are shown meanwhile. */
static void counters_never_decrease_while_metrics_come(void **state)
{
	enum { PODS = 20, METRICS = 40 };
	struct mock_host *h = mock_host("one", PODS);
	struct collect_collector *c;
	struct pod p[PODS];
	char name[32];

	(void)state;
	for (unsigned int i = 0; i < PODS; i++) {
		snprintf(name, sizeof(name), "pod%cp-%u", '\0', i);
		pod_make(&p[i], 7 + i, name, 4 + strlen(name + 4) + 1);
		make_cell_set(&p[i].m, 0, counter(&p[i], "a_total", NULL, NULL), 1000);
		put(h, i, i + 1, &p[i], SL_STATE_LIVE);
	}
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(3000, lines_like(c, "a_total{", " 1000") == PODS);
	__atomic_store_n(&late, true, __ATOMIC_RELAXED);
	for (unsigned int m = 0; m < METRICS; m++) {
		snprintf(name, sizeof(name), "b%u_total", m);
		for (unsigned int i = 0; i < PODS; i++) {
			pthread_mutex_lock(&h->lock);
			counter(&p[i], name, NULL, NULL);
			pthread_mutex_unlock(&h->lock);
			usleep(500);
		}
		assert_int_equal(lines_like(c, "a_total{", " 0"), 0);
	}
	__atomic_store_n(&late, false, __ATOMIC_RELAXED);
	WITHIN(20000, lines_like(c, name, " 0") == PODS);
	assert_int_equal(lines_like(c, "a_total{", " 0"), 0);
	collect_collector_free(c);
	for (unsigned int i = 0; i < PODS; i++)
		make_free(&p[i].m);
}

const struct CMUnitTest values_tests[] = {
	TEST(sums_are_exact),
	TEST(adds_up_counters_of_one_process),
	TEST(sums_processes_with_the_expired),
	TEST(sums_expire_after_their_last_process),
	TEST(combines_gauges_as_they_say),
	TEST(keeps_and_counts_its_bounds),
	TEST(refused_series_return_when_room_appears),
	TEST(counters_never_decrease_while_metrics_come),
	{0},
};
