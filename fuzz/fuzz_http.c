// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_http.c - what a front that is taken over says to the back of an HTTP server, and a back to
 * its front. An input that begins with "B" is, from there on, a HEAD's payload; any other is all
 * that a channel brings. Whatever it says, the back ends in order: bodies are freed, callers are
 * forgotten, no connection is left, and no handler is reached without its role.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "http/internal.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t begun, ended;

static void must(bool condition)
{
	if (!condition)
		abort();
}

static ssize_t read_stream(void *arg, char *buf, size_t max)
{
	(void)arg;
	memset(buf, 'x', max);
	return (ssize_t)max;
}

static void done_stream(void *arg)
{
	(void)arg;
	ended++;
}

static void on_stream(struct http_request *req, void *arg)
{
	begun++;
	http_add_header(req, "X-Query", http_query(req, "q") ?: "");
	http_reply_stream(req, 200, "text/plain", read_stream, done_stream, arg);
}

static bool see(void *arg, const char *key, const char *value)
{
	*(size_t *)arg += strlen(key) + strlen(value);
	return true;
}

static void on_echo(struct http_request *req, void *arg)
{
	size_t bytes, seen = 0;
	const void *body = http_body(req, &bytes);

	(void)arg;
	http_query_each(req, see, &seen);
	if (seen & 1)
		http_reply_static(req, 200, "text/plain", TOKEN, 16, http_variable(req));
	else
		http_reply(req, 200, "text/plain", body, bytes);
}

static void on_change(struct http_request *req, void *arg)
{
	const char *a = http_header(req, "Authorization");

	(void)arg;
	must(a && !strcmp(a + 7, TOKEN));
	http_reply(req, 200, "text/plain", "changed", 7);
}

static struct http *server(void)
{
	static const struct http_opts o = {
		.listen = "127.0.0.1:0", .max_connections = 4, .threads = 1, .admin_token = TOKEN};
	char error[256];
	struct http *h = http_new(&o, error, sizeof(error));

	base_log_level = BASE_ERROR;
	must(h);
	must(!http_route(h, "GET", "/s", HTTP_READER, on_stream, NULL));
	must(!http_route(h, "POST", "/e/{}", HTTP_READER, on_echo, NULL));
	must(!http_route(h, "POST", "/c", HTTP_ADMIN, on_change, NULL));
	return h;
}

/* Takes the answers. */
static void *drain(void *arg)
{
	const int *fd = arg;
	char to[65536];

	while (recv(*fd, to, sizeof(to), 0) > 0)
		;
	return NULL;
}

static void from_front(const uint8_t *data, size_t size)
{
	static struct http *h;
	struct http_channel ch;
	pthread_t thread;
	int pair[2];

	h = h ?: server();
	begun = ended = 0;
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	ch = (struct http_channel){.http = h, .fd = pair[0]};
	/* A socket takes that much before it is read. */
	must(send(pair[1], data, BASE_MIN(size, 65536), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || !size);
	must(!shutdown(pair[1], SHUT_WR));
	must(!pthread_create(&thread, NULL, drain, &pair[1]));
	http_back_serve(&ch);
	shutdown(pair[0], SHUT_RDWR);
	pthread_join(thread, NULL);
	close(pair[0]);
	close(pair[1]);
	must(begun == ended && !http_connections(h));
}

static void from_back(const uint8_t *data, size_t size)
{
	void *exact = malloc(size ? size : 1);
	struct http_message_answer a;
	size_t seen = 0;

	must(exact);
	memcpy(exact, data, size);
	if (!http_message_head_unpack(exact, size, &a)) {
		for (uint32_t i = 0; i < a.head.fields; i++)
			see(&seen, a.fields[i].name, a.fields[i].value);
		must(seen <= a.head.text && a.body_bytes <= HTTP_PIECE);
		free(a.fields);
	}
	free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && *data == 'B')
		from_back(data + 1, size - 1);
	else
		from_front(data, size);
	return 0;
}
