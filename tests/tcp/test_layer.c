// SPDX-License-Identifier: Apache-2.0
/*
 * test_layer.c - the time per layer and of requests, compared with the server's own times, with a
 * capture between two network namespaces, and with itself: the sum of parts, segments and causes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/test.h"
#include "base/base.h"
#include "source/tcp/cgroup.h"
#include "source/tcp/layer.h"

#define PATIENCE 100000000000ull
#define PORTS	 10 /* counted from first_port: one per test, so that each has separate groups */
#define REQUESTS 40

/* ---- the server, in a network namespace of its own ---- */

struct exchange { /* CLOCK_MONOTONIC around the server's calls */
	uint64_t before_read, after_read, before_send, after_send;
};

struct job {
	int requests;	   /* 0: read to the end */
	int length, reply; /* bytes */
	int sleep_us, chunk;
	bool done, hold; /* hold: read only when released */
	bool accepted, release;
	uint64_t bytes;
	struct exchange at[REQUESTS];
};

static struct job *job; /* shared with the server */
static int first_port;	/* the port that the filter leaves out */
static int port;	/* of this test */
static pid_t server;
static int to_server, capture = -1;

static void pause_us(long us)
{
	struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

	nanosleep(&t, NULL);
}

static int read_exactly(int fd, char *buffer, int bytes)
{
	int have = 0;

	while (have < bytes) {
		ssize_t n = read(fd, buffer + have, (size_t)(bytes - have));

		if (n <= 0)
			return -1;
		have += (int)n;
	}
	return 0;
}

static void serve(int fd)
{
	static char buffer[1 << 16];

	__atomic_store_n(&job->accepted, true, __ATOMIC_RELEASE);
	while (job->hold && !__atomic_load_n(&job->release, __ATOMIC_ACQUIRE))
		pause_us(1000);
	for (int i = 0; i < job->requests; i++) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		struct exchange *e = &job->at[i];

		poll(&p, 1, -1);
		e->before_read = base_now_ns();
		if (read_exactly(fd, buffer, job->length))
			break;
		e->after_read = base_now_ns();
		pause_us(job->sleep_us);
		e->before_send = base_now_ns();
		if (write(fd, buffer, (size_t)job->reply) != job->reply)
			break;
		e->after_send = base_now_ns();
	}
	for (;;) {
		ssize_t n = read(fd, buffer, (size_t)(job->chunk ? job->chunk : 65536));

		if (n <= 0)
			break;
		job->bytes += (uint64_t)n;
	}
	close(fd);
	__atomic_store_n(&job->done, true, __ATOMIC_RELEASE);
}

static int shell(const char *command)
{
	int code = system(command);

	return code == -1 ? -1 : WEXITSTATUS(code);
}

static void run_server(int commands, int ready)
{
	struct sockaddr_in6 at = {.sin6_family = AF_INET6};
	int s[PORTS], one = 1;
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWNET) || write(ready, "n", 1) != 1 || read(commands, &c, 1) != 1)
		_exit(1);
	if (shell("ip link set lo up && ip addr add 10.9.0.2/24 dev v1 &&"
		  "ip addr add fd09::2/64 dev v1 nodad && ip link set v1 up"))
		_exit(1);
	for (int i = 0; i < PORTS; i++) {
		s[i] = socket(AF_INET6, SOCK_STREAM, 0);
		at.sin6_port = htons((uint16_t)(first_port + i));
		if (bind(s[i], (struct sockaddr *)&at, sizeof(at)) || listen(s[i], 64))
			_exit(1);
	}
	if (write(ready, "l", 1) != 1)
		_exit(1);
	while (read(commands, &c, 1) == 1) {
		int fd = accept(s[(int)c], NULL, NULL);

		if (fd < 0)
			_exit(1);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		serve(fd);
	}
	_exit(0);
}

/* ---- both ends and the wire between ---- */

static int skip_all(const char *why)
{
	printf("SKIP: %s\n", why);
	return 77;
}

/*
 * The programs see all namespaces, so the filter needs ports that no other process on this host
 * uses, below those that the kernel gives to clients (ip_local_port_range). They are bound, and
 * held, in the namespace in which all tests start.
 */
