// SPDX-License-Identifier: Apache-2.0
/* test_api_services.c - services and their map; figures are tested by test_services.c. */
#include "api.h"
#include "base/base.h"

static void look(void)
{
	static uint64_t ns = 1000000000;

	ns += 1000000000;
	fake_sync();
	for (size_t i = 0; i < collector.region_count; i++)
		regions[i].fresh_ns = ns;
	collect_services_look(services, (int64_t)base_realtime_ns(), ns);
	fake_sync();
}

static const json_t *named(const json_t *list, const char *name)
{
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v) if (!strcmp(string(v, "service"), name)) return v;
	fail_msg("no service %s", name);
	return NULL;
}

void services_are_told_by_what_needs_attention(void **state)
{
	const json_t *list, *v;
	double before = 101;
	json_t *whole;
	size_t i;

	(void)state;
	look();
	look();
	list = ask_list("/api/v1/services?window=60", "services", &whole);
	assert_true(number(whole, "window_seconds") == 60 && number(whole, "left_out") == 0);
	json_array_foreach(list, i, v)
	{
		assert_true(number(v, "attention") <= before);
		before = number(v, "attention");
		assert_int_equal(json_array_size(json_object_get(v, "spark")), 60);
	}
	v = named(list, "mail");
	assert_true(number(v, "pods") == 3 && number(v, "pods_dead") == 1 &&
		    number(v, "pods_stale") == 1);
	assert_string_equal(json_string_value(json_array_get(json_object_get(v, "instances"), 0)),
			    "0000000000000002");
	assert_true(json_is_null(json_object_get(v, "requests")));
	assert_string_equal(string(v, "attention_why"), "1 of its 3 pods died");
	v = named(list, "cart");
	assert_string_equal(string(json_object_get(v, "requests"), "metric"),
			    "http_requests_total");
	assert_true(number(json_object_get(v, "requests"), "per_second") == 0);
	json_decref(whole);
	json_decref(ask_json("/api/v1/services?window=0", 400));
	json_decref(ask_json("/api/v1/services?window=61", 400));
	json_decref(ask_json("/api/v1/services?window=1&window=2", 400));
}

static void assert_changing(const char *name, double unchanged)
{
	json_t *whole;
	const json_t *list = ask_list("/api/v1/metrics?changing=1&pod=" CART_ID, "metrics", &whole);

	assert_int_equal(json_array_size(list), name ? 1 : 0);
	assert_true(number(whole, "matching") == (name ? 1 : 0));
	assert_true(number(whole, "unchanged") == unchanged);
	if (name)
		assert_string_equal(string(json_array_get(list, 0), "name"), name);
	json_decref(whole);
}

void metrics_that_change_are_told_from_others(void **state)
{
	const uint64_t more = 8, none = 0, *const before = regions[0].metrics[1].value;

	(void)state;
	look();
	assert_changing(NULL, 9);
	regions[0].metrics[1].value = &more;
	look();
	assert_changing("http_requests_total", 8);
	/* Metrics that are 0 are hidden, even if they were not 0 one second ago. */
	regions[0].metrics[1].value = &none;
	look();
	assert_changing(NULL, 9);
	/* It changes now, and then remains constant for a minute. */
	regions[0].metrics[1].value = before;
	for (unsigned int i = 0; i < COLLECT_SERVICES_WINDOW; i++) {
		look();
		if (i == 0 || i == COLLECT_SERVICES_WINDOW - 1)
			assert_changing("http_requests_total", 8);
	}
	look();
	assert_changing(NULL, 9);
	json_decref(ask_json("/api/v1/metrics?changing=2", 400));
}

void the_map_has_each_edge_once(void **state)
{
	const json_t *list, *e;
	const struct region_info *workload = collector.flows[0].workload;
	json_t *whole;
	size_t i, k;

	(void)state;
	/* The workload of the simulated connections is in no list. */
	collector.flows[0].workload = &regions[0].info;
	look();
	collector.flows[0].workload = workload;
	list = ask_list("/api/v1/map", "nodes", &whole);
	named(list, "cart");
	assert_true(json_is_true(json_object_get(named(list, "outside"), "outside")));
	list = json_object_get(whole, "edges");
	assert_true(json_array_size(list) > 0);
	json_array_foreach(list, i, e)
	{
		assert_true(number(e, "bytes_per_second") >= 0);
		assert_true(json_is_null(json_object_get(e, "errors_per_second")));
		for (k = 0; k < i; k++)
			assert_false(
				!strcmp(string(json_array_get(list, k), "from"),
					string(e, "from")) &&
				!strcmp(string(json_array_get(list, k), "to"), string(e, "to")));
	}
	json_decref(whole);
	json_decref(ask_json("/api/v1/map?window=x", 400));
}

/*
 * mail-0 calls cart-0 within one trace; spans within one service, unknown or orphaned ones are not
 * calls.
 */
void calls_of_traces_are_edges(void **state)
{
	static struct collect_trace_span span[] = {
		{.instance = 2, .o = {.span_id = 1}, .duration_ns = 50000000},
		{.instance = 2, .o = {.span_id = 2, .parent_id = 1}, .duration_ns = 40000000},
		{.instance = CART, .o = {.span_id = 3, .parent_id = 2}, .duration_ns = 20000000},
		{.instance = CART, .o = {.span_id = 4, .parent_id = 2}, .duration_ns = 20000000},
		{.instance = 3, .o = {.span_id = 5, .parent_id = 2}, .duration_ns = 10000000},
		{.instance = 999, .o = {.span_id = 6, .parent_id = 2}, .duration_ns = 10000000},
		{.instance = CART, .o = {.span_id = 7, .parent_id = 77}, .duration_ns = 10000000},
		{.instance = CART, .o = {.span_id = 8, .parent_id = 8}, .duration_ns = 10000000},
	};
	static struct collect_trace traces[2] = {{.trace_hi = 1, .first = span},
						 {.trace_hi = 2, .first = span}};
	const json_t *list, *e;
	json_t *whole;
	size_t i, found = 0;

	(void)state;
	for (i = 0; i + 1 < sizeof(span) / sizeof(*span); i++)
		span[i].next = &span[i + 1];
	/* The other trace is too old. */
	traces[0].start_ns = base_realtime_ns();
	traces[1].start_ns = base_realtime_ns() - 3600000000000;
	tracer = (struct collect_tracer){traces, 2};
	look();
	list = ask_list("/api/v1/map", "edges", &whole);
	json_array_foreach(list, i, e)
	{
		const json_t *sources = json_object_get(e, "sources");

		if (strcmp(json_string_value(json_array_get(sources, 0)), "traces"))
			continue;
		found++;
		assert_string_equal(string(e, "from"), "mail");
		assert_string_equal(string(e, "to"), "cart");
		assert_true(number(e, "p50_seconds") > 0.018 && number(e, "p50_seconds") < 0.022);
		assert_true(number(e, "connections") == 0);
		assert_true(json_is_null(json_object_get(e, "requests_per_second")));
	}
	assert_int_equal(found, 1);
	json_decref(whole);
	tracer.trace_count = 0;
}
