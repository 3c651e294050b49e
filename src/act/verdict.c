// SPDX-License-Identifier: Apache-2.0
/*
 * Lock order: the store's lock (pod table, anomaly list), then a pod's lock (its shown state).
 * Writers only use trylock.
 */
#include "act/verdict.h"
#include "act/explain.h"

#include <errno.h>
#include <math.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/hash.h"
#include "base/table.h"

#define SECOND_NS     1000000000ull
#define MINUTE_NS     60000000000ll
#define RECENT	      3		   /* number of steps in the recent score */
#define STEPS_HELD_NS 4000000000ll /* maximum interval between rows that prolongs an anomaly */
/* metrics with a smaller share of the score do not decide whether a pod is better than usual */
#define SHARE_LEAST 0.05
/* below this fraction of the usual requests, less CPU and waiting is not an improvement */
#define LOAD_FELL 0.67

const char *const act_state_names[] = {"learning", "coarse", "ready"};

/* the newest finding whose steps are at least this part of the longest ones says why */
#define STEP_KEPT 0.8

/* The current or last anomaly of a pod. */
struct verdict_course {
	uint64_t number;      /* number of the anomaly within its pod; 0 if none yet */
	int64_t end_ns;	      /* when the writer found that it was over */
	double worst;	      /* highest score while a.now was the current fault */
	double rise;	      /* largest act_step.rise of all findings */
	struct act_anomaly a; /* without the fields that the keeper sets: see take_course() */
};

struct verdict_score {
	int64_t step; /* ns / step_ns */
	float score, suspicion, threshold;
};

struct verdict_state {
	struct act_pod_verdict v;
	struct verdict_course course;
};

struct act_verdict_pod {
	struct base_node node;
	struct act_verdicts *store;
	struct verdict_state own; /* state as the writer knows it; only the writer accesses it */
	/* usual time between two findings, used by the writer only; 0 if not known */
	int64_t step_ns;
	bool gone; /* set by the writer as its last access */

	pthread_mutex_t lock;
	struct verdict_state shown;
	struct verdict_score *score; /* ring of ACT_SCORES_KEPT scores */
	uint64_t scores;	     /* number of scores written so far */

	/* State of the keeper. */
	uint64_t kept_number, kept_findings; /* number and findings already in the list */
	int64_t minute;			     /* minute of the last anomaly, for its event ID */
	/* The current anomaly as last reported; the list may have dropped it. */
	struct act_anomaly on; /* id 0 means no anomaly */
	bool traced;	       /* the anomaly has a trace that is not reported yet */
	int64_t trace_ns;
	uint8_t trace[ACT_TRACE_ID_BYTES];
};

struct act_verdicts {
	struct act_verdicts_opts o;
	pthread_mutex_t lock;
	struct base_table pods;
	struct act_anomaly *anomaly; /* ring: the anomaly with id i is at i % max_anomalies */
	uint64_t last_id;
	struct act_verdicts_stats stats; /* totals of freed pods */
};

/* ---- the store ---- */

struct act_verdicts *act_verdicts_new(const struct act_verdicts_opts *opts)
{
	struct act_verdicts *v = calloc(1, sizeof(*v));
	struct act_verdicts_opts *o;

	if (!v)
		return NULL;
	v->o = *opts;
	o = &v->o;
	o->max_pods = o->max_pods ? o->max_pods : 16384;
	o->max_anomalies = o->max_anomalies ? o->max_anomalies : 1024;
	o->hold_ns = o->hold_ns ? o->hold_ns : SECOND_NS;
	o->unread_ns = o->unread_ns ? o->unread_ns : 10 * SECOND_NS;
	o->step_ns = o->step_ns ? o->step_ns : SECOND_NS / 2;
	v->anomaly = calloc(o->max_anomalies, sizeof(*v->anomaly));
	pthread_mutex_init(&v->lock, NULL);
	if (base_table_init(&v->pods) && v->anomaly)
		return v;
	act_verdicts_free(v);
	errno = ENOMEM;
	return NULL;
}

static void pod_free(struct act_verdict_pod *p)
{
	pthread_mutex_destroy(&p->lock);
	free(p->score);
	free(p);
}

void act_verdicts_free(struct act_verdicts *v)
{
	if (!v)
		return;
	BASE_TABLE_EACH(&v->pods, n)
		pod_free((struct act_verdict_pod *)n);
	pthread_mutex_destroy(&v->lock);
	base_table_free(&v->pods);
	free(v->anomaly);
	free(v);
}

