/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cells.h - Count-Min, Count-Sketch and HyperLogLog over cells owned by the caller, such as a
 * store's cells. docs/sketches.md has the bounds and their sources.
 *
 * Count-Min gives an upper estimate of a key's count. With N counts, w cells per row and d rows, it
 * exceeds the true count by at most e/w N with a probability of at least 1 - e^-d.
 *
 * Count-Sketch gives an unbiased estimate. Its error exceeds sqrt(8 F2 / w), where F2 is the sum of
 * the squared counts, with a probability of 1.6 % for d = 5.
 *
 * HyperLogLog gives the number of distinct keys, with a relative standard error of 1.04 / sqrt(w).
 */
#ifndef SL_SKETCH_CELLS_H
#define SL_SKETCH_CELLS_H

#include <stdint.h>

#include "sketch/hash.h"

#define SKETCH_CELLS_MAX      ((uint64_t)1 << 23)
#define SKETCH_CELLS_ROWS_MAX 16u

enum sketch_cells_kind { SKETCH_COUNT_MIN, SKETCH_COUNT_SKETCH, SKETCH_HLL };

struct sketch_cells {
	enum sketch_cells_kind kind;
	uint32_t width, depth, shift;
	uint64_t seed;
	uint64_t total; /* Count-Min: N */
	uint64_t m[SKETCH_CELLS_ROWS_MAX];
	/* depth rows of `width` uint64_t cells; for HyperLogLog, `width` uint8_t registers */
	void *cell;
};

/*
 * The width must be a power of two, and rows times width at most SKETCH_CELLS_MAX. Count-Min has 1
 * to SKETCH_CELLS_ROWS_MAX rows of at least 2 cells, Count-Sketch an odd number of rows, and
 * HyperLogLog one row of 2^4 to 2^20 registers. Returns -EINVAL for any other shape.
 */
int sketch_cells_init(struct sketch_cells *s, enum sketch_cells_kind kind, uint64_t width,
		      uint32_t depth, uint64_t seed, void *cell);
/* Checks cells that are not all zero. Returns -EINVAL if no stream can produce them. */
int sketch_cells_check(struct sketch_cells *s);
/*
 * Adds n to the count of the key with this hash (sketch_hash_bytes() with the seed). A Count-Sketch
 * counts modulo 2^64, so n may be negative. Returns -EOVERFLOW without changing anything if the
 * total of a Count-Min would exceed 2^64 - 1.
 */
int sketch_cells_add(struct sketch_cells *s, uint64_t hash, uint64_t n);
/*
 * Returns the key's count, or the number of keys. *error: the bound given above, as an absolute
 * number.
 */
double sketch_cells_estimate(const struct sketch_cells *s, uint64_t hash, double *error);

#endif
