// SPDX-License-Identifier: Apache-2.0
/*
 * file.c - kernel files that stay open. pread() at offset 0 makes the kernel generate the contents
 * again, and saves the time for looking up the path, opening and closing, which is most of the cost
 * of reading a small file.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/grow.h"
#include "source/host/internal.h"

#define ROOM_FIRST 4096u
/*
 * A read of a seq_file returns less than 4096 bytes only if the next record does not fit. All
 * records of the files read here are shorter than 2048 bytes, so a shorter result than that means
 * end of file.
 */
#define SURELY_ALL 2048u

void host_file_open(struct host *h, struct host_file *f, const char *path)
{
	char full[PATH_MAX];

	*f = (struct host_file){.fd = -1};
	if (snprintf(full, sizeof(full), "%s%s", h->root, path) >= (int)sizeof(full))
		return;
	f->fd = open(full, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (f->fd >= 0) {
		f->next = h->files;
		h->files = f;
	} else if (errno != ENOENT) {
		h->counts.errors++;
		base_logf(BASE_WARN, HOST_LOG, "cannot open path=%s error=%s", full,
			  strerror(errno));
	}
}

void host_file_close(struct host_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	free(f->now);
	free(f->before);
	*f = (struct host_file){.fd = -1};
}

ssize_t host_pread(int fd, char *to, size_t bytes)
{
	size_t n = 0;

	for (;;) {
		ssize_t got = pread(fd, to + n, bytes - n, (off_t)n);

		if (got < 0)
			return -errno;
		n += (size_t)got;
		if (!got || (n == (size_t)got && n < SURELY_ALL))
			return (ssize_t)n;
		if (n == bytes)
			return -EFBIG;
	}
}

bool host_file_read(struct host *h, struct host_file *f)
{
	ssize_t n = -EFBIG;
	char *before = f->now;
	size_t before_bytes = f->bytes, before_room = f->room;

	if (f->fd < 0)
		return false;
	f->now = f->before;
	f->room = f->before_room;
	f->before = before;
	f->before_room = before_room;
	for (size_t want = BASE_MAX(f->room, (size_t)ROOM_FIRST);
	     n == -EFBIG && want <= HOST_FILE_MAX; want *= 4)
		n = base_grow(&f->now, &f->room, want, 1) ? host_pread(f->fd, f->now, f->room)
							  : -ENOMEM;
	f->bytes = n < 0 ? 0 : (size_t)n;
	if (n < 0) {
		h->counts.errors++;
		base_log_limited(BASE_WARN, HOST_LOG, "cannot read a file of the host error=%s",
				 strerror((int)-n));
		return false;
	}
	return !f->bytes || f->bytes != before_bytes || memcmp(f->now, before, before_bytes) != 0;
}

ssize_t host_read_at(int folder, const char *path, char *to, size_t bytes)
{
	int fd = openat(folder, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = host_pread(fd, to, bytes);
	close(fd);
	return n;
}

struct host_text host_value_at(int folder, const char *path, char *buffer, size_t bytes)
{
	ssize_t n = host_read_at(folder, path, buffer, bytes);
	struct host_text t = host_text(buffer, n > 0 ? (size_t)n : 0), line = t;

	if (!host_line(&t, &line))
		return line;
	host_blanks(&line);
	while (line.end > line.p && (line.end[-1] == ' ' || line.end[-1] == '\t'))
		line.end--;
	return line;
}

int host_folder(const struct host *h, const char *path)
{
	char full[PATH_MAX];
	int fd;

	if (snprintf(full, sizeof(full), "%s%s", h->root, path) >= (int)sizeof(full))
		return -ENAMETOOLONG;
	fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
