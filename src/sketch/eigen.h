/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eigen.h - computes eigenvalues and eigenvectors of a small positive semidefinite matrix in f64 (a
 * Gram matrix): Householder reduction to tridiagonal form (G. H. Golub, C. F. Van Loan, "Matrix
 * Computations", 4th ed., algorithm 8.3.1), then implicit QL with Wilkinson's shift (R. S. Martin,
 * J. H. Wilkinson, "The implicit QL algorithm", Numer. Math. 12 (1968); rotations as in EISPACK's
 * imtql2). Vectors are stored as rows, so that a rotation processes two rows, eight lanes at a
 * time.
 *
 * This is a template over vector levels; include lanes.h first.
 */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef SKETCH_EIGEN_STRIDE

/* Doubles per row, and doubles of workspace, for a matrix with n rows. */
#define SKETCH_EIGEN_STRIDE(n) (((size_t)(n) + SKETCH_LANES - 1) / SKETCH_LANES * SKETCH_LANES)
#define SKETCH_EIGEN_WORK(n)   (((size_t)(n) + 4) * SKETCH_EIGEN_STRIDE(n))
#endif

/*
 * a: n rows of SKETCH_EIGEN_STRIDE(n), positive semidefinite, with both triangles, and zero beyond
 * column n; replaced by the eigenvectors, one per row. w: n eigenvalues in descending order. work:
 * SKETCH_EIGEN_WORK(n). Results are accurate to a few DBL_EPSILON times the largest eigenvalue. A
 * matrix without a diagonal entry above 1e-280 is treated as zero.
 */
