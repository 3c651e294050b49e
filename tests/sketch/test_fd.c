// SPDX-License-Identifier: Apache-2.0
/*
 * test_fd.c - Frequent Directions compared with a simple reference: covariances in long double, and
 * their eigenvalues by cyclic Jacobi rotations.
 */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "exercise.h"
#include "streams.h"

#define SKETCH_W       2
#define SKETCH_NAME(x) x##_tested
#define SKETCH_TARGET
#include "support/test.h"
#include "sketch/lanes.h"

#include "sketch/eigen.h"

typedef long double real;

/* Eigenvalues of the symmetric n x n matrix, falling: Golub and Van Loan, section 8.5. */
static void jacobi(real *a, uint32_t n, real *value)
{
	real scale = 0;

	/* No square underflows, even if long double is no wider than double (valgrind). */
	for (uint32_t i = 0; i < n; i++)
		scale = fmaxl(scale, fabsl(a[i * n + i]));
	scale = scale > 0 ? scale : 1;
	for (uint32_t i = 0; i < n * n; i++)
		a[i] /= scale;
	for (int sweep = 0; sweep < 60; sweep++) {
		real off = 0, all = 0;

		for (uint32_t i = 0; i < n; i++)
			for (uint32_t j = 0; j < n; j++) {
				all += a[i * n + j] * a[i * n + j];
				off += i == j ? 0 : a[i * n + j] * a[i * n + j];
			}
		if (off <= all * 1e-32L)
			break;
		for (uint32_t p = 0; p < n; p++)
			for (uint32_t q = p + 1; q < n; q++) {
				real x = a[p * n + q], theta, t, c, s;

				if (x == 0)
					continue;
				theta = (a[q * n + q] - a[p * n + p]) / (2 * x);
				t = (theta < 0 ? -1 : 1) /
				    (fabsl(theta) + sqrtl(theta * theta + 1));
				c = 1 / sqrtl(t * t + 1);
				s = t * c;
				for (uint32_t k = 0; k < n; k++) {
					real u = a[k * n + p], v = a[k * n + q];

					a[k * n + p] = c * u - s * v;
					a[k * n + q] = s * u + c * v;
				}
				for (uint32_t k = 0; k < n; k++) {
					real u = a[p * n + k], v = a[q * n + k];

					a[p * n + k] = c * u - s * v;
					a[q * n + k] = s * u + c * v;
				}
			}
	}
	for (uint32_t i = 0; i < n; i++)
		value[i] = a[i * n + i] * scale;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = i + 1; j < n; j++)
			if (value[j] > value[i]) {
				real t = value[i];

				value[i] = value[j];
				value[j] = t;
			}
}

/* ---- streams ---- */

enum { LOW_RANK, ISOTROPIC, POWER_LAW, DRIFT, SPARSE, ADVERSARIAL, CONSTANT, SCALES, SHAPES };

/* Row i of a stream of the shape. */
static void make_row(int shape, uint32_t i, float *row, uint32_t d, uint64_t *seed)
{
	double f[3];

	switch (shape) {
	case LOW_RANK: /* three factors and a little noise: metrics of a service */
		for (int j = 0; j < 3; j++)
			f[j] = rnd_normal(seed) * (3 - j);
		for (uint32_t c = 0; c < d; c++)
			row[c] = (float)(f[0] * sin(c + 1) + f[1] * cos(2 * c) +
					 f[2] * (c % 5 == 0) + 0.05 * rnd_normal(seed));
		break;
	case ISOTROPIC:
		for (uint32_t c = 0; c < d; c++)
			row[c] = (float)rnd_normal(seed);
		break;
	case POWER_LAW:
		for (uint32_t c = 0; c < d; c++)
			row[c] = (float)(rnd_normal(seed) / (c + 1));
		break;
	case DRIFT: /* one strong direction that turns */
		for (uint32_t c = 0; c < d; c++)
			row[c] = (float)(sin(c * (1 + i / 400.0)) + 0.1 * rnd_normal(seed));
		break;
	case SPARSE: /* heavy tails on few columns */
		memset(row, 0, d * sizeof(*row));
		for (int j = 0; j < 3; j++)
			row[rnd(seed) % d] = (float)pow(rnd_unit(seed), -0.7);
		break;
	case ADVERSARIAL: /* each unit vector in turn, never again, lengths just growing */
		memset(row, 0, d * sizeof(*row));
		row[i / 7 % d] = (float)(1 + i * 1e-3);
		break;
	case CONSTANT:
		for (uint32_t c = 0; c < d; c++)
			row[c] = (float)(c % 3);
		break;
	case SCALES: /* twelve decades */
		for (uint32_t c = 0; c < d; c++)
			row[c] = (float)(rnd_normal(seed) * pow(10, 6 - (int)(c % 13)));
		break;
	}
}

