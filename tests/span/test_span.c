// SPDX-License-Identifier: Apache-2.0
/* test_span.c - published spans, as decoded by src/region. */
#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/test.h"
#include "support/clock.h"
#include "rings.h"

#define OPEN(...)                                                                     \
	sl_publisher_open(&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED, \
				   .span_bytes = 32u << 10, .max_threads = 2, __VA_ARGS__))

/* The spans of all rings, in the order of memory. */
struct seen {
	struct reader r;
	struct region_span_data spans[1200];
	uint64_t number[1200];
	uint32_t lines[1200], ring[1200], count, now;
	struct ring_tally ring_tally[4];
};

static void see_span(const struct region_span_data *d, uint64_t number, uint32_t lines, void *arg)
{
	struct seen *s = arg;
	struct region_span_data *to = &s->spans[s->count];

	assert_true(s->count < 1200);
	*to = *d;
	for (uint32_t i = 0; i < d->attr_count; i++)
		if (d->attrs[i].type == SL_SPAN_TYPE_STRING)
			to->attrs[i].string = to->text + (d->attrs[i].string - d->text);
	if (*d->message)
		to->message = to->text + (d->message - d->text);
	s->number[s->count] = number;
	s->lines[s->count] = lines;
	s->ring[s->count++] = s->now;
}

static struct seen *see(int fd)
{
	static struct seen s;

	memset(&s, 0, sizeof(s));
	assert_int_equal(reader_open(&s.r, fd), REGION_FAULT_NONE);
	assert_int_equal(reader_round(&s.r), REGION_FAULT_NONE);
	for (s.now = 0; s.r.info.spans && s.now < s.r.hot.stripes_used; s.now++) {
		s.ring_tally[s.now] = ring_read(&s.r, s.now, copy_in_order, see_span, &s);
		assert_true(s.ring_tally[s.now].head_settled);
		assert_int_equal(s.ring_tally[s.now].unsettled, 0);
		assert_int_equal(s.ring_tally[s.now].lies, 0);
		assert_int_equal(s.ring_tally[s.now].early, 0);
	}
	return &s;
}

static const struct region_span_attr *attr(const struct seen *s, uint32_t span, const char *key)
{
	for (uint32_t i = 0; i < s->spans[span].attr_count; i++)
		if (!strcmp(region_schema_string(&s->r.schema, s->spans[span].attrs[i].key), key))
			return &s->spans[span].attrs[i];
	return NULL;
}

/* ---- trace context ---- */

