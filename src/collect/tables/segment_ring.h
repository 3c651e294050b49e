/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment_ring.h - batches of records that segment_ring.c reads from a host's TCP segment ring and
 * hands to pair_latency.c, which matches the records of two hosts
 */
#ifndef SL_COLLECT_TABLES_SEGMENT_RING_H
#define SL_COLLECT_TABLES_SEGMENT_RING_H

#include "collect/tables/pair_latency.h"
#include "region/nic.h"

/* The result of a pass over a ring. Numbers without a record were missed. */
struct collect_segment_batch {
	struct collect_segment_batch *next;
	size_t host, bytes;
	/*
	 * By the collector's clock: before the head was read, and after the last record was read.
	 */
	uint64_t begun_ns, over_ns;
	uint64_t to; /* number after the last record */
	bool anew;   /* the first batch of this ring: older records are ignored */
	bool gone;   /* the last batch of this ring; contains nothing else */
	uint8_t boot_id[16];
	uint64_t headless;
	uint32_t n;
	struct region_nic_record record[];
};

/* Returns NULL if out of memory. */
struct collect_pair_latency *collect_pair_latency_new(struct collect_collector *c);
/* Must be called after the workers have exited. n may be NULL. */
void collect_pair_latency_free(struct collect_pair_latency *n);
/* Takes ownership of the batch. Called by any worker. */
void collect_pair_latency_push(struct collect_pair_latency *n, struct collect_segment_batch *b);

#endif
