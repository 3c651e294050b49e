/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/task.h - a region of kind SL_REGION_TASKS: scheduler time of every task and cgroup. The
 * memory is a mapped eBPF array that only programs in the kernel write. sidelight-region(5) is
 * normative.
 *
 *   0      header            as of every region
 *   4096   hot line          enum sl_tasks_hot_cell, a plain line
 *   4160   losses            SL_SECTION_LOSSES (layer.h), one line: enum sl_task_loss
 *   4480   tasks             SL_SECTION_TASKS: one struct sl_cpu_task each, written under the
 *                            lock of the task's run queue
 *   ...    cgroups           SL_SECTION_TASK_CGROUPS: per cgroup one struct sl_cpu_task per CPU,
 *                            whose usages are to be summed up; the first alone names the cgroup. A
 *                            CPU writes its own with interrupts off, without atomic operations
 *
 * All lines are plain. The first cell of a slot is its generation: bits 0-1 enum sl_cpu_slot_state,
 * above them a number that grows with each owner. Freed slots are reused in order, so that last
 * values stay readable. sidelight-region(5) says how a reader tells owners apart.
 *
 * C11 and C++17; also compiled into the eBPF programs.
 */
#ifndef SIDELIGHT_TASK_H
#define SIDELIGHT_TASK_H

#include <sidelight/layer.h>

#define SL_CPU_LINE 8 /* words: seven cells and the check */

/*
 * Time in the run queue: an exponential histogram of scale 1. Bucket i holds waits above
 * 2^((i + FIRST - 1) / 2) s up to 2^((i + FIRST) / 2) s; the first and the last also hold all
 * waits below and above.
 */
#define SL_CPU_BUCKETS	    56	  /* eight lines of seven */
#define SL_CPU_BUCKET_FIRST (-43) /* above 2^-22 s, 238 ns; the last ends at 2^6 */
#define SL_CPU_WAIT_LINES   (SL_CPU_BUCKETS / 7)

enum sl_cpu_slot_state {
	SL_CPU_FREE = 0, /* or being assigned: its contents mean nothing */
	SL_CPU_LIVE = 1,
	SL_CPU_ENDED = 2, /* its values are the last ones */
};

enum sl_cpu_cell {
	SL_CPU_RUN_NS = 0,	/* on a CPU: se.sum_exec_runtime */
	SL_CPU_WAIT_NS = 1,	/* runnable, waiting for a CPU: sched_info.run_delay */
	SL_CPU_WAITS = 2,	/* times that it got a CPU: sched_info.pcount */
	SL_CPU_VOLUNTARY = 3,	/* switches because it slept: nvcsw */
	SL_CPU_INVOLUNTARY = 4, /* switches by preemption: nivcsw */
	SL_CPU_MIGRATIONS = 5,	/* moves to another CPU: se.nr_migrations */
	SL_CPU_UNPLACED = 6,	/* waits of unknown length: not in the histogram */
};

enum sl_cpu_task_cell {
	SL_CPU_TASK_GENERATION = 0,
	SL_CPU_TASK_PIDS = 1, /* bits 0-31: thread, 32-63: process; of the first PID namespace */
	SL_CPU_TASK_START_NS = 2, /* CLOCK_BOOTTIME; 0: older than the table */
	SL_CPU_TASK_CGROUP = 3,	  /* id */
	SL_CPU_TASK_COMM = 4,	  /* and 5: 16 bytes, NUL-padded */
	SL_CPU_TASK_ENDED_NS = 6, /* CLOCK_MONOTONIC; 0 while it lives */
};

/* Slot 0 is that of all cgroups without a slot. */
enum sl_cpu_cgroup_cell {
	SL_CPU_CGROUP_GENERATION = 0,
	SL_CPU_CGROUP_ID = 1,
	SL_CPU_CGROUP_SEEN_NS = 2, /* CLOCK_MONOTONIC of its first task */
	SL_CPU_CGROUP_GONE_NS = 3, /* CLOCK_MONOTONIC of its removal; 0 until then */
	SL_CPU_CGROUP_ENDED = 4,   /* tasks that ended in it */
};

#ifdef __bpf__
typedef unsigned long long sl_cell_t; /* as __u64 is there */
#else
typedef uint64_t sl_cell_t;
#endif

struct sl_cpu_usage {
	sl_cell_t cell[SL_CPU_LINE];
	sl_cell_t wait[SL_CPU_WAIT_LINES][SL_CPU_LINE];
};

struct sl_cpu_task { /* or the part of a cgroup that one CPU writes */
	sl_cell_t who[SL_CPU_LINE];
	struct sl_cpu_usage usage;
};

#define SL_TASK_SIZE	 640u
#define SL_TASKS_MAX	 (1u << 20)
#define SL_TASK_CPUS_MAX 1024u
SL_STATIC_ASSERT(sizeof(struct sl_cpu_task) == SL_TASK_SIZE, "task");

/* Offsets of the hot line and the losses; the element of SL_TASK_SIZE where the tasks begin. */
#define SL_TASKS_HOT_AT	   SL_HEADER_SIZE
#define SL_TASKS_LOSSES_AT (SL_HEADER_SIZE + SL_LINE_SIZE)
#define SL_TASKS_FIRST	   7u
SL_STATIC_ASSERT(SL_TASKS_FIRST *SL_TASK_SIZE >= SL_TASKS_LOSSES_AT + SL_LINE_SIZE &&
			 SL_TASKS_HOT_AT / SL_TASK_SIZE == SL_TASKS_FIRST - 1,
		 "hot line and losses precede the tasks");

enum sl_tasks_hot_cell {		    /* each grows independently */
			 SL_TASKS_USED = 0, /* slots ever used, or more: a reader reads [0, used) of
					       the section */
			 SL_TASKS_CGROUPS_USED = 1, /* the same; slot 0 is always in use */
};

/* Losses, by cause. */
enum sl_task_loss {
	SL_TASK_LOSS_TASKS = 0,	    /* task table full: counted in their cgroup only */
	SL_TASK_LOSS_CGROUPS = 1,   /* cgroup table full: counted in slot 0 */
	SL_TASK_LOSS_UNTRACKED = 2, /* switches of tasks without task storage */
	SL_TASK_LOSSES = 3,
};

#define SL_CPU_NO_SLOT 0xffffffffu

#endif
