// SPDX-License-Identifier: Apache-2.0
#include "analyse/odd.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/pipeline_internal.h"
#include "base/base.h"
#include "base/grow.h"

/* a pod's rows are ignored for this long, because a new pod has to fill its caches */
#define WARMING_NS 40000000000u
#define SOONEST_NS 50000000000u /* a pod younger than this is not judged */
#define ROWS_MIN   4u		/* a pod with fewer rows is not judged */
#define WINDOW	   16u		/* number of steps in the current level */
#define LONG	   256u		/* steps over which the differences between siblings are averaged */
#define STALE	   3u /* a pod is no longer a sibling after this many steps without a row */
/* The pod must be worse by a factor of 2, and by this many standard deviations beyond that. */
#define WORSE	   0.693147f
#define DEVIATIONS 5.0f
#define TO_SIGMA   1.4826f /* standard deviation per median absolute deviation */
/*
 * Standard deviation of the mean of WINDOW steps per mean absolute deviation of one step. It is
 * twice that of independent steps, because rates over several steps depend on each other.
 */
#define OWN 0.45f
/* log(10): a pod with less than a tenth of its siblings' requests is not compared */
#define LOAD_MIN 2.302585f
/* Of the ports of one name, at most one in eight is odd, or one if there are fewer. */
#define ODD_PORTS 8u
/* A slow link has a fraction of its siblings' speed, without noise. */
#define SLOWER 0.05f

/* Most ports lose nothing and are not paused. These numbers per second count as little. */
static const float little[] = {[ANALYSE_PORT_LOSSES] = 1, [ANALYSE_PORT_PAUSES] = 100};

/* All values are logarithms. */
struct odd_metric {
	uint32_t slot, rows;
	float level;
	float own;    /* mean absolute deviation of a step from the level */
	float usual;  /* difference that has been accepted as normal */
	float excess; /* current difference from the siblings */
};

struct analyse_odd {
	struct analyse_replicas *of;
	uint64_t layout, born_ns, step, open_ns;
	struct odd_metric work; /* finished work per second */
	float score, median;	/* score and median of the worst metric */
	uint32_t worst, siblings;
	bool open;
	struct odd_metric metric[]; /* as many as in `of` */
};

struct analyse_replicas {
	struct analyse_pipeline **pod;
	uint32_t pods, metrics;
	size_t room;
	bool due, hosts;
	uint64_t step;
	float *scratch; /* room values */
	uint32_t most;	/* maximum number of metrics */
	struct odd_kind {
		uint64_t key;
		struct analyse_role role;
		float spread; /* usual median absolute deviation of siblings */
		uint32_t steps;
	} kind[];
};

struct analyse_replicas *analyse_replicas_new(bool hosts)
{
	uint32_t most = hosts ? ANALYSE_ODD_PORTS : ANALYSE_ODD_METRICS;
	struct analyse_replicas *r = calloc(1, sizeof(*r) + most * sizeof(*r->kind));

	if (!r)
		return NULL;
	r->hosts = hosts;
	r->most = most;
	return r;
}

void analyse_replicas_free(struct analyse_replicas *r)
{
	if (!r)
		return;
	free(r->pod);
	free(r->scratch);
	free(r);
}

static void clear_slots(struct analyse_odd *o)
{
	for (uint32_t k = 0; k < o->of->most; k++)
		o->metric[k].slot = ANALYSE_NONE;
}

static size_t odd_bytes(const struct analyse_replicas *r)
{
	return sizeof(struct analyse_odd) + r->most * sizeof(struct odd_metric);
}

int analyse_replicas_join(struct analyse_replicas *r, struct analyse_pipeline *p)
{
	size_t room = r->room;

	/* If the second one fails, the first one grows again. */
	if (!BASE_GROW(r->pod, r->pods, room) || !BASE_GROW(r->scratch, r->pods, r->room))
		return -ENOMEM;
	p->odd = calloc(1, odd_bytes(r));
	if (!p->odd)
		return -ENOMEM;
	p->odd->of = r;
	clear_slots(p->odd);
	r->pod[r->pods++] = p;
	return 0;
}

