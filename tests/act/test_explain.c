// SPDX-License-Identifier: Apache-2.0
/*
 * test_explain.c - anomalies and incidents are explained in words and numbers with units, and pods
 * can be distinguished.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/test.h"
#include "act/explain.h"

#define T (1763694391 * 1000000000ll) /* 2025-11-21T03:06:31Z */

static const struct act_pod_name cart = {
	.pod = "cart-0", .service = "cart", .host = "node-1", .process = 12};

static struct act_anomaly anomaly(void)
{
	return (struct act_anomaly){
		.instance = 1,
		.name = cart,
		.begin_ns = T + 250000000,
		.peak = 5.34,
		.blames = 2,
		.blame = {{"db_seconds_p90{path=\"/\"}", 0.8123, 0.0201, 2.4e-7, false,
			   ACT_MEASURE_LATENCY, 0, false},
			  {"errors_total", 0.1, 58, 0, true, ACT_MEASURE_ERRORS, 0, false}},
	};
}

/* Times are local. Shares and scores are left out, because they mean nothing to a newcomer. */
static void a_pods_anomaly_says_what_since_when_and_how_much(void **state)
{
	struct act_anomaly a = anomaly();
	char text[ACT_EXPLANATION_BYTES];

	(void)state;
	act_explain(text, sizeof(text), &a);
	assert_string_equal(
		text, "cart-0 has been slow since 04:06:31 CET: p90 of db_seconds{path=\"/\"} "
		      "rose to 20.1 ms (usually 240 ns), and errors_total rose to 58 per "
		      "second (usually 0 per second). First, compare its latency with that "
		      "of the services that it calls.");
	a.blame[1].share = 0.09;
	act_explain(text, sizeof(text), &a);
	assert_null(strstr(text, "errors")); /* a small share is left out */
	a.blames = 0;
	act_explain(text, sizeof(text), &a);
	assert_ptr_equal(text,
			 strstr(text, "cart-0 has behaved unusually since 04:06:31 CET. First, "));
	a.last_ns = a.begin_ns + 3000000000;
	a.end_ns = a.last_ns + 1;
	act_explain(text, sizeof(text), &a);
	assert_string_equal(text, "cart-0 behaved unusually from 04:06:31 CET to 04:06:34 CET.");
	a.end_ns = 0;
	a.blames = 1;
	a.blame[0].before = NAN;
	act_explain(text, sizeof(text), &a);
	assert_non_null(strstr(text, "CET: p90 of db_seconds{path=\"/\"} is 20.1 ms."));
	a.blame[0].value = NAN;
	act_explain(text, sizeof(text), &a);
	assert_non_null(strstr(text, "CET: p90 of db_seconds{path=\"/\"} is unusual."));
}

static void a_slow_rank_is_to_be_looked_at(void **state)
{
	struct act_anomaly a = anomaly();
	char text[ACT_EXPLANATION_BYTES];

	(void)state;
	a.blames = 1;
	strcpy(a.blame[0].metric, "mpi_step_seconds_mean");
	act_explain(text, sizeof(text), &a);
	assert_string_equal(text,
			    "cart-0 has been slow since 04:06:31 CET: mean of "
			    "mpi_step_seconds rose to 20.1 ms (usually 240 ns). First, see "
			    "what it does while the other ranks wait for it: perf top -p 12.");
	a.blame[0] = (struct act_blame){
		"mpi_retransmitted_segments_total", 1, 4, 0, true, ACT_MEASURE_ERRORS, 0, false};
	act_explain(text, sizeof(text), &a);
	assert_string_equal(text,
			    "cart-0 has lost packets on its connections since 04:06:31 CET: "
			    "mpi_retransmitted_segments_total rose to 4 per second (usually 0 per "
			    "second). First, find out where its packets are lost: sidelight tcp "
			    "why.");
}

