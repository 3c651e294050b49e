// SPDX-License-Identifier: Apache-2.0
/*
 * The messages (opentelemetry/proto: collector/trace/v1, trace/v1, resource/v1, common/v1):
 *
 * 	ExportTraceServiceRequest { repeated ResourceSpans resource_spans = 1; }
 * 	ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
 * 	Resource { repeated KeyValue attributes = 1; }
 * 	ScopeSpans { InstrumentationScope scope = 1; repeated Span spans = 2; }
 * 	InstrumentationScope { string name = 1; string version = 2; }
 * 	Span { bytes trace_id = 1; bytes span_id = 2; bytes parent_span_id = 4; string name = 5;
 *                SpanKind kind = 6; fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano =
 *                8;
 * 	       repeated KeyValue attributes = 9; Status status = 15; fixed32 flags = 16; }
 * 	Status { string message = 2; StatusCode code = 3; }
 * 	KeyValue { string key = 1; AnyValue value = 2; }
 * 	AnyValue { string string_value = 1; bool bool_value = 2; int64 int_value = 3;
 * 	           double double_value = 4; }
 *
 * Concatenated requests form one request, which is how a batch is built. The answer:
 *
 * 	ExportTraceServiceResponse { ExportTracePartialSuccess partial_success = 1; }
 * 	ExportTracePartialSuccess { int64 rejected_spans = 1; string error_message = 2; }
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/pb_read.h"
#include "base/relaxed.h"
#include "export/otlp.h"
#include "export/pb.h"

#define BATCH_BYTES (512u << 10) /* maximum size of a request */

struct export_otlp {
	struct export_push *push;
	struct export_sent *sent; /* may be NULL */
	/* The request under construction. */
	uint8_t *batch;
	size_t bytes, room;
	uint64_t items;
	bool plain; /* the receiver does not accept gzip; used only by push's thread */
	/* Buffer for one message. */
	uint8_t *buffer;
	size_t size;
	/* Written by the calling thread, read by any thread. */
	uint64_t spans, dropped_memory, known;
};

/* ---- protobuf: each function appends at p, where export_otlp_spans() has reserved room ---- */

static uint8_t *put_attr(uint8_t *p, unsigned int field, const struct export_otlp_attr *a)
{
	uint8_t *attr = export_pb_open(p, field, 1), *value;

	p = export_pb_string(attr, 1, a->key);
	value = export_pb_open(p, 2, 1);
	switch (a->type) {
	case EXPORT_OTLP_STRING:
		p = export_pb_string(value, 1, a->string);
		break;
	case EXPORT_OTLP_BOOL:
		p = export_pb_u64(value, 2, a->boolean);
		break;
	case EXPORT_OTLP_I64:
		p = export_pb_u64(value, 3, (uint64_t)a->i64);
		break;
	case EXPORT_OTLP_F64:
		p = export_pb_f64(value, 4, a->f64);
		break;
	}
	p = export_pb_close(value, p, 1);
	return export_pb_close(attr, p, 1);
}

static uint8_t *put_span_id(uint8_t *p, unsigned int field, uint64_t id)
{
	id = htobe64(id);
	return export_pb_bytes(p, field, &id, sizeof(id));
}

static uint8_t *put_span(uint8_t *p, const struct export_otlp_span *s)
{
	const uint64_t trace[2] = {htobe64(s->trace_hi), htobe64(s->trace_lo)};
	uint8_t *span = export_pb_open(p, 2, 2), *status;

	p = export_pb_bytes(span, 1, trace, sizeof(trace));
	p = put_span_id(p, 2, s->span_id);
	if (s->parent_id)
		p = put_span_id(p, 4, s->parent_id);
	p = export_pb_string(p, 5, s->name);
	p = export_pb_u64(p, 6, s->kind);
	p = export_pb_fixed64(p, 7, s->start_ns);
	p = export_pb_fixed64(p, 8, s->end_ns);
	for (size_t i = 0; i < s->attr_count; i++)
		p = put_attr(p, 9, &s->attrs[i]);
	status = export_pb_open(p, 15, 1);
	p = status;
	if (*s->message)
		p = export_pb_string(p, 2, s->message);
	if (s->status)
		p = export_pb_u64(p, 3, s->status);
	p = export_pb_close(status, p, 1);
	p = export_pb_fixed32(p, 16, s->flags);
	return export_pb_close(span, p, 2);
}

