// SPDX-License-Identifier: Apache-2.0
/*
 * test_why.c - the cause that limits a connection is named correctly, for synthetic snapshots of
 * each class and for real connections limited by it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "support/test.h"
#include "base/base.h"
#include "source/tcp/tcp.h"
#include "region/why.h"

#define PATIENCE 100000000000ull

/* ---- made up ---- */

/* Ten seconds in the life of a flow at 1 ms, after a first second. */
static struct region_flow first(void)
{
	return (struct region_flow){
		.id = 1,
		.state = SL_STATE_LIVE,
		.open_ns = 1000000000,
		.changed_ns = 2000000000,
		.bytes_acked = 1000,
		.bytes_received = 1000,
		.read_bytes = 1000,
		.busy_us = 1000000,
		.mss = 1448,
		.cwnd = 10,
		.flight = 10,
		.ssthresh = 5,
		.snd_wnd = 65536,
		.rcv_wnd = 65536,
		.rtt_min_us = 1000,
		.srtt_us = 1100,
		.rtt_count = 10,
		.rtt_sum_us = 11000,
		.rto_us = 200000,
		.timeouts = 3,
		.fast = 3,
		.retrans = 9,
		.zero_in = 2,
		.zero_out = 2,
		.drops = 1,
	};
}

static struct region_flow later(void)
{
	struct region_flow f = first();

	f.changed_ns += 10000000000;
	f.bytes_acked += 10000000;
	f.busy_us += 9000000;
	f.rtt_count += 100;
	f.rtt_sum_us += 110000;
	return f;
}

/* A first snapshot in the same state as the second. */
static struct region_flow first_like(const struct region_flow *now)
{
	struct region_flow f = first();

	f.flight = now->flight;
	f.cwnd = now->cwnd;
	f.queue = now->queue;
	f.wmem = now->wmem;
	f.sndbuf = now->sndbuf;
	f.rcv_wnd = now->rcv_wnd;
	f.flags = now->flags;
	f.pacing_kib = now->pacing_kib;
	return f;
}

static void assert_why(const struct region_flow *now, enum region_why_limit limit, double share)
{
	struct region_flow before = first_like(now);
	struct region_why w;

	region_why(&before, now, &w);
	if (w.limit != limit)
		fail_msg("%s in place of %s: %s", region_why_name(w.limit), region_why_name(limit),
			 w.sentence);
	if (w.share < share - 1e-9 || w.share > share + 1e-9)
		fail_msg("%s: %g in place of %g", region_why_name(limit), w.share, share);
	assert_true(strlen(w.sentence) > 20 && strlen(w.sentence) < sizeof(w.sentence) - 1);
	assert_true(w.n > 0 && w.n <= REGION_WHY_NUMBERS);
}

/* On a congested path: marked, but without losses. */
static struct region_flow congested(void)
{
	struct region_flow f = later();

	f.flight = f.cwnd = 10;
	f.wmem = f.queue = f.sndbuf = 0;
	f.ssthresh = 5;
	f.rtt_min_us = 50;
	f.rtt_sum_us = first().rtt_sum_us + 100 * 1049; /* not by 1 ms */
	f.delivered_ce = 1;
	return f;
}

/* The same with losses, one of which caused a timeout. */
static struct region_flow lossy(void)
{
	struct region_flow f = congested();

	f.retrans += 2;
	f.re_tlp++;
	f.timeouts++;
	return f;
}

/* Limited by both windows for a time, and by the peer's at the end. */
static struct region_flow limited(void)
{
	struct region_flow f = lossy();

	f.timeouts = first().timeouts;
	f.sndbuf_us = 4000000;
	f.rwnd_us = 4500000;
	f.rto_us = 200000;
	return f;
}

