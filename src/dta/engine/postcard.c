// SPDX-License-Identifier: Apache-2.0
/*
 * postcard.c - Postcarding: writes one word per hop into the slots of the path's key. Over RDMA,
 * hops wait in a cache until the path is complete, too old or evicted; each run of consecutive hops
 * then takes one WRITE per copy. On a mapping each hop is written immediately, because the CPU
 * caches have the same effect.
 */
#include "dta/engine/impl.h"
#include "dta/store/hash_many.h"

#include <errno.h>
#include <stdlib.h>

#define WAYS 4u

/*
 * Tags of four paths in one cache line, so that a lookup touches a single line. A path's own line
 * is touched only by its own reports.
 */
struct set {
	uint32_t tag[WAYS]; /* tag from the hash, never 0; 0 means free */
	uint32_t at[WAYS];  /* indices of the paths */
};

struct path {
	struct dta_engine_link link; /* must be first; queued while in use */
	uint64_t lo, hi;	     /* hash of the key */
	uint64_t present;
	/*
	 * Bit fields: HOPS (0 means free), COPIES, DONE (copies written before the output became
	 * full), WAY in the set, IMMEDIATE.
	 */
	uint32_t word;
	uint32_t value[];
};

#define HOPS	  0x000000ffu
#define COPIES	  8 /* bit offsets of the fields */
#define DONE	  16
#define WAY	  24
#define IMMEDIATE 0x80000000u
#define FIT	  0x00ffffffu /* fields compared with a report's hops and copies; DONE must be 0 */

struct paths {
	struct set *set;
	uint8_t *paths;
	uint64_t stride;
	uint64_t sets; /* a power of two */
	/* a stack, so that the most recently used place, which is still cached, is reused first */
	uint32_t *free;
	uint32_t n_free;
	struct dta_engine_queue waiting;
};

static struct path *path_at(const struct paths *p, uint32_t i)
{
	return (struct path *)(void *)(p->paths + i * p->stride);
}

static struct set *set_of(const struct paths *p, uint64_t hi)
{
	return &p->set[hi & (p->sets - 1)];
}

static uint32_t tag_of(uint64_t lo)
{
	return (uint32_t)(lo >> 32) | 1;
}

static uint32_t copies_of(const struct path *x)
{
	return x->word >> COPIES & 0xff;
}

static uint32_t done_of(const struct path *x)
{
	return x->word >> DONE & 0xff;
}

/* Returns the index of the only path with this tag, or any index if there is none. Branch-free. */
static uint32_t candidate_at(const struct set *set, uint32_t tag)
{
	typedef uint32_t four __attribute__((vector_size(16)));
	four tags, at;

	memcpy(&tags, set->tag, 16);
	memcpy(&at, set->at, 16);
	at &= (four)(tags == tag);
	return at[0] | at[1] | at[2] | at[3];
}

static int open_postcard(struct dta_engine *e, struct dta_engine_store *s, const uint64_t *next)
{
	struct paths *p;

	(void)next;
	s->unit = sl_store_path_bytes(&s->c);
	if (s->direct)
		return 0;
	p = calloc(1, sizeof(*p));
	s->state = p;
	s->age_ns = e->opts.path_ns;
	if (!p)
		return -ENOMEM;
	p->stride = (sizeof(struct path) + s->c.hops * sizeof(uint32_t) + 63) & ~63ull;
	p->sets = 1;
	while (p->sets * WAYS < e->opts.path_entries && p->sets < 1u << 22)
		p->sets *= 2;
	/* Sets and paths are aligned to cache lines. */
	p->set = aligned_alloc(64, (p->sets * sizeof(*p->set) + 63) & ~63ull);
	p->paths = aligned_alloc(64, p->sets * WAYS * p->stride);
	p->free = malloc(p->sets * WAYS * sizeof(*p->free));
	if (!p->set || !p->paths || !p->free)
		return -ENOMEM;
	memset(p->set, 0, p->sets * sizeof(*p->set));
	memset(p->paths, 0, p->sets * WAYS * p->stride);
	for (p->n_free = 0; p->n_free < p->sets * WAYS; p->n_free++)
		p->free[p->n_free] = p->n_free;
	p->waiting = (struct dta_engine_queue){ENGINE_NONE, ENGINE_NONE, p->paths, p->stride};
	return 0;
}

