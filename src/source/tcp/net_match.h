/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_match.h - matches segments that reached host B with segments that left host A, and vice
 * versa, by their byte ranges.
 *
 * A segment is timed by its first byte: its origin is the only sent segment that contains this
 * byte. Segments may therefore be split by the sender's device (TSO: each part is timed against the
 * segment handed to the driver) or merged by the receiver (GRO: the first segment is timed, and the
 * others are counted as merged). Timestamps (RFC 7323) and IP ids distinguish transmissions of the
 * same bytes. If several candidates remain, or another one cannot be excluded, the arrival is
 * counted as ambiguous. Pure acknowledgements are matched by their whole header.
 *
 * An arrival is matched only when everything that could have been sent before it is known: see
 * tcp_net_match_hold(). Each side has its own clock. Performs no I/O. Not thread-safe.
 */
#ifndef SL_SOURCE_TCP_NET_MATCH_H
#define SL_SOURCE_TCP_NET_MATCH_H

#include "region/nic.h"

enum tcp_net_cause {
	TCP_NET_LOST = 0, /* segment sent, but no part of it arrived */
	TCP_NET_UNKNOWN,  /* segment sent while the receiver's records have a gap or do not exist */
	TCP_NET_NOT_SENT, /* segment arrived, but its sending was not recorded */
	TCP_NET_AMBIGUOUS,     /* segment arrived, but several sent segments match */
	TCP_NET_DUPLICATE,     /* segment arrived again, although it was sent only once */
	TCP_NET_MERGED,	       /* segment merged into an earlier one on arrival: not timed */
	TCP_NET_ACK_UNMATCHED, /* acknowledgement arrived, but matches no acknowledgement sent */
	TCP_NET_FULL,	       /* no room to remember a segment */
	TCP_NET_TOO_MANY,      /* record would have to be compared with too many others */
	TCP_NET_MISSED,	       /* records overwritten before they were read */
	TCP_NET_NO_CLOCK,      /* segment matched, but the clock offset at that time is unknown */
	TCP_NET_CAUSES
};
const char *tcp_net_cause_name(int cause); /* returns a short name, such as "lost" */
/* returns a description, such as "sent, never arrived" */
const char *tcp_net_cause_text(int cause);

/* One direction of a connection. */
struct tcp_net_flow {
	uint8_t source[16], destination[16];
	uint16_t source_port, destination_port;
	uint8_t sender; /* 0 for side A, 1 for side B */
	void *user;	/* pointer owned by the caller; initially NULL */
};

struct tcp_net_sample {
	struct tcp_net_flow *flow;
	/* times of sending and arrival, by the clocks of the respective hosts */
	uint64_t out_ns, in_ns;
	uint64_t seq;	/* sequence number of the segment's first byte */
	uint32_t bytes; /* length of the segment; 0 for a pure acknowledgement, a SYN or a FIN */
	bool ack;	/* true if the segment is a pure acknowledgement */
	bool reordered; /* a segment sent later arrived earlier */
};

struct tcp_net_match;

struct tcp_net_match_opts {
	uint32_t flows; /* maximum number of connection directions; 0 means 65536 */
	/* maximum number of records remembered, about 64 bytes each; 0 means 2^20 */
	uint32_t records;
	void (*sample)(void *context, const struct tcp_net_sample *sample);
	void *context;
};
/* Returns NULL with errno set on failure. */
struct tcp_net_match *tcp_net_match_open(const struct tcp_net_match_opts *options);
void tcp_net_match_close(struct tcp_net_match *m); /* NULL is fine */

/* Adds a record of side 0 (A) or 1 (B). Records of a side must be added in numerical order. */
void tcp_net_match_add(struct tcp_net_match *m, int side, const struct region_nic_record *r);
/*
 * Reports that n records are missing between the side's last record and now_ns, by the side's
 * clock.
 */
void tcp_net_match_gap(struct tcp_net_match *m, int side, uint64_t n, uint64_t now_ns);
/* Sets the period during which a side was recording, by its own clock. */
void tcp_net_match_range(struct tcp_net_match *m, int side, uint64_t from, uint64_t to);

/*
 * Allows the arrivals seen so far at this side to be matched once the other side's records have
 * been read again. The caller reads A, holds A, reads B, runs, holds B, reads A, runs, and so on.
 * When all records have been added, hold both sides and run.
 */
void tcp_net_match_hold(struct tcp_net_match *m, int side);
void tcp_net_match_run(struct tcp_net_match *m);

/*
 * Forgets segments that side sent before before_ns, and counts those that never arrived. offset is
 * the receiver's clock minus the sender's, if known; it identifies segments sent while the receiver
 * was not recording.
 */
void tcp_net_match_expire(struct tcp_net_match *m, int side, uint64_t before_ns, bool offset_known,
			  int64_t offset);

/* Counts since tcp_net_match_open(), except TCP_NET_NO_CLOCK, which the caller counts. */
const uint64_t *tcp_net_match_causes(const struct tcp_net_match *m);
/* Number of segments sent by each side, without pure acknowledgements. */
void tcp_net_match_sent(const struct tcp_net_match *m, uint64_t sent[2]);

#endif
