// SPDX-License-Identifier: Apache-2.0
/*
 * test_engine.c - each primitive through a mapping and through an output: queries find what was
 * reported, every report is in exactly one counter, and a refused report changes nothing.
 */
#include "engine_drive.h"
#include "dta/engine/rates.h"

/* Each test once over a mapping and once through operations. */
struct way {
	bool mapped;
};
static struct way mapped = {true}, operated = {false};

struct rig {
	struct fenced f;
	struct moody m;
	struct dta_output *shm;
	struct dta_engine *e;
	uint64_t woken;
	uint32_t woken_by;
};

static void woke(void *arg, uint32_t number)
{
	struct rig *r = arg;

	r->woken++;
	r->woken_by = number;
}

static void set_up(struct rig *r, void **state, struct sl_store_config c,
		   const struct dta_engine_opts *opts)
{
	const struct way *way = *state;
	struct dta_output *o;

	memset(r, 0, sizeof(*r));
	fence(&r->f, c);
	r->shm = dta_output_shm(woke, r);
	assert_non_null(r->shm);
	o = r->shm;
	if (!way->mapped) {
		moody_over(&r->m, &r->f);
		o = &r->m.o;
	}
	r->e = dta_engine_new(opts, o);
	assert_non_null(r->e);
	assert_int_equal(dta_engine_store(r->e, &r->f.c, &r->f.object, 0, 0, NULL), 0);
}

static uint64_t wakes(const struct rig *r)
{
	return r->woken + r->m.wakes;
}

static void take_down(struct rig *r)
{
	dta_engine_free(r->e);
	r->shm->ops->close(r->shm);
	unfence(&r->f);
}

static void keys_of_any_length_are_found_in_every_copy(void **state)
{
	static const uint8_t key_bytes[] = {4, 8, 13, 16, 37, 64};
	static const uint16_t value_bytes[] = {4, 5, 8, 12, 28, 256};
	static struct feed feed;
	uint64_t rnd = 1;

	for (size_t i = 0; i < 6; i++)
		for (size_t j = 0; j < 6; j++)
			for (uint8_t copies = 1; copies <= 8; copies += copies < 3 ? 1 : 5) {
				struct rig r;

				set_up(&r, state,
				       (struct sl_store_config){.kind = SL_STORE_KEYWRITE,
								.slots = 100003,
								.seed = 77,
								.value_bytes = value_bytes[j],
								.copies = 8,
								.banks = 2},
				       NULL);
				for (int round = 0; round < 2; round++) {
					uint8_t key[64] = {0}, value[256];
					uint64_t values = 0;

					feed_of(&feed, DTA_KEYWRITE, copies, key_bytes[i],
						value_bytes[j], 0);
					for (uint32_t n = 0; n < 100; n++) {
						memcpy(key, &n, 4);
						for (uint32_t k = 0; k < value_bytes[j]; k++)
							value[k] = (uint8_t)next_random(&rnd);
						memcpy(value, &n, 4);
						put(&feed, key, value);
						values += n;
					}
					assert_int_equal(give(r.e, 0, &feed, 1), 100);
					for (uint32_t n = 0; n < 100; n++) {
						struct dta_query q = {.key = key,
								      .key_bytes = key_bytes[i],
								      .epoch = ~0ull,
								      .copies = copies};
						struct sl_keywrite_answer a;
						uint32_t got;

						memcpy(key, &n, 4);
						dta_view_keywrite(&r.f.v, &q, &a);
						assert_int_equal(a.result, SL_QUERY_FOUND);
						assert_memory_equal(a.value, &n, 4);
						assert_memory_equal(a.value,
								    feed.items +
									    n * (key_bytes[i] +
										 value_bytes[j]) +
									    key_bytes[i],
								    value_bytes[j]);
						memcpy(&got, a.value, 4);
						values -= got;
					}
					assert_int_equal(values, 0);
				}
				assert_int_equal(closed(r.e).stored, 200);
				assert_int_equal(closed(r.e).operations, 200 * copies);
				assert_int_equal(closed(r.e).units, 200 * copies);
				take_down(&r);
			}
}

