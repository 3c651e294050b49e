// SPDX-License-Identifier: Apache-2.0
/*
 * pipeline_blame.c - which metrics are evidence, for which kind, and how much of a verdict each of
 * them explains.
 */
#include <math.h>
#include <string.h>

#include "analyse/fetch.h"
#include "analyse/pipeline_internal.h"

/* True if the metric's evidence is part of the evidence per kind. */
static bool counts_in_kind(const struct analyse_pipeline *p, uint32_t s)
{
	bool load = p->role[s] == ANALYSE_ROLE_LOAD || p->role[s] == ANALYSE_ROLE_WORK;

	return p->blame[s] > 0 && !(p->joint && load && s != p->stopped && s != p->grows);
}

/* Memory counts less, because it also grows when the processor is busy or requests wait. */
#define MEMORY_WEIGHT 0.33f

static float usual_value(const struct analyse_pipeline *p, uint32_t s)
{
	float slow = p->normaliser.slow[s];

	return isnan(slow) ? p->normaliser.mean[s] : slow;
}

/*
 * Returns the weight of a change: 1 for a factor of e or more, and less for smaller changes. If a
 * metric hardly ever changes, as with memory, a change of a few per cent is surprising, but rarely
 * the fault.
 */
static float change_of(const struct analyse_pipeline *p, uint32_t s)
{
	float ratio = p->x[s] / usual_value(p, s);

	return ratio > 0 && isfinite(ratio) ? fminf(fabsf(logf(ratio)), 1) : 1;
}

#define WHOLE 0.125f /* a change of this logarithm or more counts in full */

float analyse_pipeline_weigh_changes(struct analyse_pipeline *p)
{
	float sum = 0;

	for (uint32_t s = 0; s < p->dims; s++)
		if (p->blame[s] > 0) {
			p->blame[s] *= fminf(change_of(p, s) / WHOLE, 1);
			sum += p->blame[s];
		}
	return sum;
}

/*
 * Computes each metric's part of a verdict on the sum of all kinds (leading is ANALYSE_KINDS) or on
 * one kind. Divides by the kind's threshold, if it has one. A metric that moves with many others
 * contributes little, because they share a vote, but may be the one that moved most: its part is
 * the geometric mean of its contribution and its surprise.
 */
static void part_kinds(struct analyse_pipeline *p, enum analyse_kind leading, float *part)
{
	bool comparable = p->opts.detector->comparable;
	float weight[ANALYSE_KINDS];

	for (uint32_t k = 0; k < ANALYSE_KINDS; k++) {
		double threshold = comparable ? analyse_pipeline_kind_threshold(p, k) : INFINITY;
		bool counts = leading == k || (leading == ANALYSE_KINDS && !isnan(p->kind[k]));

		weight[k] = !counts	       ? 0
			    : isinf(threshold) ? 1
					       : (float)(1 / fmax(threshold, ANALYSE_EVIDENCE_MIN));
	}
	for (uint32_t s = 0; s < p->dims; s++) {
		float mine = p->blame[s];

		part[s] = 0;
		if (!counts_in_kind(p, s))
			continue;
		if (comparable)
			mine = sqrtf(mine * logf(fabsf(p->move[s])));
		part[s] = mine * weight[p->group[s]] * change_of(p, s);
	}
}

#define SLOW_LAYER 2.0f /* a layer that takes this many times its usual time is slow, */
#define SLOW_SHARE 0.1f /* if it adds at least this share of a request's usual time */

/* Returns the usual time of a request, or of the longest layer if requests are not measured. */
static float usual_request(const struct analyse_pipeline *p)
{
	float request = 0, layer = 0;

	for (uint32_t s = 0; s < p->dims; s++)
		if (p->slots[s].role.time == ANALYSE_TIME_REQUEST)
			request = fmaxf(request, usual_value(p, s));
		else if (p->slots[s].role.time == ANALYSE_TIME_LAYER)
			layer = fmaxf(layer, usual_value(p, s));
	return request > 0 ? request : layer;
}

