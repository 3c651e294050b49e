/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exercise.h - loads bytes as a saved Frequent Directions sketch; if they are accepted, checks that
 * it saves as the same bytes, and that no query or update does harm. For tests and fuzz_sketch.
 */
#ifndef SL_TESTS_SKETCH_EXERCISE_H
#define SL_TESTS_SKETCH_EXERCISE_H

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"
#include "sketch/hash.h"

#define FRAME 24u /* bytes of header and checksum */

static inline void must(bool holds)
{
	if (!holds)
		abort();
}

/* Corrects the checksum, so that later checks are reached. */
static inline void seal(void *buf, size_t bytes)
{
	uint64_t sum;

	if (bytes < FRAME)
		return;
	sum = htole64(sketch_hash_bytes(buf, bytes - 8, 0));
	memcpy((uint8_t *)buf + bytes - 8, &sum, 8);
}

/* Also checked with a buffer that is too small. */
static inline void *fd_saved(const struct sketch_fd *s, size_t *bytes)
{
	void *buf;

	*bytes = sketch_fd_save_bytes(s);
	buf = malloc(*bytes);
	must(buf && sketch_fd_save(s, buf, *bytes - 1) == -ENOSPC);
	must(sketch_fd_save(s, buf, *bytes) == (int64_t)*bytes);
	return buf;
}

/* Returns NULL, or a sketch that saves as these bytes. */
static inline struct sketch_fd *fd_taken(const void *data, size_t size)
{
	struct sketch_fd *s = NULL;
	int rc = sketch_fd_load(&s, data, size);
	size_t bytes;
	void *again;

	must(rc == 0 || rc == -EINVAL || rc == -EPROTONOSUPPORT || rc == -ENOMEM);
	must(!rc == (s != NULL));
	if (!s)
		return NULL;
	again = fd_saved(s, &bytes);
	must(bytes == size && !memcmp(again, data, size));
	free(again);
	return s;
}

/* Saves and loads again. */
static inline struct sketch_fd *fd_copy(const struct sketch_fd *s)
{
	size_t bytes;
	void *buf = fd_saved(s, &bytes);
	struct sketch_fd *copy = fd_taken(buf, bytes);

	must(copy);
	free(buf);
	return copy;
}

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
	fd_compress(s);
	must(sketch_fd_rank(s) <= sketch_fd_rows(s));
	must(isfinite(sketch_fd_residual(s, sketch_fd_rows(s), row, row + d)));
	must(isfinite(s->shrunk) && isfinite(sum_energy(s)));
	sketch_fd_free(other);
	other = fd_copy(s);
	sketch_fd_free(other);
	sketch_fd_free(s);
	free(row);
}

/*
 * Takes a valid frame and truncates it at every byte, flips every bit, and changes bytes with a
 * corrected checksum: the first two are refused, and the third does no harm.
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
		if (i >= FRAME) {
			seal(cut, i);
			must(!taken(cut, i));
			cut[8] = (uint8_t)i; /* and the length says so */
			cut[9] = (uint8_t)(i >> 8);
			cut[10] = (uint8_t)(i >> 16);
			seal(cut, i);
			must(!taken(cut, i));
		}
		free(cut);
		for (int bit = 0; bit < 8; bit++) {
			memcpy(bad, good, n);
			bad[i] ^= (uint8_t)(1 << bit);
			must(!taken(bad, n));
			if (i >= n - 8)
				continue;
			seal(bad, n);
			if (i < 16)
				must(!taken(bad, n));
			else
				use(bad, n);
		}
		if (i >= 16 && i < n - 8)
			for (int v = 0; v < 256; v += 51) {
				memcpy(bad, good, n);
				bad[i] = (uint8_t)v;
				seal(bad, n);
				use(bad, n);
			}
	}
	memcpy(bad, good, n);
	bad[n] = 0;
	must(!taken(bad, n + 1));
	free(bad);
}

#endif
