// SPDX-License-Identifier: Apache-2.0
/* template.c - compiles templates and decodes sets of records (template.h) */
#include "dta/device/template.h"

#include <errno.h>
#include <stdlib.h>

#include "dta/wire/endian.h"

#define FIELDS	   256u	   /* maximum number of fields per template */
#define VARIABLE   65535u  /* length that marks a variable-length field (RFC 7011, section 7) */
#define ENTERPRISE 0x8000u /* enterprise bit of an element's number (RFC 7011, section 3.2) */
#define NTP_EPOCH  UINT64_C(2208988800)
#define FIRST_DATA 256u /* smallest number of a template */

enum template_how { NUMBER, ADDRESS4, ADDRESS6, SKIP };

/* Copies length bytes at offset of the record to an offset of struct dta_template_work. */
struct template_op {
	/* VARIABLE if the record states the length; in that case every field has an op */
	uint16_t offset, length;
	uint16_t to;
	uint8_t how;
	uint8_t shift; /* for numbers: unused bits of the 64-bit word */
};

/* Processing of a record after its fields are copied. */
enum template_step {
	STEP_TOS = 1,
	STEP_VERSION = 2,
	STEP_TIMES = 4,
	STEP_SAMPLING = 8, /* the record states a sampling rate or names a sampler */
	STEP_BOTH = 16,	   /* this step and the following ones are needed by few exporters */
	STEP_ICMP = 32,
	STEP_COUNTS = 64,
	STEP_PORTS = 128,
};
#define STEPS_RARE (STEP_BOTH | STEP_ICMP | STEP_COUNTS | STEP_PORTS)

struct dta_template {
	struct dta_template *next;
	uint64_t seen_ns;
	uint64_t has;	/* fields of its records */
	uint32_t extra; /* bit i: enum dta_template_extra i is present */
	uint16_t id;
	uint16_t bytes; /* length of a record, or the minimum if it varies */
	uint16_t ops;	/* numbers, IPv4 addresses, IPv6 addresses; in any order if lengths vary */
	uint16_t numbers, v4;
	bool options, varies;
	uint8_t both; /* bit i: address i may have either version */
	uint8_t steps;
	struct template_op op[];
};

struct template_scratch {
	struct template_op op[FIELDS];
	struct dta_template t;
};

/* ---- the supported IANA elements; NetFlow 9 uses the same numbers ---- */

enum template_what { A_FIELD, AN_EXTRA, A_V4, A_V6 };

