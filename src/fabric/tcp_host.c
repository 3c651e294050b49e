// SPDX-License-Identifier: Apache-2.0
/*
 * tcp_host.c - the passive side over TCP, for hosts without RDMA. A dedicated thread answers READs,
 * so, unlike with RDMA, they cost this host CPU time. The caller's thread registers memory and
 * takes verdicts.
 *
 * Answers are not buffered: the kernel copies the bytes from the registered memory to the socket,
 * or they are encrypted one TLS record at a time. For a slow reader, only the list of ranges is
 * kept. Each range is looked up again before more of it is sent, so memory can be unregistered at
 * any time.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/network.h"
#include "base/table.h"
#include "base/thread.h"
#include "fabric/gate.h"
#include "fabric/lookup.h"
#include "fabric/tcp.h"

#define DEFAULT_QUEUES 64u
#define STRANGERS_MAX  64u	      /* maximum number of connections not admitted yet */
#define STRANGER_NS    10000000000ull /* time limit for admission */
#define IDLE_MS	       1000
/* pause after a failed accept(), and interval for checking STRANGER_NS */
#define PAUSE_MS 100
/* interval at which the caller's loop is woken to read the counters */
#define RING_NS 1000000000ull
#define RECORD	16384u
#define BACKLOG 128
/* maximum number of verdicts queued for the caller; later ones stay in their socket buffers */
#define READY_MAX 128u
#define READY_MS  10 /* interval at which a full ring is checked again */

/* Registered memory; the node's hash is the rkey. */
struct tcp_memory {
	struct base_node node;
	uint8_t *map;
	size_t bytes;
};

struct tcp_conn {
	struct tcp_conn *next;
	int fd;
	struct base_psk *tls;
	struct sockaddr_storage peer;
	uint8_t address[16]; /* connections are counted by this address: fabric_gate_share_of() */
	uint32_t serial;
	uint64_t since_ns; /* time of accept(); later, time of admission */
	bool admitted, notifies;
	bool again; /* GnuTLS may hold more input, which poll() does not report */
	bool over;

	size_t used; /* bytes in in[] */
	/* The answer being sent is for the first ask in in[]. */
	bool answering;
	struct fabric_tcp_answer answer;
	uint64_t sent;	/* bytes of the answer sent so far, including its header */
	uint8_t *chunk; /* with TLS: plain bytes of the current record */
	size_t chunk_bytes;
	uint8_t in[FABRIC_TCP_ASKS * FABRIC_TCP_ASK_BYTES];
};

struct tcp_host {
	struct fabric_host base;
	pthread_mutex_t lock; /* protects all members below */
	struct fabric_gate gate;
	const void *secret;
	size_t secret_bytes;
	int listener, bell; /* bell is an eventfd(2) */
	struct base_thread thread;
	bool paused;
	struct tcp_conn *conns;
	uint32_t count, strangers, serial;
	struct base_table memory;
	uint64_t rung_ns;

	void (*notice)(void *arg, uint32_t entry);
	void *notice_arg;
	struct sl_board_line *board; /* written by the caller's thread only */
	size_t board_lines;
	struct fabric_tcp_notice ready[READY_MAX]; /* ring of verdicts for the caller */
	uint32_t ready_head, ready_count;
};

static struct tcp_host *tcp_of(struct fabric_host *h)
{
	return (struct tcp_host *)h;
}

/* ---- bytes ---- */

/* Returns the number of bytes received; 0 if there are none yet, or if the connection is over. */
static size_t receive(struct tcp_conn *c, void *to, size_t room)
{
	ssize_t n = c->tls ? base_psk_read(c->tls, to, room) : recv(c->fd, to, room, MSG_DONTWAIT);

	c->again = c->tls && n > 0;
	if (n > 0)
		return (size_t)n;
	c->over |= !n || (c->tls ? n != -EAGAIN : errno != EAGAIN && errno != EINTR);
	return 0;
}

/* The reply precedes all answers, so it always fits into the send buffer. */
static void send_reply(struct tcp_conn *c, const union fabric_tcp_reply *r)
{
	ssize_t n = c->tls ? base_psk_write(c->tls, r, sizeof(*r))
			   : send(c->fd, r, sizeof(*r), MSG_DONTWAIT | MSG_NOSIGNAL);

	c->over |= n != sizeof(*r);
}

