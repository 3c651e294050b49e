// SPDX-License-Identifier: Apache-2.0
/* test_plan.c - a plan reads each line in use once and nothing else, in few READs. */
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "collect/read/plan.h"

static void any_plan(void **state)
{
	uint32_t s = 1;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct region_info info = {0};
		uint32_t lines, stripes, max_lines;
		uint64_t end, bytes = 0;
		uint8_t *seen, hot = 0;
		struct collect_plan p = {0};

		s = s * 1664525 + 1013904223;
		max_lines = 64 * (1 + (s >> 20) % 40);
		info.stripe_stride = max_lines * SL_LINE_SIZE;
		info.max_stripes = 1 + (s >> 8) % 20;
		info.hot = 4096;
		info.stripes = 4160 + (s >> 4) % 3 * 4032;
		if (s % 5 == 0)
			info.hot = info.stripes + (uint64_t)info.stripe_stride * info.max_stripes;
		info.max_lines = max_lines;
		lines = (s >> 12) % (max_lines + 1);
		stripes = (s >> 16) % (info.max_stripes + 1);
		seen = calloc(max_lines * info.max_stripes, 1);
		assert_int_equal(collect_plan_make(&p, &info, lines, stripes), 0);
		end = 0;
		for (uint32_t i = 0; i < p.reads; i++) {
			const struct collect_plan_read *r = &p.read[i];

			assert_true(r->offset >= end && r->length <= COLLECT_PLAN_READ_MAX);
			assert_int_equal(r->offset % SL_LINE_SIZE, 0);
			/* Adjacent lines that fit in one READ are in one. */
			if (i && r->offset - end <= COLLECT_PLAN_GAP)
				assert_true(p.read[i - 1].length + COLLECT_PLAN_GAP + SL_LINE_SIZE >
					    COLLECT_PLAN_READ_MAX);
			end = r->offset + r->length;
			bytes += r->length;
			for (uint32_t k = 0; k < r->pieces; k++) {
				const struct collect_piece *q = &p.piece[r->piece + k];

				assert_true(q->at + q->count * SL_LINE_SIZE <= r->length);
				if (q->stripe == COLLECT_PIECE_HOT) {
					assert_int_equal(r->offset + q->at, info.hot);
					hot++;
					continue;
				}
				assert_true(q->stripe < stripes && q->first + q->count <= lines);
				assert_int_equal(r->offset + q->at,
						 info.stripes +
							 (uint64_t)q->stripe * info.stripe_stride +
							 q->first * SL_LINE_SIZE);
				for (uint32_t n = 0; n < q->count; n++)
					seen[q->stripe * max_lines + q->first + n]++;
			}
		}
		assert_int_equal(hot, 1);
		assert_int_equal(bytes, p.bytes);
		for (uint32_t n = 0; n < max_lines * info.max_stripes; n++)
			assert_int_equal(seen[n], n / max_lines < stripes && n % max_lines < lines);
		collect_plan_free(&p);
		free(seen);
	}
}

int collect_test_plan(void);
int collect_test_plan(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(any_plan)};

	return cmocka_run_group_tests_name("collect-plan-reads-every-used-line-once", tests, NULL,
					   NULL);
}
