/* SPDX-License-Identifier: Apache-2.0 */
/*
 * budget.h - limits the time and the samples that one request may use. The budget also ends when
 * the client leaves. Loops call base_budget_spend(), and end when it returns false.
 */
#ifndef SL_BASE_BUDGET_H
#define SL_BASE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct base_budget {
	uint64_t end_ns;  /* deadline, by base_now_ns() */
	uint64_t samples; /* number of samples that may still be touched */
	bool left;	  /* the client has left; set by another thread; relaxed */
	uint32_t calls;
	int err; /* 0: not used up; else -ETIMEDOUT, -EDQUOT (samples) or -ECANCELED (left) */
};

/*
 * Takes samples from the budget. Returns false once the budget is used up. Looks at the clock only
 * now and then, so call it at each small step, with 0 if the step touches no sample. b may be NULL:
 * no limit.
 */
bool base_budget_spend(struct base_budget *b, uint64_t samples);

#endif
