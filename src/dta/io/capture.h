/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.h - finds UDP datagrams in captured packets. The content is untrusted and is fully
 * checked.
 */
#ifndef SL_DTA_IO_CAPTURE_H
#define SL_DTA_IO_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dta_captured {
	const uint8_t *ip; /* the IP packet in the buffer; NULL if this is not IP */
	size_t bytes;	   /* captured bytes */
};

struct dta_captured_flow {
	uint8_t version, protocol; /* version: 4 or 6; protocol: for IPv6 the first next header */
	bool fragment, whole;	   /* whole: not truncated by the capture */
	uint32_t length;	   /* length of the IP packet according to its header */
	const uint8_t *from, *to;  /* 4 or 16 bytes */
	const uint8_t *above;	   /* data after the IP header, above_bytes long */
	size_t above_bytes;
};

/* Returns false if this is not an IP packet or if it is shorter than its header. */
bool dta_captured_flow(const struct dta_captured *p, struct dta_captured_flow *out);
/*
 * Extracts the payload of a complete, unfragmented UDP packet to this port. Returns false for other
 * packets.
 */
struct dta_datagram;
bool dta_captured_datagram(const struct dta_captured_flow *f, uint16_t port,
			   struct dta_datagram *out);
/*
 * Splits a datagram. A packet captured at a driver may contain several datagrams that a local
 * sender passed in one call (UDP_SEGMENT). Packets of format 2 state their length. Moves up to max
 * datagrams (max must not be 0) from rest to out and returns their number; the remaining bytes stay
 * in rest. Any other content is one datagram.
 */
uint32_t dta_datagrams_cut(struct dta_datagram *rest, struct dta_datagram *out, uint32_t max);

#endif
