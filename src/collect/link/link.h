/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - one connection of a worker to a host, and what the files share that make it up. All of
 * it is the worker's, but for what "seen by others" says.
 *
 *   link.c       the connection and its rounds
 *   directory.c  which regions there are
 *   table.c      the regions, by instance
 *   life.c       a region's way from step to step
 *   bring_up.c   regions that are not just read in rounds
 *   schema.c     a region's schema, in pieces
 *   pass.c       one reading of a region's lines
 *   tap.c        values handed on, for those who asked for them
 *   fetch.c      memory of a region that somebody else asks for, once
 *   reads.c      READs: landing, posting, completing
 *
 * and beside the rounds, by flows.h, a table of connections, by slots.h those of layers and tasks, and by
 * net_ring.h a ring of segments.
 *
 * Who calls whom: link.c all of them; bring_up.c schema.c, pass.c and life.c; directory.c life.c
 * and table.c. Whoever wants memory of the host asks reads.c for a READ of his own kind.
 */
#ifndef SL_COLLECT_LINK_LINK_H
#define SL_COLLECT_LINK_LINK_H

#include "collect/internal.h"
#include "region/flows.h"
#include "region/layers.h"
#include "region/tasks.h"

/* ---- READs ------------------------------------------------------------------------------------- */

struct op;
struct fetch;

/* What a kind of READ does with what comes back. A function that is not there does nothing. */
struct op_kind {
	/*
	 * The bytes are at read->to. False to have it read again, which may have been narrowed down
	 * in *read; said in vain when it was read LINK_TRIES times.
	 */
	bool (*take)(struct link *l, struct op *op, struct sl_read *read, uint64_t now_ns);
	/* It failed, or belongs to a connection that was lost: op->epoch is not l->epoch then. */
	void (*failed)(struct link *l, struct op *op, int status, uint64_t now_ns);
	/* After either: it does not count as on the way any more, and op is about to be reused. */
	void (*over)(struct link *l, struct op *op, const struct sl_read *read, uint64_t now_ns);
};

struct op {
	const struct op_kind *kind;
	struct region *region; /* or NULL */
	uint64_t posted_ns, epoch;
	uint32_t index; /* the kind's: an entry, a READ of the plan, a byte of the schema */
	uint32_t low, high; /* of a pass: bytes of the plan's READ that this one asks for */
	struct fetch *fetch; /* of fetch.c: until it is answered */
	uint8_t tries;
};

#define LINK_OPS   512u
#define LINK_TRIES 4u /* READs of a line that does not settle, in one round */

/* What the link knows of an entry of the directory. */
struct slot {
	uint64_t line[8]; /* as last applied */
	struct region *region;
	uint64_t id;
	bool refused; /* was counted */
	bool foreign; /* another link's, when it was looked at */
};

/* Of tables of connections, over all that the link had. Seen by others. */
struct flow_stats {
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
struct slot_stats {
	uint64_t passes, missed, unsettled;
	uint64_t refused; /* slots that there is no room for, now */
	uint64_t reused;  /* slots that are another's, and nobody saw their last values */
	uint64_t tables;  /* that stood beside another one: not read */
	uint64_t present; /* there is one now */
	uint64_t lost[SL_CAUSES]; /* as the host counts them */
};

struct link {
	struct sl_collector *c;
	struct host *host;
	struct worker *worker;
	unsigned int queue; /* number among the host's */
	struct sl_fabric *fabric;
	enum sl_fabric_state state;
	uint64_t epoch, drive_ns, up_ns;
	bool tried, settled; /* settled: everything found at first was read */
	bool away;	     /* and it was told that the host is not reached */

	/* Directory. */
	struct sl_region_info *dir;
	bool dir_known, dir_busy, dir_moved;
	uint64_t dir_retry_ns, dir_ok_ns, dir_lease_ns, dir_generation, dir_wanted;
	uint64_t entries_generation, again_ns, orphans_ns;
	uint64_t releases; /* of the host, that the foreign entries were looked at after */
	uint32_t dir_used, entries_next, entries_end, entries_out, entries_unsettled;
	uint64_t entries_at_ns, entries_start_ns;
	bool entries_active;
	struct slot *slot;
	uint32_t slots;

	/* Regions. */
	struct region **region;
	uint32_t regions, region_capacity;
	struct region **bucket;
	uint32_t buckets;
	struct region **urgent;
	uint32_t urgents, urgent_capacity;
	uint64_t urgent_ns; /* nothing of them is due before */

	/* The round. */
	bool active, gated;
	uint32_t cursor, passes;
	uint64_t progress_ns;

	/* READs. */
	struct sl_read *read;
	struct op *op;
	uint32_t op_head, op_posted, ops_live;
	uint32_t repost[LINK_OPS], reposts;
	uint8_t *landing;
	size_t landing_bytes, landing_used;
	int64_t real_ns; /* CLOCK_REALTIME of the completions that are being taken */

	/* What others want read: pushed by any thread; queued, and how many READs it made so far. */
	struct fetch *fetch_box, *fetch;
	uint32_t fetches_out;

	/* The table of connections, and what is made of it: flows.h. */
	struct region *flows; /* one of region[] */
	bool had_flows;
	struct workload *workloads;
	uint64_t workloads_ns;
	struct flow_stats flow_stats;

