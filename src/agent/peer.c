// SPDX-License-Identifier: Apache-2.0
/*
 * peer.c - the process at the other end of a connection, and the detection of its death.
 *
 * A hang-up only shows that the connection is gone. The agent may recompute check words only if the
 * process is dead: a repair between two stores of a writer would leave the line wrong forever. A
 * pidfd distinguishes the two cases. It becomes readable a few microseconds after the hang-up, as
 * the kernel closes files before it signals the exit.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/conn.h"
#include "agent/peer.h"
#include "agent/region.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

/* Returns field 22 of /proc/PID/stat, counted from the last ')': the name may contain anything. */
uint64_t agent_process_start_ticks(pid_t pid)
{
	char path[32], text[1024], *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	p = strrchr(text, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p + 1, NULL, 10) : 0;
}

static bool is_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

static void forget_pidfd(struct agent *a, struct agent_peer *p)
{
	if (p->pidfd < 0)
		return;
	agent_unwatch(a, p->pidfd);
	close(p->pidfd);
	p->pidfd = -1;
}

static void watch_pidfd(struct agent *a, struct agent_peer *p)
{
	if (p->pidfd >= 0 && agent_watch(a, p->pidfd, &p->source, SOURCE_PEER))
		forget_pidfd(a, p);
	p->known = p->pidfd >= 0;
}

static struct agent_peer *peer_make(pid_t pid)
{
	struct agent_peer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->refs = 1;
	p->pid = pid;
	p->pidfd = -1;
	TAILQ_INIT(&p->regions);
	return p;
}

/* Sets p's tenant. Frees p and returns NULL if out of memory. */
static struct agent_peer *set_tenant(struct agent *a, struct agent_peer *p,
				     const struct agent_tenant_id *id)
{
	if (!p)
		return NULL;
	p->tenant = agent_tenant_get(a, id);
	if (p->tenant)
		return p;
	forget_pidfd(a, p);
	free(p);
	return NULL;
}

struct agent_peer *agent_peer_new(struct agent *a, int sock)
{
	struct agent_tenant_id id;
	struct agent_peer *p;
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return NULL;
	p = peer_make(cred.pid);
	if (!p)
		return NULL;
	len = sizeof(p->pidfd);
	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &p->pidfd, &len)) {
		/*
		 * Before Linux 6.5, the pidfd is opened by pid. If the connection still exists
		 * after that, the pid was not reused.
		 */
		struct pollfd still = {.fd = sock, .events = POLLRDHUP};

		p->pidfd = p->pid > 0 ? (int)syscall(SYS_pidfd_open, p->pid, 0) : -1;
		if (poll(&still, 1, 0) > 0 && still.revents & (POLLRDHUP | POLLHUP))
			forget_pidfd(a, p);
	}
	if (p->pid > 0)
		p->start_ticks = agent_process_start_ticks(p->pid);
	p->unattested = agent_tenant_attest(a, p->pid, p->pidfd, cred.uid, &id);
	watch_pidfd(a, p);
	return set_tenant(a, p, &id);
}

struct agent_peer *agent_peer_as(struct agent *a, pid_t pid, const struct agent_tenant_id *id)
{
	return set_tenant(a, peer_make(pid), id);
}

struct agent_peer *agent_peer_self(struct agent *a)
{
	return agent_peer_as(a, getpid(), &(struct agent_tenant_id){.uid = a->uid});
}

struct agent_peer *agent_peer_of_pid(struct agent *a, pid_t pid, uint64_t start_ticks,
				     const struct agent_tenant_id *id)
{
	struct agent_peer *p = peer_make(pid);

	if (!p || pid <= 0)
		return set_tenant(a, p, id);
	p->start_ticks = start_ticks;
	p->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p->pidfd < 0 || agent_process_start_ticks(pid) != start_ticks) {
		forget_pidfd(a, p);
		p->known = p->dead = true;
	} else {
		watch_pidfd(a, p);
	}
	return set_tenant(a, p, id);
}

void agent_peer_put(struct agent *a, struct agent_peer *p)
{
	if (!p || --p->refs)
		return;
	forget_pidfd(a, p);
	TAILQ_INSERT_TAIL(&a->peer_graveyard, p, grave);
}

bool agent_peer_check(struct agent *a, struct agent_peer *p)
{
	if (!p->known)
		return true; /* without a pidfd, only a hang-up can be detected */
	if (!p->dead && p->pidfd >= 0 && is_readable(p->pidfd)) {
		p->dead = true;
		forget_pidfd(a, p);
	}
	return p->dead;
}

/* The process is dead. Its last packets, such as a CLOSE, may still be waiting in the socket. */
void agent_peer_event(struct agent *a, struct agent_peer *p)
{
	struct agent_region *r, *next;

	if (!p->refs)
		return;
	p->refs++;
	/* While packets are left, epoll reports the death again in the next turn. */
	if ((p->conn && !agent_conn_drain(a, p->conn)) || !agent_peer_check(a, p))
		goto out;
	if (p->conn) /* a child of the process holds the socket open */
		agent_conn_close(a, p->conn);
	for (r = TAILQ_FIRST(&p->regions); r; r = next) {
		next = TAILQ_NEXT(r, peer_link);
		agent_region_died(a, r);
	}
out:
	agent_peer_put(a, p);
}
