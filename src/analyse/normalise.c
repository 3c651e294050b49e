// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analyse/detector.h"
#include "analyse/fetch.h"
#include "analyse/normalise.h"

#define WINSOR	   4.0f	    /* deviations beyond which a value is clipped */
#define FIRST	   16.0f    /* number of initial values not clipped, as no spread is known yet */
#define N_MAX	   20000.0f /* number of values that location and spread average over */
#define BINS_MAX   8192u    /* when counts reach this sum, all are halved */
#define REL_SPREAD 2e-3f  /* minimum spread relative to the location: less is rounding or jitter */
#define NORMAL_99  2.576f /* |x| of a standard normal exceeds this with probability 0.01 */
#define UNSEEN	   5.0f	  /* |z| of the first value that differs from all before it */
#define TINY	   1e-30f
#define TREND	   1000.0f /* number of steps that a trend averages over */
#define STEADY	   0.5f	   /* minimum trend to follow while held, in usual changes per step */
/* number of steps in which the usual change at an accepted level is learned */
#define ACCEPTED 64u

int analyse_normaliser_init(struct analyse_normaliser *n, uint32_t dims)
{
	size_t d = dims, floats = d * (14 + ANALYSE_FAST + 2 * ANALYSE_SLOW + ANALYSE_BINS / 2 + 2);
	float *at;

	memset(n, 0, sizeof(*n));
	if (!dims || dims % ANALYSE_ROW_LANES || dims > ANALYSE_ROW_MAX)
		return -EINVAL;
	n->block = aligned_alloc(64, (floats * sizeof(float) + 63) / 64 * 64);
	if (!n->block)
		return -ENOMEM;
	memset(n->block, 0, floats * sizeof(float));
	n->dims = dims;
	at = n->block;
	/* These arrays are used for each row; analyse_normaliser_fetch() prefetches them. */
	n->mean = at, at += d;
	n->inv_sd = at, at += d;
	n->inv_move = at, at += d;
	n->fast = at, at += d;
	n->slow = at, at += d;
	n->distance = at, at += d;
	n->peak = at, at += d;
	n->sum = at, at += d;
	n->sum_n = at, at += d;
	/* These arrays are used only once per step. */
	n->m2 = at, at += d;
	n->n = at, at += d;
	n->trend = at, at += d;
	n->before = at, at += d;
	n->still = (uint32_t *)at, at += d;
	n->bins = (uint16_t *)at, at += d * ANALYSE_BINS / 2;
	n->last = at, at += d * ANALYSE_FAST;
	n->ring = at, at += d * ANALYSE_SLOW;
	n->sorted = at, at += d * ANALYSE_SLOW;
	n->base = (int16_t *)at;
	n->ring_n = (uint8_t *)(n->base + d);
	n->ring_at = n->ring_n + d;
	n->wait = n->ring_at + d;
	for (uint32_t c = 0; c < dims; c++)
		analyse_normaliser_forget(n, c);
	return 0;
}

void analyse_normaliser_free(struct analyse_normaliser *n)
{
	free(n->block);
	memset(n, 0, sizeof(*n));
}

/* Discards the recent steps of a column. */
static void forget_level(struct analyse_normaliser *n, uint32_t c)
{
	n->sum[c] = n->sum_n[c] = 0;
	n->distance[c] = NAN;
	n->peak[c] = -1; /* no peak yet */
	n->fast[c] = n->slow[c] = n->before[c] = NAN;
	for (uint32_t i = 0; i < ANALYSE_FAST; i++)
		n->last[(size_t)i * n->dims + c] = NAN;
	n->ring_n[c] = n->ring_at[c] = 0;
}

void analyse_normaliser_forget(struct analyse_normaliser *n, uint32_t c)
{
	forget_level(n, c);
	n->mean[c] = n->m2[c] = n->n[c] = n->trend[c] = 0;
	n->still[c] = n->wait[c] = 0;
	n->base[c] = 0;
	memset(n->bins + (size_t)c * ANALYSE_BINS, 0, ANALYSE_BINS * sizeof(*n->bins));
	n->inv_sd[c] = n->inv_move[c] = 0;
}

