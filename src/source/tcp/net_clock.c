// SPDX-License-Identifier: Apache-2.0
/* net_clock.c - offset and skew of two clocks: a linear program over two convex hulls. */
#include "source/tcp/net_clock.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHORTEST_NS 10000000 /* what can't be explained is not looked at more closely than that */
#define ROUNDS	    100	     /* of a search by thirds: to 1e-17 of where it began */
#define STAMP_NS    1.0	     /* a stamp is a whole number of ns */

/* One kind of points, relative to a place nearby; after hull() only the vertices that matter. */
struct side {
	double *x, *y;
	size_t n;
};

static int by_time(const void *a, const void *b)
{
	const struct sl_net_point *p = a, *q = b;

	return p->at < q->at ? -1 : p->at > q->at;
}

/* Left of the line from a to b, or right: exact. */
static int turn(const struct sl_net_point *a, const struct sl_net_point *b,
		const struct sl_net_point *c)
{
	__int128 d = (__int128)(b->at - a->at) * (c->ahead - a->ahead) -
		     (__int128)(b->ahead - a->ahead) * (c->at - a->at);

	return d < 0 ? -1 : d > 0;
}

/*
 * Andrew's monotone chain over the points of one direction, sorted by time: the lower hull (sign 1) or
 * the upper one (-1). chain has room for n.
 */
static size_t hull(const struct sl_net_point *p, size_t n, bool backward,
		   const struct sl_net_point **chain)
{
	int sign = backward ? -1 : 1;
	size_t m = 0;

	for (size_t i = 0; i < n; i++) {
		if (p[i].backward != backward)
			continue;
		/* Of two at one time the one that says more. */
		if (m && chain[m - 1]->at == p[i].at) {
			if (sign * (p[i].ahead > chain[m - 1]->ahead ? 1 : -1) > 0)
				continue;
			m--;
		}
		while (m > 1 && sign * turn(chain[m - 2], chain[m - 1], &p[i]) <= 0)
			m--;
		chain[m++] = &p[i];
	}
	return m;
}

/* The highest value at `at` of a line with this slope that is below all points, or the lowest above. */
static double limit(const struct side *s, double slope, double at, int sign)
{
	double best = INFINITY;

	for (size_t i = 0; i < s->n; i++) {
		double v = sign * (s->y[i] - slope * (s->x[i] - at));

		if (v < best)
			best = v;
	}
	return sign * best;
}

struct problem {
	struct side above, below; /* of theta: forward, backward points */
	double slope[2];	  /* those for which there is a line */
};

static double room(const struct problem *p, double slope)
{
	return limit(&p->above, slope, 0, 1) - limit(&p->below, slope, 0, -1);
}

/* Concave: no line at all, or all slopes between two. */
static bool slopes(struct problem *p)
{
	double a = -SL_NET_SKEW_MAX, b = SL_NET_SKEW_MAX, best;

	for (int i = 0; i < ROUNDS; i++) {
		double u = a + (b - a) / 3, v = b - (b - a) / 3;

		if (room(p, u) < room(p, v))
			a = u;
		else
			b = v;
	}
	best = (a + b) / 2;
	if (room(p, best) < -2 * STAMP_NS)
		return false;
	for (int end = 0; end < 2; end++) {
		double out = end ? SL_NET_SKEW_MAX : -SL_NET_SKEW_MAX, in = best;

		if (room(p, out) >= 0)
			in = out;
		for (int i = 0; i < ROUNDS && in != out; i++) {
			double mid = (in + out) / 2;

			if (room(p, mid) >= 0)
				in = mid;
			else
				out = mid;
		}
		p->slope[end] = in;
	}
	return true;
}

/* The most (sign 1) or the least (-1) that a line of the program says at `at`. */
static double extreme(const struct problem *p, double at, int sign)
{
	const struct side *s = sign > 0 ? &p->above : &p->below;
	double a = p->slope[0], b = p->slope[1];

	for (int i = 0; i < ROUNDS; i++) {
		double u = a + (b - a) / 3, v = b - (b - a) / 3;

		if (sign * limit(s, u, at, sign) < sign * limit(s, v, at, sign))
			a = u;
		else
			b = v;
	}
	return limit(s, (a + b) / 2, at, sign);
}

static void relative(struct side *to, const struct sl_net_point **chain, size_t n, int64_t x0,
		     int64_t y0)
{
	to->n = n;
	for (size_t i = 0; i < n; i++) {
		to->x[i] = (double)(chain[i]->at - x0);
		to->y[i] = (double)(chain[i]->ahead - y0);
	}
}

