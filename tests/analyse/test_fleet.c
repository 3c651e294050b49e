// SPDX-License-Identifier: Apache-2.0
/*
 * test_fleet.c - pipelines of many pods judged together: evidence of all kinds on one scale, with
 * and without a call graph, and with any input.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "analyse/fleet.h"
#include "analyse/role.h"
#include "noise.h"

#define STEP	1000000000ull
#define PODS	12u
#define COLUMNS 10u
#define TRAIN	200
#define MANY	5000u

enum { FRONT, CART, DB, MAIL, SERVICES };
static const char *const service[SERVICES] = {"front", "cart", "db", "mail"};
static const uint32_t caller_of[SERVICES] = {SERVICES, FRONT, CART, FRONT};
enum { CPU = 6, ERRORS, QUEUE, MEMORY };

static const struct analyse_column column[COLUMNS] = {
	{"client_latency_p90", false},
	{"client_latency_p95", false},
	{"client_latency_p99", false},
	{"server_latency_p90", false},
	{"server_latency_p95", false},
	{"server_latency_p99", false},
	{"cpu", false},
	{"errors_total", true},
	{"queue", false},
	{"memory", false},
};

struct world {
	struct analyse_fleet *fleet;
	struct analyse_pipeline *pod[PODS];
	uint32_t of[PODS]; /* its service */
	struct analyse_verdict v[PODS];
	double value[PODS][COLUMNS];
	double delay[SERVICES];	      /* of calls to it, s */
	int64_t shift[PODS];	      /* of its clock */
	bool silent[PODS], nan[PODS]; /* no rows; nothing but NaN */
	bool chains;		      /* two chains: the front doesn't call the cart */
	bool few;		      /* few requests of the front reach the cart */
	double heavy;		      /* share of steps whose latencies have no bounds */
	double cpu[PODS], errors[PODS], queue[PODS];
	uint64_t t, seed;
	uint32_t pods;
	unsigned int alarms[PODS]; /* since they were cleared */
};

static void add_pod(struct world *w, uint32_t of)
{
	struct analyse_pipeline_opts o = {.columns = 16, .false_alarms = 1, .seed = 1 + w->pods};
	struct analyse_pipeline *p = analyse_pipeline_create(&o);

	assert_non_null(p);
	assert_int_equal(analyse_pipeline_columns(p, column, COLUMNS), 0);
	assert_int_equal(analyse_fleet_join(w->fleet, p, service[of]), 0);
	analyse_pipeline_learning(p, ANALYSE_LEARN_ALL);
	w->of[w->pods] = of;
	w->pod[w->pods++] = p;
}

static void add_traces(struct world *w, bool cycle)
{
	struct analyse_graph *g = analyse_fleet_graph(w->fleet);
	uint32_t id[SERVICES];
	struct analyse_span spans[] = {
		{0, ANALYSE_SPAN_ROOT}, {0, 0}, {0, 1}, {0, 0}, {0, cycle ? 2 : 0}};

	for (uint32_t i = 0; i < SERVICES; i++)
		id[i] = (uint32_t)analyse_graph_service(g, service[i]);
	spans[0].service = id[FRONT];
	spans[1].service = id[CART];
	spans[2].service = id[DB];
	spans[3].service = id[MAIL];
	spans[4].service = id[cycle ? CART : FRONT]; /* the database calls the cart */
	assert_int_equal(analyse_graph_add(g, spans, 5), 0);
}

static struct world make(uint32_t replicas)
{
	struct world w = {.t = 1000 * STEP, .seed = 7};

	w.fleet = analyse_fleet_create(1.0 / 3600, 1);
	assert_non_null(w.fleet);
	for (uint32_t i = 0; i < SERVICES; i++)
		for (uint32_t k = 0; k < replicas; k++)
			add_pod(&w, i);
	return w;
}

static double jitter(struct world *w)
{
	return exp(0.1 * noise_normal(&w->seed));
}

