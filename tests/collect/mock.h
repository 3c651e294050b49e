/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mock.h - a fabric whose hosts are memory of the test: READs can be held back, or arrive out of
 * order, torn, or not at all. It replaces src/fabric/fabric.c at link time.
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
	/* reads at the last READ of its hot line, and the number between the last two */
	uint64_t hot_at, pass;
};

struct mock_host {
	char target[64];
	pthread_mutex_t lock;
	/* Under the lock. */
	struct make directory;
	struct mock_region region[MOCK_REGIONS]; /* by id */
	bool up;
	uint64_t epoch;
	bool hold;	   /* READs are accepted and do not complete */
	uint64_t hold_at;  /* hold is set at this READ of region 1; 0: never */
	bool hold_cells;   /* READs of region 1 complete until one of its hot line, and then none */
	bool cells_held;   /* that is so now */
	bool shuffle;	   /* READs complete in any order */
	unsigned int tear; /* percent of the copies of a line that are torn */
	unsigned int fail; /* percent of READs that time out, and the connection with them */
	uint64_t directory_reads, maps, unmaps;
	uint64_t open; /* number of connections that are not closed */
	/*
	 * Number of READs of regions that were posted more than two leases after the last answered
	 * READ of the directory's hot line had been posted.
	 */
	uint64_t late_reads;
	uint64_t rng;
	const char *error; /* error of fabric_stats(), and its time; NULL means none */
	uint64_t error_ns;
};

/*
 * Makes a host with a directory of this many entries, which is reachable. Call before the collector
 * starts.
 */
struct mock_host *mock_host(const char *target, uint32_t entries);
/* Puts a region with id at entry index; the directory's generation grows. */
void mock_put(struct mock_host *h, uint32_t index, uint64_t id, const void *memory, uint64_t bytes,
	      uint32_t state, uint64_t instance);
/* The same of a region of any kind. */
void mock_put_kind(struct mock_host *h, uint32_t index, uint64_t id, const void *memory,
		   uint64_t bytes, uint32_t state, uint64_t instance, uint32_t kind);
/* The same of a table of connections. */
void mock_put_flows(struct mock_host *h, uint32_t index, uint64_t id, const void *memory,
		    uint64_t bytes, uint32_t state, uint64_t instance);
struct region_tenant;
/* Adds records of tenants to the directory. Call before the collector starts. */
void mock_tenants(struct mock_host *h);
/* Writes the record of an entry's tenant. */
void mock_tenant(struct mock_host *h, uint32_t index, const struct region_tenant *who);
/* Sets the names of an entry, for this id. Call before the collector starts. */
void mock_names(struct mock_host *h, uint32_t index, uint64_t id, const struct region_names *names);
/* Simulates a new agent: all entries are removed. */
void mock_restart(struct mock_host *h);
void mock_set(struct mock_host *h, bool up);
void mock_reset(void); /* frees all hosts */

#endif
