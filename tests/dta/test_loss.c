// SPDX-License-Identifier: Apache-2.0
/*
 * test_loss.c - expected = arrived + missing + lost, and no report counts twice, in any order of
 * arrival.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "support/random.h"
#include "loss_drive.h"

static uint64_t seed;

static uint32_t rnd(uint32_t below)
{
	return random_below(&seed, below);
}

static int give(struct dta_loss *l, uint32_t sequence, uint32_t n, uint64_t now)
{
	struct dta_loss_key k = key_of(1);
	struct dta_header h = {.sequence = sequence, .reports = n};

	return dta_loss_packet(l, &k, &h, 32, now, fresh);
}

static bool is_fresh(uint32_t i)
{
	return fresh[i / 64] >> i % 64 & 1;
}

static void in_order_all_is_fresh_and_no_answer_is_due(void **state)
{
	struct dta_loss *l = dta_loss_new(NULL);
	struct dta_answer a;
	struct dta_loss_key to;
	uint32_t at = 0;

	(void)state;
	assert_non_null(l);
	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t n = 1 + rnd(i % 50 ? 100 : DTA_REPORTS_MAX);

		assert_int_equal(give(l, at, n, i), n);
		for (uint32_t k = 0; k < n; k++)
			assert_true(is_fresh(k));
		at += n;
	}
	assert_int_equal(total(l).arrived, at);
	assert_int_equal(total(l).expected, at);
	assert_false(dta_loss_answer(l, 1000000 * MS, &to, &a));
	assert_int_equal(give(l, at - 64, 64, 5), 0); /* again */
	assert_int_equal(total(l).duplicates, 64);
	assert_int_equal(give(l, at - 5000, 10, 5), 0); /* behind the window */
	assert_int_equal(total(l).late, 10);
	dta_loss_free(l);
}

static void a_gap_is_named_with_doubling_until_it_is_lost(void **state)
{
	struct dta_loss_opts o = {.nack_ns = 2 * MS, .nacks = 5};
	struct dta_loss *l = dta_loss_new(&o);
	struct dta_answer a;
	struct dta_loss_key to;
	uint64_t at[8];
	uint32_t named = 0;

	(void)state;
	assert_int_equal(give(l, 0, 10, 0), 10);
	assert_int_equal(give(l, 15, 5, 0), 5); /* 10 to 14 are missing */
	assert_int_equal(total(l).missing, 5);
	for (uint64_t now = 0; now < 1000 * MS; now += MS) {
		while (dta_loss_answer(l, now, &to, &a)) {
			assert_true(named < 8);
			at[named++] = now;
			assert_int_equal(a.type, DTA_NACK);
			assert_int_equal(a.ranges, 1);
			assert_int_equal(a.range[0].first, 10);
			assert_int_equal(a.range[0].count, 5);
			assert_int_equal(a.next, 10);
			assert_int_equal(to.port, 1000);
		}
	}
	assert_int_equal(named, 5);
	for (uint32_t i = 0; i < 5; i++) /* 2, 6, 14, 30, 62 ms */
		assert_int_equal(at[i], ((4ull << i) - 2) * MS);
	assert_int_equal(total(l).lost, 5);
	assert_int_equal(total(l).nacks, 5);
	/* The window still knows that they never arrived: they are accepted, once. */
	assert_int_equal(give(l, 10, 5, 1001 * MS), 5);
	assert_int_equal(give(l, 10, 5, 1001 * MS), 0);
	assert_int_equal(total(l).lost, 0);
	assert_int_equal(total(l).arrived, 20);
	assert_int_equal(total(l).recovered, 0);
	dta_loss_free(l);
}

