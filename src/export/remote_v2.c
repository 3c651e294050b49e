// SPDX-License-Identifier: Apache-2.0
/*
 * The messages of version 2.0 (io/prometheus/write/v2/types.proto):
 *
 * 	Request    { repeated string symbols = 4; repeated TimeSeries timeseries = 5; }
 * 	TimeSeries { repeated uint32 labels_refs = 1; repeated Sample samples = 2;
 * 		     repeated Histogram histograms = 3; repeated Exemplar exemplars = 4;
 * 		     Metadata metadata = 5; int64 created_timestamp = 6; }
 * 	Sample     { double value = 1; int64 timestamp = 2; int64 start_timestamp = 3; }
 * 	Exemplar   { repeated uint32 labels_refs = 1; double value = 2; int64 timestamp = 3; }
 * 	Metadata   { MetricType type = 1; uint32 help_ref = 3; uint32 unit_ref = 4; }
 * 	Histogram  as in 1.0, and int64 start_timestamp = 17
 *
 * Receivers up to release candidate 3 of the specification read created_timestamp and later
 * receivers read start_timestamp; each ignores the other field.
 */
#include "export/remote_v2.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/hash.h"
#include "base/pb_read.h"
#include "base/table.h"
#include "export/pb.h"

#define SYMBOLS_MAX 65536u /* number of symbols remembered across requests */

struct buffer {
	uint8_t *at;
	size_t bytes, room;
};

/* A string used in this or an earlier request. */
struct symbol {
	struct base_node node;
	uint64_t request; /* last request that contains the string, as symbol `number` */
	uint32_t number, bytes;
	uint8_t text[];
};

struct export_remote_v2 {
	struct base_table symbols;
	struct buffer texts, series; /* symbols and series of the request */
	struct buffer open;	     /* the series under construction */
	struct buffer scratch;
	uint64_t request, items;
	uint32_t count; /* number of symbols in the request */
	int64_t created_ms;
	bool failed;
};

/* Returns room for n bytes and the head of a field, or NULL. */
static uint8_t *reserve_field(struct export_remote_v2 *v, struct buffer *b, size_t n)
{
	if (base_grow(&b->at, &b->room, b->bytes + n + 3 * EXPORT_PB_FIELD, 1))
		return b->at + b->bytes;
	v->failed = true;
	return NULL;
}

static void put_field(struct export_remote_v2 *v, struct buffer *b, unsigned int field,
		      const void *from, size_t n)
{
	uint8_t *p = reserve_field(v, b, n);

	if (p)
		b->bytes = (size_t)(export_pb_bytes(p, field, from, n) - b->at);
}

/* ---- symbols ---- */

static void forget_symbols(struct export_remote_v2 *v)
{
	BASE_TABLE_EACH(&v->symbols, n)
		free(n);
	base_table_free(&v->symbols);
}

static void begin_request(struct export_remote_v2 *v)
{
	v->texts.bytes = v->series.bytes = v->open.bytes = 0;
	v->items = 0;
	v->request++;
	v->failed = false;
	if (v->symbols.count > SYMBOLS_MAX)
		forget_symbols(v);
	if (!v->symbols.bucket)
		v->failed = !base_table_init(&v->symbols);
	/* The first symbol is always the empty string. */
	put_field(v, &v->texts, 4, "", 0);
	v->count = 1;
}

static struct symbol *find_symbol(struct export_remote_v2 *v, const void *text, size_t bytes)
{
	const uint64_t hash = base_hash(0, text, bytes);
	struct symbol *s;

	if (!v->symbols.bucket)
		return NULL;
	for (s = base_table_first(&v->symbols, hash); s; s = base_table_next(s))
		if (s->bytes == bytes && !memcmp(s->text, text, bytes))
			return s;
	s = malloc(sizeof(*s) + bytes);
	if (!s)
		return NULL;
	s->request = 0;
	s->bytes = (uint32_t)bytes;
	memcpy(s->text, text, bytes);
	base_table_add(&v->symbols, s, hash);
	return s;
}

static uint32_t number_of(struct export_remote_v2 *v, const void *text, size_t bytes)
{
	struct symbol *s = bytes ? find_symbol(v, text, bytes) : NULL;

	v->failed = v->failed || (bytes && !s);
	if (!s)
		return 0;
	if (s->request != v->request) {
		s->request = v->request;
		s->number = v->count++;
		put_field(v, &v->texts, 4, text, bytes);
	}
	return s->number;
}

