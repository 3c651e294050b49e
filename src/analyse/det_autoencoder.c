// SPDX-License-Identifier: Apache-2.0
/*
 * det_autoencoder.c - an autoencoder d - h - b - h - d, trained online on normal rows. The score is
 * the root mean square of its reconstruction error (M. Sakurada, T. Yairi, "Anomaly detection using
 * autoencoders with nonlinear dimensionality reduction", MLSDA 2014). Layers are affine, with tanh
 * except for the last; initial weights follow X. Glorot, Y. Bengio (AISTATS 2010) from the seed.
 * Training uses Adam (D. Kingma, J. Ba, ICLR 2015), with one step per row plus a replay of earlier
 * rows from a reservoir, so that a few hundred rows are enough. z is clipped to +-5. Missing values
 * are replaced by 0 in the input, and are neither scored nor learned.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analyse/detector.h"
#include "analyse/normalise.h"
#include "sketch/hash.h"

#define LAYERS	   4u
#define HIDDEN	   16u
#define NECK	   6u
#define RATE	   2e-3f
#define BETA1	   0.9f
#define BETA2	   0.999f
#define EPS	   1e-8f
#define CLIP	   5.0f
#define REHEARSED  128u /* number of rows in the reservoir */
#define REHEARSALS 4u	/* rows replayed per learned row */
#define WEIGHT_MAX 1e4f

struct autoencoder {
	uint32_t dims, n[LAYERS + 1], weights;
	uint64_t seen, steps, random;
	uint32_t kept;
	float *w, *m, *v, *g; /* parameters, Adam's two moments, gradient */
	float *a[LAYERS + 1]; /* activations */
	float *d[LAYERS + 1]; /* gradients of the activations */
	/* mask has dims entries; rows are REHEARSED x dims, NaN where missing */
	float *mask, *rows;
};

static void *create_autoencoder(const struct analyse_detector_opts *opts)
{
	uint32_t d = opts->dims, n[LAYERS + 1] = {d, HIDDEN, NECK, HIDDEN, d}, weights = 0,
		 units = 0;
	struct autoencoder *s;
	float *at;

	for (uint32_t i = 0; i < LAYERS; i++)
		weights += n[i + 1] * (n[i] + 1);
	for (uint32_t i = 0; i <= LAYERS; i++)
		units += n[i];
	s = calloc(1, sizeof(*s) + (4 * (size_t)weights + 2 * units + d + (size_t)REHEARSED * d) *
					   sizeof(float));
	if (!s)
		return NULL;
	memcpy(s->n, n, sizeof(n));
	s->dims = d;
	s->weights = weights;
	s->random = opts->seed ^ 0x5eed;
	at = (float *)(s + 1);
	s->w = at, at += weights;
	s->m = at, at += weights;
	s->v = at, at += weights;
	s->g = at, at += weights;
	for (uint32_t i = 0; i <= LAYERS; i++) {
		s->a[i] = at, at += n[i];
		s->d[i] = at, at += n[i];
	}
	s->mask = at, at += d;
	s->rows = at;
	at = s->w;
	for (uint32_t i = 0; i < LAYERS; i++) {
		float r = sqrtf(6.0f / (n[i] + n[i + 1]));

		for (uint32_t k = 0; k < n[i] * n[i + 1]; k++)
			*at++ = r *
				(2 * (float)(sketch_random_next(&s->random) >> 40) / (1 << 24) - 1);
		at += n[i + 1]; /* skip the biases, which start at 0 */
	}
	return s;
}

/* Weights are stored by input, so that the inner loop runs over outputs. */
static void run_forward(struct autoencoder *s, const float *x)
{
	const float *w = s->w;

	for (uint32_t c = 0; c < s->dims; c++) {
		bool there = x[c] == x[c];

		s->mask[c] = there ? 1 : 0;
		s->a[0][c] = there ? fminf(fmaxf(x[c], -CLIP), CLIP) : 0;
	}
	for (uint32_t i = 0; i < LAYERS; i++) {
		uint32_t in = s->n[i], out = s->n[i + 1];
		const float *bias = w + in * out;
		float *restrict to = s->a[i + 1];

		memcpy(to, bias, out * sizeof(float));
		for (uint32_t k = 0; k < in; k++) {
			const float *restrict row = w + k * out;
			float x_k = s->a[i][k];

			for (uint32_t j = 0; j < out; j++)
				to[j] += x_k * row[j];
		}
		if (i + 1 < LAYERS)
			for (uint32_t j = 0; j < out; j++)
				to[j] = tanhf(to[j]);
		w += (in + 1) * out;
	}
}

