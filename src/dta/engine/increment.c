// SPDX-License-Identifier: Apache-2.0
/*
 * increment.c - Key-Increment: adds to N counters selected by the key, one per row. This is a
 * count-min sketch in memory; docs/sketches.md gives the error bound.
 *
 * On an RDMA adapter each addition is one operation, and adapters perform few atomic operations per
 * second, so a cache first sums increments per key. On a mapping, adding to a cached line is as
 * cheap as using the cache.
 */
#include "dta/engine/impl.h"
#include "dta/store/hash_many.h"

#include <errno.h>
#include <stdlib.h>

struct increment_entry {
	struct dta_hash key;
	uint64_t sum;
	uint32_t reports; /* 0 means free */
	uint8_t copies;
	uint8_t done; /* copies already added before the output became full */
};

struct cache {
	uint32_t entries; /* a power of two; 0 means no cache */
	uint32_t used;
	uint64_t since; /* arrival time of the oldest entry */
	struct increment_entry entry[];
};

static int open_increment(struct dta_engine *e, struct dta_engine_store *s, const uint64_t *next)
{
	uint32_t entries = e->opts.increment_entries, n = 1;
	struct cache *c;

	(void)next;
	s->age_ns = e->opts.flush_ns;
	if (entries == ~0u || (!entries && s->direct))
		entries = 0;
	else if (!entries)
		entries = 4096;
	while (entries && n < entries && n < 1u << 24)
		n *= 2;
	n = entries ? n : 0;
	c = calloc(1, sizeof(*c) + n * sizeof(c->entry[0]));
	s->state = c;
	if (!c)
		return -ENOMEM;
	c->entries = n;
	return 0;
}

static void close_increment(struct dta_engine_store *s)
{
	free(s->state);
}

static inline __attribute__((always_inline)) void
add_direct(struct dta_engine_store *s, const struct dta_block *b, uint32_t copies)
{
	const uint32_t key_bytes = b->key_bytes, step = key_bytes + 8;
	uint64_t *row = (uint64_t *)(void *)(s->object.map + s->bank);
	DTA_LINES uint64_t slot[SL_STORE_COPIES_MAX][DTA_MANY];
	const uint8_t *item = b->items;
	struct dta_hashes h;

	for (uint32_t left = b->count, n; left; left -= n, item += (uint64_t)n * step) {
		n = left < DTA_MANY ? left : DTA_MANY;
		dta_hash_many(item, key_bytes, step, s->c.seed, n, &h);
		for (uint32_t k = 0; k < copies; k++) {
			dta_slot_many(&h, k, s->c.slots, n, slot[k]);
			for (uint32_t i = 0; i < n; i++)
				dta_engine_prefetch_line(row + k * s->c.slots + slot[k][i]);
		}
		for (uint32_t i = 0; i < n; i++) {
			uint64_t addend = dta_get64(item + i * step + key_bytes);

			/* Other translators add to the same counters. */
			for (uint32_t k = 0; k < copies; k++)
				__atomic_fetch_add(row + k * s->c.slots + slot[k][i], addend,
						   __ATOMIC_RELAXED);
		}
	}
}

static int add_copies(struct dta_engine *e, struct dta_engine_store *s, struct increment_entry *n)
{
	while (n->done < n->copies) {
		uint64_t column = dta_slot(n->key, n->done, s->c.slots);
		int cause = dta_engine_add(
			e, s, s->bank + sl_store_counter_offset(&s->c, n->done, column), n->sum);

		if (cause)
			return cause;
		n->done++;
	}
	return 0;
}

/*
 * Performs an entry's additions. Returns 0 and frees the entry, or returns the cause of failure and
 * the entry keeps waiting.
 */
static int emit_entry(struct dta_engine *e, struct dta_engine_store *s, struct cache *c,
		      struct increment_entry *n)
{
	int cause = add_copies(e, s, n);

