/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collector_internal.h - the collector as its parts see it.
 *
 * - A worker owns its links and, in them, connections, READs and regions (link/link.h).
 * - Control turns schemas into layouts, layouts into the index, and lists regions (control.c).
 * - Any other thread takes a reference to the index and reads snapshots (index.c, snapshot.h).
 *
 * A worker hands a region to control by setting a bit in it and pushing it onto a queue; control
 * hands the layout back by one atomic pointer (struct collect_built).
 */
#ifndef SL_COLLECT_COLLECTOR_INTERNAL_H
#define SL_COLLECT_COLLECTOR_INTERNAL_H

#include "base/relaxed.h"
#include "collect/region.h"

struct collect_home;
struct collect_link;
struct collect_live;
struct collect_pair_latency;
struct collect_self;
struct collect_tracer;

#define COLLECT_HOST_NAMES 64u

/* What the links to one host share. A region stays with its link until the link releases it. */
struct collect_host {
	struct collect_collector *c;
	const char *target, *fabric;
	struct collect_link **link;
	unsigned int links;
	char *hostname;	       /* the last of name[], replaced by an atomic store */
	uint64_t last_read_ns; /* CLOCK_REALTIME */
	uint64_t fresh_ns;     /* CLOCK_MONOTONIC */
	pthread_mutex_t lock;  /* of the rest */
	struct collect_home *home;
	size_t homes, home_capacity;
	struct collect_region *flows; /* its flow table, or NULL */
	uint64_t releases; /* homes released: an instance may have come back in another entry */
	uint32_t *load;
	/* Any thread may use them: freed with the collector only, so their number is bounded. */
	char *name[COLLECT_HOST_NAMES];
	unsigned int names;
};

/*
 * A thread that owns links and, in them, connections, READs and regions. It takes no lock while it
 * reads, but a short one when a region appears on a host with several links.
 */
struct collect_worker {
	struct collect_collector *c;
	unsigned int number;
	pthread_t thread;
	bool started;
	int cpu;
	struct collect_link *link;
	unsigned int links;
	struct collect_ring ring;
	uint64_t row_bytes, row_limit; /* open chunks: in use, at most */
	uint64_t *flat;
	size_t flat_cells;
	double *row; /* for taps */
	size_t row_columns;
	/* Written by the worker, read by any thread. */
	uint64_t rounds, missed, reads, bytes, lines, unsettled, samples, busy_ns, start_ns;
	uint64_t wrong_instance, map_errors, rows_lost;
	uint64_t faults[REGION_FAULT_COUNT], read_errors, latency[COLLECT_LATENCY_BUCKETS],
		latency_sum_ns;
};

/* ---- the index: all families and series, by name ---- */

/* The sum that expired processes leave to a series. Immutable. */
struct collect_retired {
	struct collect_node node;
	unsigned int refs;
	struct collect_def *def; /* a reference is held */
	struct collect_label_set *labels;
	size_t bytes;
	uint64_t cell[];
};

struct collect_item {
	uint32_t source; /* of index.snapshot, or with ITEM_RETIRED of index.retired */
	uint32_t column;
};
#define ITEM_RETIRED 0x80000000u
#define ITEM_MORE    0x80000000u /* in column: belongs to the series of the item before */

struct collect_index_family {
	struct export_family f;
	const struct collect_def *def; /* the first one */
	size_t first, items;
};

struct collect_index {
	unsigned int refs;
	struct collect_collector *c;
	struct collect_index_family *family;
	size_t families;
	struct collect_item *item;
	size_t items;
	struct collect_region **region;	    /* all listed ones, by age */
	struct collect_snapshot **snapshot; /* of the region, or NULL */
	uint32_t *by_instance;
	size_t regions;
	struct collect_retired **retired;
	size_t retireds;
	size_t series;
	size_t bytes;
};

/* ---- the collector ---- */

