// SPDX-License-Identifier: Apache-2.0
/*
 * test_pairs.c - a counter "x_total" and a metric "x" of another kind are both exposed unchanged.
 */
#include <string.h>

#include "fixture.h"

static const double bounds[] = {1, 2};

/* Metrics that have no sample NAME_total; one of each kind. */
static const struct beside {
	struct make_metric m;
	const char *type, *openmetrics, *sample;
} beside[] = {
	{{.kind = SL_KIND_GAUGE, .name = "gauge_x"}, "gauge_x gauge", "gauge_x gauge", "gauge_x"},
	{{.kind = SL_KIND_HISTOGRAM, .name = "hist_x", .bounds = bounds, .bound_count = 2},
	 "hist_x histogram",
	 "hist_x histogram",
	 "hist_x_count"},
	{{.kind = SL_KIND_SUMMARY, .name = "summary_x", .bounds = bounds, .bound_count = 1},
	 "summary_x summary",
	 "summary_x summary",
	 "summary_x_count"},
	{{.kind = SL_KIND_UNKNOWN, .name = "unknown_x"},
	 "unknown_x untyped",
	 "unknown_x unknown",
	 "unknown_x"},
	{{.kind = SL_KIND_INFO, .name = "about_x"},
	 "about_x_info gauge",
	 "about_x info",
	 "about_x_info"},
	{{.kind = SL_KIND_STATESET, .name = "state_x", .states = {"on"}},
	 "state_x gauge",
	 "state_x stateset",
	 "state_x"},
	{{.kind = SL_KIND_COUNTER, .flags = SL_FLAG_MIRROR, .name = "bare_x"},
	 "bare_x counter",
	 "bare_x unknown",
	 "bare_x"},
};
#define BESIDE (sizeof(beside) / sizeof(*beside))

static void add_others(struct pod *p)
{
	for (size_t i = 0; i < BESIDE; i++)
		make_metric(&p->m, &beside[i].m);
}

static void add_counters(struct pod *p)
{
	char name[32];

	for (size_t i = 0; i < BESIDE; i++) {
		snprintf(name, sizeof(name), "%s_total", beside[i].m.name);
		make_cell_set(&p->m, 1, counter(p, name, NULL, NULL), 5 + i);
	}
}

static bool says(const char *text, size_t bytes, const char *before, const char *what,
		 const char *after)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "%s%s%s", before, what, after);

	return memmem(text, bytes, line, (size_t)n);
}

/* Each metric has its name and type in this format. */
static bool all_shown(struct collect_collector *c, enum export_format format)
{
	size_t bytes;
	char *text = scrape_as(c, format, true, &bytes);
	bool openmetrics = format == EXPORT_FORMAT_OPENMETRICS, all = true;

	for (size_t i = 0; i < BESIDE; i++) {
		const struct beside *b = &beside[i];
		char name[32];

		snprintf(name, sizeof(name), "%s_total", b->m.name);
		if (format == EXPORT_FORMAT_PROTOBUF) { /* field 1: the name after its length */
			char head[] = {0x0a, (char)strlen(name), 0};

			all = all && says(text, bytes, head, name, "");
			continue;
		}
		all = all &&
		      says(text, bytes, "# TYPE ", openmetrics ? b->openmetrics : b->type, "\n") &&
		      says(text, bytes, "# TYPE ", name,
			   openmetrics ? " unknown\n" : " counter\n") &&
		      says(text, bytes, "\n", b->sample, "{") &&
		      says(text, bytes, "\n", name, "{") &&
		      self_value(c, name, NULL) == (double)(5 + i);
	}
	free(text);
	return all;
}

enum place { ONE_REGION, ONE_PROCESS, TWO_PODS, TWO_TENANTS, PLACES };

static void put_tenant(struct mock_host *h, uint32_t index, uint64_t id, struct pod *p)
{
	mock_tenant(
		h, index,
		&(struct region_tenant){
			.id = id, .instance = p->instance, .key = id, .uid = 1000 + (uint32_t)id});
}

/* The counters are created before or after the others, and in several places. */
static void show(enum place place, bool counters_first, bool sums)
{
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p[2];
	unsigned int pods = place == ONE_REGION ? 1 : 2;

	for (unsigned int i = 0; i < pods; i++) {
		const char *labels[] = {"pod\0p", "pod\0q"};

		pod_make(&p[i], 7 + i, labels[place == TWO_PODS && i], sizeof("pod\0p"));
		if (counters_first == (i == 0))
			add_counters(&p[i]);
		else
			add_others(&p[i]);
		if (pods == 1 && counters_first)
			add_others(&p[i]);
		else if (pods == 1)
			add_counters(&p[i]);
	}
	if (place == TWO_TENANTS) {
		mock_tenants(h);
		put_tenant(h, 0, 1, &p[0]);
		put_tenant(h, 1, 2, &p[1]);
	}
	put(h, 0, 1, &p[0], SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = MS, .sum_processes = sums});
	WITHIN(3000, collect_collector_ready(c));
	if (pods == 2)
		put(h, 1, 2, &p[1], SL_STATE_LIVE);
	WITHIN(3000, all_shown(c, EXPORT_FORMAT_TEXT));
	assert_true(all_shown(c, EXPORT_FORMAT_OPENMETRICS));
	assert_true(all_shown(c, EXPORT_FORMAT_PROTOBUF));
	assert_true(self_value(c, "sidelight_collector_conflicts", NULL) == 0);
	collect_collector_free(c);
	for (unsigned int i = 0; i < pods; i++)
		make_free(&p[i].m);
}

