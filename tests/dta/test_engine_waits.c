// SPDX-License-Identifier: Apache-2.0
/*
 * test_engine_waits.c - state that waits in the engine (paths, sketches, epochs, key logs) with
 * outputs that are full, down or refuse: nothing is written to a wrong place or epoch, nothing is
 * added twice, and every report is in exactly one counter.
 */
#include "engine_drive.h"
#include "sketch/cells.h"

/* ---- postcards ---- */

/* The value of hop h of path number n. */
static uint32_t said(uint64_t n, uint32_t h)
{
	return (uint32_t)dta_mix(n * 64 + h);
}

/*
 * Paths of 5 to 64 hops, interleaved, with a tenth of the hops lost, in a cache so small that many
 * are evicted. The hops read for a key are only hops that arrived for this key.
 */
static void every_path_belongs_to_its_key_despite_losses(void **state)
{
	enum { PATHS = 400, SLOTS = 1 << 16 };
	static const uint32_t lengths[] = {5, 8, 64};
	static struct feed feed;
	static uint64_t sent[PATHS];
	uint64_t rnd = 5;

	(void)state;
	for (int moody = 0; moody < 2; moody++)
		for (size_t l = 0; l < 3; l++) {
			const uint32_t hops = lengths[l];
			struct dta_output *shm = dta_output_shm(NULL, NULL);
			uint64_t in = 0, now = 0, first = 0;
			struct dta_engine_stats s;
			struct dta_engine *e;
			struct fenced f;
			struct moody m;

			fence(&f, (struct sl_store_config){.kind = SL_STORE_POSTCARD,
							   .slots = SLOTS,
							   .hops = hops,
							   .copies = 2});
			if (moody)
				moody_over(&m, &f);
			e = engine_over(
				&f, moody ? &m.o : shm,
				&(struct dta_engine_opts){.path_entries = 64, .path_ns = 50000});
			memset(sent, 0, sizeof(sent));
			feed_of(&feed, DTA_POSTCARD, 2, 8, 8, 0);
			/* 100 paths at a time are in progress, hop by hop. */
			for (first = 0; first < PATHS; first += 100)
				for (uint32_t h = 0; h < hops; h++)
					for (uint64_t n = first; n < first + 100; n++) {
						if (next_random(&rnd) % 10 == 0)
							continue;
						put_hop(&feed, &n, (uint8_t)h, (uint8_t)hops,
							said(n, h));
						sent[n] |= 1ull << h;
						in++;
						if (feed.b.count == 77)
							give(e, 0, &feed, ++now);
					}
			give(e, 0, &feed, ++now);
			dta_engine_tick(e, now + 50000);
			s = closed(e);
			assert_int_equal(s.waiting, 0);
			assert_int_equal(s.stored, in);
			assert_true(!moody || (s.evicted > 0 && s.paths_partial > 0));
			for (uint64_t n = 0; n < PATHS; n++) {
				struct dta_query q = {
					.key = &n, .key_bytes = 8, .epoch = ~0ull, .copies = 2};
				struct sl_postcard_answer p;

				dta_view_path(&f.v, &q, NULL, 0, &p);
				assert_int_equal(p.result,
						 sent[n] ? SL_QUERY_FOUND : SL_QUERY_EMPTY);
				/* An evicted path is continued by another, which adds to it. */
				assert_true(p.present == sent[n]);
				assert_int_equal(p.hops, hops);
				for (uint32_t h = 0; h < hops; h++)
					assert_int_equal(p.value[h],
							 p.present >> h & 1 ? said(n, h) : 0);
			}
			/* Slots of keys that were never reported are unchanged. */
			assert_true(s.operations >= 2 * s.paths);
			dta_engine_free(e);
			shm->ops->close(shm);
			unfence(&f);
		}
}

