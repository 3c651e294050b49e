// SPDX-License-Identifier: Apache-2.0
/*
 * bench_fabric SECONDS - READs of 4 KiB over libfabric's tcp by loopback, one after the other:
 * READs per second, then CPU time of the thread that answers, in ns per READ.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base.h"
#include "fabric/fabric.h"
#include "fabric/host.h"

#define BYTES 4096u

static int failed(const char *what)
{
	fprintf(stderr, "bench_fabric: %s\n", what);
	return 1;
}

int main(int argc, char **argv)
{
	const struct fabric_host_opts o = {.provider = "tcp", .address = "127.0.0.1"};
	uint64_t seconds = argc > 1 ? strtoull(argv[1], NULL, 10) : 5, start, now, count = 0, epoch;
	struct fabric_host_stats before, after;
	struct fabric_read r = {.length = BYTES}, *done;
	struct fabric_host_key key;
	struct fabric_host *h;
	struct fabric *f;
	char target[128], error[256];
	void *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

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
