// SPDX-License-Identifier: Apache-2.0
/*
 * bench_fabric SECONDS [floor] - READs of 4 KiB over TCP by loopback, one after the other: READs
 * per second, then CPU time of the thread that answers, in ns per READ. With floor, what bare
 * sockets need for 100 rounds of a collector per second: cores of the one that sends, and of the
 * one that receives.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "fabric/fabric.h"
#include "fabric/host.h"

#define BYTES 4096u

static int failed(const char *what)
{
	fprintf(stderr, "bench_fabric: %s\n", what);
	return 1;
}

#define PODS	  256u
#define POD_BYTES 1408u

static uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct sender {
	int fd;
	uint64_t cpu_ns;
	char request[8 + 16 * PODS];
};

/* Answers each request with the bytes of all pods, which lie apart. */
static void *send_rounds(void *arg)
{
	static char memory[PODS][4096];
	struct sender *s = arg;
	struct iovec pods[PODS];

	for (uint32_t i = 0; i < PODS; i++)
		pods[i] = (struct iovec){memory[i], POD_BYTES};
	while (recv(s->fd, s->request, sizeof(s->request), MSG_WAITALL) == sizeof(s->request)) {
		uint64_t at = 0;

		while (at < PODS * POD_BYTES) {
			const uint32_t i = (uint32_t)(at / POD_BYTES);
			const struct iovec whole = pods[i];
			ssize_t n;

			pods[i].iov_base = (char *)pods[i].iov_base + at % POD_BYTES;
			pods[i].iov_len -= at % POD_BYTES;
			n = writev(s->fd, pods + i, (int)(PODS - i));
			pods[i] = whole;
			if (n <= 0)
				return NULL;
			at += (uint64_t)n;
		}
		s->cpu_ns = thread_cpu_ns();
	}
	return NULL;
}

static int measure_floor(uint64_t seconds)
{
	static char request[sizeof(((struct sender *)0)->request)], landed[PODS * POD_BYTES];
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	static struct sender s;
	socklen_t bytes = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	uint64_t start = base_now_ns(), due = start, rounds = 0, mine = thread_cpu_ns();
	pthread_t thread;

	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&at, &bytes) ||
	    connect(fd, (struct sockaddr *)&at, sizeof(at)))
		return failed("sockets");
	s.fd = accept(listener, NULL, NULL);
	if (s.fd < 0 || pthread_create(&thread, NULL, send_rounds, &s))
		return failed("a thread");
	for (; rounds < 100 * seconds; rounds++) {
		struct timespec t;

		if (send(fd, request, sizeof(request), 0) != sizeof(request) ||
		    recv(fd, landed, sizeof(landed), MSG_WAITALL) != sizeof(landed))
			return failed("a round");
		due += 10000000;
		t = (struct timespec){(time_t)(due / 1000000000u), (long)(due % 1000000000u)};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	}
	mine = thread_cpu_ns() - mine;
	close(fd);
	pthread_join(thread, NULL);
	printf("%.5f %.5f\n", (double)s.cpu_ns / (double)(base_now_ns() - start),
	       (double)mine / (double)(base_now_ns() - start));
	return 0;
}

int main(int argc, char **argv)
{
	const struct fabric_host_opts o = {.tcp = true, .address = "127.0.0.1"};
	uint64_t seconds = argc > 1 ? strtoull(argv[1], NULL, 10) : 5, start, now, count = 0, epoch;
	struct fabric_host_stats before, after;
	struct fabric_read r = {.length = BYTES}, *done;
	struct fabric_host_key key;
	struct fabric_host *h;
	struct fabric *f;
	char target[128], error[256];
	void *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (argc > 2)
		return measure_floor(seconds);
	h = map != MAP_FAILED ? fabric_host_open(&o, error, sizeof(error)) : NULL;
	if (!h || fabric_host_register(h, map, BYTES, &key))
		return failed(h ? "registration" : error);
	memset(map, 7, BYTES);
	fabric_host_set_directory(h, &key, BYTES, 1);
	fabric_host_stats(h, &before);
	snprintf(target, sizeof(target), "tcp://%s", before.address);
	f = fabric_open(target, NULL);
	if (!f)
		return failed(fabric_error());
	start = base_now_ns();
	while (fabric_drive(f, base_now_ns(), &epoch) != FABRIC_UP)
		if (base_now_ns() - start > 10000000000ull)
			return failed("no connection");
	r.remote = fabric_directory(f);
	r.to = fabric_buffer(f, NULL);
	fabric_host_stats(h, &before);
	start = now = base_now_ns();
	for (; now - start < seconds * 1000000000u; count++) {
		if (fabric_post(f, &r, 1) != 1)
			return failed("post");
		while (!fabric_poll(f, &done, 1, now, 0))
			now = base_now_ns();
		if (r.status || ((char *)r.to)[BYTES - 1] != 7)
			return failed("a READ failed");
		now = base_now_ns();
	}
	fabric_host_stats(h, &after);
	printf("%.0f %.0f\n", (double)count * 1e9 / (double)(now - start),
	       (double)(after.cpu_ns - before.cpu_ns) / (double)count);
	fabric_close(f);
	fabric_host_unregister(h, &key);
	fabric_host_close(h);
	munmap(map, BYTES);
	return 0;
}