struct whole {
	uint32_t d;
	real *cov; /* A^T A */
};

static struct whole whole_new(uint32_t d)
{
	return (struct whole){.d = d, .cov = calloc((size_t)d * d, sizeof(real))};
}

static void whole_add(struct whole *w, const float *row, real weight)
{
	for (uint32_t i = 0; i < w->d; i++)
		for (uint32_t j = 0; j < w->d; j++)
			w->cov[i * w->d + j] += weight * row[i] * row[j];
}

/* Checks the theorem of fd.h for a sketch of the rows in w. */
static void bound_holds(struct sketch_fd *fd, const struct whole *w)
{
	const uint32_t d = w->d, l = sketch_fd_rows(fd);
	real *left = malloc(sizeof(real) * d * d), *all = malloc(sizeof(real) * d * d);
	real *value = malloc(sizeof(real) * d), total = 0, tail = 0, slack;
	float *v = malloc(sizeof(float) * d * l);
	uint32_t rank;

	memcpy(left, w->cov, sizeof(real) * d * d);
	memcpy(all, w->cov, sizeof(real) * d * d);
	for (uint32_t i = 0; i < d; i++)
		total += w->cov[i * d + i];
	slack = 1e-6L * total;
	fd_compress(fd);
	assert_true(fabsl(sum_energy(fd) - total) <= slack);
	rank = fd_basis(fd, l, v);
	assert_int_equal(rank, sketch_fd_rank(fd));
	for (uint32_t k = 0; k < rank; k++) {
		real s2 = (real)fd_sigma(fd, k) * fd_sigma(fd, k);

		assert_true(k == 0 || fd_sigma(fd, k) <= fd_sigma(fd, k - 1) * 1.000001);
		for (uint32_t i = 0; i < d; i++)
			for (uint32_t j = 0; j < d; j++)
				left[i * d + j] -= s2 * v[k * d + i] * v[k * d + j];
		for (uint32_t o = 0; o <= k; o++) {
			double tolerance = fd_sigma(fd, k) > 1e-3 * fd_sigma(fd, 0) ? 1e-6 : 1e-4;
			real dot = 0;

			for (uint32_t i = 0; i < d; i++)
				dot += (real)v[k * d + i] * v[o * d + i];
			assert_true(fabsl(dot - (o == k)) < tolerance);
		}
	}
	jacobi(left, d, value);
	assert_true(value[d - 1] >= -slack);
	assert_true(value[0] <= fd->shrunk + slack);
	jacobi(all, d, value);
	for (uint32_t k = d; k-- > 0;) {
		tail += value[k];
		if (k <= l)
			assert_true(fd->shrunk <= tail / (l + 1 - k) + slack);
	}
	free(left);
	free(all);
	free(value);
	free(v);
}

