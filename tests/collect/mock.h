/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mock.h - a fabric whose hosts are memory of the test: READs may be held back, come out of order,
 * torn, or not at all. It stands in for src/fabric/fabric.c at link time.
 */
#ifndef TESTS_COLLECT_MOCK_H
#define TESTS_COLLECT_MOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../region/make_region.h"

#define MOCK_REGIONS 4096
#define MOCK_HOSTS   8

struct mock_region {
	const void *memory; /* NULL: no such id */
	uint64_t bytes;
	bool no_map; /* mapping fails */
	uint64_t reads;
	uint64_t hot_at, pass; /* reads at the last one of its hot line; how many there were from
				  one to the next */
};

struct mock_host {
	char target[64];
	pthread_mutex_t lock;
	/* Under the lock. */
	struct make directory;
	struct mock_region region[MOCK_REGIONS]; /* by id */
	bool up;
	uint64_t epoch;
	bool hold;	  /* READs are taken and do not come back */
	uint64_t hold_at; /* hold is set at this READ of region 1; 0: not */
	bool hold_cells;  /* READs of region 1 come back up to one of its hot line, and then none */
	bool cells_held;  /* that is so now */
	bool shuffle;	  /* they come back in any order */
	unsigned int tear; /* percent of the copies of a line that are torn */
	unsigned int fail; /* percent of READs that time out, and the connection with them */
	uint64_t directory_reads, maps, unmaps;
	/* READs of regions posted more than two leases after the last READ of the directory's hot
	 * line that was answered had been posted. */
	uint64_t late_reads;
	uint64_t rng;
};

/* Makes a host with a directory of this many entries; it is up. Before the collector starts. */
struct mock_host *mock_host(const char *target, uint32_t entries);
/* Puts a region at entry index with id; the directory's generation moves. */
void mock_put(struct mock_host *h, uint32_t index, uint64_t id, const void *memory, uint64_t bytes,
	      uint32_t state, uint64_t instance);
/* The same of a region of any kind. */
void mock_put_kind(struct mock_host *h, uint32_t index, uint64_t id, const void *memory,
		   uint64_t bytes, uint32_t state, uint64_t instance, uint32_t kind);
/* The same of a table of connections. */
void mock_put_flows(struct mock_host *h, uint32_t index, uint64_t id, const void *memory,
		    uint64_t bytes, uint32_t state, uint64_t instance);
struct region_tenant;
/* Gives the directory records of tenants. Before the collector starts. */
void mock_tenants(struct mock_host *h);
/* Writes the record of an entry's tenant. */
void mock_tenant(struct mock_host *h, uint32_t index, const struct region_tenant *who);
/* Before the collector starts: the names of an entry, as of this id. */
void mock_names(struct mock_host *h, uint32_t index, uint64_t id, const struct region_names *names);
/* A new agent: all entries are gone. */
void mock_restart(struct mock_host *h);
void mock_set(struct mock_host *h, bool up);
void mock_reset(void); /* frees all hosts */

#endif
