// SPDX-License-Identifier: Apache-2.0
/*
 * test_hostile.c - the collector with simulated hosts that answer out of order, torn, with lies, or
 * not at all.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../region/exercise.h"
#include "support/random.h"

#include "fixture.h"

/* Defects 1 and 2 of the original: many pods over one queue, completions in any order. */
static void unordered_completions_reach_their_pod(void **state)
{
	enum { PODS = 100, METRICS = 40 };
	static struct pod pod[PODS];
	struct mock_host *h = mock_host("one", 128);
	struct collect_collector *c;
	char name[64], line[256];
	uint64_t rounds;

	(void)state;
	h->shuffle = true;
	for (unsigned int i = 0; i < PODS; i++) {
		char labels[] = "pod\0p-000";

		snprintf(labels + 4, 6, "p-%03u", i);
		pod_make(&pod[i], 1000 + i, labels, sizeof(labels));
		for (unsigned int k = 0; k < METRICS; k++) {
			snprintf(name, sizeof(name), "m%02u_total", k);
			make_cell_set(&pod[i].m, 1, counter(&pod[i], name, NULL, NULL),
				      i * 1000 + k);
		}
		put(h, i, i + 1, &pod[i], SL_STATE_LIVE);
	}
	c = start(&(struct collect_collector_opts){.period_ns = 2 * MS});
	WITHIN(20000, collect_collector_ready(c));
	for (int turn = 0; turn < 10; turn++) {
		char *text = scrape(c);

		for (unsigned int i = 0; i < PODS; i++)
			for (unsigned int k = 0; k < METRICS; k++) {
				snprintf(line, sizeof(line),
					 "\nm%02u_total{pod=\"p-%03u\",host=\"node-1\",process="
					 "\"4711\"} %u\n",
					 k, i, i * 1000 + k);
				if (!strstr(text, line))
					fail_msg("missing: %s", line);
			}
		free(text);
		rounds = rounds_of(c, 0);
		WITHIN(5000, rounds_of(c, 0) > rounds);
	}
	collect_collector_free(c);
	for (unsigned int i = 0; i < PODS; i++)
		make_free(&pod[i].m);
}

/*
 * MicroView's defects 3 and 5: a READ that times out must not shift later data, and must not
 * require a restart.
 */
static void timeout_shifts_no_value(void **state)
{
	enum { PODS = 30 };
	static struct pod pod[PODS];
	struct mock_host *h = mock_host("one", 64);
	uint64_t deadline = base_now_ns() + 1500 * MS;
	struct collect_collector *c;
	char line[256];
	double connects;

	(void)state;
	for (unsigned int i = 0; i < PODS; i++) {
		char labels[] = "pod\0p-000";

		snprintf(labels + 4, 6, "p-%03u", i);
		pod_make(&pod[i], 1000 + i, labels, sizeof(labels));
		make_cell_set(&pod[i].m, 1, counter(&pod[i], "id_total", NULL, NULL), 5000 + i);
		put(h, i, i + 1, &pod[i], SL_STATE_LIVE);
	}
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(5000, collect_collector_ready(c));
	pthread_mutex_lock(&h->lock);
	h->fail = 2;
	h->shuffle = true;
	pthread_mutex_unlock(&h->lock);
	while (base_now_ns() < deadline) {
		char *text = scrape(c);

		for (unsigned int i = 0; i < PODS; i++) {
			char *at;

			snprintf(line, sizeof(line), "\nid_total{pod=\"p-%03u\",", i);
			at = strstr(text, line);
			if (at)
				assert_int_equal(strtoul(strchr(at, '}') + 2, NULL, 10), 5000 + i);
		}
		free(text);
	}
	pthread_mutex_lock(&h->lock);
	h->fail = 0;
	pthread_mutex_unlock(&h->lock);
	WITHIN(5000, has(c, "id_total{pod=\"p-029\",host=\"node-1\",process=\"4711\"} 5029"));
	WITHIN(3000, self_value(c, "sidelight_collector_read_errors_total", "timeout") > 0);
	connects = self_value(c, "sidelight_host_connects_total", NULL);
	assert_true(connects > 1);
	collect_collector_free(c);
	for (unsigned int i = 0; i < PODS; i++)
		make_free(&pod[i].m);
}

