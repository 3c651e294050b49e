// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "analyse/calibrate.h"
#include "base/grow.h"
#include "sketch/hash.h"

#define ENOUGH 32u
/* t is chosen so that at most this share of the scores is above it */
#define PEAK_SHARE 0.2
/*
 * t is chosen so that the number of scores above it is at most this times the square root of the
 * total number
 */
#define PEAK_ROOTS 3
#define TAIL_SHARE 0.05	  /* in the long run, at most this share of the scores is above t */
#define REFIT	   16u	  /* refit the tail when the number of peaks has grown by 1/16 */
#define REFIT_MANY 16384u /* scores after which another 64 hardly change the quantiles */
#define RENEWED	   (8 * ANALYSE_SCORES) /* scores after which the sample has been replaced */
#define GAMMA_MAX  1.0
#define SHAPE_MIN  -0.9
#define SHAPE_STEP 0.1
#define SHAPES	   18u
#define SCALES	   15u /* grid points per shape, around the mean: 5.6 deviations either way */
/* step in the logarithm of the scale, times the square root of the number of peaks */
#define SCALE_STEP    0.8
#define DRIFT_ALLOWED 0.25
#define DRIFT_ALARM   8.0
#define P_MIN	      1e-12
#define SCORE_MAX     1e30f
#define COMPARE	      8u
/* maximum variance of the logarithms of shares; no real fleet exceeds it */
#define VARY_MAX 1e3

