/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach.h - how other folders extend a collector. read/ does not depend on them: a folder
 * describes its part in a struct collect_part, and read/ calls the part's functions. All parts must
 * be attached before collect_collector_start().
 */
#ifndef SL_COLLECT_READ_ATTACH_H
#define SL_COLLECT_READ_ATTACH_H

#include "collect/read/collect.h"

/* ---- parts ---- */

#define COLLECT_PARTS_MAX 16u

struct collect_layout;
struct collect_link;
struct collect_region;
struct collect_self;
struct collect_self_group;
struct collect_trace_link;
struct sl_region_header;

/*
 * Reads regions of certain kinds at its own pace, outside the rounds. Unless noted otherwise, the
 * functions run on the worker of the host's first link.
 */
struct collect_reader {
	/*
	 * bit k: the reader handles regions of kind k, which are not metrics; only regions of the
	 * host itself
	 */
	uint32_t kinds;
	/* Called once the region's header has been validated. */
	void (*found)(struct collect_link *l, struct collect_region *r,
		      const struct sl_region_header *copy, uint64_t now_ns);
	/* Called when the region is removed. */
	void (*gone)(struct collect_link *l, struct collect_region *r);
	void (*poll)(struct collect_link *l, uint64_t now_ns);
	/* Returns the time at which poll is next due; UINT64_MAX means never. */
	uint64_t (*due)(const struct collect_link *l);
	/* Called when the link is closed, after the workers have exited. */
	void (*end)(struct collect_link *l);
	/* Frees collect_region.beside. Thread-safe. */
	void (*free_region)(struct collect_region *r);
	/*
	 * Makes a synthetic region's layout from its schema_bytes, see collect_region_synthesize().
	 * Called by the control thread. Returns NULL if out of memory.
	 */
	struct collect_layout *(*layout)(struct collect_region *r);
};

/* The contributions of a part to the collector. Each member may be 0 or NULL. */
struct collect_part {
	/*
	 * NULL-terminated groups of the part's families among the collector's own series (self.h).
	 * Each walk over them gives the part walk_bytes of zeroed memory in collect_self.own.
	 * walk_begin fills in the memory and returns false if out of memory; walk_end frees what
	 * the memory points to.
	 */
	const struct collect_self_group *const *groups;
	size_t walk_bytes;
	bool (*walk_begin)(struct collect_self *s);
	void (*walk_end)(struct collect_self *s);
	/*
	 * Lists at most COLLECT_TRACE_LINKS traces that may serve as exemplars, newest first.
	 * Returns their number.
	 */
	size_t (*trace_links)(void *arg, struct collect_trace_link *out);
	/*
	 * At most one part may have a reader; collect_host.beside and collect_region.beside belong
	 * to it.
	 */
	const struct collect_reader *reader;
	/* Called by collect_collector_free() after the workers have exited. */
	void (*free)(void *arg);
};

/*
 * arg belongs to the part and must outlive the collector's source. Returns 0, -ENOSPC
 * (COLLECT_PARTS_MAX reached), -EEXIST (there is a reader already), -EBUSY (already started) or
 * -ENOMEM; arg is not freed on failure.
 */
int collect_collector_attach(struct collect_collector *c, const struct collect_part *part,
			     void *arg);
/* Returns the arg of an attached part, or NULL if the part is not attached. Thread-safe. */
void *collect_collector_part(const struct collect_collector *c, const struct collect_part *part);

/* ---- taps: values while they are fresh ---- */

#define COLLECT_TAPS_MAX 4u

/* The values of one pass over a region. Valid only during the call. */
struct collect_tap_row {
	uint64_t instance;
	const struct region_info *info;
	const char *hostname;
	const struct collect_tenant *tenant;
	/* number of the calling worker, 0 .. workers - 1; a region keeps its worker */
	unsigned int worker;
	uint32_t state; /* enum sl_region_state; the values of a dead region are final */
	/* column i is the same metric as long as layout and columns do not change */
	uint64_t layout;
	const struct collect_layout *shape; /* layout of the columns, for collect_tap_metric() */
	uint32_t columns;
	/*
	 * Values by column: the value of a counter or gauge, the count of a histogram, the bits of
	 * a state set, 0 for an info; NaN if the column did not settle in this pass.
	 */
	const double *value;
	const uint64_t *cell; /* cells of all columns, for collect_tap_cells() */
	int64_t ns;	      /* CLOCK_REALTIME of the READs */
	void **own;	      /* the tap's own pointer, kept with the region; initially NULL */
};

/* Returns the exposed metric of a column. Valid until the tap returns. */
const struct region_metric *collect_tap_metric(const struct collect_tap_row *row, uint32_t column);
/* Returns the collect_tap_metric()->cells cells of a column, summed over stripes. */
const uint64_t *collect_tap_cells(const struct collect_tap_row *row, uint32_t column);

struct collect_tap {
	/*
	 * Called by the region's worker after each pass. Calls for one region never overlap; calls
	 * from different workers may. The function must not block or call collect_collector_free(),
	 * and the time it takes delays the round.
	 */
	void (*row)(void *arg, const struct collect_tap_row *row);
	/*
	 * Called before row, possibly with value and cell NULL; returns false to skip the row. A
	 * row that no tap wants is not built. NULL means every row is wanted.
	 */
	bool (*wants)(void *arg, const struct collect_tap_row *row);
	/*
	 * Called with a non-NULL own when the region has expired or the collector is freed. May be
	 * NULL.
	 */
	void (*gone)(void *arg, uint64_t instance, void *own);
	void *arg;
};

/*
 * Must be called before collect_collector_start(). Returns 0, -ENOSPC (COLLECT_TAPS_MAX reached) or
 * -EBUSY (already started). A row is skipped and counted (sidelight_collector_refused_total, cause
 * tap_rows) if out of memory.
 */
int collect_collector_tap(struct collect_collector *c, const struct collect_tap *tap);

#endif
