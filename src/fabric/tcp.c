// SPDX-License-Identifier: Apache-2.0
/*
 * tcp.c - the fabric provider for hosts without RDMA: tcp://HOST[:PORT]. tcp_host.c is the other
 * side.
 *
 * The READs of a round are sent as a list: one ask has up to FABRIC_TCP_RANGES_MAX ranges. The
 * bytes of its answer are received directly into the destinations of the READs. Answers arrive in
 * the order of the asks, so they need no IDs. After any failure, the connection is closed, and
 * reopened after a back-off.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "fabric/gate.h"
#include "fabric/provider.h"

#define SCHEME "tcp://"

static bool tcp_takes(const char *target)
{
	return !strncmp(target, SCHEME, strlen(SCHEME));
}

#if HAVE_FABRIC_TCP
#include "fabric/lookup.h"
#include "fabric/merge.h"
#include "fabric/tcp.h"

#define CHECK_UP_NS 2000000u /* interval at which an idle connection is checked */
#define AREAS	    64	     /* maximum number of landing areas per receive call */

_Static_assert(FABRIC_MERGE_GAP_MAX <= FABRIC_BUFFER_TAIL, "gaps are received into the tail");

const struct base_psk_use fabric_tcp_use = {
	.identity = "sidelight-fabric",
	.purpose = "sidelight fabric 1",
	.plain = FABRIC_TCP_FIRST,
};

struct fabric_tcp {
	struct fabric base;
	char host[256], service[8];
	struct fabric_lookup *lookup;
	struct sockaddr_storage to;
	uint64_t deadline_ns, check_ns;

	int fd; /* -1 means no connection */
	struct base_psk *tls;
	bool requested; /* the request was written to `out` */
	bool broken;	/* the next tcp_drive() or tcp_poll() closes the connection */
	union fabric_tcp_reply reply;
	size_t reply_bytes;

	struct fabric_merge_limits limits;
	uint32_t depth;	   /* maximum number of outstanding ranges, each a fabric_request */
	uint32_t answered; /* remaining ranges of the answer being received; 0 between answers */
	size_t taken;	   /* bytes received of the answer's header or of the range at head */
	struct fabric_tcp_answer answer;

	uint8_t *out; /* room for the asks of all ranges */
	size_t out_room, out_used, out_sent;
};

static struct fabric_tcp *tcp_of(struct fabric *f)
{
	return (struct fabric_tcp *)f;
}

/* ---- closing ---- */

static void close_socket(struct fabric_tcp *t)
{
	base_psk_free(t->tls);
	t->tls = NULL;
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
	t->requested = t->broken = false;
	t->answered = 0;
	t->reply_bytes = t->taken = t->out_used = t->out_sent = 0;
}

static void reset_connection(struct fabric_tcp *t, uint64_t now_ns, uint64_t timeout_ns)
{
	close_socket(t);
	fabric_went_down(&t->base, now_ns, timeout_ns);
}

/* The i-th outstanding range, counted from the oldest. */
static struct fabric_request *range_at(const struct fabric_tcp *t, uint32_t i)
{
	return &t->base.requests[(t->base.head + i) & t->base.mask];
}

static uint32_t count_waiting(const struct fabric_tcp *t)
{
	return t->base.tail - t->base.head;
}

static void give_up(struct fabric_tcp *t, uint64_t now_ns, const char *why)
{
	fabric_failed(&t->base, "%s: %s", t->base.target, why);
	reset_connection(t, now_ns, 0);
}

/* Marks the connection for closing, as the caller still uses it. Always returns false. */
static bool break_connection(struct fabric_tcp *t, const char *why)
{
	if (!t->broken)
		fabric_failed(&t->base, "%s: %s", t->base.target, why);
	t->broken = true;
	return false;
}

/* ---- bytes ---- */

/* Returns false if the connection is broken. */
static bool flush_out(struct fabric_tcp *t)
{
	while (t->out_sent < t->out_used) {
		const uint8_t *from = t->out + t->out_sent;
		const size_t bytes = t->out_used - t->out_sent;
		ssize_t n = t->tls ? base_psk_write(t->tls, from, bytes)
				   : send(t->fd, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && (t->tls ? n == -EAGAIN : errno == EAGAIN || errno == EINTR))
			return true;
		if (n < 0)
			return break_connection(t, "the peer closed the connection");
		t->out_sent += (size_t)n;
	}
	t->out_used = t->out_sent = 0;
	return true;
}

