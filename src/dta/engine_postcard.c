// SPDX-License-Identifier: Apache-2.0
/*
 * engine_postcard.c - Postcarding: the hops of a path come one by one; they wait in a cache until the path is
 * whole, too old, or in the way of another, and then go out in one WRITE a copy, to the slots of their own key.
 */
#include "dta/engine_impl.h"
#include "dta/hash_many.h"

#include <errno.h>
#include <stdlib.h>

#define WAYS 4u

/* Paths are looked for here, four at a time: a line of their own is touched only by their reports. */
struct set {
	uint32_t tag[WAYS]; /* of the hash, never 0; 0: none */
	uint32_t at[WAYS];  /* place of the path */
};

struct path {
	struct engine_link link; /* first; queued while used, else next is the next free place */
	struct sl_dta_hash key;
	uint64_t present;
	uint8_t hops;
	uint8_t copies;
	uint8_t done; /* copies that were given already, when the output became full */
	uint8_t immediate;
	uint32_t value[];
};

struct paths {
	struct set *set;
	uint8_t *paths;
	uint64_t stride;
	uint64_t sets; /* a power of two */
	uint32_t free; /* the place that was used last is the one that is in the cache */
	struct engine_queue waiting;
};

static struct path *path_at(const struct paths *p, uint32_t i)
{
	return (struct path *)(void *)(p->paths + i * p->stride);
}

static struct set *set_of(const struct paths *p, uint64_t hi)
{
	return &p->set[hi & (p->sets - 1)];
}

/* Which one has this tag (two never have); any, if none has. Without branches, which nobody could predict. */
static uint32_t way_of(const struct set *set, uint32_t tag)
{
	uint32_t way = 0;

	for (uint32_t w = 1; w < WAYS; w++)
		way |= set->tag[w] == tag ? w : 0;
	return way;
}

static uint32_t tag_of(uint64_t lo)
{
	return (uint32_t)(lo >> 32) | 1;
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
	p->set = aligned_alloc(64, (p->sets * sizeof(*p->set) + 63) & ~63ull);
	p->paths = aligned_alloc(64, p->sets * WAYS * p->stride);
	if (!p->set || !p->paths)
		return -ENOMEM;
	memset(p->set, 0, p->sets * sizeof(*p->set));
	memset(p->paths, 0, p->sets * WAYS * p->stride);
	for (uint32_t i = 0; i < p->sets * WAYS; i++)
		path_at(p, i)->link.next = i + 1;
	p->waiting = (struct engine_queue){ENGINE_NONE, ENGINE_NONE, p->paths, p->stride};
	return 0;
}

static void close_postcard(struct engine_store *s)
{
	struct paths *p = s->state;

	if (!p)
		return;
	free(p->set);
	free(p->paths);
	free(p);
}

static uint64_t whole(uint32_t hops)
{
	return ~0ull >> (64 - hops);
}

static void forget(struct paths *p, uint32_t i)
{
	struct path *x = path_at(p, i);
	struct set *set = set_of(p, x->key.hi);
	uint32_t way = 0;

	while (!set->tag[way] || set->at[way] != i)
		way++;
	set->tag[way] = 0;
	engine_queue_take(&p->waiting, i);
	x->hops = 0;
	x->link.next = p->free;
	p->free = i;
}

