// SPDX-License-Identifier: Apache-2.0
/*
 * test_clashes.c - whatever names publishers give their metrics, an exposition stays valid, and
 * omitted series are counted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"

/*
 * Checks as promtool reads text 0.0.4: a family's TYPE appears once, only its samples follow it,
 * and no series appears twice. Returns the number of samples.
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
	/* Duplicate series: compares each line with the others that begin like it. */
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

/* Equal names of any type, which appear and vanish in any order. */
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

	/* Each kind with each name, one pod per kind. */
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
	/* No pod can publish the collector's own metrics. */
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

/* Creation times as in text 0.0.4 of Prometheus' Python client: as a gauge per counter. */
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
	metric_of(&q, SL_KIND_GAUGE, "x_total"); /* another kind than in p */
	metric_of(&q, SL_KIND_GAUGE, "h_count"); /* the name of a sample of p's histogram */
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

const struct CMUnitTest clashes_tests[] = {
	TEST(clashing_names_keep_exposition_valid),
	TEST(created_clashes_where_it_is_shown),
	TEST(omits_and_counts_conflicts),
	{0},
};
