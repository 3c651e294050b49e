// SPDX-License-Identifier: Apache-2.0
/* test_api_kernel.c - connections, layers of the stack, latency between hosts. */
#include <math.h>

#include "api.h"
#include "../region/make_flows.h"

static double layer(const json_t *span, const char *name, const char *what)
{
	return number(json_object_get(json_object_get(span, "layers"), name), what);
}

void layers_are_sorted_by_answers_with_quantiles(void **state)
{
	json_t *all = ask_json("/api/v1/layers", 200), *list = json_object_get(all, "workloads");
	json_t *w = json_array_get(list, 0), *late = json_object_get(w, "late"), *host;

	(void)state;
	assert_int_equal(json_array_size(list), 3);
	assert_true(number(all, "matching") == 3);
	assert_string_equal(string(w, "pod"), "cart-0");
	assert_string_equal(string(w, "role"), "server");
	assert_string_equal(string(w, "port"), "8080");
	assert_true(number(w, "late_seconds") == 12);
	assert_true(number(late, "requests") == 100 && number(late, "unattributed") == 3);
	assert_true(layer(late, "app", "count") == 100);
	assert_true(layer(json_object_get(w, "all"), "app", "count") == 1000);
	/* In the bucket that ends at 2^-6 s, in the middle of it on the logarithmic scale. */
	assert_true(fabs(layer(late, "app", "p50") / exp2(-6.25) - 1) < 1e-9);
	assert_true(layer(late, "app", "p99") > layer(late, "app", "p90"));
	/* There is no recent data, so that quantiles are absent. */
	w = json_object_get(json_array_get(list, 2), "late");
	w = json_object_get(json_object_get(w, "layers"), "app");
	assert_true(json_is_null(json_object_get(w, "p50")));
	assert_true(json_is_null(json_object_get(w, "mean")));
	host = json_array_get(json_object_get(all, "hosts"), 0);
	assert_true(number(json_object_get(host, "causes"), "retransmit") == 3);
	assert_int_equal(json_object_size(json_object_get(host, "causes")), 1);
	json_decref(all);
	all = ask_json("/api/v1/layers?role=client&q=cart%205432&host=node-1", 200);
	w = json_array_get(json_object_get(all, "workloads"), 0);
	assert_true(number(all, "matching") == 1);
	assert_string_equal(string(w, "port"), "5432");
	json_decref(all);
	all = ask_json("/api/v1/layers?limit=1", 200);
	assert_int_equal(json_array_size(json_object_get(all, "workloads")), 1);
	json_decref(all);
	json_decref(ask_json("/api/v1/layers?role=x", 400));
	json_decref(ask_json("/api/v1/layers?limit=1001", 400));
}

/*
 * Few enough keys for exact results: each talker has the sum of its flows, and all talkers the
 * total.
 */
void top_talkers_have_exact_sums_below_the_bound(void **state)
{
	static const char *const wrong[] = {"by=x", "limit=0", "limit=101"};
	json_t *flows = ask_json("/api/v1/flows?limit=1000", 200), *all, *f;
	double want = 0, total = 0, sum = 0, count = 0;
	char path[64];
	size_t i;

	(void)state;
	json_array_foreach(json_object_get(flows, "flows"), i, f)
	{
		double bytes = number(f, "bytes_sent") + number(f, "bytes_received");

		if (!strcmp(string(f, "role"), "listener"))
			continue;
		count++;
		total += bytes;
		want += strcmp(string(f, "remote"), "10.0.0.2") ? 0 : bytes;
	}
	all = ask_json("/api/v1/flows/top?limit=100", 200);
	assert_true(number(all, "flows") == count && number(all, "lost") == 0);
	assert_true(number(all, "bytes") == total && number(all, "unlisted_at_most") == 0);
	f = json_array_get(json_object_get(all, "talkers"), 0);
	assert_string_equal(string(f, "remote"), "10.0.0.2");
	assert_true(number(f, "bytes") == want && number(f, "error") == 0);
	json_decref(all);
	all = ask_json("/api/v1/flows/top?by=workload", 200);
	json_array_foreach(json_object_get(all, "talkers"), i, f)
	{
		assert_true(i < 1 || number(f, "bytes") <= want);
		want = number(f, "bytes");
		sum += want;
	}
	assert_true(sum == total);
	json_decref(all);
	all = ask_json("/api/v1/flows/top?host=nowhere", 200);
	assert_true(number(all, "flows") == 0);
	json_decref(all);
	json_decref(flows);
	for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		snprintf(path, sizeof(path), "/api/v1/flows/top?%s", wrong[i]);
		json_decref(ask_json(path, 400));
	}
}

