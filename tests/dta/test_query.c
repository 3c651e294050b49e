// SPDX-License-Identifier: Apache-2.0
/* test_query.c - answers about a key: found, empty and conflict, in every kind of store. */
#include <errno.h>
#include <math.h>

#include "support/test.h"
#include "base/budget.h"
#include "dta/query/json.h"
#include "dta/wire/text.h"
#include "sketch/cells.h"
#include "store_write.h"

static struct dta_query by(const uint64_t *key, uint32_t copies, enum sl_query_policy policy,
			   uint32_t t)
{
	return (struct dta_query){.key = key,
				  .key_bytes = 8,
				  .epoch = NEWEST,
				  .copies = copies,
				  .policy = policy,
				  .consensus = t};
}

static const struct sl_store_config keywrite = {.kind = SL_STORE_KEYWRITE,
						.slots = 4096,
						.value_bytes = 12,
						.copies = 4,
						.banks = 2,
						.seed = 7};

static void what_was_written_is_found_and_nothing_else(void **state)
{
	uint64_t key = 0x1234, other = 0x1235;
	struct sl_keywrite_answer a;
	struct dta_query q;
	struct made m;

	(void)state;
	assert_true(make_store(&m, keywrite));
	q = by(&key, 0, SL_QUERY_FIRST, 0);
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_EMPTY);
	assert_int_equal(a.occupied, 0);
	put_keywrite(&m, 0, &key, 8, "hello, world", 0, 4);
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_FOUND);
	assert_int_equal(a.bytes, 12);
	assert_memory_equal(a.value, "hello, world", 12);
	assert_int_equal(a.verified, 4);
	assert_true(a.error_probability > 0 && a.error_probability < 1e-18);
	q.key = &other;
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_EMPTY);
	q.key = &key;
	q.key_bytes = 7; /* of another length: another key */
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_EMPTY);
	q.key_bytes = 3;
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_UNKNOWN);
	free(m.map);
}

/* A value of zeros is a value: the original DTA cannot distinguish it from an empty slot. */
static void a_value_of_zeros_is_found(void **state)
{
	uint64_t key = 5;
	struct dta_query q = by(&key, 0, SL_QUERY_FIRST, 0);
	struct sl_keywrite_answer a;
	struct made m;

	(void)state;
	assert_true(make_store(&m, keywrite));
	put_keywrite(&m, 0, &key, 8, "\0\0\0\0\0\0\0\0\0\0\0", 0, 1);
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_FOUND);
	assert_int_equal(a.occupied, 1);
	free(m.map);
}

static void a_torn_value_is_never_returned(void **state)
{
	uint64_t key = 77;
	struct dta_query q = by(&key, 1, SL_QUERY_FIRST, 0);
	uint64_t slot, at;
	struct sl_keywrite_answer a;
	struct made m;
	uint8_t *unit;

	(void)state;
	assert_true(make_store(&m, keywrite));
	put_keywrite(&m, 0, &key, 8, "hello, world", 0, 1);
	slot = dta_slot(dta_hash(&key, 8, 7), 0, 4096);
	unit = bank_of(&m, 0) + slot * sl_store_slot_bytes(m.v.config);
	for (at = 0; at < 20 * 8; at++) {
		unit[at / 8] ^= (uint8_t)(1u << at % 8);
		dta_view_keywrite(&m.v, &q, &a);
		assert_int_equal(a.result, SL_QUERY_EMPTY);
		assert_int_equal(a.verified, 0);
		unit[at / 8] ^= (uint8_t)(1u << at % 8);
	}
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_FOUND);
	free(m.map);
}

