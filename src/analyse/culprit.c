// SPDX-License-Identifier: Apache-2.0
/*
 * culprit.c - the two kinds of evidence, and the posterior over pods. culprit_paths.c keeps the
 * pods and the calls between their services.
 *
 * A hypothesis is a pod whose calls take longer by a delay with a log-uniform prior. For each
 * caller it predicts the latency quantiles, from the caller's usual quantiles and the share of its
 * calls that pass through that pod. Evidence is the log likelihood of the observation under this
 * prediction minus that under the usual quantiles, by a Student t with 3 degrees of freedom. The
 * three quantiles of a distribution count as one observation.
 */
#include "analyse/culprit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/culprit_internal.h"

#define MISS	  0.05f	 /* probability that a caller shows no delay although the pod delays it */
#define OWN_SHARE 0.7f	 /* share of a pod's own requests that its fault delays */
#define SHARE_MAX 0.98f	 /* upper limit of the share of delayed calls */
#define SHARE_MIN 0.002f /* a smaller share of delayed calls shifts no quantile */
#define SLOPE_MIN 0.3f	 /* slope of log latency over -log survival below P90 */
#define DELAY_MIN 0.03	 /* seconds */
#define DELAY_MAX 4.0
/* a caller whose evidence does not exceed this is considered quiet */
#define RAISED 0.1f
#define SURE   0.9f /* subtract what a culprit explains only if its posterior is at least this */
/*
 * minimum log odds of delayed calls to conclude that there is another fault besides the culprit's
 */
#define CLEAR	     4.0f
#define CULPRITS     8u	 /* maximum number of faults at once */
#define EVIDENCE_MAX 600 /* the exponential of this is still finite */

static const float survival[ANALYSE_TAILS] = {0.10f, 0.05f, 0.01f};

/* ---- logarithms ---- */

/*
 * Returns the logarithm of a positive number, accurate to 2^-22 absolute or relative: the
 * polynomial of Cephes (Moshier) on [sqrt 1/2, sqrt 2]. It has no branches or calls, so that loops
 * over delays are vectorised, and gives the same bits on every machine.
 */
static inline float log_of(float x)
{
	uint32_t bits;
	float m, z, y;
	int32_t e;

	memcpy(&bits, &x, sizeof(bits));
	e = (int32_t)(bits - 0x3f3504f3u) >> 23; /* 0x3f3504f3 is sqrt 1/2 */
	bits -= (uint32_t)e << 23;
	memcpy(&m, &bits, sizeof(m));
	m -= 1;
	z = m * m;
	y = 7.0376836292e-2f * m - 1.1514610310e-1f;
	y = y * m + 1.1676998740e-1f;
	y = y * m - 1.2420140846e-1f;
	y = y * m + 1.4249322787e-1f;
	y = y * m - 1.6668057665e-1f;
	y = y * m + 2.0000714765e-1f;
	y = y * m - 2.4999993993e-1f;
	y = y * m + 3.3333331174e-1f;
	return m + (y * m * z - 0.5f * z) + (float)e * 0.69314718056f;
}

/* ---- quantiles under a hypothesis ---- */

static struct analyse_culprit_quantile at_survival(const struct analyse_culprit *c, float s)
{
	struct analyse_culprit_quantile q = {.t = -logf(fmaxf(fminf(s, 1), 1e-4f))};

	q.segment = q.t < c->tail[ANALYSE_P90] ? 0 : q.t < c->tail[ANALYSE_P95] ? 1 : 2;
	return q;
}

/* Determines which usual quantiles matter if this share of the calls is delayed. */
static void map_quantiles(const struct analyse_culprit *c, float share,
			  struct analyse_culprit_quantile *to)
{
	share = fminf(share, SHARE_MAX);
	for (uint32_t j = 0; j < ANALYSE_TAILS; j++) {
		bool delayed = share >= survival[j];

		to[j] = at_survival(c, delayed ? survival[j] / share
					       : (survival[j] - share) / (1 - share));
		to[j].delayed = delayed;
	}
}

/*
 * Returns the usual log latency at a point between the quantiles, by linear interpolation in -log
 * survival.
 */
