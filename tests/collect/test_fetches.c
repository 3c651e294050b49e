// SPDX-License-Identifier: Apache-2.0
/*
 * test_fetches.c - memory fetched from a region arrives once and from that region, or an error says
 * why not.
 */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "fixture.h"

struct fetched {
	unsigned int calls, good;
	int status;			 /* of the last call */
	uint64_t expect;		 /* the expected value of every word */
	struct collect_collector *again; /* fetch once more from the callback */
};

static void take_fetched(void *arg, int status, const void *bytes, uint32_t length, int64_t ns)
{
	struct fetched *f = arg;
	struct collect_collector *c = f->again;
	const uint64_t *word = bytes;
	bool good = !status && ns > 0;

	for (uint32_t i = 0; good && i < length / 8; i++)
		good = word[i] == f->expect;
	f->again = NULL;
	if (c && collect_collector_fetch(c, 1000, 4096, 64, take_fetched, f))
		good = false;
	__atomic_store_n(&f->status, status, __ATOMIC_RELAXED);
	__atomic_fetch_add(&f->good, good, __ATOMIC_RELAXED);
	__atomic_fetch_add(&f->calls, 1, __ATOMIC_RELEASE);
}

static unsigned int calls(const struct fetched *f)
{
	return __atomic_load_n(&f->calls, __ATOMIC_ACQUIRE);
}

static int fetch_one(struct collect_collector *c, uint64_t instance, struct fetched *f)
{
	unsigned int before = calls(f);

	assert_int_equal(collect_collector_fetch(c, instance, 4096, 64, take_fetched, f), 0);
	WITHIN(1000, calls(f) > before);
	return f->status;
}

enum { PODS = 8, EACH = 200 }; /* fetched pods, and fetches of each */

/*
 * Makes a pod with its own pattern after the schema in use, which no reader accesses; stores its
 * offset.
 */
static uint64_t make_patterned(struct mock_host *h, struct pod *pod, struct fetched *f)
{
	uint64_t offset = 0;

	for (unsigned int i = 0; i < PODS; i++) {
		pod_make(&pod[i], 1000 + i, LABELS("pod\0p"));
		counter(&pod[i], "a_total", NULL, NULL);
		offset = pod[i].m.size - 8192;
		f[i].expect = 0x1111111111111111u * (i + 1);
		for (uint64_t at = offset; at < pod[i].m.size; at += 8)
			*(uint64_t *)(pod[i].m.mem + at) = f[i].expect;
		put(h, i, i + 1, &pod[i], SL_STATE_LIVE);
	}
	return offset;
}

static void fetch_many(struct collect_collector *c, struct fetched *f, uint64_t offset)
{
	for (unsigned int k = 0; k < EACH; k++)
		for (unsigned int i = 0; i < PODS; i++)
			assert_int_equal(collect_collector_fetch(c, 1000 + i, offset + k % 64 * 64,
								 64 + k % 8 * 512, take_fetched,
								 &f[i]),
					 0);
	for (unsigned int i = 0; i < PODS; i++) {
		WITHIN(5000, calls(&f[i]) == EACH);
		assert_int_equal(f[i].good, EACH);
	}
	/* The rounds continued, and read their own values. */
	assert_true(self_value(c, "a_total", NULL) == 0);
}

static void fetch_out_of_range(struct collect_collector *c, uint64_t size)
{
	struct fetched last = {0};

	assert_int_equal(collect_collector_fetch(c, 5, 0, 64, take_fetched, &last), -ENOENT);
	assert_int_equal(collect_collector_fetch(c, 1000, 0, 0, take_fetched, &last), -ERANGE);
	assert_int_equal(
		collect_collector_fetch(c, 1000, 0, COLLECT_FETCH_MAX + 1, take_fetched, &last),
		-ERANGE);
	assert_int_equal(calls(&last), 0);
	assert_int_equal(collect_collector_fetch(c, 1000, size - 32, 64, take_fetched, &last), 0);
	WITHIN(1000, calls(&last) == 1);
	assert_int_equal(last.status, -ERANGE);
	assert_int_equal(collect_collector_fetch(c, 1000, UINT64_MAX - 31, 64, take_fetched, &last),
			 0);
	WITHIN(1000, calls(&last) == 2);
	assert_int_equal(last.status, -ERANGE);
	last.again = c; /* from the callback, too */
	assert_int_equal(collect_collector_fetch(c, 1000, 4096, 64, take_fetched, &last), 0);
	WITHIN(1000, calls(&last) == 4);
	assert_int_equal(last.status, 0);
}

/*
 * A fetch from an unreachable host returns nothing; from a host that hangs, nothing until the end.
 */
static void fetch_from_a_bad_host(struct collect_collector *c, struct mock_host *h,
				  struct fetched *held)
{
	struct fetched last = {0};

	mock_set(h, false);
	WITHIN(1000,
	       mentions(c, "sidelight_host_up{host=\"node-1\",target=\"one\",fabric=\"mock\"} 0"));
	assert_int_equal(fetch_one(c, 1000, &last), -EAGAIN);
	mock_set(h, true);
	for (unsigned int i = 0; i < 2; i++)
		WITHIN(2000, !fetch_one(c, 1000 + i, &last));
	pthread_mutex_lock(&h->lock);
	h->hold = true;
	pthread_mutex_unlock(&h->lock);
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(collect_collector_fetch(c, 1000 + i % 2, 4096, 64, take_fetched,
							 &held[i % 2]),
				 0);
	usleep(20000);
	assert_int_equal(calls(&held[0]) + calls(&held[1]), 0);
	held[0].again = c; /* in vain */
}

static void fetches_the_right_region_exactly_once(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	struct fetched f[PODS] = {0}, held[2] = {0};
	static struct pod pod[PODS];
	struct collect_collector *c;
	uint64_t offset = make_patterned(h, pod, f);

	(void)state;
	h->shuffle = true;
	c = start(&(struct collect_collector_opts){.period_ns = MS,
						   .stale_ns = 200 * MS,
						   .read_timeout_ns = 60000 * MS,
						   .workers = 2,
						   .queues = 2});
	WITHIN(5000, collect_collector_ready(c));
	fetch_many(c, f, offset);
	fetch_out_of_range(c, pod[0].m.size);
	fetch_from_a_bad_host(c, h, held);
	collect_collector_free(c);
	assert_int_equal(calls(&held[0]) + calls(&held[1]), 100);
	assert_int_equal(held[0].status, -ECANCELED);
	for (unsigned int i = 0; i < PODS; i++)
		make_free(&pod[i].m);
}

const struct CMUnitTest fetches_tests[] = {
	TEST(fetches_the_right_region_exactly_once),
	{0},
};
