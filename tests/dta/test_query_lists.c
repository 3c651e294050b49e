// SPDX-License-Identifier: Apache-2.0
/* test_query_lists.c - lists of items and of logged flows are read whole, over resizes, too. */
#include <errno.h>
#include <stdio.h>

#include "support/test.h"
#include "base/budget.h"
#include "dta/query/export.h"
#include "dta/query/json.h"
#include "dta/query/seen.h"
#include "store_write.h"

/* ---- flows by device and time ---- */

/* A store of flows by exporter, with a key log; both have epochs 0 to newest. */
struct seen_flows {
	struct made counts, log;
	struct dta_held store, keys;
	struct logged to;
	uint64_t since_ns[SL_STORE_BANKS_MAX];
};

static void flows_make(struct seen_flows *f, uint64_t newest)
{
	*f = (struct seen_flows){.to.m = &f->log};
	assert_true(make_store(&f->counts, (struct sl_store_config){.kind = SL_STORE_INCREMENT,
								    .slots = 1000,
								    .copies = 1,
								    .banks = 8}));
	assert_true(make_store(&f->log, (struct sl_store_config){.kind = SL_STORE_APPEND,
								 .slots = 64,
								 .value_bytes = 32,
								 .batch = 16,
								 .lists = 1}));
	set_epochs(&f->counts, newest, 0);
	f->store = (struct dta_held){.count = 1,
				     .view = {&f->counts.v},
				     .keylog = "log",
				     .layout = {"exporter,5-tuple"},
				     .since_ns = f->since_ns};
	f->keys = (struct dta_held){.count = 1, .view = {&f->log.v}};
}

static void flows_free(struct seen_flows *f)
{
	free(f->counts.map);
	free(f->log.map);
}

/* Counts bytes of the flow from 10.0.0.host at an exporter, and logs its key. */
static void flows_count(struct seen_flows *f, uint32_t epoch, uint8_t host, uint64_t bytes)
{
	const struct sl_store_config *c = f->counts.v.config;
	const uint8_t key[17] = {192, 0, 2, 1, 10, 0, 0, host, 10, 0, 1, 1, 0, 80, 1, 0, 6};
	const uint64_t slot = dta_slot(dta_hash(key, sizeof(key), c->seed), 0, c->slots);

	*(uint64_t *)(void *)(bank_of(&f->counts, epoch) + sl_store_counter_offset(c, 0, slot)) +=
		bytes;
	log_item(&f->to, 0, &epoch, sizeof(epoch));
	log_item(&f->to, sizeof(key), key, sizeof(key));
}

static json_t *flows_paths(struct seen_flows *f, struct dta_seen *s, uint32_t max, uint64_t *more)
{
	const struct dta_seen_ask ask = {.max = max};

	end_block(&f->to);
	dta_seen_take(s, &f->store, &f->keys);
	return dta_seen_paths(s, &ask, more);
}

/* The store server knows when its epochs began, except those before its start. */
static void epochs_before_a_restart_belong_to_ranges(void **state)
{
	struct dta_seen s = {.from_ns = 40, .to_ns = 45};
	struct seen_flows f;
	uint64_t more;
	json_t *all;

	(void)state;
	flows_make(&f, 5);
	f.since_ns[4] = 50;
	f.since_ns[5] = 60;
	for (uint32_t epoch = 1; epoch <= 5; epoch++)
		flows_count(&f, epoch, 1, UINT64_C(1) << 8 * epoch);
	all = flows_paths(&f, &s, 10, &more);
	/* Epochs 1 to 3 may have been at that time. */
	assert_int_equal(s.rows, 1);
	assert_int_equal(s.row->count, 0x01010100);
	assert_int_equal(s.row->from_ns, 0);
	assert_int_equal(s.row->to_ns, 50);
	json_decref(all);
	s.rows = 0;
	s.from_ns = 50;
	s.to_ns = 51;
	all = flows_paths(&f, &s, 10, &more);
	assert_int_equal(s.rows, 1);
	assert_int_equal(s.row->count, UINT64_C(1) << 32);
	json_decref(all);
	free(s.row);
	flows_free(&f);
}

