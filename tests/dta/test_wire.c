// SPDX-License-Identifier: Apache-2.0
/*
 * test_wire.c - built reports parse to the same values; each malformed report is refused for a
 * distinct reason.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sidelight/store.h>

#include "support/test.h"
#include "support/random.h"
#include "base/secret.h"
#include "dta/wire/auth.h"
#include "dta/wire/wire.h"

static struct dta_packet got; /* too big for a stack */

static uint64_t seed;
static uint32_t rnd(uint32_t below)
{
	return random_below(&seed, below);
}

/* Parses a packet in memory of exactly its size, so that ASan detects reads beyond it. */
static enum dta_refusal parse(const uint8_t *packet, size_t bytes)
{
	uint8_t *exact = malloc(bytes ? bytes : 1);
	enum dta_refusal r;

	assert_non_null(exact);
	memcpy(exact, packet, bytes);
	r = dta_parse(exact, bytes, &got);
	free(exact);
	return r;
}

static const struct dta_block valid[] = {
	{.opcode = DTA_KEYWRITE, .copies = 2, .key_bytes = 13, .value_bytes = 8, .store = 1},
	{.opcode = DTA_APPEND, .key_bytes = 4, .value_bytes = 4, .store = 2, .flags = 1},
	{.opcode = DTA_INCREMENT, .copies = 8, .key_bytes = 4, .value_bytes = 8, .store = 3},
	{.opcode = DTA_POSTCARD, .copies = 1, .key_bytes = 37, .value_bytes = 8, .store = 4},
	{.opcode = DTA_SKETCH, .key_bytes = 12, .value_bytes = 1024, .store = 5},
	{.opcode = DTA_SKETCH_END, .key_bytes = 4, .value_bytes = 4, .store = 65535, .flags = 2},
};
#define VALID (sizeof(valid) / sizeof(*valid))

static const uint8_t hop_value[8] = {4, 5, 0, 0, 1, 2, 3, 4};

/* A packet with one block of this shape and number of items. */
static size_t build(uint8_t *p, size_t room, const struct dta_block *shape, uint32_t items,
		    uint8_t flags)
{
	struct dta_header h = {.flags = flags,
			       .tenant = 7,
			       .reporter = 0x01020304,
			       .sequence = 0xfffffff0,
			       .time_ns = 0x1122334455667788,
			       .incarnation = 9};
	uint8_t key[64] = {1}, value[1024] = {2};
	struct dta_builder b;

	if (shape->opcode == DTA_POSTCARD)
		memcpy(value, hop_value, 8);
	dta_begin(&b, p, room, &h);
	for (uint32_t i = 0; i < items; i++)
		assert_int_equal(dta_put(&b, shape, key, value), 0);
	return dta_end(&b);
}

static void bytes_are_as_written_down(void **state)
{
	/* docs/dta-wire.md, "An example". */
	static const uint8_t right[] = {
		0xd7, 2,    2,	  1,	0,    7,    0,	  0x44, /* flags 2, 1 block, tenant 7, 68
								   bytes */
		1,    2,    3,	  4,				/* reporter */
		0xff, 0xff, 0xff, 0xf0,				/* sequence */
		0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, /* time */
		0,    0,    0,	  9,				/* incarnation */
		0,    0,    0,	  2,				/* reports */
		1,    0,    0,	  2,	3,    4,    0,	  8,	/* key-write, 2 items, N=3, key 4,
								   value 8 */
		0,    5,    0,	  0,				/* store 5 */
		1,    0,    0,	  0,	2,    0,    0,	  0,	0, 0, 0, 0,
		1,    0,    0,	  0,	2,    0,    0,	  0,	0, 0, 0, 0,
	};
	static const struct dta_block shape = {
		.opcode = DTA_KEYWRITE, .copies = 3, .key_bytes = 4, .value_bytes = 8, .store = 5};
	uint8_t p[128];

	(void)state;
	assert_int_equal(build(p, sizeof(p), &shape, 2, DTA_AGAIN), sizeof(right));
	assert_memory_equal(p, right, sizeof(right));
	assert_int_equal(dta_parse(right, sizeof(right), &got), DTA_FINE);
	assert_int_equal(got.header.time_ns, 0x1122334455667788);
	assert_int_equal(got.header.sequence, 0xfffffff0);
	assert_int_equal(got.header.tenant, 7);
	assert_ptr_equal(got.block[0].items, right + 44);
}

struct sent {
	struct dta_block shape;
	uint8_t key[64], value[1024];
};

static void random_shape(struct sent *s)
{
	s->shape = valid[rnd(VALID)];
	if (s->shape.opcode == DTA_KEYWRITE) {
		s->shape.copies = (uint8_t)(1 + rnd(8));
		s->shape.key_bytes = (uint8_t)(4 + rnd(61));
		s->shape.value_bytes = (uint16_t)(4 + rnd(253));
	}
	s->shape.flags = (uint8_t)rnd(4);
	s->shape.store = (uint16_t)rnd(3);
}

