/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - the READs of a round over a region: its hot line, and the lines in use of the stripes in
 * use. Contiguous or nearly contiguous memory is one READ. Pure.
 */
#ifndef SL_COLLECT_READ_PLAN_H
#define SL_COLLECT_READ_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "region/decode.h"

/* Reading across a gap of this size costs less than another READ. */
#define COLLECT_PLAN_GAP 256u
/* The longest READ: short ones overlap, a long one blocks landing memory. */
#define COLLECT_PLAN_READ_MAX 65536u

#define COLLECT_PIECE_HOT     UINT32_MAX

/* A part of a READ. */
struct collect_piece {
	uint32_t at;	 /* bytes from the start of the READ */
	uint32_t stripe; /* COLLECT_PIECE_HOT: the hot line */
	uint32_t first;	 /* line of the stripe */
	uint32_t count;	 /* lines */
};

struct collect_plan_read {
	uint64_t offset; /* in the region */
	uint32_t length;
	uint32_t piece, pieces; /* index and number in collect_plan.piece */
};

struct collect_plan {
	struct collect_plan_read *read;
	struct collect_piece *piece;
	uint32_t reads, pieces;
	uint32_t lines, stripes; /* planned */
	uint64_t bytes;		 /* per round */
};

/* All zero: no plan. */
void collect_plan_free(struct collect_plan *p);
/*
 * Plans lines (<= info->max_lines) of each of stripes (<= info->max_stripes). 0, or -ENOMEM with
 * the old plan kept.
 */
int collect_plan_make(struct collect_plan *p, const struct region_info *info, uint32_t lines,
		      uint32_t stripes);

#endif