static void path_and_application_are_told_apart(void **state)
{
	struct region_flow f = later();

	(void)state;
	assert_why(&f, REGION_WHY_PATH, 0.9);
	f.flight = 1; /* a request that waits for its acknowledgement */
	assert_why(&f, REGION_WHY_APPLICATION, 1);
	f.queue = 1447;
	assert_why(&f, REGION_WHY_APPLICATION, 1);
	f.data_segs_out = 100;
	f.held = 25; /* a quarter of the segments waited for an acknowledgement */
	assert_why(&f, REGION_WHY_NAGLE, 0.9);
	f.flags = SL_FLOW_NODELAY;
	assert_why(&f, REGION_WHY_APPLICATION, 1);
	f.held = 24;
	f.flags = 0;
	assert_why(&f, REGION_WHY_APPLICATION, 1);
	f.flight = 0; /* data waits although nothing is in flight */
	assert_why(&f, REGION_WHY_CORK, 0.9);
	f.queue = 0;
	assert_why(&f, REGION_WHY_APPLICATION, 1);
	f.queue_max = 300; /* data waited, although it does not now */
	assert_why(&f, REGION_WHY_CORK, 0.9);
	f.queue_max = 1449; /* more than a segment was to send */
	assert_why(&f, REGION_WHY_APPLICATION, 1);
	f.queue_max = 0;
	f.flags = SL_FLOW_CORK;
	assert_why(&f, REGION_WHY_CORK, 0.9);
	f.data_segs_out = 7000; /* 1.1 ms each: round trips explain the busy time */
	assert_why(&f, REGION_WHY_APPLICATION, 1);
	f.flags = 0;
	f.data_segs_out = 0;
	f.flight = 1;
	f.queue = 1447;
	f.wmem = 8192;
	f.sndbuf = 12288;
	assert_why(&f, REGION_WHY_SEND_BUFFER, 0.9);
	f.queue = 1449; /* more than is in flight: the device's queue is full, too */
	assert_why(&f, REGION_WHY_PATH, 0.9);
	f.queue = 1447;
	f.flight = 10;
	assert_why(&f, REGION_WHY_PATH, 0.9);
	f.pacing_kib = 1024; /* 10 MB in 10 s */
	f.flags = SL_FLOW_PACED;
	assert_why(&f, REGION_WHY_PACING, 0.9);
	f.pacing_kib = 2048;
	assert_why(&f, REGION_WHY_PATH, 0.9);
	f.flags = 0;
	f.wmem = f.queue = f.sndbuf = 0;
	f.cwnd = 4;
	assert_why(&f, REGION_WHY_SLOW_START, 0.9);
	f.cwnd = 10;
	f.ssthresh = 0x7fffffff; /* none yet */
	assert_why(&f, REGION_WHY_SLOW_START, 0.9);
	f.rtt_sum_us += 100 * 999; /* 2.099 ms, over twice and over 1 ms more */
	assert_why(&f, REGION_WHY_BUFFERBLOAT, 0.9);
	f.rtt_min_us = 50;
	f.rtt_sum_us = first().rtt_sum_us + 100 * 1049; /* not by 1 ms */
	f.ssthresh = 5;
	assert_why(&f, REGION_WHY_PATH, 0.9);
	f.delivered_ce = 1;
	assert_why(&f, REGION_WHY_ECN, 0.9);
	f = congested();
	assert_why(&f, REGION_WHY_ECN, 0.9);
}

static void losses_and_windows_are_told_apart(void **state)
{
	struct region_flow f = congested();

	(void)state;
	f.retrans += 2;
	f.re_tlp++;   /* a probe at the tail, */
	f.dsack += 2; /* which was not lost, nor was the other */
	assert_why(&f, REGION_WHY_ECN, 0.9);
	f.data_segs_out = 7000;
	f.reorder = 36; /* more than 1 in 200 */
	assert_why(&f, REGION_WHY_REORDERING, 0.9);
	f.reorder = 35;
	f.re_tlp--;
	f.dsack = 1;
	assert_why(&f, REGION_WHY_LOSS_FAST, 0.9);
	f.dsack = 2;
	f.fast++; /* a recovery, but nothing was lost: the retransmissions were spurious */
	assert_why(&f, REGION_WHY_REORDERING, 0.9);
	f.dsack = 0;
	f.reorder = 0;
	f.retrans += 3;
	f.re_tlp += 4; /* losses at the tail: repaired by probes, and nothing arrived twice */
	assert_why(&f, REGION_WHY_LOSS_FAST, 0.9);
	f.retrans -= 3;
	f.re_tlp -= 4;
	f.fast--;
	f.timeouts++; /* out of 200 ms: less than the window's share */
	assert_why(&f, REGION_WHY_LOSS_FAST, 0.88);
	f.timeouts += 22;
	assert_why(&f, REGION_WHY_LOSS_TIMEOUT, 0.46);
	f.timeouts -= 22;
	f.sndbuf_us += 5000000;
	assert_why(&f, REGION_WHY_SEND_BUFFER, 5.0 / 9 * 0.88);
	f.sndbuf_us = 4000000;
	f.rwnd_us = 4500000;
	assert_why(&f, REGION_WHY_PEER_READS_SLOWLY, 4.5 / 9 * 0.88);
	f.bytes_acked = first().bytes_acked + 65535; /* not even one window, in ten seconds */
	assert_why(&f, REGION_WHY_LOSS_TIMEOUT, 0.9);
	f.bytes_acked++;
	f.rtt_sum_us = first().rtt_sum_us + 100 * 6000000; /* half of the window per RTT */
	f.rtt_min_us = 6000000;
	assert_why(&f, REGION_WHY_PEER_WINDOW, 4.5 / 9 * 0.88);
}

