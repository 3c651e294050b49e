/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.h - the hashes of the sketches: XXH3 (Y. Collet), always with a seed. A u64 key is hashed as
 * its eight bytes, little-endian, for which XXH3 is one keyed round of P. Evensen's rrmxmx mixer;
 * so a key given as a number and the same given as bytes are the same key on every machine.
 */
#ifndef SL_SKETCH_HASH_H
#define SL_SKETCH_HASH_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <endian.h>
#include <stddef.h>
#include <stdint.h>

static inline uint64_t sketch_hash_bytes(const void *p, size_t n, uint64_t seed)
{
	return XXH3_64bits_withSeed(p, n, seed);
}

static inline uint64_t sketch_hash_u64(uint64_t key, uint64_t seed)
{
	const uint64_t bytes = htole64(key);

	return XXH3_64bits_withSeed(&bytes, sizeof(bytes), seed);
}

#define SKETCH_HASH_STEP 0x9e3779b97f4a7c15u /* 2^64 over the golden ratio */

/* The n-th number of the sequence of a seed: splitmix64 (G. L. Steele et al., OOPSLA 2014). */
static inline uint64_t sketch_hash_nth(uint64_t seed, uint64_t n)
{
	uint64_t z = seed + (n + 1) * SKETCH_HASH_STEP;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/*
 * Rows of a table from one hash: row i takes the top bits of hash * m[i], with m[i] odd and drawn
 * from the seed (multiply-shift: M. Dietzfelbinger et al., J. Algorithms 25 (1997)). A product with
 * an odd number is a bijection, so within a row two keys meet as seldom as their hashes allow; the
 * factors make the rows meet at different pairs.
 */
static inline void sketch_hash_rows(uint64_t *m, uint32_t rows, uint64_t seed)
{
	for (uint32_t i = 0; i < rows; i++)
		m[i] = sketch_hash_nth(seed, i) | 1;
}

#endif
