// SPDX-License-Identifier: Apache-2.0
/* cmd_translate.c - 'sidelight translate': workers that convert reports into one-sided writes. */
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/confine.h"
#include "base/network.h"
#include "base/secret.h"
#include "cli/commands.h"
#include "cli/common/common.h"
#include "dta/device/paths.h"
#include "dta/translate/gap_file.h"
#include "dta/translate/translate.h"
#include "dta/io/xdp.h"

#define WORKERS_MAX 64u
#define NAME	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

struct translate {
	const struct base_command *cmd;
	struct base_strings collectors, listen, input, pcap, xdp;
	const char *map, *output, *legacy, *name, *secret, *xdp_mode, *gaps;
	uint32_t workers;
	uint16_t port;
	uint64_t buffer;
	bool json, unconfined, print_map, insecure;
	struct base_strings allow_from;
	/* Derived from the members above. */
	struct dta_translate_opts opts;
	struct dta_worker *worker[WORKERS_MAX];
	pthread_t thread[WORKERS_MAX];
	struct dta_xdp *at; /* interfaces of --xdp */
	uint32_t made, started;
	/*
	 * Addresses of the first worker's sockets: first those for --listen, then those for
	 * --input.
	 */
	struct sockaddr_in6 where[DTA_TRANSLATE_INPUTS];
	char device_address[DTA_TRANSLATE_INPUTS][280];
	uint16_t device_port[DTA_TRANSLATE_INPUTS]; /* ports of --input in captures */
	uint32_t sockets; /* number of inputs that are sockets; inputs that read captures follow */
	struct base_network *allow; /* networks in --allow-from */
	struct dta_map *devices;    /* mapping of --map, or the default mapping */
	int stop;
};

static struct translate set = {
	.output = "shm",
	.workers = 1,
	.port = DTA_PORT,
	.opts = {.client = {.verbs = {.gid_index = -1, .ib_port = 1}}, .legacy_hops = 5},
	.stop = -1,
};

/* Report */

static void print_count(const char *what, uint64_t n)
{
	if (n)
		printf("  %-28s %" PRIu64 "\n", what, n);
}

static void print_device(const char *name, const struct dta_device_account *d)
{
	char what[64];

	if (!d->decoder.datagrams)
		return;
	printf("%-30s %" PRIu64 "\n", name, d->decoder.datagrams);
	print_count("records", d->decoder.records);
	print_count("records without a report", d->map.unmapped);
	print_count("reports", d->map.reports);
	print_count("refused: tenant requires MACs", d->unproven);
	print_count("values too large", d->map.saturated);
	print_count("lost before arrival", d->decoder.lost);
	print_count("restarts", d->decoder.restarts);
	print_count("exporters", d->decoder.exporters);
	print_count("templates", d->decoder.templates);
	for (int r = DTA_DEVICE_FINE + 1; r < DTA_DEVICE_REFUSALS; r++) {
		snprintf(what, sizeof(what), "refused: %s",
			 dta_device_refusal_name((enum dta_device_refusal)r));
		print_count(what, d->decoder.refused[r]);
	}
}

static void print_text(const struct dta_translate_account *a, uint64_t others)
{
	char what[64];

	printf("packets                        %" PRIu64 "\n", a->packets);
	print_count("taken", a->packets_taken);
	for (int r = DTA_FINE + 1; r < DTA_REFUSALS; r++) {
		snprintf(what, sizeof(what), "refused: %s", dta_refusal_name((enum dta_refusal)r));
		print_count(what, a->refused[r]);
	}
	print_count("refused: unknown tenant", a->refused_tenant);
	print_count("refused: no room", a->refused_reporter);
	print_count("refused: sender not allowed", a->refused_source);
	print_count("not read at the end", a->unread);
	print_count("dropped by the kernel", a->socket_drops);
	print_count("dropped between workers", a->handover_drops);
	print_count("reporters slowed, times", a->slowed);
	print_count("answers held back", a->held_back);
	print_count("other packets", others);
	for (int d = 0; d < DTA_DEVICES; d++)
		print_device(dta_device_name((enum dta_device)d), &a->device[d]);
	printf("reports                        %" PRIu64 "\n", a->reports);
	print_count("taken", a->fresh);
	print_count("taken, may be stored twice", a->maybe_twice);
	print_count("duplicates", a->loss.duplicates);
	print_count("too late", a->loss.late);
	print_count("lost in the network", a->loss.lost + a->loss.missing);
	printf("stored                         %" PRIu64 "\n", a->engine.stored);
	print_count("waiting", a->engine.waiting);
	for (int d = 0; d < DTA_DROPS; d++) {
		snprintf(what, sizeof(what), "dropped: %s",
			 dta_engine_drop_name((enum dta_engine_drop)d));
		print_count(what, a->engine.dropped[d]);
	}
	printf("operations                     %" PRIu64 "\n", a->output.writes + a->output.adds);
	print_count("that woke the application", a->output.immediates);
	print_count("complete", a->output.completed);
	print_count("unconfirmed", a->output.unconfirmed);
	print_count("failed", a->output.failed);
	print_count("interface gone, times", a->output.interface_gone);
	print_count("interface down, times", a->output.interface_down);
}

