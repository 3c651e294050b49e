// SPDX-License-Identifier: Apache-2.0
/* pipeline.c - see pipeline.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <zlib.h>

#include "analyse/normalise.h"
#include "analyse/pipeline.h"
#include "analyse/random.h"

#define LARGE	      1e15 /* beyond, squares of floats overflow */
#define GAP_STEPS     10u  /* without a row: recent levels are old */
#define THRESHOLD_MIN 1e-3f
#define MARGIN	      0.02 /* of the way from the median: scores in lumps are not above their own lump */
#define HOUR_NS	      3600000000000.0
#define AWAY	      2.576f /* moves that are a metric's largest hundredth */
#define BACK	      1.0f
#define LATE	      10u /* steps: a score is learned when nothing was found for so long */
#define NEWS	      16.0 /* anomalies beyond twice the budget, after which more of them are no news */
#define SUSPECT \
	10u /* steps: a run that is no anomaly by then is none any more; not more than LATE */
#define INFLUENCE 2.0 /* thresholds that an anomaly counts at most, where its score is learned */

struct slot {
	uint64_t seen; /* layout in which it was used last */
	double last;   /* a counter's value before; NaN: none */
	float rate;
	bool counter;
};

struct sl_pipeline {
	struct sl_pipeline_opts opts;
	uint32_t dims, used; /* used: columns of the layout */
	uint64_t layout, step, last_ns, random;
	double q;
	bool begun, step_anomalous, step_scored, drift;
	bool *held;	    /* dims: baselines that wait while the anomaly lasts */
	uint64_t holding;   /* steps for which they did, less the normal ones since */
	uint32_t anomalous; /* steps, one after the other */
	struct {
		uint32_t steps;	 /* of a run so far: one after the other above the usual */
		float sum, peak; /* of what they are above it; the largest score */
		bool found;	 /* an anomaly came in it */
	} run;
	double news; /* anomalies beyond twice the budget: see no_news() */
	enum sl_learning learning;
	float step_score, step_shadow;
	struct lesson {
		float score, run, shadow; /* NAN: nothing to be learned of it */
	} late[LATE];			  /* a ring: still to be learned */
	uint32_t late_at, late_n;
	struct sl_normaliser normaliser;
	struct sl_thresholds own, *thresholds;
	struct sl_calibration shadow_calibration;
	void *detector, *shadow;
	struct slot *slots;		       /* dims */
	uint64_t *keys;			       /* dims: of names; 0: a free slot */
	uint32_t *slot_of;		       /* column -> slot, or SL_NOBODY */
	uint32_t *column_of;		       /* slot -> column, or SL_NOBODY */
	float *x, *z, *move, *blame, *scratch; /* dims each, of the last row */
	float *floats;
	struct sl_pipeline_stats stats;
};

/* FNV-1a, 64 bits: G. Fowler, L. C. Noll, K.-P. Vo. Never 0. */
static uint64_t key_of(const char *name)
{
	uint64_t h = 0xcbf29ce484222325;

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 0x100000001b3;
	return h ? h : 1;
}

void sl_pipeline_free(struct sl_pipeline *p)
{
	if (!p)
		return;
	sl_detector_destroy(p->opts.shadow, p->shadow);
	sl_detector_destroy(p->opts.detector, p->detector);
	sl_normaliser_free(&p->normaliser);
	free(p->held);
	free(p->floats);
	free(p->slot_of);
	free(p->column_of);
	free(p->keys);
	free(p->slots);
	free(p);
}

static enum sl_tail tail_of(const struct sl_detector_ops *ops)
{
	return ops->comparable ? SL_TAIL_LOG_P : SL_TAIL_ANY;
}

/*
 * Runs are of scores that have a unit, and of steps short enough for a baseline to wait for some: it follows
 * within SL_FAST - 1 by itself.
 */
static bool has_runs(const struct sl_pipeline *p)
{
	return p->opts.detector->comparable && (SL_FAST - 1) * p->opts.step_ns < p->opts.hold_ns;
}

static int init_thresholds(const struct sl_pipeline *p, struct sl_thresholds *t)
{
	return sl_thresholds_init(t, p->q, has_runs(p), tail_of(p->opts.detector), p->opts.seed);
}

