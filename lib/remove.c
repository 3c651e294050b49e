// SPDX-License-Identifier: Apache-2.0
/*
 * remove.c - removes, restores and replaces metrics, as sidelight-region(5) describes under
 * "Created": a reader with the old layout never mistakes a new series for the old one.
 */
#include <errno.h>
#include <stdlib.h>

#include "metric.h"

static void created_set(const struct sl__metric *m, uint64_t ns)
{
	const struct sl__region *r = m->region;

	/* Lines of this section are mixed, like the lines of stripe 0. */
	sl__shared_set((uintptr_t)r->base + r->created_offset + sl_cell_offset(m->record.id), ns);
}

/* This time distinguishes two uses of a record, so it must differ even if the options give one. */
void sl__metric_created(struct sl__metric *m)
{
	created_set(m, (m->created ?: sl__realtime_ns()) + m->uses++);
}

/* ---- values ---- */

static bool is_f64_sum(const struct sl__metric *m, uint32_t cell)
{
	switch (sl__metric_kind(m)) {
	case SL_KIND_COUNTER_F64:
		return true;
	case SL_KIND_HISTOGRAM:
	case SL_KIND_HISTOGRAM_EXP:
		return cell == SL_HIST_SUM;
	case SL_KIND_SUMMARY:
		return cell == SL_SUMMARY_SUM;
	default:
		return false;
	}
}

/*
 * Sets a metric's cell to 0. Clears it in the stripes that this thread may write: its own, those
 * without an owner, and the shared one. Values in other threads' stripes are subtracted in the
 * shared stripe.
 */
static void clear_cell(const struct sl__region *r, uint32_t offset, bool f64,
		       const uint64_t *writable)
{
	uintptr_t shared = (uintptr_t)r->base + r->stripe_offset + offset;
	uint32_t stripes = atomic_load_explicit(&r->stripes_used, memory_order_relaxed);
	uint64_t sum = 0;
	double f64_sum = 0;

	for (uint32_t i = 1; i < stripes; i++) {
		uintptr_t cell = shared + (uintptr_t)i * r->stride;
		/* Relaxed: a concurrent late update may be lost; that is acceptable. */
		uint64_t v = __atomic_load_n((uint64_t *)cell, __ATOMIC_RELAXED);

		if (!v)
			continue;
		if ((writable[i / 64] >> i % 64 & 1) && sl__own_add(cell, -v))
			continue;
		if (f64)
			f64_sum += sl_f64_of_cell(v);
		else
			sum += v;
	}
	sl__shared_set(shared, f64 ? sl_cell_of_f64(f64_sum != 0 ? -f64_sum : 0) : -sum);
}

static void clear_values(const struct sl__metric *m)
{
	const struct sl__region *r = m->region;
	uint64_t writable[(SL__THREADS_MAX + 1 + 63) / 64] = {0};
	uint32_t own = sl__stripe_index(r->slot);

	if (own)
		writable[own / 64] |= 1ull << own % 64;
	for (uint32_t i = 0; i < r->free_count; i++)
		writable[r->free_stripes[i] / 64] |= 1ull << r->free_stripes[i] % 64;
	for (uint32_t i = 0; i < m->record.cells; i++)
		clear_cell(r, (uint32_t)sl_cell_offset(m->record.cell + i), is_f64_sum(m, i),
			   writable);
}

/* ---- places of removed records ---- */

static struct sl__vacancy *vacancy_of(const struct sl__metric *m)
{
	const struct sl_schema_record *r = &m->record;
	struct sl__vacancy *v;

	for (v = m->region->vacancies; v; v = v->next)
		if (v->kind == r->kind && v->cells == r->cells && v->bounds == r->bound_count &&
		    v->length == r->length)
			return v;
	v = malloc(sizeof(*v));
	if (!v)
		return NULL;
	*v = (struct sl__vacancy){
		.next = m->region->vacancies,
		.kind = r->kind,
		.cells = r->cells,
		.bounds = r->bound_count,
		.length = r->length,
		.queue = TAILQ_HEAD_INITIALIZER(v->queue),
	};
	m->region->vacancies = v;
	return v;
}

static void vacate_record(struct sl__metric *m)
{
	struct sl__vacancy *v = m->record.kind & SL_KIND_REPLACEABLE ? vacancy_of(m) : NULL;

	m->vacancy = v;
	/* if v could not be allocated, only a metric with the same labels can reuse this record */
	if (v)
		TAILQ_INSERT_TAIL(&v->queue, m, vacant);
}

static void occupy_record(struct sl__metric *m)
{
	if (m->vacancy)
		TAILQ_REMOVE(&m->vacancy->queue, m, vacant);
	m->vacancy = NULL;
	m->removed_ns = 0;
	m->region->publisher->removed_count--;
}