static void a_retransmission_fills_exactly_what_is_missing(void **state)
{
	struct dta_loss *l = dta_loss_new(NULL);
	struct dta_answer a;
	struct dta_loss_key to;

	(void)state;
	give(l, 0, 1, 0);
	give(l, 31, 10, 0);
	give(l, 15, 1, 0); /* splits the gap */
	assert_true(dta_loss_answer(l, 10 * MS, &to, &a));
	assert_int_equal(a.ranges, 2);
	assert_int_equal(a.range[0].first, 1);
	assert_int_equal(a.range[0].count, 14);
	assert_int_equal(a.range[1].first, 16);
	assert_int_equal(a.range[1].count, 15);
	assert_false(dta_loss_answer(l, 10 * MS, &to, &a));
	/*
	 * A packet with some of the missing reports, some that already arrived, and some new ones.
	 */
	assert_int_equal(give(l, 10, 40, 11 * MS), 5 + 15 + 9);
	for (uint32_t i = 0; i < 40; i++)
		assert_int_equal(is_fresh(i), 10 + i != 15 && (10 + i < 31 || 10 + i > 40));
	assert_int_equal(total(l).duplicates, 11);
	assert_int_equal(total(l).missing, 9);
	assert_int_equal(total(l).recovered, 20);
	assert_int_equal(give(l, 1, 9, 11 * MS), 9);
	assert_int_equal(total(l).missing, 0);
	assert_false(dta_loss_answer(l, 1000 * MS, &to, &a));
	dta_loss_free(l);
}

static void an_acknowledgement_says_what_is_settled(void **state)
{
	struct dta_loss *l = dta_loss_new(NULL);
	struct dta_loss_key k = key_of(1), to;
	struct dta_header h = {
		.sequence = 20, .reports = 5, .incarnation = 77, .flags = DTA_ACK_WANTED};
	struct dta_answer a;

	(void)state;
	k.port = 4711;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), 5);
	assert_true(dta_loss_answer(l, 0, &to, &a));
	assert_int_equal(to.port, 4711);
	assert_int_equal(a.type, DTA_ACK);
	assert_int_equal(a.incarnation, 77);
	assert_int_equal(a.next, 0); /* an incarnation begins at 0 */
	assert_int_equal(a.ranges, 1);
	assert_int_equal(a.range[0].first, 20);
	assert_int_equal(a.range[0].count, 5);
	assert_int_equal(a.credits, ~0u);
	assert_false(dta_loss_answer(l, 0, &to, &a));
	h.sequence = 0;
	h.reports = 20;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), 20);
	assert_true(dta_loss_answer(l, 0, &to, &a));
	assert_int_equal(a.next, 25);
	assert_int_equal(a.ranges, 0);
	/*
	 * Reports that were given up hold next back, because they may still arrive, until the
	 * window has moved on.
	 */
	h.sequence = 30;
	h.reports = 100;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), 100);
	for (uint64_t now = 0; now < 1000 * MS; now += MS)
		while (dta_loss_answer(l, now, &to, &a))
			continue;
	assert_int_equal(total(l).lost, 5);
	for (h.sequence = 130; h.sequence < 8130; h.sequence += 100) {
		assert_int_equal(dta_loss_packet(l, &k, &h, 32, 1000 * MS, fresh), 100);
		assert_true(dta_loss_answer(l, 1000 * MS, &to, &a));
		if (h.sequence + 100 <= 25 + 4096) {
			assert_int_equal(a.next, 25);
			assert_int_equal(a.ranges, 1);
			assert_int_equal(a.range[0].first, 30);
			assert_int_equal(a.range[0].count, h.sequence + 100 - 30);
		} else if (h.sequence + 100 >= 30 + 4096) {
			assert_int_equal(a.next, h.sequence + 100);
			assert_int_equal(a.ranges, 0);
		}
	}
	dta_loss_free(l);
}

/*
 * The previous translator was killed: unacknowledged reports are sent again, and acknowledged ones
 * are not requested.
 */
