// SPDX-License-Identifier: Apache-2.0
/*
 * test_engine_waits.c - state that waits in the engine (paths, sketches, epochs, key logs) with
 * outputs that are full, down or refuse: nothing is written to a wrong place or epoch, nothing is
 * added twice, and every report is in exactly one counter.
 */
#include "engine_drive.h"
#include "dta/query/json.h"
#include "sketch/cells.h"

static struct dta_engine *engine_over(struct fenced *f, struct dta_output *o,
				      const struct dta_engine_opts *opts)
{
	struct dta_engine *e = dta_engine_new(opts, o);

	assert_non_null(e);
	assert_int_equal(dta_engine_store(e, &f->c, &f->object, 0, 0, NULL), 0);
	return e;
}

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
	put_hop(&feed, "two.", 1, 3, 30); /* of two hops until now */
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

/* One reporter's cells as reports, in a random order if asked, each sent `times`. Returns how many
 * there are. */
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
			dta_view_sketch(&f.v, 0, got.cells, &merged);
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
	dta_view_sketch(&f.v, 0, got, &merged);
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
	dta_view_sketch(&f.v, 0, got.cells, &merged);
	assert_int_equal(merged.result, SL_QUERY_EMPTY);
	dta_engine_tick(e, 1001);
	dta_view_sketch(&f.v, 0, got.cells, &merged);
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
	dta_view_sketch(&f.v, 1, got.cells, &merged);
	assert_int_equal(merged.result, SL_QUERY_FOUND);
	assert_int_equal(merged.ended, 1);
	assert_int_equal(merged.columns, ROWS * COLUMNS);
	assert_memory_equal(got.cells, sent.cells, sizeof(got.cells));
	/* The previous epoch is unchanged. */
	dta_view_sketch(&f.v, 0, got.cells, &merged);
	assert_int_equal(merged.ended, 1);
	assert_int_equal(merged.columns, 2 * ROWS * COLUMNS);
	dta_engine_free(e);
	shm->ops->close(shm);
	unfence(&f);
}

/* ---- epochs ---- */

static void waiting_reports_go_to_the_epoch_of_their_arrival(void **state)
{
	static struct feed feed;

	(void)state;
	for (int postcard = 0; postcard < 2; postcard++) {
		struct sl_store_config c = {
			.kind = SL_STORE_INCREMENT, .slots = 99, .rows = 2, .banks = 2};
		struct dta_output *shm = postcard ? output_apart() : dta_output_shm(NULL, NULL);
		struct dta_engine *e;
		struct fenced f;

		if (postcard)
			c = (struct sl_store_config){.kind = SL_STORE_POSTCARD,
						     .slots = 99,
						     .hops = 5,
						     .copies = 2,
						     .banks = 2};
		fence(&f, c);
		e = engine_over(&f, shm, &(struct dta_engine_opts){.increment_entries = 64});
		for (uint64_t epoch = 0; epoch < 4; epoch++) {
			if (epoch) {
				owner_rotates(&f, epoch);
				assert_int_equal(dta_engine_rotate(e, 0, 0, epoch), 0);
			}
			assert_int_equal(closed(e).waiting, 0);
			feed_of(&feed, (uint8_t)c.kind, 2, 4, 8, 0);
			if (postcard)
				put_hop(&feed, "key.", 2, 5, (uint32_t)epoch + 10);
			else
				put_increment(&feed, "key.", epoch + 10);
			assert_int_equal(give(e, 0, &feed, epoch), 1);
			assert_int_equal(closed(e).waiting, 1);
			for (uint64_t asked = epoch > 1 ? epoch - 1 : 0; asked < epoch; asked++) {
				struct dta_query q = {
					.key = "key.", .key_bytes = 4, .epoch = asked, .copies = 2};
				struct sl_increment_answer i;
				struct sl_postcard_answer p;

				if (postcard) {
					dta_view_path(&f.v, &q, NULL, 0, &p);
					assert_int_equal(p.result, SL_QUERY_FOUND);
					assert_int_equal(p.value[2], asked + 10);
				} else {
					dta_view_increment(&f.v, &q, &i);
					assert_int_equal(i.result, SL_QUERY_FOUND);
					assert_int_equal(i.value, asked + 10);
				}
			}
		}
		dta_engine_free(e);
		shm->ops->close(shm);
		unfence(&f);
	}
}