static struct act_verdict_pod *find_pod(struct act_verdicts *v, uint64_t instance)
{
	struct act_verdict_pod *p = base_table_first(&v->pods, base_hash_u64(instance));

	while (p && p->own.v.instance != instance)
		p = base_table_next(p);
	return p;
}

/* ---- writers ---- */

struct act_verdict_pod *act_verdicts_add(struct act_verdicts *v, uint64_t instance,
					 const struct act_pod_name *name)
{
	struct act_verdict_pod *p = NULL;
	int err = ENOSPC;

	pthread_mutex_lock(&v->lock);
	if (v->pods.count >= v->o.max_pods) {
		v->stats.refused_pods++;
		goto unlock;
	}
	err = ENOMEM;
	p = calloc(1, sizeof(*p));
	if (!p || !(p->score = calloc(ACT_SCORES_KEPT, sizeof(*p->score)))) {
		free(p);
		p = NULL;
		goto unlock;
	}
	pthread_mutex_init(&p->lock, NULL);
	p->store = v;
	p->own.v.instance = instance;
	p->own.v.name = *name;
	p->own.v.threshold = INFINITY;
	p->own.v.shadow_score = NAN;
	p->shown = p->own;
	base_table_add(&v->pods, p, base_hash_u64(instance));
unlock:
	pthread_mutex_unlock(&v->lock);
	if (!p)
		errno = err;
	return p;
}

static uint32_t take_blame(struct act_blame to[ACT_BLAMES], const struct act_finding *f)
{
	uint32_t n = BASE_MIN(f->blames, ACT_BLAMES);

	memcpy(to, f->blame, n * sizeof(*to));
	/*
	 * A rare kind of work may be absent for a while, and a worker may leave one kind to others,
	 * so require that nearly all requests have stopped.
	 */
	for (uint32_t i = 0; i < n; i++)
		if (to[i].measure == ACT_MEASURE_LOAD && to[i].value == 0 && to[i].before > 0 &&
		    (i ? f->load > 0 && f->load < ACT_LOAD_STOPPED : !f->working))
			to[i].measure = ACT_MEASURE_STOPPED;
	return n;
}

static void note_fault(struct act_anomaly *a, enum act_measure measure, bool risen, int64_t ns)
{
	struct act_fault *x = &a->fault[measure];

	if (!x->last_ns || ns - x->last_ns > ACT_FAULT_OVER_NS)
		*x = (struct act_fault){.begin_ns = ns};
	x->last_ns = BASE_MAX(x->last_ns, ns);
	x->risen = risen;
}

/* Records the faults that a finding shows. Returns the main one. */
static enum act_measure note_faults(struct act_anomaly *a, const struct act_finding *f,
				    const struct act_blame *blame, uint32_t n)
{
	const struct act_blame *lead = act_find_lead(blame, n);
	enum act_measure shows = lead ? lead->measure : ACT_MEASURE_OTHER;

	if (f->delay > 0 && shows != ACT_MEASURE_STOPPED)
		shows = ACT_MEASURE_LATENCY;
	note_fault(a, shows, !lead || shows != lead->measure || !(lead->value < lead->before),
		   f->ns);
	for (uint32_t i = 0; i < n; i++) {
		const struct act_blame *b = &blame[i];

		if (b != lead && b->share >= ACT_SHARE_SAID &&
		    !act_is_improvement(b->measure, b->value, b->before))
			note_fault(a, b->measure, !(b->value < b->before), f->ns);
	}
	return shows;
}

static int rank_lead(const struct act_blame *blame, uint32_t n)
{
	const struct act_blame *lead = act_find_lead(blame, n);

	return lead ? act_rank_blame(lead) : 0;
}

/*
 * True if the finding describes the current fault better than earlier findings did, or shows that
 * another fault is now the current one.
 */
static bool is_present(const struct verdict_course *c, const struct act_finding *f,
		       const struct act_pod_verdict *v, enum act_measure shows)
{
	int rank = rank_lead(v->blame, v->blames), was = rank_lead(c->a.blame, c->a.blames);

	if (f->ns - c->a.fault[c->a.now].last_ns > ACT_FAULT_OVER_NS)
		return true;
	if ((shows == ACT_MEASURE_STOPPED) != (c->a.now == ACT_MEASURE_STOPPED))
		return shows == ACT_MEASURE_STOPPED;
	/* The first metric to move is often a consequence that is measured before its cause. */
	if (rank != was && BASE_MAX(rank, was) >= ACT_RANK_NAMES)
		return rank > was;
	return f->score > c->worst;
}

