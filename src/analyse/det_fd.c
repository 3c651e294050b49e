// SPDX-License-Identifier: Apache-2.0
/*
 * det_fd.c - MicroView's FDSketch: the component of a row outside the directions of normal rows. y
 * = z / |z|, residual r = y - V V^T y, with V the first k directions of a Frequent Directions
 * sketch of l rows (H. Huang, S. Kasiviswanathan, "Streaming anomaly detection using randomized
 * matrix sketching", VLDB 2015; sketch/fd.h). A metric's share is its part of r^2; a missing metric
 * counts as its mean.
 *
 * The score is -log(1 - |r|^2): it has the same order as |r|, but no upper limit. |r| cannot exceed
 * 1, and a threshold for rare alarms would be above 1. For y in a random direction, 1 - |r|^2 has a
 * beta distribution of k/2 and (d - k)/2, which is below e with a probability of order e^(k/2). So
 * the score has the exponential tail that calibrate.h expects.
 */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "analyse/detector.h"
#include "sketch/fd.h"

struct fd {
	uint32_t dims, k;
	struct sketch_fd *sketch;
	float *y, *r;
};

static void destroy_fd(void *state)
{
	struct fd *s = state;

	if (s)
		sketch_fd_free(s->sketch);
	free(s);
}

static void *create_fd(const struct analyse_detector_opts *opts)
{
	uint32_t root = (uint32_t)sqrt(opts->dims), l = opts->l ? opts->l : root;
	struct fd *s = calloc(1, sizeof(*s) + 2 * opts->dims * sizeof(float));

	if (!s)
		return NULL;
	s->dims = opts->dims;
	s->k = opts->k ? opts->k : root;
	s->y = (float *)(s + 1);
	s->r = s->y + opts->dims;
	if (s->k > l) {
		free(s);
		errno = EINVAL;
		return NULL;
	}
	s->sketch = sketch_fd_new(l, opts->dims);
	if (!s->sketch) {
		destroy_fd(s);
		return NULL;
	}
	return s;
}

static void scale_to_unit(struct fd *s, const struct analyse_row *row)
{
	float sum = 0, scale;

	for (uint32_t c = 0; c < s->dims; c++) {
		s->y[c] = row->z[c] == row->z[c] ? row->z[c] : 0;
		sum += s->y[c] * s->y[c];
	}
	scale = sum > 0 ? 1 / sqrtf(sum) : 0;
	for (uint32_t c = 0; c < s->dims; c++)
		s->y[c] *= scale;
}

static float score_row(void *state, const struct analyse_row *row, float *blame)
{
	struct fd *s = state;
	double norm;

	scale_to_unit(s, row);
	if (!sketch_fd_rank(s->sketch)) {
		memset(blame, 0, s->dims * sizeof(float));
		return 0;
	}
	norm = sketch_fd_residual(s->sketch, s->k, s->y, s->r);
	for (uint32_t c = 0; c < s->dims; c++)
		blame[c] = s->r[c] * s->r[c];
	/* Smaller values are rounding errors of floats. */
	return (float)-log(fmax(1 - norm * norm, FLT_EPSILON));
}

static void learn_row(void *state, const struct analyse_row *row)
{
	struct fd *s = state;

	scale_to_unit(s, row);
	sketch_fd_update(s->sketch, s->y);
}

static int fd_io(void *state, struct sketch_blob *b)
{
	struct fd *s = state;
	uint32_t n = (uint32_t)sketch_fd_save_bytes(s->sketch);
	struct sketch_fd *sketch;
	void *p;
	int err;

	sketch_blob_u32(b, &n);
	p = sketch_blob_take(b, n);
	if (!p)
		return 0;
	if (!b->load) {
		sketch_fd_save(s->sketch, p, n);
		return 0;
	}
	err = sketch_fd_load(&sketch, p, n);
	if (err)
		return err;
	if (sketch_fd_rows(sketch) != sketch_fd_rows(s->sketch) ||
	    sketch_fd_dims(sketch) != s->dims) {
		sketch_fd_free(sketch);
		return -EINVAL;
	}
	sketch_fd_free(s->sketch);
	s->sketch = sketch;
	return 0;
}

static int merge_fd(void *state, const void *other)
{
	struct fd *s = state;
	const struct fd *o = other;

	return sketch_fd_merge(s->sketch, o->sketch);
}

const struct analyse_detector_ops analyse_detector_fd = {
	.name = "fd",
	.summary = "residual outside the directions of a Frequent Directions sketch",
	.create = create_fd,
	.destroy = destroy_fd,
	.score = score_row,
	.learn = learn_row,
	.io = fd_io,
	.merge = merge_fd,
};
