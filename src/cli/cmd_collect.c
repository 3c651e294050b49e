// SPDX-License-Identifier: Apache-2.0
/* cmd_collect.c - sidelight collect: reads hosts, and shows what it reads in one of three ways. */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/base.h"
#include "collect/api.h"
#include "collect/collect.h"
#include "export/serve.h"
#include "http/http.h"

#define DEFAULT_LISTEN	"127.0.0.1:9464"
#define DEFAULT_HISTORY ((uint64_t)256 << 20)
#define CSV_NS		10000000000u /* a row a worker and so long */
#define SETUP_NS	10000000000u /* how long mode setup waits for hosts */

static int collect_main(const struct sl_command *self, int argc, char **argv);

const struct sl_command sl_cmd_collect = {
	.name = "collect",
	.synopsis = "--agent TARGET [OPTION]...",
	.summary = "read hosts one-sided; serve Prometheus, history and the page",
	.run = collect_main,
};

struct settings {
	struct sl_strings agents;
	const char *listen, *mode, *cpus, *csv;
	uint64_t duration_ns, history_bytes, buffer_bytes;
	uint32_t workers, queues, depth, max_regions, max_series, connections;
	int32_t gid, ib_port;
	bool pin, as_json;
	struct sl_collector_opts c;
};

/* ---- what the workers did ------------------------------------------------------------------------------ */

#define WORKERS_MAX 1024u

struct sample {
	uint64_t ns;
	unsigned int workers;
	struct sl_worker_view w[];
};

static void take_worker(const struct sl_worker_view *v, void *arg)
{
	struct sample *s = arg;

	if (v->worker < s->workers)
		s->w[v->worker] = *v;
}

static struct sample *sample_new(unsigned int workers)
{
	struct sample *s = calloc(1, sizeof(*s) + workers * sizeof(s->w[0]));

	if (s)
		s->workers = workers;
	return s;
}

static void sample_take(struct sample *s, struct sl_collector *c)
{
	s->ns = sl_now_ns();
	sl_collector_workers(c, take_worker, s);
}

static double rate(uint64_t now, uint64_t before, uint64_t ns)
{
	return ns ? (double)(now - before) * 1e9 / (double)ns : 0;
}

static double rounds_a_second(const struct sample *now, const struct sample *before)
{
	double sum = 0;

	for (unsigned int i = 0; i < now->workers; i++)
		sum += rate(now->w[i].rounds, before->w[i].rounds, now->ns - before->ns);
	return sum;
}

static uint64_t total(const struct sample *s, size_t offset)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < s->workers; i++)
		sum += *(const uint64_t *)((const char *)&s->w[i] + offset);
	return sum;
}

#define TOTAL(s, field) total((s), offsetof(struct sl_worker_view, field))

/* The same shape for the lines of read_loop and for its end. */
static json_t *rates_json(const struct sample *now, const struct sample *before)
{
	uint64_t ns = now->ns - before->ns;
	json_t *workers = json_array();

	for (unsigned int i = 0; i < now->workers; i++)
		json_array_append_new(workers,
				      json_real(rate(now->w[i].rounds, before->w[i].rounds, ns)));
	return json_pack(
		"{s:f, s:f, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "seconds", (double)ns * 1e-9,
		"scrapes_per_second", rounds_a_second(now, before), "workers", workers, "rounds",
		(json_int_t)(TOTAL(now, rounds) - TOTAL(before, rounds)), "missed_deadlines",
		(json_int_t)(TOTAL(now, missed_deadlines) - TOTAL(before, missed_deadlines)),
		"samples", (json_int_t)(TOTAL(now, samples) - TOTAL(before, samples)), "reads",
		(json_int_t)(TOTAL(now, reads) - TOTAL(before, reads)), "bytes",
		(json_int_t)(TOTAL(now, bytes) - TOTAL(before, bytes)), "unsettled",
		(json_int_t)(TOTAL(now, unsettled) - TOTAL(before, unsettled)), "busy_seconds",
		(double)(TOTAL(now, busy_ns) - TOTAL(before, busy_ns)) * 1e-9);
}

