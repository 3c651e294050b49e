// SPDX-License-Identifier: Apache-2.0
/*
 * test_report.c - the reporter library with a simulated translator: reports arrive, and the
 * counters add up.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/report.h>

#include "support/test.h"
#include "support/random.h"
#include "base/base.h"
#include "dta/wire/auth.h"
#include "dta/translate/loss.h"

#define NEVER 3600000000000ull

static struct dta_packet got;
static uint64_t seed = 1;

static uint32_t rnd(uint32_t below)
{
	return random_below(&seed, below);
}

/* ---- a translator ---- */

struct translator {
	int fd;
	char address[32];
	struct dta_loss *loss;
	struct dta_key *key;
	uint32_t lose_percent, credits;
	bool holes; /* every second packet is lost, and nothing is answered */
	bool mute;  /* all answers are lost */
	uint64_t packets, reports, again, taken;
	struct sockaddr_in from;
	uint8_t packet[DTA_PACKET_MAX];
	uint8_t *counts; /* number of appended items by their u32 value; NULL: not wanted */
	uint32_t most;
};

static struct translator *translator_new(void)
{
	struct translator *t = calloc(1, sizeof(*t));
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);

	assert_non_null(t);
	t->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_true(t->fd >= 0);
	assert_int_equal(bind(t->fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(getsockname(t->fd, (struct sockaddr *)&a, &n), 0);
	snprintf(t->address, sizeof(t->address), "127.0.0.1:%u", ntohs(a.sin_port));
	t->loss = dta_loss_new(&(struct dta_loss_opts){.nack_ns = 1000000});
	assert_non_null(t->loss);
	t->credits = ~0u;
	return t;
}

static void translator_free(struct translator *t)
{
	if (t->fd >= 0)
		close(t->fd);
	dta_loss_free(t->loss);
	dta_key_free(t->key);
	free(t->counts);
	free(t);
}

/* The next packet, parsed into got. */
static bool next_packet(struct translator *t)
{
	socklen_t n = sizeof(t->from);
	ssize_t bytes;

	bytes = recvfrom(t->fd, t->packet, sizeof(t->packet), 0, (struct sockaddr *)&t->from, &n);
	if (bytes < 0)
		return false;
	assert_int_equal(dta_parse(t->packet, (size_t)bytes, &got), DTA_FINE);
	if (t->key)
		assert_true(dta_mac_fits(t->key, t->packet, (size_t)bytes));
	if (!got.header.reports) {
		const struct dta_loss_key k = {.address.s6_addr[15] = 1,
					       .tenant = got.header.tenant,
					       .reporter = got.header.reporter};

		if (!t->mute)
			dta_loss_heartbeat(t->loss, &k, &got.header, base_now_ns());
		return next_packet(t);
	}
	t->packets++;
	t->reports += got.header.reports;
	t->again += (got.header.flags & DTA_AGAIN) != 0;
	return true;
}

static void say(struct translator *t, const struct dta_answer *a)
{
	uint8_t p[1024];
	size_t n = dta_answer_build(a, p, sizeof(p));

	if (t->key)
		n = dta_mac_put(t->key, p, n);
	sendto(t->fd, p, n, 0, (struct sockaddr *)&t->from, sizeof(t->from));
}

/* Reads the available packets, loses some of them, counts each report's value, and answers. */
static void step(struct translator *t)
{
	static uint64_t fresh[DTA_LOSS_FRESH_WORDS];
	struct dta_loss_key k = {.address.s6_addr[15] = 1}, to;
	struct dta_answer a;

	while (next_packet(t)) {
		uint32_t at = 0;
		int n;

		if (rnd(100) < t->lose_percent || (t->holes && got.header.sequence % 2))
			continue;
		k.tenant = got.header.tenant;
		k.reporter = got.header.reporter;
		n = dta_loss_packet(t->loss, &k, &got.header, 32, base_now_ns(), fresh);
		assert_true(n >= 0);
		t->taken += (uint64_t)n;
		for (uint32_t i = 0; i < got.header.blocks; i++) {
			const struct dta_block *b = &got.block[i];

			for (uint32_t j = 0; j < b->count; j++, at++) {
				uint32_t value;

				if (!t->counts || b->opcode != DTA_APPEND ||
				    b->items[8 * j + 3] != 1 || !(fresh[at / 64] >> at % 64 & 1))
					continue;
				memcpy(&value, b->items + 8 * j + 4, 4);
				assert_true(value < t->most);
				t->counts[value]++;
			}
		}
	}
	while (!t->holes && dta_loss_answer(t->loss, base_now_ns(), &to, &a)) {
		a.credits = t->credits;
		if (!t->mute && rnd(100) >= t->lose_percent)
			say(t, &a);
	}
}

static struct dta_loss_stats total_of(const struct translator *t)
{
	struct dta_loss_stats s;

	dta_loss_total(t->loss, &s);
	return s;
}

static struct sl_reporter *reporter(struct translator *t, struct sl_reporter_opts o)
{
	struct sl_reporter *r;

	o.sz = sizeof(o);
	o.target = t->address;
	o.flush_ns = o.flush_ns ? o.flush_ns : NEVER;
	r = sl_reporter_open(&o);
	assert_non_null(r);
	return r;
}

static struct sl_reporter_stats stats(const struct sl_reporter *r)
{
	struct sl_reporter_stats s = SL_OPTS(sl_reporter_stats);

	assert_int_equal(sl_reporter_stats(r, &s), 0);
	assert_int_equal(s.reports, s.sent + s.packed + s.unchanged + s.sampled_out +
					    s.dropped_full + s.dropped_credits + s.dropped_error +
					    s.dropped_ring);
	return s;
}

/* ---- tests ---- */

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
	/* Binomial, n = 20000, p = 1/8: 2500 +- 47; six of those. The keys are fixed, chance is
	 * not. */
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
	t->key = dta_key_new(key, sizeof(key));
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
		cmocka_unit_test(essential_reports_arrive_once_over_a_lossy_network),
		cmocka_unit_test(more_holes_than_an_answer_can_name_lose_nothing),
		cmocka_unit_test(reports_leave_an_unreachable_translator),
		cmocka_unit_test(reports_leave_a_silent_translator),
		cmocka_unit_test(at_most_a_window_is_stored_twice),
		cmocka_unit_test(answers_of_strangers_are_refused),
		cmocka_unit_test(what_is_resent_has_the_newest_value),
		cmocka_unit_test(a_full_ring_refuses_and_gives_nothing_up),
		cmocka_unit_test(a_stream_that_ends_says_so),
		cmocka_unit_test(essential_reports_outlast_an_outage),
		cmocka_unit_test(credits_hold_reports_back),
		cmocka_unit_test(the_originals_forms_go_out),
		cmocka_unit_test(wrong_options_are_refused),
		cmocka_unit_test(reports_out_of_bounds_are_refused),
		cmocka_unit_test(a_null_reporter_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
