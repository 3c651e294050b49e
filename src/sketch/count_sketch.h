/* SPDX-License-Identifier: Apache-2.0 */
/*
 * count_sketch.h - Count-Sketch: how often a key came, too high as often as too low, with an error
 * that few big keys do not raise; counts may be negative.
 *
 * M. Charikar, K. Chen, M. Farach-Colton, "Finding frequent items in data streams", ICALP 2002. For
 * counts f, w cells a row and d rows, one row's estimate is unbiased and has a variance of at most
 * F2 / w, where F2 is the sum of the squares of all counts (lemma 1). So it is wrong by more than
 * sqrt(8 F2 / w) with a probability of at most 1/8 (Chebyshev), and the median of d rows only if
 * half of them are: with a probability of at most
 *
 * 	sum over i > d/2 of C(d, i) (1/8)^i (7/8)^(d-i)
 *
 * (d = 5: 1.6 %; d = 7: 0.62 %; d = 9: 0.25 %).
 *
 * sketch_count_sketch_f2() is the tug-of-war estimate of F2 (N. Alon, Y. Matias, M. Szegedy, "The
 * space complexity of approximating the frequency moments", STOC 1996) over the rows' cells (M.
 * Thorup, Y. Zhang, SODA 2004): one row's relative standard error is at most sqrt(2 / w).
 *
 * Merge: equal to the sketch of both streams, bit for bit. Sums are modulo 2^64.
 *
 * Not safe for concurrent use of one sketch. Memory, 8 * w * d bytes, is fixed at creation.
 */
#ifndef SL_SKETCH_COUNT_SKETCH_H
#define SL_SKETCH_COUNT_SKETCH_H

#include <stddef.h>
#include <stdint.h>

#define SKETCH_COUNT_SKETCH_DEPTH_MAX 15u
#define SKETCH_COUNT_SKETCH_CELLS_MAX ((size_t)1 << 23)

struct sketch_count_sketch;

/*
 * depth rows (odd, 1..SKETCH_COUNT_SKETCH_DEPTH_MAX) of width cells, a power of two from 2; at most
 * SKETCH_COUNT_SKETCH_CELLS_MAX cells. NULL: errno EINVAL, ENOMEM.
 */
struct sketch_count_sketch *sketch_count_sketch_new(uint32_t width, uint32_t depth, uint64_t seed);
void sketch_count_sketch_free(struct sketch_count_sketch *s);

/* Adds n, which may be negative, to the key's count. */
void sketch_count_sketch_add(struct sketch_count_sketch *s, const void *key, size_t bytes,
			     int64_t n);
void sketch_count_sketch_add_u64(struct sketch_count_sketch *s, uint64_t key, int64_t n);

int64_t sketch_count_sketch_estimate(const struct sketch_count_sketch *s, const void *key,
				     size_t bytes);
int64_t sketch_count_sketch_estimate_u64(const struct sketch_count_sketch *s, uint64_t key);

/* The sum of the squares of all counts, estimated. */
double sketch_count_sketch_f2(const struct sketch_count_sketch *s);
/* The bound above, in counts: sqrt(8 F2 / w), with F2 as estimated. */
double sketch_count_sketch_error(const struct sketch_count_sketch *s);

/* -EINVAL unless both have the same size and seed. */
int sketch_count_sketch_merge(struct sketch_count_sketch *into,
			      const struct sketch_count_sketch *from);

/* As sketch_fd_save() and sketch_fd_load() in fd.h. */
size_t sketch_count_sketch_save_bytes(const struct sketch_count_sketch *s);
int64_t sketch_count_sketch_save(const struct sketch_count_sketch *s, void *buf, size_t bytes);
int sketch_count_sketch_load(struct sketch_count_sketch **out, const void *buf, size_t bytes);

#endif
