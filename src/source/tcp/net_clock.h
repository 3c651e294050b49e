/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_clock.h - what the clock of host B shows more than that of host A, from the packets between them.
 *
 * Let theta(x) = B - A at A's time x. A packet from A to B that A sent at x and that came at B's time t
 * says theta(x) <= t - x, since it took time; one from B to A, that B sent at t and that came at
 * A's time x, says theta(x) >= t - x. If the two clocks run at a constant rate against each other, theta is a
 * line, below all points of the first kind and above all of the second: a linear program in two
 * unknowns, of which only the vertices of the lower convex hull of the first kind and of the upper hull of
 * the second matter (Moon, Skelly, Towsley, "Estimation and Removal of Clock Skew from Network Delay
 * Measurements", INFOCOM 1999; Zhang, Liu, Xia, "Clock Synchronization Algorithms for Network
 * Measurements", INFOCOM 2002). Each of these lines explains all that was seen, so none can be preferred: the
 * estimate at x is the middle of what they say, and the bound is the half of its width. It is never
 * less than half of what the quickest packets there and back took together; that the two directions
 * are equally quick is not assumed.
 *
 * Assumed: the rate is constant within a window, and no further from 1 than SL_NET_SKEW_MAX. Where no
 * line explains a window, a clock was set, or its machine slept: the window is cut in halves, and what
 * can't be explained is left without an offset.
 *
 * Pure but for memory.
 */
#ifndef SL_SOURCE_TCP_NET_CLOCK_H
#define SL_SOURCE_TCP_NET_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A kernel's clock is steered by 500 ppm at most (MAXFREQ), a bad crystal is off by 100; two of them. */
#define SL_NET_SKEW_MAX 1200e-6

struct sl_net_point {
	int64_t at;	/* A's clock, ns: when A sent, or received */
	int64_t ahead;	/* B's stamp - A's */
	bool backward;	/* from B to A */
};

#define SL_NET_KNOTS 9

/* One stretch of time that one line explains. */
struct sl_net_line {
	int64_t from, to; /* A's clock */
	double low[SL_NET_KNOTS], high[SL_NET_KNOTS]; /* of theta - base, at equal distances */
	int64_t base;
	double skew_low, skew_high; /* rate of B against A, less 1 */
	size_t points[2];	    /* forward, backward */
};

enum sl_net_trouble {
	SL_NET_OK = 0,
	SL_NET_ONE_WAY,	 /* no packets in one of the directions, or none at all */
	SL_NET_STEPPED,	 /* no line explains it: a clock was set, or a machine slept */
};

/*
 * Fits one line to what lies in [from, to]. points[] is sorted by .at on the way.
 * SL_NET_OK, a trouble, or -ENOMEM.
 */
int sl_net_line_fit(struct sl_net_point *points, size_t n, int64_t from, int64_t to,
		    struct sl_net_line *line);

/* theta at A's time x within the line's stretch, and how far from it the truth may lie, ns. */
void sl_net_line_at(const struct sl_net_line *line, int64_t x, int64_t *theta, int64_t *bound);

struct sl_net_clock {
	struct sl_net_line *lines; /* in order of time, apart from each other */
	size_t n, room;
	uint64_t stepped;  /* stretches that nothing explained */
	uint64_t one_way;  /* windows with packets in one direction only */
};

/*
 * Fits [from, to] and appends the lines; cut in halves where it must be, down to 10 ms. 0 or -ENOMEM.
 */
int sl_net_clock_fit(struct sl_net_clock *clock, struct sl_net_point *points, size_t n,
		     int64_t from, int64_t to);
int sl_net_clock_append(struct sl_net_clock *clock, const struct sl_net_line *line);
/* The line for A's time x; NULL: unknown then. */
const struct sl_net_line *sl_net_clock_find(const struct sl_net_clock *clock, int64_t x);
void sl_net_clock_free(struct sl_net_clock *clock);

#endif