static void a_port_is_named_with_its_device(void **state)
{
	static const struct act_pod_name host = {
		.service = "host", .pod = "node-1", .host = "node-1"};
	static const struct {
		struct act_blame blame;
		const char *says;
	} is[] = {
		{{"sidelight_rdma_hw_counter_total{device=\"mlx5_0\",port=\"1\",counter=\"out_of_"
		  "sequence\"}",
		  1, 120, 0, true, ACT_MEASURE_LOSSES, 0, false},
		 "the host node-1 has lost packets at mlx5_0 port 1 since 04:06:31 CET: "
		 "sidelight_rdma_hw_counter_total{device=\"mlx5_0\",port=\"1\",counter=\"out_of_"
		 "sequence\"} rose to 120 per second (usually 0 per second). First, see which of "
		 "its counters rise, and check its cable: rdma statistic show link mlx5_0/1."},
		{{"sidelight_nic_counter_total{device=\"eth2\",counter=\"rx_prio3_pause\"}", 1,
		  20000, 0, true, ACT_MEASURE_PAUSES, 7, false},
		 "the host node-1 has been paused by its peer at eth2 since 04:06:31 CET: "
		 "sidelight_nic_counter_total{device=\"eth2\",counter=\"rx_prio3_pause\"} is 20000 "
		 "per second (median of its 7 siblings: 0 per second). First, see which priority "
		 "is paused, and look for a receiver behind the switch that is too slow: ethtool "
		 "-S eth2."},
		{{"node_infiniband_rate_bytes_per_second{device=\"mlx5_0\",port=\"1\"}", 1, 3.125e9,
		  12.5e9, false, ACT_MEASURE_SPEED, 3, false},
		 "the host node-1 has had a slow link at mlx5_0 port 1 since 04:06:31 CET: "
		 "node_infiniband_rate_bytes_per_second{device=\"mlx5_0\",port=\"1\"} is 25 Gb/s "
		 "(median of its 3 siblings: 100 Gb/s). First, check its cable and its port of "
		 "the switch: ibstat mlx5_0 1."},
		{{"node_network_speed_bytes{device=\"eth2\"}", 1, 1.25e8, 1.25e9, false,
		  ACT_MEASURE_SPEED, 0, false},
		 "the host node-1 has had a slow link at eth2 since 04:06:31 CET: "
		 "node_network_speed_bytes{device=\"eth2\"} fell to 1 Gb/s (usually 10 Gb/s). "
		 "First, check its cable and its port of the switch: ethtool eth2."},
	};

	(void)state;
	for (size_t k = 0; k < sizeof(is) / sizeof(*is); k++) {
		struct act_anomaly a = anomaly();
		char text[ACT_EXPLANATION_BYTES];

		a.name = host;
		a.blames = 1;
		a.blame[0] = is[k].blame;
		a.born_ns = T - 60000000000; /* a host has no versions */
		act_explain(text, sizeof(text), &a);
		assert_string_equal(text, is[k].says);
	}
}

/* A process that has stopped is named first, whatever else is unusual. */
static void a_process_without_progress_is_named(void **state)
{
	struct act_anomaly a = anomaly();
	char text[ACT_EXPLANATION_BYTES];

	(void)state;
	a.delay = 0.3;
	a.blame[1] = (struct act_blame){"http_requests_total", 0.1, 0,	  100, true,
					ACT_MEASURE_STOPPED,   0,   false};
	act_explain(text, sizeof(text), &a);
	assert_string_equal(text,
			    "cart-0 has finished no work since 04:06:31 CET: http_requests_total "
			    "fell to 0 per second (usually 100 per second), and p90 of "
			    "db_seconds{path=\"/\"} rose to 20.1 ms (usually 240 ns). First, see "
			    "whether its process is stopped, or its callers are: ps -p 12.");
}

/*
 * The sentence says whether work waits for the pod without progress, or whether the pod is given
 * none.
 */
static void silence_is_stuck_or_idle(void **state)
{
	struct act_anomaly a = anomaly();
	char text[ACT_EXPLANATION_BYTES];

	(void)state;
	a.blames = 1;
	a.blame[0] = (struct act_blame){"http_requests_total", 1, 0,	100, true,
					ACT_MEASURE_STOPPED,   0, false};
	strcpy(a.queue, "http_requests_in_flight");
	a.waiting = 12;
	act_explain(text, sizeof(text), &a);
	assert_string_equal(text,
			    "cart-0 has finished no work since 04:06:31 CET, while work waits for "
			    "it (http_requests_in_flight is 12): http_requests_total fell to 0 per "
			    "second (usually 100 per second). First, see whether its process is "
			    "stopped: ps -p 12.");
	a.waiting = 0;
	act_explain(text, sizeof(text), &a);
	assert_string_equal(text, "cart-0 has been given no work since 04:06:31 CET: "
				  "http_requests_total fell to 0 per second (usually 100 per "
				  "second). First, see why its callers have stopped.");
}

