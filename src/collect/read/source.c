// SPDX-License-Identifier: Apache-2.0
/*
 * source.c - walks the families of an index and the collector's own, merged by name, for the
 * exposition. Labels were rendered when layouts were made, so a series costs at most one copy.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "collect/read/collector_internal.h"
#include "collect/read/exemplars.h"
#include "collect/read/index.h"
#include "collect/read/self.h"
#include "collect/read/turn.h"

enum { HIDDEN, SHOWN, SHOWN_DEAD };

struct source_walk {
	struct collect_collector *c;
	struct collect_index *x;
	struct collect_self *self;
	size_t next_family;
	bool in_self;
	size_t at, end; /* current and last item of the family */
	bool sums;
	uint8_t *seen;	   /* for each region, whether it is exposed */
	uint32_t *columns; /* number of columns exposed per region; NULL means all */
	/* Label text of the last series: the region's labels, then the metric's. */
	const struct collect_label_set *prefix; /* label set at the start of text, or NULL */
	char *text;
	size_t text_room;
	const char **keys, **values;
	size_t label_room;
	uint64_t *cell, *more;
	size_t cell_room, more_room;
	/* Exemplars of the last series. They do not move, because their labels point into them. */
	struct region_exemplar *exemplar; /* [COLLECT_SERIES_EXEMPLARS] */
	size_t exemplars, exemplar_turn;
	struct export_exemplar *shown;	 /* [COLLECT_SERIES_EXEMPLARS], sorted by bucket */
	struct collect_trace_link *link; /* recently kept traces */
	size_t links;
};

static void walk_end(void *arg)
{
	struct source_walk *w = arg;

	if (!w)
		return;
	collect_self_end(w->self);
	collect_index_put(w->x);
	free(w->seen);
	free(w->columns);
	free(w->text);
	free(w->keys);
	free(w->values);
	free(w->cell);
	free(w->more);
	free(w->exemplar);
	free(w->link);
	free(w->shown);
	free(w);
}

/* ---- limit of exposed series ---- */

static size_t series_of(const struct source_walk *w, size_t region)
{
	const struct collect_snapshot *b = w->x->snapshot[region];

	return w->seen[region] != HIDDEN && b ? b->layout->columns : 0;
}

/*
 * Returns the end of the tenant whose regions begin at first; *series: number of the tenant's
 * series.
 */
static size_t tenant_end(const struct source_walk *w, size_t first, size_t *series)
{
	size_t i = first;

	for (*series = 0; i < w->x->regions; i++) {
		if (w->x->region[i]->tenant != w->x->region[first]->tenant)
			break;
		*series += series_of(w, i);
	}
	return i;
}

/*
 * Returns the maximum number of series per tenant that keeps the total within the limit: a tenant
 * that needs less than an equal share leaves the rest to others. SIZE_MAX means no tenant has too
 * many. Returns 0 with errno set if out of memory.
 */
static size_t fair_share(const struct source_walk *w, size_t limit)
{
	uint64_t *need = malloc((w->x->regions + 1) * sizeof(*need));
	size_t n = 0, share;

	if (!need)
		return 0;
	for (size_t i = 0; i < w->x->regions; n++)
		i = tenant_end(w, i, &need[n]);
	share = collect_fair_level(need, n, limit) ?: 1;
	free(need);
	return share;
}

/*
 * Exposes the oldest regions of each tenant, and only the first series of the region that reaches
 * the limit.
 */
static bool keep_within(struct source_walk *w, size_t limit)
{
	size_t share = fair_share(w, limit), left_out = 0, end, all;

	if (share == SIZE_MAX)
		return true;
	w->columns = calloc(w->x->regions, sizeof(*w->columns));
	if (!share || !w->columns)
		return false;
	for (size_t i = 0; i < w->x->regions; i = end) {
		size_t room = share;

		end = tenant_end(w, i, &all);
		left_out += all > room ? all - room : 0;
		for (size_t k = i; k < end; k++) {
			w->columns[k] = (uint32_t)BASE_MIN(series_of(w, k), room);
			room -= w->columns[k];
		}
	}
	w->self->left_out_series = left_out;
	return true;
}

