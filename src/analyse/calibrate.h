/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calibrate.h - from a score to a decision, without labels: the user says how many false alarms an
 * hour are fine, and the threshold follows. Knows no detector and no clock: it counts steps.
 *
 * Peaks over threshold (A. Siffer, P.-A. Fouque, A. Termier, C. Largouet, "Anomaly detection in
 * streams with extreme value theory", KDD 2017; J. Pickands, Ann. Stat. 3, 1975): what exceeds a high
 * quantile t follows a generalised Pareto distribution, so the score that is exceeded with
 * probability q is
 *
 *	threshold = t + sigma / gamma * ((q n / N)^-gamma - 1)
 *
 * with n scores seen, N of them above t. Of few scores no point estimate of gamma and sigma keeps a
 * budget, however good: what is too low costs more alarms than what is too high saves. So all shapes
 * and scales are weighed by how likely they make the excesses, times what is thought of shapes
 * beforehand (enum sl_tail; of scales nothing: Jeffreys), and the probabilities to exceed a threshold add up with these
 * weights: the posterior predictive distribution (S. G. Coles, J. A. Tawn, Appl. Stat. 45, 1996; priors
 * for shapes: E. S. Martins, J. R. Stedinger, Water Resour. Res. 36, 2000). The expected number of
 * alarms is then the budget for any n, over tails as the prior has them; the threshold starts wide and
 * comes down as more is known. sigma and gamma are those of the tail with the median and the threshold
 * of that distribution. With q n >= N the threshold lies among the scores seen, and their quantile is
 * taken.
 *
 * Above t are min(n / 5, 3 sqrt(n)) scores at first (A. Vehtari et al., "Pareto smoothed importance
 * sampling", JMLR 25, 2024), chosen anew with each doubling up to 512; then t rises until a twentieth
 * are.
 *
 * One score a step is counted, the largest of its rows: rows of one step depend on each other, and
 * an alarm is one however many rows it has.
 *
 * Drift: a one-sided CUSUM (E. S. Page, Biometrika 41, 1954) over "above the 90th percentile of what
 * was learned": S = max(0, S + [above] - 0.25), alarm at S > 8. At the 10 % that are usual, S falls
 * by 0.15 a step; an alarm means that a quarter or more of the scores stayed above for long, so
 * the model no longer fits and should be trained again.
 */
#ifndef SL_ANALYSE_CALIBRATE_H
#define SL_ANALYSE_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "analyse/blob.h"

#define SL_SCORES 512u /* scores that the quantiles are of */
#define SL_PEAKS 256u

/* What is thought of gamma before a score was seen. */
enum sl_tail {
	/*
	 * Scores are sums of -log p, which make exponential tails, gamma = 0, if the p are right: a normal
	 * distribution of mean 0.10 and deviation 0.122, as Martins and Stedinger have it.
	 */
	SL_TAIL_LOG_P,
	SL_TAIL_ANY, /* rather heavy, as what services do is: mean and deviation 0.2 */
};

struct sl_calibration {
	double q;	   /* false alarms a step */
	enum sl_tail tail;
	uint64_t n, peaks; /* scores learned, those of them above t */
	double t, sigma, gamma, threshold;
	double median, q90;
	double drift; /* S */
	bool stale; /* of what was learned since, threshold, sigma and gamma know nothing */
	uint64_t random;
	uint32_t kept, excess_n;
	float scores[SL_SCORES]; /* a uniform sample of what was learned (reservoir) */
	float excess[SL_PEAKS]; /* and of those above t, how far */
};

/* q: the share of steps that may raise a false alarm, (0, 0.5]. -EINVAL. */
int sl_calibration_init(struct sl_calibration *c, double q, enum sl_tail tail, uint64_t seed);
/* The largest score of a step that is taken as normal. */
void sl_calibration_learn(struct sl_calibration *c, double score);
/*
 * The same where scores above the threshold are kept out: their absence would lower the threshold,
 * which would keep out more. So for each score learned one from the fitted tail beyond the threshold
 * is learned with probability q / (1 - q), as often as normal steps get there.
 */
void sl_calibration_learn_gated(struct sl_calibration *c, double score);
/* Another budget for the same scores. -EINVAL. */
int sl_calibration_budget(struct sl_calibration *c, double q);
/* Any step's largest score, for drift. True while drift is on. */
bool sl_calibration_watch(struct sl_calibration *c, double score);
/* False until enough is known (32 scores). */
bool sl_calibration_known(const struct sl_calibration *c);
/* +INFINITY until then. */
double sl_calibration_threshold(struct sl_calibration *c);
/*
 * The probability that a normal step scores as much, 1 .. 1e-12: empirical below t, from the fitted
 * tail above.
 */
double sl_calibration_p(struct sl_calibration *c, double score);

void sl_calibration_save(const struct sl_calibration *c, struct sl_blob *to);
/* Keeps q. -EINVAL for what can't have been saved. */
int sl_calibration_load(struct sl_calibration *c, struct sl_blob *from);
void sl_calibration_merge(struct sl_calibration *c, const struct sl_calibration *from);

#endif
