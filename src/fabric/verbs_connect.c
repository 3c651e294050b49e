// SPDX-License-Identifier: Apache-2.0
/*
 * verbs_connect.c - a connection over RDMA comes up and goes down: names, addresses, routes and
 * RDMA-CM's events, one step at a time and none that waits.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fabric/provider.h"

#if HAVE_VERBS
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>

#include <sidelight/region.h>

#include "fabric/host.h"
#include "fabric/verbs.h"

#define CM_CHECK_UP_NS	       2000000u /* how often events are looked for while up */
#define CM_CHECK_CONNECTING_NS 200000u

/* ---- tearing down --------------------------------------------------------------------------- */

void sl_verbs_tear_down(struct verbs *v)
{
	if (v->id && v->id->qp) {
		rdma_disconnect(v->id);
		rdma_destroy_qp(v->id);
	}
	if (v->cq)
		ibv_destroy_cq(v->cq);
	if (v->mr)
		ibv_dereg_mr(v->mr);
	if (v->pd)
		ibv_dealloc_pd(v->pd);
	if (v->id)
		rdma_destroy_id(v->id);
	if (v->channel)
		rdma_destroy_event_channel(v->channel);
	v->cq = NULL;
	v->mr = NULL;
	v->pd = NULL;
	v->id = NULL;
	v->channel = NULL;
	v->broken = false;
}

void sl_verbs_reset(struct verbs *v, uint64_t now_ns, uint64_t timeout_ns)
{
	sl_verbs_tear_down(v);
	while (v->head != v->tail) {
		uint64_t posted = v->requests[v->head & v->mask].posted_ns;
		bool late = timeout_ns && now_ns > posted && now_ns - posted >= timeout_ns;

		sl_verbs_finish_oldest(v, late ? -ETIMEDOUT : -ENOTCONN);
	}
	sl_fabric_went_down(&v->base, now_ns);
}

static void give_up(struct verbs *v, uint64_t now_ns, const char *why)
{
	sl_fabric_failed(&v->base, "%s: %s", v->base.target, why);
	sl_verbs_reset(v, now_ns, 0);
}

static void give_up_errno(struct verbs *v, uint64_t now_ns, const char *what)
{
	sl_fabric_failed(&v->base, "%s: %s: %s", v->base.target, what, strerror(errno));
	sl_verbs_reset(v, now_ns, 0);
}

/* ---- connecting ----------------------------------------------------------------------------- */

static void resolve_address(struct verbs *v, uint64_t now_ns)
{
	struct sl_fabric *f = &v->base;
	uint8_t timeout = SL_VERBS_ACK_TIMEOUT;
	int flags;

	if ((v->device || f->opts.gid_index >= 0) &&
	    sl_rdma_gid_address(v->device, f->opts.ib_port, f->opts.gid_index, v->to.ss_family,
				&v->from, NULL, f->stats.last_error, sizeof(f->stats.last_error))) {
		sl_verbs_reset(v, now_ns, 0);
		return;
	}
	v->channel = rdma_create_event_channel();
	if (!v->channel) {
		give_up_errno(v, now_ns, "/dev/infiniband/rdma_cm");
		return;
	}
	flags = fcntl(v->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(v->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    rdma_create_id(v->channel, &v->id, v, RDMA_PS_TCP)) {
		give_up_errno(v, now_ns, "rdma_create_id");
		return;
	}
	/* An older kernel does not know this option: it then keeps RDMA-CM's own timeout. */
	rdma_set_option(v->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			sizeof(timeout));
	if (rdma_resolve_addr(v->id, v->from.ss_family ? (struct sockaddr *)&v->from : NULL,
			      (struct sockaddr *)&v->to, (int)f->opts.connect_timeout_ms)) {
		give_up_errno(v, now_ns, "no route to it");
		return;
	}
	v->phase = PHASE_ADDRESS;
}

static void take_address(struct verbs *v, const struct addrinfo *found)
{
	memset(&v->to, 0, sizeof(v->to));
	memcpy(&v->to, found->ai_addr, found->ai_addrlen);
}

/* A number needs no looking up; a name is looked up by another thread, as that may take long. */
void sl_verbs_start(struct verbs *v, uint64_t now_ns)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
	};
	struct addrinfo *found;
	int code;

	v->base.state = SL_FABRIC_CONNECTING;
	v->deadline_ns = now_ns + (uint64_t)v->base.opts.connect_timeout_ms * 1000000u;
	v->check_ns = 0;
	if (!getaddrinfo(v->host, v->service, &hints, &found)) {
		take_address(v, found);
		freeaddrinfo(found);
		resolve_address(v, now_ns);
		return;
	}
	v->phase = PHASE_NAME;
	if (v->lookup) /* one that was given up on still runs */
		return;
	v->lookup = calloc(1, sizeof(*v->lookup));
	if (!v->lookup) {
		give_up(v, now_ns, "out of memory");
		return;
	}
	memcpy(v->lookup->host, v->host, sizeof(v->lookup->host));
	v->lookup->hints.ai_socktype = SOCK_STREAM;
	v->lookup->request.ar_name = v->lookup->host;
	v->lookup->request.ar_request = &v->lookup->hints;
	v->lookup->list[0] = &v->lookup->request;
	code = getaddrinfo_a(GAI_NOWAIT, v->lookup->list, 1, NULL);
	if (code) {
		free(v->lookup);
		v->lookup = NULL;
		give_up(v, now_ns, gai_strerror(code));
	}
}

