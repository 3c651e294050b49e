// SPDX-License-Identifier: Apache-2.0
/* Creation of metrics: checks, schema records, cells. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct sl__family {
	struct sl__family *next;
	enum sl_metric_kind kind;
	uint64_t hash;
	char name[];
};

/* A metric, with its own copy of its record: what is in the region is never read back. */
struct sl__metric {
	struct sl__metric *next;     /* of the same hash bucket */
	struct sl__metric *next_new; /* in the order of creation */
	uint64_t hash;
	const struct sl__buckets *buckets;
	uint32_t labels_at; /* offset of the labels in the record */
	uint32_t name_at;
	struct sl_schema_record record; /* and its strings behind it */
};

static const struct {
	const char *text;
	int error;
} refusals[SL__REFUSED_COUNT] = {
	[SL__REFUSED_OPTS] = {"options of another version, or none", EINVAL},
	[SL__REFUSED_NAME] = {"name ill-formed or missing", EINVAL},
	[SL__REFUSED_LABEL] = {"label ill-formed, reserved, twice, or too many of them", EINVAL},
	[SL__REFUSED_TEXT] = {"help, unit or state ill-formed or too long", EINVAL},
	[SL__REFUSED_SHAPE] = {"buckets or states out of range", EINVAL},
	[SL__REFUSED_CONFLICT] = {"the name is taken by a metric of another kind or shape", EEXIST},
	[SL__REFUSED_CELLS] = {"no cells left, raise max_cells", ENOSPC},
	[SL__REFUSED_SCHEMA] = {"no room left for names, raise schema_bytes", ENOSPC},
	[SL__REFUSED_MEMORY] = {"no memory", ENOMEM},
	[SL__REFUSED_SPANS] = {"a span of a publisher without room for any, set span_bytes",
			       EINVAL},
};

/* ---- text ---- */

static bool name_first(char c, bool colon)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (colon && c == ':');
}

static bool name_valid(const char *s, bool colon)
{
	size_t n = 0;

	if (!s || !name_first(*s, colon))
		return false;
	for (; s[n]; n++)
		if (n == SL_NAME_MAX || !(name_first(s[n], colon) || (s[n] >= '0' && s[n] <= '9')))
			return false;
	return true;
}

static bool unit_valid(const char *s, size_t *length)
{
	size_t n = 0;

	for (; s[n]; n++)
		if (n == SL_NAME_MAX || !(name_first(s[n], true) || (s[n] >= '0' && s[n] <= '9')))
			return false;
	*length = n;
	return true;
}

/* The exposition puts the state in a label that is named as the metric. */
static bool stateset_name_valid(const struct sl_metric_opts *o)
{
	if (strchr(o->name, ':'))
		return false;
	for (size_t i = 0; i < o->label_count && o->labels; i++)
		if (o->labels[i].key && !strcmp(o->labels[i].key, o->name))
			return false;
	return true;
}

/* UTF-8 as in RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
bool sl__utf8(const char *text, size_t max, size_t *length)
{
	const uint8_t *s = (const uint8_t *)text;
	size_t n = strnlen(text, max + 1);

	if (n > max)
		return false;
	for (size_t i = 0; i < n;) {
		uint32_t c = s[i++], more;

		if (c < 0x80)
			continue;
		if (c < 0xc2 || c > 0xf4)
			return false;
		more = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
		c &= 0x3fu >> more;
		for (uint32_t k = 0; k < more; k++, i++) {
			if ((s[i] & 0xc0) != 0x80) /* the terminating 0 ends here, too */
				return false;
			c = c << 6 | (s[i] & 0x3f);
		}
		if ((more == 2 && (c < 0x800 || (c >= 0xd800 && c <= 0xdfff))) ||
		    (more == 3 && (c < 0x10000 || c > 0x10ffff)))
			return false;
	}
	*length = n;
	return true;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct sl_label *)a)->key, ((const struct sl_label *)b)->key);
}

