// SPDX-License-Identifier: Apache-2.0
/*
 * bench_pipeline.c - pipeline.256x64: how many rounds a second one core scores 256 pods of 64
 * metrics, half of them counters, through all that the live collector does after a READ: rates,
 * normalisation, detector, look across the fleet, threshold, learning, and packing into history.
 * Every metric changes in every row, which is the worst case. CPU time of the thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyse/fleet.h"
#include "collect/codec.h"
#include "collect/history.h"

#define PODS	 256u
#define METRICS	 64u
#define ROUND_NS 1000000ull /* the rows are a millisecond apart */
#define SHAPES	 1024u	    /* of noise, prepared, so that it isn't measured */

struct pod {
	struct analyse_pipeline *p;
	double values[METRICS];
	uint64_t rows[COLLECT_COLUMN_ROWS][METRICS], chunk;
	int64_t ns[COLLECT_COLUMN_ROWS];
};

static double noise[SHAPES];

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void fill(struct pod *pod, uint32_t at, double seconds)
{
	for (uint32_t c = 0; c < METRICS; c += 2) {
		pod->values[c] += seconds * (100 + 5 * noise[(at + 7 * c) % SHAPES]);
		pod->values[c + 1] = 50 + 5 * noise[(at * 31 + 13 * c) % SHAPES];
	}
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int run(const struct analyse_detector_ops *ops, const char *name, unsigned int rounds)
{
	struct analyse_pipeline_opts o = {
		.columns = METRICS, .rate_ns = 200000000, .seed = 1, .detector = ops};
	static struct analyse_column columns[METRICS];
	static char names[METRICS][16];
	static bool f64[METRICS];
	struct analyse_pipeline *pods[PODS];
	struct analyse_verdict *v = calloc(PODS, sizeof(*v));
	struct pod *pod = calloc(PODS, sizeof(*pod));
	struct analyse_fleet *fleet = analyse_fleet_create(1.0 / 3600, 1);
	struct collect_ring ring;
	double took[9];
	uint64_t t = 1000000000, round = 0, alarms = 0;

	if (!v || !pod || !fleet || collect_ring_init(&ring, 256u << 20, 0))
		return 1;
	for (uint32_t c = 0; c < METRICS; c++) {
		snprintf(names[c], sizeof(names[c]), "metric%u", c);
		columns[c] = (struct analyse_column){names[c], c % 2 == 0};
		f64[c] = true;
	}
	for (uint32_t i = 0; i < PODS; i++) {
		pods[i] = pod[i].p = analyse_pipeline_create(&o);
		if (!pods[i])
			return 1;
		analyse_pipeline_columns(pods[i], columns, METRICS);
		analyse_fleet_join(fleet, pods[i]);
		analyse_pipeline_learning(pods[i], ANALYSE_LEARN_ALL);
	}
	/* Trained on 200 steps of one row each. */
	for (int i = 0; i < 200; i++, t += 1000000000) {
		for (uint32_t k = 0; k < PODS; k++) {
			fill(&pod[k], (uint32_t)i * 97 + k, 1);
			analyse_pipeline_score(pods[k], t, pod[k].values, &v[k]);
		}
		analyse_fleet_judge(fleet, pods, v, PODS);
	}
	t -= 1000000000 - ROUND_NS;
	for (uint32_t k = 0; k < PODS; k++)
		analyse_pipeline_learning(pods[k], ANALYSE_LEARN_GATED);
	for (int r = 0; r < 9; r++) {
		double start = cpu_s();

		for (unsigned int i = 0; i < rounds; i++, t += ROUND_NS, round++) {
			for (uint32_t k = 0; k < PODS; k++) {
				uint32_t at = (uint32_t)round % COLLECT_COLUMN_ROWS;

				fill(&pod[k], (uint32_t)round * 97 + k, 1e-9 * ROUND_NS);
				analyse_pipeline_score(pods[k], t, pod[k].values, &v[k]);
				memcpy(pod[k].rows[at], pod[k].values, sizeof(pod[k].values));
				pod[k].ns[at] = (int64_t)t;
				if (at + 1 == COLLECT_COLUMN_ROWS)
					pod[k].chunk = collect_ring_append(
						&ring, k, pod[k].chunk, pod[k].ns, pod[k].rows[0],
						METRICS, f64, COLLECT_COLUMN_ROWS, METRICS);
			}
			analyse_fleet_judge(fleet, pods, v, PODS);
			for (uint32_t k = 0; k < PODS; k++)
				alarms += v[k].anomalous;
		}
		took[r] = cpu_s() - start;
	}
	qsort(took, 9, sizeof(*took), by_size);
	printf("{\"name\": \"%s\", \"value\": %.1f, \"unit\": \"Hz\", \"peer\": \"MicroView (published)\", "
	       "\"peer_value\": 3, \"ratio\": %.1f, \"conditions\": \"%s: 256 pods x 64 metrics, all of "
	       "which change, rows 1 ms apart, steps of 1 s, history packed; CPU time of one thread, "
	       "median of 9; %" PRIu64 " of %" PRIu64
	       " rows flagged; peer: 8 cores of a BlueField-2\"}\n",
	       name, rounds / took[4], rounds / took[4] / 3, ops->name, alarms, round * PODS);
	for (uint32_t i = 0; i < PODS; i++)
		analyse_pipeline_free(pods[i]);
	analyse_fleet_free(fleet);
	collect_ring_free(&ring);
	free(pod);
	free(v);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 300;
	uint64_t seed = 1;

	for (uint32_t i = 0; i < SHAPES; i++) {
		noise[i] = -6;
		for (int k = 0; k < 12; k++)
			noise[i] += (double)(next(&seed) >> 11) * 0x1p-53;
	}
	return run(&analyse_detector_combined, "pipeline.256x64", rounds) ||
	       run(&analyse_detector_fd, "pipeline.256x64.fd", rounds) ||
	       run(&analyse_detector_autoencoder, "pipeline.256x64.autoencoder", rounds / 4 + 1);
}
