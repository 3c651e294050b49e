// SPDX-License-Identifier: Apache-2.0
/* test_threads.c - counting from many threads, short-lived threads and signal handlers. */
#include <errno.h>
#include <signal.h>
#include <pthread.h>
#include <sched.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#include "support/test.h"
#include "reader.h"

#define THREADS 4

static struct sl_publisher *publisher;
static struct sl_counter counter, second;
static struct sl_counter_f64 sum;
static struct sl_gauge gauge;
static struct sl_gauge_f64 gauge_f64;
static struct sl_histogram histogram;
static struct sl_stateset set;

static void open_with(uint32_t max_threads)
{
	static const char *const states[] = {"a", "b", "c", "d"};

	publisher = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .max_threads = max_threads,
					       .flags = SL_PUBLISHER_DETACHED));
	counter = sl_counter_create(publisher, &SL_OPTS(sl_metric_opts, .name = "counter"));
	second = sl_counter_create(publisher, &SL_OPTS(sl_metric_opts, .name = "second"));
	sum = sl_counter_f64_create(publisher, &SL_OPTS(sl_metric_opts, .name = "sum"));
	gauge = sl_gauge_create(publisher, &SL_OPTS(sl_metric_opts, .name = "gauge"));
	gauge_f64 = sl_gauge_f64_create(publisher, &SL_OPTS(sl_metric_opts, .name = "gauge_f64"));
	histogram = sl_histogram_create(publisher, &SL_OPTS(sl_metric_opts, .name = "histogram"));
	set = sl_stateset_create(publisher, &SL_OPTS(sl_metric_opts, .name = "set",
						     .states = states, .state_count = 4));
	assert_true(sl_counter_valid(counter) && sl_histogram_valid(histogram));
}

static void run(int count, void *(*fn)(void *), void *arg)
{
	pthread_t threads[64];

	for (int i = 0; i < count; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, fn, arg), 0);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static void look(struct reader *r)
{
	assert_int_equal(reader_open(r, sl_publisher_fd(publisher)), REGION_FAULT_NONE);
	assert_int_equal(reader_round(r), REGION_FAULT_NONE);
	assert_int_equal(r->unsettled, 0); /* every check word was correct */
}

static uint64_t histogram_count(const struct reader *r)
{
	const struct region_metric *m = reader_find(r, "histogram", NULL);
	uint64_t n = 0;

	for (uint32_t i = SL_HIST_BUCKETS; i < m->cells; i++)
		n += region_values_u64(&r->values, m->cell + i);
	return n;
}

/* ---- not one lost ---- */

static uint64_t per_thread;

static void *increment(void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < per_thread; i++)
		sl_counter_inc(counter);
	return NULL;
}

static void no_increment_is_lost_across_threads(void **state)
{
	struct reader r;

	(void)state;
	per_thread = (uint64_t)(1e8 * (TEST_SANITIZED ? 0.05 : 1) * test_scale());
	open_with(8);
	run(THREADS, increment, NULL);
	look(&r);
	assert_int_equal(reader_u64(&r, "counter"), THREADS * per_thread);
	assert_int_equal(sl_counter_value(counter), THREADS * per_thread);
	reader_close(&r);
	sl_publisher_close(publisher);
}

static void *update_all(void *arg)
{
	uint64_t n = *(uint64_t *)arg;

	for (uint64_t i = 0; i < n; i++) {
		sl_counter_inc(counter);
		sl_counter_add(second, 3);
		sl_counter_f64_add(sum, 0.5);
		sl_gauge_add(gauge, i % 2 ? -1 : 2);
		sl_gauge_f64_add(gauge_f64, 0.25);
		sl_gauge_set(gauge, sl_gauge_value(gauge));
		sl_gauge_add(gauge, 0);
		sl_histogram_observe(histogram, (double)(i % 1000) + 0.5);
		sl_stateset_set(set, i % 4, i & 4);
	}
	return NULL;
}

static void every_kind_is_exact_for(int threads, uint32_t max_threads)
{
	uint64_t n = (uint64_t)(200000 * (TEST_SANITIZED ? 0.2 : 1) * test_scale()) / 2 * 2;
	struct sl_publisher_stats stats = SL_OPTS(sl_publisher_stats);
	struct reader r;

	open_with(max_threads);
	run(threads, update_all, &n);
	look(&r);
	assert_int_equal(reader_u64(&r, "counter"), n * (uint64_t)threads);
	assert_int_equal(reader_u64(&r, "second"), 3 * n * (uint64_t)threads);
	assert_true(reader_f64(&r, "sum") == 0.5 * (double)n * threads);
	assert_true(sl_gauge_f64_value(gauge_f64) == 0.25 * (double)n * threads);
	assert_int_equal(histogram_count(&r), n * (uint64_t)threads);
	assert_int_equal(sl_publisher_stats(publisher, &stats), 0);
	assert_true(stats.stripes_used <= max_threads + 1);
	assert_int_equal(r.hot.threads_sharing, stats.threads_sharing);
	reader_close(&r);
	sl_publisher_close(publisher);
}

