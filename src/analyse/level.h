/* SPDX-License-Identifier: Apache-2.0 */
/*
 * level.h - recent and usual levels of one latency quantile, and how far one strays from the other.
 * Not thread-safe; nothing is allocated.
 */
#ifndef SL_ANALYSE_LEVEL_H
#define SL_ANALYSE_LEVEL_H

#include <stdbool.h>
#include <stdint.h>

#include "sketch/blob.h"

#define ANALYSE_NOW  2u	  /* steps whose mean is the current level */
#define ANALYSE_BASE 60u  /* steps before them, whose median is the usual one */
#define ANALYSE_BINS 128u /* of deviations from the usual level */

/* Logarithms of seconds. */
struct analyse_level {
	float recent[ANALYSE_NOW], ring[ANALYSE_BASE], sorted[ANALYSE_BASE];
	uint16_t bins[ANALYSE_BINS]; /* deviations at steps taken as normal */
	float now, usual, spread;
	uint8_t n, at;
};

void analyse_level_init(struct analyse_level *l);
/*
 * The level of a step; next: of a new one. recents: steps before it, at most ANALYSE_NOW, that are
 * known; fresh: those since time jumped, with it.
 */
void analyse_level_push(struct analyse_level *l, float x, uint32_t recents, uint32_t fresh,
			bool next);
/* The current level is taken as normal: its deviation counts for the spread. */
void analyse_level_learn(struct analyse_level *l);
/* Earlier levels say nothing of the next; the spread stays. */
void analyse_level_forget(struct analyse_level *l);

#endif
