// SPDX-License-Identifier: Apache-2.0
/*
 * test_collector.c NAME - the collector against hosts of the test's own making (mock.c): what comes
 * late, in disorder, torn, twice, lying or not at all. Each test's name is the promise it holds.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/base.h"
#include "collect/collect.h"

#include "mock.h"

#define MS     1000000ull
#define GET(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)

/* ---- helpers ------------------------------------------------------------------------------------------- */

struct pod {
	struct make m;
	uint64_t instance;
};

#define LABELS(s) s, sizeof(s) /* keys and values, each with its NUL */

static void pod_make(struct pod *p, uint64_t instance, const char *labels, size_t bytes)
{
	make_metrics(&p->m, 64, 3, 1 << 16, labels, bytes);
	p->instance = p->m.header->instance = instance;
	make_header_check(&p->m);
}

static uint32_t counter(struct pod *p, const char *name, const char *key, const char *value)
{
	return make_metric(&p->m, &(struct make_metric){.kind = SL_KIND_COUNTER,
							.name = name,
							.help = "help",
							.labels = {key, value, NULL}});
}

static uint32_t metric_of(struct pod *p, uint16_t kind, const char *name)
{
	return make_metric(&p->m, &(struct make_metric){.kind = kind, .name = name});
}

static void put(struct mock_host *h, uint32_t index, uint64_t id, struct pod *p, uint32_t state)
{
	mock_put(h, index, id, p->m.mem, p->m.size, state, p->instance);
}

static void set(struct mock_host *h, struct pod *p, uint32_t stripe, uint32_t cell, uint64_t v)
{
	pthread_mutex_lock(&h->lock);
	make_cell_set(&p->m, stripe, cell, v);
	pthread_mutex_unlock(&h->lock);
}

static struct sl_collector *start(struct sl_collector_opts *o)
{
	static const char *const one[] = {"one"};
	char error[256] = "";
	struct sl_collector *c;

	if (!o->agents) {
		o->agents = one;
		o->agent_count = 1;
	}
	c = sl_collector_new(o, error, sizeof(error));
	if (!c)
		fail_msg("%s", error);
	assert_int_equal(sl_collector_start(c), 0);
	return c;
}

static char *scrape(struct sl_collector *c)
{
	struct sl_source source = sl_collector_source(c);
	struct sl_render *r = sl_render_new(&source, SL_FORMAT_TEXT);
	size_t used = 0, room = 1 << 16;
	char *text = malloc(room);
	ssize_t n;

	while ((n = sl_render_read(r, text + used, room - used - 1)) > 0) {
		used += (size_t)n;
		if (room - used < 4096)
			text = realloc(text, room *= 2);
	}
	assert_int_equal(n, 0);
	text[used] = '\0';
	sl_render_free(r);
	return text;
}

/* Is there this line in an exposition? */
static bool has(struct sl_collector *c, const char *line)
{
	char *text = scrape(c), *at = text;
	size_t n = strlen(line);
	bool found = false;

	for (; !found && at; at = strchr(at, '\n')) {
		at += *at == '\n';
		found = !strncmp(at, line, n) && (at[n] == '\n' || !at[n]);
		if (!*at)
			break;
	}
	free(text);
	return found;
}

static bool mentions(struct sl_collector *c, const char *what)
{
	char *text = scrape(c);
	bool found = strstr(text, what);

	free(text);
	return found;
}

