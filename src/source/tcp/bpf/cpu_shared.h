/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * cpu_shared.h - the memory that cpu.bpf.c fills and cpu.c reads: mmapable arrays of self-verifying
 * lines (sidelight/region.h, "plain"), so that a reader that is not ordered with the kernel, an RDMA
 * READ among them, knows whether what it holds is whole. Plain C for both compilers.
 *
 *	tasks     one struct sl_cpu_task a task. Written by whoever holds the run queue's lock.
 *	cgroups   one line a cgroup: who it is
 *	usage     one struct sl_cpu_usage a cgroup and CPU, [slot * cpus + cpu]: each CPU writes its
 *	          own with interrupts off, so that no update is atomic; the reader does the adding
 *
 * The first cell of a slot is its generation: bits 0-1 enum sl_cpu_slot_state, above a number that grows
 * with each owner. Slots go back through a queue, the one that is free for longest comes first, so that
 * last values stay readable; a reader of several lines reads the generation before and after.
 */
#ifndef SL_TCP_BPF_CPU_SHARED_H
#define SL_TCP_BPF_CPU_SHARED_H

#include <linux/types.h>

#define SL_CPU_LINE 8 /* words: seven cells and the check */

/*
 * Time in the run queue: a histogram of scale 1 as in bucket.h. Bucket i holds the waits above
 * 2^((i + FIRST - 1) / 2) ns and not above 2^((i + FIRST) / 2) ns; the first and the last also hold what
 * lies beyond.
 */
#define SL_CPU_BUCKETS	    56 /* eight lines of seven */
#define SL_CPU_BUCKET_FIRST 17 /* above 2^8 ns; the last ends at 2^36 */
#define SL_CPU_WAIT_LINES (SL_CPU_BUCKETS / 7)

enum sl_cpu_slot_state {
	SL_CPU_FREE = 0, /* or about to be somebody's: nothing in it means anything */
	SL_CPU_LIVE = 1,
	SL_CPU_ENDED = 2, /* its values are the last ones */
};

enum sl_cpu_cell {
	SL_CPU_RUN_NS = 0,	/* on a CPU: se.sum_exec_runtime */
	SL_CPU_WAIT_NS = 1,	/* runnable, and waiting for one: sched_info.run_delay */
	SL_CPU_WAITS = 2,	/* times that it got one: sched_info.pcount */
	SL_CPU_VOLUNTARY = 3,	/* switches because it slept: nvcsw */
	SL_CPU_INVOLUNTARY = 4, /* switches because another had to run: nivcsw */
	SL_CPU_MIGRATIONS = 5,	/* moves to another CPU: se.nr_migrations */
	SL_CPU_UNPLACED = 6,	/* waits whose single lengths are not known: not in the histogram */
};

enum sl_cpu_task_cell {
	SL_CPU_TASK_GENERATION = 0,
	SL_CPU_TASK_PIDS = 1,	  /* bits 0-31: thread, 32-63: process; of the first PID namespace */
	SL_CPU_TASK_START_NS = 2, /* CLOCK_BOOTTIME; 0: it was there before, and counts from then on */
	SL_CPU_TASK_CGROUP = 3,	  /* id */
	SL_CPU_TASK_COMM = 4,	  /* and 5: 16 bytes, NUL-padded */
	SL_CPU_TASK_ENDED_NS = 6, /* CLOCK_MONOTONIC; 0 while it lives */
};

enum sl_cpu_cgroup_cell {
	SL_CPU_CGROUP_GENERATION = 0,
	SL_CPU_CGROUP_ID = 1,
	SL_CPU_CGROUP_SEEN_NS = 2, /* CLOCK_MONOTONIC of its first task */
	SL_CPU_CGROUP_GONE_NS = 3, /* CLOCK_MONOTONIC of its removal; 0 while it is there */
	SL_CPU_CGROUP_ENDED = 4,   /* tasks that ended in it */
};

struct sl_cpu_cgroup {
	__u64 who[SL_CPU_LINE];
};

struct sl_cpu_usage {
	__u64 cell[SL_CPU_LINE];
	__u64 wait[SL_CPU_WAIT_LINES][SL_CPU_LINE];
};

struct sl_cpu_task {
	__u64 who[SL_CPU_LINE];
	struct sl_cpu_usage usage;
};

/* What the programs lose, and why. Kept by atomic adds. */
struct sl_cpu_losses {
	__u64 tasks_refused;   /* table of tasks full: counted in their cgroup only */
	__u64 cgroups_refused; /* table of cgroups full: counted in slot 0 */
	__u64 untracked;	    /* switches of tasks that no storage was to be had for */
};

#define SL_CPU_NO_SLOT 0xffffffffu

#endif
