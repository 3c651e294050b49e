// SPDX-License-Identifier: Apache-2.0
/*
 * det_threshold.c - MicroView's threshold detector: the score is the largest |z| if that exceeds 3,
 * otherwise 0.
 */
#include <math.h>
#include <stdlib.h>

#include "analyse/detector.h"

static void *create_threshold(const struct analyse_detector_opts *opts)
{
	float *limit = malloc(sizeof(*limit));

	if (limit)
		*limit = opts->limit > 0 ? (float)opts->limit : 3;
	return limit;
}

static float score_row(void *state, const struct analyse_row *row, float *blame)
{
	const float limit = *(const float *)state;
	float most = 0;

	for (uint32_t c = 0; c < row->dims; c++) {
		float over = fabsf(row->z[c]) - limit;

		blame[c] = over > 0 ? over : 0;
		most = blame[c] > most ? blame[c] : most;
	}
	return most > 0 ? most + limit : 0;
}

const struct analyse_detector_ops analyse_detector_threshold = {
	.name = "threshold",
	.summary = "the largest |z| of all metrics, if it exceeds 3 standard deviations",
	.create = create_threshold,
	.score = score_row,
};
