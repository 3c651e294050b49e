// SPDX-License-Identifier: Apache-2.0
/* tap.c - hands each pass of a region to the taps as a row of doubles, if a tap wants it */
#include <errno.h>
#include <math.h>

#include "base/grow.h"
#include "collect/read/host.h"
#include "collect/read/link.h"
#include "collect/read/worker.h"

int collect_collector_tap(struct collect_collector *c, const struct collect_tap *tap)
{
	if (c->running)
		return -EBUSY;
	if (c->taps == COLLECT_TAPS_MAX)
		return -ENOSPC;
	c->tap[c->taps++] = *tap;
	return 0;
}

const struct region_metric *collect_tap_metric(const struct collect_tap_row *row, uint32_t column)
{
	return &row->shape->column[column].def->metric;
}

const uint64_t *collect_tap_cells(const struct collect_tap_row *row, uint32_t column)
{
	return row->cell + row->shape->column[column].cell;
}

/* Returns true if any of the cells is in a line that did not settle in some stripe. */
static bool is_stale(const struct collect_region *r, uint32_t cell, uint32_t cells)
{
	uint32_t last = (cell + (cells ? cells : 1) - 1) / SL_LINE_CELLS;

	for (uint32_t line = cell / SL_LINE_CELLS; line <= last && line / 64 < r->mark_words;
	     line++)
		if (r->stale[line / 64] >> line % 64 & 1)
			return true;
	return false;
}

static bool make_values(const struct collect_region *r, struct collect_worker *w,
			const struct collect_layout *shape, const uint64_t *cell)
{
	if (!base_grow(&w->row, &w->row_columns, shape->columns, sizeof(*w->row))) {
		relaxed_bump(w->rows_lost, 1);
		return false;
	}
	for (uint32_t i = 0; i < shape->columns; i++) {
		const struct collect_column *col = &shape->column[i];
		const struct region_metric *m = &col->def->metric;

		w->row[i] = r->any_stale && is_stale(r, col->cell, m->cells)
				    ? NAN
				    : collect_history_double(m, collect_column_word(col, cell));
	}
	return true;
}

void collect_tap_row(struct collect_link *l, struct collect_region *r, const uint64_t *cell)
{
	const struct collect_layout *shape = r->snapshot->layout;
	struct collect_collector *c = l->c;
	struct collect_worker *w = l->worker;
	struct collect_tap_row row = {
		.instance = r->instance,
		.info = r->info,
		.hostname = collect_host_name(r->host),
		.tenant = r->tenant,
		.worker = w->number,
		.state = r->state,
		.layout = shape->generation,
		.shape = shape,
		.columns = shape->columns,
		.ns = r->values_ns,
	};

	for (unsigned int i = 0; i < c->taps; i++) {
		const struct collect_tap *tap = &c->tap[i];

		row.own = &r->tap_own[i];
		if (tap->wants && !tap->wants(tap->arg, &row))
			continue;
		if (!row.value && !make_values(r, w, shape, cell))
			return;
		row.value = w->row;
		row.cell = cell;
		tap->row(tap->arg, &row);
	}
}

void collect_tap_gone(struct collect_region *r)
{
	struct collect_collector *c = r->c;

	for (unsigned int i = 0; i < c->taps; i++) {
		if (r->tap_own[i] && c->tap[i].gone)
			c->tap[i].gone(c->tap[i].arg, r->instance, r->tap_own[i]);
		r->tap_own[i] = NULL;
	}
}
