/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_clock.h - what the clock of host B shows more than that of host A, from the packets between
 * them.
 *
 * Let theta(x) = B - A at A's time x. A packet from A to B that A sent at x and that came at B's
 * time t says theta(x) <= t - x, since it took time; one from B to A, that B sent at t and that
 * came at A's time x, says theta(x) >= t - x. Elsewhere that holds by as much less as the clocks
 * may part in between: theta changes by no more than S = TCP_NET_SKEW_MAX a second. So, over points
 * (x_i, y_i),
 *
 *   high(x) = min over forward points of  y_i + S |x - x_i|
 *   low(x)  = max over backward points of y_i - S |x - x_i|
 *
 * and theta lies between the two, whatever the rates do within S. Nothing more can be known without
 * assuming more: each course of theta between them that keeps to S explains all that was seen. The
 * estimate is the middle, and the bound is the half of the width. It is never less than half of
 * what the quickest packets there and back took together; that the two directions are equally quick
 * is not assumed. Nor is a constant rate, by which lines below and above the convex hulls of the
 * points say less (Moon, Skelly, Towsley, INFOCOM 1999; Zhang, Liu, Xia, INFOCOM 2002): a change of
 * rate within what the quickest round trip takes can't be seen, and would be in no bound.
 *
 * Of the points only the apexes matter: those that no other of their direction makes superfluous.
 * At any x the ones next to it, on both sides, are high(x) or low(x).
 *
 * Where a forward and a backward point contradict each other, a clock was set, its machine slept,
 * or it ran faster than S: between the two there is no offset, and what is known on one side is not
 * used on the other.
 *
 * Pure but for memory. One thread.
 */
#ifndef SL_SOURCE_TCP_NET_CLOCK_H
#define SL_SOURCE_TCP_NET_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A kernel's clock is steered by 500 ppm at most (MAXFREQ), a bad crystal is off by 100; two of
 * them. */
#define TCP_NET_SKEW_MAX 1200e-6

/* Times and differences: less than 2^62 ns from 0. */
struct tcp_net_point {
	int64_t at;    /* A's clock, ns: when A sent, or received */
	int64_t ahead; /* B's stamp - A's */
	bool backward; /* from B to A */
};

struct tcp_net_apex {
	int64_t at, ahead;
};

/* One stretch of time in which nothing contradicts. */
struct tcp_net_stretch {
	int64_t from, to;	    /* A's clock */
	double skew_low, skew_high; /* rate of B against A, less 1: its mean over the points */
	size_t n[2];		    /* apexes: forward, backward; one at least of each */
	struct tcp_net_apex apex[]; /* the forward ones first; sorted by .at */
};

struct tcp_net_clock {
	struct tcp_net_stretch **v; /* in order of time, apart from each other */
	size_t n, room;
	size_t apexes, most; /* most: then the older half is forgotten, but what points reach into;
				0: no limit */
	uint64_t stepped;    /* places with contradictions */
	int64_t latest_step; /* the last of them */
	uint64_t one_way;    /* stretches with packets in one direction only */
};

/*
 * Appends what is known of [from, to], which lies behind all that was appended before. points[] may
 * also be of some time before and behind; they are sorted by .at on the way. 0 or -ENOMEM.
 */
int tcp_net_clock_add(struct tcp_net_clock *clock, struct tcp_net_point *points, size_t n,
		      int64_t from, int64_t to);

/* theta at A's time x, and how far from it the truth may lie, ns. false: not known then. */
bool tcp_net_clock_at(const struct tcp_net_clock *clock, int64_t x, int64_t *theta, int64_t *bound);
void tcp_net_clock_free(struct tcp_net_clock *clock);

#endif
