// SPDX-License-Identifier: Apache-2.0
/*
 * output_raw.c - the output that builds RoCEv2 frames itself, like a DTA switch. Frames stay in a
 * ring until their operation is acknowledged, so that they can be sent again (go-back-N) or rebuilt
 * for the next queue pair.
 *
 * Packets are numbered across all queue pairs; [freed, queued) are in the ring. freed is always the
 * first packet of an operation, so that an operation with several packets can be restarted.
 */
#include "dta/io/output_raw.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/base.h"

#define DEPTH_DEFAULT	1024u
#define DEPTH_MAX	65536u
#define TIMEOUT_NS	20000000u /* timeout of the first retransmission */
#define TRIES_DEFAULT	8u
#define TRIES_MAX	20u
#define ACK_EVERY	32u
#define PORT_FIRST	0xc000u /* UDP source ports; annex A17 requires this range */
#define ANSWERS_A_DRIVE 4u	/* batches of answers processed per drive() */
#define ANSWER_BYTES	256u

struct output_raw_slot {
	struct dta_roce_packet packet; /* the payload is stored in the frame */
	uint32_t frame_bytes;
	bool last; /* last packet of the operation */
	bool add;
	uint64_t adds; /* number of FETCH_ADDs before this one on this queue pair */
};

struct raw {
	struct dta_output o;
	struct dta_output_raw_opts opts;
	struct dta_raw_port port;
	int port_error; /* of the last attempt to send, or 0 */
	enum dta_output_state state;
	uint32_t depth, tries;
	uint64_t now_ns; /* the latest time seen so far */

	struct dta_roce_end ours, theirs;
	struct dta_roce_builder builder;
	struct dta_roce_window window;
	uint64_t freed, scanned, adds;
	uint32_t mtu;
	uint32_t slots, frame_room; /* slots is a power of two; 0 means no queue pair yet */
	struct output_raw_slot *slot;
	uint8_t *frames;
};

static struct raw *raw_of(struct dta_output *o)
{
	return (struct raw *)o;
}

static struct output_raw_slot *slot_of(const struct raw *r, uint64_t n)
{
	return &r->slot[n & (r->slots - 1)];
}

static uint8_t *frame_of(const struct raw *r, uint64_t n)
{
	return r->frames + (n & (r->slots - 1)) * r->frame_room;
}

/* ---- disconnecting and connecting ---- */

/*
 * Keeps pending operations for the next queue pair. Discards FETCH_ADDs that were sent, because
 * they may have been executed, and after a refusal all operations with that rkey.
 */
static void keep_pending(struct raw *r, bool refused, uint32_t rkey)
{
	uint64_t to = r->freed, first = r->freed, sent = r->window.highest;

	for (uint64_t n = first; n < r->window.queued; n++) {
		struct output_raw_slot *s = slot_of(r, n);

		if (!s->last)
			continue;
		if (refused && s->packet.rkey == rkey) {
			r->o.stats.failed++;
			r->o.outstanding--;
		} else if (s->add && n < sent) {
			r->o.stats.unconfirmed++;
			r->o.outstanding--;
		} else if (to == first) {
			to = n + 1;
		} else {
			for (uint64_t from = first; from <= n; from++, to++) {
				*slot_of(r, to) = *slot_of(r, from);
				memcpy(frame_of(r, to), frame_of(r, from), r->frame_room);
			}
		}
		first = n + 1;
	}
	r->window.queued = to;
	r->window.acked = r->window.sent = r->window.highest = r->scanned = r->freed;
}

static bool is_gone(int err)
{
	return err == -ENXIO || err == -ENODEV;
}

/* Counts each time that the interface goes away or down, rather than each attempt to send. */
static void note_port_error(struct raw *r, int err)
{
	if (err != r->port_error) {
		r->o.stats.interface_gone += is_gone(err) && !is_gone(r->port_error);
		r->o.stats.interface_down += err == -ENETDOWN;
	}
	r->port_error = err;
}

static void go_down(struct raw *r, bool refused)
{
	if (r->state == DTA_OUTPUT_UP)
		r->o.stats.disconnects++;
	r->state = DTA_OUTPUT_DOWN;
	if (r->slots)
		keep_pending(r, refused, refused ? slot_of(r, r->window.acked)->packet.rkey : 0);
}

static int make_ring(struct raw *r, uint32_t mtu)
{
	uint32_t packets = 2 * (DTA_OUTPUT_WRITE_MAX / mtu);

	r->mtu = mtu;
	r->frame_room = (mtu + DTA_ROCE_AROUND + 63) & ~63u;
	if (packets < 2 * r->depth)
		packets = 2 * r->depth;
	for (r->slots = 1; r->slots < packets; r->slots *= 2)
		;
	r->slot = calloc(r->slots, sizeof(*r->slot));
	r->frames = calloc(r->slots, r->frame_room);
	if (r->slot && r->frames)
		return 0;
	free(r->slot);
	free(r->frames);
	r->slot = NULL;
	r->frames = NULL;
	r->slots = 0;
	return -ENOMEM;
}

