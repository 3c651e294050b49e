/* SPDX-License-Identifier: Apache-2.0 */
/* fd_kernels.h - the arithmetic of fd.c; like lanes.h, a template over vector levels. */
#include "sketch/lanes.h"

#include "sketch/eigen.h"

/*
 * Dot products of one row with n other rows of `stride` floats, four at a time to share the loads
 * of `one`; the last group may repeat a row. Each product is summed over eight lanes, in the same
 * order for any n.
 */
SKETCH_FN void SKETCH_NAME(dots)(double *out, const float *one, const float *others, uint32_t n,
				 size_t stride)
{
	for (uint32_t i = 0; i < n; i += 4) {
		const uint32_t left = n - i;
		const float *o = others + i * stride, *o1 = left > 1 ? o + stride : o,
			    *o2 = left > 2 ? o1 + stride : o, *o3 = left > 3 ? o2 + stride : o;
		SKETCH_EIGHT s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, x, y;

		for (size_t c = 0; c < stride; c += SKETCH_LANES) {
			SKETCH_LOAD_F32(x, one + c);
			SKETCH_LOAD_F32(y, o + c);
			SKETCH_ADD_MUL(s0, x, y);
			SKETCH_LOAD_F32(y, o1 + c);
			SKETCH_ADD_MUL(s1, x, y);
			SKETCH_LOAD_F32(y, o2 + c);
			SKETCH_ADD_MUL(s2, x, y);
			SKETCH_LOAD_F32(y, o3 + c);
			SKETCH_ADD_MUL(s3, x, y);
		}
		SKETCH_SUM(out[i], s0);
		if (left > 1)
			SKETCH_SUM(out[i + 1], s1);
		if (left > 2)
			SKETCH_SUM(out[i + 2], s2);
		if (left > 3)
			SKETCH_SUM(out[i + 3], s3);
	}
}

/*
 * Computes B = U S V^T from the small side: B B^T = U S^2 U^T, V^T = S^-1 U^T B. Also computes the
 * products between directions, so that each factorisation corrects the orthogonality lost to
 * rounding in the previous one. Dividing the weight by the length of the rounded vector keeps the
 * rounding errors of lengths from accumulating.
 */
