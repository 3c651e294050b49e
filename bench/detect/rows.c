// SPDX-License-Identifier: Apache-2.0
/*
 * rows.c [ROWS] - pod-rows per second that the fleet stage judges on one core, and how much of a
 * core 10,000 pods take at one row per second each. A tree of services of four replicas, each of
 * which is called by the one above it; a row has six latencies, CPU, memory and eight others. Every
 * value changes in every row. In a tenth of the steps a pod is slow, which its
 * callers show.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "analyse/fleet.h"

#define COLUMNS	 16u
#define REPLICAS 4u
#define FANOUT	 3u
#define SHAPES	 4096u /* number of prepared noise rows */
#define REPEATS	 5
#define TRAINED	 120u /* rows of a pod */
#define EVERY	 100u /* steps between incidents */
#define LASTS	 10u  /* of them */

static const char *const names[COLUMNS] = {"client_duration_p90",
					   "client_duration_p95",
					   "client_duration_p99",
					   "server_duration_p90",
					   "server_duration_p95",
					   "server_duration_p99",
					   "cpu_usage",
					   "memory_usage",
					   "received_bytes",
					   "sent_bytes",
					   "requests_total",
					   "errors_total",
					   "threads",
					   "queue_length",
					   "open_connections",
					   "gc_seconds_total"};
static const double level[COLUMNS] = {0.05, 0.08, 0.2, 0.03, 0.05, 0.1, 0.3, 2e8,
				      1e5,  2e5,  100, 0,    16,   4,	8,   0.01};

static double noise[SHAPES];

struct bench {
	uint32_t pods;
	struct analyse_fleet *fleet;
	struct analyse_pipeline **pipeline;
	struct analyse_verdict *verdict;
	double *total; /* of counters: pods x COLUMNS */
	uint64_t step, row, alarms;
	uint64_t row_ns; /* from a row to the next */
	double judge_ns;
};

/* Whether calls of the one pod's service reach the other's. */
static bool is_above(uint32_t pod, uint32_t other)
{
	uint32_t at = other / REPLICAS;

	while (at > pod / REPLICAS)
		at = (at - 1) / FANOUT;
	return at == pod / REPLICAS && pod / REPLICAS != other / REPLICAS;
}

static void fill(struct bench *b, uint32_t pod, double *row)
{
	bool incident = b->step % EVERY < LASTS;
	uint32_t culprit = (uint32_t)(b->step / EVERY * 97 % b->pods);

	for (uint32_t c = 0; c < COLUMNS; c++) {
		double x = level[c] * (1 + 0.1 * noise[(b->row * 97 + pod * 31 + c * 7) % SHAPES]);
		bool slow = incident && (c < 3 ? is_above(pod, culprit) : c < 6 && pod == culprit);

		if (c == 10 || c == 11 || c == 15)
			x = b->total[pod * COLUMNS + c] += x;
		row[c] = slow ? 20 * x : x;
	}
}

static void start(struct bench *b, uint32_t pods, uint64_t row_ns)
{
	struct analyse_pipeline_opts o = {.columns = COLUMNS, .rate_ns = 1000000000, .seed = 1};
	struct analyse_column columns[COLUMNS];

	*b = (struct bench){
		.pods = pods, .row_ns = row_ns, .fleet = analyse_fleet_create(1.0 / 3600, 1)};
	b->pipeline = calloc(pods, sizeof(struct analyse_pipeline *));
	b->verdict = calloc(pods, sizeof(*b->verdict));
	b->total = calloc((size_t)pods * COLUMNS, sizeof(double));
	if (!b->fleet || !b->pipeline || !b->verdict || !b->total)
		bench_die("no memory");
	for (uint32_t c = 0; c < COLUMNS; c++)
		columns[c] = (struct analyse_column){names[c], strstr(names[c], "_total") != NULL};
	for (uint32_t i = 0; i < pods; i++) {
		char service[32];

		snprintf(service, sizeof(service), "service%u", i / REPLICAS);
		b->pipeline[i] = analyse_pipeline_create(&o);
		if (!b->pipeline[i] || analyse_fleet_join(b->fleet, b->pipeline[i], service))
			bench_die("no memory");
		analyse_pipeline_columns(b->pipeline[i], columns, COLUMNS);
	}
	/* Requests go from the top to any service, through those above it. */
	for (uint32_t s = 1; s < pods / REPLICAS; s++) {
		struct analyse_span trace[64];
		uint32_t chain[32], depth = 0, n = 0;

		for (uint32_t at = s; at; at = (at - 1) / FANOUT)
			chain[depth++] = at;
		trace[n++] = (struct analyse_span){0, ANALYSE_SPAN_ROOT};
		while (depth--) {
			trace[n] = (struct analyse_span){trace[n - 1].service, n - 1};
			trace[n + 1] = (struct analyse_span){chain[depth], n};
			n += 2;
		}
		if (analyse_graph_add(analyse_fleet_graph(b->fleet), trace, n))
			bench_die("no memory");
	}
}

