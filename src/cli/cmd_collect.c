// SPDX-License-Identifier: Apache-2.0
/* cmd_collect.c - sidelight collect: reads hosts, and shows what it reads in one of three ways. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/collect_modes.h"
#include "cli/common.h"
#include "api/api.h"
#include "collect/collect.h"
#include "collect/analysis/live.h"
#include "collect/trace/trace.h"
#include "dta/store_server/server.h"
#include "export/serve.h"
#include "http/http.h"

#define DEFAULT_LISTEN	"127.0.0.1:9464"
#define DEFAULT_HISTORY ((uint64_t)256 << 20)
#define WORKERS_MAX	1024u

static int collect_main(const struct base_command *self, int argc, char **argv);

const struct base_command cli_cmd_collect = {
	.name = "collect",
	.synopsis = "--agent TARGET [OPTION]...\n       sidelight collect --dta FILE [OPTION]...",
	.summary = "Read hosts one-sided; serve Prometheus, history and the page",
	.run = collect_main,
};

struct collect_settings {
	struct base_strings agents;
	const char *listen, *mode, *cpus, *csv, *dta;
	uint64_t duration_ns, history_bytes, buffer_bytes;
	uint32_t workers, queues, depth, max_regions, max_series, connections;
	uint32_t tcp_groups, tcp_flows;
	int32_t gid, ib_port;
	bool pin, as_json;
	struct collect_collector_opts c;
	bool live;
	struct collect_live_opts l;
	struct collect_tracer_opts t;
	double trace_budget;
	uint64_t trace_memory;
};

static void healthy(struct http_request *req, void *arg)
{
	(void)arg;
	http_reply(req, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

static void ready(struct http_request *req, void *arg)
{
	if (collect_collector_ready(arg))
		http_reply(req, 200, "text/plain; charset=utf-8", "ready\n", 6);
	else
		http_reply(req, 503, "text/plain; charset=utf-8", "not all hosts were tried yet\n",
			   29);
}

static struct http *serve(struct collect_settings *s, struct collect_collector *c,
			  struct collect_tracer *tracer, struct dta_store_server *owner,
			  const struct export_source *source)
{
	struct http_opts o = {.listen = s->listen, .max_connections = s->connections};
	struct http *h;
	char error[256];
	int err;

	h = http_new(&o, error, sizeof(error));
	if (!h) {
		base_logf(BASE_ERROR, "collect", "%s", error);
		return NULL;
	}
	err = http_route(h, "GET", "/-/healthy", healthy, NULL);
	if (!err)
		err = http_route(h, "GET", "/-/ready", ready, c);
	if (!err)
		err = export_route(h, "/metrics", source);
	if (!err)
		err = api_register(h, c);
	if (!err && tracer)
		err = api_traces(h, tracer);
	if (!err && owner)
		err = api_dta(h, owner);
	if (err)
		snprintf(error, sizeof(error), "routes: %s", strerror(-err));
	else
		err = http_start(h, error, sizeof(error));
	if (err) {
		base_logf(BASE_ERROR, "collect", "%s", error);
		http_free(h);
		return NULL;
	}
	return h;
}

/* Ready means that a scrape shows what there is: hosts that can be reached were read. */
static bool wait_ready(struct collect_collector *c, int stop)
{
	uint64_t end = base_now_ns() + COLLECT_SETUP_NS;

	while (!collect_collector_ready(c) && base_now_ns() < end)
		if (base_stop_wait(stop, 5))
			return false;
	return true;
}

