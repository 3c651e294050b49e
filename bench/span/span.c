// SPDX-License-Identifier: Apache-2.0
/*
 * span.publish: what a span costs its application. Started with a parent, given two attributes
 * (a number and a short string), ended: written, indexed, with start and end in nanoseconds.
 * Median of the rounds, in CPU time of the thread. What it is made of is measured along with it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <sidelight/span.h>

#define SPANS 1000000

static struct sl_span_name name;
static struct sl_span_key number, text;

static double cpu_ns(void)
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

static double child_spans(const struct sl_trace_context *parent)
{
	double start = cpu_ns();

	for (int i = 0; i < SPANS; i++) {
		struct sl_span span;

		sl_span_start(&span, name, SL_SPAN_CLIENT, parent);
		sl_span_set_i64(&span, number, i);
		sl_span_set_string(&span, text, "GET");
		sl_span_end(&span);
	}
	return (cpu_ns() - start) / SPANS;
}

static double bare_spans(const struct sl_trace_context *parent)
{
	double start = cpu_ns();

	for (int i = 0; i < SPANS; i++) {
		struct sl_span span;

		sl_span_start(&span, name, SL_SPAN_CLIENT, parent);
		sl_span_end(&span);
	}
	return (cpu_ns() - start) / SPANS;
}

static double roots(const struct sl_trace_context *parent)
{
	double start = cpu_ns();

	(void)parent;
	for (int i = 0; i < SPANS; i++) {
		struct sl_span span;

		sl_span_start(&span, name, SL_SPAN_SERVER, NULL);
		sl_span_set_i64(&span, number, i);
		sl_span_set_string(&span, text, "GET");
		sl_span_end(&span);
	}
	return (cpu_ns() - start) / SPANS;
}

static double two_clocks(const struct sl_trace_context *parent)
{
	double start = cpu_ns();
	struct timespec t;

	(void)parent;
	for (int i = 0; i < SPANS; i++) {
		clock_gettime(CLOCK_REALTIME, &t);
		clock_gettime(CLOCK_REALTIME, &t);
	}
	return (cpu_ns() - start) / SPANS;
}

static double two_registers(const struct sl_trace_context *parent)
{
	double start = cpu_ns();

	(void)parent;
#if defined(__x86_64__)
	for (int i = 0; i < SPANS; i++) {
		__asm__ volatile("rdtsc" ::: "rax", "rdx");
		__asm__ volatile("rdtsc" ::: "rax", "rdx");
	}
#endif
	return (cpu_ns() - start) / SPANS;
}

int main(int argc, char **argv)
{
	static double (*const kinds[])(const struct sl_trace_context *) = {
		child_spans, bare_spans, roots, two_clocks, two_registers,
	};
	enum { KINDS = sizeof(kinds) / sizeof(*kinds), ROUNDS_MAX = 101 };
	int rounds = argc > 1 ? atoi(argv[1]) : 11;
	static double ns[KINDS][ROUNDS_MAX];
	struct sl_publisher *p = sl_publisher_open(&SL_OPTS(
		sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED, .span_bytes = SL_SPAN_BYTES));
	struct sl_trace_context parent = {.trace_hi = 1, .trace_lo = 2, .span_id = 3};

	if (!p || rounds < 1 || rounds > ROUNDS_MAX)
		return 1;
	name = sl_span_name_create(p, "GET /cart");
	number = sl_span_key_create(p, "http.response.status_code");
	text = sl_span_key_create(p, "http.request.method");
	if (!sl_span_name_valid(name) || !sl_span_key_valid(text))
		return 1;
	child_spans(&parent);
	for (int r = 0; r < rounds; r++)
		for (int k = 0; k < KINDS; k++)
			ns[k][r] = kinds[k](&parent);
	for (int k = 0; k < KINDS; k++)
		qsort(ns[k], (size_t)rounds, sizeof(double), by_value);
	printf("{\"name\":\"span.publish\",\"value\":%.2f,\"unit\":\"ns/span\","
	       "\"peer\":null,\"peer_value\":null,\"ratio\":null,\"conditions\":{"
	       "\"what\":\"start with a parent, a number, a short string, end: 2 lines and an index "
	       "entry\",\"no_attributes\":%.2f,\"root_of_a_trace\":%.2f,"
	       "\"two_rdtsc_alone\":%.2f,\"two_clock_gettime_alone\":%.2f,\"rounds\":%d,"
	       "\"span_bytes\":%u,\"compiler\":\"%s\"}}\n",
	       ns[0][rounds / 2], ns[1][rounds / 2], ns[2][rounds / 2], ns[4][rounds / 2],
	       ns[3][rounds / 2], rounds, SL_SPAN_BYTES, __VERSION__);
	sl_publisher_close(p);
	return 0;
}