static void print_json(json_t *j)
{
	json_dumpf(j, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
	putchar('\n');
	fflush(stdout);
	json_decref(j);
}

static void print_rates(const struct sample *now, const struct sample *before)
{
	uint64_t ns = now->ns - before->ns;
	uint64_t missed = TOTAL(now, missed_deadlines) - TOTAL(before, missed_deadlines);

	printf("%.1f scrapes/s", rounds_a_second(now, before));
	if (now->workers > 1)
		for (unsigned int i = 0; i < now->workers; i++)
			printf("%s%u: %.1f%s", i ? ", " : "  (", i,
			       rate(now->w[i].rounds, before->w[i].rounds, ns),
			       i + 1 == now->workers ? ")" : "");
	printf("  %.0f values/s  %.1f MB/s  %.0f %% busy",
	       rate(TOTAL(now, samples), TOTAL(before, samples), ns),
	       rate(TOTAL(now, bytes), TOTAL(before, bytes), ns) / 1e6,
	       rate(TOTAL(now, busy_ns), TOTAL(before, busy_ns), ns) / 1e7);
	if (missed)
		printf("  %" PRIu64 " deadlines missed", missed);
	putchar('\n');
	fflush(stdout);
}

/* ---- CSV ------------------------------------------------------------------------------------------------- */

static FILE *csv_open(const char *path)
{
	FILE *f = path ? fopen(path, "we") : NULL;

	if (f)
		fputs("worker,time_s,scrapes,rate_hz,missed_deadlines,values,reads,bytes,unsettled,"
		      "busy_s\n",
		      f);
	return f;
}

static void csv_rows(FILE *f, const struct sample *now, const struct sample *before, uint64_t start)
{
	for (unsigned int i = 0; f && i < now->workers; i++) {
		const struct sl_worker_view *a = &now->w[i], *b = &before->w[i];

		fprintf(f,
			"%u,%.3f,%" PRIu64 ",%.3f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
			",%" PRIu64 ",%.3f\n",
			i, (double)(now->ns - start) * 1e-9, a->rounds - b->rounds,
			rate(a->rounds, b->rounds, now->ns - before->ns),
			a->missed_deadlines - b->missed_deadlines, a->samples - b->samples,
			a->reads - b->reads, a->bytes - b->bytes, a->unsettled - b->unsettled,
			(double)(a->busy_ns - b->busy_ns) * 1e-9);
	}
}

/* ---- mode setup -------------------------------------------------------------------------------------------- */

static const char *condition_name(enum sl_host_condition condition)
{
	switch (condition) {
	case SL_HOST_CONNECTING:
		return "connecting";
	case SL_HOST_UP:
		return "up";
	case SL_HOST_STALE:
		return "stale";
	}
	return "";
}

static const char *state_name(uint32_t state)
{
	static const char *const names[] = {"free", "live", "dead", "closed", "retired"};

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

static void collect_host(const struct sl_host_view *v, void *arg)
{
	json_array_append_new(
		arg, json_pack("{s:s, s:s, s:s, s:s, s:i, s:s}", "target", v->target, "fabric",
			       v->fabric, "host", v->hostname, "condition",
			       condition_name(v->condition), "regions", (int)v->regions, "error",
			       v->condition == SL_HOST_UP ? "" : v->stats.last_error));
}

static void collect_region(const struct sl_region_view *v, void *arg)
{
	json_t *labels = json_object();
	char instance[20];

	for (uint32_t i = 0; i < v->info->label_count; i++)
		json_object_set_new(labels, v->info->labels[i].key,
				    json_string(v->info->labels[i].value));
	snprintf(instance, sizeof(instance), "%016" PRIx64, v->info->instance);
	json_array_append_new(
		arg, json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:s}", "target", v->target,
			       "host", v->hostname, "instance", instance, "state",
			       state_name(v->state), "process", (json_int_t)v->info->pid, "metrics",
			       (json_int_t)v->metrics, "labels", labels, "fault", v->fault));
}

static const char *string(const json_t *j, const char *key)
{
	return json_string_value(json_object_get(j, key));
}

/* What comes from a region is a stranger's: nothing of it may steer a terminal. */
static void print_safe(const char *s)
{
	for (; *s; s++)
		putchar((unsigned char)*s < 32 || *s == 127 ? '?' : *s);
}

