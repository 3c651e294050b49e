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
			   ACT_MEASURE_LATENCY},
			  {"errors_total", 0.1, 58, 0, true, ACT_MEASURE_ERRORS}},
	};
}

/* Times are local, and a share of the evidence is not said, as it reads like a change. */
static void a_pods_anomaly_says_what_since_when_and_how_much(void **state)
{
	struct act_anomaly a = anomaly();
	char text[ACT_EXPLANATION_BYTES];

	(void)state;
	act_explain(text, sizeof(text), &a);
	assert_string_equal(
		text, "cart-0 has been slow since 04:06:31 CET: p90 of db_seconds{path=\"/\"} rose "
		      "from 240 ns to 20.1 ms, and errors_total rose from 0 per second "
		      "to 58 per second; score 5.34, where 1 is the threshold");
	a.blame[1].share = 0.09;
	act_explain(text, sizeof(text), &a);
	assert_non_null(strstr(text, " to 20.1 ms; score")); /* a small share is left out */
	a.blames = 0;
	act_explain(text, sizeof(text), &a);
	assert_string_equal(text,
			    "cart-0 has behaved unusually since 04:06:31 CET; score 5.34, where 1 "
			    "is the threshold");
	a.last_ns = a.begin_ns + 3000000000;
	a.end_ns = a.last_ns + 1;
	act_explain(text, sizeof(text), &a);
	assert_string_equal(text, "cart-0 behaved unusually from 04:06:31 CET to 04:06:34 CET; "
				  "score 5.34, where 1 is the threshold");
	a.end_ns = 0;
	a.blames = 1;
	a.blame[0].before = NAN;
	act_explain(text, sizeof(text), &a);
	assert_non_null(strstr(text, "CET: p90 of db_seconds{path=\"/\"} is 20.1 ms;"));
	a.blame[0].value = NAN;
	act_explain(text, sizeof(text), &a);
	assert_non_null(strstr(text, "CET: p90 of db_seconds{path=\"/\"} is unusual;"));
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
		"cart-0 on node-1 has been slow since 04:06:31 CET: p90 of db_seconds{path=\"/\"} rose from "
		"240 ns to 20.1 ms, and errors_total rose from 0 per second to 58 per second. Calls to it "
		"take 250 ms longer, as seen by front. Its score is 2, where 1 is the threshold; the next "
		"suspect, front-0, has 0.4. Also affected: front-0, the host node-1. First, compare its "
		"latency with that of the services that it calls.");
	i.has_trace = true;
	i.end_ns = T + 65000000000;
	i.cause.delay = i.cause.suspicion = 0;
	*i.cause.callers = '\0';
	i.members = 1;
	i.cause.blame[0] = i.cause.blame[1];
	act_explain_incident(text, sizeof(text), &i);
	assert_string_equal(text,
			    "cart-0 on node-1 had errors from 04:06:31 CET to 04:07:36 CET: "
			    "errors_total rose from 0 per second to 58 per second. Its score is "
			    "5.34, where 1 is the threshold. First, look at trace "
			    "00000000000000000000000000000000.");
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
		 "cart-0 on node-1 has kept more in memory than usual since ",
		 " First, look at what it keeps in memory."},
		{&cart, ACT_MEASURE_WAITING,
		 "cart-0 on node-1 has had more work waiting than usual since ",
		 " First, look at what its requests wait for."},
		{&tcp, ACT_MEASURE_OTHER,
		 "the connections of cart on node-1 have behaved unusually since ",
		 " First, ask what holds them back: sidelight tcp why."},
		{&own, ACT_MEASURE_OTHER,
		 "the connections of the host node-1 itself have behaved unusually since ",
		 " First, ask what holds them back: sidelight tcp why."},
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
		text, "cart-0 on node-1 has had 3 times its usual requests since 04:06:31 CET. All "
		      "that changed follows from this: no fault, nothing to do.");
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
		cmocka_unit_test(an_incident_says_what_broke_and_what_to_do_first),
		cmocka_unit_test(advice_fits_the_cause),
		cmocka_unit_test(load_is_said_to_be_no_fault),
		cmocka_unit_test(values_have_the_unit_of_their_name),
		cmocka_unit_test(a_sentence_too_long_is_cut),
		cmocka_unit_test(pods_without_names_are_told_apart_by_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