static void error_is_within_the_papers_bound(void **state)
{
	const struct {
		uint32_t l, d;
	} sizes[] = {{1, 7}, {3, 16}, {8, 33}, {12, 24}, {20, 10}};
	uint64_t seed = 1;

	(void)state;
	for (size_t z = 0; z < sizeof(sizes) / sizeof(*sizes); z++)
		for (int shape = 0; shape < SHAPES; shape++) {
			struct whole w = whole_new(sizes[z].d);
			struct sketch_fd *fd = sketch_fd_new(sizes[z].l, sizes[z].d);
			float row[64];

			for (uint32_t i = 0; i < 160; i++) {
				make_row(shape, i, row, sizes[z].d, &seed);
				assert_int_equal(sketch_fd_update(fd, row), 0);
				whole_add(&w, row, 1);
			}
			assert_int_equal(fd->count, 160);
			bound_holds(fd, &w);
			sketch_fd_free(fd);
			free(w.cov);
		}
}

/*
 * Too large for Jacobi: checks the bound along random directions, the sketch's own directions and
 * the rows.
 */
static void large_ones_are_within_the_bound_too(void **state)
{
	enum { L = SKETCH_FD_ROWS_MAX, D = 150, N = 500 };
	struct sketch_fd *fd = sketch_fd_new(L, D);
	static float row[N][D], v[L * D], x[D];
	uint64_t seed = 11;
	uint32_t rank;

	(void)state;
	for (uint32_t i = 0; i < N; i++) {
		make_row(i % 3 ? POWER_LAW : ISOTROPIC, i, row[i], D, &seed);
		assert_int_equal(sketch_fd_update(fd, row[i]), 0);
	}
	fd_compress(fd);
	rank = fd_basis(fd, L, v);
	assert_int_equal(rank, L);
	for (uint32_t t = 0; t < 50; t++) {
		double size = 0, ax = 0, bx = 0;

		if (t < 20)
			make_row(ISOTROPIC, t, x, D, &seed);
		else
			memcpy(x, t < 40 ? v + t * 3 * D : row[t * 9], sizeof(x));
		for (uint32_t c = 0; c < D; c++)
			size += (double)x[c] * x[c];
		for (uint32_t i = 0; i < N; i++) {
			double dot = 0;

			for (uint32_t c = 0; c < D; c++)
				dot += (double)row[i][c] * x[c];
			ax += dot * dot / size;
		}
		for (uint32_t k = 0; k < rank; k++) {
			double dot = 0;

			for (uint32_t c = 0; c < D; c++)
				dot += (double)v[k * D + c] * x[c];
			bx += fd_sigma(fd, k) * fd_sigma(fd, k) * dot * dot / size;
		}
		assert_true(ax - bx >= -1e-6 * sum_energy(fd));
		assert_true(ax - bx <= fd->shrunk + 1e-6 * sum_energy(fd));
	}
	sketch_fd_free(fd);
}

/* In pairs, and pairs of pairs, as for hosts, racks and sites. */
static void merged_trees_are_within_the_bound_of_the_whole(void **state)
{
	uint64_t seed = 2;

	(void)state;
	for (int shape = 0; shape < SHAPES; shape++) {
		enum { PARTS = 8, D = 24 };
		struct sketch_fd *fd[PARTS];
		struct whole w = whole_new(D);
		float row[D];

		for (uint32_t p = 0; p < PARTS; p++) {
			fd[p] = sketch_fd_new(4 + p % 3, D);
			for (uint32_t i = 0; i < 60 + 11 * p; i++) {
				make_row((shape + (p == 3)) % SHAPES, i, row, D, &seed);
				assert_int_equal(sketch_fd_update(fd[p], row), 0);
				whole_add(&w, row, 1);
			}
		}
		for (int step = 1; step < PARTS; step *= 2)
			for (int p = 0; p + step < PARTS; p += 2 * step) {
				uint64_t rows = fd[p]->count + fd[p + step]->count;

				assert_int_equal(sketch_fd_merge(fd[p], fd[p + step]), 0);
				assert_int_equal(fd[p]->count, rows);
			}
		bound_holds(fd[0], &w);
		assert_int_equal(sketch_fd_merge(fd[0], fd[0]), -EINVAL);
		for (int p = 0; p < PARTS; p++)
			sketch_fd_free(fd[p]);
		free(w.cov);
	}
}

