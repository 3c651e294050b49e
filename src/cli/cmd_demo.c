// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_demo.c - runs all of Sidelight on this machine until Ctrl-C: an agent, a collector, two
 * example services and a load generator. Each part is a child in its own process group, so that
 * Ctrl-C reaches only this process, which stops the parts in order; if this process dies, they die
 * too. Their files are in one temporary folder. It is removed at the end, or by the next demo if
 * this process was killed.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/program.h"
#include "cli/commands.h"
#include "cli/common/common.h"
#include "cli/demo/demo.h"
#include "source/tcp/hook.h"

/* Period */

#define LATE_SHARE 0.005 /* accepted share of missed deadlines; the page says "late" above 0.01 */

struct rounds {
	uint64_t begun, late;
};

static bool rounds_so_far(const struct cli_demo *d, struct rounds *r)
{
	json_t *j = cli_demo_fetch(d->listen, "/api/v1/status");
	const json_t *totals = json_object_get(j, "totals");
	const json_t *rounds = json_object_get(totals, "rounds");
	const json_t *missed = json_object_get(totals, "missed_deadlines");
	bool there = json_is_integer(rounds) && json_is_integer(missed);

	if (there)
		*r = (struct rounds){(uint64_t)json_integer_value(rounds),
				     (uint64_t)json_integer_value(missed)};
	json_decref(j);
	return there;
}

static void set_period(struct cli_demo *d, uint64_t ns)
{
	d->period_ns = ns;
	snprintf(d->period, sizeof(d->period), "%" PRIu64 "ns", ns);
}

static int try_period(struct cli_demo *d, uint64_t ns)
{
	set_period(d, ns);
	return cli_demo_restart(d, DEMO_COLLECT);
}

/*
 * Chooses the read period. The best rate depends on the load of the machine: take the shortest
 * period that holds for a second with everything running, or else the one with the fewest missed
 * deadlines.
 */
static int choose_period(struct cli_demo *d)
{
	static const unsigned int ms[] = {1, 2, 5, 10};
	struct rounds before, after;
	double share, least = 2;
	size_t best = 0;
	bool kept;
	int err;

	for (size_t i = 0; i < sizeof(ms) / sizeof(*ms); i++) {
		if (i) {
			err = try_period(d, ms[i] * 1000000ull);
			if (err)
				return err;
		}
		if (base_stop_wait(d->stop, 500) || !rounds_so_far(d, &before) ||
		    base_stop_wait(d->stop, 1000) || !rounds_so_far(d, &after))
			/* either stopping, or cli_demo_look_after() will report the failure */
			return BASE_EXIT_OK;
		after.late -= before.late;
		after.begun -= before.begun;
		share = (double)after.late / (double)(after.begun + after.late + 1);
		kept = share <= LATE_SHARE || after.late <= 1;
		printf("period %u ms: %.1f %% of the deadlines of a second were missed%s\n", ms[i],
		       share * 100, kept ? ": this machine keeps up" : "");
		if (kept)
			return BASE_EXIT_OK;
		if (share < least) {
			least = share;
			best = i;
		}
	}
	printf("this machine is too busy for any of these periods; %u ms came closest\n", ms[best]);
	return try_period(d, ms[best] * 1000000ull);
}

/* Output */

/* Returns the next sample of this name with a value other than 0, or NULL. */
static const char *sample_line(const char *text, const char *name, int *length)
{
	for (const char *line = text; line; line = strchr(line, '\n')) {
		if (*line == '\n')
			line++;
		*length = (int)strcspn(line, "\n");
		if (!strncmp(line, name, strlen(name)) &&
		    (*length < 2 || strncmp(line + *length - 2, " 0", 2)))
			return line;
	}
	return NULL;
}

/* Waits until the load shows in the metrics, which takes longer on a busy machine. */
static void await_samples(const struct cli_demo *d)
{
	bool shown = !d->part[DEMO_LOAD].pid;
	int length;

	for (int i = 0; i < 100 && !shown && !base_stop_wait(d->stop, 100); i++) {
		char *text = cli_demo_http(d->listen, "/metrics", NULL);

		shown = text && sample_line(text, "http_requests_total{", &length);
		free(text);
	}
}

