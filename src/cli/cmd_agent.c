// SPDX-License-Identifier: Apache-2.0
/* cmd_agent.c - sidelight agent: runs the agent, or prints the status of a running agent. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <sidelight/attach.h>

#include <linux/capability.h>

#include "agent/agent.h"
#include "base/child.h"
#include "base/confine.h"
#include "base/json_read.h"
#include "cli/bridge_options.h"
#include "cli/commands.h"
#include "cli/common/common.h"
#include "fabric/host.h"
#include "http/files.h"
#include "http/http.h"
#include "cli/tcp/filter.h"

#define RDMA_PORT	7475u
#define RDMA_QUEUES	64u
#define RDMA_SETTLE_NS	2000000000ull
#define KEY_LIFETIME_NS 3600000000000ull

/* Returns the first option that has no effect without --rdma (and --fabric), or NULL. */
static const char *rdma_for_nothing(const struct agent_opts *o, const char *secret)
{
	const char *device = o->fabric.address		   ? "--rdma-address"
			     : o->fabric.port != RDMA_PORT ? "--rdma-port"
			     : o->fabric.gid_index != -1   ? "--gid"
			     : o->fabric.ib_port != 1	   ? "--ib-port"
							   : NULL;

	return o->fabric.device				    ? NULL
	       : device					    ? device
	       : o->fabric.tcp				    ? NULL
	       : o->fabric.max_queues != RDMA_QUEUES	    ? "--queues"
	       : o->rdma_settle_ns != RDMA_SETTLE_NS	    ? "--rdma-settle"
	       : secret					    ? "--rdma-secret"
	       : o->rdma_key_lifetime_ns != KEY_LIFETIME_NS ? "--rdma-key-lifetime"
							    : NULL;
}

/* Status (--status) */

/* Formats a member that is a size in bytes. */
static const char *size_text(const json_t *o, const char *key, char out[32])
{
	double v = (double)cli_json_integer(o, key);
	int u = -1;

	for (; v >= 1024 && u < 3; u++)
		v /= 1024;
	if (u < 0)
		snprintf(out, 32, "%.0f", v);
	else
		snprintf(out, 32, "%.*f%c", v < 10 ? 1 : 0, v, "KMGT"[u]);
	return out;
}

/* Formats the time since a member that is a timestamp. */
static const char *age_text(const json_t *o, const char *key, char out[32])
{
	json_int_t s = ((json_int_t)base_realtime_ns() - cli_json_integer(o, key)) / 1000000000;

	if (s < 120)
		snprintf(out, 32, "%llds", s < 0 ? 0 : s);
	else if (s < 7200)
		snprintf(out, 32, "%lldm", s / 60);
	else if (s < 172800)
		snprintf(out, 32, "%lldh", s / 3600);
	else
		snprintf(out, 32, "%lldd", s / 86400);
	return out;
}

static void print_counts(const char *title, const json_t *counts)
{
	const char *key;
	json_t *v;
	bool any = false;

	json_object_foreach((json_t *)counts, key, v)
	{
		if (!json_integer_value(v))
			continue;
		printf("%s %s=%lld", any ? "" : title, key, json_integer_value(v));
		any = true;
	}
	if (any)
		putchar('\n');
}

