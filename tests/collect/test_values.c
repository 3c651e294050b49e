// SPDX-License-Identifier: Apache-2.0
/*
 * test_values.c - the collector against simulated hosts: exact sums, names, conflicts, bounds,
 * taps and fetches.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#undef relaxed_load
#include "collect/exemplars.h"
#include "collect/link/link.h"

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
 * As promtool reads text 0.0.4: a family's TYPE comes once, its samples follow it and no other's,
 * and no series comes twice. Returns the number of samples.
 */
static size_t well_formed(struct collect_collector *c)
{
	static char *known[65536];
	char *text = scrape(c), *line, *rest = text, family[256] = "", type[32] = "";
	size_t families = 0, samples = 0, n;

	while ((line = strsep(&rest, "\n")) && *line) {
		if (!strncmp(line, "# TYPE ", 7)) {
			assert_int_equal(sscanf(line, "# TYPE %255s %31s", family, type), 2);
			for (size_t i = 0; i < families; i++)
				if (!strcmp(known[i], family))
					fail_msg("TYPE twice: %s", line);
			known[families++] = strdup(family);
		}
		if (*line == '#')
			continue;
		n = strlen(family);
		if (strncmp(line, family, n))
			fail_msg("%s is no sample of %s", line, family);
		line += n;
		if (!strcmp(type, "histogram"))
			line += !strncmp(line, "_bucket", 7)  ? 7
				: !strncmp(line, "_count", 6) ? 6
				: !strncmp(line, "_sum", 4)   ? 4
							      : 0;
		if (*line != '{' && *line != ' ')
			fail_msg("%s%s is no sample of a %s %s", family, line, type, family);
		samples++;
	}
	while (families)
		free(known[--families]);
	free(text);
	/* Series: the text once more, line against line of the same beginning. */
	text = rest = scrape(c);
	while ((line = strsep(&rest, "\n")) && *line) {
		char *value = strrchr(line, ' '), *again;

		if (*line == '#' || !rest)
			continue;
		n = (size_t)(value - line) + 1;
		for (again = rest; again && !strncmp(again, line, 4); again = strchr(again, '\n')) {
			again += *again == '\n';
			if (!strncmp(again, line, n))
				fail_msg("twice: %s", line);
		}
	}
	free(text);
	return samples;
}

/* Whatever is called alike, of whatever type, in whatever order it comes and goes. */
static void clash(bool sums)
{
	static const char *const names[] = {
		"x",
		"x_total",
		"x_total_total",
		"x_info",
		"x_count",
		"x_sum",
		"x_bucket",
		"x_created",
		"x_gauge",
		"x_total_gauge",
		"x_info_info",
		"sidelight_collector_rounds_total",
		"sidelight_collector_read_latency_seconds_count",
		"sidelight_region_state",
	};
	static const uint16_t kinds[] = {SL_KIND_COUNTER, SL_KIND_GAUGE, SL_KIND_HISTOGRAM,
					 SL_KIND_INFO, SL_KIND_STATESET};
	enum { KINDS = 5, NAMES = sizeof(names) / sizeof(names[0]) };
	static const double bounds[] = {1, 2};
	struct mock_host *h = mock_host("one", 64);
	static struct pod pod[KINDS];
	struct collect_collector *c;
	struct rng rng = {77};

	/* Each kind of each name, one pod a kind. */
	for (unsigned int k = 0; k < KINDS; k++) {
		pod_make(&pod[k], 100 + k, LABELS("pod\0p"));
		pod[k].m.header->pid = 100 + k;
		make_header_check(&pod[k].m);
		for (unsigned int i = 0; i < NAMES; i++)
			make_metric(&pod[k].m,
				    &(struct make_metric){
					    .kind = kinds[k],
					    .name = names[i],
					    .bounds = kinds[k] == SL_KIND_HISTOGRAM ? bounds : NULL,
					    .bound_count = kinds[k] == SL_KIND_HISTOGRAM ? 2 : 0,
					    .states = {kinds[k] == SL_KIND_STATESET ? "on" : NULL},
				    });
	}
	c = start(&(struct collect_collector_opts){
		.period_ns = MS, .sum_processes = sums, .created = sums});
	WITHIN(3000, collect_collector_ready(c));
	for (uint64_t id = 1; id < 16; id++) {
		unsigned int k = (unsigned int)rng_below(&rng, KINDS);
		struct collect_collector_totals t;
		uint64_t live = 0;

		put(h, k, id * 10 + k, &pod[k],
		    id > 4 && rng_below(&rng, 3) == 0 ? SL_STATE_RETIRED : SL_STATE_LIVE);
		for (unsigned int i = 0; i < KINDS; i++)
			live += SL_ENTRY_STATE(h->directory.entries[i][SL_ENTRY_KEY]) ==
				SL_STATE_LIVE;
		WITHIN(3000, (collect_collector_totals(c, &t), t.regions == live));
		for (unsigned int i = 0; i < 15; i++) {
			well_formed(c);
			usleep(10000);
		}
	}
	for (unsigned int k = 0; k < KINDS; k++)
		put(h, 10 + k, 200 + k, &pod[k], SL_STATE_LIVE);
	WITHIN(3000, self_value(c, "sidelight_collector_conflicts", "\"kind\"") > 10);
	well_formed(c);
	/* No pod speaks for the collector. */
	assert_false(mentions(c, "sidelight_collector_rounds_total{pod"));
	assert_false(mentions(c, "sidelight_collector_read_latency_seconds_count{pod"));
	assert_false(mentions(c, "sidelight_region_state{sidelight"));
	collect_collector_free(c);
	for (unsigned int k = 0; k < KINDS; k++)
		make_free(&pod[k].m);
}

