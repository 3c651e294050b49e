// SPDX-License-Identifier: Apache-2.0
/* test_features.c - features are the rates, means and quantiles of the last rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "collect/judge/features.h"
#include "collect/read/collector_internal.h"

#define S 1000000000ll

static const double bounds[] = {1, 2, 4};
static const struct region_text_label code[] = {{"code", "200"}};
static const char *const states[] = {"open", "closed"};

static struct collect_def defs[] = {
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
static struct collect_column columns[] = {{.def = &defs[0], .cell = 0},
					  {.def = &defs[1], .cell = 1},
					  {.def = &defs[2], .cell = 7},
					  {.def = &defs[3], .cell = 8},
					  {.def = &defs[4], .cell = 8}};
static struct collect_layout layout = {.columns = 5, .cells = 9, .column = columns};
static uint64_t cell[9];
static double value[5];

static struct collect_tap_row row(int64_t ns)
{
	value[0] = (double)cell[0];
	value[1] = (double)(cell[3] + cell[4] + cell[5] + cell[6]);
	value[2] = (double)cell[7];
	memcpy(&value[4], &cell[8], 8);
	return (struct collect_tap_row){.layout = 1,
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

static struct collect_tap_row first_row(void)
{
	_Static_assert(SL_HIST_BUCKETS == 2, "cells of the test");
	memset(cell, 0, sizeof(cell));
	cell[0] = 100;
	cell[4] = 1000; /* observations from before the first row do not count */
	set(1, 1500);
	cell[7] = 2;
	set(8, 0.25);
	return row(10 * S);
}

static void features_are_named_and_begin_with_gauges(void **state)
{
	static const char *const names[] = {"requests_total{code=\"200\"}",
					    "latency_count",
					    "latency_mean",
					    "latency_p90",
					    "breaker{state=\"open\"}",
					    "breaker{state=\"closed\"}",
					    "load"};
	struct collect_features f = {0};
	struct collect_tap_row r;

	(void)state;
	r = first_row();
	assert_false(collect_features_fit(&f, &r));
	assert_int_equal(collect_features_make(&f, &r), 0);
	assert_true(collect_features_fit(&f, &r));
	assert_int_equal(f.count, 7);
	for (uint32_t i = 0; i < 7; i++) {
		assert_string_equal(f.name[i], names[i]);
		assert_int_equal(f.counter[i], i < 2);
	}
	collect_features_take(&f, &r);
	assert_true(f.value[0] == 100 && isnan(f.value[2]));
	assert_true(f.value[4] == 0 && f.value[5] == 1 && f.value[6] == 0.25);
	collect_features_free(&f);
}

/* The analysis takes a limited number of features, from the first one on. */
static void features_of_ports_come_first(void **state)
{
	static const struct region_text_label port[] = {
		{"device", "mlx5_0"}, {"port", "1"}, {"counter", "out_of_sequence"}};
	const struct collect_def usual = defs[4];
	struct collect_features f = {0};
	struct collect_tap_row r = first_row();

	(void)state;
	defs[4].metric = (struct region_metric){.kind = SL_KIND_COUNTER,
						.name = "sidelight_rdma_hw_counter_total",
						.cells = 1,
						.label_count = 3,
						.labels = port};
	assert_int_equal(collect_features_make(&f, &r), 0);
	assert_int_equal(f.count, 7);
	assert_string_equal(f.name[0], "sidelight_rdma_hw_counter_total{device=\"mlx5_0\","
				       "port=\"1\",counter=\"out_of_sequence\"}");
	assert_string_equal(f.name[1], "requests_total{code=\"200\"}");
	assert_string_equal(f.name[6], "breaker{state=\"closed\"}");
	value[4] = 12;
	collect_features_take(&f, &r);
	assert_true(f.value[0] == 12 && f.value[1] == 100 && f.value[6] == 1);
	collect_features_free(&f);
	defs[4] = usual;
}

