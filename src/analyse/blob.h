/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blob.h - a bounds-checked cursor over the little-endian fields of a model. Running over the end
 * sets `failed` for good, so callers check once, at the end.
 */
#ifndef SL_ANALYSE_BLOB_H
#define SL_ANALYSE_BLOB_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct analyse_blob {
	uint8_t *at; /* NULL: only count */
	size_t used, bytes;
	bool failed;
};

static inline void *analyse_blob_take(struct analyse_blob *b, size_t n)
{
	void *p = NULL;

	if (b->failed || n > b->bytes - b->used) {
		b->failed = true;
		return NULL;
	}
	if (b->at)
		p = b->at + b->used;
	b->used += n;
	return p;
}

static inline void analyse_blob_put(struct analyse_blob *b, const void *from, size_t n)
{
	void *p = analyse_blob_take(b, n);

	if (p && n)
		memcpy(p, from, n);
}

static inline void analyse_blob_put_u32(struct analyse_blob *b, uint32_t v)
{
	v = htole32(v);
	analyse_blob_put(b, &v, sizeof(v));
}

static inline void analyse_blob_put_u64(struct analyse_blob *b, uint64_t v)
{
	v = htole64(v);
	analyse_blob_put(b, &v, sizeof(v));
}

static inline void analyse_blob_put_f32(struct analyse_blob *b, float f)
{
	uint32_t v;

	memcpy(&v, &f, sizeof(v));
	analyse_blob_put_u32(b, v);
}

static inline void analyse_blob_put_f64(struct analyse_blob *b, double f)
{
	uint64_t v;

	memcpy(&v, &f, sizeof(v));
	analyse_blob_put_u64(b, v);
}

static inline uint32_t analyse_blob_u32(struct analyse_blob *b)
{
	const void *p = analyse_blob_take(b, 4);
	uint32_t v = 0;

	if (p)
		memcpy(&v, p, 4);
	return le32toh(v);
}

static inline uint64_t analyse_blob_u64(struct analyse_blob *b)
{
	const void *p = analyse_blob_take(b, 8);
	uint64_t v = 0;

	if (p)
		memcpy(&v, p, 8);
	return le64toh(v);
}

/* A number in [min, max]; any other sets failed. */
static inline float analyse_blob_f32(struct analyse_blob *b, float min, float max)
{
	uint32_t v = analyse_blob_u32(b);
	float f;

	memcpy(&f, &v, sizeof(f));
	if (f >= min && f <= max)
		return f;
	b->failed = true;
	return min;
}

static inline double analyse_blob_f64(struct analyse_blob *b, double min, double max)
{
	uint64_t v = analyse_blob_u64(b);
	double f;

	memcpy(&f, &v, sizeof(f));
	if (f >= min && f <= max)
		return f;
	b->failed = true;
	return min;
}

#endif
