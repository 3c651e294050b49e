// SPDX-License-Identifier: Apache-2.0
/* cpu.c - loads cpu.bpf.c, and reads its memory. */
#include "source/tcp/cpu.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "base/base.h"
#include "source/tcp/cpu.skel.h"
#include "source/tcp/hook.h"
#include "source/tcp/hook_try.h"
#include "source/tcp/util.h"
#include "sidelight/region.h"

#define TASKS	(1u << 13)
#define CGROUPS (1u << 9)
#define TRIES	64 /* a line settles within nanoseconds; a preempted writer does not exist */

struct sl_cpu {
	struct cpu_bpf *bpf;
	uint32_t cpus, tasks, cgroups;
	uint64_t untracked; /* when the tasks were walked for the last time */
	const struct sl_cpu_task *task;
	const struct sl_cpu_cgroup *cgroup;
	const struct sl_cpu_usage *usage;
};

/* ---- opening -------------------------------------------------------------------------------------- */

static void *map_of(const struct bpf_map *map)
{
	size_t bytes = (size_t)bpf_map__value_size(map) * bpf_map__max_entries(map);
	void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, bpf_map__fd(map), 0);

	return at == MAP_FAILED ? NULL : at;
}

static void unmap(const void *at, const struct bpf_map *map)
{
	if (at)
		munmap((void *)at, (size_t)bpf_map__value_size(map) * bpf_map__max_entries(map));
}

/* css_set.subsys is indexed by enum cgroup_subsys_id, whose values depend on the kernel's settings. */
static int subsystem(const char *controller)
{
	struct btf *btf = btf__load_vmlinux_btf();
	const struct btf_enum *e;
	const struct btf_type *t;
	char name[64];
	int32_t id, found = -ENOENT;

	if (!btf)
		return -errno;
	snprintf(name, sizeof(name), "%s_cgrp_id", controller);
	id = btf__find_by_name_kind(btf, "cgroup_subsys_id", BTF_KIND_ENUM);
	t = id < 0 ? NULL : btf__type_by_id(btf, (uint32_t)id);
	e = t ? btf_enum(t) : NULL;
	for (uint32_t i = 0; t && i < btf_vlen(t); i++)
		if (!strcmp(btf__name_by_offset(btf, e[i].name_off), name))
			found = e[i].val;
	btf__free(btf);
	return found;
}

/* The tasks that are there already. */
static int take_in(const struct cpu_bpf *bpf)
{
	struct bpf_link *link = bpf_program__attach_iter(bpf->progs.on_task, NULL);
	char buffer[256];
	ssize_t got;
	int fd;

	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	if (fd < 0) {
		fd = -errno;
		bpf_link__destroy(link);
		return fd;
	}
	do
		got = read(fd, buffer, sizeof(buffer));
	while (got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN)));
	got = got < 0 ? -errno : 0;
	close(fd);
	bpf_link__destroy(link);
	return (int)got;
}

/* What the kernel does not allow is left out, if the rest means something without it. */
static void choose(struct cpu_bpf *bpf)
{
	const struct {
		struct bpf_program *program;
		enum sl_boundary boundary;
	} optional[] = {{bpf->progs.on_runtime, SL_BOUNDARY_TICK},
			{bpf->progs.on_rename, SL_BOUNDARY_RENAME},
			{bpf->progs.on_free, SL_BOUNDARY_TASK_FREE},
			{bpf->progs.on_cgroup_rmdir, SL_BOUNDARY_CGROUP_GONE}};

	for (size_t i = 0; i < sizeof(optional) / sizeof(*optional); i++) {
		const struct sl_hook_boundary *b = &sl_hook_table[optional[i].boundary];

		if (!hook_try(SL_HOOK_TP, b->candidate[0].target[0]))
			continue;
		sl_logf(SL_WARN, "cpu", "no tracepoint %s: lost is: %s", b->candidate[0].target[0],
			b->lost);
		bpf_program__set_autoload(optional[i].program, false);
	}
}

static int size(struct sl_cpu *c)
{
	struct cpu_bpf *bpf = c->bpf;
	const struct {
		struct bpf_map *map;
		uint32_t entries;
	} maps[] = {{bpf->maps.tasks, c->tasks},	  {bpf->maps.free_tasks, c->tasks},
		    {bpf->maps.cgroups, c->cgroups},	  {bpf->maps.free_cgroups, c->cgroups},
		    {bpf->maps.cgroup_slots, c->cgroups}, {bpf->maps.usage, c->cgroups * c->cpus}};

	for (size_t i = 0; i < sizeof(maps) / sizeof(*maps); i++) {
		int e = bpf_map__set_max_entries(maps[i].map, maps[i].entries);

		if (e)
			return e;
	}
	bpf->rodata->cpus = c->cpus;
	bpf->rodata->max_tasks = c->tasks;
	bpf->rodata->max_cgroups = c->cgroups;
	return 0;
}

