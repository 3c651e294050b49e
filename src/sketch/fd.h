/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fd.h - Frequent Directions: the l directions with the most energy in a stream of rows, in one
 * pass and 2l rows of memory. docs/sketches.md has the theorem, its sources, and the effect of
 * rounding. For the matrix A of all rows, the sketch B, every unit vector x and every k <= l,
 *
 * 	0 <= |Ax|^2 - |Bx|^2 <= |A - A_k|_F^2 / (l + 1 - k),
 *
 * where A_k is the best approximation of rank k. Directions are unit vectors in f32, weights are
 * f64, so that nothing is lost when adding to a weight that is 2^24 times larger.
 *
 * A sketch is not thread-safe. Memory, about 16 l d + 64 l^2 bytes, is allocated at creation.
 */
#ifndef SL_SKETCH_FD_H
#define SL_SKETCH_FD_H

#include <stddef.h>
#include <stdint.h>

#define SKETCH_FD_ROWS_MAX 128u
#define SKETCH_FD_DIMS_MAX 16384u
/* Limit of each entry, so that no sum overflows. */
#define SKETCH_FD_LIMIT 1e18f

struct sketch_fd;

/*
 * Creates a sketch of l = rows_l directions (1..SKETCH_FD_ROWS_MAX) for rows of dims_d floats.
 * Returns NULL with errno EINVAL or ENOMEM.
 */
struct sketch_fd *sketch_fd_new(uint32_t rows_l, uint32_t dims_d);
void sketch_fd_free(struct sketch_fd *fd); /* NULL is ignored */

uint32_t sketch_fd_rows(const struct sketch_fd *fd); /* l */
uint32_t sketch_fd_dims(const struct sketch_fd *fd); /* d */

/*
 * Adds a row of d floats. Returns -EINVAL, without changing anything, if an entry is NaN or beyond
 * SKETCH_FD_LIMIT.
 */
int sketch_fd_update(struct sketch_fd *fd, const float *row);

/*
 * Directions, weights and residuals are those of the last factorisation, which may be up to l rows
 * behind. Before the first factorisation there are none.
 */

/* Returns the number of directions, 0 to l. */
uint32_t sketch_fd_rank(const struct sketch_fd *fd);
/*
 * Computes the residual of a row (d floats) outside the first k directions, r = y - V^T V y. Writes
 * r to residual_out unless it is NULL (it may be row itself) and returns |r|, or NaN if the row
 * contains a NaN.
 */
double sketch_fd_residual(const struct sketch_fd *fd, uint32_t k, const float *row,
			  float *residual_out);

/*
 * Adds the rows of `from` (Ghashami et al., section 1.3). The bound then holds for all rows
 * together. The numbers of directions may differ; in the bound, l is then the smaller one. Returns
 * -EINVAL if the dimensions differ or if both are the same sketch.
 */
int sketch_fd_merge(struct sketch_fd *into, const struct sketch_fd *from);

/* Returns the size of the output of sketch_fd_save(). */
size_t sketch_fd_save_bytes(const struct sketch_fd *fd);
/* Returns the number of bytes written, or -ENOSPC. */
int64_t sketch_fd_save(const struct sketch_fd *fd, void *buf, size_t bytes);
/*
 * Loads a sketch from untrusted bytes. Returns 0, -EINVAL if it is damaged or could not have been
 * saved, -EPROTONOSUPPORT if it has another version, or -ENOMEM.
 */
int sketch_fd_load(struct sketch_fd **out, const void *buf, size_t bytes);

#endif
