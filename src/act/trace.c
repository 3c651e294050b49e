// SPDX-License-Identifier: Apache-2.0
/* trace.c - which traces are worth keeping. */
#include <stdlib.h>
#include <string.h>

#include "act/trace.h"

#define OCTAVES	     48u /* 1 ns to 78 h */
#define STEPS	     8u	 /* an octave */
#define BUCKETS	     (OCTAVES * STEPS)
#define SLOW_LEARNED 50u
#define LEARN_ALL    20u /* of a name: below, its median is too young to refuse any */
#define HALVE_AT     4096u

struct name {
	struct name *next;
	uint64_t hash;
	uint32_t total;
	uint16_t count[BUCKETS];
	char text[];
};

struct sl_trace_policy {
	struct sl_trace_policy_opts o;
	double tokens;
	struct name *bucket[1024];
	struct name *rest; /* of names beyond max_names */
	struct sl_trace_policy_stats stats;
};

const char *sl_trace_reason_name(enum sl_trace_reason reason)
{
	static const char *const names[SL_TRACE_REASONS] = {"", "error", "slow", "verdict", "head"};

	return (unsigned int)reason < SL_TRACE_REASONS ? names[reason] : "";
}

struct sl_trace_policy *sl_trace_policy_new(const struct sl_trace_policy_opts *opts)
{
	struct sl_trace_policy *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	if (opts)
		p->o = *opts;
	if (!(p->o.slow_factor > 0))
		p->o.slow_factor = 5;
	if (!p->o.learn)
		p->o.learn = 20;
	if (!(p->o.budget > 0))
		p->o.budget = 0.15;
	if (!(p->o.burst > 0))
		p->o.burst = 200;
	if (!p->o.max_names)
		p->o.max_names = 4096;
	p->tokens = p->o.burst;
	return p;
}

void sl_trace_policy_free(struct sl_trace_policy *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < 1024; i++) {
		while (p->bucket[i]) {
			struct name *n = p->bucket[i];

			p->bucket[i] = n->next;
			free(n);
		}
	}
	free(p->rest);
	free(p);
}

/* ---- latency ------------------------------------------------------------------------------------- */

/* The position of the highest bit, and the three below it: steps that are even within an octave. */
static uint32_t bucket_of(uint64_t ns)
{
	uint32_t octave, at;

	if (ns < STEPS)
		return (uint32_t)ns;
	octave = 63 - (uint32_t)__builtin_clzll(ns);
	at = (octave - 2) * STEPS + (uint32_t)(ns >> (octave - 3) & 7);
	return at < BUCKETS ? at : BUCKETS - 1;
}

static uint64_t bucket_start(uint32_t at)
{
	if (at < STEPS)
		return at;
	return (uint64_t)(STEPS + at % STEPS) << (at / STEPS - 1);
}

static uint64_t hash_of(const char *text)
{
	uint64_t h = 0xcbf29ce484222325ull; /* FNV-1a */

	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 0x100000001b3ull;
	return h ^ h >> 32;
}

static struct name *find(const struct sl_trace_policy *p, const char *text, uint64_t hash)
{
	for (struct name *n = p->bucket[hash % 1024]; n; n = n->next)
		if (n->hash == hash && !strcmp(n->text, text))
			return n;
	return NULL;
}

/* The name's, or that of all names for which there was no room; NULL: no memory. */
static struct name *learn_name(struct sl_trace_policy *p, const char *text)
{
	uint64_t hash = hash_of(text);
	struct name *n = find(p, text, hash);
	bool full = p->stats.names >= p->o.max_names;
	size_t bytes = full ? 1 : strlen(text) + 1;

	if (n)
		return n;
	if (full) {
		p->stats.names_refused++;
		if (p->rest)
			return p->rest;
	}
	n = calloc(1, sizeof(*n) + bytes);
	if (!n)
		return NULL;
	if (full) {
		p->rest = n;
		return n;
	}
	memcpy(n->text, text, bytes);
	n->hash = hash;
	n->next = p->bucket[hash % 1024];
	p->bucket[hash % 1024] = n;
	p->stats.names++;
	return n;
}

static void learn(struct name *n, uint64_t ns)
{
	if (n->total >= HALVE_AT) {
		n->total = 0;
		for (uint32_t i = 0; i < BUCKETS; i++)
			n->total += n->count[i] /= 2;
	}
	n->count[bucket_of(ns)]++;
	n->total++;
}

static uint64_t slow_from(const struct sl_trace_policy *p, const struct name *n)
{
	uint32_t below = 0;

	if (!n || n->total < p->o.learn)
		return UINT64_MAX;
	for (uint32_t i = 0; i < BUCKETS; i++) {
		below += n->count[i];
		if (2 * below >= n->total) {
			double ns = p->o.slow_factor * (double)bucket_start(i);

			return ns < 9e18 ? (uint64_t)ns : UINT64_MAX;
		}
	}
	return UINT64_MAX;
}

uint64_t sl_trace_slow_ns(const struct sl_trace_policy *p, const char *name)
{
	const struct name *n = find(p, name, hash_of(name));

	return slow_from(p, n);
}

/* ---- decision -------------------------------------------------------------------------------------- */

bool sl_trace_afford(struct sl_trace_policy *p, enum sl_trace_reason reason)
{
	double left = reason == SL_TRACE_HEAD	   ? p->o.burst / 2
		      : reason == SL_TRACE_VERDICT ? p->o.burst / 4
						   : 0;

	if (p->tokens - 1 < left) {
		p->stats.over_budget[reason]++;
		return false;
	}
	p->tokens -= 1;
	p->stats.kept[reason]++;
	return true;
}

/* A share of ids, the same ones everywhere: the lower half of an id is random (W3C level 2). */
static bool by_head(const struct sl_trace_policy *p, uint64_t lo)
{
	return (double)(lo * 0x9e3779b97f4a7c15ull >> 11) * 0x1p-53 < p->o.head;
}

enum sl_trace_reason sl_trace_decide(struct sl_trace_policy *p, const struct sl_trace_facts *f)
{
	struct name *n = learn_name(p, f->name);
	uint64_t slow = slow_from(p, n);
	enum sl_trace_reason reason = f->error ? SL_TRACE_ERROR
				      : slow != UINT64_MAX && f->duration_ns >= slow ? SL_TRACE_SLOW
				      : f->verdict		? SL_TRACE_VERDICT
				      : by_head(p, f->trace_lo) ? SL_TRACE_HEAD
								: SL_TRACE_NO;

	p->stats.seen++;
	p->tokens = p->tokens + p->o.budget < p->o.burst ? p->tokens + p->o.budget : p->o.burst;
	/*
	 * After the decision: it is held against those before it. Slow ones are learned one in fifty
	 * times: else a fault that lasts would soon be the median itself.
	 */
	if (n &&
	    (f->duration_ns < slow || n->total < LEARN_ALL || p->stats.seen % SLOW_LEARNED == 0))
		learn(n, f->duration_ns);
	return reason && sl_trace_afford(p, reason) ? reason : SL_TRACE_NO;
}

void sl_trace_policy_stats(const struct sl_trace_policy *p, struct sl_trace_policy_stats *out)
{
	*out = p->stats;
}
