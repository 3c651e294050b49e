// SPDX-License-Identifier: Apache-2.0
/*
 * test_front.c - the two processes of an HTTP server do not trust each other: a violation of a rule
 * of message.h ends the channel, and nothing else.
 */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/folder.h"
#include "http/front.h"

/* ---- a back, of which the test is the front ---- */

static int begun, ended, forgotten, asked;

static ssize_t read_stream(void *arg, char *buf, size_t max)
{
	(void)arg;
	memset(buf, 'x', max);
	return (ssize_t)max;
}

static void done_stream(void *arg)
{
	(void)arg;
	__atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
}

static void on_stream(struct http_request *req, void *arg)
{
	__atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
	http_reply_stream(req, 200, "text/plain", read_stream, done_stream, arg);
}

static void on_change(struct http_request *req, void *arg)
{
	(void)arg;
	__atomic_fetch_add(&asked, 1, __ATOMIC_RELAXED);
	http_reply(req, 200, "text/plain", "changed", 7);
}

/* "long" works until its budget is used up; spent: the reason. */
static int spent;

static void on_costly(struct http_request *req, void *arg)
{
	const char *how = http_variable(req);

	__atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
	if (!strcmp(how, "stream")) {
		http_reply_stream_costly(req, 200, "text/plain", read_stream, done_stream, arg);
		return;
	}
	while (!strcmp(how, "long") && base_budget_spend(http_budget(req), 0))
		;
	__atomic_store_n(&spent, http_budget(req)->err, __ATOMIC_RELAXED);
	if (!http_over_budget(req))
		http_reply(req, 200, "text/plain", "done", 4);
	__atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
}

static void forget(void *arg, struct http_caller *c)
{
	(void)arg, (void)c;
	__atomic_fetch_add(&forgotten, 1, __ATOMIC_RELAXED);
}

static uint64_t query_ns = 3600000000000;

struct back {
	struct http *http;
	struct http_channel ch;
	pthread_t thread;
	int fd, control, result;
};

static void *serve(void *arg)
{
	struct back *b = arg;

	b->result = http_back_serve(&b->ch);
	shutdown(b->ch.fd, SHUT_RDWR);
	return NULL;
}

static struct back *back_new(const char *listen)
{
	const struct http_opts o = {.listen = listen,
				    .max_connections = 4,
				    .threads = 1,
				    .query_concurrency = 1,
				    .query_timeout_ns = query_ns,
				    .forget = forget};
	struct back *b = calloc(1, sizeof(*b));
	char error[256] = "";
	int pair[2];

