// SPDX-License-Identifier: Apache-2.0
/*
 * dta_load.c - chooses the reports to send and computes the expected answers. Has no side effects.
 */
#include "cli/generate/dta.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *const cli_dta_kind_name[GD_KINDS + 1] = {"keywrite", "append", "increment", "postcard",
						     "sketch"};

/* The finalizer of SplitMix64. */
static inline uint64_t mix_bits(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* Contents of reports */

void cli_dta_key(const struct cli_dta_settings *s, uint64_t n, uint8_t *key)
{
	const uint64_t be = htobe64(n);

	if (s->key_bytes < 8) {
		memcpy(key, (const uint8_t *)&be + 8 - s->key_bytes, s->key_bytes);
		return;
	}
	memset(key, 0, s->key_bytes - 8);
	memcpy(key + s->key_bytes - 8, &be, 8);
}

void cli_dta_value(const struct cli_dta_settings *s, uint64_t n, uint8_t *value)
{
	uint64_t x = s->seed * 0x9e3779b97f4a7c15ull + n;

	for (uint32_t at = 0; at < s->value_bytes; at += 8) {
		const uint64_t w = mix_bits(x += 0xd1342543de82ef95ull);

		memcpy(value + at, &w, BASE_MIN(s->value_bytes - at, 8u));
	}
}

uint32_t cli_dta_hop(const struct cli_dta_settings *s, uint64_t n, uint32_t hop)
{
	return 1 + (uint32_t)(mix_bits(s->seed + n * 64 + hop) % s->values);
}

bool cli_dta_has_kind(const struct cli_dta_settings *s, uint32_t opcode)
{
	for (uint32_t k = 0; k < s->n_kinds; k++)
		if (s->kind[k] == opcode)
			return true;
	return false;
}

/* Sketches of the reporters, and the expected estimates of the merged sketch */

struct sl_store_config cli_dta_sketch_store(const struct cli_dta_settings *s)
{
	return (struct sl_store_config){.kind = SL_STORE_SKETCH,
					.sketch = s->hll	    ? SL_STORE_HLL
						  : s->count_sketch ? SL_STORE_COUNT_SKETCH
								    : SL_STORE_COUNT_MIN,
					.rows = s->rows,
					.slots = s->columns};
}

/* Allocates cells_of. Returns 0 or -ENOMEM; the caller frees partial results. */
static int sketch_open(struct cli_dta_load *l)
{
	const struct cli_dta_settings *s = l->s;
	const struct sl_store_config c = cli_dta_sketch_store(s);
	const uint64_t cells = (uint64_t)s->rows * s->columns;
	uint64_t keys = BASE_MIN(s->keys, GD_SKETCH_KEYS);
	uint8_t key[SL_STORE_KEY_MAX];

	for (uint32_t i = 0; i < GD_SKETCHES; i++) {
		struct dta_sketch_maker *m = dta_sketch_maker_new(&c);

		if (!l->cells_of[i])
			l->cells_of[i] = calloc(cells, 8);
		for (uint64_t n = 0; m && n < keys; n++) {
			if (n % GD_SKETCHES != i && n % GD_SKETCHES != (i + 1) % GD_SKETCHES)
				continue;
			cli_dta_key(s, n, key);
			dta_sketch_maker_add(m, key, s->key_bytes, 1 + (s->seed + n) % 100);
		}
		if (m && l->cells_of[i])
			dta_sketch_maker_cells(m, l->cells_of[i]);
		dta_sketch_maker_free(m);
		if (!m || !l->cells_of[i])
			return -ENOMEM;
	}
	return 0;
}

int cli_dta_sketch_estimate(const struct cli_dta_load *l, const void *key,
			    struct dta_sketch_estimate *out)
{
	const struct cli_dta_settings *s = l->s;
	const struct sl_store_config c = cli_dta_sketch_store(s);
	uint8_t *registers;
	int err;

	if (!s->hll)
		return dta_sketch_estimate(&c, l->cell, key, s->key_bytes, out);
	registers = malloc(s->columns);
	if (!registers)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->columns; i++)
		registers[i] = (uint8_t)l->cell[i];
	err = dta_sketch_estimate(&c, registers, NULL, 0, out);
	free(registers);
	return err;
}

