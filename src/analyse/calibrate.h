/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calibrate.h - from a score to a decision, without labels: the user says how many false alarms an
 * hour are fine, and the threshold follows. Knows no detector and no clock: it counts steps.
 *
 * Peaks over threshold (A. Siffer, P.-A. Fouque, A. Termier, C. Largouet, "Anomaly detection in
 * streams with extreme value theory", KDD 2017; J. Pickands, Ann. Stat. 3, 1975): what exceeds a
 * high quantile t follows a generalised Pareto distribution, so the score that is exceeded with
 * probability q is
 *
 * 	threshold = t + sigma / gamma * ((q n / N)^-gamma - 1)
 *
 * with n scores seen, N of them above t. Of few scores no point estimate of gamma and sigma keeps a
 * budget, however good: what is too low costs more alarms than what is too high saves. So all
 * shapes and scales are weighed by how likely they make the excesses, times what is thought of
 * shapes beforehand (enum analyse_tail; of scales nothing: Jeffreys), and the probabilities to
 * exceed a threshold add up with these weights: the posterior predictive distribution (S. G. Coles,
 * J. A. Tawn, Appl. Stat. 45, 1996; priors for shapes: E. S. Martins, J. R. Stedinger, Water
 * Resour. Res. 36, 2000). The expected number of alarms is then the budget for any n, over tails as
 * the prior has them; the threshold starts wide and comes down as more is known. sigma and gamma
 * are those of the tail with the median and the threshold of that distribution. With q n >= N the
 * threshold lies among the scores seen, and their quantile is taken.
 *
 * Above t are min(n / 5, 3 sqrt(n)) scores at first (A. Vehtari et al., "Pareto smoothed importance
 * sampling", JMLR 25, 2024), chosen anew with each doubling up to 512; then t rises until a
 * twentieth are.
 *
 * One score a step is counted, the largest of its rows: rows of one step depend on each other, and
 * an alarm is one however many rows it has.
 *
 * One of many, say a pod of a fleet, has scores of its own, and all have theirs together. How far
 * tails go is known of all alone; how often one gets into its tail is its own (proportional tails:
 * J. H. J. Einmahl, L. de Haan, C. Zhou, J. R. Stat. Soc. B 78, 2016), as far as that is known
 * (partial pooling, empirical Bayes: C. N. Morris, J. Am. Stat. Assoc. 78, 1983). With k of its n
 * scores above t, and of all the share p, its share is
 *
 * 	p' = (k + a) / (n + a / p)
 *
 * in place of N / n above, so that what is known beforehand weighs as much as a peaks do, as a
 * gamma distribution of shape a would. The logarithm of one has a variance of 1/a, about, and that
 * is what those of k / n vary by from one to the other beyond what k peaks would by chance, 1/k
 * (moments: R. DerSimonian, N. Laird, Control. Clin. Trials 7, 1986). If all are alike it is
 * nothing, and the threshold is that of all.
 *
 * Drift: a one-sided CUSUM (E. S. Page, Biometrika 41, 1954) over "above the 90th percentile of
 * what was learned": S = max(0, S + [above] - 0.25), alarm at S > 8. At the 10 % that are usual, S
 * falls by 0.15 a step; an alarm means that a quarter or more of the scores stayed above for long,
 * so the model no longer fits and should be trained again.
 */
#ifndef SL_ANALYSE_CALIBRATE_H
#define SL_ANALYSE_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "analyse/blob.h"

#define ANALYSE_SCORES 512u /* scores that the quantiles are of */
#define ANALYSE_PEAKS  256u

/* What is thought of gamma before a score was seen. */
enum analyse_tail {
	/*
	 * Scores are sums of -log p, which make exponential tails, gamma = 0, if the p are right: a
	 * normal distribution of mean 0.10 and deviation 0.122, as Martins and Stedinger have it.
	 */
	ANALYSE_TAIL_LOG_P,
	ANALYSE_TAIL_ANY, /* rather heavy, as what services do is: mean and deviation 0.2 */
};

struct analyse_calibration {
	double q; /* false alarms a step */
	enum analyse_tail tail;
	uint64_t n, peaks; /* scores learned, those of them above t */
	double t, sigma, gamma, threshold;
	double median, q90;
	double drift;  /* S */
	bool stale;    /* of what was learned since, threshold, sigma and gamma know nothing */
	uint64_t fits; /* of sigma and gamma, so far */
	double vary;   /* of all: 1/a, from one to the other */
	uint64_t compare_at; /* n, from which on that is to be found anew */
	struct {
		uint64_t n, fits; /* of its own scores, and of all, that it is of */
		double threshold;
	} pooled; /* not saved */
	uint64_t random;
	uint32_t kept, excess_n;
	float scores[ANALYSE_SCORES]; /* a uniform sample of what was learned (reservoir) */
	float excess[ANALYSE_PEAKS];  /* and of those above t, how far */
};

/* What a pod, or all of a fleet, knows: of the scores of steps, and of what runs of them add up to.
 */
struct analyse_thresholds {
	struct analyse_calibration step, run;
	bool settled; /* one of those that learn here is past its warm-up: what is usual is known */
};

/*
 * q: the share of steps that may raise a false alarm by either: half of it is each one's
 * (Bonferroni), or all of it the step's if no runs are looked at. -EINVAL.
 */
int analyse_thresholds_init(struct analyse_thresholds *t, double q, bool runs,
			    enum analyse_tail tail, uint64_t seed);

/* q: the share of steps that may raise a false alarm, (0, 0.5]. -EINVAL. */
int analyse_calibration_init(struct analyse_calibration *c, double q, enum analyse_tail tail,
			     uint64_t seed);
/* The largest score of a step that is taken as normal. */
void analyse_calibration_learn(struct analyse_calibration *c, double score);
/*
 * A step of an event that another step speaks for: it counts among n and in the quantiles, but as
 * no peak, as t at most (declustering: S. Coles, An Introduction to Statistical Modeling of Extreme
 * Values, 2001, 5.3.2).
 */
void analyse_calibration_learn_within(struct analyse_calibration *c, double score);
/*
 * The same where scores above the threshold are kept out: their absence would lower the threshold,
 * which would keep out more. So for each score learned one from the fitted tail beyond the
 * threshold is learned with probability q / (1 - q), as often as normal steps get there.
 */
void analyse_calibration_learn_gated(struct analyse_calibration *c, double score);
/* Another budget for the same scores. -EINVAL. */
int analyse_calibration_budget(struct analyse_calibration *c, double q);
/* Any step's largest score, for drift. True while drift is on. */
bool analyse_calibration_watch(struct analyse_calibration *c, double score);
/* False until enough is known (32 scores). */
bool analyse_calibration_known(const struct analyse_calibration *c);
/* +INFINITY until then. */
double analyse_calibration_threshold(struct analyse_calibration *c);
/*
 * That of one whose own scores are these, among all (which have learned its scores, too); see
 * above. +INFINITY until both are known. If own is all, or all are alike, that of all.
 */
double analyse_calibration_among(struct analyse_calibration *own, struct analyse_calibration *all);
/*
 * How much they differ: begins as {0}, then one after the other, and at the end all of them. To be
 * done when all->n reaches all->compare_at: 8 scores of each later.
 */
struct analyse_calibration_spread {
	uint32_t n;
	double sum, squares, chance;
};
void analyse_calibration_compare(struct analyse_calibration_spread *s,
				 const struct analyse_calibration *own,
				 const struct analyse_calibration *all);
void analyse_calibration_compared(const struct analyse_calibration_spread *s,
				  struct analyse_calibration *all);
/*
 * The probability that a normal step scores as much, 1 .. 1e-12: empirical below t, from the fitted
 * tail above.
 */
double analyse_calibration_p(struct analyse_calibration *c, double score);

void analyse_calibration_save(const struct analyse_calibration *c, struct analyse_blob *to);
/* Keeps q. -EINVAL for what can't have been saved. */
int analyse_calibration_load(struct analyse_calibration *c, struct analyse_blob *from);
void analyse_calibration_merge(struct analyse_calibration *c,
			       const struct analyse_calibration *from);

#endif
