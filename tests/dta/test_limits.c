// SPDX-License-Identifier: Apache-2.0
/* test_limits.c - the limits that cgroups of both versions set for stores, from simulated files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/folder.h"
#include "dta/store/store.h"
#include "dta/store/stores.h"

#define MIB ((uint64_t)1 << 20)

static uint64_t left(enum dta_limit what)
{
	char cgroups[128];

	snprintf(cgroups, sizeof(cgroups), "%s/cgroup", test_folder);
	return dta_limits_left_in(what, cgroups, test_folder);
}

static void the_narrowest_limit_of_all_parents_counts_in_v2(void **state)
{
	(void)state;
	folder_put("cgroup", "0::/a/b\n");
	folder_put("a/b/memory.max", "max\n");
	folder_put("a/b/memory.current", "5\n");
	assert_true(left(DTA_LIMIT_MEMORY) == UINT64_MAX);
	folder_put("a/memory.max", "1000\n");
	folder_put("a/memory.current", "300\n");
	assert_int_equal(left(DTA_LIMIT_MEMORY), 700);
	folder_put("a/b/memory.max", "600\n");
	assert_int_equal(left(DTA_LIMIT_MEMORY), 595);
	folder_put("a/memory.current", "900\n");
	assert_int_equal(left(DTA_LIMIT_MEMORY), 100);
	/* Lowered below the current usage. */
	folder_put("a/memory.max", "800\n");
	assert_int_equal(left(DTA_LIMIT_MEMORY), 0);
	/* Reserved huge pages have a separate limit. */
	assert_true(left(DTA_LIMIT_HUGETLB) == UINT64_MAX);
	folder_put("a/b/hugetlb.2MB.max", "8388608\n");
	folder_put("a/b/hugetlb.2MB.current", "2097152\n");
	assert_int_equal(left(DTA_LIMIT_HUGETLB), 6 * MIB);
	/* In a container with a cgroup namespace, its cgroup is the root. */
	folder_put("cgroup", "0::/\n");
	assert_true(left(DTA_LIMIT_HUGETLB) == UINT64_MAX);
	folder_put("hugetlb.2MB.max", "4194304\n");
	folder_put("hugetlb.2MB.current", "0\n");
	assert_int_equal(left(DTA_LIMIT_HUGETLB), 4 * MIB);
}

static void each_controller_has_its_own_tree_in_version_1(void **state)
{
	(void)state;
	folder_put("cgroup",
		   "12:hugetlb:/h\n9:cpu,memory:/m/n\n8:memoryless:/x\n1:name=systemd:/s\n0::/u\n");
	folder_put("memory/m/n/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
	folder_put("memory/m/n/memory.usage_in_bytes", "4096\n");
	folder_put("hugetlb/h/hugetlb.2MB.limit_in_bytes", "9223372036854771712\n");
	folder_put("hugetlb/h/hugetlb.2MB.usage_in_bytes", "0\n");
	/* Values that are not limits of this process. */
	folder_put("memory/x/memory.limit_in_bytes", "1\n");
	folder_put("memory/x/memory.usage_in_bytes", "0\n");
	folder_put("m/n/memory.max", "2\n");
	folder_put("m/n/memory.current", "0\n");
	folder_put("memory/h/memory.limit_in_bytes", "3\n");
	folder_put("memory/h/memory.usage_in_bytes", "0\n");
	assert_true(left(DTA_LIMIT_MEMORY) == UINT64_MAX);
	assert_true(left(DTA_LIMIT_HUGETLB) == UINT64_MAX);
	folder_put("memory/m/memory.limit_in_bytes", "10000\n");
	folder_put("memory/m/memory.usage_in_bytes", "4096\n");
	assert_int_equal(left(DTA_LIMIT_MEMORY), 5904);
	folder_put("hugetlb/h/hugetlb.2MB.limit_in_bytes", "2097152\n");
	assert_int_equal(left(DTA_LIMIT_HUGETLB), 2 * MIB);
	/*
	 * Within a container, the root is its cgroup, but the path is that outside of the
	 * container.
	 */
	folder_put("cgroup", "9:memory:/docker/0123\n");
	folder_put("memory/memory.limit_in_bytes", "777\n");
	folder_put("memory/memory.usage_in_bytes", "77\n");
	assert_int_equal(left(DTA_LIMIT_MEMORY), 700);
	/* Some controllers in one version, some in the other. */
	folder_put("cgroup", "12:hugetlb:/h\n0::/u\n");
	folder_put("u/memory.max", "50\n");
	folder_put("u/memory.current", "20\n");
	assert_int_equal(left(DTA_LIMIT_MEMORY), 30);
	assert_int_equal(left(DTA_LIMIT_HUGETLB), 2 * MIB);
}

static void what_can_not_be_read_is_no_limit(void **state)
{
	(void)state;
	assert_true(left(DTA_LIMIT_MEMORY) == UINT64_MAX);
	folder_put("cgroup", "\n:\n0:\nno line\n3:memory\n0::\n4:memory:relative\n");
	assert_true(left(DTA_LIMIT_MEMORY) == UINT64_MAX);
	folder_put("cgroup", "0::/a");
	folder_put("a/memory.max", "some\n");
	folder_put("a/memory.current", "10\n");
	assert_true(left(DTA_LIMIT_MEMORY) == UINT64_MAX);
	folder_put("a/memory.max", "");
	assert_true(left(DTA_LIMIT_MEMORY) == UINT64_MAX);
	folder_put("a/memory.max", "20");
	assert_int_equal(left(DTA_LIMIT_MEMORY), 10);
}

/* ---- what it decides ---- */

static uint64_t memory_left = UINT64_MAX, hugetlb_left = UINT64_MAX;

uint64_t __wrap_dta_limits_left(enum dta_limit what);
uint64_t __wrap_dta_limits_left(enum dta_limit what)
{
	return what == DTA_LIMIT_MEMORY ? memory_left : hugetlb_left;
}

static const struct sl_store_config config = {.kind = SL_STORE_KEYWRITE,
					      .id = 1,
					      .slots = 262144,
					      .rows = 1,
					      .value_bytes = 8,
					      .lanes = 1,
					      .banks = 1,
					      .copies = 1};

static const char *pages(enum dta_stores_hugepages policy)
{
	static char said[32];
	char error[300];
	struct dta_store_object *o = dta_store_object_new(&config, "x", NULL, policy, error,
							  sizeof(error));

	if (!o)
		fail_msg("%s", error);
	snprintf(said, sizeof(said), "%s", o->pages);
	dta_store_object_free(o, false);
	return said;
}

static void a_store_takes_no_more_than_they_leave(void **state)
{
	char error[300] = "";

	(void)state;
	hugetlb_left = 2 * MIB; /* the store needs 4 MiB and some pages */
	assert_null(
		dta_store_object_new(&config, "x", NULL, DTA_HUGE_ALWAYS, error, sizeof(error)));
	assert_non_null(strstr(error, "(the hugetlb limit of its cgroup)"));
	if (strcmp(pages(DTA_HUGE_AUTO), "transparent"))
		print_message("SKIP: this kernel or its memory gives no huge pages when asked\n");
	/* Half of the rest is left for others. */
	memory_left = 6 * MIB;
	assert_string_equal(pages(DTA_HUGE_AUTO), "small");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_narrowest_limit_of_all_parents_counts_in_v2,
						folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(each_controller_has_its_own_tree_in_version_1,
						folder_make, folder_remove),
		cmocka_unit_test_setup_teardown(what_can_not_be_read_is_no_limit, folder_make,
						folder_remove),
		cmocka_unit_test(a_store_takes_no_more_than_they_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
