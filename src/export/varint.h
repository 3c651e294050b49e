/* SPDX-License-Identifier: Apache-2.0 */
/* varint.h - protobuf's integers of variable length (protobuf.dev/programming-guides/encoding). */
#ifndef SL_EXPORT_VARINT_H
#define SL_EXPORT_VARINT_H

#include <stddef.h>
#include <stdint.h>

static inline size_t export_varint_bytes(uint64_t v)
{
	return 1 + (63u - (unsigned int)__builtin_clzll(v | 1)) / 7;
}

/* At most 10 bytes; returns the end. */
static inline uint8_t *export_varint_put(uint8_t *p, uint64_t v)
{
	while (v >= 0x80) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	return p;
}

/* sint32 and sint64. */
static inline uint64_t export_zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

#endif
