// SPDX-License-Identifier: Apache-2.0
/*
 * test_report.c - the reporter library with a simulated translator: reports arrive, and the
 * counters add up.
 */
#include <errno.h>
#include <string.h>

#include "support/test.h"
#include "base/base.h"
#include "report_drive.h"

static void each_primitive_arrives_as_it_was_reported(void **state)
{
	struct translator *t = translator_new();
	struct sl_reporter *r = reporter(t, (struct sl_reporter_opts){.tenant = 9, .reporter = 77});
	struct sl_report_dest how = {.store = 3, .copies = 4, .flags = SL_REPORT_IMMEDIATE};
	struct sl_report_dest list = {.store = 5, .flags = SL_REPORT_ESSENTIAL};
	struct dta_answer a = {.type = DTA_ACK, .reporter = 77, .next = 5, .credits = ~0u};
	uint64_t cells[200];
	uint8_t registers[2000], key[64];

	(void)state;
	for (uint32_t i = 0; i < 200; i++)
		cells[i] = i + (1ull << 40);
	for (uint32_t i = 0; i < 2000; i++)
		registers[i] = (uint8_t)(i % 60);
	memset(key, 7, sizeof(key));
	assert_int_equal(sl_report_keywrite(r, &how, key, 13, "value 12", 8), 0);
	assert_int_equal(sl_report_keywrite(r, NULL, key, 64, "value 12", 8), 0);
	assert_int_equal(sl_report_append(r, &list, 0x01020304, "item", 4), 0);
	assert_int_equal(sl_report_increment(r, &how, key, 4, 0x0102030405060708), 0);
	assert_int_equal(sl_report_postcard(r, &how, key, 4, 63, 64, 0x0a0b0c0d), 0);
	assert_int_equal(sl_reporter_flush(r), 0);

	assert_true(next_packet(t));
	assert_int_equal(got.header.tenant, 9);
	assert_int_equal(got.header.reporter, 77);
	assert_int_equal(got.header.sequence, 0);
	assert_int_equal(got.header.reports, 5);
	assert_int_equal(got.header.blocks, 5);
	assert_true(got.header.time_ns > 0);
	assert_true(got.header.flags & DTA_ACK_WANTED);
	assert_int_equal(got.block[0].opcode, DTA_KEYWRITE);
	assert_int_equal(got.block[0].copies, 4);
	assert_int_equal(got.block[0].store, 3);
	assert_int_equal(got.block[0].flags, DTA_IMMEDIATE);
	assert_memory_equal(got.block[0].items, key, 13);
	assert_memory_equal(got.block[0].items + 13, "value 12", 8);
	assert_int_equal(got.block[1].copies, 1);
	assert_int_equal(got.block[1].key_bytes, 64);
	assert_int_equal(got.block[2].flags, DTA_ESSENTIAL);
	assert_memory_equal(got.block[2].items, "\1\2\3\4item", 8);
	assert_memory_equal(got.block[3].items, "\7\7\7\7\1\2\3\4\5\6\7\10", 12);
	assert_memory_equal(got.block[4].items, "\7\7\7\7\x3f\x40\0\0\x0a\x0b\x0c\x0d", 12);
	assert_false(next_packet(t));
	/*
	 * Acknowledged, so that a slow machine does not send it again between the following
	 * packets.
	 */
	a.incarnation = got.header.incarnation;
	say(t, &a);
	assert_int_equal(sl_reporter_poll(r), 0);
	assert_int_equal(stats(r).waiting, 0);

	/* 200 cells: 128 and 72; 2000 registers: 1024 and 976; then the ends of both. */
	how = (struct sl_report_dest){.store = 1};
	list = (struct sl_report_dest){.store = 2};
	assert_int_equal(sl_report_sketch(r, &how, 6, 2, 1000, cells, 200), 0);
	assert_int_equal(sl_report_registers(r, &list, 6, 0, registers, 2000), 0);
	assert_int_equal(sl_report_sketch_end(r, &how, 6), 0);
	assert_int_equal(sl_report_sketch_end(r, &list, 6), 0);
	assert_int_equal(sl_reporter_flush(r), 0);
	assert_true(next_packet(t));
	assert_int_equal(got.block[0].value_bytes, 1024);
	assert_memory_equal(got.block[0].items, "\0\0\0\6\0\0\0\2\0\0\3\xe8\0\0\1\0\0\0\0\0", 20);
	assert_true(next_packet(t));
	assert_int_equal(got.block[0].value_bytes, 72 * 8);
	assert_memory_equal(got.block[0].items, "\0\0\0\6\0\0\0\2\0\0\4\x68\0\0\1\0\0\0\0\x80", 20);
	assert_true(next_packet(t));
	assert_memory_equal(got.block[0].items + 12, registers, 1024);
	assert_true(next_packet(t));
	assert_int_equal(got.header.blocks, 3);
	assert_memory_equal(got.block[0].items + 12, registers + 1024, 976);
	assert_int_equal(got.block[1].opcode, DTA_SKETCH_END);
	assert_memory_equal(got.block[1].items, "\0\0\0\6\0\0\0\2", 8);
	assert_int_equal(got.block[2].store, 2);
	assert_memory_equal(got.block[2].items, "\0\0\0\6\0\0\0\2", 8);
	assert_int_equal(stats(r).sent, 11);
	sl_reporter_close(r);
	translator_free(t);
}