struct collect_collector {
	struct collect_collector_opts opts;
	struct collect_host *host;
	size_t hosts;
	struct collect_worker *worker;
	unsigned int workers;
	uint64_t seed; /* of hash tables */
	bool stop, running;
	bool over; /* no worker runs any more: control drains its queue and ends */
	/* Set before the threads start; NULL: not used. */
	struct collect_tracer *tracer;
	struct collect_live *live;
	struct dta_store_server *dta;
	struct collect_pair_latency *pair_latency;
	struct collect_tap tap[COLLECT_TAPS_MAX];
	unsigned int taps;
	pthread_t control;
	int wake_fd;
	struct collect_region *queue; /* for control: a stack, newest first */

	/* Control's. */
	struct collect_region **region;
	size_t regions, region_capacity, departed;
	bool dirty;
	uint64_t build;
	struct collect_hash retired;
	size_t retired_cells;
	struct collect_defs defs;

	pthread_mutex_t index_lock; /* of the pointer alone */
	struct collect_index *index;
	uint64_t index_builds;

	/* Read and written by any thread. */
	uint64_t age, region_count, series_count, memory;
	uint64_t expired, refused_regions, refused_series, refused_history;
	uint64_t conflicts_kind, conflicts_name, conflicts_duplicate, conflicts_sum;
	uint64_t retired_lost;
	uint64_t tcp_groups, flow_slots; /* in use */
};

/* ---- reference counts of objects shared between threads ---- */

static inline void collect_ref_get(unsigned int *refs)
{
	__atomic_fetch_add(refs, 1, __ATOMIC_RELAXED);
}

/* True for the last reference: all accesses by other holders happened before. */
static inline bool collect_ref_put(unsigned int *refs)
{
	return __atomic_fetch_sub(refs, 1, __ATOMIC_ACQ_REL) == 1;
}

/* ---- index.c: control makes a new one when something changed; a reference keeps what it has ----
 */

struct collect_index *collect_index_new(struct collect_collector *c);
struct collect_index *collect_index_get(struct collect_collector *c);
void collect_index_put(struct collect_index *x);
/* Position of the region with this instance, or -1. */
ssize_t collect_index_find(const struct collect_index *x, uint64_t instance);

/* Of a series: its definition, and the labels of its region, or of the group if processes are
 * summed. */
const struct collect_def *collect_index_def(const struct collect_index *x,
					    const struct collect_item *i);
const struct collect_label_set *collect_index_labels(const struct collect_index *x,
						     const struct collect_item *i);
/* Adds the counters of a region to the sums that outlive it. Control only. */
void collect_retire_region(struct collect_collector *c, struct collect_region *r);
void collect_retired_free(struct collect_collector *c);
/* Adds the cells of a metric: u64 as integers, f64 as doubles, states as bits. */
void collect_sum_cells(const struct region_metric *m, uint64_t *to, const uint64_t *from);

/* ---- host.c ---- */

int collect_host_init(struct collect_host *h, struct collect_collector *c, const char *target,
		      unsigned int links);
void collect_host_free(struct collect_host *h);
/*
 * Assigns the region to the least loaded link unless it has one. Returns 1 if l reads it, 0 if
 * another link does, -ENOMEM.
 */
int collect_host_claim(struct collect_host *h, struct collect_link *l, uint64_t instance);
void collect_host_release(struct collect_host *h, struct collect_link *l, uint64_t instance);
void collect_host_set_name(struct collect_host *h, const char *name);
const char *collect_host_name(const struct collect_host *h);
enum collect_host_condition collect_host_condition(const struct collect_host *h, uint64_t now_ns);

/* ---- worker.c ---- */

void *collect_worker_main(void *arg);
unsigned int collect_latency_bucket(uint64_t ns);

/* ---- control.c ---- */

void *collect_control_main(void *arg);
void collect_control_wake(struct collect_collector *c);

/* ---- self/: the collector's own families ---- */

/* The name is reserved: a family of the collector, or a sample of one, is exposed under it. */
bool collect_self_has(const char *name);
/* A walk over the series. NULL: out of memory. */
struct collect_self *collect_self_begin(struct collect_collector *c, struct collect_index *x);
/* The next family, by name, that is exposed because its feature is in use; NULL: no more. */
const struct export_family *collect_self_peek(struct collect_self *s);
/* Moves on to the series of that family. */
void collect_self_enter(struct collect_self *s);
int collect_self_next(struct collect_self *s, struct export_series *out);
void collect_self_end(struct collect_self *s);

#endif
