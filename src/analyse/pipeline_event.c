// SPDX-License-Identifier: Apache-2.0
/*
 * pipeline_event.c - judges as events what the size of a move does not show: errors, silence, and a
 * queue that only grows. An event of probability p counts as the move with this probability.
 */
#include <math.h>

#include "analyse/pipeline_internal.h"

#define SILENT_STEPS  10.0f /* number of steps of finished work before silence is judged */
#define SILENT_S      1.0f  /* a shorter silence may only mean that the machine is busy */
#define GROWTH_BUDGET 0.1   /* fraction of the budget of false alarms for growing queues */
#define GROWTH_PRIOR  10.0f /* prior: a queue grew after all but one of this many steps */

/*
 * Errors are judged as events, not by the change of their rate: a metric that never moved does not
 * show how far it may move. An event of probability p counts as the move with this probability
 * under the power law of other metrics' tails (normalise.h), so permanent errors weigh no more than
 * other metrics that always move. w: seconds covered by a rate.
 */
static void judge_errors(struct analyse_pipeline *p, double w)
{
	for (uint32_t s = 0; s < p->dims; s++) {
		const struct analyse_slot *slot = &p->slots[s];

		if (p->role[s] == ANALYSE_ROLE_ERRORS && slot->errors.seconds > 0 &&
		    !isnan(p->x[s]))
			p->move[s] = ANALYSE_MOVE_ONCE *
				     expf(analyse_count_surprise(&slot->errors, p->x[s] * (float)w,
								 (float)w));
	}
}

/*
 * Returns -log of the probability that no work is finished for this many seconds. The rate varies
 * between steps, so the number of events has a negative binomial distribution.
 */
static float silence_surprise(const struct analyse_normaliser *n, uint32_t s, float step_s,
			      float seconds)
{
	float mean = n->mean[s], usual = isnan(n->slow[s]) ? mean : fminf(mean, n->slow[s]);
	float expected = fmaxf(usual, 0) * seconds, var = n->m2[s] / n->n[s];
	float more = var - mean / step_s; /* variance beyond that of a Poisson distribution */
	float shape = more > 0 ? mean * mean / more : INFINITY;

	return isinf(shape) ? expected : shape * log1pf(expected / shape);
}

/* A rate is 0 only if nothing has been finished for rate_ns before the row. */
static uint64_t silent_for(const struct analyse_pipeline *p)
{
	uint64_t idle = p->last_ns - p->worked_ns;
	uint64_t silent = p->last_ns - p->silent_ns + p->opts.rate_ns;

	return idle > silent ? idle : silent;
}

/* Remembers the two longest silences that ended. */
static void note_pause(struct analyse_pipeline *p)
{
	if (p->silent_s > p->pause_s[0]) {
		p->pause_s[1] = p->pause_s[0];
		p->pause_s[0] = p->silent_s;
	} else if (p->silent_s > p->pause_s[1]) {
		p->pause_s[1] = p->silent_s;
	}
	p->silent_s = 0;
	p->silent_ns = 0;
}

/*
 * Treats a pod that finishes no work as an event, like errors. The request rate alone would not
 * show this: it can only fall to 0, which may not be far from its usual values. But the longer the
 * silence lasts, the less probable it is.
 */
static void judge_silence(struct analyse_pipeline *p)
{
	uint32_t most = ANALYSE_NONE;
	float surprise, seconds;

	if (p->stopped != ANALYSE_NONE)
		p->group[p->stopped] = ANALYSE_KIND_OTHER;
	p->stopped = ANALYSE_NONE;
	for (uint32_t s = 0; s < p->dims; s++) {
		if (p->role[s] != ANALYSE_ROLE_WORK || p->column_of[s] == ANALYSE_NONE)
			continue;
		if (p->x[s] > 0)
			p->worked_ns = p->last_ns;
		else if (p->x[s] == 0 && p->normaliser.n[s] >= SILENT_STEPS &&
			 (most == ANALYSE_NONE || p->normaliser.mean[s] > p->normaliser.mean[most]))
			most = s;
	}
	if (p->worked_ns >= p->last_ns)
		note_pause(p);
	if (most == ANALYSE_NONE || !p->worked_ns || p->worked_ns >= p->last_ns)
		return;
	p->silent_ns = p->silent_ns ?: p->last_ns;
	seconds = 1e-9f * (float)silent_for(p);
	if (seconds < SILENT_S)
		return;
	p->silent_s = seconds;
	surprise = silence_surprise(&p->normaliser, most, 1e-9f * (float)p->opts.step_ns, seconds);
	if (ANALYSE_MOVE_ONCE * expf(surprise) <= fabsf(p->move[most]))
		return;
	p->stopped = most;
	p->group[most] = ANALYSE_KIND_ERRORS;
	p->move[most] = -fminf(ANALYSE_MOVE_ONCE * expf(surprise), ANALYSE_MOVE_FAR);
}

/*
 * Treats a queue that only grows as an event. The probability of each further growth is the learned
 * frequency of growth after such a step. Therefore a queue that grows in most steps is not an
 * event, and neither is one within its usual length.
 */
static void judge_growth(struct analyse_pipeline *p)
{
	float most = (float)-log(GROWTH_BUDGET * p->q);

	if (p->grows != ANALYSE_NONE)
		p->group[p->grows] = (uint8_t)analyse_pipeline_kind_of(p->role[p->grows]);
	p->grows = ANALYSE_NONE;
	for (uint32_t s = 0; p->queues && s < p->dims; s++) {
		const struct analyse_slot *slot = &p->slots[s];
		float surprise;

		if (!slot->growth.judged || !slot->growth.steps || !(p->z[s] > ANALYSE_USUAL_SD) ||
		    p->column_of[s] == ANALYSE_NONE)
			continue;
		surprise = (float)slot->growth.steps * logf((slot->growth.after + GROWTH_PRIOR) /
							    (slot->growth.more + GROWTH_PRIOR - 1));
		if (surprise <= most)
			continue;
		most = surprise;
		p->grows = s;
	}
	if (p->grows == ANALYSE_NONE || ANALYSE_MOVE_ONCE * expf(most) <= fabsf(p->move[p->grows]))
		return;
	p->group[p->grows] = ANALYSE_KIND_ERRORS;
	p->move[p->grows] = fminf(ANALYSE_MOVE_ONCE * expf(most), ANALYSE_MOVE_FAR);
}

void analyse_pipeline_judge_events(struct analyse_pipeline *p, double w)
{
	judge_errors(p, w);
	judge_silence(p);
	judge_growth(p);
}
