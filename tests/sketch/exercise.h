/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exercise.h - loads bytes as a sketch of every kind and, if one is taken, uses all of it: what is
 * saved again are the same bytes, and no query or update does harm. For tests and fuzz_sketch.
 */
#ifndef SL_TESTS_SKETCH_EXERCISE_H
#define SL_TESTS_SKETCH_EXERCISE_H

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sketch/count_min.h"
#include "sketch/count_sketch.h"
#include "sketch/fd.h"
#include "sketch/hll.h"
#include "sketch/wire.h"

static inline void must(bool holds)
{
	if (!holds)
		abort();
}

/*
 * static void *KIND_saved(s, *bytes), checked against a buffer that is too small, and
 * static struct sl_KIND *KIND_taken(data, size): NULL, or a sketch that saves as these bytes.
 */
#define EXERCISE_FRAME(kind)                                                               \
	static inline void *kind##_saved(const struct sketch_##kind *s, size_t *bytes)     \
	{                                                                                  \
		void *buf;                                                                 \
                                                                                           \
		*bytes = sketch_##kind##_save_bytes(s);                                    \
		buf = malloc(*bytes);                                                      \
		must(buf &&sketch_##kind##_save(s, buf, *bytes - 1) == -ENOSPC);           \
		must(sketch_##kind##_save(s, buf, *bytes) == (int64_t)*bytes);             \
		return buf;                                                                \
	}                                                                                  \
                                                                                           \
	static inline struct sketch_##kind *kind##_taken(const void *data, size_t size)    \
	{                                                                                  \
		struct sketch_##kind *s = NULL;                                            \
		int rc = sketch_##kind##_load(&s, data, size);                             \
		size_t bytes;                                                              \
		void *again;                                                               \
                                                                                           \
		must(rc == 0 || rc == -EINVAL || rc == -EPROTONOSUPPORT || rc == -ENOMEM); \
		must(!rc == (s != NULL));                                                  \
		if (!s)                                                                    \
			return NULL;                                                       \
		again = kind##_saved(s, &bytes);                                           \
		must(bytes == size && !memcmp(again, data, size));                         \
		free(again);                                                               \
		return s;                                                                  \
	}                                                                                  \
                                                                                           \
	/* Saved and loaded again. */                                                      \
	static inline struct sketch_##kind *kind##_copy(const struct sketch_##kind *s)     \
	{                                                                                  \
		size_t bytes;                                                              \
		void *buf = kind##_saved(s, &bytes);                                       \
		struct sketch_##kind *copy = kind##_taken(buf, bytes);                     \
                                                                                           \
		must(copy);                                                                \
		free(buf);                                                                 \
		return copy;                                                               \
	}                                                                                  \
                                                                                           \
	static inline bool kind##_same(const struct sketch_##kind *a,                      \
				       const struct sketch_##kind *b)                      \
	{                                                                                  \
		size_t an, bn;                                                             \
		void *as = kind##_saved(a, &an), *bs = kind##_saved(b, &bn);               \
		bool same = an == bn && !memcmp(as, bs, an);                               \
                                                                                           \
		free(as);                                                                  \
		free(bs);                                                                  \
		return same;                                                               \
	}

EXERCISE_FRAME(fd)
EXERCISE_FRAME(hll)
EXERCISE_FRAME(count_min)
EXERCISE_FRAME(count_sketch)

static inline void exercise_fd(const void *data, size_t size)
{
	struct sketch_fd *s = fd_taken(data, size), *other;
	float *row;
	uint32_t d;

	if (!s)
		return;
	other = fd_copy(s);
	d = sketch_fd_dims(s);
	row = calloc((size_t)d * 2, sizeof(*row));
	for (uint32_t i = 0; i < 2 * sketch_fd_rows(s) + 3 && i < 40; i++) {
		row[i * 7 % d] += (float)i - 3;
		must(sketch_fd_update(s, row) == 0);
	}
	must(isfinite(sketch_fd_residual(s, 3, row, row + d)));
	must(sketch_fd_merge(s, other) == 0);
	must(sketch_fd_decay(s, 0.5) == 0);
	sketch_fd_compress(s);
	must(sketch_fd_rank(s) <= sketch_fd_rows(s));
	must(isfinite(sketch_fd_residual(s, sketch_fd_rows(s), row, row + d)));
	must(isfinite(sketch_fd_shrunk(s)) && isfinite(sketch_fd_energy(s)));
	sketch_fd_free(other);
	other = fd_copy(s);
	sketch_fd_free(other);
	sketch_fd_clear(s);
	must(sketch_fd_rank(s) == 0);
	sketch_fd_free(s);
	free(row);
}

static inline void exercise_hll(const void *data, size_t size)
{
	struct sketch_hll *s = hll_taken(data, size);

	if (!s)
		return;
	sketch_hll_free(hll_copy(s));
	for (uint64_t i = 0; i < 50; i++)
		sketch_hll_add_u64(s, i);
	must(sketch_hll_estimate(s) >= 0 && isfinite(sketch_hll_estimate(s)));
	sketch_hll_free(s);
}

static inline void exercise_count_min(const void *data, size_t size)
{
	struct sketch_count_min *s = count_min_taken(data, size);
	int rc;

	if (!s)
		return;
	for (uint64_t i = 0; i < 20; i++) {
		uint64_t was = sketch_count_min_estimate_u64(s, i);

		rc = sketch_count_min_add_u64(s, i, i);
		must(rc == 0 || rc == -EOVERFLOW);
		must(rc || sketch_count_min_estimate_u64(s, i) >= was + i);
	}
	must(sketch_count_min_estimate(s, "key", 3) <= sketch_count_min_total(s));
	sketch_count_min_free(count_min_copy(s));
	sketch_count_min_free(s);
}

static inline void exercise_count_sketch(const void *data, size_t size)
{
	struct sketch_count_sketch *s = count_sketch_taken(data, size);

	if (!s)
		return;
	sketch_count_sketch_free(count_sketch_copy(s));
	sketch_count_sketch_add(s, "key", 3, INT64_MIN);
	sketch_count_sketch_add_u64(s, 3, INT64_MAX);
	must(sketch_count_sketch_f2(s) >= 0 && isfinite(sketch_count_sketch_error(s)));
	sketch_count_sketch_estimate_u64(s, 7);
	sketch_count_sketch_free(s);
}

static inline void exercise_sketch(const void *data, size_t size)
{
	exercise_fd(data, size);
	exercise_hll(data, size);
	exercise_count_min(data, size);
	exercise_count_sketch(data, size);
}

/*
 * A good frame, cut short at every byte, with every bit turned, and with bytes changed and the
 * checksum made right: the first two are refused, the third does no harm.
 */
static inline void exercise_damage(const uint8_t *good, size_t n, void (*use)(const void *, size_t),
				   bool (*taken)(const void *, size_t))
{
	uint8_t *bad = malloc(n + 1), *cut;

	must(bad && taken(good, n));
	for (size_t i = 0; i < n; i++) {
		cut = malloc(i ? i : 1);
		memcpy(cut, good, i);
		must(!taken(cut, i));
		if (i >= SKETCH_FRAME) {
			sketch_wire_seal(cut, i);
			must(!taken(cut, i));
			cut[8] = (uint8_t)i; /* and the length says so */
			cut[9] = (uint8_t)(i >> 8);
			cut[10] = (uint8_t)(i >> 16);
			sketch_wire_seal(cut, i);
			must(!taken(cut, i));
		}
		free(cut);
		for (int bit = 0; bit < 8; bit++) {
			memcpy(bad, good, n);
			bad[i] ^= (uint8_t)(1 << bit);
			must(!taken(bad, n));
			if (i >= n - 8)
				continue;
			sketch_wire_seal(bad, n);
			if (i < 16)
				must(!taken(bad, n));
			else
				use(bad, n);
		}
		if (i >= 16 && i < n - 8)
			for (int v = 0; v < 256; v += 51) {
				memcpy(bad, good, n);
				bad[i] = (uint8_t)v;
				sketch_wire_seal(bad, n);
				use(bad, n);
			}
	}
	memcpy(bad, good, n);
	bad[n] = 0;
	must(!taken(bad, n + 1));
	free(bad);
}

#endif
