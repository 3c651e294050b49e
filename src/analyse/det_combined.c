// SPDX-License-Identifier: Apache-2.0
/*
 * det_combined.c - the joint surprise of all metrics' moves; our own method.
 * docs/analytics.md, Detectors, has the reasons and the sources.
 *
 *	score = sum over metrics j of s_j / sum over metrics k of |r_jk| min(1, s_k / s_j)
 *	s_j   = log(max(1, |move_j|))
 *
 * The unit of a move already accounts for heavy tails (normalise.h). fleet.h subtracts the part
 * that other pods share.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analyse/detector.h"
#include "analyse/fetch.h"

#define CLIP   4.0f    /* limit, so that two outliers do not cause a correlation */
#define MEMORY 2000.0f /* number of rows that correlations average over */
#define STILL  1e-6f   /* variance of a metric that never moved */

struct combined {
	uint32_t dims;
	float n;
	/* [dims]; s: surprises of the row being scored; of: surprises of one group */
	float *inv_sd, *x, *s, *of;
	float *cov, *r; /* symmetric dims x dims matrices */
};

/* Computes |r|; it is 1 between metrics that never changed, because their histories are equal. */
static void derive_correlations(struct combined *s)
{
	uint32_t d = s->dims;

	for (uint32_t c = 0; c < d; c++) {
		float var = s->cov[(size_t)c * d + c];

		s->inv_sd[c] = var > STILL ? 1 / sqrtf(var) : 0;
	}
	for (uint32_t i = 0; i < d; i++) {
		const float *cov = s->cov + (size_t)i * d;
		float *r = s->r + (size_t)i * d, inv = s->inv_sd[i];

		for (uint32_t j = 0; j < d; j++)
			r[j] = fabsf(cov[j] * inv * s->inv_sd[j]);
		for (uint32_t j = 0; j < d && inv == 0; j++)
			r[j] = s->inv_sd[j] == 0 ? 1 : 0;
		r[i] = 1;
	}
}

/*
 * Sums r[k] * min(s[k], mine) over k. The order of lanes is fixed, so that the result is the same
 * to the bit on every machine.
 */
static float shared_surprise(const float *r, const float *s, float mine, uint32_t dims)
{
	float lane[ANALYSE_ROW_LANES] = {0}, sum = 0;

	/* size_t does not wrap here, which lets the compiler vectorise. */
	for (size_t c = 0; c < dims; c += ANALYSE_ROW_LANES)
		for (size_t l = 0; l < ANALYSE_ROW_LANES; l++)
			lane[l] += r[c + l] * (s[c + l] < mine ? s[c + l] : mine);
	for (uint32_t l = 0; l < ANALYSE_ROW_LANES; l++)
		sum += lane[l];
	return sum;
}

static void *create_combined(const struct analyse_detector_opts *opts)
{
	size_t d = opts->dims;
	struct combined *s;

	if (!d || d % ANALYSE_ROW_LANES || d > ANALYSE_ROW_MAX) {
		errno = EINVAL;
		return NULL;
	}
	s = calloc(1, sizeof(*s) + d * (2 * d + 4) * sizeof(float));
	if (!s)
		return NULL;
	s->dims = opts->dims;
	s->inv_sd = (float *)(s + 1);
	s->x = s->inv_sd + d;
	s->s = s->x + d;
	s->of = s->s + d;
	s->cov = s->of + d;
	s->r = s->cov + d * d;
	derive_correlations(s);
	return s;
}

/* Scores the metrics of one group together; blame[] receives the share of each. */
static float score_group(const struct combined *s, const float *of, float *blame)
{
	float sum = 0;

	for (uint32_t c = 0; c < s->dims; c++)
		if (of[c] > 0) {
			blame[c] = of[c] * of[c] /
				   shared_surprise(s->r + (size_t)c * s->dims, of, of[c], s->dims);
			sum += blame[c];
		}
	return sum;
}

static float score_row(void *state, const struct analyse_row *row, float *blame)
{
	struct combined *s = state;
	bool moved[ANALYSE_GROUPS] = {0};
	float sum = 0;

	for (uint32_t c = 0; c < row->dims; c++) {
		float far = fabsf(row->move[c]);

		s->s[c] = far > 1 ? far : 1;
	}
	for (uint32_t c = 0; c < row->dims; c++) {
		if (s->s[c] > 1)
			analyse_fetch(s->r + (size_t)c * row->dims, row->dims * sizeof(float));
		moved[row->group ? row->group[c] : 0] |= s->s[c] > 1;
		s->s[c] = s->s[c] > 1 ? logf(s->s[c]) : 0;
		blame[c] = 0;
	}
	if (!row->group)
		return score_group(s, s->s, blame);
	for (uint8_t g = 0; g < ANALYSE_GROUPS; g++) {
		if (!moved[g])
			continue;
		for (uint32_t c = 0; c < row->dims; c++)
			s->of[c] = row->group[c] == g ? s->s[c] : 0;
		sum += score_group(s, s->of, blame);
	}
	return sum;
}

static void learn_row(void *state, const struct analyse_row *row)
{
	struct combined *s = state;
	float *x = s->x, rate;

	for (uint32_t c = 0; c < s->dims; c++) {
		float m = fminf(fmaxf(row->move[c], -CLIP), CLIP);

		x[c] = row->move[c] == row->move[c] ? m : 0;
	}
	if (s->n < MEMORY)
		s->n += 1;
	rate = 1 / s->n;
	for (uint32_t i = 0; i < s->dims; i++) {
		float *to = s->cov + (size_t)i * s->dims, xi = x[i];

		for (uint32_t j = 0; j < s->dims; j++)
			to[j] += rate * (xi * x[j] - to[j]);
	}
	derive_correlations(s);
}

static int combined_io(void *state, struct sketch_blob *b)
{
	struct combined *s = state;

	sketch_blob_f32(b, &s->n, 0, MEMORY);
	for (uint32_t i = 0; i < s->dims; i++)
		for (uint32_t j = 0; j <= i && !b->failed; j++) {
			float *v = &s->cov[(size_t)i * s->dims + j];

			sketch_blob_f32(b, v, j == i ? 0 : -CLIP * CLIP, CLIP * CLIP);
			s->cov[(size_t)j * s->dims + i] = *v;
		}
	if (b->load && !b->failed)
		derive_correlations(s);
	return 0;
}

static int merge_combined(void *state, const void *other)
{
	struct combined *s = state;
	const struct combined *o = other;
	float n = s->n + o->n;

	if (s->dims != o->dims)
		return -EINVAL;
	if (n <= 0)
		return 0;
	for (size_t i = 0; i < (size_t)s->dims * s->dims; i++)
		s->cov[i] = (s->n * s->cov[i] + o->n * o->cov[i]) / n;
	s->n = fminf(n, MEMORY);
	derive_correlations(s);
	return 0;
}

const struct analyse_detector_ops analyse_detector_combined = {
	.name = "combined",
	.summary = "how unusual the changes of all metrics are together (default)",
	.comparable = true,
	.create = create_combined,
	.score = score_row,
	.learn = learn_row,
	.io = combined_io,
	.merge = merge_combined,
};
