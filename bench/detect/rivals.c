// SPDX-License-Identifier: Apache-2.0
/*
 * rivals.c - sidelight replay with further detectors, to compare those of the product with. Each is
 * the maximum over the metrics:
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

#include "analyse/detector.h"
#include "cli/common/common.h"

#define LAMBDA	  0.3f
#define ALLOWANCE 1.0f
#define ENTERS	  4.0f
#define CUSUM_MAX 50.0f

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
	mad = {.name = "mad", .create = create_chart, .score = score_mad},
	ewma = {.name = "ewma", .create = create_chart, .score = score_ewma},
	cusum = {.name = "cusum", .create = create_chart, .score = score_cusum};

/* The linker takes this table in place of the library's (analyse/detectors.c). */
const struct analyse_detector_ops *const analyse_detectors[] = {
	&analyse_detector_combined, &mad, &ewma, &cusum, NULL,
};

int main(int argc, char **argv)
{
	return cli_cmd_replay.run(&cli_cmd_replay, argc, argv);
}
