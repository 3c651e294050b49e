// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sketch/blob.h"
#include "sketch/fd.h"
#include "sketch/hash.h"

/*
 * The vector instructions of this CPU. Each kernel is written once in C over a fixed number of
 * lanes and compiled for each level. The folder is compiled without contraction of a * b + c, so
 * all levels give the same bits.
 */
enum vector_level {
	VECTOR_PORTABLE, /* the compiler's default target */
	VECTOR_AVX2,
	VECTOR_AVX512,
	VECTOR_LEVELS
};

/*
 * Rows 0..rank-1 are directions: unit vectors whose weights are in sigma[]. Rows l..l+fresh-1 are
 * raw rows added since the last factorisation. The rows in between are zero, with weight 0.
 */
struct sketch_fd {
	/* floats per row: d rounded up to a multiple of 16, padded with zeros */
	uint32_t l, d, stride;
	uint32_t fresh; /* number of raw rows since the last factorisation, at most l */
	uint32_t rank;
	uint64_t count;
	double shrunk; /* total that factorisations have subtracted, which is the error bound */
	double energy; /* sum of the squares of all entries, except in fresh rows */
	void (*compress)(struct sketch_fd *fd);
	double (*residual)(const struct sketch_fd *fd, uint32_t k, const float *row, float *out);
	double *sigma; /* 2 l weights; 1 for fresh rows */
	double *gram;  /* 2 l rows of SKETCH_EIGEN_STRIDE(2 l) */
	double *value; /* 2 l eigenvalues */
	double *work;  /* workspace of sketch_eigen() */
	/* l rows of `stride`: new directions before rounding to f32; scratch of the residual */
	double *turned;
	float *row; /* 2 l rows of `stride` */
};

/* Directions below this fraction of the strongest eigenvalue are rounding errors. */
#define FLOOR 1e-12

/*
 * Bounds that no real stream reaches, but that merges of forged sketches could exceed. Values
 * saturate at these bounds, so that every saved sketch can be loaded.
 */
#define WEIGHT_MAX 1e60
#define ENERGY_MAX (WEIGHT_MAX * WEIGHT_MAX)

#if defined(__x86_64__)
#define SKETCH_TARGET_AVX2 __attribute__((target("avx2")))
#define SKETCH_TARGET_AVX512 \
	__attribute__((target("avx2,avx512f,avx512dq,avx512bw,avx512vl,avx512cd")))
#define SKETCH_HAVE_X86_LEVELS 1
#endif

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

static enum vector_level best_level(void)
{
#ifdef SKETCH_HAVE_X86_LEVELS
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512cd"))
		return VECTOR_AVX512;
	if (__builtin_cpu_supports("avx2"))
		return VECTOR_AVX2;
#endif
	return VECTOR_PORTABLE;
}

/* Returns -EINVAL if the CPU does not support the level. */
static int set_level(struct sketch_fd *fd, enum vector_level level)
{
	if ((int)level < 0 || level > best_level())
		return -EINVAL;
	fd->compress = compress_portable;
	fd->residual = residual_portable;
#ifdef SKETCH_HAVE_X86_LEVELS
	if (level == VECTOR_AVX2) {
		fd->compress = compress_avx2;
		fd->residual = residual_avx2;
	} else if (level == VECTOR_AVX512) {
		fd->compress = compress_avx512;
		fd->residual = residual_avx512;
	}
#endif
	return 0;
}

struct sketch_fd *sketch_fd_new(uint32_t rows_l, uint32_t dims_d)
{
	const uint32_t stride = (dims_d + 15) / 16 * 16;
	const size_t n = 2 * (size_t)rows_l, gram = n * SKETCH_EIGEN_STRIDE(n);
	struct sketch_fd *fd;
	size_t doubles;
	double *at;

	if (!rows_l || rows_l > SKETCH_FD_ROWS_MAX || !dims_d || dims_d > SKETCH_FD_DIMS_MAX) {
		errno = EINVAL;
		return NULL;
	}
	fd = malloc(sizeof(*fd));
	if (!fd)
		return NULL;
	*fd = (struct sketch_fd){.l = rows_l, .d = dims_d, .stride = stride};
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
	for (uint32_t i = rows_l; i < n; i++)
		fd->sigma[i] = 1;
	set_level(fd, best_level());
	return fd;
}

