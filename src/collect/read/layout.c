// SPDX-License-Identifier: Apache-2.0
/*
 * layout.c - turns a schema into a layout: the exposed name of each metric and its cells. Regions
 * with equal metrics share definitions: 256 replicas of a service hold one copy of each name, help
 * text and label.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"
#include "collect/read/calc.h"
#include "collect/read/collector_internal.h"
#include "collect/read/ref.h"

int collect_defs_init(struct collect_defs *d)
{
	pthread_mutex_init(&d->lock, NULL);
	return base_table_init(&d->defs) && base_table_init(&d->families) ? 0 : -ENOMEM;
}

void collect_defs_free(struct collect_defs *d)
{
	base_table_free(&d->defs);
	base_table_free(&d->families);
	pthread_mutex_destroy(&d->lock);
}

/* ---- families ---- */

static bool ends_with(const char *s, size_t n, const char *end)
{
	size_t e = strlen(end);

	return n > e && !memcmp(s + n - e, end, e);
}

static size_t family_length(const struct region_metric *m)
{
	size_t n = strlen(m->name);

	if (region_is_counter(m) && ends_with(m->name, n, "_total"))
		return n - 6;
	if (m->kind == SL_KIND_INFO && ends_with(m->name, n, "_info"))
		return n - 5;
	return n;
}

static struct collect_family_name *family_get(struct collect_collector *c, const char *name,
					      size_t bytes, bool counter)
{
	struct base_table *h = &c->defs.families;
	uint64_t hash = base_hash(counter, name, bytes);
	struct collect_family_name *f;

	for (f = base_table_first(h, hash); f; f = base_table_next(f))
		if (f->counter == counter && f->name_bytes == bytes &&
		    !memcmp(f->name, name, bytes)) {
			f->refs++;
			return f;
		}
	f = calloc(1, sizeof(*f) + bytes + 1);
	if (!f)
		return NULL;
	f->refs = 1;
	f->counter = counter;
	f->name_bytes = bytes;
	memcpy(f->name, name, bytes);
	base_table_add(h, f, hash);
	relaxed_add(c->memory, sizeof(*f) + bytes + 1);
	return f;
}

static void family_put(struct collect_collector *c, struct collect_family_name *f)
{
	if (--f->refs)
		return;
	base_table_remove(&c->defs.families, f);
	relaxed_sub(c->memory, sizeof(*f) + f->name_bytes + 1);
	free(f);
}

/* ---- definitions ---- */

static const enum export_family_type types[] = {
	[SL_KIND_COUNTER] = EXPORT_FAMILY_COUNTER,
	[SL_KIND_COUNTER_F64] = EXPORT_FAMILY_COUNTER,
	[SL_KIND_GAUGE] = EXPORT_FAMILY_GAUGE,
	[SL_KIND_GAUGE_F64] = EXPORT_FAMILY_GAUGE,
	[SL_KIND_HISTOGRAM_EXP] = EXPORT_FAMILY_HISTOGRAM,
	[SL_KIND_HISTOGRAM] = EXPORT_FAMILY_HISTOGRAM,
	[SL_KIND_INFO] = EXPORT_FAMILY_INFO,
	[SL_KIND_STATESET] = EXPORT_FAMILY_STATESET,
	[SL_KIND_SUMMARY] = EXPORT_FAMILY_SUMMARY,
	[SL_KIND_UNKNOWN] = EXPORT_FAMILY_UNKNOWN,
	[SL_KIND_GAUGE_HISTOGRAM] = EXPORT_FAMILY_GAUGE_HISTOGRAM,
	[SL_KIND_GAUGE_HISTOGRAM_EXP] = EXPORT_FAMILY_GAUGE_HISTOGRAM,
	[SL_KIND_GAUGE_TIMED] = EXPORT_FAMILY_GAUGE,
};

/* A mirrored counter keeps the name it was copied with. */
static enum export_family_type type_of(const struct region_metric *m)
{
	size_t n = strlen(m->name);

	if (types[m->kind] == EXPORT_FAMILY_COUNTER && m->flags & SL_FLAG_MIRROR &&
	    !ends_with(m->name, n, "_total"))
		return EXPORT_FAMILY_BARE_COUNTER;
	return types[m->kind];
}

