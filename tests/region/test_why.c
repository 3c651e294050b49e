// SPDX-License-Identifier: Apache-2.0
/* test_why.c - the sentence of region_why() agrees with its numbers, for any two rows. */
#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "base/base.h"
#include "region/why.h"

/* A flow that sends and receives. */
static struct region_flow row(void)
{
	return (struct region_flow){
		.id = 1,
		.state = SL_STATE_LIVE,
		.open_ns = 1000000000,
		.changed_ns = 2000000000,
		.mss = 1448,
		.cwnd = 10,
		.snd_wnd = 65536,
		.rcv_wnd = 65536,
		.rtt_min_us = 20,
		.srtt_us = 100,
		.rto_us = 200000,
	};
}

static double number(const struct region_why *w, const char *name)
{
	for (uint32_t i = 0; i < w->n; i++)
		if (!strcmp(w->number[i].name, name))
			return w->number[i].value;
	return -1;
}

/* Returns one of the important values, or any. */
static uint64_t some(uint64_t most)
{
	switch (rand() % 4) {
	case 0:
		return 0;
	case 1:
		return most;
	default:
		return (uint64_t)((double)rand() / RAND_MAX * (double)most);
	}
}

static struct region_flow some_row(struct region_flow *before)
{
	struct region_flow f;

	*before = row();
	f = *before;
	f.changed_ns += 1 + some(10000000000);
	f.busy_us += some(11000000); /* sometimes more than the interval */
	f.rwnd_us += some(11000000);
	f.sndbuf_us += some(11000000);
	f.bytes_acked += some(700000000);
	f.bytes_received += some(700000000);
	f.read_bytes = f.bytes_received - some(100000);
	if (rand() % 16 == 0)
		f.read_bytes = 0;
	before->bytes_received = some(100000); /* unread */
	f.flight = (uint32_t)some(20);
	f.cwnd = 1 + (uint32_t)some(20);
	f.ssthresh = (uint32_t)some(0x7fffffff);
	f.queue = (uint32_t)some(100000);
	f.wmem = (uint32_t)some(100000);
	f.sndbuf = (uint32_t)some(100000);
	f.snd_wnd = (uint32_t)some(65536);
	f.rcv_wnd = (uint32_t)some(65536);
	f.retrans += rand() % 4 ? 0 : (uint32_t)some(9);
	f.fast += rand() % 4 ? 0 : (uint32_t)some(3);
	f.timeouts += rand() % 4 ? 0 : (uint32_t)some(3);
	f.zero_in += (uint32_t)some(2);
	f.zero_out += (uint32_t)some(2);
	f.delivered_ce += (uint32_t)some(2);
	f.data_segs_out = (uint32_t)some(1000);
	f.data_segs_in = (uint32_t)some(1000);
	f.segs_out = f.data_segs_out + (uint32_t)some(1000);
	f.reorder = rand() % 8 ? 0 : (uint32_t)some(100);
	f.backoff = rand() % 8 ? 0 : (uint32_t)some(8);
	f.flags = rand() % 8 ? 0 : SL_FLOW_PACED;
	f.pacing_kib = (uint32_t)some(100000);
	f.turns = (uint32_t)some(1000);
	f.held = (uint32_t)some(1000);
	f.waited_ms = (uint32_t)some(10000);
	f.thought_ms = (uint32_t)some(10000);
	f.rtt_count += (uint32_t)some(100);
	f.rtt_sum_us += some(1000000);
	return f;
}

/* Returns the percentage stated in a sentence; below 0: none. */
static double stated(const char *sentence)
{
	const char *end = strchr(sentence, '%');

	for (const char *at = end; at && at > sentence; at--)
		if (at[-1] < '0' || at[-1] > '9')
			return strtod(at, NULL);
	return -1;
}

