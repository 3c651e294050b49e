/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs provider against the real passive side, over whatever RDMA there is: soft-RoCE in the
 * guest (tests/guest/), where this is run. Each test starts a host in a process of its own, so
 * that it can be stopped, killed and asked for its queue pairs.
 *
 * Environment: RDMA_DEVICE (without it, all is skipped), ADDRESS of that device.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>

#include <sidelight/attach.h>

#include "fabric/fabric.h"
#include "fabric/host.h"

#define REGION_BYTES (4u << 20)
#define TIMEOUT_NS   3000000000ull

static const char *device, *address;
static uint16_t next_port = 17475;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pause_us(long us)
{
	struct timespec t = {.tv_nsec = us * 1000};

	nanosleep(&t, NULL);
}

static uint64_t pattern(uint64_t offset)
{
	return (offset + 1) * 0x9e3779b97f4a7c15ull;
}

/* ---- a host in a process of its own ---------------------------------------------------------- */

struct host {
	pid_t pid;
	int control;
	uint16_t port;
	char target[64];
};

struct reply {
	uint64_t queues, accepted, rejected, disconnected;
	bool lost;
	char state[16];
	uint64_t notices, last_notice, board_addr;
	uint32_t board_rkey;
	struct sl_board_line line; /* that the last notice named */
};

#define BOARD_LINES 64u
static uint32_t last_notice;

static void on_notice(void *arg, uint32_t entry)
{
	(void)arg;
	last_notice = entry;
}

static void host_process(int control, uint16_t port, uint32_t max_queues)
{
	struct sl_host_opts opts = {
		.device = device,
		.port = port,
		.gid_index = -1,
		.max_queues = max_queues,
		.keepalive_ms = 500,
	};
	int fd = memfd_create("region", MFD_CLOEXEC);
	struct sl_host_key key, second = {0}, board_key;
	struct sl_board_line *board = mmap(NULL, BOARD_LINES * sizeof(*board),
					   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
					   0);
	char error[256] = "";
	struct sl_host *h;
	uint64_t *map;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (ftruncate(fd, REGION_BYTES))
		_exit(2);
	map = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (uint64_t i = 0; i < REGION_BYTES / 8; i++)
		map[i] = pattern(i * 8);
	h = sl_host_open(&opts, error, sizeof(error));
	if (!h) {
		fprintf(stderr, "host: %s\n", error);
		_exit(3);
	}
	if (sl_host_register(h, map, REGION_BYTES, &key))
		_exit(4);
	if (sl_host_register_board(h, board, BOARD_LINES * sizeof(*board), &board_key, on_notice,
				   NULL))
		_exit(9);
	sl_host_set_directory(h, &key, REGION_BYTES, 42);
	if (write(control, "r", 1) != 1)
		_exit(5);
	for (;;) {
		struct pollfd p[2] = {
			{.fd = control, .events = POLLIN},
			{.fd = sl_host_fd(h), .events = POLLIN},
		};
		struct sl_host_queue queue[4] = {0};
		struct sl_host_stats stats;
		struct reply reply = {0};
		char command;

		poll(p, 2, -1);
		sl_host_dispatch(h);
		if (!p[0].revents)
			continue;
		if (read(control, &command, 1) != 1)
			_exit(0);
		switch (command) {
		case 'q': /* look */
			sl_host_stats(h, &stats);
			reply.queues = sl_host_queues(h, queue, 4);
			reply.accepted = stats.accepted;
			reply.rejected = stats.rejected;
			reply.disconnected = stats.disconnected;
			reply.lost = stats.lost;
			reply.notices = stats.notices;
			reply.last_notice = last_notice;
			reply.board_addr = board_key.addr;
			reply.board_rkey = board_key.rkey;
			reply.line = board[last_notice % BOARD_LINES];
			memcpy(reply.state, queue[0].state, sizeof(reply.state));
			if (write(control, &reply, sizeof(reply)) != sizeof(reply))
				_exit(6);
			break;
		case 'u': /* take the region's registration away */
			sl_host_unregister(h, &key);
			if (sl_host_register(h, map, REGION_BYTES, &second))
				_exit(7);
			sl_host_set_directory(h, &second, REGION_BYTES, 42);
			if (write(control, "u", 1) != 1)
				_exit(8);
			break;
		case 'x': /* end in good order */
			sl_host_unregister(h, &key);
			sl_host_unregister(h, &second);
			sl_host_close(h);
			_exit(0);
		}
	}
}

static void host_start(struct host *h, uint16_t port, uint32_t max_queues)
{
	int pair[2];
	char ready;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	h->port = port;
	h->pid = fork();
	assert_true(h->pid >= 0);
	if (!h->pid) {
		close(pair[0]);
		host_process(pair[1], port, max_queues);
	}
	close(pair[1]);
	h->control = pair[0];
	assert_int_equal(read(h->control, &ready, 1), 1);
	snprintf(h->target, sizeof(h->target), "%s:%u", address, port);
}

static struct reply host_look(struct host *h)
{
	struct reply reply;

	assert_int_equal(write(h->control, "q", 1), 1);
	assert_int_equal(read(h->control, &reply, sizeof(reply)), sizeof(reply));
	return reply;
}

