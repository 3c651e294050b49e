// SPDX-License-Identifier: Apache-2.0
/*
 * relay.c - stands between local users and libmicrohttpd on a unix socket.
 *
 * Bytes on a unix socket may bring descriptors. The kernel closes those that recv() does not take,
 * and those unread when the connection is closed, on the thread that calls; a close may hang: that
 * of a TCP socket waits for its peer if SO_LINGER says so. So each connection has a thread here
 * that alone reads and closes it, and carries its bytes to and from a socket pair that
 * libmicrohttpd serves. What hangs is that thread, until the front ends.
 *
 * Threads are shared out between users. A connection for which its user may have no thread is shut
 * at once, and closed by the next of the user's threads that ends.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/relaxed.h"
#include "base/share.h"
#include "http/front.h"

#define PIECE	     8192u
#define STACK_BYTES  (64u * 1024)
#define THREADS_PART 4u /* times the most connections: some are being closed */

struct http_relay {
	struct http_relay *next;
	struct http_server *server;
	int client, ours, theirs; /* theirs: libmicrohttpd's; -1: not any more */
	bool used;		  /* a struct http_connection has the client's */
	uid_t uid;
};

/* One direction. */
struct flow {
	int from, to;
	bool ended, lost; /* nothing more comes; nothing more is taken */
	size_t at, bytes;
	char data[PIECE];
};

/* ---- bytes ---- */

static void take(struct flow *f)
{
	ssize_t n = recv(f->from, f->data, sizeof(f->data), MSG_DONTWAIT);

	f->at = 0;
	f->bytes = n > 0 ? (size_t)n : 0;
	f->ended = !n || (n < 0 && !http_message_again(errno) && errno != EAGAIN);
}

static void give(struct flow *f)
{
	ssize_t n = send(f->to, f->data + f->at, f->bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n >= 0) {
		f->at += (size_t)n;
		f->bytes -= (size_t)n;
	} else if (!http_message_again(errno) && errno != EAGAIN) {
		f->lost = true;
	}
}

static void move(struct flow *f)
{
	if (!f->bytes && !f->ended)
		take(f);
	if (f->bytes && !f->lost)
		give(f);
	if (f->lost)
		f->bytes = 0;
}

/* A descriptor of which nothing is wanted would wake poll() for ever once it is hung up. */
static struct pollfd wanted(int fd, const struct flow *in, const struct flow *out)
{
	short events = (short)((!in->bytes && !in->ended ? POLLIN : 0) |
			       (out->bytes ? POLLOUT : 0));

	return (struct pollfd){.fd = events ? fd : -1, .events = events};
}

/*
 * Until libmicrohttpd has closed its end and the client has what it sent, or the client is gone.
 * One that takes no byte for as long as a connection may idle, or the rest not in ten times as
 * long, is shut.
 */
static void carry(const struct http_relay *r)
{
	const uint64_t idle_ns = r->server->c.timeout_s * 1000000000ull;
	struct flow up = {.from = r->client, .to = r->ours};
	struct flow down = {.from = r->ours, .to = r->client};
	uint64_t end = UINT64_MAX;
	bool told = false, gone = false;

	while (down.bytes || (!down.ended && !(gone && up.ended && !up.bytes))) {
		struct pollfd p[2] = {wanted(r->client, &up, &down), wanted(r->ours, &down, &up)};
		int n = poll(p, 2, down.bytes ? (int)(idle_ns / 1000000u) : -1);

		move(&up);
		if ((!n && down.bytes) || base_now_ns() > end)
			down.lost = true;
		move(&down);
		if (down.lost)
			shutdown(r->client, SHUT_RDWR);
		gone |= down.lost || (p[0].revents & POLLHUP);
		/* It may want the answer yet. */
		if (up.ended && !up.bytes && !told)
			told = !shutdown(r->ours, SHUT_WR);
		if (down.ended && end == UINT64_MAX)
			end = base_now_ns() + 10 * idle_ns;
	}
}

/* ---- threads ---- */

/* What was sent before the end is taken here: closing the last copy then closes nothing else. */
static void finish(int client)
{
	char data[256];

	shutdown(client, SHUT_RDWR);
	while (recv(client, data, sizeof(data), MSG_DONTWAIT) > 0)
		;
	close(client);
}

/* A connection of this user that was shut for want of a thread, or -1. Under the lock. */
static int parked(struct http_server *s, uid_t uid)
{
	for (struct http_relay **at = &s->parked, *r; (r = *at); at = &r->next) {
		int fd = r->client;

		if (r->uid != uid)
			continue;
		*at = r->next;
		s->parked_count--;
		free(r);
		return fd;
	}
	return -1;
}