#define WITHIN(ms, condition)                                                                \
	do {                                                                                 \
		uint64_t end_ = sl_now_ns() + (ms)*MS;                                       \
		while (!(condition)) {                                                       \
			if (sl_now_ns() > end_) {                                            \
				char *text_ = scrape(c);                                     \
				fputs(text_, stderr);                                        \
				free(text_);                                                 \
				fail_msg("not within %llu ms: %s", (unsigned long long)(ms), \
					 #condition);                                        \
			}                                                                    \
			usleep(2000);                                                        \
		}                                                                            \
	} while (0)

/* The sum of a self metric's series, or -1 if there is none. */
static double self_value(struct sl_collector *c, const char *name, const char *labels)
{
	char *text = scrape(c), *at = text;
	size_t n = strlen(name);
	double sum = -1;

	while ((at = strstr(at, name))) {
		char *end = strchr(at, '\n'), *value;

		if ((at == text || at[-1] == '\n') && (at[n] == '{' || at[n] == ' ')) {
			*end = '\0';
			value = strrchr(at, ' ');
			if (!labels || strstr(at, labels))
				sum = (sum < 0 ? 0 : sum) + strtod(value, NULL);
			*end = '\n';
		}
		at = end;
	}
	free(text);
	return sum;
}

static __thread struct sl_worker_view seen[16];

static void see_worker(const struct sl_worker_view *v, void *arg)
{
	(void)arg;
	seen[v->worker] = *v;
}

static uint64_t rounds_of(struct sl_collector *c, unsigned int worker)
{
	sl_collector_workers(c, see_worker, NULL);
	return seen[worker].rounds;
}

static int reset(void **state)
{
	(void)state;
	mock_reset();
	return 0;
}

/* ---- the tests ------------------------------------------------------------------------------------------ */

static void sums_are_exact(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct sl_collector *c;
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
	c = start(&(struct sl_collector_opts){.period_ns = MS});
	WITHIN(3000, sl_collector_ready(c));
#define REGION "service=\"shop\",pod=\"shop-\\\"0\\\"\\\\\\n\",host=\"node-1\",process=\"4711\""
	assert_true(has(c, "a_total{" REGION ",path=\"/\\\"x\\\"\\\\\\n\"} 321"));
	assert_true(has(c, "b_total{" REGION "} 5"));
	assert_true(has(c, "level{" REGION "} -5"));
	assert_true(has(c, "spent_seconds_total{" REGION "} 5"));
	set(h, &p, 1, a, 21);
	WITHIN(3000, has(c, "a_total{" REGION ",path=\"/\\\"x\\\"\\\\\\n\"} 322"));
	sl_collector_free(c);
	make_free(&p.m);
}

/* Defects 1 and 2 of the original: many pods over one queue, completions in any order. */
static void defect_2_completions_in_any_order_reach_their_own_pod(void **state)
{
	enum { PODS = 100, METRICS = 40 };
	static struct pod pod[PODS];
	struct mock_host *h = mock_host("one", 128);
	struct sl_collector *c;
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
	c = start(&(struct sl_collector_opts){.period_ns = 2 * MS});
	WITHIN(20000, sl_collector_ready(c));
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
	sl_collector_free(c);
	for (unsigned int i = 0; i < PODS; i++)
		make_free(&pod[i].m);
}

/* Defect 3: a READ that times out must not shift what comes after. Defect 5: nor need a restart. */
static void defect_3_a_timeout_shifts_no_value(void **state)
{
	enum { PODS = 30 };
	static struct pod pod[PODS];
	struct mock_host *h = mock_host("one", 64);
	uint64_t deadline = sl_now_ns() + 1500 * MS;
	struct sl_collector *c;
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
	c = start(&(struct sl_collector_opts){.period_ns = MS});
	WITHIN(5000, sl_collector_ready(c));
	pthread_mutex_lock(&h->lock);
	h->fail = 2;
	h->shuffle = true;
	pthread_mutex_unlock(&h->lock);
	while (sl_now_ns() < deadline) {
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
	sl_collector_free(c);
	for (unsigned int i = 0; i < PODS; i++)
		make_free(&pod[i].m);
}

static void torn_lines_are_never_shown(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	uint64_t last = 0, end;
	struct sl_collector *c;
	struct pod p;
	uint32_t a;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	a = counter(&p, "a_total", NULL, NULL);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	/* A schema that comes torn five times is left alone for 5 s; a real one never is torn. */
	h->tear = 3;
	c = start(&(struct sl_collector_opts){.period_ns = MS});
	WITHIN(30000, mentions(c, "\na_total{"));
	pthread_mutex_lock(&h->lock);
	h->tear = 20;
	pthread_mutex_unlock(&h->lock);
	end = sl_now_ns() + 1000 * MS;
	for (uint64_t n = 1; sl_now_ns() < end; n++) {
		double v = self_value(c, "a_total", NULL);

		assert_true(v >= (double)last && v < (double)n);
		last = (uint64_t)v;
		set(h, &p, 1, a, n);
	}
	pthread_mutex_lock(&h->lock);
	h->tear = 95; /* hardly a line comes through: kept as they were, and counted */
	pthread_mutex_unlock(&h->lock);
	WITHIN(3000, self_value(c, "sidelight_collector_unsettled_lines_total", NULL) > 10);
	pthread_mutex_lock(&h->lock);
	h->tear = 0;
	pthread_mutex_unlock(&h->lock);
	sl_collector_free(c);
	make_free(&p.m);
}

static void a_slow_host_delays_nobody(void **state)
{
	static const char *const both[] = {"one", "two"};
	struct mock_host *h = mock_host("one", 16), *g = mock_host("two", 16);
	struct sl_collector *c;
	struct pod p, q;
	uint64_t before, after;
	uint32_t b;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	pod_make(&q, 8, LABELS("pod\0q"));
	counter(&p, "a_total", NULL, NULL);
	b = counter(&q, "b_total", NULL, NULL);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	put(g, 0, 1, &q, SL_STATE_LIVE);
	c = start(&(struct sl_collector_opts){.agents = both,
					      .agent_count = 2,
					      .period_ns = 5 * MS,
					      .stale_ns = 300 * MS,
					      .read_timeout_ns = 60000 * MS});
	WITHIN(5000, sl_collector_ready(c));
	pthread_mutex_lock(&h->lock);
	h->hold = true;
	pthread_mutex_unlock(&h->lock);
	usleep(50000);
	before = rounds_of(c, 0);
	usleep(500000);
	after = rounds_of(c, 0);
	/* 100 were due; a machine that is busy with other things may lose many, not most. */
	assert_true(after - before > 50);
	set(g, &q, 0, b, 99);
	WITHIN(1000, has(c, "b_total{pod=\"q\",host=\"node-1\",process=\"4711\"} 99"));
	WITHIN(2000, !mentions(c, "\na_total{"));
	assert_true(
		mentions(c, "sidelight_host_up{host=\"node-1\",target=\"one\",fabric=\"mock\"} 0"));
	assert_true(
		mentions(c, "sidelight_host_up{host=\"node-1\",target=\"two\",fabric=\"mock\"} 1"));
	assert_true(mentions(c, "\nsidelight_collector_stale_hosts 1"));
	assert_true(self_value(c, "sidelight_host_skipped_rounds_total", "\"one\"") > 20);
	pthread_mutex_lock(&h->lock);
	h->hold = false;
	pthread_mutex_unlock(&h->lock);
	WITHIN(3000, mentions(c, "\na_total{"));
	sl_collector_free(c);
	make_free(&p.m);
	make_free(&q.m);
}

/* Defect 6, and what a restart of the agent is. */
static void defect_6_pods_and_metrics_that_come_later_are_seen(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct sl_point points[4000];
	struct sl_collector *c;
	struct pod p, q;
	uint32_t a, b;
	ssize_t n, m;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	pod_make(&q, 8, LABELS("pod\0q"));
	a = counter(&p, "a_total", NULL, NULL);
	counter(&q, "a_total", NULL, NULL);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct sl_collector_opts){.period_ns = MS, .history_bytes = 8 << 20});
	WITHIN(3000, sl_collector_ready(c));
	put(h, 1, 2, &q, SL_STATE_LIVE);
	WITHIN(2000, has(c, "a_total{pod=\"q\",host=\"node-1\",process=\"4711\"} 0"));
	pthread_mutex_lock(&h->lock);
	b = counter(&p, "late_total", "k", "v");
	make_cell_set(&p.m, 2, b, 77);
	pthread_mutex_unlock(&h->lock);
	WITHIN(2000, has(c, "late_total{pod=\"p\",host=\"node-1\",process=\"4711\",k=\"v\"} 77"));
	set(h, &p, 1, a, 5);
	WITHIN(2000, has(c, "a_total{pod=\"p\",host=\"node-1\",process=\"4711\"} 5"));
	n = sl_collector_history(c, 7, 0, 0, points, 4000);
	assert_true(n > 5);
	assert_int_equal(points[n - 1].value, 5);
	for (ssize_t i = 1; i < n; i++)
		assert_true(points[i].ns > points[i - 1].ns &&
			    points[i].value >= points[i - 1].value);
	/* A part of it, however it is packed, is the same points. */
	WITHIN(3000, (n = sl_collector_history(c, 7, 0, 0, points, 4000)) > 300);
	for (int i = 0; i < 20; i++) {
		static struct sl_point part[4000];
		int64_t first = i * 7, last = n - 1 - i * 5;

		m = sl_collector_history_between(c, 7, 0, points[first].ns, points[last].ns, part,
						 4000);
		assert_int_equal(m, last - first + 1);
		for (ssize_t k = 0; k < m; k++)
			assert_int_equal(part[k].ns, points[first + k].ns);
		assert_int_equal(sl_collector_history_between(c, 7, 0, 0, points[last].ns, part, 1),
				 1);
		assert_int_equal(part[0].ns, points[last].ns);
	}
	assert_int_equal(sl_collector_history(c, 7, 99, 0, points, 4000), -ENOENT);
	assert_int_equal(sl_collector_history(c, 9, 0, 0, points, 4000), -ENOENT);

	/* The same region under another id: series and history go on. */
	mock_restart(h);
	put(h, 5, 40, &p, SL_STATE_LIVE);
	set(h, &p, 1, a, 6);
	WITHIN(3000, has(c, "a_total{pod=\"p\",host=\"node-1\",process=\"4711\"} 6"));
	m = sl_collector_history(c, 7, 0, 0, points, 4000);
	assert_true(m > n);
	for (ssize_t i = 1; i < m; i++)
		assert_true(points[i].ns > points[i - 1].ns &&
			    points[i].value >= points[i - 1].value);
	sl_collector_free(c);
	make_free(&p.m);
	make_free(&q.m);
}