static const struct template_element {
	uint16_t id;
	uint8_t what;
	uint8_t index; /* index of the field, extra or address */
} elements[] = {
	{1, A_FIELD, DTA_FIELD_BYTES},		    /* octetDeltaCount */
	{2, A_FIELD, DTA_FIELD_PACKETS},	    /* packetDeltaCount */
	{4, A_FIELD, DTA_FIELD_PROTOCOL},	    /* protocolIdentifier */
	{5, AN_EXTRA, DTA_EXTRA_TOS},		    /* ipClassOfService */
	{6, A_FIELD, DTA_FIELD_TCP_FLAGS},	    /* tcpControlBits */
	{7, A_FIELD, DTA_FIELD_SOURCE_PORT},	    /* sourceTransportPort */
	{8, A_V4, DTA_FIELD_SOURCE},		    /* sourceIPv4Address */
	{10, A_FIELD, DTA_FIELD_INGRESS},	    /* ingressInterface */
	{11, A_FIELD, DTA_FIELD_DESTINATION_PORT},  /* destinationTransportPort */
	{12, A_V4, DTA_FIELD_DESTINATION},	    /* destinationIPv4Address */
	{14, A_FIELD, DTA_FIELD_EGRESS},	    /* egressInterface */
	{15, A_V4, DTA_FIELD_NEXT_HOP},		    /* ipNextHopIPv4Address */
	{16, A_FIELD, DTA_FIELD_SOURCE_AS},	    /* bgpSourceAsNumber */
	{17, A_FIELD, DTA_FIELD_DESTINATION_AS},    /* bgpDestinationAsNumber */
	{21, AN_EXTRA, DTA_EXTRA_END_UP},	    /* flowEndSysUpTime */
	{22, AN_EXTRA, DTA_EXTRA_START_UP},	    /* flowStartSysUpTime */
	{23, AN_EXTRA, DTA_EXTRA_OUT_BYTES},	    /* postOctetDeltaCount */
	{24, AN_EXTRA, DTA_EXTRA_OUT_PACKETS},	    /* postPacketDeltaCount */
	{27, A_V6, DTA_FIELD_SOURCE},		    /* sourceIPv6Address */
	{28, A_V6, DTA_FIELD_DESTINATION},	    /* destinationIPv6Address */
	{32, A_FIELD, DTA_FIELD_ICMP},		    /* icmpTypeCodeIPv4 */
	{34, AN_EXTRA, DTA_EXTRA_SAMPLING},	    /* samplingInterval */
	{48, AN_EXTRA, DTA_EXTRA_SELECTOR},	    /* samplerId */
	{50, AN_EXTRA, DTA_EXTRA_SAMPLING},	    /* samplerRandomInterval */
	{58, A_FIELD, DTA_FIELD_VLAN},		    /* vlanId */
	{60, A_FIELD, DTA_FIELD_IP_VERSION},	    /* ipVersion */
	{62, A_V6, DTA_FIELD_NEXT_HOP},		    /* ipNextHopIPv6Address */
	{85, AN_EXTRA, DTA_EXTRA_TOTAL_BYTES},	    /* octetTotalCount */
	{86, AN_EXTRA, DTA_EXTRA_TOTAL_PACKETS},    /* packetTotalCount */
	{139, A_FIELD, DTA_FIELD_ICMP},		    /* icmpTypeCodeIPv6 */
	{150, AN_EXTRA, DTA_EXTRA_START_S},	    /* flowStartSeconds */
	{151, AN_EXTRA, DTA_EXTRA_END_S},	    /* flowEndSeconds */
	{152, AN_EXTRA, DTA_EXTRA_START_MS},	    /* flowStartMilliseconds */
	{153, AN_EXTRA, DTA_EXTRA_END_MS},	    /* flowEndMilliseconds */
	{154, AN_EXTRA, DTA_EXTRA_START_NTP},	    /* flowStartMicroseconds */
	{155, AN_EXTRA, DTA_EXTRA_END_NTP},	    /* flowEndMicroseconds */
	{156, AN_EXTRA, DTA_EXTRA_START_NTP},	    /* flowStartNanoseconds */
	{157, AN_EXTRA, DTA_EXTRA_END_NTP},	    /* flowEndNanoseconds */
	{158, AN_EXTRA, DTA_EXTRA_START_BEFORE},    /* flowStartDeltaMicroseconds */
	{159, AN_EXTRA, DTA_EXTRA_END_BEFORE},	    /* flowEndDeltaMicroseconds */
	{160, AN_EXTRA, DTA_EXTRA_BOOT_MS},	    /* systemInitTimeMilliseconds */
	{176, AN_EXTRA, DTA_EXTRA_ICMP_TYPE},	    /* icmpTypeIPv4 */
	{177, AN_EXTRA, DTA_EXTRA_ICMP_CODE},	    /* icmpCodeIPv4 */
	{178, AN_EXTRA, DTA_EXTRA_ICMP_TYPE},	    /* icmpTypeIPv6 */
	{179, AN_EXTRA, DTA_EXTRA_ICMP_CODE},	    /* icmpCodeIPv6 */
	{180, A_FIELD, DTA_FIELD_SOURCE_PORT},	    /* udpSourcePort */
	{181, A_FIELD, DTA_FIELD_DESTINATION_PORT}, /* udpDestinationPort */
	{182, A_FIELD, DTA_FIELD_SOURCE_PORT},	    /* tcpSourcePort */
	{183, A_FIELD, DTA_FIELD_DESTINATION_PORT}, /* tcpDestinationPort */
	{195, A_FIELD, DTA_FIELD_DSCP},		    /* ipDiffServCodePoint */
	{243, A_FIELD, DTA_FIELD_VLAN},		    /* dot1qVlanId */
	{302, AN_EXTRA, DTA_EXTRA_SELECTOR},	    /* selectorId */
	{305, AN_EXTRA, DTA_EXTRA_SAMPLED},	    /* samplingPacketInterval */
	{306, AN_EXTRA, DTA_EXTRA_SPACE},	    /* samplingPacketSpace */
	{309, AN_EXTRA, DTA_EXTRA_SAMPLE_SIZE},	    /* samplingSize */
	{310, AN_EXTRA, DTA_EXTRA_POPULATION},	    /* samplingPopulation */
	{311, AN_EXTRA, DTA_EXTRA_PROBABILITY},	    /* samplingProbability */
};

