/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c - the translator's side of the control channel. What the owner says is checked before it
 * is used: an owner that is mistaken costs itself its reports, and the translator nothing.
 *
 * A connection is a session. What a session did not name by its "ready" is gone: stores and objects
 * of the one before are kept until then, so that a store that comes back goes on with what waits
 * for it.
 */
#include "dta/translate/client.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <nettle/hmac.h>

#include "base/base.h"
#include "base/text.h"
#include "dta/translate/client_internal.h"
#include "dta/store/store.h"

#define LOG		 "translate"
#define BACKOFF_MIN_NS	 50000000ull
#define BACKOFF_MAX_NS	 2000000000ull
#define MESSAGES_A_DRIVE 64
#define CONGESTED \
	1024u /* operations: as many as an output has on the way, of twice that it has room for */

/* ---- connection ---- */

static void lose(struct dta_client *c, uint64_t now, const char *why)
{
	if (c->line)
		dta_control_line_free(c->line);
	c->line = NULL;
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->welcome = c->ready = false;
	c->rotations = 0;
	c->up = false;
	/* Its queue pair dies with the session: the next welcome names another. */
	if (c->opts.output == DTA_CLIENT_VERBS)
		dta_client_output_close(c);
	c->retry_ns = now + c->backoff_ns;
	base_log_limited(BASE_WARN, LOG,
			 "no collector: %s; its reports are dropped until it is back collector=%s",
			 why, c->opts.collector);
	c->backoff_ns = c->backoff_ns * 2 < BACKOFF_MAX_NS ? c->backoff_ns * 2 : BACKOFF_MAX_NS;
}

static void say(struct dta_client *c, json_t *message)
{
	if (!c->line || !message)
		json_decref(message);
	else
		dta_control_line_write(c->line, message, -1);
}

static void hello(struct dta_client *c)
{
	static const char *const outputs[] = {"shm", "verbs", "raw"};
	char hex[2 * sizeof(c->nonce) + 1];

	if (getrandom(c->nonce, sizeof(c->nonce), 0) != sizeof(c->nonce))
		memset(c->nonce, 0,
		       sizeof(c->nonce)); /* the owner's nonce is the one that proves */
	base_hex(hex, c->nonce, sizeof(c->nonce));
	say(c, json_pack("{s:s, s:i, s:s, s:s, s:s, s:s}", "type", "hello", "version",
			 DTA_CONTROL_VERSION, "name", c->opts.name, "output",
			 outputs[c->opts.output], "nonce", hex, "called", c->opts.collector));
}

static void begin(struct dta_client *c, uint64_t now)
{
	const struct sockaddr *to = (const struct sockaddr *)&c->address;

	c->fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0) {
		lose(c, now, strerror(errno));
		return;
	}
	c->connecting = true;
	c->begun_ns = now;
	/* A unix socket whose queue is full says EAGAIN, and is tried again as if nobody were
	 * there. */
	if (connect(c->fd, to, c->address_bytes) && errno != EINPROGRESS)
		lose(c, now, strerror(errno));
}

static void established(struct dta_client *c, uint64_t now)
{
	int err = 0, fd = c->fd;
	socklen_t bytes = sizeof(err);
	struct sockaddr_storage peer;
	socklen_t peer_bytes = sizeof(peer);

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &bytes);
	if (err) {
		lose(c, now, strerror(err));
		return;
	}
	if (getpeername(fd, (struct sockaddr *)&peer, &peer_bytes)) {
		if (now - c->begun_ns > BACKOFF_MAX_NS)
			lose(c, now, "no answer to the connection");
		return;
	}
	c->connecting = false;
	c->line = dta_control_line_new(fd);
	if (!c->line) {
		lose(c, now, strerror(ENOMEM));
		return;
	}
	c->fd = -1; /* the line's */
	c->session++;
	hello(c);
}

/* ---- objects and stores ---- */

static struct dta_client_object *find_object(struct dta_client *c, uint32_t number)
{
	for (uint32_t i = 0; i < c->objects; i++)
		if (c->object[i]->o.number == number && c->object[i]->session == c->session)
			return c->object[i];
	return NULL;
}

static void drop_object(struct dta_client *c, uint32_t i)
{
	struct dta_client_object *o = c->object[i];

	if (o->o.map)
		munmap(o->o.map, o->o.bytes);
	free(o);
	c->object[i] = c->object[--c->objects];
}

