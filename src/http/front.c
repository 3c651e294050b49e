// SPDX-License-Identifier: Apache-2.0
/*
 * front.c - the process that faces clients: connections and their limits. libmicrohttpd's epoll
 * threads parse and send. Each of these threads has its own channel to the back and waits for the
 * answer; handlers answer without waiting.
 *
 * libmicrohttpd's threads own their sockets. The reaper thread only shuts a socket down, under the
 * lock that connection_event() takes before the socket is closed, so it never touches a descriptor
 * that was reused.
 */
#include <ctype.h>
#include <errno.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/confine.h"
#include "base/grow.h"
#include "base/relaxed.h"
#include "http/front.h"

#define CONNECTION_MEMORY (64u * 1024) /* libmicrohttpd sends chunks of half this size */
#define REAPER_TICK_MS	  250
#define BODY_ROOM	  (16u * 1024) /* initial memory for a body; doubles while it grows */

/* ---- the back ---- */

void http_front_gone(void)
{
	_exit(0); /* closes all connections */
}

int http_front_channel(struct http_server *s)
{
	static __thread uint32_t mine; /* index + 1 */

	if (!mine)
		mine = relaxed_add(s->threads, 1) + 1;
	if (mine > s->c.threads)
		http_front_gone();
	return s->channels[mine - 1];
}

void http_front_tell(struct http_server *s, enum http_message_type type, uint32_t slot,
		     uint32_t arg)
{
	const struct http_message m = {.type = type, .slot = slot, .arg = arg};

	if (http_message_send(http_front_channel(s), m, NULL, 0, NULL, 0, NULL, 0))
		http_front_gone();
}

ssize_t http_front_sign(struct http_server *s, struct http_message ask, const void *data,
			unsigned char out[HTTP_SIGNATURE])
{
	int fd = s->channels[s->c.threads];
	struct http_message m;

	pthread_mutex_lock(&s->shakes);
	if (http_message_send(fd, ask, data, ask.bytes, NULL, 0, NULL, 0) ||
	    http_message_receive(fd, &m, NULL) || m.bytes > HTTP_SIGNATURE ||
	    (m.type != HTTP_SIGNED && m.type != HTTP_BROKEN) || http_message_take(fd, out, m.bytes))
		http_front_gone();
	pthread_mutex_unlock(&s->shakes);
	return m.type == HTTP_SIGNED ? (ssize_t)m.bytes : -EIO;
}

static void send_refusals(struct http_server *s, int fd)
{
	for (uint32_t i = 0; i < HTTP_REFUSALS; i++) {
		struct http_message m = {.type = HTTP_REFUSED, .slot = i};

		if (relaxed_load(s->refused[i]))
			m.arg = __atomic_exchange_n(&s->refused[i], 0, __ATOMIC_RELAXED);
		if (m.arg && http_message_send(fd, m, NULL, 0, NULL, 0, NULL, 0))
			http_front_gone();
	}
}

static bool is_relayed(const struct http_front_config *c)
{
	return c->is_unix || c->tls;
}

void http_front_refused(struct http_server *s, enum http_refusal cause)
{
	struct pollfd p = {.fd = s->channels[s->c.threads], .events = POLLOUT};

	relaxed_add(s->refused[cause], 1);
	if (!is_relayed(&s->c) || pthread_mutex_trylock(&s->shakes))
		return;
	if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT))
		send_refusals(s, p.fd);
	pthread_mutex_unlock(&s->shakes);
}

/* ---- answers that are not ready yet ---- */

#define OF_CONTROL UINT64_MAX /* data of the control socket's event */

void http_front_await(struct http_server *s, struct http_connection *c)
{
	struct epoll_event e = {.events = EPOLLRDHUP | EPOLLONESHOT,
				.data.u64 = (uint64_t)c->slot << 32 | c->serial};

	MHD_suspend_connection(c->connection);
	pthread_mutex_lock(&s->lock);
	c->awaits = true;
	pthread_mutex_unlock(&s->lock);
	/*
	 * If this fails, the answer still arrives, but the work continues even if the client
	 * leaves.
	 */
	epoll_ctl(s->awaited, EPOLL_CTL_ADD, c->fd, &e);
	http_front_tell(s, HTTP_AWAIT, c->slot, c->serial);
}

