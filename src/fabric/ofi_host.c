// SPDX-License-Identifier: Apache-2.0
/*
 * ofi_host.c - the passive side over libfabric, for hosts without RDMA. A thread of this process
 * answers each READ; its CPU time is the cost for this host. The caller's thread registers memory
 * and takes notices.
 *
 * Memory is registered for FI_REMOTE_READ only; verdicts arrive as messages, so nothing can be
 * written remotely. Requests, challenges and proofs are the same as for RDMA-CM (gate.h); an
 * endpoint is created only for an admitted peer. libfabric does not claim to validate the data that
 * such a peer sends: docs/security.md.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "fabric/lookup.h"
#include "fabric/ofi_host.h"

#define DEFAULT_QUEUES	64u
#define KEY_TRIES	16
#define EVENTS_PER_TURN 64
#define COMPLETIONS	32
#define IDLE_MS		1000
#define WATCHFUL_MS	100 /* poll timeout while sockets are suspect */
#define HALF_OPEN_NS	15000000000ull
#define RING_NS		1000000000ull /* interval at which the caller reads the counters */

static struct fabric_ofi_host *ofi_of(struct fabric_host *h)
{
	return (struct fabric_ofi_host *)h;
}

/* ---- connections ---- */

/* Takes completed messages, which then wait for the caller's thread. */
static void take_completions(struct fabric_ofi_host *h)
{
	struct fi_cq_msg_entry done[COMPLETIONS];
	struct fi_cq_err_entry failed;
	ssize_t n;

	do {
		n = fi_cq_read(h->cq, done, COMPLETIONS);
		for (ssize_t i = 0; i < n; i++) {
			struct fabric_ofi_slot *s = done[i].op_context;

			if (!s || !(done[i].flags & FI_RECV) || s->queued)
				continue;
			if (done[i].len != sizeof(s->notice))
				s->notice.entry = UINT32_MAX;
			s->queued = true;
			h->ready[(h->ready_head + h->ready_count++) % READY_MAX] = s;
		}
		if (n == -FI_EAVAIL) { /* the connection is closing: an event reports that */
			failed = (struct fi_cq_err_entry){0};
			fi_cq_readerr(h->cq, &failed, 0);
		}
	} while (n == COMPLETIONS || n == -FI_EAVAIL);
	if (h->ready_count)
		eventfd_write(h->bell, 1);
}

static void drop_connection(struct fabric_ofi_host *h, struct fabric_ofi_conn *c)
{
	struct fabric_ofi_conn **at = &h->conns;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	h->gate.queues--;
	h->gate.notifiers -= c->notices != NULL;
	if (c->connected_ns)
		h->gate.stats.disconnected++;
	fabric_ofi_sent(h, c);
	fi_shutdown(c->ep, 0);
	fi_close(&c->ep->fid);
	take_completions(h); /* from here on, no completion refers to the connection */
	if (c->notices)
		c->notices->conn = NULL;
	free(c);
}

static int post_receive(struct fabric_ofi_conn *c, struct fabric_ofi_slot *s)
{
	return (int)fi_recv(c->ep, &s->notice, sizeof(s->notice), NULL, 0, s);
}

/* Returns an unused entry for a notifier's messages, after all earlier messages were taken. */
static struct fabric_ofi_notices *notices_free(struct fabric_ofi_host *h)
{
	for (uint32_t i = 0; i < FABRIC_NOTIFIERS_MAX; i++) {
		struct fabric_ofi_notices *n = &h->notices[i];
		bool busy = n->conn;

		for (uint32_t j = 0; j < NOTICES_OUT; j++)
			busy |= n->slot[j].queued;
		if (!busy)
			return n;
	}
	return NULL;
}

static bool open_endpoint(struct fabric_ofi_host *h, struct fabric_ofi_conn *c,
			  struct fi_info *info)
{
	int err = fi_endpoint(h->domain, info, &c->ep, c);

	err = err ?: fi_ep_bind(c->ep, &h->eq->fid, 0);
	err = err ?: fi_ep_bind(c->ep, &h->cq->fid, FI_TRANSMIT | FI_RECV);
	err = err ?: fi_enable(c->ep);
	for (uint32_t i = 0; !err && c->notices && i < NOTICES_OUT; i++)
		err = post_receive(c, &c->notices->slot[i]);
	return !err;
}

