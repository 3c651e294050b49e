/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - one connection of a worker to a host. Owned by the worker, except for the fields that
 * other threads read. The kernel tables of the host are read beside the rounds by collect/kernel/.
 */
#ifndef SL_COLLECT_LINK_LINK_H
#define SL_COLLECT_LINK_LINK_H

#include <pthread.h>

#include "collect/collector_internal.h"
#include "region/layers.h"

struct collect_fetch;
struct collect_op;
struct collect_workload;

#define LINK_OPS   512u
#define LINK_TRIES 4u /* READs of a line that does not settle, per round */

/* What a kind of READ does with its result. NULL functions do nothing. */
struct collect_op_kind {
	/*
	 * The bytes are at read->to. Returns false to have them read again, after narrowing *read
	 * down if part of them is good; without effect after LINK_TRIES READs.
	 */
	bool (*take)(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		     uint64_t now_ns);
	/* The READ failed, or its connection was lost: then op->epoch is not l->epoch. */
	void (*failed)(struct collect_link *l, struct collect_op *op, int status, uint64_t now_ns);
	/* After either: the READ is no longer in flight and op is about to be reused. */
	void (*over)(struct collect_link *l, struct collect_op *op, const struct fabric_read *read,
		     uint64_t now_ns);
};

struct collect_op {
	const struct collect_op_kind *kind;
	struct collect_region *region; /* or NULL */
	uint64_t posted_ns, epoch;
	uint32_t index;	    /* the kind's: an entry, a READ of the plan, a byte of the schema */
	uint32_t low, high; /* of a pass: bytes of the plan's READ that this one reads */
	struct collect_fetch *fetch; /* fetch.c's, until it is answered */
	uint8_t tries;
};

/* A directory entry as the link knows it. */
struct collect_slot {
	uint64_t line[8]; /* as last applied */
	struct collect_region *region;
	uint64_t id;
	bool refused; /* was counted */
	bool foreign; /* read by another link, when it was last looked at */
};

/* The kernel tables of a host, each read by its first link. */
enum collect_table { TABLE_FLOWS, TABLE_LAYERS, TABLE_TASKS, TABLE_SEGMENTS, TABLES };

/* Of all tables of a kind that the link had. Read by any thread. */
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

struct collect_link {
	struct collect_collector *c;
	struct collect_host *host;
	struct collect_worker *worker;
	unsigned int queue; /* number among the host's */
	struct fabric *fabric;
	enum fabric_state state;
	uint64_t epoch, drive_ns, up_ns;
	bool tried, settled; /* settled: everything found at first was read */
	bool away;	     /* logged as not reached */

	/* Directory. */
	struct region_info *dir;
	bool dir_known, dir_busy, dir_moved;
	uint64_t dir_retry_ns, dir_ok_ns, dir_lease_ns, dir_generation, dir_wanted;
	uint64_t entries_generation, again_ns, orphans_ns;
	uint64_t releases; /* of the host, when foreign entries were last looked at */
	uint32_t dir_used, entries_next, entries_end, entries_out, entries_unsettled;
	uint64_t entries_at_ns, entries_start_ns;
	bool entries_active;
	struct collect_slot *slot;
	uint32_t slots;

	/* Regions. */
	struct collect_region **region;
	uint32_t regions, region_capacity;
	struct collect_hash by_instance;
	struct collect_region **urgent;
	uint32_t urgents, urgent_capacity;
	uint64_t urgent_ns; /* nothing of them is due before */

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

	/* Fetches: a stack that any thread pushes onto; those accepted, in order; READs in flight.
	 */
	struct collect_fetch *fetch_queue, *fetch;
	uint32_t fetches_out;

	/* Kernel tables: collect/kernel/table_reader.h. */
	struct {
		struct collect_region *region; /* one of region[], or NULL */
		bool had;		       /* the host had one before */
	} table[TABLES];
	struct collect_workload *workloads;
	uint64_t workloads_ns;

	/* Written by the worker, read by any thread. */
	struct collect_table_stats table_stats[TABLES];
	struct collect_flow_stats flow_stats;
	struct collect_slot_stats slot_stats[SLOT_TABLES];
	uint64_t rounds, skipped, region_count, duplicates;
	pthread_mutex_t stats_lock;
	struct fabric_stats stats;
	uint64_t stats_ns;
};

/* ---- link.c ---- */

int collect_link_init(struct collect_link *l, struct collect_worker *w, struct collect_host *h,
		      unsigned int queue, char *error, size_t error_bytes);
void collect_link_free(struct collect_link *l);
/* Drives the connection, takes completions, posts READs. True if anything was done. */
bool collect_link_poll(struct collect_link *l, uint64_t now_ns);
void collect_link_start_round(struct collect_link *l, uint64_t now_ns);

/* ---- reads.c ---- */