static void what_nobody_answers_is_told(void **state)
{
	struct region_flow f = congested();

	(void)state;
	f.bytes_acked = first().bytes_acked;
	assert_why(&f, REGION_WHY_UNANSWERED, 1);
	f.rto_us = 11000000; /* not expired yet */
	assert_why(&f, REGION_WHY_ECN, 0.9);
	f.backoff = 5; /* five timeouts in a row */
	assert_why(&f, REGION_WHY_UNANSWERED, 1);
	f.flight = 0; /* only window probes */
	f.queue = 1;
	f.probes = 2;
	assert_why(&f, REGION_WHY_UNANSWERED, 1);
	f = first();
	f.changed_ns += 10000000000;
	f.state = SL_STATE_CLOSED;
	f.error = ETIMEDOUT;
	f.probes = 3;
	f.flags = SL_FLOW_RESET_OUT;
	assert_why(&f, REGION_WHY_TIMED_OUT, 1);
}

static void a_close_soon_after_the_first_look_is_told(void **state)
{
	struct region_flow f = first();

	(void)state;
	f.changed_ns += 20000000;
	f.state = SL_STATE_CLOSED;
	f.flight = f.cwnd = 0;
	f.busy_us += 15000; /* the FIN is in flight for most of the interval */
	f.bytes_acked++;
	f.bytes_received++;
	assert_why(&f, REGION_WHY_CLOSED, 1);
}

static void a_dead_path_that_the_filter_excludes_is_not_closed(void **state)
{
	struct region_flow f = first();

	(void)state;
	f.changed_ns += 10000000000;
	f.state = SL_STATE_CLOSED;
	f.flags = SL_FLOW_UNWANTED;
	f.busy_us += 10000000;
	f.timeouts += 2;
	f.backoff = 2;
	assert_why(&f, REGION_WHY_UNANSWERED, 1);
}

static void a_peer_that_does_not_read_is_told(void **state)
{
	struct region_flow f = limited();

	(void)state;
	assert_why(&f, REGION_WHY_PEER_READS_SLOWLY, 0.45);
	f.bytes_acked = first().bytes_acked + 330000000; /* at least half of the window per RTT */
	assert_why(&f, REGION_WHY_PEER_WINDOW, 0.45);
	f.snd_wnd_max = 2 * f.snd_wnd; /* less than half of the earlier, larger window */
	assert_why(&f, REGION_WHY_PEER_READS_SLOWLY, 0.45);
	f.snd_wnd = f.snd_wnd_max = 0;
	assert_why(&f, REGION_WHY_PEER_READS_SLOWLY, 0.45);
	f.bytes_acked = first().bytes_acked;
	f.flight = 0;
	assert_why(&f, REGION_WHY_PEER_NOT_READING, 0.45);
}

static void requests_and_answers_are_told_apart(void **state)
{
	struct region_flow f = later();

	(void)state;
	f.flight = 1;
	f.bytes_received += 10000000;
	f.read_bytes += 10000000;
	f.turns = 1000;
	f.rtt_min_us = 6000;
	f.waited_ms = 10000;
	assert_why(&f, REGION_WHY_ROUND_TRIP, 0.6);
	f.rtt_min_us = 4000;
	assert_why(&f, REGION_WHY_PEER_THINKS, 0.6);
	f.waited_ms = 4000;
	f.thought_ms = 6000;
	assert_why(&f, REGION_WHY_THINKS, 0.6);
	f.data_segs_out = 2000;
	f.held = 1000; /* only between the two segments of each answer */
	assert_why(&f, REGION_WHY_THINKS, 0.6);
	f.waited_ms = 2000;
	assert_why(&f, REGION_WHY_NAGLE, 0.9);
	f.held = 0;
	f.thought_ms = 100;
	f.bytes_received -= 9600000; /* now as the receiver of pieces */
	f.read_bytes = f.bytes_received;
	f.data_segs_in = 2000;
	f.data_segs_out = 1000;
	f.segs_out = 2000;
	assert_why(&f, REGION_WHY_PIECES, 0.79);
	f.data_segs_in = 10000; /* full segments, so the messages are long */
	f.bytes_received += 14000000;
	f.read_bytes = f.bytes_received;
	assert_why(&f, REGION_WHY_PEER, 1);
}

