// SPDX-License-Identifier: Apache-2.0
/*
 * write.c - operations per second through dta_output_verbs(), for comparison with perftest. Prints
 * a bare number; guest.sh makes results of them. Environment: RDMA_DEVICE; ADDRESS of the host,
 * which is this machine.
 *
 * - `bench_write host` serves memory until it is killed.
 * - `bench_write write SECONDS DEPTH BYTES`: WRITEs per second.
 * - `bench_write add SECONDS DEPTH`: FETCH_ADDs per second.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base.h"
#include "bench.h"
#include "dta/io/output_rdma.h"
#include "fabric/host.h"

/* As in perftest, operations cycle through one page, one cache line each. */
enum { BYTES = 4 << 20, PAGE = 4096, LINE = 64, INSTANCE = 42 };

static const char *const where = "/tmp/bench-write.object"; /* address and key, from the host */

static bool admit(void *arg, uint64_t queue, const char *name)
{
	(void)arg;
	(void)queue;
	(void)name;
	return true;
}

static void host(void)
{
	const struct fabric_host_opts opts = {.device = getenv("RDMA_DEVICE"),
					      .port = DTA_VERBS_PORT,
					      .gid_index = -1,
					      .max_queues = 4};
	const struct fabric_host_writers writers = {.instance = INSTANCE, .came = admit};
	char error[200] = "";
	struct fabric_host *h = fabric_host_open(&opts, error, sizeof(error));
	void *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct fabric_host_key key;
	FILE *f = fopen(where, "w");

	if (!h || map == MAP_FAILED || !f || fabric_host_let_write(h, &writers) ||
	    fabric_host_register_writable(h, map, BYTES, &key))
		bench_die("host: %s", error);
	fprintf(f, "%llu %u\n", (unsigned long long)key.addr, key.rkey);
	fclose(f);
	for (;;) {
		struct pollfd p = {.fd = fabric_host_fd(h), .events = POLLIN};

		poll(&p, 1, -1);
		fabric_host_dispatch(h);
	}
}

static struct dta_output *connect_host(uint32_t depth, struct dta_object *object)
{
	struct dta_output_verbs_opts opts = {.host = getenv("ADDRESS"),
					     .gid_index = -1,
					     .name = "bench",
					     .instance = INSTANCE,
					     .depth = depth};
	const uint64_t until = base_now_ns() + 10000000000ull;
	unsigned long long addr;
	struct dta_output *o;
	char error[200] = "";
	FILE *f = fopen(where, "r");

	if (!f || fscanf(f, "%llu %u", &addr, &object->rkey) != 2)
		bench_die("%s: no key from a host", where);
	fclose(f);
	object->bytes = BYTES;
	object->addr = addr;
	o = dta_output_verbs(&opts, error, sizeof(error));
	if (!o)
		bench_die("%s", error);
	while (o->ops->drive(o, base_now_ns()) != DTA_OUTPUT_UP)
		if (base_now_ns() > until)
			bench_die("no connection");
	return o;
}

/* bytes 0: FETCH_ADDs. Operations per second. */
static double rate(uint64_t seconds, uint32_t depth, uint32_t bytes)
{
	struct dta_object object = {0};
	struct dta_output *o = connect_host(depth, &object);
	const uint64_t start = base_now_ns(), until = start + seconds * 1000000000u;
	const uint32_t step = bytes ? (bytes + LINE - 1) / LINE * LINE : LINE;
	static const uint8_t data[PAGE];
	struct dta_output_stats s;
	uint64_t offset = 0;

	for (uint64_t now = start; now < until; now = base_now_ns()) {
		for (unsigned i = 0; i < 32; i++) {
			int err = bytes ? o->ops->write(o, &object, offset, data, bytes, NULL)
					: o->ops->add(o, &object, offset, 1);

			if (err)
				break;
			offset = (offset + step) % PAGE;
		}
		o->ops->flush(o);
		o->ops->drive(o, now);
	}
	s = o->stats;
	o->ops->close(o);
	if (s.disconnects)
		bench_die("the connection broke");
	return (double)s.completed * 1e9 / (double)(base_now_ns() - start);
}

int main(int argc, char **argv)
{
	const bool write = argc == 5 && !strcmp(argv[1], "write");
	uint32_t bytes = write ? (uint32_t)atoi(argv[4]) : 0;

	if (argc == 2 && !strcmp(argv[1], "host"))
		host();
	if ((!write && (argc != 4 || strcmp(argv[1], "add"))) || (write && !bytes) ||
	    bytes > PAGE / 2)
		bench_die("host | write SECONDS DEPTH BYTES | add SECONDS DEPTH");
	printf("%.0f\n", rate(strtoull(argv[2], NULL, 10), (uint32_t)atoi(argv[3]), bytes));
	return 0;
}
