// SPDX-License-Identifier: Apache-2.0
/* memory.c - repairs check words in the memory of a dead publisher. */
#include "region/spans.h"
#include "base/base.h"

/* True if the check word was wrong. Others may still have the memory mapped. */
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
	/* Clamps the hot line's numbers to the header's. */
	region_copy_words(used, hot, 8);
	lines = used[SL_HOT_LINES_USED];
	lines = BASE_MIN(lines, info->max_lines);
	stripes = used[SL_HOT_STRIPES_USED];
	stripes = BASE_MIN(stripes, info->max_stripes);
	for (uint64_t s = 0; s < stripes; s++) {
		char *stripe = (char *)map + info->stripes + s * info->stripe_stride;

		for (uint64_t l = 0; l < lines; l++)
			repaired += repair_line((uint64_t *)(stripe + l * SL_LINE_SIZE), !s);
	}
	/* Only heads of rings: half a span must not verify. Rings need their stripes. */
	for (uint64_t s = 0; info->spans && s < stripes; s++)
		repaired += repair_line(
			(uint64_t *)((char *)map + region_span_head_at(info, (uint32_t)s)), false);
	return repaired;
}
