// SPDX-License-Identifier: Apache-2.0
/*
 * query.c - key-write queries per second of one core: N = 2, random keys of 13 bytes (a 5-tuple),
 * values of 8, all of them present, in a store of 1 GiB at a load of 0.25. The peer asks for the
 * same keys one by one.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "dta/store/hash.h"
#include "dta/query/query.h"
#include "dta/store/stores.h"

enum { SLOTS = 1 << 26, KEYS = SLOTS / 4, ASKED = 1 << 20, KEY = 13, ROUNDS = 11 };

static void key_of(uint64_t n, uint8_t key[KEY])
{
	uint64_t a = dta_mix(n + 1), b = dta_mix(a);

	memcpy(key, &a, 8);
	memcpy(key + 8, &b, KEY - 8);
}

static void fill(const struct dta_store_object *o, uint64_t seed)
{
	for (uint64_t n = 0; n < KEYS; n++) {
		uint8_t key[KEY];
		struct dta_hash h;
		uint64_t unit[2];

		key_of(n, key);
		h = dta_hash(key, KEY, seed);
		unit[0] = dta_check(h, &n, 8);
		unit[1] = n;
		for (uint32_t i = 0; i < 2; i++)
			memcpy(o->view.map + SL_STORE_BANKS_OFFSET + dta_slot(h, i, SLOTS) * 16,
			       unit, 16);
	}
}

static size_t one_by_one(const struct dta_store_view *v, const uint8_t *keys)
{
	size_t hits = 0;

	for (uint32_t i = 0; i < ASKED; i++) {
		const struct dta_query q = {
			.key = keys + (size_t)i * KEY, .key_bytes = KEY, .copies = 2};
		struct sl_keywrite_answer a;

		dta_view_keywrite(v, &q, &a);
		hits += a.result == SL_QUERY_FOUND;
	}
	return hits;
}

/* The floor: as many reads of 16 bytes at places that are known. */
static void bare_reads(const uint8_t *bank)
{
	uint64_t k = 1, sum = 0;

	for (uint32_t i = 0; i < 2 * ASKED; i++) {
		uint64_t unit[2];

		k *= 0x9e3779b97f4a7c15u;
		memcpy(unit, bank + (k >> 38) * 16, 16);
		sum += unit[0] ^ unit[1];
	}
	__asm__ volatile("" ::"r"(sum));
}

static double per_second(double start_ns)
{
	return ASKED * 1e9 / (bench_cpu_ns() - start_ns);
}

int main(void)
{
	struct sl_store_config c = {.kind = SL_STORE_KEYWRITE,
				    .slots = SLOTS,
				    .value_bytes = 8,
				    .copies = 2,
				    .rows = 1,
				    .lanes = 1,
				    .banks = 1,
				    .seed = 1};
	uint8_t *keys = bench_memory((uint64_t)ASKED * KEY),
		*values = bench_memory((uint64_t)ASKED * 8), *found = bench_memory(ASKED);
	double many[ROUNDS], one[ROUNDS], floor[ROUNDS];
	size_t hits = 0, hits_one = 0;
	struct dta_store_object *o;
	char error[160];

	/* The collector's default. */
	o = dta_store_object_new(&c, "bench", NULL, DTA_HUGE_AUTO, error, sizeof(error));
	if (!o)
		bench_die("%s", error);
	fill(o, c.seed);
	for (int r = 0; r < ROUNDS; r++) {
		double start;

		for (uint32_t i = 0; i < ASKED; i++)
			key_of(dta_mix((uint64_t)r * ASKED + i) % KEYS, keys + (size_t)i * KEY);
		start = bench_cpu_ns();
		hits += dta_view_keywrite_many(&o->view, 0, 2, keys, KEY, ASKED, values, found);
		many[r] = per_second(start);
		start = bench_cpu_ns();
		hits_one += one_by_one(&o->view, keys);
		one[r] = per_second(start);
		start = bench_cpu_ns();
		bare_reads(o->view.map + SL_STORE_BANKS_OFFSET);
		floor[r] = per_second(start);
	}
	bench_print(
		&(struct bench_row){.name = "dta.query",
				    .unit = "queries/s",
				    .value = bench_median(many, ROUNDS),
				    .peer = "the same, one by one",
				    .peer_value = bench_median(one, ROUNDS),
				    .floor = "two random reads of 16 bytes per query",
				    .floor_value = bench_median(floor, ROUNDS)},
		"N = 2, 13-byte keys, 8-byte values, 1 GiB, load 0.25, found %.4f and %.4f, "
		"%.0f %% of the store in pages of 2 MiB (%s); CPU time of one thread, median of %d "
		"rounds",
		(double)hits / ROUNDS / ASKED, (double)hits_one / ROUNDS / ASKED,
		100.0 * (double)o->huge_bytes / (double)o->view.bytes, o->pages, ROUNDS);
	dta_store_object_free(o, false);
	return 0;
}
