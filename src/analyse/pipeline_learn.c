// SPDX-License-Identifier: Apache-2.0
/* pipeline_learn.c - learns from finished steps: thresholds, runs, held baselines. */
#include <math.h>
#include <string.h>

#include "analyse/pipeline_internal.h"
#include "sketch/hash.h"

/* a metric that moves further, as one move in a hundred does, is "away" from its usual level */
#define AWAY 2.576f
/* fraction of its usual move during an anomaly above which a metric is still away */
#define STILL  0.25f
#define BEYOND 2.0f /* a rise of more than this times the rise of load is not due to load */
/* a metric that usually moves this far during an anomaly has not just wandered */
#define CLEAR	 8.0f
#define USUAL	 3.0f	       /* |z| of a usual level */
#define SHORT_NS 120000000000u /* maximum hold of detectors without comparable scores */
#define PAUSE	 4u	       /* maximum number of steps in a pause that prolongs an anomaly */
/* an open anomaly continues while its metrics are away and the score is above this */
#define LASTS 0.5f
/* anomalies count as usual once their number exceeds twice the budget by this much */
#define NEWS 16.0
/*
 * Each anomaly beyond the first FEW, and beyond QUARTER of the budget, raises the thresholds by
 * RISE. Anomalies within APART_NS count as one.
 */
#define FEW	 2.0
#define RISE	 0.4f
#define QUARTER	 0.25
#define APART_NS 120000000000u
#define SUSPECT	 10u  /* number of last steps in the sum of a run; at most ANALYSE_LATE */
#define LEFT	 0.5f /* a step below this fraction of the run's mean ends the run */
/* fraction of the threshold above which a step may be the beginning of a fault */
#define DOUBT	  0.25f
#define INFLUENCE 2.0  /* limit of an anomaly's learned score, in multiples of the threshold */
#define COUNTED	  10u  /* number of steps with error counts before errors are judged */
#define PAUSES_S  1.0f /* a silence this much longer than earlier ones is unusual */
/* number of disturbances that a warm-up does not learn; if there are more, they are normal */
#define CHANCE 2u

typedef void (*learn_fn)(struct analyse_calibration *c, double score);

static void learn_sample(struct analyse_thresholds *t, const struct analyse_training_sample *l,
			 learn_fn learn)
{
	learn_fn within = l->within ? analyse_calibration_learn_within : learn;

	within(&t->step, l->score);
	for (uint32_t k = 0; t->kind && k < ANALYSE_KINDS; k++)
		within(&t->kind[k], l->kind[k]);
	learn(&t->run, l->run);
}

/*
 * While a pod warms up among settled pods, do not learn its scores above the shared threshold: a
 * fault of the pod itself, or of a connected pod, must not raise the threshold of all.
 */
static void learn_shared(struct analyse_pipeline *p, const struct analyse_training_sample *l)
{
	struct analyse_thresholds *all = p->thresholds;
	struct analyse_training_sample usual = *l;

	if (!l->within && (double)l->score > analyse_calibration_threshold(&all->step))
		usual.score = NAN;
	if ((double)l->run > fmax(analyse_calibration_threshold(&all->run),
				  ANALYSE_FAST * analyse_calibration_threshold(&all->step)))
		usual.run = NAN;
	for (uint32_t k = 0; k < ANALYSE_KINDS; k++)
		if (!l->within && (double)l->kind[k] > analyse_calibration_threshold(&all->kind[k]))
			usual.kind[k] = NAN;
	learn_sample(all, &usual, analyse_calibration_learn_gated);
}

static bool learns_all(const struct analyse_pipeline *p)
{
	return p->learning == ANALYSE_LEARN_ALL || p->learning == ANALYSE_LEARN_WARM;
}

