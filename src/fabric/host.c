/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fabric/host.h"

#if HAVE_VERBS
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "fabric/rdma.h"

#define DEFAULT_QUEUES	     64u
#define DEFAULT_KEEPALIVE_MS 5000u
#define BACKLOG		     64
#define NOTIFIERS_MAX	     16u /* of the queue pairs */
#define NOTICES_OUT	     64u /* that one of them may make before we have looked */
#define EVENTS_A_DISPATCH    64	 /* so that a flood of connections can't hold the agent's loop */

_Static_assert(sizeof(struct sl_host_hello) == 48, "hello");

struct conn {
	struct conn *next;
	struct rdma_cm_id *id;
	uint64_t serial;
	uint64_t connected_ns; /* 0: not yet established */
	bool probing;	       /* a probe is on its way */
	bool notifies;
	uint32_t taken; /* its receives that are to be posted again */
};

struct sl_host {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct ibv_pd *pd;
	struct ibv_cq *cq; /* of all connections: holds nothing but ends of probes */
	struct ibv_device_attr device;
	struct ibv_comp_channel *bell; /* with the board: rings when there are notices */
	struct ibv_cq *notices;
	uint32_t notifiers;
	void (*notice)(void *arg, uint32_t entry);
	void *notice_arg;
	int epoll, timer;
	struct conn *conns;
	uint32_t conn_count, max_queues, keepalive_ms;
	uint64_t serial;
	struct sl_host_hello hello; /* magic 0: no directory yet, nobody is let in */
	struct sl_host_stats stats;
};

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- opening -------------------------------------------------------------------------------- */