static void few_directions_are_kept_exactly(void **state)
{
	enum { D = 40 };
	struct sketch_fd *fd = sketch_fd_new(5, D);
	float row[D], left[D];
	uint64_t seed = 3;

	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		double a = rnd_normal(&seed), b = rnd_normal(&seed), c = rnd_normal(&seed),
		       size = 0;

		for (uint32_t j = 0; j < D; j++) {
			row[j] = (float)(a * sin(j) + b * cos(3 * j) + c * (j % 4));
			size += (double)row[j] * row[j];
		}
		assert_int_equal(sketch_fd_update(fd, row), 0);
		if (i > 20)
			assert_true(sketch_fd_residual(fd, 5, row, left) < 1e-5 * sqrt(size));
	}
	fd_compress(fd);
	assert_true(fd->shrunk < 1e-6 * sum_energy(fd));
	sketch_fd_free(fd);
}

static void residual_is_what_the_directions_leave(void **state)
{
	uint64_t seed = 4;

	(void)state;
	for (uint32_t d = 1; d < 40; d++) {
		struct sketch_fd *fd = sketch_fd_new(6, d);
		float row[40], left[40], v[6 * 40];

		make_row(ISOTROPIC, 0, row, d, &seed);
		for (uint32_t i = 0; i < 40; i++) {
			make_row(POWER_LAW, i, row, d, &seed);
			sketch_fd_update(fd, row);
		}
		for (uint32_t k = 0; k <= 7; k++) {
			uint32_t have = fd_basis(fd, k, v);
			double want[40], norm = 0, got;

			make_row(ISOTROPIC, k, row, d, &seed);
			for (uint32_t c = 0; c < d; c++)
				want[c] = row[c];
			for (uint32_t i = 0; i < have; i++) {
				double dot = 0;

				for (uint32_t c = 0; c < d; c++)
					dot += (double)v[i * d + c] * row[c];
				for (uint32_t c = 0; c < d; c++)
					want[c] -= dot * v[i * d + c];
			}
			for (uint32_t c = 0; c < d; c++)
				norm += want[c] * want[c];
			got = sketch_fd_residual(fd, k, row, left);
			assert_true(fabs(got - sqrt(norm)) < 1e-9 * (1 + sqrt(norm)));
			for (uint32_t c = 0; c < d; c++)
				assert_true(fabs(left[c] - want[c]) < 1e-6);
			assert_true(sketch_fd_residual(fd, k, row, NULL) == got);
			assert_true(sketch_fd_residual(fd, k, row, row) == got); /* in place */
			assert_memory_equal(row, left, d * sizeof(float));
			row[d - 1] = NAN;
			assert_true(isnan(sketch_fd_residual(fd, k, row, NULL)));
		}
		sketch_fd_free(fd);
	}
}

static void all_vector_levels_give_the_same_bits(void **state)
{
	const struct {
		uint32_t l, d;
	} sizes[] = {{1, 1}, {3, 17}, {8, 64}, {13, 100}};
	int levels = 0;

	(void)state;
	for (size_t z = 0; z < sizeof(sizes) / sizeof(*sizes); z++)
		for (int shape = 0; shape < SHAPES; shape++) {
			void *first = NULL;
			size_t bytes = 0;
			double score = 0;

			for (int level = 0; level < VECTOR_LEVELS; level++) {
				struct sketch_fd *fd = sketch_fd_new(sizes[z].l, sizes[z].d);
				uint64_t seed = 5;
				float row[100];
				double sum = 0;
				size_t n;
				void *now;

				if (set_level(fd, level)) {
					assert_true((int)best_level() < level);
					sketch_fd_free(fd);
					continue;
				}
				levels += level > 0;
				for (uint32_t i = 0; i < 300; i++) {
					make_row(shape, i, row, sizes[z].d, &seed);
					assert_int_equal(sketch_fd_update(fd, row), 0);
					sum += sketch_fd_residual(fd, 1 + i % sizes[z].l, row, row);
					sum += row[i % sizes[z].d];
				}
				now = fd_saved(fd, &n);
				if (first) {
					assert_int_equal(n, bytes);
					assert_memory_equal(first, now, n);
					assert_memory_equal(&score, &sum, sizeof(sum));
					free(now);
				} else {
					first = now;
					bytes = n;
					score = sum;
				}
				sketch_fd_free(fd);
			}
			free(first);
		}
	if (!levels)
		print_message("only the portable level is there\n");
}

