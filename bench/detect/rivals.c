// SPDX-License-Identifier: Apache-2.0
/*
 * rivals.c - sidelight replay with further detectors, to compare those of the product with.
 *
 * logsum: the sum of the logarithms of the moves (normalise.h), without correlations, kinds of
 * evidence or a call graph.
 *
 * pca: the squared residual of z after the principal components that have 95 % of its variance
 * (J. E. Jackson, G. S. Mudholkar, Technometrics 21, 1979).
 *
 * The others are the maximum over the metrics:
 *
 * mad: the distance from the recent medians in usual moves (normalise.h): the "modified z-score"
 * (B. Iglewicz, D. Hoaglin, 1993) with a running centre.
 *
 * ewma: a control chart of exponentially weighted means (S. W. Roberts, Technometrics 1, 1959): e =
 * 0.3 z + 0.7 e, over its deviation sqrt(0.3 / 1.7) for independent z.
 *
 * cusum: two one-sided cumulative sums (E. S. Page, Biometrika 41, 1954) with allowance 1
 * deviation: s = max(0, s + |z| - 1), by sign; z is clipped at 4, so that one outlier is no shift.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/detector.h"
#include "cli/common/common.h"

#define LAMBDA	  0.3f
#define ALLOWANCE 1.0f
#define ENTERS	  4.0f
#define CUSUM_MAX 50.0f
#define VARIANCE  0.95
#define FIRST	  64u /* rows of the first principal components; then at each doubling */
#define SWEEPS	  12u /* of Jacobi's method; it converges quadratically */

struct chart {
	float *up, *down; /* ewma uses up only */
};

static void *create_chart(const struct analyse_detector_opts *opts)
{
	struct chart *c = calloc(1, sizeof(*c) + 2 * opts->dims * sizeof(float));

	if (c) {
		c->up = (float *)(c + 1);
		c->down = c->up + opts->dims;
	}
	return c;
}

static float score_mad(void *state, const struct analyse_row *row, float *blame)
{
	float most = 0;

	(void)state;
	for (uint32_t c = 0; c < row->dims; c++) {
		float m = fabsf(row->move[c]);

		blame[c] = m > 0 ? m : 0;
		most = blame[c] > most ? blame[c] : most;
	}
	return most;
}

static float score_logsum(void *state, const struct analyse_row *row, float *blame)
{
	float sum = 0;

	(void)state;
	for (uint32_t c = 0; c < row->dims; c++) {
		float m = fabsf(row->move[c]);

		blame[c] = m > 1 ? logf(m) : 0;
		sum += blame[c];
	}
	return sum;
}

/* ---- principal components ---- */

struct pca {
	uint32_t dims, rows, known, kept;
	double *sum;	/* dims x dims, of products of z */
	double *matrix; /* scratch */
	double *vector; /* a column per component */
	double *x;
	uint32_t *order; /* components by variance, the largest first */
};

static void *create_pca(const struct analyse_detector_opts *opts)
{
	size_t d = opts->dims;
	struct pca *p =
		calloc(1, sizeof(*p) + (3 * d * d + d) * sizeof(double) + d * sizeof(uint32_t));

	if (!p)
		return NULL;
	p->dims = opts->dims;
	p->sum = (double *)(p + 1);
	p->matrix = p->sum + d * d;
	p->vector = p->matrix + d * d;
	p->x = p->vector + d * d;
	p->order = (uint32_t *)(p->x + d);
	return p;
}

static void take_z(struct pca *p, const struct analyse_row *row)
{
	for (uint32_t c = 0; c < p->dims; c++) {
		float z = fminf(fmaxf(row->z[c], -100), 100);

		p->x[c] = row->z[c] == row->z[c] ? (double)z : 0;
	}
}

/* Rotates rows and columns i and j so that element (i, j) of the symmetric matrix becomes 0. */
static void rotate(struct pca *p, uint32_t i, uint32_t j)
{
	const uint32_t d = p->dims;
	double *a = p->matrix, *v = p->vector, at = a[i * d + j], t, c, s;

	if (fabs(at) < 1e-300)
		return;
	t = (a[j * d + j] - a[i * d + i]) / (2 * at);
	t = (t < 0 ? -1 : 1) / (fabs(t) + sqrt(t * t + 1));
	c = 1 / sqrt(t * t + 1);
	s = t * c;
	for (uint32_t k = 0; k < d; k++) {
		double x = a[k * d + i], y = a[k * d + j], u = v[k * d + i], w = v[k * d + j];

		a[k * d + i] = c * x - s * y;
		a[k * d + j] = s * x + c * y;
		v[k * d + i] = c * u - s * w;
		v[k * d + j] = s * u + c * w;
	}
	for (uint32_t k = 0; k < d; k++) {
		double x = a[i * d + k], y = a[j * d + k];

		a[i * d + k] = c * x - s * y;
		a[j * d + k] = s * x + c * y;
	}
}