static void clashing_names_keep_exposition_valid(void **state)
{
	(void)state;
	clash(false);
	mock_reset();
	clash(true);
}

/* As Prometheus' Python client has it in text 0.0.4: a gauge for each counter. */
static void created_clashes_where_it_is_shown(void **state)
{
	struct mock_host *h;
	struct collect_collector *c;
	struct pod p;

	(void)state;
	for (int created = 0; created < 2; created++) {
		h = mock_host("one", 16);
		pod_make(&p, 7, LABELS("pod\0p"));
		counter(&p, "done_total", NULL, NULL);
		make_metric(&p.m,
			    &(struct make_metric){.kind = SL_KIND_GAUGE, .name = "done_created"});
		put(h, 0, 1, &p, SL_STATE_LIVE);
		c = start(&(struct collect_collector_opts){.period_ns = MS, .created = created});
		WITHIN(3000, mentions(c, "done_total{"));
		assert_int_equal(mentions(c, "done_created{"), !created);
		assert_int_equal(self_value(c, "sidelight_collector_conflicts", "\"name\""),
				 created);
		well_formed(c);
		collect_collector_free(c);
		make_free(&p.m);
		mock_reset();
	}
}

static void omits_and_counts_conflicts(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	static const double bounds[] = {1, 2};
	struct collect_collector *c;
	struct pod p, q;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p\0host\0mine\0process\0mine"));
	pod_make(&q, 8, LABELS("pod\0q"));
	counter(&p, "x_total", "pod", "inner");
	metric_of(&q, SL_KIND_GAUGE, "x_total"); /* another kind than p's */
	metric_of(&q, SL_KIND_GAUGE, "h_count"); /* a sample of p's histogram */
	counter(&q, "sidelight_collector_rounds_total", NULL, NULL);
	make_metric(&p.m, &(struct make_metric){.kind = SL_KIND_HISTOGRAM,
						.name = "h",
						.bounds = bounds,
						.bound_count = 2});
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(3000, collect_collector_ready(c));
	put(h, 1, 2, &q, SL_STATE_LIVE);
	WITHIN(3000, self_value(c, "sidelight_collector_conflicts", NULL) >= 3);
	assert_true(has(c, "x_total{pod=\"p\",exported_host=\"mine\",exported_process=\"mine\","
			   "host=\"node-1\",process=\"4711\",exported_pod=\"inner\"} 0"));
	assert_false(mentions(c, "\nx_total{pod=\"q\""));
	assert_false(mentions(c, "\nh_count{pod=\"q\""));
	assert_true(mentions(c, "\nh_count{pod=\"p\""));
	assert_false(mentions(c, "sidelight_collector_rounds_total{pod"));
	collect_collector_free(c);
	make_free(&p.m);
	make_free(&q.m);
}

