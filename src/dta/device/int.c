// SPDX-License-Identifier: Apache-2.0
/*
 * int.c - decoder for telemetry reports from switches: P4.org, "Telemetry Report Format
 * Specification" 1.0 (2018) and 2.0 (2020), and the INT-MD stack in the reported packet ("In-band
 * Network Telemetry (INT) Dataplane Specification" 1.0, 2.0 and 2.1). INT-XD and INT-MX report each
 * hop separately and need no stack. A stack follows TCP or UDP. No port and no DSCP value is
 * assigned to INT; a stack is therefore recognised by its form, and only in reports of tracked
 * flows.
 */
#include <netinet/in.h>
#include <stdlib.h>

#include "dta/wire/endian.h"
#include "frame.h"
#include "paths.h"
#include "streams.h"

#define STREAMS 4096u /* streams, one per subsystem of a node */

enum inner { INNER_NONE, INNER_TLV, INNER_DOMAIN, INNER_ETHERNET, INNER_IPV4, INNER_IPV6 };

/* Meanings of the bits of an instruction bitmap. */
enum metadata {
	MD_SKIP, /* reserved or not used here */
	MD_NODE,
	MD_INTERFACES,
	MD_LATENCY,
	MD_QUEUE,
	MD_INGRESS_TIME,
	MD_EGRESS_TIME,
	MD_INTERFACES_2,
	MD_UTILIZATION,
	MD_BUFFER,
	MD_DROP
};

/* The bits of an instruction bitmap, and the subset whose metadata has 8 bytes. */
struct layout {
	uint8_t meaning[16];
	uint16_t wide; /* bit i: the metadata of meaning[i] has 8 bytes */
	uint16_t bits; /* number of bits */
};

static const struct layout layout_stack_2 = {
	{MD_NODE, MD_INTERFACES, MD_LATENCY, MD_QUEUE, MD_INGRESS_TIME, MD_EGRESS_TIME,
	 MD_INTERFACES_2, MD_UTILIZATION, MD_BUFFER},
	1 << 4 | 1 << 5 | 1 << 6,
	16,
};
static const struct layout layout_report_2 = {
	{MD_SKIP, MD_INTERFACES, MD_LATENCY, MD_QUEUE, MD_INGRESS_TIME, MD_EGRESS_TIME,
	 MD_INTERFACES_2, MD_UTILIZATION, MD_BUFFER, [15] = MD_DROP},
	1 << 4 | 1 << 5 | 1 << 6,
	16,
};
static const struct layout layout_stack_1 = {
	{MD_NODE, MD_INTERFACES, MD_LATENCY, MD_QUEUE, MD_INGRESS_TIME, MD_EGRESS_TIME,
	 MD_INTERFACES_2, MD_UTILIZATION},
	1 << 6,
	16,
};
static const struct layout layout_report_1 = {
	{MD_INTERFACES, MD_LATENCY, MD_QUEUE, MD_EGRESS_TIME, MD_DROP, MD_UTILIZATION},
	0,
	6,
};

struct metadata_part { /* the metadata of one switch */
	const struct layout *layout;
	const uint8_t *at;
	uint16_t bitmap; /* the highest of the layout->bits bits is the instruction's first bit */
	size_t words;
};

struct int_stack {
	struct metadata_part first; /* metadata of the last switch that added to the stack */
	uint32_t hops, here;	    /* hops on the path; hops in the received piece */
	bool gaps;		    /* a switch could not add its metadata */
};

struct int_report {
	uint32_t node;
	bool dropped, tracked, intermediate;
	bool on_path; /* the node is part of the path even without metadata */
	struct metadata_part own;
	/* identifies the packet: every switch reports the same value; 0 means unknown */
	uint64_t id;
	uint32_t ingress_time; /* in version 1.0, the report header contains the ingress time */
	bool timed;
};

struct int_decoder {
	struct dta_decoder decoder;
	struct dta_streams *streams;
	struct dta_paths *paths, *own_paths;
	struct dta_record record;
};

struct int_datagram {
	struct int_decoder *s;
	struct in6_addr sender;
	uint64_t now_ns;
};

