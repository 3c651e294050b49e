// SPDX-License-Identifier: Apache-2.0
/* session.c - sessions with translators, which are untrusted until admitted */
#include "dta/store_server/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/budget.h"
#include "base/network.h"
#include "base/text.h"
#include "dta/query/query.h"
#include "dta/store_server/peer.h"
#include "dta/translate/translate.h"

#define MESSAGE_MAX 65536u	/* longest message from a translator; an account has about 2 KiB */
#define SCAN_NS	    50000000ull /* time limit for reading lanes while the lock is held */
#define SILENT_NS   5000000000ull /* a translator sends its account every second */

static const char *text_of(const json_t *m, const char *key)
{
	const char *s = json_string_value(json_object_get(m, key));

	return s ? s : "";
}

static bool send_to(struct dta_server_conn *c, json_t *message, int fd)
{
	return c->line && message && !dta_control_line_write(c->line, message, fd);
}

/* Builds a message from format and arguments, like json_pack(), and sends it. */
static bool send_packed(struct dta_server_conn *c, int fd, const char *format, ...)
{
	json_t *message;
	va_list args;

	va_start(args, format);
	message = json_vpack_ex(NULL, 0, format, args);
	va_end(args);
	return send_to(c, message, fd);
}

static bool refuse_connection(struct dta_server_conn *c, const char *why)
{
	if (!c->why)
		c->why = DTA_CONN_WRONG;
	send_packed(c, -1, "{s:s,s:s}", "type", "error", "why", why);
	return false;
}

/* ---- end of a session ---- */

void dta_store_server_disconnect(struct dta_store_server *o, struct dta_server_conn *c,
				 const char *why)
{
	if (!c->line)
		return;
	if (why)
		send_packed(c, -1, "{s:s,s:s}", "type", "bye", "why", why);
	if (c->state == CONN_WELCOMED)
		base_logf(BASE_INFO, "dta", "translator disconnected name=%s%s%s", c->name,
			  why ? " reason=" : "", why ? why : "");
	else if (c->state != CONN_READER)
		o->refused[c->why]++;
	dta_control_line_free(c->line);
	c->line = NULL;
	if (o->host && c->state == CONN_WELCOMED && strcmp(c->output, "shm"))
		dta_store_server_end_queues(o, c->name);
}

/*
 * Whether the translator can still write. A process keeps its mappings when its connection is lost.
 */
static bool may_write(const struct dta_store_server *o, const struct dta_server_conn *c)
{
	struct pollfd p = {c->pidfd, POLLIN, 0};

	if (c->state != CONN_WELCOMED)
		return false;
	if (strcmp(c->output, "shm"))
		return dta_store_server_has_queue(o, c->name);
	return c->pidfd >= 0 && poll(&p, 1, 0) == 0;
}

