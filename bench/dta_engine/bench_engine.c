// SPDX-License-Identifier: Apache-2.0
/*
 * bench_engine ROUNDS [PRIMITIVE] - reports a second of one core in the engine, over a mapping,
 * beside the simplest honest thing that does a like work on the same memory. Blocks of reports are
 * made before, as they lie in packets of 1,472 bytes, and are more than the caches hold. Hashes,
 * check words, accounts: all is in.
 *
 * Ours and its peer take turns, round by round. Prints one JSON object a line, see
 * docs/benchmarks.md.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "dta/engine/engine.h"
#include "dta/store/hash.h"
#include "dta/query/query.h"
#include "dta/store/stores.h"

enum { ROUNDS_MAX = 101, PAYLOAD = 1472 };

static int rounds;
static char machine[256];
static char pages[64];

static void die(const char *why)
{
	fprintf(stderr, "bench/dta_engine: %s\n", why);
	exit(1);
}

static uint64_t rnd(void)
{
	static uint64_t state = 1;

	return dta_mix(state += 0x9e3779b97f4a7c15u);
}

/* CPU time of the thread, which other work on the machine disturbs less than the clock on the wall.
 */
static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, (size_t)rounds, sizeof(*v), by_value);
	return v[rounds / 2];
}

static void find_machine(void)
{
	char line[256], cpu[128] = "unknown CPU";
	FILE *f = fopen("/proc/cpuinfo", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "model name : %127[^\n]", cpu) == 1)
			break;
	if (f)
		fclose(f);
	snprintf(machine, sizeof(machine), "%s, %s, median of %d rounds, CPU time of one thread",
		 cpu, COMPILER, rounds);
}

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

/* For all but the store: zeros, all of them touched, in big pages as far as the kernel finds any.
 */