void analyse_normaliser_jump(struct analyse_normaliser *n)
{
	for (uint32_t c = 0; c < n->dims; c++)
		forget_level(n, c);
}

void analyse_normaliser_follow(struct analyse_normaliser *n, uint32_t c, float x)
{
	n->fast[c] = x;
	for (uint32_t i = 0; i < ANALYSE_FAST; i++)
		n->last[(size_t)i * n->dims + c] = x;
}

/* Most metrics are never negative, so a falling level ends at 0. */
static float move_level(float level, float by)
{
	return level >= 0 ? fmaxf(level + by, 0) : level + by;
}

void analyse_normaliser_drift(struct analyse_normaliser *n, uint32_t c)
{
	if (fabsf(n->trend[c]) * n->inv_move[c] < STEADY)
		return;
	n->fast[c] = move_level(n->fast[c], n->trend[c]);
	n->slow[c] = move_level(n->slow[c], n->trend[c]);
}

void analyse_normaliser_accept(struct analyse_normaliser *n, uint32_t c, float x)
{
	memset(n->bins + (size_t)c * ANALYSE_BINS, 0, ANALYSE_BINS * sizeof(*n->bins));
	n->still[c] = 0;
	n->wait[c] = ACCEPTED;
	n->base[c] = 0;
	n->inv_move[c] = 0;
	n->sum[c] = n->sum_n[c] = 0;
	n->distance[c] = NAN;
	n->peak[c] = -1;
	n->before[c] = NAN;
	analyse_normaliser_follow(n, c, x);
}

/*
 * Returns the bin of a positive number, four per octave: the exponent and two bits of the mantissa.
 */
static int bin_of(float d)
{
	uint32_t bits;

	memcpy(&bits, &d, sizeof(bits));
	return (int)(bits >> 21);
}

/* Returns the lower bound of a bin. */
static float begin_of(int bin)
{
	uint32_t bits = (uint32_t)bin << 21;
	float d;

	memcpy(&d, &bits, sizeof(d));
	return d;
}

/* Returns the smallest distance that counts as a move; less is rounding or jitter. */
static float smallest_move(const struct analyse_normaliser *n, uint32_t c)
{
	return fmaxf(REL_SPREAD * fabsf(n->mean[c]), TINY);
}

static uint32_t in_bins(const struct analyse_normaliser *n, uint32_t c)
{
	const uint16_t *bins = n->bins + (size_t)c * ANALYSE_BINS;
	uint32_t sum = 0;

	for (uint32_t i = 0; i < ANALYSE_BINS; i++)
		sum += bins[i];
	return sum;
}

void analyse_normaliser_fetch(const struct analyse_normaliser *n)
{
	analyse_fetch(n->block, 9 * (size_t)n->dims * sizeof(float));
}

static int nearest_bin(int i)
{
	return i < 0 ? 0 : i >= (int)ANALYSE_BINS ? (int)ANALYSE_BINS - 1 : i;
}

/*
 * Returns the move of a column that moves in less than a hundredth of the steps, based on how often
 * it moved this far. Beyond the largest distance so far, the power law applies.
 */
static float rare_move(const struct analyse_normaliser *n, uint32_t c, float d)
{
	const uint16_t *bins = n->bins + (size_t)c * ANALYSE_BINS;
	uint32_t all = n->still[c], above = 0, top = 0;
	float m;

	for (uint32_t i = 0; i < ANALYSE_BINS; i++) {
		all += bins[i];
		top = bins[i] ? i : top;
		if ((int)i >= nearest_bin(bin_of(d) - n->base[c]))
			above += bins[i];
	}
	m = ANALYSE_MOVE_ONCE * (float)(all + 2) / (float)(above + 1);
	if (all > n->still[c] && !above)
		m *= d / begin_of(n->base[c] + (int)top + 1);
	return fminf(m, ANALYSE_MOVE_FAR);
}