/* The share of the limit that w names. */
static double own_share(const struct region_why *w, double app, double rwnd, double sndbuf,
			double cwnd)
{
	switch (w->limit) {
	case REGION_WHY_PEER_WINDOW:
	case REGION_WHY_PEER_NOT_READING:
	case REGION_WHY_PEER_READS_SLOWLY:
		return rwnd;
	case REGION_WHY_SEND_BUFFER:
		return sndbuf;
	case REGION_WHY_LOSS_TIMEOUT:
	case REGION_WHY_UNANSWERED:
		return number(w, "waiting-for-timeout");
	case REGION_WHY_PACING:
		return number(w, "pacing-limited");
	case REGION_WHY_REORDERING:
	case REGION_WHY_LOSS_FAST:
	case REGION_WHY_ECN:
	case REGION_WHY_SLOW_START:
	case REGION_WHY_PATH:
		return cwnd;
	case REGION_WHY_BUFFERBLOAT: /* built up by the congestion window, or the peer's */
		return fmax(cwnd, rwnd);
	default:
		return app;
	}
}

static void sentences_agree_with_their_numbers(void **state)
{
	uint32_t seen[REGION_WHY_LIMITS] = {0};

	(void)state;
	srand(20);
	for (int i = 0; i < 300000; i++) {
		struct region_flow before, now = some_row(&before);
		double idle, waiting, app, rwnd, sndbuf, cwnd, stalled, paced, own, most;
		struct region_why w;

		region_why(&before, &now, &w);
		seen[w.limit]++;
		idle = number(&w, "nothing-to-send");
		waiting = number(&w, "waiting-for-acknowledgement");
		app = idle + waiting;
		rwnd = number(&w, "peer-window-limited");
		sndbuf = number(&w, "send-buffer-limited");
		cwnd = number(&w, "congestion-window-limited");
		stalled = number(&w, "waiting-for-timeout");
		paced = number(&w, "pacing-limited");
		if (w.limit == REGION_WHY_READS_SLOWLY ||
		    (w.limit == REGION_WHY_UNANSWERED && now.backoff >= 3) || idle < 0)
			continue; /* not by shares */
		most = fmax(fmax(fmax(app, rwnd), fmax(sndbuf, cwnd)), fmax(stalled, paced));
		own = own_share(&w, app, rwnd, sndbuf, cwnd);
		if (fabs(idle + waiting + rwnd + sndbuf + cwnd + stalled + paced - 100) > 0.01 ||
		    most > own + 0.01)
			fail_msg("row %d: app %g rwnd %g sndbuf %g cwnd %g: %s", i, app, rwnd,
				 sndbuf, cwnd, w.sentence);
		/* Some limits are only a part of the application's time, so w.share is smaller. */
		if (own != app || w.limit == REGION_WHY_APPLICATION || w.limit == REGION_WHY_PEER)
			assert_true(fabs(own - 100 * w.share) < 0.01);
		if (stated(w.sentence) >= 0 && fabs(stated(w.sentence) - 100 * w.share) > 0.51)
			fail_msg("row %d: not %g: %s", i, 100 * w.share, w.sentence);
		if (now.bytes_received > now.bytes_acked)
			assert_int_not_equal(w.limit, REGION_WHY_APPLICATION);
	}
	for (int l = REGION_WHY_APPLICATION; l <= REGION_WHY_PATH; l++)
		if (!seen[l] && l != REGION_WHY_NOTHING_ARRIVES) /* needs both ends */
			fail_msg("no row led to %s", region_why_name((enum region_why_limit)l));
}

/* Requests of 100 bytes wait for answers that carry their acknowledgements, at 69 MB/s. */
static void a_receiver_of_answers_is_not_limited_here(void **state)
{
	struct region_flow f = row();
	struct region_flow before = f;
	struct region_why w;

	(void)state;
	f.changed_ns += 10000000000;
	f.busy_us += 5400000;
	f.bytes_acked += 1000000;
	f.bytes_received += 690000000;
	f.read_bytes = f.bytes_received;
	f.rcv_wnd = 3 << 20;
	f.flight = 1;
	region_why(&before, &f, &w);
	assert_int_equal(w.limit, REGION_WHY_PEER);
	assert_true(w.share > 0.999 && number(&w, "congestion-window-limited") == 0);
	assert_true(number(&w, "waiting-for-acknowledgement") > 53.9);
	f.rcv_wnd = 2000; /* 1380 bytes per RTT */
	region_why(&before, &f, &w);
	assert_int_equal(w.limit, REGION_WHY_RECEIVE_WINDOW);
}

