// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * cpu.bpf.c - accumulates scheduler time per task and per cgroup from the scheduler's own
 * accounting.
 *
 * The kernel keeps for every task the values that /proc/PID/schedstat prints (task_struct.se,
 * .sched_info). The programs therefore measure no time: at each switch, they add the growth of
 * these values to the slots of the task and of its cgroup. If an event is missed, the next one
 * makes up for it, so sums equal the kernel's to the nanosecond.
 *
 * At sched_switch, the values of prev are complete (kernel/sched/core.c, __schedule():
 * update_curr() and *switch_count come before the tracepoint, and the last sched_info_arrive() was
 * when prev got the CPU). A task that keeps its CPU is accounted for at ticks.
 *
 * Nothing is allocated under the run queue's lock, where waking kswapd would deadlock: storage and
 * slots are allocated at fork, or by the iterator for existing tasks.
 */
#include "kernel.h"

#include <sidelight/task.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bucket.h"
#include "line.h"
#include "map.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TASK_DEAD  0x80 /* include/linux/sched.h */
#define PF_EXITING 0x4
/* interval at which the time of a running task is added up */
#define TICK_NS 1000000
/* longer than a task exists after cgroup_exit() */
#define QUARANTINE_NS 1000000000ull
#define MAX_CPUS      1024

/* Set before loading. The types are spelled out because the skeleton uses them, too. */
const volatile __u32 cpus = 1, max_tasks = 1, max_cgroups = 1;
/* CLOCK_BOOTTIME; tasks created later are counted from their creation */
const volatile __u64 opened_ns;
/* hierarchy of the cgroups; 0 means unified, otherwise version 1 */
const volatile __u32 hierarchy_id;
const volatile __u32 subsystem; /* index in css_set.subsys of the hierarchy's controller */

enum { NEW = 0, CLAIMED, READY, OVER };

/* The scheduler's statistics of a task. */
struct accounts {
	u64 run, wait, waits, voluntary, involuntary, migrations;
};

struct state {
	u32 state;
	u32 slot;
	u32 cgroup_slot;
	u32 cgroup_generation;
	const void *css_set; /* the css_set for which cgroup_slot was looked up */
	u64 cgroup_id;
	struct accounts read; /* values as last read */
};
MAP(states, TASK_STORAGE, BPF_F_NO_PREALLOC, 0, int, struct state);

/* A region of kind SL_REGION_TASKS, in elements of the size of a slot. */
MAP(task_table, ARRAY, BPF_F_MMAPABLE, 1, u32, struct sl_cpu_task);

/* Preallocated, because insertions happen under the run queue's lock. */
MAP(cgroup_slots, HASH, 0, 1, u64, u32);

QUEUE(free_tasks, 1, u32);
QUEUE(free_cgroups, 1, u32);

/* ---- arithmetic ---- */

/*
 * Forces the compiler to check a bound that the verifier cannot derive, such as the bound of a
 * quotient.
 */
#define bound(v) asm volatile("" : "+r"(v))

/* Returns the element with the end of the header, the hot line and the loss counters. */
static __always_inline u64 *hot_line(void)
{
	u32 at = SL_TASKS_FIRST - 1;
	u64 *element = bpf_map_lookup_elem(&task_table, &at);

	return element ? element + (SL_TASKS_HOT_AT - (SL_TASKS_FIRST - 1) * SL_TASK_SIZE) / 8
		       : NULL;
}

static __always_inline struct sl_cpu_task *task_at(u32 slot)
{
	u32 at = SL_TASKS_FIRST + slot;

	return slot < max_tasks ? bpf_map_lookup_elem(&task_table, &at) : NULL;
}

static __always_inline struct sl_cpu_task *cgroup_on(u32 slot, u32 cpu)
{
	u32 at = SL_TASKS_FIRST + max_tasks + slot * cpus + cpu;

	return slot < max_cgroups ? bpf_map_lookup_elem(&task_table, &at) : NULL;
}

static __always_inline u64 *cgroup_at(u32 slot)
{
	struct sl_cpu_task *first = cgroup_on(slot, 0);

	return first ? first->who : NULL;
}

static __always_inline void count_loss(enum sl_task_loss what)
{
	u64 *hot = hot_line();

	if (hot)
		line_add_atomic(hot + (SL_TASKS_LOSSES_AT - SL_TASKS_HOT_AT) / 8, what, 1);
}

/* Returns a slot that was never used; a result of at least `least` means that none is left. */
static __always_inline u32 slot_new(enum sl_tasks_hot_cell used, u32 least)
{
	u64 *hot = hot_line();

	return hot && hot[used] < least ? (u32)line_add_atomic(hot, used, 1) : least;
}

