/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_clock.h - the offset of host B's clock to host A's, from the packets between them.
 *
 * Let theta(x) = B - A at A's time x. A packet that A sent at x and B received at its time t
 * implies theta(x) <= t - x; one that B sent at t and A received at x implies theta(x) >= t - x. At
 * other times the bounds loosen with the drift: theta changes by at most S = TCP_NET_SKEW_MAX per
 * second. Over points (x_i, y_i),
 *
 *   high(x) = min over forward points of  y_i + S |x - x_i|
 *   low(x)  = max over backward points of y_i - S |x - x_i|
 *
 * and theta lies between the two. No tighter bound exists without further assumptions: every course
 * of theta between them that respects S explains all observations. The estimate is the middle, the
 * bound half the width, which is never less than half of the fastest round trip. Symmetric delays
 * are not assumed. Nor is a constant rate, as for lines along the convex hulls of the points (Moon,
 * Skelly, Towsley, INFOCOM 1999; Zhang, Liu, Xia, INFOCOM 2002): a change of rate within the
 * fastest round trip's time is invisible, and would be in no bound.
 *
 * Only apexes matter: points that no other of their direction implies. The apexes next to x on both
 * sides give high(x) and low(x).
 *
 * Where a forward and a backward point contradict each other, a clock was set, its host slept, or
 * it ran faster than S: there is no offset between them, and observations of one side are not used
 * on the other.
 *
 * Pure but for memory. One thread.
 */
#ifndef SL_SOURCE_TCP_NET_CLOCK_H
#define SL_SOURCE_TCP_NET_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A kernel steers by at most 500 ppm (MAXFREQ), a bad crystal is off by 100; two clocks. */
#define TCP_NET_SKEW_MAX 1200e-6

/* Times and differences are below 2^62 ns in magnitude. */
struct tcp_net_point {
	int64_t at;    /* A's clock, ns: sent or received */
	int64_t ahead; /* B's stamp - A's */
	bool backward; /* from B to A */
};
/* For qsort() of points, or of structs that begin with one. */
int tcp_net_by_time(const void *a, const void *b);

struct tcp_net_apex {
	int64_t at, ahead;
};

/* A stretch of time without contradiction. */
struct tcp_net_stretch {
	int64_t from, to;	    /* A's clock */
	double skew_low, skew_high; /* rate of B relative to A, minus 1: mean over the points */
	size_t n[2];		    /* apexes: forward, backward; at least one of each */
	struct tcp_net_apex apex[]; /* forward ones first; sorted by .at */
};

struct tcp_net_clock {
	struct tcp_net_stretch **v; /* sorted by time, disjoint */
	size_t n, room;
	size_t apexes, most; /* most: limit at which old stretches are dropped; 0: none */
	uint64_t stepped;    /* contradictions */
	int64_t latest_step; /* the latest one */
	uint64_t one_way;    /* stretches with packets in only one direction */
};

/*
 * Appends the stretches of [from, to], which follows all earlier calls'. points[] may extend to
 * both sides; sorts them by .at. 0 or -ENOMEM.
 */
int tcp_net_clock_add(struct tcp_net_clock *clock, struct tcp_net_point *points, size_t n,
		      int64_t from, int64_t to);

/* theta at A's time x, and the bound of its error, ns. False: unknown. */
bool tcp_net_clock_at(const struct tcp_net_clock *clock, int64_t x, int64_t *theta, int64_t *bound);
void tcp_net_clock_free(struct tcp_net_clock *clock);

#endif
