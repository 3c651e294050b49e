// SPDX-License-Identifier: Apache-2.0
/*
 * test_net.c - network latency of synthetic records with known true values: each match is right,
 * each failure is counted under its cause, and no latency is further from the truth than its bound.
 * test_net_clock.c tests the clocks alone.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "net_truth.h"
#include "region/nic.h"
#include "source/tcp/net_file.h"
#include "source/tcp/net_round.h"
#include "source/tcp/net_stat.h"

/* ---- segments ---- */

#define SAMPLES 20000

static struct tcp_net_sample samples[SAMPLES];
static size_t sample_count;

static void took(void *context, const struct tcp_net_sample *s)
{
	(void)context;
	assert_true(sample_count < SAMPLES);
	samples[sample_count++] = *s;
}

static struct tcp_net_match *matcher_of(uint32_t flows)
{
	struct tcp_net_match_opts o = {.flows = flows, .sample = took};
	struct tcp_net_match *m = tcp_net_match_open(&o);

	assert_non_null(m);
	sample_count = 0;
	return m;
}

static struct tcp_net_match *matcher(void)
{
	return matcher_of(0);
}

/* From A's 10.0.0.1:1000 to B's 10.0.0.2:80, or back. */
static struct region_nic_record segment(int sender, bool out, uint32_t seq, uint32_t bytes,
					uint64_t time)
{
	struct region_nic_record r = {
		.time_ns = time,
		.source = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 1},
		.destination = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 2},
		.source_port = 1000,
		.destination_port = 80,
		.flags = out ? SL_NIC_OUT : 0,
		.seq = seq,
		.end = seq + bytes,
		.bytes = bytes,
	};

	if (sender) {
		r.source[15] = 2;
		r.destination[15] = 1;
		r.source_port = 80;
		r.destination_port = 1000;
	}
	return r;
}

static void run(struct tcp_net_match *m)
{
	tcp_net_match_hold(m, 0);
	tcp_net_match_hold(m, 1);
	tcp_net_match_run(m);
}

static void add(struct tcp_net_match *m, int side, struct region_nic_record r)
{
	tcp_net_match_add(m, side, &r);
}

static uint64_t caused(struct tcp_net_match *m, int cause)
{
	return tcp_net_match_causes(m)[cause];
}

static void nothing_else(struct tcp_net_match *m, unsigned int but)
{
	for (int i = 0; i < TCP_NET_CAUSES; i++)
		if (!(but >> i & 1) && caused(m, i))
			fail_msg("%llu %s", (unsigned long long)caused(m, i),
				 tcp_net_cause_name(i));
}

static void segments_match_across_sequence_wraparound(void **state)
{
	struct tcp_net_match *m = matcher();
	/* more than the number of retransmissions that are remembered */
	uint32_t first = 0xffffff00u;

	(void)state;
	for (uint32_t i = 0; i < 6000; i++) {
		add(m, 0, segment(0, true, first + 100 * i, 100, 1000 + i));
		add(m, 1, segment(0, false, first + 100 * i, 100, 500000 + i));
	}
	run(m);
	assert_int_equal(sample_count, 6000);
	for (uint32_t i = 0; i < 6000; i++)
		assert_true(samples[i].out_ns == 1000 + i && samples[i].in_ns == 500000 + i &&
			    (uint32_t)samples[i].seq == first + 100 * i && !samples[i].reordered);
	tcp_net_match_expire(m, 0, UINT64_MAX, true, 0);
	nothing_else(m, 0);
	tcp_net_match_close(m);
}

static void split_segments_are_timed_each_and_merged_ones_once(void **state)
{
	struct tcp_net_match *m = matcher();
	struct region_nic_record r = segment(0, true, 0, 4000, 100);

	(void)state;
	r.gso_size = 1000;
	add(m, 0, r);
	for (uint32_t i = 0; i < 3; i++)
		add(m, 0, segment(0, true, 4000 + 1000 * i, 1000, 200 + i));
	/* Pieces, out of order; then three at once; then one of the pieces again. */
	for (uint32_t i = 0; i < 4; i++)
		add(m, 1, segment(0, false, (i ^ 1) * 1000, 1000, 300 + i));
	add(m, 1, segment(0, false, 4000, 3000, 400));
	add(m, 1, segment(0, false, 2000, 1000, 500));
	run(m);
	assert_int_equal(sample_count, 5);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(samples[i].out_ns == 100 && samples[i].in_ns == 300 + i);
	assert_true(samples[4].out_ns == 200 && samples[4].in_ns == 400);
	assert_int_equal(caused(m, TCP_NET_MERGED), 2);
	assert_int_equal(caused(m, TCP_NET_DUPLICATE), 1);
	tcp_net_match_expire(m, 0, UINT64_MAX, true, 0);
	nothing_else(m, 1 << TCP_NET_MERGED | 1 << TCP_NET_DUPLICATE);
	tcp_net_match_close(m);
}

