// SPDX-License-Identifier: Apache-2.0
/* calibrate.c - see calibrate.h. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "analyse/calibrate.h"
#include "analyse/random.h"

#define ENOUGH	      32u
#define PEAK_SHARE    0.05 /* of the scores lie above t */
#define PEAKS_MIN     8u   /* below, the tail is exponential */
#define DRIFT_ALLOWED 0.25
#define DRIFT_ALARM   8.0
#define P_MIN	      1e-12
#define SCORE_MAX     1e30f

static int by_size(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static double quantile(const float *sorted, uint32_t n, double p)
{
	double at = p * (n - 1);
	uint32_t i = (uint32_t)at;

	return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

static void fit_tail(struct sl_calibration *c)
{
	float x[SL_PEAKS];
	uint32_t n = c->excess_n;
	double a0 = 0, a1 = 0;

	if (!n) {
		c->sigma = c->gamma = 0;
		return;
	}
	memcpy(x, c->excess, n * sizeof(float));
	qsort(x, n, sizeof(float), by_size);
	for (uint32_t i = 0; i < n; i++) {
		a0 += x[i];
		a1 += x[i] *
		      (1 - (i + 0.65) / n); /* E[X (1 - F(X))]; plotting position of the paper */
	}
	a0 /= n;
	a1 /= n;
	c->gamma = 0;
	c->sigma = a0;
	if (n >= PEAKS_MIN && a0 > 2 * a1) {
		c->gamma = 2 - a0 / (a0 - 2 * a1);
		c->gamma = fmin(fmax(c->gamma, -1), 0.5);
		c->sigma = a0 * (1 - c->gamma); /* the mean is right whatever the clamp did */
	}
}

/* How much a generalised Pareto excess is that is exceeded with probability p. */
static double tail_at(const struct sl_calibration *c, double p)
{
	if (fabs(c->gamma) < 1e-3)
		return -c->sigma * log(p);
	return c->sigma / c->gamma * (pow(p, -c->gamma) - 1);
}

static void refit(struct sl_calibration *c)
{
	float sorted[SL_SCORES];
	double share;

	if (c->kept < ENOUGH) {
		c->threshold = INFINITY;
		return;
	}
	memcpy(sorted, c->scores, c->kept * sizeof(float));
	qsort(sorted, c->kept, sizeof(float), by_size);
	c->median = quantile(sorted, c->kept, 0.5);
	c->q90 = quantile(sorted, c->kept, 0.9);
	fit_tail(c);
	share = (double)c->peaks / c->n;
	if (c->q >= share || !c->excess_n)
		c->threshold = quantile(sorted, c->kept, 1 - c->q);
	else
		c->threshold = c->t + tail_at(c, c->q / share);
}

int sl_calibration_init(struct sl_calibration *c, double q, uint64_t seed)
{
	memset(c, 0, sizeof(*c));
	c->random = seed;
	c->threshold = INFINITY;
	return sl_calibration_budget(c, q);
}

int sl_calibration_budget(struct sl_calibration *c, double q)
{
	if (!(q > 0 && q <= 0.5))
		return -EINVAL;
	c->q = q;
	if (c->kept)
		refit(c);
	return 0;
}

/* A uniform sample, which forgets as that of the scores does. */
static void add_excess(struct sl_calibration *c, float e)
{
	if (c->excess_n < SL_PEAKS) {
		c->excess[c->excess_n++] = e;
	} else {
		uint64_t of = c->peaks < 8 * SL_PEAKS ? c->peaks : 8 * SL_PEAKS;
		uint64_t i = sl_random_next(&c->random) % of;

		if (i < SL_PEAKS)
			c->excess[i] = e;
	}
}

void sl_calibration_learn(struct sl_calibration *c, double score)
{
	if (!(score >= 0))
		return;
	score = fmin(score, SCORE_MAX);
	c->n++;
	if (c->kept < SL_SCORES) {
		c->scores[c->kept++] = (float)score;
	} else {
		/* Vitter's algorithm R, but never rarer than 1 in 8 SL_SCORES: old scores go. */
		uint64_t of = c->n < 8 * SL_SCORES ? c->n : 8 * SL_SCORES;
		uint64_t i = sl_random_next(&c->random) % of;

		if (i < SL_SCORES)
			c->scores[i] = (float)score;
	}
	if (c->n == ENOUGH || c->n == 4 * ENOUGH || c->n == SL_SCORES) {
		/* t is chosen of what is known, and again when more is. */
		float sorted[SL_SCORES];

		memcpy(sorted, c->scores, c->kept * sizeof(float));
		qsort(sorted, c->kept, sizeof(float), by_size);
		c->t = quantile(sorted, c->kept, 1 - PEAK_SHARE);
		c->peaks = c->excess_n = 0;
		for (uint32_t i = 0; i < c->kept; i++)
			if (c->scores[i] > c->t) {
				c->peaks++;
				add_excess(c, (float)(c->scores[i] - c->t));
			}
		refit(c);
	} else if (c->n > ENOUGH && score > c->t) {
		c->peaks++;
		add_excess(c, (float)(score - c->t));
		refit(c);
	} else if (c->n % 64 == 0) {
		refit(c);
	}
}

void sl_calibration_learn_gated(struct sl_calibration *c, double score)
{
	double share, u;

	sl_calibration_learn(c, score);
	if (isinf(c->threshold) || score > c->threshold ||
	    sl_random_uniform(&c->random) >= c->q / (1 - c->q))
		return;
	share = (double)c->peaks / (double)c->n;
	u = (1 - sl_random_uniform(&c->random)) * c->q; /* not 0 */
	sl_calibration_learn(c, u < share ? c->t + tail_at(c, u / share) : c->threshold);
}

bool sl_calibration_watch(struct sl_calibration *c, double score)
{
	if (c->kept < ENOUGH)
		return false;
	c->drift += (score > c->q90) - DRIFT_ALLOWED;
	/* Bounded, so that the end of a long drift is seen soon. */
	c->drift = fmin(fmax(c->drift, 0), 2 * DRIFT_ALARM);
	return c->drift > DRIFT_ALARM;
}

double sl_calibration_threshold(const struct sl_calibration *c)
{
	return c->threshold;
}

double sl_calibration_p(const struct sl_calibration *c, double score)
{
	double share, y, p;

	if (c->kept < ENOUGH)
		return 1;
	share = (double)c->peaks / c->n;
	if (score <= c->t || !c->excess_n || c->sigma <= 0) {
		uint32_t above = 0;

		for (uint32_t i = 0; i < c->kept; i++)
			above += c->scores[i] >= score;
		return (above + 1.0) / (c->kept + 1.0);
	}
	y = (score - c->t) / c->sigma;
	if (fabs(c->gamma) < 1e-3)
		p = exp(-y);
	else
		p = 1 + c->gamma * y > 0 ? pow(1 + c->gamma * y, -1 / c->gamma) : 0;
	return fmax(share * p, P_MIN);
}

/* ---- bytes ------------------------------------------------------------------------------------ */

void sl_calibration_save(const struct sl_calibration *c, struct sl_blob *to)
{
	sl_blob_put_f64(to, c->q);
	sl_blob_put_u64(to, c->n);
	sl_blob_put_u64(to, c->peaks);
	sl_blob_put_f64(to, c->t);
	sl_blob_put_f64(to, c->sigma);
	sl_blob_put_f64(to, c->gamma);
	sl_blob_put_f64(to, c->median);
	sl_blob_put_f64(to, c->q90);
	sl_blob_put_f64(to, isinf(c->threshold) ? -1 : c->threshold);
	sl_blob_put_u64(to, c->random);
	sl_blob_put_u32(to, c->kept);
	for (uint32_t i = 0; i < c->kept; i++)
		sl_blob_put_f32(to, c->scores[i]);
	sl_blob_put_u32(to, c->excess_n);
	for (uint32_t i = 0; i < c->excess_n; i++)
		sl_blob_put_f32(to, c->excess[i]);
}

int sl_calibration_load(struct sl_calibration *c, struct sl_blob *from)
{
	double q = c->q, theirs;

	memset(c, 0, sizeof(*c));
	c->q = q;
	c->threshold = INFINITY;
	theirs = sl_blob_f64(from, 0, 0.5);
	c->n = sl_blob_u64(from);
	c->peaks = sl_blob_u64(from);
	c->t = sl_blob_f64(from, 0, SCORE_MAX);
	c->sigma = sl_blob_f64(from, 0, SCORE_MAX);
	c->gamma = sl_blob_f64(from, -1, 0.5);
	c->median = sl_blob_f64(from, 0, SCORE_MAX);
	c->q90 = sl_blob_f64(from, 0, SCORE_MAX);
	c->threshold = sl_blob_f64(from, -1, DBL_MAX);
	c->random = sl_blob_u64(from);
	c->kept = sl_blob_u32(from);
	if (from->failed || c->kept > SL_SCORES || c->kept > c->n || c->peaks > c->n)
		goto bad;
	for (uint32_t i = 0; i < c->kept; i++)
		c->scores[i] = sl_blob_f32(from, 0, SCORE_MAX);
	c->excess_n = sl_blob_u32(from);
	if (from->failed || c->excess_n > SL_PEAKS || c->excess_n > c->peaks)
		goto bad;
	for (uint32_t i = 0; i < c->excess_n; i++)
		c->excess[i] = sl_blob_f32(from, 0, SCORE_MAX);
	if (from->failed)
		goto bad;
	/* Of another budget, or of nothing. */
	if (c->threshold < 0 || c->kept < ENOUGH)
		c->threshold = INFINITY;
	else if (theirs != q)
		refit(c);
	return 0;
bad:
	sl_calibration_init(c, q, 0);
	return -EINVAL;
}

/* Learns the other's sample anew: the two weigh by what each has kept. */
void sl_calibration_merge(struct sl_calibration *c, const struct sl_calibration *from)
{
	for (uint32_t i = 0; i < from->kept; i++)
		sl_calibration_learn(c, from->scores[i]);
}