static void what_is_put_comes_out_in_order(void **state)
{
	static struct sent sent[8192];
	static uint8_t p[DTA_PACKET_MAX];

	(void)state;
	for (uint32_t round = 0; round < 300; round++) {
		struct dta_header h = {.flags = (uint8_t)(rnd(8)),
				       .tenant = (uint16_t)rnd(65536),
				       .reporter = rnd(~0u),
				       .sequence = rnd(~0u),
				       .incarnation = rnd(~0u)};
		uint32_t room = round % 5 ? 64 + rnd(1500) : DTA_PACKET_MAX, n = 0, i = 0;
		struct dta_builder b;
		size_t bytes;
		int err = 0;

		dta_begin(&b, p, room, &h);
		while (n < 8192) {
			struct sent *s = &sent[n];

			if (n && rnd(10))
				s->shape = sent[n - 1].shape;
			else
				random_shape(s);
			for (uint32_t k = 0; k < s->shape.key_bytes; k++)
				s->key[k] = (uint8_t)rnd(256);
			for (uint32_t k = 0; k < s->shape.value_bytes; k++)
				s->value[k] = (uint8_t)rnd(256);
			if (s->shape.opcode == DTA_POSTCARD) {
				s->value[1] = (uint8_t)(1 + rnd(64));
				s->value[0] = (uint8_t)rnd(s->value[1]);
				s->value[2] = s->value[3] = 0;
			}
			err = dta_put(&b, &s->shape, s->key, s->value);
			if (err)
				break;
			n++;
		}
		assert_true(err == -ENOSPC || err == -EMSGSIZE);
		bytes = dta_end(&b);
		if (!n) {
			assert_int_equal(bytes, 0);
			continue;
		}
		if (h.flags & DTA_AUTHENTICATED)
			bytes += DTA_PROOF_BYTES;
		assert_true(bytes <= room);
		assert_int_equal(dta_parse(p, bytes, &got), DTA_FINE);
		assert_int_equal(got.header.reports, n);
		assert_int_equal(got.header.sequence, h.sequence);
		assert_int_equal(got.header.flags, h.flags);
		for (uint32_t k = 0; k < got.header.blocks; k++) {
			const struct dta_block *bl = &got.block[k];
			const uint8_t *item = bl->items;

			for (uint32_t j = 0; j < bl->count; j++, i++) {
				const struct dta_block *s = &sent[i].shape;

				assert_int_equal(bl->opcode, s->opcode);
				assert_int_equal(bl->flags, s->flags);
				assert_int_equal(bl->copies, s->copies);
				assert_int_equal(bl->store, s->store);
				assert_int_equal(bl->key_bytes, s->key_bytes);
				assert_int_equal(bl->value_bytes, s->value_bytes);
				assert_memory_equal(item, sent[i].key, s->key_bytes);
				item += s->key_bytes;
				assert_memory_equal(item, sent[i].value, s->value_bytes);
				item += s->value_bytes;
			}
		}
		assert_int_equal(i, n);
	}
}

/* Another value in any field of the shape starts another block. */
static void only_reports_of_one_shape_share_a_block(void **state)
{
	static const struct dta_block shape[] = {
		{.opcode = DTA_KEYWRITE, .copies = 2, .key_bytes = 8, .value_bytes = 8},
		{.opcode = DTA_INCREMENT, .copies = 2, .key_bytes = 8, .value_bytes = 8},
		{.opcode = DTA_KEYWRITE, .copies = 3, .key_bytes = 8, .value_bytes = 8},
		{.opcode = DTA_KEYWRITE, .copies = 2, .key_bytes = 9, .value_bytes = 8},
		{.opcode = DTA_KEYWRITE, .copies = 2, .key_bytes = 8, .value_bytes = 9},
		{.opcode = DTA_KEYWRITE, .copies = 2, .key_bytes = 8, .value_bytes = 8, .store = 1},
		{.opcode = DTA_KEYWRITE, .copies = 2, .key_bytes = 8, .value_bytes = 8, .flags = 1},
	};
	uint8_t p[512], bytes[16] = {0};
	struct dta_header h = {0};
	struct dta_builder b;
	uint8_t blocks = 0;

	(void)state;
	dta_begin(&b, p, sizeof(p), &h);
	for (size_t i = 1; i < sizeof(shape) / sizeof(*shape); i++) {
		assert_int_equal(dta_put(&b, &shape[0], bytes, bytes), 0);
		assert_int_equal(dta_put(&b, &shape[0], bytes, bytes), 0);
		assert_int_equal(dta_put(&b, &shape[i], bytes, bytes), 0);
		blocks = (uint8_t)(blocks + 2);
		assert_int_equal(b.header.blocks, blocks);
	}
	assert_int_equal(dta_parse(p, dta_end(&b), &got), DTA_FINE);
}

static void a_packet_holds_at_most_255_blocks(void **state)
{
	static uint8_t p[DTA_PACKET_MAX];
	struct dta_header h = {0};
	struct dta_block s = valid[1];
	struct dta_builder b;

	(void)state;
	dta_begin(&b, p, sizeof(p), &h);
	for (uint32_t i = 0; i < 255; i++) {
		s.store = (uint16_t)i;
		assert_int_equal(dta_put(&b, &s, "aaaa", "bbbb"), 0);
	}
	assert_int_equal(dta_put(&b, &s, "aaaa", "bbbb"), 0); /* the open one takes more */
	s.store = 999;
	assert_int_equal(dta_put(&b, &s, "aaaa", "bbbb"), -ENOSPC);
	assert_int_equal(dta_parse(p, dta_end(&b), &got), DTA_FINE);
	assert_int_equal(got.header.reports, 256);
}

static void every_packet_cut_short_is_truncated(void **state)
{
	uint8_t p[2048];

	(void)state;
	for (size_t v = 0; v < VALID; v++) {
		for (uint8_t flags = 0; flags < 2; flags++) {
			size_t n = build(p, sizeof(p), &valid[v], 1, flags);

			memset(p + n, 0, DTA_PROOF_BYTES + 1);
			n += flags ? DTA_PROOF_BYTES : 0;
			assert_int_equal(parse(p, n), DTA_FINE);
			for (size_t cut = 0; cut < n; cut++)
				assert_int_equal(parse(p, cut), DTA_TRUNCATED);
			assert_int_equal(parse(p, n + 1), DTA_OVERSIZED);
		}
	}
}