/* Returns the number of bytes received; 0 if there are none yet, or if the connection is broken. */
static size_t receive(struct fabric_tcp *t, const struct iovec *to, int count)
{
	const struct msghdr m = {.msg_iov = (struct iovec *)to, .msg_iovlen = (size_t)count};
	ssize_t n = t->tls ? base_psk_read(t->tls, to->iov_base, to->iov_len)
			   : recvmsg(t->fd, (struct msghdr *)&m, MSG_DONTWAIT);

	if (n > 0)
		return (size_t)n;
	if (n < 0 && (t->tls ? n == -EAGAIN : errno == EAGAIN || errno == EINTR))
		return 0;
	break_connection(t, "the peer closed the connection");
	return 0;
}

/* ---- connecting ---- */

static void connect_socket(struct fabric_tcp *t, uint64_t now_ns)
{
	const int yes = 1;

	t->fd = socket(t->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (t->fd < 0 ||
	    (connect(t->fd, (struct sockaddr *)&t->to, sizeof(t->to)) && errno != EINPROGRESS)) {
		give_up(t, now_ns, strerror(errno));
		return;
	}
	setsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	if (!t->base.opts.secret)
		return;
	t->tls = base_psk_new(t->fd, &fabric_tcp_use, t->base.opts.secret,
			      t->base.opts.secret_bytes, false);
	if (!t->tls)
		give_up(t, now_ns, "out of memory");
}

static void look_up(struct fabric_tcp *t, uint64_t now_ns)
{
	int code = fabric_lookup(&t->lookup, t->host, t->service, &t->to);

	if (!code)
		connect_socket(t, now_ns);
	else if (code != EAI_INPROGRESS)
		give_up(t, now_ns, gai_strerror(code));
}

static void start_connecting(struct fabric_tcp *t, uint64_t now_ns)
{
	t->base.state = FABRIC_CONNECTING;
	t->deadline_ns = now_ns + (uint64_t)t->base.opts.connect_timeout_ms * 1000000u;
	look_up(t, now_ns);
}

/*
 * Returns NULL, or the reason why the connection cannot be used. Sets *again if the handshake is
 * not complete yet.
 */
static const char *shake_hands(struct fabric_tcp *t, bool *again)
{
	struct pollfd p = {.fd = t->fd, .events = POLLOUT};
	socklen_t n = sizeof(int);
	int err = 0;

	if (poll(&p, 1, 0) < 1) {
		*again = true;
		return NULL;
	}
	if (getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &err, &n) || err)
		return strerror(err ?: errno);
	err = t->tls ? base_psk_handshake(t->tls) : 0;
	*again = err == -EAGAIN;
	switch (err) {
	case 0:
	case -EAGAIN:
		return NULL;
	case -EACCES:
		return "refused: the agent has a different secret";
	case -EPROTONOSUPPORT:
		return "the agent did not prove that it knows the secret: start it with "
		       "--rdma-secret, too";
	case -EPIPE:
		return "the peer closed the connection";
	default:
		return "the peer is not a sidelight agent of this version";
	}
}

static void send_request(struct fabric_tcp *t)
{
	const struct fabric_verbs_request r = {
		.magic = FABRIC_VERBS_REQUEST_MAGIC,
		.version = FABRIC_VERBS_VERSION,
		.flags = t->base.opts.notify ? FABRIC_VERBS_NOTIFY : 0,
	};

	memcpy(t->out, &r, sizeof(r));
	t->out_used = sizeof(r);
	t->requested = true;
}

static void take_reply(struct fabric_tcp *t, uint64_t now_ns)
{
	const struct fabric_host_hello *hello = &t->reply.hello;
	const struct iovec to = {t->reply.room + t->reply_bytes, sizeof(t->reply) - t->reply_bytes};
	const char *why;

	t->reply_bytes += receive(t, &to, 1);
	if (t->reply_bytes < sizeof(t->reply))
		return;
	why = fabric_gate_why(&t->reply.refusal);
	if (why || !fabric_gate_hello_is_sound(hello) || hello->directory_addr < FABRIC_TCP_BASE) {
		give_up(t, now_ns, why ?: "the peer is not a sidelight agent of this version");
		return;
	}
	fabric_went_up(&t->base, &(struct fabric_remote){
					 .addr = hello->directory_addr,
					 .length = hello->directory_length,
					 .rkey = hello->directory_rkey,
				 });
}

static void continue_connecting(struct fabric_tcp *t, uint64_t now_ns)
{
	const char *why;
	bool again = false;

	if (now_ns >= t->deadline_ns) {
		give_up(t, now_ns, t->fd >= 0 ? "no answer" : "the host name cannot be resolved");
		return;
	}
	if (t->fd < 0) {
		look_up(t, now_ns);
		return;
	}
	if (!t->requested) {
		why = shake_hands(t, &again);
		if (why)
			give_up(t, now_ns, why);
		if (why || again)
			return;
		send_request(t);
	}
	if (flush_out(t))
		take_reply(t, now_ns);
}