static void learn_scores(struct analyse_pipeline *p, const struct analyse_training_sample *l)
{
	bool gated = p->learning == ANALYSE_LEARN_GATED;
	learn_fn learn = gated ? analyse_calibration_learn_gated : analyse_calibration_learn;

	p->thresholds->settled |= gated;
	if (learns_all(p) && p->thresholds != &p->own && p->thresholds->settled)
		learn_shared(p, l);
	else
		learn_sample(p->thresholds, l, learn);
	/* Drift and the frequency of peaks are calibrated per pod. */
	if (p->thresholds != &p->own)
		learn_sample(&p->own, l, learn);
	if (p->shadow)
		learn(&p->shadow_calibration, l->shadow);
}

/* Limits how far learning an anomaly raises the threshold. */
static float at_most(float score, double threshold)
{
	return (float)fmin(score, INFLUENCE * threshold);
}

double analyse_pipeline_threshold(struct analyse_pipeline *p)
{
	return analyse_calibration_among(&p->own.step, &p->thresholds->step);
}

/* The probability of errors is known without any scores, but needs some steps of the pod. */
static bool counts_errors(const struct analyse_pipeline *p)
{
	return (p->learning == ANALYSE_LEARN_WARM || p->learning == ANALYSE_LEARN_GATED) &&
	       p->stats.learned >= COUNTED;
}

double analyse_pipeline_kind_threshold(struct analyse_pipeline *p, enum analyse_kind kind)
{
	struct analyse_calibration *c = &p->thresholds->kind[kind];

	if (kind == ANALYSE_KIND_ERRORS && !analyse_calibration_known(c) && counts_errors(p))
		return analyse_calibration_prior(c);
	return analyse_calibration_threshold(c);
}

/*
 * The learned threshold of errors depends on how they cluster, which says nothing about silence:
 * beside a busy process, it may be above any score that silence can have.
 */
double analyse_pipeline_silence_threshold(const struct analyse_pipeline *p)
{
	return p->silent_s > p->pause_s[1] + PAUSES_S && counts_errors(p)
		       ? analyse_calibration_prior(&p->thresholds->kind[ANALYSE_KIND_ERRORS])
		       : INFINITY;
}

double analyse_pipeline_run_threshold(struct analyse_pipeline *p)
{
	return fmax(analyse_calibration_among(&p->own.run, &p->thresholds->run),
		    ANALYSE_FAST * analyse_pipeline_threshold(p));
}

/*
 * Delays learning by ANALYSE_LATE steps, so that an anomaly can discard the scores just before it:
 * a fault that begins below the threshold must not raise it.
 */
static void learn_scores_late(struct analyse_pipeline *p, const struct analyse_training_sample *l)
{
	uint32_t i = p->late_at;

	if (p->learning != ANALYSE_LEARN_GATED) {
		learn_scores(p, l);
		return;
	}
	if (p->late_n == ANALYSE_LATE)
		learn_scores(p, &p->late[i]);
	else
		p->late_n++;
	p->late[i] = *l;
	p->late_at = (i + 1) % ANALYSE_LATE;
}

/* ---- the warm-up ---- */

bool analyse_pipeline_is_odd(const struct analyse_pipeline *p, const struct analyse_verdict *v)
{
	const struct analyse_calibration *c = p->thresholds->kind;

	for (uint32_t k = 0; k < ANALYSE_KINDS && p->opts.detector->comparable; k++)
		if ((double)p->kind[k] > analyse_calibration_prior(&c[k]))
			return true;
	return v->errors > 1;
}

/*
 * True if the warm-up does not learn the finished step. Improbable values are considered normal if
 * they occur again and again, and so is a disturbance that takes half of the time, including its
 * pauses.
 */
static bool leave_out(struct analyse_pipeline *p)
{
	bool next = !p->warm.steps || p->step - p->warm.last >= ANALYSE_LATE;
	uint32_t *times = &p->warm.times[p->warm.errors];

	if (!p->warm.now)
		return false;
	*times += next;
	p->warm.steps += next ? 1 : p->step - p->warm.last;
	p->warm.last = p->step;
	return *times <= CHANCE && 2 * p->warm.steps < p->stats.steps;
}