static void in_the_middle_what_was_kept_is_taken(void **state)
{
	struct dta_loss *l = dta_loss_new(NULL);
	struct dta_loss_key k = key_of(1), to;
	struct dta_header h = {.sequence = 10000, .reports = 10, .flags = DTA_ACK_WANTED};
	struct dta_answer a;

	(void)state;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), 10);
	assert_true(dta_loss_answer(l, 0, &to, &a));
	assert_int_equal(a.next, 10010 - 4096); /* nothing is known of earlier reports */
	assert_int_equal(a.ranges, 1);
	assert_int_equal(a.range[0].first, 10000);
	assert_int_equal(a.range[0].count, 10);
	assert_false(dta_loss_answer(l, 1000 * MS, &to, &a));
	h.sequence = 9900;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), 10);
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), 0);
	assert_true(dta_loss_answer(l, 0, &to, &a));
	assert_int_equal(a.ranges, 2);
	assert_int_equal(a.range[0].first, 9900);
	assert_int_equal(total(l).expected, 20);
	assert_int_equal(total(l).duplicates, 10);
	h.sequence = 10010 - 4096 - 10;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), 0); /* behind the window */
	assert_int_equal(total(l).late, 10);
	/*
	 * A gap after our start is an ordinary gap; and after the window has left the start behind,
	 * nothing is special.
	 */
	h.sequence = 10020;
	h.reports = 5000;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), 5000);
	assert_int_equal(total(l).lost, 10);
	h.sequence = 15020;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), 5000);
	while (dta_loss_answer(l, 0, &to, &a))
		continue;
	assert_int_equal(a.type, DTA_ACK);
	assert_int_equal(a.next, 20020);
	assert_int_equal(total(l).expected, 20 + 10 + 10000);
	/* The whole window is accepted once more, and nothing else. */
	dta_loss_reset(l);
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), 4096);
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), 0);
	assert_int_equal(total(l).arrived, 20 + 10000 + 4096);
	dta_loss_free(l);
}

/* The first packet after a jump is accepted; the second one makes the window follow. */
static void a_jump_forward_is_loss_and_costs_nothing(void **state)
{
	struct dta_loss *l = dta_loss_new(NULL);
	struct dta_answer a;
	struct dta_loss_key to;

	(void)state;
	give(l, 0, 1, 0);
	give(l, 3, 1, 0);
	assert_int_equal(give(l, 0x70000000, 5, 0), 5);
	assert_int_equal(give(l, 0x70000000, 5, 0), 0);
	assert_int_equal(total(l).duplicates, 5);
	assert_int_equal(total(l).expected, 4 + 5);
	assert_int_equal(give(l, 0x70000005, 5, 0), 5);
	assert_int_equal(total(l).expected, 0x7000000aull);
	assert_int_equal(total(l).missing, 4096 - 10);
	assert_true(dta_loss_answer(l, 10 * MS, &to, &a));
	assert_int_equal(a.ranges, 1);
	assert_int_equal(a.range[0].first, 0x7000000a - 4096);
	assert_int_equal(a.range[0].count, 4096 - 10);
	assert_int_equal(give(l, 0x70000000 - 1, 1, 0), 1);
	assert_int_equal(give(l, 0x70000000, 10, 0), 0);
	/* Reordered, and each beyond the window of the other. */
	assert_int_equal(give(l, 0x70010005, 5, 0), 5);
	assert_int_equal(give(l, 0x70010000, 5, 0), 5);
	assert_int_equal(give(l, 0x70010000, 10, 0), 0);
	assert_int_equal(total(l).expected, 0x7001000aull);
	assert_int_equal(give(l, 0x70020000, 5, 0), 5);
	assert_int_equal(give(l, 0x70030000, 5, 0), 5);
	assert_int_equal(total(l).expected, 0x70030005ull);
	dta_loss_free(l);
}

