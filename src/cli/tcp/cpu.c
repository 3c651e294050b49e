// SPDX-License-Identifier: Apache-2.0
/* cpu.c - 'sidelight tcp cpu': time on CPUs and in run queues, per task or container. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/tcp/tcp.h"
#include "source/tcp/cgroup.h"
#include "source/tcp/cpu.h"

static struct {
	const char *by, *hierarchy;
	struct base_strings of;
	uint32_t pid;
	bool total;
	struct tcp_cpu_opts cpu;
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
	BASE_UINT("tasks", 0, &settings.cpu.tasks, 0, 1 << 20, "N",
		  "track at most this many tasks; 0 means 8192"),
	BASE_UINT("cgroups", 0, &settings.cpu.cgroups, 0, 1 << 16, "N",
		  "track at most this many cgroups; 0 means 512"),
	BASE_STRING("hierarchy", 0, &settings.hierarchy, "unified|CONTROLLER",
		    "find containers in this cgroup hierarchy"),
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
	bool by_task;
	bool any;		     /* true once any line has been printed */
	struct before *before;	     /* one entry per slot */
	struct region_cpu_row *rows; /* the rows of one output; room for one per slot */
	size_t n;
	uint64_t last_ns;
	uint64_t said[SL_TASK_LOSSES];
};

static bool is_selected(const struct region_cpu_row *r, const struct tcp_cgroup_identity *who)
{
	if (settings.pid && settings.pid != r->tgid)
		return false;
	for (size_t i = 0; i < settings.of.n; i++)
		if (tcp_cgroup_matches(who, settings.of.v[i]))
			return true;
	return !settings.of.n;
}

static const char *const orders[] = {"both", "cpu", "wait", "preempt", "moves", NULL};

static uint64_t row_weight(const struct region_cpu_numbers *n, unsigned int order)
{
	const uint64_t by[] = {n->run_ns + n->wait_ns, n->run_ns, n->wait_ns, n->involuntary,
			       n->migrations};

	return by[order];
}

static int busiest_first(const void *a, const void *b, void *order)
{
	const struct region_cpu_row *x = a, *y = b;
	uint64_t of_x = row_weight(&x->n, *(unsigned int *)order);
	uint64_t of_y = row_weight(&y->n, *(unsigned int *)order);

	return of_x != of_y ? (of_x < of_y) - (of_x > of_y) : (x->pid > y->pid) - (x->pid < y->pid);
}

/* Appends the growth of one slot since the previous call to the rows, if there is any. */
static void look_at(struct cpu_view *v, uint32_t slot, uint64_t now)
{
	struct before *b = &v->before[slot];
	struct region_cpu_row r;
	struct region_cpu_numbers all;
	int e = v->by_task ? tcp_cpu_task(v->cpu, slot, &r) : tcp_cpu_cgroup(v->cpu, slot, &r);

	if (e <= 0) /* a free slot, or a slot being written */
		return;
	all = r.n;
	if (b->generation != r.generation)
		*b = (struct before){.generation = r.generation};
	if (!settings.total) {
		region_cpu_numbers_sub(&r.n, &b->n);
		if (r.ended && b->ended)
			return;
	}
	b->n = all;
	b->ended = r.ended;
	if ((r.n.run_ns || r.n.wait_ns || r.n.waits) &&
	    is_selected(&r, tcp_cgroups_find(v->who, r.cgroup, now)))
		v->rows[v->n++] = r;
}

/* Names of the counters in JSON and CSV. */
#define NUMBERS 9
static const char *const number_names[NUMBERS] = {"run_ns",    "wait_ns",     "waits",
						  "voluntary", "involuntary", "migrations",
						  "unplaced",  "wait_p50_ns", "wait_p99_ns"};

static void numbers_of(const struct region_cpu_numbers *n, uint64_t to[NUMBERS])
{
	const uint64_t v[NUMBERS] = {n->run_ns,
				     n->wait_ns,
				     n->waits,
				     n->voluntary,
				     n->involuntary,
				     n->migrations,
				     n->unplaced,
				     region_cpu_wait_quantile(n, 0.5),
				     region_cpu_wait_quantile(n, 0.99)};

	memcpy(to, v, sizeof(v));
}