static const struct template_element *find_element(uint16_t id)
{
	for (size_t i = 0; i < sizeof(elements) / sizeof(*elements); i++)
		if (elements[i].id == id)
			return &elements[i];
	return NULL;
}

/* ---- one record ---- */

static void copy_address(const struct template_op *op, const uint8_t *from,
			 struct dta_template_work *w)
{
	if (op->how == ADDRESS4) /* the prefix of the v4-mapped address is already present */
		memcpy((char *)w + op->to + 12, from, 4);
	else
		memcpy((char *)w + op->to, from, 16);
}

/*
 * Copies a field of a record with variable lengths; the caller has checked that the field lies in
 * the set.
 */
static void copy_field(const struct template_op *op, size_t length, const uint8_t *from,
		       struct dta_template_work *w)
{
	uint64_t n = 0;

	if (op->how == NUMBER && length <= 8) {
		for (size_t i = 0; i < length; i++)
			n = n << 8 | from[i];
		memcpy((char *)w + op->to, &n, sizeof(n));
	} else if ((op->how == ADDRESS4 && length == 4) || (op->how == ADDRESS6 && length == 16)) {
		copy_address(op, from, w);
	}
}

/*
 * Decodes a fixed-length record. A number is read as the 8 bytes that end with it. The read stays
 * inside the datagram, because the message header always precedes the record.
 */
static inline void read_fixed(const struct dta_template *t, const uint8_t *p,
			      struct dta_template_work *w)
{
	const struct template_op *op = t->op;

	for (; op < t->op + t->numbers; op++) {
		const uint64_t n = dta_get64(p + op->offset + op->length - 8) &
				   UINT64_MAX >> op->shift;

		memcpy((char *)w + op->to, &n, sizeof(n));
	}
	for (; op < t->op + t->v4; op++)
		memcpy((char *)w + op->to + 12, p + op->offset, 4);
	for (; op < t->op + t->ops; op++)
		memcpy((char *)w + op->to, p + op->offset, 16);
}

/*
 * Decodes a record with variable lengths. Returns its length, or 0 if the record exceeds the set.
 */
static size_t read_varying(const struct dta_template *t, const uint8_t *p, size_t bytes,
			   struct dta_template_work *w)
{
	size_t at = 0;

	for (const struct template_op *op = t->op; op < t->op + t->ops; op++) {
		size_t length = op->length;

		if (length == VARIABLE) {
			if (at == bytes)
				return 0;
			length = p[at++];
			if (length == 255) {
				if (bytes - at < 2)
					return 0;
				length = dta_get16(p + at);
				at += 2;
			}
			if (length > bytes - at)
				return 0;
		} else if (length > bytes - at) {
			return 0;
		}
		copy_field(op, length, p + at, w);
		at += length;
	}
	return at;
}

static uint64_t ntp_ns(uint64_t t)
{
	const uint64_t s = t >> 32;

	return s < NTP_EPOCH ? 0
			     : (s - NTP_EPOCH) * 1000000000 + ((t & UINT32_MAX) * 1000000000 >> 32);
}

static bool has_extra(const struct dta_template *t, enum dta_template_extra x)
{
	return t->extra >> x & 1;
}

/*
 * Computes the start or end of the flow from the time fields that are present. Returns false if
 * none can be converted.
 */
static bool time_of(const struct dta_template_message *m, const struct dta_template *t,
		    uint32_t end, uint64_t *ns)
{
	/* in each pair of extras, the end follows the start */
	const uint64_t *x = m->work->extra + end;
	const uint32_t extra = t->extra >> end;
	const uint64_t boot = has_extra(t, DTA_EXTRA_BOOT_MS) ? m->work->extra[DTA_EXTRA_BOOT_MS]
							      : m->exporter->boot_ms;

	if (extra >> DTA_EXTRA_START_MS & 1)
		*ns = x[DTA_EXTRA_START_MS] * 1000000;
	else if (extra >> DTA_EXTRA_START_NTP & 1)
		*ns = ntp_ns(x[DTA_EXTRA_START_NTP]);
	else if (extra >> DTA_EXTRA_START_BEFORE & 1)
		*ns = m->export_ms * 1000000 - x[DTA_EXTRA_START_BEFORE] * 1000;
	else if (extra >> DTA_EXTRA_START_S & 1)
		*ns = x[DTA_EXTRA_START_S] * 1000000000;
	else if (!(extra >> DTA_EXTRA_START_UP & 1))
		return false;
	else if (m->netflow) /* the uptime wraps, so compute how long ago the flow started */
		*ns = (m->export_ms - (uint32_t)(m->uptime - (uint32_t)x[DTA_EXTRA_START_UP])) *
		      1000000;
	else if (boot)
		*ns = (boot + x[DTA_EXTRA_START_UP]) * 1000000;
	else
		return false;
	return true;
}

