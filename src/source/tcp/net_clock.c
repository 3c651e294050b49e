// SPDX-License-Identifier: Apache-2.0
/* net_clock.c - estimates the offset between two clocks from bounds implied by packets. */
#include "source/tcp/net_clock.h"
#include "base/base.h"
#include "base/grow.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STAMP_NS 1 /* resolution of a timestamp */
/*
 * If one clock runs fast by more than S, contradictions keep recurring. Contradictions that are at
 * most this far apart count as one, and the time between them is not used.
 */
#define CALM_NS 250000000

typedef __int128 wide; /* holds sums of untrusted 64-bit numbers */

int tcp_net_by_time(const void *a, const void *b)
{
	const struct tcp_net_point *p = a, *q = b;

	return p->at < q->at ? -1 : p->at > q->at;
}

/* Maximum change of theta between two times, rounded up. */
static int64_t max_drift(int64_t from, int64_t to)
{
	return (int64_t)ceil(fabs((double)(to - from)) * TCP_NET_SKEW_MAX);
}

/* The bound on theta(x) that a point implies: an upper bound, or a lower bound if backward. */
static wide bound_at(const struct tcp_net_apex *a, bool backward, int64_t x)
{
	return backward ? (wide)a->ahead - max_drift(a->at, x)
			: (wide)a->ahead + max_drift(a->at, x);
}

/* True if a's bound implies b's bound. */
static bool implies_bound(const struct tcp_net_apex *a, const struct tcp_net_apex *b, bool backward)
{
	return backward ? bound_at(a, true, b->at) >= b->ahead
			: bound_at(a, false, b->at) <= b->ahead;
}

/*
 * Finds the apexes of one direction among sorted points. A point covered by any earlier apex is
 * also covered by the last apex; otherwise, the last apex itself would be covered. chain has room
 * for n.
 */
static size_t find_apexes(const struct tcp_net_point *p, size_t n, bool backward,
			  struct tcp_net_apex *chain)
{
	size_t m = 0;

	for (size_t i = 0; i < n; i++) {
		struct tcp_net_apex a = {p[i].at, p[i].ahead};

		if (p[i].backward != backward || (m && implies_bound(&chain[m - 1], &a, backward)))
			continue;
		while (m && implies_bound(&a, &chain[m - 1], backward))
			m--;
		chain[m++] = a;
	}
	return m;
}

/* Returns the index of the first apex after x, or n. */
static size_t first_after(const struct tcp_net_apex *chain, size_t n, int64_t x)
{
	size_t i;

	BASE_LOWER_BOUND(i, 0, n, chain[i].at <= x);
	return i;
}

/* Returns high(x), or low(x) for backward apexes. n must not be 0. */
static wide envelope_at(const struct tcp_net_apex *chain, size_t n, bool backward, int64_t x)
{
	size_t i = first_after(chain, n, x);
	wide before, after;

	if (!i)
		return bound_at(&chain[0], backward, x);
	before = bound_at(&chain[i - 1], backward, x);
	if (i == n)
		return before;
	after = bound_at(&chain[i], backward, x);
	return (backward ? after > before : after < before) ? after : before;
}

static double limit_skew(double skew)
{
	return fmax(-TCP_NET_SKEW_MAX, fmin(skew, TCP_NET_SKEW_MAX));
}

/* ---- the list of stretches ---- */

static size_t stretch_weight(const struct tcp_net_stretch *s)
{
	return s->n[0] + s->n[1] + sizeof(*s) / sizeof(s->apex[0]);
}

/* Drops old stretches, except those that the current points overlap. */
static void drop_stretches(struct tcp_net_clock *c, int64_t from)
{
	size_t k = 0;

	for (; k < c->n && c->apexes > c->most / 2 && c->v[k]->to < from; k++) {
		c->apexes -= stretch_weight(c->v[k]);
		free(c->v[k]);
	}
	c->n -= k;
	memmove(c->v, c->v + k, c->n * sizeof(*c->v));
}

/* ---- from points to stretches ---- */

struct net_clock_run { /* consecutive points that do not contradict each other */
	const struct tcp_net_point *p;
	size_t n;
	int64_t from, to;
};

/* room has space for r->n apexes. */
static int keep_stretch(struct tcp_net_clock *c, const struct net_clock_run *r,
			struct tcp_net_apex *room)
{
	struct tcp_net_apex *chain[2] = {room};
	struct tcp_net_stretch *s;
	int64_t first = r->p[0].at, last = r->p[r->n - 1].at;
	double low = -TCP_NET_SKEW_MAX, high = TCP_NET_SKEW_MAX;
	size_t n[2], begin[2], end;

