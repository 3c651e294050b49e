// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>

#include <libdeflate.h>

#include "base/text.h"
#include "dta/io/roce.h"
#include "dta/wire/endian.h"

#define ETHERNET      14u
#define IPV4	      20u
#define IPV6	      40u
#define UDP	      8u
#define BTH	      12u
#define ICRC	      4u
#define QPN_MIN	      2u /* 0 and 1 are management queue pairs */

#define BTH_SOLICITED 0x80u
#define BTH_MIGRATED  0x40u
#define BTH_PAD	      0x30u
#define BTH_VERSION   0x0fu

static uint32_t read_24(const uint8_t *from)
{
	return (uint32_t)from[0] << 16 | dta_get16(from + 1);
}

/* ---- ends ---- */

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static bool is_v4(const uint8_t gid[16])
{
	return !memcmp(gid, mapped, sizeof(mapped));
}

static bool gid_is_unicast(const uint8_t gid[16])
{
	static const uint8_t none[16];

	if (is_v4(gid))
		return gid[12] && gid[12] < 224; /* excludes 0/8, multicast and broadcast */
	return memcmp(gid, none, 16) && gid[0] != 0xff;
}

int dta_roce_end_check(const struct dta_roce_end *e)
{
	static const uint8_t none[6];
	bool mtu = e->mtu >= DTA_ROCE_MTU_MIN && e->mtu <= DTA_ROCE_MTU_MAX &&
		   !(e->mtu & (e->mtu - 1));

	if (e->qpn < QPN_MIN || e->qpn > DTA_ROCE_24 || e->psn > DTA_ROCE_24 || !mtu ||
	    e->atomics > 255 || !gid_is_unicast(e->gid) || !memcmp(e->mac, none, 6) ||
	    (e->mac[0] & 1))
		return -EINVAL;
	return 0;
}

static int of_hex(const json_t *j, uint8_t *out, size_t n)
{
	const char *s = json_string_value(j);

	return s ? base_unhex(out, s, n) : -EINVAL;
}

/* Reads a number, checking bounds before narrowing. */
static int read_number(const json_t *j, json_int_t max, uint32_t *out)
{
	const json_int_t v = json_integer_value(j);

	*out = (uint32_t)v;
	return json_is_integer(j) && v >= 0 && v <= max ? 0 : -EINVAL;
}

json_t *dta_roce_end_json(const struct dta_roce_end *e)
{
	char gid[33], mac[13];

	base_hex(gid, e->gid, 16);
	base_hex(mac, e->mac, 6);
	return json_pack("{s:s,s:I,s:I,s:s,s:s,s:I,s:I}", "type", "queue", "qpn",
			 (json_int_t)e->qpn, "psn", (json_int_t)e->psn, "gid", gid, "mac", mac,
			 "mtu", (json_int_t)e->mtu, "atomics", (json_int_t)e->atomics);
}

int dta_roce_end_of_json(const json_t *message, struct dta_roce_end *e)
{
	uint32_t mtu;

	memset(e, 0, sizeof(*e));
	if (read_number(json_object_get(message, "qpn"), DTA_ROCE_24, &e->qpn) ||
	    read_number(json_object_get(message, "psn"), DTA_ROCE_24, &e->psn) ||
	    read_number(json_object_get(message, "mtu"), DTA_ROCE_MTU_MAX, &mtu))
		return -EINVAL;
	e->mtu = (uint16_t)mtu;
	if (json_is_integer(json_object_get(message, "atomics")) &&
	    read_number(json_object_get(message, "atomics"), 255, &e->atomics))
		return -EINVAL;
	if (of_hex(json_object_get(message, "gid"), e->gid, 16) ||
	    of_hex(json_object_get(message, "mac"), e->mac, 6))
		return -EINVAL;
	return dta_roce_end_check(e);
}

/* ---- building ---- */

/* Returns the unfolded RFC 1071 sum over the header, excluding length and checksum. */
static uint32_t sum_v4(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < IPV4; i += 2)
		if (i != 2 && i != 10)
			sum += dta_get16(ip + i);
	return sum;
}