/* Returns N if the record itself states a sampling rate of one in N, otherwise 0. */
static uint64_t sampling_in(const struct dta_template *t, const uint64_t *x)
{
	if (has_extra(t, DTA_EXTRA_SAMPLING))
		return x[DTA_EXTRA_SAMPLING];
	if (has_extra(t, DTA_EXTRA_SAMPLED) && x[DTA_EXTRA_SAMPLED])
		return has_extra(t, DTA_EXTRA_SPACE) && x[DTA_EXTRA_SPACE] < UINT32_MAX
			       ? (x[DTA_EXTRA_SPACE] + x[DTA_EXTRA_SAMPLED]) / x[DTA_EXTRA_SAMPLED]
			       : x[DTA_EXTRA_SAMPLED];
	if (has_extra(t, DTA_EXTRA_SAMPLE_SIZE) && has_extra(t, DTA_EXTRA_POPULATION) &&
	    x[DTA_EXTRA_SAMPLE_SIZE])
		return x[DTA_EXTRA_POPULATION] / x[DTA_EXTRA_SAMPLE_SIZE];
	if (has_extra(t, DTA_EXTRA_PROBABILITY) && x[DTA_EXTRA_PROBABILITY]) {
		const uint32_t narrow = (uint32_t)x[DTA_EXTRA_PROBABILITY];
		double p;
		float f;

		memcpy(&p, &x[DTA_EXTRA_PROBABILITY], sizeof(p));
		memcpy(&f, &narrow, sizeof(f));
		if (x[DTA_EXTRA_PROBABILITY] <= UINT32_MAX)
			p = (double)f;
		return p >= 1. / UINT32_MAX && p <= 1 ? (uint64_t)(1 / p + .5) : 0;
	}
	return 0;
}

/* Whether the record names a sampler; 0 means no sampler. */
static bool selector_in(const struct dta_template *t, const uint64_t *x)
{
	return has_extra(t, DTA_EXTRA_SELECTOR) && x[DTA_EXTRA_SELECTOR];
}

static uint64_t multiply_saturating(uint64_t n, uint64_t by)
{
	uint64_t product;

	return __builtin_mul_overflow(n, by, &product) ? UINT64_MAX : product;
}

static const struct in6_addr mapped = {.s6_addr = {[10] = 0xff, 0xff}};

/* If a record has addresses of both IP versions, one of the two is zero. */
static void pick_version(const struct dta_template *t, struct dta_template_work *w)
{
	for (uint32_t i = 0; i < DTA_FIELD_ADDRESSES; i++)
		if (t->both >> i & 1 && !IN6_IS_ADDR_UNSPECIFIED(&w->v6[i]))
			w->r.address[i] = w->v6[i];
		else if (t->both >> i & 1)
			memcpy(&w->r.address[i], &mapped, 12);
}

static bool has_ports(uint8_t protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP ||
	       protocol == IPPROTO_DCCP || protocol == IPPROTO_UDPLITE;
}

/* Takes bytes or packets from a less common element if the common one is missing. */
static void count_otherwise(struct dta_record *r, enum dta_field f, const struct dta_template *t,
			    const uint64_t *x, enum dta_template_extra out,
			    enum dta_template_extra total)
{
	if (t->has >> f & 1)
		return;
	if (has_extra(t, out))
		dta_record_set(r, f, x[out]);
	else if (has_extra(t, total))
		dta_record_set(r, f, x[total]);
}

static void complete_rare(const struct dta_template *t, struct dta_template_work *w)
{
	const uint64_t *x = w->extra;
	struct dta_record *r = &w->r;

	if (t->steps & STEP_BOTH)
		pick_version(t, w);
	if (t->steps & STEP_ICMP)
		dta_record_set(r, DTA_FIELD_ICMP,
			       (x[DTA_EXTRA_ICMP_TYPE] & 255) << 8 |
				       (x[DTA_EXTRA_ICMP_CODE] & 255));
	if (t->steps & STEP_COUNTS) {
		count_otherwise(r, DTA_FIELD_BYTES, t, x, DTA_EXTRA_OUT_BYTES,
				DTA_EXTRA_TOTAL_BYTES);
		count_otherwise(r, DTA_FIELD_PACKETS, t, x, DTA_EXTRA_OUT_PACKETS,
				DTA_EXTRA_TOTAL_PACKETS);
	}
	/* A flow without ports has port 0 in its 5-tuple, as in reports of kernel flows. */
	if (t->steps & STEP_PORTS && !has_ports((uint8_t)r->number[DTA_FIELD_PROTOCOL])) {
		dta_record_set(r, DTA_FIELD_SOURCE_PORT, 0);
		dta_record_set(r, DTA_FIELD_DESTINATION_PORT, 0);
	}
}

