// SPDX-License-Identifier: Apache-2.0
/*
 * slots_kind.c - differences between layer tables and task tables: where their slots are, who owns
 * a slot, and how its lines are added to a workload
 */
#include "collect/tables/slots.h"

#define NS 1e-9

/* ---- layers ---- */

static enum region_fault layers_find(struct collect_slot_table *t,
				     const struct sl_region_header *copy, uint64_t length)
{
	struct region_layers_info *info = &t->info.layers;
	enum region_fault fault = region_layers_info_parse(copy, length, info);

	t->reader.hot_at = info->hot;
	t->slots_at = info->groups; /* the groups include the counts of every flow */
	t->stride = SL_LAYER_SLOT_SIZE;
	t->slots = info->group_slots;
	t->losses = info->losses;
	return fault;
}

static enum region_fault layers_hot(const struct collect_slot_table *t, const uint64_t line[8],
				    uint32_t *used)
{
	struct region_layers_hot hot;
	enum region_fault fault = region_layers_hot_parse(line, &t->info.layers, &hot);

	*used = hot.groups_used;
	return fault;
}

static enum region_fault layers_key(const uint64_t *words, struct collect_slot_key *key)
{
	static const uint32_t roles[] = {[SL_ROLE_UNKNOWN] = FLOW_UNKNOWN,
					 [SL_ROLE_SERVER] = FLOW_SERVER,
					 [SL_ROLE_CLIENT] = FLOW_CLIENT};
	uint32_t state = words[SL_SLOT_STATE] & 255, role = words[SL_SLOT_STATE] >> 8 & 255;

	if (state > SL_SLOT_CLOSED || role > SL_ROLE_CLIENT)
		return REGION_FAULT_HOT;
	*key = (struct collect_slot_key){
		.generation = words[SL_SLOT_STATE] >> 16,
		.cgroup = words[SL_SLOT_CGROUP],
		.free = state == SL_SLOT_FREE,
		.ended = state == SL_SLOT_CLOSED,
		.role = roles[role],
		/* If the start of a connection was not seen, either port may be the service's. */
		.port = role == SL_ROLE_UNKNOWN ? 0 : (uint16_t)words[SL_SLOT_PORTS],
	};
	return REGION_FAULT_NONE;
}

static void layers_add(uint64_t *cell, uint32_t i, const uint64_t grown[SL_LINE_CELLS])
{
	uint32_t first = i - SL_SLOT_HISTOGRAMS / 8, c = first % 8 * SL_LINE_CELLS;
	uint64_t *h = cell + LAYER_HISTOGRAMS + (size_t)first / 8 * LAYER_HIST_CELLS;

	if (i == SL_SLOT_COUNTS / 8) {
		cell[LAYER_REQUESTS] += grown[SL_COUNT_REQUESTS];
		cell[LAYER_COMPLETE] += grown[SL_COUNT_COMPLETE];
		cell[LAYER_INCOMPLETE] += grown[SL_COUNT_INCOMPLETE];
		cell[LAYER_PIPELINED] += grown[SL_COUNT_PIPELINED];
		cell[LAYER_UNATTRIBUTED] += grown[SL_COUNT_UNATTRIBUTED];
	}
	if (i < SL_SLOT_HISTOGRAMS / 8)
		return;
	for (uint32_t k = 0; k < SL_LINE_CELLS; k++, c++) {
		if (c == SL_LAYER_SUM)
			collect_workload_add_ns(&cell[LAYER_SUMS + first / 8], &h[SL_HIST_SUM],
						grown[k]);
		else
			h[SL_HIST_BUCKETS + c - SL_LAYER_ZERO] += grown[k];
	}
}

/* ---- tasks ---- */

static enum region_fault tasks_find(struct collect_slot_table *t,
				    const struct sl_region_header *copy, uint64_t length)
{
	struct region_tasks_info *info = &t->info.tasks;
	enum region_fault fault = region_tasks_info_parse(copy, length, info);

	t->reader.hot_at = info->hot;
	t->slots_at = info->cgroups;
	t->stride = info->cpus * SL_TASK_SIZE;
	t->slots = info->cgroup_slots;
	t->losses = info->losses;
	return fault;
}

static enum region_fault tasks_hot(const struct collect_slot_table *t, const uint64_t line[8],
				   uint32_t *used)
{
	struct region_tasks_hot hot;
	enum region_fault fault = region_tasks_hot_parse(line, &t->info.tasks, &hot);

	*used = hot.cgroups_used;
	return fault;
}

static enum region_fault tasks_key(const uint64_t *words, struct collect_slot_key *key)
{
	uint32_t state = words[SL_CPU_CGROUP_GENERATION] & 3;

	if (state > SL_CPU_ENDED)
		return REGION_FAULT_HOT;
	*key = (struct collect_slot_key){
		.generation = words[SL_CPU_CGROUP_GENERATION] >> 2,
		.cgroup = words[SL_CPU_CGROUP_ID],
		.free = state == SL_CPU_FREE,
		.ended = state == SL_CPU_ENDED,
		.role = FLOW_NEITHER,
	};
	return REGION_FAULT_NONE;
}

/*
 * Each CPU has ten lines: the owner (only set for the first CPU), counters, and the wait histogram.
 */
static void tasks_add(uint64_t *cell, uint32_t i, const uint64_t grown[SL_LINE_CELLS])
{
	uint32_t line = i % (SL_TASK_SIZE / SL_LINE_SIZE);
	uint64_t *h = cell + TASK_WAITS;

	if (!i) {
		cell[TASK_ENDED] += grown[SL_CPU_CGROUP_ENDED];
	} else if (line == 1) {
		collect_workload_add_f64(&cell[TASK_RUN], (double)grown[SL_CPU_RUN_NS] * NS);
		collect_workload_add_f64(&cell[TASK_WAIT], (double)grown[SL_CPU_WAIT_NS] * NS);
		collect_workload_add_ns(&cell[TASK_WAITS_SUM], &h[SL_HIST_SUM],
					grown[SL_CPU_WAIT_NS]);
		cell[TASK_SWITCH_VOLUNTARY] += grown[SL_CPU_VOLUNTARY];
		cell[TASK_SWITCH_INVOLUNTARY] += grown[SL_CPU_INVOLUNTARY];
		cell[TASK_MIGRATIONS] += grown[SL_CPU_MIGRATIONS];
	} else if (line > 1) {
		for (uint32_t k = 0; k < SL_LINE_CELLS; k++)
			h[SL_HIST_BUCKETS + (line - 2) * SL_LINE_CELLS + k] += grown[k];
	}
}

const struct collect_slot_kind collect_slot_kinds[SLOT_TABLES] = {
	{
		.table = TABLE_LAYERS,
		.part = WORKLOAD_LAYERS,
		.losses = SL_CAUSES,
		.find = layers_find,
		.hot = layers_hot,
		.key = layers_key,
		.add = layers_add,
	},
	{
		.table = TABLE_TASKS,
		.part = WORKLOAD_TASKS,
		.losses = SL_TASK_LOSSES,
		.find = tasks_find,
		.hot = tasks_hot,
		.key = tasks_key,
		.add = tasks_add,
	},
};