static __always_inline u32 bucket_of(u64 ns)
{
	int i;

	if (!ns)
		return 0;
	if (ns >> 36) /* 69 s or more */
		return SL_CPU_BUCKETS - 1;
	i = bucket_of_seconds(ns) - SL_CPU_BUCKET_FIRST;
	return i < 0 ? 0 : i < SL_CPU_BUCKETS ? (u32)i : SL_CPU_BUCKETS - 1;
}

/* Skips additions of 0: at a context switch, most values have not grown. */
static __always_inline void cell_grow(u64 *line, u32 i, u64 n)
{
	if (n)
		line_add(line, i, n);
}

/* g: growth of a task's values; bucket: bucket of its single wait, or SL_CPU_BUCKETS if unknown. */
__noinline int add_usage(struct sl_cpu_usage *u, const struct accounts *g, u32 bucket)
{
	u32 line, cell;

	if (!u || !g)
		return 0;
	cell_grow(u->cell, SL_CPU_RUN_NS, g->run);
	cell_grow(u->cell, SL_CPU_VOLUNTARY, g->voluntary);
	cell_grow(u->cell, SL_CPU_INVOLUNTARY, g->involuntary);
	cell_grow(u->cell, SL_CPU_MIGRATIONS, g->migrations);
	if (!g->waits && !g->wait)
		return 0;
	cell_grow(u->cell, SL_CPU_WAIT_NS, g->wait);
	cell_grow(u->cell, SL_CPU_WAITS, g->waits);
	line = bucket / 7;
	cell = bucket % 7;
	bound(line);
	bound(cell);
	if (line < SL_CPU_WAIT_LINES && cell < 7)
		line_add(u->wait[line], cell, 1);
	else
		line_add(u->cell, SL_CPU_UNPLACED, g->waits);
	return 0;
}

/* ---- cgroups ---- */

static __always_inline struct cgroup *cgroup_of(struct css_set *set)
{
	struct cgroup_subsys_state *css = NULL;

	if (!hierarchy_id)
		return BPF_CORE_READ(set, dfl_cgrp);
	bpf_probe_read_kernel(&css, sizeof(css),
			      (char *)set + bpf_core_field_offset(struct css_set, subsys) +
				      (subsystem & 31) * sizeof(css));
	return BPF_CORE_READ(css, cgroup);
}

static __always_inline void zero_usage(struct sl_cpu_usage *u)
{
	for (u32 i = 0; i < SL_CPU_LINE; i++)
		u->cell[i] = 0;
	for (u32 i = 0; i < SL_CPU_WAIT_LINES; i++)
		for (u32 j = 0; j < SL_CPU_LINE; j++)
			u->wait[i][j] = 0;
}

static __always_inline u64 next_generation(u64 before, enum sl_cpu_slot_state state)
{
	return state == SL_CPU_FREE ? ((before >> 2) + 1) << 2 : (before & ~3ull) | state;
}

/* Returns a slot that was never used, or was freed long enough ago that no CPU still uses it. */
static __always_inline u32 take_cgroup_slot(u64 now)
{
	u64 *line;
	u32 slot;

	slot = slot_new(SL_TASKS_CGROUPS_USED, max_cgroups);
	if (slot < max_cgroups)
		return slot;
	if (bpf_map_pop_elem(&free_cgroups, &slot))
		return 0;
	line = cgroup_at(slot);
	if (line && now - line[SL_CPU_CGROUP_GONE_NS] >= QUARANTINE_NS)
		return slot;
	bpf_map_push_elem(&free_cgroups, &slot, 0);
	return 0;
}

/*
 * Returns the slot of a cgroup, or 0. Assigns one if there is none, unless the calling task is
 * exiting, as its cgroup may already be removed.
 */
__noinline u32 cgroup_slot(u64 id, bool exiting)
{
	u32 *have = bpf_map_lookup_elem(&cgroup_slots, &id), slot;
	u64 *line, now = bpf_ktime_get_ns();

	if (have)
		return *have;
	if (exiting)
		return 0;
	slot = take_cgroup_slot(now);
	line = cgroup_at(slot);
	if (!slot || !line) {
		count_loss(SL_TASK_LOSS_CGROUPS);
		return 0;
	}
	line_set(line, SL_CPU_CGROUP_GENERATION, next_generation(line[0], SL_CPU_FREE));
	for (u32 i = 0; i < cpus && i < MAX_CPUS; i++) {
		struct sl_cpu_task *c = cgroup_on(slot, i);

		if (c)
			zero_usage(&c->usage);
	}
	line_set(line, SL_CPU_CGROUP_ID, id);
	line_set(line, SL_CPU_CGROUP_SEEN_NS, now);
	line_set(line, SL_CPU_CGROUP_GONE_NS, 0);
	line_set(line, SL_CPU_CGROUP_ENDED, 0);
	line_set(line, SL_CPU_CGROUP_GENERATION, next_generation(line[0], SL_CPU_LIVE));
	if (!bpf_map_update_elem(&cgroup_slots, &id, &slot, BPF_NOEXIST))
		return slot;
	/* Another CPU inserted the cgroup first. */
	line_set(line, SL_CPU_CGROUP_GENERATION, next_generation(line[0], SL_CPU_FREE));
	bpf_map_push_elem(&free_cgroups, &slot, 0);
	have = bpf_map_lookup_elem(&cgroup_slots, &id);
	return have ? *have : 0;
}

