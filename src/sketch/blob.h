/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blob.h - a bounds-checked cursor over little-endian fields. The same function saves or loads a
 * field, so one list of fields serves both directions. Reading beyond the end, or a number out of
 * range, sets `failed` permanently, so callers need to check it only once, at the end.
 */
#ifndef SL_SKETCH_BLOB_H
#define SL_SKETCH_BLOB_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct sketch_blob {
	uint8_t *at; /* buffer; NULL means only count bytes */
	size_t used, bytes;
	bool load; /* true to load; false to save, which only reads *v */
	bool failed;
};

static inline void *sketch_blob_take(struct sketch_blob *b, size_t n)
{
	if (b->failed || n > b->bytes - b->used) {
		b->failed = true;
		return NULL;
	}
	b->used += n;
	return b->at ? b->at + b->used - n : NULL;
}

/* Loads zeros if the blob has failed. */
static inline void sketch_blob_bytes(struct sketch_blob *b, void *v, size_t n)
{
	void *p = sketch_blob_take(b, n);

	if (b->load && !p)
		memset(v, 0, n);
	else if (b->load)
		memcpy(v, p, n);
	else if (p)
		memcpy(p, v, n);
}

static inline void sketch_blob_u32(struct sketch_blob *b, uint32_t *v)
{
	uint32_t le = htole32(*v);

	sketch_blob_bytes(b, &le, sizeof(le));
	if (b->load)
		*v = le32toh(le);
}

static inline void sketch_blob_u64(struct sketch_blob *b, uint64_t *v)
{
	uint64_t le = htole64(*v);

	sketch_blob_bytes(b, &le, sizeof(le));
	if (b->load)
		*v = le64toh(le);
}

/* Loads a number in [min, max]; any other number becomes min and sets failed. */
static inline void sketch_blob_f32(struct sketch_blob *b, float *v, float min, float max)
{
	uint32_t bits;

	memcpy(&bits, v, sizeof(bits));
	sketch_blob_u32(b, &bits);
	if (!b->load)
		return;
	memcpy(v, &bits, sizeof(bits));
	if (*v >= min && *v <= max)
		return;
	b->failed = true;
	*v = min;
}

static inline void sketch_blob_f64(struct sketch_blob *b, double *v, double min, double max)
{
	uint64_t bits;

	memcpy(&bits, v, sizeof(bits));
	sketch_blob_u64(b, &bits);
	if (!b->load)
		return;
	memcpy(v, &bits, sizeof(bits));
	if (*v >= min && *v <= max)
		return;
	b->failed = true;
	*v = min;
}

#endif
