// SPDX-License-Identifier: Apache-2.0
/* cmd_agent.c - sidelight agent: serves, or asks the one that does for its status. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <sidelight/attach.h>

#include "agent/agent.h"
#include "cli/common.h"
#include "cli/tcp/filter.h"

#define RDMA_PORT      7475u
#define RDMA_QUEUES    64u
#define RDMA_SETTLE_NS 2000000000ull

/* The first option that says how RDMA is to be, where none is wished; or NULL. */
static const char *rdma_for_nothing(const struct agent_opts *o, uint32_t port)
{
	return o->rdma_device			     ? NULL
	       : o->rdma_address		     ? "--rdma-address"
	       : port != RDMA_PORT		     ? "--rdma-port"
	       : o->rdma_gid != -1		     ? "--gid"
	       : o->rdma_ib_port != 1		     ? "--ib-port"
	       : o->rdma_queues != RDMA_QUEUES	     ? "--queues"
	       : o->rdma_settle_ns != RDMA_SETTLE_NS ? "--rdma-settle"
						     : NULL;
}

static int agent_main(const struct base_command *self, int argc, char **argv);

const struct base_command cli_cmd_agent = {
	.name = "agent",
	.synopsis = "[OPTION]...",
	.summary = "Admit publishers, keep the directory, register memory",
	.run = agent_main,
};

/* ---- --status ---- */

static json_int_t integer(const json_t *j, const char *key)
{
	return json_integer_value(json_object_get(j, key));
}