static void print_status(const json_t *j)
{
	const json_t *use = json_object_get(j, "use"), *n = json_object_get(j, "counters");
	const json_t *regions = json_object_get(use, "regions");
	const json_t *memory = json_object_get(use, "memory"), *r;
	char a[32], b[32];
	size_t i;

	printf("agent %s on %s, pid %lld, up %s\n", cli_json_text(j, "version"),
	       cli_json_text(j, "host"), cli_json_integer(j, "pid"), age_text(j, "started_ns", a));
	printf("socket %s", cli_json_text(j, "socket"));
	if (*cli_json_text(j, "rest"))
		printf("  rest %s", cli_json_text(j, "rest"));
	if (*cli_json_text(j, "rdma"))
		printf("  rdma %s", cli_json_text(j, "rdma"));
	printf("\nregions %lld of %lld (%lld live)  memory %s of %s  connections %lld  consumers "
	       "%lld\n",
	       cli_json_integer(regions, "used"), cli_json_integer(regions, "max"),
	       cli_json_integer(use, "live"), size_text(memory, "used", a),
	       size_text(memory, "max", b),
	       cli_json_integer(json_object_get(use, "connections"), "used"),
	       cli_json_integer(use, "consumers"));
	printf("admitted %lld  reattached %lld  dead %lld  closed %lld  expired %lld\n",
	       cli_json_integer(n, "admitted"), cli_json_integer(n, "reattached"),
	       cli_json_integer(n, "dead"), cli_json_integer(n, "closed"),
	       cli_json_integer(n, "expired"));
	print_counts("refused:", json_object_get(n, "refused"));
	print_counts("dropped:", json_object_get(n, "dropped"));
	if (!json_array_size(json_object_get(j, "regions")))
		return;
	printf("\n%6s  %-8s %5s %8s %7s  %-24s %s\n", "ID", "STATE", "SINCE", "BYTES", "PID",
	       "SERVICE", "POD");
	json_array_foreach(json_object_get(j, "regions"), i, r)
	{
		const json_t *labels = json_object_get(r, "labels");

		printf("%6lld  %-8s %5s %8s %7lld  ", cli_json_integer(r, "id"),
		       cli_json_text(r, "state"), age_text(r, "changed_ns", a),
		       size_text(r, "bytes", b), cli_json_integer(r, "pid"));
		cli_print_safe(cli_json_text(labels, "service"), 24);
		putchar(' ');
		cli_print_safe(cli_json_text(labels, "pod"), 0);
		putchar('\n');
	}
}

static const char *socket_of(const char *socket)
{
	if (!socket || !*socket)
		socket = getenv(SL_SOCKET_ENV);
	return socket && *socket ? socket : SL_SOCKET_DEFAULT;
}

static int show_status(const char *socket, bool as_json)
{
	char error[256], path[32], *answer;
	size_t bytes;
	json_t *j;
	int sock, fd;

	socket = socket_of(socket);
	sock = cli_agent_connect(socket);
	if (sock < 0)
		return CLI_FAIL("agent", "no agent answers on %s: %s", socket, strerror(errno));
	fd = cli_agent_ask(sock, SL_MSG_STATUS, NULL, 0, SL_MSG_STATUS_IS, error, sizeof(error));
	close(sock);
	if (fd < 0)
		return CLI_FAIL("agent", "%s: %s", socket, error);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	answer = base_read_file(path, 1u << 30, &bytes);
	close(fd);
	if (!answer)
		return CLI_FAIL("agent", "%s: %s", socket, strerror(errno));
	j = base_json_read(answer, bytes, NULL);
	free(answer);
	if (!j)
		return CLI_FAIL("agent", "%s: the agent's response is not valid JSON", socket);
	if (!as_json)
		print_status(j);
	else
		cli_json_print(stdout, json_incref(j), JSON_INDENT(2));
	json_decref(j);
	return cli_output_end(&cli_cmd_agent, BASE_EXIT_OK);
}

/* Serving */

/* Drops privileges. Registering memory beyond the limit of locked memory requires a capability. */
static int confine_agent(const struct agent_opts *o, struct agent *a)
{
	struct http_files files = {0};
	struct base_confine_opts c = {
		.role = BASE_ROLE_AGENT,
		.capabilities = o->fabric.device ? BASE_CAP(IPC_LOCK) : 0,
		.paths = {agent_socket(a), o->publish_socket},
	};
	int code;

	http_web_files(&files, o->web_config, o->roles_file);
	http_files_allow(&files, &c);
	code = cli_confine("agent", &c);
	http_files_free(&files);
	return code;
}