/* ---- connections ---- */

static void drop_connection(struct tcp_host *h, struct tcp_conn *c)
{
	struct tcp_conn **at = &h->conns;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	h->count--;
	if (c->admitted) {
		h->gate.queues--;
		h->gate.notifiers -= c->notifies;
		h->gate.stats.disconnected++;
	} else {
		h->strangers--;
	}
	base_psk_free(c->tls);
	close(c->fd);
	free(c->chunk);
	free(c);
}

static void drop_silent(struct tcp_host *h, struct tcp_conn *c)
{
	h->gate.stats.silent++;
	drop_connection(h, c);
}

static void set_options(int fd)
{
	const int yes = 1;

	base_tcp_end_dead(fd);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

/* If too many connections are not admitted yet, drops the oldest of them. */
static void make_room(struct tcp_host *h)
{
	struct tcp_conn *oldest = NULL;

	if (h->strangers < STRANGERS_MAX)
		return;
	for (struct tcp_conn *c = h->conns; c; c = c->next)
		if (!c->admitted)
			oldest = c; /* the list begins with the newest */
	drop_silent(h, oldest);
}

static void accept_one(struct tcp_host *h, uint64_t now_ns)
{
	struct tcp_conn *c = calloc(1, sizeof(*c));
	socklen_t bytes = sizeof(c->peer);

	make_room(h);
	if (c)
		c->fd = accept4(h->listener, (struct sockaddr *)&c->peer, &bytes,
				SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (!c || c->fd < 0) {
		h->paused = !c || (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR);
		free(c);
		return;
	}
	set_options(c->fd);
	c->chunk = h->secret ? malloc(RECORD) : NULL;
	if (h->secret)
		c->tls = base_psk_new(c->fd, &fabric_tcp_use, h->secret, h->secret_bytes, true);
	fabric_gate_share_of((struct sockaddr *)&c->peer, c->address);
	c->serial = ++h->serial;
	c->since_ns = now_ns;
	c->over = h->secret && (!c->tls || !c->chunk);
	c->next = h->conns;
	h->conns = c;
	h->count++;
	h->strangers++;
}

/* ---- admission ---- */

static void refuse(struct tcp_host *h, struct tcp_conn *c, enum fabric_refusal cause, int error)
{
	union fabric_tcp_reply r = {
		.refusal = {.magic = FABRIC_VERBS_REFUSAL_MAGIC, .error = error}};
	char rest[4096];
	int times = 16;

	fabric_gate_count(&h->gate, cause, &r.refusal);
	send_reply(c, &r);
	/* With unread bytes, close() would send a reset, and the peer would lose the reply. */
	while (recv(c->fd, rest, sizeof(rest), MSG_DONTWAIT) == sizeof(rest) && --times)
		;
	c->over = true;
}

/* Returns true if there is no secret, or once the peer has proved that it knows it. */
static bool shake_hands(struct tcp_host *h, struct tcp_conn *c)
{
	int err = c->tls ? base_psk_handshake(c->tls) : 0;

	switch (err) {
	case 0:
		return true;
	case -EAGAIN:
		return false;
	case -EPROTONOSUPPORT:
		base_psk_free(c->tls); /* the peer can only read a reply without TLS */
		c->tls = NULL;
		refuse(h, c, FABRIC_REFUSED_PROOF, ENOKEY);
		return false;
	default: /* GnuTLS has sent an alert */
		if (err != -EPIPE)
			fabric_gate_count(&h->gate,
					  err == -EACCES ? FABRIC_REFUSED_PROOF
							 : FABRIC_REFUSED_MALFORMED,
					  NULL);
		c->over = true;
		return false;
	}
}

static bool admit_request(struct tcp_host *h, const struct tcp_conn *c,
			  const struct fabric_host_request *r, enum fabric_refusal *cause,
			  struct fabric_verbs_refusal *say)
{
	uint32_t held[2] = {0};

	if (!fabric_gate_request_fits(r))
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_MALFORMED, EPROTO);
	if (r->plain.flags & FABRIC_VERBS_STORE ||
	    (r->plain.flags & FABRIC_VERBS_NOTIFY && !h->notice))
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_SYSTEM, EOPNOTSUPP);
	for (const struct tcp_conn *o = h->conns; o; o = o->next)
		if (o->admitted && !memcmp(o->address, c->address, sizeof(o->address))) {
			held[0]++;
			held[1] += o->notifies;
		}
	return fabric_gate_admits(&h->gate, r, held, cause, say);
}

