// SPDX-License-Identifier: Apache-2.0
/*
 * test_engine_outputs.c - epochs, key logs and outputs: every report is in one counter, whatever
 * the output does.
 */
#include "engine_drive.h"
#include "dta/query/json.h"

/* ---- epochs ---- */

static void waiting_reports_go_to_the_epoch_of_their_arrival(void **state)
{
	static struct feed feed;

	(void)state;
	for (int postcard = 0; postcard < 2; postcard++) {
		struct sl_store_config c = {
			.kind = SL_STORE_INCREMENT, .slots = 99, .rows = 2, .banks = 2};
		struct dta_output *shm = postcard ? output_apart() : dta_output_shm(NULL, NULL);
		struct dta_engine *e;
		struct fenced f;

		if (postcard)
			c = (struct sl_store_config){.kind = SL_STORE_POSTCARD,
						     .slots = 99,
						     .hops = 5,
						     .copies = 2,
						     .banks = 2};
		fence(&f, c);
		e = engine_over(&f, shm, &(struct dta_engine_opts){.increment_entries = 64});
		for (uint64_t epoch = 0; epoch < 4; epoch++) {
			if (epoch) {
				owner_rotates(&f, epoch);
				assert_int_equal(dta_engine_rotate(e, 0, 0, epoch), 0);
			}
			assert_int_equal(closed(e).waiting, 0);
			feed_of(&feed, (uint8_t)c.kind, 2, 4, 8, 0);
			if (postcard)
				put_hop(&feed, "key.", 2, 5, (uint32_t)epoch + 10);
			else
				put_increment(&feed, "key.", epoch + 10);
			assert_int_equal(give(e, 0, &feed, epoch), 1);
			assert_int_equal(closed(e).waiting, 1);
			for (uint64_t asked = epoch > 1 ? epoch - 1 : 0; asked < epoch; asked++) {
				struct dta_query q = {
					.key = "key.", .key_bytes = 4, .epoch = asked, .copies = 2};
				struct sl_increment_answer i;
				struct sl_postcard_answer p;

				if (postcard) {
					dta_view_path(&f.v, &q, NULL, 0, &p);
					assert_int_equal(p.result, SL_QUERY_FOUND);
					assert_int_equal(p.value[2], asked + 10);
				} else {
					dta_view_increment(&f.v, &q, &i);
					assert_int_equal(i.result, SL_QUERY_FOUND);
					assert_int_equal(i.value, asked + 10);
				}
			}
		}
		dta_engine_free(e);
		shm->ops->close(shm);
		unfence(&f);
	}
}

/* Makes a store of keys, and its key log with room for `slots` items. */
static struct dta_engine *engine_with_keylog(struct fenced *f, struct fenced *log,
					     struct dta_output *shm, uint32_t slots)
{
	struct dta_engine *e;

	fence(f, (struct sl_store_config){.kind = SL_STORE_KEYWRITE,
					  .slots = 999,
					  .value_bytes = 8,
					  .copies = 2,
					  .banks = 2,
					  .keylog = 1 + 7});
	fence(log, (struct sl_store_config){.kind = SL_STORE_APPEND,
					    .id = 7,
					    .slots = slots,
					    .value_bytes = 16,
					    .batch = 4,
					    .lists = 1});
	e = engine_over(f, shm, NULL);
	assert_int_equal(dta_engine_store(e, &log->c, &log->object, 0, 0, NULL), 0);
	return e;
}

/* ---- key log ---- */

