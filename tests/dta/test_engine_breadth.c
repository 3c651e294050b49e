// SPDX-License-Identifier: Apache-2.0
/*
 * test_engine_breadth.c - every length of key, value and path, every N and every batch, through a
 * mapping and an output; and sparse stores beyond 4 GiB.
 */
#include "engine_drive.h"
#include "dta/query/json.h"

struct world {
	struct fenced f;
	struct moody m;
	struct dta_output *shm;
	struct dta_engine *e;
	struct feed feed;
};

static void begin(struct world *w, struct sl_store_config c, bool mapped)
{
	fence(&w->f, c);
	madvise(w->f.all, w->f.object.bytes + 8192, MADV_NOHUGEPAGE);
	w->shm = dta_output_shm(NULL, NULL);
	if (!mapped)
		moody_over(&w->m, &w->f);
	w->e = dta_engine_new(NULL, mapped ? w->shm : &w->m.o);
	assert_int_equal(dta_engine_store(w->e, &w->f.c, &w->f.object, 0, 0, NULL), 0);
}

static void end(struct world *w)
{
	const struct dta_engine_stats s = closed(w->e);

	assert_int_equal(s.stored, s.in);
	dta_engine_free(w->e);
	w->shm->ops->close(w->shm);
	munmap(w->f.all, w->f.object.bytes + 8192);
}

static void fill(uint8_t *to, size_t bytes, uint64_t of)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] = (uint8_t)(dta_mix(of + i / 8) >> i % 8 * 8);
}

static void keys_and_values_of_any_length_are_found_with_any_n(void **state)
{
	enum { KEYS = 20 };
	static struct world w;
	uint32_t asked = 0, found = 0;

	(void)state;
	for (uint32_t i = 0; i < 2 * (SL_STORE_VALUE_MAX - 3); i++) {
		const uint32_t bytes = 4 + i / 2, n = 1 + bytes % 8;
		const uint8_t key_bytes = (uint8_t)(4 + bytes % 61);
		uint8_t key[SL_STORE_KEY_MAX], value[SL_STORE_VALUE_MAX];

		begin(&w,
		      (struct sl_store_config){.kind = SL_STORE_KEYWRITE,
					       .slots = 4096,
					       .value_bytes = bytes,
					       .copies = 8,
					       .seed = i},
		      i % 2);
		feed_of(&w.feed, DTA_KEYWRITE, (uint8_t)n, key_bytes, (uint16_t)bytes, 0);
		for (uint64_t k = 0; k < KEYS; k++) {
			fill(key, key_bytes, k << 32);
			fill(value, bytes, k << 32 | 1 << 16);
			put(&w.feed, key, value);
		}
		assert_int_equal(give(w.e, 0, &w.feed, 1), KEYS);
		for (uint64_t k = 0; k < KEYS; k++) {
			const struct dta_query q = {
				.key = key, .key_bytes = key_bytes, .epoch = ~0ull, .copies = n};
			struct sl_keywrite_answer a;

			fill(key, key_bytes, k << 32);
			fill(value, bytes, k << 32 | 1 << 16);
			dta_view_keywrite(&w.f.v, &q, &a);
			asked++;
			if (a.result == SL_QUERY_FOUND) {
				found++;
				assert_int_equal(a.bytes, bytes);
				assert_memory_equal(a.value, value, bytes);
			}
			/* No report came after the last one. */
			if (k == KEYS - 1 && a.verified != n)
				fail_msg("%u of %u copies of a key of %u bytes, value of %u",
					 a.verified, n, key_bytes, bytes);
		}
		end(&w);
	}
	/* With N = 1, other keys may use the same slot: two in a thousand at this load. */
	assert_true(found * 1000ull > asked * 995ull);
}

