// SPDX-License-Identifier: Apache-2.0
/*
 * relay.c - relays data between clients and libmicrohttpd, for unix sockets and for TLS.
 *
 * Data on a unix socket may carry descriptors. The kernel closes descriptors that recv() does not
 * accept, and unread descriptors when the socket is closed, in the calling thread. Such a close may
 * hang; for example, closing a TCP socket with SO_LINGER waits for the peer. Each connection
 * therefore has its own thread here. Only this thread reads and closes the client's socket; it
 * copies data to and from a socket pair that libmicrohttpd serves. A hanging close blocks only this
 * thread, until the front exits.
 *
 * With TLS, the thread performs the handshake and the encryption, so libmicrohttpd is not involved.
 * A handshake has a time limit, whatever the client sends; a failed handshake costs only its
 * thread.
 *
 * Threads are shared fairly between users or addresses. If a user may have no further thread, its
 * new connection is shut down immediately, and is closed by the user's next thread that exits; with
 * TLS it is closed immediately.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/relaxed.h"
#include "base/share.h"
#include "base/thread.h"
#include "http/front.h"

#define PIECE	    8192u
#define STACK_BYTES (256u * 1024)  /* includes the thread-local memory of all libraries */
#define SHAKE_NS    10000000000ull /* time limit of a handshake */

struct http_relay {
	struct http_relay *next;
	struct http_server *server;
	int client, ours, theirs; /* theirs: libmicrohttpd's end; -1 means closed */
	bool used;		  /* a struct http_connection refers to the client's descriptor */
	struct http_peer who;
	struct http_tls_session tls; /* .session is NULL for a unix socket */
};

/* One direction of a connection. */
struct flow {
	int from, to;
	struct http_tls_session *received, *sent; /* sessions of the TLS side, or NULL */
	bool ended, lost; /* ended: no more input; lost: no more output is possible */
	size_t at, bytes;
	char data[PIECE];
};

/* ---- bytes ---- */

static void take_bytes(struct flow *f)
{
	ssize_t n = f->received ? http_tls_recv(f->received, f->data, sizeof(f->data))
				: recv(f->from, f->data, sizeof(f->data), MSG_DONTWAIT);

	f->at = 0;
	f->bytes = n > 0 ? (size_t)n : 0;
	f->ended = !n || (n < 0 && !http_message_again(errno) && errno != EAGAIN);
}

static void give_bytes(struct flow *f)
{
	ssize_t n = f->sent ? http_tls_send(f->sent, f->data + f->at, f->bytes)
			    : send(f->to, f->data + f->at, f->bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n >= 0) {
		f->at += (size_t)n;
		f->bytes -= (size_t)n;
	} else if (!http_message_again(errno) && errno != EAGAIN) {
		f->lost = true;
	}
}

static void move_bytes(struct flow *f)
{
	if (!f->bytes && !f->ended)
		take_bytes(f);
	if (f->bytes && !f->lost)
		give_bytes(f);
	if (f->lost)
		f->bytes = 0;
}

/*
 * Returns the events to wait for. A descriptor that is not needed is left out, because poll() would
 * return immediately each time once it is hung up.
 */
static struct pollfd wanted_events(int fd, const struct flow *in, const struct flow *out)
{
	short events = (short)((!in->bytes && !in->ended ? POLLIN : 0) |
			       (out->bytes ? POLLOUT : 0));

	return (struct pollfd){.fd = events ? fd : -1, .events = events};
}

/*
 * Copies data until libmicrohttpd has closed its end and the client has received everything, or the
 * client is gone. Shuts down a client that accepts no byte for the idle timeout, or that does not
 * accept the remainder within ten times the idle timeout.
 */
