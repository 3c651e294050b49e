/* SPDX-License-Identifier: Apache-2.0 */
/* noise.h - seeded numbers for the tests of analysis. */
#ifndef TESTS_ANALYSE_NOISE_H
#define TESTS_ANALYSE_NOISE_H

#include <math.h>
#include <stdint.h>

static inline uint64_t noise_u64(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15; /* splitmix64 */

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* (0, 1] */
static inline double noise_uniform(uint64_t *state)
{
	return (double)((noise_u64(state) >> 11) + 1) * 0x1p-53;
}

static inline double noise_normal(uint64_t *state)
{
	double u = noise_uniform(state);

	return sqrt(-2 * log(u)) * cos(2 * M_PI * noise_uniform(state));
}

#endif
