// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sketch/fd.h"
#include "sketch/wire.h"

/*
 * Rows 0..rank-1 are directions: unit vectors with their weights in sigma[]. Rows l..l+fresh-1 are
 * raw rows since the last factorisation. Rows between are zero with weight 0.
 */
struct sketch_fd {
	uint32_t l, d, stride; /* floats per row: d rounded up to a multiple of 16 with zeroes */
	uint32_t room,
		fresh; /* capacity for raw rows, and raw rows, since the last factorisation */
	uint32_t rank, flags;
	uint64_t count;
	double shrunk, energy; /* energy: without fresh rows */
	void (*compress)(struct sketch_fd *fd);
	double (*residual)(const struct sketch_fd *fd, uint32_t k, const float *row, float *out);
	double *sigma;	/* l + room; 1 for fresh rows */
	double *gram;	/* (l + room) rows of SKETCH_EIGEN_STRIDE(l + room) */
	double *value;	/* l + room eigenvalues */
	double *work;	/* for sketch_eigen() */
	double *turned; /* l rows of stride: new directions before rounding to f32 */
	float *row;	/* (l + room) rows of stride */
};

/* Directions below this share of the strongest eigenvalue are rounding errors. */
#define FLOOR 1e-12

/*
 * Bounds that no real stream reaches but merges of forged sketches could. Values saturate there, so
 * that each saved sketch can be loaded.
 */
#define WEIGHT_MAX     1e60
#define ENERGY_MAX     (WEIGHT_MAX * WEIGHT_MAX)

#define SKETCH_W       2
#define SKETCH_NAME(x) x##_portable
#define SKETCH_TARGET
#include "sketch/fd_kernels.h"
#undef SKETCH_W
#undef SKETCH_NAME
#undef SKETCH_TARGET

#ifdef SKETCH_HAVE_X86_LEVELS
#define SKETCH_W       4
#define SKETCH_NAME(x) x##_avx2
#define SKETCH_TARGET  SKETCH_TARGET_AVX2
#include "sketch/fd_kernels.h"
#undef SKETCH_W
#undef SKETCH_NAME
#undef SKETCH_TARGET

#define SKETCH_W       8
#define SKETCH_NAME(x) x##_avx512
#define SKETCH_TARGET  SKETCH_TARGET_AVX512
#include "sketch/fd_kernels.h"
#undef SKETCH_W
#undef SKETCH_NAME
#undef SKETCH_TARGET
#endif

int sketch_fd_set_level(struct sketch_fd *fd, enum sketch_vector_level level)
{
	if ((int)level < 0 || level > sketch_vector_best())
		return -EINVAL;
	fd->compress = compress_portable;
	fd->residual = residual_portable;
#ifdef SKETCH_HAVE_X86_LEVELS
	if (level == SKETCH_VECTOR_AVX2) {
		fd->compress = compress_avx2;
		fd->residual = residual_avx2;
	} else if (level == SKETCH_VECTOR_AVX512) {
		fd->compress = compress_avx512;
		fd->residual = residual_avx512;
	}
#endif
	return 0;
}

struct sketch_fd *sketch_fd_new(uint32_t rows_l, uint32_t dims_d, unsigned int flags)
{
	const uint32_t stride = (dims_d + 15) / 16 * 16,
		       room = flags & SKETCH_FD_PLAIN ? 1 : rows_l;
	const size_t n = (size_t)rows_l + room, gram = n * SKETCH_EIGEN_STRIDE(n);
	struct sketch_fd *fd;
	size_t doubles;
	double *at;

	if (!rows_l || rows_l > SKETCH_FD_ROWS_MAX || !dims_d || dims_d > SKETCH_FD_DIMS_MAX ||
	    flags & ~(unsigned int)SKETCH_FD_PLAIN) {
		errno = EINVAL;
		return NULL;
	}
	fd = malloc(sizeof(*fd));
	if (!fd)
		return NULL;
	*fd = (struct sketch_fd){
		.l = rows_l, .d = dims_d, .stride = stride, .room = room, .flags = flags};
	doubles = SKETCH_EIGEN_STRIDE(n) * 2 + gram + SKETCH_EIGEN_WORK(n) +
		  (size_t)rows_l * stride + n * stride / 2;
	at = aligned_alloc(64, doubles * sizeof(double));
	if (!at) {
		free(fd);
		errno = ENOMEM;
		return NULL;
	}
	memset(at, 0, doubles * sizeof(double));
	fd->sigma = at;
	fd->value = fd->sigma + SKETCH_EIGEN_STRIDE(n);
	fd->gram = fd->value + SKETCH_EIGEN_STRIDE(n);
	fd->work = fd->gram + gram;
	fd->turned = fd->work + SKETCH_EIGEN_WORK(n);
	fd->row = (float *)(fd->turned + (size_t)rows_l * stride);
	sketch_fd_clear(fd);
	sketch_fd_set_level(fd, sketch_vector_best());
	return fd;
}

