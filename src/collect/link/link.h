/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - one connection of a worker to a host, and what the files share that make it up. All of
 * it is the worker's, but for what "seen by others" says.
 *
 *   link.c       the connection and its rounds
 *   directory.c  which regions there are
 *   table.c      the regions, by instance
 *   life.c       a region's way from step to step
 *   collect_region_setup.c   regions that are not just read in rounds
 *   schema.c     a region's schema, in pieces
 *   pass.c       one reading of a region's lines
 *   tap.c        values handed on, for those who asked for them
 *   fetch.c      memory of a region that somebody else asks for, once
 *   reads.c      READs: landing, posting, completing
 *
 * and beside the rounds, by flows.h, a table of connections, by slots.h those of layers and tasks,
 * and by net_ring.h a ring of segments.
 *
 * Who calls whom: link.c all of them; collect_region_setup.c schema.c, pass.c and life.c;
 * directory.c life.c and table.c. Whoever wants memory of the host asks reads.c for a READ of his
 * own kind.
 */
#ifndef SL_COLLECT_LINK_LINK_H
#define SL_COLLECT_LINK_LINK_H

#include "collect/internal.h"
#include "region/flows.h"
#include "region/layers.h"
#include "region/tasks.h"

/* ---- READs ---- */

struct collect_op;
struct collect_fetch;

/* What a kind of READ does with what comes back. A function that is not there does nothing. */
struct collect_op_kind {
	/*
	 * The bytes are at read->to. False to have it read again, which may have been narrowed down
	 * in *read; said in vain when it was read LINK_TRIES times.
	 */
	bool (*take)(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		     uint64_t now_ns);
	/* It failed, or belongs to a connection that was lost: op->epoch is not l->epoch then. */
	void (*failed)(struct collect_link *l, struct collect_op *op, int status, uint64_t now_ns);
	/* After either: it does not count as on the way any more, and op is about to be reused. */
	void (*over)(struct collect_link *l, struct collect_op *op, const struct fabric_read *read,
		     uint64_t now_ns);
};

struct collect_op {
	const struct collect_op_kind *kind;
	struct collect_region *region; /* or NULL */
	uint64_t posted_ns, epoch;
	uint32_t index;	    /* the kind's: an entry, a READ of the plan, a byte of the schema */
	uint32_t low, high; /* of a pass: bytes of the plan's READ that this one asks for */
	struct collect_fetch *fetch; /* of fetch.c: until it is answered */
	uint8_t tries;
};

#define LINK_OPS   512u
#define LINK_TRIES 4u /* READs of a line that does not settle, in one round */

/* What the link knows of an entry of the directory. */
struct collect_slot {
	uint64_t line[8]; /* as last applied */
	struct collect_region *region;
	uint64_t id;
	bool refused; /* was counted */
	bool foreign; /* another link's, when it was looked at */
};

/* Of tables of connections, over all that the link had. Seen by others. */
struct collect_flow_stats {
	uint64_t passes, missed, unsettled, slots;
	uint64_t opened, closed;
	uint64_t gaps;	       /* lines of the journal that nobody read */
	uint64_t unseen;       /* flows that came and went between two passes: bytes are known */
	uint64_t from_journal; /* final bytes by the journal, the rest as it was seen last */
	uint64_t lost;	       /* flows whose end nobody saw */
	uint64_t refused;      /* slots that there is no room for, now */
	uint64_t other;	       /* flows that went to the others */
	uint64_t tables;       /* that stood beside another one: not read */
};

/* Of tables of layers and of tasks, by slots_index(). Seen by others. */
#define SLOT_TABLES 2
struct collect_slot_stats {
	uint64_t passes, missed, unsettled;
	uint64_t refused;	  /* slots that there is no room for, now */
	uint64_t reused;	  /* slots that are another's, and nobody saw their last values */
	uint64_t tables;	  /* that stood beside another one: not read */
	uint64_t present;	  /* there is one now */
	uint64_t lost[SL_CAUSES]; /* as the host counts them */
};

struct collect_link {
	struct collect_collector *c;
	struct collect_host *host;
	struct collect_worker *worker;
	unsigned int queue; /* number among the host's */
	struct fabric *fabric;
	enum fabric_state state;
	uint64_t epoch, drive_ns, up_ns;
	bool tried, settled; /* settled: everything found at first was read */
	bool away;	     /* and it was told that the host is not reached */

	/* Directory. */
	struct region_info *dir;
	bool dir_known, dir_busy, dir_moved;
	uint64_t dir_retry_ns, dir_ok_ns, dir_lease_ns, dir_generation, dir_wanted;
	uint64_t entries_generation, again_ns, orphans_ns;
	uint64_t releases; /* of the host, that the foreign entries were looked at after */
	uint32_t dir_used, entries_next, entries_end, entries_out, entries_unsettled;
	uint64_t entries_at_ns, entries_start_ns;
	bool entries_active;
	struct collect_slot *slot;
	uint32_t slots;

	/* Regions. */
	struct collect_region **region;
	uint32_t regions, region_capacity;
	struct collect_region **bucket;
	uint32_t buckets;
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
	int64_t real_ns; /* CLOCK_REALTIME of the completions that are being taken */

	/* What others want read: pushed by any thread; queued, and how many READs it made so far.
	 */
	struct collect_fetch *fetch_queue, *fetch;
	uint32_t fetches_out;

	/* The table of connections, and what is made of it: flows.h. */
	struct collect_region *flows; /* one of region[] */
	bool had_flows;
	struct collect_workload *workloads;
	uint64_t workloads_ns;
	struct collect_flow_stats flow_stats;

