// SPDX-License-Identifier: Apache-2.0
/*
 * test_removal.c - metrics that are removed and replaced while the collector reads: no value of a
 * new metric appears under an old one's name.
 */
#include <errno.h>
#include <string.h>

#include "fixture.h"

#define SECOND (1000 * MS)
#define START  1700000000000000000ull

static const struct make_metric a = {.kind = SL_KIND_COUNTER | SL_KIND_REPLACEABLE,
				     .name = "a_total",
				     .labels = {"k", "old"},
				     .spare = 64},
				b = {.kind = SL_KIND_COUNTER | SL_KIND_REPLACEABLE,
				     .name = "b_total",
				     .labels = {"k", "new"}};

static void removable_pod(struct pod *p, uint64_t instance)
{
	pod_make(p, instance, LABELS("pod\0p"));
	make_created(&p->m, 64);
}

#define LOCKED(statement)                       \
	do {                                    \
		pthread_mutex_lock(&h->lock);   \
		statement;                      \
		pthread_mutex_unlock(&h->lock); \
	} while (0)

static void removed_metrics_are_not_shown(void **state)
{
	struct mock_host *h = mock_host("one", 4);
	struct collect_collector *c;
	struct collect_point points[64];
	struct pod p;
	ssize_t n;

	(void)state;
	removable_pod(&p, 7);
	make_metric(&p.m, &a);
	make_cell_set(&p.m, 1, counter(&p, "stays_total", NULL, NULL), 5);
	make_cell_set(&p.m, 0, 0, 1000);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = MS, .history_bytes = 1 << 20});
	WITHIN(3000, has(c, "a_total{pod=\"p\",host=\"\",process=\"4711\",k=\"old\"} 1000") ||
			     mentions(c, "a_total{"));
	WITHIN(3000, read_history(c, 7, 0, 0, INT64_MAX, points, 64) == 64);
	LOCKED(make_created_set(&p.m, 0, 0));
	WITHIN(3000, !mentions(c, "a_total"));
	assert_true(mentions(c, "stays_total{"));
	assert_int_equal(read_history(c, 7, 0, 0, INT64_MAX, points, 64), -ENOENT);
	/* Another metric takes its place, with a history of its own. */
	LOCKED(make_replace(&p.m, 0, &b, START + 1));
	LOCKED(make_cell_set(&p.m, 2, 0, 7));
	WITHIN(3000, mentions(c, "k=\"new\"} 7\n"));
	assert_false(mentions(c, "a_total"));
	n = read_history(c, 7, 0, 0, INT64_MAX, points, 64);
	assert_true(n > 0);
	for (ssize_t i = 0; i < n; i++)
		assert_true(points[i].value <= 7);
	/* The same metric again. */
	LOCKED(make_created_set(&p.m, 0, 0));
	WITHIN(3000, !mentions(c, "b_total"));
	LOCKED((make_cell_set(&p.m, 2, 0, 1), make_created_set(&p.m, 0, START + 2)));
	WITHIN(3000, mentions(c, "k=\"new\"} 1\n"));
	assert_true(self_value(c, "sidelight_collector_late_passes_total", NULL) == 0);
	collect_collector_free(c);
	make_free(&p.m);
}

/*
 * The READs of a round are held up, between those of the hot line and those of the cells, for
 * longer than it takes to replace a metric.
 */
static void no_new_value_under_an_old_name(void **state)
{
	struct mock_host *h = mock_host("one", 4);
	struct collect_collector *c;
	struct pod p;

	(void)state;
	removable_pod(&p, 7);
	make_metric(&p.m, &a);
	counter(&p, "stays_total", NULL, NULL);
	make_cell_set(&p.m, 0, 0, 1000);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){
		.period_ns = MS, .stale_ns = 60 * SECOND, .read_timeout_ns = 60 * SECOND});
	WITHIN(3000, mentions(c, "k=\"old\"} 1000\n"));
	for (int round = 0; round < 2; round++) {
		const struct make_metric *next = round ? &a : &b;

		/* The READ of the next pass's hot line completes, but not those of its cells. */
		LOCKED(h->hold_cells = true);
		WITHIN(3000, GET(h->cells_held));
		LOCKED(make_created_set(&p.m, 0, 0));
		usleep(SL_REPLACE_NS / 1000);
		LOCKED(make_replace(&p.m, 0, next, START + 1 + (uint64_t)round));
		LOCKED(make_cell_set(&p.m, 0, 0, 5 + (uint64_t)round));
		LOCKED((h->hold_cells = false, h->cells_held = false));
		for (int i = 0; i < 1000; i++) {
			char *text = scrape(c);

			if (strstr(text, round ? "k=\"new\"} 6\n" : "k=\"old\"} 5\n"))
				fail_msg("a new value under an old name: %s", text);
			free(text);
		}
		WITHIN(3000, mentions(c, round ? "k=\"old\"} 6\n" : "k=\"new\"} 5\n"));
		assert_true(self_value(c, "sidelight_collector_late_passes_total", NULL) > round);
	}
	collect_collector_free(c);
	make_free(&p.m);
}

/* If a publisher reports a change every millisecond, its layouts are made at its own cost. */
static void restless_removal_delays_no_other(void **state)
{
	struct mock_host *h = mock_host("one", 4);
	struct collect_collector *c;
	struct pod p, evil;
	uint64_t end, before, reads, rounds;

	(void)state;
	removable_pod(&p, 7);
	removable_pod(&evil, 8);
	make_metric(&p.m, &a);
	make_metric(&evil.m, &b);
	for (int i = 0; i < 60; i++) {
		char name[16];

		snprintf(name, sizeof(name), "m%d", i);
		metric_of(&evil, SL_KIND_GAUGE, name);
	}
	put(h, 0, 1, &p, SL_STATE_LIVE);
	put(h, 1, 2, &evil, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = MS, .history_bytes = 1 << 20});
	WITHIN(3000, mentions(c, "a_total{") && mentions(c, "b_total{"));
	rounds = rounds_of(c, 0);
	before = base_now_ns();
	reads = GET(h->region[2].reads);
	for (end = before + 3 * SECOND;
	     base_now_ns() < end ||
	     (rounds_of(c, 0) - rounds <= 300 && base_now_ns() < end + 100 * SECOND);) {
		LOCKED(make_created_set(&evil.m, 0, base_now_ns() & 1 ? 0 : base_now_ns()));
		usleep(1000);
	}
	rounds = rounds_of(c, 0) - rounds;
	reads = GET(h->region[2].reads) - reads;
	/* Four READs per round, and its schema far less often. */
	assert_true(rounds > 300);
	assert_true(reads < 5 * rounds + 600);
	LOCKED(make_cell_set(&p.m, 0, 0, 99));
	WITHIN(3000, mentions(c, "k=\"old\"} 99\n"));
	collect_collector_free(c);
	make_free(&p.m);
	make_free(&evil.m);
}

const struct CMUnitTest removal_tests[] = {
	TEST(removed_metrics_are_not_shown),
	TEST(no_new_value_under_an_old_name),
	TEST(restless_removal_delays_no_other),
	{0},
};
