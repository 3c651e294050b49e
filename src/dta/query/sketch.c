// SPDX-License-Identifier: Apache-2.0
/* sketch.c - sketches: merging lanes, and what the result estimates */
#include "dta/query/internal.h"

#include <errno.h>
#include <stdlib.h>

#include "sketch/count_min.h"
#include "sketch/count_sketch.h"
#include "sketch/hll.h"
#include "sketch/wire.h"

#define TRIES 200 /* copies of a lane that is being written */

void dta_sketch_merge(const struct sl_store_config *c, void *cells, const void *more)
{
	const uint64_t n = (uint64_t)c->rows * c->slots;

	if (c->sketch == SL_STORE_HLL) {
		const uint8_t *from = more;
		uint8_t *to = cells;

		for (uint64_t i = 0; i < n; i++)
			to[i] = from[i] > to[i] ? from[i] : to[i];
	} else {
		const uint64_t *from = more;
		uint64_t *to = cells;

		for (uint64_t i = 0; i < n; i++)
			to[i] += from[i];
	}
}

/*
 * 1: `complete` and `rows` hold a consistent lane; 0: the epoch has nothing; -1: it did not settle.
 */
static int lane_copy(const struct dta_store_view *v, const uint8_t *at, uint32_t lane,
		     uint64_t epoch, struct sl_store_complete *complete, uint64_t *rows,
		     uint64_t bytes)
{
	const struct sl_store_config *c = v->config;
	const uint64_t padded = (bytes + 7) & ~7ull;

	for (int try = 0; try < TRIES; try++) {
		dta_query_copy(complete, at, sizeof(*complete));
		if (!complete->check)
			return 0;
		if (complete->check !=
		    dta_sketch_check(c, lane, 0, &complete->epoch, sizeof(*complete) - 8))
			continue;
		if (complete->epoch != epoch)
			return 0;
		dta_query_copy(rows, at + sizeof(*complete), padded);
		if (complete->rows_check == dta_sketch_check(c, lane, 1, rows, bytes))
			return 1;
	}
	return -1;
}

int dta_view_sketch(const struct dta_store_view *v, uint64_t epoch, void *cells,
		    struct dta_merged *out)
{
	const struct sl_store_config *c = v->config;
	uint64_t newest, oldest, bytes, *rows;
	bool torn = false, any = false;

	*out = (struct dta_merged){.result = SL_QUERY_UNKNOWN};
	if (c->kind != SL_STORE_SKETCH || !dta_query_epochs(v, epoch, &newest, &oldest))
		return 0;
	bytes = (uint64_t)c->rows * c->slots * sl_store_cell_bytes(c);
	memset(cells, 0, bytes);
	rows = malloc(sl_pad8(bytes));
	if (!rows)
		return -ENOMEM;
	for (uint64_t e = newest; !any && !torn && e + 1 > oldest; e--) {
		out->epoch = e;
		for (uint32_t lane = 0; lane < c->lanes; lane++) {
			const uint8_t *at = dta_store_bank(v, e) + lane * sl_store_lane_bytes(c);
			struct sl_store_complete complete;
			int got = lane_copy(v, at, lane, e, &complete, rows, bytes);

			torn |= got < 0;
			if (got <= 0)
				continue;
			any = true;
			dta_sketch_merge(c, cells, rows);
			out->columns += complete.columns;
			if (complete.expected > out->expected)
				out->expected = complete.expected;
			for (size_t i = 0; i < SL_STORE_REPORTERS_MAX / 64; i++)
				out->map[i] |= complete.map[i];
		}
		if (!dta_query_valid(v, e)) {
			free(rows);
			*out = (struct dta_merged){.result = SL_QUERY_UNKNOWN, .epoch = e};
			return 0;
		}
		if (!e)
			break;
	}
	free(rows);
	for (size_t i = 0; i < SL_STORE_REPORTERS_MAX / 64; i++)
		out->ended += (uint32_t)__builtin_popcountll(out->map[i]);
	if (!out->expected)
		out->expected = c->reporters;
	out->complete = !torn && out->ended >= out->expected;
	out->result = torn ? SL_QUERY_CONFLICT : any ? SL_QUERY_FOUND : SL_QUERY_EMPTY;
	return 0;
}

/* ---- estimates ---- */

static uint8_t *frame(const struct sl_store_config *c, const void *cells, size_t *bytes)
{
	const uint64_t n = (uint64_t)c->rows * c->slots, *cell = cells;
	enum sketch_kind kind = c->sketch == SL_STORE_COUNT_MIN	     ? SKETCH_COUNT_MIN
				: c->sketch == SL_STORE_COUNT_SKETCH ? SKETCH_COUNT_SKETCH
								     : SKETCH_HLL;
	uint64_t total = 0;
	struct sketch_wire w;
	uint8_t *buf;

	*bytes = SKETCH_FRAME + n * sl_store_cell_bytes(c) +
		 (c->sketch == SL_STORE_COUNT_MIN      ? 28
		  : c->sketch == SL_STORE_COUNT_SKETCH ? 16
						       : 12);
	buf = malloc(*bytes);
	if (!buf || sketch_wire_begin(&w, buf, *bytes, *bytes, kind)) {
		free(buf);
		return NULL;
	}
	if (c->sketch == SL_STORE_HLL) {
		sketch_put_u32(&w, (uint32_t)__builtin_ctzll(c->slots));
		sketch_put_u64(&w, c->seed);
		sketch_put_bytes(&w, cells, n);
	} else {
		sketch_put_u32(&w, (uint32_t)c->slots);
		sketch_put_u32(&w, c->rows);
		if (c->sketch == SL_STORE_COUNT_MIN)
			sketch_put_u32(&w, 0);
		sketch_put_u64(&w, c->seed);
		if (c->sketch == SL_STORE_COUNT_MIN) {
			for (uint64_t i = 0; i < c->slots; i++)
				total += cell[i];
			sketch_put_u64(&w, total);
		}
		for (uint64_t i = 0; i < n; i++)
			sketch_put_u64(&w, cell[i]);
	}
	if (sketch_wire_end(&w, buf) < 0) {
		free(buf);
		return NULL;
	}
	return buf;
}

