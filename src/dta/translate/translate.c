/* SPDX-License-Identifier: Apache-2.0 */
/* translate.c - a translator's worker: its loop, packets, reports and answers */
#include "dta/translate/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/hash.h"
#include "base/network.h"
#include "base/relaxed.h"

#define LOOK_NS	  1000000ull   /* interval of timers, answers and control channels */
#define IDLE_NS	  100000000ull /* idle time after which a worker polls less often */
#define TELL_NS	  1000000000ull
#define FINISH_NS 2000000000ull
/* time to drain sockets at the end, and as long again to count the remaining packets */
#define DRAIN_NS 1000000000ull
#define START_NS 2000000000ull
#define AHEAD	 8u	     /* prefetch distance in datagrams */
#define HALF	 0x40000000u /* half of the sequence number space (RFC 1982) */

/* ---- passing reports to the collector of their key ---- */

static uint64_t collectors_up(const struct dta_worker *w)
{
	uint64_t up = 0;

	for (uint32_t i = 0; i < w->opts.n_collectors; i++)
		up |= (uint64_t)dta_client_ready(w->client[i]) << i;
	return up;
}

static uint64_t collectors_of(struct dta_worker *w, const struct dta_header *h,
			      const struct dta_block *b, const uint8_t *item, uint64_t up)
{
	const bool sketch = b->opcode == DTA_SKETCH || b->opcode == DTA_SKETCH_END;
	const uint64_t hash = dta_hash_ring_hash(h->tenant, b->store, item,
						 sketch ? 0 : b->key_bytes);
	const uint64_t members = dta_worker_members(w, hash, up);

	if (w->opts.replicas > 1) {
		dta_worker_missed(w, hash);
		w->account.unreplicated += w->opts.replicas -
					   (uint32_t)__builtin_popcountll(members ?: 1);
	}
	return members ?: 1; /* if none is up, the first member drops and counts the report */
}

static void dispatch_by_key(struct dta_worker *w, const struct dta_header *h,
			    const struct dta_block *b, uint64_t now)
{
	const uint32_t bytes = b->key_bytes + b->value_bytes;
	const uint64_t up = w->up;
	uint64_t to[DTA_REPORTS_MAX];

	for (uint32_t i = 0; i < b->count; i++)
		to[i] = collectors_of(w, h, b, b->items + (size_t)i * bytes, up);
	for (uint32_t c = 0; c < w->opts.n_collectors; c++) {
		struct dta_block part = *b;

		part.items = w->gathered;
		part.count = 0;
		for (uint32_t i = 0; i < b->count; i++)
			if (to[i] >> c & 1)
				memcpy(w->gathered + (size_t)part.count++ * bytes,
				       b->items + (size_t)i * bytes, bytes);
		if (part.count)
			dta_client_block(w->client[c], h->tenant, h->reporter, &part, now);
	}
}

void dta_worker_dispatch(struct dta_worker *w, const struct dta_header *h,
			 const struct dta_block *b, uint64_t now)
{
	struct dta_block some = *b;

	/* A report takes one token of its tenant, even if several collectors receive it. */
	if (w->opts.rates)
		some.count = (uint16_t)dta_rates_take(w->opts.rates, h->tenant, b->count, now);
	w->account.fresh += b->count;
	w->account.engine.in += b->count - some.count;
	w->account.engine.dropped[DTA_DROP_RATE] += b->count - some.count;
	if (some.count && w->opts.n_collectors == 1)
		dta_client_block(w->client[0], h->tenant, h->reporter, &some, now);
	else if (some.count)
		dispatch_by_key(w, h, &some, now);
}

/* Passes on a packet's fresh reports, one run of reports at a time. */
static void dispatch_fresh(struct dta_worker *w, uint64_t now)
{
	const struct dta_header *h = &w->packet.header;
	uint32_t report = 0;

	for (uint32_t k = 0; k < h->blocks; k++) {
		const struct dta_block *b = &w->packet.block[k];
		struct dta_block run = *b;

		for (uint32_t i = 0; i < b->count;) {
			uint32_t end = i;

			while (end < b->count &&
			       w->fresh[(report + end) / 64] >> (report + end) % 64 & 1)
				end++;
			run.items = b->items + (size_t)i * (b->key_bytes + b->value_bytes);
			run.count = (uint16_t)(end - i);
			if (run.count)
				dta_worker_dispatch(w, h, &run, now);
			i = end + 1;
		}
		report += b->count;
	}
}