/* Sets the fields that are computed from other fields. */
static inline void complete_record(const struct dta_template_message *m,
				   const struct dta_template *t)
{
	struct dta_template_work *w = m->work;
	const uint64_t *x = w->extra;
	struct dta_record *r = &w->r;
	uint64_t ns, rate = m->sampling;

	if (t->steps & STEPS_RARE)
		complete_rare(t, w);
	if (t->steps & STEP_TOS)
		dta_record_set(r, DTA_FIELD_DSCP, x[DTA_EXTRA_TOS] >> 2);
	if (t->steps & STEP_VERSION)
		dta_record_set(r, DTA_FIELD_IP_VERSION,
			       IN6_IS_ADDR_V4MAPPED(&r->address[DTA_FIELD_SOURCE]) ? 4 : 6);
	if (t->steps & STEP_TIMES) {
		if (time_of(m, t, 0, &ns))
			dta_record_set(r, DTA_FIELD_START_NS, ns);
		if (time_of(m, t, 1, &ns))
			dta_record_set(r, DTA_FIELD_END_NS, ns);
	}
	if (t->steps & STEP_SAMPLING) {
		rate = sampling_in(t, x);
		if (!rate)
			rate = dta_exporter_sampling(m->exporter, selector_in(t, x),
						     x[DTA_EXTRA_SELECTOR]);
	}
	dta_record_set(r, DTA_FIELD_SAMPLING, rate);
	if (rate > 1) {
		r->number[DTA_FIELD_BYTES] = multiply_saturating(r->number[DTA_FIELD_BYTES], rate);
		r->number[DTA_FIELD_PACKETS] = multiply_saturating(r->number[DTA_FIELD_PACKETS],
								   rate);
	}
}

/* Handles an option record, which describes the exporter's samplers and start time. */
static void take_options(const struct dta_template_message *m, const struct dta_template *t)
{
	const uint64_t *x = m->work->extra, rate = sampling_in(t, x);

	if (has_extra(t, DTA_EXTRA_BOOT_MS))
		m->exporter->boot_ms = x[DTA_EXTRA_BOOT_MS];
	if (rate &&
	    !dta_exporter_sample(m->exporter, selector_in(t, x), x[DTA_EXTRA_SELECTOR], rate))
		m->stats->refused[DTA_DEVICE_NO_ROOM]++;
	m->stats->options++;
}

/* ---- sets ---- */

