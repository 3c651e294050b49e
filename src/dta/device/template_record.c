// SPDX-License-Identifier: Apache-2.0
/* template_record.c - decodes the records of data sets, including options records (template.h) */
#include "dta/device/template_internal.h"

#include <string.h>

#include "dta/device/frame.h"
#include "dta/wire/endian.h"

#define NTP_EPOCH UINT64_C(2208988800)

/* A number that does not fit into 64 bits becomes UINT64_MAX. */
static uint64_t read_number(const uint8_t *p, size_t length)
{
	uint64_t n = 0;

	for (; length > 8; length--)
		if (*p++)
			return UINT64_MAX;
	while (length--)
		n = n << 8 | *p++;
	return n;
}

static void copy_number(const struct dta_template_op *op, size_t length, const uint8_t *from,
			struct dta_template_work *w)
{
	const size_t skip = op->cut && length > 8 ? length - 8 : 0;
	uint64_t n = read_number(from + skip, length - skip);

	n = (n & UINT64_MAX >> op->spare) >> op->shift;
	if (op->how == DTA_OP_RANKED) {
		if (!n || op->rank >= w->rank[op->place])
			return;
		w->rank[op->place] = op->rank;
	}
	memcpy((char *)w + op->to, &n, sizeof(n));
}

/*
 * Copies a field of variable length, or of one of the rarer kinds. The caller has checked that the
 * field lies within the set.
 */
static void copy_field(const struct dta_template_op *op, size_t length, const uint8_t *from,
		       struct dta_template_work *w)
{
	switch ((enum dta_template_how)op->how) {
	case DTA_OP_NUMBER:
	case DTA_OP_RANKED:
		copy_number(op, length, from, w);
		break;
	case DTA_OP_ADDRESS4: /* the prefix of the v4-mapped address has been set already */
		if (length == 4)
			memcpy((char *)w + op->to + 12, from, 4);
		break;
	case DTA_OP_ADDRESS6:
		if (length == 16)
			memcpy((char *)w + op->to, from, 16);
		break;
	case DTA_OP_TEXT: /* texts of fixed length are padded with zeros */
		w->r.text[op->place - DTA_TEMPLATE_TEXT] =
			(struct dta_text){from, strnlen((const char *)from, length)};
		break;
	case DTA_OP_SKIP:
		break;
	}
}

/*
 * Decodes a fixed-length record. A number is read as the 8 bytes that end with it. The read stays
 * inside the datagram, because the message header always precedes the record.
 */
static inline void read_fixed(const struct dta_template *t, const uint8_t *p,
			      struct dta_template_work *w)
{
	const struct dta_template_op *op = t->op;

	for (; op < t->op + t->numbers; op++) {
		const uint64_t n = dta_get64(p + op->offset - 8) & UINT64_MAX >> op->spare;

		memcpy((char *)w + op->to, &n, sizeof(n));
	}
	for (; op < t->op + t->v4; op++)
		memcpy((char *)w + op->to + 12, p + op->offset, 4);
	for (; op < t->op + t->v6; op++)
		memcpy((char *)w + op->to, p + op->offset, 16);
	for (; op < t->op + t->ops; op++)
		copy_field(op, op->length, p + op->offset, w);
}

/* Decodes a record of variable length. Returns its length, or 0 if it exceeds the set. */
static size_t read_varying(const struct dta_template *t, const uint8_t *p, size_t bytes,
			   struct dta_template_work *w)
{
	size_t at = 0;