static void host_kill(struct host *h)
{
	kill(h->pid, SIGKILL);
	waitpid(h->pid, NULL, 0);
	close(h->control);
}

static void host_stop(struct host *h)
{
	int status;

	assert_int_equal(write(h->control, "x", 1), 1);
	waitpid(h->pid, &status, 0);
	close(h->control);
	assert_int_equal(status, 0);
}

/* ---- a collector ----------------------------------------------------------------------------- */

static struct sl_fabric *open_fabric(const struct host *h, uint32_t depth)
{
	struct sl_fabric_opts opts = {.device = device, .gid_index = -1, .queue_depth = depth};
	struct sl_fabric *f = sl_fabric_open(h->target, &opts);

	if (!f)
		fail_msg("%s", sl_fabric_error());
	return f;
}

static bool await_state(struct sl_fabric *f, enum sl_fabric_state want, unsigned int ms,
			uint64_t *epoch)
{
	uint64_t end = now_ns() + ms * 1000000ull;

	do {
		if (sl_fabric_drive(f, now_ns(), epoch) == want)
			return true;
		pause_us(200);
	} while (now_ns() < end);
	return false;
}

static void come_up(struct sl_fabric *f, uint64_t *epoch)
{
	struct sl_fabric_stats s;

	if (await_state(f, SL_FABRIC_UP, 30000, epoch))
		return;
	sl_fabric_stats(f, &s);
	fail_msg("not connected: %s", s.last_error);
}

/* Polls until count READs are back; each must be one that was posted, and only once. */
static void collect(struct sl_fabric *f, uint32_t count)
{
	uint64_t end = now_ns() + 10000000000ull;
	struct sl_read *done[64];

	while (count && now_ns() < end) {
		int n = sl_fabric_poll(f, done, 64, now_ns(), TIMEOUT_NS);

		assert_true(n >= 0 && (uint32_t)n <= count);
		for (int i = 0; i < n; i++) {
			assert_int_equal(done[i]->tag & 1, 0);
			done[i]->tag |= 1;
		}
		count -= (uint32_t)n;
	}
	assert_int_equal(count, 0);
}

static void assert_pattern(const void *at, uint64_t offset, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++) {
		uint64_t word = pattern((offset + i) & ~7ull);

		if (((const uint8_t *)at)[i] != (uint8_t)(word >> ((offset + i) % 8 * 8)))
			fail_msg("wrong byte at %llu", (unsigned long long)(offset + i));
	}
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void what_is_read_is_what_is_there(void **state)
{
	static const struct {
		uint64_t offset;
		uint32_t length;
	} cases[] = {
		{0, 8},
		{0, 64},
		{64, 64},
		{4096, 4096},
		{1, 1},
		{13, 1000},
		{REGION_BYTES - 64, 64},
		{0, 1 << 20},
		{REGION_BYTES - 4097, 4097},
	};
	struct host h;
	struct sl_fabric *f;
	struct sl_fabric_stats s;
	struct sl_read r;
	uint8_t *buffer;

	(void)state;
	host_start(&h, next_port++, 0);
	f = open_fabric(&h, 0);
	come_up(f, NULL);
	buffer = sl_fabric_buffer(f, NULL);
	assert_int_equal(sl_fabric_directory(f)->length, REGION_BYTES);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(buffer, 0xee, cases[i].length + 8);
		r = (struct sl_read){
			.remote = sl_fabric_directory(f),
			.offset = cases[i].offset,
			.length = cases[i].length,
			.to = buffer,
			.status = 1,
		};
		assert_int_equal(sl_fabric_post(f, &r, 1), 1);
		collect(f, 1);
		assert_int_equal(r.status, 0);
		assert_pattern(buffer, cases[i].offset, cases[i].length);
		assert_int_equal(buffer[cases[i].length], 0xee);
	}
	sl_fabric_stats(f, &s);
	assert_int_equal(s.reads, sizeof(cases) / sizeof(cases[0]));
	assert_int_equal(s.wrong_id, 0);
	sl_fabric_close(f);
	host_stop(&h);
}

