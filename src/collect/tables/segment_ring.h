/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment_ring.h - batches of TCP segments: segment_ring.c reads them from a host's ring, and
 * pair_latency.c matches those of two hosts.
 */
#ifndef SL_COLLECT_TABLES_SEGMENT_RING_H
#define SL_COLLECT_TABLES_SEGMENT_RING_H

#include "collect/tables/pair_latency.h"
#include "region/nic.h"

/* The records of one pass over a ring. A gap in their numbers is a record that was missed. */
struct collect_segment_batch {
	struct collect_segment_batch *next;
	size_t host, bytes;
	/* The collector's clock: before the head was read; after the last record was. */
	uint64_t begun_ns, over_ns;
	uint64_t to; /* number after the last */
	bool anew;   /* the first batch of this ring: earlier records were not read */
	bool gone;   /* the ring is gone; the batch has no records */
	uint8_t boot_id[16];
	uint64_t headless;
	uint32_t n;
	struct region_nic_record record[];
};

/* NULL: out of memory. */
struct collect_pair_latency *collect_pair_latency_new(struct collect_collector *c);
/* After the workers have ended. NULL is fine. */
void collect_pair_latency_free(struct collect_pair_latency *n);
/* Takes ownership of the batch. Any worker. */
void collect_pair_latency_push(struct collect_pair_latency *n, struct collect_segment_batch *b);

#endif