/* 300 paths of 1 to 6 hops, 25 at a time. */
static void give_mixed_paths(struct dta_engine *e, uint8_t copies, uint32_t a_block)
{
	static struct feed feed;
	uint64_t rnd = 9, now = 0;

	feed_of(&feed, DTA_POSTCARD, copies, 8, 8, 0);
	for (uint64_t first = 0; first < 300; first += 25)
		for (uint32_t h = 0; h < 6; h++)
			for (uint64_t n = first; n < first + 25; n++) {
				const uint32_t hops = (uint32_t)(n * 7 % 6 + 1);

				if (h >= hops || next_random(&rnd) % 50 == 0)
					continue;
				put_hop(&feed, &n, (uint8_t)h, (uint8_t)hops, said(n, h));
				if (feed.b.count == a_block)
					give(e, 0, &feed, ++now);
			}
	give(e, 0, &feed, ++now);
}

/*
 * With a mapping, each hop is written immediately; otherwise paths wait until they are complete.
 * The stored result is the same, also for paths that are shorter than the store's.
 */
static void a_path_is_stored_exactly_in_any_arrival_order(void **state)
{
	const struct sl_store_config c = {
		.kind = SL_STORE_POSTCARD, .slots = 1 << 16, .hops = 6, .copies = 2};
	struct dta_output *shm = dta_output_shm(NULL, NULL);
	struct dta_engine_stats s[2];
	struct fenced f[2];
	struct moody m;

	(void)state;
	for (uint8_t copies = 1; copies <= 2; copies++) {
		for (int i = 0; i < 2; i++) {
			struct dta_engine *e;

			fence(&f[i], c);
			if (i)
				moody_over(&m, &f[i]);
			e = engine_over(&f[i], i ? &m.o : shm, NULL);
			give_mixed_paths(e, copies, i ? 1 : 40);
			dta_engine_flush(e);
			s[i] = closed(e);
			assert_int_equal(s[i].evicted + s[i].waiting + dropped(&s[i]), 0);
			dta_engine_free(e);
		}
		assert_true(s[1].paths > 280 && s[1].paths_partial > 0 && s[1].stored > 900);
		assert_int_equal(s[0].stored, s[1].stored);
		assert_int_equal(s[0].units, s[0].stored * copies);
		assert_int_equal(s[1].units, s[1].paths * copies);
		assert_memory_equal(f[0].object.map + SL_STORE_BANKS_OFFSET,
				    m.memory + SL_STORE_BANKS_OFFSET, sl_store_bank_stride(&c));
		unfence(&f[0]);
		unfence(&f[1]);
	}
	shm->ops->close(shm);
}

/*
 * The hops of a path arrive alternately at two translators, or at two workers of one; some arrive
 * after the others were written. With and without a mapping, the path becomes complete.
 */
static void hops_written_apart_and_late_add_up(void **state)
{
	enum { PATHS = 500, HOPS = 5 };
	static struct feed feed;

	(void)state;
	for (int mapped = 0; mapped < 2; mapped++) {
		struct dta_output *out[2];
		struct dta_engine *e[2];
		struct fenced f;

		fence(&f, (struct sl_store_config){.kind = SL_STORE_POSTCARD,
						   .slots = 1 << 20,
						   .hops = HOPS,
						   .copies = 2});
		for (int i = 0; i < 2; i++) {
			out[i] = mapped ? dta_output_shm(NULL, NULL) : output_apart();
			e[i] = engine_over(&f, out[i], &(struct dta_engine_opts){.path_ns = 10});
		}
		for (uint32_t h = 0; h < HOPS; h++) {
			for (uint64_t n = 0; n < PATHS; n++) {
				const uint32_t to = (n + h) % 2;

				feed_of(&feed, DTA_POSTCARD, 2, 8, 8, 0);
				put_hop(&feed, &n, (uint8_t)h, HOPS, said(n, h));
				assert_int_equal(give(e[to], 0, &feed, h * 8), 1);
			}
			for (int i = 0; i < 2; i++) /* all but the last hop are too old */
				dta_engine_tick(e[i], h * 8 + 5);
		}
		for (int i = 0; i < 2; i++)
			dta_engine_flush(e[i]);
		for (uint64_t n = 0; n < PATHS; n++) {
			const struct dta_query q = {
				.key = &n, .key_bytes = 8, .epoch = ~0ull, .copies = 2};
			struct sl_postcard_answer p;

			dta_view_path(&f.v, &q, NULL, 0, &p);
			assert_int_equal(p.result, SL_QUERY_FOUND);
			assert_int_equal(p.hops, HOPS);
			assert_int_equal(p.present, 31);
			for (uint32_t h = 0; h < HOPS; h++)
				assert_int_equal(p.value[h], said(n, h));
		}
		for (int i = 0; i < 2; i++) {
			assert_int_equal(closed(e[i]).waiting, 0);
			dta_engine_free(e[i]);
			out[i]->ops->close(out[i]);
		}
		unfence(&f);
	}
}

