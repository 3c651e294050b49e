/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h - positions of the headers in a possibly truncated packet (frame.c) */
#ifndef SL_DTA_DEVICE_FRAME_H
#define SL_DTA_DEVICE_FRAME_H

#include "base/network.h"
#include "device.h"

struct dta_frame {
	const uint8_t *above; /* transport header; NULL if it is not in this piece */
	size_t above_bytes;   /* bytes from there to the end of the piece or the packet */
	uint32_t length;      /* length of the IP packet by its header; 0 means no IP packet */
	uint8_t protocol;     /* protocol of the header that above points to */
	uint16_t id;	      /* identification of an IPv4 packet */
};

/*
 * Fills in the fields from a packet, which may be truncated. type: the Ethernet type of its first
 * header; or DTA_ETHERTYPE_ETHERNET if it begins with an Ethernet header. docs/dta-int-sflow.md
 * lists the headers that are parsed.
 */
#define DTA_ETHERTYPE_IPV4     0x0800
#define DTA_ETHERTYPE_ETHERNET 0x6558 /* transparent Ethernet bridging (RFC 1701) */
#define DTA_ETHERTYPE_IPV6     0x86dd
#define DTA_ETHERTYPE_PPP      0x880b
#define DTA_ETHERTYPE_MPLS     0x8847
void dta_frame_parse(struct dta_record *r, uint16_t type, const uint8_t *p, size_t bytes,
		     struct dta_frame *out);
/*
 * Sets the protocol, and ports 0 if its packets have none, so that the flow has a 5-tuple, as in
 * reports of kernel flows. Ports that are only unknown, as those of a fragment, are not set.
 */
void dta_record_set_protocol(struct dta_record *r, uint64_t protocol);
/*
 * Sets the protocol of a flow that has its ports already. Many devices send the type and code of
 * ICMP as its destination port.
 */
void dta_record_set_flow_protocol(struct dta_record *r, uint64_t protocol);
/* Sets ports, flags or the ICMP type from a transport header. */
void dta_frame_parse_above(struct dta_record *r, const struct dta_frame *f);

/* Sets an address of 4 or 16 bytes. */
static inline void dta_record_set_address(struct dta_record *r, enum dta_field f,
					  const uint8_t *address, size_t bytes)
{
	r->address[f] = base_mapped(address, bytes);
	r->has |= DTA_FIELD_BIT(f);
}

static inline bool dta_record_has(const struct dta_record *r, enum dta_field f)
{
	return r->has >> f & 1;
}

#endif