/* How two transmissions of the same bytes can be distinguished. */
enum telling { BY_NOTHING, BY_TIMESTAMP, BY_ID };

static void sent_twice(enum telling by, bool first_comes, bool second_comes)
{
	struct tcp_net_match *m = matcher();

	for (int i = 0; i < 2; i++) {
		struct region_nic_record r = segment(0, true, 5000, 1000, 100 + 1000 * (uint64_t)i);

		r.flags |= SL_NIC_HAS_TS;
		r.tsval = by == BY_TIMESTAMP ? 7 + (uint32_t)i : 7;
		r.ip_id = by == BY_ID ? (uint16_t)(40 + i) : 0;
		add(m, 0, r);
		r.flags &= ~SL_NIC_OUT;
		r.time_ns += 50;
		if (i ? second_comes : first_comes)
			add(m, 1, r);
	}
	run(m);
	tcp_net_match_range(m, 1, 0, 1 << 20);
	tcp_net_match_expire(m, 0, UINT64_MAX, true, 0);
	if (by == BY_NOTHING) {
		assert_int_equal(sample_count, 0);
		assert_int_equal(caused(m, TCP_NET_AMBIGUOUS), first_comes + second_comes);
		nothing_else(m, 1 << TCP_NET_AMBIGUOUS | 1 << TCP_NET_LOST);
	} else {
		assert_int_equal(sample_count, first_comes + second_comes);
		for (size_t i = 0; i < sample_count; i++)
			assert_int_equal(samples[i].in_ns - samples[i].out_ns, 50);
		assert_int_equal(caused(m, TCP_NET_LOST), !first_comes + !second_comes);
		nothing_else(m, 1 << TCP_NET_LOST);
	}
	tcp_net_match_close(m);
}

static void bytes_sent_twice_are_told_apart_or_not_at_all(void **state)
{
	(void)state;
	for (int by = BY_NOTHING; by <= BY_ID; by++) {
		sent_twice(by, true, true);
		sent_twice(by, true, false);
		sent_twice(by, false, true);
	}
}

static void what_overtakes_is_matched_and_counted(void **state)
{
	struct tcp_net_match *m = matcher();

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		add(m, 0, segment(0, true, i * 10, 10, 100 + i));
	add(m, 1, segment(0, false, 10, 10, 201));
	add(m, 1, segment(0, false, 20, 10, 202));
	add(m, 1, segment(0, false, 0, 10, 203));
	run(m);
	assert_int_equal(sample_count, 3);
	assert_true(!samples[0].reordered && !samples[1].reordered && samples[2].reordered);
	assert_int_equal(samples[2].out_ns, 100);
	nothing_else(m, 0);
	tcp_net_match_close(m);
}

static void what_never_came_is_lost_only_where_it_was_watched(void **state)
{
	struct tcp_net_match *m = matcher();

	(void)state;
	/* B recorded from 1000 to 9000, and has a gap from 4000 to 5000. */
	tcp_net_match_range(m, 1, 1000, 9000);
	add(m, 1, segment(1, true, 0, 10, 4000));
	tcp_net_match_gap(m, 1, 17, 5000);
	for (uint32_t i = 0; i < 100; i++)
		add(m, 0, segment(0, true, i * 10, 10, 100 * i));
	add(m, 1, segment(0, false, 1000000, 10, 6000));
	run(m);
	tcp_net_match_expire(m, 0, UINT64_MAX, true, 0);
	assert_int_equal(caused(m, TCP_NET_UNKNOWN), 10 + 9 + 11);
	assert_int_equal(caused(m, TCP_NET_LOST), 70);
	assert_int_equal(caused(m, TCP_NET_NOT_SENT), 1);
	assert_int_equal(caused(m, TCP_NET_MISSED), 17);
	tcp_net_match_close(m);
	/* And without an offset it is unknown. */
	m = matcher();
	add(m, 0, segment(0, true, 0, 10, 100));
	tcp_net_match_expire(m, 0, UINT64_MAX, false, 0);
	assert_int_equal(caused(m, TCP_NET_UNKNOWN), 1);
	tcp_net_match_close(m);
}