/* The loss of the end of a stream is discovered by a heartbeat, which has no reports of its own. */
static void a_heartbeat_tells_of_a_lost_end(void **state)
{
	struct dta_loss *l = dta_loss_new(NULL);
	struct dta_loss_key k = key_of(1), to;
	struct dta_header h = {.sequence = 30};
	struct dta_answer a;

	(void)state;
	dta_loss_heartbeat(l, &k, &h, 0); /* of an unknown reporter */
	assert_int_equal(total(l).reporters, 0);
	give(l, 0, 10, 0);
	dta_loss_heartbeat(l, &k, &h, 0);
	dta_loss_heartbeat(l, &k, &h, 0);
	assert_int_equal(total(l).expected, 30);
	assert_int_equal(total(l).missing, 20);
	assert_true(dta_loss_answer(l, 10 * MS, &to, &a));
	assert_int_equal(a.type, DTA_NACK);
	assert_int_equal(a.range[0].first, 10);
	assert_int_equal(a.range[0].count, 20);
	assert_int_equal(give(l, 20, 10, 0), 10);
	assert_int_equal(total(l).missing, 10);
	h.sequence = 0; /* an old one */
	dta_loss_heartbeat(l, &k, &h, 0);
	h.sequence = 30 + 4097; /* anyone may have sent it */
	dta_loss_heartbeat(l, &k, &h, 0);
	assert_int_equal(total(l).expected, 30);
	h.sequence = 30 + 4096;
	dta_loss_heartbeat(l, &k, &h, 0);
	assert_int_equal(total(l).expected, 30 + 4096);
	dta_loss_free(l);
}

static void no_single_packet_moves_a_window(void **state)
{
	struct dta_loss *l = dta_loss_new(NULL);
	uint64_t now = 0;
	uint32_t at = 0, late;

	(void)state;
	for (; at < 10000; at += 10)
		assert_int_equal(give(l, at, 10, now), 10);
	for (uint32_t i = 0; i < 100; i++) { /* forged, far ahead and far behind */
		give(l, at + 0x10000000 * (1 + i % 7), 1, now);
		give(l, at - 0x10000000 * (1 + i % 7), 1, now);
		for (uint32_t k = 0; k < 10; k++, at += 10)
			assert_int_equal(give(l, at, 10, now), 10);
		now += 10 * MS;
	}
	assert_int_equal(total(l).lost + total(l).missing, 0);
	assert_int_equal(total(l).expected, at + 100);
	/*
	 * Two packets that agree move it; the losses that it counted are taken back, and the
	 * reporter is accepted.
	 */
	give(l, at + 0x40000000, 1, now);
	give(l, at + 0x40000001, 1, now);
	assert_true(total(l).lost > 0x3ff00000);
	for (late = 0; !give(l, at, 10, now); late++, at += 10) {
		now += 10 * MS;
		assert_true(late < 300);
	}
	for (uint32_t k = 0; k < 10; k++)
		assert_int_equal(give(l, at += 10, 10, now), 10);
	assert_true(total(l).lost < 10000);
	/* A jump that the window reaches later was not a jump. */
	at += 10;
	assert_int_equal(give(l, at + 5000, 10, now), 10);
	for (uint32_t k = 0; k < 500; k++, at += 10)
		assert_int_equal(give(l, at, 10, now), 10);
	assert_int_equal(give(l, at, 10, now), 0);
	dta_loss_free(l);
}

static void beat(struct dta_loss *l, uint32_t sequence)
{
	const struct dta_loss_key k = key_of(1);

	dta_loss_heartbeat(l, &k, &(struct dta_header){.sequence = sequence}, 0);
}