static struct sl_postcard_answer path_of(const struct fenced *f, const char *key)
{
	struct dta_query q = {.key = key, .key_bytes = 4, .epoch = ~0ull, .copies = 1};
	struct sl_postcard_answer p;

	dta_view_path(&f->v, &q, NULL, 0, &p);
	return p;
}

/*
 * Within one block, a complete path makes room for another, which becomes complete in its place. In
 * later blocks, a path of a key is followed by one of another length, and has an impossible hop.
 */
static void a_reused_place_is_written_for_its_new_key(void **state)
{
	static const char *const keys[] = {"two.", "tre.", "four", "one.", "five"};
	static struct feed feed;
	struct dta_output *shm = output_apart();
	struct dta_engine_stats s;
	struct dta_engine *e;
	struct fenced f;

	(void)state;
	fence(&f, (struct sl_store_config){
			  .kind = SL_STORE_POSTCARD, .slots = 9999, .hops = 5, .copies = 1});
	e = engine_over(&f, shm, &(struct dta_engine_opts){.path_entries = 4});
	feed_of(&feed, DTA_POSTCARD, 1, 4, 8, 0);
	for (uint32_t i = 0; i < 5; i++)
		put_hop(&feed, keys[i], 0, i == 3 ? 1 : 2,
			10 + i); /* the last one is discarded as too old */
	put_hop(&feed, "five", 1, 2, 20);
	assert_int_equal(give(e, 0, &feed, 1), 6);
	put_hop(&feed, "two.", 1, 3, 30); /* the path had two hops until now */
	assert_int_equal(give(e, 0, &feed, 1), 1);
	put_hop(&feed, "two.", 3, 3, 31);
	assert_int_equal(give(e, 0, &feed, 1), 0);
	s = closed(e);
	assert_int_equal(s.evicted, 1);
	assert_int_equal(s.paths, 3);
	assert_true(path_of(&f, "one.").present == 1 && path_of(&f, "one.").hops == 1 &&
		    path_of(&f, "one.").value[0] == 13);
	assert_true(path_of(&f, "two.").present == 1 && path_of(&f, "two.").hops == 2 &&
		    path_of(&f, "two.").value[0] == 10);
	assert_true(path_of(&f, "five").present == 3 && path_of(&f, "five").value[1] == 20);
	dta_engine_flush(e);
	/* One hop of each length: it is unknown which of them is the path. */
	assert_int_equal(path_of(&f, "two.").present, 1);
	assert_int_equal(closed(e).stored, 7);
	dta_engine_free(e);
	shm->ops->close(shm);
	unfence(&f);
}

