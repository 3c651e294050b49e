// SPDX-License-Identifier: Apache-2.0
/*
 * det_robust.c - univariate detectors, each the maximum over the metrics:
 *
 * threshold: the detector of MicroView, the largest |z| if above 3 deviations, otherwise 0.
 *
 * mad: the distance from the recent medians in usual moves (normalise.h): the "modified z-score"
 * (B. Iglewicz, D. Hoaglin, 1993) with a running centre.
 *
 * ewma: a control chart of exponentially weighted means (S. W. Roberts, Technometrics 1, 1959): e =
 * 0.3 z + 0.7 e, over its deviation sqrt(0.3 / 1.7) for independent z.
 *
 * cusum: two one-sided cumulative sums (E. S. Page, Biometrika 41, 1954) with an allowance of 1
 * deviation: s = max(0, s + |z| - 1), per sign; z is clipped at 4, so that one outlier is no shift.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analyse/detector.h"
#include "analyse/normalise.h"

#define LAMBDA	  0.3f
#define ALLOWANCE 1.0f
#define ENTERS	  4.0f
#define CUSUM_MAX 50.0f

struct chart {
	uint32_t dims;
	float limit;	  /* limit of the threshold detector */
	float *up, *down; /* ewma uses only up */
};

static void *chart_create(const struct analyse_detector_opts *opts)
{
	struct chart *c = calloc(1, sizeof(*c) + 2 * opts->dims * sizeof(float));

	if (c) {
		c->dims = opts->dims;
		c->limit = opts->limit > 0 ? (float)opts->limit : 3;
		c->up = (float *)(c + 1);
		c->down = c->up + opts->dims;
	}
	return c;
}

static float threshold_score(void *state, const struct analyse_row *row, float *blame)
{
	const struct chart *s = state;
	float most = 0;

	for (uint32_t c = 0; c < row->dims; c++) {
		float over = fabsf(row->z[c]) - s->limit;

		blame[c] = over > 0 ? over : 0;
		most = blame[c] > most ? blame[c] : most;
	}
	return most > 0 ? most + s->limit : 0;
}

static float mad_score(void *state, const struct analyse_row *row, float *blame)
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

static float ewma_score(void *state, const struct analyse_row *row, float *blame)
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

static float cusum_score(void *state, const struct analyse_row *row, float *blame)
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

/* Saves or loads the state of a chart, so that a restart continues from it. */
static int chart_io(float *x, uint32_t n, float min, float max, struct sketch_blob *b)
{
	for (uint32_t c = 0; c < n; c++)
		sketch_blob_f32(b, &x[c], min, max);
	return 0;
}

static int ewma_io(void *state, struct sketch_blob *b)
{
	struct chart *s = state;

	return chart_io(s->up, s->dims, -ANALYSE_FAR, ANALYSE_FAR, b);
}

static int cusum_io(void *state, struct sketch_blob *b)
{
	struct chart *s = state;

	return chart_io(s->up, 2 * s->dims, 0, CUSUM_MAX, b); /* down follows up in memory */
}

/* The sums belong to the last rows of one pod, so there is nothing to add. */
static int chart_merge(void *state, const void *other)
{
	const struct chart *s = state, *o = other;

	return s->dims == o->dims ? 0 : -EINVAL;
}

const struct analyse_detector_ops analyse_detector_threshold = {
	.name = "threshold",
	.summary = "the largest |z|, if above 3 deviations",
	.create = chart_create,
	.score = threshold_score,
};

const struct analyse_detector_ops analyse_detector_mad = {
	.name = "mad",
	.summary = "the largest distance from the recent medians, in units of usual moves",
	.create = chart_create,
	.score = mad_score,
};

const struct analyse_detector_ops analyse_detector_ewma = {
	.name = "ewma",
	.summary = "control chart of exponentially weighted means",
	.create = chart_create,
	.score = ewma_score,
	.io = ewma_io,
	.merge = chart_merge,
};

const struct analyse_detector_ops analyse_detector_cusum = {
	.name = "cusum",
	.summary = "cumulative sums of the excess over one deviation",
	.create = chart_create,
	.score = cusum_score,
	.io = cusum_io,
	.merge = chart_merge,
};