static void each_field_out_of_bounds_is_refused_by_its_name(void **state)
{
	static const struct {
		uint8_t shape; /* of valid */
		uint8_t at, value;
		enum dta_refusal why;
	} wrong[] = {
		{0, 0, 1, DTA_BAD_VERSION},	 {0, 1, 0, DTA_BAD_VERSION},
		{0, 1, 1, DTA_BAD_VERSION},	 {0, 2, 8, DTA_BAD_FLAGS},
		{0, 2, 0x80, DTA_BAD_FLAGS},	 {0, 2, 1, DTA_TRUNCATED}, /* no MAC there */
		{0, 3, 0, DTA_BAD_COUNT},	 {0, 3, 2, DTA_TRUNCATED},
		{0, 6, 0xff, DTA_TRUNCATED},	 {0, 7, 31, DTA_TRUNCATED},
		{0, 7, 0, DTA_TRUNCATED},	 {0, 31, 0, DTA_BAD_COUNT},
		{0, 31, 2, DTA_BAD_COUNT},	 {0, 28, 1, DTA_BAD_COUNT},
		{0, 32, 0, DTA_BAD_OPCODE},	 {0, 32, 7, DTA_BAD_OPCODE},
		{0, 32, 255, DTA_BAD_OPCODE},	 {0, 33, 4, DTA_BAD_FLAGS},
		{0, 35, 0, DTA_BAD_COUNT},	 {0, 35, 2, DTA_TRUNCATED},
		{0, 34, 0xff, DTA_TRUNCATED},	 {0, 36, 0, DTA_BAD_COPIES},
		{0, 36, 9, DTA_BAD_COPIES},	 {0, 36, 200, DTA_BAD_COPIES},
		{0, 37, 3, DTA_BAD_KEY},	 {0, 37, 65, DTA_BAD_KEY},
		{0, 37, 0, DTA_BAD_KEY},	 {0, 39, 3, DTA_BAD_VALUE},
		{0, 38, 1, DTA_BAD_VALUE},	 {0, 42, 1, DTA_BAD_FLAGS},
		{0, 43, 1, DTA_BAD_FLAGS},	 {0, 39, 4, DTA_OVERSIZED}, /* 4 bytes left */
		{1, 36, 1, DTA_BAD_COPIES},	 {1, 37, 5, DTA_BAD_KEY},
		{1, 39, 3, DTA_BAD_VALUE},	 {2, 36, 0, DTA_BAD_COPIES},
		{2, 39, 4, DTA_BAD_VALUE},	 {2, 39, 9, DTA_BAD_VALUE},
		{3, 36, 0, DTA_BAD_COPIES},	 {3, 39, 4, DTA_BAD_VALUE},
		{3, 44 + 37, 5, DTA_BAD_VALUE},	 {3, 44 + 38, 4, DTA_BAD_VALUE},
		{3, 44 + 38, 65, DTA_BAD_VALUE}, {3, 44 + 38, 0, DTA_BAD_VALUE},
		{3, 44 + 39, 1, DTA_BAD_VALUE},	 {3, 44 + 40, 1, DTA_BAD_VALUE},
		{4, 37, 11, DTA_BAD_KEY},	 {4, 38, 5, DTA_BAD_VALUE},
		{5, 37, 8, DTA_BAD_KEY},	 {5, 39, 8, DTA_BAD_VALUE},
		{5, 36, 1, DTA_BAD_COPIES},
	};
	uint8_t p[2048];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		size_t n = build(p, sizeof(p), &valid[wrong[i].shape], 1, 0);
		enum dta_refusal r;

		assert_int_equal(parse(p, n), DTA_FINE);
		p[wrong[i].at] = wrong[i].value;
		r = parse(p, n);
		if (r != wrong[i].why)
			fail_msg("line %zu: byte %u = %u: %s, not %s", i, wrong[i].at,
				 wrong[i].value, dta_refusal_name(r),
				 dta_refusal_name(wrong[i].why));
	}
	for (int r = 0; r < DTA_REFUSALS; r++)
		assert_string_not_equal(dta_refusal_name((enum dta_refusal)r), "unknown");
}

/* Only the last hop of the last item is invalid: all of them are checked. */
static void every_hop_of_a_block_is_checked(void **state)
{
	uint8_t p[2048];
	size_t n = build(p, sizeof(p), &valid[3], 40, 0);

	(void)state;
	assert_int_equal(parse(p, n), DTA_FINE);
	p[n - 8] = 5;
	assert_int_equal(parse(p, n), DTA_BAD_VALUE);
}

static void the_builder_refuses_what_the_parser_refuses(void **state)
{
	uint8_t p[2048], value[1024] = {0};
	struct dta_header h = {0};
	struct dta_builder b;
	struct dta_block s;

	(void)state;
	dta_begin(&b, p, sizeof(p), &h);
	s = valid[0];
	s.copies = 0;
	assert_int_equal(dta_put(&b, &s, value, value), -EINVAL);
	s = valid[0];
	s.key_bytes = 65;
	assert_int_equal(dta_put(&b, &s, value, value), -EINVAL);
	s = valid[0];
	s.opcode = 9;
	assert_int_equal(dta_put(&b, &s, value, value), -EINVAL);
	assert_int_equal(dta_put(&b, &valid[3], value, value), -EINVAL); /* hop 0 of 0 */
	assert_int_equal(dta_put(&b, &valid[3], value, hop_value), 0);
	assert_int_equal(dta_put(&b, &valid[3], value, value), -EINVAL); /* in an open block */
	assert_int_equal(dta_parse(p, dta_end(&b), &got), DTA_FINE);
	assert_int_equal(got.header.reports, 1);
	dta_begin(&b, p, 200, &h);
	assert_int_equal(dta_put(&b, &valid[4], value, value), -EMSGSIZE);
	assert_int_equal(dta_end(&b), 0);
}

