/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fd.h - Frequent Directions: which l directions of a stream of rows carry its energy, in one pass
 * and 2l rows of memory.
 *
 * E. Liberty, "Simple and deterministic matrix sketching", KDD 2013; M. Ghashami, E. Liberty,
 * J. M. Phillips, D. P. Woodruff, "Frequent Directions: simple and deterministic matrix sketching",
 * SIAM J. Comput. 45 (2016), section 3 and, for the variant that factorises only when 2l rows are
 * full, section 3.1 ("Fast Frequent Directions").
 *
 * For the matrix A of all rows and the sketch B, and every unit vector x,
 *
 * 	0 <= |Ax|^2 - |Bx|^2 <= sketch_fd_shrunk() <= |A - A_k|_F^2 / (l + 1 - k)   for every k <=
 * l,
 *
 * where A_k is the best matrix of rank k. (The paper keeps l - 1 rows and divides by l - k: we
 * subtract the (l+1)-th eigenvalue instead of the l-th, so its proof holds with l + 1 for l.)
 * Rounding adds about 1e-8 |A|_F^2 times the square root of the number of rows.
 *
 * The directions are kept as unit vectors in f32 beside their weights in f64: adding to a weight
 * that is 2^24 times larger loses nothing. All arithmetic is in f64, over lanes of a fixed number:
 * the same rows give the same bits at every vector level.
 *
 * Not safe for concurrent use of one sketch. No I/O, no global state; memory is fixed at creation:
 * about 16 l d + 64 l^2 bytes.
 */
#ifndef SL_SKETCH_FD_H
#define SL_SKETCH_FD_H

#include <stddef.h>
#include <stdint.h>

#include "sketch/level.h"

#define SKETCH_FD_ROWS_MAX 128u
#define SKETCH_FD_DIMS_MAX 16384u
/* Entries are at most this, so that no sum ever overflows. */
#define SKETCH_FD_LIMIT 1e18f

enum {
	SKETCH_FD_FAST = 0,  /* 2l rows; factorises every l rows */
	SKETCH_FD_PLAIN = 1, /* l + 1 rows; factorises at every row from the (l+1)-th on */
};

struct sketch_fd;

/* l = rows_l directions (1..SKETCH_FD_ROWS_MAX) of rows of dims_d floats. NULL: errno EINVAL,
 * ENOMEM. */
struct sketch_fd *sketch_fd_new(uint32_t rows_l, uint32_t dims_d, unsigned int flags);
void sketch_fd_free(struct sketch_fd *fd); /* NULL is fine */
/* Forgets all rows. */
void sketch_fd_clear(struct sketch_fd *fd);

uint32_t sketch_fd_rows(const struct sketch_fd *fd); /* l */
uint32_t sketch_fd_dims(const struct sketch_fd *fd); /* d */

/* Adds a row of d floats. -EINVAL, and nothing changed, if one is no number or above
 * SKETCH_FD_LIMIT. */
int sketch_fd_update(struct sketch_fd *fd, const float *row);

/*
 * Factorises now. Directions, weights and residuals are those of the last factorisation, so up to l
 * rows late in the fast variant; nothing is known before the first.
 */
void sketch_fd_compress(struct sketch_fd *fd);

/* Directions known, 0..l. */
uint32_t sketch_fd_rank(const struct sketch_fd *fd);
/*
 * The first k directions, by falling weight: out is k x d, row major, orthonormal to 1e-4 (1e-6
 * where the weights span less than three decades). Returns how many were written: min(k, rank).
 */
uint32_t sketch_fd_basis(const struct sketch_fd *fd, uint32_t k, float *out);
/* Weight of direction i: the singular value of B, as |Bx|. 0 from rank on. */
double sketch_fd_sigma(const struct sketch_fd *fd, uint32_t i);

/*
 * What of the row (d floats) the first k directions do not explain: r = y - V^T V y. Writes r to
 * residual_out unless that is NULL (it may be row itself), and returns |r|; NaN if the row has one.
 */
double sketch_fd_residual(const struct sketch_fd *fd, uint32_t k, const float *row,
			  float *residual_out);

/* The sum of what the factorisations subtracted: the error bound above. */
double sketch_fd_shrunk(const struct sketch_fd *fd);
/* |A|_F^2 of all rows. */
double sketch_fd_energy(const struct sketch_fd *fd);
/* Rows added, those of merged sketches included. */
uint64_t sketch_fd_count(const struct sketch_fd *fd);

/*
 * Forgetting: what was added so far counts factor (0..1) times as much as what comes, so energies
 * and the bound factor^2. -EINVAL for any other factor.
 */
int sketch_fd_decay(struct sketch_fd *fd, double factor);

/*
 * Adds the rows that `from` stands for (Ghashami et al., section 1.3). The bound above then holds
 * for all rows together. The number of directions may differ; -EINVAL if the dimension does, or
 * both are the same.
 */
int sketch_fd_merge(struct sketch_fd *into, const struct sketch_fd *from);

/* Bytes that sketch_fd_save() needs now. */
size_t sketch_fd_save_bytes(const struct sketch_fd *fd);
/* Returns the bytes written, or -ENOSPC. The format is wire.h's. */
int64_t sketch_fd_save(const struct sketch_fd *fd, void *buf, size_t bytes);
/*
 * A new sketch from bytes that anybody may have written. 0; -EINVAL: damaged, or no sketch that
 * could have been saved; -EPROTONOSUPPORT: another version; -ENOMEM.
 */
int sketch_fd_load(struct sketch_fd **out, const void *buf, size_t bytes);

/* For tests and benchmarks: uses a lower vector level than the CPU's. -EINVAL if it has it not. */
int sketch_fd_set_level(struct sketch_fd *fd, enum sketch_vector_level level);

#endif