void sketch_fd_free(struct sketch_fd *fd)
{
	if (fd)
		free(fd->sigma);
	free(fd);
}

void sketch_fd_clear(struct sketch_fd *fd)
{
	memset(fd->row, 0, ((size_t)fd->l + fd->room) * fd->stride * sizeof(float));
	for (uint32_t i = 0; i < fd->l + fd->room; i++)
		fd->sigma[i] = i < fd->l ? 0 : 1;
	fd->rank = fd->fresh = 0;
	fd->count = 0;
	fd->shrunk = fd->energy = 0;
}

uint32_t sketch_fd_rows(const struct sketch_fd *fd)
{
	return fd->l;
}

uint32_t sketch_fd_dims(const struct sketch_fd *fd)
{
	return fd->d;
}

uint32_t sketch_fd_rank(const struct sketch_fd *fd)
{
	return fd->rank;
}

double sketch_fd_sigma(const struct sketch_fd *fd, uint32_t i)
{
	return i < fd->rank ? fd->sigma[i] : 0;
}

double sketch_fd_shrunk(const struct sketch_fd *fd)
{
	return fd->shrunk;
}

uint64_t sketch_fd_count(const struct sketch_fd *fd)
{
	return fd->count;
}

double sketch_fd_energy(const struct sketch_fd *fd)
{
	double energy = fd->energy;

	for (uint32_t i = fd->l; i < fd->l + fd->fresh; i++)
		for (uint32_t c = 0; c < fd->d; c++) {
			double x = (double)fd->row[(size_t)i * fd->stride + c];

			energy += x * x * fd->sigma[i] * fd->sigma[i];
		}
	return energy;
}

void sketch_fd_compress(struct sketch_fd *fd)
{
	fd->compress(fd);
}

int sketch_fd_update(struct sketch_fd *fd, const float *row)
{
	const float limit = SKETCH_FD_LIMIT;
	float *to = fd->row + (size_t)(fd->l + fd->fresh) * fd->stride;
	uint32_t top, bad = 0;

	/*
	 * As integers, magnitudes of floats sort like the numbers, with infinities and NaN at the
	 * end.
	 */
	memcpy(&top, &limit, 4);
	for (uint32_t i = 0; i < fd->d; i++) {
		uint32_t bits;

		memcpy(&bits, row + i, 4);
		bad |= (bits & 0x7fffffffu) > top;
	}
	if (bad)
		return -EINVAL;
	memcpy(to, row, fd->d * sizeof(float));
	fd->sigma[fd->l + fd->fresh] = 1;
	fd->count++;
	if (++fd->fresh == fd->room)
		fd->compress(fd);
	return 0;
}

uint32_t sketch_fd_basis(const struct sketch_fd *fd, uint32_t k, float *out)
{
	if (k > fd->rank)
		k = fd->rank;
	for (uint32_t i = 0; i < k; i++)
		memcpy(out + (size_t)i * fd->d, fd->row + (size_t)i * fd->stride,
		       fd->d * sizeof(float));
	return k;
}

double sketch_fd_residual(const struct sketch_fd *fd, uint32_t k, const float *row,
			  float *residual_out)
{
	return fd->residual(fd, k, row, residual_out);
}

int sketch_fd_decay(struct sketch_fd *fd, double factor)
{
	if (!(factor > 0 && factor <= 1))
		return -EINVAL;
	for (uint32_t i = 0; i < fd->l + fd->fresh; i++)
		fd->sigma[i] *= factor;
	fd->energy *= factor * factor;
	fd->shrunk *= factor * factor;
	return 0;
}

/* Adds a row with a weight. */
static void append(struct sketch_fd *fd, const float *row, double weight)
{
	memcpy(fd->row + (size_t)(fd->l + fd->fresh) * fd->stride, row, fd->d * sizeof(float));
	fd->sigma[fd->l + fd->fresh] = weight;
	if (++fd->fresh == fd->room)
		fd->compress(fd);
}