static void fill(struct world *w, uint32_t i)
{
	static const double tail[] = {1, 1.3, 2};
	uint32_t me = w->of[i];
	double *v = w->value[i], client = 0, stall = 1;

	if (noise_uniform(&w->seed) < w->heavy)
		stall = pow(noise_uniform(&w->seed), -1.5);
	for (uint32_t k = 0; k < SERVICES; k++)
		if (caller_of[k] == me && !(w->chains && k == CART))
			client += 0.01 + w->delay[k];
	client += me == FRONT && !w->chains ? w->delay[DB] : 0; /* through the cart */
	for (uint32_t j = 0; j < 3; j++) {
		if (w->few && me == FRONT)
			client = 0.03 + (j == 2 ? w->delay[CART] : 0);
		v[j] = client > 0 ? client * tail[j] * jitter(w) * stall : NAN;
		v[3 + j] = (0.02 + client + w->delay[me]) * tail[j] * jitter(w) * stall;
	}
	v[CPU] = 50 + noise_normal(&w->seed) + w->cpu[i];
	v[ERRORS] += w->errors[i];
	v[QUEUE] = 5 + noise_normal(&w->seed) + w->queue[i];
	v[MEMORY] = 1e8 + 1e5 * noise_normal(&w->seed);
	for (uint32_t c = 0; c < COLUMNS && w->nan[i]; c++)
		v[c] = c % 3 ? (double)NAN : c % 2 ? HUGE_VAL : -HUGE_VAL;
}

static void step(struct world *w)
{
	struct analyse_pipeline *row[PODS] = {0};
	struct analyse_verdict v[PODS];
	uint32_t who[PODS], n = 0;

	w->t += STEP;
	for (uint32_t i = 0; i < w->pods; i++) {
		memset(&w->v[i], 0, sizeof(w->v[i]));
		fill(w, i);
		if (w->silent[i] || analyse_pipeline_score(w->pod[i], w->t + (uint64_t)w->shift[i],
							   w->value[i], &v[n]))
			continue;
		row[n] = w->pod[i];
		who[n++] = i;
	}
	assert_int_equal(analyse_fleet_judge(w->fleet, row, v, n), 0);
	for (uint32_t k = 0; k < n; k++) {
		w->v[who[k]] = v[k];
		w->alarms[who[k]] += v[k].anomalous;
		assert_true(isfinite(v[k].score) && v[k].score >= 0);
	}
}

static void run(struct world *w, int steps)
{
	while (steps--)
		step(w);
}

/* Learns, then judges some steps without any fault. */
static void learn(struct world *w)
{
	run(w, TRAIN);
	for (uint32_t i = 0; i < w->pods; i++)
		analyse_pipeline_learning(w->pod[i], ANALYSE_LEARN_GATED);
	run(w, 20);
	memset(w->alarms, 0, sizeof(w->alarms));
}

static void end(struct world *w)
{
	for (uint32_t i = 0; i < w->pods; i++) {
		analyse_fleet_leave(w->fleet, w->pod[i]);
		analyse_pipeline_free(w->pod[i]);
	}
	analyse_fleet_free(w->fleet);
}

/* Asserts that no pod except this one was ever anomalous. */
static void only(const struct world *w, uint32_t pod)
{
	for (uint32_t i = 0; i < w->pods; i++)
		if (!w->alarms[i] != (i != pod))
			fail_msg("pod %u: %u alarms, the culprit is %u", i, w->alarms[i], pod);
}

/* ---- evidence ---- */

static void a_slow_service_is_named_and_not_its_callers(void **state)
{
	const char *name[ANALYSE_CALLERS];
	struct world w = make(1);

	(void)state;
	add_traces(&w, false);
	learn(&w);
	w.delay[DB] = 0.4;
	run(&w, 3);
	only(&w, DB);
	assert_true(w.v[DB].culprit > 1 && w.v[DB].delay > 0.1f && w.v[DB].delay < 1);
	assert_int_equal(analyse_fleet_callers(w.fleet, w.pod[DB], name), 2);
	assert_true((!strcmp(name[0], "cart") && !strcmp(name[1], "front")) ||
		    (!strcmp(name[1], "cart") && !strcmp(name[0], "front")));
	assert_int_equal(analyse_fleet_callers(w.fleet, w.pod[FRONT], name), -ENOENT);
	end(&w);
}

