// SPDX-License-Identifier: Apache-2.0
/*
 * test_order.c - the last value that a reporter wrote to a key wins, in any order of arrival: over
 * a network that loses, delays and duplicates, and a reporter that resends what is missing.
 */
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "support/random.h"
#include "dta/translate/loss.h"
#include "dta/wire/endian.h"

#define MS     1000000ull
#define KEYS   5000u
#define PACK   7u
#define BYTES  512u
#define FLIGHT 24u
#define HOPS   5u

struct packet {
	uint8_t bytes[BYTES];
	size_t length;
	uint32_t first;
	bool again;
};

struct world {
	struct dta_loss *loss;
	uint64_t seed, now;
	uint32_t newest[KEYS],
		stored[KEYS]; /* numbers of reports: of all that arrived, and in the store */
	struct packet *sent;  /* all of them */
	struct packet flight[FLIGHT];
	uint32_t packets, flying;
	bool hops; /* postcards: a key is a hop */
	uint64_t superseded, taken;
};

static uint64_t fresh[DTA_LOSS_FRESH_WORDS];
static struct dta_packet parsed;

/* Processes a packet as a translator does. */
static void deliver(struct world *w, const struct packet *p, uint16_t reporter)
{
	const struct dta_loss_key from = {.tenant = 1, .reporter = reporter, .port = 9};
	uint64_t arrived[DTA_LOSS_FRESH_WORDS];
	uint32_t report = 0;
	int n;

	assert_int_equal(dta_parse(p->bytes, p->length, &parsed), DTA_FINE);
	n = dta_loss_packet(w->loss, &from, &parsed.header, 32, w->now, fresh);
	assert_true(n >= 0);
	if (!n)
		return;
	memcpy(arrived, fresh, sizeof(arrived));
	w->superseded += dta_loss_superseded(w->loss, &parsed, fresh);
	for (uint32_t k = 0; k < parsed.header.blocks; k++)
		for (uint32_t i = 0; i < parsed.block[k].count; i++, report++) {
			const uint8_t *item = parsed.block[k].items + i * (w->hops ? 12 : 8);
			const uint32_t key = w->hops ? dta_get32(item) * HOPS + item[4]
						     : dta_get32(item);
			const uint32_t number = dta_get32(item + (w->hops ? 8 : 4));

			if (arrived[report / 64] >> report % 64 & 1 && number > w->newest[key])
				w->newest[key] = number;
			if (!(fresh[report / 64] >> report % 64 & 1))
				continue;
			w->taken++;
			w->stored[key] = number;
		}
}

static void build(struct world *w, uint32_t sequence, uint32_t number, uint16_t reporter)
{
	struct packet *p = &w->sent[w->packets++];
	const struct dta_header h = {.tenant = 1, .reporter = reporter, .sequence = sequence};
	const struct dta_block shape = {.opcode = w->hops ? DTA_POSTCARD : DTA_KEYWRITE,
					.copies = 1,
					.key_bytes = 4,
					.value_bytes = w->hops ? 8 : 4};
	struct dta_builder b;

	dta_begin(&b, p->bytes, BYTES, &h);
	for (uint32_t i = 0; i < PACK; i++) {
		/* Few keys are written often, many now and then. */
		const uint32_t few = random_below(&w->seed, 4) ? 50 : KEYS;
		const uint32_t k = random_below(&w->seed, few);
		uint8_t key[4], value[8] = {(uint8_t)(k % HOPS), HOPS};

		dta_put32(key, w->hops ? k / HOPS : k);
		dta_put32(value + (w->hops ? 4 : 0), number + i);
		assert_int_equal(dta_put(&b, &shape, key, value), 0);
	}
	p->length = dta_end(&b);
	p->first = sequence;
}

static void send_packet(struct world *w, uint32_t i, uint32_t lose, uint16_t reporter)
{
	if (random_below(&w->seed, 100) < lose)
		return;
	for (uint32_t n = random_below(&w->seed, 20) ? 1 : 2; n; n--) {
		const uint32_t at = random_below(&w->seed, FLIGHT);

		if (w->flying < FLIGHT) {
			w->flight[w->flying++] = w->sent[i];
			continue;
		}
		/*
		 * A packet that was in transit for a long or a short time arrives: the network
		 * reorders.
		 */
		deliver(w, &w->flight[at], reporter);
		w->flight[at] = w->sent[i];
	}
}

static void land(struct world *w, uint16_t reporter)
{
	for (; w->flying; w->flying--) {
		const uint32_t at = random_below(&w->seed, w->flying);

		deliver(w, &w->flight[at], reporter);
		w->flight[at] = w->flight[w->flying - 1];
	}
}

static void resend(struct world *w, uint32_t lose, uint32_t first, uint16_t reporter)
{
	struct dta_loss_key to;
	struct dta_answer a;

	while (dta_loss_answer(w->loss, w->now, &to, &a))
		for (uint32_t i = 0; a.type == DTA_NACK && i < a.ranges; i++)
			for (uint32_t s = a.range[i].first / PACK;
			     s <= (a.range[i].first + a.range[i].count - 1) / PACK; s++)
				send_packet(w, first + s, lose, reporter);
}

