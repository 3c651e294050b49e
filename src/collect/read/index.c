// SPDX-License-Identifier: Apache-2.0
/*
 * index.c - makes the index: all series of all regions by family, sorted by name
 *
 * Conflicts between series of one exposition are decided by tenant: trusted tenants come first,
 * then older tenants, and within a tenant its older regions, by the IDs of the directory's entries.
 * The first keeps its series; the others are left out and counted. If tenants contradict each other
 * about the type of a name, a trusted tenant decides, otherwise the majority, otherwise the oldest,
 * so a tenant cannot block others by claiming a name early. Thus a tenant can never remove a series
 * of a tenant ranked before it, and a restart of the collector changes nothing. Families contradict
 * each other if their samples share a name: a counter's samples are called "x_total", so it does
 * not contradict a gauge "x".
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"
#include "collect/read/calc.h"
#include "collect/read/collector_internal.h"
#include "collect/read/index.h"
#include "collect/read/ref.h"

/* ---- references ---- */

struct collect_index *collect_index_get(struct collect_collector *c)
{
	struct collect_index *x;

	pthread_mutex_lock(&c->index_lock);
	x = c->index;
	if (x)
		collect_ref_get(&x->refs);
	pthread_mutex_unlock(&c->index_lock);
	return x;
}

void collect_index_put(struct collect_index *x)
{
	if (!x || !collect_ref_put(&x->refs))
		return;
	for (size_t i = 0; i < x->regions; i++) {
		collect_snapshot_put(x->snapshot[i], x->c);
		collect_region_put(x->region[i]);
	}
	for (size_t i = 0; i < x->retireds; i++)
		collect_retired_put(x->retired[i], x->c);
	for (size_t i = 0; i < x->endeds; i++)
		collect_ended_put(x->ended[i]);
	relaxed_sub(x->c->memory, x->bytes);
	free(x->family);
	free(x->item);
	free(x->region);
	free(x->snapshot);
	free(x->by_instance);
	free(x->retired);
	free(x->ended);
	free(x);
}

/* ---- selection of regions ---- */

static int by_tenant_and_age(const void *a, const void *b)
{
	const struct collect_region *x = *(struct collect_region *const *)a,
				    *y = *(struct collect_region *const *)b;

	return collect_tenant_order(x->tenant, y->tenant) ?:
	       BASE_ORDER(relaxed_load(x->admitted), relaxed_load(y->admitted)) ?:
	       BASE_ORDER(x->age, y->age);
}

/* Sets the age of each tenant to the age of its oldest region. */
static void age_tenants(struct collect_index *x)
{
	for (size_t i = 0; i < x->regions; i++) {
		x->region[i]->tenant->first = UINT64_MAX;
		x->region[i]->tenant->left_out = 0;
	}
	for (size_t i = 0; i < x->regions; i++) {
		struct collect_tenant *t = x->region[i]->tenant;

		t->first = BASE_MIN(t->first, relaxed_load(x->region[i]->admitted));
	}
}

static int by_instance(const void *a, const void *b, void *regions)
{
	struct collect_region *const *region = regions;
	const uint32_t *x = a, *y = b;

	return BASE_ORDER(region[*x]->instance, region[*y]->instance);
}

static bool take_regions(struct collect_index *x, struct collect_collector *c)
{
	size_t n = c->regions;

	x->region = calloc(n + 1, sizeof(*x->region));
	x->snapshot = calloc(n + 1, sizeof(*x->snapshot));
	x->by_instance = calloc(n + 1, sizeof(*x->by_instance));
	if (!x->region || !x->snapshot || !x->by_instance)
		return false;
	if (n)
		memcpy(x->region, c->region, n * sizeof(*x->region));
	x->regions = n;
	age_tenants(x);
	qsort(x->region, n, sizeof(*x->region), by_tenant_and_age);
	for (size_t i = 0; i < n; i++) {
		x->by_instance[i] = (uint32_t)i;
		collect_ref_get(&x->region[i]->refs);
		x->snapshot[i] = x->region[i]->shown;
		if (x->snapshot[i])
			collect_ref_get(&x->snapshot[i]->refs);
	}
	qsort_r(x->by_instance, n, sizeof(*x->by_instance), by_instance, x->region);
	return true;
}

