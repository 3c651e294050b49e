// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "base/passed.h"

/* Returns 1 if a server listens on the address, 0 if not, or -errno. */
static int server_answers(const struct sockaddr_un *at, int type)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)at, sizeof(*at)))
		err = errno;
	close(fd);
	if (err == ECONNREFUSED || err == ENOENT)
		return 0;
	/* EAGAIN: the server's backlog is full. EPROTOTYPE: the server has another socket type. */
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
				 "'%s': a socket path must be 1 to %zu bytes long", path,
				 sizeof(at.sun_path) - 1);
	strcpy(at.sun_path, path);
	strcpy(folder, path);
	mkdir(dirname(folder), 0755); /* ignore errors: bind() reports them */
	if (!lstat(path, &st)) {
		if (!S_ISSOCK(st.st_mode))
			return base_fail(error, bytes, -EEXIST, "%s exists and is not a socket",
					 path);
		err = server_answers(&at, type);
		if (err)
			return base_fail(error, bytes, err > 0 ? -EADDRINUSE : err,
					 "cannot listen on %s: %s", path,
					 err > 0 ? "another server is already listening"
						 : strerror(-err));
		unlink(path);
	}
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof(at))) {
		/*
		 * No client can connect before listen(), and the mode is right by then. Do not
		 * follow links, because the folder's owner could replace the socket with one.
		 */
		if (!fchmodat(AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW) &&
		    (type == SOCK_DGRAM || !listen(fd, SOMAXCONN)))
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

void base_unlisten_unix(int fd)
{
	if (base_is_passed(fd))
		close(fd);
	else
		shutdown(fd, SHUT_RDWR);
}

int base_send_fds(int sock, const struct iovec *parts, size_t n, const int *fds, size_t count,
		  int flags)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(BASE_FDS_MAX * sizeof(int))];
	} control;
	struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = n};
	ssize_t sent;

	if (count > BASE_FDS_MAX)
		return -EINVAL;
	if (count) {
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(count * sizeof(*fds));
		/* the padding is sent as well, so clear it */
		memset(&control, 0, m.msg_controllen);
		control.align = (struct cmsghdr){.cmsg_len = CMSG_LEN(count * sizeof(*fds)),
						 .cmsg_level = SOL_SOCKET,
						 .cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.align), fds, count * sizeof(*fds));
	}
	do
		sent = sendmsg(sock, &m, flags | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : (int)sent;
}

ssize_t base_receive_fds(int sock, void *to, size_t bytes, int flags, struct base_fds *fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(BASE_FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = {to, bytes};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	ssize_t n;

	fds->count = 0;
	do
		n = recvmsg(sock, &m, flags | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	fds->truncated = m.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = BASE_MIN(count, (size_t)BASE_FDS_MAX - fds->count);
		memcpy(fds->fd + fds->count, CMSG_DATA(c), count * sizeof(int));
		fds->count += (unsigned int)count;
	}
	return n;
}

ssize_t base_receive_fd(int sock, void *to, size_t bytes, int flags, int *fd)
{
	struct base_fds fds;
	ssize_t n = base_receive_fds(sock, to, bytes, flags, &fds);
	bool bad = n >= 0 && fds.truncated;

	*fd = fds.count && !bad ? fds.fd[0] : -1;
	for (unsigned int i = bad ? 0 : 1; i < fds.count; i++)
		close(fds.fd[i]);
	if (bad && !fds.count && fds.truncated == MSG_CTRUNC)
		return -EMFILE; /* the process had no free descriptor */
	return bad ? -EPROTO : n;
}