	b->http = http_new(&o, error, sizeof(error));
	if (!b->http)
		fail_msg("%s", error);
	assert_int_equal(http_route(b->http, "GET", "/stream", HTTP_READER, on_stream, NULL), 0);
	assert_int_equal(http_route(b->http, "POST", "/change", HTTP_ADMIN, on_change, NULL), 0);
	assert_int_equal(
		http_route_costly(b->http, "GET", "/costly/{}", HTTP_READER, on_costly, NULL), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	b->http->control = pair[0];
	b->control = pair[1];
	assert_int_equal(http_queue_start(b->http), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	b->ch = (struct http_channel){.http = b->http, .fd = pair[0]};
	b->fd = pair[1];
	assert_int_equal(pthread_create(&b->thread, NULL, serve, b), 0);
	begun = ended = forgotten = asked = 0;
	return b;
}

/* Returns the result of the channel, which the test may have left open. */
static int back_free(struct back *b)
{
	int result;

	shutdown(b->fd, SHUT_WR);
	pthread_join(b->thread, NULL);
	http_queue_stop(b->http);
	assert_int_equal(begun, ended);
	close(b->http->control);
	close(b->control);
	assert_int_equal(http_connections(b->http), 0);
	result = b->result;
	close(b->fd);
	close(b->ch.fd);
	http_free(b->http);
	free(b);
	return result;
}

static void say(struct back *b, uint32_t type, uint32_t slot, uint32_t arg, const void *payload,
		size_t bytes)
{
	const struct http_message m = {type, (uint32_t)bytes, slot, arg};
	int err = http_message_send(b->fd, m, payload, bytes, NULL, 0, NULL, 0);

	assert_true(!err || err == -EPIPE); /* the back may have closed the channel */
}

/* Packs a request without a body; more: bytes that do not belong there. */
static size_t pack(char *to, const char *method, const char *path, const char *fields, size_t bytes,
		   uint32_t count)
{
	struct http_message_ask head = {.fields = count};
	size_t at = sizeof(head);

	at = (size_t)(stpcpy(to + at, method) - to) + 1;
	at = (size_t)(stpcpy(to + at, path) - to) + 1;
	memcpy(to + at, fields, bytes);
	at += bytes;
	head.text = (uint32_t)(at - sizeof(head));
	memcpy(to, &head, sizeof(head));
	return at;
}

static void ask(struct back *b, uint32_t slot, const char *method, const char *path)
{
	char payload[512];

	say(b, HTTP_ASK, slot, 1, payload, pack(payload, method, path, "", 0, 0));
}

/* Returns the status of the next HEAD; 0: none. */
static unsigned int status(struct back *b)
{
	char payload[4096];
	struct http_message_answer a;
	struct http_message m;
	unsigned int is;

	if (http_message_receive(b->fd, &m, NULL) || m.type != HTTP_HEAD ||
	    m.bytes > sizeof(payload) || http_message_take(b->fd, payload, m.bytes))
		return 0;
	assert_int_equal(http_message_head_unpack(payload, m.bytes, &a), 0);
	is = a.head.status;
	free(a.fields);
	return is;
}

static void requests_and_bodies_are_served(void **state)
{
	struct back *b = back_new("127.0.0.1:0");
	char piece[100];
	struct http_message m;

	(void)state;
	say(b, HTTP_OPEN, 3, 0, NULL, 0);
	ask(b, 3, "GET", "/stream");
	assert_int_equal(status(b), 200);
	for (int i = 0; i < 5; i++) {
		say(b, HTTP_READ, 3, sizeof(piece), NULL, 0);
		assert_int_equal(http_message_receive(b->fd, &m, NULL), 0);
		assert_int_equal(m.type, HTTP_DATA);
		assert_int_equal(m.bytes, sizeof(piece));
		assert_int_equal(http_message_take(b->fd, piece, m.bytes), 0);
	}
	say(b, HTTP_DONE, 3, 77, NULL, 0); /* of an earlier request */
	say(b, HTTP_READ, 3, 1, NULL, 0);
	assert_int_equal(http_message_receive(b->fd, &m, NULL), 0);
	assert_int_equal(http_message_take(b->fd, piece, m.bytes), 0);
	ask(b, 3, "GET", "/nothing"); /* ends the body */
	assert_int_equal(status(b), 404);
	say(b, HTTP_REFUSED, HTTP_REFUSED_EVICTED, 5, NULL, 0);
	say(b, HTTP_CLOSE, 3, 0, NULL, 0);
	say(b, HTTP_OPEN, 0, 0, NULL, 0);
	ask(b, 0, "GET", "/stream");
	assert_int_equal(status(b), 200);
	assert_int_equal(http_refused(b->http, HTTP_REFUSED_EVICTED), 5);
	assert_int_equal(back_free(b), 0);
	assert_int_equal(ended, 2);
}

static uint32_t answer_type(struct back *b)
{
	char piece[HTTP_PIECE];
	struct http_message m;

	assert_int_equal(http_message_receive(b->fd, &m, NULL), 0);
	assert_true(m.bytes <= sizeof(piece));
	assert_int_equal(http_message_take(b->fd, piece, m.bytes), 0);
	return m.type;
}

/* Waits until the back reports that an answer, or its next piece, is ready, and asks for it. */
static void await(struct back *b, uint32_t slot)
{
	struct http_message m;

	say(b, HTTP_AWAIT, slot, 1, NULL, 0);
	assert_int_equal(http_message_receive(b->control, &m, NULL), 0);
	assert_int_equal(m.type, HTTP_WAKE);
	assert_int_equal(m.slot, slot);
	assert_int_equal(m.arg, 1);
	say(b, HTTP_TAKE, slot, 1, NULL, 0);
}

static void costly_requests_delay_no_other(void **state)
{
	struct back *b = back_new("127.0.0.1:0");

	(void)state;
	for (uint32_t slot = 0; slot < 4; slot++)
		say(b, HTTP_OPEN, slot, 0, NULL, 0);
	ask(b, 0, "GET", "/costly/long");
	assert_int_equal(answer_type(b), HTTP_LATER);
	ask(b, 1, "GET", "/costly/short");
	assert_int_equal(answer_type(b), HTTP_LATER);
	ask(b, 2, "GET", "/costly/stream");
	assert_int_equal(answer_type(b), HTTP_LATER);
	ask(b, 3, "GET", "/nothing");
	assert_int_equal(status(b), 404);
	say(b, HTTP_TAKE, 1, 1, NULL, 0); /* not ready yet */
	assert_int_equal(answer_type(b), HTTP_LATER);
	say(b, HTTP_AWAIT, 0, 1, NULL, 0);
	while (!__atomic_load_n(&begun, __ATOMIC_RELAXED))
		usleep(1000);
	say(b, HTTP_DONE, 0, 1, NULL, 0); /* the client has left */
	await(b, 1);
	assert_int_equal(status(b), 200);
	assert_int_equal(http_refused(b->http, HTTP_REFUSED_LEFT), 1);
	await(b, 2);
	assert_int_equal(status(b), 200);
	for (int i = 0; i < 3; i++) {
		say(b, HTTP_READ, 2, 100, NULL, 0);
		assert_int_equal(answer_type(b), HTTP_LATER);
		await(b, 2);
		assert_int_equal(answer_type(b), HTTP_DATA);
	}
	assert_int_equal(back_free(b), 0);
	assert_int_equal(ended, 3);
}

static void costly_requests_end_with_client_or_time(void **state)
{
	struct back *b = back_new("127.0.0.1:0");

	(void)state;
	say(b, HTTP_OPEN, 0, 0, NULL, 0);
	say(b, HTTP_OPEN, 1, 0, NULL, 0);
	ask(b, 0, "GET", "/costly/long");
	assert_int_equal(answer_type(b), HTTP_LATER);
	while (!__atomic_load_n(&begun, __ATOMIC_RELAXED))
		usleep(1000);
	ask(b, 1, "GET", "/costly/long"); /* has not begun to run */
	assert_int_equal(answer_type(b), HTTP_LATER);
	assert_int_equal(back_free(b), 0);
	assert_int_equal(spent, -ECANCELED);
	assert_int_equal(begun, 1);

	query_ns = 10000000;
	b = back_new("127.0.0.1:0");
	query_ns = 3600000000000;
	say(b, HTTP_OPEN, 0, 0, NULL, 0);
	ask(b, 0, "GET", "/costly/long");
	assert_int_equal(answer_type(b), HTTP_LATER);
	await(b, 0);
	assert_int_equal(status(b), 503);
	assert_int_equal(http_refused(b->http, HTTP_REFUSED_TIME), 1);
	assert_int_equal(back_free(b), 0);
}

/* The back decides roles: a compromised front asks for more, and is refused. */
static void a_front_raises_no_role(void **state)
{
	static const char token[] = "hAuthorization\0Bearer 0123456789abcdef";
	struct back *b = back_new("127.0.0.1:0");
	char payload[512];

	(void)state;
	say(b, HTTP_OPEN, 0, 0, NULL, 0);
	ask(b, 0, "POST", "/change");
	assert_int_equal(status(b), 401);
	say(b, HTTP_ASK, 0, 2, payload, pack(payload, "POST", "/change", token, sizeof(token), 1));
	assert_int_equal(status(b), 401);
	assert_int_equal(back_free(b), 0);
	assert_int_equal(asked, 0);
}

static void callers_are_those_the_kernel_names(void **state)
{
	char folder[] = "/tmp/sl-front-XXXXXX", at[64];
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const struct http_message open = {.type = HTTP_OPEN};
	int pair[2], client, server;
	struct back *b;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(at, sizeof(at), "unix:%s/http", folder);
	strcpy(to.sun_path, at + 5);
	/* The connection of this process, which may make changes: the server's own user. */
	b = back_new(at);
	client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(client, (struct sockaddr *)&to, sizeof(to)), 0);
	server = accept4(b->http->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(server >= 0);
	assert_int_equal(http_message_send_fds(b->fd, &open, sizeof(open), &server, 1), 0);
	ask(b, 0, "POST", "/change");
	assert_int_equal(status(b), 200);
	assert_int_equal(back_free(b), 0);
	assert_int_equal(forgotten, 1);
	close(server);

	/* Descriptors that the kernel attributes to this user, but which are not connections. */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	for (int i = 0; i < 4; i++) {
		const int which[] = {pair[0], client, -1, -1};
		int fd = which[i];

		b = back_new(at);
		if (i == 2)
			fd = b->http->listen_fd;
		assert_int_equal(http_message_send_fds(b->fd, &open, sizeof(open), &fd, fd >= 0),
				 0);
		ask(b, 0, "POST", "/change");
		assert_int_equal(status(b), 0);
		assert_int_equal(back_free(b), -EPROTO);
		assert_int_equal(asked, 0);
	}
	close(pair[0]);
	close(pair[1]);
	close(client);
	rmdir(folder);
}

/* Each case ends the channel, and frees everything it held. */
static void a_back_survives_hostile_fronts(void **state)
{
	static const char two[] = "hA\0b\0hC\0d";
	static const struct {
		struct http_message m;
		struct http_message_ask ask;
		const char *text;
		size_t bytes;
	} bad[] = {
		{{.type = 0}, {0}, NULL, 0},
		{{.type = HTTP_HEAD}, {0}, NULL, 0},
		{{.type = ~0u}, {0}, NULL, 0},
		{{HTTP_OPEN, 0, 1, 0}, {0}, NULL, 0}, /* it is open */
		{{HTTP_OPEN, 0, 9, 0}, {0}, NULL, 0}, /* beyond the last slot */
		{{HTTP_OPEN, 0, ~0u, 0}, {0}, NULL, 0},
		{{HTTP_CLOSE, 0, 0, 0}, {0}, NULL, 0},
		{{HTTP_CLOSE, 0, ~0u, 0}, {0}, NULL, 0},
		{{HTTP_READ, 0, 0, 1}, {0}, NULL, 0},
		{{HTTP_READ, 0, 1, 0}, {0}, NULL, 0},
		{{HTTP_READ, 0, 1, HTTP_PIECE + 1}, {0}, NULL, 0},
		{{HTTP_READ, 0, ~0u, 1}, {0}, NULL, 0},
		{{HTTP_TAKE, 0, 1, 1}, {0}, NULL, 0}, /* there is no request */
		{{HTTP_AWAIT, 0, 1, 1}, {0}, NULL, 0},
		{{HTTP_TAKE, 0, 2, 7}, {0}, NULL, 0}, /* the serial is of another request */
		{{HTTP_AWAIT, 0, 2, 7}, {0}, NULL, 0},
		{{HTTP_AWAIT, 0, ~0u, 1}, {0}, NULL, 0},
		{{HTTP_LATER, 0, 2, 1}, {0}, NULL, 0},
		{{HTTP_REFUSED, 0, HTTP_REFUSALS, 1}, {0}, NULL, 0},
		{{HTTP_REFUSED, 0, ~0u, 1}, {0}, NULL, 0},
		{{HTTP_ASK, ~0u, 1, 1}, {0}, NULL, 0},
		{{HTTP_ASK, 1, 1, 1}, {0}, "", 1},
		{{HTTP_ASK, 0, 0, 1}, {0, 4, 0, 0}, "G\0/", 4}, /* not open */
		{{HTTP_ASK, 0, 1, 1}, {0, 0, 0, 0}, NULL, 0},
		{{HTTP_ASK, 0, 1, 1}, {0, 3, 0, 0}, "GET", 3},
		{{HTTP_ASK, 0, 1, 1}, {0, 5, 0, 0}, "GET\0/", 5},
		{{HTTP_ASK, 0, 1, 1}, {1, 6, 0, 0}, "GET\0/", 6},
		{{HTTP_ASK, 0, 1, 1}, {~0u, 6, 0, 0}, "GET\0/", 6},
		{{HTTP_ASK, 0, 1, 1}, {0, ~0u, 0, 0}, "GET\0/", 6},
		{{HTTP_ASK, 0, 1, 1}, {0, 6, ~0u, 0}, "GET\0/", 6},
		{{HTTP_ASK, 0, 1, 1}, {0, 6, 1, 0}, "GET\0/", 6},
		{{HTTP_ASK, 0, 1, 1}, {0, 7, 0, 0}, "GET\0/\0h", 7},
		{{HTTP_ASK, 0, 1, 1}, {2, 9, 0, 0}, "GET\0/\0hA", 9},
		{{HTTP_ASK, 0, 1, 1}, {1, 11, 0, 0}, "GET\0/\0xA\0b", 11},
	};
	struct http_message_request r;
	char payload[256];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct back *b = back_new("127.0.0.1:0");
		struct http_message m = bad[i].m;
		bool asks = bad[i].text && !m.bytes;

		say(b, HTTP_OPEN, 1, 0, NULL, 0);
		say(b, HTTP_OPEN, 2, 0, NULL, 0);
		ask(b, 2, "GET", "/stream");
		assert_int_equal(status(b), 200);
		m.bytes = asks ? (uint32_t)(sizeof(bad[i].ask) + bad[i].bytes) : m.bytes;
		assert_int_equal(http_message_send(b->fd, m, &bad[i].ask,
						   asks ? sizeof(bad[i].ask) : 0, bad[i].text,
						   bad[i].bytes, NULL, 0),
				 0);
		if (back_free(b) != -EPROTO)
			fail_msg("message %zu was taken", i);
		assert_int_equal(ended, 1);
	}
	/* The same request truncated anywhere, and then complete. */
	for (size_t n = pack(payload, "GET", "/", two, sizeof(two), 2), i = 0; i < n; i++) {
		char *exact = malloc(i ?: 1);

		memcpy(exact, payload, i);
		assert_int_equal(http_message_ask_unpack(exact, i, 10, &r), -EPROTO);
		free(exact);
	}
	assert_int_equal(http_message_ask_unpack(
				 payload, pack(payload, "GET", "/", two, sizeof(two), 2), 10, &r),
			 0);
	assert_string_equal(r.fields[1].name, "C");
	assert_string_equal(r.fields[1].value, "d");
	free(r.fields);
}

/* ---- a front, of which the test is the back ---- */

struct face {
	pid_t pid;
	int control, channel, client;
};

static struct face face_new(void)
{
	struct http_front_config c = {
		.threads = 1, .max_connections = 4, .timeout_s = 600, .max_body = 1000};
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t n = sizeof(at);
	int control[2], channel[2], fds[3];
	struct http_message m;
	struct face f;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(fds[0], (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fds[0], 5), 0);
	assert_int_equal(getsockname(fds[0], (struct sockaddr *)&at, &n), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel), 0);
	fds[1] = control[1];
	fds[2] = channel[1];
	f.pid = fork();
	assert_true(f.pid >= 0);
	if (!f.pid) {
		close(control[0]);
		close(channel[0]);
		http_front_serve(&c, fds, 3, false);
	}
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	f.control = control[0];
	f.channel = channel[0];
	assert_int_equal(http_message_receive(f.control, &m, NULL), 0);
	assert_int_equal(m.type, HTTP_READY);
	f.client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(f.client, (struct sockaddr *)&at, sizeof(at)), 0);
	return f;
}