static void a_packet_leaves_when_full_or_due(void **state)
{
	struct translator *t = translator_new();
	struct sl_reporter *r = reporter(t, (struct sl_reporter_opts){.packet_bytes = 512});
	uint32_t value = 0, next = 0;

	(void)state;
	/* (512 - 32 - 12) / 8 = 58 per packet */
	for (; value < 58; value++)
		assert_int_equal(sl_report_append(r, NULL, 1, &value, 4), 0);
	assert_false(next_packet(t));
	assert_int_equal(stats(r).packed, 58);
	for (; value < 580; value++)
		assert_int_equal(sl_report_append(r, NULL, 1, &value, 4), 0);
	for (uint32_t i = 0; i < 9; i++) {
		assert_true(next_packet(t));
		assert_int_equal(got.header.length, 508);
		assert_int_equal(got.header.sequence, next);
		for (uint32_t j = 0; j < 58; j++, next++)
			assert_memory_equal(got.block[0].items + 8 * j + 4, &next, 4);
	}
	assert_false(next_packet(t));
	sl_reporter_close(r); /* sends the rest */
	assert_true(next_packet(t));
	assert_int_equal(got.header.reports, 58);

	r = reporter(t, (struct sl_reporter_opts){.flush_ns = 1});
	assert_int_equal(sl_report_append(r, NULL, 1, &value, 4), 0);
	while (!next_packet(t)) /* until the tick after it */
		assert_int_equal(sl_reporter_poll(r), 0);
	sl_reporter_close(r);

	r = reporter(t, (struct sl_reporter_opts){.flags = SL_REPORTER_SINGLE});
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(sl_report_append(r, NULL, 1, &value, 4), 0);
	for (uint32_t i = 0; i < 10; i++) {
		assert_true(next_packet(t));
		assert_int_equal(got.header.reports, 1);
		assert_int_equal(got.header.sequence, i);
	}
	sl_reporter_close(r);
	translator_free(t);
}

static void only_what_changed_is_reported(void **state)
{
	struct translator *t = translator_new();
	struct sl_reporter *r = reporter(
		t, (struct sl_reporter_opts){.change_entries = 1 << 19, .refresh_ns = ~0ull});
	struct sl_report_dest how = {.store = 1, .flags = SL_REPORT_CHANGES}, other = how;

	(void)state;
	other.store = 2;
	for (uint32_t round = 0; round < 5; round++)
		for (uint32_t key = 0; key < 400; key++) {
			uint32_t value = key % 4 ? key : round;

			assert_int_equal(sl_report_keywrite(r, &how, &key, 4, &value, 4), 0);
			assert_int_equal(sl_report_keywrite(r, &other, &key, 4, &key, 4), 0);
		}
	/*
	 * Each once; those of key % 4 == 0 five times, except for key 0's, whose value did not
	 * change.
	 */
	assert_int_equal(stats(r).unchanged, 4000 - 800 - 100 * 4);
	sl_reporter_close(r);
	/* More keys than it remembers: they are sent again, and no changed value is suppressed. */
	r = reporter(t, (struct sl_reporter_opts){.change_entries = 16, .refresh_ns = ~0ull});
	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t key = rnd(1000);

		assert_int_equal(sl_report_keywrite(r, &how, &key, 4, &i, 4), 0);
	}
	assert_int_equal(stats(r).unchanged, 0);
	sl_reporter_close(r);
	/* An epoch of a store has passed: the value is reported again. */
	r = reporter(t, (struct sl_reporter_opts){.change_entries = 16, .refresh_ns = 1});
	for (uint64_t sent = 0; sent < 3; sent = stats(r).sent) {
		assert_int_equal(sl_report_keywrite(r, &how, "same", 4, "same", 4), 0);
		sl_reporter_flush(r);
	}
	sl_reporter_close(r);
	translator_free(t);
}