/* Writes path i. 0: it is forgotten; or the cause, and it waits on unless it has FAILED. */
static int emit(struct sl_engine *e, struct engine_store *s, struct paths *p, uint32_t i)
{
	uint64_t unit[(8 + 8 + 4 + 4 * SL_STORE_HOPS_MAX + 7) / 8];
	struct path *x = path_at(p, i);
	const struct sl_dta_hash h = x->key;
	const uint32_t reports = (uint32_t)__builtin_popcountll(x->present);
	const uint64_t words = s->unit / 8;
	uint8_t *body = (uint8_t *)(unit + 2);
	int cause = 0;

	/* What has not come is 0; whatever the place held before is still there. */
	if (x->present != whole(s->c.hops))
		for (uint32_t hop = 0; hop < s->c.hops; hop++)
			x->value[hop] = x->present >> hop & 1 ? x->value[hop] : 0;
	unit[words - 1] = 0;
	unit[1] = x->present;
	body[0] = x->hops;
	memset(body + 1, 0, 3);
	memcpy(body + 4, x->value, s->c.hops * 4ull);
	unit[0] = sl_dta_check(h, unit + 1, s->unit - 8);
	if (s->direct && !x->immediate) {
		for (uint32_t n = 0; n < x->copies; n++) {
			uint64_t *to = (void *)(s->object.map + s->bank +
						sl_dta_slot(h, n, s->c.slots) * s->unit);

			for (uint64_t w = 0; w < words; w++)
				to[w] = unit[w];
		}
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
	const uint32_t tag = tag_of(h.lo);
	struct set *set = set_of(p, h.hi);
	uint32_t way = way_of(set, tag);
	struct path *x;

	if (set->tag[way] == tag) {
		x = path_at(p, set->at[way]);
		if (__builtin_expect(x->key.hi == h.hi && x->key.lo == h.lo && x->hops == hops &&
					     x->copies == copies && !x->done,
				     1)) {
			*i = set->at[way];
			return 0;
		}
		/* The path of this key is another one now; or, once in 2^31 paths, it is another key's. */
	} else {
		for (way = 0; way < WAYS - 1 && set->tag[way]; way++)
			;
	}
	if (set->tag[way]) {
		const bool evicts = set->tag[way] != tag;
		int cause;

		for (uint32_t w = 0; evicts && w < WAYS; w++)
			if (path_at(p, set->at[w])->link.since <
			    path_at(p, set->at[way])->link.since)
				way = w;
		cause = emit(e, s, p, set->at[way]);
		if (cause)
			return cause;
		s->stats.evicted += evicts;
	}
	*i = p->free;
	x = path_at(p, *i);
	p->free = x->link.next;
	set->tag[way] = tag;
	set->at[way] = *i;
	x->key = h;
	x->present = 0;
	x->hops = (uint8_t)hops;
	x->copies = (uint8_t)copies;
	x->done = 0;
	x->immediate = 0;
	engine_queue_put(&p->waiting, *i, e->now);
	return 0;
}

static uint32_t chunk_postcard(struct sl_engine *e, struct engine_store *s,
			       const struct sl_dta_block *b, const uint8_t *item, uint32_t count)
{
	const uint32_t key_bytes = b->key_bytes, step = key_bytes + 8;
	const uint32_t most = s->c.hops, copies = b->copies;
	const uint8_t immediate = b->flags & SL_DTA_IMMEDIATE;
	struct paths *p = s->state;
	uint32_t full[SL_DTA_MANY], done = 0, taken = 0;
	SL_DTA_LINES uint64_t slot[SL_DTA_MANY];
	struct sl_dta_hashes h;

	sl_dta_hash_many(item, b->key_bytes, step, s->c.seed, count, &h);
	for (uint32_t i = 0; i < count; i++)
		engine_prefetch_line(set_of(p, h.hi[i]));
	for (uint32_t i = 0; i < count; i++) {
		const struct set *set = set_of(p, h.hi[i]);

		engine_prefetch_line(path_at(p, set->at[way_of(set, tag_of(h.lo[i]))]));
	}
	for (uint32_t i = 0; i < count; i++, item += step) {
		const uint32_t hop = item[key_bytes], hops = item[key_bytes + 1];
		struct path *x;
		uint32_t at;
		int cause;

		if (!hops || hops > most || hop >= hops) {
			s->stats.dropped[SL_DROP_LIST]++;
			continue;
		}
		cause = place(e, s, p, sl_dta_hash_of(&h, i), hops, copies, &at);
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
		x->value[hop] = engine_be32(item + key_bytes + 4);
		x->immediate |= immediate;
		taken++;
		if (x->present != whole(hops))
			continue;
		full[done] = at;
		h.lo[done] = h.lo[i]; /* of reports that are done with */
		h.hi[done++] = h.hi[i];
	}
	s->stats.waiting += taken;
	for (uint32_t n = 0; s->direct && done && n < copies; n++) {
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
