// SPDX-License-Identifier: Apache-2.0
/*
 * test_lives.c - the collector with simulated hosts: hosts, pods and leases appear, vanish, move
 * and die.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "collect/read/collector_internal.h"
#include "collect/read/past.h"

static void slow_host_delays_no_other(void **state)
{
	static const char *const both[] = {"one", "two"};
	struct mock_host *h = mock_host("one", 16), *g = mock_host("two", 16);
	struct collect_collector *c;
	struct pod p, q;
	uint64_t before;
	uint32_t b;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	pod_make(&q, 8, LABELS("pod\0q"));
	counter(&p, "a_total", NULL, NULL);
	b = counter(&q, "b_total", NULL, NULL);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	put(g, 0, 1, &q, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.agents = both,
						   .agent_count = 2,
						   .period_ns = 5 * MS,
						   .stale_ns = 300 * MS,
						   .read_timeout_ns = 60000 * MS});
	WITHIN(5000, collect_collector_ready(c));
	pthread_mutex_lock(&h->lock);
	h->hold = true;
	pthread_mutex_unlock(&h->lock);
	/*
	 * A READ of the held host times out after a minute: a round that waited for it would take
	 * as long.
	 */
	before = rounds_of(c, 0);
	WITHIN(3000, rounds_of(c, 0) > before + 50);
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
	collect_collector_free(c);
	make_free(&p.m);
	make_free(&q.m);
}

/*
 * Rows are passed on in order, after the clock was read: none is added to a time that was reported
 * as complete.
 */
static void no_row_comes_late_into_history(void **state)
{
	struct mock_host *h = mock_host("one", 64);
	static struct collect_point points[4000];
	struct collect_collector *c;
	struct pod p[40];
	uint32_t told = 0;

	(void)state;
	for (uint32_t i = 0; i < 40; i++) {
		char labels[16] = "pod";

		snprintf(labels + 4, sizeof(labels) - 4, "p%u", i);
		pod_make(&p[i], 100 + i, labels, 4 + strlen(labels + 4) + 1);
		for (int k = 0; k < 20; k++) {
			char name[16];

			snprintf(name, sizeof(name), "c%d_total", k);
			counter(&p[i], name, NULL, NULL);
		}
		put(h, i, 1 + i, &p[i], SL_STATE_LIVE);
	}
	c = start(&(struct collect_collector_opts){.period_ns = MS, .history_bytes = 64 << 20});
	WITHIN(3000, read_history(c, 139, 0, 0, INT64_MAX, points, 4000) > 100);
	for (int i = 0; i < 20000 && told < 2000; i++) {
		int64_t t = collect_collector_shown(c), from = t - 20 * (int64_t)MS;
		ssize_t n;

		if (!t) { /* the worker was preempted while it read the clock */
			usleep(500);
			continue;
		}
		told++;
		n = read_history(c, 139, 0, from, t, points, 4000);
		usleep(500);
		assert_int_equal(read_history(c, 139, 0, from, t, points, 4000), n);
	}
	assert_true(told > 1000);
	collect_collector_free(c);
	for (uint32_t i = 0; i < 40; i++)
		make_free(&p[i].m);
}