/* Generating reports */

int cli_dta_load_open(struct cli_dta_load *l, const struct cli_dta_settings *s)
{
	bool full = true;

	*l = (struct cli_dta_load){.s = s};
	l->sketch_items = (uint64_t)s->rows * ((s->columns + s->cells - 1) / s->cells);
	l->list = calloc(s->lists, sizeof(*l->list));
	l->sketch_next = calloc(s->reporters, 8);
	if (cli_dta_has_kind(s, DTA_KEYWRITE))
		full &= (l->keywrite = calloc(s->keys, 1)) != NULL;
	if (cli_dta_has_kind(s, DTA_INCREMENT))
		full &= (l->increment = calloc(s->keys, 8)) != NULL;
	if (cli_dta_has_kind(s, DTA_POSTCARD))
		full &= (l->path = calloc(s->keys, 8)) != NULL;
	if (cli_dta_has_kind(s, DTA_SKETCH))
		full &= (l->cell = calloc((size_t)s->rows * s->columns, 8)) && !sketch_open(l);
	if (full && l->list && l->sketch_next)
		return 0;
	cli_dta_load_close(l);
	return -ENOMEM;
}

void cli_dta_load_close(struct cli_dta_load *l)
{
	free(l->keywrite);
	free(l->increment);
	free(l->path);
	free(l->list);
	free(l->cell);
	for (uint32_t i = 0; i < GD_SKETCHES; i++)
		free(l->cells_of[i]);
	free(l->sketch_next);
}

static void make_keywrite(struct cli_dta_load *l, uint64_t i, bool delivered,
			  struct cli_dta_report *r)
{
	const uint64_t n = i % l->s->keys;

	r->shape.value_bytes = (uint16_t)l->s->value_bytes;
	cli_dta_key(l->s, n, r->key);
	cli_dta_value(l->s, n, r->value);
	l->keywrite[n] |= delivered;
}

/* The value of an item is its number within its list, so that a reader sees gaps and duplicates. */
static void make_append(struct cli_dta_load *l, uint64_t i, bool delivered,
			struct cli_dta_report *r)
{
	const uint32_t list = (uint32_t)(i % l->s->lists), be = htobe32(list);
	struct cli_dta_list *at = &l->list[list];
	const uint64_t item = at->items++, wide = htobe64(item);

	r->shape.copies = 0;
	r->shape.key_bytes = 4;
	r->shape.value_bytes = (uint16_t)l->s->value_bytes;
	memcpy(r->key, &be, 4);
	if (l->s->value_bytes < 8) {
		memcpy(r->value, (const uint8_t *)&wide + 8 - l->s->value_bytes, l->s->value_bytes);
	} else {
		memcpy(r->value, &wide, 8);
		memset(r->value + 8, 0, l->s->value_bytes - 8);
	}
	at->delivered += delivered;
	at->sum += delivered ? item : 0;
}

static void make_increment(struct cli_dta_load *l, uint64_t i, bool delivered,
			   struct cli_dta_report *r)
{
	const uint64_t n = i % l->s->keys, addend = 1 + mix_bits(i ^ l->s->seed) % 1000;
	const uint64_t be = htobe64(addend);

	cli_dta_key(l->s, n, r->key);
	memcpy(r->value, &be, 8);
	l->increment[n] += delivered ? addend : 0;
}

/* The hops of a path are consecutive, in the order in which a packet passes its switches. */
static void make_postcard(struct cli_dta_load *l, uint64_t i, bool delivered,
			  struct cli_dta_report *r)
{
	const uint32_t hop = (uint32_t)(i % l->s->hops);
	const uint64_t n = i / l->s->hops % l->s->keys;
	const uint32_t be = htobe32(cli_dta_hop(l->s, n, hop));

