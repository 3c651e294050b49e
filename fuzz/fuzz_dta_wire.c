// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_dta_wire.c - what comes from the network. The first byte chooses: a packet of format 2, the
 * original's forms A and B, an answer, or a row of packets to the loss protocol. What is taken lies
 * within the packet, has a permitted shape, and builds again; the account of loss closes whatever
 * comes.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sidelight/store.h>

#include "dta/wire/auth.h"
#include "dta/translate/loss.h"
#include "dta/wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct dta_packet parsed;

static void must(bool condition)
{
	if (!condition)
		abort();
}

/* Every item, byte by byte, so that ASan sees one that lies outside. */
static void look(void)
{
	static uint8_t room[DTA_PACKET_MAX];
	volatile uint8_t sum = 0;
	uint32_t reports = 0, put = 0;
	struct dta_builder b;

	dta_begin(&b, room, sizeof(room), &parsed.header);
	must(parsed.header.blocks > 0);
	for (uint32_t i = 0; i < parsed.header.blocks; i++) {
		const struct dta_block *block = &parsed.block[i];
		size_t item = (size_t)block->key_bytes + block->value_bytes;

		must(block->opcode > 0 && block->opcode < DTA_OPCODE_END && block->count);
		must(block->copies <= SL_STORE_COPIES_MAX && block->key_bytes >= 4 &&
		     block->key_bytes <= SL_STORE_KEY_MAX && block->value_bytes &&
		     item <= DTA_ITEM_MAX);
		reports += block->count;
		for (uint32_t k = 0; k < block->count; k++) {
			const uint8_t *key = block->items + k * item;
			int err;

			for (size_t at = 0; at < item; at++)
				sum = (uint8_t)(sum + key[at]);
			err = dta_put(&b, block, key, key + block->key_bytes);
			must(!err || err == -ENOSPC || err == -EMSGSIZE);
			put += !err;
		}
	}
	must(reports == parsed.header.reports && reports <= DTA_REPORTS_MAX);
	if (put ==
	    reports) { /* blocks of one shape may have become one; what is built is as good */
		size_t n = dta_end(&b);

		must(n && b.header.reports == reports);
		must(n + (parsed.header.flags & DTA_AUTHENTICATED ? DTA_PROOF_BYTES : 0) <=
		     sizeof(room));
	}
}

static void answer(const uint8_t *packet, size_t bytes)
{
	uint8_t again[DTA_ANSWER_BYTES + 8 * DTA_RANGES_MAX];
	struct dta_answer a;
	size_t n;

	if (dta_answer_parse(packet, bytes, &a))
		return;
	n = dta_answer_build(&a, again, sizeof(again));
	must(n == bytes || n + DTA_MAC_BYTES == bytes);
	must(!memcmp(again, packet, n));
}

/*
 * 12 bytes per packet: which reporter and what of it, how many, by how much time has gone on,
 * sequence, incarnation.
 */
static void loss(const uint8_t *p, size_t bytes)
{
	static uint64_t fresh[DTA_LOSS_FRESH_WORDS];
	struct dta_loss_opts o = {.reporters = 3, .window = 64, .forget_ns = 1000, .nack_ns = 10};
	struct dta_loss *l = dta_loss_new(&o);
	uint64_t now = 1, taken = 0;

	must(l);
	for (; bytes >= 12; p += 12, bytes -= 12) {
		struct dta_loss_key key = {.port = p[1], .reporter = p[0] & 7}, to;
		struct dta_header h = {
			.flags = p[0] >> 3 & 7,
			.reports = 1 + (uint32_t)(p[2] | p[3] << 8) % DTA_REPORTS_MAX,
			.sequence = (uint32_t)p[4] << 24 | (uint32_t)p[5] << 16 |
				    (uint32_t)p[6] << 8 | p[7],
			.incarnation = (uint32_t)p[8] << 24 | p[9],
		};
		uint32_t bits = p[0] & 64 ? 8 : 32, count = 0, answers = 0;
		struct dta_loss_stats s;
		struct dta_answer a;
		int n;

		if (bits == 8) {
			h.reports = 1;
			h.sequence &= 0xff;
		}
		now += (uint64_t)p[10] << (p[11] & 7);
		memset(fresh, 0xff, sizeof(fresh));
		n = dta_loss_packet(l, &key, &h, bits, now, fresh);
		must(n >= 0 || n == -ENOSPC);
		for (uint32_t i = 0; n >= 0 && i < h.reports; i++)
			count += fresh[i / 64] >> i % 64 & 1;
		must(n < 0 || (uint32_t)n == count);
		taken += count;
		while (dta_loss_answer(l, now, &to, &a)) {
			must(a.ranges <= DTA_RANGES_MAX && ++answers < 100);
			for (uint32_t i = 0; i < a.ranges; i++)
				must(a.range[i].count);
		}
		dta_loss_total(l, &s);
		must(s.expected == s.arrived + s.missing + s.lost && s.arrived == taken);
		must(s.reporters <= 3);
	}
	dta_loss_free(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct in6_addr any;
	static const struct dta_auth_here here = {.address = &any};
	static struct dta_auth *keys;
	uint8_t *exact;

	if (!keys) {
		keys = dta_auth_new();
		must(keys &&
		     !dta_auth_keys(keys, 0, &(struct dta_key_spec){.key = "0123456789abcdef"}, 1));
	}
	if (!size)
		return 0;
	exact = malloc(size > 1 ? size - 1 : 1); /* ends where the packet does */
	must(exact);
	memcpy(exact, data + 1, size - 1);
	size--;
	switch (data[0] % 5) {
	case 0:
		if (dta_parse(exact, size, &parsed))
			break;
		look();
		(void)dta_auth_check(keys, &parsed.header, exact, size, &here,
				     parsed.header.time_ns, &(uint32_t){0});
		break;
	case 1:
	case 2:
		if (!dta_parse_legacy(exact, size, data[0] % 5 == 1 ? DTA_LEGACY_A : DTA_LEGACY_B,
				      5, &parsed))
			look();
		break;
	case 3:
		answer(exact, size);
		break;
	default:
		loss(exact, size);
	}
	free(exact);
	return 0;
}
