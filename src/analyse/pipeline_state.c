// SPDX-License-Identifier: Apache-2.0
/* pipeline_state.c - how well a pod is known, and the smallest fault that would be detected. */
#include <math.h>

#include "analyse/pipeline_internal.h"

/*
 * After this many scores, the threshold is within a fifth of its final value; after this many
 * steps, P99 of moves is known.
 */
#define READY_SCORES 300u
#define READY_STEPS  100u

/*
 * Returns the factor by which a metric must rise for its surprise alone to reach the evidence;
 * INFINITY if no rise suffices.
 */
static double smallest_factor(const struct analyse_normaliser *n, uint32_t s, double evidence)
{
	double level = isnan(n->slow[s]) ? (double)n->mean[s] : (double)n->slow[s];
	double move = exp(evidence);

	if (!(level > 0))
		return INFINITY;
	/*
	 * A metric that never moved has no unit, so its first move counts the same, whatever its
	 * size.
	 */
	if (n->inv_move[s] <= 0)
		return (double)ANALYSE_MOVE_ONCE * (n->still[s] + 2.0) >= move ? 1 : INFINITY;
	return move <= (double)ANALYSE_MOVE_FAR ? 1 + move / (double)n->inv_move[s] / level
						: INFINITY;
}

static bool is_p90(struct analyse_role role)
{
	return (role.kind == ANALYSE_ROLE_CLIENT || role.kind == ANALYSE_ROLE_SERVER) &&
	       role.part == ANALYSE_P90;
}

double analyse_pipeline_slowdown(const struct analyse_pipeline *p)
{
	double sum = 0;
	uint32_t n = 0;

	for (uint32_t s = 0; s < p->dims; s++) {
		const struct analyse_role role = p->slots[s].role;
		const double usual = (double)p->normaliser.slow[s], now = (double)p->x[s];

		/* An absent metric has no value. */
		if (role.kind != ANALYSE_ROLE_SERVER || role.part != ANALYSE_P90 || !(usual > 0) ||
		    !(now > 0))
			continue;
		sum += now / usual;
		n++;
	}
	return n ? sum / n : 0;
}

enum analyse_state analyse_pipeline_state(struct analyse_pipeline *p, double *least)
{
	double step = analyse_pipeline_threshold(p), latency, joint;
	bool ready;

	*least = INFINITY;
	if (isinf(step) || !p->opts.detector->comparable)
		return isinf(step) ? ANALYSE_LEARNING : ANALYSE_READY;
	latency = fmin(step, analyse_pipeline_kind_threshold(p, ANALYSE_KIND_LATENCY));
	joint = analyse_pipeline_kind_threshold(p, ANALYSE_KIND_CULPRIT);
	for (uint32_t s = 0; s < p->dims && !p->joint; s++)
		if (p->column_of[s] != ANALYSE_NONE && is_p90(p->slots[s].role))
			*least = fmin(*least, smallest_factor(&p->normaliser, s, fmax(latency, 1)));
	if (p->joint && p->suspect)
		*least = analyse_culprit_factor(p->suspect, fmax(joint, 1));
	ready = p->thresholds->step.n >= READY_SCORES && p->stats.learned >= READY_STEPS;
	return ready ? ANALYSE_READY : ANALYSE_COARSE;
}
