// SPDX-License-Identifier: Apache-2.0
/*
 * append.c - Append: collects the items of a list in blocks of `batch` items and writes each block
 * to this lane's ring with one WRITE. A partial block is written after flush_ns; the next item then
 * starts a new block, so no block is written twice.
 */
#include "dta/engine/impl.h"

#include <errno.h>
#include <stdlib.h>

struct append_ring {
	struct dta_engine_link link; /* must be first; queued while count > 0 */
	uint64_t block;		     /* number of the next block */
	uint32_t count;	 /* staged items; equal to batch if the block could not be written yet */
	uint32_t logged; /* staged items that are logged keys, not reports */
};

struct append {
	struct append_ring *ring; /* one ring per list */
	uint8_t *staged;	  /* one unit of staged items per list */
	struct dta_engine_queue waiting;
};

static int open_append(struct dta_engine *e, struct dta_engine_store *s, const uint64_t *next)
{
	struct append *a = calloc(1, sizeof(*a));

	s->state = a;
	s->age_ns = e->opts.flush_ns;
	if (!a)
		return -ENOMEM;
	s->unit = sl_store_block_bytes(&s->c);
	a->ring = calloc(s->c.lists, sizeof(*a->ring));
	a->staged = calloc(s->c.lists, s->unit);
	if (!a->ring || !a->staged)
		return -ENOMEM;
	for (uint32_t i = 0; next && i < s->c.lists; i++)
		a->ring[i].block = next[i];
	a->waiting = (struct dta_engine_queue){ENGINE_NONE, ENGINE_NONE, (uint8_t *)a->ring,
					       sizeof(*a->ring)};
	return 0;
}

/*
 * The collector has already said which block of each ring is next. If waiting items were written to
 * that block through the previous object, the new object's first block would overwrite them. A ring
 * of another size starts empty, and the previous one is still read.
 */
static bool inherit_append(const struct dta_engine *e, struct dta_engine_store *s,
			   const struct dta_engine_store *previous)
{
	const struct append *from = previous->state;
	struct append *to = s->state;
	/* The output still repeats blocks that were missing when the collector said that. */
	const bool repeats = e->output && e->output->outstanding && previous->lane == s->lane &&
			     previous->object.number == s->object.number &&
			     previous->object.addr == s->object.addr &&
			     previous->object.rkey == s->object.rkey;

	if (previous->c.slots != s->c.slots || previous->c.lists != s->c.lists ||
	    previous->c.batch != s->c.batch || previous->c.value_bytes != s->c.value_bytes)
		return false;
	for (uint32_t i = 0; repeats && i < s->c.lists; i++)
		to->ring[i].block = BASE_MAX(to->ring[i].block, from->ring[i].block);
	for (uint32_t i = from->waiting.head; i != ENGINE_NONE; i = from->ring[i].link.next) {
		to->ring[i].count = from->ring[i].count;
		to->ring[i].logged = from->ring[i].logged;
		memcpy(to->staged + i * s->unit, from->staged + i * s->unit, s->unit);
		dta_engine_queue_put(&to->waiting, i, from->ring[i].link.since);
	}
	return true;
}

static void close_append(struct dta_engine_store *s)
{
	struct append *a = s->state;

	if (!a)
		return;
	free(a->ring);
	free(a->staged);
	free(a);
}

static void clear_ring(struct append *a, struct append_ring *r)
{
	dta_engine_queue_take(&a->waiting, (uint32_t)(r - a->ring));
	r->count = r->logged = 0;
}

/*
 * Writes a list's staged items. Returns 0 or the cause of failure. The items keep waiting unless
 * the cause is FAILED.
 */
static inline __attribute__((always_inline)) int emit_block(struct dta_engine *e,
							    struct dta_engine_store *s,
							    struct append *a, uint32_t list,
							    uint32_t value_bytes, bool immediate)
{
	struct append_ring *r = &a->ring[list];
	uint8_t *staged = a->staged + list * s->unit;
	const uint64_t data = s->unit - 8, used = (uint64_t)r->count * value_bytes;
	const uint64_t at = sl_store_ring_offset(&s->c, list, s->lane) +
			    r->block % s->c.slots * s->unit;
	uint64_t tail;
	int cause = 0;

	if (used < data)
		memset(staged + used, 0, data - used);
	tail = dta_tail(&s->c, list, s->lane, r->block, staged, data, r->count);
	if (s->direct && !immediate) {
		uint8_t *to = s->object.map + s->bank + at;

		memcpy(to, staged, data);
		__atomic_store_n((uint64_t *)(void *)(to + data), tail, __ATOMIC_RELEASE);
		s->stats.operations++;
		dta_output_shm_account(e->output, 1, 0, s->unit);
	} else {
		memcpy(staged + data, &tail, 8);
		cause = dta_engine_write(e, s, s->bank + at, staged, s->unit, immediate);
	}
	if (!cause) {
		s->stats.blocks++;
		s->stats.blocks_partial += r->count < s->c.batch;
		s->stats.stored += r->count - r->logged;
		r->block++;
	} else if (cause == DTA_DROP_OUTPUT_FAILED) {
		s->stats.dropped[cause] += r->count - r->logged;
	} else {
		return cause;
	}
	s->stats.waiting -= r->count - r->logged;
	clear_ring(a, r);
	return cause;
}

