/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs.c - the provider for a host over RDMA: the active side of a reliable connection, which
 * READs and does nothing else, or notifies and does nothing else.
 *
 * Accounting of work requests. A send queue of a reliable connection completes in the order of
 * posting, and a request without IBV_SEND_SIGNALED that succeeded makes no completion
 * (ibv_post_send(3), ibv_create_qp(3) on sq_sig_all). So requests form a queue; a completion that
 * names one of them says that all before it succeeded, and how that one ended. A failure always
 * makes a completion. Every completion must carry the number of this connection and a request that
 * is outstanding: anything else is counted and ends the connection, and is never taken for data.
 *
 * After the first failure a queue pair is in the error state and of no use (IBTA 10.3.1): it is
 * destroyed, READs that were outstanding end, and a new connection is made after a back-off. Only
 * after the queue pair is gone may the landing memory be used again, so that is the order here.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fabric/provider.h"

/* A path with a slash that is not absolute is a mistake, not a host. */
static bool verbs_takes(const char *target)
{
	return target[0] != '\0' && !strchr(target, '/');
}

#if HAVE_VERBS
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <time.h>

#include <sidelight/attach.h>
#include <sidelight/region.h>

#include "fabric/host.h"
#include "fabric/rdma.h"

#define CM_CHECK_UP_NS	       2000000u /* how often events are looked for while up */
#define CM_CHECK_CONNECTING_NS 200000u
#define SGES_MAX	       16u	    /* landings of one work request */
#define MERGE_BYTES_MAX	       (256u << 10) /* of one work request */
#define GAP_MAX		       512u	    /* bytes between two READs worth reading for nothing */
#define COMPLETIONS_A_POLL     32
#define NOTICE_TIMEOUT_NS      1000000000u

_Static_assert(GAP_MAX <= SL_BUFFER_TAIL, "the sink");

enum phase { PHASE_NAME, PHASE_ADDRESS, PHASE_ROUTE, PHASE_CONNECT };

/* A host name being looked up by another thread, getaddrinfo_a(3). */
struct lookup {
	struct gaicb request;
	struct gaicb *list[1];
	struct addrinfo hints;
	char host[256];
};

struct request {
	uint32_t reads; /* that it carries */
	uint64_t posted_ns;
};

struct verbs {
	struct sl_fabric base;
	char host[256], service[8], *device;
	struct sockaddr_storage to, from; /* from.ss_family AF_UNSPEC: as the route says */
	struct lookup *lookup;
	enum phase phase;
	uint64_t deadline_ns, check_ns;

	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	bool broken; /* posting failed: to be reset by the next drive or poll */

	uint32_t generation; /* of the queue pair, in the upper half of its wr_ids */
	uint32_t depth, signal_every, sges, message_max;
	uint32_t head, tail;	  /* numbers of requests outstanding: [head, tail) */
	struct request *requests; /* by number & mask: numbers run on through 2^32 */
	uint32_t mask;
	struct sl_read **reads; /* those of the requests, in order; ring of SL_READS_MAX */
	uint32_t reads_head, reads_count;
	struct ibv_send_wr *chain; /* scratch of post: opts.queue_depth */
	struct ibv_sge *sge;	   /* SGES_MAX for each */
	uint64_t board_addr;	   /* of the host; notices go there */
	uint32_t board_rkey;
	uint8_t *sink; /* where the bytes of a gap land: in the buffer's tail */
};

static struct verbs *of(struct sl_fabric *f)
{
	return (struct verbs *)f;
}

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- accounting ----------------------------------------------------------------------------- */

static void finish_oldest(struct verbs *v, int status)
{
	struct request *r = &v->requests[v->head++ & v->mask];

	while (r->reads--) {
		struct sl_read *read = v->reads[v->reads_head];

		v->reads_head = (v->reads_head + 1) % SL_READS_MAX;
		v->reads_count--;
		sl_fabric_finish(&v->base, read, status);
	}
}