SKETCH_FN void SKETCH_NAME(sketch_eigen)(double *a, double *w, uint32_t n, double *work)
{
	const size_t s = SKETCH_EIGEN_STRIDE(n);
	double *q = work, *e = q + n * s, *v = e + s, *p = v + s, *beta = p + s;
	double norm = 0, most = 0, scale = 0, unscale = 0;
	int exponent = 0;

	/* Scale entries to at most 1 by a power of two, so that squares don't overflow. */
	for (uint32_t i = 0; i < n; i++)
		most = a[i * s + i] > most ? a[i * s + i] : most;
	if (most > 1e-280) {
		frexp(most, &exponent);
		scale = ldexp(1, -exponent);
		unscale = ldexp(1, exponent);
	}
	for (size_t i = 0; i < n * s; i += SKETCH_LANES) {
		SKETCH_EIGHT x;

		SKETCH_LOAD_F64(x, a + i);
		SKETCH_SCALE(x, scale);
		SKETCH_STORE_F64(a + i, x);
	}

	/* Reduce A to T = Q^T A Q; reflection k is in row k of q, right of column k. */
	for (uint32_t k = 0; k + 2 < n; k++) {
		double below = 0, alpha, vv, half;
		double *x = q + k * s;

		memset(x, 0, s * sizeof(*x));
		for (uint32_t j = k + 1; j < n; j++) {
			x[j] = a[j * s + k];
			a[j * s + k] = 0;
			if (j > k + 1)
				below += x[j] * x[j];
		}
		w[k] = a[k * s + k];
		if (below < 1e-60) {
			e[k] = x[k + 1];
			beta[k] = 0;
			continue;
		}
		alpha = sqrt(x[k + 1] * x[k + 1] + below);
		alpha = x[k + 1] > 0 ? -alpha : alpha;
		e[k] = alpha;
		x[k + 1] -= alpha;
		vv = x[k + 1] * x[k + 1] + below;
		beta[k] = 2 / vv;
		memset(p, 0, s * sizeof(*p));
		for (uint32_t j = k + 1; j < n; j++)
			SKETCH_NAME(sketch_axpy)(p, a + j * s, x[j], s);
		half = beta[k] * beta[k] * SKETCH_NAME(sketch_dot)(p, x, s) / 2;
		for (size_t c = 0; c < s; c++)
			p[c] = beta[k] * p[c] - half * x[c];
		for (uint32_t j = k + 1; j < n; j++) {
			SKETCH_NAME(sketch_axpy)(a + j * s, p, -x[j], s);
			SKETCH_NAME(sketch_axpy)(a + j * s, x, -p[j], s);
		}
	}
	if (n > 1) {
		w[n - 2] = a[(n - 2) * s + n - 2];
		e[n - 2] = a[(n - 1) * s + n - 2];
	}
	w[n - 1] = a[(n - 1) * s + n - 1];
	e[n - 1] = 0;

	/* Accumulate Q in a, from the last reflection to the first. */
	memset(a, 0, n * s * sizeof(*a));
	for (uint32_t j = 0; j < n; j++)
		a[j * s + j] = 1;
	for (uint32_t k = n > 2 ? n - 2 : 0; k-- > 0;) {
		const double *x = q + k * s;

		if (beta[k] == 0)
			continue;
		memset(p, 0, s * sizeof(*p));
		for (uint32_t j = k + 1; j < n; j++)
			SKETCH_NAME(sketch_axpy)(p, a + j * s, x[j], s);
		for (uint32_t j = k + 1; j < n; j++)
			SKETCH_NAME(sketch_axpy)(a + j * s, p, -beta[k] * x[j], s);
	}
	/* Transpose: eigenvectors become rows. */
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = i + 1; j < n; j++) {
			double t = a[i * s + j];

			a[i * s + j] = a[j * s + i];
			a[j * s + i] = t;
		}

	for (uint32_t i = 0; i < n; i++)
		norm = fabs(w[i]) + fabs(e[i]) > norm ? fabs(w[i]) + fabs(e[i]) : norm;
	for (uint32_t l = 0; l < n; l++) {
		/* A safety limit; thirty rounds have always been enough. */
		for (int round = 0; round < 60; round++) {
			double g, r, c = 1, sn = 1, shift = 0;
			uint32_t m = l;

			while (m + 1 < n && fabs(e[m]) > DBL_EPSILON * norm)
				m++;
			if (m == l)
				break;
			g = (w[l + 1] - w[l]) / (2 * e[l]);
			r = sqrt(g * g + 1);
			g = w[m] - w[l] + e[l] / (g + (g < 0 ? -r : r));
			for (uint32_t i = m; i-- > l;) {
				double f = sn * e[i], b = c * e[i];
				double *lo = a + i * s, *hi = lo + s;

				r = sqrt(f * f + g * g);
				e[i + 1] = r;
				if (r == 0) {
					w[i + 1] -= shift;
					e[m] = 0;
					goto again;
				}
				sn = f / r;
				c = g / r;
				g = w[i + 1] - shift;
				r = (w[i] - g) * sn + 2 * c * b;
				shift = sn * r;
				w[i + 1] = g + shift;
				g = c * r - b;
				for (size_t k = 0; k < s; k += SKETCH_LANES) {
					SKETCH_EIGHT x, y, was;

					SKETCH_LOAD_F64(x, lo + k);
					SKETCH_LOAD_F64(y, hi + k);
					was = x;
					SKETCH_SCALE(x, c);
					SKETCH_SUB_SCALED(x, y, sn);
					SKETCH_SCALE(y, c);
					SKETCH_ADD_SCALED(y, was, sn);
					SKETCH_STORE_F64(lo + k, x);
					SKETCH_STORE_F64(hi + k, y);
				}
			}
			w[l] -= shift;
			e[l] = g;
			e[m] = 0;
		again:;
		}
	}
	/* Sort in descending order; n is small. */
	for (uint32_t i = 0; i + 1 < n; i++) {
		uint32_t top = i;

		for (uint32_t j = i + 1; j < n; j++)
			if (w[j] > w[top])
				top = j;
		if (top == i)
			continue;
		norm = w[i];
		w[i] = w[top];
		w[top] = norm;
		memcpy(p, a + i * s, s * sizeof(*p));
		memcpy(a + i * s, a + top * s, s * sizeof(*p));
		memcpy(a + top * s, p, s * sizeof(*p));
	}
	for (uint32_t i = 0; i < n; i++)
		w[i] *= unscale;
}