static void features_are_of_the_last_moments(void **state)
{
	struct collect_features f = {0};
	struct collect_tap_row r = first_row();

	(void)state;
	assert_int_equal(collect_features_make(&f, &r), 0);
	collect_features_take(&f, &r);
	cell[0] = 150;
	cell[5] = 10; /* ten between 2 and 4, so their mean is 3 */
	set(1, 1530);
	r = row(11 * S);
	collect_features_take(&f, &r);
	assert_true(f.value[0] == 150 && f.value[1] == 1010);
	r = row(11 * S + S / 2);
	collect_features_take(&f, &r);
	assert_true(f.value[2] == 3 && fabs(f.value[3] - 3.8) < 1e-9);

	/* A line that did not settle gives no value, and does not affect later rows. */
	r = row(12 * S);
	value[0] = value[1] = value[2] = NAN;
	collect_features_take(&f, &r);
	assert_true(isnan(f.value[0]) && isnan(f.value[2]) && isnan(f.value[4]));
	cell[0] = 160;
	r = row(12 * S + S / 2);
	collect_features_take(&f, &r);
	assert_true(f.value[0] == 160);

	/* No new observations for two windows: no mean. */
	for (int i = 13; i < 17; i++) {
		r = row(i * S);
		collect_features_take(&f, &r);
	}
	assert_true(isnan(f.value[2]) && isnan(f.value[3]) && f.value[1] == 1010);

	/* The clock is set back by 11 s, and the window moves with it. */
	for (int i = 5; i < 8; i++) {
		cell[3] += 4;
		set(1, i == 5 ? 1930 : 1930 + 2.0 * (i - 5));
		r = row(i * S);
		collect_features_take(&f, &r);
	}
	assert_true(f.value[2] == 0.5 && f.value[1] == 1022);

	/* It began anew. */
	memset(cell, 0, sizeof(cell));
	cell[3] = 5;
	set(1, 2.5);
	r = row(17 * S);
	collect_features_take(&f, &r);
	assert_true(isnan(f.value[2]));

	r.layout = 2;
	assert_false(collect_features_fit(&f, &r));
	collect_features_free(&f);
	collect_features_free(&f);
}

/* Ten rows per second with ten observations each, of 3, or of 1.5 in the first second. */
static void a_latency_is_over_within_a_window_and_a_part(void **state)
{
	static const int64_t tenth = S / 10;
	struct collect_features f = {0};
	struct collect_tap_row r = first_row();
	double sum = 1500;
	int mixed = 0;

	(void)state;
	assert_int_equal(collect_features_make(&f, &r), 0);
	collect_features_take(&f, &r);
	for (int i = 1; i < 60; i++) {
		bool early = i <= 10;

		cell[early ? 4 : 5] += 10;
		sum += early ? 15 : 30;
		set(1, sum);
		r = row(10 * S + i * tenth);
		collect_features_take(&f, &r);
		assert_int_equal(isnan(f.value[2]), i < 10); /* not before a window is full */
		mixed += i > 10 && f.value[2] < 3;
	}
	assert_in_range(mixed, 8, 13);
	collect_features_free(&f);
}

/* Two rows per second, with ten observations each: 1.5 up to the unsettled row, and then 3. */
static void an_unsettled_row_starts_no_window(void **state)
{
	(void)state;
	for (int unsettled = 0; unsettled <= 6; unsettled += 6) {
		struct collect_features f = {0};
		struct collect_tap_row r = first_row();
		double sum = 1500;

		assert_int_equal(collect_features_make(&f, &r), 0);
		for (int i = 0; i <= unsettled + 3; i++) {
			bool early = i <= unsettled;

			cell[early ? 4 : 5] += 10;
			sum += early ? 15 : 30;
			set(1, sum);
			r = row(10 * S + i * S / 2);
			if (i == unsettled)
				value[1] = NAN;
			collect_features_take(&f, &r);
			if (i == unsettled + 2)
				assert_true(isnan(f.value[2]) && isnan(f.value[3]));
		}
		assert_true(f.value[2] == 3);
		collect_features_free(&f);
	}
}