ssize_t collect_index_find(const struct collect_index *x, uint64_t instance)
{
	size_t at;

	BASE_LOWER_BOUND(at, 0, x->regions, x->region[x->by_instance[at]]->instance < instance);
	if (at == x->regions || x->region[x->by_instance[at]]->instance != instance)
		return -1;
	return x->by_instance[at];
}

/* ---- families ---- */

struct maker {
	struct collect_collector *c;
	struct collect_index *x;
	size_t capacity;
	uint64_t kind, name, duplicate, sum;
};

/* Returns the tenant of the region or sum that the item comes from. */
static struct collect_tenant *tenant_of(const struct collect_index *x, const struct collect_item *i)
{
	return i->source & ITEM_RETIRED ? x->retired[i->source & ~ITEM_RETIRED]->tenant
					: x->region[i->source]->tenant;
}

static void leave_out(struct maker *m, const struct collect_item *i, uint64_t *cause)
{
	++*cause;
	tenant_of(m->x, i)->left_out++;
}

/*
 * Returns the family with the item's name and type; NULL means the name is reserved, or out of
 * memory.
 */
static struct collect_index_family *family_of(struct maker *m, struct collect_def *def,
					      const struct collect_item *i)
{
	struct collect_family_name *name = def->family;
	struct collect_index *x = m->x;
	size_t at;

	if (name->build != m->c->build) {
		name->build = m->c->build;
		name->place = SIZE_MAX;
		/* The names of the collector's own series are reserved. */
		name->clash = collect_self_has(m->c, name->name);
	}
	if (name->clash)
		return NULL;
	for (at = name->place; at != SIZE_MAX; at = x->family[at].other)
		if (x->family[at].f.type == def->type)
			return &x->family[at];
	if (!BASE_GROW(x->family, x->families, m->capacity))
		return NULL;
	at = x->families++;
	x->family[at] = (struct collect_index_family){
		.f = {.name = name->name,
		      .help = def->metric.help,
		      .unit = def->metric.unit,
		      .type = def->type},
		.def = def,
		.tenant = tenant_of(x, i),
		.number = at,
		.other = name->place,
	};
	name->place = at;
	return &x->family[at];
}

static bool fits_family(const struct collect_index_family *f, const struct collect_def *def)
{
	return f && f->f.type == def->type;
}

bool collect_index_shows(const struct collect_collector *c, const struct collect_def *def)
{
	const struct collect_family_name *name = def->family;

	/* A name that is newer than the index has no place in it yet. */
	return !c->index || name->build != c->index->build ||
	       (name->place != SIZE_MAX && fits_family(&c->index->family[name->place], def));
}

typedef void item_fn(struct maker *m, struct collect_def *def, struct collect_item item, bool twin);

/*
 * Visits all columns of all regions, tenant by tenant; each tenant's retired sums follow its
 * regions.
 */
static void each_item(struct maker *m, item_fn *fn)
{
	struct collect_index *x = m->x;
	uint32_t t = 0;

	for (uint32_t i = 0; i <= x->regions; i++) {
		const struct collect_layout *l;

		for (; t < x->retireds &&
		       (i == x->regions ||
			collect_tenant_order(x->retired[t]->tenant, x->region[i]->tenant) < 0);
		     t++)
			fn(m, x->retired[t]->def, (struct collect_item){t | ITEM_RETIRED, 0},
			   false);
		if (i == x->regions)
			break;
		l = x->snapshot[i] ? x->snapshot[i]->layout : NULL;
		for (uint32_t k = 0; l && k < l->columns; k++)
			if (!l->column[k].removed)
				fn(m, l->column[k].def, (struct collect_item){i, k},
				   l->column[k].twin);
	}
}