static void policies_choose_as_they_are_named(void **state)
{
	static const struct {
		const char *copy[4];
		enum sl_query_policy policy;
		uint32_t t;
		enum sl_query_result result;
		const char *value;
	} cases[] = {
		{{"a", "b", "b", NULL}, SL_QUERY_FIRST, 0, SL_QUERY_FOUND, "a"},
		{{NULL, NULL, "b", "a"}, SL_QUERY_FIRST, 0, SL_QUERY_FOUND, "b"},
		/* rewritten with fewer copies */
		{{"a", "b", "b", NULL}, SL_QUERY_PLURALITY, 0, SL_QUERY_FOUND, "a"},
		{{NULL, "a", "b", "b"}, SL_QUERY_PLURALITY, 0, SL_QUERY_FOUND, "a"},
		{{"a", "b", "a", "b"}, SL_QUERY_PLURALITY, 0, SL_QUERY_CONFLICT, NULL},
		{{"a", "b", "a", "a"}, SL_QUERY_PLURALITY, 0, SL_QUERY_FOUND, "a"},
		{{"a", "b", "b", "a"}, SL_QUERY_PLURALITY, 0, SL_QUERY_CONFLICT, NULL},
		{{"b", "a", "b", "a"}, SL_QUERY_PLURALITY, 0, SL_QUERY_CONFLICT, NULL},
		{{"a", "b", "c", "c"}, SL_QUERY_PLURALITY, 0, SL_QUERY_FOUND, "a"},
		{{"a", "b", "c", NULL}, SL_QUERY_PLURALITY, 0, SL_QUERY_FOUND, "a"},
		{{NULL, NULL, NULL, "c"}, SL_QUERY_PLURALITY, 0, SL_QUERY_FOUND, "c"},
		{{NULL, NULL, NULL, NULL}, SL_QUERY_PLURALITY, 0, SL_QUERY_EMPTY, NULL},
		{{"a", "b", "b", "b"}, SL_QUERY_CONSENSUS, 3, SL_QUERY_CONFLICT, NULL},
		{{"a", "a", "b", "b"}, SL_QUERY_CONSENSUS, 2, SL_QUERY_FOUND, "a"},
		{{"b", "a", "b", "b"}, SL_QUERY_CONSENSUS, 3, SL_QUERY_FOUND, "b"},
		{{"a", "b", "b", NULL}, SL_QUERY_CONSENSUS, 3, SL_QUERY_CONFLICT, NULL},
		{{"b", "b", NULL, NULL}, SL_QUERY_CONSENSUS, 3, SL_QUERY_EMPTY, NULL},
		{{NULL, NULL, NULL, NULL}, SL_QUERY_CONSENSUS, 1, SL_QUERY_EMPTY, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t key = 42;
		struct dta_query q = by(&key, 4, cases[i].policy, cases[i].t);
		char value[12] = "x..........";
		struct sl_keywrite_answer a;
		struct made m;

		assert_true(make_store(&m, keywrite));
		for (uint32_t n = 0; n < 4; n++) {
			if (!cases[i].copy[n])
				continue;
			value[0] = cases[i].copy[n][0];
			put_keywrite(&m, 0, &key, 8, value, n, n + 1);
		}
		dta_view_keywrite(&m.v, &q, &a);
		assert_int_equal(a.result, cases[i].result);
		if (cases[i].value)
			assert_int_equal(a.value[0], cases[i].value[0]);
		free(m.map);
	}
}

/* Paths of other lengths, too: a longer one and a shorter one. */
static void a_path_rewritten_with_fewer_copies_is_the_newest(void **state)
{
	static const enum sl_query_policy policies[] = {SL_QUERY_FIRST, SL_QUERY_PLURALITY};
	const struct sl_store_config c = {.kind = SL_STORE_POSTCARD,
					  .slots = 4096,
					  .hops = 5,
					  .copies = 4,
					  .banks = 2,
					  .seed = 5};
	const uint32_t old[5] = {1, 2, 3, 4, 5}, new[5] = {11, 12, 13, 14, 15};
	struct sl_postcard_answer p;
	struct made m;

	(void)state;
	assert_true(make_store(&m, c));
	for (uint64_t key = 0; key < 100; key++) {
		const uint32_t was = 2 + key % 4, is = 2 + key / 4 % 4;

		put_path(&m, 0, &key, 8, (1ull << was) - 1, was, old, 0, 4);
		put_path(&m, 0, &key, 8, (1ull << is) - 1, is, new, 0, 1);
		for (int i = 0; i < 2; i++) {
			const struct dta_query q = by(&key, 0, policies[i], 0);

			dta_view_path(&m.v, &q, NULL, 0, &p);
			assert_int_equal(p.result, SL_QUERY_FOUND);
			assert_int_equal(p.hops, is);
			for (uint32_t hop = 0; hop < is; hop++)
				assert_int_equal(p.value[hop], new[hop]);
		}
	}
	free(m.map);
}

static void epochs_are_asked_apart_and_newest_first(void **state)
{
	uint64_t key = 9, old = 10, none = 11, keys[3] = {9, 10, 11};
	struct dta_query q = by(&key, 0, SL_QUERY_FIRST, 0);
	uint8_t values[36], found[3];
	struct sl_keywrite_answer a;
	struct made m;

	(void)state;
	assert_true(make_store(&m, keywrite));
	put_keywrite(&m, 0, &key, 8, "in epoch  0.", 0, 2);
	put_keywrite(&m, 0, &old, 8, "in epoch  0.", 0, 2);
	set_epochs(&m, 1, 0);
	put_keywrite(&m, 1, &key, 8, "in epoch  1.", 0, 2);
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.epoch, 1);
	assert_memory_equal(a.value, "in epoch  1.", 12);
	q.epoch = 0;
	dta_view_keywrite(&m.v, &q, &a);
	assert_memory_equal(a.value, "in epoch  0.", 12);
	q.key = &old;
	q.epoch = NEWEST;
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_FOUND);
	assert_int_equal(a.epoch, 0);
	q.epoch = 2;
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_UNKNOWN);
	q.key = &none;
	q.epoch = NEWEST;
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_EMPTY);
	assert_int_equal(dta_view_keywrite_many(&m.v, NEWEST, 2, keys, 8, 3, values, found), 2);
	assert_int_equal(found[1], SL_QUERY_FOUND);
	assert_memory_equal(values + 12, "in epoch  0.", 12);
	assert_int_equal(found[2], SL_QUERY_EMPTY);
	assert_int_equal(dta_view_keywrite_many(&m.v, 1, 2, keys, 8, 3, values, found), 1);
	set_epochs(&m, 2, 1); /* bank 0 is epoch 2's now */
	q.key = &old;
	q.epoch = 0;
	dta_view_keywrite(&m.v, &q, &a);
	assert_int_equal(a.result, SL_QUERY_UNKNOWN);
	assert_int_equal(dta_view_keywrite_many(&m.v, 0, 2, keys, 8, 3, values, found), 0);
	assert_int_equal(found[0], SL_QUERY_UNKNOWN);
	free(m.map);
}

