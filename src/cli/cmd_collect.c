// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_collect.c - sidelight collect: reads hosts and serves their metrics, or prints rates or its
 * hosts and regions.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/confine.h"
#include "base/passed.h"
#include "cli/collect.h"
#include "cli/commands.h"
#include "cli/collect-parts.h"
#include "collect/read/past.h"
#include "collect/read/realtime.h"
#include "collect/self/self.h"

#define PAST_SHARE 8u /* the buckets of histograms get 1/PAST_SHARE of the history's memory */

static struct cli_collect_settings set = {
	.h = {.listen = "127.0.0.1:9464",
	      .max_connections = 256,
	      .query_concurrency = 2,
	      .query_timeout_ns = 10000000000,
	      .query_samples = 50000000,
	      .protobuf = true}, /* for remote read */
	.mode = "prometheus",
	.realtime = "auto",
	.ephemeral = "32768-60999", /* Linux's default for net.ipv4.ip_local_port_range */
	.c = {.workers = 1,
	      .queues = 1,
	      .period_ns = 10000000,
	      .history_bytes = (size_t)256 << 20,
	      .max_regions = 65536,
	      .max_series = 4194304,
	      .fabric = {.gid_index = -1, .ib_port = 1}},
	.tables = {.period_ns = 1000000000, .groups = 512, .flows = 65536},
	.l = {.analysis = {.false_alarms = 1,
			   .warm_up_ns = 60000000000,
			   .every_ns = 100000000,
			   .step_ns = 1000000000,
			   .hold_ns = 21600000000000,
			   .model_every_ns = 300000000000},
	      .verdict_ttl_ns = 30000000000},
	.send = {.sample_every_ns = 30000000000, .sample_around_ns = 5000000000, .form.shards = 1},
	.remote = {.protocol = "auto", .queue_bytes = 256 << 20},
	.discover = {.every_ns = 5000000000, .replicas = 1},
	.max_hosts = 1024,
	.t = {.policy = {.budget = 0.15,
			 .slow_factor = 5,
			 .slow_floor_ns = 1000000,
			 .slow_spread = 2},
	      .bytes = 0.2,
	      .linger_ns = 1000000000,
	      .memory = 16u << 20},
};

