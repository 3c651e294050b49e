// SPDX-License-Identifier: Apache-2.0
/*
 * xdp_load.c INTERFACE MAC SOURCE TARGET PORT COUNT KEYS PACK - sends COUNT packets of PACK
 * key-writes each (8 bytes of key, 8 of value, one copy) from a veth to its peer, as XDP frames
 * that the kernel makes (xdp_load.bpf.c). The sender costs so little that the receiver is the
 * bottleneck. Prints one line of JSON.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <bpf/bpf.h>

#include "base/base.h"
#include "dta/wire/wire.h"
#include "xdp_load.skel.h"

/* Packets per call; a call waits twice for a grace period (bpf_dispatcher_change_prog()). */
#define RUN   (1u << 24)
#define FRAME 1514u

static uint16_t sum_of(const uint8_t *p, size_t bytes)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < bytes; i += 2)
		sum += (uint32_t)(p[i] << 8 | p[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~((sum & 0xffff) + (sum >> 16));
}

static void put16(uint8_t *at, uint16_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

/* Returns its length; 0: an argument is wrong. A UDP checksum of 0 means none (RFC 768). */
static size_t make_frame(uint8_t f[FRAME], char **argv)
{
	const struct dta_header header = {.reporter = 1, .incarnation = (uint32_t)time(NULL)};
	const struct dta_block shape = {
		.opcode = DTA_KEYWRITE, .copies = 1, .key_bytes = 8, .value_bytes = 8, .store = 1};
	const uint8_t key[8] = {0}, value[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	uint8_t *ip = f + 14, *udp = ip + 20;
	struct dta_builder b;
	unsigned int mac[6];
	size_t bytes;

	dta_begin(&b, udp + 8, FRAME - 42, &header);
	for (int i = 0; i < atoi(argv[8]); i++)
		if (dta_put(&b, &shape, key, value))
			return 0;
	bytes = 8 + dta_end(&b);
	if (sscanf(argv[2], "%x:%x:%x:%x:%x:%x", mac, mac + 1, mac + 2, mac + 3, mac + 4,
		   mac + 5) != 6 ||
	    inet_pton(AF_INET, argv[3], ip + 12) != 1 || inet_pton(AF_INET, argv[4], ip + 16) != 1)
		return 0;
	for (int i = 0; i < 6; i++)
		f[i] = (uint8_t)mac[i];
	f[6] = 2;
	put16(f + 12, 0x0800);
	ip[0] = 0x45;
	put16(ip + 2, (uint16_t)(20 + bytes));
	ip[8] = 64;
	ip[9] = 17;
	put16(ip + 10, sum_of(ip, 20));
	put16(udp, 40000);
	put16(udp + 2, (uint16_t)atoi(argv[5]));
	put16(udp + 4, (uint16_t)bytes);
	return 14 + 20 + bytes;
}

int main(int argc, char **argv)
{
	uint8_t f[FRAME] = {0};
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f, .flags = BPF_F_TEST_XDP_LIVE_FRAMES);
	struct xdp_load_bpf *b = xdp_load_bpf__open();
	uint64_t count, sent = 0, began;
	int err = 0;

	if (argc != 9 || !b) {
		fprintf(stderr,
			"usage: xdp_load INTERFACE MAC SOURCE TARGET PORT COUNT KEYS PACK\n");
		return 2;
	}
	const uint32_t out = if_nametoindex(argv[1]);
	const uint64_t keys = strtoull(argv[7], NULL, 10);
	const uint32_t pack = (uint32_t)atoi(argv[8]);

	memcpy((void *)&b->rodata->out, &out, sizeof(out));
	memcpy((void *)&b->rodata->keys, &keys, sizeof(keys));
	memcpy((void *)&b->rodata->pack, &pack, sizeof(pack));
	count = strtoull(argv[6], NULL, 10);
	o.data_size_in = (uint32_t)make_frame(f, argv);
	/*
	 * One byte too long; the program removes it. The kernel restores the length, which the
	 * receiver may have changed, only of frames that the program changed.
	 */
	o.data_size_in += pack == 1;
	memcpy((void *)&b->rodata->frame, f, sizeof(b->rodata->frame));
	if (!o.data_size_in || !out) {
		fprintf(stderr,
			"xdp_load: no such interface or address, or too many reports per packet\n");
		return 2;
	}
	if (xdp_load_bpf__load(b)) {
		fprintf(stderr, "xdp_load: %s\n", strerror(errno));
		return 1;
	}
	began = base_now_ns();
	while (sent < count && !err) {
		o.repeat = (int)(count - sent < RUN ? count - sent : RUN);
		err = bpf_prog_test_run_opts(bpf_program__fd(b->progs.load), &o);
		sent += (uint64_t)o.repeat;
	}
	if (err)
		fprintf(stderr, "xdp_load: %s\n", strerror(-err));
	else
		printf("{\"packets\":%llu,\"seconds\":%.6f}\n", (unsigned long long)sent,
		       (double)(base_now_ns() - began) / 1e9);
	xdp_load_bpf__destroy(b);
	return err ? 1 : 0;
}