/* If a window passes over a jump that was accepted but not followed, it counts the jump once. */
static void a_window_that_passes_a_jump_has_taken_it(void **state)
{
	struct dta_loss *l = dta_loss_new(NULL);

	(void)state;
	give(l, 0, 100, 0);
	assert_int_equal(give(l, 4250, 20, 0), 20);
	assert_int_equal(give(l, 160, 40, 0), 40);
	beat(l, 4270);
	assert_int_equal(total(l).expected, 4270);
	assert_int_equal(give(l, 4250, 20, 0), 0);
	give(l, 8400, 20, 0);
	assert_int_equal(total(l).expected, 4270 + 20);
	dta_loss_free(l);
	/* By a heartbeat, or by a packet, that ends beyond both. */
	for (int packet = 0; packet < 2; packet++) {
		l = dta_loss_new(NULL);
		give(l, 0, 90, 0);
		assert_int_equal(give(l, 4190, 20, 0), 20);
		assert_int_equal(give(l, 90, 10, 0), 10);
		if (packet)
			assert_int_equal(give(l, 4180, 40, 0), 20);
		else
			beat(l, 4196);
		assert_int_equal(total(l).expected, packet ? 4220 : 4210);
		assert_int_equal(give(l, 4190, 20, 0), 0);
		dta_loss_free(l);
	}
	/* A report follows within the window: nothing is given up twice. */
	l = dta_loss_new(NULL);
	give(l, 0, 10, 0);
	give(l, 20, 80, 0);
	assert_int_equal(give(l, 4250, 20, 0), 20);
	assert_int_equal(give(l, 160, 40, 0), 40);
	assert_int_equal(give(l, 4300, 20, 0), 20);
	assert_int_equal(total(l).expected, 4320);
	give(l, 4310 - 4500, 20, 2000 * MS);
	give(l, 4310 - 4480, 20, 2000 * MS);
	assert_int_equal(total(l).lost + total(l).missing, 10 + 60 + 4050 + 30 + 20);
	dta_loss_free(l);
	/* A packet backward confirms no jump forward. */
	l = dta_loss_new(NULL);
	give(l, 0, 8000, 0);
	give(l, 8000, 8000, 0);
	assert_int_equal(give(l, 1000, 20, 0), 0);
	assert_int_equal(give(l, 30000, 20, 0), 20);
	assert_int_equal(total(l).expected, 16020);
	dta_loss_free(l);
}

static void more_gaps_than_are_kept_are_given_up_oldest_first(void **state)
{
	struct dta_loss *l = dta_loss_new(NULL);
	uint32_t n = DTA_LOSS_GAPS_MAX + 50;

	(void)state;
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(give(l, 2 * i + 1, 1, 0), 1);
	assert_int_equal(total(l).missing, DTA_LOSS_GAPS_MAX);
	assert_int_equal(total(l).lost, 50);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(give(l, 2 * i, 1, 0), 1);
	assert_int_equal(total(l).missing + total(l).lost, 0);
	/*
	 * A split when there is no room: the oldest gap is given up, which may be the one that is
	 * split.
	 */
	give(l, 2 * n + 100, 1, 0);
	for (uint32_t i = 0; i < 2 * DTA_LOSS_GAPS_MAX; i++)
		give(l, 2 * n + 102 + 2 * i, 1, 0);
	assert_int_equal(give(l, 2 * n + 50, 1, 0), 1);
	total(l);
	dta_loss_free(l);
	l = dta_loss_new(NULL);
	give(l, 100, 1, 0);
	for (uint32_t i = 1; i < DTA_LOSS_GAPS_MAX; i++)
		give(l, 100 + 2 * i, 1, 0);
	assert_int_equal(give(l, 50, 1, 0), 1);
	assert_int_equal(total(l).lost, 50); /* 0 to 49; 51 to 99 is a gap still */
	assert_int_equal(give(l, 60, 1, 0), 1);
	assert_int_equal(total(l).lost, 50 + 9);
	dta_loss_free(l);
}

/*
 * Packets arrive at once, a little late or far too late, and each one twice. Their numbers wrap in
 * the middle of a packet. Each report of a packet is judged separately: it is taken if it is new
 * and lies within the window.
 */