static void paths_of_1_to_64_hops_name_the_missing_ones(void **state)
{
	static struct world w;

	(void)state;
	for (uint32_t i = 0; i < 2 * SL_STORE_HOPS_MAX; i++) {
		const uint32_t hops = 1 + i / 2;
		uint64_t expect[5], now = 1;
		uint8_t key[13];

		begin(&w,
		      (struct sl_store_config){.kind = SL_STORE_POSTCARD,
					       .slots = 1 << 20,
					       .hops = (uint8_t)hops,
					       .copies = 2,
					       .seed = i},
		      i % 2);
		/* Path m lacks m hops; the others arrive in a different order for each path. */
		feed_of(&w.feed, DTA_POSTCARD, 2, sizeof(key), 8, 0);
		for (uint32_t m = 0; m < 5 && m < hops; m++) {
			expect[m] = 0;
			fill(key, sizeof(key), m << 16);
			for (uint32_t h = 0; h < hops; h++) {
				const uint32_t hop = (hops - 1 - h + m) % hops;

				if (h < m)
					continue;
				expect[m] |= 1ull << hop;
				put_hop(&w.feed, key, (uint8_t)hop, (uint8_t)hops, 1000 * m + hop);
			}
		}
		give(w.e, 0, &w.feed, now);
		for (int late = 0; late < 2; late++) {
			for (uint32_t m = 0; m < 5 && m < hops; m++) {
				const struct dta_query q = {.key = key,
							    .key_bytes = sizeof(key),
							    .epoch = ~0ull,
							    .copies = 2,
							    .policy = SL_QUERY_CONSENSUS,
							    .consensus = 2};
				struct sl_postcard_answer p;

				fill(key, sizeof(key), m << 16);
				dta_view_path(&w.f.v, &q, NULL, 0, &p);
				if (m && !late && i % 2 == 0) { /* no mapping: it waits */
					assert_int_equal(p.result, SL_QUERY_EMPTY);
					continue;
				}
				assert_int_equal(p.result, SL_QUERY_FOUND);
				assert_int_equal(p.hops, hops);
				assert_true(p.present == expect[m]);
				for (uint32_t h = 0; h < hops; h++)
					if (expect[m] >> h & 1)
						assert_int_equal(p.value[h], 1000 * m + h);
			}
			dta_engine_tick(w.e, now += 10000000);
		}
		end(&w);
	}
}

static void batches_of_1_to_64_leave_when_full_or_due(void **state)
{
	static struct world w;

	(void)state;
	for (uint32_t i = 0; i < 2 * 64; i++) {
		const uint32_t batch = 1 + i / 2, bytes = 4 * batch, rest = batch / 2;
		const uint32_t all = 2 * batch + rest;
		uint8_t items[64 * 256], value[256];
		struct sl_query_append_reader r = {.list = 1};
		uint32_t got = 0;

		begin(&w,
		      (struct sl_store_config){.kind = SL_STORE_APPEND,
					       .slots = 8,
					       .value_bytes = bytes,
					       .batch = (uint8_t)batch,
					       .lists = 2},
		      i % 2);
		feed_of(&w.feed, DTA_APPEND, 0, 4, (uint16_t)bytes, 0);
		for (uint32_t k = 0; k < all; k++) {
			fill(value, bytes, (uint64_t)k << 32);
			put_append(&w.feed, 1, value);
		}
		give(w.e, 0, &w.feed, 1);
		for (uint64_t now = 1; now < 3000000; now += 999999) { /* after 1 ms */
			int n;

			dta_engine_tick(w.e, now);
			while ((n = dta_append_read(&w.f.v, &r, items, batch)) > 0)
				for (int k = 0; k < n; k++, got++) {
					fill(value, bytes, (uint64_t)got << 32);
					assert_memory_equal(items + (size_t)k * bytes, value,
							    bytes);
				}
			assert_int_equal(n, 0);
			assert_int_equal(got, now < 1000001 ? 2 * batch : all);
		}
		end(&w);
	}
}

