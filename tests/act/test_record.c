// SPDX-License-Identifier: Apache-2.0
/*
 * test_record.c - recording writes one table per pod, complete when columns are added later,
 * inside its folder only.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/folder.h"
#include "base/base.h"
#include "collect/judge/record.h"

static struct collect_record *recorder(void)
{
	char error[200] = "";
	struct collect_record *r = collect_record_new(test_folder, "fd,,1,2,3,4", NULL, error,
						      sizeof(error));

	if (!r)
		fail_msg("%s", error);
	return r;
}

static void expect(const char *name, const char *want)
{
	char path[512], got[1024] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", test_folder, name);
	f = fopen(path, "r");
	if (!f)
		fail_msg("%s: %s", path, strerror(errno));
	got[fread(got, 1, sizeof(got) - 1, f)] = '\0';
	fclose(f);
	assert_string_equal(got, want);
}

static const struct analyse_column columns[] = {{"a_total", true},
						{"b{x=\"1\";y=\"2\"}", false},
						{"c_count_value", false},
						{"d_total", true}};
static const double value[] = {1, NAN, 0.1, 4};

static bool layout(struct collect_record *r, uint64_t instance, const char *name, uint32_t n)
{
	const struct collect_judge_pod pod = {.instance = instance,
					      .ns = 9,
					      .name = name,
					      .service = "shop",
					      .owner = n == 4 ? "uid 1000" : NULL};

	return collect_record_layout(r, 5, &pod, columns, n);
}

static void put_row(struct collect_record *r, uint64_t instance, int64_t ns, uint32_t n)
{
	const struct collect_rows_entry e = {.instance = instance,
					     .ns = ns,
					     .kind = COLLECT_ROWS_VALUES,
					     .columns = n,
					     .bytes = n * sizeof(*value)};

	collect_record_entry(r, &e, value);
}

static void names_are_those_that_replay_knows(void **state)
{
	static const struct {
		const char *name, *plain;
		bool counter;
	} is[] = {
		{"a_total", "a_total", true},
		{"b{x=\"1\",y=\"2\"}", "b{x=\"1\";y=\"2\"}", false},
		/* The type decides, not the name, whether a metric is a gauge or a counter. */
		{"c_count", "c_count_value", false},
		{"d", "d_total", true},
	};
	char out[64];

	(void)state;
	for (size_t i = 0; i < sizeof(is) / sizeof(*is); i++) {
		size_t n = collect_record_name(out, is[i].name, is[i].counter);

		assert_int_equal(n, strlen(is[i].plain) + 1);
		assert_string_equal(out, is[i].plain);
	}
}

static void tables_are_whole_also_when_columns_come_later(void **state)
{
	const struct collect_rows_entry accept = {
		.instance = 7, .moment = 6, .kind = COLLECT_ROWS_ACCEPT};
	const struct collect_rows_entry gone = {
		.instance = 7, .moment = 6, .kind = COLLECT_ROWS_GONE};
	static const char line[] = "1.5,cart-0,2,1\n";
	struct collect_record *r = recorder();

	(void)state;
	assert_true(layout(r, 7, "cart-0", 2));
	put_row(r, 7, 1500000000, 2);
	collect_record_hand_over(r);
	collect_record_write(r);
	expect("metrics/cart-0.csv", "TimeStamp,a_total,b{x=\"1\";y=\"2\"}\n1.500000000,1,\n");
	assert_true(layout(r, 7, "cart-0", 4));
	put_row(r, 7, 2000000000, 4);
	put_row(r, 8, 2000000000, 4); /* its name is not known */
	collect_record_entry(
		r,
		&(struct collect_rows_entry){.kind = COLLECT_ROWS_VERDICT, .bytes = sizeof(line)},
		line);
	collect_record_entry(r, &accept, NULL);
	collect_record_entry(r, &gone, NULL);
	assert_int_equal(collect_record_free(r), -EIO);
	expect("metrics/cart-0.csv", "TimeStamp,a_total,b{x=\"1\";y=\"2\"},c_count_value,d_total\n"
				     "1.500000000,1,,,\n"
				     "2.000000000,1,,0.10000000000000001,4\n");
	expect("events.csv",
	       "start,fd,,1,2,3,4\n"
	       "layout,5,9,0000000000000007,2,cart-0.csv,cart-0,shop,cart-0\n"
	       "layout,5,9,0000000000000007,4,cart-0.csv,cart-0,shop,cart-0,uid 1000\n"
	       "accept,6,0000000000000007\n"
	       "gone,6,0000000000000007\n");
	expect("verdicts.csv", COLLECT_JUDGE_HEAD "1.5,cart-0,2,1\n");
}

