/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_AGENT_STORE_H
#define SL_AGENT_STORE_H

struct agent;
struct agent_region;

void agent_store_add(struct agent *a, struct agent_region *r, int fd);
void agent_store_remove(struct agent_region *r);
void agent_store_restore(struct agent *a);

#endif