static void rows_without_numbers_change_nothing(void **state)
{
	const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, 1.01e18f, -3e38f};
	struct sketch_fd *fd = sketch_fd_new(4, 19);
	uint64_t seed = 6;
	float row[19];
	size_t before, after;

	(void)state;
	for (uint32_t i = 0; i < 30; i++) {
		void *was = fd_saved(fd, &before), *is;

		make_row(ISOTROPIC, i, row, 19, &seed);
		row[i % 19] = bad[i % 6];
		assert_int_equal(sketch_fd_update(fd, row), -EINVAL);
		is = fd_saved(fd, &after);
		assert_int_equal(before, after);
		assert_memory_equal(was, is, after);
		row[i % 19] = i & 1 ? 1e18f : -1e18f; /* the largest that is taken */
		assert_int_equal(sketch_fd_update(fd, row), 0);
		free(was);
		free(is);
	}
	assert_true(isfinite(fd_sigma(fd, 0)) && isfinite(fd->shrunk));
	sketch_fd_free(fd);
}

static void what_is_saved_goes_on_as_if_it_had_not_been(void **state)
{
	uint64_t seed = 7;

	(void)state;
	for (int shape = 0; shape < SHAPES; shape++)
		for (uint32_t rows = 0; rows < 40; rows += 3) {
			struct sketch_fd *a = sketch_fd_new(5, 21), *b = NULL;
			float row[21];
			size_t na, nb;
			void *sa, *sb;

			for (uint32_t i = 0; i < rows; i++) {
				make_row(shape, i, row, 21, &seed);
				sketch_fd_update(a, row);
			}
			sa = fd_saved(a, &na);
			assert_int_equal(sketch_fd_load(&b, sa, na), 0);
			assert_int_equal(sketch_fd_rows(b), 5);
			assert_int_equal(sketch_fd_dims(b), 21);
			free(sa);
			for (uint32_t i = 0; i < 17; i++) {
				make_row(shape, i, row, 21, &seed);
				sketch_fd_update(a, row);
				sketch_fd_update(b, row);
			}
			sa = fd_saved(a, &na);
			sb = fd_saved(b, &nb);
			assert_int_equal(na, nb);
			assert_memory_equal(sa, sb, na);
			free(sa);
			free(sb);
			sketch_fd_free(a);
			sketch_fd_free(b);
		}
}

static bool taken(const void *data, size_t n)
{
	struct sketch_fd *fd = fd_taken(data, n);

	sketch_fd_free(fd);
	return fd != NULL;
}

static void damaged_bytes_are_refused_and_forged_harmless(void **state)
{
	struct sketch_fd *fd = sketch_fd_new(3, 5);
	uint64_t seed = 8;
	uint8_t *good;
	float row[5];
	size_t n;

	(void)state;
	for (uint32_t i = 0; i < 11; i++) {
		make_row(ISOTROPIC, i, row, 5, &seed);
		sketch_fd_update(fd, row);
	}
	good = fd_saved(fd, &n);
	exercise_damage(good, n, exercise_fd, taken);
	free(good);
	sketch_fd_free(fd);
	sketch_fd_free(NULL);
	assert_null(sketch_fd_new(0, 5));
	assert_null(sketch_fd_new(SKETCH_FD_ROWS_MAX + 1, 5));
	assert_null(sketch_fd_new(3, 0));
	assert_null(sketch_fd_new(3, SKETCH_FD_DIMS_MAX + 1));
	assert_int_equal(errno, EINVAL);
}