/* ---- increment ---- */

static void a_count_is_never_low_and_within_the_bound(void **state)
{
	struct sl_store_config c = {
		.kind = SL_STORE_INCREMENT, .slots = 1000, .rows = 4, .copies = 4, .banks = 2};
	struct dta_totals totals = {0};
	uint64_t high = 0, total = 0;
	struct sl_increment_answer i, again;
	struct made m;

	(void)state;
	assert_true(make_store(&m, c));
	for (uint64_t key = 1; key <= 2000; key++)
		for (uint32_t r = 0; r < 4; r++) {
			uint8_t *cell = bank_of(&m, 0) +
					sl_store_counter_offset(
						&c, r, dta_slot(dta_hash(&key, 8, 0), r, 1000));

			*(uint64_t *)(void *)cell += key % 10;
			total += r ? 0 : key % 10;
		}
	for (uint64_t key = 1; key <= 2000; key++) {
		struct dta_query q = by(&key, 0, SL_QUERY_FIRST, 0);

		dta_view_increment(&m.v, &q, &i);
		assert_true(i.value >= key % 10);
		high += (double)(i.value - key % 10) > i.error;
		assert_true(fabs(i.error - M_E / 1000 * (double)total) < 1e-6);
		q.totals = &totals;
		dta_view_increment(&m.v, &q, &again);
		assert_memory_equal(&again, &i, sizeof(i));
	}
	assert_int_equal(totals.used, 1); /* a row is summed once for all keys */
	assert_true((double)high / 2000 <= 1 - i.probability);
	free(m.map);
}