/* Their keys are still in the log. */
static void expired_epochs_are_not_in_the_range(void **state)
{
	struct dta_seen s = {.to_ns = UINT64_MAX};
	struct seen_flows f;
	uint64_t more;

	(void)state;
	flows_make(&f, 5);
	for (uint32_t epoch = 1; epoch <= 5; epoch++) {
		f.since_ns[epoch] = 10 * epoch;
		flows_count(&f, epoch, 1, 100);
	}
	set_epochs(&f.counts, 5, 4);
	json_decref(flows_paths(&f, &s, 10, &more));
	assert_int_equal(s.rows, 1);
	assert_int_equal(s.row->count, 200);
	assert_int_equal(s.began_ns, 40);
	free(s.row);
	flows_free(&f);
}

/* After a resize, the newest object of the log has the newest keys only. */
static void flows_logged_before_a_resize_are_listed(void **state)
{
	/* for the 128 tails and the items of the newest object */
	struct base_budget few = {.end_ns = UINT64_MAX, .samples = 1 + 128 / 64 + 3};
	struct dta_seen s = {.to_ns = UINT64_MAX};
	struct dta_logged_key *keys;
	struct sl_store_config c;
	struct seen_flows f;
	struct made before;
	char error[160];
	uint64_t more;
	json_t *all, *j;
	size_t n;

	(void)state;
	flows_make(&f, 0);
	flows_count(&f, 0, 1, 100);
	end_block(&f.to);
	before = f.log;
	c = *before.v.config;
	c.slots = 128;
	assert_true(make_store(&f.log, c));
	f.to = (struct logged){.m = &f.log};
	f.keys = (struct dta_held){.count = 2, .view = {&f.log.v, &before.v}};
	flows_count(&f, 0, 2, 200);
	all = flows_paths(&f, &s, 10, &more);
	assert_int_equal(json_array_size(all), 2);
	json_decref(all);
	all = dta_query_keys_json(&f.keys, &f.store, 10, true);
	assert_int_equal(json_integer_value(json_object_get(all, "known")), 2);
	json_decref(all);
	all = dta_query_keys_json(&f.keys, &f.store, 1, false); /* the newest */
	j = json_array_get(json_object_get(all, "keys"), 0);
	assert_memory_equal(json_string_value(json_object_get(j, "key")) + 14, "02", 2);
	json_decref(all);
	all = dta_export_page(&f.store, &f.keys, &(struct dta_export){.epoch = NEWEST}, error,
			      sizeof(error));
	assert_int_equal(json_array_size(json_object_get(all, "records")), 2);
	json_decref(all);
	/* If there are too many keys, the newest ones are read. */
	f.store.budget = &few;
	keys = dta_query_logged(&f.keys, &f.store, &n, &more);
	assert_int_equal(n, 1);
	assert_int_equal(keys[0].key[7], 2);
	free(keys);
	free(s.row);
	free(before.map);
	flows_free(&f);
}

static void paths_are_cut_after_the_greatest_counts(void **state)
{
	struct dta_seen s = {.to_ns = UINT64_MAX};
	struct seen_flows f;
	uint64_t more;
	json_t *all;

	(void)state;
	flows_make(&f, 0);
	for (uint8_t host = 1; host <= 9; host++)
		flows_count(&f, 0, host, host * 100u);
	all = flows_paths(&f, &s, 2, &more);
	assert_int_equal(json_array_size(all), 2);
	assert_int_equal(more, 7);
	for (size_t i = 0; i < 2; i++) {
		const json_t *at = json_object_get(json_array_get(all, i), "crossed");

		assert_int_equal(
			json_integer_value(json_object_get(json_array_get(at, 0), "bytes")),
			900 - 100 * i);
	}
	json_decref(all);
	free(s.row);
	flows_free(&f);
}

