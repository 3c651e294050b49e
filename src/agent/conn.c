// SPDX-License-Identifier: Apache-2.0
/*
 * conn.c - implements the protocol of sidelight/attach.h for each connection.
 *
 * Clients may be hostile: nothing blocks, and memory per connection is fixed. While a client does
 * not read its answers, nothing is read from it; when a timer expires, it is dropped.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/conn.h"
#include "agent/peer.h"
#include "agent/region.h"

/* limit per connection and event, so that other connections are served */
#define PACKETS_PER_EVENT 16
#define REGIONS_PER_CONN  64 /* libsidelight publishes at most 63 per process */
/*
 * Maximum number of refusals within REFUSALS_NS. libsidelight offers refused regions again every
 * 30 s, on the connection of its other regions, which a hang-up would end.
 */
#define REFUSALS_PER_CONN 32
#define REFUSALS_NS	  30000000000ull
/* maximum time that a tenant's connections may take per turn of the loop */
#define TURN_NS 1000000u

const char *const agent_drop_names[DROP_COUNT] = {
	[DROP_MALFORMED] = "malformed", [DROP_SILENT] = "silent", [DROP_SLOW] = "slow",
	[DROP_REFUSED] = "refused",	[DROP_CROWD] = "crowd",	  [DROP_ERROR] = "error",
};

static void update_events(struct agent *a, struct agent_conn *c)
{
	uint32_t events = EPOLLRDHUP | (c->out ? EPOLLOUT : c->paused ? 0 : EPOLLIN);
	struct epoll_event ev = {.events = events, .data.ptr = &c->source};

	if (c->fd < 0 || a->epoll_fd < 0 || events == c->events)
		return;
	epoll_ctl(a->epoll_fd, c->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &ev);
	c->events = events;
}

struct agent_conn *agent_conn_new(struct agent *a, int fd, struct agent_peer *peer,
				  bool publish_only)
{
	struct agent_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->source.kind = SOURCE_CONN;
	c->fd = fd;
	c->peer = peer;
	c->publish_only = publish_only;
	peer->tenant->conns++;
	peer->conn = c;
	a->conn_count++;
	a->n.connections++;
	TAILQ_INSERT_TAIL(&a->conns, c, link);
	agent_timer_start(a, TIMER_SILENT, &c->timer);
	update_events(a, c);
	return c;
}

static void forget_answer(struct agent_conn *c)
{
	if (c->out && c->out->fd >= 0)
		close(c->out->fd);
	free(c->out);
	c->out = NULL;
}

/* The connection's regions become orphans. The struct is kept until no event can refer to it. */
void agent_conn_close(struct agent *a, struct agent_conn *c)
{
	struct agent_region *r, *next;

	if (c->gone)
		return;
	c->gone = true;
	agent_timer_stop(&c->timer);
	forget_answer(c);
	if (c->fd >= 0)
		agent_closer_hang_up(a, c->peer->tenant, c->fd);
	c->fd = -1;
	TAILQ_REMOVE(&a->conns, c, link);
	TAILQ_INSERT_TAIL(&a->graveyard, c, link);
	a->conn_count--;
	if (c->role == ROLE_CONSUMER)
		a->consumer_conns--;
	c->peer->tenant->conns--;
	c->peer->conn = NULL;
	for (r = TAILQ_FIRST(&c->peer->regions); r; r = next) {
		next = TAILQ_NEXT(r, peer_link);
		if (r->conn == c)
			agent_region_lost(a, r);
	}
	agent_peer_put(a, c->peer);
	c->peer = NULL;
}

static void drop_connection(struct agent *a, struct agent_conn *c, enum agent_drop why)
{
	if (c->gone)
		return;
	a->n.dropped[why]++;
	base_log_limited(BASE_WARN, AGENT_LOG, "connection dropped cause=%s pid=%d uid=%d",
			 agent_drop_names[why], (int)c->peer->pid, (int)c->peer->tenant->id.uid);
	agent_conn_close(a, c);
}

/* The peer has sent nothing, or does not read its answers. */
void agent_conn_timer(struct agent *a, struct agent_timer *t)
{
	struct agent_conn *c = AGENT_TIMER_OWNER(t, struct agent_conn, timer);

	drop_connection(a, c, c->out ? DROP_SLOW : DROP_SILENT);
}

/* ---- sending ---- */

/*
 * Returns 0 if sent, -EAGAIN if the socket is full, or -errno. The caller keeps fd, which is -1 if
 * there is none.
 */
