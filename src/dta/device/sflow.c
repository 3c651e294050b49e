// SPDX-License-Identifier: Apache-2.0
/*
 * sflow.c - decoder of sFlow version 5 (sflow.org, "sFlow Version 5", 2004, with its errata; "sFlow
 * Dropped Packet Notification Structures", 2020). Each structure states its length, so unknown
 * structures are skipped. A flow sample becomes a DTA_RECORD_SAMPLE scaled by its rate.
 */
#include <stdlib.h>
#include <string.h>

#include "dta/store/hash.h"
#include "dta/wire/endian.h"
#include "frame.h"
#include "streams.h"

#define EXPORTERS 1024u /* agents and sub-agents */
#define STREAMS	  8192u /* sample streams; each port has a flow and a counter stream */

enum { SAMPLE_FLOW = 1, SAMPLE_COUNTERS, SAMPLE_FLOW_WIDE, SAMPLE_COUNTERS_WIDE, SAMPLE_DISCARDED };

enum flow_format {
	FLOW_RAW = 1,
	FLOW_ETHERNET = 2,
	FLOW_IPV4 = 3,
	FLOW_IPV6 = 4,
	FLOW_SWITCH = 1001,
	FLOW_ROUTER = 1002,
	FLOW_GATEWAY = 1003,
	FLOW_MPLS = 1006,
	FLOW_NAT = 1007,
	FLOW_NAT_PORT = 1020,
	FLOW_VNI_EGRESS = 1029,
	FLOW_VNI_INGRESS = 1030
};

/* Ethernet types by header protocol; 0 means unsupported. */
static const uint16_t header_types[] = {
	[1] = DTA_ETHERTYPE_ETHERNET, [7] = DTA_ETHERTYPE_PPP,
	[11] = DTA_ETHERTYPE_IPV4,    [12] = DTA_ETHERTYPE_IPV6,
	[13] = DTA_ETHERTYPE_MPLS,    [14] = DTA_ETHERTYPE_PPP /* POS */};

struct sflow {
	struct dta_decoder decoder;
	struct dta_streams *exporters; /* known exporters, by address and sub-agent */
	struct dta_streams *streams;
	uint64_t uncounted; /* datagrams that could not be checked for loss */
	struct dta_record record;
};

struct sflow_part { /* the unread rest of a datagram or of a structure */
	const uint8_t *at;
	size_t bytes;
};

struct sflow_datagram {
	struct sflow *s;
	struct in6_addr agent;
	uint32_t sub_agent;
	uint64_t now_ns;
};

static uint32_t take32(struct sflow_part *p)
{
	const uint32_t n = dta_get32(p->at);

	p->at += 4;
	p->bytes -= 4;
	return n;
}

/* Takes opaque data, which XDR pads to a multiple of 4 bytes. */
static bool take_part(struct sflow_part *p, uint32_t bytes, struct sflow_part *out)
{
	const uint64_t padded = ((uint64_t)bytes + 3) & ~UINT64_C(3);

	if (padded > p->bytes)
		return false;
	*out = (struct sflow_part){p->at, bytes};
	p->at += padded;
	p->bytes -= padded;
	return true;
}

/* Takes the next structure, which is preceded by its format and its length. */
static enum dta_device_refusal take_structure(struct sflow_part *p, uint32_t *format,
					      struct sflow_part *out)
{
	if (p->bytes < 8)
		return DTA_DEVICE_TRUNCATED;
	*format = take32(p);
	return take_part(p, take32(p), out) ? DTA_DEVICE_FINE : DTA_DEVICE_BAD_LENGTH;
}

/*
 * Takes an address. Sets *known if the address type is known and *out is set. Returns false if the
 * address is truncated.
 */
static bool take_address(struct sflow_part *p, struct in6_addr *out, bool *known)
{
	uint32_t type;
	size_t bytes;

	if (p->bytes < 4)
		return false;
	type = take32(p);
	*known = type == 1 || type == 2;
	bytes = type == 1 ? 4 : type == 2 ? 16 : 0;
	if (type > 2 || p->bytes < bytes)
		return false;
	if (*known)
		*out = base_mapped(p->at, bytes);
	p->at += bytes;
	p->bytes -= bytes;
	return true;
}

/* ---- flow records ---- */