/* It ended in order. */
static void face_free(struct face *f)
{
	int s;

	close(f->control);
	close(f->channel);
	assert_int_equal(waitpid(f->pid, &s, 0), f->pid);
	assert_true(WIFEXITED(s) && !WEXITSTATUS(s));
	close(f->client);
}

static void take_ask(const struct face *f)
{
	static const char request[] = "GET /x?a=b&c HTTP/1.1\r\nHost: localhost\r\n\r\n";
	struct http_message_request r;
	struct http_message m;
	char payload[4096];

	assert_int_equal(send(f->client, request, sizeof(request) - 1, MSG_NOSIGNAL),
			 sizeof(request) - 1);
	assert_int_equal(http_message_receive(f->channel, &m, NULL), 0);
	assert_int_equal(m.type, HTTP_OPEN);
	assert_int_equal(http_message_receive(f->channel, &m, NULL), 0);
	assert_int_equal(m.type, HTTP_ASK);
	assert_int_equal(http_message_take(f->channel, payload, m.bytes), 0);
	assert_int_equal(http_message_ask_unpack(payload, m.bytes, 1000, &r), 0);
	assert_string_equal(r.path, "/x");
	assert_int_equal(r.field_count, 3);
	assert_int_equal(r.fields[1].kind, HTTP_FIELD_QUERY);
	assert_int_equal(r.fields[2].kind, HTTP_FIELD_BARE);
	free(r.fields);
}

