/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.h - joins READs of adjacent memory into one request, for providers with a cost per request.
 * Included only by src/fabric/.
 */
#ifndef SL_FABRIC_MERGE_H
#define SL_FABRIC_MERGE_H

#include <stdint.h>
#include <sys/uio.h>

#include "fabric/fabric.h"

#define FABRIC_MERGE_AREAS_MAX 16u
#define FABRIC_MERGE_BYTES_MAX (256u << 10)
/* A gap of up to this many bytes is cheaper to read than to skip. */
#define FABRIC_MERGE_GAP_MAX 512u

struct fabric_merge_limits {
	uint32_t areas; /* maximum landing areas per request: 1 to FABRIC_MERGE_AREAS_MAX */
	uint64_t bytes; /* maximum bytes per request */
	void *sink;	/* FABRIC_MERGE_GAP_MAX bytes for the contents of gaps */
};

struct fabric_merged {
	uint64_t addr; /* address at the host; the bytes are received into the areas in order */
	uint64_t bytes;
	uint32_t rkey;
	uint32_t reads; /* number of READs in the request, counted from the first */
	uint32_t areas;
	struct iovec area[FABRIC_MERGE_AREAS_MAX];
};

/*
 * Builds a request for the first of count READs and as many of the following ones as fit, in order.
 * count is at least 1. A single READ may exceed any limit: it is then a separate request.
 */
void fabric_merge(struct fabric_merged *m, const struct fabric_merge_limits *limits,
		  const struct fabric_read *reads, uint32_t count);

#endif