	cli_dta_key(l->s, n, r->key);
	r->value[0] = (uint8_t)hop;
	r->value[1] = (uint8_t)l->s->hops;
	r->value[2] = r->value[3] = 0;
	memcpy(r->value + 4, &be, 4);
	if (delivered)
		l->path[n] |= 1ull << hop;
}

/*
 * Sends each reporter's sketch of the epoch cell by cell, then the end marker. Returns false when
 * done.
 */
static bool make_sketch(struct cli_dta_load *l, uint32_t reporter, bool delivered,
			struct cli_dta_report *r)
{
	const struct cli_dta_settings *s = l->s;
	const uint64_t item = l->sketch_next[reporter], wide = s->hll ? 1 : 8;
	const uint32_t per_row = (s->columns + s->cells - 1) / s->cells;
	const uint32_t row = (uint32_t)(item / per_row),
		       column = (uint32_t)(item % per_row) * s->cells;
	const uint32_t cells = BASE_MIN(s->columns - column, s->cells);
	const uint32_t key[3] = {htobe32(s->epoch), htobe32(row), htobe32(column)};
	const uint32_t end = htobe32((uint32_t)l->sketch_items);

	if (item > l->sketch_items)
		return false;
	l->sketch_next[reporter]++;
	r->shape.copies = 0;
	memcpy(r->key, key, sizeof(key));
	if (item == l->sketch_items) {
		r->shape.opcode = DTA_SKETCH_END;
		r->shape.key_bytes = r->shape.value_bytes = 4;
		memcpy(r->value, &end, 4);
		return true;
	}
	r->shape.key_bytes = 12;
	r->shape.value_bytes = (uint16_t)(cells * wide);
	for (uint32_t c = 0; c < cells; c++) {
		uint64_t *to = &l->cell[(uint64_t)row * s->columns + column + c];
		uint64_t v = l->cells_of[reporter % GD_SKETCHES]
					[(uint64_t)row * s->columns + column + c];
		uint64_t be = htobe64(v);

		if (s->hll)
			r->value[c] = (uint8_t)v;
		else
			memcpy(r->value + 8 * c, &be, 8);
		if (delivered)
			*to = s->hll ? (v > *to ? v : *to) : *to + v;
	}
	return true;
}

bool cli_dta_load_next(struct cli_dta_load *l, uint32_t reporter, bool delivered,
		       struct cli_dta_report *r)
{
	const struct cli_dta_settings *s = l->s;
	const uint32_t run = BASE_MIN(s->pack, 8u);

	/* Kinds alternate, in runs of one shape; finished kinds are skipped. */
	for (uint32_t tries = 0; tries < s->n_kinds; tries++) {
		const uint32_t opcode = s->kind[(l->n / run + tries) % s->n_kinds], k = opcode - 1;
		const uint64_t i = l->of_kind[k];

		if (opcode != DTA_SKETCH && i >= s->count)
			continue;
		r->shape = (struct dta_block){
			.opcode = (uint8_t)opcode,
			.copies = (uint8_t)s->copies,
			.flags = (uint8_t)((s->immediate ? DTA_IMMEDIATE : 0) |
					   (s->essential ? DTA_ESSENTIAL : 0)),
			.store = (uint16_t)(s->store ? s->store : opcode),
			.key_bytes = (uint8_t)s->key_bytes,
			.value_bytes = 8,
		};
		switch (opcode) {
		case DTA_KEYWRITE:
			make_keywrite(l, i, delivered, r);
			break;
		case DTA_APPEND:
			make_append(l, i, delivered, r);
			break;
		case DTA_POSTCARD:
			make_postcard(l, i, delivered, r);
			break;
		case DTA_INCREMENT:
			make_increment(l, i, delivered, r);
			break;
		default:
			if (!make_sketch(l, reporter, delivered, r))
				continue;
		}
		l->of_kind[k]++;
		l->delivered[k] += delivered;
		l->n++;
		return true;
	}
	return false;
}