void analyse_replicas_leave(struct analyse_pipeline *p)
{
	struct analyse_replicas *r = p->odd ? p->odd->of : NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; r && i < r->pods; i++)
		if (r->pod[i] != p)
			r->pod[n++] = r->pod[i];
	if (r)
		r->pods = n;
	/* Let the other pods place their series again: metrics of this pod may have become free. */
	for (uint32_t i = 0; i < n; i++)
		r->pod[i]->odd->layout = 0;
	free(p->odd);
	p->odd = NULL;
}

/*
 * Returns true if replicas are compared by a metric: hosts by the metrics of their ports, pods by
 * latencies and CPU time, but not by the times that the kernel measures, which depend on the host.
 */
static bool is_compared(const struct analyse_replicas *r, struct analyse_role role)
{
	if (r->hosts)
		return role.port != ANALYSE_PORT_NONE;
	return (role.kind == ANALYSE_ROLE_LATENCY && !role.time) ||
	       role.kind == ANALYSE_ROLE_CLIENT || role.kind == ANALYSE_ROLE_SERVER ||
	       (role.kind == ANALYSE_ROLE_RESOURCE && role.part == ANALYSE_CPU);
}

/* Returns the metric of a series; r->most if it has none. */
static uint32_t find_metric(const struct analyse_replicas *r, uint64_t key)
{
	for (uint32_t k = 0; k < r->metrics; k++)
		if (r->kind[k].key == key)
			return k;
	return r->most;
}

static bool is_used(const struct analyse_replicas *r, uint32_t k)
{
	for (uint32_t i = 0; i < r->pods; i++)
		if (r->pod[i]->odd->metric[k].slot != ANALYSE_NONE)
			return true;
	return false;
}

/* Returns a new metric, or one that no pod has any more; r->most if there is none. */
static uint32_t new_metric(struct analyse_replicas *r)
{
	uint32_t k = 0;

	if (r->metrics < r->most)
		return r->metrics++;
	while (k < r->most && is_used(r, k))
		k++;
	if (k == r->most)
		return k;
	for (uint32_t i = 0; i < r->pods; i++)
		r->pod[i]->odd->metric[k] = (struct odd_metric){.slot = ANALYSE_NONE};
	r->kind[k] = (struct odd_kind){0};
	return k;
}

/*
 * Assigns the pod's series in its present layout to their metrics. If all is set, series without a
 * metric get a new one.
 */
static void place_series(struct analyse_pipeline *p, bool all)
{
	struct analyse_odd *o = p->odd;
	struct analyse_replicas *r = o->of;

	for (uint32_t s = 0; s < p->dims; s++) {
		uint32_t k;

		if (p->column_of[s] == ANALYSE_NONE || !is_compared(r, p->slots[s].role))
			continue;
		k = find_metric(r, p->keys[s]);
		if (k == r->most && all)
			k = new_metric(r);
		if (k == r->most)
			continue;
		r->kind[k].key = p->keys[s];
		r->kind[k].role = p->slots[s].role;
		o->metric[k].slot = s;
	}
}

/* Finds the compared metrics' slots in a new layout. */
static void place_metrics(struct analyse_pipeline *p)
{
	struct analyse_odd *o = p->odd;

	o->layout = p->layout;
	clear_slots(o);
	place_series(p, false); /* first, so that no new series takes their metric */
	place_series(p, true);
}

/* A higher level is worse. */
static float to_level(enum analyse_port port, float x)
{
	return port == ANALYSE_PORT_SPEED ? -logf(x) : logf(x + little[port]);
}

static float from_level(enum analyse_port port, float level)
{
	if (port == ANALYSE_PORT_SPEED)
		return expf(-level);
	return little[port] > 0 ? little[port] * expm1f(level - logf(little[port])) : expf(level);
}

