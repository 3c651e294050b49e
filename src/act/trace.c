// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "act/trace.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/table.h"
#include "sketch/hash.h"

#define STEPS	   16u /* bins per octave */
#define FIRST	   10u /* first octave; durations below 1 us count as 1 us */
#define OCTAVES	   37u /* number of octaves, up to 39 hours */
#define BINS	   (OCTAVES * STEPS)
#define HALVE_AT   16384u
#define KNOWN	   3u  /* number of traces before a median is used */
#define LEARN_ALL  20u /* until it has this number of traces, a route learns every duration */
#define SLOW_LEARN 0.02
#define DOUBT	   0.8 /* fraction of slow_factor */
#define YOUNG_PART 8u  /* 1/8 of the routes are reserved for young ones */
#define RECENT	   1024u
#define WINDOW	   10000u

/* Shares of the window's income that a reason leaves to stronger ones. */
#define DOUBT_LEAVES   0.1
#define VERDICT_LEAVES 0.25
#define WEAK_LEAVES    0.5
#define VERDICTS_OWN   0.01 /* share of the budget reserved for verdicts */

struct act_trace_route {
	struct base_node node;
	TAILQ_ENTRY(act_trace_route) used;
	bool known; /* in the list .known, not in .young */
	uint64_t key;
	uint32_t n;
	uint16_t bins[BINS];
};

/* A list ordered by the time of last use, the oldest first. */
TAILQ_HEAD(act_trace_list, act_trace_route);

struct act_trace_policy {
	struct act_trace_policy_opts o;
	uint64_t at_most;	/* maximum number of kept traces */
	double burst, most;	/* limits of overdraft and savings */
	double balance, income; /* income is at most the income of one window */
	double due;		/* part of the balance reserved for verdicts */
	struct base_table routes;
	struct act_trace_list young, known;
	size_t n_young; /* number of young routes */
	/* with at_start: ring of recent scores, and the quantile derived from it */
	float *recent, least;
	uint32_t recents;
	uint64_t kept;
	struct act_trace_policy_stats stats;
};

const char *act_trace_reason_name(enum act_trace_reason reason)
{
	static const char *const names[ACT_TRACE_REASONS] = {"", "error", "slow", "verdict",
							     "head"};

	return (unsigned int)reason < ACT_TRACE_REASONS ? names[reason] : "";
}

static bool is_share(double x)
{
	return x >= 0 && x <= 1; /* false for NaN */
}

struct act_trace_policy *act_trace_policy_new(const struct act_trace_policy_opts *opts)
{
	struct act_trace_policy *p;

	if (!is_share(opts->budget) || !is_share(opts->head) || !(opts->slow_factor >= 0) ||
	    !(opts->slow_spread >= 0)) {
		errno = EINVAL;
		return NULL;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->o = *opts;
	TAILQ_INIT(&p->young);
	TAILQ_INIT(&p->known);
	if (!(p->o.slow_factor > 0))
		p->o.slow_factor = 5;
	if (!p->o.window)
		p->o.window = p->o.total ? p->o.total : WINDOW;
	if (!p->o.max_routes)
		p->o.max_routes = 4096;
	p->at_most = p->o.total ? (uint64_t)(p->o.budget * (double)p->o.total) : UINT64_MAX;
	p->most = p->o.budget * (double)p->o.window;
	p->burst = p->most / 2;
	if (p->o.at_start)
		p->recent = calloc(RECENT, sizeof(*p->recent));
	if (base_table_init(&p->routes) && (p->recent || !p->o.at_start))
		return p;
	act_trace_policy_free(p);
	return NULL;
}

void act_trace_policy_free(struct act_trace_policy *p)
{
	if (!p)
		return;
	BASE_TABLE_EACH(&p->routes, r)
		free(r);
	base_table_free(&p->routes);
	free(p->recent);
	free(p);
}

/* ---- keys ---- */

uint64_t act_trace_key(const char *text, size_t bytes)
{
	uint64_t h = sketch_hash_bytes(text, bytes, 0);

	return h ? h : 1;
}

uint64_t act_trace_route(uint64_t root, uint64_t *keys, size_t n)
{
	uint64_t h = root;

	if (n)
		qsort(keys, n, sizeof(*keys), base_by_u64);
	for (size_t i = 0; i < n; i++)
		if (!i || keys[i] != keys[i - 1])
			h = sketch_hash_nth(h, 0) ^ keys[i];
	h = sketch_hash_nth(h, 0);
	return h ? h : 1;
}

/* Returns a number in [0, 1) that depends only on id and salt. */
static double pseudo_random(uint64_t id, uint64_t salt)
{
	return (double)(sketch_hash_nth(id, salt) >> 11) * 0x1p-53;
}

/* ---- routes ---- */

static struct act_trace_route *find_route(const struct act_trace_policy *p, uint64_t key)
{
	struct act_trace_route *r = base_table_first(&p->routes, base_hash_u64(key));

