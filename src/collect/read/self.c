// SPDX-License-Identifier: Apache-2.0
/*
 * self.c - the collector's own families, as source.c walks them. sidelight-collect(1) lists them
 * and says what to do about each.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "collect/read/host.h"
#include "collect/read/link.h"
#include "collect/read/self.h"
#include "collect/read/worker.h"

/* ---- labels and values of a series ---- */

bool collect_self_labels(struct collect_self *s, struct export_series *out,
			 const struct region_text_label *labels, uint32_t n)
{
	collect_label_set_put(s->labels);
	s->labels = collect_label_set_new(labels, n);
	if (!s->labels)
		return false;
	out->label_text = s->labels->text;
	out->label_bytes = s->labels->text_bytes;
	out->label_keys = s->labels->keys;
	out->label_values = s->labels->values;
	out->label_count = n;
	return true;
}

bool collect_self_label(struct collect_self *s, struct export_series *out, const char *key,
			const char *value)
{
	return SELF_LABELS(s, out, {key, value});
}

bool collect_self_u64(struct export_series *out, uint64_t v)
{
	out->value_type = EXPORT_VALUE_U64;
	out->value.u64 = v;
	return true;
}

bool collect_self_f64(struct export_series *out, double v)
{
	out->value_type = EXPORT_VALUE_F64;
	out->value.f64 = v;
	return true;
}

bool collect_self_single(struct collect_self *s, struct export_series *out, uint64_t v)
{
	return s->at == 0 && collect_self_labels(s, out, NULL, 0) && collect_self_u64(out, v);
}

/* ---- counters ---- */

static uint64_t load_at(const void *base, size_t offset)
{
	return __atomic_load_n((const uint64_t *)((const char *)base + offset), __ATOMIC_RELAXED);
}

static uint64_t sum_of_host(const struct collect_host *h, const struct collect_self_counter *n)
{
	uint64_t sum = 0;

	for (unsigned int k = 0; k < h->links; k++) {
		struct collect_link *l = h->link[k];

		if (n->owner == LINKS) {
			sum += load_at(l, n->offset);
			continue;
		}
		pthread_mutex_lock(&l->stats_lock);
		sum += load_at(&l->stats, n->offset);
		pthread_mutex_unlock(&l->stats_lock);
	}
	return sum;
}

uint64_t collect_self_sum(const struct collect_self *s, const void *found,
			  const struct collect_self_counter *n)
{
	const void *const one[] = {[COLLECTOR] = s->c,
				   [WALK] = s,
				   [OWN] = s->own,
				   [ATTACHED] = s->arg,
				   [FOUND] = found};
	uint64_t sum = 0;

	if (n->owner <= FOUND)
		return load_at(one[n->owner], n->offset);
	if (found)
		return sum_of_host(found, n);
	for (unsigned int i = 0; n->owner == WORKERS && i < s->c->workers; i++)
		sum += load_at(&s->c->worker[i], n->offset);
	for (size_t i = 0; n->owner != WORKERS && i < s->c->hosts; i++)
		sum += n->owner == BESIDE ? load_at(s->c->host[i].beside, n->offset)
					  : sum_of_host(&s->c->host[i], n);
	return sum;
}

struct region_text_label collect_self_by(const struct collect_self *s)
{
	const struct collect_self_family *f = s->family;

	return (struct region_text_label){f->key, f->counter[s->at % f->counters].label};
}

/*
 * Returns the sum of counter s->at and the following ones with the same label, or of all of them if
 * the family has no label. Moves s->at to the last counter of the sum.
 */
static uint64_t sum_label(struct collect_self *s)
{
	const struct collect_self_family *f = s->family;
	const char *label = f->counter[s->at].label;
	uint64_t v = collect_self_sum(s, NULL, &f->counter[s->at]);

	while (s->at + 1 < f->counters && (!label || !strcmp(f->counter[s->at + 1].label, label)))
		v += collect_self_sum(s, NULL, &f->counter[++s->at]);
	return v;
}

