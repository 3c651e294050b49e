// SPDX-License-Identifier: Apache-2.0
/* wire.c - parses and builds packets as defined in docs/dta-wire.md */
#include "dta/wire/wire.h"

#include <errno.h>
#include <string.h>

#include <sidelight/store.h>

#include "dta/wire/endian.h"

const char *dta_refusal_name(enum dta_refusal r)
{
	static const char *const names[DTA_REFUSALS] = {
		[DTA_FINE] = "fine",	       [DTA_TRUNCATED] = "truncated",
		[DTA_OVERSIZED] = "oversized", [DTA_BAD_VERSION] = "version",
		[DTA_BAD_OPCODE] = "opcode",   [DTA_BAD_COPIES] = "copies",
		[DTA_BAD_KEY] = "key",	       [DTA_BAD_VALUE] = "value",
		[DTA_BAD_COUNT] = "count",     [DTA_BAD_FLAGS] = "flags",
		[DTA_BAD_MAC] = "mac",	       [DTA_REPLAYED] = "replayed",
		[DTA_ELSEWHERE] = "elsewhere",
	};

	return (unsigned int)r < DTA_REFUSALS ? names[r] : "unknown";
}

/* ---- shapes that each opcode permits ---- */

struct rule {
	uint8_t copies_min, copies_max, key_min, key_max;
	uint16_t value_min, value_max;
};

static const struct rule rules[DTA_OPCODE_END] = {
	[DTA_KEYWRITE] = {1, SL_STORE_COPIES_MAX, SL_STORE_KEY_MIN, SL_STORE_KEY_MAX,
			  SL_STORE_VALUE_MIN, SL_STORE_VALUE_MAX},
	[DTA_APPEND] = {0, 0, 4, 4, SL_STORE_VALUE_MIN, SL_STORE_VALUE_MAX},
	[DTA_INCREMENT] = {1, SL_STORE_COPIES_MAX, SL_STORE_KEY_MIN, SL_STORE_KEY_MAX, 8, 8},
	[DTA_POSTCARD] = {1, SL_STORE_COPIES_MAX, SL_STORE_KEY_MIN, SL_STORE_KEY_MAX, 8, 8},
	[DTA_SKETCH] = {0, 0, 12, 12, 1, DTA_SKETCH_VALUE_MAX},
	[DTA_SKETCH_END] = {0, 0, 4, 4, 4, 4},
};

static enum dta_refusal check_shape(const struct dta_block *b)
{
	const struct rule *r;

	if (b->opcode == 0 || b->opcode >= DTA_OPCODE_END)
		return DTA_BAD_OPCODE;
	r = &rules[b->opcode];
	if (b->flags & ~(DTA_IMMEDIATE | DTA_ESSENTIAL))
		return DTA_BAD_FLAGS;
	if (b->copies < r->copies_min || b->copies > r->copies_max)
		return DTA_BAD_COPIES;
	if (b->key_bytes < r->key_min || b->key_bytes > r->key_max)
		return DTA_BAD_KEY;
	if (b->value_bytes < r->value_min || b->value_bytes > r->value_max)
		return DTA_BAD_VALUE;
	return DTA_FINE;
}

/* A postcard's value begins with { u8 hop, u8 hops, u16 0 }. */
static bool hop_is_fine(const uint8_t *value)
{
	return value[0] < value[1] && value[1] <= SL_STORE_HOPS_MAX && !(value[2] | value[3]);
}

static enum dta_refusal check_hops(const struct dta_block *b)
{
	size_t step = (size_t)b->key_bytes + b->value_bytes;
	const uint8_t *value = b->items + b->key_bytes;

	for (uint32_t i = 0; i < b->count; i++, value += step)
		if (!hop_is_fine(value))
			return DTA_BAD_VALUE;
	return DTA_FINE;
}

/* ---- format 2 ---- */

enum dta_refusal dta_parse(const void *packet, size_t bytes, struct dta_packet *out)
{
	const uint8_t *p = packet, *end;
	struct dta_header *h = &out->header;
	uint32_t reports = 0;
	size_t whole;