static bool accept_conn(struct fabric_ofi_host *h, struct fabric_ofi_conn *c,
			const struct fabric_host_request *r)
{
	struct fabric_verbs_welcome w = {.hello = h->gate.hello};

	if (c->notices)
		w.hello.directory_rkey = 0;
	if (h->gate.auth)
		fabric_auth_welcome(h->gate.auth, &r->proof, r->queue, &w);
	return !fi_accept(c->ep, &w, sizeof(w));
}

static bool admit_request(struct fabric_ofi_host *h, const struct fabric_host_request *r,
			  enum fabric_refusal *cause, struct fabric_verbs_refusal *say)
{
	uint32_t held[2] = {0};

	if (!fabric_gate_request_fits(r))
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_MALFORMED, EPROTO);
	if (!h->gate.hello.magic)
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_SYSTEM, EAGAIN);
	if (r->plain.flags & FABRIC_VERBS_STORE ||
	    (r->plain.flags & FABRIC_VERBS_NOTIFY && !h->notice))
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_SYSTEM, EOPNOTSUPP);
	for (const struct fabric_ofi_conn *c = h->conns; c; c = c->next)
		if (!memcmp(c->address, r->address, sizeof(c->address))) {
			held[0]++;
			held[1] += c->notices != NULL;
		}
	return fabric_gate_admits(&h->gate, r, held, cause, say);
}

static void connect_request(struct fabric_ofi_host *h, struct fi_info *info, const uint8_t *data,
			    size_t bytes)
{
	struct fabric_verbs_refusal say = {.magic = FABRIC_VERBS_REFUSAL_MAGIC};
	struct fabric_host_request r = {0};
	enum fabric_refusal cause;
	struct fabric_ofi_conn *c = NULL;

	if (bytes >= offsetof(struct fabric_verbs_request, instance))
		memcpy(&r.plain, data, BASE_MIN(bytes, sizeof(r.plain)));
	fabric_gate_share_of(info->dest_addr, r.address);
	if (!admit_request(h, &r, &cause, &say))
		goto refuse;
	cause = FABRIC_REFUSED_SYSTEM;
	say.error = ENOMEM;
	c = calloc(1, sizeof(*c));
	if (!c)
		goto refuse;
	c->fd = -1;
	memcpy(&c->peer, info->dest_addr, BASE_MIN(info->dest_addrlen, sizeof(c->peer)));
	memcpy(c->address, r.address, sizeof(c->address));
	if (r.plain.flags & FABRIC_VERBS_NOTIFY) {
		c->notices = notices_free(h);
		if (!c->notices)
			goto refuse;
		for (uint32_t i = 0; i < NOTICES_OUT; i++)
			c->notices->slot[i].of = c->notices;
	}
	if (!open_endpoint(h, c, info) || !accept_conn(h, c, &r)) {
		/* libfabric has closed the socket, or will close it with the endpoint. */
		if (c->ep)
			fi_close(&c->ep->fid);
		take_completions(h);
		fabric_gate_count(&h->gate, cause, NULL);
		free(c);
		return;
	}
	if (c->notices)
		c->notices->conn = c;
	c->serial = ++h->serial;
	c->accepted_ns = base_now_ns();
	c->next = h->conns;
	h->conns = c;
	h->gate.queues++;
	h->gate.notifiers += c->notices != NULL;
	h->gate.stats.accepted++;
	return;
refuse:
	free(c);
	fabric_gate_count(&h->gate, cause, &say);
	fi_reject(h->passive, info->handle, &say, sizeof(say));
}

static struct fabric_ofi_conn *conn_of(const struct fabric_ofi_host *h, const struct fid *fid)
{
	struct fabric_ofi_conn *c = h->conns;

	while (c && &c->ep->fid != fid)
		c = c->next;
	return c;
}

static void take_events(struct fabric_ofi_host *h)
{
	for (int i = 0; i < EVENTS_PER_TURN; i++) {
		struct fi_eq_err_entry failed = {0};
		union fabric_ofi_event e;
		struct fabric_ofi_conn *c;
		uint32_t type = 0;
		ssize_t n = fi_eq_read(h->eq, &type, &e, sizeof(e), 0);

		if (n == -FI_EAVAIL) {
			if (fi_eq_readerr(h->eq, &failed, 0) > 0 &&
			    (c = conn_of(h, failed.fid)) != NULL)
				drop_connection(h, c);
			continue;
		}
		if (n < (ssize_t)sizeof(e.cm))
			return;
		if (type == FI_CONNREQ) {
			connect_request(h, e.cm.info, e.cm.data, (size_t)n - sizeof(e.cm));
			fi_freeinfo(e.cm.info);
			continue;
		}
		c = conn_of(h, e.cm.fid);
		if (c && type == FI_CONNECTED)
			c->connected_ns = base_now_ns();
		else if (c && type == FI_SHUTDOWN)
			drop_connection(h, c);
	}
}

