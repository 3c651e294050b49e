/* SPDX-License-Identifier: Apache-2.0 */
/* self.h - the agent's own metrics. Call all functions with the lock held. */
#ifndef SL_AGENT_SELF_H
#define SL_AGENT_SELF_H

#include <stddef.h>

struct agent;

int agent_self_init(struct agent *a, char *error, size_t bytes);
void agent_self_sync(struct agent *a);
void agent_self_fini(struct agent *a);

#endif
