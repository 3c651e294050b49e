/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.h - all families and series, by name. Control makes a new index when something changed; a
 * reference keeps what it has.
 */
#ifndef SL_COLLECT_READ_INDEX_H
#define SL_COLLECT_READ_INDEX_H

#include "collect/read/region.h"

/* The sum that expired processes leave to a series. Immutable. */
struct collect_retired {
	struct collect_node node;
	unsigned int refs;
	struct collect_def *def; /* a reference is held */
	struct collect_tenant *tenant;
	struct collect_label_set *labels;
	size_t bytes;
	uint64_t cell[];
};

struct collect_item {
	uint32_t source; /* of index.snapshot, or with ITEM_RETIRED of index.retired */
	uint32_t column;
};
#define ITEM_RETIRED 0x80000000u
#define ITEM_MORE    0x80000000u /* in column: belongs to the series of the item before */

struct collect_index_family {
	struct export_family f;
	const struct collect_def *def;	     /* the first one */
	const struct collect_tenant *tenant; /* whose it is: the first one's */
	const struct collect_tenant *last;   /* who has it, too */
	size_t tenants;			     /* that have it now */
	size_t number, other;		     /* while the index is made: its own, and another of the
						name, or SIZE_MAX */
	size_t first, items;
};

struct collect_index {
	unsigned int refs;
	struct collect_collector *c;
	struct collect_index_family *family;
	size_t families;
	bool created; /* samples "_created" are shown */
	struct collect_item *item;
	size_t items;
	struct collect_region **region;	    /* all listed ones, by tenant and age */
	struct collect_snapshot **snapshot; /* of the region, or NULL */
	uint32_t *by_instance;
	size_t regions;
	struct collect_retired **retired;
	size_t retireds;
	size_t series;
	size_t bytes;
};

struct collect_index *collect_index_new(struct collect_collector *c);
struct collect_index *collect_index_get(struct collect_collector *c);
void collect_index_put(struct collect_index *x);
/* Position of the family of this name, or of the first one behind it. */
size_t collect_index_family(const struct collect_index *x, const char *name);
/* Position of the region with this instance, or -1. */
ssize_t collect_index_find(const struct collect_index *x, uint64_t instance);

/* Of a series: its definition, and the labels of its region, or of the group if processes are
 * summed. */
const struct collect_def *collect_index_def(const struct collect_index *x,
					    const struct collect_item *i);
const struct collect_label_set *collect_index_labels(const struct collect_index *x,
						     const struct collect_item *i);
/* What a series of this type is called whose values are those of the history, after its family. */
const char *collect_history_suffix(enum export_family_type type);
/* Adds the counters of a region to the sums that outlive it. Control only. */
void collect_retire_region(struct collect_collector *c, struct collect_region *r);
void collect_retired_free(struct collect_collector *c);
/* Values of ended processes stay in a sum. */
static inline bool collect_counts(enum export_family_type type)
{
	return type == EXPORT_FAMILY_COUNTER || type == EXPORT_FAMILY_BARE_COUNTER ||
	       type == EXPORT_FAMILY_HISTOGRAM || type == EXPORT_FAMILY_SUMMARY;
}
/*
 * Combines the cells of a metric of two processes as its flags say: by default u64 are added as
 * integers, f64 as doubles, states as bits. Quantiles stay as they are.
 */
void collect_combine_cells(const struct region_metric *m, uint64_t *to, const uint64_t *from);

#endif