static void alarm_at(struct verdict_state *s, const struct act_finding *f)
{
	struct verdict_course *c = &s->course;
	struct act_anomaly *a = &c->a;
	enum act_measure shows;

	if (!s->v.anomalous) {
		*c = (struct verdict_course){.number = c->number + 1,
					     .worst = -1,
					     .a = {.instance = s->v.instance,
						   .name = s->v.name,
						   .begin_ns = f->ns,
						   .peak = -1,
						   .born_ns = f->born_ns}};
		s->v.anomalous = true;
		s->v.begin_ns = f->ns;
		s->v.anomalies++;
	}
	s->v.alarms++;
	s->v.blames = take_blame(s->v.blame, f);
	a->last_ns = BASE_MAX(f->ns, a->last_ns);
	a->findings++;
	a->suspicion = fmax(a->suspicion, f->suspicion);
	a->load = act_farther_from_1(a->load, f->load);
	if (f->score > a->peak) {
		a->peak = f->score;
		a->threshold = f->threshold;
	}
	if (f->step.cause && f->step.rise >= STEP_KEPT * c->rise)
		a->step = f->step;
	c->rise = fmax(c->rise, f->step.rise);
	shows = note_faults(a, f, s->v.blame, s->v.blames);
	if (shows == ACT_MEASURE_STOPPED) {
		snprintf(a->queue, sizeof(a->queue), "%s", f->queue ? f->queue : "");
		a->waiting = f->waiting;
	}
	if (a->findings > 1 && !is_present(c, f, &s->v, shows))
		return;
	a->fault[a->now].led |= a->findings > 1 && a->now != shows;
	a->now = shows;
	c->worst = f->score;
	a->blames = s->v.blames;
	memcpy(a->blame, s->v.blame, sizeof(a->blame));
	a->delay = f->delay;
	snprintf(a->callers, sizeof(a->callers), "%s", f->callers ? f->callers : "");
}

/* Caller holds the pod's lock. */
static void add_score(struct act_verdict_pod *p)
{
	const struct act_pod_verdict *v = &p->own.v;
	int64_t step = v->ns / (int64_t)p->store->o.step_ns;
	struct verdict_score *s = &p->score[(p->scores ? p->scores - 1 : 0) % ACT_SCORES_KEPT];

	if (!p->scores || s->step != step) {
		s = &p->score[p->scores++ % ACT_SCORES_KEPT];
		*s = (struct verdict_score){.step = step, .score = -1};
	}
	s->threshold = (float)v->threshold;
	if ((float)v->score > s->score)
		s->score = (float)v->score;
	if ((float)v->suspicion > s->suspicion)
		s->suspicion = (float)v->suspicion;
}

static void show_state(struct act_verdict_pod *p)
{
	const struct verdict_course *own = &p->own.course, *shown = &p->shown.course;

	if (pthread_mutex_trylock(&p->lock))
		return; /* the next finding will show it, too */
	p->shown.v = p->own.v;
	/* Copy the course only if it has changed: most pods have no anomaly. */
	if (own->number != shown->number || own->a.findings != shown->a.findings ||
	    own->end_ns != shown->end_ns)
		p->shown.course = p->own.course;
	add_score(p);
	pthread_mutex_unlock(&p->lock);
}

/*
 * Returns how long an anomaly lasts without an anomalous finding: a pod that is read rarely, such
 * as connections, may have a row or two without one. If a pod misses a row, the usual time applies.
 */
static int64_t hold_of(const struct act_verdict_pod *p, bool anomalous)
{
	const int64_t steps = anomalous ? 5 * p->step_ns / 2 : 3 * p->step_ns / 2;
	const int64_t held = BASE_MIN(steps, STEPS_HELD_NS);

	return BASE_MAX((int64_t)p->store->o.hold_ns, held);
}

static void learn_step(struct act_verdict_pod *p, int64_t since_ns)
{
	if (since_ns <= 0 || !p->own.v.findings)
		return;
	since_ns = BASE_MIN(since_ns, STEPS_HELD_NS);
	p->step_ns = !p->step_ns || since_ns < p->step_ns
			     ? since_ns
			     : p->step_ns + (since_ns - p->step_ns) / 8;
}

/*
 * True if everything unusual is an improvement: lower latency, fewer errors, or less CPU and less
 * waiting for the same number of requests.
 */