static void the_dead_keep_their_last_words_and_expire_exactly(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct sl_collector_totals t;
	struct sl_collector *c;
	struct pod p;
	uint64_t reads;
	uint32_t a;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	a = counter(&p, "a_total", NULL, NULL);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct sl_collector_opts){.period_ns = MS, .stale_ns = 200 * MS});
	WITHIN(3000, sl_collector_ready(c));
	set(h, &p, 1, a, 41);
	set(h, &p, 2, a, 1);
	put(h, 0, 1, &p, SL_STATE_DEAD);
	WITHIN(1000, mentions(c, "state=\"dead\"} 1"));
	WITHIN(1000, has(c, "a_total{pod=\"p\",host=\"node-1\",process=\"4711\"} 42"));
	assert_true(self_value(c, "sidelight_region_up", NULL) == 0);
	usleep(400000); /* longer than stale: the host is read, so last words stand */
	assert_true(has(c, "a_total{pod=\"p\",host=\"node-1\",process=\"4711\"} 42"));
	pthread_mutex_lock(&h->lock);
	reads = h->region[1].reads;
	pthread_mutex_unlock(&h->lock);
	usleep(100000);
	pthread_mutex_lock(&h->lock);
	assert_int_equal(h->region[1].reads, reads); /* nothing can change any more */
	pthread_mutex_unlock(&h->lock);
	put(h, 0, 1, &p, SL_STATE_RETIRED);
	WITHIN(1000, !mentions(c, "\na_total{"));
	WITHIN(1000, (sl_collector_totals(c, &t), t.regions == 0 && t.expired == 1));
	WITHIN(1000, GET(h->unmaps) == GET(h->maps));
	assert_int_equal(GET(h->region[1].reads), 0); /* mock_put() started to count anew */
	sl_collector_free(c);
	make_free(&p.m);
}

static void a_hostile_region_costs_only_its_owner(void **state)
{
	enum { EVIL = 6 };
	struct mock_host *h = mock_host("one", 16);
	struct sl_collector_totals t;
	struct sl_collector *c;
	struct pod p, e[EVIL];
	uint8_t record[1024];
	uint64_t rng = 99, maps;
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
	c = start(&(struct sl_collector_opts){.period_ns = MS});
	WITHIN(9000, (sl_collector_totals(c, &t), t.dropped == EVIL));
	assert_false(mentions(c, "\nevil_total"));
	set(h, &p, 0, a, 12);
	WITHIN(1000, has(c, "a_total{pod=\"good\",host=\"node-1\",process=\"4711\"} 12"));
	assert_true(self_value(c, "sidelight_collector_region_faults_total", NULL) >= EVIL);
	assert_true(self_value(c, "sidelight_collector_region_faults_total", "\"magic\"") >= 1);
	assert_true(self_value(c, "sidelight_collector_region_faults_total", "\"unsettled\"") >= 1);
	/* Those that were dropped first are being looked at again by now. */
	WITHIN(1000, mentions(c, "sidelight_collector_regions{state=\"dropped\"} 6"));
	pthread_mutex_lock(&h->lock);
	maps = h->maps;
	pthread_mutex_unlock(&h->lock);
	usleep(500000);
	pthread_mutex_lock(&h->lock);
	assert_true(h->maps - maps <= EVIL); /* looked at again seldom, not at full rate */
	pthread_mutex_unlock(&h->lock);
	sl_collector_free(c);
	make_free(&p.m);
	for (unsigned int i = 0; i < EVIL; i++)
		make_free(&e[i].m);
}

static void a_layout_that_never_rests_delays_nobody(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct sl_collector *c;
	struct pod p, e;
	uint32_t a, b;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0good"));
	a = counter(&p, "a_total", NULL, NULL);
	pod_make(&e, 8, LABELS("pod\0evil"));
	b = counter(&e, "b_total", NULL, NULL);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	put(h, 1, 2, &e, SL_STATE_LIVE);
	c = start(&(struct sl_collector_opts){.period_ns = MS});
	WITHIN(3000, sl_collector_ready(c));
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
	sl_collector_free(c);
	make_free(&p.m);
	make_free(&e.m);
}

/*
 * As promtool reads text 0.0.4: a family's TYPE comes once, its samples follow it and no other's,
 * and no series comes twice. Returns the number of samples.
 */
static size_t well_formed(struct sl_collector *c)
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
	struct sl_collector *c;
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
	c = start(&(struct sl_collector_opts){.period_ns = MS, .sum_processes = sums});
	WITHIN(3000, sl_collector_ready(c));
	for (uint64_t id = 1; id < 16; id++) {
		unsigned int k = (unsigned int)rng_below(&rng, KINDS);
		struct sl_collector_totals t;
		uint64_t live = 0;

		put(h, k, id * 10 + k, &pod[k],
		    id > 4 && rng_below(&rng, 3) == 0 ? SL_STATE_RETIRED : SL_STATE_LIVE);
		for (unsigned int i = 0; i < KINDS; i++)
			live += SL_ENTRY_STATE(h->directory.entries[i][SL_ENTRY_KEY]) ==
				SL_STATE_LIVE;
		WITHIN(3000, (sl_collector_totals(c, &t), t.regions == live));
		for (unsigned int i = 0; i < 15; i++) {
			well_formed(c);
			usleep(10000);
		}
	}
	for (unsigned int k = 0; k < KINDS; k++)
		put(h, 10 + k, 200 + k, &pod[k], SL_STATE_LIVE);
	WITHIN(3000, self_value(c, "sidelight_collector_conflicts", "\"kind\"") > 10);
	well_formed(c);
	/* Nobody speaks for the collector. */
	assert_false(mentions(c, "sidelight_collector_rounds_total{pod"));
	assert_false(mentions(c, "sidelight_collector_read_latency_seconds_count{pod"));
	assert_false(mentions(c, "sidelight_region_state{sidelight"));
	sl_collector_free(c);
	for (unsigned int k = 0; k < KINDS; k++)
		make_free(&pod[k].m);
}

static void names_that_clash_leave_the_exposition_well_formed(void **state)
{
	(void)state;
	clash(false);
	mock_reset();
	clash(true);
}

static void conflicts_are_left_out_and_counted(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	static const double bounds[] = {1, 2};
	struct sl_collector *c;
	struct pod p, q;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p\0host\0mine\0process\0mine"));
	pod_make(&q, 8, LABELS("pod\0q"));
	counter(&p, "x_total", "pod", "inner");
	metric_of(&q, SL_KIND_GAUGE, "x");	 /* another kind than p's family x */
	metric_of(&q, SL_KIND_GAUGE, "h_count"); /* a sample of p's histogram */
	counter(&q, "sidelight_collector_rounds_total", NULL, NULL);
	make_metric(&p.m, &(struct make_metric){.kind = SL_KIND_HISTOGRAM,
						.name = "h",
						.bounds = bounds,
						.bound_count = 2});
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct sl_collector_opts){.period_ns = MS});
	WITHIN(3000, sl_collector_ready(c));
	put(h, 1, 2, &q, SL_STATE_LIVE);
	WITHIN(3000, self_value(c, "sidelight_collector_conflicts", NULL) >= 3);
	assert_true(has(c, "x_total{pod=\"p\",exported_host=\"mine\",exported_process=\"mine\","
			   "host=\"node-1\",process=\"4711\",exported_pod=\"inner\"} 0"));
	assert_false(mentions(c, "\nx{"));
	assert_false(mentions(c, "\nh_count{pod=\"q\""));
	assert_true(mentions(c, "\nh_count{pod=\"p\""));
	assert_false(mentions(c, "sidelight_collector_rounds_total{pod"));
	sl_collector_free(c);
	make_free(&p.m);
	make_free(&q.m);
}