static const char *text(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

static void size_text(uint64_t bytes, char *out, size_t max)
{
	const char *units = "KMGT";
	double v = (double)bytes;
	int u = -1;

	for (; v >= 1024 && u < 3; u++)
		v /= 1024;
	if (u < 0)
		snprintf(out, max, "%" PRIu64, bytes);
	else
		snprintf(out, max, "%.*f%c", v < 10 ? 1 : 0, v, units[u]);
}

static void age_text(uint64_t since_ns, char *out, size_t max)
{
	uint64_t now = base_realtime_ns(), s = now > since_ns ? (now - since_ns) / 1000000000 : 0;

	if (s < 120)
		snprintf(out, max, "%" PRIu64 "s", s);
	else if (s < 7200)
		snprintf(out, max, "%" PRIu64 "m", s / 60);
	else if (s < 172800)
		snprintf(out, max, "%" PRIu64 "h", s / 3600);
	else
		snprintf(out, max, "%" PRIu64 "d", s / 86400);
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
		printf("%s %s=%lld", any ? "" : title, key, (long long)json_integer_value(v));
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

	age_text((uint64_t)integer(j, "started_ns"), a, sizeof(a));
	printf("agent %s on %s, pid %lld, up %s\n", text(j, "version"), text(j, "host"),
	       (long long)integer(j, "pid"), a);
	printf("socket %s", text(j, "socket"));
	if (*text(j, "rest"))
		printf("  rest %s", text(j, "rest"));
	if (*text(j, "rdma"))
		printf("  rdma %s", text(j, "rdma"));
	size_text((uint64_t)integer(memory, "used"), a, sizeof(a));
	size_text((uint64_t)integer(memory, "max"), b, sizeof(b));
	printf("\nregions %lld of %lld (%lld live)  memory %s of %s  connections %lld  consumers "
	       "%lld\n",
	       (long long)integer(regions, "used"), (long long)integer(regions, "max"),
	       (long long)integer(use, "live"), a, b,
	       (long long)integer(json_object_get(use, "connections"), "used"),
	       (long long)integer(use, "consumers"));
	printf("admitted %lld  reattached %lld  dead %lld  closed %lld  expired %lld\n",
	       (long long)integer(n, "admitted"), (long long)integer(n, "reattached"),
	       (long long)integer(n, "dead"), (long long)integer(n, "closed"),
	       (long long)integer(n, "expired"));
	print_counts("refused:", json_object_get(n, "refused"));
	print_counts("dropped:", json_object_get(n, "dropped"));
	if (!json_array_size(json_object_get(j, "regions")))
		return;
	printf("\n%6s  %-8s %5s %8s %7s  %-24s %s\n", "ID", "STATE", "SINCE", "BYTES", "PID",
	       "SERVICE", "POD");
	json_array_foreach(json_object_get(j, "regions"), i, r)
	{
		const json_t *labels = json_object_get(r, "labels");

		age_text((uint64_t)integer(r, "changed_ns"), a, sizeof(a));
		size_text((uint64_t)integer(r, "bytes"), b, sizeof(b));
		printf("%6lld  %-8s %5s %8s %7lld  ", (long long)integer(r, "id"), text(r, "state"),
		       a, b, (long long)integer(r, "pid"));
		cli_print_safe(text(labels, "service"), 24);
		putchar(' ');
		cli_print_safe(text(labels, "pod"), 0);
		putchar('\n');
	}
}

static int show_status(const char *socket, bool as_json)
{
	char error[256], *answer;
	json_t *j;

	if (!socket || !*socket)
		socket = getenv(SL_SOCKET_ENV);
	if (!socket || !*socket)
		socket = SL_SOCKET_DEFAULT;
	answer = agent_ask_status(socket, error, sizeof(error));
	if (!answer) {
		base_logf(BASE_ERROR, "agent", "%s", error);
		return BASE_EXIT_FAILURE;
	}
	j = json_loads(answer, 0, NULL);
	free(answer);
	if (!j) {
		base_logf(BASE_ERROR, "agent", "%s: the answer is no JSON", socket);
		return BASE_EXIT_FAILURE;
	}
	if (as_json) {
		json_dumpf(j, stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		print_status(j);
	}
	json_decref(j);
	return fflush(stdout) ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}

/* ---- serving ---- */

static int serve(const struct agent_opts *o)
{
	struct agent *a;
	char error[256], rest[128] = "", rdma[128] = "";
	int stop, err;

	stop = base_stop_fd();
	if (stop < 0) {
		base_logf(BASE_ERROR, "agent", "signals: %s", strerror(-stop));
		return BASE_EXIT_FAILURE;
	}
	a = agent_new(o, error, sizeof(error));
	if (!a) {
		base_logf(BASE_ERROR, "agent", "%s", error);
		close(stop);
		return BASE_EXIT_FAILURE;
	}
	if (agent_rest(a))
		snprintf(rest, sizeof(rest), " rest=%s", agent_rest(a));
	if (agent_rdma(a))
		snprintf(rdma, sizeof(rdma), " rdma=%s", agent_rdma(a));
	base_ready("socket=%s%s%s", agent_socket(a), rest, rdma);
	err = agent_run(a, stop);
	if (err)
		base_logf(BASE_ERROR, "agent", "loop: %s", strerror(-err));
	agent_free(a);
	close(stop);
	return err ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}

static int agent_main(const struct base_command *self, int argc, char **argv)
{
	struct agent_opts o = {
		.grace_ns = 30000000000ull,
		.grace_zero = true,
		.lease_ns = 1000000000ull,
		.max_regions = 4096,
		.max_region_size = 16u << 20,
		.max_memory = 1u << 30,
		.rest_idle_ns = 300000000000ull,
		.rdma_gid = -1,
		.rdma_ib_port = 1,
		.rdma_queues = RDMA_QUEUES,
		.rdma_settle_ns = RDMA_SETTLE_NS,
	};
	const char *mode = "0666", *rest = NULL;
	bool status = false, as_json = false, no_rest = false;
	struct base_strings uids = {0};
	struct tcp_filter wanted = {0};
	struct base_strings devices = {0};
	uint32_t port = RDMA_PORT, *consumers = NULL;
	const struct base_option table[] = {
		{.name = "socket",
		 .type = BASE_OPT_STRING,
		 .to = &o.socket,
		 .argument = "PATH",
		 .help = "unix socket for publishers and local collectors (default "
			 "$SIDELIGHT_SOCKET, or /run/sidelight/agent.sock)"},
		{.name = "socket-mode",
		 .type = BASE_OPT_STRING,
		 .to = &mode,
		 .argument = "OCTAL",
		 .help = "permissions of the socket's file"},
		{.name = "publish-socket",
		 .type = BASE_OPT_STRING,
		 .to = &o.publish_socket,
		 .argument = "PATH",
		 .help = "a further socket that takes publishers only: the one to mount into pods"},
		{.name = "consumer-uid",
		 .type = BASE_OPT_LIST,
		 .to = &uids,
		 .argument = "UID",
		 .help = "let this user read regions and status, besides root and the agent's own; "
			 "repeatable"},
		{.name = "host",
		 .type = BASE_OPT_STRING,
		 .to = &o.host,
		 .argument = "NAME",
		 .help = "what collectors call this host (default its host name)"},
		{.name = "grace",
		 .type = BASE_OPT_DURATION,
		 .to = &o.grace_ns,
		 .argument = "DURATION",
		 .help = "keep the last words of the dead for so long"},
		{.name = "lease",
		 .type = BASE_OPT_DURATION,
		 .to = &o.lease_ns,
		 .argument = "DURATION",
		 .help = "collectors look at the directory at least this often; memory goes two "
			 "leases after it was retired"},
		{.name = "max-regions",
		 .type = BASE_OPT_U32,
		 .to = &o.max_regions,
		 .argument = "N",
		 .help = "regions at most",
		 .min = 1,
		 .max = 1 << 20},
		{.name = "max-region-size",
		 .type = BASE_OPT_SIZE,
		 .to = &o.max_region_size,
		 .argument = "BYTES",
		 .help = "bytes of one region at most"},
		{.name = "max-memory",
		 .type = BASE_OPT_SIZE,
		 .to = &o.max_memory,
		 .argument = "BYTES",
		 .help = "bytes of all regions at most"},
		{.name = "max-regions-per-uid",
		 .type = BASE_OPT_U32,
		 .to = &o.max_regions_per_uid,
		 .argument = "N",
		 .help = "of one user at most; 0: half of max-regions, without bound for root and "
			 "the agent's own user",
		 .max = 1 << 20},
		{.name = "rest",
		 .type = BASE_OPT_STRING,
		 .to = &rest,
		 .argument = "ADDR:PORT",
		 .help = "serve REST there (default " AGENT_REST_DEFAULT
			 ", if it is free); no ADDR is loopback"},
		{.name = "no-rest", .type = BASE_OPT_FLAG, .to = &no_rest, .help = "serve no REST"},
		{.name = "rest-token-file",
		 .type = BASE_OPT_STRING,
		 .to = &o.rest_token_file,
		 .argument = "PATH",
		 .help = "ask for this bearer token; needed when --rest is not loopback"},
		{.name = "rest-idle",
		 .type = BASE_OPT_DURATION,
		 .to = &o.rest_idle_ns,
		 .argument = "DURATION",
		 .help = "close the region of a microservice that posted nothing for so long"},
		{.name = "rdma",
		 .type = BASE_OPT_STRING,
		 .to = &o.rdma_device,
		 .argument = "DEVICE",
		 .help = "register regions for remote reading on this device"},
		{.name = "rdma-address",
		 .type = BASE_OPT_STRING,
		 .to = &o.rdma_address,
		 .argument = "ADDR",
		 .help = "listen there (default the device's addresses)"},
		{.name = "rdma-port",
		 .type = BASE_OPT_U32,
		 .to = &port,
		 .argument = "PORT",
		 .help = "port of RDMA-CM",
		 .min = 1,
		 .max = 65535},
		CLI_OPTIONS_RDMA_PORT(&o.rdma_gid, &o.rdma_ib_port, "by address"),
		{.name = "queues",
		 .type = BASE_OPT_U32,
		 .to = &o.rdma_queues,
		 .argument = "N",
		 .help = "queue pairs at most",
		 .min = 1,
		 .max = 4096},
		{.name = "rdma-settle",
		 .type = BASE_OPT_DURATION,
		 .to = &o.rdma_settle_ns,
		 .argument = "DURATION",
		 .help = "register neighbouring regions together once they are so old"},
		{.name = "tcp",
		 .type = BASE_OPT_WORD,
		 .to = &o.tcp,
		 .argument = "[WHAT]",
		 .help = "publish what the kernel knows: flows, layers, cpu, net, separated by commas "
			 "(default flows)"},
		{.name = "tcp-flows",
		 .type = BASE_OPT_U32,
		 .to = &o.tcp_flows,
		 .argument = "N",
		 .help = "room for so many connections (default 16384)",
		 .min = 64,
		 .max = 1 << 20},
		{.name = "tcp-dev",
		 .type = BASE_OPT_LIST,
		 .to = &devices,
		 .argument = "NAME",
		 .help = "of --tcp net: record segments at this device; repeatable (default: all that "
			 "are hardware)"},
		{.name = "tcp-quarantine",
		 .type = BASE_OPT_DURATION,
		 .to = &o.tcp_quarantine_ns,
		 .argument = "DURATION",
		 .help = "how long a connection that ended can still be read (default 5s)",
		 .max = 3.6e12},
		CLI_OPTIONS_TCP_FILTER(&wanted),
		{.name = "status",
		 .type = BASE_OPT_FLAG,
		 .to = &status,
		 .help = "ask the agent that serves the socket what it is doing, and exit"},
		{.name = "json",
		 .type = BASE_OPT_FLAG,
		 .to = &as_json,
		 .help = "with --status: as JSON"},
		{0},
	};
	char error[256], *end;
	int err;

	if (!base_options_only(self, table, argc, argv, &err))
		return err;
	if (as_json && !status)
		return base_usage(self, "--json needs --status");
	if (status)
		return show_status(o.socket, as_json);

	errno = 0;
	o.socket_mode = (uint32_t)strtoul(mode, &end, 8);
	if (!*mode || *end || errno || !o.socket_mode || o.socket_mode > 0777)
		return base_usage(self, "--socket-mode '%s' is no octal mode such as 0660", mode);
	if (!o.max_memory || !o.max_region_size || !o.lease_ns || !o.rest_idle_ns)
		return base_usage(self, "%s must not be 0",
				  !o.max_memory	       ? "--max-memory"
				  : !o.max_region_size ? "--max-region-size"
				  : !o.lease_ns	       ? "--lease"
						       : "--rest-idle");
	if (rdma_for_nothing(&o, port))
		return base_usage(self, "%s needs --rdma DEVICE", rdma_for_nothing(&o, port));
	if (!o.tcp &&
	    (o.tcp_flows || o.tcp_quarantine_ns || devices.n || wanted.ports.n || wanted.cidrs.n ||
	     wanted.cgroups.n || wanted.netns || wanted.pid || wanted.sample))
		return base_usage(self, "filters and --tcp-... need --tcp");
	if (no_rest && rest)
		return base_usage(self, "--rest and --no-rest exclude each other");
	o.rest = no_rest ? NULL : rest ? rest : AGENT_REST_DEFAULT;
	o.rest_optional = !rest;
	if (o.rest && agent_rest_check(o.rest, o.rest_token_file, error, sizeof(error)) < 0)
		return base_usage(self, "%s", error);
	o.rdma = o.rdma_device != NULL;
	o.rdma_port = (uint16_t)port;
	if (uids.n) {
		consumers = calloc(uids.n, sizeof(*consumers));
		if (!consumers)
			return BASE_EXIT_FAILURE;
	}
	for (size_t i = 0; i < uids.n; i++) {
		uint64_t uid;

		if (base_parse_u64(uids.v[i], 0, UINT32_MAX - 1, &uid)) {
			free(consumers);
			return base_usage(self, "--consumer-uid '%s' is no number", uids.v[i]);
		}
		consumers[i] = (uint32_t)uid;
	}
	o.consumers = consumers;
	o.consumer_count = uids.n;
	o.tcp_wanted = &wanted;
	o.tcp_devices = devices.v;
	o.tcp_device_count = devices.n;
	if (o.tcp && !*o.tcp)
		o.tcp = "flows";
	if (o.tcp && agent_tcp_check(&o, error, sizeof(error))) {
		free(consumers);
		return base_usage(self, "%s", error);
	}
	err = serve(&o);
	free(consumers);
	return err;
}
