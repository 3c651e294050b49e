// SPDX-License-Identifier: Apache-2.0
/*
 * families.c - decodes Prometheus' protobuf format. Field numbers are taken from
 * prometheus/client_model, metrics.proto.
 */
#include "bridge/families.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include <sidelight/region.h>

#include "base/grow.h"

#define LABELS_MAX 64u
/* maximum distance from the first to the last bucket of a native histogram */
#define RANGE_MAX 16384

static const enum bridge_type types[] = {BRIDGE_COUNTER, BRIDGE_GAUGE,	   BRIDGE_SUMMARY,
					 BRIDGE_UNKNOWN, BRIDGE_HISTOGRAM, BRIDGE_GAUGE_HISTOGRAM};
/* The field of Metric that holds the value, by type. */
static const uint32_t of_type[] = {3, 2, 4, 5, 7, 7};

struct families {
	struct bridge_limits limits;
	struct bridge_sink *sink; /* sink for the points; NULL means only check the body */
	struct bridge_error *error;
	struct bridge_body_counts counts;
	const struct bridge_window *window;

	struct bridge_label labels[LABELS_MAX];
	size_t label_count;
	double *values, *bounds;
	size_t value_count, value_room, bound_count, bound_room;
	uint64_t *buckets;
	size_t bucket_count, bucket_room;
	int64_t *deltas;
	size_t delta_count, delta_room;
	int64_t *spans; /* spans of a native histogram, as pairs of offset and length */
	size_t span_count, span_room;
	struct bridge_exemplar *exemplars; /* .labels is set after all exemplars have been read */
	size_t exemplar_count, exemplar_room;
	struct bridge_label *exemplar_labels;
	size_t exemplar_label_count, exemplar_label_room;
	uint64_t created_ns;
};

static bool report_malformed(struct families *f, const char *what)
{
	bridge_fail(f->error, -EINVAL, 0, "malformed %s", what);
	return false;
}

#define PUSH(f, array, count, room, v)                    \
	(BASE_GROW((f)->array, (f)->count, (f)->room)     \
		 ? ((f)->array[(f)->count++] = (v), true) \
		 : (bridge_fail((f)->error, -ENOMEM, 0, "out of memory"), false))

/* ---- labels, times and exemplars ---- */

/* Decodes a LabelPair. Returns false if it is malformed. */
static bool read_label_pair(struct base_pb p, struct bridge_label *l)
{
	struct base_pb_field e;

	*l = (struct bridge_label){BRIDGE_TEXT(""), BRIDGE_TEXT("")};
	while (base_pb_next(&p, &e)) {
		if (e.number == 1 && e.wire == 2)
			l->key = bridge_text_of(e.data);
		else if (e.number == 2 && e.wire == 2)
			l->value = bridge_text_of(e.data);
	}
	return !p.bad && l->key.n;
}

/* Decodes a google.protobuf.Timestamp into ns since 1970; 0 if it is out of range. */
static uint64_t read_timestamp(struct base_pb p)
{
	uint64_t seconds = 0, nanos = 0;
	struct base_pb_field e;

	while (base_pb_next(&p, &e)) {
		if (e.number == 1 && e.wire == 0)
			seconds = e.value;
		else if (e.number == 2 && e.wire == 0)
			nanos = e.value;
	}
	return p.bad || seconds > UINT64_MAX / 2000000000u || nanos > 999999999u
		       ? 0
		       : seconds * 1000000000u + nanos;
}

static bool read_exemplar(struct families *f, struct base_pb p, uint32_t bucket)
{
	struct bridge_exemplar x = {.bucket = bucket};
	struct base_pb_field e;
	struct bridge_label l;
	bool good = true;

	while (good && base_pb_next(&p, &e)) {
		if (e.number == 1 && e.wire == 2) {
			good = read_label_pair(e.data, &l) && x.label_count < LABELS_MAX &&
			       PUSH(f, exemplar_labels, exemplar_label_count, exemplar_label_room,
				    l);
			x.label_count++;
		} else if (e.number == 2 && e.wire == 1) {
			x.value = base_pb_f64(e.value);
		} else if (e.number == 3 && e.wire == 2) {
			x.time_ns = read_timestamp(e.data);
		}
	}
	if (!good || p.bad || f->exemplar_count > SL_BUCKETS_MAX)
		return report_malformed(f, "exemplar");
	return PUSH(f, exemplars, exemplar_count, exemplar_room, x);
}

/* ---- values ---- */