static void a_front_survives_hostile_backs(void **state)
{
	static const struct {
		uint32_t type, bytes;
		struct http_message_head head;
		const char *text;
		size_t text_bytes;
	} bad[] = {
		{HTTP_DATA, 0, {0}, "", 0},
		{HTTP_HEAD, ~0u, {0}, "", 0},
		{HTTP_HEAD, 3, {0}, "", 0},
		{HTTP_HEAD, 0, {200, 0, 0, 0, 7}, "", 0},
		{HTTP_HEAD, 0, {200, 0, ~0u, 0, 7}, "1234567", 7},
		{HTTP_HEAD, 0, {200, ~0u, 4, 0, 3}, "a\0b\0xyz", 7},
		{HTTP_HEAD, 0, {200, 2, 4, 0, 3}, "a\0b\0xyz", 7},
		{HTTP_HEAD, 0, {200, 1, 3, 0, 4}, "a\0b\0xyz", 7},
		{HTTP_HEAD, 0, {7, 1, 4, 0, 3}, "a\0b\0xyz", 7},
		{HTTP_HEAD, 0, {200, 1, 4, HTTP_HEAD_MORE, 2}, "a\0b\0xyz", 7},
	};
	char got[256];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct face f = face_new();
		struct http_message m = {.type = bad[i].type, .bytes = bad[i].bytes};

		take_ask(&f);
		m.bytes = m.bytes ?: (uint32_t)(sizeof(bad[i].head) + bad[i].text_bytes);
		assert_int_equal(http_message_send(f.channel, m, &bad[i].head, sizeof(bad[i].head),
						   bad[i].text, bad[i].text_bytes, NULL, 0),
				 0);
		shutdown(f.channel, SHUT_WR);
		assert_true(recv(f.client, got, sizeof(got), 0) <= 0);
		face_free(&f);
	}
}