/* Without timestamps, a gap at the sender may hide a retransmission. */
static void a_sender_gap_needs_timestamps_to_be_matched(void **state)
{
	(void)state;
	for (int ts = 0; ts < 2; ts++) {
		struct tcp_net_match *m = matcher();
		struct region_nic_record r = segment(0, true, 0, 10, 100);

		r.flags |= ts ? SL_NIC_HAS_TS : 0;
		add(m, 0, r);
		tcp_net_match_gap(m, 0, 1, 200);
		r.flags &= ~SL_NIC_OUT;
		r.time_ns = 150;
		add(m, 1, r);
		run(m);
		assert_int_equal(sample_count, ts);
		assert_int_equal(caused(m, TCP_NET_AMBIGUOUS), !ts);
		tcp_net_match_close(m);
	}
}

static void ports_used_again_are_another_connection(void **state)
{
	struct tcp_net_match *m = matcher_of(3);
	struct region_nic_record fourth = segment(0, true, 77, 0, 30000);

	(void)state;
	fourth.flags |= SL_NIC_SYN;
	fourth.end++;
	for (uint32_t life = 0; life < 3; life++) {
		uint32_t isn = 1000 + 500 * life;
		uint64_t at = 10000 * life;
		struct region_nic_record r = segment(0, true, isn, 0, at);

		r.flags |= SL_NIC_SYN;
		r.end++;
		add(m, 0, r);
		add(m, 0, segment(0, true, isn + 1, 1000, at + 1));
		r.flags &= ~SL_NIC_OUT;
		r.time_ns += 40;
		add(m, 1, r);
		add(m, 1, segment(0, false, isn + 1, 1000, at + 41));
	}
	run(m);
	assert_int_equal(sample_count, 6);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(samples[i].in_ns - samples[i].out_ns, 40);
	add(m, 0, fourth);
	assert_int_equal(caused(m, TCP_NET_FULL), 1);
	tcp_net_match_expire(m, 0, UINT64_MAX, true, 0);
	add(m, 0, fourth);
	assert_int_equal(caused(m, TCP_NET_FULL), 1);
	nothing_else(m, 1 << TCP_NET_FULL);
	tcp_net_match_close(m);
}

static void acknowledgements_that_are_alike_are_not_matched(void **state)
{
	struct tcp_net_match *m = matcher();

	(void)state;
	for (uint32_t i = 0; i < 10; i++) {
		struct region_nic_record r = segment(1, true, 77, 0, 100 + i);

		r.ack = i < 5 ? 1000 * i : 9999; /* five that differ, five that do not */
		add(m, 1, r);
		r.flags &= ~SL_NIC_OUT;
		r.time_ns += 1000;
		add(m, 0, r);
	}
	run(m);
	assert_int_equal(sample_count, 5);
	for (size_t i = 0; i < 5; i++)
		assert_true(samples[i].ack && samples[i].in_ns - samples[i].out_ns == 1000);
	assert_int_equal(caused(m, TCP_NET_ACK_UNMATCHED), 5);
	nothing_else(m, 1 << TCP_NET_ACK_UNMATCHED);
	tcp_net_match_close(m);
}

static void memory_is_bounded_and_what_does_not_fit_is_counted(void **state)
{
	struct tcp_net_match_opts o = {.flows = 2, .records = 100, .sample = took};
	struct tcp_net_match *m = tcp_net_match_open(&o);

	(void)state;
	sample_count = 0;
	for (uint32_t i = 0; i < 1000; i++)
		add(m, 0, segment(0, true, i * 10, 10, i));
	assert_int_equal(caused(m, TCP_NET_FULL), 900);
	for (uint16_t port = 1; port < 11; port++) {
		struct region_nic_record r = segment(0, true, 0, 10, 5);

		r.destination_port = port;
		add(m, 0, r);
	}
	assert_int_equal(caused(m, TCP_NET_FULL), 910);
	/* Room comes back with time. */
	tcp_net_match_expire(m, 0, 5000, true, 0);
	add(m, 0, segment(0, true, 20000, 10, 6000));
	assert_int_equal(caused(m, TCP_NET_FULL), 910);
	tcp_net_match_close(m);
}

