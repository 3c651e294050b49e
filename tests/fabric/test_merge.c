/* SPDX-License-Identifier: Apache-2.0 */
/* Which READs are merged into one request, and that each still gets its own bytes. */

#include "support/test.h"
#include "fabric/merge.h"
#if HAVE_FABRIC_TCP
#include "../../src/fabric/tcp.c"
#endif

#define GAP  FABRIC_MERGE_GAP_MAX
#define AREA 4096u

static uint8_t sink[GAP];
static uint8_t landing[1u << 20];
static struct fabric_remote region = {.addr = 0x10000, .length = 1u << 20, .rkey = 7};
static const struct fabric_merge_limits wide = {
	.areas = FABRIC_MERGE_AREAS_MAX, .bytes = UINT32_MAX, .sink = sink};

static struct fabric_read from(struct fabric_remote *r, uint64_t offset, uint32_t length,
			       uint32_t landing_at)
{
	return (struct fabric_read){
		.remote = r, .offset = offset, .length = length, .to = landing + landing_at};
}

static struct fabric_merged merged(const struct fabric_merge_limits *l,
				   const struct fabric_read *reads, uint32_t count)
{
	struct fabric_merged m;

	memset(&m, 0xee, sizeof(m));
	fabric_merge(&m, l, reads, count);
	return m;
}

static void assert_area(const struct fabric_merged *m, uint32_t i, const void *to, size_t bytes)
{
	assert_true(i < m->areas);
	assert_ptr_equal(m->area[i].iov_base, to);
	assert_int_equal(m->area[i].iov_len, bytes);
}

static void a_single_read_is_a_request_whatever_its_length(void **state)
{
	const struct fabric_merge_limits narrow = {.areas = 1, .bytes = 64, .sink = sink};
	struct fabric_read r = from(&region, 100, FABRIC_MERGE_BYTES_MAX + 1, 8);
	struct fabric_merged m = merged(&narrow, &r, 1);

	(void)state;
	assert_int_equal(m.addr, region.addr + 100);
	assert_int_equal(m.rkey, 7);
	assert_int_equal(m.reads, 1);
	assert_int_equal(m.areas, 1);
	assert_int_equal(m.bytes, r.length);
	assert_area(&m, 0, landing + 8, r.length);
}

static void what_follows_here_and_there_is_one_area(void **state)
{
	struct fabric_read r[] = {from(&region, 0, 64, 0), from(&region, 64, 36, 64),
				  from(&region, 100, 28, 100)};
	struct fabric_merged m = merged(&wide, r, 3);

	(void)state;
	assert_int_equal(m.reads, 3);
	assert_int_equal(m.areas, 1);
	assert_int_equal(m.bytes, 128);
	assert_area(&m, 0, landing, 128);
}

static void what_lands_elsewhere_is_an_area_of_its_own(void **state)
{
	struct fabric_read r[] = {from(&region, 0, 64, AREA), from(&region, 64, 64, 0)};
	struct fabric_merged m = merged(&wide, r, 2);

	(void)state;
	assert_int_equal(m.reads, 2);
	assert_int_equal(m.bytes, 128);
	assert_area(&m, 0, landing + AREA, 64);
	assert_area(&m, 1, landing, 64);
}

static void a_gap_lands_in_the_sink_up_to_its_bound(void **state)
{
	struct fabric_read r[] = {from(&region, 0, 64, 0), from(&region, 64 + GAP, 64, 64)};
	struct fabric_merged m = merged(&wide, r, 2);

	(void)state;
	assert_int_equal(m.reads, 2);
	assert_int_equal(m.bytes, 128 + GAP);
	assert_area(&m, 0, landing, 64);
	assert_area(&m, 1, sink, GAP);
	assert_area(&m, 2, landing + 64, 64);
	r[1].offset++;
	assert_int_equal(merged(&wide, r, 2).reads, 1);
}

static void memory_that_does_not_follow_is_not_merged(void **state)
{
	struct fabric_remote key = region, next = region, apart = region;
	struct fabric_remote all = {.addr = 1, .length = UINT64_MAX - 1, .rkey = 7};
	struct fabric_read r[2];

	(void)state;
	key.rkey = 8;
	next.addr += 64;
	apart.addr += 65;
	r[0] = from(&region, 64, 64, 0);
	r[1] = from(&key, 128, 64, 64);
	assert_int_equal(merged(&wide, r, 2).reads, 1);
	r[1] = from(&region, 0, 64, 64); /* before it */
	assert_int_equal(merged(&wide, r, 2).reads, 1);
	r[1] = from(&region, 127, 64, 64); /* over its end */
	assert_int_equal(merged(&wide, r, 2).reads, 1);
	r[0] = from(&all, UINT64_MAX - 65, 64, 0); /* addresses end and do not wrap */
	r[1] = from(&all, 0, 64, 64);
	assert_int_equal(merged(&wide, r, 2).reads, 1);

	/* Two regions with one key: they may be adjacent, but nothing between them may be read. */
	r[0] = from(&region, 64, 64, 0);
	r[1] = from(&next, 64, 64, 64);
	assert_int_equal(merged(&wide, r, 2).reads, 2);
	r[1] = from(&apart, 64, 64, 64);
	assert_int_equal(merged(&wide, r, 2).reads, 1);
}

