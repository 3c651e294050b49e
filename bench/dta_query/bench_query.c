// SPDX-License-Identifier: Apache-2.0
/*
 * bench_query - key-write queries a second of one core, N=2, random keys of 13 bytes (a 5-tuple),
 * values of 8, in a store of 1 GiB at a load of 0.25, all of them asked for keys that were written.
 * Beside it the same keys one by one, as a caller would ask who does not know of
 * dta_view_keywrite_many(): the peer. CPU time of the thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dta/store/hash.h"
#include "dta/query/query.h"
#include "dta/store/stores.h"

#define SLOTS  (1ull << 26)
#define KEYS   (SLOTS / 4)
#define ASKED  (1u << 20)
#define KEY    13
#define ROUNDS 11

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void key_of(uint64_t n, uint8_t key[KEY])
{
	uint64_t a = dta_mix(n + 1), b = dta_mix(a);

	memcpy(key, &a, 8);
	memcpy(key + 8, &b, KEY - 8);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
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
	struct dta_store_object *o;
	uint8_t *map;
	uint8_t *keys = malloc((size_t)ASKED * KEY), *values = malloc((size_t)ASKED * 8),
		*found = malloc(ASKED);
	double many[ROUNDS], one[ROUNDS];
	struct dta_store_view v;
	size_t hits = 0, hits_one = 0;
	char error[160];

	/* As a collector makes it, by default. */
	o = dta_store_object_new(&c, "bench", NULL, DTA_HUGE_AUTO, error, sizeof(error));
	if (!o || !keys || !values || !found) {
		fprintf(stderr, "bench/dta_query: %s\n", o ? "no memory" : error);
		return 1;
	}
	map = o->view.map;
	v = o->view;
	for (uint64_t n = 0; n < KEYS; n++) {
		uint8_t key[KEY];
		struct dta_hash h;
		uint64_t unit[2];

		key_of(n, key);
		h = dta_hash(key, KEY, c.seed);
		unit[0] = dta_check(h, &n, 8);
		unit[1] = n;
		for (uint32_t i = 0; i < 2; i++)
			memcpy(map + SL_STORE_BANKS_OFFSET + dta_slot(h, i, SLOTS) * 16, unit, 16);
	}
	for (int r = 0; r < ROUNDS; r++) {
		double start;

		for (uint32_t i = 0; i < ASKED; i++)
			key_of(dta_mix((uint64_t)r * ASKED + i) % KEYS, keys + (size_t)i * KEY);
		start = now_s();
		hits += dta_view_keywrite_many(&v, 0, 2, keys, KEY, ASKED, values, found);
		many[r] = ASKED / (now_s() - start);
		start = now_s();
		for (uint32_t i = 0; i < ASKED; i++) {
			struct sl_keywrite_answer a;

			dta_view_keywrite(&v,
					  &(struct dta_query){.key = keys + (size_t)i * KEY,
							      .key_bytes = KEY,
							      .copies = 2},
					  &a);
			hits_one += a.result == SL_QUERY_FOUND;
		}
		one[r] = ASKED / (now_s() - start);
	}
	qsort(many, ROUNDS, sizeof(*many), compare);
	qsort(one, ROUNDS, sizeof(*one), compare);
	printf("{\"name\":\"dta.query\",\"value\":%.0f,\"unit\":\"queries/s\",\"peer\":\"the same, one by one\","
	       "\"peer_value\":%.0f,\"ratio\":%.3f,\"conditions\":\"N=2, 13-byte keys, 8-byte values, 1 GiB, load 0.25, "
	       "found %.4f and %.4f, %.0f %% of the store in pages of 2 MiB (%s), median of %d rounds, CPU time of one thread\"}\n",
	       many[ROUNDS / 2], one[ROUNDS / 2], many[ROUNDS / 2] / one[ROUNDS / 2],
	       (double)hits / ROUNDS / ASKED, (double)hits_one / ROUNDS / ASKED,
	       100.0 * (double)o->huge_bytes / (double)v.bytes, o->pages, ROUNDS);
	dta_store_object_free(o, false);
	free(keys);
	free(values);
	free(found);
	return 0;
}