static void no_record_is_compared_with_more_than_1024_others(void **state)
{
	enum { MANY = 2000, MOST = 1024 };
	struct tcp_net_match *m = matcher();
	struct region_nic_record r;

	(void)state;
	/* Segments that arrive merged into one. */
	for (uint32_t i = 0; i < MANY; i++)
		add(m, 0, segment(0, true, i, 1, 100 + i));
	add(m, 1, segment(0, false, 0, MANY, 5000));
	run(m);
	assert_int_equal(sample_count, 1);
	assert_int_equal(caused(m, TCP_NET_MERGED), MOST);
	assert_int_equal(caused(m, TCP_NET_TOO_MANY), 1);
	tcp_net_match_close(m);
	/* Connections with the same ports. */
	m = matcher();
	for (uint32_t i = 0; i < MANY; i++) {
		r = segment(0, true, 10 * i, 0, 100 + i);
		r.flags |= SL_NIC_SYN;
		r.end++;
		add(m, 0, r);
	}
	assert_int_equal(caused(m, TCP_NET_FULL), MANY - MOST);
	tcp_net_match_close(m);
	/* Acknowledgements in the wrong order, and then some that differ only in the window. */
	m = matcher();
	for (uint32_t i = 0; i < MANY; i++) {
		r = segment(1, true, 77, 0, 100 + i);
		r.ack = MANY - i;
		add(m, 1, r);
	}
	assert_int_equal(caused(m, TCP_NET_TOO_MANY), MANY - MOST - 1);
	tcp_net_match_close(m);
	m = matcher();
	for (uint16_t i = 0; i < MANY; i++) {
		r = segment(1, true, 77, 0, 100 + i);
		r.window = i;
		add(m, 1, r);
	}
	r.flags &= ~SL_NIC_OUT;
	r.window = 3;
	add(m, 0, r);
	run(m);
	assert_int_equal(sample_count, 0);
	assert_int_equal(caused(m, TCP_NET_ACK_UNMATCHED), 1);
	tcp_net_match_close(m);
}

/*
 * Each segment consists of four million parts of one byte. Handling them one by one would take
 * minutes.
 */
static void segments_of_four_million_parts_take_no_time(void **state)
{
	enum { SEGMENTS = 250, KNOWN = 64, BYTES = (1 << 22) - 1 };
	struct tcp_net_match *m = matcher();

	(void)state;
	for (uint32_t i = 0; i < SEGMENTS; i++) {
		struct region_nic_record r = segment(0, true, i * BYTES, BYTES, 1000 + i);

		r.gso_size = 1;
		add(m, 0, r);
		for (uint32_t part = KNOWN; part--;)
			add(m, 1, segment(0, false, i * BYTES + part, BYTES - part, 500000 + i));
		run(m);
	}
	assert_int_equal(sample_count, SEGMENTS * KNOWN);
	nothing_else(m, 0);
	tcp_net_match_close(m);
}

/* ---- both together: a connection over a network that loses, delays, reorders and repeats ---- */

struct event {
	int side;
	struct region_nic_record r;
};

static int by_time(const void *a, const void *b)
{
	const struct event *p = a, *q = b;

	return p->r.time_ns < q->r.time_ns ? -1 : p->r.time_ns > q->r.time_ns;
}

struct check {
	uint64_t results, outside, wrong;
	int64_t worst, bound; /* the most */
	int64_t *truth;	      /* by sequence number / 100, of each way */
};

static void result(void *context, const struct tcp_net_result *r)
{
	struct check *c = context;
	int64_t truth = c->truth[2 * ((uint32_t)r->sample->seq / 100) + (uint32_t)r->way];
	int64_t error = llabs(r->latency_ns - truth);

	c->results++;
	c->outside += error > r->bound_ns;
	if (error > c->worst)
		c->worst = error;
	if (r->bound_ns > c->bound)
		c->bound = r->bound_ns;
	c->wrong += truth < 0;
}

/*
 * B's clock is an hour ahead, and changes its rate every 2 s; the way back takes five times as
 * long.
 */
