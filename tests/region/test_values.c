// SPDX-License-Identifier: Apache-2.0
/* test_values.c - how a reader combines lines: sums, last valid values, repaired values. */
#include "decoding.h"

static void values_are_summed_as_their_kind_demands(void **state)
{
	struct region_info info;
	struct region_schema s;
	struct region_values v;
	struct make m;
	uint32_t cell[KINDS];
	uint64_t out[64], bits;

	(void)state;
	make_metrics(&m, 64, 3, 65536, NULL, 0);
	expect(REGION_FAULT_NONE, parse(&m, &info));
	region_schema_init(&s);
	for (size_t i = 0; i < KINDS; i++)
		cell[i] = make_metric(&m, &of_every_kind[i]);
	expect(REGION_FAULT_NONE, append(&s, &info, &m));
	for (uint32_t i = 0; i < 3; i++) {
		make_cell_set(&m, i, cell[0], UINT64_MAX - 1 + i);
		make_cell_set(&m, i, cell[1], sl_cell_of_f64(0.25 + i));
		make_cell_set(&m, i, cell[2], (uint64_t)-5 + 100 * i); /* stripe 0 counts */
		make_cell_set(&m, i, cell[3], sl_cell_of_f64(-17.5 + i));
		make_cell_set(&m, i, cell[4], sl_cell_of_f64(1e3));
		make_cell_set(&m, i, cell[4] + 1, 7);
		make_cell_set(&m, i, cell[5], sl_cell_of_f64(1e-3));
		make_cell_set(&m, i, cell[5] + 4, 9);
		make_cell_set(&m, i, cell[7], 1u << i);
	}
	region_values_init(&v);
	memset(out, 0xee, sizeof(out));
	region_values_flatten(&v, s.specials, s.special_count, s.cells,
			      out); /* no values yet: zeroes */
	for (uint64_t i = 0; i < s.cells; i++)
		assert_int_equal(out[i], 0);
	assert_int_equal(out[s.cells], 0xeeeeeeeeeeeeeeee);
	assert_int_equal(region_values_resize(&v, (uint32_t)m.hot[SL_HOT_LINES_USED], 3), 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(region_values_update(&v, i, 0,
						      (const uint64_t(*)[8])make_line(&m, i, 0),
						      v.lines, NULL),
				 0);
	region_values_flatten(&v, s.specials, s.special_count, s.cells, out);
	assert_true(out[cell[0]] == (uint64_t)-3);
	assert_true(region_values_u64(&v, cell[0]) == (uint64_t)-3);
	assert_true(region_values_f64(&v, cell[1]) == 3.75);
	bits = sl_cell_of_f64(3.75);
	assert_true(out[cell[1]] == (bits ^ bits >> 32));
	assert_true(out[cell[2]] == (uint64_t)-5);
	assert_true(region_values_shared(&v, cell[2]) == (uint64_t)-5);
	assert_true(sl_f64_of_cell(out[cell[3]] ^ out[cell[3]] >> 32) == -17.5);
	assert_true(sl_f64_of_cell(out[cell[4]] ^ out[cell[4]] >> 32) == 3e3);
	assert_int_equal(out[cell[4] + 1], 21);
	assert_int_equal(out[cell[5] + 4], 27);
	assert_int_equal(out[cell[7]], 1);
	region_values_free(&v);
	region_schema_free(&s);
	make_free(&m);
}

static void unsettled_line_keeps_the_last_good_one(void **state)
{
	static void (*const set_of[])(uint64_t *, unsigned int, uint64_t) = {make_set_mixed,
									     make_set};
	struct region_values v;
	uint64_t lines[130][8], retry[3];

	(void)state;
	region_values_init(&v);
	for (uint32_t stripes = 1; stripes <= 2; stripes++) {
		assert_int_equal(region_values_resize(&v, 140, stripes), 0);
		memset(lines, 0, sizeof(lines));
		for (int i = 0; i < 130; i++)
			set_of[stripes - 1](lines[i], i % 7, 1000 + i);
		assert_int_equal(region_values_update(&v, stripes - 1, 5,
						      (const uint64_t(*)[8])lines, 130, retry),
				 0);
		assert_int_equal(retry[0] | retry[1] | retry[2], 0);
		for (int i = 0; i < 130; i++)
			set_of[stripes - 1](lines[i], i % 7, 2000 + i);
		lines[0][7]++;	     /* check word */
		lines[64][5] ^= 256; /* a cell */
		lines[129][0] ^= 1ull << 63;
		memset(retry, 0xff, sizeof(retry));
		v.unsettled = 0;
		assert_int_equal(region_values_update(&v, stripes - 1, 5,
						      (const uint64_t(*)[8])lines, 130, retry),
				 3);
		assert_int_equal(v.unsettled, 3);
		assert_int_equal(retry[0], 1);
		assert_int_equal(retry[1], 1);
		assert_int_equal(retry[2], 2);
		for (uint32_t i = 0; i < 130; i++) {
			uint64_t old = stripes == 2 ? 2000 + i : 0; /* stripe 0, see below */

			assert_int_equal(region_values_u64(&v, (5 + i) * 7 + i % 7),
					 old + (i == 0 || i == 64 || i == 129 ? 1000 : 2000) + i);
		}
		/* Settled again. */
		lines[0][7]--;
		lines[64][5] ^= 256;
		lines[129][0] ^= 1ull << 63;
		assert_int_equal(region_values_update(&v, stripes - 1, 5,
						      (const uint64_t(*)[8])lines, 130, retry),
				 0);
		assert_int_equal(region_values_u64(&v, 5 * 7), (stripes == 2 ? 2000 : 0) + 2000);
	}
	/* A cell out of bounds is ignored. */
	assert_int_equal(region_values_update(&v, 2, 0, (const uint64_t(*)[8])lines, 1, NULL), 0);
	assert_int_equal(region_values_update(&v, 0, 140, (const uint64_t(*)[8])lines, 1, NULL), 0);
	assert_int_equal(region_values_update(&v, 1, 100, (const uint64_t(*)[8])lines, 130, retry),
			 0);
	region_values_free(&v);
}

static void values_grow_and_keep_what_they_have(void **state)
{
	static const uint32_t sizes[][2] = {{1, 1}, {3, 1}, {3, 2}, {5, 2},
					    {9, 7}, {2, 8}, {30, 3}};
	struct region_values v;
	uint64_t line[1][8] = {{0}};

	(void)state;
	region_values_init(&v);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint32_t lines = v.lines, stripes = v.stripes;

		allocations_left = 0;
		assert_int_equal(region_values_resize(&v, sizes[i][0], sizes[i][1]), -ENOMEM);
		allocations_left = -1;
		assert_int_equal(v.lines, lines);
		assert_int_equal(v.stripes, stripes);
		assert_int_equal(region_values_resize(&v, sizes[i][0], sizes[i][1]), 0);
		assert_true(v.lines >= sizes[i][0] && v.lines >= lines);
		assert_true(v.stripes >= sizes[i][1] && v.stripes >= stripes);
		assert_int_equal((uintptr_t)v.line % 64, 0);
		for (uint32_t s = 0; s < v.stripes; s++)
			for (uint32_t l = 0; l < v.lines; l++) {
				bool old = s < stripes && l < lines;

				assert_true(v.line[(s * (size_t)v.lines + l) * 8] ==
					    (old ? 1 + s + 100 * l : 0));
			}
		for (uint32_t s = 0; s < v.stripes; s++)
			for (uint32_t l = 0; l < v.lines; l++) {
				memset(line, 0, sizeof(line));
				(s ? make_set : make_set_mixed)(line[0], 0, 1 + s + 100 * l);
				region_values_update(&v, s, l, (const uint64_t(*)[8])line, 1, NULL);
			}
		for (uint32_t l = 0; l < v.lines; l++)
			assert_int_equal(region_values_u64(&v, l * 7),
					 v.stripes * (1 + 100 * l) +
						 v.stripes * (v.stripes - 1) / 2);
	}
	assert_int_equal(region_values_resize(&v, UINT32_MAX, UINT32_MAX), -ENOMEM);
	assert_int_equal(region_values_resize(&v, 1, 1), 0);
	assert_int_equal(v.lines, 30);
	region_values_free(&v);
}