static void a_sample_by_key_is_the_same_at_every_reporter(void **state)
{
	struct translator *t = translator_new();
	struct sl_reporter *a = reporter(t, (struct sl_reporter_opts){0});
	struct sl_reporter *b = reporter(t, (struct sl_reporter_opts){0});
	struct sl_report_dest by_key = {.sample = 3, .flags = SL_REPORT_SAMPLE_BY_KEY};
	struct sl_report_dest by_chance = {.sample = 3};
	uint64_t before, out;

	(void)state;
	for (uint32_t key = 0; key < 20000; key++) {
		before = stats(a).sampled_out;
		assert_int_equal(sl_report_keywrite(a, &by_key, &key, 4, &key, 4), 0);
		out = stats(a).sampled_out - before;
		before = stats(b).sampled_out;
		assert_int_equal(sl_report_keywrite(b, &by_key, &key, 4, &key, 4), 0);
		assert_int_equal(stats(b).sampled_out - before, out);
	}
	/*
	 * Binomial, n = 20000, p = 1/8: 2500 +- 47; six of those. The keys are fixed, chance is
	 * not.
	 */
	out = stats(a).reports - stats(a).sampled_out;
	assert_in_range(out, 2500 - 281, 2500 + 281);
	before = stats(a).sampled_out;
	for (uint32_t i = 0; i < 20000; i++)
		assert_int_equal(sl_report_keywrite(a, &by_chance, "same", 4, &i, 4), 0);
	out = 20000 - (stats(a).sampled_out - before);
	assert_in_range(out, 2500 - 376, 2500 + 376); /* eight: 1 in 10^15 */
	by_chance.sample = 64;
	assert_int_equal(sl_report_keywrite(a, &by_chance, "same", 4, "same", 4), -EINVAL);
	sl_reporter_close(a);
	sl_reporter_close(b);
	translator_free(t);
}

static void a_stream_that_ends_says_so(void **state)
{
	struct translator *t = translator_new();
	struct sl_reporter *r = reporter(t, (struct sl_reporter_opts){0});
	const uint64_t end = base_now_ns() + 100000000000ull;

	(void)state;
	assert_int_equal(sl_reporter_poll(r), 0);
	assert_int_equal(stats(r).heartbeats, 0); /* it has not begun */
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(sl_report_append(r, NULL, 1, &i, 4), 0);
	sl_reporter_flush(r);
	step(t);
	assert_int_equal(sl_report_append(r, NULL, 1, "lost", 4), 0);
	sl_reporter_flush(r);
	assert_true(next_packet(t)); /* and is not taken */
	while (!total_of(t).missing) {
		assert_true(base_now_ns() < end);
		assert_int_equal(sl_reporter_poll(r), 0);
		step(t);
	}
	assert_int_equal(total_of(t).expected, 11);
	while (stats(r).heartbeats < 2) {
		assert_true(base_now_ns() < end);
		assert_int_equal(sl_reporter_poll(r), 0);
	}
	poll(NULL, 0, 250);
	assert_int_equal(sl_reporter_poll(r), 0);
	assert_int_equal(stats(r).heartbeats, 2); /* a silent reporter does not go on */
	sl_reporter_close(r);
	translator_free(t);
}