static void paths_are_ordered_by_bytes_not_by_reports(void **state)
{
	struct dta_seen s = {.to_ns = UINT64_MAX};
	struct seen_flows exporters, switches;
	const char *flow;
	uint64_t more;
	json_t *all;

	(void)state;
	flows_make(&exporters, 0);
	flows_make(&switches, 0);
	switches.store.layout[0] = "switch,5-tuple";
	for (uint8_t host = 1; host <= 2; host++) {
		flows_count(&exporters, 0, host, host * 100u);
		flows_count(&switches, 0, host, 1000u / host);
	}
	end_block(&switches.to);
	dta_seen_take(&s, &switches.store, &switches.keys);
	all = flows_paths(&exporters, &s, 2, &more);
	flow = json_string_value(json_object_get(json_array_get(all, 0), "flow"));
	assert_non_null(strstr(flow, "10.0.0.2"));
	json_decref(all);
	free(s.row);
	flows_free(&exporters);
	flows_free(&switches);
}

/* ---- append ---- */

static const struct sl_store_config ring = {.kind = SL_STORE_APPEND,
					    .slots = 7,
					    .value_bytes = 8,
					    .batch = 4,
					    .lists = 2,
					    .lanes = 2,
					    .seed = 3};

static void put_items(struct made *m, uint64_t block, uint64_t first, uint32_t count)
{
	uint64_t items[4];

	for (uint32_t i = 0; i < count; i++)
		items[i] = first + i;
	put_block(m, 1, 1, block, items, count);
}

/*
 * Thousands of wraps, full and partial blocks, readers near and far: no item is lost or read twice,
 * and all are in order.
 */
static void a_reader_sees_every_item_once_in_order_over_wraps(void **state)
{
	struct sl_query_append_reader r = {.list = 1, .lane = 1};
	uint64_t block = 0, written = 0, read = 0, items[8], seed = 1;
	struct made m;

	(void)state;
	assert_true(make_store(&m, ring));
	while (block < 50000) {
		uint32_t blocks = (uint32_t)(dta_mix(seed++) % 8);

		for (uint32_t i = 0; i < blocks; i++) { /* up to a whole ring at once */
			uint32_t count = 1 + (uint32_t)(dta_mix(seed++) % 4);

			put_items(&m, block++, written, count);
			written += count;
		}
		for (int n; (n = dta_append_read(&m.v, &r, items, 8)) != 0;) {
			assert_true(n > 0);
			for (int i = 0; i < n; i++)
				assert_int_equal(items[i], read++);
		}
		assert_int_equal(read, written);
		assert_int_equal(r.block, block);
	}
	assert_int_equal(r.overrun, 0);
	assert_int_equal(r.items, written);
	assert_int_equal(dta_append_next(&m.v, 1, 1, NULL), block);
	assert_int_equal(dta_append_next(&m.v, 1, 0, NULL), 0);
	assert_int_equal(dta_append_read(&m.v, &r, items, 3), -EINVAL);
	free(m.map);
}

static void an_overrun_is_always_seen_and_counted(void **state)
{
	(void)state;
	for (uint64_t ahead = 8; ahead < 100; ahead++) {
		struct sl_query_append_reader r = {.list = 1, .lane = 1};
		uint64_t items[28];
		struct made m;

		assert_true(make_store(&m, ring));
		for (uint64_t b = 0; b < ahead; b++)
			put_items(&m, b, b * 4, 4);
		assert_int_equal(dta_append_next(&m.v, 1, 1, NULL), ahead);
		assert_int_equal(dta_append_read(&m.v, &r, items, 28), -EOVERFLOW);
		assert_int_equal(r.overrun, ahead - 7);
		assert_int_equal(r.block, ahead - 7);
		assert_int_equal(dta_append_read(&m.v, &r, items, 28), 28);
		for (uint64_t i = 0; i < 28; i++)
			assert_int_equal(items[i], (ahead - 7) * 4 + i);
		free(m.map);
	}
}

static void a_block_that_is_half_written_is_waited_for(void **state)
{
	struct sl_query_append_reader r = {.list = 1, .lane = 1};
	uint64_t items[4];
	struct made m;
	uint8_t *byte;

	(void)state;
	assert_true(make_store(&m, ring));
	put_items(&m, 0, 100, 4);
	byte = bank_of(&m, 0) + sl_store_ring_offset(m.v.config, 1, 1) + 3;
	*byte ^= 1;
	assert_int_equal(dta_append_read(&m.v, &r, items, 4), 0);
	assert_true(r.torn > 0);
	*byte ^= 1;
	assert_int_equal(dta_append_read(&m.v, &r, items, 4), 4);
	assert_int_equal(dta_append_wait(&m.v, &r, items, 4, 1000000), 0);
	r.list = 2;
	assert_int_equal(dta_append_read(&m.v, &r, items, 4), -EINVAL);
	free(m.map);
}

