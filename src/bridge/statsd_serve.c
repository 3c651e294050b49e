// SPDX-License-Identifier: Apache-2.0
/*
 * statsd_serve.c - receives packets on the StatsD sockets. Counts packets that the kernel dropped
 * because a buffer was full (SO_RXQ_OVFL, socket(7)). Unix sockets and connections drop none,
 * because their senders wait.
 *
 * A connection carries either lines, or packets preceded by a 4-byte little-endian length, as
 * DogStatsD sends them to stream sockets. Lengths are below 65536, so their upper bytes are NUL,
 * which never occurs in lines.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/network.h"
#include "bridge/source.h"
#include "bridge/statsd.h"
#include "http/http.h"

#define LOG	     "statsd"
#define SECOND_NS    1000000000ull
#define CELLS	     4096u /* size of the first region */
#define PACKETS	     32u
#define PACKET_BYTES 65536u
#define CLIENTS	     256u
#define BUFFER_BYTES (8 << 20) /* kernel buffer per socket; limited by net.core.rmem_max */

/* If the address has this prefix, advances *at beyond it. */
static bool take_prefix(const char **at, const char *prefix)
{
	const size_t n = strlen(prefix);

	if (strncmp(*at, prefix, n))
		return false;
	*at += n;
	return true;
}

/* "unix-stream:PATH" is checked like "unix:PATH", and "tcp:HOST:PORT" like "HOST:PORT". */
int bridge_statsd_check(const char *at, char *error, size_t bytes)
{
	const char *plain = at;
	int local;

	take_prefix(&plain, "tcp:");
	local = take_prefix(&plain, "unix-stream:") ? (*plain ? 1 : -EINVAL)
						    : http_is_local(plain, error, bytes);

	if (local < 0)
		return base_fail(
			error, bytes, -EINVAL,
			"--statsd '%s': expected an address such as 127.0.0.1:8125, tcp:127.0.0.1:8125, "
			"unix:/PATH or unix-stream:/PATH",
			at);
	return local ? 0
		     : base_fail(error, bytes, -EINVAL,
				 "--statsd '%s': StatsD has no authentication, so only this host "
				 "may send: listen on loopback or a Unix socket",
				 at);
}

static int listen_inet(const char *at, int type, char *error, size_t bytes)
{
	const int size = BUFFER_BYTES, one = 1;
	struct addrinfo *list;
	const char *why = base_resolve(at, "127.0.0.1", type, &list);
	int fd = -1, err = 0;

	if (why)
		return base_fail(error, bytes, -EINVAL, "--statsd '%s': %s", at, why);
	for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd >= 0 && type == SOCK_STREAM)
			setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (fd >= 0 && (bind(fd, a->ai_addr, a->ai_addrlen) ||
				(type == SOCK_STREAM && listen(fd, SOMAXCONN)))) {
			err = -errno;
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(list);
	if (fd < 0)
		return base_fail(error, bytes, err, "--statsd %s: %s", at, strerror(-err));
	if (type == SOCK_DGRAM) {
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
		setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &one, sizeof(one));
	}
	return fd;
}

int bridge_statsd_listen(const char *at, char *error, size_t bytes)
{
	if (take_prefix(&at, "unix-stream:"))
		return base_listen_unix(at, SOCK_STREAM, 0666, error, bytes);
	if (take_prefix(&at, "unix:"))
		return base_listen_unix(at, SOCK_DGRAM, 0666, error, bytes);
	return take_prefix(&at, "tcp:") ? listen_inet(at, SOCK_STREAM, error, bytes)
					: listen_inet(at, SOCK_DGRAM, error, bytes);
}

struct client {
	int fd; /* -1 means that this element is free */
	enum { UNKNOWN, LINES, LENGTHS } framing;
	size_t used;
	uint64_t read_ns; /* time when it was accepted or data was last received */
	char *buffer;	  /* PACKET_BYTES */
};

struct serve {
	const struct bridge_worker *w;
	struct sl_publisher *publisher;
	struct bridge_statsd *statsd;
	struct bridge_statsd_counts told;
	struct sl_counter packets, dropped, truncated, lines, malformed, refused, expired, events,
		checks, filtered, untimely, connections, refused_connections;
	struct client clients[CLIENTS];
	uint32_t *drops; /* the kernel's previous drop count for each socket */
	struct mmsghdr m[PACKETS];
	struct iovec v[PACKETS];
	char control[PACKETS][CMSG_SPACE(sizeof(uint32_t))];
	char *buffer;
};

static void take_drops(struct serve *s, size_t socket, struct msghdr *h)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(h);
	uint32_t now;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SO_RXQ_OVFL)
		return;
	memcpy(&now, CMSG_DATA(c), sizeof(now));
	/* The kernel's counter has 32 bits and wraps around. */
	sl_counter_add(s->dropped, (uint32_t)(now - s->drops[socket]));
	s->drops[socket] = now;
}

