// SPDX-License-Identifier: Apache-2.0
/* test_exemplars.c - exemplars of hosts are bounded, checked, and attached to the right series. */
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#undef relaxed_load
#include "collect/read/collector_internal.h"
#include "collect/read/exemplars.h"

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

/* A region may have any number for one series, and a sum has those of all its members. */
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

/* A publisher can write an element with a check word of 0; linked twice, it is an endless list. */
static void an_exemplar_is_linked_once(void **state)
{
	static struct collect_collector c;
	struct region_info info = {.max_exemplars = 4};
	struct collect_region r = {.c = &c, .info = &info};
	struct collect_def def = {.metric = {.kind = SL_KIND_COUNTER, .cells = 1}};
	const struct collect_column column = {.def = &def};
	uint64_t words[REGION_EXEMPLAR_WORDS] = {0};
	struct region_exemplar e;
	uint32_t at = 0;

	(void)state;
	words[SL_EXEMPLAR_OF] = 1 << 16; /* in the same bucket as the series, which has id 0 */
	words[SL_EXEMPLAR_BYTES] = 4;
	memcpy(&words[SL_EXEMPLAR_TEXT], "k\0v", 4);
	/* Words 2 and 3 add 1 * n to the check word. Choose n so that the check word is 0. */
	words[2] = SL_LINE_K2 ^ 1;
	words[3] = SL_LINE_K3;
	words[3] ^= 0 - sl_sealed_check(words);
	for (uint32_t i = 1; i < REGION_EXEMPLAR_WORDS / 8; i++) {
		words[8 * i] = SL_EXEMPLAR_TAG_OF(0, i);
		words[8 * i + 7] = sl_sealed_check(&words[8 * i]);
	}
	assert_int_equal(region_exemplar_parse(words, &e), 0);
	for (int i = 0; i < 2; i++)
		collect_exemplars_take(&r, 1, words);
	assert_false(collect_exemplars_next(&r, &column, &at, &e));
	collect_exemplars_free(&r);
}

const struct CMUnitTest exemplars_tests[] = {
	TEST(an_exemplar_is_linked_once),
	TEST(exemplars_of_a_series_are_bounded),
	TEST(exemplars_that_do_not_fit_are_counted),
	TEST(gauge_histograms_have_exemplars_in_place),
	{0},
};
