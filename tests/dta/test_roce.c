// SPDX-License-Identifier: Apache-2.0
/*
 * test_roce.c - our RoCEv2 frames against those of Linux 6.1's soft-RoCE (rxe.pcap, from
 * tests/guest).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "dta/io/roce.h"

#define IP 14

static uint64_t seed = 1;

static uint64_t chance(void) /* SplitMix64 */
{
	uint64_t x = seed += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static const struct dta_roce_end one = {
	.qpn = 0x123456,
	.psn = 0xfffffe,
	.gid = {[10] = 0xff, 0xff, 10, 77, 0, 1},
	.mac = {0x52, 0x54, 0, 1, 2, 3},
	.mtu = 1024,
	.atomics = 16,
};
static const struct dta_roce_end two = {
	.qpn = 0x11,
	.psn = 7,
	.gid = {[10] = 0xff, 0xff, 10, 77, 0, 2},
	.mac = {0x52, 0x54, 0, 1, 2, 4},
	.mtu = 4096,
	.atomics = 16,
};

static struct dta_roce_end v6(struct dta_roce_end e)
{
	memcpy(e.gid, (const uint8_t[]){0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0}, 12);
	return e;
}

/* Bit by bit, as in the specification: an independent implementation. */
static uint32_t slow_icrc(const uint8_t *frame, size_t bytes)
{
	uint8_t f[8192];
	bool v4 = frame[12] == 8;
	size_t n = bytes - IP - 4, udp = IP + (v4 ? 20 : 40);
	uint32_t crc = 0xffffffff;

	memcpy(f, frame, bytes);
	if (v4)
		f[IP + 1] = f[IP + 8] = f[IP + 10] = f[IP + 11] = 0xff;
	else
		f[IP] |= 0x0f, f[IP + 1] = f[IP + 2] = f[IP + 3] = f[IP + 7] = 0xff;
	f[udp + 6] = f[udp + 7] = f[udp + 8 + 4] = 0xff;
	for (size_t i = 0; i < 8 + n; i++) {
		crc ^= i < 8 ? 0xff : f[IP + i - 8];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

static uint32_t last4(const uint8_t *frame, size_t bytes)
{
	uint32_t v;

	memcpy(&v, frame + bytes - 4, 4);
	return v;
}

/* ---- frames of another's making ---- */

static uint8_t captured[16][2048];
static size_t captured_bytes[16];
static unsigned captured_count;

static void read_capture(void)
{
	uint8_t head[24];
	uint32_t record[4];
	FILE *f = fopen(RXE_PCAP, "rb");

	assert_non_null(f);
	assert_int_equal(fread(head, 1, sizeof(head), f), sizeof(head));
	while (fread(record, sizeof(record), 1, f) == 1) {
		assert_true(captured_count < 16 && record[2] <= 2048);
		assert_int_equal(fread(captured[captured_count], 1, record[2], f), record[2]);
		captured_bytes[captured_count++] = record[2];
	}
	fclose(f);
	assert_int_equal(captured_count, 7);
}

static uint64_t get(const uint8_t *from, unsigned bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | *from++;
	return v;
}

static void the_icrc_of_soft_roce_is_ours(void **state)
{
	(void)state;
	for (unsigned i = 0; i < captured_count; i++) {
		assert_int_equal(dta_roce_icrc(captured[i], captured_bytes[i]),
				 last4(captured[i], captured_bytes[i]));
		assert_int_equal(slow_icrc(captured[i], captured_bytes[i]),
				 last4(captured[i], captured_bytes[i]));
	}
}

/*
 * Frames rebuilt from their parsed fields are the same, except for the fields that each sender may
 * choose.
 */
static void frames_of_soft_roce_are_rebuilt_byte_for_byte(void **state)
{
	unsigned built = 0;

	(void)state;
	for (unsigned i = 0; i < captured_count; i++) {
		uint8_t *f = captured[i], *bth = f + 42, mine[2048];
		struct dta_roce_end from = one, to = two;
		struct dta_roce_packet p = {
			.opcode = bth[0],
			.solicited = bth[1] & 0x80,
			.psn = (uint32_t)get(bth + 9, 3),
		};
		struct dta_roce_builder b;
		size_t at = 12;

		if (bth[0] == DTA_ROCE_ACK || bth[0] == DTA_ROCE_ATOMIC_ACK)
			continue;
		memcpy(from.mac, f + 6, 6);
		memcpy(to.mac, f, 6);
		memcpy(from.gid + 12, f + 26, 4);
		memcpy(to.gid + 12, f + 30, 4);
		to.qpn = (uint32_t)get(bth + 5, 3);
		if (bth[0] == DTA_ROCE_WRITE_FIRST || bth[0] == DTA_ROCE_WRITE_ONLY ||
		    bth[0] == DTA_ROCE_FETCH_ADD) {
			p.addr = get(bth + 12, 8);
			p.rkey = (uint32_t)get(bth + 20, 4);
			p.length = (uint32_t)get(bth + 24, 4);
			at += 16;
		}
		if (bth[0] == DTA_ROCE_FETCH_ADD) {
			p.add = get(bth + 24, 8);
			at = captured_bytes[i] - 42 - 4;
			memset(bth + 32, 0, 8); /* perftest fills in the operand to compare with */
		}
		p.payload = bth + at;
		p.bytes = (uint32_t)(captured_bytes[i] - 42 - at - 4 - (bth[1] >> 4 & 3));
		assert_int_equal(dta_roce_builder(&b, &from, &to, (uint16_t)get(f + 34, 2)), 0);
		assert_int_equal(dta_roce_build(&b, &p, mine), captured_bytes[i]);
		/*
		 * The identification, and therefore the IP checksum; and the state of the path in
		 * the BTH.
		 */
		memcpy(f + 18, mine + 18, 2);
		f[24] = mine[24], f[25] = mine[25];
		bth[1] |= 0x40;
		dta_roce_seal(&b, mine, captured_bytes[i], bth[8] & 0x80);
		assert_memory_equal(mine, f, captured_bytes[i] - 4);
		assert_int_equal(last4(mine, captured_bytes[i]), slow_icrc(f, captured_bytes[i]));
		built++;
	}
	assert_int_equal(built, 5);
}

/* ---- frames of our own ---- */

static void every_frame_has_right_lengths_and_sums(void **state)
{
	static const enum dta_roce_opcode opcodes[] = {
		DTA_ROCE_WRITE_FIRST, DTA_ROCE_WRITE_MIDDLE,	     DTA_ROCE_WRITE_LAST,
		DTA_ROCE_WRITE_ONLY,  DTA_ROCE_WRITE_LAST_IMMEDIATE, DTA_ROCE_WRITE_ONLY_IMMEDIATE,
		DTA_ROCE_FETCH_ADD,
	};
	static const unsigned more[] = {16, 0, 0, 16, 4, 20, 28};
	uint8_t payload[4096], f[4096 + DTA_ROCE_AROUND + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)chance();
	for (unsigned round = 0; round < 4000; round++) {
		bool six = round & 1, ack = chance() & 1;
		struct dta_roce_end from = six ? v6(one) : one, to = six ? v6(two) : two;
		static struct dta_roce_builder b[2];
		unsigned kind = chance() % 7, bth = six ? 62 : 42;
		bool add = opcodes[kind] == DTA_ROCE_FETCH_ADD;
		struct dta_roce_packet p = {
			.opcode = opcodes[kind],
			.psn = (uint32_t)chance() & DTA_ROCE_24,
			.solicited = chance() & 1,
			.addr = chance(),
			.rkey = (uint32_t)chance(),
			.length = (uint32_t)chance(),
			.add = chance(),
			.immediate = (uint32_t)chance(),
			.payload = payload,
			.bytes = add		? 0
				 : chance() & 1 ? chance() % 64
						: chance() % 4097,
		};
		size_t n, padded = (p.bytes + 3) & ~3u;
		uint32_t sum = 0;

		if (round < 2)
			assert_int_equal(dta_roce_builder(&b[six], &from, &to, 50000), 0);
		memset(f, 0xee, sizeof(f));
		n = dta_roce_build(&b[six], &p, f);
		assert_int_equal(n, bth + 12 + more[kind] + padded + 4);
		assert_true(n <= padded + DTA_ROCE_AROUND);
		dta_roce_seal(&b[six], f, n, !ack);
		dta_roce_seal(&b[six], f, n, ack); /* the ACK request may change */
		assert_int_equal(f[n], 0xee);
		assert_int_equal(last4(f, n), slow_icrc(f, n));
		assert_int_equal(get(f + bth - 4, 2), n - bth + 8);
		assert_int_equal(get(f + bth - 6, 2), DTA_ROCE_PORT);
		assert_int_equal(get(f + (six ? 18 : 16), 2), six ? n - 54 : n - 14);
		for (unsigned i = 0; i < 20; i += 2)
			sum += (uint32_t)get(f + IP + i, 2);
		if (!six)
			assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
		assert_int_equal(f[bth], p.opcode);
		assert_int_equal(f[bth + 1], (p.solicited ? 0xc0 : 0x40) | (padded - p.bytes) << 4);
		assert_int_equal(get(f + bth + 5, 3), to.qpn);
		assert_int_equal(get(f + bth + 8, 4), (ack ? 0x80000000u : 0) | p.psn);
		if (more[kind] >= 16) {
			assert_true(get(f + bth + 12, 8) == p.addr);
			assert_int_equal(get(f + bth + 20, 4), p.rkey);
		}
		if (add)
			assert_true(get(f + bth + 24, 8) == p.add && !get(f + bth + 32, 8));
		else if (more[kind] >= 16)
			assert_int_equal(get(f + bth + 24, 4), p.length);
		if (more[kind] == 4 || more[kind] == 20)
			assert_int_equal(get(f + bth + 12 + more[kind] - 4, 4), p.immediate);
		assert_memory_equal(f + bth + 12 + more[kind], payload, p.bytes);
		for (size_t i = p.bytes; i < padded; i++)
			assert_int_equal(f[bth + 12 + more[kind] + i], 0);
	}
}

/* ---- answers ---- */

/* An answer of `two` to `one`, as a responder builds it; returns its length. */
static size_t answer_frame(uint8_t *f, bool six, const struct dta_roce_answer *a)
{
	struct dta_roce_end from = six ? v6(two) : two, to = six ? v6(one) : one;
	struct dta_roce_builder b;
	uint8_t aeth[12];
	size_t n;
	struct dta_roce_packet p = {.opcode = a->opcode, .psn = a->psn, .payload = aeth};

	p.bytes = a->opcode == DTA_ROCE_ACK ? 4 : 12;
	aeth[0] = a->syndrome;
	for (int i = 0; i < 3; i++)
		aeth[1 + i] = (uint8_t)(a->msn >> (16 - 8 * i));
	for (int i = 0; i < 8; i++)
		aeth[4 + i] = (uint8_t)(a->original >> (56 - 8 * i));
	assert_int_equal(dta_roce_builder(&b, &from, &to, 50000), 0);
	n = dta_roce_build(&b, &p, f);
	dta_roce_seal(&b, f, n, false);
	return n;
}

static void an_answer_is_read_and_a_changed_one_is_not(void **state)
{
	const struct dta_roce_answer said = {DTA_ROCE_ATOMIC_ACK, 0xabcdef, 0x1f, 0x654321,
					     0x1122334455667788};
	struct dta_roce_answer a;
	unsigned counted[DTA_ROCE_REFUSALS] = {0};

	(void)state;
	for (int six = 0; six < 2; six++) {
		struct dta_roce_end us = six ? v6(one) : one, them = six ? v6(two) : two;
		uint8_t f[256];
		size_t n = answer_frame(f, six, &said), ip = six ? 40 : 20;

		assert_int_equal(dta_roce_parse(f, n, &us, &them, &a), DTA_ROCE_FINE);
		assert_true(a.opcode == said.opcode && a.psn == said.psn &&
			    a.syndrome == said.syndrome && a.msn == said.msn &&
			    a.original == said.original);
		memset(f + n, 0x55, 8); /* padding of Ethernet */
		assert_int_equal(dta_roce_parse(f, n + 8, &us, &them, &a), DTA_ROCE_FINE);
		for (size_t cut = 0; cut < n; cut++) {
			uint8_t *exact = malloc(
				cut ? cut : 1); /* so that a tool detects reads beyond the end */

			memcpy(exact, f, cut);
			assert_int_not_equal(dta_roce_parse(exact, cut, &us, &them, &a),
					     DTA_ROCE_FINE);
			free(exact);
		}
		for (size_t bit = 12 * 8; bit < n * 8; bit++) {
			size_t byte = bit / 8, in = byte - IP;
			bool free_to_change =
				(byte >= IP && byte < IP + ip &&
				 (six ? (in == 0 && (bit & 7) < 4) || (in > 0 && in < 4) || in == 7
				      : in == 1 || in == 8 || in == 10 || in == 11)) ||
				in == ip + 6 || in == ip + 7 || in == ip + 8 + 4;
			enum dta_roce_refusal r;

			f[byte] ^= (uint8_t)(1 << (bit & 7));
			r = dta_roce_parse(f, n, &us, &them, &a);
			f[byte] ^= (uint8_t)(1 << (bit & 7));
			if (free_to_change != (r == DTA_ROCE_FINE))
				fail_msg("byte %zu bit %zu: %s", byte, bit & 7,
					 dta_roce_refusal_name(r));
			counted[r]++;
		}
	}
	for (unsigned r = 0; r < DTA_ROCE_REFUSALS; r++)
		if (!counted[r])
			fail_msg("none was refused as: %s", dta_roce_refusal_name(r));
}

/* Its iCRC is correct, and so is everything but one field. */
static void a_lying_answer_is_refused_by_cause(void **state)
{
	static const struct {
		unsigned at;
		uint8_t value;
		enum dta_roce_refusal r;
	} lies[] = {
		{12, 0x09, DTA_ROCE_OTHER},	 {14, 0x46, DTA_ROCE_OTHER},
		{23, 6, DTA_ROCE_OTHER},	 {33, 9, DTA_ROCE_OTHER},
		{29, 9, DTA_ROCE_BAD_SOURCE},	 {20, 0x20, DTA_ROCE_TRUNCATED},
		{21, 1, DTA_ROCE_TRUNCATED},	 {16, 1, DTA_ROCE_TRUNCATED},
		{17, 40, DTA_ROCE_BAD_HEADER},	 {17, 0, DTA_ROCE_BAD_HEADER},
		{39, 99, DTA_ROCE_BAD_HEADER},	 {37, 0, DTA_ROCE_OTHER},
		{42, 0x0a, DTA_ROCE_BAD_OPCODE}, {42, 0x12, DTA_ROCE_BAD_HEADER},
		{43, 0x10, DTA_ROCE_BAD_HEADER}, {43, 0x01, DTA_ROCE_BAD_HEADER},
		{44, 0, DTA_ROCE_BAD_HEADER},	 {47, 0, DTA_ROCE_OTHER},
		{49, 0, DTA_ROCE_OTHER},	 {0, 0, DTA_ROCE_FINE},
	};
	const struct dta_roce_answer said = {.opcode = DTA_ROCE_ACK, .psn = 5, .syndrome = 0x1f};
	struct dta_roce_answer a;

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		uint8_t f[256];
		size_t n = answer_frame(f, false, &said);
		enum dta_roce_refusal r;
		uint32_t icrc;

		f[lies[i].at] = lies[i].value;
		icrc = slow_icrc(f, n);
		memcpy(f + n - 4, &icrc, 4);
		r = dta_roce_parse(f, n, &one, &two, &a);
		if (r != lies[i].r)
			fail_msg("byte %u as %#x: %s", lies[i].at, lies[i].value,
				 dta_roce_refusal_name(r));
	}
}

/* ---- ends ---- */

static void an_end_survives_json_and_an_invalid_one_is_refused(void **state)
{
	static const char *const wrong[] = {
		"{}",
		"[]",
		"3",
		"null",
		"{'qpn':1}",
		"{'qpn':16777216}",
		"{'qpn':4294967314}",
		"{'qpn':'2'}",
		"{'qpn':-2}",
		"{'psn':16777216}",
		"{'psn':-1}",
		"{'psn':null}",
		"{'psn':1.5}",
		"{'mtu':0}",
		"{'mtu':1000}",
		"{'mtu':128}",
		"{'mtu':8192}",
		"{'mtu':66560}",
		"{'atomics':256}",
		"{'atomics':-1}",
		"{'gid':''}",
		"{'gid':'00'}",
		"{'gid':'00000000000000000000ffff0a4d00'}",
		"{'gid':'00000000000000000000ffff0a4d00012'}",
		"{'gid':'0000000000000000000gffff0a4d0001'}",
		"{'gid':'00000000000000000000000000000000'}",
		"{'gid':'00000000000000000000ffffffffffff'}",
		"{'gid':'00000000000000000000ffffe0000001'}",
		"{'gid':'ff020000000000000000000000000001'}",
		"{'gid':7}",
		"{'mac':'000000000000'}",
		"{'mac':'ffffffffffff'}",
		"{'mac':'01005e000001'}",
		"{'mac':'52540001020'}",
		"{'mac':7}",
	};
	struct dta_roce_end e;
	json_t *good = dta_roce_end_json(&one);

	(void)state;
	assert_non_null(good);
	assert_string_equal(json_string_value(json_object_get(good, "type")), "queue");
	assert_int_equal(dta_roce_end_of_json(good, &e), 0);
	assert_memory_equal(&e, &one, sizeof(e));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char text[128];
		json_t *j, *bad = json_deep_copy(good);

		snprintf(text, sizeof(text), "%s", wrong[i]);
		for (char *c = text; *c; c++)
			*c = *c == '\'' ? '"' : *c;
		j = json_loads(text, JSON_DECODE_ANY, NULL);
		assert_non_null(j);
		if (json_object_size(j))
			json_object_update(bad, j);
		if (!dta_roce_end_of_json(json_object_size(j) ? bad : j, &e))
			fail_msg("taken: %s", wrong[i]);
		json_decref(j);
		json_decref(bad);
	}
	json_object_del(good, "atomics");
	assert_int_equal(dta_roce_end_of_json(good, &e), 0);
	assert_int_equal(e.atomics, 0);
	json_decref(good);
}

/* ---- the window ---- */

/*
 * A responder that follows the specification, behind a network that loses, repeats and reorders:
 * each packet must be executed once, in order, whatever happens.
 */
#define PIPE 64

struct pipe {
	struct {
		uint64_t at;
		struct dta_roce_answer a; /* to the responder: psn only */
		uint64_t n;
	} slot[PIPE];
};

static void put(struct pipe *p, uint64_t now, struct dta_roce_answer a, uint64_t n, unsigned lossy)
{
	for (unsigned copies = chance() % 100 < lossy ? chance() % 3 : 1; copies; copies--)
		for (unsigned i = 0; i < PIPE; i++)
			if (!p->slot[i].at) {
				p->slot[i].at = now + 1000 +
						(chance() % 100 < lossy ? chance() % 50000 : 0);
				p->slot[i].a = a;
				p->slot[i].n = n;
				break;
			}
}

static void each_packet_executes_once_in_order_on_any_network(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 40; round++) {
		struct pipe there = {0}, back = {0};
		struct dta_roce_window w;
		const uint64_t packets = 3000;
		uint64_t now = 1, executed = 0, ends = 0, rnr_until = 0;
		bool nak_sent = false;
		unsigned lossy = round % 4 * 15;

		dta_roce_window(&w, DTA_ROCE_24 - 500 - (uint32_t)chance() % 1000, 32, 20000, 20);
		w.queued = packets;
		while (w.acked < packets) {
			uint64_t may = dta_roce_may_send(&w, now);

			now += 500;
			assert_true(++ends < 2000000);
			for (uint64_t i = 0; i < may; i++)
				put(&there, now,
				    (struct dta_roce_answer){.psn = dta_roce_psn(&w, w.sent + i)},
				    w.sent + i, lossy);
			if (may)
				dta_roce_sent(&w, may, now);
			assert_true(w.sent - w.acked <= 32 && w.acked <= w.sent &&
				    w.sent <= w.highest);
			for (unsigned i = 0; i < PIPE; i++) {
				struct dta_roce_answer a = {.opcode = DTA_ROCE_ACK};
				uint32_t ahead;

				if (!there.slot[i].at || there.slot[i].at > now)
					continue;
				there.slot[i].at = 0;
				ahead = (there.slot[i].a.psn - dta_roce_psn(&w, executed)) &
					DTA_ROCE_24;
				a.psn = dta_roce_psn(&w, executed);
				if (!ahead && lossy && chance() % 50 == 0 && now > rnr_until) {
					rnr_until = now + 100000;
					a.syndrome = DTA_ROCE_SYNDROME_RNR | 1;
				} else if (!ahead) {
					/* The data sent with this PSN must be the packet itself. */
					assert_true(there.slot[i].n == executed);
					executed++;
					nak_sent = false;
				} else if (ahead < DTA_ROCE_24 / 2) {
					if (nak_sent)
						continue;
					nak_sent = true;
					a.syndrome = DTA_ROCE_NAK_SEQUENCE;
				} else {
					a.psn = (a.psn - 1) & DTA_ROCE_24; /* a duplicate */
				}
				put(&back, now, a, 0, lossy);
			}
			for (unsigned i = 0; i < PIPE; i++) {
				enum dta_roce_event e;

				if (!back.slot[i].at || back.slot[i].at > now)
					continue;
				back.slot[i].at = 0;
				e = dta_roce_answered(&w, &back.slot[i].a, now);
				assert_true(e == DTA_ROCE_NOTHING || e == DTA_ROCE_PROGRESS ||
					    e == DTA_ROCE_BACK);
				assert_true(w.acked <= executed);
			}
			assert_int_not_equal(dta_roce_timer(&w, now), DTA_ROCE_SILENT);
		}
		assert_int_equal(executed, packets);
	}
}