/* Adds to the counter of this name, to sum over workers. */
static void add_detail(void *arg, const char *name, uint64_t n)
{
	json_object_set_new(arg, name, json_integer(cli_json_integer(arg, name) + (json_int_t)n));
}

static int print_account(struct translate *t)
{
	json_t *detail = json_object(), *value, *j;
	struct dta_translate_account a = {0};
	uint64_t others = 0;
	const char *name;
	bool good = true;

	for (uint32_t i = 0; i < t->made; i++) {
		dta_worker_account(t->worker[i], &a, &others);
		dta_worker_detail(t->worker[i], add_detail, detail);
	}
	if (t->json) {
		j = dta_account_json(&a);
		good = j && !json_object_set_new(j, "others", json_integer((json_int_t)others)) &&
		       !json_object_update(j, detail);
		good &= cli_json_print(stdout, j, JSON_COMPACT);
	} else {
		print_text(&a, others);
		json_object_foreach(detail, name, value)
			print_count(name, (uint64_t)json_integer_value(value));
	}
	json_decref(detail);
	return fflush(stdout) || ferror(stdout) ? -EIO : good ? 0 : -ENOMEM;
}

/* Workers */

#if HAVE_XDP
static bool open_xdp(struct translate *t, char *error, size_t bytes)
{
	const struct dta_xdp_opts o = {.interfaces = t->xdp.v,
				       .n_interfaces = (uint32_t)t->xdp.n,
				       .native = t->xdp_mode && *t->xdp_mode == 'n',
				       .generic = t->xdp_mode && *t->xdp_mode == 'g',
				       .where = &t->where[0],
				       .bytes = t->buffer};

	t->at = dta_xdp_open(&o, error, bytes);
	if (!t->at)
		return false;
	if (dta_xdp_queues(t->at) >= t->workers)
		return true;
	snprintf(error, bytes, "--workers %u: each worker needs a queue, but --xdp has %u",
		 t->workers, dta_xdp_queues(t->at));
	return false;
}
#endif

/* Packets of devices are not authenticated, and reports only if their tenant has a key. */
static bool may_listen(const struct translate *t, const struct sockaddr_in6 *at,
		       const char *address, char *error, size_t bytes)
{
	if (t->allow || base_is_loopback((const struct sockaddr *)at))
		return true;
	if (t->insecure) {
		base_logf(BASE_WARN, "translate",
			  "any host may send packets listen=%s: use --allow-from instead of "
			  "--insecure-listen",
			  address);
		return true;
	}
	base_fail(error, bytes, -EACCES,
		  "%s is reachable from other hosts, and senders are not authenticated: use "
		  "--allow-from with the networks of the senders, or --insecure-listen",
		  address);
	return false;
}

/*
 * Opens the socket of the i-th --listen; further indices select --input. Returns NULL with an
 * error.
 */
static struct dta_input *open_socket(struct translate *t, uint32_t i, uint32_t index, char *error,
				     size_t bytes)
{
	const bool listens = i < t->listen.n;
	const struct dta_input_udp_opts o = {
		.address = listens ? t->listen.v[i] : t->device_address[i],
		.as = index ? &t->where[i] : NULL,
		.share = t->workers > 1,
		/* the original's reporters have no number */
		.by_sender = listens && !t->opts.legacy ? 0 : t->workers,
		.receive_bytes = t->buffer};
	struct dta_input *in = dta_input_udp(&o, error, bytes);
	const int err = in && !index ? dta_input_udp_where(in, &t->where[i]) : 0;

	if (!err && (!in || index || may_listen(t, &t->where[i], o.address, error, bytes)))
		return in;
	if (err)
		base_fail(error, bytes, err, "%s: %s", o.address, strerror(-err));
	in->ops->close(in);
	return NULL;
}

