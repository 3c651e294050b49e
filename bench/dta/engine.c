// SPDX-License-Identifier: Apache-2.0
/*
 * engine.c [ROUNDS [PRIMITIVE]] - reports per second that one core processes in the engine with
 * mapped memory, compared with the simplest honest program that does similar work on the same
 * memory. The reports are prepared in memory as in packets of 1,472 bytes, and exceed the caches.
 * Hashes, check words and accounting are included. The engine, the peer and the floor take turns.
 */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "dta/engine/engine.h"
#include "dta/store/hash.h"
#include "dta/query/query.h"
#include "dta/store/stores.h"

enum { PAYLOAD = 1472, REPORTS = 16000000, SEED = 12345 };

static int rounds;

/* One figure: ours, the peer and the floor, in turn. */
struct series {
	double ours[BENCH_ROUNDS_MAX], peer[BENCH_ROUNDS_MAX], floor[BENCH_ROUNDS_MAX];
};

static double per_second(uint32_t count, double start_ns)
{
	return count * 1e9 / (bench_cpu_ns() - start_ns);
}

/* ---- reports ---- */

struct reports {
	struct dta_block shape;
	uint8_t *items;
	uint32_t count, step, block; /* block: reports per block */
};

static struct reports reports(uint8_t opcode, uint8_t copies, uint8_t key_bytes,
			      uint16_t value_bytes)
{
	struct reports r = {.count = REPORTS, .step = (uint32_t)key_bytes + value_bytes};

	r.shape = (struct dta_block){.opcode = opcode,
				     .copies = copies,
				     .key_bytes = key_bytes,
				     .value_bytes = value_bytes};
	r.block = (PAYLOAD - DTA_HEADER_BYTES - DTA_BLOCK_BYTES) / r.step;
	r.items = bench_memory((uint64_t)r.count * r.step);
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
	const double start = bench_cpu_ns();
	uint32_t taken = 0, blocks = 0;

	for (uint32_t i = 0; i < r->count; i += r->block) {
		b.count = (uint16_t)(r->count - i < r->block ? r->count - i : r->block);
		b.items = r->items + (uint64_t)i * r->step;
		taken += dta_engine_block(e, 0, 0, &b, 1);
		if (!(++blocks % 32)) /* a batch of packets */
			dta_engine_tick(e, 1);
	}
	dta_engine_flush(e);
	if (taken != r->count)
		bench_die("reports were dropped");
	return per_second(r->count, start);
}

struct store {
	struct dta_store_object *made;
	struct dta_object object;
	struct dta_store_view v;
	struct dta_output *output;
	struct dta_engine *e;
	char pages[64];
};

static void open_store(struct store *s, struct sl_store_config c)
{
	char error[256];

	c.rows = c.rows ? c.rows : 1;
	c.lanes = c.banks = 1;
	c.seed = SEED;
	/* the collector's default */
	s->made = dta_store_object_new(&c, "bench", NULL, DTA_HUGE_AUTO, error, sizeof(error));
	if (!s->made)
		bench_die("%s", error);
	s->v = s->made->view;
	s->object.bytes = s->v.bytes;
	s->object.map = s->v.map;
	/* Touches the pages, because not all may be huge pages. */
	memset(s->v.map + SL_STORE_BANKS_OFFSET, 0, s->v.bytes - SL_STORE_BANKS_OFFSET);
	snprintf(s->pages, sizeof(s->pages), "%.0f %% of the store in pages of 2 MiB (%s)",
		 100.0 * (double)s->made->huge_bytes / (double)s->v.bytes, s->made->pages);
	s->output = dta_output_shm(NULL, NULL);
	s->e = s->output ? dta_engine_new(NULL, s->output) : NULL;
	if (!s->e || dta_engine_store(s->e, &c, &s->object, 0, 0, NULL))
		bench_die("no store");
}

static void close_store(struct store *s)
{
	struct dta_engine_stats t;

	dta_engine_stats(s->e, &t);
	if (t.in != t.stored)
		bench_die("a report was not stored");
	dta_engine_free(s->e);
	s->output->ops->close(s->output);
	dta_store_object_free(s->made, false);
}

static void print(const struct bench_row *row, struct series *v, const struct store *s,
		  const char *what)
{
	struct bench_row r = *row;

	r.unit = "reports/s";
	r.value = bench_median(v->ours, (size_t)rounds);
	r.peer_value = bench_median(v->peer, (size_t)rounds);
	r.floor_value = bench_median(v->floor, (size_t)rounds);
	bench_print(&r, "%s; %s; CPU time of one thread, median of %d rounds", what, s->pages,
		    rounds);
}