struct sl__metric *sl__vacancy_find(const struct sl_publisher *p, const struct sl__metric *m)
{
	const struct sl_schema_record *r = &m->record;
	struct sl__metric *best = NULL;
	uint64_t now;

	if (!p->removed_count || !(r->kind & SL_KIND_REPLACEABLE))
		return NULL;
	now = sl__monotonic_ns();
	for (const struct sl__region *in = p->regions; in; in = in->next)
		for (const struct sl__vacancy *v = in->vacancies; v; v = v->next) {
			struct sl__metric *first = TAILQ_FIRST(&v->queue);

			if (first && !in->orphan && v->kind == r->kind && v->cells == r->cells &&
			    v->bounds == r->bound_count && v->length >= r->length &&
			    (!best || v->length < best->record.length) &&
			    now - first->removed_ns >= SL_REPLACE_NS)
				best = first;
		}
	return best;
}

void sl__vacancies_free(struct sl__region *r)
{
	for (struct sl__vacancy *v = r->vacancies, *next; v; v = next) {
		next = v->next;
		free(v);
	}
}

/* ---- removed, given back, replaced ---- */

static void remove_one(struct sl__metric *m)
{
	m->removed_ns = sl__monotonic_ns();
	m->region->publisher->removed_count++;
	created_set(m, 0);
	vacate_record(m);
}

void sl__metric_restore(struct sl__metric *m, uint64_t created)
{
	clear_values(m);
	occupy_record(m);
	m->created = created;
	sl__metric_created(m);
	sl__hot_change(m->region);
}

static void unlink_hashed(struct sl_publisher *p, const struct sl__metric *m)
{
	struct sl__metric **at = &p->metrics[m->hash & (p->buckets - 1)];

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
}

void sl__vacancy_fill(struct sl__metric *old, const struct sl__metric *m)
{
	const uint32_t length = old->record.length, cell = old->record.cell, id = old->record.id;

	clear_values(old);
	unlink_hashed(old->region->publisher, old);
	occupy_record(old);
	sl__buckets_put(old->buckets);
	old->buckets = m->buckets;
	old->hash = m->hash;
	old->created = m->created;
	old->name_at = m->name_at;
	old->labels_at = m->labels_at;
	memcpy(&old->record, &m->record, m->record.length);
	memset(sl__metric_text(old, m->record.length), 0, length - m->record.length);
	old->record.length = length;
	old->record.cell = cell;
	old->record.id = id;
	sl__metric_write(old);
	sl__hot_change(old->region);
	sl__metric_link(old->region->publisher, old);
}

int sl__metric_remove(struct sl_publisher *p, const struct sl__metric *model,
		      const struct sl_label *labels, size_t count)
{
	struct sl__metric *m, *found;
	struct sl__guard guard;
	int r = sl__metric_of(model, labels, count, true, &m);

	if (r)
		return r == SL__REFUSED_MEMORY ? -ENOMEM : -EINVAL;
	sl__lock(&guard);
	r = -ENOMEM;
	if (p->forked && sl__revive(p->regions))
		goto out;
	r = -ENOENT;
	if (!p->buckets)
		goto out;
	for (found = p->metrics[m->hash & (p->buckets - 1)]; found; found = found->next)
		if (!found->removed_ns && !found->region->orphan && sl__metric_same(found, m))
			break;
	if (!found)
		goto out;
	remove_one(found);
	sl__hot_change(found->region);
	r = 0;
out:
	sl__unlock(&guard);
	free(m);
	return r;
}

int sl__family_remove(uint64_t bits, uint32_t kind, const struct sl_label *labels, size_t count)
{
	struct sl_publisher *p;
	const struct sl__metric *model = sl__family_model(bits, kind, &p);

	return model ? sl__metric_remove(p, model, labels, count) : -EINVAL;
}

int sl__family_clear(uint64_t bits, uint32_t kind)
{
	struct sl_publisher *p;
	const struct sl__metric *model = sl__family_model(bits, kind, &p);
	struct sl__guard guard;

	if (!model)
		return -EINVAL;
	sl__lock(&guard);
	if (p->forked && sl__revive(p->regions)) {
		sl__unlock(&guard);
		return -ENOMEM;
	}
	for (struct sl__region *r = p->regions; r; r = r->next) {
		bool any = false;

		for (struct sl__metric *m = r->first; m && !r->orphan; m = m->next_new) {
			if (m->removed_ns || sl__is_string(m->record.kind) ||
			    m->record.name_bytes != model->record.name_bytes ||
			    memcmp(sl__metric_name(m), sl__metric_name(model),
				   m->record.name_bytes))
				continue;
			remove_one(m);
			any = true;
		}
		if (any)
			sl__hot_change(r);
	}
	sl__unlock(&guard);
	return 0;
}