static void count_item(struct maker *m, struct collect_def *def, struct collect_item item,
		       bool twin)
{
	struct collect_index_family *f = family_of(m, def, &item);
	const struct collect_tenant *whose = tenant_of(m->x, &item);

	if (!f || twin)
		return;
	f->items++;
	/* Items come sorted by tenant. Retired sums have no vote. */
	if (!(item.source & ITEM_RETIRED) && f->last != whose) {
		f->last = whose;
		f->tenants++;
	}
}

static int by_name(const void *a, const void *b)
{
	const struct collect_index_family *p = a, *q = b;

	return strcmp(p->f.name, q->f.name) ?:
	       p->def->family->counter - q->def->family->counter ?:
	       BASE_ORDER(p->number, q->number);
}

#define NAMED 0 /* any type with a sample named like the family, i.e. any type but a counter */

static bool is_exposed(const struct collect_index *x, const char *name, size_t bytes, int type,
		       const bool *exposed)
{
	size_t at;

	BASE_LOWER_BOUND(at, 0, x->families, strncmp(x->family[at].f.name, name, bytes) < 0);
	for (; at < x->families && !strncmp(x->family[at].f.name, name, bytes) &&
	       !x->family[at].f.name[bytes];
	     at++)
		if (exposed[at] && (type == NAMED ? !x->family[at].def->family->counter
						  : (int)x->family[at].f.type == type))
			return true;
	return false;
}

/* Samples that a family exposes under its name plus a suffix: histogram h has h_count. */
static const struct {
	const char *suffix;
	enum export_family_type type;
} made[] = {
	{"_bucket", EXPORT_FAMILY_HISTOGRAM},
	{"_count", EXPORT_FAMILY_HISTOGRAM},
	{"_sum", EXPORT_FAMILY_HISTOGRAM},
	{"_total", EXPORT_FAMILY_COUNTER},
	{"_info", EXPORT_FAMILY_INFO},
	{"_created", EXPORT_FAMILY_HISTOGRAM},
	{"_created", EXPORT_FAMILY_COUNTER},
	{"_created", EXPORT_FAMILY_SUMMARY},
	{"_count", EXPORT_FAMILY_SUMMARY},
	{"_sum", EXPORT_FAMILY_SUMMARY},
	{"_bucket", EXPORT_FAMILY_GAUGE_HISTOGRAM},
	{"_count", EXPORT_FAMILY_GAUGE_HISTOGRAM},
	{"_gcount", EXPORT_FAMILY_GAUGE_HISTOGRAM},
	{"_gsum", EXPORT_FAMILY_GAUGE_HISTOGRAM},
	{"_sum", EXPORT_FAMILY_GAUGE_HISTOGRAM},
};

/*
 * Returns true if a sample of this family may have the same name as a sample of another exposed
 * family.
 */
static bool is_clashing(const struct collect_index *x, const struct collect_index_family *f,
			const bool *exposed)
{
	bool named = !f->def->family->counter;
	size_t n = strlen(f->f.name);

	if (named && is_exposed(x, f->f.name, n, NAMED, exposed))
		return true;
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
		size_t s = strlen(made[i].suffix);
		char name[SL_NAME_MAX + 16];

		if (!x->created && !strcmp(made[i].suffix, "_created"))
			continue;
		if (named && n > s && !strcmp(f->f.name + n - s, made[i].suffix) &&
		    is_exposed(x, f->f.name, n - s, (int)made[i].type, exposed))
			return true;
		if (f->f.type != made[i].type)
			continue;
		snprintf(name, sizeof(name), "%s%s", f->f.name, made[i].suffix);
		if (is_exposed(x, name, n + s, NAMED, exposed))
			return true;
	}
	return false;
}