static bool is_slow(const struct analyse_pipeline *p, uint32_t s, float usual_request)
{
	float usual = usual_value(p, s);

	return p->x[s] >= SLOW_LAYER * usual && p->x[s] - usual >= SLOW_SHARE * usual_request;
}

/*
 * A request is in one layer at a time, so the layer that adds most seconds is the one to name:
 * weights the part of each layer by the seconds that it has risen. The whole request is blamed only
 * for the seconds that no layer explains. A quantile covers a window of requests and rises over
 * several rows, so its usual level may have followed before a row was anomalous, and the layer then
 * has no part. A slow layer without a part is therefore given the largest part of all metrics.
 */
static void weigh_layers(const struct analyse_pipeline *p, float *part)
{
	float usual = usual_request(p), in_layer = 0, longest = SLOW_SHARE * usual, largest = 0;

	for (uint32_t s = 0; s < p->dims; s++) {
		float rise = p->x[s] - usual_value(p, s);

		largest = fmaxf(largest, part[s]);
		if (p->slots[s].role.time == ANALYSE_TIME_REQUEST)
			longest = fmaxf(longest, rise);
		else if (p->slots[s].role.time == ANALYSE_TIME_LAYER &&
			 (is_slow(p, s, usual) || part[s] > 0))
			in_layer = fmaxf(in_layer, rise);
	}
	longest = fmaxf(longest, in_layer);
	for (uint32_t s = 0; s < p->dims && in_layer > 0; s++) {
		float rise = fmaxf(p->x[s] - usual_value(p, s), 0);

		if (p->slots[s].role.time == ANALYSE_TIME_LAYER) {
			if (!(part[s] > 0) && is_slow(p, s, usual))
				part[s] = largest;
			part[s] *= rise / longest;
		} else if (p->slots[s].role.time == ANALYSE_TIME_REQUEST) {
			part[s] *= rise > in_layer ? 1 - in_layer / rise : 0;
		}
	}
}

/*
 * Divides the evidence that calls to the pod are delayed among its latencies, in proportion to how
 * far each is above its usual level. If none is, for example because the network is slow, all get
 * equal parts.
 */
static void part_late(const struct analyse_pipeline *p, float *part)
{
	uint32_t latencies = 0;
	float sum = 0;

	for (uint32_t i = 0; i < p->witnesses; i++)
		if (p->witness[i].role.kind != ANALYSE_ROLE_RESOURCE) {
			sum += analyse_culprit_rise(p->suspect, &p->witness[i].role);
			latencies++;
		}
	for (uint32_t i = 0; i < p->witnesses; i++)
		if (p->witness[i].role.kind != ANALYSE_ROLE_RESOURCE)
			part[p->witness[i].slot] +=
				p->delayed *
				(sum > 0 ? analyse_culprit_rise(p->suspect, &p->witness[i].role) /
						   sum
					 : 1 / (float)latencies);
}

/* Computes each metric's part of the evidence against this pod (analyse_observation). */
static void part_culprit(struct analyse_pipeline *p, float *part)
{
	uint32_t most[ANALYSE_RESOURCES];

	memset(part, 0, p->dims * sizeof(*part));
	analyse_pipeline_novelty(p, most);
	for (uint32_t k = 0; k < ANALYSE_RESOURCES; k++)
		if (most[k] != ANALYSE_NONE)
			part[most[k]] = logf(fabsf(p->move[most[k]])) * change_of(p, most[k]) *
					(k == ANALYSE_MEMORY ? MEMORY_WEIGHT : 1);
	if (p->delayed > 0)
		part_late(p, part);
	for (uint32_t s = 0; s < p->dims; s++) {
		enum analyse_kind k = p->group[s];
		float excess;

		if (k < ANALYSE_KIND_ERRORS || !counts_in_kind(p, s))
			continue;
		excess = p->kind[k] - (float)analyse_pipeline_kind_threshold(p, k);
		part[s] = p->blame[s] * fmaxf(excess, 0) / p->kind[k];
	}
}

