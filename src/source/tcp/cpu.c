// SPDX-License-Identifier: Apache-2.0
/* cpu.c - loads cpu.bpf.c and reads the memory that it fills. */
#include "source/tcp/cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "base/base.h"
#include "source/tcp/cpu.skel.h"
#include "source/tcp/feature.h"
#include "source/tcp/hook.h"
#include "source/tcp/util.h"

#define TASKS	(1u << 13)
#define CGROUPS (1u << 9)

struct tcp_cpu {
	struct cpu_bpf *bpf;
	struct tcp_hooks hooks;
	uint32_t cpus, tasks, cgroups;
	uint64_t untracked; /* number of untracked tasks at the last walk over all tasks */
	struct tcp_region region;
	struct region_tasks_info info;
	uint64_t *scratch; /* holds one cgroup's values for all CPUs */
};

/* ---- opening ---- */

/* Returns a controller's index in css_set.subsys, which depends on the kernel's configuration. */
static int find_subsystem(const char *controller)
{
	const struct btf_enum *e;
	const struct btf_type *t;
	const struct btf *btf;
	char name[64];
	int32_t id = tcp_hooks_begin(&btf);

	if (id)
		return id;
	snprintf(name, sizeof(name), "%s_cgrp_id", controller);
	id = btf__find_by_name_kind(btf, "cgroup_subsys_id", BTF_KIND_ENUM);
	t = id < 0 ? NULL : btf__type_by_id(btf, (uint32_t)id);
	e = t ? btf_enum(t) : NULL;
	for (uint32_t i = 0; t && i < btf_vlen(t); i++)
		if (!strcmp(btf__name_by_offset(btf, e[i].name_off), name))
			return e[i].val;
	return -ENOENT;
}

/* Hooks of optional programs: the other programs work without them. */
#define OPTIONAL                                                               \
	(TCP_HOOKS_OF(TICK) | TCP_HOOKS_OF(RENAME) | TCP_HOOKS_OF(TASK_FREE) | \
	 TCP_HOOKS_OF(CGROUP_GONE))

/*
 * Returns true if each tick is a high-resolution timer, and each CPU that runs a task has ticks
 * (nohz_full).
 */
static bool ticks_are_timers(void)
{
	size_t bytes;
	char *tickless = base_read_file("/sys/devices/system/cpu/nohz_full", 4096, &bytes);
	bool none = tickless ? !strpbrk(tickless, "0123456789") : errno == ENOENT;
	struct timespec resolution;

	free(tickless);
	return none && !clock_getres(CLOCK_MONOTONIC, &resolution) && resolution.tv_nsec == 1;
}

static void choose_programs(struct cpu_bpf *bpf, const struct tcp_hooks *hooks)
{
	struct bpf_program *tick = ticks_are_timers() ? bpf->progs.on_tick : bpf->progs.on_runtime;
	const struct {
		struct bpf_program *program;
		enum tcp_boundary boundary;
	} optional[] = {{tick, TCP_BOUNDARY_TICK},
			{bpf->progs.on_rename, TCP_BOUNDARY_RENAME},
			{bpf->progs.on_free, TCP_BOUNDARY_TASK_FREE},
			{bpf->progs.on_cgroup_rmdir, TCP_BOUNDARY_CGROUP_GONE}};

	bpf_program__set_autoload(tick, true);
	for (size_t i = 0; i < sizeof(optional) / sizeof(*optional); i++) {
		const struct tcp_hook_boundary *b = &tcp_hook_table[optional[i].boundary];

		if (tcp_hook_chosen(hooks, optional[i].boundary) == TCP_HOOK_TP)
			continue;
		base_logf(BASE_WARN, "cpu", "this kernel has no tracepoint %s; lost without it: %s",
			  b->candidate[0].target[0], b->lost);
		bpf_program__set_autoload(optional[i].program, false);
	}
}

static int size_maps(struct tcp_cpu *c)
{
	struct cpu_bpf *bpf = c->bpf;

	bpf->rodata->cpus = c->cpus;
	bpf->rodata->max_tasks = c->tasks;
	bpf->rodata->max_cgroups = c->cgroups;
	return tcp_maps_size((const struct tcp_map_size[]){
		{bpf->maps.task_table, SL_TASKS_FIRST + c->tasks + c->cgroups * c->cpus},
		{bpf->maps.free_tasks, c->tasks},
		{bpf->maps.free_cgroups, c->cgroups},
		{bpf->maps.cgroup_slots, c->cgroups},
		{0}});
}

