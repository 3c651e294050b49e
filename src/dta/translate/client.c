/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c - the translator's side of the control channel. Messages are checked before use, so a
 * faulty store server loses its own reports but can do no other harm.
 *
 * Each connection is a session. At "ready", stores and objects that the session did not announce
 * are removed. Until then, stores and objects of the previous session stay, so that reports can
 * wait for a store that is announced again.
 */
#include "dta/translate/client.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/text.h"
#include "dta/store/guard.h"
#include "dta/translate/client_internal.h"

#define LOG		   "translate"
#define BACKOFF_MAX_NS	   2000000000ull
#define PROOF_NS	   20000000000ull
#define LOOKUP_NS	   2000000000ull
#define MESSAGES_PER_DRIVE 64
#define CONGESTED	   1024u /* operations: the default depth, half of the output's ring */

/* ---- connection ---- */

static void end_session(struct dta_client *c, uint64_t now, const char *why)
{
	dta_control_line_free(c->line);
	c->line = NULL;
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->welcome = c->ready = false;
	c->rotations = 0;
	c->up = false;
	/* The queue pair ends with the session; the next welcome will name another. */
	if (c->opts.output == DTA_CLIENT_VERBS)
		dta_client_output_close(c);
	c->retry_ns = now + c->backoff_ns;
	base_log_limited(BASE_WARN, LOG,
			 "the collector is not available: %s; until it returns, other collectors "
			 "get its reports, or they are dropped if none is up collector=%s",
			 why, c->opts.collector);
	c->backoff_ns = c->backoff_ns * 2 < BACKOFF_MAX_NS ? c->backoff_ns * 2 : BACKOFF_MAX_NS;
}

bool dta_client_send(struct dta_client *c, json_t *message)
{
	if (c->line && message)
		return !dta_control_line_write(c->line, message, -1);
	json_decref(message);
	return false;
}

static bool is_local(const struct dta_client *c)
{
	return c->address.to.ss_family == AF_UNIX;
}

/* Whether the collector is authenticated. */
static bool is_trusted(const struct dta_client *c)
{
	return is_local(c) || dta_control_line_proved(c->line);
}

static const char *output_name(const struct dta_client *c)
{
	static const char *const outputs[] = {"shm", "verbs", "raw"};

	return outputs[c->opts.output];
}

static void send_hello(struct dta_client *c)
{
	dta_client_send(c, json_pack("{s:s, s:i, s:s, s:s, s:s, s:i, s:I}", "type", "hello",
				     "version", DTA_CONTROL_VERSION, "name", c->opts.name, "output",
				     output_name(c), "called", c->opts.collector, "replicas",
				     (int)c->opts.replicas, "run", (json_int_t)c->run));
}

/*
 * Resolves the collector's name again, because the collector may have moved to another address.
 * Returns false while this takes time. Without an answer, the previous address is tried.
 */
static bool find_again(struct dta_client *c, uint64_t now)
{
	struct sockaddr_storage to;
	int code;

	if (is_local(c))
		return true;
	if (!c->lookup_ns)
		c->lookup_ns = now;
	code = fabric_lookup(&c->lookup, c->address.host, c->address.port, &to);
	if (code == EAI_INPROGRESS && now - c->lookup_ns < LOOKUP_NS)
		return false;
	c->lookup_ns = 0;
	if (!code) {
		c->address.to = to;
		c->address.bytes = sizeof(to);
	} else {
		base_log_limited(BASE_WARN, LOG,
				 "cannot resolve the name of the collector: %s; trying its "
				 "previous address collector=%s",
				 code == EAI_INPROGRESS ? "no answer" : gai_strerror(code),
				 c->opts.collector);
	}
	return true;
}

static void start_connect(struct dta_client *c, uint64_t now)
{
	const struct sockaddr *to = (const struct sockaddr *)&c->address.to;

	c->fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0) {
		end_session(c, now, strerror(errno));
		return;
	}
	c->connecting = true;
	c->begun_ns = now;
	/* EAGAIN, from a unix socket with a full queue, is handled like any other failure. */
	if (connect(c->fd, to, c->address.bytes) && errno != EINPROGRESS)
		end_session(c, now, strerror(errno));
}

static void note_established(struct dta_client *c, uint64_t now)
{
	int err = 0, fd = c->fd;
	socklen_t bytes = sizeof(err);
	struct sockaddr_storage peer;
	socklen_t peer_bytes = sizeof(peer);

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &bytes);
	if (err) {
		end_session(c, now, strerror(err));
		return;
	}
	if (getpeername(fd, (struct sockaddr *)&peer, &peer_bytes)) {
		if (now - c->begun_ns > BACKOFF_MAX_NS)
			end_session(c, now, "connection timed out");
		return;
	}
	c->connecting = false;
	c->line = dta_control_line_new(fd);
	if (c->line)
		c->fd = -1; /* the socket now belongs to line */
	if (!c->line ||
	    (c->opts.secret && !is_local(c) &&
	     dta_control_line_tls(c->line, c->opts.secret, c->opts.secret_bytes, false))) {
		end_session(c, now, strerror(ENOMEM));
		return;
	}
	c->session++;
	send_hello(c);
}

