/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pb_read.h - parses protobuf (protobuf.dev/programming-guides/encoding) field by field, in place.
 * Every length is checked. Groups, which no current format uses, are malformed.
 */
#ifndef SL_BASE_PB_READ_H
#define SL_BASE_PB_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct base_pb {
	const uint8_t *at, *end;
	bool bad; /* malformed: reading stops here */
};

struct base_pb_field {
	uint32_t number;
	uint32_t wire;	     /* 0 varint, 1 fixed64, 2 length-delimited, 5 fixed32 */
	uint64_t value;	     /* value, unless length-delimited */
	struct base_pb data; /* contents, if length-delimited */
};

static inline uint64_t base_pb_varint(struct base_pb *p)
{
	uint64_t v = 0;

	for (unsigned int shift = 0; shift < 64 && p->at < p->end; shift += 7) {
		uint8_t b = *p->at++;

		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
	}
	p->bad = true;
	return 0;
}

static inline uint64_t base_pb_fixed(struct base_pb *p, size_t bytes)
{
	uint64_t v = 0;

	if ((size_t)(p->end - p->at) < bytes) {
		p->bad = true;
		return 0;
	}
	memcpy(&v, p->at, bytes);
	p->at += bytes;
	return v;
}

/*
 * Reads the next field. Returns false at the end, or if the rest is malformed. If the end cuts off
 * a length-delimited field, f->data has the part before it.
 */
static inline bool base_pb_next(struct base_pb *p, struct base_pb_field *f)
{
	uint64_t tag, n;

	if (p->bad || p->at == p->end)
		return false;
	tag = base_pb_varint(p);
	f->number = (uint32_t)(tag >> 3);
	f->wire = tag & 7;
	p->bad |= !f->number || tag >> 32;
	switch (f->wire) {
	case 0:
		f->value = base_pb_varint(p);
		break;
	case 1:
		f->value = base_pb_fixed(p, 8);
		break;
	case 5:
		f->value = base_pb_fixed(p, 4);
		break;
	case 2:
		n = base_pb_varint(p);
		if (p->bad)
			break;
		p->bad = n > (size_t)(p->end - p->at);
		f->data = (struct base_pb){p->at, p->bad ? p->end : p->at + n, false};
		p->at = f->data.end;
		break;
	default:
		p->bad = true;
	}
	return !p->bad;
}

static inline double base_pb_f64(uint64_t bits)
{
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

/* Decodes sint32 and sint64. */
static inline int64_t base_pb_zigzag(uint64_t v)
{
	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

#endif