/*
 * One buffer of 64 KiB is in flight, which a socket takes beyond its limit. The congestion window
 * was just as large, because the kernel only lets it grow while it is used.
 */
static void a_full_buffer_limits_whatever_the_window(void **state)
{
	struct region_flow before = row(), f;
	struct region_why w;

	(void)state;
	before.cwnd = before.flight = 44;
	before.queue = 1448;
	before.sndbuf = 16384;
	before.wmem = 70000;
	before.srtt_us = before.rtt_min_us = 40000;
	f = before;
	f.changed_ns += 9000000000;
	f.busy_us += 9000000;
	f.bytes_acked += 11000000;
	f.timeouts += 2;
	f.retrans += 109;
	region_why(&before, &f, &w);
	assert_int_equal(w.limit, REGION_WHY_SEND_BUFFER);
	/* If much more is written than is in flight, the window is the limit. */
	before.queue = f.queue = 30000;
	region_why(&before, &f, &w);
	assert_int_equal(w.limit, REGION_WHY_LOSS_FAST);
}

static void assert_end(struct region_flow f, enum region_flow_end end, enum region_why_limit limit,
		       const char *says)
{
	struct region_why w;

	f.state = SL_STATE_CLOSED;
	f.tcp_state = 7;
	f.closed_ns = f.changed_ns;
	assert_int_equal(region_flow_end(&f), end);
	region_why(NULL, &f, &w);
	assert_int_equal(w.limit, limit);
	assert_non_null(strstr(w.sentence, says));
}

static void failures_are_told_by_their_cause(void **state)
{
	struct region_flow f = row();

	(void)state;
	f.last_state = 2; /* SYN_SENT */
	f.remote_port = 81;
	f.error = ECONNREFUSED;
	assert_end(f, REGION_FLOW_REFUSED, REGION_WHY_REFUSED, "nothing listens on its port 81");
	f.error = ETIMEDOUT;
	f.re_syn = 2;
	assert_end(f, REGION_FLOW_UNANSWERED, REGION_WHY_NOT_MADE, "no answer to 3 SYNs in 1 s");
	f.error = 0;
	f.retransmits = 1;
	assert_end(f, REGION_FLOW_UNANSWERED, REGION_WHY_NOT_MADE, "no answer to");
	f.error = EHOSTUNREACH;
	assert_end(f, REGION_FLOW_NOT_MADE, REGION_WHY_NOT_MADE, "No route to host");
	f.error = f.retransmits = 0;
	assert_end(f, REGION_FLOW_NOT_MADE, REGION_WHY_NOT_MADE, "gave up");
	f.last_state = 1; /* a reset follows a timeout, and does not explain it */
	f.flags = SL_FLOW_RESET_OUT;
	f.error = ETIMEDOUT;
	assert_end(f, REGION_FLOW_KEEPALIVE, REGION_WHY_TIMED_OUT, "keepalive");
	f.flags |= SL_FLOW_USER_TIMEOUT;
	assert_end(f, REGION_FLOW_USER_TIMEOUT, REGION_WHY_TIMED_OUT, "TCP_USER_TIMEOUT");
	f.queue = 1000; /* each window probe was answered */
	assert_end(f, REGION_FLOW_USER_TIMEOUT, REGION_WHY_TIMED_OUT, "its window stayed closed");
	f.flags = SL_FLOW_RESET_OUT;
	f.probes = 16;
	assert_end(f, REGION_FLOW_RTO, REGION_WHY_TIMED_OUT, "none of 16 window probes");
	f.error = EHOSTUNREACH; /* a router reported it, and the kernel gave up later */
	f.queue = 0;
	assert_end(f, REGION_FLOW_KEEPALIVE, REGION_WHY_TIMED_OUT, "none of 16 keepalive probes");
	f.retransmits = 15;
	assert_end(f, REGION_FLOW_RTO, REGION_WHY_TIMED_OUT, "none of 15 retransmissions");
}

