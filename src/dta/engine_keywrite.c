// SPDX-License-Identifier: Apache-2.0
/*
 * engine_keywrite.c - Key-Write: { check word, value } into N slots that the key alone names.
 *
 * Random slots of a big store are each a miss of the cache and of the TLB. So a chunk of reports is hashed
 * and its lines are asked for, all at once, before the first of them is written; what it costs is then
 * the memory's rate and no longer its latency.
 */
#include "dta/engine_impl.h"

static int open_keywrite(struct sl_engine *e, struct engine_store *s, const uint64_t *next)
{
	(void)e;
	(void)next;
	s->unit = sl_store_slot_bytes(&s->c);
	return 0;
}

static void close_keywrite(struct engine_store *s)
{
	(void)s;
}

/* Inlined with constants for the shapes that are common: no branch for what the block decides. */
static inline __attribute__((always_inline)) void direct(struct engine_store *s,
							 const uint8_t *item, uint32_t count,
							 uint32_t copies, uint32_t key_bytes,
							 uint32_t value_bytes)
{
	const uint64_t slots = s->c.slots, seed = s->c.seed;
	const uint32_t step = key_bytes + value_bytes;
	const uint64_t unit = 8 + sl_pad8(value_bytes);
	uint8_t *bank = s->object.map + s->bank;
	uint8_t *at[ENGINE_CHUNK * SL_STORE_COPIES_MAX];
	uint64_t check[ENGINE_CHUNK];

	while (count) {
		const uint32_t n = count < ENGINE_CHUNK ? count : ENGINE_CHUNK;
		uint8_t **to = at;

		for (uint32_t i = 0; i < n; i++) {
			const uint8_t *key = item + i * step;
			struct sl_dta_hash h = sl_dta_hash(key, key_bytes, seed);

			check[i] = sl_dta_check(h, key + key_bytes, value_bytes);
			for (uint32_t k = 0; k < copies; k++)
				*to++ = bank + sl_dta_slot(h, k, slots) * unit;
		}
		/*
		 * By itself: a prefetch does not retire before its address is translated, and only
		 * in a loop as short as this one do many translations go on at a time.
		 */
		for (uint32_t i = 0; i < n * copies; i++) {
			/* A slot of 16 bytes never crosses a line. */
			if (unit == 16)
				engine_prefetch_line(at[i]);
			else
				engine_prefetch(at[i], unit);
		}
		to = at;
		for (uint32_t i = 0; i < n; i++) {
			/* At once and in order: a later report of the same key is the one that stays. */
			const uint8_t *value = item + i * step + key_bytes;
			uint64_t last = 0;

			memcpy(&last, value + (unit - 16), value_bytes - (unit - 16));
			for (uint32_t k = 0; k < copies; k++, to++) {
				memcpy(*to, &check[i], 8);
				if (unit > 16)
					memcpy(*to + 8, value, unit - 16);
				memcpy(*to + unit - 8, &last, 8);
			}
		}
		item += (uint64_t)n * step;
		count -= n;
	}
}

/*
 * Shapes that are common, with all of XXH3 inlined (flatten), so that lengths are constants in there, too: 5-tuples
 * are 13 bytes with IPv4, 37 with IPv6.
 */
#define SHAPE(key, value, n)                                                  \
	__attribute__((flatten)) static void direct_##key##_##value##_##n(    \
		struct engine_store *s, const uint8_t *items, uint32_t count) \
	{                                                                     \
		direct(s, items, count, n, key, value);                       \
	}
#define SHAPES(X) \
	X(4, 4, 1) X(4, 4, 2) X(8, 8, 1) X(8, 8, 2) X(13, 8, 1) X(13, 8, 2) X(16, 8, 1) X(16, 8, 2)
/* clang-format off */
SHAPES(SHAPE)
/* clang-format on */

static void direct_any(struct engine_store *s, const struct sl_dta_block *b, uint32_t count)
{
	switch ((uint32_t)b->key_bytes << 16 | (uint32_t)b->value_bytes << 4 | b->copies) {
#define CASE(key, value, n)                                       \
	case key << 16 | value << 4 | n:                          \
		direct_##key##_##value##_##n(s, b->items, count); \
		return;
		SHAPES(CASE)
	}
	if (b->value_bytes == 8)
		direct(s, b->items, count, b->copies, b->key_bytes, 8);
	else
		direct(s, b->items, count, b->copies, b->key_bytes, b->value_bytes);
}

/* One report by way of the output. 0 or the cause. */
static int give(struct sl_engine *e, struct engine_store *s, const struct sl_dta_block *b,
		const uint8_t *key, bool immediate)
{
	struct sl_dta_hash h = sl_dta_hash(key, b->key_bytes, s->c.seed);
	uint64_t unit[1 + SL_STORE_VALUE_MAX / 8];

	unit[s->unit / 8 - 1] = 0;
	memcpy(unit + 1, key + b->key_bytes, b->value_bytes);
	unit[0] = sl_dta_check(h, key + b->key_bytes, b->value_bytes);
	for (uint32_t k = 0; k < b->copies; k++) {
		uint64_t slot = sl_dta_slot(h, k, s->c.slots);
		int cause = engine_write(e, s, s->bank + slot * s->unit, unit, s->unit,
					 immediate && k + 1u == b->copies);

		if (cause)
			return cause;
	}
	return 0;
}

static uint32_t block_keywrite(struct sl_engine *e, struct engine_store *s, uint32_t reporter,
			       const struct sl_dta_block *b)
{
	const bool immediate = b->flags & SL_DTA_IMMEDIATE;
	uint32_t direct_count = 0, stored;

	(void)reporter;
	if (b->value_bytes != s->c.value_bytes || !b->copies || b->copies > s->c.copies)
		return engine_refuse(s, SL_DROP_SHAPE, b->count);
	if (s->direct) {
		direct_count = b->count - immediate;
		direct_any(s, b, direct_count);
		s->stats.operations += (uint64_t)direct_count * b->copies;
		sl_output_shm_did(e->output, (uint64_t)direct_count * b->copies, 0,
				  (uint64_t)direct_count * b->copies * s->unit);
	}
	stored = direct_count;
	for (uint32_t i = direct_count; i < b->count; i++) {
		int cause = give(e, s, b, b->items + i * (b->key_bytes + b->value_bytes),
				 immediate && i + 1u == b->count);

		if (cause)
			s->stats.dropped[cause]++;
		else
			stored++;
	}
	s->stats.stored += stored;
	return stored;
}

const struct engine_kind engine_keywrite = {
	.open = open_keywrite,
	.close = close_keywrite,
	.block = block_keywrite,
};