/* ---- postcards ---- */

static void a_path_is_decoded_against_the_known_values(void **state)
{
	struct sl_store_config c = {.kind = SL_STORE_POSTCARD,
				    .slots = 512,
				    .hops = 64,
				    .copies = 2,
				    .banks = 2,
				    .seed = 5};
	uint32_t hop[64], set[64], wrong = 999;
	struct sl_postcard_answer p;
	struct made m;

	(void)state;
	assert_true(make_store(&m, c));
	for (uint32_t i = 0; i < 64; i++)
		set[i] = hop[i] = 10 + i * 3;
	for (uint64_t key = 1; key <= 64; key++) {
		uint32_t hops = (uint32_t)key;
		uint64_t all = hops == 64 ? ~0ull : (1ull << hops) - 1,
			 some = all & ~(key > 1 ? 1ull << key / 2 : 0);
		struct dta_query q = by(&key, 0, SL_QUERY_FIRST, 0);

		put_path(&m, 0, &key, 8, some, hops, hop, 0, 2);
		dta_view_path(&m.v, &q, set, 64, &p);
		assert_int_equal(p.result, SL_QUERY_FOUND);
		assert_int_equal(p.hops, hops);
		assert_int_equal(p.present, some);
		assert_int_equal(p.agreed, 2);
		for (uint32_t i = 0; i < hops; i++)
			assert_int_equal(p.value[i], some >> i & 1 ? hop[i] : 0);
		dta_view_path(&m.v, &q, &wrong, 1, &p);
		assert_int_equal(p.result, SL_QUERY_CONFLICT);
		dta_view_path(&m.v, &q, NULL, 0, &p);
		assert_int_equal(p.result, SL_QUERY_FOUND);
		memset(bank_of(&m, 0), 0, m.v.bank_stride);
		dta_view_path(&m.v, &q, set, 64, &p);
		assert_int_equal(p.result, SL_QUERY_EMPTY);
		/*
		 * Hops that are written separately add up; of several paths of a key, the complete
		 * one counts.
		 */
		put_path(&m, 0, &key, 8, some, hops, hop, 0, 1);
		put_path(&m, 0, &key, 8, all ^ some, hops, hop, 1, 2);
		dta_view_path(&m.v, &q, set, 64, &p);
		assert_int_equal(p.result, SL_QUERY_FOUND);
		assert_int_equal(p.present, all);
		assert_int_equal(p.agreed, 1);
		put_path(&m, 0, &key, 8, 1, 1, hop, 0, 2);
		dta_view_path(&m.v, &q, set, 64, &p);
		assert_int_equal(p.result, SL_QUERY_FOUND);
		assert_int_equal(p.hops, 1);
		assert_int_equal(p.present, 1);
		memset(bank_of(&m, 0), 0, m.v.bank_stride);
		/*
		 * A translator that lies: the number of hops is at most the hop's number, or
		 * exceeds the maximum.
		 */
		for (uint32_t lie = 0; lie <= 65; lie += 65) {
			uint64_t *unit = (void *)(bank_of(&m, 0) +
						  dta_slot(dta_hash(&key, 8, c.seed), 0, c.slots) *
							  sl_store_path_bytes(&c));

			unit[0] = dta_hop_word(dta_hash(&key, 8, c.seed), 0, lie, 10);
			dta_view_path(&m.v, &q, NULL, 0, &p);
			assert_int_equal(p.result, SL_QUERY_EMPTY);
			memset(bank_of(&m, 0), 0, m.v.bank_stride);
		}
	}
	free(m.map);
}

/* ---- sketches ---- */

struct made_sketch {
	struct sketch_cells s;
	uint64_t cells[3 * 256];
};