static const struct base_option table[] = {
	BASE_LIST("agent", 'a', &set.agents, "PATH|HOST[:PORT]",
		  "read this host, specified by its RDMA address or by the socket of an agent on "
		  "this machine; repeatable"),
	BASE_LIST("discover", 0, &set.discover.sources, "SOURCE",
		  "read the hosts that this source lists: file:PATH, dns:NAME, "
		  "kube:NAMESPACE/SELECTOR:PORT or NAME,...; repeatable"),
	BASE_STRING(
		"shard", 0, &set.discover.shard, "SHARD",
		"read only the discovered hosts in shard I of N: I/N, auto/N (I ends "
		"the pod's or host's name) or file:PATH with either, read again at --discover-every"),
	BASE_UINT("replicas", 0, &set.discover.replicas, 1, COLLECT_REPLICAS_MAX, "N",
		  "with --shard, let this many shards read each host"),
	BASE_TIME("discover-every", 0, &set.discover.every_ns, 1e8, 3.6e12, "DURATION",
		  "query the sources at this interval"),
	BASE_UINT("max-hosts", 0, &set.max_hosts, 1, 65536, "N",
		  "with --discover, read at most this many hosts"),
	BASE_STRING("kube-api", 0, &set.discover.source.kube_api, "URL",
		    "query this Kubernetes API (default: the API of the pod's cluster)"),
	BASE_STRING("kube-account", 0, &set.discover.source.kube_account, "DIR",
		    "service account: a folder with token and ca.crt (default: the pod's)"),
	BASE_STRING("dns-server", 0, &set.discover.source.dns_server, "ADDRESS:PORT",
		    "ask this DNS server (default: those in resolv.conf)"),
	BASE_STRING(
		"listen", 'l', &set.h.listen, "ADDR:PORT",
		"serve HTTP on this address, or on unix:/PATH; port 0: any free port; any address "
		"but loopback requires --web-config with TLS and authentication, or --open"),
	CLI_OPTIONS_WEB(&set.h.web_config, &set.h.roles_file, &set.h.insecure),
	BASE_STRING("reader-token-file", 0, &set.h.reader_token_file, "PATH",
		    "require the bearer token in this file for reading"),
	BASE_STRING("actor-token-file", 0, &set.h.actor_token_file, "PATH",
		    "clients with the bearer token in this file may rotate stores and read"),
	BASE_STRING(
		"admin-token-file", 0, &set.h.admin_token_file, "PATH",
		"require the bearer token in this file for changes to stores (default: a random "
		"token, which commands of the same user find)"),
	BASE_FLAG("open", 0, &set.h.open,
		  "let anyone who can reach --listen read all metrics, including web pages open "
		  "in their browsers"),
	BASE_LIST("allow-host", 0, &set.allow_hosts, "NAME",
		  "accept this name in the Host header, in addition to localhost and addresses; "
		  "repeatable"),
	BASE_TIME("period", 'p', &set.c.period_ns, 0, 0, "DURATION",
		  "time from one round over all regions to the next; 0: as fast as possible"),
	BASE_STRING(
		"mode", 'm', &set.mode, "MODE",
		"prometheus: serve; read_loop: print rates; setup: print hosts and regions, and "
		"exit"),
	BASE_UINT("workers", 'w', &set.c.workers, 1, COLLECT_WORKERS_MAX, "N",
		  "number of reading threads"),
	BASE_STRING("realtime", 0, &set.realtime, "auto|off",
		    "auto: where allowed, workers run with real-time priority for at most a "
		    "third of a CPU each, so that busy CPUs do not delay them"),
	BASE_FLAG("pin", 0, &set.c.pin, "pin each worker to a CPU"),
	BASE_STRING("cpus", 0, &set.cpus, "LIST", "pin workers to these CPUs, such as 0,2-5"),
	BASE_UINT("queues", 'q', &set.c.queues, 1, COLLECT_WORKERS_MAX, "N",
		  "connections per host, at most one per worker"),
	CLI_PART_VERBS,
	BASE_STRING("dev", 0, &set.c.fabric.device, "DEVICE", "RDMA device (default: by route)"),
	CLI_OPTIONS_RDMA_PORT(&set.c.fabric.gid_index, &set.c.fabric.ib_port, "by route"),
	BASE_CORE,
	CLI_OPTION_RDMA_SECRET(&set.secret, "any host can impersonate the agent"),
	BASE_UINT("depth", 0, &set.c.fabric.queue_depth, 0, 4096, "N",
		  "outstanding READs per connection; 0: 128"),
	BASE_SIZE("buffer", 0, &set.c.fabric.buffer_bytes, 0, 0, "BYTES",
		  "memory per connection that READs write to; 0: 4M"),
	BASE_TIME("read-timeout", 0, &set.c.read_timeout_ns, 0, 0, "DURATION",
		  "reconnect when a READ takes longer; 0: 500ms"),
	BASE_SIZE("history", 0, &set.c.history_bytes, 0, 0, "BYTES",
		  "memory for recent samples; 0: no history"),
	BASE_TIME("history-time", 0, &set.c.history_ns, 0, 0, "DURATION",
		  "drop samples older than this from the history; 0: keep them as long as memory "
		  "allows"),
	BASE_TIME(
		"stale", 0, &set.c.stale_ns, 0, 0, "DURATION",
		"drop series that have not been read for this long; 0: five periods, at least 2s"),
	BASE_UINT("max-regions", 0, &set.c.max_regions, 1, UINT32_MAX, "N",
		  "read at most this many regions"),
	BASE_UINT("max-series", 0, &set.c.max_series, 1, UINT32_MAX, "N",
		  "hold at most this many series"),
	BASE_UINT(
		"max-exposed-series", 0, &set.c.max_exposed_series, 0, UINT32_MAX, "N",
		"expose at most this many pod series in /metrics, shared fairly by tenants; 0: all"),
	BASE_TIME("tcp-period", 0, &set.tables.period_ns, 1e7, 3.6e12, "DURATION",
		  "time from one read of the connection tables to the next"),
	BASE_UINT("tcp-groups", 0, &set.tables.groups, 1, 1000000, "N",
		  "distinguish at most this many workloads by role and port; count the rest as "
		  "\"other\""),
	BASE_STRING(
		"tcp-ephemeral", 0, &set.ephemeral, "LIST",
		"count these ports as \"other\", such as 32768-50050,50052-60999; none: no port"),
	BASE_UINT("tcp-flows", 0, &set.tables.flows, 64, 1u << 24, "N",
		  "track at most this many connections on all hosts, using 2 KiB each"),
	BASE_UINT("max-connections", 0, &set.h.max_connections, 1, 65536, "N",
		  "accept at most this many HTTP connections"),
	BASE_TIME("query-timeout", 0, &set.h.query_timeout_ns, 1e6, 3.6e12, "DURATION",
		  "refuse a query of the HTTP API that takes longer than this, including the time "
		  "it waits"),
	BASE_UINT("query-concurrency", 0, &set.h.query_concurrency, 1, 64, "N",
		  "run at most this many queries at a time; 20 more wait"),
	BASE_UINT("query-samples", 0, &set.h.query_samples, 1, 1e15, "N",
		  "refuse a query that touches more samples than this"),
	CLI_PART_ANALYSIS,
	BASE_FLAG("analyse", 0, &set.analyse, "detect anomalous pods"),
	BASE_STRING("detector", 0, &set.l.analysis.detector, "NAME",
		    "detect anomalies with this detector (default: combined)"),
	BASE_STRING("shadow", 0, &set.l.analysis.shadow, "NAME",
		    "also run this detector, without acting on its verdicts"),
	BASE_F64("false-alarms", 0, &set.l.analysis.false_alarms, 1e-6, 1000, "N",
		 "acceptable number of false alarms per pod and hour"),
	BASE_TIME("warm-up", 0, &set.l.analysis.warm_up_ns, 0, 0, "DURATION",
		  "learn a new pod for this long before judging it"),
	BASE_TIME("analyse-every", 0, &set.l.analysis.every_ns, 0, 0, "DURATION",
		  "time from one verdict on a pod to the next"),
	BASE_TIME("analyse-step", 0, &set.l.analysis.step_ns, 0, 0, "DURATION",
		  "length of a training sample"),
	BASE_TIME("analyse-hold", 0, &set.l.analysis.hold_ns, 60e9, 31536000e9, "DURATION",
		  "accept an anomaly that lasts longer than this as the new normal behaviour"),
	BASE_STRING("model", 0, &set.l.analysis.model, "FILE",
		    "load learned models from this file, and save them there"),
	BASE_TIME("model-every", 0, &set.l.analysis.model_every_ns, 0, 0, "DURATION",
		  "save models at this interval and on exit; 0: only on exit"),
	BASE_STRING("record", 0, &set.l.analysis.record, "DIR",
		    "write analysed rows to this directory, for sidelight replay"),
	CLI_PART_REMOTE_WRITE,
	BASE_LIST(
		"remote-write", 0, &set.remote.urls, "URL",
		"send samples to this URL by Prometheus remote write; repeatable: the N-th "
		"--remote-write-config, --remote-queue and --remote-relabel are for the N-th URL; an "
		"empty one means none"),
	BASE_LIST("remote-write-config", 0, &set.remote.configs, "FILE",
		  "connect to --remote-write" CLI_CLIENT_FILE),
	BASE_LIST("remote-relabel", 0, &set.remote.relabels, "FILE",
		  "select and relabel series as in this file, a list in the form of "
		  "Prometheus' write_relabel_configs"),
	BASE_STRING("remote-protocol", 0, &set.remote.protocol, "VERSION",
		    "send this version of remote write: 1.0, 2.0 or auto, which is 2.0 if the "
		    "receiver supports it"),
	BASE_LIST("remote-label", 0, &set.remote.labels, "NAME=VALUE",
		  "add this label to every series sent by remote write; repeatable"),
	BASE_LIST("remote-queue", 0, &set.remote.queues, "FILE",
		  "queue the data of remote write in this file until it is sent"),
	BASE_SIZE("remote-queue-size", 0, &set.remote.queue_bytes, EXPORT_SPOOL_MIN, 1e15, "BYTES",
		  "size of a new --remote-queue; when it is full, the oldest samples are dropped"),
	BASE_UINT("remote-shards", 0, &set.send.form.shards, 1, COLLECT_SEND_SHARDS, "N",
		  "connections to each receiver of remote write, among which the pods are divided"),
	BASE_FLAG("remote-native", 0, &set.send.form.native,
		  "send native histograms by remote write; otherwise exponential histograms lose "
		  "their buckets"),
	BASE_FLAG("remote-utf8", 0, &set.send.form.utf8,
		  "send UTF-8 names by remote write unchanged; otherwise they are escaped"),
	BASE_TIME("sample-every", 0, &set.send.sample_every_ns, 0, 0, "DURATION",
		  "send one sample per series and interval by remote write, but all samples around "
		  "anomalies; 0: all"),
	BASE_TIME("sample-around", 0, &set.send.sample_around_ns, 0, 0, "DURATION",
		  "send all samples this long before and after an anomaly"),
	CLI_PART_ANALYSIS,
	BASE_STRING("alert", 0, &set.l.alert, "URL",
		    "send incidents to an Alertmanager: http://HOST:9093/api/v2/alerts"),
	CLI_OPTION_CLIENT("alert-config", &set.l.alert_config, "--alert"),
	BASE_STRING("webhook", 0, &set.l.webhook, "URL",
		    "POST a JSON object to URL when an incident begins and when it ends"),
	CLI_OPTION_CLIENT("webhook-config", &set.l.webhook_config, "--webhook"),
	BASE_STRING("link", 0, &set.l.link, "URL",
		    "address of this collector's page, for links in alerts"),
	BASE_TIME("verdict-ttl", 0, &set.l.verdict_ttl_ns, 0, 3600e9, "DURATION",
		  "write verdicts back to pods, valid for this long; 0: do not write any"),
	CLI_PART_KAFKA,
	BASE_STRING("kafka-config", 0, &set.kafka, "FILE",
		    "send incidents, kept traces and list items to Kafka, with the librdkafka "
		    "properties in this file"),
	BASE_STRING(
		"kafka-offsets", 0, &set.kafka_offsets, "FILE",
		"record in this file which list items Kafka has received, and resume from there "
		"after a restart"),
	BASE_STRING("kafka-flows", 0, &set.kafka_flows, "FORMAT",
		    "send flows to Kafka as goflow2 (default) or json messages"),
	BASE_STRING("ipfix", 0, &set.ipfix, "HOST:PORT", "send flows as IPFIX to this collector"),
	BASE_CORE,
	BASE_FLAG("created", 0, &set.c.created,
		  "add the start time of each series (\"_created\") to OpenMetrics"),
	BASE_FLAG("region-series", 0, &set.c.region_series,
		  "expose sidelight_region_* for each region"),
	BASE_FLAG("sum-processes", 0, &set.c.sum_processes,
		  "add up series that differ only by process"),
	CLI_PART_ANALYSIS,
	BASE_F64("trace-budget", 0, &set.t.policy.budget, 0, 1, "SHARE",
		 "keep at most this share of traces; 0: read no traces"),
	BASE_F64("trace-slow", 0, &set.t.policy.slow_factor, 1, 1e6, "FACTOR",
		 "keep traces slower than FACTOR times the median of their root span, and errors"),
	BASE_TIME("trace-slow-floor", 0, &set.t.policy.slow_floor_ns, 0, 0, "DURATION",
		  "traces shorter than this are never slow; 0: no minimum"),
	BASE_F64("trace-slow-spread", 0, &set.t.policy.slow_spread, 0, 1e6, "FACTOR",
		 "a trace is slow only if it exceeds the median by at least FACTOR times as much "
		 "as the 90th percentile does; 0: no minimum"),
	BASE_F64("trace-bytes", 0, &set.t.bytes, 0, 1, "SHARE",
		 "read at most this share of the bytes of published spans; 0: no limit"),
	BASE_F64("trace-head", 0, &set.t.policy.head, 0, 1, "SHARE",
		 "keep this share of traces at random"),
	BASE_TIME("trace-linger", 0, &set.t.linger_ns, 1e6, 86400e9, "DURATION",
		  "wait this long for further spans of a kept trace before sending it"),
	BASE_STRING("otlp", 0, &set.t.otlp, "URL", "send kept traces to this URL by OTLP/HTTP"),
	CLI_OPTION_CLIENT("otlp-config", &set.t.otlp_config, "--otlp"),
	BASE_STRING("otlp-sent", 0, &set.t.otlp_sent, "FILE",
		    "record sent traces in this file, so that none is sent twice after a restart"),
	BASE_SIZE("trace-memory", 0, &set.t.memory, 0, 0, "BYTES",
		  "memory for kept traces; the oldest are dropped first"),
	CLI_PART_LEVELS,
	BASE_LIST(
		"publish", 0, &set.publish, "SELECTOR",
		"publish these series for the collector of the next level: NAME{LABEL=\"VALUE\"}, "
		"or sum by (LABEL) (NAME{...}); repeatable"),
	BASE_STRING("publish-socket", 0, &set.publish_socket, "PATH",
		    "publish them to the agent with this socket (default $SIDELIGHT_SOCKET, or "
		    "/run/sidelight/agent.sock)"),
	CLI_PART_DTA,
	BASE_STRING("dta", 0, &set.dta, "FILE",
		    "provide translators with the stores that this file declares"),
	BASE_SIZE("max-store-bytes", 0, &set.store_bytes, 0, 0, "BYTES",
		  "limit the total size of stores when they are resized; 0: half of the machine's "
		  "memory"),
	BASE_CORE,
	BASE_TIME("duration", 'd', &set.duration_ns, 0, 0, "DURATION",
		  "exit after this time; 0: when interrupted"),
	BASE_STRING("stats-csv", 0, &set.csv, "FILE",
		    "write rounds, time and rate of each worker to this file every 10s"),
	BASE_FLAG("json", 0, &set.as_json, "print JSON in modes setup and read_loop"),
	CLI_OPTION_UNCONFINED(&set.unconfined),
	{0},
};

