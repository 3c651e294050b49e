// SPDX-License-Identifier: Apache-2.0
/*
 * test_span_kill.c - writers die anywhere: by SIGKILL at random moments, and, with ptrace, at every
 * instruction of writing a span. All spans except the unfinished one can be read.
 */

#include "support/test.h"
#include "../lib/victim.h"
#include "rings.h"

struct progress {
	int fd;
	uint64_t begun; /* spans */
};

static struct progress *progress;

static void write_until_killed(void)
{
	struct sl_publisher *p =
		sl_publisher_open(&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED,
					   .max_threads = 2, .span_bytes = 32u << 10));
	struct made m = made_names(p);

	make_span(&m, 0);
	progress->begun = 1;
	victim_ready(&progress->fd, sl_publisher_fd(p));
	for (uint64_t x = 1;; x++) {
		progress->begun = x + 1;
		make_span(&m, x);
	}
}

static void check(const struct region_span_data *d, uint64_t number, uint32_t lines, void *arg)
{
	uint64_t *last = arg, x = (uint64_t)d->attrs[0].i64;

	(void)number, (void)lines;
	assert_true(span_is_made(d));
	assert_true(!*last || x == *last + 1);
	*last = x;
}

static void check_dead(int fd)
{
	struct ring_tally t;
	struct region_span_head head;
	struct reader r;
	uint64_t last = 0, entries[SL_SPAN_ENTRIES];
	uint32_t count, bad = 0;

	assert_int_equal(reader_open(&r, fd), REGION_FAULT_NONE);
	assert_true(region_repair(r.map, &r.info) <= 1);
	t = ring_read(&r, 1, copy_in_order, check, &last);
	assert_true(t.head_settled && !t.lies && !t.early);
	/*
	 * The head is from before the last span, whose lines may have overwritten the oldest ones.
	 */
	assert_true(t.unsettled + t.late <= SL_SPAN_LINES_MAX);
	assert_true(t.head.spans == progress->begun || t.head.spans + 1 == progress->begun);
	/* Its cells are stored one after the other: first the lines, then the count of spans. */
	assert_true(last + 1 == t.head.spans || last == t.head.spans);
	head = t.head;
	for (uint64_t i = head.index > 64 ? head.index - 64 : 0; i < head.index; i++)
		bad += region_span_index_parse(
			       (uint64_t *)(r.map + region_span_index_at(&r.info, 1, i)), i,
			       entries, &count) != REGION_SPAN_LINE_GOOD;
	assert_true(bad <= 1);
	reader_close(&r);
}

static void reset(void)
{
	*progress = (struct progress){0};
}

static void a_writer_killed_at_any_time_leaves_its_spans(void **state)
{
	(void)state;
	victims_killed(&progress->fd, (int)(1000 * (TEST_SANITIZED ? 0.1 : 1) * test_scale()),
		       reset, write_until_killed, check_dead);
}

/* ---- every instruction ---- */

/* number of spans: the ring of 512 lines has wrapped, and an index line has one entry */
#define BEFORE	301u
#define STEPPED 8u /* number of spans, one in six of which begins an index line */

static void write_under_trace(int kind)
{
	struct sl_publisher *p =
		sl_publisher_open(&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED,
					   .max_threads = 2, .span_bytes = 32u << 10));
	struct made m = made_names(p);
	struct sl_span root, child;
	uint64_t x = 0;

	for (; x < BEFORE; x++)
		make_span(&m, x);
	progress->fd = sl_publisher_fd(p);
	victim_traced();
	if (kind) {
		/* Spans of one trace: their entry in the index grows. */
		sl_span_start(&root, m.name, SL_SPAN_SERVER, NULL);
		for (unsigned int i = 1; i < STEPPED; i++) {
			sl_span_start(&child, m.name, SL_SPAN_INTERNAL, &root.context);
			sl_span_end(&child);
		}
		sl_span_end(&root);
	} else {
		for (; x < BEFORE + STEPPED; x++)
			make_span(&m, x);
	}
	victim_over();
}