void dta_store_server_reap(struct dta_store_server *o)
{
	for (struct dta_server_conn **at = &o->conns; *at;) {
		struct dta_server_conn *c = *at;

		if (c->line || may_write(o, c)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		if (c->pidfd >= 0)
			close(c->pidfd);
		free(c);
		o->conn_count--;
	}
}

/* ---- stores ---- */

static json_t *next_blocks(const struct dta_store_view *v, uint32_t lane,
			   struct base_budget *budget)
{
	json_t *all = json_array();

	for (uint32_t list = 0; list < v->config->lists; list++)
		json_array_append_new(
			all, json_integer((json_int_t)dta_append_next(v, list, lane, budget)));
	return all;
}

static bool send_object(struct dta_server_conn *c, const struct dta_store_object *at)
{
	const bool shm = c->local && !strcmp(c->output, "shm");
	const struct dta_store_key *key = c->state == CONN_READER ? &at->readable : &at->writable;
	int own = -1;
	bool sent;

	/*
	 * Hand over a separate open file description. A shared one would keep our lock alive in the
	 * translator's mapping and lock out the next collector.
	 */
	if (shm && at->path) {
		own = open(at->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		if (own < 0)
			return false;
	}
	sent = send_packed(c,
			   !shm	      ? -1
			   : own >= 0 ? own
				      : at->fd,
			   "{s:s,s:I,s:I,s:I,s:I}", "type", "object", "number",
			   (json_int_t)at->number, "bytes", (json_int_t)at->map_bytes, "addr",
			   (json_int_t)key->addr, "rkey", (json_int_t)key->rkey);
	if (own >= 0)
		close(own);
	return sent;
}

/* next: the next block of each list; NULL means that the lists are empty. */
static bool send_store(struct dta_server_conn *c, const struct dta_server_store *s, json_t *next)
{
	const struct dta_store_object *at = s->objects;
	const struct sl_store_config *config = at->view.config;
	char bytes[2 * sizeof(*config) + 1];
	json_t *m;

	base_hex(bytes, config, sizeof(*config));
	m = json_pack("{s:s,s:I,s:I,s:s,s:I,s:I,s:s}", "type", "store", "tenant",
		      (json_int_t)config->tenant, "store", (json_int_t)config->id, "name",
		      s->spec->name, "object", (json_int_t)at->number, "epoch",
		      (json_int_t)s->epoch, "config", bytes);
	if (m && next)
		json_object_set(m, "next", next);
	return send_to(c, m, -1);
}

static bool send_epoch(struct dta_server_conn *c, const struct dta_server_store *s)
{
	return send_packed(c, -1, "{s:s,s:I,s:I,s:I}", "type", "rotate", "tenant",
			   (json_int_t)s->spec->config.tenant, "store",
			   (json_int_t)s->spec->config.id, "epoch", (json_int_t)s->epoch);
}

/* A translator that misses one of these announcements learns of it when it reconnects. */
void dta_store_server_notify_object(struct dta_store_server *o, struct dta_server_store *s,
				    bool empty)
{
	/* What takes longer is found without the lock, when the translator reconnects. */
	struct base_budget budget = {.end_ns = base_now_ns() + SCAN_NS, .samples = UINT64_MAX};
	const bool scan = !empty && s->spec->config.kind == SL_STORE_APPEND;

	for (struct dta_server_conn *c = o->conns; c; c = c->next) {
		json_t *next;

		if (!c->line || c->state != CONN_WELCOMED)
			continue;
		next = scan ? next_blocks(&s->objects->view, c->lane, &budget) : NULL;
		if (budget.err || !send_object(c, s->objects) || !send_store(c, s, next))
			dta_store_server_disconnect(o, c,
						    "could not announce the new memory of a "
						    "store");
		json_decref(next);
	}
}

void dta_store_server_notify_epoch(struct dta_store_server *o, struct dta_server_store *s)
{
	for (struct dta_server_conn *c = o->conns; c; c = c->next)
		if (c->line && c->state == CONN_WELCOMED && !send_epoch(c, s))
			dta_store_server_disconnect(o, c, "could not announce a new epoch");
}

static json_t *keys_json(const struct dta_tenant_spec *t)
{
	json_t *all = json_array();

	for (size_t i = 0; i < t->key_count; i++) {
		const struct dta_key_spec *k = &t->keys[i];
		char hex[2 * DTA_KEY_BYTES + 1];
		json_t *j;

		base_hex(hex, k->key, DTA_KEY_BYTES);
		j = json_pack("{s:s}", "key", hex);
		if (k->own) {
			json_object_set_new(j, "reporter", json_integer(k->first));
			json_object_set_new(j, "last", json_integer(k->last));
		}
		if (k->until_ns)
			json_object_set_new(j, "until", json_integer((json_int_t)k->until_ns));
		json_array_append_new(all, j);
		explicit_bzero(hex, sizeof(hex));
	}
	return all;
}

static bool send_tenants(const struct dta_store_server *o, struct dta_server_conn *c)
{
	for (size_t i = 0; i < o->config->tenant_count; i++) {
		const struct dta_tenant_spec *t = &o->config->tenants[i];
		/* Send keys only to authenticated translators. */
		json_t *keys = c->local || dta_control_line_proved(c->line) ? keys_json(t) : NULL;

		if (!send_packed(c, -1, "{s:s,s:I,s:I,s:I,s:o*,s:b}", "type", "tenant", "tenant",
				 (json_int_t)t->number, "rate", (json_int_t)t->rate, "burst",
				 (json_int_t)(t->rate ? t->burst : 0), "keys", keys, "required",
				 (int)t->required))
			return false;
	}
	return true;
}

void dta_store_server_notify_tenants(struct dta_store_server *o)
{
	for (struct dta_server_conn *c = o->conns; c; c = c->next)
		if (c->line && c->state == CONN_WELCOMED && !send_tenants(o, c))
			dta_store_server_disconnect(
				o, c, "could not announce the rates and keys of tenants");
}

/* ---- accounts of runs ---- */

/* Ends the current run of a translator. */
static void end_run(struct dta_store_server *o, struct dta_server_known *k)
{
	struct dta_server_run *r = &o->run[o->next_run];
	struct dta_translate_account *a = &r->account;

	if (!k->last)
		return;
	if (*r->name)
		dta_account_add(&o->forgotten, a);
	o->next_run = (o->next_run + 1) % RUNS_MAX;
	strcpy(r->name, k->name);
	r->number = k->run;
	dta_account_of_json(k->last, a);
	a->loss.reporters = 0;
	for (int d = 0; d < DTA_DEVICES; d++)
		a->device[d].decoder.exporters = a->device[d].decoder.templates = 0;
	json_decref(k->last);
	k->last = NULL;
}

/* Starts a run of a translator, or continues it if it had only been cut off. */
static void start_run(struct dta_store_server *o, struct dta_server_known *k, uint64_t number)
{
	k->run = number;
	for (uint32_t i = 0; i < RUNS_MAX; i++)
		if (o->run[i].number == number && !strcmp(o->run[i].name, k->name))
			*o->run[i].name = 0;
}

void dta_store_server_forget(struct dta_server_known *k)
{
	json_decref(k->last);
	json_decref(k->reporters);
	json_decref(k->exporters);
	json_decref(k->coming);
	memset(k, 0, sizeof(*k));
}

/* ---- admission ---- */

/*
 * Returns the name's previous lane, a free lane, or the lane of the name that has been absent
 * longest; -1 if there is none.
 */
static int lane_for(struct dta_store_server *o, const char *name)
{
	int best = -1;

	for (uint32_t i = 0; i < o->lanes; i++)
		if (o->known[i].heard_ns && !strcmp(o->known[i].name, name))
			return (int)i;
	for (uint32_t i = 0; i < o->lanes; i++)
		if (!dta_store_server_of_lane(o, i) &&
		    (best < 0 || o->known[i].heard_ns < o->known[best].heard_ns))
			best = (int)i;
	return best;
}

/* Returns true if both connections are of one translator, which has reconnected. */
static bool same_translator(const struct dta_server_conn *a, const struct dta_server_conn *b)
{
	return (a->run && a->run == b->run) || (a->local && b->local && a->pid == b->pid);
}

/*
 * Returns true if an admitted translator seems to be running. When a local process loses its
 * connection, it keeps its mappings and reconnects. Of a remote one, only its messages are known.
 */
static bool is_live(const struct dta_server_conn *c)
{
	struct pollfd process = {c->pidfd, POLLIN, 0}, line = {-1, POLLRDHUP, 0};

	if (poll(&process, 1, 0))
		return false;
	if (c->local && !strcmp(c->output, "shm"))
		return true;
	if (!c->line)
		return false;
	line.fd = dta_control_line_fd(c->line);
	return !poll(&line, 1, 0) && (c->local || base_now_ns() < c->heard_ns + SILENT_NS);
}

/*
 * Refuses a translator because another one with its name is live: they would take the lane from
 * each other, and share an account.
 */
static bool refuse_namesake(struct dta_server_conn *c, const struct dta_server_conn *live)
{
	const time_t since =
		(time_t)((base_realtime_ns() - (base_now_ns() - live->came_ns)) / 1000000000);
	char from[INET6_ADDRSTRLEN], when[32], why[160];
	struct tm tm;

	if (live->local)
		snprintf(from, sizeof(from), "process %d", (int)live->pid);
	else
		base_address_text(&live->from, from);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&since, &tm));
	snprintf(why, sizeof(why),
		 "this translator's name is in use by %s since %s: give each its own --name", from,
		 when);
	base_log_each(BASE_WARN, "dta", c->name, "translator refused: %s name=%s", why, c->name);
	return refuse_connection(c, why);
}

