/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.h - the collector: workers that READ regions at absolute deadlines and keep the last
 * values and a bounded history, which any thread reads without slowing a round down. It knows the
 * fabric only through fabric.h, and no exposition format.
 */
#ifndef SL_COLLECT_READ_COLLECT_H
#define SL_COLLECT_READ_COLLECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "export/model.h"
#include "fabric/fabric.h"
#include "region/decode.h"

struct collect_collector;

struct collect_collector_opts {
	const char *const *agents; /* targets as in fabric_open() */
	size_t agent_count;
	size_t spare_hosts;   /* for collect_collector_add_host() */
	unsigned int workers; /* 0: 1 */
	bool pin;	      /* worker i to the i-th CPU allowed */
	const int *cpus;      /* or to these */
	size_t cpu_count;
	uint64_t period_ns;  /* 0: busy */
	unsigned int queues; /* connections per host, at most one per worker; 0: 1 */
	uint64_t stale_ns;   /* a host not read for this long is stale; 0: max(5 periods, 2 s) */
	uint64_t read_timeout_ns;  /* 0: 500 ms */
	uint64_t dropped_ns;	   /* delay before a dropped region is retried, doubling; 0: 5 s */
	size_t history_bytes;	   /* of all workers; 0: no history */
	uint64_t history_ns;	   /* maximum age; 0: as memory allows */
	size_t max_regions;	   /* 0: 65536 */
	size_t max_series;	   /* 0: 4194304 */
	size_t max_exposed_series; /* of regions, in one exposition; 0: all */
	bool created;		   /* OpenMetrics has "_created" */
	bool region_series;	   /* series sidelight_region_* of each region */
	bool sum_processes;	   /* sum series with the same labels over processes */
	struct fabric_opts fabric;
};

struct collect_collector *collect_collector_new(const struct collect_collector_opts *opts,
						char *error, size_t error_bytes);
int collect_collector_start(struct collect_collector *c); /* 0 or -errno */
void collect_collector_free(struct collect_collector *c); /* stops the workers first */

/* True once every host was reached or failed once. */
bool collect_collector_ready(const struct collect_collector *c);
/*
 * A time (CLOCK_REALTIME) up to which history has all rows: later ones are still being read and
 * shown. 0: not known at this moment. Any thread.
 */
int64_t collect_collector_shown(const struct collect_collector *c);
/* True once each thread has begun another turn since this was true before. For one caller. */
bool collect_collector_turned(struct collect_collector *c);

/*
 * Hosts that come and go: adds one, which is not read yet, in one of opts.spare_hosts. Its number,
 * -ENOSPC or -EINVAL. One thread at a time.
 */
int collect_collector_add_host(struct collect_collector *c, const char *target);
/* Reads it from the next round on, or no more. */
void collect_collector_want_host(struct collect_collector *c, size_t host, bool wanted);
/* Reads no host after this time (CLOCK_MONOTONIC) until it is set anew; 0: without a limit. */
void collect_collector_lease(struct collect_collector *c, uint64_t until_ns);

/* The series for the exposition: the published ones, and the collector's own (sidelight_...). */
struct export_source collect_collector_source(struct collect_collector *c);

/* ---- introspection: what callbacks get is valid during the call ---- */

enum collect_host_condition { COLLECT_HOST_CONNECTING, COLLECT_HOST_UP, COLLECT_HOST_STALE };
static inline const char *collect_host_condition_name(enum collect_host_condition condition)
{
	static const char *const names[] = {"connecting", "up", "stale"};

	return names[condition];
}

struct collect_host_view {
	const char *target, *fabric, *hostname;
	enum collect_host_condition condition;
	uint64_t last_read_ns; /* CLOCK_REALTIME */
	uint32_t regions;
	struct fabric_stats stats;
};
void collect_collector_hosts(struct collect_collector *c,
			     void (*fn)(const struct collect_host_view *, void *), void *arg);

/* Who publishes a region, as its host attests it. */
struct collect_tenant_view {
	bool known; /* else the directory does not say, and the rest is empty */
	bool trusted;
	uint64_t key;
	const char *uid, *container, *pod; /* container: the first 12 digits; "": none */
	uint32_t every;			   /* its regions are read every this many rounds */
	uint64_t series, refused, conflicts;
};

struct collect_region_view {
	const struct region_info *info;
	struct collect_tenant_view tenant;
	const char *target, *hostname;
	uint32_t state; /* enum sl_region_state */
	bool stale;
	uint64_t changed_ns; /* when it entered that state */
	uint64_t metrics, series, unsettled, refused, rounds;
	uint64_t last_read_ns;
	const char *fault; /* "" or region_fault_name() if it was dropped */
};
void collect_collector_regions(struct collect_collector *c,
			       void (*fn)(const struct collect_region_view *, void *), void *arg);