/* key NUL value NUL ..., sorted by key. -EINVAL or -ENOMEM. *bytes is the caller's to free. */
int sl__labels_encode(const struct sl_label *labels, size_t count, bool histogram, uint8_t **bytes,
		      uint32_t *length)
{
	struct sl_label sorted[SL_LABELS_MAX];
	size_t total = 0;
	uint8_t *to;

	if (count > SL_LABELS_MAX || (count && !labels))
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		size_t value;

		sorted[i] = labels[i];
		if (!name_valid(labels[i].key, false) || !strncmp(labels[i].key, "__", 2) ||
		    (histogram && !strcmp(labels[i].key, "le")) || !labels[i].value ||
		    !sl__utf8(labels[i].value, SL_LABEL_VALUE_MAX, &value))
			return -EINVAL;
		total += strlen(labels[i].key) + value + 2;
	}
	qsort(sorted, count, sizeof(*sorted), by_key);
	for (size_t i = 1; i < count; i++)
		if (!strcmp(sorted[i - 1].key, sorted[i].key))
			return -EINVAL;
	to = malloc(total ? total : 1);
	if (!to)
		return -ENOMEM;
	*bytes = to;
	*length = (uint32_t)total;
	for (size_t i = 0; i < count; i++) {
		to = (uint8_t *)stpcpy((char *)to, sorted[i].key) + 1;
		to = (uint8_t *)stpcpy((char *)to, sorted[i].value) + 1;
	}
	return 0;
}

/* ---- shapes ---- */

/* A string of spans, which has names of its own: none of it is a metric's. */
static bool is_string(uint32_t kind)
{
	return kind == SL_KIND_STRING;
}

static bool is_histogram(enum sl_metric_kind kind)
{
	return kind == SL_KIND_HISTOGRAM || kind == SL_KIND_HISTOGRAM_EXP;
}

static int shape_of(enum sl_metric_kind kind, const struct sl_metric_opts *o,
		    struct sl__shape *shape, uint32_t *state_bytes)
{
	*state_bytes = 0;
	shape->cells = !is_string(kind);
	switch (kind) {
	case SL_KIND_HISTOGRAM_EXP:
		return sl__shape_exponential(o, shape);
	case SL_KIND_HISTOGRAM:
		return sl__shape_classic(o, shape);
	case SL_KIND_INFO:
		shape->cells = 0;
		return 0;
	case SL_KIND_STATESET:
		if (!o->state_count || o->state_count > SL_STATES_MAX || !o->states)
			return SL__REFUSED_SHAPE;
		for (size_t i = 0; i < o->state_count; i++) {
			size_t n;

			if (!o->states[i] || !*o->states[i] ||
			    !sl__utf8(o->states[i], SL_NAME_MAX, &n))
				return SL__REFUSED_TEXT;
			for (size_t k = 0; k < i; k++)
				if (!strcmp(o->states[k], o->states[i]))
					return SL__REFUSED_SHAPE;
			*state_bytes += (uint32_t)n + 1;
		}
		shape->states = o->states;
		shape->state_count = (uint32_t)o->state_count;
		return 0;
	default:
		return 0;
	}
}

/* ---- tables ---- */

static const uint8_t *text_at(const struct sl__metric *m, uint32_t at)
{
	return (const uint8_t *)&m->record + at;
}

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
			free(f);
		}
	}
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

/* ---- creation ---- */

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

