// SPDX-License-Identifier: Apache-2.0
/* test_counts.c - Count-Min, Count-Sketch and Space-Saving against exact counts. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "support/test.h"
#include "sketch/cells.h"
#include "sketch/space_saving.h"
#include "streams.h"

#define KEYS 4096u

enum { ZIPF, UNIFORM, FEW_BIG, DENSE, SHAPES };

static uint32_t draw(int shape, uint64_t *seed)
{
	switch (shape) {
	case ZIPF: /* about 1 / rank */
		return (uint32_t)exp(rnd_unit(seed) * log(KEYS));
	case UNIFORM:
		return (uint32_t)(rnd(seed) % KEYS);
	case FEW_BIG:
		return (uint32_t)(rnd(seed) % 10 ? rnd(seed) % 5 : rnd(seed) % KEYS);
	default:
		return (uint32_t)(rnd(seed) % 200);
	}
}

static struct sketch_cells sketch_over(enum sketch_cells_kind kind, uint32_t width, uint32_t depth,
				       uint64_t seed, uint64_t *cells)
{
	struct sketch_cells s;

	assert_int_equal(sketch_cells_init(&s, kind, width, depth, seed, cells), 0);
	return s;
}

static uint64_t hash_of(const struct sketch_cells *s, uint64_t key)
{
	return sketch_hash_bytes(&key, sizeof(key), s->seed);
}

static void count_min_is_never_low_and_seldom_high(void **state)
{
	uint64_t stream = 1;

	(void)state;
	for (int shape = 0; shape < SHAPES; shape++)
		for (uint32_t depth = 1; depth <= 5; depth += 2) {
			enum { SEEDS = 10, N = 4000 };
			double high = 0, error;

			for (uint64_t seed = 0; seed < SEEDS; seed++) {
				static uint64_t exact[KEYS];
				uint64_t cells[128 * 5] = {0};
				struct sketch_cells s = sketch_over(SKETCH_COUNT_MIN, 128, depth,
								    seed, cells);

				memset(exact, 0, sizeof(exact));
				for (int i = 0; i < N; i++) {
					uint32_t key = draw(shape, &stream);
					uint64_t n = 1 + rnd(&stream) % 3;

					exact[key] += n;
					assert_int_equal(sketch_cells_add(&s, hash_of(&s, key), n),
							 0);
				}
				assert_int_equal(sketch_cells_check(&s), 0);
				for (uint32_t key = 0; key < KEYS; key++) {
					double got = sketch_cells_estimate(&s, hash_of(&s, key),
									   &error);

					assert_true(got >= (double)exact[key]);
					high += got - (double)exact[key] > error;
				}
			}
			/* Markov's inequality leaves enough room for chance. */
			assert_true(high / SEEDS / KEYS <= exp(-(double)depth));
		}
}

static double binomial_tail(uint32_t d)
{
	double sum = 0;

	for (uint32_t i = d / 2 + 1; i <= d; i++) {
		double c = 1;

		for (uint32_t j = 0; j < i; j++)
			c = c * (d - j) / (j + 1);
		sum += c * pow(0.125, i) * pow(0.875, d - i);
	}
	return sum;
}

