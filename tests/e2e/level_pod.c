// SPDX-License-Identifier: Apache-2.0
/*
 * level_pod SOCKET POD NAMESPACE - a publisher for test_levels.py, with metrics of several types.
 * It executes the lines of stdin and answers each with its count: "add N", "run" (count until
 * "stop").
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

static atomic_bool running;
static atomic_ulong total;

static struct sl_counter events, work;
static struct sl_counter_f64 joules;
static struct sl_gauge depth;
static struct sl_gauge_f64 ratio;
static struct sl_histogram size, wait;

static void count(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++) {
		sl_counter_inc(events);
		sl_counter_inc(work);
		sl_counter_f64_add(joules, 0.5);
		sl_histogram_observe(size, (double)(total % 5));
		sl_histogram_observe(wait, 0.25);
		total++;
	}
	sl_gauge_set(depth, -(long)total);
	sl_gauge_f64_set(ratio, (double)total / 4);
}

static void *count_on(void *arg)
{
	(void)arg;
	while (atomic_load(&running)) {
		count(1);
		usleep(200);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static const double bounds[] = {1, 2, 4};
	struct sl_publisher *p;
	pthread_t thread;
	char line[64];

	if (argc < 4)
		return 2;
	p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .socket = argv[1], .service = "level",
				       .pod = argv[2], .kube_namespace = argv[3],
				       .max_cells = 1024));
	events = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "level_events_total",
					       .help = "Events.",
					       .labels = SL_LABELS({"kind", "a\"b\\c"})));
	work = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "level_work_total"));
	joules = sl_counter_f64_create(p, &SL_OPTS(sl_metric_opts, .name = "level_joules_total"));
	depth = sl_gauge_create(p, &SL_OPTS(sl_metric_opts, .name = "level_depth"));
	ratio = sl_gauge_f64_create(p, &SL_OPTS(sl_metric_opts, .name = "level_ratio"));
	size = sl_histogram_create_classic(p, &SL_OPTS(sl_metric_opts, .name = "level_size_bytes",
						       .unit = "bytes", .bounds = bounds,
						       .bound_count = 3));
	wait = sl_histogram_create(p, &SL_OPTS(sl_metric_opts, .name = "level_wait_seconds"));
	if (!sl_counter_valid(events) || !sl_histogram_valid(size) || !sl_histogram_valid(wait))
		return 1;
	puts("0");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "add ", 4))
			count(strtoul(line + 4, NULL, 10));
		if (!strncmp(line, "run", 3)) {
			atomic_store(&running, true);
			if (pthread_create(&thread, NULL, count_on, NULL))
				return 1;
		}
		if (!strncmp(line, "stop", 4)) {
			atomic_store(&running, false);
			pthread_join(thread, NULL);
		}
		printf("%lu\n", total);
		fflush(stdout);
	}
	sl_publisher_close(p);
	return 0;
}