static float usual_at(const struct analyse_culprit *c, const struct analyse_level *l,
		      const struct analyse_culprit_quantile *q)
{
	const float *t = c->tail;
	uint32_t k = q->segment - 1u;

	if (!q->segment)
		return l[ANALYSE_P90].usual + fmaxf((l[ANALYSE_P99].usual - l[ANALYSE_P90].usual) /
							    (t[ANALYSE_P99] - t[ANALYSE_P90]),
						    SLOPE_MIN) *
						      (q->t - t[ANALYSE_P90]);
	return l[k].usual +
	       fmaxf((l[k + 1].usual - l[k].usual) / (t[k + 1] - t[k]), 0) * (q->t - t[k]);
}

/* Returns -log of the density of a deviation, without its constant. */
static float student_surprise(float deviation, float spread)
{
	float z = deviation / spread;

	return 2 * log_of(1 + z * z / 3);
}

/*
 * Computes the log likelihood ratio of each delay, for a call that a request makes `calls` times.
 */
static void delay_evidence(const struct analyse_culprit *c, const struct analyse_suspect *s,
			   enum analyse_latency kind, const struct analyse_culprit_quantile *q,
			   float calls, float out[CULPRIT_DELAYS])
{
	const struct analyse_level *l = s->level[kind];

	memset(out, 0, CULPRIT_DELAYS * sizeof(*out));
	if (!s->known[kind])
		return;
	for (uint32_t j = 0; j < ANALYSE_TAILS; j++) {
		float at = usual_at(c, l, &q[j]), base = q[j].delayed ? at : l[j].usual;
		float before = student_surprise(l[j].now - l[j].usual, l[j].spread);
		/* Calls that are not delayed are no slower than usual at this quantile. */
		float most = q[j].delayed ? INFINITY : at, usual = l[j].usual, now = l[j].now;
		float seconds = expf(base), spread = l[j].spread;

		for (uint32_t d = 0; d < CULPRIT_DELAYS; d++) {
			float x = log_of(c->delay[d] * calls + seconds);

			x = x < most ? x : most;
			x = x > usual ? x : usual;
			out[d] += (before - student_surprise(now - x, spread)) / ANALYSE_TAILS;
		}
	}
}

/* ---- observations ---- */

/* True if these latencies can give significant evidence. */
static bool may_give_evidence(const struct analyse_level level[ANALYSE_TAILS])
{
	float z[ANALYSE_TAILS], most = 0;

	for (uint32_t j = 0; j < ANALYSE_TAILS; j++) {
		z[j] = fmaxf(level[j].now - level[j].usual, 0) / level[j].spread;
		most += 2 * z[j] * z[j] / (3 * ANALYSE_TAILS);
	}
	/* log(1 + x) is at most x; this cheap test usually suffices. */
	if (!(most > RAISED))
		return false;
	most = 0;
	for (uint32_t j = 0; j < ANALYSE_TAILS; j++)
		most += student_surprise(z[j], 1) / ANALYSE_TAILS;
	return most > RAISED;
}

/* open: this pod, or a pod connected to it by calls, has an open anomaly */
static void observe_latencies(struct analyse_suspect *s, const struct analyse_observation *o,
			      bool open)
{
	bool next = !s->recents || o->step != s->step;

	s->next = next;
	s->step = o->step;
	s->fresh = !next && s->fresh	    ? s->fresh
		   : s->fresh < ANALYSE_NOW ? s->fresh + 1
					    : ANALYSE_NOW;
	s->raised = false;
	for (uint32_t k = 0; k < ANALYSE_LATENCIES; k++) {
		s->known[k] = s->fresh == ANALYSE_NOW;
		for (uint32_t j = 0; j < ANALYSE_TAILS; j++) {
			struct analyse_level *l = &s->level[k][j];
			double x = o->latency[k][j];

			if (x >= 0 && isfinite(x))
				s->last[k][j] = logf((float)fmax(x, CULPRIT_LATENCY_MIN));
			else
				s->known[k] = false;
			analyse_level_push(l, s->last[k][j], next && !open ? s->recents : 0,
					   s->fresh, next);
			if (o->learn && next)
				analyse_level_learn(l);
		}
		s->raised |= s->known[k] && may_give_evidence(s->level[k]);
	}
	s->recents = (uint8_t)(next && s->recents < ANALYSE_NOW ? s->recents + 1 : s->recents);
}

