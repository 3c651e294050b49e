/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.h - scheduler time of every task and cgroup, as the kernel accounts for it (cpu.bpf.c keeps
 * it, sidelight/task.h is the memory). Knows nothing of containers' names: that is cgroup.h.
 *
 * What is counted goes up from the moment of tcp_cpu_open(), or from a task's birth after that. A
 * task that sleeps is exact, as /proc/PID/task/TID/schedstat says; one that runs is behind by at
 * most 1 ms of running and a tick.
 *
 * One thread uses a struct tcp_cpu; its kernel side runs by itself. Close it, or end in any way,
 * and nothing of it stays in the kernel.
 */
#ifndef SL_SOURCE_TCP_CPU_H
#define SL_SOURCE_TCP_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "region/tasks.h"

struct tcp_cpu_opts {
	uint32_t tasks;	    /* slots; 0: 8192. More tasks are counted in their cgroup alone */
	uint32_t cgroups;   /* slots; 0: 512. More cgroups are counted together, in slot 0 */
	uint32_t hierarchy; /* of cgroups: see struct tcp_cgroup_hierarchy; 0: the unified one */
	const char *controller; /* of that hierarchy, if it is of version 1: "memory" */
};

struct tcp_cpu;

/* Loads, attaches, and takes in the tasks that are there. NULL: errno, and the cause and what to do
 * in why. EPERM: a capability is missing; ENOENT: the kernel has no BTF or lacks a tracepoint. */
struct tcp_cpu *tcp_cpu_open(const struct tcp_cpu_opts *opts, char *why, size_t why_bytes);
void tcp_cpu_close(struct tcp_cpu *c); /* NULL is fine */

uint32_t tcp_cpu_task_slots(const struct tcp_cpu *c);	/* ever used */
uint32_t tcp_cpu_cgroup_slots(const struct tcp_cpu *c); /* ever used: at least 1 */

/* 1: *row is whole. 0: the slot is free. -EAGAIN: it changed too fast to be read whole. */
int tcp_cpu_task(const struct tcp_cpu *c, uint32_t slot, struct region_cpu_row *row);
int tcp_cpu_cgroup(const struct tcp_cpu *c, uint32_t slot, struct region_cpu_row *row);

/* Whose slot that is, by its first line alone; 0: nobody's now. */
uint64_t tcp_cpu_cgroup_id(const struct tcp_cpu *c, uint32_t slot);

/* By enum sl_task_loss. */
void tcp_cpu_losses(const struct tcp_cpu *c, uint64_t out[SL_TASK_LOSSES]);

/* The region of kind SL_REGION_TASKS, mapped for writing, and the descriptor of its map; until the
 * close. */
void *tcp_cpu_region(const struct tcp_cpu *c, size_t *bytes, int *fd);

/*
 * Takes in tasks whose fork was missed, if there are any: the kernel may leave out calls of a
 * tracepoint while another process attaches to it. They lose nothing but their time in a cgroup
 * that they have left. Once an interval will do. 0 or -errno.
 */
int tcp_cpu_refresh(struct tcp_cpu *c);

#endif
