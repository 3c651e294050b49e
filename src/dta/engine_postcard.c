// SPDX-License-Identifier: Apache-2.0
/*
 * engine_postcard.c - Postcarding: the hops of a path come one by one; they wait in a cache until the path is
 * whole, too old, or in the way of another, and then go out in one WRITE a copy, to the slots of their own key.
 */
#include "dta/engine_impl.h"
#include "dta/hash_many.h"

#include <errno.h>
#include <stdlib.h>

#define WAYS 4u /* paths that share a line of tags */

struct path {
	struct engine_link link; /* first; queued while used */
	uint64_t hi;		 /* of the key's hash; the lower half is the tag */
	uint64_t present;
	uint8_t hops; /* 0: free */
	uint8_t copies;
	uint8_t done; /* copies that were given already, when the output became full */
	uint8_t immediate;
	uint32_t value[];
};

struct paths {
	uint64_t *tag;	/* WAYS a set */
	uint8_t *paths; /* in the order of the tags */
	uint64_t stride;
	uint64_t sets; /* a power of two */
	struct engine_queue waiting;
};

static struct path *path_at(const struct paths *p, uint32_t i)
{
	return (struct path *)(void *)(p->paths + i * p->stride);
}

static int open_postcard(struct sl_engine *e, struct engine_store *s, const uint64_t *next)
{
	struct paths *p = calloc(1, sizeof(*p));

	(void)next;
	s->state = p;
	if (!p)
		return -ENOMEM;
	s->unit = sl_store_path_bytes(&s->c);
	p->stride = (offsetof(struct path, value) + s->c.hops * 4ull + 63) & ~63ull;
	p->sets = 1;
	while (p->sets * WAYS < e->opts.path_entries && p->sets < 1u << 22)
		p->sets *= 2;
	/* Sets and paths begin lines. */
	p->tag = aligned_alloc(64, (p->sets * WAYS * sizeof(*p->tag) + 63) & ~63ull);
	p->paths = aligned_alloc(64, p->sets * WAYS * p->stride);
	if (!p->tag || !p->paths)
		return -ENOMEM;
	memset(p->tag, 0, p->sets * WAYS * sizeof(*p->tag));
	memset(p->paths, 0, p->sets * WAYS * p->stride);
	p->waiting = (struct engine_queue){ENGINE_NONE, ENGINE_NONE, p->paths, p->stride};
	return 0;
}

static void close_postcard(struct engine_store *s)
{
	struct paths *p = s->state;

	if (!p)
		return;
	free(p->tag);
	free(p->paths);
	free(p);
}

static uint64_t whole(uint32_t hops)
{
	return ~0ull >> (64 - hops);
}

static void forget(struct paths *p, uint32_t i)
{
	engine_queue_take(&p->waiting, i);
	p->tag[i] = 0;
	path_at(p, i)->hops = 0;
}

/* Writes path i. 0: it is forgotten; or the cause, and it waits on unless it has FAILED. */
static int emit(struct sl_engine *e, struct engine_store *s, struct paths *p, uint32_t i)
{
	uint64_t unit[(8 + 8 + 4 + 4 * SL_STORE_HOPS_MAX + 7) / 8];
	struct path *x = path_at(p, i);
	const struct sl_dta_hash h = {p->tag[i], x->hi};
	const uint32_t reports = (uint32_t)__builtin_popcountll(x->present);
	uint8_t *body = (uint8_t *)(unit + 2);
	int cause = 0;

	unit[s->unit / 8 - 1] = 0;
	unit[1] = x->present;
	body[0] = x->hops;
	memset(body + 1, 0, 3);
	memcpy(body + 4, x->value, s->c.hops * 4ull);
	unit[0] = sl_dta_check(h, unit + 1, s->unit - 8);
	if (s->direct && !x->immediate) {
		for (uint32_t n = 0; n < x->copies; n++)
			memcpy(s->object.map + s->bank + sl_dta_slot(h, n, s->c.slots) * s->unit,
			       unit, s->unit);
		s->stats.operations += x->copies;
		s->stats.units += x->copies;
		sl_output_shm_did(e->output, x->copies, 0, x->copies * s->unit);
	}
	while ((!s->direct || x->immediate) && x->done < x->copies) {
		uint64_t slot = sl_dta_slot(h, x->done, s->c.slots);

		cause = engine_write(e, s, s->bank + slot * s->unit, unit, s->unit,
				     x->immediate && x->done + 1 == x->copies);
		if (cause)
			break;
		x->done++;
		s->stats.units++;
	}
	if (!cause) {
		s->stats.paths++;
		s->stats.paths_partial += x->present != whole(x->hops);
		s->stats.stored += reports;
	} else if (cause == SL_DROP_OUTPUT_FAILED) {
		s->stats.dropped[cause] += reports;
	} else {
		return cause;
	}
	s->stats.waiting -= reports;
	forget(p, i);
	return 0;
}