static bool has_bit(const struct metadata_part *m, unsigned int i)
{
	return m->bitmap >> (m->layout->bits - 1 - i) & 1;
}

static size_t words_of(const struct metadata_part *m)
{
	size_t words = 0;

	for (unsigned int i = 0; i < m->layout->bits; i++)
		words += has_bit(m, i) * (1u + (m->layout->wide >> i & 1));
	return words;
}

/*
 * Sets the values that the switch measured; all ones means that the value is not available. Returns
 * the time at which the packet entered the switch, or 0.
 */
static uint64_t set_metadata(struct dta_record *r, const struct metadata_part *m,
			     const struct int_report *in)
{
	uint64_t entered = in ? in->ingress_time : 0, left = 0;
	bool has_entered = in && in->timed, has_left = false, narrow = has_entered;
	const uint8_t *p = m->at;

	for (unsigned int i = 0; i < m->layout->bits; i++) {
		const bool wide = m->layout->wide >> i & 1;
		const uint32_t n = has_bit(m, i) ? dta_get32(p) : 0;
		const bool known = has_bit(m, i) &&
				   (n != UINT32_MAX || (wide && dta_get32(p + 4) != UINT32_MAX));

		if (known) {
			switch ((enum metadata)m->layout->meaning[i]) {
			case MD_SKIP:
				break;
			case MD_NODE:
				dta_record_set(r, DTA_FIELD_SWITCH, n);
				break;
			case MD_INTERFACES:
				dta_record_set(r, DTA_FIELD_INGRESS, n >> 16);
				dta_record_set(r, DTA_FIELD_EGRESS, n & 0xffff);
				break;
			case MD_LATENCY:
				dta_record_set(r, DTA_FIELD_LATENCY_NS, n);
				break;
			case MD_QUEUE:
				dta_record_set(r, DTA_FIELD_QUEUE, n >> 24);
				dta_record_set(r, DTA_FIELD_QUEUE_DEPTH, n & 0xffffff);
				break;
			case MD_INGRESS_TIME:
				entered = wide ? dta_get64(p) : n;
				has_entered = true;
				narrow = !wide;
				break;
			case MD_EGRESS_TIME:
				left = wide ? dta_get64(p) : n;
				has_left = true;
				break;
			case MD_INTERFACES_2: /* logical interfaces of the ports */
				if (dta_record_has(r, DTA_FIELD_INGRESS))
					break;
				dta_record_set(r, DTA_FIELD_INGRESS, n);
				dta_record_set(r, DTA_FIELD_EGRESS, dta_get32(p + 4));
				break;
			case MD_UTILIZATION:
				dta_record_set(r, DTA_FIELD_UTILIZATION, n);
				break;
			case MD_BUFFER:
				dta_record_set(r, DTA_FIELD_BUFFER, n & 0xffffff);
				break;
			case MD_DROP:
				dta_record_set(r, DTA_FIELD_QUEUE, n >> 24);
				dta_record_set(r, DTA_FIELD_DROP_REASON, n >> 16 & 0xff);
				break;
			}
		}
		p += has_bit(m, i) * (wide ? 8 : 4);
	}
	if (!dta_record_has(r, DTA_FIELD_LATENCY_NS) && has_entered && has_left) {
		const uint64_t took = narrow ? (uint32_t)(left - entered) : left - entered;

		if (took < UINT64_C(1) << 63)
			dta_record_set(r, DTA_FIELD_LATENCY_NS, took);
	}
	return has_entered ? entered : 0;
}

/* ---- the INT stack in a packet ---- */

struct int_shim {
	uint32_t words;	   /* length of the INT header and stack in words */
	uint8_t next;	   /* 0 or 1: the packet's own payload follows; 2: another header */
	uint16_t original; /* original port, protocol or DSCP, depending on next */
	bool stack;	   /* INT-MD rather than INT-MX */
	uint8_t version;   /* version of the INT header, implied by the shim's form */
};

