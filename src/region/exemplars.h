/* SPDX-License-Identifier: Apache-2.0 */
/* exemplars.h - the section of exemplars of a region of metrics, as a reader sees it. Pure. */
#ifndef SL_REGION_EXEMPLARS_H
#define SL_REGION_EXEMPLARS_H

#include "region/decode.h"

#define REGION_EXEMPLAR_WORDS (SL_EXEMPLAR_SIZE / 8)

struct region_exemplars_head {
	uint32_t used; /* elements ever used, the head included; 0: none yet */
	uint64_t set, dropped;
};
/* UNSETTLED: read it again. HOT: impossible values. */
enum region_fault region_exemplars_head_parse(const uint64_t line[8],
					      const struct region_info *info,
					      struct region_exemplars_head *head);

struct region_exemplar {
	uint32_t id, cell; /* of the record; of its cells, 0 the first */
	uint64_t created_ns;
	double value;
	uint64_t ns; /* CLOCK_REALTIME of the publisher */
	uint32_t label_count;
	struct region_text_label labels[SL_LABELS_MAX]; /* point into text */
	char text[SL_EXEMPLAR_LABELS];
};
/*
 * Parses a private copy of an element, not the head. UNSETTLED: it is being written, or was never.
 * SIZE, LABEL: it is whole and malformed.
 */
enum region_fault region_exemplar_parse(const uint64_t words[REGION_EXEMPLAR_WORDS],
					struct region_exemplar *e);

/* Its labels point into the copy. */
void region_exemplar_copy(struct region_exemplar *to, const struct region_exemplar *from);

/* The exemplar is of this metric, which has its id: of the metric that is there, and of a counter's
 * value or a histogram's bucket. */
bool region_exemplar_fits(const struct region_exemplar *e, const struct region_metric *m);

#endif
