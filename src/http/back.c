// SPDX-License-Identifier: Apache-2.0
/*
 * back.c - the part of the server with the state: one thread per channel answers the front's
 * requests, and the keeper thread starts a new front when one has exited.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/relaxed.h"
#include "http/internal.h"

#define START_MS 30000
#define LOOK_MS	 1000 /* interval between checks of the files of web.yml */
/* delay before the next front if the last one lived for less than a second */
#define PAUSE_NS 200000000ull

/* ---- requests ---- */

/* Frees memory that only the handler and the head need. */
static void request_strip(struct http_request *req)
{
	for (size_t i = 0; i < req->header_count; i++) {
		free(req->headers[i].name);
		free(req->headers[i].value);
	}
	req->header_count = 0;
	free(req->content_type);
	free(req->variable);
	free(req->in.fields);
	free(req->payload);
	req->content_type = req->variable = NULL;
	req->in = (struct http_message_request){0};
	req->payload = NULL;
}

void http_request_free(struct http_request *req)
{
	if (req->done)
		req->done(req->arg);
	request_strip(req);
	free(req->owned);
	free(req->piece);
	free(req);
}

static void end_request(struct http_slot *slot)
{
	struct http_request *req = slot->req;

	slot->req = NULL;
	if (req)
		http_queue_drop(req);
}

/* Returns true if the request is queued; otherwise it has been answered. */
static bool handle_request(struct http_request *req)
{
	http_access_headers(req);
	req->route = http_route_find(req);
	if (!req->route || !http_access_allowed(req, req->route) ||
	    (req->route->form && !http_form_read(req)))
		return false;
	if (req->route->costly)
		return http_queue_add(req);
	req->route->fn(req, req->route->arg);
	if (!req->answered)
		http_reply_error(req, 500, "%s: the server produced no response", req->in.path);
	return false;
}

/* Sends the head and the start of the body; *more: the body continues. Returns 0 or -errno. */
static int send_head(struct http_channel *ch, struct http_request *req, bool *more)
{
	struct http_message_text text = {0};
	struct http_message_head head = {.status = req->answered ? req->status : 0};
	size_t piece = BASE_MIN(req->bytes, HTTP_PIECE);
	struct http_message m = {.type = HTTP_HEAD};
	int err;

	if (req->content_type) {
		http_message_put(&text, 0, "Content-Type");
		http_message_put(&text, 0, req->content_type);
		head.fields++;
	}
	for (size_t i = 0; i < req->header_count; i++) {
		http_message_put(&text, 0, req->headers[i].name);
		http_message_put(&text, 0, req->headers[i].value);
		head.fields++;
	}
	if (text.failed || !head.status) { /* out of memory: close the connection */
		head = (struct http_message_head){0};
		piece = text.bytes = 0;
	}
	*more = head.status && (req->read || piece < req->bytes);
	req->given = piece;
	head.text = (uint32_t)text.bytes;
	head.total = head.status && req->read ? UINT64_MAX : head.status ? req->bytes : 0;
	head.flags = (req->gzip ? HTTP_HEAD_GZIP : 0) | (*more ? HTTP_HEAD_MORE : 0) |
		     (req->known ? HTTP_HEAD_KNOWN : 0);
	m.bytes = (uint32_t)(sizeof(head) + text.bytes + piece);
	err = http_message_send(ch->fd, m, &head, sizeof(head), text.s, text.bytes, req->whole,
				piece);
	free(text.s);
	return err;
}

/* ---- messages ---- */

static struct http_slot *slot_of(struct http_channel *ch, uint32_t slot)
{
	const struct http_opts *o = &ch->http->opts;

	return slot < http_slots(o->max_connections, o->threads) && ch->slots[slot].open
		       ? &ch->slots[slot]
		       : NULL;
}

/* Closes the connection because memory is exhausted. */
static int drop_request(struct http_channel *ch, size_t bytes)
{
	const struct http_message m = {.type = HTTP_HEAD,
				       .bytes = sizeof(struct http_message_head)};
	const struct http_message_head head = {0};
	int err = 0;

	base_log_limited(BASE_WARN, "http", "out of memory: an HTTP request was dropped");
	for (size_t n; bytes && !err; bytes -= n) {
		n = BASE_MIN(bytes, HTTP_PIECE);
		err = http_message_take(ch->fd, ch->piece, n);
	}
	return err ?: http_message_send(ch->fd, m, &head, sizeof(head), NULL, 0, NULL, 0);
}