/* Appends labels as references to symbols. */
static void put_labels(struct export_remote_v2 *v, struct buffer *b, const uint8_t *labels,
		       size_t bytes)
{
	struct base_pb p = {labels, labels + bytes, false};
	struct base_pb_field label, part;

	v->scratch.bytes = 0;
	while (base_pb_next(&p, &label) && label.wire == 2) {
		uint8_t *to = reserve_field(v, &v->scratch, 0);

		while (to && base_pb_next(&label.data, &part) && part.wire == 2)
			to = export_pb_varint(
				to,
				number_of(v, part.data.at, (size_t)(part.data.end - part.data.at)));
		if (to)
			v->scratch.bytes = (size_t)(to - v->scratch.at);
	}
	put_field(v, b, 1, v->scratch.at, v->scratch.bytes);
}

/* ---- series ---- */

void export_remote_v2_begin(struct export_remote_v2 *v, const uint8_t *labels, size_t label_bytes,
			    int64_t created_ms)
{
	v->open.bytes = 0;
	v->created_ms = created_ms;
	put_labels(v, &v->open, labels, label_bytes);
}

/* A sample must not be older than its start. */
static uint8_t *put_start(const struct export_remote_v2 *v, uint8_t *p, unsigned int field,
			  int64_t ms)
{
	return v->created_ms > 0 && v->created_ms <= ms
		       ? export_pb_u64(p, field, (uint64_t)v->created_ms)
		       : p;
}

void export_remote_v2_sample(struct export_remote_v2 *v, int64_t ms, double value)
{
	uint8_t one[4 * EXPORT_PB_FIELD], *p = export_pb_f64(one, 1, value);

	p = put_start(v, export_pb_u64(p, 2, (uint64_t)ms), 3, ms);
	put_field(v, &v->open, 2, one, (size_t)(p - one));
	v->items++;
}

void export_remote_v2_histogram(struct export_remote_v2 *v, int64_t ms, const uint8_t *message,
				size_t bytes)
{
	uint8_t created[EXPORT_PB_FIELD], *end = put_start(v, created, 17, ms), *p;

	p = reserve_field(v, &v->open, bytes);
	if (!p)
		return;
	p = export_pb_head(p, 3, bytes + (size_t)(end - created));
	p = (uint8_t *)mempcpy(p, message, bytes);
	p = (uint8_t *)mempcpy(p, created, (size_t)(end - created));
	v->open.bytes = (size_t)(p - v->open.at);
	v->items++;
}

void export_remote_v2_exemplar(struct export_remote_v2 *v, const uint8_t *labels,
			       size_t label_bytes, int64_t ms, double value)
{
	struct buffer one = {0};
	uint8_t *p;

	put_labels(v, &one, labels, label_bytes);
	p = reserve_field(v, &one, 0);
	if (p) {
		p = export_pb_u64(export_pb_f64(p, 2, value), 3, (uint64_t)ms);
		put_field(v, &v->open, 4, one.at, (size_t)(p - one.at));
	}
	free(one.at);
	v->items++;
}

void export_remote_v2_end(struct export_remote_v2 *v, const struct export_remote_v2_meta *meta)
{
	uint8_t one[3 * EXPORT_PB_FIELD], *p;

	if (meta) {
		p = export_pb_u64(one, 1, meta->type);
		p = export_pb_u64(p, 3, number_of(v, meta->help, strlen(meta->help)));
		p = export_pb_u64(p, 4, number_of(v, meta->unit, strlen(meta->unit)));
		put_field(v, &v->open, 5, one, (size_t)(p - one));
	}
	p = reserve_field(v, &v->open, 0);
	if (p && v->created_ms > 0)
		v->open.bytes = (size_t)(export_pb_u64(p, 6, (uint64_t)v->created_ms) - v->open.at);
	put_field(v, &v->series, 5, v->open.at, v->open.bytes);
}

/* ---- requests ---- */

size_t export_remote_v2_bytes(const struct export_remote_v2 *v)
{
	return v->texts.bytes + v->series.bytes + v->open.bytes;
}

uint8_t *export_remote_v2_take(struct export_remote_v2 *v, size_t *bytes, uint64_t *items)
{
	uint8_t *all = v->failed ? NULL : malloc(v->texts.bytes + v->series.bytes);

	*bytes = v->texts.bytes + v->series.bytes;
	*items = v->items;
	if (all)
		mempcpy(mempcpy(all, v->texts.at, v->texts.bytes), v->series.at, v->series.bytes);
	begin_request(v);
	return all;
}

struct export_remote_v2 *export_remote_v2_new(void)
{
	struct export_remote_v2 *v = calloc(1, sizeof(*v));

	if (v && base_table_init(&v->symbols)) {
		begin_request(v);
		return v;
	}
	free(v);
	return NULL;
}

void export_remote_v2_free(struct export_remote_v2 *v)
{
	if (!v)
		return;
	forget_symbols(v);
	free(v->texts.at);
	free(v->series.at);
	free(v->open.at);
	free(v->scratch.at);
	free(v);
}
