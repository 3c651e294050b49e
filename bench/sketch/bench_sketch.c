// SPDX-License-Identifier: Apache-2.0
/*
 * What an insert costs, and what Frequent Directions does a second: the median of rounds, in CPU
 * time of the thread. Prints one JSON object a line, see docs/benchmarks.md.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sketch/count_min.h"
#include "sketch/count_sketch.h"
#include "sketch/ddsketch.h"
#include "sketch/fd.h"
#include "sketch/hll.h"
#include "sketch/kll.h"
#include "sketch/space_saving.h"

enum { ROUNDS_MAX = 101, VALUES = 1 << 16, ROWS = 4096, DIMS = 64, DIRECTIONS = 8, PODS = 256 };

static int rounds;
static char machine[256];

/* splitmix64 */
static uint64_t rnd(void)
{
	static uint64_t state = 1;
	uint64_t z = (state += 0x9e3779b97f4a7c15u);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static double unit(void)
{
	return ((double)(rnd() >> 12) + 0.5) * 0x1p-52;
}

static double normal(void)
{
	double r = sqrt(-2 * log(unit()));

	return r * cos(2 * M_PI * unit());
}

/* CPU time of the thread, which other work on the machine disturbs less than the clock on the wall.
 */
static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, (size_t)rounds, sizeof(*v), by_value);
	return v[rounds / 2];
}

static void die(const char *why)
{
	fprintf(stderr, "bench/sketch: %s\n", why);
	exit(1);
}

/* ns an operation: the statement runs `n` times a round. */
#define MEASURE(n, statement)                                  \
	__extension__({                                        \
		double took_[ROUNDS_MAX];                      \
		for (int r_ = 0; r_ < rounds; r_++) {          \
			double start_ = now_ns();              \
			for (uint32_t i = 0; i < (n); i++)     \
				statement;                     \
			took_[r_] = (now_ns() - start_) / (n); \
		}                                              \
		median(took_);                                 \
	})

static void print_ns(const char *name, double ns, const char *what)
{
	printf("{\"name\":\"%s\",\"value\":%.4g,\"unit\":\"ns\",\"conditions\":\"%s; %s\"}\n", name,
	       ns, what, machine);
	fflush(stdout);
}

static void find_machine(void)
{
	char line[256], cpu[128] = "unknown CPU";
	FILE *f = fopen("/proc/cpuinfo", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "model name : %127[^\n]", cpu) == 1)
			break;
	if (f)
		fclose(f);
	snprintf(machine, sizeof(machine), "%s, %s, median of %d rounds, CPU time", cpu, COMPILER,
		 rounds);
}

/* ---- Frequent Directions ---- */

/* Metrics of a service as a pipeline hands them over: four causes and noise, of unit length. */
static float *make_rows(void)
{
	float *rows = malloc(sizeof(float) * ROWS * DIMS);

	if (!rows)
		die("no memory");
	for (int i = 0; i < ROWS; i++) {
		float *row = rows + i * DIMS;
		double cause[4], length = 0;

		for (int j = 0; j < 4; j++)
			cause[j] = normal();
		for (int c = 0; c < DIMS; c++) {
			double x = 0.3 * normal();

			for (int j = 0; j < 4; j++)
				x += cause[j] * sin(c * (j + 1) * 0.3);
			row[c] = (float)x;
			length += x * x;
		}
		for (int c = 0; c < DIMS; c++)
			row[c] = (float)(row[c] / sqrt(length));
	}
	return rows;
}