/* ---- messages ---- */

static const char *on_welcome(struct dta_client *c, const json_t *m)
{
	const json_int_t lane = json_integer_value(json_object_get(m, "lane"));
	const json_int_t port = json_integer_value(json_object_get(m, "port"));

	if (json_integer_value(json_object_get(m, "version")) != DTA_CONTROL_VERSION)
		return "unsupported version of the control channel";
	if (lane < 0 || lane >= SL_STORE_LANES_MAX || port < 0 || port > UINT16_MAX)
		return "the welcome has an invalid lane or port";
	c->lane = (uint32_t)lane;
	c->port = (uint16_t)port;
	c->instance = (uint64_t)json_integer_value(json_object_get(m, "instance"));
	c->welcome = true;
	memset(c->tenant, 0, sizeof(c->tenant));
	return dta_client_output_open(c);
}

/* Reads a key from the control channel. Returns false if it is invalid. */
static bool read_key(const json_t *m, struct dta_key_spec *k)
{
	const char *hex = json_string_value(json_object_get(m, "key"));
	const json_t *first = json_object_get(m, "reporter"), *last = json_object_get(m, "last");
	const json_int_t from = json_integer_value(first),
			 to = last ? json_integer_value(last) : from,
			 until = json_integer_value(json_object_get(m, "until"));

	if (from < 0 || from > UINT32_MAX || to < 0 || to > UINT32_MAX || until < 0)
		return false;
	*k = (struct dta_key_spec){.own = json_is_integer(first),
				   .first = (uint32_t)from,
				   .last = (uint32_t)to,
				   .until_ns = (uint64_t)until};
	return hex && !base_unhex(k->key, hex, DTA_KEY_BYTES);
}

static void free_keys(struct dta_key_spec *all, size_t n)
{
	if (all)
		explicit_bzero(all, n * sizeof(*all));
	free(all);
}

/* Returns NULL if the new keys are unusable; the previous ones then stay in use. */
static struct dta_key_spec *read_keys(struct dta_key_spec *all, uint16_t tenant, const json_t *keys,
				      size_t n)
{
	const char *wrong = n > DTA_KEYS_TENANT_MAX ? "too many" : NULL;

	for (size_t i = 0; i < n && !wrong; i++)
		if (!read_key(json_array_get(keys, i), &all[i]))
			wrong = "one of the keys is invalid";
	if (!wrong)
		wrong = dta_keys_check(all, n);
	if (wrong)
		base_log_limited(BASE_ERROR, LOG,
				 "cannot use the new keys: %s; the previous keys stay in use "
				 "tenant=%u",
				 wrong, tenant);
	return wrong ? NULL : all;
}

static const char *on_tenant(struct dta_client *c, const json_t *m)
{
	const json_int_t tenant = json_integer_value(json_object_get(m, "tenant"));
	const json_int_t rate = json_integer_value(json_object_get(m, "rate"));
	const json_int_t burst = json_integer_value(json_object_get(m, "burst"));
	const json_t *keys = json_object_get(m, "keys");
	struct dta_tenant_says says = {
		.rate = (uint64_t)rate,
		.burst = (uint64_t)burst,
		.required = json_is_true(json_object_get(m, "required")),
		.trusted = is_trusted(c),
	};
	struct dta_key_spec *all = NULL;

	if (tenant < 0 || tenant > UINT16_MAX || rate < 0 || burst < 0)
		return "a tenant has an invalid number or rate";
	c->tenant[tenant / 64] |= 1ull << tenant % 64;
	if (!c->opts.tenants)
		return NULL;
	if (says.trusted && keys) {
		says.n = json_array_size(keys);
		all = calloc(says.n + 1, sizeof(*all));
		says.unread = !all;
		if (all)
			says.keys = read_keys(all, (uint16_t)tenant, keys, says.n);
	}
	dta_tenants_set(c->opts.tenants, c->opts.number, c->session, (uint16_t)tenant, &says);
	free_keys(all, says.n);
	return NULL;
}

