// SPDX-License-Identifier: Apache-2.0
/* layer_view.c - the views of layer latency by workload in tables.h. Never blocks a worker. */
#include <string.h>

#include "base/base.h"
#include "collect/read/host.h"
#include "collect/read/index.h"
#include "collect/tables/flows.h"

static void view_distribution(const uint64_t *now, const uint64_t *old, struct region_layer_view *v,
			      int layer)
{
	const uint64_t *h = now + LAYER_HISTOGRAMS + (size_t)layer * LAYER_HIST_CELLS;
	const uint64_t *b = old ? old + LAYER_HISTOGRAMS + (size_t)layer * LAYER_HIST_CELLS : NULL;

	v->cell[layer][SL_LAYER_SUM] = now[LAYER_SUMS + layer] -
				       (old ? old[LAYER_SUMS + layer] : 0);
	for (uint32_t c = SL_LAYER_ZERO; c < SL_LAYER_CELLS; c++) {
		uint32_t i = SL_HIST_BUCKETS + c - SL_LAYER_ZERO;

		v->cell[layer][c] = h[i] - (b ? b[i] : 0);
	}
}

static void view_counts(const uint64_t *now, const uint64_t *old, struct region_layer_view *v)
{
	static const struct {
		enum sl_slot_count count;
		enum collect_layer_cell cell;
	} of[] = {{SL_COUNT_REQUESTS, LAYER_REQUESTS},
		  {SL_COUNT_COMPLETE, LAYER_COMPLETE},
		  {SL_COUNT_INCOMPLETE, LAYER_INCOMPLETE},
		  {SL_COUNT_PIPELINED, LAYER_PIPELINED},
		  {SL_COUNT_UNATTRIBUTED, LAYER_UNATTRIBUTED}};

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		v->count[of[i].count] = now[of[i].cell] - (old ? old[of[i].cell] : 0);
	for (int i = 0; i < SL_LAYERS; i++)
		view_distribution(now, old, v, i);
}

/* Returns true for the histogram of a group's first layer, which begins the group. */
static bool begins_group(const struct region_metric *m)
{
	return !strcmp(m->name, WORKLOAD_LAYERS_METRIC) &&
	       !strcmp(region_label_in(m->labels, m->label_count, "layer"), region_layer_name(0));
}

static void view_snapshot(const struct collect_region *r, const struct collect_snapshot *b,
			  void (*fn)(const struct collect_layers_view *, void *), void *arg)
{
	struct region_layer_view all = {0}, late = {0};
	struct collect_layers_view v = {
		.target = r->host->target,
		.hostname = collect_host_name(r->host),
		.workload = r->info,
		.stale = !collect_region_visible(r, base_now_ns()),
		.all = &all,
		.late = &late,
	};
	uint64_t cell[LAYER_CELLS];

	for (uint32_t i = 0; i < b->layout->columns; i++) {
		const struct region_metric *m = &b->layout->column[i].def->metric;

		if (!begins_group(m))
			continue;
		collect_snapshot_read(b, b->layout->column[i].cell - LAYER_HISTOGRAMS, LAYER_CELLS,
				      cell);
		view_counts(cell, NULL, &all);
		view_counts(cell, cell + LAYER_OLD, &late);
		v.late_ns = (int64_t)relaxed_load(r->last_read_ns) - (int64_t)cell[LAYER_OLD_NS];
		v.late_ns = v.late_ns > 0 && cell[LAYER_OLD_NS] ? v.late_ns : 0;
		v.role = region_label_in(m->labels, m->label_count, "role");
		v.port = region_label_in(m->labels, m->label_count, "port");
		fn(&v, arg);
	}
}

void collect_collector_layers(struct collect_collector *c,
			      void (*fn)(const struct collect_layers_view *, void *), void *arg)
{
	struct collect_index *x = collect_index_get(c);

	for (size_t i = 0; x && i < x->regions; i++)
		if (x->region[i]->synthetic && x->snapshot[i])
			view_snapshot(x->region[i], x->snapshot[i], fn, arg);
	collect_index_put(x);
}

void collect_collector_layer_losses(struct collect_collector *c,
				    void (*fn)(const struct collect_layer_losses_view *, void *),
				    void *arg)
{
	struct collect_tables *t = collect_collector_part(c, &collect_tables_part);

	for (size_t i = 0; t && i < c->hosts; i++) {
		const struct collect_host *h = &c->host[i];
		const struct collect_slot_stats *s = &t->host[i].slot_stats[0];
		const struct collect_table_stats *table = &t->host[i].table_stats[TABLE_LAYERS];
		struct collect_layer_losses_view v = {
			.target = h->target,
			.hostname = collect_host_name(h),
			.present = relaxed_load(table->present),
			.passes = relaxed_load(table->passes),
		};

		for (int k = 0; k < SL_CAUSES; k++)
			v.lost[k] = relaxed_load(s->lost[k]);
		if (v.present || v.passes)
			fn(&v, arg);
	}
}