static void counters_and_others_keep_their_names(void **state)
{
	(void)state;
	for (enum place place = 0; place < PLACES; place++)
		for (int way = 0; way < 4; way++) {
			mock_reset();
			show(place, way & 1, way & 2);
		}
}

static bool openmetrics_says(struct collect_collector *c, const char *what)
{
	size_t bytes;
	char *text = scrape_as(c, EXPORT_FORMAT_OPENMETRICS, true, &bytes);
	bool found = strstr(text, what);

	free(text);
	return found;
}

/* The sum is kept after its processes end, but their gauge is not. */
static void a_pairs_sum_outlives_its_gauge(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p[2];

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		pod_make(&p[i], 7 + i, LABELS("pod\0p"));
		p[i].m.header->pid = 100 + i;
		make_header_check(&p[i].m);
		make_cell_set(&p[i].m, 0, metric_of(&p[i], SL_KIND_GAUGE, "x"), 100);
		make_cell_set(&p[i].m, 1, counter(&p[i], "x_total", NULL, NULL), 10 + i);
		put(h, i, i + 1, &p[i], SL_STATE_LIVE);
	}
	c = start(&(struct collect_collector_opts){
		.period_ns = MS, .sum_processes = true, .created = true});
	WITHIN(3000, has(c, "x_total{pod=\"p\",host=\"node-1\"} 21"));
	assert_true(has(c, "x{pod=\"p\",host=\"node-1\"} 200"));
	put(h, 0, 1, &p[0], SL_STATE_RETIRED);
	WITHIN(3000, has(c, "x{pod=\"p\",host=\"node-1\"} 100"));
	assert_true(has(c, "x_total{pod=\"p\",host=\"node-1\"} 21"));
	assert_true(openmetrics_says(c, "# TYPE x_total unknown\nx_total{"));
	put(h, 1, 2, &p[1], SL_STATE_RETIRED);
	WITHIN(3000, !mentions(c, "\nx{"));
	assert_true(has(c, "x_total{pod=\"p\",host=\"node-1\"} 21"));
	assert_true(openmetrics_says(c, "# TYPE x counter\nx_total{"));
	assert_true(self_value(c, "sidelight_collector_conflicts", NULL) == 0);
	collect_collector_free(c);
	for (unsigned int i = 0; i < 2; i++)
		make_free(&p[i].m);
}

/*
 * UTF-8 names, for clients that accept them and for others; one equals the escaped form of another.
 */
static void pairs_in_utf8_stay_pairs(void **state)
{
	static const char *const lines[] = {"\na_x{",	    "\na_x_total{",
					    "\nU__a_2e_x{", "\nU__a_2e_x_total{",
					    "\nb_x{",	    "\nb_x_total{"};
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p;
	size_t bytes;
	char *text;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	for (int i = 0; i < 3; i++) {
		static const char *const names[] = {"a.x", "a_x", "b.x"};
		char name[16];

		snprintf(name, sizeof(name), "%s_total", names[i]);
		metric_of(&p, SL_KIND_COUNTER | SL_KIND_REPLACEABLE, name);
		metric_of(&p, SL_KIND_GAUGE | SL_KIND_REPLACEABLE, names[i]);
	}
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(3000, mentions(c, "\n{\"a.x\",pod=\"p\""));
	assert_true(mentions(c, "\n{\"a.x_total\",pod=\"p\""));
	assert_true(openmetrics_says(c, "# TYPE \"a.x_total\" unknown\n"));
	text = scrape_as(c, EXPORT_FORMAT_TEXT, false, &bytes);
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		if (!strstr(text, lines[i]))
			fail_msg("no %s in %s", lines[i] + 1, text);
	free(text);
	collect_collector_free(c);
	make_free(&p.m);
}

/* A publisher takes every name into which another family could be renamed. */
static void no_family_has_anothers_escaped_name(void **state)
{
	static const char *const names[] = {"a.b", "a_b", "U__a_2e_b",
					    "c.d", "c_d", "U__c_2e_d_total"};
	static const uint16_t kinds[] = {SL_KIND_GAUGE,	  SL_KIND_GAUGE, SL_KIND_GAUGE,
					 SL_KIND_COUNTER, SL_KIND_GAUGE, SL_KIND_GAUGE};
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p;
	size_t bytes;
	char *text, *first;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	for (int i = 0; i < 6; i++)
		metric_of(&p, kinds[i] | SL_KIND_REPLACEABLE, names[i]);
	metric_of(&p, SL_KIND_GAUGE, "c_d_total");
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(3000, mentions(c, "\n{\"c.d_total\",pod=\"p\""));
	text = scrape_as(c, EXPORT_FORMAT_TEXT, false, &bytes);
	first = strstr(text, "# TYPE U__a_2e_b ");
	assert_non_null(first);
	assert_null(strstr(first + 1, "# TYPE U__a_2e_b "));
	first = strstr(text, "\nU__c_2e_d_total{");
	assert_non_null(first);
	assert_null(strstr(first + 1, "\nU__c_2e_d_total{"));
	assert_non_null(strstr(text, "\na_b{"));
	free(text);
	collect_collector_free(c);
	make_free(&p.m);
}

const struct CMUnitTest pairs_tests[] = {
	TEST(counters_and_others_keep_their_names),
	TEST(a_pairs_sum_outlives_its_gauge),
	TEST(pairs_in_utf8_stay_pairs),
	TEST(no_family_has_anothers_escaped_name),
	{0},
};
