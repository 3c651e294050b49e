// SPDX-License-Identifier: Apache-2.0
#include "analyse/level.h"

#include <math.h>
#include <string.h>

#define SPREAD_MIN 0.3f /* minimum deviation of a log quantile: the width of a bucket */
/* width of a bin of the log; the bins together cover a millisecond to hours */
#define BIN	 0.25f
#define BINS_MAX 8192u

static float median_of(const float *sorted, uint32_t n)
{
	return n % 2 ? sorted[n / 2] : 0.5f * (sorted[n / 2 - 1] + sorted[n / 2]);
}

/* Replaces the oldest of the usual steps with x. The values between the two places move by one. */
static void push_usual(struct analyse_level *l, float x)
{
	uint32_t n = l->n < ANALYSE_BASE ? l->n : ANALYSE_BASE - 1, from = l->n, to = 0;
	float *sorted = l->sorted;

	if (l->n == ANALYSE_BASE) {
		float old = l->ring[l->at];

		for (uint32_t i = from = 0; i < ANALYSE_BASE; i++)
			from += sorted[i] < old;
	}
	for (uint32_t i = 0; i < l->n; i++)
		to += sorted[i] < x;
	to -= to > from; /* removing a value before x moves x down by one */
	if (to < from)
		memmove(sorted + to + 1, sorted + to, (from - to) * sizeof(float));
	else
		memmove(sorted + from, sorted + from + 1, (to - from) * sizeof(float));
	sorted[to] = x;
	l->ring[l->at] = x;
	l->at = (uint8_t)((l->at + 1) % ANALYSE_BASE);
	l->n = (uint8_t)(n + 1);
}

void analyse_level_push(struct analyse_level *l, float x, uint32_t recents, uint32_t fresh,
			bool next)
{
	if (next && recents == ANALYSE_NOW)
		push_usual(l, l->recent[ANALYSE_NOW - 1]);
	if (next)
		memmove(l->recent + 1, l->recent, (ANALYSE_NOW - 1) * sizeof(float));
	l->recent[0] = x;
	l->now = 0;
	for (uint32_t i = 0; i < fresh; i++)
		l->now += l->recent[i] / (float)fresh;
	l->usual = l->n ? median_of(l->sorted, l->n) : l->now;
}

/*
 * Returns the value below which `count` deviations lie, assuming they are evenly distributed within
 * a bin.
 */
static float value_at_rank(const struct analyse_level *l, float count)
{
	uint32_t i = 0;

	while (i < ANALYSE_BINS - 1 && count > (float)l->bins[i])
		count -= (float)l->bins[i++];
	return (float)i + (l->bins[i] ? count / (float)l->bins[i] : 0);
}

/* Computes (q90 - q10) / 2.56, the deviation of a normal distribution with these quantiles. */
static void find_spread(struct analyse_level *l)
{
	uint32_t all = 0;

	for (uint32_t i = 0; i < ANALYSE_BINS; i++)
		all += l->bins[i];
	l->spread =
		fmaxf((value_at_rank(l, 0.9f * (float)all) - value_at_rank(l, 0.1f * (float)all)) *
			      BIN / 2.56f,
		      SPREAD_MIN);
}

void analyse_level_learn(struct analyse_level *l)
{
	int bin = (int)floorf((l->now - l->usual) / BIN) + (int)ANALYSE_BINS / 2;
	uint32_t all = 0;

	if (l->n < ANALYSE_BASE)
		return;
	l->bins[bin < 0 ? 0 : bin >= (int)ANALYSE_BINS ? (int)ANALYSE_BINS - 1 : bin]++;
	for (uint32_t i = 0; i < ANALYSE_BINS; i++)
		all += l->bins[i];
	for (uint32_t i = 0; i < ANALYSE_BINS && all >= BINS_MAX; i++)
		l->bins[i] /= 2;
	find_spread(l);
}

void analyse_level_init(struct analyse_level *l)
{
	memset(l, 0, sizeof(*l));
	l->spread = SPREAD_MIN;
}

void analyse_level_forget(struct analyse_level *l)
{
	l->n = l->at = 0;
}