static int run(struct collect_settings *s)
{
	bool prometheus = !strcmp(s->mode, "prometheus"), setup = !strcmp(s->mode, "setup");
	struct http *http = NULL;
	struct collect_live *live = NULL;
	struct collect_tracer *tracer = NULL;
	struct dta_store_server *owner = NULL;
	struct collect_collector *c;
	struct export_source source;
	const struct cli_collect_mode m = {s->workers, s->duration_ns, s->csv, s->as_json};
	int code = BASE_EXIT_FAILURE, stop, reload = -1, err;
	char error[256];

	if (s->dta)
		reload = base_reload_fd();
	stop = base_stop_fd();
	if (stop < 0 || (s->dta && reload < 0)) {
		base_logf(BASE_ERROR, "collect", "signals: %s",
			  strerror(stop < 0 ? -stop : -reload));
		goto out_stop;
	}
	if (s->live) {
		live = collect_live_new(&s->l, error, sizeof(error));
		if (!live) {
			base_logf(BASE_ERROR, "collect", "%s", error);
			goto out_stop;
		}
	}
	c = collect_collector_new(&s->c, error, sizeof(error));
	if (!c) {
		base_logf(BASE_ERROR, "collect", "%s", error);
		if (errno == EINVAL) /* an agent by an address that is none */
			code = BASE_EXIT_USAGE;
		goto out_live;
	}
	err = live ? collect_live_start(live, c) : 0;
	if (err) {
		base_logf(BASE_ERROR, "collect", "analysis: %s", strerror(-err));
		goto out_collector;
	}
	if (prometheus && s->trace_budget > 0) {
		tracer = collect_tracer_new(c, &s->t, error, sizeof(error));
		if (!tracer) {
			base_logf(BASE_ERROR, "collect", "traces: %s", error);
			goto out_collector;
		}
	}
	if (s->dta) {
		owner = dta_store_server_new(s->dta, error, sizeof(error));
		if (!owner) {
			base_logf(BASE_ERROR, "dta", "%s", error);
			goto out_collector;
		}
		dta_store_server_reload_on(owner, reload);
		collect_collector_owns(c, owner);
	}
	source = collect_collector_source(c);
	if (prometheus) {
		http = serve(s, c, tracer, owner, &source);
		if (!http)
			goto out_collector;
	}
	err = collect_collector_start(c);
	if (!err && tracer)
		err = collect_tracer_start(tracer);
	if (!err && owner)
		err = dta_store_server_start(owner);
	if (err) {
		base_logf(BASE_ERROR, "collect", "threads: %s", strerror(-err));
		goto out_http;
	}
	if (setup) {
		code = cli_collect_setup(&m, c, stop);
	} else if (!wait_ready(c, stop)) {
		code = BASE_EXIT_OK;
	} else {
		if (owner && dta_store_server_address(owner, 0))
			base_ready("listen=%s agents=%zu dta=%s", http_address(http),
				   s->c.agent_count, dta_store_server_address(owner, 0));
		else if (prometheus)
			base_ready("listen=%s agents=%zu", http_address(http), s->c.agent_count);
		else if (!s->as_json)
			base_ready("agents=%zu", s->c.agent_count);
		code = cli_collect_until(&m, c, stop, !prometheus);
	}
out_http:
	http_free(http);
out_collector:
	dta_store_server_free(owner);
	collect_live_stop(live);
	collect_tracer_stop(tracer);
	collect_collector_free(c);
	collect_tracer_free(tracer);
out_live:
	if (collect_live_free(live))
		code = BASE_EXIT_FAILURE;
out_stop:
	if (stop >= 0)
		close(stop);
	if (reload >= 0)
		close(reload);
	return code;
}

/* ---- options ---- */

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

/* Is any of these hosts not on this machine? (fabric.h: what is no path is a host.) */
static bool any_over_rdma(const struct base_strings *agents)
{
	for (size_t i = 0; i < agents->n; i++)
		if (!strchr(agents->v[i], '/'))
			return true;
	return false;
}