static void two_ends_do_not_contradict_each_other(void **state)
{
	struct region_flow a = limited(), b = first(), first_a = first_like(&a), first_b;
	const struct region_flow *before[2] = {&first_a, &first_b}, *now[2] = {&a, &b};
	struct region_why w[2];

	(void)state;
	b.changed_ns = a.changed_ns;
	b.bytes_received = a.bytes_acked;
	b.data_segs_in = 1;
	b.read_bytes = b.bytes_received - 1000;
	first_b = first();
	region_why_both(before, now, w);
	assert_int_equal(w[0].limit, REGION_WHY_PEER_READS_SLOWLY);
	assert_int_equal(w[1].limit, REGION_WHY_READS_SLOWLY); /* alone, it would be PEER */
	b.read_bytes += 1000; /* it reads everything, so its window is small */
	region_why_both(before, now, w);
	assert_int_equal(w[0].limit, REGION_WHY_PEER_WINDOW);
	assert_int_equal(w[1].limit, REGION_WHY_RECEIVE_WINDOW);
	region_why(&first_b, &b, &w[1]);
	assert_int_equal(w[1].limit, REGION_WHY_PEER);
	a = congested();
	a.bytes_acked = first().bytes_acked;
	b = first();
	b.changed_ns = a.changed_ns;
	for (int i = 0; i < 2; i++) { /* in any order */
		before[i] = &first_a;
		before[!i] = &first_b;
		now[i] = &a;
		now[!i] = &b;
		region_why_both(before, now, w);
		assert_int_equal(w[i].limit, REGION_WHY_UNANSWERED);
		assert_int_equal(w[!i].limit, REGION_WHY_NOTHING_ARRIVES);
	}
	/* A sender with nothing to send is right, even if its peer leaves data unread. */
	a = later();
	a.flight = 0;
	first_a = first_like(&a);
	b.bytes_received += 100000;
	b.rcv_wnd = 0;
	first_b.read_bytes = 0;
	b.read_bytes = 0;
	region_why_both((const struct region_flow *[]){&first_a, &first_b},
			(const struct region_flow *[]){&a, &b}, w);
	assert_int_equal(w[0].limit, REGION_WHY_APPLICATION);
	assert_int_equal(w[1].limit, REGION_WHY_NOT_READING);
}

static void who_waits_for_whom_is_told(void **state)
{
	struct region_flow f = limited();

	(void)state;
	f.snd_wnd = 0;
	f.busy_us = first().busy_us + 1000000;
	f.rwnd_us = f.sndbuf_us = 0;
	assert_why(&f, REGION_WHY_APPLICATION, 0.9);
	f.bytes_received += 20000000;
	f.read_bytes += 20000000;
	assert_why(&f, REGION_WHY_PEER, 0.9);
	f.zero_out++; /* but everything has been read now */
	assert_why(&f, REGION_WHY_PEER, 0.9);
	f.read_bytes -= 100000;
	assert_why(&f, REGION_WHY_PEER, 0.9); /* no data was unread in the first snapshot */
	f.flags = SL_FLOW_RESET_IN;
	assert_why(&f, REGION_WHY_RESET, 1);
}