static void reports_come_once_in_the_window_and_never_behind(void **state)
{
	enum { PACKETS = 4000, REPORTS = 7, WINDOW = 4096 };
	const uint32_t start = 0u - PACKETS * REPORTS / 2 - 3;
	static uint32_t delay[PACKETS];
	static bool taken[PACKETS * REPORTS];
	struct dta_loss *l = dta_loss_new(NULL);
	int64_t top = 0;

	(void)state;
	seed = 5;
	for (int i = 1; i < PACKETS; i++)
		delay[i] = rnd(20) ? 0 : rnd(2) ? 1 + rnd(200) : 580 + rnd(100);
	memset(taken, 0, sizeof(taken));
	for (int now = 0; now < PACKETS + 800; now++)
		for (int i = now > 800 ? now - 800 : 0; i <= now && i < PACKETS; i++) {
			const int64_t first = (int64_t)i * REPORTS;
			int n = 0;

			if (now != i + (int)delay[i] && now != i + (int)delay[i] + 50)
				continue;
			if (first + REPORTS > top)
				top = first + REPORTS;
			for (int j = 0; j < REPORTS; j++) {
				const bool is_new = !taken[first + j] &&
						    top - (first + j) <= WINDOW;

				taken[first + j] |= is_new;
				n += is_new;
			}
			assert_int_equal(give(l, start + (uint32_t)first, REPORTS, 0), n);
		}
	assert_int_equal(total(l).expected, PACKETS * REPORTS);
	assert_true(total(l).late > 100 && total(l).lost > 100 && total(l).reordered > 100);
	dta_loss_free(l);
}

#define FLIGHT 64 /* packets under way at most */

/*
 * A network that loses, duplicates and reorders, and a reporter that retransmits what a NACK names,
 * simulated: each report is taken at most once, the account closes at each step, and at the end the
 * reports not taken are the lost ones. bits 8: the original's sequence numbers, which wrap every
 * 256 packets.
 */
struct network {
	uint32_t bits, start, mask, loss_percent;
	struct {
		uint64_t first;
		uint32_t n;
	} flight[FLIGHT];
	uint32_t flying;
	uint64_t sent, count;
	uint8_t *taken;
};

static void network_send(struct network *w, uint32_t end, uint32_t reorder)
{
	while (w->sent < end && w->flying < reorder) {
		uint32_t m = w->bits == 8 ? 1 : 1 + rnd(20);
		uint32_t times = !w->sent || rnd(100) >= w->loss_percent;

		times += times && rnd(10) == 0; /* twice */
		for (; times && w->flying < FLIGHT; times--) {
			w->flight[w->flying].first = w->sent;
			w->flight[w->flying++].n = m;
		}
		w->sent += m;
	}
}

/* One of the packets in transit arrives. */
static void network_arrive(struct network *w, struct dta_loss *l, const struct dta_loss_key *k,
			   uint64_t now)
{
	uint32_t i = w->sent > 30 ? rnd(w->flying) : 0; /* the first comes first */
	struct dta_header h = {0};
	int n;

	for (uint32_t j = 0; j < w->flying; j++) /* none is later than the window */
		if (w->flight[j].first + (w->bits == 8 ? 40 : 800) < w->sent)
			i = j;
	h.sequence = (uint32_t)(w->start + w->flight[i].first) & w->mask;
	h.reports = w->flight[i].n;
	n = dta_loss_packet(l, k, &h, w->bits, now, fresh);
	assert_true(n >= 0);
	for (uint32_t j = 0; j < w->flight[i].n; j++) {
		if (!is_fresh(j))
			continue;
		assert_false(w->taken[w->flight[i].first + j]);
		w->taken[w->flight[i].first + j] = 1;
		w->count++;
		n--;
	}
	assert_int_equal(n, 0);
	w->flight[i] = w->flight[--w->flying];
	assert_int_equal(total(l).arrived, w->count);
}

static void network_retransmit(struct network *w, const struct dta_answer *a)
{
	for (uint32_t r = 0; r < a->ranges; r++) {
		/* The last report sent among those that the number can mean. */
		uint64_t first = w->sent -
				 ((uint32_t)(w->start + w->sent - a->range[r].first) & w->mask);

		for (uint32_t at = 0; at < a->range[r].count && w->flying < FLIGHT; at += 100) {
			uint32_t m = a->range[r].count - at;

			w->flight[w->flying].first = first + at;
			w->flight[w->flying++].n = w->bits == 8 ? 1 : m > 100 ? 100 : m;
		}
	}
}

