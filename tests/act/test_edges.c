// SPDX-License-Identifier: Apache-2.0
/*
 * test_edges.c - connections seen by the kernel show which service calls which, and how often: a
 * graph that learns from traces made of them gets these shares.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

#include "analyse/graph.h"
#include "collect/judge/edges.h"
#include "region/flows.h"
#include "collect/tables/tables.h"

#define NONE "" /* of no workload */

struct world {
	struct collect_edges *edges;
	struct analyse_graph *graph;
	uint16_t port; /* port of the next connection */
	int64_t now_ns;
};

static struct world make(void)
{
	struct world w = {collect_edges_new(), analyse_graph_new(), 30000, 0};

	assert_non_null(w.edges);
	assert_non_null(w.graph);
	return w;
}

static void drop(struct world *w)
{
	collect_edges_free(w->edges);
	analyse_graph_free(w->graph);
}

static struct region_info workload(const char *service)
{
	static char space[16];
	const char *slash = strchr(service, '/');
	struct region_info info = {.label_count = slash ? 2 : *service ? 1 : 0};

	info.labels[0].key = "service";
	info.labels[0].value = slash ? slash + 1 : service;
	info.labels[1].key = "namespace";
	info.labels[1].value = space;
	snprintf(space, sizeof(space), "%.*s", slash ? (int)(slash - service) : 0, service);
	return info;
}

struct side {
	const char *target, *service;
	uint32_t requests;
	bool stale;
};

/* A connection both of whose ends are seen, from 10.0.0.1:port or 127.0.0.1:port to port 80. */
static void connection(struct world *w, struct side caller, struct side callee, bool loopback)
{
	const struct side *side[2] = {&caller, &callee};
	uint8_t from[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1};
	uint8_t to[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2};

	if (loopback)
		from[12] = to[12] = 127;
	for (int i = 0; i < 2; i++) {
		struct region_flow now = {.flags = i ? 0 : SL_FLOW_ACTIVE,
					  .local_port = i ? 80 : w->port,
					  .remote_port = i ? w->port : 80,
					  .data_segs_in = 1000 + side[i]->requests,
					  .data_segs_out = 1000 + 2 * side[i]->requests};
		struct region_flow before = {.data_segs_in = 1000, .data_segs_out = 1000};
		struct region_info info = workload(side[i]->service);
		struct collect_flow_view v = {.target = side[i]->target,
					      .stale = side[i]->stale,
					      .now = &now,
					      .before = &before,
					      .workload = *side[i]->service ? &info : NULL};

		memcpy(now.local, i ? to : from, 16);
		memcpy(now.remote, i ? from : to, 16);
		collect_edges_flow(w->edges, &v, w->now_ns);
	}
	w->port++;
}

/* Adds synthetic traces to the graph; returns the number of their spans. */
static uint32_t learn(struct world *w, int traces)
{
	struct collect_edges_span made[COLLECT_EDGES_SPANS];
	struct analyse_span span[COLLECT_EDGES_SPANS];
	uint32_t all = 0;

	while (traces--) {
		uint32_t n = collect_edges_trace(w->edges, made);

		assert_in_range(n, 0, COLLECT_EDGES_SPANS);
		for (uint32_t i = 0; i < n; i++) {
			char name[64];
			int64_t service;

			snprintf(name, sizeof(name), "%s%s%s", made[i].owner,
				 *made[i].owner ? "/" : "", made[i].service);
			service = analyse_graph_service(w->graph, name);
			assert_true(made[i].kernel);
			assert_true(service >= 0);
			assert_true(i ? made[i].parent < i : made[i].parent == ANALYSE_SPAN_ROOT);
			span[i] = (struct analyse_span){(uint32_t)service, made[i].parent};
		}
		if (n)
			assert_int_equal(analyse_graph_add(w->graph, span, n), 0);
		all += n;
	}
	return all;
}

static const struct analyse_path *path(struct world *w, const char *caller, const char *callee)
{
	uint32_t n, a = (uint32_t)analyse_graph_service(w->graph, caller),
		    b = (uint32_t)analyse_graph_service(w->graph, callee);
	const struct analyse_path *p = analyse_graph_paths(w->graph, &n);

	for (uint32_t i = 0; i < n; i++)
		if (p[i].caller == a && p[i].callee == b)
			return &p[i];
	return NULL;
}

#define SIDE(...) ((struct side){.target = "host", __VA_ARGS__})

/*
 * Of 100 requests to the front, 40 call the cart, and each of these calls the database three times.
 */
static void shares_are_those_of_requests(void **state)
{
	struct world w = make();

	(void)state;
	for (int i = 0; i < 50; i++) {
		connection(&w, SIDE(NONE), SIDE("front (tcp)", 60), false);
		connection(&w, SIDE(NONE), SIDE("front (tcp)", 40), false);
		connection(&w, SIDE("front (tcp)", 40), SIDE("cart (tcp)", 40), false);
		connection(&w, SIDE("cart (tcp)", 120), SIDE("database (tcp)", 120), false);
		connection(&w, SIDE("front (tcp)", 9), SIDE(NONE), false);
		collect_edges_settle(w.edges);
	}
	assert_true(learn(&w, 4000) > 4000);
	assert_float_equal(path(&w, "front", "cart")->server, 0.4, 0.03);
	assert_float_equal(path(&w, "front", "cart")->client, 1, 0.001);
	assert_float_equal(path(&w, "front", "cart")->calls, 1, 0.001);
	assert_float_equal(path(&w, "front", "database")->server, 0.4, 0.03);
	assert_float_equal(path(&w, "cart", "database")->calls, 3, 0.01);
	assert_null(path(&w, "cart", "front"));
	drop(&w);
}