/* Metrics of the region with this instance. value: flattened cells of this metric. 0, -ENOENT. */
int collect_collector_metrics(struct collect_collector *c, uint64_t instance,
			      void (*fn)(const struct region_metric *, const uint64_t *value,
					 void *),
			      void *arg);

/* ---- history ---- */

struct collect_point {
	int64_t ns;   /* CLOCK_REALTIME of the READ */
	double value; /* histograms: their count */
};
/*
 * Points of a metric from from_ns to to_ns, inclusive, oldest first; the newest max of them.
 * Returns their number or -ENOENT.
 */
ssize_t collect_collector_history(struct collect_collector *c, uint64_t instance, uint32_t metric,
				  int64_t from_ns, int64_t to_ns, struct collect_point *out,
				  size_t max);
/* The same of the metric that the caller knew at known_ns (CLOCK_REALTIME). -ESTALE: it has been
 * replaced by another one since. */
ssize_t collect_collector_history_known(struct collect_collector *c, uint64_t instance,
					uint32_t metric, int64_t known_ns, int64_t from_ns,
					int64_t to_ns, struct collect_point *out, size_t max);
/* Chunks of one region that were read, for the same of its other metrics. One thread. */
struct collect_chunks;
struct collect_chunks *collect_chunks_new(void); /* NULL: no memory */
void collect_chunks_free(struct collect_chunks *ch);
/* collect_collector_history(), which is cheaper if the call before was for the same region. */
ssize_t collect_collector_history_again(struct collect_collector *c, struct collect_chunks *ch,
					uint64_t instance, uint32_t metric, int64_t from_ns,
					int64_t to_ns, struct collect_point *out, size_t max);

/* A series that has a history: of a histogram or a summary, its count. */
struct collect_series_view {
	uint64_t instance;
	uint32_t metric;
	const struct region_metric *m;
	const char *name;			 /* of the samples: with "_total", "_count" */
	const char *const *keys, *const *values; /* unescaped, in no order */
	uint32_t labels;
};
struct collect_series_walk {
	/* False skips the family with samples of this name. NULL: all are wanted. */
	bool (*family)(void *arg, const char *name, const struct region_metric *m);
	bool (*series)(void *arg, const struct collect_series_view *s); /* false ends the walk */
	void *arg;
};
/*
 * Calls back for all series that have a history, in the order of their names, also for those of
 * publishers that have ended, as long as they are shown. Processes are apart, even if
 * sum_processes. State sets and infos have none. 0, -ENOMEM.
 */
int collect_collector_series(struct collect_collector *c, const struct collect_series_walk *walk);

/* ---- other memory of a region ---- */

/* Maximum bytes of a fetch. */
#define COLLECT_FETCH_MAX 65536u

/*
 * The result of a fetch. status 0: bytes are length bytes READ at ns (CLOCK_REALTIME) in any order
 * and granularity, valid during the call, and hostile until their check words are verified.
 * Otherwise bytes is NULL and status is -ENOENT (the region is gone), -EAGAIN (its host is not
 * reached, or it was dropped), -ERANGE (outside the region), -ETIMEDOUT, -ENOTCONN, -EACCES, -EIO
 * (the READ failed) or -ECANCELED (the collector ends). Called by the region's worker, or by
 * collect_collector_free(). It must not block or call collect_collector_free(); it may fetch again.
 */
typedef void collect_fetch_fn(void *arg, int status, const void *bytes, uint32_t length,
			      int64_t ns);

/*
 * READs length (1 .. COLLECT_FETCH_MAX) bytes at offset of the region with this instance once,
 * beside the rounds: within 100 ms, or by the next round if that is sooner. Fetches of one region
 * start in the order of their calls. Any thread. 0: fn is called exactly once; -ENOENT, -ERANGE,
 * -ENOMEM: it is not.
 */
int collect_collector_fetch(struct collect_collector *c, uint64_t instance, uint64_t offset,
			    uint32_t length, collect_fetch_fn *fn, void *arg);

/* READ latency in exponential buckets: bucket i holds up to 2^(i/4) microseconds. */
#define COLLECT_LATENCY_BUCKETS 96
struct collect_worker_view {
	unsigned int worker;
	int cpu; /* -1: not pinned */
	uint64_t rounds, missed_deadlines, reads, bytes, lines, unsettled;
	uint64_t samples; /* values decoded */
	uint64_t busy_ns, elapsed_ns;
	uint64_t errors[REGION_FAULT_COUNT];
	uint64_t read_errors, latency[COLLECT_LATENCY_BUCKETS], latency_sum_ns;
	uint32_t regions;
};
void collect_collector_workers(struct collect_collector *c,
			       void (*fn)(const struct collect_worker_view *, void *), void *arg);

struct collect_collector_totals {
	uint64_t regions, live, dead, closed, dropped, series, conflicts, expired, refused;
	uint64_t memory_bytes, history_bytes, history_points;
	uint64_t hosts, hosts_up, hosts_stale;
};
void collect_collector_totals(struct collect_collector *c, struct collect_collector_totals *out);

#endif