void analyse_normalise(struct analyse_normaliser *n, const float *x, float *restrict z,
		       float *restrict move)
{
	const float *mean = n->mean, *inv_sd = n->inv_sd, *inv_move = n->inv_move;
	const float *fast = n->fast, *slow = n->slow;
	float *restrict distance = n->distance;

	/* Selects instead of branches let the compiler vectorise. */
	for (uint32_t c = 0; c < n->dims; c++) {
		float s = (x[c] - mean[c]) * inv_sd[c];
		float f = x[c] - fast[c], w = x[c] - slow[c];
		float af = fabsf(f), aw = fabsf(w), m = af < aw ? f : w;

		m = f * w > 0 ? m : 0 * (f + w);
		distance[c] = fabsf(m);
		m *= inv_move[c];
		s = s > ANALYSE_FAR ? ANALYSE_FAR : s;
		z[c] = s < -ANALYSE_FAR ? -ANALYSE_FAR : s;
		m = m > ANALYSE_MOVE_FAR ? ANALYSE_MOVE_FAR : m;
		move[c] = m < -ANALYSE_MOVE_FAR ? -ANALYSE_MOVE_FAR : m;
	}
	/*
	 * A column that never varied has no unit, but it still scores when it leaves its only
	 * value.
	 */
	for (uint32_t c = 0; c < n->dims; c++) {
		if (inv_sd[c] == 0 && fabsf(x[c] - mean[c]) > smallest_move(n, c) &&
		    n->n[c] >= FIRST)
			z[c] = x[c] > mean[c] ? UNSEEN : -UNSEEN;
		/* Before the first step is counted, the resolution is not known either. */
		if (inv_move[c] == 0 && !n->wait[c] &&
		    distance[c] > (n->still[c] ? smallest_move(n, c) : TINY)) {
			float m = rare_move(n, c, distance[c]);

			move[c] = x[c] > fast[c] ? m : -m;
		}
	}
}

void analyse_normaliser_add(struct analyse_normaliser *n, const float *x)
{
	float *restrict sum = n->sum, *restrict sum_n = n->sum_n, *restrict peak = n->peak;
	const float *distance = n->distance;

	for (uint32_t c = 0; c < n->dims; c++) {
		bool there = x[c] == x[c];

		peak[c] = distance[c] > peak[c] ? distance[c] : peak[c];
		sum[c] += there ? x[c] : 0;
		sum_n[c] += there ? 1 : 0;
	}
}

/*
 * Returns the distance that only `most` of the counted distances exceed, assuming that they are
 * spread evenly within a bin. Returns 0 if at most that many were counted.
 */
static float tail_of(const struct analyse_normaliser *n, uint32_t c, float most)
{
	const uint16_t *bins = n->bins + (size_t)c * ANALYSE_BINS;
	uint32_t above = 0, i = ANALYSE_BINS;
	float part, begin;

	while (i > 0 && (float)(above + bins[i - 1]) <= most)
		above += bins[--i];
	if (!i)
		return 0;
	part = (most - (float)above) / (float)bins[i - 1];
	begin = begin_of(n->base[c] + (int)i - 1);
	return begin + (1 - part) * (begin_of(n->base[c] + (int)i) - begin);
}

static void find_unit(struct analyse_normaliser *n, uint32_t c)
{
	uint32_t moved = in_bins(n, c), all = moved + n->still[c];
	float low = NORMAL_99 * smallest_move(n, c);
	bool known = moved && !n->wait[c] && (!n->rare || 100 * moved > all);

	/* 0 means that the column rarely moved, or that its usual move is not known yet */
	n->inv_move[c] = known ? NORMAL_99 / fmaxf(tail_of(n, c, 0.01f * (float)all), low) : 0;
}

/* Halves all counts while there are too many. */
static void forget_half(struct analyse_normaliser *n, uint32_t c)
{
	uint16_t *bins = n->bins + (size_t)c * ANALYSE_BINS;

	while (in_bins(n, c) + n->still[c] >= BINS_MAX) {
		for (uint32_t k = 0; k < ANALYSE_BINS; k++)
			bins[k] /= 2;
		n->still[c] /= 2;
	}
}