static int run_agent(struct agent_opts *o)
{
	struct agent *a;
	char error[256];
	int stop = base_stop_fd(), err, code = BASE_EXIT_OK;

	o->children_fd = base_children_fd();
	if (stop < 0 || o->children_fd < 0)
		return CLI_FAIL("agent", "signals: %s",
				strerror(stop < 0 ? -stop : -o->children_fd));
	a = agent_new(o, error, sizeof(error));
	if (!a) {
		close(stop);
		return CLI_FAIL("agent", "%s", error);
	}
	if (!o->unconfined)
		code = confine_agent(o, a);
	if (code == BASE_EXIT_OK && agent_rdma_start(a, error, sizeof(error)))
		code = CLI_FAIL("agent", "%s", error);
	if (code != BASE_EXIT_OK) {
		agent_free(a);
		close(stop);
		return code;
	}
	base_ready("socket=%s%s%s%s%s", agent_socket(a), agent_rest(a) ? " rest=" : "",
		   agent_rest(a) ?: "",
		   !agent_rdma(a)  ? ""
		   : o->fabric.tcp ? " fabric="
				   : " rdma=",
		   agent_rdma(a) ?: "");
	err = agent_run(a, stop);
	if (err)
		code = CLI_FAIL("agent", "loop: %s", strerror(-err));
	if (base_children_failed())
		code = BASE_EXIT_FAILURE;
	agent_free(a);
	close(stop);
	close(o->children_fd);
	return code;
}

/* Options */

static struct {
	struct agent_opts o;
	const char *mode, *consume_mode, *rest, *secret, *fabric;
	bool status, as_json, no_rest;
	struct base_strings uids, origins;
	struct bridge_opts bridge;
} set = {.o = {.grace_ns = 30000000000ull,
	       .lease_ns = 1000000000ull,
	       .max_regions = 4096,
	       .max_region_size = 16u << 20,
	       .max_memory = 1u << 30,
	       .rest_idle_ns = 300000000000ull,
	       .fabric = {.port = RDMA_PORT,
			  .gid_index = -1,
			  .ib_port = 1,
			  .max_queues = RDMA_QUEUES},
	       .rdma_settle_ns = RDMA_SETTLE_NS,
	       .rdma_key_lifetime_ns = KEY_LIFETIME_NS},
	 .mode = "0666",
	 .bridge = {.interval_ns = 15000000000ull,
		    .host_interval_ns = 100000000ull,
		    .scale = BRIDGE_SCALE,
		    .expire_ns = 3600000000000ull}};