static void a_queue_that_only_grows_is_said(void **state)
{
	struct act_anomaly a = anomaly();
	char text[ACT_EXPLANATION_BYTES];

	(void)state;
	a.blames = 1;
	a.blame[0] = (struct act_blame){"queue_length",	     1, 63,  2, false,
					ACT_MEASURE_WAITING, 0, true};
	act_explain(text, sizeof(text), &a);
	assert_string_equal(text,
			    "cart-0 has been given more work than it finishes since 04:06:31 CET: "
			    "queue_length rose to 63 (usually 2), growing all the time. First, "
			    "find out what its requests wait for.");
}

static void a_fault_that_came_with_the_pod_says_so(void **state)
{
	struct act_incident i = {.cause = anomaly(), .begin_ns = T};
	char text[ACT_SENTENCE_BYTES];

	(void)state;
	i.cause.blames = 1;
	i.cause.born_ns = T - 60000000000;
	act_explain_incident(text, sizeof(text), &i);
	assert_string_equal(text, "cart-0 on node-1 has been slow since the new version or restart "
				  "at 04:05:31 CET: p90 of db_seconds{path=\"/\"} rose to 20.1 ms "
				  "(usually 240 ns). First, compare its latency with that of the "
				  "services that it calls.");
	i.end_ns = T + 3000000000;
	act_explain_incident(text, sizeof(text), &i);
	assert_non_null(strstr(text, " was slow from the new version or restart at 04:05:31 CET to "
				     "04:06:34 CET: "));
	/* Another fault, which began later. */
	i.end_ns = 0;
	i.cause.fault[ACT_MEASURE_ERRORS] = (struct act_fault){.begin_ns = T, .led = true};
	i.cause.now = ACT_MEASURE_LATENCY;
	i.cause.fault[ACT_MEASURE_LATENCY].begin_ns = T + 5000000000;
	act_explain_incident(text, sizeof(text), &i);
	assert_non_null(strstr(text, " has been slow since 04:06:36 CET: "));
}

static void more_requests_are_said_first(void **state)
{
	struct act_anomaly a = anomaly();
	char text[ACT_EXPLANATION_BYTES];

	(void)state;
	a.load = 2.8;
	a.blames = 1;
	a.blame[0] = (struct act_blame){"cpu_seconds_total", 0.8, 0.6,	0.2, true,
					ACT_MEASURE_CPU,     0,	  false};
	act_explain(text, sizeof(text), &a);
	assert_string_equal(
		text, "cart-0 has had 2.8 times its usual number of requests, and has used "
		      "more CPU than usual since 04:06:31 CET: cpu_seconds_total rose to 60 % "
		      "of a CPU (usually 20 % of a CPU). First, look at where it uses CPU: "
		      "perf top -p 12.");
	a.end_ns = a.last_ns = a.begin_ns + 3000000000;
	act_explain(text, sizeof(text), &a);
	assert_ptr_equal(text, strstr(text, "cart-0 had 2.8 times its usual number of requests, "
					    "and used more CPU than usual from "));
}

/* An improvement is no evidence of a fault, even if it has the largest share. */
static void an_improvement_is_no_evidence(void **state)
{
	struct act_anomaly a = anomaly();
	char text[ACT_EXPLANATION_BYTES];

	(void)state;
	a.blame[0] = (struct act_blame){"cpu_seconds_total", 0.6, 0.0138, 0.21, true,
					ACT_MEASURE_CPU,     0,	  false};
	a.blame[1] = (struct act_blame){"cache_bytes",	    0.3, 2048, 1024, false,
					ACT_MEASURE_MEMORY, 0,	 false};
	act_explain(text, sizeof(text), &a);
	assert_string_equal(text, "cart-0 has used more memory than usual since 04:06:31 CET: "
				  "cache_bytes rose to 2 KiB (usually 1 KiB). First, look at what "
				  "uses its memory.");
}

