// SPDX-License-Identifier: Apache-2.0
/*
 * self.c - the collector's own families, in the walk of source.c. sidelight-collect(1) lists them
 * with what to do about each.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/self/self.h"

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

/* ---- the table, sorted by name ---- */

/* ---- the families, sorted by name ---- */

static const struct collect_self_part *const parts[] = {
	&collect_self_analysis, &collect_self_collector, &collect_self_dta, &collect_self_net,
	&collect_self_push,	&collect_self_sampling,	 &collect_self_tcp, &collect_self_trace,
};

enum { FAMILIES_MAX = 128 };
static struct {
	const struct collect_self_family *family;
	const struct collect_self_part *part;
} table[FAMILIES_MAX];
static size_t families;
static pthread_once_t sorted = PTHREAD_ONCE_INIT;

static int by_name(const void *a, const void *b)
{
	return strcmp((*(const struct collect_self_family *const *)a)->name,
		      (*(const struct collect_self_family *const *)b)->name);
}

static void sort_families(void)
{
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		for (size_t k = 0; k < parts[i]->families && families < FAMILIES_MAX; k++) {
			table[families].family = &parts[i]->family[k];
			table[families++].part = parts[i];
		}
	qsort(table, families, sizeof(*table), by_name);
}

size_t collect_self_families(void)
{
	pthread_once(&sorted, sort_families);
	return families;
}

void collect_self_family(size_t i, struct export_family *out)
{
	const struct collect_self_family *f = table[i].family;

	*out = (struct export_family){
		.name = f->name, .help = f->help, .unit = f->unit, .type = f->type, .series = 1};
}

bool collect_self_exposed(const struct collect_self *s, size_t family)
{
	const struct collect_self_part *part = table[family].part;

	return !part->exposed || part->exposed(s);
}

bool collect_self_has(const char *name)
{
	if (strncmp(name, "sidelight_", 10))
		return false;
	for (size_t i = 0; i < collect_self_families(); i++) {
		const char *own = table[i].family->name;
		size_t n = strlen(own);

		if (!strncmp(name, own, n) && (!name[n] || name[n] == '_'))
			return true;
	}
	return false;
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
	if (c->tracer)
		collect_tracer_stats(c->tracer, &s->trace);
	if (!collect_self_net_begin(s)) {
		collect_self_end(s);
		return NULL;
	}
	return s;
}

void collect_self_enter(struct collect_self *s, size_t family)
{
	s->family = family;
	s->at = 0;
}

int collect_self_next(struct collect_self *s, struct export_series *out)
{
	out->created_ns = 0;
	if (!table[s->family].family->series(s, out))
		return 0;
	s->at++;
	return 1;
}

void collect_self_end(struct collect_self *s)
{
	if (!s)
		return;
	collect_self_live_end(s);
	collect_self_dta_end(s);
	collect_self_net_end(s);
	free(s->labels);
	free(s);
}
