// SPDX-License-Identifier: Apache-2.0
/* rest.c - MicroView's routes, in JSON. */
#include "agent/internal.h"

void rest_timer_idle(struct sl_agent *a, struct timer *t)
{
	(void)a;
	(void)t;
}

const char *sl_agent_rest(const struct sl_agent *a)
{
	(void)a;
	return NULL;
}