/* ---- parts ---- */

#define CLI_COLLECT_PART(name) extern const struct cli_collect_part cli_collect_part_##name;
CLI_COLLECT_PARTS
#undef CLI_COLLECT_PART

#define CLI_COLLECT_PART(name) &cli_collect_part_##name,
const struct cli_collect_part *const cli_collect_parts[] = {CLI_COLLECT_PARTS NULL};
#undef CLI_COLLECT_PART

void cli_collect_path(struct base_confine_opts *c, const char *path)
{
	size_t at = 0;

	if (!path)
		return;
	while (at < BASE_CONFINE_PATHS && c->paths[at])
		at++;
	if (at < BASE_CONFINE_PATHS)
		c->paths[at] = path;
	else
		c->any_path = true; /* more files than entries in paths */
}

/* Calls the given function in each part that has it, until one fails. Evaluates to its result. */
#define EACH_PART(function, ...)                                                          \
	({                                                                                \
		int code_ = BASE_EXIT_OK;                                                 \
		for (size_t i_ = 0; cli_collect_parts[i_] && code_ == BASE_EXIT_OK; i_++) \
			if (cli_collect_parts[i_]->function)                              \
				code_ = cli_collect_parts[i_]->function(__VA_ARGS__);     \
		code_;                                                                    \
	})

