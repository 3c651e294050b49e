/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - one connection of a worker to a host, and the functions of the files that make up its
 * work. The worker owns the link; other threads may read only the marked fields.
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
	unsigned int queue;    /* number of the link among the host's links */
	struct fabric *fabric; /* NULL while the link is closed */
	enum fabric_state state;
	uint64_t epoch, drive_ns, up_ns;
	bool paused;	     /* the host is not wanted, and all its regions are released */
	uint64_t paused_ns;  /* when it was paused */
	bool failed;	     /* the last attempt to open the link failed and was logged */
	uint64_t open_ns;    /* earliest time of the next attempt to open it */
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

void collect_link_init(struct collect_link *l, struct collect_worker *w, struct collect_host *h,
		       unsigned int queue);
/*
 * Opens the fabric and allocates the link's memory; for a spare host, only once the host is wanted.
 * Returns 0 or -errno.
 */
int collect_link_open(struct collect_link *l, char *error, size_t error_bytes);
void collect_link_free(struct collect_link *l);
/*
 * Drives the connection, takes completions and posts READs. Returns true if there was anything to
 * do.
 */
bool collect_link_poll(struct collect_link *l, uint64_t now_ns);
/* Returns when the attached reader is next due on this link; UINT64_MAX means never. */
uint64_t collect_link_due_beside(const struct collect_link *l);
void collect_link_start_round(struct collect_link *l, uint64_t now_ns);

/* ---- directory.c ---- */

/* Returns true if the directory was read within its lease, so that its addresses may be used. */
bool collect_directory_lease_holds(const struct collect_link *l, uint64_t now_ns);
/* Reads the hot line, or the header if it has not been read; one READ at a time. */
void collect_directory_read(struct collect_link *l, uint64_t now_ns);
/* Reads the entries if they changed. */
void collect_directory_read_entries(struct collect_link *l, uint64_t now_ns);
void collect_directory_forget(struct collect_link *l);
/*
 * Removes regions that a restarted agent does not list: their publishers have exited in the
 * meantime.
 */
void collect_directory_expire_orphans(struct collect_link *l, uint64_t now_ns);

/* ---- table.c ---- */

void collect_table_free(struct collect_link *l);
struct collect_region *collect_table_find(struct collect_link *l, uint64_t instance);
/* Returns NULL if out of memory or max_regions is reached. */
struct collect_region *collect_table_add(struct collect_link *l, uint64_t instance);
/* Removes r from the table at once; r is freed when none of its READs is in flight. */
void collect_table_remove(struct collect_link *l, struct collect_region *r);
/* Frees removed regions. Call only between rounds, when no position in region[] is held. */
void collect_table_sweep(struct collect_link *l);
/* Lets collect_region_setup() handle r until there is nothing left to wait for. */
void collect_table_urgent(struct collect_link *l, struct collect_region *r);

/* ---- region_state.c ---- */

void collect_region_unmap(struct collect_link *l, struct collect_region *r);
/* Sets the step, and queues the region for control if the step changed. */
void collect_region_set_step(struct collect_region *r, enum collect_step step);
/* Binds the region to the directory entry that names it; the region is then mapped. */
void collect_region_bind(struct collect_link *l, struct collect_region *r,
			 const struct region_entry *e, uint32_t index);
/* Unbinds the region because no entry names it any more. */
void collect_region_unbind(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* Maps the region again later: it cannot be read now for reasons outside the region. */
void collect_region_retry_later(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* Maps the region again after a failed READ if its memory is gone or has moved. */
void collect_region_read_failed(struct collect_link *l, struct collect_op *op, int status,
				uint64_t now_ns);
/*
 * Hides the series of a region with invalid content, and tries the region again after a delay that
 * doubles each time.
 */
void collect_region_drop(struct collect_link *l, struct collect_region *r, enum region_fault fault,
			 uint64_t now_ns);
/* Takes the publisher's state from the entry. */
void collect_region_state(struct collect_link *l, struct collect_region *r,
			  const struct region_entry *e);

/* ---- region_setup.c ---- */

void collect_region_setup(struct collect_link *l, uint64_t now_ns);

/* ---- schema.c ---- */

/* Requests the schema if the layout changed, at a bounded rate. */
void collect_schema_want(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
void collect_schema_read(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* Installs control's layout if it is ready. Must not be called during a pass. */
void collect_schema_install(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* Discards a partly read schema. */
void collect_schema_abort(struct collect_region *r);

/* ---- pass.c ---- */

/*
 * slow: no round waits for the pass, and its tenant's turn pays for it. Returns false if out of
 * memory.
 */
bool collect_pass_start(struct collect_link *l, struct collect_region *r, bool slow);
/*
 * Posts as many READs as there is room for, possibly part of a READ. Returns true if the whole pass
 * is in flight.
 */
bool collect_pass_issue(struct collect_link *l, struct collect_region *r);
/* Discards the pass, because the memory is no longer the region's or its data is not trusted. */
void collect_pass_abort(struct collect_link *l, struct collect_region *r);
/* Ends a partly posted pass, so that the round does not wait for the rest. */
void collect_pass_cut_short(struct collect_link *l, struct collect_region *r);
/* Publishes a synthetic region's values, given by cell. */
void collect_pass_publish(struct collect_link *l, struct collect_region *r, const uint64_t *cell,
			  uint64_t now_ns);

/* ---- tap.c ---- */

/* Hands a complete pass to the taps; cell: the values by cell. */
void collect_tap_row(struct collect_link *l, struct collect_region *r, const uint64_t *cell);
void collect_tap_gone(struct collect_region *r);

/* ---- link_exemplars.c ---- */

/* After a pass, READs the region's new exemplars, if any, a few at a time. */
void collect_exemplars_read(struct collect_link *l, struct collect_region *r, uint64_t now_ns);

/* ---- fetch.c ---- */

/* Starts the fetches that can be read now, and answers those that cannot be read at all. */
void collect_fetch_poll(struct collect_link *l, uint64_t now_ns);
/* Answers all remaining fetches with -ECANCELED. */
void collect_fetch_free(struct collect_link *l);

#endif
