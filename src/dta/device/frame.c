// SPDX-License-Identifier: Apache-2.0
/*
 * frame.c - parses the headers of a packet. A device may truncate the packet anywhere, so each
 * field is set independently.
 */
#include <netinet/in.h>

#include "dta/wire/endian.h"
#include "frame.h"

/*
 * The sender chooses the headers; a packet with more tags, labels, tunnels or extension headers is
 * not parsed.
 */
#define LAYERS_MAX     5
#define LABELS_MAX     8
#define TUNNELS_MAX    3
#define EXTENSIONS_MAX 8

/* The part of a packet that has not been parsed yet. */
struct piece {
	const uint8_t *at;
	size_t bytes;
};

static bool skip_bytes(struct piece *p, size_t bytes)
{
	if (p->bytes < bytes)
		return false;
	p->at += bytes;
	p->bytes -= bytes;
	return true;
}

/* Sets a number if this is the outermost packet; for inner packets, r is NULL. */
static void set_outer(struct dta_record *r, enum dta_field f, uint64_t n)
{
	if (r)
		dta_record_set(r, f, n);
}

/*
 * Skips a stack of MPLS labels (RFC 3032). The stack does not state the next protocol, so the next
 * byte decides: IP begins with its version, the control word of an Ethernet pseudowire with 0 (RFC
 * 4385). Returns the Ethernet type, or 0.
 */
static uint16_t skip_labels(struct dta_record *r, struct piece *p)
{
	for (uint32_t i = 0; i < LABELS_MAX; i++) {
		const uint8_t *label = p->at;

		if (!skip_bytes(p, 4))
			return 0;
		if (i < 3)
			set_outer(r, (enum dta_field)(DTA_FIELD_MPLS_LABEL + i),
				  dta_get32(label) >> 12);
		if (!(label[2] & 1))
			continue;
		if (p->bytes && p->at[0] >> 4 == 4)
			return DTA_ETHERTYPE_IPV4;
		if (p->bytes && p->at[0] >> 4 == 6)
			return DTA_ETHERTYPE_IPV6;
		return p->bytes && !(p->at[0] >> 4) && skip_bytes(p, 4) ? DTA_ETHERTYPE_ETHERNET
									: 0;
	}
	return 0;
}

/*
 * Skips the protocol field of PPP or Cisco HDLC, and the two address bytes before it, if present.
 * Returns the Ethernet type, or 0.
 */
static uint16_t skip_ppp(struct piece *p)
{
	uint16_t protocol;

	if (p->bytes >= 2 && (dta_get16(p->at) == 0x0f00 || dta_get16(p->at) == 0x8f00)) {
		protocol = p->bytes >= 4 ? dta_get16(p->at + 2) : 0;
		return skip_bytes(p, 4) ? protocol : 0;
	}
	if (p->bytes >= 2 && dta_get16(p->at) == 0xff03)
		skip_bytes(p, 2);
	protocol = p->bytes >= 2 ? dta_get16(p->at) : 0;
	if (!skip_bytes(p, 2))
		return 0;
	switch (protocol) {
	case 0x0021:
		return DTA_ETHERTYPE_IPV4;
	case 0x0057:
		return DTA_ETHERTYPE_IPV6;
	case 0x0281:
	case 0x0283:
		return DTA_ETHERTYPE_MPLS;
	default:
		return 0;
	}
}

static uint16_t skip_ethernet(struct dta_record *r, struct piece *p)
{
	const uint8_t *d = p->at;

	if (!skip_bytes(p, 14))
		return 0;
	set_outer(r, DTA_FIELD_DESTINATION_MAC, dta_get64(d) >> 16);
	set_outer(r, DTA_FIELD_SOURCE_MAC, dta_get64(d + 4) & ((UINT64_C(1) << 48) - 1));
	return dta_get16(d + 12);
}

/* Skips all headers before the IP header. Returns false if it is missing or truncated. */
static bool find_ip(struct dta_record *r, uint16_t type, struct piece *p)
{
	bool tagged = false;

	for (int i = 0; i <= LAYERS_MAX; i++) {
		const uint8_t *d = p->at;

		switch (type) {
		case DTA_ETHERTYPE_IPV4:
			return p->bytes >= 20 && d[0] >> 4 == 4;
		case DTA_ETHERTYPE_IPV6:
			return p->bytes >= 40 && d[0] >> 4 == 6;
		case 0x8100: /* 802.1Q, 802.1ad, and the pre-standard types of QinQ */
		case 0x88a8:
		case 0x9100:
		case 0x9200:
			if (!skip_bytes(p, 4))
				return false;
			set_outer(r, tagged ? DTA_FIELD_CUSTOMER_VLAN : DTA_FIELD_VLAN,
				  dta_get16(d) & 0xfff);
			tagged = true;
			type = dta_get16(d + 2);
			break;
		case DTA_ETHERTYPE_MPLS:
		case 0x8848:
			type = skip_labels(r, p);
			r = NULL;
			break;
		case 0x8864: /* PPPoE session (RFC 2516) */
			type = skip_bytes(p, 6) ? DTA_ETHERTYPE_PPP : 0;
			break;
		case DTA_ETHERTYPE_PPP:
			type = skip_ppp(p);
			break;
		case DTA_ETHERTYPE_ETHERNET:
			type = skip_ethernet(r, p);
			break;
		default:
			return false;
		}
	}
	return false;
}