static int make_collector(struct cli_collect_run *r)
{
	struct cli_collect_settings *s = r->set;
	size_t past_bytes = s->serves ? s->c.history_bytes / PAST_SHARE : 0;
	char error[256];
	int err;

	s->c.history_bytes -= past_bytes;
	r->c = collect_collector_new(&s->c, error, sizeof(error));
	if (!r->c) {
		err = errno; /* EINVAL means a malformed target */
		base_logf(BASE_ERROR, "collect", "%s", error);
		return err == EINVAL ? BASE_EXIT_USAGE : BASE_EXIT_FAILURE;
	}
	err = collect_tables_attach(r->c, &s->tables);
	if (err)
		return CLI_FAIL("collect", "kernel tables: %s", strerror(-err));
	r->past = past_bytes ? collect_past_new(r->c, past_bytes) : NULL;
	if (past_bytes && !r->past)
		return CLI_FAIL("collect", "cannot allocate the history of histogram buckets: %s",
				strerror(errno));
	return BASE_EXIT_OK;
}

/*
 * Creates the collector and its parts. If this fails, prints an error and returns an exit code.
 * Call free_run() in either case.
 */
static int make_run(struct cli_collect_run *r)
{
	char error[256];
	int code = EACH_PART(before, r);

	code = code ?: make_collector(r);
	code = code ?: EACH_PART(attach, r);
	code = code ?: collect_self_helpers(r->c);
	code = code ?: collect_receivers_attach(&r->receivers, r->c);
	if (code)
		return code < 0 ? CLI_FAIL("collect", "own series: %s", strerror(-code)) : code;
	if (r->set->serves && !cli_collect_serve(r))
		return BASE_EXIT_FAILURE;
	if (base_passed_rest(error, sizeof(error)))
		return CLI_FAIL("collect", "%s", error);
	return BASE_EXIT_OK;
}

