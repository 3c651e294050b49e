/* SPDX-License-Identifier: Apache-2.0 */
/* Which READs are merged into one request, and that each still gets its own bytes. */

#include "support/test.h"
#include "fabric/merge.h"

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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
