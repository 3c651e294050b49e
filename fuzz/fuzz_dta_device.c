// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_dta_device.c - what devices send, through each decoder and mapping. The first byte chooses a
 * decoder, or a mapping's text; then come datagrams, each behind { u8 of sender and time,
 * u16 length }. Records have fields that there are, blocks have shapes that a packet may have, and
 * nothing grows beyond its bounds.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sidelight/store.h>

#include "dta/device/exporter.h"
#include "dta/device/map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	struct dta_map_batch *batch;
	uint64_t records, reports;
};

static void must(bool condition)
{
	if (!condition)
		abort();
}

static void take_block(void *arg, const struct dta_block *b)
{
	struct seen *s = arg;
	const size_t bytes = b->count * ((size_t)b->key_bytes + b->value_bytes);
	volatile uint8_t sum = 0;

	must(b->count && b->count <= DTA_MAP_ITEMS && b->opcode && b->opcode <= DTA_POSTCARD);
	must(b->copies <= SL_STORE_COPIES_MAX && !b->copies == (b->opcode == DTA_APPEND));
	must(b->key_bytes >= 4 && b->key_bytes <= SL_STORE_KEY_MAX);
	must(b->value_bytes >= 4 && b->value_bytes <= SL_STORE_VALUE_MAX);
	for (size_t i = 0; i < bytes; i++)
		sum = (uint8_t)(sum + b->items[i]);
	for (uint32_t i = 0; b->opcode == DTA_POSTCARD && i < b->count; i++) {
		const uint8_t *hop = b->items + i * ((size_t)b->key_bytes + 8) + b->key_bytes;

		must(hop[0] < hop[1] && hop[1] <= SL_STORE_HOPS_MAX && !hop[2] && !hop[3]);
	}
	s->reports += b->count;
}

static void take_record(void *arg, const struct dta_record *r)
{
	struct seen *s = arg;

	must((unsigned int)r->kind < DTA_RECORD_KINDS && r->has >> DTA_FIELDS == 0);
	must(r->has & 1);
	s->records++;
	dta_map_take(s->batch, r);
}

/* A record that has everything. */
static void take_whole(struct seen *s, const uint8_t *data, size_t size)
{
	struct dta_record r = {.has = DTA_FIELD_BIT(DTA_FIELDS) - 1,
			       .text = {{data, size < 300 ? size : 300}}};

	for (size_t i = 0; i < sizeof(r.number) && size; i++)
		((uint8_t *)r.number)[i] = data[i % size];
	for (size_t i = 0; i < sizeof(r.address) && size; i++)
		((uint8_t *)r.address)[i] = data[i % size];
	for (int k = 0; k < DTA_RECORD_KINDS; k++) {
		r.kind = (enum dta_record_kind)k;
		for (int i = 0; i < 300; i++)
			dta_map_take(s->batch, &r);
	}
}

static struct dta_map *map_of(const char *text, size_t bytes)
{
	char error[512] = "";
	struct dta_map *m = dta_map_text("map", text, bytes, error, sizeof(error));

	must(m || (*error && !strchr(error, '\n')));
	return m;
}

static void map_text(const uint8_t *data, size_t size)
{
	struct dta_map *m = map_of((const char *)data, size);
	struct seen s = {0};

	if (!m)
		return;
	s.batch = dta_map_batch_new(m, DTA_DEVICE_INT, take_block, &s);
	must(s.batch);
	take_whole(&s, data, size);
	dta_map_flush(s.batch);
	must(dta_map_stats(s.batch)->reports == s.reports);
	dta_map_batch_free(s.batch);
	dta_map_free(m);
}

static void datagrams(const struct dta_decoder_ops *ops, enum dta_device kind, const uint8_t *p,
		      size_t size)
{
	static const uint64_t later[] = {0, 1000000, DTA_EXPORTER_PROVEN_NS,
					 DTA_EXPORTER_LIFETIME_NS};
	static const uint8_t to[16];
	static struct dta_map *m;
	struct seen s = {0};
	struct dta_decoder *d = dta_decoder_new(ops, NULL, take_record, &s);
	uint64_t now = 1;

	if (!m)
		m = map_of(dta_map_default, strlen(dta_map_default));
	must(m && d);
	s.batch = dta_map_batch_new(m, kind, take_block, &s);
	must(s.batch);
	while (size >= 3) {
		size_t bytes = (size_t)p[1] << 8 | p[2];
		struct dta_datagram in = {.port = (uint16_t)(2000 + (p[0] & 3)),
					  .address = {.s6_addr = {[10] = 0xff, 0xff, 192, 0, 2}},
					  .to = to};
		uint8_t *exact;

		in.address.s6_addr[15] = p[0] >> 2 & 3;
		now += later[p[0] >> 4 & 3];
		bytes = bytes < size - 3 ? bytes : size - 3;
		exact = malloc(bytes ? bytes : 1); /* ends where the datagram does */
		must(exact);
		memcpy(exact, p + 3, bytes);
		in.data = exact;
		in.bytes = (uint32_t)bytes;
		dta_decoder_take(d, &in, now);
		free(exact);
		p += 3 + bytes;
		size -= 3 + bytes;
	}
	dta_map_flush(s.batch);
	if (ops->flush)
		ops->flush(d, UINT64_MAX);
	dta_map_flush(s.batch);
	must(d->stats.records == s.records && dta_map_stats(s.batch)->reports == s.reports);
	must(d->stats.exporters <= DTA_EXPORTERS && d->stats.templates < UINT32_MAX);
	must(d->stats.lost < UINT64_C(1) << 63);
	dta_map_batch_free(s.batch);
	ops->end(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const enum dta_device kind = size ? (enum dta_device)(data[0] % (DTA_DEVICES + 1))
					  : DTA_DEVICES;

	if (!size)
		return 0;
	if (kind == DTA_DEVICES)
		map_text(data + 1, size - 1);
	else if (dta_device_decoder(kind))
		datagrams(dta_device_decoder(kind), kind, data + 1, size - 1);
	return 0;
}