/*
 * Starts the threads, which connect to hosts. With RDMA, call only after the change of credentials
 * (agent.h).
 */
static int start_run(struct cli_collect_run *r)
{
	int code = EACH_PART(start, r);

	code = code ?: collect_collector_start(r->c);
	code = code ?: EACH_PART(follow, r);
	return code < 0 ? CLI_FAIL("collect", "threads: %s", strerror(-code)) : code;
}

static void free_run(struct cli_collect_run *r)
{
	size_t n = 0;

	while (cli_collect_parts[n])
		n++;
	cli_collect_serve_end(&r->server);
	for (size_t i = n; i-- > 0;)
		if (cli_collect_parts[i]->stop)
			cli_collect_parts[i]->stop(r);
	if (r->c)
		collect_collector_free(r->c);
	collect_past_free(r->past);
	for (size_t i = n; i-- > 0;)
		if (cli_collect_parts[i]->free)
			cli_collect_parts[i]->free(r);
}

/* Prints the ready line, initially and whenever the number of reached hosts changes. */
static void say_ready(struct cli_collect_run *p)
{
	const struct http *h = p->server.http;
	const char *dta = p->dta_address;
	struct collect_collector_totals t;

	collect_collector_totals(p->c, &t);
	if (p->set->as_json || p->ready == t.hosts_up + 1)
		return;
	p->ready = t.hosts_up + 1;
	base_ready("%s%s%sagents=%" PRIu64 "/%" PRIu64 "%s%s", h ? "listen=" : "",
		   h ? http_address(h) : "", h ? " " : "", t.hosts_up, t.hosts, dta ? " dta=" : "",
		   dta ? dta : "");
}