static void end(struct bench *b)
{
	for (uint32_t i = 0; i < b->pods; i++) {
		analyse_fleet_leave(b->fleet, b->pipeline[i]);
		analyse_pipeline_free(b->pipeline[i]);
	}
	analyse_fleet_free(b->fleet);
	free(b->pipeline);
	free(b->verdict);
	free(b->total);
}

static void one_row(struct bench *b)
{
	double row[COLUMNS], begin;

	b->row++;
	b->step = b->row * b->row_ns / 1000000000;
	for (uint32_t i = 0; i < b->pods; i++) {
		fill(b, i, row);
		analyse_pipeline_score(b->pipeline[i], b->row * b->row_ns, row, &b->verdict[i]);
	}
	begin = bench_cpu_ns();
	if (analyse_fleet_judge(b->fleet, b->pipeline, b->verdict, b->pods))
		bench_die("no memory");
	b->judge_ns += bench_cpu_ns() - begin;
	for (uint32_t i = 0; i < b->pods; i++)
		b->alarms += b->verdict[i].anomalous;
}

static void learn(struct bench *b, enum analyse_learning how, uint32_t rows)
{
	for (uint32_t i = 0; i < b->pods; i++)
		analyse_pipeline_learning(b->pipeline[i], how);
	for (uint32_t k = 0; k < rows; k++)
		one_row(b);
	b->judge_ns = 0;
}

int main(int argc, char **argv)
{
	unsigned int rows = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 200;
	double rate[REPEATS], whole[REPEATS], begin;
	struct bench b;

	for (uint32_t i = 0; i < SHAPES; i++)
		noise[i] = bench_normal();
	start(&b, 256, 100000000);
	learn(&b, ANALYSE_LEARN_ALL, 10 * TRAINED);
	learn(&b, ANALYSE_LEARN_GATED, 1);
	for (int r = 0; r < REPEATS; r++) {
		b.judge_ns = 0;
		begin = bench_cpu_ns();
		for (unsigned int k = 0; k < rows; k++)
			one_row(&b);
		whole[r] = 1e9 * rows * b.pods / (bench_cpu_ns() - begin);
		rate[r] = 1e9 * rows * b.pods / b.judge_ns;
	}
	bench_print(
		&(struct bench_row){.name = "detect.rows",
				    .unit = "rows/s",
				    .value = bench_median(rate, REPEATS)},
		"analyse_fleet_judge(): 256 pods of 64 services, %u columns, ten rows per second, in a tenth of the steps a "
		"pod is slow, which its callers show; CPU time "
		"of one thread, median of %d; with rates, normalisation, detector and making the "
		"rows %.0f rows/s; %" PRIu64 " rows flagged",
		COLUMNS, REPEATS, bench_median(whole, REPEATS), b.alarms);
	end(&b);
	start(&b, 10000, 1000000000);
	learn(&b, ANALYSE_LEARN_ALL, 20);
	learn(&b, ANALYSE_LEARN_GATED, 1);
	for (int r = 0; r < REPEATS; r++) {
		begin = bench_cpu_ns();
		one_row(&b);
		whole[r] = (bench_cpu_ns() - begin) / 1e9;
		rate[r] = b.judge_ns / 1e9;
		b.judge_ns = 0;
	}
	bench_print(
		&(struct bench_row){.name = "detect.rows.10000",
				    .unit = "s",
				    .value = bench_median(whole, REPEATS)},
		"CPU time of a step of 10,000 pods of 2,500 services, each with a row: all of the "
		"analysis; %.3f s of it is the fleet stage; median of %d",
		bench_median(rate, REPEATS), REPEATS);
	end(&b);
	return 0;
}