static int make_region(struct tcp_cpu *c)
{
	const uint64_t tasks = (uint64_t)SL_TASKS_FIRST * SL_TASK_SIZE;
	const uint64_t cgroups = tasks + (uint64_t)c->tasks * SL_TASK_SIZE;
	const uint64_t all = (uint64_t)c->cgroups * c->cpus * SL_TASK_SIZE;
	const struct sl_region_section sections[] = {
		{SL_SECTION_HOT, SL_LINE_SIZE, SL_TASKS_HOT_AT, SL_LINE_SIZE},
		{SL_SECTION_LOSSES, SL_LINE_SIZE, SL_TASKS_LOSSES_AT, SL_LINE_SIZE},
		{SL_SECTION_TASKS, SL_TASK_SIZE, tasks, (uint64_t)c->tasks * SL_TASK_SIZE},
		{SL_SECTION_TASK_CGROUPS, c->cpus * SL_TASK_SIZE, cgroups, all},
	};
	uint64_t *hot;
	int e = tcp_region_map(&c->region, bpf_map__fd(c->bpf->maps.task_table), cgroups + all,
			       SL_REGION_TASKS, sections, sizeof(sections) / sizeof(*sections));

	if (e)
		return e;
	hot = (uint64_t *)((char *)c->region.map + SL_TASKS_HOT_AT);
	hot[SL_TASKS_CGROUPS_USED] = 1; /* slot 0 counts cgroups that have no slot of their own */
	hot[7] = sl_line_check(hot);
	return region_tasks_info_parse(c->region.map, c->region.bytes, &c->info) ? -EINVAL : 0;
}

/* Sets *what to the current step, for the error message. Returns 0 or -errno. */
static int start_programs(struct tcp_cpu *c, const struct tcp_cpu_opts *o, const char **what,
			  char *why, size_t bytes)
{
	struct cpu_bpf *bpf = c->bpf;
	int e, cpus = libbpf_num_possible_cpus();
	struct timespec now;

	*what = "counting CPUs";
	if (cpus < 0)
		return cpus;
	c->cpus = (uint32_t)cpus;
	c->scratch = calloc(c->cpus, SL_TASK_SIZE);
	if (!c->scratch)
		return -ENOMEM;
	clock_gettime(CLOCK_BOOTTIME, &now);
	bpf->rodata->opened_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	bpf->rodata->hierarchy_id = o->hierarchy;
	if (o->hierarchy) {
		*what = "finding the number of the cgroup controller";
		e = find_subsystem(o->controller ? o->controller : "");
		if (e < 0)
			return e;
		bpf->rodata->subsystem = (uint32_t)e;
	}
	*what = "sizing the maps";
	e = size_maps(c);
	if (e)
		return e;
	choose_programs(bpf, &c->hooks);
	*what = NULL; /* tcp_load() writes the whole message itself */
	e = tcp_load(bpf->skeleton, "scheduler's", why, bytes);
	if (e)
		return e;
	*what = "mapping";
	e = make_region(c);
	if (e)
		return e;
	/* Attach to fork first, so that no task is missed between iterator and tracepoint. */
	*what = "attaching";
	bpf->links.on_fork = bpf_program__attach(bpf->progs.on_fork);
	if (!bpf->links.on_fork)
		return -errno;
	*what = "walking the tasks";
	e = tcp_iterate_until(bpf->progs.on_task, NULL);
	if (e)
		return e;
	*what = "attaching";
	return cpu_bpf__attach(bpf);
}

struct tcp_cpu *tcp_cpu_open(const struct tcp_cpu_opts *opts, char *why, size_t why_bytes)
{
	struct tcp_cpu *c = calloc(1, sizeof(*c));
	const char *what = "memory";
	int e;

