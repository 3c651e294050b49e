/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_scene.h - a host in a separate process and a collector that reads it, for the tests of the
 * verbs provider; and the tests, by their files.
 */
#ifndef SL_TEST_VERBS_SCENE_H
#define SL_TEST_VERBS_SCENE_H

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include <sidelight/attach.h>

#include "support/test.h"
#include "support/clock.h"
#include "fabric/provider.h"
#include "fabric/host.h"

#define REGION_BYTES (4u << 20)
#define TIMEOUT_NS   3000000000ull

extern const char *device, *address; /* of the RDMA device in use */
extern const char *host_secret;	     /* secret of the hosts that start; NULL: none */
extern uint16_t next_port;

static inline void pause_us(long us)
{
	struct timespec t = {.tv_nsec = us * 1000};

	nanosleep(&t, NULL);
}

static uint64_t pattern(uint64_t offset)
{
	return (offset + 1) * 0x9e3779b97f4a7c15ull;
}

/* ---- a host in a process of its own ---- */

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
	uint64_t notices, last_notice;
	struct sl_board_line line; /* the line that the last notice named */
};

#define BOARD_LINES 64u
static uint32_t last_notice;

static inline void on_notice(void *arg, uint32_t entry)
{
	(void)arg;
	last_notice = entry;
}

/* The passive side of a test, in a separate process. */
struct passive {
	struct fabric_host *h;
	struct fabric_host_key key, second; /* second: after 'u' */
	struct sl_board_line *board;
	uint64_t *map;
};

static inline void passive_set_up(struct passive *x, const struct fabric_host_opts *opts)
{
	int fd = memfd_create("region", MFD_CLOEXEC);
	size_t board_bytes = BOARD_LINES * sizeof(*x->board);
	char error[256] = "";

	x->board = mmap(NULL, board_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);
	if (ftruncate(fd, REGION_BYTES))
		_exit(2);
	x->map = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (uint64_t i = 0; i < REGION_BYTES / 8; i++)
		x->map[i] = pattern(i * 8);
	x->h = fabric_host_open(opts, error, sizeof(error));
	if (!x->h) {
		fprintf(stderr, "host: %s\n", error);
		_exit(3);
	}
	if (fabric_host_register(x->h, x->map, REGION_BYTES, &x->key))
		_exit(4);
	if (fabric_host_let_notify(x->h, x->board, board_bytes, on_notice, NULL))
		_exit(9);
	fabric_host_set_directory(x->h, &x->key, REGION_BYTES, 42);
}

static inline struct reply passive_look(const struct passive *x)
{
	struct fabric_host_queue queue[4] = {0};
	struct fabric_host_stats stats;
	struct reply reply = {0};

	fabric_host_stats(x->h, &stats);
	reply.queues = fabric_host_queues(x->h, queue, 4);
	reply.accepted = stats.accepted;
	reply.rejected = stats.rejected;
	reply.disconnected = stats.disconnected;
	reply.lost = stats.lost;
	reply.notices = stats.notices;
	reply.last_notice = last_notice;
	reply.line = x->board[last_notice % BOARD_LINES];
	memcpy(reply.state, queue[0].state, sizeof(reply.state));
	return reply;
}

static inline void passive_obey(struct passive *x, int control, char command)
{
	struct reply reply;

	switch (command) {
	case 'q': /* look */
		reply = passive_look(x);
		if (write(control, &reply, sizeof(reply)) != sizeof(reply))
			_exit(6);
		break;
	case 'u': /* take the region's registration away */
		fabric_host_unregister(x->h, &x->key);
		if (fabric_host_register(x->h, x->map, REGION_BYTES, &x->second))
			_exit(7);
		fabric_host_set_directory(x->h, &x->second, REGION_BYTES, 42);
		if (write(control, "u", 1) != 1)
			_exit(8);
		break;
	case 'x': /* end in good order */
		fabric_host_unregister(x->h, &x->key);
		fabric_host_unregister(x->h, &x->second);
		fabric_host_close(x->h);
		_exit(0);
	}
}