/* Receives waiting packets up to a limit, so that other sockets get their turn. */
static void receive_packets(struct serve *s, size_t socket, int fd)
{
	const uint64_t now = base_now_ns();
	int n;

	for (unsigned int i = 0; i < PACKETS; i++) {
		s->v[i] = (struct iovec){s->buffer + (size_t)i * PACKET_BYTES, PACKET_BYTES};
		s->m[i].msg_hdr = (struct msghdr){.msg_iov = &s->v[i],
						  .msg_iovlen = 1,
						  .msg_control = s->control[i],
						  .msg_controllen = sizeof(s->control[i])};
	}
	n = recvmmsg(fd, s->m, PACKETS, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++) {
		struct msghdr *h = &s->m[i].msg_hdr;

		take_drops(s, socket, h);
		if (h->msg_flags & MSG_TRUNC)
			sl_counter_inc(s->truncated);
		else
			bridge_statsd_packet(s->statsd, s->v[i].iov_base, s->m[i].msg_len, now);
	}
	if (n > 0)
		sl_counter_add(s->packets, (uint64_t)n);
}

/* ---- connections ---- */

static void close_client(struct client *c)
{
	close(c->fd);
	free(c->buffer);
	*c = (struct client){.fd = -1};
}

/* Returns a free element. If there is none, closes the connection that was idle longest. */
static struct client *free_client(struct serve *s)
{
	struct client *idle = s->clients;

	for (struct client *c = s->clients; c < s->clients + CLIENTS; c++) {
		if (c->fd < 0)
			return c;
		if (c->read_ns < idle->read_ns)
			idle = c;
	}
	if (idle->used)
		sl_counter_inc(s->truncated);
	sl_counter_inc(s->refused_connections);
	close_client(idle);
	return idle;
}

/* If there is no descriptor for the connection, leaves the listener out until the next tick. */
static void accept_client(struct serve *s, struct pollfd *listener)
{
	int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct client *c;

	if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
		base_log_limited(BASE_WARN, LOG, "a connection has to wait error=%s",
				 strerror(errno));
		listener->events = 0;
	}
	if (fd < 0)
		return;
	c = free_client(s);
	c->buffer = malloc(PACKET_BYTES);
	if (!c->buffer) {
		sl_counter_inc(s->refused_connections);
		close(fd);
		return;
	}
	c->fd = fd;
	c->read_ns = base_now_ns();
	sl_counter_inc(s->connections);
}

/* Processes complete packets. Returns the bytes used. Clears *whole if a length is invalid. */
static size_t take_packets(struct serve *s, const struct client *c, bool *whole)
{
	const uint64_t now = base_now_ns();
	size_t at = 0;
	uint32_t n;

	for (; c->used - at >= sizeof(n); at += sizeof(n) + n) {
		memcpy(&n, c->buffer + at, sizeof(n));
		*whole = n <= PACKET_BYTES - sizeof(n);
		if (!*whole || c->used - at - sizeof(n) < n)
			break;
		bridge_statsd_packet(s->statsd, c->buffer + at + sizeof(n), n, now);
		sl_counter_inc(s->packets);
	}
	return at;
}

/* Processes complete lines; the last one needs no newline. Returns the bytes used. */
static size_t take_lines(struct serve *s, const struct client *c, bool ended)
{
	const char *last = memrchr(c->buffer, '\n', c->used);
	size_t n = ended ? c->used : last ? (size_t)(last - c->buffer) + 1 : 0;

	bridge_statsd_packet(s->statsd, c->buffer, n, base_now_ns());
	return n;
}

static void read_client(struct serve *s, struct client *c)
{
	ssize_t n = recv(c->fd, c->buffer + c->used, PACKET_BYTES - c->used, MSG_DONTWAIT);
	const bool ended = n <= 0;
	bool whole = true;
	size_t taken;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	c->used += ended ? 0 : (size_t)n;
	c->read_ns = base_now_ns();
	if (c->framing == UNKNOWN && (c->used >= 4 || ended))
		c->framing = c->used >= 4 && !c->buffer[2] && !c->buffer[3] ? LENGTHS : LINES;
	taken = c->framing == LENGTHS ? take_packets(s, c, &whole)
		: c->framing == LINES ? take_lines(s, c, ended)
				      : 0;
	c->used -= taken;
	memmove(c->buffer, c->buffer + taken, c->used);
	whole = whole && c->used < PACKET_BYTES;
	if (!whole || (ended && c->used))
		sl_counter_inc(s->truncated);
	if (!whole || ended)
		close_client(c);
}

