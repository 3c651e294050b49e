// SPDX-License-Identifier: Apache-2.0
/*
 * bench_verbs owner | write SECONDS DEPTH BYTES | add SECONDS DEPTH: operations a second through
 * dta_output_verbs(). Environment: RDMA_DEVICE, ADDRESS of the owner; for both in one machine, as
 * it is in the guest.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base.h"
#include "dta/io/rdma_host.h"
#include "dta/io/output_rdma.h"

#define BYTES (4u << 20)
#define PAGE                                                                                    \
	4096u /* perftest's operations go round one, a cache line each: ours too, as pages cost \
		 emulation */
#define LINE	 64u
#define INSTANCE 42

static const char *const where = "/tmp/bench-verbs.object";

static int owner(void)
{
	struct dta_rdma_host_opts opts = {
		.device = getenv("RDMA_DEVICE"), .gid_index = -1, .instance = INSTANCE};
	struct dta_rdma_host_key key;
	struct dta_rdma_host *h;
	char error[200];
	void *map;
	FILE *f;

	h = dta_rdma_host_open(&opts, error, sizeof(error));
	map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	f = fopen(where, "w");
	if (!h || map == MAP_FAILED || !f || dta_rdma_host_register(h, map, BYTES, &key)) {
		fprintf(stderr, "owner: %s\n", error);
		return 1;
	}
	fprintf(f, "%llu %u\n", (unsigned long long)key.addr, key.rkey);
	fclose(f);
	for (;;) {
		struct pollfd p = {.fd = dta_rdma_host_fd(h), .events = POLLIN};

		poll(&p, 1, -1);
		dta_rdma_host_dispatch(h);
	}
}

int main(int argc, char **argv)
{
	struct dta_output_verbs_opts opts = {
		.host = getenv("ADDRESS"), .gid_index = -1, .name = "bench", .instance = INSTANCE};
	struct dta_object object = {.bytes = BYTES};
	struct dta_output_stats s;
	unsigned long long addr;
	uint64_t start, until, offset = 0;
	uint8_t data[4096] = {0};
	uint32_t bytes;
	struct dta_output *o;
	char error[200];
	bool add;
	FILE *f;

	if (argc == 2 && !strcmp(argv[1], "owner"))
		return owner();
	if (argc < 4)
		return 2;
	add = !strcmp(argv[1], "add");
	bytes = add ? 8 : argc > 4 ? (uint32_t)atoi(argv[4]) : 64;
	opts.depth = (uint32_t)atoi(argv[3]);
	f = fopen(where, "r");
	if (!f || fscanf(f, "%llu %u", &addr, &object.rkey) != 2 || bytes > PAGE / 2)
		return 1;
	fclose(f);
	object.addr = addr;
	o = dta_output_verbs(&opts, error, sizeof(error));
	if (!o) {
		fprintf(stderr, "%s\n", error);
		return 1;
	}
	until = base_now_ns() + 10000000000ull;
	while (o->ops->drive(o, base_now_ns()) != DTA_OUTPUT_UP)
		if (base_now_ns() > until)
			return 1;
	start = base_now_ns();
	until = start + strtoull(argv[2], NULL, 10) * 1000000000u;
	for (uint64_t now = start; now < until; now = base_now_ns()) {
		for (unsigned i = 0; i < 32; i++) {
			int err = add ? o->ops->add(o, &object, offset, 1)
				      : o->ops->write(o, &object, offset, data, bytes);

			if (err)
				break;
			offset = (offset + (bytes + LINE - 1) / LINE * LINE) % PAGE;
		}
		o->ops->flush(o);
		o->ops->drive(o, now);
	}
	o->ops->stats(o, &s);
	printf("%.0f\n", (double)s.completed * 1e9 / (double)(base_now_ns() - start));
	o->ops->close(o);
	return s.disconnects ? 1 : 0;
}
