// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "analyse/fetch.h"
#include "analyse/fleet.h"
#include "analyse/odd.h"
#include "analyse/pipeline_internal.h"
#include "base/grow.h"

struct fleet_metric {
	uint64_t key, round;
	float sum; /* sum of the shares of all pods in this round */
};

struct analyse_fleet {
	struct analyse_thresholds all;
	/* open addressing, at most half full; room is a power of two */
	struct fleet_metric *metrics;
	uint32_t room, used;
	uint64_t round;
	struct analyse_graph *graph;
	struct analyse_culprit *culprit;
	/* version and number of the paths last passed to .culprit */
	uint64_t paths_version;
	uint32_t n_paths;
	/* Arrays with one element per current suspect. */
	struct analyse_suspect **suspect;
	struct analyse_observation *seen;
	struct analyse_suspicion *found;
	size_t suspect_room;
	/* by number of the service in the graph; NULL if its pods are not compared */
	struct analyse_replicas **replicas;
	size_t replicas_room;
};

struct analyse_fleet *analyse_fleet_create(double q, uint64_t seed)
{
	struct analyse_fleet *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->all.kind = calloc(ANALYSE_KINDS, sizeof(*f->all.kind));
	f->graph = analyse_graph_new();
	f->culprit = analyse_culprit_new();
	if (f->all.kind && f->graph && f->culprit &&
	    !analyse_thresholds_init(
		    &f->all, &(struct analyse_thresholds_opts){
				     .q = q, .runs = true, .tail = ANALYSE_TAIL_SUM, .seed = seed}))
		return f;
	errno = f->all.kind && f->graph && f->culprit ? EINVAL : ENOMEM;
	analyse_fleet_free(f);
	return NULL;
}

void analyse_fleet_free(struct analyse_fleet *f)
{
	if (!f)
		return;
	analyse_graph_free(f->graph);
	analyse_culprit_free(f->culprit);
	for (size_t i = 0; i < f->replicas_room; i++)
		analyse_replicas_free(f->replicas[i]);
	free(f->replicas);
	free(f->all.kind);
	free(f->suspect);
	free(f->seen);
	free(f->found);
	free(f->metrics);
	free(f);
}

struct analyse_graph *analyse_fleet_graph(struct analyse_fleet *f)
{
	return f->graph;
}

int analyse_fleet_join(struct analyse_fleet *f, struct analyse_pipeline *p, const char *service)
{
	int64_t number = service ? analyse_graph_service(f->graph, service) : -ENOENT;

	if (!p->opts.detector->comparable)
		return 0;
	p->thresholds = &f->all;
	/* The fleet adopts the budgets of the first pod. */
	if (!f->all.step.n)
		analyse_thresholds_budget(&f->all, &p->own);
	free(p->own.kind);
	p->own.kind = NULL;
	p->suspect = analyse_culprit_add(f->culprit,
					 number < 0 ? ANALYSE_NO_SERVICE : (uint32_t)number);
	return p->suspect && number != -ENOMEM ? 0 : -ENOMEM;
}

int analyse_fleet_replica(struct analyse_fleet *f, struct analyse_pipeline *p, const char *service,
			  bool host)
{
	int64_t number = analyse_graph_service(f->graph, service);
	size_t had = f->replicas_room;
	struct analyse_replicas **r;

	if (number < 0)
		return (int)number;
	if (!base_grow(&f->replicas, &f->replicas_room, (size_t)number + 1, sizeof(*r)))
		return -ENOMEM;
	for (; had < f->replicas_room; had++)
		f->replicas[had] = NULL;
	r = &f->replicas[number];
	*r = *r ?: analyse_replicas_new(host);
	return *r ? analyse_replicas_join(*r, p) : -ENOMEM;
}

void analyse_fleet_leave(struct analyse_fleet *f, struct analyse_pipeline *p)
{
	analyse_replicas_leave(p);
	analyse_culprit_remove(f->culprit, p->suspect);
	p->suspect = NULL;
}