static void sample_lines(const struct cli_demo *d)
{
	static const char *const wanted[] = {"http_requests_total{", "shop_revenue_euros_total{",
					     "queue_jobs_done_total{", "shop_stock{"};
	char *text = cli_demo_http(d->listen, "/metrics", NULL);

	if (!text)
		return;
	puts("Some of its lines now:");
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		const char *line = text;
		int length = 0;

		for (int shown = 0; shown < 2; shown++) {
			line = sample_line(line + length, wanted[i], &length);
			if (!line)
				break;
			printf("  %.*s\n", length, line);
		}
	}
	putchar('\n');
	free(text);
}

static void print_banner(const struct cli_demo *d)
{
	printf("\nSidelight is at work. The two services count in their own memory; the collector\n"
	       "reads it every %g ms, and neither the services nor the agent do anything for "
	       "it.\n\n",
	       (double)d->period_ns / 1e6);
	printf("  live page     http://%s/\n", d->listen);
	printf("  exposition    http://%s/metrics\n", d->listen);
	printf("  the shop      %s   (pid %d%s)\n", d->shop_url, (int)d->part[DEMO_SHOP].pid,
	       d->part[DEMO_LOAD].pid ? ", under load" : "");
	printf("  the queue     prefork workers   (pid %d)\n", (int)d->part[DEMO_QUEUE].pid);
	printf("  agent         pid %d, socket %s\n", (int)d->part[DEMO_AGENT].pid, d->socket);
	printf("  collector     pid %d\n", (int)d->part[DEMO_COLLECT].pid);
	if (*d->no_tcp)
		printf("  connections   not shown: %s\n", d->no_tcp);
	else
		printf("  connections   the shop's, from the kernel: http://%s/#tab=flows\n",
		       d->listen);
	if (*d->no_reports)
		printf("  reports       not shown: %s\n", d->no_reports);
	else
		printf("  reports       flows of loopback, by the kernel itself: "
		       "http://%s/#tab=reports\n",
		       d->listen);
	if (*d->no_switch)
		printf("  switch        not shown: %s\n", d->no_switch);
	else if (d->with_switch)
		printf("  switch        flows and ports of Open vSwitch, by sFlow: "
		       "http://%s/#tab=reports\n",
		       d->listen);
	putchar('\n');
	sample_lines(d);
	printf("What to try, from another terminal:\n"
	       "  kill -9 %-7d the shop dies; its last values stay, marked dead, then expire\n"
	       "  kill -9 %-7d the agent dies; no count is lost, the services attach again\n",
	       (int)d->part[DEMO_SHOP].pid, (int)d->part[DEMO_AGENT].pid);
	printf("  curl -s %s/products\n", d->shop_url);
	printf("  curl -s -X POST '%s/fault?kind=slow&seconds=10'\n"
	       "                  or cpu, errors, leak: the page shows the anomaly, errors at "
	       "once,\n"
	       "                  the others after a warm-up of %s, and the shop logs more, in %s\n",
	       d->shop_url, d->warm_up, d->part[DEMO_SHOP].log);
	printf("  %s generate metrics --socket %s --pods 50 --hold 30s\n", d->self, d->socket);
	puts("Ctrl-C stops everything and leaves nothing behind.\n");
	/* Scripts wait for this line. */
	base_ready("page=http://%s/ metrics=http://%s/metrics shop=%s shop_pid=%d agent_pid=%d "
		   "shop_log=%s",
		   d->listen, d->listen, d->shop_url, (int)d->part[DEMO_SHOP].pid,
		   (int)d->part[DEMO_AGENT].pid, d->part[DEMO_SHOP].log);
}

