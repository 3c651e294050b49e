// SPDX-License-Identifier: Apache-2.0
/* why.c - 'sidelight tcp why': explains what limits connections, with the supporting numbers. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/network.h"
#include "cli/tcp/tcp.h"
#include "region/listeners.h"
#include "source/tcp/cgroup.h"
#include "source/tcp/cpu.h"
#include "region/why.h"

#define WAITING 0.2 /* minimum share of time in the run queue that is reported */

static struct {
	uint64_t duration_ns;
	uint32_t top;
} settings = {.duration_ns = 2000000000, .top = 5};

static const struct base_option table[] = {
	BASE_FLAG("json", 'j', &cli_tcp_common.json, "print JSON, one object per line"),
	BASE_TIME("duration", 'd', &settings.duration_ns, 1e8, 3.6e12, "TIME",
		  "observe for this long"),
	BASE_UINT("top", 0, &settings.top, 0, UINT32_MAX, "N",
		  "show the N worst connections; 0: all"),
	CLI_TCP_OPTION_OUTPUT,
	CLI_TCP_OPTIONS_FILTER,
	{0},
};

/* Selects the connections to explain; parsed from the operand. */
struct subject {
	const char *text;
	uint64_t id;   /* ID of a flow; 0 if not given */
	bool endpoint; /* true for an address, a port, or both */
	bool any_address;
	struct in6_addr address;
	uint16_t port;
};

struct finding {
	struct region_flow flow;
	const struct region_flow *before; /* NULL if the flow is new */
	uint64_t end;			  /* region_flow_end_hash() */
	struct region_why why;
	/* share of the interval in which the process waited for a CPU; negative if unknown */
	double cpu_wait;
};

struct look {
	const struct base_command *cmd;
	const void *map;
	struct region_flows_info info;
	struct tcp_cgroups *who;
	/* names of version 1 cgroups if containers use them; otherwise NULL */
	struct tcp_cgroups *first;
	struct tcp_cpu *cpu;	    /* scheduler statistics; NULL if unavailable */
	struct region_flow *before; /* first snapshot of the flows; one entry per slot */
	struct finding *found;
	struct region_listeners listeners;
	size_t n;
	uint64_t refused; /* number of connections that did not fit into the table */
};

/*
 * Parses a flow's ID such as "17"; an endpoint such as ":443", "192.0.2.1:443" or
 * "[2001:db8::1]:443", which matches either end; or a name.
 */
static void parse_subject(const char *text, struct subject *w)
{
	char host[256];

	*w = (struct subject){.text = text};
	if (!base_parse_u64(text, 1, UINT64_MAX, &w->id) || !strchr(text, ':') ||
	    base_parse_address(text, host, sizeof(host), &w->port))
		return;
	w->any_address = !*host;
	/* otherwise, the text is a name that contains a colon */
	w->endpoint = w->any_address || base_address_read(host, &w->address);
}

static bool matches_endpoint(const struct subject *w, const uint8_t address[16], uint16_t port)
{
	return port == w->port && (w->any_address || !memcmp(address, &w->address, 16));
}

/*
 * Finds the container of a flow. Sockets belong to cgroups of the unified hierarchy. If containers
 * use version 1, all sockets are in the unified root; then the process, if known, identifies the
 * container.
 */
static const struct tcp_cgroup_identity *find_identity(const struct look *l,
						       const struct region_flow *f)
{
	const struct tcp_cgroup_identity *who = tcp_cgroups_find(l->who, f->cgroup, base_now_ns());
	uint64_t id;

	if (!l->first || !f->pid || (who->path[0] && strcmp(who->path, "/") != 0))
		return who;
	id = tcp_cgroup_of_process(tcp_cgroups_hierarchy(l->first), f->pid);
	return id ? tcp_cgroups_find(l->first, id, base_now_ns()) : who;
}