static void processes_add_up_and_the_expired_stay_in_the_sum(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	static const double bounds[] = {1, 2};
	struct sl_collector *c;
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
	c = start(&(struct sl_collector_opts){.period_ns = MS, .sum_processes = true});
	WITHIN(3000, sl_collector_ready(c));
	assert_true(has(c, "a_total{pod=\"p\",host=\"node-1\",k=\"v\"} 33"));
	assert_true(has(c, "level{pod=\"p\",host=\"node-1\"} 300"));
	assert_true(has(c, "h_sum{pod=\"p\",host=\"node-1\"} 4.5"));
	assert_true(has(c, "h_count{pod=\"p\",host=\"node-1\"} 3"));
	for (unsigned int i = 0; i < 3; i++) {
		set(h, &p[i], 2, a[i], 100);
		put(h, i, i + 1, &p[i], SL_STATE_DEAD);
		WITHIN(1000, self_value(c, "sidelight_collector_regions", "dead") == 1);
		/* The gauges of the dead count no more, unless nobody is left. */
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
	assert_true(has(c, "a_total{pod=\"p\",host=\"node-1\",k=\"v\"} 333"));
	assert_true(has(c, "h_sum{pod=\"p\",host=\"node-1\"} 4.5"));
	assert_true(has(c, "h_bucket{pod=\"p\",host=\"node-1\",le=\"2\"} 3"));
	assert_false(mentions(c, "\nlevel{"));
	sl_collector_free(c);
	for (unsigned int i = 0; i < 3; i++)
		make_free(&p[i].m);
}

static void bounds_are_kept_and_counted(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct sl_collector *c;
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
	c = start(&(struct sl_collector_opts){.period_ns = MS, .max_regions = 3, .max_series = 5});
	WITHIN(3000, sl_collector_ready(c));
	WITHIN(1000, self_value(c, "sidelight_collector_refused_total", "max_series") == 1);
	WITHIN(1000, self_value(c, "sidelight_collector_refused_total", "max_regions") == 1);
	WITHIN(1000, self_value(c, "sidelight_collector_series", NULL) == 5);
	/* What was refused comes in as soon as there is room. */
	put(h, 0, 1, &p[0], SL_STATE_RETIRED);
	WITHIN(4000, mentions(c, "\na_total{pod=\"p\",host=\"node-1\",process=\"103\"}"));
	assert_true(self_value(c, "sidelight_collector_refused_total", "max_regions") == 1);
	sl_collector_free(c);
	for (unsigned int i = 0; i < 4; i++)
		make_free(&p[i].m);
}

static void no_lease_no_reads(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct sl_collector *c;
	struct pod p;
	uint64_t reads;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	counter(&p, "a_total", NULL, NULL);
	make_set(h->directory.hot, SL_DIR_LEASE_NS, 100 * MS);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct sl_collector_opts){.period_ns = MS});
	WITHIN(3000, sl_collector_ready(c));
	pthread_mutex_lock(&h->lock);
	h->directory.hot[7] ^= 1; /* does not verify any more */
	pthread_mutex_unlock(&h->lock);
	usleep(200000);
	pthread_mutex_lock(&h->lock);
	reads = h->region[1].reads;
	pthread_mutex_unlock(&h->lock);
	usleep(200000);
	pthread_mutex_lock(&h->lock);
	assert_int_equal(h->region[1].reads, reads);
	h->directory.hot[7] ^= 1;
	pthread_mutex_unlock(&h->lock);
	WITHIN(2000, GET(h->region[1].reads) > reads + 10);
	sl_collector_free(c);
	make_free(&p.m);
}

static void queues_share_a_host_evenly(void **state)
{
	enum { PODS = 64 };
	struct mock_host *h = mock_host("one", 128);
	static struct pod pod[PODS];
	struct sl_collector_totals t;
	struct sl_collector *c;

	(void)state;
	for (unsigned int i = 0; i < PODS; i++) {
		pod_make(&pod[i], 1000 + i * 7919, LABELS("pod\0p"));
		pod[i].m.header->pid = 100 + i;
		make_header_check(&pod[i].m);
		make_cell_set(&pod[i].m, 1, counter(&pod[i], "a_total", NULL, NULL), i);
		put(h, i, i + 1, &pod[i], SL_STATE_LIVE);
	}
	c = start(&(struct sl_collector_opts){.period_ns = 2 * MS, .workers = 4, .queues = 4});
	WITHIN(5000, sl_collector_ready(c));
	sl_collector_workers(c, see_worker, NULL);
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(seen[i].regions, PODS / 4);
	WITHIN(2000, self_value(c, "a_total", NULL) == PODS * (PODS - 1) / 2);
	mock_restart(h);
	for (unsigned int i = 0; i < PODS; i++)
		put(h, PODS - i, 200 + i, &pod[i], SL_STATE_LIVE);
	for (unsigned int i = 0; i < PODS; i++)
		set(h, &pod[i], 1, 0, i + 1);
	WITHIN(3000, self_value(c, "a_total", NULL) == PODS * (PODS + 1) / 2);
	for (unsigned int i = 0; i < PODS; i++)
		put(h, PODS - i, 200 + i, &pod[i], SL_STATE_RETIRED);
	WITHIN(3000, (sl_collector_totals(c, &t), t.regions == 0));
	sl_collector_free(c);
	for (unsigned int i = 0; i < PODS; i++)
		make_free(&pod[i].m);
}

/* ---- found by reading the code ------------------------------------------------------------------------------ */

static uint64_t reads_of(struct mock_host *h, uint64_t id)
{
	uint64_t n;

	pthread_mutex_lock(&h->lock);
	n = h->region[id].reads;
	pthread_mutex_unlock(&h->lock);
	return n;
}

/* Reads of a region from now on until it is left alone. */
static uint64_t reads_until_rest(struct mock_host *h, uint64_t id, uint64_t before)
{
	uint64_t n = before, last;

	do {
		last = n;
		usleep(700000);
		n = reads_of(h, id);
	} while (n != last);
	return n - before;
}

