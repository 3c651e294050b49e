// SPDX-License-Identifier: Apache-2.0
/* pipeline.c - turns rows of values into verdicts; see pipeline.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analyse/fetch.h"
#include "analyse/odd.h"
#include "analyse/pipeline_internal.h"

_Static_assert(ANALYSE_KINDS <= (int)ANALYSE_GROUPS, "a kind of evidence is a group of a row");

#define FLOATS 6    /* number of float arrays of dims */
#define LARGE  1e15 /* squares of larger values overflow a float */
/* number of steps that the time may jump, forwards or back, before recent levels are stale */
#define GAP_STEPS     10u
#define THRESHOLD_MIN 1e-3f
/*
 * A score must exceed the threshold by this fraction of the threshold's distance from the median.
 * Otherwise scores of a cluster could exceed a threshold that is within the cluster.
 */
#define MARGIN	      0.02
#define HOUR_NS	      3600000000000.0
#define RUNS_NS	      60000000000u /* steps of this length or longer have no runs */
#define WARMING_NS    60000000000u /* time in which a pod that inherits a model fills its caches */
#define SILENT_STEPS  10.0f	   /* number of steps of finished work before silence is judged */
#define USUAL_SD      3		   /* a level this many deviations from the mean is still normal */
#define GROWTH_BUDGET 0.1	   /* fraction of the budget of false alarms for growing queues */
#define GROWTH_PRIOR  10.0f	   /* prior: a queue grew after all but one of this many steps */
#define SILENT_S      1.0f	   /* a shorter silence may only mean that the machine is busy */
#define MINE	      0.5f /* probability above which a pod's symptoms are considered its own */

/* FNV-1a, 64 bits (G. Fowler, L. C. Noll, K.-P. Vo). Never returns 0. */
static uint64_t key_of(const char *name)
{
	uint64_t h = 0xcbf29ce484222325;

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 0x100000001b3;
	return h ? h : 1;
}

void analyse_pipeline_free(struct analyse_pipeline *p)
{
	if (!p)
		return;
	analyse_detector_destroy(p->opts.shadow, p->shadow);
	analyse_detector_destroy(p->opts.detector, p->detector);
	analyse_normaliser_free(&p->normaliser);
	analyse_reading_free(&p->reading);
	free(p->own.kind);
	free(p->held);
	free(p->back);
	free(p->witness);
	free(p->role);
	free(p->group);
	free(p->floats);
	free(p->slot_of);
	free(p->column_of);
	free(p->keys);
	free(p->slots);
	free(p);
}

static enum analyse_tail tail_of(const struct analyse_detector_ops *ops)
{
	return ops->comparable ? ANALYSE_TAIL_SUM : ANALYSE_TAIL_ANY;
}

bool analyse_pipeline_has_runs(const struct analyse_pipeline *p)
{
	return p->opts.detector->comparable && p->opts.step_ns < RUNS_NS;
}

int analyse_pipeline_init_thresholds(const struct analyse_pipeline *p, struct analyse_thresholds *t)
{
	return analyse_thresholds_init(
		t, &(struct analyse_thresholds_opts){.q = p->q,
						     .runs = analyse_pipeline_has_runs(p),
						     .tail = tail_of(p->opts.detector),
						     .seed = p->opts.seed});
}

static int init_calibrations(struct analyse_pipeline *p)
{
	const struct analyse_detector_ops *ops = p->opts.shadow ? p->opts.shadow : p->opts.detector;
	int err = analyse_pipeline_init_thresholds(p, &p->own);

	return err ? err
		   : analyse_calibration_init(&p->shadow_calibration, p->q, tail_of(ops),
					      p->opts.seed);
}

void *analyse_pipeline_new_detector(const struct analyse_pipeline *p,
				    const struct analyse_detector_ops *ops)
{
	struct analyse_detector_opts o = p->opts.detail;

	o.dims = p->dims;
	o.seed = p->opts.seed;
	return ops->create(&o);
}