/* A non-inlined version of emit_block(). */
static __attribute__((noinline)) int emit_any(struct dta_engine *e, struct dta_engine_store *s,
					      uint32_t list, bool immediate)
{
	return emit_block(e, s, s->state, list, s->c.value_bytes, immediate);
}

/* Stages items and writes blocks as they become full. Returns the number of accepted items. */
static inline __attribute__((always_inline)) uint32_t take_items(struct dta_engine *e,
								 struct dta_engine_store *s,
								 const struct dta_block *b,
								 uint32_t value_bytes)
{
	struct append *a = s->state;
	const uint32_t step = 4 + value_bytes, batch = s->c.batch, lists = s->c.lists;
	const uint8_t *item = b->items, *end = item + (uint64_t)b->count * step;
	uint32_t taken = 0;

	while (item < end) {
		const uint32_t list = dta_get32(item);
		struct append_ring *r;
		uint32_t count;
		uint8_t *to;
		int cause = 0;

		if (__builtin_expect(list >= lists, 0)) {
			s->stats.dropped[DTA_DROP_LIST]++;
			item += step;
			continue;
		}
		r = &a->ring[list];
		count = r->count;
		if (__builtin_expect(count == batch, 0)) {
			cause = emit_any(e, s, list, false);
			count = r->count;
		}
		if (__builtin_expect(cause && count == batch, 0)) {
			s->stats.dropped[cause]++;
			item += step;
			continue;
		}
		if (!count)
			dta_engine_queue_put(&a->waiting, list, e->now);
		to = a->staged + list * s->unit + (uint64_t)count * value_bytes;
		/* Consecutive items usually belong to the same list. */
		do {
			memcpy(to, item + 4, value_bytes);
			to += value_bytes;
			item += step;
			count++;
			taken++;
		} while (count < batch && item < end && dta_get32(item) == list);
		s->stats.waiting += count - r->count;
		r->count = count;
		if (count == batch)
			emit_block(e, s, a, list, value_bytes, false);
	}
	return taken;
}

static uint32_t block_append(struct dta_engine *e, struct dta_engine_store *s,
			     const struct dta_block *b)
{
	struct append *a = s->state;
	uint32_t taken;

	if (b->key_bytes != 4 || b->value_bytes != s->c.value_bytes)
		return dta_engine_refuse(s, DTA_DROP_SHAPE, b->count);
	if (b->value_bytes == 8)
		taken = take_items(e, s, b, 8);
	else if (b->value_bytes == 4)
		taken = take_items(e, s, b, 4);
	else
		taken = take_items(e, s, b, b->value_bytes);
	if (b->flags & DTA_IMMEDIATE) {
		const uint64_t woken = s->stats.immediates;

		for (uint32_t i = 0; i < b->count; i++) {
			uint32_t list = dta_get32(b->items + i * (4u + b->value_bytes));

			if (list < s->c.lists && a->ring[list].count)
				emit_any(e, s, list, true);
		}
		if (taken && s->stats.immediates == woken)
			/*
			 * the last item completed a block, so no later WRITE will wake the
			 * application
			 */
			dta_engine_wake(e, s);
	}
	return taken;
}

static int flush_append(struct dta_engine *e, struct dta_engine_store *s, uint64_t age)
{
	struct append *a = s->state;
	int cause;

	while (dta_engine_queue_due(&a->waiting, e->now, age)) {
		cause = emit_any(e, s, a->waiting.head, false);
		if (cause && cause != DTA_DROP_OUTPUT_FAILED)
			return cause;
	}
	return 0;
}

static uint64_t oldest_append(const struct dta_engine_store *s)
{
	return dta_engine_queue_oldest(&((const struct append *)s->state)->waiting);
}

static void drop_append(struct dta_engine_store *s, int cause)
{
	struct append *a = s->state;

	while (a->waiting.head != ENGINE_NONE) {
		struct append_ring *r = &a->ring[a->waiting.head];

		s->stats.dropped[cause] += r->count - r->logged;
		s->stats.waiting -= r->count - r->logged;
		clear_ring(a, r);
	}
}

bool dta_engine_append_logged(struct dta_engine *e, struct dta_engine_store *log, uint32_t list,
			      const void *value, uint32_t bytes)
{
	struct append *a = log->state;
	struct append_ring *r = &a->ring[list];
	uint8_t *to;

	if (r->count == log->c.batch && emit_any(e, log, list, false) && r->count)
		return false;
	if (!r->count)
		dta_engine_queue_put(&a->waiting, list, e->now);
	to = a->staged + list * log->unit + (uint64_t)r->count * log->c.value_bytes;
	memset(to, 0, log->c.value_bytes);
	memcpy(to, value, bytes);
	r->logged++;
	if (++r->count == log->c.batch)
		emit_any(e, log, list, false);
	return true;
}

const struct dta_engine_kind dta_engine_append = {
	.open = open_append,
	.inherit = inherit_append,
	.close = close_append,
	.block = block_append,
	.flush = flush_append,
	.oldest = oldest_append,
	.drop = drop_append,
	.no_epochs = true,
};