static int answer_later(struct http_channel *ch, uint32_t slot)
{
	const struct http_message m = {.type = HTTP_LATER, .slot = slot};

	return http_message_send(ch->fd, m, NULL, 0, NULL, 0, NULL, 0);
}

static int send_answer(struct http_channel *ch, struct http_slot *slot)
{
	bool more = false;
	int err = send_head(ch, slot->req, &more);

	request_strip(slot->req);
	if (!more)
		end_request(slot);
	return err;
}

static int on_ask(struct http_channel *ch, const struct http_message *m)
{
	const size_t most = sizeof(struct http_message_ask) + HTTP_MESSAGE_TEXT +
			    ch->http->opts.max_body;
	struct http_slot *slot = slot_of(ch, m->slot);
	struct http_request *req;
	int err;

	if (!slot || m->bytes > most)
		return -EPROTO;
	end_request(slot);
	req = slot->req = calloc(1, sizeof(*req));
	if (req)
		req->payload = malloc(m->bytes + 1ul);
	if (req)
		req->http = ch->http;
	if (!req || !req->payload) {
		end_request(slot);
		return drop_request(ch, m->bytes);
	}
	req->caller = &slot->caller;
	req->slot = slot;
	req->number = m->slot;
	req->serial = m->arg;
	err = http_message_take(ch->fd, req->payload, m->bytes)
		      ?: http_message_ask_unpack(req->payload, m->bytes, ch->http->opts.max_body,
						 &req->in);
	if (!err)
		return handle_request(req) ? answer_later(ch, m->slot) : send_answer(ch, slot);
	end_request(slot);
	return err == -ENOMEM ? drop_request(ch, 0) : err;
}

/* n: length of the piece, or -errno */
static int send_piece(struct http_channel *ch, uint32_t slot, const char *piece, ssize_t n)
{
	const struct http_message m = {.type = n < 0 ? HTTP_BROKEN : HTTP_DATA,
				       .bytes = n < 0 ? 0 : (uint32_t)n,
				       .slot = slot};

	return http_message_send(ch->fd, m, piece, m.bytes, NULL, 0, NULL, 0);
}

static int on_read(struct http_channel *ch, const struct http_message *m)
{
	struct http_slot *slot = slot_of(ch, m->slot);
	struct http_request *req = slot ? slot->req : NULL;

	if (!req || req->state != HTTP_IDLE || !m->arg || m->arg > HTTP_PIECE || m->bytes)
		return -EPROTO;
	if (!req->costly_read)
		return send_piece(ch, m->slot, ch->piece, http_reply_next(req, ch->piece, m->arg));
	return http_queue_read(req, m->arg) ? answer_later(ch, m->slot)
					    : send_piece(ch, m->slot, NULL, -ENOMEM);
}

static int on_await(struct http_channel *ch, const struct http_message *m)
{
	struct http_slot *slot = slot_of(ch, m->slot);

	if (!slot || !slot->req || slot->req->serial != m->arg || m->bytes)
		return -EPROTO;
	http_queue_await(slot->req);
	return 0;
}

static int on_take(struct http_channel *ch, const struct http_message *m)
{
	struct http_slot *slot = slot_of(ch, m->slot);
	struct http_request *req = slot ? slot->req : NULL;

	if (!req || req->serial != m->arg || m->bytes)
		return -EPROTO;
	if (!http_queue_take(req))
		return answer_later(ch, m->slot);
	return req->piece ? send_piece(ch, m->slot, req->piece, req->bytes_read)
			  : send_answer(ch, slot);
}