SEC("tp_btf/cgroup_rmdir")
int BPF_PROG(on_cgroup_rmdir, struct cgroup *gone)
{
	u64 id = gone->kn->id, *line;
	u32 *have, slot;

	if (gone->root->hierarchy_id != (int)hierarchy_id)
		return 0;
	have = bpf_map_lookup_elem(&cgroup_slots, &id);
	if (!have)
		return 0;
	slot = *have;
	line = cgroup_at(slot);
	if (!line || bpf_map_delete_elem(&cgroup_slots, &id))
		return 0;
	line_set(line, SL_CPU_CGROUP_GONE_NS, bpf_ktime_get_ns());
	line_set(line, SL_CPU_CGROUP_GENERATION, next_generation(line[0], SL_CPU_ENDED));
	bpf_map_push_elem(&free_cgroups, &slot, 0);
	return 0;
}

/* ---- tasks ---- */

static __always_inline struct sl_cpu_task *slot_of(const struct state *st)
{
	return st->slot == SL_CPU_NO_SLOT ? NULL : task_at(st->slot);
}

/* Returns the slot of a task's cgroup. Looks it up again only if the task's css_set has changed. */
static __always_inline void find_cgroup(struct task_struct *t, struct state *st)
{
	bool exiting = t->flags & PF_EXITING;
	struct css_set *now = t->cgroups;
	struct sl_cpu_task *slot;
	u64 *line;

	if (st->css_set == now) {
		if (!exiting)
			return;
		line = cgroup_at(st->cgroup_slot);
		if (!line || line[SL_CPU_CGROUP_GENERATION] >> 2 != st->cgroup_generation)
			st->cgroup_slot = 0;
		return;
	}
	st->css_set = now;
	st->cgroup_id = BPF_CORE_READ(cgroup_of(now), kn, id);
	st->cgroup_slot = cgroup_slot(st->cgroup_id, exiting);
	line = cgroup_at(st->cgroup_slot);
	if (line)
		st->cgroup_generation = line[SL_CPU_CGROUP_GENERATION] >> 2;
	slot = slot_of(st);
	if (slot)
		line_set(slot->who, SL_CPU_TASK_CGROUP, st->cgroup_id);
}

static __always_inline struct accounts accounts_of(const struct task_struct *t)
{
	return (struct accounts){
		.run = t->se.sum_exec_runtime,
		.wait = t->sched_info.run_delay,
		.waits = t->sched_info.pcount,
		.voluntary = t->nvcsw,
		.involuntary = t->nivcsw,
		.migrations = t->se.nr_migrations,
	};
}

static __always_inline void account_task(struct task_struct *t, struct state *st)
{
	const struct accounts now = accounts_of(t);
	const struct accounts grown = {
		.run = now.run - st->read.run,
		.wait = now.wait - st->read.wait,
		.waits = now.waits - st->read.waits,
		.voluntary = now.voluntary - st->read.voluntary,
		.involuntary = now.involuntary - st->read.involuntary,
		.migrations = now.migrations - st->read.migrations,
	};
	u32 bucket = grown.waits == 1 ? bucket_of(grown.wait) : SL_CPU_BUCKETS;
	struct sl_cpu_task *slot = slot_of(st), *cgroup;

	st->read = now;
	find_cgroup(t, st);
	if (slot)
		add_usage(&slot->usage, &grown, bucket);
	cgroup = cgroup_on(st->cgroup_slot, bpf_get_smp_processor_id());
	if (cgroup)
		add_usage(&cgroup->usage, &grown, bucket);
}

static __always_inline void set_comm(struct sl_cpu_task *slot, const char *comm)
{
	u64 v[2] = {};

	bpf_probe_read_kernel(v, sizeof(v), comm);
	line_set(slot->who, SL_CPU_TASK_COMM, v[0]);
	line_set(slot->who, SL_CPU_TASK_COMM + 1, v[1]);
}

static __always_inline u32 take_task_slot(void)
{
	u32 slot;

	slot = slot_new(SL_TASKS_USED, max_tasks);
	if (slot < max_tasks)
		return slot;
	if (!bpf_map_pop_elem(&free_tasks, &slot))
		return slot;
	count_loss(SL_TASK_LOSS_TASKS);
	return SL_CPU_NO_SLOT;
}