static uint64_t def_hash(const struct region_metric *m)
{
	uint64_t numbers[6] = {m->kind | (uint64_t)m->flags << 32,
			       m->cells,
			       m->label_count,
			       (uint64_t)m->scale,
			       (uint64_t)m->first_bucket,
			       m->state_count};
	uint64_t h = base_hash_text(base_hash(0, numbers, sizeof(numbers)), m->name);

	h = base_hash_text(base_hash_text(h, m->unit), m->help);
	for (uint32_t i = 0; i < m->label_count; i++)
		h = base_hash_text(base_hash_text(h, m->labels[i].key), m->labels[i].value);
	for (uint32_t i = 0; i < m->state_count; i++)
		h = base_hash_text(h, m->states[i]);
	return base_hash(h, m->bounds, m->bound_count * sizeof(double));
}

static bool same_def(const struct region_metric *a, const struct region_metric *b)
{
	if (a->kind != b->kind || a->flags != b->flags || a->cells != b->cells ||
	    a->label_count != b->label_count || a->bound_count != b->bound_count ||
	    a->state_count != b->state_count || a->scale != b->scale ||
	    a->first_bucket != b->first_bucket || a->bucket_count != b->bucket_count ||
	    memcmp(&a->zero_threshold, &b->zero_threshold, sizeof(double)) ||
	    strcmp(a->name, b->name) || strcmp(a->unit, b->unit) || strcmp(a->help, b->help))
		return false;
	for (uint32_t i = 0; i < a->label_count; i++)
		if (strcmp(a->labels[i].key, b->labels[i].key) ||
		    strcmp(a->labels[i].value, b->labels[i].value))
			return false;
	for (uint32_t i = 0; i < a->state_count; i++)
		if (strcmp(a->states[i], b->states[i]))
			return false;
	return !a->bound_count || !memcmp(a->bounds, b->bounds, a->bound_count * sizeof(double));
}

static char *copy_text(char **at, const char *s)
{
	size_t n = strlen(s) + 1;
	char *to = memcpy(*at, s, n);

	*at += n;
	return to;
}

/* One allocation for the definition, its arrays and strings; another for the label set. */
static struct collect_def *def_new(struct collect_collector *c, const struct region_metric *m)
{
	size_t bytes = sizeof(struct collect_def), strings;
	struct region_text_label *labels;
	const char **states;
	struct collect_def *d;
	double *bounds;
	char *at;

	strings = strlen(m->name) + strlen(m->unit) + strlen(m->help) + 3;
	for (uint32_t i = 0; i < m->state_count; i++)
		strings += strlen(m->states[i]) + 1;
	bytes += m->bound_count * sizeof(double) + m->label_count * sizeof(*labels) +
		 m->state_count * sizeof(char *) + strings;
	d = calloc(1, bytes);
	if (!d)
		return NULL;
	d->labels = collect_label_set_new(m->labels, m->label_count);
	d->type = type_of(m);
	d->family = d->labels ? family_get(c, m->name, family_length(m),
					   d->type == EXPORT_FAMILY_COUNTER)
			      : NULL;
	if (!d->family) {
		collect_label_set_put(d->labels);
		free(d);
		return NULL;
	}
	d->refs = 1;
	d->metric = *m;
	d->metric.id = d->metric.cell = 0;
	d->metric.created_ns = 0;
	bounds = (double *)(d + 1);
	labels = (struct region_text_label *)(bounds + m->bound_count);
	states = (const char **)(labels + m->label_count);
	at = (char *)(states + m->state_count);
	if (m->bound_count)
		memcpy(bounds, m->bounds, m->bound_count * sizeof(double));
	for (uint32_t i = 0; i < m->label_count; i++)
		labels[i] = (struct region_text_label){d->labels->keys[i], d->labels->values[i]};
	for (uint32_t i = 0; i < m->state_count; i++)
		states[i] = copy_text(&at, m->states[i]);
	d->metric.bounds = bounds;
	d->metric.labels = labels;
	d->metric.states = states;
	d->metric.name = copy_text(&at, m->name);
	d->metric.unit = copy_text(&at, m->unit);
	d->metric.help = copy_text(&at, m->help);
	d->bytes = bytes;
	relaxed_add(c->memory, d->bytes);
	collect_label_set_count(d->labels, &c->memory);
	return d;
}

/* The caller holds the lock of struct collect_defs. */
static struct collect_def *def_get(struct collect_collector *c, const struct region_metric *m)
{
	struct base_table *h = &c->defs.defs;
	uint64_t hash = def_hash(m);
	struct collect_def *d;

	for (d = base_table_first(h, hash); d; d = base_table_next(d))
		if (same_def(&d->metric, m)) {
			d->refs++;
			return d;
		}
	d = def_new(c, m);
	if (d)
		base_table_add(h, d, hash);
	return d;
}