/* INT 2.1, section 5.7.2; INT 1.0, section 4.6.1, where the length includes the shim. */
static bool read_shim(const uint8_t *p, struct int_shim *out)
{
	if (p[0] == 1 && !p[1] && p[2] >= 3 && !(p[3] & 3)) {
		*out = (struct int_shim){
			.words = p[2] - 1u, .original = p[3] >> 2, .stack = true, .version = 1};
		return true;
	}
	*out = (struct int_shim){.words = p[1],
				 .next = p[0] >> 2 & 3,
				 .original = dta_get16(p + 2),
				 .stack = p[0] >> 4 == 1,
				 .version = 2};
	if (out->next == 0)
		out->original = p[3] >> 2;
	else if (out->next == 2)
		out->original = p[3];
	return (p[0] >> 4 == 1 || p[0] >> 4 == 3) && !(p[0] & 3) && out->next < 3 &&
	       out->words >= 3 && (out->next || (!p[2] && !(p[3] & 3))) &&
	       (out->next != 2 || !p[2]);
}

/*
 * INT 2.1, sections 5.8 and 5.9; INT 1.0, section 4.7. p has the shim's length, truncated to bytes.
 */
static bool read_header(const uint8_t *p, size_t bytes, const struct int_shim *shim,
			struct int_stack *out)
{
	const uint32_t head = shim->version == 1 ? 2 : 3;
	uint32_t hop;

	if (bytes < head * 4u || p[0] >> 4 != shim->version)
		return false;
	if (!shim->stack) /* INT-MX has instructions but no stack */
		return !(p[0] & 7) && !p[1];
	/* Reserved bits: 7 and 3 in version 1, otherwise 12 after D, E and M. */
	if (shim->version == 1 ? (p[1] & 0x7f) || p[2] >> 5 || dta_get16(p + 6)
			       : (p[0] & 1) || p[1] || p[2] >> 5)
		return false;
	hop = p[2] & 31;
	out->gaps = shim->version == 1 ? (p[0] & 1) || p[1] >> 7 : (p[0] & 6) != 0;
	out->first = (struct metadata_part){
		.layout = shim->version == 1 ? &layout_stack_1 : &layout_stack_2,
		.at = p + head * 4,
		.bitmap = dta_get16(p + 4),
		.words = hop,
	};
	if (!hop || words_of(&out->first) > hop || shim->words < head)
		return false;
	/* The remaining words are domain-specific; only the source adds them, at the end. */
	out->hops = (shim->words - head) / hop;
	out->here = (uint32_t)((bytes - head * 4u) / 4 / hop);
	if (out->here > out->hops)
		out->here = out->hops;
	return true;
}

/* Finds a stack after the transport header or before the TCP options. */
static bool find_stack(struct dta_record *r, const struct dta_frame *f, struct int_stack *out)
{
	size_t behind[2] = {8, 8};
	struct int_shim shim;

	*out = (struct int_stack){0};
	if (f->protocol == IPPROTO_TCP) {
		if (f->above_bytes < 20)
			return false;
		behind[0] = (size_t)(f->above[12] >> 4) * 4;
		behind[1] = 20;
	} else if (f->protocol != IPPROTO_UDP) {
		return false;
	}
	for (int i = 0; i < 2; i++) {
		const uint8_t *p = f->above + behind[i];
		struct dta_frame next = {.protocol = 0};
		size_t bytes;

		if (f->above_bytes < behind[i] + 4 || !read_shim(p, &shim))
			continue;
		bytes = f->above_bytes - behind[i] - 4;
		if (bytes > shim.words * 4u) {
			next.above = p + 4 + shim.words * 4u;
			next.above_bytes = bytes - shim.words * 4u;
			bytes = shim.words * 4u;
		}
		if (!read_header(p + 4, bytes, &shim, out))
			continue;
		if (shim.next == 1) {
			dta_record_set(r, DTA_FIELD_DESTINATION_PORT, shim.original);
		} else if (shim.next == 2) {
			r->has &= ~(DTA_FIELD_BIT(DTA_FIELD_SOURCE_PORT) |
				    DTA_FIELD_BIT(DTA_FIELD_DESTINATION_PORT) |
				    DTA_FIELD_BIT(DTA_FIELD_TCP_FLAGS) |
				    DTA_FIELD_BIT(DTA_FIELD_ICMP));
			next.protocol = (uint8_t)shim.original;
			dta_record_set_protocol(r, next.protocol);
			if (next.above)
				dta_frame_parse_above(r, &next);
		} else if (shim.original) { /* DSCP that the INT value replaced */
			dta_record_set(r, DTA_FIELD_DSCP, shim.original);
		}
		return true;
	}
	return false;
}