static void keys_are_logged_once_an_epoch_and_are_no_reports(void **state)
{
	static struct feed feed;
	struct dta_output *shm = dta_output_shm(NULL, NULL);
	struct sl_query_append_reader reader = {0};
	uint8_t items[64 * 16], seen[100] = {0};
	struct dta_engine_stats s;
	struct fenced f, log;
	struct dta_engine *e;
	int count, keys = 0, marks = 0;

	(void)state;
	e = engine_with_keylog(&f, &log, shm, 999);
	for (uint64_t epoch = 0; epoch < 2; epoch++) {
		if (epoch)
			assert_int_equal(dta_engine_rotate(e, 0, 0, epoch), 0);
		feed_of(&feed, DTA_KEYWRITE, 2, 13, 8, 0);
		for (uint32_t n = 0; n < 3000; n++) {
			uint8_t key[13] = {(uint8_t)(n % 100)};

			put(&feed, key, "12345678");
			if (feed.b.count == 50)
				assert_int_equal(give(e, 0, &feed, 1), 50);
		}
	}
	feed_of(&feed, DTA_KEYWRITE, 2, 16, 8, 0);
	put(&feed, "too long for it.", "12345678");
	give(e, 0, &feed, 1);
	dta_engine_flush(e);
	s = closed(e);
	assert_int_equal(s.in, 6001);
	assert_int_equal(s.stored, 6001);
	while ((count = dta_append_read(&log.v, &reader, items, 64)) > 0)
		for (int i = 0; i < count; i++) {
			if (!items[i * 16]) { /* the epoch, before its first key */
				assert_int_equal(items[i * 16 + 1], keys / 100);
				assert_int_equal(keys % 100, 0);
				assert_int_equal(++marks, 1 + keys / 100);
				continue;
			}
			keys++;
			assert_int_equal(items[i * 16], 13);
			assert_in_range(items[i * 16 + 1], 0, 99);
			seen[items[i * 16 + 1]]++;
		}
	for (int i = 0; i < 100; i++)
		assert_int_equal(seen[i], 2);
	assert_int_equal(marks, 2);
	dta_engine_free(e);
	shm->ops->close(shm);
	unfence(&f);
	unfence(&log);
}

/* The mark of the epoch is repeated, so that a log that has wrapped still states it. */
static void a_log_that_wraps_in_an_epoch_has_its_newest_keys(void **state)
{
	static struct feed feed;
	struct dta_output *shm = dta_output_shm(NULL, NULL);
	struct fenced f, log;
	struct dta_held store = {.count = 1, .view = {&f.v}}, keys = {.count = 1, .view = {&log.v}};
	struct dta_logged_key *logged;
	struct dta_success success;
	struct dta_engine *e;
	uint64_t overwritten = 0;
	size_t n;

	(void)state;
	e = engine_with_keylog(&f, &log, shm, 32);
	feed_of(&feed, DTA_KEYWRITE, 2, 8, 8, 0);
	for (uint64_t key = 1; key <= 1000; key++) {
		put(&feed, &key, "12345678");
		if (key % 100 == 0)
			assert_int_equal(give(e, 0, &feed, 1), 100);
	}
	dta_engine_flush(e);
	logged = dta_query_logged(&keys, &store, &n, &overwritten);
	assert_true(overwritten > 0);
	/* Some marks and a few keys before the first mark are missing. */
	assert_in_range(n, 32 * 4 * 3 / 4, 32 * 4);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(logged[i].epoch, 0);
	free(logged);
	/* Keys are missing, although the log has a mark of the epoch. */
	dta_query_success(&store, &keys, &success);
	assert_non_null(strstr(success.why_not, "not hold all keys"));
	dta_engine_free(e);
	shm->ops->close(shm);
	unfence(&f);
	unfence(&log);
}

