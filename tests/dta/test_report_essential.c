// SPDX-License-Identifier: Apache-2.0
/*
 * test_report_essential.c - essential reports arrive once, whatever the network, the translator and
 * strangers do.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "base/base.h"
#include "report_drive.h"

/* A third of all packets is lost, including answers. */
static void essential_reports_arrive_once_over_a_lossy_network(void **state)
{
	struct translator *t = translator_new();
	struct sl_report_dest how = {.flags = SL_REPORT_ESSENTIAL};
	uint64_t end = base_now_ns() + 100000000000ull;
	char path[256];
	const char *folder = getenv("TMPDIR");
	struct sl_reporter *r;
	uint8_t key[16] = {0};
	uint32_t value;
	int fd, err;

	(void)state;
	snprintf(path, sizeof(path), "%s/sl-key-XXXXXX", folder ? folder : "/tmp");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "00000000000000000000000000000000\n", 33), 33);
	close(fd);
	r = reporter(t, (struct sl_reporter_opts){.packet_bytes = 256, .key_file = path});
	unlink(path);
	t->key = dta_key_new(key);
	t->lose_percent = 33;
	t->most = 3000;
	t->counts = calloc(t->most, 1);
	assert_non_null(t->counts);
	for (value = 0; value < t->most; value++) {
		assert_int_equal(sl_report_append(r, &how, 1, &value, 4), 0);
		if (value % 100 == 99) {
			step(t);
			assert_int_equal(sl_reporter_poll(r), 0);
		}
	}
	while ((err = sl_reporter_drain(r, 1000000)) == -ETIMEDOUT) {
		assert_true(base_now_ns() < end);
		step(t);
	}
	assert_int_equal(err, 0);
	for (value = 0; value < t->most; value++)
		assert_int_equal(t->counts[value], 1);
	assert_true(stats(r).again > 0 && t->again > 0);
	assert_int_equal(stats(r).sent, t->most);
	assert_int_equal(stats(r).waiting, 0);
	assert_int_equal(stats(r).answers_refused, 0);
	assert_int_equal(stats(r).settled, stats(r).packets - stats(r).again);
	sl_reporter_close(r);
	translator_free(t);
}

/* Two translators, the first of which ends or falls silent half way: nothing is lost. */
/*
 * An answer names 64 ranges, and a translator remembers 256 gaps: the others are named, or sent
 * again, later.
 */
static void more_holes_than_an_answer_can_name_lose_nothing(void **state)
{
	const struct sl_report_dest how = {.flags = SL_REPORT_ESSENTIAL};
	struct translator *t = translator_new();
	struct sl_reporter *r = reporter(t, (struct sl_reporter_opts){
						    .flags = SL_REPORTER_SINGLE,
						    .backup_packets = 2048,
					    });
	const uint64_t end = base_now_ns() + 100000000000ull;
	int err;

	(void)state;
	t->holes = true;
	t->most = 4 * DTA_LOSS_GAPS_MAX;
	t->counts = calloc(t->most, 1);
	assert_non_null(t->counts);
	for (uint32_t value = 0; value < t->most; value++) {
		assert_int_equal(sl_report_append(r, &how, 1, &value, 4), 0);
		if (value % 64 == 63)
			step(t); /* before the socket is full */
	}
	step(t);
	assert_true(total_of(t).missing + total_of(t).lost >= 2 * DTA_RANGES_MAX);
	t->holes = false;
	while ((err = sl_reporter_drain(r, 1000000)) == -ETIMEDOUT) {
		assert_true(base_now_ns() < end);
		step(t);
	}
	assert_int_equal(err, 0);
	for (uint32_t value = 0; value < t->most; value++)
		assert_int_equal(t->counts[value], 1);
	assert_int_equal(stats(r).settled, t->most);
	assert_int_equal(total_of(t).expected, t->most);
	assert_int_equal(total_of(t).arrived, t->most);
	assert_int_equal(total_of(t).missing + total_of(t).lost, 0);
	sl_reporter_close(r);
	translator_free(t);
}