/* ---- a step ---- */

static float log_mean_exp(const float v[CULPRIT_DELAYS], uint32_t *best)
{
	float most = v[0], sum = 0;

	*best = 0;
	for (uint32_t d = 1; d < CULPRIT_DELAYS; d++)
		if (v[d] > most) {
			most = v[d];
			*best = d;
		}
	for (uint32_t d = 0; d < CULPRIT_DELAYS; d++)
		sum += expf(v[d] - most);
	return most + logf(sum / CULPRIT_DELAYS);
}

/* Combines the evidence of all callers on calls to one of the service's pods. */
static void judge_service(struct analyse_culprit *c, struct analyse_culprit_service *callee)
{
	bool raised = false;

	callee->judged = true;
	memset(callee->late, 0, sizeof(callee->late));
	for (uint32_t i = 0; i < callee->terms; i++)
		raised |= c->service[c->term[callee->first + i].caller].raised;
	for (uint32_t i = 0; raised && i < callee->terms; i++) {
		struct analyse_culprit_term *t = &c->term[callee->first + i];
		const struct analyse_culprit_service *caller = &c->service[t->caller];
		float share = t->share / (float)callee->pods, l[CULPRIT_DELAYS];

		if (share < SHARE_MIN || caller->above)
			continue;
		if (t->replicas != callee->pods)
			map_quantiles(c, share, t->quantile);
		t->replicas = callee->pods;
		for (uint32_t p = 0; p < caller->pods; p++) {
			delay_evidence(c, caller->pod[p], t->kind, t->quantile, t->calls, l);
			for (uint32_t d = 0; d < CULPRIT_DELAYS; d++)
				callee->late[d] += logf(MISS + (1 - MISS) * expf(l[d]));
		}
	}
}

#define NETWORK	     2.3f /* log odds of a slow pod against a slow network */
#define ASYNCHRONOUS 2.3f /* log odds that callers wait for the pod's answers */

/*
 * Returns the evidence that the pod's network is slow: its own calls take longer by the same delay
 * as calls to it. Without this hypothesis, a pod that it calls would explain both its client
 * latency and its callers' latencies. If no caller shows such a delay, slow calls are caused by
 * their destination.
 */
static float slow_network(const struct analyse_culprit *c, const struct analyse_suspect *s,
			  const float late[CULPRIT_DELAYS], uint32_t *best)
{
	float l[CULPRIT_DELAYS], shown = 0;

	for (uint32_t d = 0; d < CULPRIT_DELAYS; d++)
		shown = fmaxf(shown, late[d]);
	if (!s->raised || !(shown > 0) ||
	    s->level[ANALYSE_CLIENT][ANALYSE_P90].usual <= logf((float)CULPRIT_LATENCY_MIN))
		return -INFINITY; /* it makes no calls */
	delay_evidence(c, s, ANALYSE_CLIENT, c->all, 1, l);
	for (uint32_t d = 0; d < CULPRIT_DELAYS; d++)
		l[d] = late[d] + logf(MISS + (1 - MISS) * expf(l[d]));
	return log_mean_exp(l, best) - NETWORK;
}

/*
 * Returns the evidence that the pod itself is slow, or that its network is. If its own latencies
 * are measured, they must show the delay like the latencies of its callers. Otherwise a pod whose
 * requests are as fast as usual could explain a slow caller.
 */
static float slow_or_far(const struct analyse_culprit *c, const struct analyse_suspect *s,
			 const float calls[CULPRIT_DELAYS], uint32_t *best)
{
	float l[CULPRIT_DELAYS], slow, far;
	uint32_t other;

	delay_evidence(c, s, ANALYSE_SERVER, c->own, 1, l);
	for (uint32_t d = 0; d < CULPRIT_DELAYS; d++)
		l[d] = calls[d] + logf(MISS + (1 - MISS) * expf(l[d]));
	slow = log_mean_exp(l, best);
	far = log_mean_exp(calls, &other) - NETWORK;
	if (slow >= far)
		return slow;
	*best = other;
	return far;
}