static uint8_t *put_resource(uint8_t *p, const struct export_otlp_attr *attrs, size_t count,
			     const struct export_otlp_span *spans, size_t n)
{
	uint8_t *all = export_pb_open(p, 1, 3), *part, *scope;

	part = export_pb_open(all, 1, 2);
	p = part;
	for (size_t i = 0; i < count; i++)
		p = put_attr(p, 1, &attrs[i]);
	p = export_pb_close(part, p, 2);
	part = export_pb_open(p, 2, 3);
	scope = export_pb_open(part, 1, 1);
	p = export_pb_string(scope, 1, "sidelight");
	p = export_pb_string(p, 2, SL_VERSION_STRING);
	p = export_pb_close(scope, p, 1);
	for (size_t i = 0; i < n; i++)
		p = put_span(p, &spans[i]);
	p = export_pb_close(part, p, 3);
	return export_pb_close(all, p, 3);
}

/* ---- requests ---- */

void export_otlp_flush(struct export_otlp *o)
{
	if (!o->items)
		return;
	export_push_send(o->push, o->batch, o->bytes, o->items); /* push takes over the batch */
	o->batch = NULL;
	o->bytes = o->room = 0;
	o->items = 0;
}

static size_t attr_room(const struct export_otlp_attr *a, size_t count)
{
	size_t sum = 0;

	/* Key and value have two lengths and three tags, of at most 10 bytes each. */
	for (size_t i = 0; i < count; i++)
		sum += 64 + strlen(a[i].key) +
		       (a[i].type == EXPORT_OTLP_STRING ? strlen(a[i].string) : 0);
	return sum;
}

void export_otlp_spans(struct export_otlp *o, const struct export_otlp_attr *resource,
		       size_t resource_count, const struct export_otlp_span *spans, size_t n)
{
	size_t room = 256 + attr_room(resource, resource_count), length;

	for (size_t i = 0; i < n; i++)
		room += 256 + strlen(spans[i].name) + strlen(spans[i].message) +
			attr_room(spans[i].attrs, spans[i].attr_count);
	relaxed_bump(o->spans, n);
	if (!base_grow(&o->buffer, &o->size, room, 1)) {
		relaxed_bump(o->dropped_memory, n);
		return;
	}
	length = (size_t)(put_resource(o->buffer, resource, resource_count, spans, n) - o->buffer);
	if (o->bytes && o->bytes + length > BATCH_BYTES)
		export_otlp_flush(o);
	if (!base_grow(&o->batch, &o->room, o->bytes + length, 1)) {
		relaxed_bump(o->dropped_memory, n);
		return;
	}
	memcpy(o->batch + o->bytes, o->buffer, length);
	o->bytes += length;
	o->items += n;
}

/* ---- answers, and accepted requests ---- */

/*
 * Reads the next field; a truncated field ends where the data ends. Returns false at the end, or if
 * the data is not protobuf.
 */
static bool next_field(struct base_pb *p, struct base_pb_field *f)
{
	*f = (struct base_pb_field){0};
	return base_pb_next(p, f) || f->data.at;
}

static bool next_message(struct base_pb *p, uint32_t number, struct base_pb *in)
{
	struct base_pb_field f;

	while (next_field(p, &f)) {
		if (f.number != number || f.wire != PB_LENGTH)
			continue;
		*in = f.data;
		return true;
	}
	return false;
}

void export_otlp_traces(const void *request, size_t bytes,
			void (*fn)(void *, uint64_t trace_hi, uint64_t trace_lo), void *arg)
{
	struct base_pb all = {request, (const uint8_t *)request + bytes, false};
	struct base_pb resource, scope, span, id;
	uint64_t trace[2], last[2] = {0, 0};

	while (next_message(&all, 1, &resource))
		while (next_message(&resource, 2, &scope))
			while (next_message(&scope, 2, &span)) {
				if (!next_message(&span, 1, &id) || id.end - id.at != 16)
					continue;
				memcpy(trace, id.at, 16);
				if (!memcmp(trace, last, 16))
					continue;
				memcpy(last, trace, 16);
				fn(arg, __builtin_bswap64(trace[0]), __builtin_bswap64(trace[1]));
			}
}

/* https://opentelemetry.io/docs/specs/otlp/#partial-success */
uint64_t export_otlp_left_out(const void *answer, size_t bytes, char *why, size_t why_bytes)
{
	struct base_pb r = {answer, (const uint8_t *)answer + bytes, false}, partial;
	uint64_t rejected = 0;
	struct base_pb_field f;

	if (!next_message(&r, 1, &partial))
		return 0;
	while (next_field(&partial, &f)) {
		if (f.number == 1 && f.wire == PB_VARINT)
			rejected = f.value <= INT64_MAX ? f.value : 0;
		else if (f.number == 2 && f.wire == PB_LENGTH)
			snprintf(why, why_bytes, "%.*s", (int)(f.data.end - f.data.at),
				 (const char *)f.data.at);
	}
	return rejected;
}