static void def_put_locked(struct collect_collector *c, struct collect_def *d)
{
	if (--d->refs)
		return;
	base_table_remove(&c->defs.defs, d);
	family_put(c, d->family);
	relaxed_sub(c->memory, d->bytes);
	collect_label_set_put(d->labels);
	free(d);
}

void collect_def_ref(struct collect_collector *c, struct collect_def *d)
{
	pthread_mutex_lock(&c->defs.lock);
	d->refs++;
	pthread_mutex_unlock(&c->defs.lock);
}

void collect_def_put(struct collect_collector *c, struct collect_def *d)
{
	pthread_mutex_lock(&c->defs.lock);
	def_put_locked(c, d);
	pthread_mutex_unlock(&c->defs.lock);
}

/* ---- layouts ---- */

static void fill_column(struct collect_layout *l, const struct region_metric *m,
			struct collect_def *def)
{
	uint32_t i = l->columns++;

	l->column[i] = (struct collect_column){.def = def,
					       .cell = m->cell,
					       .id = m->id,
					       .removed = m->removed,
					       .created_ns = m->created_ns};
	l->f64[i] = collect_is_f64(m);
	l->scalar = l->scalar && m->cells == 1 && !m->removed;
}

/* Takes up to `wanted` series from the tenant's share of max_series. */
static void take_series(struct collect_collector *c, struct collect_region *r, uint32_t wanted)
{
	uint64_t n = BASE_MIN(collect_series_room(c, r->tenant), (uint64_t)wanted);

	relaxed_add(c->series_count, n);
	relaxed_add(r->tenant->series, n);
	r->series += (uint32_t)n;
}

uint64_t collect_series_room(const struct collect_collector *c, const struct collect_tenant *t)
{
	return collect_tenant_room(t, c->opts.max_series, relaxed_load(c->series_count),
				   relaxed_load(t->series));
}

static struct collect_layout *layout_alloc(struct collect_collector *c, uint32_t columns)
{
	size_t bytes = sizeof(struct collect_layout) +
		       columns * (sizeof(struct collect_column) + sizeof(bool));
	struct collect_layout *l = calloc(1, bytes);

	if (!l)
		return NULL;
	l->refs = 1;
	l->c = c;
	l->bytes = bytes;
	l->scalar = true;
	l->column = (struct collect_column *)(l + 1);
	l->f64 = (bool *)(l->column + columns);
	relaxed_add(c->memory, bytes);
	return l;
}

static int by_series(const void *a, const void *b)
{
	const struct collect_column *p = *(const struct collect_column *const *)a;
	const struct collect_column *q = *(const struct collect_column *const *)b;

	return BASE_ORDER(p->def->family, q->def->family) ?:
	       BASE_ORDER(p->def->type, q->def->type) ?:
	       strcmp(p->def->labels->text, q->def->labels->text) ?: BASE_ORDER(p, q);
}

/*
 * Marks metrics that would be exposed under the same name: counters "x" and "x_total", infos "x"
 * and "x_info". The first one keeps the name. Returns false if out of memory.
 */
static bool find_twins(struct collect_layout *l)
{
	struct collect_column **v = malloc((l->columns + (size_t)1) * sizeof(*v));
	uint32_t n = 0, suffixed = 0;

	if (!v)
		return false;
	for (uint32_t i = 0; i < l->columns; i++) {
		const struct collect_def *d = l->column[i].def;

		if (l->column[i].removed ||
		    (d->type != EXPORT_FAMILY_COUNTER && d->type != EXPORT_FAMILY_INFO))
			continue;
		suffixed += d->metric.name[d->family->name_bytes] != 0;
		v[n++] = &l->column[i];
	}
	if (suffixed && suffixed < n)
		qsort(v, n, sizeof(*v), by_series);
	for (uint32_t i = 1; suffixed && suffixed < n && i < n; i++)
		v[i]->twin = v[i]->def->family == v[i - 1]->def->family &&
			     v[i]->def->type == v[i - 1]->def->type &&
			     !strcmp(v[i]->def->labels->text, v[i - 1]->def->labels->text);
	free(v);
	return true;
}

/*
 * Lists the keys that metrics' labels must not use: the region's own keys and the keys of an
 * identity.
 */
static uint32_t taken_keys(const struct collect_region *r, const char **keys)
{
	uint32_t n = r->labels->count;

	memcpy(keys, r->labels->keys, n * sizeof(*keys));
	if (!r->tenant->exempt) {
		keys[n++] = "container_id";
		keys[n++] = "pod_uid";
	}
	return n;
}

