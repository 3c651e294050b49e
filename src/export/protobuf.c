// SPDX-License-Identifier: Apache-2.0
/*
 * protobuf.c - io.prometheus.client.MetricFamily messages, each preceded by its length. A large
 * family is split into several messages with the same name, which readers accept; otherwise the
 * renderer would have to hold the whole family before knowing its length.
 *
 * The schema is tests/support/metrics.proto; field numbers are taken from Prometheus' client model.
 * Exponential histograms are sent as native histograms.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "export/render.h"
#include "export/pb.h"

#define HEAD_ROOM 10 /* room for a message's length, which is written last */

/*
 * Room that is left after each field: heads and numbers of a field take up to 40 bytes, and the
 * ends of the nested messages around it up to 9 bytes each.
 */
#define SPARE 96

/*
 * Returns the end of the message, with room for n bytes and SPARE; or NULL with r->error set. The
 * functions below append a field, or nothing after an error. The message may move when it grows, so
 * positions in it are stored as offsets.
 */
static inline uint8_t *message_end(struct export_render *r, size_t n)
{
	const size_t need = r->message_bytes + n + SPARE;

	if (need > r->message_room &&
	    !export_render_grow(r, &r->message, &r->message_room, need < 4096 ? 4096 : need, 1))
		return NULL;
	return r->message + r->message_bytes;
}

static inline void up_to(struct export_render *r, const uint8_t *end)
{
	r->message_bytes = (size_t)(end - r->message);
}

/* Writes a count in field 1 and a sum or bound in field 2. */
static inline void put_numbers(struct export_render *r, uint64_t count, double v)
{
	uint8_t *p = message_end(r, 0);

	if (p)
		up_to(r, export_pb_f64(export_pb_u64(p, 1, count), 2, v));
}

static inline void put_f64(struct export_render *r, unsigned int field, double v)
{
	uint8_t *p = message_end(r, 0);

	if (p)
		up_to(r, export_pb_f64(p, field, v));
}

/* Starts a nested message. Returns the offset of its body. */
static inline size_t begin_message(struct export_render *r, unsigned int field, size_t guess)
{
	uint8_t *p = message_end(r, 0);

	if (p)
		up_to(r, export_pb_open(p, field, guess));
	return r->message_bytes;
}

/* Ends a nested message. Returns the size of the length field, a good guess for the next one. */
static inline size_t end_message(struct export_render *r, size_t body, size_t guess)
{
	const size_t length = export_pb_varint_bytes(r->message_bytes - body);

	if (!r->error)
		up_to(r, export_pb_close(r->message + body, r->message + r->message_bytes, guess));
	return length;
}

/* ---- parts shared by histograms and counters ---- */

static void put_timestamp(struct export_render *r, unsigned int field, uint64_t ns)
{
	uint64_t seconds = ns / 1000000000u, rest = ns % 1000000000u;
	uint8_t *p = ns ? message_end(r, 0) : NULL, *body;

	if (!p)
		return;
	body = export_pb_open(p, field, 1);
	p = export_pb_u64(body, 1, seconds);
	if (rest)
		p = export_pb_u64(p, 2, rest);
	up_to(r, export_pb_close(body, p, 1));
}

static void put_label(struct export_render *r, const char *key, const char *value)
{
	size_t k = strlen(key), v = strlen(value);
	uint8_t *p = message_end(r, k + v);

	if (!p)
		return;
	p = export_pb_head(p, 1, 2 + export_pb_varint_bytes(k) + k + export_pb_varint_bytes(v) + v);
	p = export_pb_bytes(p, 1, key, k);
	up_to(r, export_pb_bytes(p, 2, value, v));
}

static void put_exemplar(struct export_render *r, unsigned int field,
			 const struct export_exemplar *e)
{
	size_t start = begin_message(r, field, 1);

	for (size_t i = 0; i < e->label_count; i++)
		put_label(r, e->labels[i].key, e->labels[i].value);
	put_f64(r, 2, e->value);
	put_timestamp(r, 3, e->ns);
	end_message(r, start, 1);
}

/* ---- histograms ---- */

static struct export_native_buckets buckets_of(const struct export_series *s)
{
	return (struct export_native_buckets){s->buckets,      s->bucket_count,	  s->scale,
					      s->first_bucket, s->zero_threshold, s->sum};
}

static void native_histogram(struct export_render *r, const struct export_native_buckets *b)
{
	static const struct export_native_fields fields = {1, 2, 5, 6, 7, 12, 13};
	uint8_t *p;

	if (!export_native_make(&r->native, b)) {
		r->error = -ENOMEM;
		return;
	}
	p = message_end(r, export_native_bytes(&r->native));
	if (p)
		up_to(r, export_native_put(p, &r->native, &fields));
	for (size_t i = 0; i < r->series.exemplar_count; i++)
		put_exemplar(r, 16, &r->series.exemplars[i]);
}

static void classic_bucket(struct export_render *r, uint64_t cumulative, double bound,
			   const struct export_exemplar *e)
{
	size_t start = begin_message(r, 3, 1);

	put_numbers(r, cumulative, bound);
	if (e)
		put_exemplar(r, 3, e);
	end_message(r, start, 1);
}

/*
 * Counts are cumulative. Readers derive the last bucket from the count, so it is sent only if it
 * has an exemplar.
 */
static void classic_histogram(struct export_render *r)
{
	const struct export_series *s = &r->series;
	struct export_bounds *b = &r->bounds;
	const struct export_exemplar *last;
	uint64_t cumulative = 0;
	size_t added = 0;

	if (!export_bounds_make(r))
		return;
	for (size_t i = 0; i < b->count; i++) {
		while (added <= b->bucket[i])
			cumulative += s->buckets[added++];
		classic_bucket(r, cumulative, b->bound[i], export_exemplar_upto(r, added));
	}
	while (added < s->bucket_count)
		cumulative += s->buckets[added++];
	last = export_exemplar_upto(r, SIZE_MAX);
	if (last)
		classic_bucket(r, cumulative, INFINITY, last);
	put_numbers(r, cumulative, s->sum);
}