static void shows_no_torn_line(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	uint64_t last = 0, end;
	struct collect_collector *c;
	struct pod p;
	uint32_t a;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	a = counter(&p, "a_total", NULL, NULL);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	/*
	 * One in two looks at header or schema finds a torn line. A region that is torn five times
	 * is left alone for increasing times; real regions are never torn five times.
	 */
	h->tear = 1;
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(30000, mentions(c, "\na_total{"));
	pthread_mutex_lock(&h->lock);
	h->tear = 20;
	pthread_mutex_unlock(&h->lock);
	end = base_now_ns() + 1000 * MS;
	for (uint64_t n = 1; base_now_ns() < end; n++) {
		double v = self_value(c, "a_total", NULL);

		assert_true(v >= (double)last && v < (double)n);
		last = (uint64_t)v;
		set(h, &p, 1, a, n);
	}
	pthread_mutex_lock(&h->lock);
	/* hardly any line arrives intact: values stay as they were, and this is counted */
	h->tear = 95;
	pthread_mutex_unlock(&h->lock);
	WITHIN(3000, self_value(c, "sidelight_collector_unsettled_lines_total", NULL) > 10);
	pthread_mutex_lock(&h->lock);
	h->tear = 0;
	pthread_mutex_unlock(&h->lock);
	collect_collector_free(c);
	make_free(&p.m);
}

