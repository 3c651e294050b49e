// SPDX-License-Identifier: Apache-2.0
/* pipeline.c - turns rows of values into verdicts; see pipeline.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analyse/fetch.h"
#include "analyse/odd.h"
#include "analyse/pipeline_internal.h"

_Static_assert(ANALYSE_KINDS <= (int)ANALYSE_GROUPS, "a kind of evidence is a group of a row");

#define FLOATS 6 /* number of float arrays with an element per metric */
/* number of steps that the time may jump, forwards or back, before recent levels are stale */
#define GAP_STEPS     10u
#define THRESHOLD_MIN 1e-3f
/*
 * A score must exceed the threshold by this fraction of the threshold's distance from the median.
 * Otherwise scores of a cluster could exceed a threshold that is within the cluster.
 */
#define MARGIN	   0.02
#define HOUR_NS	   3600000000000.0
#define RUNS_NS	   60000000000u /* steps of this length or longer have no runs */
#define WARMING_NS 60000000000u /* time in which a pod that inherits a model fills its caches */
#define MINE	   0.5f /* probability above which a pod's symptoms are considered its own */

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

enum analyse_kind analyse_pipeline_kind_of(enum analyse_role_kind role)
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
	p->group[s] = (uint8_t)analyse_pipeline_kind_of(slot->role.kind);
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
		memset(&p->slots[s].errors, 0, sizeof(p->slots[s].errors));
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
		bool sane;

		if (s == ANALYSE_NONE)
			continue;
		sane = p->slots[s].counter ? isfinite(values[c]) : fabs(values[c]) < ANALYSE_LARGE;
		p->stats.missing += !sane;
		row[s] = sane ? values[c] : (double)NAN;
	}
	analyse_reading_push(&p->reading, row, (float)seconds, p->x);
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
		float most = n->mean[s] + ANALYSE_USUAL_SD / n->inv_sd[s];

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

/* After a gap or a jump of the clock, discards the levels before it, and the errors during it. */
static void discard_recent(struct analyse_pipeline *p)
{
	analyse_normaliser_jump(&p->normaliser);
	for (uint32_t s = 0; s < p->dims; s++)
		p->slots[s].counted = NAN;
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
			discard_recent(p);
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
	analyse_pipeline_judge_events(p, fmax(seconds, 1e-9 * (double)p->opts.rate_ns));
	v->raw = p->opts.detector->score(p->detector, &row, p->blame);
	if (p->opts.detector->comparable && !analyse_pipeline_has_runs(p))
		v->raw = analyse_pipeline_weigh_changes(p);
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
		if (k == ANALYSE_KIND_ERRORS && p->stopped != ANALYSE_NONE)
			score = fmaxf(score, in_thresholds(&p->thresholds->kind[k],
							   analyse_pipeline_silence_threshold(p),
							   true, p->blame[p->stopped] * p->mine));
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
		analyse_pipeline_rank_blame(p, v);
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
	v->score = analyse_pipeline_discount_repeated(p, v->score);
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
	discard_recent(p);
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
