// SPDX-License-Identifier: Apache-2.0
/* test_table.c - the hash table of base: growth, order and removal; and its arrays. */
#include <stdlib.h>

#include "support/test.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/table.h"

#define KEYS  3000u
#define TWINS 3u /* nodes of one key */

struct item {
	struct base_node node;
	unsigned int key, age;
};

static uint64_t hash_key(unsigned int key)
{
	return base_hash(0, &key, sizeof(key));
}

static void equal_keys_stay_newest_first_while_it_grows(void **state)
{
	struct item *item = calloc(KEYS * TWINS, sizeof(*item));
	struct base_table t;
	size_t left = 0;

	(void)state;
	assert_true(base_table_init(&t));
	for (unsigned int i = 0; i < KEYS * TWINS; i++) {
		item[i].key = i % KEYS;
		item[i].age = i / KEYS;
		base_table_add(&t, &item[i], hash_key(item[i].key));
	}
	assert_int_equal(t.count, KEYS * TWINS);
	assert_true(t.buckets > KEYS);
	for (unsigned int key = 0; key < KEYS; key++) {
		unsigned int age = TWINS;

		for (struct item *x = base_table_first(&t, hash_key(key)); x;
		     x = base_table_next(x)) {
			assert_int_equal(x->key, key);
			assert_int_equal(x->age, --age);
		}
		assert_int_equal(age, 0);
	}
	assert_null(base_table_first(&t, hash_key(KEYS)));
	BASE_TABLE_EACH(&t, n)
		if (((struct item *)n)->age != 1)
			base_table_remove(&t, n);
	BASE_TABLE_EACH(&t, n) {
		assert_int_equal(((struct item *)n)->age, 1);
		left++;
	}
	assert_int_equal(left, KEYS);
	assert_int_equal(t.count, KEYS);
	base_table_free(&t);
	BASE_TABLE_EACH(&t, n)
		fail_msg("%p", (void *)n);
	free(item);
}

static void arrays_beyond_all_memory_are_refused(void **state)
{
	uint64_t *v = NULL;
	size_t room = 0;

	(void)state;
	assert_false(base_grow(&v, &room, SIZE_MAX - 5, sizeof(*v)));
	assert_false(base_grow(&v, &room, SIZE_MAX / sizeof(*v), sizeof(*v)));
	assert_true(base_grow(&v, &room, 17, sizeof(*v)));
	assert_int_equal(room, 32);
	assert_false(base_grow(&v, &room, SIZE_MAX - 5, sizeof(*v)));
	assert_int_equal(room, 32);
	free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_keys_stay_newest_first_while_it_grows),
		cmocka_unit_test(arrays_beyond_all_memory_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
