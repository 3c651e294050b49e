/* SPDX-License-Identifier: Apache-2.0 */
/*
 * budget.h - limits the number of reports that the programs may send, according to the credits in
 * the translator's answers (docs/dta-wire.md). Counts that are held back are included in a later
 * report of the flow.
 */
#ifndef SL_SOURCE_REPORT_BUDGET_H
#define SL_SOURCE_REPORT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* Initialise the first four fields, set credits to ~0 (unlimited), and zero the rest. */
struct dta_key;

struct report_budget {
	int fd; /* non-blocking UDP socket connected to the translator; -1 means no answers */
	uint32_t reporter, incarnation;
	struct dta_key *key; /* key of the answers' MAC; NULL means answers have no MAC */
	/* credits: number of reports that may be sent beyond the newest one that arrived */
	uint32_t next, credits;
	uint32_t floor;	   /* number of reports allowed regardless of answers */
	uint32_t asked_at; /* number of reports sent when an answer was last requested */
	uint64_t asked_ns, let_ns;
	/* refused: packets that are not valid answers to this reporter */
	uint64_t answers, refused;
};

struct report_allowed {
	bool limited, ask; /* ask: request an answer with the next packet */
	uint32_t allowed;  /* if limited, only reports before this number may be sent */
};

/* Reads answers and returns the current limit. handed: number of reports put into packets. */
struct report_allowed report_budget(struct report_budget *b, uint32_t handed, uint64_t now_ns);

#endif