/* True if the finished step is withheld from learning, except for a random few. */
static bool is_withheld(const struct analyse_pipeline *p)
{
	bool anomalous = p->step_anomalous || p->step_lasts;

	return (p->learning == ANALYSE_LEARN_GATED && anomalous) || p->warm.out;
}

/*
 * Returns false for a disturbance that takes half of the time. Such a disturbance is learned:
 * either it ends some steps later, or it is the pod's normal behaviour.
 */
bool analyse_pipeline_disturbed(const struct analyse_pipeline *p)
{
	return p->warm.odd && 2ull * p->anomalous < p->stats.steps + 2 * ANALYSE_LATE;
}

/* ---- runs ---- */

/*
 * True while baselines may be held; otherwise there is no run. With long steps and a call graph
 * they are never held, because evidence from latencies counts as new for two steps (culprit.h).
 * Without comparable scores nothing shows that an anomaly lasts, so the hold is short.
 */
static bool may_hold(const struct analyse_pipeline *p)
{
	const uint64_t step = p->opts.step_ns, hold = p->opts.hold_ns;

	if (!p->opts.detector->comparable)
		return (p->holding + ANALYSE_FAST - 1) * step < (hold < SHORT_NS ? hold : SHORT_NS);
	return (!p->joint || analyse_pipeline_has_runs(p)) && p->holding * step < hold;
}

/* Returns the score that the pod exceeds in one step of ten; higher scores belong to a run. */
static float usual_score(const struct analyse_pipeline *p)
{
	return analyse_pipeline_has_runs(p) && may_hold(p) &&
			       analyse_calibration_known(&p->own.step)
		       ? (float)p->own.step.q90
		       : INFINITY;
}

/* Returns the sum of the last *n steps of the run so far. */
static float earlier_sum(const struct analyse_pipeline *p, uint32_t *n)
{
	float sum = 0;

	*n = p->run.steps < SUSPECT - 1 ? p->run.steps : SUSPECT - 1;
	for (uint32_t i = 1; i <= *n; i++)
		sum += p->run.above[(p->run.steps - i) % ANALYSE_LATE];
	return sum;
}

/*
 * True if a step this far above the usual score belongs to the run: the decay of a deviation that
 * has ended must not prolong the run.
 */
static bool belongs_to_run(const struct analyse_pipeline *p, float above)
{
	uint32_t n;
	float sum = earlier_sum(p, &n);

	return above > 0 && above * (float)n >= LEFT * sum;
}

float analyse_pipeline_run_sum(const struct analyse_pipeline *p)
{
	float now = p->step_score - usual_score(p);
	uint32_t n;

	if (!(now > 0))
		return 0;
	return belongs_to_run(p, now) ? earlier_sum(p, &n) + now : now;
}

/*
 * Extends or ends a run. The run's largest score is learned as one step, the others as steps within
 * it (declustering: Coles 2001, 5.3.2), and its largest sum as a run. Runs with anomalies are not
 * learned.
 */
static void end_run(struct analyse_pipeline *p, bool learn)
{
	struct analyse_training_sample l = {.score = p->step_score, .shadow = p->step_shadow};
	float above = p->step_score - usual_score(p);

	memcpy(l.kind, p->step_kind, sizeof(l.kind));
	if (p->run.steps && !belongs_to_run(p, above)) {
		struct analyse_training_sample whole = {
			.score = p->run.peak, .run = p->run.sum, .shadow = NAN};

		memcpy(whole.kind, p->run.kind, sizeof(whole.kind));
		if (learn && !p->run.found)
			learn_scores_late(p, &whole);
		memset(&p->run, 0, sizeof(p->run));
	}
	if (above > 0) {
		/* The first step is learned when the run ends; it then represents the whole run. */
		l.score = p->run.steps ? p->step_score : NAN;
		l.run = p->run.steps ? 0 : NAN;
		for (uint32_t k = 0; k < ANALYSE_KINDS; k++) {
			p->run.kind[k] = p->run.steps ? fmaxf(p->run.kind[k], l.kind[k])
						      : l.kind[k];
			l.kind[k] = p->run.steps ? l.kind[k] : NAN;
		}
		l.within = true;
		p->run.sum = fmaxf(p->run.sum, analyse_pipeline_run_sum(p));
		p->run.above[p->run.steps % ANALYSE_LATE] = above;
		p->run.peak = fmaxf(p->run.peak, p->step_score);
		p->run.steps++;
		p->run.found |= p->step_anomalous;
	}
	if (learn)
		learn_scores_late(p, &l);
}