static int init_calibrations(struct sl_pipeline *p)
{
	const struct sl_detector_ops *ops = p->opts.shadow ? p->opts.shadow : p->opts.detector;
	int err = init_thresholds(p, &p->own);

	return err ? err
		   : sl_calibration_init(&p->shadow_calibration, p->q, tail_of(ops), p->opts.seed);
}

static void *new_detector(const struct sl_pipeline *p, const struct sl_detector_ops *ops)
{
	struct sl_detector_opts o = p->opts.detail;

	o.dims = p->dims;
	o.seed = p->opts.seed;
	return ops->create(&o);
}

struct sl_pipeline *sl_pipeline_create(const struct sl_pipeline_opts *opts)
{
	struct sl_pipeline *p = calloc(1, sizeof(*p));
	struct sl_pipeline_opts *o;
	int err = EINVAL;

	if (!p)
		return NULL;
	o = &p->opts;
	if (opts)
		memcpy(o, opts, opts->sz < sizeof(*o) ? opts->sz : sizeof(*o));
	if (!o->columns)
		o->columns = 64;
	if (!o->step_ns)
		o->step_ns = 1000000000;
	if (!o->hold_ns)
		o->hold_ns = 120000000000;
	if (o->false_alarms == 0)
		o->false_alarms = 1;
	if (o->eta == 0)
		o->eta = 0.05;
	if (!o->detector)
		o->detector = &sl_detector_combined;
	p->dims = (o->columns + SL_ROW_LANES - 1) / SL_ROW_LANES * SL_ROW_LANES;
	p->q = o->false_alarms * (double)o->step_ns / HOUR_NS;
	/* More alarms than this are no alarms. */
	if (p->q > 0.5)
		p->q = 0.5;
	if (o->columns > SL_ROW_MAX || !(o->eta >= 0 && o->eta <= 1) || init_calibrations(p))
		goto fail;
	p->thresholds = &p->own;
	p->random = o->seed;
	err = ENOMEM;
	p->floats = aligned_alloc(64, 5 * (size_t)p->dims * sizeof(float));
	p->slot_of = calloc(p->dims, sizeof(*p->slot_of));
	p->column_of = calloc(p->dims, sizeof(*p->column_of));
	p->slots = calloc(p->dims, sizeof(*p->slots));
	p->keys = calloc(p->dims, sizeof(*p->keys));
	p->held = calloc(p->dims, sizeof(*p->held));
	if (!p->held || !p->floats || !p->slot_of || !p->column_of || !p->slots || !p->keys ||
	    sl_normaliser_init(&p->normaliser, p->dims))
		goto fail;
	p->x = p->floats;
	p->z = p->x + p->dims;
	p->move = p->z + p->dims;
	p->blame = p->move + p->dims;
	p->scratch = p->blame + p->dims;
	for (uint32_t i = 0; i < 5 * p->dims; i++)
		p->floats[i] = NAN;
	for (uint32_t i = 0; i < p->dims; i++)
		p->slot_of[i] = p->column_of[i] = SL_NOBODY;
	p->detector = new_detector(p, o->detector);
	if (!p->detector) {
		err = errno;
		goto fail;
	}
	if (o->shadow) {
		p->shadow = new_detector(p, o->shadow);
		if (!p->shadow) {
			err = errno;
			goto fail;
		}
	}
	return p;
fail:
	sl_pipeline_free(p);
	errno = err;
	return NULL;
}

/* ---- columns ---------------------------------------------------------------------------------- */

static void place(struct sl_pipeline *p, uint32_t c, uint32_t s, bool counter)
{
	struct slot *slot = &p->slots[s];

	if (slot->counter != counter)
		sl_normaliser_forget(&p->normaliser, s);
	slot->counter = counter;
	slot->seen = p->layout;
	slot->last = slot->rate = NAN;
	p->slot_of[c] = s;
	p->column_of[s] = c;
}

/* A free place, or that of the series that is gone for longest; SL_NOBODY: all are in use. */
static uint32_t new_place(const struct sl_pipeline *p)
{
	uint32_t oldest = SL_NOBODY;

	for (uint32_t s = 0; s < p->dims; s++) {
		if (!p->keys[s])
			return s;
		if (p->slots[s].seen < p->layout &&
		    (oldest == SL_NOBODY || p->slots[s].seen < p->slots[oldest].seen))
			oldest = s;
	}
	return oldest;
}

