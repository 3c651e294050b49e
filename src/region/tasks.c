// SPDX-License-Identifier: Apache-2.0
/* tasks.c - parses scheduler times of tasks and cgroups: header, hot line, slots, arithmetic. */
#include "region/tasks.h"

#include <math.h>
#include <string.h>

#include "base/base.h"
#include "region/internal.h"

enum region_fault region_tasks_info_parse(const struct sl_region_header *h, uint64_t actual_size,
					  struct region_tasks_info *tasks)
{
	struct region_section tasked, cgroups;
	struct region_info info;
	enum region_fault fault = region_kind_parse(h, actual_size, SL_REGION_TASKS, &info);

	memset(tasks, 0, sizeof(*tasks));
	if (fault)
		return fault;
	if (!region_section_find(h, SL_SECTION_TASKS, SL_TASK_SIZE, SL_TASKS_MAX, &tasked) ||
	    !region_section_find(h, SL_SECTION_TASK_CGROUPS, SL_TASK_SIZE, SL_TASKS_MAX,
				 &cgroups) ||
	    cgroups.stride > SL_TASK_CPUS_MAX * SL_TASK_SIZE ||
	    !region_losses_find(h, SL_TASK_LOSSES, &tasks->losses))
		return REGION_FAULT_SECTION;
	tasks->tasks = tasked.offset;
	tasks->task_slots = tasked.count;
	tasks->cgroups = cgroups.offset;
	tasks->cgroup_slots = cgroups.count;
	tasks->cpus = cgroups.stride / SL_TASK_SIZE;
	REGION_TAKE_COMMON(tasks, &info);
	return REGION_FAULT_NONE;
}

enum region_fault region_tasks_hot_parse(const uint64_t line[8],
					 const struct region_tasks_info *info,
					 struct region_tasks_hot *hot)
{
	if (line[7] != sl_line_check(line))
		return REGION_FAULT_UNSETTLED;
	/* The writer may count a slot that does not exist: see take_task_slot(). */
	hot->tasks_used = (uint32_t)BASE_MIN(line[SL_TASKS_USED], info->task_slots);
	hot->cgroups_used = (uint32_t)BASE_MIN(line[SL_TASKS_CGROUPS_USED], info->cgroup_slots);
	return REGION_FAULT_NONE;
}

static bool usage_add(const uint64_t *line, struct region_cpu_numbers *n)
{
	for (int i = 0; i <= SL_CPU_WAIT_LINES; i++)
		if (line[i * 8 + 7] != sl_line_check(line + (size_t)i * 8))
			return false;
	n->run_ns += line[SL_CPU_RUN_NS];
	n->wait_ns += line[SL_CPU_WAIT_NS];
	n->waits += line[SL_CPU_WAITS];
	n->voluntary += line[SL_CPU_VOLUNTARY];
	n->involuntary += line[SL_CPU_INVOLUNTARY];
	n->migrations += line[SL_CPU_MIGRATIONS];
	n->unplaced += line[SL_CPU_UNPLACED];
	for (int i = 0; i < SL_CPU_BUCKETS; i++)
		n->wait[i] += line[8 + i / 7 * 8 + i % 7];
	return true;
}

/* Parses the first line, which tasks and cgroups have in common. */
static enum region_fault parse_owner(const uint64_t *who, struct region_cpu_row *row)
{
	memset(row, 0, sizeof(*row));
	if (who[7] != sl_line_check(who))
		return REGION_FAULT_UNSETTLED;
	row->generation = who[SL_CPU_TASK_GENERATION] >> 2;
	row->state = who[SL_CPU_TASK_GENERATION] & 3;
	row->ended = row->state == SL_CPU_ENDED;
	return row->state > SL_CPU_ENDED ? REGION_FAULT_HOT : REGION_FAULT_NONE;
}

enum region_fault region_task_parse(const uint64_t slot[REGION_TASK_WORDS],
				    struct region_cpu_row *row)
{
	enum region_fault fault = parse_owner(slot, row);

	if (fault || row->state == SL_CPU_FREE)
		return fault;
	row->pid = (uint32_t)slot[SL_CPU_TASK_PIDS];
	row->tgid = (uint32_t)(slot[SL_CPU_TASK_PIDS] >> 32);
	row->start_ns = slot[SL_CPU_TASK_START_NS];
	row->cgroup = slot[SL_CPU_TASK_CGROUP];
	memcpy(row->comm, &slot[SL_CPU_TASK_COMM], 16);
	return usage_add(slot + SL_CPU_LINE, &row->n) ? REGION_FAULT_NONE : REGION_FAULT_UNSETTLED;
}

enum region_fault region_task_cgroup_parse(const uint64_t *slot, uint32_t cpus, bool keyless,
					   struct region_cpu_row *row)
{
	enum region_fault fault = parse_owner(slot, row);

	if (fault || (row->state == SL_CPU_FREE && !keyless))
		return fault;
	row->cgroup = slot[SL_CPU_CGROUP_ID];
	row->ended_tasks = slot[SL_CPU_CGROUP_ENDED];
	for (uint32_t i = 0; i < cpus; i++)
		if (!usage_add(slot + (size_t)i * REGION_TASK_WORDS + SL_CPU_LINE, &row->n))
			return REGION_FAULT_UNSETTLED;
	return REGION_FAULT_NONE;
}

/* ---- arithmetic ---- */

void region_cpu_numbers_sub(struct region_cpu_numbers *a, const struct region_cpu_numbers *b)
{
	const uint64_t *from = (const uint64_t *)b;
	uint64_t *of = (uint64_t *)a;

	for (size_t i = 0; i < sizeof(*a) / sizeof(*of); i++)
		of[i] -= from[i];
}

uint64_t region_cpu_wait_quantile(const struct region_cpu_numbers *n, double q)
{
	uint64_t all = 0, seen = 0, rank;

	for (int i = 0; i < SL_CPU_BUCKETS; i++)
		all += n->wait[i];
	if (!all)
		return 0;
	rank = (uint64_t)ceil(q * (double)all);
	rank = rank < 1 ? 1 : rank > all ? all : rank;
	for (int i = 0; i < SL_CPU_BUCKETS; i++) {
		seen += n->wait[i];
		if (seen >= rank) /* geometric mean of the bucket's bounds */
			return (uint64_t)(exp2((i + SL_CPU_BUCKET_FIRST) / 2.0 - 0.25) * 1e9);
	}
	return 0;
}
