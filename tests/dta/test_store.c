// SPDX-License-Identifier: Apache-2.0
/* test_store.c - store objects: bounds of configurations, and refused objects. */
#include <stdio.h>

#include "support/test.h"
#include "store_write.h"

static const struct sl_store_config plain[] = {
	{.kind = SL_STORE_KEYWRITE,
	 .slots = 10,
	 .value_bytes = 8,
	 .copies = 2,
	 .rows = 1,
	 .lanes = 1,
	 .banks = 2},
	{.kind = SL_STORE_APPEND,
	 .slots = 10,
	 .value_bytes = 5,
	 .batch = 16,
	 .lists = 3,
	 .lanes = 2,
	 .rows = 1,
	 .banks = 1},
	{.kind = SL_STORE_INCREMENT, .slots = 10, .rows = 4, .lanes = 1, .banks = 2},
	{.kind = SL_STORE_POSTCARD,
	 .slots = 10,
	 .hops = 5,
	 .copies = 2,
	 .rows = 1,
	 .lanes = 1,
	 .banks = 16},
	{.kind = SL_STORE_SKETCH,
	 .slots = 64,
	 .rows = 4,
	 .lanes = 2,
	 .sketch = SL_STORE_COUNT_MIN,
	 .reporters = 3,
	 .banks = 2},
	{.kind = SL_STORE_SKETCH,
	 .slots = 64,
	 .rows = 1,
	 .lanes = 2,
	 .sketch = SL_STORE_HLL,
	 .reporters = 3,
	 .banks = 2},
};
#define PLAIN (sizeof(plain) / sizeof(*plain))

static void every_kind_is_formatted_and_believed(void **state)
{
	(void)state;
	for (size_t i = 0; i < PLAIN; i++) {
		struct dta_store_epochs e;
		struct made m;

		assert_true(make_store(&m, plain[i]));
		assert_string_equal(m.v.name, "test");
		assert_int_equal(m.v.config->slots, plain[i].slots);
		assert_int_equal(m.v.bank_stride % 4096, 0);
		assert_true(m.v.bank_stride >= sl_store_bank_bytes(&plain[i]));
		assert_int_equal(m.v.bytes, 8192 + plain[i].banks * m.v.bank_stride);
		assert_true(dta_store_epochs(&m.v, &e));
		assert_int_equal(e.epoch, 0);
		assert_int_equal(e.state, SL_STATE_LIVE);
		assert_int_equal(dta_store_kind_of(dta_store_kind_name(plain[i].kind)),
				 plain[i].kind);
		free(m.map);
	}
}

/* Each number one beyond its bound is refused in a line that names the bound. */
static void numbers_out_of_bounds_are_named(void **state)
{
	static const struct {
		size_t of;
		struct sl_store_config c;
		const char *said;
	} wrong[] = {
		{0, {.kind = 6}, "kind"},
		{0, {.kind = 1, .slots = 0}, "slots"},
	};
	char error[256];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(dta_store_config_check(&wrong[i].c, error, sizeof(error)), -22);
		assert_non_null(strstr(error, wrong[i].said));
	}
#define REFUSED(i, field, value, said)                                                    \
	do {                                                                              \
		struct sl_store_config c_ = plain[i];                                     \
		c_.field = value;                                                         \
		assert_int_equal(dta_store_config_check(&c_, error, sizeof(error)), -22); \
		assert_non_null(strstr(error, said));                                     \
	} while (0)
	REFUSED(0, value_bytes, 3, "value");
	REFUSED(0, value_bytes, 257, "value");
	REFUSED(0, copies, 0, "copies");
	REFUSED(0, copies, 9, "copies");
	REFUSED(0, banks, 0, "epochs");
	REFUSED(0, banks, 17, "epochs");
	REFUSED(0, lists, 1, "lists");
	REFUSED(0, reserved[7], 1, "reserved");
	REFUSED(0, slots, 1ull << 46, "2^46");
	REFUSED(0, slots, ~0ull, "slots");
	REFUSED(1, batch, 0, "batch");
	REFUSED(1, batch, 65, "batch");
	REFUSED(1, banks, 2, "epochs");
	REFUSED(1, lanes, 65, "lanes");
	REFUSED(1, lists, SL_STORE_LISTS_MAX + 1, "lists");
	REFUSED(2, rows, 9, "rows");
	REFUSED(2, copies, 5, "copies");
	REFUSED(3, hops, 0, "hops");
	REFUSED(3, hops, 65, "hops");
	REFUSED(4, sketch, 4, "sketch");
	REFUSED(4, reporters, 0, "reporters");
	REFUSED(4, reporters, 1025, "reporters");
	REFUSED(5, rows, 2, "rows");
}

/*
 * Sizes beyond 32 bits, which overflow in the original; and the largest product that is accepted.
 */