static void drop_half_open(struct fabric_ofi_host *h, uint64_t now_ns)
{
	for (struct fabric_ofi_conn *c = h->conns, *next; c; c = next) {
		next = c->next;
		if (c->connected_ns || now_ns - c->accepted_ns < HALF_OPEN_NS)
			continue;
		h->gate.stats.half_open++;
		drop_connection(h, c);
	}
}

static void *serve_requests(void *arg)
{
	struct fabric_ofi_host *h = arg;
	struct fid *waited[] = {&h->eq->fid, &h->cq->fid};
	struct pollfd p[] = {
		{.fd = h->stop, .events = POLLIN},
		{.fd = h->eq_fd, .events = POLLIN},
		{.fd = h->cq_fd, .events = POLLIN},
	};
	bool watchful = false, served = false;

	while (!(p[0].revents & POLLIN)) {
		/* fi_trywait() fails if there is work to do at once */
		bool idle = !fi_trywait(h->fabric, waited, 2);
		int ready = poll(p, 3, !idle ? 0 : watchful ? WATCHFUL_MS : IDLE_MS);
		uint64_t now = base_now_ns();

		if (ready < 0 && errno != EINTR)
			break;
		served |= !idle || ready > 0;
		pthread_mutex_lock(&h->lock);
		take_completions(h);
		take_events(h);
		fabric_ofi_sweep(h, now);
		drop_half_open(h, now);
		watchful = h->suspects;
		if (served && now - h->rung_ns >= RING_NS) {
			eventfd_write(h->bell, 1);
			h->rung_ns = now;
			served = false;
		}
		pthread_mutex_unlock(&h->lock);
	}
	return NULL;
}

/* ---- opening ---- */

static void ofi_close(struct fabric_host *base)
{
	struct fabric_ofi_host *h = ofi_of(base);

	if (h->running) {
		eventfd_write(h->stop, 1);
		pthread_join(h->thread, NULL);
	}
	while (h->conns)
		drop_connection(h, h->conns);
	OFI_CLOSE(h->passive);
	OFI_CLOSE(h->cq);
	OFI_CLOSE(h->domain);
	OFI_CLOSE(h->eq);
	OFI_CLOSE(h->fabric);
	if (h->info)
		fi_freeinfo(h->info);
	if (h->descriptors)
		closedir(h->descriptors);
	if (h->stop >= 0)
		close(h->stop);
	if (h->bell >= 0)
		close(h->bell);
	fabric_auth_free(h->gate.auth);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

/* Returns NULL, or the name of the failed call with *err set (negative). */
static const char *start_listening(struct fabric_ofi_host *h, int *err)
{
	struct fi_eq_attr events = {.wait_obj = FI_WAIT_FD};
	struct fi_cq_attr completions = {
		.size = FABRIC_NOTIFIERS_MAX * NOTICES_OUT * 2,
		.format = FI_CQ_FORMAT_MSG,
		.wait_obj = FI_WAIT_FD,
	};

	if ((*err = fi_fabric(h->info->fabric_attr, &h->fabric, NULL)))
		return "fi_fabric";
	if ((*err = fi_eq_open(h->fabric, &events, &h->eq, NULL)))
		return "fi_eq_open";
	if ((*err = fi_domain(h->fabric, h->info, &h->domain, NULL)))
		return "fi_domain";
	if ((*err = fi_cq_open(h->domain, &completions, &h->cq, NULL)))
		return "fi_cq_open";
	if ((*err = fi_control(&h->eq->fid, FI_GETWAIT, &h->eq_fd)) ||
	    (*err = fi_control(&h->cq->fid, FI_GETWAIT, &h->cq_fd)))
		return "its provider has no descriptor to wait for";
	if ((*err = fi_passive_ep(h->fabric, h->info, &h->passive, NULL)) ||
	    (*err = fi_pep_bind(h->passive, &h->eq->fid, 0)))
		return "fi_passive_ep";
	*err = fi_listen(h->passive);
	return *err == -FI_EADDRINUSE ? "in use" : *err ? "fi_listen" : NULL;
}

static int describe_host(struct fabric_ofi_host *h, const char *provider)
{
	struct sockaddr_storage at = {0};
	size_t bytes = sizeof(at);
	int err = fi_getname(&h->passive->fid, &at, &bytes);
	struct fabric_host_stats *s = &h->gate.stats;

	snprintf(s->device, sizeof(s->device), "%s", provider);
	fabric_gate_address((struct sockaddr *)&at, s->address, sizeof(s->address));
	h->port = s->port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
							   : ((struct sockaddr_in *)&at)->sin_port);
	return err;
}