static bool is_better(const struct act_finding *f)
{
	bool busy = f->load >= LOAD_FELL, better = false;

	if (f->delay > 0)
		return false;
	for (uint32_t i = 0; i < f->blames; i++) {
		if (f->blame[i].share < SHARE_LEAST)
			continue;
		if (!act_is_improvement(f->blame[i].measure, f->blame[i].value, f->blame[i].before))
			return false;
		if (!busy && (f->blame[i].measure == ACT_MEASURE_CPU ||
			      f->blame[i].measure == ACT_MEASURE_WAITING))
			return false;
		better = true;
	}
	return better;
}

void act_verdict_push(struct act_verdict_pod *p, const struct act_finding *f)
{
	struct verdict_state *s = &p->own;
	const bool anomalous = f->anomalous && !is_better(f);
	const int64_t gap = f->ns - s->course.a.last_ns, hold = hold_of(p, anomalous);

	learn_step(p, f->ns - s->v.ns);
	s->v.ns = f->ns;
	s->v.score = f->score;
	s->v.suspicion = f->suspicion;
	s->v.threshold = f->threshold;
	s->v.drift = f->drift;
	s->v.state = f->state;
	s->v.least = f->least;
	s->v.slowdown = f->slowdown;
	s->v.shadow_anomalous = f->shadow_anomalous;
	s->v.shadow_score = f->shadow_score;
	s->v.findings++;
	s->v.shadow_alarms += f->shadow_anomalous;
	/*
	 * A gap ends the anomaly, even if the next finding is anomalous again. Setting the clock
	 * back by more than that also counts as a gap; otherwise nothing would end until the clock
	 * caught up.
	 */
	if (s->v.anomalous && (gap > hold || gap < -hold)) {
		s->v.anomalous = false;
		s->course.end_ns = gap > 0 ? f->ns : s->course.a.last_ns;
	}
	if (anomalous)
		alarm_at(s, f);
	show_state(p);
}

void act_verdict_gone(struct act_verdict_pod *p)
{
	/* Pairs with the acquire in act_verdicts_keep(), which then owns p->own. */
	__atomic_store_n(&p->gone, true, __ATOMIC_RELEASE);
}

/* ---- the keeper ---- */

static struct act_anomaly *by_id(struct act_verdicts *v, uint64_t id)
{
	struct act_anomaly *a = &v->anomaly[id % v->o.max_anomalies];

	return id && a->id == id ? a : NULL;
}

static void begin_anomaly(struct act_verdicts *v, struct act_verdict_pod *p,
			  const struct verdict_state *s)
{
	uint64_t id = ++v->last_id;
	struct act_anomaly *a = &v->anomaly[id % v->o.max_anomalies];

	v->stats.forgotten += a->id != 0;
	v->stats.anomalies++;
	/*
	 * If two anomalies of a pod begin in the same minute, the second one gets the next number.
	 * Every collector does this in the same way.
	 */
	p->minute = BASE_MAX(s->course.a.begin_ns / MINUTE_NS, p->minute + 1);
	p->on = (struct act_anomaly){
		.id = id, .instance = s->v.instance, .name = s->v.name, .minute = p->minute};
	*a = p->on;
	p->kept_number = s->course.number;
	p->kept_findings = 0;
}

/* Copies the fields that the writer sets, and leaves those that the keeper sets. */
static void take_course(struct act_anomaly *on, const struct verdict_course *c)
{
	const struct act_anomaly before = *on;

	*on = c->a;
	on->id = before.id;
	on->minute = before.minute;
	on->has_trace = before.has_trace;
	memcpy(on->trace, before.trace, sizeof(on->trace));
}

/* State of one call to act_verdicts_keep(). */
struct verdict_pass {
	struct act_verdicts *v;
	int64_t now_ns;
	void (*changed)(const struct act_anomaly *a, void *arg);
	void *arg;
};

/* Reports each beginning, change and end, even if the list has dropped the anomaly. */
static void notify_change(const struct verdict_pass *k, const struct act_anomaly *on)
{
	struct act_anomaly *a = by_id(k->v, on->id);

	if (a)
		*a = *on;
	k->changed(on, k->arg);
}

/*
 * Ends the anomaly, but not earlier than its last finding, because the clock may have been set
 * back.
 */
static void end_anomaly(const struct verdict_pass *k, struct act_verdict_pod *p, int64_t ns,
			bool unread)
{
	p->on.end_ns = BASE_MAX(ns, p->on.last_ns);
	p->on.unread = unread;
	notify_change(k, &p->on);
	p->on.id = 0;
}

