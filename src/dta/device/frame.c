// SPDX-License-Identifier: Apache-2.0
/*
 * frame.c - parses the headers of a packet. A device may truncate the packet anywhere, so each
 * field is set independently.
 */
#include <netinet/in.h>

#include "dta/wire/endian.h"
#include "frame.h"

/* The sender chooses the headers; a packet with more tags or extension headers is not parsed. */
#define TAGS_MAX       4
#define EXTENSIONS_MAX 8

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd

static bool is_tag(uint16_t type) /* 802.1Q, 802.1ad, and the pre-standard QinQ type */
{
	return type == 0x8100 || type == 0x88a8 || type == 0x9100;
}

void dta_frame_parse_above(struct dta_record *r, const struct dta_frame *f)
{
	const uint8_t *p = f->above;

	switch (f->protocol) {
	case IPPROTO_TCP:
		if (f->above_bytes >= 14)
			dta_record_set(r, DTA_FIELD_TCP_FLAGS, p[13]);
		break;
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
	case IPPROTO_SCTP:
	case IPPROTO_DCCP:
		break;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if (f->above_bytes >= 2)
			dta_record_set(r, DTA_FIELD_ICMP, dta_get16(p));
		return;
	default:
		return;
	}
	if (f->above_bytes < 4)
		return;
	dta_record_set(r, DTA_FIELD_SOURCE_PORT, dta_get16(p));
	dta_record_set(r, DTA_FIELD_DESTINATION_PORT, dta_get16(p + 2));
}

static void parse_v4(struct dta_record *r, const uint8_t *p, size_t bytes, struct dta_frame *out)
{
	const size_t head = (size_t)(p[0] & 15) * 4;
	const uint32_t length = dta_get16(p + 2);

	if (head < 20 || length < head)
		return;
	out->length = length;
	out->protocol = p[9];
	dta_record_set(r, DTA_FIELD_IP_VERSION, 4);
	dta_record_set(r, DTA_FIELD_DSCP, p[1] >> 2);
	dta_record_set(r, DTA_FIELD_PROTOCOL, p[9]);
	dta_record_set_v4(r, DTA_FIELD_SOURCE, p + 12);
	dta_record_set_v4(r, DTA_FIELD_DESTINATION, p + 16);
	if (bytes > length)
		bytes = length; /* the rest is frame padding */
	if (bytes > head && !(dta_get16(p + 6) & 0x1fff)) {
		out->above = p + head;
		out->above_bytes = bytes - head;
	}
}

/* Follows the chain of headers to the protocol (RFC 8200, section 4). */
static void parse_v6(struct dta_record *r, const uint8_t *p, size_t bytes, struct dta_frame *out)
{
	size_t at = 40;
	uint8_t next = p[6];

	out->length = 40u + dta_get16(p + 4);
	dta_record_set(r, DTA_FIELD_IP_VERSION, 6);
	dta_record_set(r, DTA_FIELD_DSCP, dta_get16(p) >> 6 & 63);
	dta_record_set_v6(r, DTA_FIELD_SOURCE, p + 8);
	dta_record_set_v6(r, DTA_FIELD_DESTINATION, p + 24);
	if (bytes > out->length)
		bytes = out->length;
	for (int i = 0; i < EXTENSIONS_MAX; i++) {
		switch (next) {
		case IPPROTO_HOPOPTS:
		case IPPROTO_ROUTING:
		case IPPROTO_DSTOPTS:
		case IPPROTO_MH:
		case 139: /* Host Identity Protocol */
		case 140: /* Shim6 */
			if (bytes < at + 2)
				return;
			next = p[at];
			at += 8 + (size_t)p[at + 1] * 8;
			continue;
		case IPPROTO_AH: /* length in 32-bit words minus two */
			if (bytes < at + 2)
				return;
			next = p[at];
			at += 8 + (size_t)p[at + 1] * 4;
			continue;
		case IPPROTO_FRAGMENT:
			if (bytes < at + 8)
				return;
			next = p[at];
			if (dta_get16(p + at + 2) >> 3) { /* not the first fragment */
				dta_record_set(r, DTA_FIELD_PROTOCOL, next);
				return;
			}
			at += 8;
			continue;
		default:
			dta_record_set(r, DTA_FIELD_PROTOCOL, next);
			out->protocol = next;
			if (bytes > at) {
				out->above = p + at;
				out->above_bytes = bytes - at;
			}
			return;
		}
	}
}

void dta_frame_parse_ip(struct dta_record *r, const uint8_t *packet, size_t bytes,
			struct dta_frame *out)
{
	*out = (struct dta_frame){0};
	if (bytes >= 20 && packet[0] >> 4 == 4)
		parse_v4(r, packet, bytes, out);
	else if (bytes >= 40 && packet[0] >> 4 == 6)
		parse_v6(r, packet, bytes, out);
	if (out->above)
		dta_frame_parse_above(r, out);
}

void dta_frame_parse(struct dta_record *r, const uint8_t *frame, size_t bytes,
		     struct dta_frame *out)
{
	size_t at = 12;

	*out = (struct dta_frame){0};
	for (int tags = 0; bytes >= at + 4 && is_tag(dta_get16(frame + at)); tags++, at += 4) {
		if (tags == TAGS_MAX)
			return;
		if (!tags) /* the outer tag */
			dta_record_set(r, DTA_FIELD_VLAN, dta_get16(frame + at + 2) & 0xfff);
	}
	if (bytes < at + 2)
		return;
	if (dta_get16(frame + at) == ETHERTYPE_IPV4 || dta_get16(frame + at) == ETHERTYPE_IPV6)
		dta_frame_parse_ip(r, frame + at + 2, bytes - at - 2, out);
}

uint32_t dta_frame_read(struct dta_record *r, const uint8_t *frame, size_t bytes)
{
	struct dta_frame f;

	dta_frame_parse(r, frame, bytes, &f);
	return f.length;
}

uint32_t dta_frame_read_ip(struct dta_record *r, const uint8_t *packet, size_t bytes)
{
	struct dta_frame f;

	dta_frame_parse_ip(r, packet, bytes, &f);
	return f.length;
}
