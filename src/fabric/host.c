/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/host.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "fabric/host_internal.h"
#include "base/base.h"
#include "base/network.h"

#define DEFAULT_QUEUES	     64u
#define DEFAULT_KEEPALIVE_MS 5000u
#define BACKLOG		     1024 /* pending requests; a flood of others must not displace ours */

_Static_assert(sizeof(struct fabric_host_hello) == 48, "hello");

/* ---- opening ---- */

static int resolve_address(const char *address, struct sockaddr_storage *to, char *error,
			   size_t bytes)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *found;
	int code = getaddrinfo(address, NULL, &hints, &found);

	if (code)
		return base_fail(error, bytes, -EINVAL, "%s: %s", address, gai_strerror(code));
	memcpy(to, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

static int listen_address(const struct fabric_host_opts *opts, struct sockaddr_storage *to,
			  char *error, size_t bytes)
{
	int err;

	memset(to, 0, sizeof(*to));
	if (opts->address) {
		if (opts->gid_index >= 0)
			return base_fail(error, bytes, -EINVAL,
					 "a listening address and a GID are mutually exclusive");
		err = fabric_rdma_find(opts->device, error, bytes);
		err = err ?: resolve_address(opts->address, to, error, bytes);
	} else {
		err = fabric_rdma_gid_address(opts->device, opts->ib_port ?: 1, opts->gid_index,
					      AF_UNSPEC, to, error, bytes);
	}
	fabric_gate_set_port(to, opts->port ?: FABRIC_VERBS_PORT);
	return err;
}

static int watch_fd(struct fabric_verbs_host *h, int fd)
{
	struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

static void describe_host(struct fabric_verbs_host *h, const struct fabric_host_opts *opts)
{
	struct fabric_host_stats *s = &h->gate.stats;
	struct sockaddr *local = rdma_get_local_addr(h->listener);
	union ibv_gid gid = {0};
	size_t used = 0;

	snprintf(s->device, sizeof(s->device), "%s",
		 ibv_get_device_name(h->listener->verbs->device));
	s->ib_port = h->listener->port_num ?: opts->ib_port ?: 1;
	s->gid_index = fabric_rdma_gid_of(h->listener->verbs, s->ib_port, local, &gid);
	for (int i = 0; i < 16; i += 2)
		used += (size_t)snprintf(s->gid + used, sizeof(s->gid) - used, "%s%02x%02x",
					 i ? ":" : "", gid.raw[i], gid.raw[i + 1]);
	base_print_address(local, s->address, sizeof(s->address));
	s->port = ntohs(rdma_get_src_port(h->listener));
}

static void host_free(struct fabric_verbs_host *h)
{
	if (h->notices)
		ibv_destroy_cq(h->notices);
	if (h->bell)
		ibv_destroy_comp_channel(h->bell);
	if (h->cq)
		ibv_destroy_cq(h->cq);
	if (h->pd)
		ibv_dealloc_pd(h->pd);
	if (h->listener)
		rdma_destroy_id(h->listener);
	if (h->channel)
		rdma_destroy_event_channel(h->channel);
	if (h->gate.stats.lost)
		fabric_rdma_forget_lost();
	if (h->timer >= 0)
		close(h->timer);
	if (h->epoll >= 0)
		close(h->epoll);
	fabric_auth_free(h->gate.auth);
	free(h);
}

/* Binds the listener to an address; `where` names it in errors. Returns 0 or -errno. */
static int bind_listener(struct fabric_verbs_host *h, const char *device, struct sockaddr *address,
			 const char *where, char *error, size_t bytes)
{
	int yes = 1;

	h->channel = rdma_create_event_channel();
	if (!h->channel)
		return base_fail(error, bytes, -errno,
				 "cannot use /dev/infiniband/rdma_cm: %s (is the module rdma_ucm "
				 "loaded?)",
				 strerror(errno));
	if (rdma_create_id(h->channel, &h->listener, h, RDMA_PS_TCP))
		return base_fail(error, bytes, -errno, "rdma_create_id: %s", strerror(errno));
	/* As with TCP, a restart need not wait for old connections to time out. */
	rdma_set_option(h->listener, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes));
	if (rdma_bind_addr(h->listener, address)) {
		if (errno == EADDRINUSE)
			return base_fail(error, bytes, -errno, "%s is already in use", where);
		if (errno != ENODEV && errno != EADDRNOTAVAIL)
			return base_fail(error, bytes, -errno, "%s: %s", where, strerror(errno));
		return base_fail(error, bytes, -errno, "%s is not an address of an RDMA device",
				 where);
	}
	if (!h->listener->verbs)
		return base_fail(error, bytes, -ENODEV, "%s is not an address of an RDMA device",
				 where);
	if (device && strcmp(device, ibv_get_device_name(h->listener->verbs->device)))
		return base_fail(error, bytes, -ENODEV, "%s is an address of %s, not of %s", where,
				 ibv_get_device_name(h->listener->verbs->device), device);
	return 0;
}

static int start_listening(struct fabric_verbs_host *h, const char *where, char *error,
			   size_t bytes)
{
	struct ibv_context *verbs = h->listener->verbs;
	int err;

	if (ibv_query_device(verbs, &h->device))
		return base_fail(error, bytes, -errno, "ibv_query_device: %s", strerror(errno));
	h->pd = ibv_alloc_pd(verbs);
	if (!h->pd)
		return base_fail(error, bytes, -errno, "ibv_alloc_pd: %s", strerror(errno));
	h->cq = ibv_create_cq(verbs, (int)h->gate.queues_max * 2, NULL, NULL, 0);
	if (!h->cq)
		return base_fail(error, bytes, -errno, "ibv_create_cq: %s", strerror(errno));
	if (rdma_listen(h->listener, BACKLOG))
		return base_fail(error, bytes, -errno, "%s: %s", where,
				 errno == EADDRINUSE ? "in use" : strerror(errno));
	err = fabric_rdma_nonblocking(h->channel->fd);
	err = err ?: fabric_rdma_nonblocking(verbs->async_fd);
	err = err ?: watch_fd(h, h->channel->fd);
	err = err ?: watch_fd(h, verbs->async_fd);
	err = err ?: watch_fd(h, h->timer);
	return err ? base_fail(error, bytes, err, "epoll: %s", strerror(-err)) : 0;
}

static struct fabric_host *verbs_open(const struct fabric_host_opts *opts, char *error,
				      size_t error_bytes)
{
	struct sockaddr_storage address;
	char where[64];
	struct fabric_verbs_host *h;
	int err;

	error[0] = '\0';
	err = listen_address(opts, &address, error, error_bytes);
	if (err) {
		errno = -err;
		return NULL;
	}
	base_print_address((struct sockaddr *)&address, where, sizeof(where));
	h = calloc(1, sizeof(*h));
	if (!h) {
		snprintf(error, error_bytes, "%s", strerror(errno));
		return NULL;
	}
	h->gate.queues_max = opts->max_queues ?: DEFAULT_QUEUES;
	h->keepalive_ms = opts->keepalive_ms ?: DEFAULT_KEEPALIVE_MS;
	h->gate.shares = opts->shares;
	h->notifier_ns = opts->notifier_ns;
	h->epoll = epoll_create1(EPOLL_CLOEXEC);
	h->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (h->epoll < 0 || h->timer < 0)
		err = base_fail(error, error_bytes, -errno, "%s", strerror(errno));
	if (!err && opts->secret) {
		h->gate.auth = fabric_auth_new(opts->secret, opts->secret_bytes);
		err = h->gate.auth ? 0
				   : base_fail(error, error_bytes, -errno, "%s", strerror(errno));
	}
	err = err
		      ?: bind_listener(h, opts->device, (struct sockaddr *)&address, where, error,
				       error_bytes);
	err = err ?: start_listening(h, where, error, error_bytes);
	if (err) {
		host_free(h);
		errno = -err;
		return NULL;
	}
	describe_host(h, opts);
	return &h->base;
}

/* ---- for the caller's loop ---- */

static int verbs_fd(const struct fabric_host *h)
{
	return ((const struct fabric_verbs_host *)h)->epoll;
}

static void verbs_close(struct fabric_host *base)
{
	struct fabric_verbs_host *h = fabric_verbs_host_of(base);

	while (h->conns)
		fabric_host_drop(h, h->conns);
	host_free(h);
}

/* ---- memory ---- */

static int add_memory(struct fabric_verbs_host *h, void *map, size_t bytes, int access,
		      struct fabric_host_key *key)
{
	struct ibv_mr *mr = ibv_reg_mr(h->pd, map, bytes, access);

	if (!mr)
		return -errno;
	*key = (struct fabric_host_key){.addr = (uintptr_t)map, .rkey = mr->rkey, .mr = mr};
	return 0;
}

static int verbs_register(struct fabric_host *h, void *map, size_t bytes,
			  struct fabric_host_key *key)
{
	return add_memory(fabric_verbs_host_of(h), map, bytes, IBV_ACCESS_REMOTE_READ, key);
}

int fabric_host_register_writable(struct fabric_host *h, void *map, size_t bytes,
				  struct fabric_host_key *key)
{
	/* Remote write requires local write (ibv_reg_mr(3)). */
	return add_memory(
		fabric_verbs_host_of(h), map, bytes,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC, key);
}

/*
 * Creates the completion channel for notices of `queues` queue pairs. fabric_host_close() destroys
 * it, even after a failure.
 */
static int hang_bell(struct fabric_verbs_host *h, uint32_t queues)
{
	/* Twice the number in flight: a destroyed queue pair leaves its completions. */
	int room = (int)(queues * NOTICES_OUT * 2), err;

	room = BASE_MIN(room, h->device.max_cqe);
	h->bell = ibv_create_comp_channel(h->listener->verbs);
	if (!h->bell)
		return -errno;
	h->notices = ibv_create_cq(h->listener->verbs, room, NULL, h->bell, 0);
	if (!h->notices)
		return -errno;
	err = fabric_rdma_nonblocking(h->bell->fd);
	err = err ?: watch_fd(h, h->bell->fd);
	return err ?: -ibv_req_notify_cq(h->notices, 0);
}

static int verbs_let_notify(struct fabric_host *base, void *map, size_t bytes,
			    void (*notice)(void *arg, uint32_t entry), void *arg)
{
	struct fabric_verbs_host *h = fabric_verbs_host_of(base);
	int err = hang_bell(h, FABRIC_NOTIFIERS_MAX);

	if (err)
		return err;
	h->board = map;
	h->board_bytes = bytes;
	h->notice = notice;
	h->notice_arg = arg;
	return 0;
}

int fabric_host_let_write(struct fabric_host *base, const struct fabric_host_writers *writers)
{
	struct fabric_verbs_host *h = fabric_verbs_host_of(base);
	int err = hang_bell(h, h->gate.queues_max);

	if (!err)
		h->writers = *writers;
	return err;
}

static void verbs_unregister(struct fabric_host *h, struct fabric_host_key *key)
{
	(void)h;
	ibv_dereg_mr(key->mr);
}

static void verbs_set_directory(struct fabric_host *h, const struct fabric_host_hello *hello)
{
	fabric_verbs_host_of(h)->gate.hello = *hello;
}

/* ---- introspection ---- */

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

static size_t verbs_queues(const struct fabric_host *base, struct fabric_host_queue *out,
			   size_t max)
{
	const struct fabric_verbs_host *h = (const struct fabric_verbs_host *)base;
	size_t n = 0;

	for (const struct fabric_conn *c = h->conns; c; c = c->next, n++) {
		if (n >= max)
			continue;
		out[n] = (struct fabric_host_queue){
			.qp_num = c->qp->qp_num,
			.connected_ns = c->connected_ns,
		};
		snprintf(out[n].state, sizeof(out[n].state), "%s", state_name(c->qp));
		if (c->id)
			base_print_address(rdma_get_peer_addr(c->id), out[n].peer,
					   sizeof(out[n].peer));
	}
	return n;
}

static void verbs_stats(const struct fabric_host *h, struct fabric_host_stats *out)
{
	*out = ((const struct fabric_verbs_host *)h)->gate.stats;
}

const struct fabric_host_ops fabric_host_verbs = {
	.open = verbs_open,
	.close = verbs_close,
	.add = verbs_register,
	.remove = verbs_unregister,
	.let_notify = verbs_let_notify,
	.set_directory = verbs_set_directory,
	.fd = verbs_fd,
	.dispatch = fabric_verbs_host_dispatch,
	.queues = verbs_queues,
	.stats = verbs_stats,
};
