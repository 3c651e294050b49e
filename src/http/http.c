// SPDX-License-Identifier: Apache-2.0
/*
 * http.c - the life of server and connections, and their limits; libmicrohttpd's epoll threads
 * parse and send.
 *
 * libmicrohttpd's threads own their sockets. The reaper thread only shuts one down, under the lock
 * that connection_event() takes before the socket is closed, so it never touches a descriptor that
 * was reused.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/relaxed.h"
#include "http/internal.h"

#define CONNECTION_MEMORY (64u * 1024) /* libmicrohttpd sends chunks of half of it */
#define REAPER_TICK_MS	  250

/* ---- callbacks of libmicrohttpd ---- */

static void set_deadline(struct http_request *req, unsigned int timeouts, bool answering)
{
	struct http *h = req->http;
	struct http_connection *c = req->c;

	if (!c)
		return;
	pthread_mutex_lock(&h->lock);
	c->deadline_ns = base_now_ns() + (uint64_t)timeouts * h->opts.timeout_s * 1000000000u;
	c->answering = answering;
	c->answer_ns = base_now_ns();
	pthread_mutex_unlock(&h->lock);
}

/* Called with the raw request line. The returned value becomes answer()'s *context. */
static void *request_line(void *arg, const char *uri, struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct http_request *req = calloc(1, sizeof(*req));

	if (!req)
		return NULL;
	req->http = arg;
	req->connection = connection;
	req->c = info ? info->socket_context : NULL;
	req->bad_uri = strstr(uri, "%00") != NULL; /* would truncate the decoded path */
	return req;
}

static bool body_append(struct http_request *req, const char *data, size_t bytes)
{
	size_t max = req->http->opts.max_body;

	if (req->too_large || bytes > max - req->body_bytes) {
		/* Read a bounded amount more, so that the client sees the 413. */
		req->too_large = true;
		req->discarded += bytes;
		return req->discarded <= 16 * max;
	}
	if (!base_grow(&req->body, &req->body_room, req->body_bytes + bytes, 1))
		return false;
	memcpy(req->body + req->body_bytes, data, bytes);
	req->body_bytes += bytes;
	return true;
}

static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_bytes, void **context)
{
	struct http_request *req = *context;
	struct http *h = arg;
	const struct http_route *route;

	(void)version;
	if (!req)
		return MHD_NO;
	if (req->response) { /* before the body, which is not wanted */
		*upload_bytes = 0;
		return MHD_YES;
	}
	if (!req->seen) {
		const char *length;

		req->seen = true;
		req->method = method;
		req->path = url;
		length = http_header(req, "Content-Length");
		req->ambiguous = !http_access_framing(req);
		if (!req->ambiguous && (!length || strtoull(length, NULL, 10) <= h->opts.max_body))
			return MHD_YES; /* called again, with or without a body */
		req->too_large = true;	/* answered now; the connection is closed */
	} else if (*upload_bytes) {
		if (!body_append(req, upload, *upload_bytes))
			return MHD_NO;
		*upload_bytes = 0;
		return MHD_YES;
	}
	set_deadline(req, 10, true);
	if (req->ambiguous) {
		/* answered */
	} else if (req->too_large) {
		http_reply_error(req, 413, "the body is larger than %zu bytes", h->opts.max_body);
	} else if (req->bad_uri) {
		http_reply_error(req, 400, "the path holds a NUL");
	} else {
		route = http_route_find(req);
		if (route && http_access_allowed(req, route->needs))
			route->fn(req, route->arg);
		if (route && !req->response)
			http_reply_error(req, 500, "%s has no answer", req->path);
	}
	return req->response ? MHD_queue_response(connection, req->status, req->response) : MHD_NO;
}

static void request_done(void *arg, struct MHD_Connection *connection, void **context,
			 enum MHD_RequestTerminationCode why)
{
	struct http_request *req = *context;

