// SPDX-License-Identifier: Apache-2.0
/*
 * peer.c - catches up with another collector that holds the same keys, by reading its stores'
 * memory (peer.h). What this collector missed is read into the epoch before the current one, which
 * no translator writes to any more, while all that is reported since goes into the current one: so
 * nothing old hides anything new, and no word has two writers. Lists continue where the peer's
 * ended, so that they are read before the first translator is admitted.
 */
#include "dta/store_server/internal.h"

#include <string.h>

#include "base/base.h"
#include "dta/store_server/peer.h"

#define AGAIN_NS \
	1000000000ull /* after a gap, for what its translator still held; and to try again */

/* The peer's memory of a store of the same shape; NULL after a line in the log. */
static struct dta_peer_store *like(const struct dta_peer *p, const struct dta_server_store *s)
{
	const struct sl_store_config *c = s->objects->view.config;

	for (uint32_t i = 0; i < p->stores; i++) {
		struct sl_store_config same = p->at[i].view.config[0];

		if (same.tenant != c->tenant || same.id != c->id)
			continue;
		same.first_epoch = c->first_epoch;
		same.banks = c->banks;
		same.copies = c->copies;
		same.keylog = c->keylog;
		same.keylog_list = c->keylog_list;
		same.check = c->check;
		if (!memcmp(&same, c, sizeof(same)))
			return &p->at[i];
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
static uint64_t overlay(const struct sl_store_config *c, uint8_t *to, struct dta_peer *p,
			struct dta_peer_store *from, uint64_t epoch, bool wins)
{
	const uint64_t bank = SL_STORE_BANKS_OFFSET +
			      epoch % from->view.config->banks * from->view.bank_stride;
	const uint64_t bytes = c->kind == SL_STORE_KEYWRITE ? sl_store_slot_bytes(c) : 8;
	const uint64_t n = sl_store_bank_bytes(c) / bytes;
	uint64_t unit[DTA_QUERY_SETTLE_WORDS], filled = 0;

	for (uint64_t i = 0; i < n && !p->failed; i++) {
		uint64_t *at = (uint64_t *)(void *)(to + i * bytes);

		if ((*at && !wins) ||
		    dta_peer_unit(p, from, bank + i * bytes, bytes, unit) != DTA_QUERY_UNIT_SETTLED)
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
static uint64_t catch_up(const struct dta_server_store *s, struct dta_peer *p,
			 struct dta_peer_store *from)
{
	const struct sl_store_config *c = s->objects->view.config;
	uint8_t *to = s->objects->view.map + SL_STORE_BANKS_OFFSET +
		      (s->epoch - 1) % c->banks * s->objects->view.bank_stride;
	struct dta_store_epochs e;
	uint64_t filled = 0;

	if (!dta_store_epochs(&from->view, &e))
		return 0;
	for (uint64_t epoch = e.epoch + 1; epoch-- > e.oldest;) {
		if (c->kind == SL_STORE_INCREMENT && epoch != e.epoch)
			break; /* sums of two epochs are no sum of either */
		filled += overlay(c, to, p, from, epoch, p->complete && epoch == e.epoch);
	}
	return filled;
}

/* Blocks of lists where we have none, or older ones. */
static void copy_lists(const struct dta_server_store *s, struct dta_peer *p,
		       struct dta_peer_store *from)
{
	const struct sl_store_config *c = s->objects->view.config;
	const uint64_t bytes = sl_store_block_bytes(c), n = sl_store_bank_bytes(c) / bytes;
	uint8_t *to = s->objects->view.map + SL_STORE_BANKS_OFFSET;
	uint64_t unit[DTA_QUERY_SETTLE_WORDS];

	for (uint64_t i = 0; i < n && !p->failed; i++) {
		uint64_t *at = (uint64_t *)(void *)(to + i * bytes);

		if (dta_peer_unit(p, from, SL_STORE_BANKS_OFFSET + i * bytes, bytes, unit) ==
			    DTA_QUERY_UNIT_SETTLED &&
		    unit[bytes / 8 - 1] >> 40 > at[bytes / 8 - 1] >> 40)
			put_unit(at, unit, bytes, bytes / 8 - 1);
	}
}

void dta_store_server_peer_lists(struct dta_store_server *o)
{
	struct dta_peer p;
	const char *why;

	if (!o->config->peer)
		return;
	why = dta_peer_open(o->config, &p);
	if (why) {
		base_logf(BASE_INFO, "dta", "no peer to read lists from: %s peer=%s", why,
			  o->config->peer);
		return;
	}
	for (size_t i = 0; i < o->store_count; i++) {
		struct dta_server_store *s = &o->stores[i];
		struct dta_peer_store *from = s->spec->config.kind == SL_STORE_APPEND ? like(&p, s)
										      : NULL;

		if (from)
			copy_lists(s, &p, from);
	}
	if (p.failed)
		base_logf(BASE_WARN, "dta", "not all lists of the peer are read: %s peer=%s", p.why,
			  o->config->peer);
	dta_peer_close(&p);
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

/* To be tried again. Two that wait for each other do not so again at the same time. */
static uint64_t cannot(struct dta_store_server *o, const char *why)
{
	base_log_limited(BASE_WARN, "dta", "cannot catch up: %s peer=%s", why, o->config->peer);
	o->catch_ns += DTA_PEER_NS + o->instance % 4096 * 1000000;
	return o->catch_ns;
}

uint64_t dta_store_server_peer(struct dta_store_server *o, uint64_t now)
{
	const uint64_t began = now;
	struct dta_peer p;
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
	why = dta_peer_open(o->config, &p);
	if (why)
		return cannot(o, why);
	for (size_t i = 0; i < o->store_count && !p.failed; i++) {
		struct dta_server_store *s = &o->stores[i];
		struct dta_peer_store *from = s->behind ? like(&p, s) : NULL;

		if (from) {
			s->zeroing = true; /* no resize meanwhile */
			pthread_mutex_unlock(&o->lock);
			filled = catch_up(s, &p, from);
			pthread_mutex_lock(&o->lock);
			s->before.standing += filled;
			s->zeroing = false;
			done++;
		}
		if (!p.failed)
			s->behind = 0;
	}
	if (p.failed) {
		cannot(o, p.why);
		dta_peer_close(&p);
		return o->catch_ns;
	}
	for (uint32_t i = 0; i < o->catch_gaps; i++)
		o->gap[i].filled |= p.complete;
	o->catch_ns = 0;
	base_logf(BASE_INFO, "dta", "caught up peer=%s stores=%u torn=%llu seconds=%.2f%s",
		  o->config->peer, done, (unsigned long long)p.torn,
		  (double)(base_now_ns() - began) * 1e-9,
		  p.complete ? "" : ", but the peer was away as well");
	dta_peer_close(&p);
	return UINT64_MAX;
}

bool dta_store_server_peer_reads(struct dta_store_server *o)
{
	for (uint32_t i = 0; i < o->gaps; i++)
		if (o->gap[i].reports && !o->gap[i].filled)
			return false;
	return true;
}
