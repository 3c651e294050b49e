/* SPDX-License-Identifier: Apache-2.0 */
/* exemplars.h - parses the exemplar section of a metrics region, for readers. Pure. */
#ifndef SL_REGION_EXEMPLARS_H
#define SL_REGION_EXEMPLARS_H

#include "region/decode.h"

#define REGION_EXEMPLAR_WORDS (SL_EXEMPLAR_SIZE / 8)

struct region_exemplars_head {
	uint32_t used; /* elements ever used, including the head; 0 means none yet */
	uint64_t set, dropped;
};
/* UNSETTLED means read the line again; HOT means impossible values. */
enum region_fault region_exemplars_head_parse(const uint64_t line[8],
					      const struct region_info *info,
					      struct region_exemplars_head *head);

struct region_exemplar {
	uint32_t id, cell; /* id of the record; index of the cell within it */
	uint64_t created_ns;
	double value;
	uint64_t ns; /* time by the publisher's CLOCK_REALTIME */
	uint32_t label_count;
	struct region_text_label labels[SL_LABELS_MAX]; /* pointing into text */
	char text[SL_EXEMPLAR_LABELS];
};
/*
 * Parses a private copy of an element, not of the head. UNSETTLED means the element is being
 * written, or was never written; SIZE and LABEL mean it is complete but malformed.
 */
enum region_fault region_exemplar_parse(const uint64_t words[REGION_EXEMPLAR_WORDS],
					struct region_exemplar *e);

/* Makes a deep copy: the labels of the copy point into its own text. */
void region_exemplar_copy(struct region_exemplar *to, const struct region_exemplar *from);

/*
 * True if an exemplar with this metric's id belongs to it: not to an earlier metric that had the
 * id, and to the value of a counter or a bucket of a histogram.
 */
bool region_exemplar_fits(const struct region_exemplar *e, const struct region_metric *m);

#endif