int collect_reads_init(struct collect_link *l);
void collect_reads_free(struct collect_link *l);
/* A READ to be posted by the next collect_reads_post(), with its landing; NULL: no room now. */
struct collect_op *collect_reads_new(struct collect_link *l, const struct collect_op_kind *kind,
				     struct collect_region *r, const struct fabric_remote *remote,
				     uint64_t offset, uint32_t length);
/* Posts new and repeated READs as far as the fabric takes them. True if it took any. */
bool collect_reads_post(struct collect_link *l, uint64_t now_ns);
/* Takes completions. True if there was any. */
bool collect_reads_poll(struct collect_link *l, uint64_t now_ns);
/* Fails the READs that the fabric never took, which would not complete by themselves. */
void collect_reads_cancel(struct collect_link *l, uint64_t now_ns);

/* ---- directory.c ---- */

/* The directory was read within its lease, so its addresses may be used. */
bool collect_directory_lease_holds(const struct collect_link *l, uint64_t now_ns);
/* Reads the hot line, or first the header; one READ at a time. */
void collect_directory_read(struct collect_link *l, uint64_t now_ns);
/* Reads the entries if they changed. */
void collect_directory_read_entries(struct collect_link *l, uint64_t now_ns);
void collect_directory_forget(struct collect_link *l);
/* Removes regions that a restarted agent does not know: their publishers ended meanwhile. */
void collect_directory_expire_orphans(struct collect_link *l, uint64_t now_ns);

/* ---- table.c ---- */

void collect_table_free(struct collect_link *l);
struct collect_region *collect_table_find(struct collect_link *l, uint64_t instance);
/* NULL: out of memory, or max_regions reached. */
struct collect_region *collect_table_add(struct collect_link *l, uint64_t instance);
/* Removes r from the table now; it is freed when no READ of it is in flight. */
void collect_table_remove(struct collect_link *l, struct collect_region *r);
/* Frees removed regions. Only between rounds, when no position in region[] is held. */
void collect_table_sweep(struct collect_link *l);
/* Has collect_region_setup() look after r until it has nothing to wait for. */
void collect_table_urgent(struct collect_link *l, struct collect_region *r);

/* ---- region_state.c ---- */

void collect_region_unmap(struct collect_link *l, struct collect_region *r);
/* Sets the step and queues the region for control if it changed. */
void collect_region_set_step(struct collect_region *r, enum collect_step step);
/* A directory entry names it: it is to be mapped. */
void collect_region_bind(struct collect_link *l, struct collect_region *r,
			 const struct region_entry *e, uint32_t index);
/* No entry names it any more. */
void collect_region_unbind(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* Maps it again later: it cannot be read now, through no fault of its own. */
void collect_region_retry_later(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* Maps the region of a failed READ again if its memory is gone or has moved. */
void collect_region_read_failed(struct collect_link *l, struct collect_op *op, int status,
				uint64_t now_ns);
/* Hides its series and tries it again after a delay that doubles: its content is not valid. */
void collect_region_drop(struct collect_link *l, struct collect_region *r, enum region_fault fault,
			 uint64_t now_ns);
/* Takes the state of its publisher from the entry. */
void collect_region_state(struct collect_link *l, struct collect_region *r,
			  const struct region_entry *e);

/* ---- region_setup.c ---- */

void collect_region_setup(struct collect_link *l, uint64_t now_ns);

/* ---- pass.c ---- */

/* False: out of memory. */
bool collect_pass_start(struct collect_link *l, struct collect_region *r);
/* Posts READs as far as there is room. True if the whole pass is in flight. */
bool collect_pass_issue(struct collect_link *l, struct collect_region *r);
/* Discards the pass: its memory is no longer ours, or not believed. */
void collect_pass_abort(struct collect_link *l, struct collect_region *r);
/* Ends a half-posted pass, so that the round does not wait for the rest. */
void collect_pass_cut_short(struct collect_link *l, struct collect_region *r);
/* Publishes values by cell of a synthetic region. */
void collect_pass_publish(struct collect_link *l, struct collect_region *r, const uint64_t *cell,
			  uint64_t now_ns);

/* ---- schema.c ---- */

/* Requests the schema if the layout changed, at a bounded rate. */
void collect_schema_want(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
void collect_schema_read(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* Installs control's layout if it is there. Not during a pass. */
void collect_schema_install(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* Discards what is being read. */
void collect_schema_abort(struct collect_region *r);

/* ---- tap.c ---- */

/* A pass is complete; cell: its values by cell. */
void collect_tap_row(struct collect_link *l, struct collect_region *r, const uint64_t *cell);
void collect_tap_gone(struct collect_region *r);

/* ---- fetch.c ---- */

/* Starts the fetches that can be read and answers those that cannot. */
void collect_fetch_poll(struct collect_link *l, uint64_t now_ns);
/* Answers the rest with -ECANCELED. */
void collect_fetch_free(struct collect_link *l);

#endif