/* Returns the odds of a fault with this evidence against no fault. */
static double odds_of(float evidence, double prior)
{
	return prior * expm1(fmin((double)evidence, EVIDENCE_MAX));
}

static bool reaches(const struct analyse_culprit *c, uint32_t caller, uint32_t callee)
{
	const struct analyse_culprit_service *of = &c->service[callee];

	for (uint32_t i = of->first; i < of->first + of->terms; i++)
		if (c->term[i].caller == caller)
			return true;
	return false;
}

/*
 * Finds the errors below each service: a failed call often fails its caller, too. If two services
 * call each other, either may be the cause.
 */
static void spread_errors(struct analyse_culprit *c, struct analyse_suspect *const *suspects,
			  const struct analyse_observation *seen, uint32_t n)
{
	for (uint32_t i = 0; i < c->services; i++)
		c->service[i].errors = c->service[i].errors_below = 0;
	for (uint32_t i = 0; i < n; i++)
		if (suspects[i]->service < c->services) {
			float *errors = &c->service[suspects[i]->service].errors;

			*errors = fmaxf(*errors, seen[i].errors);
		}
	for (uint32_t i = 0; i < c->terms; i++) {
		const struct analyse_culprit_term *t = &c->term[i];
		float *below = &c->service[t->caller].errors_below;

		if (c->service[t->callee].errors > *below && !reaches(c, t->callee, t->caller))
			*below = c->service[t->callee].errors;
	}
}

static void judge_pod(struct analyse_culprit *c, const struct analyse_suspect *s,
		      const struct analyse_observation *o, double prior,
		      struct analyse_suspicion *v)
{
	static const float none[CULPRIT_DELAYS];
	const float *calls = none;
	bool measured = o->measured && s->known[ANALYSE_SERVER];
	uint32_t best = 0, other;
	float own[CULPRIT_DELAYS], late = 0, network, slow;

	*v = (struct analyse_suspicion){.failing = 1};
	if (s->service < c->services) {
		struct analyse_culprit_service *callee = &c->service[s->service];

		if (!callee->judged)
			judge_service(c, callee);
		calls = callee->late;
		late = log_mean_exp(calls, &best);
		v->failing = (float)(1 / (1 + odds_of(callee->errors_below, prior)));
	}
	if (measured)
		late = slow_or_far(c, s, calls, &best);
	network = slow_network(c, s, calls, &other);
	if (network > late) {
		late = network;
		best = other;
	}
	if (s->raised && !measured) {
		delay_evidence(c, s, ANALYSE_SERVER, c->own, 1, own);
		slow = fmaxf(log_mean_exp(own, &other), 0);
		best = late < -ASYNCHRONOUS ? other : best;
		late = slow + fmaxf(late, -ASYNCHRONOUS);
	}
	v->late = late;
	v->delay = late > 0 ? c->delay[best] : 0;
	v->evidence = o->novelty + fmaxf(late, 0) + v->failing * o->errors + o->other;
}

/* An incident counts as new for two steps, so subtract the scores of two and three steps ago. */
static float subtract_old(struct analyse_suspect *s, float weighted)
{
	float before = 0;

	if (s->next) {
		memmove(s->past + 1, s->past, (CULPRIT_PAST - 1) * sizeof(float));
		s->past[0] = 0;
		s->past_n = (uint8_t)(s->past_n + (s->past_n < CULPRIT_PAST));
	}
	s->past[0] = fmaxf(s->past[0], weighted);
	for (uint32_t k = 2; k < s->past_n; k++)
		before = fmaxf(before, s->past[k]);
	return fmaxf(weighted - before, 0);
}

static void add_to_service(struct analyse_culprit *c, struct analyse_suspect *s)
{
	struct analyse_culprit_service *of = s->service < c->services ? &c->service[s->service]
								      : NULL;

	if (!of)
		return;
	if (of->pods < of->room)
		of->pod[of->pods++] = s;
	of->raised |= s->raised;
}

