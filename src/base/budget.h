/* SPDX-License-Identifier: Apache-2.0 */
/*
 * budget.h - limits the time and the samples that one request may use. The budget is also used up
 * when the client disconnects. Loops call base_budget_spend(), and stop when it returns false.
 */
#ifndef SL_BASE_BUDGET_H
#define SL_BASE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct base_budget {
	uint64_t end_ns;  /* deadline, by base_now_ns() */
	uint64_t samples; /* number of samples that may still be touched */
	bool left;	  /* the client has disconnected; set by another thread; relaxed */
	uint32_t calls;
	/*
	 * 0 while not used up; otherwise -ETIMEDOUT, -EDQUOT (samples) or -ECANCELED (disconnected)
	 */
	int err;
};

/*
 * Takes samples from the budget. Returns false once the budget is used up. Looks at the clock only
 * now and then, so call it at each small step, with 0 if the step touches no sample. b may be NULL,
 * which means no limit.
 */
bool base_budget_spend(struct base_budget *b, uint64_t samples);

#endif