/* Puts a tail that is not that of a valid block. */
static void put_wrong(struct made *m, uint32_t list, uint32_t lane, uint64_t slot, uint64_t lap)
{
	const struct sl_store_config *c = m->v.config;
	const uint64_t unit = sl_store_block_bytes(c), tail = lap << 40 | 1ull << 32 | 12345;

	memcpy(bank_of(m, 0) + sl_store_ring_offset(c, list, lane) + (slot + 1) * unit - 8, &tail,
	       8);
}

/* In any slot and with any lap, however often the laps have wrapped. */
static void a_wrong_block_hides_no_valid_one(void **state)
{
	(void)state;
	for (uint64_t turn = 0; turn < 4; turn++)
		for (uint64_t slot = 0; slot < 7; slot++)
			for (uint64_t lap = 1; lap < 0xffffff; lap += 0xfffff) {
				const uint64_t first = (turn * 0xffffff + 50) * 7 + 3;
				struct made m;

				assert_true(make_store(&m, ring));
				for (uint64_t b = first; b < first + 10; b++)
					put_items(&m, b, b, 1);
				put_wrong(&m, 1, 1, slot, lap);
				assert_int_equal(dta_append_next(&m.v, 1, 1, NULL),
						 first + 10 - ((first + 9) % 7 == slot));
				free(m.map);
			}
}

/* A hostile translator can write wrong blocks only, which must not take minutes. */
static void a_lane_of_wrong_blocks_costs_little(void **state)
{
	const struct sl_store_config c = {.kind = SL_STORE_APPEND,
					  .slots = 16384,
					  .value_bytes = 256,
					  .batch = 16,
					  .lists = 1};
	const uint64_t lines = 1 + (16 * 256 + 8) / 64, all = UINT64_MAX / 2;
	struct base_budget few = {.end_ns = UINT64_MAX, .samples = 100000},
			   much = {.end_ns = UINT64_MAX, .samples = all};
	struct dta_ask ask;
	struct made m;
	struct dta_held held = {.count = 1, .view = {&m.v}, .budget = &few};
	char error[160];

	(void)state;
	assert_true(make_store(&m, c));
	for (uint64_t slot = 0; slot < c.slots; slot++)
		put_wrong(&m, 0, 0, slot, 1 + slot % 3);
	assert_int_equal(dta_append_next(&m.v, 0, 0, &much), 0);
	assert_int_equal(much.err, 0);
	assert_true(all - much.samples < lines * (2 * c.slots + 256 * 64 + 100));
	dta_ask_init(&ask);
	ask.max = 64;
	json_decref(dta_query_json(&held, &ask, error, sizeof(error)));
	assert_int_equal(few.err, -EDQUOT);
	free(m.map);
}

/* Lap numbers have 24 bits: a ring that wraps more often still works. */
static void lap_numbers_go_round(void **state)
{
	struct sl_query_append_reader r = {.list = 1, .lane = 1, .block = 0xffffffull * 7 - 3};
	uint64_t items[4], first = r.block;
	struct made m;

	(void)state;
	assert_true(make_store(&m, ring));
	for (uint64_t b = first; b < first + 20; b++) {
		put_items(&m, b, b, 1);
		assert_int_equal(dta_append_read(&m.v, &r, items, 4), 1);
		assert_int_equal(items[0], b);
		assert_int_equal(dta_append_next(&m.v, 1, 1, NULL), b + 1);
	}
	r.block = first;
	assert_int_equal(dta_append_read(&m.v, &r, items, 4), -EOVERFLOW);
	assert_int_equal(r.block, first + 13);
	free(m.map);
}