/* If a verdict merely persists, its row may lack evidence: blames the metrics that are held. */
static void part_held(const struct analyse_pipeline *p, float *part)
{
	for (uint32_t s = 0; s < p->dims; s++)
		part[s] = p->held[s] ? logf(fmaxf(p->away[s], 1)) : 0;
}

/* Insertion sort in descending order, because the list is short. */
static void sort_parts(struct analyse_pipeline *p, const float *part, struct analyse_verdict *v)
{
	float sum = 0, least = 0;

	v->blamed = 0;
	for (uint32_t s = 0; s < p->dims; s++) {
		float share = part[s];
		uint32_t i;

		if (!(share > 0) || p->column_of[s] == ANALYSE_NONE)
			continue;
		sum += share;
		if (v->blamed == ANALYSE_BLAMED && share <= least)
			continue;
		i = v->blamed < ANALYSE_BLAMED ? v->blamed++ : ANALYSE_BLAMED - 1;
		for (; i > 0 && v->blame[i - 1].share < share; i--)
			v->blame[i] = v->blame[i - 1];
		v->blame[i].column = p->column_of[s];
		v->blame[i].share = share;
		least = v->blame[v->blamed - 1].share;
	}
	for (uint32_t i = 0; i < v->blamed; i++)
		v->blame[i].share /= sum;
}

static bool is_load(const struct analyse_pipeline *p, uint32_t s)
{
	const struct analyse_slot *slot = &p->slots[s];

	return p->role[s] == ANALYSE_ROLE_LOAD || p->role[s] == ANALYSE_ROLE_WORK ||
	       slot->growth.judged ||
	       (p->role[s] == ANALYSE_ROLE_RESOURCE && slot->role.part == ANALYSE_CPU);
}

void analyse_pipeline_rank_blame(struct analyse_pipeline *p, struct analyse_verdict *v)
{
	float *part = p->scratch;

	if (v->kind == ANALYSE_KIND_CULPRIT)
		part_culprit(p, part);
	else
		part_kinds(p, v->kind, part);
	weigh_layers(p, part);
	sort_parts(p, part, v);
	if (!v->blamed && v->anomalous) {
		part_held(p, part);
		sort_parts(p, part, v);
	}
	if (v->blamed) {
		analyse_fetch(p->normaliser.slow, p->dims * sizeof(float));
		analyse_fetch(p->x, p->dims * sizeof(float));
	}
	for (uint32_t i = 0; i < v->blamed; i++) {
		uint32_t s = p->slot_of[v->blame[i].column];

		v->blame[i].now = p->x[s];
		v->blame[i].before = usual_value(p, s);
		v->blame[i].load = is_load(p, s);
		v->blame[i].grows = s == p->grows;
	}
}

void analyse_pipeline_novelty(const struct analyse_pipeline *p, uint32_t most[ANALYSE_RESOURCES])
{
	float move[ANALYSE_RESOURCES] = {1, 1};

	for (uint32_t k = 0; k < ANALYSE_RESOURCES; k++)
		most[k] = ANALYSE_NONE;
	for (uint32_t i = 0; i < p->witnesses; i++) {
		struct analyse_role role = p->witness[i].role;
		uint32_t s = p->witness[i].slot;

		if (role.kind != ANALYSE_ROLE_RESOURCE || !(fabsf(p->move[s]) > move[role.part]))
			continue;
		move[role.part] = fabsf(p->move[s]);
		most[role.part] = s;
	}
}

void analyse_pipeline_weigh(struct analyse_pipeline *p)
{
	memset(p->kind, 0, sizeof(p->kind));
	p->kind[ANALYSE_KIND_CULPRIT] = NAN;
	for (uint32_t s = 0; s < p->dims; s++)
		if (counts_in_kind(p, s))
			p->kind[p->group[s]] += p->blame[s];
	if (p->joint)
		p->kind[ANALYSE_KIND_LATENCY] = p->kind[ANALYSE_KIND_RESOURCE] = NAN;
}