static void sketch_make(struct made_sketch *m, const struct sl_store_config *c)
{
	memset(m, 0, sizeof(*m));
	assert_int_equal(sketch_cells_init(&m->s,
					   (enum sketch_cells_kind)(c->sketch - SL_STORE_COUNT_MIN),
					   c->slots, c->rows, c->seed, m->cells),
			 0);
}

static uint64_t hash_of(uint64_t key)
{
	return sketch_hash_bytes(&key, 8, 11);
}

static void merged_lanes_are_the_sketch_of_the_union(void **state)
{
	struct sl_store_config c = {.kind = SL_STORE_SKETCH,
				    .sketch = SL_STORE_COUNT_MIN,
				    .slots = 256,
				    .rows = 3,
				    .lanes = 3,
				    .reporters = 3,
				    .banks = 2,
				    .seed = 11};
	static struct made_sketch whole, part;
	uint64_t cells[3 * 256], key = 3;
	double error;

	(void)state;
	for (uint32_t kind = SL_STORE_COUNT_MIN; kind <= SL_STORE_HLL; kind++) {
		struct dta_sketch_estimate e;
		struct dta_merged merged;
		uint64_t bytes;
		struct made m;

		c.sketch = kind;
		c.rows = kind == SL_STORE_HLL ? 1 : 3;
		bytes = c.rows * 256ull * sl_store_cell_bytes(&c);
		sketch_make(&whole, &c);
		assert_true(make_store(&m, c));
		dta_view_sketch(&m.v, NEWEST, NULL, cells, &merged);
		assert_int_equal(merged.result, SL_QUERY_EMPTY);
		for (uint32_t lane = 0; lane < 3; lane++) {
			sketch_make(&part, &c);
			for (uint64_t i = 0; i < 500; i++) {
				uint64_t k = dta_mix(lane * 1000 + i) % 100;

				sketch_cells_add(&whole.s, hash_of(k), 1);
				sketch_cells_add(&part.s, hash_of(k), 1);
			}
			put_lane(&m, 0, lane, part.cells, c.rows * 256ull, lane, 1);
			dta_view_sketch(&m.v, NEWEST, NULL, cells, &merged);
			assert_int_equal(merged.result, SL_QUERY_FOUND);
			assert_int_equal(merged.ended, lane + 1);
			assert_int_equal(merged.complete, lane == 2);
		}
		assert_int_equal(merged.columns, 3 * c.rows * 256);
		assert_memory_equal(cells, whole.cells, bytes);
		assert_int_equal(
			dta_sketch_estimate(&c, cells, kind == SL_STORE_HLL ? NULL : &key, 8, &e),
			0);
		assert_true(e.value == sketch_cells_estimate(&whole.s, hash_of(key), &error));
		assert_true(e.error == error);
		/* Impossible cells have no estimate; a Count-Sketch may have any cells. */
		memset(cells, 0xff, 8);
		assert_int_equal(
			dta_sketch_estimate(&c, cells, kind == SL_STORE_HLL ? NULL : &key, 8, &e),
			kind == SL_STORE_COUNT_SKETCH ? 0 : -EINVAL);
		/* A row that changed after its check word was computed is refused. */
		bank_of(&m, 0)[sl_store_lane_bytes(&c) + sizeof(struct sl_store_complete)] ^= 1;
		dta_view_sketch(&m.v, NEWEST, NULL, cells, &merged);
		assert_int_equal(merged.result, SL_QUERY_CONFLICT);
		assert_false(merged.complete);
		free(m.map);
	}
}

