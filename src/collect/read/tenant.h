/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenant.h - who publishes a region, as the kernel of its host attests it (SL_SECTION_TENANTS), and
 * what it holds of the collector. A tenant belongs to one host. One without a record is unknown:
 * neither trusted nor told apart from others.
 */
#ifndef SL_COLLECT_READ_TENANT_H
#define SL_COLLECT_READ_TENANT_H

#include "base/relaxed.h"
#include "base/share.h"
#include "collect/read/hash.h"
#include "region/decode.h"

struct collect_host;
struct collect_region;

#define COLLECT_TENANT_LABELS 6u

/* Its turns in the rounds of one link. The worker's, except where it says otherwise. */
struct collect_turn {
	uint64_t lines;	       /* of a pass over all of its regions; any thread */
	uint64_t part;	       /* lines per round while it is slow */
	int64_t credit;	       /* lines left in this round */
	uint32_t every;	       /* it is read every this many rounds, at least 1; any thread */
	uint32_t stamp;	       /* of the last time that lines was summed up */
	uint64_t rows;	       /* bytes of history not packed yet; any thread */
	uint64_t exemplars_ns; /* when the next piece of its exemplars may be read */
};

struct collect_tenant {
	struct collect_node node; /* of its host's table */
	struct collect_host *host;
	unsigned int refs;	  /* under the host's lock */
	uint64_t idle_ns;	  /* since when it has none: kept, with its debts */
	struct region_tenant who; /* id, pid and instance are of its first region */
	bool known;
	bool exempt; /* from shares: trusted, or unknown */
	char uid[12], container[13], pod[37];
	/* Written by control, read by any thread. */
	uint64_t series, refused_series, conflicts, layout_ns;
	/* Control's. */
	uint64_t first;	   /* smallest id of its entries: the tenant's age */
	uint64_t left_out; /* conflicts of the index being made */
	struct collect_region *build, **build_end; /* regions whose schemas wait */
	struct collect_tenant *next;		   /* with waiting schemas */
	uint64_t spent_ns;			   /* virtual time of its layouts */
	int64_t credit_ns;			   /* time left to make layouts */
	uint64_t credit_at_ns;
	bool waits;
	struct collect_turn turn[]; /* by the host's links */
};

/*
 * A reference to the tenant of a record; who NULL: the unknown one. Any thread. NULL: out of
 * memory.
 */
struct collect_tenant *collect_tenant_get(struct collect_host *h, const struct region_tenant *who);
void collect_tenants_free(struct collect_host *h);
/* The collector's own, of regions that it makes itself. */
struct collect_tenant *collect_tenant_own(struct collect_host *h);
struct collect_tenant *collect_tenant_ref(struct collect_tenant *t);
void collect_tenant_put(struct collect_tenant *t);

/* Trusted tenants come before others, older ones before younger ones. Control only. */
int collect_tenant_order(const struct collect_tenant *a, const struct collect_tenant *b);

/*
 * The labels of identity, which tell its series apart from those of any other tenant; a trusted or
 * unknown tenant has none. Returns their number.
 */
uint32_t collect_tenant_labels(const struct collect_tenant *t,
			       struct region_text_label out[COLLECT_TENANT_LABELS]);

/* How much more it may take of a resource, of which it holds that much. */
uint64_t collect_tenant_room(const struct collect_tenant *t, uint64_t capacity, uint64_t used,
			     uint64_t held);
/* It is read every this many rounds, by the link that reads it most seldom. */
uint32_t collect_tenant_every(const struct collect_tenant *t);

#endif