static void each_death_has_last_words_of_its_own(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct sl_collector *c;
	struct pod p;
	uint64_t pass, before;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	counter(&p, "a_total", NULL, NULL);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct sl_collector_opts){.period_ns = 200 * MS});
	WITHIN(3000, mentions(c, "\na_total{"));
	before = reads_of(h, 1);
	WITHIN(3000, reads_of(h, 1) > before);
	before = reads_of(h, 1);
	WITHIN(3000, reads_of(h, 1) > before);
	pass = reads_of(h, 1) - before;
	for (int death = 0; death < 2; death++) {
		/* A pass that began before the death was seen is not the last word, so two follow. */
		before = reads_of(h, 1);
		pthread_mutex_lock(&h->lock);
		make_entry(&h->directory, 0, 1, 0, p.m.size, 0, SL_STATE_DEAD, SL_REGION_METRICS,
			   7);
		pthread_mutex_unlock(&h->lock);
		assert_true(reads_until_rest(h, 1, before) >= 3 * pass);
		pthread_mutex_lock(&h->lock);
		make_entry(&h->directory, 0, 1, 0, p.m.size, 0, SL_STATE_LIVE, SL_REGION_METRICS,
			   7);
		pthread_mutex_unlock(&h->lock);
		before = reads_of(h, 1);
		WITHIN(3000, reads_of(h, 1) >= before + 2 * pass);
	}
	sl_collector_free(c);
	make_free(&p.m);
}

static void a_lying_schema_is_looked_at_ever_more_seldom(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct sl_collector_totals t;
	struct sl_collector *c;
	struct pod p;
	uint8_t record[1024];
	uint64_t maps;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0evil"));
	make_record(&p.m, &(struct make_metric){.kind = SL_KIND_COUNTER, .name = "b_total"},
		    record);
	record[sizeof(struct sl_schema_record)] = '!'; /* of the name */
	make_record_check(record);
	make_append(&p.m, record);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct sl_collector_opts){.period_ns = MS, .dropped_ns = 100 * MS});
	WITHIN(3000, (sl_collector_totals(c, &t), t.dropped == 1));
	usleep(2500000);
	/* At the start, and after 100, 300, 700, 1,500 ms; never more seldom would be 15 times. */
	maps = GET(h->maps);
	assert_in_range(maps, 2, 7);
	sl_collector_free(c);
	make_free(&p.m);
}

static void a_directory_that_is_none_does_not_keep_the_others_waiting(void **state)
{
	static const char *const both[] = {"one", "two"};
	struct mock_host *h = mock_host("one", 16), *g = mock_host("two", 16);
	struct sl_collector *c;
	struct pod p;

	(void)state;
	h->directory.header->magic[0] ^= 1;
	pod_make(&p, 7, LABELS("pod\0p"));
	counter(&p, "a_total", NULL, NULL);
	put(g, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct sl_collector_opts){.agents = both, .agent_count = 2, .period_ns = MS});
	WITHIN(3000, sl_collector_ready(c));
	assert_true(mentions(c, "\na_total{"));
	sl_collector_free(c);
	make_free(&p.m);
}

static void a_lease_counts_from_when_the_directory_was_asked(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct sl_collector *c;
	struct pod p;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	counter(&p, "a_total", NULL, NULL);
	make_set(h->directory.hot, SL_DIR_LEASE_NS, 300 * MS);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct sl_collector_opts){.period_ns = 20 * MS, .read_timeout_ns = 60000 * MS});
	WITHIN(3000, mentions(c, "\na_total{"));
	for (int i = 0; i < 3; i++) {
		uint64_t reads = reads_of(h, 1);

		pthread_mutex_lock(&h->lock);
		h->hold = true;
		pthread_mutex_unlock(&h->lock);
		usleep(900000);
		pthread_mutex_lock(&h->lock);
		h->hold = false;
		pthread_mutex_unlock(&h->lock);
		WITHIN(3000, reads_of(h, 1) > reads + 3);
	}
	/* By the mock's own clock, and twice the lease as what an agent grants. */
	assert_int_equal(GET(h->late_reads), 0);
	sl_collector_free(c);
	make_free(&p.m);
}

static void a_board_is_not_shown_before_its_lines_were_seen(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct sl_collector *c;
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
	make_line(&p.m, 1, b / SL_LINE_CELLS)[7] ^= 1; /* being written, for long */
	pod_make(&q, 8, LABELS("pod\0q"));
	counter(&q, "b_total", NULL, NULL);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	put(h, 1, 2, &q, SL_STATE_LIVE);
	c = start(&(struct sl_collector_opts){.period_ns = MS});
	WITHIN(3000, mentions(c, "\nb_total{"));
	WITHIN(3000, self_value(c, "sidelight_region_unsettled_lines_total", "\"p\"") > 20);
	assert_false(mentions(c, "\nmore6_total{"));
	pthread_mutex_lock(&h->lock);
	make_line(&p.m, 1, b / SL_LINE_CELLS)[7] ^= 1;
	pthread_mutex_unlock(&h->lock);
	WITHIN(3000, mentions(c, "\nmore6_total{"));
	assert_true(self_value(c, "more6_total", NULL) == 9);
	assert_true(self_value(c, "a_total", NULL) == 42);
	/* From then on the last good values stand, and a line that never comes hides nothing. */
	pthread_mutex_lock(&h->lock);
	make_line(&p.m, 1, b / SL_LINE_CELLS)[7] ^= 1;
	pthread_mutex_unlock(&h->lock);
	set(h, &p, 2, a, 3);
	WITHIN(3000, self_value(c, "a_total", NULL) == 43);
	assert_true(self_value(c, "more6_total", NULL) == 9);
	sl_collector_free(c);
	/* Last words are shown as they are. */
	put(h, 0, 1, &p, SL_STATE_DEAD);
	c = start(&(struct sl_collector_opts){.period_ns = MS});
	WITHIN(3000, self_value(c, "a_total", NULL) == 43);
	sl_collector_free(c);
	make_free(&p.m);
	make_free(&q.m);
}

static void series_that_were_refused_come_when_there_is_room(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct sl_collector *c;
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
	c = start(&(struct sl_collector_opts){.period_ns = MS, .max_series = 4});
	WITHIN(3000, sl_collector_ready(c));
	put(h, 1, 2, &q, SL_STATE_LIVE);
	WITHIN(3000, self_value(c, "m0_total", "\"q\"") == 70);
	assert_false(mentions(c, "\nm2_total{pod=\"q\""));
	put(h, 0, 1, &p, SL_STATE_RETIRED);
	WITHIN(3000, self_value(c, "m2_total", "\"q\"") == 72);
	WITHIN(3000, self_value(c, "sidelight_collector_refused_total", "max_series") == 2);
	sl_collector_free(c);
	make_free(&p.m);
	make_free(&q.m);
}