/* Blocks of waiting items may not fit into the new object. */
static void a_resized_list_inherits_no_waiting_items(void **state)
{
	static const struct sl_store_config former = {
		.kind = SL_STORE_APPEND, .slots = 8, .value_bytes = 4, .batch = 4, .lists = 2};
	struct sl_store_config c[] = {former, former, former, former};
	static struct feed feed;

	(void)state;
	c[0].slots = 16;
	c[1].lists = 1;
	c[2].batch = 8;
	c[3].value_bytes = 8;
	for (size_t i = 0; i < 4; i++) {
		struct dta_output *shm = dta_output_shm(NULL, NULL);
		struct dta_engine *e = dta_engine_new(NULL, shm);
		struct sl_query_append_reader reader = {.list = 1};
		struct fenced f, resized;
		uint8_t items[4 * 4];

		fence(&f, former);
		fence(&resized, c[i]);
		assert_int_equal(dta_engine_store(e, &f.c, &f.object, 0, 0, NULL), 0);
		feed_of(&feed, DTA_APPEND, 0, 4, 4, 0);
		put_append(&feed, 1, "item");
		assert_int_equal(give(e, 0, &feed, 1), 1);
		assert_int_equal(dta_engine_store(e, &resized.c, &resized.object, 0, 0, NULL), 0);
		assert_int_equal(closed(e).stored, 1);
		assert_int_equal(dta_append_read(&f.v, &reader, items, 4), 1);
		assert_memory_equal(items, "item", 4);
		dta_engine_free(e);
		shm->ops->close(shm);
		unfence(&f);
		unfence(&resized);
	}
}

/* The log is resized after keys of the epoch were logged. */
static void keys_are_logged_again_after_a_resize(void **state)
{
	static struct feed feed;
	struct dta_output *shm = dta_output_shm(NULL, NULL);
	struct fenced f, log, larger;
	struct dta_held store = {.count = 1, .view = {&f.v}};
	struct dta_held keys = {.count = 1, .view = {&larger.v}};
	struct dta_logged_key *logged;
	struct sl_store_config c;
	struct dta_engine *e;
	uint64_t overwritten = 0;
	size_t n;

	(void)state;
	e = engine_with_keylog(&f, &log, shm, 32);
	c = log.c;
	c.slots = 999;
	fence(&larger, c);
	feed_of(&feed, DTA_KEYWRITE, 2, 8, 8, 0);
	for (int turn = 0; turn < 2; turn++) {
		for (uint64_t key = 1; key <= 10; key++)
			put(&feed, &key, "12345678");
		assert_int_equal(give(e, 0, &feed, 1), 10);
		if (!turn)
			assert_int_equal(dta_engine_store(e, &larger.c, &larger.object, 0, 0, NULL),
					 0);
	}
	dta_engine_flush(e);
	logged = dta_query_logged(&keys, &store, &n, &overwritten);
	assert_int_equal(n, 10);
	free(logged);
	dta_engine_free(e);
	shm->ops->close(shm);
	unfence(&f);
	unfence(&log);
	unfence(&larger);
}

/* ---- outputs ---- */

static struct sl_store_config any_kind(uint32_t kind)
{
	static const struct sl_store_config c[] = {
		[SL_STORE_KEYWRITE] = {.kind = SL_STORE_KEYWRITE,
				       .slots = 500,
				       .value_bytes = 8,
				       .copies = 2,
				       .banks = 2},
		[SL_STORE_APPEND] = {.kind = SL_STORE_APPEND,
				     .slots = 500,
				     .value_bytes = 8,
				     .batch = 8,
				     .lists = 4},
		[SL_STORE_INCREMENT] = {.kind = SL_STORE_INCREMENT,
					.slots = 500,
					.rows = 2,
					.banks = 2},
		[SL_STORE_POSTCARD] = {.kind = SL_STORE_POSTCARD,
				       .slots = 500,
				       .hops = 3,
				       .copies = 2,
				       .banks = 2},
		[SL_STORE_SKETCH] = {.kind = SL_STORE_SKETCH,
				     .slots = 2048,
				     .rows = 2,
				     .reporters = 3,
				     .sketch = SL_STORE_COUNT_MIN,
				     .banks = 2},
	};

	return c[kind];
}