/* Builds packet n from its slot. */
static void build_frame(struct raw *r, uint64_t n, const void *payload)
{
	struct output_raw_slot *s = slot_of(r, n);

	s->packet.psn = dta_roce_psn(&r->window, n);
	s->packet.payload = payload;
	s->adds = r->adds;
	r->adds += s->add;
	s->frame_bytes = (uint32_t)dta_roce_build(&r->builder, &s->packet, frame_of(r, n));
	s->packet.payload = NULL;
}

/* Rebuilds the frames for the new queue pair. */
static void build_again(struct raw *r)
{
	uint8_t payload[DTA_ROCE_MTU_MAX];

	for (uint64_t n = r->freed; n < r->window.queued; n++) {
		struct output_raw_slot *s = slot_of(r, n);
		uint32_t padded = (s->packet.bytes + 3) & ~3u;

		memcpy(payload, frame_of(r, n) + s->frame_bytes - 4 - padded, s->packet.bytes);
		build_frame(r, n, payload);
		r->o.stats.again += s->last;
	}
}

int dta_output_raw_ours(struct dta_output *o, struct dta_roce_end *ours)
{
	struct raw *r = raw_of(o);
	uint32_t random[2] = {0};
	int err;

	go_down(r, false);
	err = dta_raw_port_renew(&r->port, &r->opts, r->o.stats.last_error,
				 sizeof(r->o.stats.last_error));
	if (err) {
		note_port_error(r, err);
		return err;
	}
	/*
	 * The kernel's queue pairs have small numbers. A random PSN makes the peer reject late
	 * packets of the previous queue pair.
	 */
	if (getrandom(random, sizeof(random), 0) < 0)
		random[0] = random[1] = (uint32_t)base_now_ns();
	r->ours = r->port.end;
	r->ours.qpn = 0x800000u | (random[0] & 0x7fffffu);
	r->ours.psn = random[1] & DTA_ROCE_24;
	r->ours.atomics = 0;
	err = dta_raw_port_listen(&r->port, &r->ours);
	if (err)
		DTA_OUTPUT_FAILED(&r->o, "packet socket: %s", strerror(-err));
	else
		r->state = DTA_OUTPUT_CONNECTING;
	*ours = r->ours;
	return err;
}

int dta_output_raw_connect(struct dta_output *o, const struct dta_roce_end *theirs)
{
	struct raw *r = raw_of(o);
	uint32_t mtu = r->ours.mtu < theirs->mtu ? r->ours.mtu : theirs->mtu;
	uint64_t queued = r->window.queued;
	int err;

	if (r->state != DTA_OUTPUT_CONNECTING)
		return -EALREADY;
	if (r->slots && mtu < r->mtu)
		return -EMSGSIZE;
	err = dta_roce_builder(&r->builder, &r->ours, theirs,
			       (uint16_t)(PORT_FIRST | ((r->ours.qpn ^ theirs->qpn) & 0x3fff)));
	if (!err && !r->slots)
		err = make_ring(r, mtu);
	if (err)
		return err;
	r->theirs = *theirs;
	if (!r->theirs.atomics)
		r->theirs.atomics = 1;
	dta_roce_window(&r->window, r->ours.psn - (uint32_t)r->freed, r->depth, TIMEOUT_NS,
			r->tries);
	r->window.acked = r->window.sent = r->window.highest = r->scanned = r->freed;
	r->window.queued = queued;
	r->adds = 0;
	build_again(r);
	r->state = DTA_OUTPUT_UP;
	r->o.stats.connects++;
	return 0;
}

/* ---- operations ---- */

static int room_for(struct raw *r, const struct dta_object *to, uint64_t offset, uint32_t bytes,
		    uint32_t packets)
{
	if (offset > to->bytes || bytes > to->bytes - offset)
		return -ERANGE;
	if (r->state != DTA_OUTPUT_UP)
		return -ENOTCONN;
	if (bytes > DTA_OUTPUT_WRITE_MAX)
		return -EMSGSIZE;
	return r->slots - (r->window.queued - r->freed) < packets ? -EAGAIN : 0;
}

static void queue_packet(struct raw *r, const struct output_raw_slot *what, const void *payload)
{
	uint64_t n = r->window.queued++;

	*slot_of(r, n) = *what;
	build_frame(r, n, payload);
}

