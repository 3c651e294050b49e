// SPDX-License-Identifier: Apache-2.0
/*
 * peer.c - catches up with another collector that holds the same keys, by reading its stores'
 * memory. What this collector missed is read into the epoch before the current one, which no
 * translator writes to any more, while all that is reported since goes into the current one: so
 * nothing old hides anything new, and no word has two writers. Lists continue where the peer's
 * ended, so that they are read before the first translator is admitted.
 */
#include "dta/store_server/internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "dta/query/internal.h"
#include "dta/store/guard.h"

#define PEER_NS 5000000000ull /* for all that the peer says */
#define AGAIN_NS \
	1000000000ull /* after a gap, for what its translator still held; and to try again */
#define WORDS (SL_STORE_BATCH_MAX * SL_STORE_VALUE_MAX / 8 + 1)

/* A peer's stores. */
struct server_peer {
	struct dta_control_line *line;
	struct {
		uint64_t number;
		struct dta_store_object *object;
	} at[DTA_STORES_MAX];
	uint32_t objects;
	bool complete; /* it missed nothing itself */
};

static void close_peer(struct server_peer *p)
{
	for (uint32_t i = 0; i < p->objects; i++) {
		dta_guard_remove(p->at[i].object->view.map);
		dta_store_object_free(p->at[i].object, false);
	}
	dta_control_line_free(p->line);
}

static void add_object(struct server_peer *p, const json_t *m, int fd)
{
	char error[160];
	struct dta_store_object *at;

	if (p->objects == DTA_STORES_MAX)
		return;
	at = dta_store_object_open_fd(fd, error, sizeof(error));
	if (!at) {
		base_logf(BASE_WARN, "dta", "a store of the peer is not used: %s", error);
		return;
	}
	dta_guard_add(at->view.map, at->map_bytes, at->fd, -1);
	p->at[p->objects].number = (uint64_t)json_integer_value(json_object_get(m, "number"));
	p->at[p->objects++].object = at;
}

/* Reads messages until the peer is ready. NULL, or what is wrong. */
static const char *listen_to(struct server_peer *p)
{
	const uint64_t end = base_now_ns() + PEER_NS;

	while (base_now_ns() < end) {
		struct pollfd wait = {dta_control_line_fd(p->line), POLLIN, 0};
		int fd = -1;
		json_t *m = dta_control_line_read(p->line, &fd);
		const char *type = json_string_value(json_object_get(m, "type")) ?: "";
		const bool ready = !strcmp(type, "ready"), ends = !m && errno != EAGAIN;
		const bool refuses = !strcmp(type, "error");

		if (!m && !ends)
			poll(&wait, 1, 100);
		if (fd >= 0 && !strcmp(type, "object"))
			add_object(p, m, fd);
		if (fd >= 0)
			close(fd);
		if (ready)
			p->complete = json_is_true(json_object_get(m, "complete"));
		json_decref(m);
		if (ends || refuses)
			return "it refused";
		if (ready)
			return NULL;
	}
	return "it is silent";
}

static const char *open_peer(const char *where, struct server_peer *p)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	const char *path = strncmp(where, "unix:", 5) ? where : where + 5, *why;
	int fd;

	*p = (struct server_peer){0};
	if (strlen(path) >= sizeof(a.sun_path))
		return "its path is too long";
	strcpy(a.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		why = strerror(errno);
		if (fd >= 0)
			close(fd);
		return why;
	}
	p->line = dta_control_line_new(fd);
	if (!p->line) {
		close(fd);
		return "out of memory";
	}
	dta_control_line_write(p->line,
			       json_pack("{s:s,s:i,s:s,s:s,s:b}", "type", "hello", "version",
					 DTA_CONTROL_VERSION, "name", "peer", "output", "shm",
					 "reads", 1),
			       -1);
	why = listen_to(p);
	if (why)
		close_peer(p);
	return why;
}