static void look_up(struct verbs *v, uint64_t now_ns)
{
	int code = gai_error(&v->lookup->request);

	if (code == EAI_INPROGRESS)
		return;
	if (!code) {
		uint16_t port = htons((uint16_t)strtoul(v->service, NULL, 10));

		take_address(v, v->lookup->request.ar_result);
		freeaddrinfo(v->lookup->request.ar_result);
		if (v->to.ss_family == AF_INET6)
			((struct sockaddr_in6 *)&v->to)->sin6_port = port;
		else
			((struct sockaddr_in *)&v->to)->sin_port = port;
	}
	free(v->lookup);
	v->lookup = NULL;
	if (code)
		give_up(v, now_ns, gai_strerror(code));
	else
		resolve_address(v, now_ns);
}

static void request_connection(struct verbs *v, uint64_t now_ns)
{
	const struct sl_verbs_request hello = {
		.magic = SL_VERBS_REQUEST_MAGIC,
		.version = SL_VERBS_VERSION,
		.flags = v->base.opts.notify ? SL_VERBS_NOTIFY : 0,
	};
	struct rdma_conn_param param = {
		.private_data = &hello,
		.private_data_len = sizeof(hello),
		.retry_count = SL_VERBS_RETRIES,
		.rnr_retry_count = 7,
	};
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	uint32_t sges;

	if (v->device && strcmp(v->device, ibv_get_device_name(v->id->verbs->device))) {
		give_up(v, now_ns, "the route to it is by another RDMA device");
		return;
	}
	if (ibv_query_device(v->id->verbs, &device)) {
		give_up_errno(v, now_ns, "ibv_query_device");
		return;
	}
	if (ibv_query_port(v->id->verbs, v->id->port_num, &port)) {
		give_up_errno(v, now_ns, "ibv_query_port");
		return;
	}
	v->message_max = port.max_msg_sz;
	v->depth = v->base.opts.queue_depth;
	if (v->depth > (uint32_t)device.max_qp_wr)
		v->depth = (uint32_t)device.max_qp_wr;
	/* Often enough that a long queue is refilled before it has run empty. */
	v->signal_every = v->depth >= 8 ? v->depth / 4 : 1;

	v->pd = ibv_alloc_pd(v->id->verbs);
	if (!v->pd) {
		give_up_errno(v, now_ns, "ibv_alloc_pd");
		return;
	}
	v->cq = ibv_create_cq(v->id->verbs, (int)v->depth, NULL, NULL, 0);
	if (!v->cq) {
		give_up_errno(v, now_ns, "ibv_create_cq");
		return;
	}
	/* max_sge is a limit of the device at large, which not every queue pair need reach. */
	for (sges = SGES_MAX; sges; sges /= 2) {
		struct ibv_qp_init_attr attr = {
			.send_cq = v->cq,
			.recv_cq = v->cq,
			.qp_type = IBV_QPT_RC,
			.cap =
				{
					.max_send_wr = v->depth,
					.max_recv_wr = 1,
					.max_send_sge = sges,
					.max_recv_sge = 1,
				},
		};

		if ((int)sges <= device.max_sge && !rdma_create_qp(v->id, v->pd, &attr))
			break;
	}
	if (!sges) {
		give_up_errno(v, now_ns, "rdma_create_qp");
		return;
	}
	v->sges = sges;
	v->generation++;

	/* As many READs on the way at once as both devices can: the host lowers it if it must. */
	param.initiator_depth = device.max_qp_init_rd_atom > UINT8_MAX - 1
					? UINT8_MAX - 1
					: /* 255 means "any" to librdmacm */
					(uint8_t)device.max_qp_init_rd_atom;
	if (rdma_connect(v->id, &param)) {
		give_up_errno(v, now_ns, "rdma_connect");
		return;
	}
	v->phase = PHASE_CONNECT;
}

/* What a host says of itself is believed only if it could be true. */
static bool hello_is_sound(const struct sl_host_hello *h)
{
	return h->magic == SL_VERBS_HELLO_MAGIC && h->version == SL_VERBS_VERSION &&
	       h->directory_length >= SL_HEADER_SIZE && h->directory_length <= SL_REGION_SIZE_MAX &&
	       h->directory_addr && h->directory_addr <= UINT64_MAX - h->directory_length;
}