static void take_request(struct tcp_host *h, struct tcp_conn *c, uint64_t now_ns)
{
	struct fabric_verbs_refusal say = {.magic = FABRIC_VERBS_REFUSAL_MAGIC};
	union fabric_tcp_reply reply = {.hello = h->gate.hello};
	struct fabric_host_request r = {0};
	enum fabric_refusal cause;

	c->used += receive(c, c->in + c->used, sizeof(r.plain) - c->used);
	/* Refuse malformed input at once: it may be shorter than a request. */
	memcpy(&r.plain, c->in, c->used);
	if (c->used >= sizeof(r.plain.magic) && !fabric_gate_request_fits(&r) &&
	    (c->used == sizeof(r.plain) || r.plain.magic != FABRIC_VERBS_REQUEST_MAGIC)) {
		refuse(h, c, FABRIC_REFUSED_MALFORMED, EPROTO);
		return;
	}
	if (c->used < sizeof(r.plain))
		return;
	if (!admit_request(h, c, &r, &cause, &say)) {
		refuse(h, c, cause, say.error);
		return;
	}
	c->notifies = r.plain.flags & FABRIC_VERBS_NOTIFY;
	if (c->notifies)
		reply.hello.directory_rkey = 0;
	c->admitted = true;
	c->since_ns = now_ns;
	c->used = 0;
	h->strangers--;
	h->gate.queues++;
	h->gate.notifiers += c->notifies;
	h->gate.stats.accepted++;
	send_reply(c, &reply);
}

/* ---- answers ---- */

static const struct fabric_tcp_range *range_of(const struct tcp_conn *c, uint32_t i)
{
	return (const void *)(c->in + sizeof(struct fabric_tcp_ask) +
			      i * sizeof(struct fabric_tcp_range));
}

/* Returns NULL unless the range is within registered memory. */
static const uint8_t *find_range(const struct tcp_host *h, const struct fabric_tcp_range *r)
{
	const struct tcp_memory *m = base_table_first(&h->memory, r->rkey);
	const uint64_t at = r->addr - FABRIC_TCP_BASE;

	if (!m || r->addr < FABRIC_TCP_BASE || !r->bytes || at > m->bytes ||
	    r->bytes > m->bytes - at)
		return NULL;
	return m->map + at;
}

/*
 * Lists up to `room` of the remaining areas of the answer. Returns their number, or -1 if a range
 * is no longer readable.
 */
static int next_areas(const struct tcp_host *h, const struct tcp_conn *c, struct iovec *to,
		      int room)
{
	uint64_t skip = c->sent;
	int n = 0;

	if (skip < sizeof(c->answer)) {
		to[n++] = (struct iovec){(uint8_t *)&c->answer + skip, sizeof(c->answer) - skip};
		skip = 0;
	} else {
		skip -= sizeof(c->answer);
	}
	for (uint32_t i = 0; !c->answer.error && i < c->answer.count && n < room; i++) {
		const struct fabric_tcp_range *r = range_of(c, i);
		const uint8_t *at;

		if (skip >= r->bytes) {
			skip -= r->bytes;
			continue;
		}
		at = find_range(h, r);
		if (!at)
			return -1;
		to[n++] = (struct iovec){(uint8_t *)at + skip, r->bytes - skip};
		skip = 0;
	}
	return n;
}

static size_t ask_bytes(const struct fabric_tcp_ask *ask)
{
	return sizeof(*ask) + ask->count * sizeof(struct fabric_tcp_range);
}