static void latencies_are_within_bound_over_a_bad_network(void **state)
{
	enum { N = 20000 };
	struct truth t = {.offset = 3600 * S, .start = 100 * S, .pieces = 6};
	struct event *e = calloc(8 * N, sizeof(*e));
	struct check c = {.truth = calloc(2 * N, sizeof(int64_t))};
	struct tcp_net_stat_opts o = {.by = TCP_NET_BY_FLOW, .result = result, .context = &c};
	struct tcp_net_stat *s = tcp_net_stat_open(&o);
	struct tcp_net_match *m = tcp_net_stat_match(s);
	struct tcp_net_totals totals;
	uint64_t lost = 0, twice = 0;
	size_t n = 0;

	(void)state;
	for (int i = 0; i < t.pieces; i++) {
		t.piece[i].for_ns = 2 * S;
		t.piece[i].skew = i % 2 ? 345e-6 : -255e-6;
	}
	for (uint32_t i = 0; i < N; i++) {
		for (int way = 0; way < 2; way++) {
			int64_t at = t.start + (int64_t)i * MS / 2;
			int64_t delays[2] = {delay(30000, 30000), delay(150000, 30000)};
			struct region_nic_record out = segment(way, true, 100 * i, 100, 0);
			int tries = 1;

			out.flags |= SL_NIC_HAS_TS;
			/*
			 * One in 50 is lost and sent again 3 ms later; of another one in 50, both
			 * transmissions arrive.
			 */
			if (!(random_u64() % 25))
				tries = 2;
			for (int k = 0; k < tries; k++) {
				int64_t sent = at + k * 3 * MS, came = sent + delays[way];
				bool gone = tries == 2 && !k && random_u64() & 1;
				struct region_nic_record in;

				out.tsval = (uint32_t)(sent / MS);
				out.time_ns = (uint64_t)(sent + (way ? theta(&t, sent) : 0));
				e[n++] = (struct event){way, out};
				lost += gone;
				twice += tries == 2 && !k && !gone;
				if (gone)
					continue;
				in = out;
				in.flags &= ~SL_NIC_OUT;
				in.time_ns = (uint64_t)(came + (way ? 0 : theta(&t, came)));
				e[n++] = (struct event){!way, in};
				c.truth[2 * i + (uint32_t)way] = delays[way];
			}
		}
	}
	/* In each side's order; added in turn, as records are read from two hosts. */
	qsort(e, n, sizeof(*e), by_time);
	for (int side = 0; side < 2; side++)
		for (size_t i = 0; i < n; i++)
			if (e[i].side == side)
				tcp_net_match_add(m, side, &e[i].r);
	run(m);
	assert_int_equal(tcp_net_stat_count(s, 0, true), 0);
	tcp_net_stat_totals(s, &totals);
	tcp_net_match_expire(m, 0, UINT64_MAX, true, totals.theta);
	tcp_net_match_expire(m, 1, UINT64_MAX, true, -totals.theta);
	tcp_net_stat_totals(s, &totals);
	print_message("%llu latencies, worst error %.1f us, bound %.1f us, lost %llu\n",
		      (unsigned long long)c.results, (double)c.worst / 1e3,
		      (double)totals.bound / 1e3, (unsigned long long)lost);
	assert_int_equal(c.outside, 0);
	assert_int_equal(totals.causes[TCP_NET_LOST], lost);
	assert_int_equal(c.results, 2 * N + twice);
	assert_int_equal(totals.causes[TCP_NET_AMBIGUOUS] + totals.causes[TCP_NET_NO_CLOCK] +
				 totals.causes[TCP_NET_NOT_SENT] + totals.stepped,
			 0);
	/* The round trip needs no clock: its minimum is the sum of both minimums. */
	assert_in_range(tcp_net_stat_row(s, 0)->round.least, 178000, 190000);
	tcp_net_stat_close(s);
	free(c.truth);
	free(e);
}

/* As in a collector, some segments of a window are matched after its end, and history is short. */
static void what_is_matched_late_has_its_latency_all_the_same(void **state)
{
	enum { N = 1000, STEP = 10 };
	struct truth t = {.offset = -5 * S, .start = 100 * S, .pieces = 1, .piece[0].skew = 80e-6};
	struct check c = {.truth = calloc(2 * N, sizeof(int64_t))};
	struct tcp_net_stat_opts o = {
		.by = TCP_NET_BY_ALL, .history = 1, .result = result, .context = &c};
	struct tcp_net_stat *s = tcp_net_stat_open(&o);
	struct tcp_net_match *m = tcp_net_stat_match(s);
	struct tcp_net_totals totals;

	(void)state;
	for (uint32_t i = 0; i < N; i++) {
		int64_t at = t.start + (int64_t)i * 10 * MS;

		for (int way = 0; way < 2; way++) {
			int64_t took = delay(20000, 20000), came = at + took;

			c.truth[2 * i + (uint32_t)way] = took;
			add(m, way,
			    segment(way, true, 100 * i, 100,
				    (uint64_t)(at + (way ? theta(&t, at) : 0))));
			add(m, !way,
			    segment(way, false, 100 * i, 100,
				    (uint64_t)(came + (way ? 0 : theta(&t, came)))));
		}
		if (i % STEP != STEP - 1)
			continue;
		/* At most one window, in which no latency may deviate by more than its bound. */
		c.bound = 0;
		assert_int_equal(tcp_net_stat_count(s, (uint64_t)at, false), 0);
		tcp_net_stat_totals(s, &totals);
		assert_true(totals.bound >= c.bound);
		tcp_net_match_run(m);
		tcp_net_match_hold(m, 0);
		tcp_net_match_hold(m, 1);
	}
	run(m);
	assert_int_equal(tcp_net_stat_count(s, 0, true), 0);
	tcp_net_stat_totals(s, &totals);
	assert_int_equal(totals.causes[TCP_NET_NO_CLOCK], 0);
	assert_int_equal(c.results, 2 * N);
	assert_int_equal(c.outside, 0);
	tcp_net_stat_close(s);
	free(c.truth);
}

