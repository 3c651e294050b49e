/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tasks.h - a region of kind SL_REGION_TASKS as a reader sees it: private copies in, checked values
 * out. Knows no transport and no eBPF. A copy of a slot belongs to one owner if the generation is
 * the same in the copies before and after it, as in layers.h.
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
/* Parses a private copy of a header; actual_size as for region_info_parse(). Pure. */
enum region_fault region_tasks_info_parse(const struct sl_region_header *copy, uint64_t actual_size,
					  struct region_tasks_info *info);

struct region_tasks_hot {
	uint32_t tasks_used, cgroups_used; /* at most the number of slots */
};
/* UNSETTLED: read it again. Pure. */
enum region_fault region_tasks_hot_parse(const uint64_t line[8],
					 const struct region_tasks_info *info,
					 struct region_tasks_hot *hot);

struct region_cpu_numbers {
	uint64_t run_ns, wait_ns, waits, voluntary, involuntary, migrations;
	uint64_t unplaced; /* waits that are in no bucket */
	uint64_t wait[SL_CPU_BUCKETS];
};

struct region_cpu_row {
	uint64_t generation; /* with the slot: identifies the owner */
	uint64_t cgroup;     /* id; 0: unknown, or in slot 0 all cgroups without a slot */
	uint32_t state;	     /* enum sl_cpu_slot_state */
	bool ended;
	uint32_t pid, tgid;   /* tasks: in the initial PID namespace */
	uint64_t start_ns;    /* tasks: CLOCK_BOOTTIME; 0: older than the table */
	uint64_t ended_tasks; /* cgroups */
	char comm[17];	      /* tasks: untrusted text */
	struct region_cpu_numbers n;
};

#define REGION_TASK_WORDS (SL_TASK_SIZE / 8u)
/*
 * Parse a private copy of a slot, of a cgroup with the parts of all CPUs. A free slot's first line
 * is all that is read. UNSETTLED: a line does not verify. HOT: impossible values. Pure.
 */
enum region_fault region_task_parse(const uint64_t slot[REGION_TASK_WORDS],
				    struct region_cpu_row *row);
enum region_fault region_task_cgroup_parse(const uint64_t *slot, uint32_t cpus, bool keyless,
					   struct region_cpu_row *row);

/* a -= b, of the same slot and generation. */
void region_cpu_numbers_sub(struct region_cpu_numbers *a, const struct region_cpu_numbers *b);
/*
 * The wait in ns that a share q of the waits did not exceed: the middle of its bucket, off by at
 * most 2^(1/4). 0 without waits.
 */
uint64_t region_cpu_wait_quantile(const struct region_cpu_numbers *n, double q);

#endif