/* A layer: buckets of a power of two, from 1 on. */
static struct collect_def layer = {.metric = {.kind = SL_KIND_HISTOGRAM_EXP,
					      .name = "sidelight_tcp_layer_seconds",
					      .cells = SL_HIST_BUCKETS + 12,
					      .scale = 0,
					      .first_bucket = 1,
					      .bucket_count = 12,
					      .zero_threshold = 1}};
static struct collect_column layer_column = {.def = &layer};
static struct collect_layout layer_layout = {
	.columns = 1, .cells = SL_HIST_BUCKETS + 12, .column = &layer_column};
static uint64_t layer_cell[SL_HIST_BUCKETS + 12];
static double layer_count;

/* Adds n observations, one in a hundred of which is long. */
static void layer_row(struct collect_features *f, int64_t ns, uint64_t n, uint64_t every)
{
	struct collect_tap_row r = {.layout = 1,
				    .shape = &layer_layout,
				    .columns = 1,
				    .value = &layer_count,
				    .cell = layer_cell,
				    .ns = ns};

	for (uint64_t i = 0; i < n; i++)
		layer_cell[SL_HIST_BUCKETS +
			   (every && (uint64_t)layer_count++ % every == 0 ? 10 : 3)]++;
	if (!f->source)
		assert_int_equal(collect_features_make(f, &r), 0);
	collect_features_take(f, &r);
}

static void layer_quantiles_need_enough_observations(void **state)
{
	struct collect_features f = {0};
	int64_t at = 10;

	(void)state;
	layer_row(&f, at * S, 5000, 1);
	assert_int_equal(f.count, 5);
	assert_string_equal(f.name[3], "sidelight_tcp_layer_seconds_p50");
	assert_string_equal(f.name[4], "sidelight_tcp_layer_seconds_p99");
	assert_true(!f.counter[3] && !f.counter[4]);
	/*
	 * One per second: the median is over a longer time, and the 99th percentile is never known.
	 */
	for (int i = 0; i < 4; i++)
		layer_row(&f, ++at * S, 1, 0);
	assert_true(isnan(f.value[3]) && isnan(f.value[4]));
	for (int i = 0; i < 30; i++)
		layer_row(&f, ++at * S, 1, 0);
	assert_true(f.value[3] > 4 && f.value[3] <= 8);
	assert_true(isnan(f.value[4]));
	/* Forty per second: the tail is known, over more seconds than the other features. */
	for (int i = 0; i < 25; i++)
		layer_row(&f, ++at * S, 40, 0);
	assert_true(f.value[4] > 4 && f.value[4] <= 8);
	for (int i = 0; i < 25; i++)
		layer_row(&f, ++at * S, 40, 50);
	assert_true(f.value[3] > 4 && f.value[3] <= 8);
	assert_true(f.value[4] > 512 && f.value[4] <= 1024);
	/* A thousand per second: within three seconds, only these count. */
	for (int i = 0; i < 4; i++)
		layer_row(&f, ++at * S, 1000, 0);
	assert_true(f.value[4] > 4 && f.value[4] <= 8);
	/* Nothing more: no observation, no quantile. */
	for (int i = 0; i < 25; i++)
		layer_row(&f, ++at * S, 0, 0);
	assert_true(isnan(f.value[3]) && isnan(f.value[4]));
	collect_features_free(&f);
}

int act_test_features(void);
int act_test_features(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(features_are_named_and_begin_with_gauges),
		cmocka_unit_test(features_of_ports_come_first),
		cmocka_unit_test(features_are_of_the_last_moments),
		cmocka_unit_test(a_latency_is_over_within_a_window_and_a_part),
		cmocka_unit_test(an_unsettled_row_starts_no_window),
		cmocka_unit_test(layer_quantiles_need_enough_observations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