/* Returns the service of a pod, or NULL if no calls from or to it are known. */
static struct analyse_culprit_service *service_of(const struct analyse_culprit *c,
						  const struct analyse_suspect *s)
{
	struct analyse_culprit_service *of = s->service < c->services ? &c->service[s->service]
								      : NULL;

	return of && of->linked ? of : NULL;
}

static void observe_all(struct analyse_culprit *c, struct analyse_suspect *const *suspects,
			const struct analyse_observation *seen, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct analyse_culprit_service *of = service_of(c, suspects[i]);

		if (of && seen[i].open)
			c->service[of->part].open = true;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct analyse_culprit_service *of = service_of(c, suspects[i]);

		observe_latencies(suspects[i], &seen[i],
				  seen[i].open || (of && c->service[of->part].open));
		add_to_service(c, suspects[i]);
	}
}

/*
 * Computes the odds that a pod's symptoms are its own: the odds of its own fault, or of no fault,
 * against the odds of a fault in a service below it, or in any other pod of its part of the graph.
 */
static void explain_symptoms(struct analyse_culprit *c, struct analyse_suspect *const *suspects,
			     uint32_t n, double prior, struct analyse_suspicion *out)
{
	double all = 0;

	for (uint32_t i = 0; i < c->services; i++)
		c->service[i].odds = c->service[i].below = c->service[i].part_odds = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct analyse_culprit_service *of = service_of(c, suspects[i]);
		double own = odds_of(out[i].evidence, prior);

		all += own;
		if (!of)
			continue;
		of->odds += own;
		c->service[of->part].part_odds += own;
	}
	for (uint32_t i = 0; i < c->terms; i++) {
		const struct analyse_culprit_term *t = &c->term[i];

		/* A caller has up to two terms for the same callee: count it once. */
		if (i && t[-1].caller == t->caller && t[-1].callee == t->callee)
			continue;
		c->service[t->caller].below += c->service[t->callee].odds;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct analyse_culprit_service *of = service_of(c, suspects[i]);
		double own = odds_of(out[i].evidence, prior);
		double part = of ? c->service[of->part].part_odds : all;

		out[i].mine = (float)((1 + own) / (1 + own + (of ? of->below : 0)));
		out[i].alone = (float)((1 + own) / (1 + fmax(part, own)));
	}
}

static void add_rival(struct analyse_culprit_rivals *r, float evidence)
{
	float most = fmaxf(r->most, evidence);

	r->sum = r->sum * exp((double)(r->most - most)) + exp((double)(evidence - most));
	r->most = most;
}

/*
 * Weighs the pods of each part of the call graph against each other, or only those apart from the
 * culprits so far: the culprit is one of them, or there is none (evidence 0). A pod whose calls are
 * not known is weighed against all. Keeps the larger of the earlier and the new weighted evidence.
 */
static void weigh_parts(struct analyse_culprit *c, struct analyse_suspect *const *suspects,
			uint32_t n, bool apart, struct analyse_suspicion *out)
{
	static const struct analyse_culprit_rivals none = {0, 1};
	struct analyse_culprit_rivals all = none;

	for (uint32_t i = 0; i < c->services; i++)
		c->service[i].rivals = none;
	for (uint32_t i = 0; i < n; i++) {
		const struct analyse_culprit_service *of = service_of(c, suspects[i]);

		add_rival(&all, out[i].evidence);
		if (of && (of->apart || !apart))
			add_rival(&c->service[of->part].rivals, out[i].evidence);
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct analyse_culprit_service *of = service_of(c, suspects[i]);
		const struct analyse_culprit_rivals *r = of ? &c->service[of->part].rivals : &all;
		struct analyse_suspicion *v = &out[i];

		if (apart && !(of && of->apart))
			continue;
		v->posterior = (float)(exp((double)(v->evidence - r->most)) / r->sum);
		v->weighted = fmaxf(v->weighted, v->evidence * v->posterior);
	}
}

/*
 * Returns the index of the likeliest culprit, if a fault in it is likelier than no fault; otherwise
 * n.
 */
