// SPDX-License-Identifier: Apache-2.0
/*
 * otlp.c - see otlp.h. The messages (opentelemetry/proto: collector/trace/v1, trace/v1,
 * resource/v1, common/v1):
 *
 * 	ExportTraceServiceRequest { repeated ResourceSpans resource_spans = 1; }
 * 	ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
 * 	Resource { repeated KeyValue attributes = 1; }
 * 	ScopeSpans { InstrumentationScope scope = 1; repeated Span spans = 2; }
 * 	InstrumentationScope { string name = 1; string version = 2; }
 * 	Span { bytes trace_id = 1; bytes span_id = 2; bytes parent_span_id = 4; string name = 5;
 * 	       SpanKind kind = 6; fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8;
 * 	       repeated KeyValue attributes = 9; Status status = 15; fixed32 flags = 16; }
 * 	Status { string message = 2; StatusCode code = 3; }
 * 	KeyValue { string key = 1; AnyValue value = 2; }
 * 	AnyValue { string string_value = 1; bool bool_value = 2; int64 int_value = 3;
 * 	           double double_value = 4; }
 *
 * Written from the end to the start, so that the length of a message is known when its turn comes.
 * Two requests, one behind the other, are one request: that is how a batch is made.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "export/otlp.h"
#include "export/otlp_read.h"
#include "export/sent.h"

struct export_otlp {
	struct export_push *push;
	struct export_sent *sent; /* or NULL */
	size_t batch_bytes;
	/* The request under way. */
	uint8_t *batch;
	size_t bytes, room;
	uint64_t items;
	/* Scratch for one message. */
	uint8_t *buffer;
	size_t size;
	/* Written by the one thread, looked at by any. */
	uint64_t spans, dropped_memory, known;
};

/* ---- protobuf, backwards ---- */

struct otlp_writer {
	uint8_t *start, *at; /* at: the first byte that is written */
	bool full;
};

static void bytes(struct otlp_writer *w, const void *from, size_t n)
{
	if (w->full || (size_t)(w->at - w->start) < n) {
		w->full = true;
		return;
	}
	w->at -= n;
	if (n)
		memcpy(w->at, from, n);
}

static void varint(struct otlp_writer *w, uint64_t v)
{
	uint8_t text[10];
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		text[n++] = (uint8_t)(v | 0x80);
	text[n++] = (uint8_t)v;
	bytes(w, text, n);
}

enum otlp_wire { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };

static void tag(struct otlp_writer *w, uint32_t field, enum otlp_wire wire)
{
	varint(w, field << 3 | wire);
}

static void fixed(struct otlp_writer *w, uint32_t field, uint64_t v, size_t n)
{
	bytes(w, &v, n); /* little-endian, as this machine is */
	tag(w, field, n == 8 ? FIXED64 : FIXED32);
}

static void number(struct otlp_writer *w, uint32_t field, uint64_t v)
{
	varint(w, v);
	tag(w, field, VARINT);
}

static void blob(struct otlp_writer *w, uint32_t field, const void *from, size_t n)
{
	bytes(w, from, n);
	varint(w, n);
	tag(w, field, LENGTH);
}

static void string(struct otlp_writer *w, uint32_t field, const char *s)
{
	blob(w, field, s, strlen(s));
}

/* What was written since `end` is a message in this field. */
static void message(struct otlp_writer *w, uint32_t field, const uint8_t *end)
{
	varint(w, (uint64_t)(end - w->at));
	tag(w, field, LENGTH);
}

static void key_value(struct otlp_writer *w, uint32_t field, const struct export_otlp_attr *a)
{
	const uint8_t *end = w->at, *value = w->at;
	uint64_t bits;

	switch (a->type) {
	case EXPORT_OTLP_STRING:
		string(w, 1, a->string);
		break;
	case EXPORT_OTLP_BOOL:
		number(w, 2, a->boolean);
		break;
	case EXPORT_OTLP_I64:
		number(w, 3, (uint64_t)a->i64);
		break;
	case EXPORT_OTLP_F64:
		memcpy(&bits, &a->f64, 8);
		fixed(w, 4, bits, 8);
		break;
	}
	message(w, 2, value);
	string(w, 1, a->key);
	message(w, field, end);
}

/* An id, the most significant byte first. */
static void id(struct otlp_writer *w, uint32_t field, uint64_t hi, uint64_t lo, size_t n)
{
	uint64_t text[2] = {__builtin_bswap64(n == 16 ? hi : lo), __builtin_bswap64(lo)};

	blob(w, field, text, n);
}

static void put_span(struct otlp_writer *w, const struct export_otlp_span *s)
{
	const uint8_t *end = w->at, *status;

	fixed(w, 16, s->flags, 4);
	status = w->at;
	if (s->status)
		number(w, 3, s->status);
	if (*s->message)
		string(w, 2, s->message);
	message(w, 15, status);
	for (size_t i = s->attr_count; i--;)
		key_value(w, 9, &s->attrs[i]);
	fixed(w, 8, s->end_ns, 8);
	fixed(w, 7, s->start_ns, 8);
	number(w, 6, s->kind);
	string(w, 5, s->name);
	if (s->parent_id)
		id(w, 4, 0, s->parent_id, 8);
	id(w, 2, 0, s->span_id, 8);
	id(w, 1, s->trace_hi, s->trace_lo, 16);
	message(w, 2, end);
}

static void put_resource(struct otlp_writer *w, const struct export_otlp_attr *resource,
			 size_t count, const struct export_otlp_span *spans, size_t n)
{
	const uint8_t *end = w->at, *part = w->at;

	while (n--)
		put_span(w, &spans[n]);
	{
		const uint8_t *scope = w->at;

		string(w, 2, SL_VERSION_STRING);
		string(w, 1, "sidelight");
		message(w, 1, scope);
	}
	message(w, 2, part);
	part = w->at;
	while (count--)
		key_value(w, 1, &resource[count]);
	message(w, 1, part);
	message(w, 1, end);
}