uint32_t sl_pipeline_columns(struct sl_pipeline *p, const struct sl_column *columns, uint32_t n)
{
	uint32_t refused = n > p->dims ? n - p->dims : 0;

	p->layout++;
	p->used = n - refused;
	for (uint32_t s = 0; s < p->dims; s++) {
		p->column_of[s] = SL_NOBODY;
		p->x[s] = NAN;
	}
	/* Those known first, so that no new one takes their place. */
	for (uint32_t c = 0; c < p->used; c++) {
		uint64_t key = key_of(columns[c].name);

		p->slot_of[c] = SL_NOBODY;
		for (uint32_t s = 0; s < p->dims; s++)
			if (p->keys[s] == key && p->slots[s].seen < p->layout)
				place(p, c, s, columns[c].counter);
	}
	for (uint32_t c = 0; c < p->used; c++) {
		uint64_t key = key_of(columns[c].name);
		bool twice = false;
		uint32_t s;

		if (p->slot_of[c] != SL_NOBODY)
			continue;
		for (s = 0; s < p->dims; s++)
			twice |= p->keys[s] == key;
		s = twice ? SL_NOBODY : new_place(p);
		if (s == SL_NOBODY) {
			refused++;
			continue;
		}
		p->stats.forgotten += p->keys[s] != 0;
		sl_normaliser_forget(&p->normaliser, s);
		p->keys[s] = key;
		place(p, c, s, columns[c].counter);
	}
	p->stats.refused += refused;
	return refused;
}

/* ---- rows ------------------------------------------------------------------------------------- */

/* fresh: what a rate of this moment weighs among those of rate_ns. */
static float rate_of(struct sl_pipeline *p, struct slot *s, double value, double seconds,
		     double fresh)
{
	double before = s->last, rate;

	s->last = value;
	if (isnan(before) || !(seconds > 0))
		return NAN;
	if (value < before) {
		/* It began anew; what it had counted meanwhile is unknown. */
		p->stats.resets++;
		s->rate = NAN;
		return NAN;
	}
	rate = (value - before) / seconds;
	if (p->opts.rate_ns && !isnan(s->rate))
		rate = s->rate + fresh * (rate - s->rate);
	s->rate = (float)rate;
	return s->rate;
}

static void gather(struct sl_pipeline *p, const double *values, double seconds)
{
	double fresh = p->opts.rate_ns ? -expm1(-seconds * 1e9 / (double)p->opts.rate_ns) : 1;

	for (uint32_t c = 0; c < p->used; c++) {
		uint32_t s = p->slot_of[c];
		double v = values[c];

		if (s == SL_NOBODY)
			continue;
		if (!(fabs(v) < LARGE)) {
			p->stats.missing++;
			p->x[s] = NAN;
		} else if (p->slots[s].counter) {
			p->x[s] = rate_of(p, &p->slots[s], v, seconds, fresh);
		} else {
			p->x[s] = (float)v;
		}
	}
}

static void learn_scores(struct sl_pipeline *p, const struct lesson *l)
{
	void (*learn)(struct sl_calibration * c, double score) =
		p->learning == SL_LEARN_GATED ? sl_calibration_learn_gated : sl_calibration_learn;

	learn(&p->thresholds->step, l->score);
	learn(&p->thresholds->run, l->run);
	/* Drift is the pod's own, and so is how often it gets into its tail. */
	if (p->thresholds != &p->own) {
		learn(&p->own.step, l->score);
		learn(&p->own.run, l->run);
	}
	if (p->shadow)
		learn(&p->shadow_calibration, l->shadow);
}

/* However far out an anomaly is, learning from it lifts the threshold by little. */
static float at_most(float score, double threshold)
{
	return (float)fmin(score, INFLUENCE * threshold);
}

static double threshold_of(struct sl_pipeline *p)
{
	return sl_calibration_among(&p->own.step, &p->thresholds->step);
}

/*
 * Of few runs little is known. At the least it takes what a threshold's worth of steps adds up to until
 * baselines that do not wait have followed: what is shorter is one event, and was judged as one.
 */
