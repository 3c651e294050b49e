// SPDX-License-Identifier: Apache-2.0
/* map.c - applies a compiled mapping: turns records into blocks of reports */
#include "dta/device/map_internal.h"

#include <stdlib.h>

#include <sidelight/store.h>

#include "dta/wire/endian.h"

/*
 * A number is written as a whole word, and the next field overwrites the unused bytes. SLACK is the
 * room for the last field.
 */
#define SLACK 16u

struct map_buffer {
	uint8_t *items;
	uint32_t step; /* bytes per item */
	uint16_t count;
};

/*
 * A rule that applies to this batch's input. The addresses in a key have 4 bytes if all are IPv4,
 * otherwise 16.
 */
struct map_part {
	const struct dta_map_rule *rule;
	struct map_buffer buffer[2];
};

struct dta_map_batch {
	dta_map_fn *give;
	void *arg;
	struct dta_map_stats stats;
	uint32_t begin[DTA_RECORD_KINDS + 1]; /* index of the first part for each kind of record */
	/* addresses that the keys of the rules for this kind contain */
	uint32_t addresses[DTA_RECORD_KINDS];
	uint32_t parts;
	struct map_part part[DTA_MAP_RULES];
};

static void give_block(struct dta_map_batch *b, const struct map_part *p, uint32_t wide)
{
	const struct dta_map_rule *r = p->rule;
	const struct dta_block block = {.opcode = r->opcode,
					.count = p->buffer[wide].count,
					.copies = r->copies,
					.key_bytes = r->key_bytes[wide],
					.value_bytes = r->value_bytes,
					.store = r->store,
					.items = p->buffer[wide].items};

	b->give(b->arg, &block);
}

static bool is_mapped(const struct in6_addr *a)
{
	uint64_t high;
	uint32_t middle;

	memcpy(&high, a->s6_addr, sizeof(high));
	memcpy(&middle, a->s6_addr + 8, sizeof(middle));
	return !high && middle == htobe32(0xffff);
}

/* Returns which of these addresses are set and are not IPv4. */
static uint32_t wide_addresses(const struct dta_record *r, uint32_t addresses)
{
	uint32_t wide = 0;

	for (addresses &= (uint32_t)r->has; addresses; addresses &= addresses - 1) {
		const int i = __builtin_ctz(addresses);

		wide |= (uint32_t)!is_mapped(&r->address[i]) << i;
	}
	return wide;
}

static uint64_t number_of(const struct dta_map_put *p, const struct dta_record *r)
{
	return p->field == DTA_FIELDS ? p->number : r->number[p->field];
}

/*
 * Whether dta_parse() would accept the rule's postcard, which ends with hop, hops, zero and data.
 */
static bool hop_is_fine(const struct dta_map_rule *rule, const struct dta_record *r)
{
	const struct dta_map_put *p = &rule->put[rule->puts - 4];
	const uint64_t hops = number_of(p + 1, r);

	return number_of(p, r) < hops && hops <= SL_STORE_HOPS_MAX;
}

static bool passes_tests(const struct dta_map_rule *rule, const struct dta_record *r)
{
	if (rule->opcode == DTA_POSTCARD && !hop_is_fine(rule, r))
		return false;
	for (uint32_t i = 0; i < rule->tests; i++) {
		const struct dta_map_test *t = &rule->test[i];
		const uint64_t n = r->number[t->field];

		switch (t->order) {
		case DTA_MAP_EQUAL:
			if (n != t->number)
				return false;
			break;
		case DTA_MAP_UNEQUAL:
			if (n == t->number)
				return false;
			break;
		case DTA_MAP_LEAST:
			if (n < t->number)
				return false;
			break;
		case DTA_MAP_MOST:
			if (n > t->number)
				return false;
		}
	}
	return true;
}

static uint8_t *put_address(struct dta_map_batch *b, const struct in6_addr *a, uint32_t bytes,
			    uint8_t *to)
{
	if (bytes == 16) {
		memcpy(to, a, 16);
	} else if (is_mapped(a)) {
		memcpy(to, a->s6_addr + 12, 4);
	} else { /* the address must fit into a 4-byte value */
		memset(to, 0xff, 4);
		b->stats.saturated++;
	}
	return to + bytes;
}

/* Truncates a longer text, and pads a shorter one with zeros. */
static uint8_t *put_text(const struct dta_text *text, size_t bytes, uint8_t *to)
{
	const size_t n = text->bytes < bytes ? text->bytes : bytes;

	memset(to, 0, bytes);
	if (n)
		memcpy(to, text->at, n);
	return to + bytes;
}

