// SPDX-License-Identifier: Apache-2.0
/* What analysis looks at is what the metrics say: rates, means and quantiles of the last moments. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collect/features.h"
#include "collect/internal.h"

#define S 1000000000ll

static const double bounds[] = {1, 2, 4};
static const struct sl_text_label code[] = {{"code", "200"}};
static const char *const states[] = {"open", "closed"};

static struct def defs[] = {
	{.metric = {.kind = SL_KIND_COUNTER,
		    .name = "requests_total",
		    .cells = 1,
		    .label_count = 1,
		    .labels = code}},
	{.metric = {.kind = SL_KIND_HISTOGRAM,
		    .name = "latency",
		    .cells = SL_HIST_BUCKETS + 4,
		    .bounds = bounds,
		    .bound_count = 3}},
	{.metric = {.kind = SL_KIND_STATESET,
		    .name = "breaker",
		    .cells = 1,
		    .states = states,
		    .state_count = 2}},
	{.metric = {.kind = SL_KIND_INFO, .name = "build"}},
	{.metric = {.kind = SL_KIND_GAUGE_F64, .name = "load", .cells = 1}},
};
static struct column columns[] = {{.def = &defs[0], .cell = 0},
				  {.def = &defs[1], .cell = 1},
				  {.def = &defs[2], .cell = 7},
				  {.def = &defs[3], .cell = 8},
				  {.def = &defs[4], .cell = 8}};
static struct layout layout = {.columns = 5, .cells = 9, .column = columns};
static uint64_t cell[9];
static double value[5];

static struct sl_tap_row row(int64_t ns)
{
	value[0] = (double)cell[0];
	value[1] = (double)(cell[3] + cell[4] + cell[5] + cell[6]);
	value[2] = (double)cell[7];
	memcpy(&value[4], &cell[8], 8);
	return (struct sl_tap_row){.layout = 1,
				   .shape = &layout,
				   .columns = 5,
				   .value = value,
				   .cell = cell,
				   .ns = ns};
}

static void set(uint32_t i, double v)
{
	memcpy(&cell[i], &v, 8);
}

static void features_are_of_the_last_moments(void **state)
{
	static const char *const names[] = {"requests_total{code=\"200\"}",
					    "latency_count",
					    "latency_mean",
					    "latency_p90",
					    "breaker{state=\"open\"}",
					    "breaker{state=\"closed\"}",
					    "load"};
	struct sl_features f = {0};
	struct sl_tap_row r;

	(void)state;
	_Static_assert(SL_HIST_BUCKETS == 2, "cells of the test");
	cell[0] = 100;
	cell[4] = 1000; /* what was before nobody looked at counts for nothing */
	set(1, 1500);
	cell[7] = 2;
	set(8, 0.25);
	r = row(10 * S);
	assert_false(sl_features_fit(&f, &r));
	assert_int_equal(sl_features_make(&f, &r), 0);
	assert_true(sl_features_fit(&f, &r));
	assert_int_equal(f.count, 7);
	for (uint32_t i = 0; i < 7; i++) {
		assert_string_equal(f.name[i], names[i]);
		assert_int_equal(f.counter[i], i < 2);
	}
	sl_features_take(&f, &r);
	assert_true(f.value[0] == 100 && isnan(f.shown[0]) && isnan(f.value[2]));
	assert_true(f.value[4] == 0 && f.value[5] == 1 && f.value[6] == 0.25);

	cell[0] = 150;
	cell[5] = 10; /* ten between 2 and 4, of which the mean is 3 */
	set(1, 1530);
	r = row(11 * S);
	sl_features_take(&f, &r);
	assert_true(f.shown[0] == 50 && f.value[1] == 1010);
	r = row(11 * S + S / 2);
	sl_features_take(&f, &r);
	assert_true(f.value[2] == 3 && fabs(f.value[3] - 3.8) < 1e-9 && f.shown[0] == 0);

	/* What did not settle is not known, and does no harm to what comes after. */
	r = row(12 * S);
	value[0] = value[1] = value[2] = NAN;
	sl_features_take(&f, &r);
	assert_true(isnan(f.value[0]) && isnan(f.value[2]) && isnan(f.value[4]));
	cell[0] = 160;
	r = row(12 * S + S / 2);
	sl_features_take(&f, &r);
	assert_true(f.value[0] == 160 && f.shown[0] == 20);

	/* Nothing new for two windows: no mean of nothing. */
	for (int i = 13; i < 17; i++) {
		r = row(i * S);
		sl_features_take(&f, &r);
	}
	assert_true(isnan(f.value[2]) && isnan(f.value[3]) && f.value[1] == 1010);

	/* It began anew. */
	memset(cell, 0, sizeof(cell));
	cell[3] = 5;
	set(1, 2.5);
	r = row(17 * S);
	sl_features_take(&f, &r);
	assert_true(isnan(f.value[2]));

	r.layout = 2;
	assert_false(sl_features_fit(&f, &r));
	sl_features_free(&f);
	sl_features_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(features_are_of_the_last_moments)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