/* Asserts the limits of both ends, and returns their sentences. */
static void assert_both(const struct region_flow before[2], const struct region_flow now[2],
			enum region_why_limit a, enum region_why_limit b, struct region_why w[2])
{
	region_why_both((const struct region_flow *[]){&before[0], &before[1]},
			(const struct region_flow *[]){&now[0], &now[1]}, w);
	if (w[0].limit != a || w[1].limit != b)
		fail_msg("%s, %s: %s / %s", region_why_name(w[0].limit),
			 region_why_name(w[1].limit), w[0].sentence, w[1].sentence);
}

static void assert_says(const struct region_flow *before, const struct region_flow *now,
			enum region_why_limit limit, const char *says)
{
	struct region_why w;

	region_why(before, now, &w);
	if (w.limit != limit || !strstr(w.sentence, says))
		fail_msg("%s: %s", region_why_name(w.limit), w.sentence);
}

/* Nothing happens for ten seconds, but the connection is not as it should be. */
static void silence_is_explained(void **state)
{
	struct region_flow before[2] = {row(), row()}, now[2];
	struct region_why w[2];

	(void)state;
	before[1].bytes_received = 200; /* a request that the server does not read */
	now[0] = before[0];
	now[1] = before[1];
	now[0].changed_ns = now[1].changed_ns += 10000000000;
	assert_both(before, now, REGION_WHY_PEER_NOT_READING, REGION_WHY_NOT_READING, w);
	assert_non_null(strstr(w[0].sentence, "does not read: 200 bytes are unread there."));
	assert_non_null(strstr(w[1].sentence, "does not read: 200 bytes are unread"));
	before[1].read_bytes = now[1].read_bytes = 199;
	assert_says(&before[1], &now[1], REGION_WHY_NOT_READING, "does not read: 1 byte is unread");
	before[1].read_bytes = 200;
	now[1].read_bytes = 200;
	assert_both(before, now, REGION_WHY_IDLE, REGION_WHY_IDLE, w);
	before[1].bytes_received = 0; /* it has arrived, but the application might still read it */
	now[1].read_bytes = 0;
	now[1].data_segs_in = 1;
	assert_says(&before[1], &now[1], REGION_WHY_PEER, "read nothing yet: 200 bytes");
	now[1] = before[1];
	now[1].tcp_state = TCP_CLOSE_WAIT;
	now[1].bytes_received++; /* a FIN is no data */
	assert_says(&before[1], &now[1], REGION_WHY_HALF_CLOSED, "The peer has closed");
	now[0].tcp_state = TCP_FIN_WAIT2;
	now[0].bytes_acked++;
	assert_says(&before[0], &now[0], REGION_WHY_HALF_CLOSED, "but the peer has not");
	now[0].state = SL_STATE_CLOSED;
	now[0].tcp_state = TCP_CLOSE;
	now[0].last_state = TCP_TIME_WAIT;
	assert_says(&before[0], &now[0], REGION_WHY_CLOSED, "closed, first by this end.");
	now[0].last_state = TCP_LAST_ACK;
	assert_says(&before[0], &now[0], REGION_WHY_CLOSED, "closed, first by the peer.");
	now[0].flags = SL_FLOW_RESET_IN;
	now[1].flags = SL_FLOW_RESET_OUT;
	now[1].state = SL_STATE_CLOSED;
	now[1].tcp_state = TCP_CLOSE;
	now[1].bytes_received = 5000;
	now[1].read_bytes = 0;
	assert_both(before, now, REGION_WHY_RESET, REGION_WHY_RESET, w);
	assert_non_null(strstr(w[0].sentence, "there closed it with 5000 unread bytes."));
	assert_non_null(strstr(w[1].sentence, "The application closed it with 5000 unread"));
	now[0].flags |= SL_FLOW_RESET_OUT; /* data arrived after shutdown() */
	assert_int_equal(region_flow_end(&now[0]), REGION_FLOW_RESET);
	assert_says(&before[0], &now[0], REGION_WHY_RESET, "reset from here.");
	now[0].flags = SL_FLOW_LISTENER;
	now[0].last_state = 0;
	assert_int_equal(region_flow_end(&now[0]), REGION_FLOW_FIN);
	assert_says(&before[0], &now[0], REGION_WHY_CLOSED, "stopped listening.");
	/* Connections wait, although the queue is not full. */
	now[0] = before[0];
	now[0].flags = SL_FLOW_LISTENER;
	now[0].backlog_max = 64;
	assert_says(&before[0], &now[0], REGION_WHY_ACCEPTING, "as fast as they arrive");
	before[0].backlog = 4;
	now[0].backlog = 5;
	assert_says(&before[0], &now[0], REGION_WHY_ACCEPTING,
		    "5 connections wait to be accepted, and 4 waited before; there is room for 64");
}

