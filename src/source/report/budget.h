/* SPDX-License-Identifier: Apache-2.0 */
/*
 * budget.h - how many reports the programs may hand to packets, as the translator's answers say
 * (docs/dta-wire.md, credits). What may not go is held back, and said by a later report.
 */
#ifndef SL_SOURCE_REPORT_BUDGET_H
#define SL_SOURCE_REPORT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed at first, but for the first three, and credits, which is ~0: any. */
struct report_budget {
	int fd; /* of UDP, connected to the translator, not blocking; -1: no answer can come */
	uint32_t reporter, incarnation;
	uint32_t next,
		credits;   /* behind the newest report that arrived, so many may be on the way */
	uint32_t floor;	   /* allowed whatever is answered */
	uint32_t asked_at; /* reports, when an answer was asked for */
	uint64_t asked_ns, let_ns;
	uint64_t answers, refused; /* refused: not an answer to this reporter */
};

struct report_allowed {
	bool limited, ask; /* ask: the next packet is to ask for an answer */
	uint32_t allowed;  /* limited: reports before this number */
};

/* Takes answers, and says what holds now. handed: reports that were handed to packets so far. */
struct report_allowed report_budget(struct report_budget *b, uint32_t handed, uint64_t now_ns);

#endif