static int reserve_ports(void)
{
	for (int at = 0; at < 2000; at++) {
		struct sockaddr_in6 to = {.sin6_family = AF_INET6};
		int held[PORTS], n = 0;
		bool free = true;

		first_port = 10000 + (getpid() + at) % 2000 * PORTS;
		for (; n < PORTS && free; n++) {
			to.sin6_port = htons((uint16_t)(first_port + n));
			held[n] = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
			free = held[n] >= 0 && !bind(held[n], (struct sockaddr *)&to, sizeof(to));
		}
		if (free)
			return 0;
		while (n--)
			close(held[n]);
	}
	return -1;
}

static int wire_up(void)
{
	struct sockaddr_ll ll = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	int commands[2], ready[2], size = 64 << 20;
	char line[128], c;

	if (reserve_ports())
		return 1;
	if (unshare(CLONE_NEWNET))
		return skip_all("no network namespaces here");
	job = mmap(NULL, sizeof(*job), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (job == MAP_FAILED || pipe(commands) || pipe(ready))
		return 1;
	server = fork();
	if (!server) {
		close(commands[1]);
		run_server(commands[0], ready[1]);
	}
	close(commands[0]);
	close(ready[1]);
	to_server = commands[1];
	if (read(ready[0], &c, 1) != 1)
		return skip_all("no second network namespace here");
	snprintf(line, sizeof(line), "ip link add v0 type veth peer name v1 netns %d 2>/dev/null",
		 server);
	if (shell(line))
		return skip_all("no veth here");
	if (shell("ip link set lo up && ip addr add 10.9.0.1/24 dev v0 &&"
		  "ip addr add fd09::1/64 dev v0 nodad && ip link set v0 up"))
		return 1;
	if (write(to_server, "u", 1) != 1 || read(ready[0], &c, 1) != 1)
		return 1;
	capture = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));
	ll.sll_ifindex = (int)if_nametoindex("v0");
	setsockopt(capture, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	return bind(capture, (struct sockaddr *)&ll, sizeof(ll)) ? 1 : 0;
}

static int connect_to(const char *address)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	bool four = inet_pton(AF_INET, address, &v4.sin_addr) == 1;
	uint64_t end = base_now_ns() + PATIENCE;
	int one = 1;

	v6.sin6_port = v4.sin_port = htons((uint16_t)port);
	inet_pton(AF_INET6, address, &v6.sin6_addr);
	for (;;) {
		int fd = socket(four ? AF_INET : AF_INET6, SOCK_STREAM, 0);

		/* An address may not be up yet. */
		if (!connect(fd, four ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6,
			     four ? sizeof(v4) : sizeof(v6))) {
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			/*
			 * Data that arrives before the end of the handshake does not pass
			 * tcp_probe.
			 */
			while (!__atomic_load_n(&job->accepted, __ATOMIC_ACQUIRE)) {
				assert_true(base_now_ns() < end);
				pause_us(100);
			}
			return fd;
		}
		close(fd);
		assert_true(base_now_ns() < end);
		pause_us(10000);
	}
}

/* A data segment in the capture; out: sent from here, that is, a request's. */
struct seen {
	bool out;
	uint32_t seq, ack, length;
};
static struct seen seen[20000];
static int seen_count;

static void read_capture(void)
{
	static uint8_t p[1 << 17];
	struct sockaddr_ll from;
	socklen_t size = sizeof(from);
	ssize_t n;

	while ((n = recvfrom(capture, p, sizeof(p), 0, (struct sockaddr *)&from, &size)) > 0) {
		const struct tcphdr *t;
		uint32_t ip, all;

		size = sizeof(from);
		if (p[12] == 0x08 && p[13] == 0 && p[23] == IPPROTO_TCP) {
			ip = (p[14] & 15) * 4u;
			all = (uint32_t)(p[16] << 8 | p[17]);
		} else if (p[12] == 0x86 && p[13] == 0xdd && p[20] == IPPROTO_TCP) {
			ip = 40;
			all = 40u + (uint32_t)(p[18] << 8 | p[19]);
		} else {
			continue;
		}
		t = (const struct tcphdr *)(p + 14 + ip);
		if (all <= ip + t->doff * 4u || seen_count == 20000)
			continue;
		seen[seen_count++] = (struct seen){
			.out = from.sll_pkttype == PACKET_OUTGOING,
			.seq = ntohl(t->seq),
			.ack = ntohl(t->ack_seq),
			.length = all - ip - t->doff * 4u,
		};
	}
}

/* ---- records ---- */

