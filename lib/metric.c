// SPDX-License-Identifier: Apache-2.0
/* metric.c - creates metrics and families: checks, schema records, cells. */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

/* A name, and the kind that all metrics of this name have. */
struct sl__family {
	struct sl__family *next;
	enum sl_metric_kind kind;
	uint64_t hash;
	struct sl__metric *model; /* of sl_..._family_create(); NULL: none */
	uint32_t id;		  /* of the model, in sl_publisher.models */
	char name[];
};

/* A metric with a private copy of its record, as the region is never read back. A model is one
 * without labels and cells, which the metrics of a family are copied from. */
struct sl__metric {
	struct sl__metric *next;     /* of the same hash bucket */
	struct sl__metric *next_new; /* in the order of creation */
	uint64_t hash;
	const struct sl__buckets *buckets;
	uint32_t labels_at; /* offset of the labels in the record */
	uint32_t name_at;
	struct sl_schema_record record; /* its bounds and strings follow it */
};

static const struct {
	const char *text;
	int error;
} refusals[SL__REFUSED_COUNT] = {
	[SL__REFUSED_OPTS] = {"no options, or options of a newer version", EINVAL},
	[SL__REFUSED_NAME] = {"name ill-formed or missing", EINVAL},
	[SL__REFUSED_LABEL] = {"label ill-formed, reserved or duplicate, or too many labels",
			       EINVAL},
	[SL__REFUSED_TEXT] = {"help, unit or state ill-formed or too long", EINVAL},
	[SL__REFUSED_SHAPE] = {"buckets or states out of range", EINVAL},
	[SL__REFUSED_CONFLICT] = {"the name is taken by a metric of another kind or shape", EEXIST},
	[SL__REFUSED_CELLS] = {"no cells left, raise max_cells", ENOSPC},
	[SL__REFUSED_SCHEMA] = {"no room left for names, raise schema_bytes", ENOSPC},
	[SL__REFUSED_MEMORY] = {"no memory", ENOMEM},
	[SL__REFUSED_SPANS] = {"the publisher has no room for spans, set span_bytes", EINVAL},
};

static uint8_t *text_at(const struct sl__metric *m, uint32_t at)
{
	return (uint8_t *)m + offsetof(struct sl__metric, record) + at;
}

static const char *name_of(const struct sl__metric *m)
{
	return (const char *)text_at(m, m->name_at);
}

/* A string of spans has a record, but is no metric and has names of its own. */
static bool is_string(uint32_t kind)
{
	return kind == SL_KIND_STRING;
}

static bool is_histogram(uint32_t kind)
{
	return kind == SL_KIND_HISTOGRAM || kind == SL_KIND_HISTOGRAM_EXP;
}

/* ---- shapes ---- */

static int shape_stateset(const struct sl_metric_opts *o, struct sl__shape *shape)
{
	if (!o->state_count || o->state_count > SL_STATES_MAX || !o->states)
		return SL__REFUSED_SHAPE;
	for (size_t i = 0; i < o->state_count; i++) {
		size_t n;

		if (!o->states[i] || !*o->states[i] || !sl__utf8(o->states[i], SL_NAME_MAX, &n))
			return SL__REFUSED_TEXT;
		for (size_t k = 0; k < i; k++)
			if (!strcmp(o->states[k], o->states[i]))
				return SL__REFUSED_SHAPE;
		shape->state_bytes += (uint32_t)n + 1;
	}
	shape->states = o->states;
	shape->state_count = (uint32_t)o->state_count;
	return 0;
}

static int shape_of(uint32_t kind, const struct sl_metric_opts *o, struct sl__shape *shape)
{
	shape->cells = !is_string(kind) && kind != SL_KIND_INFO;
	switch (kind) {
	case SL_KIND_HISTOGRAM_EXP:
		return sl__shape_exponential(o, shape);
	case SL_KIND_HISTOGRAM:
		return sl__shape_classic(o, shape);
	case SL_KIND_STATESET:
		return shape_stateset(o, shape);
	default:
		return 0;
	}
}

