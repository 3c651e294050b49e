/* SPDX-License-Identifier: Apache-2.0 */
/* status.h - the agent's state as JSON. Call all functions with the lock held. */
#ifndef SL_AGENT_STATUS_H
#define SL_AGENT_STATUS_H

#include <jansson.h>
#include <stddef.h>

struct agent;
struct agent_region;

json_t *agent_region_json(const struct agent *a, const struct agent_region *r);
/* Returns the status in a sealed read-only memfd, or -errno. */
int agent_status_memfd(struct agent *a, size_t *bytes);

#endif