/* Decodes field 1 of Counter, Gauge or Untyped. */
static bool read_value(struct families *f, struct base_pb p, bool counter)
{
	struct base_pb_field e;
	double v = 0;

	while (base_pb_next(&p, &e)) {
		if (e.number == 1 && e.wire == 1)
			v = base_pb_f64(e.value);
		else if (counter && e.number == 2 && e.wire == 2 && !read_exemplar(f, e.data, 0))
			return false;
		else if (counter && e.number == 3 && e.wire == 2)
			f->created_ns = read_timestamp(e.data);
	}
	return p.bad ? report_malformed(f, "value") : PUSH(f, values, value_count, value_room, v);
}

/* Decodes a Quantile (rank, value) or a Bucket (count, bound); a float count takes precedence. */
static bool read_pair(struct families *f, struct base_pb p, bool bucket)
{
	double first = 0, second = 0, count = -1;
	struct base_pb_field e;

	while (base_pb_next(&p, &e)) {
		if (e.number == 1)
			first = e.wire == 1 ? base_pb_f64(e.value) : (double)e.value;
		else if (e.number == 2 && e.wire == 1)
			second = base_pb_f64(e.value);
		else if (e.number == 4 && e.wire == 1)
			count = base_pb_f64(e.value);
		else if (bucket && e.number == 3 && e.wire == 2 &&
			 !read_exemplar(f, e.data, BRIDGE_BUCKETS + (uint32_t)f->bound_count))
			return false;
	}
	if (p.bad)
		return report_malformed(f, "bucket or quantile");
	if (f->bound_count >= SL_BUCKETS_MAX)
		return report_malformed(f, "histogram: too many buckets");
	if (!bucket)
		return PUSH(f, bounds, bound_count, bound_room, first) &&
		       PUSH(f, values, value_count, value_room, second);
	first = count >= 0 ? count : first;
	if (second == INFINITY) /* every sink adds the +Inf bucket itself */
		return true;
	return PUSH(f, bounds, bound_count, bound_room, second) &&
	       PUSH(f, values, value_count, value_room, first);
}

static bool read_summary(struct families *f, struct base_pb p)
{
	struct base_pb_field e;
	bool good = PUSH(f, values, value_count, value_room, NAN) &&
		    PUSH(f, values, value_count, value_room, 0);

	while (good && base_pb_next(&p, &e)) {
		if (e.number == 1 && e.wire == 0)
			f->values[BRIDGE_COUNT] = (double)e.value;
		else if (e.number == 2 && e.wire == 1)
			f->values[BRIDGE_SUM] = base_pb_f64(e.value);
		else if (e.number == 3 && e.wire == 2)
			good = read_pair(f, e.data, false);
		else if (e.number == 4 && e.wire == 2)
			f->created_ns = read_timestamp(e.data);
	}
	return good && (!p.bad || report_malformed(f, "summary"));
}

/* Decodes a field of type sint64, packed or not. */
static bool read_deltas(struct families *f, struct base_pb_field *e)
{
	bool good = true;

	if (e->wire == 0)
		return PUSH(f, deltas, delta_count, delta_room, base_pb_zigzag(e->value));
	while (good && e->wire == 2 && e->data.at < e->data.end) {
		int64_t v = base_pb_zigzag(base_pb_varint(&e->data));

		good = !e->data.bad && f->delta_count < RANGE_MAX &&
		       PUSH(f, deltas, delta_count, delta_room, v);
	}
	return good || report_malformed(f, "native buckets");
}

static bool read_span(struct families *f, struct base_pb p)
{
	struct base_pb_field e;
	int64_t offset = 0, length = 0;

	while (base_pb_next(&p, &e)) {
		if (e.number == 1 && e.wire == 0)
			offset = base_pb_zigzag(e.value);
		else if (e.number == 2 && e.wire == 0)
			length = (int64_t)e.value;
	}
	if (p.bad || length < 0 || length > RANGE_MAX || offset < INT32_MIN || offset > INT32_MAX ||
	    f->span_count > RANGE_MAX)
		return report_malformed(f, "span of native buckets");
	return PUSH(f, spans, span_count, span_room, offset) &&
	       PUSH(f, spans, span_count, span_room, length);
}