static void whole_paths_leave_at_once_and_others_when_due(void **state)
{
	static struct feed feed;
	struct dta_output *shm = output_apart();
	struct dta_engine_stats s;
	struct dta_engine *e;
	struct fenced f;

	(void)state;
	fence(&f, (struct sl_store_config){
			  .kind = SL_STORE_POSTCARD, .slots = 99, .hops = 5, .copies = 1});
	e = engine_over(&f, shm, &(struct dta_engine_opts){.path_ns = 100});
	feed_of(&feed, DTA_POSTCARD, 1, 4, 8, 0);
	for (uint8_t h = 0; h < 5; h++)
		put_hop(&feed, "full", (uint8_t)(4 - h), 5, h);
	put_hop(&feed, "part", 1, 5, 7);
	put_hop(&feed, "part", 1, 5, 8); /* the last value wins */
	assert_int_equal(give(e, 0, &feed, 1000), 6);
	s = closed(e);
	assert_int_equal(s.paths, 1);
	assert_int_equal(s.waiting, 1);
	assert_int_equal(s.dropped[DTA_DROP_DUPLICATE_HOP], 1);
	dta_engine_tick(e, 1099);
	assert_int_equal(closed(e).waiting, 1);
	dta_engine_tick(e, 1100);
	s = closed(e);
	assert_int_equal(s.paths_partial, 1);
	assert_int_equal(s.waiting, 0);
	assert_int_equal(path_of(&f, "part").value[1], 8);
	dta_engine_free(e);
	shm->ops->close(shm);
	unfence(&f);
}

/* ---- sketches ---- */

enum { REPORTERS = 7, ROWS = 5, COLUMNS = 512 };

struct sent {
	_Alignas(8) uint8_t cells[ROWS * COLUMNS * 8];
	struct sketch_cells sketch;
};

static void sketch_make(struct sent *s, const struct sl_store_config *c)
{
	memset(s, 0, sizeof(*s));
	assert_int_equal(sketch_cells_init(&s->sketch,
					   (enum sketch_cells_kind)(c->sketch - SL_STORE_COUNT_MIN),
					   c->slots, c->rows, 9, s->cells),
			 0);
}

static void sketch_add(struct sent *s, uint64_t key, uint64_t n)
{
	if (s->sketch.kind == SKETCH_COUNT_SKETCH && key % 2 == 0)
		n = -n;
	sketch_cells_add(&s->sketch, sketch_hash_bytes(&key, sizeof(key), 9), n);
}

/*
 * One reporter's cells as reports, in a random order if asked, each sent `times`. Returns how many
 * there are.
 */
static uint32_t send(struct dta_engine *e, const struct sl_store_config *c, uint32_t reporter,
		     uint32_t epoch, const struct sent *s, uint32_t times, uint64_t now)
{
	static struct feed feed;
	const uint32_t cell = (uint32_t)sl_store_cell_bytes(c), at_once = 16;
	const uint32_t reports = c->rows * COLUMNS / at_once;
	uint64_t rnd = reporter;

	feed_of(&feed, DTA_SKETCH, 0, 12, (uint16_t)(at_once * cell), 0);
	for (uint32_t t = 0; t < times; t++) {
		/* Prime to the number of reports, 2^5 * 5 or 2^5: all are met. */
		uint32_t step = 1 + 10 * ((uint32_t)next_random(&rnd) % 16);

		for (uint32_t i = 0; i < reports; i++) {
			uint32_t n = i * step % reports, first = n * at_once;
			uint8_t key[12], value[16 * 8];

			be32(key, epoch);
			be32(key + 4, first / COLUMNS);
			be32(key + 8, first % COLUMNS);
			for (uint32_t k = 0; k < at_once; k++) {
				uint64_t v;

				if (cell == 1) {
					value[k] = s->cells[first + k];
					continue;
				}
				memcpy(&v, s->cells + (first + k) * 8, 8);
				be64(value + k * 8, v);
			}
			put(&feed, key, value);
			if (feed.b.count == 10)
				give(e, reporter, &feed, now);
		}
		give(e, reporter, &feed, now);
	}
	return reports;
}

static void end_of(struct dta_engine *e, uint32_t reporter, uint32_t epoch, uint32_t reports,
		   uint64_t now)
{
	static struct feed feed;
	uint8_t key[4], value[4];

	feed_of(&feed, DTA_SKETCH_END, 0, 4, 4, 0);
	be32(key, epoch);
	be32(value, reports);
	put(&feed, key, value);
	give(e, reporter, &feed, now);
}

/*
 * Reporters see parts of a stream, and their reports arrive twice and in any order, in two lanes; a
 * query merges the lanes. The result is the sketch of the whole stream, bit for bit.
 */