/* The flows of a service without connections show nothing. */
static void advice_comes_from_what_is_known(void **state)
{
	struct act_incident i = {.cause = anomaly(), .begin_ns = T};
	char text[ACT_SENTENCE_BYTES];

	(void)state;
	i.cause.blames = 1;
	i.cause.blame[0] = (struct act_blame){"queue_jobs_queued_total", 1, 28,	  35, true,
					      ACT_MEASURE_LOAD,		 0, false};
	act_explain_incident(text, sizeof(text), &i);
	assert_string_equal(text, "cart-0 on node-1 has had less traffic than usual since 04:06:31 "
				  "CET: queue_jobs_queued_total fell to 28 per second (usually 35 "
				  "per second). First, find out where its work comes from.");
	i.called = true;
	act_explain_incident(text, sizeof(text), &i);
	assert_non_null(strstr(text, "First, see which services call it: sidelight tcp flows."));
	i.cause.died = true;
	act_explain_incident(text, sizeof(text), &i);
	assert_non_null(strstr(text, ". Its process has ended. First, read its log to see why"));
}

/* A port of the host's own connections is shown with the name of its server. */
static void the_server_of_a_port_is_named(void **state)
{
	struct act_incident i = {.cause = anomaly(), .begin_ns = T};
	struct act_anomaly *a = &i.cause;
	char text[ACT_SENTENCE_BYTES];

	(void)state;
	a->name = (struct act_pod_name){.service = "(host) (tcp)", .host = "node-1"};
	a->blames = 1;
	a->blame[0] = (struct act_blame){
		"sidelight_tcp_layer_seconds_p99{layer=\"app\",port=\"80\",role=\"server\"}",
		1,
		2e-3,
		1e-5,
		false,
		ACT_MEASURE_LATENCY,
		0,
		false};
	assert_int_equal(act_find_port(a), 80);
	strcpy(a->server, "shop[4711]");
	act_explain_incident(text, sizeof(text), &i);
	assert_string_equal(
		text, "the connections of the host node-1 itself have been slow at "
		      "port 80, where shop[4711] listens, since 04:06:31 CET: p99 of the time "
		      "in layer app on port 80 rose to 2 ms (usually 10 µs). First, find out "
		      "what slows them down: sidelight tcp why.");
	/* The port of a client may be another host's. */
	memcpy(strstr(a->blame[0].metric, "server"), "client", 6);
	assert_int_equal(act_find_port(a), 0);
}

static struct act_incident connections(const char *metric, double value, double before)
{
	struct act_incident i = {.cause = anomaly(), .begin_ns = T, .members = 2};

	i.cause.blames = 2;
	i.cause.name = (struct act_pod_name){.service = "(host) (tcp)", .host = "node-1"};
	i.cause.blame[0] = (struct act_blame){
		"sidelight_tcp_layer_seconds_p99{layer=\"mac_in\",port=\"18080\"}",
		0.5,
		2e-3,
		1e-5,
		false,
		ACT_MEASURE_LATENCY,
		0,
		false};
	i.cause.blame[1] = (struct act_blame){"", 0.3,	value, before, true, ACT_MEASURE_OTHER,
					      0,  false};
	strcpy(i.cause.blame[1].metric, metric);
	i.member[0] = (struct act_member){.instance = 1, .name = i.cause.name};
	i.member[1] = (struct act_member){.instance = 2, .name = cart, .peak = 3};
	return i;
}

static void refused_connections_are_named_by_port_and_service(void **state)
{
	struct act_incident i = connections(
		"sidelight_tcp_failures_total{cause=\"refused\",port=\"18080\"}", 919, 0);
	char text[ACT_SENTENCE_BYTES];

	(void)state;
	i.members = 1;
	act_explain_incident(text, sizeof(text), &i);
	assert_string_equal(text, "Connections to port 18080 have been refused since 04:06:31 CET: "
				  "nothing listens there, and 919 per second failed. First, see "
				  "which connections fail: sidelight tcp closed.");
	i.members = 2;
	act_explain_incident(text, sizeof(text), &i);
	assert_null(strstr(text, "cart)")); /* it may be another service of the host */
	i.member[1].died = true;
	i.end_ns = T + 65000000000;
	act_explain_incident(text, sizeof(text), &i);
	assert_ptr_equal(text, strstr(text, "Connections to port 18080 (cart) were refused from "
					    "04:06:31 CET to 04:07:36 CET: nothing listened "));
	/* The service whose connections are refused may end because of that. */
	strcpy(i.cause.name.service, "cart (tcp)");
	act_explain_incident(text, sizeof(text), &i);
	assert_null(strstr(text, "(cart)"));
}