static const struct base_option table[] = {
	BASE_STRING("socket", 0, &set.o.socket, "PATH",
		    "Unix socket for publishers, to mount into pods (default $SIDELIGHT_SOCKET, or "
		    "/run/sidelight/agent.sock)"),
	BASE_STRING("socket-mode", 0, &set.mode, "OCTAL", "permissions of that socket"),
	BASE_STRING("publish-socket", 0, &set.o.publish_socket, "PATH",
		    "additional socket for publishers, in another folder"),
	BASE_STRING("consume-socket", 0, &set.o.consume_socket, "PATH",
		    "Unix socket for local collectors and --status (default: the name of --socket "
		    "followed by .consume, where they look for it)"),
	BASE_STRING("consume-mode", 0, &set.consume_mode, "OCTAL",
		    "permissions of --consume-socket (default 0600; 0666 with --consumer-uid)"),
	BASE_LIST("consumer-uid", 0, &set.uids, "UID",
		  "let this user read regions and status, in addition to root and the agent's own "
		  "user; repeatable"),
	BASE_LIST(
		"origin-uid", 0, &set.origins, "UID",
		"let this user publish series with the identity of other publishers, as 'sidelight "
		"collect --publish' does; repeatable"),
	BASE_STRING("hostname", 0, &set.o.host, "NAME",
		    "name of this host for collectors (default: its host name)"),
	BASE_TIME("grace", 0, &set.o.grace_ns, 0, 0, "DURATION",
		  "keep the last values of a dead publisher for this long"),
	BASE_TIME("lease", 0, &set.o.lease_ns, 0, 0, "DURATION",
		  "longest time between two reads of the directory by a collector; memory is freed "
		  "two leases after its region is retired"),
	BASE_UINT("max-regions", 0, &set.o.max_regions, 1, 1 << 20, "N",
		  "admit at most this many regions"),
	BASE_SIZE("max-region-size", 0, &set.o.max_region_size, 0, 0, "BYTES",
		  "admit regions of at most this size"),
	BASE_SIZE("max-memory", 0, &set.o.max_memory, 0, 0, "BYTES",
		  "limit the total size of admitted regions"),
	BASE_UINT("max-regions-per-uid", 0, &set.o.max_regions_per_uid, 0, 1 << 20, "N",
		  "admit at most this many regions per tenant; 0: its share of --max-regions"),
	BASE_STRING("rest", 0, &set.rest, "unix:PATH|ADDR:PORT",
		    "serve REST on this socket, or on this address for clients with the token; "
		    "ADDR defaults to loopback (default: " AGENT_REST_DEFAULT " in the folder of "
		    "the socket)"),
	BASE_FLAG("no-rest", 0, &set.no_rest, "do not serve REST"),
	BASE_STRING("rest-token-file", 0, &set.o.rest_token_file, "PATH",
		    "clients with the bearer token in this file act as the agent's user; required "
		    "for --rest ADDR:PORT"),
	CLI_OPTIONS_WEB(&set.o.web_config, &set.o.roles_file, &set.o.insecure),
	BASE_TIME("rest-idle", 0, &set.o.rest_idle_ns, 0, 0, "DURATION",
		  "close the region of a REST client that posts nothing for this long"),
	CLI_PART_VERBS,
	BASE_STRING("rdma", 0, &set.o.fabric.device, "DEVICE",
		    "register regions with this device, for remote reading"),
	BASE_STRING("rdma-address", 0, &set.o.fabric.address, "ADDR",
		    "listen for RDMA on this address (default: the device's addresses)"),
	BASE_UINT("rdma-port", 0, &set.o.fabric.port, 1, 65535, "PORT",
		  "port of the RDMA connection manager"),
	CLI_OPTIONS_RDMA_PORT(&set.o.fabric.gid_index, &set.o.fabric.ib_port, "by address"),
	CLI_PART_FABRIC_TCP,
	BASE_STRING("fabric", 0, &set.fabric, "tcp:ADDR:PORT",
		    "without RDMA: let collectors read over TCP; ADDR defaults to loopback. A "
		    "thread of the agent answers READs. With --rdma-secret, they are encrypted by "
		    "TLS"),
	BASE_CORE,
	BASE_UINT("queues", 0, &set.o.fabric.max_queues, 1, 4096, "N",
		  "accept at most this many queue pairs"),
	BASE_TIME("rdma-settle", 0, &set.o.rdma_settle_ns, 0, 0, "DURATION",
		  "register adjacent regions together once they are this old"),
	CLI_OPTION_RDMA_SECRET(&set.secret, "every peer can read every region"),
	BASE_TIME("rdma-key-lifetime", 0, &set.o.rdma_key_lifetime_ns, 0, 0, "DURATION",
		  "register memory again with a new key when a key is this old, or after a "
		  "collector disconnects; 0 means never"),
	CLI_PART_TCP,
	BASE_WORD("tcp", 0, &set.o.tcp, "[WHAT]",
		  "publish these kernel tables: a comma-separated list of flows, layers, cpu and "
		  "net (default flows)"),
	BASE_UINT("tcp-flows", 0, &set.o.tables.flows.flows, 64, 1 << 20, "N",
		  "track at most this many connections (default 16384)"),
	BASE_LIST("tcp-dev", 0, &set.o.tables.net.devices, "NAME",
		  "record segments for --tcp net on this device; repeatable (default: all "
		  "hardware devices)"),
	BASE_TIME("tcp-quarantine", 0, &set.o.tables.flows.quarantine_ns, 0, 3.6e12, "DURATION",
		  "keep a closed connection readable for this long (default 5s)"),
	CLI_OPTIONS_TCP_FILTER(&set.o.tables.flows.filter),
	CLI_PART_BRIDGE,
	CLI_OPTIONS_BRIDGE(&set.bridge),
	BASE_CORE,
	BASE_FLAG("status", 0, &set.status,
		  "print the status of the agent that serves the socket, and exit"),
	BASE_FLAG("json", 0, &set.as_json, "print --status as JSON"),
	CLI_OPTION_UNCONFINED(&set.o.unconfined),
	{0},
};

