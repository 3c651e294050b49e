/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slots.h - layer tables and task tables; the collector reads only their slots of groups and of
 * cgroups. All state belongs to the link's worker.
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
	uint64_t since_ns; /* when the owner was first seen */
	uint64_t *word;	   /* the lines as of the last count; NULL means not counted yet */
	struct collect_workload *workload;
	uint32_t group;
	uint32_t stack; /* for layers, the workload's group of all ports */
	uint32_t pass;	/* pass in which the owner was first seen */
	bool known;
	bool counts;  /* values are counted relative to word[] */
	bool unknown; /* the owner's name is not known */
	bool final;   /* the final values are counted */
};

struct collect_slot_table {
	struct collect_table_reader reader;
	const struct collect_slot_kind *kind;
	/* Set by collect_slot_kind.find(). */
	uint64_t slots_at;
	uint32_t stride, slots; /* bytes of a slot; maximum number of slots to read */
	struct region_section losses;
	union {
		struct region_layers_info layers;
		struct region_tasks_info tasks;
	} info; /* selected by kind */

	uint32_t used, passes;
	bool losses_torn;
	uint64_t lost[SL_CAUSES]; /* losses summed in this pass */
	struct collect_slot_seen *seen;
};

/* The owner of a slot according to its first line. */
struct collect_slot_key {
	uint64_t generation, cgroup;
	bool free, ended;
	uint32_t role;
	uint16_t port;
};

struct collect_slot_kind {
	enum collect_table table;
	enum collect_workload_part part;
	uint32_t losses; /* number of loss counters */
	/* Parses the header and sets the offsets of the table. */
	enum region_fault (*find)(struct collect_slot_table *t, const struct sl_region_header *copy,
				  uint64_t length);
	enum region_fault (*hot)(const struct collect_slot_table *t, const uint64_t line[8],
				 uint32_t *used);
	/* Parses the key of a slot. Returns REGION_FAULT_HOT if it is not valid. */
	enum region_fault (*key)(const uint64_t *words, struct collect_slot_key *key);
	/* Adds the growth of line i of a slot. */
	void (*add)(uint64_t *cell, uint32_t i, const uint64_t grown[SL_LINE_CELLS]);
};
extern const struct collect_slot_kind collect_slot_kinds[SLOT_TABLES];

/* Drops the references to a workload that is about to be freed. */
void collect_slots_forget(struct collect_link *l, const struct collect_workload *w);

#endif