static void neighbours_travel_as_one_work_request(void **state)
{
	struct host h;
	struct sl_fabric *f;
	struct sl_fabric_stats s;
	struct sl_read r[32];
	uint8_t *buffer;

	(void)state;
	host_start(&h, next_port++, 0);
	f = open_fabric(&h, 0);
	come_up(f, NULL);
	buffer = sl_fabric_buffer(f, NULL);

	/* Adjacent on both sides: one request, one landing. */
	for (uint32_t i = 0; i < 32; i++)
		r[i] = (struct sl_read){.remote = sl_fabric_directory(f),
					.offset = i * 4096,
					.length = 4096,
					.to = buffer + i * 4096};
	assert_int_equal(sl_fabric_post(f, r, 32), 32);
	collect(f, 32);
	assert_pattern(buffer, 0, 32 * 4096);
	sl_fabric_stats(f, &s);
	assert_int_equal(s.work_requests, 1);
	assert_int_equal(s.doorbells, 1);
	assert_int_equal(s.reads, 32);

	/* Adjacent there, apart here: one request scatters, and spares what lies between. */
	memset(buffer, 0xee, 1 << 20);
	for (uint32_t i = 0; i < 8; i++)
		r[i] = (struct sl_read){.remote = sl_fabric_directory(f),
					.offset = 512 + i * 64,
					.length = 64,
					.to = buffer + (7 - i) * 256};
	assert_int_equal(sl_fabric_post(f, r, 8), 8);
	collect(f, 8);
	for (uint32_t i = 0; i < 8; i++) {
		assert_pattern(buffer + (7 - i) * 256, 512 + i * 64, 64);
		for (uint32_t j = 64; j < 256; j++)
			assert_int_equal(buffer[(7 - i) * 256 + j], 0xee);
	}
	sl_fabric_stats(f, &s);
	assert_int_equal(s.work_requests, 2);

	/* A small gap is read along, and lands nowhere. */
	memset(buffer, 0xee, 1 << 20);
	for (uint32_t i = 0; i < 4; i++)
		r[i] = (struct sl_read){.remote = sl_fabric_directory(f),
					.offset = i * 320,
					.length = 64,
					.to = buffer + i * 64};
	assert_int_equal(sl_fabric_post(f, r, 4), 4);
	collect(f, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_pattern(buffer + i * 64, i * 320, 64);
	assert_int_equal(buffer[4 * 64], 0xee);
	sl_fabric_stats(f, &s);
	assert_int_equal(s.work_requests, 3);

	/* A large one is not; nor is going backwards. */
	r[0] = (struct sl_read){
		.remote = sl_fabric_directory(f), .offset = 65536, .length = 64, .to = buffer};
	r[1] = (struct sl_read){.remote = sl_fabric_directory(f),
				.offset = 131072,
				.length = 64,
				.to = buffer + 64};
	r[2] = (struct sl_read){
		.remote = sl_fabric_directory(f), .offset = 0, .length = 64, .to = buffer + 128};
	assert_int_equal(sl_fabric_post(f, r, 3), 3);
	collect(f, 3);
	sl_fabric_stats(f, &s);
	assert_int_equal(s.work_requests, 6);
	assert_int_equal(s.doorbells, 4);
	assert_pattern(buffer + 128, 0, 64);
	sl_fabric_close(f);
	host_stop(&h);
}

static void every_read_completes_once_whatever_the_queue(void **state)
{
	static const uint32_t depths[] = {1, 2, 7, 128};
	enum { READS = 256, ROUNDS = 12 };
	static struct sl_read r[READS];
	struct host h;

	(void)state;
	host_start(&h, next_port++, 0);
	for (size_t d = 0; d < sizeof(depths) / sizeof(depths[0]); d++) {
		struct sl_fabric *f = open_fabric(&h, depths[d]);
		struct sl_fabric_stats s;
		struct sl_read *done[16];
		uint8_t *buffer;
		uint64_t end;

		come_up(f, NULL);
		buffer = sl_fabric_buffer(f, NULL);
		srand(1);
		for (int round = 0; round < ROUNDS; round++) {
			uint32_t posted = 0, finished = 0;

			memset(buffer, 0, READS * 1024);
			for (uint32_t i = 0; i < READS; i++) {
				uint64_t offset = i && rand() % 2
							  ? r[i - 1].offset + r[i - 1].length +
								    (uint32_t)(rand() % 3) * 64
							  : (uint64_t)(rand() % 4096) * 64;

				r[i] = (struct sl_read){
					.remote = sl_fabric_directory(f),
					.offset = offset,
					.length = (uint32_t)(1 + rand() % 16) * 64,
					.to = buffer + i * 1024,
					.status = 1,
				};
			}
			end = now_ns() + 20000000000ull;
			while (finished < READS && now_ns() < end) {
				int n = sl_fabric_post(f, r + posted, READS - posted);

				assert_true(n >= 0);
				posted += (uint32_t)n;
				assert_int_equal(sl_fabric_outstanding(f), posted - finished);
				n = sl_fabric_poll(f, done, 16, now_ns(), TIMEOUT_NS);
				for (int i = 0; i < n; i++) {
					assert_int_equal(done[i]->tag, 0);
					done[i]->tag = 1;
				}
				finished += (uint32_t)n;
			}
			assert_int_equal(finished, READS);
			for (uint32_t i = 0; i < READS; i++) {
				assert_int_equal(r[i].tag, 1);
				assert_int_equal(r[i].status, 0);
				assert_pattern(r[i].to, r[i].offset, r[i].length);
			}
		}
		sl_fabric_stats(f, &s);
		assert_int_equal(s.reads, READS * ROUNDS);
		assert_int_equal(s.wrong_id, 0);
		assert_true(s.work_requests < s.reads);
		sl_fabric_close(f);
	}
	host_stop(&h);
}

static void a_read_out_of_bounds_never_leaves(void **state)
{
	struct host h;
	struct sl_fabric *f;
	struct sl_fabric_stats s;
	uint8_t *buffer;
	size_t bytes;

	(void)state;
	host_start(&h, next_port++, 0);
	f = open_fabric(&h, 0);
	come_up(f, NULL);
	buffer = sl_fabric_buffer(f, &bytes);
	struct sl_read r[] = {
		{.remote = sl_fabric_directory(f), .offset = 0, .length = 64, .to = buffer},
		{.remote = sl_fabric_directory(f),
		 .offset = REGION_BYTES,
		 .length = 1,
		 .to = buffer},
		{.remote = sl_fabric_directory(f),
		 .offset = REGION_BYTES - 8,
		 .length = 16,
		 .to = buffer},
		{.remote = sl_fabric_directory(f),
		 .offset = UINT64_MAX - 7,
		 .length = 16,
		 .to = buffer},
		{.remote = sl_fabric_directory(f), .length = 16, .to = buffer + bytes - 8},
		{.remote = sl_fabric_directory(f), .length = 16, .to = &s},
		{.remote = sl_fabric_directory(f), .offset = 64, .length = 64, .to = buffer + 64},
	};
	assert_int_equal(sl_fabric_post(f, r, 7), 7);
	collect(f, 7);
	assert_int_equal(r[0].status, 0);
	for (int i = 1; i < 6; i++)
		assert_int_equal(r[i].status, -ERANGE);
	assert_int_equal(r[6].status, 0);
	sl_fabric_stats(f, &s);
	assert_int_equal(s.work_requests, 2);
	assert_int_equal(s.errors_access, 5);
	sl_fabric_close(f);
	host_stop(&h);
}

static void a_refused_key_ends_the_connection_and_nothing_else(void **state)
{
	struct host h;
	struct sl_fabric *f;
	struct sl_fabric_stats s;
	struct sl_remote wrong, right;
	struct sl_read r[6];
	uint64_t epoch = 0, later = 0;
	uint8_t *buffer;
	char answer;

	(void)state;
	host_start(&h, next_port++, 0);
	f = open_fabric(&h, 0);
	come_up(f, &epoch);
	assert_int_equal(epoch, 1);
	buffer = sl_fabric_buffer(f, NULL);
	right = wrong = *sl_fabric_directory(f);
	wrong.rkey ^= 0x55;
	for (uint32_t i = 0; i < 6; i++)
		r[i] = (struct sl_read){.remote = i == 3 ? &wrong : &right,
					.offset = i * 65536,
					.length = 64,
					.to = buffer + i * 64,
					.status = 1};
	assert_int_equal(sl_fabric_post(f, r, 6), 6);
	collect(f, 6);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(r[i].status, 0);
		assert_pattern(r[i].to, r[i].offset, 64);
	}
	assert_int_equal(r[3].status, -EACCES);
	assert_int_equal(r[4].status, -ENOTCONN);
	assert_int_equal(r[5].status, -ENOTCONN);
	assert_null(sl_fabric_directory(f));
	assert_int_equal(sl_fabric_post(f, r, 1), -ENOTCONN);

	come_up(f, &later);
	assert_int_equal(later, 2);
	r[0] = (struct sl_read){.remote = sl_fabric_directory(f), .length = 64, .to = buffer};
	assert_int_equal(sl_fabric_post(f, r, 1), 1);
	collect(f, 1);
	assert_int_equal(r[0].status, 0);

	/* The same, when the host takes a registration away that was good before. */
	right = *sl_fabric_directory(f);
	assert_int_equal(write(h.control, "u", 1), 1);
	assert_int_equal(read(h.control, &answer, 1), 1);
	r[0] = (struct sl_read){.remote = &right, .length = 64, .to = buffer};
	assert_int_equal(sl_fabric_post(f, r, 1), 1);
	collect(f, 1);
	assert_int_equal(r[0].status, -EACCES);
	come_up(f, &later);
	assert_int_equal(later, 3);
	assert_int_not_equal(sl_fabric_directory(f)->rkey, right.rkey);
	sl_fabric_stats(f, &s);
	assert_int_equal(s.errors_access, 2);
	assert_int_equal(s.errors_other, 2);
	assert_int_equal(s.connects, 3);
	assert_int_equal(s.disconnects, 2);
	sl_fabric_close(f);
	host_stop(&h);
}

