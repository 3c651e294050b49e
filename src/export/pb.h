/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pb.h - writes protobuf (protobuf.dev/programming-guides/encoding). Each function appends a field
 * at p and returns its end; the caller must have reserved room. A field takes at most
 * EXPORT_PB_FIELD bytes in addition to its payload.
 */
#ifndef SL_EXPORT_PB_H
#define SL_EXPORT_PB_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum export_pb_wire { PB_VARINT = 0, PB_FIXED64 = 1, PB_LENGTH = 2, PB_FIXED32 = 5 };

#define EXPORT_PB_FIELD 20u /* tag plus length, or tag plus number */

static inline size_t export_pb_varint_bytes(uint64_t v)
{
	return 1 + (63u - (unsigned int)__builtin_clzll(v | 1)) / 7;
}

static inline uint8_t *export_pb_varint(uint8_t *p, uint64_t v)
{
	while (v >= 0x80) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	return p;
}

/* Encodes sint32 and sint64. */
static inline uint64_t export_pb_zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static inline uint8_t *export_pb_tag(uint8_t *p, unsigned int field, enum export_pb_wire wire)
{
	return export_pb_varint(p, field << 3 | wire);
}

static inline uint8_t *export_pb_u64(uint8_t *p, unsigned int field, uint64_t v)
{
	return export_pb_varint(export_pb_tag(p, field, PB_VARINT), v);
}

/* Little-endian, like every machine that Sidelight supports. */
static inline uint8_t *export_pb_fixed64(uint8_t *p, unsigned int field, uint64_t v)
{
	return (uint8_t *)mempcpy(export_pb_tag(p, field, PB_FIXED64), &v, 8);
}

static inline uint8_t *export_pb_fixed32(uint8_t *p, unsigned int field, uint32_t v)
{
	return (uint8_t *)mempcpy(export_pb_tag(p, field, PB_FIXED32), &v, 4);
}

static inline uint8_t *export_pb_f64(uint8_t *p, unsigned int field, double v)
{
	return (uint8_t *)mempcpy(export_pb_tag(p, field, PB_FIXED64), &v, 8);
}

/* Writes the head of a field with n bytes, which the caller appends. */
static inline uint8_t *export_pb_head(uint8_t *p, unsigned int field, size_t n)
{
	return export_pb_varint(export_pb_tag(p, field, PB_LENGTH), n);
}

static inline uint8_t *export_pb_bytes(uint8_t *p, unsigned int field, const void *from, size_t n)
{
	return (uint8_t *)mempcpy(export_pb_head(p, field, n), from, n);
}

static inline uint8_t *export_pb_string(uint8_t *p, unsigned int field, const char *s)
{
	return export_pb_bytes(p, field, s, strlen(s));
}

/*
 * Functions for a nested message whose length is not known in advance. export_pb_open() leaves
 * `guess` bytes for the length and returns the start of the body. export_pb_close() writes the
 * length, and moves the body if the guess was wrong. Reserve 9 bytes more than the guess.
 */
static inline uint8_t *export_pb_open(uint8_t *p, unsigned int field, size_t guess)
{
	return export_pb_tag(p, field, PB_LENGTH) + guess;
}

static inline uint8_t *export_pb_close(uint8_t *body, uint8_t *end, size_t guess)
{
	size_t n = (size_t)(end - body), length = export_pb_varint_bytes(n);

	if (length != guess)
		memmove(body - guess + length, body, n);
	return export_pb_varint(body - guess, n) + n;
}

#endif
