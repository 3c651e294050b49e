/* SPDX-License-Identifier: Apache-2.0 */
/*
 * level.h - recent and usual levels of one latency quantile, and the spread between them. Not
 * thread-safe; nothing is allocated.
 */
#ifndef SL_ANALYSE_LEVEL_H
#define SL_ANALYSE_LEVEL_H

#include <stdbool.h>
#include <stdint.h>

#include "sketch/blob.h"

#define ANALYSE_NOW  2u	  /* number of steps whose mean is the current level */
#define ANALYSE_BASE 60u  /* number of steps before those, whose median is the usual level */
#define ANALYSE_BINS 128u /* bins for deviations from the usual level */

/* All values are logarithms of seconds. */
struct analyse_level {
	float recent[ANALYSE_NOW], ring[ANALYSE_BASE], sorted[ANALYSE_BASE];
	uint16_t bins[ANALYSE_BINS]; /* histogram of the deviations at normal steps */
	float now, usual, spread;
	uint8_t n, at;
};

void analyse_level_init(struct analyse_level *l);
/*
 * Adds the level of a step. next is true for a new step. recents is the number of known steps
 * before it, at most ANALYSE_NOW. fresh is the number of steps since the time jumped, including
 * this one.
 */
void analyse_level_push(struct analyse_level *l, float x, uint32_t recents, uint32_t fresh,
			bool next);
/* Call when the current level is considered normal. Its deviation then counts in the spread. */
void analyse_level_learn(struct analyse_level *l);
/* Discards earlier levels; keeps the spread. */
void analyse_level_forget(struct analyse_level *l);

#endif