static int start(struct sl_cpu *c, const struct sl_cpu_opts *o, const char **what)
{
	struct cpu_bpf *bpf = c->bpf;
	int e, cpus = libbpf_num_possible_cpus();
	struct timespec now;

	*what = "counting CPUs";
	if (cpus < 0)
		return cpus;
	c->cpus = (uint32_t)cpus;
	clock_gettime(CLOCK_BOOTTIME, &now);
	bpf->rodata->opened_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	bpf->rodata->hierarchy_id = o->hierarchy;
	if (o->hierarchy) {
		*what = "finding the number of the cgroup controller";
		e = subsystem(o->controller ? o->controller : "");
		if (e < 0)
			return e;
		bpf->rodata->subsystem = (uint32_t)e;
	}
	*what = "sizing the maps";
	e = size(c);
	if (e)
		return e;
	choose(bpf);
	*what = "loading";
	e = cpu_bpf__load(bpf);
	if (e)
		return e;
	*what = "mapping";
	c->task = map_of(bpf->maps.tasks);
	c->cgroup = map_of(bpf->maps.cgroups);
	c->usage = map_of(bpf->maps.usage);
	if (!c->task || !c->cgroup || !c->usage)
		return -errno;
	/* Forks first, so that no task is born between the iterator and the tracepoint. */
	*what = "attaching";
	bpf->links.on_fork = bpf_program__attach(bpf->progs.on_fork);
	if (!bpf->links.on_fork)
		return -errno;
	*what = "walking the tasks";
	e = take_in(bpf);
	if (e)
		return e;
	*what = "attaching";
	return cpu_bpf__attach(bpf);
}

struct sl_cpu *sl_cpu_open(const struct sl_cpu_opts *opts, char *why, size_t why_bytes)
{
	struct sl_cpu_opts o = {.sz = sizeof(o)};
	struct sl_cpu *c = calloc(1, sizeof(*c));
	const char *what = "memory";
	int e;

	memcpy(&o, opts, opts->sz < sizeof(o) ? opts->sz : sizeof(o));
	if (!c) {
		snprintf(why, why_bytes, "%s", strerror(errno));
		return NULL;
	}
	c->tasks = o.tasks ? o.tasks : TASKS;
	c->cgroups = o.cgroups ? o.cgroups : CGROUPS;
	sl_tcp_libbpf_log();
	e = hook_try_ready();
	if (e) {
		sl_hooks_refusal(e, why, why_bytes);
		goto fail;
	}
	c->bpf = cpu_bpf__open();
	e = c->bpf ? start(c, &o, &what) : -errno;
	if (!e)
		return c;
	snprintf(why, why_bytes, "the scheduler's programs: %s: %s", what, strerror(-e));
fail:
	sl_cpu_close(c);
	errno = -e;
	return NULL;
}

void sl_cpu_close(struct sl_cpu *c)
{
	if (!c)
		return;
	if (c->bpf) {
		unmap(c->usage, c->bpf->maps.usage);
		unmap(c->cgroup, c->bpf->maps.cgroups);
		unmap(c->task, c->bpf->maps.tasks);
		cpu_bpf__destroy(c->bpf);
	}
	free(c);
}

/* ---- reading -------------------------------------------------------------------------------------- */

uint32_t sl_cpu_task_slots(const struct sl_cpu *c)
{
	uint32_t n = __atomic_load_n(&c->bpf->bss->next_task, __ATOMIC_RELAXED);

	return n < c->tasks ? n : c->tasks;
}

uint32_t sl_cpu_cgroup_slots(const struct sl_cpu *c)
{
	uint32_t n = __atomic_load_n(&c->bpf->data->next_cgroup, __ATOMIC_RELAXED);

	return n < c->cgroups ? n : c->cgroups;
}

struct sl_cpu_losses sl_cpu_losses(const struct sl_cpu *c)
{
	const struct sl_cpu_losses *l = &c->bpf->bss->losses;
	struct sl_cpu_losses out = {
		.tasks_refused = __atomic_load_n(&l->tasks_refused, __ATOMIC_RELAXED),
		.cgroups_refused = __atomic_load_n(&l->cgroups_refused, __ATOMIC_RELAXED),
		.untracked = __atomic_load_n(&l->untracked, __ATOMIC_RELAXED),
	};

	return out;
}

int sl_cpu_refresh(struct sl_cpu *c)
{
	uint64_t untracked = sl_cpu_losses(c).untracked;

	if (untracked == c->untracked)
		return 0;
	c->untracked = untracked;
	return take_in(c->bpf);
}

/* A copy that verifies, or false: the writer is an addition ahead of its check. */
static bool read_line(const void *from, uint64_t to[SL_CPU_LINE])
{
	const uint64_t *line = from;

	for (int i = 0; i < TRIES; i++) {
		for (int j = 0; j < SL_CPU_LINE; j++)
			to[j] = __atomic_load_n(&line[j], __ATOMIC_ACQUIRE);
		if (sl_line_check(to) == to[SL_LINE_CELLS])
			return true;
	}
	return false;
}