static void a_request_keeps_the_limits(void **state)
{
	struct fabric_merge_limits l = wide;
	struct fabric_read r[FABRIC_MERGE_AREAS_MAX + 1];

	(void)state;
	for (uint32_t i = 0; i <= FABRIC_MERGE_AREAS_MAX; i++)
		r[i] = from(&region, (uint64_t)i * 64, 64, i * 128);
	for (l.areas = 1; l.areas <= FABRIC_MERGE_AREAS_MAX; l.areas++) {
		struct fabric_merged m = merged(&l, r, FABRIC_MERGE_AREAS_MAX + 1);

		assert_int_equal(m.reads, l.areas);
		assert_int_equal(m.areas, l.areas);
	}
	r[1].offset += 64; /* a gap and the data after it need two areas */
	l.areas = 2;
	assert_int_equal(merged(&l, r, 2).reads, 1);
	l.areas = 3;
	assert_int_equal(merged(&l, r, 2).reads, 2);
	l.bytes = 191; /* a gap counts */
	assert_int_equal(merged(&l, r, 2).reads, 1);
	l.bytes = 192;
	assert_int_equal(merged(&l, r, 2).reads, 2);

	r[0] = from(&region, 0, FABRIC_MERGE_BYTES_MAX - 64, 0);
	r[1] = from(&region, FABRIC_MERGE_BYTES_MAX - 64, 64, FABRIC_MERGE_BYTES_MAX - 64);
	r[2] = from(&region, FABRIC_MERGE_BYTES_MAX, 1, FABRIC_MERGE_BYTES_MAX);
	assert_int_equal(merged(&wide, r, 3).reads, 2);
}

/* Executes merged requests as a device does. */
static void execute(const struct fabric_merged *m, const uint8_t *memory)
{
	const uint8_t *at = memory + (m->addr - region.addr);

	for (uint32_t i = 0; i < m->areas; i++) {
		memcpy(m->area[i].iov_base, at, m->area[i].iov_len);
		at += m->area[i].iov_len;
	}
	assert_int_equal(at - memory, m->addr - region.addr + m->bytes);
}

static void each_read_of_any_row_brings_its_own_bytes(void **state)
{
	enum { READS = 64, LONGEST = 3000 };
	static uint8_t memory[1u << 20];
	uint32_t joined = 0;

	(void)state;
	srand(3);
	for (size_t i = 0; i < sizeof(memory); i++)
		memory[i] = (uint8_t)rand();
	for (int round = 0; round < 1000; round++) {
		struct fabric_merge_limits l = {.areas = 1 + (uint32_t)rand() % wide.areas,
						.bytes = 1 + (uint64_t)rand() % 20000,
						.sink = sink};
		struct fabric_read r[READS];
		uint64_t offset = 0;
		uint32_t to = 0, taken = 0;

		for (int i = 0; i < READS; i++) {
			if (rand() % 8 == 0)
				offset = (uint64_t)rand() % (sizeof(memory) / 2);
			r[i] = from(&region, offset, 1 + (uint32_t)rand() % LONGEST, to);
			offset += r[i].length + (rand() % 4 ? 0 : (uint64_t)(rand() % 600));
			to += r[i].length + (rand() % 2 ? 0 : 64);
		}
		memset(landing, 0xee, to);
		while (taken < READS) {
			struct fabric_merged m = merged(&l, r + taken, READS - taken);

			assert_in_range(m.reads, 1, READS - taken);
			assert_in_range(m.areas, 1, l.areas);
			assert_true(m.reads == 1 || m.bytes <= l.bytes);
			joined += m.reads - 1;
			execute(&m, memory);
			taken += m.reads;
		}
		for (int i = 0; i < READS; i++)
			assert_memory_equal(r[i].to, memory + r[i].offset, r[i].length);
	}
	assert_true(joined > 10000);
}

/* ---- READs over TCP: the test plays the host ---- */

#if HAVE_FABRIC_TCP
static uint8_t host_memory[4 * AREA];

/* Connects a reader to *host. Its ranges are numbered from `first`. */
static struct fabric *open_reader(uint32_t depth, uint32_t first, int *host)
{
	struct fabric *f = fabric_open("tcp://127.0.0.1:1",
				       &(struct fabric_opts){.queue_depth = depth});
	struct fabric_tcp *t;
	int pair[2];