static void a_front_ends_with_its_back(void **state)
{
	struct face f = face_new();
	char got;

	(void)state;
	close(f.control);
	f.control = dup(f.channel);
	assert_true(recv(f.client, &got, 1, 0) <= 0);
	face_free(&f);
}

/* ---- both ---- */

#define ENDLESS (1ull << 40)

static uint64_t produced;

static ssize_t read_endless(void *arg, char *buf, size_t max)
{
	(void)arg;
	memset(buf, 'x', max);
	return __atomic_add_fetch(&produced, max, __ATOMIC_RELAXED) < ENDLESS ? (ssize_t)max : 0;
}

static void on_endless(struct http_request *req, void *arg)
{
	http_reply_stream(req, 200, "text/plain", read_endless, NULL, arg);
}

/*
 * Data that is not read is held in no process: only as much is produced as sockets have room for.
 */
static void an_answer_that_is_not_taken_is_not_made(void **state)
{
	static const char request[] = "GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n";
	struct sockaddr_in at = {.sin_family = AF_INET};
	uint64_t before = ~0ull;
	char error[256], first;
	struct http *h;
	int client;

	(void)state;
	h = http_new(&(struct http_opts){.listen = "127.0.0.1:0", .timeout_s = 600}, error,
		     sizeof(error));
	assert_non_null(h);
	assert_int_equal(http_route(h, "GET", "/endless", HTTP_READER, on_endless, NULL), 0);
	assert_int_equal(http_start(h, error, sizeof(error)), 0);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	at.sin_port = htons((uint16_t)atoi(strrchr(http_address(h), ':') + 1));
	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(send(client, request, sizeof(request) - 1, MSG_NOSIGNAL),
			 sizeof(request) - 1);
	assert_int_equal(recv(client, &first, 1, 0), 1);
	while (before != __atomic_load_n(&produced, __ATOMIC_RELAXED)) {
		before = __atomic_load_n(&produced, __ATOMIC_RELAXED);
		usleep(200000);
		assert_true(before < 256u << 20);
	}
	close(client);
	http_free(h);
}