static void the_last_report_of_a_key_in_a_block_stays(void **state)
{
	static struct feed feed;
	struct rig r;

	set_up(&r, state,
	       (struct sl_store_config){
		       .kind = SL_STORE_KEYWRITE, .slots = 64, .value_bytes = 8, .copies = 2},
	       NULL);
	feed_of(&feed, DTA_KEYWRITE, 2, 4, 8, 0);
	for (uint64_t n = 0; n < 90; n++)
		put(&feed, "same", &n);
	assert_int_equal(give(r.e, 0, &feed, 1), 90);
	for (uint32_t copy = 1; copy <= 2; copy++) {
		struct dta_query q = {.key = "same",
				      .key_bytes = 4,
				      .epoch = ~0ull,
				      .copies = copy,
				      .policy = SL_QUERY_CONSENSUS,
				      .consensus = copy};
		struct sl_keywrite_answer a;

		dta_view_keywrite(&r.f.v, &q, &a);
		assert_int_equal(a.result, SL_QUERY_FOUND);
		assert_int_equal(a.value[0], 89);
	}
	take_down(&r);
}

static void lists_keep_order_over_wraps_and_partial_blocks(void **state)
{
	enum { LISTS = 5, BLOCKS = 7 };
	static const uint16_t value_bytes[] = {4, 8, 12};
	static struct feed feed;
	uint64_t rnd = 3;

	for (size_t v = 0; v < 3; v++)
		for (uint32_t batch = 1; batch <= 64; batch += batch < 4 ? 1 : 20) {
			uint64_t sent[LISTS] = {0}, got[LISTS] = {0}, now = 1;
			struct sl_query_append_reader reader[LISTS];
			struct rig r;

			set_up(&r, state,
			       (struct sl_store_config){.kind = SL_STORE_APPEND,
							.slots = BLOCKS,
							.value_bytes = value_bytes[v],
							.batch = batch,
							.lists = LISTS,
							.lanes = 2},
			       NULL);
			for (uint32_t i = 0; i < LISTS; i++)
				reader[i] = (struct sl_query_append_reader){.list = i};
			for (int round = 0; round < 300; round++) {
				uint64_t n = 1 + next_random(&rnd) % (2 * batch);
				uint32_t list = 0;

				feed_of(&feed, DTA_APPEND, 0, 4, value_bytes[v], 0);
				for (uint64_t i = 0; i < n; i++) {
					uint8_t item[12] = {0};

					if (next_random(&rnd) % 3 == 0)
						list = (uint32_t)next_random(&rnd) % LISTS;
					memcpy(item, &sent[list], 4);
					sent[list]++;
					put_append(&feed, list, item);
				}
				assert_int_equal(give(r.e, 0, &feed, now), n);
				now += next_random(&rnd) % 600000;
				dta_engine_tick(r.e, now);
				for (list = 0; list < LISTS; list++) {
					uint8_t items[64 * 12];
					int count;

					while ((count = dta_append_read(&r.f.v, &reader[list],
									items, 64)) > 0)
						for (int i = 0; i < count; i++) {
							uint32_t x;

							memcpy(&x, items + i * value_bytes[v], 4);
							assert_int_equal(x, got[list]);
							got[list]++;
						}
					assert_int_equal(count, 0);
				}
				closed(r.e);
			}
			assert_true(batch == 1 || closed(r.e).blocks_partial > 0);
			dta_engine_flush(r.e);
			assert_int_equal(closed(r.e).waiting, 0);
			for (uint32_t list = 0; list < LISTS; list++) {
				uint8_t items[64 * 12];
				int count;

				while ((count = dta_append_read(&r.f.v, &reader[list], items, 64)) >
				       0)
					got[list] += (uint64_t)count;
				assert_int_equal(got[list], sent[list]);
				assert_int_equal(reader[list].overrun, 0);
			}
			take_down(&r);
		}
}

