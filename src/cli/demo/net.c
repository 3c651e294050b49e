// SPDX-License-Identifier: Apache-2.0
/* net.c - chooses addresses for the parts, and sends HTTP requests to them. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/json_read.h"
#include "cli/common/common.h"
#include "cli/demo/demo.h"

#define TIMEOUT_MS 3000l

/* Returns 0 if the address is free, otherwise an errno. */
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
	/* With SO_REUSEADDR, only listen() detects another listener. */
	err = bind(fd, (struct sockaddr *)&address, at->ai_addrlen) || listen(fd, 1) ? errno : 0;
	close(fd);
	return err;
}

int cli_demo_free_address(const char *option, const char *wish, char *out, size_t bytes)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *at = NULL;
	char host[256];
	uint16_t port;
	int err;

	if (base_parse_address(wish, host, sizeof(host), &port))
		return base_usage(&cli_cmd_demo, "--%s: '%s' is not ADDR:PORT", option, wish);
	if (!*host)
		strcpy(host, "127.0.0.1");
	err = getaddrinfo(host, NULL, &hints, &at);
	if (err)
		return base_failure(&cli_cmd_demo, "--%s: %s: %s", option, host, gai_strerror(err));
	err = port ? listen_once(at, port) : EADDRINUSE;
	if (port && err == EADDRINUSE)
		printf("%s is in use; taking a free port\n", wish);
	/*
	 * Choose a port below Linux's ephemeral ports, because a connection could occupy one of
	 * those first.
	 */
	for (int try = 0; err == EADDRINUSE && try < 1000; try++) {
		unsigned int r = 0;

		if (getrandom(&r, sizeof(r), GRND_NONBLOCK) < 0)
			r = (unsigned int)base_now_ns();
		port = (uint16_t)(10000 + r % 22000);
		err = listen_once(at, port);
	}
	freeaddrinfo(at);
	if (err)
		return base_failure(&cli_cmd_demo, "--%s: %s: %s", option, wish, strerror(err));
	snprintf(out, bytes, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
	return BASE_EXIT_OK;
}

char *cli_demo_http(const char *address, const char *path, const char *body)
{
	char *answer, why[256];
	size_t bytes;

	const struct cli_request r = {
		.at = address, .path = path, .body = body, .timeout_ms = TIMEOUT_MS};

	if (cli_http(&r, &answer, &bytes, why, sizeof(why)) == 200)
		return answer;
	free(answer);
	return NULL;
}

json_t *cli_demo_fetch(const char *address, const char *path)
{
	char *text = cli_demo_http(address, path, NULL);
	json_t *j = text ? base_json_read(text, strlen(text), NULL) : NULL;

	free(text);
	return j;
}