/* A forged model with invalid directions could produce any score. */
static void directions_have_to_be_at_right_angles(void **state)
{
	struct sketch_fd *fd = sketch_fd_new(2, 4), *got = NULL;
	const float rows[4][4] = {{3, 0, 0, 0}, {0, 2, 0, 0}, {3, 0, 0, 0}, {0, 2, 0, 0}};
	const float half = 0.5f, one = 1;
	uint8_t *buf;
	size_t n;

	(void)state;
	for (int i = 0; i < 4; i++)
		sketch_fd_update(fd, rows[i]);
	buf = fd_saved(fd, &n);
	assert_int_equal(sketch_fd_rank(fd), 2);
	/* After the last weight: (0, +-1, 0, 0), then the checksum. */
	memcpy(buf + n - 8 - 16 + 4, &half, 4); /* not of length 1 */
	seal(buf, n);
	assert_int_equal(sketch_fd_load(&got, buf, n), -EINVAL);
	memcpy(buf + n - 8 - 16, &one, 4); /* the first one again */
	memset(buf + n - 8 - 12, 0, 4);
	seal(buf, n);
	assert_int_equal(sketch_fd_load(&got, buf, n), -EINVAL);
	memset(buf + n - 8 - 16, 0, 8);
	memcpy(buf + n - 8 - 8, &one, 4); /* another one */
	seal(buf, n);
	assert_int_equal(sketch_fd_load(&got, buf, n), 0);
	sketch_fd_free(got);
	free(buf);
	sketch_fd_free(fd);
}

/* The largest accepted weights: forged ones, which grow by merging. */
static void the_heaviest_can_be_saved_too(void **state)
{
	/* Within the frame: 5 u32, count, shrunk, energy, then the first weight. */
	enum { ENERGY = 16 + 5 * 4 + 8 + 8, WEIGHT = ENERGY + 8 };
	struct sketch_fd *fd = sketch_fd_new(2, 4), *heavy = NULL;
	const float row[4] = {SKETCH_FD_LIMIT, 1, 2, 3};
	const double weight = 1e60, energy = weight * weight;
	uint8_t *buf;
	size_t n;

	(void)state;
	sketch_fd_update(fd, row); /* one row, not yet factorised: its weight is free */
	buf = fd_saved(fd, &n);
	memcpy(buf + WEIGHT, &weight, 8);
	memcpy(buf + ENERGY, &energy, 8);
	seal(buf, n);
	assert_int_equal(sketch_fd_load(&heavy, buf, n), 0);
	exercise_fd(buf, n);
	for (int i = 0; i < 3; i++) {
		struct sketch_fd *twin = fd_copy(heavy);

		assert_int_equal(sketch_fd_merge(heavy, twin), 0);
		assert_int_equal(sketch_fd_rank(heavy), 1);
		assert_true(fd_sigma(heavy, 0) <= weight && sum_energy(heavy) <= energy);
		sketch_fd_free(twin);
	}
	free(buf);
	sketch_fd_free(heavy);

	sketch_fd_free(fd);
}

static void what_is_dropped_for_weakness_is_in_the_bound(void **state)
{
	struct sketch_fd *fd = sketch_fd_new(4, 4);
	const float strong[4] = {1, 0, 0, 0}, weak[4] = {0, 1e-7f, 0, 0};

	(void)state;
	sketch_fd_update(fd, strong);
	sketch_fd_update(fd, weak);
	fd_compress(fd);
	assert_int_equal(sketch_fd_rank(fd), 1);
	assert_true(fd->shrunk > 0.99e-14 && fd->shrunk < 1.01e-14);
	sketch_fd_free(fd);
}

/* ---- the eigenvalue solver ---- */