/* Any input on an idle connection is an error: end of file or unexpected data. */
static void check_idle(struct fabric_tcp *t)
{
	char byte;
	ssize_t n = recv(t->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		break_connection(t, "the peer closed the connection");
}

static void tcp_drive(struct fabric *f, uint64_t now_ns)
{
	struct fabric_tcp *t = tcp_of(f);

	if (f->state == FABRIC_DOWN && now_ns >= f->retry_ns)
		start_connecting(t, now_ns);
	else if (f->state == FABRIC_CONNECTING)
		continue_connecting(t, now_ns);
	else if (f->state == FABRIC_UP && !count_waiting(t) && now_ns >= t->check_ns) {
		t->check_ns = now_ns + CHECK_UP_NS;
		if (flush_out(t))
			check_idle(t);
	}
	if (t->broken)
		reset_connection(t, now_ns, 0);
}

/* ---- reading ---- */

static void *put_out(struct fabric_tcp *t, const void *data, size_t bytes)
{
	void *at = t->out + t->out_used;

	memcpy(at, data, bytes);
	t->out_used += bytes;
	return at;
}

/* Queues one request for up to count READs. Returns how many READs it has. */
static uint32_t put_ask(struct fabric_tcp *t, struct fabric_read *reads, uint32_t count,
			uint64_t now_ns)
{
	struct fabric_tcp_ask ask = {.magic = FABRIC_TCP_ASK};
	void *at = put_out(t, &ask, sizeof(ask));
	uint32_t taken = 0;

	while (taken < count && ask.count < FABRIC_TCP_RANGES_MAX && count_waiting(t) < t->depth) {
		struct fabric_merged merged;

		fabric_merge(&merged, &t->limits, &reads[taken], count - taken);
		put_out(t,
			&(struct fabric_tcp_range){.addr = merged.addr,
						   .rkey = merged.rkey,
						   .bytes = (uint32_t)merged.bytes},
			sizeof(struct fabric_tcp_range));
		t->base.requests[t->base.tail++ & t->base.mask] = (struct fabric_request){
			.first = &reads[taken],
			.reads = merged.reads,
			.bytes = (uint32_t)merged.bytes,
			.posted_ns = now_ns,
		};
		taken += merged.reads;
		ask.count++;
	}
	memcpy(at, &ask, sizeof(ask));
	t->base.stats.work_requests += ask.count;
	return taken;
}

static uint32_t tcp_post(struct fabric *f, struct fabric_read *reads, uint32_t count)
{
	struct fabric_tcp *t = tcp_of(f);
	const uint64_t now = base_now_ns();
	uint32_t taken = 0;

	while (taken < count && !t->broken && count_waiting(t) < t->depth &&
	       t->out_room - t->out_used >= FABRIC_TCP_ASK_BYTES)
		taken += put_ask(t, reads + taken, count - taken, now);
	if (taken && !t->broken) {
		f->stats.doorbells++;
		flush_out(t);
	}
	return taken;
}

/* Lists the destinations of the next bytes. Returns their number; 0 if they are not known. */
static int next_areas(const struct fabric_tcp *t, struct iovec *to)
{
	size_t skip = t->taken;
	int n = 0;

	for (uint32_t i = 0; i < t->answered; i++) {
		const struct fabric_request *r = range_at(t, i);
		struct fabric_merged merged;

		fabric_merge(&merged, &t->limits, r->first, r->reads);
		/*
		 * The addresses changed since the request, so the READs no longer merge as
		 * requested, and it is not known which bytes belong to which READ.
		 */
		if (merged.bytes != r->bytes)
			return n;
		for (uint32_t k = 0; k < merged.areas; k++) {
			struct iovec area = merged.area[k];
			const size_t over = BASE_MIN(skip, area.iov_len);

			skip -= over;
			if (over == area.iov_len)
				continue;
			if (n == AREAS)
				return n;
			to[n++] = (struct iovec){(char *)area.iov_base + over, area.iov_len - over};
		}
	}
	return n;
}

static bool refuse_answer(struct fabric_tcp *t)
{
	t->base.stats.wrong_id++;
	return break_connection(t, "received an answer that does not match the request");
}

/* Handles the refusal of a range, after which the host hangs up. */
static bool take_error(struct fabric_tcp *t, uint32_t at, int error)
{
	const struct fabric_read *r = range_at(t, at)->first;

	fabric_failed(&t->base, "%s: READ of region %llu at offset %llu failed: %s", t->base.target,
		      (unsigned long long)r->remote->id, (unsigned long long)r->offset,
		      strerror(error));
	t->broken = true;
	while (at--)
		fabric_finish_oldest(&t->base, -ENOTCONN);
	fabric_finish_oldest(&t->base, error == EACCES ? -EACCES : -EIO);
	return false;
}

/* Returns false if the connection is broken. */
static bool check_answer(struct fabric_tcp *t)
{
	const struct fabric_tcp_answer *a = &t->answer;
	const uint32_t waiting = count_waiting(t);
	uint64_t bytes = 0;

	if (a->magic != FABRIC_TCP_ANSWER || a->count > waiting)
		return refuse_answer(t);
	if (a->error)
		return a->count < waiting ? take_error(t, a->count, (int)a->error)
					  : refuse_answer(t);
	for (uint32_t i = 0; i < a->count; i++)
		bytes += range_at(t, i)->bytes;
	if (!a->count || bytes != a->bytes)
		return refuse_answer(t);
	t->answered = a->count;
	return true;
}

/* Receives part of an answer. Returns false if no more data is available. */
static bool take_answer(struct fabric_tcp *t)
{
	struct iovec to[AREAS];
	size_t n;
	int count;

	if (!t->answered) {
		to[0] = (struct iovec){(char *)&t->answer + t->taken, sizeof(t->answer) - t->taken};
		n = receive(t, to, 1);
		t->taken += n;
		if (t->taken < sizeof(t->answer))
			return n;
		t->taken = 0;
		return check_answer(t);
	}
	count = next_areas(t, to);
	if (!count)
		return refuse_answer(t);
	n = receive(t, to, count);
	t->taken += n;
	while (t->answered && t->taken >= range_at(t, 0)->bytes) {
		t->taken -= range_at(t, 0)->bytes;
		fabric_finish_oldest(&t->base, 0);
		t->answered--;
	}
	return n;
}

static void tcp_poll(struct fabric *f, uint64_t now_ns, uint64_t timeout_ns)
{
	struct fabric_tcp *t = tcp_of(f);

	if (t->fd < 0)
		return;
	flush_out(t);
	while (!t->broken && count_waiting(t) && take_answer(t))
		;
	if (t->broken || fabric_got_no_answer(f, now_ns, timeout_ns))
		reset_connection(t, now_ns, timeout_ns);
}

static int tcp_notify(struct fabric *f, uint32_t entry, const struct sl_msg_verdict *verdict)
{
	struct fabric_tcp *t = tcp_of(f);
	struct fabric_tcp_notice n = {.magic = FABRIC_TCP_NOTICE, .entry = entry};
	uint64_t cell[8] = {0};

	if (t->broken)
		return -ENOTCONN;
	if (t->out_room - t->out_used < sizeof(n))
		return -EAGAIN;
	memcpy(cell, verdict, sizeof(*verdict));
	cell[7] = sl_line_check(cell);
	memcpy(&n.line, cell, sizeof(n.line));
	put_out(t, &n, sizeof(n));
	return flush_out(t) ? 0 : -ENOTCONN;
}

/* ---- opening ---- */

static void tcp_fini(struct fabric *f)
{
	struct fabric_tcp *t = tcp_of(f);

	close_socket(t);
	fabric_lookup_end(&t->lookup);
	free(t->out);
}

static int tcp_init(struct fabric *f, const char *target)
{
	struct fabric_tcp *t = tcp_of(f);

	t->fd = -1;
	if (!fabric_gate_split(target + strlen(SCHEME), t->host, t->service)) {
		fabric_failed(f, "'%s' is not tcp://HOST[:PORT]", target);
		return -EINVAL;
	}
	t->limits = (struct fabric_merge_limits){
		.areas = FABRIC_MERGE_AREAS_MAX,
		.bytes = UINT32_MAX,
		.sink = f->buffer + f->opts.buffer_bytes,
	};
	/* A range takes only a few bytes, unlike a work request, so allow more of them. */
	if (!fabric_make_requests(
		    f, BASE_MAX(FABRIC_TCP_ASKS * FABRIC_TCP_RANGES_MAX, f->opts.queue_depth)))
		return -ENOMEM;
	t->depth = f->mask + 1;
	t->out_room = 2 * (t->depth / FABRIC_TCP_RANGES_MAX) * FABRIC_TCP_ASK_BYTES;
	t->out = malloc(t->out_room);
	return t->out ? 0 : -ENOMEM;
}

const struct fabric_ops fabric_provider_tcp = {
	.name = "tcp",
	.takes = tcp_takes,
	.bytes = sizeof(struct fabric_tcp),
	.open = tcp_init,
	.close = tcp_fini,
	.drive = tcp_drive,
	.first_addr = FABRIC_TCP_BASE,
	.post = tcp_post,
	.poll = tcp_poll,
	.notify = tcp_notify,
};
#else
const struct fabric_ops fabric_provider_tcp = {
	.name = "tcp",
	.takes = tcp_takes,
	.absent = FABRIC_NO_TCP,
};
#endif