/* A capture counts as one input for each kind of --input, or as one input of reports. */
static size_t inputs_of(const struct translate *t)
{
	return t->sockets + t->pcap.n * (t->input.n ? t->input.n : 1);
}

static int make_worker(struct translate *t, uint32_t index)
{
	struct dta_input *in[DTA_TRANSLATE_INPUTS];
	char error[512] = "", name[64];
	uint32_t n = 0;

	for (; n < t->sockets; n++) {
		in[n] = open_socket(t, n, index, error, sizeof(error));
		if (!in[n])
			goto fail;
#if HAVE_XDP
		if (!t->xdp.n || n >= t->listen.n)
			continue;
		if (!index && !open_xdp(t, error, sizeof(error))) {
			n++;
			goto fail;
		}
		in[n] = dta_input_xdp(t->at, in[n], index, t->workers, error, sizeof(error));
		if (!in[n])
			goto fail;
#endif
	}
	for (; n < inputs_of(t) && !index; n++) {
		const size_t i = n - t->sockets, kinds = t->input.n ? t->input.n : 1;

		in[n] = dta_input_pcap(t->pcap.v[i / kinds],
				       t->input.n ? t->device_port[i % kinds] : t->port, error,
				       sizeof(error));
		if (!in[n])
			goto fail;
	}
	if (t->workers > 1)
		snprintf(name, sizeof(name), "%.40s-%u", t->name, index);
	else
		snprintf(name, sizeof(name), "%.40s", t->name);
	t->opts.worker = index;
	t->worker[index] = dta_worker_new(&t->opts, name, in, n, error, sizeof(error));
	if (!t->worker[index])
		return base_failure(t->cmd, "%s", error);
	t->made++;
	return BASE_EXIT_OK;
fail:
	while (n--)
		in[n]->ops->close(in[n]);
	return base_failure(t->cmd, "%s", error);
}

static void *run_worker(void *arg)
{
	struct dta_worker **worker = arg;
	char name[16];

	snprintf(name, sizeof(name), "worker-%u", (unsigned int)(worker - set.worker));
	pthread_setname_np(pthread_self(), name);
	dta_worker_run(*worker, set.stop);
	return NULL;
}

/* Appends ",HOST:PORT" of a socket. before: text in front of HOST. */
static void say_where(const struct sockaddr_in6 *at, const char *before, char *all, size_t bytes)
{
	char text[INET6_ADDRSTRLEN];
	const char *host = base_address_text(&at->sin6_addr, text);
	const size_t have = strlen(all);

	snprintf(all + have, bytes - have, strchr(host, ':') ? "%s%s[%s]:%u" : "%s%s%s:%u",
		 have ? "," : "", before, host, ntohs(at->sin6_port));
}

static void say_ready(const struct translate *t)
{
	char all[1024] = "", devices[1024] = "", xdp[512] = "", one[80];

	for (size_t i = 0; i < t->listen.n; i++)
		say_where(&t->where[i], "", all, sizeof(all));
	for (size_t i = t->listen.n; i < t->sockets; i++) {
		snprintf(one, sizeof(one), "%s:", dta_device_name(t->opts.device[i]));
		say_where(&t->where[i], one, devices, sizeof(devices));
	}
#if HAVE_XDP
	for (uint32_t i = 0; t->at && dta_xdp_how(t->at, i); i++) {
		snprintf(one, sizeof(one), "%s%s", *xdp ? "," : "", dta_xdp_how(t->at, i));
		strncat(xdp, one, sizeof(xdp) - strlen(xdp) - 1);
	}
#endif
	base_ready("listen=%s workers=%u output=%s%s%s%s%s", *all ? all : "-", t->made, t->output,
		   *devices ? " input=" : "", devices, *xdp ? " xdp=" : "", xdp);
}

/*
 * Notifies the service manager, at the interval it requests, while all workers make progress.
 * Returns on shutdown.
 */