static void follow_level(struct odd_metric *m, enum analyse_port port, float x)
{
	float n, y = to_level(port, x);

	if (!isfinite(y))
		return;
	m->rows++;
	if (port == ANALYSE_PORT_SPEED) {
		m->level = y;
		return;
	}
	n = (float)(m->rows < WINDOW ? m->rows : WINDOW);
	if (m->rows == 1)
		m->level = y;
	else
		m->own += (fabsf(y - m->level) - m->own) / (m->rows == 2 ? 1 : n);
	m->level += (y - m->level) / n;
}

void analyse_odd_take(struct analyse_pipeline *p)
{
	struct analyse_odd *o = p->odd;
	float work = 0;

	if (!o || (o->step == p->step && o->born_ns == p->born_ns))
		return;
	if (o->born_ns != p->born_ns) {
		struct analyse_replicas *r = o->of;

		memset(o, 0, odd_bytes(r));
		o->of = r;
		o->born_ns = p->born_ns;
	}
	if (o->layout != p->layout)
		place_metrics(p);
	o->step = p->step;
	o->of->due = true;
	if (p->last_ns - p->born_ns < WARMING_NS)
		return;
	for (uint32_t s = 0; s < p->dims; s++)
		if (p->role[s] == ANALYSE_ROLE_WORK && p->column_of[s] != ANALYSE_NONE)
			work += p->x[s] > 0 ? p->x[s] : 0;
	follow_level(&o->work, ANALYSE_PORT_NONE, work);
	for (uint32_t k = 0; k < o->of->metrics; k++)
		if (o->metric[k].slot != ANALYSE_NONE)
			follow_level(&o->metric[k], o->of->kind[k].role.port,
				     p->x[o->metric[k].slot]);
}

static float find_median(float *x, uint32_t n)
{
	if (n)
		qsort(x, n, sizeof(*x), base_by_f32);
	return n ? (x[(n - 1) / 2] + x[n / 2]) / 2 : NAN;
}

static bool is_present(const struct analyse_replicas *r, const struct odd_metric *m,
		       const struct analyse_odd *o)
{
	return m->rows && m->slot != ANALYSE_NONE && o->step + STALE > r->step;
}

/* Returns how much worse than its siblings a pod is, in multiples of the threshold. */
static float judge_metric(const struct analyse_pipeline *p, struct odd_metric *m,
			  enum analyse_port port, float normal, float spread, float load)
{
	float sigma = hypotf(TO_SIGMA * spread, OWN * m->own), excess;

	/* A pod with more requests than its siblings may use more CPU and be slower. */
	m->excess = m->level - normal - fmaxf(load, 0);
	m->usual = fmaxf(fminf(m->usual, m->excess), 0);
	excess = m->excess - m->usual;
	if (m->rows < ROWS_MIN || p->last_ns - p->born_ns < SOONEST_NS || load < -LOAD_MIN)
		return 0;
	return excess / ((port == ANALYSE_PORT_SPEED ? SLOWER : WORSE) + DEVIATIONS * sigma);
}

