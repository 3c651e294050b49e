// SPDX-License-Identifier: Apache-2.0
/*
 * publish_all [SOCKET]: publishes metrics of every kind from several threads, prints "ready FD" and
 * stops updating; after a line on standard input it counts at full speed until the next line, then
 * stops, and prints "done". For tests that read it from outside.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <sidelight/sidelight.h>

#define THREADS 4

static struct sl_counter counter, labelled[20];
static struct sl_counter_f64 seconds;
static struct sl_gauge gauge, negative;
static struct sl_gauge_f64 gauge_f64, infinite, none;
static struct sl_histogram exponential, coarse, classic;
static struct sl_stateset states;
static atomic_bool stop;
static pthread_barrier_t all_there; /* so that no thread inherits another's stripe */

static struct sl_metric_opts opts(const char *name, const char *help, const char *unit)
{
	return SL_OPTS(sl_metric_opts, .name = name, .help = help, .unit = unit);
}

static void create(struct sl_publisher *p)
{
	static const double bounds[] = {0.005, 0.01, 0.1, 1, 10};
	static const char *const phases[] = {"starting", "running \xe2\x9c\x93", "stopping"};
	struct sl_metric_opts o = opts("requests_total", "Requests \xe2\x80\x93 all\nof \"them\"",
				       NULL);

	counter = sl_counter_create(p, &o);
	for (int i = 0; i < 20; i++) {
		char code[8];
		struct sl_label labels[] = {{"path", "/\xc3\xa4\\\"\n{},="}, {"code", code}};

		snprintf(code, sizeof(code), "%d", 200 + i);
		o = opts("answers_total", NULL, NULL);
		o.labels = labels;
		o.label_count = 2;
		labelled[i] = sl_counter_create(p, &o);
	}
	o = opts("busy_seconds_total", "", "seconds");
	seconds = sl_counter_f64_create(p, &o);
	o = opts("queue_length", "Waiting", NULL);
	gauge = sl_gauge_create(p, &o);
	o = opts("balance", NULL, NULL);
	negative = sl_gauge_create(p, &o);
	o = opts("temperature_celsius", NULL, "celsius");
	gauge_f64 = sl_gauge_f64_create(p, &o);
	o = opts("infinite", NULL, NULL);
	infinite = sl_gauge_f64_create(p, &o);
	o = opts("not_a_number", NULL, NULL);
	none = sl_gauge_f64_create(p, &o);
	o = opts("latency_seconds", "Latency", "seconds");
	o.min = 1e-6;
	o.max = 1e10;
	exponential = sl_histogram_create(p, &o);
	o = opts("coarse", NULL, NULL);
	o.use_scale = true;
	o.scale = -1;
	o.min = 1;
	o.max = 1e6;
	coarse = sl_histogram_create(p, &o);
	o = opts("size_ratio", NULL, "ratio");
	o.bounds = bounds;
	o.bound_count = sizeof(bounds) / sizeof(*bounds);
	classic = sl_histogram_create_classic(p, &o);
	o = opts("phase", NULL, NULL);
	o.states = phases;
	o.state_count = 3;
	states = sl_stateset_create(p, &o);
	o = opts("build", "What it was built from", NULL);
	o.labels = (struct sl_label[]){{"version", "1.2.3"}, {"revision", "abc"}};
	o.label_count = 2;
	sl_info_create(p, &o);
}

static void update(unsigned int n)
{
	sl_counter_inc(counter);
	sl_counter_add(labelled[n % 20], n);
	sl_counter_f64_add(seconds, n * 0.001);
	sl_gauge_add(gauge, 1);
	sl_histogram_observe(exponential, exp(n % 30 - 10.0));
	sl_histogram_observe(coarse, n);
	sl_histogram_observe(classic, n % 23 * 0.01);
}

static void *fill(void *arg)
{
	unsigned int thread = (unsigned int)(uintptr_t)arg;

	sl_counter_add(counter, 0);
	pthread_barrier_wait(&all_there);
	for (unsigned int i = 0; i < 10000; i++)
		update(i * THREADS + thread);
	sl_histogram_observe(exponential, 0);
	sl_histogram_observe(exponential, 1e300);
	sl_histogram_observe(exponential, -1);
	sl_histogram_observe(classic, NAN);
	sl_histogram_observe(classic, 1e9);
	return NULL;
}

static void *count(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; !atomic_load_explicit(&stop, memory_order_relaxed); i++) {
		update(i);
		sl_gauge_set(negative, -(int64_t)(i * 0x123456789abull));
		sl_gauge_f64_set(gauge_f64, i * -0.3);
		sl_stateset_set(states, i % 3, i & 1);
	}
	return NULL;
}

static void run(void *(*fn)(void *), bool wait)
{
	pthread_t t[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, fn, (void *)i))
			abort();
	if (wait) {
		puts("counting");
		fflush(stdout);
		while (getchar() != '\n')
			;
		atomic_store(&stop, true);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

int main(int argc, char **argv)
{
	struct sl_label labels[] = {{"zone", "a\xe2\x82\xac"}};
	struct sl_publisher_opts o = SL_OPTS(
		sl_publisher_opts, .service = "shop", .pod = "shop-0", .labels = labels,
		.label_count = 1, .max_threads = 3, /* one of the four must share a stripe */
		.socket = argc > 1 ? argv[1] : NULL, .flags = argc > 1 ? 0 : SL_PUBLISHER_DETACHED);
	struct sl_publisher *p = sl_publisher_open(&o);

	if (!p)
		return 1;
	create(p);
	pthread_barrier_init(&all_there, NULL, THREADS);
	run(fill, false);
	sl_gauge_set(negative, INT64_MIN + 5);
	sl_gauge_f64_set(gauge_f64, -17.3);
	sl_gauge_f64_set(infinite, -INFINITY);
	sl_gauge_f64_set(none, NAN);
	sl_stateset_set(states, 1, true);
	printf("ready %d\n", sl_publisher_fd(p));
	fflush(stdout);
	if (getchar() == EOF)
		return 0;
	run(count, true);
	puts("done");
	fflush(stdout);
	while (getchar() != EOF)
		;
	sl_publisher_close(p);
	return 0;
}