/* Ten seconds of bulk data that fill the congestion window of 100 segments. */
static struct region_flow bulk(const struct region_flow *before)
{
	struct region_flow f = *before;

	f.changed_ns += 10000000000;
	f.busy_us += 10000000;
	f.bytes_acked += 50000000;
	f.data_segs_out += 40000;
	f.cwnd = f.flight = 100;
	f.ssthresh = 50;
	f.queue = 100000;
	f.rtt_min_us = 13000;
	f.srtt_us = 13500;
	return f;
}

static void losses_do_not_explain_a_large_window(void **state)
{
	struct region_flow before = row(), f = bulk(&before);

	(void)state;
	f.retrans = f.fast = 1;
	assert_says(&before, &f, REGION_WHY_LOSS_FAST, "Losses keep");
	f.srtt_us = 48000; /* the window fills a queue, which overflows */
	assert_says(&before, &f, REGION_WHY_BUFFERBLOAT,
		    "full for 100% of the time. 1 segment retransmitted. Limit");
	f.cwnd = f.flight = 9; /* only the peer's delayed acknowledgements */
	assert_says(&before, &f, REGION_WHY_LOSS_FAST, "Losses keep");
	f = bulk(&before);
	f.retrans = 300;
	f.fast = 30;
	f.flags = SL_FLOW_BBR;
	assert_says(&before, &f, REGION_WHY_PATH,
		    "100% of the time, without a growing queue. 300 segments retransmitted.");
	/* The peer stopped acknowledging: for most of the time, or at the end. */
	f.flags = 0;
	f.fast = 1;
	f.timeouts = f.backoff = 3;
	f.rto_us = 1600000;
	assert_says(&before, &f, REGION_WHY_UNANSWERED, "The peer stopped acknowledging");
	f.timeouts = f.backoff = 2;
	f.rto_us = 800000;
	assert_says(&before, &f, REGION_WHY_PATH, "Now nothing is acknowledged: 2 timeouts");
	f.rto_us = 16000000;
	assert_says(&before, &f, REGION_WHY_UNANSWERED, "The peer stopped acknowledging");
	f.timeouts = 3; /* one was repaired */
	assert_says(&before, &f, REGION_WHY_LOSS_TIMEOUT, "Losses held");
	/* A window that fills a queue is not too small. */
	f = bulk(&before);
	f.rwnd_us = f.busy_us;
	f.bytes_acked = 12000000;
	f.snd_wnd = f.snd_wnd_max = 124000;
	f.rtt_min_us = 100000;
	f.srtt_us = 103000;
	assert_says(&before, &f, REGION_WHY_PEER_WINDOW, "124000 bytes");
	f.rtt_min_us = 11000;
	assert_says(&before, &f, REGION_WHY_BUFFERBLOAT, "RTT is 103 ms instead of 11 ms");
}

/* An idle first snapshot does not show what limits the bulk data that follow. */
static void what_was_idle_does_not_count(void **state)
{
	struct region_flow before = row(), f = bulk(&before), end;
	struct region_why w;

	(void)state;
	region_why(&before, &f, &w);
	assert_int_equal(w.limit, REGION_WHY_PATH);
	assert_true(w.share > 0.999);
	end = bulk(&f);
	end.flight = end.queue = 0;
	region_why(&f, &end, &w);
	assert_int_equal(w.limit, REGION_WHY_PATH);
	assert_true(w.share > 0.999);
}