/* Copies the ask at an offset in c->in. Returns its length, or 0 if it is not complete. */
static size_t copy_ask(const struct tcp_conn *c, size_t at, struct fabric_tcp_ask *ask)
{
	if (c->used - at < sizeof(*ask))
		return 0;
	memcpy(ask, c->in + at, sizeof(*ask));
	return ask_bytes(ask) <= c->used - at ? ask_bytes(ask) : 0;
}

/*
 * True if more follows these bytes of the answer: the rest of it, or the answer to a complete ask.
 * Without MSG_MORE, the kernel would send a short segment after each of them.
 */
static bool has_more(const struct tcp_conn *c, uint64_t bytes)
{
	struct fabric_tcp_ask ask;

	return c->sent + bytes < sizeof(c->answer) + c->answer.bytes ||
	       (!c->answer.error && copy_ask(c, copy_ask(c, 0, &ask), &ask));
}

/* Returns the number of bytes sent; 0 if the send buffer is full or the connection is over. */
static size_t send_plain(struct tcp_host *h, struct tcp_conn *c)
{
	struct iovec area[FABRIC_TCP_RANGES_MAX + 1];
	int areas = next_areas(h, c, area, FABRIC_TCP_RANGES_MAX + 1);
	struct msghdr m = {.msg_iov = area, .msg_iovlen = (size_t)areas};
	const bool more = has_more(c, sizeof(c->answer) + c->answer.bytes - c->sent);
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0);
	ssize_t n = areas < 0 ? -1 : sendmsg(c->fd, &m, flags);

	if (n >= 0)
		return (size_t)n;
	c->over |= areas < 0 || (errno != EAGAIN && errno != EINTR);
	return 0;
}

/* Sends a record from a copy, because GnuTLS requires the same bytes when a send is repeated. */
static size_t send_record(struct tcp_host *h, struct tcp_conn *c)
{
	struct iovec area[FABRIC_TCP_RANGES_MAX + 1];
	ssize_t n;

	if (!c->chunk_bytes) {
		int areas = next_areas(h, c, area, FABRIC_TCP_RANGES_MAX + 1);

		c->over |= areas < 0;
		for (int i = 0; i < areas && c->chunk_bytes < RECORD; i++) {
			const size_t bytes = BASE_MIN(area[i].iov_len, RECORD - c->chunk_bytes);

			memcpy(c->chunk + c->chunk_bytes, area[i].iov_base, bytes);
			c->chunk_bytes += bytes;
		}
	}
	if (c->over)
		return 0;
	base_psk_set_more(c->tls, has_more(c, c->chunk_bytes));
	n = base_psk_write(c->tls, c->chunk, c->chunk_bytes);
	c->over |= n < 0 && n != -EAGAIN;
	if (n <= 0)
		return 0;
	c->chunk_bytes -= (size_t)n;
	memmove(c->chunk, c->chunk + n, c->chunk_bytes);
	return (size_t)n;
}

static void send_answer(struct tcp_host *h, struct tcp_conn *c)
{
	struct fabric_tcp_ask ask;
	size_t n, bytes;

	do {
		n = c->tls ? send_record(h, c) : send_plain(h, c);
		c->sent += n;
		h->gate.stats.sent_bytes += n;
	} while (n && c->sent < sizeof(c->answer) + c->answer.bytes);
	if (c->sent < sizeof(c->answer) + c->answer.bytes)
		return;
	bytes = copy_ask(c, 0, &ask);
	c->over |= c->answer.error != 0;
	c->answering = false;
	c->used -= bytes;
	memmove(c->in, c->in + bytes, c->used);
}

/* Begins the answer to the first ask. Returns false if the ask is not complete, or malformed. */
static bool begin_answer(struct tcp_host *h, struct tcp_conn *c)
{
	struct fabric_tcp_ask ask;
	size_t bytes = copy_ask(c, 0, &ask);

	if (c->used < sizeof(ask))
		return false;
	if (ask.magic != FABRIC_TCP_ASK || !ask.count || ask.count > FABRIC_TCP_RANGES_MAX) {
		c->over = true;
		return false;
	}
	if (!bytes)
		return false;
	c->answering = true;
	c->sent = 0;
	c->answer = (struct fabric_tcp_answer){.magic = FABRIC_TCP_ANSWER, .count = ask.count};
	for (uint32_t i = 0; i < ask.count; i++) {
		if (!find_range(h, range_of(c, i))) {
			c->answer.error = EACCES;
			c->answer.count = i;
			c->answer.bytes = 0;
			break;
		}
		c->answer.bytes += range_of(c, i)->bytes;
	}
	return true;
}