/* ---- tearing down --------------------------------------------------------------------------- */

/* In the reverse order of set-up; what was not set up is NULL. */
static void tear_down(struct verbs *v)
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

/* READs that waited for longer than timeout_ns timed out; the others lost their connection. */
static void reset(struct verbs *v, uint64_t now_ns, uint64_t timeout_ns)
{
	tear_down(v);
	while (v->head != v->tail) {
		uint64_t posted = v->requests[v->head & v->mask].posted_ns;
		bool late = timeout_ns && now_ns > posted && now_ns - posted >= timeout_ns;

		finish_oldest(v, late ? -ETIMEDOUT : -ENOTCONN);
	}
	sl_fabric_went_down(&v->base, now_ns);
}

static void give_up(struct verbs *v, uint64_t now_ns, const char *why)
{
	sl_fabric_failed(&v->base, "%s: %s", v->base.target, why);
	reset(v, now_ns, 0);
}

static void give_up_errno(struct verbs *v, uint64_t now_ns, const char *what)
{
	sl_fabric_failed(&v->base, "%s: %s: %s", v->base.target, what, strerror(errno));
	reset(v, now_ns, 0);
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
		reset(v, now_ns, 0);
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
static void start(struct verbs *v, uint64_t now_ns)
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

static void verbs_poll(struct sl_fabric *f, uint64_t now_ns, uint64_t timeout_ns);

static void verbs_drive(struct sl_fabric *f, uint64_t now_ns)
{
	struct verbs *v = of(f);

	if (f->state == SL_FABRIC_DOWN) {
		if (now_ns >= f->retry_ns)
			start(v, now_ns);
		return;
	}
	if (v->broken) {
		reset(v, now_ns, 0);
		return;
	}
	if (f->opts.notify) { /* of which nobody awaits the end */
		verbs_poll(f, now_ns, NOTICE_TIMEOUT_NS);
		if (f->state != SL_FABRIC_UP && !v->id)
			return;
	}
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

/* ---- reading -------------------------------------------------------------------------------- */

static int verbs_map(struct sl_fabric *f, struct sl_remote *remote)
{
	(void)f;
	if (!remote->addr || !remote->length || remote->addr > UINT64_MAX - remote->length)
		return -EINVAL;
	return 0;
}

static void verbs_unmap(struct sl_fabric *f, struct sl_remote *remote)
{
	(void)f;
	(void)remote;
}

/*
 * Adds a READ to a work request that is being made, if the memory that it wants follows (with
 * a gap at most, which lands in the sink). A gap lies between two parts of one region, and is
 * therefore readable.
 */
static bool merge(struct verbs *v, struct ibv_send_wr *wr, const struct sl_read *last,
		  uint32_t length, const struct sl_read *r)
{
	struct ibv_sge *sge = &wr->sg_list[wr->num_sge - 1];
	uint64_t end = wr->wr.rdma.remote_addr + length;
	uint64_t at = r->remote->addr + r->offset;
	uint64_t gap = at - end;

	if (r->remote->rkey != wr->wr.rdma.rkey || at < end || gap > GAP_MAX ||
	    (gap && r->remote->addr != last->remote->addr) ||
	    length + gap + r->length > MERGE_BYTES_MAX)
		return false;
	if (!gap && sge->addr + sge->length == (uintptr_t)r->to) {
		sge->length += r->length;
		return true;
	}
	if (wr->num_sge + (gap ? 2 : 1) > (int)v->sges)
		return false;
	if (gap)
		wr->sg_list[wr->num_sge++] = (struct ibv_sge){
			.addr = (uintptr_t)v->sink,
			.length = (uint32_t)gap,
			.lkey = v->mr->lkey,
		};
	wr->sg_list[wr->num_sge++] = (struct ibv_sge){
		.addr = (uintptr_t)r->to,
		.length = r->length,
		.lkey = v->mr->lkey,
	};
	return true;
}

/* Gives back the last count READs that were not posted after all. */
static void unwind(struct verbs *v, uint32_t requests)
{
	while (requests--) {
		v->tail--;
		v->reads_count -= v->requests[v->tail & v->mask].reads;
	}
}

static uint32_t verbs_post(struct sl_fabric *f, struct sl_read *reads, uint32_t count)
{
	struct verbs *v = of(f);
	struct ibv_send_wr *wr = NULL, *bad = NULL;
	uint64_t now = monotonic_ns();
	uint32_t n = 0, taken = 0, length = 0, posted;
	struct request *request = NULL;
	int err;

	if (v->broken)
		return 0;
	for (; taken < count; taken++) {
		struct sl_read *r = &reads[taken];

		if (r->length > v->message_max)
			break;
		if (wr && merge(v, wr, r - 1, length, r)) {
			length = (uint32_t)(r->remote->addr + r->offset + r->length -
					    wr->wr.rdma.remote_addr);
		} else {
			if (v->tail - v->head == v->depth)
				break;
			wr = &v->chain[n];
			*wr = (struct ibv_send_wr){
				.wr_id = (uint64_t)v->generation << 32 | v->tail,
				.sg_list = &v->sge[n * SGES_MAX],
				.num_sge = 1,
				.opcode = IBV_WR_RDMA_READ,
				.send_flags = v->tail % v->signal_every ? 0 : IBV_SEND_SIGNALED,
				.wr.rdma.remote_addr = r->remote->addr + r->offset,
				.wr.rdma.rkey = r->remote->rkey,
			};
			wr->sg_list[0] = (struct ibv_sge){
				.addr = (uintptr_t)r->to,
				.length = r->length,
				.lkey = v->mr->lkey,
			};
			if (n)
				v->chain[n - 1].next = wr;
			n++;
			request = &v->requests[v->tail++ & v->mask];
			*request = (struct request){.posted_ns = now};
			length = r->length;
		}
		v->reads[(v->reads_head + v->reads_count++) % SL_READS_MAX] = r;
		request->reads++;
	}
	if (!n) {
		if (taken < count && reads->length > v->message_max) {
			sl_fabric_finish(f, reads, -ERANGE);
			return 1;
		}
		return 0;
	}
	wr->send_flags |= IBV_SEND_SIGNALED;
	err = ibv_post_send(v->id->qp, v->chain, &bad);
	f->stats.doorbells++;
	f->stats.work_requests += n;
	if (!err)
		return taken;

	/* What came before bad was posted; the connection ends with the next drive or poll. */
	sl_fabric_failed(f, "%s: ibv_post_send: %s", f->target, strerror(err));
	v->broken = true;
	posted = bad ? (uint32_t)(bad - v->chain) : 0;
	f->stats.work_requests -= n - posted;
	taken = 0;
	for (uint32_t i = 0; i < posted; i++)
		taken += v->requests[(v->tail - n + i) & v->mask].reads;
	unwind(v, n - posted);
	return taken;
}

/*
 * A WRITE with immediate data: what is written is there before the host hears of it (IBTA 9.4.2),
 * and the host's receives bound how many it has not heard yet. The line lies in the buffer, where no
 * READ lands on such a connection, at the place of its request.
 */
static int verbs_notify(struct sl_fabric *f, uint32_t entry, const struct sl_msg_verdict *verdict)
{
	struct verbs *v = of(f);
	struct sl_board_line *line = (struct sl_board_line *)f->buffer + (v->tail & v->mask);
	struct ibv_sge sge = {
		.addr = (uintptr_t)line, .length = sizeof(*line), .lkey = v->mr->lkey};
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = (uint64_t)v->generation << 32 | v->tail,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
			.send_flags = IBV_SEND_SIGNALED,
			.imm_data = htonl(entry),
			.wr.rdma.remote_addr = v->board_addr + entry * sizeof(*line),
			.wr.rdma.rkey = v->board_rkey,
		};
	uint64_t cell[8] = {0};
	int err;

	if (v->broken)
		return -ENOTCONN;
	if (v->tail - v->head == v->depth)
		return -EAGAIN;
	memcpy(cell, verdict, sizeof(*verdict));
	cell[7] = sl_line_check(cell);
	memcpy(line, cell, sizeof(*line));
	err = ibv_post_send(v->id->qp, &wr, &bad);
	if (err) {
		sl_fabric_failed(f, "%s: ibv_post_send: %s", f->target, strerror(err));
		v->broken = true;
		return -ENOTCONN;
	}
	v->requests[v->tail++ & v->mask] = (struct request){.posted_ns = monotonic_ns()};
	f->stats.doorbells++;
	f->stats.work_requests++;
	return 0;
}

static int status_of(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_REM_ACCESS_ERR:
		return -EACCES;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		return -ETIMEDOUT;
	case IBV_WC_WR_FLUSH_ERR:
		return -ENOTCONN;
	default:
		return -EIO;
	}
}