static bool matches_subject(const struct look *l, const struct subject *w,
			    const struct region_flow *f)
{
	if (w->id)
		return f->id == w->id;
	if (w->endpoint)
		return matches_endpoint(w, f->local, f->local_port) ||
		       matches_endpoint(w, f->remote, f->remote_port);
	return !strcmp(f->comm, w->text) || tcp_cgroup_matches(find_identity(l, f), w->text);
}

/* Sorts healthy connections last, and the others by throughput, highest first. */
static int worst_first(const void *a, const void *b)
{
	const struct region_why *x = &((const struct finding *)a)->why,
				*y = &((const struct finding *)b)->why;
	double of_x = x->bytes_per_s, of_y = y->bytes_per_s;

	if (region_why_fine(x->limit) != region_why_fine(y->limit))
		return region_why_fine(x->limit) - region_why_fine(y->limit);
	if ((x->limit == REGION_WHY_IDLE) != (y->limit == REGION_WHY_IDLE))
		return x->limit == REGION_WHY_IDLE ? 1 : -1;
	return of_x < of_y ? 1 : of_x > of_y ? -1 : 0;
}

/* Returns the longest wait for a CPU of any thread of the process, as a share of ns. */
static double cpu_wait(const struct look *l, uint32_t pid, uint64_t ns)
{
	uint64_t most = 0;

	if (!l->cpu || !pid)
		return -1;
	for (uint32_t i = 0; i < tcp_cpu_task_slots(l->cpu); i++) {
		struct region_cpu_row r;

		if (tcp_cpu_task(l->cpu, i, &r) == 1 && r.tgid == pid && r.n.wait_ns > most)
			most = r.n.wait_ns;
	}
	return ns ? (double)most / (double)ns : -1;
}

/* Reads the number of slots in use, and of connections without one. Returns an exit code. */
static int slots_used(struct look *l, uint32_t *used)
{
	struct region_flows_hot hot;

	if (region_flows_hot_read(l->map, &l->info, &hot))
		return base_failure(l->cmd, "the table's check word does not match");
	*used = hot.used;
	l->refused = hot.refused;
	return BASE_EXIT_OK;
}

/*
 * Reads a slot. A connection without data in flight, unsent or unread is not written to the table
 * until something happens, so its statistics are those of ns as well: without this, shares and
 * rates would be those of another interval. Returns false if the slot is being written.
 */
static bool read_slot(const struct look *l, uint32_t slot, uint64_t ns, struct region_flow *f)
{
	if (region_flow_read(l->map, &l->info, slot, f))
		return false;
	if (f->state == SL_STATE_LIVE && !(f->flags & SL_FLOW_LISTENER) && !f->flight &&
	    !f->queue && !region_flow_unread(f))
		f->changed_ns = BASE_MAX(f->changed_ns, ns);
	return true;
}

static int first_look(struct look *l)
{
	uint64_t now = base_now_ns();
	uint32_t used = 0;
	int code = slots_used(l, &used);

	for (uint32_t i = 0; i < used; i++)
		if (!read_slot(l, i, now, &l->before[i]))
			memset(&l->before[i], 0, sizeof(l->before[i]));
		else if (l->before[i].state != SL_STATE_FREE)
			region_listeners_add(&l->listeners, &l->before[i]);
	return code;
}

static int by_end(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;

	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	return (x->flow.id > y->flow.id) - (x->flow.id < y->flow.id);
}

/*
 * Explains a connection by both of its ends if both are on this host. If more than two flows have
 * the same addresses, for example in several network namespaces, it is not known which ones belong
 * together.
 */
static void join_ends(struct look *l)
{
	struct finding *f = l->found;
	size_t same;

	qsort(f, l->n, sizeof(*f), by_end);
	for (size_t i = 0; i < l->n; i += same) {
		const struct region_flow *before[2] = {f[i].before}, *now[2] = {&f[i].flow};
		struct region_why why[2];

		for (same = 1; i + same < l->n && f[i].end >> 1 == f[i + same].end >> 1;)
			same++;
		if (same != 2 || f[i].end == f[i + 1].end)
			continue;
		before[1] = f[i + 1].before;
		now[1] = &f[i + 1].flow;
		region_why_both(before, now, why);
		f[i].why = why[0];
		f[i + 1].why = why[1];
	}
}