static void every_second(struct cli_collect_run *p)
{
	say_ready(p);
	base_children_check();
	if (p->alive_ns && base_now_ns() - p->alive_at >= p->alive_ns &&
	    collect_collector_turned(p->c)) {
		base_alive();
		p->alive_at = base_now_ns();
	}
}

static bool any_agent(bool (*is)(const char *target))
{
	if (set.discover.sources.n)
		return true; /* discovered hosts are not known in advance */
	for (size_t i = 0; i < set.agents.n; i++)
		if (is(set.agents.v[i]))
			return true;
	return false;
}

/* Drops privileges that are no longer needed. */
static int confine_collector(const struct cli_collect_settings *s)
{
	struct http_files files = {0};
	struct base_confine_opts c = {
		.role = BASE_ROLE_COLLECTOR,
		.capabilities = (s->dta || any_agent(fabric_is_verbs) ? BASE_CAP(IPC_LOCK) : 0) |
				(s->c.realtime && !collect_realtime_permit() ? BASE_CAP(SYS_NICE)
									     : 0),
		.paths = {s->csv},
	};
	int code;

	http_web_files(&files, s->h.web_config, s->h.roles_file);
	for (size_t i = 0; cli_collect_parts[i]; i++)
		if (cli_collect_parts[i]->paths)
			cli_collect_parts[i]->paths(s, &c, &files);
	http_files_allow(&files, &c);
	code = cli_confine("collect", &c);
	http_files_free(&files);
	return code;
}