static double run_threshold_of(struct sl_pipeline *p)
{
	return fmax(sl_calibration_among(&p->own.run, &p->thresholds->run),
		    SL_FAST * threshold_of(p));
}

/*
 * A fault that begins below the threshold must not lift it out of its own way: scores are learned
 * late, and those of the last steps before an anomaly not at all.
 */
static void learn_scores_late(struct sl_pipeline *p, const struct lesson *l)
{
	uint32_t i = p->late_at;

	if (p->learning != SL_LEARN_GATED) {
		learn_scores(p, l);
		return;
	}
	if (p->late_n == LATE)
		learn_scores(p, &p->late[i]);
	else
		p->late_n++;
	p->late[i] = *l;
	p->late_at = (i + 1) % LATE;
}

/* ---- runs ------------------------------------------------------------------------------------- */

/* There is no run while it can't have what makes one: baselines that wait. */
static bool may_hold(const struct sl_pipeline *p)
{
	return (p->holding + SL_FAST - 1) * p->opts.step_ns < p->opts.hold_ns;
}

/* Scores above are of a run: what the pod itself has in one step of ten. */
static float usual_score(const struct sl_pipeline *p)
{
	return has_runs(p) && may_hold(p) && sl_calibration_known(&p->own.step)
		       ? (float)p->own.step.q90
		       : INFINITY;
}

/* What the run adds up to, with the step under way. 0: there is none. */
static float run_sum(const struct sl_pipeline *p)
{
	float above = p->step_score - usual_score(p);

	if (!(above > 0) || (p->run.steps >= SUSPECT && !p->run.found))
		return 0;
	return p->run.sum + above;
}

/*
 * The step is one of a run, or the one before was the last. Of a run, its largest score is learned and no
 * other (declustering: Coles 2001, 5.3.2), and what it added up to. Those of anomalies are not.
 */
static void end_run(struct sl_pipeline *p, bool learn)
{
	struct lesson l = {p->step_score, 0, p->step_shadow};
	float above = p->step_score - usual_score(p);

	if (p->run.steps && !(above > 0)) {
		struct lesson whole = {p->run.peak, p->run.sum, NAN};

		if (learn && !p->run.found)
			learn_scores_late(p, &whole);
		memset(&p->run, 0, sizeof(p->run));
	} else if (above > 0) {
		l.score = p->run.steps ? p->step_score - above : NAN;
		l.run = p->run.steps ? 0 : NAN;
		p->run.sum = fmaxf(p->run.sum, run_sum(p));
		p->run.peak = fmaxf(p->run.peak, p->step_score);
		p->run.steps++;
		p->run.found |= p->step_anomalous;
	}
	if (learn)
		learn_scores_late(p, &l);
}

/*
 * What is not normal is no baseline either, or every fault would be over in two steps. That goes for
 * the metrics that made the anomaly, while they are away from where they were, and for a while: the
 * others follow, or one that always wanders would soon be far from where it was held and keep the
 * anomaly going. The while is one for anomalies close to each other, which are no news either.
 * The baselines need SL_FAST - 1 steps to follow by themselves.
 */
static bool hold(struct sl_pipeline *p)
{
	bool anomalous = p->learning == SL_LEARN_GATED && p->step_anomalous, any = false;
	bool first = p->anomalous < SL_FAST || p->run.steps <= SL_FAST;
	bool suspect = p->run.steps && p->run.steps <= SUSPECT;

	p->anomalous = p->step_anomalous ? p->anomalous + 1 : 0;
	if (!may_hold(p) || !(anomalous || suspect)) {
		p->holding -= !p->step_anomalous && p->holding;
		memset(p->held, 0, p->dims * sizeof(*p->held));
		return false;
	}
	p->holding += anomalous;
	p->holding -= !p->step_anomalous && p->holding;
	for (uint32_t i = 0; i < p->dims; i++) {
		float far = fabsf(p->move[i]);

		p->held[i] = far > (p->held[i] ? BACK : AWAY) && (p->held[i] || first);
		any |= p->held[i];
	}
	return any && anomalous;
}

/*
 * Ten like faults in a row are ten faults, but what goes on like that is what the pod does. A one-sided
 * CUSUM (Page 1954) of anomalies over twice the budget: above NEWS how far metrics move is counted of
 * the first step of each, too; of the first alone, as those of one anomaly depend on each other (runs
 * declustering: S. Coles, Statistical Modeling of Extreme Values, 2001, 5.3.2).
 */