static void established(struct verbs *v, uint64_t now_ns, const struct sl_host_hello *hello)
{
	if (!hello_is_sound(hello)) {
		give_up(v, now_ns, "what answers there is no sidelight agent of this version");
		return;
	}
	if (v->base.opts.notify && (!hello->board_addr || !hello->board_rkey)) {
		give_up(v, now_ns, "the agent there takes no verdicts");
		return;
	}
	v->board_addr = hello->board_addr;
	v->board_rkey = hello->board_rkey;
	/* Not before: a host that is away costs no registration at every attempt. */
	v->mr = ibv_reg_mr(v->pd, v->base.buffer, v->base.opts.buffer_bytes + SL_BUFFER_TAIL,
			   IBV_ACCESS_LOCAL_WRITE);
	if (!v->mr) {
		give_up_errno(v, now_ns, "registering the landing memory (ulimit -l?)");
		return;
	}
	v->check_ns = now_ns + CM_CHECK_UP_NS;
	sl_fabric_went_up(&v->base, &(struct sl_remote){
					    .addr = hello->directory_addr,
					    .length = hello->directory_length,
					    .rkey = hello->directory_rkey,
				    });
}

static void rejected(struct verbs *v, uint64_t now_ns, int reason,
		     const struct sl_verbs_refusal *refusal)
{
	char why[80];

	/* Reasons of IBTA 12.6.7.2; a CM answers 8 for a port that nobody listens on. */
	if (refusal->magic == SL_VERBS_REFUSAL_MAGIC && refusal->error == ENOSPC)
		snprintf(why, sizeof(why), "refused: the agent's queue pairs are used up");
	else if (refusal->magic == SL_VERBS_REFUSAL_MAGIC && refusal->error == EOPNOTSUPP)
		snprintf(why, sizeof(why), "the agent there takes no verdicts");
	else if (refusal->magic == SL_VERBS_REFUSAL_MAGIC)
		snprintf(why, sizeof(why), "refused by the agent: %s", strerror(refusal->error));
	else if (reason == 8)
		snprintf(why, sizeof(why), "nobody listens there (agent --rdma?)");
	else
		snprintf(why, sizeof(why), "refused, reason %d", reason);
	give_up(v, now_ns, why);
}

/* Handles one event, if there is one. False: there is none, or the connection is gone. */
static bool cm_event(struct verbs *v, uint64_t now_ns)
{
	struct sl_verbs_refusal refusal = {0};
	struct sl_host_hello hello = {0};
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;
	int status;

	if (rdma_get_cm_event(v->channel, &event)) {
		if (errno == EAGAIN)
			return false;
		give_up_errno(v, now_ns, "rdma_get_cm_event");
		return false;
	}
	type = event->event;
	status = event->status;
	if (type == RDMA_CM_EVENT_ESTABLISHED && event->param.conn.private_data &&
	    event->param.conn.private_data_len >= sizeof(hello))
		memcpy(&hello, event->param.conn.private_data, sizeof(hello));
	if (type == RDMA_CM_EVENT_REJECTED && event->param.conn.private_data &&
	    event->param.conn.private_data_len >= sizeof(refusal))
		memcpy(&refusal, event->param.conn.private_data, sizeof(refusal));
	rdma_ack_cm_event(event);

	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (v->phase != PHASE_ADDRESS)
			return true;
		if (rdma_resolve_route(v->id, (int)v->base.opts.connect_timeout_ms)) {
			give_up_errno(v, now_ns, "rdma_resolve_route");
			return false;
		}
		v->phase = PHASE_ROUTE;
		return true;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (v->phase == PHASE_ROUTE)
			request_connection(v, now_ns);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (v->phase == PHASE_CONNECT && v->base.state == SL_FABRIC_CONNECTING)
			established(v, now_ns, &hello);
		break;
	case RDMA_CM_EVENT_REJECTED:
		rejected(v, now_ns, status, &refusal);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		give_up(v, now_ns, "its address can't be reached by RDMA");
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		give_up(v, now_ns, "it did not answer");
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		give_up(v, now_ns, "the agent ended the connection");
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		give_up(v, now_ns, "the RDMA device is gone");
		sl_rdma_forget_lost();
		break;
	default: /* TIMEWAIT_EXIT, ADDR_CHANGE: nothing that a READ would not notice */
		return true;
	}
	return v->id != NULL;
}

void sl_verbs_events(struct verbs *v, uint64_t now_ns)
{
	struct sl_fabric *f = &v->base;

	if (now_ns < v->check_ns)
		return;
	v->check_ns = now_ns + (f->state == SL_FABRIC_UP ? CM_CHECK_UP_NS : CM_CHECK_CONNECTING_NS);
	if (f->state == SL_FABRIC_CONNECTING) {
		if (now_ns >= v->deadline_ns) {
			give_up(v, now_ns,
				v->phase == PHASE_NAME ? "its name can't be looked up"
						       : "it did not answer");
			return;
		}
		if (v->phase == PHASE_NAME) {
			look_up(v, now_ns);
			return;
		}
	}
	while (v->channel && cm_event(v, now_ns))
		;
}
#endif