static int run_collector(struct cli_collect_run *r)
{
	struct cli_collect_settings *s = r->set;
	int reload = s->dta ? base_reload_fd() : -1, stop = base_stop_fd(), code;

	r->reload = reload;
	if (stop < 0 || (s->dta && reload < 0))
		code = CLI_FAIL("collect", "signals: %s", strerror(stop < 0 ? -stop : -reload));
	else
		code = make_run(r);
	if (code == BASE_EXIT_OK && !s->secret && any_agent(fabric_is_far))
		base_logf(BASE_WARN, "collect",
			  "agents on other hosts are not authenticated: use --rdma-secret");
	if (code == BASE_EXIT_OK && !s->unconfined)
		code = confine_collector(s);
	if (code == BASE_EXIT_OK)
		code = start_run(r);
	if (code == BASE_EXIT_OK && !strcmp(s->mode, "setup")) {
		code = cli_collect_setup(r, stop);
	} else if (code == BASE_EXIT_OK &&
		   /* so that the first scrape is complete */
		   cli_collect_wait(r->c, stop, base_now_ns() + COLLECT_SETUP_NS, false)) {
		say_ready(r);
		code = cli_collect_until(r, stop, every_second);
	}
	free_run(r);
	if (r->unsaved || base_children_failed())
		code = BASE_EXIT_FAILURE;
	if (stop >= 0)
		close(stop);
	if (reload >= 0)
		close(reload);
	return code;
}

/*
 * Forks all helpers that start processes, before there are secrets, threads and open descriptors.
 */
static int run_apart(const struct base_command *self, struct cli_collect_settings *s)
{
	struct fabric_opts *f = &s->c.fabric;
	struct cli_collect_run r = {.set = s, .reload = -1, .alive_ns = base_alive_ns()};
	int code;

	if (s->serves) {
		/* Keep running if the reader of the log or of the ready lines exits. */
		signal(SIGPIPE, SIG_IGN);
		s->h.front = http_front_fork(s->unconfined);
		if (!s->h.front)
			return base_failure(self, "cannot start a process: %s", strerror(errno));
	}
	code = EACH_PART(fork, &r);
	code = code
		       ?: cli_shared_secret(self, "rdma-secret", s->secret, &f->secret,
					    &f->secret_bytes);
	code = code ?: run_collector(&r);
	http_front_end(s->h.front);
	return code;
}

/* Options */

/* A range in a list such as "0,2-5". */
struct collect_range {
	unsigned long first, last;
};

/*
 * Parses the next range in a list such as 0,2-5, whose numbers must be below limit. Returns 1, 0 at
 * the end, or -EINVAL.
 */
static int next_range(const char **s, unsigned long limit, struct collect_range *r)
{
	char *end;

	if (!*s)
		return 0;
	if (!isdigit((unsigned char)**s))
		return -EINVAL;
	r->first = r->last = strtoul(*s, &end, 10);
	if (*end == '-' && isdigit((unsigned char)end[1]))
		r->last = strtoul(end + 1, &end, 10);
	*s = *end ? end + 1 : NULL;
	return r->last < r->first || r->last >= limit || (*end && *end != ',') ? -EINVAL : 1;
}

static int parse_cpus(const char *s, int *cpus, size_t max, size_t *count)
{
	struct collect_range r;
	int more;

	*count = 0;
	while ((more = next_range(&s, CPU_SETSIZE, &r)) > 0)
		for (; r.first <= r.last && *count < max; r.first++)
			cpus[(*count)++] = (int)r.first;
	return more;
}

