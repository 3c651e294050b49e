// SPDX-License-Identifier: Apache-2.0
/* test_refused.c - a pod that the judge refused for lack of memory is judged later. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "base/base.h"
#include "collect/judge/analysis.h"
#include "collect/read/collector_internal.h"

#define EVERY_NS  10000000u
#define INSTANCE  7u
#define REFUSALS  3
#define TIMEOUT_S 60

static struct collect_tap tap;
static _Atomic int refusals, layouts;

int __wrap_collect_collector_tap(struct collect_collector *c, const struct collect_tap *t);
int __wrap_collect_collector_tap(struct collect_collector *c, const struct collect_tap *t)
{
	(void)c;
	tap = *t;
	return 0;
}

int __real_collect_judge_layout(struct collect_judge *j, const struct collect_judge_pod *pod,
				const struct analyse_column *columns, uint32_t n);
int __wrap_collect_judge_layout(struct collect_judge *j, const struct collect_judge_pod *pod,
				const struct analyse_column *columns, uint32_t n);
int __wrap_collect_judge_layout(struct collect_judge *j, const struct collect_judge_pod *pod,
				const struct analyse_column *columns, uint32_t n)
{
	layouts++;
	return refusals-- > 0 ? -ENOMEM : __real_collect_judge_layout(j, pod, columns, n);
}

static struct collect_def load = {
	.metric = {.kind = SL_KIND_GAUGE_F64, .name = "load", .cells = 1}};
static struct collect_column column = {.def = &load};
static struct collect_layout layout = {.columns = 1, .cells = 1, .column = &column};

/* Hands over rows as a worker does, until the pod's rows are scored. */
static void run(struct collect_analysis *a, void **own)
{
	static const struct collect_tenant tenant = {.exempt = true};
	static const struct region_info info;
	const double value = 0.25;
	const uint64_t end = base_now_ns() + TIMEOUT_S * 1000000000ull;
	struct collect_analysis_stats s;
	uint64_t cell;

	memcpy(&cell, &value, sizeof(cell));
	do {
		const struct collect_tap_row row = {.instance = INSTANCE,
						    .info = &info,
						    .hostname = "node-1",
						    .tenant = &tenant,
						    .state = SL_STATE_LIVE,
						    .layout = 1,
						    .shape = &layout,
						    .columns = 1,
						    .value = &value,
						    .cell = &cell,
						    .ns = (int64_t)base_realtime_ns(),
						    .own = own};

		if (tap.wants(tap.arg, &row))
			tap.row(tap.arg, &row);
		usleep(2000);
		collect_analysis_stats(a, &s);
	} while (s.judge.rows < 10 && base_now_ns() < end);
}

static void a_refused_pod_is_judged_later(void **state)
{
	char error[256];
	struct collect_analysis *a =
		collect_analysis_new(&(struct collect_analysis_opts){.workers = 1,
								     .false_alarms = 1,
								     .every_ns = EVERY_NS,
								     .step_ns = 100000000,
								     .hold_ns = 60000000000u},
				     error, sizeof(error));
	struct collect_analysis_stats s;
	struct act_pod_verdict v;
	void *own = NULL;

	(void)state;
	assert_non_null(a);
	assert_int_equal(collect_analysis_attach(a, NULL), 0);
	refusals = REFUSALS;
	run(a, &own);
	collect_analysis_stats(a, &s);
	assert_true(s.judge.rows >= 10);
	assert_true(s.refused_rows >= REFUSALS);
	assert_int_equal(s.refused_pods, 1);
	assert_true(act_verdicts_pod(collect_analysis_verdicts(a), INSTANCE, &v));
	/* Its columns come once more than it was refused, and not with each row. */
	assert_int_equal(layouts, REFUSALS + 1);
	tap.gone(tap.arg, INSTANCE, own);
	collect_analysis_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_refused_pod_is_judged_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