static void serve_reader(struct tcp_host *h, struct tcp_conn *c)
{
	if (!c->answering)
		c->used += receive(c, c->in + c->used, sizeof(c->in) - c->used);
	while (!c->over && (c->answering || begin_answer(h, c))) {
		send_answer(h, c);
		if (c->answering) /* the send buffer is full */
			return;
	}
}

/* ---- verdicts ---- */

static void take_notice(struct tcp_host *h, struct tcp_conn *c)
{
	struct fabric_tcp_notice n;

	if (h->ready_count == READY_MAX)
		return;
	c->used += receive(c, c->in + c->used, sizeof(n) - c->used);
	if (c->used < sizeof(n))
		return;
	memcpy(&n, c->in, sizeof(n));
	c->used = 0;
	if (n.magic != FABRIC_TCP_NOTICE) {
		c->over = true;
		return;
	}
	h->ready[(h->ready_head + h->ready_count++) % READY_MAX] = n;
	eventfd_write(h->bell, 1);
}

/* ---- the thread ---- */

static void serve(struct tcp_host *h, struct tcp_conn *c, uint64_t now_ns)
{
	c->again = false;
	if (!c->admitted) {
		if (shake_hands(h, c))
			take_request(h, c, now_ns);
	} else if (c->notifies) {
		take_notice(h, c);
	} else {
		serve_reader(h, c);
	}
}

static short wanted_events(const struct tcp_host *h, const struct tcp_conn *c)
{
	if (c->answering || (c->tls && base_psk_writes(c->tls)))
		return POLLOUT;
	return c->notifies && h->ready_count == READY_MAX ? 0 : POLLIN;
}

/*
 * Lists the descriptors to wait for, those of connections in the order of the list. Returns their
 * number, or 0 if out of memory.
 */
static nfds_t list_descriptors(struct tcp_host *h, struct pollfd **list, size_t *room, int *wait_ms)
{
	struct pollfd *p;
	nfds_t n = 0;

	if (!base_grow(list, room, h->count + 2, sizeof(*p)))
		return 0;
	p = *list;
	p[n++] = (struct pollfd){.fd = h->thread.stop, .events = POLLIN};
	p[n++] = (struct pollfd){.fd = h->paused ? -1 : h->listener, .events = POLLIN};
	*wait_ms = h->ready_count == READY_MAX ? READY_MS
		   : h->paused || h->strangers ? PAUSE_MS
					       : IDLE_MS;
	for (const struct tcp_conn *c = h->conns; c; c = c->next) {
		p[n++] = (struct pollfd){.fd = c->fd, .events = wanted_events(h, c)};
		if (c->again && p[n - 1].events & POLLIN)
			*wait_ms = 0;
	}
	h->paused = false;
	return n;
}

static void serve_connections(struct tcp_host *h, const struct pollfd *p, uint64_t now_ns)
{
	for (struct tcp_conn *c = h->conns, *next; c; c = next, p++) {
		next = c->next;
		if (p->revents || c->again)
			serve(h, c, now_ns);
		if (c->over)
			drop_connection(h, c);
		else if (!c->admitted && now_ns - c->since_ns >= STRANGER_NS)
			drop_silent(h, c);
	}
}

static void *serve_requests(void *arg)
{
	struct tcp_host *h = arg;
	struct pollfd *p = NULL;
	bool served = false;
	size_t room = 0;
	nfds_t n;
	int wait_ms;

	prctl(PR_SET_NAME, "sl-fabric-tcp");
	for (;;) {
		uint64_t now;
		int ready;

		pthread_mutex_lock(&h->lock);
		n = list_descriptors(h, &p, &room, &wait_ms);
		pthread_mutex_unlock(&h->lock);
		ready = n ? poll(p, n, wait_ms) : -1;
		if (!n)
			usleep(PAUSE_MS * 1000);
		if (ready < 0)
			continue;
		if (p[0].revents)
			break;
		now = base_now_ns();
		pthread_mutex_lock(&h->lock);
		serve_connections(h, p + 2, now);
		if (p[1].revents)
			accept_one(h, now);
		served |= ready > 0;
		if (served && now - h->rung_ns >= RING_NS) {
			eventfd_write(h->bell, 1);
			h->rung_ns = now;
			served = false;
		}
		pthread_mutex_unlock(&h->lock);
	}
	free(p);
	return NULL;
}