/* Shared placeholder definition for removed metrics. */
static const struct region_metric nothing = {
	.kind = SL_KIND_INFO, .removed = true, .name = "", .unit = "", .help = ""};

struct collect_layout *collect_layout_make(struct collect_collector *c, struct collect_region *r,
					   struct region_metric *const *metrics, uint32_t wanted,
					   uint32_t cells, uint64_t generation)
{
	const char *taken[COLLECT_REGION_LABELS + COLLECT_TENANT_LABELS];
	uint32_t keys = taken_keys(r, taken), n;
	struct collect_layout *l;

	if (wanted > r->series)
		take_series(c, r, wanted - r->series);
	n = BASE_MIN(wanted, r->series);
	l = layout_alloc(c, n);
	if (!l)
		return NULL;
	l->generation = generation;
	l->refused = wanted - n;
	l->cells = cells;
	l->lines = (cells + SL_LINE_CELLS - 1) / SL_LINE_CELLS;
	pthread_mutex_lock(&c->defs.lock);
	for (uint32_t i = 0; i < n; i++) {
		struct region_text_label labels[SL_LABELS_MAX];
		struct region_metric m = metrics[i]->removed ? nothing : *metrics[i];
		struct collect_def *def = NULL;
		char *names;

		if (m.label_count)
			memcpy(labels, m.labels, m.label_count * sizeof(*labels));
		m.labels = labels;
		if (collect_labels_export(labels, m.label_count, taken, keys, &names))
			def = def_get(c, &m);
		free(names);
		if (!def)
			break;
		fill_column(l, &m, def);
	}
	pthread_mutex_unlock(&c->defs.lock);
	if (l->columns < n || !find_twins(l)) {
		collect_layout_put(l);
		l = NULL;
	} else if (l->refused > r->series_refused) {
		relaxed_add(c->refused_series, l->refused - r->series_refused);
		relaxed_add(r->tenant->refused_series, l->refused - r->series_refused);
		r->series_refused = l->refused;
		base_log_limited(
			BASE_WARN, "collect",
			"series refused count=%u uid=%s held=%llu max_series=%zu: raise "
			"--max-series; a tenant may hold at most as many series as remain free",
			l->refused, r->tenant->known ? r->tenant->uid : "unknown",
			(unsigned long long)relaxed_load(r->tenant->series), c->opts.max_series);
	}
	return l;
}

struct collect_layout *collect_layout_new(struct collect_collector *c, struct collect_region *r,
					  const void *schema, size_t bytes, uint64_t generation,
					  enum region_fault *fault)
{
	struct collect_layout *l = NULL;
	struct region_schema s;

	region_schema_init(&s);
	if (r->created_bytes) {
		s.created = (const uint64_t(*)[8])schema;
		s.created_lines = r->created_bytes / SL_LINE_SIZE;
	}
	*fault = region_schema_append(&s, r->info, (const uint8_t *)schema + r->created_bytes,
				      bytes - r->created_bytes);
	if (*fault == REGION_FAULT_NONE)
		l = collect_layout_make(c, r, s.metrics, (uint32_t)s.count, (uint32_t)s.cells,
					generation);
	if (l) {
		l->special = s.specials;
		l->specials = s.special_count;
		l->bytes += s.special_capacity * sizeof(*s.specials);
		relaxed_add(c->memory, s.special_capacity * sizeof(*s.specials));
		s.specials = NULL;
	}
	region_schema_free(&s);
	return l;
}

void collect_layout_put(struct collect_layout *l)
{
	struct collect_collector *c;

	if (!l || !collect_ref_put(&l->refs))
		return;
	c = l->c;
	pthread_mutex_lock(&c->defs.lock);
	for (uint32_t i = 0; i < l->columns; i++)
		def_put_locked(c, l->column[i].def);
	pthread_mutex_unlock(&c->defs.lock);
	relaxed_sub(c->memory, l->bytes);
	free(l->special);
	free(l);
}

uint64_t collect_column_created(const struct collect_column *c, const struct region_info *info,
				bool *known)
{
	const bool mirror = c->def->metric.flags & SL_FLAG_MIRROR;

	*known = c->created_ns >= SL_CREATED_KNOWN_NS;
	if (!*known)
		return mirror ? 0 : info->start_ns;
	/*
	 * A mirrored metric did not begin with the process that copies it. The library makes its
	 * creation time 1 ns later each time the metric is removed and comes back.
	 */
	return c->created_ns - (mirror ? c->created_ns % 100 : 0);
}