static void credits_hold_reports_back(void **state)
{
	struct translator *t = translator_new();
	struct sl_reporter *r = reporter(t, (struct sl_reporter_opts){.flags = SL_REPORTER_SINGLE});
	struct sl_report_dest how = {.flags = SL_REPORT_ESSENTIAL};
	uint64_t end = base_now_ns() + 100000000000ull, dropped;
	uint32_t i;

	(void)state;
	t->credits = 20;
	assert_int_equal(sl_report_append(r, &how, 1, "item", 4), 0);
	sl_reporter_flush(r);
	assert_int_equal(stats(r).sent, 1);
	while (!stats(r).acks) { /* requested at the latest when it is sent again */
		assert_true(base_now_ns() < end);
		step(t);
		sl_reporter_poll(r);
	}
	for (i = 0; i < 1000 && !stats(r).dropped_credits; i++)
		sl_report_append(r, NULL, 1, "item", 4);
	dropped = stats(r).dropped_credits;
	assert_int_equal(dropped, 1);
	/* 20 and the waiting one; one more packet per 100 ms may request more. */
	assert_true(i >= 21);
	assert_int_equal(stats(r).packed, 1);
	step(t); /* when more than half of the credits are used, every packet asks for new ones */
	assert_int_equal(sl_reporter_poll(r), 0);
	assert_int_equal(sl_report_append(r, NULL, 1, "item", 4), 0);
	assert_int_equal(stats(r).dropped_credits, dropped);
	/* No credits at all, and a reporter that waits for as long as it was told to. */
	sl_reporter_close(r);
	t->credits = 0;
	r = reporter(t, (struct sl_reporter_opts){.flags = SL_REPORTER_SINGLE | SL_REPORTER_WAIT,
						  .wait_ns = 1000000});
	assert_int_equal(sl_report_append(r, &how, 1, "item", 4), 0);
	while (!stats(r).acks) {
		assert_true(base_now_ns() < end);
		step(t);
		sl_reporter_poll(r);
	}
	for (i = 0; i < 1000 && !stats(r).dropped_credits; i++)
		sl_report_append(r, &how, 1, "item", 4);
	assert_int_equal(stats(r).dropped_credits, 1);
	assert_true(stats(r).waits > 0);
	sl_reporter_close(r);
	translator_free(t);
}

static void the_originals_forms_go_out(void **state)
{
	struct translator *t = translator_new();
	uint8_t p[100];

	(void)state;
	for (uint32_t flag = SL_REPORTER_LEGACY_A; flag <= SL_REPORTER_LEGACY_B; flag *= 2) {
		struct sl_reporter *r = reporter(t, (struct sl_reporter_opts){.flags = flag});
		bool b = flag == SL_REPORTER_LEGACY_B;

		assert_int_equal(sl_report_keywrite(r, NULL, "abcd", 4, "data", 4), 0);
		assert_int_equal(sl_report_append(r, NULL, 2, "item", 4), 0);
		assert_int_equal(recv(t->fd, p, sizeof(p), 0), b ? 12 : 11);
		assert_memory_equal(p, b ? "\1\0\0\1abcddata" : "\1\0\1abcddata", b ? 12 : 11);
		assert_int_equal(recv(t->fd, p, sizeof(p), 0), b ? 11 : 10);
		assert_memory_equal(p, b ? "\2\1\0\0\0\0\2item" : "\2\0\0\0\0\2item", b ? 11 : 10);
		assert_int_equal(sl_report_keywrite(r, NULL, "abcde", 5, "data", 4), -EINVAL);
		assert_int_equal(sl_report_keywrite(r, NULL, "abcd", 4, "datas", 5), -EINVAL);
		assert_int_equal(stats(r).sent, 2);
		assert_int_equal(stats(r).refused, 2);
		assert_int_equal(sl_reporter_drain(r, 0), 0);
		sl_reporter_close(r);
	}
	translator_free(t);
}

static void wrong_options_are_refused(void **state)
{
	static const struct {
		struct sl_reporter_opts o;
		int why;
	} wrong[] = {
		{{.sz = 1, .target = "127.0.0.1:1"}, EINVAL},
		{{0}, EINVAL},
		{{.target = ""}, EINVAL},
		{{.target = ":1"}, EINVAL},
		{{.target = "127.0.0.1:"}, EINVAL},
		{{.target = "127.0.0.1:0"}, EINVAL},
		{{.target = "127.0.0.1:70000"}, EINVAL},
		{{.target = "127.0.0.1:1x"}, EINVAL},
		{{.target = "[::1"}, EINVAL},
		{{.target = "[::1]x"}, EINVAL},
		{{.target = "127.0.0.1:1", .flags = 16}, EINVAL},
		{{.target = "127.0.0.1:1", .flags = 12}, EINVAL},
		{{.target = "127.0.0.1:1", .flags = 4, .tenant = 1}, EINVAL},
		{{.target = "127.0.0.1:1", .packet_bytes = 127}, EINVAL},
		{{.target = "127.0.0.1:1", .packet_bytes = 65508}, EINVAL},
		{{.target = "127.0.0.1:1", .backup_packets = 65537}, EINVAL},
		{{.target = "127.0.0.1:1", .change_entries = (1 << 24) + 1}, EINVAL},
		{{.target = "127.0.0.1:1", .key_file = "/nonexistent/key"}, ENOENT},
		{{.target = "127.0.0.1:1", .key_file = "/dev/null"}, EINVAL},
	};

	(void)state;
	assert_null(sl_reporter_open(NULL));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct sl_reporter_opts o = wrong[i].o;

		o.sz = o.sz ? o.sz : sizeof(o);
		errno = 0;
		assert_null(sl_reporter_open(&o));
		assert_int_equal(errno, wrong[i].why);
	}
}