/* Makes the agent publish the shop's connections if the kernel allows; otherwise sets d->no_tcp. */
static void set_agent(struct cli_demo *d)
{
	const char *port = strrchr(d->shop_listen, ':');
	const char *const with[] = {"--tcp", "flows,layers", "--port", port ? port + 1 : "0"};
	bool tcp = false;
#if HAVE_BPF
	struct tcp_hooks hooks;
	int err = tcp_hooks_probe(&hooks, 0, false);

	tcp = port && !err;
	if (err)
		tcp_hooks_refusal(err, d->no_tcp, sizeof(d->no_tcp));
#else
	snprintf(d->no_tcp, sizeof(d->no_tcp), "built without eBPF");
#endif
	cli_demo_part_set(d, DEMO_AGENT, "agent", d->self, "agent", "--socket", d->socket,
			  "--no-rest", tcp ? with[0] : NULL, with[1], with[2], with[3], NULL);
}

/* Command */

bool cli_demo_runs(const char *program)
{
	const char *path = getenv("PATH");
	char full[PATH_MAX];

	for (path = path ? path : "/usr/bin:/bin"; *path;) {
		size_t n = strcspn(path, ":");

		snprintf(full, sizeof(full), "%.*s/%s", (int)n, path, program);
		if (!access(full, X_OK))
			return true;
		path += n + (path[n] == ':');
	}
	return false;
}

/* Finds the examples next to the program in the build folder, or where they are installed. */
static int find_examples(struct cli_demo *d, const char *given)
{
	char beside[PATH_MAX], installed[PATH_MAX], program[PATH_MAX + 8];
	const char *const where[] = {given, beside, installed};

	if (base_program_find("sidelight", d->self))
		return base_failure(&cli_cmd_demo, "the program sidelight is not installed");
	snprintf(beside, sizeof(beside), "%.*s/examples", (int)(strrchr(d->self, '/') - d->self),
		 d->self);
	snprintf(installed, sizeof(installed), "%.*s/../libexec/sidelight",
		 (int)(strrchr(d->self, '/') - d->self), d->self);
	for (size_t i = 0; i < sizeof(where) / sizeof(*where); i++) {
		if (!where[i])
			continue;
		snprintf(program, sizeof(program), "%s/shop", where[i]);
		if (!access(program, X_OK)) {
			snprintf(d->examples, sizeof(d->examples), "%s", where[i]);
			return BASE_EXIT_OK;
		}
		if (given)
			break;
	}
	return base_failure(&cli_cmd_demo,
			    "the example services are not in %s; give their folder with --examples",
			    given ? given : beside);
}

static struct {
	const char *listen, *shop, *examples, *fault;
	uint64_t period, duration, warm_up;
	uint32_t load;
	bool with_switch;
} set = {.listen = "127.0.0.1:9464",
	 .shop = "127.0.0.1:8080",
	 .warm_up = 60 * DEMO_SECOND,
	 .load = 200};

static const struct base_option table[] = {
	BASE_STRING("listen", 'l', &set.listen, "ADDR:PORT",
		    "address of the page and /metrics; another port if it is in use"),
	BASE_STRING("shop-listen", 0, &set.shop, "ADDR:PORT",
		    "address of the example shop; another port if it is in use"),
	BASE_TIME("period", 'p', &set.period, 1e5, 1e11, "DURATION",
		  "time between two rounds (default: the shortest of 1, 2, 5 and 10 ms that this "
		  "machine can keep)"),
	BASE_UINT("load", 0, &set.load, 0, DEMO_CONNECTIONS * 1000, "N",
		  "requests per second to the shop; 0: no load"),
	BASE_TIME("duration", 'd', &set.duration, 0, 0, "DURATION",
		  "end after this time; 0: when interrupted (default)"),
	BASE_TIME("warm-up", 0, &set.warm_up, 1e9, 3600e9, "DURATION",
		  "learn normal behaviour for this long"),
	BASE_STRING("fault", 0, &set.fault, "KIND[@SECONDS]",
		    "after the warm-up, break the shop for SECONDS, or 10 s: cpu, slow, errors or "
		    "leak"),
	BASE_FLAG("switch", 0, &set.with_switch,
		  "also show the flows of a real switch: Open vSwitch in network namespaces"),
	BASE_STRING("examples", 0, &set.examples, "DIR",
		    "directory of the programs shop and queue"),
	{0},
};