/*
 * Resumes a connection if it is still waiting. c is valid without the lock, because a connection is
 * not closed while it is suspended.
 */
static void resume_connection(struct http_server *s, uint32_t slot, uint32_t serial, bool left)
{
	struct http_connection *c;

	pthread_mutex_lock(&s->lock);
	for (c = s->connections; c; c = c->next)
		if (c->awaits && c->slot == slot && c->serial == serial)
			break;
	if (c) {
		c->awaits = false;
		c->left = left;
	}
	pthread_mutex_unlock(&s->lock);
	if (!c)
		return;
	epoll_ctl(s->awaited, EPOLL_CTL_DEL, c->fd, NULL);
	MHD_resume_connection(c->connection);
}

static void tell_refusals(struct http_server *s)
{
	send_refusals(s, http_front_channel(s));
}

/* ---- passing a request to the back ---- */

struct ask {
	struct http_message_text text;
	struct http_message_ask head;
	enum MHD_ValueKind kind;
};

static enum MHD_Result put_field(void *arg, enum MHD_ValueKind kind, const char *key,
				 const char *value)
{
	struct ask *a = arg;

	http_message_put(&a->text,
			 kind == MHD_HEADER_KIND ? HTTP_FIELD_HEADER
			 : value		 ? HTTP_FIELD_QUERY
						 : HTTP_FIELD_BARE,
			 key);
	http_message_put(&a->text, 0, value ? value : "");
	a->head.fields++;
	return a->text.failed ? MHD_NO : MHD_YES;
}

/* Returns false if out of memory or if the request is too large. */
static bool send_ask(struct http_client_request *req, const char *method, const char *path)
{
	struct http_server *s = req->server;
	struct http_message m = {.type = HTTP_ASK, .slot = req->c->slot};
	struct ask a = {0};
	bool ok;

	m.arg = req->c->serial = relaxed_add(s->serial, 1);
	http_message_put(&a.text, 0, method);
	http_message_put(&a.text, 0, path);
	MHD_get_connection_values(req->connection, MHD_HEADER_KIND, put_field, &a);
	MHD_get_connection_values(req->connection, MHD_GET_ARGUMENT_KIND, put_field, &a);
	ok = !a.text.failed && a.head.fields <= HTTP_MESSAGE_FIELDS;
	a.head.text = (uint32_t)a.text.bytes;
	a.head.body = (uint32_t)req->body_bytes;
	a.head.answers = http_peer_answers(s, req->c);
	m.bytes = (uint32_t)(sizeof(a.head) + a.text.bytes + req->body_bytes);
	if (ok && http_message_send(http_front_channel(s), m, &a.head, sizeof(a.head), a.text.s,
				    a.text.bytes, req->body, req->body_bytes))
		http_front_gone();
	free(a.text.s);
	return ok;
}

/* ---- answers of the front itself ---- */

__attribute__((format(printf, 3, 4))) static void
refuse_request(struct http_client_request *req, unsigned int status, const char *fmt, ...)
{
	char why[192], text[224];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	snprintf(text, sizeof(text), "{\"error\":\"%s\"}", why);
	req->response = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_COPY);
	req->status = status;
	if (!req->response)
		return;
	MHD_add_response_header(req->response, "Content-Type", "application/json");
	MHD_add_response_header(req->response, "X-Content-Type-Options", "nosniff");
}

struct framing {
	unsigned int lengths, encodings, hosts;
	bool wrong;
};

/* Returns true if s is a token (RFC 9110, 5.6.2). */
static bool is_token(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !(s[i] && strchr("!#$%&'*+-.^_`|~", s[i])))
			return false;
	return n;
}