/* ns a row of scoring and updating, over so many sketches in turn. */
static double fd_ns(const float *rows, uint32_t sketches, enum sketch_vector_level level)
{
	struct sketch_fd *fd[PODS];
	float left[DIMS];
	double sum = 0, ns;

	for (uint32_t p = 0; p < sketches; p++) {
		fd[p] = sketch_fd_new(DIRECTIONS, DIMS, SKETCH_FD_FAST);
		if (!fd[p] || sketch_fd_set_level(fd[p], level))
			die("no sketch");
	}
	ns = MEASURE(8 * ROWS, {
		struct sketch_fd *f = fd[i % sketches];
		const float *row = rows + i * 5 % ROWS * DIMS;

		sum += sketch_fd_residual(f, DIRECTIONS, row, left);
		sketch_fd_update(f, row);
	});
	/* Four causes are found, most of the rest is noise: or it measured something else. */
	sum /= 8.0 * ROWS * rounds;
	if (!(sum > 0.05 && sum < 0.5) || sketch_fd_rank(fd[0]) != DIRECTIONS)
		die("the residuals are not those of the rows");
	for (uint32_t p = 0; p < sketches; p++)
		sketch_fd_free(fd[p]);
	return ns;
}

static void bench_fd(void)
{
	static const char *const levels[] = {"portable", "AVX2", "AVX-512"};
	const enum sketch_vector_level best = sketch_vector_best();
	const double published = 7000;
	float *rows = make_rows();
	double ns = fd_ns(rows, 1, best);

	printf("{\"name\":\"fd.score.update\",\"value\":%.4g,\"unit\":\"metrics/s\","
	       "\"peer\":\"MicroView (published)\",\"peer_value\":%.4g,\"ratio\":%.4g,"
	       "\"conditions\":\"one core, d=64, l=k=8, each row scored (residual written) and then "
	       "added: %.0f ns a row, %s; peer as published, on an Arm core of a BlueField-2; "
	       "%s\"}\n",
	       1e9 * DIMS / ns, published, 1e9 * DIMS / ns / published, ns, levels[best], machine);
	ns = fd_ns(rows, PODS, best);
	printf("{\"name\":\"fd.score.update.256\",\"value\":%.4g,\"unit\":\"metrics/s\","
	       "\"conditions\":\"the same over 256 sketches in turn: %.0f ns a row; %s\"}\n",
	       1e9 * DIMS / ns, ns, machine);
	for (int level = 0; level < (int)best; level++) {
		ns = fd_ns(rows, 1, level);
		printf("{\"name\":\"fd.score.update.%s\",\"value\":%.4g,\"unit\":\"metrics/s\","
		       "\"conditions\":\"as fd.score.update, %s code: %.0f ns a row; %s\"}\n",
		       level ? "avx2" : "portable", 1e9 * DIMS / ns, levels[level], ns, machine);
	}
	fflush(stdout);
	free(rows);
}

/* ---- inserts ---- */

static void bench_values(void)
{
	double *v = malloc(sizeof(*v) * VALUES), ns;
	struct sketch_ddsketch *d = sketch_ddsketch_new(0.01, 2048, SKETCH_DDSKETCH_CUBIC);
	struct sketch_ddsketch *few = sketch_ddsketch_new(0.01, 128, SKETCH_DDSKETCH_CUBIC);
	struct sketch_ddsketch *exact = sketch_ddsketch_new(0.01, 2048, SKETCH_DDSKETCH_LOG);
	struct sketch_kll *k = sketch_kll_new(200, 1);

	if (!v || !d || !few || !exact || !k)
		die("no memory");
	for (int i = 0; i < VALUES; i++) /* log-normal, as latencies are: a median of 10 ms */
		v[i] = 0.01 * exp(normal());
	ns = MEASURE(VALUES, sketch_ddsketch_add(d, v[i], 1));
	if (sketch_ddsketch_count(d) != (uint64_t)VALUES * (uint64_t)rounds ||
	    fabs(sketch_ddsketch_quantile(d, 0.5) / 0.01 - 1) > 0.03)
		die("DDSketch lost something");
	print_ns("sketch.ddsketch", ns, "alpha 1 %, 2,048 bins, cubic, log-normal values");
	ns = MEASURE(VALUES, sketch_ddsketch_add(few, v[i], 1));
	if (sketch_ddsketch_exact_from(few) == 0)
		die("nothing was collapsed");
	print_ns("sketch.ddsketch.collapsed", ns, "the same in 128 bins, most of which collapse");
	ns = MEASURE(VALUES, sketch_ddsketch_add(exact, v[i], 1));
	print_ns("sketch.ddsketch.log", ns, "the same as the first by log2()");
	ns = MEASURE(VALUES, sketch_kll_add(k, v[i]));
	if (fabs(sketch_kll_quantile(k, 0.5) / 0.01 - 1) > 0.1)
		die("KLL lost something");
	print_ns("sketch.kll", ns, "k = 200, log-normal values");
	sketch_ddsketch_free(d);
	sketch_ddsketch_free(few);
	sketch_ddsketch_free(exact);
	sketch_kll_free(k);
	free(v);
}

