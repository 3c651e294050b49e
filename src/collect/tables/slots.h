/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slots.h - tables of layers and of tasks, of which the collector reads the slots of groups and of
 * cgroups. All state is the link's worker's.
 */
#ifndef SL_COLLECT_TABLES_SLOTS_H
#define SL_COLLECT_TABLES_SLOTS_H

#include "collect/tables/table_reader.h"
#include "collect/tables/workload.h"
#include "region/layers.h"
#include "region/tasks.h"

/* The owner of a slot. */
struct collect_slot_seen {
	uint64_t generation;
	uint64_t since_ns; /* of the first look at it */
	uint64_t *word;	   /* as last counted, line by line; NULL: not yet */
	struct collect_workload *workload;
	uint32_t group;
	uint32_t pass; /* of the first look at it */
	bool known;
	bool counts;  /* its values are counted from word[] on */
	bool unknown; /* its name is */
	bool final;   /* its final values are counted */
};

struct collect_slot_table {
	struct collect_table_reader reader;
	const struct collect_slot_kind *kind;
	/* By collect_slot_kind.find(). */
	uint64_t slots_at;
	uint32_t stride, slots; /* bytes of a slot; slots that are read at most */
	struct region_section losses;
	union {
		struct region_layers_info layers;
		struct region_tasks_info tasks;
	} info; /* tagged by kind */

	uint32_t used, passes;
	uint32_t slot, loss; /* next to request */
	bool losses_torn;
	uint64_t lost[SL_CAUSES]; /* of this pass */
	struct collect_slot_seen *seen;
};

/* What the first line of a slot says. */
struct collect_slot_key {
	uint64_t generation, cgroup;
	bool free, ended;
	uint32_t role;
	uint16_t port;
};

struct collect_slot_kind {
	enum collect_table table;
	enum collect_workload_part part;
	uint32_t losses; /* counters */
	/* Parses the header into the offsets of the table. */
	enum region_fault (*find)(struct collect_slot_table *t, const struct sl_region_header *copy,
				  uint64_t length);
	enum region_fault (*hot)(const struct collect_slot_table *t, const uint64_t line[8],
				 uint32_t *used);
	/* REGION_FAULT_HOT: not valid. */
	enum region_fault (*key)(const uint64_t *words, struct collect_slot_key *key);
	/* Adds the growth of line i of a slot. */
	void (*add)(uint64_t *cell, uint32_t i, const uint64_t grown[SL_LINE_CELLS]);
};
extern const struct collect_slot_kind collect_slot_kinds[SLOT_TABLES];

/* Drops the references to a workload that is about to be freed. */
void collect_slots_forget(struct collect_link *l, const struct collect_workload *w);

#endif