/* Jacobi's method (G. H. Golub, C. F. Van Loan, Matrix Computations, 8.5). */
static void find_components(struct pca *p)
{
	const uint32_t d = p->dims;
	double all = 0, kept = 0;

	memcpy(p->matrix, p->sum, (size_t)d * d * sizeof(double));
	memset(p->vector, 0, (size_t)d * d * sizeof(double));
	for (uint32_t i = 0; i < d; i++)
		p->vector[i * d + i] = 1;
	for (uint32_t sweep = 0; sweep < SWEEPS; sweep++)
		for (uint32_t i = 0; i < d; i++)
			for (uint32_t j = i + 1; j < d; j++)
				rotate(p, i, j);
	for (uint32_t i = 0; i < d; i++) {
		uint32_t k = i;

		all += p->matrix[i * d + i];
		for (; k > 0 && p->matrix[p->order[k - 1] * (d + 1)] < p->matrix[i * (d + 1)]; k--)
			p->order[k] = p->order[k - 1];
		p->order[k] = i;
	}
	for (p->kept = 0; p->kept < d && kept < VARIANCE * all; p->kept++)
		kept += p->matrix[p->order[p->kept] * (d + 1)];
	p->known = p->rows;
}

static void learn_pca(void *state, const struct analyse_row *row)
{
	struct pca *p = state;

	take_z(p, row);
	for (uint32_t i = 0; i < p->dims; i++)
		for (uint32_t j = 0; j < p->dims; j++)
			p->sum[i * p->dims + j] += p->x[i] * p->x[j];
	p->rows++;
	if (p->rows >= FIRST && p->rows >= 2 * p->known)
		find_components(p);
}

static float score_pca(void *state, const struct analyse_row *row, float *blame)
{
	struct pca *p = state;
	const uint32_t d = p->dims;
	double sum = 0;

	take_z(p, row);
	memset(blame, 0, d * sizeof(*blame));
	for (uint32_t k = 0; k < p->kept; k++) {
		const double *v = p->vector + p->order[k];
		double dot = 0;

		for (uint32_t c = 0; c < d; c++)
			dot += v[c * d] * p->x[c];
		for (uint32_t c = 0; c < d; c++)
			p->x[c] -= dot * v[c * d];
	}
	for (uint32_t c = 0; c < d && p->known; c++) {
		blame[c] = (float)(p->x[c] * p->x[c]);
		sum += p->x[c] * p->x[c];
	}
	return (float)sum;
}

/* ---- charts ---- */

static float score_ewma(void *state, const struct analyse_row *row, float *blame)
{
	struct chart *s = state;
	const float deviation = sqrtf(LAMBDA / (2 - LAMBDA));
	float most = 0;

	for (uint32_t c = 0; c < row->dims; c++) {
		float z = row->z[c], e = s->up[c];

		e = z == z ? LAMBDA * z + (1 - LAMBDA) * e : e;
		s->up[c] = e;
		blame[c] = fabsf(e) / deviation;
		most = blame[c] > most ? blame[c] : most;
	}
	return most;
}

static float score_cusum(void *state, const struct analyse_row *row, float *blame)
{
	struct chart *s = state;
	float most = 0;

	for (uint32_t c = 0; c < row->dims; c++) {
		float z = fminf(fmaxf(row->z[c], -ENTERS), ENTERS);

		z = row->z[c] == row->z[c] ? z : 0;
		s->up[c] = fminf(fmaxf(s->up[c] + z - ALLOWANCE, 0), CUSUM_MAX);
		s->down[c] = fminf(fmaxf(s->down[c] - z - ALLOWANCE, 0), CUSUM_MAX);
		blame[c] = fmaxf(s->up[c], s->down[c]);
		most = blame[c] > most ? blame[c] : most;
	}
	return most;
}

static const struct analyse_detector_ops
	logsum = {.name = "logsum", .create = create_chart, .score = score_logsum},
	pca = {.name = "pca", .create = create_pca, .score = score_pca, .learn = learn_pca},
	mad = {.name = "mad", .create = create_chart, .score = score_mad},
	ewma = {.name = "ewma", .create = create_chart, .score = score_ewma},
	cusum = {.name = "cusum", .create = create_chart, .score = score_cusum};

/* The linker takes this table in place of the library's (analyse/detectors.c). */
const struct analyse_detector_ops *const analyse_detectors[] = {
	&analyse_detector_combined, &logsum, &pca, &mad, &ewma, &cusum, NULL,
};

int main(int argc, char **argv)
{
	return cli_cmd_replay.run(&cli_cmd_replay, argc, argv);
}