static void trusted_wrong_clocks_give_negative_latencies(void **state)
{
	struct tcp_net_stat_opts o = {.trusted = true, .theta = 90000};
	struct tcp_net_stat *s = tcp_net_stat_open(&o);
	struct tcp_net_match *m = tcp_net_stat_match(s);
	const struct tcp_net_row *r;

	(void)state;
	/* 50 us in each direction; B's clock is wrongly assumed to be ahead by 90 us. */
	for (uint32_t i = 0; i < 10; i++) {
		add(m, 0, segment(0, true, 10 * i, 10, 1000000 * i));
		add(m, 1, segment(0, false, 10 * i, 10, 1000000 * i + 50000));
		add(m, 1, segment(1, true, 10 * i, 10, 1000000 * i + 60000));
		add(m, 0, segment(1, false, 10 * i, 10, 1000000 * i + 110000));
	}
	run(m);
	assert_int_equal(tcp_net_stat_count(s, 0, true), 0);
	assert_int_equal(tcp_net_stat_rows(s), 1);
	r = tcp_net_stat_row(s, 0);
	assert_int_equal(r->way[0].negative, 10);
	assert_int_equal(r->way[0].least, -40000);
	assert_int_equal(r->way[1].least, 140000);
	assert_int_equal(r->round.least, 100000); /* still right */
	assert_int_equal(r->round.count, 10);
	tcp_net_stat_close(s);
}

static void quantiles_are_within_a_bucket(void **state)
{
	struct tcp_net_hist h = {0};

	(void)state;
	assert_true(isnan(tcp_net_hist_quantile(&h, 0.5)));
	for (int i = 1; i <= 100000; i++)
		tcp_net_hist_add(&h, 100 * i);
	for (double q = 0.05; q < 1; q += 0.05)
		assert_true(fabs(tcp_net_hist_quantile(&h, q) / (1e7 * q) - 1) < 0.05);
	assert_true(tcp_net_hist_quantile(&h, 0) >= 100 && tcp_net_hist_quantile(&h, 1) <= 1e7);
	tcp_net_hist_add(&h, -500);
	assert_int_equal(h.negative, 1);
	assert_int_equal(h.least, -500);
}

/* ---- whole round trips ---- */

static void a_request_is_followed_through_both_hosts(void **state)
{
	struct tcp_net_stat_opts o = {.trusted = true, .theta = 1000000};
	struct tcp_net_stat *s = tcp_net_stat_open(&o);
	struct tcp_layer_record a[4] = {{.kind = TCP_RECORD_OUT}, {.kind = TCP_RECORD_IN}}, b[3];
	struct tcp_layer_record *both[2] = {a, b};
	struct tcp_net_rounds rounds;
	const struct tcp_net_round *r;
	int64_t sum = 0;

	(void)state;
	/* A asks with bytes 100..199, B answers with 500..599; B's clock is 1 ms ahead. */
	memset(b, 0, sizeof(b));
	memset(a[0].key.local, 1, 16);
	memset(a[0].key.remote, 2, 16);
	a[0].key.local_port = 1000;
	a[0].key.remote_port = 80;
	a[1].key = a[0].key;
	memset(b[0].key.local, 2, 16);
	memset(b[0].key.remote, 1, 16);
	b[0].key.local_port = 80;
	b[0].key.remote_port = 1000;
	a[0].seq = 0;
	a[0].length = 200; /* sent with earlier data */
	a[0].sent = 1000;
	a[0].ip_out = 1010;
	a[0].queued = 1030;
	a[0].nic_out = 1060;
	b[0].kind = TCP_RECORD_REQUEST;
	b[0].role = SL_ROLE_SERVER;
	b[0].seq = 100;
	b[0].length = 100;
	b[0].response_seq = 500;
	b[0].nic_in = 1000000 + 1160;
	b[0].ip_in = b[0].nic_in + 50;
	b[0].tcp_in = b[0].ip_in + 60;
	b[0].copied = b[0].tcp_in + 70;
	b[0].sent = b[0].copied + 80;
	b[0].ip_out = b[0].sent + 90;
	b[0].queued = b[0].ip_out + 100;
	b[0].nic_out = b[0].queued + 110;
	a[1].seq = 500;
	a[1].length = 100;
	a[1].nic_in = b[0].nic_out - 1000000 + 250;
	a[1].ip_in = a[1].nic_in + 120;
	a[1].tcp_in = a[1].ip_in + 130;
	a[1].copied = a[1].tcp_in + 140;
	/* One whose request was not seen, and an incomplete one. */
	b[1] = b[0];
	b[1].seq = 5000;
	b[2] = b[0];
	b[2].nic_in = 0;
	assert_int_equal(tcp_net_rounds_find(both, (size_t[]){2, 3}, s, &rounds), 0);
	assert_int_equal(rounds.n, 1);
	assert_int_equal(rounds.no_request, 1);
	assert_int_equal(rounds.incomplete, 1);
	r = &rounds.v[0];
	assert_int_equal(r->client, 0);
	assert_int_equal(r->part[TCP_NET_PART_WIRE_THERE], 100);
	assert_int_equal(r->part[TCP_NET_PART_WIRE_BACK], 250);
	assert_int_equal(r->wires, 350);
	for (int p = 0; p < TCP_NET_PARTS; p++)
		sum += r->part[p];
	assert_int_equal(sum, r->total);
	tcp_net_rounds_free(&rounds);
	tcp_net_stat_close(s);
}

