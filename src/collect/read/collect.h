/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.h - the collector: workers that READ regions at absolute deadlines and keep the last
 * values and a bounded history, which any thread can read without slowing a round down. The
 * collector knows the fabric only through fabric.h, and does not know any exposition format.
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
	size_t spare_hosts;   /* number of hosts that collect_collector_add_host() may add */
	unsigned int workers; /* number of worker threads; 0 means 1 */
	bool realtime;	      /* give workers a share of real-time priority, if allowed */
	bool pin;	      /* pin worker i to the i-th allowed CPU */
	const int *cpus;      /* CPUs to pin the workers to instead */
	size_t cpu_count;
	uint64_t period_ns;  /* time between rounds; 0 means poll without pause */
	unsigned int queues; /* connections per host, at most one per worker; 0 means 1 */
	/* a host not read for this long is stale; 0 means max(5 periods, 2 s) */
	uint64_t stale_ns;
	uint64_t read_timeout_ns; /* 0 means 500 ms */
	/* delay before a dropped region is retried, doubling each time; 0 means 5 s */
	uint64_t dropped_ns;
	/* how long the regions of a host that is no longer wanted are kept; 0 means 10 min */
	uint64_t unwanted_ns;
	/* memory for the history of all workers; 0 means no history */
	size_t history_bytes;
	/* maximum age of history; 0 means limited only by history_bytes */
	uint64_t history_ns;
	size_t max_regions; /* 0 means 65536 */
	size_t max_series;  /* 0 means 4194304 */
	/* maximum number of regions' series in one exposition; 0 means all */
	size_t max_exposed_series;
	bool created;	    /* expose "_created" samples in OpenMetrics */
	bool region_series; /* expose sidelight_region_* series for each region */
	bool sum_processes; /* sum series with the same labels over processes */
	/*
	 * with sum_processes: how long the sums of ended processes are kept after the last process
	 * of their group, 0 means 2 h; and their maximum number of cells, 0 means 4194304
	 */
	uint64_t retired_ns;
	size_t retired_cells;
	struct fabric_opts fabric;
};

struct collect_collector *collect_collector_new(const struct collect_collector_opts *opts,
						char *error, size_t error_bytes);
int collect_collector_start(struct collect_collector *c); /* 0 or -errno */
void collect_collector_free(struct collect_collector *c); /* stops the workers first */

/* Returns true once every host has been reached or has failed once. */
bool collect_collector_ready(const struct collect_collector *c);
/*
 * Returns a time (CLOCK_REALTIME) up to which the history is complete: later rows are still being
 * read and published. Returns 0 if not known at the moment. Thread-safe.
 */
int64_t collect_collector_shown(const struct collect_collector *c);
/*
 * Returns true once each thread has begun another turn since this function last returned true. Only
 * one thread may call it.
 */
bool collect_collector_turned(struct collect_collector *c);

/*
 * Adds a host, which is not read yet, in one of the opts.spare_hosts places. Returns the host's
 * number, -ENOSPC or -EINVAL. One thread at a time.
 */
int collect_collector_add_host(struct collect_collector *c, const char *target);
/*
 * Starts or stops reading the host, starting with the next round. The host keeps its number. If it
 * is not wanted for opts.unwanted_ns, its regions are removed and its connections closed.
 */
void collect_collector_want_host(struct collect_collector *c, size_t host, bool wanted);

/*
 * Returns the series for the exposition: published series and the collector's own (sidelight_...).
 */
struct export_source collect_collector_source(struct collect_collector *c);

/* ---- introspection: callback arguments are valid only during the call ---- */

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
	/*
	 * .last_error is the newest error, or "" if the host is up and has had no error for a
	 * minute
	 */
	struct fabric_stats stats;
};
void collect_collector_hosts(struct collect_collector *c,
			     void (*fn)(const struct collect_host_view *, void *), void *arg);

/* The publisher of a region, as attested by its host. */
struct collect_tenant_view {
	/* false if the directory does not name the tenant; the other fields are then empty */
	bool known;
	bool trusted;
	bool exempt; /* trusted or unknown, or its series are those of many others */
	uint64_t key;
	const char *uid, *container, *pod; /* container: its first 12 digits; "" if none */
	const char *kube_namespace;	   /* "" if the host does not attest it */
	uint32_t every; /* the tenant's regions are read once in this many rounds */
	uint64_t series, refused, conflicts;
};

struct collect_region_view {
	const struct region_info *info;
	struct collect_tenant_view tenant;
	const char *target, *hostname;
	uint32_t state; /* enum sl_region_state */
	bool stale;
	uint64_t changed_ns; /* when the region entered that state */
	uint64_t metrics, series, unsettled, refused, rounds;
	uint64_t last_read_ns;
	const char *fault; /* region_fault_name() if the region was dropped, otherwise "" */
	const char *held;  /* why the region has no values yet, if its tenant's part is used up */
};
void collect_collector_regions(struct collect_collector *c,
			       void (*fn)(const struct collect_region_view *, void *), void *arg);

/*
 * Calls fn for each metric of the region with this instance. value: the metric's flattened cells.
 * fresh_ns: CLOCK_MONOTONIC at which the values were last known to be current; may be NULL. Returns
 * 0, -ENOENT or -ENOMEM.
 */
int collect_collector_metrics(struct collect_collector *c, uint64_t instance,
			      void (*fn)(const struct region_metric *, const uint64_t *value,
					 void *),
			      void *arg, uint64_t *fresh_ns);
