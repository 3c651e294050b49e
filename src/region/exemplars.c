// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "region/exemplars.h"
#include "region/text.h"

#define LINES	   (SL_EXEMPLAR_SIZE / SL_LINE_SIZE)
#define FIRST_TEXT (8 * (SL_LINE_CELLS - SL_EXEMPLAR_TEXT))
#define NEXT_TEXT  (8 * (SL_LINE_CELLS - 1))

SL_STATIC_ASSERT(FIRST_TEXT + (LINES - 1) * NEXT_TEXT == SL_EXEMPLAR_LABELS, "labels of exemplars");

enum region_fault region_exemplars_head_parse(const uint64_t line[8],
					      const struct region_info *info,
					      struct region_exemplars_head *head)
{
	if (line[7] != sl_line_check(line))
		return REGION_FAULT_UNSETTLED;
	if (line[SL_EXEMPLAR_HEAD_USED] > info->max_exemplars)
		return REGION_FAULT_HOT;
	*head = (struct region_exemplars_head){
		.used = (uint32_t)line[SL_EXEMPLAR_HEAD_USED],
		.set = line[SL_EXEMPLAR_HEAD_SET],
		.dropped = line[SL_EXEMPLAR_HEAD_DROPPED],
	};
	return REGION_FAULT_NONE;
}

enum region_fault region_exemplar_parse(const uint64_t words[REGION_EXEMPLAR_WORDS],
					struct region_exemplar *e)
{
	uint64_t bytes = words[SL_EXEMPLAR_BYTES];

	for (uint32_t i = 0; i < LINES; i++) {
		const uint64_t *line = words + (size_t)i * 8;

		/* Lines of different exemplars have different numbers. */
		if (line[7] != sl_sealed_check(line) ||
		    line[SL_EXEMPLAR_TAG] != SL_EXEMPLAR_TAG_OF(words[0] >> 16, i))
			return REGION_FAULT_UNSETTLED;
	}
	if (bytes > SL_EXEMPLAR_LABELS)
		return REGION_FAULT_SIZE;
	e->id = (uint32_t)words[SL_EXEMPLAR_OF];
	e->cell = (uint32_t)(words[SL_EXEMPLAR_OF] >> 32);
	e->created_ns = words[SL_EXEMPLAR_CREATED];
	e->value = region_f64(words[SL_EXEMPLAR_VALUE]);
	e->ns = words[SL_EXEMPLAR_TIME];
	memcpy(e->text, words + SL_EXEMPLAR_TEXT, FIRST_TEXT);
	for (uint32_t i = 1; i < LINES; i++)
		memcpy(e->text + FIRST_TEXT + (i - 1) * NEXT_TEXT, words + (size_t)i * 8 + 1,
		       NEXT_TEXT);
	if (!region_text_labels(e->text, bytes, false, false, e->labels, &e->label_count))
		return REGION_FAULT_LABEL;
	return REGION_FAULT_NONE;
}

void region_exemplar_copy(struct region_exemplar *to, const struct region_exemplar *from)
{
	*to = *from;
	for (uint32_t i = 0; i < to->label_count; i++) {
		to->labels[i].key = to->text + (from->labels[i].key - from->text);
		to->labels[i].value = to->text + (from->labels[i].value - from->text);
	}
}

bool region_exemplar_fits(const struct region_exemplar *e, const struct region_metric *m)
{
	if (m->removed || e->id != m->id || e->cell >= m->cells ||
	    (m->created_ns && e->created_ns != m->created_ns))
		return false;
	return region_is_counter(m) || (region_is_histogram(m) && e->cell >= SL_HIST_BUCKETS);
}