/* ---- reports ---- */

static void give_record(const struct int_datagram *d, enum dta_record_kind kind)
{
	d->s->record.kind = kind;
	dta_decoder_give(&d->s->decoder, &d->s->record);
}

/* Holds back a hop that its switch reported alone, until other switches report the packet. */
static bool keep_hop(const struct int_datagram *d, const struct int_report *report,
		     uint64_t entered)
{
	if (!report->id || report->dropped || !dta_record_has(&d->s->record, DTA_FIELD_SOURCE))
		return false;
	d->s->record.kind = DTA_RECORD_HOP;
	return dta_paths_take(d->s->paths, &d->s->decoder, &d->s->record, report->id, entered,
			      d->now_ns);
}

/* Whether this node was the last to add to the stack; false if the stack has no node IDs. */
static bool last_is(const struct int_stack *stack, uint32_t node)
{
	return stack->here && has_bit(&stack->first, 0) && dta_get32(stack->first.at) == node;
}

/*
 * Emits the hops in path order: first the hops in the stack, which starts with the last hop, then
 * the reporting switch unless it was the last to add to the stack.
 */
static void give_report(const struct int_datagram *d, const struct int_report *report,
			const struct int_stack *stack)
{
	struct dta_record *r = &d->s->record;
	const bool itself = report->own.words || report->dropped || report->on_path || !stack->hops;
	const bool merged = itself && last_is(stack, report->node);
	const uint32_t hops = stack->hops + (itself && !merged);
	dta_field_set flow;
	uint64_t entered;

	r->address[DTA_FIELD_EXPORTER] = d->sender;
	r->has |= DTA_FIELD_BIT(DTA_FIELD_EXPORTER);
	/*
	 * The number of hops is unknown while the packet is in transit or if switches are missing.
	 */
	if (stack->hops && !report->dropped && !report->intermediate && !stack->gaps)
		dta_record_set(r, DTA_FIELD_HOPS, hops);
	flow = r->has;
	for (uint32_t i = stack->here; i--;) {
		struct metadata_part one = stack->first;

		one.at += i * one.words * 4;
		r->has = flow;
		if (!stack->gaps)
			dta_record_set(r, DTA_FIELD_HOP, stack->hops - 1 - i);
		set_metadata(r, &one, NULL);
		if (i || !merged)
			give_record(d, DTA_RECORD_HOP);
	}
	if (!itself)
		return;
	if (!merged) {
		r->has = flow;
		if (stack->hops && !stack->gaps)
			dta_record_set(r, DTA_FIELD_HOP, stack->hops);
	}
	dta_record_set(r, DTA_FIELD_SWITCH, report->node);
	entered = set_metadata(r, &report->own, report);
	if (!stack->hops && keep_hop(d, report, entered))
		return;
	give_record(d, report->dropped ? DTA_RECORD_DROP : DTA_RECORD_HOP);
}

/*
 * Returns the identification field of IPv4; failing that, TCP's sequence number or UDP's checksum.
 * INT-MX changes neither of the first two.
 */
static uint64_t identify_packet(const struct dta_frame *f)
{
	if (f->id)
		return f->id;
	if (f->above_bytes < 8)
		return 0;
	return f->protocol == IPPROTO_TCP   ? dta_get32(f->above + 4)
	       : f->protocol == IPPROTO_UDP ? dta_get16(f->above + 6)
					    : 0;
}