/* ---- what is read ---- */

static void seal(uint64_t w[SL_NIC_WORDS])
{
	w[SL_NIC_TAG_AGAIN] = w[SL_NIC_TAG];
	w[7] = sl_folded_check(w);
	w[15] = sl_folded_check(w + 8);
}

static void a_place_of_the_ring(uint64_t w[SL_NIC_WORDS], uint64_t number)
{
	memset(w, 0, 8 * SL_NIC_WORDS);
	w[SL_NIC_TAG] = number << 8 | SL_NIC_OUT;
	w[SL_NIC_TIME_NS] = 1000 + number;
	w[SL_NIC_SEQ_END] = 100 | 200ull << 32;
	w[SL_NIC_BYTES] = 100;
	seal(w);
}

static void records_that_lie_or_are_torn_are_refused(void **state)
{
	uint64_t w[SL_NIC_WORDS], torn[SL_NIC_WORDS];
	struct region_nic_record r;

	(void)state;
	a_place_of_the_ring(w, 5);
	assert_int_equal(region_nic_record_parse(w, 5, &r), REGION_FAULT_NONE);
	assert_true(r.seq == 100 && r.end == 200 && r.bytes == 100 && r.number == 5);
	assert_int_equal(region_nic_record_parse(w, 6, &r), REGION_FAULT_CHECK);
	for (int i = 0; i < (int)SL_NIC_WORDS * 64; i++) { /* every flipped bit is detected */
		memcpy(torn, w, sizeof(w));
		torn[i / 64] ^= 1ull << i % 64;
		assert_int_equal(region_nic_record_parse(torn, 5, &r), REGION_FAULT_UNSETTLED);
	}
	w[SL_NIC_BYTES] = 99;
	seal(w);
	assert_int_equal(region_nic_record_parse(w, 5, &r), REGION_FAULT_RECORD);
	memset(w, 0, sizeof(w)); /* never written */
	assert_int_equal(region_nic_record_parse(w, 0, &r), REGION_FAULT_CHECK);
}

static void a_reader_that_is_too_slow_knows_what_it_missed(void **state)
{
	struct {
		uint64_t hot[8];
		uint64_t ring[64][SL_NIC_WORDS];
	} *map = calloc(1, sizeof(*map));
	struct region_nic_info info = {.size = sizeof(*map), .hot = 0, .ring = 64, .records = 64};
	struct region_nic_record out[100];
	uint64_t next = 0, missed = 0;

	(void)state;
	for (uint64_t n = 0; n < 200; n++)
		a_place_of_the_ring(map->ring[n % 64], n);
	map->hot[SL_NIC_HEAD] = 200;
	map->hot[7] = sl_line_check(map->hot);
	assert_int_equal(region_nic_read(map, &info, &next, &missed, out, NULL, 100), 64);
	assert_int_equal(missed, 136);
	assert_int_equal(out[0].number, 136);
	assert_int_equal(region_nic_read(map, &info, &next, &missed, out, NULL, 100), 0);
	/* A number that has been assigned, but whose record is not written yet, is waited for. */
	map->hot[SL_NIC_HEAD] = 202;
	map->hot[7] = sl_line_check(map->hot);
	a_place_of_the_ring(map->ring[201 % 64], 201);
	assert_int_equal(region_nic_read(map, &info, &next, &missed, out, NULL, 100), 0);
	a_place_of_the_ring(map->ring[200 % 64], 200);
	assert_int_equal(region_nic_read(map, &info, &next, &missed, out, NULL, 100), 2);
	assert_int_equal(missed, 136);
	map->hot[7] ^= 1;
	assert_int_equal(region_nic_read(map, &info, &next, &missed, out, NULL, 100), -EAGAIN);
	free(map);
}