void http_back_wake(struct http *h, uint32_t slot, uint32_t serial)
{
	const struct http_message m = {.type = HTTP_WAKE, .slot = slot, .arg = serial};

	pthread_mutex_lock(&h->say);
	pthread_mutex_lock(&h->lock);
	/*
	 * A front that cannot receive these few bytes is stuck: stop it, and the keeper starts
	 * another.
	 */
	if (h->control >= 0 &&
	    send(h->control, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof(m))
		http_message_hang_up(h->control);
	pthread_mutex_unlock(&h->lock);
	pthread_mutex_unlock(&h->say);
}

/* Asks the kernel who is at the other end. */
static bool identify_caller(struct http *h, int fd, struct http_caller *who)
{
	struct ucred cred;
	socklen_t bytes = sizeof(cred);

	*who = (struct http_caller){.uid = (uid_t)-1};
	if (!h->is_unix)
		return fd < 0;
	if (fd < 0 || !http_listen_accepted(h, fd))
		return false;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes))
		return true;
	who->uid = cred.uid;
	who->pid = cred.pid;
	if (h->opts.identify)
		h->opts.identify(h->opts.identify_arg, fd, who);
	else
		who->role = !cred.uid || cred.uid == geteuid() ? HTTP_ADMIN : HTTP_READER;
	return true;
}

/*
 * Reads what the front says about the client, in addition to what the kernel says about local
 * users.
 */
static int take_open(struct http_channel *ch, const struct http_message *m, struct http_slot *slot)
{
	struct http_message_open *from = &slot->from;
	int err;

	*from = (struct http_message_open){0};
	if (!m->bytes)
		return 0;
	if (m->bytes < sizeof(*from))
		return -EPROTO;
	err = http_message_take(ch->fd, from, sizeof(*from));
	if (err)
		return err;
	if (from->names > HTTP_MESSAGE_NAMES || m->bytes != sizeof(*from) + from->names)
		return -EPROTO;
	if (!from->names)
		return 0;
	slot->names = malloc(from->names);
	if (!slot->names)
		return -ENOMEM;
	err = http_message_take(ch->fd, slot->names, from->names);
	return err ?: slot->names[from->names - 1] ? -EPROTO : 0;
}

static int on_open(struct http_channel *ch, const struct http_message *m, int fd)
{
	struct http *h = ch->http;
	const uint32_t most = http_slots(h->opts.max_connections, h->opts.threads);
	struct http_slot *slot;
	int err;

	/*
	 * The next connection of a slot may be announced on another channel before this channel
	 * announces that the previous one has closed.
	 */
	slot = m->slot < most ? &ch->slots[m->slot] : NULL;
	if (!slot || slot->open || relaxed_load(h->open) >= 2 * most)
		return -EPROTO;
	err = take_open(ch, m, slot);
	if (!err && !identify_caller(h, fd, &slot->caller))
		err = -EPROTO;
	if (err) {
		free(slot->names);
		slot->names = NULL;
		return err;
	}
	slot->open = true;
	slot->caller.connection = __atomic_add_fetch(&h->connections, 1, __ATOMIC_RELAXED);
	relaxed_add(h->open, 1);
	return 0;
}

static void close_slot(struct http_channel *ch, struct http_slot *slot)
{
	struct http *h = ch->http;

	end_request(slot);
	if (h->opts.forget)
		h->opts.forget(h->opts.identify_arg, &slot->caller);
	free(slot->names);
	slot->names = NULL;
	slot->open = false;
	relaxed_sub(h->open, 1);
}

static int on_sign(struct http_channel *ch, const struct http_message *m)
{
	unsigned char data[HTTP_MESSAGE_SIGN], signature[HTTP_SIGNATURE];
	struct http_message answer = {.type = HTTP_BROKEN};
	ssize_t n;
	int err;

	if (m->bytes > sizeof(data))
		return -EPROTO;
	err = http_message_take(ch->fd, data, m->bytes);
	if (err)
		return err;
	n = http_guard_sign(ch->http, m->arg, m->slot, data, m->bytes, signature);
	if (n > 0) {
		answer.type = HTTP_SIGNED;
		answer.bytes = (uint32_t)n;
	}
	return http_message_send(ch->fd, answer, signature, answer.bytes, NULL, 0, NULL, 0);
}