	if (bytes < 2)
		return DTA_TRUNCATED;
	if (p[0] != DTA_MAGIC || p[1] != DTA_VERSION)
		return DTA_BAD_VERSION;
	if (bytes < DTA_HEADER_BYTES)
		return DTA_TRUNCATED;
	*h = (struct dta_header){
		.flags = p[2],
		.blocks = p[3],
		.tenant = dta_get16(p + 4),
		.length = dta_get16(p + 6),
		.reporter = dta_get32(p + 8),
		.sequence = dta_get32(p + 12),
		.time_ns = dta_get64(p + 16),
		.incarnation = dta_get32(p + 24),
		.reports = dta_get32(p + 28),
	};
	if (h->flags & ~(DTA_AUTHENTICATED | DTA_AGAIN | DTA_ACK_WANTED))
		return DTA_BAD_FLAGS;
	whole = h->length + (h->flags & DTA_AUTHENTICATED ? DTA_PROOF_BYTES : 0);
	if (bytes < whole || h->length < DTA_HEADER_BYTES)
		return DTA_TRUNCATED;
	if (bytes > whole || bytes > DTA_PACKET_MAX)
		return DTA_OVERSIZED;
	if (!h->blocks && (h->reports || h->length != DTA_HEADER_BYTES))
		return DTA_BAD_COUNT;
	end = p + h->length;
	p += DTA_HEADER_BYTES;
	for (uint32_t i = 0; i < h->blocks; i++) {
		struct dta_block *b = &out->block[i];
		enum dta_refusal r;
		size_t items;

		if ((size_t)(end - p) < DTA_BLOCK_BYTES)
			return DTA_TRUNCATED;
		*b = (struct dta_block){
			.opcode = p[0],
			.flags = p[1],
			.count = dta_get16(p + 2),
			.copies = p[4],
			.key_bytes = p[5],
			.value_bytes = dta_get16(p + 6),
			.store = dta_get16(p + 8),
			.items = p + DTA_BLOCK_BYTES,
		};
		r = check_shape(b);
		if (r)
			return r;
		if (dta_get16(p + 10))
			return DTA_BAD_FLAGS;
		if (!b->count)
			return DTA_BAD_COUNT;
		items = (size_t)b->count * (b->key_bytes + b->value_bytes);
		p += DTA_BLOCK_BYTES;
		if ((size_t)(end - p) < items)
			return DTA_TRUNCATED;
		p += items;
		reports += b->count;
		if (b->opcode == DTA_POSTCARD && check_hops(b))
			return DTA_BAD_VALUE;
	}
	if (p != end)
		return DTA_OVERSIZED;
	return reports == h->reports ? DTA_FINE : DTA_BAD_COUNT;
}

/* ---- the original formats ---- */

enum dta_refusal dta_parse_legacy(const void *packet, size_t bytes, enum dta_legacy form,
				  uint8_t hops, struct dta_packet *out)
{
	const uint8_t *p = packet;
	size_t base = form == DTA_LEGACY_A ? 2 : 3, fixed, value;
	struct dta_block *b = &out->block[0];
	uint8_t bits;
	bool redundancy;

	if (form != DTA_LEGACY_A && form != DTA_LEGACY_B)
		return DTA_BAD_VERSION;
	if (bytes < 1)
		return DTA_TRUNCATED;
	if (p[0] == DTA_MAGIC)
		return DTA_BAD_VERSION;
	if (p[0] < DTA_KEYWRITE || p[0] > DTA_POSTCARD)
		return DTA_BAD_OPCODE;
	if (bytes < base)
		return DTA_TRUNCATED;
	bits = p[base - 1];
	out->header = (struct dta_header){
		.blocks = 1,
		.reports = 1,
		.length = (uint16_t)bytes,
		.sequence = form == DTA_LEGACY_B ? p[1] : 0,
	};
	*b = (struct dta_block){
		.opcode = p[0],
		.flags = bits & 0x80 ? DTA_IMMEDIATE : 0,
		.count = 1,
		.key_bytes = 4,
		.store = p[0],
	};
	if (form == DTA_LEGACY_B && bits & 0x40) {
		b->flags |= DTA_ESSENTIAL;
		out->header.flags = DTA_ACK_WANTED;
	}
	/* The header before the data contains redundancy and key, list, or key and hop. */
	redundancy = b->opcode == DTA_KEYWRITE || b->opcode == DTA_INCREMENT;
	fixed = base + (redundancy || b->opcode == DTA_POSTCARD ? 5 : 4);
	if (bytes < fixed + 4)
		return DTA_TRUNCATED;
	value = bytes - fixed;
	switch (b->opcode) {
	case DTA_KEYWRITE:
		if (value > 28)
			return DTA_OVERSIZED;
		if (value != 4 && value != 12 && value != 28)
			return DTA_BAD_VALUE;
		break;
	case DTA_INCREMENT:
		if (value < 8)
			return DTA_TRUNCATED;
		if (value > 8)
			return DTA_OVERSIZED;
		break;
	default:
		if (value > 4)
			return DTA_OVERSIZED;
	}
	p += base;
	if (b->opcode == DTA_POSTCARD) {
		uint8_t hop = p[4];

		b->copies = 1;
		b->value_bytes = 8;
		b->items = out->scratch;
		memcpy(out->scratch, p, 4);
		out->scratch[4] = (uint8_t)(hop - 1); /* hop 0, which is invalid, becomes 255 */
		out->scratch[5] = hops;
		out->scratch[6] = out->scratch[7] = 0;
		memcpy(out->scratch + 8, p + 5, 4);
		return hop_is_fine(out->scratch + 4) ? DTA_FINE : DTA_BAD_VALUE;
	}
	b->copies = redundancy ? p[0] : 0;
	b->items = p + redundancy;
	b->value_bytes = (uint16_t)value;
	return check_shape(b);
}