static void files_come_back_and_damaged_ones_are_told(void **state)
{
	const uint64_t gap[] = {12, 34}, end[] = {56, 3, 4, 78};
	struct tcp_layer_record layer = {.kind = TCP_RECORD_REQUEST, .nic_in = 9};
	struct tcp_net_file_head head;
	uint64_t w[SL_NIC_WORDS];
	struct tcp_net_frame f;
	char why[128];
	FILE *file = tmpfile();
	long size;

	(void)state;
	setvbuf(file, NULL, _IONBF, 0); /* it is cut below */
	a_place_of_the_ring(w, 77);
	assert_int_equal(tcp_net_file_begin(file, (const uint8_t *)"0123456789abcdef"), 0);
	assert_int_equal(tcp_net_file_put(file, TCP_NET_SEGMENT, w), 0);
	assert_int_equal(tcp_net_file_put(file, TCP_NET_GAP, gap), 0);
	assert_int_equal(tcp_net_file_put(file, TCP_NET_LAYERS, &layer), 0);
	assert_int_equal(tcp_net_file_put(file, TCP_NET_END, end), 0);
	size = ftell(file);
	rewind(file);
	assert_int_equal(tcp_net_file_head(file, &head, why, sizeof(why)), 0);
	assert_int_equal(tcp_net_file_next(file, &f, why, sizeof(why)), 1);
	assert_true(f.type == TCP_NET_SEGMENT && f.segment.number == 77);
	assert_int_equal(tcp_net_file_next(file, &f, why, sizeof(why)), 1);
	assert_true(f.type == TCP_NET_GAP && f.gap.records == 12 && f.gap.now_ns == 34);
	assert_int_equal(tcp_net_file_next(file, &f, why, sizeof(why)), 1);
	assert_true(f.type == TCP_NET_LAYERS && f.layers.nic_in == 9);
	assert_int_equal(tcp_net_file_next(file, &f, why, sizeof(why)), 1);
	assert_true(f.type == TCP_NET_END && f.end.headless == 3 && f.end.fragments == 4 &&
		    f.end.left_out == 78);
	assert_int_equal(tcp_net_file_next(file, &f, why, sizeof(why)), 0);
	/* A byte of the head, then of the record. */
	for (int i = 0; i < 2; i++) {
		fseek(file, i ? 120 + 8 + 20 : 20, SEEK_SET);
		fputc(0x5a, file);
		rewind(file);
		if (!i) {
			assert_int_equal(tcp_net_file_head(file, &head, why, sizeof(why)), -EINVAL);
			assert_non_null(strstr(why, "damaged"));
		}
	}
	fseek(file, 120, SEEK_SET);
	assert_int_equal(tcp_net_file_next(file, &f, why, sizeof(why)), -EINVAL);
	/* Truncated anywhere after the head, the file just ends there. */
	for (long at = size - 1; at > size - 38; at--) {
		assert_int_equal(ftruncate(fileno(file), at), 0);
		fseek(file, size - 40, SEEK_SET);
		assert_int_equal(tcp_net_file_next(file, &f, why, sizeof(why)), 0);
	}
	fclose(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(segments_match_across_sequence_wraparound),
		cmocka_unit_test(split_segments_are_timed_each_and_merged_ones_once),
		cmocka_unit_test(bytes_sent_twice_are_told_apart_or_not_at_all),
		cmocka_unit_test(what_overtakes_is_matched_and_counted),
		cmocka_unit_test(what_never_came_is_lost_only_where_it_was_watched),
		cmocka_unit_test(a_sender_gap_needs_timestamps_to_be_matched),
		cmocka_unit_test(ports_used_again_are_another_connection),
		cmocka_unit_test(acknowledgements_that_are_alike_are_not_matched),
		cmocka_unit_test(memory_is_bounded_and_what_does_not_fit_is_counted),
		cmocka_unit_test(no_record_is_compared_with_more_than_1024_others),
		cmocka_unit_test(segments_of_four_million_parts_take_no_time),
		cmocka_unit_test(latencies_are_within_bound_over_a_bad_network),
		cmocka_unit_test(what_is_matched_late_has_its_latency_all_the_same),
		cmocka_unit_test(trusted_wrong_clocks_give_negative_latencies),
		cmocka_unit_test(quantiles_are_within_a_bucket),
		cmocka_unit_test(a_request_is_followed_through_both_hosts),
		cmocka_unit_test(records_that_lie_or_are_torn_are_refused),
		cmocka_unit_test(a_reader_that_is_too_slow_knows_what_it_missed),
		cmocka_unit_test(files_come_back_and_damaged_ones_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
