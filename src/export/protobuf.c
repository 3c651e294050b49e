// SPDX-License-Identifier: Apache-2.0
/*
 * protobuf.c - io.prometheus.client.MetricFamily, delimited: each message behind its length. As
 * that stands in front, a large family comes in several messages of the same name, which readers
 * take for what it is: a renderer would otherwise have to hold the family.
 *
 * The schema is tests/export/metrics.proto. Histograms with exponential buckets are native ones.
 * The field numbers and the sparse form (spans of buckets, differences of counts) are those of
 * Prometheus' client model.
 */
#include <errno.h>
#include <string.h>

#include "export/render.h"
#include "export/varint.h"

#define HEAD_ROOM 10 /* for the length of a message, which is known last */

enum protobuf_wire { VARINT = 0, FIXED64 = 1, BYTES = 2 };
#define TAG(field, wire) ((unsigned char)((field) << 3 | (wire)))

/* Room for n more bytes of the message. */
static bool reserve(struct export_render *r, size_t n)
{
	size_t need = r->message_bytes + n;

	return need <= r->message_room ||
	       export_render_grow(r, &r->message, &r->message_room, need < 4096 ? 4096 : need, 1);
}

/* These append to the message; their caller has reserved room. */

static inline void byte(struct export_render *r, unsigned char b)
{
	r->message[r->message_bytes++] = b;
}

static inline void varint(struct export_render *r, uint64_t v)
{
	while (v >= 0x80) {
		byte(r, (unsigned char)(v | 0x80));
		v >>= 7;
	}
	byte(r, (unsigned char)v);
}

static inline void fixed64(struct export_render *r, double v)
{
	memcpy(r->message + r->message_bytes, &v, 8);
	r->message_bytes += 8;
}

static inline void bytes(struct export_render *r, unsigned char tag, const char *s, size_t n)
{
	byte(r, tag);
	varint(r, n);
	memcpy(r->message + r->message_bytes, s, n);
	r->message_bytes += n;
}

/*
 * A message within: its length is put in front when it is known, into room that was left for it by
 * a guess. Returns how long the length was.
 */
static size_t begin(struct export_render *r, unsigned char tag, size_t guess)
{
	byte(r, tag);
	r->message_bytes += guess;
	return r->message_bytes;
}

static size_t end(struct export_render *r, size_t start, size_t guess)
{
	size_t n = r->message_bytes - start, length = export_varint_bytes(n);

	if (length != guess)
		memmove(r->message + start - guess + length, r->message + start, n);
	r->message_bytes = start - guess;
	varint(r, n);
	r->message_bytes += n;
	return length;
}

/* ---- histograms ---- */

static void timestamp(struct export_render *r, unsigned char tag, uint64_t at)
{
	uint64_t s = at / 1000000000u, ns = at % 1000000000u;

	if (!at)
		return;
	byte(r, tag);
	varint(r, 1 + export_varint_bytes(s) + (ns ? 1 + export_varint_bytes(ns) : 0));
	byte(r, TAG(1, VARINT));
	varint(r, s);
	if (ns) {
		byte(r, TAG(2, VARINT));
		varint(r, ns);
	}
}

static void created(struct export_render *r, unsigned char tag)
{
	timestamp(r, tag, r->series.created_ns);
}

static struct export_native_buckets buckets_of(const struct export_series *s)
{
	return (struct export_native_buckets){s->buckets,      s->bucket_count,	  s->scale,
					      s->first_bucket, s->zero_threshold, s->sum};
}

static bool is_native(const struct export_series *s)
{
	struct export_native_buckets b = buckets_of(s);

	return s->exponential && export_native_fits(&b);
}

static bool native_histogram(struct export_render *r)
{
	static const struct export_native_fields fields = {1, 2, 5, 6, 7, 12, 13};
	struct export_native_buckets b = buckets_of(&r->series);
	uint8_t *p;

	if (!export_native_make(&r->native, &b)) {
		r->error = -ENOMEM;
		return false;
	}
	if (!reserve(r, export_native_bytes(&r->native)))
		return false;
	p = (uint8_t *)r->message + r->message_bytes;
	r->message_bytes += (size_t)(export_native_put(p, &r->native, &fields) - p);
	return true;
}