static void every_kind_is_exact_in_own_stripes(void **state)
{
	(void)state;
	every_kind_is_exact_for(THREADS, 8);
}

static void threads_beyond_the_stripes_count_exactly(void **state)
{
	(void)state;
	every_kind_is_exact_for(8, 2);
	every_kind_is_exact_for(6, 1);
}

/* ---- threads that come and go ---- */

static void *count_ten(void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++)
		sl_counter_inc(counter);
	return NULL;
}

static void a_stripe_is_inherited_with_what_it_holds(void **state)
{
	int rounds = TEST_SANITIZED ? 200 : 2000;
	struct sl_publisher_stats stats = SL_OPTS(sl_publisher_stats);

	(void)state;
	open_with(3);
	for (int i = 0; i < rounds; i++)
		run(3, count_ten, NULL);
	assert_int_equal(sl_publisher_stats(publisher, &stats), 0);
	assert_true(stats.stripes_used <= 4);
	assert_int_equal(stats.threads_sharing, 0);
	assert_int_equal(read_u64(sl_publisher_fd(publisher), "counter"), rounds * 30);
	sl_publisher_close(publisher);
}

static pthread_barrier_t meet;

static void *hold_a_stripe(void *arg)
{
	(void)arg;
	sl_counter_inc(counter);
	pthread_barrier_wait(&meet); /* both stripes are in use */
	pthread_barrier_wait(&meet); /* the third has used the shared one */
	return NULL;
}

static void a_sharing_thread_takes_a_freed_stripe(void **state)
{
	struct sl_publisher_stats stats = SL_OPTS(sl_publisher_stats);
	pthread_t a;
	uint32_t sharing;

	(void)state;
	open_with(1);
	pthread_barrier_init(&meet, NULL, 2);
	pthread_create(&a, NULL, hold_a_stripe, NULL);
	pthread_barrier_wait(&meet);
	assert_true(sl__thread.base[counter.bits >> 32] == 0);
	sl_counter_inc(counter);
	assert_true(sl__thread.base[counter.bits >> 32] == 0);
	pthread_barrier_wait(&meet);
	pthread_join(a, NULL);
	sl_counter_inc(counter);
	assert_true(sl__thread.base[counter.bits >> 32] != 0);
	sl_publisher_stats(publisher, &stats);
	sharing = stats.threads_sharing;
	assert_int_equal(sharing, 1);
	assert_int_equal(read_u64(sl_publisher_fd(publisher), "counter"), 3);
	pthread_barrier_destroy(&meet);
	sl_publisher_close(publisher);
}

/*
 * A base is an address minus the slot, and could be 0: this costs time, but not one stripe per
 * update.
 */
static void a_base_of_zero_is_no_other_stripe(void **state)
{
	struct sl_publisher_stats stats = SL_OPTS(sl_publisher_stats);

	(void)state;
	open_with(4);
	sl_counter_inc(counter);
	for (int i = 0; i < 10; i++) {
		sl__thread.base[counter.bits >> 32] = 0;
		sl_counter_inc(counter);
	}
	sl_publisher_stats(publisher, &stats);
	assert_int_equal(stats.stripes_used, 2);
	assert_int_equal(stats.threads_sharing, 0);
	assert_int_equal(read_u64(sl_publisher_fd(publisher), "counter"), 11);
	sl_publisher_close(publisher);
}

