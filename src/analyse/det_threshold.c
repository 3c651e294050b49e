// SPDX-License-Identifier: Apache-2.0
/*
 * det_threshold.c - MicroView's threshold detector: the largest |z| if above 3 deviations, else 0.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analyse/detector.h"

struct threshold {
	float limit;
};

static void *create(const struct analyse_detector_opts *opts)
{
	struct threshold *t = malloc(sizeof(*t));

	if (t)
		t->limit = opts->limit > 0 ? (float)opts->limit : 3;
	return t;
}

static float score(void *state, const struct analyse_row *row, float *blame)
{
	const struct threshold *t = state;
	float most = 0;

	for (uint32_t c = 0; c < row->dims; c++) {
		float over = fabsf(row->z[c]) - t->limit;

		blame[c] = over > 0 ? over : 0;
		most = blame[c] > most ? blame[c] : most;
	}
	return most > 0 ? most + t->limit : 0;
}

const struct analyse_detector_ops analyse_detector_threshold = {
	.name = "threshold",
	.summary = "the largest |z|, if above 3 deviations",
	.create = create,
	.score = score,
};
