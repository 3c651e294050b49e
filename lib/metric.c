// SPDX-License-Identifier: Apache-2.0
/* metric.c - creates metrics and families: hash tables, cells. */
#include <errno.h>
#include <stdlib.h>

#include "metric.h"

static const struct {
	const char *text;
	int error;
} refusals[SL__REFUSED_COUNT] = {
	[SL__REFUSED_OPTS] = {"the options are missing, or belong to a newer version of the "
			      "library",
			      EINVAL},
	[SL__REFUSED_NAME] = {"the name is missing or malformed", EINVAL},
	[SL__REFUSED_LABEL] = {"a label is malformed, reserved or duplicate, or there are too "
			       "many labels",
			       EINVAL},
	[SL__REFUSED_TEXT] = {"the help text, the unit or a state is malformed or too long",
			      EINVAL},
	[SL__REFUSED_SHAPE] = {"the number or values of buckets or states are out of range",
			       EINVAL},
	[SL__REFUSED_FLAGS] = {"the options cannot be combined, or this kind of metric does not "
			       "support them",
			       EINVAL},
	[SL__REFUSED_CONFLICT] = {"a metric of another kind, shape or flags already has this name",
				  EEXIST},
	[SL__REFUSED_CELLS] = {"no cells are left: raise max_cells", ENOSPC},
	[SL__REFUSED_SCHEMA] = {"no space is left for names: raise schema_bytes", ENOSPC},
	[SL__REFUSED_MEMORY] = {"no memory", ENOMEM},
	[SL__REFUSED_SPANS] = {"the publisher has no space for spans: set span_bytes", EINVAL},
	[SL__REFUSED_REGIONS] = {"no cells are left, and the process already has 63 regions: "
				 "raise max_cells, or publish from several processes",
				 ENOSPC},
};

/* ---- tables ---- */

/* Doubles both hash tables. A failure is harmless: the chains grow longer. */
static void tables_grow(struct sl_publisher *p)
{
	uint32_t buckets = p->buckets ? p->buckets * 2 : 64;
	struct sl__family **families = calloc(buckets, sizeof(struct sl__family *));
	struct sl__metric **metrics = calloc(buckets, sizeof(struct sl__metric *));

	if (!families || !metrics) {
		free(families);
		free(metrics);
		return;
	}
	for (uint32_t i = 0; i < p->buckets; i++) {
		for (struct sl__family *f = p->families[i], *next; f; f = next) {
			next = f->next;
			f->next = families[f->hash & (buckets - 1)];
			families[f->hash & (buckets - 1)] = f;
		}
		for (struct sl__metric *m = p->metrics[i], *next; m; m = next) {
			next = m->next;
			m->next = metrics[m->hash & (buckets - 1)];
			metrics[m->hash & (buckets - 1)] = m;
		}
	}
	free(p->families);
	free(p->metrics);
	p->families = families;
	p->metrics = metrics;
	p->buckets = buckets;
}

static struct sl__family *family_find(const struct sl_publisher *p, const struct sl__metric *m,
				      uint64_t hash)
{
	struct sl__family *f = p->families[hash & (p->buckets - 1)];
	uint32_t bytes = m->record.name_bytes;

	while (f &&
	       (f->hash != hash || strncmp(f->name, sl__metric_name(m), bytes) || f->name[bytes]))
		f = f->next;
	return f;
}

static struct sl__family *family_new(const struct sl__metric *m, uint64_t hash)
{
	struct sl__family *f = calloc(1, sizeof(*f) + m->record.name_bytes + 1u);

	if (!f)
		return NULL;
	f->kind = sl__metric_kind(m);
	f->hash = hash;
	memcpy(f->name, sl__metric_name(m), m->record.name_bytes);
	return f;
}

static void family_enter(struct sl_publisher *p, struct sl__family *f)
{
	struct sl__family **bucket = &p->families[f->hash & (p->buckets - 1)];

	f->next = *bucket;
	*bucket = f;
}

static uint64_t name_hash(const struct sl__metric *m)
{
	return sl_fnv1a(SL_FNV_BASIS, sl__metric_name(m), m->record.name_bytes);
}

