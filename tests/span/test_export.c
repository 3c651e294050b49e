// SPDX-License-Identifier: Apache-2.0
/*
 * test_export.c - a kept trace is passed to the sender pod by pod, each span once, with work
 * proportional to its size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "collect/trace/export.h"

/* Replaces export/otlp.c. */
static struct {
	struct {
		char instance[20];
		uint64_t span_id, value;
	} span[16];
	size_t spans, calls;
	bool again, certain;
} got;

bool export_otlp_certain(const struct export_otlp *o)
{
	(void)o;
	return got.certain;
}

void export_otlp_spans(struct export_otlp *o, const struct export_otlp_attr *resource,
		       size_t resource_count, const struct export_otlp_span *spans, size_t n)
{
	(void)o;
	got.calls++;
	got.again = resource_count == 5 && resource[4].boolean;
	for (size_t i = 0; i < n; i++, got.spans++) {
		if (got.spans >= 16)
			continue;
		assert_string_equal(resource[1].key, "service.instance.id");
		snprintf(got.span[got.spans].instance, 20, "%s", resource[1].string);
		got.span[got.spans].span_id = spans[i].span_id;
		assert_int_equal(spans[i].attr_count, 1);
		assert_string_equal(spans[i].attrs[0].key, "value");
		got.span[got.spans].value = (uint64_t)spans[i].attrs[0].i64;
	}
}

static struct collect_trace_span *make(size_t n, uint64_t pods, struct export_otlp_attr *attr)
{
	struct collect_trace_span *s = calloc(n, sizeof(*s));

	assert_non_null(s);
	for (size_t i = 0; i < n; i++) {
		attr[i] = (struct export_otlp_attr){
			.key = "value", .type = EXPORT_OTLP_I64, .i64 = (int64_t)i * 10};
		s[i] = (struct collect_trace_span){
			.next = i + 1 < n ? &s[i + 1] : NULL,
			.instance = 1 + i % pods,
			.o.span_id = 100 + i,
			.o.name = "",
			.service = "",
			.pod = "",
			.o.message = "",
			.o.attr_count = 1,
			.o.attrs = &attr[i],
		};
	}
	return s;
}

static void spans_go_out_by_pod_in_their_order_and_each_once(void **state)
{
	struct export_otlp_attr attr[7];
	struct collect_trace_span *s = make(7, 3, attr);
	struct collect_trace t = {.trace_lo = 1, .first = s, .start_ns = 5};
	static const uint64_t order[] = {100, 103, 106, 101, 102, 105};

	(void)state;
	memset(&got, 0, sizeof(got));
	s[4].sent = true; /* 104 */
	assert_true(collect_trace_export(NULL, &t, 6));
	assert_int_equal(got.calls, 3);
	assert_int_equal(got.spans, 6);
	assert_true(got.again); /* it began before us */
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(got.span[i].span_id, order[i]);
		assert_int_equal(got.span[i].value, (order[i] - 100) * 10);
		assert_int_equal(strtoul(got.span[i].instance, NULL, 16), 1 + (order[i] - 100) % 3);
	}
	for (int i = 0; i < 7; i++)
		s[i].sent = true;
	got.certain = true;
	assert_true(collect_trace_export(NULL, &t, 6));
	assert_int_equal(got.calls, 3);
	s[0].sent = false;
	assert_true(collect_trace_export(NULL, &t, 6));
	assert_int_equal(got.spans, 7);
	assert_false(got.again);
	free(s);
}

/* With quadratic work this would take minutes, and exceed the time limit of the test. */
static void a_trace_of_many_pods_costs_only_its_spans(void **state)
{
	size_t n = 500000;
	struct export_otlp_attr *attr = calloc(n, sizeof(*attr));
	struct collect_trace_span *s = make(n, n, attr);
	struct collect_trace t = {.trace_lo = 1, .first = s};

	(void)state;
	memset(&got, 0, sizeof(got));
	assert_true(collect_trace_export(NULL, &t, 0));
	assert_int_equal(got.calls, n);
	assert_int_equal(got.spans, n);
	free(s);
	free(attr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spans_go_out_by_pod_in_their_order_and_each_once),
		cmocka_unit_test(a_trace_of_many_pods_costs_only_its_spans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
