/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers that are the same in each run. */
#ifndef SUPPORT_RANDOM_H
#define SUPPORT_RANDOM_H

#include <stdint.h>

/* Knuth's MMIX generator; its upper half is the better one. */
static inline uint64_t random_lcg(uint64_t *state)
{
	return *state = *state * 6364136223846793005ull + 1442695040888963407ull;
}

static inline uint32_t random_below(uint64_t *state, uint32_t below)
{
	return (uint32_t)((random_lcg(state) >> 32) * below >> 32);
}

/* Marsaglia's xorshift64; the state is not 0. */
static inline uint64_t random_xorshift(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#endif