void sketch_fd_free(struct sketch_fd *fd)
{
	if (fd)
		free(fd->sigma);
	free(fd);
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

/* Returns |A|_F^2 over all rows. */
static double sum_energy(const struct sketch_fd *fd)
{
	double energy = fd->energy;

	for (uint32_t i = fd->l; i < fd->l + fd->fresh; i++)
		for (uint32_t c = 0; c < fd->d; c++) {
			double x = (double)fd->row[(size_t)i * fd->stride + c];

			energy += x * x * fd->sigma[i] * fd->sigma[i];
		}
	return energy;
}

/* Appends a row with a weight. */
static void append_row(struct sketch_fd *fd, const float *row, double weight)
{
	memcpy(fd->row + (size_t)(fd->l + fd->fresh) * fd->stride, row, fd->d * sizeof(float));
	fd->sigma[fd->l + fd->fresh] = weight;
	if (++fd->fresh == fd->l)
		fd->compress(fd);
}

int sketch_fd_update(struct sketch_fd *fd, const float *row)
{
	const float limit = SKETCH_FD_LIMIT;
	uint32_t top, bad = 0;

	/* Compared as integers, magnitudes sort like floats, with infinities and NaNs last. */
	memcpy(&top, &limit, 4);
	for (uint32_t i = 0; i < fd->d; i++) {
		uint32_t bits;

		memcpy(&bits, row + i, 4);
		bad |= (bits & 0x7fffffffu) > top;
	}
	if (bad)
		return -EINVAL;
	fd->count++;
	append_row(fd, row, 1);
	return 0;
}

double sketch_fd_residual(const struct sketch_fd *fd, uint32_t k, const float *row,
			  float *residual_out)
{
	return fd->residual(fd, k, row, residual_out);
}

int sketch_fd_merge(struct sketch_fd *into, const struct sketch_fd *from)
{
	double energy;

	if (into == from || into->d != from->d)
		return -EINVAL;
	energy = sum_energy(into) + sum_energy(from);
	for (uint32_t i = 0; i < from->l + from->fresh; i++)
		if (i < from->rank || i >= from->l)
			append_row(into, from->row + (size_t)i * from->stride, from->sigma[i]);
	into->compress(into);
	into->energy = fmin(energy, ENERGY_MAX);
	into->shrunk = fmin(into->shrunk + from->shrunk, ENERGY_MAX);
	into->count += from->count;
	return 0;
}

/* ---- the saved form: docs/sketches.md ---- */

#define MAGIC	0x4b534c53u /* "SLSK" */
#define VERSION 1u
#define KIND	1u
#define HEAD	60u /* encoded size of struct head in bytes */

struct head {
	uint32_t magic, version_kind; /* version and kind, 16 bits each */
	uint64_t bytes;
	uint32_t l, d, flags, rank, fresh; /* flags: always 0 */
	uint64_t count;
	double shrunk, energy;
};

static void frame_io(struct head *h, struct sketch_blob *b)
{
	sketch_blob_u32(b, &h->magic);
	sketch_blob_u32(b, &h->version_kind);
	sketch_blob_u64(b, &h->bytes);
}

static void head_io(struct head *h, struct sketch_blob *b)
{
	sketch_blob_u32(b, &h->l);
	sketch_blob_u32(b, &h->d);
	sketch_blob_u32(b, &h->flags);
	sketch_blob_u32(b, &h->rank);
	sketch_blob_u32(b, &h->fresh);
	sketch_blob_u64(b, &h->count);
	sketch_blob_f64(b, &h->shrunk, 0, ENERGY_MAX);
	sketch_blob_f64(b, &h->energy, 0, ENERGY_MAX);
}

static void rows_io(const struct sketch_fd *fd, struct sketch_blob *b)
{
	for (uint32_t i = 0; i < fd->l + fd->fresh && !b->failed; i++) {
		if (i >= fd->rank && i < fd->l)
			continue;
		sketch_blob_f64(b, &fd->sigma[i], 0, WEIGHT_MAX);
		for (uint32_t c = 0; c < fd->d; c++)
			sketch_blob_f32(b, &fd->row[(size_t)i * fd->stride + c], -SKETCH_FD_LIMIT,
					SKETCH_FD_LIMIT);
	}
}

size_t sketch_fd_save_bytes(const struct sketch_fd *fd)
{
	const size_t kept = (size_t)fd->rank + fd->fresh;

	return HEAD + kept * (8 + (size_t)fd->d * 4) + 8;
}

int64_t sketch_fd_save(const struct sketch_fd *fd, void *buf, size_t bytes)
{
	struct head h = {.magic = MAGIC,
			 .version_kind = VERSION | KIND << 16,
			 .bytes = sketch_fd_save_bytes(fd),
			 .l = fd->l,
			 .d = fd->d,
			 .rank = fd->rank,
			 .fresh = fd->fresh,
			 .count = fd->count,
			 .shrunk = fd->shrunk,
			 .energy = fd->energy};
	struct sketch_blob b = {.at = buf, .bytes = h.bytes};
	uint64_t sum;

	if (bytes < h.bytes)
		return -ENOSPC;
	frame_io(&h, &b);
	head_io(&h, &b);
	rows_io(fd, &b);
	sum = sketch_hash_bytes(buf, b.used, 0);
	sketch_blob_u64(&b, &sum);
	return (int64_t)b.used;
}

/* Whether the directions are orthonormal, apart from rounding errors of the weakest directions. */
static bool is_orthonormal(const struct sketch_fd *fd)
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
	struct sketch_blob b = {.at = (uint8_t *)(uintptr_t)buf, .bytes = bytes, .load = true}, end;
	struct sketch_fd *fd;
	struct head h;
	uint64_t sum;

	frame_io(&h, &b);
	if (b.failed || h.magic != MAGIC)
		return -EINVAL;
	if ((uint16_t)h.version_kind != VERSION)
		return -EPROTONOSUPPORT;
	if (h.version_kind >> 16 != KIND || h.bytes != bytes || bytes < HEAD + 8)
		return -EINVAL;
	end = (struct sketch_blob){.at = b.at + bytes - 8, .bytes = 8, .load = true};
	sketch_blob_u64(&end, &sum);
	head_io(&h, &b);
	if (sum != sketch_hash_bytes(buf, bytes - 8, 0) || b.failed || h.flags || h.rank > h.l ||
	    h.rank > h.d || h.fresh >= h.l)
		return -EINVAL;
	fd = sketch_fd_new(h.l, h.d);
	if (!fd)
		return -errno;
	fd->rank = h.rank;
	fd->fresh = h.fresh;
	fd->count = h.count;
	fd->shrunk = h.shrunk;
	fd->energy = h.energy;
	if (bytes != sketch_fd_save_bytes(fd))
		goto refuse;
	rows_io(fd, &b);
	/* Weights must descend, apart from rounding errors. */
	for (uint32_t i = 1; i < h.rank; i++)
		if (fd->sigma[i] > fd->sigma[i - 1] * 1.001 + DBL_MIN)
			goto refuse;
	if (b.failed || !is_orthonormal(fd))
		goto refuse;
	*out = fd;
	return 0;

refuse:
	sketch_fd_free(fd);
	return -EINVAL;
}
