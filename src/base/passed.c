// SPDX-License-Identifier: Apache-2.0
/*
 * passed.c - descriptors passed by the service manager at start-up (sd_listen_fds(3)): listening
 * sockets, so that clients wait while the program restarts, and files stored in the meantime.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "base/network.h"
#include "base/passed.h"

#if HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */

static struct {
	pid_t pid; /* a process forked later has none of the descriptors */
	int count;
	char **name;
	bool *taken;
} passed;

static void take_over(void)
{
#if HAVE_SYSTEMD
	passed.pid = getpid();
	passed.count = BASE_MAX(sd_listen_fds_with_names(0, &passed.name), 0);
	passed.taken = calloc((size_t)passed.count + 1, sizeof(*passed.taken));
	if (!passed.taken)
		passed.count = 0;
#endif
}

static int count_passed(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, take_over);
	return passed.pid == getpid() ? passed.count : 0;
}

/* Returns an option of a socket, or -1 if fd is not a socket. */
static int socket_option(int fd, int option)
{
	int value = 0;
	socklen_t bytes = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &bytes) ? -1 : value;
}

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr *b)
{
	const struct sockaddr_un *au = (const void *)a, *bu = (const void *)b;
	struct in6_addr mapped[2];
	uint16_t port[2];

	if (a->ss_family != b->sa_family)
		return false;
	if (b->sa_family == AF_UNIX)
		return !strncmp(au->sun_path, bu->sun_path, sizeof(au->sun_path));
	mapped[0] = base_mapped_of(a, &port[0]);
	mapped[1] = base_mapped_of(b, &port[1]);
	return port[0] == port[1] && IN6_ARE_ADDR_EQUAL(&mapped[0], &mapped[1]);
}

static bool get_address(int fd, struct sockaddr_storage *at)
{
	socklen_t bytes = sizeof(*at);

	memset(at, 0, sizeof(*at));
	return !getsockname(fd, (struct sockaddr *)at, &bytes);
}

int base_passed_socket(int type, const struct sockaddr *at)
{
	struct sockaddr_storage its;

	for (int i = 0; i < count_passed(); i++) {
		int fd = FIRST_FD + i;

		if (passed.taken[i] || socket_option(fd, SO_TYPE) != type ||
		    socket_option(fd, SO_ACCEPTCONN) != 1 || !get_address(fd, &its) ||
		    !same_address(&its, at) || fcntl(fd, F_SETFL, O_NONBLOCK))
			continue;
		passed.taken[i] = true;
		return fd;
	}
	return -1;
}

int base_passed_file(const char **name)
{
	for (int i = 0; i < count_passed(); i++) {
		if (passed.taken[i] || socket_option(FIRST_FD + i, SO_TYPE) >= 0)
			continue;
		passed.taken[i] = true;
		*name = passed.name ? passed.name[i] : "";
		return FIRST_FD + i;
	}
	return -1;
}

bool base_is_passed(int fd)
{
	int i = fd - FIRST_FD;

	return i >= 0 && i < count_passed() && passed.taken[i];
}

int base_passed_rest(char *error, size_t bytes)
{
	struct sockaddr_storage at;
	char text[sizeof(struct sockaddr_un)];

	for (int i = 0; i < count_passed(); i++) {
		int fd = FIRST_FD + i;

		if (passed.taken[i] || socket_option(fd, SO_TYPE) < 0 || !get_address(fd, &at))
			continue;
		return base_fail(
			error, bytes, -EINVAL,
			"the service manager passed the socket %s, but no option uses it: the "
			"address and the socket type must match",
			base_print_address((struct sockaddr *)&at, text, sizeof(text)));
	}
	return 0;
}
