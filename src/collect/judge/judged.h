/* SPDX-License-Identifier: Apache-2.0 */
/*
 * judged.h - a pod as the judge's findings are shown of it: its names and those of its columns. One
 * thread at a time.
 */
#ifndef SL_COLLECT_JUDGE_JUDGED_H
#define SL_COLLECT_JUDGE_JUDGED_H

#include "act/verdict.h"
#include "collect/judge/judge.h"
#include "collect/judge/rows.h"

struct collect_judged {
	uint64_t instance;
	struct act_verdict_pod *shown;
	struct act_pod_name name;
	char label[ACT_POD_LABEL_BYTES + 16]; /* by act_pod_label() */
	uint32_t columns;
	struct analyse_column *column; /* by names for replay, in text like those shown */
	const char **metric;
	char *text;
	bool recorded; /* the record has its columns */
};

/* From an entry of a worker's queue, of kind COLLECT_ROWS_LAYOUT. NULL: errno ENOSPC or ENOMEM. */
struct collect_judged *collect_judged_new(struct act_verdicts *verdicts,
					  const struct collect_rows_entry *e, const uint8_t *entry);
void collect_judged_free(struct collect_judged *p);
/* Its names for display and for replay, from such an entry. False: out of memory, no columns. */
bool collect_judged_columns(struct collect_judged *p, const struct collect_rows_entry *e,
			    const uint8_t *entry);
/* Shows a finding of it, and logs a change of how well it is known. */
void collect_judged_show(const struct collect_judged *p, const struct collect_judge_finding *is,
			 bool shadow);

#endif
