/* SPDX-License-Identifier: Apache-2.0 */
/* net_ring.h - what net_ring.c and nets.c share; see nets.h. */
#ifndef SL_COLLECT_KERNEL_SEGMENT_RING_H
#define SL_COLLECT_KERNEL_SEGMENT_RING_H

#include "collect/link/link.h"
#include "collect/kernel/pair_latency.h"

/* What a pass over a ring found. Numbers that no record bears were missed. */
struct collect_net_batch {
	struct collect_net_batch *next;
	size_t host, bytes;
	uint64_t begun_ns, over_ns; /* the collector's clock: before the ring's head was read; after
				       the last record */
	uint64_t to;		    /* number behind the last */
	bool anew;		    /* the first of this ring: what was before is none of ours */
	bool gone;		    /* the last: there is nothing else in it */
	uint8_t boot_id[16];
	uint64_t headless;
	uint32_t n;
	struct region_nic_record record[];
};

/* ---- net_ring.c: the link's worker's ---- */

void collect_net_found(struct collect_link *l, struct collect_region *r,
		       const struct sl_region_header *copy, uint64_t now_ns);
void collect_net_gone(struct collect_link *l, struct collect_region *r);
void collect_net_poll(struct collect_link *l, uint64_t now_ns);
uint64_t collect_net_due(const struct collect_link *l);
void collect_net_ring_free(struct net_ring *t, struct collect_collector *c);

/* ---- nets.c ---- */

/* NULL: out of memory. */
struct nets *collect_pair_latency_new(struct collect_collector *c);
/* The workers are gone. NULL is fine. */
void collect_pair_latency_free(struct nets *n);
/* Takes the batch over. Any worker. */
void collect_pair_latency_push(struct nets *n, struct collect_net_batch *b);

#endif