/* Within a tenant, the shorter name comes first: a histogram is preferred to its h_count. */
static int by_claim(const void *a, const void *b)
{
	const struct collect_index_family *p = *(struct collect_index_family *const *)a,
					  *q = *(struct collect_index_family *const *)b;
	const bool trusted = p->tenant->who.trusted;
	int order = q->tenant->who.trusted - trusted;

	if (!order && !trusted)
		order = BASE_ORDER(q->tenants, p->tenants);
	return order ?: collect_tenant_order(p->tenant, q->tenant) ?:
	       BASE_ORDER(strlen(p->f.name), strlen(q->f.name)) ?: by_name(p, q);
}

/* Returns an array that says for each family whether it is exposed, or NULL if out of memory. */
static bool *choose_families(struct collect_index *x)
{
	struct collect_index_family **order = malloc((x->families + 1) * sizeof(*order));
	bool *exposed = calloc(x->families + 1, sizeof(*exposed));

	if (!order || !exposed) {
		free(order);
		free(exposed);
		return NULL;
	}
	for (size_t i = 0; i < x->families; i++)
		order[i] = &x->family[i];
	qsort(order, x->families, sizeof(*order), by_claim);
	for (size_t i = 0; i < x->families; i++)
		exposed[order[i] - x->family] = !is_clashing(x, order[i], exposed);
	free(order);
	return exposed;
}

static bool place_families(struct maker *m)
{
	struct collect_index *x = m->x;
	size_t at = 0, n = 0;
	bool *exposed;

	if (x->families) /* qsort(NULL, 0) is undefined */
		qsort(x->family, x->families, sizeof(*x->family), by_name);
	exposed = choose_families(x);
	if (!exposed)
		return false;
	for (size_t i = 0; i < x->families; i++) {
		x->family[i].def->family->place = SIZE_MAX;
		x->family[i].def->family->clash = true;
	}
	for (size_t i = 0; i < x->families; i++) {
		struct collect_index_family f = x->family[i];

		if (!exposed[i])
			continue;
		f.first = at;
		at += f.items;
		f.items = 0;
		f.def->family->place = n;
		f.def->family->clash = false;
		x->family[n++] = f;
	}
	x->families = n;
	free(exposed);
	return true;
}

static void place_item(struct maker *m, struct collect_def *def, struct collect_item item,
		       bool twin)
{
	const struct collect_family_name *name = def->family;
	struct collect_index_family *f = name->place == SIZE_MAX ? NULL
								 : &m->x->family[name->place];

	if (fits_family(f, def) && !twin)
		m->x->item[f->first + f->items++] = item;
	else if (!(item.source & ITEM_RETIRED))
		leave_out(m, &item,
			  name->clash		 ? &m->name
			  : !fits_family(f, def) ? &m->kind
						 : &m->duplicate);
}

size_t collect_index_family(const struct collect_index *x, const char *name)
{
	size_t i;

	BASE_LOWER_BOUND(i, 0, x->families, strcmp(x->family[i].f.name, name) < 0);
	return i;
}

/* ---- series with the same labels ---- */

const struct collect_def *collect_index_def(const struct collect_index *x,
					    const struct collect_item *i)
{
	if (i->source & ITEM_RETIRED)
		return x->retired[i->source & ~ITEM_RETIRED]->def;
	return x->snapshot[i->source]->layout->column[i->column & ~ITEM_MORE].def;
}

const struct collect_label_set *collect_index_labels(const struct collect_index *x,
						     const struct collect_item *i)
{
	const struct collect_region *r;

	if (i->source & ITEM_RETIRED)
		return x->retired[i->source & ~ITEM_RETIRED]->labels;
	r = x->region[i->source];
	return r->c->opts.sum_processes && collect_combine_of(&collect_index_def(x, i)->metric) !=
						   SL_COMBINE_ALL
		       ? r->group
		       : r->labels;
}

/* Compares the labels of two series. */
static int by_labels(const void *a, const void *b, void *index)
{
	const struct collect_label_set *lp = collect_index_labels(index, a),
				       *lq = collect_index_labels(index, b);
	const struct collect_label_set *op = collect_index_def(index, a)->labels,
				       *oq = collect_index_def(index, b)->labels;

	return BASE_ORDER(lp->hash, lq->hash) ?: BASE_ORDER(op->hash, oq->hash) ?:
	       strcmp(lp->text, lq->text) ?: strcmp(op->text, oq->text);
}

