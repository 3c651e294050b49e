/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flows.h - the flow table of a host. All state belongs to the link's worker unless noted
 * otherwise.
 */
#ifndef SL_COLLECT_TABLES_FLOWS_H
#define SL_COLLECT_TABLES_FLOWS_H

#include "collect/tables/table_reader.h"
#include "collect/tables/workload.h"
#include "region/flows.h"

/* ---- the table ---- */

#define FLOW_PAGE	64u
#define FLOW_OWNERS_MAX 8192u /* maximum owners per host */
#define FLOW_WORDS	(SL_FLOW_SIZE / 8)
/* a slot and its line of dropped segments */
#define FLOW_SEEN_WORDS (FLOW_WORDS + SL_LINE_SIZE / 8)

/* State of the flow in a slot. */
struct collect_flow_seen {
	uint64_t id; /* id of the flow; 0 if none */
	struct collect_workload *workload;
	uint32_t group;
	bool counts; /* the opening was seen: count from zero */
	bool final;  /* the final values are counted */
	bool listener, unknown;
	bool lumped; /* a listener whose port is still counted under "other" */
	/* when the flow started to wait for its owner's name; 0 if it does not wait */
	uint64_t since_ns;
	/*
	 * The last end of a flow that the journal reported for this slot. It belongs to this flow
	 * or, if the slot did not settle, perhaps to a later flow not seen yet. id 0 means none.
	 */
	struct region_flow_record end;
};

/*
 * Slots as last read. Each has its own check word, so that other threads can copy and parse it
 * without a lock (collect_flow_snapshot()).
 */
struct collect_flow_page {
	uint64_t now[FLOW_PAGE][FLOW_SEEN_WORDS];
	/* state of the slot at least a second earlier, possibly of another flow */
	uint64_t before[FLOW_PAGE][FLOW_SEEN_WORDS];
	/* state that replaces `before` later; worker only */
	uint64_t middle[FLOW_PAGE][FLOW_SEEN_WORDS];
	uint64_t idle_ns[FLOW_PAGE];  /* idle time after `before`, which intervals leave out */
	int64_t read_ns[FLOW_PAGE];   /* CLOCK_REALTIME when `now` was first read */
	uint64_t workload[FLOW_PAGE]; /* instance of the flow's workload */
	uint32_t pass[FLOW_PAGE];     /* pass in which the slot last settled; worker only */
	struct collect_flow_seen seen[FLOW_PAGE]; /* worker only */
};

/* A flow whose slot was reused, until the journal reports its end. */
struct collect_flow_orphan {
	uint64_t id;
	struct collect_flow_seen seen;
	uint64_t acked, received;
	bool late; /* a pass has ended without reporting the flow's end */
};

/* The sections of the table. Owners come before the flows they own. */
enum { FLOW_OWNERS, FLOW_REASONS, FLOW_DROPS, FLOW_SLOTS, FLOW_JOURNAL };

struct collect_flow_table {
	struct collect_table_reader reader;
	struct region_flows_info info;
	struct region_flows_hot hot;
	/* Read by any thread; a page is never freed before the table. */
	struct collect_flow_page **page;
	uint32_t pages;
	/* remaining passes that only read owners, before the first counting pass */
	uint32_t naming;
	uint32_t pass;
	uint64_t pass_ns, last_pass_ns; /* when this pass and the previous one began */
	uint32_t slots;			/* number of slots that this pass reads */
	uint64_t journal;		/* next journal line to take */
	uint64_t journal_end;		/* first journal line that did not settle in this pass */
	uint32_t stuck; /* consecutive passes that ended before the end of the journal */
	struct region_flow_record *event; /* journal records of ended flows, read in this pass */
	uint32_t events, event_room;
	struct collect_flow_orphan *orphan;
	uint32_t orphans, orphan_room;
	uint32_t open, slots_read; /* read by any thread */
	/* Used by flow_owner.c. */
	struct collect_flow_owner_slot *owner[FLOW_OWNERS_MAX];
	struct base_table owner_by_id;
	uint32_t owners_used;
	uint64_t owners_tag;
	bool owners_moved;
	uint64_t owners_ns;
	struct region_flow_cgroup found;
	uint8_t listening[65536 / 8]; /* bitmap of the ports with a listener */
	/* Used by flow_drops.c. */
	uint64_t reason[SL_DROP_REASONS][SL_LINE_SIZE / 8]; /* lines; read by any thread */
	uint64_t reasons_ns;
	bool dropped; /* a flow with dropped segments was seen in this pass */
};

/* Returns NULL if r, of kind SL_REGION_FLOWS, has no table yet. */
static inline struct collect_flow_table *collect_flow_table_of(const struct collect_region *r)
{
	return (struct collect_flow_table *)collect_table_reader_of(r);
}

/* ---- flow_count.c ---- */

/* Takes a parsed slot. Returns false if out of memory. */
bool collect_flow_take(struct collect_link *l, struct collect_flow_table *t, uint32_t slot,
		       const uint64_t *words, const struct region_flow *f, uint64_t now_ns);
/* Ends a pass: all its slots and journal lines were taken, except unsettled ones. */
void collect_flows_settle(struct collect_link *l, struct collect_flow_table *t, uint64_t now_ns);
/* Called when the table is abandoned: the ends of its open flows will not be seen. */
void collect_flows_abandon(struct collect_link *l, struct collect_flow_table *t);

/* ---- flow_owner.c ---- */

/* Returns the number of owner slots to read in this pass, starting at slot 0. */
uint32_t collect_flow_owners_wanted(struct collect_flow_table *t, uint64_t now_ns);
extern const struct collect_elements collect_flow_owners;
/*
 * Finds the owner of a cgroup. If there is none, or none yet, returns false with "(unknown)" in
 * *out. The strings are valid until the next call. t may be NULL.
 */
bool collect_flow_owner_find(struct collect_flow_table *t, uint64_t cgroup,
			     struct collect_flow_owner *out);
/* Returns how long a new flow waits for the name of its owner. */
uint64_t collect_flow_owner_wait(const struct collect_link *l);
void collect_flow_owners_free(struct collect_flow_table *t, struct collect_collector *c);

/* ---- flow_drops.c ---- */

extern const struct collect_elements collect_flow_reasons, collect_flow_drops;
/* Decides which lines of dropped segments to read in this pass. */
void collect_flow_drops_plan(struct collect_flow_table *t, uint64_t now_ns);

/* ---- flow_why.c ---- */

struct collect_flow_end {
	uint64_t key;
	size_t host;
	uint32_t slot;
};

/* The ends of all connections. */
struct collect_flow_ends {
	/* by host number; NULL if the host has no table or the table is stale */
	const struct collect_flow_table **table;
	struct collect_flow_end *v;
	size_t n, room;
	bool sorted;
};

void collect_flow_ends_add(struct collect_flow_ends *e, size_t host, uint32_t slot,
			   const struct region_flow *f);

/* ---- any thread ---- */

/*
 * Returns a reference to the region of a host's flow table, to be released with
 * collect_region_put(), or NULL if there is none.
 */
struct collect_region *collect_flows_of(struct collect_host_tables *h);
/* Parses a slot and its line of dropped segments, without the names of their reasons. */
enum region_fault collect_flow_parse(const uint64_t words[FLOW_SEEN_WORDS], struct region_flow *f);
/*
 * Returns false if the slot is empty or changes too fast. before->id is 0 if there is no earlier
 * state.
 */
bool collect_flow_snapshot(const struct collect_flow_table *t, uint32_t slot,
			   struct region_flow *now, struct region_flow *before, int64_t *read_ns,
			   uint64_t *workload);

#endif
