/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calibrate.h - a score threshold that keeps a budget of false alarms, without labels. Independent
 * of detectors and clocks: it counts steps. docs/analytics.md, Thresholds, has the method and its
 * sources: peaks over threshold, the posterior predictive distribution of their tail, partial
 * pooling between pods.
 *
 * The largest score of a step's rows represents the step: rows of a step depend on each other, and
 * cause one alarm. t is chosen again at each doubling up to 512 scores; then it rises until a
 * twentieth of the scores are above it.
 *
 * Drift: a one-sided CUSUM (E. S. Page, Biometrika 41, 1954) over "above the 90th percentile of the
 * learned scores": S = max(0, S + [above] - 0.25), alarm at S > 8. At the normal 10 %, S falls by
 * 0.15 per step. An alarm means that at least a quarter of the scores stayed above: the model no
 * longer fits and should be retrained.
 */
#ifndef SL_ANALYSE_CALIBRATE_H
#define SL_ANALYSE_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "sketch/blob.h"

#define ANALYSE_SCORES 512u /* number of scores kept for the quantiles */
#define ANALYSE_PEAKS  256u

/* Prior of gamma. */
enum analyse_tail {
	/*
	 * Scores are sums of -log p. If these p are right, the tails are exponential (gamma = 0).
	 * The prior of gamma is normal with mean 0.08 and deviation 0.1, close to the prior of
	 * Martins and Stedinger.
	 */
	ANALYSE_TAIL_LOG_P,
	/*
	 * Sums of several such scores. A single score that is far from exponential has little
	 * influence on a sum, so the prior has the same mean and half the deviation.
	 */
	ANALYSE_TAIL_SUM,
	/* Tails may be heavier, as they are in services: mean and deviation 0.2. */
	ANALYSE_TAIL_ANY,
};

struct analyse_calibration {
	double q; /* budget of false alarms per step */
	enum analyse_tail tail;
	uint64_t n, peaks; /* number of scores learned; number of those above t */
	double t, sigma, gamma, threshold;
	double median, q90;
	double drift;  /* S of the drift detector */
	bool stale;    /* threshold, sigma and gamma must be computed again from the scores */
	uint64_t fits; /* number of fits so far */
	double vary; /* 1/a, the variance between pods; used in the calibration of all pods only */
	uint64_t compare_at; /* value of n at which vary must be updated */
	struct {
		/* n of the pod, and fits of the fleet, when the threshold was computed */
		uint64_t n, fits;
		double threshold;
	} pooled; /* not saved */
	uint64_t random;
	uint32_t kept, excess_n;
	float scores[ANALYSE_SCORES]; /* a reservoir sample of the learned scores */
	float excess[ANALYSE_PEAKS];  /* a reservoir sample of the excesses over t */
};

/*
 * Kinds of evidence. Each has its own tail and threshold, so that a heavy tail of one kind does not
 * hide evidence of another.
 */
enum analyse_kind {
	ANALYSE_KIND_CULPRIT, /* evidence from all pods together (culprit.h) */
	ANALYSE_KIND_LATENCY,
	ANALYSE_KIND_RESOURCE,
	ANALYSE_KIND_ERRORS,
	ANALYSE_KIND_OTHER,
	ANALYSE_KINDS,
};

/*
 * The calibrations of a pod or of a whole fleet: one for the scores of steps, one for the sums of
 * runs, and one for each kind of evidence in a step. The pods of a fleet share the calibrations of
 * kinds.
 */
struct analyse_thresholds {
	struct analyse_calibration step, run;
	struct analyse_calibration *kind; /* ANALYSE_KINDS calibrations; NULL means none */
	bool settled; /* true once a pod that learns here has completed its warm-up */
};

/*
 * q: share of steps that may raise a false alarm. Half is for steps and half for runs (Bonferroni),
 * or all for steps if there are no runs. All kinds together get the same share as the steps,
 * because a score above the common threshold is usually above the threshold of its kind as well.
 * The culprit gets the shares of latencies and resources, which it replaces. The caller sets
 * t->kind. Returns 0 or -EINVAL.
 */
struct analyse_thresholds_opts {
	double q;
	bool runs;
	enum analyse_tail tail;
	uint64_t seed;
};
int analyse_thresholds_init(struct analyse_thresholds *t,
			    const struct analyse_thresholds_opts *opts);
/* Copies the budgets from `of` to t. */
void analyse_thresholds_budget(struct analyse_thresholds *t, const struct analyse_thresholds *of);

/* q in (0, 0.5]: share of steps that may raise a false alarm. Returns 0 or -EINVAL. */
int analyse_calibration_init(struct analyse_calibration *c, double q, enum analyse_tail tail,
			     uint64_t seed);
/* Learns the largest score of a step considered normal. */
void analyse_calibration_learn(struct analyse_calibration *c, double score);
/*
 * Learns a step of an event that another step already represents. It counts in n and in the
 * quantiles, but as at most t, so that it is not a peak (declustering: S. Coles, An Introduction to
 * Statistical Modeling of Extreme Values, 2001, 5.3.2).
 */
void analyse_calibration_learn_within(struct analyse_calibration *c, double score);
/*
 * Learns a score while scores above the threshold are withheld. Without the withheld scores, the
 * threshold would fall and even more scores would be withheld. Therefore, with probability q / (1 -
 * q) per score, this also learns a value drawn from the fitted tail beyond the threshold: normal
 * steps exceed it this often.
 */
void analyse_calibration_learn_gated(struct analyse_calibration *c, double score);
/* Changes the budget. Returns 0 or -EINVAL. */
int analyse_calibration_budget(struct analyse_calibration *c, double q);
/* Watches the largest score of every step for drift. Returns true while there is drift. */
bool analyse_calibration_watch(struct analyse_calibration *c, double score);
/* True after 32 scores. */
bool analyse_calibration_known(const struct analyse_calibration *c);
/* Returns the threshold; +INFINITY until it is known. */
double analyse_calibration_threshold(struct analyse_calibration *c);
/*
 * Returns the threshold to use before any score is known. Only for scores that are -log p by
 * definition, such as those of counts; it depends only on the budget.
 */
double analyse_calibration_prior(const struct analyse_calibration *c);
/*
 * Returns the threshold of a member, from its own scores and the scores of all members (which
 * include them); see above. +INFINITY until both are known. Returns the threshold of `all` if own
 * == all, or if the members do not differ.
 */
double analyse_calibration_among(struct analyse_calibration *own, struct analyse_calibration *all);
/*
 * Measures how much members differ: start with {0}, call analyse_calibration_compare() for each
 * member, and then analyse_calibration_compared(). Call them when all->n has reached
 * all->compare_at, which is after 8 scores per member.
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
 * Returns the probability that a normal step has at least this score, 1 to 1e-12: empirical below
 * t, from the fitted tail above.
 */
double analyse_calibration_p(struct analyse_calibration *c, double score);

/* Saves or loads; loading keeps q. Returns 0, or -EINVAL for input that cannot have been saved. */
int analyse_calibration_io(struct analyse_calibration *c, struct sketch_blob *b);
void analyse_calibration_merge(struct analyse_calibration *c,
			       const struct analyse_calibration *from);

#endif
