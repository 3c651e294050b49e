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

/* Returns 1 if a server answers, 0 if not or if there is no socket, or -errno. */
static int server_answers(const struct sockaddr_un *addr)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)))
		err = errno;
	close(fd);
	if (err == ECONNREFUSED || err == ENOENT)
		return 0;
	/* EAGAIN: the server's backlog is full. EPROTOTYPE: the server uses another socket type. */
	return err == 0 || err == EAGAIN || err == EPROTOTYPE ? 1 : -err;
}

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

/* Removes the socket of a dead agent. Returns 0 or -errno. */
static int remove_stale(const char *path, const struct sockaddr_un *addr, char *error, size_t bytes)
{
	struct stat st;
	int err;

	if (lstat(path, &st))
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return base_fail(error, bytes, -EEXIST, "%s exists and is not a socket", path);
	err = server_answers(addr);
	if (err > 0)
		return base_fail(error, bytes, -EADDRINUSE,
				 "another agent answers on %s: stop it, or choose another --socket",
				 path);
	if (err < 0)
		return base_fail(error, bytes, err, "cannot tell whether %s is in use: %s", path,
				 strerror(-err));
	if (unlink(path) && errno != ENOENT)
		return base_fail(error, bytes, -errno, "cannot replace the stale socket %s: %s",
				 path, strerror(errno));
	return 0;
}

static void make_folder(const char *path)
{
	char copy[sizeof(((struct sockaddr_un *)0)->sun_path)];

	snprintf(copy, sizeof(copy), "%s", path);
	mkdir(dirname(copy), 0755); /* if this fails, the next step reports why */
}

/* Must be called with the lock held. Returns 0 or -errno. */
static int bind_socket(struct agent_listener *l, const struct sockaddr_un *addr, unsigned int mode,
		       char *error, size_t bytes)
{
	struct stat st;
	int err = 0;

	l->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0)
		return base_fail(error, bytes, -errno, "socket: %s", strerror(errno));
	/*
	 * Set the mode before bind(), so that the file never has other rights; umask would affect
	 * the whole process.
	 */
	if (fchmod(l->fd, mode) || bind(l->fd, (const struct sockaddr *)addr, sizeof(*addr))) {
		err = base_fail(error, bytes, -errno, "cannot bind %s: %s", l->path,
				strerror(errno));
	} else if (fchmodat(AT_FDCWD, l->path, mode, AT_SYMLINK_NOFOLLOW) || lstat(l->path, &st) ||
		   listen(l->fd, 1024)) {
		err = base_fail(error, bytes, -errno, "cannot listen on %s: %s", l->path,
				strerror(errno));
		unlink(l->path);
	} else {
		l->dev = st.st_dev;
		l->ino = st.st_ino;
	}
	if (err) {
		close(l->fd);
		l->fd = -1;
	}
	return err;
}

int agent_listen(struct agent_listener *l, unsigned int mode, char *error, size_t bytes)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char name[sizeof(addr.sun_path) + 8];
	int lock, err;

	if (strlen(l->path) >= sizeof(addr.sun_path))
		return base_fail(error, bytes, -ENAMETOOLONG,
				 "socket path longer than %zu bytes: %s", sizeof(addr.sun_path) - 1,
				 l->path);
	strcpy(addr.sun_path, l->path);
	l->fd = base_passed_socket(SOCK_SEQPACKET, (struct sockaddr *)&addr);
	if (l->fd >= 0)
		return 0; /* the service manager owns the file and its mode */
	make_folder(l->path);
	lock = lock_beside(l->path, name, sizeof(name), error, bytes);
	if (lock < 0)
		return lock;
	err = remove_stale(l->path, &addr, error, bytes);
	err = err ?: bind_socket(l, &addr, mode, error, bytes);
	unlink(name);
	close(lock);
	return err;
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
