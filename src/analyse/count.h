/* SPDX-License-Identifier: Apache-2.0 */
/*
 * count.h - the surprise of a number of errors. Errors are events: at a rate lambda, w seconds have
 * Poisson(lambda w) of them. lambda is learned from seconds considered normal, with Jeffreys' prior
 * Gamma(1/2, 0): after n errors in T seconds, the number in the next w seconds has a negative
 * binomial distribution (J. M. Bernardo, A. F. M. Smith, Bayesian Theory, 1994, 5.2). So an error
 * counter that leaves 0 after a minute is evidence at once, but one that always counts is not.
 */
#ifndef SL_ANALYSE_COUNT_H
#define SL_ANALYSE_COUNT_H

#define ANALYSE_COUNT_MEMORY 3600.0f /* seconds learned at full weight */
#define ANALYSE_COUNT_MOST   50.0f   /* upper limit of the surprise */

struct analyse_count_past {
	float events, seconds; /* totals over seconds considered normal */
};

void analyse_count_learn(struct analyse_count_past *p, float events, float seconds);
/* Returns -log P(at least this many events in w seconds), 0 to ANALYSE_COUNT_MOST. */
float analyse_count_surprise(const struct analyse_count_past *p, float events, float w);

#endif