static void stay_alive(const struct translate *t)
{
	const uint64_t every = t->sockets ? base_alive_ns() : 0;
	uint64_t turns[WORKERS_MAX] = {0};

	while (every && !base_stop_wait(t->stop, (int)(every / 1000000))) {
		bool all = true;

		for (uint32_t i = 0; i < t->made; i++)
			all &= dta_worker_turns(t->worker[i]) != turns[i];
		for (uint32_t i = 0; all && i < t->made; i++)
			turns[i] = dta_worker_turns(t->worker[i]);
		if (all)
			base_alive();
	}
}

/* Waits until all workers can write, and prints the ready line. */
static void wait_ready(struct translate *t)
{
	bool said = false;

	while (!said && !base_stop_wait(t->stop, 5)) {
		said = true;
		for (uint32_t i = 0; i < t->made; i++)
			said &= dta_worker_ready(t->worker[i]);
		/* A worker that only reads files may have finished. */
		if (!said && !t->sockets && pthread_tryjoin_np(t->thread[0], NULL) == 0) {
			t->started = 0;
			return;
		}
	}
	if (said) {
		say_ready(t);
		stay_alive(t);
	}
}

/*
 * Drops privileges. The output opens devices and interfaces again when it reconnects to a
 * collector.
 */
static int confine_translator(const struct translate *t)
{
	const bool raw = t->opts.client.output == DTA_CLIENT_RAW && !t->opts.client.raw.file;
	const uint64_t frames = BASE_CAP(NET_RAW) | BASE_CAP(NET_ADMIN) | BASE_CAP(BPF);
	const struct base_confine_opts c = {
		.role = BASE_ROLE_TRANSLATOR,
		.capabilities = BASE_CAP(IPC_LOCK) | (raw || t->xdp.n ? frames : 0),
		.paths = {t->opts.client.raw.file},
		.packets = raw || t->xdp.n,
	};

	return cli_confine("translate", &c);
}

/* Uses kill(), because signalfd in other threads does not receive a signal sent by raise(). */
static void stop_threads(void)
{
	kill(getpid(), SIGTERM);
}

static int run_translator(struct translate *t)
{
	int code = BASE_EXIT_OK, err;
	char error[512];

	if (t->gaps) {
		t->opts.gaps = dta_gap_file_open(t->gaps, t->workers, error, sizeof(error));
		if (!t->opts.gaps)
			return base_failure(t->cmd, "%s", error);
	}
	if (t->workers > 1) {
		t->opts.steer = dta_steer_new(t->workers);
		for (size_t i = 0; !t->opts.paths && i < DTA_TRANSLATE_INPUTS; i++)
			if (t->opts.device[i] == DTA_DEVICE_INT)
				t->opts.paths = dta_paths_new();
		if (!t->opts.steer)
			return base_failure(t->cmd, "%s", strerror(errno));
	}
	t->opts.rates = dta_rates_new();
	if (!t->opts.rates)
		return base_failure(t->cmd, "%s", strerror(errno));
	for (uint32_t i = 0; i < t->workers; i++)
		if (make_worker(t, i) != BASE_EXIT_OK)
			return BASE_EXIT_FAILURE;
	/* Before threads open RDMA resources: see agent_rdma_start(). */
	if (!t->unconfined)
		code = confine_translator(t);
	for (; t->started < t->made && code == BASE_EXIT_OK; t->started++)
		if (pthread_create(&t->thread[t->started], NULL, run_worker,
				   &t->worker[t->started])) {
			code = base_failure(t->cmd, "cannot start a thread");
			stop_threads();
			break;
		}
	if (code == BASE_EXIT_OK)
		wait_ready(t);
	for (uint32_t i = 0; i < t->started; i++)
		pthread_join(t->thread[i], NULL);
	err = print_account(t);
	if (err)
		code = base_failure(t->cmd, "standard output: %s", strerror(-err));
	return code;
}

/* Command */

/* Returns the host for sockets whose address was not given. */
static const char *own_host(const struct translate *t)
{
	return t->allow || t->insecure ? "" : "127.0.0.1";
}

static int read_allowed(struct translate *t)
{
	for (size_t i = 0; i < t->allow_from.n; i++)
		if (base_networks_parse(t->allow_from.v[i], &t->allow, &t->opts.n_allow))
			return base_usage(t->cmd,
					  "--allow-from '%s' is not a list of networks such as "
					  "10.0.0.0/8,2001:db8::/32",
					  t->allow_from.v[i]);
	t->opts.allow = t->allow;
	return BASE_EXIT_OK;
}

