/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.h - packets out of a captured file: pcap and pcapng of any byte order and resolution, of
 * Ethernet (with VLAN tags), raw IP or Linux "cooked" (both versions). What it says is a
 * stranger's: all of it is checked. One thread.
 */
#ifndef SL_DTA_IO_CAPTURE_H
#define SL_DTA_IO_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DTA_CAPTURE_PACKET_MAX 262144u /* libpcap's MAXIMUM_SNAPLEN */

struct dta_capture;

struct dta_captured {
	const uint8_t *ip; /* in the buffer; NULL: no IP packet */
	size_t bytes;	   /* of it, that were captured */
};

struct dta_captured_flow {
	uint8_t version, protocol; /* IP: 4 or 6; of IPv6: its first next header */
	bool fragment, whole;	   /* whole: all of it was captured */
	uint32_t length;	   /* of the IP packet, as it says */
	const uint8_t *from, *to;  /* 4 or 16 bytes */
	const uint8_t *above;	   /* behind the IP header, above_bytes of it */
	size_t above_bytes;
};

/* NULL with errno and one line in error. */
struct dta_capture *dta_capture_open(const char *path, char *error, size_t error_bytes);
void dta_capture_close(struct dta_capture *c);
/* The next packet, into DTA_CAPTURE_PACKET_MAX bytes. 0; -ENODATA at the end; -EINVAL: the file is
 * cut short or wrong. */
int dta_capture_next(struct dta_capture *c, uint8_t *buffer, struct dta_captured *out);
/* After -EINVAL: what is wrong with it. */
const char *dta_capture_error(const struct dta_capture *c);
/* False: it is no IP packet, or shorter than its header. */
bool dta_captured_flow(const struct dta_captured *p, struct dta_captured_flow *out);
/* Of a flow of UDP, whole and no fragment, to this port: what the packet holds. False: it is
 * something else. */
struct dta_datagram;
bool dta_captured_datagram(const struct dta_captured_flow *f, uint16_t port,
			   struct dta_datagram *out);
/*
 * Who looks behind a driver may see several datagrams that are one for the kernel: those of a
 * sender on this machine that gave them in one call (UDP_SEGMENT). Packets of format 1 say where
 * they end. Moves up to max of them out of rest, and returns how many; rest->bytes are those that
 * are left. What does not say so is one. max: not 0.
 */
uint32_t dta_datagrams_cut(struct dta_datagram *rest, struct dta_datagram *out, uint32_t max);

#endif
