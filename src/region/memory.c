// SPDX-License-Identifier: Apache-2.0
/* memory.c - repair: what writes to the memory of somebody who is dead. */
#include "region/spans.h"

/* True if the check word had to be changed. The memory may still be mapped by others. */
static bool repair_line(uint64_t *line, bool mixed)
{
	uint64_t copy[8], check;

	region_copy_words(copy, line, 8);
	check = mixed ? sl_mixed_check(copy) : sl_line_check(copy);
	if (check == copy[7])
		return false;
	__atomic_store_n(&line[7], check, __ATOMIC_RELAXED);
	return true;
}

uint64_t region_repair(void *map, const struct region_info *info)
{
	uint64_t *hot = (uint64_t *)((char *)map + info->hot), used[8], lines, stripes;
	uint64_t repaired = repair_line(hot, false);

	if (info->kind != SL_REGION_METRICS)
		return repaired;
	/* What the hot line says is not trusted further than the header allows. */
	region_copy_words(used, hot, 8);
	lines = used[SL_HOT_LINES_USED];
	if (lines > info->max_lines)
		lines = info->max_lines;
	stripes = used[SL_HOT_STRIPES_USED];
	if (stripes > info->max_stripes)
		stripes = info->max_stripes;
	for (uint64_t s = 0; s < stripes; s++) {
		char *stripe = (char *)map + info->stripes + s * info->stripe_stride;

		for (uint64_t l = 0; l < lines; l++)
			repaired += repair_line((uint64_t *)(stripe + l * SL_LINE_SIZE), !s);
	}
	/*
	 * The heads of rings, but nothing in a ring: half a span must not come to verify. Rings
	 * are not used before their stripes are.
	 */
	for (uint64_t s = 0; info->spans && s < stripes; s++)
		repaired += repair_line(
			(uint64_t *)((char *)map + region_span_head_at(info, (uint32_t)s)), false);
	return repaired;
}