static void hostile_region_costs_only_its_owner(void **state)
{
	enum { EVIL = 6 };
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector_totals t;
	struct collect_collector *c;
	struct pod p, e[EVIL];
	uint8_t record[1024];
	uint64_t rng = 99, maps, begun;
	uint32_t a;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0good"));
	a = counter(&p, "a_total", NULL, NULL);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	for (unsigned int i = 0; i < EVIL; i++) {
		pod_make(&e[i], 100 + i, LABELS("pod\0evil"));
		counter(&e[i], "evil_total", NULL, NULL);
	}
	for (size_t i = 0; i < e[0].m.size; i++) /* garbage */
		e[0].m.mem[i] =
			(uint8_t)(rng = rng * 6364136223846793005ull + 1442695040888963407ull);
	make_set(e[1].m.hot, SL_HOT_LINES_USED, 1ull << 40);
	make_set(e[2].m.hot, SL_HOT_SCHEMA_USED, e[2].m.schema_bytes + 8);
	e[3].m.header->section[1].offset = 1ull << 60;
	make_header_check(&e[3].m);
	make_record(&e[4].m, &(struct make_metric){.kind = SL_KIND_COUNTER, .name = "b_total"},
		    record);
	((struct sl_schema_record *)record)->cell = 0xfffffff0;
	make_record_check(record);
	make_append(&e[4].m, record);
	memset(e[5].m.hot, 0xab, 64); /* never settles */
	for (unsigned int i = 0; i < EVIL; i++)
		put(h, i + 1, i + 2, &e[i], SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(9000, (collect_collector_totals(c, &t), t.dropped == EVIL));
	assert_false(mentions(c, "\nevil_total"));
	set(h, &p, 0, a, 12);
	WITHIN(1000, has(c, "a_total{pod=\"good\",host=\"node-1\",process=\"4711\"} 12"));
	assert_true(self_value(c, "sidelight_collector_region_faults_total", NULL) >= EVIL);
	assert_true(self_value(c, "sidelight_collector_region_faults_total", "\"magic\"") >= 1);
	assert_true(self_value(c, "sidelight_collector_region_faults_total", "\"unsettled\"") >= 1);
	/* The regions that were dropped first are now read again. */
	WITHIN(1000, mentions(c, "sidelight_collector_regions{state=\"dropped\"} 6"));
	pthread_mutex_lock(&h->lock);
	maps = h->maps;
	pthread_mutex_unlock(&h->lock);
	begun = base_now_ns();
	usleep(500000);
	pthread_mutex_lock(&h->lock);
	/* looked at again rarely, not at full rate */
	assert_true(h->maps - maps <= EVIL * (1 + (base_now_ns() - begun) / (1000 * MS)));
	pthread_mutex_unlock(&h->lock);
	collect_collector_free(c);
	make_free(&p.m);
	for (unsigned int i = 0; i < EVIL; i++)
		make_free(&e[i].m);
}

static void restless_layout_delays_no_other(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p, e;
	uint32_t a, b;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0good"));
	a = counter(&p, "a_total", NULL, NULL);
	pod_make(&e, 8, LABELS("pod\0evil"));
	b = counter(&e, "b_total", NULL, NULL);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	put(h, 1, 2, &e, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(3000, collect_collector_ready(c));
	for (unsigned int i = 1; i <= 500; i++) {
		pthread_mutex_lock(&h->lock);
		make_set(e.m.hot, SL_HOT_GENERATION, e.m.hot[SL_HOT_GENERATION] + 1);
		make_cell_set(&e.m, 1, b, i);
		make_cell_set(&p.m, 1, a, i);
		pthread_mutex_unlock(&h->lock);
		usleep(1000);
	}
	WITHIN(500, has(c, "a_total{pod=\"good\",host=\"node-1\",process=\"4711\"} 500"));
	WITHIN(3000, has(c, "b_total{pod=\"evil\",host=\"node-1\",process=\"4711\"} 500"));
	collect_collector_free(c);
	make_free(&p.m);
	make_free(&e.m);
}

static void retries_a_lying_schema_with_backoff(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector_totals t;
	struct collect_collector *c;
	struct pod p;
	uint8_t record[1024];
	uint64_t maps, most, begun;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0evil"));
	make_record(&p.m, &(struct make_metric){.kind = SL_KIND_COUNTER, .name = "b_total"},
		    record);
	record[sizeof(struct sl_schema_record)] = '!'; /* of the name */
	make_record_check(record);
	make_append(&p.m, record);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	begun = base_now_ns();
	c = start(&(struct collect_collector_opts){.period_ns = MS, .dropped_ns = 100 * MS});
	WITHIN(3000, (collect_collector_totals(c, &t), t.dropped == 1));
	usleep(2500000);
	/*
	 * Looks at the start, and after 100, 300, 700, 1,500 ms, and so on; without an increasing
	 * interval there would be 15.
	 */
	maps = GET(h->maps);
	most = 2;
	for (uint64_t gap = 100 * MS; gap < base_now_ns() - begun; gap *= 2)
		most++;
	assert_in_range(maps, 2, most);
	collect_collector_free(c);
	make_free(&p.m);
}

static void bad_directory_delays_no_other(void **state)
{
	static const char *const both[] = {"one", "two"};
	struct mock_host *h = mock_host("one", 16), *g = mock_host("two", 16);
	struct collect_collector *c;
	struct pod p;

	(void)state;
	h->directory.header->magic[0] ^= 1;
	pod_make(&p, 7, LABELS("pod\0p"));
	counter(&p, "a_total", NULL, NULL);
	put(g, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){
		.agents = both, .agent_count = 2, .period_ns = MS});
	WITHIN(3000, collect_collector_ready(c));
	assert_true(mentions(c, "\na_total{"));
	collect_collector_free(c);
	make_free(&p.m);
}

static void hides_a_snapshot_until_its_lines_are_read(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p, q;
	uint32_t a, b;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	a = counter(&p, "a_total", NULL, NULL);
	for (unsigned int i = 0; i < SL_LINE_CELLS; i++) {
		char name[] = "more0_total";

		name[4] = (char)('0' + i);
		b = counter(&p, name, NULL, NULL);
	}
	make_cell_set(&p.m, 1, a, 40);
	make_cell_set(&p.m, 2, a, 2);
	make_cell_set(&p.m, 1, b, 9);
	make_line(&p.m, 1, b / SL_LINE_CELLS)[7] ^= 1; /* being written for a long time */
	pod_make(&q, 8, LABELS("pod\0q"));
	counter(&q, "b_total", NULL, NULL);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	put(h, 1, 2, &q, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = MS, .region_series = true});
	WITHIN(3000, mentions(c, "\nb_total{"));
	WITHIN(3000, self_value(c, "sidelight_region_unsettled_lines_total", "\"p\"") > 20);
	assert_false(mentions(c, "\nmore6_total{"));
	pthread_mutex_lock(&h->lock);
	make_line(&p.m, 1, b / SL_LINE_CELLS)[7] ^= 1;
	pthread_mutex_unlock(&h->lock);
	WITHIN(3000, mentions(c, "\nmore6_total{"));
	assert_true(self_value(c, "more6_total", NULL) == 9);
	assert_true(self_value(c, "a_total", NULL) == 42);
	/* From then on the last good values stay, and a line that never verifies hides no other. */
	pthread_mutex_lock(&h->lock);
	make_line(&p.m, 1, b / SL_LINE_CELLS)[7] ^= 1;
	pthread_mutex_unlock(&h->lock);
	set(h, &p, 2, a, 3);
	WITHIN(3000, self_value(c, "a_total", NULL) == 43);
	assert_true(self_value(c, "more6_total", NULL) == 9);
	collect_collector_free(c);
	/* Last words are shown unchanged. */
	put(h, 0, 1, &p, SL_STATE_DEAD);
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(3000, self_value(c, "a_total", NULL) == 43);
	collect_collector_free(c);
	make_free(&p.m);
	make_free(&q.m);
}

