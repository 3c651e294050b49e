// SPDX-License-Identifier: Apache-2.0
/*
 * test_span_clock.c - times of spans on a machine whose clocks are those of this program: it can be
 * suspended for an hour in no time.
 */
#include <time.h>

#include "support/test.h"
#include "rings.h"
#include "../../lib/span.h"

#define MS   1000000ull
#define HOUR (3600000 * MS)
#define RATE 3 /* ticks per ns */

static struct {
	uint64_t ticks, monotonic, realtime;
} now = {.ticks = 77777 * MS, .monotonic = 25926 * MS, .realtime = 1700000000000 * MS};

uint64_t fake_counter(void)
{
	return now.ticks;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	const uint64_t ns = clock == CLOCK_REALTIME ? now.realtime : now.monotonic;

	*t = (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
	return 0;
}

static void run_for(uint64_t ns)
{
	now.ticks += ns * RATE;
	now.monotonic += ns;
	now.realtime += ns;
}

/* CLOCK_MONOTONIC stops; the counter runs on (s2idle, a paused guest), or restarts (S3). */
static void suspend_for(uint64_t ns, bool restarts)
{
	now.ticks = restarts ? 5 * MS : now.ticks + ns * RATE;
	now.realtime += ns;
}

struct newest {
	struct region_span_data span;
	uint64_t number;
};

static void take_newest(const struct region_span_data *d, uint64_t number, uint32_t lines,
			void *arg)
{
	struct newest *n = arg;

	(void)lines;
	if (number >= n->number)
		*n = (struct newest){*d, number};
}

static struct newest newest_span(struct sl_publisher *p)
{
	struct newest n = {0};
	struct reader r;

	assert_int_equal(reader_open(&r, sl_publisher_fd(p)), REGION_FAULT_NONE);
	assert_int_equal(reader_round(&r), REGION_FAULT_NONE);
	for (uint32_t i = 0; i < r.hot.stripes_used; i++)
		ring_read(&r, i, copy_in_order, take_newest, &n);
	reader_close(&r);
	return n;
}

/* A span of 10 ms, with the time and duration that this machine's clocks say. */
static void assert_good_span(struct sl_publisher *p, struct sl_span_name name)
{
	const uint64_t began = now.realtime;
	struct newest n;
	struct sl_span span;

	sl_span_start(&span, name, SL_SPAN_INTERNAL, NULL);
	run_for(10 * MS);
	sl_span_end(&span);
	n = newest_span(p);
	assert_in_range(n.span.start_ns, began - MS, began + MS);
	assert_in_range(n.span.duration_ns, 9 * MS, 11 * MS);
}

static void assert_good_seconds(struct sl_publisher *p, struct sl_span_name name)
{
	for (int i = 0; i < 30; i++) {
		assert_good_span(p, name);
		run_for(90 * MS);
	}
}

static struct sl_publisher *publisher_up(struct sl_span_name *name)
{
	struct sl_publisher *p = sl_publisher_open(
		&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED, .service = "a",
			 .span_bytes = 64u << 10, .max_threads = 2));

	assert_non_null(p);
	*name = sl_span_name_create(p, "n");
	return p;
}

static void uses_counter(void)
{
	/* This processor or kernel has none, so all times are those of the kernel's clock. */
	if (sl__clock_state.source != SL__CLOCK_TICKS)
		skip();
}

/* Must be the first test: the counter's rate has not been measured yet. */
static void a_suspension_is_not_the_first_measurement(void **state)
{
	struct sl_span_name name;
	struct sl_publisher *p = publisher_up(&name);

	(void)state;
	run_for(500 * MS);
	suspend_for(HOUR, false);
	assert_good_seconds(p, name);
	sl_publisher_close(p);
	uses_counter();
}

static void spans_are_right_after_a_suspension(void **state)
{
	struct sl_span_name name;
	struct sl_publisher *p = publisher_up(&name);

	(void)state;
	uses_counter();
	for (int i = 0; i < 4; i++) {
		assert_good_seconds(p, name);
		suspend_for(HOUR, i % 2);
	}
	assert_good_seconds(p, name);
	assert_int_equal(sl__clock_state.source, SL__CLOCK_TICKS);
	sl_publisher_close(p);
}

/* Its start is no longer known, but it is not in the future. */
static void a_span_across_a_suspension_is_not_in_the_future(void **state)
{
	struct sl_span_name name;
	struct sl_publisher *p = publisher_up(&name);
	struct sl_span span;

	(void)state;
	uses_counter();
	assert_good_seconds(p, name);
	for (int restarts = 0; restarts < 2; restarts++) {
		sl_span_start(&span, name, SL_SPAN_INTERNAL, NULL);
		run_for(10 * MS);
		suspend_for(HOUR, restarts);
		sl_span_end(&span);
		assert_true(newest_span(p).span.start_ns <= now.realtime);
		assert_good_seconds(p, name);
	}
	sl_publisher_close(p);
}

/* Must be the last test: a guest that migrates to another host uses the kernel's clock then. */
static void a_counter_whose_rate_changes_is_not_used_again(void **state)
{
	struct sl_span_name name;
	struct sl_publisher *p = publisher_up(&name);

	(void)state;
	uses_counter();
	assert_good_seconds(p, name);
	for (int i = 0; i < 30; i++) {
		struct sl_span span;

		sl_span_start(&span, name, SL_SPAN_INTERNAL, NULL);
		sl_span_end(&span);
		run_for(100 * MS);
		now.ticks += 100 * MS;
	}
	assert_int_equal(sl__clock_state.source, SL__CLOCK_REALTIME);
	assert_good_seconds(p, name);
	sl_publisher_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_suspension_is_not_the_first_measurement),
		cmocka_unit_test(spans_are_right_after_a_suspension),
		cmocka_unit_test(a_span_across_a_suspension_is_not_in_the_future),
		cmocka_unit_test(a_counter_whose_rate_changes_is_not_used_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