static int collect_main(const struct base_command *self, int argc, char **argv)
{
	struct collect_settings s = {
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
		.tcp_groups = 512,
		.tcp_flows = 65536,
		.trace_budget = 0.15,
		.trace_memory = 16u << 20,
		.t = {.policy.slow_factor = 5, .linger_ns = 1000000000},
		.c = {.period_ns = 10000000, .tcp_period_ns = 1000000000},
		.l = {.analysis = {.false_alarms = 1,
				   .warm_up_ns = 60000000000,
				   .every_ns = 100000000,
				   .step_ns = 1000000000,
				   .model_every_ns = 300000000000},
		      .verdict_ttl_ns = 30000000000,
		      .sample_every_ns = 30000000000,
		      .sample_around_ns = 5000000000},
	};
	const struct base_option table[] = {
		{.name = "agent",
		 .letter = 'a',
		 .type = BASE_OPT_LIST,
		 .to = &s.agents,
		 .argument = "PATH|HOST[:PORT]",
		 .help = "a host to read: an agent's socket on this machine, or its RDMA address; "
			 "repeatable"},
		{.name = "listen",
		 .letter = 'l',
		 .type = BASE_OPT_STRING,
		 .to = &s.listen,
		 .argument = "ADDR:PORT",
		 .help = "serve HTTP there; port 0 takes a free one"},
		{.name = "period",
		 .letter = 'p',
		 .type = BASE_OPT_DURATION,
		 .to = &s.c.period_ns,
		 .argument = "DURATION",
		 .help = "read all regions once in so long; 0: as fast as it goes"},
		{.name = "mode",
		 .letter = 'm',
		 .type = BASE_OPT_STRING,
		 .to = &s.mode,
		 .argument = "MODE",
		 .help = "prometheus: serve; read_loop: print rates; setup: print what there is, and "
			 "exit"},
		{.name = "workers",
		 .letter = 'w',
		 .type = BASE_OPT_U32,
		 .to = &s.workers,
		 .argument = "N",
		 .help = "threads that read",
		 .min = 1,
		 .max = WORKERS_MAX},
		{.name = "pin",
		 .type = BASE_OPT_FLAG,
		 .to = &s.pin,
		 .help = "pin each worker to a CPU"},
		{.name = "cpus",
		 .type = BASE_OPT_STRING,
		 .to = &s.cpus,
		 .argument = "LIST",
		 .help = "... to these, as in 0,2-5"},
		{.name = "queues",
		 .letter = 'q',
		 .type = BASE_OPT_U32,
		 .to = &s.queues,
		 .argument = "N",
		 .help = "connections a host, one a worker at most",
		 .min = 1,
		 .max = WORKERS_MAX},
		{.name = "dev",
		 .type = BASE_OPT_STRING,
		 .to = &s.c.fabric.device,
		 .argument = "DEVICE",
		 .help = "RDMA device (default: by route)"},
		CLI_OPTIONS_RDMA_PORT(&s.gid, &s.ib_port, "by route"),
		{.name = "depth",
		 .type = BASE_OPT_U32,
		 .to = &s.depth,
		 .argument = "N",
		 .help = "outstanding READs a connection; 0: 128",
		 .max = 4096},
		{.name = "buffer",
		 .type = BASE_OPT_SIZE,
		 .to = &s.buffer_bytes,
		 .argument = "BYTES",
		 .help = "landing memory a connection; 0: 4M"},
		{.name = "read-timeout",
		 .type = BASE_OPT_DURATION,
		 .to = &s.c.read_timeout_ns,
		 .argument = "DURATION",
		 .help = "reconnect when a READ takes longer; 0: 500ms"},
		{.name = "history",
		 .type = BASE_OPT_SIZE,
		 .to = &s.history_bytes,
		 .argument = "BYTES",
		 .help = "keep recent samples in so much memory; 0: none"},
		{.name = "history-time",
		 .type = BASE_OPT_DURATION,
		 .to = &s.c.history_ns,
		 .argument = "DURATION",
		 .help = "... and no longer than this; 0: as memory allows"},
		{.name = "stale",
		 .type = BASE_OPT_DURATION,
		 .to = &s.c.stale_ns,
		 .argument = "DURATION",
		 .help = "what was not read for so long leaves the exposition; 0: five periods, 2s "
			 "at least"},
		{.name = "max-regions",
		 .type = BASE_OPT_U32,
		 .to = &s.max_regions,
		 .argument = "N",
		 .help = "regions at most",
		 .min = 1},
		{.name = "max-series",
		 .type = BASE_OPT_U32,
		 .to = &s.max_series,
		 .argument = "N",
		 .help = "series at most",
		 .min = 1},
		{.name = "tcp-period",
		 .type = BASE_OPT_DURATION,
		 .to = &s.c.tcp_period_ns,
		 .argument = "DURATION",
		 .help = "read tables of connections once in so long",
		 .min = 1e7,
		 .max = 3.6e12},
		{.name = "tcp-groups",
		 .type = BASE_OPT_U32,
		 .to = &s.tcp_groups,
		 .argument = "N",
		 .help = "workloads with a role and a port, at most; the rest is \"other\"",
		 .min = 1,
		 .max = 1000000},
		{.name = "tcp-flows",
		 .type = BASE_OPT_U32,
		 .to = &s.tcp_flows,
		 .argument = "N",
		 .help = "connections at most, over all hosts; about 2 KiB each",
		 .min = 64,
		 .max = 1u << 24},
		{.name = "max-connections",
		 .type = BASE_OPT_U32,
		 .to = &s.connections,
		 .argument = "N",
		 .help = "HTTP connections at most",
		 .min = 1,
		 .max = 65536},
		{.name = "analyse",
		 .type = BASE_OPT_FLAG,
		 .to = &s.l.analyse,
		 .help = "find out which pods are not as they usually are"},
		{.name = "detector",
		 .type = BASE_OPT_STRING,
		 .to = &s.l.analysis.detector,
		 .argument = "NAME",
		 .help = "... by this one (default: combined)"},
		{.name = "shadow",
		 .type = BASE_OPT_STRING,
		 .to = &s.l.analysis.shadow,
		 .argument = "NAME",
		 .help = "... and try this one, which causes nothing"},
		{.name = "false-alarms",
		 .type = BASE_OPT_F64,
		 .to = &s.l.analysis.false_alarms,
		 .argument = "N",
		 .help = "an hour and pod that are fine",
		 .min = 1e-6,
		 .max = 1000},
		{.name = "warm-up",
		 .type = BASE_OPT_DURATION,
		 .to = &s.l.analysis.warm_up_ns,
		 .argument = "DURATION",
		 .help = "a new pod is only learned for so long"},
		{.name = "analyse-every",
		 .type = BASE_OPT_DURATION,
		 .to = &s.l.analysis.every_ns,
		 .argument = "DURATION",
		 .help = "look at each pod once in so long"},
		{.name = "analyse-step",
		 .type = BASE_OPT_DURATION,
		 .to = &s.l.analysis.step_ns,
		 .argument = "DURATION",
		 .help = "learn what is usual in steps of so long"},
		{.name = "model",
		 .type = BASE_OPT_STRING,
		 .to = &s.l.analysis.model,
		 .argument = "FILE",
		 .help = "start with what was learned before, and keep it there"},
		{.name = "model-every",
		 .type = BASE_OPT_DURATION,
		 .to = &s.l.analysis.model_every_ns,
		 .argument = "DURATION",
		 .help = "... written so often and at the end; 0: at the end only"},
		{.name = "record",
		 .type = BASE_OPT_STRING,
		 .to = &s.l.analysis.record,
		 .argument = "DIR",
		 .help = "write the rows that are analysed there, for sidelight replay"},
		{.name = "remote-write",
		 .type = BASE_OPT_STRING,
		 .to = &s.l.remote_write,
		 .argument = "URL",
		 .help = "send samples there by Prometheus' remote write"},
		{.name = "remote-native",
		 .type = BASE_OPT_FLAG,
		 .to = &s.l.native_histograms,
		 .help = "... which takes native histograms; else exponential ones go without buckets"},
		{.name = "sample-every",
		 .type = BASE_OPT_DURATION,
		 .to = &s.l.sample_every_ns,
		 .argument = "DURATION",
		 .help = "... one a series in so long, and all around anomalies; 0: all"},
		{.name = "sample-around",
		 .type = BASE_OPT_DURATION,
		 .to = &s.l.sample_around_ns,
		 .argument = "DURATION",
		 .help = "... so long before and after an anomaly"},
		{.name = "alert",
		 .type = BASE_OPT_STRING,
		 .to = &s.l.alert,
		 .argument = "URL",
		 .help = "tell an Alertmanager of anomalies: http://HOST:9093/api/v2/alerts"},
		{.name = "webhook",
		 .type = BASE_OPT_STRING,
		 .to = &s.l.webhook,
		 .argument = "URL",
		 .help = "POST a JSON object there when an anomaly begins, and when it ends"},
		{.name = "link",
		 .type = BASE_OPT_STRING,
		 .to = &s.l.link,
		 .argument = "URL",
		 .help = "... in which people find this page at URL"},
		{.name = "verdict-ttl",
		 .type = BASE_OPT_DURATION,
		 .to = &s.l.verdict_ttl_ns,
		 .argument = "DURATION",
		 .help = "tell pods what is thought of them, for so long; 0: tell them nothing",
		 .max = 3600e9},
		{.name = "sum-processes",
		 .type = BASE_OPT_FLAG,
		 .to = &s.c.sum_processes,
		 .help = "add up series that differ by process only"},
		{.name = "trace-budget",
		 .type = BASE_OPT_F64,
		 .to = &s.trace_budget,
		 .argument = "SHARE",
		 .help = "keep at most this share of traces; 0: read no traces",
		 .max = 1},
		{.name = "trace-slow",
		 .type = BASE_OPT_F64,
		 .to = &s.t.policy.slow_factor,
		 .argument = "FACTOR",
		 .help = "... those slower than so many medians of their root, and errors",
		 .min = 1,
		 .max = 1e6},
		{.name = "trace-head",
		 .type = BASE_OPT_F64,
		 .to = &s.t.policy.head,
		 .argument = "SHARE",
		 .help = "... and this share of traces whatever they are",
		 .max = 1},
		{.name = "trace-linger",
		 .type = BASE_OPT_DURATION,
		 .to = &s.t.linger_ns,
		 .argument = "DURATION",
		 .help = "wait so long for more spans of a kept trace before it is sent",
		 .min = 1e6,
		 .max = 86400e9},
		{.name = "otlp",
		 .type = BASE_OPT_STRING,
		 .to = &s.t.otlp,
		 .argument = "URL",
		 .help = "send kept traces there by OTLP/HTTP"},
		{.name = "otlp-sent",
		 .type = BASE_OPT_STRING,
		 .to = &s.t.otlp_sent,
		 .argument = "FILE",
		 .help = "... and none twice: which ones were sent is kept there"},
		{.name = "trace-memory",
		 .type = BASE_OPT_SIZE,
		 .to = &s.trace_memory,
		 .argument = "BYTES",
		 .help = "hold kept traces in so much memory, the newest ones"},
		{.name = "dta",
		 .type = BASE_OPT_STRING,
		 .to = &s.dta,
		 .argument = "FILE",
		 .help = "own the stores that this file declares, which translators fill"},
		{.name = "duration",
		 .letter = 'd',
		 .type = BASE_OPT_DURATION,
		 .to = &s.duration_ns,
		 .argument = "DURATION",
		 .help = "stop after so long; 0: when told to"},
		{.name = "stats-csv",
		 .type = BASE_OPT_STRING,
		 .to = &s.csv,
		 .argument = "FILE",
		 .help = "write each worker's scrapes, time and rate there, a row every 10s"},
		{.name = "json",
		 .type = BASE_OPT_FLAG,
		 .to = &s.as_json,
		 .help = "in modes setup and read_loop: print JSON"},
		{0},
	};
	static int cpus[WORKERS_MAX];
	char host[256];
	uint16_t port;
	int code;

	if (!base_options_only(self, table, argc, argv, &code))
		return code;
	if (strcmp(s.mode, "prometheus") && strcmp(s.mode, "read_loop") && strcmp(s.mode, "setup"))
		return base_usage(self, "--mode '%s' is none of prometheus, read_loop, setup",
				  s.mode);
	if (s.dta && strcmp(s.mode, "prometheus"))
		return base_usage(self, "--dta is for --mode prometheus");
	if (!s.agents.n && !s.dta)
		return base_usage(self, "no --agent: which host is to be read?");
	if (base_parse_address(s.listen, host, sizeof(host), &port))
		return base_usage(self, "--listen '%s' is no ADDR:PORT", s.listen);
	if (s.queues > s.workers)
		return base_usage(self, "--queues %u needs as many --workers, of which there %s %u",
				  s.queues, s.workers == 1 ? "is" : "are", s.workers);
	if ((s.c.fabric.device || s.gid != -1 || s.ib_port != 1) && !any_over_rdma(&s.agents))
		return base_usage(
			self, "--dev, --gid and --ib-port need an --agent over RDMA, HOST[:PORT]");
	if (s.as_json && !strcmp(s.mode, "prometheus"))
		return base_usage(self, "--json is for --mode setup and read_loop");
	if (s.c.period_ns && s.c.period_ns < 10000)
		return base_usage(self, "--period is 0 (as fast as it goes) or 10us at least");
	if (s.cpus && parse_cpus(s.cpus, cpus, WORKERS_MAX, &s.c.cpu_count))
		return base_usage(self, "--cpus '%s' is no list such as 0,2-5", s.cpus);
	if (s.history_bytes && s.history_bytes / s.workers < 1u << 20)
		return base_usage(self, "--history is 0 or 1M a worker at least");
	if (!s.l.analyse && (s.l.analysis.detector || s.l.analysis.shadow || s.l.analysis.model ||
			     s.l.analysis.record))
		return base_usage(self,
				  "--detector, --shadow, --model and --record need --analyse");
	if (s.l.verdict_ttl_ns && s.l.verdict_ttl_ns < 3000000000)
		return base_usage(self, "--verdict-ttl is 0 (tell pods nothing) or 3s at least");
	if (!s.l.analyse && (s.l.alert || s.l.webhook))
		return base_usage(self, "--alert and --webhook need --analyse");
	if (s.l.analysis.every_ns < 1000000 || s.l.analysis.step_ns < s.l.analysis.every_ns)
		return base_usage(self,
				  "--analyse-every is 1ms at least, and --analyse-step no less");
	if (s.l.analysis.model_every_ns && s.l.analysis.model_every_ns < 1000000000)
		return base_usage(self, "--model-every is 0 (at the end only) or 1s at least");
	if (s.t.otlp_sent && !s.t.otlp)
		return base_usage(self, "--otlp-sent needs --otlp");
	if (s.t.otlp && !(s.trace_budget > 0))
		return base_usage(self, "--otlp needs a --trace-budget");
	if (s.l.native_histograms && !s.l.remote_write)
		return base_usage(self, "--remote-native needs --remote-write");
	if (s.l.remote_write && !s.history_bytes)
		return base_usage(self,
				  "--remote-write needs --history, of which samples are taken");
	s.l.analysis.workers = s.workers;
	s.l.period_ns = s.c.period_ns;
	s.live = s.l.analyse || s.l.remote_write;
	s.t.policy.budget = s.trace_budget;
	s.t.memory = (size_t)s.trace_memory;
	s.c.agents = s.agents.v;
	s.c.agent_count = s.agents.n;
	s.c.workers = s.workers;
	s.c.queues = s.queues;
	s.c.pin = s.pin || s.cpus;
	s.c.cpus = cpus;
	s.c.history_bytes = (size_t)s.history_bytes;
	s.c.max_regions = s.max_regions;
	s.c.tcp_groups = s.tcp_groups;
	s.c.tcp_flows = s.tcp_flows;
	s.c.max_series = s.max_series;
	s.c.fabric.gid_index = s.gid;
	s.c.fabric.ib_port = s.ib_port;
	s.c.fabric.queue_depth = s.depth;
	s.c.fabric.buffer_bytes = (size_t)s.buffer_bytes;
	return run(&s);
}