static bool is_fractional(const struct collect_index *x, const struct collect_item *i)
{
	return collect_index_def(x, i)->metric.kind == SL_KIND_COUNTER_F64;
}

/* Fractional counters come first, because the first item of a sum decides the sum's type. */
static int by_labels_and_age(const void *a, const void *b, void *index)
{
	const struct collect_item *p = a, *q = b;

	return by_labels(a, b, index) ?: is_fractional(index, q) - is_fractional(index, p) ?:
	       BASE_ORDER(p->source, q->source);
}

bool collect_same_shape(const struct region_metric *a, const struct region_metric *b)
{
	return a->kind == b->kind && a->cells == b->cells && a->scale == b->scale &&
	       collect_combine_of(a) == collect_combine_of(b) &&
	       a->first_bucket == b->first_bucket && a->bound_count == b->bound_count &&
	       a->zero_threshold == b->zero_threshold &&
	       (!a->bound_count || !memcmp(a->bounds, b->bounds, a->bound_count * sizeof(double)));
}

/* Returns true if both publishers are in the same process, which has not restarted in between. */
static bool same_process(const struct collect_region *a, const struct collect_region *b)
{
	return !a->synthetic && !b->synthetic && a->info->pid == b->info->pid &&
	       a->info->start_ticks == b->info->start_ticks;
}

/* Series of different processes are summed only on request; counters of one process always are. */
static bool can_add(const struct maker *m, const struct collect_item *head,
		    const struct collect_item *now)
{
	const struct collect_index *x = m->x;
	const struct region_metric *a = &collect_index_def(x, head)->metric,
				   *b = &collect_index_def(x, now)->metric;

	if (m->c->opts.sum_processes)
		return (region_is_counter(a) && region_is_counter(b)) || collect_same_shape(a, b);
	return region_is_counter(a) && region_is_counter(b) &&
	       same_process(x->region[head->source], x->region[now->source]);
}

/* Combines items with the same labels into one series, or keeps only the oldest of them. */
static void group_items(struct maker *m, struct collect_index_family *f)
{
	struct collect_index *x = m->x;
	struct collect_item *item = x->item + f->first, *head = NULL;
	size_t n = 0;

	qsort_r(item, f->items, sizeof(*item), by_labels_and_age, x);
	for (size_t i = 0; i < f->items; i++) {
		struct collect_item now = item[i];

		if (!head || by_labels(head, &now, x)) {
			item[n] = now;
			head = &item[n++];
			f->f.series++;
		} else if (can_add(m, head, &now)) {
			now.column |= ITEM_MORE;
			item[n++] = now;
		} else {
			leave_out(m, &now, m->c->opts.sum_processes ? &m->sum : &m->duplicate);
		}
	}
	f->items = n;
}

/*
 * Returns true if any two regions have the same labels, which is rare: two publishers in one
 * process.
 */
static bool any_twins(const struct collect_index *x)
{
	uint64_t *hash = malloc((x->regions + 1) * sizeof(*hash));
	bool any = false;

	if (!hash)
		return true;
	for (size_t i = 0; i < x->regions; i++)
		hash[i] = x->region[i]->labels->hash;
	qsort(hash, x->regions, sizeof(*hash), base_by_u64);
	for (size_t i = 1; i < x->regions && !any; i++)
		any = hash[i] == hash[i - 1];
	free(hash);
	return any;
}

/* ---- sums of exited processes ---- */

static int retired_by_tenant(const void *a, const void *b)
{
	return collect_tenant_order((*(struct collect_retired *const *)a)->tenant,
				    (*(struct collect_retired *const *)b)->tenant);
}

