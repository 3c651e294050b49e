// SPDX-License-Identifier: Apache-2.0
/* test_taps.c - a tap receives each pass of the pods that it wants. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "fixture.h"
#undef relaxed_load
#include "collect/read/link.h"

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

	/*
	 * No row was made before, because this is the first tap. Each pod may have its own worker.
	 */
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

/* Pod 7, with values of each kind in two stripes, and pod 8; returns the cell of 7's counter. */
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

const struct CMUnitTest taps_tests[] = {
	TEST(taps_are_bounded_and_set_before_the_start),
	TEST(tap_gets_each_pass_and_nan_if_unsettled),
	{0},
};