/* Parses the I-th --input KIND[=HOST:PORT]. With --pcap, only the port matters. */
static int check_device(struct translate *t, size_t i, const char *kinds)
{
	const char *text = t->input.v[i], *at = strchr(text, '='), *colon = strrchr(text, ':');
	enum dta_device device;
	char kind[16];
	uint64_t port;

	snprintf(kind, sizeof(kind), "%.*s", at ? (int)(at - text) : 15, text);
	device = dta_device_find(kind);
	if (device == DTA_DEVICES)
		return base_usage(t->cmd, "--input: '%s' is not one of %s", kind, kinds);
	port = dta_device_decoder(device)->port;
	if (!t->pcap.n) {
		t->opts.device[t->listen.n + i] = device;
		if (at)
			snprintf(t->device_address[t->listen.n + i], sizeof(*t->device_address),
				 "%s", at + 1);
		else
			snprintf(t->device_address[t->listen.n + i], sizeof(*t->device_address),
				 "%s:%u", own_host(t), (unsigned int)port);
		return BASE_EXIT_OK;
	}
	if (at && base_parse_u64(colon ? colon + 1 : at + 1, 1, 65535, &port))
		return base_usage(t->cmd, "--input: '%s' has no port such as :2055", text);
	t->device_port[i] = (uint16_t)port;
	for (size_t file = 0; file < t->pcap.n; file++)
		t->opts.device[t->sockets + file * t->input.n + i] = device;
	return BASE_EXIT_OK;
}

/* Parses --input and --map. */
static int check_devices(struct translate *t)
{
	char error[512], kinds[64] = "";
	int code;

	for (int d = 0; d < DTA_DEVICES; d++)
		snprintf(kinds + strlen(kinds), sizeof(kinds) - strlen(kinds), "%s%s",
			 *kinds ? ", " : "", dta_device_name((enum dta_device)d));
	for (size_t i = 0; i < DTA_TRANSLATE_INPUTS; i++)
		t->opts.device[i] = DTA_DEVICES;
	for (size_t i = 0; i < t->input.n; i++) {
		code = check_device(t, i, kinds);
		if (code != BASE_EXIT_OK)
			return code;
	}
	if (t->map && !t->input.n)
		return base_usage(t->cmd, "--map needs --input");
	if (!t->input.n)
		return BASE_EXIT_OK;
	t->devices = t->map ? dta_map_read(t->map, error, sizeof(error))
			    : dta_map_text("default", dta_map_default, strlen(dta_map_default),
					   error, sizeof(error));
	t->opts.map = t->devices;
	return t->devices ? BASE_EXIT_OK : base_failure(t->cmd, "%s", error);
}