/* ---- packets ---- */

static bool known_tenant(const struct dta_worker *w, uint16_t tenant)
{
	for (uint32_t i = 0; i < w->opts.n_collectors; i++)
		if (dta_client_tenant(w->client[i], tenant))
			return true;
	return false;
}

static enum dta_refusal parse_datagram(struct dta_worker *w, const struct dta_datagram *d,
				       bool *legacy)
{
	*legacy = w->opts.legacy && d->bytes && d->data[0] != DTA_MAGIC;
	if (*legacy)
		return dta_parse_legacy(d->data, d->bytes, w->opts.legacy, w->opts.legacy_hops,
					&w->packet);
	return dta_parse(d->data, d->bytes, &w->packet);
}

/* Where the window of a packet's reporter is: in this worker, in another worker, or nowhere. */
enum translate_place { HERE, HANDED_OVER, REFUSED };

/*
 * Without a collector, reports are not stored and no window is created, because another worker may
 * already own one.
 */
static enum translate_place place_of(struct dta_worker *w, const struct dta_datagram *d,
				     uint32_t input)
{
	const struct dta_header *h = &w->packet.header;
	const bool authenticated = h->flags & DTA_AUTHENTICATED;
	const struct dta_loss_key key = {
		.address = d->address, .tenant = h->tenant, .reporter = h->reporter};
	struct dta_loss_identity id;
	uint32_t owner;

	if (!w->opts.steer || dta_loss_knows(w->loss, &key, authenticated))
		return HERE;
	id = dta_loss_identity(&key, authenticated);
	owner = dta_steer_owner(w->opts.steer, &id, w->opts.worker, w->up);
	if (owner == w->opts.worker || (owner == DTA_STEER_NONE && !w->up))
		return HERE;
	if (owner == DTA_STEER_NONE)
		return REFUSED;
	dta_steer_hand(w->opts.steer, owner, d, input);
	return HANDED_OVER;
}

/* Lets another worker take the reporter's window. */
static void note_forgotten(void *arg, const struct dta_loss_key *key, bool authenticated)
{
	struct dta_worker *w = arg;
	const struct dta_loss_identity id = dta_loss_identity(key, authenticated);

	if (w->opts.steer)
		dta_steer_release(w->opts.steer, &id, w->opts.worker);
}

/*
 * Returns the number of fresh reports in a packet, or -ENOSPC if there are none. Sets w->fresh if
 * not all reports are fresh.
 */
static int fresh_reports(struct dta_worker *w, const struct dta_datagram *d, uint32_t input,
			 bool legacy, uint64_t now)
{
	const struct dta_header *h = &w->packet.header;
	const struct dta_loss_key key = {.address = d->address,
					 .tenant = h->tenant,
					 .reporter = h->reporter,
					 .port = legacy ? DTA_PORT_ANSWER : d->port,
					 .input = input,
					 .signer = legacy ? 0 : w->signer};
	uint32_t superseded;
	int fresh;

	/*
	 * Form A has no sequence numbers, and form B numbers only retransmittable reports. Without
	 * a collector, packets are not recorded as arrived; their reports are missing and will be
	 * requested once a collector is back.
	 */
	if ((legacy && !(h->flags & DTA_ACK_WANTED)) || !w->up)
		return (int)h->reports;
	if (!h->reports) {
		dta_loss_heartbeat(w->loss, &key, h, now);
		if (w->opts.steer && !dta_loss_knows(w->loss, &key, h->flags & DTA_AUTHENTICATED))
			note_forgotten(w, &key, h->flags & DTA_AUTHENTICATED);
		return 0;
	}
	fresh = dta_loss_packet(legacy ? w->legacy : w->loss, &key, h, legacy ? 8 : 32, now,
				w->fresh);
	if (fresh < 0 && !legacy)
		note_forgotten(w, &key, h->flags & DTA_AUTHENTICATED);
	superseded = fresh > 0 && !legacy ? dta_loss_superseded(w->loss, &w->packet, w->fresh) : 0;
	w->account.fresh += superseded;
	w->account.engine.in += superseded;
	w->account.engine.dropped[DTA_DROP_SUPERSEDED] += superseded;
	return fresh - (int)superseded;
}