int dta_roce_builder(struct dta_roce_builder *b, const struct dta_roce_end *ours,
		     const struct dta_roce_end *theirs, uint16_t port)
{
	bool v4 = is_v4(ours->gid);
	uint8_t *ip, *bth;

	if (dta_roce_end_check(ours) || dta_roce_end_check(theirs) || is_v4(theirs->gid) != v4)
		return -EINVAL;
	memset(b, 0, sizeof(*b));
	b->ip = ETHERNET;
	b->bth = ETHERNET + (v4 ? IPV4 : IPV6) + UDP;
	memcpy(b->head, theirs->mac, 6);
	memcpy(b->head + 6, ours->mac, 6);
	dta_put16(b->head + 12, v4 ? 0x0800 : 0x86dd);
	ip = b->head + ETHERNET;
	if (v4) {
		ip[0] = 0x45;
		ip[6] = 0x40; /* don't fragment, which permits identification 0 (RFC 6864) */
		ip[8] = 64;
		ip[9] = 17;
		memcpy(ip + 12, ours->gid + 12, 4);
		memcpy(ip + 16, theirs->gid + 12, 4);
		b->ip_sum = sum_v4(ip);
	} else {
		ip[0] = 0x60;
		ip[6] = 17;
		ip[7] = 64;
		memcpy(ip + 8, ours->gid, 16);
		memcpy(ip + 24, theirs->gid, 16);
	}
	/* The UDP checksum is 0 even with IPv6 (annex A17.4.5.1), because the iCRC covers more. */
	dta_put16(b->head + b->bth - UDP, port);
	dta_put16(b->head + b->bth - UDP + 2, DTA_ROCE_PORT);
	bth = b->head + b->bth;
	dta_put16(bth + 2, 0xffff); /* default partition */
	dta_put32(bth + 4, theirs->qpn);
	return 0;
}

static bool has_reth(enum dta_roce_opcode o)
{
	return o == DTA_ROCE_WRITE_FIRST || o == DTA_ROCE_WRITE_ONLY ||
	       o == DTA_ROCE_WRITE_ONLY_IMMEDIATE;
}

static bool has_immediate(enum dta_roce_opcode o)
{
	return o == DTA_ROCE_WRITE_LAST_IMMEDIATE || o == DTA_ROCE_WRITE_ONLY_IMMEDIATE;
}

size_t dta_roce_build(const struct dta_roce_builder *b, const struct dta_roce_packet *p,
		      void *frame)
{
	uint8_t *start = frame, *bth = start + b->bth, *at = bth + BTH;
	uint32_t pad = -p->bytes & 3, length;

	memcpy(start, b->head, b->bth + BTH);
	bth[0] = (uint8_t)p->opcode;
	bth[1] = (uint8_t)((p->solicited ? BTH_SOLICITED : 0) | BTH_MIGRATED | pad << 4);
	dta_put32(bth + 8, p->psn & DTA_ROCE_24);
	if (has_reth(p->opcode) || p->opcode == DTA_ROCE_FETCH_ADD) {
		dta_put64(at, p->addr);
		dta_put32(at + 8, p->rkey);
		at += 12;
	}
	if (has_reth(p->opcode)) {
		dta_put32(at, p->length);
		at += 4;
	}
	if (p->opcode == DTA_ROCE_FETCH_ADD) {
		dta_put64(at, p->add);
		dta_put64(at + 8, 0);
		at += 16;
	}
	if (has_immediate(p->opcode)) {
		dta_put32(at, p->immediate);
		at += 4;
	}
	if (p->bytes)
		memcpy(at, p->payload, p->bytes);
	memset(at + p->bytes, 0, pad);
	at += p->bytes + pad + ICRC;

	length = (uint32_t)(at - bth) + UDP;
	dta_put16(bth - UDP + 4, length);
	if (start[12] == 0x08) {
		uint32_t sum;

		length += IPV4;
		dta_put16(start + b->ip + 2, length);
		sum = b->ip_sum + length;
		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		dta_put16(start + b->ip + 10, ~sum & 0xffff);
	} else {
		dta_put16(start + b->ip + 4, length);
	}
	return (size_t)(at - start);
}

/*
 * Computes the CRC over 8 bytes of ones (in place of InfiniBand's header) and the packet from the
 * IP header to the BTH's destination. Mutable fields are replaced by ones (annex A17.3.4; IBTA
 * 7.8.1).
 */