static void *walk_begin(void *ctx)
{
	struct collect_collector *c = ctx;
	struct source_walk *w = calloc(1, sizeof(*w));
	uint64_t now = base_now_ns();

	if (!w)
		return NULL;
	w->c = c;
	w->sums = c->opts.sum_processes;
	w->x = collect_index_get(c);
	w->self = collect_self_begin(c, w->x);
	w->seen = malloc((w->x ? w->x->regions : 0) + 1);
	w->link = malloc(COLLECT_TRACE_LINKS * sizeof(*w->link));
	w->exemplar = malloc(COLLECT_SERIES_EXEMPLARS * sizeof(*w->exemplar));
	w->shown = malloc(COLLECT_SERIES_EXEMPLARS * sizeof(*w->shown));
	if (!w->self || !w->seen || !w->link || !w->exemplar || !w->shown) {
		walk_end(w);
		errno = ENOMEM;
		return NULL;
	}
	w->links = collect_trace_links(c, w->link);
	for (size_t i = 0; w->x && i < w->x->regions; i++) {
		const struct collect_region *r = w->x->region[i];

		/*
		 * An expired region still counts in its sum until the next index replaces it with a
		 * retired sum.
		 */
		w->seen[i] = collect_region_visible(r, now) ||
					     (w->sums && relaxed_load(r->step) == STEP_GONE)
				     ? relaxed_load(r->state) == SL_STATE_LIVE ? SHOWN : SHOWN_DEAD
				     : HIDDEN;
	}
	if (c->opts.max_exposed_series && w->x && !keep_within(w, c->opts.max_exposed_series)) {
		walk_end(w);
		errno = ENOMEM;
		return NULL;
	}
	return w;
}

static bool is_shown(const struct source_walk *w, const struct collect_item *i)
{
	if (i->source & ITEM_RETIRED)
		return true;
	if (w->columns && (i->column & ~ITEM_MORE) >= w->columns[i->source])
		return false;
	if (w->seen[i->source] == SHOWN)
		return true;
	/* In a sum, some values of exited processes must not count (SL_FLAG_LIVE). */
	return w->seen[i->source] == SHOWN_DEAD &&
	       !(w->sums && collect_index_def(w->x, i)->metric.flags & SL_FLAG_LIVE);
}

/* Moves to the next exposed series. Returns false if there is none. */
static bool any_left(struct source_walk *w)
{
	while (w->at < w->end && !is_shown(w, &w->x->item[w->at]))
		w->at++;
	return w->at < w->end;
}

static int walk_family(void *arg, struct export_family *out)
{
	struct source_walk *w = arg;
	size_t families = w->x ? w->x->families : 0;

	for (;;) {
		const struct export_family *own = collect_self_peek(w->self);
		const struct collect_index_family *f;

		f = w->next_family < families ? &w->x->family[w->next_family] : NULL;
		w->in_self = own && (!f || strcmp(own->name, f->f.name) < 0);
		if (w->in_self) {
			collect_self_enter(w->self);
			*out = *own;
			return 1;
		}
		if (!f)
			return 0;
		w->next_family++;
		w->at = f->first;
		w->end = f->first + f->items;
		if (any_left(w)) {
			*out = f->f;
			return 1;
		}
	}
}

/* ---- labels ---- */

/* Makes room for both label sets, keeping the content. */
static bool label_room(struct source_walk *w, size_t bytes, size_t labels)
{
	size_t have = w->label_room;

	return base_grow(&w->text, &w->text_room, bytes, 1) &&
	       base_grow(&w->keys, &have, labels, sizeof(*w->keys)) &&
	       base_grow(&w->values, &w->label_room, labels, sizeof(*w->values));
}

static bool set_labels(struct source_walk *w, const struct collect_label_set *prefix,
		       const struct collect_label_set *own, struct export_series *out)
{
	size_t n = prefix->text_bytes;

	out->utf8 = prefix->utf8 || own->utf8;
	out->label_text = prefix->text;
	out->label_bytes = n;
	out->label_keys = prefix->keys;
	out->label_values = prefix->values;
	out->label_count = prefix->count;
	if (!own->count)
		return true;
	if (!label_room(w, n + 1 + own->text_bytes, prefix->count + own->count))
		return false;
	if (w->prefix != prefix) {
		memcpy(w->text, prefix->text, n);
		memcpy(w->keys, prefix->keys, prefix->count * sizeof(*w->keys));
		memcpy(w->values, prefix->values, prefix->count * sizeof(*w->values));
		w->prefix = prefix;
	}
	if (prefix->count)
		w->text[n++] = ',';
	memcpy(w->text + n, own->text, own->text_bytes);
	for (uint32_t i = 0; i < own->count; i++) {
		w->keys[prefix->count + i] = own->keys[i];
		w->values[prefix->count + i] = own->values[i];
	}
	out->label_text = w->text;
	out->label_bytes = n + own->text_bytes;
	out->label_keys = w->keys;
	out->label_values = w->values;
	out->label_count = prefix->count + own->count;
	return true;
}

/* ---- values ---- */

/* Copies the cells of one item, all from the same pass. */
static void get_cells(const struct source_walk *w, const struct collect_item *i, uint64_t *to)
{
	const struct collect_snapshot *b;
	const struct collect_column *col;

	if (i->source & ITEM_RETIRED) {
		const struct collect_retired *t = w->x->retired[i->source & ~ITEM_RETIRED];

		memcpy(to, t->cell, t->def->metric.cells * sizeof(*to));
		return;
	}
	b = w->x->snapshot[i->source];
	col = &b->layout->column[i->column & ~ITEM_MORE];
	/* A single word is never torn. */
	if (col->def->metric.cells == 1)
		to[0] = relaxed_load(b->cell[col->cell]);
	else
		collect_snapshot_read(b, col->cell, col->def->metric.cells, to);
}

