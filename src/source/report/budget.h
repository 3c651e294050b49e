/* SPDX-License-Identifier: Apache-2.0 */
/*
 * budget.h - how many reports the programs may send, by the credits in the translator's answers
 * (docs/dta-wire.md). What is held back, a later report of the flow includes.
 */
#ifndef SL_SOURCE_REPORT_BUDGET_H
#define SL_SOURCE_REPORT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* Initially zero but for the first four fields and credits, which is ~0: unlimited. */
struct dta_key;

struct report_budget {
	int fd; /* UDP, connected to the translator, non-blocking; -1: no answers */
	uint32_t reporter, incarnation;
	struct dta_key *key;	/* of answers; NULL: they have no MAC */
	uint32_t next, credits; /* reports that may be in flight beyond the newest that arrived */
	uint32_t floor;		/* allowed regardless of answers */
	uint32_t asked_at;	/* reports sent when an answer was last requested */
	uint64_t asked_ns, let_ns;
	uint64_t answers, refused; /* refused: not an answer to this reporter */
};

struct report_allowed {
	bool limited, ask; /* ask: request an answer with the next packet */
	uint32_t allowed;  /* if limited: reports before this number */
};

/* Reads answers and returns the current limit. handed: reports put into packets so far. */
struct report_allowed report_budget(struct report_budget *b, uint32_t handed, uint64_t now_ns);

#endif
