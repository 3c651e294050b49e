/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collector_internal.h - the collector as its parts see it.
 *
 * - A worker owns its links and, in them, connections, READs and regions (worker.h, link.h).
 * - Control turns schemas into layouts, layouts into the index, and lists regions (control.h).
 * - Any other thread takes a reference to the index and reads snapshots (index.h, snapshot.h).
 *
 * A worker hands a region to control by setting a bit in it and pushing it onto a queue; control
 * hands the layout back by one atomic pointer (struct collect_built).
 */
#ifndef SL_COLLECT_READ_COLLECTOR_INTERNAL_H
#define SL_COLLECT_READ_COLLECTOR_INTERNAL_H

#include <pthread.h>

#include "base/relaxed.h"
#include "collect/read/attach.h"
#include "collect/read/region.h"

struct collect_host;
struct collect_index;
struct collect_past;
struct collect_self_entry;
struct collect_worker;

struct collect_attached {
	const struct collect_part *of;
	void *arg;
};

struct collect_collector {
	struct collect_collector_opts opts;
	struct collect_host *host;
	size_t hosts;
	struct collect_worker *worker;
	unsigned int workers;
	uint64_t seed; /* of hash tables */
	bool stop, running;
	bool over;	   /* no worker runs any more: control drains its queue and ends */
	uint64_t lease_ns; /* no round starts after it; 0: no limit */
	/* Set before the threads start. */
	struct collect_past *past; /* NULL: not used */
	struct collect_attached part[COLLECT_PARTS_MAX];
	unsigned int parts;
	const struct collect_reader *reader; /* of the part that has one; or NULL */
	struct collect_self_entry *family;   /* of all parts, by name */
	size_t families, family_room;
	struct collect_tap tap[COLLECT_TAPS_MAX];
	unsigned int taps;
	pthread_t control;
	int wake_fd;
	struct collect_region *queue; /* for control: a stack, newest first */

	/* Control's. */
	struct collect_region **region;
	size_t regions, region_capacity, departed;
	bool dirty;
	struct collect_tenant *tenants; /* with schemas that wait for a layout */
	uint64_t build;
	struct collect_hash retired;
	size_t retired_cells;
	struct collect_defs defs;

	uint64_t turns, turns_seen; /* of control's loop; collect_collector_turned()'s */

	pthread_mutex_t index_lock; /* of the pointer alone */
	struct collect_index *index;
	uint64_t index_builds;

	/* Read and written by any thread. */
	uint64_t age, region_count, series_count, memory;
	uint64_t expired, refused_regions, refused_series, refused_history, refused_buckets;
	uint64_t left_out_families;
	uint64_t exemplars_long, exemplars_malformed, exemplars_memory; /* left out */
	uint64_t conflicts_kind, conflicts_name, conflicts_duplicate, conflicts_sum;
	uint64_t retired_lost;
};

/* Frees the parts that have to be freed, and what read/ holds of all of them. */
void collect_parts_free(struct collect_collector *c);

/* Regions of this kind are read by an attached part. */
static inline bool collect_reads_beside(const struct collect_collector *c, uint32_t kind)
{
	return c->reader && kind < 32 && c->reader->kinds >> kind & 1;
}

#endif