/* The record but for what depends on its place. NULL: no memory. */
static struct sl__metric *metric_make(enum sl_metric_kind kind, const struct sl_metric_opts *o,
				      const struct sl__shape *shape, size_t unit, size_t help,
				      const uint8_t *labels, uint32_t label_bytes,
				      uint32_t state_bytes)
{
	size_t name = strlen(o->name), bounds = shape->bound_count * sizeof(double);
	size_t length = sizeof(struct sl_schema_record) + bounds + name + unit + help +
			label_bytes + state_bytes;
	struct sl__metric *m;
	uint8_t *to;

	length = (length + 7) & ~(size_t)7;
	m = calloc(1, offsetof(struct sl__metric, record) + length);
	if (!m)
		return NULL;
	m->record = (struct sl_schema_record){
		.length = (uint32_t)length,
		.kind = (uint16_t)kind,
		.cells = shape->cells,
		.name_bytes = (uint16_t)name,
		.unit_bytes = (uint16_t)unit,
		.help_bytes = (uint16_t)help,
		.label_bytes = (uint16_t)label_bytes,
		.state_bytes = (uint16_t)state_bytes,
		.bound_count = (uint16_t)shape->bound_count,
		.scale = (int16_t)shape->scale,
		.state_count = (uint16_t)shape->state_count,
		.first_bucket = shape->first_bucket,
		.zero_threshold = shape->zero_threshold,
	};
	m->name_at = (uint32_t)(sizeof(m->record) + bounds);
	m->labels_at = (uint32_t)(m->name_at + name + unit + help);
	to = (uint8_t *)&m->record + sizeof(m->record);
	if (bounds)
		memcpy(to, shape->bounds, bounds);
	to = mempcpy(to + bounds, o->name, name);
	if (unit)
		to = mempcpy(to, o->unit, unit);
	if (help)
		to = mempcpy(to, o->help, help);
	to = mempcpy(to, labels, label_bytes);
	for (uint32_t i = 0; i < shape->state_count; i++)
		to = (uint8_t *)stpcpy((char *)to, shape->states[i]) + 1;
	m->hash = sl_fnv1a(SL_FNV_BASIS, o->name, name + 1);
	m->hash = sl_fnv1a(m->hash, labels, label_bytes);
	return m;
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

/* Finds or adds; under the lock. Takes ownership of m in any case. */
static int metric_add(struct sl_publisher *p, struct sl__metric *m, const struct sl__shape *shape,
		      struct sl__metric **out)
{
	const char *name = (const char *)text_at(m, m->name_at);
	uint32_t name_bytes = m->record.name_bytes;
	uint64_t name_hash = sl_fnv1a(SL_FNV_BASIS, name, name_bytes);
	struct sl__family *family = NULL, *new_family = NULL;
	struct sl__metric *old;
	int refusal;

	if (p->metric_count >= p->buckets)
		tables_grow(p);
	refusal = SL__REFUSED_MEMORY;
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
		*out = old;
		return -1;
	}
	family = is_string(m->record.kind) ? NULL : p->families[name_hash & (p->buckets - 1)];
	for (; family; family = family->next)
		if (family->hash == name_hash && !strncmp(family->name, name, name_bytes) &&
		    !family->name[name_bytes])
			break;
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
		new_family = malloc(sizeof(*new_family) + name_bytes + 1);
		if (!new_family)
			goto err;
		new_family->kind = m->record.kind;
		new_family->hash = name_hash;
		*(char *)mempcpy(new_family->name, name, name_bytes) = '\0';
	}
	if (is_histogram(m->record.kind)) {
		m->buckets = sl__buckets_get(shape, place(p, m->record.cells));
		if (!m->buckets)
			goto err;
	}
	if (reserve(p, m->record.cells, m->record.length))
		goto err;

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

	m->next = p->metrics[m->hash & (p->buckets - 1)];
	p->metrics[m->hash & (p->buckets - 1)] = m;
	*p->last = m;
	p->last = &m->next_new;
	if (new_family) {
		new_family->next = p->families[name_hash & (p->buckets - 1)];
		p->families[name_hash & (p->buckets - 1)] = new_family;
	}
	*out = m;
	return -1;

err:
	sl__buckets_put(m->buckets);
	free(new_family);
	free(m);
	return refusal;
}