/*
 * Adds an unknown task: a new task, one older than the programs, or one whose fork was missed (the
 * kernel may skip calls while another process attaches to a tracepoint). Fork and the iterator may
 * call this function concurrently.
 */
static __always_inline void admit_task(struct task_struct *t)
{
	bool born = t->start_boottime >= opened_ns;
	struct state *st = bpf_task_storage_get(&states, t, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct sl_cpu_task *slot;

	if (!st) {
		count_loss(SL_TASK_LOSS_UNTRACKED);
		return;
	}
	if (__sync_val_compare_and_swap(&st->state, NEW, CLAIMED) != NEW)
		return;
	st->slot = take_task_slot();
	slot = slot_of(st);
	if (slot) {
		u64 *who = slot->who;

		line_set(who, SL_CPU_TASK_GENERATION, next_generation(who[0], SL_CPU_FREE));
		zero_usage(&slot->usage);
		line_set(who, SL_CPU_TASK_PIDS, (u64)(u32)t->tgid << 32 | (u32)t->pid);
		line_set(who, SL_CPU_TASK_START_NS, born ? t->start_boottime : 0);
		line_set(who, SL_CPU_TASK_CGROUP, 0);
		line_set(who, SL_CPU_TASK_ENDED_NS, 0);
		set_comm(slot, t->comm);
		line_set(who, SL_CPU_TASK_GENERATION, next_generation(who[0], SL_CPU_LIVE));
	}
	if (!born)
		st->read = accounts_of(t);
	/* Pairs with the reads in account_task()'s callers: READY implies all stores above. */
	__sync_lock_test_and_set(&st->state, READY);
}

/* Returns NULL if the task is unknown, not yet added, or has exited. */
static __always_inline struct state *state_of(struct task_struct *t)
{
	struct state *st = bpf_task_storage_get(&states, t, NULL, 0);

	return st && st->state == READY ? st : NULL;
}

SEC("iter/task")
int on_task(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;

	if (t && t->pid && !(t->flags & PF_EXITING))
		admit_task(t);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	admit_task(child);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *t, const char *comm)
{
	struct state *st = state_of(t);
	struct sl_cpu_task *slot = st ? slot_of(st) : NULL;

	if (slot)
		set_comm(slot, comm);
	return 0;
}

static __always_inline int account_running(struct task_struct *t)
{
	struct state *st = state_of(t);

	if (st && t->se.sum_exec_runtime - st->read.run >= TICK_NS)
		account_task(t, st);
	return 0;
}

/*
 * After each timer, which includes ticks. A soft timer may be interrupted by a tick, and both would
 * write the same lines.
 */
SEC("?tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_tick, struct hrtimer *timer)
{
	struct task_struct *t = bpf_get_current_task_btf();

	return timer->is_soft || !t->pid ? 0 : account_running(t);
}

/*
 * Used where ticks are not high-resolution timers: the kernel updates the run time at each tick,
 * but also at each switch and each wake-up.
 */
SEC("?tp_btf/sched_stat_runtime")
int BPF_PROG(on_runtime, struct task_struct *t)
{
	return account_running(t);
}

/*
 * Reads the state from the task: sched_switch has it as an argument only since Linux 5.18. Nothing
 * wakes a dead task, so its state cannot have changed since the scheduler read it.
 */
static __always_inline bool is_dead(const struct task_struct *t)
{
	if (bpf_core_field_exists(t->__state))
		return t->__state & TASK_DEAD;
	return ((const struct task_struct___old *)t)->state & TASK_DEAD;
}

/* The final values stay in the slot until it is assigned to another task. */
static __always_inline void end_task(struct state *st)
{
	u64 *line = cgroup_at(st->cgroup_slot);
	struct sl_cpu_task *slot = slot_of(st);

	if (__sync_val_compare_and_swap(&st->state, READY, OVER) != READY)
		return;
	if (line)
		line_add_atomic(line, SL_CPU_CGROUP_ENDED, 1);
	if (!slot)
		return;
	line_set(slot->who, SL_CPU_TASK_ENDED_NS, bpf_ktime_get_ns());
	line_set(slot->who, SL_CPU_TASK_GENERATION, next_generation(slot->who[0], SL_CPU_ENDED));
	bpf_map_push_elem(&free_tasks, &st->slot, 0);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev)
{
	struct state *st;

	if (!prev->pid) /* the idle task */
		return 0;
	st = state_of(prev);
	if (!st) {
		count_loss(SL_TASK_LOSS_UNTRACKED);
		return 0;
	}
	account_task(prev, st);
	if (is_dead(prev))
		end_task(st);
	return 0;
}

/* Ends tasks whose last switch was missed, before their storage is freed. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(on_free, struct task_struct *t)
{
	struct state *st = state_of(t);

	if (st)
		end_task(st);
	return 0;
}
