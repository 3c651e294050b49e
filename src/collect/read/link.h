/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - one connection of a worker to a host. The worker owns the link; other threads may read
 * only the marked fields.
 */
#ifndef SL_COLLECT_READ_LINK_H
#define SL_COLLECT_READ_LINK_H

#include <pthread.h>

#include "collect/read/collector_internal.h"
#include "collect/read/reads.h"

/* A directory entry as last seen by the link. */
struct collect_slot {
	uint64_t line[8]; /* the entry's line as last applied */
	struct collect_region *region;
	uint64_t id;
	bool refused; /* the refusal has been counted */
	bool foreign; /* another link read the region when the entry was last checked */
};

struct collect_link {
	struct collect_collector *c;
	struct collect_host *host;
	struct collect_worker *worker;
	unsigned int queue; /* number of the link among the host's links */
	struct fabric *fabric;
	enum fabric_state state;
	uint64_t epoch, drive_ns, up_ns;
	bool paused;	     /* the host is not wanted, and all its regions are released */
	bool broken;	     /* the link could not be opened */
	bool tried, settled; /* settled: all regions of the first directory were read */
	bool away;	     /* logged as unreachable */

	/* Directory. */
	struct region_info *dir;
	bool dir_known, dir_busy, dir_moved;
	uint64_t dir_retry_ns, dir_ok_ns, dir_lease_ns, dir_generation, dir_wanted;
	uint64_t entries_generation, again_ns, orphans_ns;
	uint64_t releases; /* the host's release count when foreign entries were last checked */
	uint32_t dir_used, entries_next, entries_end, entries_out, entries_unsettled;
	uint64_t entries_at_ns, entries_start_ns;
	bool entries_active;
	struct collect_slot *slot;
	uint32_t slots;

	/* Regions. */
	struct collect_region **region;
	uint32_t regions, region_capacity;
	struct base_table by_instance;
	struct collect_region **urgent;
	uint32_t urgents, urgent_capacity;
	uint64_t urgent_ns; /* no urgent region is due before this time */

	/* Tenants with regions on this link, and the measured cost per line (turn.h). */
	struct collect_tenant **tenant;
	uint32_t tenants, tenant_capacity, turn_stamp;
	uint64_t divide_ns, turn_lines, turn_busy_ns, line_ns;
	/* Number of tenants with schemas to read: in this poll so far, and in the previous poll. */
	uint32_t schema_tenants, schema_tenants_before, schema_stamp;

	/* The round. */
	bool active, gated;
	uint32_t cursor, passes;
	uint64_t progress_ns;

	/* READs. */
	struct fabric_read *read;
	struct collect_op *op;
	uint32_t op_head, op_posted, ops_live;
	uint32_t repost[LINK_OPS], reposts;
	uint8_t *landing;
	size_t landing_bytes, landing_used;
	int64_t real_ns; /* CLOCK_REALTIME of the completions being taken */

	/*
	 * Fetches: a stack that any thread pushes onto, the accepted requests in order, and the
	 * number of READs in flight.
	 */
	struct collect_fetch *fetch_queue, *fetch;
	uint32_t fetches_out;

	/* Written by the worker, read by any thread. */
	uint64_t rounds, skipped, region_count, duplicates;
	pthread_mutex_t stats_lock;
	struct fabric_stats stats;
	uint64_t stats_ns;
};

int collect_link_init(struct collect_link *l, struct collect_worker *w, struct collect_host *h,
		      unsigned int queue, char *error, size_t error_bytes);
/* Initializes the link of a spare host, which has no connection until the host is wanted. */
void collect_link_init_spare(struct collect_link *l, struct collect_worker *w,
			     struct collect_host *h, unsigned int queue);
void collect_link_free(struct collect_link *l);
/*
 * Drives the connection, takes completions and posts READs. Returns true if there was anything to
 * do.
 */
bool collect_link_poll(struct collect_link *l, uint64_t now_ns);
/* Returns when the attached reader is next due on this link; UINT64_MAX means never. */
uint64_t collect_link_due_beside(const struct collect_link *l);
void collect_link_start_round(struct collect_link *l, uint64_t now_ns);

#endif
