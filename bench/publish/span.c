// SPDX-License-Identifier: Apache-2.0
/*
 * span.c [ROUNDS] - nanoseconds per span: started with a parent, given a number and a short string,
 * ended. The parts of a span are also measured separately.
 */
#include <time.h>

#include <sidelight/span.h>

#include "bench.h"

#define SPANS 1000000
#ifdef __x86_64__
#define FLOOR_KIND 3
#define FLOOR	   "two readings of the TSC"
#else
#define FLOOR_KIND 4
#define FLOOR	   "two readings of clock_gettime()"
#endif

static struct sl_span_name name;
static struct sl_span_key number, text;

static double child_spans(const struct sl_trace_context *parent)
{
	double start = bench_cpu_ns();

	for (int i = 0; i < SPANS; i++) {
		struct sl_span span;

		sl_span_start(&span, name, SL_SPAN_CLIENT, parent);
		sl_span_set_i64(&span, number, i);
		sl_span_set_string(&span, text, "GET");
		sl_span_end(&span);
	}
	return (bench_cpu_ns() - start) / SPANS;
}

static double bare_spans(const struct sl_trace_context *parent)
{
	double start = bench_cpu_ns();

	for (int i = 0; i < SPANS; i++) {
		struct sl_span span;

		sl_span_start(&span, name, SL_SPAN_CLIENT, parent);
		sl_span_end(&span);
	}
	return (bench_cpu_ns() - start) / SPANS;
}

static double roots(const struct sl_trace_context *parent)
{
	double start = bench_cpu_ns();

	(void)parent;
	for (int i = 0; i < SPANS; i++) {
		struct sl_span span;

		sl_span_start(&span, name, SL_SPAN_SERVER, NULL);
		sl_span_set_i64(&span, number, i);
		sl_span_set_string(&span, text, "GET");
		sl_span_end(&span);
	}
	return (bench_cpu_ns() - start) / SPANS;
}

static double two_clocks(const struct sl_trace_context *parent)
{
	double start = bench_cpu_ns();
	struct timespec t;

	(void)parent;
	for (int i = 0; i < SPANS; i++) {
		clock_gettime(CLOCK_REALTIME, &t);
		clock_gettime(CLOCK_REALTIME, &t);
	}
	return (bench_cpu_ns() - start) / SPANS;
}

static double two_registers(const struct sl_trace_context *parent)
{
	double start = bench_cpu_ns();

	(void)parent;
#if defined(__x86_64__)
	for (int i = 0; i < SPANS; i++) {
		__asm__ volatile("rdtsc" ::: "rax", "rdx");
		__asm__ volatile("rdtsc" ::: "rax", "rdx");
	}
#endif
	return (bench_cpu_ns() - start) / SPANS;
}

int main(int argc, char **argv)
{
	static double (*const kinds[])(const struct sl_trace_context *) = {
		child_spans, bare_spans, roots, two_registers, two_clocks,
	};
	enum { KINDS = sizeof(kinds) / sizeof(*kinds) };
	static double ns[KINDS][BENCH_ROUNDS_MAX], median[KINDS];
	const int rounds = bench_rounds(argc, argv, 21);
	struct sl_publisher *p = sl_publisher_open(&SL_OPTS(
		sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED, .span_bytes = SL_SPAN_BYTES));
	struct sl_trace_context parent = {.trace_hi = 1, .trace_lo = 2, .span_id = 3};

	if (!p)
		bench_die("no publisher");
	name = sl_span_name_create(p, "GET /cart");
	number = sl_span_key_create(p, "http.response.status_code");
	text = sl_span_key_create(p, "http.request.method");
	if (!sl_span_name_valid(name) || !sl_span_key_valid(text))
		bench_die("no span names");
	child_spans(&parent);
	for (int r = 0; r < rounds; r++)
		for (int k = 0; k < KINDS; k++)
			ns[k][r] = kinds[k](&parent);
	for (int k = 0; k < KINDS; k++)
		median[k] = bench_median(ns[k], (size_t)rounds);
	bench_print(
		&(struct bench_row){
			.name = "span.publish",
			.unit = "ns/span",
			.value = median[0],
			.less_is_better = true,
			.floor = FLOOR,
			.floor_value = median[FLOOR_KIND],
		},
		"start with a parent, a number, a short string, end: 2 lines and an index entry; "
		"without attributes %.1f, root of a trace %.1f; two readings of the TSC %.1f, of "
		"clock_gettime() %.1f; %u bytes for spans; CPU time, median of %d rounds",
		median[1], median[2], median[3], median[4], SL_SPAN_BYTES, rounds);
	sl_publisher_close(p);
	return 0;
}