/* Returns false if out of memory. */
static bool alloc_slots(struct analyse_pipeline *p)
{
	p->floats = aligned_alloc(64, FLOATS * (size_t)p->dims * sizeof(float));
	p->slot_of = calloc(p->dims, sizeof(*p->slot_of));
	p->column_of = calloc(p->dims, sizeof(*p->column_of));
	p->slots = calloc(p->dims, sizeof(*p->slots));
	p->keys = calloc(p->dims, sizeof(*p->keys));
	p->role = calloc(p->dims, sizeof(*p->role));
	p->group = calloc(p->dims, sizeof(*p->group));
	p->held = calloc(p->dims, sizeof(*p->held));
	p->back = calloc(p->dims, sizeof(*p->back));
	p->witness = calloc(p->dims, sizeof(*p->witness));
	if (!p->held || !p->back || !p->witness || !p->role || !p->group || !p->floats ||
	    !p->slot_of || !p->column_of || !p->slots || !p->keys ||
	    analyse_normaliser_init(&p->normaliser, p->dims) ||
	    analyse_reading_init(&p->reading, p->dims, p->opts.rate_ns))
		return false;
	p->normaliser.rare = analyse_pipeline_has_runs(p);
	p->x = p->floats;
	p->z = p->x + p->dims;
	p->move = p->z + p->dims;
	p->blame = p->move + p->dims;
	p->scratch = p->blame + p->dims;
	p->away = p->scratch + p->dims;
	for (uint32_t i = 0; i < FLOATS * p->dims; i++)
		p->floats[i] = NAN;
	for (uint32_t i = 0; i < p->dims; i++)
		p->slot_of[i] = p->column_of[i] = ANALYSE_NONE;
	return true;
}

struct analyse_pipeline *analyse_pipeline_create(const struct analyse_pipeline_opts *opts)
{
	struct analyse_pipeline *p = calloc(1, sizeof(*p));
	struct analyse_pipeline_opts *o;
	int err = EINVAL;

	if (!p)
		return NULL;
	p->own.kind = calloc(ANALYSE_KINDS, sizeof(*p->own.kind));
	o = &p->opts;
	if (opts)
		*o = *opts;
	o->columns = o->columns ?: 64;
	o->step_ns = o->step_ns ?: 1000000000;
	o->hold_ns = o->hold_ns ?: ANALYSE_HOLD_NS;
	o->false_alarms = o->false_alarms ?: 1;
	o->eta = o->eta ?: 0.05;
	o->detector = o->detector ?: &analyse_detector_combined;
	p->dims = (o->columns + ANALYSE_ROW_LANES - 1) / ANALYSE_ROW_LANES * ANALYSE_ROW_LANES;
	p->q = o->false_alarms * (double)o->step_ns / HOUR_NS;
	/* A higher rate of alarms would be meaningless. */
	if (p->q > 0.5)
		p->q = 0.5;
	if (!p->own.kind || o->columns > ANALYSE_ROW_MAX || !(o->eta >= 0 && o->eta <= 1) ||
	    init_calibrations(p))
		goto fail;
	p->thresholds = &p->own;
	p->random = o->seed;
	p->stopped = p->grows = ANALYSE_NONE;
	for (uint32_t k = 0; k < ANALYSE_KINDS; k++)
		p->step_kind[k] = NAN;
	err = ENOMEM;
	if (!alloc_slots(p))
		goto fail;
	p->detector = analyse_pipeline_new_detector(p, o->detector);
	if (p->detector && o->shadow)
		p->shadow = analyse_pipeline_new_detector(p, o->shadow);
	if (p->detector && !o->shadow == !p->shadow)
		return p;
	err = errno;
fail:
	analyse_pipeline_free(p);
	errno = err;
	return NULL;
}

/* ---- columns ---- */

/* The kind of evidence that a metric of this role gives. */
static enum analyse_kind kind_of_role(enum analyse_role_kind role)
{
	static const uint8_t kind[] = {
		[ANALYSE_ROLE_OTHER] = ANALYSE_KIND_OTHER,
		[ANALYSE_ROLE_LOAD] = ANALYSE_KIND_OTHER,
		[ANALYSE_ROLE_LATENCY] = ANALYSE_KIND_LATENCY,
		[ANALYSE_ROLE_CLIENT] = ANALYSE_KIND_LATENCY,
		[ANALYSE_ROLE_SERVER] = ANALYSE_KIND_LATENCY,
		[ANALYSE_ROLE_RESOURCE] = ANALYSE_KIND_RESOURCE,
		[ANALYSE_ROLE_ERRORS] = ANALYSE_KIND_ERRORS,
		[ANALYSE_ROLE_WORK] = ANALYSE_KIND_OTHER,
		[ANALYSE_ROLE_OTHERS] = ANALYSE_KIND_OTHER,
	};

	return kind[role];
}