void sl__metrics_free(struct sl__region *r)
{
	for (struct sl__metric *m = r->first, *next; m; m = next) {
		next = m->next_new;
		sl__buckets_put(m->buckets);
		free(m);
	}
	sl__vacancies_free(r);
}

void sl__tables_free(struct sl_publisher *p)
{
	for (uint32_t i = 0; i < p->buckets; i++) {
		for (struct sl__family *f = p->families[i], *next; f; f = next) {
			next = f->next;
			free(f->model);
			free(f);
		}
	}
	free(p->models);
	free(p->families);
	free(p->metrics);
}

/* Writes all records into a new region, whose memory region_make() allocated. */
void sl__metrics_rewrite(struct sl__region *r)
{
	for (struct sl__metric *m = r->first; m; m = m->next_new) {
		memcpy(r->base + r->schema_offset + m->schema_at, &m->record, m->record.length);
		m->uses = 0; /* number of uses in this region */
		if (!m->removed_ns)
			sl__metric_created(m);
	}
}

bool sl__metric_same(const struct sl__metric *a, const struct sl__metric *b)
{
	return a->hash == b->hash &&
	       sl__is_string(a->record.kind) == sl__is_string(b->record.kind) &&
	       a->record.name_bytes == b->record.name_bytes &&
	       a->record.label_bytes == b->record.label_bytes &&
	       !memcmp(sl__metric_text(a, a->name_at), sl__metric_text(b, b->name_at),
		       a->record.name_bytes) &&
	       !memcmp(sl__metric_text(a, a->labels_at), sl__metric_text(b, b->labels_at),
		       a->record.label_bytes);
}

static bool same_shape(const struct sl__metric *a, const struct sl__metric *b)
{
	const struct sl_schema_record *r = &a->record, *s = &b->record;
	uint32_t states_at = a->labels_at + r->label_bytes;

	return sl__metric_kind(a) == sl__metric_kind(b) && r->flags == s->flags &&
	       r->cells == s->cells && r->scale == s->scale && r->first_bucket == s->first_bucket &&
	       r->zero_threshold == s->zero_threshold && r->bound_count == s->bound_count &&
	       r->state_count == s->state_count && r->state_bytes == s->state_bytes &&
	       !memcmp(r + 1, s + 1, r->bound_count * sizeof(double)) &&
	       !memcmp(sl__metric_text(a, states_at),
		       sl__metric_text(b, b->labels_at + s->label_bytes), r->state_bytes);
}

/* ---- cells ---- */

/* Returns the first cell for the next metric of `cells` cells. */
static uint32_t find_first_cell(const struct sl__region *r, uint32_t cells)
{
	uint32_t i = r->block_used;

	if (cells != 1 || i == SL__BLOCK)
		return r->cells_end;
	return r->block + i % SL__BLOCK_LINES * SL_LINE_CELLS + i / SL__BLOCK_LINES;
}

/* Returns the number of lines in use in a stripe once this metric is added. */
static uint32_t lines_with(const struct sl__region *r, uint32_t cells)
{
	uint32_t lines = (find_first_cell(r, cells) + cells + SL_LINE_CELLS - 1) / SL_LINE_CELLS;

	return cells && lines > r->lines_used ? lines : r->lines_used;
}

static void take_place(struct sl__region *r, uint32_t cells)
{
	r->lines_used = lines_with(r, cells);
	r->cells_used += cells;
	if (cells != 1) {
		r->cells_end += cells;
		return;
	}
	if (r->block_used == SL__BLOCK) {
		r->block = r->cells_end;
		r->block_used = 0;
		r->cells_end += SL__BLOCK;
	}
	r->block_used++;
}

/*
 * Extends a part of the region, of which *pages pages are allocated, to `to` pages. Does nothing if
 * it has them already.
 */
static int allocate_pages(struct sl__region *r, uint64_t offset, uint32_t *pages, uint32_t to)
{
	int error = 0;

	if (to > *pages)
		error = sl__allocate(r, offset + (uint64_t)*pages * SL__PAGE,
				     (uint64_t)(to - *pages) * SL__PAGE);
	if (to > *pages && !error)
		*pages = to;
	return error;
}