static void idle_and_listening_are_told_apart(void **state)
{
	struct region_flow f = first();

	(void)state;
	f.changed_ns += 10000000000;
	assert_why(&f, REGION_WHY_IDLE, 1);
	f.queue = 1;
	f.snd_wnd = 1447;
	assert_why(&f, REGION_WHY_PEER_NOT_READING, 1);
	f.snd_wnd++;
	assert_why(&f, REGION_WHY_IDLE, 1);
	f.flags = SL_FLOW_LISTENER;
	assert_why(&f, REGION_WHY_ACCEPTING, 1);
	f.drops++;
	assert_why(&f, REGION_WHY_ACCEPTING, 1);
	f.backlog = 127;
	f.backlog_max = 128;
	assert_why(&f, REGION_WHY_ACCEPTING, 1);
	f.backlog++;
	assert_why(&f, REGION_WHY_ACCEPT_QUEUE, 1);
	f.drops--;
	assert_why(&f, REGION_WHY_ACCEPTING, 1);
	f.backlog++;
	assert_why(&f, REGION_WHY_ACCEPT_QUEUE, 1);
}

static void stray_segments_are_no_refused_connections(void **state)
{
	struct region_flow before = first(), f = first();
	struct region_why w;

	(void)state;
	before.flags = f.flags = SL_FLOW_LISTENER;
	before.backlog_max = f.backlog_max = 128;
	f.changed_ns += 10000000000;
	f.drops += 7;
	region_why(&before, &f, &w);
	assert_int_equal(w.limit, REGION_WHY_ACCEPTING);
	assert_non_null(strstr(w.sentence, "7 segments for its port were dropped: stray"));
	before.backlog = 128; /* the application has caught up since */
	region_why(&before, &f, &w);
	assert_int_equal(w.limit, REGION_WHY_ACCEPT_QUEUE);
	assert_non_null(strstr(w.sentence, "128 connections wait in a queue of 128, and 7"));
}

static void snapshots_that_make_no_sense_do_no_harm(void **state)
{
	struct region_flow f = first(), wild;
	struct region_why w;

	(void)state;
	assert_why(&f, REGION_WHY_IDLE, 1); /* no time passed between them */
	region_why(NULL, &f, &w);	    /* since it was opened: one second, busy */
	assert_int_equal(w.limit, REGION_WHY_LOSS_TIMEOUT);
	assert_true(w.share == 1 && w.interval_ns == 1000000000);
	memset(&wild, 0xff, sizeof(wild));
	region_why(&f, &wild, &w);
	assert_true(w.share >= 0 && w.share <= 1);
	wild.flags = 0; /* the parts exceed the whole */
	region_why(&f, &wild, &w);
	assert_true(w.n > 4);
	for (uint32_t i = 0; i < w.n; i++)
		assert_true(w.number[i].value >= 0);
	region_why(&wild, &f, &w);
	assert_int_equal(w.limit, REGION_WHY_IDLE);
	memset(&wild, 0, sizeof(wild));
	region_why(NULL, &wild, &w);
	assert_int_equal(w.limit, REGION_WHY_IDLE);
	for (int i = 0; i < REGION_WHY_LIMITS; i++)
		assert_non_null(region_why_name((enum region_why_limit)i));
	assert_string_equal(region_why_name(REGION_WHY_LIMITS), "unknown");
}

/* ---- real ---- */

static struct tcp *tcp;
static const void *map;
static struct region_flows_info info;
static char why_not[256];

static void pause_ms(int ms)
{
	struct timespec t = {.tv_nsec = ms * 1000000};

	nanosleep(&t, NULL);
}

/* A separate network namespace, so that no other packets are delayed. */
static int set_up(void **state)
{
	/* excludes other connections on this machine, which might fill the table */
	struct tcp_opts o = {
		.flows = 256, .interval_ns = 2000000, .filter = {.netns = "/proc/self/ns/net"}};
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	size_t bytes;
	int s;

	(void)state;
	if (unshare(CLONE_NEWNET)) {
		snprintf(why_not, sizeof(why_not), "no network namespace: %s", strerror(errno));
		return 0;
	}
	s = socket(AF_INET, SOCK_DGRAM, 0);
	if (s < 0 || ioctl(s, SIOCSIFFLAGS, &lo))
		return -1;
	close(s);
	if (tcp_open(&o, &tcp, why_not, sizeof(why_not)))
		return 0;
	if (tcp_attach(tcp, why_not, sizeof(why_not)))
		return -1;
	map = tcp_region(tcp)->map;
	bytes = tcp_region(tcp)->bytes;
	return region_flows_info_parse(map, bytes, &info) ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	tcp_close(tcp);
	return 0;
}

static void need_kernel(void)
{
	if (map)
		return;
	printf("SKIP: %s\n", why_not);
	skip();
}