/* Makes a store of keys, and its key log with room for `slots` items. */
static struct dta_engine *engine_with_keylog(struct fenced *f, struct fenced *log,
					     struct dta_output *shm, uint32_t slots)
{
	struct dta_engine *e;

	fence(f, (struct sl_store_config){.kind = SL_STORE_KEYWRITE,
					  .slots = 999,
					  .value_bytes = 8,
					  .copies = 2,
					  .banks = 2,
					  .keylog = 1 + 7});
	fence(log, (struct sl_store_config){.kind = SL_STORE_APPEND,
					    .id = 7,
					    .slots = slots,
					    .value_bytes = 16,
					    .batch = 4,
					    .lists = 1});
	e = engine_over(f, shm, NULL);
	assert_int_equal(dta_engine_store(e, &log->c, &log->object, 0, 0, NULL), 0);
	return e;
}

/* ---- key log ---- */

static void keys_are_logged_once_an_epoch_and_are_no_reports(void **state)
{
	static struct feed feed;
	struct dta_output *shm = dta_output_shm(NULL, NULL);
	struct sl_query_append_reader reader = {0};
	uint8_t items[64 * 16], seen[100] = {0};
	struct dta_engine_stats s;
	struct fenced f, log;
	struct dta_engine *e;
	int count, keys = 0, marks = 0;

	(void)state;
	e = engine_with_keylog(&f, &log, shm, 999);
	for (uint64_t epoch = 0; epoch < 2; epoch++) {
		if (epoch)
			assert_int_equal(dta_engine_rotate(e, 0, 0, epoch), 0);
		feed_of(&feed, DTA_KEYWRITE, 2, 13, 8, 0);
		for (uint32_t n = 0; n < 3000; n++) {
			uint8_t key[13] = {(uint8_t)(n % 100)};

			put(&feed, key, "12345678");
			if (feed.b.count == 50)
				assert_int_equal(give(e, 0, &feed, 1), 50);
		}
	}
	feed_of(&feed, DTA_KEYWRITE, 2, 16, 8, 0);
	put(&feed, "too long for it.", "12345678");
	give(e, 0, &feed, 1);
	dta_engine_flush(e);
	s = closed(e);
	assert_int_equal(s.in, 6001);
	assert_int_equal(s.stored, 6001);
	while ((count = dta_append_read(&log.v, &reader, items, 64)) > 0)
		for (int i = 0; i < count; i++) {
			if (!items[i * 16]) { /* the epoch, before its first key */
				assert_int_equal(items[i * 16 + 1], keys / 100);
				assert_int_equal(keys % 100, 0);
				assert_int_equal(++marks, 1 + keys / 100);
				continue;
			}
			keys++;
			assert_int_equal(items[i * 16], 13);
			assert_in_range(items[i * 16 + 1], 0, 99);
			seen[items[i * 16 + 1]]++;
		}
	for (int i = 0; i < 100; i++)
		assert_int_equal(seen[i], 2);
	assert_int_equal(marks, 2);
	dta_engine_free(e);
	shm->ops->close(shm);
	unfence(&f);
	unfence(&log);
}

/* The mark of the epoch is repeated, so that a log that has wrapped still states it. */
static void a_log_that_wraps_in_an_epoch_has_its_newest_keys(void **state)
{
	static struct feed feed;
	struct dta_output *shm = dta_output_shm(NULL, NULL);
	struct fenced f, log;
	struct dta_held store = {.count = 1, .view = {&f.v}}, keys = {.count = 1, .view = {&log.v}};
	struct dta_logged_key *logged;
	struct dta_success success;
	struct dta_engine *e;
	uint64_t overwritten = 0;
	size_t n;

	(void)state;
	e = engine_with_keylog(&f, &log, shm, 32);
	feed_of(&feed, DTA_KEYWRITE, 2, 8, 8, 0);
	for (uint64_t key = 1; key <= 1000; key++) {
		put(&feed, &key, "12345678");
		if (key % 100 == 0)
			assert_int_equal(give(e, 0, &feed, 1), 100);
	}
	dta_engine_flush(e);
	logged = dta_query_logged(&keys, &store, &n, &overwritten);
	assert_true(overwritten > 0);
	/* Less a few marks, and a few keys before the first one. */
	assert_in_range(n, 32 * 4 * 3 / 4, 32 * 4);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(logged[i].epoch, 0);
	free(logged);
	/* Keys are missing, although the log has a mark of the epoch. */
	dta_query_success(&store, &keys, &success);
	assert_non_null(strstr(success.why_not, "not hold all keys"));
	dta_engine_free(e);
	shm->ops->close(shm);
	unfence(&f);
	unfence(&log);
}