static int resolve(const char *address, struct sockaddr_storage *to, char *error, size_t bytes)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *found;
	int code = getaddrinfo(address, NULL, &hints, &found);

	if (code) {
		snprintf(error, bytes, "%s: %s", address, gai_strerror(code));
		return -EINVAL;
	}
	memcpy(to, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

static int listen_address(const struct sl_host_opts *opts, struct sockaddr_storage *to, char *error,
			  size_t bytes)
{
	uint16_t port = htons(opts->port ? opts->port : SL_VERBS_PORT);
	int ib_port = opts->ib_port ? opts->ib_port : 1;
	int err;

	memset(to, 0, sizeof(*to));
	if (opts->address) {
		if (opts->gid_index >= 0) {
			snprintf(error, bytes,
				 "an address to listen on and a GID exclude each other");
			return -EINVAL;
		}
		err = sl_rdma_find(opts->device, error, bytes);
		if (!err)
			err = resolve(opts->address, to, error, bytes);
	} else {
		err = sl_rdma_gid_address(opts->device, ib_port, opts->gid_index, AF_UNSPEC, to,
					  NULL, error, bytes);
	}
	if (to->ss_family == AF_INET6)
		((struct sockaddr_in6 *)to)->sin6_port = port;
	else
		((struct sockaddr_in *)to)->sin_port = port;
	return err;
}

static int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

static int watch(struct sl_host *h, int fd)
{
	struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

static void describe(struct sl_host *h, const struct sl_host_opts *opts)
{
	struct sl_host_stats *s = &h->stats;
	struct sockaddr *local = rdma_get_local_addr(h->listener);
	union ibv_gid gid = {0};
	size_t used = 0;

	snprintf(s->device, sizeof(s->device), "%s",
		 ibv_get_device_name(h->listener->verbs->device));
	s->ib_port = h->listener->port_num ? h->listener->port_num
		     : opts->ib_port	   ? opts->ib_port
					   : 1;
	s->gid_index = sl_rdma_gid_of(h->listener->verbs, s->ib_port, local, &gid);
	for (int i = 0; i < 16; i += 2)
		used += (size_t)snprintf(s->gid + used, sizeof(s->gid) - used, "%s%02x%02x",
					 i ? ":" : "", gid.raw[i], gid.raw[i + 1]);
	sl_rdma_address(local, s->address, sizeof(s->address));
	s->port = ntohs(rdma_get_src_port(h->listener));
}

struct sl_host *sl_host_open(const struct sl_host_opts *opts, char *error, size_t error_bytes)
{
	struct sockaddr_storage address;
	char where[64];
	struct sl_host *h;
	int err, yes = 1;

	error[0] = '\0';
	err = listen_address(opts, &address, error, error_bytes);
	if (err) {
		errno = -err;
		return NULL;
	}
	sl_rdma_address((struct sockaddr *)&address, where, sizeof(where));
	h = calloc(1, sizeof(*h));
	if (!h)
		goto err_memory;
	h->max_queues = opts->max_queues ? opts->max_queues : DEFAULT_QUEUES;
	h->keepalive_ms = opts->keepalive_ms ? opts->keepalive_ms : DEFAULT_KEEPALIVE_MS;
	h->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (h->epoll < 0)
		goto err_free;
	h->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (h->timer < 0)
		goto err_epoll;
	h->channel = rdma_create_event_channel();
	if (!h->channel) {
		snprintf(error, error_bytes,
			 "/dev/infiniband/rdma_cm: %s (is the module rdma_ucm loaded?)",
			 strerror(errno));
		goto err_timer;
	}
	if (rdma_create_id(h->channel, &h->listener, h, RDMA_PS_TCP)) {
		snprintf(error, error_bytes, "rdma_create_id: %s", strerror(errno));
		goto err_channel;
	}
	/* As with TCP: a restart need not wait for the old connections to be forgotten. */
	rdma_set_option(h->listener, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes));
	if (rdma_bind_addr(h->listener, (struct sockaddr *)&address)) {
		if (errno == EADDRINUSE)
			snprintf(error, error_bytes, "%s is in use", where);
		else if (errno == ENODEV || errno == EADDRNOTAVAIL)
			snprintf(error, error_bytes, "%s is not an address of an RDMA device",
				 where);
		else
			snprintf(error, error_bytes, "%s: %s", where, strerror(errno));
		goto err_listener;
	}
	if (!h->listener->verbs) {
		snprintf(error, error_bytes, "%s is not an address of an RDMA device", where);
		errno = ENODEV;
		goto err_listener;
	}
	if (opts->device && strcmp(opts->device, ibv_get_device_name(h->listener->verbs->device))) {
		snprintf(error, error_bytes, "%s is an address of %s, not of %s", where,
			 ibv_get_device_name(h->listener->verbs->device), opts->device);
		errno = ENODEV;
		goto err_listener;
	}
	if (ibv_query_device(h->listener->verbs, &h->device)) {
		snprintf(error, error_bytes, "ibv_query_device: %s", strerror(errno));
		goto err_listener;
	}
	h->pd = ibv_alloc_pd(h->listener->verbs);
	if (!h->pd) {
		snprintf(error, error_bytes, "ibv_alloc_pd: %s", strerror(errno));
		goto err_listener;
	}
	h->cq = ibv_create_cq(h->listener->verbs, (int)h->max_queues * 2, NULL, NULL, 0);
	if (!h->cq) {
		snprintf(error, error_bytes, "ibv_create_cq: %s", strerror(errno));
		goto err_pd;
	}
	if (rdma_listen(h->listener, BACKLOG)) {
		snprintf(error, error_bytes, "%s: %s", where,
			 errno == EADDRINUSE ? "in use" : strerror(errno));
		goto err_cq;
	}
	err = set_nonblocking(h->channel->fd);
	if (!err)
		err = set_nonblocking(h->listener->verbs->async_fd);
	if (!err)
		err = watch(h, h->channel->fd);
	if (!err)
		err = watch(h, h->listener->verbs->async_fd);
	if (!err)
		err = watch(h, h->timer);
	if (err) {
		snprintf(error, error_bytes, "epoll: %s", strerror(-err));
		errno = -err;
		goto err_cq;
	}
	describe(h, opts);
	return h;

err_cq:
	err = errno;
	ibv_destroy_cq(h->cq);
	errno = err;
err_pd:
	err = errno;
	ibv_dealloc_pd(h->pd);
	errno = err;
err_listener:
	err = errno;
	rdma_destroy_id(h->listener);
	errno = err;
err_channel:
	err = errno;
	rdma_destroy_event_channel(h->channel);
	errno = err;
err_timer:
	err = errno;
	close(h->timer);
	errno = err;
err_epoll:
	err = errno;
	close(h->epoll);
	errno = err;
err_free:
	err = errno;
	free(h);
	errno = err;
err_memory:
	if (!error[0])
		snprintf(error, error_bytes, "%s", strerror(errno));
	return NULL;
}

/* ---- connections ---------------------------------------------------------------------------- */

/* The timer runs while there is somebody to probe. */
static void set_timer(struct sl_host *h)
{
	struct itimerspec every = {0};

	if (h->conns) {
		every.it_interval.tv_sec = h->keepalive_ms / 1000;
		every.it_interval.tv_nsec = (long)(h->keepalive_ms % 1000) * 1000000;
		every.it_value = every.it_interval;
	}
	timerfd_settime(h->timer, 0, &every, NULL);
}

/* Frees a connection and its queue pair at once. No event of its id may be unacknowledged. */
static void drop(struct sl_host *h, struct conn *c)
{
	struct conn **at = &h->conns;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	h->conn_count--;
	h->notifiers -= c->notifies;
	if (c->connected_ns)
		h->stats.disconnected++;
	rdma_disconnect(c->id); /* answers a DREQ, or sends one */
	rdma_destroy_qp(c->id);
	rdma_destroy_id(c->id);
	free(c);
	if (!h->conns)
		set_timer(h);
}

static void reject(struct sl_host *h, struct rdma_cm_id *id, int error)
{
	struct sl_verbs_refusal refusal = {.magic = SL_VERBS_REFUSAL_MAGIC, .error = error};

	h->stats.rejected++;
	rdma_reject(id, &refusal, sizeof(refusal));
	rdma_destroy_id(id);
}

/* A notice carries its data in the board: the receive that it uses up needs no memory. */
static int post_receives(struct ibv_qp *qp, uint32_t count)
{
	struct ibv_recv_wr wr = {0}, *bad;
	int err = 0;

	while (count-- && !err)
		err = ibv_post_recv(qp, &wr, &bad);
	return -err;
}

/* A collector asks to connect. request is a copy of its private data. */
static void connect_request(struct sl_host *h, struct rdma_cm_id *id,
			    const struct sl_verbs_request *request, uint8_t reads_wanted)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = h->cq,
		.recv_cq = h->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct rdma_conn_param param = {
		.private_data = &h->hello,
		.private_data_len = sizeof(h->hello),
		.rnr_retry_count = 7,
	};
	struct ibv_qp_attr access = {.qp_access_flags = IBV_ACCESS_REMOTE_READ};
	uint8_t timeout = SL_VERBS_ACK_TIMEOUT;
	bool notifies = request->flags & SL_VERBS_NOTIFY;
	struct conn *c;

	if (request->magic != SL_VERBS_REQUEST_MAGIC || request->version != SL_VERBS_VERSION) {
		reject(h, id, EPROTO);
		return;
	}
	if (!h->hello.magic || h->stats.lost || id->verbs != h->listener->verbs) {
		reject(h, id, EAGAIN);
		return;
	}
	if (notifies && !h->notices) {
		reject(h, id, EOPNOTSUPP);
		return;
	}
	if (h->conn_count >= h->max_queues || (notifies && h->notifiers >= NOTIFIERS_MAX)) {
		reject(h, id, ENOSPC);
		return;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		reject(h, id, ENOMEM);
		return;
	}
	rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout));
	if (notifies) {
		attr.recv_cq = h->notices;
		attr.cap.max_recv_wr = NOTICES_OUT;
		access.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	}
	if (rdma_create_qp(id, h->pd, &attr)) {
		free(c);
		reject(h, id, ENOMEM);
		return;
	}
	if (notifies && post_receives(id->qp, NOTICES_OUT)) {
		rdma_destroy_qp(id);
		free(c);
		reject(h, id, ENOMEM);
		return;
	}
	/* What the collector asked for, as far as the device goes (rdma_accept(3)). */
	param.responder_resources = reads_wanted;
	if (h->device.max_qp_rd_atom < reads_wanted)
		param.responder_resources = (uint8_t)h->device.max_qp_rd_atom;
	if (rdma_accept(id, &param)) {
		free(c);
		rdma_destroy_qp(id);
		h->stats.rejected++;
		rdma_destroy_id(id);
		return;
	}
	/*
	 * RDMA-CM lets every queue pair be read and written through; this one is for READs, or
	 * for notices. Each right needs both the queue pair's and the memory region's (IBTA
	 * 10.6.3).
	 */
	ibv_modify_qp(id->qp, &access, IBV_QP_ACCESS_FLAGS);

	c->id = id;
	c->serial = ++h->serial;
	c->notifies = notifies;
	h->notifiers += notifies;
	c->next = h->conns;
	id->context = c;
	h->conns = c;
	h->conn_count++;
	h->stats.accepted++;
	if (!c->next)
		set_timer(h);
}