static void merged_sketches_equal_the_sketch_of_the_union(void **state)
{
	(void)state;
	for (uint32_t kind = SL_STORE_COUNT_MIN; kind <= SL_STORE_HLL; kind++)
		for (int moody = 0; moody < 2; moody++) {
			static struct sent sent[REPORTERS], all, got;
			struct dta_output *shm = dta_output_shm(NULL, NULL);
			struct dta_engine *e[2];
			struct dta_merged merged;
			struct moody m;
			struct fenced f;
			uint64_t rnd = kind, in = 0;

			fence(&f, (struct sl_store_config){.kind = SL_STORE_SKETCH,
							   .slots = COLUMNS,
							   .rows = kind == SL_STORE_HLL ? 1 : ROWS,
							   .sketch = kind,
							   .reporters = REPORTERS,
							   .lanes = 2,
							   .banks = 2});
			if (moody)
				moody_over(&m, &f);
			for (uint32_t lane = 0; lane < 2; lane++) {
				e[lane] = dta_engine_new(NULL, moody ? &m.o : shm);
				assert_int_equal(
					dta_engine_store(e[lane], &f.c, &f.object, lane, 0, NULL),
					0);
			}
			sketch_make(&all, &f.c);
			for (int i = 0; i < REPORTERS; i++)
				sketch_make(&sent[i], &f.c);
			for (int i = 0; i < 20000; i++) {
				uint64_t key = next_random(&rnd) % 3000, n = 1 + key % 5;

				sketch_add(&all, key, n);
				sketch_add(&sent[next_random(&rnd) % REPORTERS], key, n);
			}
			for (uint32_t i = 0; i < REPORTERS; i++) {
				uint32_t n;

				if (i % 2) /* the end overtakes the rest */
					end_of(e[i % 2], i, 0, f.c.rows * COLUMNS / 16, 1);
				n = send(e[i % 2], &f.c, i, 0, &sent[i], 2, 1);
				if (i % 2 == 0)
					end_of(e[i % 2], i, 0, n, 1);
				end_of(e[i % 2], i, 0, n, 1);
				in += 2 * n + 2;
			}
			dta_engine_tick(e[0], 2);
			dta_engine_tick(e[1], 2);
			assert_int_equal(closed(e[0]).in + closed(e[1]).in, in);
			assert_int_equal(closed(e[0]).stored + closed(e[1]).stored, in / 2);
			assert_int_equal(closed(e[0]).dropped[DTA_DROP_DUPLICATE_HOP] +
						 closed(e[1]).dropped[DTA_DROP_DUPLICATE_HOP],
					 in / 2);
			dta_view_sketch(&f.v, 0, NULL, got.cells, &merged);
			assert_int_equal(merged.result, SL_QUERY_FOUND);
			assert_int_equal(merged.ended, REPORTERS);
			assert_true(merged.complete);
			assert_int_equal(merged.columns, (uint64_t)REPORTERS * f.c.rows * COLUMNS);
			assert_memory_equal(got.cells, all.cells,
					    f.c.rows * COLUMNS * sl_store_cell_bytes(&f.c));
			dta_engine_free(e[0]);
			dta_engine_free(e[1]);
			shm->ops->close(shm);
			unfence(&f);
		}
}

static void cell(struct feed *f, uint64_t column, uint64_t n)
{
	uint8_t key[12] = {0}, value[8];

	be32(key + 8, (uint32_t)column);
	be64(value, n);
	put(f, key, value);
}

/*
 * Reports that arrive while half of the rows are written restart the write: the store has a sketch
 * of one moment.
 */