static int raw_write(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		     const void *data, uint32_t bytes, const uint32_t *immediate)
{
	struct raw *r = raw_of(o);
	uint32_t packets = bytes ? (bytes + r->mtu - 1) / (r->mtu ? r->mtu : 1) : 1;
	int err = room_for(r, to, offset, bytes, packets);

	if (err)
		return err;
	for (uint32_t i = 0; i < packets; i++) {
		bool first = !i, last = i + 1 == packets;
		struct output_raw_slot s = {
			.packet =
				{
					.opcode = first && last ? DTA_ROCE_WRITE_ONLY
						  : first	? DTA_ROCE_WRITE_FIRST
						  : last	? DTA_ROCE_WRITE_LAST
								: DTA_ROCE_WRITE_MIDDLE,
					.addr = to->addr + offset,
					.rkey = to->rkey,
					.length = bytes,
					.bytes = last ? bytes - i * r->mtu : r->mtu,
				},
			.last = last,
		};

		if (last && immediate) {
			s.packet.opcode++; /* the same opcode, with immediate */
			s.packet.immediate = *immediate;
			s.packet.solicited = true;
		}
		queue_packet(r, &s, (const uint8_t *)data + (size_t)i * r->mtu);
	}
	r->o.stats.writes++;
	r->o.stats.immediates += immediate != NULL;
	r->o.stats.bytes += bytes;
	r->o.outstanding++;
	return 0;
}

static int raw_add(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		   uint64_t addend)
{
	struct raw *r = raw_of(o);
	const struct output_raw_slot s = {
		.packet =
			{
				.opcode = DTA_ROCE_FETCH_ADD,
				.addr = to->addr + offset,
				.rkey = to->rkey,
				.add = addend,
			},
		.last = true,
		.add = true,
	};
	int err = offset & 7 ? -ERANGE : room_for(r, to, offset, 8, 1);

	if (err)
		return err;
	queue_packet(r, &s, NULL);
	r->o.stats.adds++;
	r->o.stats.bytes += 8;
	r->o.outstanding++;
	return 0;
}

/*
 * Keeps time monotonic, because flush() may have read the clock after the caller did. A negative
 * round trip would disable retransmission.
 */
static uint64_t advance_time(struct raw *r, uint64_t now_ns)
{
	if (r->now_ns < now_ns)
		r->now_ns = now_ns;
	return r->now_ns;
}

/* ---- sending ---- */

/* Returns the number of FETCH_ADDs before packet n. */
static uint64_t adds_before(const struct raw *r, uint64_t n)
{
	return n == r->window.queued ? r->adds : slot_of(r, n)->adds;
}

/* Completes operations whose last packet was acknowledged. */
static void complete_acked(struct raw *r)
{
	for (; r->scanned < r->window.acked; r->scanned++) {
		if (!slot_of(r, r->scanned)->last)
			continue;
		r->freed = r->scanned + 1;
		r->o.stats.completed++;
		r->o.outstanding--;
	}
}

static void cannot_send(struct raw *r, int err)
{
	note_port_error(r, err);
	/* A full queue is treated as a loss. A link that is down may recover. */
	if (err == -EAGAIN || err == -ENOBUFS || err == -ENETDOWN)
		return;
	DTA_OUTPUT_FAILED(&r->o, "sending: %s", strerror(-err));
	/*
	 * The socket does not find the interface again by itself. Without frames in flight there
	 * would be no timeout either.
	 */
	if (is_gone(err))
		go_down(r, false);
}

static void send_frames(struct raw *r, uint64_t now)
{
	struct dta_raw_frame frame[DTA_RAW_BATCH];
	uint64_t may;

	while (r->state == DTA_OUTPUT_UP && (may = dta_roce_may_send(&r->window, now))) {
		uint64_t answered = adds_before(r, r->window.acked), n = r->window.sent;
		unsigned count = 0;
		int sent;

		for (; count < DTA_RAW_BATCH && count < may; count++, n++) {
			/*
			 * The responder remembers only this many atomic responses for
			 * retransmission.
			 */
			if (slot_of(r, n)->add &&
			    slot_of(r, n)->adds - answered >= r->theirs.atomics)
				break;
			frame[count] = (struct dta_raw_frame){frame_of(r, n),
							      slot_of(r, n)->frame_bytes};
		}
		for (unsigned i = 0; i < count; i++)
			dta_roce_seal(&r->builder, frame[i].data, frame[i].bytes,
				      i + 1 == count || i % ACK_EVERY == ACK_EVERY - 1);
		if (!count)
			return;
		sent = dta_raw_port_send(&r->port, frame, count);
		if (sent < 0) {
			cannot_send(r, sent);
			return;
		}
		note_port_error(r, 0);
		for (uint64_t i = r->window.sent; i < r->window.sent + (unsigned)sent; i++)
			r->o.stats.again += i < r->window.highest;
		dta_roce_sent(&r->window, (unsigned)sent, now);
		if (r->port.file) { /* a file never sends answers */
			r->window.acked = r->window.sent;
			complete_acked(r);
		}
		if ((unsigned)sent < count)
			return;
	}
}

