// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_answers.c - what receivers answer: of kept traces (OTLP), samples (remote write), alerts and
 * webhooks. An input that begins with "H" is, from there on, all that a receiver on a socket says
 * to a request that is pushed to it; whatever it says, the body is sent, refused or tried again,
 * and counted as exactly one of these. Any other is the protobuf of an answer of OTLP, and of a
 * request.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "export/otlp.h"
#include "export/push.h"

#define ITEMS 5u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
	if (!condition)
		abort();
}

/* ---- the receiver ---- */

static const char fine[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const uint8_t *answer; /* to the next request; NULL: fine */
static size_t answer_bytes;
static int listening;

static void *receive(void *arg)
{
	char request[4096];
	const uint8_t *say;
	size_t bytes;
	ssize_t n;
	int fd;

	(void)arg;
	while ((fd = accept(listening, NULL, NULL)) >= 0) {
		n = recv(fd, request, sizeof(request),
			 0); /* short, and in one piece or two: no matter */
		pthread_mutex_lock(&lock);
		say = answer ? answer : (const uint8_t *)fine;
		bytes = answer ? answer_bytes : sizeof(fine) - 1;
		answer = NULL;
		while (n > 0 && bytes && (n = send(fd, say, bytes, MSG_NOSIGNAL)) > 0) {
			say += n;
			bytes -= (size_t)n;
		}
		pthread_mutex_unlock(&lock);
		shutdown(fd, SHUT_WR);
		while (recv(fd, request, sizeof(request), 0) > 0)
			;
		close(fd);
	}
	return NULL;
}

static uint64_t taken(void *arg, const void *body, size_t bytes, const void *text,
		      size_t text_bytes, char *why, size_t why_bytes)
{
	(void)arg, (void)body, (void)bytes;
	return export_otlp_left_out(text, text_bytes, why, why_bytes);
}

static struct export_push *start(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof(to);
	char url[64], error[200];
	struct export_push *p;
	pthread_t thread;

	listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(listening >= 0 && !bind(listening, (struct sockaddr *)&to, length) &&
	     !getsockname(listening, (struct sockaddr *)&to, &length) && !listen(listening, 16));
	must(!pthread_create(&thread, NULL, receive, NULL));
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", ntohs(to.sin_port));
	setenv("no_proxy", "*", 1);
	p = export_push_new(&(struct export_push_opts){.url = url,
						       .name = "fuzz",
						       .content_type = "text/plain",
						       .pause_min_ns = 1,
						       .pause_max_ns = 1,
						       .taken = taken},
			    error, sizeof(error));
	must(p);
	return p;
}

static void pushed(const uint8_t *data, size_t size)
{
	static struct export_push *p;
	static uint64_t bodies;
	struct export_push_stats s;

	if (!p)
		p = start();
	pthread_mutex_lock(&lock);
	answer = data;
	answer_bytes = size;
	pthread_mutex_unlock(&lock);
	must(!export_push_send(p, strdup("x"), 1, ITEMS));
	bodies++;
	do {
		usleep(20);
		export_push_stats(p, &s);
	} while (s.waiting);
	pthread_mutex_lock(&lock); /* it may still be sending to who has heard enough */
	answer = NULL;
	pthread_mutex_unlock(&lock);
	must(s.sent_items + s.dropped_partial + s.dropped_refused == bodies * ITEMS);
	must(!s.dropped_full && !s.dropped_old && !s.dropped_stopping);
	must(s.retries == s.errors_connect + s.errors_timeout + s.errors_status);
	for (const char *c = s.last_error; *c; c++)
		must(*c >= 32 && *c < 127);
}

/* ---- protobuf ---- */

static void see_trace(void *arg, uint64_t hi, uint64_t lo)
{
	(void)hi, (void)lo;
	++*(size_t *)arg;
}

static void parsed(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	size_t traces = 0;
	char why[160];

	must(copy);
	memcpy(copy, data, size);
	memset(why, 'x', sizeof(why));
	why[0] = '\0';
	must(export_otlp_left_out(copy, size, why, sizeof(why)) <= INT64_MAX);
	must(strnlen(why, sizeof(why)) < sizeof(why));
	export_otlp_traces(copy, size, see_trace, &traces);
	must(traces <= size / 18); /* an id, its tag and its length */
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && *data == 'H')
		pushed(data, size);
	else
		parsed(data, size);
	return 0;
}