static struct tcp_layer_record records[4 * REQUESTS];
static int record_count;

static void keep(void *context, const struct tcp_layer_record *r)
{
	(void)context;
	if (record_count < (int)(sizeof(records) / sizeof(*records)))
		records[record_count++] = *r;
}

static struct tcp_layers *open_layers(uint32_t flows)
{
	char all_but_first[32];
	const char *ports = all_but_first;
	struct tcp_layers_opts o = {
		.flows = flows,
		.filter.ports = {.v = &ports, .n = 1},
	};
	struct tcp_layers *l;
	char why[256];

	snprintf(all_but_first, sizeof(all_but_first), "%d-%d", first_port + 1,
		 first_port + PORTS - 1);
	if (tcp_layers_open(&o, &l, why, sizeof(why)))
		fail_msg("%s", why);
	return l;
}

/* Opening takes seconds in the guest: most tests share one, and check changes. */
static struct tcp_layers *l;
static uint64_t causes_before[SL_CAUSES];

static int open_shared(void **state)
{
	(void)state;
	l = open_layers(0);
	return tcp_layers_trace(l, 1 << TCP_RECORD_REQUEST, keep, NULL);
}

static int close_shared(void **state)
{
	(void)state;
	tcp_layers_close(l);
	return 0;
}

static int next_port(void **state)
{
	(void)state;
	if (!port)
		port = first_port;
	port++;
	tcp_layers_poll(l, 0);
	read_capture();
	record_count = seen_count = 0;
	return tcp_layers_causes(l, causes_before);
}

static void causes_since(uint64_t out[SL_CAUSES])
{
	assert_int_equal(tcp_layers_causes(l, out), 0);
	for (int i = 0; i < SL_CAUSES; i++)
		out[i] -= causes_before[i];
}

static void poll_records(int n)
{
	uint64_t end = base_now_ns() + PATIENCE;

	while (record_count < n && base_now_ns() < end)
		assert_true(tcp_layers_poll(l, 50) >= 0);
	assert_int_equal(record_count, n);
}

/* Waits until all recorded data is counted. */
static void settle(const struct tcp_layers *of)
{
	uint64_t end = base_now_ns() + PATIENCE;

	while (!tcp_layers_settled(of)) {
		assert_true(base_now_ns() < end);
		pause_us(1000);
	}
}

/* Returns the group of one end of the service. */
static bool group(struct tcp_layers *from, enum sl_role role, struct region_layer_view *v)
{
	settle(from);
	for (uint32_t i = 1; i < tcp_layers_slots(from, TCP_LAYER_GROUPS); i++)
		if (tcp_layers_slot(from, TCP_LAYER_GROUPS, i, v) == 1 && v->role == role &&
		    v->local_port == port && v->count[SL_COUNT_IN] + v->count[SL_COUNT_OUT])
			return true;
	return false;
}

static void begin_job(const struct job *what)
{
	memset(job, 0, sizeof(*job));
	*job = *what;
	assert_int_equal(write(to_server, &(char){(char)(port - first_port)}, 1), 1);
}

static void end_job(int fd)
{
	uint64_t end = base_now_ns() + PATIENCE;

	shutdown(fd, SHUT_WR);
	while (!__atomic_load_n(&job->done, __ATOMIC_ACQUIRE)) {
		assert_true(base_now_ns() < end);
		pause_us(1000);
	}
	close(fd);
}

static void ask(int fd, int requests, int length, int reply)
{
	char buffer[4096] = {0};

	for (int i = 0; i < requests; i++) {
		assert_int_equal(write(fd, buffer, (size_t)length), length);
		assert_int_equal(read_exactly(fd, buffer, reply), 0);
	}
}

/* Checks that each boundary of a request was seen, in the right order. */
static void whole(const struct tcp_layer_record *r)
{
	const uint64_t at[] = {r->nic_in, r->ip_in,  r->tcp_in, r->copied,
			       r->sent,	  r->ip_out, r->queued, r->nic_out};

	for (int i = 0; i < 8; i++)
		if (!at[i] || (i && at[i] < at[i - 1])) {
			uint64_t causes[SL_CAUSES];

			for (int k = 0; k < 8; k++)
				print_message("time %d: %llu\n", k, (unsigned long long)at[k]);
			causes_since(causes);
			for (int k = 0; k < SL_CAUSES; k++)
				if (causes[k])
					print_message("%s: %llu\n", region_layer_cause_name(k),
						      (unsigned long long)causes[k]);
			fail_msg("boundary %d of a request was not seen, or is out of order", i);
		}
}