int sl_net_line_fit(struct sl_net_point *points, size_t n, int64_t from, int64_t to,
		    struct sl_net_line *line)
{
	const struct sl_net_point **chain;
	struct problem p = {0};
	int result = SL_NET_OK;
	double *memory;

	memset(line, 0, sizeof(*line));
	line->from = from;
	line->to = to;
	for (size_t i = 0; i < n; i++)
		line->points[points[i].backward]++;
	if (!line->points[0] || !line->points[1])
		return SL_NET_ONE_WAY;
	qsort(points, n, sizeof(*points), by_time);
	chain = malloc(n * sizeof(*chain));
	memory = malloc(2 * n * sizeof(*memory));
	if (!chain || !memory) {
		result = -ENOMEM;
		goto out;
	}
	line->base = points[0].ahead;
	p.above.x = memory;
	p.above.y = memory + line->points[0];
	p.below.x = memory + 2 * line->points[0];
	p.below.y = p.below.x + line->points[1];
	relative(&p.above, chain, hull(points, n, false, chain), from, line->base);
	relative(&p.below, chain, hull(points, n, true, chain), from, line->base);
	if (!slopes(&p)) {
		result = SL_NET_STEPPED;
		goto out;
	}
	line->skew_low = p.slope[0];
	line->skew_high = p.slope[1];
	for (int k = 0; k < SL_NET_KNOTS; k++) {
		double at = (double)(to - from) * k / (SL_NET_KNOTS - 1);

		line->high[k] = extreme(&p, at, 1) + STAMP_NS;
		line->low[k] = extreme(&p, at, -1) - STAMP_NS;
	}
out:
	free(memory);
	free(chain);
	return result;
}

/* Between two knots the most is below its chord, being convex, and the least above: the bound holds. */
void sl_net_line_at(const struct sl_net_line *line, int64_t x, int64_t *theta, int64_t *bound)
{
	double part = line->to > line->from
			      ? (double)(x - line->from) / (double)(line->to - line->from) *
					(SL_NET_KNOTS - 1)
			      : 0;
	int k = part < 0 ? 0 : part >= SL_NET_KNOTS - 1 ? SL_NET_KNOTS - 2 : (int)part;
	double w = part - k, low, high;

	low = line->low[k] + w * (line->low[k + 1] - line->low[k]);
	high = line->high[k] + w * (line->high[k + 1] - line->high[k]);
	*theta = line->base + (int64_t)llround((low + high) / 2);
	*bound = (int64_t)ceil((high - low) / 2) + 1;
}

int sl_net_clock_append(struct sl_net_clock *c, const struct sl_net_line *line)
{
	if (c->n == c->room) {
		size_t more = c->room ? 2 * c->room : 16;
		struct sl_net_line *lines = realloc(c->lines, more * sizeof(*lines));

		if (!lines)
			return -ENOMEM;
		c->lines = lines;
		c->room = more;
	}
	c->lines[c->n++] = *line;
	return 0;
}

int sl_net_clock_fit(struct sl_net_clock *c, struct sl_net_point *points, size_t n, int64_t from,
		     int64_t to)
{
	int64_t middle = from + (to - from) / 2;
	struct sl_net_line line;
	size_t first = 0;
	int result;

	if (!n)
		return 0;
	result = sl_net_line_fit(points, n, from, to, &line);
	if (result == SL_NET_OK)
		return sl_net_clock_append(c, &line);
	if (result == SL_NET_ONE_WAY) {
		c->one_way++;
		return 0;
	}
	if (result < 0)
		return result;
	if (to - from < 2 * SHORTEST_NS) {
		c->stepped++;
		return 0;
	}
	while (first < n && points[first].at < middle) /* sorted by the fit */
		first++;
	result = sl_net_clock_fit(c, points, first, from, middle - 1);
	return result ? result : sl_net_clock_fit(c, points + first, n - first, middle, to);
}

const struct sl_net_line *sl_net_clock_find(const struct sl_net_clock *c, int64_t x)
{
	size_t a = 0, b = c->n;

	while (a < b) {
		size_t mid = (a + b) / 2;

		if (c->lines[mid].to < x)
			a = mid + 1;
		else
			b = mid;
	}
	return a < c->n && c->lines[a].from <= x ? &c->lines[a] : NULL;
}

void sl_net_clock_free(struct sl_net_clock *c)
{
	free(c->lines);
	memset(c, 0, sizeof(*c));
}