/* Allocates memory for the cells in all stripes in use, the record, and its creation time. */
static int reserve_memory(struct sl__region *r, uint32_t cells, uint32_t record)
{
	uint32_t lines = lines_with(r, cells), stripes = atomic_load(&r->stripes_used);
	uint32_t to = (lines * SL_LINE_SIZE + SL__PAGE - 1) / SL__PAGE, pages = r->stripe_pages;
	int error = 0;

	for (uint32_t i = 0; i < stripes && !error; i++) {
		pages = r->stripe_pages;
		error = allocate_pages(r, r->stripe_offset + (uint64_t)i * r->stride, &pages, to);
	}
	if (error)
		return error;
	r->stripe_pages = pages;
	error = allocate_pages(r, r->schema_offset, &r->schema_pages,
			       (r->schema_used + record + SL__PAGE - 1) / SL__PAGE);
	return error
		       ?: allocate_pages(r, r->created_offset, &r->created_pages,
					 sl__created_pages(r->record_count + 1));
}

/* ---- adding, under the lock ---- */

void sl__metric_link(struct sl_publisher *p, struct sl__metric *m)
{
	struct sl__metric **bucket = &p->metrics[m->hash & (p->buckets - 1)];

	m->next = *bucket;
	*bucket = m;
}

/* Writes the record and its creation time. The caller updates the hot line. */
void sl__metric_write(struct sl__metric *m)
{
	const struct sl__region *r = m->region;

	m->record.generation = r->generation + 1;
	m->record.check = 0;
	m->record.check = sl_fnv1a(SL_FNV_BASIS, &m->record, m->record.length);
	memcpy(r->base + r->schema_offset + m->schema_at, &m->record, m->record.length);
	sl__metric_created(m);
}

/* Adds a new metric to the tables. Its memory is already reserved. */
static void metric_enter(struct sl__region *r, struct sl__metric *m)
{
	struct sl_publisher *p = r->publisher;

	m->region = r;
	m->record.cell = find_first_cell(r, m->record.cells);
	m->record.id = r->record_count;
	m->schema_at = r->schema_used;
	sl__metric_write(m);

	take_place(r, m->record.cells);
	r->schema_used += m->record.length;
	r->record_count++;
	p->metric_count++;
	p->string_count += sl__is_string(m->record.kind);
	sl__hot_change(r);

	sl__metric_link(p, m);
	*r->last = m;
	r->last = &m->next_new;
}

/*
 * Returns a region with space for the metric, adding one if needed. On failure returns NULL and
 * sets *refusal. Strings go to the first region, next to the spans that refer to them.
 */
static struct sl__region *region_for(struct sl_publisher *p, const struct sl__metric *m,
				     int *refusal)
{
	struct sl__region *r = p->regions;
	bool full;

	for (; r; r = sl__is_string(m->record.kind) ? NULL : r->next) {
		if (m->record.cells > r->max_cells - r->cells_used)
			*refusal = SL__REFUSED_CELLS;
		else if (m->record.length > r->schema_bytes - r->schema_used)
			*refusal = SL__REFUSED_SCHEMA;
		else if (!r->orphan)
			return r;
	}
	if (sl__is_string(m->record.kind) || (p->flags & SL_PUBLISHER_FIXED))
		return NULL;
	full = sl__regions_full();
	r = sl__region_further(p, m->record.cells, m->record.length);
	if (!r && full)
		*refusal = SL__REFUSED_REGIONS;
	return r;
}

