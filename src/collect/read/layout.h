/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - the meaning of a region's cells. A layout names one definition per column; regions
 * with equal metrics share the definitions. Both are immutable. Made by the control thread.
 */
#ifndef SL_COLLECT_READ_LAYOUT_H
#define SL_COLLECT_READ_LAYOUT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/read/hash.h"
#include "collect/read/label.h"
#include "export/model.h"
#include "region/decode.h"

struct collect_collector;
struct collect_region;
struct collect_tenant;

/* The name of a family, stored once. */
struct collect_family_name {
	struct collect_node node;
	unsigned int refs; /* under the lock of struct collect_defs */
	uint64_t build;	   /* index build in which place holds */
	size_t place;	   /* in that index, of one of its types at first; SIZE_MAX: left out */
	bool clash;	   /* because of another family's samples, or as reserved */
	bool counter;	   /* of counters: their samples have _total, so that x may be another's */
	size_t name_bytes;
	char name[]; /* without _total, _info */
};

/*
 * In region_metric.flags beside those of the format: the text exposition has few of the buckets. A
 * publisher that sets it has less detail.
 */
#define COLLECT_FLAG_BRIEF 0x8000u

/* The definition of a metric, shared by all regions that have the same one. */
struct collect_def {
	struct collect_node node;
	unsigned int refs;	     /* under the lock of struct collect_defs */
	struct region_metric metric; /* id, cell and created_ns are 0; labels as exposed */
	struct collect_family_name *family;
	struct collect_label_set *labels;
	enum export_family_type type;
	size_t bytes;
};

/* Hash tables of the definitions and family names in use. */
struct collect_defs {
	pthread_mutex_t lock;
	struct collect_hash defs, families;
};

int collect_defs_init(struct collect_defs *d);
void collect_defs_free(struct collect_defs *d);
void collect_def_ref(struct collect_collector *c, struct collect_def *d);
void collect_def_put(struct collect_collector *c, struct collect_def *d);

struct collect_column {
	struct collect_def *def;
	uint32_t cell, id;
	bool twin;	     /* exposed as the same series as an earlier column: left out */
	bool removed;	     /* no metric: def has no name; the column keeps the place */
	uint64_t created_ns; /* 0: as the region */
};

/* Since when a column counts, CLOCK_REALTIME; 0: unknown. *known: of the column itself. */
uint64_t collect_column_created(const struct collect_column *c, const struct region_info *info,
				bool *known);

struct collect_layout {
	unsigned int refs;
	struct collect_collector *c;
	uint32_t columns; /* one per metric */
	uint32_t cells, lines;
	uint64_t generation;
	uint32_t refused; /* metrics beyond max_series */
	bool scalar;	  /* each column is one cell */
	struct collect_column *column;
	bool *f64;			/* by column, for the history */
	struct region_special *special; /* NULL: the cells are published as they are */
	size_t specials;
	size_t bytes;
};

/*
 * Makes the layout of a whole schema, which follows r->created_bytes of the section created. NULL:
 * *fault says why; REGION_FAULT_NONE means out of memory.
 */
struct collect_layout *collect_layout_new(struct collect_collector *c, struct collect_region *r,
					  const void *schema, size_t bytes, uint64_t generation,
					  enum region_fault *fault);
/* Makes a layout of metrics, which are copied. NULL: out of memory. */
struct collect_layout *collect_layout_make(struct collect_collector *c, struct collect_region *r,
					   struct region_metric *const *metrics, uint32_t count,
					   uint32_t cells, uint64_t generation);
void collect_layout_put(struct collect_layout *l);
/* How many series more the tenant may have. Any thread. */
uint64_t collect_series_room(const struct collect_collector *c, const struct collect_tenant *t);

#endif