void dta_legacy_answer(uint8_t sequence, bool nack, uint8_t out[2])
{
	out[0] = sequence;
	out[1] = nack ? 0x80 : 0;
}

/* ---- building ---- */

void dta_begin(struct dta_builder *b, void *packet, size_t room, const struct dta_header *header)
{
	if (room > DTA_PACKET_MAX)
		room = DTA_PACKET_MAX;
	if (header->flags & DTA_AUTHENTICATED)
		room = room > DTA_PROOF_BYTES ? room - DTA_PROOF_BYTES : 0;
	*b = (struct dta_builder){
		.packet = packet,
		.room = room,
		.bytes = DTA_HEADER_BYTES,
		.header = *header,
	};
	b->header.blocks = 0;
	b->header.reports = 0;
	b->header.length = 0;
}

/* Writes a block's header with count 0. */
static void put_shape(uint8_t *at, const struct dta_block *s)
{
	at[0] = s->opcode;
	at[1] = s->flags;
	dta_put16(at + 2, 0);
	at[4] = s->copies;
	at[5] = s->key_bytes;
	dta_put16(at + 6, s->value_bytes);
	dta_put16(at + 8, s->store);
	dta_put16(at + 10, 0);
}

static bool same_shape(const uint8_t *at, const struct dta_block *s)
{
	return at[0] == s->opcode && at[1] == s->flags && at[4] == s->copies &&
	       at[5] == s->key_bytes && dta_get16(at + 6) == s->value_bytes &&
	       dta_get16(at + 8) == s->store && dta_get16(at + 2) != UINT16_MAX;
}

int dta_put(struct dta_builder *b, const struct dta_block *shape, const void *key,
	    const void *value)
{
	size_t item = (size_t)shape->key_bytes + shape->value_bytes;
	bool open = b->block && same_shape(b->packet + b->block, shape);
	uint8_t *at;

	/* The shape of an open block was checked when the block was opened. */
	if ((!open && check_shape(shape)) || (shape->opcode == DTA_POSTCARD && !hop_is_fine(value)))
		return -EINVAL;
	if (DTA_HEADER_BYTES + DTA_BLOCK_BYTES + item > b->room)
		return -EMSGSIZE;
	if (b->bytes + item + (open ? 0 : DTA_BLOCK_BYTES) > b->room ||
	    (!open && b->header.blocks == DTA_BLOCKS_MAX))
		return -ENOSPC;
	if (!open) {
		b->block = b->bytes;
		b->bytes += DTA_BLOCK_BYTES;
		b->header.blocks++;
		put_shape(b->packet + b->block, shape);
	}
	at = b->packet + b->block;
	dta_put16(at + 2, (uint16_t)(dta_get16(at + 2) + 1));
	memcpy(b->packet + b->bytes, key, shape->key_bytes);
	memcpy(b->packet + b->bytes + shape->key_bytes, value, shape->value_bytes);
	b->bytes += item;
	b->header.reports++;
	return 0;
}

static size_t put_header(struct dta_builder *b)
{
	struct dta_header *h = &b->header;
	uint8_t *p = b->packet;

	h->length = (uint16_t)b->bytes;
	p[0] = DTA_MAGIC;
	p[1] = DTA_VERSION;
	p[2] = h->flags;
	p[3] = h->blocks;
	dta_put16(p + 4, h->tenant);
	dta_put16(p + 6, h->length);
	dta_put32(p + 8, h->reporter);
	dta_put32(p + 12, h->sequence);
	dta_put64(p + 16, h->time_ns);
	dta_put32(p + 24, h->incarnation);
	dta_put32(p + 28, h->reports);
	return b->bytes;
}

size_t dta_end(struct dta_builder *b)
{
	return b->header.reports ? put_header(b) : 0;
}

size_t dta_heartbeat(void *packet, size_t room, const struct dta_header *header)
{
	struct dta_builder b;

	dta_begin(&b, packet, room, header);
	return put_header(&b);
}