static void *memory(uint64_t bytes)
{
	const uint64_t big = 2u << 20;
	uint8_t *p;

	bytes = (bytes + big - 1) & ~(big - 1);
	p = mmap(NULL, bytes + big, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		die("no memory");
	p = (uint8_t *)(((uintptr_t)p + big - 1) & ~(big - 1));
	madvise(p, bytes, MADV_HUGEPAGE);
	for (uint64_t i = 0; i < bytes; i += 4096)
		p[i] = 0;
	madvise(p, bytes, MADV_COLLAPSE);
	return p;
}

/* ---- reports ---- */

struct reports {
	struct dta_block shape;
	uint8_t *items;
	uint32_t count, step, block; /* block: reports in one of them */
};

static struct reports reports(uint8_t opcode, uint8_t copies, uint8_t key_bytes,
			      uint16_t value_bytes, uint32_t count)
{
	struct reports r = {.count = count, .step = (uint32_t)key_bytes + value_bytes};

	r.shape = (struct dta_block){.opcode = opcode,
				     .copies = copies,
				     .key_bytes = key_bytes,
				     .value_bytes = value_bytes};
	r.block = (PAYLOAD - DTA_HEADER_BYTES - DTA_BLOCK_BYTES) / r.step;
	r.items = memory((uint64_t)count * r.step);
	return r;
}

static void put32(uint8_t *to, uint32_t v)
{
	v = __builtin_bswap32(v);
	memcpy(to, &v, 4);
}

static void put64(uint8_t *to, uint64_t v)
{
	v = __builtin_bswap64(v);
	memcpy(to, &v, 8);
}

static double feed(struct dta_engine *e, const struct reports *r)
{
	struct dta_block b = r->shape;
	double start = now_s();
	uint32_t taken = 0, blocks = 0;

	for (uint32_t i = 0; i < r->count; i += r->block) {
		b.count = (uint16_t)(r->count - i < r->block ? r->count - i : r->block);
		b.items = r->items + (uint64_t)i * r->step;
		taken += dta_engine_block(e, 0, 0, &b, 1);
		if (!(++blocks % 32)) /* as after a batch of packets */
			dta_engine_tick(e, 1);
	}
	dta_engine_flush(e);
	if (taken != r->count)
		die("reports were dropped");
	return r->count / (now_s() - start);
}

struct store {
	struct dta_store_object *made;
	struct dta_object object;
	struct dta_store_view v;
	struct dta_output *output;
	struct dta_engine *e;
};

static void open_store(struct store *s, struct sl_store_config c)
{
	char error[256];

	c.rows = c.rows ? c.rows : 1;
	c.lanes = c.banks = 1;
	c.seed = 12345;
	/* As a collector makes it, by default. */
	s->made = dta_store_object_new(&c, "bench", NULL, DTA_HUGE_AUTO, error, sizeof(error));
	if (!s->made)
		die(error);
	s->v = s->made->view;
	s->object.bytes = s->v.bytes;
	s->object.map = s->v.map;
	/* What is not in huge pages has been touched, too. */
	memset(s->v.map + SL_STORE_BANKS_OFFSET, 0, s->v.bytes - SL_STORE_BANKS_OFFSET);
	snprintf(pages, sizeof(pages), "%.0f %% of the store in pages of 2 MiB (%s)",
		 100.0 * (double)s->made->huge_bytes / (double)s->v.bytes, s->made->pages);
	s->output = dta_output_shm(NULL, NULL);
	s->e = s->output ? dta_engine_new(NULL, s->output) : NULL;
	if (!s->e || dta_engine_store(s->e, &c, &s->object, 0, 0, NULL))
		die("no store");
}

static void close_store(struct store *s)
{
	struct dta_engine_stats t;

	dta_engine_stats(s->e, &t);
	if (t.in != t.stored)
		die("not every report is stored");
	dta_engine_free(s->e);
	s->output->ops->close(s->output);
	dta_store_object_free(s->made, false);
}

static void print(const char *name, double value, const char *peer, double peer_value,
		  const char *what)
{
	printf("{\"name\":\"%s\",\"value\":%.4g,\"unit\":\"reports/s\",\"peer\":\"%s\",\"peer_value\":%.4g,"
	       "\"ratio\":%.3g,\"conditions\":\"%s; %s; %s\"}\n",
	       name, value, peer, peer_value, value / peer_value, what, pages, machine);
	fflush(stdout);
}

/* ---- key-write ---- */

#define STORE_BYTES (1ull << 30)

/* The peer: { key, value } in an open-addressed table of as many bytes, with the same hash and
 * prefetch. */
struct slot {
	uint64_t key, value;
};

static double table_insert(struct slot *table, uint64_t slots, const struct reports *r, bool add)
{
	double start = now_s();

	for (uint32_t i = 0; i < r->count; i += 32) {
		const uint32_t n = r->count - i < 32 ? r->count - i : 32;
		const uint8_t *item = r->items + (uint64_t)i * r->step;
		uint64_t at[32];

		for (uint32_t j = 0; j < n; j++) {
			at[j] = dta_slot(dta_hash(item + j * r->step, 8, 12345), 0, slots);
			__builtin_prefetch(&table[at[j]], 1);
		}
		for (uint32_t j = 0; j < n; j++) {
			uint64_t k, v, s = at[j];

			memcpy(&k, item + j * r->step, 8);
			memcpy(&v, item + j * r->step + 8, 8);
			while (table[s].key && table[s].key != k)
				s = s + 1 < slots ? s + 1 : 0;
			table[s].key = k;
			table[s].value = add ? table[s].value + __builtin_bswap64(v) : v;
		}
	}
	return r->count / (now_s() - start);
}

/*
 * What the memory itself takes: as many writes of 16 bytes to random places of the same store,
 * whose addresses cost two multiplications and wait for nothing. No hash, no check word, no
 * account: nothing that writes slots does more.
 */
static double bare_writes(uint8_t *bank, uint64_t slots, const struct reports *r, uint8_t copies)
{
	typedef uint64_t pair __attribute__((vector_size(16)));
	double start = now_s();

	for (uint32_t i = 0; i < r->count; i++) {
		const uint8_t *item = r->items + (uint64_t)i * r->step;
		uint64_t k, v;

		memcpy(&k, item, 8);
		memcpy(&v, item + 8, 8);
		for (uint32_t n = 0; n < copies; n++, k *= 0x9e3779b97f4a7c15u) {
			uint64_t to = (uint64_t)((unsigned __int128)k * slots >> 64);

			*(pair *)(void *)(bank + to * 16) = (pair){k, v};
		}
	}
	return r->count / (now_s() - start);
}

static void keywrite(uint8_t copies)
{
	const uint64_t slots = STORE_BYTES / 16;
	double ours[ROUNDS_MAX], table[ROUNDS_MAX], bare[ROUNDS_MAX];
	struct slot *t;
	struct reports r;
	struct store s = {0};
	uint32_t found = 0;

	open_store(&s, (struct sl_store_config){.kind = SL_STORE_KEYWRITE,
						.slots = slots,
						.value_bytes = 8,
						.copies = 8});
	t = memory(STORE_BYTES);
	r = reports(DTA_KEYWRITE, copies, 8, 8, 16000000);
	for (uint32_t i = 0; i < r.count; i++) {
		uint64_t key = rnd() | 1;

		memcpy(r.items + (uint64_t)i * 16, &key, 8);
		memcpy(r.items + (uint64_t)i * 16 + 8, &i, 4);
	}
	for (int i = 0; i < rounds; i++) {
		ours[i] = feed(s.e, &r);
		table[i] = table_insert(t, slots, &r, false);
		bare[i] = bare_writes(s.object.map + SL_STORE_BANKS_OFFSET, slots, &r, copies);
	}
	feed(s.e, &r);
	for (uint32_t i = r.count - 1000; i < r.count; i++) {
		struct dta_query q = {r.items + (uint64_t)i * 16, 8, ~0ull, copies, 0, 0};
		struct sl_keywrite_answer a;

		dta_view_keywrite(&s.v, &q, &a);
		found += a.result == SL_QUERY_FOUND && !memcmp(a.value, &i, 4);
	}
	if (found < 990)
		die("the last reports are not in the store");
	print(copies == 1 ? "dta.engine.keywrite" : "dta.engine.keywrite.n2", median(ours),
	      "hash table of 1 GiB, same hash and prefetch", median(table),
	      copies == 1
		      ? "N = 1, keys and values of 8 bytes, random keys, 1 GiB, 89 reports a block"
		      : "N = 2, keys and values of 8 bytes, random keys, 1 GiB, 89 reports a block");
	print(copies == 1 ? "dta.engine.keywrite.memory" : "dta.engine.keywrite.n2.memory",
	      median(ours), "random writes of 16 bytes alone", median(bare),
	      "the same, beside what this memory takes if nothing is hashed");
	close_store(&s);
	munmap(t, STORE_BYTES);
	munmap(r.items, (uint64_t)r.count * 16);
}

/* ---- append ---- */

static void append(void)
{
	enum { LISTS = 16, VALUE = 8 };
	double ours[ROUNDS_MAX], copy[ROUNDS_MAX];
	struct sl_query_append_reader reader = {.list = 3};
	struct store s = {0};
	uint8_t items[64 * VALUE];
	struct reports r;
	uint64_t got = 0;
	uint8_t *ring;
	int n;

	open_store(&s, (struct sl_store_config){.kind = SL_STORE_APPEND,
						.slots = 1 << 18,
						.value_bytes = VALUE,
						.batch = 16,
						.lists = LISTS});
	r = reports(DTA_APPEND, 0, 4, VALUE, 16000000);
	ring = memory((uint64_t)r.count * VALUE);
	/* A packet is of one list, as a reporter has it; lists take turns. */
	for (uint32_t i = 0; i < r.count; i++) {
		put32(r.items + (uint64_t)i * r.step, i / r.block % LISTS);
		put64(r.items + (uint64_t)i * r.step + 4, i);
	}
	for (int i = 0; i < rounds; i++) {
		double start;

		ours[i] = feed(s.e, &r);
		start = now_s();
		for (uint32_t k = 0; k < r.count; k++)
			memcpy(ring + (uint64_t)k * VALUE, r.items + (uint64_t)k * r.step + 4,
			       VALUE);
		copy[i] = r.count / (now_s() - start);
	}
	reader.block = dta_append_next(&s.v, 3, 0) - 100;
	while ((n = dta_append_read(&s.v, &reader, items, 64)) > 0)
		got += (uint64_t)n;
	if (got < 100)
		die("the last items are not in their list");
	print("dta.engine.append", median(ours), "the values one behind the other, by memcpy",
	      median(copy),
	      "batch 16, 16 lists, values of 8 bytes, a ring of 34 MiB a list, 119 reports a block");
	close_store(&s);
	munmap(ring, (uint64_t)r.count * VALUE);
	munmap(r.items, (uint64_t)r.count * r.step);
}

/* ---- increment ---- */

static void increment(uint8_t copies)
{
	const uint64_t columns = 1 << 16;
	double ours[ROUNDS_MAX], table[ROUNDS_MAX];
	struct store s = {0};
	struct slot *t;
	struct reports r;
	struct sl_increment_answer a;
	struct dta_query q = {.key_bytes = 8, .epoch = ~0ull, .copies = copies};

	open_store(&s, (struct sl_store_config){
			       .kind = SL_STORE_INCREMENT, .slots = columns, .rows = 4});
	t = memory(1 << 21);
	r = reports(DTA_INCREMENT, copies, 8, 8, 16000000);
	for (uint32_t i = 0; i < r.count; i++) {
		uint64_t key = 1 + rnd() % 50000;

		memcpy(r.items + (uint64_t)i * 16, &key, 8);
		put64(r.items + (uint64_t)i * 16 + 8, 1);
	}
	for (int i = 0; i < rounds; i++) {
		ours[i] = feed(s.e, &r);
		table[i] = table_insert(t, (1 << 21) / sizeof(*t), &r, true);
	}
	q.key = r.items;
	dta_view_increment(&s.v, &q, &a);
	if (a.value < (uint64_t)rounds * r.count / 50000 / 2)
		die("a counter is low");
	print(copies == 1 ? "dta.engine.increment.n1" : "dta.engine.increment", median(ours),
	      "hash table of exact counters, same hash and prefetch", median(table),
	      copies == 1 ? "N = 1, 65,536 columns, 50,000 keys of 8 bytes, 89 reports a block"
			  : "N = 2, 65,536 columns, 50,000 keys of 8 bytes, 89 reports a block");
	close_store(&s);
	munmap(t, 1 << 21);
	munmap(r.items, (uint64_t)r.count * 16);
}

/* ---- postcards ---- */

/* The peer: paths in a table by their hash, a word a hop, no cache. */
static double table_paths(uint32_t *table, uint64_t slots, const struct reports *r)
{
	double start = now_s();

	for (uint32_t i = 0; i < r->count; i += 32) {
		const uint32_t n = r->count - i < 32 ? r->count - i : 32;
		const uint8_t *item = r->items + (uint64_t)i * r->step;
		uint64_t at[32];

		for (uint32_t j = 0; j < n; j++) {
			at[j] = dta_slot(dta_hash(item + j * r->step, 8, 12345), 0, slots);
			__builtin_prefetch(&table[at[j] * 8], 1);
		}
		for (uint32_t j = 0; j < n; j++) {
			uint32_t *to = table + at[j] * 8, v;
			uint64_t k;

			memcpy(&k, item + j * r->step, 8);
			memcpy(&v, item + j * r->step + 12, 4);
			memcpy(to, &k, 8);
			to[2 + item[j * r->step + 8]] = __builtin_bswap32(v);
		}
	}
	return r->count / (now_s() - start);
}

static void postcard(void)
{
	enum { HOPS = 5, FLOWS = 1000 };
	const uint64_t slots = 1 << 22;
	double ours[ROUNDS_MAX], table[ROUNDS_MAX];
	struct store s = {0};
	struct reports r;
	struct sl_postcard_answer p;
	uint32_t *t;

	open_store(&s,
		   (struct sl_store_config){
			   .kind = SL_STORE_POSTCARD, .slots = slots, .hops = HOPS, .copies = 1});
	t = memory(slots * 32);
	r = reports(DTA_POSTCARD, 1, 8, 8, 16000000);
	/* A thousand paths are under way, hop by hop. */
	for (uint32_t i = 0; i < r.count; i++) {
		uint64_t flow = (uint64_t)i / (HOPS * FLOWS) * FLOWS + i % FLOWS + 1;
		uint8_t *item = r.items + (uint64_t)i * 16;

		memcpy(item, &flow, 8);
		item[8] = (uint8_t)(i / FLOWS % HOPS);
		item[9] = HOPS;
		put32(item + 12, i);
	}
	for (int i = 0; i < rounds; i++) {
		ours[i] = feed(s.e, &r);
		table[i] = table_paths(t, slots, &r);
	}
	{
		struct dta_query q = {r.items + (uint64_t)(r.count - 1) * 16, 8, ~0ull, 1, 0, 0};

		dta_view_path(&s.v, &q, NULL, 0, &p);
		if (p.result != SL_QUERY_FOUND || p.present != 31)
			die("the last path is not in the store");
	}
	print("dta.engine.postcard", median(ours),
	      "table of paths, a word a hop, same hash and prefetch", median(table),
	      "N = 1, 5 hops, 1,000 paths under way, keys of 8 bytes, store of 160 MiB, "
	      "89 reports a block");
	close_store(&s);
	munmap(t, slots * 32);
	munmap(r.items, (uint64_t)r.count * 16);
}

static bool wanted(int argc, char **argv, const char *what)
{
	return argc < 3 || !strcmp(argv[2], what);
}

int main(int argc, char **argv)
{
	rounds = argc > 1 ? atoi(argv[1]) : 7;
	if (rounds < 1 || rounds > ROUNDS_MAX)
		die("bench_engine ROUNDS [keywrite|append|increment|postcard], 1 to 101 rounds");
	find_machine();
	if (wanted(argc, argv, "keywrite")) {
		keywrite(1);
		keywrite(2);
	}
	if (wanted(argc, argv, "append"))
		append();
	if (wanted(argc, argv, "increment")) {
		increment(2);
		increment(1);
	}
	if (wanted(argc, argv, "postcard"))
		postcard();
	return 0;
}