static double sorted_quantile(const float *sorted, uint32_t n, double p)
{
	double at = p * (n - 1);
	uint32_t i = (uint32_t)at;

	return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

/* Returns the excess of a generalised Pareto distribution that is exceeded with probability p. */
static double excess_at(double sigma, double gamma, double p)
{
	if (fabs(gamma) < 1e-3)
		return -sigma * log(p);
	return sigma / gamma * (pow(p, -gamma) - 1);
}

/* Returns the probability that such an excess is larger than y. */
static double tail_probability(double sigma, double gamma, double y)
{
	double x = 1 + gamma * y / sigma;

	if (fabs(gamma) < 1e-3)
		return exp(-y / sigma);
	return x > 0 ? pow(x, -1 / gamma) : 0;
}

/* Priors of gamma: truncated normal distributions. */
static const struct prior {
	double mean, deviation;
} priors[] = {
	[ANALYSE_TAIL_LOG_P] = {0.08, 0.1},
	[ANALYSE_TAIL_SUM] = {0.08, 0.05},
	[ANALYSE_TAIL_ANY] = {0.2, 0.2},
};

/* The posterior distribution over a grid of scales and shapes. */
struct belief {
	double sigma[SHAPES][SCALES], gamma[SHAPES], weight[SHAPES][SCALES];
};

/* Returns the log-likelihood; -INFINITY if an excess is impossible. */
static double log_likelihood(const float *x, uint32_t n, double sigma, double gamma)
{
	double product = 1, sum = 0, by = gamma / sigma;

	if (fabs(gamma) < 1e-3) {
		for (uint32_t i = 0; i < n; i++)
			sum += x[i];
		return -(double)n * log(sigma) - sum / sigma;
	}
	for (uint32_t i = 0; i < n; i++) {
		double f = 1 + by * x[i];

		if (f <= 0)
			return -INFINITY;
		product *= f;
		/* Take a logarithm per eight factors: the product of all factors would overflow. */
		if (i % 8 == 7 || i + 1 == n) {
			sum += log(product);
			product = 1;
		}
	}
	return -(double)n * log(sigma) - (1 + 1 / gamma) * sum;
}

static void compute_posterior(struct belief *b, const float *x, uint32_t n, double mean,
			      const struct prior *of)
{
	double step = fmin(SCALE_STEP / sqrt(n), 0.5), most = -INFINITY, sum = 0;

	for (uint32_t i = 0; i < SHAPES; i++) {
		double g = b->gamma[i] = SHAPE_MIN + SHAPE_STEP * i;
		double prior = (g - of->mean) / of->deviation;

		for (uint32_t k = 0; k < SCALES; k++) {
			double *w = &b->weight[i][k];

			b->sigma[i][k] = mean * fmax(1 - g, 0.5) *
					 exp(step * (k - (SCALES - 1) / 2.0));
			*w = log_likelihood(x, n, b->sigma[i][k], g) - prior * prior / 2;
			most = fmax(most, *w);
		}
	}
	for (uint32_t i = 0; i < SHAPES; i++)
		for (uint32_t k = 0; k < SCALES; k++)
			sum += b->weight[i][k] = exp(b->weight[i][k] - most);
	for (uint32_t i = 0; i < SHAPES; i++)
		for (uint32_t k = 0; k < SCALES; k++)
			b->weight[i][k] /= sum;
}

/* Returns the posterior predictive probability that the next excess is larger than y. */
static double predicted_probability(const struct belief *b, double y)
{
	double p = 0;

	for (uint32_t i = 0; i < SHAPES; i++)
		for (uint32_t k = 0; k < SCALES; k++)
			if (b->weight[i][k] > 1e-9)
				p += b->weight[i][k] *
				     tail_probability(b->sigma[i][k], b->gamma[i], y);
	return p;
}

/* Returns the excess whose predictive probability is p, rounded up by at most 2^-25. */
static double predicted_excess(const struct belief *b, double p, double mean)
{
	double low = 0, high = mean;

	while (predicted_probability(b, high) > p && high < SCORE_MAX)
		low = high, high *= 2;
	for (int i = 0; i < 25; i++) {
		double mid = (low + high) / 2;

		if (predicted_probability(b, mid) > p)
			low = mid;
		else
			high = mid;
	}
	return high;
}

/* Computes the sigma and gamma for which the tail has the posterior's median and quantile at p. */
static void fit_tail(struct analyse_calibration *c, double p)
{
	double mean = 0, y1, y2, low = -1, high = GAMMA_MAX;
	struct belief b;

	for (uint32_t i = 0; i < c->excess_n; i++)
		mean += c->excess[i];
	c->sigma = c->gamma = 0;
	if (!(mean > 0))
		return;
	mean /= c->excess_n;
	compute_posterior(&b, c->excess, c->excess_n, mean, &priors[c->tail]);
	y1 = predicted_excess(&b, 0.5, mean);
	y2 = predicted_excess(&b, p, mean);
	for (int i = 0; i < 40; i++) {
		double g = (low + high) / 2;

		if (excess_at(1, g, p) / excess_at(1, g, 0.5) < y2 / y1)
			low = g;
		else
			high = g;
	}
	c->gamma = low;
	c->sigma = fmin(y2 / excess_at(1, low, p), SCORE_MAX);
}

/*
 * Adds the latest of `seen` values to a sample of n, at most room: Vitter's algorithm R, but with a
 * probability of at least 1/8 per value, so that old values are replaced.
 */
static void add_sample(struct analyse_calibration *c, float *to, uint32_t *n, uint32_t room,
		       uint64_t seen, float value)
{
	uint64_t of = seen < 8 * room ? seen : 8 * room;
	uint64_t i = *n < room ? (*n)++ : sketch_random_next(&c->random) % of;

	if (i < room)
		to[i] = value;
}

static void add_excess(struct analyse_calibration *c, float e)
{
	add_sample(c, c->excess, &c->excess_n, ANALYSE_PEAKS, c->peaks, e);
}

static void sort_scores(const struct analyse_calibration *c, float *sorted)
{
	memcpy(sorted, c->scores, c->kept * sizeof(float));
	qsort(sorted, c->kept, sizeof(float), base_by_f32);
}

/*
 * Places t halfway between two distinct scores near the n-th largest, so that t never equals the
 * score that a cluster has in common. If the two are further apart than the mean of the tail, t is
 * half that mean below the upper one.
 */
static void choose_t(struct analyse_calibration *c)
{
	float sorted[ANALYSE_SCORES];
	uint32_t n = (uint32_t)fmin(c->kept * PEAK_SHARE, PEAK_ROOTS * sqrt(c->kept));
	uint32_t up = c->kept - n, down = up;
	float mean = 0;

	sort_scores(c, sorted);
	while (up < c->kept && sorted[up - 1] == sorted[up])
		up++;
	while (down > 1 && sorted[down - 1] == sorted[down])
		down--;
	if (c->kept - up < n / 2 && down > c->kept / 2)
		up = down;
	c->t = sorted[up - 1];
	for (uint32_t i = up; i < c->kept; i++)
		mean += (sorted[i] - sorted[up]) / (float)(c->kept - up);
	if (up < c->kept) {
		float gap = sorted[up] - sorted[up - 1];

		c->t = sorted[up] - (mean > 0 ? fmin(gap, mean) : gap) / 2;
	}
	c->peaks = c->excess_n = 0;
	for (uint32_t i = 0; i < c->kept; i++)
		if (c->scores[i] > c->t) {
			c->peaks++;
			add_excess(c, (float)(c->scores[i] - c->t));
		}
}

/*
 * Raises t so that half of the peaks remain. Called when there are more peaks than can be kept:
 * with a higher t, those that are kept describe the tail better.
 */
static void raise_t(struct analyse_calibration *c)
{
	float sorted[ANALYSE_PEAKS], up;
	uint32_t n = c->excess_n, i = n / 2, kept = 0;

	memcpy(sorted, c->excess, n * sizeof(float));
	qsort(sorted, n, sizeof(float), base_by_f32);
	while (i < n && sorted[i - 1] == sorted[i])
		i++;
	if (i == n)
		return;
	up = (sorted[i - 1] + sorted[i]) / 2;
	for (uint32_t k = 0; k < n; k++)
		if (c->excess[k] > up)
			c->excess[kept++] = c->excess[k] - up;
	c->excess_n = kept;
	c->peaks = c->peaks * kept / n;
	c->t += up;
}

/* Moves the k-th smallest of x[0..n) to its place (C. A. R. Hoare, Find, CACM 4, 1961). */
static void find_kth(float *x, uint32_t n, uint32_t k)
{
	uint32_t low = 0, high = n - 1;

	while (low < high) {
		float pivot = x[low + (high - low) / 2], keep;
		uint32_t i = low, j = high;

		while (i <= j) {
			while (x[i] < pivot)
				i++;
			while (x[j] > pivot)
				j--;
			if (i > j)
				break;
			keep = x[i];
			x[i++] = x[j];
			x[j] = keep;
			if (!j--)
				break;
		}
		if (k <= j && j < high)
			high = j;
		else if (k >= i)
			low = i;
		else
			return;
	}
}

/*
 * Like sorted_quantile(), but for unsorted values; no value before `from` is larger than a later
 * one.
 */
static double quantile_among(float *x, uint32_t from, uint32_t n, double p)
{
	double at = p * (n - 1);
	uint32_t i = (uint32_t)at;
	float next = INFINITY;

	find_kth(x + from, n - from, i - from);
	if (i + 1 >= n)
		return x[i];
	for (uint32_t k = i + 1; k < n; k++)
		next = x[k] < next ? x[k] : next;
	return x[i] + (at - i) * (next - x[i]);
}

/* Updates the quantiles now; the tail is fitted on demand, as that is slow. */
static void refit_quantiles(struct analyse_calibration *c)
{
	float scores[ANALYSE_SCORES];

	if (c->kept < ENOUGH)
		return;
	memcpy(scores, c->scores, c->kept * sizeof(*scores));
	c->median = quantile_among(scores, 0, c->kept, 0.5);
	c->q90 = quantile_among(scores, (c->kept - 1) / 2, c->kept, 0.9);
	c->stale = true;
}

static void fit_threshold(struct analyse_calibration *c)
{
	double share = (double)c->peaks / c->n;
	float sorted[ANALYSE_SCORES];

	c->stale = false;
	c->fits++;
	if (c->excess_n && c->q < share) {
		fit_tail(c, fmin(c->q / share, 0.1));
		c->threshold = c->t + excess_at(c->sigma, c->gamma, c->q / share);
		c->threshold = fmin(c->threshold, SCORE_MAX);
		return;
	}
	fit_tail(c, 0.1);
	sort_scores(c, sorted);
	c->threshold = sorted_quantile(sorted, c->kept, 1 - c->q);
	/*
	 * No score has been above t yet. The next one will be with probability 1 / (n + 1)
	 * (Laplace), by an excess of scale 1, as scores are -log p.
	 */
	if (!c->excess_n && c->tail != ANALYSE_TAIL_ANY && c->q * (double)(c->n + 1) < 1)
		c->threshold = c->t - log(c->q * (double)(c->n + 1));
}

int analyse_calibration_init(struct analyse_calibration *c, double q, enum analyse_tail tail,
			     uint64_t seed)
{
	memset(c, 0, sizeof(*c));
	c->random = seed;
	c->tail = tail;
	c->threshold = INFINITY;
	return analyse_calibration_budget(c, q);
}

int analyse_thresholds_init(struct analyse_thresholds *t, const struct analyse_thresholds_opts *o)
{
	double part = o->runs ? o->q / 2 : o->q, each = part / (ANALYSE_KINDS - 1);
	int err = analyse_calibration_init(&t->step, part, o->tail, o->seed);

	t->settled = false;
	err = err ?: analyse_calibration_init(&t->run, part, o->tail, o->seed + 1);
	for (uint32_t k = 0; t->kind && k < ANALYSE_KINDS && !err; k++)
		err = analyse_calibration_init(&t->kind[k],
					       k == ANALYSE_KIND_CULPRIT ? 2 * each : each,
					       ANALYSE_TAIL_LOG_P, o->seed + 2 + k);
	return err;
}

void analyse_thresholds_budget(struct analyse_thresholds *t, const struct analyse_thresholds *of)
{
	/* Equal budgets must leave the thresholds exactly as they are. */
	if (t->step.q != of->step.q)
		analyse_calibration_budget(&t->step, of->step.q);
	if (t->run.q != of->run.q)
		analyse_calibration_budget(&t->run, of->run.q);
	for (uint32_t k = 0; t->kind && of->kind && k < ANALYSE_KINDS; k++)
		if (t->kind[k].q != of->kind[k].q)
			analyse_calibration_budget(&t->kind[k], of->kind[k].q);
}

int analyse_calibration_budget(struct analyse_calibration *c, double q)
{
	if (!(q > 0 && q <= 0.5))
		return -EINVAL;
	c->q = q;
	if (c->kept)
		refit_quantiles(c);
	return 0;
}

void analyse_calibration_learn(struct analyse_calibration *c, double score)
{
	if (!(score >= 0))
		return;
	score = fmin(score, SCORE_MAX);
	c->n++;
	add_sample(c, c->scores, &c->kept, ANALYSE_SCORES, c->n, (float)score);
	if (c->n <= ANALYSE_SCORES && c->n >= ENOUGH && !(c->n & (c->n - 1))) {
		/* whenever the number of scores has doubled */
		choose_t(c);
		refit_quantiles(c);
	} else if (c->n > ENOUGH && score > c->t) {
		c->peaks++;
		add_excess(c, (float)(score - c->t));
		if (c->peaks >= 2 * ANALYSE_PEAKS && c->peaks > TAIL_SHARE * c->n)
			raise_t(c);
		if (c->peaks % (1 + c->peaks / REFIT) == 0)
			refit_quantiles(c);
	} else if (c->n % (c->n < REFIT_MANY ? 64 : RENEWED) == 0) {
		refit_quantiles(c);
	}
}

void analyse_calibration_learn_within(struct analyse_calibration *c, double score)
{
	analyse_calibration_learn(c, score > c->t ? c->t : score);
}

void analyse_calibration_learn_gated(struct analyse_calibration *c, double score)
{
	double share, u, threshold;

	if (!(score >= 0))
		return;
	analyse_calibration_learn(c, score);
	/* Draw the random number first: fitting the threshold costs a thousand times as much. */
	if (sketch_random_uniform(&c->random) >= c->q / (1 - c->q))
		return;
	threshold = analyse_calibration_threshold(c);
	if (isinf(threshold) || score > threshold)
		return;
	share = (double)c->peaks / (double)c->n;
	u = (1 - sketch_random_uniform(&c->random)) * c->q; /* never 0 */
	if (u < share)
		threshold = c->t + excess_at(c->sigma, c->gamma, u / share);
	analyse_calibration_learn(c, threshold);
}

bool analyse_calibration_watch(struct analyse_calibration *c, double score)
{
	if (c->kept < ENOUGH)
		return false;
	c->drift += (score > c->q90) - DRIFT_ALLOWED;
	/* Limited, so that the end of a long drift is soon detected. */
	c->drift = fmin(fmax(c->drift, 0), 2 * DRIFT_ALARM);
	return c->drift > DRIFT_ALARM;
}

bool analyse_calibration_known(const struct analyse_calibration *c)
{
	return c->kept >= ENOUGH;
}

double analyse_calibration_threshold(struct analyse_calibration *c)
{
	if (c->stale)
		fit_threshold(c);
	return c->threshold;
}

double analyse_calibration_prior(const struct analyse_calibration *c)
{
	return -log(c->q);
}

/* Returns how many scores of `own` are above the t of `all`. */
static uint32_t peaks_among(const struct analyse_calibration *own,
			    const struct analyse_calibration *all)
{
	float t = (float)all->t;
	uint32_t k = 0;

	for (uint32_t i = 0; i < own->kept; i++)
		k += own->scores[i] > t;
	return k;
}

void analyse_calibration_compare(struct analyse_calibration_spread *s,
				 const struct analyse_calibration *own,
				 const struct analyse_calibration *all)
{
	double k = peaks_among(own, all) + 0.5, x;

	if (own->kept < ENOUGH)
		return;
	/* Add half a peak, so that 0 has a logarithm (F. J. Anscombe, Biometrika 43, 1956). */
	x = log(k / (own->kept + 0.5));
	s->sum += x;
	s->squares += x * x;
	s->chance += 1 / k;
	s->n++;
}

void analyse_calibration_compared(const struct analyse_calibration_spread *s,
				  struct analyse_calibration *all)
{
	double between = 0;

	if (s->n > 1)
		between = (s->squares - s->sum * s->sum / s->n) / (s->n - 1);
	all->vary = fmax(between - s->chance / fmax(s->n, 1), 0);
	all->compare_at = all->n + COMPARE * (s->n + 1);
	all->fits++; /* invalidates pooled thresholds */
}

static double pooled_threshold(const struct analyse_calibration *own,
			       const struct analyse_calibration *all)
{
	double share = (double)all->peaks / (double)all->n;

	/* k and n are multiplied by vary = 1/a, so that a may be infinite. */
	share = (peaks_among(own, all) * all->vary + 1) / (own->kept * all->vary + 1 / share);
	/* The tail below t is unknown. */
	if (share <= all->q)
		return all->t;
	return fmin(all->t + excess_at(all->sigma, all->gamma, all->q / share), SCORE_MAX);
}

double analyse_calibration_among(struct analyse_calibration *own, struct analyse_calibration *all)
{
	double threshold = analyse_calibration_threshold(all);

	if (!analyse_calibration_known(own))
		return INFINITY;
	if (own == all || !(all->vary > 0) || !all->peaks || !(all->sigma > 0))
		return threshold;
	if (own->pooled.n != own->n || own->pooled.fits != all->fits) {
		own->pooled.n = own->n;
		own->pooled.fits = all->fits;
		own->pooled.threshold = pooled_threshold(own, all);
	}
	return own->pooled.threshold;
}

double analyse_calibration_p(struct analyse_calibration *c, double score)
{
	double share, p;

	if (c->kept < ENOUGH)
		return 1;
	if (c->stale)
		fit_threshold(c);
	share = (double)c->peaks / c->n;
	if (score <= c->t || !c->excess_n || c->sigma <= 0) {
		uint32_t above = 0;

		for (uint32_t i = 0; i < c->kept; i++)
			above += c->scores[i] >= score;
		return (above + 1.0) / (c->kept + 1.0);
	}
	p = tail_probability(c->sigma, c->gamma, score - c->t);
	return fmax(share * p, P_MIN);
}

/* ---- serialisation ---- */

static void sample_io(float *x, uint32_t *n, uint32_t room, uint64_t most, struct sketch_blob *b)
{
	sketch_blob_u32(b, n);
	if (b->load && (*n > room || *n > most))
		b->failed = true;
	for (uint32_t i = 0; i < *n && !b->failed; i++)
		sketch_blob_f32(b, &x[i], 0, SCORE_MAX);
}

int analyse_calibration_io(struct analyse_calibration *c, struct sketch_blob *b)
{
	const double q = c->q;
	double theirs = q, threshold = isinf(c->threshold) ? -1 : c->threshold;
	uint32_t stale = c->stale;

	if (b->load)
		analyse_calibration_init(c, q, c->tail, 0);
	sketch_blob_f64(b, &theirs, 0, 0.5);
	sketch_blob_u64(b, &c->n);
	sketch_blob_u64(b, &c->peaks);
	sketch_blob_f64(b, &c->t, 0, SCORE_MAX);
	sketch_blob_f64(b, &c->sigma, 0, SCORE_MAX);
	sketch_blob_f64(b, &c->gamma, -1, GAMMA_MAX);
	sketch_blob_f64(b, &c->median, 0, SCORE_MAX);
	sketch_blob_f64(b, &c->q90, 0, SCORE_MAX);
	sketch_blob_f64(b, &threshold, -1, DBL_MAX);
	sketch_blob_f64(b, &c->vary, 0, VARY_MAX);
	sketch_blob_u64(b, &c->compare_at);
	sketch_blob_u32(b, &stale);
	sketch_blob_u64(b, &c->random);
	sample_io(c->scores, &c->kept, ANALYSE_SCORES, c->n, b);
	sample_io(c->excess, &c->excess_n, ANALYSE_PEAKS, c->peaks, b);
	if (!b->load)
		return 0;
	if (b->failed || c->peaks > c->n) {
		analyse_calibration_init(c, q, c->tail, 0);
		return -EINVAL;
	}
	/* Limit compare_at: a damaged value must not postpone the comparison forever. */
	c->compare_at = c->compare_at < c->n + (1u << 20) ? c->compare_at : c->n;
	/* The budget may differ from the model's, and the model may be untrained. */
	c->stale = stale && analyse_calibration_known(c);
	if (threshold >= 0 && analyse_calibration_known(c)) {
		c->threshold = threshold;
		if (theirs != q)
			refit_quantiles(c);
	}
	return 0;
}

/* Learns the other sample, weighted by the number of values that each sample has kept. */
void analyse_calibration_merge(struct analyse_calibration *c,
			       const struct analyse_calibration *from)
{
	for (uint32_t i = 0; i < from->kept; i++)
		analyse_calibration_learn(c, from->scores[i]);
}