/* The log is resized after keys of the epoch were logged. */
/* Their blocks may not fit into the new object. */
static void a_resized_list_inherits_no_waiting_items(void **state)
{
	static const struct sl_store_config former = {
		.kind = SL_STORE_APPEND, .slots = 8, .value_bytes = 4, .batch = 4, .lists = 2};
	struct sl_store_config c[] = {former, former, former, former};
	static struct feed feed;

	(void)state;
	c[0].slots = 16;
	c[1].lists = 1;
	c[2].batch = 8;
	c[3].value_bytes = 8;
	for (size_t i = 0; i < 4; i++) {
		struct dta_output *shm = dta_output_shm(NULL, NULL);
		struct dta_engine *e = dta_engine_new(NULL, shm);
		struct sl_query_append_reader reader = {.list = 1};
		struct fenced f, resized;
		uint8_t items[4 * 4];

		fence(&f, former);
		fence(&resized, c[i]);
		assert_int_equal(dta_engine_store(e, &f.c, &f.object, 0, 0, NULL), 0);
		feed_of(&feed, DTA_APPEND, 0, 4, 4, 0);
		put_append(&feed, 1, "item");
		assert_int_equal(give(e, 0, &feed, 1), 1);
		assert_int_equal(dta_engine_store(e, &resized.c, &resized.object, 0, 0, NULL), 0);
		assert_int_equal(closed(e).stored, 1);
		assert_int_equal(dta_append_read(&f.v, &reader, items, 4), 1);
		assert_memory_equal(items, "item", 4);
		dta_engine_free(e);
		shm->ops->close(shm);
		unfence(&f);
		unfence(&resized);
	}
}

static void keys_are_logged_again_after_a_resize(void **state)
{
	static struct feed feed;
	struct dta_output *shm = dta_output_shm(NULL, NULL);
	struct fenced f, log, larger;
	struct dta_held store = {.count = 1, .view = {&f.v}};
	struct dta_held keys = {.count = 1, .view = {&larger.v}};
	struct dta_logged_key *logged;
	struct sl_store_config c;
	struct dta_engine *e;
	uint64_t overwritten = 0;
	size_t n;

	(void)state;
	e = engine_with_keylog(&f, &log, shm, 32);
	c = log.c;
	c.slots = 999;
	fence(&larger, c);
	feed_of(&feed, DTA_KEYWRITE, 2, 8, 8, 0);
	for (int turn = 0; turn < 2; turn++) {
		for (uint64_t key = 1; key <= 10; key++)
			put(&feed, &key, "12345678");
		assert_int_equal(give(e, 0, &feed, 1), 10);
		if (!turn)
			assert_int_equal(dta_engine_store(e, &larger.c, &larger.object, 0, 0, NULL),
					 0);
	}
	dta_engine_flush(e);
	logged = dta_query_logged(&keys, &store, &n, &overwritten);
	assert_int_equal(n, 10);
	free(logged);
	dta_engine_free(e);
	shm->ops->close(shm);
	unfence(&f);
	unfence(&log);
	unfence(&larger);
}

/* ---- outputs ---- */

static struct sl_store_config any_kind(uint32_t kind)
{
	static const struct sl_store_config c[] = {
		[SL_STORE_KEYWRITE] = {.kind = SL_STORE_KEYWRITE,
				       .slots = 500,
				       .value_bytes = 8,
				       .copies = 2,
				       .banks = 2},
		[SL_STORE_APPEND] = {.kind = SL_STORE_APPEND,
				     .slots = 500,
				     .value_bytes = 8,
				     .batch = 8,
				     .lists = 4},
		[SL_STORE_INCREMENT] = {.kind = SL_STORE_INCREMENT,
					.slots = 500,
					.rows = 2,
					.banks = 2},
		[SL_STORE_POSTCARD] = {.kind = SL_STORE_POSTCARD,
				       .slots = 500,
				       .hops = 3,
				       .copies = 2,
				       .banks = 2},
		[SL_STORE_SKETCH] = {.kind = SL_STORE_SKETCH,
				     .slots = 2048,
				     .rows = 2,
				     .reporters = 3,
				     .sketch = SL_STORE_COUNT_MIN,
				     .banks = 2},
	};