static int check_options(const struct base_command *self, const struct agent_opts *o)
{
	if (!o->max_memory || !o->max_region_size || !o->lease_ns || !o->rest_idle_ns)
		return base_usage(self, "%s must not be 0",
				  !o->max_memory	? "--max-memory"
				  : !o->max_region_size ? "--max-region-size"
				  : !o->lease_ns	? "--lease"
							: "--rest-idle");
	if (rdma_for_nothing(o, set.secret))
		return base_usage(self, "%s needs --rdma DEVICE", rdma_for_nothing(o, set.secret));
	if (o->fabric.tcp && o->fabric.device)
		return base_usage(self, "--fabric and --rdma are mutually exclusive");
	if (o->fabric.tcp && !set.secret && !o->insecure)
		return base_usage(
			self,
			"--fabric needs --rdma-secret: otherwise anyone who connects, including "
			"any local user over loopback, can read every region; override with "
			"--insecure-listen");
	if (o->rdma_key_lifetime_ns && o->rdma_key_lifetime_ns / 4 < o->lease_ns)
		return base_usage(self,
				  "--rdma-key-lifetime must be 0 or at least four times --lease");
	if (!o->tcp && (o->tables.flows.flows || o->tables.flows.quarantine_ns ||
			o->tables.net.devices.n || cli_tcp_filter_selects(&o->tables.flows.filter)))
		return base_usage(self, "filters and --tcp-... require --tcp");
	if (set.no_rest && set.rest)
		return base_usage(self, "--rest and --no-rest are mutually exclusive");
	return BASE_EXIT_OK;
}

/* Parses an octal mode. Returns 0 if invalid. */
static uint32_t mode_of(const char *text)
{
	unsigned long mode;
	char *end;

	errno = 0;
	mode = strtoul(text, &end, 8);
	return !*text || *end || errno || mode > 0777 ? 0 : (uint32_t)mode;
}

/* Parses a list of uids into an array, to be freed. Returns an exit code. */
static int parse_uids(const struct base_command *self, const char *option,
		      const struct base_strings *list, uint32_t **uids)
{
	uint64_t n;

	*uids = calloc(list->n + 1, sizeof(**uids));
	for (size_t i = 0; *uids && i < list->n; i++) {
		if (base_parse_u64(list->v[i], 0, UINT32_MAX - 1, &n))
			return base_usage(self, "--%s '%s' is not a number", option, list->v[i]);
		(*uids)[i] = (uint32_t)n;
	}
	return *uids ? BASE_EXIT_OK : base_failure(self, "out of memory");
}

/* Returns an address in the folder of the agent's socket. */
static const char *default_rest(const char *socket)
{
	static char at[PATH_MAX];
	const char *slash;

	socket = socket_of(socket);
	slash = strrchr(socket, '/');
	snprintf(at, sizeof(at), "unix:%s%.*s%s", slash ? "" : "./",
		 slash ? (int)(slash + 1 - socket) : 0, socket, AGENT_REST_DEFAULT);
	return at;
}

/* Options that are passed on to sidelight-bridge. */
static const struct base_option passed_on[] = {
	CLI_OPTIONS_BRIDGE(&set.bridge),
	CLI_OPTIONS_BRIDGE_OF_AGENT(&set.bridge),
	{0},
};

static bool wants_bridges(const struct bridge_opts *o)
{
	return o->scrapes.n || o->textfile || o->host || o->statsd.n || o->otlp;
}

#define BRIDGES "sidelight-bridge"

static void run_bridges(void *arg, const struct base_child_start *with)
{
	char **argv;

	(void)arg;
	set.bridge.restarted = !with->bytes;
	argv = base_options_print(passed_on);
	if (argv)
		base_child_exec("bridge", BRIDGES, argv);
}