static void a_half_written_sketch_begins_anew_when_more_comes(void **state)
{
	enum { CELLS = 1 << 16 }; /* several operations */
	static struct feed feed;
	static uint64_t got[CELLS];
	struct dta_merged merged;
	struct dta_engine *e;
	struct moody m;
	struct fenced f;
	uint64_t first;

	(void)state;
	fence(&f, (struct sl_store_config){.kind = SL_STORE_SKETCH,
					   .slots = CELLS,
					   .sketch = SL_STORE_COUNT_MIN,
					   .reporters = 1});
	moody_over(&m, &f);
	e = dta_engine_new(NULL, &m.o);
	assert_int_equal(dta_engine_store(e, &f.c, &f.object, 0, 0, NULL), 0);
	feed_of(&feed, DTA_SKETCH, 0, 12, 8, 0);
	cell(&feed, 0, 3);
	assert_int_equal(give(e, 0, &feed, 1), 1);
	m.room = 1;
	dta_engine_tick(e, 2000000000);
	memcpy(&first, m.memory + SL_STORE_BANKS_OFFSET + sizeof(struct sl_store_complete), 8);
	assert_int_equal(first, 3);		/* the beginning was written */
	assert_int_equal(closed(e).waiting, 1); /* and no more */
	cell(&feed, 1, 4);
	assert_int_equal(give(e, 0, &feed, 2000000001), 1);
	m.room = ~0u;
	dta_engine_flush(e);
	assert_int_equal(closed(e).waiting, 0);
	dta_view_sketch(&f.v, 0, NULL, got, &merged);
	assert_int_equal(merged.result, SL_QUERY_FOUND);
	assert_int_equal(got[0], 3);
	assert_int_equal(got[1], 4);
	dta_engine_free(e);
	unfence(&f);
}

static void a_sketch_knows_who_is_missing_and_what_is_late(void **state)
{
	struct dta_output *shm = dta_output_shm(NULL, NULL);
	static struct sent sent, got;
	struct dta_merged merged;
	struct dta_engine *e;
	struct fenced f;
	uint32_t n;

	(void)state;
	memset(sent.cells, 1, sizeof(sent.cells));
	fence(&f, (struct sl_store_config){.kind = SL_STORE_SKETCH,
					   .slots = COLUMNS,
					   .rows = ROWS,
					   .sketch = SL_STORE_COUNT_MIN,
					   .reporters = 3,
					   .banks = 2});
	e = engine_over(&f, shm, &(struct dta_engine_opts){.sketch_ns = 1000});
	n = send(e, &f.c, 0, 0, &sent, 1, 1);
	end_of(e, 0, 0, n, 1);
	send(e, &f.c, 1, 0, &sent, 1, 1);
	end_of(e, 1, 0, n + 1, 1); /* one of its reports was lost */
	dta_engine_tick(e, 500);
	dta_view_sketch(&f.v, 0, NULL, got.cells, &merged);
	assert_int_equal(merged.result, SL_QUERY_EMPTY);
	dta_engine_tick(e, 1001);
	dta_view_sketch(&f.v, 0, NULL, got.cells, &merged);
	assert_int_equal(merged.result, SL_QUERY_FOUND);
	assert_int_equal(merged.ended, 1);
	assert_false(merged.complete);
	/* A report of the next epoch is there before it begins. */
	send(e, &f.c, 2, 1, &sent, 1, 1100);
	end_of(e, 2, 1, n, 1100);
	assert_int_equal(closed(e).waiting, n + 1);
	owner_rotates(&f, 1);
	assert_int_equal(dta_engine_rotate(e, 0, 0, 1), 0);
	send(e, &f.c, 2, 0, &sent, 1, 1200);
	assert_int_equal(closed(e).dropped[DTA_DROP_LATE], n);
	dta_engine_tick(e, 1201);
	assert_int_equal(closed(e).waiting, 0);
	dta_view_sketch(&f.v, 1, NULL, got.cells, &merged);
	assert_int_equal(merged.result, SL_QUERY_FOUND);
	assert_int_equal(merged.ended, 1);
	assert_int_equal(merged.columns, ROWS * COLUMNS);
	assert_memory_equal(got.cells, sent.cells, sizeof(got.cells));
	/* The previous epoch is unchanged. */
	dta_view_sketch(&f.v, 0, NULL, got.cells, &merged);
	assert_int_equal(merged.ended, 1);
	assert_int_equal(merged.columns, 2 * ROWS * COLUMNS);
	dta_engine_free(e);
	shm->ops->close(shm);
	unfence(&f);
}

