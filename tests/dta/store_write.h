/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_write.h - writes into stores as specified by docs/dta-store.md, without the engine, so that
 * queries are tested against the format.
 */
#ifndef TESTS_DTA_STORE_WRITE_H
#define TESTS_DTA_STORE_WRITE_H

#include <stdlib.h>
#include <string.h>

#include "dta/store/hash.h"
#include "dta/query/query.h"

#define NEWEST (~0ull) /* the epoch of a query */

struct made {
	void *map;
	uint64_t bytes;
	struct dta_store_view v;
};

static inline bool make_store(struct made *m, struct sl_store_config c)
{
	char error[256];

	c.rows = c.rows ? c.rows : 1;
	c.lanes = c.lanes ? c.lanes : 1;
	c.banks = c.banks ? c.banks : 1;
	if (dta_store_config_check(&c, error, sizeof(error)))
		return false;
	m->bytes = dta_store_object_bytes(&c);
	m->map = aligned_alloc(4096, m->bytes);
	memset(m->map, 0, m->bytes);
	dta_store_format(m->map, &c, "test");
	return !dta_store_view(m->map, m->bytes, &m->v, error, sizeof(error));
}

static inline void set_epochs(struct made *m, uint64_t epoch, uint64_t oldest)
{
	dta_store_epochs_set(
		m->map, &(struct dta_store_epochs){.epoch = epoch, .oldest = oldest, .state = 1});
}

static inline uint8_t *bank_of(const struct made *m, uint64_t epoch)
{
	return (uint8_t *)(uintptr_t)dta_store_bank(&m->v, epoch);
}

static inline void put_keywrite(struct made *m, uint64_t epoch, const void *key, size_t key_bytes,
				const void *value, uint32_t first, uint32_t end)
{
	const struct sl_store_config *c = m->v.config;
	struct dta_hash h = dta_hash(key, key_bytes, c->seed);
	uint64_t check = dta_check(h, value, c->value_bytes);

	for (uint32_t n = first; n < end; n++) {
		uint8_t *to = bank_of(m, epoch) + dta_slot(h, n, c->slots) * sl_store_slot_bytes(c);

		memset(to, 0, sl_store_slot_bytes(c));
		memcpy(to, &check, 8);
		memcpy(to + 8, value, c->value_bytes);
	}
}

/* items of value_bytes each; count of them in use. */
static inline void put_block(struct made *m, uint32_t list, uint32_t lane, uint64_t block,
			     const void *items, uint32_t count)
{
	const struct sl_store_config *c = m->v.config;
	uint64_t unit = sl_store_block_bytes(c), tail;
	uint8_t *to = bank_of(m, 0) + sl_store_ring_offset(c, list, lane) + block % c->slots * unit;

	memset(to, 0, unit - 8);
	memcpy(to, items, (size_t)count * c->value_bytes);
	tail = dta_tail(c, list, lane, block, to, unit - 8, count);
	__atomic_store_n((uint64_t *)(void *)(to + unit - 8), tail, __ATOMIC_RELEASE);
}

static inline void put_path(struct made *m, uint64_t epoch, const void *key, size_t key_bytes,
			    uint64_t present, uint32_t hops, const uint32_t *value, uint32_t first,
			    uint32_t end)
{
	const struct sl_store_config *c = m->v.config;
	const struct dta_hash h = dta_hash(key, key_bytes, c->seed);

	for (uint32_t n = first; n < end; n++) {
		uint64_t *unit = (void *)(bank_of(m, epoch) +
					  dta_slot(h, n, c->slots) * sl_store_path_bytes(c));

		for (uint32_t i = 0; i < hops; i++)
			if (present >> i & 1)
				unit[i] = dta_hop_word(h, i, hops, value[i]);
	}
}

static inline void put_lane(struct made *m, uint64_t epoch, uint32_t lane, const void *cells,
			    uint64_t columns, uint32_t first_reporter, uint32_t reporters)
{
	const struct sl_store_config *c = m->v.config;
	uint8_t *at = bank_of(m, epoch) + lane * sl_store_lane_bytes(c);
	uint64_t bytes = (uint64_t)c->rows * c->slots * sl_store_cell_bytes(c);
	struct sl_store_complete done = {.epoch = epoch, .ended = reporters, .columns = columns};

	for (uint32_t i = first_reporter; i < first_reporter + reporters; i++)
		done.map[i / 64] |= 1ull << i % 64;
	done.rows_check = dta_sketch_check(c, lane, 1, cells, bytes);
	done.check = dta_sketch_check(c, lane, 0, &done.epoch, sizeof(done) - 8);
	memcpy(at + sizeof(done), cells, bytes);
	memcpy(at, &done, sizeof(done));
}

/* A log of one lane in blocks of 16, as the engine writes it. */
struct logged {
	struct made *m;
	uint32_t lane, count;
	uint64_t block;
	uint8_t items[16 * 32];
};

static inline void end_block(struct logged *l)
{
	if (l->count)
		put_block(l->m, 0, l->lane, l->block++, l->items, l->count);
	l->count = 0;
}

static inline void log_item(struct logged *l, uint8_t bytes, const void *data, size_t n)
{
	const uint32_t size = l->m->v.config->value_bytes;
	uint8_t *item = l->items + l->count * size;

	memset(item, 0, size);
	item[0] = bytes;
	memcpy(item + 1, data, n);
	if (++l->count == 16)
		end_block(l);
}

#endif
