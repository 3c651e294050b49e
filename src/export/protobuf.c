// SPDX-License-Identifier: Apache-2.0
/*
 * protobuf.c - io.prometheus.client.MetricFamily, each message after its length. As the length
 * comes first, a large family is split into messages of the same name, which readers accept;
 * otherwise the renderer would have to hold the whole family.
 *
 * The schema is tests/support/metrics.proto; field numbers are those of Prometheus' client model.
 * Exponential histograms are native ones.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "export/render.h"
#include "export/pb.h"

#define HEAD_ROOM 10 /* for a message's length, which is known last */

/* Reserves n more bytes of the message. */
static bool reserve(struct export_render *r, size_t n)
{
	size_t need = r->message_bytes + n;

	return need <= r->message_room ||
	       export_render_grow(r, &r->message, &r->message_room, need < 4096 ? 4096 : need, 1);
}

/*
 * These append a field to the message, in reserved room. The message may move when it grows, so it
 * is held by offset.
 */

static inline uint8_t *at(const struct export_render *r)
{
	return r->message + r->message_bytes;
}

static inline void up_to(struct export_render *r, const uint8_t *end)
{
	r->message_bytes = (size_t)(end - r->message);
}

static inline void put_u64(struct export_render *r, unsigned int field, uint64_t v)
{
	up_to(r, export_pb_u64(at(r), field, v));
}

static inline void put_f64(struct export_render *r, unsigned int field, double v)
{
	up_to(r, export_pb_f64(at(r), field, v));
}

static inline void put_head(struct export_render *r, unsigned int field, size_t n)
{
	up_to(r, export_pb_head(at(r), field, n));
}

static inline void put_bytes(struct export_render *r, unsigned int field, const char *s, size_t n)
{
	up_to(r, export_pb_bytes(at(r), field, s, n));
}

/* Begins an inner message; returns the offset of its body. */
static size_t begin(struct export_render *r, unsigned int field, size_t guess)
{
	up_to(r, export_pb_open(at(r), field, guess));
	return r->message_bytes;
}

/* Returns the bytes of the length: a good guess for the next one. */
static size_t end(struct export_render *r, size_t body, size_t guess)
{
	size_t length = export_pb_varint_bytes(r->message_bytes - body);

	up_to(r, export_pb_close(r->message + body, at(r), guess));
	return length;
}

/* ---- what histograms and counters have in common ---- */

static void timestamp(struct export_render *r, unsigned int field, uint64_t ns)
{
	uint64_t seconds = ns / 1000000000u, rest = ns % 1000000000u;

	if (!ns)
		return;
	put_head(r, field,
		 1 + export_pb_varint_bytes(seconds) +
			 (rest ? 1 + export_pb_varint_bytes(rest) : 0));
	put_u64(r, 1, seconds);
	if (rest)
		put_u64(r, 2, rest);
}

static bool label(struct export_render *r, const char *key, const char *value)
{
	size_t k = strlen(key), v = strlen(value);

	if (!reserve(r, k + v + 32))
		return false;
	put_head(r, 1, 2 + export_pb_varint_bytes(k) + k + export_pb_varint_bytes(v) + v);
	put_bytes(r, 1, key, k);
	put_bytes(r, 2, value, v);
	return true;
}

static bool exemplar(struct export_render *r, unsigned int field, const struct export_exemplar *e)
{
	size_t start;

	if (!reserve(r, 128))
		return false;
	start = begin(r, field, 1);
	for (size_t i = 0; i < e->label_count; i++)
		if (!label(r, e->labels[i].key, e->labels[i].value))
			return false;
	if (!reserve(r, 64))
		return false;
	put_f64(r, 2, e->value);
	timestamp(r, 3, e->ns);
	end(r, start, 1);
	return true;
}

/* ---- histograms ---- */

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

	if (!export_native_make(&r->native, &b)) {
		r->error = -ENOMEM;
		return false;
	}
	if (!reserve(r, export_native_bytes(&r->native)))
		return false;
	up_to(r, export_native_put(at(r), &r->native, &fields));
	for (size_t i = 0; i < r->series.exemplar_count; i++)
		if (!exemplar(r, 16, &r->series.exemplars[i]))
			return false;
	return reserve(r, 64);
}

static bool classic_bucket(struct export_render *r, uint64_t cumulative, double bound,
			   const struct export_exemplar *e)
{
	size_t start;

	if (!reserve(r, 64))
		return false;
	start = begin(r, 3, 1);
	put_u64(r, 1, cumulative);
	put_f64(r, 2, bound);
	if (e && (!exemplar(r, 3, e) || !reserve(r, 16)))
		return false;
	end(r, start, 1);
	return true;
}

/* Cumulative. Readers derive the last bucket from the count, unless it has an exemplar. */
static bool classic_histogram(struct export_render *r)
{
	const struct export_series *s = &r->series;
	struct export_bounds *b = &r->bounds;
	const struct export_exemplar *last;
	uint64_t cumulative = 0;
	size_t added = 0;

	if (!export_bounds_make(r))
		return false;
	for (size_t i = 0; i < b->count; i++) {
		while (added <= b->bucket[i])
			cumulative += s->buckets[added++];
		if (!classic_bucket(r, cumulative, b->bound[i], export_exemplar_upto(r, added)))
			return false;
	}
	while (added < s->bucket_count)
		cumulative += s->buckets[added++];
	last = export_exemplar_upto(r, SIZE_MAX);
	if ((last && !classic_bucket(r, cumulative, INFINITY, last)) || !reserve(r, 64))
		return false;
	put_u64(r, 1, cumulative);
	put_f64(r, 2, s->sum);
	return true;
}