int sketch_fd_merge(struct sketch_fd *into, const struct sketch_fd *from)
{
	double energy;

	if (into == from || into->d != from->d)
		return -EINVAL;
	energy = sketch_fd_energy(into) + sketch_fd_energy(from);
	for (uint32_t i = 0; i < from->l + from->fresh; i++)
		if (i < from->rank || i >= from->l)
			append(into, from->row + (size_t)i * from->stride, from->sigma[i]);
	into->compress(into);
	into->energy = fmin(energy, ENERGY_MAX);
	into->shrunk = fmin(into->shrunk + from->shrunk, ENERGY_MAX);
	into->count += from->count;
	return 0;
}

size_t sketch_fd_save_bytes(const struct sketch_fd *fd)
{
	const size_t kept = (size_t)fd->rank + fd->fresh;

	return SKETCH_FRAME + 5 * 4 + 3 * 8 + kept * 8 + kept * fd->d * 4;
}

int64_t sketch_fd_save(const struct sketch_fd *fd, void *buf, size_t bytes)
{
	struct sketch_wire w;
	int rc = sketch_wire_begin(&w, buf, bytes, sketch_fd_save_bytes(fd), SKETCH_FD);

	if (rc)
		return rc;
	sketch_put_u32(&w, fd->l);
	sketch_put_u32(&w, fd->d);
	sketch_put_u32(&w, fd->flags);
	sketch_put_u32(&w, fd->rank);
	sketch_put_u32(&w, fd->fresh);
	sketch_put_u64(&w, fd->count);
	sketch_put_f64(&w, fd->shrunk);
	sketch_put_f64(&w, fd->energy);
	for (uint32_t i = 0; i < fd->l + fd->fresh; i++) {
		if (i >= fd->rank && i < fd->l)
			continue;
		sketch_put_f64(&w, fd->sigma[i]);
		for (uint32_t c = 0; c < fd->d; c++)
			sketch_put_f32(&w, fd->row[(size_t)i * fd->stride + c]);
	}
	return sketch_wire_end(&w, buf);
}

/* True if the directions are orthonormal, up to rounding of the weakest. */
static bool orthonormal(const struct sketch_fd *fd)
{
	double product[SKETCH_FD_ROWS_MAX];

	for (uint32_t i = 0; i < fd->rank; i++) {
		dots_portable(product, fd->row + (size_t)i * fd->stride, fd->row, i + 1,
			      fd->stride);
		for (uint32_t j = 0; j <= i; j++)
			if (!(fabs(product[j] - (i == j)) < 0.01))
				return false;
	}
	return true;
}

int sketch_fd_load(struct sketch_fd **out, const void *buf, size_t bytes)
{
	uint32_t l, d, flags, rank, fresh;
	struct sketch_wire_in r;
	struct sketch_fd *fd;
	int rc = sketch_wire_open(&r, buf, bytes, SKETCH_FD);

	if (rc)
		return rc;
	l = sketch_take_u32(&r);
	d = sketch_take_u32(&r);
	flags = sketch_take_u32(&r);
	rank = sketch_take_u32(&r);
	fresh = sketch_take_u32(&r);
	if (rank > l || rank > d || fresh >= (flags & SKETCH_FD_PLAIN ? 1 : l))
		return -EINVAL;
	fd = sketch_fd_new(l, d, flags);
	if (!fd)
		return -errno;
	fd->rank = rank;
	fd->fresh = fresh;
	if (bytes != sketch_fd_save_bytes(fd))
		goto refuse;
	fd->count = sketch_take_u64(&r);
	fd->shrunk = sketch_take_f64(&r);
	fd->energy = sketch_take_f64(&r);
	if (!(fd->shrunk >= 0 && fd->shrunk <= ENERGY_MAX && fd->energy >= 0 &&
	      fd->energy <= ENERGY_MAX))
		goto refuse;
	for (uint32_t i = 0; i < l + fresh; i++) {
		if (i >= rank && i < l)
			continue;
		fd->sigma[i] = sketch_take_f64(&r);
		/* Descending, up to rounding; decay takes weights down to 0. */
		if (!(fd->sigma[i] >= 0 && fd->sigma[i] <= WEIGHT_MAX) ||
		    (i && i < rank && fd->sigma[i] > fd->sigma[i - 1] * 1.001 + DBL_MIN))
			goto refuse;
		for (uint32_t c = 0; c < d; c++) {
			float x = sketch_take_f32(&r);

			if (!(fabsf(x) <= SKETCH_FD_LIMIT))
				goto refuse;
			fd->row[(size_t)i * fd->stride + c] = x;
		}
	}
	if (!sketch_wire_done(&r) || !orthonormal(fd))
		goto refuse;
	*out = fd;
	return 0;

refuse:
	sketch_fd_free(fd);
	return -EINVAL;
}