static void cm_event(struct sl_host *h, struct rdma_cm_event *event)
{
	enum rdma_cm_event_type type = event->event;
	struct rdma_cm_id *id = event->id;
	struct sl_verbs_request request = {0};
	uint8_t reads = event->param.conn.responder_resources;

	if (type == RDMA_CM_EVENT_CONNECT_REQUEST && event->param.conn.private_data &&
	    event->param.conn.private_data_len >= sizeof(request))
		memcpy(&request, event->param.conn.private_data, sizeof(request));
	/* rdma_destroy_id() waits for every acknowledgement: first this, then whatever follows. */
	rdma_ack_cm_event(event);

	switch (type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		connect_request(h, id, &request, reads);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		((struct conn *)id->context)->connected_ns = monotonic_ns();
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		h->stats.lost = true;
		if (id != h->listener)
			drop(h, id->context);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		if (id != h->listener)
			drop(h, id->context);
		break;
	default:
		break;
	}
}

/* A WRITE of no bytes needs no memory and no rkey on the other side (IBTA C9-88). */
static void probe(struct conn *c)
{
	struct ibv_send_wr wr = {
		.wr_id = c->serial,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	if (c->connected_ns && !c->probing && !ibv_post_send(c->id->qp, &wr, &bad))
		c->probing = true;
}

static void probes(struct sl_host *h)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(h->cq, 1, &wc) > 0) {
		struct conn *c = h->conns;

		while (c && c->serial != wc.wr_id)
			c = c->next;
		if (!c)
			continue;
		c->probing = false;
		if (wc.status != IBV_WC_SUCCESS)
			drop(h, c);
	}
	for (struct conn *c = h->conns; c; c = c->next)
		probe(c);
}

