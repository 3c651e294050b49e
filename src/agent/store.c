// SPDX-License-Identifier: Apache-2.0
/*
 * store.c - uses systemd's file descriptor store (sd_pid_notify_with_fds(3)), which keeps the
 * memfds while the agent restarts, so that final values survive. A region does not say which
 * process and tenant published it. Therefore, these are part of the descriptor's name:
 * sl-INSTANCE-PID-STARTTICKS-UID-CONTAINED-CONTAINER.POD (the instance is hexadecimal, container
 * and pod are as in the host's files, or empty). Live publishers attach again by themselves.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/peer.h"
#include "agent/region.h"
#include "base/passed.h"
#include "base/share.h"

/*
 * systemd passes all names in one environment variable. If it were longer than 128 KiB
 * (MAX_ARG_STRLEN, execve(2)), the agent could not be started again. Each tenant has a share.
 */
#define NAMES_BYTES_MAX (120u * 1024)

static void count_stored(struct agent *a, struct agent_region *r)
{
	uint64_t bytes = strlen(r->stored) + 1;

	a->stored_bytes += bytes;
	r->peer->tenant->stored_bytes += bytes;
}

void agent_store_add(struct agent *a, struct agent_region *r, int fd)
{
	struct agent_tenant *t = r->peer->tenant;
	const struct agent_tenant_id *id = &t->id;
	const struct base_share names = {NAMES_BYTES_MAX, a->stored_bytes,
					 NAMES_BYTES_MAX / BASE_SHARE_RESERVE};
	char state[256];
	size_t bytes;
	int sent;

	if (a->epoll_fd < 0 || !getenv("NOTIFY_SOCKET"))
		return;
	snprintf(r->stored, sizeof(r->stored), "sl-%016" PRIx64 "-%d-%" PRIu64 "-%u-%d-%s.%s",
		 r->info->instance, (int)r->peer->pid, r->peer->start_ticks, (unsigned int)id->uid,
		 id->contained, id->container_text, id->pod_text);
	bytes = strlen(r->stored) + 1;
	if (!base_share_may(&names, t->stored_bytes, bytes, t->trusted)) {
		a->n.store_refused++;
		base_log_limited(BASE_WARN, AGENT_LOG,
				 "too many regions: systemd does not keep this one while the agent "
				 "restarts id=%" PRIu64 " uid=%d",
				 r->id, (int)id->uid);
		r->stored[0] = 0;
		return;
	}
	snprintf(state, sizeof(state), "FDSTORE=1\nFDNAME=%s", r->stored);
	sent = base_notify(state, fd);
	if (sent > 0) {
		count_stored(a, r);
		return;
	}
	r->stored[0] = 0;
	if (!sent)
		return;
	a->n.store_refused++;
	base_log_limited(
		BASE_WARN, AGENT_LOG,
		"systemd cannot be asked to keep a region while the agent restarts id=%" PRIu64
		": %s",
		r->id, strerror(-sent));
}

static void drop_stored(const char *name)
{
	char state[320];

	snprintf(state, sizeof(state), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	base_notify(state, -1);
}

void agent_store_remove(struct agent *a, struct agent_region *r)
{
	if (!*r->stored)
		return;
	drop_stored(r->stored);
	a->stored_bytes -= strlen(r->stored) + 1;
	r->peer->tenant->stored_bytes -= strlen(r->stored) + 1;
	r->stored[0] = 0;
}

/* Returns false if the name has another format, such as that of an earlier version. */
static bool parse_name(const char *name, uint64_t *instance, int *pid, uint64_t *ticks,
		       struct agent_tenant_id *id)
{
	char container[sizeof(id->container_text)];
	int contained, at = 0;
	unsigned int uid;
	const char *pod;

	if (sscanf(name, "sl-%" SCNx64 "-%d-%" SCNu64 "-%u-%d-%n", instance, pid, ticks, &uid,
		   &contained, &at) != 5 ||
	    !at)
		return false;
	name += at;
	pod = strchr(name, '.');
	if (!pod)
		return false;
	snprintf(container, sizeof(container), "%.*s", (int)(pod - name), name);
	*id = (struct agent_tenant_id){.uid = uid, .contained = contained};
	agent_tenant_ids(id, container, pod + 1);
	return true;
}

/* Restores one descriptor. It is checked like a descriptor from a publisher. */
static void restore_region(struct agent *a, int fd, const char *name)
{
	struct sl_msg_publish say = {0};
	struct agent_refused why;
	struct agent_region *r;
	struct agent_peer *peer;
	struct stat st;
	struct agent_tenant_id id;
	uint64_t ticks;
	int pid;

	if (!parse_name(name, &say.instance, &pid, &ticks, &id) || fstat(fd, &st)) {
		base_logf(BASE_WARN, AGENT_LOG, "region not restored name=%s: unknown format",
			  name);
		drop_stored(name);
		return;
	}
	say.size = (uint64_t)st.st_size;
	peer = agent_peer_of_pid(a, pid, ticks, &id);
	if (!peer)
		return;
	if (agent_region_admit(a, fd, &say, NULL, peer, false, &r, &why)) {
		base_logf(BASE_WARN, AGENT_LOG, "region not restored name=%s: %s", name,
			  why.reason);
		drop_stored(name);
	} else {
		a->n.admitted--;
		a->n.restored++;
		snprintf(r->stored, sizeof(r->stored), "%s", name);
		count_stored(a, r);
		agent_region_restored(a, r);
	}
	agent_peer_put(a, peer);
}

void agent_store_restore(struct agent *a)
{
	const char *name;
	int fd;

	while ((fd = base_passed_file(&name)) >= 0) {
		restore_region(a, fd, name);
		close(fd);
	}
	if (a->n.restored)
		base_logf(BASE_INFO, AGENT_LOG, "restored regions=%" PRIu64, a->n.restored);
}
