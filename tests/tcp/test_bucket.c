// SPDX-License-Identifier: Apache-2.0
/* test_bucket.c - the kernel's buckets have the bounds of native histograms in seconds. */
#include <math.h>

#include "support/test.h"

#define SL_SOURCE_TCP_BPF_KERNEL_H /* types in the kernel's programs differ */
typedef uint32_t u32;
typedef uint64_t u64;
#include "source/tcp/bpf/bucket.h"

static void test_bounds_are_those_of_seconds(void **state)
{
	(void)state;
	for (int i = -54; i <= 12; i++) {
		/* The last nanosecond in bucket i. */
		u64 last = (u64)floorl(exp2l((long double)i / 2) * 1e9l);

		assert_int_equal(bucket_of_seconds(last), i);
		assert_int_equal(bucket_of_seconds(last + 1), i + 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds_are_those_of_seconds)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
