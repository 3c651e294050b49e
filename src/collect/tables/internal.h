/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - the tables as their files see them. Those of a host belong to the worker of its
 * first link, except where marked.
 */
#ifndef SL_COLLECT_TABLES_INTERNAL_H
#define SL_COLLECT_TABLES_INTERNAL_H

#include <pthread.h>

#include "collect/read/host.h"
#include "collect/read/link.h"
#include "collect/tables/tables.h"

struct collect_pair_latency;
struct collect_workload;

/* The tables of a host. */
enum collect_table { TABLE_FLOWS, TABLE_LAYERS, TABLE_TASKS, TABLE_SEGMENTS, TABLES };

/* Of all tables of a kind that the host had. Read by any thread. */
struct collect_table_stats {
	uint64_t passes, missed, unsettled;
	uint64_t refused; /* slots beyond the limit, now */
	uint64_t ignored; /* tables found beside another one */
};

/* Of flow tables. Read by any thread. */
struct collect_flow_stats {
	uint64_t slots, opened, closed;
	uint64_t gaps;	       /* journal lines overwritten before they were read */
	uint64_t unseen;       /* flows that came and went between two passes: bytes are known */
	uint64_t from_journal; /* final bytes by the journal, the rest as last seen */
	uint64_t lost;	       /* flows whose end was not seen */
	uint64_t other;	       /* flows counted in "other" */
};

/* Of tables of layers and of tasks, by kind. Read by any thread. */
struct collect_slot_stats {
	uint64_t reused;	  /* slots reused before their final values were read */
	uint64_t present;	  /* there is a table now */
	uint64_t lost[SL_CAUSES]; /* as the host counts them */
};
#define SLOT_TABLES 2

struct collect_host_tables {
	struct collect_tables *all;
	struct {
		struct collect_region *region; /* or NULL */
		bool had;		       /* the host had one before */
	} table[TABLES];
	struct collect_workload *workloads;
	uint64_t workloads_ns;	      /* when to look for idle ones next */
	pthread_mutex_t lock;	      /* of the pointer alone */
	struct collect_region *flows; /* table[TABLE_FLOWS] with a reference, for other threads */
	/* Read by any thread. */
	struct collect_table_stats table_stats[TABLES];
	struct collect_flow_stats flow_stats;
	struct collect_slot_stats slot_stats[SLOT_TABLES];
};

struct collect_tables {
	struct collect_collector *c;
	struct collect_tables_opts o;
	struct collect_host_tables *host; /* by the number of the host */
	struct collect_pair_latency *pair_latency;
	uint64_t groups, flow_slots; /* in use, by all workers */
};

extern const struct collect_part collect_tables_part; /* tables.c */

static inline struct collect_host_tables *collect_tables_of(const struct collect_link *l)
{
	return l->host->beside;
}

#endif
