// SPDX-License-Identifier: Apache-2.0
/*
 * retired.c - sums over processes that have ended (--sum-processes), so that no counter falls when
 * one of several processes ends. Each tenant has a share of their cells, and the sums expire.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/hash.h"
#include "collect/read/calc.h"
#include "collect/read/collector_internal.h"
#include "collect/read/index.h"
#include "collect/read/ref.h"

void collect_retired_put(struct collect_retired *t, struct collect_collector *c)
{
	if (!t || !collect_ref_put(&t->refs))
		return;
	relaxed_sub(c->memory, t->bytes);
	collect_def_put(c, t->def);
	collect_tenant_put(t->tenant);
	collect_label_set_put(t->labels);
	free(t);
}

#define RETIRED_LOOKS 64u /* looks for groups without a process per opts.retired_ns */

/*
 * The sums of one group: of processes whose labels are equal without the process. They are dropped
 * together, so that no sum of a group falls while another stays.
 */
struct collect_retired_group {
	struct base_node node;
	struct collect_retired_group *older, *newer;
	struct collect_label_set *labels;
	struct collect_tenant *tenant; /* of the newest sum, which holds the reference */
	struct collect_retired *sum;
	uint64_t alive_ns; /* when the group last had a process */
};

static uint64_t group_hash(const struct collect_label_set *labels)
{
	return base_hash(0, labels->text, labels->text_bytes);
}

static struct collect_retired_group *group_find(const struct collect_collector *c,
						const struct collect_label_set *labels)
{
	struct collect_retired_group *g = base_table_first(&c->retired_groups, group_hash(labels));

	while (g && strcmp(g->labels->text, labels->text))
		g = base_table_next(g);
	return g;
}

static void group_unlink(struct collect_collector *c, struct collect_retired_group *g)
{
	*(g->older ? &g->older->newer : &c->retired_oldest) = g->newer;
	*(g->newer ? &g->newer->older : &c->retired_newest) = g->older;
}

/* Makes the group the last one to have had a process. */
static void group_link(struct collect_collector *c, struct collect_retired_group *g,
		       uint64_t now_ns)
{
	g->alive_ns = now_ns;
	g->newer = NULL;
	g->older = c->retired_newest;
	*(g->older ? &g->older->newer : &c->retired_oldest) = g;
	c->retired_newest = g;
}

static void sum_link(struct collect_retired_group *g, struct collect_retired *t)
{
	t->at = &g->sum;
	t->next = g->sum;
	if (t->next)
		t->next->at = &t->next;
	g->sum = t;
}

static void sum_drop(struct collect_collector *c, struct collect_retired *t)
{
	*t->at = t->next;
	if (t->next)
		t->next->at = t->at;
	relaxed_sub(c->retired_cells, t->def->metric.cells);
	t->tenant->retired_cells -= t->def->metric.cells;
	base_table_remove(&c->retired, t);
	collect_retired_put(t, c);
}

/* Returns the number of sums. */
static uint64_t group_drop(struct collect_collector *c, struct collect_retired_group *g)
{
	uint64_t sums = 0;

	for (; g->sum; sums++)
		sum_drop(c, g->sum);
	group_unlink(c, g);
	base_table_remove(&c->retired_groups, g);
	relaxed_sub(c->memory, sizeof(*g));
	collect_label_set_put(g->labels);
	free(g);
	return sums;
}

static struct collect_retired_group *group_of(struct collect_collector *c,
					      struct collect_label_set *labels)
{
	struct collect_retired_group *g = group_find(c, labels);

	if (g) {
		group_unlink(c, g);
	} else {
		g = calloc(1, sizeof(*g));
		if (!g)
			return NULL;
		relaxed_add(c->memory, sizeof(*g));
		g->labels = collect_label_set_ref(labels);
		base_table_add(&c->retired_groups, g, group_hash(labels));
	}
	group_link(c, g, base_now_ns());
	return g;
}

/*
 * Returns the tenant's group that has been without a process for the longest time. If of is NULL,
 * this is a group of the tenant with the most cells.
 */