/* ---- the open anomaly ---- */

void analyse_pipeline_release(struct analyse_pipeline *p)
{
	memset(p->held, 0, p->dims * sizeof(*p->held));
	p->open = false;
	p->calm = p->pause = p->open_steps = 0;
	p->open_peak = 0;
}

/*
 * True if the metric is not back at its usual level yet. Its usual level may have wandered while it
 * was held: small moves count as back if the anomaly's moves are large, and so does a usual level
 * if the anomaly's moves are small.
 */
static bool is_away(const struct analyse_pipeline *p, uint32_t s)
{
	float move = fabsf(p->move[s]);

	if (!p->held[s])
		return move > AWAY;
	return move > fmaxf(AWAY, STILL * p->away[s]) &&
	       (p->away[s] > CLEAR || fabsf(p->z[s]) > USUAL);
}

bool analyse_pipeline_pauses(const struct analyse_pipeline *p)
{
	return p->open && p->calm < p->pause;
}

bool analyse_pipeline_lasts(const struct analyse_pipeline *p, float score)
{
	for (uint32_t s = 0; p->open && score > LASTS && s < p->dims; s++)
		if (p->held[s] && is_away(p, s))
			return true;
	return false;
}

float analyse_pipeline_discount_repeated(const struct analyse_pipeline *p, float score)
{
	if (!p->open || analyse_pipeline_has_runs(p) || score > p->open_peak)
		return score;
	return score * fminf((float)p->open_steps / SUSPECT, 1);
}

float analyse_pipeline_strictness(const struct analyse_pipeline *p)
{
	return 1 + RISE * (float)fmax(p->excess - FEW, 0);
}

void analyse_pipeline_take_level(struct analyse_pipeline *p)
{
	for (uint32_t s = 0; s < p->dims; s++) {
		if (p->open ? !p->held[s] : !is_away(p, s))
			continue;
		if (p->role[s] == ANALYSE_ROLE_ERRORS)
			memset(&p->slots[s].errors, 0, sizeof(p->slots[s].errors));
		analyse_normaliser_accept(&p->normaliser, s, p->x[s]);
	}
	if (p->suspect)
		analyse_culprit_accept(p->suspect);
	analyse_pipeline_release(p);
	p->holding = 0;
}

/* True if the metric alone would be an anomaly. */
static bool suffices(struct analyse_pipeline *p, uint32_t s)
{
	return p->opts.detector->comparable &&
	       (double)p->blame[s] > fmax(analyse_pipeline_kind_threshold(p, p->group[s]),
					  (double)ANALYSE_EVIDENCE_MIN);
}

/*
 * Returns the number of calm steps that end the anomaly, or the hold of a metric. An anomaly that
 * has had pauses may resume after a longer one.
 */
static uint32_t calm_steps(const struct analyse_pipeline *p)
{
	return ANALYSE_FAST + 2 * p->pause;
}

/* Returns the largest factor by which a metric of load has risen; 1 if none has. */
static float load_factor(const struct analyse_pipeline *p)
{
	float most = 1;

	for (uint32_t s = 0; s < p->dims; s++)
		if (p->role[s] == ANALYSE_ROLE_LOAD && p->move[s] > AWAY &&
		    p->normaliser.slow[s] > 0)
			most = fmaxf(most, p->x[s] / p->normaliser.slow[s]);
	return most;
}

