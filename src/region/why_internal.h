/* SPDX-License-Identifier: Apache-2.0 */
/* why_internal.h - shared by why.c, which finds the limit, and why_text.c, which explains it. */
#ifndef SL_REGION_WHY_INTERNAL_H
#define SL_REGION_WHY_INTERNAL_H

#include "region/why.h"

/* Parts of the interval; their shares add up to 1. */
enum region_why_part {
	REGION_WHY_PART_NOTHING, /* no unacknowledged data */
	REGION_WHY_PART_WAITING, /* waits for acknowledgements, with nothing more to send */
	REGION_WHY_PART_STALLED, /* waits for a retransmission timeout */
	REGION_WHY_PART_RWND,	 /* limited by the peer's window */
	REGION_WHY_PART_SNDBUF,	 /* limited by the send buffer */
	REGION_WHY_PART_PACING,	 /* limited by SO_MAX_PACING_RATE */
	REGION_WHY_PART_CWND,	 /* limited by the congestion window */
	REGION_WHY_PARTS
};

/* The change between two snapshots. */
struct region_why_change {
	const struct region_flow *before, *now; /* before is NULL if unknown */
	const struct region_why_change *other;	/* at the other end, or NULL */
	double us;				/* length of the interval; at least 1 */
	double part[REGION_WHY_PARTS];
	/*
	 * Fractions of the interval. waited: from sending data to receiving data; round_trips: the
	 * part of `waited` due to the minimum RTT; thought: from receiving data to sending data.
	 */
	double waited, round_trips, thought;
	uint64_t acked, received, read, unread, unread_before, turns, held;
	uint64_t retrans, lost, dsack, reorder, timeouts, fast, zero_in, zero_out, marked, drops;
	uint64_t data_out, data_in, acks_out; /* segments */
	double rtt_us; /* mean of the samples in the interval, or the smoothed RTT */
};

/*
 * True if nothing has been acknowledged since the first timeout of the interval, and several
 * followed.
 */
bool region_why_stopped(const struct region_why_change *c);
/* Fills in the sentence and the numbers; .limit and .share must be set already. */
void region_why_explain(struct region_why *w, const struct region_why_change *c);

#endif
