// SPDX-License-Identifier: Apache-2.0
#include "receiver.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUESTS 256
#define BYTES	 (1u << 20)

struct request {
	char *text;
	size_t bytes, head;
};

struct receiver {
	pthread_t thread;
	pthread_mutex_t lock;
	int fd, stop[2];
	char url[64];
	const char *script;
	struct request request[REQUESTS];
	size_t requests;
};

/* Reads one request. Returns false if the client closed the connection or the test is over. */
static bool read_request(struct receiver *r, int fd, struct request *q)
{
	size_t want = 0;

	*q = (struct request){.text = calloc(1, BYTES)};
	for (;;) {
		struct pollfd p[2] = {{.fd = fd, .events = POLLIN},
				      {.fd = r->stop[0], .events = POLLIN}};
		const char *end, *length;
		ssize_t n;

		if (q->head && q->bytes >= q->head + want)
			return true;
		if (poll(p, 2, -1) < 1 || p[1].revents)
			break;
		n = read(fd, q->text + q->bytes, BYTES - 1 - q->bytes);
		if (n < 1)
			break;
		q->bytes += (size_t)n;
		end = q->head ? NULL : strstr(q->text, "\r\n\r\n");
		if (!end)
			continue;
		q->head = (size_t)(end + 4 - q->text);
		length = strcasestr(q->text, "\r\nContent-Length:");
		want = length ? strtoul(length + 17, NULL, 10) : 0;
	}
	free(q->text);
	return false;
}

static void say(int fd, const char *text)
{
	ssize_t n = send(fd, text, strlen(text), MSG_NOSIGNAL);

	(void)n;
}

/* Returns false if the connection is over. */
static bool answer(struct receiver *r, int fd, char what)
{
	struct linger now = {.l_onoff = 1};

	switch (what) {
	case 'o':
		say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
		return true;
	case 'n':
		say(fd, "HTTP/1.1 204 No Content\r\n\r\n");
		return true;
	case 'e':
		say(fd, "HTTP/1.1 500 Internal\r\nContent-Length: 4\r\n\r\nb\033ad");
		return true;
	case 'u':
		say(fd, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
		return true;
	case 'l':
		say(fd, "HTTP/1.1 429 Slow\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n");
		return true;
	case 'b':
		say(fd, "HTTP/1.1 400 Bad\r\nContent-Length: 3\r\n\r\nbad");
		return true;
	case 'm':
		say(fd, "HTTP/1.1 302 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n");
		return true;
	case 'h': {
		struct pollfd p[2] = {{.fd = fd, .events = POLLIN},
				      {.fd = r->stop[0], .events = POLLIN}};

		poll(p, 2, -1); /* until the client gives up */
		return false;
	}
	case 'r':
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		return false;
	case 'g':
		say(fd, "\001\002\003 no HTTP at all\r\n\r\n");
		return false;
	case 'x': {
		static char much[65536];

		say(fd, "HTTP/1.1 200 OK\r\n\r\n");
		memset(much, 'x', sizeof(much));
		while (send(fd, much, sizeof(much), MSG_NOSIGNAL) > 0)
			;
		return false;
	}
	}
	return false;
}

static void serve(struct receiver *r, int fd)
{
	struct request q;
	bool more = true;

	while (more && read_request(r, fd, &q)) {
		char what;

		pthread_mutex_lock(&r->lock);
		what = r->requests < strlen(r->script) ? r->script[r->requests] : 'o';
		if (r->requests < REQUESTS)
			r->request[r->requests++] = q;
		else
			free(q.text);
		pthread_mutex_unlock(&r->lock);
		more = answer(r, fd, what);
	}
	close(fd);
}

static void *receiver_main(void *arg)
{
	struct receiver *r = arg;

	for (;;) {
		struct pollfd p[2] = {{.fd = r->fd, .events = POLLIN},
				      {.fd = r->stop[0], .events = POLLIN}};

		poll(p, 2, -1);
		if (p[1].revents)
			return NULL;
		serve(r, accept(r->fd, NULL, NULL));
	}
}

struct receiver *receiver_new(const char *script)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct receiver *r = calloc(1, sizeof(*r));
	socklen_t n = sizeof(a);

	r->script = script;
	r->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pthread_mutex_init(&r->lock, NULL);
	if (bind(r->fd, (struct sockaddr *)&a, sizeof(a)) || listen(r->fd, 16) ||
	    getsockname(r->fd, (struct sockaddr *)&a, &n) || pipe(r->stop) ||
	    pthread_create(&r->thread, NULL, receiver_main, r))
		abort();
	snprintf(r->url, sizeof(r->url), "http://127.0.0.1:%u/path", ntohs(a.sin_port));
	return r;
}

const char *receiver_url(const struct receiver *r)
{
	return r->url;
}

size_t receiver_requests(struct receiver *r)
{
	size_t n;

	pthread_mutex_lock(&r->lock);
	n = r->requests;
	pthread_mutex_unlock(&r->lock);
	return n;
}

const char *receiver_request(struct receiver *r, size_t i, const char **body, size_t *bytes)
{
	struct request *q;

	pthread_mutex_lock(&r->lock);
	q = &r->request[i];
	pthread_mutex_unlock(&r->lock);
	if (body)
		*body = q->text + q->head;
	if (bytes)
		*bytes = q->bytes - q->head;
	return q->text;
}

void receiver_free(struct receiver *r)
{
	ssize_t n = write(r->stop[1], "x", 1);

	(void)n;
	pthread_join(r->thread, NULL);
	for (size_t i = 0; i < r->requests; i++)
		free(r->request[i].text);
	close(r->fd);
	close(r->stop[0]);
	close(r->stop[1]);
	pthread_mutex_destroy(&r->lock);
	free(r);
}
