/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slots.h - regions of layers and of tasks, of which the collector reads the slots of groups and of
 * cgroups: how a link reads them. What they add up to is in workload.h.
 *
 *   slots.c       reads a table at its own pace: hot line, slots, losses
 *   slots_kind.c  what differs between the two: where things are, and what a line adds to a
 *                 workload
 *
 * All of it is the link's worker's, but for what says "seen by others".
 */
#ifndef SL_COLLECT_KERNEL_SLOTS_H
#define SL_COLLECT_KERNEL_SLOTS_H

#include "collect/kernel/workload.h"

/* What is known of the owner of a slot. */
struct collect_slot_seen {
	uint64_t generation;
	uint64_t since_ns; /* of the first look at it */
	uint64_t *word;	   /* as they were counted last, line by line; NULL: none */
	struct collect_workload *workload;
	uint32_t group;
	uint32_t pass; /* of the first look at it */
	bool known;
	bool counts;  /* its values are counted from word[] on */
	bool unknown; /* whose it is */
	bool final;   /* its last values are counted */
};

struct collect_slot_table {
	const struct collect_slot_kind *kind;
	/* By collect_slot_kind.find(). */
	uint64_t hot_at, slots_at;
	uint32_t stride, slots; /* of a slot; slots that there are, and there is room for */
	struct region_section losses;
	union {
		struct region_layers_info layers;
		struct region_tasks_info tasks;
	} info;

	enum { SLOTS_IDLE, SLOTS_HOT, SLOTS_BODY } phase;
	uint64_t due_ns, hot_ok_ns;
	uint32_t used, ops, passes;
	uint32_t slot, loss; /* next to ask for */
	bool failed, hot_asked;
	bool follows; /* another table of this host was read before */
	bool losses_torn;
	uint64_t lost[SL_CAUSES]; /* of this pass */
	struct collect_slot_seen *seen;
};

/* What a workload's slot is about, by its first line. */
struct collect_slot_key {
	uint64_t generation, cgroup;
	bool free, ended;
	uint32_t role;
	uint16_t port;
};

struct collect_slot_kind {
	enum collect_workload_part part;
	uint32_t losses; /* counters */
	/* Its header is believed. */
	enum region_fault (*find)(struct collect_slot_table *t, const struct sl_region_header *copy,
				  uint64_t length);
	enum region_fault (*hot)(const struct collect_slot_table *t, const uint64_t line[8],
				 uint32_t *used);
	/* HOT: it lies. */
	enum region_fault (*key)(const uint64_t *words, struct collect_slot_key *key);
	/* What line number i of a slot has grown by. */
	void (*add)(uint64_t *cell, uint32_t i, const uint64_t grown[SL_LINE_CELLS]);
};
extern const struct collect_slot_kind collect_slot_kinds[SLOT_TABLES];

/* The place of a kind of region among a link's tables; -1: none. */
int collect_slots_index(uint32_t region_kind);

/* Its header is believed: it is the link's table now. */
void collect_slots_found(struct collect_link *l, struct collect_region *r,
			 const struct sl_region_header *copy, uint64_t now_ns);
/* It is not, any more. */
void collect_slots_gone(struct collect_link *l, struct collect_region *r);
/* The workload is about to go. */
void collect_slots_forget(struct collect_link *l, const struct collect_workload *w);
/* One turn; when it wants the next one at the latest. */
void collect_slots_poll(struct collect_link *l, uint64_t now_ns);
uint64_t collect_slots_due(const struct collect_link *l);
void collect_slot_table_free(struct collect_slot_table *t, struct collect_collector *c);

#endif
