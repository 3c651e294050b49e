/* SPDX-License-Identifier: Apache-2.0 */
/* closer.h - closes descriptors whose close() may block, apart for each tenant. */
#ifndef SL_AGENT_CLOSER_H
#define SL_AGENT_CLOSER_H

#include <stdbool.h>
#include <stdint.h>

struct agent;
struct agent_tenant;

/* Whether further descriptors may be taken from sockets of the tenant: its own wait to be closed.
 */
bool agent_closer_may_take(struct agent *a, const struct agent_tenant *t);
/* Closes a descriptor that a client sent; later: never at once. */
void agent_closer_close(struct agent *a, const struct agent_tenant *t, int fd);
void agent_closer_later(struct agent *a, const struct agent_tenant *t, int fd);
/* agent_seal() of a client's memory, then closes the descriptor. */
void agent_closer_seal(struct agent *a, const struct agent_tenant *t, int fd);
/* Closes a connection, in which unread descriptors may be; the peer sees the end of it at once. */
void agent_closer_hang_up(struct agent *a, const struct agent_tenant *t, int sock);
uint64_t agent_closer_waiting(const struct agent *a); /* descriptors of all tenants */
void agent_closer_fini(struct agent *a);

#endif
