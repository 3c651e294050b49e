// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <stdbool.h>

#include "sketch/cells.h"

int sketch_cells_init(struct sketch_cells *s, enum sketch_cells_kind kind, uint64_t width,
		      uint32_t depth, uint64_t seed, void *cell)
{
	const bool hll = kind == SKETCH_HLL;

	if (width < (hll ? 16 : 2) || width > (hll ? 1u << 20 : SKETCH_CELLS_MAX) ||
	    width & (width - 1) || !depth || depth > (hll ? 1 : SKETCH_CELLS_ROWS_MAX) ||
	    width * depth > SKETCH_CELLS_MAX || (kind == SKETCH_COUNT_SKETCH && depth % 2 == 0))
		return -EINVAL;
	*s = (struct sketch_cells){.kind = kind,
				   .width = (uint32_t)width,
				   .depth = depth,
				   .shift = 64 - (uint32_t)__builtin_ctzll(width),
				   .seed = seed,
				   .cell = cell};
	sketch_hash_rows(s->m, depth, seed);
	return 0;
}

int sketch_cells_check(struct sketch_cells *s)
{
	const uint64_t *cell = s->cell;
	const uint8_t *reg = s->cell;

	for (uint32_t i = 0; s->kind == SKETCH_HLL && i < s->width; i++)
		if (reg[i] > s->shift + 1)
			return -EINVAL;
	/*
	 * In Count-Min, the cells of each row add up to the total. In Count-Sketch, cells may have
	 * any value.
	 */
	for (uint32_t i = 0; s->kind == SKETCH_COUNT_MIN && i < s->depth; i++) {
		uint64_t sum = 0;

		for (uint32_t c = 0; c < s->width; c++)
			if (__builtin_add_overflow(sum, *cell++, &sum))
				return -EINVAL;
		if (i && sum != s->total)
			return -EINVAL;
		s->total = sum;
	}
	return 0;
}

/* ---- Count-Min ---- */

static inline int add_count_min(struct sketch_cells *s, uint64_t hash, uint64_t n)
{
	uint64_t *row = s->cell;

	if (__builtin_add_overflow(s->total, n, &s->total)) {
		s->total -= n;
		return -EOVERFLOW;
	}
	for (uint32_t i = 0; i < s->depth; i++, row += s->width)
		row[hash * s->m[i] >> s->shift] += n;
	return 0;
}

static double lowest_cell(const struct sketch_cells *s, uint64_t hash)
{
	const uint64_t *row = s->cell;
	uint64_t low = UINT64_MAX;

	for (uint32_t i = 0; i < s->depth; i++, row += s->width) {
		uint64_t v = row[hash * s->m[i] >> s->shift];

		low = v < low ? v : low;
	}
	return (double)low;
}

/* ---- Count-Sketch ---- */

/* Returns the key's cell in row i. *sign is all ones or zero, from the bit below the index. */
static inline uint64_t *signed_cell(const struct sketch_cells *s, uint64_t hash, uint32_t i,
				    uint64_t *sign)
{
	const uint64_t h = hash * s->m[i];

	*sign = -(h >> (s->shift - 1) & 1);
	return (uint64_t *)s->cell + (uint64_t)i * s->width + (h >> s->shift);
}

static inline void add_count_sketch(struct sketch_cells *s, uint64_t hash, uint64_t n)
{
	uint64_t sign;

	for (uint32_t i = 0; i < s->depth; i++) {
		uint64_t *cell = signed_cell(s, hash, i, &sign);

		*cell += (n ^ sign) - sign;
	}
}

/* Inserts x into a sorted array of n numbers. */
static void insert_sorted(double *sorted, uint32_t n, double x)
{
	for (; n && sorted[n - 1] > x; n--)
		sorted[n] = sorted[n - 1];
	sorted[n] = x;
}