/* The control connection is lost and returns, in new memory as well. */
static void a_reconnect_keeps_the_cells_of_a_sketch(void **state)
{
	static const uint64_t want[] = {3, 4, 5};
	static struct feed feed;

	(void)state;
	for (int anew = 0; anew < 2; anew++)
		for (int moody = 0; moody < 2; moody++) {
			struct dta_output *shm = dta_output_shm(NULL, NULL);
			struct dta_merged merged;
			struct dta_engine *e;
			uint64_t got[3];
			struct fenced f, owned;
			struct moody m;

			fence(&f, (struct sl_store_config){.kind = SL_STORE_SKETCH,
							   .slots = 3,
							   .sketch = SL_STORE_COUNT_MIN,
							   .reporters = 2,
							   .banks = 2});
			owned = f;
			if (moody)
				moody_over(&m, &f);
			e = engine_over(&f, moody ? &m.o : shm,
					&(struct dta_engine_opts){.sketch_ns = 1000});
			feed_of(&feed, DTA_SKETCH, 0, 12, 8, 0);
			cell(&feed, 0, 3);
			give(e, 0, &feed, 1);
			end_of(e, 0, 0, 1, 1);
			dta_engine_tick(e, 2);
			assert_int_equal(closed(e).stored, 2);
			feed_of(&feed, DTA_SKETCH, 0, 12, 8, 0);
			cell(&feed, 1, 4);
			give(e, 1, &feed, 3); /* waits during the reconnect */
			if (anew)
				owner_rotates(&owned, 0);
			assert_int_equal(dta_engine_store(e, &f.c, &f.object, 0, 0, NULL), 0);
			assert_int_equal(closed(e).waiting, 1);
			cell(&feed, 2, 5);
			give(e, 1, &feed, 4);
			cell(&feed, 0, 3); /* sent again, as the acknowledgement was lost */
			give(e, 0, &feed, 5);
			end_of(e, 1, 0, 2, 6);
			assert_int_equal(closed(e).stored, 5);
			assert_int_equal(closed(e).dropped[DTA_DROP_DUPLICATE_HOP], 1);
			dta_view_sketch(&f.v, 0, NULL, got, &merged);
			assert_int_equal(merged.result, SL_QUERY_FOUND);
			assert_true(merged.complete);
			assert_memory_equal(got, want, sizeof(want));
			/* Without further reports, the memory is filled again. */
			owner_rotates(&owned, 0);
			assert_int_equal(dta_engine_store(e, &f.c, &f.object, 0, 0, NULL), 0);
			dta_engine_tick(e, 2000);
			dta_view_sketch(&f.v, 0, NULL, got, &merged);
			assert_memory_equal(got, want, sizeof(want));
			/* Another epoch begins with zeros. */
			owner_rotates(&owned, 1);
			assert_int_equal(dta_engine_store(e, &f.c, &f.object, 0, 1, NULL), 0);
			dta_engine_tick(e, 4000);
			dta_view_sketch(&f.v, 1, NULL, got, &merged);
			assert_int_equal(merged.result, SL_QUERY_EMPTY);
			dta_engine_free(e);
			shm->ops->close(shm);
			unfence(&f);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_path_belongs_to_its_key_despite_losses),
		cmocka_unit_test(a_path_is_stored_exactly_in_any_arrival_order),
		cmocka_unit_test(hops_written_apart_and_late_add_up),
		cmocka_unit_test(a_reused_place_is_written_for_its_new_key),
		cmocka_unit_test(whole_paths_leave_at_once_and_others_when_due),
		cmocka_unit_test(merged_sketches_equal_the_sketch_of_the_union),
		cmocka_unit_test(a_half_written_sketch_begins_anew_when_more_comes),
		cmocka_unit_test(a_sketch_knows_who_is_missing_and_what_is_late),
		cmocka_unit_test(a_reconnect_keeps_the_cells_of_a_sketch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