static struct {
	struct reader live;
	uint8_t *copy;
	uint64_t spans, index, torn;
} seen;

static void begin(int fd)
{
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(reader_open(&seen.live, fd), REGION_FAULT_NONE);
	seen.spans = BEFORE;
	seen.copy = malloc(seen.live.size);
	assert_non_null(seen.copy);
}

/* Counts index lines that do not verify. An agent's repair would only correct the last one. */
static uint32_t bad_index_lines(const struct reader *r, const struct region_span_head *head)
{
	uint64_t entries[SL_SPAN_ENTRIES];
	uint32_t count, bad = 0;

	for (uint64_t i = head->index > 60 ? head->index - 60 : 0; i < head->index; i++)
		bad += region_span_index_parse(
			       (uint64_t *)(r->map + region_span_index_at(&r->info, 1, i)), i,
			       entries, &count) != REGION_SPAN_LINE_GOOD;
	return bad;
}

static void is_made(const struct region_span_data *d, uint64_t number, uint32_t lines, void *arg)
{
	(void)number, (void)lines;
	/* Those of write_under_trace(1) have no attributes. */
	assert_true(span_is_made(d) || !d->attr_count);
	++*(uint64_t *)arg;
}

/*
 * Every span that a reader accepts is complete; only one is unfinished, with the spans that it
 * overwrites.
 */
static void look(uint64_t step)
{
	struct reader dead = {.map = seen.copy, .size = seen.live.size, .info = seen.live.info};
	struct region_span_head head;
	struct ring_tally t;
	uint64_t good = 0;

	(void)step;
	t = ring_read(&seen.live, 1, copy_in_order, is_made, &good);
	seen.torn += !t.head_settled || t.unsettled;
	assert_true(!t.lies && !t.early && t.unsettled + t.late <= SL_SPAN_LINES_MAX);
	if (t.head_settled) {
		assert_true(t.head.spans == seen.spans || t.head.spans == seen.spans + 1);
		assert_true(t.head.index >= seen.index &&
			    bad_index_lines(&seen.live, &t.head) <= 1);
		assert_true(good > 100);
		seen.spans = t.head.spans;
		seen.index = t.head.index;
		return;
	}

	/* Pretend that it died here: the head is repaired. */
	memcpy(dead.map, seen.live.map, seen.live.size);
	assert_int_equal(region_repair(dead.map, &dead.info), 1);
	good = 0;
	t = ring_read(&dead, 1, copy_in_order, is_made, &good);
	head = t.head;
	assert_true(t.head_settled && !t.lies && !t.early && good > 100);
	assert_true(t.unsettled + t.late <= SL_SPAN_LINES_MAX);
	assert_true(head.spans == seen.spans || head.spans == seen.spans + 1);
	assert_true(bad_index_lines(&dead, &head) <= 1);
}

static void a_span_is_written_safely_at_every_instruction(void **state)
{
	struct region_span_head head;
	uint64_t steps;

	(void)state;
	if (TEST_SANITIZED) {
		print_message("SKIP: a sanitizer's instructions are not the library's\n");
		skip();
	}
	for (int kind = 0; kind < 2; kind++) {
		steps = victim_stepped(&progress->fd, write_under_trace, kind, begin, look);
		print_message("%llu instructions, after %llu of them something did not hold\n",
			      (unsigned long long)steps, (unsigned long long)seen.torn);
		assert_true(seen.torn > 10 && seen.spans == BEFORE + STEPPED);
		/* Nothing remains unfinished. */
		assert_true(ring_head(&seen.live, 1, copy_in_order, &head));
		assert_int_equal(bad_index_lines(&seen.live, &head), 0);
		free(seen.copy);
		reader_close(&seen.live);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_span_is_written_safely_at_every_instruction),
		cmocka_unit_test(a_writer_killed_at_any_time_leaves_its_spans),
	};

	progress = victim_memory();
	if (!progress)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
