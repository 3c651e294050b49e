// SPDX-License-Identifier: Apache-2.0
/*
 * read.c - READs through fabric_post(), for comparison with perftest. Prints bare numbers;
 * guest.sh makes results of them. Environment: RDMA_DEVICE; ADDRESS of the host.
 *
 * - `bench_read host` serves 16 MiB until it is killed.
 * - `bench_read rate SECONDS DEPTH`: 4 KiB READs per second, none of which can be merged.
 * - `bench_read pages SECONDS DEPTH`: 4 KiB READs per second of neighbouring pages.
 * - `bench_read latency COUNT BYTES`: median and 99th percentile, in microseconds, of one READ and
 * all that a worker does around it.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base.h"
#include "bench.h"
#include "fabric/fabric.h"
#include "fabric/host.h"

enum { PORT = 18111, BYTES = 16 << 20, PAGE = 4096, BATCH = 512 };
#define PATIENCE_NS 10000000000ull

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
		bench_die("%s", error);
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
	uint64_t end = base_now_ns() + PATIENCE_NS;
	char target[64];
	struct fabric *f;

	snprintf(target, sizeof(target), "%s:%u", getenv("ADDRESS"), PORT);
	f = fabric_open(target, &opts);
	if (!f)
		bench_die("%s", fabric_error());
	while (fabric_drive(f, base_now_ns(), NULL) != FABRIC_UP)
		if (base_now_ns() > end)
			bench_die("no connection");
	return f;
}

/* READs in progress: a ring of them, and of places in the landing buffer. */
struct window {
	struct fabric *f;
	struct fabric_read reads[BATCH];
	uint32_t next, busy;
	uint64_t page;
};

/* Posts n READs of pages that are `stride` pages apart; those that were accepted become busy. */
static void post(struct window *w, uint32_t n, uint32_t stride, uint32_t ring)
{
	struct fabric_read *r = &w->reads[w->next];
	uint8_t *buffer = fabric_buffer(w->f, NULL);
	int taken;

	for (uint32_t i = 0; i < n; i++, w->page += stride)
		r[i] = (struct fabric_read){
			.remote = fabric_directory(w->f),
			.offset = w->page * PAGE % BYTES,
			.length = PAGE,
			.to = buffer + (uint64_t)(w->next + i) * PAGE,
		};
	taken = fabric_post(w->f, r, n);
	if (taken < 0 || (stride == 1 && taken != (int)n))
		bench_die("READs cannot be posted");
	w->busy += (uint32_t)taken;
	w->next = (w->next + (uint32_t)taken) % ring;
}

/*
 * Adjacent pages are posted in batches of 1 MiB, as in a worker's round; one batch is received
 * while the other is used.
 */
static void fill(struct window *w, uint32_t depth, bool neighbours)
{
	if (neighbours) {
		while (w->busy <= BATCH / 2)
			post(w, BATCH / 2, 1, BATCH);
	} else if (w->busy < depth) {
		uint32_t room = depth - w->busy;

		post(w, w->next + room > depth ? depth - w->next : room, 2, depth);
	}
}

/* READs per second while the queue is kept full. */
static double rate(double seconds, uint32_t depth, bool neighbours)
{
	static struct window w;
	static struct fabric_read *done[BATCH];
	uint64_t start, count = 0;
	bool over = false;

	w.f = connect_host(depth);
	start = base_now_ns();
	while (!over || w.busy) {
		uint64_t now = base_now_ns();
		int n;

		over = (double)(now - start) > seconds * 1e9;
		if (!over)
			fill(&w, depth, neighbours);
		n = fabric_poll(w.f, done, BATCH, now, PATIENCE_NS);
		for (int i = 0; i < n; i++)
			if (done[i]->status)
				bench_die("a READ failed");
		w.busy -= (uint32_t)n;
		count += (uint64_t)n;
		fabric_drive(w.f, now, NULL);
	}
	fabric_close(w.f);
	return (double)count / ((double)(base_now_ns() - start) / 1e9);
}

static void latency(uint32_t count, uint32_t bytes)
{
	struct fabric *f = connect_host(0);
	double *us = calloc(count, sizeof(*us));

	for (uint32_t i = 0; i < count; i++) {
		struct fabric_read r = {.remote = fabric_directory(f),
					.length = bytes,
					.to = fabric_buffer(f, NULL)};
		uint64_t start = base_now_ns();
		struct fabric_read *done;

		fabric_drive(f, start, NULL);
		if (fabric_post(f, &r, 1) != 1)
			bench_die("post");
		while (!fabric_poll(f, &done, 1, base_now_ns(), PATIENCE_NS))
			;
		if (r.status)
			bench_die("a READ failed");
		us[i] = (double)(base_now_ns() - start) / 1e3;
	}
	printf("%.2f %.2f\n", bench_median(us, count), bench_quantile(us, count, 0.99));
	free(us);
	fabric_close(f);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "host"))
		host();
	if (argc != 4)
		bench_die("host | rate SECONDS DEPTH | pages SECONDS DEPTH | latency COUNT BYTES");
	if (!strcmp(argv[1], "latency"))
		latency((uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]));
	else
		printf("%.0f\n", rate(atof(argv[2]), (uint32_t)atoi(argv[3]), argv[1][0] == 'p'));
	return 0;
}