static bool is_called(const char *name, size_t n, const char *lower)
{
	return n == strlen(lower) && !strncasecmp(name, lower, n);
}

/* Accepts "localhost:80" but not "localhost:80@evil.example". */
static bool has_port_alone(const char *host)
{
	host += *host == '[' ? strcspn(host, "]") : strcspn(host, ":");
	host += *host == ']';
	return !*host || (*host == ':' && !host[1 + strspn(host + 1, "0123456789")]);
}

/*
 * libmicrohttpd keeps a space before the colon, and appends a folded line to the name of the
 * previous header: "Transfer-Encoding:\r
 * chunked" becomes the name "Transfer-Encodingchunked" here, but is an encoding for other
 * implementations.
 */
static enum MHD_Result count_header(void *arg, enum MHD_ValueKind kind, const char *key,
				    size_t key_bytes, const char *value, size_t value_bytes)
{
	static const char length[] = "Content-Length", encoding[] = "Transfer-Encoding";
	struct framing *f = arg;

	(void)kind;
	value = value ? value : "";
	f->wrong |= !is_token(key, key_bytes) || strlen(value) != value_bytes ||
		    value[strcspn(value, "\r\n")];
	if (is_called(key, key_bytes, length)) {
		f->lengths++;
		f->wrong |= !*value || value[strspn(value, "0123456789")];
	} else if (is_called(key, key_bytes, encoding)) {
		f->encodings++;
		f->wrong |= strcasecmp(value, "chunked") != 0;
	} else if (is_called(key, key_bytes, "Host")) {
		f->hosts++;
		f->wrong |= !has_port_alone(value);
	} else {
		f->wrong |= !strncasecmp(key, length, sizeof(length) - 1) ||
			    !strncasecmp(key, encoding, sizeof(encoding) - 1);
	}
	return MHD_YES;
}

/*
 * A proxy in front of this server may see the end of an ambiguous body elsewhere and treat a part
 * of it as another request (RFC 9112, 6.3 and 11.2). Such a request is refused and the connection
 * closed. The connection is also closed after a chunked body, because libmicrohttpd accepts a bare
 * LF at the end of a chunk's line.
 */
static bool is_ambiguous(struct http_client_request *req)
{
	struct framing f = {0};

	MHD_get_connection_values_n(req->connection, MHD_HEADER_KIND, count_header, &f);
	req->close = f.encodings > 0;
	if (!f.wrong && f.lengths + f.encodings <= 1 && f.hosts <= 1)
		return false;
	req->close = true;
	relaxed_add(req->server->refused[HTTP_REFUSED_FRAMING], 1);
	tell_refusals(req->server);
	refuse_request(
		req, 400,
		"a header is malformed, or Content-Length, Transfer-Encoding or Host is given twice");
	return true;
}

/* ---- callbacks of libmicrohttpd ---- */

static void set_deadline(struct http_client_request *req, unsigned int timeouts, bool answering)
{
	struct http_server *s = req->server;
	struct http_connection *c = req->c;

	if (!c)
		return;
	pthread_mutex_lock(&s->lock);
	c->deadline_ns = base_now_ns() + (uint64_t)timeouts * s->c.timeout_s * 1000000000u;
	c->answering = answering;
	c->answer_ns = base_now_ns();
	pthread_mutex_unlock(&s->lock);
}

/* Called with the raw request line. The returned value becomes *context of answer_request(). */
static void *request_line(void *arg, const char *uri, struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct http_client_request *req = calloc(1, sizeof(*req));

	if (!req)
		return NULL;
	req->server = arg;
	req->connection = connection;
	req->c = info ? info->socket_context : NULL;
	req->bad_uri = strstr(uri, "%00") != NULL; /* a NUL would truncate the decoded path */
	return req;
}

static void drop_body(struct http_client_request *req)
{
	free(req->body);
	req->body = NULL;
	req->body_bytes = req->body_room = 0;
	if (req->c && req->c->held)
		http_peer_hold(req->server, req->c, 0);
}