static bool no_news(struct sl_pipeline *p)
{
	if (p->learning != SL_LEARN_GATED)
		return false;
	p->news = fmin(fmax(p->news + (p->anomalous == 1) - 2 * p->q, 0), 2 * NEWS);
	return p->news > NEWS;
}

static void end_step(struct sl_pipeline *p)
{
	struct sl_row row = {p->dims, p->z, p->move};
	bool learn = p->learning == SL_LEARN_ALL, held, taught;
	enum sl_count count = SL_COUNT_NOT;

	if (!p->step_scored)
		return;
	/* By step, as its scores are learned: rows of one step are high together, or not at all. */
	p->drift = sl_calibration_watch(&p->own.step, p->step_score);
	if (p->step_anomalous)
		p->late_n = 0;
	/* Scores of a detector that knows nothing say nothing of its threshold. */
	taught = p->learning == SL_LEARN_SCORES ||
		 (p->learning != SL_LEARN_NONE && p->stats.learned >= SL_SLOW);
	end_run(p, taught && !(p->learning == SL_LEARN_GATED && p->step_anomalous));
	held = hold(p);
	if (p->learning == SL_LEARN_GATED)
		learn = !p->step_anomalous ||
			(!held && sl_random_uniform(&p->random) < p->opts.eta);
	if (learn) {
		p->stats.learned++;
		if (p->opts.detector->learn)
			p->opts.detector->learn(p->detector, &row);
		if (p->shadow && p->opts.shadow->learn)
			p->opts.shadow->learn(p->shadow, &row);
		if (taught && p->learning == SL_LEARN_GATED && p->step_anomalous)
			learn_scores(p, &(struct lesson){at_most(p->step_score, threshold_of(p)), 0,
							 at_most(p->step_shadow,
								 sl_calibration_threshold(
									 &p->shadow_calibration))});
	}
	if (learn || (no_news(p) && p->anomalous == 1))
		count = p->run.steps && p->run.steps <= SUSPECT && !p->step_anomalous
				? SL_COUNT_LATER
				: SL_COUNT;
	/* While an anomaly lasts, where the pod was before it stays known, so the way back is no move. */
	sl_normaliser_step(&p->normaliser, learn, count,
			   !(p->learning == SL_LEARN_GATED && p->step_anomalous && may_hold(p)),
			   p->held);
	p->stats.steps++;
	p->step_scored = p->step_anomalous = false;
	p->step_score = p->step_shadow = 0;
}

int sl_pipeline_score(struct sl_pipeline *p, uint64_t t_ns, const double *values,
		      struct sl_verdict *v)
{
	struct sl_row row = {p->dims, p->z, p->move};
	uint64_t step = t_ns / p->opts.step_ns;

	memset(v, 0, sizeof(*v));
	v->t_ns = t_ns;
	v->threshold = INFINITY;
	if (p->begun && t_ns <= p->last_ns) {
		p->stats.backwards++;
		return -EINVAL;
	}
	if (p->begun && step != p->step) {
		end_step(p);
		if (step - p->step > GAP_STEPS) {
			p->stats.jumps++;
			sl_normaliser_jump(&p->normaliser);
		}
	}
	gather(p, values, p->begun ? (double)(t_ns - p->last_ns) * 1e-9 : 0);
	p->step = step;
	p->last_ns = t_ns;
	p->begun = true;
	p->stats.rows++;
	sl_normalise(&p->normaliser, p->x, p->z, p->move);
	v->raw = p->opts.detector->score(p->detector, &row, p->blame);
	if (p->shadow)
		v->shadow_score = p->opts.shadow->score(p->shadow, &row, p->scratch);
	sl_normaliser_add(&p->normaliser, p->x);
	return 0;
}

/*
 * In thresholds: linear for what has a unit of its own, else by the logarithm of the tail's
 * probability, which is 1 at the budget; there the raw score only breaks ties beyond 1e-12.
 */