static void solved(const double *gram, uint32_t n)
{
	const size_t s = SKETCH_EIGEN_STRIDE(n);
	double *a = calloc(n * s, sizeof(*a)),
	       *work = malloc(sizeof(double) * SKETCH_EIGEN_WORK(n));
	double *w = malloc(sizeof(double) * s), tolerance;
	real *exact = malloc(sizeof(real) * n * n), *value = malloc(sizeof(real) * n);

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < n; j++) {
			a[i * s + j] = gram[i * n + j];
			exact[i * n + j] = gram[i * n + j];
		}
	sketch_eigen_tested(a, w, n, work);
	jacobi(exact, n, value);
	tolerance = 8.0 * n * DBL_EPSILON * (double)value[0];
	for (uint32_t i = 0; i < n; i++) {
		assert_true(fabsl(w[i] - value[i]) <= tolerance);
		for (uint32_t j = 0; j < n; j++) {
			real gv = 0, dot = 0;

			for (uint32_t k = 0; k < n; k++) {
				gv += (real)gram[j * n + k] * a[i * s + k];
				dot += (real)a[j * s + k] * a[i * s + k];
			}
			assert_true(fabsl(gv - (real)w[i] * a[i * s + j]) <= tolerance);
			assert_true(fabsl(dot - (i == j)) <= 8.0 * n * DBL_EPSILON);
		}
		for (size_t k = n; k < s; k++)
			assert_true(a[i * s + k] == 0);
	}
	free(a);
	free(work);
	free(w);
	free(exact);
	free(value);
}

static void eigenpairs_are_right_to_rounding(void **state)
{
	static double g[48 * 48], b[48 * 48];
	uint64_t seed = 10;

	(void)state;
	for (uint32_t n = 1; n <= 40; n += n < 10 ? 1 : 6)
		for (int kind = 0; kind < 7; kind++) {
			for (uint32_t i = 0; i < n * n; i++) {
				uint32_t r = i / n, c = i % n;

				b[i] = rnd_normal(&seed);
				if (kind == 1) /* graded over twelve decades, in either order */
					b[i] *= pow(10, -12.0 * r / n);
				else if (kind == 2)
					b[i] *= pow(10, -12.0 * (n - r) / n);
				else if (kind == 3) /* rank 2: all other eigenvalues are 0 */
					b[i] = sin(r) * sin(3 * c) + r * (c % 3);
				else if (kind == 4) /* n equal ones */
					b[i] = r == c;
				else if (kind == 5) /* as in the sketch: orthogonal, then rows */
					b[i] = r < n / 2 ? (r == c) * (n - r) : b[i];
				else if (kind == 6) /* tiny, down to where it counts as 0 */
					b[i] *= 1e-135;
			}
			for (uint32_t i = 0; i < n; i++)
				for (uint32_t j = 0; j < n; j++) {
					double sum = 0;

					for (uint32_t k = 0; k < n; k++)
						sum += b[i * n + k] * b[j * n + k];
					g[i * n + j] = sum;
				}
			solved(g, n);
		}
	memset(g, 0, sizeof(g));
	solved(g, 11);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eigenpairs_are_right_to_rounding),
		cmocka_unit_test(error_is_within_the_papers_bound),
		cmocka_unit_test(large_ones_are_within_the_bound_too),
		cmocka_unit_test(merged_trees_are_within_the_bound_of_the_whole),
		cmocka_unit_test(few_directions_are_kept_exactly),
		cmocka_unit_test(residual_is_what_the_directions_leave),
		cmocka_unit_test(all_vector_levels_give_the_same_bits),
		cmocka_unit_test(rows_without_numbers_change_nothing),
		cmocka_unit_test(what_is_saved_goes_on_as_if_it_had_not_been),
		cmocka_unit_test(damaged_bytes_are_refused_and_forged_harmless),
		cmocka_unit_test(directions_have_to_be_at_right_angles),
		cmocka_unit_test(the_heaviest_can_be_saved_too),
		cmocka_unit_test(what_is_dropped_for_weakness_is_in_the_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