	while (r && r->key != key)
		r = base_table_next(r);
	return r;
}

static void unlink_route(struct act_trace_policy *p, struct act_trace_route *r)
{
	TAILQ_REMOVE(r->known ? &p->known : &p->young, r, used);
	p->n_young -= !r->known;
}

static void link_newest(struct act_trace_policy *p, struct act_trace_route *r)
{
	r->known = r->n >= LEARN_ALL;
	TAILQ_INSERT_TAIL(r->known ? &p->known : &p->young, r, used);
	p->n_young += !r->known;
}

/*
 * Evicts the least recently used route. An eighth of the space is for young routes, which could
 * otherwise never become known.
 */
static struct act_trace_route *evict_route(struct act_trace_policy *p)
{
	bool young = p->n_young > p->o.max_routes / YOUNG_PART || TAILQ_EMPTY(&p->known);
	struct act_trace_route *r = TAILQ_FIRST(young ? &p->young : &p->known);

	unlink_route(p, r);
	base_table_remove(&p->routes, r);
	p->stats.evicted++;
	return r;
}

/* Returns NULL if memory is exhausted. */
static struct act_trace_route *route_of(struct act_trace_policy *p, uint64_t key)
{
	struct act_trace_route *r = find_route(p, key);

	if (r) {
		unlink_route(p, r);
		link_newest(p, r);
		return r;
	}
	r = p->routes.count < p->o.max_routes ? malloc(sizeof(*r)) : evict_route(p);
	if (!r) {
		p->stats.lost++;
		return NULL;
	}
	*r = (struct act_trace_route){.key = key};
	base_table_add(&p->routes, r, base_hash_u64(key));
	link_newest(p, r);
	return r;
}

/* ---- latency ---- */

/*
 * Returns the bin of a duration: the octave and the four bits below the leading one, so that steps
 * are linear within an octave.
 */
static uint32_t bin_of(uint64_t ns)
{
	uint32_t octave, bin;

	if (ns < 1u << FIRST)
		return 0;
	octave = 63 - (uint32_t)__builtin_clzll(ns);
	bin = (octave - FIRST) * STEPS + (uint32_t)(ns >> (octave - 4) & (STEPS - 1));
	return bin < BINS - 1 ? bin : BINS - 1;
}

/* Returns a quantile in ns, assuming values are evenly spread within a bin. */
static double route_quantile(const struct act_trace_route *r, double q)
{
	uint32_t below = 0, i;
	double within;

	for (i = 0; i < BINS - 1 && below + r->bins[i] < q * r->n; i++)
		below += r->bins[i];
	within = r->bins[i] ? (q * r->n - below) / r->bins[i] : 0.5;
	return ldexp(1 + (i % STEPS + within) / STEPS, (int)(FIRST + i / STEPS));
}

static void learn_duration(struct act_trace_route *r, uint64_t ns)
{
	if (r->n >= HALVE_AT) {
		r->n = 0;
		for (uint32_t i = 0; i < BINS; i++)
			r->n += r->bins[i] /= 2;
	}
	r->bins[bin_of(ns)]++;
	r->n++;
}

/* True if the duration exceeds the minimum for a slow trace. */
static bool is_above_floor(const struct act_trace_policy *p, const struct act_trace_route *r,
			   double median, uint64_t ns)
{
	double most;

	if (ns < p->o.slow_floor_ns)
		return false;
	if (!(p->o.slow_spread > 0) || r->n < LEARN_ALL)
		return true;
	most = median + p->o.slow_spread * (route_quantile(r, 0.9) - median);
	return (double)ns > most;
}

/*
 * Returns the trace's duration divided by the route's median, or at most 1 below the minimum; 0
 * means unknown. Then learns the duration.
 */
static double learn_slowness(struct act_trace_policy *p, uint64_t key,
			     const struct act_trace_facts *f)
{
	struct act_trace_route *r = route_of(p, key);
	double ratio = 0, half;

	if (!r)
		return 0;
	if (r->n >= KNOWN) {
		half = route_quantile(r, 0.5);
		ratio = (double)f->duration_ns / half;
		if (ratio > 1 && !is_above_floor(p, r, half, f->duration_ns))
			ratio = 1;
	}
	if (r->n < LEARN_ALL || ratio <= p->o.slow_factor ||
	    pseudo_random(f->trace_lo, 1) < SLOW_LEARN)
		learn_duration(r, f->duration_ns);
	return ratio;
}

/* ---- verdicts ---- */

/*
 * Returns the evidence that the trace shows a fault: the root's pod, for which users wait, is
 * anomalous, or one of the participating pods is at fault, even if it is unknown which one. At the
 * root, effects of other pods are explained away.
 */
static double score_of(const struct act_trace_facts *f)
{
	return fmax(f->score, f->suspicion);
}

/* ---- decisions at a trace's start ---- */

/* Records a score and updates `least`, which a share of `budget` of the last traces exceeds. */
static void record_score(struct act_trace_policy *p, float score)
{
	float sorted[RECENT];
	uint32_t i;

	p->recent[p->stats.seen % RECENT] = score;
	if (p->recents < RECENT)
		p->recents++;
	if (p->stats.seen % 64)
		return;
	memcpy(sorted, p->recent, p->recents * sizeof(float));
	qsort(sorted, p->recents, sizeof(float), base_by_f32);
	i = (uint32_t)((1 - p->o.budget) * p->recents);
	/* A score equal to the quantile is kept, as all traces of one row have the same score. */
	p->least = sorted[i < p->recents ? i : p->recents - 1];
}

/* ---- decision ---- */

/* True if at least `left` remains after keeping a trace; a negative balance is debt. */
static bool has_budget(const struct act_trace_policy *p, double left)
{
	return p->kept < p->at_most && p->balance - 1 >= left;
}

static void spend_budget(struct act_trace_policy *p, enum act_trace_reason reason)
{
	p->balance -= 1;
	if (reason == ACT_TRACE_VERDICT)
		p->due = fmax(p->due - 1, 0);
	p->kept++;
	p->stats.kept[reason]++;
}

bool act_trace_could_afford(struct act_trace_policy *p, enum act_trace_reason reason)
{
	bool could = has_budget(p, p->due - p->burst);

	p->stats.over_budget[reason] += !could;
	return could;
}

bool act_trace_afford(struct act_trace_policy *p, enum act_trace_reason reason)
{
	if (!act_trace_could_afford(p, reason))
		return false;
	spend_budget(p, reason);
	return true;
}

/*
 * Returns the strongest reason with budget left, and sets *wanted to the strongest reason
 * regardless of the budget.
 */
static enum act_trace_reason reason_of(const struct act_trace_policy *p,
				       const struct act_trace_facts *f, double slow,
				       enum act_trace_reason *wanted)
{
	double score = score_of(f);
	bool worst = p->o.at_start && (score >= (double)p->least || p->balance > 0);
	/*
	 * The budget that weak reasons must leave for stronger ones: all income or, in a recording,
	 * the maximum that the stronger ones can still need.
	 */
	double weak = p->income;