static struct fleet_metric *find_metric(struct fleet_metric *metrics, uint32_t room, uint64_t key)
{
	uint32_t i = (uint32_t)(key ^ key >> 32) & (room - 1);

	while (metrics[i].key && metrics[i].key != key)
		i = (i + 1) & (room - 1);
	return &metrics[i];
}

/* Allocates only in a round with new names, and removes names not seen for 1,000 rounds. */
static int grow_metrics(struct analyse_fleet *f)
{
	uint32_t room = 256, live = 0;
	struct fleet_metric *more;

	for (uint32_t i = 0; i < f->room; i++)
		live += f->metrics[i].key && f->metrics[i].round + 1000 > f->round;
	while (room < 4 * (live + 1))
		room *= 2;
	more = calloc(room, sizeof(*more));
	if (!more)
		return -ENOMEM;
	for (uint32_t i = 0; i < f->room; i++)
		if (f->metrics[i].key && f->metrics[i].round + 1000 > f->round)
			*find_metric(more, room, f->metrics[i].key) = f->metrics[i];
	free(f->metrics);
	f->metrics = more;
	f->room = room;
	f->used = live;
	return 0;
}

static int sum_shares(struct analyse_fleet *f, struct analyse_pipeline *p)
{
	const float *shares = p->blame;
	const uint64_t *keys = p->keys;

	for (uint32_t c = 0; c < p->dims; c++) {
		struct fleet_metric *m;

		if (!(shares[c] > 0) || !keys[c])
			continue;
		if (2 * (f->used + 1) > f->room && grow_metrics(f))
			return -ENOMEM;
		m = find_metric(f->metrics, f->room, keys[c]);
		f->used += !m->key;
		if (m->round != f->round)
			m->sum = 0;
		m->key = keys[c];
		m->round = f->round;
		m->sum += shares[c];
	}
	return 0;
}

static void discount_shares(struct analyse_fleet *f, struct analyse_pipeline *p, uint32_t pods)
{
	float *shares = p->blame;

	for (uint32_t c = 0; c < p->dims; c++) {
		float mine = shares[c], others;

		if (!(mine > 0) || !p->keys[c])
			continue;
		others = find_metric(f->metrics, f->room, p->keys[c])->sum - mine;
		others = others > 0 ? others / (float)(pods - 1) : 0;
		shares[c] = mine * mine / (mine + ANALYSE_FLEET_RIVALRY * others);
	}
}

/*
 * Measures how much pods differ in the calibration at offset `place` of struct analyse_thresholds.
 */
static void compare_pods(struct analyse_pipeline *const *pods, uint32_t n, size_t place,
			 struct analyse_calibration *all)
{
	struct analyse_calibration_spread s = {0};

	for (uint32_t i = 0; i < n; i++) {
		const char *own = (const char *)&pods[i]->own;

		if (pods[i]->thresholds != &pods[i]->own)
			analyse_calibration_compare(&s, (const void *)(own + place), all);
	}
	analyse_calibration_compared(&s, all);
}

/* Measures how much pods differ; each threshold is between the pod's own and the shared one. */
static void measure_differences(struct analyse_fleet *f, struct analyse_pipeline *const *pods,
				uint32_t n)
{
	compare_pods(pods, n, offsetof(struct analyse_thresholds, step), &f->all.step);
	compare_pods(pods, n, offsetof(struct analyse_thresholds, run), &f->all.run);
}

/* ---- the culprit ---- */

/* Replaces the pod's own latencies with latencies measured by another pod. */
static void use_measured(struct analyse_pipeline *p, struct analyse_observation *o,
			 bool has[ANALYSE_TAILS])
{
	for (uint32_t j = 0; p->by && j < ANALYSE_TAILS; j++) {
		o->latency[ANALYSE_SERVER][j] = p->measured[j];
		has[j] = !isnan(p->measured[j]);
	}
	if (!p->by == p->was_measured)
		analyse_culprit_forget(p->suspect, ANALYSE_SERVER);
	p->was_measured = o->measured = p->by;
}

