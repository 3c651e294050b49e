/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h - the process at the other end of a connection, and the detection of its death. */
#ifndef SL_AGENT_PEER_H
#define SL_AGENT_PEER_H

#include "agent/tenant.h"

struct agent_peer {
	struct agent_source source;
	unsigned int refs; /* references held by the connection and by each region */
	int pidfd;	   /* pidfd of the process; -1 means unavailable, or known to be dead */
	bool known;	   /* a pidfd was available, so death can be told from disconnection */
	bool dead;
	/* as the agent sees it; 0 means the process is not visible in this PID namespace */
	pid_t pid;
	struct agent_tenant *tenant;
	/* -errno if the owner could not be determined; the tenant is then untrusted */
	int unattested;
	uint64_t start_ticks;
	struct agent_conn *conn;
	TAILQ_HEAD(, agent_region) regions;
	TAILQ_ENTRY(agent_peer) grave; /* events of this batch may still refer to it */
};

/*
 * Returns the process that connected, or NULL if out of memory or if its credentials are unknown.
 */
struct agent_peer *agent_peer_new(struct agent *a, int socket);
/*
 * Returns a peer that cannot exit: a client for which the agent publishes. Returns NULL if out of
 * memory.
 */
struct agent_peer *agent_peer_as(struct agent *a, pid_t pid, const struct agent_tenant_id *id);
/* Returns a peer for the agent itself. Returns NULL if out of memory. */
struct agent_peer *agent_peer_self(struct agent *a);
/* Returns a process from before a restart of the agent; it is dead if its start time differs. */
struct agent_peer *agent_peer_of_pid(struct agent *a, pid_t pid, uint64_t start_ticks,
				     const struct agent_tenant_id *id);
void agent_peer_put(struct agent *a, struct agent_peer *p);
/* returns true if the process is dead */
bool agent_peer_check(struct agent *a, struct agent_peer *p);
/* called when its pidfd is readable */
void agent_peer_event(struct agent *a, struct agent_peer *p);
uint64_t agent_process_start_ticks(pid_t pid);

#endif