static uint32_t find_culprit(const struct analyse_culprit *c,
			     struct analyse_suspect *const *suspects, uint32_t n, double prior,
			     const struct analyse_suspicion *out)
{
	uint32_t best = n;

	for (uint32_t i = 0; i < n; i++) {
		const struct analyse_culprit_service *of = service_of(c, suspects[i]);

		if (of && of->apart && out[i].posterior > SURE &&
		    odds_of(out[i].evidence, prior) > 1 &&
		    (best == n || out[i].weighted > out[best].weighted))
			best = i;
	}
	return best;
}

/* The culprit explains the symptoms of its direct and indirect callers and callees. */
static void set_apart(struct analyse_culprit *c, uint32_t culprit)
{
	c->service[culprit].apart = false;
	for (uint32_t i = 0; i < c->terms; i++) {
		const struct analyse_culprit_term *t = &c->term[i];

		if (t->callee == culprit) {
			c->service[t->caller].apart = false;
			c->service[t->caller].above = true;
		} else if (t->caller == culprit) {
			c->service[t->callee].apart = false;
		}
	}
}

/*
 * Several pods may have faults at once. Reconsiders the pods that neither call a culprit nor are
 * called by one, without the callers that the culprits explain.
 */
static void find_more(struct analyse_culprit *c, struct analyse_suspect *const *suspects,
		      const struct analyse_observation *seen, uint32_t n, double prior,
		      struct analyse_suspicion *out)
{
	uint32_t culprit;

	for (uint32_t i = 0; i < c->services; i++)
		c->service[i].apart = true;
	for (uint32_t k = 0; k < CULPRITS; k++) {
		culprit = find_culprit(c, suspects, n, prior, out);
		if (culprit == n)
			break;
		set_apart(c, suspects[culprit]->service);
		for (uint32_t i = 0; i < c->services; i++)
			c->service[i].judged &= !c->service[i].apart;
		for (uint32_t i = 0; i < n; i++) {
			const struct analyse_culprit_service *of = service_of(c, suspects[i]);
			struct analyse_suspicion rest;

			if (!of || !of->apart)
				continue;
			judge_pod(c, suspects[i], &seen[i], prior, &rest);
			/*
			 * Count only delays, because resources change together with the culprit's:
			 * through lower load or a shared node.
			 */
			out[i].evidence = rest.late > CLEAR ? rest.evidence : 0;
		}
		weigh_parts(c, suspects, n, true, out);
	}
	for (uint32_t i = 0; i < c->services; i++)
		c->service[i].above = false;
}

void analyse_culprit_step(struct analyse_culprit *c, struct analyse_suspect *const *suspects,
			  const struct analyse_observation *seen, uint32_t n, double prior,
			  struct analyse_suspicion *out)
{
	for (uint32_t i = 0; i < c->services; i++) {
		c->service[i].pods = 0;
		c->service[i].raised = c->service[i].judged = c->service[i].open = false;
	}
	observe_all(c, suspects, seen, n);
	spread_errors(c, suspects, seen, n);
	for (uint32_t i = 0; i < n; i++)
		judge_pod(c, suspects[i], &seen[i], prior, &out[i]);
	weigh_parts(c, suspects, n, false, out);
	explain_symptoms(c, suspects, n, prior, out);
	find_more(c, suspects, seen, n, prior, out);
	for (uint32_t i = 0; i < n; i++)
		out[i].score = subtract_old(suspects[i], out[i].weighted);
}

/* Returns how strongly a caller's pods support the likeliest delay of a callee. */
static float delay_shown(const struct analyse_culprit *c, const struct analyse_culprit_term *t,
			 uint32_t delay)
{
	const struct analyse_culprit_service *caller = &c->service[t->caller];
	float l[CULPRIT_DELAYS], sum = 0;

	for (uint32_t p = 0; p < caller->pods && t->replicas; p++) {
		delay_evidence(c, caller->pod[p], t->kind, t->quantile, t->calls, l);
		sum += fmaxf(l[delay], 0);
	}
	return sum;
}