/* False: the connection can't go on. */
static bool completed(struct verbs *v, const struct ibv_wc *wc)
{
	struct sl_fabric *f = &v->base;
	uint32_t number = (uint32_t)wc->wr_id;
	int status = status_of(wc->status);

	if (wc->wr_id >> 32 != v->generation || number - v->head >= v->tail - v->head) {
		f->stats.wrong_id++;
		sl_fabric_failed(f, "%s: a completion of nothing that is outstanding", f->target);
		return false;
	}
	while (v->head != number)
		finish_oldest(v, 0);
	if (status && !v->requests[number & v->mask].reads) {
		sl_fabric_failed(f, "%s: WRITE of a verdict: %s", f->target,
				 ibv_wc_status_str(wc->status));
	} else if (status) {
		const struct request *r = &v->requests[number & v->mask];
		const struct sl_read *first = v->reads[v->reads_head];

		sl_fabric_failed(f, "%s: READ of region %llu at %llu (%u merged): %s", f->target,
				 (unsigned long long)first->remote->id,
				 (unsigned long long)first->offset, r->reads,
				 ibv_wc_status_str(wc->status));
	}
	finish_oldest(v, status);
	return !status;
}

static void verbs_poll(struct sl_fabric *f, uint64_t now_ns, uint64_t timeout_ns)
{
	struct verbs *v = of(f);
	struct ibv_wc wc[COMPLETIONS_A_POLL];
	uint64_t oldest;
	int count;

	if (!v->cq)
		return;
	do {
		count = ibv_poll_cq(v->cq, COMPLETIONS_A_POLL, wc);
		for (int i = 0; i < count; i++) {
			if (!completed(v, &wc[i])) {
				reset(v, now_ns, timeout_ns);
				return;
			}
		}
	} while (count == COMPLETIONS_A_POLL);
	if (count < 0 || v->broken) {
		if (count < 0)
			sl_fabric_failed(f, "%s: ibv_poll_cq failed", f->target);
		reset(v, now_ns, timeout_ns);
		return;
	}
	if (v->head == v->tail || !timeout_ns)
		return;
	oldest = v->requests[v->head & v->mask].posted_ns;
	if (now_ns > oldest && now_ns - oldest >= timeout_ns) {
		sl_fabric_failed(f, "%s: a request got no answer for %llu ms", f->target,
				 (unsigned long long)((now_ns - oldest) / 1000000u));
		reset(v, now_ns, timeout_ns);
	}
}

