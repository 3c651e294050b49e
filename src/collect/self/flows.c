// SPDX-License-Identifier: Apache-2.0
/* flows.c - one table of fields for all three formats (flows.h) */
#include "collect/self/flows.h"

#include <netinet/in.h>
#include <string.h>

#include "dta/wire/endian.h"
#include "export/pb.h"

#define IPFIX_HEADER   16u
#define TEMPLATE_ID    256u
#define ETHERTYPE_IPV4 0x0800u
#define ETHERTYPE_IPV6 0x86ddu
/* Fields of FlowMessage that are not in the table. */
#define PB_SAMPLING  3
#define PB_ETHERTYPE 30
#define PB_ICMP_TYPE 31
#define PB_ICMP_CODE 32
#define PB_RECEIVED  110

/*
 * protobuf: field number in FlowMessage, or 0. element, element6: numbers of the information
 * elements for IPv4 and IPv6; element6 0: one element for both. bytes: size of the element; 0 means
 * an address.
 */
struct flow_field {
	uint8_t field, protobuf, bytes;
	uint16_t element, element6;
	const char *name, *name6;
};

static const struct flow_field fields[] = {
	{DTA_FIELD_EXPORTER, 11, 0, 130, 131, "exporterIPv4Address", "exporterIPv6Address"},
	{DTA_FIELD_SOURCE, 6, 0, 8, 27, "sourceIPv4Address", "sourceIPv6Address"},
	{DTA_FIELD_DESTINATION, 7, 0, 12, 28, "destinationIPv4Address", "destinationIPv6Address"},
	{DTA_FIELD_NEXT_HOP, 12, 0, 15, 62, "ipNextHopIPv4Address", "ipNextHopIPv6Address"},
	{DTA_FIELD_SOURCE_PORT, 21, 2, 7, 0, "sourceTransportPort", NULL},
	{DTA_FIELD_DESTINATION_PORT, 22, 2, 11, 0, "destinationTransportPort", NULL},
	{DTA_FIELD_PROTOCOL, 20, 1, 4, 0, "protocolIdentifier", NULL},
	{DTA_FIELD_TCP_FLAGS, 26, 2, 6, 0, "tcpControlBits", NULL},
	{DTA_FIELD_ICMP, 0, 2, 32, 139, "icmpTypeCodeIPv4", "icmpTypeCodeIPv6"},
	{DTA_FIELD_TOS, 23, 1, 5, 0, "ipClassOfService", NULL},
	{DTA_FIELD_TTL, 25, 1, 192, 0, "ipTTL", NULL},
	{DTA_FIELD_DOMAIN, 70, 4, 149, 0, "observationDomainId", NULL},
	{DTA_FIELD_OBSERVATION_POINT, 71, 8, 138, 0, "observationPointId", NULL},
	{DTA_FIELD_INGRESS, 18, 4, 10, 0, "ingressInterface", NULL},
	{DTA_FIELD_EGRESS, 19, 4, 14, 0, "egressInterface", NULL},
	{DTA_FIELD_VLAN, 29, 2, 58, 0, "vlanId", NULL},
	{DTA_FIELD_SOURCE_MAC, 27, 6, 56, 0, "sourceMacAddress", NULL},
	{DTA_FIELD_DESTINATION_MAC, 28, 6, 80, 0, "destinationMacAddress", NULL},
	{DTA_FIELD_SOURCE_AS, 14, 4, 16, 0, "bgpSourceAsNumber", NULL},
	{DTA_FIELD_DESTINATION_AS, 15, 4, 17, 0, "bgpDestinationAsNumber", NULL},
	{DTA_FIELD_NEXT_AS, 13, 4, 128, 0, "bgpNextAdjacentAsNumber", NULL},
	{DTA_FIELD_SOURCE_PREFIX, 16, 1, 9, 29, "sourceIPv4PrefixLength", "sourceIPv6PrefixLength"},
	{DTA_FIELD_DESTINATION_PREFIX, 17, 1, 13, 30, "destinationIPv4PrefixLength",
	 "destinationIPv6PrefixLength"},
	{DTA_FIELD_FORWARDING_STATUS, 24, 1, 89, 0, "forwardingStatus", NULL},
	{DTA_FIELD_BYTES, 9, 8, 1, 0, "octetDeltaCount", NULL},
	{DTA_FIELD_PACKETS, 10, 8, 2, 0, "packetDeltaCount", NULL},
	{DTA_FIELD_START_NS, 111, 8, 152, 0, "flowStartMilliseconds", NULL},
	{DTA_FIELD_END_NS, 112, 8, 153, 0, "flowEndMilliseconds", NULL},
};
#define FIELDS (sizeof(fields) / sizeof(*fields))