static void some_of_kind(struct feed *feed, uint32_t kind, uint64_t *rnd)
{
	uint64_t key = next_random(rnd) % 200;
	uint8_t sketch[12] = {0};

	feed_of(feed, (uint8_t)kind, kind <= SL_STORE_POSTCARD && kind != SL_STORE_APPEND ? 2 : 0,
		kind == SL_STORE_SKETCH	  ? 12
		: kind == SL_STORE_APPEND ? 4
					  : 8,
		8, 0);
	for (int i = 0; i < 40; i++) {
		if (kind == SL_STORE_POSTCARD) {
			put_hop(feed, &key, (uint8_t)(i % 3), 3, 5);
			key += i % 3 == 2;
		} else if (kind == SL_STORE_APPEND) {
			put_append(feed, (uint32_t)key % 4, &key);
		} else if (kind == SL_STORE_SKETCH) {
			be32(sketch + 8, (uint32_t)key * 10 + (uint32_t)i);
			put(feed, sketch, "12345678");
		} else {
			put(feed, &key, "12345678");
			key++;
		}
	}
}

/* Full now and then, for good, down, refusing: for each primitive. */
static void every_report_is_in_one_counter_for_any_output(void **state)
{
	static struct feed feed;
	uint64_t rnd = 11;

	(void)state;
	for (uint32_t kind = SL_STORE_KEYWRITE; kind <= SL_STORE_SKETCH; kind++)
		for (int mood = 0; mood < 5; mood++) {
			static const enum dta_engine_drop why[] = {
				DTA_DROPS, DTA_DROP_OUTPUT_FULL, DTA_DROP_OUTPUT_DOWN,
				DTA_DROP_OUTPUT_FAILED, DTA_DROPS};
			struct dta_engine_stats s;
			uint64_t taken = 0, now = 0, kept;
			struct dta_engine *e;
			struct fenced f;
			struct moody m;

			fence(&f, any_kind(kind));
			moody_over(&m, &f);
			e = engine_over(&f, &m.o,
					&(struct dta_engine_opts){.increment_entries = 64,
								  .path_entries = 64,
								  .sketch_ns = 1000});
			if (mood == 0) { /* slow, but it makes progress */
				m.room = 3;
				m.gain = 2;
			}
			for (int round = 0; round < 60; round++) {
				if (round == 20) {
					m.room = mood == 1 ? 5 : m.room;
					m.until_down = mood == 2 ? 5 : ~0ull;
					m.refusal = mood == 3 ? -ERANGE : 0;
				}
				some_of_kind(&feed, kind, &rnd);
				taken += give(e, (uint32_t)round % 3, &feed, now += 100);
				if (round % 7 == 0)
					dta_engine_tick(e, now += 600000);
				closed(e);
			}
			s = closed(e);
			assert_int_equal(s.in, 60 * 40);
			if (why[mood] < DTA_DROPS && kind != SL_STORE_SKETCH)
				assert_true(s.dropped[why[mood]] > 0);
			if (mood == 0 || mood == 4)
				assert_int_equal(s.dropped[DTA_DROP_OUTPUT_FULL], 0);
			/*
			 * Accepted reports are never dropped because an output is full or down. The
			 * sum of a sketch keeps those that were refused.
			 */
			if (mood != 3 || kind == SL_STORE_SKETCH)
				assert_int_equal(taken, s.stored + s.waiting);
			kept = s.waiting;
			m.room = ~0u;
			m.until_down = ~0ull;
			m.refusal = 0;
			dta_engine_flush(e);
			assert_int_equal(closed(e).stored, s.stored + kept);
			assert_int_equal(closed(e).waiting, 0);
			/*
			 * Reports that cannot be written by the end of their epoch are dropped
			 * under a cause.
			 */
			some_of_kind(&feed, kind, &rnd);
			give(e, 0, &feed, now);
			kept = closed(e).waiting;
			m.until_down = 0;
			dta_engine_rotate(e, 0, 0, 1);
			assert_int_equal(closed(e).waiting, kind == SL_STORE_APPEND ? kept : 0);
			dta_engine_remove(e, 0, 0);
			assert_int_equal(closed(e).waiting, 0);
			assert_int_equal(closed(e).in, 61 * 40);
			dta_engine_free(e);
			unfence(&f);
		}
}