int analyse_culprit_callers(struct analyse_culprit *c, const struct analyse_suspect *s,
			    uint32_t *service, uint32_t most)
{
	const struct analyse_culprit_service *callee;
	float by[8] = {0};
	uint32_t best, n = 0;

	if (s->service >= c->services || !c->service[s->service].terms)
		return -ENOENT;
	callee = &c->service[s->service];
	most = most < 8 ? most : 8;
	log_mean_exp(callee->late, &best);
	for (uint32_t i = 0; callee->judged && i < callee->terms; i++) {
		const struct analyse_culprit_term *t = &c->term[callee->first + i];
		float says = delay_shown(c, t, best);
		uint32_t k = n;

		/*
		 * The term for the caller's server latencies follows the one for its client
		 * latencies.
		 */
		if (i + 1 < callee->terms && t[1].caller == t->caller) {
			says += delay_shown(c, t + 1, best);
			i++;
		}
		if (!(says > 0))
			continue;
		while (k > 0 && by[k - 1] < says)
			k--;
		if (k >= most)
			continue;
		n += n < most;
		memmove(by + k + 1, by + k, (n - 1 - k) * sizeof(*by));
		memmove(service + k + 1, service + k, (n - 1 - k) * sizeof(*service));
		by[k] = says;
		service[k] = t->caller;
	}
	return (int)n;
}

struct analyse_culprit *analyse_culprit_new(void)
{
	struct analyse_culprit *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	for (uint32_t j = 0; j < ANALYSE_TAILS; j++)
		c->tail[j] = -logf(survival[j]);
	for (uint32_t d = 0; d < CULPRIT_DELAYS; d++)
		c->delay[d] = (float)(DELAY_MIN *
				      pow(DELAY_MAX / DELAY_MIN, (double)d / (CULPRIT_DELAYS - 1)));
	map_quantiles(c, OWN_SHARE, c->own);
	map_quantiles(c, 1, c->all);
	return c;
}

void analyse_culprit_free(struct analyse_culprit *c)
{
	if (!c)
		return;
	analyse_culprit_free_paths(c);
	for (uint32_t i = 0; i < c->suspects; i++)
		free(c->suspect[i]);
	free(c->suspect);
	free(c);
}

/*
 * Returns the smallest factor by which a latency must rise to give this much evidence, assuming
 * that a delay explains the latency fully. Inverts student_surprise().
 */
double analyse_culprit_factor(const struct analyse_suspect *s, double evidence)
{
	double least = INFINITY;

	for (uint32_t k = 0; k < ANALYSE_LATENCIES; k++) {
		double sum = 0;

		for (uint32_t j = 0; j < ANALYSE_TAILS; j++)
			sum += (double)s->level[k][j].spread / ANALYSE_TAILS;
		if (s->known[k])
			least = fmin(least, exp(sum * sqrt(3 * expm1(evidence / 2))));
	}
	return least;
}

float analyse_culprit_rise(const struct analyse_suspect *s, const struct analyse_role *of)
{
	const struct analyse_level *l =
		&s->level[of->kind == ANALYSE_ROLE_SERVER ? ANALYSE_SERVER : ANALYSE_CLIENT]
			 [of->part];

	return fmaxf(l->now - l->usual, 0);
}

void analyse_culprit_forget(struct analyse_suspect *s, enum analyse_latency kind)
{
	for (uint32_t j = 0; j < ANALYSE_TAILS; j++) {
		analyse_level_forget(&s->level[kind][j]);
		s->last[kind][j] = logf((float)CULPRIT_LATENCY_MIN);
	}
	s->recents = 0;
	s->fresh = 0;
}

static void forget_levels(struct analyse_suspect *s)
{
	for (uint32_t k = 0; k < ANALYSE_LATENCIES; k++)
		analyse_culprit_forget(s, k);
}

void analyse_culprit_accept(struct analyse_suspect *s)
{
	const struct analyse_culprit *c = s->among;
	const struct analyse_culprit_service *of = s->service < c->services
							   ? &c->service[s->service]
							   : NULL;

	forget_levels(s);
	for (uint32_t i = 0; of && i < of->terms; i++)
		for (uint32_t k = 0; k < c->suspects; k++)
			if (c->suspect[k]->service == c->term[of->first + i].caller)
				forget_levels(c->suspect[k]);
}

void analyse_culprit_rewind(struct analyse_suspect *s)
{
	s->fresh = 0;
}