static void count_sketch_is_seldom_off_and_on_average_right(void **state)
{
	uint64_t stream = 3;

	(void)state;
	for (int shape = 0; shape < SHAPES; shape++)
		for (uint32_t depth = 1; depth <= 7; depth += 2) {
			enum { SEEDS = 12, N = 4000, WIDTH = 128 };
			double off = 0, sum = 0, bound = 0, f2 = 0;

			for (uint64_t seed = 0; seed < SEEDS; seed++) {
				static int64_t exact[KEYS];
				uint64_t cells[WIDTH * 7] = {0};
				struct sketch_cells s = sketch_over(SKETCH_COUNT_SKETCH, WIDTH,
								    depth, seed, cells);
				double error;

				memset(exact, 0, sizeof(exact));
				for (int i = 0; i < N; i++) {
					uint32_t key = draw(shape, &stream);
					int64_t n = (int64_t)(rnd(&stream) % 5) - 1;

					exact[key] += n;
					sketch_cells_add(&s, hash_of(&s, key), (uint64_t)n);
				}
				f2 = 0;
				for (uint32_t key = 0; key < KEYS; key++)
					f2 += (double)(exact[key] * exact[key]);
				for (uint32_t key = 0; key < KEYS; key++) {
					double e = sketch_cells_estimate(&s, hash_of(&s, key),
									 &error) -
						   (double)exact[key];

					off += fabs(e) > sqrt(8 * f2 / WIDTH);
					sum += e / sqrt(f2 / WIDTH);
				}
				bound += pow(error, 2) / (8 * f2 / WIDTH);
			}
			assert_true(off / SEEDS / KEYS <= binomial_tail(depth));
			assert_true(fabs(sum / SEEDS / KEYS) < 0.1);
			assert_true(fabs(bound / SEEDS - 1) < 4 * sqrt(2.0 / WIDTH));
		}
}

static void space_saving_keeps_its_bounds_and_every_big_key(void **state)
{
	const uint32_t sizes[] = {1, 2, 7, 64, 300};
	uint64_t stream = 4;

	(void)state;
	for (int shape = 0; shape < SHAPES + 2; shape++)
		for (size_t z = 0; z < sizeof(sizes) / sizeof(*sizes); z++) {
			static uint64_t exact[KEYS];
			struct sketch_space_saving *s = sketch_space_saving_new(sizes[z], 4, 1);
			struct sketch_space_saving_item top[300];
			bool there[KEYS] = {0};
			uint64_t total = 0;
			uint32_t n;

			memset(exact, 0, sizeof(exact));
			for (uint32_t i = 0; i < 20000; i++) {
				uint32_t key = draw(shape % SHAPES, &stream);
				uint64_t weight = shape & 1 ? 1 : rnd(&stream) % 9;

				if (shape == SHAPES) /* all keys in turn: each one evicts another */
					key = i % KEYS;
				else if (shape == SHAPES + 1) /* and the heavy ones come last */
					key = i < 16000 ? i % KEYS : i % 3;
				exact[key] += weight;
				total += weight;
				assert_int_equal(sketch_space_saving_add(s, &key, weight), 0);
			}
			assert_int_equal(sketch_space_saving_total(s), total);
			assert_true(sketch_space_saving_floor(s) <= total / sizes[z]);
			n = sketch_space_saving_top(s, top, 300);
			for (uint32_t i = 0; i < n; i++) {
				uint32_t key;

				memcpy(&key, top[i].key, 4);
				there[key] = true;
				assert_true(top[i].count >= exact[key]);
				assert_true(top[i].count - top[i].error <= exact[key]);
				assert_true(top[i].error <= total / sizes[z]);
				assert_true(i == 0 || top[i].count <= top[i - 1].count);
			}
			for (uint32_t key = 0; key < KEYS; key++) {
				if (exact[key] > total / sizes[z])
					assert_true(there[key]);
				if (!there[key])
					assert_true(exact[key] <= sketch_space_saving_floor(s));
			}
			/* The first of many keys are the same as those of few. */
			for (uint32_t k = 0; k <= n; k += 1 + n / 5) {
				struct sketch_space_saving_item few[300];

				assert_int_equal(sketch_space_saving_top(s, few, k), k);
				for (uint32_t i = 0; i < k; i++)
					assert_true(few[i].key == top[i].key);
			}
			sketch_space_saving_free(s);
		}
}

static void with_room_for_all_counts_are_exact(void **state)
{
	struct sketch_space_saving *s = sketch_space_saving_new(KEYS, 8, 9);
	static struct sketch_space_saving_item top[KEYS];
	static uint64_t exact[KEYS];
	uint64_t stream = 5;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		uint64_t key = draw(ZIPF, &stream);

		exact[key]++;
		sketch_space_saving_add(s, &key, 1);
	}
	for (uint32_t n = sketch_space_saving_top(s, top, KEYS), i = 0; i < n; i++) {
		uint64_t key;

		memcpy(&key, top[i].key, 8);
		assert_true(top[i].count == exact[key] && top[i].error == 0);
		exact[key] = 0;
	}
	for (uint64_t key = 0; key < KEYS; key++)
		assert_int_equal(exact[key], 0);
	assert_int_equal(sketch_space_saving_floor(s), 0);
	sketch_space_saving_free(s);
}

