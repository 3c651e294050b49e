/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_clock.h - estimates the offset of host B's clock from host A's, from packets between them.
 *
 * Let theta(x) = B - A at A's time x. A packet sent by A at x and received by B at its time t
 * implies theta(x) <= t - x; a packet sent by B at t and received by A at x implies theta(x) >= t -
 * x. At other times, the bounds loosen with the drift: theta changes by at most S =
 * TCP_NET_SKEW_MAX per second. Over points (x_i, y_i),
 *
 * - high(x) = min over forward points of (y_i + S |x - x_i|)
 * - low(x) = max over backward points of (y_i - S |x - x_i|)
 *
 * and theta lies between the two. Without further assumptions, no tighter bound exists: every
 * function between them whose rate stays within S explains all observations. The estimate is the
 * middle of the two, and its bound is half their distance, which is at least half of the fastest
 * round trip. The method does not assume symmetric delays. Nor does it assume a constant rate, as
 * methods based on convex hulls of the points do (Moon, Skelly, Towsley, INFOCOM 1999; Zhang, Liu,
 * Xia, INFOCOM 2002): a change of rate that is hidden within the time of the fastest round trip
 * would violate their bounds.
 *
 * An apex is a point whose bound is not implied by another point of the same direction. Only apexes
 * matter: the nearest ones on both sides of x determine high(x) and low(x).
 *
 * If a forward and a backward point contradict each other, a clock was set, its host slept, or it
 * drifted faster than S. No offset is then reported between the two points, and observations before
 * the contradiction are not used after it, or vice versa.
 *
 * Performs no I/O. Not thread-safe.
 */
#ifndef SL_SOURCE_TCP_NET_CLOCK_H
#define SL_SOURCE_TCP_NET_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The kernel adjusts a clock by at most 500 ppm (MAXFREQ) and a bad crystal is off by 100 ppm; the
 * sum is doubled for two clocks.
 */
#define TCP_NET_SKEW_MAX 1200e-6

/* Times and differences must be below 2^62 ns in magnitude. */
struct tcp_net_point {
	int64_t at;    /* A's clock in ns, when A sent or received the packet */
	int64_t ahead; /* B's timestamp minus A's, in ns */
	bool backward; /* the packet went from B to A */
};
/* Comparison function for qsort() of points, or of structures that begin with a point. */
int tcp_net_by_time(const void *a, const void *b);

struct tcp_net_apex {
	int64_t at, ahead;
};

/* A period without contradictions, with the apexes that bound theta in it. */
struct tcp_net_stretch {
	int64_t from, to;	    /* by A's clock */
	double skew_low, skew_high; /* bounds of B's mean clock rate relative to A's, minus 1 */
	size_t n[2]; /* number of apexes per direction, forward and backward; at least 1 each */
	/* the forward apexes, then the backward ones, each sorted by .at */
	struct tcp_net_apex apex[];
};

struct tcp_net_clock {
	struct tcp_net_stretch **v; /* stretches sorted by time, without overlap */
	size_t n, room;
	/*
	 * most: if there are more apexes than this, the oldest stretches are dropped; 0 means no
	 * limit
	 */
	size_t apexes, most;
	uint64_t stepped;    /* number of contradictions so far */
	int64_t latest_step; /* time of the latest contradiction */
	uint64_t one_way;    /* number of stretches with packets in only one direction */
};

/*
 * Appends the stretches of [from, to], which must be later than the intervals of all earlier calls.
 * points[] may extend beyond the interval on both sides; the function sorts them by .at. Returns 0
 * or -ENOMEM.
 */
int tcp_net_clock_add(struct tcp_net_clock *clock, struct tcp_net_point *points, size_t n,
		      int64_t from, int64_t to);

/* Computes theta at A's time x and its error bound, in ns. Returns false if theta is unknown. */
bool tcp_net_clock_at(const struct tcp_net_clock *clock, int64_t x, int64_t *theta, int64_t *bound);
void tcp_net_clock_free(struct tcp_net_clock *clock);

#endif
