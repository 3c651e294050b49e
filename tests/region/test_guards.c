// SPDX-License-Identifier: Apache-2.0
/*
 * test_guards.c - why lines have this form: with gauges in plain lines, or unfolded doubles, torn
 * reads are accepted. Deterministic, unlike test_lines.c, because it needs no threads.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "make_region.h"
#include "region/decode.h"

static uint64_t torn_between(struct rng *r, uint64_t a, uint64_t b)
{
	/* Any bytes of either, or the upper ones of one and the lower ones of the other. */
	uint64_t mask = 0, random = rng_next(r), bytes = random >> 8 & 255;

	if (random & 1)
		bytes = 255u << (bytes & 7);
	for (int i = 0; i < 8; i++)
		mask |= (bytes >> i & 1) * (0xffull << 8 * i);
	return random & 2 ? (a & mask) | (b & ~mask) : (b & mask) | (a & ~mask);
}

/*
 * Makes torn reads of both cell and check word between two values; returns how many are accepted.
 */
static uint64_t tears_that_pass(bool mixed, bool fold, uint64_t (*value)(struct rng *),
				uint64_t count)
{
	struct rng r = {99};
	uint64_t passed = 0;

	for (uint64_t i = 0; i < count; i++) {
		uint32_t lane = (uint32_t)rng_below(&r, SL_LINE_CELLS);
		uint64_t v[3], check[3];

		for (int n = 0; n < 2; n++) {
			v[n] = value(&r);
			if (fold)
				v[n] ^= v[n] >> 32;
		}
		v[2] = torn_between(&r, v[0], v[1]);
		for (int n = 0; n < 3; n++)
			check[n] = mixed ? sl_cell_mix(v[n], lane) : v[n] * sl_line_k[lane];
		passed += v[2] != v[0] && v[2] != v[1] &&
			  torn_between(&r, check[0], check[1]) == check[2];
	}
	return passed;
}

static uint64_t any_word(struct rng *r)
{
	return rng_next(r);
}

static uint64_t whole_double(struct rng *r)
{
	double x = (double)rng_below(r, 1000);
	uint64_t bits;

	memcpy(&bits, &x, 8);
	return bits;
}

int main(void)
{
	const uint64_t n = 20000000;
	uint64_t plain = tears_that_pass(false, false, any_word, n);
	uint64_t mixed = tears_that_pass(true, false, any_word, n);
	uint64_t doubles = tears_that_pass(true, true, whole_double, n);
	uint64_t unfolded = tears_that_pass(false, false, whole_double, n);
	uint64_t folded = tears_that_pass(false, true, whole_double, n);

	printf("byte-wise tears of both cell and check that pass, of 20,000,000:\n"
	       "  words of any value: %llu in plain lines, %llu in mixed ones\n"
	       "  whole doubles in mixed lines: %llu\n"
	       "  whole doubles in plain lines: %llu, folded %llu\n",
	       (unsigned long long)plain, (unsigned long long)mixed, (unsigned long long)doubles,
	       (unsigned long long)unfolded, (unsigned long long)folded);
	if (!plain || mixed || doubles)
		return fprintf(stderr, "mixing is not what keeps gauges whole\n"), 1;
	if (!unfolded || folded * 4 > unfolded)
		return fprintf(stderr, "folding does not help doubles in plain lines\n"), 1;
	return 0;
}