/* Requests start at a client that serves no requests. */
static void a_client_is_a_caller_as_well(void **state)
{
	struct world w = make();

	(void)state;
	connection(&w, SIDE("job", 30), SIDE("front", 30), false);
	collect_edges_settle(w.edges);
	learn(&w, 100);
	assert_float_equal(path(&w, "job", "front")->client, 1, 0.001);
	drop(&w);
}

/* Equal loopback addresses on two hosts are two connections. */
static void loopback_is_of_a_host(void **state)
{
	struct world w = make();

	(void)state;
	for (int same = 0; same < 2; same++) {
		connection(&w, (struct side){"one", "front", 10, false},
			   (struct side){same ? "one" : "other", "cart", 10, false}, true);
		collect_edges_settle(w.edges);
		assert_true((learn(&w, 50) > 0) == same);
	}
	drop(&w);
}

static void what_is_stale_or_over_is_forgotten(void **state)
{
	struct world w = make();

	(void)state;
	connection(&w, (struct side){"host", "front", 10, true},
		   (struct side){"host", "cart", 10, true}, false);
	collect_edges_settle(w.edges);
	assert_int_equal(learn(&w, 50), 0);
	/* Idle for longer than connections are active: their last two states do not change. */
	w.now_ns = 2 * COLLECT_FLOW_SILENT_NS;
	connection(&w, SIDE("front", 10), SIDE("cart", 10), false);
	collect_edges_settle(w.edges);
	assert_int_equal(learn(&w, 50), 0);
	w.now_ns = 0;
	connection(&w, SIDE("front", 10), SIDE("cart", 10), false);
	collect_edges_settle(w.edges);
	assert_true(learn(&w, 50) > 0);
	for (int i = 0; i < 200; i++)
		collect_edges_settle(w.edges);
	assert_int_equal(learn(&w, 50), 0);
	drop(&w);
}

/* Services that call each other in a circle, and one that is called by ten thousand others. */
static void circles_and_crowds_end(void **state)
{
	struct world w = make();
	char name[32];

	(void)state;
	for (int i = 0; i < 10; i++) {
		connection(&w, SIDE("a", 1000), SIDE("b", 1000), false);
		connection(&w, SIDE("b", 5000), SIDE("a", 5000), false);
		connection(&w, SIDE("a", 7), SIDE("a", 7), false);
		collect_edges_settle(w.edges);
	}
	learn(&w, 200);
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "pod%d", i);
		connection(&w, SIDE(name, 1), SIDE("a", 1), false);
	}
	collect_edges_settle(w.edges);
	learn(&w, 200);
	drop(&w);
}

/* More names than fit, and services that sort before and after them. */
static void made_up_names_keep_no_service_out(void **state)
{
	struct world w = make();
	char name[32];

	(void)state;
	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "made up %d", i);
		connection(&w, SIDE(NONE), SIDE(name, 1), false);
		if (i == 500)
			connection(&w, SIDE("front", 10), SIDE("cart", 10), false);
	}
	for (int i = 0; i < 200; i++) {
		connection(&w, SIDE("front", 10), SIDE("cart", 10), false);
		connection(&w, SIDE("late", 10), SIDE("database", 10), false);
		collect_edges_settle(w.edges);
	}
	learn(&w, 400);
	assert_non_null(path(&w, "front", "cart"));
	assert_non_null(path(&w, "late", "database"));
	assert_null(path(&w, "front", "database"));
	drop(&w);
}

static void services_of_two_namespaces_are_two(void **state)
{
	struct world w = make();

	(void)state;
	for (int i = 0; i < 50; i++) {
		connection(&w, SIDE("shop/front", 40), SIDE("shop/cart", 40), false);
		connection(&w, SIDE("test/front", 40), SIDE("shop/mail", 40), false);
		collect_edges_settle(w.edges);
	}
	learn(&w, 200);
	assert_non_null(path(&w, "shop/front", "shop/cart"));
	assert_non_null(path(&w, "test/front", "shop/mail"));
	assert_null(path(&w, "shop/front", "shop/mail"));
	drop(&w);
}

int act_test_edges(void);
int act_test_edges(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_are_those_of_requests),
		cmocka_unit_test(a_client_is_a_caller_as_well),
		cmocka_unit_test(loopback_is_of_a_host),
		cmocka_unit_test(what_is_stale_or_over_is_forgotten),
		cmocka_unit_test(circles_and_crowds_end),
		cmocka_unit_test(made_up_names_keep_no_service_out),
		cmocka_unit_test(services_of_two_namespaces_are_two),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