static void compare_metric(struct analyse_replicas *r, uint32_t k, float work)
{
	struct odd_kind *is = &r->kind[k];
	uint32_t n = 0;
	float median, spread, normal;

	for (uint32_t i = 0; i < r->pods; i++)
		if (is_present(r, &r->pod[i]->odd->metric[k], r->pod[i]->odd))
			r->scratch[n++] = r->pod[i]->odd->metric[k].level;
	if (n <= ANALYSE_ODD_SIBLINGS)
		return;
	normal = median = find_median(r->scratch, n);
	/* Ports may differ in groups: by their hardware, or by the jobs of their hosts. */
	if (is->role.port)
		normal = r->scratch[n - 1 - BASE_MAX(n / ODD_PORTS, 1u)];
	for (uint32_t i = 0; i < n; i++)
		r->scratch[i] = fabsf(r->scratch[i] - median);
	spread = find_median(r->scratch, n);
	is->steps += is->steps < LONG;
	is->spread += (spread - is->spread) / (float)is->steps;
	spread = fmaxf(spread, is->spread);
	for (uint32_t i = 0; i < r->pods; i++) {
		struct analyse_odd *o = r->pod[i]->odd;
		bool known = o->work.rows && !isnan(work) && !r->hosts;
		float score;

		/* CPU time is compared only if the load is known. */
		if (!is_present(r, &o->metric[k], o) ||
		    (is->role.kind == ANALYSE_ROLE_RESOURCE && !known))
			continue;
		score = judge_metric(r->pod[i], &o->metric[k], is->role.port, normal, spread,
				     known ? o->work.level - work : 0);
		if (score <= o->score)
			continue;
		o->score = score;
		o->median = median;
		o->worst = k;
		o->siblings = n - 1;
	}
}

/* An anomaly ends at half of its threshold, and becomes normal after hold_ns. */
static void keep_open(struct analyse_pipeline *p)
{
	struct analyse_odd *o = p->odd;
	bool was = o->open;

	o->open = o->score > (was ? 0.5f : 1);
	if (o->open && !was)
		o->open_ns = p->last_ns;
	if (o->open && p->last_ns - o->open_ns > p->opts.hold_ns)
		analyse_odd_accept(p);
}

void analyse_odd_compare(struct analyse_pipeline *p)
{
	struct analyse_replicas *r = p->odd ? p->odd->of : NULL;
	uint32_t n = 0;
	float work;

	if (!r || !r->due)
		return;
	r->due = false;
	if (p->odd->step == r->step)
		return;
	r->step = p->odd->step;
	for (uint32_t i = 0; i < r->pods; i++) {
		r->pod[i]->odd->score = 0;
		if (is_present(r, &r->pod[i]->odd->work, r->pod[i]->odd))
			r->scratch[n++] = r->pod[i]->odd->work.level;
	}
	work = find_median(r->scratch, n);
	for (uint32_t k = 0; k < r->metrics; k++)
		compare_metric(r, k, work);
	for (uint32_t i = 0; i < r->pods; i++)
		keep_open(r->pod[i]);
}

void analyse_odd_settle(struct analyse_pipeline *p, struct analyse_verdict *v)
{
	const struct analyse_odd *o = p->odd;
	uint32_t slot = o ? o->metric[o->worst].slot : ANALYSE_NONE;
	enum analyse_port port;
	float score;

	if (!o || !o->open || slot == ANALYSE_NONE || p->column_of[slot] == ANALYSE_NONE)
		return;
	port = o->of->kind[o->worst].role.port;
	/* While the anomaly is open, keep the score above the threshold. */
	score = fmaxf(o->score, nextafterf(1, 2));
	v->odd.score = score;
	v->odd.siblings = o->siblings;
	v->odd.column = p->column_of[slot];
	v->odd.median = from_level(port, o->median);
	v->odd.value = from_level(port, o->metric[o->worst].level);
	p->stats.anomalous += !v->anomalous;
	if (v->anomalous && v->score >= score)
		return;
	v->anomalous = true;
	v->score = score;
	v->blamed = 1;
	v->blame[0].column = v->odd.column;
	v->blame[0].share = 1;
	v->blame[0].before = v->odd.median;
	v->blame[0].now = v->odd.value;
	v->blame[0].load = v->blame[0].grows = false;
}

void analyse_odd_accept(struct analyse_pipeline *p)
{
	struct analyse_odd *o = p->odd;

	for (uint32_t k = 0; o && k < o->of->metrics; k++)
		o->metric[k].usual = fmaxf(o->metric[k].excess, 0);
	if (o) {
		o->open = false;
		o->score = 0;
	}
}
