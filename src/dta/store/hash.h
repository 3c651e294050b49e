/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.h - computes the place of a key in a store and the check words of units. These functions
 * define the format (docs/dta-store.md) and are shared by the engine and queries; no constant may
 * change.
 *
 * The original DTA uses CRC32(key, n), which is affine: two keys that collide in one copy collide
 * in all copies, which makes further copies useless.
 */
#ifndef SL_DTA_STORE_HASH_H
#define SL_DTA_STORE_HASH_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <sidelight/store.h>

struct dta_hash {
	uint64_t lo, hi;
};

/* Returns XXH3_128 of the key, with the store's seed. */
static inline struct dta_hash dta_hash(const void *key, size_t bytes, uint64_t seed)
{
	XXH128_hash_t h = XXH3_128bits_withSeed(key, bytes, seed);

	return (struct dta_hash){h.low64, h.high64};
}

/* The finalizer of SplitMix64: a bijection. */
static inline uint64_t dta_mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/*
 * Returns the slot of copy n. Before mixing, copies differ by an odd multiple of a second 64-bit
 * hash. Keys that collide in one copy are therefore no more likely to collide in another.
 */
static inline uint64_t dta_slot(struct dta_hash h, uint32_t n, uint64_t slots)
{
	uint64_t x = dta_mix(h.lo + n * (h.hi | 1));

	return (uint64_t)((unsigned __int128)x * slots >> 64);
}

/*
 * Returns the check word of a key's data, which is never 0. For key-write it covers the value
 * without padding.
 */
static inline uint64_t dta_check(struct dta_hash h, const void *data, size_t bytes)
{
	uint64_t c = XXH3_64bits_withSeed(data, bytes, dta_mix(h.hi + SL_LINE_K4) ^ h.lo);

	return c ? c : 1;
}

/* Returns the difference between the upper half of a hop's word and the length of the path. */
static inline uint32_t dta_hop_code(struct dta_hash h, uint32_t hop, uint32_t value)
{
	const uint64_t key = h.hi ^ (h.lo << 32 | h.lo >> 32);

	/*
	 * Each hop and value of a key gives a different argument, and dta_mix() is a bijection, so
	 * the 64-bit results differ. Only their upper halves may collide.
	 */
	return (uint32_t)(dta_mix(key + ((uint64_t)value << 8 | hop) * 0x9e3779b97f4a7c15ull) >>
			  32);
}

/* Returns the word of a hop in a path of `hops` hops. */
static inline uint64_t dta_hop_word(struct dta_hash h, uint32_t hop, uint32_t hops, uint32_t value)
{
	return (uint64_t)(dta_hop_code(h, hop, value) + hops) << 32 | value;
}

/*
 * Returns the tail of an append block. data: the block without its tail; count: number of items in
 * use.
 */
static inline uint64_t dta_tail(const struct sl_store_config *c, uint32_t list, uint32_t lane,
				uint64_t block, const void *data, size_t bytes, uint32_t count)
{
	uint64_t lap = (block / c->slots) % 0xffffff + 1;
	uint64_t of = dta_mix(c->seed ^ ((uint64_t)list << 32 | lane)) + block * 256 + count;

	return lap << 40 | (uint64_t)count << 32 | XXH3_64bits_withSeed(data, bytes, of) >> 32;
}

/* Returns a check word of a sketch. what: 0 selects the completeness, 1 the rows. */
static inline uint64_t dta_sketch_check(const struct sl_store_config *c, uint32_t lane,
					uint32_t what, const void *data, size_t bytes)
{
	uint64_t h = XXH3_64bits_withSeed(data, bytes,
					  dta_mix(c->seed ^ ((uint64_t)lane << 1 | what)));

	return h ? h : 1;
}

#endif
