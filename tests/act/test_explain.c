// SPDX-License-Identifier: Apache-2.0
/*
 * test_explain.c - a finding is explained in one sentence with numbers, and pods can be
 * distinguished.
 */
#include <math.h>
#include <string.h>

#include "support/test.h"
#include "act/explain.h"

#define T (1763694391 * 1000000000ll) /* 2025-11-21T03:06:31Z */

static const struct act_pod_name cart = {.pod = "cart-0", .service = "cart", .process = 12};

static struct act_finding finding(void)
{
	return (struct act_finding){
		.score = 5.34,
		.blames = 2,
		.blame = {{"db_seconds_p90", 0.8123, 0.0201, 2.4e-7, false},
			  {"errors_total", 0.1, 58, 0, true}},
		.delay = 0.25,
		.callers = "front, shop",
		.next = "queue-0",
		.next_score = 0.214,
	};
}

static void it_says_what_since_when_how_much_and_who_else(void **state)
{
	struct act_finding f = finding();
	char text[ACT_EXPLANATION_BYTES];

	(void)state;
	act_explain(text, sizeof(text), &cart, T + 250000000, &f);
	assert_string_equal(text,
			    "cart-0 since 03:06:31.2 UTC: db_seconds_p90 rose from 2.4e-07 to "
			    "0.0201 (81 %), errors_total rose from 0/s to 58/s (10 %); calls "
			    "to it take 0.25 s longer; its callers front, shop show it; score "
			    "5.34, where 1 is the threshold, the next suspect is queue-0 with "
			    "0.21");
	f.callers = "";
	f.next = NULL;
	f.blames = 1;
	f.blame[0].value = 0;
	f.blame[0].before = 10;
	f.delay = 0;
	act_explain(text, sizeof(text), &cart, T, &f);
	assert_string_equal(text,
			    "cart-0 since 03:06:31.0 UTC: db_seconds_p90 fell from 10 to 0 (81 %); "
			    "no caller shows it; score 5.34, where 1 is the threshold");
}

/* Callers report that calls to the pod take longer, but its own metrics show nothing. */
static void what_only_callers_show_is_said(void **state)
{
	struct act_finding f = finding();
	char text[ACT_EXPLANATION_BYTES];

	(void)state;
	f.blames = 0;
	act_explain(text, sizeof(text), &cart, T, &f);
	assert_non_null(
		strstr(text, "UTC: calls to it take 0.25 s longer; its callers front, shop"));
	f.delay = 0;
	f.callers = NULL;
	act_explain(text, sizeof(text), &cart, T, &f);
	assert_non_null(
		strstr(text, "UTC: no single metric stands out; its callers are not known"));
	f.blames = 1;
	f.blame[0].before = NAN;
	act_explain(text, sizeof(text), &cart, T, &f);
	assert_non_null(strstr(text, "db_seconds_p90 is 0.0201 (81 %)"));
}

static void a_sentence_too_long_is_cut(void **state)
{
	struct act_finding f = finding();
	char text[32];

	(void)state;
	memset(text, 'x', sizeof(text));
	act_explain(text, sizeof(text), &cart, T, &f);
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
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_says_what_since_when_how_much_and_who_else),
		cmocka_unit_test(what_only_callers_show_is_said),
		cmocka_unit_test(a_sentence_too_long_is_cut),
		cmocka_unit_test(pods_without_names_are_told_apart_by_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