static int send_message(int sock, const struct sl_msg *m, const void *payload, int fd)
{
	const struct iovec parts[] = {{(void *)m, sizeof(*m)}, {(void *)payload, m->length}};
	int err = base_send_fds(sock, parts, 2, &fd, fd >= 0, MSG_DONTWAIT);

	if (err >= 0)
		return 0;
	/*
	 * The peer no longer reads, but its CLOSE may still be unread. A hang-up will be reported
	 * later.
	 */
	if (err == -EPIPE || err == -ECONNRESET)
		return 0;
	/* ETOOMANYREFS: the kernel limits the number of descriptors in flight. */
	return err == -EWOULDBLOCK || err == -ETOOMANYREFS ? -EAGAIN : err;
}

static struct sl_msg make_header(uint16_t type, uint32_t serial, size_t bytes)
{
	return (struct sl_msg){
		.magic = SL_MSG_MAGIC, .type = type, .length = (uint32_t)bytes, .serial = serial};
}

static void flush_answer(struct agent *a, struct agent_conn *c)
{
	int err = send_message(c->fd, &c->out->msg, c->out->payload, c->out->fd);

	if (err == -EAGAIN)
		return;
	forget_answer(c);
	agent_timer_stop(&c->timer);
	if (err)
		drop_connection(a, c, DROP_ERROR);
	else if (c->hang_up)
		agent_conn_close(a, c);
	else
		update_events(a, c);
}

/* Sends an answer at once or, if the socket is full, later. fd remains the caller's. */
static void send_reply(struct agent *a, struct agent_conn *c, uint16_t type, uint32_t serial,
		       const void *payload, size_t bytes, int fd)
{
	const struct sl_msg msg = make_header(type, serial, bytes);
	struct agent_packet *p;
	int err = -EAGAIN;

	if (c->gone)
		return;
	if (c->fd >= 0 && !c->out)
		err = send_message(c->fd, &msg, payload, fd);
	if (err != -EAGAIN) {
		if (err)
			drop_connection(a, c, DROP_ERROR);
		else if (c->hang_up)
			agent_conn_close(a, c);
		return;
	}
	p = !c->out && bytes <= sizeof(p->payload) ? malloc(sizeof(*p)) : NULL;
	if (!p)
		goto err;
	p->msg = msg;
	memcpy(p->payload, payload, bytes);
	p->fd = fd < 0 ? -1 : dup(fd);
	if (fd >= 0 && p->fd < 0)
		goto err;
	c->out = p;
	agent_timer_start(a, TIMER_BLOCKED, &c->timer);
	update_events(a, c);
	return;
err:
	free(p);
	drop_connection(a, c, DROP_SLOW);
}

int agent_conn_notify(struct agent_conn *c, uint16_t type, const void *payload, size_t bytes)
{
	const struct sl_msg msg = make_header(type, 0, bytes);

	if (c->gone || c->fd < 0 || c->hang_up || c->out)
		return -EAGAIN;
	/* The next read from the socket reports its error. */
	return send_message(c->fd, &msg, payload, -1);
}

/* Sends a refusal. Always returns false. */
__attribute__((format(printf, 6, 7))) static bool
refuse_request(struct agent *a, struct agent_conn *c, uint32_t serial, enum agent_refusal cause,
	       int error, const char *fmt, ...)
{
	struct sl_msg_refused no = {.error = error};
	uint64_t now = agent_now(a);
	va_list ap;

	if (now - c->refused_ns >= REFUSALS_NS) {
		c->refused_ns = now;
		c->refusals = 0;
	}
	va_start(ap, fmt);
	vsnprintf(no.reason, sizeof(no.reason), fmt, ap);
	va_end(ap);
	agent_refused_count(a, cause);
	/* A refused library allocates its sparse memory and retries at once. */
	base_log_limited(cause == REFUSED_SPARSE ? BASE_DEBUG : BASE_WARN, AGENT_LOG,
			 "request refused cause=%s pid=%d uid=%d: %s", agent_refusal_names[cause],
			 (int)c->peer->pid, (int)c->peer->tenant->id.uid, no.reason);
	if (cause == REFUSED_MALFORMED) {
		a->n.dropped[DROP_MALFORMED]++;
		c->hang_up = true;
	} else if (c->role != ROLE_CONSUMER && ++c->refusals >= REFUSALS_PER_CONN) {
		/* Refusals do not count against a consumer, because publishers may cause them. */
		a->n.dropped[DROP_REFUSED]++;
		c->hang_up = true;
	}
	send_reply(a, c, SL_MSG_REFUSED, serial, &no, sizeof(no), -1);
	return false;
}