/* ---- memory that changes while it is read ---- */

void honest_host(struct pod *p)
{
	struct mock_host *h = mock_host("two", 4);

	pod_make(p, 43, LABELS("pod\0good"));
	make_cell_set(&p->m, 1, counter(p, "good_total", NULL, NULL), 43);
	put(h, 0, 1, p, SL_STATE_LIVE);
}

/* Changes one word, preferably near the start, where the structure is. */
static void change_word(uint64_t *rng, uint64_t *words, size_t count)
{
	static const uint64_t odd[] = {0,	 7,	     63,	4096,	   1u << 20,
				       1u << 31, UINT32_MAX, INT64_MAX, UINT64_MAX};
	size_t near = random_xorshift(rng) & 1 ? count : BASE_MIN(count, (size_t)1024);
	uint64_t *w = words + random_xorshift(rng) % near, r = random_xorshift(rng);

	switch (r % 4) {
	case 0:
		*w = odd[r / 4 % (sizeof(odd) / sizeof(*odd))];
		break;
	case 1:
		*w ^= 1ull << r / 4 % 64;
		break;
	case 2:
		*w += r / 4 % 16 - 8;
		break;
	default:
		*w = (*w & UINT32_MAX) | random_xorshift(rng) << 32;
	}
}

void mutate(struct mock_host *h, void *memory, size_t size, struct collect_collector *c)
{
	const char *scale = getenv("SL_TEST_SCALE");
	bool soak = scale && strtod(scale, NULL) > 1;
	uint64_t rng = soak ? base_now_ns() : 1, before = rounds_of(c, 0),
		 end = base_now_ns() + (soak ? 600 : 2) * 1000 * MS;
	void *first = malloc(size);

	print_message("the first random number is %llu\n", (unsigned long long)rng);
	memcpy(first, memory, size);
	for (unsigned int step = 0; base_now_ns() < end; step++) {
		pthread_mutex_lock(&h->lock);
		if (step % 32 == 0)
			memcpy(memory, first, size);
		for (uint64_t n = random_xorshift(&rng) % 4 + 1; n; n--)
			change_word(&rng, memory, size / 8);
		if (random_xorshift(&rng) & 1)
			exercise_fix_checks(memory, size);
		pthread_mutex_unlock(&h->lock);
		usleep(500);
		if (step % 256 == 0)
			assert_true(self_value(c, "good_total", NULL) == 43);
	}
	pthread_mutex_lock(&h->lock);
	memcpy(memory, first, size);
	pthread_mutex_unlock(&h->lock);
	free(first);
	assert_true(rounds_of(c, 0) > before);
	before = rounds_of(c, 0);
	WITHIN(3000, rounds_of(c, 0) > before + 10);
	assert_true(self_value(c, "good_total", NULL) == 43);
}