void flows_are_sorted_by_relevance_with_their_causes(void **state)
{
	static const char *const wrong[] = {"sort=x",	  "state=x", "limit=1001",  "port=0",
					    "port=65536", "id=0",    "limited_by=x"};
	json_t *all = ask_json("/api/v1/flows", 200), *list = json_object_get(all, "flows"), *f, *s;
	char path[64];
	size_t i;

	(void)state;
	assert_int_equal(json_array_size(list), 100);
	assert_true(number(all, "matching") == 304);
	f = json_array_get(list, 0);
	assert_true(number(f, "id") == 1 && number(f, "bytes_per_second") == 5000000);
	assert_string_equal(string(f, "limit"), "loss-fast");
	assert_string_equal(string(f, "limit_label"), "losses");
	assert_non_null(strstr(string(f, "why"), "9 segments retransmitted"));
	assert_string_equal(string(f, "pod"), "cart-0");
	assert_string_equal(string(f, "remote"), "10.0.0.2");
	assert_string_equal(string(f, "role"), "server");
	assert_null(json_object_get(f, "numbers"));
	json_decref(all);
	/* Only the requested part, in the requested order. */
	all = ask_json("/api/v1/flows?sort=bytes&limit=3", 200);
	list = json_object_get(all, "flows");
	assert_int_equal(json_array_size(list), 3);
	assert_true(number(json_array_get(list, 0), "id") == 1);
	assert_true(number(json_array_get(list, 1), "id") == 4);
	assert_true(number(json_array_get(list, 2), "id") == 2);
	json_decref(all);
	all = ask_json("/api/v1/flows?sort=rtt&limit=1&pod=cart-0&port=5432", 200);
	f = json_array_get(json_object_get(all, "flows"), 0);
	assert_true(number(all, "matching") == 1 && number(f, "id") == 2);
	assert_string_equal(string(f, "role"), "client");
	assert_string_equal(string(f, "limit"), "application");
	json_decref(all);
	all = ask_json("/api/v1/flows?id=1&host=node-1&remote=10.0.0.2&state=open", 200);
	f = json_array_get(json_object_get(all, "flows"), 0);
	assert_true(json_array_size(json_object_get(f, "numbers")) > 3);
	json_decref(all);
	all = ask_json("/api/v1/flows?limited_by=loss-fast", 200);
	assert_true(number(all, "matching") > 0);
	json_array_foreach(json_object_get(all, "flows"), i, f)
		assert_string_equal(string(f, "limit"), "loss-fast");
	json_decref(all);
	all = ask_json("/api/v1/flows?q=cart&state=listen&limit=0", 200);
	assert_true(number(all, "matching") == 1);
	assert_int_equal(json_array_size(json_object_get(all, "flows")), 0);
	json_decref(all);
	for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		snprintf(path, sizeof(path), "/api/v1/flows?%s", wrong[i]);
		json_decref(ask_json(path, 400));
	}
	s = ask_json("/api/v1/status", 200);
	f = json_array_get(json_object_get(s, "layers"), 0);
	assert_true(json_is_true(json_object_get(f, "present")) && number(f, "passes") == 7);
	f = json_array_get(json_object_get(s, "tcp"), 0);
	assert_string_equal(string(f, "host"), "node-1");
	assert_true(number(f, "open") == 303 && number(f, "passes") == 7);
	f = json_array_get(json_object_get(s, "net"), 1);
	assert_string_equal(string(f, "host"), "node-2");
	json_decref(s);
}