static bool histogram(struct export_render *r)
{
	size_t start;

	if (!reserve(r, 16))
		return false;
	start = begin(r, 7, 2);
	if (!(is_native(&r->series) ? native_histogram(r) : classic_histogram(r)))
		return false;
	if (r->family.type == EXPORT_FAMILY_HISTOGRAM)
		timestamp(r, 15, r->series.created_ns);
	end(r, start, 2);
	return true;
}

static bool summary(struct export_render *r)
{
	const struct export_series *s = &r->series;
	size_t start;

	if (!reserve(r, 64 + 24 * s->bound_count))
		return false;
	start = begin(r, 4, 2);
	put_u64(r, 1, s->value.u64);
	put_f64(r, 2, s->sum);
	for (size_t i = 0; i < s->bound_count; i++) {
		double v;

		memcpy(&v, &s->quantiles[i], sizeof(v));
		put_head(r, 3, 18);
		put_f64(r, 1, s->bounds[i]);
		put_f64(r, 2, v);
	}
	timestamp(r, 4, s->created_ns);
	end(r, start, 2);
	return true;
}

/* ---- metrics ---- */

static void gauge(struct export_render *r, double v)
{
	put_head(r, 2, 9);
	put_f64(r, 1, v);
}

static bool counter(struct export_render *r, double v)
{
	const struct export_exemplar *e = export_exemplar_upto(r, SIZE_MAX);
	size_t start = begin(r, 3, 1);

	put_f64(r, 1, v);
	if (e && (!exemplar(r, 2, e) || !reserve(r, 64)))
		return false;
	timestamp(r, 3, r->series.created_ns);
	end(r, start, 1);
	return true;
}

static double value_of(const struct export_series *s)
{
	return s->value_type == EXPORT_VALUE_U64   ? (double)s->value.u64
	       : s->value_type == EXPORT_VALUE_I64 ? (double)s->value.i64
						   : s->value.f64;
}

/* One Metric; state is the index in a state set, or -1. */
static bool metric(struct export_render *r, int state, const char *state_label)
{
	const struct export_series *s = &r->series;
	size_t start;

	if (!reserve(r, 64))
		return false;
	start = begin(r, 4, r->length_bytes);
	for (size_t i = 0; i < s->label_count; i++)
		if (!label(r, s->label_keys[i], s->label_values[i]))
			return false;
	if (state >= 0 && !label(r, state_label, s->states[state]))
		return false;
	if (!reserve(r, 64))
		return false;
	switch (r->family.type) {
	case EXPORT_FAMILY_COUNTER:
	case EXPORT_FAMILY_BARE_COUNTER:
		if (!counter(r, value_of(s)))
			return false;
		break;
	case EXPORT_FAMILY_HISTOGRAM:
	case EXPORT_FAMILY_GAUGE_HISTOGRAM:
		if (!histogram(r))
			return false;
		break;
	case EXPORT_FAMILY_SUMMARY:
		if (!summary(r))
			return false;
		break;
	case EXPORT_FAMILY_UNKNOWN:
		put_head(r, 5, 9);
		put_f64(r, 1, value_of(s));
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

/* enum MetricType of the schema. */
static const uint8_t metric_types[] = {
	[EXPORT_FAMILY_COUNTER] = 0,	  [EXPORT_FAMILY_GAUGE] = 1,
	[EXPORT_FAMILY_HISTOGRAM] = 4,	  [EXPORT_FAMILY_INFO] = 1,
	[EXPORT_FAMILY_STATESET] = 1,	  [EXPORT_FAMILY_SUMMARY] = 2,
	[EXPORT_FAMILY_UNKNOWN] = 3,	  [EXPORT_FAMILY_GAUGE_HISTOGRAM] = 5,
	[EXPORT_FAMILY_BARE_COUNTER] = 0,
};

static void begin_family(struct export_render *r)
{
	enum export_family_type type = r->family.type;
	const char *suffix = export_sample_suffix(type);
	size_t help = strlen(r->family.help), n = strlen(suffix);

	r->message_bytes = HEAD_ROOM;
	r->length_bytes = 1;
	if (!reserve(r, sizeof(r->name) + help + 64))
		return;
	put_head(r, 1, r->name_bytes + n);
	up_to(r, mempcpy(mempcpy(at(r), r->name, r->name_bytes), suffix, n));
	if (help)
		put_bytes(r, 2, r->family.help, help);
	put_u64(r, 3, metric_types[type]);
	r->message_head = r->message_bytes;
	r->phase = EXPORT_PHASE_SERIES;
}

/* Emits the message after its length, and begins another with the same head. */
static void flush(struct export_render *r)
{
	size_t n = r->message_bytes - HEAD_ROOM, length = export_pb_varint_bytes(n);
	uint8_t *from = r->message + HEAD_ROOM - length;

	if (r->message_bytes == r->message_head)
		return; /* no metric in it */
	export_pb_varint(from, n);
	r->message_bytes = r->message_head;
	export_render_pend(r, from, length + n);
}

static void next_series(struct export_render *r)
{
	char buf[EXPORT_SHOWN_NAME_MAX + 1];
	/* So that labels are the same as in the text formats. */
	const char *reserved = export_reserved_label(r, buf);
	size_t states;

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