/* Adds *metric, or replaces it with the existing one. Takes ownership. Returns 0 or a refusal. */
static int metric_add(struct sl_publisher *p, struct sl__metric **metric)
{
	struct sl__metric *m = *metric, *old, *removed = NULL;
	struct sl__region *region = NULL;
	struct sl__family *family = NULL, *new_family = NULL;
	const uint64_t hash = name_hash(m);
	int refusal;

	refusal = SL__REFUSED_MEMORY;
	if (p->metric_count >= p->buckets)
		tables_grow(p);
	if (!p->buckets)
		goto err;
	for (old = p->metrics[m->hash & (p->buckets - 1)]; old; old = old->next) {
		if (!sl__metric_same(old, m))
			continue;
		if (!old->removed_ns)
			break;
		if (same_shape(old, m))
			removed = old;
	}
	refusal = SL__REFUSED_CONFLICT;
	if (old) {
		if (!same_shape(old, m))
			goto err;
		refusal = SL__REFUSED_MEMORY;
		if (old->region->orphan)
			goto err;
		free(m);
		*metric = old;
		return 0;
	}
	if (!sl__is_string(m->record.kind))
		family = family_find(p, m, hash);
	if (family && family->kind != sl__metric_kind(m))
		goto err;
	refusal = SL__REFUSED_MEMORY;
	if (removed) {
		if (removed->region->orphan)
			goto err;
		sl__metric_restore(removed, m->created);
		free(m);
		*metric = removed;
		return 0;
	}
	removed = sl__vacancy_find(p, m);
	if (!removed)
		region = region_for(p, m, &refusal);
	if (!removed && !region)
		goto err;
	refusal = SL__REFUSED_MEMORY;
	if (!family && !sl__is_string(m->record.kind)) {
		new_family = family_new(m, hash);
		if (!new_family)
			goto err;
	}
	if (sl__is_histogram(sl__metric_kind(m))) {
		m->buckets = sl__buckets_get(&m->record,
					     removed ? removed->record.cell
						     : find_first_cell(region, m->record.cells));
		if (!m->buckets)
			goto err;
	}
	if (removed) {
		sl__vacancy_fill(removed, m);
		free(m);
		*metric = removed;
	} else if (reserve_memory(region, m->record.cells, m->record.length)) {
		goto err;
	} else {
		metric_enter(region, m);
	}
	if (new_family)
		family_enter(p, new_family);
	return 0;

err:
	sl__buckets_put(m->buckets);
	free(new_family);
	free(m);
	return refusal;
}

/*
 * Adds a model, or finds the existing one. Returns 0 and sets *id, or returns a refusal. Takes
 * ownership of the model.
 */
static int model_add(struct sl_publisher *p, struct sl__metric *model, uint32_t *id)
{
	const uint64_t hash = name_hash(model);
	struct sl__family *family, *new_family = NULL;
	struct sl__metric **models;
	int refusal;

	refusal = SL__REFUSED_MEMORY;
	if (!p->buckets)
		tables_grow(p);
	if (!p->buckets)
		goto err;
	family = family_find(p, model, hash);
	refusal = SL__REFUSED_CONFLICT;
	if (family && (family->kind != model->record.kind ||
		       (family->model && !same_shape(family->model, model))))
		goto err;
	if (family && family->model) {
		free(model);
		*id = family->id;
		return 0;
	}
	refusal = SL__REFUSED_MEMORY;
	if (!family)
		family = new_family = family_new(model, hash);
	models = family ? reallocarray(p->models, p->model_count + 1, sizeof(struct sl__metric *))
			: NULL;
	if (!models)
		goto err;
	p->models = models;
	*id = family->id = p->model_count;
	family->model = p->models[p->model_count++] = model;
	if (new_family)
		family_enter(p, new_family);
	return 0;

err:
	free(new_family);
	free(model);
	return refusal;
}

/* ---- creation ---- */

/* A handle for the application. If refused, bits is 0 and error is the reason. */
struct handle {
	uint64_t bits;
	const struct sl__buckets *buckets;
	uint32_t bounds; /* number of bounds in the record */
	int error;
};

/* Counts a refusal, logs the first one per reason, and sets errno. */
static struct handle count_refusal(struct sl_publisher *p, int refusal, const char *name,
				   size_t bytes)
{
	struct sl__guard guard;
	bool first;

	sl__lock(&guard);
	atomic_fetch_add_explicit(&p->refused, 1, memory_order_relaxed);
	sl__hot_add(p->regions, SL_HOT_REFUSED, 1);
	first = !(p->logged & 1u << refusal);
	p->logged |= 1u << refusal;
	sl__unlock(&guard);
	if (first)
		sl__log(SL_LOG_WARN,
			"sidelight: metric refused; further refusals for this reason are counted, "
			"not logged name=%.*s reason=\"%s\"",
			(int)(bytes < 64 ? bytes : 64), name, refusals[refusal].text);
	errno = refusals[refusal].error;
	return (struct handle){.error = -errno};
}