/* About half of 64 keys are beyond 4 GiB: none may be lost for that reason. */
static void stores_beyond_4_gib_have_all_their_places(void **state)
{
	enum { KEYS = 64 };
	const struct sl_store_config of[] = {
		{.kind = SL_STORE_KEYWRITE, .slots = 1 << 29, .value_bytes = 8, .copies = 1},
		{.kind = SL_STORE_POSTCARD, .slots = 1 << 28, .hops = 4, .copies = 1},
		{.kind = SL_STORE_INCREMENT, .slots = 1 << 29, .rows = 2},
		{.kind = SL_STORE_APPEND,
		 .slots = 1 << 20,
		 .value_bytes = 8,
		 .batch = 15,
		 .lists = KEYS},
	};
	static struct world w;

	(void)state;
	for (uint32_t i = 0; i < 2 * sizeof(of) / sizeof(of[0]); i++) {
		struct sl_store_config c = of[i / 2];

		c.seed = 1;
		begin(&w, c, i % 2);
		assert_true(w.f.object.bytes > 7ull << 30);
		feed_of(&w.feed, (uint8_t)c.kind, c.kind == SL_STORE_INCREMENT ? 2 : 1,
			c.kind == SL_STORE_APPEND ? 4 : 8, 8, 0);
		for (uint64_t k = 0; k < KEYS; k++) {
			const uint64_t key = dta_mix(k);

			if (c.kind == SL_STORE_KEYWRITE)
				put(&w.feed, &key, &k);
			else if (c.kind == SL_STORE_INCREMENT)
				put_increment(&w.feed, &key, k + 1);
			else if (c.kind == SL_STORE_APPEND)
				put_append(&w.feed, (uint32_t)k, &k);
			else
				put_hop(&w.feed, &key, 0, 1, (uint32_t)k);
		}
		if (c.kind == SL_STORE_APPEND)
			w.feed.b.copies = 0;
		assert_int_equal(give(w.e, 0, &w.feed, 1), KEYS);
		dta_engine_flush(w.e);
		for (uint64_t k = 0; k < KEYS; k++) {
			const uint64_t key = dta_mix(k);
			const struct dta_query q = {
				.key = &key, .key_bytes = 8, .epoch = ~0ull, .copies = c.copies};
			struct sl_query_append_reader r = {.list = (uint32_t)k};
			struct sl_increment_answer n;
			struct sl_keywrite_answer a;
			struct sl_postcard_answer p;
			uint64_t items[15];

			switch (c.kind) {
			case SL_STORE_KEYWRITE:
				dta_view_keywrite(&w.f.v, &q, &a);
				assert_int_equal(a.result, SL_QUERY_FOUND);
				assert_memory_equal(a.value, &k, 8);
				break;
			case SL_STORE_POSTCARD:
				dta_view_path(&w.f.v, &q, NULL, 0, &p);
				assert_int_equal(p.result, SL_QUERY_FOUND);
				assert_int_equal(p.value[0], k);
				break;
			case SL_STORE_INCREMENT:
				dta_view_increment(&w.f.v, &q, &n);
				assert_int_equal(n.value, k + 1);
				break;
			default:
				assert_int_equal(dta_append_read(&w.f.v, &r, items, 15), 1);
				assert_int_equal(items[0], k);
			}
		}
		end(&w);
	}
}

/* A query reads a limited number of keys, and returns how many blocks it left out. */
static void keys_beyond_the_limit_are_counted(void **state)
{
	enum { KEYS = 1100000 };
	static struct world w;
	struct fenced log;
	struct dta_held store = {.count = 1, .view = {&w.f.v}};
	struct dta_held keys = {.count = 1, .view = {&log.v}};
	uint64_t missing = 0;
	size_t n;

	(void)state;
	fence(&log, (struct sl_store_config){.kind = SL_STORE_APPEND,
					     .id = 7,
					     .slots = 1 << 17,
					     .value_bytes = 16,
					     .batch = 16,
					     .lists = 1});
	begin(&w,
	      (struct sl_store_config){.kind = SL_STORE_KEYWRITE,
				       .slots = 4096,
				       .value_bytes = 8,
				       .copies = 1,
				       .keylog = 1 + 7},
	      true);
	assert_int_equal(dta_engine_store(w.e, &log.c, &log.object, 0, 0, NULL), 0);
	feed_of(&w.feed, DTA_KEYWRITE, 1, 8, 8, 0);
	for (uint64_t key = 1; key <= KEYS; key++) {
		put(&w.feed, &key, "12345678");
		if (key % 1000 == 0)
			assert_int_equal(give(w.e, 0, &w.feed, 1), 1000);
	}
	dta_engine_flush(w.e);
	free(dta_query_logged(&keys, &store, &n, &missing));
	assert_in_range(n, 1000000, KEYS - 1);
	assert_in_range(missing, (KEYS - n) / 16, (KEYS - n) / 16 + 16);
	end(&w);
	unfence(&log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_and_values_of_any_length_are_found_with_any_n),
		cmocka_unit_test(paths_of_1_to_64_hops_name_the_missing_ones),
		cmocka_unit_test(batches_of_1_to_64_leave_when_full_or_due),
		cmocka_unit_test(keys_beyond_the_limit_are_counted),
		cmocka_unit_test(stores_beyond_4_gib_have_all_their_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
