// SPDX-License-Identifier: Apache-2.0
/* cpu.c - 'sidelight tcp cpu': time on CPUs and in run queues, per task or container. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/tcp/tcp.h"
#include "source/tcp/cgroup.h"
#include "source/tcp/cpu.h"

static int cpu_main(const struct base_command *self, int argc, char **argv);

const struct base_command cli_tcp_cpu = {
	.name = "tcp cpu",
	.synopsis = "[OPTION]...",
	.summary = "Show the time that tasks or containers get a CPU, and wait for one",
	.run = cpu_main,
};

static struct {
	const char *by, *hierarchy;
	struct base_strings of;
	uint32_t pid, tasks, cgroups;
	bool total;
} settings = {.by = "task"};

static const struct base_option table[] = {
	CLI_TCP_OPTIONS_SHOW,
	BASE_STRING("by", 'b', &settings.by, "task|container",
		    "print one line per task or per container"),
	CLI_TCP_OPTION_SORT("both, cpu, wait, preempt or moves"),
	BASE_LIST("of", 0, &settings.of, "NAME",
		  "select this container, pod, service or cgroup; repeatable"),
	BASE_UINT("pid", 0, &settings.pid, 0, UINT32_MAX, "PID", "select tasks of this process"),
	BASE_FLAG("total", 't', &settings.total,
		  "show totals since the start instead of the interval"),
	BASE_UINT("tasks", 0, &settings.tasks, 0, 1 << 20, "N",
		  "track at most this many tasks; 0: 8192"),
	BASE_UINT("cgroups", 0, &settings.cgroups, 0, 1 << 16, "N",
		  "track at most this many cgroups; 0: 512"),
	BASE_STRING("hierarchy", 0, &settings.hierarchy, "unified|CONTROLLER",
		    "take containers from this hierarchy of cgroups"),
	{0},
};

struct before {
	uint64_t generation;
	bool ended;
	struct region_cpu_numbers n;
};

struct cpu_view {
	const struct base_command *cmd;
	struct tcp_cpu *cpu;
	struct tcp_cgroups *who;
	FILE *out;
	struct cli_tcp_screen screen;
	bool by_task, named; /* CSV: the header was printed */
	bool any;	     /* a line was printed */
	struct before *before;
	struct region_cpu_row *rows;
	size_t n, room;
	uint64_t last_ns, unsettled;
	uint64_t said[SL_TASK_LOSSES];
};

static bool wanted(const struct cpu_view *v, const struct region_cpu_row *r,
		   const struct tcp_cgroup_identity *who)
{
	if (v->by_task && settings.pid && settings.pid != r->tgid)
		return false;
	for (size_t i = 0; i < settings.of.n; i++)
		if (tcp_cgroup_matches(who, settings.of.v[i]))
			return true;
	return !settings.of.n;
}

static const char *const orders[] = {"both", "cpu", "wait", "preempt", "moves", NULL};
static unsigned int order; /* index of orders; qsort() passes no context */

static uint64_t weight(const struct region_cpu_numbers *n)
{
	const uint64_t by[] = {n->run_ns + n->wait_ns, n->run_ns, n->wait_ns, n->involuntary,
			       n->migrations};

	return by[order];
}