/* ---- requests ---- */

static void on_publish(struct agent *a, struct agent_conn *c, uint32_t serial,
		       const struct sl_msg_publish *say, int fd)
{
	struct sl_msg_admitted yes = {.agent_instance = a->dir.instance};
	struct agent_refused why;
	struct agent_region *r;

	if (fd < 0) {
		refuse_request(a, c, serial, REFUSED_MALFORMED, EBADMSG,
			       "the PUBLISH message carries no file descriptor");
	} else if (c->regions >= REGIONS_PER_CONN) {
		refuse_request(a, c, serial, REFUSED_QUOTA, EDQUOT,
			       "at most %d regions per connection", REGIONS_PER_CONN);
	} else if (!agent_region_admit(a, fd, say, c, c->peer, false, &r, &why)) {
		yes.id = r->id;
		send_reply(a, c, SL_MSG_ADMITTED, serial, &yes, sizeof(yes), -1);
	} else if (!c->gone) {
		refuse_request(a, c, serial, why.cause, why.error, "%s", why.reason);
	}
}

static void on_close(struct agent *a, struct agent_conn *c, const struct sl_msg_id *say)
{
	struct agent_region *r =
		agent_region_by_instance(a, agent_tenant_instance(c->peer->tenant, say->id));

	/* A refused region has no entry. Another connection's region must not be closed. */
	if (r && r->conn == c)
		agent_region_closed(a, r);
}

static bool may_consume(struct agent *a, struct agent_conn *c, uint32_t serial)
{
	const struct agent_tenant *t = c->peer->tenant;
	char name[AGENT_TENANT_NAME];

	if (!c->publish_only && agent_tenant_consumes(a, t))
		return true;
	c->hang_up = true;
	if (c->publish_only)
		return refuse_request(a, c, serial, REFUSED_PERMISSION, EPERM,
				      "this socket is for publishers only: consumers must use %s",
				      agent_consume_socket(a));
	return refuse_request(a, c, serial, REFUSED_PERMISSION, EPERM,
			      "%s may not read regions: start the agent with --consumer-uid %u",
			      agent_tenant_name(t, name), (unsigned int)t->id.uid);
}

static void on_subscribe(struct agent *a, struct agent_conn *c, uint32_t serial)
{
	struct sl_msg_welcome w = {.agent_instance = a->dir.instance, .size = a->dir.size};

	a->n.subscribed++;
	agent_region_protect_all(a);
	send_reply(a, c, SL_MSG_WELCOME, serial, &w, sizeof(w), a->dir.fd);
}

static void on_open(struct agent *a, struct agent_conn *c, uint32_t serial,
		    const struct sl_msg_id *say)
{
	struct agent_region *r = agent_region_by_id(a, say->id);
	struct sl_msg_region is;
	int err;

	if (!r || r->state == SL_STATE_RETIRED) {
		refuse_request(a, c, serial, REFUSED_ABSENT, ENOENT, "no region has id %llu",
			       (unsigned long long)say->id);
	} else if (r->fd < 0) {
		refuse_request(
			a, c, serial, REFUSED_SYSTEM, EPERM,
			"region %llu has no read-only descriptor: the agent lacks CAP_SYS_ADMIN "
			"(RDMA does not need it)",
			(unsigned long long)say->id);
	} else if ((err = agent_region_protect(a, r)) == -EAGAIN) {
		refuse_request(a, c, serial, REFUSED_SEALS, EAGAIN,
			       "region %llu is not yet sealed against writing: try again",
			       (unsigned long long)say->id);
	} else if (err) {
		refuse_request(a, c, serial, REFUSED_SEALS, EPERM,
			       "region %llu cannot be sealed against writing: its publisher set "
			       "F_SEAL_SEAL (%s)",
			       (unsigned long long)say->id, strerror(-err));
	} else {
		is = (struct sl_msg_region){
			.id = r->id, .instance = r->instance, .size = r->info->size};
		a->n.opened++;
		send_reply(a, c, SL_MSG_REGION, serial, &is, sizeof(is), r->fd);
	}
}

