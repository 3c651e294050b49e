// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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
			return EFBIG; /* the file has grown */
		if (*bytes == room && !base_grow(text, &room, room + 1, 1))
			return ENOMEM;
	}
	(*text)[*bytes] = 0;
	return 0;
}

char *base_read_file(const char *path, size_t max, size_t *bytes)
{
	/* O_NONBLOCK: opening a pipe must not block. */
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

int base_open_locked(const char *path)
{
	/* O_NONBLOCK: opening a pipe must not block. */
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600), err;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode))
		err = -EINVAL;
	else if (st.st_uid != geteuid())
		err = -EPERM;
	else if (!flock(fd, LOCK_EX | LOCK_NB) && !fchmod(fd, 0600))
		return fd;
	else
		err = errno == EWOULDBLOCK ? -EBUSY : -errno;
	close(fd);
	return err;
}

const char *base_open_locked_error(int err)
{
	switch (err) {
	case -EBUSY:
		return "another process is using it";
	case -EPERM:
		return "it belongs to another user; remove it, or choose another file";
	case -ELOOP:
		return "it is a symbolic link; remove it, or specify the file that it points to";
	default:
		return strerror(-err);
	}
}

FILE *base_create_file(const char *path)
{
	FILE *f;
	int fd;

	unlink(path); /* left by a killed process */
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (fd >= 0 && !f)
		close(fd);
	return f;
}

void base_secret_warn(const char *component, const char *path)
{
	struct stat st;

	if (!stat(path, &st) && st.st_mode & (S_IRWXO | S_IWGRP))
		base_logf(
			BASE_WARN, component,
			"other users can read or change this secret: run chmod 600 path=%s mode=%04o",
			path, st.st_mode & 07777u);
}
