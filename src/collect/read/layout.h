/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - the meaning of a region's cells. A layout names one definition per column; regions
 * with equal metrics share the definitions. Both are immutable and made by the control thread.
 */
#ifndef SL_COLLECT_READ_LAYOUT_H
#define SL_COLLECT_READ_LAYOUT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "collect/read/label.h"
#include "export/model.h"
#include "region/decode.h"

struct collect_collector;
struct collect_region;
struct collect_tenant;

/* The name of a family, stored once for all definitions. */
struct collect_family_name {
	struct base_node node;
	unsigned int refs; /* protected by the lock of struct collect_defs */
	uint64_t build;	   /* the index build for which place is valid */
	/* position of the first family of this name in that index; SIZE_MAX means left out */
	size_t place;
	bool clash; /* the name is reserved, or samples of another family use it */
	/*
	 * family of counters: its samples end in _total, so another family may have the bare name
	 */
	bool counter;
	size_t name_bytes;
	char name[]; /* without _total or _info */
};

/*
 * Bits in region_metric.flags in addition to the flags of the format: an enum export_detail of the
 * text exposition. A publisher that sets them gets less detail.
 */
#define COLLECT_DETAIL(detail) ((uint16_t)((detail) << 14))
static inline enum export_detail collect_detail(const struct region_metric *m)
{
	return (enum export_detail)(m->flags >> 14);
}

/* The definition of a metric, shared by all regions with an equal metric. */
struct collect_def {
	struct base_node node;
	unsigned int refs;	     /* protected by the lock of struct collect_defs */
	struct region_metric metric; /* id, cell and created_ns are 0; labels are as exposed */
	struct collect_family_name *family;
	struct collect_label_set *labels;
	enum export_family_type type;
	size_t bytes;
};

/* Hash tables of the definitions and family names in use. */
struct collect_defs {
	pthread_mutex_t lock;
	struct base_table defs, families;
};

int collect_defs_init(struct collect_defs *d);
void collect_defs_free(struct collect_defs *d);
void collect_def_ref(struct collect_collector *c, struct collect_def *d);
void collect_def_put(struct collect_collector *c, struct collect_def *d);

struct collect_column {
	struct collect_def *def;
	uint32_t cell, id;
	bool twin;	     /* exposed as the same series as an earlier column, so left out */
	bool removed;	     /* placeholder of a removed metric: def has no name */
	uint64_t created_ns; /* when the metric was created; 0 means together with the region */
};

/*
 * Returns the time (CLOCK_REALTIME) at which a column started counting, or 0 if unknown. *known is
 * set to whether the column has a creation time of its own.
 */
uint64_t collect_column_created(const struct collect_column *c, const struct region_info *info,
				bool *known);

struct collect_layout {
	unsigned int refs;
	struct collect_collector *c;
	uint32_t columns; /* number of columns, one per metric */
	uint32_t cells, lines;
	uint64_t generation;
	uint32_t refused; /* metrics left out because of max_series */
	bool scalar;	  /* each column has exactly one cell */
	struct collect_column *column;
	bool *f64; /* whether the column's values are doubles, for the history */
	struct region_special *special; /* NULL means the cells are published as they are */
	size_t specials;
	size_t bytes;
};

/*
 * Makes the layout of a whole schema, which follows r->created_bytes of creation times. Returns
 * NULL with the reason in *fault; REGION_FAULT_NONE means out of memory.
 */
struct collect_layout *collect_layout_new(struct collect_collector *c, struct collect_region *r,
					  const void *schema, size_t bytes, uint64_t generation,
					  enum region_fault *fault);
/* Makes a layout of metrics, which are copied. Returns NULL if out of memory. */
struct collect_layout *collect_layout_make(struct collect_collector *c, struct collect_region *r,
					   struct region_metric *const *metrics, uint32_t count,
					   uint32_t cells, uint64_t generation);
void collect_layout_put(struct collect_layout *l);
/* Returns how many more series the tenant may have. Thread-safe. */
uint64_t collect_series_room(const struct collect_collector *c, const struct collect_tenant *t);

#endif