/* Counters that two publishers of one process have; an earlier process of the same PID is another.
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
		/* The gauges of the dead count no more, unless no pod is left. */
		if (i < 2)
			WITHIN(1000, self_value(c, "level", NULL) == 200 - 100.0 * i);
		put(h, i, i + 1, &p[i], SL_STATE_RETIRED);
		WITHIN(1000, self_value(c, "sidelight_collector_regions", "dead") == 0);
		/* At no time does the sum go back. */
		for (int k = 0; k < 50; k++) {
			assert_true(self_value(c, "a_total", NULL) >= 33 + 100.0 * (i + 1));
			usleep(4000);
		}
	}
	/* Until the next index an expired region is shown as it was. */
	WITHIN(3000, !mentions(c, "\nlevel{"));
	assert_true(has(c, "a_total{pod=\"p\",host=\"node-1\",k=\"v\"} 333"));
	assert_true(has(c, "h_sum{pod=\"p\",host=\"node-1\"} 4.5"));
	assert_true(has(c, "h_bucket{pod=\"p\",host=\"node-1\",le=\"2\"} 3"));
	collect_collector_free(c);
	for (unsigned int i = 0; i < 3; i++)
		make_free(&p[i].m);
}

/* Each gauge says how the processes of a service combine; one that says nothing is added. */
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
	/* Pods by default, which tell no more apart than processes. */
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
	/* What was refused comes in as soon as there is room. */
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

static bool late; /* control, and workers that are handed a layout, as on a machine that has no CPU
		     for them */

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

/* Each metric that comes has its region laid out anew; what was seen before is seen meanwhile. */
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

struct tapped {
	uint64_t instance, rows, gone, wrong, stale, metrics, last_ns;
	double last[3];
	uint32_t state;
};

static void take_row(void *arg, const struct collect_tap_row *row)
{
	struct tapped *t = arg, *mine = NULL;

	for (int i = 0; i < 2; i++)
		mine = t[i].instance == row->instance ? &t[i] : mine;
	if (!mine)
		return;
	if (!*row->own)
		*row->own = mine;
	if (*row->own != mine || row->ns < (int64_t)mine->last_ns || !row->layout)
		mine->wrong++;
	mine->last_ns = (uint64_t)row->ns;
	mine->state = row->state;
	for (uint32_t i = 0; i < row->columns && i < 3; i++) {
		if (isnan(row->value[i]))
			__atomic_fetch_add(&mine->stale, 1, __ATOMIC_RELAXED);
		else
			mine->last[i] = row->value[i];
	}
	if (row->columns == 3) {
		mine->wrong += strcmp(collect_tap_metric(row, 0)->name, "a_total") ||
			       strcmp(collect_tap_metric(row, 1)->name, "level") ||
			       strcmp(collect_tap_metric(row, 2)->name, "h");
		mine->metrics++;
	}
	__atomic_store_n(&mine->rows, mine->rows + 1, __ATOMIC_RELEASE);
}

/* A tap that wants the rows of one pod of the two. */
static bool wants_seven(void *arg, const struct collect_tap_row *row)
{
	uint64_t *wrong = arg;

	/* Nothing was made yet, as this tap is the first. Each pod may have its own worker. */
	__atomic_fetch_add(wrong, row->value || row->cell, __ATOMIC_RELAXED);
	return row->instance == 7;
}

static void take_seven(void *arg, const struct collect_tap_row *row)
{
	uint64_t *wrong = arg, *rows = wrong + 1;

	__atomic_fetch_add(wrong, row->instance != 7 || !row->value || !row->cell,
			   __ATOMIC_RELAXED);
	__atomic_store_n(rows, *rows + 1, __ATOMIC_RELEASE);
}

static void lose_row(void *arg, uint64_t instance, void *own)
{
	struct tapped *mine = own;

	(void)arg;
	mine->wrong += mine->instance != instance;
	__atomic_store_n(&mine->gone, mine->gone + 1, __ATOMIC_RELEASE);
}

