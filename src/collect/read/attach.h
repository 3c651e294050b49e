/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach.h - how other rooms add to a collector. read/ knows none of them: a room describes what it
 * adds by a struct collect_part, and read/ calls it. Everything is attached before
 * collect_collector_start().
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
 * Reads regions of some kinds at its own pace, beside the rounds. The first link of each host calls
 * it, on its worker, except where marked.
 */
struct collect_reader {
	uint32_t kinds; /* bit k: regions of kind k, which are not metrics; only of the host itself
			 */
	/* The region's header is believed. */
	void (*found)(struct collect_link *l, struct collect_region *r,
		      const struct sl_region_header *copy, uint64_t now_ns);
	/* The region is removed. */
	void (*gone)(struct collect_link *l, struct collect_region *r);
	void (*poll)(struct collect_link *l, uint64_t now_ns);
	/* When poll has something to do next; UINT64_MAX: never. */
	uint64_t (*due)(const struct collect_link *l);
	/* The link ends. The workers have ended before. */
	void (*end)(struct collect_link *l);
	/* Frees collect_region.beside. Any thread. */
	void (*free_region)(struct collect_region *r);
	/*
	 * Makes the layout of a region of collect_region_synthesize() from its schema_bytes.
	 * Control's thread. NULL: out of memory.
	 */
	struct collect_layout *(*layout)(struct collect_region *r);
};

/* What a part adds. Each member may be 0 or NULL. */
struct collect_part {
	/*
	 * Groups of families of the collector's own series (self.h), ending with NULL. Each walk
	 * over them holds walk_bytes of zeroed memory for the part, collect_self.own. walk_begin
	 * fills it; false: out of memory. walk_end frees what it points to.
	 */
	const struct collect_self_group *const *groups;
	size_t walk_bytes;
	bool (*walk_begin)(struct collect_self *s);
	void (*walk_end)(struct collect_self *s);
	/* Traces that may be exemplars, newest first, at most COLLECT_TRACE_LINKS. Their number. */
	size_t (*trace_links)(void *arg, struct collect_trace_link *out);
	/* One part at most has it. collect_host.beside and collect_region.beside are its own. */
	const struct collect_reader *reader;
	/* By collect_collector_free(), after the workers have ended. */
	void (*free)(void *arg);
};

/*
 * arg is the part's, and outlives the collector's source. 0, -ENOSPC (COLLECT_PARTS_MAX), -EEXIST
 * (a second reader), -EBUSY (started) or -ENOMEM; after a failure, arg is not freed.
 */
int collect_collector_attach(struct collect_collector *c, const struct collect_part *part,
			     void *arg);
/* The arg of an attached part; NULL: it is not attached. Any thread. */
void *collect_collector_part(const struct collect_collector *c, const struct collect_part *part);

/* ---- taps: values while they are fresh ---- */

#define COLLECT_TAPS_MAX 4u

struct collect_layout;

/* One pass over a region. Valid during the call only. */
struct collect_tap_row {
	uint64_t instance;
	const struct region_info *info;
	const char *hostname;
	unsigned int worker; /* the caller: 0 .. workers - 1; a region keeps its worker */
	uint32_t state;	     /* enum sl_region_state; if dead, the values are final */
	uint64_t layout;     /* while it and columns do not change, column i is one metric */
	const struct collect_layout *shape; /* for collect_tap_metric() */
	uint32_t columns;
	/*
	 * By column: the value of a counter or gauge, the count of a histogram, the bits of a state
	 * set, 0 for an info; NaN if it did not settle in this pass.
	 */
	const double *value;
	const uint64_t *cell; /* of all columns, for collect_tap_cells() */
	int64_t ns;	      /* CLOCK_REALTIME of the READs */
	void **own;	      /* the tap's, kept with the region; NULL at first */
};

/* The exposed metric of a column. Valid until the tap returns. */
const struct region_metric *collect_tap_metric(const struct collect_tap_row *row, uint32_t column);
/* Its collect_tap_metric()->cells cells, summed over stripes. */
const uint64_t *collect_tap_cells(const struct collect_tap_row *row, uint32_t column);

struct collect_tap {
	/*
	 * Called by the region's worker after each pass: calls for one region never overlap, those
	 * of different workers do. It must not block or call collect_collector_free(), and its time
	 * delays the round.
	 */
	void (*row)(void *arg, const struct collect_tap_row *row);
	/*
	 * Called first, when value and cell may be NULL: false skips the row, which is not made if
	 * no tap wants it. NULL: every row is wanted.
	 */
	bool (*wants)(void *arg, const struct collect_tap_row *row);
	/* The region is gone (expired, or the collector ends) and *own is not NULL. May be NULL. */
	void (*gone)(void *arg, uint64_t instance, void *own);
	void *arg;
};

/*
 * Before collect_collector_start(). 0, -ENOSPC (COLLECT_TAPS_MAX reached), -EBUSY (started). A row
 * without memory is skipped and counted (sidelight_collector_refused_total, cause tap_rows).
 */
int collect_collector_tap(struct collect_collector *c, const struct collect_tap *tap);

#endif