static struct dta_template **find_template(struct dta_exporter *e, uint16_t id)
{
	struct dta_template **at = &e->templates[id % DTA_EXPORTER_PLACES];

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

/* Clears the record, so that no field of the previous one remains. */
static void prepare_record(const struct dta_template_message *m)
{
	struct dta_template_work *w = m->work;

	for (uint32_t i = DTA_FIELD_SOURCE; i < DTA_FIELD_ADDRESSES; i++)
		w->r.address[i] = mapped;
	w->r.kind = DTA_RECORD_FLOW;
	w->r.address[DTA_FIELD_EXPORTER] = m->in->address;
	w->r.number[DTA_FIELD_DOMAIN] = m->domain;
	w->r.number[DTA_FIELD_BYTES] = w->r.number[DTA_FIELD_PACKETS] = 0;
	memset(w->extra, 0, sizeof(w->extra));
	memset(w->v6, 0, sizeof(w->v6));
}

static void give_record(struct dta_template_message *m, const struct dta_template *t)
{
	m->records++;
	if (t->options) {
		take_options(m, t);
		return;
	}
	m->work->r.has = t->has | 1u << DTA_FIELD_EXPORTER | UINT64_C(1) << DTA_FIELD_DOMAIN;
	complete_record(m, t);
	m->stats->records++;
	m->fn(m->arg, &m->work->r);
}

static void take_data(struct dta_template_message *m, uint16_t id, const uint8_t *set, size_t bytes)
{
	const struct dta_template *t = m->exporter ? *find_template(m->exporter, id) : NULL;
	size_t n;

	if (!t || m->now_ns - t->seen_ns > DTA_EXPORTER_LIFETIME_NS) {
		m->unknown = true;
		m->stats->refused[DTA_DEVICE_NO_TEMPLATE]++;
		return;
	}
	prepare_record(m);
	m->sampling = dta_exporter_sampling(m->exporter, false, 0);
	if (!t->varies) {
		/* A remainder shorter than a record is padding (RFC 7011, section 3.3.1). */
		for (; bytes >= t->bytes; set += t->bytes, bytes -= t->bytes) {
			read_fixed(t, set, m->work);
			give_record(m, t);
		}
		return;
	}
	while (bytes >= t->bytes) {
		/*
		 * Lengths vary: clear the previous record, because a shorter number would leave
		 * some of its bytes.
		 */
		prepare_record(m);
		n = read_varying(t, set, bytes, m->work);
		if (!n) {
			m->unknown = true;
			m->stats->refused[DTA_DEVICE_BAD_LENGTH]++;
			return;
		}
		give_record(m, t);
		set += n;
		bytes -= n;
	}
}

/* ---- templates ---- */

static void withdraw_template(struct dta_template_message *m, uint16_t id)
{
	struct dta_template **at, *t;

	if (!m->exporter || !(t = *(at = find_template(m->exporter, id))))
		return;
	*at = t->next;
	dta_exporters_reserve(m->exporters, m->exporter,
			      -(ptrdiff_t)(sizeof(*t) + t->ops * sizeof(*t->op)), m->now_ns);
	free(t);
	m->stats->templates--;
}

/* Withdraws all of the exporter's templates, or all of its options templates. */
static void withdraw_all(struct dta_template_message *m, bool options)
{
	for (uint32_t i = 0; m->exporter && i < DTA_EXPORTER_PLACES; i++)
		for (struct dta_template *t = m->exporter->templates[i], *next; t; t = next) {
			next = t->next;
			if (t->options == options)
				withdraw_template(m, t->id);
		}
}

uint64_t dta_templates_free(struct dta_exporter *e)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < DTA_EXPORTER_PLACES; i++)
		for (struct dta_template *t; (t = e->templates[i]); n++) {
			e->templates[i] = t->next;
			free(t);
		}
	return n;
}

/* Returns false if a number can't have this length. */
static bool compile_number(struct template_op *op, uint32_t length, size_t to)
{
	if (length > 8 && length != VARIABLE)
		return false;
	op->how = NUMBER;
	op->shift = length <= 8 ? (uint8_t)(64 - 8 * length) : 0;
	op->to = (uint16_t)to;
	return true;
}

static void compile_address(struct dta_template *t, struct template_op *op, uint32_t i, bool v6)
{
	const uint32_t length = v6 ? 16 : 4;

	if (op->length != length && op->length != VARIABLE)
		return;
	op->how = v6 ? ADDRESS6 : ADDRESS4;
	op->to = (uint16_t)(v6 ? offsetof(struct dta_template_work, v6)
			       : offsetof(struct dta_template_work, r.address));
	op->to = (uint16_t)(op->to + i * sizeof(struct in6_addr));
	t->has |= UINT64_C(1) << i;
	t->both |= (uint8_t)(v6 << i);
}

/* Compiles the field at an offset. known: the IANA element, or NULL. */
static void compile_field(struct dta_template *t, struct template_op *op, uint32_t offset,
			  uint32_t length, const struct template_element *known)
{
	*op = (struct template_op){
		.offset = (uint16_t)offset, .length = (uint16_t)length, .how = SKIP};
	if (!known || !length)
		return;
	if (known->what == A_V4 || known->what == A_V6)
		compile_address(t, op, known->index, known->what == A_V6);
	else if (known->what == A_FIELD &&
		 compile_number(op, length,
				offsetof(struct dta_template_work, r.number) + 8u * known->index))
		t->has |= UINT64_C(1) << known->index;
	else if (known->what == AN_EXTRA &&
		 compile_number(op, length,
				offsetof(struct dta_template_work, extra) + 8u * known->index))
		t->extra |= 1u << known->index;
}

static uint32_t address_of(const struct template_op *op, size_t base)
{
	return (uint32_t)((op->to - base) / sizeof(struct in6_addr));
}