static void every_publisher_of_a_process_counts_its_own(void **state)
{
	struct sl_publisher *p[SL_PUBLISHER_SLOTS - 1];
	struct sl_counter c[SL_PUBLISHER_SLOTS - 1];
	struct sl_counter_f64 f[SL_PUBLISHER_SLOTS - 1];
	struct sl_histogram h[SL_PUBLISHER_SLOTS - 1];

	(void)state;
	for (int i = 0; i < (int)SL_PUBLISHER_SLOTS - 1; i++) {
		p[i] = sl_publisher_open(
			&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED));
		assert_non_null(p[i]);
		for (int k = 0; k < i; k++) { /* other cells in each */
			char name[8];

			snprintf(name, sizeof(name), "g%d", k);
			sl_gauge_create(p[i], &SL_OPTS(sl_metric_opts, .name = name));
		}
		c[i] = sl_counter_create(p[i], &SL_OPTS(sl_metric_opts, .name = "c"));
		f[i] = sl_counter_f64_create(p[i], &SL_OPTS(sl_metric_opts, .name = "f"));
		h[i] = sl_histogram_create(p[i], &SL_OPTS(sl_metric_opts, .name = "h"));
	}
	for (int round = 0; round < 10; round++)
		for (int i = 0; i < (int)SL_PUBLISHER_SLOTS - 1; i++) {
			sl_counter_add(c[i], (uint64_t)i + 1);
			sl_counter_f64_add(f[i], i + .5);
			sl_histogram_observe(h[i], i + 1);
		}
	for (int i = 0; i < (int)SL_PUBLISHER_SLOTS - 1; i++) {
		struct reader r;

		assert_int_equal(reader_open(&r, sl_publisher_fd(p[i])), REGION_FAULT_NONE);
		assert_int_equal(reader_round(&r), REGION_FAULT_NONE);
		assert_int_equal(r.unsettled, 0);
		assert_int_equal(r.hot.stripes_used, 2);
		assert_int_equal(reader_u64(&r, "c"), 10 * (i + 1));
		assert_true(reader_f64(&r, "f") == 10 * (i + .5));
		assert_true(reader_f64(&r, "h") == 10 * (i + 1));
		assert_int_equal(sl_histogram_count(h[i]), 10);
		reader_close(&r);
		sl_publisher_close(p[i]);
	}
}

/* A destructor of the application that runs before ours, after it, and in a later round. */
static pthread_key_t early, late;

static void destructor(void *again)
{
	sl_counter_inc(counter);
	sl_counter_f64_add(sum, 1);
	if ((uintptr_t)again > 1)
		pthread_setspecific(late, (void *)((uintptr_t)again - 1));
}

static void *count_and_leave_more_to_do(void *arg)
{
	(void)arg;
	pthread_setspecific(early, (void *)1);
	sl_counter_inc(counter);
	/* TSan forgets a thread in the last round, and then recognises no more calls from it. */
	pthread_setspecific(late, (void *)(TEST_SANITIZED ? 1ul : 10ul));
	return NULL;
}

static void what_destructors_count_is_not_lost(void **state)
{
	struct sl_publisher_stats stats = SL_OPTS(sl_publisher_stats);
	int rounds = TEST_SANITIZED ? 50 : 500;
	uint64_t expected;
	struct reader r;

	(void)state;
	open_with(2);
	pthread_key_create(&early, destructor);
	pthread_key_create(&late, destructor);
	for (int i = 0; i < rounds; i++)
		run(1, count_and_leave_more_to_do, NULL);
	look(&r);
	/* early once, late in each of the 4 rounds of the C library */
	expected = reader_u64(&r, "counter");
	assert_true(expected >= (uint64_t)rounds * (TEST_SANITIZED ? 2 : 3));
	assert_true(reader_f64(&r, "sum") == (double)(expected - (uint64_t)rounds));
	sl_publisher_stats(publisher, &stats);
	assert_true(stats.stripes_used <= 2); /* no stripe was taken by a thread that had ended */
	reader_close(&r);
	pthread_key_delete(early);
	pthread_key_delete(late);
	sl_publisher_close(publisher);
}

static void *open_use_close(void *arg)
{
	(void)arg;
	for (int i = 0; i < 50; i++) {
		struct sl_publisher *p = sl_publisher_open(
			&SL_OPTS(sl_publisher_opts, .flags = i & 1 ? SL_PUBLISHER_DETACHED : 0,
				 .socket = "/nonexistent/agent.sock"));
		struct sl_counter c = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "c"));

		sl_counter_inc(c);
		assert_int_equal(sl_counter_value(c), 1);
		sl_counter_inc(counter);
		sl_publisher_close(p);
	}
	return NULL;
}

static void publishers_come_and_go_beside_each_other(void **state)
{
	(void)state;
	open_with(8);
	run(4, open_use_close, NULL);
	assert_int_equal(read_u64(sl_publisher_fd(publisher), "counter"), 200);
	sl_publisher_close(publisher);
}

static void *create_the_same(void *arg)
{
	struct sl_counter *to = arg;
	char name[16];

	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		sl_counter_inc(
			sl_counter_create(publisher, &SL_OPTS(sl_metric_opts, .name = name)));
	}
	(void)to;
	return NULL;
}

static void metrics_are_made_once_by_many_threads(void **state)
{
	struct sl_publisher_stats stats = SL_OPTS(sl_publisher_stats);
	struct reader r;
	char name[16];

	(void)state;
	open_with(4);
	run(6, create_the_same, NULL);
	look(&r);
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		assert_int_equal(reader_u64(&r, name), 6);
	}
	sl_publisher_stats(publisher, &stats);
	assert_int_equal(stats.metrics, 207);
	reader_close(&r);
	sl_publisher_close(publisher);
}

/* ---- signals ---- */

static _Atomic uint64_t handled;