static uint32_t crc_head(const uint8_t *frame, uint32_t bth)
{
	uint8_t masked[8 + IPV6 + UDP + 8], *ip = masked + 8, *udp;
	uint32_t bytes = bth - ETHERNET;

	memset(masked, 0xff, 8);
	memcpy(ip, frame + ETHERNET, bytes + 8);
	if (bytes == IPV4 + UDP) {
		ip[1] = 0xff;
		ip[8] = 0xff;
		ip[10] = ip[11] = 0xff;
	} else {
		ip[0] |= 0x0f;
		ip[1] = ip[2] = ip[3] = 0xff;
		ip[7] = 0xff;
	}
	udp = ip + bytes - UDP;
	udp[6] = udp[7] = 0xff;
	udp[UDP + 4] = 0xff;
	return libdeflate_crc32(0, masked, 8 + bytes + 8);
}

uint32_t dta_roce_icrc(const void *frame, size_t bytes)
{
	const uint8_t *f = frame;
	uint32_t bth = ETHERNET + (f[12] == 0x08 ? IPV4 : IPV6) + UDP;

	return libdeflate_crc32(crc_head(f, bth), f + bth + 8, bytes - bth - 8 - ICRC);
}

void dta_roce_seal(struct dta_roce_builder *b, void *frame, size_t bytes, bool acknowledge)
{
	uint8_t *f = frame, *bth = f + b->bth;
	/* The variable fields before the PSN; never 0. */
	uint32_t shape = (uint32_t)bth[0] << 24 | (uint32_t)bth[1] << 16 | (uint32_t)bytes;
	uint32_t at = (shape >> 2 ^ shape >> 18) % DTA_ROCE_STATES, crc;

	bth[8] = acknowledge ? 0x80 : 0;
	if (b->state[at].shape != shape) {
		b->state[at].shape = shape;
		b->state[at].crc = crc_head(f, b->bth);
	}
	crc = libdeflate_crc32(b->state[at].crc, bth + 8, bytes - b->bth - 8 - ICRC);
	memcpy(f + bytes - ICRC, &crc, ICRC); /* the only little-endian field */
}

/* ---- answers ---- */

const char *dta_roce_refusal_name(enum dta_roce_refusal r)
{
	static const char *const names[DTA_ROCE_REFUSALS] = {
		"fine", "other", "truncated", "bad header", "bad source", "bad opcode", "bad icrc",
	};

	return r < DTA_ROCE_REFUSALS ? names[r] : "?";
}

/*
 * Finds the BTH of a frame addressed to us and checks that the Ethernet, IP and UDP lengths are
 * consistent.
 */
static enum dta_roce_refusal find_bth(const uint8_t *f, size_t *bytes,
				      const struct dta_roce_end *ours,
				      const struct dta_roce_end *theirs, uint32_t *bth)
{
	const uint8_t *ip = f + ETHERNET, *udp;
	bool v4 = is_v4(ours->gid), theirs_it_is;
	uint32_t header = v4 ? IPV4 : IPV6, length;

	if (*bytes < ETHERNET + header + UDP + BTH)
		return DTA_ROCE_OTHER;
	if (dta_get16(f + 12) != (v4 ? 0x0800u : 0x86ddu) || ip[0] >> 4 != (v4 ? 4 : 6))
		return DTA_ROCE_OTHER;
	/* A packet with options or another protocol is not an answer. */
	if (ip[v4 ? 9 : 6] != 17 || (v4 && ip[0] != 0x45))
		return DTA_ROCE_OTHER;
	if (v4 ? memcmp(ip + 16, ours->gid + 12, 4) : memcmp(ip + 24, ours->gid, 16))
		return DTA_ROCE_OTHER;
	udp = ip + header;
	if (dta_get16(udp + 2) != DTA_ROCE_PORT || read_24(udp + UDP + 5) != ours->qpn)
		return DTA_ROCE_OTHER;
	if (v4 && (dta_get16(ip + 6) & 0x3fff))
		return DTA_ROCE_TRUNCATED;
	length = v4 ? dta_get16(ip + 2) : dta_get16(ip + 4) + IPV6;
	if (length > *bytes - ETHERNET)
		return DTA_ROCE_TRUNCATED;
	if (length < header + UDP + BTH + ICRC || dta_get16(udp + 4) != length - header)
		return DTA_ROCE_BAD_HEADER;
	theirs_it_is = v4 ? !memcmp(ip + 12, theirs->gid + 12, 4)
			  : !memcmp(ip + 8, theirs->gid, 16);
	if (!theirs_it_is)
		return DTA_ROCE_BAD_SOURCE;
	*bytes = ETHERNET + length; /* excludes Ethernet padding */
	*bth = ETHERNET + header + UDP;
	return DTA_ROCE_FINE;
}