static sem_t releases;

static void on_held(struct http_request *req, void *arg)
{
	(void)arg;
	sem_wait(&releases);
	http_reply(req, 200, "text/plain", "done", 4);
}

static int dial_unix(const struct http *h)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", http_address(h) + strlen("unix:"));
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/* While the front's only thread waits for a handler, the sockets' limit is reached. */
static void a_connection_beyond_all_sockets_is_counted(void **state)
{
	static const char request[] = "GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n";
	char error[256], listen[128], c;
	struct http *h;
	int held, next;

	(void)state;
	sem_init(&releases, 0, 0);
	snprintf(listen, sizeof(listen), "unix:%s/http", test_folder);
	h = http_new(
		&(struct http_opts){
			.listen = listen, .max_connections = 1, .threads = 1, .timeout_s = 600},
		error, sizeof(error));
	assert_non_null(h);
	assert_int_equal(http_route(h, "GET", "/held", HTTP_READER, on_held, NULL), 0);
	assert_int_equal(http_start(h, error, sizeof(error)), 0);
	held = dial_unix(h);
	assert_true(send(held, request, sizeof(request) - 1, MSG_NOSIGNAL) > 0);
	while (!http_connections(h))
		usleep(1000);
	next = dial_unix(h);
	assert_true(recv(next, &c, 1, 0) <= 0);
	close(next);
	/* At once: no connection may follow, and the front may end. */
	for (int i = 0; i < 5000 && !http_refused(h, HTTP_REFUSED_CONNECTION); i++)
		usleep(1000);
	assert_int_equal(http_refused(h, HTTP_REFUSED_CONNECTION), 1);
	sem_post(&releases);
	assert_int_equal(recv(held, &c, 1, 0), 1);
	close(held);
	while (http_connections(h))
		usleep(1000);
	assert_int_equal(http_refused(h, HTTP_REFUSED_CONNECTION), 1);
	http_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_and_bodies_are_served),
		cmocka_unit_test(costly_requests_delay_no_other),
		cmocka_unit_test(costly_requests_end_with_client_or_time),
		cmocka_unit_test(a_front_raises_no_role),
		cmocka_unit_test(callers_are_those_the_kernel_names),
		cmocka_unit_test(a_back_survives_hostile_fronts),
		cmocka_unit_test(a_front_survives_hostile_backs),
		cmocka_unit_test(a_front_ends_with_its_back),
		cmocka_unit_test(an_answer_that_is_not_taken_is_not_made),
		cmocka_unit_test_setup_teardown(a_connection_beyond_all_sockets_is_counted,
						folder_make, folder_remove),
	};

	return cmocka_run_group_tests_name("front", tests, NULL, NULL);
}