static void one_by_one(const char *address)
{
	struct region_layer_view v;
	uint64_t parts = 0;
	int fd;

	begin_job(
		&(struct job){.requests = REQUESTS, .length = 100, .reply = 300, .sleep_us = 500});
	fd = connect_to(address);
	ask(fd, REQUESTS, 100, 300);
	poll_records(REQUESTS);
	end_job(fd);
	read_capture();
	for (int i = 0; i < REQUESTS; i++) {
		const struct tcp_layer_record *r = &records[i];
		const struct exchange *e = &job->at[i];
		int request = 0, response = 0;

		whole(r);
		/* The copy and the send call are within the server's own calls. */
		assert_in_range(r->copied, e->before_read, e->after_read);
		assert_in_range(r->sent, e->before_send, e->after_send);
		assert_int_equal(r->role, SL_ROLE_SERVER);
		assert_false(r->pipelined);
		assert_int_equal(r->length, 100);
		assert_int_equal(r->key.local_port, port);
		/* Request A, ack B, length L; response B, ack A + L. */
		for (int s = 0; s < seen_count; s++) {
			request += seen[s].out && seen[s].seq == r->seq &&
				   seen[s].length == r->length && seen[s].ack == r->response_seq;
			response += !seen[s].out && seen[s].seq == r->response_seq &&
				    seen[s].ack == r->seq + r->length;
		}
		assert_int_equal(request, 1);
		assert_int_equal(response, 1);
	}
	assert_true(group(l, SL_ROLE_SERVER, &v));
	assert_int_equal(v.count[SL_COUNT_REQUESTS], REQUESTS);
	assert_int_equal(v.count[SL_COUNT_COMPLETE], REQUESTS);
	assert_int_equal(v.count[SL_COUNT_UNATTRIBUTED], 0);
	for (int i = 0; i < SL_LAYERS; i++) {
		assert_int_equal(region_layer_count(v.cell[i]), REQUESTS);
		if (i != SL_LAYER_TOTAL)
			parts += v.cell[i][SL_LAYER_SUM];
	}
	assert_int_equal(v.cell[SL_LAYER_TOTAL][SL_LAYER_SUM], parts);
	/* A client's pause between requests is not an application's latency. */
	assert_true(group(l, SL_ROLE_CLIENT, &v));
	assert_int_equal(v.count[SL_COUNT_REQUESTS], 0);
	assert_int_equal(region_layer_count(v.cell[SL_LAYER_APP]), 0);
	assert_int_equal(region_layer_count(v.cell[SL_LAYER_TCP_OUT]), REQUESTS);
}

static void test_requests_v4(void **state)
{
	(void)state;
	one_by_one("10.9.0.2");
}

static void test_requests_v6(void **state)
{
	(void)state;
	one_by_one("fd09::2");
}

/*
 * Ten requests in one segment, read and answered one by one: nine of them have another request
 * behind them.
 */
static void test_pipelining(void **state)
{
	char buffer[4096] = {0};
	struct region_layer_view v;
	int fd;

	(void)state;
	begin_job(&(struct job){.requests = 10, .length = 100, .reply = 50});
	fd = connect_to("10.9.0.2");
	assert_int_equal(write(fd, buffer, 1000), 1000);
	assert_int_equal(read_exactly(fd, buffer, 500), 0);
	poll_records(10);
	end_job(fd);
	for (int i = 0; i < 10; i++) {
		whole(&records[i]);
		assert_int_equal(records[i].length, 100);
		assert_int_equal(records[i].seq, records[0].seq + 100u * (uint32_t)i);
		assert_int_equal(records[i].response_seq,
				 records[0].response_seq + 50u * (uint32_t)i);
		assert_int_equal(records[i].nic_in, records[0].nic_in);
		assert_int_equal(records[i].pipelined, i < 9);
	}
	assert_true(group(l, SL_ROLE_SERVER, &v));
	assert_int_equal(v.count[SL_COUNT_PIPELINED], 9);
	assert_int_equal(v.count[SL_COUNT_COMPLETE], 10);
	/* One segment arrived, and its TCP layer ended once, with its last byte. */
	assert_int_equal(region_layer_count(v.cell[SL_LAYER_TCP_IN]), 1);
}