static void network(uint32_t bits, uint32_t start, uint32_t loss_percent, bool retransmit)
{
	struct dta_loss_opts o = {.window = 1024};
	struct dta_loss *l = dta_loss_new(&o);
	struct dta_loss_key k = key_of(1), to;
	uint32_t end = 20000, reorder = bits == 8 ? 8 : FLIGHT - 8;
	struct network w = {.bits = bits,
			    .start = start,
			    .mask = bits == 8 ? 0xff : ~0u,
			    .loss_percent = loss_percent,
			    .taken = calloc(1, end + 200)};
	struct dta_loss_stats s;
	struct dta_answer a;

	assert_non_null(l);
	assert_non_null(w.taken);
	for (uint64_t now = MS / 4; w.sent < end || w.flying; now += MS / 4) {
		network_send(&w, end, reorder);
		if (!w.flying)
			continue;
		network_arrive(&w, l, &k, now);
		while (dta_loss_answer(l, now, &to, &a))
			if (retransmit)
				network_retransmit(&w, &a);
	}
	s = total(l);
	/* Reports at the end that were never seen are not expected either. */
	assert_true(s.expected <= w.sent && s.expected + 1000 > w.sent);
	assert_int_equal(s.expected - s.arrived, s.missing + s.lost);
	if (!loss_percent)
		assert_true(s.missing + s.lost == 0);
	else if (retransmit && bits == 32)
		assert_true(s.recovered > 0 && s.lost + s.missing < w.sent / 50);
	else if (!retransmit)
		assert_true(s.lost + s.missing > 0);
	assert_true(s.duplicates > 0);
	free(w.taken);
	dta_loss_free(l);
}

static void the_account_closes_over_any_network(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 12; i++) {
		seed = i;
		network(32, i % 2 ? 0 : 0xffffffff - 9000, i % 3 * 10, i & 1);
		network(8, i * 50, 0, false);
		network(8, i * 50, 10, i & 1);
	}
}

static void options_out_of_bounds_are_refused(void **state)
{
	struct dta_loss_opts o = {.window = 100};
	struct dta_header h = {.reports = 1};
	struct dta_loss_key k = key_of(1);
	struct dta_loss *l = dta_loss_new(NULL);

	(void)state;
	assert_null(dta_loss_new(&o));
	o.window = 32;
	assert_null(dta_loss_new(&o));
	assert_int_equal(dta_loss_packet(l, &k, &h, 16, 0, fresh), -EINVAL);
	h.reports = 0;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), -EINVAL);
	h.reports = DTA_REPORTS_MAX + 1;
	assert_int_equal(dta_loss_packet(l, &k, &h, 32, 0, fresh), -EINVAL);
	dta_loss_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order_all_is_fresh_and_no_answer_is_due),
		cmocka_unit_test(a_gap_is_named_with_doubling_until_it_is_lost),
		cmocka_unit_test(a_retransmission_fills_exactly_what_is_missing),
		cmocka_unit_test(an_acknowledgement_says_what_is_settled),
		cmocka_unit_test(in_the_middle_what_was_kept_is_taken),
		cmocka_unit_test(a_jump_forward_is_loss_and_costs_nothing),
		cmocka_unit_test(no_single_packet_moves_a_window),
		cmocka_unit_test(a_window_that_passes_a_jump_has_taken_it),
		cmocka_unit_test(a_heartbeat_tells_of_a_lost_end),
		cmocka_unit_test(more_gaps_than_are_kept_are_given_up_oldest_first),
		cmocka_unit_test(reports_come_once_in_the_window_and_never_behind),
		cmocka_unit_test(the_account_closes_over_any_network),
		cmocka_unit_test(options_out_of_bounds_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
