// SPDX-License-Identifier: Apache-2.0
/*
 * otlp.c lists the messages of a request; those of an answer (opentelemetry/proto:
 * collector/trace/v1) are
 *
 *	ExportTraceServiceResponse { ExportTracePartialSuccess partial_success = 1; }
 *	ExportTracePartialSuccess { int64 rejected_spans = 1; string error_message = 2; }
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "export/otlp_read.h"
#include "export/pb.h"

struct otlp_read_reader {
	const uint8_t *at, *end;
};

struct otlp_read_field {
	uint64_t number, value;
	enum export_pb_wire wire;
	struct otlp_read_reader in; /* of PB_LENGTH */
};

static bool read_varint(struct otlp_read_reader *r, uint64_t *value)
{
	*value = 0;
	for (unsigned int shift = 0; r->at < r->end && shift < 64; shift += 7) {
		*value |= (uint64_t)(*r->at & 0x7f) << shift;
		if (!(*r->at++ & 0x80))
			return true;
	}
	return false;
}

/*
 * Reads the next field; a truncated one ends where the data ends. False: no more, or not protobuf.
 */
static bool read_field(struct otlp_read_reader *r, struct otlp_read_field *f)
{
	uint64_t key, left;

	if (!read_varint(r, &key))
		return false;
	f->number = key >> 3;
	f->wire = key & 7;
	if (f->wire == PB_VARINT)
		return read_varint(r, &f->value);
	if (f->wire == PB_FIXED64 || f->wire == PB_FIXED32)
		f->value = f->wire == PB_FIXED64 ? 8 : 4;
	else if (f->wire != PB_LENGTH || !read_varint(r, &f->value))
		return false;
	left = (uint64_t)(r->end - r->at);
	f->in = (struct otlp_read_reader){r->at, r->at + (f->value < left ? f->value : left)};
	r->at = f->in.end;
	return true;
}

static bool read_message(struct otlp_read_reader *r, uint64_t number, struct otlp_read_reader *in)
{
	struct otlp_read_field f;

	while (read_field(r, &f)) {
		if (f.number != number || f.wire != PB_LENGTH)
			continue;
		*in = f.in;
		return true;
	}
	return false;
}

void export_otlp_traces(const void *request, size_t bytes,
			void (*fn)(void *, uint64_t trace_hi, uint64_t trace_lo), void *arg)
{
	struct otlp_read_reader all = {request, (const uint8_t *)request + bytes}, resource, scope,
				span, id;
	uint64_t trace[2], last[2] = {0, 0};

	while (read_message(&all, 1, &resource))
		while (read_message(&resource, 2, &scope))
			while (read_message(&scope, 2, &span)) {
				if (!read_message(&span, 1, &id) || id.end - id.at != 16)
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
	struct otlp_read_reader r = {answer, (const uint8_t *)answer + bytes}, partial;
	uint64_t rejected = 0;
	struct otlp_read_field f;

	if (!read_message(&r, 1, &partial))
		return 0;
	while (read_field(&partial, &f)) {
		if (f.number == 1 && f.wire == PB_VARINT)
			rejected = f.value <= INT64_MAX ? f.value : 0;
		else if (f.number == 2 && f.wire == PB_LENGTH)
			snprintf(why, why_bytes, "%.*s", (int)(f.in.end - f.in.at),
				 (const char *)f.in.at);
	}
	return rejected;
}
