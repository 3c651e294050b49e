/* SPDX-License-Identifier: Apache-2.0 */
/*
 * normalise.h - turns values of any unit into rows that detectors can compare. Each column learns
 * its location, spread and usual move online, robust to what is not normal. docs/analytics.md,
 * Normalisation, defines z and move, with the sources.
 *
 * Distances are counted in a histogram of ANALYSE_BINS bins, four per octave (as in HDR histograms
 * and DDSketch: C. Masson, J. Rim, H. Lee, VLDB 2019): right to 13 % over 24 octaves. All counts
 * are halved at 8192, which makes it forget. A step counts its largest distance once, so
 * probabilities are per step, as thresholds are.
 *
 * Baselines take one value per step, the mean of its rows. Arrays hold one column per lane.
 */
#ifndef SL_ANALYSE_NORMALISE_H
#define SL_ANALYSE_NORMALISE_H

#include <stdbool.h>
#include <stdint.h>

#include "sketch/blob.h"

#define ANALYSE_FAST	 3u
#define ANALYSE_SLOW	 40u
#define ANALYSE_BINS	 96u
#define ANALYSE_FAR	 1000.0f /* bound of |z| */
#define ANALYSE_MOVE_FAR 1e6f	 /* bound of |move|: beyond, power laws are guesses */
/*
 * The move of probability p is ANALYSE_MOVE_ONCE / p beyond the usual ones: a power law of index 1
 * through the 99th percentile of a normal distribution.
 */
#define ANALYSE_MOVE_ONCE 0.02576f

struct analyse_normaliser {
	uint32_t dims;		/* a multiple of ANALYSE_ROW_LANES */
	float *mean, *m2, *n;	/* Welford; n is capped, which makes it forget */
	float *distance, *peak; /* from the baselines: of the last row; the largest of the step */
	uint16_t *bins;		/* dims rows of ANALYSE_BINS counts of distances */
	uint32_t *still;	/* counts of distances too small for a bin */
	int16_t *base;		/* of the first bin; meaningless while bins are empty */
	float *sum, *sum_n;	/* of the current step */
	float *fast, *slow;	/* baselines; NaN: unknown */
	float *last;		/* ANALYSE_FAST rows: the last steps, latest first; NaN: missing */
	float *ring;		/* ANALYSE_SLOW rows: the steps of the slow baseline */
	float *sorted;		/* dims rows of ANALYSE_SLOW: the same, sorted per column */
	uint8_t *ring_n, *ring_at;
	float *inv_sd, *inv_move; /* derived */
	float *block;		  /* holds all of the above */
};

/* -ENOMEM, -EINVAL. */
int analyse_normaliser_init(struct analyse_normaliser *n, uint32_t dims);
void analyse_normaliser_free(struct analyse_normaliser *n);
/* Forgets all of column c, which from now on belongs to another series. */
void analyse_normaliser_forget(struct analyse_normaliser *n, uint32_t c);
/* Forgets recent levels of all columns, as time has jumped, and keeps what was learned. */
void analyse_normaliser_jump(struct analyse_normaliser *n);
/* The next row is normalised soon (fetch.h). */
void analyse_normaliser_fetch(const struct analyse_normaliser *n);
/* x, z, move: dims each. NaN in, NaN out. */
void analyse_normalise(struct analyse_normaliser *n, const float *x, float *z, float *move);
/* Adds the row normalised last to the current step. */
void analyse_normaliser_add(struct analyse_normaliser *n, const float *x);
enum analyse_count {
	ANALYSE_COUNT, /* the step's distances */
	ANALYSE_COUNT_NOT,
	ANALYSE_COUNT_LATER, /* with later steps, the largest of them once; a column's first move at
				once */
};
/*
 * Ends the step. Its means enter the fast and, if slow, the slow baselines, except of held columns
 * (held[dims]; NULL: none). If learn, location and spread learn. count says how its distances
 * count.
 */
void analyse_normaliser_step(struct analyse_normaliser *n, bool learn, enum analyse_count count,
			     bool slow, const bool *held);

/* Saves or loads what column c has learned; forgets the column if b fails. */
void analyse_normaliser_io(struct analyse_normaliser *n, uint32_t c, struct sketch_blob *b);
void analyse_normaliser_merge_column(struct analyse_normaliser *n, uint32_t c,
				     const struct analyse_normaliser *m, uint32_t d);

#endif