static void place_column(struct analyse_pipeline *p, uint32_t c, uint32_t s,
			 const struct analyse_column *column)
{
	struct analyse_slot *slot = &p->slots[s];

	if (slot->counter != column->counter)
		analyse_normaliser_forget(&p->normaliser, s);
	slot->counter = column->counter;
	slot->role = analyse_role_of(column->name, column->counter);
	slot->seen = p->layout;
	slot->counted = NAN;
	slot->growth.judged = analyse_pipeline_has_runs(p) &&
			      analyse_role_waits(column->name, column->counter);
	slot->growth.steps = 0;
	for (uint32_t i = 0; i < ANALYSE_GROWTH; i++)
		slot->growth.step[i] = NAN;
	p->queues += slot->growth.judged;
	analyse_reading_place(&p->reading, s, column->counter);
	p->role[s] = slot->role.kind;
	p->group[s] = (uint8_t)kind_of_role(slot->role.kind);
	p->slot_of[c] = s;
	p->column_of[s] = c;
}

static void find_witnesses(struct analyse_pipeline *p)
{
	p->witnesses = 0;
	for (uint32_t s = 0; s < p->dims; s++) {
		struct analyse_role role = p->slots[s].role;

		if (p->column_of[s] != ANALYSE_NONE &&
		    (role.kind == ANALYSE_ROLE_CLIENT || role.kind == ANALYSE_ROLE_SERVER ||
		     role.kind == ANALYSE_ROLE_RESOURCE))
			p->witness[p->witnesses++] = (struct analyse_witness){(uint16_t)s, role};
	}
}

/*
 * Returns a free slot, or the slot of the series that has been absent the longest, or ANALYSE_NONE
 * if all are in use.
 */
static uint32_t new_place(const struct analyse_pipeline *p)
{
	uint32_t oldest = ANALYSE_NONE;

	for (uint32_t s = 0; s < p->dims; s++) {
		if (!p->keys[s])
			return s;
		if (p->slots[s].seen < p->layout &&
		    (oldest == ANALYSE_NONE || p->slots[s].seen < p->slots[oldest].seen))
			oldest = s;
	}
	return oldest;
}

uint32_t analyse_pipeline_columns(struct analyse_pipeline *p, const struct analyse_column *columns,
				  uint32_t n)
{
	uint32_t refused = n > p->dims ? n - p->dims : 0;

	p->layout++;
	p->queues = 0;
	p->used = n - refused;
	for (uint32_t s = 0; s < p->dims; s++) {
		p->column_of[s] = ANALYSE_NONE;
		p->x[s] = NAN;
	}
	/* Place known series first, so that no new series takes their slot. */
	for (uint32_t c = 0; c < p->used; c++) {
		uint64_t key = key_of(columns[c].name);

		p->slot_of[c] = ANALYSE_NONE;
		for (uint32_t s = 0; s < p->dims; s++)
			if (p->keys[s] == key && p->slots[s].seen < p->layout)
				place_column(p, c, s, &columns[c]);
	}
	for (uint32_t c = 0; c < p->used; c++) {
		uint64_t key = key_of(columns[c].name);
		bool twice = false, own;
		uint32_t s;

		own = analyse_role_of(columns[c].name, columns[c].counter).kind !=
		      ANALYSE_ROLE_OTHERS;
		if (p->slot_of[c] != ANALYSE_NONE || !own)
			continue;
		for (s = 0; s < p->dims; s++)
			twice |= p->keys[s] == key;
		s = twice ? ANALYSE_NONE : new_place(p);
		if (s == ANALYSE_NONE) {
			refused++;
			continue;
		}
		p->stats.forgotten += p->keys[s] != 0;
		analyse_normaliser_forget(&p->normaliser, s);
		memset(&p->slots[s].growth, 0, sizeof(p->slots[s].growth));
		p->keys[s] = key;
		place_column(p, c, s, &columns[c]);
	}
	find_witnesses(p);
	p->stats.refused += refused;
	return refused;
}

/* ---- rows ---- */