/* ---- opening ---- */

static void tcp_close(struct fabric_host *base)
{
	struct tcp_host *h = tcp_of(base);

	base_thread_stop(&h->thread);
	while (h->conns)
		drop_connection(h, h->conns);
	if (h->listener >= 0)
		close(h->listener);
	if (h->bell >= 0)
		close(h->bell);
	base_table_free(&h->memory);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

static int start_listening(struct tcp_host *h, const struct sockaddr_storage *at)
{
	struct fabric_host_stats *s = &h->gate.stats;
	struct sockaddr_storage own = {0};
	socklen_t bytes = sizeof(own);
	const int yes = 1;

	h->listener = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (h->listener < 0 ||
	    setsockopt(h->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) ||
	    bind(h->listener, (const struct sockaddr *)at, sizeof(*at)) ||
	    listen(h->listener, BACKLOG) ||
	    getsockname(h->listener, (struct sockaddr *)&own, &bytes))
		return -errno;
	strcpy(s->device, "tcp");
	base_print_address((struct sockaddr *)&own, s->address, sizeof(s->address));
	base_mapped_of(&own, &s->port);
	return 0;
}

static struct fabric_host *tcp_open(const struct fabric_host_opts *opts, char *error, size_t bytes)
{
	struct sockaddr_storage at;
	struct tcp_host *h;
	char service[8], where[64];
	int err;

	snprintf(service, sizeof(service), "%u", opts->port);
	if (!fabric_lookup_numeric(opts->address, service, &at)) {
		errno = EINVAL;
		snprintf(error, bytes, "'%s' is not a numeric address", opts->address);
		return NULL;
	}
	base_print_address((struct sockaddr *)&at, where, sizeof(where));
	h = calloc(1, sizeof(*h));
	if (!h) {
		snprintf(error, bytes, "%s", strerror(errno));
		return NULL;
	}
	pthread_mutex_init(&h->lock, NULL);
	h->gate.shares = opts->shares;
	h->gate.known = opts->secret;
	h->gate.queues_max = opts->max_queues ?: DEFAULT_QUEUES;
	h->secret = opts->secret;
	h->secret_bytes = opts->secret_bytes;
	h->listener = -1;
	h->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	err = h->bell < 0 ? -errno : 0;
	if (!err && !base_table_init(&h->memory))
		err = -ENOMEM;
	err = err ?: start_listening(h, &at);
	if (!err)
		return &h->base;
	snprintf(error, bytes, "%s: %s", where, err == -EADDRINUSE ? "in use" : strerror(-err));
	tcp_close(&h->base);
	errno = -err;
	return NULL;
}

/* ---- memory ---- */

static int tcp_add(struct fabric_host *base, void *map, size_t bytes, struct fabric_host_key *key)
{
	struct tcp_host *h = tcp_of(base);
	struct tcp_memory *m = malloc(sizeof(*m));
	uint32_t rkey = 0;

	if (!m)
		return -ENOMEM;
	*m = (struct tcp_memory){.map = map, .bytes = bytes};
	pthread_mutex_lock(&h->lock);
	while (!rkey || base_table_first(&h->memory, rkey))
		if (getrandom(&rkey, sizeof(rkey), 0) != sizeof(rkey))
			break;
	if (rkey)
		base_table_add(&h->memory, m, rkey);
	pthread_mutex_unlock(&h->lock);
	if (!rkey) {
		free(m);
		return -EAGAIN;
	}
	*key = (struct fabric_host_key){.addr = FABRIC_TCP_BASE, .rkey = rkey, .mr = m};
	return 0;
}

static void tcp_remove(struct fabric_host *base, struct fabric_host_key *key)
{
	struct tcp_host *h = tcp_of(base);

	pthread_mutex_lock(&h->lock);
	base_table_remove(&h->memory, key->mr);
	pthread_mutex_unlock(&h->lock);
	free(key->mr);
}

/* ---- for the caller's loop ---- */

/* The first directory starts the thread, because no peer is admitted without one. */
static void tcp_set_directory(struct fabric_host *base, const struct fabric_host_hello *hello)
{
	struct tcp_host *h = tcp_of(base);
	int err = 0;

	pthread_mutex_lock(&h->lock);
	h->gate.hello = *hello;
	if (!h->thread.running)
		err = base_thread_start(&h->thread, serve_requests, h);
	pthread_mutex_unlock(&h->lock);
	if (err)
		base_logf(BASE_ERROR, "fabric", "cannot start the thread that answers READs: %s",
			  strerror(-err));
}

static int tcp_let_notify(struct fabric_host *base, void *map, size_t bytes,
			  void (*notice)(void *arg, uint32_t entry), void *arg)
{
	struct tcp_host *h = tcp_of(base);

	pthread_mutex_lock(&h->lock);
	h->board = map;
	h->board_lines = bytes / sizeof(*h->board);
	h->notice_arg = arg;
	h->notice = notice;
	pthread_mutex_unlock(&h->lock);
	return 0;
}

static int tcp_fd(const struct fabric_host *h)
{
	return ((const struct tcp_host *)h)->bell;
}

static bool next_notice(struct tcp_host *h, struct fabric_tcp_notice *to)
{
	bool any;

	pthread_mutex_lock(&h->lock);
	any = h->ready_count;
	if (any) {
		*to = h->ready[h->ready_head];
		h->ready_head = (h->ready_head + 1) % READY_MAX;
		h->ready_count--;
		h->gate.stats.notices++;
	}
	pthread_mutex_unlock(&h->lock);
	return any;
}

static void tcp_dispatch(struct fabric_host *base)
{
	struct tcp_host *h = tcp_of(base);
	struct fabric_tcp_notice n;
	eventfd_t count;

	eventfd_read(h->bell, &count);
	/* Take at most READY_MAX, so that a flood does not block the loop. */
	for (uint32_t i = 0; i < READY_MAX; i++) {
		if (!next_notice(h, &n))
			return;
		if (n.entry < h->board_lines)
			h->board[n.entry] = n.line;
		h->notice(h->notice_arg, n.entry);
	}
	eventfd_write(h->bell, 1);
}

/* ---- introspection ---- */

static size_t tcp_queues(const struct fabric_host *base, struct fabric_host_queue *out, size_t max)
{
	struct tcp_host *h = (struct tcp_host *)base;
	size_t n = 0;

	pthread_mutex_lock(&h->lock);
	for (const struct tcp_conn *c = h->conns; c; c = c->next) {
		if (!c->admitted)
			continue;
		if (n < max) {
			out[n] = (struct fabric_host_queue){
				.qp_num = c->serial, .state = "RTS", .connected_ns = c->since_ns};
			base_print_address((const struct sockaddr *)&c->peer, out[n].peer,
					   sizeof(out[n].peer));
		}
		n++;
	}
	pthread_mutex_unlock(&h->lock);
	return n;
}

static void tcp_stats(const struct fabric_host *base, struct fabric_host_stats *out)
{
	struct tcp_host *h = (struct tcp_host *)base;
	struct timespec t;
	clockid_t clock;

	pthread_mutex_lock(&h->lock);
	if (h->thread.running && !pthread_getcpuclockid(h->thread.id, &clock) &&
	    !clock_gettime(clock, &t))
		h->gate.stats.cpu_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	*out = h->gate.stats;
	pthread_mutex_unlock(&h->lock);
}

const struct fabric_host_ops fabric_host_tcp = {
	.open = tcp_open,
	.close = tcp_close,
	.add = tcp_add,
	.remove = tcp_remove,
	.let_notify = tcp_let_notify,
	.set_directory = tcp_set_directory,
	.fd = tcp_fd,
	.dispatch = tcp_dispatch,
	.queues = tcp_queues,
	.stats = tcp_stats,
};