static void add_counts(struct serve *s)
{
	struct bridge_statsd_counts now = bridge_statsd_counts(s->statsd);

	sl_counter_add(s->lines, now.lines - s->told.lines);
	sl_counter_add(s->malformed, now.malformed - s->told.malformed);
	sl_counter_add(s->refused, now.refused - s->told.refused);
	sl_counter_add(s->expired, now.expired - s->told.expired);
	sl_counter_add(s->events, now.events - s->told.events);
	sl_counter_add(s->checks, now.checks - s->told.checks);
	sl_counter_add(s->filtered, now.filtered - s->told.filtered);
	sl_counter_add(s->untimely, now.untimely - s->told.untimely);
	s->told = now;
}

static bool open_serve(struct serve *s, size_t n)
{
#define COUNTER(name, help) \
	bridge_counter(s->w, "sidelight_bridge_statsd_" name "_total", help, NULL, 0)
	s->packets = COUNTER("packets", "Packets received.");
	s->dropped = COUNTER("dropped", "Packets dropped by the kernel because a buffer was full.");
	s->truncated = COUNTER(
		"truncated",
		"Packets, and lines of connections, discarded because they exceed 65536 bytes or "
		"are incomplete.");
	s->lines = COUNTER("lines", "Lines taken.");
	s->malformed = COUNTER("malformed", "Malformed lines.");
	s->refused = COUNTER("refused",
			     "Lines for which there was no room, or whose name has another type.");
	s->expired = COUNTER("expired",
			     "Series removed because they had not been updated for a long time.");
	s->events = COUNTER("events", "Events of DogStatsD, which are not published.");
	s->checks = COUNTER("service_checks",
			    "Service checks of DogStatsD, which are not published.");
	s->filtered = COUNTER("filtered", "Lines dropped by a rule of --statsd-mapping.");
	s->untimely = COUNTER("untimely",
			      "Gauges of DogStatsD left out because their timestamp is more than 5 "
			      "minutes old, or more than 10 minutes ahead.");
	s->connections = COUNTER("connections", "Connections accepted.");
	s->refused_connections = COUNTER("refused_connections",
					 "Connections closed to make room for others.");
#undef COUNTER
	s->publisher = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "statsd",
						  .pod = "statsd", .socket = s->w->o->socket,
						  .max_cells = CELLS, .max_threads = 1));
	s->statsd = bridge_statsd_new(
		s->publisher, &(struct bridge_statsd_opts){
				      .map = s->w->map,
				      .dogstatsd = s->w->o->dialect &&
						   !strcmp(s->w->o->dialect, BRIDGE_DOGSTATSD)});
	for (size_t i = 0; i < CLIENTS; i++)
		s->clients[i].fd = -1;
	s->drops = calloc(n, sizeof(*s->drops));
	s->buffer = malloc((size_t)PACKETS * PACKET_BYTES);
	return s->publisher && s->statsd && s->drops && s->buffer;
}

static bool accepts(int fd)
{
	int yes = 0;

	return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &(socklen_t){sizeof(yes)}) && yes;
}

void bridge_statsd_run(const struct bridge_worker *w)
{
	const int *fds = w->statsd;
	const size_t n = w->statsd_count;
	struct serve *s = calloc(1, sizeof(*s));
	struct pollfd *p = calloc(n + 1 + CLIENTS, sizeof(*p));
	uint64_t tick = 0;

	if (s)
		s->w = w;
	if (!s || !p || !open_serve(s, n)) {
		base_logf(BASE_ERROR, LOG, "cannot start the StatsD server error=%s",
			  bridge_publish_why(errno));
		goto out;
	}
	for (size_t i = 0; i < n; i++)
		p[i] = (struct pollfd){fds[i], POLLIN, 0};
	p[n] = (struct pollfd){w->stop_fd, POLLIN, 0};
	while (!p[n].revents) {
		for (size_t i = 0; i < CLIENTS; i++)
			p[n + 1 + i] = (struct pollfd){s->clients[i].fd, POLLIN, 0};
		poll(p, (nfds_t)n + 1 + CLIENTS, 200);
		for (size_t i = 0; i < CLIENTS; i++)
			if (p[n + 1 + i].revents)
				read_client(s, &s->clients[i]);
		for (size_t i = 0; i < n; i++)
			if (p[i].revents && accepts(fds[i]))
				accept_client(s, &p[i]);
			else if (p[i].revents)
				receive_packets(s, i, p[i].fd);
		if (base_now_ns() >= tick) {
			tick = base_now_ns() + SECOND_NS / 5;
			bridge_statsd_tick(s->statsd, base_now_ns(), w->o->expire_ns);
			add_counts(s);
			for (size_t i = 0; i < n; i++)
				p[i].events = POLLIN;
		}
	}
out:
	if (s) {
		for (size_t i = 0; i < CLIENTS; i++)
			if (s->clients[i].buffer)
				close_client(&s->clients[i]);
		bridge_statsd_free(s->statsd);
		sl_publisher_close(s->publisher);
		free(s->drops);
		free(s->buffer);
	}
	free(s);
	free(p);
}