/* Cumulative, without the last bucket: a reader adds +Inf by the count. */
static bool classic_histogram(struct export_render *r)
{
	const struct export_series *s = &r->series;
	struct export_bounds *b = &r->bounds;
	uint64_t cumulative = 0;
	size_t added = 0;

	if (!export_bounds_make(r) || !reserve(r, 64 + 24 * b->count))
		return false;
	for (size_t i = 0; i < b->count; i++) {
		while (added <= b->bucket[i])
			cumulative += s->buckets[added++];
		byte(r, TAG(3, BYTES));
		varint(r, 1 + export_varint_bytes(cumulative) + 9);
		byte(r, TAG(1, VARINT));
		varint(r, cumulative);
		byte(r, TAG(2, FIXED64));
		fixed64(r, b->bound[i]);
	}
	while (added < s->bucket_count)
		cumulative += s->buckets[added++];
	byte(r, TAG(1, VARINT));
	varint(r, cumulative);
	byte(r, TAG(2, FIXED64));
	fixed64(r, s->sum);
	return true;
}

static bool histogram(struct export_render *r)
{
	size_t start;

	if (!reserve(r, 16))
		return false;
	start = begin(r, TAG(7, BYTES), 2);
	if (!(is_native(&r->series) ? native_histogram(r) : classic_histogram(r)))
		return false;
	created(r, TAG(15, BYTES));
	end(r, start, 2);
	return true;
}

/* ---- metrics ---- */

static bool label(struct export_render *r, const char *key, const char *value)
{
	size_t k = strlen(key), v = strlen(value);

	if (!reserve(r, k + v + 32))
		return false;
	byte(r, TAG(1, BYTES));
	varint(r, 2 + export_varint_bytes(k) + k + export_varint_bytes(v) + v);
	bytes(r, TAG(1, BYTES), key, k);
	bytes(r, TAG(2, BYTES), value, v);
	return true;
}

static void gauge(struct export_render *r, double v)
{
	byte(r, TAG(2, BYTES));
	byte(r, 9);
	byte(r, TAG(1, FIXED64));
	fixed64(r, v);
}

#define EXEMPLAR_MAX 128u /* its label set, as OpenMetrics bounds it */

/* The trace that is an example of what was counted. */
static bool exemplar(struct export_render *r)
{
	const char *trace = r->series.exemplar_trace;
	size_t start;

	if (!trace || strlen(trace) > EXEMPLAR_MAX)
		return true;
	if (!reserve(r, EXEMPLAR_MAX + 128))
		return false;
	start = begin(r, TAG(2, BYTES), 1);
	if (!label(r, "trace_id", trace))
		return false;
	byte(r, TAG(2, FIXED64));
	fixed64(r, 1);
	timestamp(r, TAG(3, BYTES), r->series.exemplar_ns);
	end(r, start, 1);
	return true;
}

static bool counter(struct export_render *r, double v)
{
	size_t start = begin(r, TAG(3, BYTES), 1);

	byte(r, TAG(1, FIXED64));
	fixed64(r, v);
	if (!exemplar(r) || !reserve(r, 64))
		return false;
	created(r, TAG(3, BYTES));
	end(r, start, 1);
	return true;
}

static double value_of(const struct export_series *s)
{
	return s->value_type == EXPORT_VALUE_U64   ? (double)s->value.u64
	       : s->value_type == EXPORT_VALUE_I64 ? (double)s->value.i64
						   : s->value.f64;
}