/* Pods 7, with values of each kind in two stripes, and 8; returns the cell of the counter of 7. */
static uint32_t two_pods(struct mock_host *h, struct pod *p, struct pod *q)
{
	static const double bounds[] = {1, 2};
	uint32_t a, g, x;

	pod_make(p, 7, LABELS("pod\0p"));
	a = counter(p, "a_total", NULL, NULL);
	g = metric_of(p, SL_KIND_GAUGE, "level");
	x = make_metric(&p->m, &(struct make_metric){.kind = SL_KIND_HISTOGRAM,
						     .name = "h",
						     .bounds = bounds,
						     .bound_count = 2});
	make_cell_set(&p->m, 1, a, 40);
	make_cell_set(&p->m, 2, a, 2);
	make_cell_set(&p->m, 0, g, (uint64_t)-5);
	make_cell_set(&p->m, 1, x + 2, 3);
	make_cell_set(&p->m, 2, x + 4, 4);
	pod_make(q, 8, LABELS("pod\0q"));
	counter(q, "a_total", NULL, NULL);
	put(h, 0, 1, p, SL_STATE_LIVE);
	put(h, 1, 2, q, SL_STATE_LIVE);
	return a;
}

/* Not started, so that it may be tapped. */
static struct collect_collector *two_workers(void)
{
	static const char *const one[] = {"one"};
	char error[128];
	struct collect_collector *c =
		collect_collector_new(&(struct collect_collector_opts){.agents = one,
								       .agent_count = 1,
								       .period_ns = MS,
								       .workers = 2,
								       .queues = 2},
				      error, sizeof(error));

	assert_non_null(c);
	return c;
}

static void taps_are_bounded_and_set_before_the_start(void **state)
{
	struct collect_collector *c;

	(void)state;
	mock_host("one", 16);
	c = two_workers();
	for (unsigned int i = 0; i < COLLECT_TAPS_MAX; i++)
		assert_int_equal(collect_collector_tap(c, &(struct collect_tap){.row = take_row}),
				 0);
	assert_int_equal(collect_collector_tap(c, &(struct collect_tap){.row = take_row}), -ENOSPC);
	assert_int_equal(collect_collector_start(c), 0);
	assert_int_equal(collect_collector_tap(c, &(struct collect_tap){.row = take_row}), -EBUSY);
	collect_collector_free(c);
}

static void tap_gets_each_pass_and_nan_if_unsettled(void **state)
{
	struct tapped t[2] = {{.instance = 7}, {.instance = 8}};
	uint64_t picky[2] = {0}; /* wrong, rows */
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p, q;
	uint32_t a;
	uint64_t rows, stale;

	(void)state;
	a = two_pods(h, &p, &q);
	c = two_workers();
	assert_int_equal(collect_collector_tap(c, &(struct collect_tap){.row = take_seven,
									.wants = wants_seven,
									.arg = picky}),
			 0);
	assert_int_equal(
		collect_collector_tap(
			c, &(struct collect_tap){.row = take_row, .gone = lose_row, .arg = t}),
		0);
	for (unsigned int i = 2; i < COLLECT_TAPS_MAX; i++)
		assert_int_equal(
			collect_collector_tap(c, &(struct collect_tap){.row = take_row, .arg = t}),
			0);
	assert_int_equal(collect_collector_start(c), 0);
	for (int i = 0; i < 2; i++)
		WITHIN(3000, __atomic_load_n(&t[i].rows, __ATOMIC_ACQUIRE) > 100);
	WITHIN(3000, __atomic_load_n(&picky[1], __ATOMIC_ACQUIRE) > 100); /* of one tap alone */

	/* A line that never verifies: its columns are NaN, the others go on. */
	pthread_mutex_lock(&h->lock);
	make_line(&p.m, 1, a / SL_LINE_CELLS)[7] ^= 1;
	pthread_mutex_unlock(&h->lock);
	WITHIN(3000, relaxed_load(t[0].stale) > 100);
	set(h, &q, 1, 0, 99);
	WITHIN(3000, self_value(c, "a_total", "\"q\"") == 99);
	pthread_mutex_lock(&h->lock);
	make_line(&p.m, 1, a / SL_LINE_CELLS)[7] ^= 1;
	pthread_mutex_unlock(&h->lock);
	rows = relaxed_load(t[0].rows);
	WITHIN(3000, relaxed_load(t[0].rows) > rows + 20);
	stale = relaxed_load(t[0].stale);
	rows = relaxed_load(t[0].rows);
	WITHIN(3000, relaxed_load(t[0].rows) > rows + 20);
	assert_int_equal(relaxed_load(t[0].stale), stale);
	assert_int_equal(relaxed_load(t[1].stale), 0);

	put(h, 1, 2, &q, SL_STATE_RETIRED);
	WITHIN(3000, __atomic_load_n(&t[1].gone, __ATOMIC_ACQUIRE) == 1);
	assert_int_equal(relaxed_load(t[0].gone), 0);
	collect_collector_free(c);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(t[i].wrong, 0);
		assert_int_equal(t[i].gone, 1);
	}
	assert_int_equal(picky[0], 0);
	assert_true(t[0].metrics > 100);
	assert_true(t[0].last[0] == 42 && t[0].last[1] == -5 && t[0].last[2] == 7);
	assert_true(t[1].last[0] == 99);
	make_free(&p.m);
	make_free(&q.m);
}

