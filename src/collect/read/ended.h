/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ended.h - regions that are gone but still have rows in the history. They share an eighth of the
 * history's memory; if it is full, the tenant with the largest part loses its oldest region.
 * Only control adds and drops regions; readers find them in the index.
 */
#ifndef SL_COLLECT_READ_ENDED_H
#define SL_COLLECT_READ_ENDED_H

#include "collect/read/region.h"

#define COLLECT_ENDED_SHARE 8u

/* Immutable, except for next. */
struct collect_ended {
	struct collect_ended *next; /* next newer region; control only */
	unsigned int refs;
	uint64_t instance;
	struct collect_collector *c;
	struct collect_tenant *tenant;
	const struct collect_ring *ring;
	uint64_t chunk;
	struct collect_layout *layout;
	struct collect_label_set *labels;
	/* CLOCK_REALTIME: when the region was found, last read, and removed */
	int64_t found_ns, read_ns, ended_ns;
	size_t bytes, charged; /* charged: including a share of data used by several regions */
	/* as in struct collect_snapshot; INT64_MAX: the column was not shown */
	int64_t since_ns[];
};

/* Keeps a region that is about to be removed, if it has rows in the history. */
void collect_ended_add(struct collect_collector *c, struct collect_region *r);
/* Drops the regions whose rows have left the history. */
void collect_ended_expire(struct collect_collector *c);
void collect_ended_put(struct collect_ended *e);
void collect_ended_free(struct collect_collector *c);

#endif
