/* SPDX-License-Identifier: Apache-2.0 */
/*
 * normalise.h - turns values of any unit into rows that detectors can compare. Each column learns
 * its location, spread and usual move online, robust against abnormal values. docs/analytics.md,
 * Normalisation, defines z and move and has the sources.
 *
 * Distances are counted in a histogram of ANALYSE_BINS bins, four per octave (as in HDR histograms
 * and DDSketch: C. Masson, J. Rim, H. Lee, VLDB 2019), accurate to 13 % over 24 octaves. All counts
 * are halved at 8192, so old ones fade. A step counts its largest distance once, so probabilities
 * are per step, like thresholds. Baselines take one value per step, the mean of its rows. Arrays
 * have one column per lane.
 */
#ifndef SL_ANALYSE_NORMALISE_H
#define SL_ANALYSE_NORMALISE_H

#include <stdbool.h>
#include <stdint.h>

#include "sketch/blob.h"

#define ANALYSE_FAST	 3u
#define ANALYSE_SLOW	 40u
#define ANALYSE_BINS	 96u
#define ANALYSE_FAR	 1000.0f /* limit of |z| */
#define ANALYSE_MOVE_FAR 1e6f	 /* limit of |move|: beyond it, power laws are guesses */
/*
 * Beyond the usual moves, the move that has probability p is ANALYSE_MOVE_ONCE / p: a power law of
 * index 1 through the 99th percentile of a normal distribution.
 */
#define ANALYSE_MOVE_ONCE 0.02576f

struct analyse_normaliser {
	uint32_t dims; /* number of columns, a multiple of ANALYSE_ROW_LANES */
	/* judge a column that moves in less than a hundredth of the steps by how often it moves */
	bool rare;
	float *mean, *m2, *n; /* Welford's algorithm; n is capped, so old values fade */
	/* distance of the last row from the baselines; largest distance in the step */
	float *distance, *peak;
	uint16_t *bins;	       /* per column, ANALYSE_BINS counts of distances */
	uint32_t *still;       /* counts of distances too small for a bin */
	int16_t *base;	       /* index of the first bin; undefined while all bins are empty */
	float *trend, *before; /* mean change per step; value of the last step, if learned */
	float *sum, *sum_n;    /* sum and number of values in the current step */
	float *fast, *slow;    /* baselines; NaN if unknown */
	float *last;	       /* ANALYSE_FAST rows: the last steps, latest first; NaN if missing */
	float *ring;	       /* ANALYSE_SLOW rows: the steps of the slow baseline */
	float *sorted;	       /* per column, the ANALYSE_SLOW values of ring in sorted order */
	uint8_t *ring_n, *ring_at;
	uint8_t *wait;		  /* number of counts until a usual move is known */
	float *inv_sd, *inv_move; /* derived from the arrays above */
	float *block;		  /* allocation for all arrays */
};

/* Returns 0, -ENOMEM or -EINVAL. */
int analyse_normaliser_init(struct analyse_normaliser *n, uint32_t dims);
void analyse_normaliser_free(struct analyse_normaliser *n);
/* Resets column c, which is about to hold another series. */
void analyse_normaliser_forget(struct analyse_normaliser *n, uint32_t c);
/*
 * Call when the time has jumped. Discards the recent levels of all columns and keeps the learned
 * state.
 */
void analyse_normaliser_jump(struct analyse_normaliser *n);
/* Restarts the fast baseline of column c at x. */
void analyse_normaliser_follow(struct analyse_normaliser *n, uint32_t c, float x);
/*
 * Moves the baselines of a held column by its trend, if it has one (for example, a disk that fills
 * up).
 */
void analyse_normaliser_drift(struct analyse_normaliser *n, uint32_t c);
/*
 * Makes x the present level of column c, and discards its usual move, which is learned again; the
 * slow baseline still knows the level before.
 */
void analyse_normaliser_accept(struct analyse_normaliser *n, uint32_t c, float x);
/* Prefetches the arrays for the next row (fetch.h). */
void analyse_normaliser_fetch(const struct analyse_normaliser *n);
/* x, z, move: dims each. A NaN input gives NaN outputs. */
void analyse_normalise(struct analyse_normaliser *n, const float *x, float *z, float *move);
/* Adds the last normalised row to the current step. */
void analyse_normaliser_add(struct analyse_normaliser *n, const float *x);
enum analyse_count {
	ANALYSE_COUNT, /* count the step's distances */
	/*
	 * do not count them; but if `rare` is set, the distance of a column that rarely moves is
	 * kept, and counted with the next step that counts
	 */
	ANALYSE_COUNT_NOT,
	/* count only the largest of several steps, once they are over; a rare move at once */
	ANALYSE_COUNT_LATER,
};
/*
 * Ends the step. Its means enter the fast and, if slow is set, the slow baselines, except for held
 * columns (held[dims]; NULL means none). learn: learn location and spread. count: how to count the
 * step's distances.
 */
void analyse_normaliser_step(struct analyse_normaliser *n, bool learn, enum analyse_count count,
			     bool slow, const bool *held);

/* Saves or loads the learned state of column c; resets the column if b fails. */
void analyse_normaliser_io(struct analyse_normaliser *n, uint32_t c, struct sketch_blob *b);
void analyse_normaliser_merge_column(struct analyse_normaliser *n, uint32_t c,
				     const struct analyse_normaliser *m, uint32_t d);

#endif