static void raw_flush(struct dta_output *o)
{
	struct raw *r = raw_of(o);

	send_frames(r, advance_time(r, base_now_ns()));
}

/* ---- answers ---- */

static void handle_event(struct raw *r, enum dta_roce_event e, const struct dta_roce_answer *a)
{
	complete_acked(r);
	switch (e) {
	case DTA_ROCE_BACK:
		r->o.stats.resyncs++;
		break;
	case DTA_ROCE_REFUSED:
		DTA_OUTPUT_FAILED(&r->o,
				  "queue pair %#x, PSN %u: the store server refused the "
				  "write with NAK %#x",
				  r->theirs.qpn, a->psn, a->syndrome);
		go_down(r, true);
		break;
	case DTA_ROCE_SILENT:
		DTA_OUTPUT_FAILED(&r->o, "the store server did not answer");
		go_down(r, false);
		break;
	default:
		break;
	}
}

/* Receives answers without waiting, in a bounded number of batches. */
static void take_answers(struct raw *r, uint64_t now)
{
	uint8_t came[DTA_RAW_BATCH][ANSWER_BYTES];
	struct dta_raw_frame frame[DTA_RAW_BATCH];
	enum dta_roce_refusal refusal;
	struct dta_roce_answer a;
	int n = DTA_RAW_BATCH;

	for (uint32_t batch = 0; batch < ANSWERS_A_DRIVE && n == DTA_RAW_BATCH; batch++) {
		for (uint32_t i = 0; i < DTA_RAW_BATCH; i++)
			frame[i] = (struct dta_raw_frame){came[i], ANSWER_BYTES};
		n = dta_raw_port_receive(&r->port, frame, DTA_RAW_BATCH);
		if (is_gone(n)) {
			cannot_send(r, n);
			return;
		}
		for (int i = 0; i < n; i++) {
			refusal = dta_roce_parse(frame[i].data, frame[i].bytes, &r->ours,
						 &r->theirs, &a);
			if (refusal == DTA_ROCE_OTHER)
				continue;
			if (refusal != DTA_ROCE_FINE) {
				DTA_OUTPUT_FAILED(&r->o, "ignoring an invalid response: %s",
						  dta_roce_refusal_name(refusal));
				continue;
			}
			if ((a.syndrome & DTA_ROCE_SYNDROME_KIND) != DTA_ROCE_SYNDROME_ACK)
				r->o.stats.naks++;
			handle_event(r, dta_roce_answered(&r->window, &a, now), &a);
			if (r->state != DTA_OUTPUT_UP)
				return;
		}
	}
}

static enum dta_output_state raw_drive(struct dta_output *o, uint64_t now_ns)
{
	struct raw *r = raw_of(o);

	now_ns = advance_time(r, now_ns);
	if (r->state == DTA_OUTPUT_UP) {
		take_answers(r, now_ns);
		handle_event(r, dta_roce_timer(&r->window, now_ns), NULL);
		send_frames(r, now_ns);
	}
	return r->state;
}

/* ---- the rest ---- */

static void raw_close(struct dta_output *o)
{
	struct raw *r = raw_of(o);

	if (r->port.file)
		send_frames(r, base_now_ns());
	dta_raw_port_close(&r->port);
	free(r->slot);
	free(r->frames);
	free(r);
}

struct dta_output *dta_output_raw(const struct dta_output_raw_opts *opts, char *error,
				  size_t error_bytes)
{
	static const struct dta_output_ops ops = {
		.write = raw_write,
		.add = raw_add,
		.flush = raw_flush,
		.drive = raw_drive,
		.close = raw_close,
	};
	struct dta_roce_end sink;
	struct raw *r;
	int err;

	if (!opts->file == !opts->interface || opts->depth > DEPTH_MAX || opts->tries > TRIES_MAX) {
		snprintf(error, error_bytes,
			 "raw output: specify either an interface or a file, and keep the other "
			 "values within their limits");
		return NULL;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		snprintf(error, error_bytes, "out of memory");
		return NULL;
	}
	r->o.ops = &ops;
	r->opts = *opts;
	r->depth = opts->depth ? opts->depth : DEPTH_DEFAULT;
	r->tries = opts->tries ? opts->tries : TRIES_DEFAULT;
	err = dta_raw_port_open(&r->port, opts, error, error_bytes);
	if (!err && opts->file) {
		dta_output_raw_ours(&r->o, &sink);
		sink.gid[15]++;
		sink.mac[5]++;
		sink.qpn = 0x11;
		sink.mtu = 1024;
		err = dta_output_raw_connect(&r->o, &sink);
		if (err)
			snprintf(error, error_bytes, "raw: %s", strerror(-err));
	}
	if (!err)
		return &r->o;
	raw_close(&r->o);
	return NULL;
}