/* ---- exemplars ---- */

/*
 * Collects the exemplars of an item. Beyond the limit, each new one replaces the oldest, so that
 * the latest remain.
 */
static void gather_exemplars(struct source_walk *w, const struct collect_item *i)
{
	const struct collect_column *col;
	struct region_exemplar e;
	uint32_t at = 0;

	if (i->source & ITEM_RETIRED)
		return;
	col = &w->x->snapshot[i->source]->layout->column[i->column & ~ITEM_MORE];
	while (collect_exemplars_next(w->x->region[i->source], col, &at, &e)) {
		struct region_exemplar *to = &w->exemplar[w->exemplars];

		if (w->exemplars == COLLECT_SERIES_EXEMPLARS) {
			to = &w->exemplar[w->exemplar_turn++ % w->exemplars];
			if (e.ns < to->ns)
				continue;
		} else {
			w->exemplars++;
		}
		region_exemplar_copy(to, &e);
	}
}

/* Adds exemplars that link to kept traces. They replace other exemplars of the same buckets. */
static void link_traces(struct source_walk *w, const struct collect_item *i, const uint64_t *cells)
{
	const struct collect_def *def = collect_index_def(w->x, i);

	/* Go from the oldest to the newest trace, so that the newest of a bucket remains. */
	for (size_t n = i->source & ITEM_RETIRED ? 0 : w->links; n-- > 0;) {
		uint32_t cell;
		size_t k = 0;

		if (w->link[n].instance != w->x->region[i->source]->instance ||
		    !collect_trace_link_fits(&w->link[n], def, cells, &cell))
			continue;
		while (k < w->exemplars && w->exemplar[k].cell != cell)
			k++;
		if (k == COLLECT_SERIES_EXEMPLARS)
			continue;
		w->exemplars += k == w->exemplars;
		collect_trace_link_exemplar(&w->link[n], cell, &w->exemplar[k]);
	}
}

static int by_bucket(const void *a, const void *b)
{
	const struct export_exemplar *x = a, *y = b;

	return BASE_ORDER(x->bucket, y->bucket);
}

static void set_exemplars(struct source_walk *w, enum export_family_type type,
			  struct export_series *out)
{
	const bool buckets = type == EXPORT_FAMILY_HISTOGRAM ||
			     type == EXPORT_FAMILY_GAUGE_HISTOGRAM;

	if (!w->exemplars)
		return;
	for (size_t i = 0; i < w->exemplars; i++) {
		const struct region_exemplar *e = &w->exemplar[i];

		w->shown[i] = (struct export_exemplar){.bucket = e->cell -
								 (buckets ? SL_HIST_BUCKETS : 0),
						       .value = e->value,
						       .ns = e->ns,
						       .labels = e->labels,
						       .label_count = e->label_count};
	}
	qsort(w->shown, w->exemplars, sizeof(*w->shown), by_bucket);
	out->exemplars = w->shown;
	out->exemplar_count = w->exemplars;
}

/* ---- sums ---- */

/* Quantiles of several processes cannot be combined, and exited processes have none. */
static void combine_quantiles(const struct source_walk *w, const struct region_metric *m, bool only)
{
	for (uint32_t i = SL_SUMMARY_QUANTILES; i < m->cells; i++)
		w->cell[i] = only ? w->more[i] : region_f64_bits((double)NAN);
}

/*
 * Adds the other members of a sum. Gauges of dead members count only if no member is alive or a
 * combine flag is set.
 */
static void add_members(struct source_walk *w, const struct region_metric *m,
			enum export_family_type type, const struct collect_item *head)
{
	bool counts = collect_counts(type) || m->flags & SL_FLAG_COMBINE;
	bool alive;

	alive = !(head->source & ITEM_RETIRED) && w->seen[head->source] == SHOWN;
	for (; w->at < w->end && w->x->item[w->at].column & ITEM_MORE; w->at++) {
		const struct collect_item *i = &w->x->item[w->at];
		bool lives;

		if (!is_shown(w, i) || !m->cells)
			continue;
		get_cells(w, i, w->more);
		gather_exemplars(w, i);
		link_traces(w, i, w->more);
		if (m->kind == SL_KIND_COUNTER_F64 &&
		    collect_index_def(w->x, i)->metric.kind == SL_KIND_COUNTER)
			*w->more = region_f64_bits((double)*w->more);
		lives = !(i->source & ITEM_RETIRED) && w->seen[i->source] == SHOWN;
		if (counts) {
			collect_combine_cells(m, w->cell, w->more);
			if (m->kind == SL_KIND_SUMMARY && lives)
				combine_quantiles(w, m, !alive);
		} else if (lives && !alive)
			memcpy(w->cell, w->more, m->cells * sizeof(*w->cell));
		else if (lives || !alive)
			collect_combine_cells(m, w->cell, w->more);
		alive = alive || lives;
	}
}

