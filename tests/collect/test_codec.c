// SPDX-License-Identifier: Apache-2.0
/* test_codec.c - history columns decode to the exact bits that were encoded. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "support/random.h"
#include "collect/read/codec.h"

static uint64_t rng = 88172645463325252ull;

static uint64_t any(void)
{
	return random_xorshift(&rng);
}

static uint64_t bits(double d)
{
	uint64_t b;

	memcpy(&b, &d, 8);
	return b;
}

static size_t both_ways(const uint64_t *v, unsigned int n, bool f64)
{
	uint8_t *packed = malloc(COLLECT_COLUMN_MAX(n)), *exact;
	uint64_t back[COLLECT_COLUMN_ROWS];
	size_t bytes = collect_column_pack(packed, v, n, f64);

	assert_true(bytes <= COLLECT_COLUMN_MAX(n));
	/* allocated with exactly this size, so that tools see a read beyond it */
	exact = malloc(bytes);
	memcpy(exact, packed, bytes);
	assert_true(collect_column_unpack(back, n, exact, bytes));
	assert_memory_equal(v, back, n * sizeof(*v));
	free(exact);
	free(packed);
	return bytes;
}

static void integers(void **state)
{
	(void)state;
	for (int round = 0; round < 20000; round++) {
		unsigned int n = 1 + (unsigned int)(any() % COLLECT_COLUMN_ROWS);
		uint64_t v[COLLECT_COLUMN_ROWS], x = any() >> (any() % 64);
		unsigned int narrow = (unsigned int)(any() % 64);
		int kind = (int)(any() % 4);

		for (unsigned int i = 0; i < n; i++) {
			v[i] = x;
			if (kind == 0) /* a counter */
				x += any() >> narrow;
			else if (kind == 1) /* a gauge around its value */
				x += (any() >> narrow) - (any() >> narrow);
			else if (kind == 2) /* noise */
				x = any() >> narrow;
			else if (any() % 8 == 0) /* rests, then moves */
				x = any();
		}
		both_ways(v, n, false);
		both_ways(v, n, true); /* the same words, interpreted as doubles */
	}
}

static void extremes(void **state)
{
	uint64_t wrap[4] = {UINT64_MAX - 5, UINT64_MAX, 3, 20};
	uint64_t jumps[5] = {0, UINT64_MAX, 0, 1ull << 63, (1ull << 63) - 1};
	uint64_t one[1] = {UINT64_MAX};
	/* A clock that is set back, and forth. */
	uint64_t clock[4] = {1700000000000000000ull, 1700000000010000000ull, 1600000000000000000ull,
			     1700000000020000000ull};

	(void)state;
	both_ways(wrap, 4, false);
	both_ways(jumps, 5, false);
	both_ways(one, 1, false);
	both_ways(clock, 4, false);
	both_ways(clock, 2, false);
}

static void doubles(void **state)
{
	uint64_t odd[12] = {
		bits(NAN),	0x7ff0000000000001ull, 0xfff8dead0000beefull,
		bits(INFINITY), bits(-INFINITY),       bits(0.0),
		bits(-0.0),	bits(0x1p-1074),       bits(0x1p53 + 2.0),
		bits(-0x1p53),	bits(1e308),	       bits(17.0),
	};
	uint64_t v[COLLECT_COLUMN_ROWS];
	double x = 20.5;

	(void)state;
	both_ways(odd, 12, true);
	for (unsigned int i = 0; i < 12; i++)
		both_ways(odd + i, 1, true);
	for (int round = 0; round < 5000; round++) {
		unsigned int n = 1 + (unsigned int)(any() % COLLECT_COLUMN_ROWS);

		for (unsigned int i = 0; i < n; i++) {
			v[i] = bits(x);
			if (any() % 3)
				x += (double)(int64_t)(any() % 2000 - 1000) / 64;
			if (any() % 50 == 0)
				v[i] = any();
		}
		both_ways(v, n, true);
	}
}

static void small(void **state)
{
	uint64_t v[COLLECT_COLUMN_ROWS];

	(void)state;
	for (unsigned int i = 0; i < COLLECT_COLUMN_ROWS; i++)
		v[i] = 123456789;
	assert_true(both_ways(v, COLLECT_COLUMN_ROWS, false) <= 8);
	for (unsigned int i = 0; i < COLLECT_COLUMN_ROWS; i++)
		v[i] = 123456789 + 1000ull * i;
	assert_true(both_ways(v, COLLECT_COLUMN_ROWS, false) <= 10);
	for (unsigned int i = 0; i < COLLECT_COLUMN_ROWS; i++)
		v[i] = bits(1e6 + 3.0 * i);
	assert_true(both_ways(v, COLLECT_COLUMN_ROWS, true) <= 10);
	for (unsigned int i = 1; i < COLLECT_COLUMN_ROWS; i++)
		v[i] = v[i - 1] + 900 + any() % 200;
	assert_true(both_ways(v, COLLECT_COLUMN_ROWS, false) <= 80);
}

static void garbage(void **state)
{
	uint64_t v[COLLECT_COLUMN_ROWS];

	(void)state;
	for (int round = 0; round < 200000; round++) {
		size_t bytes = (size_t)(any() % 40);
		uint8_t *in = malloc(bytes ? bytes : 1);

		for (size_t i = 0; i < bytes; i++)
			in[i] = (uint8_t)any();
		if (bytes && any() % 2)
			in[0] = any() % 2 ? 0x7f : (uint8_t)(any() % 66);
		collect_column_unpack(v, 1 + (unsigned int)(any() % COLLECT_COLUMN_ROWS), in,
				      bytes);
		free(in);
	}
}

int collect_test_codec(void);
int collect_test_codec(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(integers, NULL, NULL),
		cmocka_unit_test(extremes),
		cmocka_unit_test(doubles),
		cmocka_unit_test(small),
		cmocka_unit_test(garbage),
	};

	return cmocka_run_group_tests_name("collect-history-codec-is-lossless", tests, NULL, NULL);
}