/* ---- floors: what the memory takes when nothing is hashed, checked or counted ---- */

static uint64_t place(uint64_t *k, uint64_t slots)
{
	*k *= 0x9e3779b97f4a7c15u;
	return (uint64_t)((unsigned __int128)*k * slots >> 64);
}

/* Writes the reports to this number of random slots of 16 bytes. */
static double bare_writes(uint8_t *bank, uint64_t slots, const struct reports *r, uint8_t copies)
{
	typedef uint64_t pair __attribute__((vector_size(16)));
	const double start = bench_cpu_ns();

	for (uint32_t i = 0; i < r->count; i++) {
		const uint8_t *item = r->items + (uint64_t)i * r->step;
		uint64_t k, v;

		memcpy(&k, item, 8);
		memcpy(&v, item + 8, 8);
		for (uint32_t n = 0; n < copies; n++)
			*(pair *)(void *)(bank + place(&k, slots) * 16) = (pair){k, v};
	}
	return per_second(r->count, start);
}

static double bare_additions(uint64_t *cells, uint64_t slots, const struct reports *r,
			     uint8_t copies)
{
	const double start = bench_cpu_ns();

	for (uint32_t i = 0; i < r->count; i++) {
		uint64_t k;

		memcpy(&k, r->items + (uint64_t)i * r->step, 8);
		for (uint32_t n = 0; n < copies; n++)
			cells[place(&k, slots)]++;
	}
	return per_second(r->count, start);
}

/* Reads all reports, and writes a path of 32 bytes to a random slot for every `hops` of them. */
static double bare_paths(uint8_t *table, uint64_t slots, const struct reports *r, uint32_t hops)
{
	typedef uint64_t path __attribute__((vector_size(32), aligned(32)));
	const double start = bench_cpu_ns();
	uint64_t sum = 0;

	for (uint32_t i = 0; i < r->count; i++) {
		const uint8_t *item = r->items + (uint64_t)i * r->step;
		uint64_t k, v;

		memcpy(&k, item, 8);
		memcpy(&v, item + 8, 8);
		sum += v;
		if (i % hops == 0)
			*(path *)(void *)(table + place(&k, slots) * 32) = (path){k, sum, v, i};
	}
	return per_second(r->count, start);
}

static double bare_copies(uint8_t *ring, const struct reports *r, uint32_t from, uint32_t bytes)
{
	const double start = bench_cpu_ns();

	for (uint32_t i = 0; i < r->count; i++)
		memcpy(ring + (uint64_t)i * bytes, r->items + (uint64_t)i * r->step + from, bytes);
	__asm__ volatile("" ::"r"(ring) : "memory");
	return per_second(r->count, start);
}

/* ---- peers: tables with the same hash and the same prefetches ---- */

enum { BATCH = 32 };

/* Prefetches the slots of up to BATCH reports from `first`; returns how many there are. */
static uint32_t look_up(const struct reports *r, uint32_t first, uint8_t *table,
			uint32_t slot_bytes, uint64_t slots, uint64_t at[BATCH])
{
	const uint32_t n = r->count - first < BATCH ? r->count - first : BATCH;
	const uint8_t *item = r->items + (uint64_t)first * r->step;

	for (uint32_t j = 0; j < n; j++) {
		at[j] = dta_slot(dta_hash(item + j * r->step, 8, SEED), 0, slots);
		__builtin_prefetch(table + at[j] * slot_bytes, 1);
	}
	return n;
}

struct entry {
	uint64_t key, value;
};