static void read_packet(const struct int_datagram *d, struct int_report *report, enum inner inner,
			const uint8_t *p, size_t bytes, struct int_stack *stack)
{
	struct dta_record *r = &d->s->record;
	struct dta_frame f;

	dta_frame_parse(r,
			inner == INNER_ETHERNET ? DTA_ETHERTYPE_ETHERNET
			: inner == INNER_IPV4	? DTA_ETHERTYPE_IPV4
						: DTA_ETHERTYPE_IPV6,
			p, bytes, &f);
	report->id = identify_packet(&f);
	if (report->tracked && f.above && find_stack(r, &f, stack) && stack->here < stack->hops)
		d->s->decoder.stats.refused[DTA_DEVICE_TRUNCATED]++;
}

/* Reads the first packet in the TLVs. */
static enum dta_device_refusal read_tlvs(const struct int_datagram *d, struct int_report *report,
					 const uint8_t *p, size_t bytes, struct int_stack *stack)
{
	static const uint8_t inner[16] = {INNER_DOMAIN, INNER_ETHERNET, INNER_IPV4, INNER_IPV6};

	while (bytes >= 4) {
		const size_t length = (size_t)p[1] * 4;
		const enum inner type = inner[p[0] >> 4];

		if (bytes - 4 < length)
			return DTA_DEVICE_BAD_LENGTH;
		if (type >= INNER_ETHERNET) {
			read_packet(d, report, type, p + 4, length, stack);
			break;
		}
		p += 4 + length;
		bytes -= 4 + length;
	}
	return DTA_DEVICE_FINE;
}

/* Reads a report of version 2.0 after its first word. */
static enum dta_device_refusal read_report(const struct int_datagram *d, uint32_t word,
					   uint32_t node, const uint8_t *p, size_t bytes)
{
	struct int_report report = {.node = node,
				    .dropped = word >> 7 & 1,
				    .tracked = word >> 5 & 1,
				    .intermediate = word >> 4 & 1,
				    .own = {.layout = &layout_report_2, .at = p}};
	const enum inner inner = word >> 24 & 15;
	struct int_stack stack = {0};
	enum dta_device_refusal bad = DTA_DEVICE_FINE;

	d->s->record.has = 0;
	switch (word >> 28) {
	case 0: /* only the packet */
		break;
	case 1:
		report.own.words = word >> 8 & 0xff;
		if (bytes < 8 + report.own.words * 4)
			return DTA_DEVICE_BAD_LENGTH;
		report.own.bitmap = dta_get16(p);
		report.own.at = p + 8;
		if (words_of(&report.own) > report.own.words)
			return DTA_DEVICE_BAD_LENGTH;
		p += 8 + report.own.words * 4;
		bytes -= 8 + report.own.words * 4;
		break;
	default: /* IOAM, whose contents no version defines, and reserved values */
		return DTA_DEVICE_UNSUPPORTED;
	}
	if (inner == INNER_TLV)
		bad = read_tlvs(d, &report, p, bytes, &stack);
	else if (inner >= INNER_ETHERNET && inner <= INNER_IPV6)
		read_packet(d, &report, inner, p, bytes, &stack);
	else if (inner > INNER_IPV6)
		bad = DTA_DEVICE_UNSUPPORTED;
	give_report(d, &report, &stack);
	return bad;
}

static void count_lost(const struct int_datagram *d, uint32_t node, uint32_t hardware,
		       uint32_t number, unsigned int bits)
{
	struct dta_device_stats *stats = &d->s->decoder.stats;
	struct dta_stream *s = dta_streams_find(d->s->streams, &d->sender,
						(uint64_t)node << 32 | hardware, d->now_ns);

	if (s)
		dta_stream_take(s, number, bits, 0, &stats->lost, &stats->restarts);
	else
		stats->refused[DTA_DEVICE_NO_ROOM]++;
	stats->exporters = d->s->streams->known;
}

