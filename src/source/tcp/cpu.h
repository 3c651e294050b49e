/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.h - scheduler time of every task and cgroup, as the kernel accounts for it (cpu.bpf.c keeps it,
 * cpu_shared.h is the memory). Knows nothing of containers' names: that is cgroup.h.
 *
 * What is counted goes up from the moment of sl_cpu_open(), or from a task's birth after that. A task
 * that sleeps is exact, as /proc/PID/task/TID/schedstat says; one that runs is behind by at most 1 ms of
 * running and a tick.
 *
 * One thread uses a struct sl_cpu; its kernel side runs by itself. Close it, or end in any way, and
 * nothing of it stays in the kernel.
 */
#ifndef SL_SOURCE_TCP_CPU_H
#define SL_SOURCE_TCP_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "source/tcp/bpf/cpu_shared.h"

struct sl_cpu_opts {
	size_t sz;	      /* sizeof(struct sl_cpu_opts) */
	uint32_t tasks;	      /* slots; 0: 8192. More tasks are counted in their cgroup alone */
	uint32_t cgroups;     /* slots; 0: 512. More cgroups are counted together, in slot 0 */
	uint32_t hierarchy;   /* of cgroups: see struct sl_cgroup_hierarchy; 0: the unified one */
	const char *controller; /* of that hierarchy, if it is of version 1: "memory" */
};

struct sl_cpu;

/* Loads, attaches, and takes in the tasks that are there. NULL: errno, and the cause and what to do in
 * why. EPERM: a capability is missing; ENOENT: the kernel has no BTF or lacks a tracepoint. */
struct sl_cpu *sl_cpu_open(const struct sl_cpu_opts *opts, char *why, size_t why_bytes);
void sl_cpu_close(struct sl_cpu *c); /* NULL is fine */

struct sl_cpu_numbers {
	uint64_t run_ns, wait_ns, waits, voluntary, involuntary, migrations;
	uint64_t unplaced; /* waits that are in no bucket */
	uint64_t wait[SL_CPU_BUCKETS];
};

struct sl_cpu_row {
	uint64_t generation; /* with the slot: tells this owner from the one before */
	uint64_t cgroup;     /* id; 0: not known yet, or in slot 0 what found no slot */
	bool ended;
	uint32_t pid, tgid;  /* of tasks, in the first PID namespace */
	uint64_t start_ns;   /* of tasks: CLOCK_BOOTTIME; 0: older than the start */
	uint64_t ended_tasks; /* of cgroups */
	char comm[17];	     /* of tasks: a stranger's text */
	struct sl_cpu_numbers n;
};

uint32_t sl_cpu_task_slots(const struct sl_cpu *c);   /* ever used */
uint32_t sl_cpu_cgroup_slots(const struct sl_cpu *c); /* ever used: at least 1 */

/* 1: *row is whole. 0: the slot is free. -EAGAIN: it changed too fast to be read whole. */
int sl_cpu_task(const struct sl_cpu *c, uint32_t slot, struct sl_cpu_row *row);
int sl_cpu_cgroup(const struct sl_cpu *c, uint32_t slot, struct sl_cpu_row *row);

struct sl_cpu_losses sl_cpu_losses(const struct sl_cpu *c);

/*
 * Takes in tasks whose fork was missed, if there are any: the kernel may leave out calls of a tracepoint
 * while another process attaches to it. They lose nothing but their time in a cgroup that they
 * have left. Once an interval will do. 0 or -errno.
 */
int sl_cpu_refresh(struct sl_cpu *c);

/* a - b, of the same slot and generation. */
void sl_cpu_numbers_sub(struct sl_cpu_numbers *a, const struct sl_cpu_numbers *b);
/* The wait in ns that a share q of the waits did not exceed: the middle of its bucket, at most 2^(1/4)
 * beside the truth. 0 without waits. */
uint64_t sl_cpu_wait_quantile(const struct sl_cpu_numbers *n, double q);

#endif