/* Returns false if the peer may not have the memory, or if out of memory. */
static bool make_room(struct http_client_request *req, size_t bytes)
{
	size_t room = req->body_room ?: BODY_ROOM;

	while (room < bytes)
		room *= 2;
	return room == req->body_room || (http_peer_hold(req->server, req->c, room) &&
					  base_grow(&req->body, &req->body_room, room, 1));
}

static bool body_append(struct http_client_request *req, const char *data, size_t bytes)
{
	size_t max = req->server->c.max_body;

	if (req->too_large || req->no_room) {
		/* already refused */
	} else if (bytes > max - req->body_bytes) {
		req->too_large = true;
	} else if (!make_room(req, req->body_bytes + bytes)) {
		req->no_room = true;
		relaxed_add(req->server->refused[HTTP_REFUSED_BODIES], 1);
		tell_refusals(req->server);
	} else {
		memcpy(req->body + req->body_bytes, data, bytes);
		req->body_bytes += bytes;
		return true;
	}
	/* Read a bounded amount more, so that the client receives the answer. */
	drop_body(req);
	req->discarded += bytes;
	return req->discarded <= 16 * max;
}

static enum MHD_Result answer_request(void *arg, struct MHD_Connection *connection, const char *url,
				      const char *method, const char *version, const char *upload,
				      size_t *upload_bytes, void **context)
{
	struct http_client_request *req = *context;
	struct http_server *s = arg;

	(void)version;
	if (!req || !req->c || !req->c->told)
		return MHD_NO; /* out of memory, or refused: the socket is shut down */
	if (req->response) {   /* already answered; ignore the body */
		*upload_bytes = 0;
		return MHD_YES;
	}
	if (!req->seen) {
		const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
								 "Content-Length");

		req->seen = true;
		req->ambiguous = is_ambiguous(req);
		if (!req->ambiguous && (!length || strtoull(length, NULL, 10) <= s->c.max_body))
			return MHD_YES; /* called again, with or without a body */
		req->too_large = true;	/* answer now and close the connection */
	} else if (*upload_bytes) {
		if (!body_append(req, upload, *upload_bytes))
			return MHD_NO;
		*upload_bytes = 0;
		return MHD_YES;
	}
	set_deadline(req, 10, true);
	if (req->ambiguous) {
		/* already answered */
	} else if (req->too_large) {
		refuse_request(req, 413, "the body is larger than %llu bytes",
			       (unsigned long long)s->c.max_body);
	} else if (req->no_room) {
		refuse_request(req, 503, "too many bodies are being received: try again later");
	} else if (req->bad_uri) {
		refuse_request(req, 400, "the path contains a NUL character");
	} else if (req->c->left) {
		http_front_tell(s, HTTP_DONE, req->c->slot, req->c->serial);
		return MHD_NO;
	} else if (req->later || send_ask(req, method, url)) {
		drop_body(req);
		http_body_answer(req);
		if (req->later)
			return MHD_YES;
	} else {
		refuse_request(req, 503, "out of memory");
	}
	if (req->close && req->response)
		MHD_add_response_header(req->response, "Connection", "close");
	return req->response ? MHD_queue_response(connection, req->status, req->response) : MHD_NO;
}

static void request_done(void *arg, struct MHD_Connection *connection, void **context,
			 enum MHD_RequestTerminationCode why)
{
	struct http_client_request *req = *context;

	(void)arg, (void)connection, (void)why;
	if (!req)
		return;
	set_deadline(req, 2, false);
	*context = NULL;
	if (req->response)
		MHD_destroy_response(req->response); /* our reference; libmicrohttpd has its own */
	drop_body(req);
	free(req);
}

/* Limits the number of sockets; sockets that peer.c has shut down may still exist. */
static enum MHD_Result admit_connection(void *arg, const struct sockaddr *addr, socklen_t bytes)
{
	struct http_server *s = arg;

