// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif
#define HUGE_PAGE (2ull << 20)

void bench_die(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	fputs("bench: ", stderr);
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
	va_end(list);
	exit(1);
}

int bench_rounds(int argc, char **argv, int by_default)
{
	int rounds = argc > 1 ? atoi(argv[1]) : by_default;

	if (rounds < 1 || rounds > BENCH_ROUNDS_MAX)
		bench_die("'%s': the first argument is a number of rounds from 1 to %d", argv[1],
			  BENCH_ROUNDS_MAX);
	return rounds;
}

static double ns_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double bench_cpu_ns(void)
{
	return ns_of(CLOCK_THREAD_CPUTIME_ID);
}

double bench_wall_ns(void)
{
	return ns_of(CLOCK_MONOTONIC);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_value);
	return n ? (v[(n - 1) / 2] + v[n / 2]) / 2 : 0;
}

double bench_quantile(double *v, size_t n, double q)
{
	qsort(v, n, sizeof(*v), by_value);
	return n ? v[(size_t)(q * (double)(n - 1) + 0.5)] : 0;
}

uint64_t bench_random(void)
{
	static uint64_t state = 1;
	uint64_t z = (state += 0x9e3779b97f4a7c15u);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

double bench_uniform(void)
{
	return ((double)(bench_random() >> 12) + 0.5) * 0x1p-52;
}

double bench_normal(void)
{
	double r = sqrt(-2 * log(bench_uniform())); /* Box-Muller */

	return r * cos(2 * M_PI * bench_uniform());
}

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
}

void *bench_memory(uint64_t bytes)
{
	const uint64_t size = whole_pages(bytes);
	uint8_t *map = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *p;

	if (map == MAP_FAILED)
		bench_die("no memory: %llu bytes", (unsigned long long)bytes);
	p = (uint8_t *)whole_pages((uintptr_t)map);
	if (p > map)
		munmap(map, (size_t)(p - map));
	if (p < map + HUGE_PAGE)
		munmap(p + size, (size_t)(map + HUGE_PAGE - p));
	madvise(p, size, MADV_HUGEPAGE);
	for (uint64_t i = 0; i < size; i += 4096)
		p[i] = 0;
	madvise(p, size, MADV_COLLAPSE);
	return p;
}

void bench_memory_free(void *p, uint64_t bytes)
{
	munmap(p, whole_pages(bytes));
}

double bench_projection_ns(uint32_t metrics, uint32_t directions)
{
	enum { ROWS = 4096, REPEATS = 9, LANES = 8 };
	typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
	const uint32_t n = metrics / LANES;
	const uint64_t row_bytes = (uint64_t)metrics * sizeof(float);
	float *rows = bench_memory(ROWS * row_bytes), *basis = bench_memory(directions * row_bytes);
	lanes *left = bench_memory(row_bytes);
	double took[REPEATS];

	for (uint32_t i = 0; i < ROWS * metrics; i++)
		rows[i] = (float)bench_normal();
	for (uint32_t i = 0; i < directions * metrics; i++)
		basis[i] = (float)bench_normal();
	for (int r = 0; r < REPEATS; r++) {
		double start = bench_cpu_ns();

		for (uint32_t i = 0; i < ROWS; i++) {
			const lanes *row = (const void *)(rows + i * metrics);

			memcpy(left, row, row_bytes);
			for (uint32_t k = 0; k < directions; k++) {
				const lanes *v = (const void *)(basis + k * metrics);
				lanes sums = {0};
				float sum = 0;

				for (uint32_t c = 0; c < n; c++)
					sums += v[c] * row[c];
				for (int j = 0; j < LANES; j++)
					sum += sums[j];
				for (uint32_t c = 0; c < n; c++)
					left[c] -= sum * v[c];
			}
			__asm__ volatile("" ::"r"(left) : "memory");
		}
		took[r] = (bench_cpu_ns() - start) / ROWS;
	}
	bench_memory_free(rows, ROWS * row_bytes);
	bench_memory_free(basis, directions * row_bytes);
	bench_memory_free(left, row_bytes);
	return bench_median(took, REPEATS);
}

/* A JSON string; control characters do not occur in names, units and conditions. */
static void put_string(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			putchar('\\');
		putchar(*s);
	}
	putchar('"');
}

static void put_number(const char *key, bool known, double value)
{
	if (known && isfinite(value))
		printf("\"%s\":%.6g", key, value);
	else
		printf("\"%s\":null", key);
}

/* Above 1: value is better than other. */
static double better(const struct bench_row *r, double other)
{
	return r->less_is_better ? other / r->value : r->value / other;
}

static void print_line(const struct bench_row *r, const char *suffix, const char *conditions)
{
	printf("{\"name\":\"%s%s\",", r->name, suffix);
	put_number("value", true, r->value);
	fputs(",\"unit\":", stdout);
	put_string(r->unit);
	fputs(",\"peer\":", stdout);
	r->peer ? put_string(r->peer) : (void)fputs("null", stdout);
	fputs(",", stdout);
	put_number("peer_value", r->peer, r->peer_value);
	fputs(",", stdout);
	put_number("ratio", r->peer, better(r, r->peer_value));
	if (r->floor) {
		fputs(",", stdout);
		put_number("ratio_to_floor", true, better(r, r->floor_value));
	}
	fputs(",\"conditions\":", stdout);
	put_string(conditions);
	fputs("}\n", stdout);
	fflush(stdout);
}

void bench_print(const struct bench_row *row, const char *conditions, ...)
{
	struct bench_row floor = {.name = row->name, .unit = row->unit, .value = row->floor_value};
	char text[4096];
	va_list list;

	va_start(list, conditions);
	vsnprintf(text, sizeof(text), conditions, list);
	va_end(list);
	print_line(row, "", text);
	if (row->floor)
		print_line(&floor, ".floor", row->floor);
}
