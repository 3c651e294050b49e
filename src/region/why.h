/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why.h - what holds a TCP connection back, out of two snapshots of its statistics. Pure functions:
 * no I/O, no time but that of the snapshots.
 *
 * The classes are those of SNAP (Yu et al., "Profiling network performance for multi-tier data
 * center applications", NSDI 2011, section 3): the sender's application, its send buffer, the
 * network, the receiver. How long each held the flow back is the kernel's chronograph
 * (tcp_output.c, tcp_chrono_set(); TCP_INFO's tcpi_busy_time, tcpi_rwnd_limited,
 * tcpi_sndbuf_limited): busy is the time with unacknowledged data, and what of it neither the
 * peer's window nor the send buffer take is the congestion window's, if what is in flight fills
 * that. The rest of the interval there was nothing to send. The largest share is the answer, and
 * counters of the same interval tell its cause.
 */
#ifndef SL_REGION_WHY_H
#define SL_REGION_WHY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "region/flows.h"

enum region_why_limit {
	REGION_WHY_IDLE = 0,	/* nothing went either way */
	REGION_WHY_APPLICATION, /* the sender here has nothing to send for most of the time */
	REGION_WHY_PEER,	/* the peer sends, and this end keeps up: the cause is over there */
	REGION_WHY_PEER_WINDOW, /* the peer's receive window is smaller than the path could hold */
	REGION_WHY_PEER_NOT_READING, /* the peer's receive window was closed: its application does
					not read */
	REGION_WHY_NOT_READING,	     /* the receiver here does not read */
	REGION_WHY_SEND_BUFFER,	     /* the send buffer is smaller than the path could hold */
	REGION_WHY_LOSS_TIMEOUT,     /* congestion window: retransmission timeouts */
	REGION_WHY_LOSS_FAST,	     /* congestion window: losses, repaired fast */
	REGION_WHY_ECN,		     /* congestion window: the network marks congestion */
	REGION_WHY_BUFFERBLOAT,	     /* congestion window: a queue on the path, the RTT has grown */
	REGION_WHY_SLOW_START,	     /* congestion window: still growing for the first time */
	REGION_WHY_PATH,	     /* congestion window: the path is full, and nothing is wrong */
	REGION_WHY_ACCEPT_QUEUE, /* a listener: connections are refused, its application accepts too
				    slowly */
	REGION_WHY_ACCEPTING,	 /* a listener that keeps up */
	REGION_WHY_RESET,	 /* the connection was reset */
	REGION_WHY_LIMITS
};
const char *region_why_name(enum region_why_limit limit); /* "peer-window" */

#define REGION_WHY_NUMBERS 20

struct region_why_number {
	const char *name; /* "peer-window" */
	const char *unit; /* "bytes", "us", "percent", "bytes/s", "connections", ""; what the name
			     counts has none */
	double value;
};

struct region_why {
	enum region_why_limit limit;
	double share;	    /* of the interval, 0 to 1; of connections, for a listener */
	double bytes_per_s; /* both ways, acknowledged or received */
	uint64_t interval_ns;
	char sentence[256]; /* ASCII, one line */
	uint32_t n;
	struct region_why_number number[REGION_WHY_NUMBERS]; /* those that say so */
};

/*
 * before: an earlier snapshot of the same flow; NULL: its whole life. now: the later one. The
 * interval is that between the snapshots. A counter that went back, as none does, counts as
 * unchanged.
 */
void region_why(const struct region_flow *before, const struct region_flow *now,
		struct region_why *out);

#endif