static enum dta_refusal authenticate_packet(struct dta_worker *w, const struct dta_datagram *d,
					    uint64_t real)
{
	const struct dta_header *h = &w->packet.header;
	struct dta_auth_here here = {.name = w->translator, .port = d->to_port};
	struct in6_addr to;

	if (h->flags & DTA_AUTHENTICATED) {
		to = dta_datagram_to(d);
		here.address = &to;
	}
	return dta_tenants_check(w->tenants, h, d->data, d->bytes, &here, real, &w->signer);
}

static void take_datagram(struct dta_worker *w, uint32_t input, const struct dta_datagram *d,
			  uint64_t now, uint64_t real)
{
	const struct dta_header *h = &w->packet.header;
	struct dta_translate_account *a = &w->account;
	enum translate_place place;
	enum dta_refusal refusal;
	int fresh;
	bool legacy;

	a->packets++;
	refusal = parse_datagram(w, d, &legacy);
	if (refusal != DTA_FINE) {
		a->refused[refusal]++;
		return;
	}
	if (!known_tenant(w, h->tenant)) {
		a->refused_tenant++;
		return;
	}
	refusal = legacy ? DTA_FINE : authenticate_packet(w, d, real);
	if (refusal != DTA_FINE) {
		a->refused[refusal]++;
		return;
	}
	place = legacy ? HERE : place_of(w, d, input);
	if (place == HANDED_OVER) {
		a->packets--; /* the other worker counts the packet */
		return;
	}
	if (!(h->flags & DTA_AUTHENTICATED) || legacy)
		dta_reflect_bring(&w->reflect, &d->address, d->bytes, now);
	fresh = place == HERE ? fresh_reports(w, d, input, legacy, now) : -ENOSPC;
	if (fresh < 0) {
		a->refused_reporter++;
		return;
	}
	a->packets_taken++;
	a->reports += h->reports;
	if (h->flags & DTA_AGAIN && w->up)
		a->maybe_twice += (uint32_t)fresh;
	if ((uint32_t)fresh == h->reports)
		for (uint32_t k = 0; k < h->blocks; k++)
			dta_worker_dispatch(w, h, &w->packet.block[k], now);
	else if (fresh)
		dispatch_fresh(w, now);
}

/* ---- answers ---- */

/* Does nothing for a file, which may have been read by another worker and has no return path. */
static void put_answer(struct dta_worker *w, const struct dta_loss_key *to, const uint8_t *packet,
		       size_t bytes)
{
	struct dta_input *in = to->input < w->sources ? w->source[to->input].in : NULL;
	const uint64_t now = base_now_ns();

	if (!to->authenticated) {
		if (bytes > dta_reflect_room(&w->reflect, &to->address, now)) {
			w->account.held_back++;
			return;
		}
		dta_reflect_spend(&w->reflect, &to->address, (uint32_t)bytes, now);
	}
	if (in && in->ops->answer)
		in->ops->answer(in, &to->address, to->port, packet, bytes);
}

/*
 * Both types of answer contain the end of the complete prefix, like the answers of the original
 * translator. Reports after the prefix that a reporter repeats are recognised as duplicates.
 */
static void answer_legacy(struct dta_worker *w, const struct dta_loss_key *to,
			  const struct dta_answer *a)
{
	uint8_t packet[2];

	dta_legacy_answer((uint8_t)(a->next - 1), a->type == DTA_NACK, packet);
	put_answer(w, to, packet, sizeof(packet));
}

static void send_answer(struct dta_worker *w, const struct dta_loss_key *to,
			const struct dta_answer *a)
{
	uint8_t packet[DTA_ANSWER_BYTES + DTA_RANGES_MAX * 8 + DTA_MAC_BYTES];
	/*
	 * An unauthenticated sender that uses a reporter's number must not receive an answer signed
	 * with the reporter's key.
	 */
	const struct dta_key *key = to->authenticated ? dta_tenants_key(w->tenants, to->tenant,
									to->reporter, to->signer)
						      : NULL;
	struct dta_answer now = *a;
	size_t bytes;

	if (to->authenticated && !key)
		return; /* the reporter's key has been withdrawn */
	now.credits = dta_credits_now(&w->credits);
	if (!to->authenticated) {
		const uint32_t room = dta_reflect_room(&w->reflect, &to->address, base_now_ns());
		const uint32_t ranges = room < DTA_ANSWER_BYTES ? 0 : (room - DTA_ANSWER_BYTES) / 8;

		now.ranges = now.ranges < ranges ? now.ranges : (uint8_t)ranges;
	}
	bytes = dta_answer_build(&now, packet, sizeof(packet) - DTA_MAC_BYTES);
	if (bytes && key)
		bytes = dta_mac_put(key, packet, bytes);
	if (bytes)
		put_answer(w, to, packet, bytes);
}