static struct handle refuse_opts(struct sl_publisher *p, int refusal,
				 const struct sl_metric_opts *o)
{
	return count_refusal(p, refusal, o->name ? o->name : "?",
			     o->name ? strnlen(o->name, 64) : 1);
}

/* Returns the handle of a model's metric with these labels. */
static struct handle create_handle(struct sl_publisher *p, const struct sl__metric *model,
				   const struct sl_label *labels, size_t count, bool family)
{
	struct handle handle = {0};
	struct sl__guard guard;
	struct sl__metric *m;
	int refusal = sl__metric_of(model, labels, count, family, &m);

	if (refusal)
		return count_refusal(p, refusal, sl__metric_name(model), model->record.name_bytes);
	sl__lock(&guard);
	if (p->forked && sl__revive(p->regions)) {
		free(m);
		refusal = SL__REFUSED_MEMORY;
	} else {
		refusal = metric_add(p, &m);
	}
	if (!refusal) {
		handle.bits = (uint64_t)m->region->slot << 32;
		if (sl__is_string(m->record.kind))
			handle.bits |= m->record.id;
		else if (!sl__is_histogram(sl__metric_kind(m)))
			handle.bits |= sl_cell_offset(m->record.cell);
		handle.buckets = m->buckets;
		handle.bounds = m->record.bound_count;
	}
	sl__unlock(&guard);
	return refusal ? count_refusal(p, refusal, sl__metric_name(model), model->record.name_bytes)
		       : handle;
}

static struct handle create_metric(struct sl_publisher *p, uint32_t kind,
				   const struct sl_metric_opts *opts)
{
	struct sl_metric_opts o = {0};
	struct handle handle;
	struct sl__metric *model;
	int refusal;

	if (!p)
		return (struct handle){.error = -EINVAL};
	refusal = sl__model_of(p, kind, opts, &o, &model);
	if (refusal)
		return refuse_opts(p, refusal, &o);
	/* The labels of an info are its value: a new value replaces the previous one. */
	handle = create_handle(p, model, o.labels, o.label_count, kind == SL_KIND_INFO);
	free(model);
	return handle;
}

static uint64_t family_create(struct sl_publisher *p, uint32_t kind,
			      const struct sl_metric_opts *opts)
{
	struct sl_metric_opts o = {0};
	struct sl__metric *model;
	struct sl__guard guard;
	uint32_t id = 0;
	int refusal;

	if (!p)
		return 0;
	refusal = sl__model_of(p, kind, opts, &o, &model);
	if (!refusal && o.label_count) {
		free(model);
		refusal = SL__REFUSED_LABEL;
	}
	if (!refusal) {
		sl__lock(&guard);
		refusal = model_add(p, model, &id);
		sl__unlock(&guard);
	}
	if (!refusal)
		return (uint64_t)p->regions->slot << 32 | id;
	refuse_opts(p, refusal, &o);
	return 0;
}

/* Both shapes of a histogram share one type of family. */
static uint32_t exponential_kind(uint32_t kind)
{
	return kind == SL_KIND_HISTOGRAM	 ? SL_KIND_HISTOGRAM_EXP
	       : kind == SL_KIND_GAUGE_HISTOGRAM ? SL_KIND_GAUGE_HISTOGRAM_EXP
						 : kind;
}

const struct sl__metric *sl__family_model(uint64_t bits, uint32_t kind, struct sl_publisher **p)
{
	const unsigned int slot = sl__slot_of(bits);
	const struct sl__metric *model = NULL;
	const struct sl__region *r;
	struct sl__guard guard;

	if (slot == SL__SLOT_NONE)
		return NULL;
	sl__lock(&guard);
	r = sl__slots[slot].region;
	*p = r ? r->publisher : NULL;
	if (*p && (uint32_t)bits < (*p)->model_count)
		model = (*p)->models[(uint32_t)bits];
	sl__unlock(&guard);
	/* Stale handle: its publisher was closed, and another one uses the slot now. */
	return model && (model->record.kind == kind || model->record.kind == exponential_kind(kind))
		       ? model
		       : NULL;
}