static struct dta_roce_answer told(const struct dta_roce_window *w, uint64_t n, uint8_t syndrome)
{
	return (struct dta_roce_answer){
		.opcode = DTA_ROCE_ACK, .psn = dta_roce_psn(w, n), .syndrome = syndrome};
}

static void what_could_not_be_true_changes_nothing(void **state)
{
	struct dta_roce_window w, before;

	(void)state;
	dta_roce_window(&w, DTA_ROCE_24, 64, 1000, 3);
	w.queued = 100;
	assert_int_equal(dta_roce_may_send(&w, 1), 64);
	dta_roce_sent(&w, 10, 1);
	for (unsigned i = 0; i < 100000; i++) {
		struct dta_roce_answer a = {
			.opcode = chance() & 1 ? DTA_ROCE_ACK : DTA_ROCE_ATOMIC_ACK,
			.psn = i < 1000 ? dta_roce_psn(&w, 10) + i : (uint32_t)chance(),
			.syndrome = i < 1000 ? 0x1f : (uint8_t)chance(),
		};

		a.psn &= DTA_ROCE_24;
		if (((a.psn - dta_roce_psn(&w, 0)) & DTA_ROCE_24) < 10)
			continue;
		before = w;
		assert_int_equal(dta_roce_answered(&w, &a, 2), DTA_ROCE_NOTHING);
		assert_memory_equal(&w, &before, sizeof(w));
	}
	/* An answer to a FETCH_ADD is not a NAK, and one kind of syndrome is reserved. */
	before = w;
	for (unsigned s = 0x20; s < 0x100; s++) {
		struct dta_roce_answer a = told(&w, 3, (uint8_t)s);

		if (s & 0x60)
			a.opcode = DTA_ROCE_ATOMIC_ACK;
		if ((s & 0x60) == 0x40)
			a.opcode = DTA_ROCE_ACK;
		if (!(s & 0x60))
			continue;
		assert_int_equal(dta_roce_answered(&w, &a, 2), DTA_ROCE_NOTHING);
	}
	assert_memory_equal(&w, &before, sizeof(w));
}

