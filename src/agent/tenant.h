/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenant.h - identifies the user or container of a process, as attested by the kernel, and tracks
 * each tenant's usage.
 *
 * A tenant is a user of the host, or a container of such a user. Subordinate uids count as their
 * owner. A container's id is only accepted from a cgroup whose parent belongs to root: a user who
 * may create cgroups must not be able to invent containers.
 */
#ifndef SL_AGENT_TENANT_H
#define SL_AGENT_TENANT_H

#include "agent/internal.h"
#include "base/share.h"
#include "region/decode.h"

struct agent_tenant_id {
	uid_t uid;
	/* the process is in a container, or not visible: uid 0 is not this host's root */
	bool contained;
	uint64_t place; /* hash of the container's cgroup; 0 means none */
	/* attested ids of container and pod; zeros mean none, or not attested */
	uint8_t container[16], pod[16];
	char container_text[72], pod_text[40]; /* the same ids as written in the host's files */
};

struct agent_tenant {
	struct agent_tenant_id id;
	uint64_t key;
	bool trusted; /* the tenant is root or the agent's user, outside of containers */
	bool origin;  /* a user of --origin-uid, outside of containers: see SL_REGION_ORIGIN */
	/* names of pod and container, known once the tenant has published a region */
	struct region_names names;
	unsigned int refs;
	uint32_t regions, conns;
	uint64_t bytes;		   /* total size of its regions */
	uint64_t stored_bytes;	   /* length of its names in systemd's store (store.c) */
	uint64_t turn, spent_ns;   /* turn of the loop, and time used in this turn */
	uint64_t end_turn, end_ns; /* the same for work on regions that end (region.h) */
	LIST_ENTRY(agent_tenant) link;
};

void agent_tenant_init(struct agent *a); /* finds the agent's own container */

/*
 * Attests a process. A pid of 0 means that the process is not visible to the agent. pidfd is -1 if
 * unavailable. Returns 0, or -errno if the required files cannot be read; the id is then untrusted.
 */
int agent_tenant_attest(const struct agent *a, pid_t pid, int pidfd, uid_t uid,
			struct agent_tenant_id *id);
/*
 * Finds the container in a cgroup path from /proc/PID/cgroup, below the root of the hierarchy. Sets
 * contained, and the ids if they are attested.
 */
void agent_tenant_container(const char *root, const char *path, struct agent_tenant_id *id);
/* Sets the attested ids, given as written in the host's files; "" means none. */
void agent_tenant_ids(struct agent_tenant_id *id, const char *container, const char *pod);
/*
 * Returns the owner of a subordinate uid according to a file like /etc/subuid, or uid itself if it
 * has no owner. If the owner cannot be determined, *err is set to -errno.
 */
uid_t agent_tenant_owner(const char *subuid, uid_t uid, int *err);

/* Reads the names of the container with these ids. host: prefix of all paths, normally "". */
void agent_tenant_names(const char *host, const struct agent_tenant_id *id,
			struct region_names *names);

/*
 * Updates the tenant's names from files below host. Files are read at most every 10 s, and not
 * again once all names are known, so a process that reconnects repeatedly costs nothing.
 */
void agent_tenant_look(struct agent *a, const char *host, struct agent_tenant *t);

/* Finds or creates a tenant and takes a reference. Returns NULL if out of memory. */
struct agent_tenant *agent_tenant_get(struct agent *a, const struct agent_tenant_id *id);
void agent_tenant_put(struct agent_tenant *t); /* NULL is fine */

uint64_t agent_tenant_key(const struct agent_tenant_id *id);
/* Returns the directory's instance for the instance in a region's header. */
uint64_t agent_tenant_instance(const struct agent_tenant *t, uint64_t instance);

/* Writes "uid 1001" or "uid 0 in container 0123456789ab". Returns out. */
#define AGENT_TENANT_NAME 48
const char *agent_tenant_name(const struct agent_tenant *t, char out[AGENT_TENANT_NAME]);

enum agent_resource {
	RESOURCE_REGIONS,
	RESOURCE_MEMORY,
	RESOURCE_CONNECTIONS,
	RESOURCE_DESCRIPTORS, /* descriptors of the agent, for regions and connections */
};
#define AGENT_FDS_CONNECTION 2u /* socket, pidfd */
/* per region: a read-only descriptor, the publisher's, and a pidfd after a disconnection */
#define AGENT_FDS_REGION 3u

/*
 * Usage of a resource by all tenants and by this tenant, and the maximum that this tenant may hold
 * now.
 */
struct agent_use {
	struct base_share all;
	uint64_t held, limit;
};
struct agent_use agent_tenant_use(const struct agent *a, const struct agent_tenant *t,
				  enum agent_resource resource);

#endif
