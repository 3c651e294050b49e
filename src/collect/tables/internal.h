/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - internal state of the tables. The tables of a host belong to the worker of its first
 * link, except where marked.
 */
#ifndef SL_COLLECT_TABLES_INTERNAL_H
#define SL_COLLECT_TABLES_INTERNAL_H

#include <pthread.h>

#include "base/base.h"
#include "collect/read/collector_internal.h"
#include "collect/read/host.h"
#include "collect/read/link.h"
#include "collect/tables/tables.h"

struct collect_pair_latency;
struct collect_workload;

/* The tables of a host. */
enum collect_table { TABLE_FLOWS, TABLE_LAYERS, TABLE_TASKS, TABLE_SEGMENTS, TABLES };

/* Totals over all tables of one kind that the host has had. Read by any thread. */
struct collect_table_stats {
	uint64_t passes, missed, unsettled;
	uint64_t present; /* 1 if there is a table now */
	uint64_t refused; /* current number of slots beyond the limit */
	uint64_t ignored; /* tables ignored because the host already had one */
};

/* Counters of flow tables. Read by any thread. */
struct collect_flow_stats {
	uint64_t slots, opened, closed;
	uint64_t gaps; /* journal lines overwritten before they were read */
	/* flows that began and ended between two passes: only their bytes are known */
	uint64_t unseen;
	/* flows whose final bytes come from the journal, and the rest from the last pass */
	uint64_t from_journal;
	uint64_t lost;	  /* number of flows whose end was missed */
	uint64_t unread;  /* number of flows that ended in a slot that is not read */
	uint64_t other;	  /* number of flows counted as "other" */
	uint64_t dropped; /* 0 if the host has not dropped segments */
};

/* Counters of layer and task tables, by kind. Read by any thread. */
struct collect_slot_stats {
	uint64_t reused;	  /* slots reused before their final values were read */
	uint64_t lost[SL_CAUSES]; /* losses as counted by the host */
};
#define SLOT_TABLES 2

struct collect_host_tables {
	struct collect_tables *all;
	struct {
		/* region of the table, or NULL; other threads may read it under the lock */
		struct collect_region *region;
		bool had; /* the host had such a table before */
	} table[TABLES];
	pthread_mutex_t lock;
	struct collect_workload *workloads;
	uint64_t workloads_ns; /* next time to look for idle workloads */
	uint64_t groups;       /* the host's part of collect_tables.groups */
	/* Read by any thread. */
	struct collect_table_stats table_stats[TABLES];
	struct collect_flow_stats flow_stats;
	struct collect_slot_stats slot_stats[SLOT_TABLES];
};

struct collect_tables {
	struct collect_collector *c;
	struct collect_tables_opts o;
	struct collect_host_tables *host; /* indexed by host number */
	struct collect_pair_latency *pair_latency;
	uint64_t groups, flow_slots; /* groups and flow slots in use by all workers */
	uint64_t flow_tables;	     /* number of hosts with a flow table */
};

/*
 * Takes n more of a limit for a host that holds `held`. The last quarter of the limit is only for
 * hosts that hold less than an equal part of it, so no host can leave another without any.
 */
static inline bool collect_tables_take(struct collect_tables *all, uint64_t *used, uint64_t limit,
				       uint64_t held, uint64_t n)
{
	const uint64_t now = relaxed_add(*used, n) + n;
	const uint64_t last = all->c->hosts > 1 ? limit / 4 : 0;
	const uint64_t part = last / BASE_MAX(relaxed_load(all->flow_tables), 1u);

	if (now <= limit - last || (now <= limit && held + n <= BASE_MAX(part, n)))
		return true;
	relaxed_sub(*used, n);
	return false;
}

extern const struct collect_part collect_tables_part; /* tables.c */

static inline struct collect_host_tables *collect_tables_of(const struct collect_link *l)
{
	return l->host->beside;
}

#endif