static void traceparent_follows_its_specification(void **state)
{
	static const char good[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
	static const struct {
		const char *text;
		bool valid;
	} cases[] = {
		{good, true},
		{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", true},
		{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff", true},
		{"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", true},
		{"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what", true},
		{"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.what", false},
		{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what", false},
		{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-", false},
		{"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false},
		{"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false},
		{"00-00000000000000000000000000000000-b7ad6b7169203331-01", false},
		{"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false},
		{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0", false},
		{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g", false},
		{"00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false},
		{"00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01", false},
		{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01", false},
		{"0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false},
		{"", false},
	};
	struct sl_trace_context c;
	char text[SL_TRACEPARENT_LENGTH + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		/* In memory that ends with the text. */
		size_t length = strlen(cases[i].text);
		char *copy = malloc(length + !length);
		int error;

		memcpy(copy, cases[i].text, length);
		error = sl_traceparent_parse(copy, length, &c);
		free(copy);
		if (error != (cases[i].valid ? 0 : -EINVAL))
			fail_msg("%s", cases[i].text);
		assert_int_equal(sl_trace_context_valid(&c), cases[i].valid);
	}
	assert_int_equal(sl_traceparent_parse(NULL, 0, &c), -EINVAL);
	assert_int_equal(sl_traceparent_parse(good, SL_TRACEPARENT_LENGTH, &c), 0);
	assert_true(c.trace_hi == 0x0af7651916cd43ddull && c.trace_lo == 0x8448eb211c80319cull);
	assert_true(c.span_id == 0xb7ad6b7169203331ull && c.flags == 1 && c.remote);
	assert_int_equal(sl_traceparent_format(&c, text), SL_TRACEPARENT_LENGTH);
	assert_string_equal(text, good);
	c.flags = 0xff; /* flags of a later version are not forwarded */
	sl_traceparent_format(&c, text);
	assert_string_equal(text, good);
	c.span_id = 0;
	assert_int_equal(sl_traceparent_format(&c, text), 0);
	assert_string_equal(text, "");
	assert_int_equal(sl_traceparent_format(NULL, text), 0);
}

/* ---- a span ---- */

static void a_span_reads_as_written(void **state)
{
	struct sl_publisher *p = OPEN(.service = "shop");
	struct sl_span_name get = sl_span_name_create(p, "GET /\xc3\xa4");
	struct sl_span_name call = sl_span_name_create(p, "call");
	struct sl_span_key key[6];
	struct sl_trace_context remote;
	struct sl_span server, client;
	struct seen *s;

	(void)state;
	assert_true(sl_span_name_valid(get) && get.bits != call.bits);
	assert_true(get.bits == sl_span_name_create(p, "GET /\xc3\xa4").bits);
	for (int i = 0; i < 6; i++)
		key[i] = sl_span_key_create(
			p, (const char *[]){"int", "real", "yes", "text", "empty", "int"}[i]);
	assert_true(key[5].bits == key[0].bits);
	/* A metric of the same name is independent. */
	sl_counter_inc(sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "call")));
	sl_traceparent_parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 55,
			     &remote);
	sl_span_start(&server, get, SL_SPAN_SERVER, &remote);
	sl_span_start(&client, call, SL_SPAN_CLIENT, &server.context);
	sl_span_set_start(&client, 1000000007);
	sl_span_set_end(&client, 3000000000);
	sl_span_set_status(&client, SL_SPAN_ERROR, "no answer");
	sl_span_end(&client);
	sl_span_set_i64(&server, key[0], -5);
	sl_span_set_f64(&server, key[1], -0.1);
	sl_span_set_bool(&server, key[2], true);
	sl_span_set_string(&server, key[3], "twelve bytes");
	sl_span_set_string(&server, key[4], "");
	sl_span_set_string(&server, key[4], NULL);
	sl_span_set_i64(&server, key[0], INT64_MIN); /* the later one counts */
	sl_span_end(&server);
	sl_span_end(&server); /* once */

	s = see(sl_publisher_fd(p));
	assert_int_equal(s->count, 2);
	assert_string_equal(region_schema_string(&s->r.schema, s->spans[0].name), "call");
	assert_string_equal(region_schema_string(&s->r.schema, s->spans[1].name), "GET /\xc3\xa4");
	assert_int_equal(s->r.schema.count, 1);
	assert_true(s->spans[0].trace_hi == remote.trace_hi &&
		    s->spans[0].trace_lo == remote.trace_lo);
	assert_true(s->spans[1].trace_hi == remote.trace_hi &&
		    s->spans[1].trace_lo == remote.trace_lo);
	assert_true(s->spans[1].parent_id == remote.span_id && s->spans[1].remote);
	assert_true(s->spans[0].parent_id == s->spans[1].span_id && !s->spans[0].remote);
	assert_true(s->spans[0].span_id && s->spans[0].span_id != s->spans[1].span_id);
	assert_true(s->spans[0].start_ns == 1000000007 && s->spans[0].duration_ns == 1999999993);
	assert_int_equal(s->spans[0].kind, SL_SPAN_CLIENT);
	assert_int_equal(s->spans[1].kind, SL_SPAN_SERVER);
	assert_int_equal(s->spans[0].status, SL_SPAN_ERROR);
	assert_string_equal(s->spans[0].message, "no answer");
	assert_int_equal(s->spans[0].attr_count, 0);
	assert_int_equal(s->spans[1].status, SL_SPAN_UNSET);
	assert_int_equal(s->spans[1].flags, SL_TRACE_SAMPLED);
	assert_int_equal(s->spans[1].attr_count, 5);
	assert_true(attr(s, 1, "int")->i64 == INT64_MIN);
	assert_true(attr(s, 1, "real")->f64 == -0.1);
	assert_true(attr(s, 1, "yes")->type == SL_SPAN_TYPE_BOOL && attr(s, 1, "yes")->boolean);
	assert_string_equal(attr(s, 1, "text")->string, "twelve bytes");
	assert_string_equal(attr(s, 1, "empty")->string, "");
	/* A reader that does not know spans sees one metric. */
	assert_int_equal(reader_u64(&s->r, "call"), 1);
	reader_close(&s->r);
	sl_publisher_close(p);
}

static void what_does_not_fit_is_cut_or_dropped_and_counted(void **state)
{
	struct sl_publisher *p = OPEN(.service = "shop");
	struct sl_span_name name = sl_span_name_create(p, "n");
	struct sl_span_key key[30];
	char text[256], id[8];
	struct sl_span span;
	struct seen *s;

	(void)state;
	for (int i = 0; i < 30; i++) {
		snprintf(id, sizeof(id), "k%d", i);
		key[i] = sl_span_key_create(p, id);
	}
	sl_span_start(&span, name, SL_SPAN_INTERNAL, NULL);
	for (int i = 0; i < 30; i++)
		sl_span_set_i64(&span, key[i], i);
	sl_span_end(&span);
	/* 127 bytes, then a character of three: the whole character is cut off. */
	memset(text, 'x', sizeof(text));
	memcpy(text + 127, "\xe2\x82\xac", 3);
	text[255] = 0;
	sl_span_start(&span, name, SL_SPAN_INTERNAL, NULL);
	sl_span_set_string(&span, key[0], text);
	sl_span_set_text(&span, key[1], text, 128); /* the caller cuts a character in half */
	sl_span_end(&span);

	s = see(sl_publisher_fd(p));
	assert_int_equal(s->count, 2);
	assert_int_equal(s->spans[0].attr_count, 20); /* 41 words */
	assert_int_equal(s->lines[0], SL_SPAN_LINES_MAX);
	assert_int_equal(attr(s, 0, "k19")->i64, 19);
	assert_int_equal(s->ring_tally[1].head.dropped, 10);
	assert_int_equal(s->ring_tally[1].head.cut, 1);
	assert_int_equal(strlen(attr(s, 1, "k0")->string), 127);
	assert_true(attr(s, 1, "k0")->cut && !attr(s, 1, "k1")->cut);
	assert_int_equal(attr(s, 1, "k1")->string[127], '?');
	reader_close(&s->r);
	sl_publisher_close(p);
}

static void what_may_do_nothing_does_nothing(void **state)
{
	struct sl_publisher *p = OPEN(.service = "a"), *q = OPEN(.service = "b");
	struct sl_publisher *none =
		sl_publisher_open(&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED));
	struct sl_span_name name = sl_span_name_create(p, "n"), refused;
	struct sl_span_key key = sl_span_key_create(q, "k"), no_key = {0};
	struct sl_publisher_stats stats = SL_OPTS(sl_publisher_stats);
	struct sl_trace_context remote;
	struct sl_span span = {0};
	char text[SL_TRACEPARENT_LENGTH + 1], name256[300];
	struct seen *s;

	(void)state;
	sl_span_end(&span);
	/* Refused: no room for spans, no publisher, invalid text. Counted if there is a counter. */
	assert_false(sl_span_name_valid(sl_span_name_create(none, "n")));
	assert_false(sl_span_key_valid(sl_span_key_create(NULL, "n")));
	memset(name256, 'n', 256);
	name256[256] = 0;
	assert_false(sl_span_name_valid(sl_span_name_create(p, name256)));
	name256[255] = 0;
	assert_true(sl_span_name_valid(sl_span_name_create(p, name256)));
	assert_false(sl_span_name_valid(sl_span_name_create(p, "")));
	assert_false(sl_span_name_valid(sl_span_name_create(p, NULL)));
	refused = sl_span_name_create(p, "\xff");
	assert_false(sl_span_name_valid(refused));
	sl_publisher_stats(none, &stats);
	assert_int_equal(stats.refused, 1);
	sl_publisher_stats(p, &stats);
	assert_int_equal(stats.refused, 4);
	assert_int_equal(stats.metrics, 0);
	/* A refused span passes the caller's context on. */
	sl_traceparent_parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 55,
			     &remote);
	sl_span_start(&span, refused, SL_SPAN_SERVER, &remote);
	sl_span_set_i64(&span, key, 1);
	sl_span_set_status(&span, SL_SPAN_ERROR, "x");
	sl_traceparent_format(&span.context, text);
	assert_string_equal(text, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
	sl_span_end(&span);
	sl_span_start(&span, refused, SL_SPAN_SERVER, NULL);
	assert_false(sl_trace_context_valid(&span.context));
	sl_span_end(&span);
	/* A key of another publisher, and none. */
	sl_span_start(&span, name, SL_SPAN_SERVER, NULL);
	sl_span_set_i64(&span, key, 1);
	sl_span_set_i64(&span, no_key, 1);
	sl_span_end(&span);
	s = see(sl_publisher_fd(p));
	assert_int_equal(s->count, 1);
	assert_int_equal(s->spans[0].attr_count, 0);
	reader_close(&s->r);
	s = see(sl_publisher_fd(q));
	assert_int_equal(s->count, 0);
	reader_close(&s->r);
	s = see(sl_publisher_fd(none));
	assert_true(!s->r.info.spans);
	reader_close(&s->r);
	/* Open while its publisher closes: it is written to no ring. */
	sl_span_start(&span, name, SL_SPAN_SERVER, NULL);
	sl_publisher_close(p);
	p = OPEN(.service = "a");
	sl_span_end(&span);
	s = see(sl_publisher_fd(p));
	assert_int_equal(s->count, 0);
	reader_close(&s->r);
	sl_publisher_close(none);
	sl_publisher_close(q);
	sl_publisher_close(p);
}

/* ---- roots and index ---- */

static void roots_are_found_in_their_journal(void **state)
{
	(void)state;
	for (int edge = 0; edge < 2; edge++) {
		struct sl_publisher *p = sl_publisher_open(
			&SL_OPTS(sl_publisher_opts,
				 .flags = SL_PUBLISHER_DETACHED | (edge ? SL_PUBLISHER_EDGE : 0),
				 .span_bytes = SL_SPAN_BYTES));
		struct sl_span_name name = sl_span_name_create(p, "root");
		struct sl_trace_context remote = {
			.trace_hi = 1, .trace_lo = 2, .span_id = 3, .remote = 1};
		struct sl_span root, local, served;
		struct region_span_root found[2];
		struct seen *s;

		sl_span_start(&root, name, SL_SPAN_SERVER, NULL);
		sl_span_start(&local, name, SL_SPAN_INTERNAL, &root.context);
		sl_span_start(&served, name, SL_SPAN_SERVER, &remote);
		sl_span_end(&local);
		sl_span_end(&served);
		sl_span_set_status(&root, SL_SPAN_ERROR, NULL);
		sl_span_end(&root);
		s = see(sl_publisher_fd(p));
		assert_int_equal(s->count, 3);
		assert_int_equal(s->ring_tally[1].head.roots, 1 + edge);
		for (int i = 0; i <= edge; i++)
			assert_int_equal(
				region_span_root_parse(
					(uint64_t *)(s->r.map + region_span_root_at(&s->r.info, 1,
										    (uint64_t)i)),
					(uint64_t)i, &found[i]),
				REGION_SPAN_LINE_GOOD);
		assert_true(found[edge].trace_hi == root.context.trace_hi &&
			    found[edge].trace_lo == root.context.trace_lo &&
			    found[edge].span_id == root.context.span_id);
		assert_true(found[edge].start_ns == s->spans[2].start_ns &&
			    found[edge].duration_ns == s->spans[2].duration_ns);
		assert_int_equal(found[edge].status, SL_SPAN_ERROR);
		assert_int_equal(found[edge].kind, SL_SPAN_SERVER);
		assert_false(found[edge].remote);
		assert_string_equal(region_schema_string(&s->r.schema, found[edge].name), "root");
		if (edge)
			assert_true(found[0].remote && found[0].trace_lo == 2);
		reader_close(&s->r);
		sl_publisher_close(p);
	}
}

/* Compares the index of one ring with the spans in it. */
static void check_index(const struct seen *s, uint32_t ring, uint32_t *entries)
{
	const struct region_span_head *head = &s->ring_tally[ring].head;
	uint64_t entry[SL_SPAN_ENTRIES], next = 0, size = SL_SPAN_INDEX(s->r.info.span_lines);
	uint32_t span = 0, count;

	*entries = 0;
	assert_true(head->index <= size);
	while (span < s->count && s->ring[span] != ring)
		span++;
	for (uint64_t i = 0; i < head->index; i++) {
		assert_int_equal(
			region_span_index_parse(
				(uint64_t *)(s->r.map + region_span_index_at(&s->r.info, ring, i)),
				i, entry, &count),
			REGION_SPAN_LINE_GOOD);
		assert_true(count > 0);
		for (uint32_t e = 0; e < count; e++) {
			uint64_t first = region_span_entry_number(entry[e], head->lines), end;
			uint32_t errors = 0;

			assert_true(first == next);
			end = first + SL_SPAN_ENTRY_LINES(entry[e]);
			for (; next < end; next += s->lines[span++]) {
				assert_true(s->number[span] == next);
				assert_int_equal(sl_span_hash(s->spans[span].trace_hi,
							      s->spans[span].trace_lo),
						 SL_SPAN_ENTRY_HASH(entry[e]));
				errors += s->spans[span].status == SL_SPAN_ERROR;
			}
			assert_true(next == end);
			assert_int_equal(errors != 0, SL_SPAN_ENTRY_ERROR(entry[e]));
			++*entries;
		}
	}
	assert_true(next == head->lines);
}

static void every_span_is_in_the_index_once(void **state)
{
	struct sl_publisher *p = sl_publisher_open(&SL_OPTS(
		sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED, .span_bytes = SL_SPAN_BYTES));
	struct sl_span_name name = sl_span_name_create(p, "n");
	struct sl_span_key key = sl_span_key_create(p, "k");
	struct sl_trace_context trace[5] = {0};
	unsigned int seed = 1;
	uint32_t entries;
	struct sl_span span;
	struct seen *s;

	(void)state;
	for (int i = 0; i < 5; i++)
		trace[i] = (struct sl_trace_context){
			.trace_hi = 1, .trace_lo = 2 + (uint64_t)i, .span_id = 1};
	/* Runs of one trace, from one span to more lines than fit in an entry. */
	for (uint32_t made = 0; made < 700;) {
		uint32_t run = made < 300 ? 200 : (uint32_t)rand_r(&seed) % 6 + 1;
		const struct sl_trace_context *c = &trace[rand_r(&seed) % 5];

		for (; run--; made++) {
			sl_span_start(&span, name, SL_SPAN_INTERNAL, c);
			for (int n = rand_r(&seed) % 6; n--;)
				sl_span_set_i64(&span, key, n);
			if (rand_r(&seed) % 8 == 0)
				sl_span_set_status(&span, SL_SPAN_ERROR, NULL);
			sl_span_end(&span);
		}
	}
	s = see(sl_publisher_fd(p));
	assert_true(s->ring_tally[1].head.spans == s->count && s->count >= 700);
	check_index(s, 1, &entries);
	assert_true(entries > 50 && entries < 350); /* runs, not spans */
	reader_close(&s->r);
	sl_publisher_close(p);
}

static void the_oldest_go_when_the_ring_has_gone_round(void **state)
{
	struct sl_publisher *p = OPEN(.service = "a");
	struct made m = made_names(p);
	struct seen *s;

	(void)state;
	for (uint64_t x = 0; x < 5000; x++)
		make_span(&m, x);
	s = see(sl_publisher_fd(p));
	assert_true(s->ring_tally[1].head.spans == 5000);
	assert_true(s->count > 512 / SL_SPAN_LINES_MAX && s->count <= 256);
	for (uint32_t i = 0; i < s->count; i++) {
		assert_true(span_is_made(&s->spans[i]));
		assert_int_equal(s->spans[i].attrs[0].i64, 5000 - s->count + i);
	}
	reader_close(&s->r);
	sl_publisher_close(p);
}

/* ---- clock ---- */

/*
 * Before, after and across the calibration. The margin is for a machine whose clock is being
 * adjusted.
 */
static void times_are_those_of_the_wall_clock(void **state)
{
	struct sl_publisher *p = OPEN(.service = "a");
	struct sl_span_name name = sl_span_name_create(p, "n");
	uint64_t before[40], after[40], margin = 2000000;
	struct timespec nap = {0, 1000000};
	struct sl_span span, across;
	struct seen *s;

	(void)state;
	sl_span_start(&across, name, SL_SPAN_INTERNAL, NULL);
	for (int i = 0; i < 40; i++) {
		before[i] = clock_ns(CLOCK_REALTIME);
		sl_span_start(&span, name, SL_SPAN_INTERNAL, NULL);
		nanosleep(&nap, NULL);
		sl_span_end(&span);
		after[i] = clock_ns(CLOCK_REALTIME);
	}
	sl_span_end(&across);
	s = see(sl_publisher_fd(p));
	assert_int_equal(s->count, 41);
	for (int i = 0; i < 40; i++) {
		uint64_t start = s->spans[i].start_ns, end = start + s->spans[i].duration_ns;

		assert_true(start + margin >= before[i] && end <= after[i] + margin);
		assert_true(s->spans[i].duration_ns >= 900000);
	}
	assert_true(s->spans[40].start_ns + margin >= before[0] - 1000000000);
	assert_true(s->spans[40].start_ns <= s->spans[0].start_ns + margin);
	assert_true(s->spans[40].duration_ns >= 36000000);
	reader_close(&s->r);
	sl_publisher_close(p);
}

/* ---- fork and signals ---- */

static void a_span_open_across_a_fork_ends_in_the_parent(void **state)
{
	struct sl_publisher *p = OPEN(.service = "a");
	struct sl_span_name name = sl_span_name_create(p, "n");
	struct sl_span open, other;
	struct seen *s;
	int status;
	pid_t pid;

	(void)state;
	sl_span_start(&open, name, SL_SPAN_INTERNAL, NULL);
	sl_span_start(&other, name, SL_SPAN_INTERNAL, NULL);
	sl_span_end(&other);
	pid = fork();
	if (!pid) {
		uint64_t mine;

		sl_span_end(&open);
		sl_span_start(&other, name, SL_SPAN_INTERNAL, NULL);
		mine = other.context.span_id;
		sl_span_end(&other);
		s = see(sl_publisher_fd(p));
		if (s->count != 1 || s->spans[0].span_id != mine ||
		    strcmp(region_schema_string(&s->r.schema, s->spans[0].name), "n"))
			_exit(1);
		_exit(0);
	}
	sl_span_end(&open);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	/* The ids of the child are not the next ones of this process. */
	s = see(sl_publisher_fd(p));
	assert_int_equal(s->count, 2);
	assert_true(s->spans[1].span_id == open.context.span_id);
	reader_close(&s->r);
	sl_publisher_close(p);
}

static struct made handler_names;
static volatile sig_atomic_t handled;

static void on_timer(int sig)
{
	(void)sig;
	make_span(&handler_names, 0x100000000ull + (uint64_t)handled);
	handled++;
}

static void spans_of_a_signal_handler_spoil_none(void **state)
{
	struct sl_publisher *p =
		sl_publisher_open(&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED,
					   .max_threads = 2, .span_bytes = 4u << 20));
	struct itimerval often = {{0, 50}, {0, 50}}, off = {{0, 0}, {0, 0}};
	struct sigaction sa = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
	uint64_t made = 0, spans = 0, good = 0;
	struct reader r;

	(void)state;
	handler_names = made_names(p);
	handled = 0;
	make_span(&handler_names, made++);
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while ((handled < 500 || made < 20000) && made < 2000000)
		make_span(&handler_names, made++);
	setitimer(ITIMER_REAL, &off, NULL);
	signal(SIGALRM, SIG_IGN);
	assert_int_equal(reader_open(&r, sl_publisher_fd(p)), REGION_FAULT_NONE);
	assert_int_equal(reader_round(&r), REGION_FAULT_NONE);
	for (uint32_t i = 0; i < 2; i++) {
		struct ring_tally t = ring_read(&r, i, copy_in_order, NULL, NULL);

		assert_true(t.head_settled);
		assert_int_equal(t.unsettled + t.lies + t.early + t.late, 0);
		spans += t.head.spans;
		good += t.good;
	}
	assert_true(spans == made + (uint64_t)handled);
	assert_true(good > 0);
	reader_close(&r);
	sl_publisher_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(traceparent_follows_its_specification),
		cmocka_unit_test(a_span_reads_as_written),
		cmocka_unit_test(what_does_not_fit_is_cut_or_dropped_and_counted),
		cmocka_unit_test(what_may_do_nothing_does_nothing),
		cmocka_unit_test(roots_are_found_in_their_journal),
		cmocka_unit_test(every_span_is_in_the_index_once),
		cmocka_unit_test(the_oldest_go_when_the_ring_has_gone_round),
		cmocka_unit_test(times_are_those_of_the_wall_clock),
		cmocka_unit_test(a_span_open_across_a_fork_ends_in_the_parent),
		cmocka_unit_test(spans_of_a_signal_handler_spoil_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
