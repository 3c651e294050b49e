// SPDX-License-Identifier: Apache-2.0
/*
 * peer.c - catches up with another collector that holds the same keys, by reading its stores'
 * memory (peer.h). Missed reports are copied into the epoch before the current one, to which no
 * translator writes any more; new reports go into the current epoch. Old data therefore never hides
 * new data, and no word has two writers. Lists continue where the peer's lists end, so they are
 * read before the first translator is admitted.
 */
#include "dta/store_server/internal.h"

#include <string.h>

#include "base/base.h"
#include "dta/store_server/peer.h"

/* delay after a gap, in which translators deliver waiting reports; also the retry interval */
#define AGAIN_NS 1000000000ull

/* Finds the peer's store with the same name and shape. Returns NULL after logging the reason. */
static struct dta_peer_store *find_like(const struct dta_peer *p, const struct dta_server_store *s)
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
		base_log_each(BASE_WARN, "dta", s->spec->name,
			      "the peer's store differs in kind, size or seed: configure it "
			      "equally on both collectors store=%s",
			      s->spec->name);
	}
	return NULL;
}

static void put_word(uint64_t *to, uint64_t word)
{
	__atomic_store_n(to, word, __ATOMIC_RELEASE);
}

/*
 * The first word verifies the rest and is written last. In a list's block, the last word does so.
 */
static void put_unit(uint64_t *to, const uint64_t *unit, uint64_t bytes, uint64_t check)
{
	put_word(&to[check], 0);
	for (uint64_t w = 0; w < bytes / 8; w++)
		if (w != check)
			put_word(&to[w], unit[w]);
	put_word(&to[check], unit[check]);
}

/*
 * Copies one of the peer's epochs. wins: overwrite units that exist here; otherwise only empty
 * units are filled. Returns the number of empty units filled.
 */
static uint64_t copy_epoch(const struct sl_store_config *c, uint8_t *to, struct dta_peer *p,
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
		else if (c->kind == SL_STORE_POSTCARD || *unit > *at) /* counters only increase */
			put_word(at, *unit);
	}
	return filled;
}

/*
 * Copies all of the peer's epochs, newest first, and counts the empty units filled. Returns false
 * if it cannot tell which epochs the peer has.
 */
static bool catch_up(const struct dta_server_store *s, struct dta_peer *p,
		     struct dta_peer_store *from, uint64_t *filled)
{
	const struct sl_store_config *c = s->objects->view.config;
	uint8_t *to = s->objects->view.map + SL_STORE_BANKS_OFFSET +
		      (s->epoch - 1) % c->banks * s->objects->view.bank_stride;
	struct dta_store_epochs e;

	*filled = 0;
	if (!dta_store_epochs(&from->view, &e))
		return false;
	for (uint64_t epoch = e.epoch + 1; epoch-- > e.oldest;) {
		/* Copying keeps the larger count, but counts of two epochs cannot be compared. */
		if (c->kind == SL_STORE_INCREMENT && epoch != e.epoch)
			break;
		*filled += copy_epoch(c, to, p, from, epoch, p->complete && epoch == e.epoch);
	}
	return true;
}

/* Copies list blocks that are missing or older here. */
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
		base_logf(BASE_INFO, "dta", "cannot read lists from the peer: %s peer=%s", why,
			  o->config->peer);
		return;
	}
	for (size_t i = 0; i < o->store_count; i++) {
		struct dta_server_store *s = &o->stores[i];
		struct dta_peer_store *from = s->spec->config.kind == SL_STORE_APPEND
						      ? find_like(&p, s)
						      : NULL;

		if (from)
			copy_lists(s, &p, from);
	}
	if (p.failed)
		base_logf(BASE_WARN, "dta", "could not read all lists of the peer: %s peer=%s",
			  p.why, o->config->peer);
	dta_peer_close(&p);
}

static bool has_keys(const struct dta_server_store *s)
{
	const uint32_t kind = s->spec->config.kind;

	return kind == SL_STORE_KEYWRITE || kind == SL_STORE_POSTCARD || kind == SL_STORE_INCREMENT;
}

static bool can_catch_up(const struct dta_server_store *s)
{
	return s->spec->config.banks > 1 && has_keys(s);
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

/* Whether translators no longer write to the epoch of the gap or to an earlier one. */
static bool is_over(const struct dta_store_server *o, const struct dta_server_store *s)
{
	if (s->epoch < s->behind)
		return false;
	for (const struct dta_server_conn *c = o->conns; c; c = c->next)
		if (c->state == CONN_WELCOMED && c->acked[s - o->stores] < s->epoch)
			return false;
	return true;
}

/*
 * Schedules another attempt. The delay varies, so that two collectors that wait for each other do
 * not retry at the same time.
 */
static uint64_t retry_later(struct dta_store_server *o, const char *why)
{
	base_log_limited(BASE_WARN, "dta", "cannot fetch missed reports from the peer: %s peer=%s",
			 why, o->config->peer);
	o->catch_ns += DTA_PEER_NS + o->instance % 4096 * 1000000;
	return o->catch_ns;
}

uint64_t dta_store_server_peer(struct dta_store_server *o, uint64_t now)
{
	const uint64_t began = now;
	struct dta_peer p;
	uint32_t done = 0, left = 0;
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
	/* Prevents resizes while the lock is released. */
	for (size_t i = 0; i < o->store_count; i++)
		o->stores[i].zeroing = o->stores[i].behind != 0;
	/* A peer that hangs takes seconds. The settings that this uses change only by a restart. */
	pthread_mutex_unlock(&o->lock);
	why = dta_peer_open(o->config, &p);
	pthread_mutex_lock(&o->lock);
	for (size_t i = 0; i < o->store_count && !why && !p.failed; i++) {
		struct dta_server_store *s = &o->stores[i];
		struct dta_peer_store *from = s->behind ? find_like(&p, s) : NULL;
		bool copied = false;

		if (from) {
			pthread_mutex_unlock(&o->lock);
			copied = catch_up(s, &p, from, &filled);
			pthread_mutex_lock(&o->lock);
			s->before.standing += filled;
			done += copied;
		}
		if (copied && !p.failed)
			s->behind = 0;
		left += s->behind != 0;
	}
	for (size_t i = 0; i < o->store_count; i++)
		o->stores[i].zeroing = false;
	if (why)
		return retry_later(o, why);
	if (p.failed) {
		retry_later(o, p.why);
		dta_peer_close(&p);
		return o->catch_ns;
	}
	for (uint32_t i = 0; i < o->catch_gaps; i++)
		o->gap[i].filled |= p.complete && !left;
	o->catch_ns = 0;
	base_logf(BASE_INFO, "dta",
		  "fetched missed reports from the peer peer=%s stores=%u "
		  "torn=%llu seconds=%.2f%s%s",
		  o->config->peer, done, (unsigned long long)p.torn,
		  (double)(base_now_ns() - began) * 1e-9, left ? ", but not of all stores" : "",
		  p.complete ? "" : ", but the peer itself missed reports");
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

bool dta_store_server_peer_fills(const struct dta_store_server *o)
{
	for (size_t i = 0; i < o->store_count; i++)
		if (has_keys(&o->stores[i]) && !can_catch_up(&o->stores[i]))
			return false;
	return true;
}