static void going_back_happens_once_and_keeps_what_arrived(void **state)
{
	struct dta_roce_window w;
	struct dta_roce_answer a;

	(void)state;
	dta_roce_window(&w, 5, 64, 1000, 3);
	w.queued = 64;
	dta_roce_sent(&w, 40, 1);
	a = told(&w, 10, DTA_ROCE_NAK_SEQUENCE);
	assert_int_equal(dta_roce_answered(&w, &a, 2), DTA_ROCE_BACK);
	assert_true(w.acked == 10 && w.sent == 10);
	assert_int_equal(dta_roce_answered(&w, &a, 3), DTA_ROCE_NOTHING);
	dta_roce_sent(&w, 5, 4);
	assert_int_equal(dta_roce_answered(&w, &a, 5), DTA_ROCE_NOTHING);
	assert_int_equal(w.sent, 15);
	/* Earlier packets had arrived after all. */
	a = told(&w, 29, 0x1f);
	assert_int_equal(dta_roce_answered(&w, &a, 6), DTA_ROCE_PROGRESS);
	assert_true(w.acked == 30 && w.sent == 30);
	/* Silence is measured from the first packet after it. */
	dta_roce_sent(&w, 10, 7);
	a = told(&w, 39, 0x1f);
	assert_int_equal(dta_roce_answered(&w, &a, 8), DTA_ROCE_PROGRESS);
	dta_roce_sent(&w, 1, 1000000);
	assert_int_equal(dta_roce_timer(&w, 1001000), DTA_ROCE_BACK);
}

