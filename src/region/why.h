/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why.h - what limits a TCP connection, from two snapshots of its statistics. Pure functions: no
 * I/O, no clock.
 *
 * The classes are those of SNAP (Yu et al., "Profiling network performance for multi-tier data
 * center applications", NSDI 2011, section 3): the sender's application, its send buffer, the
 * network, the receiver. The kernel's chronograph measures them (tcp_output.c, tcp_chrono_set();
 * TCP_INFO's tcpi_busy_time, tcpi_rwnd_limited, tcpi_sndbuf_limited): busy is the time with
 * unacknowledged data, and what neither the peer's window nor the send buffer takes of it is the
 * congestion window's, if the data in flight fills that; else it is time spent waiting for
 * acknowledgements with nothing more to send, which counts as the application's, like the rest of
 * the interval. The shares add up to 1. The largest wins, and counters of the same interval tell
 * its cause. If the application's wins at the end that receives more than it sends, the cause is
 * the peer's, or this end's window.
 */
#ifndef SL_REGION_WHY_H
#define SL_REGION_WHY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "region/flows.h"

enum region_why_limit {
	REGION_WHY_IDLE = 0,	     /* no data either way */
	REGION_WHY_APPLICATION,	     /* the sender here mostly has nothing to send */
	REGION_WHY_PEER,	     /* the peer sends and this end keeps up: the cause is there */
	REGION_WHY_PEER_WINDOW,	     /* the peer's receive window is smaller than the path needs */
	REGION_WHY_PEER_NOT_READING, /* it closed: the peer's application does not read */
	REGION_WHY_NOT_READING,	     /* the receiver here does not read */
	REGION_WHY_RECEIVE_WINDOW,   /* the receive window here is smaller than the path needs */
	REGION_WHY_SEND_BUFFER,	     /* the send buffer is smaller than the path needs */
	REGION_WHY_LOSS_TIMEOUT,     /* congestion window: retransmission timeouts */
	REGION_WHY_LOSS_FAST,	     /* congestion window: losses, repaired fast */
	REGION_WHY_ECN,		     /* congestion window: the network marks congestion */
	REGION_WHY_BUFFERBLOAT,	     /* congestion window: a queue on the path raised the RTT */
	REGION_WHY_SLOW_START,	     /* congestion window: still in slow start */
	REGION_WHY_PATH,	     /* congestion window: the path is full, without a fault */
	REGION_WHY_ACCEPT_QUEUE,     /* listener that refuses: its application is too slow */
	REGION_WHY_ACCEPTING,	     /* listener that keeps up */
	REGION_WHY_RESET,	     /* the connection was reset */
	REGION_WHY_LIMITS
};
const char *region_why_name(enum region_why_limit limit); /* "peer-window" */
bool region_why_fine(enum region_why_limit limit);	  /* nothing to mend at this end */

#define REGION_WHY_NUMBERS 20

struct region_why_number {
	const char *name; /* "peer-window" */
	const char *unit; /* "bytes", "us", "percent", "bytes/s", "connections"; "": a count */
	double value;
};

struct region_why {
	enum region_why_limit limit;
	double share;	    /* of the interval, 0 to 1; listener: of connections */
	double bytes_per_s; /* both directions, acknowledged or received */
	uint64_t interval_ns;
	char sentence[256]; /* ASCII, one line */
	uint32_t n;
	struct region_why_number number[REGION_WHY_NUMBERS]; /* the evidence */
};

/*
 * before: an earlier snapshot of the flow, or NULL for its whole life. now: the later one. A
 * counter that decreased counts as unchanged.
 */
void region_why(const struct region_flow *before, const struct region_flow *now,
		struct region_why *out);

#endif