/* Objects that no store lies in any more; of this session, only those that a store did lie in. */
static void sweep(struct dta_client *c)
{
	for (uint32_t i = c->objects; i-- > 0;) {
		bool used = false;

		for (uint32_t s = 0; s < c->stores; s++)
			used |= c->store[s].object == c->object[i];
		if (!used && (c->object[i]->used || c->object[i]->session != c->session))
			drop_object(c, i);
	}
}

static const char *got_object(struct dta_client *c, const json_t *m, int fd)
{
	const json_int_t number = json_integer_value(json_object_get(m, "number"));
	const json_int_t bytes = json_integer_value(json_object_get(m, "bytes"));
	struct dta_client_object *o;
	struct stat st;

	if (number < 0 || number > UINT32_MAX || bytes < 4096 ||
	    (uint64_t)bytes > SL_STORE_SIZE_MAX)
		return "an object of a wrong number or size";
	if (find_object(c, (uint32_t)number))
		return "an object's number given twice";
	if (c->objects == CLIENT_OBJECTS_MAX)
		return "too many objects";
	o = calloc(1, sizeof(*o));
	if (!o)
		return "no memory";
	o->session = c->session;
	o->o.number = (uint32_t)number;
	o->o.bytes = (uint64_t)bytes;
	o->o.addr = (uint64_t)json_integer_value(json_object_get(m, "addr"));
	o->o.rkey = (uint32_t)json_integer_value(json_object_get(m, "rkey"));
	if (c->opts.output == DTA_CLIENT_SHM) {
		if (fd < 0 || fstat(fd, &st) || st.st_size < bytes) {
			free(o);
			return "an object without a descriptor, or shorter than said";
		}
		o->o.map = dta_store_map(fd, (uint64_t)bytes, true);
		if (o->o.map == MAP_FAILED) {
			free(o);
			return "an object that can't be mapped";
		}
	}
	c->object[c->objects++] = o;
	return NULL;
}

/* next: of each list; NULL with *why NULL if there is none. */
static uint64_t *next_blocks(const json_t *m, uint32_t lists, const char **why)
{
	const json_t *all = json_object_get(m, "next");
	uint64_t *next;

	*why = NULL;
	if (!all)
		return NULL;
	if (json_array_size(all) != lists) {
		*why = "a store with next blocks of another number of lists";
		return NULL;
	}
	next = calloc(lists, sizeof(*next));
	if (!next) {
		*why = "no memory";
		return NULL;
	}
	for (uint32_t i = 0; i < lists; i++) {
		const json_int_t v = json_integer_value(json_array_get(all, i));

		next[i] = v > 0 ? (uint64_t)v : 0;
	}
	return next;
}

static struct dta_client_store *known_store(struct dta_client *c, uint16_t tenant, uint16_t id)
{
	for (uint32_t i = 0; i < c->stores; i++)
		if (c->store[i].tenant == tenant && c->store[i].id == id)
			return &c->store[i];
	return NULL;
}

static const char *got_store(struct dta_client *c, const json_t *m)
{
	const json_int_t number = json_integer_value(json_object_get(m, "object"));
	const json_int_t epoch = json_integer_value(json_object_get(m, "epoch"));
	const char *hex = json_string_value(json_object_get(m, "config")), *why;
	struct sl_store_config config;
	struct dta_client_object *o = NULL;
	struct dta_client_store *s;
	uint32_t lane = 0;
	uint64_t *next;
	int err;

	if (number >= 0 && number <= UINT32_MAX)
		o = find_object(c, (uint32_t)number);
	if (!o)
		return "a store in an object that was not named";
	if (!hex || base_unhex(&config, hex, sizeof(config)) || epoch < 0)
		return "a store without configuration";
	if (dta_store_config_check(&config, c->said, sizeof(c->said)))
		return c->said;
	if (dta_store_object_bytes(&config) > o->o.bytes)
		return "a store that is larger than its object";
	/* All write into the same units of the other kinds. */
	if (config.kind == SL_STORE_APPEND || config.kind == SL_STORE_SKETCH)
		lane = c->lane;
	if (lane >= config.lanes)
		return "a lane that the store has not";
	s = known_store(c, config.tenant, config.id);
	if (!s && c->stores == CLIENT_STORES_MAX)
		return "too many stores";
	next = next_blocks(m, config.lists, &why);
	if (why)
		return why;
	err = dta_engine_store(c->engine, &config, &o->o, lane, (uint64_t)epoch, next);
	free(next);
	if (err)
		return err == -ENOMEM ? "no memory for a store"
				      : "a store that does not fit its object";
	if (!s) {
		s = &c->store[c->stores++];
		s->tenant = config.tenant;
		s->id = config.id;
	}
	s->object = o;
	s->session = c->session;
	c->tenant[config.tenant / 64] |= 1ull << config.tenant % 64;
	o->used = true;
	sweep(c);
	return NULL;
}