	return c[kind];
}

static void some_of_kind(struct feed *feed, uint32_t kind, uint64_t *rnd)
{
	uint64_t key = next_random(rnd) % 200;
	uint8_t sketch[12] = {0};

	feed_of(feed, (uint8_t)kind, kind <= SL_STORE_POSTCARD && kind != SL_STORE_APPEND ? 2 : 0,
		kind == SL_STORE_SKETCH	  ? 12
		: kind == SL_STORE_APPEND ? 4
					  : 8,
		8, 0);
	for (int i = 0; i < 40; i++) {
		if (kind == SL_STORE_POSTCARD) {
			put_hop(feed, &key, (uint8_t)(i % 3), 3, 5);
			key += i % 3 == 2;
		} else if (kind == SL_STORE_APPEND) {
			put_append(feed, (uint32_t)key % 4, &key);
		} else if (kind == SL_STORE_SKETCH) {
			be32(sketch + 8, (uint32_t)key * 10 + (uint32_t)i);
			put(feed, sketch, "12345678");
		} else {
			put(feed, &key, "12345678");
			key++;
		}
	}
}

/* Full now and then, for good, down, refusing: for each primitive. */
static void every_report_is_in_one_counter_for_any_output(void **state)
{
	static struct feed feed;
	uint64_t rnd = 11;

	(void)state;
	for (uint32_t kind = SL_STORE_KEYWRITE; kind <= SL_STORE_SKETCH; kind++)
		for (int mood = 0; mood < 5; mood++) {
			static const enum dta_engine_drop why[] = {
				DTA_DROPS, DTA_DROP_OUTPUT_FULL, DTA_DROP_OUTPUT_DOWN,
				DTA_DROP_OUTPUT_FAILED, DTA_DROPS};
			struct dta_engine_stats s;
			uint64_t taken = 0, now = 0, kept;
			struct dta_engine *e;
			struct fenced f;
			struct moody m;

			fence(&f, any_kind(kind));
			moody_over(&m, &f);
			e = engine_over(&f, &m.o,
					&(struct dta_engine_opts){.increment_entries = 64,
								  .path_entries = 64,
								  .sketch_ns = 1000});
			if (mood == 0) { /* slow, but it makes progress */
				m.room = 3;
				m.gain = 2;
			}
			for (int round = 0; round < 60; round++) {
				if (round == 20) {
					m.room = mood == 1 ? 5 : m.room;
					m.until_down = mood == 2 ? 5 : ~0ull;
					m.refusal = mood == 3 ? -ERANGE : 0;
				}
				some_of_kind(&feed, kind, &rnd);
				taken += give(e, (uint32_t)round % 3, &feed, now += 100);
				if (round % 7 == 0)
					dta_engine_tick(e, now += 600000);
				closed(e);
			}
			s = closed(e);
			assert_int_equal(s.in, 60 * 40);
			if (why[mood] < DTA_DROPS && kind != SL_STORE_SKETCH)
				assert_true(s.dropped[why[mood]] > 0);
			if (mood == 0 || mood == 4)
				assert_int_equal(s.dropped[DTA_DROP_OUTPUT_FULL], 0);
			/*
			 * Accepted reports are never dropped because an output is full or down. The
			 * sum of a sketch keeps those that were refused.
			 */
			if (mood != 3 || kind == SL_STORE_SKETCH)
				assert_int_equal(taken, s.stored + s.waiting);
			kept = s.waiting;
			m.room = ~0u;
			m.until_down = ~0ull;
			m.refusal = 0;
			dta_engine_flush(e);
			assert_int_equal(closed(e).stored, s.stored + kept);
			assert_int_equal(closed(e).waiting, 0);
			/*
			 * Reports that cannot be written by the end of their epoch are dropped
			 * under a cause.
			 */
			some_of_kind(&feed, kind, &rnd);
			give(e, 0, &feed, now);
			kept = closed(e).waiting;
			m.until_down = 0;
			dta_engine_rotate(e, 0, 0, 1);
			assert_int_equal(closed(e).waiting, kind == SL_STORE_APPEND ? kept : 0);
			dta_engine_remove(e, 0, 0);
			assert_int_equal(closed(e).waiting, 0);
			assert_int_equal(closed(e).in, 61 * 40);
			dta_engine_free(e);
			unfence(&f);
		}
}

