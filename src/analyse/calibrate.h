/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calibrate.h - a threshold for scores that keeps a budget of false alarms, without labels. Knows
 * no detector and no clock: it counts steps. docs/analytics.md, Thresholds, has the method and its
 * sources: peaks over threshold, the posterior predictive distribution of their tail, partial
 * pooling between pods.
 *
 * Per step one score counts, the largest of its rows: rows of a step depend on each other, and they
 * make one alarm. At each doubling up to 512 scores t is chosen anew; then it rises until a
 * twentieth of the scores are above it.
 *
 * Drift: a one-sided CUSUM (E. S. Page, Biometrika 41, 1954) over "above the 90th percentile of
 * what was learned": S = max(0, S + [above] - 0.25), alarm at S > 8. At the normal 10 %, S falls by
 * 0.15 per step; an alarm means that a quarter of the scores or more stayed above, so the model no
 * longer fits and should be trained again.
 */
#ifndef SL_ANALYSE_CALIBRATE_H
#define SL_ANALYSE_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "sketch/blob.h"

#define ANALYSE_SCORES 512u /* scores kept for the quantiles */
#define ANALYSE_PEAKS  256u

/* The prior of gamma. */
enum analyse_tail {
	/*
	 * Scores are sums of -log p, whose tails are exponential, gamma = 0, if the p are right:
	 * normal with mean 0.08 and deviation 0.1, nearly as Martins and Stedinger.
	 */
	ANALYSE_TAIL_LOG_P,
	/*
	 * Sums of several such: what is far from exponential in one of them is diluted by the
	 * others. The same mean, half of the deviation.
	 */
	ANALYSE_TAIL_SUM,
	ANALYSE_TAIL_ANY, /* heavier, as in services: mean and deviation 0.2 */
};

struct analyse_calibration {
	double q; /* false alarms per step */
	enum analyse_tail tail;
	uint64_t n, peaks; /* scores learned; of them above t */
	double t, sigma, gamma, threshold;
	double median, q90;
	double drift;	     /* S */
	bool stale;	     /* threshold, sigma and gamma are older than the scores */
	uint64_t fits;	     /* number of fits so far */
	double vary;	     /* 1/a between pods; of all only */
	uint64_t compare_at; /* n at which vary is due again */
	struct {
		uint64_t n, fits; /* own n and fits of all for which threshold was computed */
		double threshold;
	} pooled; /* not saved */
	uint64_t random;
	uint32_t kept, excess_n;
	float scores[ANALYSE_SCORES]; /* a reservoir sample of what was learned */
	float excess[ANALYSE_PEAKS];  /* and of excesses over t */
};

/*
 * Kinds of evidence. Each has a tail and a threshold of its own, so that a heavy tail of one hides
 * nothing that another shows.
 */
enum analyse_kind {
	ANALYSE_KIND_CULPRIT, /* what the pods show together: culprit.h */
	ANALYSE_KIND_LATENCY,
	ANALYSE_KIND_RESOURCE,
	ANALYSE_KIND_ERRORS,
	ANALYSE_KIND_OTHER,
	ANALYSE_KINDS,
};

/*
 * Calibration of a pod or a whole fleet: of steps' scores, of the sums of runs, and of the score of
 * each kind of evidence in a step. The pods of a fleet share kinds.
 */
struct analyse_thresholds {
	struct analyse_calibration step, run;
	struct analyse_calibration *kind; /* ANALYSE_KINDS of them; NULL: none */
	bool settled;			  /* a pod that learns here is past its warm-up */
};

/*
 * q: the share of steps that may raise a false alarm: half for steps and half for runs
 * (Bonferroni), or all for steps without runs. Kinds share the half of steps once more, as what
 * exceeds the threshold of all together mostly exceeds that of its kind, too; the culprit takes the
 * share of latencies and that of resources, which it replaces. t->kind is set by the caller.
 * -EINVAL.
 */
struct analyse_thresholds_opts {
	double q;
	bool runs;
	enum analyse_tail tail;
	uint64_t seed;
};
int analyse_thresholds_init(struct analyse_thresholds *t,
			    const struct analyse_thresholds_opts *opts);
/* Changes the budgets of t to those of another. */
void analyse_thresholds_budget(struct analyse_thresholds *t, const struct analyse_thresholds *of);

/* q in (0, 0.5]: the share of steps that may raise a false alarm. -EINVAL. */
int analyse_calibration_init(struct analyse_calibration *c, double q, enum analyse_tail tail,
			     uint64_t seed);
/* Learns the largest score of a step taken as normal. */
void analyse_calibration_learn(struct analyse_calibration *c, double score);
/*
 * Learns a step of an event that another step represents: it counts in n and the quantiles, but
 * with at most t, so not as a peak (declustering: S. Coles, An Introduction to Statistical Modeling
 * of Extreme Values, 2001, 5.3.2).
 */
void analyse_calibration_learn_within(struct analyse_calibration *c, double score);
/*
 * Learns where scores above the threshold are withheld. Their absence would lower the threshold,
 * which would withhold more, so with each score, with probability q / (1 - q), one drawn from the
 * fitted tail beyond the threshold is learned: as often as normal steps get there.
 */
void analyse_calibration_learn_gated(struct analyse_calibration *c, double score);
/* Changes the budget. -EINVAL. */
int analyse_calibration_budget(struct analyse_calibration *c, double q);
/* Watches any step's largest score for drift. True while there is drift. */
bool analyse_calibration_watch(struct analyse_calibration *c, double score);
/* True from 32 scores on. */
bool analyse_calibration_known(const struct analyse_calibration *c);
/* +INFINITY until known. */
double analyse_calibration_threshold(struct analyse_calibration *c);
/*
 * That of scores which are -log p by themselves, as of counts, before any is known: only the budget
 * matters.
 */
double analyse_calibration_prior(const struct analyse_calibration *c);
/*
 * The threshold of one with its own scores among all (which have learned them too); see above.
 * +INFINITY until both are known. If own is all, or all are alike, the threshold of all.
 */
double analyse_calibration_among(struct analyse_calibration *own, struct analyse_calibration *all);
/*
 * How much members differ: starts as {0}, compare each, then compared() for all. Due when all->n
 * reaches all->compare_at, 8 scores of each later.
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
 * The probability that a normal step scores as much, 1 to 1e-12: empirical below t, from the fitted
 * tail above.
 */
double analyse_calibration_p(struct analyse_calibration *c, double score);

/* Saves or loads; loading keeps q. -EINVAL for what cannot have been saved. */
int analyse_calibration_io(struct analyse_calibration *c, struct sketch_blob *b);
void analyse_calibration_merge(struct analyse_calibration *c,
			       const struct analyse_calibration *from);

#endif
