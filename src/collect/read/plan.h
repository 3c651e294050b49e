/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - the READs of one pass over a region: the hot line, and all lines and stripes in use.
 * Contiguous or nearly contiguous memory is read by one READ. Pure functions.
 */
#ifndef SL_COLLECT_READ_PLAN_H
#define SL_COLLECT_READ_PLAN_H

#include <stdint.h>

#include "region/decode.h"

/* Reading across a gap of this size costs less than another READ. */
#define COLLECT_PLAN_GAP 256u
/* Maximum length of a READ: short READs overlap, while a long one occupies landing memory. */
#define COLLECT_PLAN_READ_MAX 65536u

#define COLLECT_PIECE_HOT     UINT32_MAX

/* The lines of one stripe in a READ. */
struct collect_piece {
	uint32_t at;	 /* offset in bytes from the start of the READ */
	uint32_t stripe; /* number of the stripe, or COLLECT_PIECE_HOT for the hot line */
	uint32_t first;	 /* first line within the stripe */
	uint32_t count;	 /* number of lines */
};

struct collect_plan_read {
	uint64_t offset; /* offset in the region */
	uint32_t length;
	uint32_t piece, pieces; /* index and number of the READ's entries in collect_plan.piece */
};

struct collect_plan {
	struct collect_plan_read *read;
	struct collect_piece *piece;
	uint32_t reads, pieces;
	uint32_t lines, stripes; /* planned number of lines per stripe, and of stripes */
	uint64_t bytes;		 /* bytes READ per round */
};

/* Resets *p to all zeros, which means no plan. */
void collect_plan_free(struct collect_plan *p);
/*
 * Plans the given number of lines (<= info->max_lines) of each of stripes (<= info->max_stripes).
 * Returns 0, or -ENOMEM with the old plan kept.
 */
int collect_plan_make(struct collect_plan *p, const struct region_info *info, uint32_t lines,
		      uint32_t stripes);

#endif
