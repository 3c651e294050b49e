// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"

/* Whether a server listens there: 1, 0 or -errno. */
static int answers(const struct sockaddr_un *at, int type)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)at, sizeof(*at)))
		err = errno;
	close(fd);
	if (err == ECONNREFUSED || err == ENOENT)
		return 0;
	/* EAGAIN: its backlog is full. EPROTOTYPE: a server of another socket type. */
	return !err || err == EAGAIN || err == EPROTOTYPE ? 1 : -err;
}

int base_listen_unix(const char *path, int type, unsigned int mode, char *error, size_t bytes)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	char folder[sizeof(at.sun_path)];
	struct stat st;
	int fd, err;

	if (!*path || strlen(path) >= sizeof(at.sun_path))
		return base_fail(error, bytes, -ENAMETOOLONG,
				 "'%s': a socket's path has 1 to %zu bytes", path,
				 sizeof(at.sun_path) - 1);
	strcpy(at.sun_path, path);
	strcpy(folder, path);
	mkdir(dirname(folder), 0755); /* bind() says what is wrong with it */
	if (!lstat(path, &st)) {
		if (!S_ISSOCK(st.st_mode))
			return base_fail(error, bytes, -EEXIST, "%s exists and is not a socket",
					 path);
		err = answers(&at, type);
		if (err)
			return base_fail(error, bytes, err > 0 ? -EADDRINUSE : err,
					 "cannot listen on %s: %s", path,
					 err > 0 ? "another server answers there" : strerror(-err));
		unlink(path);
	}
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof(at))) {
		/* No connection comes before listen(): the mode is right by then. */
		if (!chmod(path, mode) && !listen(fd, SOMAXCONN))
			return fd;
		err = errno;
		unlink(path);
	} else {
		err = errno;
	}
	if (fd >= 0)
		close(fd);
	return base_fail(error, bytes, -err, "cannot listen on %s: %s", path, strerror(err));
}