static void gather_row(struct analyse_pipeline *p, const double *values, double seconds)
{
	double row[ANALYSE_ROW_MAX];

	for (uint32_t s = 0; s < p->dims; s++)
		row[s] = (double)NAN;
	for (uint32_t c = 0; c < p->used; c++) {
		uint32_t s = p->slot_of[c];
		bool sane = fabs(values[c]) < LARGE;

		if (s == ANALYSE_NONE)
			continue;
		p->stats.missing += !sane;
		row[s] = sane ? values[c] : (double)NAN;
	}
	analyse_reading_push(&p->reading, row, (float)seconds, p->x);
}

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
	if (most == ANALYSE_NONE || !p->worked_ns || p->worked_ns >= p->last_ns)
		return;
	/* The rate is 0 only if nothing has been finished for rate_ns. */
	seconds = 1e-9f * (float)(p->last_ns - p->worked_ns > p->opts.rate_ns
					  ? p->last_ns - p->worked_ns
					  : p->opts.rate_ns);
	if (seconds < SILENT_S)
		return;
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
		p->group[p->grows] = (uint8_t)kind_of_role(p->role[p->grows]);
	p->grows = ANALYSE_NONE;
	for (uint32_t s = 0; p->queues && s < p->dims; s++) {
		const struct analyse_slot *slot = &p->slots[s];
		float surprise;

		if (!slot->growth.judged || !slot->growth.steps || !(p->z[s] > USUAL_SD) ||
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

/*
 * A pod's levels follow its own rows, so a latency that is high from the first row on would count
 * as usual. Therefore, after the first minute, a level that the inherited model does not explain is
 * judged as if it had just risen.
 */
static void compare_with_model(struct analyse_pipeline *p)
{
	struct analyse_normaliser *n = &p->normaliser;

	for (uint32_t s = 0; s < p->dims; s++) {
		enum analyse_role_kind role = p->slots[s].role.kind;
		float now = isnan(n->slow[s]) ? p->x[s] : n->slow[s];
		float most = n->mean[s] + USUAL_SD / n->inv_sd[s];

		if ((role != ANALYSE_ROLE_LATENCY && role != ANALYSE_ROLE_CLIENT &&
		     role != ANALYSE_ROLE_SERVER) ||
		    p->column_of[s] == ANALYSE_NONE || !(now > most))
			continue;
		analyse_normaliser_follow(n, s, most);
		n->slow[s] = most;
	}
}

/*
 * A pod that inherits a model still has to fill its caches, open its connections and create its
 * series. In its first minute, only latencies, CPU, errors and silence count as evidence, and
 * nothing is learned from changes of other metrics.
 */
static void leave_out_warming(struct analyse_pipeline *p)
{
	for (uint32_t s = 0; s < p->dims && p->inherits; s++) {
		struct analyse_role role = p->slots[s].role;

		if (role.kind == ANALYSE_ROLE_LATENCY || role.kind == ANALYSE_ROLE_CLIENT ||
		    role.kind == ANALYSE_ROLE_SERVER || role.kind == ANALYSE_ROLE_ERRORS ||
		    (role.kind == ANALYSE_ROLE_RESOURCE && role.part == ANALYSE_CPU))
			continue;
		p->move[s] = 0;
		p->normaliser.distance[s] = NAN;
	}
}

int analyse_pipeline_score(struct analyse_pipeline *p, uint64_t t_ns, const double *values,
			   struct analyse_verdict *v)
{
	struct analyse_row row = {p->dims, p->z, p->move, p->group};
	uint64_t step = t_ns / p->opts.step_ns;
	double seconds;

	memset(v, 0, sizeof(*v));
	v->t_ns = t_ns;
	v->threshold = INFINITY;
	if (p->begun && t_ns < p->last_ns && p->last_ns - t_ns > GAP_STEPS * p->opts.step_ns) {
		p->stats.jumps++;
		analyse_pipeline_rewind(p);
	}
	if (p->begun && t_ns <= p->last_ns) {
		p->stats.backwards++;
		return -EINVAL;
	}
	if (p->begun && step != p->step) {
		analyse_pipeline_end_step(p);
		if (step - p->step > GAP_STEPS) {
			p->stats.jumps++;
			analyse_normaliser_jump(&p->normaliser);
			analyse_pipeline_release(p);
			p->worked_ns = 0;
		}
	}
	seconds = p->begun ? (double)(t_ns - p->last_ns) * 1e-9 : 0;
	analyse_normaliser_fetch(&p->normaliser);
	gather_row(p, values, seconds);
	p->step = step;
	p->last_ns = t_ns;
	p->born_ns = p->begun ? p->born_ns : t_ns;
	p->testimony = 0;
	p->by = NULL;
	p->measures = false;
	p->begun = true;
	p->stats.rows++;
	if (p->inherits && p->learning == ANALYSE_LEARN_GATED &&
	    p->last_ns - p->born_ns >= WARMING_NS) {
		p->inherits = false;
		compare_with_model(p);
	}
	analyse_normalise(&p->normaliser, p->x, p->z, p->move);
	if (p->inherits && p->learning == ANALYSE_LEARN_GATED)
		leave_out_warming(p);
	p->mine = 1;
	p->joint = false;
	p->delayed = 0;
	judge_errors(p, fmax(seconds, 1e-9 * (double)p->opts.rate_ns));
	judge_silence(p);
	judge_growth(p);
	v->raw = p->opts.detector->score(p->detector, &row, p->blame);
	if (p->shadow)
		v->shadow_score = p->opts.shadow->score(p->shadow, &row, p->scratch);
	analyse_normaliser_add(&p->normaliser, p->x);
	return 0;
}

/*
 * Converts the score to multiples of the threshold: linearly for comparable scores, otherwise by
 * the logarithm of the tail's probability, so that the budget corresponds to 1. Beyond 1e-12, the
 * raw score only breaks ties.
 */
static float in_thresholds(struct analyse_calibration *c, double threshold, bool comparable,
			   float raw)
{
	double p;

	if (isinf(threshold))
		return 0;
	threshold = fmax(threshold, comparable ? ANALYSE_EVIDENCE_MIN : THRESHOLD_MIN);
	raw = (float)fmax(raw - MARGIN * fmax(threshold - c->median, 0), 0);
	if (comparable)
		return (float)(raw / threshold);
	p = log(analyse_calibration_p(c, raw)) / log(c->q);
	if (raw <= threshold)
		return (float)fmin(p, 1);
	return (float)(fmax(p, 1) + 1e-3 * log(raw / threshold));
}

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

/*
 * Computes each metric's part of a verdict on the sum of all kinds (leading is ANALYSE_KINDS) or on
 * one kind. Divides by the kind's threshold, if it has one.
 */
static void part_kinds(struct analyse_pipeline *p, enum analyse_kind leading, float *part)
{
	float weight[ANALYSE_KINDS];

	for (uint32_t k = 0; k < ANALYSE_KINDS; k++) {
		double threshold = p->opts.detector->comparable
					   ? analyse_pipeline_kind_threshold(p, k)
					   : INFINITY;
		bool counts = leading == k || (leading == ANALYSE_KINDS && !isnan(p->kind[k]));

		weight[k] = !counts	       ? 0
			    : isinf(threshold) ? 1
					       : (float)(1 / fmax(threshold, ANALYSE_EVIDENCE_MIN));
	}
	for (uint32_t s = 0; s < p->dims; s++)
		part[s] = counts_in_kind(p, s) ? p->blame[s] * weight[p->group[s]] * change_of(p, s)
					       : 0;
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

/* Ranks the metrics by their parts of the evidence. */
static void rank_blame(struct analyse_pipeline *p, struct analyse_verdict *v)
{
	float *part = p->scratch;

	if (v->kind == ANALYSE_KIND_CULPRIT)
		part_culprit(p, part);
	else
		part_kinds(p, v->kind, part);
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

/*
 * Subtracts evidence that other pods explain, and returns the sum of the rest over all kinds. A
 * callee's fault shows in its callers' metrics, but not in their resources.
 */
static float sum_up(struct analyse_pipeline *p)
{
	float sum = 0;

	for (uint32_t k = ANALYSE_KIND_LATENCY; k < ANALYSE_KINDS; k++) {
		p->kind[k] *= k == ANALYSE_KIND_RESOURCE ? 1 : p->mine;
		sum += isnan(p->kind[k]) ? 0 : p->kind[k];
	}
	return sum;
}

/* Finds the largest of the kinds' scores, each in multiples of its own threshold. */
static void judge_kinds(struct analyse_pipeline *p, struct analyse_verdict *v)
{
	const float *kind = p->kind;

	for (uint32_t k = 0; k < ANALYSE_KINDS; k++) {
		float score;

		p->step_kind[k] = fmaxf(p->step_kind[k], kind[k]);
		/* The probability of errors is known without thresholds. */
		if (isnan(kind[k]) || (!v->known && k != ANALYSE_KIND_ERRORS))
			continue;
		score = in_thresholds(&p->thresholds->kind[k],
				      analyse_pipeline_kind_threshold(p, k), true, kind[k]);
		if (k == ANALYSE_KIND_CULPRIT)
			v->suspicion = score;
		if (k == ANALYSE_KIND_ERRORS)
			v->errors = score;
		if (score <= v->score)
			continue;
		/* If the common score exceeds its threshold as well, blame all kinds. */
		if (v->score <= 1 || k == ANALYSE_KIND_CULPRIT)
			v->kind = (uint8_t)k;
		v->score = score;
	}
}

void analyse_pipeline_settle(struct analyse_pipeline *p, struct analyse_verdict *v)
{
	bool comparable = p->opts.detector->comparable;
	float excess = fmaxf(v->raw - v->common, 0), run, strict;
	bool away, lasts;

	if (comparable) {
		excess = sum_up(p);
		v->common = fmaxf(v->raw - excess, 0);
	}
	v->culprit = p->kind[ANALYSE_KIND_CULPRIT];
	/* A pod without any history cannot be judged by other pods' thresholds. */
	v->threshold = (float)analyse_pipeline_threshold(p);
	v->known = !isinf(v->threshold);
	v->score = in_thresholds(&p->own.step, v->threshold, comparable, excess);
	v->kind = ANALYSE_KINDS;
	p->step_score = fmaxf(p->step_score, excess);
	run = analyse_pipeline_run_sum(p);
	if (run > 0) {
		run /= (float)fmax(analyse_pipeline_run_threshold(p), ANALYSE_EVIDENCE_MIN);
		/* A run adds at most 1 to the score, however long it is. */
		v->score = fmaxf(v->score, fminf(run, 1 + v->score));
	}
	if (comparable)
		judge_kinds(p, v);
	strict = analyse_pipeline_strictness(p);
	v->score /= strict;
	v->suspicion /= strict;
	v->errors /= strict;
	away = analyse_pipeline_lasts(p, v->score);
	lasts = away || analyse_pipeline_pauses(p);
	v->anomalous = v->score > 1 || (lasts && p->mine > MINE);
	if (v->score > 0 || v->anomalous)
		rank_blame(p, v);
	p->step_away |= away || v->score > 1;
	p->step_lasts |= lasts;
	v->drift = p->drift;
	if (p->shadow) {
		float raw = v->shadow_score;

		v->shadow_score =
			in_thresholds(&p->shadow_calibration,
				      analyse_calibration_threshold(&p->shadow_calibration),
				      p->opts.shadow->comparable, raw);
		v->shadow_anomalous = v->shadow_score > 1;
		p->step_shadow = fmaxf(p->step_shadow, raw);
	}
	p->stats.anomalous += v->anomalous;
	p->warm.now |= p->learning == ANALYSE_LEARN_WARM && analyse_pipeline_is_odd(p, v);
	p->warm.errors |= v->errors > 1;
	p->step_anomalous |= v->anomalous || p->warm.now;
	p->step_verdict = fmaxf(p->step_verdict, v->score);
	p->step_scored = true;
}

void analyse_pipeline_testify(struct analyse_pipeline *p, float evidence)
{
	p->testimony = evidence;
}

void analyse_pipeline_measured(struct analyse_pipeline *p, struct analyse_pipeline *by,
			       const double seconds[ANALYSE_TAILS])
{
	memcpy(p->measured, seconds, sizeof(p->measured));
	p->by = by;
	by->measures = true;
}

int analyse_pipeline_push(struct analyse_pipeline *p, uint64_t t_ns, const double *values,
			  struct analyse_verdict *v)
{
	int err = analyse_pipeline_score(p, t_ns, values, v);

	if (err)
		return err;
	analyse_pipeline_weigh(p);
	analyse_pipeline_settle(p, v);
	return 0;
}

void analyse_pipeline_learning(struct analyse_pipeline *p, enum analyse_learning how)
{
	p->learning = how;
}

void analyse_pipeline_rewind(struct analyse_pipeline *p)
{
	analyse_pipeline_end_step(p);
	analyse_normaliser_jump(&p->normaliser);
	for (uint32_t s = 0; s < p->dims; s++)
		p->slots[s].counted = NAN;
	analyse_reading_rewind(&p->reading);
	if (p->suspect)
		analyse_culprit_rewind(p->suspect);
	p->begun = false;
	analyse_pipeline_forget(p);
}

void analyse_pipeline_accept(struct analyse_pipeline *p)
{
	analyse_pipeline_end_step(p);
	analyse_odd_accept(p);
	analyse_pipeline_take_level(p);
	analyse_pipeline_forget(p);
}

void analyse_pipeline_recalibrate(struct analyse_pipeline *p)
{
	analyse_pipeline_init_thresholds(p, p->thresholds);
	init_calibrations(p);
	p->learning = ANALYSE_LEARN_SCORES;
}

void analyse_pipeline_stats(const struct analyse_pipeline *p, struct analyse_pipeline_stats *stats)
{
	*stats = p->stats;
	stats->resets = p->reading.resets;
}

double analyse_pipeline_budget(const struct analyse_pipeline *p)
{
	return p->q;
}