struct sflow_frame {
	uint64_t length; /* length of the frame; 0 means not known */
	bool raw;	 /* the sample contains the raw header */
};

static bool read_raw(struct dta_record *r, struct sflow_part p, struct sflow_frame *f)
{
	uint32_t protocol;
	struct sflow_part header;

	if (p.bytes < 16)
		return false;
	protocol = take32(&p);
	f->length = take32(&p);
	take32(&p); /* number of bytes stripped from the packet before sampling */
	if (!take_part(&p, take32(&p), &header))
		return false;
	f->raw = true;
	if (protocol < sizeof(header_types) / sizeof(*header_types))
		dta_frame_parse(r, header_types[protocol], header.at, header.bytes,
				&(struct dta_frame){0});
	return true;
}

/* Reads "sampled_ipv4" or "sampled_ipv6", a summary sent in place of the packet's header. */
static bool read_ip(struct dta_record *r, const struct sflow_part *p, struct sflow_frame *f,
		    uint32_t format)
{
	const size_t address = format == FLOW_IPV4 ? 4 : 16;
	const uint8_t *after = p->at + 8 + 2 * address;

	if (p->bytes < 24 + 2 * address)
		return false;
	if (!f->length)
		f->length = dta_get32(p->at);
	if (dta_record_has(r, DTA_FIELD_SOURCE)) /* the raw header takes precedence */
		return true;
	dta_record_set(r, DTA_FIELD_IP_VERSION, format == FLOW_IPV4 ? 4 : 6);
	dta_record_set_address(r, DTA_FIELD_SOURCE, p->at + 8, address);
	dta_record_set_address(r, DTA_FIELD_DESTINATION, p->at + 8 + address, address);
	dta_record_set(r, DTA_FIELD_SOURCE_PORT, dta_get32(after) & 0xffff);
	dta_record_set(r, DTA_FIELD_DESTINATION_PORT, dta_get32(after + 4) & 0xffff);
	dta_record_set_protocol(r, dta_get32(p->at + 4) & 0xff);
	dta_record_set(r, DTA_FIELD_TCP_FLAGS, dta_get32(after + 8) & 0xff);
	dta_record_set(r, DTA_FIELD_TOS, dta_get32(after + 12) & 0xff);
	dta_record_set(r, DTA_FIELD_DSCP, (dta_get32(after + 12) & 0xff) >> 2);
	return true;
}

static bool read_address(struct dta_record *r, struct sflow_part *p, enum dta_field f)
{
	bool known;

	if (!take_address(p, &r->address[f], &known))
		return false;
	if (known)
		r->has |= DTA_FIELD_BIT(f);
	return true;
}

/* "extended_router" */
static bool read_router(struct dta_record *r, struct sflow_part p)
{
	if (!read_address(r, &p, DTA_FIELD_NEXT_HOP) || p.bytes < 8)
		return false;
	dta_record_set(r, DTA_FIELD_SOURCE_PREFIX, take32(&p));
	dta_record_set(r, DTA_FIELD_DESTINATION_PREFIX, take32(&p));
	return true;
}

/* "extended_mpls": the packet's incoming labels, unless its header shows them. */
static bool read_mpls(struct dta_record *r, struct sflow_part p)
{
	const bool known = dta_record_has(r, DTA_FIELD_MPLS_LABEL);
	uint32_t labels;

	if (!read_address(r, &p, DTA_FIELD_NEXT_HOP) || p.bytes < 4)
		return false;
	labels = take32(&p);
	if (labels > p.bytes / 4)
		return false;
	for (uint32_t i = 0; i < labels && i < 3 && !known; i++)
		dta_record_set(r, (enum dta_field)(DTA_FIELD_MPLS_LABEL + i), take32(&p) >> 12);
	return true;
}

/* "extended_nat" */
static bool read_nat(struct dta_record *r, struct sflow_part p)
{
	return read_address(r, &p, DTA_FIELD_NAT_SOURCE) &&
	       read_address(r, &p, DTA_FIELD_NAT_DESTINATION);
}