	/* Tables of layers and of tasks: slots.h. */
	struct region *slots_of[SLOT_TABLES]; /* of region[] */
	bool had_slots[SLOT_TABLES];
	struct slot_stats slot_stats[SLOT_TABLES];

	struct region *net; /* the ring of segments: net_ring.h. One of region[] */

	/* Seen by others. */
	uint64_t rounds, skipped, region_count, duplicates;
	pthread_mutex_t stats_lock;
	struct sl_fabric_stats stats;
	uint64_t stats_ns;
};

/* ---- link.c ------------------------------------------------------------------------------------ */

int link_init(struct link *l, struct worker *w, struct host *h, unsigned int queue, char *error,
	      size_t error_bytes);
void link_free(struct link *l);
/* One turn: connection, completions, next READs. True if anything was done. */
bool link_turn(struct link *l, uint64_t now_ns);
void link_start_round(struct link *l, uint64_t now_ns);

/* ---- reads.c ----------------------------------------------------------------------------------- */

int reads_init(struct link *l);
void reads_free(struct link *l);
/* A READ to be posted by the next reads_post(), landing included; NULL if there is no room now. */
struct op *reads_new(struct link *l, const struct op_kind *kind, struct region *r,
		     const struct sl_remote *remote, uint64_t offset, uint32_t length);
/* Posts what is new or to be read again, as far as the fabric takes it. True if it took any. */
bool reads_post(struct link *l, uint64_t now_ns);
/* Takes what has completed. True if there was any. */
bool reads_poll(struct link *l, uint64_t now_ns);
/* Ends those that the fabric never took: they won't complete by themselves. */
void reads_cancel(struct link *l, uint64_t now_ns);

/* ---- tap.c ------------------------------------------------------------------------------------- */

/* A pass is complete. */
void tap_row(struct link *l, struct region *r, const uint64_t *cell);
void tap_gone(struct region *r);

/* ---- fetch.c ----------------------------------------------------------------------------------- */

/* Starts what can be read, answers what can't. */
void fetch_turn(struct link *l, uint64_t now_ns);
void fetch_free(struct link *l);

/* ---- directory.c --------------------------------------------------------------------------------- */

/* Was the directory read so lately that what it said may be relied on? */
bool directory_lease_holds(const struct link *l, uint64_t now_ns);
/* Its hot line, or at first its header; one at a time. */
void directory_read(struct link *l, uint64_t now_ns);
/* Its entries, if they changed. */
void directory_read_entries(struct link *l, uint64_t now_ns);
void directory_forget(struct link *l);
/* Regions that the new agent does not know: their publishers ended while there was none. */
void directory_expire_orphans(struct link *l, uint64_t now_ns);

/* ---- table.c ------------------------------------------------------------------------------------- */

int table_init(struct link *l);
void table_free(struct link *l);
struct region *table_find(struct link *l, uint64_t instance);
/* NULL: out of memory, or of max_regions. */
struct region *table_add(struct link *l, uint64_t instance);
/* It leaves the table now, and the memory when nothing of it is on the way any more. */
void table_remove(struct link *l, struct region *r);
/* Frees what was removed. Between rounds: nobody holds a position in the array. */
void table_sweep(struct link *l);
/* bring_up() looks after it until there is nothing to wait for. */
void table_urgent(struct link *l, struct region *r);

/* ---- life.c -------------------------------------------------------------------------------------- */

void life_unmap(struct link *l, struct region *r);
void life_condition(struct region *r, enum step step);
/* An entry of the directory names it: it is to be mapped. */
void life_bind(struct link *l, struct region *r, const struct sl_entry *e, uint32_t index);
/* No entry names it any more. */
void life_unbind(struct link *l, struct region *r, uint64_t now_ns);
/* It can't be read now, for no fault of its own. */
void life_again_later(struct link *l, struct region *r, uint64_t now_ns);
/* It lied. Its series go, the others stay, and it is looked at again some time. */
void life_drop(struct link *l, struct region *r, enum sl_fault fault, uint64_t now_ns);
/* What the entry says of its publisher. */
void life_state(struct link *l, struct region *r, const struct sl_entry *e);

/* ---- bring_up.c ---------------------------------------------------------------------------------- */

void bring_up(struct link *l, uint64_t now_ns);

/* ---- schema.c ------------------------------------------------------------------------------------ */

/* Wants the schema if the layout moved, not too often. */
void schema_want(struct link *l, struct region *r, uint64_t now_ns);
void schema_read(struct link *l, struct region *r, uint64_t now_ns);
/* Takes what control made of it, if it has. Not during a pass. */
void schema_install(struct link *l, struct region *r, uint64_t now_ns);
/* What is being read of it is of no use any more. */
void schema_abort(struct region *r);

/* ---- pass.c -------------------------------------------------------------------------------------- */

/* False if out of memory. */
bool pass_start(struct link *l, struct region *r);
/* Posts what there is room for. True if all of the pass is on its way. */
bool pass_issue(struct link *l, struct region *r);
/* What is on the way comes from memory that is not ours any more, or not believed. */
void pass_abort(struct link *l, struct region *r);
/* Values by cell of a region, for everybody. */
void pass_show(struct link *l, struct region *r, const uint64_t *cell, uint64_t now_ns);
/* A pass that was half posted is not continued: the round would wait for the rest for ever. */
void pass_cut_short(struct link *l, struct region *r);

#endif
