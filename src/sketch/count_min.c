// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sketch/count_min.h"
#include "sketch/hash.h"
#include "sketch/wire.h"

struct sketch_count_min {
	uint32_t width, depth, shift, flags;
	uint64_t seed, total;
	uint64_t m[SKETCH_COUNT_MIN_DEPTH_MAX];
	uint64_t cell[]; /* depth rows of width cells, each <= total */
};

static bool fits(uint32_t width, uint32_t depth, unsigned int flags)
{
	return width >= 2 && !(width & (width - 1)) && depth &&
	       depth <= SKETCH_COUNT_MIN_DEPTH_MAX &&
	       (size_t)width * depth <= SKETCH_COUNT_MIN_CELLS_MAX &&
	       !(flags & ~(unsigned int)SKETCH_COUNT_MIN_CONSERVATIVE);
}

struct sketch_count_min *sketch_count_min_new(uint32_t width, uint32_t depth, unsigned int flags,
					      uint64_t seed)
{
	struct sketch_count_min *s;

	if (!fits(width, depth, flags)) {
		errno = EINVAL;
		return NULL;
	}
	s = calloc(1, sizeof(*s) + (size_t)width * depth * sizeof(s->cell[0]));
	if (!s)
		return NULL;
	s->width = width;
	s->depth = depth;
	s->shift = 64 - (uint32_t)__builtin_ctz(width);
	s->flags = flags;
	s->seed = seed;
	sketch_hash_rows(s->m, depth, seed);
	return s;
}

void sketch_count_min_free(struct sketch_count_min *s)
{
	free(s);
}

static inline uint64_t lowest(const struct sketch_count_min *s, uint64_t hash)
{
	const uint64_t *row = s->cell;
	uint64_t low = UINT64_MAX;

	for (uint32_t i = 0; i < s->depth; i++, row += s->width) {
		uint64_t v = row[hash * s->m[i] >> s->shift];

		low = v < low ? v : low;
	}
	return low;
}

static inline int add(struct sketch_count_min *s, uint64_t hash, uint64_t n)
{
	uint64_t *row = s->cell;

	if (__builtin_add_overflow(s->total, n, &s->total)) {
		s->total -= n;
		return -EOVERFLOW;
	}
	if (s->flags & SKETCH_COUNT_MIN_CONSERVATIVE) {
		const uint64_t to = lowest(s, hash) + n;

		for (uint32_t i = 0; i < s->depth; i++, row += s->width) {
			uint64_t *v = &row[hash * s->m[i] >> s->shift];

			*v = *v < to ? to : *v;
		}
	} else {
		for (uint32_t i = 0; i < s->depth; i++, row += s->width)
			row[hash * s->m[i] >> s->shift] += n;
	}
	return 0;
}

int sketch_count_min_add(struct sketch_count_min *s, const void *key, size_t bytes, uint64_t n)
{
	return add(s, sketch_hash_bytes(key, bytes, s->seed), n);
}

int sketch_count_min_add_u64(struct sketch_count_min *s, uint64_t key, uint64_t n)
{
	return add(s, sketch_hash_u64(key, s->seed), n);
}

uint64_t sketch_count_min_estimate(const struct sketch_count_min *s, const void *key, size_t bytes)
{
	return lowest(s, sketch_hash_bytes(key, bytes, s->seed));
}

uint64_t sketch_count_min_estimate_u64(const struct sketch_count_min *s, uint64_t key)
{
	return lowest(s, sketch_hash_u64(key, s->seed));
}

uint64_t sketch_count_min_total(const struct sketch_count_min *s)
{
	return s->total;
}

double sketch_count_min_error(const struct sketch_count_min *s)
{
	return M_E / s->width * (double)s->total;
}

size_t sketch_count_min_save_bytes(const struct sketch_count_min *s)
{
	return SKETCH_FRAME + 3 * 4 + 2 * 8 + (size_t)s->width * s->depth * 8;
}

int64_t sketch_count_min_save(const struct sketch_count_min *s, void *buf, size_t bytes)
{
	struct sketch_wire w;
	int rc = sketch_wire_begin(&w, buf, bytes, sketch_count_min_save_bytes(s),
				   SKETCH_COUNT_MIN);

	if (rc)
		return rc;
	sketch_put_u32(&w, s->width);
	sketch_put_u32(&w, s->depth);
	sketch_put_u32(&w, s->flags);
	sketch_put_u64(&w, s->seed);
	sketch_put_u64(&w, s->total);
	for (size_t i = 0; i < (size_t)s->width * s->depth; i++)
		sketch_put_u64(&w, s->cell[i]);
	return sketch_wire_end(&w, buf);
}

int sketch_count_min_load(struct sketch_count_min **out, const void *buf, size_t bytes)
{
	uint32_t width, depth, flags;
	struct sketch_count_min *s;
	struct sketch_wire_in r;
	uint64_t seed;
	int rc = sketch_wire_open(&r, buf, bytes, SKETCH_COUNT_MIN);

	if (rc)
		return rc;
	width = sketch_take_u32(&r);
	depth = sketch_take_u32(&r);
	flags = sketch_take_u32(&r);
	seed = sketch_take_u64(&r);
	if (!fits(width, depth, flags) ||
	    bytes != SKETCH_FRAME + 3 * 4 + 2 * 8 + (size_t)width * depth * 8)
		return -EINVAL;
	s = sketch_count_min_new(width, depth, flags, seed);
	if (!s)
		return -errno;
	s->total = sketch_take_u64(&r);
	/* Each row sums to total; with conservative updates to at most total. */
	for (uint32_t i = 0; i < depth; i++) {
		uint64_t sum = 0;
		bool over = false;

		for (uint32_t c = 0; c < width; c++) {
			uint64_t v = sketch_take_u64(&r);

			s->cell[(size_t)i * width + c] = v;
			over |= __builtin_add_overflow(sum, v, &sum);
		}
		if (over || sum > s->total ||
		    (!(flags & SKETCH_COUNT_MIN_CONSERVATIVE) && sum != s->total))
			goto refuse;
	}
	if (!sketch_wire_done(&r))
		goto refuse;
	*out = s;
	return 0;

refuse:
	sketch_count_min_free(s);
	return -EINVAL;
}
