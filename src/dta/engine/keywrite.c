// SPDX-License-Identifier: Apache-2.0
/*
 * keywrite.c - Key-Write: writes { check word, value } to N slots selected by the key.
 *
 * Accesses to random slots of a large store miss the cache and the TLB. Each chunk of reports is
 * therefore hashed and prefetched as a whole and then written in order, so that the limit is memory
 * bandwidth rather than latency.
 */
#include "dta/engine/impl.h"
#include "dta/store/hash_many.h"

static int open_keywrite(struct dta_engine *e, struct dta_engine_store *s, const uint64_t *next)
{
	(void)e;
	(void)next;
	s->unit = sl_store_slot_bytes(&s->c);
	return 0;
}

typedef uint64_t pair __attribute__((vector_size(16), may_alias));

/*
 * Specialised for 8-byte values. Their slot is written with one store instruction and never crosses
 * a line.
 */
static inline __attribute__((always_inline)) void write_direct(struct dta_engine_store *s,
							       const struct dta_block *b,
							       uint32_t count, uint32_t value_bytes)
{
	const uint32_t key_bytes = b->key_bytes, step = key_bytes + value_bytes;
	const uint64_t unit = 8 + sl_pad8(value_bytes), rest = value_bytes - (unit - 16);
	uint8_t *bank = s->object.map + s->bank;
	DTA_LINES uint64_t slot[SL_STORE_COPIES_MAX][DTA_MANY];
	DTA_LINES uint64_t check[DTA_MANY];
	const uint8_t *item = b->items;
	struct dta_hashes h;

	for (uint32_t n; count; count -= n, item += (uint64_t)n * step) {
		n = count < DTA_MANY ? count : DTA_MANY;
		dta_hash_many(item, key_bytes, step, s->c.seed, n, &h);
		dta_check_many(&h, item + key_bytes, value_bytes, step, n, check);
		for (uint32_t k = 0; k < b->copies; k++) {
			dta_slot_many(&h, k, s->c.slots, n, slot[k]);
			for (uint32_t i = 0; i < n; i++)
				dta_engine_prefetch_far(bank + slot[k][i] * unit, unit);
		}
		for (uint32_t i = 0; i < n; i++) {
			/* Write in order, so that the last report of a key wins. */
			const uint8_t *value = item + i * step + key_bytes;
			uint64_t last = 0;

			memcpy(&last, value + (unit - 16), rest);
			for (uint32_t k = 0; k < b->copies; k++) {
				uint8_t *to = bank + slot[k][i] * unit;

				if (unit == 16) {
					*(pair *)(void *)to = (pair){check[i], last};
					continue;
				}
				memcpy(to, &check[i], 8);
				memcpy(to + 8, value, unit - 16);
				memcpy(to + unit - 8, &last, 8);
			}
		}
	}
}

/* For a packet with a single report, where there is no other work to overlap with prefetching. */
static void write_direct_one(struct dta_engine_store *s, const struct dta_block *b)
{
	const uint8_t *value = b->items + b->key_bytes;
	const struct dta_hash h = dta_hash(b->items, b->key_bytes, s->c.seed);
	uint64_t unit[1 + SL_STORE_VALUE_MAX / 8];

	unit[s->unit / 8 - 1] = 0;
	memcpy(unit + 1, value, b->value_bytes);
	unit[0] = dta_check(h, value, b->value_bytes);
	for (uint32_t k = 0; k < b->copies; k++) {
		uint8_t *to = s->object.map + s->bank + dta_slot(h, k, s->c.slots) * s->unit;

		if (s->unit == 16)
			*(pair *)(void *)to = (pair){unit[0], unit[1]};
		else
			memcpy(to, unit, s->unit);
	}
}

static void write_direct_any(struct dta_engine_store *s, const struct dta_block *b, uint32_t count)
{
	const struct dta_shape shape = {b->key_bytes, b->value_bytes, b->copies, s->c.seed,
					s->c.slots};
	const uint32_t step = (uint32_t)b->key_bytes + b->value_bytes;
	uint32_t i = 0, n;

	for (; i < count; i += n) {
		n = count - i < DTA_MANY ? count - i : DTA_MANY;
		if (!dta_put_many(s->object.map + s->bank, &shape, b->items + (uint64_t)i * step,
				  n))
			break;
	}
	if (i)
		return;
	if (b->value_bytes == 8)
		write_direct(s, b, count, 8);
	else
		write_direct(s, b, count, b->value_bytes);
}

/* Writes one report through the output. Returns 0 or the cause. */
static int write_report(struct dta_engine *e, struct dta_engine_store *s, const struct dta_block *b,
			const uint8_t *key, bool immediate)
{
	struct dta_hash h = dta_hash(key, b->key_bytes, s->c.seed);
	uint64_t unit[1 + SL_STORE_VALUE_MAX / 8];

	unit[s->unit / 8 - 1] = 0;
	memcpy(unit + 1, key + b->key_bytes, b->value_bytes);
	unit[0] = dta_check(h, key + b->key_bytes, b->value_bytes);
	for (uint32_t k = 0; k < b->copies; k++) {
		uint64_t slot = dta_slot(h, k, s->c.slots);
		int cause = dta_engine_write(e, s, s->bank + slot * s->unit, unit, s->unit,
					     immediate && k + 1u == b->copies);

		if (cause)
			return cause;
		s->stats.units++;
	}
	return 0;
}

static uint32_t block_keywrite(struct dta_engine *e, struct dta_engine_store *s,
			       const struct dta_block *b)
{
	const bool immediate = b->flags & DTA_IMMEDIATE;
	uint32_t direct_count = 0, stored;

	if (b->value_bytes != s->c.value_bytes || !b->copies || b->copies > s->c.copies)
		return dta_engine_refuse(s, DTA_DROP_SHAPE, b->count);
	if (s->direct) {
		direct_count = b->count - immediate;
		if (direct_count == 1)
			write_direct_one(s, b);
		else
			write_direct_any(s, b, direct_count);
		s->stats.operations += (uint64_t)direct_count * b->copies;
		s->stats.units += (uint64_t)direct_count * b->copies;
		dta_output_shm_account(e->output, (uint64_t)direct_count * b->copies, 0,
				       (uint64_t)direct_count * b->copies * s->unit);
	}
	stored = direct_count;
	for (uint32_t i = direct_count; i < b->count; i++) {
		int cause = write_report(e, s, b, b->items + i * (b->key_bytes + b->value_bytes),
					 immediate && i + 1u == b->count);

		if (cause)
			s->stats.dropped[cause]++;
		else
			stored++;
	}
	s->stats.stored += stored;
	return stored;
}

const struct dta_engine_kind dta_engine_keywrite = {
	.open = open_keywrite,
	.block = block_keywrite,
};