static float in_thresholds(struct sl_calibration *c, double threshold, bool comparable, float raw)
{
	double p;

	if (isinf(threshold))
		return 0;
	threshold = fmax(threshold, THRESHOLD_MIN);
	raw = (float)fmax(raw - MARGIN * fmax(threshold - c->median, 0), 0);
	if (comparable)
		return (float)(raw / threshold);
	p = log(sl_calibration_p(c, raw)) / log(c->q);
	if (raw <= threshold)
		return (float)fmin(p, 1);
	return (float)(fmax(p, 1) + 1e-3 * log(raw / threshold));
}

/* The largest shares first; there are few, so the top is kept by insertion. */
static void rank_blame(const struct sl_pipeline *p, struct sl_verdict *v)
{
	float sum = 0, least = 0;

	v->blamed = 0;
	for (uint32_t s = 0; s < p->dims; s++) {
		float share = p->blame[s];
		uint32_t i;

		if (!(share > 0) || p->column_of[s] == SL_NOBODY)
			continue;
		sum += share;
		if (v->blamed == SL_BLAMED && share <= least)
			continue;
		i = v->blamed < SL_BLAMED ? v->blamed++ : SL_BLAMED - 1;
		for (; i > 0 && v->blame[i - 1].share < share; i--)
			v->blame[i] = v->blame[i - 1];
		v->blame[i].column = p->column_of[s];
		v->blame[i].share = share;
		least = v->blame[v->blamed - 1].share;
	}
	for (uint32_t i = 0; i < v->blamed; i++)
		v->blame[i].share /= sum;
}

void sl_pipeline_settle(struct sl_pipeline *p, struct sl_verdict *v)
{
	float excess = fmaxf(v->raw - v->common, 0), run;

	if (v->raw > 0)
		rank_blame(p, v);
	/* A pod that knows nothing of itself can't be judged by what others know. */
	v->threshold = (float)threshold_of(p);
	v->known = !isinf(v->threshold);
	v->score = in_thresholds(&p->own.step, v->threshold, p->opts.detector->comparable, excess);
	p->step_score = fmaxf(p->step_score, excess);
	run = run_sum(p);
	if (run > 0) {
		run /= (float)fmax(run_threshold_of(p), THRESHOLD_MIN);
		/* However long a run is, the row is not further out for it. */
		v->score = fmaxf(v->score, fminf(run, 1 + v->score));
	}
	v->anomalous = v->score > 1;
	v->drift = p->drift;
	if (p->shadow) {
		float raw = v->shadow_score;

		v->shadow_score = in_thresholds(&p->shadow_calibration,
						sl_calibration_threshold(&p->shadow_calibration),
						p->opts.shadow->comparable, raw);
		v->shadow_anomalous = v->shadow_score > 1;
		p->step_shadow = fmaxf(p->step_shadow, raw);
	}
	p->stats.anomalous += v->anomalous;
	p->step_anomalous |= v->anomalous;
	p->step_scored = true;
}

int sl_pipeline_push(struct sl_pipeline *p, uint64_t t_ns, const double *values,
		     struct sl_verdict *v)
{
	int err = sl_pipeline_score(p, t_ns, values, v);

	if (!err)
		sl_pipeline_settle(p, v);
	return err;
}

void sl_pipeline_learning(struct sl_pipeline *p, enum sl_learning how)
{
	p->learning = how;
}

void sl_pipeline_rewind(struct sl_pipeline *p)
{
	end_step(p);
	sl_normaliser_jump(&p->normaliser);
	for (uint32_t s = 0; s < p->dims; s++)
		p->slots[s].last = p->slots[s].rate = NAN;
	p->begun = false;
	memset(p->held, 0, p->dims * sizeof(*p->held));
	p->holding = p->anomalous = 0;
	memset(&p->run, 0, sizeof(p->run));
	p->news = 0;
	p->late_n = 0;
}

void sl_pipeline_recalibrate(struct sl_pipeline *p)
{
	init_thresholds(p, p->thresholds);
	init_calibrations(p);
	p->learning = SL_LEARN_SCORES;
}

void sl_pipeline_share(struct sl_pipeline *p, struct sl_thresholds *shared)
{
	p->thresholds = shared ? shared : &p->own;
	/* The first one's budgets are those of all. */
	if (shared && !shared->step.n) {
		sl_calibration_budget(&shared->step, p->own.step.q);
		sl_calibration_budget(&shared->run, p->own.run.q);
	}
}

