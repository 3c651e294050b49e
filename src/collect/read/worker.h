/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.h - a thread that owns links and their connections, READs and regions. It reads without
 * locks, except for a short one when a region appears on a host with several links.
 */
#ifndef SL_COLLECT_READ_WORKER_H
#define SL_COLLECT_READ_WORKER_H

#include <pthread.h>

#include "collect/read/collect.h"
#include "collect/read/history.h"
#include "collect/read/realtime.h"

struct collect_link;

struct collect_worker {
	struct collect_collector *c;
	unsigned int number;
	pthread_t thread;
	bool started;
	int cpu;
	struct collect_realtime realtime;
	struct collect_link *link;
	unsigned int links;
	struct collect_ring ring;
	uint64_t row_bytes, row_limit; /* bytes of open chunks: in use, and the limit */
	uint64_t *flat;
	size_t flat_cells;
	double *row; /* row of doubles for the taps */
	size_t row_columns;
	uint64_t turns_seen; /* used by collect_collector_turned() */
	/* Written by the worker, read by any thread. */
	uint64_t rounds, missed, reads, bytes, lines, unsettled, samples, busy_ns, start_ns;
	uint64_t turns; /* number of turns of the worker's loop */
	/*
	 * CLOCK_REALTIME of the rows being published; 0 means the clock is being read; INT64_MAX
	 * means no rows are being published. See collect_collector_shown().
	 */
	int64_t showing_ns;
	uint64_t wrong_instance, map_errors, rows_lost;
	/* passes discarded because they were copied too long after the hot line */
	uint64_t late_passes;
	uint64_t faults[REGION_FAULT_COUNT], read_errors, latency[COLLECT_LATENCY_BUCKETS],
		latency_sum_ns;
};

void *collect_worker_main(void *arg);
unsigned int collect_latency_bucket(uint64_t ns);

#endif