static bool find(uint16_t local, uint16_t remote, struct region_flow *f)
{
	struct region_flows_hot hot;

	assert_int_equal(tcp_catch_up(tcp, NULL), 0);
	if (region_flows_hot_read(map, &info, &hot))
		return false;
	for (uint32_t i = 0; i < hot.used; i++)
		if (!region_flow_read(map, &info, i, f) && f->state != SL_STATE_FREE &&
		    f->local_port == local && f->remote_port == remote)
			return true;
	return false;
}

/* One connection over loopback, and threads that send and receive on request. */
struct pair {
	int listener, client, server;
	uint16_t client_port, server_port;
	pthread_t sender, receiver;
	atomic_bool stop;
	int send_every_ms, receive_every_ms; /* 0: continuously, -1: never */
};

static uint16_t port_of(int fd)
{
	struct sockaddr_in a;
	socklen_t n = sizeof(a);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
	return ntohs(a.sin_port);
}

/*
 * Returns true if the caller may go on. A call with a time limit ends with EINTR if the end of a
 * child wakes its thread, because system() makes the main thread block that signal.
 */
static bool may_go_on(ssize_t n)
{
	return n >= 0 || errno == EAGAIN || errno == EINTR;
}

static void *send_all(void *arg)
{
	static char block[65536];
	struct pair *p = arg;

	while (!p->stop) {
		ssize_t n = send(p->client, block, p->send_every_ms ? 100 : sizeof(block),
				 MSG_NOSIGNAL);

		if (!may_go_on(n))
			break;
		if (p->send_every_ms)
			pause_ms(p->send_every_ms);
	}
	return NULL;
}

static void *receive_all(void *arg)
{
	static char block[1 << 20];
	struct pair *p = arg;

	while (!p->stop) {
		ssize_t n = p->receive_every_ms < 0 ? 1 : recv(p->server, block, sizeof(block), 0);

		if (!n || !may_go_on(n))
			break;
		if (p->receive_every_ms)
			pause_ms(p->receive_every_ms < 0 ? 10 : p->receive_every_ms);
	}
	return NULL;
}

