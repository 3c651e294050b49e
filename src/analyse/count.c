// SPDX-License-Identifier: Apache-2.0
#include "analyse/count.h"

#include <math.h>

#define PRIOR 0.5 /* Jeffreys' prior */

void analyse_count_learn(struct analyse_count_past *p, float events, float seconds)
{
	float sum = p->seconds + seconds;

	if (sum > ANALYSE_COUNT_MEMORY) {
		p->events *= ANALYSE_COUNT_MEMORY / sum;
		p->seconds *= ANALYSE_COUNT_MEMORY / sum;
	}
	p->events += events;
	p->seconds += seconds;
}

float analyse_count_surprise(const struct analyse_count_past *p, float events, float w)
{
	double a = p->events + PRIOR, k = events, share, log_mass, ratio;

	if (!(p->seconds > 0) || !(w > 0) || !(k > 0) || k <= a * w / p->seconds)
		return 0;
	share = w / ((double)p->seconds + w);
	log_mass = lgamma(a + k) - lgamma(a) - lgamma(k + 1) + a * log1p(-share) + k * log(share);
	/* Above the mode, the masses fall at least as fast as a geometric series. */
	ratio = share * (a + k) / (k + 1);
	if (ratio >= 1)
		return 0;
	return (float)fmin(fmax(log1p(-ratio) - log_mass, 0), (double)ANALYSE_COUNT_MOST);
}
