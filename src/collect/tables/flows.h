/* SPDX-License-Identifier: Apache-2.0 */
/* flows.h - the flow table of a host. All state is the link's worker's unless it says otherwise. */
#ifndef SL_COLLECT_TABLES_FLOWS_H
#define SL_COLLECT_TABLES_FLOWS_H

#include "collect/tables/table_reader.h"
#include "collect/tables/workload.h"
#include "region/flows.h"

/* ---- the table ---- */

#define FLOW_PAGE  64u
#define FLOW_WORDS (SL_FLOW_SIZE / 8)

/* The flow of a slot. */
struct collect_flow_seen {
	uint64_t id; /* 0: none */
	struct collect_workload *workload;
	uint32_t group;
	bool counts; /* its opening was seen: count from zero */
	bool final;  /* its final values are counted */
	bool listener, unknown;
	bool lumped;	   /* a listener that counts as one of the other ports so far */
	uint64_t since_ns; /* since when it waits for its owner's name; 0: it does not */
	/*
	 * The end that the journal reports for this slot: of this flow or, if the slot did not
	 * settle, of a later one that may not have been seen yet. id 0: none.
	 */
	struct region_flow_record end;
};

/*
 * Slots as last read. Each carries its own check word, so that other threads copy and parse it
 * without a lock: collect_flow_snapshot().
 */
struct collect_flow_page {
	uint64_t now[FLOW_PAGE][FLOW_WORDS];
	uint64_t before[FLOW_PAGE][FLOW_WORDS];	  /* a second or more earlier; of any flow */
	uint64_t middle[FLOW_PAGE][FLOW_WORDS];	  /* the next before; worker only */
	int64_t read_ns[FLOW_PAGE];		  /* CLOCK_REALTIME when now was first read */
	uint64_t workload[FLOW_PAGE];		  /* instance */
	uint32_t pass[FLOW_PAGE];		  /* in which the slot last settled; worker only */
	struct collect_flow_seen seen[FLOW_PAGE]; /* worker only */
};

/* A flow whose slot was reused, until the journal reports its end. */
struct collect_flow_orphan {
	uint64_t id;
	struct collect_flow_seen seen;
	uint64_t acked, received;
	bool late; /* one pass went by without its end */
};

struct collect_flow_table {
	struct collect_table_reader reader;
	struct region_flows_info info;
	struct region_flows_hot hot;
	struct collect_flow_page *
		*page; /* read by any thread; a page is never freed before the table */
	uint32_t pages;
	uint32_t naming; /* passes that read owners only, before the first that counts */
	uint32_t pass;
	uint32_t slot, slots;	    /* of this pass: next to request, and their number */
	uint64_t journal;	    /* next line to take */
	uint64_t journal_requested; /* next line to request in this pass */
	uint64_t journal_end;	    /* first line that did not settle in this pass */
	uint32_t stuck;		    /* passes in a row that ended before the end of the journal */
	struct region_flow_record *event; /* ends, of this pass */
	uint32_t events, event_room;
	struct collect_flow_orphan *orphan;
	uint32_t orphans, orphan_room;
	uint32_t open, slots_read; /* read by any thread */
	/* flow_owner.c's. */
	uint64_t (*owner)[SL_FLOW_CGROUP_SIZE / 8];
	uint32_t *owner_hash, owners, owners_used;
	uint32_t owner_slot, owner_slots; /* of this pass: next to request, and their number */
	bool owners_moved;
	uint64_t owners_ns;
	struct region_flow_cgroup found;
	uint8_t listening[65536 / 8]; /* ports with a listener, one bit each */
};

/* NULL if r has no table yet; r is of kind SL_REGION_FLOWS. */
static inline struct collect_flow_table *collect_flow_table_of(const struct collect_region *r)
{
	return (struct collect_flow_table *)collect_table_reader_of(r);
}

/* ---- flow_count.c ---- */

/* Takes a parsed slot. False: out of memory. */
bool collect_flow_take(struct collect_link *l, struct collect_flow_table *t, uint32_t slot,
		       const uint64_t *words, const struct region_flow *f, uint64_t now_ns);
/* Ends a pass: all its slots and journal lines were taken, except those that did not settle. */
void collect_flows_settle(struct collect_link *l, struct collect_flow_table *t, uint64_t now_ns);
/* Gives the table up: the end of its open flows will not be seen. */
void collect_flows_abandon(struct collect_link *l, struct collect_flow_table *t);

/* ---- flow_owner.c ---- */

/* The number of owner slots to read in this pass, from 0 on. */
uint32_t collect_flow_owners_wanted(struct collect_flow_table *t, uint64_t now_ns);
/* Takes an owner slot. REGION_FAULT_UNSETTLED: to be read again; other faults: not valid. */
enum region_fault collect_flow_owner_take(struct collect_link *l, struct collect_flow_table *t,
					  uint32_t slot, const uint64_t *words);
/*
 * False: not known, perhaps not yet: "(unknown)". The strings are valid until the next call. t may
 * be NULL.
 */
bool collect_flow_owner_find(struct collect_flow_table *t, uint64_t cgroup,
			     struct collect_flow_owner *out);
/* How long a new flow waits for the name of its owner. */
uint64_t collect_flow_owner_wait(const struct collect_link *l);
void collect_flow_owners_free(struct collect_flow_table *t, struct collect_collector *c);

/* ---- any thread ---- */

/*
 * The region of a host's flow table, with a reference for collect_region_put(); NULL: there is
 * none.
 */
struct collect_region *collect_flows_of(struct collect_host_tables *h);
/* False: the slot is empty, or changes too fast. before->id is 0 if there is no earlier state. */
bool collect_flow_snapshot(const struct collect_flow_table *t, uint32_t slot,
			   struct region_flow *now, struct region_flow *before, int64_t *read_ns,
			   uint64_t *workload);

#endif