	/* Tables of layers and of tasks: slots.h. */
	struct collect_region *slots_of[SLOT_TABLES]; /* of region[] */
	bool had_slots[SLOT_TABLES];
	struct collect_slot_stats slot_stats[SLOT_TABLES];

	struct collect_region *net; /* the ring of segments: net_ring.h. One of region[] */

	/* Seen by others. */
	uint64_t rounds, skipped, region_count, duplicates;
	pthread_mutex_t stats_lock;
	struct fabric_stats stats;
	uint64_t stats_ns;
};

/* ---- link.c ---- */

int collect_link_init(struct collect_link *l, struct collect_worker *w, struct collect_host *h,
		      unsigned int queue, char *error, size_t error_bytes);
void collect_link_free(struct collect_link *l);
/* One turn: connection, completions, next READs. True if anything was done. */
bool collect_link_poll(struct collect_link *l, uint64_t now_ns);
void collect_link_start_round(struct collect_link *l, uint64_t now_ns);

/* ---- reads.c ---- */

int collect_reads_init(struct collect_link *l);
void collect_reads_free(struct collect_link *l);
/* A READ to be posted by the next collect_reads_post(), landing included; NULL if there is no room
 * now. */
struct collect_op *collect_reads_new(struct collect_link *l, const struct collect_op_kind *kind,
				     struct collect_region *r, const struct fabric_remote *remote,
				     uint64_t offset, uint32_t length);
/* Posts what is new or to be read again, as far as the fabric takes it. True if it took any. */
bool collect_reads_post(struct collect_link *l, uint64_t now_ns);
/* Takes what has completed. True if there was any. */
bool collect_reads_poll(struct collect_link *l, uint64_t now_ns);
/* Ends those that the fabric never took: they won't complete by themselves. */
void collect_reads_cancel(struct collect_link *l, uint64_t now_ns);

/* ---- tap.c ---- */

/* A pass is complete. */
void collect_tap_row(struct collect_link *l, struct collect_region *r, const uint64_t *cell);
void collect_tap_gone(struct collect_region *r);

/* ---- fetch.c ---- */

/* Starts what can be read, answers what can't. */
void collect_fetch_poll(struct collect_link *l, uint64_t now_ns);
void collect_fetch_free(struct collect_link *l);

/* ---- directory.c ---- */

/* Was the directory read so lately that what it said may be relied on? */
bool collect_directory_lease_holds(const struct collect_link *l, uint64_t now_ns);
/* Its hot line, or at first its header; one at a time. */
void collect_directory_read(struct collect_link *l, uint64_t now_ns);
/* Its entries, if they changed. */
void collect_directory_read_entries(struct collect_link *l, uint64_t now_ns);
void collect_directory_forget(struct collect_link *l);
/* Regions that the new agent does not know: their publishers ended while there was none. */
void collect_directory_expire_orphans(struct collect_link *l, uint64_t now_ns);

/* ---- table.c ---- */

int collect_table_init(struct collect_link *l);
void collect_table_free(struct collect_link *l);
struct collect_region *collect_table_find(struct collect_link *l, uint64_t instance);
/* NULL: out of memory, or of max_regions. */
struct collect_region *collect_table_add(struct collect_link *l, uint64_t instance);
/* It leaves the table now, and the memory when nothing of it is on the way any more. */
void collect_table_remove(struct collect_link *l, struct collect_region *r);
/* Frees what was removed. Between rounds: nobody holds a position in the array. */
void collect_table_sweep(struct collect_link *l);
/* collect_region_setup() looks after it until there is nothing to wait for. */
void collect_table_urgent(struct collect_link *l, struct collect_region *r);

/* ---- life.c ---- */

void collect_region_unmap(struct collect_link *l, struct collect_region *r);
void collect_region_condition(struct collect_region *r, enum collect_step step);
/* An entry of the directory names it: it is to be mapped. */
void collect_region_bind(struct collect_link *l, struct collect_region *r,
			 const struct region_entry *e, uint32_t index);
/* No entry names it any more. */
void collect_region_unbind(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* It can't be read now, for no fault of its own. */
void collect_region_retry_later(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* It lied. Its series go, the others stay, and it is looked at again some time. */
void collect_region_drop(struct collect_link *l, struct collect_region *r, enum region_fault fault,
			 uint64_t now_ns);
/* What the entry says of its publisher. */
void collect_region_state(struct collect_link *l, struct collect_region *r,
			  const struct region_entry *e);

/* ---- collect_region_setup.c ---- */

void collect_region_setup(struct collect_link *l, uint64_t now_ns);

/* ---- schema.c ---- */

/* Wants the schema if the layout moved, not too often. */
void collect_schema_want(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
void collect_schema_read(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* Takes what control made of it, if it has. Not during a pass. */
void collect_schema_install(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
/* What is being read of it is of no use any more. */
void collect_schema_abort(struct collect_region *r);

/* ---- pass.c ---- */

/* False if out of memory. */
bool collect_pass_start(struct collect_link *l, struct collect_region *r);
/* Posts what there is room for. True if all of the pass is on its way. */
bool collect_pass_issue(struct collect_link *l, struct collect_region *r);
/* What is on the way comes from memory that is not ours any more, or not believed. */
void collect_pass_abort(struct collect_link *l, struct collect_region *r);
/* Values by cell of a region, for everybody. */
void collect_pass_show(struct collect_link *l, struct collect_region *r, const uint64_t *cell,
		       uint64_t now_ns);
/* A pass that was half posted is not continued: the round would wait for the rest for ever. */
void collect_pass_cut_short(struct collect_link *l, struct collect_region *r);

#endif