/* Usual latencies stay those before the fault, also those of the callers that show it. */
static void a_slow_service_is_named_until_it_is_over(void **state)
{
	struct world w = make(1);

	(void)state;
	add_traces(&w, false);
	learn(&w);
	w.delay[DB] = 0.4;
	run(&w, 200);
	print_message("%u of 200 steps\n", w.alarms[DB]);
	assert_true(w.alarms[DB] >= 195);
	only(&w, DB);
	w.delay[DB] = 0;
	run(&w, 3);
	memset(w.alarms, 0, sizeof(w.alarms));
	run(&w, 60);
	only(&w, SERVICES);
	end(&w);
}

/* Two chains of calls, front -> mail and cart -> db. */
static void add_chains(struct world *w)
{
	struct analyse_graph *g = analyse_fleet_graph(w->fleet);
	struct analyse_span spans[2] = {{0, ANALYSE_SPAN_ROOT}, {0, 0}};

	for (uint32_t i = 0; i < SERVICES; i += 2) {
		spans[0].service = (uint32_t)analyse_graph_service(g, service[i ? CART : FRONT]);
		spans[1].service = (uint32_t)analyse_graph_service(g, service[i ? DB : MAIL]);
		assert_int_equal(analyse_graph_add(g, spans, 2), 0);
	}
	w->chains = true;
}

/* If few calls go to the cart, a slow cart only shows in the front's highest quantile. */
static void paths_count_as_often_as_they_are_taken_now(void **state)
{
	struct world w = make(1);
	struct analyse_graph *g = analyse_fleet_graph(w.fleet);
	struct analyse_span mail[] = {
		{(uint32_t)analyse_graph_service(g, "front"), ANALYSE_SPAN_ROOT},
		{(uint32_t)analyse_graph_service(g, "mail"), 0}};

	(void)state;
	add_traces(&w, false);
	step(&w);
	for (uint32_t i = 0; i < 50; i++)
		assert_int_equal(analyse_graph_add(g, mail, 2), 0);
	w.few = true;
	learn(&w);
	w.delay[CART] = 0.5;
	run(&w, 2);
	/* With the shares of the first traces, the front would contradict it: a score below 2. */
	assert_true(w.v[CART].culprit > 4);
	end(&w);
}

/*
 * A fault explains what its callers show, and nothing else: neither another chain of calls, nor
 * another service that the same caller calls.
 */
static void faults_at_once_are_all_found(void **state)
{
	(void)state;
	for (int chains = 0; chains < 2; chains++) {
		struct world w = make(1);

		if (chains)
			add_chains(&w);
		else
			add_traces(&w, false);
		learn(&w);
		w.delay[DB] = 1;
		w.delay[MAIL] = 0.2;
		run(&w, 5);
		print_message("%s: alarms of front %u, cart %u, db %u, mail %u\n",
			      chains ? "chains" : "tree", w.alarms[FRONT], w.alarms[CART],
			      w.alarms[DB], w.alarms[MAIL]);
		assert_true(w.alarms[DB] >= 3 && w.alarms[MAIL] >= 3);
		assert_true(!w.alarms[FRONT] && !w.alarms[CART]);
		end(&w);
	}
}

/* Errors and other metrics still count when there is a call graph, each by its own threshold. */
static void each_kind_of_fault_is_found_with_or_without_graph(void **state)
{
	(void)state;
	for (int graph = 0; graph < 2; graph++)
		for (int kind = 0; kind < 3; kind++) {
			struct world w = make(1);

			if (graph)
				add_traces(&w, false);
			learn(&w);
			w.cpu[CART] = kind == 0 ? 100 : 0;
			w.errors[CART] = kind == 1 ? 20 : 0;
			w.queue[CART] = kind == 2 ? 1e6 : 0;
			run(&w, 3);
			if (w.v[CART].score <= 1)
				fail_msg("graph %d, kind %d: %g", graph, kind,
					 (double)w.v[CART].score);
			only(&w, CART);
			assert_int_equal(w.v[CART].blame[0].column, CPU + kind);
			end(&w);
		}
}

/* All errors of the database are also errors of its callers, which count their own as well. */
static void errors_are_those_of_the_callee(void **state)
{
	struct world w = make(1);

	(void)state;
	add_traces(&w, false);
	learn(&w);
	w.errors[DB] = 20;
	w.errors[CART] = w.errors[FRONT] = 25;
	run(&w, 3);
	only(&w, DB);
	assert_int_equal(w.v[DB].blame[0].column, ERRORS);
	end(&w);
}