/* ---- tables ---- */

/* Doubles both tables when they are full on average. Failing is harmless: chains grow longer. */
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

	while (f && (f->hash != hash || strncmp(f->name, name_of(m), bytes) || f->name[bytes]))
		f = f->next;
	return f;
}

static struct sl__family *family_new(const struct sl__metric *m, uint64_t hash)
{
	struct sl__family *f = calloc(1, sizeof(*f) + m->record.name_bytes + 1u);

	if (!f)
		return NULL;
	f->kind = m->record.kind;
	f->hash = hash;
	memcpy(f->name, name_of(m), m->record.name_bytes);
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
	return sl_fnv1a(SL_FNV_BASIS, name_of(m), m->record.name_bytes);
}

void sl__metrics_free(struct sl_publisher *p)
{
	for (struct sl__metric *m = p->first, *next; m; m = next) {
		next = m->next_new;
		sl__buckets_put(m->buckets);
		free(m);
	}
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

/* All records again, into a new region. Their memory was allocated by sl__region_make(). */
void sl__metrics_rewrite(struct sl_publisher *p)
{
	uint8_t *to = p->base + p->schema_offset;

	for (struct sl__metric *m = p->first; m; m = m->next_new) {
		memcpy(to, &m->record, m->record.length);
		to += m->record.length;
	}
}

/* ---- records ---- */

static struct sl__metric *metric_alloc(size_t record_bytes, size_t *length)
{
	*length = (record_bytes + 7) & ~(size_t)7;
	return calloc(1, offsetof(struct sl__metric, record) + *length);
}

/* The model of a checked metric; NULL: no memory. */
static struct sl__metric *model_make(uint32_t kind, const struct sl_metric_opts *o,
				     const struct sl__shape *shape, size_t unit, size_t help)
{
	size_t name = strlen(o->name), bounds = shape->bound_count * sizeof(double), length;
	struct sl__metric *m = metric_alloc(sizeof(struct sl_schema_record) + bounds + name + unit +
						    help + shape->state_bytes,
					    &length);
	uint8_t *to;

	if (!m)
		return NULL;
	m->record = (struct sl_schema_record){
		.kind = (uint16_t)kind,
		.cells = shape->cells,
		.name_bytes = (uint16_t)name,
		.unit_bytes = (uint16_t)unit,
		.help_bytes = (uint16_t)help,
		.state_bytes = (uint16_t)shape->state_bytes,
		.bound_count = (uint16_t)shape->bound_count,
		.scale = (int16_t)shape->scale,
		.state_count = (uint16_t)shape->state_count,
		.first_bucket = shape->first_bucket,
		.zero_threshold = shape->zero_threshold,
	};
	m->name_at = (uint32_t)(sizeof(m->record) + bounds);
	m->labels_at = (uint32_t)(m->name_at + name + unit + help);
	to = text_at(m, sizeof(m->record));
	if (bounds)
		memcpy(to, shape->bounds, bounds);
	to = mempcpy(to + bounds, o->name, name);
	if (unit)
		to = mempcpy(to, o->unit, unit);
	if (help)
		to = mempcpy(to, o->help, help);
	for (uint32_t i = 0; i < shape->state_count; i++)
		to = (uint8_t *)stpcpy((char *)to, shape->states[i]) + 1;
	return m;
}

/* The model of these options, or the reason why there is none. */
static int model_of(const struct sl_publisher *p, uint32_t kind, const struct sl_metric_opts *opts,
		    struct sl_metric_opts *o, struct sl__metric **model)
{
	struct sl__shape shape = {0};
	size_t unit = 0, help = 0, unused;
	int refusal;

	if (!SL__HAS(opts, name) || !sl__opts_take(o, sizeof(*o), opts))
		return SL__REFUSED_OPTS;
	if (is_string(kind) && !p->span_lines)
		return SL__REFUSED_SPANS;
	/* The exposition names a label after a state set: no colons. */
	if (is_string(kind) ? !o->name || !*o->name || !sl__utf8(o->name, SL_NAME_MAX, &unused)
			    : !sl__name_valid(o->name, kind != SL_KIND_STATESET))
		return SL__REFUSED_NAME;
	if ((o->help && !sl__utf8(o->help, SL_HELP_MAX, &help)) ||
	    (o->unit && !sl__unit_valid(o->unit, &unit)))
		return SL__REFUSED_TEXT;
	refusal = shape_of(kind, o, &shape);
	if (refusal)
		return refusal;
	*model = model_make(kind, o, &shape, unit, help);
	return *model ? 0 : SL__REFUSED_MEMORY;
}

/* The metric of a model and labels, or the reason why there is none. */
static int metric_of(const struct sl__metric *model, const struct sl_label *labels, size_t count,
		     struct sl__metric **metric)
{
	const struct sl_schema_record *r = &model->record;
	char name[SL_NAME_MAX + 1] = "";
	uint32_t bytes, head = model->labels_at;
	struct sl__metric *m;
	uint8_t *encoded;
	size_t length;
	int error;

	memcpy(name, name_of(model), r->name_bytes);
	error = sl__labels_encode(labels, count,
				  is_histogram(r->kind)		? "le"
				  : r->kind == SL_KIND_STATESET ? name
								: NULL,
				  &encoded, &bytes);
	if (error)
		return error == -ENOMEM ? SL__REFUSED_MEMORY : SL__REFUSED_LABEL;
	m = metric_alloc(head + bytes + r->state_bytes, &length);
	if (m) {
		memcpy(text_at(m, 0), text_at(model, 0), head);
		memcpy(mempcpy(text_at(m, head), encoded, bytes), text_at(model, head),
		       r->state_bytes);
		m->name_at = model->name_at;
		m->labels_at = head;
		m->record.length = (uint32_t)length;
		m->record.label_bytes = (uint16_t)bytes;
		m->hash = sl_fnv1a(SL_FNV_BASIS, name, r->name_bytes + 1u);
		m->hash = sl_fnv1a(m->hash, encoded, bytes);
	}
	free(encoded);
	*metric = m;
	return m ? 0 : SL__REFUSED_MEMORY;
}

static bool same_metric(const struct sl__metric *a, const struct sl__metric *b)
{
	return a->hash == b->hash && is_string(a->record.kind) == is_string(b->record.kind) &&
	       a->record.name_bytes == b->record.name_bytes &&
	       a->record.label_bytes == b->record.label_bytes &&
	       !memcmp(text_at(a, a->name_at), text_at(b, b->name_at), a->record.name_bytes) &&
	       !memcmp(text_at(a, a->labels_at), text_at(b, b->labels_at), a->record.label_bytes);
}

static bool same_shape(const struct sl__metric *a, const struct sl__metric *b)
{
	const struct sl_schema_record *r = &a->record, *s = &b->record;
	uint32_t states_at = a->labels_at + r->label_bytes;

	return r->kind == s->kind && r->cells == s->cells && r->scale == s->scale &&
	       r->first_bucket == s->first_bucket && r->zero_threshold == s->zero_threshold &&
	       r->bound_count == s->bound_count && r->state_count == s->state_count &&
	       r->state_bytes == s->state_bytes &&
	       !memcmp(r + 1, s + 1, r->bound_count * sizeof(double)) &&
	       !memcmp(text_at(a, states_at), text_at(b, b->labels_at + s->label_bytes),
		       r->state_bytes);
}

/* ---- cells ---- */

/* Where a metric of this many cells goes: the first of them. */
static uint32_t place(const struct sl_publisher *p, uint32_t cells)
{
	uint32_t i = p->block_used;

	if (cells != 1 || i == SL__BLOCK)
		return p->cells_end;
	return p->block + i % SL__BLOCK_LINES * SL_LINE_CELLS + i / SL__BLOCK_LINES;
}

/* Lines that a stripe has in use once it is there. */
static uint32_t lines_with(const struct sl_publisher *p, uint32_t cells)
{
	uint32_t lines = (place(p, cells) + cells + SL_LINE_CELLS - 1) / SL_LINE_CELLS;

	return cells && lines > p->lines_used ? lines : p->lines_used;
}

static void take_place(struct sl_publisher *p, uint32_t cells)
{
	p->lines_used = lines_with(p, cells);
	p->cells_used += cells;
	if (cells != 1) {
		p->cells_end += cells;
		return;
	}
	if (p->block_used == SL__BLOCK) {
		p->block = p->cells_end;
		p->block_used = 0;
		p->cells_end += SL__BLOCK;
	}
	p->block_used++;
}

/* Memory for the cells in every stripe in use, and for the record. */
static int reserve(struct sl_publisher *p, uint32_t cells, uint32_t record)
{
	uint32_t lines = lines_with(p, cells);
	uint32_t pages = (lines * SL_LINE_SIZE + SL__PAGE - 1) / SL__PAGE;
	uint32_t schema = (p->schema_used + record + SL__PAGE - 1) / SL__PAGE;
	uint32_t stripes = atomic_load(&p->stripes_used);
	int error;

	for (uint32_t i = 0; pages > p->stripe_pages && i < stripes; i++) {
		error = sl__allocate(p,
				     p->stripe_offset + (uint64_t)i * p->stride +
					     (uint64_t)p->stripe_pages * SL__PAGE,
				     (uint64_t)(pages - p->stripe_pages) * SL__PAGE);
		if (error)
			return error;
	}
	if (pages > p->stripe_pages)
		p->stripe_pages = pages;
	if (schema > p->schema_pages) {
		error = sl__allocate(p, p->schema_offset + (uint64_t)p->schema_pages * SL__PAGE,
				     (uint64_t)(schema - p->schema_pages) * SL__PAGE);
		if (error)
			return error;
		p->schema_pages = schema;
	}
	return 0;
}

/* ---- adding, under the lock ---- */

/* Writes the record of a metric, and enters it. Its memory is reserved. */
static void metric_enter(struct sl_publisher *p, struct sl__metric *m)
{
	struct sl__metric **bucket = &p->metrics[m->hash & (p->buckets - 1)];

	m->record.cell = place(p, m->record.cells);
	m->record.id = p->metric_count;
	m->record.generation = p->generation + 1;
	m->record.check = 0;
	m->record.check = sl_fnv1a(SL_FNV_BASIS, &m->record, m->record.length);
	memcpy(p->base + p->schema_offset + p->schema_used, &m->record, m->record.length);

	take_place(p, m->record.cells);
	p->schema_used += m->record.length;
	p->metric_count++;
	p->string_count += is_string(m->record.kind);
	sl__hot_change(p);

	m->next = *bucket;
	*bucket = m;
	*p->last = m;
	p->last = &m->next_new;
}

/* Enters a metric, or finds the existing one. 0 and *m, or a refusal; owns *m in any case. */
static int metric_add(struct sl_publisher *p, struct sl__metric **metric)
{
	struct sl__metric *m = *metric, *old;
	struct sl__family *family = NULL, *new_family = NULL;
	const uint64_t hash = name_hash(m);
	int refusal;

	refusal = SL__REFUSED_MEMORY;
	if (p->metric_count >= p->buckets)
		tables_grow(p);
	if (!p->buckets)
		goto err;
	for (old = p->metrics[m->hash & (p->buckets - 1)]; old; old = old->next)
		if (same_metric(old, m))
			break;
	refusal = SL__REFUSED_CONFLICT;
	if (old) {
		if (!same_shape(old, m))
			goto err;
		free(m);
		*metric = old;
		return 0;
	}
	if (!is_string(m->record.kind))
		family = family_find(p, m, hash);
	if (family && family->kind != m->record.kind)
		goto err;
	refusal = SL__REFUSED_CELLS;
	if (m->record.cells > p->max_cells - p->cells_used)
		goto err;
	refusal = SL__REFUSED_SCHEMA;
	if (m->record.length > p->schema_bytes - p->schema_used)
		goto err;
	refusal = SL__REFUSED_MEMORY;
	if (!family && !is_string(m->record.kind)) {
		new_family = family_new(m, hash);
		if (!new_family)
			goto err;
	}
	if (is_histogram(m->record.kind)) {
		m->buckets = sl__buckets_get(&m->record, place(p, m->record.cells));
		if (!m->buckets)
			goto err;
	}
	if (reserve(p, m->record.cells, m->record.length))
		goto err;
	metric_enter(p, m);
	if (new_family)
		family_enter(p, new_family);
	return 0;

err:
	sl__buckets_put(m->buckets);
	free(new_family);
	free(m);
	return refusal;
}

/* Enters a model, or finds the existing one. 0 and its id, or a refusal; owns the model. */
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

/* Counts a refusal, and logs the first one for this reason. */
static struct sl__handle refuse(struct sl_publisher *p, int refusal, const char *name, size_t bytes)
{
	struct sl__guard guard;
	bool first;

	sl__lock(&guard);
	atomic_fetch_add_explicit(&p->refused, 1, memory_order_relaxed);
	sl__hot_add(p, SL_HOT_REFUSED, 1);
	first = !(p->logged & 1u << refusal);
	p->logged |= 1u << refusal;
	sl__unlock(&guard);
	if (first)
		sl__log(SL_LOG_WARN,
			"sidelight: metric refused; further refusals for this reason are counted, "
			"not logged name=%.*s reason=\"%s\"",
			(int)(bytes < 64 ? bytes : 64), name, refusals[refusal].text);
	return (struct sl__handle){.error = -refusals[refusal].error};
}

static struct sl__handle refuse_opts(struct sl_publisher *p, int refusal,
				     const struct sl_metric_opts *o)
{
	return refuse(p, refusal, o->name ? o->name : "?", o->name ? strnlen(o->name, 64) : 1);
}

/* The handle of the metric of a model and labels. */
static struct sl__handle create(struct sl_publisher *p, const struct sl__metric *model,
				const struct sl_label *labels, size_t count)
{
	struct sl__handle handle = {0};
	struct sl__guard guard;
	struct sl__metric *m;
	int refusal = metric_of(model, labels, count, &m);

	if (refusal)
		return refuse(p, refusal, name_of(model), model->record.name_bytes);
	sl__lock(&guard);
	if (p->orphan && sl__revive(p)) {
		free(m);
		refusal = SL__REFUSED_MEMORY;
	} else {
		refusal = metric_add(p, &m);
	}
	if (!refusal) {
		handle.bits = (uint64_t)p->slot << 32;
		if (is_string(m->record.kind))
			handle.bits |= m->record.id;
		else if (!is_histogram(m->record.kind))
			handle.bits |= sl_cell_offset(m->record.cell);
		handle.buckets = m->buckets;
	}
	sl__unlock(&guard);
	return refusal ? refuse(p, refusal, name_of(model), model->record.name_bytes) : handle;
}

struct sl__handle sl__metric_create(struct sl_publisher *p, uint32_t kind,
				    const struct sl_metric_opts *opts)
{
	struct sl_metric_opts o = {0};
	struct sl__handle handle;
	struct sl__metric *model;
	int refusal;

	if (!p)
		return (struct sl__handle){.error = -EINVAL};
	refusal = model_of(p, kind, opts, &o, &model);
	if (refusal)
		return refuse_opts(p, refusal, &o);
	handle = create(p, model, o.labels, o.label_count);
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
	refusal = model_of(p, kind, opts, &o, &model);
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
		return (uint64_t)p->slot << 32 | id;
	refuse_opts(p, refusal, &o);
	return 0;
}

static struct sl__handle family_with(uint64_t bits, uint32_t kind, const struct sl_label *labels,
				     size_t count)
{
	const unsigned int slot = sl__slot_of(bits);
	const struct sl__metric *model = NULL;
	struct sl_publisher *p;
	struct sl__guard guard;

	if (slot == SL__SLOT_NONE)
		return (struct sl__handle){0};
	sl__lock(&guard);
	p = sl__slots[slot].publisher;
	if (p && (uint32_t)bits < p->model_count)
		model = p->models[(uint32_t)bits];
	sl__unlock(&guard);
	/* Another kind: the handle is that of a closed publisher, whose slot has another one now.
	 */
	if (!model ||
	    (is_histogram(kind) ? !is_histogram(model->record.kind) : model->record.kind != kind))
		return (struct sl__handle){0};
	return create(p, model, labels, count);
}

/* ---- the interface ---- */

#define METRIC(name, kind)                                                                  \
	struct sl_##name sl_##name##_create(struct sl_publisher *p,                         \
					    const struct sl_metric_opts *o)                 \
	{                                                                                   \
		return (struct sl_##name){sl__metric_create(p, kind, o).bits};              \
	}                                                                                   \
                                                                                            \
	struct sl_##name##_family sl_##name##_family_create(struct sl_publisher *p,         \
							    const struct sl_metric_opts *o) \
	{                                                                                   \
		return (struct sl_##name##_family){family_create(p, kind, o)};              \
	}                                                                                   \
                                                                                            \
	struct sl_##name sl_##name##_with(struct sl_##name##_family f,                      \
					  const struct sl_label *labels, size_t count)      \
	{                                                                                   \
		return (struct sl_##name){family_with(f.bits, kind, labels, count).bits};   \
	}

METRIC(counter, SL_KIND_COUNTER)
METRIC(counter_f64, SL_KIND_COUNTER_F64)
METRIC(gauge, SL_KIND_GAUGE)
METRIC(gauge_f64, SL_KIND_GAUGE_F64)
METRIC(stateset, SL_KIND_STATESET)

static struct sl_histogram histogram(struct sl__handle h)
{
	return (struct sl_histogram){h.bits, h.buckets};
}

struct sl_histogram sl_histogram_create(struct sl_publisher *p, const struct sl_metric_opts *o)
{
	return histogram(sl__metric_create(p, SL_KIND_HISTOGRAM_EXP, o));
}

struct sl_histogram sl_histogram_create_classic(struct sl_publisher *p,
						const struct sl_metric_opts *o)
{
	return histogram(sl__metric_create(p, SL_KIND_HISTOGRAM, o));
}

struct sl_histogram_family sl_histogram_family_create(struct sl_publisher *p,
						      const struct sl_metric_opts *o)
{
	return (struct sl_histogram_family){family_create(p, SL_KIND_HISTOGRAM_EXP, o)};
}

struct sl_histogram_family sl_histogram_family_create_classic(struct sl_publisher *p,
							      const struct sl_metric_opts *o)
{
	return (struct sl_histogram_family){family_create(p, SL_KIND_HISTOGRAM, o)};
}

struct sl_histogram sl_histogram_with(struct sl_histogram_family f, const struct sl_label *labels,
				      size_t count)
{
	return histogram(family_with(f.bits, SL_KIND_HISTOGRAM, labels, count));
}

int sl_info_create(struct sl_publisher *p, const struct sl_metric_opts *o)
{
	return sl__metric_create(p, SL_KIND_INFO, o).error;
}

uint64_t sl__string_create(struct sl_publisher *p, const char *text)
{
	return sl__metric_create(p, SL_KIND_STRING, &SL_OPTS(sl_metric_opts, .name = text)).bits;
}