/* Pods and metrics that appear later (MicroView's defect 6), and a restart of the agent. */
static void sees_late_pods_and_metrics(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct collect_point points[4000];
	struct collect_collector *c;
	struct pod p, q;
	uint32_t a, b;
	ssize_t n, m;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	pod_make(&q, 8, LABELS("pod\0q"));
	a = counter(&p, "a_total", NULL, NULL);
	counter(&q, "a_total", NULL, NULL);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = MS, .history_bytes = 8 << 20});
	WITHIN(3000, collect_collector_ready(c));
	put(h, 1, 2, &q, SL_STATE_LIVE);
	WITHIN(2000, has(c, "a_total{pod=\"q\",host=\"node-1\",process=\"4711\"} 0"));
	pthread_mutex_lock(&h->lock);
	b = counter(&p, "late_total", "k", "v");
	make_cell_set(&p.m, 2, b, 77);
	pthread_mutex_unlock(&h->lock);
	WITHIN(2000, has(c, "late_total{pod=\"p\",host=\"node-1\",process=\"4711\",k=\"v\"} 77"));
	set(h, &p, 1, a, 5);
	WITHIN(2000, has(c, "a_total{pod=\"p\",host=\"node-1\",process=\"4711\"} 5"));
	n = read_history(c, 7, 0, 0, INT64_MAX, points, 4000);
	assert_true(n > 5);
	assert_int_equal(points[n - 1].value, 5);
	for (ssize_t i = 1; i < n; i++)
		assert_true(points[i].ns > points[i - 1].ns &&
			    points[i].value >= points[i - 1].value);
	/* A part of the history, however it is packed, has the same points. */
	WITHIN(3000, (n = read_history(c, 7, 0, 0, INT64_MAX, points, 4000)) > 300);
	for (int i = 0; i < 20; i++) {
		static struct collect_point part[4000];
		int64_t first = i * 7, last = n - 1 - i * 5;

		m = read_history(c, 7, 0, points[first].ns, points[last].ns, part, 4000);
		assert_int_equal(m, last - first + 1);
		for (ssize_t k = 0; k < m; k++)
			assert_int_equal(part[k].ns, points[first + k].ns);
		assert_int_equal(read_history(c, 7, 0, 0, points[last].ns, part, 1), 1);
		assert_int_equal(part[0].ns, points[last].ns);
	}
	assert_int_equal(read_history(c, 7, 99, 0, INT64_MAX, points, 4000), -ENOENT);
	assert_int_equal(read_history(c, 9, 0, 0, INT64_MAX, points, 4000), -ENOENT);

	/* The same region under another id: series and history go on. */
	mock_restart(h);
	put(h, 5, 40, &p, SL_STATE_LIVE);
	set(h, &p, 1, a, 6);
	WITHIN(3000, has(c, "a_total{pod=\"p\",host=\"node-1\",process=\"4711\"} 6"));
	m = read_history(c, 7, 0, 0, INT64_MAX, points, 4000);
	assert_true(m > n);
	for (ssize_t i = 1; i < m; i++)
		assert_true(points[i].ns > points[i - 1].ns &&
			    points[i].value >= points[i - 1].value);
	collect_collector_free(c);
	make_free(&p.m);
	make_free(&q.m);
}

static void dead_pods_keep_last_values_until_expiry(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector_totals t;
	struct collect_collector *c;
	struct pod p;
	uint64_t reads;
	uint32_t a;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	a = counter(&p, "a_total", NULL, NULL);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){
		.period_ns = MS, .stale_ns = 200 * MS, .region_series = true});
	WITHIN(3000, collect_collector_ready(c));
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
	WITHIN(1000, (collect_collector_totals(c, &t), t.regions == 0 && t.expired == 1));
	WITHIN(1000, GET(h->unmaps) == GET(h->maps));
	assert_int_equal(GET(h->region[1].reads), 0); /* mock_put() started to count anew */
	collect_collector_free(c);
	make_free(&p.m);
}

static void reads_nothing_without_a_lease(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p;
	uint64_t reads;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	counter(&p, "a_total", NULL, NULL);
	make_set(h->directory.hot, SL_DIR_LEASE_NS, 100 * MS);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(3000, collect_collector_ready(c));
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
	collect_collector_free(c);
	make_free(&p.m);
}

static void queues_share_a_host_evenly(void **state)
{
	enum { PODS = 64 };
	struct mock_host *h = mock_host("one", 128);
	static struct pod pod[PODS];
	struct collect_collector_totals t;
	struct collect_collector *c;

	(void)state;
	for (unsigned int i = 0; i < PODS; i++) {
		pod_make(&pod[i], 1000 + i * 7919, LABELS("pod\0p"));
		pod[i].m.header->pid = 100 + i;
		make_header_check(&pod[i].m);
		make_cell_set(&pod[i].m, 1, counter(&pod[i], "a_total", NULL, NULL), i);
		put(h, i, i + 1, &pod[i], SL_STATE_LIVE);
	}
	c = start(&(struct collect_collector_opts){.period_ns = 2 * MS, .workers = 4, .queues = 4});
	WITHIN(5000, collect_collector_ready(c));
	collect_collector_workers(c, see_worker, NULL);
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
	WITHIN(3000, (collect_collector_totals(c, &t), t.regions == 0));
	collect_collector_free(c);
	for (unsigned int i = 0; i < PODS; i++)
		make_free(&pod[i].m);
}