/* Skips a GRE header (RFC 2784, RFC 2890). Returns the Ethernet type of the payload, or 0. */
static uint16_t skip_gre(struct piece *p, uint64_t *id)
{
	const uint8_t *d = p->at;
	const size_t sum = p->bytes >= 4 && d[0] & 0x80 ? 4 : 0;
	const size_t key = p->bytes >= 4 && d[0] & 0x20 ? 4 : 0;

	if (p->bytes < 4 || d[0] & 0x4f || d[1] & 0x87 ||
	    !skip_bytes(p, 4 + sum + key + (d[0] & 0x10 ? 4 : 0)))
		return 0;
	if (key)
		*id = dta_get32(d + 4 + sum);
	return dta_get16(d + 2);
}

/*
 * Skips a tunnel header inside UDP: VXLAN (RFC 7348, also at Linux's old port), VXLAN GPE, Geneve
 * (RFC 8926), GRE (RFC 8086) and MPLS (RFC 7510). Returns the Ethernet type, or 0.
 */
static uint16_t skip_udp_tunnel(struct piece *p, uint64_t *id)
{
	static const uint16_t gpe[4] = {0, DTA_ETHERTYPE_IPV4, DTA_ETHERTYPE_IPV6,
					DTA_ETHERTYPE_ETHERNET};
	const uint16_t port = p->bytes >= 8 ? dta_get16(p->at + 2) : 0;
	const uint8_t *d;

	if (!skip_bytes(p, 8))
		return 0;
	d = p->at;
	switch (port) {
	case 4789:
	case 8472:
	case 4790:
		if (p->bytes < 8 || !(d[0] & 8) || (port != 4790 && (d[0] & 0x77 || d[7])))
			return 0;
		*id = dta_get32(d + 4) >> 8;
		skip_bytes(p, 8);
		return port != 4790 ? DTA_ETHERTYPE_ETHERNET : d[3] < 4 ? gpe[d[3]] : 0;
	case 6081:
		if (p->bytes < 8 || d[0] >> 6 || !skip_bytes(p, 8 + (d[0] & 63) * 4u))
			return 0;
		*id = dta_get32(d + 4) >> 8;
		return dta_get16(d + 2);
	case 4754:
		return skip_gre(p, id);
	case 6635:
		return DTA_ETHERTYPE_MPLS;
	default:
		return 0;
	}
}

/*
 * Returns true if the packet carries another one with a complete IP header, and sets *p to it. Sets
 * *id to the tunnel's number, if it has one.
 */
static bool enter_tunnel(const struct dta_frame *f, struct piece *p, uint64_t *id)
{
	uint16_t type = 0;

	if (!f->above)
		return false;
	*p = (struct piece){f->above, f->above_bytes};
	switch (f->protocol) {
	case IPPROTO_IPIP:
		type = DTA_ETHERTYPE_IPV4;
		break;
	case IPPROTO_IPV6:
		type = DTA_ETHERTYPE_IPV6;
		break;
	case IPPROTO_GRE:
		type = skip_gre(p, id);
		break;
	case IPPROTO_UDP:
		type = skip_udp_tunnel(p, id);
		break;
	case 137: /* MPLS in IP (RFC 4023) */
		type = DTA_ETHERTYPE_MPLS;
		break;
	case 143: /* Ethernet, as with SRv6 (RFC 8986) */
		type = DTA_ETHERTYPE_ETHERNET;
		break;
	}
	return find_ip(NULL, type, p);
}

static bool has_ports(uint64_t protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP ||
	       protocol == IPPROTO_DCCP || protocol == IPPROTO_UDPLITE;
}

void dta_record_set_protocol(struct dta_record *r, uint64_t protocol)
{
	dta_record_set(r, DTA_FIELD_PROTOCOL, protocol);
	if (has_ports(protocol))
		return;
	dta_record_set(r, DTA_FIELD_SOURCE_PORT, 0);
	dta_record_set(r, DTA_FIELD_DESTINATION_PORT, 0);
}

static bool is_icmp(uint64_t protocol)
{
	return protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6;
}

void dta_record_set_flow_protocol(struct dta_record *r, uint64_t protocol)
{
	if (is_icmp(protocol) && !dta_record_has(r, DTA_FIELD_ICMP) &&
	    dta_record_has(r, DTA_FIELD_DESTINATION_PORT))
		dta_record_set(r, DTA_FIELD_ICMP, r->number[DTA_FIELD_DESTINATION_PORT]);
	dta_record_set_protocol(r, protocol);
}