/* ---- opening -------------------------------------------------------------------------------- */

/* HOST, HOST:PORT, [V6], [V6]:PORT, V6. */
static bool split(const char *target, char host[256], char service[8])
{
	const char *colon = strrchr(target, ':'), *end;
	unsigned long port = SL_VERBS_PORT;
	char *rest;

	if (target[0] == '[') {
		target++;
		end = strchr(target, ']');
		if (!end || (end[1] && end[1] != ':'))
			return false;
		colon = end[1] ? end + 1 : NULL;
	} else if (colon && strchr(target, ':') != colon) {
		colon = NULL; /* more than one: an IPv6 address */
		end = target + strlen(target);
	} else {
		end = colon ? colon : target + strlen(target);
	}
	if (end == target || end - target > 255)
		return false;
	if (colon) {
		port = strtoul(colon + 1, &rest, 10);
		if (colon[1] < '0' || colon[1] > '9' || *rest || !port || port > 65535)
			return false;
	}
	memcpy(host, target, (size_t)(end - target));
	host[end - target] = '\0';
	snprintf(service, 8, "%lu", port);
	return true;
}

static void verbs_fini(struct sl_fabric *f)
{
	struct verbs *v = of(f);

	tear_down(v);
	/* A look-up that can't be cancelled writes to its memory when it ends: that is left to it. */
	if (v->lookup) {
		int code = gai_cancel(&v->lookup->request);

		if (code == EAI_ALLDONE && !gai_error(&v->lookup->request))
			freeaddrinfo(v->lookup->request.ar_result);
		if (code != EAI_NOTCANCELED)
			free(v->lookup);
	}
	free(v->sge);
	free(v->chain);
	free(v->reads);
	free(v->requests);
	free(v->device);
}