static void limits_of_connections_are_said_in_words(void **state)
{
	struct act_incident i = connections("sidelight_tcp_limited_seconds_total{limit=\"receive_"
					    "window\",port=\"18080\"}",
					    0.881, 0.0333);
	char text[ACT_SENTENCE_BYTES];

	(void)state;
	i.members = 1;
	act_explain_incident(text, sizeof(text), &i);
	assert_string_equal(
		text,
		"the connections of the host node-1 itself have been held "
		"back since 04:06:31 CET: limited by the receiver's window for 0.881 s "
		"per second, summed over all connections (usually 0.033 s), and p99 of the time in layer mac_in on port "
		"18080 rose to 2 ms (usually 10 µs). First, find out what slows them "
		"down: sidelight tcp why.");
}

static struct act_incident incident(void)
{
	struct act_incident i = {
		.cause = anomaly(),
		.begin_ns = T,
		.members = 3,
		.member = {{.instance = 1, .name = cart, .peak = 5.34, .suspicion = 2},
			   {.instance = 2,
			    .name = {.pod = "front-0", .service = "front"},
			    .peak = 9,
			    .suspicion = 0.4},
			   {.instance = 3,
			    .name = {.pod = "node-1", .host = "node-1", .service = "host"},
			    .peak = 2}},
	};

	i.cause.delay = 0.25;
	strcpy(i.cause.callers, "front");
	return i;
}

static void an_incident_says_what_broke_and_what_to_do_first(void **state)
{
	struct act_incident i = incident();
	char text[ACT_SENTENCE_BYTES];

	(void)state;
	i.member[2].suspicion = 9; /* a host counts half */
	i.cause.suspicion = 2;	   /* compared by suspicion, by which it is the cause */
	act_explain_incident(text, sizeof(text), &i);
	assert_string_equal(
		text,
		"cart-0 on node-1 has been slow since 04:06:31 CET: p90 of db_seconds{path=\"/\"} rose to "
		"20.1 ms (usually 240 ns), and errors_total rose to 58 per second (usually 0 per second). Calls to "
		"it take 250 ms longer, as measured by front. The next suspect is front-0. Also affected: the "
		"host node-1. First, compare its latency with that of the services that it calls.");
	/* Once it is over, there is nothing to do first. */
	i.has_trace = true;
	i.end_ns = T + 65000000000;
	i.cause.delay = i.cause.suspicion = 0;
	*i.cause.callers = '\0';
	i.members = 1;
	i.cause.blames = 1;
	i.cause.blame[0] = i.cause.blame[1];
	act_explain_incident(text, sizeof(text), &i);
	assert_string_equal(text, "cart-0 on node-1 had errors from 04:06:31 CET to 04:07:36 CET: "
				  "errors_total rose to 58 per second (usually 0 per second).");
	i.cause.unread = true;
	act_explain_incident(text, sizeof(text), &i);
	assert_non_null(strstr(text, ". It ended because the collector no longer reads the pod."));
	i.cause.died = true;
	act_explain_incident(text, sizeof(text), &i);
	assert_non_null(strstr(text, "(usually 0 per second). Its process has ended."));
}

/* An incident may outlast its cause, or go on as part of another one. */
static void a_fault_that_is_over_is_told_in_the_past(void **state)
{
	struct act_incident i = incident();
	char text[ACT_SENTENCE_BYTES];

	(void)state;
	i.cause.blames = 1;
	i.cause.end_ns = i.cause.last_ns = T + 30000000000;
	i.member[0].end_ns = i.cause.end_ns;
	i.last_ns = T + 50000000000;
	act_explain_incident(text, sizeof(text), &i);
	assert_string_equal(text,
			    "cart-0 on node-1 was slow from 04:06:31 CET to 04:07:01 CET: p90 of "
			    "db_seconds{path=\"/\"} rose to 20.1 ms (usually 240 ns). Calls to "
			    "it took 250 ms longer, as measured by front. Still unusual: "
			    "front-0, the host node-1.");
	i.last_ns = T + 35000000000; /* the cause may continue */
	act_explain_incident(text, sizeof(text), &i);
	assert_non_null(strstr(text, "has been slow since"));

	i = incident();
	i.end_ns = i.last_ns = T + 30000000000;
	i.joined = 1;
	strcpy(i.part_of, "12-34");
	act_explain_incident(text, sizeof(text), &i);
	assert_non_null(strstr(text, "has been slow since 04:06:31 CET: "));
	assert_non_null(strstr(text, ". This incident is now part of 12-34."));
}