static int dispatch_message(struct http_channel *ch, const struct http_message *m, int fd)
{
	struct http_slot *slot = slot_of(ch, m->slot);

	if (m->type == HTTP_OPEN)
		return on_open(ch, m, fd);
	if (fd >= 0)
		return -EPROTO;
	switch (m->type) {
	case HTTP_ASK:
		return on_ask(ch, m);
	case HTTP_READ:
		return on_read(ch, m);
	case HTTP_AWAIT:
		return on_await(ch, m);
	case HTTP_TAKE:
		return on_take(ch, m);
	case HTTP_DONE: /* ignored if the slot already has another request */
		if (slot && slot->req && slot->req->serial == m->arg)
			end_request(slot);
		return m->bytes ? -EPROTO : 0;
	case HTTP_CLOSE:
		if (slot)
			close_slot(ch, slot);
		return slot && !m->bytes ? 0 : -EPROTO;
	case HTTP_SIGN:
		return on_sign(ch, m);
	case HTTP_REFUSED:
		if (m->slot >= HTTP_REFUSALS || m->bytes)
			return -EPROTO;
		relaxed_add(ch->http->refused[m->slot], m->arg);
		return 0;
	default:
		return -EPROTO;
	}
}

int http_back_serve(struct http_channel *ch)
{
	const uint32_t n = http_slots(ch->http->opts.max_connections, ch->http->opts.threads);
	struct http_message m;
	int fd = -1, err;

	ch->piece = malloc(HTTP_PIECE);
	/* the kernel allocates only pages that are used */
	ch->slots = calloc(n, sizeof(*ch->slots));
	err = ch->piece && ch->slots ? 0 : -ENOMEM;
	while (!err) {
		err = http_message_receive(ch->fd, &m, &fd);
		if (!err)
			err = dispatch_message(ch, &m, fd);
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	for (uint32_t i = 0; ch->slots && i < n; i++) {
		if (!ch->slots[i].open)
			continue;
		close_slot(ch, &ch->slots[i]);
		relaxed_add(ch->http->refused[HTTP_REFUSED_FRONT], 1);
	}
	free(ch->slots);
	free(ch->piece);
	ch->slots = NULL;
	ch->piece = NULL;
	return err == -EPROTO || err == -ENOMEM ? err : 0;
}

/* ---- a front ---- */

static void *serve_channel(void *arg)
{
	struct http_channel *ch = arg;
	struct http *h = ch->http;
	int err = http_back_serve(ch);

	if (err)
		base_logf(BASE_ERROR, "http", "terminating the process that serves clients: %s",
			  err == -EPROTO ? "it sent an invalid message" : strerror(-err));
	pthread_mutex_lock(&h->lock);
	if (h->control >= 0)
		http_message_hang_up(h->control); /* the keeper handles the rest */
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

/* Closes the channels and frees their slots. */
static void end_channels(struct http *h)
{
	for (unsigned int i = 0; i < http_channels(h); i++)
		if (h->channels[i].fd >= 0)
			http_message_hang_up(h->channels[i].fd);
	for (unsigned int i = 0; i < http_channels(h); i++) {
		struct http_channel *ch = &h->channels[i];

		if (ch->runs)
			pthread_join(ch->thread, NULL);
		if (ch->fd >= 0)
			close(ch->fd);
		*ch = (struct http_channel){.http = h, .fd = -1};
	}
	pthread_mutex_lock(&h->lock);
	if (h->control >= 0)
		close(h->control);
	h->control = -1;
	pthread_mutex_unlock(&h->lock);
}

/*
 * Waits until the front reports whether it has started. Returns 0, or -errno with one line in
 * error.
 */
static int await_start(struct http *h, char *error, size_t bytes)
{
	struct pollfd p = {.fd = h->control, .events = POLLIN};
	char text[HTTP_FAILED_TEXT] = "it did not start";
	uint64_t end = base_now_ns() + START_MS * 1000000ull;
	struct http_message m;
	int n;

	do
		n = poll(&p, 1, START_MS);
	while (n < 0 && errno == EINTR && base_now_ns() < end);
	if (n > 0 && !http_message_receive(h->control, &m, NULL)) {
		if (m.type == HTTP_READY && !m.bytes)
			return 0;
		if (m.type == HTTP_FAILED && m.bytes < sizeof(text) &&
		    !http_message_take(h->control, text, m.bytes))
			return base_fail(error, bytes, -EIO, "%.*s", (int)m.bytes, text);
	}
	return base_fail(error, bytes, -EIO, "the process that serves clients at %s did not start",
			 h->address);
}

static int make_channels(struct http *h, int *theirs, size_t *n)
{
	int pair[2];

	for (int i = -1; i < (int)http_channels(h); i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
			return -errno;
		theirs[(*n)++] = pair[1];
		if (i >= 0) {
			h->channels[i].fd = pair[0];
			continue;
		}
		pthread_mutex_lock(&h->lock);
		h->control = pair[0];
		pthread_mutex_unlock(&h->lock);
	}
	return 0;
}

/*
 * Starts a front, and a thread for each of its channels. Returns 0, or -errno with one line in
 * error.
 */
static int launch_front(struct http *h, char *error, size_t bytes)
{
	struct http_front_config c = {.threads = h->opts.threads,
				      .max_connections = h->opts.max_connections,
				      .timeout_s = h->opts.timeout_s,
				      .is_unix = h->is_unix,
				      .tls = h->web && h->web->tls,
				      .tells = h->web != NULL,
				      .max_body = h->opts.max_body};
	int fds[HTTP_THREADS + 3] = {h->listen_fd}, err, told;
	size_t n = 1;

	memcpy(c.address, h->address, sizeof(c.address));
	err = make_channels(h, fds, &n);
	err = err ?: http_front_spawn(h->front, &c, fds, n);
	while (n > 1)
		close(fds[--n]);
	told = err ? 0 : http_guard_tell(h);
	err = err ?: told == -EPIPE ? 0 : told; /* a front that exited has reported the reason */
	if (err)
		base_fail(error, bytes, err, "cannot start the HTTP server on %s: %s", h->address,
			  strerror(-err));
	else
		err = await_start(h, error, bytes);
	for (unsigned int i = 0; i < http_channels(h) && !err; i++) {
		struct http_channel *ch = &h->channels[i];

		err = -pthread_create(&ch->thread, NULL, serve_channel, ch);
		ch->runs = !err;
		if (err)
			base_fail(error, bytes, err, "cannot start the HTTP server: %s",
				  strerror(-err));
		else
			pthread_setname_np(ch->thread, "sl-http");
	}
	if (err)
		end_channels(h);
	return err;
}

/* ---- the keeper ---- */

/* Returns true if the server is stopping. */
static bool pause_for(struct http *h, uint64_t ns)
{
	uint64_t until = base_now_ns() + ns;
	bool stopping;

	pthread_mutex_lock(&h->lock);
	while (!h->stopping && base_now_ns() < until)
		base_cond_wait(&h->wake, &h->lock, until);
	stopping = h->stopping;
	pthread_mutex_unlock(&h->lock);
	return stopping;
}

/* Waits until the front exits or is stopped. */
static void watch_front(struct http *h)
{
	struct pollfd p = {.fd = h->control, .events = POLLIN};
	int n;

	do {
		n = poll(&p, 1, h->web ? LOOK_MS : -1);
		if (!n)
			http_guard_poll(h);
	} while (!n || (n < 0 && errno == EINTR));
}

static void *keep_front(void *arg)
{
	uint64_t born = base_now_ns();
	struct http *h = arg;
	char error[256];
	int err;

	for (;;) {
		watch_front(h);
		end_channels(h);
		if (pause_for(h, base_now_ns() - born < 1000000000u ? PAUSE_NS : 0) ||
		    !http_front_ended(h->front))
			return NULL;
		for (;;) {
			born = base_now_ns();
			err = launch_front(h, error, sizeof(error));
			if (!err)
				break;
			/* its spawners have exited, so this process is exiting */
			if (err == -EPIPE)
				return NULL;
			base_log_limited(BASE_ERROR, "http", "%s", error);
			if (pause_for(h, PAUSE_NS))
				return NULL;
		}
		/* If a stop was requested meanwhile, there was no front to stop. */
		if (pause_for(h, 0)) {
			end_channels(h);
			return NULL;
		}
	}
}

/* ---- start and stop ---- */

static void set_opts(struct http *h, const struct http_opts *opts)
{
	h->opts = *opts;
	h->opts.max_connections = opts->max_connections ? opts->max_connections : 256;
	h->opts.max_body = opts->max_body ? opts->max_body : 64 * 1024;
	h->opts.timeout_s = opts->timeout_s ? opts->timeout_s : 30;
	h->opts.threads = opts->threads ? BASE_MIN(opts->threads, HTTP_THREADS) : 2;
	h->opts.query_concurrency = opts->query_concurrency
					    ? BASE_MIN(opts->query_concurrency, HTTP_THREADS)
					    : 2;
	h->opts.query_timeout_ns = opts->query_timeout_ns ?: 10000000000u;
	h->opts.query_samples = opts->query_samples ?: 50000000;
	h->queue.end = &h->queue.first;
	pthread_mutex_init(&h->queue.lock, NULL);
	pthread_cond_init(&h->queue.wake, NULL);
	h->opts.listen = NULL; /* the string belongs to the caller */
	h->refused = opts->refused ? opts->refused : h->own_refused;
	h->control = -1;
	h->front = opts->front;
	pthread_mutex_init(&h->say, NULL);
	pthread_rwlock_init(&h->web_lock, NULL);
	pthread_mutex_init(&h->users.lock, NULL);
}

static int set_channels(struct http *h, char *error, size_t error_bytes)
{
	h->channels = calloc(http_channels(h), sizeof(*h->channels));
	if (!h->channels)
		return base_fail(error, error_bytes, -ENOMEM, "out of memory");
	for (unsigned int i = 0; i < http_channels(h); i++)
		h->channels[i] = (struct http_channel){.http = h, .fd = -1};
	return 0;
}

/* Forks a process that starts fronts. */
static int own_front(struct http *h, char *error, size_t error_bytes)
{
	h->front = http_front_fork(false);
	h->own_front = h->front;
	return h->front ? 0
			: base_fail(error, error_bytes, -errno,
				    "cannot start the HTTP server on %s: %s", h->address,
				    strerror(errno));
}

struct http *http_new(const struct http_opts *opts, char *error, size_t error_bytes)
{
	struct http *h = calloc(1, sizeof(*h));
	int e;

	if (!h) {
		errno = base_fail(error, error_bytes, ENOMEM, "out of memory");
		return NULL;
	}
	set_opts(h, opts);
	e = http_listen(h, opts->listen ? opts->listen : "", error, error_bytes);
	if (!e) {
		/* Fork before reading files, so that the front has no copy of their contents. */
		e = h->opts.front ? 0 : own_front(h, error, error_bytes);
		e = e ?: http_guard_init(h, error, error_bytes);
		e = e ?: set_channels(h, error, error_bytes);
		e = e ?: http_access_init(h, error, error_bytes);
		if (e)
			http_unlisten(h);
	}
	if (e) {
		if (h->own_front)
			http_front_end(h->front);
		free(h->channels);
		http_guard_end(h);
		free(h);
		errno = -e;
		return NULL;
	}
	pthread_mutex_init(&h->lock, NULL);
	base_cond_init(&h->wake);
	return h;
}

int http_start(struct http *h, char *error, size_t error_bytes)
{
	int e;

	if (h->started)
		return -EBUSY;
	e = http_queue_start(h);
	if (e)
		return base_fail(error, error_bytes, e, "cannot start the HTTP server: %s",
				 strerror(-e));
	e = launch_front(h, error, error_bytes);
	if (e)
		return e;
	e = pthread_create(&h->keeper, NULL, keep_front, h);
	if (e) {
		end_channels(h);
		return base_fail(error, error_bytes, -e, "cannot start the HTTP server: %s",
				 strerror(e));
	}
	pthread_setname_np(h->keeper, "sl-http-keeper");
	h->started = true;
	return 0;
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
	if (h->started) {
		pthread_mutex_lock(&h->lock);
		h->stopping = true;
		if (h->control >= 0)
			http_message_hang_up(h->control);
		pthread_cond_signal(&h->wake);
		pthread_mutex_unlock(&h->lock);
		pthread_join(h->keeper, NULL);
	}
	http_queue_stop(h);
	http_front_stop(h->front); /* the address can be reused after this */
	if (h->own_front)
		http_front_end(h->front);
	http_unlisten(h);
	free(h->channels);
	http_routes_free(h);
	http_guard_end(h);
	pthread_cond_destroy(&h->wake);
	pthread_mutex_destroy(&h->lock);
	free(h);
}