static int busiest_first(const void *a, const void *b)
{
	const struct region_cpu_row *x = a, *y = b;
	uint64_t of_x = weight(&x->n), of_y = weight(&y->n);

	return of_x != of_y ? (of_x < of_y ? 1 : -1) : x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* Adds the growth of one slot since the last look to rows, if any. */
static int look_at(struct cpu_view *v, uint32_t slot, uint64_t now)
{
	struct before *b = &v->before[slot];
	struct region_cpu_row r;
	struct region_cpu_numbers all;
	int e = v->by_task ? tcp_cpu_task(v->cpu, slot, &r) : tcp_cpu_cgroup(v->cpu, slot, &r);

	if (e <= 0) {
		v->unsettled += e < 0;
		return 0;
	}
	all = r.n;
	if (b->generation != r.generation)
		*b = (struct before){.generation = r.generation};
	if (!settings.total) {
		region_cpu_numbers_sub(&r.n, &b->n);
		if (r.ended && b->ended)
			return 0;
	}
	b->n = all;
	b->ended = r.ended;
	if (!r.n.run_ns && !r.n.wait_ns && !r.n.waits)
		return 0;
	if (!wanted(v, &r, tcp_cgroups_find(v->who, r.cgroup, now)))
		return 0;
	if (v->n == v->room) {
		size_t room = v->room ? 2 * v->room : 256;
		struct region_cpu_row *rows = realloc(v->rows, room * sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		v->rows = rows;
		v->room = room;
	}
	v->rows[v->n++] = r;
	return 0;
}

static void print_json(struct cpu_view *v, const struct region_cpu_row *r, uint64_t now,
		       uint64_t ns)
{
	const struct tcp_cgroup_identity *who = tcp_cgroups_find(v->who, r->cgroup, now);
	const struct region_cpu_numbers *n = &r->n;
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {{"run_ns", n->run_ns},
		       {"wait_ns", n->wait_ns},
		       {"waits", n->waits},
		       {"voluntary", n->voluntary},
		       {"involuntary", n->involuntary},
		       {"migrations", n->migrations},
		       {"unplaced", n->unplaced},
		       {"wait_p50_ns", region_cpu_wait_quantile(n, 0.5)},
		       {"wait_p99_ns", region_cpu_wait_quantile(n, 0.99)}};
	json_t *o = json_pack("{s:I, s:I}", "time_ns", (json_int_t)base_realtime_ns(),
			      "interval_ns", (json_int_t)ns),
	       *buckets = json_array();

	if (v->by_task) {
		json_object_set_new(o, "pid", json_integer(r->tgid));
		json_object_set_new(o, "tid", json_integer(r->pid));
		cli_tcp_json_text(o, "command", r->comm);
		json_object_set_new(o, "older", json_boolean(!r->start_ns));
	} else {
		json_object_set_new(o, "ended_tasks", json_integer((json_int_t)r->ended_tasks));
	}
	json_object_set_new(o, "ended", json_boolean(r->ended));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		json_object_set_new(o, numbers[i].key, json_integer((json_int_t)numbers[i].value));
	for (int i = 0; i < SL_CPU_BUCKETS; i++)
		json_array_append_new(buckets, json_integer((json_int_t)n->wait[i]));
	json_object_set_new(o, "wait_buckets", buckets);
	cli_tcp_json_identity(o, who);
	json_dumpf(o, v->out, JSON_COMPACT);
	fputc('\n', v->out);
	json_decref(o);
}

static void print_csv(struct cpu_view *v, const struct region_cpu_row *r, uint64_t now, uint64_t ns)
{
	const struct region_cpu_numbers *n = &r->n;
	char title[3 * TCP_CGROUP_NAME_BYTES];

	if (!v->named)
		fputs("time_ns,interval_ns,pid,tid,command,container,cgroup,run_ns,wait_ns,waits,"
		      "voluntary,involuntary,migrations,unplaced,wait_p50_ns,wait_p99_ns,ended\n",
		      v->out);
	v->named = true;
	tcp_cgroup_title(tcp_cgroups_find(v->who, r->cgroup, now), title, sizeof(title));
	fprintf(v->out, "%" PRIu64 ",%" PRIu64 ",%u,%u,", base_realtime_ns(), ns, r->tgid, r->pid);
	cli_tcp_csv_text(v->out, r->comm);
	fputc(',', v->out);
	cli_tcp_csv_text(v->out, title);
	fprintf(v->out,
		",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
		",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%d\n",
		r->cgroup, n->run_ns, n->wait_ns, n->waits, n->voluntary, n->involuntary,
		n->migrations, n->unplaced, region_cpu_wait_quantile(n, 0.5),
		region_cpu_wait_quantile(n, 0.99), r->ended);
}

static void print_line(struct cpu_view *v, const struct region_cpu_row *r, uint64_t now,
		       uint64_t ns)
{
	const struct region_cpu_numbers *n = &r->n;
	char title[3 * TCP_CGROUP_NAME_BYTES], p50[16], p99[16], comm[17], number[9][16];
	const char *cells[] = {number[0], number[1], comm,	number[2], number[3], number[4],
			       p50,	  p99,	     number[5], number[6], number[7], title};

	strcpy(title, "-");
	if (r->cgroup)
		tcp_cgroup_title(tcp_cgroups_find(v->who, r->cgroup, now), title, sizeof(title));
	cli_tcp_safe(comm, sizeof(comm), r->comm);
	cli_tcp_short_time(p50, region_cpu_wait_quantile(n, 0.5));
	cli_tcp_short_time(p99, region_cpu_wait_quantile(n, 0.99));
	snprintf(number[0], 16, "%u", r->tgid);
	snprintf(number[1], 16, "%u%s", r->pid, r->ended ? "+" : "");
	snprintf(number[2], 16, "%.1f", 100.0 * (double)n->run_ns / (double)ns);
	snprintf(number[3], 16, "%.1f", 100.0 * (double)n->wait_ns / (double)ns);
	snprintf(number[4], 16, "%" PRIu64, n->waits);
	snprintf(number[5], 16, "%" PRIu64, n->voluntary);
	snprintf(number[6], 16, "%" PRIu64, n->involuntary);
	snprintf(number[7], 16, "%" PRIu64, n->migrations);
	if (!v->by_task && r->ended)
		snprintf(title + strlen(title), sizeof(title) - strlen(title), " +");
	cli_tcp_screen_cells(&v->screen, cells + (v->by_task ? 0 : 3));
}

static const struct cli_tcp_column columns[] = {
	{"PID", 7, false, 0},	   {"TID", 8, false, 0},      {"COMMAND", 15, true, 0},
	{"CPU%", 6, false, 0},	   {"WAIT%", 6, false, 0},    {"WAITS", 7, false, 4},
	{"WAIT-P50", 8, false, 5}, {"WAIT-P99", 8, false, 0}, {"SLEEPS", 7, false, 7},
	{"PREEMPT", 7, false, 6},  {"MOVES", 5, false, 8},    {"CONTAINER", 16, true, 0},
};
#define COLUMNS (sizeof(columns) / sizeof(*columns))

static uint32_t slots_of(const struct cpu_view *v)
{
	return v->by_task ? tcp_cpu_task_slots(v->cpu) : tcp_cpu_cgroup_slots(v->cpu);
}

static void say_losses(struct cpu_view *v)
{
	uint64_t l[SL_TASK_LOSSES];

	tcp_cpu_losses(v->cpu, l);
	/* Untracked time is made up for, unless the task ends before the next look. */
	if (l[SL_TASK_LOSS_TASKS] != v->said[SL_TASK_LOSS_TASKS] ||
	    l[SL_TASK_LOSS_CGROUPS] != v->said[SL_TASK_LOSS_CGROUPS])
		base_logf(BASE_WARN, "cpu",
			  "lost: tasks_refused=%" PRIu64 " (see --tasks) cgroups_refused=%" PRIu64
			  " (see --cgroups) untracked=%" PRIu64,
			  l[SL_TASK_LOSS_TASKS], l[SL_TASK_LOSS_CGROUPS],
			  l[SL_TASK_LOSS_UNTRACKED]);
	memcpy(v->said, l, sizeof(l));
}

static int show(void *context, bool last)
{
	struct cpu_view *v = context;
	uint32_t slots = slots_of(v);
	uint64_t now = base_now_ns(), ns = now - v->last_ns;
	bool text = !cli_tcp_common.json && !cli_tcp_common.csv;

	(void)last;
	if (tcp_cpu_refresh(v->cpu))
		base_log_limited(BASE_WARN, "cpu", "tasks could not be walked: %s",
				 strerror(errno));
	v->n = 0;
	for (uint32_t i = 0; i < slots; i++)
		if (look_at(v, i, now))
			return cli_tcp_failed(v->cmd, strerror(ENOMEM));
	if (!settings.total)
		v->last_ns = now;
	order = v->screen.order;
	if (v->n)
		qsort(v->rows, v->n, sizeof(*v->rows), busiest_first);
	if (text) {
		cli_tcp_screen_begin(&v->screen);
		cli_tcp_screen_columns(&v->screen, columns + (v->by_task ? 0 : 3),
				       COLUMNS - (v->by_task ? 0 : 3));
	}
	for (size_t i = 0; i < v->n; i++) {
		if (cli_tcp_common.json)
			print_json(v, &v->rows[i], now, ns);
		else if (cli_tcp_common.csv)
			print_csv(v, &v->rows[i], now, ns);
		else
			print_line(v, &v->rows[i], now, ns);
	}
	if (text)
		cli_tcp_screen_end(&v->screen);
	v->any |= v->n > 0;
	say_losses(v);
	return cli_tcp_flush(v->out);
}

/* Counts from before the first interval are left out. */
static int run(struct cpu_view *v)
{
	uint32_t slots = v->by_task ? settings.tasks : settings.cgroups;
	int code;

	v->before = calloc(slots, sizeof(*v->before));
	if (!v->before)
		return cli_tcp_failed(v->cmd, strerror(ENOMEM));
	if (!cli_tcp_screen_sort(&v->screen, v->cmd, cli_tcp_common.sort, orders))
		return BASE_EXIT_USAGE;
	v->out = cli_tcp_output(v->cmd);
	if (!v->out)
		return BASE_EXIT_FAILURE;
	cli_tcp_screen_open(&v->screen, v->cmd, v->out);
	if (!v->screen.terminal)
		cli_tcp_ready("slots=%u", slots);
	v->last_ns = base_now_ns();
	/* Tasks that start while the programs attach have counts from before the first interval. */
	for (uint32_t i = 0; !settings.total && i < slots_of(v); i++)
		if (look_at(v, i, v->last_ns))
			return cli_tcp_failed(v->cmd, strerror(ENOMEM));
	code = cli_tcp_repeat(v->cmd, &v->screen, show, v);
	cli_tcp_screen_close(&v->screen);
	if (!code && !v->any)
		fprintf(stderr, "sidelight %s: no such task ran\n", v->cmd->name);
	return cli_tcp_output_end(v->cmd, v->out) || code ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}

static int cpu_main(const struct base_command *self, int argc, char **argv)
{
	struct tcp_cgroup_hierarchy hierarchy;
	struct tcp_cgroups_opts who = {.hierarchy = &hierarchy};
	struct tcp_cpu_opts opts = {0};
	struct cpu_view v = {.cmd = self};
	char why[256];
	int code;

	if (!base_options_only(self, table, argc, argv, &code))
		return code;
	if (cli_tcp_common.json && cli_tcp_common.csv)
		return base_usage(self, "--json and --csv exclude each other");
	v.by_task = !strcmp(settings.by, "task");
	if (!v.by_task && strcmp(settings.by, "container") != 0)
		return base_usage(self, "--by %s: it is task or container", settings.by);
	if (tcp_cgroup_hierarchy(&hierarchy, settings.hierarchy, NULL, NULL))
		return base_usage(self, "--hierarchy %s: no such hierarchy of cgroups is mounted",
				  settings.hierarchy);
	if (!settings.tasks)
		settings.tasks = 8192;
	if (!settings.cgroups)
		settings.cgroups = 512;
	opts.tasks = settings.tasks;
	opts.cgroups = settings.cgroups;
	opts.hierarchy = hierarchy.number;
	opts.controller = hierarchy.controller;
	v.who = tcp_cgroups_open(&who);
	if (!v.who)
		return cli_tcp_failed(self, strerror(errno));
	v.cpu = tcp_cpu_open(&opts, why, sizeof(why));
	code = v.cpu ? run(&v) : cli_tcp_failed(self, why);
	tcp_cpu_close(v.cpu);
	tcp_cgroups_close(v.who);
	free(v.before);
	free(v.rows);
	return code;
}
