/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.h - scheduler time of every task and cgroup as the kernel accounts for it (cpu.bpf.c; the
 * format is sidelight/task.h). Names of containers are cgroup.h's.
 *
 * Counts begin at tcp_cpu_open(), or at a later task's creation. A sleeping task is exact, as in
 * /proc/PID/task/TID/schedstat; a running one lags by at most 1 ms of running and a tick.
 *
 * One thread per struct tcp_cpu. The programs end with it, or with the process.
 */
#ifndef SL_SOURCE_TCP_CPU_H
#define SL_SOURCE_TCP_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "region/tasks.h"
#include "source/tcp/region.h"

struct tcp_cpu_opts {
	uint32_t tasks;		/* slots; 0: 8192. Further tasks count only in their cgroup */
	uint32_t cgroups;	/* slots; 0: 512. Further cgroups count together in slot 0 */
	uint32_t hierarchy;	/* see struct tcp_cgroup_hierarchy; 0: the unified one */
	const char *controller; /* of a version 1 hierarchy: "memory" */
};

struct tcp_cpu;

/*
 * Loads, attaches, and adds existing tasks. NULL with errno, and cause and remedy in why. EPERM: a
 * capability is missing; ENOENT: no BTF, or a tracepoint is missing.
 */
struct tcp_cpu *tcp_cpu_open(const struct tcp_cpu_opts *opts, char *why, size_t why_bytes);
void tcp_cpu_close(struct tcp_cpu *c); /* NULL is fine */

uint32_t tcp_cpu_task_slots(const struct tcp_cpu *c);	/* ever used */
uint32_t tcp_cpu_cgroup_slots(const struct tcp_cpu *c); /* ever used: at least 1 */

/* 1: *row is filled in. 0: the slot is free. -EAGAIN: it kept changing. */
int tcp_cpu_task(const struct tcp_cpu *c, uint32_t slot, struct region_cpu_row *row);
int tcp_cpu_cgroup(const struct tcp_cpu *c, uint32_t slot, struct region_cpu_row *row);

/* The owner of a slot, from its first line alone; 0: none. */
uint64_t tcp_cpu_cgroup_id(const struct tcp_cpu *c, uint32_t slot);

/* Indexed by enum sl_task_loss. */
void tcp_cpu_losses(const struct tcp_cpu *c, uint64_t out[SL_TASK_LOSSES]);

/* Of kind SL_REGION_TASKS; until the close. */
const struct tcp_region *tcp_cpu_region(const struct tcp_cpu *c);

/*
 * Adds tasks whose fork was missed: the kernel may skip calls of a tracepoint while another process
 * attaches to it. They lose only their time in cgroups that they have left. Call it once per
 * interval. 0 or -errno.
 */
int tcp_cpu_refresh(struct tcp_cpu *c);

#endif