/* Copies an address that has only one possible version directly to its place in the record. */
static void place_addresses(struct dta_template *t, struct template_op *op)
{
	const size_t place = offsetof(struct dta_template_work, r.address);
	uint32_t v4 = 0;

	for (uint32_t i = 0; i < t->ops; i++)
		if (op[i].how == ADDRESS4)
			v4 |= 1u << address_of(&op[i], place);
	for (uint32_t i = 0; i < t->ops; i++) {
		const uint32_t k = op[i].how == ADDRESS6
					   ? address_of(&op[i],
							offsetof(struct dta_template_work, v6))
					   : 0;

		if (op[i].how != ADDRESS6 || v4 >> k & 1)
			continue;
		op[i].to = (uint16_t)(place + k * sizeof(struct in6_addr));
		t->both &= (uint8_t) ~(1u << k);
	}
}

/* For fixed-length records: drops fields that are not used, and sorts the rest by kind. */
static void sort_ops(struct dta_template *t, struct template_op *op)
{
	struct template_op sorted[FIELDS];
	uint16_t n = 0;

	for (uint8_t how = NUMBER; how < SKIP; how++) {
		for (uint32_t i = 0; i < t->ops; i++)
			if (op[i].how == how)
				sorted[n++] = op[i];
		if (how == NUMBER)
			t->numbers = n;
		if (how == ADDRESS4)
			t->v4 = n;
	}
	t->ops = n;
	memcpy(op, sorted, n * sizeof(*op));
}

#define BITS(a, b) (1u << DTA_EXTRA_##a | 1u << DTA_EXTRA_##b)
#define TIMES	   ((2u << DTA_EXTRA_END_UP) - 1)

static void finish_template(struct dta_template *t, struct template_op *op)
{
	const uint32_t counts = BITS(OUT_BYTES, OUT_PACKETS) | BITS(TOTAL_BYTES, TOTAL_PACKETS);
	const uint32_t sampling = BITS(SELECTOR, SAMPLING) | BITS(SAMPLED, SPACE) |
				  BITS(SAMPLE_SIZE, POPULATION) | BITS(PROBABILITY, PROBABILITY);
	const uint32_t icmp = BITS(ICMP_TYPE, ICMP_CODE);

	place_addresses(t, op);
	if (!t->varies)
		sort_ops(t, op);
	t->steps = (uint8_t)((t->extra & BITS(TOS, TOS) ? STEP_TOS : 0) |
			     (t->extra & TIMES ? STEP_TIMES : 0) |
			     (t->extra & sampling ? STEP_SAMPLING : 0) |
			     (t->extra & counts ? STEP_COUNTS : 0) |
			     ((t->extra & icmp) == icmp ? STEP_ICMP : 0) |
			     (t->both ? STEP_BOTH : 0));
	if (!(t->has >> DTA_FIELD_IP_VERSION & 1) && t->has >> DTA_FIELD_SOURCE & 1)
		t->steps |= STEP_VERSION;
	if (!(t->has >> DTA_FIELD_SOURCE_PORT & 1) && t->has >> DTA_FIELD_PROTOCOL & 1)
		t->steps |= STEP_PORTS;
}

static bool keep_template(struct dta_template_message *m, const struct template_scratch *s)
{
	const size_t bytes = sizeof(s->t) + s->t.ops * sizeof(*s->op);
	struct dta_template **at, *t;

	if (!m->exporter)
		m->exporter = dta_exporters_make(m->exporters, m->in, m->domain, m->now_ns);
	if (!m->exporter)
		return true; /* already counted */
	t = *find_template(m->exporter, s->t.id);
	if (!t || t->ops != s->t.ops) {
		withdraw_template(m, s->t.id);
		if (!dta_exporters_reserve(m->exporters, m->exporter, (ptrdiff_t)bytes, m->now_ns))
			return false;
		t = malloc(bytes);
		if (!t) {
			dta_exporters_reserve(m->exporters, m->exporter, -(ptrdiff_t)bytes,
					      m->now_ns);
			return false;
		}
		at = find_template(m->exporter, s->t.id);
		*t = s->t;
		t->next = *at;
		*at = t;
		m->stats->templates++;
	} else {
		struct dta_template *next = t->next;

		*t = s->t;
		t->next = next;
	}
	memcpy(t->op, s->op, s->t.ops * sizeof(*s->op));
	return true;
}

/*
 * Reads a template's fields. Returns their length in the set. Returns 0 if they exceed the set, or
 * if the template is unusable, in which case *bad is set.
 */
