// SPDX-License-Identifier: Apache-2.0
/* series.c - walks the series that have a history, under the names of the exposition */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/grow.h"
#include "collect/read/index.h"
#include "base/number.h"

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

/* A walk, and the labels of one series in memory that grows. */
struct series_walk {
	const struct collect_series_walk *to;
	const char **keys, **values;
	size_t room;
};

static bool add_labels(struct series_walk *w, size_t at, const struct collect_label_set *set)
{
	size_t have = w->room;

	/* room for the label le, too */
	if (!base_grow(&w->keys, &have, at + set->count + 1, sizeof(*w->keys)) ||
	    !base_grow(&w->values, &w->room, at + set->count + 1, sizeof(*w->values)))
		return false;
	for (uint32_t i = 0; i < set->count; i++) {
		w->keys[at + i] = set->keys[i];
		w->values[at + i] = set->values[i];
	}
	return true;
}

/* The names of a family's samples; empty means that the sample is not wanted. */
struct series_names {
	char of[3][SL_NAME_MAX + 16]; /* by part */
	bool any;
};

static void name_samples(const struct series_walk *w, const struct collect_def *def,
			 struct series_names *names)
{
	const char *const suffixes[] = {collect_history_suffix(def->type), "_sum", "_bucket"};
	const size_t parts = w->to->parts && def->type == EXPORT_FAMILY_HISTOGRAM ? 3 : 1;

	*names = (struct series_names){.any = false};
	if (def->type == EXPORT_FAMILY_INFO || def->type == EXPORT_FAMILY_STATESET)
		return;
	for (size_t i = 0; i < parts; i++) {
		char *name = names->of[i];

		snprintf(name, sizeof(names->of[i]), "%s%s", def->family->name, suffixes[i]);
		if (w->to->family && !w->to->family(w->to->arg, name, &def->metric))
			*name = 0;
		names->any |= *name;
	}
}

static bool show_bucket(struct series_walk *w, struct collect_series_view *v, double bound,
			uint32_t buckets)
{
	char le[BASE_NUMBER_MAX + 1];

	*base_print_bound(le, bound, true) = 0;
	w->keys[v->labels - 1] = "le";
	w->values[v->labels - 1] = le;
	v->of.buckets = buckets;
	return w->to->series(w->to->arg, v);
}

/* Shows the buckets that the text formats have. */
static int show_buckets(struct series_walk *w, struct collect_series_view v)
{
	const struct export_series s = {
		.exponential = region_is_exponential(v.m),
		.detail = collect_detail(v.m) ? EXPORT_DETAIL_FEW : EXPORT_DETAIL_ALL,
		.bucket_count = v.m->bucket_count,
		.bounds = v.m->bounds,
		.bound_count = v.m->bound_count,
		.scale = v.m->scale,
		.first_bucket = v.m->first_bucket,
		.zero_threshold = v.m->zero_threshold,
	};
	bool more = true;
	double *bound;
	uint32_t *bucket;
	size_t n;

	if (export_bounds_of(&s, &bound, &bucket, &n))
		return -ENOMEM;
	v.labels++;
	for (size_t i = 0; w->to->parts == COLLECT_PARTS_ALL && i < n && more; i++)
		more = show_bucket(w, &v, bound[i], bucket[i] + 1);
	more = more && show_bucket(w, &v, INFINITY, UINT32_MAX);
	free(bound);
	free(bucket);
	return more;
}

/*
 * Shows the series of a definition. Returns 1 to continue, 0 if the caller wants no more, or
 * -ENOMEM.
 */
static int show_series(struct series_walk *w, struct collect_series_view v,
		       const struct collect_label_set *labels, const struct collect_def *def,
		       const struct series_names *names)
{
	int go = 1;

	if (!add_labels(w, 0, labels) || !add_labels(w, labels->count, def->labels))
		return -ENOMEM;
	v.m = &def->metric;
	v.labels = labels->count + def->labels->count;
	v.keys = w->keys;
	v.values = w->values;
	for (int part = COLLECT_PART_VALUE; part <= COLLECT_PART_BUCKETS && go > 0; part++) {
		v.of.part = part;
		v.name = names->of[part];
		if (*v.name)
			go = part == COLLECT_PART_BUCKETS ? show_buckets(w, v)
							  : w->to->series(w->to->arg, &v);
	}
	return go;
}

static int show_item(struct series_walk *w, const struct collect_index *x,
		     const struct collect_item *i, const struct series_names *names)
{
	const uint32_t column = i->column & ~ITEM_MORE;
	const struct collect_region *r = x->region[i->source];
	const struct collect_snapshot *b = x->snapshot[i->source];

	if (!b->row_ns)
		return 1;
	return show_series(
		w,
		(struct collect_series_view){.of = {.instance = r->instance, .metric = column},
					     .found_ns = r->found_ns},
		r->labels, b->layout->column[column].def, names);
}

static int show_ended(struct series_walk *w, const struct collect_ended *e)
{
	const struct collect_family_name *last = NULL;
	struct series_names names;
	int go = 1;

	for (uint32_t i = 0; i < e->layout->columns && go > 0; i++) {
		const struct collect_def *def = e->layout->column[i].def;

		if (e->since_ns[i] == INT64_MAX)
			continue;
		if (def->family != last)
			name_samples(w, def, &names);
		last = def->family;
		if (names.any)
			go = show_series(
				w,
				(struct collect_series_view){.of = {.instance = e->instance,
								    .metric = i,
								    .ended_ns = e->ended_ns},
							     .found_ns = e->found_ns,
							     .read_ns = e->read_ns},
				e->labels, def, &names);
	}
	return go;
}

int collect_collector_series(struct collect_collector *c, const struct collect_series_walk *walk)
{
	struct collect_index *x = collect_index_get(c);
	struct series_walk w = {.to = walk};
	struct series_names names;
	int go = 1;

	for (size_t f = 0; x && f < x->families && go > 0; f++) {
		const struct collect_index_family *of = &x->family[f];

		name_samples(&w, of->def, &names);
		for (size_t i = of->first; names.any && i < of->first + of->items && go > 0; i++)
			if (!(x->item[i].source & ITEM_RETIRED))
				go = show_item(&w, x, &x->item[i], &names);
	}
	for (size_t i = 0; x && walk->since_ns && i < x->endeds && go > 0; i++)
		if (x->ended[i]->ended_ns >= walk->since_ns)
			go = show_ended(&w, x->ended[i]);
	collect_index_put(x);
	free(w.keys);
	free(w.values);
	return go < 0 ? go : 0;
}