const struct sl_thresholds *sl_pipeline_thresholds(const struct sl_pipeline *p)
{
	return p->thresholds == &p->own ? NULL : &p->own;
}

uint32_t sl_pipeline_dims(const struct sl_pipeline *p)
{
	return p->dims;
}

const uint64_t *sl_pipeline_keys(const struct sl_pipeline *p)
{
	return p->keys;
}

float *sl_pipeline_shares(struct sl_pipeline *p)
{
	return p->blame;
}

void sl_pipeline_stats(const struct sl_pipeline *p, struct sl_pipeline_stats *stats)
{
	*stats = p->stats;
}

double sl_pipeline_budget(const struct sl_pipeline *p)
{
	return p->q;
}

const struct sl_detector_ops *sl_pipeline_detector(const struct sl_pipeline *p)
{
	return p->opts.detector;
}

/* ---- models ----------------------------------------------------------------------------------- */

#define HEADER (8 + 4 + 4 + 8) /* magic, version, CRC-32 of what follows the header, its length */

static void save_body(const struct sl_pipeline *p, struct sl_blob *b)
{
	char name[16] = {0};

	strncpy(name, p->opts.detector->name, sizeof(name) - 1);
	sl_blob_put(b, name, sizeof(name));
	sl_blob_put_u32(b, p->dims);
	sl_blob_put_u64(b, p->opts.step_ns);
	sl_blob_put_u64(b, p->stats.learned);
	for (uint32_t s = 0; s < p->dims; s++) {
		sl_blob_put_u64(b, p->keys[s]);
		sl_blob_put_u32(b, p->slots[s].counter);
		sl_normaliser_save_column(&p->normaliser, s, b);
	}
	/* What all know, for a fleet that knows nothing yet, and what it knows of itself. */
	sl_calibration_save(&p->thresholds->step, b);
	sl_calibration_save(&p->thresholds->run, b);
	sl_calibration_save(&p->own.step, b);
	sl_calibration_save(&p->own.run, b);
	if (p->opts.detector->save)
		p->opts.detector->save(p->detector, b);
}

size_t sl_pipeline_save_bytes(const struct sl_pipeline *p)
{
	struct sl_blob b = {.bytes = SIZE_MAX};

	save_body(p, &b);
	return HEADER + b.used;
}

int64_t sl_pipeline_save(const struct sl_pipeline *p, void *buf, size_t bytes)
{
	struct sl_blob b = {.at = buf, .bytes = bytes}, head;

	if (!sl_blob_take(&b, HEADER))
		return -ENOSPC;
	save_body(p, &b);
	if (b.failed)
		return -ENOSPC;
	head = (struct sl_blob){.at = buf, .bytes = HEADER};
	sl_blob_put_u64(&head, SL_MODEL_MAGIC);
	sl_blob_put_u32(&head, SL_MODEL_VERSION);
	sl_blob_put_u32(&head, (uint32_t)crc32_z(0, (uint8_t *)buf + HEADER, b.used - HEADER));
	sl_blob_put_u64(&head, b.used - HEADER);
	return (int64_t)b.used;
}

static void reset_detector(struct sl_pipeline *p)
{
	void *fresh = new_detector(p, p->opts.detector);

	/* Without memory the half-loaded one stays: its fields were checked, so it is safe. */
	if (!fresh)
		return;
	sl_detector_destroy(p->opts.detector, p->detector);
	p->detector = fresh;
}

static void reset(struct sl_pipeline *p)
{
	for (uint32_t s = 0; s < p->dims; s++) {
		sl_normaliser_forget(&p->normaliser, s);
		memset(&p->slots[s], 0, sizeof(p->slots[s]));
		p->keys[s] = 0;
		p->slots[s].last = NAN;
		p->column_of[s] = SL_NOBODY;
		p->slot_of[s] = SL_NOBODY;
	}
	p->used = 0;
	p->layout = 0;
	p->begun = false;
	memset(p->held, 0, p->dims * sizeof(*p->held));
	p->holding = p->anomalous = 0;
	memset(&p->run, 0, sizeof(p->run));
	p->news = 0;
	p->step_scored = p->drift = false;
	init_thresholds(p, &p->own);
	memset(&p->stats, 0, sizeof(p->stats));
	reset_detector(p);
}