/* "sampled_ethernet": length, addresses and type, each padded to a multiple of 4 bytes */
static bool read_ethernet_summary(struct dta_record *r, const struct sflow_part *p,
				  struct sflow_frame *f)
{
	if (p->bytes < 24)
		return false;
	if (!f->length)
		f->length = dta_get32(p->at);
	if (dta_record_has(r, DTA_FIELD_SOURCE_MAC))
		return true;
	dta_record_set(r, DTA_FIELD_SOURCE_MAC, dta_get64(p->at + 4) >> 16);
	dta_record_set(r, DTA_FIELD_DESTINATION_MAC, dta_get64(p->at + 12) >> 16);
	return true;
}

static bool set_two(struct dta_record *r, const struct sflow_part *p, enum dta_field first,
		    enum dta_field second)
{
	if (p->bytes < 8)
		return false;
	dta_record_set(r, first, dta_get32(p->at));
	dta_record_set(r, second, dta_get32(p->at + 4));
	return true;
}

/*
 * "extended_gateway": the last AS on the path is the destination's; an empty path means our own AS.
 */
static bool read_gateway(struct dta_record *r, struct sflow_part p)
{
	uint32_t own, segments, last;

	if (!read_address(r, &p, DTA_FIELD_NEXT_HOP) || p.bytes < 16)
		return false;
	own = last = take32(&p);
	dta_record_set(r, DTA_FIELD_SOURCE_AS, take32(&p));
	dta_record_set(r, DTA_FIELD_PREVIOUS_AS, take32(&p));
	for (segments = take32(&p); segments; segments--) {
		uint32_t count;

		if (p.bytes < 8)
			return false;
		take32(&p); /* type of the segment: set or sequence */
		count = take32(&p);
		if (count > p.bytes / 4)
			return false;
		if (count && !dta_record_has(r, DTA_FIELD_NEXT_AS))
			dta_record_set(r, DTA_FIELD_NEXT_AS, dta_get32(p.at));
		if (count)
			last = dta_get32(p.at + ((size_t)count - 1) * 4);
		p.at += (size_t)count * 4;
		p.bytes -= (size_t)count * 4;
	}
	if (!dta_record_has(r, DTA_FIELD_SOURCE_AS) || !r->number[DTA_FIELD_SOURCE_AS])
		dta_record_set(r, DTA_FIELD_SOURCE_AS, own);
	dta_record_set(r, DTA_FIELD_DESTINATION_AS, last);
	return true;
}

static bool read_flow_record(struct dta_record *r, const struct sflow_part *p, uint32_t format,
			     struct sflow_frame *f, bool *known)
{
	switch (format) {
	case FLOW_RAW:
		return read_raw(r, *p, f);
	case FLOW_ETHERNET:
		return read_ethernet_summary(r, p, f);
	case FLOW_IPV4:
	case FLOW_IPV6:
		return read_ip(r, p, f, format);
	case FLOW_SWITCH:
		if (p->bytes < 16)
			return false;
		if (!dta_record_has(r, DTA_FIELD_VLAN))
			dta_record_set(r, DTA_FIELD_VLAN, dta_get32(p->at));
		return true;
	case FLOW_ROUTER:
		return read_router(r, *p);
	case FLOW_GATEWAY:
		return read_gateway(r, *p);
	case FLOW_MPLS:
		return read_mpls(r, *p);
	case FLOW_NAT:
		return read_nat(r, *p);
	case FLOW_NAT_PORT:
		return set_two(r, p, DTA_FIELD_NAT_SOURCE_PORT, DTA_FIELD_NAT_DESTINATION_PORT);
	case FLOW_VNI_EGRESS:
	case FLOW_VNI_INGRESS:
		if (p->bytes < 4)
			return false;
		dta_record_set(r, DTA_FIELD_TUNNEL_ID, dta_get32(p->at));
		return true;
	default:
		*known = false;
		return true;
	}
}

/* Reads the records that fill the rest of a sample. */
static enum dta_device_refusal read_flow_records(const struct sflow_datagram *d,
						 struct sflow_part p, uint32_t count,
						 struct sflow_frame *f)
{
	struct dta_record *r = &d->s->record;

	while (count--) {
		struct sflow_part one;
		uint32_t format;
		bool known = true;
		const enum dta_device_refusal bad = take_structure(&p, &format, &one);

		if (bad)
			return bad;
		if (!read_flow_record(r, &one, format, f, &known))
			return DTA_DEVICE_BAD_LENGTH;
		d->s->decoder.stats.refused[DTA_DEVICE_UNSUPPORTED] += !known;
	}
	return DTA_DEVICE_FINE;
}