static void close_postcard(struct dta_engine_store *s)
{
	struct paths *p = s->state;

	if (!p)
		return;
	free(p->set);
	free(p->paths);
	free(p->free);
	free(p);
}

static uint64_t all_hops(uint32_t hops)
{
	return ~0ull >> (64 - hops);
}

static bool is_complete(const struct path *x)
{
	return x->word && x->present == all_hops(x->word & HOPS);
}

static void free_path(struct paths *p, struct path *x)
{
	struct set *set = set_of(p, x->hi);
	const uint32_t way = x->word >> WAY & (WAYS - 1), i = set->at[way];

	set->tag[way] = 0;
	dta_engine_queue_take(&p->waiting, i);
	x->word = 0;
	p->free[p->n_free++] = i;
}

static void count_written(struct dta_engine_store *s, const struct path *x, uint32_t reports)
{
	s->stats.paths++;
	s->stats.paths_partial += x->present != all_hops(x->word & HOPS);
	s->stats.stored += reports;
	s->stats.waiting -= reports;
}

/*
 * Writes the known hops to one copy, with one WRITE per run of consecutive hops. Returns 0 or the
 * cause of failure.
 */
static int emit_copy(struct dta_engine *e, struct dta_engine_store *s, const struct path *x,
		     uint32_t copy, bool immediate)
{
	const struct dta_hash h = {x->lo, x->hi};
	const uint64_t at = s->bank + dta_slot(h, copy, s->c.slots) * s->unit;
	const uint32_t hops = x->word & HOPS;
	uint64_t word[SL_STORE_HOPS_MAX], left = x->present;

	while (left) {
		const uint32_t first = (uint32_t)__builtin_ctzll(left);
		uint32_t end = first;
		int cause;

		for (; end < hops && left >> end & 1; end++)
			word[end - first] = dta_hop_word(h, end, hops, x->value[end]);
		left = end < 64 ? left >> end << end : 0;
		cause = dta_engine_write(e, s, at + first * 8ull, word, (end - first) * 8ull,
					 immediate && !left);
		if (cause)
			return cause;
	}
	return 0;
}

/*
 * Writes a path. Returns 0 and frees the path, or returns the cause of failure and the path keeps
 * waiting.
 */
static int emit_path(struct dta_engine *e, struct dta_engine_store *s, struct paths *p,
		     struct path *x)
{
	const uint32_t reports = (uint32_t)__builtin_popcountll(x->present);
	const uint32_t copies = copies_of(x);
	int cause = 0;

	while (done_of(x) < copies) {
		cause = emit_copy(e, s, x, done_of(x),
				  x->word & IMMEDIATE && done_of(x) + 1 == copies);
		if (cause)
			break;
		x->word += 1u << DONE;
		s->stats.units++;
	}
	if (cause && cause != DTA_DROP_OUTPUT_FAILED)
		return cause;
	if (cause) {
		s->stats.dropped[cause] += reports;
		s->stats.waiting -= reports;
	} else {
		count_written(s, x, reports);
	}
	free_path(p, x);
	return 0;
}

/*
 * Finds or adds the path of a report when the prefetched candidate does not match. Returns NULL if
 * the report was dropped and counted.
 */