#define EACH(f, r)                                                          \
	for (const struct flow_field *f = fields; f < fields + FIELDS; f++) \
		if ((r)->has & DTA_FIELD_BIT(f->field))

bool collect_flows_has(const struct dta_layout *l)
{
	const dta_field_set need = DTA_FIELD_BIT(DTA_FIELD_SOURCE) |
				   DTA_FIELD_BIT(DTA_FIELD_DESTINATION) |
				   DTA_FIELD_BIT(DTA_FIELD_BYTES);

	return (l->has & need) == need;
}

/* Returns the size of an address: 4 bytes for IPv4 in all formats. */
static size_t address_of(const struct dta_record *r, unsigned int field, const uint8_t **at)
{
	const struct in6_addr *a = &r->address[field];
	const bool v4 = IN6_IS_ADDR_V4MAPPED(a);

	*at = a->s6_addr + (v4 ? 12 : 0);
	return v4 ? 4 : 16;
}

/*
 * Returns true if the record uses the field's element for IPv6: for an address if it is an IPv6
 * address, and for a prefix length or ICMP if the flow's addresses are.
 */
static bool is_v6(const struct flow_field *f, const struct dta_record *r)
{
	const uint8_t address = f->field < DTA_FIELD_ADDRESSES		   ? f->field
				: f->field == DTA_FIELD_DESTINATION_PREFIX ? DTA_FIELD_DESTINATION
									   : DTA_FIELD_SOURCE;

	return f->element6 && !IN6_IS_ADDR_V4MAPPED(&r->address[address]);
}

/* Converts the times of a flow to milliseconds for IPFIX. */
static uint64_t ipfix_number(const struct dta_record *r, unsigned int field)
{
	const uint64_t n = r->number[field];

	return field == DTA_FIELD_START_NS || field == DTA_FIELD_END_NS ? n / 1000000 : n;
}

/* ---- goflow2 ---- */

