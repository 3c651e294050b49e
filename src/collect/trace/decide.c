// SPDX-License-Identifier: Apache-2.0
/* trace_decide.c - of the tracer: facts for act/trace.h, and what comes of its decisions. */
#include <string.h>

#include "base/base.h"
#include "collect/trace/internal.h"

#define HELD_NS	    2000000000u /* how long a verdict counts: two steps, as in a replay */
#define FIRST_SPANS 64u /* of a trace that is not complete, to find out who is to be told of it */
#define PARTIES	    64u /* services of a trace; of one with more the route is not known */

/* ---- verdicts ---------------------------------------------------------------------------------------- */

/* The largest score of a pod within the last ns, in thresholds; 0: there is no verdict. */
static double score_within(const struct sl_tracer *t, uint64_t instance, uint64_t ns)
{
	struct sl_analysis_view a;

	if (!sl_collector_analysis(t->c, &a))
		return 0;
	return sl_verdicts_worst(a.verdicts, instance, (int64_t)(sl_realtime_ns() - ns));
}

/* Once a period and pod: who writes verdicts does not wait for those who look at them. */
static double score_of(const struct sl_tracer *t, struct trace_pod *p)
{
	if (!p)
		return 0;
	if (t->judged && p->score_tick != t->tick) {
		p->score = score_within(t, p->instance, HELD_NS);
		p->score_tick = t->tick;
	}
	return p->score;
}

bool trace_tell_verdicts(struct sl_tracer *t, const struct sl_trace *k, uint64_t since_ns,
			 bool complete)
{
	uint64_t within = HELD_NS + sl_now_ns() - since_ns, last = 0;
	uint32_t left = complete ? UINT32_MAX : FIRST_SPANS;
	uint8_t id[SL_TRACE_ID_BYTES];
	struct sl_analysis_view a;
	bool told = false;

	if (!sl_collector_analysis(t->c, &a))
		return false;
	for (int i = 0; i < 8; i++) {
		id[i] = (uint8_t)(k->trace_hi >> (56 - 8 * i));
		id[8 + i] = (uint8_t)(k->trace_lo >> (56 - 8 * i));
	}
	for (const struct sl_trace_span *s = k->first; s && left; s = s->next, left--) {
		if (s->instance != last &&
		    (complete ? score_within(t, s->instance, within)
			      : score_of(t, trace_pod_find(t, s->instance))) > 1) {
			sl_verdicts_traced(a.verdicts, s->instance, (int64_t)sl_realtime_ns(), id);
			told = true;
		}
		last = s->instance;
	}
	return told;
}

/* ---- who took part ------------------------------------------------------------------------------------ */

struct parties {
	uint64_t key[PARTIES];
	size_t n;
	bool whole;
	double score; /* the largest */
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

static bool see_run(struct sl_tracer *t, struct trace_run *r, void *arg)
{
	struct parties *all = arg;
	double score;

	if (!r->pod) { /* it is not known any more whose that was */
		all->whole = false;
		return true;
	}
	add_party(all, r->pod->key);
	score = score_of(t, r->pod);
	if (score > all->score)
		all->score = score;
	return true;
}

/* ---- decisions ---------------------------------------------------------------------------------------- */

void trace_decide(struct sl_tracer *t, const struct trace_pending *p)
{
	const struct sl_span_root *root = &p->root;
	uint32_t hash = sl_span_hash(root->trace_hi, root->trace_lo);
	struct parties all = {.whole = true};
	struct sl_trace_facts facts;
	enum sl_trace_reason reason;
	struct trace_kept *there;

	add_party(&all, p->pod->key);
	trace_each_run(t, hash, root->duration_ns, see_run, &all);
	there = trace_kept_find(t, root->trace_hi, root->trace_lo); /* for an error within it */
	facts = (struct sl_trace_facts){
		.root = sl_trace_key(p->name, strlen(p->name)) ^ p->pod->key << 1,
		.trace_lo = root->trace_lo,
		.duration_ns = root->duration_ns,
		.error = root->status == SL_SPAN_ERROR,
		.score = score_of(t, p->pod),
		.others = all.score,
		.kept = there != NULL,
	};
	if (all.whole)
		facts.route = sl_trace_route(facts.root, all.key, all.n);
	reason = sl_trace_decide(t->policy, &facts);
	if (there)
		trace_kept_root(t, there, p);
	else if (reason)
		trace_keep(t, root->trace_hi, root->trace_lo, reason, p);
}

void trace_found_error(struct sl_tracer *t, const struct sl_span_data *d)
{
	if (!trace_kept_find(t, d->trace_hi, d->trace_lo) &&
	    sl_trace_afford(t->policy, SL_TRACE_ERROR))
		trace_keep(t, d->trace_hi, d->trace_lo, SL_TRACE_ERROR, NULL);
}