int dta_sketch_estimate(const struct sl_store_config *c, const void *cells, const void *key,
			size_t key_bytes, struct dta_sketch_estimate *out)
{
	struct sketch_count_sketch *cs;
	struct sketch_count_min *cm;
	struct sketch_hll *hll;
	size_t bytes;
	uint8_t *buf;
	int err;

	*out = (struct dta_sketch_estimate){0};
	if (c->kind != SL_STORE_SKETCH || c->slots & (c->slots - 1) || c->slots > 1u << 23 ||
	    (c->sketch != SL_STORE_HLL && !key))
		return -EINVAL;
	buf = frame(c, cells, &bytes);
	if (!buf)
		return -ENOMEM;
	switch (c->sketch) {
	case SL_STORE_COUNT_MIN:
		err = sketch_count_min_load(&cm, buf, bytes);
		if (err)
			break;
		out->value = (double)sketch_count_min_estimate(cm, key, key_bytes);
		out->error = sketch_count_min_error(cm);
		sketch_count_min_free(cm);
		break;
	case SL_STORE_COUNT_SKETCH:
		err = sketch_count_sketch_load(&cs, buf, bytes);
		if (err)
			break;
		out->value = (double)sketch_count_sketch_estimate(cs, key, key_bytes);
		out->error = sketch_count_sketch_error(cs);
		sketch_count_sketch_free(cs);
		break;
	default:
		err = sketch_hll_load(&hll, buf, bytes);
		if (err)
			break;
		out->value = sketch_hll_estimate(hll);
		out->error = sketch_hll_error(hll) * out->value;
		sketch_hll_free(hll);
		break;
	}
	free(buf);
	return err;
}

/* ---- making ---- */

struct dta_sketch_maker {
	uint64_t cells;
	struct sketch_count_min *cm; /* exactly one is set */
	struct sketch_count_sketch *cs;
	struct sketch_hll *hll;
};

struct dta_sketch_maker *dta_sketch_maker_new(const struct sl_store_config *c)
{
	struct dta_sketch_maker *m = NULL;

	errno = EINVAL;
	if (c->slots && !(c->slots & (c->slots - 1)) && c->slots <= 1u << 23)
		m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->cells = c->rows * c->slots;
	if (c->sketch == SL_STORE_COUNT_MIN)
		m->cm = sketch_count_min_new((uint32_t)c->slots, c->rows, 0, c->seed);
	else if (c->sketch == SL_STORE_COUNT_SKETCH)
		m->cs = sketch_count_sketch_new((uint32_t)c->slots, c->rows, c->seed);
	else if (c->sketch == SL_STORE_HLL)
		m->hll = sketch_hll_new((uint32_t)__builtin_ctzll(c->slots), c->seed);
	if (m->cm || m->cs || m->hll)
		return m;
	free(m);
	return NULL;
}

void dta_sketch_maker_free(struct dta_sketch_maker *m)
{
	if (!m)
		return;
	sketch_count_min_free(m->cm);
	sketch_count_sketch_free(m->cs);
	sketch_hll_free(m->hll);
	free(m);
}

int dta_sketch_maker_add(struct dta_sketch_maker *m, const void *key, size_t key_bytes,
			 uint64_t times)
{
	if (m->cm)
		return sketch_count_min_add(m->cm, key, key_bytes, times);
	if (m->cs)
		sketch_count_sketch_add(m->cs, key, key_bytes, (int64_t)times);
	else
		sketch_hll_add(m->hll, key, key_bytes);
	return 0;
}

/* A frame ends with the cells and a checksum: docs/sketches.md. */
int dta_sketch_maker_cells(const struct dta_sketch_maker *m, uint64_t *cells)
{
	size_t bytes = m->cm   ? sketch_count_min_save_bytes(m->cm)
		       : m->cs ? sketch_count_sketch_save_bytes(m->cs)
			       : sketch_hll_save_bytes(m->hll);
	const uint64_t wide = m->hll ? 1 : 8;
	uint8_t *buf = malloc(bytes);
	const uint8_t *from;

	if (!buf)
		return -ENOMEM;
	if (m->cm)
		sketch_count_min_save(m->cm, buf, bytes);
	else if (m->cs)
		sketch_count_sketch_save(m->cs, buf, bytes);
	else
		sketch_hll_save(m->hll, buf, bytes);
	from = buf + bytes - 8 - m->cells * wide;
	for (uint64_t i = 0; i < m->cells; i++) {
		cells[i] = 0;
		memcpy(&cells[i], from + i * wide, wide);
	}
	free(buf);
	return 0;
}