/* Signals are handled by the caller's thread. */
static int start_thread(struct fabric_ofi_host *h)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&h->thread, NULL, serve_requests, h);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	h->running = !err;
	return -err;
}

static struct fabric_host *ofi_open(const struct fabric_host_opts *opts, char *error, size_t bytes)
{
	struct sockaddr_storage at;
	struct fabric_ofi_host *h;
	char service[8], where[64];
	const char *what;
	int err = 0;

	snprintf(service, sizeof(service), "%u", opts->port);
	if (!fabric_lookup_numeric(opts->address, service, &at)) {
		errno = EINVAL;
		snprintf(error, bytes, "'%s' is not a numeric address", opts->address);
		return NULL;
	}
	fabric_gate_address((struct sockaddr *)&at, where, sizeof(where));
	h = calloc(1, sizeof(*h));
	if (!h) {
		snprintf(error, bytes, "%s", strerror(errno));
		return NULL;
	}
	pthread_mutex_init(&h->lock, NULL);
	h->gate.shares = opts->shares;
	h->gate.queues_max = opts->max_queues ?: DEFAULT_QUEUES;
	h->stop = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	h->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	h->descriptors = opendir("/proc/self/fd");
	if (h->stop < 0 || h->bell < 0 || !h->descriptors)
		err = base_fail(error, bytes, -errno, "%s", strerror(errno));
	if (!err && opts->secret) {
		h->gate.auth = fabric_auth_new(opts->secret, opts->secret_bytes);
		err = h->gate.auth ? 0 : base_fail(error, bytes, -errno, "%s", strerror(errno));
	}
	if (!err) {
		h->info = fabric_ofi_info(opts->provider, &at, true, error, bytes);
		err = h->info ? 0 : -EOPNOTSUPP;
	}
	if (!err && (what = start_listening(h, &err)))
		base_fail(error, bytes, err, "%s: %s: %s", where, what, fi_strerror(-err));
	if (!err && (err = describe_host(h, opts->provider)))
		base_fail(error, bytes, err, "%s: %s", where, fi_strerror(-err));
	if (err) {
		ofi_close(&h->base);
		errno = -err;
		return NULL;
	}
	return &h->base;
}

/* ---- memory ---- */

static int ofi_add(struct fabric_host *base, void *map, size_t bytes, struct fabric_host_key *key)
{
	struct fabric_ofi_host *h = ofi_of(base);
	struct fid_mr *mr = NULL;
	uint64_t bias = fabric_ofi_bias(h->info);
	int err = -FI_ENOKEY;

	/* The provider may choose keys; otherwise choose ones that cannot be guessed. */
	for (int i = 0; i < KEY_TRIES && err == -FI_ENOKEY; i++) {
		uint32_t wish = 0;

		if (getrandom(&wish, sizeof(wish), 0) != sizeof(wish))
			return -EAGAIN;
		pthread_mutex_lock(&h->lock);
		err = wish ? fi_mr_reg(h->domain, map, bytes, FI_REMOTE_READ, 0, wish, 0, &mr, NULL)
			   : -FI_ENOKEY;
		pthread_mutex_unlock(&h->lock);
	}
	if (err)
		return err;
	if (fi_mr_key(mr) > UINT32_MAX) { /* the directory has space for 32 bits */
		pthread_mutex_lock(&h->lock);
		fi_close(&mr->fid);
		pthread_mutex_unlock(&h->lock);
		return -EOVERFLOW;
	}
	*key = (struct fabric_host_key){
		.addr = bias ?: (uintptr_t)map,
		.rkey = (uint32_t)fi_mr_key(mr),
		.mr = mr,
	};
	return 0;
}

static void ofi_remove(struct fabric_host *base, struct fabric_host_key *key)
{
	struct fabric_ofi_host *h = ofi_of(base);
	struct fid_mr *mr = key->mr;

	pthread_mutex_lock(&h->lock);
	fi_close(&mr->fid);
	pthread_mutex_unlock(&h->lock);
}