static int verbs_init(struct sl_fabric *f, const char *target)
{
	struct verbs *v = of(f);
	int err;

	if (!split(target, v->host, v->service)) {
		sl_fabric_failed(f, "'%s' is not HOST[:PORT]", target);
		return -EINVAL;
	}
	err = sl_rdma_find(f->opts.device, f->stats.last_error, sizeof(f->stats.last_error));
	if (err)
		return err;
	v->device = f->opts.device ? strdup(f->opts.device) : NULL;
	f->opts.device = v->device;
	for (v->mask = 1; v->mask < f->opts.queue_depth; v->mask *= 2)
		;
	v->requests = calloc(v->mask, sizeof(*v->requests));
	v->mask--;
	v->reads = calloc(SL_READS_MAX, sizeof(*v->reads));
	v->chain = calloc(f->opts.queue_depth, sizeof(*v->chain));
	v->sge = calloc((size_t)f->opts.queue_depth * SGES_MAX, sizeof(*v->sge));
	if (!v->requests || !v->reads || !v->chain || !v->sge) {
		verbs_fini(f);
		return -ENOMEM;
	}
	v->sink = f->buffer + f->opts.buffer_bytes;
	return 0;
}

#else /* built without RDMA */

static int verbs_init(struct sl_fabric *f, const char *target)
{
	sl_fabric_failed(f, "%s: this sidelight was built without RDMA (libibverbs, librdmacm)",
			 target);
	return -EOPNOTSUPP;
}

static void verbs_fini(struct sl_fabric *f)
{
	(void)f;
}

static void verbs_drive(struct sl_fabric *f, uint64_t now_ns)
{
	(void)f;
	(void)now_ns;
}

static int verbs_map(struct sl_fabric *f, struct sl_remote *remote)
{
	(void)f, (void)remote;
	return -EOPNOTSUPP;
}

static void verbs_unmap(struct sl_fabric *f, struct sl_remote *remote)
{
	(void)f, (void)remote;
}

static uint32_t verbs_post(struct sl_fabric *f, struct sl_read *reads, uint32_t count)
{
	(void)f, (void)reads, (void)count;
	return 0;
}

#define verbs_poll NULL

struct verbs {
	struct sl_fabric base;
};
#endif

const struct sl_fabric_ops sl_provider_verbs = {
	.name = "verbs",
	.takes = verbs_takes,
	.bytes = sizeof(struct verbs),
	.open = verbs_init,
	.close = verbs_fini,
	.drive = verbs_drive,
	.map = verbs_map,
	.unmap = verbs_unmap,
	.post = verbs_post,
	.poll = verbs_poll,
	.notify = verbs_notify,
};
