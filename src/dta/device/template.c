// SPDX-License-Identifier: Apache-2.0
/* template.c - walks the sets of a message, and compiles templates (template.h) */
#include "dta/device/template_internal.h"

#include <stdlib.h>
#include <string.h>

#include "dta/wire/endian.h"

#define FIELDS	   256u	   /* maximum number of fields per template */
#define ENTERPRISE 0x8000u /* enterprise bit of an element's number (RFC 7011, section 3.2) */
#define FIRST_DATA 256u	   /* smallest number of a template */
#define WIDEST	   16u	   /* maximum length of a number; its value must fit into 64 bits */

struct template_scratch {
	struct dta_template_op op[FIELDS];
	struct dta_template t;
};

static struct dta_template **find_template(struct dta_exporter *e, uint16_t id)
{
	struct dta_template **at = &e->templates[id % DTA_EXPORTER_PLACES];

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

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

static void compile_number(struct dta_template_op *op, const struct dta_element *e, uint32_t place,
			   size_t to)
{
	const uint32_t bits = e->bits ? e->shift + e->bits : 64u;

	op->how = (op->length <= 8 || op->length == DTA_TEMPLATE_VARIABLE) && !e->shift
			  ? DTA_OP_NUMBER
			  : DTA_OP_RANKED;
	op->spare = (uint8_t)(64 - (8u * op->length < bits ? 8u * op->length : bits));
	op->cut = e->bits;
	op->place = (uint8_t)place;
	op->to = (uint16_t)to;
}

static void compile_address(struct dta_template *t, struct dta_template_op *op, uint32_t i, bool v6)
{
	op->how = v6 ? DTA_OP_ADDRESS6 : DTA_OP_ADDRESS4;
	op->place = (uint8_t)(v6 ? DTA_TEMPLATE_V6 + i : i);
	op->to = (uint16_t)((v6 ? offsetof(struct dta_template_work, v6)
				: offsetof(struct dta_template_work, r.address)) +
			    i * sizeof(struct in6_addr));
	t->has |= DTA_FIELD_BIT(i);
	t->both |= (uint8_t)(v6 << i);
}

static bool can_read(const struct dta_element *e, uint32_t length)
{
	if (length == DTA_TEMPLATE_VARIABLE || e->kind == DTA_ELEMENT_TEXT)
		return true;
	if (e->kind == DTA_ELEMENT_V4 || e->kind == DTA_ELEMENT_V6)
		return length == (e->kind == DTA_ELEMENT_V4 ? 4 : 16);
	return length <= WIDEST;
}

/*
 * Compiles the field at an offset. e: its element, or NULL if unsupported. Returns false if the
 * element is supported, but not with this length.
 */
static bool compile_field(struct dta_template *t, struct dta_template_op *op, uint32_t offset,
			  uint32_t length, const struct dta_element *e)
{
	*op = (struct dta_template_op){
		.offset = (uint16_t)offset, .length = (uint16_t)length, .how = DTA_OP_SKIP};
	if (!e || !length)
		return true;
	if (!can_read(e, length))
		return false;
	op->rank = e->rank;
	op->shift = e->shift;
	switch ((enum dta_element_kind)e->kind) {
	case DTA_ELEMENT_V4:
	case DTA_ELEMENT_V6:
		compile_address(t, op, e->index, e->kind == DTA_ELEMENT_V6);
		break;
	case DTA_ELEMENT_NUMBER:
		compile_number(op, e, e->index,
			       offsetof(struct dta_template_work, r.number) + 8u * e->index);
		t->has |= DTA_FIELD_BIT(e->index);
		break;
	case DTA_ELEMENT_EXTRA:
		compile_number(op, e, DTA_TEMPLATE_EXTRA + e->index,
			       offsetof(struct dta_template_work, extra) + 8u * e->index);
		t->extra |= 1u << e->index;
		break;
	case DTA_ELEMENT_TEXT:
		op->how = DTA_OP_TEXT;
		op->place = (uint8_t)(DTA_TEMPLATE_TEXT + e->index);
		t->has |= DTA_FIELD_BIT(DTA_FIELD_NUMBERS + e->index);
		break;
	}
	return true;
}

/*
 * Resolves elements that set the same place. For byte and packet counters, addresses and texts,
 * only the element of the lowest rank is read. For other numbers, each record uses the element of
 * the lowest rank that is not 0: NBAR, for example, sends TCP and UDP ports in separate elements.
 */
static void rank_ops(struct dta_template *t, struct dta_template_op *op)
{
	uint8_t best[DTA_TEMPLATE_PLACES], uses[DTA_TEMPLATE_PLACES] = {0};

	memset(best, UINT8_MAX, sizeof(best));
	for (uint32_t i = 0; i < t->ops; i++) {
		if (op[i].how == DTA_OP_SKIP)
			continue;
		uses[op[i].place] = uses[op[i].place] ? 2 : 1;
		if (op[i].rank < best[op[i].place])
			best[op[i].place] = op[i].rank;
	}
	for (uint32_t i = 0; i < t->ops; i++) {
		const uint32_t place = op[i].place;

		if (op[i].how == DTA_OP_SKIP || uses[place] < 2)
			continue;
		if (op[i].how == DTA_OP_NUMBER && place != DTA_FIELD_BYTES &&
		    place != DTA_FIELD_PACKETS &&
		    place != DTA_TEMPLATE_EXTRA + DTA_EXTRA_REVERSE_BYTES &&
		    place != DTA_TEMPLATE_EXTRA + DTA_EXTRA_REVERSE_PACKETS)
			op[i].how = DTA_OP_RANKED;
		else if (op[i].how != DTA_OP_RANKED && op[i].rank != best[place])
			op[i].how = DTA_OP_SKIP;
		else
			best[place] = UINT8_MAX; /* skip further elements of this rank */
	}
}

static uint32_t address_of(const struct dta_template_op *op, size_t base)
{
	return (uint32_t)((op->to - base) / sizeof(struct in6_addr));
}

/* Copies an address that has only one possible version directly to its place in the record. */
static void place_addresses(struct dta_template *t, struct dta_template_op *op)
{
	const size_t place = offsetof(struct dta_template_work, r.address);
	uint32_t v4 = 0;

	for (uint32_t i = 0; i < t->ops; i++)
		if (op[i].how == DTA_OP_ADDRESS4)
			v4 |= 1u << address_of(&op[i], place);
	for (uint32_t i = 0; i < t->ops; i++) {
		const uint32_t k = op[i].how == DTA_OP_ADDRESS6
					   ? address_of(&op[i],
							offsetof(struct dta_template_work, v6))
					   : 0;

		if (op[i].how != DTA_OP_ADDRESS6 || v4 >> k & 1)
			continue;
		op[i].to = (uint16_t)(place + k * sizeof(struct in6_addr));
		t->both &= (uint8_t) ~(1u << k);
	}
}

/* For fixed-length records: drops fields that are not used, and sorts the rest by kind. */
static void sort_ops(struct dta_template *t, struct dta_template_op *op)
{
	struct dta_template_op sorted[FIELDS];
	uint16_t n = 0;

	for (uint8_t how = DTA_OP_NUMBER; how < DTA_OP_SKIP; how++) {
		for (uint32_t i = 0; i < t->ops; i++)
			if (op[i].how == how)
				sorted[n++] = op[i];
		for (uint32_t i = 0; how == DTA_OP_NUMBER && i < n; i++)
			sorted[i].offset = (uint16_t)(sorted[i].offset + sorted[i].length);
		if (how == DTA_OP_NUMBER)
			t->numbers = n;
		if (how == DTA_OP_ADDRESS4)
			t->v4 = n;
		if (how == DTA_OP_ADDRESS6)
			t->v6 = n;
	}
	t->ops = n;
	memcpy(op, sorted, n * sizeof(*op));
}

#define BITS(a, b) (1u << DTA_EXTRA_##a | 1u << DTA_EXTRA_##b)
#define TIMES	   ((2u << DTA_EXTRA_END_UP) - 1)

static void finish_template(struct dta_template *t, struct dta_template_op *op)
{
	const uint32_t reverse = BITS(REVERSE_BYTES, REVERSE_PACKETS);
	const uint32_t sampling = BITS(SELECTOR, SAMPLING) | BITS(SAMPLED, SPACE) |
				  BITS(SAMPLE_SIZE, POPULATION) | BITS(PROBABILITY, PROBABILITY);
	const uint32_t icmp = BITS(ICMP_TYPE, ICMP_CODE);

	rank_ops(t, op);
	place_addresses(t, op);
	t->steps = (uint8_t)((t->has >> DTA_FIELD_TOS & 1 && !(t->has >> DTA_FIELD_DSCP & 1)
				      ? DTA_STEP_TOS
				      : 0) |
			     (t->extra & TIMES ? DTA_STEP_TIMES : 0) |
			     (t->extra & sampling ? DTA_STEP_SAMPLING : 0) |
			     (t->extra & reverse ? DTA_STEP_REVERSE : 0) |
			     ((t->extra & icmp) == icmp && !(t->has >> DTA_FIELD_ICMP & 1)
				      ? DTA_STEP_ICMP
				      : 0) |
			     (t->both ? DTA_STEP_BOTH : 0));
	if (!(t->has >> DTA_FIELD_IP_VERSION & 1) && t->has >> DTA_FIELD_SOURCE & 1)
		t->steps |= DTA_STEP_VERSION;
	if (t->has >> DTA_FIELD_PROTOCOL & 1)
		t->steps |= DTA_STEP_PROTOCOL;
	t->clear = t->steps & DTA_STEP_REVERSE;
	for (uint32_t i = 0; i < t->ops; i++)
		t->clear |= op[i].how == DTA_OP_RANKED;
	if (!t->varies)
		sort_ops(t, op);
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

/* NetFlow 9 numbers its scopes separately (RFC 3954, section 6.1); 2 means interface. */
static const struct dta_element *find_scope(uint32_t id)
{
	return id == 2 ? dta_element_find(0, 10) : NULL;
}

/*
 * Reads a template's fields. Returns their length in the set. Returns 0 if they exceed the set, or
 * if the template is unusable, in which case *bad is set.
 */
static size_t read_fields(const struct dta_template_message *m, struct template_scratch *s,
			  uint32_t fields, uint32_t scopes, const uint8_t *p, size_t bytes,
			  bool *bad)
{
	uint32_t offset = 0;
	size_t at = 0;

	for (uint32_t i = 0; i < fields; i++) {
		uint32_t id, length, enterprise = 0;

		if (bytes - at < 4)
			return 0;
		id = dta_get16(p + at);
		length = dta_get16(p + at + 2);
		at += 4;
		if (!m->netflow && id & ENTERPRISE) {
			if (bytes - at < 4)
				return 0;
			enterprise = dta_get32(p + at);
			id &= ~ENTERPRISE;
			at += 4;
		}
		if (length == DTA_TEMPLATE_VARIABLE)
			s->t.varies = true;
		*bad |= i >= FIELDS || (length == DTA_TEMPLATE_VARIABLE && m->netflow);
		if (!*bad && !compile_field(&s->t, &s->op[i], offset, length,
					    i < scopes && m->netflow
						    ? find_scope(id)
						    : dta_element_find(enterprise, (uint16_t)id)))
			m->stats->refused[DTA_DEVICE_BAD_ELEMENT]++;
		offset += length == DTA_TEMPLATE_VARIABLE ? 1 : length;
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
	n = read_fields(m, &s, fields, scopes, p + head, bytes - head, &bad);
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

struct dta_template_message dta_template_begin(struct dta_decoder *d, const struct dta_datagram *in,
					       uint64_t now_ns)
{
	struct dta_template_decoder *x = (struct dta_template_decoder *)d;

	return (struct dta_template_message){.decoder = d,
					     .exporters = x->exporters,
					     .stats = &d->stats,
					     .in = in,
					     .now_ns = now_ns,
					     .work = &x->work};
}

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
			dta_template_records(
				m, m->exporter ? *find_template(m->exporter, (uint16_t)id) : NULL,
				p + 4, length - 4);
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

struct dta_decoder *dta_template_decoder_make(struct dta_paths *none)
{
	struct dta_template_decoder *x = calloc(1, sizeof(*x));

	(void)none;
	if (!x)
		return NULL;
	x->exporters = dta_exporters_new(&x->d.stats);
	if (x->exporters)
		return &x->d;
	free(x);
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