static void print_json(struct cpu_view *v, const struct region_cpu_row *r,
		       const struct tcp_cgroup_identity *who, uint64_t ns)
{
	uint64_t number[NUMBERS];
	json_t *o = json_pack("{s:I, s:I}", "time_ns", CLI_INT(base_realtime_ns()), "interval_ns",
			      CLI_INT(ns)),
	       *buckets = json_array();

	if (v->by_task) {
		json_object_set_new(o, "pid", json_integer(r->tgid));
		json_object_set_new(o, "tid", json_integer(r->pid));
		cli_tcp_json_text(o, "command", r->comm);
		json_object_set_new(o, "older", json_boolean(!r->start_ns));
	} else {
		json_object_set_new(o, "ended_tasks", json_integer(CLI_INT(r->ended_tasks)));
	}
	json_object_set_new(o, "ended", json_boolean(r->ended));
	numbers_of(&r->n, number);
	for (int i = 0; i < NUMBERS; i++)
		json_object_set_new(o, number_names[i], json_integer(CLI_INT(number[i])));
	for (int i = 0; i < SL_CPU_BUCKETS; i++)
		json_array_append_new(buckets, json_integer(CLI_INT(r->n.wait[i])));
	json_object_set_new(o, "wait_buckets", buckets);
	cli_tcp_json_identity(o, who);
	cli_json_print(v->out, o, JSON_COMPACT);
}

static void csv_head(FILE *out)
{
	fputs("time_ns,interval_ns,pid,tid,command,container,cgroup", out);
	for (int i = 0; i < NUMBERS; i++)
		fprintf(out, ",%s", number_names[i]);
	fputs(",ended\n", out);
}

static void print_csv(struct cpu_view *v, const struct region_cpu_row *r,
		      const struct tcp_cgroup_identity *who, uint64_t ns)
{
	char title[3 * TCP_CGROUP_NAME_BYTES], comm[17];
	uint64_t number[NUMBERS];

	if (cli_tcp_first())
		csv_head(v->out);
	tcp_cgroup_title(who, title, sizeof(title));
	fprintf(v->out, "%" PRIu64 ",%" PRIu64 ",%u,%u,", base_realtime_ns(), ns, r->tgid, r->pid);
	cli_tcp_safe(comm, sizeof(comm), r->comm);
	cli_tcp_csv_text(v->out, comm);
	fputc(',', v->out);
	cli_tcp_csv_text(v->out, title);
	fprintf(v->out, ",%" PRIu64, r->cgroup);
	numbers_of(&r->n, number);
	for (int i = 0; i < NUMBERS; i++)
		fprintf(v->out, ",%" PRIu64, number[i]);
	fprintf(v->out, ",%d\n", r->ended);
}

/* A wait is counted when it ends, so a task's waits may add up to more than the interval. */
static void print_line(struct cpu_view *v, const struct region_cpu_row *r,
		       const struct tcp_cgroup_identity *who, uint64_t ns)
{
	const struct region_cpu_numbers *n = &r->n;
	struct cli_tcp_screen *s = &v->screen;
	char title[3 * TCP_CGROUP_NAME_BYTES] = "-", text[17];

	if (v->by_task) {
		cli_tcp_safe(text, sizeof(text), r->comm);
		cli_tcp_screen_cell(s, "%u", r->tgid);
		cli_tcp_screen_cell(s, "%u%s", r->pid, r->ended ? "+" : "");
		cli_tcp_screen_cell(s, "%s", text);
	}
	cli_tcp_screen_cell(s, "%.1f", 100.0 * (double)n->run_ns / (double)ns);
	cli_tcp_screen_cell(s, "%.1f",
			    100.0 * (double)(v->by_task ? BASE_MIN(n->wait_ns, ns) : n->wait_ns) /
				    (double)ns);
	cli_tcp_screen_cell(s, "%" PRIu64, n->waits);
	for (int i = 0; i < 2; i++)
		cli_tcp_screen_cell(
			s, "%s",
			cli_tcp_short_time(text, region_cpu_wait_quantile(n, i ? 0.99 : 0.5)));
	cli_tcp_screen_cell(s, "%" PRIu64, n->voluntary);
	cli_tcp_screen_cell(s, "%" PRIu64, n->involuntary);
	cli_tcp_screen_cell(s, "%" PRIu64, n->migrations);
	if (r->cgroup)
		tcp_cgroup_title(who, title, sizeof(title));
	cli_tcp_screen_cell(s, "%s%s", title, !v->by_task && r->ended ? " +" : "");
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
	/* The next update adds untracked time, unless the task exits before then. */
	if (l[SL_TASK_LOSS_TASKS] != v->said[SL_TASK_LOSS_TASKS] ||
	    l[SL_TASK_LOSS_CGROUPS] != v->said[SL_TASK_LOSS_CGROUPS])
		base_logf(BASE_WARN, "cpu",
			  "lost: tasks_refused=%" PRIu64 " (see --tasks) cgroups_refused=%" PRIu64
			  " (see --cgroups) untracked=%" PRIu64,
			  l[SL_TASK_LOSS_TASKS], l[SL_TASK_LOSS_CGROUPS],
			  l[SL_TASK_LOSS_UNTRACKED]);
	memcpy(v->said, l, sizeof(l));
}

