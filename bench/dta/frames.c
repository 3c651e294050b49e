// SPDX-License-Identifier: Apache-2.0
/*
 * frames.c [ROUNDS] - RoCEv2 frames that one core builds and seals per second. The peer seals the
 * same frames with zlib's CRC over each whole frame.
 */
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "bench.h"
#include "dta/io/roce.h"

enum { FRAMES = 1000000, RING = 256 };

static struct dta_roce_builder builder;
static uint8_t ring[RING][2048], data[2048];

static double per_second(double start_ns)
{
	return FRAMES * 1e9 / (bench_cpu_ns() - start_ns);
}

static size_t build(unsigned i, uint32_t bytes)
{
	const struct dta_roce_packet p = {
		.opcode = bytes ? DTA_ROCE_WRITE_ONLY : DTA_ROCE_FETCH_ADD,
		.psn = i,
		.addr = 0x7f0000000000ull + i * 64ull,
		.rkey = 0x1234,
		.length = bytes,
		.add = 1,
		.payload = data,
		.bytes = bytes,
	};

	return dta_roce_build(&builder, &p, ring[i % RING]);
}

static double ours(uint32_t bytes)
{
	const double start = bench_cpu_ns();

	for (unsigned i = 0; i < FRAMES; i++)
		dta_roce_seal(&builder, ring[i % RING], build(i, bytes), i % 32 == 31);
	return per_second(start);
}

static double with_zlib(uint32_t bytes)
{
	const double start = bench_cpu_ns();

	for (unsigned i = 0; i < FRAMES; i++) {
		uint8_t *f = ring[i % RING], masked[8 + 28 + 12];
		size_t n = build(i, bytes);
		uint32_t crc;

		memset(masked, 0xff, 8);
		memcpy(masked + 8, f + 14, 40);
		masked[9] = masked[16] = masked[18] = masked[19] = 0xff;
		masked[8 + 26] = masked[8 + 27] = masked[8 + 28 + 4] = 0xff;
		crc = (uint32_t)crc32(0, masked, sizeof(masked));
		crc = (uint32_t)crc32(crc, f + 54, (uInt)(n - 54 - 4));
		memcpy(f + n - 4, &crc, 4);
	}
	return per_second(start);
}

/* The floor: copies as many bytes to the same places. */
static double copies(uint32_t bytes)
{
	const double start = bench_cpu_ns();
	const size_t n = build(0, bytes);

	for (unsigned i = 0; i < FRAMES; i++) {
		memcpy(ring[i % RING], data, n);
		__asm__ volatile("" ::: "memory");
	}
	return per_second(start);
}

static void measure(const char *name, const char *what, uint32_t bytes, int rounds)
{
	double v[BENCH_ROUNDS_MAX], peer[BENCH_ROUNDS_MAX], floor[BENCH_ROUNDS_MAX];

	for (int i = 0; i < rounds; i++) {
		peer[i] = with_zlib(bytes);
		v[i] = ours(bytes);
		floor[i] = copies(bytes);
	}
	bench_print(&(struct bench_row){.name = name,
					.unit = "frames/s",
					.value = bench_median(v, (size_t)rounds),
					.peer = "zlib's crc32",
					.peer_value = bench_median(peer, (size_t)rounds),
					.floor = "as many bytes copied",
					.floor_value = bench_median(floor, (size_t)rounds)},
		    "%s, IPv4; CPU time of one thread, median of %d rounds", what, rounds);
}

int main(int argc, char **argv)
{
	const int rounds = bench_rounds(argc, argv, 7);
	struct dta_roce_end a = {
		.qpn = 0x11, .gid = {[10] = 0xff, 0xff, 10, 0, 0, 1}, .mac = {2}, .mtu = 1024};
	struct dta_roce_end b = a;

	b.gid[15]++;
	if (dta_roce_builder(&builder, &a, &b, 0xc000))
		bench_die("no frame builder");
	measure("dta.raw.icrc", "WRITE of 16 bytes: a key-write slot of 8", 16, rounds);
	measure("dta.raw.icrc.add", "FETCH_ADD", 0, rounds);
	measure("dta.raw.icrc.append", "WRITE of 136 bytes: an append block of 16 items of 8", 136,
		rounds);
	measure("dta.raw.icrc.1k", "WRITE of 1 KiB", 1024, rounds);
	return 0;
}