static enum dta_device_refusal read_group(const struct int_datagram *d, const uint8_t *p,
					  size_t bytes)
{
	struct dta_device_stats *stats = &d->s->decoder.stats;
	uint32_t node;

	if (bytes < 8)
		return DTA_DEVICE_TRUNCATED;
	node = dta_get32(p + 4);
	count_lost(d, node, dta_get32(p) >> 22 & 63, dta_get32(p) & 0x3fffff, 22);
	for (p += 8, bytes -= 8; bytes >= 4;) {
		const uint32_t word = dta_get32(p);
		const size_t length = (size_t)(word >> 16 & 0xff) * 4;
		enum dta_device_refusal bad;

		if (bytes - 4 < length)
			return DTA_DEVICE_BAD_LENGTH;
		bad = read_report(d, word, node, p + 4, length);
		if (bad)
			stats->refused[bad]++;
		p += 4 + length;
		bytes -= 4 + length;
	}
	return bytes ? DTA_DEVICE_TRUNCATED : DTA_DEVICE_FINE;
}

/* Version 1.0: one report, whose packet extends to the end of the datagram. */
static enum dta_device_refusal read_report_1(const struct int_datagram *d, const uint8_t *p,
					     size_t bytes)
{
	static const uint8_t inner[8] = {INNER_ETHERNET, INNER_IPV4, INNER_IPV6};
	struct int_report report = {
		.own = {.layout = &layout_report_1}, .timed = true, .on_path = true};
	struct int_stack stack = {0};
	uint32_t word;
	size_t head;

	if (bytes < 16)
		return DTA_DEVICE_TRUNCATED;
	word = dta_get32(p);
	report.node = dta_get32(p + 4);
	report.dropped = word >> 8 & 1;
	report.tracked = word >> 6 & 1;
	report.ingress_time = dta_get32(p + 12);
	report.own.at = p + 16;
	report.own.bitmap = word >> 15 & 63;
	report.own.words = words_of(&report.own);
	count_lost(d, report.node, word & 63, dta_get32(p + 8), 32);
	/*
	 * Senders disagree on whether the length includes the metadata, so use the bitmap as well.
	 */
	head = (size_t)(word >> 24 & 15) * 4;
	if (head < 16 + report.own.words * 4)
		head = 16 + report.own.words * 4;
	if (bytes < head)
		return DTA_DEVICE_BAD_LENGTH;
	d->s->record.has = 0;
	if (inner[word >> 21 & 7] == INNER_NONE)
		return DTA_DEVICE_UNSUPPORTED;
	read_packet(d, &report, inner[word >> 21 & 7], p + head, bytes - head, &stack);
	give_report(d, &report, &stack);
	return DTA_DEVICE_FINE;
}

static enum dta_device_refusal int_take(struct dta_decoder *decoder, const struct dta_datagram *in,
					uint64_t now_ns)
{
	const struct int_datagram d = {
		.s = (struct int_decoder *)decoder, .sender = in->address, .now_ns = now_ns};

	if (!in->bytes)
		return DTA_DEVICE_TRUNCATED;
	switch (in->data[0] >> 4) {
	case 2:
		return read_group(&d, in->data, in->bytes);
	case 1:
		return read_report_1(&d, in->data, in->bytes);
	default:
		return DTA_DEVICE_BAD_VERSION;
	}
}

static void int_flush(struct dta_decoder *decoder, uint64_t now_ns)
{
	dta_paths_flush(((struct int_decoder *)decoder)->paths, decoder, now_ns);
}

static void int_end(struct dta_decoder *decoder)
{
	struct int_decoder *s = (struct int_decoder *)decoder;

	if (!s)
		return;
	free(s->streams);
	dta_paths_free(s->own_paths);
	free(s);
}

static struct dta_decoder *int_make(struct dta_paths *paths)
{
	struct int_decoder *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->streams = dta_streams_make(STREAMS);
	s->own_paths = paths ? NULL : dta_paths_new();
	s->paths = paths ? paths : s->own_paths;
	if (s->streams && s->paths)
		return &s->decoder;
	int_end(&s->decoder);
	return NULL;
}

const struct dta_decoder_ops dta_decoder_int = {
	.name = "int",
	.port = 32766,
	.make = int_make,
	.take = int_take,
	.flush = int_flush,
	.end = int_end,
};