static void on_status(struct agent *a, struct agent_conn *c, uint32_t serial)
{
	struct sl_msg_status is;
	size_t bytes;
	int fd = agent_status_memfd(a, &bytes);

	a->n.status++;
	c->hang_up = true; /* only one request per connection */
	if (fd < 0) {
		refuse_request(a, c, serial, REFUSED_SYSTEM, -fd, "cannot write the status: %s",
			       strerror(-fd));
		return;
	}
	is = (struct sl_msg_status){.bytes = bytes};
	send_reply(a, c, SL_MSG_STATUS_IS, serial, &is, sizeof(is), fd);
	close(fd);
}

static const struct conn_request {
	/* role that may send this request; ROLE_NEW if this is not a request */
	enum agent_role role;
	/* whether the request is allowed as the first one on a connection, and as a later one */
	bool first, later;
	uint32_t bytes; /* size of the request's payload */
} requests[] = {
	[SL_MSG_PUBLISH] = {ROLE_PUBLISHER, true, true, sizeof(struct sl_msg_publish)},
	[SL_MSG_CLOSE] = {ROLE_PUBLISHER, false, true, sizeof(struct sl_msg_id)},
	[SL_MSG_SUBSCRIBE] = {ROLE_CONSUMER, true, false, 0},
	[SL_MSG_OPEN] = {ROLE_CONSUMER, false, true, sizeof(struct sl_msg_id)},
	[SL_MSG_VERDICT] = {ROLE_CONSUMER, false, true, sizeof(struct sl_msg_verdict)},
	[SL_MSG_STATUS] = {ROLE_STATUS, true, true, 0},
};

/* Refuses a packet that is malformed or not allowed on this connection, and then returns NULL. */
static const struct conn_request *check_packet(struct agent *a, struct agent_conn *c,
					       const struct sl_msg *msg, size_t bytes, int fd,
					       bool extra)
{
	const struct conn_request *r = &requests[0];
	bool ok = true;

	if (msg->type < sizeof(requests) / sizeof(*requests))
		r = &requests[msg->type];
	if (bytes < sizeof(*msg) || bytes > SL_MSG_MAX || msg->magic != SL_MSG_MAGIC ||
	    msg->length != bytes - sizeof(*msg))
		ok = refuse_request(
			a, c, msg->serial, REFUSED_MALFORMED, EBADMSG,
			"a packet of %zu bytes does not start with \"SLM1\" and its length", bytes);
	else if (r->role == ROLE_NEW || msg->length != r->bytes)
		ok = refuse_request(a, c, msg->serial, REFUSED_MALFORMED, EBADMSG,
				    "unknown message type %u with %u bytes", msg->type,
				    msg->length);
	else if (extra && fd < 0 && msg->type == SL_MSG_PUBLISH)
		ok = refuse_request(
			a, c, msg->serial, REFUSED_SYSTEM, EMFILE,
			"the agent has run out of file descriptors: raise LimitNOFILE, or try "
			"again later");
	else if (extra || (fd >= 0 && msg->type != SL_MSG_PUBLISH))
		ok = refuse_request(a, c, msg->serial, REFUSED_MALFORMED, EBADMSG,
				    "PUBLISH must carry exactly one descriptor, other messages "
				    "none");
	else if (c->role == ROLE_NEW ? !r->first : r->role != c->role || !r->later)
		ok = refuse_request(a, c, msg->serial, REFUSED_MALFORMED, EPROTO,
				    "message type %u is not allowed on this connection", msg->type);
	return ok ? r : NULL;
}

void agent_conn_packet(struct agent *a, struct agent_conn *c, const void *data, size_t bytes,
		       int fd, bool extra)
{
	union {
		struct sl_msg_publish publish;
		struct sl_msg_id id;
		struct sl_msg_verdict verdict;
	} payload = {0};
	/* this reference keeps the tenant until the connection is gone */
	struct agent_tenant *tenant = c->peer->tenant;
	struct sl_msg msg = {0};
	const struct conn_request *request;

	tenant->refs++;
	a->n.packets++;
	if (bytes >= sizeof(msg))
		memcpy(&msg, data, sizeof(msg));
	request = check_packet(a, c, &msg, bytes, fd, extra);
	if (!request)
		goto out;
	memcpy(&payload, (const char *)data + sizeof(msg), msg.length);
	if (msg.type == SL_MSG_VERDICT && !sl_verdict_sound(&payload.verdict)) {
		refuse_request(a, c, msg.serial, REFUSED_MALFORMED, EBADMSG,
			       "the VERDICT has invalid flags, time to live or score");
		goto out;
	}

	if (c->role == ROLE_NEW) {
		if (request->role != ROLE_PUBLISHER && !may_consume(a, c, msg.serial))
			goto out;
		agent_timer_stop(&c->timer);
		c->role = request->role;
		if (c->role == ROLE_CONSUMER)
			a->consumer_conns++;
	}
	switch (msg.type) {
	case SL_MSG_PUBLISH:
		on_publish(a, c, msg.serial, &payload.publish, fd);
		break;
	case SL_MSG_CLOSE:
		on_close(a, c, &payload.id);
		break;
	case SL_MSG_SUBSCRIBE:
		on_subscribe(a, c, msg.serial);
		break;
	case SL_MSG_OPEN:
		on_open(a, c, msg.serial, &payload.id);
		break;
	case SL_MSG_VERDICT:
		agent_verdict_take(a, &payload.verdict);
		break;
	case SL_MSG_STATUS:
		on_status(a, c, msg.serial);
		break;
	}
out:
	if (fd >= 0)
		agent_closer_close(a, tenant, fd);
	agent_tenant_put(tenant);
}