	for (const struct dta_template_op *op = t->op; op < t->op + t->ops; op++) {
		size_t length = op->length;

		if (length == DTA_TEMPLATE_VARIABLE) {
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

static bool has_extra(const struct dta_template *t, enum dta_element_extra x)
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
	else if (!m->netflow && !boot)
		return false;
	else
		*ns = dta_template_uptime_ns(
			m->export_ms, m->netflow ? m->uptime : (uint32_t)(m->export_ms - boot),
			(uint32_t)x[DTA_EXTRA_START_UP]);
	return true;
}

/* Returns N if the record itself states a sampling rate of one in N, otherwise 0. */
static uint64_t sampling_in(const struct dta_template *t, const uint64_t *x)
{
	if (has_extra(t, DTA_EXTRA_SAMPLING) && x[DTA_EXTRA_SAMPLING])
		return x[DTA_EXTRA_SAMPLING];
	if (has_extra(t, DTA_EXTRA_SPACE) && x[DTA_EXTRA_SAMPLED] &&
	    x[DTA_EXTRA_SPACE] < UINT32_MAX)
		return (x[DTA_EXTRA_SPACE] + x[DTA_EXTRA_SAMPLED]) / x[DTA_EXTRA_SAMPLED];
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
	/*
	 * If no space is given, devices mean one in N. IOS XR sends a meaningless 1 in addition to
	 * size and population.
	 */
	return has_extra(t, DTA_EXTRA_SAMPLED) && x[DTA_EXTRA_SAMPLED] > 1 ? x[DTA_EXTRA_SAMPLED]
									   : 0;
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

/*
 * A record may have addresses of both IP versions. If neither is zero, the IPv4 flow is inside an
 * IPv6 tunnel, as with SRv6.
 */
static void pick_version(const struct dta_template *t, struct dta_template_work *w)
{
	struct dta_record *r = &w->r;

	for (uint32_t i = 0; i < DTA_FIELD_ADDRESSES; i++) {
		uint32_t v4;

		if (!(t->both >> i & 1))
			continue;
		memcpy(&v4, r->address[i].s6_addr + 12, sizeof(v4));
		if (!v4 && !IN6_IS_ADDR_UNSPECIFIED(&w->v6[i])) {
			r->address[i] = w->v6[i];
			continue;
		}
		memcpy(&r->address[i], &mapped, 12);
		if (IN6_IS_ADDR_UNSPECIFIED(&w->v6[i]) ||
		    (i != DTA_FIELD_SOURCE && i != DTA_FIELD_DESTINATION))
			continue;
		r->address[i + DTA_FIELD_TUNNEL_SOURCE - DTA_FIELD_SOURCE] = w->v6[i];
		r->has |= DTA_FIELD_BIT(i + DTA_FIELD_TUNNEL_SOURCE - DTA_FIELD_SOURCE);
	}
}

static void complete_rare(const struct dta_template *t, struct dta_template_work *w)
{
	const uint64_t *x = w->extra;
	struct dta_record *r = &w->r;

	if (t->steps & DTA_STEP_BOTH)
		pick_version(t, w);
	if (t->steps & DTA_STEP_ICMP)
		dta_record_set(r, DTA_FIELD_ICMP,
			       (x[DTA_EXTRA_ICMP_TYPE] & 255) << 8 |
				       (x[DTA_EXTRA_ICMP_CODE] & 255));
}

/* Sets the fields that are computed from other fields. */
static inline void complete_record(const struct dta_template_message *m,
				   const struct dta_template *t)
{
	struct dta_template_work *w = m->work;
	const uint64_t *x = w->extra;
	struct dta_record *r = &w->r;
	uint64_t ns, rate = m->sampling;

	if (t->steps & DTA_STEPS_RARE)
		complete_rare(t, w);
	if (t->steps & DTA_STEP_PROTOCOL)
		dta_record_set_flow_protocol(r, r->number[DTA_FIELD_PROTOCOL]);
	if (t->steps & DTA_STEP_TOS)
		dta_record_set(r, DTA_FIELD_DSCP, (r->number[DTA_FIELD_TOS] & 255) >> 2);
	if (t->steps & DTA_STEP_VERSION)
		dta_record_set(r, DTA_FIELD_IP_VERSION,
			       IN6_IS_ADDR_V4MAPPED(&r->address[DTA_FIELD_SOURCE]) ? 4 : 6);
	if (t->steps & DTA_STEP_TIMES) {
		if (time_of(m, t, 0, &ns))
			dta_record_set(r, DTA_FIELD_START_NS, ns);
		if (time_of(m, t, 1, &ns))
			dta_record_set(r, DTA_FIELD_END_NS, ns);
	}
	if (t->steps & DTA_STEP_SAMPLING) {
		rate = sampling_in(t, x);
		if (!rate)
			rate = dta_exporters_sampling(m->exporters, m->exporter, selector_in(t, x),
						      x[DTA_EXTRA_SELECTOR]);
	}
	dta_record_set(r, DTA_FIELD_SAMPLING, rate);
	if (rate > 1) {
		r->number[DTA_FIELD_BYTES] = multiply_saturating(r->number[DTA_FIELD_BYTES], rate);
		r->number[DTA_FIELD_PACKETS] = multiply_saturating(r->number[DTA_FIELD_PACKETS],
								   rate);
	}
}

static void swap_fields(struct dta_record *r, enum dta_field a, enum dta_field b)
{
	const bool has_a = r->has >> a & 1, has_b = r->has >> b & 1;

	r->has &= ~(DTA_FIELD_BIT(a) | DTA_FIELD_BIT(b));
	r->has |= (dta_field_set)has_a << b | (dta_field_set)has_b << a;
	if (a < DTA_FIELD_ADDRESSES) {
		const struct in6_addr from = r->address[a];

		r->address[a] = r->address[b];
		r->address[b] = from;
	} else {
		const uint64_t from = r->number[a];

		r->number[a] = r->number[b];
		r->number[b] = from;
	}
}

/*
 * Emits a second record for the opposite direction of a biflow (RFC 5103; Cisco ASA's initiator and
 * responder). If the opposite direction has no times of its own, it gets those of the flow.
 */
static void give_reverse(struct dta_template_message *m, const struct dta_template *t)
{
	static const struct {
		uint8_t forward, reverse;
	} pairs[] = {{DTA_FIELD_SOURCE, DTA_FIELD_DESTINATION},
		     {DTA_FIELD_TUNNEL_SOURCE, DTA_FIELD_TUNNEL_DESTINATION},
		     {DTA_FIELD_NAT_SOURCE, DTA_FIELD_NAT_DESTINATION},
		     {DTA_FIELD_SOURCE_PORT, DTA_FIELD_DESTINATION_PORT},
		     {DTA_FIELD_NAT_SOURCE_PORT, DTA_FIELD_NAT_DESTINATION_PORT},
		     {DTA_FIELD_SOURCE_AS, DTA_FIELD_DESTINATION_AS},
		     {DTA_FIELD_PREVIOUS_AS, DTA_FIELD_NEXT_AS},
		     {DTA_FIELD_SOURCE_MAC, DTA_FIELD_DESTINATION_MAC},
		     {DTA_FIELD_SOURCE_PREFIX, DTA_FIELD_DESTINATION_PREFIX},
		     {DTA_FIELD_INGRESS, DTA_FIELD_EGRESS},
		     {DTA_FIELD_INGRESS_VRF, DTA_FIELD_EGRESS_VRF}},
	  own[] = {{DTA_FIELD_BYTES, DTA_EXTRA_REVERSE_BYTES},
		   {DTA_FIELD_PACKETS, DTA_EXTRA_REVERSE_PACKETS},
		   {DTA_FIELD_TCP_FLAGS, DTA_EXTRA_REVERSE_TCP_FLAGS},
		   {DTA_FIELD_TOS, DTA_EXTRA_REVERSE_TOS},
		   {DTA_FIELD_START_NS, DTA_EXTRA_REVERSE_START_MS},
		   {DTA_FIELD_END_NS, DTA_EXTRA_REVERSE_END_MS}};
	struct dta_record *r = &m->work->r;
	const uint64_t *x = m->work->extra, rate = r->number[DTA_FIELD_SAMPLING];

	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
		swap_fields(r, pairs[i].forward, pairs[i].reverse);
	r->has &= ~(DTA_FIELD_BIT(DTA_FIELD_NEXT_HOP) | DTA_FIELD_BIT(DTA_FIELD_DIRECTION) |
		    DTA_FIELD_BIT(DTA_FIELD_BYTES) | DTA_FIELD_BIT(DTA_FIELD_PACKETS) |
		    DTA_FIELD_BIT(DTA_FIELD_TCP_FLAGS) | DTA_FIELD_BIT(DTA_FIELD_TOS) |
		    DTA_FIELD_BIT(DTA_FIELD_DSCP));
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++) {
		uint64_t n = x[own[i].reverse];

		if (!has_extra(t, own[i].reverse))
			continue;
		if (own[i].forward == DTA_FIELD_BYTES || own[i].forward == DTA_FIELD_PACKETS)
			n = multiply_saturating(n, rate);
		else if (own[i].forward == DTA_FIELD_TOS)
			dta_record_set(r, DTA_FIELD_DSCP, (n & 255) >> 2);
		else if (own[i].forward != DTA_FIELD_TCP_FLAGS)
			n *= 1000000;
		dta_record_set(r, own[i].forward, n);
	}
	dta_decoder_give(m->decoder, &m->work->r);
}

/*
 * Handles an option record, which describes the exporter's samplers and start time. Emits a record
 * for each name of an interface, application or VRF.
 */
static void take_options(struct dta_template_message *m, const struct dta_template *t)
{
	const uint64_t *x = m->work->extra, rate = sampling_in(t, x);
	struct dta_record *r = &m->work->r;

	if (has_extra(t, DTA_EXTRA_BOOT_MS))
		m->exporter->boot_ms = x[DTA_EXTRA_BOOT_MS];
	if (rate &&
	    !dta_exporter_sample(m->exporter, selector_in(t, x), x[DTA_EXTRA_SELECTOR], rate))
		m->stats->refused[DTA_DEVICE_NO_ROOM]++;
	m->stats->options++;
	if (!(t->has & (DTA_FIELD_BIT(DTA_FIELD_NAME) | DTA_FIELD_BIT(DTA_FIELD_DESCRIPTION))))
		return;
	r->kind = DTA_RECORD_NAME;
	if (r->has >> DTA_FIELD_INGRESS & 1)
		dta_record_set(r, DTA_FIELD_INTERFACE, r->number[DTA_FIELD_INGRESS]);
	else if (r->has >> DTA_FIELD_EGRESS & 1)
		dta_record_set(r, DTA_FIELD_INTERFACE, r->number[DTA_FIELD_EGRESS]);
	dta_decoder_give(m->decoder, &m->work->r);
}

/* Clears the record, so that no field of the previous one remains. */
static void prepare_record(const struct dta_template_message *m)
{
	struct dta_template_work *w = m->work;

	for (uint32_t i = DTA_FIELD_SOURCE; i < DTA_FIELD_ADDRESSES; i++)
		w->r.address[i] = mapped;
	w->r.kind = DTA_RECORD_FLOW;
	w->r.address[DTA_FIELD_EXPORTER] = m->in->address;
	memset(w->r.number, 0, sizeof(w->r.number));
	memset(w->r.text, 0, sizeof(w->r.text));
	w->r.number[DTA_FIELD_DOMAIN] = m->domain;
	memset(w->extra, 0, sizeof(w->extra));
	memset(w->v6, 0, sizeof(w->v6));
	memset(w->rank, UINT8_MAX, sizeof(w->rank));
}

static void take_record(struct dta_template_message *m, const struct dta_template *t)
{
	const uint64_t *x = m->work->extra;

	m->records++;
	m->work->r.has = t->has | DTA_FIELD_BIT(DTA_FIELD_EXPORTER) |
			 DTA_FIELD_BIT(DTA_FIELD_DOMAIN);
	if (t->options) {
		take_options(m, t);
		return;
	}
	complete_record(m, t);
	dta_decoder_give(m->decoder, &m->work->r);
	if (t->steps & DTA_STEP_REVERSE &&
	    (x[DTA_EXTRA_REVERSE_BYTES] || x[DTA_EXTRA_REVERSE_PACKETS]))
		give_reverse(m, t);
}

void dta_template_records(struct dta_template_message *m, const struct dta_template *t,
			  const uint8_t *set, size_t bytes)
{
	size_t n;

	if (!t || m->now_ns - t->seen_ns > DTA_EXPORTER_LIFETIME_NS) {
		m->unknown = true;
		m->stats->refused[DTA_DEVICE_NO_TEMPLATE]++;
		return;
	}
	prepare_record(m);
	m->sampling = dta_exporters_sampling(m->exporters, m->exporter, false, 0);
	if (!t->varies) {
		/* A remainder shorter than a record is padding (RFC 7011, section 3.3.1). */
		for (; bytes >= t->bytes; set += t->bytes, bytes -= t->bytes) {
			if (t->clear)
				prepare_record(m);
			read_fixed(t, set, m->work);
			take_record(m, t);
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
		take_record(m, t);
		set += n;
		bytes -= n;
	}
}
