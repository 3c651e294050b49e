// SPDX-License-Identifier: Apache-2.0
/*
 * sketch.c ROUNDS [fd|inserts] - nanoseconds per insert, and metrics per second of Frequent
 * Directions: the median of the rounds, in CPU time of the thread.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "sketch/cells.h"
#include "../../tests/sketch/inside.h"
#include "sketch/space_saving.h"

enum { VALUES = 1 << 16, ROWS = 4096, DIMS = 64, DIRECTIONS = 8, PODS = 256 };

#define FD_FLOOR "products with 8 vectors of 64, subtracted; nothing learned"

static int rounds;

/* Nanoseconds per operation; the statement runs n times per round. */
#define MEASURE(n, statement)                                        \
	__extension__({                                              \
		double took_[BENCH_ROUNDS_MAX];                      \
		for (int r_ = 0; r_ < rounds; r_++) {                \
			double start_ = bench_cpu_ns();              \
			for (uint32_t i = 0; i < (n); i++)           \
				statement;                           \
			took_[r_] = (bench_cpu_ns() - start_) / (n); \
		}                                                    \
		bench_median(took_, (size_t)rounds);                 \
	})

static uint64_t *places; /* random */

/*
 * Prints the result of an insert and its floor: one random addition in each of `additions` tables,
 * at places known in advance. entries is a power of two. Variants have no floor: additions is 0.
 */
static void print_insert(const char *name, double ns, uint32_t additions, uint32_t entries,
			 const char *what)
{
	uint64_t *table = bench_memory((uint64_t)additions * entries * 8);
	char floor[128];
	double least = MEASURE(
		VALUES, for (uint32_t a = 0; a < additions; a++)
				table[a * entries + (places[i] >> (a * 11) & (entries - 1))]++);

	snprintf(floor, sizeof(floor), "%u addition(s) at random to %u entries of 8 bytes",
		 additions, entries);
	bench_print(&(struct bench_row){.name = name,
					.unit = "ns",
					.value = ns,
					.less_is_better = true,
					.floor = additions ? floor : NULL,
					.floor_value = least},
		    "%s; CPU time, median of %d rounds", what, rounds);
	bench_memory_free(table, (uint64_t)additions * entries * 8);
}

/* ---- Frequent Directions ---- */

