/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collector_internal.h - the collector's internal state, shared by the files of read/
 *
 * - A worker owns its links and their connections, READs and regions (worker.h, link.h).
 * - Control turns schemas into layouts, layouts into the index, and lists regions (control.h).
 * - Any other thread takes a reference to the index and reads snapshots (index.h, snapshot.h).
 *
 * A worker hands a region to control by setting a bit in the region and pushing the region onto a
 * queue; control hands the layout back through one atomic pointer (struct collect_built).
 */
#ifndef SL_COLLECT_READ_COLLECTOR_INTERNAL_H
#define SL_COLLECT_READ_COLLECTOR_INTERNAL_H

#include <pthread.h>

#include "base/relaxed.h"
#include "collect/read/attach.h"
#include "collect/read/region.h"

struct collect_ended;
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
	bool stop, running;
	bool over; /* all workers have exited: control drains its queue and exits */
	/* Set before the threads start. */
	struct collect_past *past; /* NULL means not used */
	struct collect_attached part[COLLECT_PARTS_MAX];
	unsigned int parts;
	const struct collect_reader *reader; /* supplied by one of the parts, or NULL */
	struct collect_self_entry *family;   /* families of all parts, sorted by name */
	size_t families, family_room;
	struct collect_tap tap[COLLECT_TAPS_MAX];
	unsigned int taps;
	pthread_t control;
	int wake_fd;
	struct collect_region *queue; /* stack of regions for control, newest first */

	/* Used by control only. */
	struct collect_region **region;
	size_t regions, region_capacity, departed;
	bool dirty;
	uint64_t index_due_ns;		/* when the next index is due; 0 means on startup */
	struct collect_tenant *tenants; /* tenants whose schemas wait for a layout */
	uint64_t build;
	struct base_table retired, retired_groups;
	/* by the time at which they last had a process */
	struct collect_retired_group *retired_oldest, *retired_newest;
	size_t retired_cells;	 /* may be read by any thread */
	uint64_t retired_due_ns; /* when to look for groups without a process again */
	struct collect_ended *ended, **ended_end; /* oldest first; the place after the last one */
	size_t ended_count, ended_bytes;
	struct collect_defs defs;

	/* turns of control's loop; turns_seen belongs to collect_collector_turned() */
	uint64_t turns, turns_seen;

	pthread_mutex_t index_lock; /* protects only the pointer */
	struct collect_index *index;
	uint64_t index_builds;

	/* Counters that any thread reads and writes. */
	uint64_t age, region_count, series_count, memory;
	uint64_t expired, refused_regions, refused_series, refused_history, refused_buckets;
	uint64_t left_out_families;
	/* exemplars left out, by reason */
	uint64_t exemplars_long, exemplars_malformed, exemplars_memory;
	uint64_t conflicts_kind, conflicts_name, conflicts_duplicate, conflicts_sum;
	uint64_t retired_lost;
};

/* Frees the attached parts, and read/'s own memory for them. */
void collect_parts_free(struct collect_collector *c);

/* Returns true if an attached part reads regions of this kind. */
static inline bool collect_reads_beside(const struct collect_collector *c, uint32_t kind)
{
	return c->reader && kind < 32 && c->reader->kinds >> kind & 1;
}

/* ---- control.c ---- */

void *collect_control_main(void *arg);
void collect_control_wake(struct collect_collector *c);

/* ---- self.c ---- */

/* Groups of the families defined in read/, as opposed to the families of attached parts. */
extern const struct collect_self_group collect_self_tenant;
extern const struct collect_part collect_self_own_part;

/* Also exposes the families of attached part `number`. Returns false if out of memory. */
bool collect_self_add(struct collect_collector *c, const struct collect_part *part,
		      unsigned int number);
/*
 * Returns true if the name is reserved because the collector exposes a family or sample under it.
 */
bool collect_self_has(const struct collect_collector *c, const char *name);
/* Starts a walk over the series. Returns NULL if out of memory. */
struct collect_self *collect_self_begin(struct collect_collector *c, struct collect_index *x);
/* Returns the next family, by name, whose feature is in use; NULL if there are no more. */
const struct export_family *collect_self_peek(struct collect_self *s);
/* Moves on to the series of that family. */
void collect_self_enter(struct collect_self *s);
int collect_self_next(struct collect_self *s, struct export_series *out);
void collect_self_end(struct collect_self *s);

#endif