/* ---- samples ---- */

static void give_record(const struct sflow_datagram *d)
{
	struct dta_record *r = &d->s->record;

	r->address[DTA_FIELD_EXPORTER] = d->agent;
	r->has |= DTA_FIELD_BIT(DTA_FIELD_EXPORTER);
	dta_record_set(r, DTA_FIELD_DOMAIN, d->sub_agent);
	dta_decoder_give(&d->s->decoder, r);
}

/* A data source numbers its flow, counter and discard samples independently. */
static void count_lost(const struct sflow_datagram *d, uint32_t kind, uint32_t class,
		       uint32_t index, uint32_t number, uint32_t drops)
{
	struct dta_device_stats *stats = &d->s->decoder.stats;
	const uint32_t source[] = {kind, class, index, d->sub_agent};
	const uint64_t id = XXH3_64bits(source, sizeof(source));
	struct dta_stream *s = dta_streams_find(d->s->streams, &d->agent, id, d->now_ns);

	if (s)
		dta_stream_take(s, number, 32, drops, &stats->lost, &d->s->uncounted);
	else
		stats->refused[DTA_DEVICE_NO_ROOM]++;
}

struct sflow_port { /* an interface, or the reason why there is no interface */
	uint32_t format, value;
};

static struct sflow_port narrow(uint32_t n)
{
	return (struct sflow_port){n >> 30, n & 0x3fffffff};
}

static void set_interfaces(struct dta_record *r, struct sflow_port in, struct sflow_port out)
{
	if (in.format == 0 && in.value && in.value != 0x3fffffff)
		dta_record_set(r, DTA_FIELD_INGRESS, in.value);
	if (out.format == 0 && out.value && out.value != 0x3fffffff)
		dta_record_set(r, DTA_FIELD_EGRESS, out.value);
	else if (out.format == 1) /* value is the reason why the device dropped the packet */
		dta_record_set(r, DTA_FIELD_DROP_REASON, out.value);
}

/* Scales a sampled packet by its sampling rate and emits the record. */
static void give_flow(const struct sflow_datagram *d, const struct sflow_frame *f, uint32_t rate)
{
	struct dta_record *r = &d->s->record;

	if (f->raw && !dta_record_has(r, DTA_FIELD_SOURCE))
		d->s->decoder.stats.refused[DTA_DEVICE_NO_PACKET]++;
	dta_record_set(r, DTA_FIELD_PACKETS, rate);
	if (f->length)
		dta_record_set(r, DTA_FIELD_BYTES, f->length * rate);
	give_record(d);
}

static enum dta_device_refusal read_flow_sample(const struct sflow_datagram *d, struct sflow_part p,
						bool wide)
{
	struct dta_record *r = &d->s->record;
	struct sflow_port in = {0}, out = {0};
	struct sflow_frame f = {0};
	uint32_t number, class, index, rate, drops, count;
	enum dta_device_refusal bad;

	if (p.bytes < (wide ? 44u : 32u))
		return DTA_DEVICE_TRUNCATED;
	number = take32(&p);
	class = wide ? take32(&p) : p.at[0];
	index = take32(&p) & (wide ? UINT32_MAX : 0xffffff);
	rate = take32(&p);
	take32(&p); /* size of the packet pool that the sample was taken from */
	drops = take32(&p);
	if (wide) {
		in.format = take32(&p);
		in.value = take32(&p);
		out.format = take32(&p);
		out.value = take32(&p);
	} else {
		in = narrow(take32(&p));
		out = narrow(take32(&p));
	}
	count = take32(&p);
	count_lost(d, SAMPLE_FLOW, class, index, number, drops);
	r->has = 0;
	r->kind = DTA_RECORD_SAMPLE;
	set_interfaces(r, in, out);
	bad = read_flow_records(d, p, count, &f);
	if (bad)
		return bad;
	if (!rate)
		rate = 1; /* the agent does not sample */
	dta_record_set(r, DTA_FIELD_SAMPLING, rate);
	give_flow(d, &f, rate);
	return DTA_DEVICE_FINE;
}

