/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.h - all families and series, by name. Control makes a new index when something changed; a
 * reader holds a reference to keep an index and everything in it alive.
 */
#ifndef SL_COLLECT_READ_INDEX_H
#define SL_COLLECT_READ_INDEX_H

#include "collect/read/ended.h"

/* The sum of a series over expired processes. Immutable, except for the places in lists. */
struct collect_retired {
	struct base_node node;
	struct collect_retired **at, *next; /* place among the sums of its group; control only */
	unsigned int refs;
	struct collect_def *def; /* a reference is held */
	struct collect_tenant *tenant;
	struct collect_label_set *labels;
	size_t bytes;
	uint64_t cell[];
};

struct collect_item {
	/* position in index.snapshot, or in index.retired if ITEM_RETIRED is set */
	uint32_t source;
	uint32_t column;
};
#define ITEM_RETIRED 0x80000000u
/* flag in `column`: the item belongs to the same series as the previous item */
#define ITEM_MORE 0x80000000u

struct collect_index_family {
	struct export_family f;
	const struct collect_def *def;	     /* definition of the family's first item */
	const struct collect_tenant *tenant; /* tenant of the family's first item */
	const struct collect_tenant *last;   /* tenant counted last in `tenants` */
	size_t tenants;			     /* number of tenants that have the family now */
	/*
	 * used while the index is made: the family's number, and another family of the same name or
	 * SIZE_MAX
	 */
	size_t number, other;
	size_t first, items;
};

struct collect_index {
	unsigned int refs;
	struct collect_collector *c;
	struct collect_index_family *family;
	size_t families;
	bool created; /* expose "_created" samples */
	struct collect_item *item;
	size_t items;
	struct collect_region **region;	    /* all listed regions, by tenant and age */
	struct collect_snapshot **snapshot; /* snapshot of each region, or NULL */
	uint32_t *by_instance;
	size_t regions;
	struct collect_retired **retired;
	size_t retireds;
	struct collect_ended **ended; /* sorted by instance and end */
	size_t endeds;
	uint64_t build; /* value of collect_collector.build */
	size_t series;
	size_t bytes;
};

struct collect_index *collect_index_new(struct collect_collector *c);
struct collect_index *collect_index_get(struct collect_collector *c);
void collect_index_put(struct collect_index *x);
/* Returns the position of the family with this name, or of the first family after it. */
size_t collect_index_family(const struct collect_index *x, const char *name);
/* Returns the position of the region with this instance, or -1. */
ssize_t collect_index_find(const struct collect_index *x, uint64_t instance);
/*
 * Returns the region with this instance that ended at ended_ns or, if that is 0, the one that ended
 * last. Returns NULL if there is none.
 */
const struct collect_ended *collect_index_ended(const struct collect_index *x, uint64_t instance,
						int64_t ended_ns);
/*
 * Returns false if the current index leaves out the family of the definition. Control thread only.
 */
bool collect_index_shows(const struct collect_collector *c, const struct collect_def *def);

/*
 * The definition of a series, and the labels of its region, or of its group if processes are
 * summed.
 */
const struct collect_def *collect_index_def(const struct collect_index *x,
					    const struct collect_item *i);
const struct collect_label_set *collect_index_labels(const struct collect_index *x,
						     const struct collect_item *i);
/*
 * Returns the suffix, after the family's name, of the samples that the history keeps for this type.
 */
const char *collect_history_suffix(enum export_family_type type);
/* Adds the counters of an expired region to the sums that outlive it. Control thread only. */
void collect_retire_region(struct collect_collector *c, struct collect_region *r);
/*
 * Drops the sums of the groups that have had no process for opts.retired_ns. Returns true if there
 * were any. Control thread only.
 */
bool collect_retired_expire(struct collect_collector *c, uint64_t now_ns);
void collect_retired_free(struct collect_collector *c);
/* Drops a reference; t may be NULL. */
void collect_retired_put(struct collect_retired *t, struct collect_collector *c);
/* Returns true for types whose values stay in a sum after the process has exited. */
static inline bool collect_counts(enum export_family_type type)
{
	return type == EXPORT_FAMILY_COUNTER || type == EXPORT_FAMILY_BARE_COUNTER ||
	       type == EXPORT_FAMILY_HISTOGRAM || type == EXPORT_FAMILY_SUMMARY;
}
/* Returns how the cells of a metric are combined (SL_COMBINE_). */
static inline uint32_t collect_combine_of(const struct region_metric *m)
{
	return m->flags & SL_FLAG_COMBINE;
}
/* Returns true if the cells of both metrics can be combined. */
bool collect_same_shape(const struct region_metric *a, const struct region_metric *b);
/*
 * Combines the cells of a metric from two processes as its flags specify: by default u64 cells are
 * added as integers, f64 cells as doubles, and states are ORed. Quantiles stay as they are.
 */
void collect_combine_cells(const struct region_metric *m, uint64_t *to, const uint64_t *from);

#endif
