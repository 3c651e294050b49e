/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenant.h - the publisher of a region, as attested by the kernel of its host (SL_SECTION_TENANTS),
 * and the resources it holds. A tenant belongs to one host. All regions without a record share one
 * unknown tenant, which is not trusted.
 */
#ifndef SL_COLLECT_READ_TENANT_H
#define SL_COLLECT_READ_TENANT_H

#include "base/relaxed.h"
#include "base/share.h"
#include "base/table.h"
#include "region/decode.h"

struct collect_host;
struct collect_region;

#define COLLECT_TENANT_LABELS 3u

/* A tenant's share in the rounds of one link. Used only by the worker, except where marked. */
struct collect_turn {
	/* lines in one pass over all of the tenant's regions; may be accessed by any thread */
	uint64_t lines;
	uint64_t part;	/* lines per round while the tenant is slow */
	int64_t credit; /* lines left in this round */
	/* the tenant is read once in this many rounds (>= 1); may be accessed by any thread */
	uint32_t every;
	/*
	 * A lap reads each region once. A region whose lap number differs has not been read in the
	 * current lap. lap_open: this round came across such a region, or one whose pass is
	 * unfinished.
	 */
	uint64_t lap, lap_round; /* lap_round: round of the link in which the lap began */
	uint64_t lap_at_ns;	 /* when the lap began; 0 means unknown */
	uint64_t last_lap_at_ns; /* when the previous lap began; may be read by any thread */
	bool lap_open;
	uint32_t stamp;	       /* turn_stamp of the last summation of `lines` */
	uint64_t rows;	       /* bytes of history not packed yet; may be accessed by any thread */
	uint64_t exemplars_ns; /* when the tenant's next piece of exemplars may be read */
	uint64_t schema_ns;    /* when the tenant's next piece of a schema may be read */
	uint32_t schema_stamp; /* schema_stamp of the link when the tenant last read a schema */
};

struct collect_tenant {
	struct base_node node; /* node of the host's table */
	struct collect_host *host;
	unsigned int refs; /* protected by the host's lock */
	/*
	 * when the tenant's last region disappeared; the tenant's record, including its debts, is
	 * kept
	 */
	uint64_t idle_ns;
	struct region_tenant who; /* id, pid and instance are those of the tenant's first region */
	bool known;
	/* exempt from shares: trusted, or unknown, or its series are those of many others */
	bool exempt;
	char uid[12], container[13], pod[37];
	/* Written by control, read by any thread. */
	uint64_t series, refused_series, conflicts, layout_ns;
	/*
	 * layouts and lists of series that waited because the tenant had used up its CPU time;
	 * written by any thread
	 */
	uint64_t held_layouts;
	/* Used only by control. */
	uint64_t first;	    /* smallest id of the tenant's entries, used as its age */
	uint64_t left_out;  /* conflicts in the index being made */
	size_t ended_bytes; /* memory of its ended regions (ended.h) */
	/* cells in the sums of its ended processes */
	size_t retired_cells;
	uint64_t index_ns;			   /* when the tenant may cause the next index */
	bool indexes;				   /* the tenant needs another index */
	struct collect_region *build, **build_end; /* regions whose schemas wait for a layout */
	struct collect_tenant *next;		   /* next tenant with waiting schemas */
	uint64_t spent_ns;			   /* virtual time spent on the tenant's layouts */
	uint64_t layout_at_ns;			   /* layouts may be made after this time */
	bool waits;
	struct collect_turn turn[]; /* one element per link of the host */
};

/*
 * Returns a reference to the tenant of a record, or to the unknown tenant if who is NULL. Returns
 * NULL if out of memory. Thread-safe.
 */
struct collect_tenant *collect_tenant_get(struct collect_host *h, const struct region_tenant *who);
void collect_tenants_free(struct collect_host *h);
/* Returns the collector's own tenant, for synthetic regions. */
struct collect_tenant *collect_tenant_own(struct collect_host *h);
struct collect_tenant *collect_tenant_ref(struct collect_tenant *t);
void collect_tenant_put(struct collect_tenant *t);

/*
 * Sorts trusted tenants before others, and older tenants before younger ones. Control thread only.
 */
int collect_tenant_order(const struct collect_tenant *a, const struct collect_tenant *b);

/*
 * Fills in the identity labels, which distinguish the tenant's series from any other tenant's.
 * Returns their number.
 */
uint32_t collect_tenant_labels(const struct collect_tenant *t,
			       struct region_text_label out[COLLECT_TENANT_LABELS]);

/* Returns how much more of a resource the tenant may take; held is how much it already holds. */
uint64_t collect_tenant_room(const struct collect_tenant *t, uint64_t capacity, uint64_t used,
			     uint64_t held);
/* Returns the number of rounds per reading, for the slowest of the tenant's links. */
uint32_t collect_tenant_every(const struct collect_tenant *t);

#endif
