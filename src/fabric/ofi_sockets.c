// SPDX-License-Identifier: Apache-2.0
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/base.h"
#include "fabric/ofi_host.h"

#define SWEEP_NS    100000000ull
#define SUSPECT_NS  10000000000ull /* time limit for the first bytes */
#define KEEPALIVE_S 5
#define LOST_MS	    20000 /* time limit for unacknowledged bytes */

static uint16_t port_of(const struct sockaddr_storage *a)
{
	return ntohs(a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)a)->sin6_port
					      : ((const struct sockaddr_in *)a)->sin_port);
}

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;

	if (a->ss_family != b->ss_family || port_of(a) != port_of(b))
		return false;
	return a->ss_family == AF_INET6
		       ? !memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr))
		       : a4->sin_addr.s_addr == b4->sin_addr.s_addr;
}

/* True if the descriptor is a connection to our port. */
static bool is_connection(const struct fabric_ofi_host *h, int fd, struct sockaddr_storage *peer)
{
	struct sockaddr_storage own = {0};
	socklen_t n = sizeof(own), m = sizeof(*peer);

	memset(peer, 0, sizeof(*peer));
	return !getsockname(fd, (struct sockaddr *)&own, &n) &&
	       (own.ss_family == AF_INET || own.ss_family == AF_INET6) &&
	       port_of(&own) == h->port && !getpeername(fd, (struct sockaddr *)peer, &m);
}

void fabric_ofi_sent(struct fabric_ofi_host *h, struct fabric_ofi_conn *c)
{
	struct sockaddr_storage peer;
	struct tcp_info t = {0};
	socklen_t n = sizeof(t);

	if (c->fd < 0 || !is_connection(h, c->fd, &peer) || !same_address(&peer, &c->peer) ||
	    getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &t, &n) || t.tcpi_bytes_acked < c->sent)
		return;
	h->gate.stats.sent_bytes += t.tcpi_bytes_acked - c->sent;
	c->sent = t.tcpi_bytes_acked;
}

static void keep_alive(int fd)
{
	const int yes = 1, seconds = KEEPALIVE_S, times = 3, lost = LOST_MS;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost, sizeof(lost));
}

/* True if the socket may stay open: it is young, and there are few of them. */
static bool is_tolerated(struct fabric_ofi_host *h, const struct sockaddr_storage *peer,
			 uint64_t now_ns)
{
	struct fabric_ofi_suspect *place = NULL;

	for (uint32_t i = 0; i < SUSPECTS_MAX; i++) {
		struct fabric_ofi_suspect *s = &h->suspect[i];

		if (!s->since_ns) {
			place = place ?: s;
		} else if (same_address(&s->peer, peer)) {
			s->seen = true;
			return now_ns - s->since_ns < SUSPECT_NS;
		}
	}
	if (!place)
		return false;
	*place = (struct fabric_ofi_suspect){.peer = *peer, .since_ns = now_ns, .seen = true};
	return true;
}

static void check_socket(struct fabric_ofi_host *h, int fd, uint64_t now_ns)
{
	struct sockaddr_storage peer;
	struct fabric_ofi_conn *c = h->conns;

	if (!is_connection(h, fd, &peer))
		return;
	while (c && !same_address(&c->peer, &peer))
		c = c->next;
	if (c) {
		if (c->fd < 0)
			keep_alive(fd);
		c->fd = fd;
		fabric_ofi_sent(h, c);
	} else if (!is_tolerated(h, &peer, now_ns)) {
		/* Its owner reads the end of the stream and closes it, in this thread. */
		shutdown(fd, SHUT_RDWR);
		h->gate.stats.silent++;
	}
}

void fabric_ofi_sweep(struct fabric_ofi_host *h, uint64_t now_ns)
{
	const struct dirent *e;

	if (!h->descriptors || now_ns - h->swept_ns < SWEEP_NS)
		return;
	h->swept_ns = now_ns;
	for (uint32_t i = 0; i < SUSPECTS_MAX; i++)
		h->suspect[i].seen = false;
	rewinddir(h->descriptors);
	while ((e = readdir(h->descriptors)))
		if (*e->d_name != '.')
			check_socket(h, atoi(e->d_name), now_ns);
	h->suspects = 0;
	for (uint32_t i = 0; i < SUSPECTS_MAX; i++) {
		if (!h->suspect[i].seen)
			h->suspect[i].since_ns = 0;
		h->suspects += h->suspect[i].since_ns != 0;
	}
}