static enum dta_device_refusal read_discarded(const struct sflow_datagram *d, struct sflow_part p)
{
	struct dta_record *r = &d->s->record;
	struct sflow_frame f = {0};
	uint32_t number, class, index, drops, in, out, count;
	enum dta_device_refusal bad;

	if (p.bytes < 32)
		return DTA_DEVICE_TRUNCATED;
	number = take32(&p);
	class = take32(&p);
	index = take32(&p);
	drops = take32(&p);
	in = take32(&p);
	out = take32(&p);
	r->has = 0;
	r->kind = DTA_RECORD_DROP;
	dta_record_set(r, DTA_FIELD_DROP_REASON, take32(&p));
	count = take32(&p);
	count_lost(d, SAMPLE_DISCARDED, class, index, number, drops);
	set_interfaces(r, (struct sflow_port){0, in}, (struct sflow_port){0, out});
	bad = read_flow_records(d, p, count, &f);
	if (!bad)
		give_flow(d, &f, 1);
	return bad;
}

/* All bits set means that the device does not have this counter. */
static void set_counter32(struct dta_record *r, enum dta_field field, const uint8_t *p)
{
	if (dta_get32(p) != UINT32_MAX)
		dta_record_set(r, field, dta_get32(p));
}

static void set_counter64(struct dta_record *r, enum dta_field field, const uint8_t *p)
{
	if (dta_get64(p) != UINT64_MAX)
		dta_record_set(r, field, dta_get64(p));
}

/*
 * Devices count unicast, multicast and broadcast packets separately. A sum of 32-bit counters has
 * 32 bits, too, so that it increases steadily when one of them wraps.
 */
static void set_packets(struct dta_record *r, enum dta_field field, const uint8_t *p)
{
	uint32_t sum = 0;

	if (dta_get32(p) == UINT32_MAX)
		return;
	for (int i = 0; i < 3; i++)
		sum += dta_get32(p + 4 * i) == UINT32_MAX ? 0 : dta_get32(p + 4 * i);
	dta_record_set(r, field, sum);
}

/* "if_counters" */
static bool read_interface(struct dta_record *r, const struct sflow_part *p)
{
	if (p->bytes < 88)
		return false;
	dta_record_set(r, DTA_FIELD_INTERFACE, dta_get32(p->at));
	if (dta_get64(p->at + 8))
		set_counter64(r, DTA_FIELD_SPEED, p->at + 8);
	set_counter64(r, DTA_FIELD_IN_BYTES, p->at + 24);
	set_packets(r, DTA_FIELD_IN_PACKETS, p->at + 32);
	set_counter32(r, DTA_FIELD_IN_DROPS, p->at + 44);
	set_counter32(r, DTA_FIELD_IN_ERRORS, p->at + 48);
	set_counter64(r, DTA_FIELD_OUT_BYTES, p->at + 56);
	set_packets(r, DTA_FIELD_OUT_PACKETS, p->at + 64);
	set_counter32(r, DTA_FIELD_OUT_DROPS, p->at + 76);
	set_counter32(r, DTA_FIELD_OUT_ERRORS, p->at + 80);
	return true;
}

static void set_errors(struct dta_record *r, enum dta_field field, const uint8_t *p,
		       const uint8_t counters[5])
{
	uint32_t sum = 0;

	for (int i = 0; i < 5; i++) {
		const uint32_t n = dta_get32(p + 4u * counters[i]);

		if (n == UINT32_MAX)
			return;
		sum += n;
	}
	if (!dta_record_has(r, field))
		dta_record_set(r, field, sum);
}

/* The "ethernet_counters" that sum up to ifInErrors and ifOutErrors (RFC 3635, section 3.2.6). */
static bool read_ethernet(struct dta_record *r, const struct sflow_part *p)
{
	static const uint8_t in[] = {0, 1, 10, 11, 12}, out[] = {4, 6, 7, 8, 9};

	if (p->bytes < 52)
		return false;
	set_errors(r, DTA_FIELD_IN_ERRORS, p->at, in);
	set_errors(r, DTA_FIELD_OUT_ERRORS, p->at, out);
	return true;
}

static enum dta_device_refusal read_counter_sample(const struct sflow_datagram *d,
						   struct sflow_part p, bool wide)
{
	struct dta_record *r = &d->s->record;
	uint32_t number, class, index, count;
	bool interface = false;