static void print_found(const json_t *j)
{
	const json_t *hosts = json_object_get(j, "hosts"), *regions = json_object_get(j, "regions");
	const json_t *h, *r, *v;
	const char *key;
	size_t i;

	json_array_foreach(hosts, i, h)
	{
		printf("host %s (%s, %s): %s, %lld regions%s%s\n",
		       *string(h, "host") ? string(h, "host") : "?", string(h, "target"),
		       string(h, "fabric"), string(h, "condition"),
		       (long long)json_integer_value(json_object_get(h, "regions")),
		       *string(h, "error") ? ": " : "", string(h, "error"));
	}
	json_array_foreach(regions, i, r)
	{
		printf("region %s %s: %lld metrics", string(r, "instance"), string(r, "state"),
		       (long long)json_integer_value(json_object_get(r, "metrics")));
		json_object_foreach(json_object_get(r, "labels"), key, v)
		{
			printf(" %s=", key);
			print_safe(json_string_value(v));
		}
		printf(" process=%lld%s%s\n",
		       (long long)json_integer_value(json_object_get(r, "process")),
		       *string(r, "fault") ? " dropped: " : "", string(r, "fault"));
	}
}

static int mode_setup(struct settings *s, struct sl_collector *c, int stop)
{
	uint64_t end = sl_now_ns() + (s->duration_ns ? s->duration_ns : SETUP_NS);
	json_t *hosts = json_array(), *regions = json_array(), *all;
	struct sl_collector_totals t;
	bool asked = false;

	do {
		asked = sl_stop_wait(stop, 20);
		sl_collector_totals(c, &t);
	} while (!asked && sl_now_ns() < end && !(sl_collector_ready(c) && t.hosts_up == t.hosts));
	sl_collector_totals(c, &t);
	sl_collector_hosts(c, collect_host, hosts);
	sl_collector_regions(c, collect_region, regions);
	all = json_pack("{s:o, s:o, s:I}", "hosts", hosts, "regions", regions, "series",
			(json_int_t)t.series);
	if (s->as_json) {
		json_dumpf(all, stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		print_found(all);
	}
	json_decref(all);
	fflush(stdout);
	return t.hosts_up == t.hosts ? SL_EXIT_OK : SL_EXIT_FAILURE;
}

/* ---- the other modes: until stopped ----------------------------------------------------------------------------- */

static int run_until(struct settings *s, struct sl_collector *c, int stop, bool print)
{
	uint64_t start = sl_now_ns(), end = s->duration_ns ? start + s->duration_ns : UINT64_MAX;
	struct sample *first = sample_new(s->workers), *before = sample_new(s->workers);
	struct sample *now = sample_new(s->workers), *row = sample_new(s->workers), *swap;
	uint64_t tick = start + 1000000000u, csv_at = start + CSV_NS, wake, at;
	FILE *csv = csv_open(s->csv);
	int code = SL_EXIT_FAILURE;
	bool asked = false;

	if (s->csv && !csv) {
		sl_logf(SL_ERROR, "collect", "%s: %s", s->csv, strerror(errno));
		goto out;
	}
	if (!first || !before || !now || !row)
		goto out;
	sample_take(first, c);
	sample_take(before, c);
	sample_take(row, c);
	while (!asked && sl_now_ns() < end) {
		at = sl_now_ns();
		wake = tick < end ? tick : end;
		asked = sl_stop_wait(stop, wake > at ? (int)((wake - at + 999999) / 1000000) : 0);
		at = sl_now_ns();
		if (at >= tick) {
			sample_take(now, c);
			if (print && s->as_json)
				print_json(rates_json(now, before));
			else if (print)
				print_rates(now, before);
			swap = before;
			before = now;
			now = swap;
			tick += (at - tick) / 1000000000u * 1000000000u + 1000000000u;
		}
		if (csv && at >= csv_at) {
			sample_take(now, c);
			csv_rows(csv, now, row, start);
			swap = row;
			row = now;
			now = swap;
			csv_at += CSV_NS;
		}
	}
	sample_take(now, c);
	csv_rows(csv, now, row, start);
	if (print && s->as_json)
		print_json(json_pack("{s:o}", "total", rates_json(now, first)));
	else if (print) {
		printf("total: ");
		print_rates(now, first);
	}
	code = SL_EXIT_OK;
out:
	if (csv && fclose(csv)) {
		sl_logf(SL_ERROR, "collect", "%s: %s", s->csv, strerror(errno));
		code = SL_EXIT_FAILURE;
	}
	free(first);
	free(before);
	free(now);
	free(row);
	return code;
}

static void healthy(struct sl_http_request *req, void *arg)
{
	(void)arg;
	sl_http_reply(req, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

static void ready(struct sl_http_request *req, void *arg)
{
	if (sl_collector_ready(arg))
		sl_http_reply(req, 200, "text/plain; charset=utf-8", "ready\n", 6);
	else
		sl_http_reply(req, 503, "text/plain; charset=utf-8",
			      "not all hosts were tried yet\n", 29);
}

static struct sl_http *serve(struct settings *s, struct sl_collector *c,
			     const struct sl_source *source)
{
	struct sl_http_opts o = {.listen = s->listen, .max_connections = s->connections};
	struct sl_http *h;
	char error[256];
	int err;

	h = sl_http_new(&o, error, sizeof(error));
	if (!h) {
		sl_logf(SL_ERROR, "collect", "%s", error);
		return NULL;
	}
	err = sl_http_route(h, "GET", "/-/healthy", healthy, NULL);
	if (!err)
		err = sl_http_route(h, "GET", "/-/ready", ready, c);
	if (!err)
		err = sl_export_route(h, "/metrics", source);
	if (!err)
		err = sl_api_register(h, c);
	if (err)
		snprintf(error, sizeof(error), "routes: %s", strerror(-err));
	else
		err = sl_http_start(h, error, sizeof(error));
	if (err) {
		sl_logf(SL_ERROR, "collect", "%s", error);
		sl_http_free(h);
		return NULL;
	}
	return h;
}

/* Ready means that a scrape shows what there is: hosts that can be reached were read. */
static bool wait_ready(struct sl_collector *c, int stop)
{
	uint64_t end = sl_now_ns() + SETUP_NS;

	while (!sl_collector_ready(c) && sl_now_ns() < end)
		if (sl_stop_wait(stop, 5))
			return false;
	return true;
}

static int run(struct settings *s)
{
	bool prometheus = !strcmp(s->mode, "prometheus"), setup = !strcmp(s->mode, "setup");
	struct sl_http *http = NULL;
	struct sl_collector *c;
	struct sl_source source;
	int code = SL_EXIT_FAILURE, stop, err;
	char error[256];

	stop = sl_stop_fd();
	if (stop < 0) {
		sl_logf(SL_ERROR, "collect", "signals: %s", strerror(-stop));
		return SL_EXIT_FAILURE;
	}
	c = sl_collector_new(&s->c, error, sizeof(error));
	if (!c) {
		sl_logf(SL_ERROR, "collect", "%s", error);
		goto out_stop;
	}
	source = sl_collector_source(c);
	if (prometheus) {
		http = serve(s, c, &source);
		if (!http)
			goto out_collector;
	}
	err = sl_collector_start(c);
	if (err) {
		sl_logf(SL_ERROR, "collect", "threads: %s", strerror(-err));
		goto out_http;
	}
	if (setup) {
		code = mode_setup(s, c, stop);
	} else if (!wait_ready(c, stop)) {
		code = SL_EXIT_OK;
	} else {
		if (prometheus)
			sl_ready("listen=%s agents=%zu", sl_http_address(http), s->c.agent_count);
		else if (!s->as_json)
			sl_ready("agents=%zu", s->c.agent_count);
		code = run_until(s, c, stop, !prometheus);
	}
out_http:
	sl_http_free(http);
out_collector:
	sl_collector_free(c);
out_stop:
	close(stop);
	return code;
}

/* ---- options ------------------------------------------------------------------------------------------------------ */

/* "0,2-5" */
static int parse_cpus(const char *s, int *cpus, size_t max, size_t *count)
{
	*count = 0;
	while (*s) {
		unsigned long first, last;
		char *end;

		if (*s < '0' || *s > '9')
			return -EINVAL;
		first = last = strtoul(s, &end, 10);
		if (*end == '-') {
			s = end + 1;
			if (*s < '0' || *s > '9')
				return -EINVAL;
			last = strtoul(s, &end, 10);
		}
		if (last < first || last >= CPU_SETSIZE || (*end && *end != ','))
			return -EINVAL;
		for (; first <= last && *count < max; first++)
			cpus[(*count)++] = (int)first;
		if (*end && !end[1])
			return -EINVAL;
		s = *end ? end + 1 : end;
	}
	return *count ? 0 : -EINVAL;
}

static int collect_main(const struct sl_command *self, int argc, char **argv)
{
	struct settings s = {
		.listen = DEFAULT_LISTEN,
		.mode = "prometheus",
		.history_bytes = DEFAULT_HISTORY,
		.workers = 1,
		.queues = 1,
		.gid = -1,
		.ib_port = 1,
		.max_regions = 65536,
		.max_series = 4194304,
		.connections = 256,
		.c = {.period_ns = 10000000},
	};
	const struct sl_option table[] = {
		{.name = "agent",
		 .letter = 'a',
		 .type = SL_OPT_LIST,
		 .to = &s.agents,
		 .argument = "PATH|HOST[:PORT]",
		 .help = "a host to read: an agent's socket on this machine, or its RDMA address; "
			 "repeatable"},
		{.name = "listen",
		 .letter = 'l',
		 .type = SL_OPT_STRING,
		 .to = &s.listen,
		 .argument = "ADDR:PORT",
		 .help = "serve HTTP there; port 0 takes a free one"},
		{.name = "period",
		 .letter = 'p',
		 .type = SL_OPT_DURATION,
		 .to = &s.c.period_ns,
		 .argument = "DURATION",
		 .help = "read all regions once in so long; 0: as fast as it goes"},
		{.name = "mode",
		 .letter = 'm',
		 .type = SL_OPT_STRING,
		 .to = &s.mode,
		 .argument = "MODE",
		 .help = "prometheus: serve; read_loop: print rates; setup: print what there is, and "
			 "exit"},
		{.name = "workers",
		 .letter = 'w',
		 .type = SL_OPT_U32,
		 .to = &s.workers,
		 .argument = "N",
		 .help = "threads that read",
		 .min = 1,
		 .max = WORKERS_MAX},
		{.name = "pin",
		 .type = SL_OPT_FLAG,
		 .to = &s.pin,
		 .help = "pin each worker to a CPU"},
		{.name = "cpus",
		 .type = SL_OPT_STRING,
		 .to = &s.cpus,
		 .argument = "LIST",
		 .help = "... to these, as in 0,2-5"},
		{.name = "queues",
		 .letter = 'q',
		 .type = SL_OPT_U32,
		 .to = &s.queues,
		 .argument = "N",
		 .help = "connections a host, one a worker at most",
		 .min = 1,
		 .max = WORKERS_MAX},
		{.name = "dev",
		 .type = SL_OPT_STRING,
		 .to = &s.c.fabric.device,
		 .argument = "DEVICE",
		 .help = "RDMA device (default: by route)"},
		{.name = "gid",
		 .type = SL_OPT_I32,
		 .to = &s.gid,
		 .argument = "INDEX",
		 .help = "GID index; -1: by route",
		 .min = -1,
		 .max = 255},
		{.name = "ib-port",
		 .type = SL_OPT_I32,
		 .to = &s.ib_port,
		 .argument = "N",
		 .help = "port of the device",
		 .min = 1,
		 .max = 255},
		{.name = "depth",
		 .type = SL_OPT_U32,
		 .to = &s.depth,
		 .argument = "N",
		 .help = "outstanding READs a connection; 0: 128",
		 .max = 4096},
		{.name = "buffer",
		 .type = SL_OPT_SIZE,
		 .to = &s.buffer_bytes,
		 .argument = "BYTES",
		 .help = "landing memory a connection; 0: 4M"},
		{.name = "read-timeout",
		 .type = SL_OPT_DURATION,
		 .to = &s.c.read_timeout_ns,
		 .argument = "DURATION",
		 .help = "reconnect when a READ takes longer; 0: 500ms"},
		{.name = "history",
		 .type = SL_OPT_SIZE,
		 .to = &s.history_bytes,
		 .argument = "BYTES",
		 .help = "keep recent samples in so much memory; 0: none"},
		{.name = "history-time",
		 .type = SL_OPT_DURATION,
		 .to = &s.c.history_ns,
		 .argument = "DURATION",
		 .help = "... and no longer than this; 0: as memory allows"},
		{.name = "stale",
		 .type = SL_OPT_DURATION,
		 .to = &s.c.stale_ns,
		 .argument = "DURATION",
		 .help = "what was not read for so long leaves the exposition; 0: five periods, 2s "
			 "at least"},
		{.name = "max-regions",
		 .type = SL_OPT_U32,
		 .to = &s.max_regions,
		 .argument = "N",
		 .help = "regions at most",
		 .min = 1},
		{.name = "max-series",
		 .type = SL_OPT_U32,
		 .to = &s.max_series,
		 .argument = "N",
		 .help = "series at most",
		 .min = 1},
		{.name = "max-connections",
		 .type = SL_OPT_U32,
		 .to = &s.connections,
		 .argument = "N",
		 .help = "HTTP connections at most",
		 .min = 1,
		 .max = 65536},
		{.name = "sum-processes",
		 .type = SL_OPT_FLAG,
		 .to = &s.c.sum_processes,
		 .help = "add up series that differ by process only"},
		{.name = "duration",
		 .letter = 'd',
		 .type = SL_OPT_DURATION,
		 .to = &s.duration_ns,
		 .argument = "DURATION",
		 .help = "stop after so long; 0: when told to"},
		{.name = "stats-csv",
		 .type = SL_OPT_STRING,
		 .to = &s.csv,
		 .argument = "FILE",
		 .help = "write each worker's scrapes, time and rate there, a row every 10s"},
		{.name = "json",
		 .type = SL_OPT_FLAG,
		 .to = &s.as_json,
		 .help = "in modes setup and read_loop: print JSON"},
		{0},
	};
	static int cpus[WORKERS_MAX];
	int arg = sl_options_parse(self, table, argc, argv);

	if (arg == SL_HELP_SHOWN)
		return SL_EXIT_OK;
	if (arg < 0)
		return SL_EXIT_USAGE;
	if (arg < argc)
		return sl_usage(self, "unexpected argument '%s'", argv[arg]);
	if (strcmp(s.mode, "prometheus") && strcmp(s.mode, "read_loop") && strcmp(s.mode, "setup"))
		return sl_usage(self, "--mode '%s' is none of prometheus, read_loop, setup",
				s.mode);
	if (!s.agents.n)
		return sl_usage(self, "no --agent: which host is to be read?");
	if (s.as_json && !strcmp(s.mode, "prometheus"))
		return sl_usage(self, "--json is for --mode setup and read_loop");
	if (s.c.period_ns && s.c.period_ns < 10000)
		return sl_usage(self, "--period is 0 (as fast as it goes) or 10us at least");
	if (s.cpus && parse_cpus(s.cpus, cpus, WORKERS_MAX, &s.c.cpu_count))
		return sl_usage(self, "--cpus '%s' is no list such as 0,2-5", s.cpus);
	if (s.history_bytes && s.history_bytes / s.workers < 1u << 20)
		return sl_usage(self, "--history is 0 or 1M a worker at least");
	s.c.agents = s.agents.v;
	s.c.agent_count = s.agents.n;
	s.c.workers = s.workers;
	s.c.queues = s.queues;
	s.c.pin = s.pin || s.cpus;
	s.c.cpus = cpus;
	s.c.history_bytes = (size_t)s.history_bytes;
	s.c.max_regions = s.max_regions;
	s.c.max_series = s.max_series;
	s.c.fabric.gid_index = s.gid;
	s.c.fabric.ib_port = s.ib_port;
	s.c.fabric.queue_depth = s.depth;
	s.c.fabric.buffer_bytes = (size_t)s.buffer_bytes;
	return run(&s);
}