/* An instance moves to another entry, and the link that had it gives it up to one that has less. */
static void an_instance_that_moves_between_links_is_not_lost(void **state)
{
	enum { PODS = 16 };
	static struct pod pod[PODS];

	(void)state;
	for (unsigned int i = 0; i < PODS; i++) {
		pod_make(&pod[i], 1000 + i, LABELS("pod\0p"));
		counter(&pod[i], "a_total", NULL, NULL);
	}
	for (unsigned int turn = 0; turn < 12; turn++) {
		struct mock_host *h = mock_host("one", 64);
		struct sl_collector_totals t;
		struct sl_collector *c;

		for (unsigned int i = 0; i < PODS; i++)
			put(h, i, i + 1, &pod[i], SL_STATE_LIVE);
		/* Busy: which of the two looks first is open. */
		c = start(&(struct sl_collector_opts){.workers = 2, .queues = 2});
		WITHIN(3000, (sl_collector_totals(c, &t), t.regions == PODS));
		/* What one link has goes, all that the other one has moves. */
		for (unsigned int i = 1; i < PODS; i += 2)
			put(h, i, i + 1, &pod[i], SL_STATE_RETIRED);
		WITHIN(3000, (sl_collector_totals(c, &t), t.regions == PODS / 2));
		pthread_mutex_lock(&h->lock);
		for (unsigned int i = 0; i < PODS; i += 2) {
			h->region[100 + i] = h->region[i + 1];
			h->region[100 + i].reads = 0;
			make_entry(&h->directory, i, i + 1, 0, pod[i].m.size, 0, SL_STATE_RETIRED,
				   SL_REGION_METRICS, 1000 + i);
			make_entry(&h->directory, 32 + i, 100 + i, 0, pod[i].m.size, 0,
				   SL_STATE_LIVE, SL_REGION_METRICS, 1000 + i);
		}
		pthread_mutex_unlock(&h->lock);
		for (unsigned int i = 0; i < PODS; i += 2)
			WITHIN(4000, reads_of(h, 100 + i) > 10);
		sl_collector_free(c);
		mock_reset();
	}
	for (unsigned int i = 0; i < PODS; i++)
		make_free(&pod[i].m);
}

/*
 * A pass that waits for room when the lease ends: that of a round, or one beside the rounds. The
 * landing memory holds less than a pass, and the host falls silent in the middle of it.
 */
static void a_pass_without_a_lease_holds_up_no_round(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct sl_collector *c;
	uint64_t pass, before;
	struct pod p;
	uint32_t a = 0;

	(void)state;
	make_metrics(&p.m, 64, 32, 1 << 16, LABELS("pod\0p"));
	p.instance = p.m.header->instance = 7;
	make_header_check(&p.m);
	for (unsigned int i = 0; i < 63; i++) {
		char name[] = "m00_total";

		name[1] = (char)('0' + i / 10);
		name[2] = (char)('0' + i % 10);
		a = counter(&p, name, NULL, NULL);
	}
	make_cell_set(&p.m, 1, a, 5);
	make_set(h->directory.hot, SL_DIR_LEASE_NS, 200 * MS);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct sl_collector_opts){
		.period_ns = 100 * MS, .fabric.buffer_bytes = 8192, .read_timeout_ns = 60000 * MS});
	WITHIN(3000, self_value(c, "m62_total", NULL) == 5);
	before = reads_of(h, 1);
	WITHIN(3000, reads_of(h, 1) > before);
	usleep(50000);
	before = reads_of(h, 1);
	WITHIN(3000, reads_of(h, 1) > before);
	usleep(20000);
	pass = reads_of(h, 1) - before;
	assert_true(pass > 10);
	for (uint64_t i = 0; i < 4; i++) {
		/* After a death the round's pass comes first, then one that is urgent. */
		bool dead = i >= 2;

		pthread_mutex_lock(&h->lock);
		h->hold_at = h->region[1].reads + dead * pass + i % 2 * pass / 3 + 1;
		if (dead)
			make_entry(&h->directory, 0, 1, 0, p.m.size, 0, SL_STATE_DEAD,
				   SL_REGION_METRICS, 7);
		pthread_mutex_unlock(&h->lock);
		WITHIN(3000, GET(h->hold));
		usleep(300000);
		pthread_mutex_lock(&h->lock);
		h->directory.hot[7] ^= 1;
		h->hold = false;
		h->hold_at = 0;
		pthread_mutex_unlock(&h->lock);
		usleep(100000);
		before = (uint64_t)self_value(c, "sidelight_host_rounds_total", NULL);
		WITHIN(3000, self_value(c, "sidelight_host_rounds_total", NULL) > (double)before);
		pthread_mutex_lock(&h->lock);
		h->directory.hot[7] ^= 1;
		make_entry(&h->directory, 0, 1, 0, p.m.size, 0, SL_STATE_LIVE, SL_REGION_METRICS,
			   7);
		make_cell_set(&p.m, 1, a, 6 + i);
		pthread_mutex_unlock(&h->lock);
		WITHIN(3000, self_value(c, "m62_total", NULL) == 6 + (double)i);
		WITHIN(3000, self_value(c, "sidelight_collector_regions", "\"live\"") == 1);
	}
	sl_collector_free(c);
	make_free(&p.m);
}

/* ---- taps ------------------------------------------------------------------------------------------------ */

struct tapped {
	uint64_t instance, rows, gone, wrong, stale, metrics, last_ns;
	double last[3];
	uint32_t state;
};

static void take_row(void *arg, const struct sl_tap_row *row)
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
		mine->wrong += strcmp(sl_tap_metric(row, 0)->name, "a_total") ||
			       strcmp(sl_tap_metric(row, 1)->name, "level") ||
			       strcmp(sl_tap_metric(row, 2)->name, "h");
		mine->metrics++;
	}
	__atomic_store_n(&mine->rows, mine->rows + 1, __ATOMIC_RELEASE);
}

/* A tap that wants the rows of one pod of the two. */
static bool wants_seven(void *arg, const struct sl_tap_row *row)
{
	uint64_t *wrong = arg;

	*wrong += row->value || row->cell; /* nothing was made yet, as this tap is the first */
	return row->instance == 7;
}

static void take_seven(void *arg, const struct sl_tap_row *row)
{
	uint64_t *wrong = arg, *rows = wrong + 1;

	*wrong += row->instance != 7 || !row->value || !row->cell;
	__atomic_store_n(rows, *rows + 1, __ATOMIC_RELEASE);
}

static void lose_row(void *arg, uint64_t instance, void *own)
{
	struct tapped *mine = own;

	(void)arg;
	mine->wrong += mine->instance != instance;
	__atomic_store_n(&mine->gone, mine->gone + 1, __ATOMIC_RELEASE);
}

