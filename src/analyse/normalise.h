/* SPDX-License-Identifier: Apache-2.0 */
/*
 * normalise.h - values of any unit to rows that detectors can compare: each column learns its own
 * location, spread and usual move, online, and robustly against what is not normal.
 *
 * z = (x - location) / spread: mean and deviation of the long run, by Welford's recurrence (B. P.
 * Welford, Technometrics 4, 1962) on values that are winsorised at 4 deviations (P. J. Huber, Ann.
 * Math. Stat. 35, 1964), so that one outlier moves them little.
 *
 * move: the smaller of the distances from the fast and the slow baseline (medians of the last
 * ANALYSE_FAST and ANALYSE_SLOW steps), and 0 if they lie on opposite sides; in units of the
 * column's usual move, that is the 99th percentile of these distances over 2.576, so 1 for a normal
 * distribution's deviation, but heavy tails widen it. A change that lasts is a move until the fast
 * baseline has followed (which a pipeline puts off while it finds the pod anomalous); the way back
 * is none, because the slow baseline is still there (which learns nothing while the pod is
 * anomalous).
 *
 * A column that never moved has no usual move. By the rule of succession (P.-S. Laplace, 1774) its
 * first one has the probability 1 / (2 + steps), and counts what has this probability on a power
 * law of index 1 through the 99th percentile, however large it is: 2.576 (2 + steps) / 100.
 *
 * Distances are counted in a histogram of ANALYSE_BINS bins, four an octave (as HDR histograms and
 * DDSketch have them: C. Masson, J. Rim, H. Lee, VLDB 2019), so they are right to 13 % over 24
 * octaves; all counts are halved when they reach 8192, which makes it forget. Of the rows of a step
 * the largest distance counts, so a probability is one of a step, as thresholds are.
 *
 * Baselines take one value a step: the mean of the rows within it. All arrays are one column a
 * lane.
 */
#ifndef SL_ANALYSE_NORMALISE_H
#define SL_ANALYSE_NORMALISE_H

#include <stdbool.h>
#include <stdint.h>

#include "analyse/blob.h"

#define ANALYSE_FAST	 3u
#define ANALYSE_SLOW	 40u
#define ANALYSE_BINS	 96u
#define ANALYSE_FAR	 1000.0f /* no z is further out */
#define ANALYSE_MOVE_FAR 1e6f	 /* and no move: beyond, power laws are no more than a guess */

struct analyse_normaliser {
	uint32_t dims;		/* a multiple of ANALYSE_ROW_LANES */
	float *mean, *m2, *n;	/* Welford: n is capped, which makes it forget */
	float *distance, *peak; /* from the baselines: the last row's; the step's largest */
	uint16_t *bins;		/* dims rows of ANALYSE_BINS: counts of distances */
	uint32_t *still;	/* of those too small for a bin */
	int16_t *base;		/* of the first bin; meaningless without any count in bins */
	float *sum, *sum_n;	/* of the step under way */
	float *fast, *slow;	/* baselines; NaN: not known */
	float *last;		/* ANALYSE_FAST rows: the last steps, the latest first; NaN: none */
	float *ring;		/* ANALYSE_SLOW rows: those that the slow baseline is of */
	float *sorted;		/* dims rows of ANALYSE_SLOW: each column's steps, sorted */
	uint8_t *ring_n, *ring_at;
	float *inv_sd, *inv_move; /* derived */
	float *block;		  /* all of the above is in it */
};

/* -ENOMEM, -EINVAL. */
int analyse_normaliser_init(struct analyse_normaliser *n, uint32_t dims);
void analyse_normaliser_free(struct analyse_normaliser *n);
/* Column c belongs to another series from now on: all it learned is forgotten. */
void analyse_normaliser_forget(struct analyse_normaliser *n, uint32_t c);
/* The recent levels of all columns are forgotten: time has jumped. What was learned stays. */
void analyse_normaliser_jump(struct analyse_normaliser *n);
/* x, z, move: dims. NaN in, NaN out. */
void analyse_normalise(struct analyse_normaliser *n, const float *x, float *z, float *move);
/* Adds the row that was normalised last to the step under way. */
void analyse_normaliser_add(struct analyse_normaliser *n, const float *x);
enum analyse_count {
	ANALYSE_COUNT, /* the step's distances */
	ANALYSE_COUNT_NOT,
	ANALYSE_COUNT_LATER, /* but for a column's first: with the steps to come, the largest of
				them once */
};
/*
 * Ends the step: its means enter the fast baselines and, if slow, the slow ones, but for columns
 * that are held (held[dims]; NULL: none is), location and spread learn, if learn, and its distances
 * are counted or not.
 */
void analyse_normaliser_step(struct analyse_normaliser *n, bool learn, enum analyse_count count,
			     bool slow, const bool *held);

void analyse_normaliser_save_column(const struct analyse_normaliser *n, uint32_t c,
				    struct analyse_blob *to);
void analyse_normaliser_load_column(struct analyse_normaliser *n, uint32_t c,
				    struct analyse_blob *from);
void analyse_normaliser_merge_column(struct analyse_normaliser *n, uint32_t c,
				     const struct analyse_normaliser *m, uint32_t d);

#endif