static int set_parts(struct cli_demo *d)
{
	int err = cli_demo_folder_make(d);

	if (!err && set.load)
		err = cli_demo_write_script(d, set.load);
	if (!err)
		err = cli_demo_reports_set(d);
	if (err)
		return err;
	snprintf(d->shop_url, sizeof(d->shop_url), "http://%s", d->shop_listen);
	snprintf(d->shop, sizeof(d->shop), "%s/shop", d->examples);
	snprintf(d->queue, sizeof(d->queue), "%s/queue", d->examples);
	set_period(d, set.period ? set.period : 1000000);
	set_agent(d);
	cli_demo_part_set(d, DEMO_COLLECT, "collect", d->self, "collect", "--agent", d->socket,
			  "--listen", d->listen, "--period", d->period, "--analyse", "--warm-up",
			  d->warm_up, "--verdict-ttl", "10s", *d->stores ? "--dta" : NULL,
			  d->stores, NULL);
	cli_demo_part_set(d, DEMO_SHOP, "shop", d->shop, "--listen", d->shop_listen, "--faults",
			  NULL);
	cli_demo_part_set(d, DEMO_QUEUE, "queue", d->queue, "--rate", "50", NULL);
	d->part[DEMO_SHOP].pod = "shop-0";
	d->part[DEMO_QUEUE].pod = "queue-0";
	if (set.load)
		cli_demo_part_set(d, DEMO_LOAD, "wrk", "wrk", "-t1", "-c4", "-d20s", "-s",
				  d->script, d->shop_url, NULL);
	return BASE_EXIT_OK;
}

static int run_demo(struct cli_demo *d)
{
	int result = cli_demo_start_all(d, false);
	uint64_t began;

	if (!result && !set.period)
		result = choose_period(d);
	if (!result)
		result = cli_demo_start_all(d, true);
	/* The banner shows some values: give the first ones time to arrive. */
	if (!result && !base_stop_wait(d->stop, set.period ? 1500 : 300)) {
		await_samples(d);
		print_banner(d);
		began = base_now_ns();
		while (!result && !base_stop_wait(d->stop, set.fault ? 50 : 200) &&
		       !(set.duration && base_now_ns() - began >= set.duration)) {
			result = cli_demo_look_after(d);
			cli_demo_fault_poll(d);
		}
	}
	if (!result)
		puts("\nstopping");
	cli_demo_stop_all(d);
	return result;
}

static int run(const struct base_command *cmd, int argc, char **argv)
{
	static struct cli_demo d; /* too large for the stack */
	int result;

	if (!base_options_only(cmd, table, argc, argv, &result))
		return result;
	setvbuf(stdout, NULL, _IOLBF, 0); /* print in order with stderr */
	/* The reader of standard output may disappear; the parts must be stopped nevertheless. */
	signal(SIGPIPE, SIG_IGN);
	if (set.fault && (result = cli_demo_fault_parse(&d, set.fault)))
		return result;
	d.with_switch = set.with_switch;
	base_print_duration(d.warm_up, sizeof(d.warm_up), set.warm_up);
	if (find_examples(&d, set.examples))
		return BASE_EXIT_FAILURE;
	if (set.load && !cli_demo_runs("wrk"))
		return base_failure(
			&cli_cmd_demo,
			"wrk, the load generator, is not installed: apt-get install wrk, or use "
			"--load 0");
	result = cli_demo_free_address("listen", set.listen, d.listen, sizeof(d.listen));
	if (!result)
		result = cli_demo_free_address("shop-listen", set.shop, d.shop_listen,
					       sizeof(d.shop_listen));
	if (result)
		return result;
	d.stop = base_stop_fd();
	if (d.stop < 0)
		return base_failure(&cli_cmd_demo, "signalfd: %s", strerror(-d.stop));
	result = set_parts(&d);
	if (!result)
		result = run_demo(&d);
	cli_demo_folder_remove(&d);
	close(d.stop);
	return result;
}

const struct base_command cli_cmd_demo = {
	.name = "demo",
	.synopsis = "[OPTION]...",
	.summary = CLI_SUMMARY_DEMO,
	.run = run,
};