struct fetched {
	unsigned int calls, good;
	int status;			 /* of the last call */
	uint64_t expect;		 /* every word of what comes */
	struct collect_collector *again; /* fetch once more from the callback */
};

static void take_fetched(void *arg, int status, const void *bytes, uint32_t length, int64_t ns)
{
	struct fetched *f = arg;
	struct collect_collector *c = f->again;
	const uint64_t *word = bytes;
	bool good = !status && ns > 0;

	for (uint32_t i = 0; good && i < length / 8; i++)
		good = word[i] == f->expect;
	f->again = NULL;
	if (c && collect_collector_fetch(c, 1000, 4096, 64, take_fetched, f))
		good = false;
	__atomic_store_n(&f->status, status, __ATOMIC_RELAXED);
	__atomic_fetch_add(&f->good, good, __ATOMIC_RELAXED);
	__atomic_fetch_add(&f->calls, 1, __ATOMIC_RELEASE);
}

static unsigned int calls(const struct fetched *f)
{
	return __atomic_load_n(&f->calls, __ATOMIC_ACQUIRE);
}

static int fetch_one(struct collect_collector *c, uint64_t instance, struct fetched *f)
{
	unsigned int before = calls(f);

	assert_int_equal(collect_collector_fetch(c, instance, 4096, 64, take_fetched, f), 0);
	WITHIN(1000, calls(f) > before);
	return f->status;
}

enum { PODS = 8, EACH = 200 }; /* fetched pods, and fetches of each */

/* Pods with a pattern of their own behind the schema in use, which no reader passes; its offset. */
static uint64_t make_patterned(struct mock_host *h, struct pod *pod, struct fetched *f)
{
	uint64_t offset = 0;

	for (unsigned int i = 0; i < PODS; i++) {
		pod_make(&pod[i], 1000 + i, LABELS("pod\0p"));
		counter(&pod[i], "a_total", NULL, NULL);
		offset = pod[i].m.size - 8192;
		f[i].expect = 0x1111111111111111u * (i + 1);
		for (uint64_t at = offset; at < pod[i].m.size; at += 8)
			*(uint64_t *)(pod[i].m.mem + at) = f[i].expect;
		put(h, i, i + 1, &pod[i], SL_STATE_LIVE);
	}
	return offset;
}

static void fetch_many(struct collect_collector *c, struct fetched *f, uint64_t offset)
{
	for (unsigned int k = 0; k < EACH; k++)
		for (unsigned int i = 0; i < PODS; i++)
			assert_int_equal(collect_collector_fetch(c, 1000 + i, offset + k % 64 * 64,
								 64 + k % 8 * 512, take_fetched,
								 &f[i]),
					 0);
	for (unsigned int i = 0; i < PODS; i++) {
		WITHIN(5000, calls(&f[i]) == EACH);
		assert_int_equal(f[i].good, EACH);
	}
	/* The rounds went on, and their values are theirs. */
	assert_true(self_value(c, "a_total", NULL) == 0);
}

