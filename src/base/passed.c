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

static struct {
	pid_t pid; /* a process forked later has none of the descriptors */
	int count;
	char **name;
	bool *taken;
} passed;

static void take_over(void)
{
	passed.pid = getpid();
	passed.count = BASE_MAX(sd_listen_fds_with_names(0, &passed.name), 0);
	passed.taken = calloc((size_t)passed.count + 1, sizeof(*passed.taken));
	if (!passed.taken)
		passed.count = 0;
}

static int count_passed(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, take_over);
	return passed.pid == getpid() ? passed.count : 0;
}

static bool is_socket(int fd)
{
	return sd_is_socket(fd, AF_UNSPEC, 0, -1) > 0;
}

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
	const struct sockaddr_un *au = (const void *)a, *bu = (const void *)b;

	if (a->ss_family != b->sa_family)
		return false;
	if (b->sa_family == AF_INET)
		return a4->sin_port == b4->sin_port && a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	if (b->sa_family == AF_INET6)
		return a6->sin6_port == b6->sin6_port &&
		       IN6_ARE_ADDR_EQUAL(&a6->sin6_addr, &b6->sin6_addr);
	return b->sa_family == AF_UNIX &&
	       !strncmp(au->sun_path, bu->sun_path, sizeof(au->sun_path));
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
		int fd = SD_LISTEN_FDS_START + i;

		if (passed.taken[i] || sd_is_socket(fd, at->sa_family, type, 1) <= 0 ||
		    !get_address(fd, &its) || !same_address(&its, at) ||
		    fcntl(fd, F_SETFL, O_NONBLOCK))
			continue;
		passed.taken[i] = true;
		return fd;
	}
	return -1;
}

int base_passed_file(const char **name)
{
	for (int i = 0; i < count_passed(); i++) {
		if (passed.taken[i] || is_socket(SD_LISTEN_FDS_START + i))
			continue;
		passed.taken[i] = true;
		*name = passed.name ? passed.name[i] : "";
		return SD_LISTEN_FDS_START + i;
	}
	return -1;
}

bool base_is_passed(int fd)
{
	int i = fd - SD_LISTEN_FDS_START;

	return i >= 0 && i < count_passed() && passed.taken[i];
}

int base_passed_rest(char *error, size_t bytes)
{
	struct sockaddr_storage at;
	char text[sizeof(struct sockaddr_un)];

	for (int i = 0; i < count_passed(); i++) {
		int fd = SD_LISTEN_FDS_START + i;

		if (passed.taken[i] || !is_socket(fd) || !get_address(fd, &at))
			continue;
		return base_fail(
			error, bytes, -EINVAL,
			"the service manager passed the socket %s, but no option uses it: the "
			"address and the socket type must match",
			base_print_address((struct sockaddr *)&at, text, sizeof(text)));
	}
	return 0;
}

#else

int base_passed_socket(int type, const struct sockaddr *at)
{
	(void)type, (void)at;
	return -1;
}

int base_passed_file(const char **name)
{
	(void)name;
	return -1;
}

bool base_is_passed(int fd)
{
	(void)fd;
	return false;
}

int base_passed_rest(char *error, size_t bytes)
{
	(void)error, (void)bytes;
	return 0;
}

#endif