static void a_tap_gets_each_pass_and_nan_for_what_did_not_settle(void **state)
{
	static const char *const one[] = {"one"};
	static const double bounds[] = {1, 2};
	struct tapped t[2] = {{.instance = 7}, {.instance = 8}};
	uint64_t picky[2] = {0}; /* wrong, rows */
	struct mock_host *h = mock_host("one", 16);
	struct sl_collector *c;
	struct pod p, q;
	char error[128];
	uint32_t a, g, x;
	uint64_t rows, stale;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	a = counter(&p, "a_total", NULL, NULL);
	g = metric_of(&p, SL_KIND_GAUGE, "level");
	x = make_metric(&p.m, &(struct make_metric){.kind = SL_KIND_HISTOGRAM,
						    .name = "h",
						    .bounds = bounds,
						    .bound_count = 2});
	make_cell_set(&p.m, 1, a, 40);
	make_cell_set(&p.m, 2, a, 2);
	make_cell_set(&p.m, 0, g, (uint64_t)-5);
	make_cell_set(&p.m, 1, x + 2, 3);
	make_cell_set(&p.m, 2, x + 4, 4);
	pod_make(&q, 8, LABELS("pod\0q"));
	counter(&q, "a_total", NULL, NULL);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	put(h, 1, 2, &q, SL_STATE_LIVE);
	c = sl_collector_new(&(struct sl_collector_opts){.agents = one,
							 .agent_count = 1,
							 .period_ns = MS,
							 .workers = 2,
							 .queues = 2},
			     error, sizeof(error));
	assert_non_null(c);
	assert_int_equal(
		sl_collector_tap(
			c, &(struct sl_tap){.row = take_seven, .wants = wants_seven, .arg = picky}),
		0);
	for (unsigned int i = 1; i < SL_TAPS_MAX; i++)
		assert_int_equal(
			sl_collector_tap(c, &(struct sl_tap){.row = take_row,
							     .gone = i > 1 ? NULL : lose_row,
							     .arg = t}),
			0);
	assert_int_equal(sl_collector_tap(c, &(struct sl_tap){.row = take_row}), -ENOSPC);
	assert_int_equal(sl_collector_start(c), 0);
	assert_int_equal(sl_collector_tap(c, &(struct sl_tap){.row = take_row}), -EBUSY);
	for (int i = 0; i < 2; i++)
		WITHIN(3000, __atomic_load_n(&t[i].rows, __ATOMIC_ACQUIRE) > 100);

	/* A line that never verifies: its columns are NaN, the others go on. */
	pthread_mutex_lock(&h->lock);
	make_line(&p.m, 1, a / SL_LINE_CELLS)[7] ^= 1;
	pthread_mutex_unlock(&h->lock);
	WITHIN(3000, GET(t[0].stale) > 100);
	set(h, &q, 1, 0, 99);
	WITHIN(3000, self_value(c, "a_total", "\"q\"") == 99);
	pthread_mutex_lock(&h->lock);
	make_line(&p.m, 1, a / SL_LINE_CELLS)[7] ^= 1;
	pthread_mutex_unlock(&h->lock);
	rows = GET(t[0].rows);
	WITHIN(3000, GET(t[0].rows) > rows + 20);
	stale = GET(t[0].stale);
	rows = GET(t[0].rows);
	WITHIN(3000, GET(t[0].rows) > rows + 20);
	assert_int_equal(GET(t[0].stale), stale);
	assert_int_equal(GET(t[1].stale), 0);

	put(h, 1, 2, &q, SL_STATE_RETIRED);
	WITHIN(3000, __atomic_load_n(&t[1].gone, __ATOMIC_ACQUIRE) == 1);
	assert_int_equal(GET(t[0].gone), 0);
	sl_collector_free(c);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(t[i].wrong, 0);
		assert_int_equal(t[i].gone, 1);
	}
	assert_int_equal(picky[0], 0);
	assert_true(picky[1] > 100);
	assert_true(t[0].metrics > 100);
	assert_true(t[0].last[0] == 42 && t[0].last[1] == -5 && t[0].last[2] == 7);
	assert_true(t[1].last[0] == 99);
	make_free(&p.m);
	make_free(&q.m);
}

/* ---- fetches ---------------------------------------------------------------------------------------------- */

struct fetched {
	unsigned int calls, good;
	int status;		    /* of the last call */
	uint64_t expect;	    /* every word of what comes */
	struct sl_collector *again; /* fetch once more from the callback */
};

static void take_fetched(void *arg, int status, const void *bytes, uint32_t length, int64_t ns)
{
	struct fetched *f = arg;
	struct sl_collector *c = f->again;
	const uint64_t *word = bytes;
	bool good = !status && ns > 0;

	for (uint32_t i = 0; good && i < length / 8; i++)
		good = word[i] == f->expect;
	f->again = NULL;
	if (c && sl_collector_fetch(c, 1000, 4096, 64, take_fetched, f))
		good = false;
	__atomic_store_n(&f->status, status, __ATOMIC_RELAXED);
	__atomic_fetch_add(&f->good, good, __ATOMIC_RELAXED);
	__atomic_fetch_add(&f->calls, 1, __ATOMIC_RELEASE);
}

static unsigned int calls(const struct fetched *f)
{
	return __atomic_load_n(&f->calls, __ATOMIC_ACQUIRE);
}

static void what_is_fetched_comes_from_the_right_region_exactly_once(void **state)
{
	enum { PODS = 8, EACH = 200 };
	struct mock_host *h = mock_host("one", 16);
	static struct pod pod[PODS];
	struct fetched f[PODS] = {0}, last = {0}, held[2] = {0};
	struct sl_collector *c;
	uint64_t offset;

	(void)state;
	for (unsigned int i = 0; i < PODS; i++) {
		pod_make(&pod[i], 1000 + i, LABELS("pod\0p"));
		counter(&pod[i], "a_total", NULL, NULL);
		/* Behind the schema in use: nobody else reads it. */
		offset = pod[i].m.size - 8192;
		for (uint64_t *w = (uint64_t *)(pod[i].m.mem + offset); offset < pod[i].m.size;
		     offset += 8)
			*w++ = f[i].expect = 0x1111111111111111u * (i + 1);
		put(h, i, i + 1, &pod[i], SL_STATE_LIVE);
	}
	offset = pod[0].m.size - 8192;
	h->shuffle = true;
	c = start(&(struct sl_collector_opts){.period_ns = MS,
					      .stale_ns = 200 * MS,
					      .read_timeout_ns = 60000 * MS,
					      .workers = 2,
					      .queues = 2});
	WITHIN(5000, sl_collector_ready(c));
	for (unsigned int k = 0; k < EACH; k++)
		for (unsigned int i = 0; i < PODS; i++)
			assert_int_equal(sl_collector_fetch(c, 1000 + i, offset + k % 64 * 64,
							    64 + k % 8 * 512, take_fetched, &f[i]),
					 0);
	for (unsigned int i = 0; i < PODS; i++) {
		WITHIN(5000, calls(&f[i]) == EACH);
		assert_int_equal(f[i].good, EACH);
	}
	/* The rounds went on, and their values are theirs. */
	assert_true(self_value(c, "a_total", NULL) == 0);

	assert_int_equal(sl_collector_fetch(c, 5, 0, 64, take_fetched, &last), -ENOENT);
	assert_int_equal(sl_collector_fetch(c, 1000, 0, 0, take_fetched, &last), -ERANGE);
	assert_int_equal(sl_collector_fetch(c, 1000, 0, SL_FETCH_MAX + 1, take_fetched, &last),
			 -ERANGE);
	assert_int_equal(calls(&last), 0);
	assert_int_equal(sl_collector_fetch(c, 1000, pod[0].m.size - 32, 64, take_fetched, &last),
			 0);
	WITHIN(1000, calls(&last) == 1);
	assert_int_equal(last.status, -ERANGE);
	assert_int_equal(sl_collector_fetch(c, 1000, UINT64_MAX - 31, 64, take_fetched, &last), 0);
	WITHIN(1000, calls(&last) == 2);
	assert_int_equal(last.status, -ERANGE);
	last.again = c; /* from the callback, too */
	assert_int_equal(sl_collector_fetch(c, 1000, 4096, 64, take_fetched, &last), 0);
	WITHIN(1000, calls(&last) == 4);
	assert_int_equal(last.status, 0);

	/* Of a host that is away, nothing; of one that hangs, nothing until the end. */
	mock_set(h, false);
	WITHIN(1000,
	       mentions(c, "sidelight_host_up{host=\"node-1\",target=\"one\",fabric=\"mock\"} 0"));
	assert_int_equal(sl_collector_fetch(c, 1000, 4096, 64, take_fetched, &last), 0);
	WITHIN(1000, calls(&last) == 5);
	assert_int_equal(last.status, -EAGAIN);
	mock_set(h, true);
	WITHIN(2000, has(c, "a_total{pod=\"p\",host=\"node-1\",process=\"4711\"} 0"));
	pthread_mutex_lock(&h->lock);
	h->hold = true;
	pthread_mutex_unlock(&h->lock);
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(
			sl_collector_fetch(c, 1000 + i % 2, 4096, 64, take_fetched, &held[i % 2]),
			0);
	usleep(20000);
	assert_int_equal(calls(&held[0]) + calls(&held[1]), 0);
	held[0].again = c; /* in vain */
	sl_collector_free(c);
	assert_int_equal(calls(&held[0]) + calls(&held[1]), 100);
	assert_int_equal(held[0].status, -ECANCELED);
	for (unsigned int i = 0; i < PODS; i++)
		make_free(&pod[i].m);
}