bool collect_self_counters(struct collect_self *s, struct export_series *out)
{
	const struct collect_self_family *f = s->family;
	const void *found = f->find ? f->find(s, out) : NULL;
	uint64_t v;

	if (f->find ? !found : s->at >= f->counters)
		return false;
	if (!f->find && !(f->key ? collect_self_label(s, out, f->key, f->counter[s->at].label)
				 : collect_self_labels(s, out, NULL, 0)))
		return false;
	v = found ? collect_self_sum(s, found, &f->counter[s->at % f->counters]) : sum_label(s);
	return strcmp(f->unit, "seconds") ? collect_self_u64(out, v)
					  : collect_self_f64(out, (double)v * 1e-9);
}

/* ---- the families, sorted by name ---- */

struct collect_self_entry {
	struct export_family f;
	const struct collect_self_family *family;
	const struct collect_self_group *group;
	unsigned int part;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct export_family *)a)->name,
		      ((const struct export_family *)b)->name);
}

static void add_group(struct collect_collector *c, const struct collect_self_group *g,
		      unsigned int part)
{
	for (size_t i = 0; i < g->families; i++) {
		const struct collect_self_family *f = &g->family[i];

		c->family[c->families++] = (struct collect_self_entry){
			.f = {.name = f->name,
			      .help = f->help,
			      .unit = f->unit,
			      .type = f->type,
			      .series = 1},
			.family = f,
			.group = g,
			.part = part,
		};
	}
}

bool collect_self_add(struct collect_collector *c, const struct collect_part *part,
		      unsigned int number)
{
	const struct collect_self_group *const *g;
	size_t n = c->families;

	for (g = part->groups; g && *g; g++)
		n += (*g)->families;
	if (!base_grow(&c->family, &c->family_room, n, sizeof(*c->family)))
		return false;
	for (g = part->groups; g && *g; g++)
		add_group(c, *g, number);
	qsort(c->family, c->families, sizeof(*c->family), by_name);
	return true;
}

bool collect_self_has(const struct collect_collector *c, const char *name)
{
	for (size_t i = 0; i < c->families; i++) {
		size_t n = strlen(c->family[i].f.name);

		if (!strncmp(name, c->family[i].f.name, n) && (!name[n] || name[n] == '_'))
			return true;
	}
	return false;
}

/* Sets s->arg and s->own for a part. */
static void turn_to_part(struct collect_self *s, unsigned int part)
{
	s->arg = s->c->part[part].arg;
	s->own = s->part_own[part];
}

static bool begin_part(struct collect_self *s, unsigned int i)
{
	const struct collect_part *part = s->c->part[i].of;

	if (!part->walk_bytes)
		return true;
	s->part_own[i] = calloc(1, part->walk_bytes);
	turn_to_part(s, i);
	return s->own && (!part->walk_begin || part->walk_begin(s));
}

struct collect_self *collect_self_begin(struct collect_collector *c, struct collect_index *x)
{
	struct collect_self *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->c = c;
	s->x = x;
	s->now_ns = base_now_ns();
	collect_collector_totals(c, &s->totals);
	for (unsigned int i = 0; i < c->parts; i++) {
		if (begin_part(s, i))
			continue;
		collect_self_end(s);
		return NULL;
	}
	return s;
}

/* Returns true if the family is exposed, i.e. its part is in use. */
static bool is_exposed(struct collect_self *s, const struct collect_self_entry *e)
{
	turn_to_part(s, e->part);
	return !e->group->exposed || e->group->exposed(s);
}

const struct export_family *collect_self_peek(struct collect_self *s)
{
	while (s->next < s->c->families && !is_exposed(s, &s->c->family[s->next]))
		s->next++;
	return s->next < s->c->families ? &s->c->family[s->next].f : NULL;
}

void collect_self_enter(struct collect_self *s)
{
	const struct collect_self_entry *e = &s->c->family[s->next++];

	turn_to_part(s, e->part);
	s->family = e->family;
	s->at = 0;
}

int collect_self_next(struct collect_self *s, struct export_series *out)
{
	out->created_ns = 0;
	if (!(s->family->series ?: collect_self_counters)(s, out))
		return 0;
	s->at++;
	return 1;
}

void collect_self_end(struct collect_self *s)
{
	if (!s)
		return;
	for (unsigned int i = 0; i < s->c->parts; i++) {
		turn_to_part(s, i);
		if (s->own && s->c->part[i].of->walk_end)
			s->c->part[i].of->walk_end(s);
		free(s->own);
	}
	collect_label_set_put(s->labels);
	free(s);
}