/* Returns the amount by which evidence of this kind exceeds its threshold. */
static float excess_of(struct analyse_pipeline *p, enum analyse_kind kind)
{
	return fmaxf(p->kind[kind] - (float)analyse_pipeline_kind_threshold(p, kind), 0);
}

/*
 * Fills in an observation: the latencies of the row; the novelty of each kind of resource, given by
 * the metric that moved most; and the amount by which other kinds exceed their thresholds.
 */
static void fill_observation(struct analyse_pipeline *p, bool threshold,
			     struct analyse_observation *o)
{
	bool has[ANALYSE_LATENCIES][ANALYSE_TAILS] = {0};
	uint32_t most[ANALYSE_RESOURCES];

	*o = (struct analyse_observation){
		.step = p->step,
		.open = p->open && analyse_pipeline_has_runs(p),
		.learn = p->learning == ANALYSE_LEARN_ALL ||
			 (p->learning == ANALYSE_LEARN_WARM && !p->warm.out)};
	for (uint32_t k = 0; k < ANALYSE_LATENCIES; k++)
		for (uint32_t j = 0; j < ANALYSE_TAILS; j++)
			o->latency[k][j] = (double)NAN;
	o->novelty = p->testimony;
	for (uint32_t i = 0; i < p->witnesses; i++) {
		struct analyse_role role = p->witness[i].role;
		uint32_t s = p->witness[i].slot;

		if (role.kind == ANALYSE_ROLE_RESOURCE)
			continue;
		o->latency[role.kind == ANALYSE_ROLE_SERVER][role.part] = (double)p->x[s];
		has[role.kind == ANALYSE_ROLE_SERVER][role.part] = true;
	}
	use_measured(p, o, has[ANALYSE_SERVER]);
	analyse_pipeline_novelty(p, most);
	for (uint32_t k = 0; k < ANALYSE_RESOURCES; k++)
		o->novelty += most[k] != ANALYSE_NONE ? logf(fabsf(p->move[most[k]])) : 0;
	/* Until the joint score has a threshold, judge the pod by its own metrics. */
	for (uint32_t k = 0; k < ANALYSE_LATENCIES && threshold; k++)
		p->joint |= has[k][ANALYSE_P90] && has[k][ANALYSE_P95] && has[k][ANALYSE_P99];
	analyse_pipeline_weigh(p);
	o->errors = excess_of(p, ANALYSE_KIND_ERRORS);
	o->other = excess_of(p, ANALYSE_KIND_OTHER);
}

static bool room_for(struct analyse_fleet *f, uint32_t n)
{
	size_t suspects = f->suspect_room, seen = f->suspect_room;

	/*
	 * suspect_room is set last: if an array cannot grow, the earlier ones are reallocated next
	 * time.
	 */
	return base_grow(&f->suspect, &suspects, n, sizeof(struct analyse_suspect *)) &&
	       base_grow(&f->seen, &seen, n, sizeof(*f->seen)) &&
	       base_grow(&f->found, &f->suspect_room, n, sizeof(*f->found));
}

static bool is_suspect(const struct analyse_pipeline *p)
{
	return p->suspect && !p->measures;
}

static void update_paths(struct analyse_fleet *f)
{
	const struct analyse_path *paths = analyse_graph_paths(f->graph, &f->n_paths);

	/* Out of memory: the next step tries again. */
	if (!paths || analyse_culprit_paths(f->culprit, paths, f->n_paths))
		f->n_paths = 0;
	else
		f->paths_version = analyse_graph_version(f->graph);
}

/* Weighs the evidence for each pod against that for all others. */
static void weigh_suspects(struct analyse_fleet *f, struct analyse_pipeline *const *pods,
			   struct analyse_verdict *verdicts, uint32_t n)
{
	bool threshold = analyse_calibration_known(&f->all.kind[ANALYSE_KIND_CULPRIT]);
	uint32_t m = 0;