/* Sends held acknowledgements once all reports accepted before them have settled. */
static bool send_held(struct dta_worker *w)
{
	struct dta_translate_held *h = w->held[0];

	/* With replicas, don't wait for a collector that is down. */
	for (uint32_t i = 0; h->count && i < w->opts.n_collectors; i++)
		if ((w->opts.replicas < 2 || dta_client_ready(w->client[i]) || !w->up) &&
		    !dta_client_settled(w->client[i], &w->mark[i]))
			return false;
	for (uint32_t i = 0; i < h->count; i++)
		send_answer(w, &h->a[i].to, &h->a[i].answer);
	h->count = 0;
	return true;
}

/*
 * It is not known which reports an output lost, so withdraw all pending acknowledgements and accept
 * reports that reporters repeat.
 */
static void withdraw_lost(struct dta_worker *w)
{
	if (!dta_worker_lost(w))
		return;
	w->held[0]->count = w->held[1]->count = 0;
	dta_loss_reset(w->loss);
}

static void release_held(struct dta_worker *w, uint64_t now)
{
	struct dta_translate_held *h;

	withdraw_lost(w);
	h = w->held[0];
	if (!send_held(w) || !w->held[1]->count)
		return;
	w->held[0] = w->held[1];
	w->held[1] = h;
	for (uint32_t i = 0; i < w->opts.n_collectors; i++)
		w->mark[i] = (struct dta_client_mark){.since_ns = now};
	send_held(w); /* often nothing is waiting, so try immediately */
}

static void hold_answer(struct dta_worker *w, const struct dta_loss_key *to,
			const struct dta_answer *a, uint64_t now)
{
	struct dta_translate_held *h = w->held[1];

	if (h->count == HELD_MAX) {
		release_held(w, now);
		h = w->held[1];
	}
	if (h->count == HELD_MAX)
		return;
	h->a[h->count].to = *to;
	h->a[h->count++].answer = *a;
}

static void answer_reporters(struct dta_worker *w, uint64_t now)
{
	struct dta_answer a;
	struct dta_loss_key to;

	while (dta_loss_answer(w->loss, now, &to, &a)) {
		if (a.type == DTA_ACK) {
			hold_answer(w, &to, &a, now);
			continue;
		}
		a.next -= HALF; /* a NACK is sent immediately and must not acknowledge anything */
		send_answer(w, &to, &a);
	}
	while (w->legacy && dta_loss_answer(w->legacy, now, &to, &a))
		answer_legacy(w, &to, &a);
}

/* ---- the loop ---- */

/*
 * If another collector is up, reports don't wait for one that is down: they would delay all
 * acknowledgements until it returns. With replicas, acknowledgements don't wait for it.
 */
static void give_up_down(struct dta_worker *w)
{
	const uint64_t up = collectors_up(w);

	if (w->opts.replicas > 1 || !up)
		return;
	for (uint32_t i = 0; i < w->opts.n_collectors; i++)
		if (!(up >> i & 1))
			dta_client_give_up(w->client[i]);
}

static void poll_timers(struct dta_worker *w, uint64_t now)
{
	const uint64_t was_up = w->up;
	bool ready = true;

	w->looked_ns = now;
	w->account.slowed += dta_credits_look(&w->credits, dta_worker_drops(w), now);
	for (uint32_t i = 0; i < w->opts.n_collectors; i++) {
		dta_client_drive(w->client[i], now);
		ready &= dta_client_ready(w->client[i]);
	}
	give_up_down(w);
	answer_reporters(w, now);
	release_held(w, now);
	for (uint32_t i = 0; i < w->sources; i++)
		dta_worker_device_flush(w, i, now, false);
	w->up = collectors_up(w);
	dta_worker_gaps(w, was_up);
	atomic_store_explicit(&w->ready, ready, memory_order_relaxed);
	if (now - w->told_ns >= TELL_NS) {
		w->told_ns = now;
		dta_worker_notify(w);
	}
}