static inline void host_process(int control, uint16_t port, uint32_t max_queues)
{
	struct passive x = {0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	passive_set_up(&x, &(struct fabric_host_opts){
				   .device = device,
				   .port = port,
				   .gid_index = -1,
				   .max_queues = max_queues,
				   .keepalive_ms = 500,
				   .secret = host_secret,
				   .secret_bytes = host_secret ? strlen(host_secret) : 0,
			   });
	if (write(control, "r", 1) != 1)
		_exit(5);
	for (;;) {
		struct pollfd p[2] = {
			{.fd = control, .events = POLLIN},
			{.fd = fabric_host_fd(x.h), .events = POLLIN},
		};
		char command;

		poll(p, 2, -1);
		fabric_host_dispatch(x.h);
		if (!p[0].revents)
			continue;
		if (read(control, &command, 1) != 1)
			_exit(0);
		passive_obey(&x, control, command);
	}
}

static inline void host_start(struct host *h, uint16_t port, uint32_t max_queues)
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

static inline struct reply host_look(struct host *h)
{
	struct reply reply;

	assert_int_equal(write(h->control, "q", 1), 1);
	assert_int_equal(read(h->control, &reply, sizeof(reply)), sizeof(reply));
	return reply;
}

static inline void host_kill(struct host *h)
{
	kill(h->pid, SIGKILL);
	waitpid(h->pid, NULL, 0);
	close(h->control);
}

static inline void host_stop(struct host *h)
{
	int status;

	assert_int_equal(write(h->control, "x", 1), 1);
	waitpid(h->pid, &status, 0);
	close(h->control);
	assert_int_equal(status, 0);
}

/* ---- a collector ---- */

static inline struct fabric *open_fabric(const struct host *h, uint32_t depth)
{
	struct fabric_opts opts = {.device = device, .gid_index = -1, .queue_depth = depth};
	struct fabric *f = fabric_open(h->target, &opts);

	if (!f)
		fail_msg("%s", fabric_error());
	return f;
}

static inline bool await_state(struct fabric *f, enum fabric_state want, unsigned int ms,
			       uint64_t *epoch)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + ms * 1000000ull;

	do {
		if (fabric_drive(f, clock_ns(CLOCK_MONOTONIC), epoch) == want)
			return true;
		pause_us(200);
	} while (clock_ns(CLOCK_MONOTONIC) < end);
	return false;
}

static inline void come_up(struct fabric *f, uint64_t *epoch)
{
	struct fabric_stats s;

	if (await_state(f, FABRIC_UP, 30000, epoch))
		return;
	fabric_stats(f, &s);
	fail_msg("not connected: %s", s.last_error);
}

/* Polls until count READs have completed; each must be one that was posted, and complete once. */
static inline void collect(struct fabric *f, uint32_t count)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + 100000000000ull;
	struct fabric_read *done[64];

	while (count && clock_ns(CLOCK_MONOTONIC) < end) {
		int n = fabric_poll(f, done, 64, clock_ns(CLOCK_MONOTONIC), TIMEOUT_NS);

		assert_true(n >= 0 && (uint32_t)n <= count);
		for (int i = 0; i < n; i++) {
			assert_int_equal(done[i]->tag & 1, 0);
			done[i]->tag |= 1;
		}
		count -= (uint32_t)n;
	}
	assert_int_equal(count, 0);
}

static inline void assert_pattern(const void *at, uint64_t offset, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++) {
		uint64_t word = pattern((offset + i) & ~7ull);

		if (((const uint8_t *)at)[i] != (uint8_t)(word >> ((offset + i) % 8 * 8)))
			fail_msg("wrong byte at %llu", (unsigned long long)(offset + i));
	}
}

/* ---- tests of other files ---- */

/* test_verbs_wrong.c */
void a_host_that_lies_is_not_believed(void **state);
void a_stranger_is_turned_away(void **state);
void a_secret_is_proven_both_ways_before_there_is_a_queue_pair(void **state);
void what_is_not_there_is_said_in_one_line(void **state);
void a_gid_is_chosen_by_its_index(void **state);
void a_device_that_vanishes_is_survived(void **state);

/* test_verbs_back.c */
void a_verdict_is_written_and_the_host_hears_of_it(void **state);
void a_host_that_does_not_listen_holds_up_verdicts_alone(void **state);
void a_board_ends_where_it_ends(void **state);
void who_reads_writes_nothing_and_who_writes_reads_nothing(void **state);

#endif