/* Checks that every segment is in a histogram or counted under a cause, whatever happened to it. */
static void accounts(bool lossy, uint64_t causes[SL_CAUSES])
{
	struct region_layer_view s, c;
	uint64_t in, out, unread, dropped_out;

	causes_since(causes);
	assert_true(group(l, SL_ROLE_SERVER, &s));
	assert_true(group(l, SL_ROLE_CLIENT, &c));
	region_layer_add(&s, &c);
	in = causes[SL_CAUSE_DUPLICATE] + causes[SL_CAUSE_OUT_OF_ORDER] +
	     causes[SL_CAUSE_DISCARDED] + causes[SL_CAUSE_READ_RING];
	unread = s.count[SL_COUNT_IN] - in - region_layer_count(s.cell[SL_LAYER_TCP_IN]);
	assert_int_equal(unread, 0);
	assert_int_equal(causes[SL_CAUSE_NO_NIC] + causes[SL_CAUSE_NO_IP] +
				 causes[SL_CAUSE_NO_TCP] + causes[SL_CAUSE_REFUSED],
			 0);
	assert_int_equal(region_layer_count(s.cell[SL_LAYER_MAC_IN]),
			 s.count[SL_COUNT_IN] - in + causes[SL_CAUSE_DISCARDED]);
	dropped_out = causes[SL_CAUSE_RETRANSMIT] + causes[SL_CAUSE_NO_SEND] +
		      causes[SL_CAUSE_SEND_RING];
	assert_int_equal(causes[SL_CAUSE_NO_OUT_IP], 0);
	assert_int_equal(region_layer_count(s.cell[SL_LAYER_TCP_OUT]),
			 s.count[SL_COUNT_OUT] - dropped_out);
	assert_int_equal(region_layer_count(s.cell[SL_LAYER_IP_OUT]),
			 s.count[SL_COUNT_OUT] - causes[SL_CAUSE_RETRANSMIT]);
	out = s.count[SL_COUNT_OUT] - causes[SL_CAUSE_RETRANSMIT];
	if (lossy) /* dropped segments may still have places in the ring */
		assert_true(region_layer_count(s.cell[SL_LAYER_MAC_OUT]) <= out);
	else
		assert_int_equal(region_layer_count(s.cell[SL_LAYER_MAC_OUT]) +
					 causes[SL_CAUSE_NO_DRIVER],
				 out);
}

static void bulk(uint64_t bytes, int chunk, bool lossy, uint64_t causes[SL_CAUSES])
{
	static char buffer[1 << 16];
	uint64_t sent = 0;
	int fd;

	begin_job(&(struct job){.chunk = chunk});
	fd = connect_to("10.9.0.2");
	while (sent < bytes) {
		size_t n = bytes - sent < sizeof(buffer) ? (size_t)(bytes - sent) : sizeof(buffer);
		ssize_t got = write(fd, buffer, n);

		assert_true(got > 0);
		sent += (uint64_t)got;
	}
	end_job(fd);
	assert_int_equal(job->bytes, bytes);
	accounts(lossy, causes);
}

/* Segments of 64 KiB, read in pieces of a thousand bytes. */
static void test_bulk(void **state)
{
	uint64_t causes[SL_CAUSES];

	(void)state;
	bulk(4 << 20, 1000, false, causes);
}

/* More segments wait to be read than the ring holds: these are counted, and no other is wrong. */
static void test_waiting(void **state)
{
	uint64_t causes[SL_CAUSES];
	char buffer[100] = {0};
	int fd;

	(void)state;
	begin_job(&(struct job){.hold = true});
	fd = connect_to("10.9.0.2");
	for (int i = 0; i < 100; i++) {
		assert_int_equal(write(fd, buffer, sizeof(buffer)), sizeof(buffer));
		pause_us(200); /* usually sent separately after this */
	}
	__atomic_store_n(&job->release, true, __ATOMIC_RELEASE);
	end_job(fd);
	accounts(false, causes);
	assert_true(causes[SL_CAUSE_READ_RING] > 0);
}