static void bench_keys(void)
{
	uint64_t *key = malloc(sizeof(*key) * VALUES);
	char(*name)[24] = calloc(VALUES, sizeof(*name));
	struct sketch_hll *h = sketch_hll_new(14, 1), *hb = sketch_hll_new(14, 1);
	struct sketch_count_min *m = sketch_count_min_new(2048, 4, 0, 1);
	struct sketch_count_min *mc = sketch_count_min_new(2048, 4, SKETCH_COUNT_MIN_CONSERVATIVE,
							   1);
	struct sketch_count_sketch *c = sketch_count_sketch_new(2048, 5, 1);
	struct sketch_space_saving *s = sketch_space_saving_new(1024, 8, 1);
	double ns;

	if (!key || !name || !h || !hb || !m || !mc || !c || !s)
		die("no memory");
	for (int i = 0; i < VALUES; i++) { /* Zipf, about 1 / rank of a million */
		key[i] = (uint64_t)exp(unit() * log(1e6));
		snprintf(name[i], sizeof(name[i]), "pod-%u", (unsigned int)i);
	}
	ns = MEASURE(VALUES, sketch_hll_add_u64(h, i * 0x10001u));
	if (fabs(sketch_hll_estimate(h) / VALUES - 1) > 0.05)
		die("HyperLogLog lost something");
	print_ns("sketch.hll", ns, "2^14 registers, u64 keys, hashed");
	ns = MEASURE(VALUES, sketch_hll_add(hb, name[i], sizeof(name[i])));
	if (fabs(sketch_hll_estimate(hb) / VALUES - 1) > 0.05)
		die("HyperLogLog lost something");
	print_ns("sketch.hll.bytes", ns, "the same, keys of 24 bytes");
	ns = MEASURE(VALUES, sketch_count_min_add_u64(m, key[i], 1));
	if (sketch_count_min_total(m) != (uint64_t)VALUES * (uint64_t)rounds)
		die("Count-Min lost something");
	print_ns("sketch.cm", ns, "4 rows of 2,048, u64 keys, Zipf, hashed");
	ns = MEASURE(VALUES, sketch_count_min_add_u64(mc, key[i], 1));
	print_ns("sketch.cm.conservative", ns, "the same with conservative update");
	ns = MEASURE(VALUES, sketch_count_sketch_add_u64(c, key[i], 1));
	print_ns("sketch.cs", ns, "5 rows of 2,048, u64 keys, Zipf, hashed");
	ns = MEASURE(VALUES, sketch_space_saving_add(s, &key[i], 1));
	print_ns("sketch.spacesaving", ns, "1,024 counters, keys of 8 bytes, Zipf, hashed");
	sketch_hll_free(h);
	sketch_hll_free(hb);
	sketch_count_min_free(m);
	sketch_count_min_free(mc);
	sketch_count_sketch_free(c);
	sketch_space_saving_free(s);
	free(key);
	free(name);
}

int main(int argc, char **argv)
{
	rounds = argc > 1 ? atoi(argv[1]) : 21;
	if (rounds < 1 || rounds > ROUNDS_MAX)
		die("1 to 101 rounds");
	find_machine();
	bench_fd();
	bench_values();
	bench_keys();
	return 0;
}