static void a_host_that_comes_back_is_found_again(void **state)
{
	struct host h;
	struct sl_fabric *f;
	struct sl_fabric_stats s;
	struct sl_read r;
	uint64_t epoch = 0, start;
	uint16_t port = next_port++;

	(void)state;
	h.port = port;
	snprintf(h.target, sizeof(h.target), "%s:%u", address, port);
	f = open_fabric(&h, 0);
	assert_false(await_state(f, SL_FABRIC_UP, 300, &epoch));
	sl_fabric_stats(f, &s);
	assert_non_null(strstr(s.last_error, "nobody listens"));

	host_start(&h, port, 0);
	come_up(f, &epoch);
	assert_int_equal(epoch, 1);
	for (int again = 0; again < 3; again++) {
		host_kill(&h);
		start = now_ns();
		assert_true(await_state(f, SL_FABRIC_DOWN, 20000, &epoch));
		assert_true(now_ns() - start < 10000000000u);
		host_start(&h, port, 0);
		come_up(f, &epoch);
		assert_int_equal(epoch, again + 2);
		r = (struct sl_read){.remote = sl_fabric_directory(f),
				     .offset = 4096,
				     .length = 4096,
				     .to = sl_fabric_buffer(f, NULL)};
		assert_int_equal(sl_fabric_post(f, &r, 1), 1);
		collect(f, 1);
		assert_int_equal(r.status, 0);
		assert_pattern(r.to, 4096, 4096);
	}
	sl_fabric_close(f);
	host_stop(&h);
}