/*
 * True for load that rises over minutes, and for CPU that rises with it. Such a rise follows the
 * time of day, and is not a fault.
 */
static bool follows_load(const struct analyse_pipeline *p, uint32_t s, float load)
{
	const struct analyse_slot *slot = &p->slots[s];

	if (analyse_pipeline_has_runs(p) || !(p->move[s] > 0))
		return false;
	return slot->role.kind == ANALYSE_ROLE_LOAD ||
	       (slot->role.kind == ANALYSE_ROLE_RESOURCE && slot->role.part == ANALYSE_CPU &&
		load > 1 && p->x[s] < BEYOND * load * p->normaliser.slow[s]);
}

/* Holds the baseline of a metric that moved away, until it has been back for some steps. */
static void hold_metric(struct analyse_pipeline *p, uint32_t s, bool begins, float load)
{
	bool away = is_away(p, s);
	float size = fabsf(p->move[s]);

	if (!p->held[s]) {
		p->held[s] = away && (begins || suffices(p, s)) && !follows_load(p, s, load);
		p->away[s] = size;
		p->back[s] = 0;
	} else if (away) {
		/* A moving average of the logarithm, over about eight steps. */
		p->away[s] *= sqrtf(sqrtf(sqrtf(size / p->away[s])));
		p->back[s] = 0;
	} else if (++p->back[s] >= calm_steps(p)) {
		p->held[s] = false;
		if (fabsf(p->move[s]) > AWAY)
			analyse_normaliser_follow(&p->normaliser, s, p->x[s]);
	}
	if (p->held[s])
		analyse_normaliser_drift(&p->normaliser, s);
}

/*
 * Opens an anomaly, or ends it after some calm steps. Half a threshold is only meaningful for
 * comparable scores.
 */
static void keep_open(struct analyse_pipeline *p)
{
	if (p->learning != ANALYSE_LEARN_GATED || !p->opts.detector->comparable ||
	    (!p->open && !may_hold(p)))
		return;
	if (p->step_away && p->calm > p->pause && p->open)
		p->pause = p->calm < PAUSE ? p->calm : PAUSE;
	p->open |= p->step_away;
	p->open_steps += p->open;
	p->open_peak = p->open ? fmaxf(p->open_peak, p->step_verdict) : 0;
	p->calm = p->step_away ? 0 : p->calm + 1;
	if (p->open && p->calm >= calm_steps(p))
		analyse_pipeline_release(p);
}

/*
 * Holds baselines, so that a fault does not look normal after two steps. An anomaly holds the
 * baselines of metrics that moved in its first steps, or that alone would be an anomaly, until the
 * metrics are back, for at most hold_ns. Other baselines follow, because a drifting metric would
 * soon be far from a held baseline and keep the anomaly going. Anomalies close to each other share
 * the hold time.
 *
 * Baselines take ANALYSE_FAST - 1 steps to follow. In a run that is not an anomaly yet, baselines
 * are held whenever metrics move away: a long slight deviation must not hide the fault that
 * follows. A persistent deviation becomes normal, as distances are counted in every SUSPECT-th
 * step.
 */
static bool hold_baselines(struct analyse_pipeline *p)
{
	bool withheld = is_withheld(p), any = false;
	bool begins = p->anomalous < ANALYSE_FAST || p->run.steps <= ANALYSE_FAST;

	float load = load_factor(p);

	begins &= withheld || p->run.steps;
	p->anomalous = p->step_anomalous ? p->anomalous + 1 : 0;
	keep_open(p);
	/* If the warm-up learns an improbable step, the step is the new level. */
	if (!may_hold(p) || !(withheld || p->open || p->run.steps) ||
	    (p->warm.odd && !p->warm.out)) {
		p->holding -= !withheld && p->holding;
		analyse_pipeline_release(p);
		return false;
	}
	p->holding += withheld;
	p->holding -= !withheld && p->holding;
	for (uint32_t s = 0; s < p->dims; s++) {
		hold_metric(p, s, begins, load);
		any |= p->held[s];
	}
	if (p->open && !may_hold(p))
		analyse_pipeline_take_level(p);
	return any && (withheld || p->open);
}