static void test_loss(void **state)
{
	uint64_t causes[SL_CAUSES];

	(void)state;
	if (shell("tc qdisc add dev v0 root netem loss 3% delay 1ms 1ms 2>/dev/null")) {
		puts("SKIP: no netem here: loss and reordering are tried in the guest");
		skip();
	}
	bulk(2 << 20, 0, true, causes);
	assert_int_equal(shell("tc qdisc del dev v0 root"), 0);
	assert_true(causes[SL_CAUSE_RETRANSMIT] > 0);
	assert_true(causes[SL_CAUSE_OUT_OF_ORDER] > 0);
}

/* Without room for more flows, their group still counts them; freed slots are reused. */
static void test_full(void **state)
{
	struct tcp_layers *few = open_layers(3);
	uint64_t causes[SL_CAUSES], generations, closed, end = base_now_ns() + PATIENCE;
	struct region_layer_view v;

	(void)state;
	for (int i = 0; i < 4; i++) { /* of two sockets each */
		int fd;

		begin_job(&(struct job){.requests = 2, .length = 10, .reply = 10});
		fd = connect_to("10.9.0.2");
		ask(fd, 2, 10, 10);
		end_job(fd);
		settle(few); /* its slots are free again */
	}
	assert_true(group(few, SL_ROLE_SERVER, &v));
	assert_int_equal(v.count[SL_COUNT_COMPLETE], 8);
	/* The last values of closed flows stay until their slots are needed. */
	do {
		assert_true(base_now_ns() < end);
		generations = closed = 0;
		for (uint32_t i = 0; i < 3; i++) {
			if (tcp_layers_slot(few, TCP_LAYER_FLOWS, i, &v) != 1)
				continue;
			generations += v.generation;
			closed += v.state == SL_SLOT_CLOSED && v.end_ns >= v.start_ns &&
				  v.count[SL_COUNT_IN] == 2;
		}
	} while (closed < 3);
	assert_int_equal(tcp_layers_causes(few, causes), 0);
	assert_int_equal(causes[SL_CAUSE_FLOWS_FULL] + generations, 8);
	assert_true(generations > 3);
	tcp_layers_close(few);
}

static void move_to(const char *folder)
{
	char path[5000];
	FILE *f;

	snprintf(path, sizeof(path), "%s/cgroup.procs", folder);
	f = fopen(path, "we");
	assert_non_null(f);
	fprintf(f, "%d", getpid());
	assert_int_equal(fclose(f), 0);
}

/* Sends one request from a cgroup that is removed afterwards. */
static void ask_from_a_cgroup(const char *root, const char *home)
{
	char folder[4600];
	int fd;

	snprintf(folder, sizeof(folder), "%s/sl-layer-%d", root, getpid());
	assert_int_equal(mkdir(folder, 0755), 0);
	move_to(folder);
	begin_job(&(struct job){.requests = 1, .length = 10, .reply = 10});
	fd = connect_to("10.9.0.2");
	ask(fd, 1, 10, 10);
	end_job(fd);
	move_to(home);
	assert_int_equal(rmdir(folder), 0);
}

/* Waits until this many slots of groups have been returned. */
static void give_back(struct tcp_layers *of, uint64_t returned)
{
	uint64_t end = base_now_ns() + PATIENCE;

	while (tcp_layers_groups(of, base_now_ns()) < returned) {
		assert_true(base_now_ns() < end);
		pause_us(5000);
	}
}

/* Waits until no socket is left: a socket leaves its group before its flow is closed. */
static void all_closed(const struct tcp_layers *of)
{
	uint64_t end = base_now_ns() + PATIENCE;
	struct region_layer_view v;
	bool open;

	do {
		assert_true(base_now_ns() < end);
		settle(of);
		open = false;
		for (uint32_t i = 0; i < tcp_layers_slots(of, TCP_LAYER_FLOWS); i++) {
			int got = tcp_layers_slot(of, TCP_LAYER_FLOWS, i, &v);

			open |= got == -EAGAIN || (got == 1 && v.state == SL_SLOT_OPEN);
		}
	} while (open);
}