static void connect_pair(struct pair *p, int sndbuf, int rcvbuf)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval t = {.tv_usec = 50000}; /* so that threads notice that they should stop */
	socklen_t n = sizeof(a);

	p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (rcvbuf)
		setsockopt(p->listener, SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof(rcvbuf));
	assert_int_equal(bind(p->listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(p->listener, 4), 0);
	getsockname(p->listener, (struct sockaddr *)&a, &n);
	p->client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* The machine's congestion control may ignore losses, as BBR does. */
	setsockopt(p->client, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	if (sndbuf)
		setsockopt(p->client, SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof(sndbuf));
	assert_int_equal(connect(p->client, (struct sockaddr *)&a, sizeof(a)), 0);
	p->server = accept(p->listener, NULL, NULL);
	assert_true(p->server >= 0);
	setsockopt(p->client, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
	setsockopt(p->server, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	p->client_port = port_of(p->client);
	p->server_port = port_of(p->server);
	assert_int_equal(pthread_create(&p->sender, NULL, send_all, p), 0);
	assert_int_equal(pthread_create(&p->receiver, NULL, receive_all, p), 0);
}

static void close_pair(struct pair *p)
{
	struct linger now = {.l_onoff = 1};

	p->stop = true;
	shutdown(p->client, SHUT_RDWR);
	pthread_join(p->sender, NULL);
	pthread_join(p->receiver, NULL);
	setsockopt(p->client, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(p->client);
	close(p->server);
	close(p->listener);
}

/* Polls every 100 ms or more until the cause is as expected, up to a limit; w: the last answer. */
static bool comes_to(uint16_t local, uint16_t remote, enum region_why_limit limit,
		     uint64_t patience, struct region_why *w)
{
	uint64_t start = base_now_ns();
	struct region_flow before, now;

	memset(w, 0, sizeof(*w));
	while (!find(local, remote, &before) || before.state != SL_STATE_LIVE) {
		if (base_now_ns() - start > PATIENCE)
			fail_msg("no flow %u > %u", local, remote);
		pause_ms(5);
	}
	do {
		pause_ms(100);
		if (!find(local, remote, &now))
			continue;
		region_why(&before, &now, w);
		before = now;
		if (w->limit == limit)
			return true;
	} while (base_now_ns() - start < patience);
	return false;
}

static void check_said(bool told, enum region_why_limit limit, const struct region_why *w)
{
	if (!told)
		fail_msg("%s in place of %s: %s", region_why_name(w->limit), region_why_name(limit),
			 w->sentence);
	print_message("           %s\n", w->sentence);
	assert_true(w->share > 0 && w->share <= 1);
}

static void wait_for(uint16_t local, uint16_t remote, enum region_why_limit limit)
{
	struct region_why w;

	check_said(comes_to(local, remote, limit, PATIENCE, &w), limit, &w);
}

static void a_reader_that_does_not_read(void **state)
{
	struct pair p = {.receive_every_ms = -1};

	(void)state;
	need_kernel();
	connect_pair(&p, 0, 0);
	wait_for(p.client_port, p.server_port, REGION_WHY_PEER_NOT_READING);
	wait_for(p.server_port, p.client_port, REGION_WHY_NOT_READING);
	close_pair(&p);
}

static void a_sender_with_little_to_send(void **state)
{
	struct pair p = {.send_every_ms = 10};

	(void)state;
	need_kernel();
	connect_pair(&p, 0, 0);
	wait_for(p.client_port, p.server_port, REGION_WHY_APPLICATION);
	wait_for(p.server_port, p.client_port, REGION_WHY_PEER);
	close_pair(&p);
}

static void no_sender(void **state)
{
	struct pair p = {.send_every_ms = 60000, .receive_every_ms = 0};
	struct region_flow before, now;
	struct region_why w;

	(void)state;
	need_kernel();
	p.stop = true; /* the threads end at once */
	connect_pair(&p, 0, 0);
	for (uint64_t end = base_now_ns() + PATIENCE;
	     !find(p.client_port, p.server_port, &before);) {
		assert_true(base_now_ns() < end);
		pause_ms(5);
	}
	pause_ms(50);
	assert_true(find(p.client_port, p.server_port, &now));
	region_why(&before, &now, &w);
	assert_int_equal(w.limit, REGION_WHY_IDLE);
	close_pair(&p);
}

/*
 * Slows down loopback of this namespace, with a queue of this many bytes. Returns false if this is
 * impossible.
 */
static bool slow_down(const char *tbf, const char *netem)
{
	char line[256];

	snprintf(line, sizeof(line),
		 "PATH=$PATH:/usr/sbin:/sbin; tc qdisc replace dev lo root %s 2>/dev/null || "
		 "tc qdisc replace dev lo root %s 2>/dev/null",
		 tbf, netem);
	return !system(line);
}

static void need_queue(bool there)
{
	need_kernel();
	if (there)
		return;
	puts("SKIP: no qdisc tbf or netem");
	skip();
}

static void full_speed(void)
{
	if (system("PATH=$PATH:/usr/sbin:/sbin; tc qdisc del dev lo root 2>/dev/null"))
		print_message("           no qdisc was there\n");
}

static void a_small_send_buffer(void **state)
{
	struct pair p = {0};

	(void)state;
	need_queue(slow_down("tbf rate 100mbit burst 128kb latency 500ms", "netem delay 5ms"));
	connect_pair(&p, 8192, 0);
	wait_for(p.client_port, p.server_port, REGION_WHY_SEND_BUFFER);
	close_pair(&p);
	full_speed();
}

static void a_small_receive_window(void **state)
{
	struct pair p = {0};

	(void)state;
	need_queue(slow_down("tbf rate 100mbit burst 128kb latency 500ms", "netem delay 5ms"));
	connect_pair(&p, 0, 200000);
	wait_for(p.client_port, p.server_port, REGION_WHY_PEER_WINDOW);
	close_pair(&p);
	full_speed();
}

static void a_queue_on_the_path(void **state)
{
	struct pair p = {0};

	(void)state;
	need_queue(slow_down("tbf rate 50mbit burst 128kb limit 50000000",
			     "netem rate 50mbit limit 100000"));
	connect_pair(&p, 0, 0);
	wait_for(p.client_port, p.server_port, REGION_WHY_BUFFERBLOAT);
	close_pair(&p);
	full_speed();
}

static bool long_way(const char *more)
{
	char netem[64];

	snprintf(netem, sizeof(netem), "netem delay 200ms limit 100000 %s", more);
	return slow_down(netem, netem);
}

/*
 * A path with a long delay and enough room: the window of a new connection grows for some RTTs, and
 * shrinks once the network marks segments; when marking stops, the window stays as it is. Segments
 * are as long as on Ethernet.
 */
static void a_long_way_that_marks_for_a_while(void **state)
{
	struct region_why w = {0};
	struct pair p = {0};
	uint64_t end = base_now_ns() + PATIENCE;
	bool told;

	(void)state;
	need_kernel();
	if (!long_way("")) {
		puts("SKIP: no qdisc netem, which Debian's kernel of the guests has");
		skip();
	}
	assert_int_equal(system("PATH=$PATH:/usr/sbin:/sbin; ip link set lo mtu 1500 && "
				"echo 1 > /proc/sys/net/ipv4/tcp_ecn"),
			 0);
	/* A late look finds another one that begins. */
	for (;;) {
		connect_pair(&p, 0, 0);
		told = comes_to(p.client_port, p.server_port, REGION_WHY_SLOW_START, PATIENCE / 10,
				&w);
		if (told || base_now_ns() > end)
			break;
		close_pair(&p);
		p = (struct pair){0};
	}
	check_said(told, REGION_WHY_SLOW_START, &w);
	assert_true(long_way("loss 10% ecn"));
	wait_for(p.client_port, p.server_port, REGION_WHY_ECN);
	assert_true(long_way(""));
	wait_for(p.client_port, p.server_port, REGION_WHY_PATH);
	close_pair(&p);
	full_speed();
	assert_int_equal(system("PATH=$PATH:/usr/sbin:/sbin; ip link set lo mtu 65536 && "
				"echo 2 > /proc/sys/net/ipv4/tcp_ecn"),
			 0);
}

/*
 * A filter on the socket drops after IP, where a network would: all, or one segment in this many.
 */
static void drop(int fd, uint32_t one_in)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_RANDOM)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0xffffffffu / one_in, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
	};
	struct sock_fprog p = {.len = sizeof(code) / sizeof(*code), .filter = code};

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &p, sizeof(p)), 0);
}