void dta_again(void *packet, uint64_t time_ns)
{
	uint8_t *p = packet;

	p[2] |= DTA_AGAIN | DTA_ACK_WANTED;
	dta_put64(p + 16, time_ns);
}

void dta_renumber(void *packet, uint32_t sequence, uint32_t incarnation, uint64_t time_ns)
{
	uint8_t *p = packet;

	dta_put32(p + 12, sequence);
	dta_put64(p + 16, time_ns);
	dta_put32(p + 24, incarnation);
}

size_t dta_build_legacy(enum dta_legacy form, uint8_t sequence, const struct dta_block *shape,
			const void *key, const void *value, void *out, size_t room)
{
	const uint8_t *v = value;
	uint8_t *p = out;
	uint16_t n = shape->value_bytes;

	if (room < 40 || shape->key_bytes != 4 || check_shape(shape) ||
	    (form != DTA_LEGACY_A && form != DTA_LEGACY_B))
		return 0;
	*p++ = shape->opcode;
	if (form == DTA_LEGACY_B)
		*p++ = sequence;
	*p++ = (uint8_t)((shape->flags & DTA_IMMEDIATE ? 0x80 : 0) |
			 (form == DTA_LEGACY_B && shape->flags & DTA_ESSENTIAL ? 0x40 : 0));
	if (shape->opcode == DTA_KEYWRITE || shape->opcode == DTA_INCREMENT)
		*p++ = shape->copies;
	memcpy(p, key, 4);
	p += 4;
	switch (shape->opcode) {
	case DTA_KEYWRITE:
		if (n != 4 && n != 12 && n != 28)
			return 0;
		break;
	case DTA_APPEND:
		if (n != 4)
			return 0;
		break;
	case DTA_INCREMENT:
		break;
	case DTA_POSTCARD:
		if (!hop_is_fine(v) || v[1] > 5)
			return 0;
		*p++ = (uint8_t)(v[0] + 1);
		v += 4;
		n = 4;
		break;
	default:
		return 0;
	}
	memcpy(p, v, n);
	return (size_t)(p - (uint8_t *)out) + n;
}

/* ---- answers ---- */

size_t dta_answer_build(const struct dta_answer *a, void *out, size_t room)
{
	size_t bytes = DTA_ANSWER_BYTES + 8u * a->ranges;
	uint8_t *p = out;

	if (a->ranges > DTA_RANGES_MAX || bytes > room)
		return 0;
	p[0] = DTA_MAGIC;
	p[1] = DTA_VERSION;
	p[2] = a->type;
	p[3] = a->ranges;
	dta_put32(p + 4, a->reporter);
	dta_put32(p + 8, a->incarnation);
	dta_put32(p + 12, a->next);
	dta_put32(p + 16, a->credits);
	dta_put32(p + 20, a->window);
	for (uint32_t i = 0; i < a->ranges; i++) {
		dta_put32(p + DTA_ANSWER_BYTES + 8 * i, a->range[i].first);
		dta_put32(p + DTA_ANSWER_BYTES + 8 * i + 4, a->range[i].count);
	}
	return bytes;
}

enum dta_refusal dta_answer_parse(const void *packet, size_t bytes, struct dta_answer *out)
{
	const uint8_t *p = packet;
	size_t whole;

	if (bytes < 2)
		return DTA_TRUNCATED;
	if (p[0] != DTA_MAGIC || p[1] != DTA_VERSION)
		return DTA_BAD_VERSION;
	if (bytes < DTA_ANSWER_BYTES)
		return DTA_TRUNCATED;
	if (p[2] != DTA_ACK && p[2] != DTA_NACK)
		return DTA_BAD_OPCODE;
	if (p[3] > DTA_RANGES_MAX)
		return DTA_BAD_COUNT;
	whole = DTA_ANSWER_BYTES + 8u * p[3];
	if (bytes < whole)
		return DTA_TRUNCATED;
	if (bytes != whole && bytes != whole + DTA_MAC_BYTES)
		return DTA_OVERSIZED;
	*out = (struct dta_answer){
		.type = p[2],
		.ranges = p[3],
		.reporter = dta_get32(p + 4),
		.incarnation = dta_get32(p + 8),
		.next = dta_get32(p + 12),
		.credits = dta_get32(p + 16),
		.window = dta_get32(p + 20),
	};
	for (uint32_t i = 0; i < out->ranges; i++) {
		out->range[i].first = dta_get32(p + DTA_ANSWER_BYTES + 8 * i);
		out->range[i].count = dta_get32(p + DTA_ANSWER_BYTES + 8 * i + 4);
		if (!out->range[i].count)
			return DTA_BAD_COUNT;
	}
	return DTA_FINE;
}
