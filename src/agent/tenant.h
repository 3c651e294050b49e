/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenant.h - the user or container of a process, as the kernel attests it, and what each tenant
 * uses.
 *
 * A tenant is a user of the host, or a container of such a user. Subordinate uids count as their
 * owner. The id of a container is taken only from a cgroup whose parent belongs to root: a user who
 * may create cgroups must not invent containers.
 */
#ifndef SL_AGENT_TENANT_H
#define SL_AGENT_TENANT_H

#include "agent/internal.h"
#include "base/share.h"
#include "region/decode.h"

struct agent_tenant_id {
	uid_t uid;
	bool contained; /* in a container, or not visible: its uid 0 is not this host's root */
	uint64_t place; /* hash of the container's cgroup; 0: none */
	uint8_t container[16], pod[16];	       /* zeroes: none, or not attested */
	char container_text[72], pod_text[40]; /* the same, as the host's files have them */
};

struct agent_tenant {
	struct agent_tenant_id id;
	uint64_t key;
	bool trusted;		   /* root or the agent's user, outside of containers */
	struct region_names names; /* since its first region */
	unsigned int refs;
	uint32_t regions, conns;
	uint64_t bytes;		 /* of its regions */
	uint64_t turn, spent_ns; /* of the loop, in this turn */
	LIST_ENTRY(agent_tenant) link;
};

void agent_tenant_init(struct agent *a); /* what tells the agent's own container */

/*
 * Attests a process. pid 0: not visible from here. pidfd: -1 if unavailable. -errno: what tells
 * cannot be read; the id is then untrusted.
 */
int agent_tenant_attest(const struct agent *a, pid_t pid, int pidfd, uid_t uid,
			struct agent_tenant_id *id);
/*
 * The container in a cgroup's path, as in /proc/PID/cgroup, below the hierarchy's root: sets
 * contained, and the ids if they are attested.
 */
void agent_tenant_container(const char *root, const char *path, struct agent_tenant_id *id);
/*
 * The owner of a subordinate uid by a file like /etc/subuid; uid itself if it has none. *err is set
 * if it is unknown, to -errno.
 */
uid_t agent_tenant_owner(const char *subuid, uid_t uid, int *err);

/* What the files below host, "" or a folder, call the container of these ids. */
void agent_tenant_names(const char *host, const struct agent_tenant_id *id,
			struct region_names *names);

/*
 * Sets the tenant's names, by the files below host. Files are read at most every 10 s, and no more
 * once all names are known: a process that connects again and again costs nothing.
 */
void agent_tenant_look(struct agent *a, const char *host, struct agent_tenant *t);

/* Finds or makes a tenant, and takes a reference. NULL: out of memory. */
struct agent_tenant *agent_tenant_get(struct agent *a, const struct agent_tenant_id *id);
void agent_tenant_put(struct agent_tenant *t); /* NULL is fine */

uint64_t agent_tenant_key(const struct agent_tenant_id *id);
/* The instance of the directory for that of a header. */
uint64_t agent_tenant_instance(const struct agent_tenant *t, uint64_t instance);

/* "uid 1001", or "uid 0 in container 0123456789ab"; out. */
#define AGENT_TENANT_NAME 48
const char *agent_tenant_name(const struct agent_tenant *t, char out[AGENT_TENANT_NAME]);

enum agent_resource {
	RESOURCE_REGIONS,
	RESOURCE_MEMORY,
	RESOURCE_CONNECTIONS,
	RESOURCE_DESCRIPTORS, /* of the agent's table: those of regions and connections */
};
#define AGENT_FDS_CONNECTION 2u /* socket, process */
#define AGENT_FDS_REGION     3u /* read-only, the publisher's, process once it is disconnected */

/* What all tenants use of a resource, what this one does, and the most that it may hold now. */
struct agent_use {
	struct base_share all;
	uint64_t held, limit;
};
struct agent_use agent_tenant_use(const struct agent *a, const struct agent_tenant *t,
				  enum agent_resource resource);

#endif