static SKETCH_TARGET void SKETCH_NAME(compress)(struct sketch_fd *fd)
{
	const uint32_t n = fd->l + fd->fresh;
	const size_t s = SKETCH_EIGEN_STRIDE(n), stride = fd->stride;
	uint32_t rank = 0;
	double delta, lost;

	if (!fd->fresh)
		return;
	/*
	 * Use reverse order, with the strongest rows last, because QL then needs a seventh fewer
	 * rotations.
	 */
	for (uint32_t i = 0; i < n; i++) {
		double *product = fd->value, *g = fd->gram + (n - 1 - i) * s;

		SKETCH_NAME(dots)(product, fd->row + i * stride, fd->row, i + 1, stride);
		for (uint32_t j = 0; j <= i; j++) {
			product[j] *= fd->sigma[i] * fd->sigma[j];
			g[n - 1 - j] = product[j];
			fd->gram[(n - 1 - j) * s + n - 1 - i] = product[j];
		}
		if (i >= fd->l)
			fd->energy += product[i];
		memset(g + n, 0, (s - n) * sizeof(*g));
	}
	SKETCH_NAME(sketch_eigen)(fd->gram, fd->value, n, fd->work);

	delta = fmax(fd->value[fd->l], 0); /* valid because n > l */
	lost = delta;
	for (; rank < fd->l; rank++) {
		double value = fd->value[rank], *u = fd->gram + rank * s;

		if (!(value - delta > FLOOR * n * fd->value[0])) {
			lost = fmax(lost, value);
			break;
		}
		for (uint32_t j = 0; j < n; j++)
			u[j] *= fd->sigma[n - 1 - j];
	}
	/*
	 * Compute eight columns of all new directions at a time, so that old rows are widened only
	 * once.
	 */
	for (size_t c = 0; c < stride; c += SKETCH_LANES) {
		uint32_t i = 0;

		for (; i + 4 <= rank; i += 4) {
			const double *u = fd->gram + i * s;
			double *out = fd->turned + i * stride + c;
			SKETCH_EIGHT s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, x;

			for (uint32_t j = 0; j < n; j++) {
				SKETCH_LOAD_F32(x, fd->row + (n - 1 - j) * stride + c);
				SKETCH_ADD_SCALED(s0, x, u[j]);
				SKETCH_ADD_SCALED(s1, x, u[s + j]);
				SKETCH_ADD_SCALED(s2, x, u[2 * s + j]);
				SKETCH_ADD_SCALED(s3, x, u[3 * s + j]);
			}
			SKETCH_STORE_F64(out, s0);
			SKETCH_STORE_F64(out + stride, s1);
			SKETCH_STORE_F64(out + 2 * stride, s2);
			SKETCH_STORE_F64(out + 3 * stride, s3);
		}
		for (; i < rank; i++) {
			const double *u = fd->gram + i * s;
			SKETCH_EIGHT sum = {0}, x;

			for (uint32_t j = 0; j < n; j++) {
				SKETCH_LOAD_F32(x, fd->row + (n - 1 - j) * stride + c);
				SKETCH_ADD_SCALED(sum, x, u[j]);
			}
			SKETCH_STORE_F64(fd->turned + i * stride + c, sum);
		}
	}
	for (uint32_t i = 0; i < rank; i++) {
		const double *t = fd->turned + i * stride;
		double unit = 1 / sqrt(SKETCH_NAME(sketch_dot)(t, t, stride)), rounded;
		float *out = fd->row + i * stride;
		SKETCH_EIGHT sum = {0};

		for (size_t c = 0; c < stride; c += SKETCH_LANES) {
			SKETCH_EIGHT x;

			SKETCH_LOAD_F64(x, t + c);
			SKETCH_SCALE(x, unit);
			SKETCH_STORE_F32(out + c, x);
			SKETCH_LOAD_F32(x, out + c);
			SKETCH_ADD_MUL(sum, x, x);
		}
		SKETCH_SUM(rounded, sum);
		fd->sigma[i] = fmin(sqrt((fd->value[i] - delta) / rounded), WEIGHT_MAX);
	}
	for (uint32_t i = rank; i < fd->l; i++) {
		memset(fd->row + i * stride, 0, stride * sizeof(float));
		fd->sigma[i] = 0;
	}
	fd->rank = rank;
	fd->fresh = 0;
	fd->shrunk = fmin(fd->shrunk + lost, ENERGY_MAX);
	fd->energy = fmin(fd->energy, ENERGY_MAX);
}

static SKETCH_TARGET double SKETCH_NAME(residual)(const struct sketch_fd *fd, uint32_t k,
						  const float *row, float *out)
{
	const size_t stride = fd->stride;
	float *y = (float *)fd->turned; /* the row with its padding, then the residual */
	double c[SKETCH_FD_ROWS_MAX], s;
	SKETCH_EIGHT sum = {0};

	if (k > fd->rank)
		k = fd->rank;
	memcpy(y, row, fd->d * sizeof(float));
	memset(y + fd->d, 0, (stride - fd->d) * sizeof(float));
	SKETCH_NAME(dots)(c, y, fd->row, k, stride);
	for (size_t j = 0; j < stride; j += SKETCH_LANES) {
		SKETCH_EIGHT x, v;

		SKETCH_LOAD_F32(x, y + j);
		for (uint32_t i = 0; i < k; i++) {
			SKETCH_LOAD_F32(v, fd->row + i * stride + j);
			SKETCH_SUB_SCALED(x, v, c[i]);
		}
		SKETCH_ADD_MUL(sum, x, x);
		SKETCH_STORE_F32(y + j, x);
	}
	if (out)
		memcpy(out, y, fd->d * sizeof(float));
	SKETCH_SUM(s, sum);
	return sqrt(s);
}