static void reports_go_on_at_the_next_translator(bool silent)
{
	struct translator *t[2] = {translator_new(), translator_new()};
	struct sl_report_dest how = {.flags = SL_REPORT_ESSENTIAL};
	uint64_t end = base_now_ns() + 100000000000ull;
	struct sl_reporter_opts o = SL_OPTS(sl_reporter_opts, .flush_ns = NEVER,
					    .packet_bytes = 256);
	char both[80];
	struct sl_reporter *r;
	uint32_t value = 0, first = 0;
	int err;

	snprintf(both, sizeof(both), "%s,%s", t[0]->address, t[1]->address);
	o.target = both;
	r = sl_reporter_open(&o);
	assert_non_null(r);
	for (int i = 0; i < 2; i++) {
		t[i]->most = 1000;
		t[i]->counts = calloc(t[i]->most, 1);
		assert_non_null(t[i]->counts);
	}
	for (; value < 500; value++) {
		assert_int_equal(sl_report_append(r, &how, 1, &value, 4), 0);
		if (value % 50 == 49)
			step(t[0]);
	}
	assert_int_equal(stats(r).failovers, 0);
	assert_int_equal(t[1]->packets, 0);
	if (!silent) {
		close(t[0]->fd);
		t[0]->fd = -1;
	}
	for (; value < 1000; value++)
		assert_int_equal(sl_report_append(r, &how, 1, &value, 4), 0);
	while ((err = sl_reporter_drain(r, 1000000)) == -ETIMEDOUT) {
		assert_true(base_now_ns() < end);
		step(t[1]);
	}
	assert_int_equal(err, 0);
	assert_int_equal(stats(r).failovers, 1);
	assert_int_equal(stats(r).sent, 1000);
	assert_int_equal(stats(r).waiting, 0);
	for (value = 0; value < 1000; value++) {
		/*
		 * The first one has the reports that it accepted; those that it accepted but could
		 * not acknowledge are at both.
		 */
		assert_true(t[0]->counts[value] + t[1]->counts[value] > 0);
		assert_true(t[0]->counts[value] < 2 && t[1]->counts[value] < 2);
		first += t[0]->counts[value];
	}
	assert_true(first > 0 && first < 1000);
	/* For the second one, it is a reporter that has just started: nothing is missing there. */
	assert_int_equal(total_of(t[1]).expected, total_of(t[1]).arrived);
	sl_reporter_close(r);
	translator_free(t[0]);
	translator_free(t[1]);
}

static void reports_leave_an_unreachable_translator(void **state)
{
	(void)state;
	reports_go_on_at_the_next_translator(false);
}

static void reports_leave_a_silent_translator(void **state)
{
	(void)state;
	reports_go_on_at_the_next_translator(true);
}

/*
 * The first translator stores 40,000 items and is killed. It has acknowledged a quarter of them,
 * because its collector was killed before.
 */
static void at_most_a_window_is_stored_twice(void **state)
{
	const struct sl_report_dest how = {.flags = SL_REPORT_ESSENTIAL};
	struct translator *t[2] = {translator_new(), translator_new()};
	const uint64_t end = base_now_ns() + 100000000000ull;
	struct sl_reporter_opts o = SL_OPTS(sl_reporter_opts, .flush_ns = NEVER,
					    .packet_bytes = 256, .backup_packets = 4096);
	uint32_t twice = 0, value = 0;
	struct sl_reporter *r;
	char both[80];
	int err;

	(void)state;
	snprintf(both, sizeof(both), "%s,%s", t[0]->address, t[1]->address);
	o.target = both;
	r = sl_reporter_open(&o);
	assert_non_null(r);
	for (int i = 0; i < 2; i++) {
		t[i]->most = 40000;
		t[i]->counts = calloc(t[i]->most, 1);
		assert_non_null(t[i]->counts);
	}
	for (; value < 40000; value++) {
		assert_int_equal(sl_report_append(r, &how, 1, &value, 4), 0);
		t[0]->mute = value >= 10000;
		if (value % 50 == 49)
			step(t[0]);
	}
	close(t[0]->fd);
	t[0]->fd = -1;
	while ((err = sl_reporter_drain(r, 1000000)) == -ETIMEDOUT) {
		assert_true(base_now_ns() < end);
		step(t[1]);
	}
	assert_int_equal(err, 0);
	assert_int_equal(stats(r).failovers, 1);
	assert_int_equal(stats(r).sent, 40000);
	for (value = 0; value < 40000; value++) {
		assert_true(t[0]->counts[value] + t[1]->counts[value] > 0);
		assert_true(t[1]->counts[value] < 2);
		twice += t[0]->counts[value] + t[1]->counts[value] - 1u;
	}
	assert_in_range(twice, 1, 4096);
	sl_reporter_close(r);
	translator_free(t[0]);
	translator_free(t[1]);
}