static int parse_ports(const char *s, uint8_t bits[8192])
{
	struct collect_range r;
	int more;

	while ((more = next_range(&s, 65536, &r)) > 0)
		for (; r.first <= r.last; r.first++)
			bits[r.first / 8] |= (uint8_t)(1u << r.first % 8);
	return more;
}

static int check_options(const struct base_command *self, const struct cli_collect_settings *s)
{
	const struct fabric_opts *f = &s->c.fabric;

	if (!s->serves && strcmp(s->mode, "read_loop") && strcmp(s->mode, "setup"))
		return base_usage(self, "--mode '%s' is not one of prometheus, read_loop, setup",
				  s->mode);
	if (!s->agents.n && !s->dta && !s->discover.sources.n)
		return base_usage(self, "there are no hosts to read: use --agent or --discover");
	if (s->c.queues > s->c.workers)
		return base_usage(self, "--queues %u requires the same number of --workers, not %u",
				  s->c.queues, s->c.workers);
	if ((f->device || f->gid_index != -1 || f->ib_port != 1) && !any_agent(fabric_is_verbs))
		return base_usage(self, "--dev, --gid and --ib-port require an --agent over RDMA, "
					"that is, HOST[:PORT]");
	if (s->secret && !any_agent(fabric_is_far))
		return base_usage(self, "--rdma-secret requires an --agent on another host: "
					"HOST[:PORT] or tcp://HOST[:PORT]");
	if (s->as_json && s->serves)
		return base_usage(self, "--json needs --mode setup or read_loop");
	if (s->c.period_ns && s->c.period_ns < 10000)
		return base_usage(self,
				  "--period must be 0 (as fast as possible) or at least 10us");
	if (s->c.history_bytes && s->c.history_bytes / s->c.workers < 1u << 20)
		return base_usage(self, "--history must be 0 or at least 1M per worker");
	if (s->c.max_exposed_series && s->c.sum_processes)
		return base_usage(self,
				  "--max-exposed-series and --sum-processes are mutually "
				  "exclusive: a sum would decrease when one of its processes is "
				  "left out");
	return cli_collect_http_check(self, &s->h);
}

static int collect_main(const struct base_command *self, int argc, char **argv)
{
	static int cpus[COLLECT_WORKERS_MAX];
	static uint8_t folded[8192];
	int code;

	if (!base_options_only(self, table, argc, argv, &code))
		return code;
	set.serves = !strcmp(set.mode, "prometheus");
	code = check_options(self, &set);
	if (code)
		return code;
	set.c.realtime = !strcmp(set.realtime, "auto");
	if (!set.c.realtime && strcmp(set.realtime, "off"))
		return base_usage(self, "--realtime must be auto or off, not '%s'", set.realtime);
	/* In this mode nothing is read, so nothing can be late. */
	set.c.realtime &= strcmp(set.mode, "setup") != 0;
	if (set.cpus && parse_cpus(set.cpus, cpus, COLLECT_WORKERS_MAX, &set.c.cpu_count))
		return base_usage(self, "--cpus '%s' is not a list such as 0,2-5", set.cpus);
	if (strcmp(set.ephemeral, "none") && parse_ports(set.ephemeral, folded))
		return base_usage(self,
				  "--tcp-ephemeral must be a list of ports such as "
				  "32768-50050,50052-60999, or none, not '%s'",
				  set.ephemeral);
	set.tables.folded = folded;
	code = EACH_PART(check, self, &set);
	if (code)
		return code;
	set.c.agents = set.agents.v;
	set.c.agent_count = set.agents.n;
	set.c.pin |= set.cpus != NULL;
	set.c.cpus = cpus;
	return run_apart(self, &set);
}

const struct base_command cli_cmd_collect = {
	.name = "collect",
	.synopsis = "--agent TARGET [OPTION]...\n       sidelight collect --dta FILE [OPTION]...",
	.summary = CLI_SUMMARY_COLLECT,
	.run = collect_main,
};
