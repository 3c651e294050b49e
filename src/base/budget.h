/* SPDX-License-Identifier: Apache-2.0 */
/*
 * budget.h - what the work for one request may cost: time, and samples. It also ends when the
 * client has left. Loops call base_budget_spend() and end when it returns false.
 */
#ifndef SL_BASE_BUDGET_H
#define SL_BASE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct base_budget {
	uint64_t end_ns;  /* base_now_ns() when the work must have ended */
	uint64_t samples; /* number of samples that may still be touched */
	bool left;	  /* the client has left; another thread sets it; relaxed */
	uint32_t calls;
	int err; /* 0: not used up; else -ETIMEDOUT, -EDQUOT (samples) or -ECANCELED (left) */
};

/*
 * Takes samples from the budget. Returns false, also for all later calls, if it is used up. Looks
 * at the clock only now and then, so call it for each small step, with 0 if the step touches no
 * sample. b NULL: no limit.
 */
bool base_budget_spend(struct base_budget *b, uint64_t samples);

#endif