/* A list whose blocks could not be written has no gap when the output is back. */
static void a_list_has_no_gap_where_the_output_was_down(void **state)
{
	static struct feed feed;
	struct sl_query_append_reader reader = {0};
	uint64_t next = 0, got = 0, items[64], now = 1;
	struct dta_engine *e;
	struct fenced f;
	struct moody m;
	int count;

	(void)state;
	fence(&f, (struct sl_store_config){.kind = SL_STORE_APPEND,
					   .slots = 2000,
					   .value_bytes = 8,
					   .batch = 8,
					   .lists = 1});
	moody_over(&m, &f);
	e = engine_over(&f, &m.o, NULL);
	for (int round = 0; round < 300; round++) {
		m.until_down = round % 30 < 20 ? ~0ull : 0;
		feed_of(&feed, DTA_APPEND, 0, 4, 8, 0);
		for (int i = 0; i < 11; i++) {
			uint64_t item = next;

			put_append(&feed, 0, &item);
			/* Sent again until it is accepted, as in the loss protocol. */
			next += give(e, 0, &feed, now += 1000);
		}
	}
	m.until_down = ~0ull;
	dta_engine_flush(e);
	while ((count = dta_append_read(&f.v, &reader, items, 64)) > 0)
		for (int i = 0; i < count; i++)
			assert_int_equal(items[i], got++);
	assert_int_equal(got, next);
	assert_true(closed(e).dropped[DTA_DROP_OUTPUT_DOWN] > 0);
	dta_engine_free(e);
	unfence(&f);
}

/*
 * After a reconnect, the collector says which block is next, but the output has not repeated the
 * last ones yet.
 */
static void a_list_goes_on_behind_blocks_that_are_repeated(void **state)
{
	static struct feed feed;
	struct sl_query_append_reader reader = {0};
	uint64_t next = 0, items[64];
	const uint64_t none = 0;
	struct dta_engine *e;
	struct fenced f;
	struct moody m;

	(void)state;
	fence(&f, (struct sl_store_config){.kind = SL_STORE_APPEND,
					   .slots = 20,
					   .value_bytes = 8,
					   .batch = 4,
					   .lists = 1});
	moody_over(&m, &f);
	e = engine_over(&f, &m.o, NULL);
	for (int blocks = 2; blocks; blocks--) {
		feed_of(&feed, DTA_APPEND, 0, 4, 8, 0);
		for (int i = 0; i < 4 * blocks; i++, next++)
			put_append(&feed, 0, &next);
		assert_int_equal(give(e, 0, &feed, 1), 4 * blocks);
		m.o.outstanding = 2;
		assert_int_equal(dta_engine_store(e, &f.c, &f.object, 0, 0, &none), 0);
	}
	assert_int_equal(dta_append_read(&f.v, &reader, items, 64), 12);
	for (uint64_t i = 0; i < 12; i++)
		assert_int_equal(items[i], i);
	dta_engine_free(e);
	unfence(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waiting_reports_go_to_the_epoch_of_their_arrival),
		cmocka_unit_test(keys_are_logged_once_an_epoch_and_are_no_reports),
		cmocka_unit_test(a_log_that_wraps_in_an_epoch_has_its_newest_keys),
		cmocka_unit_test(a_resized_list_inherits_no_waiting_items),
		cmocka_unit_test(keys_are_logged_again_after_a_resize),
		cmocka_unit_test(every_report_is_in_one_counter_for_any_output),
		cmocka_unit_test(a_list_has_no_gap_where_the_output_was_down),
		cmocka_unit_test(a_list_goes_on_behind_blocks_that_are_repeated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
