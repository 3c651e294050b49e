/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h - internals of Frequent Directions, for tests and benchmarks. */
#ifndef SL_TESTS_SKETCH_INSIDE_H
#define SL_TESTS_SKETCH_INSIDE_H

#include "../../src/sketch/fd.c"

/* Factorises now; afterwards there are no new rows. */
static inline void fd_compress(struct sketch_fd *fd)
{
	fd->compress(fd);
}

/*
 * The first k directions by descending weight: out is k x d, row major, orthonormal to 1e-4 (1e-6
 * where the weights span less than three decades). Returns their number, min(k, rank).
 */
static inline uint32_t fd_basis(const struct sketch_fd *fd, uint32_t k, float *out)
{
	if (k > fd->rank)
		k = fd->rank;
	for (uint32_t i = 0; i < k; i++)
		memcpy(out + (size_t)i * fd->d, fd->row + (size_t)i * fd->stride,
		       fd->d * sizeof(float));
	return k;
}

/* Weight of direction i. 0 for i >= rank. */
static inline double fd_sigma(const struct sketch_fd *fd, uint32_t i)
{
	return i < fd->rank ? fd->sigma[i] : 0;
}

#endif