static struct collect_retired_group *oldest_group(const struct collect_collector *c,
						  const struct collect_tenant *of)
{
	struct collect_retired_group *worst = NULL;

	for (struct collect_retired_group *g = c->retired_oldest; g; g = g->newer) {
		if (g->tenant && g->tenant == of)
			return g;
		if (!of && g->tenant &&
		    (!worst || g->tenant->retired_cells > worst->tenant->retired_cells))
			worst = g;
	}
	return worst;
}

/*
 * Makes room for a new sum in group g. A tenant with a used-up share loses sums of its own; if all
 * cells are in use, the tenant with the largest part loses some.
 */
static bool make_room(struct collect_collector *c, struct collect_tenant *t,
		      const struct collect_retired_group *g, size_t cells)
{
	const size_t before = c->retired_cells;
	const struct collect_tenant *of = !t->exempt && t->retired_cells ? t : NULL;

	while (collect_tenant_room(t, c->opts.retired_cells, c->retired_cells, t->retired_cells) <
		       cells &&
	       before - c->retired_cells < cells) {
		struct collect_retired_group *loser = oldest_group(c, of);

		if (!loser || loser == g)
			return false;
		relaxed_add(c->retired_lost, group_drop(c, loser));
	}
	return true;
}

static uint64_t retired_hash(const struct collect_def *def, const struct collect_label_set *labels)
{
	uint64_t h = base_hash(0, labels->text, labels->text_bytes);

	return base_hash(h, def->labels->text, def->labels->text_bytes);
}

static struct collect_retired *retired_find(const struct collect_collector *c, uint64_t hash,
					    const struct collect_def *def,
					    const struct collect_label_set *labels)
{
	struct collect_retired *t = base_table_first(&c->retired, hash);

	while (t && (t->def->family != def->family || strcmp(t->labels->text, labels->text) ||
		     strcmp(t->def->labels->text, def->labels->text) ||
		     !collect_same_shape(&t->def->metric, &def->metric)))
		t = base_table_next(t);
	return t;
}

/* Returns true if a < b. NaN is neither the minimum nor the maximum. */
static bool is_less(const struct region_metric *m, uint64_t a, uint64_t b)
{
	return collect_is_f64(m) ? region_f64(a) < region_f64(b) : (int64_t)a < (int64_t)b;
}

static bool is_nan(const struct region_metric *m, uint64_t a)
{
	return collect_is_f64(m) && isnan(region_f64(a));
}

/* Returns true if combining two gauges selects the value of `from`. */
static bool takes_other(const struct region_metric *m, const uint64_t *to, const uint64_t *from)
{
	if (collect_combine_of(m) == SL_COMBINE_MOST_RECENT)
		return from[1] > to[1];
	if (is_nan(m, to[0]))
		return true;
	return collect_combine_of(m) == SL_COMBINE_MIN ? is_less(m, from[0], to[0])
						       : is_less(m, to[0], from[0]);
}

/* Returns true if the metric is a gauge that selects one of several values. */
static bool is_one_of(const struct region_metric *m)
{
	const uint32_t combine = collect_combine_of(m);
	const bool gauge = m->kind == SL_KIND_GAUGE ||
			   (collect_is_f64(m) && m->kind != SL_KIND_COUNTER_F64);

	return gauge && (combine == SL_COMBINE_MIN || combine == SL_COMBINE_MAX ||
			 (combine == SL_COMBINE_MOST_RECENT && m->kind == SL_KIND_GAUGE_TIMED));
}

void collect_combine_cells(const struct region_metric *m, uint64_t *to, const uint64_t *from)
{
	bool f64 = collect_is_f64(m);
	bool sum = region_is_histogram(m) || m->kind == SL_KIND_SUMMARY;
	uint32_t cells = m->kind == SL_KIND_SUMMARY ? SL_SUMMARY_QUANTILES : m->cells;

	if (is_one_of(m)) {
		if (takes_other(m, to, from))
			memcpy(to, from, m->cells * sizeof(*to));
		return;
	}
	for (uint32_t i = 0; i < cells; i++) {
		if (m->kind == SL_KIND_GAUGE_TIMED && i) {
			to[i] = from[i] > to[i] ? from[i] : to[i];
		} else if (f64 || (sum && i == SL_HIST_SUM)) {
			to[i] = region_f64_bits(region_f64(to[i]) + region_f64(from[i]));
		} else if (m->kind == SL_KIND_STATESET) {
			to[i] |= from[i];
		} else {
			to[i] += from[i];
		}
	}
}