	assert_non_null(f);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	for (size_t i = 0; i < sizeof(host_memory); i++)
		host_memory[i] = (uint8_t)(1 + i % 251);
	t = tcp_of(f);
	t->fd = pair[0];
	t->base.head = t->base.tail = first;
	*host = pair[1];
	fabric_went_up(
		f, &(struct fabric_remote){.addr = FABRIC_TCP_BASE, .length = sizeof(host_memory)});
	return f;
}

/* Answers one request. */
static void answer_reader(int host)
{
	struct fabric_tcp_answer a = {.magic = FABRIC_TCP_ANSWER};
	struct fabric_tcp_range range[FABRIC_TCP_RANGES_MAX];
	struct fabric_tcp_ask ask;

	assert_int_equal(recv(host, &ask, sizeof(ask), MSG_WAITALL), sizeof(ask));
	assert_in_range(ask.count, 1, FABRIC_TCP_RANGES_MAX);
	assert_int_equal(recv(host, range, ask.count * sizeof(*range), MSG_WAITALL),
			 ask.count * sizeof(*range));
	a.count = ask.count;
	for (uint32_t i = 0; i < ask.count; i++)
		a.bytes += range[i].bytes;
	assert_int_equal(send(host, &a, sizeof(a), 0), sizeof(a));
	for (uint32_t i = 0; i < ask.count; i++)
		assert_int_equal(send(host, host_memory + (range[i].addr - FABRIC_TCP_BASE),
				      range[i].bytes, 0),
				 range[i].bytes);
}

static void poll_all(struct fabric *f, struct fabric_read **done, int count)
{
	for (int n = 0; n < count;)
		n += fabric_poll(f, done + n, (uint32_t)(count - n), base_now_ns(), 0);
}

static void assert_own_bytes(const struct fabric_read *r)
{
	assert_memory_equal(r->to, host_memory + (r->remote->addr - FABRIC_TCP_BASE) + r->offset,
			    r->length);
}

/* Regions of an agent may be registered again, with other keys, while READs are in flight. */
static void tcp_reads_of_regions_that_moved_fail(void **state)
{
	(void)state;
	for (int moved = 0; moved < 2; moved++) {
		struct fabric_remote a = {.addr = FABRIC_TCP_BASE, .length = AREA, .rkey = 7};
		struct fabric_remote b = a, c = a;
		struct fabric_read *done[3];
		struct fabric_stats stats;
		int host;
		struct fabric *f = open_reader(0, 0, &host);
		uint8_t *to = fabric_buffer(f, NULL);
		struct fabric_read r[] = {
			{.remote = &a, .offset = AREA - 64, .length = 64, .to = to},
			{.remote = &b, .length = 64, .to = to + 64},
			{.remote = &c, .length = 64, .to = to + 128},
		};

		b.addr += AREA;
		c.addr += 3 * AREA;
		assert_int_equal(fabric_post(f, r, 3), 3);
		fabric_stats(f, &stats);
		assert_int_equal(stats.work_requests, 2); /* the first two READs are merged */
		b.rkey += (uint32_t)moved;
		answer_reader(host);
		poll_all(f, done, 3);
		for (int i = 0; i < 3; i++) {
			assert_int_equal(r[i].status, moved ? -ENOTCONN : 0);
			if (!moved)
				assert_own_bytes(&r[i]);
		}
		fabric_close(f);
		close(host);
	}
}

static void ranges_keep_their_places_when_their_numbers_wrap(void **state)
{
	struct fabric_remote all = {
		.addr = FABRIC_TCP_BASE, .length = sizeof(host_memory), .rkey = 7};
	struct fabric_read *done[2];
	int host;
	/* 2^32 is 1 modulo 257. */
	struct fabric *f = open_reader(257, UINT32_MAX, &host);
	uint8_t *to = fabric_buffer(f, NULL);
	struct fabric_read r[] = {
		{.remote = &all, .offset = 3 * AREA, .length = 64, .to = to},
		{.remote = &all, .length = 64, .to = to + 64},
	};

	(void)state;
	assert_int_equal(fabric_post(f, r, 2), 2);
	answer_reader(host);
	poll_all(f, done, 2);
	for (int i = 0; i < 2; i++) {
		assert_ptr_equal(done[i], &r[i]);
		assert_int_equal(r[i].status, 0);
		assert_own_bytes(&r[i]);
	}
	fabric_close(f);
	close(host);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_single_read_is_a_request_whatever_its_length),
		cmocka_unit_test(what_follows_here_and_there_is_one_area),
		cmocka_unit_test(what_lands_elsewhere_is_an_area_of_its_own),
		cmocka_unit_test(a_gap_lands_in_the_sink_up_to_its_bound),
		cmocka_unit_test(memory_that_does_not_follow_is_not_merged),
		cmocka_unit_test(a_request_keeps_the_limits),
		cmocka_unit_test(each_read_of_any_row_brings_its_own_bytes),
#if HAVE_FABRIC_TCP
		cmocka_unit_test(tcp_reads_of_regions_that_moved_fail),
		cmocka_unit_test(ranges_keep_their_places_when_their_numbers_wrap),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