static void carry_bytes(struct http_relay *r)
{
	struct http_tls_session *tls = r->tls.session ? &r->tls : NULL;
	const uint64_t idle_ns = r->server->c.timeout_s * 1000000000ull;
	struct flow up = {.from = r->client, .to = r->ours, .received = tls};
	struct flow down = {.from = r->ours, .to = r->client, .sent = tls};
	uint64_t end = UINT64_MAX;
	bool told = false, gone = false;

	while (down.bytes || (!down.ended && !(gone && up.ended && !up.bytes))) {
		struct pollfd p[2] = {wanted_events(r->client, &up, &down),
				      wanted_events(r->ours, &down, &up)};
		bool more = tls && !up.bytes && !up.ended && http_tls_pending(tls);
		int n = poll(p, 2, more ? 0 : down.bytes ? (int)(idle_ns / 1000000u) : -1);

		move_bytes(&up);
		if ((!n && !more && down.bytes) || base_now_ns() > end)
			down.lost = true;
		move_bytes(&down);
		if (down.lost)
			shutdown(r->client, SHUT_RDWR);
		gone |= down.lost || (p[0].revents & POLLHUP);
		/* The client may still expect an answer, so close only one direction. */
		if (up.ended && !up.bytes && !told)
			told = !shutdown(r->ours, SHUT_WR);
		if (down.ended && end == UINT64_MAX)
			end = base_now_ns() + 10 * idle_ns;
	}
	if (tls && !down.lost)
		http_tls_bye(tls);
}

/* ---- threads ---- */

/*
 * Reads pending data first, so that closing the last descriptor does not close other descriptors.
 */
static void finish_client(int client)
{
	char data[256];

	shutdown(client, SHUT_RDWR);
	while (recv(client, data, sizeof(data), MSG_DONTWAIT) > 0)
		;
	close(client);
}

/*
 * Returns a connection of this user that was shut down because no thread was available, or -1. The
 * caller holds the lock.
 */
static int take_parked(struct http_server *s, const struct http_peer *who)
{
	for (struct http_relay **at = &s->parked, *r; (r = *at); at = &r->next) {
		int fd = r->client;

		if (!http_peer_same(&r->who, who))
			continue;
		*at = r->next;
		s->parked_count--;
		free(r);
		return fd;
	}
	return -1;
}

/* Removes the relay from the server's list. The caller holds the lock. */
static void unlist_relay(struct http_server *s, const struct http_relay *r)
{
	struct http_relay **at = &s->relays;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	s->relay_count--;
}

/*
 * While a thread of libmicrohttpd waits for the back, it takes no connection, and those assigned to
 * it are queued. They count from now on, so that the queue has a limit: see start_daemon().
 */
static void give_connection(struct http_server *s, int fd)
{
	const struct sockaddr address = {.sa_family = AF_UNIX};

	relaxed_add(s->sockets, 1);
	if (MHD_add_connection(s->daemon, fd, &address, sizeof(address)) != MHD_YES)
		relaxed_sub(s->sockets, 1);
}