static void each_death_has_its_own_last_values(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p;
	uint64_t pass, before;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	counter(&p, "a_total", NULL, NULL);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = 200 * MS});
	WITHIN(3000, mentions(c, "\na_total{"));
	before = reads_of(h, 1);
	WITHIN(3000, reads_of(h, 1) > before);
	before = reads_of(h, 1);
	WITHIN(3000, reads_of(h, 1) > before);
	pass = reads_of(h, 1) - before;
	for (int death = 0; death < 2; death++) {
		/*
		 * A pass that began before the death was noticed is not final, so two passes
		 * follow.
		 */
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
	collect_collector_free(c);
	make_free(&p.m);
}

static void lease_counts_from_the_directory_read(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	counter(&p, "a_total", NULL, NULL);
	make_set(h->directory.hot, SL_DIR_LEASE_NS, 300 * MS);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = 20 * MS,
						   .read_timeout_ns = 60000 * MS});
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
	/* Measured by the mock's clock, with twice the lease of an agent. */
	assert_int_equal(GET(h->late_reads), 0);
	collect_collector_free(c);
	make_free(&p.m);
}

/*
 * An instance moves to another entry, and the link that had it leaves it to a link that has fewer.
 */
static void instance_moving_between_links_is_kept(void **state)
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
		struct collect_collector_totals t;
		struct collect_collector *c;

		for (unsigned int i = 0; i < PODS; i++)
			put(h, i, i + 1, &pod[i], SL_STATE_LIVE);
		/* Busy: it is open which of the two looks first. */
		c = start(&(struct collect_collector_opts){.workers = 2, .queues = 2});
		WITHIN(3000, (collect_collector_totals(c, &t), t.regions == PODS));
		/* Removes the regions of one link, and moves those of the other. */
		for (unsigned int i = 1; i < PODS; i += 2)
			put(h, i, i + 1, &pod[i], SL_STATE_RETIRED);
		WITHIN(3000, (collect_collector_totals(c, &t), t.regions == PODS / 2));
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
		collect_collector_free(c);
		mock_reset();
	}
	for (unsigned int i = 0; i < PODS; i++)
		make_free(&pod[i].m);
}

/*
 * A pass that waits for room when the lease ends, in a round or outside of the rounds. The landing
 * memory is smaller than a pass, and the host falls silent in the middle of it.
 */