/* More cgroups over time than there are groups: groups of removed containers are reused. */
static void test_groups(void **state)
{
	/* Only for the clients' end, because no other process has flows there. */
	struct tcp_layers_opts o = {.flows = 64,
				    .groups = 3,
				    .quarantine_ns = 50000000,
				    .filter.netns = "/proc/self/ns/net"};
	char home[4500] = "", why[256];
	uint64_t causes[SL_CAUSES], last = 0;
	struct tcp_cgroup_hierarchy h;
	struct tcp_cgroups_opts who = {.hierarchy = &h};
	struct tcp_cgroups *names;
	struct region_layer_view v;
	struct tcp_layers *few;
	int closed = 0;

	(void)state;
	if (tcp_cgroup_hierarchy(&h, "unified", NULL, NULL)) {
		puts("SKIP: no unified hierarchy of cgroups, and none can be mounted");
		skip();
	}
	names = tcp_cgroups_open(&who);
	assert_non_null(names);
	snprintf(home, sizeof(home), "%s%s", h.root,
		 tcp_cgroups_find(names, tcp_cgroup_of_process(&h, (uint32_t)getpid()), 1)->path);
	tcp_cgroups_close(names);
	if (tcp_layers_open(&o, &few, why, sizeof(why)))
		fail_msg("%s", why);
	/* Three find a group, two find none. */
	for (int i = 0; i < 5; i++)
		ask_from_a_cgroup(h.root, home);
	all_closed(few);
	assert_int_equal(tcp_layers_causes(few, causes), 0);
	assert_int_equal(causes[SL_CAUSE_GROUPS_FULL], 2);
	/* Closed, with the last values, and then free; no other slot changes. */
	assert_int_equal(tcp_layers_groups(few, base_now_ns()), 0);
	for (uint32_t i = 1; i < tcp_layers_slots(few, TCP_LAYER_GROUPS); i++) {
		if (tcp_layers_slot(few, TCP_LAYER_GROUPS, i, &v) != 1 || v.role != SL_ROLE_CLIENT)
			continue;
		closed += v.state == SL_SLOT_CLOSED && v.end_ns && v.count[SL_COUNT_OUT] == 1;
	}
	assert_int_equal(closed, 3);
	give_back(few, 3);
	/*
	 * As many again, and more: each has a separate group, with no data of the previous owner.
	 */
	for (uint64_t i = 0; i < 5; i++) {
		ask_from_a_cgroup(h.root, home);
		assert_true(group(few, SL_ROLE_CLIENT, &v));
		assert_true(v.generation >= 2 && v.cgroup != last);
		assert_int_equal(v.count[SL_COUNT_OUT], 1);
		last = v.cgroup;
		give_back(few, 4 + i);
	}
	assert_int_equal(tcp_layers_causes(few, causes), 0);
	assert_int_equal(causes[SL_CAUSE_GROUPS_FULL], 2);
	assert_int_equal(tcp_layers_groups(few, base_now_ns()), 8);
	tcp_layers_close(few);
}

static void filter_ports(int from, int to)
{
	char ports[32], why[256];
	const char *list = ports;
	struct tcp_filter w = {.ports = {.v = &list, .n = 1}};

	snprintf(ports, sizeof(ports), "%d-%d", from, to);
	assert_int_equal(tcp_layers_filter(l, &w, why, sizeof(why)), 0);
}

/*
 * A connection that the filter leaves out is not recorded, is recorded after the filter changes,
 * and no longer after it changes back.
 */
static void test_unwanted(void **state)
{
	struct region_layer_view v;
	uint64_t requests, end;
	int fd;

	(void)state;
	port = first_port;
	tcp_layers_poll(l, 0);
	record_count = 0; /* those of other tests */
	begin_job(&(struct job){.requests = 8, .length = 10, .reply = 10});
	fd = connect_to("10.9.0.2");
	ask(fd, 2, 10, 10);
	assert_false(group(l, SL_ROLE_SERVER, &v));
	assert_false(group(l, SL_ROLE_CLIENT, &v));
	for (uint32_t i = 0; i < tcp_layers_slots(l, TCP_LAYER_FLOWS); i++)
		if (tcp_layers_slot(l, TCP_LAYER_FLOWS, i, &v) == 1)
			assert_true(v.local_port != first_port && v.remote_port != first_port);
	filter_ports(first_port, first_port);
	ask(fd, 5, 10, 10);
	end = base_now_ns() + PATIENCE;
	while (record_count < 3 && base_now_ns() < end)
		assert_true(tcp_layers_poll(l, 50) >= 0);
	/* None of these includes earlier reads. */
	assert_in_range(record_count, 3, 5);
	for (int i = 0; i < record_count; i++)
		assert_int_equal(records[i].length, 10);
	assert_true(group(l, SL_ROLE_SERVER, &v));
	requests = v.count[SL_COUNT_REQUESTS];
	assert_in_range(requests, 3, 5);
	filter_ports(first_port + 1, first_port + PORTS - 1);
	ask(fd, 1, 10, 10);
	end_job(fd);
	assert_true(group(l, SL_ROLE_SERVER, &v));
	assert_int_equal(v.count[SL_COUNT_REQUESTS], requests);
}