/* One Metric; state is the index of a state set's, or -1. */
static bool metric(struct export_render *r, int state, const char *state_label)
{
	const struct export_series *s = &r->series;
	size_t start;

	if (!reserve(r, 64))
		return false;
	start = begin(r, TAG(4, BYTES), r->length_bytes);
	for (size_t i = 0; i < s->label_count; i++)
		if (!label(r, s->label_keys[i], s->label_values[i]))
			return false;
	if (state >= 0 && !label(r, state_label, s->states[state]))
		return false;
	if (!reserve(r, 64))
		return false;
	switch (r->family.type) {
	case EXPORT_FAMILY_COUNTER:
		if (!counter(r, value_of(s)))
			return false;
		break;
	case EXPORT_FAMILY_HISTOGRAM:
		if (!histogram(r))
			return false;
		break;
	case EXPORT_FAMILY_INFO:
		gauge(r, 1);
		break;
	case EXPORT_FAMILY_STATESET:
		gauge(r, (double)(s->value.u64 >> state & 1));
		break;
	case EXPORT_FAMILY_GAUGE:
		gauge(r, value_of(s));
		break;
	}
	r->length_bytes = end(r, start, r->length_bytes);
	return true;
}

/* ---- families ---- */

static void begin_family(struct export_render *r)
{
	enum export_family_type type = r->family.type;
	const char *suffix = type == EXPORT_FAMILY_COUNTER ? "_total"
			     : type == EXPORT_FAMILY_INFO  ? "_info"
							   : "";
	size_t help = strlen(r->family.help), n = strlen(suffix);

	r->message_bytes = HEAD_ROOM;
	r->length_bytes = 1;
	if (!reserve(r, sizeof(r->name) + help + 64))
		return;
	byte(r, TAG(1, BYTES));
	varint(r, r->name_bytes + n);
	memcpy(r->message + r->message_bytes, r->name, r->name_bytes);
	r->message_bytes += r->name_bytes;
	memcpy(r->message + r->message_bytes, suffix, n);
	r->message_bytes += n;
	if (help)
		bytes(r, TAG(2, BYTES), r->family.help, help);
	byte(r, TAG(3, VARINT));
	byte(r, type == EXPORT_FAMILY_COUNTER ? 0 : type == EXPORT_FAMILY_HISTOGRAM ? 4 : 1);
	r->message_head = r->message_bytes;
	r->phase = EXPORT_PHASE_SERIES;
}

/* Hands the message out, and begins another one with the same head. */
static void flush(struct export_render *r)
{
	size_t n = r->message_bytes - HEAD_ROOM, length = export_varint_bytes(n);

	if (r->message_bytes == r->message_head)
		return; /* no metric in it */
	r->message_bytes = HEAD_ROOM - length;
	varint(r, n);
	r->message_bytes = r->message_head;
	export_render_pend(r, r->message + HEAD_ROOM - length, length + n);
}

static void next_series(struct export_render *r)
{
	char buf[EXPORT_SHOWN_NAME_MAX + 1];
	const char *reserved = "";
	size_t states;

	if (r->family.type == EXPORT_FAMILY_HISTOGRAM)
		reserved = "le"; /* for the same labels as in the text formats */
	else if (r->family.type == EXPORT_FAMILY_STATESET)
		reserved = export_render_state_label(r, buf);
	while (r->message_bytes < EXPORT_PROTOBUF_MESSAGE) {
		if (!export_render_next_series(r, reserved)) {
			r->phase = EXPORT_PHASE_FAMILY;
			break;
		}
		if (r->family.type == EXPORT_FAMILY_STATESET) {
			states = r->series.state_count < 64 ? r->series.state_count : 64;
			for (size_t i = 0; i < states; i++)
				if (!metric(r, (int)i, reserved))
					return;
		} else if (!metric(r, -1, NULL)) {
			return;
		}
	}
	flush(r);
}

void export_protobuf_step(struct export_render *r)
{
	int more;

	if (r->phase != EXPORT_PHASE_FAMILY) {
		next_series(r);
		return;
	}
	more = r->source.next_family(r->walk, &r->family);
	if (more < 0)
		r->error = more;
	else if (!more)
		r->phase = EXPORT_PHASE_END;
	else if (export_names_take(r))
		begin_family(r);
}