	(void)addr, (void)bytes;
	if (relaxed_load(s->sockets) < 2 * s->c.max_connections)
		return MHD_YES;
	http_front_refused(s, HTTP_REFUSED_CONNECTION);
	if (!is_relayed(&s->c)) /* otherwise a thread without a channel has accepted it */
		tell_refusals(s);
	return MHD_NO;
}

/* key: identifies the peer. */
static void introduce_client(struct http_server *s, struct http_connection *c,
			     const unsigned char *key)
{
	struct http_message m = {.type = HTTP_OPEN, .slot = c->slot};
	struct http_message_open who = {0};
	int fd = http_front_channel(s), err;
	const char *names = NULL;

	if (c->relay)
		who = http_relay_who(c->relay, &names);
	memcpy(who.peer, key, sizeof(who.peer));
	if (s->c.tells)
		m.bytes = (uint32_t)sizeof(who) + who.names;
	err = http_message_send_fds(fd, &m, sizeof(m), &c->fd, s->c.is_unix);
	if (!err && s->c.tells)
		err = http_message_give(fd, &who, sizeof(who), names, who.names);
	if (err)
		http_front_gone();
	c->told = true;
}

static struct http_connection *connection_open(struct http_server *s,
					       struct MHD_Connection *connection, int fd)
{
	struct http_connection *c = calloc(1, sizeof(*c));
	unsigned char key[HTTP_PEER_KEY] = {0};
	bool refused;

	if (!c)
		return NULL;
	c->fd = fd;
	c->connection = connection;
	c->deadline_ns = base_now_ns() + 2ull * s->c.timeout_s * 1000000000u;
	pthread_mutex_lock(&s->lock);
	if (is_relayed(&s->c))
		c->relay = http_relay_enter(s, fd, &c->fd);
	c->shut = refused = (is_relayed(&s->c) && !c->relay) || !s->slot_count ||
			    !http_peer_enter(s, c);
	if (refused)
		shutdown(c->fd, SHUT_RDWR);
	else
		c->slot = s->slots[--s->slot_count];
	if (c->peer)
		memcpy(key, c->peer->key, sizeof(key));
	if (!s->connections)
		pthread_cond_signal(&s->wake);
	c->next = s->connections;
	c->link = &s->connections;
	if (c->next)
		c->next->link = &c->next;
	s->connections = c;
	pthread_mutex_unlock(&s->lock);
	if (!refused)
		introduce_client(s, c, key);
	tell_refusals(s);
	return c;
}

/* libmicrohttpd reports CLOSED before it closes the socket. */
static void connection_event(void *arg, struct MHD_Connection *connection, void **context,
			     enum MHD_ConnectionNotificationCode what)
{
	struct http_server *s = arg;
	struct http_connection *c = *context;
	const union MHD_ConnectionInfo *info;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		if (!is_relayed(&s->c)) /* otherwise relay.c has counted it */
			relaxed_add(s->sockets, 1);
		info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
		*context = info ? connection_open(s, connection, info->connect_fd) : NULL;
		return;
	}
	relaxed_sub(s->sockets, 1);
	if (!c)
		return;
	if (c->told)
		http_front_tell(s, HTTP_CLOSE, c->slot, 0);
	pthread_mutex_lock(&s->lock);
	http_peer_leave(s, c);
	if (c->relay)
		http_relay_leave(s, c->relay);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	if (c->told)
		s->slots[s->slot_count++] = c->slot;
	pthread_mutex_unlock(&s->lock);
	free(c);
	*context = NULL;
}

void http_front_short_of(const char *what)
{
	base_log_limited(BASE_WARN, "http", "no %s left for connections%s", what,
			 *what == 'd' ? ": raise LimitNOFILE" : "");
}

/*
 * libmicrohttpd logs each client that disconnects. Its messages are therefore logged only for
 * debugging, except accept() failures for lack of a descriptor.
 */