/* ---- many threads look while pods come, go and change ---------------------------------------------------- */

struct looker {
	struct sl_collector *c;
	bool stop;
	uint64_t looks;
};

static void see_region(const struct sl_region_view *v, void *arg)
{
	struct sl_point points[200];
	struct looker *l = arg;

	assert_non_null(v->info);
	sl_collector_history(l->c, v->info->instance, 0, 0, points, 200);
	sl_collector_history(l->c, v->info->instance, 1, 0, points, 200);
}

static void see_metric(const struct sl_metric *m, const uint64_t *value, void *arg)
{
	uint64_t *pair = arg;

	(void)m;
	pair[0] = pair[1];
	pair[1] = *value;
}

static void *look(void *arg)
{
	struct looker *l = arg;

	while (!__atomic_load_n(&l->stop, __ATOMIC_RELAXED)) {
		uint64_t pair[2] = {0, 0};

		free(scrape(l->c));
		sl_collector_regions(l->c, see_region, l);
		sl_collector_workers(l->c, see_worker, NULL);
		if (!sl_collector_metrics(l->c, 7, see_metric, pair))
			assert_int_equal(pair[0], pair[1]); /* both were set under one lock */
		__atomic_fetch_add(&l->looks, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void scrapers_and_churn_disturb_nobody(void **state)
{
	enum { PODS = 24, LOOKERS = 3 };
	struct mock_host *h = mock_host("one", 64);
	static struct pod pod[PODS], p;
	struct looker l = {0};
	struct sl_collector_totals t;
	pthread_t thread[LOOKERS];
	struct sl_collector *c;
	uint64_t id = 100, end;
	uint32_t a, b;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	a = counter(&p, "a_total", NULL, NULL);
	b = counter(&p, "b_total", NULL, NULL);
	put(h, 60, 1, &p, SL_STATE_LIVE);
	for (unsigned int i = 0; i < PODS; i++) {
		pod_make(&pod[i], 1000 + i, LABELS("pod\0q"));
		counter(&pod[i], "a_total", NULL, NULL);
	}
	c = start(&(struct sl_collector_opts){.period_ns = MS,
					      .workers = 2,
					      .queues = 2,
					      .history_bytes = 4 << 20,
					      .history_ns = 300 * MS});
	l.c = c;
	for (int i = 0; i < LOOKERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, look, &l), 0);
	end = sl_now_ns() + 2500 * MS;
	for (uint64_t n = 1; sl_now_ns() < end; n++) {
		unsigned int i = (unsigned int)(n % PODS);

		pthread_mutex_lock(&h->lock);
		make_cell_set(&p.m, 1, a, n);
		make_cell_set(&p.m, 1, b, n);
		pthread_mutex_unlock(&h->lock);
		if (n % 5 == 0)
			put(h, i, ++id, &pod[i], SL_STATE_LIVE);
		if (n % 7 == 0)
			put(h, i, id, &pod[i], n % 2 ? SL_STATE_DEAD : SL_STATE_RETIRED);
		if (id > MOCK_REGIONS - 10)
			break;
		usleep(500);
	}
	for (unsigned int i = 0; i < PODS; i++)
		put(h, i, 2, &pod[i], SL_STATE_FREE);
	WITHIN(5000, (sl_collector_totals(c, &t), t.regions == 1));
	__atomic_store_n(&l.stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < LOOKERS; i++)
		pthread_join(thread[i], NULL);
	assert_true(l.looks > 10);
	sl_collector_free(c);
	make_free(&p.m);
	for (unsigned int i = 0; i < PODS; i++)
		make_free(&pod[i].m);
}

/* ------------------------------------------------------------------------------------------------------------ */

#define TEST(name)                             \
	{                                      \
#name, name, NULL, reset, NULL \
	}

int main(int argc, char **argv)
{
	static const struct CMUnitTest all[] = {
		TEST(sums_are_exact),
		TEST(defect_2_completions_in_any_order_reach_their_own_pod),
		TEST(defect_3_a_timeout_shifts_no_value),
		TEST(torn_lines_are_never_shown),
		TEST(a_slow_host_delays_nobody),
		TEST(defect_6_pods_and_metrics_that_come_later_are_seen),
		TEST(the_dead_keep_their_last_words_and_expire_exactly),
		TEST(a_hostile_region_costs_only_its_owner),
		TEST(a_layout_that_never_rests_delays_nobody),
		TEST(names_that_clash_leave_the_exposition_well_formed),
		TEST(conflicts_are_left_out_and_counted),
		TEST(processes_add_up_and_the_expired_stay_in_the_sum),
		TEST(bounds_are_kept_and_counted),
		TEST(no_lease_no_reads),
		TEST(queues_share_a_host_evenly),
		TEST(each_death_has_last_words_of_its_own),
		TEST(a_lying_schema_is_looked_at_ever_more_seldom),
		TEST(a_directory_that_is_none_does_not_keep_the_others_waiting),
		TEST(a_lease_counts_from_when_the_directory_was_asked),
		TEST(a_board_is_not_shown_before_its_lines_were_seen),
		TEST(series_that_were_refused_come_when_there_is_room),
		TEST(an_instance_that_moves_between_links_is_not_lost),
		TEST(a_pass_without_a_lease_holds_up_no_round),
		TEST(what_is_fetched_comes_from_the_right_region_exactly_once),
		TEST(a_tap_gets_each_pass_and_nan_for_what_did_not_settle),
		TEST(scrapers_and_churn_disturb_nobody),
	};

	sl_log_level = SL_ERROR;
	for (size_t i = 0; argc > 1 && i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(all[i].name, argv[1]))
			return _cmocka_run_group_tests(all[i].name, &all[i], 1, NULL, NULL);
	return argc > 1 ? 2 : cmocka_run_group_tests(all, NULL, NULL);
}