	(void)arg, (void)connection, (void)why;
	if (!req)
		return;
	set_deadline(req, 2, false);
	*context = NULL;
	if (req->response)
		MHD_destroy_response(req->response); /* our reference; libmicrohttpd has its own */
	for (size_t i = 0; i < req->header_count; i++) {
		free(req->headers[i].name);
		free(req->headers[i].value);
	}
	free(req->variable);
	free(req->body);
	free(req);
}

/* Bounds the sockets: those that peer.c closed may not be gone yet. */
static enum MHD_Result admit(void *arg, const struct sockaddr *addr, socklen_t bytes)
{
	struct http *h = arg;

	(void)addr, (void)bytes;
	return relaxed_load(h->sockets) < 2 * h->opts.max_connections ? MHD_YES : MHD_NO;
}

static void get_caller(struct http *h, struct http_connection *c)
{
	struct http_caller *who = &c->caller;
	struct ucred cred;
	socklen_t bytes = sizeof(cred);

	*who = (struct http_caller){.uid = (uid_t)-1};
	if (!h->is_unix || getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes))
		return;
	who->uid = cred.uid;
	who->pid = cred.pid;
	if (h->opts.identify)
		h->opts.identify(h->opts.identify_arg, c->fd, who);
	else
		who->role = !cred.uid || cred.uid == geteuid() ? HTTP_ADMIN : HTTP_READER;
}

static struct http_connection *connection_open(struct http *h, int fd)
{
	struct http_connection *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->fd = fd;
	c->deadline_ns = base_now_ns() + 2ull * h->opts.timeout_s * 1000000000u;
	get_caller(h, c);
	pthread_mutex_lock(&h->lock);
	c->shut = !http_peer_enter(h, c) && !shutdown(fd, SHUT_RDWR);
	if (!h->connections)
		pthread_cond_signal(&h->wake);
	c->next = h->connections;
	c->link = &h->connections;
	if (c->next)
		c->next->link = &c->next;
	h->connections = c;
	pthread_mutex_unlock(&h->lock);
	return c;
}

/* libmicrohttpd reports CLOSED before it closes the socket. */
static void connection_event(void *arg, struct MHD_Connection *connection, void **context,
			     enum MHD_ConnectionNotificationCode what)
{
	struct http *h = arg;
	struct http_connection *c = *context;
	const union MHD_ConnectionInfo *info;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		relaxed_add(h->sockets, 1);
		info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
		*context = info ? connection_open(h, info->connect_fd) : NULL;
		return;
	}
	relaxed_sub(h->sockets, 1);
	if (!c)
		return;
	pthread_mutex_lock(&h->lock);
	http_peer_leave(h, c);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	pthread_mutex_unlock(&h->lock);
	if (h->is_unix && h->opts.forget)
		h->opts.forget(h->opts.identify_arg, &c->caller);
	free(c);
	*context = NULL;
}

/*
 * libmicrohttpd logs each client that disconnects, so its lines are for debugging only, except that
 * of accept() without a descriptor.
 */
static void log_line(void *arg, const char *fmt, va_list ap)
{
	char line[256];

	(void)arg;
	if (strstr(fmt, "system resource limit"))
		base_log_limited(BASE_WARN, "http",
				 "no descriptor left for connections: raise LimitNOFILE");
	if (base_log_level < BASE_DEBUG)
		return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	vsnprintf(line, sizeof(line), fmt, ap);
#pragma GCC diagnostic pop
	line[strcspn(line, "\n")] = '\0';
	base_logf(BASE_DEBUG, "http", "%s", line);
}

/*
 * libmicrohttpd times out idle connections only: a client that sends or takes a byte now and then
 * could hold its connection, and a walk of the source, for ever.
 */