/* Converts spans and deltas to consecutive buckets, starting at index *first. */
static bool expand_native(struct families *f, int32_t *first)
{
	int64_t at = 0, count = 0;
	size_t d = 0;

	for (size_t i = 0; i < f->span_count; i += 2) {
		at += f->spans[i];
		if (i && f->spans[i] < 0)
			return report_malformed(f, "span of native buckets");
		if (!i)
			*first = (int32_t)at;
		/* A gap consists of empty buckets. */
		if (at + f->spans[i + 1] - *first > RANGE_MAX)
			return report_malformed(f,
						"native histogram: its buckets are too far apart");
		while ((int64_t)f->bucket_count < at - *first)
			if (!PUSH(f, buckets, bucket_count, bucket_room, 0))
				return false;
		for (int64_t n = 0; n < f->spans[i + 1]; n++, d++) {
			if (d == f->delta_count ||
			    __builtin_add_overflow(count, f->deltas[d], &count) || count < 0)
				return report_malformed(f, "native buckets");
			if (!PUSH(f, buckets, bucket_count, bucket_room, (uint64_t)count))
				return false;
		}
		at += f->spans[i + 1];
	}
	return true;
}

static bool read_histogram(struct families *f, struct base_pb p, struct bridge_exponential *x,
			   bool *is_native)
{
	struct base_pb_field e;
	bool good = PUSH(f, values, value_count, value_room, NAN) &&
		    PUSH(f, values, value_count, value_room, 0);

	*x = (struct bridge_exponential){0};
	*is_native = false;
	while (good && base_pb_next(&p, &e)) {
		if (e.number == 1 && e.wire == 0)
			f->values[BRIDGE_COUNT] = (double)e.value;
		else if (e.number == 4 && e.wire == 1 && base_pb_f64(e.value) > 0)
			f->values[BRIDGE_COUNT] = base_pb_f64(e.value);
		else if (e.number == 2 && e.wire == 1)
			f->values[BRIDGE_SUM] = base_pb_f64(e.value);
		else if (e.number == 3 && e.wire == 2)
			good = read_pair(f, e.data, true);
		else if (e.number == 5 && e.wire == 0)
			x->scale = (int)base_pb_zigzag(e.value);
		else if (e.number == 6 && e.wire == 1)
			x->zero_threshold = base_pb_f64(e.value);
		else if (e.number == 7 && e.wire == 0)
			x->zero_count = e.value;
		else if (e.number == 9 && e.wire == 2)
			x->negative = 1;
		else if (e.number == 12 && e.wire == 2)
			good = read_span(f, e.data);
		else if (e.number == 13)
			good = read_deltas(f, &e);
		else if (e.number == 15 && e.wire == 2)
			f->created_ns = read_timestamp(e.data);
		/* exemplars of a native histogram are assigned by value */
		else if (e.number == 16 && e.wire == 2)
			good = read_exemplar(f, e.data, 0);
	}
	if (!good || p.bad)
		return good ? report_malformed(f, "histogram") : false;
	/* A threshold or a span indicates native buckets, even if they are empty. */
	*is_native = f->span_count || x->zero_threshold > 0 || x->zero_count || x->negative;
	if (*is_native) {
		f->value_count = BRIDGE_BUCKETS;
		f->bound_count = 0;
		return expand_native(f, &x->first);
	}
	for (size_t i = 1; i < f->bound_count; i++)
		if (!(f->bounds[i] > f->bounds[i - 1]))
			return report_malformed(f, "histogram: its bounds are not in ascending "
						   "order");
	return PUSH(f, values, value_count, value_room, f->values[BRIDGE_COUNT]);
}

/* ---- metrics ---- */

static bool add_label(struct families *f, struct base_pb p)
{
	struct bridge_label l;

	if (!read_label_pair(p, &l) || f->label_count == LABELS_MAX)
		return report_malformed(f, "label, or there are too many labels");
	f->labels[f->label_count++] = l;
	return true;
}

/* Exemplars of classic buckets do not apply to a native histogram, and vice versa. */
static void set_exemplars(struct families *f, struct bridge_point *out, bool is_native)
{
	const struct bridge_label *l = f->exemplar_labels;
	size_t n = 0;

	for (size_t i = 0; i < f->exemplar_count; i++) {
		struct bridge_exemplar *e = &f->exemplars[i];

		e->labels = l;
		if (e->label_count) /* without labels, the array may not exist */
			l += e->label_count;
		if (!out->bound_count || is_native == !e->bucket)
			f->exemplars[n++] = *e;
	}
	out->exemplars = f->exemplars;
	out->exemplar_count = n;
}