static const struct dta_server_conn *live_namesake(const struct dta_store_server *o,
						   const struct dta_server_conn *c)
{
	for (const struct dta_server_conn *old = o->conns; old; old = old->next)
		if (old->state == CONN_WELCOMED && !strcmp(old->name, c->name) &&
		    !same_translator(old, c) && is_live(old))
			return old;
	return NULL;
}

/* Drops other connections with the same name: those of this translator, and of a dead one. */
static void drop_namesakes(struct dta_store_server *o, struct dta_server_conn *c)
{
	for (struct dta_server_conn *old = o->conns; old; old = old->next) {
		if (old == c || !old->line || old->state != CONN_WELCOMED ||
		    strcmp(old->name, c->name))
			continue;
		dta_store_server_serve(o, old); /* its last account may be unread */
		dta_store_server_disconnect(o, old,
					    "another translator connected with the same name");
	}
}

/* Takes over the epochs that an earlier connection of the same process may still write to. */
static void take_over(struct dta_store_server *o, struct dta_server_conn *c)
{
	for (size_t i = 0; i < o->store_count; i++)
		c->acked[i] = o->stores[i].epoch;
	for (struct dta_server_conn *old = o->conns; old; old = old->next) {
		if (old == c || old->state != CONN_WELCOMED)
			continue;
		if (old->line || !c->local || !old->local || old->pid != c->pid ||
		    !may_write(o, old) || strcmp(old->name, c->name))
			continue;
		for (size_t i = 0; i < o->store_count; i++)
			if (old->acked[i] < c->acked[i])
				c->acked[i] = old->acked[i];
		old->state = CONN_NEW; /* no longer counts for epochs */
	}
}

