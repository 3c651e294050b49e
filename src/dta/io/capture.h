/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.h - packets of a captured file: pcap and pcapng of any byte order and resolution, from
 * Ethernet (with VLAN tags), raw IP or Linux "cooked" links. The content is untrusted: everything
 * is checked. Single-threaded.
 */
#ifndef SL_DTA_IO_CAPTURE_H
#define SL_DTA_IO_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DTA_CAPTURE_PACKET_MAX 262144u /* libpcap's MAXIMUM_SNAPLEN */

struct dta_capture;

struct dta_captured {
	const uint8_t *ip; /* in the buffer; NULL: not IP */
	size_t bytes;	   /* captured bytes */
};

struct dta_captured_flow {
	uint8_t version, protocol; /* 4 or 6; IPv6: the first next header */
	bool fragment, whole;	   /* whole: captured completely */
	uint32_t length;	   /* of the IP packet, as it states */
	const uint8_t *from, *to;  /* 4 or 16 bytes */
	const uint8_t *above;	   /* after the IP header, above_bytes long */
	size_t above_bytes;
};

/* NULL with errno and one line in error. */
struct dta_capture *dta_capture_open(const char *path, char *error, size_t error_bytes);
void dta_capture_close(struct dta_capture *c);
/*
 * Reads the next packet into DTA_CAPTURE_PACKET_MAX bytes. 0; -ENODATA at the end; -EINVAL:
 * truncated or invalid.
 */
int dta_capture_next(struct dta_capture *c, uint8_t *buffer, struct dta_captured *out);
/* The reason for -EINVAL. */
const char *dta_capture_error(const struct dta_capture *c);
/* False: not an IP packet, or shorter than its header. */
bool dta_captured_flow(const struct dta_captured *p, struct dta_captured_flow *out);
/* The payload of a complete, unfragmented UDP packet to this port. False: it is something else. */
struct dta_datagram;
bool dta_captured_datagram(const struct dta_captured_flow *f, uint16_t port,
			   struct dta_datagram *out);
/*
 * Behind a driver, several datagrams may appear as one: those that a sender on this machine passed
 * in one call (UDP_SEGMENT). Packets of format 2 state their length. Moves up to max (not 0) of
 * them out of rest and returns how many; rest->bytes remain. Anything else is one datagram.
 */
uint32_t dta_datagrams_cut(struct dta_datagram *rest, struct dta_datagram *out, uint32_t max);

#endif