static int check_options(struct translate *t)
{
	static char address[32];
	static const char *own[] = {address};
	static const char *const outputs[] = {"shm", "verbs", "raw", NULL};
	static char host[64];
	int output, legacy, code;

	if (!t->collectors.n)
		return base_usage(t->cmd,
				  "--collector is missing: specify unix:PATH or HOST:PORT of a "
				  "store server");
	if (t->opts.replicas > t->collectors.n)
		return base_usage(t->cmd,
				  "--replicas %u requires at least as many --collector "
				  "options",
				  t->opts.replicas);
	output = cli_choice(t->output, outputs);
	if (output < 0)
		return base_usage(t->cmd, "--output: '%s' is not one of shm, verbs, raw",
				  t->output);
	t->opts.client.output = (enum dta_client_output)output;
	legacy = cli_legacy(t->legacy);
	if (legacy < 0)
		return base_usage(t->cmd, "--legacy must be 'a' or 'b', not '%s'", t->legacy);
	t->opts.legacy = (enum dta_legacy)legacy;
	code = read_allowed(t);
	if (code != BASE_EXIT_OK)
		return code;
	snprintf(address, sizeof(address), "%s:%u", own_host(t), DTA_PORT);
	if (!t->listen.n && !t->input.n && !t->pcap.n)
		t->listen = (struct base_strings){own, 1};
	t->sockets = (uint32_t)(t->listen.n + (t->pcap.n ? 0 : t->input.n));
	if (inputs_of(t) > DTA_TRANSLATE_INPUTS)
		return base_usage(t->cmd, "at most %u inputs are allowed", DTA_TRANSLATE_INPUTS);
	if (t->xdp.n && t->listen.n != 1)
		return base_usage(t->cmd, "--xdp requires exactly one --listen, not %zu",
				  t->listen.n);
	if (t->xdp_mode && strcmp(t->xdp_mode, "native") && strcmp(t->xdp_mode, "generic"))
		return base_usage(t->cmd, "--xdp-mode must be 'native' or 'generic', not '%s'",
				  t->xdp_mode);
	if (!t->sockets && t->workers > 1)
		return base_usage(t->cmd, "--workers cannot be used with files, which a single "
					  "worker reads");
	if (!t->name) {
		gethostname(host, sizeof(host) - 1);
		t->name = host;
	}
	if (!*t->name || strlen(t->name) > 40 || t->name[strspn(t->name, NAME)])
		return base_usage(t->cmd,
				  "--name must be 1 to 40 letters, digits, '_', '.' or '-'");
	if (t->opts.loss.window & (t->opts.loss.window - 1))
		return base_usage(t->cmd, "--window: %u is not a power of two",
				  t->opts.loss.window);
	if (t->opts.client.output == DTA_CLIENT_RAW &&
	    !t->opts.client.raw.interface == !t->opts.client.raw.file)
		return base_usage(t->cmd, "--output raw needs --raw-interface or --raw-file");
	if (t->opts.client.raw.xdp &&
	    (t->opts.client.output != DTA_CLIENT_RAW || t->opts.client.raw.file))
		return base_usage(t->cmd, "--raw-xdp needs --output raw and --raw-interface");
	if (t->gaps && t->opts.replicas < 2)
		return base_usage(t->cmd, "--gaps needs --replicas");
	if (!HAVE_XDP && (t->xdp.n || t->opts.client.raw.xdp))
		return base_failure(
			t->cmd, "this build has no AF_XDP support: libxdp, clang or bpftool was "
				"missing");
	t->opts.name = t->name;
	t->opts.collectors = t->collectors.v;
	t->opts.n_collectors = (uint32_t)t->collectors.n;
	code = check_devices(t);
	if (code == BASE_EXIT_OK)
		code = cli_shared_secret(t->cmd, "secret", t->secret, &t->opts.client.secret,
					 &t->opts.client.secret_bytes);
	if (t->opts.client.secret)
		base_secret_warn("translate", t->secret);
	return code;
}