/* Where a translator continues the lists of a store: their next blocks in one of its objects. */
struct list_ends {
	uint32_t object;
	json_t *next;
};

/*
 * Releases the lock while reading a lane, which may be large, and holds whatever a hostile
 * translator wrote.
 */
static void find_ends(struct dta_store_server *o, uint32_t lane, struct list_ends *ends)
{
	for (size_t i = 0; i < o->store_count; i++) {
		const struct dta_server_store *s = &o->stores[i];
		struct dta_held held;

		if (s->spec->config.kind != SL_STORE_APPEND ||
		    !dta_store_server_hold(o, s->spec->name, &held))
			continue;
		ends[i].object = s->objects->number;
		pthread_mutex_unlock(&o->lock);
		ends[i].next = next_blocks(held.view[0], lane, NULL);
		dta_store_server_release(o, &held);
		pthread_mutex_lock(&o->lock);
	}
}

/* Returns NULL, or why a translator with this output cannot be admitted. */
static const char *why_no_output(const struct dta_store_server *o, const struct dta_server_conn *c)
{
	if (!strcmp(c->output, "shm"))
		return c->local && c->pidfd >= 0
			       ? NULL
			       : "output shm requires the collector's unix socket";
	if (o->host)
		return NULL;
	return o->config->rdma.enabled ? "the RDMA device is gone"
				       : "this collector has no RDMA: set rdma in the stores file";
}