/*
 * All that is there, which the receives bound; only then they are posted again, so that no flood
 * keeps us here. A collector that is faster than us waits at its end.
 */
static void notices(struct sl_host *h)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	if (ibv_get_cq_event(h->bell, &cq, &context))
		return;
	ibv_ack_cq_events(cq, 1);
	ibv_req_notify_cq(h->notices, 0); /* before looking: what comes after it rings again */
	while (ibv_poll_cq(h->notices, 1, &wc) > 0) {
		struct conn *c = h->conns;

		while (c && c->id->qp->qp_num != wc.qp_num)
			c = c->next;
		/* Of one that is gone, or its end, which the probe or CM tells. */
		if (!c || !c->notifies || wc.status != IBV_WC_SUCCESS)
			continue;
		c->taken++;
		if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM)
			continue; /* a SEND: nobody asked for it */
		h->stats.notices++;
		h->notice(h->notice_arg, ntohl(wc.imm_data));
	}
	for (struct conn *c = h->conns; c; c = c->next) {
		if (c->taken)
			post_receives(c->id->qp, c->taken);
		c->taken = 0;
	}
}

static void async_events(struct sl_host *h)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(h->listener->verbs, &event)) {
		enum ibv_event_type type = event.event_type;

		ibv_ack_async_event(&event);
		if (type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_CQ_ERR)
			h->stats.lost = true;
	}
	/* A device that is gone would make the descriptor readable for ever. */
	if (errno != EAGAIN) {
		h->stats.lost = true;
		epoll_ctl(h->epoll, EPOLL_CTL_DEL, h->listener->verbs->async_fd, NULL);
	}
}

