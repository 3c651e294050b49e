/* SPDX-License-Identifier: Apache-2.0 */
/*
 * count_sketch.h - Count-Sketch: an unbiased estimate of how often each key was counted, whose
 * error few large keys do not raise. Counts may be negative.
 *
 * M. Charikar, K. Chen, M. Farach-Colton, "Finding frequent items in data streams", ICALP 2002.
 * With w cells per row and d rows, the estimate of one row is unbiased and its variance is at most
 * F2 / w, where F2 is the sum of the squared counts (lemma 1). It errs by more than sqrt(8 F2 / w)
 * with probability at most 1/8 (Chebyshev). The median of d rows errs only if half of them do, with
 * probability at most
 *
 *	sum over i > d/2 of C(d, i) (1/8)^i (7/8)^(d-i)
 *
 * (d = 5: 1.6 %; d = 7: 0.62 %; d = 9: 0.25 %).
 *
 * sketch_count_sketch_f2() is the tug-of-war estimate of F2 (N. Alon, Y. Matias, M. Szegedy, "The
 * space complexity of approximating the frequency moments", STOC 1996) over the cells of each row
 * (M. Thorup, Y. Zhang, SODA 2004); the relative standard error of one row is at most sqrt(2 / w).
 *
 * A sketch is not thread-safe. Memory, 8 * w * d bytes, is allocated at creation.
 */
#ifndef SL_SKETCH_COUNT_SKETCH_H
#define SL_SKETCH_COUNT_SKETCH_H

#include <stddef.h>
#include <stdint.h>

#define SKETCH_COUNT_SKETCH_DEPTH_MAX 15u
#define SKETCH_COUNT_SKETCH_CELLS_MAX ((size_t)1 << 23)

struct sketch_count_sketch;

/*
 * An odd number of rows, 1 to SKETCH_COUNT_SKETCH_DEPTH_MAX, of width cells, width a power of two
 * >= 2, and at most SKETCH_COUNT_SKETCH_CELLS_MAX cells. NULL: errno EINVAL or ENOMEM.
 */
struct sketch_count_sketch *sketch_count_sketch_new(uint32_t width, uint32_t depth, uint64_t seed);
void sketch_count_sketch_free(struct sketch_count_sketch *s);

/* Adds n, which may be negative, to the key's count, modulo 2^64. */
void sketch_count_sketch_add(struct sketch_count_sketch *s, const void *key, size_t bytes,
			     int64_t n);
void sketch_count_sketch_add_u64(struct sketch_count_sketch *s, uint64_t key, int64_t n);

int64_t sketch_count_sketch_estimate(const struct sketch_count_sketch *s, const void *key,
				     size_t bytes);
int64_t sketch_count_sketch_estimate_u64(const struct sketch_count_sketch *s, uint64_t key);

/* Estimate of F2, the sum of the squared counts. */
double sketch_count_sketch_f2(const struct sketch_count_sketch *s);
/* The bound above, sqrt(8 F2 / w), with the estimated F2. */
double sketch_count_sketch_error(const struct sketch_count_sketch *s);

/* See sketch_fd_save() and sketch_fd_load() in fd.h. */
size_t sketch_count_sketch_save_bytes(const struct sketch_count_sketch *s);
int64_t sketch_count_sketch_save(const struct sketch_count_sketch *s, void *buf, size_t bytes);
int sketch_count_sketch_load(struct sketch_count_sketch **out, const void *buf, size_t bytes);

#endif