static const char *const bad_and_good[] = {"one", "two"};
static const struct collect_collector_opts both = {
	.agents = bad_and_good, .agent_count = 2, .period_ns = MS, .dropped_ns = 20 * MS};

static void a_region_that_changes_harms_no_other(void **state)
{
	struct collect_collector_opts o = both;
	struct mock_host *h = mock_host("one", 8);
	struct collect_collector *c;
	struct pod p, good;

	(void)state;
	honest_host(&good);
	pod_make(&p, 5, LABELS("pod\0p"));
	make_cell_set(&p.m, 1, counter(&p, "a_total", "k", "v"), 3);
	metric_of(&p, SL_KIND_GAUGE, "b");
	metric_of(&p, SL_KIND_HISTOGRAM, "c");
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&o);
	WITHIN(3000, self_value(c, "a_total", NULL) == 3);
	WITHIN(3000, self_value(c, "good_total", NULL) == 43);
	mutate(h, p.m.mem, p.m.size, c);
	/* The publisher's region has not changed, so it is read again. */
	WITHIN(3000, self_value(c, "a_total", NULL) == 3);
	collect_collector_free(c);
	make_free(&p.m);
	make_free(&good.m);
}

static void a_directory_that_changes_harms_no_other(void **state)
{
	struct collect_collector_opts o = both;
	struct mock_host *h = mock_host("one", 64);
	struct collect_collector *c;
	struct pod p[8], good;

	(void)state;
	honest_host(&good);
	mock_tenants(h);
	for (uint32_t i = 0; i < 8; i++) {
		pod_make(&p[i], 5 + i, LABELS("pod\0p"));
		make_cell_set(&p[i].m, 1, counter(&p[i], "a_total", NULL, NULL), 3);
		put(h, i, 1 + i, &p[i], SL_STATE_LIVE);
		mock_tenant(h, i,
			    &(struct region_tenant){
				    .id = 1 + i, .key = 1000, .uid = 1000, .instance = 5 + i});
	}
	c = start(&o);
	WITHIN(3000, self_value(c, "a_total", NULL) == 24);
	WITHIN(3000, self_value(c, "good_total", NULL) == 43);
	mutate(h, h->directory.mem, h->directory.size, c);
	collect_collector_free(c);
	for (uint32_t i = 0; i < 8; i++)
		make_free(&p[i].m);
	make_free(&good.m);
}

const struct CMUnitTest hostile_tests[] = {
	TEST(unordered_completions_reach_their_pod),
	TEST(timeout_shifts_no_value),
	TEST(shows_no_torn_line),
	TEST(hostile_region_costs_only_its_owner),
	TEST(restless_layout_delays_no_other),
	TEST(retries_a_lying_schema_with_backoff),
	TEST(bad_directory_delays_no_other),
	TEST(hides_a_snapshot_until_its_lines_are_read),
	TEST(a_region_that_changes_harms_no_other),
	TEST(a_directory_that_changes_harms_no_other),
	{0},
};
