// SPDX-License-Identifier: Apache-2.0
/*
 * test_engine_append.c - 100 million items (times SL_TEST_SCALE) through small rings with partial
 * blocks: a reader that keeps up gets each once and in order; a slow reader learns what it missed.
 */
#include "engine_drive.h"

enum { LISTS = 4, BLOCKS = 64, BATCH = 16, BLOCK_ITEMS = 120 };

struct list {
	struct sl_query_append_reader reader;
	uint64_t sent, got;
};

/* Reads all available items of a list; items increase by one, except after overruns. */
static void read_list(const struct fenced *f, struct list *l)
{
	uint64_t items[64];
	int count;

	while ((count = dta_append_read(&f->v, &l->reader, items, 64))) {
		if (count == -EOVERFLOW) {
			count = dta_append_read(&f->v, &l->reader, items, 64);
			assert_true(count > 0);
			/* some items were missed, and the query reports it */
			assert_true(items[0] > l->got);
			l->got = items[0];
		}
		assert_true(count > 0);
		for (int i = 0; i < count; i++)
			if (items[i] != l->got + (uint64_t)i)
				fail_msg("item %llu where %llu is next",
					 (unsigned long long)items[i],
					 (unsigned long long)l->got + (unsigned)i);
		l->got += (uint64_t)count;
	}
}

/* keep_up: reads before the ring wraps. */
static void run(uint64_t total, bool keep_up)
{
	static struct feed feed;
	struct dta_output *shm = dta_output_shm(NULL, NULL);
	struct dta_engine *e = dta_engine_new(NULL, shm);
	struct list list[LISTS] = {0};
	uint64_t rnd = 1, now = 1, sent = 0, overruns = 0, items = 0;
	struct dta_engine_stats s;
	struct fenced f;

	fence(&f, (struct sl_store_config){.kind = SL_STORE_APPEND,
					   .slots = BLOCKS,
					   .value_bytes = 8,
					   .batch = BATCH,
					   .lists = LISTS});
	assert_int_equal(dta_engine_store(e, &f.c, &f.object, 0, 0, NULL), 0);
	for (uint32_t i = 0; i < LISTS; i++)
		list[i].reader.list = i;
	for (uint64_t round = 0; sent < total; round++) {
		uint32_t n = 0;

		feed_of(&feed, DTA_APPEND, 0, 4, 8, 0);
		while (n < BLOCK_ITEMS) {
			uint64_t r = next_random(&rnd);
			uint32_t to = r % LISTS, run = 1 + (uint32_t)(r >> 8) % 40;

			for (run = run < BLOCK_ITEMS - n ? run : BLOCK_ITEMS - n; run; run--, n++) {
				put_append(&feed, to, &list[to].sent);
				list[to].sent++;
			}
		}
		assert_int_equal(give(e, 0, &feed, ++now), BLOCK_ITEMS);
		sent += BLOCK_ITEMS;
		if (next_random(&rnd) % 64 == 0)
			dta_engine_tick(e, now += 2000000);
		for (uint32_t i = 0; i < LISTS && (keep_up ? round % 4 == 3 : round % 500 == 499);
		     i++)
			read_list(&f, &list[i]);
	}
	dta_engine_flush(e);
	s = closed(e);
	assert_int_equal(s.stored, sent);
	assert_true(s.blocks_partial > 0 && s.blocks / LISTS / BLOCKS > 1000);
	for (uint32_t i = 0; i < LISTS; i++) {
		read_list(&f, &list[i]);
		assert_int_equal(list[i].got, list[i].sent);
		overruns += list[i].reader.overrun;
		items += list[i].reader.items;
	}
	if (keep_up) {
		assert_int_equal(overruns, 0);
		assert_int_equal(items, sent);
	} else {
		assert_true(overruns > 0);
	}
	dta_engine_free(e);
	shm->ops->close(shm);
	unfence(&f);
}

static void none_is_lost_none_comes_twice_and_order_is_kept(void **state)
{
	const char *scale = getenv("SL_TEST_SCALE");

	(void)state;
	run((uint64_t)(1e8 * (scale ? strtod(scale, NULL) : 1)), true);
}

static void a_reader_that_is_slow_sees_each_overrun(void **state)
{
	(void)state;
	run(10000000, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none_is_lost_none_comes_twice_and_order_is_kept),
		cmocka_unit_test(a_reader_that_is_slow_sees_each_overrun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