static struct handle family_with(uint64_t bits, uint32_t kind, const struct sl_label *labels,
				 size_t count)
{
	struct sl_publisher *p;
	const struct sl__metric *model = sl__family_model(bits, kind, &p);

	return model ? create_handle(p, model, labels, count, true) : (struct handle){0};
}

/* ---- the interface ---- */

#define CREATE(name, create, kind)                                                            \
	struct sl_##name sl_##name##_##create(struct sl_publisher *p,                         \
					      const struct sl_metric_opts *o)                 \
	{                                                                                     \
		return name##_handle(create_metric(p, kind, o));                              \
	}                                                                                     \
                                                                                              \
	struct sl_##name##_family sl_##name##_family_##create(struct sl_publisher *p,         \
							      const struct sl_metric_opts *o) \
	{                                                                                     \
		return (struct sl_##name##_family){family_create(p, kind, o)};                \
	}

#define WITH(name, kind)                                                                   \
	struct sl_##name sl_##name##_with(struct sl_##name##_family f,                     \
					  const struct sl_label *labels, size_t count)     \
	{                                                                                  \
		return name##_handle(family_with(f.bits, kind, labels, count));            \
	}                                                                                  \
                                                                                           \
	int sl_##name##_remove(struct sl_##name##_family f, const struct sl_label *labels, \
			       size_t count)                                               \
	{                                                                                  \
		return sl__family_remove(f.bits, kind, labels, count);                     \
	}                                                                                  \
                                                                                           \
	int sl_##name##_clear(struct sl_##name##_family f)                                 \
	{                                                                                  \
		return sl__family_clear(f.bits, kind);                                     \
	}

#define METRIC(name, kind)                                     \
	static struct sl_##name name##_handle(struct handle h) \
	{                                                      \
		return (struct sl_##name){h.bits};             \
	}                                                      \
	CREATE(name, create, kind)                             \
	WITH(name, kind)

METRIC(counter, SL_KIND_COUNTER)
METRIC(counter_f64, SL_KIND_COUNTER_F64)
METRIC(gauge, SL_KIND_GAUGE)
METRIC(gauge_f64, SL_KIND_GAUGE_F64)
METRIC(stateset, SL_KIND_STATESET)
METRIC(gauge_timed, SL_KIND_GAUGE_TIMED)
METRIC(unknown, SL_KIND_UNKNOWN)

static struct sl_histogram histogram_handle(struct handle h)
{
	return (struct sl_histogram){h.bits, h.buckets};
}

CREATE(histogram, create, SL_KIND_HISTOGRAM_EXP)
CREATE(histogram, create_classic, SL_KIND_HISTOGRAM)
WITH(histogram, SL_KIND_HISTOGRAM)

static struct sl_gauge_histogram gauge_histogram_handle(struct handle h)
{
	return (struct sl_gauge_histogram){h.bits, h.buckets};
}

CREATE(gauge_histogram, create, SL_KIND_GAUGE_HISTOGRAM_EXP)
CREATE(gauge_histogram, create_classic, SL_KIND_GAUGE_HISTOGRAM)
WITH(gauge_histogram, SL_KIND_GAUGE_HISTOGRAM)

static struct sl_summary summary_handle(struct handle h)
{
	return (struct sl_summary){h.bits, h.bounds};
}

CREATE(summary, create, SL_KIND_SUMMARY)
WITH(summary, SL_KIND_SUMMARY)

int sl_info_create(struct sl_publisher *p, const struct sl_metric_opts *o)
{
	return create_metric(p, SL_KIND_INFO, o).error;
}

int sl_info_remove(struct sl_publisher *p, const struct sl_metric_opts *opts)
{
	struct sl_metric_opts o = {0};
	struct sl__metric *model;
	int r;

	if (!p || sl__model_of(p, SL_KIND_INFO, opts, &o, &model))
		return -EINVAL;
	r = sl__metric_remove(p, model, o.labels, o.label_count);
	free(model);
	return r;
}

uint64_t sl__string_create(struct sl_publisher *p, const char *text)
{
	return create_metric(p, SL_KIND_STRING, &SL_OPTS(sl_metric_opts, .name = text)).bits;
}
