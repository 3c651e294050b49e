/* SPDX-License-Identifier: Apache-2.0 */
/* noise.h - seeded random numbers for the tests of src/analyse. */
#ifndef TESTS_ANALYSE_NOISE_H
#define TESTS_ANALYSE_NOISE_H

#include <math.h>
#include <stdint.h>

#include "sketch/hash.h"

/* (0, 1] */
static inline double noise_uniform(uint64_t *state)
{
	return (double)((sketch_random_next(state) >> 11) + 1) * 0x1p-53;
}

static inline double noise_normal(uint64_t *state)
{
	double u = noise_uniform(state);

	return sqrt(-2 * log(u)) * cos(2 * M_PI * noise_uniform(state));
}

#endif
