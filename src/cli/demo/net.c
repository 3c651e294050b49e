// SPDX-License-Identifier: Apache-2.0
/* net.c - addresses of the parts, and HTTP requests to them. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli/demo/demo.h"

#define ANSWER_MAX (1u << 20)

/* 0 if the address is free, or errno. */
static int listen_once(const struct addrinfo *at, uint16_t port)
{
	struct sockaddr_storage address;
	int fd, one = 1, err;

	memcpy(&address, at->ai_addr, at->ai_addrlen);
	if (at->ai_family == AF_INET6)
		((struct sockaddr_in6 *)&address)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)&address)->sin_port = htons(port);
	fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	/* Only listen() detects another listener with SO_REUSEADDR. */
	err = bind(fd, (struct sockaddr *)&address, at->ai_addrlen) || listen(fd, 1) ? errno : 0;
	close(fd);
	return err;
}

int cli_demo_free_address(const struct cli_demo *d, const char *option, const char *wish, char *out,
			  size_t bytes)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *at = NULL;
	char host[256];
	uint16_t port;
	int err;

	if (base_parse_address(wish, host, sizeof(host), &port))
		return base_usage(d->cmd, "--%s: '%s' is not ADDR:PORT", option, wish);
	if (!*host)
		strcpy(host, "127.0.0.1");
	err = getaddrinfo(host, NULL, &hints, &at);
	if (err)
		return cli_demo_complain(d, "--%s: %s: %s", option, host, gai_strerror(err));
	err = port ? listen_once(at, port) : EADDRINUSE;
	if (port && err == EADDRINUSE)
		printf("%s is in use; taking a free port\n", wish);
	/* Below Linux's ephemeral ports: a connection could take one of those first. */
	for (int try = 0; err == EADDRINUSE && try < 1000; try++) {
		unsigned int r = 0;

		if (getrandom(&r, sizeof(r), GRND_NONBLOCK) < 0)
			r = (unsigned int)base_now_ns();
		port = (uint16_t)(10000 + r % 22000);
		err = listen_once(at, port);
	}
	freeaddrinfo(at);
	if (err)
		return cli_demo_complain(d, "--%s: %s: %s", option, wish, strerror(err));
	snprintf(out, bytes, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
	return BASE_EXIT_OK;
}

static int connected(const char *address)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *at = NULL;
	struct timeval limit = {.tv_sec = 3};
	char host[256], service[8];
	uint16_t port;
	int fd;

	if (base_parse_address(address, host, sizeof(host), &port))
		return -1;
	snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(host, service, &hints, &at))
		return -1;
	fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) ||
			setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) ||
			connect(fd, at->ai_addr, at->ai_addrlen))) {
		close(fd);
		fd = -1;
	}
	freeaddrinfo(at);
	return fd;
}

bool cli_demo_post(const char *address, const char *path)
{
	char text[600];
	int fd = connected(address);
	ssize_t n = snprintf(text, sizeof(text),
			     "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n", path,
			     address);
	bool taken = false;

	if (fd < 0)
		return false;
	/* One read suffices for a short answer; the connection stays open. */
	if (send(fd, text, (size_t)n, MSG_NOSIGNAL) == n &&
	    (n = recv(fd, text, sizeof(text) - 1, 0)) > 0) {
		text[n] = 0;
		taken = !strncmp(text, "HTTP/1.1 200 ", 13);
	}
	close(fd);
	return taken;
}

char *cli_demo_fetch(const char *address, const char *path)
{
	char request[600], *text = malloc(ANSWER_MAX), *body = NULL;
	int fd = connected(address);
	size_t got = 0;
	ssize_t n;

	n = snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", path,
		     address);
	if (!text || fd < 0 || send(fd, request, (size_t)n, MSG_NOSIGNAL) != n)
		goto out;
	while (got < ANSWER_MAX - 1 && (n = recv(fd, text + got, ANSWER_MAX - 1 - got, 0)) > 0)
		got += (size_t)n;
	text[got] = 0;
	body = strstr(text, "\r\n\r\n");
	if (body && !strncmp(text, "HTTP/1.", 7) && !strncmp(text + strcspn(text, " "), " 200 ", 5))
		memmove(text, body + 4, strlen(body + 4) + 1);
	else
		body = NULL;
out:
	if (fd >= 0)
		close(fd);
	if (!body) {
		free(text);
		return NULL;
	}
	return text;
}