static void fetch_out_of_range(struct collect_collector *c, uint64_t size)
{
	struct fetched last = {0};

	assert_int_equal(collect_collector_fetch(c, 5, 0, 64, take_fetched, &last), -ENOENT);
	assert_int_equal(collect_collector_fetch(c, 1000, 0, 0, take_fetched, &last), -ERANGE);
	assert_int_equal(
		collect_collector_fetch(c, 1000, 0, COLLECT_FETCH_MAX + 1, take_fetched, &last),
		-ERANGE);
	assert_int_equal(calls(&last), 0);
	assert_int_equal(collect_collector_fetch(c, 1000, size - 32, 64, take_fetched, &last), 0);
	WITHIN(1000, calls(&last) == 1);
	assert_int_equal(last.status, -ERANGE);
	assert_int_equal(collect_collector_fetch(c, 1000, UINT64_MAX - 31, 64, take_fetched, &last),
			 0);
	WITHIN(1000, calls(&last) == 2);
	assert_int_equal(last.status, -ERANGE);
	last.again = c; /* from the callback, too */
	assert_int_equal(collect_collector_fetch(c, 1000, 4096, 64, take_fetched, &last), 0);
	WITHIN(1000, calls(&last) == 4);
	assert_int_equal(last.status, 0);
}

/* A host that is away gives nothing; one that hangs, nothing until the end. */
static void fetch_from_a_bad_host(struct collect_collector *c, struct mock_host *h,
				  struct fetched *held)
{
	struct fetched last = {0};

	mock_set(h, false);
	WITHIN(1000,
	       mentions(c, "sidelight_host_up{host=\"node-1\",target=\"one\",fabric=\"mock\"} 0"));
	assert_int_equal(fetch_one(c, 1000, &last), -EAGAIN);
	mock_set(h, true);
	for (unsigned int i = 0; i < 2; i++)
		WITHIN(2000, !fetch_one(c, 1000 + i, &last));
	pthread_mutex_lock(&h->lock);
	h->hold = true;
	pthread_mutex_unlock(&h->lock);
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(collect_collector_fetch(c, 1000 + i % 2, 4096, 64, take_fetched,
							 &held[i % 2]),
				 0);
	usleep(20000);
	assert_int_equal(calls(&held[0]) + calls(&held[1]), 0);
	held[0].again = c; /* in vain */
}

static void fetches_the_right_region_exactly_once(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct fetched f[PODS] = {0}, held[2] = {0};
	static struct pod pod[PODS];
	struct collect_collector *c;
	uint64_t offset = make_patterned(h, pod, f);

	(void)state;
	h->shuffle = true;
	c = start(&(struct collect_collector_opts){.period_ns = MS,
						   .stale_ns = 200 * MS,
						   .read_timeout_ns = 60000 * MS,
						   .workers = 2,
						   .queues = 2});
	WITHIN(5000, collect_collector_ready(c));
	fetch_many(c, f, offset);
	fetch_out_of_range(c, pod[0].m.size);
	fetch_from_a_bad_host(c, h, held);
	collect_collector_free(c);
	assert_int_equal(calls(&held[0]) + calls(&held[1]), 100);
	assert_int_equal(held[0].status, -ECANCELED);
	for (unsigned int i = 0; i < PODS; i++)
		make_free(&pod[i].m);
}

/* Exemplars of the first series of a family; the time of the latest. */
static size_t exemplars_of(struct collect_collector *c, const char *family, uint64_t *latest)
{
	struct export_source source = collect_collector_source(c);
	struct export_series series = {0};
	struct export_family f;
	void *walk = source.begin(source.ctx);
	size_t n = 0;

	assert_non_null(walk);
	*latest = 0;
	while (source.next_family(walk, &f) == 1) {
		if (strcmp(f.name, family))
			continue;
		assert_int_equal(source.next_series(walk, &series), 1);
		n = series.exemplar_count;
		for (size_t i = 0; i < n; i++)
			*latest = BASE_MAX(*latest, series.exemplars[i].ns);
		break;
	}
	source.end(walk);
	return n;
}