	if (!c) {
		snprintf(why, why_bytes, "%s", strerror(errno));
		return NULL;
	}
	c->tasks = opts->tasks ? opts->tasks : TASKS;
	c->cgroups = opts->cgroups ? opts->cgroups : CGROUPS;
	e = tcp_features_need(TCP_PART_CPU, why, why_bytes)
		    ?: tcp_hooks_choose(&c->hooks, OPTIONAL, 0, why, why_bytes);
	if (e)
		goto fail;
	c->bpf = cpu_bpf__open();
	e = c->bpf ? start_programs(c, opts, &what, why, why_bytes) : -errno;
	if (!e)
		return c;
	if (what)
		snprintf(why, why_bytes, "cannot load the scheduler programs: %s: %s", what,
			 strerror(-e));
fail:
	tcp_cpu_close(c);
	errno = -e;
	return NULL;
}

void tcp_cpu_close(struct tcp_cpu *c)
{
	if (!c)
		return;
	tcp_region_unmap(&c->region);
	cpu_bpf__destroy(c->bpf);
	free(c->scratch);
	free(c);
}

/* ---- reading ---- */

static struct region_tasks_hot hot_of(const struct tcp_cpu *c)
{
	struct region_tasks_hot hot = {c->info.task_slots, c->info.cgroup_slots};
	uint64_t line[SL_CPU_LINE];

	if (region_copy_lines(line, tcp_region_at(&c->region, c->info.hot), 1))
		region_tasks_hot_parse(line, &c->info, &hot);
	return hot;
}

uint32_t tcp_cpu_task_slots(const struct tcp_cpu *c)
{
	return hot_of(c).tasks_used;
}

uint32_t tcp_cpu_cgroup_slots(const struct tcp_cpu *c)
{
	return hot_of(c).cgroups_used;
}

const struct tcp_region *tcp_cpu_region(const struct tcp_cpu *c)
{
	return &c->region;
}

void tcp_cpu_losses(const struct tcp_cpu *c, uint64_t out[SL_TASK_LOSSES])
{
	uint64_t line[SL_CPU_LINE];

	memset(out, 0, SL_TASK_LOSSES * sizeof(*out));
	if (region_copy_lines(line, tcp_region_at(&c->region, c->info.losses.offset), 1))
		region_losses_add(line, SL_TASK_LOSSES, out);
}

int tcp_cpu_refresh(struct tcp_cpu *c)
{
	uint64_t lost[SL_TASK_LOSSES];

	tcp_cpu_losses(c, lost);
	if (lost[SL_TASK_LOSS_UNTRACKED] == c->untracked)
		return 0;
	c->untracked = lost[SL_TASK_LOSS_UNTRACKED];
	return tcp_iterate_until(c->bpf->progs.on_task, NULL);
}

int tcp_cpu_task(const struct tcp_cpu *c, uint32_t slot, struct region_cpu_row *row)
{
	uint64_t copy[REGION_TASK_WORDS];
	int n;

	memset(row, 0, sizeof(*row));
	if (slot >= c->tasks)
		return 0;
	n = tcp_region_slot(
		copy, tcp_region_at(&c->region, c->info.tasks) + (size_t)slot * REGION_TASK_WORDS,
		REGION_TASK_WORDS, 3, false);
	return n == 1 && region_task_parse(copy, row) ? -EAGAIN : n;
}

static const uint64_t *cgroup_at(const struct tcp_cpu *c, uint32_t slot)
{
	return tcp_region_at(&c->region, c->info.cgroups) +
	       (size_t)slot * c->cpus * REGION_TASK_WORDS;
}

uint64_t tcp_cpu_cgroup_id(const struct tcp_cpu *c, uint32_t slot)
{
	uint64_t line[SL_CPU_LINE];

	if (slot >= c->cgroups || !region_copy_lines(line, cgroup_at(c, slot), 1) ||
	    (line[SL_CPU_CGROUP_GENERATION] & 3) != SL_CPU_LIVE)
		return 0;
	return line[SL_CPU_CGROUP_ID];
}

int tcp_cpu_cgroup(const struct tcp_cpu *c, uint32_t slot, struct region_cpu_row *row)
{
	int n;

	memset(row, 0, sizeof(*row));
	if (slot >= c->cgroups)
		return 0;
	/* Slot 0 has no owner and is always in use. */
	n = tcp_region_slot(c->scratch, cgroup_at(c, slot), c->cpus * REGION_TASK_WORDS, 3, !slot);
	return n == 1 && region_task_cgroup_parse(c->scratch, c->cpus, !slot, row) ? -EAGAIN : n;
}