/* ---- for the caller's loop ---- */

/* The thread starts with the first directory, as no peer is admitted before. */
static void ofi_set_directory(struct fabric_host *base, const struct fabric_host_hello *hello)
{
	struct fabric_ofi_host *h = ofi_of(base);
	int err = 0;

	pthread_mutex_lock(&h->lock);
	h->gate.hello = *hello;
	if (!h->running)
		err = start_thread(h);
	pthread_mutex_unlock(&h->lock);
	if (err)
		base_logf(BASE_ERROR, "fabric", "cannot start the thread that answers READs: %s",
			  strerror(-err));
}

static int ofi_let_notify(struct fabric_host *base, void *map, size_t bytes,
			  void (*notice)(void *arg, uint32_t entry), void *arg)
{
	struct fabric_ofi_host *h = ofi_of(base);

	pthread_mutex_lock(&h->lock);
	h->board = map;
	h->board_bytes = bytes;
	h->notice_arg = arg;
	h->notice = notice;
	pthread_mutex_unlock(&h->lock);
	return 0;
}

static int ofi_fd(const struct fabric_host *h)
{
	return ((const struct fabric_ofi_host *)h)->bell;
}

/* Returns the next message and posts its receive again. */
static bool take_notice(struct fabric_ofi_host *h, struct fabric_ofi_notice *to)
{
	struct fabric_ofi_slot *s;
	bool any;

	pthread_mutex_lock(&h->lock);
	any = h->ready_count;
	if (any) {
		s = h->ready[h->ready_head];
		h->ready_head = (h->ready_head + 1) % READY_MAX;
		h->ready_count--;
		*to = s->notice;
		s->queued = false;
		if (s->of->conn && post_receive(s->of->conn, s))
			drop_connection(h, s->of->conn);
		h->gate.stats.notices++;
	}
	pthread_mutex_unlock(&h->lock);
	return any;
}

static void ofi_dispatch(struct fabric_host *base)
{
	struct fabric_ofi_host *h = ofi_of(base);
	struct fabric_ofi_notice n;
	eventfd_t count;

	eventfd_read(h->bell, &count);
	/* At most the number in flight, so that a flood does not block the loop. */
	for (uint32_t i = 0; i < READY_MAX; i++) {
		if (!take_notice(h, &n))
			return;
		if (n.entry < h->board_bytes / sizeof(n.line))
			memcpy((struct sl_board_line *)h->board + n.entry, &n.line, sizeof(n.line));
		h->notice(h->notice_arg, n.entry);
	}
	eventfd_write(h->bell, 1);
}

/* ---- introspection ---- */

static size_t ofi_queues(const struct fabric_host *base, struct fabric_host_queue *out, size_t max)
{
	struct fabric_ofi_host *h = (struct fabric_ofi_host *)base;
	size_t n = 0;

	pthread_mutex_lock(&h->lock);
	for (const struct fabric_ofi_conn *c = h->conns; c; c = c->next, n++) {
		if (n >= max)
			continue;
		out[n] = (struct fabric_host_queue){
			.qp_num = c->serial,
			.connected_ns = c->connected_ns,
		};
		strcpy(out[n].state, c->connected_ns ? "RTS" : "INIT");
		fabric_gate_address((const struct sockaddr *)&c->peer, out[n].peer,
				    sizeof(out[n].peer));
	}
	pthread_mutex_unlock(&h->lock);
	return n;
}

static void ofi_stats(const struct fabric_host *base, struct fabric_host_stats *out)
{
	struct fabric_ofi_host *h = (struct fabric_ofi_host *)base;
	struct timespec t;
	clockid_t clock;

	pthread_mutex_lock(&h->lock);
	if (h->running && !pthread_getcpuclockid(h->thread, &clock) && !clock_gettime(clock, &t))
		h->gate.stats.cpu_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	*out = h->gate.stats;
	pthread_mutex_unlock(&h->lock);
}

const struct fabric_host_ops fabric_host_ofi = {
	.open = ofi_open,
	.close = ofi_close,
	.add = ofi_add,
	.remove = ofi_remove,
	.let_notify = ofi_let_notify,
	.set_directory = ofi_set_directory,
	.fd = ofi_fd,
	.dispatch = ofi_dispatch,
	.queues = ofi_queues,
	.stats = ofi_stats,
};