/* The peer's memory of a store of the same shape; NULL after a line in the log. */
static const struct dta_store_view *like(const struct server_peer *p,
					 const struct dta_server_store *s)
{
	const struct sl_store_config *c = s->objects->view.config;

	for (uint32_t i = 0; i < p->objects; i++) {
		const struct dta_store_view *v = &p->at[i].object->view;
		struct sl_store_config same = *v->config;

		if (same.tenant != c->tenant || same.id != c->id)
			continue;
		same.first_epoch = c->first_epoch;
		same.banks = c->banks;
		same.copies = c->copies;
		same.keylog = c->keylog;
		same.keylog_list = c->keylog_list;
		same.check = c->check;
		if (!memcmp(&same, c, sizeof(same)))
			return v;
		base_log_limited(BASE_WARN, "dta",
				 "the peer's store differs in kind, size or seed: set its seed "
				 "store=%s",
				 s->spec->name);
	}
	return NULL;
}

static void put(uint64_t *to, uint64_t word)
{
	__atomic_store_n(to, word, __ATOMIC_RELEASE);
}

/* The first word verifies the rest, or for a block of a list the last one: that is written last. */
static void put_unit(uint64_t *to, const uint64_t *unit, uint64_t bytes, uint64_t check)
{
	put(&to[check], 0);
	for (uint64_t w = 0; w < bytes / 8; w++)
		if (w != check)
			put(&to[w], unit[w]);
	put(&to[check], unit[check]);
}

/* One epoch of the peer. wins: over what is there; else into what is empty. Returns units that
 * were. */
static uint64_t overlay(const struct sl_store_config *c, uint8_t *to, const uint8_t *from,
			bool wins)
{
	const uint64_t bytes = c->kind == SL_STORE_KEYWRITE ? sl_store_slot_bytes(c) : 8;
	const uint64_t n = sl_store_bank_bytes(c) / bytes;
	uint64_t unit[DTA_QUERY_SETTLE_WORDS], filled = 0;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t *at = (uint64_t *)(void *)(to + i * bytes);

		if ((*at && !wins) ||
		    dta_query_settle(unit, from + i * bytes, bytes) != DTA_QUERY_UNIT_SETTLED)
			continue;
		filled += !*at;
		if (c->kind == SL_STORE_KEYWRITE)
			put_unit(at, unit, bytes, 0);
		else if (c->kind == SL_STORE_POSTCARD || *unit > *at) /* counters only grow */
			put(at, *unit);
	}
	return filled;
}

/* All epochs of the peer, the newest first. Returns how many units were empty. */
static uint64_t catch_up(const struct dta_server_store *s, const struct dta_store_view *v,
			 bool complete)
{
	const struct sl_store_config *c = s->objects->view.config;
	uint8_t *to = s->objects->view.map + SL_STORE_BANKS_OFFSET +
		      (s->epoch - 1) % c->banks * s->objects->view.bank_stride;
	struct dta_store_epochs e;
	uint64_t filled = 0;

	if (!dta_store_epochs(v, &e))
		return 0;
	for (uint64_t epoch = e.epoch + 1; epoch-- > e.oldest;) {
		if (c->kind == SL_STORE_INCREMENT && epoch != e.epoch)
			break; /* sums of two epochs are no sum of either */
		filled += overlay(c, to, dta_store_bank(v, epoch), complete && epoch == e.epoch);
	}
	return filled;
}

/* Blocks of lists where we have none, or older ones. */
static void copy_lists(const struct dta_server_store *s, const struct dta_store_view *v)
{
	const struct sl_store_config *c = s->objects->view.config;
	const uint64_t bytes = sl_store_block_bytes(c), n = sl_store_bank_bytes(c) / bytes;
	uint8_t *to = s->objects->view.map + SL_STORE_BANKS_OFFSET;
	uint64_t unit[DTA_QUERY_SETTLE_WORDS];

	for (uint64_t i = 0; i < n; i++) {
		uint64_t *at = (uint64_t *)(void *)(to + i * bytes);

		if (dta_query_settle(unit, v->banks + i * bytes, bytes) == DTA_QUERY_UNIT_SETTLED &&
		    unit[bytes / 8 - 1] >> 40 > at[bytes / 8 - 1] >> 40)
			put_unit(at, unit, bytes, bytes / 8 - 1);
	}
}