/* The path of this key, or a free or freed place for it. *i. 0 or the cause. */
static inline __attribute__((always_inline)) int place(struct sl_engine *e, struct engine_store *s,
						       struct paths *p, struct sl_dta_hash h,
						       uint32_t hops, uint32_t copies, uint32_t *i)
{
	const uint32_t first = (uint32_t)(h.hi & (p->sets - 1)) * WAYS;
	uint32_t to = ENGINE_NONE;
	int cause;

	for (uint32_t w = first; w < first + WAYS; w++) {
		struct path *x;

		if (p->tag[w] != h.lo) {
			if (!p->tag[w] && to == ENGINE_NONE && !path_at(p, w)->hops)
				to = w;
			continue;
		}
		x = path_at(p, w);
		if (!x->hops || x->hi != h.hi)
			continue;
		if (x->hops == hops && x->copies == copies && !x->done) {
			*i = w;
			return 0;
		}
		/* The path of this key is another one now. */
		cause = emit(e, s, p, w);
		if (cause)
			return cause;
		to = w;
		break;
	}
	if (to == ENGINE_NONE) {
		to = first;
		for (uint32_t w = first + 1; w < first + WAYS; w++)
			if (path_at(p, w)->link.since < path_at(p, to)->link.since)
				to = w;
		cause = emit(e, s, p, to);
		if (cause)
			return cause;
		s->stats.evicted++;
	}
	*i = to;
	p->tag[to] = h.lo;
	path_at(p, to)->hi = h.hi;
	path_at(p, to)->present = 0;
	path_at(p, to)->hops = (uint8_t)hops;
	path_at(p, to)->copies = (uint8_t)copies;
	path_at(p, to)->done = 0;
	path_at(p, to)->immediate = 0;
	memset(path_at(p, to)->value, 0, s->c.hops * 4ull);
	engine_queue_put(&p->waiting, to, e->now);
	return 0;
}

static uint32_t chunk_postcard(struct sl_engine *e, struct engine_store *s,
			       const struct sl_dta_block *b, const uint8_t *item, uint32_t count)
{
	const uint32_t step = b->key_bytes + 8u;
	struct paths *p = s->state;
	uint32_t full[SL_DTA_MANY], done = 0, taken = 0;
	SL_DTA_LINES uint64_t slot[SL_DTA_MANY];
	struct sl_dta_hashes h;

	sl_dta_hash_many(item, b->key_bytes, step, s->c.seed, count, &h);
	for (uint32_t i = 0; i < count; i++)
		engine_prefetch_line(&p->tag[(h.hi[i] & (p->sets - 1)) * WAYS]);
	for (uint32_t i = 0; i < count; i++, item += step) {
		const uint32_t hop = item[b->key_bytes], hops = item[b->key_bytes + 1];
		struct path *x;
		uint32_t at;
		int cause;

		if (!hops || hops > s->c.hops || hop >= hops) {
			s->stats.dropped[SL_DROP_LIST]++;
			continue;
		}
		cause = place(e, s, p, sl_dta_hash_of(&h, i), hops, b->copies, &at);
		if (cause) {
			s->stats.dropped[cause]++;
			continue;
		}
		x = path_at(p, at);
		if (x->present >> hop & 1) {
			s->stats.dropped[SL_DROP_DUPLICATE_HOP]++;
			continue;
		}
		x->present |= 1ull << hop;
		x->value[hop] = engine_be32(item + b->key_bytes + 4);
		x->immediate |= b->flags & SL_DTA_IMMEDIATE;
		s->stats.waiting++;
		taken++;
		if (x->present != whole(hops))
			continue;
		full[done] = at;
		h.lo[done] = h.lo[i]; /* of reports that are done with */
		h.hi[done++] = h.hi[i];
	}
	for (uint32_t n = 0; s->direct && done && n < b->copies; n++) {
		sl_dta_slot_many(&h, n, s->c.slots, done, slot);
		for (uint32_t i = 0; i < done; i++)
			engine_prefetch_far(s->object.map + s->bank + slot[i] * s->unit, s->unit);
	}
	/* One may have been in the way meanwhile, and its place may be another's. */
	for (uint32_t i = 0; i < done; i++) {
		const struct path *x = path_at(p, full[i]);

		if (x->hops && x->present == whole(x->hops))
			emit(e, s, p, full[i]);
	}
	return taken;
}

static uint32_t block_postcard(struct sl_engine *e, struct engine_store *s, uint32_t reporter,
			       const struct sl_dta_block *b)
{
	const uint8_t *item = b->items;
	uint32_t taken = 0;

	(void)reporter;
	if (b->value_bytes != 8 || !b->copies || b->copies > s->c.copies)
		return engine_refuse(s, SL_DROP_SHAPE, b->count);
	for (uint32_t i = 0; i < b->count; i += SL_DTA_MANY) {
		uint32_t n = b->count - i < SL_DTA_MANY ? b->count - i : SL_DTA_MANY;

		taken += chunk_postcard(e, s, b, item, n);
		item += n * (b->key_bytes + 8ull);
	}
	return taken;
}

static int flush_postcard(struct sl_engine *e, struct engine_store *s)
{
	struct paths *p = s->state;

	while (p->waiting.head != ENGINE_NONE) {
		int cause = emit(e, s, p, p->waiting.head);

		if (cause)
			return cause;
	}
	return 0;
}

static void tick_postcard(struct sl_engine *e, struct engine_store *s)
{
	struct paths *p = s->state;

	/* Whole ones that the output had no room for are among the oldest, too. */
	while (engine_queue_due(&p->waiting, e->now, e->opts.path_ns))
		if (emit(e, s, p, p->waiting.head))
			return;
}

static uint64_t oldest_postcard(const struct engine_store *s)
{
	return engine_queue_oldest(&((const struct paths *)s->state)->waiting);
}

static void drop_postcard(struct engine_store *s, int cause)
{
	struct paths *p = s->state;

	while (p->waiting.head != ENGINE_NONE) {
		uint32_t i = p->waiting.head;
		uint32_t reports = (uint32_t)__builtin_popcountll(path_at(p, i)->present);

		s->stats.dropped[cause] += reports;
		s->stats.waiting -= reports;
		forget(p, i);
	}
}

const struct engine_kind engine_postcard = {
	.open = open_postcard,
	.close = close_postcard,
	.block = block_postcard,
	.tick = tick_postcard,
	.flush = flush_postcard,
	.oldest = oldest_postcard,
	.drop = drop_postcard,
};