/* Handles a message. Returns NULL, or the reason why the session must end. */
static const char *handle_message(struct dta_client *c, const json_t *m, int fd)
{
	const char *type = json_string_value(json_object_get(m, "type"));

	if (!type)
		return "the message has no type";
	if (!strcmp(type, "welcome"))
		return on_welcome(c, m);
	if (!strcmp(type, "bye") || !strcmp(type, "error")) {
		dta_control_why(m, c->said, sizeof(c->said));
		c->backoff_ns = BACKOFF_MAX_NS;
		return c->said;
	}
	if (!c->welcome || !c->out)
		return NULL; /* ignore messages before the welcome */
	if (!strcmp(type, "object"))
		return dta_client_add_object(c, m, fd);
	if (!strcmp(type, "store"))
		return dta_client_add_store(c, m);
	if (!strcmp(type, "rotate"))
		return dta_client_rotate(c, m);
	if (!strcmp(type, "tenant"))
		return on_tenant(c, m);
	if (!strcmp(type, "queue"))
		return dta_client_output_queue(c, m);
	if (strcmp(type, "ready"))
		return NULL;
	dta_client_stores_ready(c);
	if (c->opts.tenants && is_trusted(c))
		dta_tenants_ready(c->opts.tenants, c->opts.number, c->session);
	return NULL;
}

/* Returns the reason why a connection closed, given the errno of reading. */
static const char *why_unreadable(int err)
{
	switch (err) {
	case EPIPE:
		return "the collector closed the connection";
	case EACCES:
		return "the collector could not authenticate: do both use the same secret file?";
	case EPROTONOSUPPORT:
		return "the collector does not use TLS: set a secret in its stores file, or update it";
	default:
		return strerror(err);
	}
}

static void read_messages(struct dta_client *c, uint64_t now)
{
	for (int i = 0; i < MESSAGES_PER_DRIVE && c->line; i++) {
		const char *wrong;
		int fd = -1;
		json_t *m = dta_control_line_read(c->line, &fd);

		if (!m) {
			if (fd >= 0)
				close(fd);
			if (errno != EAGAIN)
				end_session(c, now, why_unreadable(errno));
			return;
		}
		wrong = handle_message(c, m, fd);
		if (fd >= 0)
			close(fd);
		json_decref(m);
		if (wrong)
			end_session(c, now, wrong);
	}
}

/* ---- interface ---- */

static int find_collector(struct dta_client *c, char *error, size_t error_bytes)
{
	const char *at = c->opts.collector;
	int err = dta_control_resolve(at, &c->address, error, error_bytes);

	if (err)
		return err;
	if (is_local(c) && c->opts.output == DTA_CLIENT_VERBS && !c->opts.verbs.host)
		return base_fail(error, error_bytes, -EINVAL,
				 "'%s': RDMA needs a host name: specify --rdma-host", at);
	if (!is_local(c) && c->opts.output == DTA_CLIENT_SHM)
		return base_fail(error, error_bytes, -EINVAL, "'%s': output shm requires unix:PATH",
				 at);
	return 0;
}

struct dta_client *dta_client_new(const struct dta_client_opts *opts, char *error,
				  size_t error_bytes)
{
	struct dta_client *c = calloc(1, sizeof(*c));

	snprintf(error, error_bytes, "no memory");
	if (!c)
		return NULL;
	c->opts = *opts;
	c->fd = -1;
	c->backoff_ns = CLIENT_BACKOFF_MIN_NS;
	if (getrandom(&c->run, sizeof(c->run), 0) != sizeof(c->run) ||
	    (opts->output == DTA_CLIENT_SHM && !(c->out = dta_client_output_shm(c))))
		goto fail;
	/* The engine outlives its outputs, so that waiting reports survive a reconnect. */
	c->engine = dta_engine_new(&opts->engine, c->out);
	if (c->engine && !find_collector(c, error, error_bytes))
		return c;
fail:
	dta_client_free(c);
	return NULL;
}

void dta_client_free(struct dta_client *c)
{
	if (!c)
		return;
	fabric_lookup_end(&c->lookup);
	dta_client_output_close(c);
	dta_engine_free(c->engine);
	dta_control_line_free(c->line);
	if (c->fd >= 0)
		close(c->fd);
	c->stores = 0;
	c->session++;
	dta_client_sweep(c);
	free(c);
}

void dta_client_drive(struct dta_client *c, uint64_t now)
{
	if (c->fd < 0 && !c->line) {
		if (now < c->retry_ns || !find_again(c, now))
			return;
		start_connect(c, now);
	}
	if (c->connecting && c->fd >= 0)
		note_established(c, now);
	if (!c->line)
		return;
	read_messages(c, now);
	if (c->line && c->opts.secret && !is_trusted(c) && now - c->begun_ns > PROOF_NS)
		end_session(c, now, "the collector did not authenticate within 20 s");
	if (c->line && dta_client_taken_away(c))
		end_session(c, now, "another process removed the memory of its stores");
	if (c->line && c->out) {
		dta_client_output_drive(c, now);
		dta_client_output_notify(c);
		/* The store's next epochs wait for it, unless the session ends. */
		if (!dta_client_confirm_rotations(c))
			end_session(c, now, "could not confirm a new epoch");
	}
	/* Send the rest; reading will detect a lost peer. */
	if (c->line && dta_control_line_pending(c->line))
		dta_control_line_flush(c->line);
}

