/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why.h - determines the limit of a TCP connection from two snapshots of its statistics. Pure
 * functions: no I/O, no clock.
 *
 * The classes refine those of SNAP (Yu et al., "Profiling network performance for multi-tier data
 * center applications", NSDI 2011, section 3): the sender's application, its send buffer, the
 * network and the receiver. The kernel's chronograph measures them (tcp_output.c, tcp_chrono_set();
 * TCP_INFO's tcpi_busy_time, tcpi_rwnd_limited, tcpi_sndbuf_limited). Busy time is the time with
 * unacknowledged data. why.c splits it further, so that the shares add up to 1, and decides by an
 * ordered table of conditions, which docs/tcp.md repeats in words.
 */
#ifndef SL_REGION_WHY_H
#define SL_REGION_WHY_H

#include <stdbool.h>
#include <stdint.h>

#include "region/flows.h"

enum region_why_limit {
	REGION_WHY_IDLE = 0,	/* no data flows in either direction */
	REGION_WHY_HALF_CLOSED, /* idle, and only one end has closed the connection */
	REGION_WHY_APPLICATION, /* the sender here has nothing to send most of the time */
	REGION_WHY_PEER,	/* the peer sends and this end keeps up: the cause is the peer */
	REGION_WHY_ROUND_TRIP,	/* requests and answers wait for the path */
	REGION_WHY_PEER_THINKS, /* this end waits for the peer's application */
	REGION_WHY_THINKS,	/* the peer waits for the application here */
	REGION_WHY_NAGLE,	/* small writes wait for the acknowledgement of earlier ones */
	/* messages arrive in pieces, because of the peer's Nagle's algorithm */
	REGION_WHY_PIECES,
	REGION_WHY_CORK,	      /* TCP_CORK or MSG_MORE holds data back */
	REGION_WHY_PEER_WINDOW,	      /* the peer's receive window is smaller than the path needs */
	REGION_WHY_PEER_NOT_READING,  /* the peer's window is closed: it reads nothing */
	REGION_WHY_PEER_READS_SLOWLY, /* the peer's window is mostly full of unread data */
	REGION_WHY_NOT_READING,	      /* the receiving application here does not read */
	/* the application here leaves most of the receive buffer unread */
	REGION_WHY_READS_SLOWLY,
	REGION_WHY_RECEIVE_WINDOW,  /* the receive window here is smaller than the path needs */
	REGION_WHY_SEND_BUFFER,	    /* the send buffer is smaller than the path needs */
	REGION_WHY_PACING,	    /* SO_MAX_PACING_RATE */
	REGION_WHY_UNANSWERED,	    /* nothing is acknowledged */
	REGION_WHY_NOTHING_ARRIVES, /* UNANSWERED at the other end; only if both ends are known */
	REGION_WHY_LOSS_TIMEOUT,    /* retransmission timeouts */
	REGION_WHY_LOSS_FAST,	    /* congestion window: losses, most repaired without timeouts */
	REGION_WHY_REORDERING,	    /* congestion window: segments overtook each other */
	REGION_WHY_ECN,		    /* congestion window: the network marks congestion */
	REGION_WHY_BUFFERBLOAT,	    /* congestion window: a queue on the path raised the RTT */
	REGION_WHY_SLOW_START,	    /* congestion window: still in slow start */
	REGION_WHY_PATH,	    /* congestion window: the path is used fully, without a fault */
	/* listener that refuses connections: its application is too slow */
	REGION_WHY_ACCEPT_QUEUE,
	REGION_WHY_ACCEPTING, /* a listener that keeps up with connections */
	REGION_WHY_REFUSED,   /* the peer refused the connection */
	REGION_WHY_NOT_MADE,  /* the connection was not established */
	REGION_WHY_CLOSED,    /* closed by FIN, without data in the interval */
	REGION_WHY_RESET,     /* the connection was reset */
	REGION_WHY_TIMED_OUT, /* closed because the peer did not answer */
	REGION_WHY_LIMITS
};
const char *region_why_name(enum region_why_limit limit);  /* "peer-window" */
const char *region_why_label(enum region_why_limit limit); /* "peer's window", for people */
/* returns true if there is nothing to fix at this end */
bool region_why_fine(enum region_why_limit limit);

#define REGION_WHY_NUMBERS  24
#define REGION_WHY_SENTENCE 640

struct region_why_number {
	const char *name; /* "peer-window" */
	const char *unit; /* "bytes", "us", "percent", "bytes/s", "connections"; "" for a count */
	double value;
};

struct region_why {
	enum region_why_limit limit;
	double share;	    /* share of the interval, 0 to 1; listeners: share of connections */
	double bytes_per_s; /* bytes acknowledged or received per second, in both directions */
	uint64_t interval_ns;
	char sentence[REGION_WHY_SENTENCE]; /* ASCII, one line, with advice */
	uint32_t n;
	struct region_why_number number[REGION_WHY_NUMBERS]; /* numbers that explain the limit */
};

/*
 * before: an earlier snapshot of the flow, or NULL for its whole life. now: the later snapshot. A
 * counter that decreased counts as unchanged.
 */
void region_why(const struct region_flow *before, const struct region_flow *now,
		struct region_why *out);
/* Like region_why() for both ends of a connection; makes their answers agree. */
void region_why_both(const struct region_flow *const before[2],
		     const struct region_flow *const now[2], struct region_why out[2]);

#endif
