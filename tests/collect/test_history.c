// SPDX-License-Identifier: Apache-2.0
/*
 * test_history.c - the ring is bounded, ordered from the oldest, and returns whole chunks or none,
 * also under a writer.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/random.h"
#include "support/test.h"
#include "collect/read/history.h"

#define COLUMNS 1500u /* two groups */
#define RING	(256u << 10)

static bool f64[COLUMNS];

/* Row r of chunk n: the values of all columns show when they were written. */
static void fill(uint64_t n, int64_t *ns, uint64_t *v, uint32_t columns)
{
	for (unsigned int r = 0; r < COLLECT_COLUMN_ROWS; r++) {
		ns[r] = (int64_t)(n * 1000 + r);
		for (uint32_t c = 0; c < columns; c++)
			v[r * columns + c] = n * 1000 + r + c * 1000000;
	}
}

static void the_oldest_goes_first_and_memory_is_bounded(void **state)
{
	int64_t *ns = malloc(COLLECT_COLUMN_ROWS * sizeof(*ns));
	struct collect_chunk c = {.chunk = 0};
	uint64_t *v = malloc(COLLECT_COLUMN_ROWS * COLUMNS * 8), got[COLLECT_COLUMN_ROWS];
	uint64_t chunk = 0, prev, found = 0;
	struct collect_ring r;

	(void)state;
	assert_int_equal(collect_ring_init(&r, RING, 0), 0);
	for (uint64_t n = 0; n < 300; n++) {
		fill(n, ns, v, COLUMNS);
		chunk = collect_ring_append(&r, 42, chunk, ns, v, COLUMNS, f64, COLLECT_COLUMN_ROWS,
					    COLUMNS);
		assert_true(collect_ring_bytes(&r) <= RING);
		collect_ring_trim(&r);
	}
	assert_true(r.dropped_chunks > 0);
	for (uint64_t at = chunk; at; at = prev) {
		unsigned int n = collect_ring_read(&r, 42, at, 1200, &c, got, &prev);

		for (unsigned int i = 0; i < n; i++) {
			assert_int_equal(c.ns[i], (299 - (int64_t)found) * 1000 + i);
			assert_int_equal(got[i], (uint64_t)c.ns[i] + 1200000000ull);
		}
		found += n > 0;
	}
	assert_true(found > 3 && found < 300);
	assert_true(collect_ring_skip(&r, 42, chunk, COLUMNS - 1, 298999, &prev) && prev &&
		    prev < chunk);
	assert_false(collect_ring_skip(&r, 42, chunk, COLUMNS - 1, 299000, &prev));
	assert_true(collect_ring_skip(&r, 42, chunk, 0, 299000, &prev) && prev < chunk);
	assert_false(collect_ring_skip(&r, 43, chunk, COLUMNS - 1, 0, &prev));
	assert_false(collect_ring_skip(&r, 42, 1, COLUMNS - 1, -1, &prev)); /* gone */
	assert_int_equal(collect_ring_read(&r, 43, chunk, 1200, &c, got, &prev), 0);
	assert_int_equal(collect_ring_read(&r, 42, 1, 0, &c, got, &prev), 0);
	collect_ring_free(&r);
	free(ns);
	free(v);
}

static void a_chunk_that_is_too_large_is_counted(void **state)
{
	uint64_t *v = malloc(COLLECT_COLUMN_ROWS * COLUMNS * 8);
	int64_t ns[COLLECT_COLUMN_ROWS];
	uint64_t chunk, rng = 1;
	struct collect_ring r;

	(void)state;
	assert_int_equal(collect_ring_init(&r, 64 << 10, 0), 0);
	fill(1, ns, v, COLUMNS);
	for (size_t i = 0; i < COLLECT_COLUMN_ROWS * COLUMNS; i++)
		v[i] = random_xorshift(&rng); /* cannot be packed */
	chunk = collect_ring_append(&r, 42, 0, ns, v, COLUMNS, f64, COLLECT_COLUMN_ROWS, 10);
	assert_int_not_equal(chunk, 0);
	assert_int_equal(r.large_chunks, 0);
	assert_int_equal(collect_ring_append(&r, 42, chunk, ns, v, COLUMNS, f64,
					     COLLECT_COLUMN_ROWS, COLUMNS),
			 chunk);
	assert_int_equal(r.large_chunks, 2);
	assert_int_equal(r.chunks, 1);
	collect_ring_free(&r);
	free(v);
}

