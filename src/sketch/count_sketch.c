// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sketch/count_sketch.h"
#include "sketch/hash.h"
#include "sketch/wire.h"

struct sketch_count_sketch {
	uint32_t width, depth, shift;
	uint64_t seed;
	uint64_t m[SKETCH_COUNT_SKETCH_DEPTH_MAX];
	uint64_t cell[]; /* depth rows of width cells; signed, in two's complement */
};

static bool fits(uint32_t width, uint32_t depth)
{
	return width >= 2 && !(width & (width - 1)) && depth % 2 &&
	       depth <= SKETCH_COUNT_SKETCH_DEPTH_MAX &&
	       (size_t)width * depth <= SKETCH_COUNT_SKETCH_CELLS_MAX;
}

struct sketch_count_sketch *sketch_count_sketch_new(uint32_t width, uint32_t depth, uint64_t seed)
{
	struct sketch_count_sketch *s;

	if (!fits(width, depth)) {
		errno = EINVAL;
		return NULL;
	}
	s = calloc(1, sizeof(*s) + (size_t)width * depth * sizeof(s->cell[0]));
	if (!s)
		return NULL;
	s->width = width;
	s->depth = depth;
	s->shift = 64 - (uint32_t)__builtin_ctz(width);
	s->seed = seed;
	sketch_hash_rows(s->m, depth, seed);
	return s;
}

void sketch_count_sketch_free(struct sketch_count_sketch *s)
{
	free(s);
}

/* The key's cell in a row; sign is all ones or zero, by the bit below the index, and negates. */
#define CELL(s, row, hash, i, sign)                     \
	__extension__({                                 \
		const uint64_t h_ = (hash) * (s)->m[i]; \
		(sign) = -(h_ >> ((s)->shift - 1) & 1); \
		(row) + (h_ >> (s)->shift);             \
	})

static inline void add(struct sketch_count_sketch *s, uint64_t hash, int64_t n)
{
	uint64_t *row = s->cell, sign;

	for (uint32_t i = 0; i < s->depth; i++, row += s->width) {
		uint64_t *cell = CELL(s, row, hash, i, sign);

		*cell += ((uint64_t)n ^ sign) - sign;
	}
}

static int64_t median(const struct sketch_count_sketch *s, uint64_t hash)
{
	const uint64_t *row = s->cell;
	int64_t v[SKETCH_COUNT_SKETCH_DEPTH_MAX];
	uint64_t sign;

	for (uint32_t i = 0; i < s->depth; i++, row += s->width) {
		const uint64_t *cell = CELL(s, row, hash, i, sign);
		int64_t x = (int64_t)((*cell ^ sign) - sign);
		uint32_t j = i;

		for (; j && v[j - 1] > x; j--)
			v[j] = v[j - 1];
		v[j] = x;
	}
	return v[s->depth / 2];
}

void sketch_count_sketch_add(struct sketch_count_sketch *s, const void *key, size_t bytes,
			     int64_t n)
{
	add(s, sketch_hash_bytes(key, bytes, s->seed), n);
}

void sketch_count_sketch_add_u64(struct sketch_count_sketch *s, uint64_t key, int64_t n)
{
	add(s, sketch_hash_u64(key, s->seed), n);
}

int64_t sketch_count_sketch_estimate(const struct sketch_count_sketch *s, const void *key,
				     size_t bytes)
{
	return median(s, sketch_hash_bytes(key, bytes, s->seed));
}

int64_t sketch_count_sketch_estimate_u64(const struct sketch_count_sketch *s, uint64_t key)
{
	return median(s, sketch_hash_u64(key, s->seed));
}

double sketch_count_sketch_f2(const struct sketch_count_sketch *s)
{
	double v[SKETCH_COUNT_SKETCH_DEPTH_MAX];

	for (uint32_t i = 0; i < s->depth; i++) {
		double sum = 0;
		uint32_t j = i;

		for (uint32_t c = 0; c < s->width; c++) {
			double x = (double)(int64_t)s->cell[(size_t)i * s->width + c];

			sum += x * x;
		}
		for (; j && v[j - 1] > sum; j--)
			v[j] = v[j - 1];
		v[j] = sum;
	}
	return v[s->depth / 2];
}

double sketch_count_sketch_error(const struct sketch_count_sketch *s)
{
	return sqrt(8 * sketch_count_sketch_f2(s) / s->width);
}

size_t sketch_count_sketch_save_bytes(const struct sketch_count_sketch *s)
{
	return SKETCH_FRAME + 2 * 4 + 8 + (size_t)s->width * s->depth * 8;
}

int64_t sketch_count_sketch_save(const struct sketch_count_sketch *s, void *buf, size_t bytes)
{
	struct sketch_wire w;
	int rc = sketch_wire_begin(&w, buf, bytes, sketch_count_sketch_save_bytes(s),
				   SKETCH_COUNT_SKETCH);

	if (rc)
		return rc;
	sketch_put_u32(&w, s->width);
	sketch_put_u32(&w, s->depth);
	sketch_put_u64(&w, s->seed);
	for (size_t i = 0; i < (size_t)s->width * s->depth; i++)
		sketch_put_u64(&w, s->cell[i]);
	return sketch_wire_end(&w, buf);
}

int sketch_count_sketch_load(struct sketch_count_sketch **out, const void *buf, size_t bytes)
{
	struct sketch_count_sketch *s;
	uint32_t width, depth;
	struct sketch_wire_in r;
	int rc = sketch_wire_open(&r, buf, bytes, SKETCH_COUNT_SKETCH);

	if (rc)
		return rc;
	width = sketch_take_u32(&r);
	depth = sketch_take_u32(&r);
	if (!fits(width, depth) || bytes != SKETCH_FRAME + 2 * 4 + 8 + (size_t)width * depth * 8)
		return -EINVAL;
	s = sketch_count_sketch_new(width, depth, sketch_take_u64(&r));
	if (!s)
		return -errno;
	for (size_t i = 0; i < (size_t)width * depth; i++)
		s->cell[i] = sketch_take_u64(&r);
	*out = s; /* any cell values are reachable */
	return 0;
}
