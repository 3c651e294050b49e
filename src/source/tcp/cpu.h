/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.h - scheduler time of every task and cgroup as accounted for by the kernel (see cpu.bpf.c;
 * the format is defined in sidelight/task.h). Names of containers come from cgroup.h.
 *
 * Counting starts at tcp_cpu_open(), or when a task is created later. The values of a sleeping task
 * are exact, as in /proc/PID/task/TID/schedstat; the values of a running task lag by at most 1 ms
 * of run time plus one tick.
 *
 * A struct tcp_cpu must be used by one thread at a time. Its programs are unloaded when it is
 * closed or when the process exits.
 */
#ifndef SL_SOURCE_TCP_CPU_H
#define SL_SOURCE_TCP_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "region/tasks.h"
#include "source/tcp/region.h"

struct tcp_cpu_opts {
	/*
	 * number of task slots; 0 means 8192. Tasks without a slot are only counted in their cgroup
	 */
	uint32_t tasks;
	/*
	 * number of cgroup slots; 0 means 512. Cgroups without a slot are counted together in slot
	 * 0
	 */
	uint32_t cgroups;
	uint32_t hierarchy;	/* number of the cgroup hierarchy; 0 for the unified hierarchy */
	const char *controller; /* controller of a version 1 hierarchy, such as "memory" */
};

struct tcp_cpu;

/*
 * Loads and attaches the programs, and adds existing tasks. On failure, returns NULL with errno,
 * and writes the cause and a remedy to why. EPERM: a capability is missing; ENOENT: BTF or a
 * tracepoint is missing.
 */
struct tcp_cpu *tcp_cpu_open(const struct tcp_cpu_opts *opts, char *why, size_t why_bytes);
void tcp_cpu_close(struct tcp_cpu *c); /* NULL is fine */

uint32_t tcp_cpu_task_slots(const struct tcp_cpu *c); /* number of slots used so far */
/* number of slots used so far, at least 1 */
uint32_t tcp_cpu_cgroup_slots(const struct tcp_cpu *c);

/* Return 1 if *row was filled in, 0 if the slot is free, or -EAGAIN if the slot kept changing. */
int tcp_cpu_task(const struct tcp_cpu *c, uint32_t slot, struct region_cpu_row *row);
int tcp_cpu_cgroup(const struct tcp_cpu *c, uint32_t slot, struct region_cpu_row *row);

/* Returns the id of the cgroup that owns a slot, from its first line only; 0 if it is free. */
uint64_t tcp_cpu_cgroup_id(const struct tcp_cpu *c, uint32_t slot);

/* Copies the loss counters; out is indexed by enum sl_task_loss. */
void tcp_cpu_losses(const struct tcp_cpu *c, uint64_t out[SL_TASK_LOSSES]);

/* Returns the region, of kind SL_REGION_TASKS. Valid until tcp_cpu_close(). */
const struct tcp_region *tcp_cpu_region(const struct tcp_cpu *c);

/*
 * Adds tasks whose fork was missed: the kernel may skip calls to a tracepoint while another process
 * attaches to it. Such tasks only lose the time spent in cgroups that they have already left. Call
 * this function once per interval. Returns 0 or -errno.
 */
int tcp_cpu_refresh(struct tcp_cpu *c);

#endif