/*
 * Normal latencies without an upper bound: faults of other kinds are found as soon as without them.
 */
static void a_heavy_tail_of_one_kind_hides_nothing_of_another(void **state)
{
	struct world quiet = make(1), heavy = make(1);

	(void)state;
	heavy.heavy = 0.1;
	learn(&quiet);
	learn(&heavy);
	assert_true(heavy.v[CART].threshold > 1.5f * quiet.v[CART].threshold);
	for (struct world *w = &quiet;; w = &heavy) {
		memset(w->alarms, 0, sizeof(w->alarms));
		w->cpu[CART] = 400;
		step(w);
		if (!w->alarms[CART])
			fail_msg("%s: score %g, threshold of all %g",
				 w == &quiet ? "quiet" : "heavy", (double)w->v[CART].score,
				 (double)w->v[CART].threshold);
		w->cpu[CART] = 0;
		run(w, 20);
		memset(w->alarms, 0, sizeof(w->alarms));
		w->errors[MAIL] = 5;
		run(w, 1);
		assert_true(w->alarms[MAIL]);
		if (w == &heavy)
			break;
	}
	end(&quiet);
	end(&heavy);
}

/* ---- input ---- */

static void calls_in_a_circle_end_and_have_a_culprit(void **state)
{
	struct world w = make(1);

	(void)state;
	add_traces(&w, true);
	learn(&w);
	w.cpu[DB] = 100;
	run(&w, 2);
	only(&w, DB);
	end(&w);
}

static void without_its_caller_a_pod_is_judged_by_itself(void **state)
{
	struct world w = make(1);

	(void)state;
	add_traces(&w, false);
	learn(&w);
	w.silent[CART] = w.silent[FRONT] = true;
	run(&w, 5);
	w.delay[DB] = 2;
	run(&w, 3);
	only(&w, DB);
	end(&w);
}

/* As in recorded data, the rows of one pod are hours off until its clock is corrected. */
static void a_pod_with_a_wrong_clock_disturbs_no_other(void **state)
{
	struct world w = make(1);

	(void)state;
	add_traces(&w, false);
	w.shift[MAIL] = 3 * 3600 * (int64_t)STEP;
	learn(&w);
	run(&w, 10);
	only(&w, SERVICES);
	w.shift[MAIL] = 0; /* set back by three hours */
	run(&w, 60);
	only(&w, SERVICES);
	w.cpu[MAIL] = 100;
	run(&w, 2);
	only(&w, MAIL);
	end(&w);
}

static void pods_come_and_go_while_they_are_scored(void **state)
{
	struct world w = make(2);

	(void)state;
	add_traces(&w, false);
	learn(&w);
	for (int i = 0; i < 6; i++) {
		uint32_t last = w.pods - 1;

		analyse_fleet_leave(w.fleet, w.pod[last]);
		analyse_pipeline_free(w.pod[last]);
		w.pods--;
		step(&w);
		add_pod(&w, w.of[last]);
		run(&w, 10);
	}
	only(&w, w.pods); /* the new one is still learning */
	w.cpu[FRONT] = 100;
	run(&w, 2);
	only(&w, FRONT);
	end(&w);
}

static void what_is_no_number_says_nothing(void **state)
{
	struct world w = make(1);

	(void)state;
	add_traces(&w, false);
	learn(&w);
	w.nan[CART] = true;
	run(&w, 30);
	assert_true(w.v[CART].score == 0 && !w.v[CART].blamed);
	w.nan[CART] = false;
	run(&w, 20);
	only(&w, SERVICES);
	w.cpu[CART] = 100;
	run(&w, 2);
	only(&w, CART);
	end(&w);
}

/* A single pod: there is nothing to compare it with, and no known caller. */
static void a_service_of_one_pod_is_judged(void **state)
{
	struct world w = {.t = 1000 * STEP, .seed = 7};

	(void)state;
	w.fleet = analyse_fleet_create(1.0 / 3600, 1);
	add_pod(&w, DB);
	learn(&w);
	w.delay[DB] = 1;
	run(&w, 2);
	only(&w, 0);
	end(&w);
}