/* Returns false, after logging the reason, if the handshake failed. */
static bool shake_hands(struct http_relay *r)
{
	struct http_server *s = r->server;
	const uint64_t most = BASE_MIN(SHAKE_NS, s->c.timeout_s * 1000000000ull);
	int one = 1;
	char peer[64];

	pthread_mutex_lock(&s->lock);
	r->tls.tls = http_tls_hold(s->tls);
	pthread_mutex_unlock(&s->lock);
	setsockopt(r->client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (!http_tls_shake(&r->tls, r->client, base_now_ns() + most)) {
		give_connection(s, r->theirs);
		return true;
	}
	http_peer_print(r->client, peer, sizeof(peer));
	base_log_limited(BASE_WARN, "http", "%s peer=%s error=%s",
			 r->tls.certificate_refused ? "the client's certificate was rejected"
						    : "the TLS handshake failed",
			 peer, r->tls.why);
	http_front_refused(s, r->tls.certificate_refused ? HTTP_REFUSED_CERTIFICATE
							 : HTTP_REFUSED_HANDSHAKE);
	close(r->theirs);
	return false;
}

static void *run_relay(void *arg)
{
	struct http_relay *r = arg;
	struct http_server *s = r->server;
	int client = r->client;

	prctl(PR_SET_NAME, "sl-http-relay");
	if (!s->c.tls || shake_hands(r))
		carry_bytes(r);
	/* wakes libmicrohttpd, which might miss a half-closed socket */
	shutdown(r->ours, SHUT_RDWR);
	pthread_mutex_lock(&s->lock);
	r->theirs = -1;
	while (r->used)
		pthread_cond_wait(&s->relay_left, &s->lock);
	pthread_mutex_unlock(&s->lock);
	close(r->ours);
	while (client >= 0) {
		finish_client(client);
		pthread_mutex_lock(&s->lock);
		client = take_parked(s, &r->who);
		if (client < 0)
			unlist_relay(s, r);
		pthread_mutex_unlock(&s->lock);
	}
	http_tls_end(&r->tls);
	free(r);
	return NULL;
}

/* ---- connections ---- */

struct http_relay *http_relay_enter(struct http_server *s, int fd, int *client)
{
	for (struct http_relay *r = s->relays; r; r = r->next)
		if (r->theirs == fd) {
			r->used = true;
			*client = r->client;
			return r;
		}
	return NULL;
}

struct http_message_open http_relay_who(const struct http_relay *r, const char **names)
{
	*names = r->tls.names;
	return r->tls.who;
}

void http_relay_leave(struct http_server *s, struct http_relay *r)
{
	r->used = false;
	pthread_cond_broadcast(&s->relay_left);
}

static bool own_or_root(const struct http_server *s, const struct http_relay *r)
{
	return !r->who.uid || r->who.uid == s->own_uid;
}

/* Counts the connection if its user may have another thread. */
static bool count_relay(struct http_server *s, struct http_relay *r)
{
	struct base_share all = {.capacity = (uint64_t)HTTP_RELAYS_PART * s->c.max_connections};
	uint64_t held = 0;
	bool may;

	pthread_mutex_lock(&s->lock);
	all.used = s->relay_count;
	all.reserve = all.capacity / BASE_SHARE_RESERVE;
	http_peer_identify(s, r->client, &r->who);
	for (const struct http_relay *o = s->relays; o; o = o->next)
		held += http_peer_same(&o->who, &r->who);
	may = base_share_may(&all, held, 1, own_or_root(s, r));
	if (may) {
		r->next = s->relays;
		s->relays = r;
		s->relay_count++;
	}
	pthread_mutex_unlock(&s->lock);
	return may;
}

/*
 * Keeps a connection that has been shut down but is not closed here, because close() may hang. If
 * there are too many such connections, the front exits and a new one starts.
 */
static void park_relay(struct http_server *s, struct http_relay *r)
{
	shutdown(r->client, SHUT_RDWR);
	http_front_refused(s, HTTP_REFUSED_CONNECTION);
	if (s->c.tls) { /* TCP connections carry no descriptors */
		close(r->client);
		free(r);
		return;
	}
	pthread_mutex_lock(&s->lock);
	r->next = s->parked;
	s->parked = r;
	if (++s->parked_count > s->parked_max) {
		base_logf(BASE_WARN, "http",
			  "too many connections of one user are blocked while closing: restarting "
			  "the process uid=%u",
			  (unsigned int)r->who.uid);
		http_front_gone();
	}
	pthread_mutex_unlock(&s->lock);
}

static void serve_client(struct http_relay *r)
{
	struct http_server *s = r->server;
	/* libmicrohttpd selects a thread by descriptor number */
	int pair[2], mine = s->accepted++ & 1;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair)) {
		park_relay(s, r);
		return;
	}
	r->ours = pair[mine];
	r->theirs = pair[!mine];
	if (count_relay(s, r)) {
		/* The thread frees r once the other end is closed. */
		if (!base_thread_detach(run_relay, r, STACK_BYTES)) {
			if (!s->c.tls) /* with TLS, the thread does this after the handshake */
				give_connection(s, pair[!mine]);
			return;
		}
		pthread_mutex_lock(&s->lock);
		unlist_relay(s, r);
		pthread_mutex_unlock(&s->lock);
	}
	close(pair[0]);
	close(pair[1]);
	park_relay(s, r);
}

static void *accept_all(void *arg)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	struct http_server *s = arg;

	prctl(PR_SET_NAME, "sl-http-accept");
	for (;;) {
		struct http_relay *r = NULL;
		struct pollfd p = {.fd = s->listen_fd, .events = POLLIN};
		int fd;

		poll(&p, 1, -1);
		/* Allocate first: if out of memory, the connection could not even be kept. */
		r = calloc(1, sizeof(*r));
		fd = r ? accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
		if (fd < 0) {
			if (!r || errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
			    errno == ENOBUFS) {
				http_front_short_of(r ? "descriptor" : "memory");
				nanosleep(&pause, NULL);
			}
			free(r);
			continue;
		}
		*r = (struct http_relay){.server = s, .client = fd};
		serve_client(r);
	}
	return NULL;
}

int http_relay_start(struct http_server *s)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, accept_all, s);
}