static bool read_metric(struct families *f, struct base_pb p, uint32_t type)
{
	struct bridge_exponential x;
	struct bridge_point out = {0};
	struct base_pb_field e;
	bool good = true, is_native = false, valued = false;
	double time = NAN;

	f->label_count = f->value_count = f->bound_count = f->bucket_count = 0;
	f->delta_count = f->span_count = f->exemplar_count = f->exemplar_label_count = 0;
	f->created_ns = 0;
	while (good && base_pb_next(&p, &e)) {
		if (e.number == 1 && e.wire == 2) {
			good = add_label(f, e.data);
		} else if (e.number == 6 && e.wire == 0 && e.value) {
			time = (double)(int64_t)e.value / 1e3;
		} else if (e.number == of_type[type] && e.wire == 2 && !valued) {
			valued = true;
			good = type == 2   ? read_summary(f, e.data)
			       : type >= 4 ? read_histogram(f, e.data, &x, &is_native)
					   : read_value(f, e.data, type == 0);
		}
	}
	if (!good)
		return false;
	if (p.bad || !valued || !bridge_labels_sort(f->labels, f->label_count))
		return report_malformed(f, "metric: it has a duplicate label, or no value of its "
					   "type");
	if (f->counts.points == f->limits.points ||
	    f->value_count > f->limits.values - f->counts.values) {
		bridge_fail(f->error, -E2BIG, 0, "more than %zu series or %zu values",
			    f->limits.points, f->limits.values);
		return false;
	}
	f->counts.points++;
	f->counts.values += f->value_count;
	if (!bridge_timely(f->window, time)) {
		f->counts.untimely++;
		return true;
	}
	if (!f->sink)
		return true;
	out.labels = f->labels;
	out.label_count = f->label_count;
	out.values = f->values;
	out.value_count = f->value_count;
	out.bounds = f->bounds;
	out.bound_count = f->bound_count;
	out.created_ns = f->created_ns;
	set_exemplars(f, &out, is_native);
	if (is_native) {
		x.buckets = f->buckets;
		x.bucket_count = f->bucket_count;
		out.exponential = &x;
	}
	if (f->sink->point(f->sink, &out))
		return true;
	bridge_fail(f->error, -ENOSPC, 0, "the region has no room for another series");
	return false;
}

static bool read_family(struct families *f, struct base_pb p)
{
	struct bridge_family out = {.name = BRIDGE_TEXT("")};
	struct base_pb again = p;
	struct base_pb_field e;
	uint64_t type = 0;
	bool good = true;

	while (base_pb_next(&p, &e)) {
		if (e.number == 1 && e.wire == 2)
			out.name = bridge_text_of(e.data);
		else if (e.number == 2 && e.wire == 2)
			out.help = bridge_text_of(e.data);
		else if (e.number == 3 && e.wire == 0)
			type = e.value;
		else if (e.number == 5 && e.wire == 2)
			out.unit = bridge_text_of(e.data);
	}
	if (p.bad || !out.name.n || type >= sizeof(types) / sizeof(*types))
		return report_malformed(f, "family: its name is missing, or its type is unknown");
	out.type = types[type];
	if (f->sink && !f->sink->family(f->sink, &out)) {
		bridge_fail(f->error, -ENOSPC, 0, "the region has no room for another family");
		return false;
	}
	while (good && base_pb_next(&again, &e))
		if (e.number == 4 && e.wire == 2)
			good = read_metric(f, e.data, (uint32_t)type);
	return good;
}

/* Decodes all families, each preceded by its length. */
static bool read_all(struct families *f, struct base_pb p)
{
	size_t families = 0;

	f->counts = (struct bridge_body_counts){0};
	while (p.at < p.end) {
		uint64_t n = base_pb_varint(&p);

		if (families++ == f->limits.points) {
			bridge_fail(f->error, -E2BIG, 0, "more than %zu families",
				    f->limits.points);
			return false;
		}
		if (p.bad || n > (size_t)(p.end - p.at))
			return report_malformed(f, "length prefix, or the body is truncated");
		if (!read_family(f, (struct base_pb){p.at, p.at + n, false}))
			return false;
		p.at += n;
	}
	return true;
}

int bridge_families_read(const struct bridge_limits *limits, const struct bridge_window *window,
			 const void *body, size_t bytes, struct bridge_sink *sink,
			 struct bridge_body_counts *counts, struct bridge_error *error)
{
	const struct base_pb p = {body, (const uint8_t *)body + bytes, false};
	struct bridge_error unread;
	struct families f = {.error = error ?: &unread, .window = window};

	if (limits)
		f.limits = *limits;
	f.limits.points = f.limits.points ?: BRIDGE_POINTS_MAX;
	f.limits.values = f.limits.values ?: BRIDGE_VALUES_MAX;
	f.error->error = 0;
	if (read_all(&f, p)) {
		f.sink = sink;
		read_all(&f, p);
	}
	free(f.values);
	free(f.bounds);
	free(f.buckets);
	free(f.deltas);
	free(f.spans);
	free(f.exemplars);
	free(f.exemplar_labels);
	*counts = f.counts;
	return f.error->error;
}