/* ---- receiving ---- */

/* Returns 1 if a packet was handled, 0 if there is none, -1 if the peer hung up or on an error. */
static int receive_packet(struct agent *a, struct agent_conn *c)
{
	_Alignas(8) char data[SL_MSG_MAX + 1];
	const struct agent_tenant *t = c->peer->tenant;
	struct base_fds fds;
	bool extra;
	ssize_t n;

	if (!agent_closer_may_take(a, t)) {
		a->n.paused++;
		c->paused = true;
		update_events(a, c);
		return 0;
	}
	/*
	 * There is room for the maximum number of descriptors: the kernel would close any others in
	 * this call, which may block.
	 */
	n = base_receive_fds(c->fd, data, sizeof(data), MSG_DONTWAIT, &fds);
	/*
	 * If a peer closes the connection without reading its answer, the connection is reset. The
	 * kernel reports this once, before packets that were sent earlier, which may include a
	 * CLOSE.
	 */
	if (n == -ECONNRESET)
		return 1;
	if (n < 0)
		return n == -EAGAIN ? 0 : -1;
	extra = fds.count > 1 || (fds.truncated && n <= SL_MSG_MAX);
	a->n.extra_fds += extra;
	/* An empty packet looks like end of file. */
	for (unsigned int i = n ? 1 : 0; i < fds.count; i++)
		agent_closer_later(a, t, fds.fd[i]);
	if (n == 0)
		return -1;
	agent_conn_packet(a, c, data, (size_t)n, fds.count ? fds.fd[0] : -1, extra);
	return 1;
}

/*
 * Receives at least one packet, then continues until the tenant's time in this turn is used up.
 * Returns true if it stopped although more packets may be waiting.
 */
static bool receive_most(struct agent *a, struct agent_conn *c, int packets, uint64_t most_ns)
{
	struct agent_tenant *t = c->peer->tenant; /* the tenant may be freed with the connection */
	uint64_t start = base_now_ns(), spent = t->turn == a->turn ? t->spent_ns : 0, now = start;
	int got = 1;

	t->refs++;
	while (packets-- && got > 0 && !c->gone && !c->out && !c->paused &&
	       (now == start || spent + (now - start) < most_ns)) {
		got = receive_packet(a, c);
		now = base_now_ns();
	}
	if (got < 0 && !c->gone)
		agent_conn_close(a, c);
	t->turn = a->turn;
	t->spent_ns = spent + (now - start);
	agent_tenant_put(t);
	return got > 0 && !c->gone && !c->out && !c->paused;
}

static bool time_used_up(const struct agent *a, const struct agent_tenant *t)
{
	return t->turn == a->turn && t->spent_ns >= TURN_NS;
}

bool agent_conn_drain(struct agent *a, struct agent_conn *c)
{
	return !time_used_up(a, c->peer->tenant) && !receive_most(a, c, 1024, TURN_NS);
}

void agent_conn_event(struct agent *a, struct agent_conn *c, uint32_t events)
{
	/* A collector must not have to wait for publishers of the same user. */
	const bool consumes = c->role == ROLE_CONSUMER;

	if (c->gone || (!consumes && time_used_up(a, c->peer->tenant)))
		return; /* epoll reports the connection again in the next turn */
	if (c->out) {
		flush_answer(a, c);
		/* The peer no longer accepts answers. */
		if (!c->gone && c->out && events & (EPOLLHUP | EPOLLERR))
			agent_conn_close(a, c);
		if (c->gone || c->out)
			return;
	}
	if (c->paused && events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) {
		agent_conn_close(a, c);
		return;
	}
	receive_most(a, c, PACKETS_PER_EVENT, consumes ? UINT64_MAX : TURN_NS);
}

