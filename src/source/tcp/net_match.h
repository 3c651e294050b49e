/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_match.h - which segment that reached host B is which that left host A, and the other way
 * round, by the ranges of bytes that they carry.
 *
 * A segment that came is timed by its first byte: its sender is the one segment that carried that
 * byte. So it does not matter whether the sender's device cut a segment into several (TSO: each is
 * timed against the one that was handed to the driver), or the receiver merged some (GRO: the first
 * is timed, the others are counted as merged). Bytes that were sent more than once are told apart
 * by the timestamps of RFC 7323 and by the IP id; if more than one segment is left, or none can be
 * excluded for certain, the arrival is ambiguous: counted, and never guessed. Pure acknowledgements
 * are matched by all that is in their header.
 *
 * What came is matched only when everything is known that could have been sent before: see
 * tcp_net_match_hold(). Knows no clock but the one of each side; pure but for memory. One thread.
 */
#ifndef SL_SOURCE_TCP_NET_MATCH_H
#define SL_SOURCE_TCP_NET_MATCH_H

#include "region/nic.h"

enum tcp_net_cause {
	TCP_NET_LOST = 0,  /* segment sent, none of it came */
	TCP_NET_UNKNOWN,   /* segment sent, and at that time the receiver's records have a gap, or
			      none */
	TCP_NET_NOT_SENT,  /* segment came, and its sending was not seen */
	TCP_NET_AMBIGUOUS, /* segment came, and more than one that was sent may be it */
	TCP_NET_DUPLICATE, /* segment came again, sent once */
	TCP_NET_MERGED,	   /* segment sent, and came merged behind another: not timed by itself */
	TCP_NET_ACK_UNMATCHED, /* acknowledgement came, its sending not seen, or not to be told */
	TCP_NET_FULL,	       /* no room to remember a segment */
	TCP_NET_MISSED,	       /* records overwritten before they could be read */
	TCP_NET_NO_CLOCK, /* segment matched, and the clocks' offset at that time is not known */
	TCP_NET_CAUSES
};
const char *tcp_net_cause_name(int cause); /* "lost" */
const char *tcp_net_cause_text(int cause); /* "sent, and never came" */

/* Of one direction of a connection. */
struct tcp_net_flow {
	uint8_t source[16], destination[16];
	uint16_t source_port, destination_port;
	uint8_t v6, sender; /* side that sends: 0 A, 1 B */
	uint32_t index;	    /* of the flow: from 0 on, never given twice */
	uint64_t sent, matched, reordered;
	void *user; /* the caller's: NULL in the beginning */
};

struct tcp_net_sample {
	struct tcp_net_flow *flow;
	uint64_t out_ns, in_ns; /* the sender's clock, the receiver's */
	uint64_t seq;		/* of the first byte */
	uint32_t bytes;		/* 0: a pure acknowledgement, a SYN or a FIN */
	bool ack;		/* a pure acknowledgement */
	bool reordered;		/* one that was sent later came earlier */
};

struct tcp_net_match;

struct tcp_net_match_opts {
	uint32_t flows;	  /* directions of connections at a time; 0: 65536 */
	uint32_t records; /* remembered at a time; 0: 2^20 of about 64 bytes */
	void (*sample)(void *context, const struct tcp_net_sample *sample);
	void (*gone)(void *context, struct tcp_net_flow *flow); /* NULL is fine */
	void *context;
};
/* NULL with errno. */
struct tcp_net_match *tcp_net_match_open(const struct tcp_net_match_opts *options);
void tcp_net_match_close(struct tcp_net_match *m); /* NULL is fine */

/* A record of side 0 (A) or 1 (B). Records of one side come in the order of their numbers. */
void tcp_net_match_add(struct tcp_net_match *m, int side, const struct region_nic_record *r);
/* Side's records from *after* its last one up to now have a gap of n records. now_ns: its clock. */
void tcp_net_match_gap(struct tcp_net_match *m, int side, uint64_t n, uint64_t now_ns);
/* Side was recording from..to, of its own clock. */
void tcp_net_match_range(struct tcp_net_match *m, int side, uint64_t from, uint64_t to);

/*
 * What came to side up to now may be matched as soon as the other side's records have been read
 * once more: the caller reads A, holds A, reads B, runs, holds B, reads A, runs, ... With all
 * records added, hold both and run.
 */
void tcp_net_match_hold(struct tcp_net_match *m, int side);
void tcp_net_match_run(struct tcp_net_match *m);

/*
 * Forgets what was sent by side before ns, and counts what never came. offset: receiver's clock
 * less the sender's, if known: tells what was sent while the receiver did not record.
 */
void tcp_net_match_expire(struct tcp_net_match *m, int side, uint64_t before_ns, bool offset_known,
			  int64_t offset);

/* Since the start. All causes but TCP_NET_NO_CLOCK, which the caller counts. */
const uint64_t *tcp_net_match_causes(const struct tcp_net_match *m);
/* Segments sent by each side, but pure acknowledgements. */
void tcp_net_match_sent(const struct tcp_net_match *m, uint64_t sent[2]);
uint32_t tcp_net_match_flows(const struct tcp_net_match *m);
struct tcp_net_flow *tcp_net_match_flow(const struct tcp_net_match *m, uint32_t i);

#endif
