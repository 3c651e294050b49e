// SPDX-License-Identifier: Apache-2.0
/*
 * test_kill.c - writers die anywhere: by SIGKILL at 4,000 random moments, and, with ptrace, at
 * every instruction of the registration of a metric. Each region left behind can be decoded; after
 * the agent's repair every line verifies, and the last value is exact to one update.
 */
#include <sidelight/sidelight.h>

#include "support/test.h"
#include "victim.h"

/* Progress of a writer, in memory that it shares with the test. */
struct progress {
	int fd; /* in the writer */
	uint64_t metrics, updates, sums;
};

static struct progress *progress;

static void write_until_killed(void)
{
	struct sl_publisher *p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .max_threads = 2,
							    .max_cells = 400,
							    .flags = SL_PUBLISHER_DETACHED));
	struct sl_counter c = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "c"));
	struct sl_counter_f64 f = sl_counter_f64_create(p, &SL_OPTS(sl_metric_opts, .name = "f"));
	struct sl_gauge g = sl_gauge_create(p, &SL_OPTS(sl_metric_opts, .name = "g"));
	char name[32];

	progress->metrics = 3;
	victim_ready(&progress->fd, sl_publisher_fd(p));
	for (uint64_t i = 0;; i++) {
		progress->updates = i + 1; /* begun */
		sl_counter_inc(c);
		sl_gauge_set(g, (int64_t)i + 1);
		progress->sums = i + 1;
		sl_counter_f64_add(f, 0.5);
		if (i % 64 == 0 && i < 64 * 300) {
			snprintf(name, sizeof(name), "m%u", (unsigned int)(i / 64));
			sl_counter_inc(sl_counter_create(
				p, &SL_OPTS(sl_metric_opts, .name = name,
					    .help = "A help text of some length.")));
			progress->metrics++;
		}
	}
}

/* Checks the region of a dead writer: it is readable, and exact after its repair. */
static void check_dead(int fd)
{
	const struct region_metric *m;
	struct reader r;
	uint64_t v;
	double f;

	assert_int_equal(reader_open(&r, fd), REGION_FAULT_NONE);
	switch (reader_round(&r)) {
	case REGION_FAULT_NONE:
		assert_true(r.unsettled <= 2); /* at most one line per stripe */
		break;
	case REGION_FAULT_UNSETTLED:
		break; /* died in the middle of the hot line */
	default:
		fail_msg("not readable before repair");
	}
	reader_close(&r);
	assert_int_equal(reader_open(&r, fd), REGION_FAULT_NONE);
	assert_true(region_repair(r.map, &r.info) <= 3);
	assert_int_equal(reader_round(&r), REGION_FAULT_NONE);
	assert_int_equal(r.unsettled, 0);
	v = reader_u64(&r, "c");
	assert_true(v == progress->updates || v + 1 == progress->updates);
	m = reader_find(&r, "g", NULL);
	v = region_values_shared(&r.values, m->cell);
	assert_true(v == progress->updates || v + 1 == progress->updates);
	f = reader_f64(&r, "f") * 2;
	assert_true(f == (double)progress->sums || f + 1 == (double)progress->sums);
	assert_true(r.schema.count == progress->metrics || r.schema.count == progress->metrics + 1);
	reader_close(&r);
}

static void reset(void)
{
	*progress = (struct progress){0};
}

static void a_killed_writer_leaves_a_readable_region(void **state)
{
	(void)state;
	victims_killed(&progress->fd, (int)(4000 * (TEST_SANITIZED ? 0.02 : 1) * test_scale()),
		       reset, write_until_killed, check_dead);
}

/* ---- every instruction ---- */

static void register_under_trace(int kind)
{
	struct sl_publisher *p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .max_threads = 2,
							    .max_cells = 2000,
							    .flags = SL_PUBLISHER_DETACHED));
	struct sl_counter c = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "c"));
	char name[16];

	/* 446 of 448 cells of the first page: a histogram needs another page in every stripe. */
	for (int i = 0; i < 445; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = name));
	}
	sl_counter_add(c, 5);
	progress->fd = sl_publisher_fd(p);
	victim_traced();
	if (kind == 0)
		sl_counter_inc(sl_counter_create(
			p, &SL_OPTS(sl_metric_opts, .name = "new_total", .help = "Help.",
				    .labels = &(struct sl_label){"k", "v"}, .label_count = 1)));
	else
		sl_histogram_observe(
			sl_histogram_create(p, &SL_OPTS(sl_metric_opts, .name = "new_total",
							.min = 1, .max = 8)),
			2.5);
	victim_over();
}