static bool welcome_translator(struct dta_store_server *o, struct dta_server_conn *c, int lane,
			       const struct list_ends *ends)
{
	const char *why = why_no_output(o, c);
	struct dta_server_known *k;

	/* The lock was released: a reload may have closed the connection or the device. */
	if (!c->line)
		return false;
	if (why)
		return refuse_connection(c, why);
	take_over(o, c);
	k = &o->known[lane];
	if (strcmp(k->name, c->name)) {
		end_run(o, k);
		dta_store_server_forget(k);
		strcpy(k->name, c->name);
	}
	k->heard_ns = base_realtime_ns();
	c->lane = (uint32_t)lane;
	c->state = CONN_WELCOMED;
	dta_control_line_limit(c->line, MESSAGE_MAX);
	strcpy(o->called, c->called);
	if (!send_packed(c, -1, "{s:s,s:i,s:I,s:I,s:I}", "type", "welcome", "version",
			 DTA_CONTROL_VERSION, "instance", (json_int_t)o->instance, "lane",
			 (json_int_t)lane, "port", (json_int_t)dta_store_server_rdma_port(o)) ||
	    !send_tenants(o, c))
		return false;
	for (size_t i = 0; i < o->store_count; i++)
		/* An object from a resize meanwhile has empty lists. */
		if (!send_object(c, o->stores[i].objects) ||
		    !send_store(c, &o->stores[i],
				ends[i].object == o->stores[i].objects->number ? ends[i].next
									       : NULL) ||
		    (c->acked[i] < o->stores[i].epoch && !send_epoch(c, &o->stores[i])))
			return false;
	base_logf(BASE_INFO, "dta", "translator admitted name=%s output=%s lane=%d", c->name,
		  c->output, lane);
	return send_packed(c, -1, "{s:s}", "type", "ready");
}

static bool admit_translator(struct dta_store_server *o, struct dta_server_conn *c)
{
	const struct dta_server_conn *live = live_namesake(o, c);
	struct list_ends ends[DTA_STORES_MAX] = {0};
	const char *why = why_no_output(o, c);
	const int lane = lane_for(o, c->name);
	bool fine;

	if (live)
		return refuse_namesake(c, live);
	if (why)
		return refuse_connection(c, why);
	if (lane < 0)
		return refuse_connection(
			c, "no free lane: there are more translators than the stores have lanes");
	/* repair first, so that the new translator gets no notifications about it */
	dta_store_server_mend(o, true);
	drop_namesakes(o, c); /* they must not write to the lane any more */
	find_ends(o, (uint32_t)lane, ends);
	fine = welcome_translator(o, c, lane, ends);
	for (size_t i = 0; i < o->store_count; i++)
		json_decref(ends[i].next);
	return fine;
}

/*
 * Admits a collector that reads our stores: through a local socket, or by RDMA if it is also
 * configured as our peer. It is not a translator: it has no lane and delays no epoch. It has 5
 * seconds to read the announcements; the rkeys of memory freed later become invalid.
 */
static bool admit_reader(struct dta_store_server *o, struct dta_server_conn *c)
{
	if (!c->local && !dta_control_line_proved(c->line))
		return refuse_connection(
			c, "a peer on another host must prove that it knows the secret");
	if (!c->local && (!o->host || !dta_peer_is_far(o->config->peer)))
		return refuse_connection(
			c, "this collector has no remote peer configured, or does not use RDMA");
	c->state = CONN_READER;
	strcpy(c->output, c->local ? "shm" : "verbs");
	for (size_t i = 0; i < o->store_count; i++)
		if (!send_object(c, o->stores[i].objects))
			return false;
	base_logf(BASE_INFO, "dta", "another peer is reading the stores");
	return send_packed(c, -1, "{s:s,s:b,s:I}", "type", "ready", "complete",
			   (int)dta_store_server_peer_reads(o), "port",
			   (json_int_t)dta_store_server_rdma_port(o));
}

/* Truncates at a UTF-8 character boundary, as JSON requires. */
static void copy_text(char *to, size_t room, const char *from)
{
	size_t n = base_utf8_cut(from, strlen(from), room - 1);

	memcpy(to, from, n);
	to[n] = 0;
}