/* ---- the original's: what its generators and its switch send ---- */

static enum dta_refusal legacy(enum dta_legacy form, const void *bytes, size_t n)
{
	static uint8_t *exact; /* got points into it */
	enum dta_refusal r;

	free(exact);
	exact = malloc(n ? n : 1);
	assert_non_null(exact);
	memcpy(exact, bytes, n);
	r = dta_parse_legacy(exact, n, form, 5, &got);
	if (r) {
		free(exact);
		exact = NULL;
	}
	return r;
}

static void both_forms_of_the_original_are_read(void **state)
{
	static const uint8_t a_write[] = {1, 0x80, 2, 0, 0, 0, 9, 1, 2, 3, 4};
	static const uint8_t b_write[] = {1, 200, 0x40, 4, 0, 0, 0, 9,	1,  2,
					  3, 4,	  5,	6, 7, 8, 9, 10, 11, 12};
	static const uint8_t b_append[] = {2, 7, 0, 0, 0, 1, 2, 1, 2, 3, 4};
	static const uint8_t b_increment[] = {3, 1, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0};
	static const uint8_t b_card[] = {4, 1, 0xc0, 0, 0, 0, 1, 5, 9, 9, 9, 9};
	struct dta_block *b = &got.block[0];

	(void)state;
	assert_int_equal(legacy(DTA_LEGACY_A, a_write, sizeof(a_write)), DTA_FINE);
	assert_int_equal(got.header.blocks, 1);
	assert_int_equal(got.header.reports, 1);
	assert_int_equal(b->flags, DTA_IMMEDIATE);
	assert_int_equal(b->copies, 2);
	assert_int_equal(b->store, DTA_KEYWRITE);
	assert_memory_equal(b->items, a_write + 3, 8);
	assert_int_equal(b->value_bytes, 4);

	assert_int_equal(legacy(DTA_LEGACY_B, b_write, sizeof(b_write)), DTA_FINE);
	assert_int_equal(got.header.sequence, 200);
	assert_int_equal(got.header.flags, DTA_ACK_WANTED);
	assert_int_equal(b->flags, DTA_ESSENTIAL);
	assert_int_equal(b->copies, 4);
	assert_int_equal(b->value_bytes, 12);
	assert_memory_equal(b->items, b_write + 4, 16);

	assert_int_equal(legacy(DTA_LEGACY_B, b_append, sizeof(b_append)), DTA_FINE);
	assert_int_equal(b->copies, 0);
	assert_int_equal(b->store, DTA_APPEND);
	assert_memory_equal(b->items, b_append + 3, 8);

	assert_int_equal(legacy(DTA_LEGACY_B, b_increment, sizeof(b_increment)), DTA_FINE);
	assert_int_equal(b->value_bytes, 8);
	assert_memory_equal(b->items, b_increment + 4, 12);

	assert_int_equal(legacy(DTA_LEGACY_B, b_card, sizeof(b_card)), DTA_FINE);
	assert_int_equal(b->copies, 1);
	assert_int_equal(b->value_bytes, 8);
	assert_memory_equal(b->items, ((uint8_t[]){0, 0, 0, 1, 4, 5, 0, 0, 9, 9, 9, 9}), 12);
}

static void what_is_wrong_with_an_originals_packet_is_refused(void **state)
{
	uint8_t p[64] = {1, 0, 0, 1};
	static const uint8_t sizes[5][4] = {{0}, {4, 12, 28}, {4}, {8}, {4}};

	(void)state;
	assert_int_equal(legacy(DTA_LEGACY_NONE, p, 12), DTA_BAD_VERSION);
	for (uint8_t op = 1; op <= 4; op++) {
		for (size_t n = 0; n < 64; n++) {
			size_t before = 3 + (op == 2 ? 4 : 5);
			enum dta_refusal r;
			bool fits = false;

			p[0] = op;
			p[3] = 1;
			p[7] = 1; /* a hop */
			r = legacy(DTA_LEGACY_B, p, n);
			for (uint32_t i = 0; i < 3; i++)
				fits |= sizes[op][i] && n == before + sizes[op][i];
			assert_int_equal(r == DTA_FINE, fits);
			if (n < before + sizes[op][0])
				assert_int_equal(r, DTA_TRUNCATED);
			else if (!fits && (op != 1 || n > before + 28))
				assert_int_equal(r, DTA_OVERSIZED);
		}
	}
	p[0] = 1;
	for (uint32_t n = 0; n < 256; n++) {
		p[3] = (uint8_t)n;
		assert_int_equal(legacy(DTA_LEGACY_B, p, 12),
				 n >= 1 && n <= 8 ? DTA_FINE : DTA_BAD_COPIES);
	}
	p[0] = 4;
	for (uint32_t hop = 0; hop < 256; hop++) {
		p[7] = (uint8_t)hop;
		assert_int_equal(legacy(DTA_LEGACY_B, p, 12),
				 hop >= 1 && hop <= 5 ? DTA_FINE : DTA_BAD_VALUE);
	}
	for (uint32_t op = 0; op < 256; op++) {
		p[0] = (uint8_t)op;
		if (op < 1 || op > 4)
			assert_int_equal(legacy(DTA_LEGACY_B, p, 12),
					 op == DTA_MAGIC ? DTA_BAD_VERSION : DTA_BAD_OPCODE);
	}
	dta_legacy_answer(200, true, p);
	assert_memory_equal(p, ((uint8_t[]){200, 0x80}), 2);
	dta_legacy_answer(3, false, p);
	assert_memory_equal(p, ((uint8_t[]){3, 0}), 2);
	legacy(DTA_LEGACY_B, p, 0); /* lets go of the last */
}