static void run(uint32_t lose, uint32_t packets, bool reset, bool hops)
{
	struct world *w = calloc(1, sizeof(*w));
	struct dta_loss_stats s;
	uint32_t old = 0;

	assert_non_null(w);
	w->seed = 7 + lose;
	w->hops = hops;
	w->loss = dta_loss_new(&(struct dta_loss_opts){.nack_ns = MS, .nacks = 20});
	w->sent = calloc(packets + 1, sizeof(*w->sent));
	assert_non_null(w->loss);
	assert_non_null(w->sent);
	for (uint32_t i = 0; i < packets; i++) {
		build(w, i * PACK, i * PACK + 1, 1);
		send_packet(w, i, lose, 1);
		w->now += MS / 20;
		if (i % 16 == 0)
			resend(w, lose, 0, 1);
		if (reset && i == packets / 2) {
			land(w, 1);
			dta_loss_reset(
				w->loss); /* lost operations are retransmitted, in any order */
			for (uint32_t k = 0; k < 100; k++)
				send_packet(w, i - k, 0, 1);
		}
	}
	for (uint32_t i = 0; i < 100; i++) {
		land(w, 1);
		w->now += 10 * MS;
		resend(w, lose, 0, 1);
	}
	dta_loss_total(w->loss, &s);
	assert_int_equal(s.expected, s.arrived + s.missing + s.lost);
	assert_int_equal(s.arrived, w->taken + w->superseded);
	for (uint32_t k = 0; k < KEYS; k++)
		old += w->stored[k] != w->newest[k];
	assert_int_equal(old, 0);
	assert_true(lose == 0 || w->superseded > 0);
	assert_int_equal(s.unordered, 0);
	dta_loss_free(w->loss);
	free(w->sent);
	free(w);
}

static void the_last_value_wins_over_any_network(void **state)
{
	const char *scale = getenv("SL_TEST_SCALE");
	const uint32_t packets = (uint32_t)(20000 * (scale ? atof(scale) : 1));

	(void)state;
	run(0, packets, false, false);
	run(5, packets, false, false);
	run(30, packets, false, false);
	run(5, packets, false, true);
}

static void what_is_resent_after_a_lost_output_keeps_its_order(void **state)
{
	(void)state;
	run(0, 2000, true, false);
}

/* The writes of both were lost: the older one, which is resent first, is no longer superseded. */
static void what_an_output_lost_supersedes_nothing(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	(void)state;
	assert_non_null(w);
	w->loss = dta_loss_new(NULL);
	w->sent = calloc(3, sizeof(*w->sent));
	assert_non_null(w->loss);
	assert_non_null(w->sent);
	for (uint32_t i = 0; i < 3; i++) {
		w->seed = 3; /* the same keys */
		build(w, i * PACK, i * PACK + 1, 1);
	}
	deliver(w, &w->sent[0], 1);
	deliver(w, &w->sent[2], 1);
	dta_loss_reset(w->loss);
	w->taken = w->superseded = 0;
	deliver(w, &w->sent[1], 1);
	assert_int_equal(w->superseded, 0);
	assert_int_equal(w->taken, PACK);
	deliver(w, &w->sent[2], 1);
	assert_int_equal(w->superseded, 0);
	assert_int_equal(w->taken, 2 * PACK);
	deliver(w, &w->sent[0], 1);
	assert_int_equal(w->superseded, PACK);
	dta_loss_free(w->loss);
	free(w->sent);
	free(w);
}

/*
 * The two packets of each sender leave a hole: memory is bounded, and unordered writes are counted.
 */
static void strangers_with_holes_fill_no_memory(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct dta_loss_stats s;

	(void)state;
	assert_non_null(w);
	w->seed = 3;
	w->loss = dta_loss_new(&(struct dta_loss_opts){.reporters = 4096});
	w->sent = calloc(3, sizeof(*w->sent));
	assert_non_null(w->loss);
	assert_non_null(w->sent);
	for (uint16_t reporter = 1; reporter <= 1100; reporter++) {
		w->packets = 0;
		for (uint32_t i = 0; i < 3; i++)
			build(w, i * PACK, 1, reporter);
		deliver(w, &w->sent[0], reporter);
		deliver(w, &w->sent[2], reporter);
		deliver(w, &w->sent[1], reporter);
	}
	dta_loss_total(w->loss, &s);
	assert_int_equal(s.unordered, (1100 - 1024) * PACK);
	assert_int_equal(s.arrived, 1100 * 3 * PACK);
	dta_loss_free(w->loss);
	free(w->sent);
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_value_wins_over_any_network),
		cmocka_unit_test(what_is_resent_after_a_lost_output_keeps_its_order),
		cmocka_unit_test(what_an_output_lost_supersedes_nothing),
		cmocka_unit_test(strangers_with_holes_fill_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