static void repair_makes_every_line_in_use_verify(void **state)
{
	struct region_info info;
	struct region_hot hot;
	struct make m;

	(void)state;
	make_metrics(&m, 128, 4, 4096, NULL, 0);
	expect(REGION_FAULT_NONE, parse(&m, &info));
	make_set(m.hot, SL_HOT_LINES_USED, 100);
	make_set(m.hot, SL_HOT_STRIPES_USED, 3);
	assert_int_equal(region_repair(m.mem, &info), 0);
	/* A writer killed between its two stores: in lines, and in the hot line. */
	make_line(&m, 0, 0)[3] += 5;
	make_line(&m, 2, 99)[6] -= 1;
	m.hot[SL_HOT_GENERATION]++;
	make_line(&m, 3, 0)[0]++;   /* stripe not in use */
	make_line(&m, 0, 100)[0]++; /* line not in use */
	expect(REGION_FAULT_UNSETTLED, region_hot_parse(m.hot, &info, &hot));
	assert_int_equal(region_repair(m.mem, &info), 3);
	expect(REGION_FAULT_NONE, region_hot_parse(m.hot, &info, &hot));
	assert_int_equal(make_line(&m, 0, 0)[3], 5); /* the values stay */
	assert_true(make_line(&m, 0, 0)[7] == sl_mixed_check(make_line(&m, 0, 0)));
	assert_true(make_line(&m, 2, 99)[7] == sl_line_check(make_line(&m, 2, 99)));
	assert_true(make_line(&m, 3, 0)[7] != sl_line_check(make_line(&m, 3, 0)));
	assert_int_equal(region_repair(m.mem, &info), 0);
	/* An invalid hot line has no effect. */
	make_set(m.hot, SL_HOT_LINES_USED, UINT64_MAX);
	make_set(m.hot, SL_HOT_STRIPES_USED, UINT64_MAX);
	assert_int_equal(region_repair(m.mem, &info), 2);
	make_free(&m);
	make_directory(&m, 4);
	expect(REGION_FAULT_NONE, parse(&m, &info));
	m.hot[0]++;
	assert_int_equal(region_repair(m.mem, &info), 1);
	make_free(&m);
}