static void count_move(struct analyse_normaliser *n, uint32_t c, float d)
{
	if (d <= smallest_move(n, c)) {
		n->still[c]++;
	} else {
		if (!in_bins(n, c))
			n->base[c] = (int16_t)(bin_of(d) - (int)ANALYSE_BINS / 2);
		n->bins[(size_t)c * ANALYSE_BINS + (size_t)nearest_bin(bin_of(d) - n->base[c])]++;
	}
	n->wait[c] -= n->wait[c] > 0;
	forget_half(n, c);
	find_unit(n, c);
}

static void derive_spread(struct analyse_normaliser *n, uint32_t c)
{
	float sd = n->n[c] >= FIRST ? sqrtf(n->m2[c] / n->n[c]) : 0;

	n->inv_sd[c] = sd > TINY ? 1 / fmaxf(sd, REL_SPREAD * fabsf(n->mean[c])) : 0;
}

static void learn_column(struct analyse_normaliser *n, uint32_t c, float x)
{
	float sd, low = REL_SPREAD * fabsf(n->mean[c]), d, y = x;

	sd = n->n[c] > 1 ? sqrtf(n->m2[c] / n->n[c]) : 0;
	if (n->n[c] >= FIRST && sd > 0) {
		d = WINSOR * fmaxf(sd, low);
		y = fminf(fmaxf(x, n->mean[c] - d), n->mean[c] + d);
	}
	if (n->n[c] >= N_MAX)
		n->m2[c] *= (N_MAX - 1) / N_MAX;
	else
		n->n[c] += 1;
	d = y - n->mean[c];
	n->mean[c] += d / n->n[c];
	n->m2[c] += d * (y - n->mean[c]);
	derive_spread(n, c);
}

static float median_of(const float *sorted, uint32_t n)
{
	return n % 2 ? sorted[n / 2] : 0.5f * (sorted[n / 2 - 1] + sorted[n / 2]);
}

/* Inserts x into the sorted array. */
static void insert_sorted(float *sorted, uint32_t n, float x)
{
	for (; n > 0 && sorted[n - 1] > x; n--)
		sorted[n] = sorted[n - 1];
	sorted[n] = x;
}

static void fast_baseline(struct analyse_normaliser *n, uint32_t c, float x)
{
	float sorted[ANALYSE_FAST];
	uint32_t k = 0;

	for (uint32_t i = 0; i < ANALYSE_FAST; i++) {
		float *at = &n->last[(size_t)i * n->dims + c], before = *at;

		*at = x;
		if (x == x)
			insert_sorted(sorted, k++, x);
		x = before;
	}
	/* A single value is not enough for a level. */
	if (k >= 2)
		n->fast[c] = median_of(sorted, k);
}

static void slow_baseline(struct analyse_normaliser *n, uint32_t c, float x)
{
	float *sorted = n->sorted + (size_t)c * ANALYSE_SLOW;
	uint32_t count = n->ring_n[c], at = n->ring_at[c], i;

	/* One removal and one insertion keep the array sorted. */
	if (count == ANALYSE_SLOW) {
		float old = n->ring[(size_t)at * n->dims + c];

		for (i = 0; i < count - 1 && sorted[i] != old; i++)
			;
		memmove(sorted + i, sorted + i + 1, (count - 1 - i) * sizeof(float));
		count--;
	}
	insert_sorted(sorted, count++, x);
	n->ring[(size_t)at * n->dims + c] = x;
	n->ring_at[c] = (uint8_t)((at + 1) % ANALYSE_SLOW);
	n->ring_n[c] = (uint8_t)count;
	if (count >= 2)
		n->slow[c] = median_of(sorted, count);
}

