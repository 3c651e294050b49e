// SPDX-License-Identifier: Apache-2.0
/*
 * host.c ROUNDS - the cost of reading the state of this machine: CPU time of the thread for a round
 * at 10 Hz (mean over five seconds, in which each file is read at least once), and for a round in
 * which everything is due (median). Prints both in nanoseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#include "base/base.h"
#include "bench.h"
#include "source/host/host.h"

enum { PERIOD_NS = 100000000, ROUNDS_PER_CYCLE = 50, PAUSE_US = 2000 };

int main(int argc, char **argv)
{
	int rounds = bench_rounds(argc, argv, 21);
	struct host *h = host_open(&(struct host_opts){.interval_ns = PERIOD_NS, .detached = true});
	double cycles[BENCH_ROUNDS_MAX], all[BENCH_ROUNDS_MAX];
	uint64_t now = base_now_ns();

	if (!h)
		bench_die("cannot read the host");
	/* Creates series, and queries file systems. */
	for (int i = 0; i < 3; i++) {
		host_round(h, now += 10ull * PERIOD_NS, true);
		usleep(PAUSE_US * 10);
	}
	for (int r = 0; r < rounds; r++) {
		double start, spent = 0;

		for (int i = 0; i < ROUNDS_PER_CYCLE; i++) {
			usleep(PAUSE_US); /* the counters go on */
			start = bench_cpu_ns();
			host_round(h, now += PERIOD_NS, false);
			spent += bench_cpu_ns() - start;
		}
		cycles[r] = spent / ROUNDS_PER_CYCLE;
		usleep(PAUSE_US);
		start = bench_cpu_ns();
		host_round(h, now, true);
		all[r] = bench_cpu_ns() - start;
	}
	if (host_counts(h).errors || host_counts(h).refused)
		bench_die("something could not be read or published");
	printf("%.0f %.0f\n", bench_median(cycles, (size_t)rounds),
	       bench_median(all, (size_t)rounds));
	host_close(h);
	return 0;
}