static int second_look(struct look *l, const struct subject *w, uint64_t ns)
{
	uint64_t now = base_now_ns();
	uint32_t used = 0;
	int code = slots_used(l, &used);

	for (uint32_t i = 0; i < used; i++) {
		struct finding *f = &l->found[l->n];
		const struct region_flow *b = &l->before[i];

		if (!read_slot(l, i, now, &f->flow))
			continue; /* the slot is being written */
		region_listeners_name(&l->listeners, &f->flow);
		if (f->flow.state == SL_STATE_FREE || !matches_subject(l, w, &f->flow))
			continue;
		f->before = b->id == f->flow.id ? b : NULL;
		f->end = region_flow_end_hash(0, &f->flow);
		region_why(f->before, &f->flow, &f->why);
		f->cpu_wait = cpu_wait(l, f->flow.pid, ns);
		l->n++;
	}
	join_ends(l);
	qsort(l->found, l->n, sizeof(*l->found), worst_first);
	return code;
}

/* Output */

/* Formats the explanation, with the CPU wait if it matters. */
static void format_sentence(const struct finding *f, char *out, size_t bytes)
{
	enum region_why_limit l = f->why.limit;
	bool here = l == REGION_WHY_NOT_READING || l == REGION_WHY_READS_SLOWLY ||
		    l == REGION_WHY_APPLICATION || l == REGION_WHY_THINKS ||
		    l == REGION_WHY_ACCEPT_QUEUE;

	snprintf(out, bytes, "%s", f->why.sentence);
	if (here && f->cpu_wait >= WAITING)
		snprintf(out + strlen(out), bytes - strlen(out),
			 " It waits for a CPU for %.0f%% of the time.",
			 100 * (f->cpu_wait > 1 ? 1 : f->cpu_wait));
}

static void print_json(const struct look *l, FILE *out, const struct finding *f)
{
	char local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN], text[REGION_WHY_SENTENCE + 64];
	json_t *numbers = json_object(), *o;

	for (uint32_t i = 0; i < f->why.n; i++)
		json_object_set_new(numbers, f->why.number[i].name,
				    json_pack("{s:f, s:s}", "value", f->why.number[i].value, "unit",
					      f->why.number[i].unit));
	format_sentence(f, text, sizeof(text));
	o = json_pack("{s:I, s:s, s:i, s:s, s:i, s:s, s:f, s:s, s:I, s:f, s:o}", "id",
		      CLI_INT(f->flow.id), "local", region_flow_address(f->flow.local, local),
		      "local_port", f->flow.local_port, "remote",
		      region_flow_address(f->flow.remote, remote), "remote_port",
		      f->flow.remote_port, "limit", region_why_name(f->why.limit), "share",
		      f->why.share, "sentence", text, "interval_ns", CLI_INT(f->why.interval_ns),
		      "bytes_per_s", f->why.bytes_per_s, "numbers", numbers);
	if (f->flow.pid)
		json_object_set_new(o, "pid", json_integer(f->flow.pid));
	if (*f->flow.comm)
		cli_tcp_json_text(o, "command", f->flow.comm);
	if (f->cpu_wait >= 0)
		json_object_set_new(o, "cpu_wait", json_real(f->cpu_wait));
	cli_tcp_json_identity(o, find_identity(l, &f->flow));
	cli_json_print(out, o, JSON_COMPACT);
}