static int start_bridges(const struct base_command *self, struct base_child **child)
{
	static const struct base_child_opts opts = {.name = "bridge",
						    .what = "the process that runs the bridges",
						    .log = "bridge",
						    .run = run_bridges};
	/* base_child_again() passes no message. */
	static const struct base_child_start first = {.message = "", .bytes = 1};
	char path[PATH_MAX];
	int err;

	if (base_program_find(BRIDGES, path))
		return base_failure(self, "--scrape, --textfile, --host, --statsd and --otlp "
					  "require the package sidelight-bridge");
	*child = base_child_fork(&opts);
	err = *child ? base_child_start(*child, &first) : -errno;
	return err ? base_failure(self, "cannot start the bridges: %s", strerror(-err))
		   : base_child_await(*child);
}

/* Starts the separate processes before there are secrets, threads and open descriptors. */
static int serve_apart(const struct base_command *self, struct agent_opts *o)
{
	int code = BASE_EXIT_OK;
	char error[256];

	/* Keep running if the reader of the log exits. */
	signal(SIGPIPE, SIG_IGN);
	if (o->rest) {
		o->rest_front = http_front_fork(o->unconfined);
		if (!o->rest_front)
			return base_failure(self, "cannot start a process: %s", strerror(errno));
	}
	if (o->tcp && agent_tcp_fork(o, error, sizeof(error)))
		return base_failure(self, "%s", error);
	if (wants_bridges(&set.bridge))
		code = start_bridges(self, &o->bridges);
	code = code
		       ?: cli_shared_secret(self, "rdma-secret", set.secret, &o->fabric.secret,
					    &o->fabric.secret_bytes);
	code = code ?: run_agent(o);
	base_child_free(o->bridges);
	http_front_end(o->rest_front);
	return code;
}

static int agent_main(const struct base_command *self, int argc, char **argv)
{
	static char address[256];
	struct agent_opts *o = &set.o;
	char error[256];
	uint32_t *consumers = NULL, *origins = NULL;
	uint16_t port;
	int code;

	if (!base_options_only(self, table, argc, argv, &code))
		return code;
	if (set.as_json && !set.status)
		return base_usage(self, "--json needs --status");
	if (set.status)
		return show_status(o->consume_socket ?: o->socket, set.as_json);
	o->socket_mode = mode_of(set.mode);
	o->consume_mode = set.consume_mode ? mode_of(set.consume_mode) : 0;
	if (!o->socket_mode || (set.consume_mode && !o->consume_mode))
		return base_usage(self, "--%s '%s' is not an octal mode such as 0660",
				  o->socket_mode ? "consume-mode" : "socket-mode",
				  o->socket_mode ? set.consume_mode : set.mode);
	if (set.fabric && fabric_host_parse(set.fabric, address, &port))
		return base_usage(self, "--fabric '%s' is not tcp:ADDR:PORT", set.fabric);
	o->fabric.tcp = set.fabric;
	code = check_options(self, o);
	if (code)
		return code;
	if (set.fabric) {
		o->fabric.address = address;
		o->fabric.port = port;
	}
	o->rest = set.no_rest ? NULL : set.rest ? set.rest : default_rest(o->socket);
	o->rest_optional = !set.rest;
	if (o->rest && agent_rest_check(o->rest, o->rest_token_file || o->web_config, error,
					sizeof(error)) < 0)
		return base_usage(self, "%s", error);
	o->rdma = o->fabric.device || o->fabric.tcp;
	if (o->tcp && !*o->tcp)
		o->tcp = "flows";
	if (o->tcp && agent_tcp_check(o, error, sizeof(error)))
		return base_usage(self, "%s", error);
	set.bridge.web_config = o->web_config;
	set.bridge.roles_file = o->roles_file;
	set.bridge.insecure = o->insecure;
	set.bridge.socket = socket_of(o->socket);
	set.bridge.unconfined = o->unconfined;
	code = parse_uids(self, "consumer-uid", &set.uids, &consumers)
		       ?: parse_uids(self, "origin-uid", &set.origins, &origins);
	o->consumers = consumers;
	o->consumer_count = set.uids.n;
	o->origins = origins;
	o->origin_count = set.origins.n;
	code = code ?: serve_apart(self, o);
	free(consumers);
	free(origins);
	return code;
}

const struct base_command cli_cmd_agent = {
	.name = "agent",
	.synopsis = "[OPTION]...",
	.summary = CLI_SUMMARY_AGENT,
	.run = agent_main,
};