static bool handle_hello(struct dta_store_server *o, struct dta_server_conn *c, const json_t *m)
{
	const char *name = text_of(m, "name"), *output = text_of(m, "output");

	if (c->state != CONN_NEW)
		return refuse_connection(c, "duplicate hello");
	if (dta_control_number(m, "version") != DTA_CONTROL_VERSION)
		return refuse_connection(c, "this collector uses version 3 of the control channel");
	if (json_is_true(json_object_get(m, "reads")))
		return admit_reader(o, c);
	if (!dta_name_fits(name))
		return refuse_connection(c,
					 "a name must have 1 to 63 letters, digits, '_', '.', '-'");
	if (strcmp(output, "shm") && strcmp(output, "verbs") && strcmp(output, "raw"))
		return refuse_connection(c, "output must be shm, verbs or raw");
	strcpy(c->name, name);
	strcpy(c->output, output);
	c->run = dta_control_number(m, "run");
	c->replicas = (uint32_t)BASE_MIN(dta_control_number(m, "replicas"), REPLICAS_MAX);
	copy_text(c->called, sizeof(c->called), text_of(m, "called"));
	return admit_translator(o, c);
}

/* ---- messages of admitted translators ---- */

static void handle_rotated(struct dta_store_server *o, struct dta_server_conn *c, const json_t *m)
{
	struct dta_server_store *s = dta_store_server_store_number(
		o, dta_control_number(m, "tenant"), dta_control_number(m, "store"));
	uint64_t epoch = dta_control_number(m, "epoch"), *acked;

	if (!s || epoch > s->epoch)
		return;
	acked = &c->acked[s - o->stores];
	if (epoch > *acked)
		*acked = epoch;
}

/* shm: counts immediates, whose numbers come from dta_engine_immediate(). */
static void handle_immediate(struct dta_store_server *o, const json_t *m)
{
	uint64_t n = dta_control_number(m, "number");
	struct dta_server_store *s = dta_store_server_store_number(o, n >> 16, n & 0xffff);

	if (s)
		s->immediates += dta_control_number(m, "count");
}

static bool handle_queue(struct dta_store_server *o, struct dta_server_conn *c, const json_t *m)
{
	const char *why = "out of memory";
	json_t *ours = dta_store_server_queue(o, c, m, &why);

	return ours ? send_to(c, ours, -1) : refuse_connection(c, why);
}

static void handle_account(struct dta_store_server *o, struct dta_server_conn *c, json_t *m)
{
	struct dta_server_known *k = &o->known[c->lane];
	const uint64_t run = dta_control_number(m, "run");
	struct dta_translate_account a;

	/* A smaller counter is no sign of a restart: lost reports may still arrive. */
	if (run != k->run || !k->last) {
		end_run(o, k);
		start_run(o, k, run);
	}
	/* Keep only the fields of an account. */
	dta_account_of_json(m, &a);
	json_decref(k->last);
	k->last = dta_account_json(&a);
}

/* Beyond GAPS_MAX, the two oldest gaps are merged. */
static void handle_gap(struct dta_store_server *o, const struct dta_server_conn *c, const json_t *m)
{
	struct dta_server_gap g = {.from_ns = dta_control_number(m, "from"),
				   .to_ns = dta_control_number(m, "to"),
				   .reports = dta_control_number(m, "reports")};

	/* The translator's clock may have been set back in between. */
	g.from_ns = BASE_MIN(g.from_ns, g.to_ns);
	strcpy(g.name, c->name);
	if (o->gaps == GAPS_MAX) {
		o->gap[1].from_ns = BASE_MIN(o->gap[0].from_ns, o->gap[1].from_ns);
		o->gap[1].to_ns = BASE_MAX(o->gap[0].to_ns, o->gap[1].to_ns);
		o->gap[1].reports += o->gap[0].reports;
		memmove(o->gap, o->gap + 1, sizeof(g) * --o->gaps);
	}
	o->gap[o->gaps++] = g;
	if (g.reports)
		dta_store_server_peer_wanted(o);
	base_logf(
		BASE_WARN, "dta",
		"this collector missed reports that a replica has translator=%s seconds=%.1f reports=%llu",
		c->name, (double)(g.to_ns - g.from_ns) * 1e-9, (unsigned long long)g.reports);
}

