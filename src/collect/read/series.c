// SPDX-License-Identifier: Apache-2.0
/* series.c - walks the series that have a history, under the names of the exposition */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/grow.h"
#include "collect/read/index.h"

const char *collect_history_suffix(enum export_family_type type)
{
	switch (type) {
	case EXPORT_FAMILY_COUNTER:
		return "_total";
	case EXPORT_FAMILY_INFO:
		return "_info";
	case EXPORT_FAMILY_HISTOGRAM:
	case EXPORT_FAMILY_GAUGE_HISTOGRAM:
	case EXPORT_FAMILY_SUMMARY:
		return "_count";
	default:
		return "";
	}
}

/* The labels of one series, in memory that grows. */
struct series_labels {
	const char **keys, **values;
	size_t room;
};

static bool add_labels(struct series_labels *l, size_t at, const struct collect_label_set *set)
{
	size_t have = l->room;

	if (!base_grow(&l->keys, &have, at + set->count + 1, sizeof(*l->keys)) ||
	    !base_grow(&l->values, &l->room, at + set->count + 1, sizeof(*l->values)))
		return false;
	for (uint32_t i = 0; i < set->count; i++) {
		l->keys[at + i] = set->keys[i];
		l->values[at + i] = set->values[i];
	}
	return true;
}

/* Returns 1 to continue, 0 if the caller wants no more, or -ENOMEM. */
static int show_series(const struct collect_index *x, const struct collect_item *i,
		       const char *name, struct series_labels *l,
		       const struct collect_series_walk *walk)
{
	const uint32_t column = i->column & ~ITEM_MORE;
	const struct collect_region *r = x->region[i->source];
	const struct collect_def *def = x->snapshot[i->source]->layout->column[column].def;
	struct collect_series_view v = {
		.instance = r->instance,
		.metric = column,
		.m = &def->metric,
		.name = name,
	};

	if (!x->snapshot[i->source]->row_ns)
		return 1;
	if (!add_labels(l, 0, r->labels) || !add_labels(l, r->labels->count, def->labels))
		return -ENOMEM;
	v.labels = r->labels->count + def->labels->count;
	v.keys = l->keys;
	v.values = l->values;
	return walk->series(walk->arg, &v);
}

int collect_collector_series(struct collect_collector *c, const struct collect_series_walk *walk)
{
	struct collect_index *x = collect_index_get(c);
	struct series_labels l = {.room = 0};
	int go = 1;

	for (size_t f = 0; x && f < x->families && go > 0; f++) {
		const struct collect_index_family *of = &x->family[f];
		char name[SL_NAME_MAX + 16];

		if (of->f.type == EXPORT_FAMILY_INFO || of->f.type == EXPORT_FAMILY_STATESET)
			continue;
		snprintf(name, sizeof(name), "%s%s", of->f.name,
			 collect_history_suffix(of->f.type));
		if (walk->family && !walk->family(walk->arg, name, &of->def->metric))
			continue;
		for (size_t i = of->first; i < of->first + of->items && go > 0; i++)
			if (!(x->item[i].source & ITEM_RETIRED))
				go = show_series(x, &x->item[i], name, &l, walk);
	}
	collect_index_put(x);
	free(l.keys);
	free(l.values);
	return go < 0 ? go : 0;
}
