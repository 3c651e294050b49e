/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.h - joins READs whose memory is adjacent into one request, for providers that pay per
 * request. Included by src/fabric/ alone.
 */
#ifndef SL_FABRIC_MERGE_H
#define SL_FABRIC_MERGE_H

#include <stdint.h>
#include <sys/uio.h>

#include "fabric/fabric.h"

#define FABRIC_MERGE_AREAS_MAX 16u
#define FABRIC_MERGE_BYTES_MAX (256u << 10)
/* Bytes between two READs that are cheaper to read than to skip. */
#define FABRIC_MERGE_GAP_MAX 512u

struct fabric_merge_limits {
	uint32_t areas; /* landing areas per request: 1 to FABRIC_MERGE_AREAS_MAX */
	uint64_t bytes; /* that the connection carries per request */
	void *sink;	/* FABRIC_MERGE_GAP_MAX bytes that are never read */
};

struct fabric_merged {
	uint64_t addr; /* the host's: bytes from here land in the areas, one after the other */
	uint64_t bytes;
	uint32_t rkey;
	uint32_t reads; /* READs that it carries, from the first */
	uint32_t areas;
	struct iovec area[FABRIC_MERGE_AREAS_MAX];
};

/*
 * The request that carries the first of count READs and as many of the next as fit, in their order.
 * count is at least 1. A single READ may be longer than any limit: it is a request of its own.
 */
void fabric_merge(struct fabric_merged *m, const struct fabric_merge_limits *limits,
		  const struct fabric_read *reads, uint32_t count);

#endif
