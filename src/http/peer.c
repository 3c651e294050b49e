// SPDX-License-Identifier: Apache-2.0
/*
 * peer.c - decides which peer may connect, and which connection is closed when all are in use.
 *
 * A peer is a user of this host, an IPv4 address or an IPv6 /64. The policy is the same as in a
 * fair queue that drops from the longest queue (RFC 7806, 3.1). As long as there is room, one peer
 * may use everything. When there is no room, the peer with the most connections loses its oldest
 * waiting connection to a peer with fewer. Slow connections of one peer therefore never lock out
 * another peer. An eighth of all connections is reserved for users of this host and for addresses
 * that recently presented a correct token.
 *
 * Bodies are held here until they are complete, before the back checks who sends them. Peers share
 * their memory, too (base/share.h).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/base.h"
#include "base/network.h"
#include "base/relaxed.h"
#include "base/share.h"
#include "http/front.h"

#define KNOWN_NS     600000000000ull /* time for which a peer is known after a correct token */
#define RESERVE_PART 8u
#define SLOW_NS	     5000000000u /* a slower answer may be aborted in favour of another peer */
#define BODIES_BYTES (64u << 20) /* maximum memory for bodies that are being received */

enum { PEER_UNIX = 1, PEER_LOOPBACK, PEER_V4, PEER_V6 };

/* ---- identifying a peer ---- */

/*
 * Asks the kernel which user owns the other end of a loopback connection. Returns (uid_t)-1 if that
 * is not possible. Use it only to share connections fairly, because the socket may have been passed
 * to another user.
 */
static uid_t user_of(struct http_server *s, const struct sockaddr_storage *theirs,
		     const struct sockaddr_storage *ours)
{
	uint16_t source_port, port;
	const struct in6_addr source = base_mapped_of(theirs, &source_port);
	const struct in6_addr destination = base_mapped_of(ours, &port);
	/* The client's socket may be IPv4 although this server's is IPv6. */
	const size_t mapped = IN6_IS_ADDR_V4MAPPED(&source) ? 12 : 0;
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 req;
	} ask = {.head = {.nlmsg_len = sizeof(ask),
			  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST},
		 .req = {.sdiag_family = mapped ? AF_INET : AF_INET6,
			 .sdiag_protocol = IPPROTO_TCP,
			 .idiag_states = ~0u}};
	struct {
		struct nlmsghdr head;
		struct inet_diag_msg msg;
		char more[512];
	} got;
	ssize_t n = -1;

	ask.req.id.idiag_sport = htons(source_port);
	ask.req.id.idiag_dport = htons(port);
	memcpy(ask.req.id.idiag_src, source.s6_addr + mapped, 16 - mapped);
	memcpy(ask.req.id.idiag_dst, destination.s6_addr + mapped, 16 - mapped);
	ask.req.id.idiag_cookie[0] = ask.req.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	ask.head.nlmsg_seq = ++s->diag_seq;
	if (s->diag_fd < 0 || send(s->diag_fd, &ask, sizeof(ask), 0) < 0)
		return (uid_t)-1;
	do
		/* skip the late answer to an earlier question */
		n = recv(s->diag_fd, &got, sizeof(got), 0);
	while (n >= (ssize_t)sizeof(got.head) && got.head.nlmsg_seq != s->diag_seq);
	if (n < (ssize_t)(sizeof(got.head) + sizeof(got.msg)) ||
	    got.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return (uid_t)-1;
	/* If no process has the socket open any more, the kernel reports root. */
	return got.msg.idiag_state == TCP_ESTABLISHED && got.msg.idiag_inode ? got.msg.idiag_uid
									     : (uid_t)-1;
}

static void set_key(struct http_peer *p, unsigned char kind, const void *who, size_t bytes)
{
	p->key[0] = kind;
	memcpy(p->key + 1, who, bytes);
}

void http_peer_identify(struct http_server *s, int fd, struct http_peer *p)
{
	struct sockaddr_storage theirs = {0}, ours = {0};
	socklen_t n = sizeof(theirs), m = sizeof(ours);
	struct ucred cred = {.uid = (uid_t)-1};
	socklen_t k = sizeof(cred);
	struct in6_addr address;
	uint16_t port;

	p->uid = (uid_t)-1;
	if (s->c.is_unix) {
		p->local = true;
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &k);
		p->uid = cred.uid;
		set_key(p, PEER_UNIX, &cred.uid, sizeof(cred.uid));
		return;
	}
	if (getpeername(fd, (struct sockaddr *)&theirs, &n) ||
	    getsockname(fd, (struct sockaddr *)&ours, &m))
		return; /* already closed: a peer without a key */
	p->local = base_is_loopback((struct sockaddr *)&theirs);
	address = base_mapped_of(&theirs, &port);
	if (p->local) {
		p->uid = user_of(s, &theirs, &ours);
		set_key(p, PEER_LOOPBACK, &p->uid, sizeof(p->uid));
	} else if (IN6_IS_ADDR_V4MAPPED(&address)) {
		set_key(p, PEER_V4, &address.s6_addr[12], 4);
	} else {
		set_key(p, PEER_V6, &address, 8);
	}
}

bool http_peer_same(const struct http_peer *a, const struct http_peer *b)
{
	return !memcmp(a->key, b->key, sizeof(a->key));
}

