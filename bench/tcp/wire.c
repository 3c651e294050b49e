// SPDX-License-Identifier: Apache-2.0
/* wire.c - the two namespaces, the server, the exchange. */
#include "wire.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define SAMPLES_MAX 200000

static struct shared {
	int server_cpu;
} * shared;
static pid_t server = -1;

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Avoids measuring the wait for a CPU. Has no effect without the privilege. */
static void first(void)
{
	struct sched_param p = {.sched_priority = 1};

	sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &p);
}

void wire_pin(int apart)
{
	pin(0);
	first();
	shared->server_cpu = apart ? (int)sysconf(_SC_NPROCESSORS_ONLN) - 1 : 0;
}

static int message(int fd, char *buffer)
{
	ssize_t have = 0;

	while (have < MESSAGE) {
		ssize_t n = read(fd, buffer + have, (size_t)(MESSAGE - have));

		if (n <= 0)
			return -1;
		have += n;
	}
	return write(fd, buffer, MESSAGE) == MESSAGE ? 0 : -1;
}

static int listen_on(uint16_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 4096))
		return -1;
	return fd;
}

static int take(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* Moves to the wanted CPU when a connection comes. */
static void *serve_one(void *listener)
{
	char buffer[MESSAGE];

	for (;;) {
		int fd = take(*(int *)listener);

		pin(shared->server_cpu);
		first();
		while (!message(fd, buffer))
			;
		close(fd);
	}
	return NULL;
}

static void serve_many(int listener)
{
	struct epoll_event e = {.events = EPOLLIN, .data.fd = listener}, got[64];
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	char buffer[MESSAGE];

	epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e);
	for (;;) {
		int n = epoll_wait(epoll, got, 64, -1);

		for (int i = 0; i < n; i++) {
			int fd = got[i].data.fd;

			if (fd == listener) {
				e.data.fd = take(listener);
				epoll_ctl(epoll, EPOLL_CTL_ADD, e.data.fd, &e);
			} else if (message(fd, buffer)) {
				close(fd);
			}
		}
	}
}

static void files(rlim_t n)
{
	struct rlimit most = {.rlim_cur = n, .rlim_max = n};

	setrlimit(RLIMIT_NOFILE, &most);
}

static void run_server(int commands, int ready)
{
	static int one;
	int many;
	pthread_t thread;
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWNET) || write(ready, "n", 1) != 1 || read(commands, &c, 1) != 1)
		_exit(1);
	if (system("ip link set lo up && ip addr add " SERVER "/24 dev v1 && ip link set v1 up"))
		_exit(1);
	one = listen_on(PORT_ONE);
	many = listen_on(PORT_MANY);
	if (one < 0 || many < 0 || pthread_create(&thread, NULL, serve_one, &one) ||
	    write(ready, "l", 1) != 1)
		_exit(1);
	serve_many(many);
}

const char *wire_up(void)
{
	int commands[2], ready[2];
	char line[128], c;

	files(20000);
	if (unshare(CLONE_NEWNET))
		return "no network namespaces here (needs root)";
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED || pipe(commands) || pipe(ready))
		return "out of memory";
	server = fork();
	if (!server)
		run_server(commands[0], ready[1]);
	close(ready[1]);
	snprintf(line, sizeof(line), "ip link add v0 type veth peer name v1 netns %d 2>/dev/null",
		 server);
	if (read(ready[0], &c, 1) != 1 || system(line))
		return "no veth here";
	/* Ports of closed connections are used again after a second. */
	if (system("ip link set lo up && ip addr add 10.97.0.1/24 dev v0 && ip link set v0 up && "
		   "echo 1 > /proc/sys/net/ipv4/tcp_tw_reuse") ||
	    write(commands[1], "u", 1) != 1 || read(ready[0], &c, 1) != 1)
		return "the namespaces can't be set up";
	return NULL;
}

pid_t wire_server(void)
{
	return server;
}

int wire_connect(uint16_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	inet_pton(AF_INET, SERVER, &to.sin_addr);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		close(fd);
		return -1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static bool ask(int fd)
{
	char buffer[MESSAGE] = {0};
	ssize_t have = 0, got;

	if (write(fd, buffer, MESSAGE) != MESSAGE)
		return false;
	for (; have < MESSAGE; have += got) {
		got = read(fd, buffer + have, (size_t)(MESSAGE - have));
		if (got <= 0)
			return false;
	}
	return true;
}

/* fd: the connection, or -1 for one per exchange. */
static double exchange_for(int fd, uint64_t ns, uint64_t *exchanges)
{
	static double sample[SAMPLES_MAX];
	double before = bench_wall_ns();
	const double end = before + (double)ns;
	size_t n = 0;

	while (before < end && n < SAMPLES_MAX) {
		int own = fd < 0 ? wire_connect(PORT_ONE) : fd;
		bool good = own >= 0 && ask(own);
		double after;

		if (fd < 0)
			close(own);
		if (!good)
			return 0;
		after = bench_wall_ns();
		sample[n++] = after - before;
		before = after;
	}
	*exchanges = n;
	return bench_median(sample, n);
}

double wire_exchange(int fd, uint64_t ns, uint64_t *exchanges)
{
	return exchange_for(fd, ns, exchanges);
}

double wire_connections(uint64_t ns, uint64_t *exchanges)
{
	return exchange_for(-1, ns, exchanges);
}
