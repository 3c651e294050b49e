// SPDX-License-Identifier: Apache-2.0
/* listen.c - opens the listening socket, TCP or unix, and determines who can reach it */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "base/network.h"
#include "base/passed.h"
#include "http/internal.h"

#define UNIX	  "unix:"
#define UNIX_PATH (sizeof(UNIX) - 1)
#define UNIX_MODE 0666 /* anyone may connect; the kernel identifies the client */

static bool is_unix(const char *at)
{
	return !strncmp(at, UNIX, UNIX_PATH);
}

static int refuse_address(const char *at, char *error, size_t error_bytes)
{
	return base_fail(error, error_bytes, -EINVAL,
			 "cannot listen on '%s': must be an address such as 127.0.0.1:9464 or "
			 "[::1]:9464, or unix:/PATH",
			 at);
}

int http_is_local(const char *listen, char *error, size_t error_bytes)
{
	struct in6_addr v6;
	struct in_addr v4;
	char host[256];
	uint16_t port;

	if (is_unix(listen))
		return listen[UNIX_PATH] ? 1 : refuse_address(listen, error, error_bytes);
	if (base_parse_address(listen, host, sizeof(host), &port))
		return refuse_address(listen, error, error_bytes);
	return !*host || !strcasecmp(host, "localhost") ||
	       (inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127) ||
	       (inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

/* Returns a descriptor or -errno. */
static int listen_tcp(const char *listen_at, char *error, size_t error_bytes)
{
	struct addrinfo *found;
	const char *why = base_resolve(listen_at, "127.0.0.1", SOCK_STREAM, &found);
	int fd = -1, e = 0, one = 1, zero = 0;

	if (why && http_is_local(listen_at, error, error_bytes) < 0) /* malformed */
		return -EINVAL;
	if (why)
		return base_fail(error, error_bytes, -EADDRNOTAVAIL, "cannot listen on %s: %s",
				 listen_at, why);
	for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
		fd = base_passed_socket(SOCK_STREAM, a->ai_addr);
		if (fd >= 0)
			break;
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		e = errno;
		if (fd < 0)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (a->ai_family == AF_INET6) /* [::] serves IPv4 as well */
			setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
		if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, SOMAXCONN))
			continue;
		e = errno;
		close(fd);
		fd = -1;
	}
	freeaddrinfo(found);
	return fd >= 0 ? fd
		       : base_fail(error, error_bytes, -e, "cannot listen on %s: %s", listen_at,
				   strerror(e));
}

static int print_address(struct http *h)
{
	struct sockaddr_storage ss = {0};
	socklen_t bytes = sizeof(ss);

	if (getsockname(h->listen_fd, (struct sockaddr *)&ss, &bytes))
		return -errno;
	base_print_address((struct sockaddr *)&ss, h->address, sizeof(h->address));
	h->local = base_is_loopback((struct sockaddr *)&ss);
	return 0;
}

int http_listen(struct http *h, const char *at, char *error, size_t error_bytes)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct stat st;
	int e;

	if (!is_unix(at)) {
		e = h->listen_fd = listen_tcp(at, error, error_bytes);
		if (e < 0 || !(e = print_address(h)))
			return BASE_MIN(e, 0);
		close(h->listen_fd);
		return base_fail(error, error_bytes, e, "cannot listen on %s: %s", at,
				 strerror(-e));
	}
	h->local = h->is_unix = true;
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", at + UNIX_PATH);
	h->listen_fd = base_passed_socket(SOCK_STREAM, (struct sockaddr *)&un);
	if (h->listen_fd < 0)
		h->listen_fd = base_listen_unix(at + UNIX_PATH, SOCK_STREAM, UNIX_MODE, error,
						error_bytes);
	if (h->listen_fd < 0)
		return h->listen_fd;
	snprintf(h->address, sizeof(h->address), "%s", at);
	if (!base_is_passed(h->listen_fd) && !lstat(at + UNIX_PATH, &st)) {
		h->dev = st.st_dev;
		h->ino = st.st_ino;
	}
	return 0;
}

void http_unlisten(struct http *h)
{
	const char *path = h->address + UNIX_PATH;
	struct stat st;

	if (!h->is_unix) {
		close(h->listen_fd);
		return;
	}
	/* Only if the file still belongs to this server. */
	if (!lstat(path, &st) && st.st_dev == h->dev && st.st_ino == h->ino)
		unlink(path);
	base_unlisten_unix(h->listen_fd);
}

/*
 * Only an accepted connection has the listener's address as its own address; a socket pair and the
 * connecting end do not.
 */
bool http_listen_accepted(const struct http *h, int fd)
{
	struct sockaddr_un ours = {0}, theirs = {0};
	socklen_t n = sizeof(ours), m = sizeof(theirs), k = sizeof(int);
	int accepts = 1;

	return !getsockname(h->listen_fd, (struct sockaddr *)&ours, &n) &&
	       !getsockname(fd, (struct sockaddr *)&theirs, &m) && n == m &&
	       ours.sun_family == AF_UNIX && !memcmp(&ours, &theirs, n) &&
	       !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &k) && !accepts;
}
