// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/secret.h"

static int read_from(int fd, size_t max, char **text, size_t *bytes)
{
	struct stat st;
	size_t room;
	ssize_t got;

	if (fstat(fd, &st))
		return errno;
	if (!S_ISREG(st.st_mode))
		return EINVAL;
	room = (size_t)st.st_size + 1;
	if (room - 1 > max)
		return EFBIG;
	*text = malloc(room);
	if (!*text)
		return ENOMEM;
	while ((got = read(fd, *text + *bytes, room - *bytes))) {
		if (got < 0 && errno != EINTR)
			return errno;
		*bytes += got > 0 ? (size_t)got : 0;
		if (*bytes > max)
			return EFBIG; /* it has grown */
		if (*bytes == room && !base_grow(text, &room, room + 1, 1))
			return ENOMEM;
	}
	(*text)[*bytes] = 0;
	return 0;
}

char *base_read_file(const char *path, size_t max, size_t *bytes)
{
	/* O_NONBLOCK: opening a pipe must not wait. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), err;
	char *text = NULL;

	if (fd < 0)
		return NULL;
	*bytes = 0;
	err = read_from(fd, max, &text, bytes);
	close(fd);
	if (!err)
		return text;
	free(text);
	errno = err;
	return NULL;
}

void base_secret_warn(const char *component, const char *path)
{
	struct stat st;

	if (!stat(path, &st) && st.st_mode & (S_IRWXO | S_IWGRP))
		base_logf(BASE_WARN, component,
			  "a secret that others can read or change: chmod 600 it path=%s mode=%04o",
			  path, st.st_mode & 07777u);
}

/* Keeps the first descriptor and closes the others. */
static int take_descriptor(struct msghdr *m)
{
	int fd = -1, more;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			memcpy(&more, CMSG_DATA(c) + i * sizeof(int), sizeof(more));
			if (fd < 0)
				fd = more;
			else
				close(more);
		}
	}
	return fd;
}

ssize_t base_receive_fd(int sock, void *to, size_t bytes, int flags, int *fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control;
	struct iovec iov = {to, bytes};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	ssize_t n;

	*fd = -1;
	do
		n = recvmsg(sock, &m, flags | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	*fd = take_descriptor(&m);
	if (!(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return n;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return -EPROTO;
}