static double median_estimate(const struct sketch_cells *s, uint64_t hash)
{
	double v[SKETCH_CELLS_ROWS_MAX] = {0};
	uint64_t sign;

	for (uint32_t i = 0; i < s->depth; i++) {
		const uint64_t *cell = signed_cell(s, hash, i, &sign);

		insert_sorted(v, i, (double)(int64_t)((*cell ^ sign) - sign));
	}
	return v[s->depth / 2];
}

/*
 * Estimates F2 with the tug-of-war estimator (N. Alon, Y. Matias, M. Szegedy, STOC 1996) over the
 * cells of each row (M. Thorup, Y. Zhang, SODA 2004).
 */
static double sum_of_squares(const struct sketch_cells *s)
{
	const uint64_t *cell = s->cell;
	double v[SKETCH_CELLS_ROWS_MAX] = {0};

	for (uint32_t i = 0; i < s->depth; i++) {
		double sum = 0;

		for (uint32_t c = 0; c < s->width; c++, cell++)
			sum += (double)(int64_t)*cell * (double)(int64_t)*cell;
		insert_sorted(v, i, sum);
	}
	return v[s->depth / 2];
}

/* ---- HyperLogLog ---- */

static inline void add_hll(struct sketch_cells *s, uint64_t hash)
{
	const uint32_t p = 64 - s->shift;
	/* A one after the last bit limits the count. */
	const uint64_t rest = hash << p | (uint64_t)1 << (p - 1);
	const uint8_t rho = (uint8_t)(__builtin_clzll(rest) + 1);
	uint8_t *reg = (uint8_t *)s->cell + (hash >> s->shift);

	if (rho > *reg)
		*reg = rho;
}

/* Ertl, algorithm 6: sigma is for empty registers, tau for saturated registers. */
static double hll_sigma(double x)
{
	double y = 1, z = x, before;

	if (x == 1)
		return INFINITY;
	do {
		x *= x;
		before = z;
		z += x * y;
		y += y;
	} while (z != before);
	return z;
}

static double hll_tau(double x)
{
	double y = 1, z = 1 - x, before;

	if (x == 0 || x == 1)
		return 0;
	do {
		x = sqrt(x);
		before = z;
		y *= 0.5;
		z -= (1 - x) * (1 - x) * y;
	} while (z != before);
	return z / 3;
}

/* The improved raw estimator, which needs no correction table: O. Ertl, arXiv:1702.01284, 2.3. */
static double estimate_distinct(const struct sketch_cells *s)
{
	const uint32_t q = s->shift;
	const double m = s->width;
	uint32_t count[66] = {0};
	double z;

	for (uint32_t i = 0; i < s->width; i++)
		count[((const uint8_t *)s->cell)[i]]++;
	z = m * hll_tau(1 - count[q + 1] / m);
	for (uint32_t k = q; k >= 1; k--)
		z = 0.5 * (z + count[k]);
	z += m * hll_sigma(count[0] / m);
	return fmin(m * m / (2 * M_LN2 * z), 0x1p64);
}

/* ---- all kinds ---- */

int sketch_cells_add(struct sketch_cells *s, uint64_t hash, uint64_t n)
{
	if (s->kind == SKETCH_COUNT_MIN)
		return add_count_min(s, hash, n);
	if (s->kind == SKETCH_COUNT_SKETCH)
		add_count_sketch(s, hash, n);
	else
		add_hll(s, hash);
	return 0;
}

double sketch_cells_estimate(const struct sketch_cells *s, uint64_t hash, double *error)
{
	double value;

	switch (s->kind) {
	case SKETCH_COUNT_MIN:
		*error = M_E / s->width * (double)s->total;
		return lowest_cell(s, hash);
	case SKETCH_COUNT_SKETCH:
		*error = sqrt(8 * sum_of_squares(s) / s->width);
		return median_estimate(s, hash);
	case SKETCH_HLL:
		break;
	}
	value = estimate_distinct(s);
	*error = 1.04 / sqrt(s->width) * value;
	return value;
}
