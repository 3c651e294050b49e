// SPDX-License-Identifier: Apache-2.0
/*
 * test_hash_many.c - hashing many keys gives the same results as hashing each; a mapped store whose
 * reports are hashed ahead has the same bytes as one written one operation at a time.
 */
#include "engine_drive.h"

#include "dta/store/hash_many.h"

static void many_keys_have_the_words_of_one(void **state)
{
	static const uint32_t counts[] = {1, 7, 8, 9, 33, 127, 128};
	static const uint64_t seeds[] = {0, 1, 0x80000000, ~0ull, 0x0123456789abcdefull};
	static uint8_t items[DTA_MANY * (SL_STORE_KEY_MAX + SL_STORE_VALUE_MAX)];
	uint64_t rnd = 1, slot[DTA_MANY], check[DTA_MANY];
	struct dta_hashes h;

	(void)state;
	for (size_t i = 0; i < sizeof(items); i++)
		items[i] = (uint8_t)next_random(&rnd);
	for (uint32_t key = SL_STORE_KEY_MIN; key <= SL_STORE_KEY_MAX; key++)
		for (uint32_t turn = 0; turn < 7; turn++) {
			const uint32_t count = counts[turn],
				       value = turn == 6 ? 256 : 4 + (key + turn) % 14;
			const uint64_t seed = seeds[turn % 5],
				       slots = 1 + next_random(&rnd) % (1ull << (turn * 7));
			const uint32_t step = key + value;
			/* Nothing beyond the last byte of the last item may be read. */
			const uint8_t *first = items + sizeof(items) - (size_t)count * step;

			dta_hash_many(first, key, step, seed, count, &h);
			dta_check_many(&h, first + key, value, step, count, check);
			for (uint32_t n = 0; n < SL_STORE_COPIES_MAX; n++) {
				dta_slot_many(&h, n, slots, count, slot);
				for (uint32_t i = 0; i < count; i++) {
					const uint8_t *item = first + (size_t)i * step;
					struct dta_hash one = dta_hash(item, key, seed);

					if (h.lo[i] != one.lo || h.hi[i] != one.hi)
						fail_msg("key of %u bytes, %u of %u: another hash",
							 key, i, count);
					if (slot[i] != dta_slot(one, n, slots))
						fail_msg("key of %u bytes, copy %u: another slot",
							 key, n);
					if (check[i] != dta_check(one, item + key, value))
						fail_msg("value of %u bytes: another check word",
							 value);
				}
			}
		}
}

/* Few keys in few slots: most reports overwrite others, also of their own block and chunk. */
static void hashed_ahead_is_bit_for_bit_one_after_the_other(void **state)
{
	static const uint8_t keys[] = {4, 8, 13, 16, 37};
	static const uint16_t values[] = {4, 7, 8, 20, 256};
	static struct feed feed;
	uint64_t rnd = 9;

	(void)state;
	for (size_t i = 0; i < 5; i++)
		for (size_t j = 0; j < 5; j++) {
			const struct sl_store_config c = {.kind = SL_STORE_KEYWRITE,
							  .slots = 61,
							  .seed = 77,
							  .value_bytes = values[j],
							  .copies = 3};
			struct dta_output *shm = dta_output_shm(NULL, NULL);
			struct dta_engine *ahead = dta_engine_new(NULL, shm), *after;
			struct fenced a, b;
			struct moody m;

			fence(&a, c);
			fence(&b, c);
			moody_over(&m, &b);
			after = dta_engine_new(NULL, &m.o);
			assert_int_equal(dta_engine_store(ahead, &a.c, &a.object, 0, 0, NULL), 0);
			assert_int_equal(dta_engine_store(after, &b.c, &b.object, 0, 0, NULL), 0);
			for (int round = 0; round < 4; round++) {
				const uint32_t count = (uint32_t)(next_random(&rnd) % 200 + 1);

				feed_of(&feed, DTA_KEYWRITE, (uint8_t)(1 + round % 3), keys[i],
					values[j], 0);
				for (uint32_t n = 0; n < count; n++) {
					uint8_t key[64] = {(uint8_t)(next_random(&rnd) % 40)},
						value[256];

					for (uint32_t k = 0; k < values[j]; k++)
						value[k] = (uint8_t)next_random(&rnd);
					put(&feed, key, value);
				}
				assert_int_equal(dta_engine_block(ahead, 0, 0, &feed.b, 1), count);
				assert_int_equal(dta_engine_block(after, 0, 0, &feed.b, 1), count);
				assert_memory_equal(a.all + 4096 + SL_STORE_BANKS_OFFSET,
						    b.all + 4096 + SL_STORE_BANKS_OFFSET,
						    sl_store_bank_bytes(&a.c));
			}
			dta_engine_free(ahead);
			dta_engine_free(after);
			shm->ops->close(shm);
			unfence(&a);
			unfence(&b);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_keys_have_the_words_of_one),
		cmocka_unit_test(hashed_ahead_is_bit_for_bit_one_after_the_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
