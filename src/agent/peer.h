/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h - the process at the other end of a connection, and whether it is alive. */
#ifndef SL_AGENT_PEER_H
#define SL_AGENT_PEER_H

#include "agent/tenant.h"

struct agent_peer {
	struct agent_source source;
	unsigned int refs; /* its connection, and each of its regions */
	int pidfd;	   /* -1: unavailable, or the process is known to be dead */
	bool known;	   /* a pidfd was available: dead can be told from disconnected */
	bool dead;
	pid_t pid; /* 0: not visible in this PID namespace */
	struct agent_tenant *tenant;
	int unattested; /* -errno: whose it is could not be read; the tenant is untrusted */
	uint64_t start_ticks;
	struct agent_conn *conn;
	TAILQ_HEAD(, agent_region) regions;
	TAILQ_ENTRY(agent_peer) grave; /* events of this batch may still refer to it */
};

/* The process that connected. NULL: out of memory, or its credentials are not known. */
struct agent_peer *agent_peer_new(struct agent *a, int socket);
/* No process that could end: on whose behalf the agent publishes, or a test's. NULL: out of memory.
 */
struct agent_peer *agent_peer_as(struct agent *a, pid_t pid, const struct agent_tenant_id *id);
/* The agent itself. NULL: out of memory. */
struct agent_peer *agent_peer_self(struct agent *a);
/* A process known from before a restart of the agent: dead unless its start time is the same. */
struct agent_peer *agent_peer_of_pid(struct agent *a, pid_t pid, uint64_t start_ticks,
				     const struct agent_tenant_id *id);
void agent_peer_put(struct agent *a, struct agent_peer *p);
bool agent_peer_check(struct agent *a, struct agent_peer *p); /* true: dead */
void agent_peer_event(struct agent *a, struct agent_peer *p); /* its pidfd is readable */
uint64_t agent_process_start_ticks(pid_t pid);

#endif