static bool add_usage(const struct sl_cpu_usage *u, struct sl_cpu_numbers *n)
{
	uint64_t line[SL_CPU_LINE];

	if (!read_line(u->cell, line))
		return false;
	n->run_ns += line[SL_CPU_RUN_NS];
	n->wait_ns += line[SL_CPU_WAIT_NS];
	n->waits += line[SL_CPU_WAITS];
	n->voluntary += line[SL_CPU_VOLUNTARY];
	n->involuntary += line[SL_CPU_INVOLUNTARY];
	n->migrations += line[SL_CPU_MIGRATIONS];
	n->unplaced += line[SL_CPU_UNPLACED];
	for (int i = 0; i < SL_CPU_WAIT_LINES; i++) {
		if (!read_line(u->wait[i], line))
			return false;
		for (int j = 0; j < 7; j++)
			n->wait[i * 7 + j] += line[j];
	}
	return true;
}

/* The line that says who, before and after the others were read: 1, 0, -EAGAIN. */
static int same_owner(const void *who, const uint64_t before[SL_CPU_LINE], bool after)
{
	uint64_t now[SL_CPU_LINE];

	if (!after)
		return (before[0] & 3) != SL_CPU_FREE;
	return read_line(who, now) && now[0] == before[0] ? 1 : -EAGAIN;
}

int sl_cpu_task(const struct sl_cpu *c, uint32_t slot, struct sl_cpu_row *row)
{
	const struct sl_cpu_task *t;
	uint64_t who[SL_CPU_LINE];

	memset(row, 0, sizeof(*row));
	if (slot >= c->tasks)
		return 0;
	t = &c->task[slot];
	if (!read_line(t->who, who))
		return -EAGAIN;
	if (!same_owner(t->who, who, false))
		return 0;
	if (!add_usage(&t->usage, &row->n))
		return -EAGAIN;
	row->generation = who[SL_CPU_TASK_GENERATION] >> 2;
	row->ended = (who[SL_CPU_TASK_GENERATION] & 3) == SL_CPU_ENDED;
	row->pid = (uint32_t)who[SL_CPU_TASK_PIDS];
	row->tgid = (uint32_t)(who[SL_CPU_TASK_PIDS] >> 32);
	row->start_ns = who[SL_CPU_TASK_START_NS];
	row->cgroup = who[SL_CPU_TASK_CGROUP];
	memcpy(row->comm, &who[SL_CPU_TASK_COMM], 16);
	return same_owner(t->who, who, true);
}

int sl_cpu_cgroup(const struct sl_cpu *c, uint32_t slot, struct sl_cpu_row *row)
{
	uint64_t who[SL_CPU_LINE];

	memset(row, 0, sizeof(*row));
	if (slot >= c->cgroups)
		return 0;
	if (!read_line(c->cgroup[slot].who, who))
		return -EAGAIN;
	if (slot &&
	    !same_owner(c->cgroup[slot].who, who, false)) /* slot 0 is nobody's, and always there */
		return 0;
	for (uint32_t i = 0; i < c->cpus; i++)
		if (!add_usage(&c->usage[slot * c->cpus + i], &row->n))
			return -EAGAIN;
	row->generation = who[SL_CPU_CGROUP_GENERATION] >> 2;
	row->ended = (who[SL_CPU_CGROUP_GENERATION] & 3) == SL_CPU_ENDED;
	row->cgroup = who[SL_CPU_CGROUP_ID];
	row->ended_tasks = who[SL_CPU_CGROUP_ENDED];
	return same_owner(c->cgroup[slot].who, who, true);
}

/* ---- arithmetic ----------------------------------------------------------------------------------- */

void sl_cpu_numbers_sub(struct sl_cpu_numbers *a, const struct sl_cpu_numbers *b)
{
	const uint64_t *from = (const uint64_t *)b;
	uint64_t *of = (uint64_t *)a;

	for (size_t i = 0; i < sizeof(*a) / sizeof(*of); i++)
		of[i] -= from[i];
}

uint64_t sl_cpu_wait_quantile(const struct sl_cpu_numbers *n, double q)
{
	uint64_t all = 0, seen = 0, rank;

	for (int i = 0; i < SL_CPU_BUCKETS; i++)
		all += n->wait[i];
	if (!all)
		return 0;
	rank = (uint64_t)ceil(q * (double)all);
	rank = rank < 1 ? 1 : rank > all ? all : rank;
	for (int i = 0; i < SL_CPU_BUCKETS; i++) {
		seen += n->wait[i];
		if (seen >= rank) /* the geometric middle */
			return (uint64_t)exp2((i + SL_CPU_BUCKET_FIRST) / 2.0 - 0.25);
	}
	return 0;
}