static const struct base_option table[] = {
	BASE_LIST("collector", 'c', &set.collectors, "WHERE",
		  "unix:PATH or HOST:PORT of a store server; repeatable: keys are spread over all "
		  "of them"),
	BASE_UINT("replicas", 'r', &set.opts.replicas, 1, 8, "N",
		  "write each report to N collectors that follow each other on the hash ring "
		  "(default 1)"),
	BASE_STRING("gaps", 0, &set.gaps, "FILE",
		    "with --replicas: record in this file which reports a collector missed, so "
		    "that this survives restarts"),
	BASE_LIST("listen", 'l', &set.listen, "HOST:PORT",
		  "receive reports at this address; repeatable (default 127.0.0.1:40040, or any "
		  "address with --allow-from or --insecure-listen)"),
	BASE_LIST("input", 'i', &set.input, "KIND[=HOST:PORT]",
		  "receive telemetry of network devices: ipfix, netflow (versions 5 and 9), sflow "
		  "or int; repeatable (default: the standard port of the protocol). With --pcap: "
		  "read datagrams to this port from the files"),
	BASE_LIST("allow-from", 0, &set.allow_from, "CIDR[,CIDR]...",
		  "accept packets only from these networks, such as 10.0.0.0/8; repeatable"),
	BASE_FLAG("insecure-listen", 0, &set.insecure,
		  "let any host that can reach an address of --listen or --input send packets"),
	BASE_STRING("map", 0, &set.map, "FILE",
		    "convert the input to reports by the rules in this file (default: those of "
		    "--print-map)"),
	BASE_FLAG("print-map", 0, &set.print_map, "print the default rules and exit"),
	BASE_LIST("xdp", 'x', &set.xdp, "NAME[:QUEUE]",
		  "receive reports for --listen from this interface by AF_XDP, bypassing the "
		  "kernel; repeatable"),
	BASE_STRING("xdp-mode", 0, &set.xdp_mode, "MODE",
		    "native or generic XDP (default: native if the driver supports it)"),
	BASE_LIST("pcap", 0, &set.pcap, "FILE",
		  "translate the reports captured in this file, or what the devices of --input "
		  "sent, and exit; repeatable"),
	BASE_UINT("port", 0, &set.port, 1, 65535, "N", "UDP port of captured reports"),
	BASE_STRING("output", 'o', &set.output, "HOW", "write to stores by shm, verbs or raw"),
	BASE_STRING("rdma-host", 0, &set.opts.client.verbs.host, "HOST",
		    "connect verbs to this host (default: the collector's HOST)"),
	BASE_STRING("device", 0, &set.opts.client.verbs.device, "NAME",
		    "RDMA device for verbs (default: by route)"),
	CLI_OPTIONS_RDMA_PORT(&set.opts.client.verbs.gid_index, &set.opts.client.verbs.ib_port,
			      "by route"),
	BASE_STRING("raw-interface", 0, &set.opts.client.raw.interface, "NAME",
		    "send raw frames out of this interface"),
	BASE_FLAG("raw-xdp", 0, &set.opts.client.raw.xdp,
		  "send raw frames by AF_XDP, bypassing the kernel's network stack"),
	BASE_STRING("raw-file", 0, &set.opts.client.raw.file, "FILE",
		    "write raw frames to this pcap file"),
	BASE_STRING("legacy", 0, &set.legacy, "FORM",
		    "also accept packets in form a or b of the original implementation"),
	BASE_UINT("legacy-hops", 0, &set.opts.legacy_hops, 1, 64, "N",
		  "hops per path of the original implementation"),
	BASE_UINT("workers", 'w', &set.workers, 1, WORKERS_MAX, "N",
		  "number of threads, each a translator with its own lane"),
	BASE_STRING("name", 'n', &set.name, "NAME",
		    "name of this translator, which identifies its lanes and the destination of "
		    "packets with a MAC (default: the host name)"),
	BASE_STRING("secret", 0, &set.secret, "FILE",
		    "secret shared with the collector, for a connection over TCP"),
	BASE_UINT("reporters", 0, &set.opts.loss.reporters, 1, 1u << 24, "N",
		  "track at most this many reporters per worker, with and without MACs each "
		  "(default 16384)"),
	BASE_UINT("window", 0, &set.opts.loss.window, 64, 1u << 20, "N",
		  "accept reports up to N sequence numbers late, a power of two (default 4096)"),
	BASE_TIME("nack", 0, &set.opts.loss.nack_ns, 0, 0, "DURATION",
		  "ask for missing reports after this time (default 2ms)"),
	BASE_TIME("flush", 0, &set.opts.client.engine.flush_ns, 0, 0, "DURATION",
		  "write a partial batch after this time (default 1ms)"),
	BASE_TIME("path-timeout", 0, &set.opts.client.engine.path_ns, 0, 0, "DURATION",
		  "write a path with missing hops after this time (default 10ms)"),
	BASE_SIZE("receive-buffer", 0, &set.buffer, 0, 1u << 30, "SIZE",
		  "receive buffer per socket (default 16M)"),
	BASE_FLAG("json", 'j', &set.json, "print the final account of packets and reports as JSON"),
	CLI_OPTION_UNCONFINED(&set.unconfined),
	{0},
};

static int run(const struct base_command *cmd, int argc, char **argv)
{
	int code;

	set.cmd = cmd;
	if (!base_options_only(cmd, table, argc, argv, &code))
		return code;
	if (set.print_map) {
		fputs(dta_map_default, stdout);
		return cli_output_end(cmd, BASE_EXIT_OK);
	}
	code = check_options(&set);
	if (code != BASE_EXIT_OK)
		return code;
	set.stop = base_stop_fd();
	if (set.stop < 0)
		return base_failure(cmd, "%s", strerror(-set.stop));
	signal(SIGPIPE, SIG_IGN);
	code = run_translator(&set);
	for (uint32_t i = 0; i < set.made; i++)
		dta_worker_free(set.worker[i]);
	dta_gap_file_close(set.opts.gaps);
	dta_steer_free(set.opts.steer);
	dta_paths_free(set.opts.paths);
	dta_rates_free(set.opts.rates);
	dta_map_free(set.devices);
	free(set.allow);
#if HAVE_XDP
	dta_xdp_close(set.at);
#endif
	close(set.stop);
	return code;
}

const struct base_command cli_cmd_translate = {
	.name = "translate",
	.synopsis = "--collector WHERE [OPTION]...",
	.summary = CLI_SUMMARY_TRANSLATE,
	.run = run,
};