/* Records that the receiver has this trace, so that the next process can skip it. */
static void remember_trace(void *arg, uint64_t trace_hi, uint64_t trace_lo)
{
	struct export_otlp *o = arg;

	if (!export_sent_add(o->sent, trace_hi, trace_lo))
		base_log_limited(BASE_WARN, "otlp",
				 "cannot record which traces were sent: they may be sent again "
				 "after a restart");
}

static uint64_t take_answer(void *arg, const void *body, size_t bytes, const void *answer,
			    size_t answer_bytes, char *why, size_t why_bytes)
{
	struct export_otlp *o = arg;

	if (o->sent)
		export_otlp_traces(body, bytes, remember_trace, o);
	return export_otlp_left_out(answer, answer_bytes, why, why_bytes);
}

bool export_otlp_known(struct export_otlp *o, uint64_t trace_hi, uint64_t trace_lo)
{
	bool known = o->sent && export_sent_has(o->sent, trace_hi, trace_lo);

	relaxed_bump(o->known, known);
	return known;
}

bool export_otlp_certain(const struct export_otlp *o)
{
	return o->sent && export_sent_old(o->sent);
}

/* ---- compression, used until the receiver answers 415 ---- */

static const char *const gzip[] = {"Content-Encoding: gzip", NULL};
/* tells libcurl to omit the header */
static const char *const no_gzip[] = {"Content-Encoding:", NULL};

/*
 * Compresses the body as one gzip member. Leaves it unchanged if out of memory or if the receiver
 * does not accept gzip.
 */
static bool pack_body(void *arg, struct export_push_try *t)
{
	const struct export_otlp *o = arg;
	z_stream z = {0};
	int code;

	t->replace = no_gzip;
	if (o->plain || t->bytes > UINT32_MAX / 2 ||
	    deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return true;
	z.avail_out = (uInt)deflateBound(&z, t->bytes);
	t->made = z.next_out = malloc(z.avail_out);
	z.next_in = (Bytef *)(uintptr_t)t->body;
	z.avail_in = (uInt)t->bytes;
	code = t->made ? deflate(&z, Z_FINISH) : Z_MEM_ERROR;
	deflateEnd(&z);
	if (code == Z_STREAM_END) {
		t->replace = NULL;
		t->send = t->made;
		t->send_bytes = z.total_out;
	} else {
		free(t->made);
		t->made = NULL;
	}
	return true;
}

static enum export_push_outcome judge_answer(void *arg, const struct export_push_try *t,
					     long status, const int64_t number[EXPORT_PUSH_NUMBERS],
					     enum export_push_outcome usual, uint64_t *rejected)
{
	struct export_otlp *o = arg;

	(void)number;
	(void)rejected;
	if (status != 415 || !t->made)
		return usual;
	o->plain = true;
	return EXPORT_PUSH_AGAIN;
}

/* ---- public functions ---- */

struct export_otlp *export_otlp_new(const char *url, const char *config, const char *sent,
				    char *error, size_t error_bytes)
{
	struct export_otlp *o = calloc(1, sizeof(*o));
	const char *host = strstr(url, "://");
	bool path = host && strchr(host + 3, '/');
	size_t n = strlen(url) + sizeof("/v1/traces");
	char *whole = malloc(n);

	if (!o || !whole) {
		errno = base_fail(error, error_bytes, ENOMEM, "out of memory");
		goto fail;
	}
	snprintf(whole, n, "%s%s", url, path ? "" : "/v1/traces");
	if (sent) {
		o->sent = export_sent_open(sent, error, error_bytes);
		if (!o->sent)
			goto fail;
	}
	o->push = export_push_new(
		&(struct export_push_opts){
			.url = whole,
			.config = config,
			.name = "otlp",
			.content_type = "application/x-protobuf",
			/* the specification says that other 5xx answers "MUST NOT be retried" */
			.unavailable_only = true,
			.taken = take_answer,
			.taken_arg = o,
			.headers = gzip,
			.hooks = {.arg = o, .make = pack_body, .judge = judge_answer},
		},
		error, error_bytes);
	if (!o->push)
		goto fail;
	free(whole);
	return o;
fail:
	free(whole); /* free() preserves errno since glibc 2.33 */
	if (o)
		export_sent_close(o->sent);
	free(o);
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