/* Metrics of a service as a pipeline passes them on: four causes and noise, of unit length. */
static float *make_rows(void)
{
	float *rows = malloc(sizeof(float) * ROWS * DIMS);

	if (!rows)
		bench_die("no memory");
	for (int i = 0; i < ROWS; i++) {
		float *row = rows + i * DIMS;
		double cause[4], length = 0;

		for (int j = 0; j < 4; j++)
			cause[j] = bench_normal();
		for (int c = 0; c < DIMS; c++) {
			double x = 0.3 * bench_normal();

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

/* Nanoseconds per row that is scored and then added, over that many sketches in turn. */
static double fd_ns(const float *rows, uint32_t sketches, enum vector_level level)
{
	struct sketch_fd *fd[PODS];
	float left[DIMS];
	double sum = 0, ns;

	for (uint32_t p = 0; p < sketches; p++) {
		fd[p] = sketch_fd_new(DIRECTIONS, DIMS);
		if (!fd[p] || set_level(fd[p], level))
			bench_die("no sketch");
	}
	ns = MEASURE(8 * ROWS, {
		struct sketch_fd *f = fd[i % sketches];
		const float *row = rows + i * 5 % ROWS * DIMS;

		sum += sketch_fd_residual(f, DIRECTIONS, row, left);
		sketch_fd_update(f, row);
	});
	/* The sketch has found the four causes, so the residual is only noise. */
	sum /= 8.0 * ROWS * rounds;
	if (!(sum > 0.05 && sum < 0.5) || sketch_fd_rank(fd[0]) != DIRECTIONS)
		bench_die("the residuals do not fit the rows");
	for (uint32_t p = 0; p < sketches; p++)
		sketch_fd_free(fd[p]);
	return ns;
}

static void bench_fd(void)
{
	static const char *const levels[] = {"portable", "AVX2", "AVX-512"};
	const enum vector_level best = best_level();
	const double floor_ns = bench_projection_ns(DIMS, DIRECTIONS);
	float *rows = make_rows();
	struct {
		const char *name, *what;
		uint32_t sketches;
		enum vector_level level;
	} cases[] = {
		{"fd.score.update", "each row scored, with its residual, and then added", 1, best},
		{"fd.score.update.256", "the same over 256 sketches in turn", PODS, best},
		{"fd.score.update.portable", "portable code", 1, VECTOR_PORTABLE},
		{"fd.score.update.avx2", "AVX2 code", 1, VECTOR_AVX2},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		double ns;

		if (i > 1 && cases[i].level >= best)
			break;
		ns = fd_ns(rows, cases[i].sketches, cases[i].level);
		bench_print(
			&(struct bench_row){.name = cases[i].name,
					    .unit = "metrics/s",
					    .value = 1e9 * DIMS / ns,
					    .floor = i ? NULL : FD_FLOOR,
					    .floor_value = 1e9 * DIMS / floor_ns},
			"%s; d = 64, l = k = 8, %.0f ns per row, %s; CPU time, median of %d rounds",
			cases[i].what, ns, levels[cases[i].level], rounds);
	}
	free(rows);
}

/* ---- inserts ---- */

static uint64_t hash_of(uint64_t key)
{
	return sketch_hash_bytes(&key, sizeof(key), 1);
}

static void bench_keys(void)
{
	uint64_t *key = malloc(sizeof(*key) * VALUES);
	char(*name)[24] = calloc(VALUES, sizeof(*name));
	struct sketch_cells h, hb, m, c;
	struct sketch_space_saving *s = sketch_space_saving_new(1024, 8, 1);
	double ns, error;

	if (!key || !name || !s ||
	    sketch_cells_init(&h, SKETCH_HLL, 1 << 14, 1, 1, calloc(1, 1 << 14)) ||
	    sketch_cells_init(&hb, SKETCH_HLL, 1 << 14, 1, 1, calloc(1, 1 << 14)) ||
	    sketch_cells_init(&m, SKETCH_COUNT_MIN, 2048, 4, 1, calloc(4 * 2048, 8)) ||
	    sketch_cells_init(&c, SKETCH_COUNT_SKETCH, 2048, 5, 1, calloc(5 * 2048, 8)) ||
	    !h.cell || !hb.cell || !m.cell || !c.cell)
		bench_die("no memory");
	for (int i = 0; i < VALUES; i++) { /* Zipf, about 1 / rank of a million */
		key[i] = (uint64_t)exp(bench_uniform() * log(1e6));
		snprintf(name[i], sizeof(name[i]), "pod-%u", (unsigned int)i);
	}
	ns = MEASURE(VALUES, sketch_cells_add(&h, hash_of(i * 0x10001u), 1));
	if (fabs(sketch_cells_estimate(&h, 0, &error) / VALUES - 1) > 0.05)
		bench_die("HyperLogLog lost something");
	print_insert("sketch.hll", ns, 1, 2048, "2^14 registers, u64 keys, hashed");
	ns = MEASURE(VALUES,
		     sketch_cells_add(&hb, sketch_hash_bytes(name[i], sizeof(name[i]), 1), 1));
	if (fabs(sketch_cells_estimate(&hb, 0, &error) / VALUES - 1) > 0.05)
		bench_die("HyperLogLog lost something");
	print_insert("sketch.hll.bytes", ns, 0, 1, "the same, keys of 24 bytes");
	ns = MEASURE(VALUES, sketch_cells_add(&m, hash_of(key[i]), 1));
	if (m.total != (uint64_t)VALUES * (uint64_t)rounds)
		bench_die("Count-Min lost something");
	print_insert("sketch.cm", ns, 4, 2048, "4 rows of 2,048, u64 keys, Zipf, hashed");
	ns = MEASURE(VALUES, sketch_cells_add(&c, hash_of(key[i]), 1));
	print_insert("sketch.cs", ns, 0, 1, "5 rows of 2,048, u64 keys, Zipf, hashed");
	ns = MEASURE(VALUES, sketch_space_saving_add(s, &key[i], 1));
	print_insert("sketch.spacesaving", ns, 0, 1,
		     "1,024 counters, keys of 8 bytes, Zipf, hashed");
	free(h.cell);
	free(hb.cell);
	free(m.cell);
	free(c.cell);
	sketch_space_saving_free(s);
	free(key);
	free(name);
}

int main(int argc, char **argv)
{
	const char *only = argc > 2 ? argv[2] : NULL;

	rounds = bench_rounds(argc, argv, 21);
	places = bench_memory(VALUES * sizeof(*places));
	for (int i = 0; i < VALUES; i++)
		places[i] = bench_random();
	if (!only || !strcmp(only, "fd"))
		bench_fd();
	if (!only || !strcmp(only, "inserts")) {
		bench_keys();
	}
	return 0;
}
