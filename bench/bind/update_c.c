// SPDX-License-Identifier: Apache-2.0
/*
 * update_c.c - nanoseconds per update by libsidelight in C, as one line of JSON: the peer of
 * update.rs.
 */
#include <math.h>
#include <stdio.h>

#include <sidelight/sidelight.h>

#include "bench.h"

enum { COUNTERS = 256, VALUES = 1024, ROUNDS = 5, N = 4000 * COUNTERS };

int main(void)
{
	static const double bounds[] = {.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5};
	static struct sl_counter counters[COUNTERS];
	static double values[VALUES], inc[ROUNDS], observe[ROUNDS];
	struct sl_publisher *p = sl_publisher_open(NULL);
	struct sl_counter_family f =
		sl_counter_family_create(p, &SL_OPTS(sl_metric_opts, .name = "bench_total"));
	struct sl_histogram h = sl_histogram_create_classic(
		p, &SL_OPTS(sl_metric_opts, .name = "bench_seconds", .bounds = bounds,
			    .bound_count = sizeof(bounds) / sizeof(*bounds)));

	for (unsigned int i = 0; i < COUNTERS; i++) {
		char number[16];

		snprintf(number, sizeof(number), "%u", i);
		counters[i] = sl_counter_with(f, SL_LABELS({"i", number}));
	}
	for (int i = 0; i < VALUES; i++)
		values[i] = 0.0001 * pow(1.01, i * 617 % VALUES);
	for (int r = 0; r < ROUNDS; r++) {
		double start = bench_cpu_ns();

		for (int n = 0; n < N / COUNTERS; n++)
			for (int i = 0; i < COUNTERS; i++)
				sl_counter_inc(counters[i]);
		inc[r] = (bench_cpu_ns() - start) / N;
		start = bench_cpu_ns();
		for (int n = 0; n < N / 4 / VALUES; n++)
			for (int i = 0; i < VALUES; i++)
				sl_histogram_observe(h, values[i]);
		observe[r] = (bench_cpu_ns() - start) * 4 / N;
	}
	if (sl_counter_value(counters[7]) != (uint64_t)ROUNDS * N / COUNTERS)
		bench_die("%llu counted", (unsigned long long)sl_counter_value(counters[7]));
	printf("{\"inc\": %g, \"observe\": %g}\n", bench_median(inc, ROUNDS),
	       bench_median(observe, ROUNDS));
	sl_publisher_close(p);
	return 0;
}
