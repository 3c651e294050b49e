// SPDX-License-Identifier: Apache-2.0
/*
 * store.c - uses systemd's file descriptor store (sd_pid_notify_with_fds(3)), which keeps the
 * memfds while the agent restarts, so that final values survive. The name of a descriptor contains
 * what is not in the region, the process and tenant as attested when it was published:
 * sl-INSTANCE-PID-STARTTICKS-UID-CONTAINED-CONTAINER-POD (instance, container and pod are
 * hexadecimal). Live publishers attach again by themselves.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/peer.h"
#include "agent/region.h"
#include "base/passed.h"
#include "base/text.h"

#if HAVE_SYSTEMD
#include <systemd/sd-daemon.h>

void agent_store_add(struct agent *a, struct agent_region *r, int fd)
{
	const struct agent_tenant_id *id = &r->peer->tenant->id;
	char state[256], container[33], pod[33];

	if (a->epoll_fd < 0 || !getenv("NOTIFY_SOCKET"))
		return;
	base_hex(container, id->container, sizeof(id->container));
	base_hex(pod, id->pod, sizeof(id->pod));
	snprintf(r->stored, sizeof(r->stored), "sl-%016" PRIx64 "-%d-%" PRIu64 "-%u-%d-%s-%s",
		 r->info->instance, (int)r->peer->pid, r->peer->start_ticks, (unsigned int)id->uid,
		 id->contained, container, pod);
	snprintf(state, sizeof(state), "FDSTORE=1\nFDNAME=%s", r->stored);
	if (sd_pid_notify_with_fds(0, 0, state, &fd, 1) <= 0)
		r->stored[0] = 0;
}

void agent_store_remove(struct agent_region *r)
{
	if (*r->stored)
		sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", r->stored);
	r->stored[0] = 0;
}

/* Restores one descriptor. It is checked like a descriptor from a publisher. */
static void restore_region(struct agent *a, int fd, const char *name)
{
	struct sl_msg_publish say = {0};
	struct agent_refused why;
	struct agent_region *r;
	struct agent_peer *peer;
	struct stat st;
	struct agent_tenant_id id = {0};
	char container[33], pod[33];
	unsigned int uid;
	uint64_t ticks;
	int pid, contained;

	if (sscanf(name, "sl-%" SCNx64 "-%d-%" SCNu64 "-%u-%d-%32[0-9a-f]-%32[0-9a-f]",
		   &say.instance, &pid, &ticks, &uid, &contained, container, pod) != 7 ||
	    base_unhex(id.container, container, 16) || base_unhex(id.pod, pod, 16) ||
	    fstat(fd, &st))
		return;
	say.size = (uint64_t)st.st_size;
	id.uid = uid;
	id.contained = contained;
	peer = agent_peer_of_pid(a, pid, ticks, &id);
	if (!peer)
		return;
	if (agent_region_admit(a, fd, &say, NULL, peer, &r, &why)) {
		base_logf(BASE_WARN, AGENT_LOG, "region not restored name=%s: %s", name,
			  why.reason);
		sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
	} else {
		a->n.admitted--;
		a->n.restored++;
		snprintf(r->stored, sizeof(r->stored), "%s", name);
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

#else

void agent_store_add(struct agent *a, struct agent_region *r, int fd)
{
	(void)a, (void)r, (void)fd;
}

void agent_store_remove(struct agent_region *r)
{
	(void)r;
}

void agent_store_restore(struct agent *a)
{
	(void)a;
}

#endif