static __attribute__((noinline)) struct path *place_path(struct dta_engine *e,
							 struct dta_engine_store *s,
							 struct paths *p, uint64_t lo, uint64_t hi,
							 uint32_t hop, uint32_t fit)
{
	const uint32_t tag = tag_of(lo), hops = fit & HOPS;
	struct set *set = set_of(p, hi);
	uint32_t way = 0, i;
	struct path *x;

	if (!hops || hops > s->c.hops || hop >= hops) {
		s->stats.dropped[DTA_DROP_LIST]++;
		return NULL;
	}
	while (way < WAYS && set->tag[way] != tag)
		way++;
	if (way < WAYS) {
		x = path_at(p, set->at[way]);
		if (x->hi == hi && x->lo == lo && (x->word & FIT) == fit)
			return x;
		/*
		 * The key's hops or copies changed, or two tags collided, which happens once in
		 * 2^31 paths.
		 */
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
		cause = emit_path(e, s, p, path_at(p, set->at[way]));
		if (cause) {
			s->stats.dropped[cause]++;
			return NULL;
		}
		s->stats.evicted += evicts;
	}
	i = p->free[--p->n_free];
	x = path_at(p, i);
	set->tag[way] = tag;
	set->at[way] = i;
	x->lo = lo;
	x->hi = hi;
	x->present = 0;
	x->word = fit | way << WAY;
	dta_engine_queue_put(&p->waiting, i, e->now);
	return x;
}

static uint32_t chunk_postcard(struct dta_engine *e, struct dta_engine_store *s,
			       const struct dta_block *b, const uint8_t *item, uint32_t count)
{
	const uint32_t key_bytes = b->key_bytes, step = key_bytes + 8, copies = b->copies;
	const uint32_t immediate = b->flags & DTA_IMMEDIATE ? IMMEDIATE : 0;
	struct paths *p = s->state;
	struct path *path[DTA_MANY]; /* candidates at first, completed paths later */
	uint32_t done = 0, taken = 0;
	struct dta_hashes h;

	dta_hash_many(item, b->key_bytes, step, s->c.seed, count, &h);
	for (uint32_t i = 0; i < count; i++)
		dta_engine_prefetch_line(set_of(p, h.hi[i]));
	for (uint32_t i = 0; i < count; i++) {
		path[i] = path_at(p, candidate_at(set_of(p, h.hi[i]), tag_of(h.lo[i])));
		dta_engine_prefetch_line(path[i]);
	}
	for (uint32_t i = 0; i < count; i++, item += step) {
		const uint32_t hop = item[key_bytes], hops = item[key_bytes + 1];
		const uint32_t fit = hops | copies << COPIES;
		struct path *x = path[i];
		/* A single branch, which is rarely taken. */
		const uint64_t misfit = (x->lo ^ h.lo[i]) | (x->hi ^ h.hi[i]) |
					((x->word & FIT) ^ fit) | (hop >= hops);

		if (__builtin_expect(misfit != 0, 0)) {
			x = place_path(e, s, p, h.lo[i], h.hi[i], hop, fit);
			if (!x)
				continue;
		}
		if (x->present >> hop & 1) { /* the newest value wins, as on a mapping */
			x->value[hop] = dta_get32(item + key_bytes + 4);
			s->stats.dropped[DTA_DROP_DUPLICATE_HOP]++;
			continue;
		}
		x->present |= 1ull << hop;
		x->value[hop] = dta_get32(item + key_bytes + 4);
		if (immediate)
			x->word |= immediate;
		taken++;
		if (x->present != all_hops(hops))
			continue;
		path[done++] = x; /* reuses the entry of a report that is already handled */
	}
	s->stats.waiting += taken;
	/* A path may have been evicted in the meantime and its place reused. */
	for (uint32_t i = 0; i < done; i++)
		if (is_complete(path[i]))
			emit_path(e, s, p, path[i]);
	return taken;
}