void dta_frame_parse_above(struct dta_record *r, const struct dta_frame *f)
{
	const uint8_t *p = f->above;

	if (f->protocol == IPPROTO_TCP && f->above_bytes >= 14)
		dta_record_set(r, DTA_FIELD_TCP_FLAGS, p[13]);
	if (is_icmp(f->protocol) && f->above_bytes >= 2)
		dta_record_set(r, DTA_FIELD_ICMP, dta_get16(p));
	if (!has_ports(f->protocol) || f->above_bytes < 4)
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
	out->id = dta_get16(p + 4);
	dta_record_set(r, DTA_FIELD_IP_VERSION, 4);
	dta_record_set(r, DTA_FIELD_TOS, p[1]);
	dta_record_set(r, DTA_FIELD_DSCP, p[1] >> 2);
	dta_record_set(r, DTA_FIELD_TTL, p[8]);
	dta_record_set_protocol(r, p[9]);
	dta_record_set_address(r, DTA_FIELD_SOURCE, p + 12, 4);
	dta_record_set_address(r, DTA_FIELD_DESTINATION, p + 16, 4);
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
	size_t at = 40, unit;
	uint8_t next = p[6];

	out->length = 40u + dta_get16(p + 4);
	dta_record_set(r, DTA_FIELD_IP_VERSION, 6);
	dta_record_set(r, DTA_FIELD_TOS, dta_get16(p) >> 4 & 255);
	dta_record_set(r, DTA_FIELD_DSCP, dta_get16(p) >> 6 & 63);
	dta_record_set(r, DTA_FIELD_TTL, p[7]);
	dta_record_set_address(r, DTA_FIELD_SOURCE, p + 8, 16);
	dta_record_set_address(r, DTA_FIELD_DESTINATION, p + 24, 16);
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
		case IPPROTO_AH:
			if (bytes < at + 2)
				return;
			/* AH states its length in units of 4 bytes, the others in units of 8 */
			unit = next == IPPROTO_AH ? 4 : 8;
			next = p[at];
			at += 8 + p[at + 1] * unit;
			continue;
		case IPPROTO_FRAGMENT:
			if (bytes < at + 8)
				return;
			next = p[at];
			if (dta_get16(p + at + 2) >> 3) { /* not the first fragment */
				dta_record_set_protocol(r, next);
				return;
			}
			at += 8;
			continue;
		default:
			dta_record_set_protocol(r, next);
			out->protocol = next;
			if (bytes > at) {
				out->above = p + at;
				out->above_bytes = bytes - at;
			}
			return;
		}
	}
}

static void parse_ip(struct dta_record *r, const struct piece *p, struct dta_frame *out)
{
	*out = (struct dta_frame){0};
	if (p->at[0] >> 4 == 4)
		parse_v4(r, p->at, p->bytes, out);
	else
		parse_v6(r, p->at, p->bytes, out);
	if (out->above)
		dta_frame_parse_above(r, out);
}

/* Moves addresses to the tunnel's fields, and clears fields that the inner packet may not set. */
static void keep_tunnel(struct dta_record *r, uint64_t id)
{
	r->address[DTA_FIELD_TUNNEL_SOURCE] = r->address[DTA_FIELD_SOURCE];
	r->address[DTA_FIELD_TUNNEL_DESTINATION] = r->address[DTA_FIELD_DESTINATION];
	r->has &= ~(DTA_FIELD_BIT(DTA_FIELD_PROTOCOL) | DTA_FIELD_BIT(DTA_FIELD_SOURCE_PORT) |
		    DTA_FIELD_BIT(DTA_FIELD_DESTINATION_PORT) | DTA_FIELD_BIT(DTA_FIELD_ICMP) |
		    DTA_FIELD_BIT(DTA_FIELD_TCP_FLAGS));
	r->has |= DTA_FIELD_BIT(DTA_FIELD_TUNNEL_SOURCE) |
		  DTA_FIELD_BIT(DTA_FIELD_TUNNEL_DESTINATION);
	if (id != UINT64_MAX)
		dta_record_set(r, DTA_FIELD_TUNNEL_ID, id);
}

void dta_frame_parse(struct dta_record *r, uint16_t type, const uint8_t *p, size_t bytes,
		     struct dta_frame *out)
{
	struct piece at = {p, bytes}, inner;

	*out = (struct dta_frame){0};
	if (!find_ip(r, type, &at))
		return;
	parse_ip(r, &at, out);
	for (int i = 0; i < TUNNELS_MAX; i++) {
		uint64_t id = UINT64_MAX;

		if (!enter_tunnel(out, &inner, &id))
			return;
		keep_tunnel(r, id);
		parse_ip(r, &inner, out);
	}
}