/*
 * Calls fn for one metric of the region with this instance. If there is no such region, the one
 * that ended last is used, and value is NULL. Returns 0, -ENOENT or -ENOMEM.
 */
int collect_collector_metric(struct collect_collector *c, uint64_t instance, uint32_t metric,
			     void (*fn)(const struct region_metric *, const uint64_t *value,
					void *),
			     void *arg);

/* ---- history ---- */

struct collect_point {
	int64_t ns;   /* CLOCK_REALTIME of the READ */
	double value; /* for a histogram, its count */
};
struct base_budget;
/*
 * A series of a listed region or, if ended_ns is set, of a region that is gone. Without ended_ns,
 * if no region with this instance is listed, the one that ended last is used.
 */
struct collect_series_ref {
	uint64_t instance;
	uint32_t metric;
	int64_t ended_ns; /* when the region was removed; 0 means it is listed */
	/* of a histogram: its count, its sum, or the sum of its first `buckets` buckets */
	enum { COLLECT_PART_VALUE, COLLECT_PART_SUM, COLLECT_PART_BUCKETS } part;
	uint32_t buckets;
};
/*
 * Returns the newest max points of a metric between from_ns and to_ns, inclusive, oldest first, for
 * the metric that had this ID at known_ns (CLOCK_REALTIME). Returns the number of points, -ENOENT,
 * or -ESTALE if another metric has taken over the ID since then. budget may be NULL; if it is used
 * up, older points are missing.
 */
ssize_t collect_collector_points(struct collect_collector *c, const struct collect_series_ref *of,
				 int64_t known_ns, int64_t from_ns, int64_t to_ns,
				 struct collect_point *out, size_t max, struct base_budget *budget);
/* Chunk cache of one region, reused for the region's other metrics. Not thread-safe. */
struct collect_chunks;
struct collect_chunks *collect_chunks_new(void); /* returns NULL if out of memory */
void collect_chunks_free(struct collect_chunks *ch);
/*
 * Like collect_collector_points() with the metric that has the ID now, but cheaper if the
 * previous call was for the same region.
 */
ssize_t collect_collector_history_again(struct collect_collector *c, struct collect_chunks *ch,
					const struct collect_series_ref *of, int64_t from_ns,
					int64_t to_ns, struct collect_point *out, size_t max,
					struct base_budget *budget);

/* A series with a history: a histogram's or summary's history is its count. */
struct collect_series_view {
	struct collect_series_ref of;
	/* CLOCK_REALTIME: when the region was found, and if it is gone, when it was last read */
	int64_t found_ns, read_ns;
	const struct region_metric *m;
	const char *name; /* name of the samples, with "_total" or "_count" */
	const char *const *keys, *const *values; /* unescaped, in no particular order */
	uint32_t labels;
};
struct collect_series_walk {
	/*
	 * Returns false to skip the family whose samples have this name. NULL means walk all
	 * families.
	 */
	bool (*family)(void *arg, const char *name, const struct region_metric *m);
	bool (*series)(void *arg, const struct collect_series_view *s); /* false ends the walk */
	void *arg;
	/* also, after the others, the series of regions removed since then; 0 means none */
	int64_t since_ns;
	/* also the sums and buckets of histograms; COLLECT_PARTS_FEW: only the bucket +Inf */
	enum { COLLECT_PARTS_NONE, COLLECT_PARTS_FEW, COLLECT_PARTS_ALL } parts;
};
/*
 * Calls back for each series with a history, sorted by family, including series of ended publishers
 * as long as they are exposed. Processes are kept apart even if sum_processes is set. State sets
 * and infos have no history. Returns 0 or -ENOMEM.
 */
int collect_collector_series(struct collect_collector *c, const struct collect_series_walk *walk);

/* ---- other memory of a region ---- */

/* Maximum bytes of a fetch. */
#define COLLECT_FETCH_MAX 65536u

/*
 * Receives the result of a fetch. If status is 0, bytes are length bytes READ at ns
 * (CLOCK_REALTIME) in any order and granularity; they are valid during the call, and hostile until
 * their check words are verified. Otherwise bytes is NULL and status is -ENOENT (the region is
 * gone), -EAGAIN (the host is unreachable, or the region was dropped), -ERANGE (outside the
 * region), -ETIMEDOUT, -ENOTCONN, -EACCES, -EIO (the READ failed) or -ECANCELED (the collector is
 * stopping). Called by the region's worker, or by collect_collector_free(). The function must not
 * block or call collect_collector_free(); it may fetch again.
 */
typedef void collect_fetch_fn(void *arg, int status, const void *bytes, uint32_t length,
			      int64_t ns);

/*
 * READs length (1 .. COLLECT_FETCH_MAX) bytes at offset of the region with this instance once,
 * outside the rounds: within 100 ms, or by the next round if that is sooner. Fetches of one region
 * start in call order. Returns 0 if fn will be called exactly once, or -ENOENT, -ERANGE or -ENOMEM,
 * and fn is not called. Thread-safe.
 */
int collect_collector_fetch(struct collect_collector *c, uint64_t instance, uint64_t offset,
			    uint32_t length, collect_fetch_fn *fn, void *arg);

/* READ latency in exponential buckets: bucket i holds values up to 2^(i/4) microseconds. */
#define COLLECT_LATENCY_BUCKETS 96
struct collect_worker_view {
	unsigned int worker;
	int cpu; /* -1 if not pinned */
	uint64_t rounds, missed_deadlines, reads, bytes, lines, unsettled;
	uint64_t samples; /* number of values decoded */
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