	if (!cause) {
		s->stats.stored += n->reports;
		s->stats.merged += n->reports - 1;
	} else if (cause == DTA_DROP_OUTPUT_FAILED) {
		s->stats.dropped[cause] += n->reports;
	} else {
		return cause;
	}
	s->stats.waiting -= n->reports;
	n->reports = 0;
	c->used--;
	return 0;
}

/* Adds to the cache. Returns 0, or the reason why the report was dropped. */
static int add_to_cache(struct dta_engine *e, struct dta_engine_store *s, struct cache *c,
			struct increment_entry *new)
{
	struct increment_entry *n = &c->entry[new->key.hi &(c->entries - 1)];

	if (n->reports && !n->done && n->key.lo == new->key.lo && n->key.hi == new->key.hi &&
	    n->copies == new->copies) {
		n->sum += new->sum;
		n->reports++;
		s->stats.waiting++;
		return 0;
	}
	if (n->reports) {
		int cause = emit_entry(e, s, c, n);

		if (cause)
			return cause;
		s->stats.evicted++;
	}
	*n = *new;
	if (!c->used++)
		c->since = e->now;
	s->stats.waiting++;
	return 0;
}

static uint32_t block_increment(struct dta_engine *e, struct dta_engine_store *s,
				const struct dta_block *b)
{
	const bool immediate = b->flags & DTA_IMMEDIATE;
	struct cache *c = s->state;
	uint32_t taken = 0;

	if (b->value_bytes != 8 || !b->copies || b->copies < s->c.copies || b->copies > s->c.rows ||
	    b->copies > SL_STORE_COPIES_MAX)
		return dta_engine_refuse(s, DTA_DROP_SHAPE, b->count);
	if (s->direct && (!c->entries || immediate)) {
		const uint64_t adds = (uint64_t)b->count * b->copies;

		if (b->copies == 1)
			add_direct(s, b, 1);
		else if (b->copies == 2)
			add_direct(s, b, 2);
		else
			add_direct(s, b, b->copies);
		s->stats.operations += adds;
		dta_output_shm_account(e->output, 0, adds, adds * 8);
		s->stats.stored += b->count;
		taken = b->count;
	} else {
		for (uint32_t i = 0; i < b->count; i++) {
			const uint8_t *key = b->items + i * (b->key_bytes + 8u);
			struct increment_entry n = {
				.key = dta_hash(key, b->key_bytes, s->c.seed),
				.sum = dta_get64(key + b->key_bytes),
				.reports = 1,
				.copies = b->copies,
			};
			int cause;

			if (c->entries && !immediate) {
				cause = add_to_cache(e, s, c, &n);
			} else {
				cause = add_copies(e, s, &n);
				s->stats.stored += !cause;
			}
			if (cause)
				s->stats.dropped[cause]++;
			taken += !cause;
		}
	}
	if (immediate && taken)
		dta_engine_wake(e, s);
	return taken;
}

static int flush_increment(struct dta_engine *e, struct dta_engine_store *s, uint64_t age)
{
	struct cache *c = s->state;

	if (e->now - c->since < age)
		return 0;
	for (uint32_t i = 0; c->used && i < c->entries; i++) {
		int cause = c->entry[i].reports ? emit_entry(e, s, c, &c->entry[i]) : 0;

		if (cause)
			return cause;
	}
	return 0;
}

static uint64_t oldest_increment(const struct dta_engine_store *s)
{
	const struct cache *c = s->state;

	return c->used ? c->since : UINT64_MAX;
}

static void drop_increment(struct dta_engine_store *s, int cause)
{
	struct cache *c = s->state;

	for (uint32_t i = 0; c->used && i < c->entries; i++) {
		s->stats.dropped[cause] += c->entry[i].reports;
		s->stats.waiting -= c->entry[i].reports;
		c->used -= c->entry[i].reports > 0;
		c->entry[i].reports = 0;
	}
}

const struct dta_engine_kind dta_engine_increment = {
	.open = open_increment,
	.close = close_increment,
	.block = block_increment,
	.flush = flush_increment,
	.oldest = oldest_increment,
	.drop = drop_increment,
};