enum dta_roce_refusal dta_roce_parse(const void *frame, size_t bytes,
				     const struct dta_roce_end *ours,
				     const struct dta_roce_end *theirs, struct dta_roce_answer *out)
{
	const uint8_t *f = frame, *h;
	enum dta_roce_refusal r;
	uint32_t at, icrc;
	size_t payload;

	r = find_bth(f, &bytes, ours, theirs, &at);
	if (r)
		return r;
	h = f + at;
	payload = bytes - at - BTH - ICRC;
	if ((h[1] & (BTH_PAD | BTH_VERSION)) || (dta_get16(h + 2) & 0x7fff) != 0x7fff)
		return DTA_ROCE_BAD_HEADER;
	if (h[0] != DTA_ROCE_ACK && h[0] != DTA_ROCE_ATOMIC_ACK)
		return DTA_ROCE_BAD_OPCODE;
	if (payload != (h[0] == DTA_ROCE_ACK ? 4 : 12))
		return DTA_ROCE_BAD_HEADER;
	icrc = dta_roce_icrc(f, bytes);
	if (memcmp(&icrc, f + bytes - ICRC, ICRC))
		return DTA_ROCE_BAD_ICRC;
	*out = (struct dta_roce_answer){
		.opcode = h[0],
		.psn = read_24(h + 9),
		.syndrome = h[BTH],
		.msn = read_24(h + BTH + 1),
		.original = h[0] == DTA_ROCE_ATOMIC_ACK ? dta_get64(h + BTH + 4) : 0,
	};
	return DTA_ROCE_FINE;
}

/* ---- the window ---- */

void dta_roce_window(struct dta_roce_window *w, uint32_t first, uint32_t limit, uint64_t timeout_ns,
		     uint32_t tries)
{
	*w = (struct dta_roce_window){
		.first = first,
		.limit = limit < DTA_ROCE_LIMIT_FIRST ? limit : DTA_ROCE_LIMIT_FIRST,
		.limit_max = limit,
		.threshold = limit,
		.timeout_ns = timeout_ns,
		.patience_ns = timeout_ns * ((1ull << tries) - 1),
	};
}

uint64_t dta_roce_may_send(const struct dta_roce_window *w, uint64_t now_ns)
{
	uint64_t out = w->sent - w->acked, waiting = w->queued - w->sent;
	uint64_t room = out < w->limit ? w->limit - out : 0;

	if (now_ns < w->not_before_ns)
		return 0;
	return room < waiting ? room : waiting;
}

static uint64_t timeout_of(const struct dta_roce_window *w)
{
	return w->timeout_ns > 4 * w->round_ns ? w->timeout_ns : 4 * w->round_ns;
}

void dta_roce_sent(struct dta_roce_window *w, uint64_t count, uint64_t now_ns)
{
	w->sent += count;
	if (w->highest < w->sent)
		w->highest = w->sent;
	if (!w->progress_ns)
		w->progress_ns = now_ns;
	if (!w->deadline_ns)
		w->deadline_ns = now_ns + (timeout_of(w) << w->tries);
	/* Karn's algorithm: time only packets sent for the first time. */
	if (!w->timed && w->sent == w->highest && !w->back) {
		w->timed = w->sent;
		w->timed_ns = now_ns;
	}
}

static void grow_limit(struct dta_roce_window *w, uint64_t acknowledged)
{
	if (w->limit >= w->limit_max)
		return;
	if (w->limit < w->threshold) {
		w->limit += (uint32_t)acknowledged;
	} else {
		w->grown += (uint32_t)acknowledged;
		if (w->grown >= w->limit) {
			w->grown = 0;
			w->limit++;
		}
	}
	if (w->limit > w->limit_max)
		w->limit = w->limit_max;
}

