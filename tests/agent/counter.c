// SPDX-License-Identifier: Apache-2.0
/*
 * counter SOCKET THREADS [MICROSECONDS] - increments "ticks_total" from THREADS threads, at full
 * speed or with pauses, until a line arrives on stdin; then prints the total per thread, waits for
 * another line and closes the publisher.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

static atomic_bool stop;
static struct sl_counter ticks;
static useconds_t pause_us;

static void *count(void *arg)
{
	unsigned long n = 0;

	(void)arg;
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		sl_counter_inc(ticks);
		n++;
		if (pause_us)
			usleep(pause_us);
	}
	return (void *)n;
}

int main(int argc, char **argv)
{
	struct sl_publisher *p;
	pthread_t thread[64];
	unsigned long sum = 0;
	int n = argc > 2 ? atoi(argv[2]) : 1;
	char line[16];

	if (argc > 3)
		pause_us = (useconds_t)atoi(argv[3]);
	p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .socket = argv[1], .service = "counter",
				       .max_cells = 64));
	ticks = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "ticks_total"));
	if (!sl_counter_valid(ticks) || n > 64)
		return 1;
	for (int i = 0; i < n; i++)
		if (pthread_create(&thread[i], NULL, count, NULL))
			return 1;
	puts("counting");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	stop = true;
	for (int i = 0; i < n; i++) {
		void *result;

		pthread_join(thread[i], &result);
		sum += (unsigned long)result;
	}
	printf("%lu\n", sum);
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin))
		sl_publisher_close(p);
	return 0;
}
