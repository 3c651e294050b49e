// SPDX-License-Identifier: Apache-2.0
/* keep.c - see keep.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/keep.h"

#define TABLE	    (2 * SL_KEEP_SETS) /* open addressing; a power of two */
#define SLOW_ENTERS 0.02
#define GATE_SEEN   20u	  /* below, a set's median is too young to refuse anything */
#define RECENT	    1024u /* scores that the quantile is of */
#define OCTAVES	    36u	  /* from 1 us to 19 hours */
#define BINS	    (16u * OCTAVES)
#define COUNTS_MAX  16384u /* of a set, before all are halved */

struct set {
	uint64_t key;
	uint32_t n;
	uint16_t bins[BINS]; /* of durations: 16 an octave, from 1 us on */
};

struct sl_keeper {
	struct sl_keep_opts opts;
	uint64_t seen, kept, unjudged, random;
	uint32_t used, recent_n, recent_at;
	float recent[RECENT], least; /* scores; their quantile */
	struct set **table;
};

static double uniform(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15; /* splitmix64 */

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

struct sl_keeper *sl_keeper_create(const struct sl_keep_opts *opts)
{
	struct sl_keeper *k;

	if (!(opts->budget >= 0 && opts->budget <= 1)) {
		errno = EINVAL;
		return NULL;
	}
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	k->opts = *opts;
	k->random = opts->seed;
	k->table = calloc(TABLE, sizeof(*k->table));
	if (!k->table) {
		free(k);
		return NULL;
	}
	return k;
}

void sl_keeper_free(struct sl_keeper *k)
{
	if (!k)
		return;
	for (uint32_t i = 0; i < TABLE; i++)
		free(k->table[i]);
	free(k->table);
	free(k);
}

static struct set *find(struct sl_keeper *k, uint64_t key)
{
	uint32_t i = (uint32_t)(key ^ key >> 32) & (TABLE - 1);

	while (k->table[i] && k->table[i]->key != key)
		i = (i + 1) & (TABLE - 1);
	if (!k->table[i] && k->used < SL_KEEP_SETS) {
		k->table[i] = calloc(1, sizeof(struct set));
		if (k->table[i]) {
			k->table[i]->key = key;
			k->used++;
		}
	}
	return k->table[i];
}

static uint32_t bin_of(uint64_t ns)
{
	double bin = 16 * log2((double)(ns < 1000 ? 1000 : ns) / 1000);

	return bin < BINS - 1 ? (uint32_t)bin : BINS - 1;
}

static void add(struct set *s, uint64_t ns)
{
	s->bins[bin_of(ns)]++;
	if (++s->n < COUNTS_MAX)
		return;
	s->n = 0;
	for (uint32_t i = 0; i < BINS; i++)
		s->n += s->bins[i] /= 2;
}

/* ns; right to 2 %. */
static double median(const struct set *s)
{
	uint32_t below = 0, i;

	for (i = 0; i < BINS - 1 && 2 * (below + s->bins[i]) <= s->n; i++)
		below += s->bins[i];
	return 1000 * exp2((i + 0.5) / 16);
}

/* How many times its set's median the trace lasted; 0: unknown. Then it enters itself. */
static float slowness(struct sl_keeper *k, const struct sl_keep_trace *t)
{
	struct set *s = find(k, t->pods);
	float ratio = 0;

	if (!s) {
		k->unjudged++;
		return 0;
	}
	if (s->n >= SL_KEEP_SEEN)
		ratio = (float)((double)t->duration / median(s));
	if (s->n < GATE_SEEN || ratio <= SL_SLOW_RATIO || uniform(&k->random) < SLOW_ENTERS)
		add(s, t->duration);
	return ratio;
}

static int by_size(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* Of the scores of the last traces, the one that the budget's share of them exceeds. */
static void remember(struct sl_keeper *k, float score)
{
	float sorted[RECENT];
	uint32_t i;

	k->recent[k->recent_at] = score;
	k->recent_at = (k->recent_at + 1) % RECENT;
	if (k->recent_n < RECENT)
		k->recent_n++;
	if (k->seen % 64)
		return;
	memcpy(sorted, k->recent, k->recent_n * sizeof(float));
	qsort(sorted, k->recent_n, sizeof(float), by_size);
	i = (uint32_t)((1 - k->opts.budget) * k->recent_n);
	/* That of the worst is kept itself: all traces of one row have the same score. */
	k->least = sorted[i < k->recent_n ? i : k->recent_n - 1];
}

enum sl_keep_reason sl_keeper_decide(struct sl_keeper *k, const struct sl_keep_trace *t)
{
	float slow = k->opts.latency ? slowness(k, t) : 0;
	enum sl_keep_reason reason = SL_KEEP_NOT;
	double room, all;

	k->seen++;
	remember(k, t->score);
	all = k->opts.budget * (double)k->seen;
	room = all + (double)k->opts.burst - (double)k->kept;
	if (k->opts.at_most && k->kept >= k->opts.at_most)
		return SL_KEEP_NOT;
	if (slow > SL_SLOW_RATIO && room >= 1)
		reason = SL_KEEP_LATENCY;
	else if (slow > SL_DOUBT_RATIO && room >= 1 + 0.1 * all + (double)k->opts.burst)
		reason = SL_KEEP_LATENCY;
	else if (t->score > 1 && (t->score >= k->least || room > (double)k->opts.burst) &&
		 room >= 1 + (k->opts.latency ? 0.2 * all + (double)k->opts.burst : 0))
		reason = SL_KEEP_VERDICT;
	else if (t->others > 1 && room >= 1 + 0.5 * all + (double)k->opts.burst)
		reason = SL_KEEP_VERDICT;
	k->kept += reason != SL_KEEP_NOT;
	return reason;
}

uint64_t sl_keeper_unjudged(const struct sl_keeper *k)
{
	return k->unjudged;
}