/* A region may have any number for one series, and a sum has those of all of its members. */
static void exemplars_of_a_series_are_bounded(void **state)
{
	enum { EACH_POD = COLLECT_SERIES_EXEMPLARS * 3 / 4 };
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p[2];
	uint64_t latest;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		pod_make(&p[i], 7 + i, LABELS("pod\0p"));
		p[i].m.header->pid = 100 + i;
		make_exemplars(&p[i].m, EACH_POD + 1);
		make_header_check(&p[i].m);
		counter(&p[i], "a_total", NULL, NULL);
		for (unsigned int e = 1; e <= EACH_POD; e++)
			make_exemplar(&p[i].m, e, 0, 0, 1, 1000 * i + e, LABELS("k\0v"));
		put(h, i, i + 1, &p[i], SL_STATE_LIVE);
	}
	c = start(&(struct collect_collector_opts){.period_ns = MS, .sum_processes = true});
	/* The very last one of either pod. */
	WITHIN(3000, exemplars_of(c, "a", &latest) == COLLECT_SERIES_EXEMPLARS &&
			     latest == 1000 + EACH_POD);
	collect_collector_free(c);
	for (unsigned int i = 0; i < 2; i++)
		make_free(&p[i].m);
}

static void exemplars_that_do_not_fit_are_counted(void **state)
{
	char labels[SL_EXEMPLAR_LABELS] = "k";
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p;
	uint64_t latest;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	make_exemplars(&p.m, 4);
	make_header_check(&p.m);
	counter(&p, "a_total", NULL, NULL);
	memset(labels + 2, 'x', 127);
	make_exemplar(&p.m, 1, 0, 0, 1, 1, labels, 130); /* 128 characters */
	labels[129] = 'x';
	make_exemplar(&p.m, 2, 0, 0, 1, 2, labels, 131);
	make_exemplar(&p.m, 3, 0, 0, 1, 3, LABELS("k")); /* no value */
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(3000, exemplars_of(c, "a", &latest) == 2);
	WITHIN(3000, relaxed_load(c->exemplars_malformed) > 0);
	/* Read again, they are the same ones. */
	make_exemplar(&p.m, 3, 0, 0, 1, 4, LABELS("k\0v"));
	WITHIN(5000, exemplars_of(c, "a", &latest) == 3);
	assert_int_equal(relaxed_load(c->exemplars_long), 1);
	collect_collector_free(c);
	make_free(&p.m);
}

static void gauge_histograms_have_exemplars_in_place(void **state)
{
	static const double bounds[] = {1, 2};
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p;
	size_t bytes;
	uint64_t latest;
	char *text;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	make_exemplars(&p.m, 2);
	make_header_check(&p.m);
	make_metric(&p.m, &(struct make_metric){.kind = SL_KIND_GAUGE_HISTOGRAM,
						.name = "g",
						.bounds = bounds,
						.bound_count = 2});
	make_exemplar(&p.m, 1, 0, SL_HIST_BUCKETS + 1, 1.5, 1000, LABELS("k\0v"));
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(3000, exemplars_of(c, "g", &latest) == 1);
	text = scrape_as(c, EXPORT_FORMAT_OPENMETRICS, false, &bytes);
	assert_non_null(strstr(text, ",le=\"2.0\"} 0 # {k=\"v\"} 1.5 "));
	free(text);
	collect_collector_free(c);
	make_free(&p.m);
}

const struct CMUnitTest values_tests[] = {
	TEST(sums_are_exact),
	TEST(exemplars_of_a_series_are_bounded),
	TEST(exemplars_that_do_not_fit_are_counted),
	TEST(gauge_histograms_have_exemplars_in_place),
	TEST(clashing_names_keep_exposition_valid),
	TEST(created_clashes_where_it_is_shown),
	TEST(omits_and_counts_conflicts),
	TEST(adds_up_counters_of_one_process),
	TEST(combines_gauges_as_they_say),
	TEST(sums_processes_with_the_expired),
	TEST(keeps_and_counts_its_bounds),
	TEST(refused_series_return_when_room_appears),
	TEST(counters_never_decrease_while_metrics_come),
	TEST(fetches_the_right_region_exactly_once),
	TEST(tap_gets_each_pass_and_nan_if_unsettled),
	TEST(taps_are_bounded_and_set_before_the_start),
	{0},
};