static void nothing_is_older_than_asked_for(void **state)
{
	int64_t ns[COLLECT_COLUMN_ROWS];
	uint64_t *v = malloc(COLLECT_COLUMN_ROWS * 4 * 8), chunk = 0;
	struct collect_ring r;

	(void)state;
	assert_int_equal(collect_ring_init(&r, RING, 5000), 0);
	for (uint64_t n = 0; n < 100; n++) {
		fill(n, ns, v, 4);
		chunk = collect_ring_append(&r, 42, chunk, ns, v, 4, f64, COLLECT_COLUMN_ROWS, 4);
	}
	assert_int_equal(r.chunks - r.expired_chunks, 6);
	assert_int_equal(r.points, 6 * COLLECT_COLUMN_ROWS * 4);
	collect_ring_expire(&r, 1000000);
	assert_int_equal(collect_ring_bytes(&r), 0);
	assert_int_equal(r.points, 0);
	collect_ring_free(&r);
	free(v);
}

struct shared {
	struct collect_ring ring;
	uint64_t chunk;
	bool stop;
};

static void *read_on(void *arg)
{
	struct shared *s = arg;
	uint64_t good = 0;

	while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
		uint64_t at = __atomic_load_n(&s->chunk, __ATOMIC_ACQUIRE), prev;
		struct collect_chunk c = {.chunk = 0};
		uint64_t v[COLLECT_COLUMN_ROWS];

		for (; at; at = prev)
			/*
			 * Columns in any order: data read once from the chunk serves all of them.
			 */
			for (int k = 0; k < 3; k++) {
				const uint32_t column = k == 2 ? 5 : 17 + 42 * k;
				unsigned int n = collect_ring_read(&s->ring, 42, at, column, &c, v,
								   &prev);

				for (unsigned int i = 0; i < n; i++) {
					assert_int_equal(c.ns[i] % 1000, i);
					assert_int_equal(v[i],
							 (uint64_t)c.ns[i] + column * 1000000);
				}
				good += n;
			}
	}
	return (void *)(uintptr_t)good;
}

static void readers_get_whole_chunks_or_none(void **state)
{
	static struct shared s;
	int64_t ns[COLLECT_COLUMN_ROWS];
	uint64_t *v = malloc(COLLECT_COLUMN_ROWS * 100 * 8), chunk = 0;
	pthread_t thread[2];
	void *good;

	(void)state;
	assert_int_equal(collect_ring_init(&s.ring, 64 << 10, 0), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, read_on, &s), 0);
	for (uint64_t n = 0; n < 20000; n++) {
		fill(n, ns, v, 100);
		chunk = collect_ring_append(&s.ring, 42, chunk, ns, v, 100, f64,
					    COLLECT_COLUMN_ROWS, 100);
		__atomic_store_n(&s.chunk, chunk, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&s.stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++) {
		pthread_join(thread[i], &good);
		assert_non_null(good);
	}
	collect_ring_free(&s.ring);
	free(v);
}

int collect_test_history(void);
int collect_test_history(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_oldest_goes_first_and_memory_is_bounded),
		cmocka_unit_test(a_chunk_that_is_too_large_is_counted),
		cmocka_unit_test(nothing_is_older_than_asked_for),
		cmocka_unit_test(readers_get_whole_chunks_or_none),
	};

	return cmocka_run_group_tests_name("history-is-bounded-and-whole", tests, NULL, NULL);
}
