/* SPDX-License-Identifier: Apache-2.0 */
/* net_truth.h - simulated clocks and delays, the same on every machine. */
#ifndef TESTS_TCP_NET_TRUTH_H
#define TESTS_TCP_NET_TRUTH_H

#include <math.h>
#include <stdint.h>

#define MS 1000000ll
#define S  1000000000ll

static uint64_t seed = 1;

/* xorshift64*. */
static inline uint64_t random_u64(void)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return seed * 0x2545f4914f6cdd1dull;
}

static inline double uniform(void)
{
	return (double)(random_u64() >> 11) / (double)(1ull << 53);
}

/* Queueing: some packets do not wait, the others do, a few for long. */
static inline int64_t delay(int64_t least, int64_t mean)
{
	return least + (int64_t)(-log(1 - uniform()) * (double)mean * (random_u64() % 8 ? 1 : 10));
}

/* By how much B's clock is ahead of A's since the start, in pieces with a constant rate each. */
#define PIECES 256
struct truth {
	int64_t start, offset;
	int pieces; /* the last one lasts forever */
	struct {
		int64_t for_ns, step; /* step: at its beginning */
		double skew;
	} piece[PIECES];
};

/* x: A's clock. */
static inline int64_t theta(const struct truth *t, int64_t x)
{
	double sum = 0, at = (double)(x - t->start);

	for (int i = 0; i < t->pieces; i++) {
		double part = (double)t->piece[i].for_ns;

		sum += (double)t->piece[i].step;
		if (at < part || i == t->pieces - 1)
			return t->offset + (int64_t)llround(sum + at * t->piece[i].skew);
		sum += part * t->piece[i].skew;
		at -= part;
	}
	return t->offset;
}

#endif