static void partial_blocks_wait_for_the_timer(void **state)
{
	static struct feed feed;
	struct rig r;

	set_up(&r, state,
	       (struct sl_store_config){.kind = SL_STORE_APPEND,
					.slots = 8,
					.value_bytes = 4,
					.batch = 4,
					.lists = 2},
	       &(struct dta_engine_opts){.flush_ns = 1000});
	feed_of(&feed, DTA_APPEND, 0, 4, 4, 0);
	put_append(&feed, 0, "abcd");
	give(r.e, 0, &feed, 10);
	/* A collector that was restarted hands over the store again; the item waits no longer. */
	assert_int_equal(dta_engine_store(r.e, &r.f.c, &r.f.object, 0, 0, NULL), 0);
	dta_engine_tick(r.e, 1009);
	assert_int_equal(closed(r.e).waiting, 1);
	put_append(&feed, 0, "efgh");
	give(r.e, 0, &feed, 1009);
	dta_engine_tick(r.e, 1010);
	assert_int_equal(closed(r.e).waiting, 0);
	assert_int_equal(closed(r.e).stored, 2);
	assert_int_equal(closed(r.e).blocks_partial, 1);
	take_down(&r);
}

static void behind_a_partial_block_are_zeros(void **state)
{
	static struct feed feed;
	const uint8_t *block;
	struct rig r;

	set_up(&r, state,
	       (struct sl_store_config){.kind = SL_STORE_APPEND,
					.slots = 8,
					.value_bytes = 4,
					.batch = 4,
					.lists = 1},
	       NULL);
	/* Data staged for the previous block must not be written with this one. */
	feed_of(&feed, DTA_APPEND, 0, 4, 4, 0);
	for (int i = 0; i < 5; i++)
		put_append(&feed, 0, "abcd");
	assert_int_equal(give(r.e, 0, &feed, 1), 5);
	dta_engine_flush(r.e);
	assert_int_equal(closed(r.e).blocks_partial, 1);
	block = r.f.all + 4096 + SL_STORE_BANKS_OFFSET + sl_store_block_bytes(&r.f.c);
	assert_memory_equal(block, "abcd\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	take_down(&r);
}

static void a_list_goes_on_at_the_block_that_it_is_given(void **state)
{
	const uint64_t next[2] = {0xffffffull * 4 - 2, 5};
	static struct feed feed;
	struct rig r;

	set_up(&r, state,
	       (struct sl_store_config){.kind = SL_STORE_APPEND,
					.slots = 4,
					.value_bytes = 8,
					.batch = 1,
					.lists = 2,
					.lanes = 3},
	       NULL);
	assert_int_equal(dta_engine_store(r.e, &r.f.c, &r.f.object, 2, 0, next), 0);
	feed_of(&feed, DTA_APPEND, 0, 4, 8, 0);
	for (int i = 0; i < 4; i++)
		put_append(&feed, 0, "12345678");
	put_append(&feed, 1, "12345678");
	assert_int_equal(give(r.e, 0, &feed, 1), 5);
	assert_int_equal(dta_append_next(&r.f.v, 0, 2, NULL), next[0] + 4);
	assert_int_equal(dta_append_next(&r.f.v, 1, 2, NULL), 6);
	assert_int_equal(dta_append_next(&r.f.v, 0, 0, NULL), 0);
	take_down(&r);
}

/* A restarted collector hands over each store again, and says which block of each list is next. */
static void waiting_items_survive_a_collector_restart(void **state)
{
	const uint64_t next[2] = {3, 0};
	struct sl_query_append_reader reader = {.block = 3};
	static struct feed feed;
	uint8_t items[8 * 4];
	struct rig r;

	set_up(&r, state,
	       (struct sl_store_config){.kind = SL_STORE_APPEND,
					.slots = 8,
					.value_bytes = 4,
					.batch = 4,
					.lists = 2},
	       NULL);
	assert_int_equal(dta_engine_store(r.e, &r.f.c, &r.f.object, 0, 0, next), 0);
	feed_of(&feed, DTA_APPEND, 0, 4, 4, 0);
	put_append(&feed, 0, "1st.");
	put_append(&feed, 0, "2nd.");
	put_append(&feed, 1, "only");
	put_append(&feed, 0, "3rd.");
	assert_int_equal(give(r.e, 0, &feed, 1), 4);
	assert_int_equal(dta_engine_store(r.e, &r.f.c, &r.f.object, 0, 0, next), 0);
	closed(r.e);
	put_append(&feed, 0, "4th.");
	put_append(&feed, 0, "5th.");
	assert_int_equal(give(r.e, 0, &feed, 2), 2);
	dta_engine_flush(r.e);
	assert_int_equal(closed(r.e).stored, 6);
	assert_int_equal(dta_append_read(&r.f.v, &reader, items, 8), 5);
	assert_memory_equal(items, "1st.2nd.3rd.4th.5th.", 5 * 4);
	reader = (struct sl_query_append_reader){.list = 1};
	assert_int_equal(dta_append_read(&r.f.v, &reader, items, 8), 1);
	assert_memory_equal(items, "only", 4);
	take_down(&r);
}

static void counters_are_never_low_and_seldom_high(void **state)
{
	enum { KEYS = 3000, COLUMNS = 2048, REPORTS = 60000 };
	static const uint32_t entries[] = {0, ~0u, 64};
	static struct feed feed;

	for (size_t c = 0; c < 3; c++)
		for (uint8_t copies = 1; copies <= 4; copies++) {
			static uint64_t truth[KEYS];
			uint64_t rnd = copies, high = 0, total = 0;
			struct sl_increment_answer a;
			struct rig r;

			memset(truth, 0, sizeof(truth));
			set_up(&r, state,
			       (struct sl_store_config){
				       .kind = SL_STORE_INCREMENT, .slots = COLUMNS, .rows = 4},
			       &(struct dta_engine_opts){.increment_entries = entries[c]});
			feed_of(&feed, DTA_INCREMENT, copies, 8, 8, 0);
			for (uint32_t i = 0; i < REPORTS; i++) {
				/* Few keys are frequent: about 1 / rank. */
				uint64_t key = next_random(&rnd) % (1 + next_random(&rnd) % KEYS);
				uint64_t n = 1 + next_random(&rnd) % 9;

				truth[key] += n;
				total += n;
				put_increment(&feed, &key, n);
				if (feed.b.count == 100)
					assert_int_equal(give(r.e, 0, &feed, i), 100);
			}
			dta_engine_flush(r.e);
			assert_int_equal(closed(r.e).stored, REPORTS);
			for (uint64_t key = 0; key < KEYS; key++) {
				struct dta_query q = {.key = &key,
						      .key_bytes = 8,
						      .epoch = ~0ull,
						      .copies = copies};

				dta_view_increment(&r.f.v, &q, &a);
				assert_true(a.result == SL_QUERY_FOUND || !truth[key]);
				assert_true(a.value >= truth[key]);
				high += (double)(a.value - truth[key]) >
					2.718281828 / COLUMNS * (double)total;
			}
			/* Each with a probability of at most e^-copies. */
			assert_true((double)high / KEYS <= 1 / (copies == 1   ? 2.7
								: copies == 2 ? 7.3
									      : 20.0));
			take_down(&r);
		}
}

static void increments_of_a_key_are_one_addition_a_row(void **state)
{
	static struct feed feed;
	struct rig r;

	set_up(&r, state,
	       (struct sl_store_config){.kind = SL_STORE_INCREMENT, .slots = 99, .rows = 3},
	       &(struct dta_engine_opts){.increment_entries = 16, .flush_ns = 100});
	feed_of(&feed, DTA_INCREMENT, 3, 5, 8, 0);
	for (int i = 0; i < 500; i++)
		put_increment(&feed, "hello", 3);
	assert_int_equal(give(r.e, 0, &feed, 1000), 500);
	assert_int_equal(closed(r.e).waiting, 500);
	dta_engine_tick(r.e, 1099);
	assert_int_equal(closed(r.e).waiting, 500);
	dta_engine_tick(r.e, 1100);
	assert_int_equal(closed(r.e).stored, 500);
	assert_int_equal(closed(r.e).operations, 3);
	assert_int_equal(closed(r.e).merged, 499);
	{
		struct dta_query q = {.key = "hello", .key_bytes = 5, .epoch = ~0ull, .copies = 3};
		struct sl_increment_answer a;

		dta_view_increment(&r.f.v, &q, &a);
		assert_int_equal(a.value, 1500);
	}
	take_down(&r);
}

static void an_immediate_report_wakes_when_it_can_be_read(void **state)
{
	static const struct sl_store_config c[] = {
		{.kind = SL_STORE_KEYWRITE, .slots = 9, .value_bytes = 8, .copies = 2, .id = 300},
		{.kind = SL_STORE_APPEND,
		 .slots = 9,
		 .value_bytes = 8,
		 .batch = 5,
		 .lists = 3,
		 .id = 300},
		{.kind = SL_STORE_INCREMENT, .slots = 9, .rows = 2, .id = 300},
		{.kind = SL_STORE_POSTCARD, .slots = 9, .hops = 1, .copies = 2, .id = 300},
	};
	static const uint8_t value[8] = {0, 1};
	static struct feed feed;

	for (size_t i = 0; i < 4; i++)
		for (uint16_t count = 1; count <= 10; count++) {
			const uint8_t key[4] = {0, 0, 0, 1};
			struct rig r;

			set_up(&r, state, c[i], NULL);
			feed_of(&feed, (uint8_t)c[i].kind, c[i].kind == SL_STORE_APPEND ? 0 : 2, 4,
				8, 300);
			feed.b.flags = DTA_IMMEDIATE;
			for (uint16_t n = 0; n < count; n++)
				put(&feed, key, value);
			assert_true(give(r.e, 0, &feed, 1) > 0);
			assert_int_equal(closed(r.e).waiting, 0);
			/*
			 * Postcards: a path of one hop is whole at once; the rest are its
			 * duplicates.
			 */
			assert_int_equal(wakes(&r), 1);
			assert_int_equal(r.m.woken_by | r.woken_by, 300);
			assert_int_equal(closed(r.e).immediates, 1);
			take_down(&r);
		}
}

static void what_does_not_fit_is_counted_and_changes_nothing(void **state)
{
	static const struct sl_store_config c[] = {
		{.kind = SL_STORE_KEYWRITE, .slots = 50, .value_bytes = 8, .copies = 2},
		{.kind = SL_STORE_APPEND, .slots = 9, .value_bytes = 8, .batch = 1, .lists = 3},
		{.kind = SL_STORE_INCREMENT, .slots = 50, .rows = 2},
		{.kind = SL_STORE_POSTCARD, .slots = 50, .hops = 5, .copies = 2},
		{.kind = SL_STORE_SKETCH,
		 .slots = 16,
		 .rows = 2,
		 .sketch = SL_STORE_COUNT_MIN,
		 .reporters = 2},
		{.kind = SL_STORE_SKETCH,
		 .slots = 16,
		 .rows = 1,
		 .sketch = SL_STORE_HLL,
		 .reporters = 2},
	};
	static const struct {
		int config;
		struct dta_block b;
		uint8_t item[24];
		enum dta_engine_drop why;
	} bad[] = {
		{0, {DTA_KEYWRITE, 0, 1, 1, 4, 8, 7, NULL}, {0}, DTA_DROP_NO_STORE},
		{0, {DTA_APPEND, 0, 1, 0, 4, 8, 0, NULL}, {0}, DTA_DROP_NO_STORE},
		{0, {DTA_KEYWRITE, 0, 1, 3, 4, 8, 0, NULL}, {0}, DTA_DROP_SHAPE},
		{0, {DTA_KEYWRITE, 0, 1, 0, 4, 8, 0, NULL}, {0}, DTA_DROP_SHAPE},
		{0, {DTA_KEYWRITE, 0, 1, 1, 4, 4, 0, NULL}, {0}, DTA_DROP_SHAPE},
		{1, {DTA_APPEND, 0, 1, 0, 4, 4, 0, NULL}, {0}, DTA_DROP_SHAPE},
		{1, {DTA_APPEND, 0, 1, 0, 8, 8, 0, NULL}, {0}, DTA_DROP_SHAPE},
		{1, {DTA_APPEND, 0, 1, 0, 4, 8, 0, NULL}, {0, 0, 0, 3}, DTA_DROP_LIST},
		{1, {DTA_APPEND, 0, 1, 0, 4, 8, 0, NULL}, {255, 255, 255, 255}, DTA_DROP_LIST},
		{2, {DTA_INCREMENT, 0, 1, 3, 4, 8, 0, NULL}, {0}, DTA_DROP_SHAPE},
		{2, {DTA_INCREMENT, 0, 1, 1, 4, 4, 0, NULL}, {0}, DTA_DROP_SHAPE},
		{3, {DTA_POSTCARD, 0, 1, 3, 4, 8, 0, NULL}, {0, 0, 0, 0, 0, 5}, DTA_DROP_SHAPE},
		{3, {DTA_POSTCARD, 0, 1, 1, 4, 8, 0, NULL}, {0, 0, 0, 0, 5, 5}, DTA_DROP_LIST},
		{3, {DTA_POSTCARD, 0, 1, 1, 4, 8, 0, NULL}, {0, 0, 0, 0, 0, 6}, DTA_DROP_LIST},
		{3, {DTA_POSTCARD, 0, 1, 1, 4, 8, 0, NULL}, {0, 0, 0, 0, 0, 0}, DTA_DROP_LIST},
		{4, {DTA_SKETCH, 0, 1, 0, 12, 8, 0, NULL}, {[7] = 2}, DTA_DROP_LIST},
		{4, {DTA_SKETCH, 0, 1, 0, 12, 8, 0, NULL}, {[11] = 16}, DTA_DROP_LIST},
		{4,
		 {DTA_SKETCH, 0, 1, 0, 12, 8, 0, NULL},
		 {[8] = 255, 255, 255, 255},
		 DTA_DROP_LIST},
		{4, {DTA_SKETCH, 0, 1, 0, 12, 7, 0, NULL}, {0}, DTA_DROP_SHAPE},
		{4, {DTA_SKETCH, 0, 1, 0, 12, 0, 0, NULL}, {0}, DTA_DROP_SHAPE},
		{4, {DTA_SKETCH, 0, 1, 0, 8, 8, 0, NULL}, {0}, DTA_DROP_SHAPE},
		{4, {DTA_SKETCH, 0, 1, 0, 12, 8, 0, NULL}, {[3] = 2}, DTA_DROP_LATE},
		{4, {DTA_SKETCH, 0, 1, 0, 12, 8, 0, NULL}, {255, 255, 255, 255}, DTA_DROP_LATE},
		{4, {DTA_SKETCH_END, 0, 1, 0, 4, 8, 0, NULL}, {0}, DTA_DROP_SHAPE},
		{5, {DTA_SKETCH, 0, 1, 0, 12, 4, 0, NULL}, {[15] = 62}, DTA_DROP_SHAPE},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct dta_block b = bad[i].b;
		uint8_t *before;
		struct rig r;

		set_up(&r, state, c[bad[i].config], NULL);
		before = malloc(r.f.object.bytes);
		memcpy(before, r.f.all + 4096, r.f.object.bytes);
		b.items = bad[i].item;
		assert_int_equal(dta_engine_block(r.e, 0, 0, &b, 1), 0);
		if (closed(r.e).dropped[bad[i].why] != 1)
			fail_msg("case %zu is not counted as %s", i,
				 dta_engine_drop_name(bad[i].why));
		dta_engine_flush(r.e);
		assert_memory_equal(before, r.f.all + 4096, r.f.object.bytes);
		free(before);
		take_down(&r);
	}
}

static void configurations_that_do_not_fit_are_refused(void **state)
{
	struct sl_store_config c = {.kind = SL_STORE_APPEND,
				    .slots = 4,
				    .value_bytes = 8,
				    .batch = 2,
				    .lists = 2,
				    .lanes = 2};
	struct dta_object small;
	struct rig r;

	set_up(&r, state, c, NULL);
	c = r.f.c;
	assert_int_equal(dta_engine_store(r.e, &c, &r.f.object, 2, 0, NULL), -EINVAL);
	small = r.f.object;
	small.bytes--;
	assert_int_equal(dta_engine_store(r.e, &c, &small, 0, 0, NULL), -EINVAL);
	c.slots = 1ull << 60;
	assert_int_equal(dta_engine_store(r.e, &c, &r.f.object, 0, 0, NULL), -EINVAL);
	c.slots = 0;
	assert_int_equal(dta_engine_store(r.e, &c, &r.f.object, 0, 0, NULL), -EINVAL);
	assert_int_equal(dta_engine_rotate(r.e, 0, 9, 1), -ENOENT);
	take_down(&r);
}

static void a_tenant_gets_its_rate_and_its_burst(void **state)
{
	struct dta_rates *r = dta_rates_new();
	uint64_t taken = 0, now;

	(void)state;
	assert_non_null(r);
	dta_rates_take(r, 0, 1, 1000000);
	dta_rates_set(r, 0, 1000, 50);
	for (now = 1000000; now < 2001000000; now += 1000000)
		taken += dta_rates_take(r, 0, 60, now);
	/* 2 s at 1000 per second, and the burst. */
	assert_in_range(taken, 2048, 2051);
	/* A tenant that was silent for long can send a burst, and no more. */
	now += 3600000000000ull;
	assert_int_equal(dta_rates_take(r, 0, 60, now), 50);
	dta_rates_set(r, 0, 0, 0);
	assert_int_equal(dta_rates_take(r, 0, 60, now), 60);
	dta_rates_free(r);
}

static void stores_come_and_go_by_the_hundred(void **state)
{
	static struct feed feed;
	uint64_t in = 0;
	struct rig r;

	set_up(&r, state,
	       (struct sl_store_config){
		       .kind = SL_STORE_KEYWRITE, .slots = 9, .value_bytes = 8, .copies = 1},
	       NULL);
	for (int turn = 0; turn < 3; turn++) {
		for (uint16_t i = 0; i < 500; i++) {
			struct sl_store_config c = r.f.c;

			c.id = i;
			assert_int_equal(dta_engine_store(r.e, &c, &r.f.object, 0, 0, NULL), 0);
		}
		for (uint16_t i = 0; i < 500; i += 2)
			dta_engine_remove(r.e, 0, i);
		for (uint16_t i = 0; i < 500; i++) {
			feed_of(&feed, DTA_KEYWRITE, 1, 4, 8, i);
			put(&feed, "key.", "12345678");
			assert_int_equal(give(r.e, 0, &feed, 1), i % 2);
			in++;
		}
		assert_int_equal(closed(r.e).in, in);
	}
	take_down(&r);
}

#define BOTH(f) cmocka_unit_test_prestate(f, &mapped), cmocka_unit_test_prestate(f, &operated)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(keys_of_any_length_are_found_in_every_copy),
		BOTH(the_last_report_of_a_key_in_a_block_stays),
		BOTH(lists_keep_order_over_wraps_and_partial_blocks),
		BOTH(partial_blocks_wait_for_the_timer),
		BOTH(behind_a_partial_block_are_zeros),
		BOTH(a_list_goes_on_at_the_block_that_it_is_given),
		BOTH(waiting_items_survive_a_collector_restart),
		BOTH(counters_are_never_low_and_seldom_high),
		BOTH(increments_of_a_key_are_one_addition_a_row),
		BOTH(an_immediate_report_wakes_when_it_can_be_read),
		BOTH(what_does_not_fit_is_counted_and_changes_nothing),
		BOTH(configurations_that_do_not_fit_are_refused),
		BOTH(a_tenant_gets_its_rate_and_its_burst),
		BOTH(stores_come_and_go_by_the_hundred),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
