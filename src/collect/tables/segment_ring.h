/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment_ring.h - what segment_ring.c, which reads a host's ring of TCP segments, hands to
 * pair_latency.c, which matches the records of two hosts.
 */
#ifndef SL_COLLECT_TABLES_SEGMENT_RING_H
#define SL_COLLECT_TABLES_SEGMENT_RING_H

#include "collect/tables/pair_latency.h"
#include "region/nic.h"

/* The result of a pass over a ring. Numbers that no record has were missed. */
struct collect_segment_batch {
	struct collect_segment_batch *next;
	size_t host, bytes;
	/* The collector's clock: before the head was read; after the last record was. */
	uint64_t begun_ns, over_ns;
	uint64_t to; /* number after the last */
	bool anew;   /* the first of this ring: earlier records are not ours */
	bool gone;   /* the last of this ring; holds nothing else */
	uint8_t boot_id[16];
	uint64_t headless;
	uint32_t n;
	struct region_nic_record record[];
};

/* NULL: out of memory. */
struct collect_pair_latency *collect_pair_latency_new(struct collect_collector *c);
/* After the workers have ended. NULL is fine. */
void collect_pair_latency_free(struct collect_pair_latency *n);
/* Takes the batch over. Any worker. */
void collect_pair_latency_push(struct collect_pair_latency *n, struct collect_segment_batch *b);

#endif