static void losses_shrink_and_arrivals_grow_the_window(void **state)
{
	struct dta_roce_window w;
	struct dta_roce_answer a;
	uint64_t now = 1;
	uint32_t before;

	(void)state;
	dta_roce_window(&w, 5, 1024, 1000, 20);
	w.queued = 1u << 20;
	assert_int_equal(dta_roce_may_send(&w, now), DTA_ROCE_LIMIT_FIRST);
	while (w.limit < 1024 && now < 1000000) {
		dta_roce_sent(&w, dta_roce_may_send(&w, now), now);
		a = told(&w, w.sent - 1, 0x1f);
		assert_int_equal(dta_roce_answered(&w, &a, now += 10), DTA_ROCE_PROGRESS);
	}
	assert_true(w.limit == 1024 && w.acked < 4096); /* doubled each time */
	for (before = 1024; before > DTA_ROCE_LIMIT_MIN; before /= 2) {
		dta_roce_sent(&w, dta_roce_may_send(&w, now), now);
		a = told(&w, w.acked + 1, DTA_ROCE_NAK_SEQUENCE);
		assert_int_equal(dta_roce_answered(&w, &a, now += 10), DTA_ROCE_BACK);
		assert_int_equal(w.limit, before / 2);
	}
	dta_roce_sent(&w, dta_roce_may_send(&w, now), now);
	assert_int_equal(dta_roce_timer(&w, now += 1000000), DTA_ROCE_BACK);
	assert_int_equal(w.limit, DTA_ROCE_LIMIT_MIN);
	for (unsigned round = 0; round < 10; round++) {
		dta_roce_sent(&w, dta_roce_may_send(&w, now), now);
		a = told(&w, w.sent - 1, 0x1f);
		dta_roce_answered(&w, &a, now += 10);
	}
	assert_in_range(w.limit, DTA_ROCE_LIMIT_MIN + 8,
			DTA_ROCE_LIMIT_MIN + 10); /* one each time */
}

