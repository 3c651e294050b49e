/* SPDX-License-Identifier: Apache-2.0 */
/*
 * count_min.h - Count-Min: an upper estimate of how often each key was counted.
 *
 * G. Cormode, S. Muthukrishnan, "An improved data stream summary: the count-min sketch and its
 * applications", J. Algorithms 55 (2005). For N counts, w cells per row and d rows, an estimate a
 * of the true count t satisfies
 *
 *	t <= a always, and a <= t + e/w * N with probability at least 1 - e^-d   (theorem 1).
 *
 * SKETCH_COUNT_MIN_CONSERVATIVE raises only the cells that must rise (C. Estan, G. Varghese, "New
 * directions in traffic measurement and accounting", SIGCOMM 2002, section 3.3). Estimates are
 * never worse and usually better, but cells depend on the order of updates.
 *
 * A sketch is not thread-safe. Memory, 8 * w * d bytes, is allocated at creation.
 */
#ifndef SL_SKETCH_COUNT_MIN_H
#define SL_SKETCH_COUNT_MIN_H

#include <stddef.h>
#include <stdint.h>

#define SKETCH_COUNT_MIN_DEPTH_MAX 16u
#define SKETCH_COUNT_MIN_CELLS_MAX ((size_t)1 << 23)

enum { SKETCH_COUNT_MIN_CONSERVATIVE = 1 };

struct sketch_count_min;

/*
 * 1 to SKETCH_COUNT_MIN_DEPTH_MAX rows of width cells, width a power of two >= 2, and at most
 * SKETCH_COUNT_MIN_CELLS_MAX cells. NULL: errno EINVAL or ENOMEM.
 */
struct sketch_count_min *sketch_count_min_new(uint32_t width, uint32_t depth, unsigned int flags,
					      uint64_t seed);
void sketch_count_min_free(struct sketch_count_min *s);

/* Adds n to the key's count. -EOVERFLOW without a change if the total would exceed 2^64 - 1. */
int sketch_count_min_add(struct sketch_count_min *s, const void *key, size_t bytes, uint64_t n);
int sketch_count_min_add_u64(struct sketch_count_min *s, uint64_t key, uint64_t n);

uint64_t sketch_count_min_estimate(const struct sketch_count_min *s, const void *key, size_t bytes);
uint64_t sketch_count_min_estimate_u64(const struct sketch_count_min *s, uint64_t key);

/* N, the sum of all counts. */
uint64_t sketch_count_min_total(const struct sketch_count_min *s);
/* The bound above, e/w * N, which holds with probability 1 - e^-d. */
double sketch_count_min_error(const struct sketch_count_min *s);

/* See sketch_fd_save() and sketch_fd_load() in fd.h. */
size_t sketch_count_min_save_bytes(const struct sketch_count_min *s);
int64_t sketch_count_min_save(const struct sketch_count_min *s, void *buf, size_t bytes);
int sketch_count_min_load(struct sketch_count_min **out, const void *buf, size_t bytes);

#endif
