// SPDX-License-Identifier: Apache-2.0
/* sketch.c - merges the lanes of a sketch and computes estimates from the result */
#include "dta/query/internal.h"

#include <errno.h>
#include <stdlib.h>

#include "base/budget.h"
#include "sketch/cells.h"

#define TRIES	   200	  /* attempts to copy a lane that is being written */
#define PIECE	   65536u /* bytes; the budget is asked before each */
#define LINE_BYTES 64u

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

/* Copies whole words. Returns false if the budget is used up. */
static bool copy_rows(uint64_t *to, const uint8_t *from, uint64_t bytes, struct base_budget *budget)
{
	for (uint64_t at = 0; at < bytes; at += PIECE) {
		const uint64_t n = bytes - at < PIECE ? bytes - at : PIECE;

		if (!base_budget_spend(budget, n / LINE_BYTES + 1))
			return false;
		dta_query_copy(to + at / 8, from + at, n);
	}
	return true;
}

/*
 * Copies a consistent lane into `complete` and `rows`. Returns 1 on success, 0 if the epoch has no
 * data, or -1 if the lane did not settle or the budget is used up.
 */
static int lane_copy(const struct dta_store_view *v, const uint8_t *at, uint32_t lane,
		     uint64_t epoch, struct base_budget *budget, struct sl_store_complete *complete,
		     uint64_t *rows, uint64_t bytes)
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
		if (!copy_rows(rows, at + sizeof(*complete), padded, budget))
			return -1;
		if (complete->rows_check == dta_sketch_check(c, lane, 1, rows, bytes))
			return 1;
	}
	return -1;
}

int dta_view_sketch(const struct dta_store_view *v, uint64_t epoch, struct base_budget *budget,
		    void *cells, struct dta_merged *out)
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
			int got = lane_copy(v, at, lane, e, budget, &complete, rows, bytes);

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

static int sketch_of(const struct sl_store_config *c, void *cells, struct sketch_cells *s)
{
	enum sketch_cells_kind kind = c->sketch == SL_STORE_COUNT_MIN	   ? SKETCH_COUNT_MIN
				      : c->sketch == SL_STORE_COUNT_SKETCH ? SKETCH_COUNT_SKETCH
									   : SKETCH_HLL;

	return sketch_cells_init(s, kind, c->slots, c->rows, c->seed, cells);
}

int dta_sketch_estimate(const struct sl_store_config *c, const void *cells, const void *key,
			size_t key_bytes, struct dta_sketch_estimate *out)
{
	struct sketch_cells s;

	*out = (struct dta_sketch_estimate){0};
	if (c->kind != SL_STORE_SKETCH || (c->sketch != SL_STORE_HLL && !key) ||
	    sketch_of(c, (void *)(uintptr_t)cells, &s) || sketch_cells_check(&s))
		return -EINVAL;
	out->value = sketch_cells_estimate(&s, key ? sketch_hash_bytes(key, key_bytes, s.seed) : 0,
					   &out->error);
	return 0;
}

/* ---- building ---- */

struct dta_sketch_maker {
	struct sketch_cells s;
	uint64_t cells[];
};

struct dta_sketch_maker *dta_sketch_maker_new(const struct sl_store_config *c)
{
	struct dta_sketch_maker *m;
	struct sketch_cells s;

	if (sketch_of(c, NULL, &s)) {
		errno = EINVAL;
		return NULL;
	}
	m = calloc(1, sizeof(*m) + (size_t)s.width * s.depth * sizeof(*m->cells));
	if (!m)
		return NULL;
	m->s = s;
	m->s.cell = m->cells;
	return m;
}

void dta_sketch_maker_free(struct dta_sketch_maker *m)
{
	free(m);
}

int dta_sketch_maker_add(struct dta_sketch_maker *m, const void *key, size_t key_bytes,
			 uint64_t times)
{
	return sketch_cells_add(&m->s, sketch_hash_bytes(key, key_bytes, m->s.seed), times);
}

void dta_sketch_maker_cells(const struct dta_sketch_maker *m, uint64_t *cells)
{
	const uint8_t *reg = m->s.cell;

	for (uint64_t i = 0; i < (uint64_t)m->s.width * m->s.depth; i++)
		cells[i] = m->s.kind == SKETCH_HLL ? reg[i] : m->cells[i];
}