static void what_is_built_for_the_original_reads_as_put(void **state)
{
	struct dta_block s = {.key_bytes = 4, .flags = DTA_ESSENTIAL};
	uint8_t value[28] = {1, 5, 0, 0, 7}, p[40];

	(void)state;
	for (uint8_t op = 1; op <= 6; op++) {
		for (uint16_t n = 1; n <= 32; n++) {
			bool fits = op == 1   ? n == 4 || n == 12 || n == 28
				    : op == 2 ? n == 4
				    : op <= 4 ? n == 8
					      : false;
			size_t bytes;

			s.opcode = op;
			s.copies = op == 2 ? 0 : 1;
			s.value_bytes = n;
			bytes = dta_build_legacy(DTA_LEGACY_B, 9, &s, "abcd", value, p, 40);
			assert_int_equal(bytes > 0, fits);
			if (!fits)
				continue;
			assert_int_equal(legacy(DTA_LEGACY_B, p, bytes), DTA_FINE);
			assert_int_equal(got.header.sequence, 9);
			assert_int_equal(got.block[0].opcode, op);
			assert_int_equal(got.block[0].flags, DTA_ESSENTIAL);
			assert_memory_equal(got.block[0].items, "abcd", 4);
			assert_memory_equal(got.block[0].items + 4, value, n);
			bytes = dta_build_legacy(DTA_LEGACY_A, 9, &s, "abcd", value, p, 40);
			assert_int_equal(legacy(DTA_LEGACY_A, p, bytes), DTA_FINE);
			assert_memory_equal(got.block[0].items + 4, value, n);
		}
	}
	legacy(DTA_LEGACY_B, p, 0); /* lets go of the last */
}

/* ---- answers ---- */

static void answers_come_out_as_they_went_in(void **state)
{
	uint8_t p[DTA_ANSWER_BYTES + 8 * DTA_RANGES_MAX + DTA_MAC_BYTES + 1];
	struct dta_answer a, b;

	(void)state;
	for (uint32_t n = 0; n <= DTA_RANGES_MAX; n++) {
		size_t bytes = DTA_ANSWER_BYTES + 8 * n;

		memset(p, 0, sizeof(p));
		memset(&a, 0, sizeof(a));
		a.type = n % 2 ? DTA_ACK : DTA_NACK;
		a.ranges = (uint8_t)n;
		a.reporter = 1;
		a.incarnation = 2;
		a.next = 3;
		a.credits = ~0u;
		a.window = 64 + n;
		for (uint32_t i = 0; i < n; i++) {
			a.range[i].first = ~0u - i;
			a.range[i].count = i + 1;
		}
		assert_int_equal(dta_answer_build(&a, p, bytes - 1), 0);
		assert_int_equal(dta_answer_build(&a, p, bytes), bytes);
		for (size_t cut = 0; cut < bytes; cut++)
			assert_int_equal(dta_answer_parse(p, cut, &b), DTA_TRUNCATED);
		assert_int_equal(dta_answer_parse(p, bytes, &b), DTA_FINE);
		assert_memory_equal(&a, &b, sizeof(a));
		assert_int_equal(dta_answer_parse(p, bytes + 1, &b), DTA_OVERSIZED);
		assert_int_equal(dta_answer_parse(p, bytes + DTA_MAC_BYTES, &b), DTA_FINE);
	}
	a.ranges = DTA_RANGES_MAX + 1;
	assert_int_equal(dta_answer_build(&a, p, sizeof(p)), 0);
	p[3] = DTA_RANGES_MAX + 1;
	assert_int_equal(dta_answer_parse(p, sizeof(p), &b), DTA_BAD_COUNT);
	p[3] = 1;
	memset(p + DTA_ANSWER_BYTES + 4, 0, 4);
	assert_int_equal(dta_answer_parse(p, DTA_ANSWER_BYTES + 8, &b), DTA_BAD_COUNT);
	p[3] = 0;
	p[2] = 3;
	assert_int_equal(dta_answer_parse(p, DTA_ANSWER_BYTES, &b), DTA_BAD_OPCODE);
	p[2] = 1;
	p[0] = 1;
	assert_int_equal(dta_answer_parse(p, DTA_ANSWER_BYTES, &b), DTA_BAD_VERSION);
}

/* ---- authentication ---- */

static void hex(const char *text, uint8_t *out)
{
	for (; *text; text += 2)
		sscanf(text, "%2hhx", out++);
}