static int show_rows(void *context, bool last)
{
	struct cpu_view *v = context;
	uint32_t slots = slots_of(v);
	uint64_t now = base_now_ns(), ns = now - v->last_ns;
	bool text = !cli_tcp_common.json && !cli_tcp_common.csv;
	void (*print)(struct cpu_view *, const struct region_cpu_row *,
		      const struct tcp_cgroup_identity *, uint64_t) = text ? print_line
								      : cli_tcp_common.json
									      ? print_json
									      : print_csv;

	(void)last;
	if (tcp_cpu_refresh(v->cpu))
		base_log_limited(BASE_WARN, "cpu", "cannot iterate over tasks: %s",
				 strerror(errno));
	v->n = 0;
	for (uint32_t i = 0; i < slots; i++)
		look_at(v, i, now);
	if (!settings.total)
		v->last_ns = now;
	if (v->n)
		qsort_r(v->rows, v->n, sizeof(*v->rows), busiest_first, &v->screen.order);
	if (text) {
		cli_tcp_screen_begin(&v->screen);
		cli_tcp_screen_columns(&v->screen, columns + (v->by_task ? 0 : 3),
				       COLUMNS - (v->by_task ? 0 : 3));
	}
	for (size_t i = 0; i < v->n; i++)
		print(v, &v->rows[i], tcp_cgroups_find(v->who, v->rows[i].cgroup, now), ns);
	if (text)
		cli_tcp_screen_end(&v->screen);
	v->any |= v->n > 0;
	say_losses(v);
	return cli_tcp_flush(v->out);
}

/* Counts from before the first interval are excluded. */
static int run_cpu(struct cpu_view *v)
{
	uint32_t slots = v->by_task ? settings.cpu.tasks : settings.cpu.cgroups;
	int code;

	v->before = calloc(slots, sizeof(*v->before));
	v->rows = calloc(slots, sizeof(*v->rows));
	if (!v->before || !v->rows)
		return base_failure(v->cmd, "%s", strerror(ENOMEM));
	if (!cli_tcp_screen_sort(&v->screen, v->cmd, cli_tcp_common.sort, orders))
		return BASE_EXIT_USAGE;
	v->out = cli_tcp_output(v->cmd);
	if (!v->out)
		return BASE_EXIT_FAILURE;
	v->last_ns = base_now_ns();
	/* Tasks that start while the programs attach have counts from before the first interval. */
	for (uint32_t i = 0; !settings.total && i < slots_of(v); i++)
		look_at(v, i, v->last_ns);
	code = cli_tcp_repeat(v->cmd, &v->screen, v->out, slots, show_rows, v);
	if (!code && !v->any)
		base_failure(v->cmd, "no matching task ran");
	return cli_tcp_output_end(v->cmd, v->out, code);
}

static int cpu_main(const struct base_command *self, int argc, char **argv)
{
	struct tcp_cgroup_hierarchy hierarchy;
	struct tcp_cgroups_opts who = {.hierarchy = &hierarchy};
	struct cpu_view v = {.cmd = self};
	char why[256];
	int code;

	if (!base_options_only(self, table, argc, argv, &code))
		return code;
	if (!cli_tcp_format(self, NULL))
		return BASE_EXIT_USAGE;
	v.by_task = !strcmp(settings.by, "task");
	if (!v.by_task && strcmp(settings.by, "container") != 0)
		return base_usage(self, "--by '%s' is not task or container", settings.by);
	if (!v.by_task && settings.pid)
		return base_usage(self, "--pid requires --by task");
	if (tcp_cgroup_hierarchy(&hierarchy, settings.hierarchy, NULL, NULL))
		return base_usage(self, "--hierarchy %s: no such cgroup hierarchy is mounted",
				  settings.hierarchy);
	settings.cpu.tasks = settings.cpu.tasks ?: 8192;
	settings.cpu.cgroups = settings.cpu.cgroups ?: 512;
	settings.cpu.hierarchy = hierarchy.number;
	settings.cpu.controller = hierarchy.controller;
	v.who = tcp_cgroups_open(&who);
	if (!v.who)
		return base_failure(self, "%s", strerror(errno));
	v.cpu = tcp_cpu_open(&settings.cpu, why, sizeof(why));
	code = v.cpu ? run_cpu(&v) : base_failure(self, "%s", why);
	tcp_cpu_close(v.cpu);
	tcp_cgroups_close(v.who);
	free(v.before);
	free(v.rows);
	return code;
}

const struct base_command cli_tcp_cpu = {
	.name = "tcp cpu",
	.synopsis = "[OPTION]...",
	.summary = "Show how long tasks or containers run on a CPU, or wait for one",
	.run = cpu_main,
};