static void mixed_lines_are_another_kind(void **state)
{
	struct rng r = {7};
	uint64_t line[8];

	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint64_t check = 0;

		for (uint32_t c = 0; c < 7; c++) {
			uint64_t a, b, k = sl_line_k[c], low, one, two;

			line[c] = rng_next(&r) >> rng_below(&r, 64);
			/* Computed by hand, in halves. */
			a = line[c] >> 32, b = (uint32_t)line[c];
			low = b * (uint32_t)k;
			one = a * (uint32_t)k + (low >> 32);
			two = b * (k >> 32) + (uint32_t)one;
			check += (line[c] * k) ^ (a * (k >> 32) + (one >> 32) + (two >> 32));
		}
		assert_true(sl_mixed_check(line) == check);
		assert_true(sl_stripe_check(0, line) == check);
		assert_true(sl_stripe_check(1, line) == sl_line_check(line));
		assert_true(sl_line_check(line) != check);
	}
	assert_int_equal(sl_cell_mix(0, 3), 0);
}

static void f64_cells_fold_and_unfold(void **state)
{
	static const double some[] = {0, -0.0, 1, -1, 17, 300, 1e-300, 1e300, INFINITY, 0.1};

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++) {
		double back = sl_f64_of_cell(sl_cell_of_f64(some[i]));

		assert_memory_equal(&back, &some[i], 8);
	}
	assert_int_equal(sl_cell_of_f64(0), 0);
}

const struct CMUnitTest values_tests[] = {
	cmocka_unit_test(values_are_summed_as_their_kind_demands),
	cmocka_unit_test(unsettled_line_keeps_the_last_good_one),
	cmocka_unit_test(values_grow_and_keep_what_they_have),
	cmocka_unit_test(repair_makes_every_line_in_use_verify),
	cmocka_unit_test(mixed_lines_are_another_kind),
	cmocka_unit_test(f64_cells_fold_and_unfold),
	{0},
};