static void handle_reporters(struct dta_store_server *o, struct dta_server_conn *c, const json_t *m)
{
	struct dta_server_known *k = &o->known[c->lane];

	json_decref(k->reporters);
	k->reporters = dta_reporters_checked(json_object_get(m, "reporters"));
	k->more = dta_control_number(m, "more");
	k->told_ns = base_realtime_ns();
}

static void handle_exporters(struct dta_store_server *o, struct dta_server_conn *c, const json_t *m)
{
	struct dta_server_known *k = &o->known[c->lane];
	json_t *piece = dta_exporters_checked(json_object_get(m, "exporters"));

	if (json_is_true(json_object_get(m, "first"))) {
		json_decref(k->coming);
		k->coming = json_array();
	}
	if (json_array_size(k->coming) < (DTA_EXPORTERS_LISTED + 1) * DTA_TRANSLATE_INPUTS)
		json_array_extend(k->coming, piece);
	json_decref(piece);
	if (!json_is_true(json_object_get(m, "last")))
		return;
	json_decref(k->exporters);
	k->exporters = k->coming;
	k->coming = NULL;
	k->told_ns = base_realtime_ns();
}

/* Sets the reason for closing from the errno of a failed read. Always returns false. */
static bool note_unreadable(struct dta_server_conn *c, int err)
{
	char from[INET6_ADDRSTRLEN] = "";

	switch (err) {
	case EMSGSIZE:
		c->why = DTA_CONN_LONG;
		return false;
	case EPROTO:
		c->why = DTA_CONN_WRONG;
		return false;
	case EACCES:
		c->why = DTA_CONN_PROOF;
		inet_ntop(AF_INET6, &c->from, from, sizeof(from));
		base_log_each(
			BASE_WARN, "dta", from,
			"a translator has a different secret: check that both use the same file "
			"from=%s",
			from);
		return false;
	case EPROTONOSUPPORT:
		c->why = DTA_CONN_PROOF;
		return refuse_connection(
			c, c->secured ? "this collector uses TLS: start the translator with "
					"--secret FILE, or update it"
				      : "this collector does not use TLS: set a secret "
					"in its stores file");
	default:
		c->why = DTA_CONN_LEFT;
		return false;
	}
}

bool dta_store_server_serve(struct dta_store_server *o, struct dta_server_conn *c)
{
	for (int i = 0; i < 64; i++) { /* limited, for fairness to other connections */
		const char *type;
		bool fine = true;
		json_t *m;
		int fd;

		m = dta_control_line_read(c->line, &fd);
		if (fd >= 0)
			close(fd);
		if (!m)
			return errno == EAGAIN || note_unreadable(c, errno);
		c->heard_ns = base_now_ns();
		type = text_of(m, "type");
		if (!strcmp(type, "hello"))
			fine = handle_hello(o, c, m);
		else if (c->state != CONN_WELCOMED)
			fine = refuse_connection(c, "the first message must be hello");
		else if (!strcmp(type, "rotated"))
			handle_rotated(o, c, m);
		else if (!strcmp(type, "account"))
			handle_account(o, c, m);
		else if (!strcmp(type, "gap"))
			handle_gap(o, c, m);
		else if (!strcmp(type, "reporters"))
			handle_reporters(o, c, m);
		else if (!strcmp(type, "exporters"))
			handle_exporters(o, c, m);
		else if (!strcmp(type, "queue"))
			fine = handle_queue(o, c, m);
		else if (!strcmp(type, "immediate"))
			handle_immediate(o, m);
		if (c->state == CONN_WELCOMED)
			o->known[c->lane].heard_ns = base_realtime_ns();
		json_decref(m);
		if (!fine)
			return false;
	}
	dta_store_server_wake(o);
	return true;
}
