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
#include "collect/analysis/record.h"

static struct collect_record *recorder(void)
{
	char error[200] = "";
	struct collect_record *r = collect_record_new(test_folder, 1, error, sizeof(error));

	if (!r)
		fail_msg("%s", error);
	return r;
}

static void expect(const char *name, const char *want)
{
	char path[512], got[1024] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/metrics/%s", test_folder, name);
	f = fopen(path, "r");
	if (!f)
		fail_msg("%s: %s", path, strerror(errno));
	got[fread(got, 1, sizeof(got) - 1, f)] = '\0';
	fclose(f);
	assert_string_equal(got, want);
}

static const char *names[] = {"a_total", "b{x=\"1\",y=\"2\"}", "c_count", "d"};
static bool counter[] = {true, false, false, true};
static double value[] = {1, NAN, 0.1, 4};

static struct collect_features features(uint32_t n)
{
	return (struct collect_features){
		.count = n, .name = names, .counter = counter, .value = value};
}

static void tables_are_whole_also_when_columns_come_later(void **state)
{
	struct collect_record *r = recorder();
	struct collect_features f = features(2);

	(void)state;
	assert_true(collect_record_layout(r, 0, 7, "cart-0", &f));
	collect_record_row(r, 0, 7, 1500000000, &f);
	collect_record_hand_over(r, 0);
	collect_record_write(r);
	expect("cart-0.csv", "TimeStamp,a_total,b{x=\"1\";y=\"2\"}\n1.500000,1,\n");
	f = features(4);
	assert_true(collect_record_layout(r, 0, 7, "cart-0", &f));
	collect_record_row(r, 0, 7, 2000000000, &f);
	collect_record_row(r, 0, 8, 2000000000, &f); /* its name is not known */
	assert_int_equal(collect_record_free(r), -EIO);
	/* A gauge is not taken for a counter by its name, nor a counter for a gauge. */
	expect("cart-0.csv", "TimeStamp,a_total,b{x=\"1\";y=\"2\"},c_count_value,d_total\n"
			     "1.500000,1,,,\n"
			     "2.000000,1,,0.10000000000000001,4\n");
}

static void names_of_strangers_stay_in_the_folder(void **state)
{
	struct collect_record *r = recorder();
	struct collect_features f = features(1);
	struct stat st;
	char path[512];

	(void)state;
	assert_true(collect_record_layout(r, 0, 1, "../../evil", &f));
	assert_true(collect_record_layout(r, 0, 2, "twin", &f));
	assert_true(collect_record_layout(r, 0, 0xabc, "twin", &f));
	assert_true(collect_record_layout(r, 0, 4, "", &f));
	for (uint64_t i = 1; i < 5; i++)
		collect_record_row(r, 0, i == 3 ? 0xabc : i, 1000000000, &f);
	assert_int_equal(collect_record_free(r), 0);
	expect("_._.._evil.csv", "TimeStamp,a_total\n1.000000,1\n");
	expect("twin.csv", "TimeStamp,a_total\n1.000000,1\n");
	expect("twin-0000000000000abc.csv", "TimeStamp,a_total\n1.000000,1\n");
	expect("0000000000000004.csv", "TimeStamp,a_total\n1.000000,1\n");
	snprintf(path, sizeof(path), "%s/../evil.csv", test_folder);
	assert_int_equal(stat(path, &st), -1);
}

static void what_can_not_be_written_is_counted(void **state)
{
	struct collect_record *r = recorder();
	struct collect_features f = features(1);
	char path[512], error[200] = "";

	(void)state;
	snprintf(path, sizeof(path), "%s/metrics", test_folder);
	assert_int_equal(rmdir(path), 0);
	assert_true(collect_record_layout(r, 0, 1, "p", &f));
	collect_record_row(r, 0, 1, 1000000000, &f);
	collect_record_hand_over(r, 0);
	collect_record_write(r);
	assert_int_equal(collect_record_lost(r), 1);
	assert_int_equal(collect_record_free(r), -EIO);
	assert_null(collect_record_new("/proc/nowhere", 1, error, sizeof(error)));
	assert_non_null(strstr(error, "/proc/nowhere"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(tables_are_whole_also_when_columns_come_later,
						folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(names_of_strangers_stay_in_the_folder, folder_make,
						folder_remove),
		cmocka_unit_test_setup_teardown(what_can_not_be_written_is_counted, folder_make,
						folder_remove),
	};

	base_log_level = BASE_ERROR;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
