// SPDX-License-Identifier: Apache-2.0
#include "base/budget.h"

#include <errno.h>

#include "base/base.h"
#include "base/relaxed.h"

#define CALLS_PER_LOOK 64u /* look at the clock only this often: it costs more than a step */

bool base_budget_spend(struct base_budget *b, uint64_t samples)
{
	if (!b)
		return true;
	if (b->err)
		return false;
	if (samples > b->samples)
		b->err = -EDQUOT;
	else
		b->samples -= samples;
	if (!b->err && b->calls++ % CALLS_PER_LOOK == 0)
		b->err = relaxed_load(b->left)	      ? -ECANCELED
			 : base_now_ns() >= b->end_ns ? -ETIMEDOUT
						      : 0;
	return !b->err;
}