/*
 * Returns true while anomalies are so frequent that they must be the pod's normal behaviour,
 * according to a one-sided CUSUM (Page 1954) of the anomalies in excess of twice the budget. Then
 * the distances in the first step of each anomaly are counted, too. Those of later steps are not,
 * because the steps of one anomaly are not independent (declustering: Coles 2001, 5.3.2).
 */
static bool anomalies_are_usual(struct analyse_pipeline *p)
{
	if (p->learning != ANALYSE_LEARN_GATED)
		return false;
	p->news = fmin(fmax(p->news + (p->anomalous == 1) - 2 * p->q, 0), 2 * NEWS);
	return p->news > NEWS;
}

/*
 * True if distances are counted later, so that the first row of a fault does not make the next ones
 * normal. Of SUSPECT steps in a run (or of doubtful steps, if steps are too long for runs), only
 * the largest distance is counted, and none if an anomaly follows.
 */
static bool count_later(struct analyse_pipeline *p)
{
	if (analyse_pipeline_has_runs(p))
		return p->run.steps % SUSPECT && !p->step_anomalous;
	if (!p->opts.detector->comparable || p->learning != ANALYSE_LEARN_GATED)
		return false;
	p->doubtful = p->step_verdict > DOUBT ? p->doubtful + 1 : 0;
	return p->doubtful % SUSPECT && !p->step_anomalous;
}

/* Counts the anomalies that exceed a fraction of the budget, like anomalies_are_usual(). */
static void count_excess(struct analyse_pipeline *p)
{
	bool begins = p->anomalous == 1 && p->learning == ANALYSE_LEARN_GATED &&
		      analyse_pipeline_has_runs(p) &&
		      (p->step - p->excess_at) * p->opts.step_ns > APART_NS;

	p->excess = fmin(fmax(p->excess + begins - QUARTER * p->q, 0), 2 * NEWS);
	if (begins)
		p->excess_at = p->step;
}

/* Notes which queues have grown in the step. learn: learn how often they do. */
static void note_growth(struct analyse_pipeline *p, bool learn)
{
	for (uint32_t s = 0; p->queues && s < p->dims; s++) {
		struct analyse_slot *slot = &p->slots[s];
		float *step = slot->growth.step, x = p->normaliser.sum[s] / p->normaliser.sum_n[s];
		bool grew = x > step[ANALYSE_GROWTH - 1];

		if (!slot->growth.judged)
			continue;
		memmove(step + 1, step, (ANALYSE_GROWTH - 1) * sizeof(*step));
		step[0] = x;
		if (learn && slot->growth.steps) {
			slot->growth.after++;
			slot->growth.more += grew;
		}
		slot->growth.steps = grew ? slot->growth.steps + 1 : 0;
	}
}

/* Learns the errors since the end of the previous step. */
static void learn_errors(struct analyse_pipeline *p, bool learn)
{
	for (uint32_t s = 0; s < p->dims; s++) {
		struct analyse_slot *slot = &p->slots[s];
		double last = p->reading.last[s];

		if (p->role[s] != ANALYSE_ROLE_ERRORS || isnan(last))
			continue;
		if (learn && last >= slot->counted && last - slot->counted < ANALYSE_LARGE)
			analyse_count_learn(&slot->errors, (float)(last - slot->counted),
					    (float)((double)p->opts.step_ns * 1e-9));
		slot->counted = last;
	}
}

