// SPDX-License-Identifier: Apache-2.0
/*
 * test_owners.c - connections that are busy while the programs are attached have an owner at both
 * ends. A hook that sees a segment opens the flow before the walk over descriptors reaches its
 * socket.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/capability.h>
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
#include <sys/syscall.h>
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

/*
 * Counts live flows of the port that have this owner; *all: with any owner; *ended (may be NULL):
 * flows that are not live.
 */
static unsigned int owned(const void *map, uint16_t port, bool server, pid_t pid, unsigned int *all,
			  unsigned int *ended)
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
		if (region_flow_read(map, &info, i, &f) || f.state == SL_STATE_FREE ||
		    f.flags & SL_FLOW_LISTENER || (server ? f.local_port : f.remote_port) != port)
			continue;
		if (f.state != SL_STATE_LIVE) {
			if (ended)
				++*ended;
			continue;
		}
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
			clients = owned(tcp_region(tcp)->map, port, false, c, &all[0], NULL);
			servers = owned(tcp_region(tcp)->map, port, true, s, &all[1], NULL);
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

/* Sets or clears the effective capability CAP_SYS_ADMIN of this thread. */
static void administrate(bool may)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];

	assert_int_equal(syscall(SYS_capget, &header, data), 0);
	data[0].effective &= ~(1u << CAP_SYS_ADMIN);
	data[0].effective |= (unsigned int)may << CAP_SYS_ADMIN;
	assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

static void bring_loopback_up(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	assert_int_equal(ioctl(s, SIOCSIFFLAGS, &lo), 0);
	close(s);
}

/*
 * In a network namespace of its own: connects when it is told to, and then sends over all
 * connections each time. Both ends belong to this process.
 */
static void connect_elsewhere(int told, int port_to)
{
	int client[PAIRS], server[PAIRS];
	uint16_t port;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	assert_int_equal(unshare(CLONE_NEWNET), 0);
	bring_loopback_up();
	if (read(told, &byte, 1) != 1)
		_exit(1);
	port = connect_all(client, server);
	if (write(port_to, &port, sizeof(port)) != sizeof(port))
		_exit(1);
	while (read(told, &byte, 1) == 1)
		for (int i = 0; i < PAIRS; i++)
			if (write(client[i], &byte, 1) != 1)
				_exit(1);
	_exit(1);
}

/*
 * The owner of an accepted connection is unknown until the walk over descriptors. An agent without
 * CAP_SYS_ADMIN cannot walk the sockets of another namespace, but the next segment of a connection
 * finds its owner, and a filter for the owner does not close it.
 */
static void owners_are_found_in_forbidden_namespaces(void **state)
{
	struct tcp_opts options = {.flows = 1024, .existing = true};
	const struct timespec pause = {.tv_nsec = 20000000};
	unsigned int clients, servers, ended = 0, all[2] = {0};
	uint64_t end = base_now_ns() + PATIENCE;
	int tell[2], port_from[2];
	struct tcp *tcp;
	uint16_t port;
	char why[256];
	pid_t child;

	(void)state;
	assert_int_equal(pipe(tell) | pipe(port_from), 0);
	child = fork();
	if (!child) {
		close(tell[1]);
		connect_elsewhere(tell[0], port_from[1]);
	}
	assert_int_equal(tcp_open(&options, &tcp, why, sizeof(why)), 0);
	assert_int_equal(tcp_attach(tcp, why, sizeof(why)), 0);
	assert_int_equal(write(tell[1], "x", 1), 1);
	assert_int_equal(read(port_from[0], &port, sizeof(port)), sizeof(port));
	administrate(false);
	options.filter.pid = (uint32_t)child;
	assert_int_equal(tcp_filter(tcp, &options.filter, why, sizeof(why)), 0);
	administrate(true);
	assert_int_equal(write(tell[1], "x", 1), 1);
	do {
		nanosleep(&pause, NULL);
		ended = 0;
		clients = owned(tcp_region(tcp)->map, port, false, child, &all[0], &ended);
		servers = owned(tcp_region(tcp)->map, port, true, child, &all[1], &ended);
	} while ((clients < PAIRS || servers < PAIRS) && base_now_ns() < end);
	tcp_close(tcp);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(tell[i]);
		close(port_from[i]);
	}
	assert_int_equal(clients, PAIRS);
	assert_int_equal(servers, PAIRS);
	assert_int_equal(ended, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(busy_connections_have_owners),
		cmocka_unit_test(owners_are_found_in_forbidden_namespaces),
	};
	struct tcp_opts options = {.flows = 64};
	struct tcp *tcp;
	char why[256];

	if (unshare(CLONE_NEWNET) || tcp_open(&options, &tcp, why, sizeof(why))) {
		printf("SKIP: %s\n", errno == EPERM ? "needs root" : why);
		return 77;
	}
	tcp_close(tcp);
	bring_loopback_up();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