static void what_cannot_be_is_refused(void **state)
{
	uint64_t cells[64 * 2] = {0};
	struct sketch_cells a = sketch_over(SKETCH_COUNT_MIN, 64, 2, 1, cells), s;
	double error;
	struct sketch_space_saving *e = sketch_space_saving_new(3, 1, 1);

	(void)state;
	assert_int_equal(sketch_cells_add(&a, 1, UINT64_MAX), 0);
	assert_int_equal(sketch_cells_add(&a, 1, 1), -EOVERFLOW);
	assert_int_equal(a.total, UINT64_MAX);
	assert_true(sketch_cells_estimate(&a, 1, &error) == (double)UINT64_MAX);
	assert_int_equal(sketch_space_saving_add(e, "a", UINT64_MAX), 0);
	assert_int_equal(sketch_space_saving_add(e, "b", 1), -EOVERFLOW);
	assert_int_equal(sketch_cells_init(&s, SKETCH_COUNT_MIN, 63, 2, 1, NULL), -EINVAL);
	assert_int_equal(sketch_cells_init(&s, SKETCH_COUNT_MIN, 1, 2, 1, NULL), -EINVAL);
	assert_int_equal(sketch_cells_init(&s, SKETCH_COUNT_MIN, 64, 0, 1, NULL), -EINVAL);
	assert_int_equal(sketch_cells_init(&s, SKETCH_COUNT_MIN, 64, 17, 1, NULL), -EINVAL);
	assert_int_equal(sketch_cells_init(&s, SKETCH_COUNT_MIN, 1u << 23, 2, 1, NULL), -EINVAL);
	assert_int_equal(sketch_cells_init(&s, SKETCH_COUNT_SKETCH, 64, 2, 1, NULL), -EINVAL);
	assert_int_equal(sketch_cells_init(&s, SKETCH_COUNT_SKETCH, 64, 17, 1, NULL), -EINVAL);
	assert_int_equal(sketch_cells_init(&s, SKETCH_COUNT_SKETCH, 0, 3, 1, NULL), -EINVAL);
	assert_null(sketch_space_saving_new(0, 4, 1));
	assert_null(sketch_space_saving_new(4, 0, 1));
	assert_null(sketch_space_saving_new(4, SKETCH_SPACE_SAVING_KEY_MAX + 1, 1));
	assert_null(sketch_space_saving_new(SKETCH_SPACE_SAVING_MAX + 1, 4, 1));
	assert_int_equal(errno, EINVAL);
	sketch_space_saving_free(e);
	sketch_space_saving_free(NULL);
}

/* Each row of a Count-Min sums to the total. */
static void forged_cells_are_refused(void **state)
{
	uint64_t cells[8 * 2] = {0};
	struct sketch_cells s = sketch_over(SKETCH_COUNT_MIN, 8, 2, 1, cells);

	(void)state;
	for (uint64_t i = 0; i < 100; i++)
		sketch_cells_add(&s, hash_of(&s, i), i);
	assert_int_equal(sketch_cells_check(&s), 0);
	for (int i = 0; i < 16; i++) {
		cells[i]++;
		assert_int_equal(sketch_cells_check(&s), -EINVAL);
		cells[i]--;
	}
	cells[0] = cells[1] = UINT64_MAX; /* their sum overflows */
	assert_int_equal(sketch_cells_check(&s), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(count_min_is_never_low_and_seldom_high),
		cmocka_unit_test(count_sketch_is_seldom_off_and_on_average_right),
		cmocka_unit_test(space_saving_keeps_its_bounds_and_every_big_key),
		cmocka_unit_test(with_room_for_all_counts_are_exact),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(forged_cells_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
