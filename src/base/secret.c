// SPDX-License-Identifier: Apache-2.0
#include "base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

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