static void log_line(void *arg, const char *fmt, va_list ap)
{
	char line[256];

	(void)arg;
	if (strstr(fmt, "system resource limit"))
		http_front_short_of("descriptor");
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
 * libmicrohttpd only times out idle connections: a client that sends or receives a byte now and
 * then could hold its connection, and the data source behind its answer, indefinitely.
 */
static void *reap_connections(void *arg)
{
	struct http_server *s = arg;

	prctl(PR_SET_NAME, "sl-http-reaper");
	pthread_mutex_lock(&s->lock);
	for (;;) {
		uint64_t now = base_now_ns();

		for (struct http_connection *c = s->connections; c; c = c->next)
			if (!c->shut && now > c->deadline_ns)
				c->shut = !shutdown(c->fd, SHUT_RDWR) || errno == ENOTCONN;
		/* don't wake up while there are no connections */
		if (s->connections)
			base_cond_wait(&s->wake, &s->lock, now + REAPER_TICK_MS * 1000000u);
		else
			pthread_cond_wait(&s->wake, &s->lock);
	}
	return NULL;
}

/* ---- the process ---- */

/* Reports the error to the back, which ends the server or retries. */
__attribute__((noreturn)) static void fail_start(const struct http_server *s, const char *what,
						 int error)
{
	struct http_message m = {.type = HTTP_FAILED};
	char text[HTTP_FAILED_TEXT];

	m.bytes = (uint32_t)snprintf(text, sizeof(text),
				     "cannot start the HTTP server on %s: %s%s%s", s->c.address,
				     what, error ? ": " : "", error ? strerror(error) : "");
	m.bytes = BASE_MIN(m.bytes, (uint32_t)sizeof(text) - 1);
	http_message_send(s->control, m, text, m.bytes, NULL, 0, NULL, 0);
	_exit(0);
}

/* Allocates the slots; a connection keeps its slot while it is open. */
static void prepare_slots(struct http_server *s)
{
	struct rlimit files;
	uint32_t n = http_slots(s->c.max_connections, s->c.threads);

	s->slots = calloc(n, sizeof(*s->slots));
	if (!s->slots)
		fail_start(s, "out of memory", 0);
	while (s->slot_count < n) {
		s->slots[s->slot_count] = n - 1 - s->slot_count;
		s->slot_count++;
	}
	s->own_uid = geteuid();
	s->parked_max = getrlimit(RLIMIT_NOFILE, &files)
				? s->c.max_connections
				: (uint32_t)BASE_MIN(files.rlim_cur / 2, (rlim_t)1 << 20);
	s->diag_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->shakes, NULL);
	base_cond_init(&s->wake);
	pthread_cond_init(&s->relay_left, NULL);
}

static void start_daemon(struct http_server *s)
{
	const unsigned int threads = s->c.threads;
	const struct MHD_OptionItem listen[] = {
		{is_relayed(&s->c) ? MHD_OPTION_END : MHD_OPTION_LISTEN_SOCKET, s->listen_fd, NULL},
		{MHD_OPTION_END, 0, NULL}};
	pthread_t reaper;
	int e = pthread_create(&reaper, NULL, reap_connections, s);

	if (e)
		fail_start(s, "no thread", e);
	/*
	 * admit_connection() limits connections, because libmicrohttpd would divide the limit among
	 * its threads and leave connections beyond it waiting. No thread may even reach its limit:
	 * libmicrohttpd 0.9.75 then keeps a lock, and the thread stops forever. All connections may
	 * wait for the same thread at once, in addition to those that it is about to forget.
	 */
	errno = 0;
	s->daemon = MHD_start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG | MHD_USE_ITC |
			MHD_ALLOW_SUSPEND_RESUME |
			(is_relayed(&s->c) ? MHD_USE_NO_LISTEN_SOCKET : 0),
		0, admit_connection, s, answer_request, s, MHD_OPTION_EXTERNAL_LOGGER, log_line,
		NULL, MHD_OPTION_ARRAY, listen, MHD_OPTION_THREAD_POOL_SIZE,
		threads > 1 ? threads : 0, MHD_OPTION_CONNECTION_LIMIT,
		(8 * s->c.max_connections + 1) * threads, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned int)s->c.timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_MEMORY, MHD_OPTION_NOTIFY_COMPLETED, request_done, NULL,
		MHD_OPTION_NOTIFY_CONNECTION, connection_event, s, MHD_OPTION_URI_LOG_CALLBACK,
		request_line, s, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
	if (!s->daemon)
		fail_start(s, "libmicrohttpd", errno ? errno : EIO);
	e = is_relayed(&s->c) ? http_relay_start(s) : 0;
	if (e)
		fail_start(s, "no thread", e);
}

