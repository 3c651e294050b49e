// SPDX-License-Identifier: Apache-2.0
#include "base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *base_secret_path(const char *name, const char *beside)
{
	static const char prefix[] = "credential:";
	const char *folder = getenv("CREDENTIALS_DIRECTORY"), *slash = strrchr(beside, '/');
	const char *in = name + sizeof(prefix) - 1;
	char *path;
	int n;

	if (!strncmp(name, prefix, sizeof(prefix) - 1) && folder && !strchr(in, '/'))
		n = asprintf(&path, "%s/%s", folder, in);
	else if (*name == '/' || !slash)
		n = asprintf(&path, "%s", name);
	else
		n = asprintf(&path, "%.*s/%s", (int)(slash - beside), beside, name);
	return n < 0 ? NULL : path;
}

ssize_t base_secret_read(const char *path, void *to, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY), err = 0;
	char *text = to, more;
	size_t n = 0;
	ssize_t r;

	if (fd < 0)
		return -errno;
	do {
		r = n < room ? read(fd, text + n, room - n) : read(fd, &more, 1);
		if (r < 0 && errno != EINTR)
			err = -errno;
		else if (r > 0 && n == room)
			err = -EINVAL;
		else if (r > 0)
			n += (size_t)r;
	} while (r && !err);
	close(fd);
	while (n && text[n - 1] && strchr(BASE_SECRET_SPACE, text[n - 1]))
		n--;
	return err ? err : (ssize_t)n;
}

ssize_t base_secret_shared(const char *path, uint8_t secret[BASE_SHARED_MAX])
{
	const ssize_t n = base_secret_read(path, secret, BASE_SHARED_MAX);

	return n >= 0 && n < (ssize_t)BASE_SHARED_MIN ? -EINVAL : n;
}
