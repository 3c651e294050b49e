// SPDX-License-Identifier: Apache-2.0
/*
 * statsd_serve.c - receives packets on the StatsD sockets. Packets that the kernel dropped because
 * a buffer was full are counted (SO_RXQ_OVFL, socket(7)); none are dropped on unix sockets, because
 * their senders wait.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "bridge/source.h"
#include "bridge/statsd.h"
#include "http/http.h"

#define LOG	     "statsd"
#define SECOND_NS    1000000000ull
#define CELLS	     4096u /* size of the first region */
#define PACKETS	     32u
#define PACKET_BYTES 65536u
#define BUFFER_BYTES (8 << 20) /* kernel buffer per socket; limited by net.core.rmem_max */

static bool is_unix(const char *at)
{
	return !strncmp(at, "unix:", 5);
}

int bridge_statsd_check(const char *at, char *error, size_t bytes)
{
	int local = http_is_local(at, error, bytes);

	if (local < 0)
		return base_fail(
			error, bytes, -EINVAL,
			"--statsd '%s': must be an address such as 127.0.0.1:8125 or unix:/PATH",
			at);
	/* Packets carry no token. */
	return local ? 0
		     : base_fail(error, bytes, -EINVAL,
				 "--statsd '%s': senders are not authenticated, so only this host "
				 "may send: listen on loopback or a unix socket",
				 at);
}

static int listen_udp(const char *at, char *error, size_t bytes)
{
	const struct addrinfo want = {.ai_socktype = SOCK_DGRAM,
				      .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
	char host[256], port_text[8];
	const int size = BUFFER_BYTES, one = 1;
	struct addrinfo *list;
	uint16_t port;
	int fd = -1, err;

	err = base_parse_address(at, host, sizeof(host), &port);
	if (err)
		return base_fail(error, bytes, err, "--statsd '%s': malformed", at);
	snprintf(port_text, sizeof(port_text), "%u", port);
	err = getaddrinfo(*host ? host : "127.0.0.1", port_text, &want, &list);
	if (err)
		return base_fail(error, bytes, -EINVAL, "--statsd %s: %s", at, gai_strerror(err));
	for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd >= 0 && bind(fd, a->ai_addr, a->ai_addrlen)) {
			err = -errno;
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(list);
	if (fd < 0)
		return base_fail(error, bytes, err, "--statsd %s: %s", at, strerror(-err));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &one, sizeof(one));
	return fd;
}

int bridge_statsd_listen(const char *at, char *error, size_t bytes)
{
	if (is_unix(at))
		return base_listen_unix(at + 5, SOCK_DGRAM, 0666, error, bytes);
	return listen_udp(at, error, bytes);
}

struct serve {
	const struct bridge_worker *w;
	struct sl_publisher *publisher;
	struct bridge_statsd *statsd;
	struct bridge_statsd_counts told;
	struct sl_counter packets, dropped, truncated, lines, malformed, refused, expired;
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

static void add_counts(struct serve *s)
{
	struct bridge_statsd_counts now = bridge_statsd_counts(s->statsd);

	sl_counter_add(s->lines, now.lines - s->told.lines);
	sl_counter_add(s->malformed, now.malformed - s->told.malformed);
	sl_counter_add(s->refused, now.refused - s->told.refused);
	sl_counter_add(s->expired, now.expired - s->told.expired);
	s->told = now;
}

static bool open_serve(struct serve *s, size_t n)
{
#define COUNTER(name, help) \
	bridge_counter(s->w, "sidelight_bridge_statsd_" name "_total", help, NULL, 0)
	s->packets = COUNTER("packets", "Packets received.");
	s->dropped = COUNTER("dropped", "Packets dropped by the kernel because a buffer was full.");
	s->truncated = COUNTER("truncated", "Packets discarded because they exceed 65536 bytes.");
	s->lines = COUNTER("lines", "Lines taken.");
	s->malformed = COUNTER("malformed", "Malformed lines and values.");
	s->refused = COUNTER("refused",
			     "Lines for which there was no room, or whose name has another type.");
	s->expired = COUNTER("expired",
			     "Series removed because they were not updated for a long time.");
#undef COUNTER
	s->publisher = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "statsd",
						  .pod = "statsd", .socket = s->w->o->socket,
						  .max_cells = CELLS, .max_threads = 1));
	s->statsd = bridge_statsd_new(s->publisher, 0);
	s->drops = calloc(n, sizeof(*s->drops));
	s->buffer = malloc((size_t)PACKETS * PACKET_BYTES);
	return s->publisher && s->statsd && s->drops && s->buffer;
}

void bridge_statsd_run(const struct bridge_worker *w, const int *fds, size_t n)
{
	struct serve *s = calloc(1, sizeof(*s));
	struct pollfd *p = calloc(n + 1, sizeof(*p));
	uint64_t tick = 0;

	if (s)
		s->w = w;
	if (!s || !p || !open_serve(s, n)) {
		base_logf(BASE_ERROR, LOG, "cannot start error=%s", strerror(errno));
		goto out;
	}
	for (size_t i = 0; i < n; i++)
		p[i] = (struct pollfd){fds[i], POLLIN, 0};
	p[n] = (struct pollfd){w->stop_fd, POLLIN, 0};
	while (!p[n].revents) {
		poll(p, (nfds_t)n + 1, 200);
		for (size_t i = 0; i < n; i++)
			if (p[i].revents)
				receive_packets(s, i, p[i].fd);
		if (base_now_ns() >= tick) {
			tick = base_now_ns() + SECOND_NS / 5;
			bridge_statsd_tick(s->statsd, base_now_ns(), w->o->expire_ns);
			add_counts(s);
		}
	}
out:
	if (s) {
		bridge_statsd_free(s->statsd);
		sl_publisher_close(s->publisher);
		free(s->drops);
		free(s->buffer);
	}
	free(s);
	free(p);
}
