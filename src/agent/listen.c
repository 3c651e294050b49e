// SPDX-License-Identifier: Apache-2.0
/* listen.c - binds unix sockets; replaces the file of a dead agent's socket, never a live one's. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/passed.h"

/*
 * Takes a lock while the socket's file is checked and bound, so that two agents starting at the
 * same time do not both find it stale. The directory itself could be locked forever by any user who
 * may read it; only the agent's user can open this file. It is removed while locked: a process that
 * gets the lock of a removed file tries again.
 */
static int lock_beside(const char *path, char *name, size_t name_bytes, char *error, size_t bytes)
{
	struct stat mine, there;

	snprintf(name, name_bytes, "%s.lock", path);
	for (;;) {
		int fd = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
		bool ours;

		if (fd < 0 || fstat(fd, &mine))
			break;
		ours = S_ISREG(mine.st_mode) && mine.st_uid == geteuid() && !(mine.st_mode & 077);
		if (!ours) {
			close(fd);
			return base_fail(
				error, bytes, -EPERM,
				"%s belongs to uid %u: remove it, or choose another --socket", name,
				(unsigned int)mine.st_uid);
		}
		/* Another agent of this user may hold the lock for a short time. */
		if (!flock(fd, LOCK_EX) && !lstat(name, &there) && there.st_ino == mine.st_ino &&
		    there.st_dev == mine.st_dev)
			return fd;
		close(fd);
	}
	return base_fail(error, bytes, -errno,
			 "cannot use the folder of %s: %s; choose another "
			 "--socket",
			 path, strerror(errno));
}

int agent_listen(struct agent_listener *l, unsigned int mode, char *error, size_t bytes)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char name[sizeof(addr.sun_path) + 8], folder[sizeof(addr.sun_path)];
	struct stat st;
	int lock, fd;

	if (strlen(l->path) >= sizeof(addr.sun_path))
		return base_fail(error, bytes, -ENAMETOOLONG,
				 "socket path longer than %zu bytes: %s", sizeof(addr.sun_path) - 1,
				 l->path);
	strcpy(addr.sun_path, l->path);
	l->fd = base_passed_socket(SOCK_SEQPACKET, (struct sockaddr *)&addr);
	if (l->fd >= 0)
		return 0; /* the service manager owns the file and its mode */
	strcpy(folder, l->path);
	mkdir(dirname(folder), 0755); /* if this fails, the next step reports why */
	lock = lock_beside(l->path, name, sizeof(name), error, bytes);
	if (lock < 0)
		return lock;
	fd = base_listen_unix(l->path, SOCK_SEQPACKET, mode, error, bytes);
	if (fd == -EADDRINUSE)
		base_fail(error, bytes, fd,
			  "another agent answers on %s: stop it, or choose another --socket",
			  l->path);
	if (fd >= 0 && !lstat(l->path, &st)) {
		l->dev = st.st_dev;
		l->ino = st.st_ino;
	}
	l->fd = BASE_MAX(fd, -1);
	unlink(name);
	close(lock);
	return BASE_MIN(fd, 0);
}

/* Removes the file only if this agent still owns it. */
void agent_unlisten(struct agent_listener *l)
{
	struct stat st;

	if (l->fd < 0)
		return;
	if (!base_is_passed(l->fd) && !lstat(l->path, &st) && st.st_dev == l->dev &&
	    st.st_ino == l->ino)
		unlink(l->path);
	base_unlisten_unix(l->fd);
	l->fd = -1;
}