/* Nothing about a pod that is gone stays in memory. */
static void a_pod_that_returns_gets_a_new_table(void **state)
{
	const struct collect_rows_entry gone = {
		.instance = 7, .moment = 6, .kind = COLLECT_ROWS_GONE};
	struct collect_record *r = recorder();

	(void)state;
	for (int64_t s = 1; s <= 3; s++) {
		assert_true(layout(r, 7, "cart-0", 1));
		put_row(r, 7, s * 1000000000, 1);
		collect_record_entry(r, &gone, NULL);
		put_row(r, 7, s * 1000000000, 1);
	}
	assert_int_equal(collect_record_lost(r), 0);
	collect_record_hand_over(r);
	collect_record_write(r);
	assert_int_equal(collect_record_lost(r), 3); /* rows after the pod was gone */
	assert_int_equal(collect_record_free(r), -EIO);
	expect("metrics/cart-0.csv", "TimeStamp,a_total\n1.000000000,1\n");
	expect("metrics/cart-0-0000000000000007.csv", "TimeStamp,a_total\n2.000000000,1\n");
	expect("metrics/cart-0-0000000000000007-2.csv", "TimeStamp,a_total\n3.000000000,1\n");
}

static void names_of_strangers_stay_in_the_folder(void **state)
{
	struct collect_record *r = recorder();
	struct stat st;
	char path[512];

	(void)state;
	assert_true(layout(r, 1, "../../evil", 1));
	assert_true(layout(r, 2, "twin", 1));
	assert_true(layout(r, 0xabc, "twin", 1));
	assert_true(layout(r, 4, "", 1));
	for (uint64_t i = 1; i < 5; i++)
		put_row(r, i == 3 ? 0xabc : i, 1000000000, 1);
	assert_int_equal(collect_record_free(r), 0);
	expect("metrics/_._.._evil.csv", "TimeStamp,a_total\n1.000000000,1\n");
	expect("metrics/twin.csv", "TimeStamp,a_total\n1.000000000,1\n");
	expect("metrics/twin-0000000000000abc.csv", "TimeStamp,a_total\n1.000000000,1\n");
	expect("metrics/0000000000000004.csv", "TimeStamp,a_total\n1.000000000,1\n");
	snprintf(path, sizeof(path), "%s/../evil.csv", test_folder);
	assert_int_equal(stat(path, &st), -1);
}

static void what_can_not_be_written_is_counted(void **state)
{
	struct collect_record *r = recorder();
	char path[512], error[200] = "";

	(void)state;
	snprintf(path, sizeof(path), "%s/metrics", test_folder);
	assert_int_equal(rmdir(path), 0);
	assert_true(layout(r, 1, "p", 1));
	put_row(r, 1, 1000000000, 1);
	collect_record_hand_over(r);
	collect_record_write(r);
	assert_int_equal(collect_record_lost(r), 1);
	assert_int_equal(collect_record_free(r), -EIO);
	assert_null(collect_record_new("/proc/nowhere", "", NULL, error, sizeof(error)));
	assert_non_null(strstr(error, "/proc/nowhere"));
}

int act_test_record(void);
int act_test_record(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_those_that_replay_knows),
		cmocka_unit_test_setup_teardown(tables_are_whole_also_when_columns_come_later,
						folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(a_pod_that_returns_gets_a_new_table, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(names_of_strangers_stay_in_the_folder, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(what_can_not_be_written_is_counted, folder_make,
						folder_remove),
	};

	base_log_level = BASE_ERROR;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
