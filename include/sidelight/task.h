/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidelight/task.h - a region of kind SL_REGION_TASKS: scheduler time of every task and cgroup. The
 * memory is a mapped eBPF array that only programs in the kernel write. sidelight-region(5) is
 * normative.
 *
 *   0      header            as in every region
 *   4096   hot line          enum sl_tasks_hot_cell, a plain line
 *   4160   losses            SL_SECTION_LOSSES (layer.h), one line: enum sl_task_loss
 *   4480   tasks             SL_SECTION_TASKS: one struct sl_cpu_task per task, written under
 *                            the lock of the task's run queue
 *   ...    cgroups           SL_SECTION_TASK_CGROUPS: per cgroup one struct sl_cpu_task per CPU.
 *                            Readers sum the usages; only the first identifies the cgroup. A CPU
 *                            writes its own with interrupts off, without atomic operations
 *
 * All lines are plain. The first cell of a slot is its generation: bits 0-1 enum sl_cpu_slot_state,
 * above them a number that grows with each owner. Freed slots are reused in order, so the last
 * values stay readable for a while. sidelight-region(5) says how a reader detects a new owner.
 *
 * C11 and C++17; also compiled into the eBPF programs.
 */
#ifndef SIDELIGHT_TASK_H
#define SIDELIGHT_TASK_H

#include <sidelight/layer.h>

#define SL_CPU_LINE 8 /* words of a line: seven cells and the check word */

/*
 * Time in the run queue: an exponential histogram of scale 1. Bucket i counts waits above 2^((i +
 * FIRST - 1) / 2) s up to 2^((i + FIRST) / 2) s; the first and the last also count all shorter and
 * longer waits.
 */
#define SL_CPU_BUCKETS	    56	  /* number of buckets: eight lines of seven */
#define SL_CPU_BUCKET_FIRST (-43) /* lower bound 2^-22 s, 238 ns; the last bucket ends at 2^6 s */
#define SL_CPU_WAIT_LINES   (SL_CPU_BUCKETS / 7)

enum sl_cpu_slot_state {
	SL_CPU_FREE = 0, /* free, or being assigned: its contents are undefined */
	SL_CPU_LIVE = 1,
	SL_CPU_ENDED = 2, /* exited; the values are the last ones */
};

enum sl_cpu_cell {
	SL_CPU_RUN_NS = 0,	/* time on a CPU: se.sum_exec_runtime */
	SL_CPU_WAIT_NS = 1,	/* time runnable but waiting for a CPU: sched_info.run_delay */
	SL_CPU_WAITS = 2,	/* number of times scheduled onto a CPU: sched_info.pcount */
	SL_CPU_VOLUNTARY = 3,	/* context switches because the task slept: nvcsw */
	SL_CPU_INVOLUNTARY = 4, /* context switches by preemption: nivcsw */
	SL_CPU_MIGRATIONS = 5,	/* number of moves to another CPU: se.nr_migrations */
	SL_CPU_UNPLACED = 6,	/* waits of unknown length, which are not in the histogram */
};

enum sl_cpu_task_cell {
	SL_CPU_TASK_GENERATION = 0,
	/* bits 0-31: thread, bits 32-63: process; in the initial PID namespace */
	SL_CPU_TASK_PIDS = 1,
	SL_CPU_TASK_START_NS = 2, /* CLOCK_BOOTTIME; 0 means started before the table */
	SL_CPU_TASK_CGROUP = 3,	  /* id of the cgroup */
	SL_CPU_TASK_COMM = 4,	  /* this cell and the next: 16 bytes, NUL-padded */
	SL_CPU_TASK_ENDED_NS = 6, /* CLOCK_MONOTONIC; 0 while the task lives */
};

/* Slot 0 counts all cgroups without a slot of their own. */
enum sl_cpu_cgroup_cell {
	SL_CPU_CGROUP_GENERATION = 0,
	SL_CPU_CGROUP_ID = 1,
	SL_CPU_CGROUP_SEEN_NS = 2, /* CLOCK_MONOTONIC of the cgroup's first task */
	SL_CPU_CGROUP_GONE_NS = 3, /* CLOCK_MONOTONIC of the cgroup's removal; 0 until then */
	SL_CPU_CGROUP_ENDED = 4,   /* number of tasks that exited in the cgroup */
};

#ifdef __bpf__
typedef unsigned long long sl_cell_t; /* same type as __u64 in eBPF programs */
#else
typedef uint64_t sl_cell_t;
#endif

struct sl_cpu_usage {
	sl_cell_t cell[SL_CPU_LINE];
	sl_cell_t wait[SL_CPU_WAIT_LINES][SL_CPU_LINE];
};

struct sl_cpu_task { /* a task, or one CPU's share of a cgroup */
	sl_cell_t who[SL_CPU_LINE];
	struct sl_cpu_usage usage;
};

#define SL_TASK_SIZE	 640u
#define SL_TASKS_MAX	 (1u << 20)
#define SL_TASK_CPUS_MAX 1024u
SL_STATIC_ASSERT(sizeof(struct sl_cpu_task) == SL_TASK_SIZE, "task");

/* Offsets of the hot line and the losses; index of the first task, in elements of SL_TASK_SIZE. */
#define SL_TASKS_HOT_AT	   SL_HEADER_SIZE
#define SL_TASKS_LOSSES_AT (SL_HEADER_SIZE + SL_LINE_SIZE)
#define SL_TASKS_FIRST	   7u
SL_STATIC_ASSERT(SL_TASKS_FIRST *SL_TASK_SIZE >= SL_TASKS_LOSSES_AT + SL_LINE_SIZE &&
			 SL_TASKS_HOT_AT / SL_TASK_SIZE == SL_TASKS_FIRST - 1,
		 "hot line and losses precede the tasks");

enum sl_tasks_hot_cell { /* each cell grows independently */
			 /*
			  * upper bound of the slots ever used; read slots [0, used) of the section
			  */
			 SL_TASKS_USED = 0,
			 /* the same for cgroups; slot 0 is always in use */
			 SL_TASKS_CGROUPS_USED = 1,
};

/* Losses by cause. */
enum sl_task_loss {
	SL_TASK_LOSS_TASKS = 0,	    /* task table full: task counted in its cgroup only */
	SL_TASK_LOSS_CGROUPS = 1,   /* cgroup table full: cgroup counted in slot 0 */
	SL_TASK_LOSS_UNTRACKED = 2, /* context switches of tasks without task storage */
	SL_TASK_LOSSES = 3,
};

#define SL_CPU_NO_SLOT 0xffffffffu

#endif