static void thousands_of_pods_of_one_service_are_judged(void **state)
{
	struct analyse_fleet *f = analyse_fleet_create(1.0 / 3600, 1);
	struct analyse_pipeline **pod = calloc(MANY, sizeof(*pod));
	struct analyse_verdict *v = calloc(MANY, sizeof(*v));
	struct world w = {.fleet = f, .seed = 7, .of = {DB}};
	unsigned int others = 0;

	(void)state;
	add_traces(&w, false);
	for (uint32_t i = 0; i < MANY; i++) {
		pod[i] = analyse_pipeline_create(
			&(struct analyse_pipeline_opts){.columns = 16, .seed = i + 1});
		assert_non_null(pod[i]);
		analyse_pipeline_columns(pod[i], column, COLUMNS);
		assert_int_equal(analyse_fleet_join(f, pod[i], "db"), 0);
		analyse_pipeline_learning(pod[i], ANALYSE_LEARN_ALL);
	}
	for (uint64_t t = 1; t <= 82; t++) {
		for (uint32_t i = 0; i < MANY; i++) {
			/* A posterior over 5000 pods needs more evidence: by log(5000). */
			w.cpu[0] = i == 77 && t == 82 ? 1e7 : 0;
			fill(&w, 0);
			assert_int_equal(
				analyse_pipeline_score(pod[i], t * STEP, w.value[0], &v[i]), 0);
		}
		assert_int_equal(analyse_fleet_judge(f, pod, v, MANY), 0);
	}
	for (uint32_t i = 0; i < MANY; i++)
		others += i != 77 && v[i].anomalous;
	assert_true(v[77].anomalous && v[77].blame[0].column == CPU);
	if (others > 10) /* 1.4 are accepted */
		fail_msg("%u others", others);
	for (uint32_t i = 0; i < MANY; i++) {
		analyse_fleet_leave(f, pod[i]);
		analyse_pipeline_free(pod[i]);
	}
	analyse_fleet_free(f);
	free(pod);
	free(v);
}

