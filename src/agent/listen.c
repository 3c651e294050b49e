// SPDX-License-Identifier: Apache-2.0
/* listen.c - the unix socket's file: replaced if its agent is dead, never if it is alive. */
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
#include "agent/listen.h"

/* 1: a server answers; 0: none does, or there is no socket; -errno. */
static int answers(const struct sockaddr_un *addr)
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
	/* EAGAIN: its backlog is full. EPROTOTYPE: a server of another socket type. */
	return err == 0 || err == EAGAIN || err == EPROTOTYPE ? 1 : -err;
}

/*
 * Holds a lock on the socket's folder while the file is checked and bound, so that two agents that
 * start at the same time do not both find it stale. A folder lock leaves no file behind.
 */
static int lock_folder(const char *path, char *error, size_t bytes)
{
	char copy[sizeof(((struct sockaddr_un *)0)->sun_path)];
	const char *folder;
	int fd, err, made;

	snprintf(copy, sizeof(copy), "%s", path);
	folder = dirname(copy);
	made = mkdir(folder, 0755) ? errno : 0;
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX)) {
		err = fd < 0 && errno == ENOENT && made ? made : errno;
		snprintf(error, bytes, "cannot use the folder %s: %s; choose another --socket",
			 folder, strerror(err));
		if (fd >= 0)
			close(fd);
		return -err;
	}
	return fd;
}

/* Makes room for the socket: removes that of a dead agent. 0 or -errno. */
static int clear(const char *path, const struct sockaddr_un *addr, char *error, size_t bytes)
{
	struct stat st;
	int err;

	if (lstat(path, &st))
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return base_fail(error, bytes, -EEXIST, "%s exists and is not a socket", path);
	err = answers(addr);
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

int agent_listen(const char *path, unsigned int mode, dev_t *dev, ino_t *ino, char *error,
		 size_t bytes)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct stat st;
	int lock, fd = -1, err;

	if (strlen(path) >= sizeof(addr.sun_path))
		return base_fail(error, bytes, -ENAMETOOLONG,
				 "socket path longer than %zu bytes: %s", sizeof(addr.sun_path) - 1,
				 path);
	strcpy(addr.sun_path, path);
	lock = lock_folder(path, error, bytes);
	if (lock < 0)
		return lock;
	err = clear(path, &addr, error, bytes);
	if (err)
		goto out;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		err = base_fail(error, bytes, -errno, "socket: %s", strerror(errno));
	} else if (bind(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		err = base_fail(error, bytes, -errno, "cannot bind %s: %s", addr.sun_path,
				strerror(errno));
	} else if (chmod(path, mode) || lstat(path, &st) || listen(fd, 1024)) {
		err = base_fail(error, bytes, -errno, "cannot listen on %s: %s", addr.sun_path,
				strerror(errno));
		unlink(path);
	} else {
		*dev = st.st_dev;
		*ino = st.st_ino;
	}
out:
	if (err && fd >= 0)
		close(fd);
	close(lock);
	return err ? err : fd;
}

/* Removes the file only if it is still this agent's. */
void agent_unlisten(int fd, const char *path, dev_t dev, ino_t ino)
{
	struct stat st;

	if (fd < 0)
		return;
	if (!lstat(path, &st) && st.st_dev == dev && st.st_ino == ino)
		unlink(path);
	close(fd);
}