static void answers_of_strangers_are_refused(void **state)
{
	struct translator *t = translator_new();
	struct sl_reporter *r = reporter(t, (struct sl_reporter_opts){.reporter = 5});
	struct sl_report_dest how = {.flags = SL_REPORT_ESSENTIAL};
	struct dta_answer a = {.type = DTA_ACK, .reporter = 5, .credits = ~0u};

	(void)state;
	assert_int_equal(sl_report_append(r, &how, 1, "item", 4), 0);
	assert_int_equal(sl_reporter_flush(r), 0);
	assert_true(next_packet(t));
	a.incarnation = got.header.incarnation + 1; /* another life */
	a.next = 1;
	say(t, &a);
	a.incarnation--;
	a.reporter = 6; /* another's */
	say(t, &a);
	a.reporter = 5;
	a.next = 2; /* of what was never sent */
	say(t, &a);
	sendto(t->fd, "\xd7\1garbage", 9, 0, (struct sockaddr *)&t->from, sizeof(t->from));
	sl_reporter_poll(r);
	assert_int_equal(stats(r).answers_refused, 4);
	assert_int_equal(stats(r).waiting, 1);
	a.next = 1;
	say(t, &a);
	sl_reporter_poll(r);
	assert_int_equal(stats(r).waiting, 0);
	assert_int_equal(stats(r).settled, 1);
	assert_int_equal(sl_reporter_drain(r, 0), 0);
	sl_reporter_close(r);
	translator_free(t);
}

/*
 * A translator that does not know the newer report, because it was started later, gets its value.
 */
static void what_is_resent_has_the_newest_value(void **state)
{
	const struct sl_report_dest how = {.flags = SL_REPORT_ESSENTIAL};
	struct translator *t = translator_new();
	struct sl_reporter *r = reporter(t, (struct sl_reporter_opts){0});
	const uint64_t end = base_now_ns() + 100000000000ull;
	struct dta_answer a = {.type = DTA_ACK, .ranges = 1, .credits = ~0u};

	(void)state;
	for (uint32_t n = 0; n < 3; n++) {
		for (uint32_t i = 0; i < 40; i++) {
			const uint32_t key = i % 20 * (n + 1), value = n << 16 | i;

			assert_int_equal(sl_report_keywrite(r, &how, &key, 4, &value, 4), 0);
			if (i % 20 == 10) /* another store, another block */
				assert_int_equal(
					sl_report_keywrite(r,
							   &(struct sl_report_dest){
								   .store = 1, .flags = how.flags},
							   &key, 4, &value, 4),
					0);
		}
		assert_int_equal(sl_reporter_flush(r), 0);
	}
	for (int n = 0; n < 3; n++)
		while (!next_packet(t))
			assert_true(base_now_ns() < end);
	a.reporter = got.header.reporter;
	a.incarnation = got.header.incarnation;
	a.range[0].first = got.header.sequence; /* the third has arrived, the others have not */
	a.range[0].count = got.header.reports;
	say(t, &a);
	for (uint32_t n = 0; n < 2; n++) {
		uint32_t other = 0;

		while (!next_packet(t)) {
			assert_true(base_now_ns() < end);
			assert_int_equal(sl_reporter_poll(r), 0);
		}
		assert_int_equal(got.header.sequence, n * 42);
		assert_true(got.header.flags & DTA_AGAIN);
		for (uint32_t k = 0, i = 0; k < got.header.blocks; k++)
			for (uint32_t j = 0; j < got.block[k].count; j++) {
				const uint8_t *item = got.block[k].items + 8 * j;
				uint32_t key, value;

				memcpy(&key, item, 4);
				memcpy(&value, item + 4, 4);
				if (got.block[k].store) {
					/* 10 n: the third packet has 30 of that store. */
					assert_int_equal(value, n << 16 | (other++ ? 30 : 10));
					continue;
				}
				if (key % 3 == 0 && key <= 57)
					assert_int_equal(value, 2 << 16 | (key / 3 + 20));
				else
					assert_int_equal(value, n << 16 | i);
				i++;
			}
	}
	sl_reporter_close(r);
	translator_free(t);
}