static void got_ready(struct dta_client *c)
{
	for (uint32_t i = c->stores; i-- > 0;)
		if (c->store[i].session != c->session) {
			dta_engine_remove(c->engine, c->store[i].tenant, c->store[i].id);
			c->store[i] = c->store[--c->stores];
		}
	sweep(c);
	c->ready = true;
	c->backoff_ns = BACKOFF_MIN_NS;
	base_logf(BASE_INFO, LOG, "writing collector=%s stores=%u lane=%u", c->opts.collector,
		  c->stores, c->lane);
}

/* ---- rotation: what was given before must be complete before we say so ---- */

static uint64_t settled(const struct dta_client *c)
{
	struct dta_output_stats s = {0};

	c->out->ops->stats(c->out, &s);
	return s.completed + s.failed + s.unconfirmed;
}

static const char *got_rotate(struct dta_client *c, const json_t *m)
{
	const json_int_t tenant = json_integer_value(json_object_get(m, "tenant"));
	const json_int_t store = json_integer_value(json_object_get(m, "store"));
	const json_int_t epoch = json_integer_value(json_object_get(m, "epoch"));
	struct dta_client_rotation *r;

	if (tenant < 0 || tenant > UINT16_MAX || store < 0 || store > UINT16_MAX || epoch < 0)
		return "a rotation of nothing";
	if (c->rotations == CLIENT_STORES_MAX)
		return "too many rotations at a time";
	/* A store that was never given has nothing to be drained: the answer is true all the same.
	 */
	dta_engine_rotate(c->engine, (uint16_t)tenant, (uint16_t)store, (uint64_t)epoch);
	c->out->ops->flush(c->out);
	r = &c->rotation[c->rotations++];
	r->tenant = (uint16_t)tenant;
	r->store = (uint16_t)store;
	r->epoch = (uint64_t)epoch;
	r->settled = settled(c) + c->out->ops->outstanding(c->out);
	return NULL;
}

static void answer_rotations(struct dta_client *c)
{
	for (uint32_t i = 0; i < c->rotations;) {
		const struct dta_client_rotation *r = &c->rotation[i];

		if (c->out->ops->outstanding(c->out) && settled(c) < r->settled) {
			i++;
			continue;
		}
		say(c,
		    json_pack("{s:s, s:i, s:i, s:I}", "type", "rotated", "tenant", (int)r->tenant,
			      "store", (int)r->store, "epoch", (json_int_t)r->epoch));
		c->rotation[i] = c->rotation[--c->rotations];
	}
}

/* ---- messages ---- */

static const char *got_challenge(struct dta_client *c, const json_t *m)
{
	const char *hex = json_string_value(json_object_get(m, "nonce"));
	uint8_t nonces[2 * CLIENT_NONCE_MAX], mac[32];
	char text[2 * sizeof(mac) + 1];
	struct hmac_sha256_ctx hmac;
	size_t bytes = hex ? strlen(hex) / 2 : 0;

	if (!bytes || bytes > CLIENT_NONCE_MAX)
		return "a challenge without a nonce";
	if (!c->opts.secret)
		return "the collector asks for a secret; give --secret FILE";
	memcpy(nonces, c->nonce, sizeof(c->nonce));
	if (base_unhex(nonces + sizeof(c->nonce), hex, bytes))
		return "a challenge that is not hexadecimal";
	hmac_sha256_set_key(&hmac, c->opts.secret_bytes, c->opts.secret);
	hmac_sha256_update(&hmac, sizeof(c->nonce) + bytes, nonces);
	hmac_sha256_digest(&hmac, sizeof(mac), mac);
	base_hex(text, mac, sizeof(mac));
	say(c, json_pack("{s:s, s:s}", "type", "proof", "mac", text));
	return NULL;
}

static const char *got_welcome(struct dta_client *c, const json_t *m)
{
	const json_int_t lane = json_integer_value(json_object_get(m, "lane"));
	const json_int_t port = json_integer_value(json_object_get(m, "port"));

	if (json_integer_value(json_object_get(m, "version")) != DTA_CONTROL_VERSION)
		return "another version of the control channel";
	if (lane < 0 || lane >= SL_STORE_LANES_MAX || port < 0 || port > UINT16_MAX)
		return "a welcome with a wrong lane or port";
	c->lane = (uint32_t)lane;
	c->port = (uint16_t)port;
	c->instance = (uint64_t)json_integer_value(json_object_get(m, "instance"));
	c->welcome = true;
	memset(c->tenant, 0, sizeof(c->tenant));
	return dta_client_output_open(c);
}

