// SPDX-License-Identifier: Apache-2.0
/*
 * pipeline.c [ROUNDS] - rounds per second in which one core scores 256 pods of 64 metrics, half of
 * them counters, with all steps of the live collector after a READ: rates, normalisation, detector,
 * comparison across the fleet, threshold, learning, and packing into history. Every metric changes
 * in every row, which is the worst case.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "analyse/fleet.h"
#include "collect/read/codec.h"
#include "collect/read/history.h"

#define PODS	 256u
#define METRICS	 64u
#define ROUND_NS 1000000ull /* rows are one millisecond apart */
#define SHAPES	 1024u	    /* number of prepared noise rows */
#define REPEATS	 9
#define FLOOR	 "256 rows of products with 8 vectors of 64, subtracted; nothing learned"

struct pod {
	double values[METRICS];
	uint64_t rows[COLLECT_COLUMN_ROWS][METRICS], chunk;
	int64_t ns[COLLECT_COLUMN_ROWS];
};

static double noise[SHAPES];

static void fill(struct pod *pod, uint32_t at, double seconds)
{
	for (uint32_t c = 0; c < METRICS; c += 2) {
		pod->values[c] += seconds * (100 + 5 * noise[(at + 7 * c) % SHAPES]);
		pod->values[c + 1] = 50 + 5 * noise[(at * 31 + 13 * c) % SHAPES];
	}
}

struct bench {
	const struct analyse_detector_ops *ops;
	struct analyse_pipeline *pipelines[PODS];
	struct analyse_verdict v[PODS];
	struct pod pods[PODS];
	struct analyse_fleet *fleet;
	struct collect_ring ring;
	bool f64[METRICS];
	uint64_t now_ns, round, alarms;
};

static void start(struct bench *b)
{
	struct analyse_pipeline_opts o = {
		.columns = METRICS, .rate_ns = 200000000, .seed = 1, .detector = b->ops};
	static struct analyse_column columns[METRICS];
	static char names[METRICS][16];

	b->fleet = analyse_fleet_create(1.0 / 3600, 1);
	if (!b->fleet || collect_ring_init(&b->ring, 256u << 20, 0))
		bench_die("no memory");
	for (uint32_t c = 0; c < METRICS; c++) {
		snprintf(names[c], sizeof(names[c]), "metric%u", c);
		columns[c] = (struct analyse_column){names[c], c % 2 == 0};
		b->f64[c] = true;
	}
	for (uint32_t k = 0; k < PODS; k++) {
		b->pipelines[k] = analyse_pipeline_create(&o);
		if (!b->pipelines[k])
			bench_die("no memory");
		analyse_pipeline_columns(b->pipelines[k], columns, METRICS);
		analyse_fleet_join(b->fleet, b->pipelines[k], NULL);
	}
}

static void train(struct bench *b, uint32_t steps)
{
	for (uint32_t k = 0; k < PODS; k++)
		analyse_pipeline_learning(b->pipelines[k], ANALYSE_LEARN_ALL);
	b->now_ns = 1000000000;
	for (uint32_t i = 0; i < steps; i++, b->now_ns += 1000000000) {
		for (uint32_t k = 0; k < PODS; k++) {
			fill(&b->pods[k], i * 97 + k, 1);
			analyse_pipeline_score(b->pipelines[k], b->now_ns, b->pods[k].values,
					       &b->v[k]);
		}
		analyse_fleet_judge(b->fleet, b->pipelines, b->v, PODS);
	}
	b->now_ns -= 1000000000 - ROUND_NS;
	for (uint32_t k = 0; k < PODS; k++)
		analyse_pipeline_learning(b->pipelines[k], ANALYSE_LEARN_GATED);
}

/* Keeps the pod's values in history, which is packed a chunk at a time. */
static void keep(struct bench *b, uint32_t k)
{
	const uint32_t at = (uint32_t)b->round % COLLECT_COLUMN_ROWS;
	struct pod *pod = &b->pods[k];

	memcpy(pod->rows[at], pod->values, sizeof(pod->values));
	pod->ns[at] = (int64_t)b->now_ns;
	if (at + 1 == COLLECT_COLUMN_ROWS)
		pod->chunk = collect_ring_append(&b->ring, k, pod->chunk, pod->ns, pod->rows[0],
						 METRICS, b->f64, COLLECT_COLUMN_ROWS, METRICS);
}

static void one_round(struct bench *b)
{
	for (uint32_t k = 0; k < PODS; k++) {
		fill(&b->pods[k], (uint32_t)b->round * 97 + k, 1e-9 * ROUND_NS);
		analyse_pipeline_score(b->pipelines[k], b->now_ns, b->pods[k].values, &b->v[k]);
		keep(b, k);
	}
	analyse_fleet_judge(b->fleet, b->pipelines, b->v, PODS);
	for (uint32_t k = 0; k < PODS; k++)
		b->alarms += b->v[k].anomalous;
	b->now_ns += ROUND_NS;
	b->round++;
}

static void run(const struct analyse_detector_ops *ops, const char *name, unsigned int rounds,
		double floor_ns)
{
	struct bench *b = calloc(1, sizeof(*b));
	double hz[REPEATS];

	if (!b)
		bench_die("no memory");
	b->ops = ops;
	start(b);
	train(b, 200);
	for (int r = 0; r < REPEATS; r++) {
		const double begin = bench_cpu_ns();

		for (unsigned int i = 0; i < rounds; i++)
			one_round(b);
		hz[r] = 1e9 * rounds / (bench_cpu_ns() - begin);
	}
	bench_print(
		&(struct bench_row){.name = name,
				    .unit = "Hz",
				    .value = bench_median(hz, REPEATS),
				    .floor = floor_ns > 0 ? FLOOR : NULL,
				    .floor_value = 1e9 / (PODS * floor_ns)},
		"%s: 256 pods x 64 metrics, all of which change, rows 1 ms apart, steps of 1 s, "
		"history packed; CPU time of one thread, median of %d; %" PRIu64 " of %" PRIu64
		" rows flagged",
		ops->name, REPEATS, b->alarms, b->round * PODS);
	for (uint32_t k = 0; k < PODS; k++)
		analyse_pipeline_free(b->pipelines[k]);
	analyse_fleet_free(b->fleet);
	collect_ring_free(&b->ring);
	free(b);
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 300;
	const double floor_ns = bench_projection_ns(METRICS, 8);

	for (uint32_t i = 0; i < SHAPES; i++)
		noise[i] = bench_normal();
	run(&analyse_detector_combined, "pipeline.256x64", rounds, floor_ns);
	run(&analyse_detector_fd, "pipeline.256x64.fd", rounds, 0);
	run(&analyse_detector_autoencoder, "pipeline.256x64.autoencoder", rounds / 4 + 1, 0);
	return 0;
}
