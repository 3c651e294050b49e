/* SPDX-License-Identifier: Apache-2.0 */
/* endian.h - big-endian numbers at any alignment */
#ifndef SL_DTA_WIRE_ENDIAN_H
#define SL_DTA_WIRE_ENDIAN_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t dta_get16(const void *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return be16toh(v);
}

static inline uint32_t dta_get32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static inline uint64_t dta_get64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return be64toh(v);
}

static inline void dta_put16(void *p, uint32_t v)
{
	const uint16_t be = htobe16((uint16_t)v);

	memcpy(p, &be, sizeof(be));
}

static inline void dta_put32(void *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
}

static inline void dta_put64(void *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, sizeof(v));
}

#endif