static void a_full_ring_refuses_and_gives_nothing_up(void **state)
{
	struct translator *t = translator_new();
	struct sl_reporter *r = reporter(t, (struct sl_reporter_opts){
						    .flags = SL_REPORTER_SINGLE,
						    .backup_packets = 10,
					    });
	struct sl_report_dest how = {.flags = SL_REPORT_ESSENTIAL};
	const uint64_t end = base_now_ns() + 100000000000ull;
	uint32_t taken = 0;
	int err;

	(void)state;
	t->most = 100;
	t->counts = calloc(t->most, 1);
	assert_non_null(t->counts);
	for (uint32_t i = 0; i < 100; i++) {
		err = sl_report_append(r, &how, 1, &taken, 4);
		assert_true(err == 0 || err == -EAGAIN);
		taken += !err;
	}
	assert_int_equal(taken, 11); /* 10 wait, and one is in the packet that is being filled */
	assert_int_equal(stats(r).waiting, 10);
	assert_int_equal(stats(r).dropped_ring, 89);
	assert_int_equal(sl_reporter_drain(r, 1000000), -ETIMEDOUT);
	while ((err = sl_reporter_drain(r, 1000000)) == -ETIMEDOUT) {
		assert_true(base_now_ns() < end);
		step(t);
	}
	assert_int_equal(err, 0);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(t->counts[i], i < taken);
	sl_reporter_close(r);
	translator_free(t);
}

/*
 * An outage that lasts longer than a reporter ever waits, during which more reports are sent than
 * fit in a translator's window; the translator comes back, or another one replaces it.
 */
static void essential_reports_outlast_an_outage(void **state)
{
	const struct sl_report_dest how = {.flags = SL_REPORT_ESSENTIAL};

	(void)state;
	for (int another = 0; another < 2; another++) {
		struct translator *t = translator_new();
		struct sl_reporter *r = reporter(t, (struct sl_reporter_opts){.packet_bytes = 512});
		const uint64_t end = base_now_ns() + 100000000000ull;
		uint32_t none = 0, value = 0;
		int err;

		t->most = 400;
		t->counts = calloc(t->most, 1);
		assert_non_null(t->counts);
		for (; value < 200; value++)
			assert_int_equal(sl_report_append(r, &how, 1, &value, 4), 0);
		sl_reporter_flush(r);
		t->mute = true;
		if (another)
			step(t);	      /* all arrived */
		while (stats(r).again < 32) { /* eight times each */
			assert_true(base_now_ns() < end);
			for (int i = 0; i < 200; i++)
				assert_int_equal(sl_report_append(r, NULL, 2, &none, 4), 0);
			assert_int_equal(sl_reporter_poll(r), 0);
			while (next_packet(t))
				;
			poll(NULL, 0, 1);
		}
		assert_true(stats(r).sent > 3 * 4096);
		if (another) {
			dta_loss_free(t->loss);
			t->loss = dta_loss_new(NULL);
			memset(t->counts, 0, t->most);
		}
		t->mute = false;
		for (; value < 400; value++) {
			assert_int_equal(sl_report_append(r, &how, 1, &value, 4), 0);
			step(t);
		}
		while ((err = sl_reporter_drain(r, 1000000)) == -ETIMEDOUT) {
			assert_true(base_now_ns() < end);
			step(t);
		}
		assert_int_equal(err, 0);
		for (value = 0; value < 400; value++)
			assert_int_equal(t->counts[value], 1);
		assert_int_equal(stats(r).waiting, 0);
		sl_reporter_close(r);
		translator_free(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(essential_reports_arrive_once_over_a_lossy_network),
		cmocka_unit_test(more_holes_than_an_answer_can_name_lose_nothing),
		cmocka_unit_test(reports_leave_an_unreachable_translator),
		cmocka_unit_test(reports_leave_a_silent_translator),
		cmocka_unit_test(at_most_a_window_is_stored_twice),
		cmocka_unit_test(answers_of_strangers_are_refused),
		cmocka_unit_test(what_is_resent_has_the_newest_value),
		cmocka_unit_test(a_full_ring_refuses_and_gives_nothing_up),
		cmocka_unit_test(essential_reports_outlast_an_outage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