/* Connections of the cause show the same fault, and a pod is named once. */
static void connections_of_the_cause_are_no_suspect(void **state)
{
	struct act_incident i = incident();
	char text[ACT_SENTENCE_BYTES];

	(void)state;
	i.members = 4;
	i.member[1].name = (struct act_pod_name){.service = "(host) (tcp)", .host = "node-1"};
	i.member[1].peak = 2.84;
	i.member[2].name = (struct act_pod_name){.service = "cart (tcp)", .host = "node-1"};
	i.member[3] = (struct act_member){
		.instance = 4, .name = {.service = "mail (tcp)", .host = "node-1"}, .peak = 3};
	act_explain_incident(text, sizeof(text), &i);
	assert_null(strstr(text, "suspect"));
	assert_non_null(strstr(text, ". Also affected: the connections of mail. First, "));
}

static void advice_fits_the_cause(void **state)
{
	static const struct act_pod_name tcp = {.service = "cart (tcp)", .host = "node-1"};
	static const struct act_pod_name own = {.service = "(host) (tcp)", .host = "node-1"};
	static const struct act_pod_name host = {
		.service = "host", .pod = "node-1", .host = "node-1"};
	static const struct {
		const struct act_pod_name *name;
		enum act_measure measure;
		const char *begin, *end;
	} is[] = {
		{&cart, ACT_MEASURE_CPU, "cart-0 on node-1 has used more CPU than usual since ",
		 " First, look at where it uses CPU: perf top -p 12."},
		{&cart, ACT_MEASURE_ERRORS, "cart-0 on node-1 has had errors since ",
		 " First, read its log."},
		{&cart, ACT_MEASURE_MEMORY,
		 "cart-0 on node-1 has used more memory than usual since ",
		 " First, look at what uses its memory."},
		{&cart, ACT_MEASURE_WAITING,
		 "cart-0 on node-1 has had more work queued than usual since ",
		 " First, find out what its requests wait for."},
		{&tcp, ACT_MEASURE_OTHER,
		 "the connections of cart on node-1 have behaved unusually since ",
		 " First, find out what slows them down: sidelight tcp why."},
		{&own, ACT_MEASURE_OTHER,
		 "the connections of the host node-1 itself have behaved unusually since ",
		 " First, find out what slows them down: sidelight tcp why."},
		{&host, ACT_MEASURE_CPU, "the host node-1 has used more CPU than usual since ",
		 " First, look at what runs there: sidelight top."},
	};
	char text[ACT_SENTENCE_BYTES];

	(void)state;
	for (size_t k = 0; k < sizeof(is) / sizeof(*is); k++) {
		struct act_incident i = {.cause = anomaly(), .members = 1};

		i.has_trace = is[k].measure == ACT_MEASURE_CPU; /* shows no use of CPU */
		i.cause.name = *is[k].name;
		i.cause.blame[0].measure = is[k].measure;
		act_explain_incident(text, sizeof(text), &i);
		assert_memory_equal(text, is[k].begin, strlen(is[k].begin));
		assert_string_equal(text + strlen(text) - strlen(is[k].end), is[k].end);
	}
}

static void load_is_said_to_be_no_fault(void **state)
{
	struct act_incident i = {
		.kind = ACT_INCIDENT_LOAD, .cause = anomaly(), .load = 3.04, .begin_ns = T};
	char text[ACT_SENTENCE_BYTES];

	(void)state;
	act_explain_incident(text, sizeof(text), &i);
	assert_string_equal(
		text,
		"cart-0 on node-1 has had 3 times its usual number of requests since 04:06:31 CET. This "
		"explains everything that changed: there is no fault, and nothing to do.");
	i.cause.load = 3.04;
	i.load = 0.2; /* of another member */
	act_explain_incident(text, sizeof(text), &i);
	assert_non_null(strstr(text, "has had 3 times its usual number of requests"));
}

static void a_replica_is_compared_with_its_siblings(void **state)
{
	struct act_anomaly a = anomaly();
	char text[ACT_EXPLANATION_BYTES];

	(void)state;
	a.blames = 1;
	a.blame[0].before = 0.003;
	a.blame[0].siblings = 5;
	act_explain(text, sizeof(text), &a);
	assert_non_null(strstr(text, "p90 of db_seconds{path=\"/\"} is 20.1 ms (median of its 5 "
				     "siblings: 3 ms)"));
}

