/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_match.h - matches segments that reached host B with those that left host A, and vice versa,
 * by their ranges of bytes.
 *
 * A segment is timed by its first byte: its origin is the one segment sent with that byte. So it
 * may be cut by the sender's device (TSO: each part is timed against the segment handed to the
 * driver) or merged by the receiver (GRO: the first is timed, the others count as merged).
 * Timestamps (RFC 7323) and the IP id distinguish transmissions of the same bytes; if several
 * remain, or a further one cannot be excluded, the arrival counts as ambiguous and is not guessed.
 * Pure acknowledgements are matched by their whole header.
 *
 * An arrival is matched only when everything that could have been sent before it is known: see
 * tcp_net_match_hold(). Each side has its own clock. Pure but for memory. One thread.
 */
#ifndef SL_SOURCE_TCP_NET_MATCH_H
#define SL_SOURCE_TCP_NET_MATCH_H

#include "region/nic.h"

enum tcp_net_cause {
	TCP_NET_LOST = 0,  /* segment sent, none of it arrived */
	TCP_NET_UNKNOWN,   /* segment sent while the receiver's records have a gap or are missing */
	TCP_NET_NOT_SENT,  /* segment arrived, its sending not recorded */
	TCP_NET_AMBIGUOUS, /* segment arrived, several sent could be it */
	TCP_NET_DUPLICATE, /* segment arrived again, sent once */
	TCP_NET_MERGED,	   /* segment merged behind another on arrival: not timed */
	TCP_NET_ACK_UNMATCHED, /* acknowledgement arrived, not identified among those sent */
	TCP_NET_FULL,	       /* no room for a segment */
	TCP_NET_MISSED,	       /* records overwritten before they were read */
	TCP_NET_NO_CLOCK,      /* segment matched, clock offset unknown at that time */
	TCP_NET_CAUSES
};
const char *tcp_net_cause_name(int cause); /* "lost" */
const char *tcp_net_cause_text(int cause); /* "sent, never arrived" */

/* One direction of a connection. */
struct tcp_net_flow {
	uint8_t source[16], destination[16];
	uint16_t source_port, destination_port;
	uint8_t v6, sender; /* sender: side 0 A, 1 B */
	void *user;	    /* the caller's; initially NULL */
};

struct tcp_net_sample {
	struct tcp_net_flow *flow;
	uint64_t out_ns, in_ns; /* the sender's clock, the receiver's */
	uint64_t seq;		/* of the first byte */
	uint32_t bytes;		/* 0: a pure acknowledgement, a SYN or a FIN */
	bool ack;		/* a pure acknowledgement */
	bool reordered;		/* a later one arrived earlier */
};

struct tcp_net_match;

struct tcp_net_match_opts {
	uint32_t flows;	  /* directions of connections; 0: 65536 */
	uint32_t records; /* remembered, about 64 bytes each; 0: 2^20 */
	void (*sample)(void *context, const struct tcp_net_sample *sample);
	void *context;
};
/* NULL with errno. */
struct tcp_net_match *tcp_net_match_open(const struct tcp_net_match_opts *options);
void tcp_net_match_close(struct tcp_net_match *m); /* NULL is fine */

/* Adds a record of side 0 (A) or 1 (B), in the order of its side's numbers. */
void tcp_net_match_add(struct tcp_net_match *m, int side, const struct region_nic_record *r);
/* Reports a gap of n records after the side's last one, up to now. now_ns: its clock. */
void tcp_net_match_gap(struct tcp_net_match *m, int side, uint64_t n, uint64_t now_ns);
/* The time that a side recorded, by its own clock. */
void tcp_net_match_range(struct tcp_net_match *m, int side, uint64_t from, uint64_t to);

/*
 * Lets arrivals at side up to now be matched once the other side's records have been read again:
 * the caller reads A, holds A, reads B, runs, holds B, reads A, runs, ... With all records added,
 * hold both and run.
 */
void tcp_net_match_hold(struct tcp_net_match *m, int side);
void tcp_net_match_run(struct tcp_net_match *m);

/*
 * Forgets what side sent before before_ns, and counts what never arrived. offset: receiver's clock
 * minus sender's, if known: tells what was sent while the receiver did not record.
 */
void tcp_net_match_expire(struct tcp_net_match *m, int side, uint64_t before_ns, bool offset_known,
			  int64_t offset);

/* Since the start, without TCP_NET_NO_CLOCK, which the caller counts. */
const uint64_t *tcp_net_match_causes(const struct tcp_net_match *m);
/* Segments sent by each side, without pure acknowledgements. */
void tcp_net_match_sent(const struct tcp_net_match *m, uint64_t sent[2]);

#endif