int sl_host_fd(const struct sl_host *h)
{
	return h->epoll;
}

void sl_host_dispatch(struct sl_host *h)
{
	struct rdma_cm_event *event;
	struct epoll_event ready[4];
	uint64_t ticks;
	int count = epoll_wait(h->epoll, ready, 4, 0);

	for (int i = 0; i < count; i++) {
		if (ready[i].data.fd == h->timer) {
			if (read(h->timer, &ticks, sizeof(ticks)) == sizeof(ticks))
				probes(h);
		} else if (ready[i].data.fd == h->channel->fd) {
			for (int n = 0; n < EVENTS_A_DISPATCH; n++) {
				if (rdma_get_cm_event(h->channel, &event))
					break;
				cm_event(h, event);
			}
		} else if (h->bell && ready[i].data.fd == h->bell->fd) {
			notices(h);
		} else {
			async_events(h);
		}
	}
}

void sl_host_close(struct sl_host *h)
{
	if (!h)
		return;
	while (h->conns)
		drop(h, h->conns);
	if (h->notices)
		ibv_destroy_cq(h->notices);
	if (h->bell)
		ibv_destroy_comp_channel(h->bell);
	ibv_destroy_cq(h->cq);
	ibv_dealloc_pd(h->pd);
	rdma_destroy_id(h->listener);
	rdma_destroy_event_channel(h->channel);
	if (h->stats.lost)
		sl_rdma_forget_lost();
	close(h->timer);
	close(h->epoll);
	free(h);
}

/* ---- memory --------------------------------------------------------------------------------- */

static int add_memory(struct sl_host *h, void *map, size_t bytes, int access,
		      struct sl_host_key *key)
{
	struct ibv_mr *mr = ibv_reg_mr(h->pd, map, bytes, access);

	if (!mr)
		return -errno;
	*key = (struct sl_host_key){.addr = (uintptr_t)map, .rkey = mr->rkey, .mr = mr};
	h->stats.registered_regions++;
	h->stats.registered_bytes += bytes;
	return 0;
}

int sl_host_register(struct sl_host *h, void *map, size_t bytes, struct sl_host_key *key)
{
	return add_memory(h, map, bytes, IBV_ACCESS_REMOTE_READ, key);
}

int sl_host_register_board(struct sl_host *h, void *map, size_t bytes, struct sl_host_key *key,
			   void (*notice)(void *arg, uint32_t entry), void *arg)
{
	/* Twice what can be on the way: those of a queue pair that went may still lie there. */
	int room = (int)(NOTIFIERS_MAX * NOTICES_OUT * 2), err;

	/* Who may write must be able to write here (ibv_reg_mr(3)). */
	err = add_memory(h, map, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, key);
	if (err)
		return err;
	if (room > h->device.max_cqe)
		room = h->device.max_cqe;
	h->bell = ibv_create_comp_channel(h->listener->verbs);
	if (!h->bell)
		goto err_memory;
	h->notices = ibv_create_cq(h->listener->verbs, room, NULL, h->bell, 0);
	if (!h->notices)
		goto err_bell;
	err = set_nonblocking(h->bell->fd);
	if (!err)
		err = watch(h, h->bell->fd);
	if (!err)
		err = -ibv_req_notify_cq(h->notices, 0);
	if (err) {
		errno = -err;
		goto err_notices;
	}
	h->notice = notice;
	h->notice_arg = arg;
	h->hello.board_addr = key->addr;
	h->hello.board_rkey = key->rkey;
	return 0;

err_notices:
	err = errno;
	ibv_destroy_cq(h->notices);
	h->notices = NULL;
	errno = err;
err_bell:
	err = errno;
	ibv_destroy_comp_channel(h->bell);
	h->bell = NULL;
	errno = err;
err_memory:
	err = errno;
	sl_host_unregister(h, key);
	return -err;
}