static void losses_that_are_repaired_fast_and_late(void **state)
{
	struct pair p = {0};

	(void)state;
	need_kernel();
	connect_pair(&p, 0, 0);
	drop(p.server, 200);
	wait_for(p.client_port, p.server_port, REGION_WHY_LOSS_FAST);
	drop(p.server, 1);
	wait_for(p.client_port, p.server_port, REGION_WHY_UNANSWERED);
	close_pair(&p);
}

static void a_listener_that_does_not_accept(void **state)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd[8];
	socklen_t n = sizeof(a);

	(void)state;
	need_kernel();
	assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(listener, 1), 0);
	getsockname(listener, (struct sockaddr *)&a, &n);
	for (size_t i = 0; i < 8; i++) {
		fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(fd[i], (struct sockaddr *)&a, sizeof(a));
	}
	wait_for(ntohs(a.sin_port), 0, REGION_WHY_ACCEPT_QUEUE);
	for (size_t i = 0; i < 8; i++)
		close(fd[i]);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(path_and_application_are_told_apart),
		cmocka_unit_test(losses_and_windows_are_told_apart),
		cmocka_unit_test(what_nobody_answers_is_told),
		cmocka_unit_test(a_close_soon_after_the_first_look_is_told),
		cmocka_unit_test(a_dead_path_that_the_filter_excludes_is_not_closed),
		cmocka_unit_test(a_peer_that_does_not_read_is_told),
		cmocka_unit_test(requests_and_answers_are_told_apart),
		cmocka_unit_test(two_ends_do_not_contradict_each_other),
		cmocka_unit_test(who_waits_for_whom_is_told),
		cmocka_unit_test(idle_and_listening_are_told_apart),
		cmocka_unit_test(stray_segments_are_no_refused_connections),
		cmocka_unit_test(snapshots_that_make_no_sense_do_no_harm),
		cmocka_unit_test(a_reader_that_does_not_read),
		cmocka_unit_test(a_sender_with_little_to_send),
		cmocka_unit_test(no_sender),
		cmocka_unit_test(a_small_send_buffer),
		cmocka_unit_test(a_small_receive_window),
		cmocka_unit_test(a_queue_on_the_path),
		cmocka_unit_test(a_long_way_that_marks_for_a_while),
		cmocka_unit_test(losses_that_are_repaired_fast_and_late),
		cmocka_unit_test(a_listener_that_does_not_accept),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