static const char *got_tenant(struct dta_client *c, const json_t *m)
{
	const json_int_t tenant = json_integer_value(json_object_get(m, "tenant"));
	const json_int_t rate = json_integer_value(json_object_get(m, "rate"));
	const json_int_t burst = json_integer_value(json_object_get(m, "burst"));
	const json_t *keys = json_object_get(m, "keys"), *key;
	size_t i;

	if (tenant < 0 || tenant > UINT16_MAX || rate < 0 || burst < 0)
		return "a tenant of a wrong number or rate";
	c->tenant[tenant / 64] |= 1ull << tenant % 64;
	if (dta_engine_limit(c->engine, (uint16_t)tenant, (uint64_t)rate, (uint64_t)burst))
		return "too many tenants";
	if (c->opts.tenant)
		c->opts.tenant(c->opts.arg, (uint16_t)tenant,
			       json_is_true(json_object_get(m, "required")));
	json_array_foreach(keys, i, key)
	{
		const char *hex = json_string_value(json_object_get(key, "key"));
		const json_t *reporter = json_object_get(key, "reporter");
		uint8_t bytes[64];

		if (json_is_null(json_object_get(key, "key"))) {
			if (c->opts.key)
				c->opts.key(c->opts.arg, (uint16_t)tenant,
					    reporter ? json_integer_value(reporter) : -1, NULL, 0);
			continue;
		}
		if (!hex || strlen(hex) / 2 > sizeof(bytes) ||
		    base_unhex(bytes, hex, strlen(hex) / 2))
			return "a key that is none";
		if (c->opts.key)
			c->opts.key(c->opts.arg, (uint16_t)tenant,
				    reporter ? json_integer_value(reporter) : -1, bytes,
				    strlen(hex) / 2);
	}
	return NULL;
}

/* NULL, or what is wrong with it: the session ends then. */
static const char *got(struct dta_client *c, const json_t *m, int fd, uint64_t now)
{
	const char *type = json_string_value(json_object_get(m, "type"));

	if (!type)
		return "a message without a type";
	if (!strcmp(type, "challenge"))
		return got_challenge(c, m);
	if (!strcmp(type, "welcome"))
		return got_welcome(c, m);
	if (!strcmp(type, "bye") || !strcmp(type, "error")) {
		const char *why = json_string_value(json_object_get(m, "why"));

		/* Text of the owner's: of printable ASCII only. */
		snprintf(c->said, sizeof(c->said), "%s", why ? why : type);
		for (char *s = c->said; *s; s++)
			if (*s < ' ' || *s > '~')
				*s = '?';
		c->backoff_ns = BACKOFF_MAX_NS;
		return c->said;
	}
	if (!c->welcome || !c->out)
		return NULL; /* not known before the welcome */
	if (!strcmp(type, "object"))
		return got_object(c, m, fd);
	if (!strcmp(type, "store"))
		return got_store(c, m);
	if (!strcmp(type, "rotate"))
		return got_rotate(c, m);
	if (!strcmp(type, "tenant"))
		return got_tenant(c, m);
	if (!strcmp(type, "queue"))
		return dta_client_output_queue(c, m);
	if (!strcmp(type, "ready"))
		got_ready(c);
	(void)now;
	return NULL;
}

static void read_messages(struct dta_client *c, uint64_t now)
{
	for (int i = 0; i < MESSAGES_A_DRIVE && c->line; i++) {
		const char *wrong;
		int fd = -1;
		json_t *m = dta_control_line_read(c->line, &fd);

		if (!m) {
			if (fd >= 0)
				close(fd);
			if (errno != EAGAIN)
				lose(c, now,
				     errno == EPIPE ? "it has closed the connection"
						    : strerror(errno));
			return;
		}
		wrong = got(c, m, fd, now);
		if (fd >= 0)
			close(fd);
		json_decref(m);
		if (wrong)
			lose(c, now, wrong);
	}
}

/* ---- the public part ---- */