static void put_histogram(struct export_render *r)
{
	const struct export_native_buckets b = buckets_of(&r->series);
	size_t start = begin_message(r, 7, 2);

	if (r->series.exponential && export_native_fits(&b))
		native_histogram(r, &b);
	else
		classic_histogram(r);
	if (r->family.type == EXPORT_FAMILY_HISTOGRAM)
		put_timestamp(r, 15, r->series.created_ns);
	end_message(r, start, 2);
}

static void put_summary(struct export_render *r)
{
	const struct export_series *s = &r->series;
	size_t start = begin_message(r, 4, 2);

	put_numbers(r, s->value.u64, s->sum);
	for (size_t i = 0; i < s->bound_count; i++) {
		uint8_t *p = message_end(r, 0);

		if (!p)
			return;
		p = export_pb_f64(export_pb_head(p, 3, 18), 1, s->bounds[i]);
		up_to(r, export_pb_fixed64(p, 2, s->quantiles[i]));
	}
	put_timestamp(r, 4, s->created_ns);
	end_message(r, start, 2);
}

/* ---- metrics ---- */

/* Writes a gauge, or an untyped value, which has the same form. */
static void put_value(struct export_render *r, unsigned int field, double v)
{
	uint8_t *p = message_end(r, 0);

	if (p)
		up_to(r, export_pb_f64(export_pb_head(p, field, 9), 1, v));
}

static void put_counter(struct export_render *r, double v)
{
	const struct export_exemplar *e = export_exemplar_upto(r, SIZE_MAX);
	size_t start = begin_message(r, 3, 1);

	put_f64(r, 1, v);
	if (e)
		put_exemplar(r, 2, e);
	put_timestamp(r, 3, r->series.created_ns);
	end_message(r, start, 1);
}

static double value_of(const struct export_series *s)
{
	return s->value_type == EXPORT_VALUE_U64   ? (double)s->value.u64
	       : s->value_type == EXPORT_VALUE_I64 ? (double)s->value.i64
						   : s->value.f64;
}

/* Adds one Metric; state is the index in a state set, or -1. */
static void put_metric(struct export_render *r, int state, const char *state_label)
{
	const struct export_series *s = &r->series;
	size_t start = begin_message(r, 4, r->length_bytes);

	for (size_t i = 0; i < s->label_count; i++)
		put_label(r, s->label_keys[i], s->label_values[i]);
	if (state >= 0)
		put_label(r, state_label, s->states[state]);
	switch (r->family.type) {
	case EXPORT_FAMILY_COUNTER:
	case EXPORT_FAMILY_BARE_COUNTER:
		put_counter(r, value_of(s));
		break;
	case EXPORT_FAMILY_HISTOGRAM:
	case EXPORT_FAMILY_GAUGE_HISTOGRAM:
		put_histogram(r);
		break;
	case EXPORT_FAMILY_SUMMARY:
		put_summary(r);
		break;
	case EXPORT_FAMILY_UNKNOWN:
		put_value(r, 5, value_of(s));
		break;
	case EXPORT_FAMILY_INFO:
		put_value(r, 2, 1);
		break;
	case EXPORT_FAMILY_STATESET:
		put_value(r, 2, (double)(s->value.u64 >> state & 1));
		break;
	case EXPORT_FAMILY_GAUGE:
		put_value(r, 2, value_of(s));
		break;
	}
	r->length_bytes = end_message(r, start, r->length_bytes);
}

/* ---- families ---- */

/* Values of the schema's enum MetricType. */
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
	uint8_t *p;

	r->message_bytes = HEAD_ROOM;
	r->length_bytes = 1;
	p = message_end(r, r->name_bytes + n + help);
	if (!p)
		return;
	p = export_pb_head(p, 1, r->name_bytes + n);
	p = mempcpy(mempcpy(p, r->name, r->name_bytes), suffix, n);
	if (help)
		p = export_pb_bytes(p, 2, r->family.help, help);
	up_to(r, export_pb_u64(p, 3, metric_types[type]));
	r->message_head = r->message_bytes;
	r->phase = EXPORT_PHASE_SERIES;
}

/* Emits the message, preceded by its length, and starts another message with the same head. */
static void flush_message(struct export_render *r)
{
	size_t n = r->message_bytes - HEAD_ROOM, length = export_pb_varint_bytes(n);
	uint8_t *from = r->message + HEAD_ROOM - length;

	if (r->message_bytes == r->message_head)
		return; /* the message contains no metric */
	export_pb_varint(from, n);
	r->message_bytes = r->message_head;
	export_render_pend(r, from, length + n);
}

static void next_series(struct export_render *r)
{
	char buf[EXPORT_SHOWN_NAME_MAX + 1];
	/* Labels must be the same as in the text formats. */
	const char *reserved = export_reserved_label(r, buf);
	size_t states;

	while (!r->error && r->message_bytes < EXPORT_PROTOBUF_MESSAGE) {
		if (!export_render_next_series(r, reserved)) {
			r->phase = EXPORT_PHASE_FAMILY;
			break;
		}
		if (r->family.type != EXPORT_FAMILY_STATESET) {
			put_metric(r, -1, NULL);
			continue;
		}
		states = r->series.state_count < 64 ? r->series.state_count : 64;
		for (size_t i = 0; i < states; i++)
			put_metric(r, (int)i, reserved);
	}
	flush_message(r);
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