void sl_host_unregister(struct sl_host *h, struct sl_host_key *key)
{
	struct ibv_mr *mr = key->mr;

	if (!mr)
		return;
	h->stats.registered_regions--;
	h->stats.registered_bytes -= mr->length;
	ibv_dereg_mr(mr);
	*key = (struct sl_host_key){0};
}

void sl_host_set_directory(struct sl_host *h, const struct sl_host_key *key, uint64_t length,
			   uint64_t agent_instance)
{
	h->hello.magic = SL_VERBS_HELLO_MAGIC;
	h->hello.version = SL_VERBS_VERSION;
	h->hello.agent_instance = agent_instance;
	h->hello.directory_addr = key->addr;
	h->hello.directory_length = length;
	h->hello.directory_rkey = key->rkey;
}

/* ---- looking at it -------------------------------------------------------------------------- */

static const char *state_name(struct ibv_qp *qp)
{
	static const char *const names[] = {
		[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
		[IBV_QPS_RTS] = "RTS",	   [IBV_QPS_SQD] = "SQD",   [IBV_QPS_SQE] = "SQE",
		[IBV_QPS_ERR] = "ERR",
	};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) || attr.qp_state > IBV_QPS_ERR)
		return "UNKNOWN";
	return names[attr.qp_state];
}

size_t sl_host_queues(const struct sl_host *h, struct sl_host_queue *out, size_t max)
{
	size_t n = 0;

	for (const struct conn *c = h->conns; c; c = c->next, n++) {
		if (n >= max)
			continue;
		out[n] = (struct sl_host_queue){
			.qp_num = c->id->qp->qp_num,
			.connected_ns = c->connected_ns,
		};
		snprintf(out[n].state, sizeof(out[n].state), "%s", state_name(c->id->qp));
		sl_rdma_address(rdma_get_peer_addr(c->id), out[n].peer, sizeof(out[n].peer));
	}
	return n;
}

void sl_host_stats(const struct sl_host *h, struct sl_host_stats *out)
{
	*out = h->stats;
}

#else /* built without RDMA */

struct sl_host *sl_host_open(const struct sl_host_opts *opts, char *error, size_t error_bytes)
{
	(void)opts;
	snprintf(error, error_bytes,
		 "this sidelight was built without RDMA (libibverbs, librdmacm)");
	errno = EOPNOTSUPP;
	return NULL;
}

void sl_host_close(struct sl_host *h)
{
	(void)h;
}

int sl_host_register(struct sl_host *h, void *map, size_t bytes, struct sl_host_key *key)
{
	(void)h, (void)map, (void)bytes, (void)key;
	return -EOPNOTSUPP;
}

int sl_host_register_board(struct sl_host *h, void *map, size_t bytes, struct sl_host_key *key,
			   void (*notice)(void *arg, uint32_t entry), void *arg)
{
	(void)h, (void)map, (void)bytes, (void)key, (void)notice, (void)arg;
	return -EOPNOTSUPP;
}

void sl_host_unregister(struct sl_host *h, struct sl_host_key *key)
{
	(void)h, (void)key;
}

void sl_host_set_directory(struct sl_host *h, const struct sl_host_key *key, uint64_t length,
			   uint64_t agent_instance)
{
	(void)h, (void)key, (void)length, (void)agent_instance;
}

int sl_host_fd(const struct sl_host *h)
{
	(void)h;
	return -1;
}

void sl_host_dispatch(struct sl_host *h)
{
	(void)h;
}

size_t sl_host_queues(const struct sl_host *h, struct sl_host_queue *out, size_t max)
{
	(void)h, (void)out, (void)max;
	return 0;
}

void sl_host_stats(const struct sl_host *h, struct sl_host_stats *out)
{
	(void)h;
	memset(out, 0, sizeof(*out));
}
#endif
