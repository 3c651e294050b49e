// SPDX-License-Identifier: Apache-2.0
/* decide.c - decides by act/trace.h which traces to keep, and carries the decisions out */
#include <endian.h>
#include <string.h>

#include "base/base.h"
#include "collect/judge/live.h"
#include "collect/trace/internal.h"

#define HELD_NS 2000000000u /* a verdict is valid for two steps, as in a replay */
/* number of spans to read of an incomplete trace, to find its anomalous pods */
#define FIRST_SPANS 64u
/* maximum number of pods or services of a trace; beyond it, the route is unknown */
#define PARTIES 64u

/* ---- verdicts ---- */

/*
 * Returns the largest score and suspicion of a pod within the last ns, in units of the threshold;
 * 0 if there is no verdict.
 */
static struct act_worst worst_within(const struct collect_tracer *t, uint64_t instance, uint64_t ns)
{
	struct collect_analysis_view a;

	if (!collect_collector_analysis(t->c, &a))
		return (struct act_worst){0};
	return act_verdicts_worst(a.verdicts, instance, (int64_t)(base_realtime_ns() - ns));
}

/* The verdict is read only once per period and pod, so that its writer rarely waits. */
static double score_of(const struct collect_tracer *t, struct collect_trace_pod *p)
{
	if (!p)
		return 0;
	if (t->judged && p->score_tick != t->tick) {
		const struct act_worst worst = worst_within(t, p->instance, HELD_NS);

		p->score = worst.score;
		p->suspicion = worst.suspicion;
		p->score_tick = t->tick;
	}
	return p->score;
}

bool collect_trace_notify_verdicts(struct collect_tracer *t, const struct collect_trace *k,
				   uint64_t since_ns, bool complete)
{
	uint64_t held = HELD_NS + base_now_ns() - since_ns, last = 0;
	uint32_t left = complete ? UINT32_MAX : FIRST_SPANS;
	const uint64_t id[2] = {htobe64(k->trace_hi), htobe64(k->trace_lo)};
	struct collect_analysis_view a;
	bool notified = false;

	if (!collect_collector_analysis(t->c, &a))
		return false;
	for (const struct collect_trace_span *s = k->first; s && left; s = s->next, left--) {
		if (s->instance != last &&
		    (complete ? worst_within(t, s->instance, held).score
			      : score_of(t, collect_trace_pod_find(t, s->instance))) > 1) {
			act_verdicts_traced(a.verdicts, s->instance, (int64_t)base_realtime_ns(),
					    (const uint8_t *)id);
			notified = true;
		}
		last = s->instance;
	}
	return notified;
}

/* ---- participants of a trace ---- */

struct parties {
	uint64_t key[PARTIES];
	uint64_t seen[PARTIES]; /* pods whose suspicion is in the sum */
	size_t n, pods;
	bool whole;
	double score, suspicion; /* the largest score; the sum of suspicions */
};

static void add_party(struct parties *all, uint64_t key)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->key[i] == key)
			return;
	if (all->n == PARTIES)
		all->whole = false;
	else
		all->key[all->n++] = key;
}

static void add_pod(struct collect_tracer *t, struct parties *all, struct collect_trace_pod *p)
{
	double score = score_of(t, p);

	add_party(all, p->key);
	all->score = BASE_MAX(score, all->score);
	for (size_t i = 0; i < all->pods; i++)
		if (all->seen[i] == p->instance)
			return;
	if (all->pods == PARTIES)
		return;
	all->seen[all->pods++] = p->instance;
	all->suspicion += p->suspicion;
}

static void see_run(struct collect_tracer *t, struct collect_trace_run *r, void *arg)
{
	struct parties *all = arg;

	if (r->pod)
		add_pod(t, all, r->pod);
	else
		all->whole = false; /* the pod that a run belongs to is gone */
}

/* ---- decisions ---- */

void collect_trace_decide(struct collect_tracer *t, const struct collect_trace_pending *p)
{
	const struct region_span_root *root = &p->root;
	uint32_t hash = sl_span_hash(root->trace_hi, root->trace_lo);
	struct parties all = {.whole = true};
	struct act_trace_facts facts;
	enum act_trace_reason reason;
	struct collect_trace_kept *there;

	add_pod(t, &all, p->pod);
	collect_trace_each_run(t, hash, root->duration_ns, see_run, &all);
	there = collect_trace_kept_find(t, root->trace_hi,
					/*
					 * not NULL if the trace is already kept because of an error
					 */
					root->trace_lo);
	facts = (struct act_trace_facts){
		.root = act_trace_key(p->name, strlen(p->name)) ^ p->pod->key << 1,
		.trace_lo = root->trace_lo,
		.duration_ns = root->duration_ns,
		.error = root->status == SL_SPAN_ERROR,
		.score = score_of(t, p->pod),
		.others = all.score,
		.suspicion = all.suspicion,
		.kept = there != NULL,
	};
	if (all.whole)
		facts.route = act_trace_route(facts.root, all.key, all.n);
	reason = act_trace_decide(t->policy, &facts);
	if (there)
		collect_trace_kept_root(t, there, p);
	else if (reason)
		collect_trace_keep(t, root->trace_hi, root->trace_lo, reason, p);
}

void collect_trace_found_error(struct collect_tracer *t, const struct collect_trace_pod *p,
			       const struct region_span_data *d)
{
	if (!collect_trace_kept_find(t, d->trace_hi, d->trace_lo) && collect_trace_may_read(t, p) &&
	    act_trace_afford(t->policy, ACT_TRACE_ERROR))
		collect_trace_keep(t, d->trace_hi, d->trace_lo, ACT_TRACE_ERROR, NULL);
}