size_t collect_flows_protobuf(const struct dta_record *r, uint64_t real_ns,
			      uint8_t out[COLLECT_FLOWS_MESSAGE_MAX])
{
	uint8_t message[COLLECT_FLOWS_MESSAGE_MAX - 10], *p = message, *end;
	const uint8_t *at;
	size_t n;

	EACH(f, r)
	{
		if (f->field < DTA_FIELD_ADDRESSES) {
			n = address_of(r, f->field, &at);
			p = export_pb_bytes(p, f->protobuf, at, n);
		} else if (f->protobuf && r->number[f->field]) { /* proto3 omits zeros */
			p = export_pb_u64(p, f->protobuf, r->number[f->field]);
		}
	}
	if (r->has & DTA_FIELD_BIT(DTA_FIELD_ICMP)) {
		p = export_pb_u64(p, PB_ICMP_TYPE, r->number[DTA_FIELD_ICMP] >> 8);
		p = export_pb_u64(p, PB_ICMP_CODE, r->number[DTA_FIELD_ICMP] & 0xff);
	}
	n = address_of(r, DTA_FIELD_SOURCE, &at);
	p = export_pb_u64(p, PB_ETHERTYPE, n == 4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
	p = export_pb_u64(p, PB_SAMPLING, 1); /* the counts are already scaled */
	p = export_pb_u64(p, PB_RECEIVED, real_ns);
	n = (size_t)(p - message);
	end = export_pb_varint(out, n);
	memcpy(end, message, n);
	return (size_t)(end - out) + n;
}

/* ---- JSON ---- */

static json_t *mac_json(uint64_t n)
{
	return json_sprintf("%02x:%02x:%02x:%02x:%02x:%02x", (unsigned int)(n >> 40 & 0xff),
			    (unsigned int)(n >> 32 & 0xff), (unsigned int)(n >> 24 & 0xff),
			    (unsigned int)(n >> 16 & 0xff), (unsigned int)(n >> 8 & 0xff),
			    (unsigned int)(n & 0xff));
}

json_t *collect_flows_json(const struct dta_record *r)
{
	json_t *j = json_object();
	char text[INET6_ADDRSTRLEN];

	EACH(f, r)
	{
		const char *name = is_v6(f, r) ? f->name6 : f->name;

		if (f->field < DTA_FIELD_ADDRESSES)
			json_object_set_new(
				j, name,
				json_string(base_address_text(&r->address[f->field], text)));
		else
			json_object_set_new(j, name,
					    f->bytes == 6 ? mac_json(r->number[f->field])
							  : json_integer((json_int_t)ipfix_number(
								    r, f->field)));
	}
	return j;
}

/* ---- IPFIX ---- */

static uint32_t ipv6_of(const struct dta_record *r)
{
	uint32_t ipv6 = 0;

	EACH(f, r)
	if (f->field < DTA_FIELD_ADDRESSES)
		ipv6 |= (uint32_t)is_v6(f, r) << f->field;
	return ipv6;
}

static uint8_t *put_set(uint8_t *p, uint16_t id)
{
	dta_put16(p, id);
	return p + 4; /* the length is filled in later */
}

/*
 * Writes the header and the template. Each message contains its template, so that a lost datagram
 * loses only its own records. The template ID tells which addresses are IPv6.
 */
static void begin_message(struct collect_flows_ipfix *m, const struct dta_record *r, uint32_t ipv6,
			  uint64_t real_ns)
{
	uint8_t *p = put_set(m->at + IPFIX_HEADER, 2), *count = p + 2;
	uint16_t n = 0;

	dta_put16(m->at, 10);
	dta_put32(m->at + 4, (uint32_t)(real_ns / 1000000000));
	dta_put32(m->at + 8, m->sequence);
	dta_put32(m->at + 12, 1);
	dta_put16(p, (uint16_t)(TEMPLATE_ID + ipv6));
	p += 4;
	EACH(f, r)
	{
		const bool address = f->field < DTA_FIELD_ADDRESSES, v6 = is_v6(f, r);

		dta_put16(p, v6 ? f->element6 : f->element);
		dta_put16(p + 2, address ? v6 ? 16 : 4 : f->bytes);
		p += 4;
		n++;
	}
	dta_put16(count, n);
	dta_put16(m->at + IPFIX_HEADER + 2, (uint16_t)(p - m->at - IPFIX_HEADER));
	m->data = (size_t)(p - m->at);
	m->bytes = (uint32_t)(put_set(p, (uint16_t)(TEMPLATE_ID + ipv6)) - m->at);
	m->has = r->has;
	m->ipv6 = ipv6;
}

bool collect_flows_ipfix_add(struct collect_flows_ipfix *m, const struct dta_record *r,
			     uint64_t real_ns)
{
	const uint32_t ipv6 = ipv6_of(r);
	uint32_t bytes = 0;
	const uint8_t *at;
	uint8_t *p;

	EACH(f, r)
	bytes += f->bytes ? f->bytes : ipv6 >> f->field & 1 ? 16 : 4;
	if (m->records && (m->has != r->has || m->ipv6 != ipv6 || m->bytes + bytes > sizeof(m->at)))
		return false;
	if (!m->records)
		begin_message(m, r, ipv6, real_ns);
	p = m->at + m->bytes;
	EACH(f, r)
	{
		if (f->field < DTA_FIELD_ADDRESSES) {
			const size_t n = address_of(r, f->field, &at);

			p = (uint8_t *)mempcpy(p, at, n);
			continue;
		}
		for (uint32_t i = f->bytes; i--;)
			*p++ = (uint8_t)(ipfix_number(r, f->field) >> 8 * i);
	}
	m->bytes += bytes;
	m->records++;
	return true;
}

size_t collect_flows_ipfix_take(struct collect_flows_ipfix *m)
{
	if (!m->records)
		return 0;
	dta_put16(m->at + 2, (uint16_t)m->bytes);
	dta_put16(m->at + m->data + 2, (uint16_t)(m->bytes - m->data));
	m->sequence += m->records;
	m->records = 0;
	return m->bytes;
}
