/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flows.h - tables of connections: how a link reads them, and what they add up to.
 *
 *   flows.c       reads a table at its own pace: hot line, then slots and journal
 *   flow_count.c  what became of each flow since the last pass, exactly once
 *
 * What they add up to: workload.h.
 *
 * All of it is the link's worker's, but for what says "seen by others".
 */
#ifndef SL_COLLECT_KERNEL_FLOWS_H
#define SL_COLLECT_KERNEL_FLOWS_H

#include "collect/kernel/workload.h"

/* ---- the table ---- */

#define FLOW_PAGE  64u
#define FLOW_WORDS (SL_FLOW_SIZE / 8)

/* What is known of the flow of a slot. */
struct collect_flow_seen {
	uint64_t id; /* 0: none */
	struct collect_workload *workload;
	uint32_t group;
	bool counts; /* its opening was seen: from nothing on */
	bool final;  /* its last values are counted */
	bool listener, unknown;
	uint64_t since_ns; /* waits for its owner's name since then; 0: does not */
	/*
	 * What the journal has told of an end in this slot, that of the flow or, if that did not
	 * settle, of one that came after it and may or may not be seen yet. id 0: nothing.
	 */
	struct region_flow_record end;
};

/*
 * Slots as they were read last. Each verifies by itself, so that others may copy and parse it
 * without a lock, as out of shared memory: see collect_flow_snapshot().
 */
struct collect_flow_page {
	uint64_t now[FLOW_PAGE][FLOW_WORDS];
	uint64_t before[FLOW_PAGE][FLOW_WORDS];	  /* a second before, or longer; of any flow */
	uint64_t middle[FLOW_PAGE][FLOW_WORDS];	  /* the next before; the worker's */
	int64_t read_ns[FLOW_PAGE];		  /* CLOCK_REALTIME at which now came to be seen */
	uint64_t workload[FLOW_PAGE];		  /* instance */
	uint32_t pass[FLOW_PAGE];		  /* in which the slot settled last; the worker's */
	struct collect_flow_seen seen[FLOW_PAGE]; /* the worker's */
};

/* A flow whose slot another one has: until the journal was looked at. */
struct collect_flow_orphan {
	uint64_t id;
	struct collect_flow_seen seen;
	uint64_t acked, received;
	bool late; /* a pass has gone by */
};

enum collect_flow_phase { FLOWS_IDLE, FLOWS_HOT, FLOWS_BODY };

struct collect_flow_table {
	struct region_flows_info info;
	struct region_flows_hot hot;
	struct collect_flow_page **page; /* seen by others; one that is there stays */
	uint32_t pages;
	bool first;	 /* nothing was counted yet */
	uint32_t naming; /* passes that read nothing but owners, before the first that counts */
	bool follows;	 /* another table of this host was read before */
	enum collect_flow_phase phase;
	uint64_t due_ns, hot_ok_ns;
	bool failed;
	uint32_t ops, pass;
	uint32_t slot, slots;		  /* of this pass: next one to ask for, and how many */
	uint64_t journal, journal_asked;  /* next line to be taken; to be asked for in this pass */
	uint64_t journal_end;		  /* the first that did not settle in this pass */
	uint32_t stuck;			  /* passes in a row that ended before the journal's end */
	struct region_flow_record *event; /* ends, of this pass */
	uint32_t events, event_room;
	struct collect_flow_orphan *orphan;
	uint32_t orphans, orphan_room;
	uint32_t open, slots_read;		    /* seen by others */
	uint64_t (*owner)[SL_FLOW_CGROUP_SIZE / 8]; /* collect_flow_owner.c's from here on */
	uint32_t *owner_hash, owners, owners_used;
	uint32_t owner_slot, owner_slots; /* of this pass: next one to ask for, and how many */
	bool owners_moved;
	uint64_t owners_ns;
	struct region_flow_cgroup found;
	uint8_t listening[65536 / 8]; /* ports on which somebody did, a bit each */
};

/* ---- flows.c ---- */

/* Its header is believed: it is the link's table now. */
void collect_flows_found(struct collect_link *l, struct collect_region *r,
			 const struct sl_region_header *copy, uint64_t now_ns);
/* It is not, any more. Nothing of it is on the way to be believed. */
void collect_flows_gone(struct collect_link *l, struct collect_region *r);
/* One turn; when it wants the next one at the latest. */
void collect_flows_poll(struct collect_link *l, uint64_t now_ns);
uint64_t collect_flows_due(const struct collect_link *l);
void collect_flow_table_free(struct collect_flow_table *t, struct collect_collector *c);

/* ---- flow_count.c ---- */

/* A slot that parsed. False: out of memory. */
bool collect_flow_take(struct collect_link *l, struct collect_flow_table *t, uint32_t slot,
		       const uint64_t *words, const struct region_flow *f, uint64_t now_ns);
/* All slots and lines of a pass were taken, but for those that did not settle. */
void collect_flows_settle(struct collect_link *l, struct collect_flow_table *t, uint64_t now_ns);
/* The table is given up: whatever was open in it did not end as far as anybody knows. */
void collect_flows_abandon(struct collect_link *l, struct collect_flow_table *t);

/* ---- whose cgroup that is: collect_flow_owner.c ---- */

/* Does the table tell? */
bool collect_flow_owners_told(const struct collect_flow_table *t);
/* How many slots of the section, from 0 on, are to be read in this pass. */
uint32_t collect_flow_owners_wanted(struct collect_flow_table *t, uint64_t now_ns);
/* One that was. UNSETTLED: it is to be read again; otherwise it lies. */
enum region_fault collect_flow_owner_take(struct collect_link *l, struct collect_flow_table *t,
					  uint32_t slot, const uint64_t *words);
/* False: not known (yet). The strings are valid until the next call. */
bool collect_flow_owner_find(struct collect_flow_table *t, uint64_t cgroup,
			     struct collect_flow_owner *out);
/* How long what is new waits for that. */
uint64_t collect_flow_owner_wait(const struct collect_link *l);
void collect_flow_owners_free(struct collect_flow_table *t, struct collect_collector *c);

/* ---- for others, of any thread ---- */

/*
 * The table of a host with a reference to its region, to be given back by collect_region_put();
 * NULL if there is none.
 */
struct collect_region *collect_flows_of(struct collect_host *h);
/* False: nothing there, or it changes too fast. before->id is 0 if there is no earlier one. */
bool collect_flow_snapshot(const struct collect_flow_table *t, uint32_t slot,
			   struct region_flow *now, struct region_flow *before, int64_t *read_ns,
			   uint64_t *workload);

#endif
