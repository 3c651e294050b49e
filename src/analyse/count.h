/* SPDX-License-Identifier: Apache-2.0 */
/*
 * count.h - how surprising a number of errors is. Errors are events: while their rate is lambda, w
 * seconds have Poisson(lambda w) of them. lambda is learned from the seconds taken as normal, with
 * Jeffreys' prior Gamma(1/2, 0): after n errors in T seconds, w seconds to come have a negative
 * binomial number (J. M. Bernardo, A. F. M. Smith, Bayesian Theory, 1994, 5.2). So an error counter
 * that was 0 for a minute and leaves it is evidence at once, and one that always counts is not.
 */
#ifndef SL_ANALYSE_COUNT_H
#define SL_ANALYSE_COUNT_H

#define ANALYSE_COUNT_MEMORY 3600.0f /* seconds that are learned at full weight */
#define ANALYSE_COUNT_MOST   50.0f   /* of the surprise */

struct analyse_count_past {
	float events, seconds; /* learned as normal */
};

void analyse_count_learn(struct analyse_count_past *p, float events, float seconds);
/* -log P(at least this many events in w seconds), 0 to ANALYSE_COUNT_MOST. */
float analyse_count_surprise(const struct analyse_count_past *p, float events, float w);

#endif