static void set_value(const struct region_metric *m, const uint64_t *cell,
		      struct export_series *out)
{
	switch (m->kind) {
	case SL_KIND_COUNTER:
	case SL_KIND_STATESET:
		out->value_type = EXPORT_VALUE_U64;
		out->value.u64 = cell[0];
		out->states = m->states;
		out->state_count = m->state_count;
		break;
	case SL_KIND_GAUGE:
		out->value_type = EXPORT_VALUE_I64;
		out->value.i64 = (int64_t)cell[0];
		break;
	case SL_KIND_COUNTER_F64:
	case SL_KIND_GAUGE_F64:
	case SL_KIND_UNKNOWN:
	case SL_KIND_GAUGE_TIMED:
		out->value_type = EXPORT_VALUE_F64;
		out->value.f64 = region_f64(cell[0]);
		break;
	case SL_KIND_SUMMARY:
		out->value_type = EXPORT_VALUE_U64;
		out->value.u64 = cell[SL_SUMMARY_COUNT];
		out->sum = region_f64(cell[SL_SUMMARY_SUM]);
		out->quantiles = cell + SL_SUMMARY_QUANTILES;
		out->bounds = m->bounds;
		out->bound_count = m->bound_count;
		break;
	case SL_KIND_HISTOGRAM:
	case SL_KIND_HISTOGRAM_EXP:
	case SL_KIND_GAUGE_HISTOGRAM:
	case SL_KIND_GAUGE_HISTOGRAM_EXP:
		out->value_type = EXPORT_VALUE_U64;
		out->sum = region_f64(cell[SL_HIST_SUM]);
		out->exponential = region_is_exponential(m);
		out->detail = collect_detail(m);
		out->buckets = cell + SL_HIST_BUCKETS;
		out->bucket_count = m->cells - SL_HIST_BUCKETS;
		out->bounds = m->bounds;
		out->bound_count = m->bound_count;
		out->scale = m->scale;
		out->first_bucket = m->first_bucket;
		out->zero_threshold = m->zero_threshold;
		break;
	case SL_KIND_INFO:
		out->value_type = EXPORT_VALUE_U64;
		out->value.u64 = 1;
		break;
	}
}

static int walk_series(void *arg, struct export_series *out)
{
	struct source_walk *w = arg;
	const struct region_metric *m;
	const struct collect_item *i;
	const struct collect_def *def;

	out->exemplar_count = 0;
	out->created_known = false;
	out->utf8 = false;
	w->exemplars = 0;
	if (w->in_self)
		return collect_self_next(w->self, out);
	if (!any_left(w))
		return 0;
	i = &w->x->item[w->at++];
	def = collect_index_def(w->x, i);
	/* A sum has no creation time. */
	out->created_ns = 0;
	if (!w->sums && (w->at == w->end || !(w->x->item[w->at].column & ITEM_MORE))) {
		const struct collect_layout *l = w->x->snapshot[i->source]->layout;

		out->created_ns = collect_column_created(&l->column[i->column & ~ITEM_MORE],
							 w->x->region[i->source]->info,
							 &out->created_known);
	}
	m = &def->metric;
	if (!base_grow(&w->cell, &w->cell_room, m->cells, sizeof(*w->cell)) ||
	    !base_grow(&w->more, &w->more_room, m->cells, sizeof(*w->more)) ||
	    !set_labels(w, collect_index_labels(w->x, i), def->labels, out))
		return -ENOMEM;
	if (m->cells)
		get_cells(w, i, w->cell);
	gather_exemplars(w, i);
	link_traces(w, i, w->cell);
	add_members(w, m, def->type, i);
	set_exemplars(w, def->type, out);
	set_value(m, w->cell, out);
	return 1;
}

static bool has_family(void *arg, const char *name)
{
	const struct source_walk *w = arg;
	size_t i = w->x ? collect_index_family(w->x, name) : 0;

	return collect_self_has(w->c, name) ||
	       (w->x && i < w->x->families && !strcmp(w->x->family[i].f.name, name));
}

struct export_source collect_collector_source(struct collect_collector *c)
{
	return (struct export_source){
		.ctx = c,
		.begin = walk_begin,
		.next_family = walk_family,
		.next_series = walk_series,
		.end = walk_end,
		.has_family = has_family,
		.created = c->opts.created,
		.left_out = &c->left_out_families,
	};
}