	if (analyse_graph_version(f->graph) != f->paths_version)
		update_paths(f);
	/* Without a call graph, each pod is judged alone. */
	if (!f->n_paths || !room_for(f, n)) {
		for (uint32_t i = 0; i < n; i++)
			analyse_pipeline_weigh(pods[i]);
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (!is_suspect(pods[i])) {
			analyse_pipeline_weigh(pods[i]);
			continue;
		}
		f->suspect[m] = pods[i]->suspect;
		fill_observation(pods[i], threshold, &f->seen[m++]);
	}
	analyse_culprit_step(f->culprit, f->suspect, f->seen, m, f->all.step.q, f->found);
	m = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct analyse_pipeline *p = pods[i];

		if (!is_suspect(p))
			continue;
		/* With long steps, only new evidence opens an anomaly. */
		p->kind[ANALYSE_KIND_CULPRIT] = analyse_pipeline_has_runs(p) ? f->found[m].weighted
									     : f->found[m].score;
		p->delayed = fmaxf(f->found[m].late, 0);
		verdicts[i].delay = f->found[m].delay;
		p->mine = p->joint ? f->found[m].alone : f->found[m].mine;
		if (p->by)
			p->by->mine = p->mine;
		m++;
	}
}

/* Prefetches the next two pods (fetch.h). */
static void fetch_next(struct analyse_pipeline *const *pods, uint32_t i, uint32_t n)
{
	if (i + 2 < n)
		__builtin_prefetch(&pods[i + 2]->keys);
	if (i + 1 < n) {
		const struct analyse_pipeline *p = pods[i + 1];

		analyse_fetch(p->blame, p->dims * sizeof(*p->blame));
		analyse_fetch(p->keys, p->dims * sizeof(*p->keys));
	}
}

/* Discounts evidence that all pods share. */
static int discount_all(struct analyse_fleet *f, struct analyse_pipeline *const *pods,
			struct analyse_verdict *verdicts, uint32_t n)
{
	uint32_t comparable = 0;
	int err = 0;

	for (uint32_t i = 0; i < n; i++)
		comparable += pods[i]->opts.detector->comparable;
	if (comparable < ANALYSE_FLEET_MIN)
		return 0;
	for (uint32_t i = 0; i < n && !err; i++) {
		fetch_next(pods, i, n);
		if (pods[i]->opts.detector->comparable && verdicts[i].raw > 0)
			err = sum_shares(f, pods[i]);
	}
	for (uint32_t i = 0; i < n && !err; i++)
		if (pods[i]->opts.detector->comparable && verdicts[i].raw > 0)
			discount_shares(f, pods[i], comparable);
	return err;
}

int analyse_fleet_judge(struct analyse_fleet *f, struct analyse_pipeline *const *pods,
			struct analyse_verdict *verdicts, uint32_t n)
{
	int err;

	f->round++;
	for (uint32_t i = 0; i < n; i++)
		analyse_odd_take(pods[i]);
	for (uint32_t i = 0; i < n; i++)
		analyse_odd_compare(pods[i]);
	err = discount_all(f, pods, verdicts, n);
	weigh_suspects(f, pods, verdicts, n);
	if (f->all.step.n >= f->all.step.compare_at)
		measure_differences(f, pods, n);
	for (uint32_t i = 0; i < n; i++) {
		analyse_pipeline_settle(pods[i], &verdicts[i]);
		analyse_odd_settle(pods[i], &verdicts[i]);
	}
	return err;
}

int analyse_fleet_callers(const struct analyse_fleet *f, const struct analyse_pipeline *p,
			  const char *name[ANALYSE_CALLERS])
{
	uint32_t service[ANALYSE_CALLERS];
	int n = p->suspect && f->n_paths
			? analyse_culprit_callers(f->culprit, p->suspect, service, ANALYSE_CALLERS)
			: -ENOENT;

	for (int i = 0; i < n; i++)
		name[i] = analyse_graph_name(f->graph, service[i]);
	return n;
}

struct analyse_thresholds *analyse_fleet_thresholds(struct analyse_fleet *f)
{
	return &f->all;
}