/* The kernel gives ~0 as the smallest RTT of a connection that was never established. */
void an_rtt_that_was_never_measured_is_0(void **state)
{
	const struct region_flow *kept = collector.flows[0].now;
	struct region_flow f = *kept;
	struct make_flows m;
	json_t *all;

	(void)state;
	f.srtt_us = 0;
	f.rtt_min_us = UINT32_MAX;
	make_flows(&m, 1, 8, 1);
	make_flow(&m, 0, &f);
	assert_int_equal(region_flow_parse(m.slot[0], &f), REGION_FAULT_NONE);
	make_flows_free(&m);
	collector.flows[0].now = &f;
	all = ask_json("/api/v1/flows?id=1", 200);
	assert_true(number(json_array_get(json_object_get(all, "flows"), 0), "rtt_min_seconds") ==
		    0);
	json_decref(all);
	collector.flows[0].now = kept;
}

void pair_latency_has_its_bound_and_the_whole_path(void **state)
{
	json_t *all = ask_json("/api/v1/net", 200), *p, *port, *way, *parts;
	double sum = 0;

	(void)state;
	p = json_array_get(json_object_get(all, "pairs"), 0);
	assert_true(number(all, "matching") == 1 && number(all, "refused") == 5);
	assert_string_equal(string(json_object_get(p, "a"), "host"), "node-1");
	assert_true(number(json_object_get(p, "b"), "sent") == 101);
	assert_true(number(json_object_get(p, "causes"), "lost") == 4);
	assert_int_equal(json_object_size(json_object_get(p, "causes")), 1);
	assert_true(number(json_object_get(p, "clock"), "offset") == 0.007);
	port = json_array_get(json_object_get(p, "ports"), 0);
	assert_true(number(port, "port") == 8080 && number(port, "late_seconds") == 12);
	way = json_object_get(port, "back");
	assert_true(number(way, "count") == 100 && fabs(number(way, "bound") - 4e-6) < 1e-15);
	/* Negative ones are counted as such, and are part of the mean. */
	assert_true(number(way, "negative") == 2);
	assert_true(fabs(number(way, "mean") - (98 * 20e-6 - 2 * 0.5e-6) / 100) < 1e-12);
	assert_true(number(json_object_get(port, "there"), "reordered_total") == 1);
	/* For both together there is no bound. */
	way = json_object_get(port, "both");
	assert_true(fabs(number(way, "mean") - 50e-6) < 1e-12 && !json_object_get(way, "bound"));
	/*
	 * node-2 calls: the way to node-1 is "back". The parts are in chronological order, and add
	 * up.
	 */
	assert_int_equal(json_array_size(json_object_get(port, "trips")), 1);
	p = json_array_get(json_object_get(port, "trips"), 0);
	assert_string_equal(string(p, "client"), "b");
	parts = json_object_get(p, "parts");
	assert_int_equal(json_array_size(parts), 15);
	assert_string_equal(string(json_array_get(parts, 3), "part"), "wire_there");
	assert_true(number(json_array_get(parts, 3), "mean") < 20e-6);
	assert_true(fabs(number(json_array_get(parts, 11), "mean") - 30e-6) < 1e-12);
	assert_true(number(json_array_get(parts, 0), "count") == 5);
	for (size_t i = 0; i < 15; i++)
		sum += number(json_array_get(parts, i), "mean");
	assert_true(fabs(sum - number(p, "mean")) < 1e-12);
	p = json_array_get(json_object_get(all, "hosts"), 1);
	assert_true(number(p, "missed") == 2 && number(p, "elsewhere") == 3);
	json_decref(all);
	all = ask_json("/api/v1/net?port=8080&host=node-2", 200);
	assert_true(number(all, "matching") == 1);
	json_decref(all);
	all = ask_json("/api/v1/net?port=80", 200);
	assert_true(number(all, "matching") == 0);
	json_decref(all);
	all = ask_json("/api/v1/net?host=node-3", 200);
	assert_true(number(all, "matching") == 0);
	json_decref(all);
	json_decref(ask_json("/api/v1/net?port=0", 400));
	json_decref(ask_json("/api/v1/net?limit=65", 400));
}
