/* SPDX-License-Identifier: Apache-2.0 */
/* streams.h - random numbers for the tests of sketches: fixed seeds, several distributions. */
#ifndef SL_TESTS_SKETCH_STREAMS_H
#define SL_TESTS_SKETCH_STREAMS_H

#include <math.h>
#include <stdint.h>

/* splitmix64: S. Vigna's, as in Steele, Lea and Flood, OOPSLA 2014. */
static inline uint64_t rnd(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* In (0, 1). */
static inline double rnd_unit(uint64_t *state)
{
	return ((double)(rnd(state) >> 12) + 0.5) * 0x1p-52;
}

static inline double rnd_normal(uint64_t *state)
{
	double r = sqrt(-2 * log(rnd_unit(state)));

	return r * cos(2 * M_PI * rnd_unit(state));
}

#endif