/*
 * Whether to process received datagrams. The collector must have room; until then, packets wait in
 * the socket. If there are several collectors, none may delay the others, so excess packets are
 * dropped. With replicas, however, all must stay equal, so wait.
 */
static bool has_room(const struct dta_worker *w)
{
	for (uint32_t i = 0; w->opts.replicas > 1 && i < w->opts.n_collectors; i++)
		if (dta_client_congested(w->client[i]))
			return false;
	return w->opts.n_collectors > 1 || !dta_client_congested(w->client[0]);
}

/*
 * Prefetches the slot of a later packet, so that its cache line arrives while earlier packets are
 * processed.
 */
static void prefetch_slots(const struct dta_worker *w, uint32_t at)
{
	if (at < w->came && w->opts.n_collectors == 1)
		dta_client_prefetch(w->client[0], w->datagram[at].data, w->datagram[at].bytes);
}

static int take_datagrams(struct dta_worker *w)
{
	const uint32_t at = w->at;
	uint64_t now, real;

	if (at == w->came)
		return 0;
	now = base_now_ns();
	real = base_realtime_ns();
	while (w->at < w->came && has_room(w))
		if (w->opts.n_allow && !base_networks_have(w->opts.allow, w->opts.n_allow,
							   &w->datagram[w->at].address)) {
			w->account.packets++;
			w->account.refused_source++;
			w->at++;
		} else if (w->source[w->from].decoder) {
			dta_worker_device_take(w, w->from, &w->datagram[w->at++], now, real);
		} else {
			prefetch_slots(w, w->at + AHEAD);
			take_datagram(w, w->from, &w->datagram[w->at++], now, real);
		}
	dta_worker_device_flush(w, w->from, now, false);
	return (int)(w->at - at);
}

/* Processes packets that other workers handed over. */
static int take_handed(struct dta_worker *w)
{
	const uint64_t now = base_now_ns(), real = base_realtime_ns();
	struct dta_datagram d;
	uint32_t input, n = 0;

	while (n < DTA_BATCH && has_room(w) &&
	       dta_steer_take(w->opts.steer, w->opts.worker, &d, &input)) {
		take_datagram(w, input, &d, now, real);
		n++;
	}
	return (int)n;
}

/* Returns the number of datagrams processed, or -1 if all inputs have ended. */
static int receive_packets(struct dta_worker *w)
{
	int taken = take_datagrams(w) + (w->opts.steer ? take_handed(w) : 0);
	bool any = false;

	if (w->at < w->came)
		return taken;
	for (uint32_t i = 0; i < w->sources; i++) {
		struct dta_source *s = &w->source[i];
		int n;

		if (s->ended)
			continue;
		any = true;
		n = s->in->ops->receive(s->in, w->datagram, DTA_BATCH);
		if (n == -ENODATA) {
			s->ended = true;
			continue;
		}
		if (n < 0)
			base_log_limited(BASE_WARN, "translate",
					 "cannot receive packets: %s input=%s", strerror(-n),
					 s->in->ops->name);
		w->from = i;
		w->at = 0;
		w->came = n > 0 ? (uint32_t)n : 0;
		taken += take_datagrams(w);
		if (w->at < w->came)
			return taken;
	}
	return any ? taken : -1;
}

