// SPDX-License-Identifier: Apache-2.0
/*
 * floor.c PODS METRICS HZ SECONDS - the floor of collect.shm.256x64: rounds per second of CPU time
 * of a loop that only copies the lines that the collector would read of as many pods, while another
 * core updates them, and writes as many values to history. It checks, decodes and packs nothing. It
 * makes HZ rounds per second of wall time, so that the lines change between rounds. Prints the
 * rate.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

/* A line carries 7 cells and a check word; a pod has two stripes and a hot line. */
enum { LINE_BYTES = 64, CELLS = 7, STRIPES = 2, UPDATES_HZ = 1000 };

static uint64_t bytes;
static uint8_t *shared;
static atomic_bool stop;

static void *update(void *unused)
{
	const struct timespec pause = {0, 1000000000 / UPDATES_HZ};

	(void)unused;
	while (!stop) {
		for (uint64_t at = 0; at < bytes; at += LINE_BYTES)
			__atomic_fetch_add((uint64_t *)(void *)(shared + at), 1, __ATOMIC_RELAXED);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	enum { HISTORY_BYTES = 64 << 20 };
	uint64_t pods, metrics, values, at = 0, rounds = 0;
	uint8_t *landing, *history;
	double hz, end, spent_ns = 0;
	struct timespec pause = {0};
	pthread_t thread;

	if (argc != 5)
		bench_die("floor PODS METRICS HZ SECONDS");
	pods = strtoull(argv[1], NULL, 10);
	metrics = strtoull(argv[2], NULL, 10);
	values = pods * metrics * sizeof(uint64_t);
	bytes = pods * (1 + STRIPES * ((metrics + CELLS - 1) / CELLS)) * LINE_BYTES;
	hz = atof(argv[3]);
	if (!values || values > HISTORY_BYTES || hz < 2)
		bench_die("1 to 8,388,608 values, 2 Hz and more");
	pause.tv_nsec = (long)(1e9 / hz);
	shared = bench_memory(bytes);
	landing = bench_memory(bytes);
	history = bench_memory(HISTORY_BYTES);
	if (pthread_create(&thread, NULL, update, NULL))
		bench_die("no thread");
	end = bench_wall_ns() + 1e9 * atof(argv[4]);
	for (; bench_wall_ns() < end; rounds++) {
		double start;

		nanosleep(&pause, NULL);
		start = bench_cpu_ns();
		memcpy(landing, shared, bytes);
		at = at + values > HISTORY_BYTES ? 0 : at;
		memcpy(history + at, landing, values < bytes ? values : bytes);
		at += values;
		__asm__ volatile("" ::"r"(landing), "r"(history) : "memory");
		spent_ns += bench_cpu_ns() - start;
	}
	printf("%.1f\n", (double)rounds * 1e9 / spent_ns);
	stop = true;
	pthread_join(thread, NULL);
	return 0;
}
