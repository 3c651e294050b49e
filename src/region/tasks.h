/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tasks.h - parses a region of kind SL_REGION_TASKS for readers: takes private copies and returns
 * checked values. Does not depend on the transport or on eBPF. As in layers.h, a copy of a slot
 * belongs to one owner if the copies before and after it have the same generation.
 */
#ifndef SL_REGION_TASKS_H
#define SL_REGION_TASKS_H

#include <sidelight/task.h>

#include "region/decode.h"

struct region_tasks_info {
	uint64_t size, instance, start_ns;
	uint8_t boot_id[16];
	uint64_t hot, tasks, cgroups; /* offsets */
	uint32_t task_slots, cgroup_slots, cpus;
	struct region_section losses;
};
/* Parses a private copy of a header; actual_size: see region_info_parse(). Pure. */
enum region_fault region_tasks_info_parse(const struct sl_region_header *copy, uint64_t actual_size,
					  struct region_tasks_info *info);

struct region_tasks_hot {
	uint32_t tasks_used, cgroups_used; /* limited to the number of slots */
};
/* UNSETTLED means read the line again. Pure. */
enum region_fault region_tasks_hot_parse(const uint64_t line[8],
					 const struct region_tasks_info *info,
					 struct region_tasks_hot *hot);

struct region_cpu_numbers {
	uint64_t run_ns, wait_ns, waits, voluntary, involuntary, migrations;
	uint64_t unplaced; /* number of waits counted in no bucket */
	uint64_t wait[SL_CPU_BUCKETS];
};

struct region_cpu_row {
	uint64_t generation; /* identifies the owner, together with the slot */
	/* id; 0 means unknown; in slot 0, it means all cgroups without a slot */
	uint64_t cgroup;
	uint32_t state; /* enum sl_cpu_slot_state */
	bool ended;
	uint32_t pid, tgid;   /* tasks only: in the initial PID namespace */
	uint64_t start_ns;    /* tasks only: CLOCK_BOOTTIME; 0 means started before the table */
	uint64_t ended_tasks; /* cgroups only */
	char comm[17];	      /* tasks only: untrusted text */
	struct region_cpu_numbers n;
};

#define REGION_TASK_WORDS (SL_TASK_SIZE / 8u)
/*
 * Parse a private copy of a slot. A cgroup's slot includes the parts of all CPUs. Only the first
 * line of a free slot is read. UNSETTLED means a line does not verify; HOT means impossible values.
 * Pure.
 */
enum region_fault region_task_parse(const uint64_t slot[REGION_TASK_WORDS],
				    struct region_cpu_row *row);
enum region_fault region_task_cgroup_parse(const uint64_t *slot, uint32_t cpus, bool keyless,
					   struct region_cpu_row *row);

/* Subtracts b from a, both of the same slot and generation. */
void region_cpu_numbers_sub(struct region_cpu_numbers *a, const struct region_cpu_numbers *b);
/*
 * Returns quantile q of the waits in ns: the middle of its bucket, off by a factor of at most
 * 2^(1/4). Returns 0 if there are no waits.
 */
uint64_t region_cpu_wait_quantile(const struct region_cpu_numbers *n, double q);

#endif