/* Receives TLS settings. Returns false at the end. */
static bool take_tls(struct http_server *s, size_t bytes)
{
	struct http_tls *t, *former;
	void *payload;

	if (bytes > HTTP_TLS_MAX)
		return false;
	payload = malloc(bytes + 1);
	if (!payload || http_message_take(s->control, payload, bytes)) {
		free(payload);
		return false;
	}
	t = http_tls_new(s, payload, bytes);
	free(payload);
	if (!t)
		return false;
	pthread_mutex_lock(&s->lock);
	former = s->tls;
	s->tls = t;
	pthread_mutex_unlock(&s->lock);
	http_tls_drop(former);
	return true;
}

/* Receives a message from the back. Returns false at the end. */
static bool take_message(struct http_server *s)
{
	struct http_message m;

	if (http_message_receive(s->control, &m, NULL))
		return false;
	if (m.type == HTTP_TLS && s->c.tls)
		return take_tls(s, m.bytes);
	if (m.type != HTTP_WAKE || m.bytes)
		return false;
	resume_connection(s, m.slot, m.arg, false);
	return true;
}

static void watch_control(struct http_server *s)
{
	struct epoll_event control = {.events = EPOLLIN, .data.u64 = OF_CONTROL};

	s->awaited = epoll_create1(EPOLL_CLOEXEC);
	if (s->awaited < 0 || epoll_ctl(s->awaited, EPOLL_CTL_ADD, s->control, &control))
		fail_start(s, "epoll", errno);
}

void http_front_serve(const struct http_front_config *c, const int *fds, size_t n, bool unconfined)
{
	static struct http_server s;
	const struct base_confine_opts confine = {.role = BASE_ROLE_FRONT, .single = true};
	const struct http_message ready = {.type = HTTP_READY};
	struct epoll_event e;
	struct http_message m;
	char why[160];

	prctl(PR_SET_NAME, "sidelight-http");
	s.c = *c;
	if (!c->threads || c->threads > HTTP_THREADS || n != c->threads + 2ul + is_relayed(c))
		_exit(0);
	s.listen_fd = fds[0];
	s.control = fds[1];
	memcpy(s.channels, fds + 2, (n - 2) * sizeof(*fds));
	prepare_slots(&s);
	if (!unconfined && base_confine(&confine, why, sizeof(why)))
		fail_start(&s, why, 0);
	if (c->tls && (http_message_receive(s.control, &m, NULL) || m.type != HTTP_TLS ||
		       !take_tls(&s, m.bytes)))
		fail_start(&s, "the TLS settings are missing", 0);
	watch_control(&s);
	start_daemon(&s);
	if (http_message_send(s.control, ready, NULL, 0, NULL, 0, NULL, 0))
		http_front_gone();
	for (;;) {
		int got = epoll_wait(s.awaited, &e, 1, -1);

		if (got == 1 && e.data.u64 != OF_CONTROL)
			resume_connection(&s, (uint32_t)(e.data.u64 >> 32), (uint32_t)e.data.u64,
					  true);
		else if (got == 1 ? !take_message(&s) : errno != EINTR)
			http_front_gone();
	}
}