static void *reap(void *arg)
{
	struct http *h = arg;

	pthread_mutex_lock(&h->lock);
	while (!h->stopping) {
		uint64_t now = base_now_ns(), until = now + REAPER_TICK_MS * 1000000u;
		struct timespec t = {.tv_sec = (time_t)(until / 1000000000u),
				     .tv_nsec = (long)(until % 1000000000u)};

		for (struct http_connection *c = h->connections; c; c = c->next)
			if (!c->shut && now > c->deadline_ns)
				c->shut = !shutdown(c->fd, SHUT_RDWR) || errno == ENOTCONN;
		/* An idle server does not wake up. */
		if (h->connections)
			pthread_cond_timedwait(&h->wake, &h->lock, &t);
		else
			pthread_cond_wait(&h->wake, &h->lock);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

/* ---- start and stop ---- */

struct http *http_new(const struct http_opts *opts, char *error, size_t error_bytes)
{
	struct http *h = calloc(1, sizeof(*h));
	pthread_condattr_t monotonic;
	int e;

	if (!h) {
		errno = base_fail(error, error_bytes, ENOMEM, "out of memory");
		return NULL;
	}
	h->opts = *opts;
	h->opts.max_connections = opts->max_connections ? opts->max_connections : 256;
	h->opts.max_body = opts->max_body ? opts->max_body : 64 * 1024;
	h->opts.timeout_s = opts->timeout_s ? opts->timeout_s : 30;
	h->opts.threads = opts->threads ? opts->threads : 2;
	h->opts.listen = NULL; /* the caller's */
	h->refused = opts->refused ? opts->refused : h->own_refused;
	e = http_listen(h, opts->listen ? opts->listen : "", error, error_bytes);
	if (!e) {
		e = http_access_init(h, error, error_bytes);
		if (e) {
			close(h->listen_fd);
			http_unlisten(h);
		}
	}
	if (e) {
		free(h);
		errno = -e;
		return NULL;
	}
	h->diag_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	pthread_mutex_init(&h->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&h->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return h;
}

int http_start(struct http *h, char *error, size_t error_bytes)
{
	unsigned int threads = h->opts.threads;
	int e;

	if (h->daemon)
		return -EBUSY;
	e = pthread_create(&h->reaper, NULL, reap, h);
	if (e)
		return base_fail(error, error_bytes, -e, "cannot start the HTTP server: %s",
				 strerror(e));
	pthread_setname_np(h->reaper, "sl-http-reaper");
	h->reaper_runs = true;
	/*
	 * admit() limits connections: libmicrohttpd would divide the limit among its threads and
	 * leave connections beyond it waiting.
	 */
	errno = 0;
	h->daemon = MHD_start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG | MHD_USE_ITC, 0, admit, h,
		answer, h, MHD_OPTION_EXTERNAL_LOGGER, log_line, NULL, MHD_OPTION_LISTEN_SOCKET,
		h->listen_fd, MHD_OPTION_THREAD_POOL_SIZE, threads > 1 ? threads : 0,
		MHD_OPTION_CONNECTION_LIMIT, (2 * h->opts.max_connections + 1) * threads,
		MHD_OPTION_CONNECTION_TIMEOUT, h->opts.timeout_s,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
		MHD_OPTION_NOTIFY_COMPLETED, request_done, NULL, MHD_OPTION_NOTIFY_CONNECTION,
		connection_event, h, MHD_OPTION_URI_LOG_CALLBACK, request_line, h,
		MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
	e = errno ? errno : EIO;
	return h->daemon
		       ? 0
		       : base_fail(error, error_bytes, -e, "cannot start the HTTP server on %s: %s",
				   h->address, strerror(e));
}

const char *http_address(const struct http *h)
{
	return h->address;
}

uint32_t http_connections(const struct http *h)
{
	return relaxed_load(h->open);
}

void http_free(struct http *h)
{
	if (!h)
		return;
	if (h->daemon)
		MHD_stop_daemon(h->daemon); /* joins its threads and closes the listening socket */
	else
		close(h->listen_fd);
	if (h->reaper_runs) {
		pthread_mutex_lock(&h->lock);
		h->stopping = true;
		pthread_cond_signal(&h->wake);
		pthread_mutex_unlock(&h->lock);
		pthread_join(h->reaper, NULL);
	}
	http_unlisten(h);
	if (h->diag_fd >= 0)
		close(h->diag_fd);
	http_peers_free(h);
	http_packed_free(h);
	http_routes_free(h);
	pthread_cond_destroy(&h->wake);
	pthread_mutex_destroy(&h->lock);
	free(h);
}
