/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random.h - random numbers whose state is saved with a model, so that equal seeds give equal
 * results: splitmix64, the sequence of hash.h.
 */
#ifndef SL_ANALYSE_RANDOM_H
#define SL_ANALYSE_RANDOM_H

#include "sketch/hash.h"

static inline uint64_t analyse_random_next(uint64_t *state)
{
	uint64_t v = sketch_hash_nth(*state, 0);

	*state += SKETCH_HASH_STEP;
	return v;
}

/* [0, 1) */
static inline double analyse_random_uniform(uint64_t *state)
{
	return (double)(analyse_random_next(state) >> 11) * 0x1p-53;
}

#endif
