/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.h - the collector: workers that READ regions at absolute deadlines, keep the last
 * values and a bounded history, and let any number of threads look at them without slowing a
 * round down. It knows the fabric only through fabric.h and no exposition format.
 */
#ifndef SL_COLLECT_COLLECT_H
#define SL_COLLECT_COLLECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "export/model.h"
#include "fabric/fabric.h"
#include "region/decode.h"

struct sl_collector;

struct sl_collector_opts {
	const char *const *agents;   /* targets as in sl_fabric_open() */
	size_t agent_count;
	unsigned int workers;        /* 0: 1 */
	bool pin;                    /* worker i to the i-th CPU allowed */
	const int *cpus;             /* or to these */
	size_t cpu_count;
	uint64_t period_ns;          /* 0: busy */
	unsigned int queues;         /* connections a host, at most one a worker; 0: 1 */
	uint64_t stale_ns;           /* a host not read for so long is stale; 0: max(5 periods, 2 s) */
	uint64_t read_timeout_ns;    /* 0: 500 ms */
	size_t history_bytes;        /* over all; 0: no history */
	uint64_t history_ns;         /* keep at most so long; 0: as memory allows */
	size_t max_regions;          /* 0: 65536 */
	size_t max_series;           /* 0: 4194304 */
	bool sum_processes;          /* add up series with the same labels over processes */
	struct sl_fabric_opts fabric;
};

struct sl_collector *sl_collector_new(const struct sl_collector_opts *opts, char *error,
				      size_t error_bytes);
int sl_collector_start(struct sl_collector *c); /* 0 or -errno */
void sl_collector_free(struct sl_collector *c); /* stops the workers first */

/* True once every host was reached or failed once. */
bool sl_collector_ready(const struct sl_collector *c);

/* What the exposition walks: the published series, and the collector's own (sidelight_...). */
struct sl_source sl_collector_source(struct sl_collector *c);

/* ---- introspection: callbacks get values that are valid during the call ---------------------- */

enum sl_host_condition { SL_HOST_CONNECTING, SL_HOST_UP, SL_HOST_STALE };

struct sl_host_view {
	const char *target, *fabric, *hostname;
	enum sl_host_condition condition;
	uint64_t last_read_ns;      /* CLOCK_REALTIME */
	uint32_t regions;
	struct sl_fabric_stats stats;
};
void sl_collector_hosts(struct sl_collector *c, void (*fn)(const struct sl_host_view *, void *),
			void *arg);

struct sl_region_view {
	const struct sl_region_info *info;
	const char *target, *hostname;
	uint32_t state;             /* enum sl_region_state */
	bool stale;
	uint64_t changed_ns;        /* when it came into that state */
	uint64_t metrics, series, unsettled, refused, rounds;
	uint64_t last_read_ns;
	const char *fault;          /* "" or sl_fault_name() of why it was dropped */
};
void sl_collector_regions(struct sl_collector *c, void (*fn)(const struct sl_region_view *, void *),
			  void *arg);

/* Metrics of the region with this instance. value: flattened cells of this metric. 0, -ENOENT. */
int sl_collector_metrics(struct sl_collector *c, uint64_t instance,
			 void (*fn)(const struct sl_metric *, const uint64_t *value, void *),
			 void *arg);

struct sl_point {
	int64_t ns;                 /* CLOCK_REALTIME of the READ */
	double value;               /* histograms: their count */
};
/*
 * Points of a metric from from_ns on, oldest first, at most max (the newest are kept). Returns
 * their number or -ENOENT.
 */
ssize_t sl_collector_history(struct sl_collector *c, uint64_t instance, uint32_t metric,
			     int64_t from_ns, struct sl_point *out, size_t max);

/* READ latency: counts in exponential buckets, bucket i holding up to 2^(i/4) microseconds. */
#define SL_LATENCY_BUCKETS 96
struct sl_worker_view {
	unsigned int worker;
	int cpu;                    /* -1: not pinned */
	uint64_t rounds, missed_deadlines, reads, bytes, lines, unsettled;
	uint64_t samples;           /* values decoded */
	uint64_t busy_ns, elapsed_ns;
	uint64_t errors[SL_FAULT_COUNT];
	uint64_t read_errors, latency[SL_LATENCY_BUCKETS], latency_sum_ns;
	uint32_t regions;
};
void sl_collector_workers(struct sl_collector *c, void (*fn)(const struct sl_worker_view *, void *),
			  void *arg);

struct sl_collector_totals {
	uint64_t regions, live, dead, closed, dropped, series, conflicts, expired, refused;
	uint64_t memory_bytes, history_bytes, history_points;
	uint64_t hosts, hosts_up, hosts_stale;
};
void sl_collector_totals(struct sl_collector *c, struct sl_collector_totals *out);

#endif
