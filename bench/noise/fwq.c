// SPDX-License-Identifier: Apache-2.0
/*
 * fwq.c CPU SECONDS - fixed-work-quantum noise of a CPU: repeats the same work of about 100 us, and
 * prints what interrupted it: "LOST DETOURS EXCESS". LOST is the time beyond the median quantum, in
 * millionths of all time; DETOURS are quanta at least 1 us longer than the median, per second;
 * EXCESS is the 99.9th percentile minus the median, in nanoseconds.
 */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"

#define QUANTUM_NS 100000
#define DETOUR_NS  1000
#define QUANTA_MAX 1000000

static uint32_t quantum[QUANTA_MAX];

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Uses registers only, so that neither caches nor memory matter. */
static uint64_t work(uint64_t steps)
{
	uint64_t begin = now_ns(), x = steps;

	for (uint64_t i = 0; i < steps; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		__asm__ volatile("" : "+r"(x));
	}
	return now_ns() - begin;
}

static int by_length(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	uint64_t steps = 10000, end, all = 0, lost = 0, detours = 0, median;
	size_t n = 0;
	cpu_set_t set;

	if (argc != 3)
		bench_die("usage: fwq CPU SECONDS");
	CPU_ZERO(&set);
	CPU_SET(atoi(argv[1]), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		bench_die("cannot use this CPU");
	while (work(steps) < QUANTUM_NS)
		steps += steps / 10;
	end = now_ns() + (uint64_t)atoi(argv[2]) * 1000000000u;
	while (n < QUANTA_MAX && now_ns() < end)
		quantum[n++] = (uint32_t)work(steps);
	qsort(quantum, n, sizeof(*quantum), by_length);
	median = quantum[n / 2];
	for (size_t i = 0; i < n; i++) {
		all += quantum[i];
		lost += quantum[i] > median ? quantum[i] - median : 0;
		detours += quantum[i] >= median + DETOUR_NS;
	}
	printf("%.1f %.1f %llu\n", 1e6 * (double)lost / (double)all,
	       (double)detours / ((double)all * 1e-9),
	       (unsigned long long)(quantum[n * 999 / 1000] - median));
	return 0;
}