/* The states seen during a registration, step by step. */
static struct {
	struct reader live;
	/* the lines in use, which an agent would repair if the writer had died here */
	uint8_t *copy;
	uint64_t unsettled, before, after, generation;
} seen;

static void begin(int fd)
{
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(reader_open(&seen.live, fd), REGION_FAULT_NONE);
	assert_int_equal(reader_round(&seen.live), REGION_FAULT_NONE);
	assert_int_equal(seen.live.schema.count, 446);
	seen.copy = mmap(NULL, seen.live.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	assert_ptr_not_equal(seen.copy, MAP_FAILED);
}

static void if_it_had_died_here(const struct reader *live)
{
	struct reader dead = {.map = seen.copy, .size = live->size, .info = live->info};
	struct region_hot hot;
	uint64_t line[8];

	memcpy(dead.map, live->map, live->info.stripes + 8192);
	memcpy(dead.map + live->info.stripes + live->info.stripe_stride,
	       live->map + live->info.stripes + live->info.stripe_stride, 8192);
	memcpy(dead.map + live->info.schema, live->map + live->info.schema,
	       live->hot.schema_used + 1024);
	region_schema_init(&dead.schema);
	region_values_init(&dead.values);
	region_repair(dead.map, &dead.info);
	memcpy(line, dead.map + dead.info.hot, 64);
	assert_int_equal(region_hot_parse(line, &dead.info, &hot), REGION_FAULT_NONE);
	assert_int_equal(reader_round(&dead), REGION_FAULT_NONE);
	assert_int_equal(dead.unsettled, 0);
	assert_true(dead.schema.count == 446 || dead.schema.count == 447);
	assert_int_equal(reader_u64(&dead, "c"), 5);
	region_schema_free(&dead.schema);
	region_values_free(&dead.values);
}

/* A live reader sees the old layout, the new one, or a line to read again. */
static void look(uint64_t step)
{
	struct reader *live = &seen.live;
	enum region_fault fault;
	struct region_hot hot;
	uint64_t line[8];

	memcpy(line, live->map + live->info.hot, 64);
	fault = region_hot_parse(line, &live->info, &hot);
	if (fault == REGION_FAULT_UNSETTLED) {
		seen.unsettled++;
	} else {
		assert_int_equal(fault, REGION_FAULT_NONE);
		assert_true(hot.generation >= seen.generation);
		seen.generation = hot.generation;
	}
	assert_true(reader_round(live) == REGION_FAULT_NONE || fault == REGION_FAULT_UNSETTLED);
	assert_true(live->schema.count == 446 || live->schema.count == 447);
	assert_int_equal(reader_u64(live, "c"), 5);
	if (live->schema.count == 446)
		seen.before++;
	else
		seen.after++;
	if (fault == REGION_FAULT_UNSETTLED || live->unsettled || step % 64 == 0)
		if_it_had_died_here(live);
}

static void step_through(int kind)
{
	uint64_t steps = victim_stepped(&progress->fd, register_under_trace, kind, begin, look);

	print_message("%llu instructions, %llu of them with the hot line in between\n",
		      (unsigned long long)steps, (unsigned long long)seen.unsettled);
	assert_true(seen.before > 100 && seen.after > 10 && seen.unsettled > 0);
	assert_int_equal(reader_round(&seen.live), REGION_FAULT_NONE);
	assert_int_equal(seen.live.unsettled, 0);
	munmap(seen.copy, seen.live.size);
	reader_close(&seen.live);
}

static void a_metric_is_registered_safely_at_every_instruction(void **state)
{
	(void)state;
	if (TEST_SANITIZED) {
		print_message("SKIP: a sanitizer's instructions are not the library's\n");
		skip();
	}
	step_through(0);
	step_through(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_metric_is_registered_safely_at_every_instruction),
		cmocka_unit_test(a_killed_writer_leaves_a_readable_region),
	};

	progress = victim_memory();
	if (!progress)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
