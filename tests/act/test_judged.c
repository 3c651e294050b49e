// SPDX-License-Identifier: Apache-2.0
/* test_judged.c - what is shown of a finding: errors are no evidence if more requests explain them
 */
#include <stdlib.h>
#include <string.h>

#include "collect/judge/judged.h"
#include "support/test.h"

#define STEP_NS 100000000ll
#define MINUTE	600 /* rows */

enum { REQUESTS, ERRORS, COLUMNS };

struct shop {
	struct act_verdicts *verdicts;
	struct collect_judged *pod;
	int64_t ns;
	double value[COLUMNS];
};

static void open_shop(struct shop *s)
{
	static const char names[] = "1shop_requests_total\0001shop_errors_total";
	uint8_t entry[sizeof(struct act_pod_name) + sizeof(names)] = {0};
	const struct collect_rows_entry e = {
		.instance = 7, .columns = COLUMNS, .bytes = sizeof(entry)};

	strcpy(((struct act_pod_name *)entry)->pod, "shop-0");
	memcpy(entry + sizeof(struct act_pod_name), names, sizeof(names));
	*s = (struct shop){.ns = 1000000000000ll,
			   .verdicts = act_verdicts_new(&(struct act_verdicts_opts){0})};
	s->pod = collect_judged_new(s->verdicts, &e, entry);
	assert_non_null(s->pod);
	assert_true(collect_judged_columns(s->pod, &e, entry));
}

static void close_shop(struct shop *s)
{
	collect_judged_free(s->pod);
	act_verdicts_free(s->verdicts);
}

/* Shows a row with this many new requests and errors. An anomalous row blames both. */
static void show_row(struct shop *s, double requests, double errors, bool anomalous)
{
	struct analyse_verdict v = {
		.score = anomalous ? 3 : 0, .known = true, .anomalous = anomalous};
	struct collect_judge_finding is = {.ns = s->ns += STEP_NS,
					   .value = s->value,
					   .verdict = &v,
					   .anomalous = anomalous,
					   .state = ANALYSE_READY};

	s->value[REQUESTS] += requests;
	s->value[ERRORS] += errors;
	if (anomalous) {
		v.blamed = 2;
		v.blame[0].column = ERRORS;
		v.blame[0].share = .7f;
		v.blame[0].now = (float)errors * 10;
		v.blame[0].before = 10;
		v.blame[1].column = REQUESTS;
		v.blame[1].share = .3f;
		v.blame[1].now = (float)requests * 10;
		v.blame[1].before = 1000;
	}
	collect_judged_show(s->pod, &is, false);
}

/* Returns the share of the errors that the pod's last anomaly names, or -1. */
static double share_of_errors(struct shop *s)
{
	struct act_pod_verdict shown;

	assert_true(act_verdicts_pod(s->verdicts, 7, &shown));
	for (uint32_t i = 0; i < shown.blames; i++)
		if (strstr(shown.blame[i].metric, "errors"))
			return shown.blame[i].share;
	return -1;
}

/* 1,000 requests per second for a minute, of which 10 fail; then this for two seconds. */
static double share_after(double requests, double errors)
{
	struct shop s;
	double share;

	open_shop(&s);
	for (int i = 0; i < MINUTE; i++)
		show_row(&s, 100, 1, false);
	for (int i = 0; i < 20; i++)
		show_row(&s, requests, errors, true);
	share = share_of_errors(&s);
	close_shop(&s);
	return share;
}

static void errors_of_more_requests_have_no_share(void **state)
{
	(void)state;
	assert_true(share_after(300, 3) == 0); /* the same part fails */
	assert_true(share_after(300, 8) ==
		    0); /* 80 instead of 30 per second may be chance in 0.1 s */
	assert_true(share_after(300, 30) > .6); /* ten times the part */
	assert_true(share_after(100, 3) > .6);	/* no more requests than usual */
	assert_true(share_after(20, 3) > .6);	/* fewer */
}

int act_test_judged(void);
int act_test_judged(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_of_more_requests_have_no_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