/* Waits for input or a timer. Returns true if a stop signal arrived. */
static bool wait_for_work(struct dta_worker *w, int stop_fd, uint64_t now)
{
	struct pollfd p[2 + DTA_TRANSLATE_INPUTS + DTA_HASH_RING_MEMBERS_MAX] = {
		{.fd = stop_fd, .events = POLLIN}};
	bool waiting = now - w->busy_ns < IDLE_NS;
	nfds_t n = 1;

	if (w->opts.steer)
		p[n++] = (struct pollfd){.fd = dta_steer_fd(w->opts.steer, w->opts.worker),
					 .events = POLLIN};

	for (uint32_t i = 0; i < w->sources; i++) {
		const int fd = w->source[i].in->fd;

		if (fd >= 0 && !w->source[i].ended)
			p[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
	}
	for (uint32_t i = 0; i < w->opts.n_collectors; i++) {
		bool write;
		const int fd = dta_client_fd(w->client[i], &write);

		waiting |= dta_client_waiting(w->client[i]);
		if (fd >= 0)
			p[n++] = (struct pollfd){.fd = fd,
						 .events = (short)(POLLIN | (write ? POLLOUT : 0))};
	}
	poll(p, n, waiting ? 1 : 20);
	return p[0].revents;
}

/* Processes or counts the packets left in sockets. */
static void drain_sockets(struct dta_worker *w)
{
	const uint64_t end = base_now_ns() + DRAIN_NS;
	bool all_drained = false;
	uint64_t now;

	for (uint32_t i = 0; i < w->sources; i++) {
		struct dta_input *in = w->source[i].in;

		if (in->ops->stop)
			in->ops->stop(in);
		w->source[i].ended |= in->fd < 0; /* don't wait for the end of a file */
	}
	for (now = base_now_ns(); now < end; now = base_now_ns()) {
		if (receive_packets(w) <= 0 && w->at == w->came) {
			if (all_drained)
				return;
			/* Other workers may still hand packets over. */
			all_drained = !w->opts.steer ||
				      dta_steer_drained(w->opts.steer, w->opts.worker);
			poll(NULL, 0, !all_drained);
		}
		for (uint32_t i = 0; i < w->opts.n_collectors; i++)
			dta_client_tick(w->client[i], now);
		if (w->at < w->came || now - w->looked_ns >= LOOK_NS)
			poll_timers(w, now);
	}
	w->account.unread += w->came - w->at;
	for (uint32_t i = 0; i < w->sources; i++) {
		struct dta_input *in = w->source[i].in;
		int n;

		while (!w->source[i].ended && base_now_ns() < end + DRAIN_NS &&
		       (n = in->ops->receive(in, w->datagram, DTA_BATCH)) > 0)
			w->account.unread += (uint32_t)n;
	}
	w->at = w->came = 0;
}

/* Stops the intake and counts packets that were received but not processed. */
static void end_intake(struct dta_worker *w)
{
	drain_sockets(w);
	for (uint32_t i = 0; i < w->sources; i++)
		dta_worker_device_flush(w, i, base_now_ns(), true);
	if (w->opts.steer)
		w->account.unread += dta_steer_end(w->opts.steer, w->opts.worker);
	w->account.packets += w->account.unread;
}

static void finish_worker(struct dta_worker *w)
{
	const uint64_t end = base_now_ns() + FINISH_NS;
	bool done;

	do {
		const uint64_t now = base_now_ns();

		done = true;
		for (uint32_t i = 0; i < w->opts.n_collectors; i++)
			done &= dta_client_finish(w->client[i], now);
		if (!done)
			poll(NULL, 0, 1);
	} while (!done && base_now_ns() < end);
	/* Nothing is in flight any more, so drop and count the remaining reports. */
	for (uint32_t i = 0; i < w->opts.n_collectors; i++)
		dta_client_abandon(w->client[i]);
	answer_reporters(w, base_now_ns());
	release_held(w, base_now_ns());
	release_held(w, base_now_ns());
	dta_worker_notify(w);
	for (uint32_t i = 0; i < w->opts.n_collectors; i++)
		dta_client_drive(w->client[i], base_now_ns());
}

void dta_worker_run(struct dta_worker *w, int stop_fd)
{
	/* A file is read only once a collector is ready; sockets wait at most START_NS. */
	uint64_t wait_until = UINT64_MAX;

	for (uint32_t i = 0; i < w->sources; i++)
		if (w->source[i].in->fd >= 0)
			wait_until = base_now_ns() + START_NS;
	for (;;) {
		const bool wait = base_now_ns() < wait_until && !dta_worker_ready(w);
		const int taken = wait ? 0 : receive_packets(w);
		const uint64_t now = base_now_ns();

		if (!wait && wait_until != UINT64_MAX)
			wait_until = 0;

		if (taken < 0)
			break;
		if (taken) {
			w->busy_ns = now;
			for (uint32_t i = 0; i < w->opts.n_collectors; i++)
				dta_client_tick(w->client[i], now);
		}
		if (!taken || now - w->looked_ns >= LOOK_NS) {
			relaxed_bump(w->turns, 1);
			poll_timers(w, now);
			/* Check for signals even during a flood. */
			if (taken ? base_stop_wait(stop_fd, 0) : wait_for_work(w, stop_fd, now))
				break;
			for (uint32_t i = 0; !taken && i < w->opts.n_collectors; i++)
				dta_client_tick(w->client[i], base_now_ns());
		}
	}
	end_intake(w);
	finish_worker(w);
}

bool dta_worker_ready(const struct dta_worker *w)
{
	return atomic_load_explicit(&w->ready, memory_order_relaxed);
}

uint64_t dta_worker_turns(const struct dta_worker *w)
{
	return relaxed_load(w->turns);
}

/* ---- open and close ---- */

static void note_collision(void *arg, const struct dta_loss_key *key)
{
	char host[INET6_ADDRSTRLEN];

	(void)arg;
	inet_ntop(AF_INET6, &key->address, host, sizeof(host));
	base_log_limited(BASE_WARN, "translate",
			 "two reporters use the same number: assign each its own address=%s "
			 "port=%u tenant=%u reporter=%u",
			 host, key->port, key->tenant, key->reporter);
}

struct dta_worker *dta_worker_new(const struct dta_translate_opts *opts, const char *name,
				  struct dta_input **inputs, uint32_t n_inputs, char *error,
				  size_t error_bytes)
{
	struct dta_worker *w = calloc(1, sizeof(*w));

	snprintf(error, error_bytes, "no memory");
	if (!w) {
		for (uint32_t i = 0; i < n_inputs; i++)
			inputs[i]->ops->close(inputs[i]);
		return NULL;
	}
	w->opts = *opts;
	if (!w->opts.legacy_hops)
		w->opts.legacy_hops = 5;
	if (!w->opts.replicas)
		w->opts.replicas = 1;
	snprintf(w->name, sizeof(w->name), "%s", name);
	for (uint32_t i = 0; i < n_inputs && i < DTA_TRANSLATE_INPUTS; i++)
		w->source[w->sources++].in = inputs[i];
	for (uint32_t i = 0; i < w->sources; i++)
		if (dta_worker_device_open(w, i))
			goto fail;
	w->gathered = malloc(BASE_MAX(DTA_PACKET_MAX, DTA_MAP_BLOCK_MAX));
	w->tenants = dta_tenants_new(opts->collectors, opts->n_collectors, opts->rates);
	for (int i = 0; i < 2; i++)
		w->held[i] = calloc(1, sizeof(*w->held[i]));
	if (!w->gathered || !w->tenants || !w->held[0] || !w->held[1])
		goto fail;
	w->opts.loss.forgotten = note_forgotten;
	w->opts.loss.collides = note_collision;
	w->opts.loss.arg = w;
	w->loss = dta_loss_new(&w->opts.loss);
	w->opts.loss.forgotten = NULL; /* the original's reporters are not in the steering table */
	if (opts->legacy == DTA_LEGACY_B)
		w->legacy = dta_loss_new(&w->opts.loss);
	if (!w->loss || (opts->legacy == DTA_LEGACY_B && !w->legacy))
		goto fail;
	w->reflect.seed = base_hash_u64((uintptr_t)w);
	w->translator = dta_translator_of_name(opts->name, strlen(opts->name));
	if (dta_hash_ring_init(&w->ring, opts->collectors, opts->n_collectors)) {
		snprintf(error, error_bytes, "specify 1 to %u different collectors",
			 DTA_HASH_RING_MEMBERS_MAX);
		goto fail;
	}
	w->gap = opts->gaps ? dta_gap_file_take(opts->gaps, opts->worker, opts->collectors,
						opts->n_collectors)
			    : w->own_gap;
	for (uint32_t i = 0; i < opts->n_collectors; i++) {
		struct dta_client_opts c = opts->client;

		c.collector = opts->collectors[i];
		c.name = w->name;
		c.replicas = w->opts.replicas;
		c.tenants = w->tenants;
		c.number = i;
		w->client[i] = dta_client_new(&c, error, error_bytes);
		if (!w->client[i])
			goto fail;
	}
	return w;
fail:
	dta_worker_free(w);
	return NULL;
}

void dta_worker_free(struct dta_worker *w)
{
	if (!w)
		return;
	for (uint32_t i = 0; i < BASE_MIN(w->opts.n_collectors, DTA_HASH_RING_MEMBERS_MAX); i++)
		dta_client_free(w->client[i]);
	for (uint32_t i = 0; i < w->sources; i++) {
		w->source[i].in->ops->close(w->source[i].in);
		dta_worker_device_close(&w->source[i]);
	}
	dta_loss_free(w->loss);
	dta_loss_free(w->legacy);
	dta_tenants_free(w->tenants);
	free(w->held[0]);
	free(w->held[1]);
	free(w->gathered);
	free(w);
}