int dta_client_fd(const struct dta_client *c, bool *write)
{
	*write = c->line ? dta_control_line_pending(c->line) : c->connecting;
	return c->line ? dta_control_line_fd(c->line) : c->fd;
}

bool dta_client_ready(const struct dta_client *c)
{
	return c->ready && c->out && c->up;
}

bool dta_client_waiting(const struct dta_client *c)
{
	struct dta_engine_stats s;

	if (!dta_client_ready(c))
		return false;
	dta_engine_stats(c->engine, &s);
	return s.waiting || c->rotations || c->out->outstanding;
}

bool dta_client_tenant(const struct dta_client *c, uint16_t tenant)
{
	return !c->ready || c->tenant[tenant / 64] >> tenant % 64 & 1;
}

uint32_t dta_client_block(struct dta_client *c, uint16_t tenant, uint32_t reporter,
			  const struct dta_block *block, uint64_t now_ns)
{
	if (!dta_client_ready(c)) {
		c->down += block->count;
		return 0;
	}
	return dta_engine_block(c->engine, tenant, reporter, block, now_ns);
}

void dta_client_prefetch(const struct dta_client *c, const uint8_t *packet, size_t bytes)
{
	dta_engine_prefetch(c->engine, packet, bytes);
}

void dta_client_tick(struct dta_client *c, uint64_t now_ns)
{
	if (dta_client_ready(c))
		dta_engine_tick(c->engine, now_ns);
}

bool dta_client_settled(const struct dta_client *c, struct dta_client_mark *m)
{
	const uint64_t outstanding = c->out ? c->out->outstanding : 0;
	struct dta_output_stats s;
	uint64_t settled;

	if (!m->given && dta_engine_oldest(c->engine) <= m->since_ns)
		return false;
	dta_client_output_stats(c, &s);
	settled = s.completed + s.failed + s.unconfirmed;
	if (!m->given) {
		m->given = true;
		m->target = settled + outstanding;
	}
	return !outstanding || settled >= m->target;
}

uint64_t dta_client_lost(const struct dta_client *c)
{
	struct dta_engine_stats e;
	struct dta_output_stats o;

	dta_engine_stats(c->engine, &e);
	dta_client_output_stats(c, &o);
	return o.unconfirmed + o.failed + e.dropped[DTA_DROP_OUTPUT_DOWN] +
	       e.dropped[DTA_DROP_OUTPUT_FAILED] + dta_guard_total();
}

bool dta_client_congested(const struct dta_client *c)
{
	return dta_client_ready(c) && c->out->outstanding > CONGESTED;
}

bool dta_client_finish(struct dta_client *c, uint64_t now_ns)
{
	struct dta_engine_stats s;

	if (dta_client_ready(c)) {
		dta_engine_flush(c->engine);
		c->out->ops->flush(c->out);
	}
	dta_client_drive(c, now_ns);
	dta_engine_stats(c->engine, &s);
	/* Cells of a sketch's next epoch may wait indefinitely. */
	return dta_engine_oldest(c->engine) == UINT64_MAX && (dta_client_ready(c) || !s.waiting) &&
	       (!c->out || !c->out->outstanding);
}

void dta_client_give_up(struct dta_client *c)
{
	/* Otherwise it would repeat them after a reconnect, and nothing drives it until then. */
	if (c->opts.output == DTA_CLIENT_RAW && !c->opts.raw.file && !c->line)
		dta_client_output_close(c);
	dta_engine_drop_delayed(c->engine);
}

void dta_client_abandon(struct dta_client *c)
{
	if (c->opts.output != DTA_CLIENT_SHM)
		dta_client_output_close(c);
	while (c->stores) {
		c->stores--;
		dta_engine_remove(c->engine, c->store[c->stores].tenant, c->store[c->stores].id);
	}
}

void dta_client_account(const struct dta_client *c, struct dta_translate_account *a)
{
	dta_engine_stats(c->engine, &a->engine);
	a->engine.in += c->down;
	a->engine.dropped[DTA_DROP_OUTPUT_DOWN] += c->down;
	dta_client_output_stats(c, &a->output);
}

void dta_client_notify(struct dta_client *c, const struct dta_translate_account *a)
{
	json_t *j;

	if (!c->line || !c->welcome)
		return;
	j = dta_account_json(a);
	if (j && !json_object_set_new(j, "type", json_string("account")) &&
	    !json_object_set_new(j, "run", json_integer(c->run)))
		dta_client_send(c, j);
	else
		json_decref(j);
}

bool dta_client_welcomed(const struct dta_client *c)
{
	return c->line && c->welcome;
}