void analyse_normaliser_step(struct analyse_normaliser *n, bool learn, enum analyse_count count,
			     bool slow, const bool *held)
{
	for (uint32_t c = 0; c < n->dims; c++) {
		float x;

		if (n->sum_n[c] == 0)
			continue;
		x = n->sum[c] / n->sum_n[c];
		n->sum[c] = n->sum_n[c] = 0;
		if (!isfinite(x))
			continue;
		if (learn)
			learn_column(n, c, x);
		if (learn && !isnan(n->before[c]))
			n->trend[c] += (x - n->before[c] - n->trend[c]) / fminf(n->n[c], TREND);
		n->before[c] = learn ? x : NAN;
		if (n->inv_move[c] == 0 ? !n->rare || count != ANALYSE_COUNT_NOT
					: count != ANALYSE_COUNT_LATER) {
			if (count != ANALYSE_COUNT_NOT && n->peak[c] >= 0)
				count_move(n, c, n->peak[c]);
			n->peak[c] = -1;
		}
		if (held && held[c])
			continue;
		fast_baseline(n, c, x);
		if (slow)
			slow_baseline(n, c, x);
	}
}

/* ---- serialisation ---- */

#define LARGE 1e37f

static void derive_units(struct analyse_normaliser *n, uint32_t c)
{
	derive_spread(n, c);
	find_unit(n, c);
}

void analyse_normaliser_io(struct analyse_normaliser *n, uint32_t c, struct sketch_blob *b)
{
	uint16_t *bins = n->bins + (size_t)c * ANALYSE_BINS;
	uint32_t base = (uint32_t)(n->base[c] + INT16_MAX);

	if (b->load)
		analyse_normaliser_forget(n, c);
	sketch_blob_f32(b, &n->mean[c], -LARGE, LARGE);
	sketch_blob_f32(b, &n->m2[c], 0, LARGE);
	sketch_blob_f32(b, &n->n[c], 0, N_MAX);
	sketch_blob_u32(b, &n->still[c]);
	sketch_blob_u32(b, &base);
	for (uint32_t i = 0; i < ANALYSE_BINS; i += 2) {
		uint32_t two = bins[i] | (uint32_t)bins[i + 1] << 16;

		sketch_blob_u32(b, &two);
		bins[i] = (uint16_t)two;
		bins[i + 1] = (uint16_t)(two >> 16);
	}
	if (!b->load)
		return;
	/* The bins must correspond to finite floats. */
	if (base < INT16_MAX || base > INT16_MAX + 1019 - ANALYSE_BINS || n->still[c] > BINS_MAX ||
	    in_bins(n, c) > BINS_MAX)
		b->failed = true;
	if (b->failed) {
		analyse_normaliser_forget(n, c);
		return;
	}
	n->base[c] = (int16_t)((int)base - INT16_MAX);
	derive_units(n, c);
}

/* Merges mean and m2 as in Chan, Golub, LeVeque 1983, and adds the counts. */
void analyse_normaliser_merge_column(struct analyse_normaliser *n, uint32_t c,
				     const struct analyse_normaliser *m, uint32_t d)
{
	float a = n->n[c], b = m->n[d], delta = m->mean[d] - n->mean[c];
	const uint16_t *theirs = m->bins + (size_t)d * ANALYSE_BINS;
	uint16_t *mine = n->bins + (size_t)c * ANALYSE_BINS;

	if (b > 0) {
		n->mean[c] += delta * b / (a + b);
		n->m2[c] += m->m2[d] + delta * delta * a * b / (a + b);
		n->n[c] = a + b;
		if (n->n[c] > N_MAX) {
			n->m2[c] *= N_MAX / n->n[c];
			n->n[c] = N_MAX;
		}
	}
	if (!in_bins(n, c))
		n->base[c] = m->base[d];
	for (uint32_t i = 0; i < ANALYSE_BINS; i++) {
		int k = nearest_bin(m->base[d] + (int)i - n->base[c]);

		mine[k] = (uint16_t)(mine[k] + theirs[i]);
	}
	n->still[c] += m->still[d];
	forget_half(n, c);
	derive_units(n, c);
}