/* Header and what comes first. */
static int load_info(struct sl_blob *b, struct sl_model_info *info)
{
	uint64_t magic = sl_blob_u64(b), length;
	uint32_t version = sl_blob_u32(b), crc = sl_blob_u32(b);
	const void *at;

	memset(info, 0, sizeof(*info));
	length = sl_blob_u64(b);
	if (b->failed || magic != SL_MODEL_MAGIC)
		return -EINVAL;
	if (version != SL_MODEL_VERSION)
		return -EPROTONOSUPPORT;
	if (length != b->bytes - b->used || crc != (uint32_t)crc32_z(0, b->at + HEADER, length))
		return -EINVAL;
	at = sl_blob_take(b, sizeof(info->detector));
	if (at)
		memcpy(info->detector, at, sizeof(info->detector) - 1);
	info->columns = sl_blob_u32(b);
	info->step_ns = sl_blob_u64(b);
	info->learned = sl_blob_u64(b);
	return b->failed ? -EINVAL : 0;
}

int sl_pipeline_model_info(const void *buf, size_t bytes, struct sl_model_info *info)
{
	struct sl_blob b = {.at = (uint8_t *)(uintptr_t)buf, .bytes = bytes};

	return load_info(&b, info);
}

int sl_pipeline_load(struct sl_pipeline *p, const void *buf, size_t bytes)
{
	struct sl_blob b = {.at = (uint8_t *)(uintptr_t)buf, .bytes = bytes};
	struct sl_thresholds all = p->own;
	struct sl_model_info info;
	uint32_t dims = p->dims;
	int err = load_info(&b, &info);

	if (err)
		return err;
	reset(p);
	err = -EINVAL;
	if (strcmp(info.detector, p->opts.detector->name) || info.columns != dims ||
	    info.step_ns != p->opts.step_ns)
		goto bad;
	for (uint32_t s = 0; s < dims && !b.failed; s++) {
		p->keys[s] = sl_blob_u64(&b);
		p->slots[s].counter = sl_blob_u32(&b);
		sl_normaliser_load_column(&p->normaliser, s, &b);
	}
	if (b.failed)
		goto bad;
	if (sl_calibration_load(&all.step, &b) || sl_calibration_load(&all.run, &b) ||
	    sl_calibration_load(&p->own.step, &b) || sl_calibration_load(&p->own.run, &b))
		goto bad;
	err = 0;
	if (!err && p->opts.detector->load)
		err = p->opts.detector->load(p->detector, &b);
	if (!err && (b.failed || b.used != b.bytes))
		err = -EINVAL;
	if (err)
		goto bad;
	/* A fleet that knows nothing yet begins with what the model knows. */
	if (p->thresholds != &p->own && !p->thresholds->step.n) {
		double step = p->thresholds->step.q, run = p->thresholds->run.q;

		*p->thresholds = all;
		/* Of the same budget they are as they were saved, to the bit. */
		if (step != all.step.q)
			sl_calibration_budget(&p->thresholds->step, step);
		if (run != all.run.q)
			sl_calibration_budget(&p->thresholds->run, run);
	}
	p->stats.learned = info.learned;
	return 0;
bad:
	reset(p);
	return err;
}

int sl_pipeline_merge(struct sl_pipeline *p, const struct sl_pipeline *other)
{
	int err;

	if (p == other || p->dims != other->dims || p->opts.detector != other->opts.detector ||
	    p->opts.step_ns != other->opts.step_ns)
		return -EINVAL;
	for (uint32_t s = 0; s < p->dims; s++)
		if (p->keys[s] != other->keys[s] || p->slots[s].counter != other->slots[s].counter)
			return -EINVAL;
	if (p->opts.detector->merge) {
		err = p->opts.detector->merge(p->detector, other->detector);
		if (err)
			return err;
	}
	for (uint32_t s = 0; s < p->dims; s++)
		if (p->keys[s])
			sl_normaliser_merge_column(&p->normaliser, s, &other->normaliser, s);
	sl_calibration_merge(&p->thresholds->step, &other->thresholds->step);
	sl_calibration_merge(&p->thresholds->run, &other->thresholds->run);
	p->stats.learned += other->stats.learned;
	return 0;
}