static void print_number(FILE *out, const struct region_why_number *n)
{
	char time[16];

	if (!strcmp(n->unit, "us"))
		fprintf(out, "    %-26s %12s\n", n->name,
			cli_tcp_short_time(time, (uint64_t)(n->value * 1000)));
	else
		fprintf(out, "    %-26s %12.0f%s%s\n", n->name, n->value, *n->unit ? " " : "",
			!strcmp(n->unit, "percent") ? "%" : n->unit);
}

static void print_text(const struct look *l, FILE *out, const struct finding *f)
{
	const struct tcp_cgroup_identity *who = find_identity(l, &f->flow);
	char comm[17], title[3 * TCP_CGROUP_NAME_BYTES] = "", text[REGION_WHY_SENTENCE + 64];
	char local[CLI_TCP_ENDPOINT], remote[CLI_TCP_ENDPOINT];
	bool listens = f->flow.flags & SL_FLOW_LISTENER;

	cli_tcp_endpoint(local, f->flow.local, f->flow.local_port);
	cli_tcp_endpoint(remote, f->flow.remote, f->flow.remote_port);
	cli_tcp_safe(comm, sizeof(comm), f->flow.comm);
	if (who->path[0] && strcmp(who->path, "/") != 0)
		tcp_cgroup_title(who, title, sizeof(title));
	format_sentence(f, text, sizeof(text));
	fprintf(out, "%s%s%s%s%s%s%s\n  %s\n", local, listens ? ", listening" : " > ",
		listens ? "" : remote, *comm ? "  " : "", comm, *title ? "  " : "", title, text);
	for (uint32_t i = 0; i < f->why.n; i++)
		print_number(out, &f->why.number[i]);
	if (f->cpu_wait >= 0)
		fprintf(out, "    %-26s %12.0f %%\n", "waiting-for-a-cpu", 100 * f->cpu_wait);
}

static void summary_json(FILE *out, size_t connections, size_t listeners, const uint32_t *count)
{
	json_t *limits = json_object();

	for (int i = 0; i < REGION_WHY_LIMITS; i++)
		if (count[i])
			json_object_set_new(limits, region_why_name((enum region_why_limit)i),
					    json_integer(count[i]));
	limits = json_pack("{s:{s:I, s:I, s:o}}", "summary", "connections", CLI_INT(connections),
			   "listeners", CLI_INT(listeners), "limits", limits);
	cli_json_print(out, limits, JSON_COMPACT);
}

/*
 * Prints, for example, "12 connections, 1 listeners: 9 peer-not-reading, 3 application, 1
 * accepting".
 */
static void print_summary(const struct look *l, FILE *out)
{
	uint32_t count[REGION_WHY_LIMITS] = {0};
	const char *comma = "";
	size_t listeners = 0;

	for (size_t i = 0; i < l->n; i++) {
		count[l->found[i].why.limit]++;
		listeners += l->found[i].flow.flags & SL_FLOW_LISTENER ? 1 : 0;
	}
	if (cli_tcp_common.json) {
		summary_json(out, l->n - listeners, listeners, count);
		return;
	}
	fprintf(out, "%zu connections", l->n - listeners);
	if (listeners)
		fprintf(out, ", %zu listeners", listeners);
	fputs(": ", out);
	for (int i = 0; i < REGION_WHY_LIMITS; i++) {
		if (!count[i])
			continue;
		fprintf(out, "%s%u %s", comma, count[i], region_why_name((enum region_why_limit)i));
		comma = ", ";
	}
	fputc('\n', out);
}

