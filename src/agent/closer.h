/* SPDX-License-Identifier: Apache-2.0 */
/* closer.h - closes descriptors whose close() may block, separately for each tenant. */
#ifndef SL_AGENT_CLOSER_H
#define SL_AGENT_CLOSER_H

#include <stdbool.h>
#include <stdint.h>

struct agent;
struct agent_tenant;

/*
 * Returns false while too many of the tenant's descriptors wait to be closed; then do not receive
 * more from its sockets.
 */
bool agent_closer_may_take(struct agent *a, const struct agent_tenant *t);
/*
 * Closes a descriptor that a client sent: immediately if this is safe, otherwise in a thread.
 * agent_closer_later() always uses a thread.
 */
void agent_closer_close(struct agent *a, const struct agent_tenant *t, int fd);
void agent_closer_later(struct agent *a, const struct agent_tenant *t, int fd);
/* Calls agent_seal() on a client's memory in a thread, then closes the descriptor. */
void agent_closer_seal(struct agent *a, const struct agent_tenant *t, int fd);
/* Closes a connection, which may have unread descriptors. The peer sees end of file at once. */
void agent_closer_hang_up(struct agent *a, const struct agent_tenant *t, int sock);
/* number of waiting descriptors of all tenants */
uint64_t agent_closer_waiting(const struct agent *a);
void agent_closer_fini(struct agent *a);

#endif