/* Detaches the hook of the driver: closes the descriptors of its links. */
static void miss_driver(void)
{
	char name[64], text[1024];
	int detached = 0;

	for (int fd = 0; fd < 1024; fd++) {
		FILE *f;
		size_t n;

		snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", fd);
		f = fopen(name, "r");
		n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
		text[n] = '\0';
		if (f)
			fclose(f);
		if (strstr(text, "net_dev_start_xmit")) {
			int null = open("/dev/null", O_RDONLY);

			assert_int_equal(dup2(null, fd), fd);
			close(null);
			detached++;
		}
	}
	assert_true(detached > 0);
}

/* Responses that the client has received do not wait for the driver, even if its hook is missed. */
static void test_missed_driver(void **state)
{
	struct region_layer_view v;
	uint64_t causes[SL_CAUSES], end = base_now_ns() + PATIENCE;
	int fd;

	(void)state;
	miss_driver();
	begin_job(&(struct job){.requests = REQUESTS, .length = 100, .reply = 300});
	fd = connect_to("10.9.0.2");
	ask(fd, REQUESTS, 100, 300);
	end_job(fd);
	do {
		assert_true(base_now_ns() < end);
		pause_us(1000);
		causes_since(causes);
	} while (causes[SL_CAUSE_REQ_OUT] + causes[SL_CAUSE_REQ_PENDING] +
			 causes[SL_CAUSE_REQ_CLOSED] <
		 REQUESTS);
	assert_int_equal(causes[SL_CAUSE_REQ_PENDING], 0);
	assert_int_equal(causes[SL_CAUSE_REQ_CLOSED], 0);
	assert_true(group(l, SL_ROLE_SERVER, &v));
	assert_int_equal(v.count[SL_COUNT_INCOMPLETE], REQUESTS);
}

static void test_quantiles(void **state)
{
	uint64_t cell[SL_LAYER_CELLS] = {0};

	(void)state;
	assert_true(region_layer_quantile(cell, 0.5) != region_layer_quantile(cell, 0.5)); /* NAN */
	cell[SL_LAYER_BUCKETS - 40 - SL_LAYER_FIRST] = 100; /* 2^-20.5 .. 2^-20 s */
	assert_true(region_layer_quantile(cell, 0.5) > 674 &&
		    region_layer_quantile(cell, 0.5) < 954);
	assert_true(region_layer_quantile(cell, 1) == 1e9 / (1 << 20));
	cell[SL_LAYER_OVER] = 100;
	assert_true(region_layer_quantile(cell, 0.99) > 1e18);
	assert_int_equal(region_layer_count(cell), 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quantiles),
		cmocka_unit_test_setup(test_requests_v4, next_port),
		cmocka_unit_test_setup(test_requests_v6, next_port),
		cmocka_unit_test_setup(test_pipelining, next_port),
		cmocka_unit_test_setup(test_bulk, next_port),
		cmocka_unit_test_setup(test_waiting, next_port),
		cmocka_unit_test_setup(test_loss, next_port),
		cmocka_unit_test_setup(test_full, next_port),
		cmocka_unit_test_setup(test_groups, next_port),
		cmocka_unit_test(test_unwanted),
		cmocka_unit_test_setup(test_missed_driver, next_port), /* the last one */
	};
	struct tcp_hooks hooks;
	char why[256];
	int code;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (tcp_hooks_probe(&hooks, TCP_HOOKS_OF(IP_TCP), false)) {
		tcp_hooks_refusal(-EPERM, why, sizeof(why));
		return skip_all(why);
	}
	if (tcp_hook_chosen(&hooks, TCP_BOUNDARY_IP_TCP) == TCP_HOOK_NONE)
		return skip_all(tcp_hook_table[TCP_BOUNDARY_IP_TCP].lost);
	code = wire_up();
	if (!code)
		code = cmocka_run_group_tests(tests, open_shared, close_shared) ? 1 : 0;
	if (server > 0) {
		kill(server, SIGKILL);
		waitpid(server, NULL, 0);
	}
	return code;
}