static void keep_pod(const struct verdict_pass *k, struct act_verdict_pod *p,
		     const struct verdict_state *s, bool gone)
{
	const struct verdict_course *c = &s->course;
	bool unread = gone || k->now_ns - s->v.ns > (int64_t)k->v->o.unread_ns;

	if (p->on.id && p->kept_number != c->number) /* another anomaly has begun in the meantime */
		end_anomaly(k, p, c->a.begin_ns, false);
	if (c->number > p->kept_number + 1)
		k->v->stats.missed += c->number - p->kept_number - 1;
	if (c->number != p->kept_number ||
	    (!p->on.id && c->a.findings > p->kept_findings && s->v.anomalous && !unread))
		begin_anomaly(k->v, p, s);
	if (p->on.id && (c->a.findings != p->kept_findings || p->traced)) {
		take_course(&p->on, c);
		p->kept_findings = c->a.findings;
		p->traced = false;
		notify_change(k, &p->on);
	}
	if (p->on.id && !s->v.anomalous)
		end_anomaly(k, p, c->end_ns, false);
	else if (p->on.id && unread)
		end_anomaly(k, p, k->now_ns, true);
}

void act_verdicts_keep(struct act_verdicts *v, int64_t now_ns,
		       void (*changed)(const struct act_anomaly *a, void *arg), void *arg)
{
	const struct verdict_pass pass = {v, now_ns, changed, arg};

	pthread_mutex_lock(&v->lock);
	BASE_TABLE_EACH(&v->pods, n) {
		struct act_verdict_pod *p = (struct act_verdict_pod *)n;
		bool gone = __atomic_load_n(&p->gone, __ATOMIC_ACQUIRE);
		struct verdict_state s;
		bool idle;

		if (gone)
			p->shown = p->own; /* findings that the writer could not show */
		pthread_mutex_lock(&p->lock);
		idle = !gone && !p->on.id && p->shown.course.number == p->kept_number &&
		       p->shown.course.a.findings == p->kept_findings;
		if (!idle)
			s = p->shown;
		pthread_mutex_unlock(&p->lock);
		if (idle) /* most pods: nothing to copy */
			continue;
		keep_pod(&pass, p, &s, gone);
		if (!gone)
			continue;
		v->stats.findings += s.v.findings;
		v->stats.alarms += s.v.alarms;
		v->stats.shadow_alarms += s.v.shadow_alarms;
		base_table_remove(&v->pods, p);
		pod_free(p);
	}
	pthread_mutex_unlock(&v->lock);
}

void act_verdicts_traced(struct act_verdicts *v, uint64_t instance, int64_t now_ns,
			 const uint8_t trace[ACT_TRACE_ID_BYTES])
{
	struct act_verdict_pod *p;
	struct act_anomaly *a;

	pthread_mutex_lock(&v->lock);
	p = find_pod(v, instance);
	if (p) {
		p->trace_ns = now_ns;
		memcpy(p->trace, trace, ACT_TRACE_ID_BYTES);
	}
	if (p && p->on.id && !p->on.has_trace) {
		p->on.has_trace = p->traced = true;
		memcpy(p->on.trace, trace, ACT_TRACE_ID_BYTES);
		a = by_id(v, p->on.id);
		if (a)
			*a = p->on;
	}
	pthread_mutex_unlock(&v->lock);
}

/* ---- readers ---- */

/* Caller holds the store's lock. */
static void copy_verdict(struct act_verdict_pod *p, struct act_pod_verdict *out)
{
	pthread_mutex_lock(&p->lock);
	*out = p->shown.v;
	out->recent = out->score;
	for (uint64_t i = p->scores; i && i + RECENT > p->scores; i--) {
		const struct verdict_score *s = &p->score[(i - 1) % ACT_SCORES_KEPT];

		if (s->step > out->ns / (int64_t)p->store->o.step_ns - RECENT &&
		    (double)s->score > out->recent)
			out->recent = (double)s->score;
	}
	pthread_mutex_unlock(&p->lock);
	out->trace_ns = p->trace_ns;
	memcpy(out->trace, p->trace, sizeof(out->trace));
}

bool act_verdicts_pod(struct act_verdicts *v, uint64_t instance, struct act_pod_verdict *out)
{
	struct act_verdict_pod *p;

	pthread_mutex_lock(&v->lock);
	p = find_pod(v, instance);
	if (p)
		copy_verdict(p, out);
	pthread_mutex_unlock(&v->lock);
	return p != NULL;
}