static void pass_without_lease_delays_no_round(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
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
	c = start(&(struct collect_collector_opts){
		.period_ns = 100 * MS, .fabric.buffer_bytes = 8192, .read_timeout_ns = 60000 * MS});
	WITHIN(3000, self_value(c, "m62_total", NULL) == 5);
	before = reads_of(h, 1);
	WITHIN(3000, reads_of(h, 1) > before + 150); /* more than three passes */
	pass = GET(h->region[1].pass);
	assert_in_range(pass, 33, 40);
	for (uint64_t i = 0; i < 4; i++) {
		/* After a death, the round's pass comes first, then an urgent one. */
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
	collect_collector_free(c);
	make_free(&p.m);
}

struct looker {
	struct collect_collector *c;
	bool stop;
	uint64_t looks;
};

static void see_region(const struct collect_region_view *v, void *arg)
{
	struct collect_point points[200];
	struct looker *l = arg;

	assert_non_null(v->info);
	read_history(l->c, v->info->instance, 0, 0, INT64_MAX, points, 200);
	read_history(l->c, v->info->instance, 1, 0, INT64_MAX, points, 200);
}

static void see_metric(const struct region_metric *m, const uint64_t *value, void *arg)
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
		collect_collector_regions(l->c, see_region, l);
		collect_collector_workers(l->c, see_worker, NULL);
		if (!collect_collector_metrics(l->c, 7, see_metric, pair, NULL))
			assert_int_equal(pair[0], pair[1]); /* both were set under one lock */
		__atomic_fetch_add(&l->looks, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void scrapes_and_churn_disturb_no_round(void **state)
{
	enum { PODS = 24, LOOKERS = 3 };
	struct mock_host *h = mock_host("one", 64);
	static struct pod pod[PODS], p;
	struct looker l = {0};
	struct collect_collector_totals t;
	pthread_t thread[LOOKERS];
	struct collect_collector *c;
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
	c = start(&(struct collect_collector_opts){.period_ns = MS,
						   .workers = 2,
						   .queues = 2,
						   .history_bytes = 4 << 20,
						   .history_ns = 300 * MS});
	l.c = c;
	for (int i = 0; i < LOOKERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, look, &l), 0);
	end = base_now_ns() + 2500 * MS;
	for (uint64_t n = 1; base_now_ns() < end; n++) {
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
	WITHIN(5000, (collect_collector_totals(c, &t), t.regions == 1));
	__atomic_store_n(&l.stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < LOOKERS; i++)
		pthread_join(thread[i], NULL);
	assert_true(l.looks > 10);
	collect_collector_free(c);
	make_free(&p.m);
	for (unsigned int i = 0; i < PODS; i++)
		make_free(&pod[i].m);
}

/* The publisher keeps running, so its counts must not be added to its earlier ones. */
static void regions_of_a_host_that_leaves_are_removed(void **state)
{
	static const char *const none[] = {NULL};
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector_totals t;
	struct collect_collector *c;
	struct pod p;
	uint32_t a;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	a = counter(&p, "a_total", NULL, NULL);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.agents = none,
						   .spare_hosts = 1,
						   .period_ns = MS,
						   .unwanted_ns = 50 * MS,
						   .sum_processes = true});
	assert_int_equal(collect_collector_add_host(c, "one"), 0);
	for (uint64_t count = 5; count < 8; count++) {
		set(h, &p, 1, a, count);
		collect_collector_want_host(c, 0, true);
		WITHIN(3000, self_value(c, "a_total", NULL) == (double)count);
		collect_collector_totals(c, &t);
		assert_int_equal(t.regions, 1);
		collect_collector_want_host(c, 0, false);
		WITHIN(3000, (collect_collector_totals(c, &t), t.regions == 0));
		WITHIN(3000, GET(h->unmaps) == GET(h->maps));
		WITHIN(3000, !GET(h->open));
	}
	collect_collector_free(c);
	make_free(&p.m);
}

static void a_host_that_leaves_is_disconnected(void **state)
{
	static const char *const none[] = {NULL};
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;
	struct pod p;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	put(h, 0, 1, &p, SL_STATE_LIVE);
	h->region[1].no_map = true; /* mapping it is tried again and again */
	c = start(&(struct collect_collector_opts){
		.agents = none, .spare_hosts = 1, .period_ns = MS, .unwanted_ns = 50 * MS});
	assert_int_equal(collect_collector_add_host(c, "one"), 0);
	for (int i = 0; i < 2; i++) {
		uint64_t maps = GET(h->maps);

		collect_collector_want_host(c, 0, true);
		WITHIN(3000, GET(h->maps) > maps);
		collect_collector_want_host(c, 0, false);
		WITHIN(3000, !GET(h->open));
	}
	collect_collector_free(c);
	make_free(&p.m);
}

/* Passes a row of a histogram that has n observations so far. */
static void observe(struct collect_collector *c, void **own, int64_t second, uint64_t n)
{
	static const double bounds[] = {1};
	static const struct region_info info = {.kind = SL_REGION_METRICS, .start_ns = 1};
	static struct collect_def def = {.metric = {.kind = SL_KIND_HISTOGRAM,
						    .name = "latency",
						    .cells = SL_HIST_BUCKETS + 2,
						    .bounds = bounds,
						    .bound_count = 1,
						    .bucket_count = 2}};
	static struct collect_column column = {.def = &def};
	static const struct collect_layout shape = {
		.columns = 1, .cells = SL_HIST_BUCKETS + 2, .column = &column};
	const uint64_t cell[SL_HIST_BUCKETS + 2] = {[SL_HIST_BUCKETS] = n};
	const double value = (double)n;
	const struct collect_tap_row row = {.instance = 7,
					    .info = &info,
					    .state = SL_STATE_LIVE,
					    .layout = 1,
					    .shape = &shape,
					    .columns = 1,
					    .value = &value,
					    .cell = cell,
					    .ns = second * 1000000000,
					    .own = own};

	c->tap[0].row(c->tap[0].arg, &row);
}