struct sl__handle sl__metric_create(struct sl_publisher *p, enum sl_metric_kind kind,
				    const struct sl_metric_opts *opts)
{
	struct sl__handle handle = {0};
	struct sl__shape shape = {0};
	struct sl__metric *m = NULL;
	struct sl_metric_opts o = {0};
	uint32_t label_bytes, state_bytes;
	size_t unit = 0, help = 0, unused;
	uint8_t *labels = NULL;
	struct sl__guard guard;
	int refusal, error;
	bool first;

	if (!p) {
		handle.error = -EINVAL;
		return handle;
	}
	refusal = SL__REFUSED_OPTS;
	if (!SL__HAS(opts, name) || !sl__opts_take(&o, sizeof(o), opts))
		goto refused;
	refusal = SL__REFUSED_SPANS;
	if (is_string(kind) && !p->span_lines)
		goto refused;
	refusal = SL__REFUSED_NAME;
	if (is_string(kind) ? !o.name || !*o.name || !sl__utf8(o.name, SL_NAME_MAX, &unused)
			    : !name_valid(o.name, true))
		goto refused;
	refusal = SL__REFUSED_TEXT;
	if ((o.help && !sl__utf8(o.help, SL_HELP_MAX, &help)) ||
	    (o.unit && !unit_valid(o.unit, &unit)))
		goto refused;
	if (kind == SL_KIND_STATESET && !stateset_name_valid(&o))
		goto refused;
	refusal = shape_of(kind, &o, &shape, &state_bytes);
	if (refusal)
		goto refused;
	error = sl__labels_encode(o.labels, o.label_count, is_histogram(kind), &labels,
				  &label_bytes);
	if (error) {
		refusal = error == -ENOMEM ? SL__REFUSED_MEMORY : SL__REFUSED_LABEL;
		goto refused;
	}
	refusal = SL__REFUSED_MEMORY;
	m = metric_make(kind, &o, &shape, unit, help, labels, label_bytes, state_bytes);
	free(labels);
	if (!m)
		goto refused;
	sl__lock(&guard);
	if (p->orphan && sl__revive(p)) {
		free(m);
	} else {
		refusal = metric_add(p, m, &shape, &m);
		if (refusal < 0) {
			handle.bits = (uint64_t)p->slot << 32;
			if (is_string(kind))
				handle.bits |= m->record.id;
			else if (!is_histogram(kind))
				handle.bits |= sl_cell_offset(m->record.cell);
			handle.buckets = m->buckets;
		}
	}
	sl__unlock(&guard);
	if (refusal < 0)
		return handle;

refused:
	sl__lock(&guard);
	atomic_fetch_add_explicit(&p->refused, 1, memory_order_relaxed);
	sl__hot_add(p, SL_HOT_REFUSED, 1);
	first = !(p->logged & 1u << refusal);
	p->logged |= 1u << refusal;
	sl__unlock(&guard);
	if (first)
		sl__log(SL_LOG_WARN,
			"sidelight: metric refused (further ones for this reason are counted, not "
			"logged) name=%.*s reason=\"%s\"",
			(int)(o.name ? strnlen(o.name, 64) : 1), o.name ? o.name : "?",
			refusals[refusal].text);
	handle.error = -refusals[refusal].error;
	return handle;
}

#define CREATE(type, function, kind)                                                 \
	struct type function(struct sl_publisher *p, const struct sl_metric_opts *o) \
	{                                                                            \
		struct sl__handle h = sl__metric_create(p, kind, o);                 \
                                                                                     \
		return (struct type){h.bits};                                        \
	}

CREATE(sl_counter, sl_counter_create, SL_KIND_COUNTER)
CREATE(sl_counter_f64, sl_counter_f64_create, SL_KIND_COUNTER_F64)
CREATE(sl_gauge, sl_gauge_create, SL_KIND_GAUGE)
CREATE(sl_gauge_f64, sl_gauge_f64_create, SL_KIND_GAUGE_F64)
CREATE(sl_stateset, sl_stateset_create, SL_KIND_STATESET)

struct sl_histogram sl_histogram_create(struct sl_publisher *p, const struct sl_metric_opts *o)
{
	struct sl__handle h = sl__metric_create(p, SL_KIND_HISTOGRAM_EXP, o);

	return (struct sl_histogram){h.bits, h.buckets};
}

struct sl_histogram sl_histogram_create_classic(struct sl_publisher *p,
						const struct sl_metric_opts *o)
{
	struct sl__handle h = sl__metric_create(p, SL_KIND_HISTOGRAM, o);

	return (struct sl_histogram){h.bits, h.buckets};
}

int sl_info_create(struct sl_publisher *p, const struct sl_metric_opts *o)
{
	return sl__metric_create(p, SL_KIND_INFO, o).error;
}

uint64_t sl__string_create(struct sl_publisher *p, const char *text)
{
	struct sl_metric_opts o = {.sz = sizeof(o), .name = text};

	return sl__metric_create(p, (enum sl_metric_kind)SL_KIND_STRING, &o).bits;
}
