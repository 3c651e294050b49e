/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h - seeded XXH3 (Y. Collet), the hash function of all sketches. */
#ifndef SL_SKETCH_HASH_H
#define SL_SKETCH_HASH_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stddef.h>
#include <stdint.h>

static inline uint64_t sketch_hash_bytes(const void *p, size_t n, uint64_t seed)
{
	return XXH3_64bits_withSeed(p, n, seed);
}

#define SKETCH_HASH_STEP 0x9e3779b97f4a7c15u /* 2^64 divided by the golden ratio */

/* Returns the n-th number of a seed's splitmix64 sequence (G. L. Steele et al., OOPSLA 2014). */
static inline uint64_t sketch_hash_nth(uint64_t seed, uint64_t n)
{
	uint64_t z = seed + (n + 1) * SKETCH_HASH_STEP;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/*
 * Returns the next number of a splitmix64 sequence. The state is saved with a model, so that equal
 * seeds give equal results.
 */
static inline uint64_t sketch_random_next(uint64_t *state)
{
	uint64_t v = sketch_hash_nth(*state, 0);

	*state += SKETCH_HASH_STEP;
	return v;
}

/* Returns a number in [0, 1). */
static inline double sketch_random_uniform(uint64_t *state)
{
	return (double)(sketch_random_next(state) >> 11) * 0x1p-53;
}

/*
 * Computes factors that derive one index per row from a single hash: row i takes the top bits of
 * hash * m[i], where m[i] is odd and drawn from the seed (multiply-shift: M. Dietzfelbinger et al.,
 * J. Algorithms 25 (1997)). Multiplying by an odd number is a bijection, so keys collide within a
 * row as rarely as their hashes; different factors make different pairs collide in each row.
 */
static inline void sketch_hash_rows(uint64_t *m, uint32_t rows, uint64_t seed)
{
	for (uint32_t i = 0; i < rows; i++)
		m[i] = sketch_hash_nth(seed, i) | 1;
}

#endif