/* A list whose blocks could not be written has no gap when the output is back. */
static void a_list_has_no_gap_where_the_output_was_down(void **state)
{
	static struct feed feed;
	struct sl_query_append_reader reader = {0};
	uint64_t next = 0, got = 0, items[64], now = 1;
	struct dta_engine *e;
	struct fenced f;
	struct moody m;
	int count;

	(void)state;
	fence(&f, (struct sl_store_config){.kind = SL_STORE_APPEND,
					   .slots = 2000,
					   .value_bytes = 8,
					   .batch = 8,
					   .lists = 1});
	moody_over(&m, &f);
	e = engine_over(&f, &m.o, NULL);
	for (int round = 0; round < 300; round++) {
		m.until_down = round % 30 < 20 ? ~0ull : 0;
		feed_of(&feed, DTA_APPEND, 0, 4, 8, 0);
		for (int i = 0; i < 11; i++) {
			uint64_t item = next;

			put_append(&feed, 0, &item);
			/* Sent again until it is accepted, as in the loss protocol. */
			next += give(e, 0, &feed, now += 1000);
		}
	}
	m.until_down = ~0ull;
	dta_engine_flush(e);
	while ((count = dta_append_read(&f.v, &reader, items, 64)) > 0)
		for (int i = 0; i < count; i++)
			assert_int_equal(items[i], got++);
	assert_int_equal(got, next);
	assert_true(closed(e).dropped[DTA_DROP_OUTPUT_DOWN] > 0);
	dta_engine_free(e);
	unfence(&f);
}

/*
 * After a reconnect, the collector says which block is next, but the output has not repeated the
 * last ones yet.
 */
static void a_list_goes_on_behind_blocks_that_are_repeated(void **state)
{
	static struct feed feed;
	struct sl_query_append_reader reader = {0};
	uint64_t next = 0, items[64];
	const uint64_t none = 0;
	struct dta_engine *e;
	struct fenced f;
	struct moody m;

	(void)state;
	fence(&f, (struct sl_store_config){.kind = SL_STORE_APPEND,
					   .slots = 20,
					   .value_bytes = 8,
					   .batch = 4,
					   .lists = 1});
	moody_over(&m, &f);
	e = engine_over(&f, &m.o, NULL);
	for (int blocks = 2; blocks; blocks--) {
		feed_of(&feed, DTA_APPEND, 0, 4, 8, 0);
		for (int i = 0; i < 4 * blocks; i++, next++)
			put_append(&feed, 0, &next);
		assert_int_equal(give(e, 0, &feed, 1), 4 * blocks);
		m.o.outstanding = 2;
		assert_int_equal(dta_engine_store(e, &f.c, &f.object, 0, 0, &none), 0);
	}
	assert_int_equal(dta_append_read(&f.v, &reader, items, 64), 12);
	for (uint64_t i = 0; i < 12; i++)
		assert_int_equal(items[i], i);
	dta_engine_free(e);
	unfence(&f);
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
		cmocka_unit_test(waiting_reports_go_to_the_epoch_of_their_arrival),
		cmocka_unit_test(keys_are_logged_once_an_epoch_and_are_no_reports),
		cmocka_unit_test(a_log_that_wraps_in_an_epoch_has_its_newest_keys),
		cmocka_unit_test(a_resized_list_inherits_no_waiting_items),
		cmocka_unit_test(keys_are_logged_again_after_a_resize),
		cmocka_unit_test(every_report_is_in_one_counter_for_any_output),
		cmocka_unit_test(a_list_has_no_gap_where_the_output_was_down),
		cmocka_unit_test(a_list_goes_on_behind_blocks_that_are_repeated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