static void put_report(struct dta_map_batch *b, struct map_part *p, const struct dta_record *r,
		       uint32_t wide)
{
	const struct dta_map_rule *rule = p->rule;
	struct map_buffer *buffer = &p->buffer[wide];
	uint8_t *to = buffer->items + (size_t)buffer->count * buffer->step;

	for (const struct dta_map_put *f = rule->put; f < rule->put + rule->puts; f++) {
		uint64_t n = f->number;

		if (f->optional && !(r->has >> f->field & 1)) {
			dta_put64(to, 0);
			to += f->bytes;
			continue;
		}
		if (f->field < DTA_FIELD_ADDRESSES) {
			to = put_address(b, &r->address[f->field],
					 f->bytes ? f->bytes
					 : wide	  ? 16
						  : 4,
					 to);
			continue;
		}
		if (f->field >= DTA_FIELD_NUMBERS && f->field < DTA_FIELDS) {
			to = put_text(&r->text[f->field - DTA_FIELD_NUMBERS], f->bytes, to);
			continue;
		}
		if (f->field < DTA_FIELDS && r->number[f->field] <= n)
			n = r->number[f->field];
		else if (f->field < DTA_FIELDS)
			b->stats.saturated++;
		dta_put64(to, n << f->shift);
		to += f->bytes;
	}
	if (++buffer->count == DTA_MAP_ITEMS) {
		give_block(b, p, wide);
		buffer->count = 0;
	}
}

void dta_map_take(struct dta_map_batch *b, const struct dta_record *r)
{
	const uint32_t wide = wide_addresses(r, b->addresses[r->kind]);
	uint32_t made = 0;

	for (uint32_t i = b->begin[r->kind]; i < b->begin[r->kind + 1]; i++) {
		struct map_part *p = &b->part[i];
		const struct dta_map_rule *rule = p->rule;

		if ((r->has & rule->need) != rule->need || !passes_tests(rule, r))
			continue;
		put_report(b, p, r, !!(wide & rule->addresses));
		made++;
	}
	b->stats.reports += made;
	b->stats.unmapped += !made && r->kind != DTA_RECORD_NAME;
}

void dta_map_flush(struct dta_map_batch *b)
{
	for (uint32_t i = 0; i < b->parts; i++)
		for (uint32_t wide = 0; wide < 2; wide++) {
			if (b->part[i].buffer[wide].count)
				give_block(b, &b->part[i], wide);
			b->part[i].buffer[wide].count = 0;
		}
}

const struct dta_map_stats *dta_map_stats(const struct dta_map_batch *b)
{
	return &b->stats;
}

struct dta_map_batch *dta_map_batch_new(const struct dta_map *m, enum dta_device input,
					dta_map_fn *to, void *arg)
{
	struct dta_map_batch *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->give = to;
	b->arg = arg;
	for (uint32_t kind = 0; kind < DTA_RECORD_KINDS; kind++) {
		b->begin[kind] = b->parts;
		for (uint32_t i = 0; i < m->rules; i++) {
			const struct dta_map_rule *r = &m->rule[i];
			struct map_part *p = &b->part[b->parts];

			if ((uint32_t)r->kind != kind ||
			    (r->input != input && r->input != DTA_DEVICES))
				continue;
			p->rule = r;
			b->addresses[kind] |= r->addresses;
			b->parts++;
			for (uint32_t wide = 0; wide <= !!r->addresses; wide++) {
				struct map_buffer *f = &p->buffer[wide];

				f->step = (uint32_t)r->key_bytes[wide] + r->value_bytes;
				f->items = malloc((size_t)DTA_MAP_ITEMS * f->step + SLACK);
				if (!f->items) {
					dta_map_batch_free(b);
					return NULL;
				}
			}
		}
	}
	b->begin[DTA_RECORD_KINDS] = b->parts;
	return b;
}

void dta_map_batch_free(struct dta_map_batch *b)
{
	if (!b)
		return;
	for (uint32_t i = 0; i < b->parts; i++) {
		free(b->part[i].buffer[0].items);
		free(b->part[i].buffer[1].items);
	}
	free(b);
}

uint16_t dta_map_tenant(const struct dta_map *m)
{
	return m->tenant;
}

void dta_map_free(struct dta_map *m)
{
	free(m);
}
