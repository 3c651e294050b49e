/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - which bytes of a region a round reads: the hot line and the lines in use of the stripes
 * in use. Memory that is contiguous, or nearly so, travels as one READ. Pure.
 */
#ifndef SL_COLLECT_PLAN_H
#define SL_COLLECT_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "region/decode.h"

/* Reading over a gap of this size costs less than a READ of its own. */
#define SL_PLAN_GAP 256u
/* No READ is longer: many small ones overlap, one long one blocks the landing memory. */
#define SL_PLAN_READ_MAX 65536u

#define SL_PIECE_HOT UINT32_MAX

/* What a part of a READ is. */
struct sl_piece {
	uint32_t at;     /* bytes from the start of the READ */
	uint32_t stripe; /* SL_PIECE_HOT: the hot line */
	uint32_t first;  /* line of the stripe */
	uint32_t count;  /* lines */
};

struct sl_plan_read {
	uint64_t offset; /* in the region */
	uint32_t length;
	uint32_t piece, pieces; /* index and number in sl_plan.piece */
};

struct sl_plan {
	struct sl_plan_read *read;
	struct sl_piece *piece;
	uint32_t reads, pieces;
	uint32_t lines, stripes; /* what it was made for */
	uint64_t bytes;          /* read in a round */
};

void sl_plan_init(struct sl_plan *p);
void sl_plan_free(struct sl_plan *p);

/*
 * Plans for lines (<= info->max_lines) of each of stripes (<= info->max_stripes). 0, or -ENOMEM
 * with the old plan left as it was.
 */
int sl_plan_make(struct sl_plan *p, const struct sl_region_info *info, uint32_t lines,
		 uint32_t stripes);

#endif