/* Writes each hop directly to its slots. */
static uint32_t chunk_direct(struct dta_engine_store *s, const struct dta_block *b,
			     const uint8_t *item, uint32_t count)
{
	const uint32_t key_bytes = b->key_bytes, step = key_bytes + 8, most = s->c.hops;
	DTA_LINES uint64_t slot[SL_STORE_COPIES_MAX][DTA_MANY];
	uint8_t *bank = s->object.map + s->bank;
	uint32_t taken = 0;
	struct dta_hashes h;

	dta_hash_many(item, key_bytes, step, s->c.seed, count, &h);
	for (uint32_t n = 0; n < b->copies; n++) {
		dta_slot_many(&h, n, s->c.slots, count, slot[n]);
		for (uint32_t i = 0; i < count; i++)
			dta_engine_prefetch_far(
				bank + slot[n][i] * s->unit + item[i * step + key_bytes] * 8ull, 8);
	}
	for (uint32_t i = 0; i < count; i++, item += step) {
		const uint32_t hop = item[key_bytes], hops = item[key_bytes + 1];
		uint64_t word;

		if (!hops || hops > most || hop >= hops) {
			s->stats.dropped[DTA_DROP_LIST]++;
			continue;
		}
		word = dta_hop_word(dta_hash_of(&h, i), hop, hops, dta_get32(item + key_bytes + 4));
		for (uint32_t n = 0; n < b->copies; n++)
			*(uint64_t *)(void *)(bank + slot[n][i] * s->unit + hop * 8ull) = word;
		taken++;
	}
	return taken;
}

static uint32_t block_direct(struct dta_engine *e, struct dta_engine_store *s,
			     const struct dta_block *b)
{
	const uint64_t step = b->key_bytes + 8ull;
	uint32_t taken = 0, n;
	uint64_t writes;

	for (uint32_t i = 0; i < b->count; i += n) {
		n = b->count - i < DTA_MANY ? b->count - i : DTA_MANY;
		taken += chunk_direct(s, b, b->items + i * step, n);
	}
	writes = (uint64_t)taken * b->copies;
	s->stats.stored += taken;
	s->stats.operations += writes;
	s->stats.units += writes;
	dta_output_shm_account(e->output, writes, 0, writes * 8);
	if (taken && b->flags & DTA_IMMEDIATE)
		dta_engine_wake(e, s);
	return taken;
}

static uint32_t block_postcard(struct dta_engine *e, struct dta_engine_store *s,
			       const struct dta_block *b)
{
	const uint8_t *item = b->items;
	uint32_t taken = 0;

	if (b->value_bytes != 8 || !b->copies || b->copies > s->c.copies)
		return dta_engine_refuse(s, DTA_DROP_SHAPE, b->count);
	if (s->direct)
		return block_direct(e, s, b);
	for (uint32_t i = 0; i < b->count; i += DTA_MANY) {
		uint32_t n = b->count - i < DTA_MANY ? b->count - i : DTA_MANY;

		taken += chunk_postcard(e, s, b, item, n);
		item += n * (b->key_bytes + 8ull);
	}
	return taken;
}

static int flush_postcard(struct dta_engine *e, struct dta_engine_store *s, uint64_t age)
{
	struct paths *p = s->state;

	/* Complete paths that did not fit into the output are among the oldest paths. */
	while (p && dta_engine_queue_due(&p->waiting, e->now, age)) {
		int cause = emit_path(e, s, p, path_at(p, p->waiting.head));

		if (cause)
			return cause;
	}
	return 0;
}

static uint64_t oldest_postcard(const struct dta_engine_store *s)
{
	const struct paths *p = s->state;

	return p ? dta_engine_queue_oldest(&p->waiting) : UINT64_MAX;
}

static void drop_postcard(struct dta_engine_store *s, int cause)
{
	struct paths *p = s->state;

	while (p && p->waiting.head != ENGINE_NONE) {
		struct path *x = path_at(p, p->waiting.head);
		uint32_t reports = (uint32_t)__builtin_popcountll(x->present);

		s->stats.dropped[cause] += reports;
		s->stats.waiting -= reports;
		free_path(p, x);
	}
}

const struct dta_engine_kind dta_engine_postcard = {
	.open = open_postcard,
	.close = close_postcard,
	.block = block_postcard,
	.flush = flush_postcard,
	.oldest = oldest_postcard,
	.drop = drop_postcard,
};