/* RFC 4493, section 4. */
static void macs_are_those_of_rfc_4493(void **state)
{
	static const char key_text[] = "2b7e151628aed2a6abf7158809cf4f3c";
	static const char message_text[] =
		"6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
		"30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";
	static const struct {
		size_t bytes;
		const char *mac;
	} vector[] = {
		{0, "bb1d6929e95937287fa37d129b756746"},
		{16, "070a16b46b4d4144f79bdd9dd04a287c"},
		{40, "dfa66747de9ae63030ca32611497c827"},
		{64, "51f0bebf7e3b9d92fc49741779363cfe"},
	};
	uint8_t key[16], p[64 + 16], mac[16];
	struct dta_key *k;

	(void)state;
	hex(key_text, key);
	k = dta_key_new(key);
	assert_non_null(k);
	for (size_t i = 0; i < 4; i++) {
		hex(message_text, p);
		hex(vector[i].mac, mac);
		assert_int_equal(dta_mac_put(k, p, vector[i].bytes), vector[i].bytes + 16);
		assert_memory_equal(p + vector[i].bytes, mac, 16);
		assert_true(dta_mac_fits(k, p, vector[i].bytes + 16));
		for (size_t bit = 0; bit < 8 * (vector[i].bytes + 16); bit++) {
			p[bit / 8] ^= (uint8_t)(1 << bit % 8);
			assert_false(dta_mac_fits(k, p, vector[i].bytes + 16));
			p[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		assert_false(dta_mac_fits(k, p, 15));
	}
	dta_key_free(k);
}

#define CHECK(header, at) dta_auth_check(a, header, p, n, &here, at, &used)

static struct dta_key_spec spec_of(int64_t first, int64_t last, const uint8_t key[16],
				   uint64_t until)
{
	struct dta_key_spec k = {.own = first >= 0,
				 .first = first < 0 ? 0 : (uint32_t)first,
				 .last = last < 0 ? 0 : (uint32_t)last,
				 .until_ns = until};

	memcpy(k.key, key, sizeof(k.key));
	return k;
}

/* Keys of one tenant, replaced as a whole. */
static int set_keys(struct dta_auth *a, uint16_t tenant, struct dta_key_spec *keys, size_t n)
{
	assert_null(dta_keys_check(keys, n));
	return dta_auth_keys(a, tenant, keys, n);
}

static void keys_of_ranges_are_exchanged_one_by_one(void **state)
{
	static const uint8_t key[4][16] = {{1}, {2}, {3}, {4}};
	const struct in6_addr address = {.s6_addr = {[10] = 0xff, 0xff, 10, 0, 0, 1}};
	const struct dta_auth_here here = {1, &address, 40040};
	struct dta_auth *a = dta_auth_new();
	struct dta_key *k[4];
	struct dta_key_spec all[] = {
		spec_of(10, 19, key[0], 0),	  spec_of(5, 5, key[1], 0),
		spec_of(10, 19, key[2], 1000000), spec_of(UINT32_MAX, UINT32_MAX, key[0], 0),
		spec_of(-1, -1, key[3], 0),
	};
	/* The reporter, and the keys that it may use before and after the third one ends. */
	static const struct {
		uint32_t reporter;
		const char *before, *after;
	} may[] = {{0, "3", "3"},   {4, "3", "3"},  {5, "1", "1"},
		   {6, "3", "3"},   {9, "3", "3"},  {10, "02", "0"},
		   {19, "02", "0"}, {20, "3", "3"}, {UINT32_MAX, "0", "0"}};
	struct dta_key_spec wrong[6];
	uint8_t p[64] = {0};
	uint32_t used, numbers[4] = {0};

	(void)state;
	assert_non_null(a);
	for (int i = 0; i < 4; i++)
		k[i] = dta_key_new(key[i]);
	assert_int_equal(set_keys(a, 7, all, 5), 0);
	/* The neighbouring tenants have the same keys; they do not mix. */
	assert_int_equal(set_keys(a, 6, all, 1), 0);
	assert_int_equal(set_keys(a, 8, all, 0), 0);
	for (size_t i = 0; i < sizeof(may) / sizeof(*may); i++)
		for (int j = 0; j < 4; j++)
			for (int late = 0; late < 2; late++) {
				const uint64_t now = late ? 1000000 : 999999;
				const struct dta_header h = {.flags = DTA_AUTHENTICATED,
							     .tenant = 7,
							     .reporter = may[i].reporter,
							     .time_ns = now};
				const size_t n = dta_proof_put(k[j], 1, p, 40);
				const bool is = strchr(late ? may[i].after : may[i].before,
						       '0' + j);

				assert_int_equal(CHECK(&h, now), is ? DTA_FINE : DTA_BAD_MAC);
				assert_int_equal(!!used, is);
				if (!is)
					continue;
				numbers[j] = used;
				assert_true(dta_mac_fits(dta_auth_find(a, 7, may[i].reporter, used),
							 p, n));
			}
	/* A key of another reporter does not sign answers. */
	assert_null(dta_auth_find(a, 7, 5, numbers[0]));
	assert_null(dta_auth_find(a, 8, 5, numbers[1]));
	assert_int_equal(set_keys(a, 7, all, 0), 0);
	assert_null(dta_auth_find(a, 7, 5, numbers[1]));
	wrong[0] = spec_of(5, 9, key[0], 0);
	wrong[1] = spec_of(9, 12, key[0], 0);
	assert_non_null(dta_keys_check(wrong, 2));
	wrong[1] = spec_of(5, 8, key[0], 0);
	assert_non_null(dta_keys_check(wrong, 2));
	wrong[0] = spec_of(9, 5, key[0], 0);
	assert_non_null(dta_keys_check(wrong, 1));
	for (int i = 0; i < 6; i++)
		wrong[i] = spec_of(i < 5 ? 1 : -1, 2, key[0], 0);
	assert_non_null(dta_keys_check(wrong, 5));
	assert_null(dta_keys_check(wrong, 4));
	for (int i = 0; i < 4; i++)
		dta_key_free(k[i]);
	dta_auth_free(a);
}

/* Otherwise a stolen key would be valid for as long as there are too many others. */
static void a_withdrawn_key_is_refused_whatever_fails(void **state)
{
	static struct dta_key_spec many[DTA_KEYS_TENANT_MAX];
	struct dta_key_spec few[] = {{.key = {1}}, {.key = {2}}, {.key = {3}}};
	const struct in6_addr address = {.s6_addr = {[10] = 0xff, 0xff, 10, 0, 0, 1}};
	const struct dta_auth_here here = {1, &address, 40040};
	const struct dta_header h = {.flags = DTA_AUTHENTICATED, .tenant = 99, .time_ns = 5};
	struct dta_auth *a = dta_auth_new();
	struct dta_key *k[3];
	uint8_t p[64] = {0};
	uint32_t used;
	size_t n = 0;

	(void)state;
	assert_non_null(a);
	for (int i = 0; i < 3; i++)
		k[i] = dta_key_new(few[i].key);
	for (uint32_t i = 0; i < DTA_KEYS_TENANT_MAX; i++)
		many[i] = (struct dta_key_spec){.own = true, .first = i, .last = i};
	for (uint16_t tenant = 0; tenant < DTA_KEYS_MAX / DTA_KEYS_TENANT_MAX; tenant++)
		assert_int_equal(set_keys(a, tenant, many, DTA_KEYS_TENANT_MAX - !tenant), 0);
	assert_int_equal(set_keys(a, 99, few, 1), 0);
	n = dta_proof_put(k[0], 1, p, 40);
	assert_int_equal(CHECK(&h, 5), DTA_FINE);
	assert_int_equal(set_keys(a, 99, few + 1, 2), -ENOSPC);
	for (int i = 0; i < 3; i++) {
		n = dta_proof_put(k[i], 1, p, 40);
		assert_int_equal(CHECK(&h, 5), DTA_BAD_MAC);
	}
	assert_int_equal(set_keys(a, 99, few + 2, 1), 0);
	assert_int_equal(CHECK(&h, 5), DTA_FINE);
	assert_int_equal(set_keys(a, 98, few, 1), -ENOSPC);
	assert_int_equal(CHECK(&h, 5), DTA_FINE);
	for (int i = 0; i < 3; i++)
		dta_key_free(k[i]);
	dta_auth_free(a);
}

static void keys_are_found_by_reporter_then_tenant(void **state)
{
	struct dta_auth *a = dta_auth_new();
	uint8_t key[16] = {1}, other[16] = {2}, p[256] = {0};
	struct dta_key *k = dta_key_new(key), *o = dta_key_new(other);
	uint64_t now = 1000 * DTA_SKEW_NS;
	struct dta_header h = {
		.flags = DTA_AUTHENTICATED, .tenant = 3, .reporter = 5, .time_ns = now};
	const struct in6_addr address = {.s6_addr = {[10] = 0xff, 0xff, 10, 0, 0, 1}};
	const struct dta_auth_here here = {dta_translator_of_name("t1", 2), &address, 40040};
	const uint64_t by_address = dta_translator_of_address(&address, 40040);
	static struct dta_key_spec specs[5000];
	struct dta_builder b;
	uint32_t used;
	size_t n;

	(void)state;
	assert_non_null(a);
	/* docs/dta-wire.md, "The intended translator". */
	assert_int_equal(here.name, 0x08c7ff07b56a5e16);
	assert_int_equal(by_address, 0x86bb78db772d248a);
	dta_begin(&b, p, sizeof(p), &h);
	assert_int_equal(dta_put(&b, &valid[0], p + 200, p + 200), 0);
	n = dta_proof_put(k, here.name, p, dta_end(&b));
	assert_int_equal(dta_parse(p, n, &got), DTA_FINE);
	assert_int_equal(CHECK(&got.header, now), DTA_BAD_MAC);
	specs[0] = spec_of(-1, -1, key, 0);
	assert_int_equal(set_keys(a, 3, specs, 1), 0);
	assert_int_equal(CHECK(&got.header, now), DTA_FINE);
	assert_int_equal(CHECK(&got.header, now + DTA_SKEW_NS), DTA_FINE);
	assert_int_equal(CHECK(&got.header, now + DTA_SKEW_NS + 1), DTA_REPLAYED);
	assert_int_equal(CHECK(&got.header, now - DTA_SKEW_NS - 1), DTA_REPLAYED);
	/* Meant by the address to which it was sent, and by other addresses. */
	for (int i = 0; i < 66; i++) {
		const uint64_t meant = i == 65 ? by_address : here.name ^ (i == 64 ? 0 : 1ull << i);

		n = dta_proof_put(k, meant, p, n - DTA_PROOF_BYTES);
		assert_int_equal(CHECK(&got.header, now), i >= 64 ? DTA_FINE : DTA_ELSEWHERE);
	}
	/* Its own key precedes the tenant's. */
	specs[1] = spec_of(5, 5, other, 0);
	assert_int_equal(set_keys(a, 3, specs, 2), 0);
	assert_int_equal(CHECK(&got.header, now), DTA_BAD_MAC);
	n = dta_proof_put(o, here.name, p, n - DTA_PROOF_BYTES);
	assert_int_equal(CHECK(&got.header, now), DTA_FINE);
	assert_int_equal(set_keys(a, 3, specs, 1), 0);
	assert_int_equal(CHECK(&got.header, now), DTA_BAD_MAC);
	/* Without a MAC: accepted, unless the tenant requires one. */
	h.flags = 0;
	assert_int_equal(CHECK(&h, now), DTA_FINE);
	dta_auth_require(a, 3, true);
	assert_int_equal(CHECK(&h, now), DTA_BAD_MAC);
	dta_auth_require(a, 3, false);
	assert_int_equal(CHECK(&h, now), DTA_FINE);
	/* Many keys, in mixed order. */
	for (uint32_t i = 0; i < 5000; i++) {
		key[0] = (uint8_t)(i * 7919 % 5000);
		key[1] = (uint8_t)(i * 7919 % 5000 >> 8);
		specs[i] = spec_of(i * 7919 % 5000, i * 7919 % 5000, key, 0);
	}
	assert_int_equal(set_keys(a, 9, specs, 5000), 0);
	for (uint32_t i = 0; i < 5000; i++) {
		key[0] = (uint8_t)i;
		key[1] = (uint8_t)(i >> 8);
		dta_key_free(k);
		k = dta_key_new(key);
		h.flags = DTA_AUTHENTICATED;
		h.tenant = 9;
		h.reporter = i;
		n = dta_proof_put(k, here.name, p, 32);
		assert_int_equal(CHECK(&h, now), DTA_FINE);
		assert_true(dta_mac_fits(dta_auth_find(a, 9, i, used), p, n));
		h.reporter = i + 1;
		assert_int_equal(CHECK(&h, now), DTA_BAD_MAC);
	}
	dta_key_free(k);
	dta_key_free(o);
	dta_auth_free(a);
}

static void key_files_are_32_digits(void **state)
{
	static const struct {
		const char *text;
		bool good;
	} file[] = {
		{"000102030405060708090A0b0c0d0e0f\n", true},
		{"  000102030405060708090a0b0c0d0e0f", true},
		{"000102030405060708090a0b0c0d0e0", false},
		{"000102030405060708090a0b0c0d0e0f00", false},
		{"000102030405060708090a0b0c0d0e0g", false},
		{"0001020304050607 8090a0b0c0d0e0f", false},
		{"", false},
	};
	static const uint8_t right[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	const char *folder = getenv("TMPDIR");
	uint8_t key[16];
	char path[256];
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/sl-key-XXXXXX", folder ? folder : "/tmp");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	for (size_t i = 0; i < sizeof(file) / sizeof(*file); i++) {
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, file[i].text, strlen(file[i].text), 0),
				 strlen(file[i].text));
		assert_int_equal(dta_key_read(path, key), file[i].good ? 0 : -EINVAL);
		if (file[i].good)
			assert_memory_equal(key, right, 16);
	}
	close(fd);
	unlink(path);
	assert_int_equal(dta_key_read(path, key), -ENOENT);
}

