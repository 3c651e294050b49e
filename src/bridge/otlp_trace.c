// SPDX-License-Identifier: Apache-2.0
/*
 * otlp_trace.c - decodes the spans of opentelemetry/proto/trace/v1/trace.proto, which defines the
 * field numbers used here.
 */
#include <string.h>

#include "bridge/otlp_internal.h"

#define PARENT_IS_REMOTE 0x300u /* span flags: the parent's location is known, and it is remote */

struct reader {
	struct bridge_otlp *otlp;
	const struct bridge_span_sink *sink;
	struct bridge_otlp_counts *counts;
	bool check; /* the body is only checked; no spans are taken */
	void *to;   /* target for the resource's spans; NULL if they are refused */
};

/* Converts a big-endian ID of n bytes to numbers. Returns false if the length is different. */
static bool id_of(struct base_pb p, size_t n, uint64_t *out)
{
	if (p.end - p.at != (ptrdiff_t)n)
		return false;
	for (size_t i = 0; i < n; i += 8) {
		uint64_t v;

		memcpy(&v, p.at + i, 8);
		out[i / 8] = __builtin_bswap64(v);
	}
	return true;
}

/* Decodes a KeyValue; skips unsupported value types. Returns false if it is malformed. */
static bool read_attribute(struct bridge_otlp *o, struct base_pb p, struct bridge_span *s)
{
	struct bridge_span_attribute a = {.type = BRIDGE_SPAN_NONE};
	struct base_pb_field f, v;

	if (!bridge_otlp_message(o, false))
		return false;
	while (base_pb_next(&p, &f)) {
		if (f.wire != 2)
			continue;
		if (f.number == 1)
			a.key = bridge_text_of(f.data);
		while (f.number == 2 && base_pb_next(&f.data, &v)) {
			if (v.number == 1 && v.wire == 2) {
				a.type = BRIDGE_SPAN_TEXT;
				a.text = bridge_text_of(v.data);
			} else if (v.number == 2 && v.wire == 0) {
				a.type = BRIDGE_SPAN_BOOL;
				a.i64 = v.value != 0;
			} else if (v.number == 3 && v.wire == 0) {
				a.type = BRIDGE_SPAN_I64;
				a.i64 = (int64_t)v.value;
			} else if (v.number == 4 && v.wire == 1) {
				a.type = BRIDGE_SPAN_F64;
				a.f64 = base_pb_f64(v.value);
			}
		}
		p.bad |= f.data.bad;
	}
	if (a.key.n && a.type != BRIDGE_SPAN_NONE &&
	    s->attribute_count < BRIDGE_SPAN_ATTRIBUTES_MAX)
		s->attributes[s->attribute_count++] = a;
	return !p.bad;
}

static bool read_status(struct base_pb p, struct bridge_span *s)
{
	struct base_pb_field f;

	while (base_pb_next(&p, &f)) {
		if (f.number == 2 && f.wire == 2)
			s->message = bridge_text_of(f.data);
		else if (f.number == 3 && f.wire == 0)
			s->status = f.value == 1   ? SL_SPAN_OK
				    : f.value == 2 ? SL_SPAN_ERROR
						   : SL_SPAN_UNSET;
	}
	return !p.bad;
}

/* Decodes a span. Returns false if it is malformed. */
static bool read_span(struct reader *r, struct base_pb p)
{
	/* Indexed by SPAN_KIND_UNSPECIFIED, _INTERNAL, _SERVER, _CLIENT, _PRODUCER, _CONSUMER. */
	static const enum sl_span_kind kinds[] = {SL_SPAN_INTERNAL, SL_SPAN_INTERNAL,
						  SL_SPAN_SERVER,   SL_SPAN_CLIENT,
						  SL_SPAN_PRODUCER, SL_SPAN_CONSUMER};
	struct bridge_span s = {.kind = SL_SPAN_INTERNAL};
	uint64_t trace[2] = {0}, flags = 0;
	struct base_pb_field f;
	bool good = bridge_otlp_message(r->otlp, false), has_ids = true;

	while (good && base_pb_next(&p, &f)) {
		if (f.number == 1 && f.wire == 2)
			has_ids &= id_of(f.data, 16, trace);
		else if (f.number == 2 && f.wire == 2)
			has_ids &= id_of(f.data, 8, &s.context.span_id);
		else if (f.number == 4 && f.wire == 2 && f.data.at < f.data.end)
			has_ids &= id_of(f.data, 8, &s.parent_id);
		else if (f.number == 5 && f.wire == 2)
			s.name = bridge_text_of(f.data);
		else if (f.number == 6 && f.wire == 0)
			s.kind = f.value < sizeof(kinds) / sizeof(*kinds) ? kinds[f.value] : s.kind;
		else if (f.number == 7 && f.wire == 1)
			s.start_ns = f.value;
		else if (f.number == 8 && f.wire == 1)
			s.end_ns = f.value;
		else if (f.number == 9 && f.wire == 2)
			good = read_attribute(r->otlp, f.data, &s);
		else if (f.number == 15 && f.wire == 2)
			good = read_status(f.data, &s);
		else if (f.number == 16 && f.wire == 5)
			flags = f.value;
	}
	if (!good || p.bad)
		return false;
	if (r->check)
		return true;
	s.context.trace_hi = trace[0];
	s.context.trace_lo = trace[1];
	s.context.flags = (uint8_t)flags | SL_TRACE_SAMPLED;
	s.remote = (flags & PARENT_IS_REMOTE) == PARENT_IS_REMOTE;
	if (!has_ids || !sl_trace_context_valid(&s.context))
		r->counts->refused[OTLP_IDS]++;
	else if (!s.start_ns || s.end_ns < s.start_ns)
		r->counts->refused[OTLP_TIMES]++;
	else if (!r->to)
		r->counts->refused[r->counts->unserved]++;
	else if (!r->sink->span(r->to, &s))
		r->counts->refused[OTLP_FULL]++;
	else
		r->counts->points++;
	return true;
}

static bool resource_spans(void *arg, struct base_pb p, bool check)
{
	struct reader *r = arg;
	struct bridge_otlp_identity id = {.service = {"", 0}, .instance = {"", 0}};
	struct base_pb again = p;
	struct base_pb_field f, g;
	bool good = bridge_otlp_message(r->otlp, true);

	r->check = check;
	while (good && base_pb_next(&p, &f))
		if (f.number == 1 && f.wire == 2)
			good = bridge_otlp_identity(r->otlp, f.data, &id);
	if (!good || p.bad)
		return false;
	r->counts->unserved = OTLP_SERVICES;
	r->to = check ? NULL : r->sink->resource(r->sink->arg, &id);
	while (good && base_pb_next(&again, &f)) {
		if (f.number != 2 || f.wire != 2)
			continue;
		good = bridge_otlp_message(r->otlp, false); /* a scope */
		while (good && base_pb_next(&f.data, &g))
			if (g.number == 2 && g.wire == 2)
				good = read_span(r, g.data);
		good = good && !f.data.bad;
	}
	return good;
}

int bridge_otlp_read_traces(struct bridge_otlp *o, const void *body, size_t bytes, bool json,
			    const struct bridge_span_sink *sink, struct bridge_otlp_counts *counts,
			    struct bridge_error *error)
{
	struct reader r = {.otlp = o, .sink = sink, .counts = counts};

	return bridge_otlp_read_twice(o, body, bytes, json, OTLP_TRACES, resource_spans, &r, counts,
				      error);
}