/* Keys and values in an open-addressed table; add: exact counters. */
static double table_insert(struct entry *table, uint64_t slots, const struct reports *r, bool add)
{
	const double start = bench_cpu_ns();
	uint64_t at[BATCH];

	for (uint32_t i = 0; i < r->count; i += BATCH) {
		const uint8_t *item = r->items + (uint64_t)i * r->step;
		const uint32_t n = look_up(r, i, (uint8_t *)table, sizeof(*table), slots, at);

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
	return per_second(r->count, start);
}

/* Paths of 32 bytes: the key and a word per hop, without a cache. */
static double table_paths(uint32_t *table, uint64_t slots, const struct reports *r)
{
	const double start = bench_cpu_ns();
	uint64_t at[BATCH];

	for (uint32_t i = 0; i < r->count; i += BATCH) {
		const uint8_t *item = r->items + (uint64_t)i * r->step;
		const uint32_t n = look_up(r, i, (uint8_t *)table, 32, slots, at);

		for (uint32_t j = 0; j < n; j++) {
			uint32_t *to = table + at[j] * 8, v;

			memcpy(to, item + j * r->step, 8);
			memcpy(&v, item + j * r->step + 12, 4);
			to[2 + item[j * r->step + 8]] = __builtin_bswap32(v);
		}
	}
	return per_second(r->count, start);
}

/* ---- the primitives ---- */

static void keywrite(uint8_t copies)
{
	const uint64_t bytes = 1ull << 30, slots = bytes / 16;
	static struct series v;
	struct entry *table;
	struct reports r;
	struct store s = {0};
	uint32_t found = 0;

	open_store(&s, (struct sl_store_config){.kind = SL_STORE_KEYWRITE,
						.slots = slots,
						.value_bytes = 8,
						.copies = 8});
	table = bench_memory(bytes);
	r = reports(DTA_KEYWRITE, copies, 8, 8);
	for (uint32_t i = 0; i < r.count; i++) {
		uint64_t key = bench_random() | 1;

		memcpy(r.items + (uint64_t)i * 16, &key, 8);
		memcpy(r.items + (uint64_t)i * 16 + 8, &i, 4);
	}
	for (int i = 0; i < rounds; i++) {
		v.ours[i] = feed(s.e, &r);
		v.peer[i] = table_insert(table, slots, &r, false);
		v.floor[i] = bare_writes(s.object.map + SL_STORE_BANKS_OFFSET, slots, &r, copies);
	}
	feed(s.e, &r);
	for (uint32_t i = r.count - 1000; i < r.count; i++) {
		struct dta_query q = {.key = r.items + (uint64_t)i * 16,
				      .key_bytes = 8,
				      .epoch = ~0ull,
				      .copies = copies};
		struct sl_keywrite_answer a;

		dta_view_keywrite(&s.v, &q, &a);
		found += a.result == SL_QUERY_FOUND && !memcmp(a.value, &i, 4);
	}
	if (found < 990)
		bench_die("the last reports are not in the store");
	print(&(struct bench_row){.name = copies == 1 ? "dta.engine.keywrite"
						      : "dta.engine.keywrite.n2",
				  .peer = "hash table of 1 GiB, same hash and prefetch",
				  .floor = "as many random writes of 16 bytes"},
	      &v, &s,
	      copies == 1
		      ? "N = 1, random keys of 8 bytes, values of 8, 1 GiB, 89 reports per block"
		      : "N = 2, random keys of 8 bytes, values of 8, 1 GiB, 89 reports per block");
	close_store(&s);
	bench_memory_free(table, bytes);
	bench_memory_free(r.items, (uint64_t)r.count * r.step);
}

static void append(void)
{
	enum { LISTS = 16, VALUE = 8 };
	struct sl_query_append_reader reader = {.list = 3};
	static struct series v;
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
	r = reports(DTA_APPEND, 0, 4, VALUE);
	ring = bench_memory((uint64_t)r.count * VALUE);
	/* A packet belongs to one list, as a reporter makes it; the lists take turns. */
	for (uint32_t i = 0; i < r.count; i++) {
		put32(r.items + (uint64_t)i * r.step, i / r.block % LISTS);
		put64(r.items + (uint64_t)i * r.step + 4, i);
	}
	for (int i = 0; i < rounds; i++) {
		v.ours[i] = feed(s.e, &r);
		v.floor[i] = bare_copies(ring, &r, 4, VALUE);
	}
	reader.block = dta_append_next(&s.v, 3, 0, NULL) - 100;
	while ((n = dta_append_read(&s.v, &reader, items, 64)) > 0)
		got += (uint64_t)n;
	if (got < 100)
		bench_die("the last items are not in their list");
	print(&(struct bench_row){.name = "dta.engine.append",
				  .floor = "the values copied one behind the other"},
	      &v, &s,
	      "batch 16, 16 lists, values of 8 bytes, rings of 34 MiB, 119 reports per block");
	close_store(&s);
	bench_memory_free(ring, (uint64_t)r.count * VALUE);
	bench_memory_free(r.items, (uint64_t)r.count * r.step);
}

static void increment(uint8_t copies)
{
	enum { KEYS = 50000, TABLE = 1 << 21, COLUMNS = 1 << 16, ROWS = 4 };
	static struct series v;
	struct store s = {0};
	struct entry *table = bench_memory(TABLE);
	uint64_t *cells = bench_memory(COLUMNS * ROWS * 8);
	struct reports r;
	struct sl_increment_answer a;
	struct dta_query q = {.key_bytes = 8, .epoch = ~0ull, .copies = copies};

	open_store(&s, (struct sl_store_config){
			       .kind = SL_STORE_INCREMENT, .slots = COLUMNS, .rows = ROWS});
	r = reports(DTA_INCREMENT, copies, 8, 8);
	for (uint32_t i = 0; i < r.count; i++) {
		uint64_t key = 1 + bench_random() % KEYS;

		memcpy(r.items + (uint64_t)i * 16, &key, 8);
		put64(r.items + (uint64_t)i * 16 + 8, 1);
	}
	for (int i = 0; i < rounds; i++) {
		v.ours[i] = feed(s.e, &r);
		v.peer[i] = table_insert(table, TABLE / sizeof(*table), &r, true);
		v.floor[i] = bare_additions(cells, COLUMNS * ROWS, &r, copies);
	}
	q.key = r.items;
	dta_view_increment(&s.v, &q, &a);
	if (a.value < (uint64_t)rounds * r.count / KEYS / 2)
		bench_die("a counter is low");
	print(&(struct bench_row){.name = copies == 1 ? "dta.engine.increment.n1"
						      : "dta.engine.increment",
				  .peer = "hash table of exact counters, same hash and prefetch",
				  .floor = "as many random additions of 8 bytes"},
	      &v, &s,
	      copies == 1 ? "N = 1, 65,536 columns, 50,000 keys of 8 bytes, 89 reports per block"
			  : "N = 2, 65,536 columns, 50,000 keys of 8 bytes, 89 reports per block");
	close_store(&s);
	bench_memory_free(table, TABLE);
	bench_memory_free(cells, COLUMNS * ROWS * 8);
	bench_memory_free(r.items, (uint64_t)r.count * r.step);
}

static void postcard(void)
{
	enum { HOPS = 5, FLOWS = 1000 };
	const uint64_t slots = 1 << 22;
	static struct series v;
	struct store s = {0};
	struct dta_query q = {.key_bytes = 8, .epoch = ~0ull, .copies = 1};
	struct reports r;
	struct sl_postcard_answer p;
	uint32_t *table;

	open_store(&s,
		   (struct sl_store_config){
			   .kind = SL_STORE_POSTCARD, .slots = slots, .hops = HOPS, .copies = 1});
	table = bench_memory(slots * 32);
	r = reports(DTA_POSTCARD, 1, 8, 8);
	/* A thousand paths are interleaved, hop by hop. */
	for (uint32_t i = 0; i < r.count; i++) {
		uint64_t flow = (uint64_t)i / (HOPS * FLOWS) * FLOWS + i % FLOWS + 1;
		uint8_t *item = r.items + (uint64_t)i * 16;

		memcpy(item, &flow, 8);
		item[8] = (uint8_t)(i / FLOWS % HOPS);
		item[9] = HOPS;
		put32(item + 12, i);
	}
	for (int i = 0; i < rounds; i++) {
		v.ours[i] = feed(s.e, &r);
		v.peer[i] = table_paths(table, slots, &r);
		v.floor[i] = bare_paths((uint8_t *)table, slots, &r, HOPS);
	}
	q.key = r.items + (uint64_t)(r.count - 1) * 16;
	dta_view_path(&s.v, &q, NULL, 0, &p);
	if (p.result != SL_QUERY_FOUND || p.present != 31)
		bench_die("the last path is not in the store");
	print(&(struct bench_row){.name = "dta.engine.postcard",
				  .peer = "table of paths, a word per hop, same hash and prefetch",
				  .floor = "a random write of 32 bytes per path"},
	      &v, &s,
	      "N = 1, 5 hops, 1,000 paths under way, keys of 8 bytes, store of 160 MiB, "
	      "89 reports per block");
	close_store(&s);
	bench_memory_free(table, slots * 32);
	bench_memory_free(r.items, (uint64_t)r.count * r.step);
}

int main(int argc, char **argv)
{
	const char *only = argc > 2 ? argv[2] : NULL;

	rounds = bench_rounds(argc, argv, 7);
	if (!only || !strcmp(only, "keywrite")) {
		keywrite(1);
		keywrite(2);
	}
	if (!only || !strcmp(only, "append"))
		append();
	if (!only || !strcmp(only, "increment")) {
		increment(2);
		increment(1);
	}
	if (!only || !strcmp(only, "postcard"))
		postcard();
	return 0;
}