	n[0] = find_apexes(r->p, r->n, false, room);
	chain[1] = room + n[0];
	n[1] = find_apexes(r->p, r->n, true, chain[1]);
	if (!n[0] || !n[1]) {
		c->one_way++;
		return 0;
	}
	if (last > first) {
		wide least = envelope_at(chain[1], n[1], true, last) -
			     envelope_at(chain[0], n[0], false, first);
		wide most = envelope_at(chain[0], n[0], false, last) -
			    envelope_at(chain[1], n[1], true, first);

		low = limit_skew((double)(least - 2 * STAMP_NS) / (double)(last - first));
		high = limit_skew((double)(most + 2 * STAMP_NS) / (double)(last - first));
	}
	/* Outside the run, only the nearest apex on each side matters. */
	for (int d = 0; d < 2; d++) {
		begin[d] = first_after(chain[d], n[d], r->from);
		begin[d] -= begin[d] > 0;
		end = first_after(chain[d], n[d], r->to);
		n[d] = end + (end < n[d]) - begin[d];
	}
	s = BASE_GROW(c->v, c->n, c->room) ? malloc(sizeof(*s) + (n[0] + n[1]) * sizeof(s->apex[0]))
					   : NULL;
	if (!s)
		return -ENOMEM;
	*s = (struct tcp_net_stretch){r->from, r->to, low, high, {n[0], n[1]}};
	memcpy(s->apex, chain[0] + begin[0], n[0] * sizeof(s->apex[0]));
	memcpy(s->apex + n[0], chain[1] + begin[1], n[1] * sizeof(s->apex[0]));
	c->v[c->n++] = s;
	c->apexes += stretch_weight(s);
	return 0;
}

static bool points_contradict(const struct tcp_net_point *early, const struct tcp_net_point *late)
{
	struct tcp_net_apex a = {early->at, early->ahead};
	wide there;

	if (early->backward == late->backward)
		return false;
	there = bound_at(&a, early->backward, late->at);
	return early->backward ? there > (wide)late->ahead + 2 * STAMP_NS
			       : there < (wide)late->ahead - 2 * STAMP_NS;
}

/*
 * Returns the length of the longest prefix without a contradiction. It suffices to compare each
 * point with the strongest one of the other direction. Sets *other to the last point that
 * contradicts the one after the prefix.
 */
static size_t agreeing_prefix(const struct tcp_net_point *p, size_t n, size_t *other)
{
	const struct tcp_net_point *strongest[2] = {0};

	for (size_t i = 0; i < n; i++) {
		const struct tcp_net_point **mine = &strongest[p[i].backward];
		const struct tcp_net_point *against = strongest[!p[i].backward];
		struct tcp_net_apex a = {p[i].at, p[i].ahead}, b;

		if (against && points_contradict(against, &p[i])) {
			for (*other = i - 1; !points_contradict(&p[*other], &p[i]);)
				(*other)--;
			return i;
		}
		b = *mine ? (struct tcp_net_apex){(*mine)->at, (*mine)->ahead} : a;
		if (!*mine || !implies_bound(&b, &a, p[i].backward))
			*mine = &p[i];
	}
	return n;
}

/* Packets in flight during a step also contradict later packets; all of them count as one step. */
static void count_step(struct tcp_net_clock *c, int64_t at)
{
	if (at <= c->latest_step)
		return;
	if (!c->stepped || at - c->latest_step > CALM_NS)
		c->stepped++;
	c->latest_step = at;
}

int tcp_net_clock_add(struct tcp_net_clock *c, struct tcp_net_point *points, size_t n, int64_t from,
		      int64_t to)
{
	struct tcp_net_apex *room = malloc((n + 1) * sizeof(*room));
	int64_t begin = from;
	size_t first = 0;
	int err = 0;

	if (!room)
		return -ENOMEM;
	if (n)
		qsort(points, n, sizeof(*points), tcp_net_by_time);
	if (n && c->most && c->apexes > c->most)
		drop_stretches(c, points[0].at);
	while (!err && first < n) {
		size_t other = n - 1,
		       next = first + agreeing_prefix(points + first, n - first, &other);
		bool cut = next < n;
		struct net_clock_run r = {points + first, n - first, begin, to};

		if (cut) {
			other += first;
			r.n = other - first + 1;
			r.to = points[other].at < points[next].at ? points[other].at
								  : points[next].at - 1;
			if (points[next].at <= to)
				count_step(c, points[next].at);
		}
		r.to = BASE_MIN(r.to, to);
		if (r.from <= r.to && (!(cut || first) || r.p[r.n - 1].at - r.p[0].at >= CALM_NS))
			err = keep_stretch(c, &r, room);
		if (!cut)
			break;
		begin = points[next].at > points[other].at ? points[next].at : points[next].at + 1;
		begin = BASE_MAX(begin, from);
		first = next;
	}
	free(room);
	return err;
}

bool tcp_net_clock_at(const struct tcp_net_clock *c, int64_t x, int64_t *theta, int64_t *bound)
{
	const struct tcp_net_stretch *s;
	wide low, width;
	size_t i;

	BASE_LOWER_BOUND(i, 0, c->n, c->v[i]->to < x);
	if (i == c->n || c->v[i]->from > x)
		return false;
	s = c->v[i];
	low = envelope_at(s->apex + s->n[0], s->n[1], true, x) - STAMP_NS;
	width = envelope_at(s->apex, s->n[0], false, x) + STAMP_NS - low;
	*theta = (int64_t)(low + width / 2);
	*bound = (int64_t)(width - width / 2);
	return true;
}

void tcp_net_clock_free(struct tcp_net_clock *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->v[i]);
	free(c->v);
	memset(c, 0, sizeof(*c));
}
