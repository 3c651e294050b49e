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

/* Reserves n more bytes of the message. */
static bool reserve_bytes(struct export_render *r, size_t n)
{
	size_t need = r->message_bytes + n;

	return need <= r->message_room ||
	       export_render_grow(r, &r->message, &r->message_room, need < 4096 ? 4096 : need, 1);
}

/*
 * These functions append a field to the message, in reserved room. The message may move when it
 * grows, so positions in it are stored as offsets.
 */

static inline uint8_t *message_at(const struct export_render *r)
{
	return r->message + r->message_bytes;
}

static inline void up_to(struct export_render *r, const uint8_t *end)
{
	r->message_bytes = (size_t)(end - r->message);
}

static inline void put_u64(struct export_render *r, unsigned int field, uint64_t v)
{
	up_to(r, export_pb_u64(message_at(r), field, v));
}

static inline void put_f64(struct export_render *r, unsigned int field, double v)
{
	up_to(r, export_pb_f64(message_at(r), field, v));
}

static inline void put_head(struct export_render *r, unsigned int field, size_t n)
{
	up_to(r, export_pb_head(message_at(r), field, n));
}

static inline void put_bytes(struct export_render *r, unsigned int field, const char *s, size_t n)
{
	up_to(r, export_pb_bytes(message_at(r), field, s, n));
}

/* Starts a nested message. Returns the offset of its body. */
static size_t begin_message(struct export_render *r, unsigned int field, size_t guess)
{
	up_to(r, export_pb_open(message_at(r), field, guess));
	return r->message_bytes;
}

/* Ends a nested message. Returns the size of the length field, a good guess for the next one. */
static size_t end_message(struct export_render *r, size_t body, size_t guess)
{
	size_t length = export_pb_varint_bytes(r->message_bytes - body);

	up_to(r, export_pb_close(r->message + body, message_at(r), guess));
	return length;
}

/* ---- parts shared by histograms and counters ---- */

static void put_timestamp(struct export_render *r, unsigned int field, uint64_t ns)
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

static bool put_label(struct export_render *r, const char *key, const char *value)
{
	size_t k = strlen(key), v = strlen(value);

	if (!reserve_bytes(r, k + v + 32))
		return false;
	put_head(r, 1, 2 + export_pb_varint_bytes(k) + k + export_pb_varint_bytes(v) + v);
	put_bytes(r, 1, key, k);
	put_bytes(r, 2, value, v);
	return true;
}

static bool put_exemplar(struct export_render *r, unsigned int field,
			 const struct export_exemplar *e)
{
	size_t start;

	if (!reserve_bytes(r, 128))
		return false;
	start = begin_message(r, field, 1);
	for (size_t i = 0; i < e->label_count; i++)
		if (!put_label(r, e->labels[i].key, e->labels[i].value))
			return false;
	if (!reserve_bytes(r, 64))
		return false;
	put_f64(r, 2, e->value);
	put_timestamp(r, 3, e->ns);
	end_message(r, start, 1);
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
	if (!reserve_bytes(r, export_native_bytes(&r->native)))
		return false;
	up_to(r, export_native_put(message_at(r), &r->native, &fields));
	for (size_t i = 0; i < r->series.exemplar_count; i++)
		if (!put_exemplar(r, 16, &r->series.exemplars[i]))
			return false;
	return reserve_bytes(r, 64);
}

static bool classic_bucket(struct export_render *r, uint64_t cumulative, double bound,
			   const struct export_exemplar *e)
{
	size_t start;

	if (!reserve_bytes(r, 64))
		return false;
	start = begin_message(r, 3, 1);
	put_u64(r, 1, cumulative);
	put_f64(r, 2, bound);
	if (e && (!put_exemplar(r, 3, e) || !reserve_bytes(r, 16)))
		return false;
	end_message(r, start, 1);
	return true;
}

/*
 * Counts are cumulative. Readers derive the last bucket from the count, so it is sent only if it
 * has an exemplar.
 */
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
	if ((last && !classic_bucket(r, cumulative, INFINITY, last)) || !reserve_bytes(r, 64))
		return false;
	put_u64(r, 1, cumulative);
	put_f64(r, 2, s->sum);
	return true;
}

static bool put_histogram(struct export_render *r)
{
	size_t start;

	if (!reserve_bytes(r, 16))
		return false;
	start = begin_message(r, 7, 2);
	if (!(is_native(&r->series) ? native_histogram(r) : classic_histogram(r)))
		return false;
	if (r->family.type == EXPORT_FAMILY_HISTOGRAM)
		put_timestamp(r, 15, r->series.created_ns);
	end_message(r, start, 2);
	return true;
}