void agent_conn_resume(struct agent *a)
{
	struct agent_conn *c;

	TAILQ_FOREACH(c, &a->conns, link)
	if (c->paused && agent_closer_may_take(a, c->peer->tenant)) {
		c->paused = false;
		update_events(a, c);
	}
}

static void turn_away(struct agent *a, int fd, const struct agent_tenant *t, const char *why)
{
	const struct sl_msg msg = make_header(SL_MSG_REFUSED, 0, sizeof(struct sl_msg_refused));
	struct sl_msg_refused no = {.error = EUSERS};

	snprintf(no.reason, sizeof(no.reason), "%s", why);
	send_message(fd, &msg, &no, -1);
	agent_closer_hang_up(a, t, fd);
	a->n.connections++;
	a->n.dropped[DROP_CROWD]++;
	base_log_limited(BASE_WARN, AGENT_LOG, "connection refused uid=%d: %s", (int)t->id.uid,
			 why);
}

static const char no_descriptor[] = "out of file descriptors: raise LimitNOFILE";

/* A connection keeps its tenant, so a peer that cannot be attested now must connect again. */
static void turn_away_unattested(struct agent *a, int fd, const struct agent_peer *p)
{
	const bool full = p->unattested == -EMFILE || p->unattested == -ENFILE;
	char why[160];

	snprintf(why, sizeof(why), "cannot verify the identity of pid %d, try again: %s",
		 (int)p->pid, strerror(-p->unattested));
	turn_away(a, fd, p->tenant, full ? no_descriptor : why);
}

/* Turns away a tenant that exceeds its share. Returns true if it did. */
static bool turn_away_crowd(struct agent *a, int fd, const struct agent_tenant *t)
{
	const struct agent_use conns = agent_tenant_use(a, t, RESOURCE_CONNECTIONS);
	const struct agent_use fds = agent_tenant_use(a, t, RESOURCE_DESCRIPTORS);
	bool many = conns.held + 1 > conns.limit;
	const struct agent_use *u = many ? &conns : &fds;
	char why[192], name[AGENT_TENANT_NAME];

	if (!many && fds.held + AGENT_FDS_CONNECTION <= fds.limit)
		return false;
	if (t->trusted)
		snprintf(why, sizeof(why), "all %" PRIu64 " %s are in use: raise %s",
			 u->all.capacity, many ? "connections" : "descriptors",
			 many ? "--max-regions" : "LimitNOFILE");
	else
		snprintf(why, sizeof(why),
			 "%s has %" PRIu64 " of %" PRIu64 " %s, and its share is %" PRIu64
			 ": close some connections, or raise %s",
			 agent_tenant_name(t, name), u->held, u->all.capacity,
			 many ? "connections" : "descriptors", u->limit,
			 many ? "--max-regions" : "LimitNOFILE");
	turn_away(a, fd, t, why);
	return true;
}

/*
 * Accepts a connection with the spare descriptor and closes it: otherwise the socket would stay
 * readable.
 */
static int accept_without_room(struct agent *a, int listen_fd)
{
	int fd;

	if (a->spare_fd < 0)
		return -1;
	close(a->spare_fd);
	fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	a->spare_fd = -1;
	return fd;
}

void agent_conn_accept(struct agent *a, const struct agent_listener *l)
{
	const bool publish_only = l != &a->listen[LISTEN_CONSUME];

	for (int i = 0; i < PACKETS_PER_EVENT; i++) {
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		bool full = fd < 0 && (errno == EMFILE || errno == ENFILE);
		struct agent_peer *peer;

		if (full)
			fd = accept_without_room(a, l->fd);
		if (fd < 0)
			return;
		peer = agent_peer_new(a, fd);
		if (full && peer)
			turn_away(a, fd, peer->tenant, no_descriptor);
		else if (peer && peer->unattested)
			turn_away_unattested(a, fd, peer);
		else if (peer && !turn_away_crowd(a, fd, peer->tenant)) {
			if (agent_conn_new(a, fd, peer, publish_only))
				continue;
			agent_closer_hang_up(a, peer->tenant, fd);
		} else if (!peer) {
			close(fd);
		}
		agent_peer_put(a, peer);
		if (a->spare_fd < 0)
			a->spare_fd = fcntl(a->epoll_fd, F_DUPFD_CLOEXEC, 0);
	}
}