static void sizes_beyond_4_gib_are_right(void **state)
{
	struct sl_store_config c = plain[0];
	char error[256];

	(void)state;
	c.slots = 1ull << 30;
	assert_int_equal(dta_store_object_bytes(&c), 8192 + 2 * (16ull << 30));
	c.slots = 1ull << 40;
	assert_int_equal(dta_store_config_check(&c, error, sizeof(error)), 0);
	assert_int_equal(dta_store_object_bytes(&c), 8192 + 2 * (16ull << 40));
	c.slots = (1ull << 41) - 1024;
	assert_int_equal(dta_store_config_check(&c, error, sizeof(error)), 0);
	c.slots = 1ull << 42;
	assert_int_equal(dta_store_config_check(&c, error, sizeof(error)), -22);
}

static void truncated_and_foreign_objects_are_refused_by_cause(void **state)
{
	struct sl_region_header *h;
	struct dta_store_view v;
	char error[256];
	struct made m;

	(void)state;
	assert_true(make_store(&m, plain[0]));
	h = m.map;
#define SEALED() (h->check = sl_fnv1a(SL_FNV_BASIS, h, offsetof(struct sl_region_header, check)))
#define NOT_BELIEVED(bytes, said)                                                              \
	do {                                                                                   \
		assert_int_equal(dta_store_view(m.map, bytes, &v, error, sizeof(error)), -22); \
		assert_non_null(strstr(error, said));                                          \
	} while (0)
	NOT_BELIEVED(0, "truncated");
	NOT_BELIEVED(8191, "truncated");
	NOT_BELIEVED(m.bytes - 1, "truncated");
	h->magic[0] ^= 1;
	NOT_BELIEVED(m.bytes, "not a Sidelight region");
	h->magic[0] ^= 1;
	h->version = 2;
	NOT_BELIEVED(m.bytes, "version 2");
	h->version = 1;
	h->size++;
	NOT_BELIEVED(m.bytes, "damaged");
	SEALED();
	NOT_BELIEVED(m.bytes, "does not match");
	h->size--;
	h->kind = 1;
	SEALED();
	NOT_BELIEVED(m.bytes, "not a store");
	h->kind = SL_REGION_STORE;
	h->section[2].length += 4096;
	SEALED();
	NOT_BELIEVED(m.bytes, "sections");
	h->section[2].length -= 4096;
	h->labels[6] = '/'; /* a name that would be a path */
	SEALED();
	NOT_BELIEVED(m.bytes, "name");
	h->labels[6] = 't';
	SEALED();
	assert_int_equal(dta_store_view(m.map, m.bytes, &v, error, sizeof(error)), 0);
	((uint8_t *)m.map)[SL_STORE_CONFIG_OFFSET + offsetof(struct sl_store_config, slots)]++;
	NOT_BELIEVED(m.bytes, "the configuration is damaged");
	free(m.map);
}

/* A flip of any bit in header and configuration is detected. */
static void no_bit_of_the_header_can_change_unseen(void **state)
{
	struct dta_store_view v;
	char error[256];
	struct made m;

	(void)state;
	assert_true(make_store(&m, plain[3]));
	for (size_t bit = 0; bit < 4352 * 8; bit++) {
		((uint8_t *)m.map)[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_not_equal(dta_store_view(m.map, m.bytes, &v, error, sizeof(error)), 0);
		((uint8_t *)m.map)[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	free(m.map);
}

static void an_epoch_line_that_cannot_be_is_not_believed(void **state)
{
	static const struct dta_store_epochs wrong[] = {{.epoch = 3, .oldest = 4},
							{.epoch = 3, .oldest = 1},
							{.epoch = 3, .oldest = 3, .state = 9}};
	struct dta_store_epochs e;
	struct made m;

	(void)state;
	assert_true(make_store(&m, plain[0]));
	for (size_t i = 0; i < 3; i++) {
		dta_store_epochs_set(m.map, &wrong[i]);
		assert_false(dta_store_epochs(&m.v, &e));
	}
	set_epochs(&m, 3, 2);
	assert_true(dta_store_epochs(&m.v, &e));
	((uint8_t *)m.map)[SL_STORE_EPOCHS_OFFSET] ^= 1;
	assert_false(dta_store_epochs(&m.v, &e));
	free(m.map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_is_formatted_and_believed),
		cmocka_unit_test(numbers_out_of_bounds_are_named),
		cmocka_unit_test(sizes_beyond_4_gib_are_right),
		cmocka_unit_test(truncated_and_foreign_objects_are_refused_by_cause),
		cmocka_unit_test(no_bit_of_the_header_can_change_unseen),
		cmocka_unit_test(an_epoch_line_that_cannot_be_is_not_believed),
	};

	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
