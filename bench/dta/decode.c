// SPDX-License-Identifier: Apache-2.0
/*
 * decode.c KIND FILE [MAP] - nanoseconds of CPU per record of the datagrams in a file (as of
 * input_load.c), decoded and, with a mapping, made into blocks of reports, which are dropped. The
 * median of 7 rounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "dta/device/map.h"
#include "dta/wire/endian.h"

#define ROUNDS 7
#define AROUND 50 /* times the file per round */

static uint64_t blocks;

static void drop_block(void *arg, const struct dta_block *b)
{
	(void)arg;
	blocks += b->count;
}

static void drop_record(void *arg, const struct dta_record *r)
{
	*(uint64_t *)arg += r->number[DTA_FIELD_BYTES];
}

static void map_record(void *arg, const struct dta_record *r)
{
	dta_map_take(arg, r);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static struct dta_datagram in[65536];
	const struct dta_decoder_ops *ops = argc > 2 ? dta_device_decoder(dta_device_find(argv[1]))
						     : NULL;
	FILE *f = ops ? fopen(argv[2], "re") : NULL;
	char error[512] = "";
	struct dta_map *m = argc > 3 ? dta_map_read(argv[3], error, sizeof(error)) : NULL;
	struct dta_map_batch *batch = NULL;
	struct dta_decoder *d;
	uint64_t sum = 0, units, number = 0, at;
	double ns[ROUNDS];
	uint8_t head[4];
	uint32_t n = 0;

	if (!f || *error || fread(head, 4, 1, f) != 1) {
		fprintf(stderr, "usage: decode KIND FILE [MAP] %s\n", error);
		return 2;
	}
	at = dta_get16(head);
	units = dta_get16(head + 2);
	for (; n < 65536 && fread(head, 2, 1, f) == 1; n++) {
		uint8_t *p = malloc(dta_get16(head));

		in[n] = (struct dta_datagram){.data = p, .bytes = dta_get16(head), .port = 1};
		if (!p || fread(p, in[n].bytes, 1, f) != 1)
			return 1;
	}
	fclose(f);
	d = dta_decoder_new(ops, NULL, drop_record, &sum);
	if (m)
		batch = dta_map_batch_new(m, dta_device_find(argv[1]), drop_block, NULL);
	if (!d || (m && !batch))
		return 1;
	dta_decoder_take(d, &in[0], 1);
	if (batch) {
		d->fn = map_record;
		d->arg = batch;
	}
	for (int round = 0; round < ROUNDS; round++) {
		const uint64_t before = d->stats.records, begun = cpu_ns();

		for (int i = 0; i < AROUND; i++)
			for (uint32_t k = 1; k < n; k++) {
				dta_put32((uint8_t *)(uintptr_t)in[k].data + at, (uint32_t)number);
				number += units;
				dta_decoder_take(d, &in[k], 1);
			}
		if (batch)
			dta_map_flush(batch);
		ns[round] = (double)(cpu_ns() - begun) / (double)(d->stats.records - before);
	}
	qsort(ns, ROUNDS, sizeof(*ns), by_value);
	printf("{\"ns\": %.2f, \"records\": %llu, \"blocks\": %llu, \"sum\": %llu}\n",
	       ns[ROUNDS / 2], (unsigned long long)d->stats.records, (unsigned long long)blocks,
	       (unsigned long long)sum);
	return 0;
}