static bool put_summary(struct export_render *r)
{
	const struct export_series *s = &r->series;
	size_t start;

	if (!reserve_bytes(r, 64 + 24 * s->bound_count))
		return false;
	start = begin_message(r, 4, 2);
	put_u64(r, 1, s->value.u64);
	put_f64(r, 2, s->sum);
	for (size_t i = 0; i < s->bound_count; i++) {
		double v;

		memcpy(&v, &s->quantiles[i], sizeof(v));
		put_head(r, 3, 18);
		put_f64(r, 1, s->bounds[i]);
		put_f64(r, 2, v);
	}
	put_timestamp(r, 4, s->created_ns);
	end_message(r, start, 2);
	return true;
}

/* ---- metrics ---- */

static void put_gauge(struct export_render *r, double v)
{
	put_head(r, 2, 9);
	put_f64(r, 1, v);
}

static bool put_counter(struct export_render *r, double v)
{
	const struct export_exemplar *e = export_exemplar_upto(r, SIZE_MAX);
	size_t start = begin_message(r, 3, 1);

	put_f64(r, 1, v);
	if (e && (!put_exemplar(r, 2, e) || !reserve_bytes(r, 64)))
		return false;
	put_timestamp(r, 3, r->series.created_ns);
	end_message(r, start, 1);
	return true;
}

static double value_of(const struct export_series *s)
{
	return s->value_type == EXPORT_VALUE_U64   ? (double)s->value.u64
	       : s->value_type == EXPORT_VALUE_I64 ? (double)s->value.i64
						   : s->value.f64;
}

/* Adds one Metric; state is the index in a state set, or -1. */
static bool put_metric(struct export_render *r, int state, const char *state_label)
{
	const struct export_series *s = &r->series;
	size_t start;

	if (!reserve_bytes(r, 64))
		return false;
	start = begin_message(r, 4, r->length_bytes);
	for (size_t i = 0; i < s->label_count; i++)
		if (!put_label(r, s->label_keys[i], s->label_values[i]))
			return false;
	if (state >= 0 && !put_label(r, state_label, s->states[state]))
		return false;
	if (!reserve_bytes(r, 64))
		return false;
	switch (r->family.type) {
	case EXPORT_FAMILY_COUNTER:
	case EXPORT_FAMILY_BARE_COUNTER:
		if (!put_counter(r, value_of(s)))
			return false;
		break;
	case EXPORT_FAMILY_HISTOGRAM:
	case EXPORT_FAMILY_GAUGE_HISTOGRAM:
		if (!put_histogram(r))
			return false;
		break;
	case EXPORT_FAMILY_SUMMARY:
		if (!put_summary(r))
			return false;
		break;
	case EXPORT_FAMILY_UNKNOWN:
		put_head(r, 5, 9);
		put_f64(r, 1, value_of(s));
		break;
	case EXPORT_FAMILY_INFO:
		put_gauge(r, 1);
		break;
	case EXPORT_FAMILY_STATESET:
		put_gauge(r, (double)(s->value.u64 >> state & 1));
		break;
	case EXPORT_FAMILY_GAUGE:
		put_gauge(r, value_of(s));
		break;
	}
	r->length_bytes = end_message(r, start, r->length_bytes);
	return true;
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

	r->message_bytes = HEAD_ROOM;
	r->length_bytes = 1;
	if (!reserve_bytes(r, sizeof(r->name) + help + 64))
		return;
	put_head(r, 1, r->name_bytes + n);
	up_to(r, mempcpy(mempcpy(message_at(r), r->name, r->name_bytes), suffix, n));
	if (help)
		put_bytes(r, 2, r->family.help, help);
	put_u64(r, 3, metric_types[type]);
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

	while (r->message_bytes < EXPORT_PROTOBUF_MESSAGE) {
		if (!export_render_next_series(r, reserved)) {
			r->phase = EXPORT_PHASE_FAMILY;
			break;
		}
		if (r->family.type == EXPORT_FAMILY_STATESET) {
			states = r->series.state_count < 64 ? r->series.state_count : 64;
			for (size_t i = 0; i < states; i++)
				if (!put_metric(r, (int)i, reserved))
					return;
		} else if (!put_metric(r, -1, NULL)) {
			return;
		}
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