static void a_stopped_host_is_read_all_the_same(void **state)
{
	struct host h;
	struct sl_fabric *f;
	struct sl_read r;

	(void)state;
	host_start(&h, next_port++, 0);
	f = open_fabric(&h, 0);
	come_up(f, NULL);
	kill(h.pid, SIGSTOP);
	for (int i = 0; i < 100; i++) {
		r = (struct sl_read){.remote = sl_fabric_directory(f),
				     .offset = (uint64_t)i * 64,
				     .length = 64,
				     .to = sl_fabric_buffer(f, NULL)};
		assert_int_equal(sl_fabric_post(f, &r, 1), 1);
		collect(f, 1);
		assert_int_equal(r.status, 0);
		assert_pattern(r.to, r.offset, 64);
	}
	kill(h.pid, SIGCONT);
	sl_fabric_close(f);
	host_stop(&h);
}

static void await_queues(struct host *h, uint64_t want)
{
	struct reply reply = {.queues = ~0ull};

	for (int i = 0; i < 2000 && reply.queues != want; i++) {
		reply = host_look(h);
		pause_us(1000);
	}
	assert_int_equal(reply.queues, want);
}

static void a_queue_pair_is_freed_when_its_collector_dies(void **state)
{
	struct host h;
	struct sl_fabric *f;
	struct reply reply;
	pid_t pid;
	int pair[2];
	char up;

	(void)state;
	host_start(&h, next_port++, 2);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(pipe(pair), 0);
		pid = fork();
		if (!pid) {
			f = open_fabric(&h, 0);
			come_up(f, NULL);
			if (write(pair[1], "u", 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
		assert_int_equal(read(pair[0], &up, 1), 1);
		reply = host_look(&h);
		assert_int_equal(reply.queues, 1);
		assert_string_equal(reply.state, "RTS");
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		close(pair[0]);
		close(pair[1]);
		await_queues(&h, 0);
	}
	reply = host_look(&h);
	assert_int_equal(reply.accepted, 5);
	assert_int_equal(reply.disconnected, 5);
	host_stop(&h);
}

static void one_too_many_is_told_so_and_gets_in_later(void **state)
{
	struct host h;
	struct sl_fabric *f[3];
	struct sl_fabric_stats s;

	(void)state;
	host_start(&h, next_port++, 2);
	for (int i = 0; i < 3; i++)
		f[i] = open_fabric(&h, 0);
	come_up(f[0], NULL);
	come_up(f[1], NULL);
	assert_false(await_state(f[2], SL_FABRIC_UP, 500, NULL));
	sl_fabric_stats(f[2], &s);
	assert_non_null(strstr(s.last_error, "used up"));
	assert_true(host_look(&h).rejected >= 1);
	assert_int_equal(host_look(&h).queues, 2);
	sl_fabric_close(f[0]);
	come_up(f[2], NULL);
	sl_fabric_close(f[1]);
	sl_fabric_close(f[2]);
	await_queues(&h, 0);
	host_stop(&h);
}

/* ---- a host that lies ------------------------------------------------------------------------ */

/* Accepts count connections with these bytes as its hello, then ends. */
static pid_t liar(uint16_t port, const void *hello, uint8_t bytes, int count)
{
	struct sockaddr_storage to;
	struct rdma_event_channel *channel;
	struct rdma_cm_event *event;
	struct rdma_cm_id *listener;
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE},
			     *found;
	char service[8];
	int pair[2];
	char ready;
	pid_t pid;

	(void)to;
	assert_int_equal(pipe(pair), 0);
	pid = fork();
	if (pid) {
		close(pair[1]);
		assert_int_equal(read(pair[0], &ready, 1), 1);
		close(pair[0]);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(service, sizeof(service), "%u", port);
	channel = rdma_create_event_channel();
	if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_getaddrinfo(address, service, &hints, &found) ||
	    rdma_bind_addr(listener, found->ai_src_addr) || rdma_listen(listener, 8) ||
	    write(pair[1], "r", 1) != 1)
		_exit(1);
	while (count && !rdma_get_cm_event(channel, &event)) {
		struct rdma_cm_id *id = event->id;
		enum rdma_cm_event_type type = event->event;
		struct ibv_qp_init_attr attr = {
			.qp_type = IBV_QPT_RC,
			.cap = {.max_send_wr = 1,
				.max_recv_wr = 1,
				.max_send_sge = 1,
				.max_recv_sge = 1},
		};
		struct rdma_conn_param param = {
			.private_data = hello,
			.private_data_len = bytes,
			.responder_resources = 1,
		};

		rdma_ack_cm_event(event);
		if (type != RDMA_CM_EVENT_CONNECT_REQUEST)
			continue;
		if (rdma_create_qp(id, NULL, &attr) || rdma_accept(id, &param))
			_exit(2);
		count--;
	}
	for (;;)
		pause();
}

static void a_host_that_lies_is_not_believed(void **state)
{
	static const struct sl_host_hello good = {
		.magic = 0x31484c53,
		.version = 1,
		.agent_instance = 1,
		.directory_addr = 0x10000,
		.directory_length = 65536,
	};
	struct sl_host_hello lies[6];

	(void)state;
	for (int i = 0; i < 6; i++)
		lies[i] = good;
	lies[0].magic = 7;
	lies[1].version = 2;
	lies[2].directory_length = 64;
	lies[3].directory_length = 1ull << 40;
	lies[4].directory_addr = 0;
	lies[5].directory_addr = UINT64_MAX - 4096;
	for (int i = 0; i < 7; i++) {
		struct host h = {.port = next_port++};
		pid_t pid = liar(h.port, i < 6 ? &lies[i] : NULL, i < 6 ? sizeof(good) : 0, 1);
		struct sl_fabric_stats s = {0};
		struct sl_fabric *f;

		snprintf(h.target, sizeof(h.target), "%s:%u", address, h.port);
		f = open_fabric(&h, 0);
		for (int n = 0; n < 5000 && !s.last_error[0]; n++) {
			assert_int_not_equal(sl_fabric_drive(f, now_ns(), NULL), SL_FABRIC_UP);
			sl_fabric_stats(f, &s);
			pause_us(200);
		}
		assert_non_null(strstr(s.last_error, "no sidelight agent"));
		assert_int_equal(s.connects, 0);
		sl_fabric_close(f);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

static void a_stranger_is_turned_away(void **state)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *found;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct rdma_cm_id *id;
	char service[8];
	struct host h;

	(void)state;
	host_start(&h, next_port++, 0);
	snprintf(service, sizeof(service), "%u", h.port);
	assert_int_equal(rdma_getaddrinfo(address, service, &hints, &found), 0);
	assert_int_equal(rdma_create_ep(&id, found, NULL, &attr), 0);
	assert_int_not_equal(rdma_connect(id, NULL), 0);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(found);
	assert_int_equal(host_look(&h).rejected, 1);
	assert_int_equal(host_look(&h).queues, 0);
	host_stop(&h);
}

/* ---- devices --------------------------------------------------------------------------------- */

static void what_is_not_there_is_said_in_one_line(void **state)
{
	struct sl_fabric_opts none = {.device = "mlx5_99", .gid_index = -1};
	struct sl_host_opts opts = {.device = "mlx5_99", .gid_index = -1};
	char error[256] = "";
	struct host h;

	(void)state;
	assert_null(sl_fabric_open("10.0.0.1", &none));
	assert_int_equal(errno, ENODEV);
	assert_non_null(strstr(sl_fabric_error(), "no RDMA device 'mlx5_99'"));
	assert_non_null(strstr(sl_fabric_error(), device));
	assert_null(sl_host_open(&opts, error, sizeof(error)));
	assert_int_equal(errno, ENODEV);
	assert_non_null(strstr(error, "no RDMA device 'mlx5_99'"));
	opts = (struct sl_host_opts){.device = device, .gid_index = 200};
	assert_null(sl_host_open(&opts, error, sizeof(error)));
	assert_non_null(strstr(error, "has no GID 200"));
	opts = (struct sl_host_opts){.device = device, .gid_index = -1, .address = "127.0.0.1"};
	assert_null(sl_host_open(&opts, error, sizeof(error)));
	assert_non_null(strstr(error, "127.0.0.1"));

	host_start(&h, next_port++, 0);
	opts = (struct sl_host_opts){.device = device, .gid_index = -1, .port = h.port};
	assert_null(sl_host_open(&opts, error, sizeof(error)));
	assert_int_equal(errno, EADDRINUSE);
	assert_non_null(strstr(error, "in use"));
	host_stop(&h);
}

static void a_gid_is_chosen_by_its_index(void **state)
{
	const char *index = getenv("GID_INDEX");
	struct sl_fabric_opts opts = {.device = device, .gid_index = index ? atoi(index) : 1};
	struct sl_host_opts host_opts = {.device = device, .gid_index = opts.gid_index};
	struct sl_host_stats stats;
	char error[256] = "";
	struct sl_host *passive;
	struct sl_fabric *f;
	struct sl_read r;
	struct host h;

	(void)state;
	passive = sl_host_open(&host_opts, error, sizeof(error));
	if (!passive)
		fail_msg("%s", error);
	sl_host_stats(passive, &stats);
	assert_int_equal(stats.gid_index, opts.gid_index);
	assert_int_equal(stats.port, SL_VERBS_PORT);
	assert_string_equal(stats.device, device);
	assert_non_null(strstr(stats.address, address));
	sl_host_close(passive);

	host_start(&h, next_port++, 0);
	f = sl_fabric_open(h.target, &opts);
	assert_non_null(f);
	come_up(f, NULL);
	r = (struct sl_read){
		.remote = sl_fabric_directory(f), .length = 64, .to = sl_fabric_buffer(f, NULL)};
	assert_int_equal(sl_fabric_post(f, &r, 1), 1);
	collect(f, 1);
	assert_int_equal(r.status, 0);
	sl_fabric_close(f);
	host_stop(&h);
}

/*
 * Needs root in a guest: takes the device away under both sides, and brings it back. A second one
 * stays, see sl_rdma_forget_lost().
 */
static void a_device_that_vanishes_is_survived(void **state)
{
	struct sl_fabric *f;
	struct sl_read r;
	struct host h;
	uint64_t epoch;
	bool lost = false;

	(void)state;
	if (!getenv("GUEST")) {
		print_message("SKIP: takes a device away, which only a guest may\n");
		skip();
	}
	assert_int_equal(system("ip link set dummy0 up && "
				"rdma link add rxe1 type rxe netdev dummy0"),
			 0);
	host_start(&h, next_port++, 0);
	f = open_fabric(&h, 0);
	come_up(f, &epoch);
	assert_int_equal(system("rdma link delete rxe0 &"), 0);
	assert_true(await_state(f, SL_FABRIC_DOWN, 30000, &epoch));
	for (int i = 0; i < 1000 && !lost; i++) {
		lost = host_look(&h).lost;
		pause_us(1000);
	}
	assert_true(lost);
	host_stop(&h);
	assert_false(await_state(f, SL_FABRIC_UP, 300, &epoch));
	assert_int_equal(system("! rdma link show rxe0/1 2>/dev/null"), 0);
	assert_int_equal(system("rdma link add rxe0 type rxe netdev eth0"), 0);
	host_start(&h, h.port, 0);
	come_up(f, &epoch);
	assert_int_equal(epoch, 2);
	r = (struct sl_read){
		.remote = sl_fabric_directory(f), .length = 64, .to = sl_fabric_buffer(f, NULL)};
	assert_int_equal(sl_fabric_post(f, &r, 1), 1);
	collect(f, 1);
	assert_int_equal(r.status, 0);
	sl_fabric_close(f);
	host_stop(&h);
	/* Ends with this process, in which librdmacm holds it open. */
	assert_int_equal(system("rdma link delete rxe1 &"), 0);
}

/* ---- verdicts ---------------------------------------------------------------------------------- */

static struct sl_fabric *open_notifier(const struct host *h)
{
	struct sl_fabric *f = sl_fabric_open(
		h->target,
		&(struct sl_fabric_opts){
			.gid_index = -1, .queue_depth = 32, .buffer_bytes = 4096, .notify = true});

	assert_non_null(f);
	return f;
}

static const struct sl_msg_verdict verdict = {
	.instance = 7, .flags = SL_VERDICT_ANOMALOUS, .ttl_ns = 1000000, .score = 3};

/* Says it, waiting for room if need be. */
static void notify(struct sl_fabric *f, uint32_t entry, const struct sl_msg_verdict *v)
{
	uint64_t end = now_ns() + TIMEOUT_NS;
	int err;

	while ((err = sl_fabric_notify(f, entry, v)) == -EAGAIN && now_ns() < end) {
		sl_fabric_drive(f, now_ns(), NULL);
		pause_us(100);
	}
	assert_int_equal(err, 0);
}

static struct reply await_notices(struct host *h, uint64_t count)
{
	uint64_t end = now_ns() + TIMEOUT_NS;
	struct reply r;

	do {
		pause_us(1000);
		r = host_look(h);
	} while (r.notices < count && now_ns() < end);
	assert_int_equal(r.notices, count);
	return r;
}

static void a_verdict_is_written_and_the_host_hears_of_it(void **state)
{
	struct sl_msg_verdict v = verdict;
	struct sl_fabric *f;
	struct host h;
	struct reply r;

	(void)state;
	host_start(&h, next_port++, 0);
	f = open_notifier(&h);
	come_up(f, NULL);
	notify(f, 5, &v);
	r = await_notices(&h, 1);
	assert_int_equal(r.last_notice, 5);
	assert_memory_equal(&r.line.verdict, &v, sizeof(v));
	assert_true(r.line.check == sl_line_check((const uint64_t *)&r.line));
	/* More than queues and receives hold, each once. */
	for (uint64_t i = 0; i < 1000; i++) {
		v.instance = 100 + i;
		notify(f, (uint32_t)(i % BOARD_LINES), &v);
	}
	r = await_notices(&h, 1001);
	assert_int_equal(r.line.verdict.instance, 1099);
	sl_fabric_close(f);
	host_stop(&h);
}

static void a_host_that_does_not_listen_holds_up_verdicts_alone(void **state)
{
	struct sl_fabric *f, *reader;
	struct sl_read r;
	struct host h;
	uint64_t epoch = 0, later, end;
	int err = 0;

	(void)state;
	host_start(&h, next_port++, 0);
	reader = open_fabric(&h, 0);
	come_up(reader, NULL);
	f = open_notifier(&h);
	come_up(f, &epoch);
	kill(h.pid, SIGSTOP);
	/* Its receives run out, then our queue. It is noticed, and that ends the connection. */
	end = now_ns() + 2 * TIMEOUT_NS;
	later = epoch;
	while (err != -ENOTCONN && now_ns() < end) {
		err = sl_fabric_notify(f, 1, &verdict);
		sl_fabric_drive(f, now_ns(), &later);
		pause_us(200);
	}
	assert_int_equal(err, -ENOTCONN);
	for (int i = 0; i < 100; i++) {
		r = (struct sl_read){.remote = sl_fabric_directory(reader),
				     .offset = (uint64_t)i * 64,
				     .length = 64,
				     .to = sl_fabric_buffer(reader, NULL)};
		assert_int_equal(sl_fabric_post(reader, &r, 1), 1);
		collect(reader, 1);
		assert_int_equal(r.status, 0);
	}
	kill(h.pid, SIGCONT);
	come_up(f, &later);
	assert_true(later > epoch);
	notify(f, 2, &verdict);
	end = now_ns() + TIMEOUT_NS;
	while (host_look(&h).last_notice != 2 && now_ns() < end)
		pause_us(1000);
	assert_int_equal(host_look(&h).last_notice, 2);
	sl_fabric_close(f);
	sl_fabric_close(reader);
	host_stop(&h);
}

/* It is refused by the device: only that connection ends. */
static void refused_write(struct sl_fabric *f, uint32_t entry)
{
	uint64_t end = now_ns() + TIMEOUT_NS;

	assert_int_equal(sl_fabric_notify(f, entry, &verdict), 0);
	while (sl_fabric_drive(f, now_ns(), NULL) == SL_FABRIC_UP && now_ns() < end)
		pause_us(200);
	assert_null(sl_fabric_directory(f));
}

static void a_board_ends_where_it_ends(void **state)
{
	struct sl_fabric *f;
	struct host h;

	(void)state;
	host_start(&h, next_port++, 0);
	f = open_notifier(&h);
	come_up(f, NULL);
	refused_write(f, 1u << 20);
	come_up(f, NULL);
	notify(f, BOARD_LINES - 1, &verdict);
	assert_int_equal(await_notices(&h, 1).last_notice, BOARD_LINES - 1);
	sl_fabric_close(f);
	host_stop(&h);
}

static void who_reads_writes_nothing_and_who_writes_reads_nothing(void **state)
{
	struct sl_fabric *f, *reader;
	struct sl_read r;
	struct host h;

	(void)state;
	host_start(&h, next_port++, 0);
	f = open_notifier(&h);
	reader = open_fabric(&h, 0);
	come_up(f, NULL);
	come_up(reader, NULL);
	assert_int_equal(sl_fabric_notify(reader, 1, &verdict), -EOPNOTSUPP);
	r = (struct sl_read){
		.remote = sl_fabric_directory(f), .length = 64, .to = sl_fabric_buffer(f, NULL)};
	assert_int_equal(sl_fabric_post(f, &r, 1), 1);
	collect(f, 1);
	assert_int_not_equal(r.status, 0);
	/* Nor may the board be read, or written where READs are allowed. */
	struct reply look = host_look(&h);
	struct sl_remote board = {
		.addr = look.board_addr, .length = 64, .rkey = look.board_rkey, .id = 1};

	r = (struct sl_read){.remote = &board, .length = 64, .to = sl_fabric_buffer(reader, NULL)};
	assert_int_equal(sl_fabric_post(reader, &r, 1), 1);
	collect(reader, 1);
	assert_int_equal(r.status, -EACCES);
	assert_int_equal(host_look(&h).notices, 0);
	sl_fabric_close(f);
	sl_fabric_close(reader);
	host_stop(&h);
}

int main(int argc, char **argv)
{
#define T(test) cmocka_unit_test(test)
	const struct CMUnitTest tests[] = {
		T(what_is_read_is_what_is_there),
		T(neighbours_travel_as_one_work_request),
		T(every_read_completes_once_whatever_the_queue),
		T(a_read_out_of_bounds_never_leaves),
		T(a_refused_key_ends_the_connection_and_nothing_else),
		T(a_host_that_comes_back_is_found_again),
		T(a_stopped_host_is_read_all_the_same),
		T(a_queue_pair_is_freed_when_its_collector_dies),
		T(one_too_many_is_told_so_and_gets_in_later),
		T(a_host_that_lies_is_not_believed),
		T(a_stranger_is_turned_away),
		T(what_is_not_there_is_said_in_one_line),
		T(a_gid_is_chosen_by_its_index),
		T(a_verdict_is_written_and_the_host_hears_of_it),
		T(a_host_that_does_not_listen_holds_up_verdicts_alone),
		T(a_board_ends_where_it_ends),
		T(who_reads_writes_nothing_and_who_writes_reads_nothing),
		T(a_device_that_vanishes_is_survived),
	};

	if (argc > 1 && !strcmp(argv[1], "--list")) {
		for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
			puts(tests[i].name);
		return 0;
	}
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	device = getenv("RDMA_DEVICE");
	address = getenv("ADDRESS");
	if (!device || !address) {
		printf("SKIP: RDMA_DEVICE and ADDRESS name no RDMA device\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