/* The same secret with any line end: both ends of a channel read the file with this function. */
static void a_secret_is_a_file_without_trailing_white_space(void **state)
{
	static const struct {
		size_t bytes;
		const char *end;
		ssize_t is;
	} file[] = {{16, "", 16},	{16, "\n", 16},	       {16, " \t\r\n\n", 16},
		    {300, "\r\n", 300}, {4096, "", 4096},      {4096, "x", -EINVAL},
		    {15, "", -EINVAL},	{15, "\r\n ", -EINVAL}};
	const char *folder = getenv("TMPDIR");
	static uint8_t text[4096], secret[BASE_SHARED_MAX];
	char path[256];
	int fd;

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(i % 199 + '!'); /* and of any bytes */
	snprintf(path, sizeof(path), "%s/sl-secret-XXXXXX", folder ? folder : "/tmp");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	for (size_t i = 0; i < sizeof(file) / sizeof(*file); i++) {
		const size_t n = file[i].bytes, more = strlen(file[i].end);

		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, text, n, 0), n);
		assert_int_equal(pwrite(fd, file[i].end, more, (off_t)n), more);
		assert_int_equal(base_secret_shared(path, secret), file[i].is);
		if (file[i].is > 0)
			assert_memory_equal(secret, text, n);
	}
	close(fd);
	unlink(path);
	assert_int_equal(base_secret_shared(path, secret), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_as_written_down),
		cmocka_unit_test(what_is_put_comes_out_in_order),
		cmocka_unit_test(only_reports_of_one_shape_share_a_block),
		cmocka_unit_test(a_packet_holds_at_most_255_blocks),
		cmocka_unit_test(every_packet_cut_short_is_truncated),
		cmocka_unit_test(each_field_out_of_bounds_is_refused_by_its_name),
		cmocka_unit_test(every_hop_of_a_block_is_checked),
		cmocka_unit_test(the_builder_refuses_what_the_parser_refuses),
		cmocka_unit_test(both_forms_of_the_original_are_read),
		cmocka_unit_test(what_is_wrong_with_an_originals_packet_is_refused),
		cmocka_unit_test(what_is_built_for_the_original_reads_as_put),
		cmocka_unit_test(answers_come_out_as_they_went_in),
		cmocka_unit_test(macs_are_those_of_rfc_4493),
		cmocka_unit_test(keys_are_found_by_reporter_then_tenant),
		cmocka_unit_test(keys_of_ranges_are_exchanged_one_by_one),
		cmocka_unit_test(a_withdrawn_key_is_refused_whatever_fails),
		cmocka_unit_test(key_files_are_32_digits),
		cmocka_unit_test(a_secret_is_a_file_without_trailing_white_space),
	};

	seed = 5;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