static bool add_up(void *arg, int64_t ns, const struct collect_bucket *v, size_t n)
{
	(void)ns;
	for (size_t i = 0; i < n; i++)
		*(uint64_t *)arg += v[i].count;
	return true;
}

/* The host of a pod leaves and returns twice. */
static void each_life_has_its_own_observations(void **state)
{
	static const uint64_t counts[][2] = {{1, 6}, {10, 13}, {20, 29}};
	struct collect_collector *c = calloc(1, sizeof(*c));
	struct collect_past *past;
	struct collect_point point;
	struct collect_life life[8];
	void *own = NULL;

	(void)state;
	assert_non_null(c);
	past = collect_past_new(c, 1 << 20);
	assert_non_null(past);
	for (int i = 0; i < 3; i++) {
		own = NULL;
		observe(c, &own, 1000 * (i + 1), counts[i][0]); /* from before: not counted */
		observe(c, &own, 1000 * (i + 1) + 1, counts[i][1]);
		if (i < 2)
			c->tap[0].gone(c->tap[0].arg, 7, own);
	}
	for (int i = 0; i < 3; i++) {
		const struct collect_series_ref of = {
			.instance = 7,
			.part = COLLECT_PART_BUCKETS,
			.buckets = 2,
			.ended_ns = i < 2 ? (1000 * (i + 1) + 2) * 1000000000ll : 0,
		};
		uint64_t sum = 0;

		assert_int_equal(collect_collector_observed(c, &of, 0, INT64_MAX, add_up, &sum), 1);
		assert_int_equal(sum, counts[i][1] - counts[i][0]);
		assert_int_equal(collect_past_totals(past, &of, 0, INT64_MAX, &point, 1, NULL), 1);
		assert_true(point.value == (double)counts[i][1]);
	}
	/* The pod has started only once. */
	assert_int_equal(collect_collector_lives(c, life, 8), 1);
	assert_int_equal(life[0].kind, COLLECT_LIFE_START);
	c->tap[0].gone(c->tap[0].arg, 7, own);
	collect_past_free(past);
	free(c);
}

static void copy_view(const struct collect_host_view *v, void *arg)
{
	*(struct collect_host_view *)arg = *v;
}

static bool says(struct collect_collector *c, const char *error)
{
	struct collect_host_view v;

	collect_collector_hosts(c, copy_view, &v);
	return !strcmp(v.stats.last_error, error);
}

static void a_healthy_host_has_no_old_error(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct collect_collector *c;

	(void)state;
	h->error = "region 7: refused";
	h->error_ns = base_now_ns();
	c = start(&(struct collect_collector_opts){.period_ns = 5 * MS, .stale_ns = 300 * MS});
	WITHIN(5000, collect_collector_ready(c));
	WITHIN(5000, says(c, "region 7: refused"));
	pthread_mutex_lock(&h->lock);
	h->error_ns -= 61000 * MS;
	pthread_mutex_unlock(&h->lock);
	WITHIN(5000, says(c, ""));
	mock_set(h, false);
	WITHIN(5000, says(c, "region 7: refused"));
	collect_collector_free(c);
}

const struct CMUnitTest lives_tests[] = {
	TEST(a_healthy_host_has_no_old_error),
	TEST(slow_host_delays_no_other),
	TEST(sees_late_pods_and_metrics),
	TEST(no_row_comes_late_into_history),
	TEST(dead_pods_keep_last_values_until_expiry),
	TEST(reads_nothing_without_a_lease),
	TEST(queues_share_a_host_evenly),
	TEST(each_death_has_its_own_last_values),
	TEST(lease_counts_from_the_directory_read),
	TEST(instance_moving_between_links_is_kept),
	TEST(pass_without_lease_delays_no_round),
	TEST(scrapes_and_churn_disturb_no_round),
	TEST(regions_of_a_host_that_leaves_are_removed),
	TEST(a_host_that_leaves_is_disconnected),
	TEST(each_life_has_its_own_observations),
	{0},
};