static void a_name_says_which_kind_of_evidence(void **state)
{
	static const struct {
		const char *name;
		bool counter;
		enum analyse_role_kind kind;
	} names[] = {
		{"process_cpu_seconds_total", true, ANALYSE_ROLE_RESOURCE},
		{"go_memstats_heap_alloc_bytes", false, ANALYSE_ROLE_RESOURCE},
		{"shop_cache_bytes{cache=\"prices\"}", false, ANALYSE_ROLE_RESOURCE},
		{"http_response_bytes_total", true, ANALYSE_ROLE_LOAD},
		{"node_disk_free_bytes", false, ANALYSE_ROLE_LOAD},
		{"http_response_bytes_mean", false, ANALYSE_ROLE_OTHER},
		{"jobs{unit=\"_bytes\"}", false, ANALYSE_ROLE_OTHER},
		{"_bytes", false, ANALYSE_ROLE_OTHER},
		{"container_memory_failures_total{failure_type=\"pgfault\"}", true,
		 ANALYSE_ROLE_LOAD},
		{"http_requests_total{code=\"503\"}", true, ANALYSE_ROLE_ERRORS},
		{"mpi_step_seconds_mean", false, ANALYSE_ROLE_LATENCY},
		{"mpi_step_seconds_p90", false, ANALYSE_ROLE_SERVER},
		{"sidelight_tcp_layer_seconds_p90{layer=\"app\",port=\"80\",role=\"server\"}",
		 false, ANALYSE_ROLE_LATENCY},
		{"sidelight_tcp_request_seconds_p50{port=\"80\",role=\"server\"}", false,
		 ANALYSE_ROLE_LATENCY},
		{"sidelight_tcp_layer_seconds_count{layer=\"app\",port=\"80\",role=\"server\"}",
		 true, ANALYSE_ROLE_OTHER},
		{"mpi_collective_seconds_mean", false, ANALYSE_ROLE_OTHERS},
		{"mpi_step_seconds_count", true, ANALYSE_ROLE_OTHERS},
		{"mpi_retransmitted_segments_total", true, ANALYSE_ROLE_ERRORS},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(analyse_role_of(names[i].name, names[i].counter).kind,
				 names[i].kind);
}

static void a_name_says_what_it_tells_about_a_port(void **state)
{
	static const struct {
		const char *name;
		bool counter;
		enum analyse_port port;
		enum analyse_role_kind kind;
	} names[] = {
		{"node_infiniband_rate_bytes_per_second{device=\"mlx5_0\",port=\"1\"}", false,
		 ANALYSE_PORT_SPEED, ANALYSE_ROLE_OTHER},
		{"node_network_speed_bytes{device=\"eth2\"}", false, ANALYSE_PORT_SPEED,
		 ANALYSE_ROLE_OTHER},
		{"node_infiniband_port_discards_transmitted_total{device=\"mlx5_0\",port=\"1\"}",
		 true, ANALYSE_PORT_LOSSES, ANALYSE_ROLE_ERRORS},
		{"node_infiniband_port_data_received_bytes_total{device=\"mlx5_0\",port=\"1\"}",
		 true, ANALYSE_PORT_NONE, ANALYSE_ROLE_LOAD},
		{"sidelight_rdma_hw_counter_total{device=\"rxe0\",port=\"1\",counter=\"out_of_seq_"
		 "request\"}",
		 true, ANALYSE_PORT_LOSSES, ANALYSE_ROLE_ERRORS},
		{"sidelight_rdma_hw_counter_total{device=\"mlx5_0\",port=\"1\",counter=\"np_cnp_"
		 "sent\"}",
		 true, ANALYSE_PORT_NONE, ANALYSE_ROLE_OTHER},
		{"sidelight_nic_counter_total{device=\"eth2\",counter=\"rx_discards_phy\"}", true,
		 ANALYSE_PORT_LOSSES, ANALYSE_ROLE_ERRORS},
		{"sidelight_nic_counter_total{device=\"eth2\",counter=\"rx_xdp_drop\"}", true,
		 ANALYSE_PORT_NONE, ANALYSE_ROLE_OTHER},
		{"sidelight_nic_counter_total{device=\"eth2\",counter=\"rx_prio3_pause\"}", true,
		 ANALYSE_PORT_PAUSES, ANALYSE_ROLE_OTHER},
		{"sidelight_nic_counter_total{device=\"rx0\",counter=\"tx_prio3_pause\"}", true,
		 ANALYSE_PORT_NONE, ANALYSE_ROLE_OTHER},
		{"sidelight_nic_counter_total{device=\"eth2\",counter=\"rx_prio3_pause_duration\"}",
		 true, ANALYSE_PORT_NONE, ANALYSE_ROLE_LOAD},
		{"node_network_receive_drop_total{device=\"eth2\"}", true, ANALYSE_PORT_LOSSES,
		 ANALYSE_ROLE_LOAD},
		{"shop_drops_total", true, ANALYSE_PORT_NONE, ANALYSE_ROLE_OTHER},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct analyse_role role = analyse_role_of(names[i].name, names[i].counter);

		assert_int_equal(role.port, names[i].port);
		assert_int_equal(role.kind, names[i].kind);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_says_which_kind_of_evidence),
		cmocka_unit_test(a_name_says_what_it_tells_about_a_port),
		cmocka_unit_test(a_slow_service_is_named_and_not_its_callers),
		cmocka_unit_test(a_slow_service_is_named_until_it_is_over),
		cmocka_unit_test(paths_count_as_often_as_they_are_taken_now),
		cmocka_unit_test(faults_at_once_are_all_found),
		cmocka_unit_test(each_kind_of_fault_is_found_with_or_without_graph),
		cmocka_unit_test(errors_are_those_of_the_callee),
		cmocka_unit_test(a_heavy_tail_of_one_kind_hides_nothing_of_another),
		cmocka_unit_test(calls_in_a_circle_end_and_have_a_culprit),
		cmocka_unit_test(without_its_caller_a_pod_is_judged_by_itself),
		cmocka_unit_test(a_pod_with_a_wrong_clock_disturbs_no_other),
		cmocka_unit_test(pods_come_and_go_while_they_are_scored),
		cmocka_unit_test(what_is_no_number_says_nothing),
		cmocka_unit_test(a_service_of_one_pod_is_judged),
		cmocka_unit_test(thousands_of_pods_of_one_service_are_judged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