/* A hostile translator can write rows that never verify, in each lane. */
static void wrong_rows_are_copied_as_often_as_allowed(void **state)
{
	const struct sl_store_config c = {.kind = SL_STORE_SKETCH,
					  .sketch = SL_STORE_COUNT_MIN,
					  .slots = 65536,
					  .rows = 2,
					  .lanes = 2,
					  .reporters = 2,
					  .banks = 2,
					  .seed = 11};
	const uint64_t cells = c.rows * c.slots, lines = cells * 8 / 64;
	/* for two copies of the first lane, and part of a third */
	struct base_budget budget = {.end_ns = UINT64_MAX, .samples = 5 * lines / 2};
	uint64_t *rows = calloc(cells, sizeof(*rows));
	struct made m;
	struct dta_held held = {.count = 1, .view = {&m.v}, .budget = &budget};
	struct dta_ask ask;
	char error[160];
	json_t *j;

	(void)state;
	assert_non_null(rows);
	assert_true(make_store(&m, c));
	for (uint32_t lane = 0; lane < 2; lane++) {
		put_lane(&m, 0, lane, rows, cells, lane, 1);
		bank_of(&m,
			0)[lane * sl_store_lane_bytes(&c) + sizeof(struct sl_store_complete)] ^= 1;
	}
	dta_ask_init(&ask);
	j = dta_query_json(&held, &ask, error, sizeof(error));
	assert_string_equal(json_string_value(json_object_get(j, "result")), "conflict");
	assert_int_equal(budget.err, -EDQUOT);
	json_decref(j);
	free(m.map);
	free(rows);
}

static void a_sketch_from_before_a_resize_is_merged(void **state)
{
	struct sl_store_config c = {.kind = SL_STORE_SKETCH,
				    .sketch = SL_STORE_COUNT_MIN,
				    .slots = 256,
				    .rows = 3,
				    .lanes = 1,
				    .reporters = 1,
				    .banks = 2};
	static uint64_t cells[3 * 256];
	struct made before, after;
	char error[160];
	struct dta_ask ask;
	json_t *j;

	(void)state;
	assert_true(make_store(&before, c));
	put_lane(&before, 0, 0, cells, 3 * 256, 0, 1);
	c.slots = 128;
	c.first_epoch = 1;
	assert_true(make_store(&after, c));
	dta_ask_init(&ask);
	ask.epoch = 0;
	ask.cells = true;
	j = dta_query_json(&(struct dta_held){.count = 2, .view = {&after.v, &before.v}}, &ask,
			   error, sizeof(error));
	assert_string_equal(json_string_value(json_object_get(j, "result")), "found");
	assert_int_equal(json_integer_value(json_object_get(j, "columns")), 256);
	assert_int_equal(strlen(json_string_value(json_object_get(j, "cells"))), 2 * sizeof(cells));
	json_decref(j);
	free(after.map);
	free(before.map);
}

static void a_5_tuple_is_said_as_it_is_read(void **state)
{
	static const char *const flows[] = {"flow:10.0.0.1:443,192.0.2.7:65535,tcp",
					    "flow:[2001:db8::1]:1,[::1]:53,udp",
					    "flow:0.0.0.0:0,255.255.255.255:1,200"};
	char text[DTA_FLOW_TEXT];
	uint8_t key[64];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		const int n = dta_text(flows[i], key, sizeof(key));

		assert_int_equal(n, i == 1 ? 37 : 13);
		assert_true(dta_flow_text(key, (size_t)n, text));
		assert_string_equal(text, flows[i]);
	}
	assert_false(dta_flow_text(key, 12, text));
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_5_tuple_is_said_as_it_is_read),
		cmocka_unit_test(what_was_written_is_found_and_nothing_else),
		cmocka_unit_test(a_value_of_zeros_is_found),
		cmocka_unit_test(a_torn_value_is_never_returned),
		cmocka_unit_test(policies_choose_as_they_are_named),
		cmocka_unit_test(a_path_rewritten_with_fewer_copies_is_the_newest),
		cmocka_unit_test(epochs_are_asked_apart_and_newest_first),
		cmocka_unit_test(a_count_is_never_low_and_within_the_bound),
		cmocka_unit_test(a_path_is_decoded_against_the_known_values),
		cmocka_unit_test(merged_lanes_are_the_sketch_of_the_union),
		cmocka_unit_test(wrong_rows_are_copied_as_often_as_allowed),
		cmocka_unit_test(a_sketch_from_before_a_resize_is_merged),
	};

	return cmocka_run_group_tests_name("query", tests, NULL, NULL);
}