/* Ends that both send: what limits one direction does not explain the other. */
static void directions_are_told_apart(void **state)
{
	struct region_flow before[2] = {row(), row()}, now[2];
	struct region_why w[2];

	(void)state;
	/* A's losses hold it back, and so does B, which always has data left to read. */
	before[1].bytes_received = 40000;
	now[0] = bulk(&before[0]);
	now[0].retrans = now[0].fast = 8;
	now[0].rwnd_us = 3400000;
	now[1] = before[1];
	now[1].changed_ns = now[0].changed_ns;
	now[1].bytes_received += now[0].bytes_acked;
	now[1].read_bytes = now[0].bytes_acked;
	assert_both(before, now, REGION_WHY_PEER_READS_SLOWLY, REGION_WHY_READS_SLOWLY, w);
	assert_true(w[0].share > 0.33 && w[0].share < 0.35);
	assert_non_null(strstr(w[0].sentence, "it takes 5.0 MB per second"));
	now[0].rwnd_us = 900000; /* hardly at all */
	assert_both(before, now, REGION_WHY_LOSS_FAST, REGION_WHY_READS_SLOWLY, w);
	/* A is limited by B's window, and B sends small pieces of its own. */
	now[0].rwnd_us = 10000000;
	now[0].snd_wnd_max = 1 << 20;
	now[0].turns = 1000;
	now[1].busy_us += 10000000;
	now[1].bytes_acked += 60000000;
	now[1].data_segs_out = 40000;
	now[1].held = 20000;
	now[1].flight = 3;
	assert_both(before, now, REGION_WHY_PEER_READS_SLOWLY, REGION_WHY_READS_SLOWLY, w);
	/* Without window scaling, the window that B keeps is not the one that A sees. */
	before[1].bytes_received = now[1].bytes_received -= 40000;
	before[1].read_bytes = before[1].bytes_received = 0;
	now[0].snd_wnd = now[0].snd_wnd_max = 65535;
	now[1].rcv_wnd = 3000000;
	assert_both(before, now, REGION_WHY_PEER_WINDOW, REGION_WHY_RECEIVE_WINDOW, w);
	assert_non_null(strstr(w[0].sentence, "net.ipv4.tcp_window_scaling"));
	assert_non_null(strstr(w[1].sentence, "window here, 65535 bytes"));
	assert_non_null(strstr(w[1].sentence, "net.ipv4.tcp_window_scaling"));
	now[0].snd_wnd = now[0].snd_wnd_max = 65536;
	assert_both(before, now, REGION_WHY_PEER_WINDOW, REGION_WHY_RECEIVE_WINDOW, w);
	assert_non_null(strstr(w[0].sentence, "SO_RCVBUF"));
}

static void large_numbers_have_no_exponent(void **state)
{
	struct region_flow before = row(), f = before;

	(void)state;
	f.changed_ns += 10000000000;
	f.busy_us += 100000;
	f.bytes_received += 10000;
	f.read_bytes = f.bytes_received;
	f.data_segs_in = f.data_segs_out = f.turns = 8;
	f.waited_ms = 9900;
	assert_says(&before, &f, REGION_WHY_PEER_THINKS, "which takes 1.2 s beyond");
	f.turns = 10;
	assert_says(&before, &f, REGION_WHY_PEER_THINKS, "which takes 990 ms beyond");
}

static void a_subflow_is_called_one(void **state)
{
	struct region_flow before = row(), f = bulk(&before);

	(void)state;
	f.flags = SL_FLOW_SUBFLOW;
	assert_says(&before, &f, REGION_WHY_PATH, "growing queue.");
	f.sndbuf_us = 10000000;
	assert_says(&before, &f, REGION_WHY_SEND_BUFFER, "Multipath TCP connection");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silence_is_explained),
		cmocka_unit_test(losses_do_not_explain_a_large_window),
		cmocka_unit_test(what_was_idle_does_not_count),
		cmocka_unit_test(directions_are_told_apart),
		cmocka_unit_test(large_numbers_have_no_exponent),
		cmocka_unit_test(a_subflow_is_called_one),
		cmocka_unit_test(a_full_buffer_limits_whatever_the_window),
		cmocka_unit_test(failures_are_told_by_their_cause),
		cmocka_unit_test(sentences_agree_with_their_numbers),
		cmocka_unit_test(a_receiver_of_answers_is_not_limited_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