void dta_store_server_peer_lists(struct dta_store_server *o)
{
	struct server_peer p;
	const char *why;

	if (!o->config->peer)
		return;
	why = open_peer(o->config->peer, &p);
	if (why) {
		base_logf(BASE_INFO, "dta", "no peer to read lists from: %s peer=%s", why,
			  o->config->peer);
		return;
	}
	for (size_t i = 0; i < o->store_count; i++) {
		struct dta_server_store *s = &o->stores[i];
		const struct dta_store_view *v = s->spec->config.kind == SL_STORE_APPEND
							 ? like(&p, s)
							 : NULL;

		if (v)
			copy_lists(s, v);
	}
	close_peer(&p);
}

static bool can_catch_up(const struct dta_server_store *s)
{
	const struct sl_store_config *c = &s->spec->config;

	return c->banks > 1 && (c->kind == SL_STORE_KEYWRITE || c->kind == SL_STORE_POSTCARD ||
				c->kind == SL_STORE_INCREMENT);
}

void dta_store_server_peer_wanted(struct dta_store_server *o)
{
	if (!o->config->peer)
		return;
	o->catch_ns = base_now_ns() + AGAIN_NS;
	o->catch_gaps = o->gaps;
	for (size_t i = 0; i < o->store_count; i++)
		if (can_catch_up(&o->stores[i])) {
			o->stores[i].behind = o->stores[i].epoch + 1;
			o->stores[i].wanted = true;
		}
}

/* Whether no translator writes to the epoch of the gap, or an earlier one. */
static bool is_over(const struct dta_store_server *o, const struct dta_server_store *s)
{
	if (s->epoch < s->behind)
		return false;
	for (const struct dta_server_conn *c = o->conns; c; c = c->next)
		if (c->state == CONN_WELCOMED && c->acked[s - o->stores] < s->epoch)
			return false;
	return true;
}

uint64_t dta_store_server_peer(struct dta_store_server *o, uint64_t now)
{
	const uint64_t began = now;
	struct server_peer p;
	uint32_t done = 0;
	uint64_t filled;
	const char *why;

	if (!o->catch_ns)
		return UINT64_MAX;
	if (now < o->catch_ns)
		return o->catch_ns;
	o->catch_ns = now + AGAIN_NS;
	for (size_t i = 0; i < o->store_count; i++)
		if (o->stores[i].behind && !is_over(o, &o->stores[i]))
			return o->catch_ns;
	why = open_peer(o->config->peer, &p);
	if (why) {
		base_log_limited(BASE_WARN, "dta", "cannot catch up: %s peer=%s", why,
				 o->config->peer);
		/* Two that wait for each other do not so again at the same time. */
		o->catch_ns += PEER_NS + o->instance % 4096 * 1000000;
		return o->catch_ns;
	}
	for (size_t i = 0; i < o->store_count; i++) {
		struct dta_server_store *s = &o->stores[i];
		const struct dta_store_view *v = s->behind ? like(&p, s) : NULL;

		s->behind = 0;
		if (!v)
			continue;
		s->zeroing = true; /* no resize meanwhile */
		pthread_mutex_unlock(&o->lock);
		filled = catch_up(s, v, p.complete);
		pthread_mutex_lock(&o->lock);
		s->before.standing += filled;
		s->zeroing = false;
		done++;
	}
	for (uint32_t i = 0; i < o->catch_gaps; i++)
		o->gap[i].filled |= p.complete;
	o->catch_ns = 0;
	base_logf(BASE_INFO, "dta", "caught up peer=%s stores=%u seconds=%.2f%s", o->config->peer,
		  done, (double)(base_now_ns() - began) * 1e-9,
		  p.complete ? "" : ", but the peer was away as well");
	close_peer(&p);
	return UINT64_MAX;
}

bool dta_store_server_peer_reads(struct dta_store_server *o)
{
	for (uint32_t i = 0; i < o->gaps; i++)
		if (o->gap[i].reports && !o->gap[i].filled)
			return false;
	return true;
}
