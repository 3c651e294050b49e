// SPDX-License-Identifier: Apache-2.0
/* plan.c - merges the lines to read into READs */
#include <errno.h>
#include <stdlib.h>

#include "collect/read/plan.h"

void collect_plan_free(struct collect_plan *p)
{
	free(p->read);
	free(p->piece);
	*p = (struct collect_plan){0};
}

/*
 * Appends lines [first, first + count) of a stripe, in READs of at most COLLECT_PLAN_READ_MAX
 * bytes.
 */
static void add_read(struct collect_plan *p, uint64_t offset, uint32_t stripe, uint32_t first,
		     uint32_t count)
{
	while (count) {
		struct collect_plan_read *last = p->reads ? &p->read[p->reads - 1] : NULL;
		uint64_t end = last ? last->offset + last->length : 0;
		uint32_t room, n;

		if (!last || offset < end || offset - end > COLLECT_PLAN_GAP ||
		    offset - last->offset + SL_LINE_SIZE > COLLECT_PLAN_READ_MAX) {
			last = &p->read[p->reads++];
			*last = (struct collect_plan_read){.offset = offset, .piece = p->pieces};
		}
		room = COLLECT_PLAN_READ_MAX - (uint32_t)(offset - last->offset);
		n = room / SL_LINE_SIZE < count ? room / SL_LINE_SIZE : count;
		p->piece[p->pieces++] = (struct collect_piece){
			.at = (uint32_t)(offset - last->offset),
			.stripe = stripe,
			.first = first,
			.count = n,
		};
		last->pieces++;
		last->length = (uint32_t)(offset - last->offset) + n * SL_LINE_SIZE;
		offset += (uint64_t)n * SL_LINE_SIZE;
		first += n;
		count -= n;
	}
}

int collect_plan_make(struct collect_plan *p, const struct region_info *info, uint32_t lines,
		      uint32_t stripes)
{
	/* A stripe needs at most one READ more than the READs that it fills completely. */
	uint32_t lines_a_read = COLLECT_PLAN_READ_MAX / SL_LINE_SIZE;
	size_t most = 1 + (size_t)stripes * (lines / lines_a_read + 2);
	struct collect_plan made = {.lines = lines, .stripes = stripes};
	uint32_t s = 0;

	made.read = malloc(most * sizeof(*made.read));
	made.piece = malloc(most * sizeof(*made.piece));
	if (!made.read || !made.piece) {
		collect_plan_free(&made);
		return -ENOMEM;
	}
	/*
	 * Add pieces in the order of their offsets: the hot line may come before or after the
	 * stripes.
	 */
	if (info->hot < info->stripes)
		add_read(&made, info->hot, COLLECT_PIECE_HOT, 0, 1);
	for (; lines && s < stripes; s++)
		add_read(&made, info->stripes + (uint64_t)s * info->stripe_stride, s, 0, lines);
	if (info->hot >= info->stripes)
		add_read(&made, info->hot, COLLECT_PIECE_HOT, 0, 1);
	for (uint32_t i = 0; i < made.reads; i++)
		made.bytes += made.read[i].length;
	collect_plan_free(p);
	*p = made;
	return 0;
}
