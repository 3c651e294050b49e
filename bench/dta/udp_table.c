// SPDX-License-Identifier: Apache-2.0
/*
 * udp_table.c table|log|drop - the peer of dta.e2e.* and dta.baseline: a collector that receives
 * the same packets through the same input and parser, and stores them in its own memory with its
 * own CPU. It does less than ours: no windows, MACs, copies or check words. Runs until SIGTERM,
 * then prints one line of JSON.
 *
 * - `table`: an open-addressed hash table of 2^23 entries, keys and values of 8 bytes.
 * - `log`: one ring of keys and values, without a lock.
 * - `drop`: packets are received and counted, not parsed: the floor.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/base.h"
#include "dta/store/hash.h"
#include "dta/io/input.h"
#include "dta/wire/wire.h"

#define ENTRIES (1u << 23)
#define BATCH	512u

struct entry {
	uint64_t key, value;
};

static struct entry *entries;
static uint64_t head, reports, packets;
static enum { DROP, TABLE, LOG } kind;

static void insert(const uint8_t *items, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct entry e;
		uint64_t at;

		memcpy(&e, items + (size_t)i * sizeof(e), sizeof(e));
		e.key++; /* 0 marks an unused entry */
		if (kind == LOG) {
			entries[head++ % ENTRIES] = e;
			continue;
		}
		at = dta_hash(&e.key, 8, 1).lo % ENTRIES;
		while (entries[at].key && entries[at].key != e.key)
			at = (at + 1) % ENTRIES;
		entries[at] = e;
	}
}

static void take(const struct dta_datagram *d, struct dta_packet *p)
{
	packets++;
	if (kind == DROP || dta_parse(d->data, d->bytes, p) != DTA_FINE)
		return;
	reports += p->header.reports;
	for (uint32_t b = 0; b < p->header.blocks; b++)
		if (p->block[b].key_bytes == 8 && p->block[b].value_bytes == 8)
			insert(p->block[b].items, p->block[b].count);
}

int main(int argc, char **argv)
{
	static struct dta_datagram d[BATCH];
	static struct dta_packet p;
	const struct dta_input_udp_opts o = {.address = "127.0.0.1:0"};
	struct sockaddr_in6 where;
	struct dta_input *in;
	struct timespec cpu;
	char error[256];
	int stop = base_stop_fd();

	if (argc != 2)
		return 2;
	kind = !strcmp(argv[1], "table") ? TABLE : !strcmp(argv[1], "log") ? LOG : DROP;
	in = dta_input_udp(&o, error, sizeof(error));
	entries = mmap(NULL, ENTRIES * sizeof(*entries), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (stop < 0 || !in || entries == MAP_FAILED) {
		fprintf(stderr, "udp_table: %s\n", in ? strerror(errno) : error);
		return 1;
	}
	dta_input_udp_where(in, &where);
	printf("ready listen=127.0.0.1:%u\n", ntohs(where.sin6_port));
	fflush(stdout);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	const double before = (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9;

	for (;;) {
		const int n = in->ops->receive(in, d, BATCH);
		struct pollfd f[2] = {{.fd = in->fd, .events = POLLIN},
				      {.fd = stop, .events = POLLIN}};

		for (int i = 0; i < n; i++)
			take(&d[i], &p);
		if (n <= 0 && poll(f, 2, -1) > 0 && f[1].revents)
			break;
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	printf("{\"packets\":%llu,\"reports\":%llu,\"cpu_seconds\":%.6f}\n",
	       (unsigned long long)packets, (unsigned long long)reports,
	       (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9 - before);
	in->ops->close(in);
	return 0;
}