static int find_collector(struct dta_client *c, char *error, size_t error_bytes)
{
	const char *at = c->opts.collector;
	struct sockaddr_un *un = (struct sockaddr_un *)&c->address;
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
	char host[256], service[8];
	uint16_t port;
	int err;

	if (!strncmp(at, "unix:", 5) || *at == '/') {
		at += *at == '/' ? 0 : 5;
		if (!*at || strlen(at) >= sizeof(un->sun_path)) {
			snprintf(error, error_bytes, "'%s': a socket's path has 1 to %zu bytes", at,
				 sizeof(un->sun_path) - 1);
			return -EINVAL;
		}
		un->sun_family = AF_UNIX;
		strcpy(un->sun_path, at);
		c->address_bytes = sizeof(*un);
		if (c->opts.output == DTA_CLIENT_VERBS && !c->opts.rdma_host) {
			snprintf(error, error_bytes,
				 "'%s': to which host by RDMA? Give --rdma-host", at);
			return -EINVAL;
		}
		return 0;
	}
	if (c->opts.output == DTA_CLIENT_SHM) {
		snprintf(error, error_bytes, "'%s': output shm goes to unix:PATH only", at);
		return -EINVAL;
	}
	if (base_parse_address(at, host, sizeof(host), &port) || !port) {
		snprintf(error, error_bytes, "'%s' is neither unix:PATH nor HOST:PORT", at);
		return -EINVAL;
	}
	snprintf(c->host, sizeof(c->host), "%s", *host ? host : "localhost");
	snprintf(service, sizeof(service), "%u", port);
	err = getaddrinfo(c->host, service, &hints, &found);
	if (err) {
		snprintf(error, error_bytes, "%s: %s", c->host, gai_strerror(err));
		return -EINVAL;
	}
	memcpy(&c->address, found->ai_addr, found->ai_addrlen);
	c->address_bytes = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

struct dta_client *dta_client_new(const struct dta_client_opts *opts, char *error,
				  size_t error_bytes)
{
	struct dta_client *c = calloc(1, sizeof(*c));
	int err = -ENOMEM;

	snprintf(error, error_bytes, "no memory");
	if (!c)
		return NULL;
	c->opts = *opts;
	c->fd = -1;
	c->backoff_ns = BACKOFF_MIN_NS;
	err = find_collector(c, error, error_bytes);
	if (err)
		goto fail;
	/* The engine stays for good, whatever output is behind it: what waits survives a new
	 * connection. */
	c->front.output.ops = &dta_client_front_ops;
	c->front.client = c;
	snprintf(error, error_bytes, "no memory");
	if (opts->output == DTA_CLIENT_SHM) {
		err = dta_client_output_shm(c);
		if (err)
			goto fail;
	}
	c->engine = dta_engine_new(&opts->engine, c->out ? c->out : &c->front.output);
	if (!c->engine) {
		err = -errno;
		goto fail;
	}
	return c;
fail:
	dta_client_output_close(c);
	free(c);
	errno = -err;
	return NULL;
}

void dta_client_free(struct dta_client *c)
{
	if (!c)
		return;
	dta_engine_free(c->engine);
	dta_client_output_close(c);
	if (c->line)
		dta_control_line_free(c->line);
	if (c->fd >= 0)
		close(c->fd);
	c->stores = 0;
	c->session++;
	sweep(c);
	free(c);
}

void dta_client_drive(struct dta_client *c, uint64_t now)
{
	if (c->fd < 0 && !c->line) {
		if (now < c->retry_ns)
			return;
		begin(c, now);
	}
	if (c->connecting && c->fd >= 0)
		established(c, now);
	if (!c->line)
		return;
	read_messages(c, now);
	if (c->line && c->out) {
		dta_client_output_drive(c, now);
		answer_rotations(c);
		dta_client_output_notify(c);
	}
	/* What did not fit is sent on; a peer that is gone shows when it is read from. */
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
	return s.waiting || c->rotations || c->out->ops->outstanding(c->out);
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

void dta_client_tick(struct dta_client *c, uint64_t now_ns)
{
	if (dta_client_ready(c))
		dta_engine_tick(c->engine, now_ns);
}

bool dta_client_settled(const struct dta_client *c, struct dta_client_mark *m)
{
	const uint64_t outstanding = c->out ? c->out->ops->outstanding(c->out) : 0;
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
	       e.dropped[DTA_DROP_OUTPUT_FAILED];
}

bool dta_client_congested(const struct dta_client *c)
{
	return dta_client_ready(c) && c->out->ops->outstanding(c->out) > CONGESTED;
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
	/* Of a sketch's next epoch some may wait for ever. */
	return dta_engine_oldest(c->engine) == UINT64_MAX && (dta_client_ready(c) || !s.waiting) &&
	       (!c->out || !c->out->ops->outstanding(c->out));
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
	if (j && !json_object_set_new(j, "type", json_string("account")))
		say(c, j);
	else
		json_decref(j);
}