/* Reduces the limit after a loss, which most likely occurred in a full queue. */
static void shrink_limit(struct dta_roce_window *w)
{
	uint32_t least = w->limit_max < DTA_ROCE_LIMIT_MIN ? w->limit_max : DTA_ROCE_LIMIT_MIN;

	w->threshold = w->limit / 2 > least ? w->limit / 2 : least;
	w->limit = w->threshold;
	w->grown = 0;
}

/* Records that all packets before n are acknowledged. */
static bool advance_acked(struct dta_roce_window *w, uint64_t n, uint64_t now_ns)
{
	if (n == w->acked)
		return false;
	grow_limit(w, n - w->acked);
	if (w->timed && n >= w->timed) {
		uint64_t round = now_ns - w->timed_ns;

		w->round_ns = w->round_ns ? w->round_ns - w->round_ns / 8 + round / 8 : round;
		w->timed = 0;
	}
	w->acked = n;
	if (w->sent < n)
		w->sent = n;
	w->tries = 0;
	w->back = false;
	w->not_before_ns = 0;
	w->progress_ns = w->highest == n ? 0 : now_ns;
	w->deadline_ns = w->sent == n ? 0 : now_ns + timeout_of(w);
	return true;
}

static void go_back(struct dta_roce_window *w)
{
	w->sent = w->acked;
	w->deadline_ns = 0;
	w->timed = 0;
	w->back = true;
}

static bool too_long(const struct dta_roce_window *w, uint64_t now_ns)
{
	return w->progress_ns && now_ns - w->progress_ns >= w->patience_ns;
}

/* RNR NAK timer (IBTA table 45), in units of 10 us. */
static const uint16_t rnr_timer[32] = {
	65535, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
	48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

enum dta_roce_event dta_roce_answered(struct dta_roce_window *w, const struct dta_roce_answer *a,
				      uint64_t now_ns)
{
	uint64_t ahead = (a->psn - dta_roce_psn(w, w->acked)) & DTA_ROCE_24;
	uint64_t n = w->acked + ahead;
	bool moved;

	if (n >= w->highest)
		return DTA_ROCE_NOTHING; /* stale, or never sent */
	if (a->opcode == DTA_ROCE_ATOMIC_ACK && (a->syndrome & DTA_ROCE_SYNDROME_KIND))
		return DTA_ROCE_NOTHING;
	switch (a->syndrome & DTA_ROCE_SYNDROME_KIND) {
	case DTA_ROCE_SYNDROME_ACK:
		/*
		 * Requests execute in order, so this also confirms earlier FETCH_ADDs whose answers
		 * were lost.
		 */
		advance_acked(w, n + 1, now_ns);
		return DTA_ROCE_PROGRESS;
	case DTA_ROCE_SYNDROME_RNR:
		moved = advance_acked(w, n, now_ns);
		if (!moved && too_long(w, now_ns))
			return DTA_ROCE_SILENT;
		w->not_before_ns = now_ns + rnr_timer[a->syndrome & 0x1f] * 10000ull;
		go_back(w);
		return DTA_ROCE_BACK;
	case DTA_ROCE_SYNDROME_NAK:
		moved = advance_acked(w, n, now_ns);
		if (a->syndrome != DTA_ROCE_NAK_SEQUENCE)
			return DTA_ROCE_REFUSED;
		/* A duplicate NAK for packets that were in flight before the go-back. */
		if (!moved && w->back)
			return DTA_ROCE_NOTHING;
		shrink_limit(w);
		go_back(w);
		return DTA_ROCE_BACK;
	}
	return DTA_ROCE_NOTHING;
}

enum dta_roce_event dta_roce_timer(struct dta_roce_window *w, uint64_t now_ns)
{
	if (!w->deadline_ns || now_ns < w->deadline_ns)
		return DTA_ROCE_NOTHING;
	if (too_long(w, now_ns))
		return DTA_ROCE_SILENT;
	if (w->tries < 20)
		w->tries++;
	shrink_limit(w);
	go_back(w);
	return DTA_ROCE_BACK;
}