static void handler(int signal_number)
{
	(void)signal_number;
	sl_counter_inc(counter);
	sl_counter_add(second, 2);
	sl_counter_f64_add(sum, 1);
	sl_histogram_observe(histogram, 1.5);
	sl_gauge_add(gauge, 1);
	sl_gauge_f64_add(gauge_f64, 1);
	handled++;
}

static void counts_in_handlers_are_exact(uint32_t max_threads, bool first_update_in_handler)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
	struct timespec start, now;
	double seconds = 0.4 * test_scale();
	uint64_t n = 0;
	pthread_t other;
	timer_t timer;
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct itimerspec fast = {{0, 20000}, {0, 20000}};
	struct reader r;

	open_with(max_threads);
	if (max_threads == 1) { /* another thread has the only stripe, and runs no handlers */
		sigset_t usr1, before;

		sigemptyset(&usr1);
		sigaddset(&usr1, SIGUSR1);
		pthread_sigmask(SIG_BLOCK, &usr1, &before);
		pthread_barrier_init(&meet, NULL, 2);
		pthread_create(&other, NULL, hold_a_stripe, NULL);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		pthread_barrier_wait(&meet);
	}
	handled = 0;
	sigaction(SIGUSR1, &act, &old);
	if (!first_update_in_handler)
		update_all(&(uint64_t){2});
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	assert_int_equal(timer_settime(timer, 0, &fast, NULL), 0);
	if (!first_update_in_handler)
		n = 2;
	else
		while (!handled)
			usleep(100); /* where TSan runs handlers */
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		uint64_t part = 2000;

		update_all(&part);
		n += part;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)(now.tv_sec - start.tv_sec) +
			 (double)(now.tv_nsec - start.tv_nsec) * 1e-9 <
		 seconds);
	timer_delete(timer);
	signal(SIGUSR1, SIG_IGN);
	sigaction(SIGUSR1, &old, NULL);
	look(&r);
	print_message("%llu handlers in %llu updates\n", (unsigned long long)handled,
		      (unsigned long long)n);
	assert_true(handled > 10);
	assert_int_equal(reader_u64(&r, "counter"), n + handled + (max_threads == 1));
	assert_int_equal(reader_u64(&r, "second"), 3 * n + 2 * handled);
	assert_true(reader_f64(&r, "sum") == 0.5 * (double)n + (double)handled);
	assert_int_equal(histogram_count(&r), n + handled);
	assert_true(sl_gauge_f64_value(gauge_f64) == 0.25 * (double)n + (double)handled);
	reader_close(&r);
	if (max_threads == 1) {
		pthread_barrier_wait(&meet);
		pthread_join(other, NULL);
		pthread_barrier_destroy(&meet);
	}
	sl_publisher_close(publisher);
}

static void a_signal_handler_counts_exactly(void **state)
{
	(void)state;
	counts_in_handlers_are_exact(8, false);
	counts_in_handlers_are_exact(1, false);
	counts_in_handlers_are_exact(8, true);
}

/* Only sums of doubles, so that handlers run between their load and their store. */
static void a_sum_interrupted_by_the_same_sum_loses_nothing(void **state)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct itimerspec fast = {{0, 20000}, {0, 20000}};
	uint64_t n = (uint64_t)(1e8 * (TEST_SANITIZED ? 0.02 : 1));
	struct reader r;
	timer_t timer;

	(void)state;
	open_with(8);
	handled = 0;
	sigaction(SIGUSR1, &act, &old);
	sl_counter_f64_add(sum, 1);
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	assert_int_equal(timer_settime(timer, 0, &fast, NULL), 0);
	for (uint64_t i = 1; i < n; i++)
		sl_counter_f64_add(sum, 1);
	timer_delete(timer);
	signal(SIGUSR1, SIG_IGN);
	sigaction(SIGUSR1, &old, NULL);
	look(&r);
	assert_true(reader_f64(&r, "sum") == (double)(n + handled));
	reader_close(&r);
	sl_publisher_close(publisher);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_increment_is_lost_across_threads),
		cmocka_unit_test(every_kind_is_exact_in_own_stripes),
		cmocka_unit_test(threads_beyond_the_stripes_count_exactly),
		cmocka_unit_test(a_stripe_is_inherited_with_what_it_holds),
		cmocka_unit_test(a_sharing_thread_takes_a_freed_stripe),
		cmocka_unit_test(a_base_of_zero_is_no_other_stripe),
		cmocka_unit_test(every_publisher_of_a_process_counts_its_own),
		cmocka_unit_test(what_destructors_count_is_not_lost),
		cmocka_unit_test(publishers_come_and_go_beside_each_other),
		cmocka_unit_test(metrics_are_made_once_by_many_threads),
		cmocka_unit_test(a_signal_handler_counts_exactly),
		cmocka_unit_test(a_sum_interrupted_by_the_same_sum_loses_nothing),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