/* Makes a new object for each change, because the current index still refers to the old one. */
static void retire_cells(struct collect_collector *c, struct collect_region *r,
			 struct collect_retired_group *g, struct collect_def *def,
			 const uint64_t *cell)
{
	uint64_t hash = retired_hash(def, r->group);
	struct collect_retired *old = retired_find(c, hash, def, r->group), *t;
	size_t bytes = sizeof(*t) + def->metric.cells * sizeof(uint64_t);

	const bool room = old || make_room(c, r->tenant, g, def->metric.cells);

	t = room ? calloc(1, bytes) : NULL;
	if (!t) {
		relaxed_add(c->retired_lost, 1);
		return;
	}
	t->labels = collect_label_set_ref(r->group);
	t->refs = 1;
	t->tenant = collect_tenant_ref(r->tenant);
	t->def = old ? old->def : def;
	collect_def_ref(c, t->def);
	t->bytes = bytes;
	relaxed_add(c->memory, t->bytes);
	memcpy(t->cell, cell, def->metric.cells * sizeof(uint64_t));
	if (def->metric.kind == SL_KIND_SUMMARY)
		for (uint32_t i = SL_SUMMARY_QUANTILES; i < def->metric.cells; i++)
			t->cell[i] = region_f64_bits((double)NAN);
	if (old) {
		collect_combine_cells(&def->metric, t->cell, old->cell);
		sum_drop(c, old);
	}
	relaxed_add(c->retired_cells, def->metric.cells);
	t->tenant->retired_cells += def->metric.cells;
	g->tenant = t->tenant;
	sum_link(g, t);
	base_table_add(&c->retired, t, hash);
}

/* Returns true for metrics that outlive their process: counts, and gauges with a combine flag. */
static bool outlives_process(const struct collect_def *def)
{
	const struct region_metric *m = &def->metric;
	uint32_t combine = collect_combine_of(m);

	if (combine == SL_COMBINE_ALL || m->flags & SL_FLAG_LIVE)
		return false;
	return collect_counts(def->type) ||
	       (m->cells && combine > SL_COMBINE_DEFAULT && combine < SL_COMBINE_ALL);
}

void collect_retire_region(struct collect_collector *c, struct collect_region *r)
{
	struct collect_snapshot *b = r->shown;
	struct collect_retired_group *g;
	uint64_t *cell;

	/* The series of other publishers may come back in another region. */
	if (!b || !r->group || r->origin)
		return;
	cell = malloc((b->layout->cells + (size_t)1) * sizeof(*cell));
	g = cell ? group_of(c, r->group) : NULL;
	if (!g) {
		relaxed_add(c->retired_lost, b->layout->columns);
		free(cell);
		return;
	}
	collect_snapshot_read(b, 0, b->layout->cells, cell);
	for (uint32_t i = 0; i < b->layout->columns; i++) {
		struct collect_column *col = &b->layout->column[i];

		if (!col->twin && !col->removed && outlives_process(col->def))
			retire_cells(c, r, g, col->def, cell + col->cell);
	}
	if (!g->sum)
		group_drop(c, g);
	free(cell);
}

bool collect_retired_expire(struct collect_collector *c, uint64_t now_ns)
{
	bool any = false;

	if (!c->retired_oldest || now_ns < c->retired_due_ns)
		return false;
	c->retired_due_ns = now_ns + c->opts.retired_ns / RETIRED_LOOKS;
	for (size_t i = 0; i < c->regions; i++) {
		const struct collect_region *r = c->region[i];
		struct collect_retired_group *g = r->group ? group_find(c, r->group) : NULL;

		if (!g || g->alive_ns == now_ns)
			continue;
		group_unlink(c, g);
		group_link(c, g, now_ns);
	}
	while (c->retired_oldest && now_ns - c->retired_oldest->alive_ns >= c->opts.retired_ns) {
		group_drop(c, c->retired_oldest);
		any = true;
	}
	return any;
}

void collect_retired_free(struct collect_collector *c)
{
	while (c->retired_oldest)
		group_drop(c, c->retired_oldest);
	base_table_free(&c->retired);
	base_table_free(&c->retired_groups);
}