static int report_findings(const struct look *l, const struct subject *w)
{
	size_t most = settings.top && settings.top < l->n ? settings.top : l->n;
	FILE *out;

	if (l->refused)
		base_failure(l->cmd,
			     "%" PRIu64
			     " connections did not fit into the table of %u: see --flows",
			     l->refused, l->info.slots);
	if (!l->n)
		return base_failure(
			l->cmd,
			"found no connection of '%s'; specify a flow's ID, ADDRESS:PORT or :PORT, "
			"or the name of a container, pod, service, unit or process",
			w->text);
	out = cli_tcp_output(l->cmd);
	if (!out)
		return BASE_EXIT_FAILURE;
	if (!cli_tcp_common.json && l->n > 1)
		print_summary(l, out);
	for (size_t i = 0; i < most; i++) {
		if (cli_tcp_common.json)
			print_json(l, out, &l->found[i]);
		else
			print_text(l, out, &l->found[i]);
	}
	if (cli_tcp_common.json)
		print_summary(l, out);
	return cli_tcp_output_end(l->cmd, out, BASE_EXIT_OK);
}

/* Measurement */

static int look_twice(struct look *l, struct tcp *tcp, const struct subject *w)
{
	uint64_t start;
	int code, stop;

	l->map = tcp_region(tcp)->map;
	if (region_flows_info_parse(l->map, tcp_region(tcp)->bytes, &l->info))
		return base_failure(l->cmd, "the table has no valid header");
	l->before = calloc(l->info.slots, sizeof(*l->before));
	l->found = calloc(l->info.slots, sizeof(*l->found));
	if (!l->before || !l->found)
		return base_failure(l->cmd, "%s", strerror(ENOMEM));
	stop = base_stop_fd();
	if (stop < 0)
		return base_failure(l->cmd, "%s", strerror(-stop));
	start = base_now_ns();
	/* Give the table time to catch up with existing connections. */
	base_stop_wait(stop, 50);
	code = tcp_catch_up(tcp, NULL);
	if (code)
		return base_failure(l->cmd, "%s", strerror(-code));
	code = first_look(l);
	if (!code) {
		base_stop_wait(stop, (int)(settings.duration_ns / 1000000));
		code = second_look(l, w, base_now_ns() - start);
	}
	return code ?: report_findings(l, w);
}

static int why_main(const struct base_command *self, int argc, char **argv)
{
	struct tcp_cgroup_hierarchy unified; /* the cgroup hierarchy that sockets belong to */
	struct tcp_cgroups_opts who = {.hierarchy = &unified};
	struct look l = {.cmd = self};
	struct tcp_opts options;
	struct tcp *tcp = NULL;
	struct subject w;
	char why[256];
	int code, first = base_options_parse(self, table, argc, argv, &code);

	if (first < 0)
		return code;
	if (argc - first != 1 || !*argv[first])
		return base_usage(self, "specify one FLOW or SERVICE");
	parse_subject(argv[first], &w);
	options = cli_tcp_opts();
	options.calls = true; /* needed to find the processes */
	options.quarantine_ns = 2 * settings.duration_ns + 5000000000;
	tcp_cgroup_hierarchy(&unified, "unified", NULL, NULL);
	l.who = tcp_cgroups_open(&who);
	if (!l.who)
		return base_failure(self, "%s", strerror(errno));
	who.hierarchy = NULL;
	l.first = tcp_cgroups_open(&who);
	if (l.first && !tcp_cgroups_hierarchy(l.first)->controller[0]) {
		tcp_cgroups_close(l.first);
		l.first = NULL;
	}
	code = cli_tcp_open(self, &options, &tcp);
	if (!code) {
		l.cpu = tcp_cpu_open(&(struct tcp_cpu_opts){0}, why, sizeof(why));
		if (!l.cpu)
			base_logf(BASE_WARN, "why", "scheduler times are unavailable: %s", why);
		code = look_twice(&l, tcp, &w);
	}
	tcp_cpu_close(l.cpu);
	tcp_close(tcp);
	tcp_cgroups_close(l.first);
	tcp_cgroups_close(l.who);
	region_listeners_free(&l.listeners);
	free(l.found);
	free(l.before);
	return code;
}

const struct base_command cli_tcp_why = {
	.name = "tcp why",
	.synopsis = "[OPTION]... FLOW|SERVICE",
	.summary = "Explain what limits connections",
	.run = why_main,
};
