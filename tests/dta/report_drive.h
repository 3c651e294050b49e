/* SPDX-License-Identifier: Apache-2.0 */
/* report_drive.h - a translator of the test's own, and a reporter that sends to it */
#ifndef TESTS_DTA_REPORT_DRIVE_H
#define TESTS_DTA_REPORT_DRIVE_H

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

static inline uint32_t rnd(uint32_t below)
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

static inline struct translator *translator_new(void)
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

static inline void translator_free(struct translator *t)
{
	if (t->fd >= 0)
		close(t->fd);
	dta_loss_free(t->loss);
	dta_key_free(t->key);
	free(t->counts);
	free(t);
}

/* The next packet, parsed into got. */
static inline bool next_packet(struct translator *t)
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

static inline void say(struct translator *t, const struct dta_answer *a)
{
	uint8_t p[1024];
	size_t n = dta_answer_build(a, p, sizeof(p));

	if (t->key)
		n = dta_mac_put(t->key, p, n);
	sendto(t->fd, p, n, 0, (struct sockaddr *)&t->from, sizeof(t->from));
}

/* Reads the available packets, loses some of them, counts each report's value, and answers. */
static inline void step(struct translator *t)
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

static inline struct dta_loss_stats total_of(const struct translator *t)
{
	struct dta_loss_stats s;

	dta_loss_total(t->loss, &s);
	return s;
}

static inline struct sl_reporter *reporter(struct translator *t, struct sl_reporter_opts o)
{
	struct sl_reporter *r;

	o.sz = sizeof(o);
	o.target = t->address;
	o.flush_ns = o.flush_ns ? o.flush_ns : NEVER;
	r = sl_reporter_open(&o);
	assert_non_null(r);
	return r;
}

static inline struct sl_reporter_stats stats(const struct sl_reporter *r)
{
	struct sl_reporter_stats s = SL_OPTS(sl_reporter_stats);

	assert_int_equal(sl_reporter_stats(r, &s), 0);
	assert_int_equal(s.reports, s.sent + s.packed + s.unchanged + s.sampled_out +
					    s.dropped_full + s.dropped_credits + s.dropped_error +
					    s.dropped_ring);
	return s;
}

#endif
