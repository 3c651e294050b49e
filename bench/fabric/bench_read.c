/* SPDX-License-Identifier: Apache-2.0 */
/*
 * READs through fabric_post(), for comparison with perftest. Prints bare numbers; guest.sh
 * makes them lines of results.
 *
 * 	bench_read host                     serves 16 MiB until it is killed
 * 	bench_read rate SECONDS DEPTH       4 KiB READs a second, none of which can be merged
 * 	bench_read pages SECONDS DEPTH      4 KiB READs a second of neighbouring pages
 * 	bench_read latency COUNT BYTES      median and 99th percentile of a round in microseconds:
 * one READ and all that a worker does around it
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "fabric/host.h"

#define PORT  18111
#define BYTES (16u << 20)
#define PAGE  4096u
#define BATCH 512u

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "bench_read: %s\n", what);
	exit(1);
}

static void host(void)
{
	struct fabric_host_opts opts = {
		.device = getenv("RDMA_DEVICE"),
		.port = PORT,
		.gid_index = -1,
	};
	struct fabric_host_key key;
	char error[256] = "";
	struct fabric_host *h = fabric_host_open(&opts, error, sizeof(error));
	void *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	memset(map, 1, BYTES);
	if (!h || fabric_host_register(h, map, BYTES, &key))
		die(error);
	fabric_host_set_directory(h, &key, BYTES, 1);
	for (;;) {
		struct pollfd p = {.fd = fabric_host_fd(h), .events = POLLIN};

		poll(&p, 1, -1);
		fabric_host_dispatch(h);
	}
}

static struct fabric *connect_host(uint32_t depth)
{
	struct fabric_opts opts = {
		.device = getenv("RDMA_DEVICE"),
		.gid_index = -1,
		.queue_depth = depth,
	};
	uint64_t end = now_ns() + 10000000000ull;
	char target[64];
	struct fabric *f;

	snprintf(target, sizeof(target), "%s:%u", getenv("ADDRESS"), PORT);
	f = fabric_open(target, &opts);
	if (!f)
		die(fabric_error());
	while (fabric_drive(f, now_ns(), NULL) != FABRIC_UP)
		if (now_ns() > end)
			die("no connection");
	return f;
}

/* Keeps the queue full for so long; returns READs a second. */
static double rate(double seconds, uint32_t depth, bool neighbours)
{
	static struct fabric_read reads[BATCH], *idle[BATCH], *done[BATCH];
	struct fabric *f = connect_host(depth);
	uint8_t *buffer = fabric_buffer(f, NULL);
	uint64_t start, count = 0, next = 0, page = 0;
	/* A round of a worker posts what it has as one batch: here 1 MiB, twice. */
	uint32_t batch = neighbours ? BATCH / 2 : depth, busy = 0;

	(void)idle;
	start = now_ns();
	for (;;) {
		uint64_t now = now_ns();
		bool over = (double)(now - start) > seconds * 1e9;
		int n;

		if (over && !busy)
			break;
		if (!over && neighbours) {
			/* Two halves of the landing buffer, one being read while the other is used.
			 */
			while (busy <= BATCH - batch) {
				struct fabric_read *r = &reads[next];

				for (uint32_t i = 0; i < batch; i++, page++)
					r[i] = (struct fabric_read){
						.remote = fabric_directory(f),
						.offset = page * PAGE % BYTES,
						.length = PAGE,
						.to = buffer + (next + i) * PAGE,
					};
				if (fabric_post(f, r, batch) != (int)batch)
					die("post");
				busy += batch;
				next = (next + batch) % BATCH;
			}
		} else if (!over && busy < depth) {
			struct fabric_read *r = &reads[next];
			uint32_t room = depth - busy;

			if (next + room > batch)
				room = (uint32_t)(batch - next);
			/* Every other page, so that there is nothing to merge. */
			for (uint32_t i = 0; i < room; i++, page += 2)
				r[i] = (struct fabric_read){
					.remote = fabric_directory(f),
					.offset = page * PAGE % BYTES,
					.length = PAGE,
					.to = buffer + (next + i) * PAGE,
				};
			n = fabric_post(f, r, room);
			if (n < 0)
				die("post");
			busy += (uint32_t)n;
			next = (next + (uint32_t)n) % batch;
		}
		n = fabric_poll(f, done, BATCH, now, 10000000000ull);
		for (int i = 0; i < n; i++)
			if (done[i]->status)
				die("a READ failed");
		busy -= (uint32_t)n;
		count += (uint64_t)n;
		fabric_drive(f, now, NULL);
	}
	fabric_close(f);
	return (double)count / ((double)(now_ns() - start) / 1e9);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void latency(uint32_t count, uint32_t bytes)
{
	struct fabric *f = connect_host(0);
	double *us = calloc(count, sizeof(*us));

	for (uint32_t i = 0; i < count; i++) {
		struct fabric_read r = {.remote = fabric_directory(f),
					.length = bytes,
					.to = fabric_buffer(f, NULL)};
		uint64_t start = now_ns();
		struct fabric_read *done;

		fabric_drive(f, start, NULL);
		if (fabric_post(f, &r, 1) != 1)
			die("post");
		while (!fabric_poll(f, &done, 1, now_ns(), 10000000000ull))
			;
		if (r.status)
			die("a READ failed");
		us[i] = (double)(now_ns() - start) / 1e3;
	}
	qsort(us, count, sizeof(*us), by_value);
	printf("%.2f %.2f\n", us[count / 2], us[count - 1 - count / 100]);
	free(us);
	fabric_close(f);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "host"))
		host();
	if (argc != 4)
		die("host | rate SECONDS DEPTH | pages SECONDS DEPTH | latency COUNT BYTES");
	if (!strcmp(argv[1], "latency"))
		latency((uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]));
	else
		printf("%.0f\n", rate(atof(argv[2]), (uint32_t)atoi(argv[3]), argv[1][0] == 'p'));
	return 0;
}