/* Learns the scores of an anomalous step, up to a limit. */
static void learn_anomaly(struct analyse_pipeline *p)
{
	struct analyse_training_sample l = {
		.score = at_most(p->step_score, analyse_pipeline_threshold(p)),
		.shadow = at_most(p->step_shadow,
				  analyse_calibration_threshold(&p->shadow_calibration)),
	};

	for (uint32_t k = 0; k < ANALYSE_KINDS; k++)
		l.kind[k] = isnan(p->step_kind[k]) ? NAN
						   : at_most(p->step_kind[k],
							     analyse_pipeline_kind_threshold(p, k));
	learn_scores(p, &l);
}

void analyse_pipeline_end_step(struct analyse_pipeline *p)
{
	struct analyse_row row = {p->dims, p->z, p->move, p->group};
	bool learn, held, lasts, taught, later, slow;
	enum analyse_count count = ANALYSE_COUNT_NOT;

	if (!p->step_scored)
		return;
	/* Once per step, because the rows of one step depend on each other. */
	p->drift = analyse_calibration_watch(&p->own.step, p->step_score);
	p->warm.odd = p->learning == ANALYSE_LEARN_WARM && p->step_anomalous &&
		      p->opts.detector->comparable;
	p->warm.out = leave_out(p);
	if (p->step_anomalous)
		p->late_n = 0;
	/* Scores that a detector gives before it is trained say nothing about its threshold. */
	taught = p->learning == ANALYSE_LEARN_SCORES ||
		 (p->learning != ANALYSE_LEARN_NONE && p->stats.learned >= ANALYSE_SLOW);
	learn = learns_all(p) && !p->warm.out;
	end_run(p, taught && !is_withheld(p));
	held = hold_baselines(p);
	/*
	 * If baselines were held in the previous step but not in this one, a fault has ended. It
	 * does not count as lasting.
	 */
	lasts = p->step_anomalous && !held && !p->was_held;
	p->was_held = held;
	if (p->learning == ANALYSE_LEARN_GATED)
		learn = !is_withheld(p) ||
			(lasts && sketch_random_uniform(&p->random) < p->opts.eta);
	learn_errors(p, learn);
	note_growth(p, learn);
	if (learn) {
		p->stats.learned++;
		if (p->opts.detector->learn)
			p->opts.detector->learn(p->detector, &row);
		if (p->shadow && p->opts.shadow->learn)
			p->opts.shadow->learn(p->shadow, &row);
		if (taught && p->learning == ANALYSE_LEARN_GATED && p->step_anomalous)
			learn_anomaly(p);
	}
	later = count_later(p);
	count_excess(p);
	if (learn || (anomalies_are_usual(p) && p->anomalous == 1))
		count = later ? ANALYSE_COUNT_LATER : ANALYSE_COUNT;
	/*
	 * During an anomaly, freeze the slow baselines, so that metrics that return to normal do
	 * not seem to move. Not with long steps, where metrics move often anyway.
	 */
	slow = !(is_withheld(p) && may_hold(p) && analyse_pipeline_has_runs(p));
	analyse_normaliser_step(&p->normaliser, learn, count, slow, p->held);
	p->stats.steps++;
	p->step_scored = p->step_anomalous = p->step_lasts = p->step_away = false;
	p->warm.now = p->warm.errors = false;
	p->step_score = p->step_shadow = p->step_verdict = 0;
	for (uint32_t k = 0; k < ANALYSE_KINDS; k++)
		p->step_kind[k] = NAN;
}

void analyse_pipeline_forget(struct analyse_pipeline *p)
{
	analyse_pipeline_release(p);
	p->holding = p->anomalous = 0;
	p->was_held = false;
	memset(&p->run, 0, sizeof(p->run));
	p->news = p->excess = 0;
	p->worked_ns = 0;
	p->doubtful = 0;
	p->late_n = 0;
	memset(&p->warm, 0, sizeof(p->warm));
}
