/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hll.h - HyperLogLog: the number of distinct keys, in 2^p bytes.
 *
 * P. Flajolet, E. Fusy, O. Gandouet, F. Meunier, "HyperLogLog: the analysis of a near-optimal
 * cardinality estimation algorithm", AofA 2007, with 64-bit hashes and the estimator of O. Ertl,
 * "New cardinality estimation algorithms for HyperLogLog sketches", arXiv:1702.01284 (2017),
 * section 2.3 ("improved raw estimator"), which needs neither a correction table nor a second
 * algorithm for few keys.
 *
 * The relative standard error is 1.04 / sqrt(2^p) for up to 2^60 keys.
 *
 * A sketch is not thread-safe. Memory is allocated at creation.
 */
#ifndef SL_SKETCH_HLL_H
#define SL_SKETCH_HLL_H

#include <stddef.h>
#include <stdint.h>

#define SKETCH_HLL_MIN 4u
#define SKETCH_HLL_MAX 20u

struct sketch_hll;

/* 2^p registers, p in SKETCH_HLL_MIN..SKETCH_HLL_MAX. NULL: errno EINVAL or ENOMEM. */
struct sketch_hll *sketch_hll_new(uint32_t p, uint64_t seed);
void sketch_hll_free(struct sketch_hll *h);

void sketch_hll_add(struct sketch_hll *h, const void *key, size_t bytes);
void sketch_hll_add_u64(struct sketch_hll *h, uint64_t key);

/* The number of distinct keys. */
double sketch_hll_estimate(const struct sketch_hll *h);
/* The relative standard error. */
double sketch_hll_error(const struct sketch_hll *h);

/* See sketch_fd_save() and sketch_fd_load() in fd.h. */
size_t sketch_hll_save_bytes(const struct sketch_hll *h);
int64_t sketch_hll_save(const struct sketch_hll *h, void *buf, size_t bytes);
int sketch_hll_load(struct sketch_hll **out, const void *buf, size_t bytes);

#endif