	if (p->o.total && p->o.at_start)
		weak = fmin(weak, p->o.budget * ((double)p->o.total - (double)p->stats.seen));
	weak *= WEAK_LEAVES;
	const struct {
		enum act_trace_reason reason;
		bool holds;
		double leaves;
	} rules[] = {
		{ACT_TRACE_ERROR, f->error, p->due - p->burst},
		{ACT_TRACE_SLOW, slow > p->o.slow_factor, p->due - p->burst},
		{ACT_TRACE_SLOW, slow > DOUBT * p->o.slow_factor, DOUBT_LEAVES * p->income},
		{ACT_TRACE_VERDICT, score > 1 && worst, -p->burst},
		{ACT_TRACE_VERDICT, score > 1 && !p->o.at_start, VERDICT_LEAVES * p->income},
		{ACT_TRACE_VERDICT, score > 1 && p->due >= 1, -p->burst},
		{ACT_TRACE_VERDICT, f->others > 1, weak},
		{ACT_TRACE_HEAD, pseudo_random(f->trace_lo, 0) < p->o.head, weak},
	};

	*wanted = ACT_TRACE_NO;
	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
		if (!rules[i].holds)
			continue;
		if (!*wanted)
			*wanted = rules[i].reason;
		if (has_budget(p, rules[i].leaves))
			return rules[i].reason;
	}
	return ACT_TRACE_NO;
}

enum act_trace_reason act_trace_decide(struct act_trace_policy *p, const struct act_trace_facts *f)
{
	enum act_trace_reason reason, wanted;
	double slow = 0, by_root;

	p->stats.seen++;
	p->balance = fmin(p->balance + p->o.budget, p->most);
	p->income = fmin(p->income + p->o.budget, p->most);
	p->due = fmin(p->due + VERDICTS_OWN * p->o.budget, VERDICTS_OWN * p->most);
	if (p->o.at_start) {
		record_score(p, (float)score_of(f));
	} else {
		by_root = learn_slowness(p, f->root, f);
		slow = f->route ? learn_slowness(p, f->route, f) : 0;
		slow = slow > 0 ? slow : by_root;
	}
	if (f->kept)
		return ACT_TRACE_NO;
	reason = reason_of(p, f, slow, &wanted);
	if (reason)
		spend_budget(p, reason);
	else if (wanted)
		p->stats.over_budget[wanted]++;
	return reason;
}

void act_trace_policy_stats(const struct act_trace_policy *p, struct act_trace_policy_stats *out)
{
	*out = p->stats;
	out->routes = p->routes.count;
}