static void train_on_row(struct autoencoder *s, const float *x)
{
	const float *w = s->w + s->weights;
	float *g = s->g + s->weights, there = 0, c1, c2;

	run_forward(s, x);
	for (uint32_t c = 0; c < s->dims; c++)
		there += s->mask[c];
	if (there == 0)
		return;
	for (uint32_t c = 0; c < s->dims; c++)
		s->d[LAYERS][c] = 2 * (s->a[LAYERS][c] - s->a[0][c]) * s->mask[c] / there;
	for (uint32_t i = LAYERS; i-- > 0;) {
		uint32_t in = s->n[i], out = s->n[i + 1];
		const float *restrict delta = s->d[i + 1];

		w -= (in + 1) * out;
		g -= (in + 1) * out;
		for (uint32_t k = 0; k < in; k++) {
			float back = 0, a = s->a[i][k];

			for (uint32_t j = 0; j < out; j++) {
				g[k * out + j] = a * delta[j];
				back += w[k * out + j] * delta[j];
			}
			s->d[i][k] = back * (1 - a * a); /* tanh'; not used for the input layer */
		}
		memcpy(g + in * out, delta, out * sizeof(float));
	}
	s->steps++;
	c1 = 1 / (1 - powf(BETA1, (float)(s->steps < 100000 ? s->steps : 100000)));
	c2 = 1 / (1 - powf(BETA2, (float)(s->steps < 100000 ? s->steps : 100000)));
	for (uint32_t k = 0; k < s->weights; k++) {
		s->m[k] = BETA1 * s->m[k] + (1 - BETA1) * s->g[k];
		s->v[k] = BETA2 * s->v[k] + (1 - BETA2) * s->g[k] * s->g[k];
		s->w[k] -= RATE * s->m[k] * c1 / (sqrtf(s->v[k] * c2) + EPS);
	}
}

static float score_row(void *state, const struct analyse_row *row, float *blame)
{
	struct autoencoder *s = state;
	float sum = 0, there = 0;

	memset(blame, 0, s->dims * sizeof(float));
	if (!s->steps)
		return 0;
	run_forward(s, row->z);
	for (uint32_t c = 0; c < s->dims; c++) {
		/*
		 * Compare with the row itself and not with its clipped form, so that far outliers
		 * get high scores.
		 */
		float e = s->mask[c] > 0 ? row->z[c] - s->a[LAYERS][c] : 0;

		blame[c] = e * e;
		sum += blame[c];
		there += s->mask[c];
	}
	return there > 0 ? sqrtf(sum / there) : 0;
}

static void learn_row(void *state, const struct analyse_row *row)
{
	struct autoencoder *s = state;
	uint64_t i;

	train_on_row(s, row->z);
	for (uint32_t k = 0; k < REHEARSALS && s->kept; k++)
		train_on_row(s, s->rows + (sketch_random_next(&s->random) % s->kept) * s->dims);
	s->seen++;
	if (s->kept < REHEARSED)
		i = s->kept++;
	else
		i = sketch_random_next(&s->random) % s->seen;
	if (i < REHEARSED)
		memcpy(s->rows + i * s->dims, row->z, s->dims * sizeof(float));
}

/* A model contains no NaN: missing values are saved as a number out of range. */
#define MISSING	   (2 * ANALYSE_FAR)
#define MOMENT_MAX 1e30f

static void floats_io(float *x, uint32_t n, float min, float max, struct sketch_blob *b)
{
	for (uint32_t i = 0; i < n && !b->failed; i++)
		sketch_blob_f32(b, &x[i], min, max);
}

/* Saves or loads all state needed for learning, including Adam's moments and the reservoir. */
static int autoencoder_io(void *state, struct sketch_blob *b)
{
	struct autoencoder *s = state;
	uint32_t kept = s->kept;

	sketch_blob_u64(b, &s->steps);
	sketch_blob_u64(b, &s->seen);
	sketch_blob_u64(b, &s->random);
	floats_io(s->w, s->weights, -WEIGHT_MAX, WEIGHT_MAX, b);
	floats_io(s->m, s->weights, -MOMENT_MAX, MOMENT_MAX, b);
	floats_io(s->v, s->weights, 0, MOMENT_MAX, b);
	sketch_blob_u32(b, &kept);
	if (b->load && (kept > REHEARSED || kept > s->seen))
		b->failed = true;
	for (size_t k = 0; k < (size_t)kept * s->dims && !b->failed; k++) {
		float z = s->rows[k] == s->rows[k] ? s->rows[k] : MISSING;

		sketch_blob_f32(b, &z, -ANALYSE_FAR, MISSING);
		if (b->load)
			s->rows[k] = z > ANALYSE_FAR ? NAN : z;
	}
	if (b->load)
		s->kept = b->failed ? 0 : kept;
	return 0;
}

/*
 * Averages the weights by rows seen (B. McMahan et al., "Communication-efficient learning of deep
 * networks from decentralized data", AISTATS 2017); both must have started from the same seed.
 * Adam's moments and the reservoir remain local.
 */
static int merge_weights(void *state, const void *other)
{
	struct autoencoder *s = state;
	const struct autoencoder *o = other;
	double a = (double)s->seen, b = (double)o->seen;

	if (s->weights != o->weights)
		return -EINVAL;
	if (a + b == 0)
		return 0;
	for (uint32_t k = 0; k < s->weights; k++)
		s->w[k] = (float)((a * s->w[k] + b * o->w[k]) / (a + b));
	s->steps = s->steps > o->steps ? s->steps : o->steps;
	s->seen += o->seen;
	return 0;
}

const struct analyse_detector_ops analyse_detector_autoencoder = {
	.name = "autoencoder",
	.summary = "reconstruction error of a small network trained on normal rows",
	.create = create_autoencoder,
	.score = score_row,
	.learn = learn_row,
	.io = autoencoder_io,
	.merge = merge_weights,
};
