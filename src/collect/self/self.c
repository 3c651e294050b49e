// SPDX-License-Identifier: Apache-2.0
/*
 * self.c - the collector's own families, in the walk of source.c. sidelight-collect(1) lists them
 * with what to do about each.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/base.h"
#include "collect/read/host.h"
#include "collect/read/link.h"
#include "collect/self/families.h"
#include "collect/self/self.h"
#include "collect/read/worker.h"

/* ---- making a series ---- */

bool collect_self_labels(struct collect_self *s, struct export_series *out,
			 const struct region_text_label *labels, uint32_t n)
{
	free(s->labels);
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
	struct region_text_label label = {key, value};

	return collect_self_labels(s, out, &label, 1);
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

static uint64_t at(const void *base, size_t offset)
{
	return __atomic_load_n((const uint64_t *)((const char *)base + offset), __ATOMIC_RELAXED);
}

uint64_t collect_self_of_host(const struct collect_host *h, const struct collect_self_counter *n)
{
	uint64_t sum = 0;

	for (unsigned int k = 0; k < h->links; k++) {
		struct collect_link *l = h->link[k];

		if (n->owner == LINKS) {
			sum += at(l, n->offset);
			continue;
		}
		pthread_mutex_lock(&l->stats_lock);
		sum += at(&l->stats, n->offset);
		pthread_mutex_unlock(&l->stats_lock);
	}
	return sum;
}

uint64_t collect_self_sum(const struct collect_self *s, const struct collect_self_counter *n)
{
	uint64_t sum = 0;

	if (n->owner == COLLECTOR)
		return at(s->c, n->offset);
	if (n->owner == WALK)
		return at(s, n->offset);
	for (unsigned int i = 0; n->owner == WORKERS && i < s->c->workers; i++)
		sum += at(&s->c->worker[i], n->offset);
	for (size_t i = 0; n->owner != WORKERS && i < s->c->hosts; i++)
		sum += collect_self_of_host(&s->c->host[i], n);
	return sum;
}

/* Those of receivers have one series per receiver and counter. */
bool collect_self_counters(struct collect_self *s, struct export_series *out, const char *key,
			   const struct collect_self_counter *counters, size_t n)
{
	const struct collect_self_counter *counter = &counters[s->at % n];
	size_t i = s->at / n;

	if (counter->owner == PUSH)
		return i < s->pushes &&
		       collect_self_labels(s, out,
					   (struct region_text_label[]){{"to", s->push[i].to},
									{key, counter->label}},
					   key ? 2 : 1) &&
		       collect_self_u64(out, at(&s->push[i].stats, counter->offset));
	return !i && collect_self_label(s, out, key, counter->label) &&
	       collect_self_u64(out, collect_self_sum(s, counter));
}

/* ---- the families, sorted by name ---- */

static const struct collect_self_part *const parts[] = {
	&collect_self_analysis, &collect_self_collector, &collect_self_dta, &collect_self_discover,
	&collect_self_http,	&collect_self_kafka,	 &collect_self_net, &collect_self_push,
	&collect_self_regions,	&collect_self_sampling,	 &collect_self_tcp, &collect_self_tenant,
	&collect_self_trace,
};

enum { FAMILIES_MAX = 128 };
static struct {
	struct export_family f;
	const struct collect_self_family *family;
	const struct collect_self_part *part;
} table[FAMILIES_MAX];
static size_t families;
static pthread_once_t sorted = PTHREAD_ONCE_INIT;

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct export_family *)a)->name,
		      ((const struct export_family *)b)->name);
}

static void sort_families(void)
{
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		for (size_t k = 0; k < parts[i]->families && families < FAMILIES_MAX; k++) {
			const struct collect_self_family *f = &parts[i]->family[k];

			table[families].f = (struct export_family){.name = f->name,
								   .help = f->help,
								   .unit = f->unit,
								   .type = f->type,
								   .series = 1};
			table[families].family = f;
			table[families++].part = parts[i];
		}
	qsort(table, families, sizeof(*table), by_name);
}

bool collect_self_has(const char *name)
{
	pthread_once(&sorted, sort_families);
	for (size_t i = 0; i < families; i++) {
		size_t n = strlen(table[i].f.name);

		if (!strncmp(name, table[i].f.name, n) && (!name[n] || name[n] == '_'))
			return true;
	}
	return false;
}

struct collect_self *collect_self_begin(struct collect_collector *c, struct collect_index *x)
{
	struct collect_self *s = calloc(1, sizeof(*s));

	pthread_once(&sorted, sort_families);
	if (!s)
		return NULL;
	s->c = c;
	s->x = x;
	s->now_ns = base_now_ns();
	collect_collector_totals(c, &s->totals);
	if (c->tracer)
		collect_tracer_stats(c->tracer, &s->trace);
	if (c->live)
		collect_self_live_begin(s);
	if (!collect_self_net_begin(s)) {
		collect_self_end(s);
		return NULL;
	}
	return s;
}

const struct export_family *collect_self_peek(struct collect_self *s)
{
	while (s->next < families && table[s->next].part->exposed &&
	       !table[s->next].part->exposed(s))
		s->next++;
	return s->next < families ? &table[s->next].f : NULL;
}

void collect_self_enter(struct collect_self *s)
{
	s->family = table[s->next++].family;
	s->at = 0;
}

int collect_self_next(struct collect_self *s, struct export_series *out)
{
	out->created_ns = 0;
	if (!s->family->series(s, out))
		return 0;
	s->at++;
	return 1;
}

void collect_self_left_out(struct collect_self *s, size_t series)
{
	s->left_out_series = series;
}

void collect_self_end(struct collect_self *s)
{
	if (!s)
		return;
	collect_self_net_end(s);
	json_decref(s->dta);
	free(s->workload);
	free(s->labels);
	free(s);
}