static size_t read_fields(const struct dta_template_message *m, struct template_scratch *s,
			  uint32_t fields, const uint8_t *p, size_t bytes, bool *bad)
{
	uint32_t offset = 0;
	size_t at = 0;

	for (uint32_t i = 0; i < fields; i++) {
		uint32_t id, length;
		bool foreign;

		if (bytes - at < 4)
			return 0;
		id = dta_get16(p + at);
		length = dta_get16(p + at + 2);
		at += 4;
		foreign = !m->netflow && id & ENTERPRISE;
		if (foreign) {
			if (bytes - at < 4)
				return 0;
			at += 4;
		}
		if (length == VARIABLE)
			s->t.varies = true;
		*bad |= i >= FIELDS || (length == VARIABLE && m->netflow);
		if (!*bad)
			compile_field(&s->t, &s->op[i], offset, length,
				      foreign ? NULL : find_element((uint16_t)id));
		offset += length == VARIABLE ? 1 : length;
		*bad |= offset > 65535;
	}
	*bad |= !offset;
	s->t.bytes = (uint16_t)offset;
	s->t.ops = (uint16_t)(*bad ? 0 : fields);
	return at;
}

/* Reads one template. Returns its length, or 0 if the rest of the set can't be read. */
static size_t define_template(struct dta_template_message *m, const uint8_t *p, size_t bytes,
			      bool options)
{
	struct template_scratch s = {.t = {.options = options, .seen_ns = m->now_ns}};
	const uint32_t id = dta_get16(p), count = dta_get16(p + 2);
	uint32_t fields = count, scopes = 0;
	size_t head = 4, n;
	bool bad = false;

	if (!m->netflow && !count) { /* a withdrawal (RFC 7011, section 8.1) */
		if (id == (options ? 3 : 2))
			withdraw_all(m, options);
		else
			withdraw_template(m, (uint16_t)id);
		return head;
	}
	if (options) {
		if (bytes < 6)
			return 0;
		scopes = m->netflow ? count / 4 : dta_get16(p + 4);
		fields = m->netflow ? scopes + dta_get16(p + 4) / 4u : count;
		bad = !m->netflow && (!scopes || scopes > fields);
		head = 6;
	}
	s.t.id = (uint16_t)id;
	bad |= id < FIRST_DATA;
	n = read_fields(m, &s, fields, p + head, bytes - head, &bad);
	if (!n)
		return 0;
	if (bad) {
		m->stats->refused[DTA_DEVICE_BAD_TEMPLATE]++;
		return head + n;
	}
	finish_template(&s.t, s.op);
	if (!keep_template(m, &s))
		m->stats->refused[DTA_DEVICE_NO_ROOM]++;
	return head + n;
}

static void define_all(struct dta_template_message *m, const uint8_t *set, size_t bytes,
		       bool options)
{
	while (bytes >= 4) {
		size_t n;

		if (!dta_get16(set)) /* padding, because no template has number 0 */
			return;
		n = define_template(m, set, bytes, options);
		if (!n) {
			m->stats->refused[DTA_DEVICE_BAD_TEMPLATE]++;
			return;
		}
		set += n;
		bytes -= n;
	}
}

/* ---- messages ---- */

void dta_template_sets(struct dta_template_message *m, const uint8_t *p, size_t bytes)
{
	const uint32_t templates = m->netflow ? 0 : 2, options = templates + 1;

	while (bytes >= 4) {
		const uint32_t id = dta_get16(p), length = dta_get16(p + 2);

		if (length < 4 || length > bytes)
			break;
		if (id == templates || id == options)
			define_all(m, p + 4, length - 4, id == options);
		else if (id >= FIRST_DATA)
			take_data(m, (uint16_t)id, p + 4, length - 4);
		else
			m->stats->refused[DTA_DEVICE_UNSUPPORTED]++;
		p += length;
		bytes -= length;
	}
	if (!bytes)
		return;
	m->unknown = true;
	m->stats->refused[DTA_DEVICE_BAD_LENGTH]++;
}

/* ---- decoders ---- */

struct dta_decoder *dta_template_decoder_make(const struct dta_decoder_ops *ops)
{
	struct dta_template_decoder *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->d.ops = ops;
	x->exporters = dta_exporters_new(&x->d.stats);
	if (x->exporters)
		return &x->d;
	free(x);
	errno = ENOMEM;
	return NULL;
}

void dta_template_decoder_end(struct dta_decoder *d)
{
	struct dta_template_decoder *x = (struct dta_template_decoder *)d;

	if (!x)
		return;
	dta_exporters_free(x->exporters);
	free(x);
}