	if (p.bytes < (wide ? 16u : 12u))
		return DTA_DEVICE_TRUNCATED;
	number = take32(&p);
	class = wide ? take32(&p) : p.at[0];
	index = take32(&p) & (wide ? UINT32_MAX : 0xffffff);
	count = take32(&p);
	count_lost(d, SAMPLE_COUNTERS, class, index, number, 0);
	r->has = 0;
	r->kind = DTA_RECORD_COUNTERS;
	while (count--) {
		struct sflow_part one;
		uint32_t format;
		const enum dta_device_refusal bad = take_structure(&p, &format, &one);

		if (bad)
			return bad;
		if (format == 1) {
			interface = true;
			if (!read_interface(r, &one))
				return DTA_DEVICE_BAD_LENGTH;
		} else if (format == 2) {
			if (!read_ethernet(r, &one))
				return DTA_DEVICE_BAD_LENGTH;
		} else {
			d->s->decoder.stats.refused[DTA_DEVICE_UNSUPPORTED]++;
		}
	}
	if (interface)
		give_record(d);
	return DTA_DEVICE_FINE;
}

static enum dta_device_refusal read_sample(const struct sflow_datagram *d, struct sflow_part p,
					   uint32_t format)
{
	switch (format) {
	case SAMPLE_FLOW:
	case SAMPLE_FLOW_WIDE:
		return read_flow_sample(d, p, format == SAMPLE_FLOW_WIDE);
	case SAMPLE_COUNTERS:
	case SAMPLE_COUNTERS_WIDE:
		return read_counter_sample(d, p, format == SAMPLE_COUNTERS_WIDE);
	case SAMPLE_DISCARDED:
		return read_discarded(d, p);
	default:
		return DTA_DEVICE_UNSUPPORTED;
	}
}

/* ---- datagrams ---- */

static enum dta_device_refusal sflow_take(struct dta_decoder *decoder,
					  const struct dta_datagram *in, uint64_t now_ns)
{
	struct sflow_datagram d = {.s = (struct sflow *)decoder, .now_ns = now_ns};
	struct dta_device_stats *stats = &decoder->stats;
	struct sflow_part p = {in->data, in->bytes};
	struct dta_stream *exporter;
	uint32_t number, samples;
	bool known;

	if (p.bytes < 4)
		return DTA_DEVICE_TRUNCATED;
	if (take32(&p) != 5)
		return DTA_DEVICE_BAD_VERSION;
	if (!take_address(&p, &d.agent, &known) || p.bytes < 16)
		return DTA_DEVICE_TRUNCATED;
	if (!known)
		d.agent = in->address;
	d.sub_agent = take32(&p);
	number = take32(&p);
	take32(&p); /* uptime in ms */
	samples = take32(&p);
	exporter = dta_streams_find(d.s->exporters, &d.agent, d.sub_agent, d.now_ns);
	if (exporter)
		dta_stream_take(exporter, number, 32, 0, &d.s->uncounted, &stats->restarts);
	else
		stats->refused[DTA_DEVICE_NO_ROOM]++;
	stats->exporters = d.s->exporters->known;
	while (samples--) {
		struct sflow_part one;
		uint32_t format;
		enum dta_device_refusal bad = take_structure(&p, &format, &one);

		if (bad)
			return bad;
		bad = read_sample(&d, one, format);
		if (bad)
			stats->refused[bad]++;
	}
	return DTA_DEVICE_FINE;
}

static void sflow_end(struct dta_decoder *decoder)
{
	struct sflow *s = (struct sflow *)decoder;

	if (!s)
		return;
	free(s->streams);
	free(s->exporters);
	free(s);
}

static struct dta_decoder *sflow_make(struct dta_paths *none)
{
	struct sflow *s = calloc(1, sizeof(*s));

	(void)none;
	if (!s)
		return NULL;
	s->exporters = dta_streams_make(EXPORTERS);
	s->streams = dta_streams_make(STREAMS);
	if (s->exporters && s->streams)
		return &s->decoder;
	sflow_end(&s->decoder);
	return NULL;
}

const struct dta_decoder_ops dta_decoder_sflow = {
	.name = "sflow",
	.port = 6343,
	.make = sflow_make,
	.take = sflow_take,
	.end = sflow_end,
};