/* Reads one lane of a list from a position, checks its items, and returns the next position. */
static uint64_t check_page(const struct dta_held *held, uint64_t from, uint32_t max, uint32_t first,
			   uint32_t items)
{
	char error[160], hex[17];
	struct dta_ask ask;
	const json_t *got;
	uint64_t next;
	json_t *j;

	dta_ask_init(&ask);
	ask.list = ask.lane = 1;
	ask.from = from;
	ask.max = max ?: ask.max;
	j = dta_query_json(held, &ask, error, sizeof(error));
	got = json_array_get(json_object_get(j, "rings"), 0);
	next = (uint64_t)json_integer_value(json_object_get(got, "next"));
	got = json_object_get(got, "items");
	assert_int_equal(json_array_size(got), items);
	for (uint32_t i = 0; i < items; i++) {
		snprintf(hex, sizeof(hex), "%02x00000000000000", first + i);
		assert_string_equal(json_string_value(json_array_get(got, i)), hex);
	}
	json_decref(j);
	return next;
}

static uint64_t check_list(const struct dta_held *held, uint64_t from, uint32_t first,
			   uint32_t items)
{
	return check_page(held, from, 0, first, items);
}

/* The list is resized twice, with no item in between. */
static void a_list_is_read_on_after_a_resize(void **state)
{
	struct sl_store_config c = ring;
	struct dta_held held = {.count = 1};
	struct made m[3];
	char error[160];
	uint64_t next;
	json_t *all;

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		c.slots = 7 + i;
		c.first_epoch = i;
		assert_true(make_store(&m[i], c));
		held.view[2 - i] = &m[i].v;
	}
	put_items(&m[0], 0, 100, 4);
	put_items(&m[0], 1, 104, 2);
	next = check_list(&(struct dta_held){.count = 1, .view = {&m[0].v}}, NEWEST, 100, 6);
	assert_int_equal(next, 2);
	held.count = 3;
	assert_int_equal(check_list(&held, next, 0, 0), next);
	put_items(&m[0], 2, 106, 1); /* the translator had not heard of the resize yet */
	assert_int_equal(check_list(&held, next, 106, 1), next + 1);
	put_items(&m[2], 0, 107, 3);
	next = check_list(&held, next, 106, 4);
	put_items(&m[2], 1, 110, 2);
	next = check_list(&held, next, 110, 2);
	assert_int_equal(check_list(&held, next, 0, 0), next);
	check_list(&held, NEWEST, 100, 12);
	/* A page that is full before the end of an object goes on there. */
	next = check_page(&held, NEWEST, 4, 100, 4);
	next = check_page(&held, next, 4, 104, 2);
	check_list(&held, next, 106, 6);
	all = dta_export_page(&held, NULL, &(struct dta_export){.epoch = NEWEST}, error,
			      sizeof(error));
	assert_int_equal(json_array_size(json_object_get(all, "records")), 12);
	assert_true(json_is_null(json_object_get(all, "next")));
	json_decref(all);
	/* The oldest object has been dropped: the reader goes on with the oldest one left. */
	held.count = 2;
	check_list(&held, 3, 107, 5);
	for (int i = 0; i < 3; i++)
		free(m[i].map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(epochs_before_a_restart_belong_to_ranges),
		cmocka_unit_test(expired_epochs_are_not_in_the_range),
		cmocka_unit_test(flows_logged_before_a_resize_are_listed),
		cmocka_unit_test(paths_are_cut_after_the_greatest_counts),
		cmocka_unit_test(paths_are_ordered_by_bytes_not_by_reports),
		cmocka_unit_test(a_reader_sees_every_item_once_in_order_over_wraps),
		cmocka_unit_test(an_overrun_is_always_seen_and_counted),
		cmocka_unit_test(a_block_that_is_half_written_is_waited_for),
		cmocka_unit_test(a_wrong_block_hides_no_valid_one),
		cmocka_unit_test(a_lane_of_wrong_blocks_costs_little),
		cmocka_unit_test(lap_numbers_go_round),
		cmocka_unit_test(a_list_is_read_on_after_a_resize),
	};

	return cmocka_run_group_tests_name("lists", tests, NULL, NULL);
}