static void values_have_the_unit_of_their_name(void **state)
{
	static const struct {
		struct act_blame b;
		double value;
		const char *text;
	} is[] = {
		{{.metric = "heap_bytes"}, 3.2e6, "3.05 MiB"},
		{{.metric = "sent_bytes_total{a=\"_seconds\"}", .rate = true},
		 2048,
		 "2 KiB per second"},
		{{.metric = "latency_seconds_mean"}, 0, "0 s"},
		{{.metric = "latency_nanoseconds_p99"}, 1500, "1.5 µs"},
		{{.metric = "latency_seconds_count", .rate = true}, 12.345, "12.3 per second"},
		{{.metric = "cpu_seconds_total", .rate = true, .measure = ACT_MEASURE_CPU},
		 1.4,
		 "140 % of a CPU"},
		{{.metric = "hit_ratio"}, 0.25, "25 %"},
		{{.metric = "queue"}, 1234567, "1234567"},
		{{.metric = "uptime_seconds"}, 12345, "12345 s"},
		{{.metric = "balance_bytes"}, -2048, "-2 KiB"},
	};
	char text[64];

	(void)state;
	for (size_t k = 0; k < sizeof(is) / sizeof(*is); k++) {
		act_value(text, sizeof(text), &is[k].b, is[k].value);
		assert_string_equal(text, is[k].text);
	}
}

static void a_sentence_too_long_is_cut(void **state)
{
	struct act_incident i = incident();
	char text[32];

	(void)state;
	memset(text, 'x', sizeof(text));
	act_explain(text, sizeof(text), &i.cause);
	assert_int_equal(strlen(text), sizeof(text) - 1);
	act_explain_incident(text, sizeof(text), &i);
	assert_int_equal(strlen(text), sizeof(text) - 1);
}

static void pods_without_names_are_told_apart_by_process(void **state)
{
	static const struct act_pod_name bare[] = {
		{.service = "cart", .process = 12},
		{.service = "cart", .process = 13},
		{.service = "cart", .container = "web", .process = 13},
		{.pod = "vm-1", .host = "vm-1", .service = "cart", .process = 14},
		{.pod = "vm-1", .host = "vm-2", .service = "cart", .process = 14},
	};
	char text[ACT_POD_LABEL_BYTES + 16];

	(void)state;
	assert_string_equal(act_pod_label(&cart, text, sizeof(text)), "cart-0");
	assert_string_equal(act_pod_label(&bare[0], text, sizeof(text)), "cart[12]");
	assert_string_equal(act_pod_label(&bare[1], text, sizeof(text)), "cart[13]");
	assert_string_equal(act_pod_label(&bare[2], text, sizeof(text)), "web[13]");
	assert_string_equal(act_pod_label(&bare[3], text, sizeof(text)), "cart[14]");
	assert_string_equal(act_pod_label(&bare[4], text, sizeof(text)), "vm-1");
}

int main(void)
{
	setenv("TZ", "CET-1", 1);
	tzset();

	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pods_anomaly_says_what_since_when_and_how_much),
		cmocka_unit_test(a_slow_rank_is_to_be_looked_at),
		cmocka_unit_test(a_port_is_named_with_its_device),
		cmocka_unit_test(a_process_without_progress_is_named),
		cmocka_unit_test(silence_is_stuck_or_idle),
		cmocka_unit_test(the_server_of_a_port_is_named),
		cmocka_unit_test(a_queue_that_only_grows_is_said),
		cmocka_unit_test(a_fault_that_came_with_the_pod_says_so),
		cmocka_unit_test(more_requests_are_said_first),
		cmocka_unit_test(an_improvement_is_no_evidence),
		cmocka_unit_test(advice_comes_from_what_is_known),
		cmocka_unit_test(refused_connections_are_named_by_port_and_service),
		cmocka_unit_test(limits_of_connections_are_said_in_words),
		cmocka_unit_test(an_incident_says_what_broke_and_what_to_do_first),
		cmocka_unit_test(a_fault_that_is_over_is_told_in_the_past),
		cmocka_unit_test(connections_of_the_cause_are_no_suspect),
		cmocka_unit_test(advice_fits_the_cause),
		cmocka_unit_test(load_is_said_to_be_no_fault),
		cmocka_unit_test(a_replica_is_compared_with_its_siblings),
		cmocka_unit_test(values_have_the_unit_of_their_name),
		cmocka_unit_test(a_sentence_too_long_is_cut),
		cmocka_unit_test(pods_without_names_are_told_apart_by_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
