// SPDX-License-Identifier: Apache-2.0
/*
 * test_span_threads.c - threads with their own rings and threads that share ring 0, while a reader
 * reads continuously.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "support/test.h"
#include "rings.h"

#define THREADS 5 /* two rings: at least three of them share */

static struct made names;
static uint64_t spans_each;
static atomic_uint running;
static pthread_barrier_t all_there;

static void *work(void *arg)
{
	uint64_t first = (uint64_t)(uintptr_t)arg << 32;

	make_span(&names, first);
	pthread_barrier_wait(&all_there); /* so that no thread inherits another's ring */
	for (uint64_t i = 1; i < spans_each; i++)
		make_span(&names, first + i);
	atomic_fetch_sub(&running, 1);
	return NULL;
}

static void count_bad(const struct region_span_data *d, uint64_t number, uint32_t lines, void *arg)
{
	(void)number, (void)lines;
	*(uint64_t *)arg += !span_is_made(d);
}

static void no_span_is_torn_or_lost_under_threads(void **state)
{
	struct sl_publisher *p =
		sl_publisher_open(&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED,
					   .max_threads = 2, .span_bytes = 32u << 10));
	struct region_span_head before[3] = {0};
	uint64_t good = 0, bad = 0, spans = 0;
	pthread_t t[THREADS];
	struct reader r;

	(void)state;
	spans_each = (uint64_t)((TEST_SANITIZED ? 20000 : 200000) * test_scale());
	names = made_names(p);
	running = THREADS;
	pthread_barrier_init(&all_there, NULL, THREADS);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, work, (void *)i), 0);
	assert_int_equal(reader_open(&r, sl_publisher_fd(p)), REGION_FAULT_NONE);
	while (running) {
		for (uint32_t ring = 0; ring < 3; ring++) {
			struct ring_tally tally = ring_read(&r, ring, copy_in_order, count_bad,
							    &bad);

			good += tally.good;
			assert_int_equal(tally.lies, 0);
			if (!tally.head_settled)
				continue;
			assert_int_equal(region_span_head_follows(&before[ring], &tally.head), 0);
			before[ring] = tally.head;
		}
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (uint32_t ring = 0; ring < 3; ring++) {
		struct ring_tally tally = ring_read(&r, ring, copy_in_order, count_bad, &bad);

		assert_true(tally.head_settled);
		assert_int_equal(tally.lies, 0);
		/* In ring 0, a writer that was overtaken by a whole wrap may have been last. */
		assert_true(!ring || !(tally.unsettled + tally.late + tally.early));
		spans += tally.head.spans;
		good += tally.good;
	}
	print_message("%llu spans believed\n", (unsigned long long)good);
	assert_int_equal(bad, 0);
	assert_true(good > 100);
	assert_true(spans == THREADS * spans_each);
	reader_close(&r);
	sl_publisher_close(p);
}

/* The next thread gets a ring with its contents, and the numbers continue. */
static void *one(void *arg)
{
	make_span(&names, (uint64_t)(uintptr_t)arg);
	return NULL;
}

static void a_ring_is_handed_on(void **state)
{
	struct sl_publisher *p =
		sl_publisher_open(&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED,
					   .max_threads = 2, .span_bytes = 32u << 10));
	struct ring_tally tally;
	uint64_t bad = 0;
	struct reader r;

	(void)state;
	names = made_names(p);
	for (uintptr_t i = 0; i < 50; i++) {
		pthread_t t;

		assert_int_equal(pthread_create(&t, NULL, one, (void *)i), 0);
		pthread_join(t, NULL);
	}
	assert_int_equal(reader_open(&r, sl_publisher_fd(p)), REGION_FAULT_NONE);
	tally = ring_read(&r, 1, copy_in_order, count_bad, &bad);
	assert_int_equal(tally.head.spans, 50);
	assert_int_equal(tally.good, 50);
	assert_int_equal(bad, 0);
	reader_close(&r);
	sl_publisher_close(p);
}

static atomic_bool stop;

static void *churn(void *has_ring)
{
	struct sl_span span;

	do {
		sl_span_start(&span, names.name, SL_SPAN_INTERNAL, NULL);
		sl_span_end(&span);
		atomic_store((atomic_bool *)has_ring, true);
	} while (!atomic_load(&stop));
	return NULL;
}

/* A span that is started here ends there; the ids of all threads differ. */
static struct sl_span passed[64];

static void *end_them(void *arg)
{
	(void)arg;
	for (int i = 0; i < 64; i++)
		sl_span_end(&passed[i]);
	return NULL;
}

static void a_span_may_end_in_another_thread(void **state)
{
	struct sl_publisher *p =
		sl_publisher_open(&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED,
					   .max_threads = 4, .span_bytes = 32u << 10));
	struct ring_tally tally;
	atomic_bool has_ring = false;
	pthread_t other, t;
	struct reader r;

	(void)state;
	names = made_names(p);
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&other, NULL, churn, &has_ring), 0);
	while (!atomic_load(&has_ring)) /* otherwise it might inherit the ring of the 64 */
		sched_yield();
	sl_counter_inc(sl_counter_create(
		p, &SL_OPTS(sl_metric_opts, .name = "mine"))); /* a stripe, and no span */
	for (int i = 0; i < 64; i++)
		sl_span_start(&passed[i], names.name, SL_SPAN_INTERNAL, NULL);
	assert_int_equal(pthread_create(&t, NULL, end_them, NULL), 0);
	pthread_join(t, NULL);
	atomic_store(&stop, true);
	pthread_join(other, NULL);
	assert_int_equal(reader_open(&r, sl_publisher_fd(p)), REGION_FAULT_NONE);
	for (uint32_t ring = 0, found = 0; ring < 5; ring++) {
		tally = ring_read(&r, ring, copy_in_order, NULL, NULL);
		found += tally.head.spans == 64 && tally.good == 64;
		assert_true(ring < 4 || found == 1);
	}
	reader_close(&r);
	sl_publisher_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_span_is_torn_or_lost_under_threads),
		cmocka_unit_test(a_ring_is_handed_on),
		cmocka_unit_test(a_span_may_end_in_another_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