/* ---- requests ---- */

static void add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

void export_otlp_flush(struct export_otlp *o)
{
	if (!o->items)
		return;
	export_push_send(o->push, o->batch, o->bytes, o->items); /* taken over */
	o->batch = NULL;
	o->bytes = o->room = 0;
	o->items = 0;
}

static bool reserve(uint8_t **at, size_t *room, size_t wanted)
{
	uint8_t *to;

	if (wanted <= *room)
		return true;
	to = realloc(*at, wanted);
	if (!to)
		return false;
	*at = to;
	*room = wanted;
	return true;
}

static size_t attr_room(const struct export_otlp_attr *a, size_t count)
{
	size_t sum = 0;

	/* Two lengths and three tags around key and value, of at most 10 bytes each. */
	for (size_t i = 0; i < count; i++)
		sum += 64 + strlen(a[i].key) +
		       (a[i].type == EXPORT_OTLP_STRING ? strlen(a[i].string) : 0);
	return sum;
}

void export_otlp_spans(struct export_otlp *o, const struct export_otlp_attr *resource,
		       size_t resource_count, const struct export_otlp_span *spans, size_t n)
{
	size_t room = 256 + attr_room(resource, resource_count), length;
	struct otlp_writer w;

	for (size_t i = 0; i < n; i++)
		room += 256 + strlen(spans[i].name) + strlen(spans[i].message) +
			attr_room(spans[i].attrs, spans[i].attr_count);
	add(&o->spans, n);
	if (!reserve(&o->buffer, &o->size, room)) {
		add(&o->dropped_memory, n);
		return;
	}
	w = (struct otlp_writer){o->buffer, o->buffer + o->size, false};
	put_resource(&w, resource, resource_count, spans, n);
	length = (size_t)(o->buffer + o->size - w.at);
	if (o->bytes && o->bytes + length > o->batch_bytes)
		export_otlp_flush(o);
	if (w.full || !reserve(&o->batch, &o->room, o->bytes + length)) {
		add(&o->dropped_memory, n);
		return;
	}
	memcpy(o->batch + o->bytes, w.at, length);
	o->bytes += length;
	o->items += n;
}

/* ---- answers ---- */

/* The receiver has this trace: to be known by whoever comes after us. */
static void remember(void *arg, uint64_t trace_hi, uint64_t trace_lo)
{
	struct export_otlp *o = arg;

	if (!export_sent_add(o->sent, trace_hi, trace_lo))
		base_log_limited(BASE_WARN, "otlp",
				 "cannot write which traces were sent: after a restart they may be "
				 "sent again");
}

static uint64_t taken(void *arg, const void *body, size_t bytes, const void *answer,
		      size_t answer_bytes, char *why, size_t why_bytes)
{
	struct export_otlp *o = arg;

	if (o->sent)
		export_otlp_traces(body, bytes, remember, o);
	return export_otlp_left_out(answer, answer_bytes, why, why_bytes);
}

bool export_otlp_known(struct export_otlp *o, uint64_t trace_hi, uint64_t trace_lo)
{
	bool known = o->sent && export_sent_has(o->sent, trace_hi, trace_lo);

	add(&o->known, known);
	return known;
}

bool export_otlp_certain(const struct export_otlp *o)
{
	return o->sent && export_sent_old(o->sent);
}

/* ---- the whole ---- */

struct export_otlp *export_otlp_new(const struct export_otlp_opts *opts, char *error,
				    size_t error_bytes)
{
	struct export_otlp *o = calloc(1, sizeof(*o));
	const char *host = strstr(opts->url, "://");
	bool path = host && strchr(host + 3, '/');
	size_t n = strlen(opts->url) + sizeof("/v1/traces");
	char *url = malloc(n);
	int saved;

	if (!o || !url) {
		snprintf(error, error_bytes, "out of memory");
		errno = ENOMEM;
		goto fail;
	}
	snprintf(url, n, "%s%s", opts->url, path ? "" : "/v1/traces");
	if (opts->sent) {
		o->sent = export_sent_open(opts->sent, error, error_bytes);
		if (!o->sent)
			goto fail;
	}
	o->batch_bytes = opts->batch_bytes ? opts->batch_bytes : 512u << 10;
	o->push = export_push_new(
		&(struct export_push_opts){
			.url = url,
			.name = "otlp",
			.content_type = "application/x-protobuf",
			.max_bytes = opts->max_bytes,
			.max_age_ns = opts->max_age_ns,
			.unavailable_only = true, /* "MUST NOT be retried": all other 5xx */
			.taken = taken,
			.taken_arg = o,
		},
		error, error_bytes);
	if (!o->push)
		goto fail;
	free(url);
	return o;
fail:
	saved = errno;
	free(url);
	if (o)
		export_sent_close(o->sent);
	free(o);
	errno = saved;
	return NULL;
}

void export_otlp_stats(struct export_otlp *o, struct export_otlp_stats *out)
{
	out->spans = __atomic_load_n(&o->spans, __ATOMIC_RELAXED);
	out->known = __atomic_load_n(&o->known, __ATOMIC_RELAXED);
	out->dropped_memory = __atomic_load_n(&o->dropped_memory, __ATOMIC_RELAXED);
	export_push_stats(o->push, &out->push);
}

void export_otlp_free(struct export_otlp *o, uint64_t linger_ns)
{
	if (!o)
		return;
	export_otlp_flush(o);
	export_push_free(o->push, linger_ns);
	export_sent_close(o->sent);
	free(o->batch);
	free(o->buffer);
	free(o);
}