void http_peer_print(int fd, char *out, size_t bytes)
{
	struct sockaddr_storage at = {0};
	char text[INET6_ADDRSTRLEN] = "?";
	socklen_t n = sizeof(at);
	struct in6_addr address;
	uint16_t port;

	if (!getpeername(fd, (struct sockaddr *)&at, &n)) {
		address = base_mapped_of(&at, &port);
		base_address_text(&address, text);
	}
	snprintf(out, bytes, "%s", text);
}

/* ---- peers ---- */

static bool is_preferred(const struct http_peer *p)
{
	return p->local || p->known_until_ns > base_now_ns();
}

static void forget_peers(struct http_server *s)
{
	struct http_peer **at = &s->peers, *p;

	while ((p = *at)) {
		if (p->open || p->known_until_ns > base_now_ns()) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		free(p);
	}
}

static struct http_peer *find_peer(struct http_server *s, const struct http_peer *who)
{
	struct http_peer *p = s->peers;

	while (p && !http_peer_same(p, who))
		p = p->next;
	if (p)
		return p;
	forget_peers(s);
	p = malloc(sizeof(*p));
	if (!p)
		return NULL;
	*p = *who;
	p->next = s->peers;
	s->peers = p;
	return p;
}

void http_peer_known(struct http_connection *c)
{
	if (c->peer)
		c->peer->known_until_ns = base_now_ns() + KNOWN_NS;
}

uint32_t http_peer_answers(struct http_server *s, const struct http_connection *of)
{
	uint32_t n = 0;

	pthread_mutex_lock(&s->lock);
	for (const struct http_connection *c = s->connections; c; c = c->next)
		n += c->peer && c->peer == of->peer && c->answering;
	pthread_mutex_unlock(&s->lock);
	return n;
}

bool http_peer_hold(struct http_server *s, struct http_connection *of, size_t bytes)
{
	struct base_share all = {.capacity = BODIES_BYTES,
				 .reserve = BODIES_BYTES / BASE_SHARE_RESERVE};
	uint64_t held = 0;
	bool may = bytes <= of->held;

	pthread_mutex_lock(&s->lock);
	for (const struct http_connection *c = s->connections; c && !may; c = c->next) {
		all.used += c->held;
		held += c->peer == of->peer ? c->held : 0;
	}
	may = may || (of->peer && base_share_may(&all, held, bytes - of->held,
						 of->peer->known_until_ns > base_now_ns()));
	if (may)
		of->held = bytes;
	pthread_mutex_unlock(&s->lock);
	return may;
}

/* ---- choosing a connection to close ---- */

static void remove_connection(struct http_server *s, struct http_connection *c)
{
	c->peer->open--;
	c->peer = NULL;
	relaxed_sub(s->open, 1);
}

/*
 * Returns the oldest connection of a peer, preferably a waiting one. If of is NULL, considers any
 * peer without priority over the newcomer, and only connections that wait or whose answer is slow.
 */
static struct http_connection *find_oldest(struct http_server *s, const struct http_peer *of,
					   const struct http_peer *newcomer)
{
	struct http_connection *found = NULL;
	uint64_t now = base_now_ns();

	for (struct http_connection *c = s->connections; c; c = c->next) {
		bool answered = c->answering && now - c->answer_ns < SLOW_NS;

		if (!c->peer || (of && c->peer != of))
			continue;
		if (!of && (answered || (is_preferred(c->peer) && !is_preferred(newcomer))))
			continue;
		if (!found || found->answering || !c->answering)
			found = c;
	}
	return found;
}

/* Returns the connection to be closed for newcomer, or NULL. */
static struct http_connection *choose_victim(struct http_server *s,
					     const struct http_peer *newcomer)
{
	const struct http_peer *most = NULL;

	for (const struct http_peer *p = s->peers; p; p = p->next)
		if (!most || p->open > most->open)
			most = p;
	if (most && most->open > newcomer->open + 1)
		return find_oldest(s, most, newcomer);
	if (!newcomer->open)
		return find_oldest(s, NULL, newcomer);
	return NULL; /* no other peer has enough connections to lose one */
}

bool http_peer_enter(struct http_server *s, struct http_connection *c)
{
	const uint32_t max = s->c.max_connections, reserve = max / RESERVE_PART;
	struct http_peer who = {0}, *peer;
	struct http_connection *out;

	http_peer_identify(s, c->fd, &who);
	peer = find_peer(s, &who);
	if (!peer || relaxed_load(s->open) >= (is_preferred(peer) ? max : max - reserve)) {
		out = peer ? choose_victim(s, peer) : NULL;
		if (!out) {
			relaxed_add(s->refused[HTTP_REFUSED_CONNECTION], 1);
			return false;
		}
		relaxed_add(s->refused[HTTP_REFUSED_EVICTED], 1);
		remove_connection(s, out);
		out->shut = !shutdown(out->fd, SHUT_RDWR) || errno == ENOTCONN;
	}
	c->peer = peer;
	peer->open++;
	relaxed_add(s->open, 1);
	return true;
}

void http_peer_leave(struct http_server *s, struct http_connection *c)
{
	if (c->peer)
		remove_connection(s, c);
	forget_peers(s);
}