struct act_worst act_verdicts_worst(struct act_verdicts *v, uint64_t instance, int64_t since_ns)
{
	const int64_t step_ns = (int64_t)v->o.step_ns;
	struct act_worst most = {0};
	struct act_verdict_pod *p;

	pthread_mutex_lock(&v->lock);
	p = find_pod(v, instance);
	if (p)
		pthread_mutex_lock(&p->lock);
	for (uint64_t i = p ? p->scores : 0; i; i--) {
		const struct verdict_score *s = &p->score[(i - 1) % ACT_SCORES_KEPT];

		if (i + ACT_SCORES_KEPT <= p->scores || (s->step + 1) * step_ns <= since_ns)
			break;
		if (!(s->threshold > 0))
			continue;
		most.suspicion = fmax(most.suspicion, (double)(s->suspicion / s->threshold));
		if (p->shown.v.begin_ns)
			most.score = fmax(most.score, (double)(s->score / s->threshold));
	}
	if (p)
		pthread_mutex_unlock(&p->lock);
	pthread_mutex_unlock(&v->lock);
	return most;
}

typedef void pod_fn(const struct act_pod_verdict *pod, void *arg);

/* Caller holds the store's lock. */
static void each_pod(struct act_verdicts *v, pod_fn *fn, void *arg)
{
	struct act_pod_verdict pod;

	BASE_TABLE_EACH(&v->pods, n) {
		copy_verdict((struct act_verdict_pod *)n, &pod);
		fn(&pod, arg);
	}
}

void act_verdicts_pods(struct act_verdicts *v, pod_fn *fn, void *arg)
{
	pthread_mutex_lock(&v->lock);
	each_pod(v, fn, arg);
	pthread_mutex_unlock(&v->lock);
}

size_t act_verdicts_anomalies(struct act_verdicts *v, uint64_t after, struct act_anomaly *out,
			      size_t max)
{
	const struct act_anomaly *a;
	size_t n = 0;

	pthread_mutex_lock(&v->lock);
	for (uint64_t id = v->last_id; id > after && n < max && (a = by_id(v, id)); id--)
		out[n++] = *a;
	pthread_mutex_unlock(&v->lock);
	return n;
}

uint64_t act_verdicts_begun(struct act_verdicts *v, int64_t since_ns)
{
	const struct act_anomaly *a;
	uint64_t n = 0;

	pthread_mutex_lock(&v->lock);
	for (uint64_t id = v->last_id; (a = by_id(v, id)); id--)
		n += a->begin_ns >= since_ns;
	pthread_mutex_unlock(&v->lock);
	return n;
}

size_t act_verdicts_scores(struct act_verdicts *v, uint64_t instance, int64_t *ns, float *score,
			   float *threshold)
{
	struct act_verdict_pod *p;
	size_t n = 0;

	pthread_mutex_lock(&v->lock);
	p = find_pod(v, instance);
	if (p) {
		uint64_t first;

		pthread_mutex_lock(&p->lock);
		first = p->scores > ACT_SCORES_KEPT ? p->scores - ACT_SCORES_KEPT : 0;
		for (uint64_t i = first; i < p->scores; i++, n++) {
			const struct verdict_score *s = &p->score[i % ACT_SCORES_KEPT];

			ns[n] = s->step * (int64_t)v->o.step_ns;
			score[n] = s->score;
			threshold[n] = s->threshold;
		}
		pthread_mutex_unlock(&p->lock);
	}
	pthread_mutex_unlock(&v->lock);
	return n;
}

void act_anomaly_event_id(const struct act_anomaly *a, char out[ACT_EVENT_ID_BYTES])
{
	snprintf(out, ACT_EVENT_ID_BYTES, "%016" PRIx64 "-%" PRId64, a->instance, a->minute);
}

static void add_up(const struct act_pod_verdict *p, void *arg)
{
	struct act_verdicts_stats *s = arg;

	s->pods++;
	s->anomalous += p->anomalous;
	s->drifting += p->drift;
	s->findings += p->findings;
	s->alarms += p->alarms;
	s->shadow_alarms += p->shadow_alarms;
}

void act_verdicts_stats(struct act_verdicts *v, struct act_verdicts_stats *out)
{
	pthread_mutex_lock(&v->lock);
	*out = v->stats;
	each_pod(v, add_up, out);
	pthread_mutex_unlock(&v->lock);
}
