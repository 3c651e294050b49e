// SPDX-License-Identifier: Apache-2.0
/*
 * test_owners.c - connections that are busy while the programs are attached have an owner at both
 * ends. A hook that sees a segment opens the flow before the walk over descriptors reaches its
 * socket.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/test.h"
#include "base/base.h"
#include "region/flows.h"
#include "source/tcp/tcp.h"

#define PAIRS	 100
#define RUNS	 5
#define PATIENCE 100000000000ull

/* Sends back all data, at both ends: each connection always has data in transit. */
static void echo_for_ever(const int *fd)
{
	struct pollfd p[PAIRS];
	char bytes[256];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < PAIRS; i++)
		p[i] = (struct pollfd){fd[i], POLLIN, 0};
	while (poll(p, PAIRS, -1) > 0)
		for (int i = 0; i < PAIRS; i++)
			if (p[i].revents) {
				ssize_t n = read(p[i].fd, bytes, sizeof(bytes));

				if (n <= 0 || write(p[i].fd, bytes, (size_t)n) != n)
					_exit(1);
			}
	_exit(1);
}

static pid_t busy(const int *fd, const int *others)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	for (int i = 0; !pid && i < PAIRS; i++)
		close(others[i]);
	if (!pid)
		echo_for_ever(fd);
	return pid;
}

static uint16_t connect_all(int client[PAIRS], int server[PAIRS])
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	socklen_t length = sizeof(a);

	assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(listener, PAIRS), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &length), 0);
	for (int i = 0; i < PAIRS; i++) {
		client[i] = socket(AF_INET, SOCK_STREAM, 0);
		assert_int_equal(connect(client[i], (struct sockaddr *)&a, sizeof(a)), 0);
		server[i] = accept(listener, NULL, NULL);
		assert_true(server[i] >= 0);
		setsockopt(client[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		setsockopt(server[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		assert_int_equal(write(client[i], "around", 6), 6);
	}
	close(listener);
	return ntohs(a.sin_port);
}

/* Counts live flows of the port that have this owner; *all: with any owner. */
static unsigned int owned(const void *map, uint16_t port, bool server, pid_t pid, unsigned int *all)
{
	struct region_flows_info info;
	struct region_flows_hot hot;
	unsigned int n = 0;
	struct region_flow f;

	*all = 0;
	assert_int_equal(region_flows_info_parse(map, 1ull << 30, &info), 0);
	if (region_flows_hot_read(map, &info, &hot))
		return 0;
	for (uint32_t i = 0; i < hot.used; i++) {
		if (region_flow_read(map, &info, i, &f) || f.state != SL_STATE_LIVE ||
		    (server ? f.local_port : f.remote_port) != port)
			continue;
		++*all;
		n += f.pid == (uint32_t)pid && *f.comm;
	}
	return n;
}

static void busy_connections_have_owners(void **state)
{
	struct tcp_opts options = {
		.flows = 1024, .existing = true, .filter = {.netns = "/proc/self/ns/net"}};
	const struct timespec pause = {.tv_nsec = 20000000};
	int client[PAIRS], server[PAIRS];
	uint16_t port = connect_all(client, server);
	pid_t c = busy(client, server), s = busy(server, client);

	(void)state;
	for (int i = 0; i < PAIRS; i++) {
		close(client[i]);
		close(server[i]);
	}
	/* Opening takes seconds in the guest. */
	for (int run = getenv("GUEST") ? RUNS - 1 : 0; run < RUNS; run++) {
		unsigned int clients = 0, servers = 0, all[2] = {0};
		uint64_t end = base_now_ns() + PATIENCE, asked = 0;
		struct tcp *tcp;
		char why[256];

		assert_int_equal(tcp_open(&options, &tcp, why, sizeof(why)), 0);
		assert_int_equal(tcp_attach(tcp, why, sizeof(why)), 0);
		/* Published within the interval; a flow without an owner then never gets one. */
		do {
			nanosleep(&pause, NULL);
			clients = owned(tcp_region(tcp)->map, port, false, c, &all[0]);
			servers = owned(tcp_region(tcp)->map, port, true, s, &all[1]);
			asked++;
		} while ((all[0] < PAIRS || all[1] < PAIRS || asked < 3) && base_now_ns() < end);
		print_message("           run %d: clients %u of %u, servers %u of %u\n", run,
			      clients, all[0], servers, all[1]);
		tcp_close(tcp);
		assert_int_equal(clients, PAIRS);
		assert_int_equal(servers, PAIRS);
	}
	kill(c, SIGKILL);
	kill(s, SIGKILL);
	waitpid(c, NULL, 0);
	waitpid(s, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(busy_connections_have_owners)};
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	struct tcp_opts options = {.flows = 64};
	struct tcp *tcp;
	char why[256];
	int s;

	if (unshare(CLONE_NEWNET) || tcp_open(&options, &tcp, why, sizeof(why))) {
		printf("SKIP: %s\n", errno == EPERM ? "needs root" : why);
		return 77;
	}
	tcp_close(tcp);
	s = socket(AF_INET, SOCK_DGRAM, 0);
	if (s < 0 || ioctl(s, SIOCSIFFLAGS, &lo))
		return 1;
	close(s);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