static bool take_retired(struct collect_index *x, struct collect_collector *c)
{
	if (!c->retired.count) /* qsort(NULL, 0) is undefined */
		return true;
	x->retired = calloc(c->retired.count, sizeof(*x->retired));
	if (!x->retired)
		return false;
	BASE_TABLE_EACH(&c->retired, n) {
		x->retired[x->retireds] = (struct collect_retired *)n;
		collect_ref_get(&x->retired[x->retireds++]->refs);
	}
	qsort(x->retired, x->retireds, sizeof(*x->retired), retired_by_tenant);
	return true;
}

/* ---- ended regions ---- */

static int by_instance_and_end(const void *a, const void *b)
{
	const struct collect_ended *x = *(struct collect_ended *const *)a,
				   *y = *(struct collect_ended *const *)b;

	return BASE_ORDER(x->instance, y->instance) ?: BASE_ORDER(x->ended_ns, y->ended_ns);
}

static bool take_ended(struct collect_index *x, struct collect_collector *c)
{
	if (!c->ended) /* qsort(NULL, 0) is undefined */
		return true;
	x->ended = calloc(c->ended_count, sizeof(*x->ended));
	if (!x->ended)
		return false;
	for (struct collect_ended *e = c->ended; e; e = e->next) {
		x->ended[x->endeds++] = e;
		collect_ref_get(&e->refs);
	}
	qsort(x->ended, x->endeds, sizeof(*x->ended), by_instance_and_end);
	return true;
}

const struct collect_ended *collect_index_ended(const struct collect_index *x, uint64_t instance,
						int64_t ended_ns)
{
	struct collect_ended key = {.instance = instance, .ended_ns = ended_ns ?: INT64_MAX};
	struct collect_ended *of = &key, *e;
	size_t after;

	BASE_LOWER_BOUND(after, 0, x->endeds, by_instance_and_end(&x->ended[after], &of) <= 0);
	e = after ? x->ended[after - 1] : NULL;
	return e && e->instance == instance && (!ended_ns || e->ended_ns == ended_ns) ? e : NULL;
}

/* ---- the complete index ---- */

struct collect_index *collect_index_new(struct collect_collector *c)
{
	struct collect_index *x = calloc(1, sizeof(*x));
	struct maker m = {.c = c, .x = x};
	bool twins;

	if (!x)
		return NULL;
	x->refs = 1;
	x->c = c;
	x->created = c->opts.created;
	c->build++;
	x->build = c->build;
	if (!take_regions(x, c) || !take_retired(x, c) || !take_ended(x, c))
		goto fail;
	each_item(&m, count_item);
	for (size_t i = 0; i < x->families; i++)
		x->items += x->family[i].items; /* upper limit */
	if (!place_families(&m))
		goto fail;
	x->item = malloc((x->items + 1) * sizeof(*x->item));
	if (!x->item)
		goto fail;
	each_item(&m, place_item);
	twins = c->opts.sum_processes || any_twins(x);
	for (size_t i = 0; i < x->families; i++) {
		if (twins)
			group_items(&m, &x->family[i]);
		else
			x->family[i].f.series = x->family[i].items;
		x->series += x->family[i].f.series;
	}
	x->bytes = sizeof(*x) + m.capacity * sizeof(*x->family) + x->items * sizeof(*x->item) +
		   x->regions * (sizeof(*x->region) + sizeof(*x->snapshot) + sizeof(uint32_t)) +
		   x->retireds * sizeof(*x->retired) + x->endeds * sizeof(*x->ended);
	relaxed_add(c->memory, x->bytes);
	for (size_t i = 0; i < x->regions; i++)
		relaxed_store(x->region[i]->tenant->conflicts, x->region[i]->tenant->left_out);
	relaxed_store(c->conflicts_kind, m.kind);
	relaxed_store(c->conflicts_name, m.name);
	relaxed_store(c->conflicts_duplicate, m.duplicate);
	relaxed_store(c->conflicts_sum, m.sum);
	return x;
fail:
	collect_index_put(x);
	return NULL;
}
