/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.h - code shared by the benchmarks: clocks, medians, random numbers, memory and result
 * lines. For C and C++; docs/benchmarks.md defines the fields of a line.
 */
#ifndef SL_BENCH_H
#define SL_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { BENCH_ROUNDS_MAX = 101 };

/*
 * The number in argv[1], from 1 to BENCH_ROUNDS_MAX, or the default. Exits if it is out of range.
 */
int bench_rounds(int argc, char **argv, int by_default);
void bench_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Nanoseconds. The CPU time of the calling thread suffers less from other work than wall time. */
double bench_cpu_ns(void);
double bench_wall_ns(void);

/* Both sort v. A quantile of 0 is the least value, of 1 the greatest. */
double bench_median(double *v, size_t n);
double bench_quantile(double *v, size_t n, double q);

/* The same random numbers in each run: splitmix64, uniform in (0, 1), normal. */
uint64_t bench_random(void);
double bench_uniform(void);
double bench_normal(void);

/* Zeroed memory whose pages have been touched, in pages of 2 MiB if the kernel has them. */
void *bench_memory(uint64_t bytes);
void bench_memory_free(void *p, uint64_t bytes);

/*
 * The floor of a detector on this machine: nanoseconds per row to compute the scalar products with
 * `directions` vectors and to subtract the projections, without learning, normalising or comparing
 * anything.
 */
double bench_projection_ns(uint32_t metrics, uint32_t directions);

struct bench_row {
	const char *name, *unit;
	double value;
	bool less_is_better;
	const char *peer; /* NULL: none */
	double peer_value;
	const char *floor; /* what the machine does alone in floor_value; NULL: none */
	double floor_value;
};

/* Prints the line, and then the line NAME.floor if there is a floor. */
void bench_print(const struct bench_row *row, const char *conditions, ...)
	__attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif
#endif