static void reports_out_of_bounds_are_refused(void **state)
{
	struct sl_report_dest how = {.copies = 9};
	struct sl_reporter *r;
	uint8_t big[300] = {0};

	(void)state;
	/* No process listens there; the network reports this later, and the reporter counts it. */
	r = sl_reporter_open(&SL_OPTS(sl_reporter_opts, .target = "127.0.0.1:1",
				      .packet_bytes = 128, .flags = SL_REPORTER_SINGLE));
	assert_non_null(r);
	assert_int_equal(sl_report_keywrite(r, &how, big, 4, big, 4), -EINVAL);
	how.copies = 1;
	assert_int_equal(sl_report_keywrite(r, &how, big, 3, big, 4), -EINVAL);
	assert_int_equal(sl_report_keywrite(r, &how, big, 65, big, 4), -EINVAL);
	assert_int_equal(sl_report_keywrite(r, &how, big, 4 + 256, big, 4), -EINVAL);
	assert_int_equal(sl_report_keywrite(r, &how, big, 4, big, 3), -EINVAL);
	assert_int_equal(sl_report_keywrite(r, &how, big, 4, big, 65536 + 4), -EINVAL);
	assert_int_equal(sl_report_keywrite(r, &how, big, 4, big, 256), -EMSGSIZE);
	assert_int_equal(sl_report_postcard(r, &how, big, 4, 5, 5, 0), -EINVAL);
	assert_int_equal(sl_report_postcard(r, &how, big, 4, 0, 65, 0), -EINVAL);
	assert_int_equal(sl_report_postcard(r, &how, big, 4, 256, 257, 0), -EINVAL);
	assert_int_equal(sl_report_append(r, &how, 1, big, 4), -EINVAL); /* copies */
	assert_int_equal(stats(r).refused, 11);
	how.copies = 0;
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(sl_report_append(r, &how, 1, big, 4), 0);
	assert_int_equal(stats(r).reports, 10);
	how.sample = 0;
	for (uint16_t store = 0; store < 16; store++) {
		how.store = store;
		assert_int_equal(sl_report_registers(r, &how, 1, 0, big, 10), 0);
	}
	how.store = 16;
	assert_int_equal(sl_report_registers(r, &how, 1, 0, big, 10), -ENOSPC);
	how.store = 3;
	assert_int_equal(sl_report_sketch_end(r, &how, 1), 0);
	how.store = 16;
	assert_int_equal(sl_report_registers(r, &how, 1, 0, big, 10), 0);
	sl_reporter_close(r);
}

static void a_null_reporter_is_refused(void **state)
{
	struct sl_reporter_stats s = {.sz = sizeof(s)};
	struct sl_report_dest how = {0};
	uint8_t big[4] = {0};

	(void)state;
	assert_int_equal(sl_report_append(NULL, &how, 1, big, 4), -EINVAL);
	assert_int_equal(sl_report_sketch_end(NULL, &how, 1), -EINVAL);
	assert_int_equal(sl_reporter_poll(NULL), -EINVAL);
	assert_int_equal(sl_reporter_flush(NULL), 0);
	assert_int_equal(sl_reporter_drain(NULL, 0), -EINVAL);
	assert_int_equal(sl_reporter_stats(NULL, &s), -EINVAL);
	sl_reporter_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_primitive_arrives_as_it_was_reported),
		cmocka_unit_test(a_packet_leaves_when_full_or_due),
		cmocka_unit_test(only_what_changed_is_reported),
		cmocka_unit_test(a_sample_by_key_is_the_same_at_every_reporter),
		cmocka_unit_test(a_stream_that_ends_says_so),
		cmocka_unit_test(credits_hold_reports_back),
		cmocka_unit_test(the_originals_forms_go_out),
		cmocka_unit_test(wrong_options_are_refused),
		cmocka_unit_test(reports_out_of_bounds_are_refused),
		cmocka_unit_test(a_null_reporter_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