/* Under the lock. */
static void leave(struct http_server *s, const struct http_relay *r)
{
	struct http_relay **at = &s->relays;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	s->relay_count--;
}

static void *run(void *arg)
{
	struct http_relay *r = arg;
	struct http_server *s = r->server;
	int client = r->client;

	prctl(PR_SET_NAME, "sl-http-relay");
	carry(r);
	shutdown(r->ours, SHUT_RDWR); /* half of it might go unnoticed */
	pthread_mutex_lock(&s->lock);
	r->theirs = -1;
	while (r->used)
		pthread_cond_wait(&s->relay_left, &s->lock);
	pthread_mutex_unlock(&s->lock);
	close(r->ours);
	while (client >= 0) {
		finish(client);
		pthread_mutex_lock(&s->lock);
		client = parked(s, r->uid);
		if (client < 0)
			leave(s, r);
		pthread_mutex_unlock(&s->lock);
	}
	free(r);
	return NULL;
}

static bool start(struct http_relay *r)
{
	pthread_attr_t attr;
	pthread_t thread;
	bool ok;

	if (pthread_attr_init(&attr))
		return false;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	ok = !pthread_create(&thread, &attr, run, r);
	pthread_attr_destroy(&attr);
	return ok;
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

void http_relay_leave(struct http_server *s, struct http_relay *r)
{
	r->used = false;
	pthread_cond_broadcast(&s->relay_left);
}

/* Counts it, if it may have a thread. */
static bool enter(struct http_server *s, struct http_relay *r)
{
	struct base_share all = {.capacity = (uint64_t)THREADS_PART * s->c.max_connections};
	uint64_t held = 0;
	bool may;

	pthread_mutex_lock(&s->lock);
	all.used = s->relay_count;
	all.reserve = all.capacity / BASE_SHARE_RESERVE;
	for (const struct http_relay *o = s->relays; o; o = o->next)
		held += o->uid == r->uid;
	may = base_share_may(&all, held, 1, !r->uid || r->uid == s->own_uid);
	if (may) {
		r->next = s->relays;
		s->relays = r;
		s->relay_count++;
	}
	pthread_mutex_unlock(&s->lock);
	return may;
}

/* It is not closed here: that may hang. Too many of them end the front, and another begins. */
static void park(struct http_server *s, struct http_relay *r)
{
	shutdown(r->client, SHUT_RDWR);
	relaxed_add(s->refused[HTTP_REFUSED_CONNECTION], 1);
	pthread_mutex_lock(&s->lock);
	r->next = s->parked;
	s->parked = r;
	if (++s->parked_count > s->parked_max) {
		base_logf(BASE_WARN, "http",
			  "what a user sent cannot be closed, and connections run out: ends "
			  "uid=%u",
			  (unsigned int)r->uid);
		http_front_gone();
	}
	pthread_mutex_unlock(&s->lock);
}

static void serve(struct http_relay *r)
{
	const struct sockaddr unix_address = {.sa_family = AF_UNIX};
	struct http_server *s = r->server;
	int pair[2], mine = s->accepted++ & 1; /* libmicrohttpd chooses a thread by the number */

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair)) {
		park(s, r);
		return;
	}
	r->ours = pair[mine];
	r->theirs = pair[!mine];
	if (enter(s, r)) {
		if (start(r)) { /* which frees it, once the other end is closed */
			MHD_add_connection(s->daemon, pair[!mine], &unix_address,
					   sizeof(unix_address));
			return;
		}
		pthread_mutex_lock(&s->lock);
		leave(s, r);
		pthread_mutex_unlock(&s->lock);
	}
	close(pair[0]);
	close(pair[1]);
	park(s, r);
}

static void *accept_all(void *arg)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	struct http_server *s = arg;

	prctl(PR_SET_NAME, "sl-http-accept");
	for (;;) {
		struct http_relay *r = NULL;
		struct ucred who = {.uid = (uid_t)-1};
		socklen_t bytes = sizeof(who);
		struct pollfd p = {.fd = s->listen_fd, .events = POLLIN};
		int fd;

		poll(&p, 1, -1);
		/* Memory first: a connection without it could not even be kept. */
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
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes);
		*r = (struct http_relay){.server = s, .client = fd, .uid = who.uid};
		serve(r);
	}
	return NULL;
}

int http_relay_start(struct http_server *s)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, accept_all, s);
}