static void a_slow_path_is_awaited_and_resends_are_not_timed(void **state)
{
	struct dta_roce_window w;
	struct dta_roce_answer a;
	uint64_t now = 1;

	(void)state;
	dta_roce_window(&w, 5, 64, 1000, 3);
	w.queued = 1000;
	dta_roce_sent(&w, 1, now);
	a = told(&w, 0, 0x1f);
	dta_roce_answered(&w, &a, now += 900);
	assert_int_equal(w.round_ns, 900);
	dta_roce_sent(&w, 1, now);
	assert_int_equal(dta_roce_timer(&w, now + 3599), DTA_ROCE_NOTHING);
	assert_int_equal(dta_roce_timer(&w, now += 3600), DTA_ROCE_BACK);
	dta_roce_sent(&w, 1, now);
	a = told(&w, 1, 0x1f);
	dta_roce_answered(&w, &a, now += 1);
	assert_int_equal(w.round_ns, 900);
	for (unsigned i = 0; i < 200; i++) {
		dta_roce_sent(&w, 1, now);
		a = told(&w, w.sent - 1, 0x1f);
		dta_roce_answered(&w, &a, now += 16);
	}
	assert_in_range(w.round_ns, 10, 32);
}

static void a_refusal_says_of_which_packet_and_silence_ends_it(void **state)
{
	struct dta_roce_window w;
	struct dta_roce_answer a;
	uint64_t now = 1;
	unsigned times = 0;

	(void)state;
	for (unsigned s = DTA_ROCE_NAK_INVALID; s <= DTA_ROCE_NAK_OPERATION; s++) {
		dta_roce_window(&w, 5, 64, 1000, 3);
		w.queued = 64;
		dta_roce_sent(&w, 64, 1);
		a = told(&w, 40, (uint8_t)s);
		assert_int_equal(dta_roce_answered(&w, &a, 2), DTA_ROCE_REFUSED);
		assert_int_equal(w.acked, 40);
	}
	/* Sent at 0, 1 and 3 us; at 7 us it is enough. */
	dta_roce_window(&w, 5, 64, 1000, 3);
	w.queued = 1;
	while (times < 100) {
		enum dta_roce_event e;

		if (dta_roce_may_send(&w, now))
			dta_roce_sent(&w, 1, now);
		e = dta_roce_timer(&w, now += 100);
		if (e == DTA_ROCE_SILENT)
			break;
		times += e == DTA_ROCE_BACK;
	}
	assert_int_equal(times, 2);
	assert_in_range(now, 7001, 8000);
	/* A responder that is never ready, too. */
	dta_roce_window(&w, 5, 64, 1000000, 3);
	w.queued = 1;
	for (now = 1; now < 100000000; now += 700000) {
		if (!dta_roce_may_send(&w, now))
			continue;
		dta_roce_sent(&w, 1, now);
		a = told(&w, 0, DTA_ROCE_SYNDROME_RNR | 12);
		if (dta_roce_answered(&w, &a, now) == DTA_ROCE_SILENT)
			break;
		assert_int_equal(dta_roce_may_send(&w, now + 639999), 0);
	}
	assert_in_range(now, 7000000, 8000000);
	/* A sender that sends nothing waits for nothing. */
	dta_roce_window(&w, 5, 64, 1000, 3);
	assert_int_equal(dta_roce_timer(&w, ~0ull), DTA_ROCE_NOTHING);
	w.queued = 1;
	dta_roce_sent(&w, 1, 1);
	a = told(&w, 0, 0x1f);
	assert_int_equal(dta_roce_answered(&w, &a, 2), DTA_ROCE_PROGRESS);
	assert_int_equal(dta_roce_timer(&w, ~0ull), DTA_ROCE_NOTHING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_icrc_of_soft_roce_is_ours),
		cmocka_unit_test(frames_of_soft_roce_are_rebuilt_byte_for_byte),
		cmocka_unit_test(every_frame_has_right_lengths_and_sums),
		cmocka_unit_test(an_answer_is_read_and_a_changed_one_is_not),
		cmocka_unit_test(a_lying_answer_is_refused_by_cause),
		cmocka_unit_test(an_end_survives_json_and_an_invalid_one_is_refused),
		cmocka_unit_test(each_packet_executes_once_in_order_on_any_network),
		cmocka_unit_test(what_could_not_be_true_changes_nothing),
		cmocka_unit_test(going_back_happens_once_and_keeps_what_arrived),
		cmocka_unit_test(losses_shrink_and_arrivals_grow_the_window),
		cmocka_unit_test(a_slow_path_is_awaited_and_resends_are_not_timed),
		cmocka_unit_test(a_refusal_says_of_which_packet_and_silence_ends_it),
	};

	read_capture();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
