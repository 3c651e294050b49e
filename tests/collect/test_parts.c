// SPDX-License-Identifier: Apache-2.0
/* test_parts.c - series that other rooms attach to a collector are exposed, bounded and freed. */
#include <errno.h>

#include "fixture.h"
#undef relaxed_load
#include "collect/read/self.h"
#include "collect/tables/internal.h"

static const struct collect_self_family test_families[] = {
	{"sidelight_test", GAUGE, "", "What the test says.", SINGLE({NULL, ATTACHED, 0})},
};

static const struct collect_part test_part = {
	COLLECT_SELF_FAMILIES(test),
};

static void count_free(void *arg)
{
	++*(unsigned int *)arg;
}

/* Not started, so that parts may be attached. */
static struct collect_collector *make_collector(void)
{
	static const char *const one[] = {"one"};
	char error[128];
	struct collect_collector *c = collect_collector_new(
		&(struct collect_collector_opts){.agents = one, .agent_count = 1, .period_ns = MS},
		error, sizeof(error));

	assert_non_null(c);
	return c;
}

static void parts_are_bounded_and_freed_once(void **state)
{
	static const struct collect_part counts = {.free = count_free}, other;
	unsigned int attached = 0, freed = 0;
	struct collect_collector *c;
	int err;

	(void)state;
	mock_host("one", 16);
	c = make_collector();
	assert_null(collect_collector_part(c, &counts));
	while (!(err = collect_collector_attach(c, &counts, &freed)))
		attached++;
	assert_int_equal(err, -ENOSPC);
	assert_true(attached > 0 && attached < COLLECT_PARTS_MAX); /* one is the collector's own */
	assert_ptr_equal(collect_collector_part(c, &counts), &freed);
	assert_null(collect_collector_part(c, &other));
	assert_int_equal(collect_collector_start(c), 0);
	assert_int_equal(collect_collector_attach(c, &other, NULL), -EBUSY);
	assert_int_equal(freed, 0);
	collect_collector_free(c);
	assert_int_equal(freed, attached);
}

static void a_second_reader_is_refused(void **state)
{
	struct collect_collector *c;

	(void)state;
	mock_host("one", 16);
	c = make_collector();
	assert_int_equal(collect_tables_attach(c, &(struct collect_tables_opts){0}), 0);
	assert_int_equal(collect_tables_attach(c, &(struct collect_tables_opts){0}), -EEXIST);
	collect_collector_free(c);
}

static void names_of_an_attached_part_are_reserved(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	uint64_t number = 42;
	struct collect_collector *c;
	struct pod p;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	counter(&p, "a_total", NULL, NULL);
	metric_of(&p, SL_KIND_GAUGE, "sidelight_test");
	put(h, 0, 1, &p, SL_STATE_LIVE);
	for (int attached = 0; attached < 2; attached++) {
		c = make_collector();
		if (attached)
			assert_int_equal(collect_collector_attach(c, &test_part, &number), 0);
		assert_int_equal(collect_collector_start(c), 0);
		WITHIN(3000, mentions(c, "a_total{"));
		assert_int_equal(mentions(c, "sidelight_test{pod"), !attached);
		assert_int_equal(has(c, "sidelight_test 42"), attached);
		collect_collector_free(c);
	}
	make_free(&p.m);
}

static void regions_of_no_reader_are_not_read(void **state)
{
	struct mock_host *h = mock_host("one", 16);
	static const uint64_t memory[4096];
	struct collect_collector *c;
	struct pod p;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	counter(&p, "a_total", NULL, NULL);
	mock_put_flows(h, 0, 1, memory, sizeof(memory), SL_STATE_LIVE, 9);
	/* Kinds unknown to the collector, also beyond the bits of collect_reader.kinds. */
	mock_put_kind(h, 1, 2, memory, sizeof(memory), SL_STATE_LIVE, 10, 31);
	mock_put_kind(h, 2, 3, memory, sizeof(memory), SL_STATE_LIVE, 11, 32 + SL_REGION_FLOWS);
	put(h, 3, 4, &p, SL_STATE_LIVE);
	for (int tables = 0; tables < 2; tables++) {
		c = start_tables(&(struct collect_collector_opts){.period_ns = MS},
				 tables ? &(struct collect_tables_opts){.period_ns = MS} : NULL);
		WITHIN(3000, mentions(c, "a_total{"));
		WITHIN(3000, (reads_of(h, 1) > 0) == tables);
		assert_int_equal(reads_of(h, 2), 0);
		assert_int_equal(reads_of(h, 3), 0);
		collect_collector_free(c);
	}
	make_free(&p.m);
}

const struct CMUnitTest parts_tests[] = {
	TEST(parts_are_bounded_and_freed_once),
	TEST(a_second_reader_is_refused),
	TEST(names_of_an_attached_part_are_reserved),
	TEST(regions_of_no_reader_are_not_read),
	{0},
};
