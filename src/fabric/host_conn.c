// SPDX-License-Identifier: Apache-2.0
/* host_conn.c - connections of the passive side: CM requests, probes, notices. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/base.h"
#include "fabric/host_internal.h"

/* limits the time that a flood of connections takes from the caller's loop */
#define EVENTS_PER_DISPATCH 64
/*
 * The last packet of connecting, if lost, is repeated after 4 to 9 s (RDMA-CM's response timeout).
 */
#define HALF_OPEN_NS  15000000000ull
#define WRITER_ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

/* Runs the timer while there are connections. */
static void set_timer(struct fabric_verbs_host *h)
{
	struct itimerspec every = {0};

	if (h->conns) {
		every.it_interval.tv_sec = h->keepalive_ms / 1000;
		every.it_interval.tv_nsec = (long)(h->keepalive_ms % 1000) * 1000000;
		every.it_value = every.it_interval;
	}
	timerfd_settime(h->timer, 0, &every, NULL);
}

/* Takes pending notices; handle_notices() posts their receives again. */
static void take_notices(struct fabric_verbs_host *h)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(h->notices, 1, &wc) > 0) {
		struct fabric_conn *c = h->conns;

		while (c && c->qp->qp_num != wc.qp_num)
			c = c->next;
		/* A probe or CM will report that its queue pair is gone or failing. */
		if (!c || !(c->notifies || c->writes) || wc.status != IBV_WC_SUCCESS)
			continue;
		c->taken++;
		if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM)
			continue; /* a SEND, which no client uses: ignore it */
		h->gate.stats.notices++;
		if (c->writes && h->writers.immediate)
			h->writers.immediate(h->writers.arg, c->serial, ntohl(wc.imm_data));
		if (c->notifies)
			h->notice(h->notice_arg, ntohl(wc.imm_data));
	}
}

static void free_queue(struct fabric_conn *c)
{
	if (c->id && c->id->qp)
		rdma_destroy_qp(c->id);
	else if (c->qp)
		ibv_destroy_qp(c->qp);
	if (c->board)
		ibv_dereg_mr(c->board);
	if (c->pd)
		ibv_dealloc_pd(c->pd);
}

void fabric_host_drop(struct fabric_verbs_host *h, struct fabric_conn *c)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct fabric_conn **at = &h->conns;

	/* Stop further writes, and report those that arrived while the queue pair is known. */
	if (c->writes && !ibv_modify_qp(c->qp, &error, IBV_QP_STATE))
		take_notices(h);
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	h->gate.queues--;
	h->gate.notifiers -= c->notifies;
	if (c->connected_ns)
		h->gate.stats.disconnected++;
	if (c->id)
		rdma_disconnect(c->id); /* answers the peer's DREQ, or sends one */
	free_queue(c);
	if (c->id)
		rdma_destroy_id(c->id);
	if (!h->conns)
		set_timer(h);
	if (c->writes && h->writers.gone)
		h->writers.gone(h->writers.arg, c->serial, c->name);
	free(c);
}

/* If say is NULL, rejects without telling the peer. */
static void reject_request(struct fabric_verbs_host *h, struct rdma_cm_id *id,
			   enum fabric_refusal cause, struct fabric_verbs_refusal *say)
{
	fabric_gate_count(&h->gate, cause, say);
	if (say) {
		say->magic = FABRIC_VERBS_REFUSAL_MAGIC;
		rdma_reject(id, say, sizeof(*say));
	}
	rdma_destroy_id(id);
}

/* The data of a notice is in the board, so its receive needs no memory. */
static int post_receives(struct ibv_qp *qp, uint32_t count)
{
	struct ibv_recv_wr wr = {0}, *bad;
	int err = 0;

	while (count-- && !err)
		err = ibv_post_recv(qp, &wr, &bad);
	return -err;
}

static struct ibv_qp_init_attr queue_attr(const struct fabric_verbs_host *h, bool notices)
{
	return (struct ibv_qp_init_attr){
		.send_cq = h->cq,
		.recv_cq = notices ? h->notices : h->cq,
		.qp_type = IBV_QPT_RC,
		.cap =
			{
				.max_send_wr = 2,
				.max_recv_wr = notices ? NOTICES_OUT : 1,
				.max_send_sge = 1,
				.max_recv_sge = 1,
			},
	};
}

static void add_connection(struct fabric_verbs_host *h, struct fabric_conn *c)
{
	c->accepted_ns = base_now_ns();
	c->next = h->conns;
	h->conns = c;
	h->gate.queues++;
	h->gate.stats.accepted++;
	if (!c->next)
		set_timer(h);
}

/* ---- a collector or a translator connects ---- */

/*
 * A notifier gets a protection domain that holds only the board: none of its keys opens anything
 * else, and no other key opens the board.
 */
static bool make_queue(struct fabric_verbs_host *h, struct fabric_conn *c)
{
	struct ibv_qp_init_attr attr = queue_attr(h, c->notifies || c->writes);
	uint8_t timeout = FABRIC_VERBS_ACK_TIMEOUT;

	if (c->notifies) {
		c->pd = ibv_alloc_pd(h->listener->verbs);
		if (!c->pd)
			return false;
		c->board = ibv_reg_mr(c->pd, h->board, h->board_bytes,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		if (!c->board)
			return false;
	}
	rdma_set_option(c->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			sizeof(timeout));
	if (rdma_create_qp(c->id, c->pd ? c->pd : h->pd, &attr))
		return false;
	c->qp = c->id->qp;
	return !(c->notifies || c->writes) || !post_receives(c->qp, NOTICES_OUT);
}

static bool accept_conn(struct fabric_verbs_host *h, struct fabric_conn *c,
			const struct fabric_host_request *r)
{
	struct fabric_verbs_welcome w = {.hello = h->gate.hello};
	struct ibv_qp_attr access = {
		.qp_access_flags = c->notifies ? IBV_ACCESS_REMOTE_WRITE
				   : c->writes ? WRITER_ACCESS
					       : IBV_ACCESS_REMOTE_READ,
	};
	struct rdma_conn_param param = {
		.private_data = &w,
		.private_data_len = h->gate.auth ? sizeof(w) : sizeof(w.hello),
		.rnr_retry_count = 7,
		/* the requested number, within the device's limit (rdma_accept(3)) */
		.responder_resources = (uint8_t)BASE_MIN(r->reads, h->device.max_qp_rd_atom),
	};

	if (c->writes)
		w.hello = (struct fabric_host_hello){
			.magic = FABRIC_VERBS_HELLO_MAGIC,
			.version = FABRIC_VERBS_VERSION,
			.agent_instance = h->writers.instance,
		};
	if (c->notifies)
		w.hello.directory_rkey = 0;
	if (c->board) {
		w.hello.board_addr = (uintptr_t)h->board;
		w.hello.board_rkey = c->board->rkey;
	}
	if (h->gate.auth)
		fabric_auth_welcome(h->gate.auth, &r->proof, r->queue, &w);
	if (rdma_accept(c->id, &param))
		return false;
	/*
	 * RDMA-CM gives every queue pair all access rights; reduce them to the one needed. Access
	 * requires the consent of both queue pair and memory region (IBTA 10.6.3).
	 */
	ibv_modify_qp(c->qp, &access, IBV_QP_ACCESS_FLAGS);
	return true;
}

/* True for a printable, terminated name. */
static bool is_name(const char name[FABRIC_HOST_NAME_MAX])
{
	size_t n = strnlen(name, FABRIC_HOST_NAME_MAX);

	for (size_t i = 0; i < n; i++)
		if (name[i] <= ' ' || name[i] > '~')
			return false;
	return n && n < FABRIC_HOST_NAME_MAX;
}

/*
 * Decides whether a request gets a queue pair; gate.c judges readers and notifiers. If it returns
 * false, *say is the answer: a refusal with its cause, or a challenge (error 0).
 */
static bool admits_request(struct fabric_verbs_host *h, const struct rdma_cm_id *id,
			   const struct fabric_host_request *r, enum fabric_refusal *cause,
			   struct fabric_verbs_refusal *say)
{
	const struct fabric_verbs_request *q = &r->plain;
	bool notifies = q->flags & FABRIC_VERBS_NOTIFY;
	bool writes = q->flags & FABRIC_VERBS_STORE;
	uint32_t held[2] = {0};

	if (!fabric_gate_request_fits(r))
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_MALFORMED, EPROTO);
	if ((!h->gate.hello.magic && !writes) || h->gate.stats.lost ||
	    id->verbs != h->listener->verbs)
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_SYSTEM, EAGAIN);
	if ((notifies && !h->notice) || (writes && !h->writers.came))
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_SYSTEM, EOPNOTSUPP);
	if (writes && !is_name(q->name))
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_MALFORMED, EPROTO);
	if (writes && q->instance != h->writers.instance)
		return fabric_gate_refuse(cause, say, FABRIC_REFUSED_PROOF, EACCES);
	for (const struct fabric_conn *c = h->conns; c; c = c->next)
		if (!memcmp(c->address, r->address, sizeof(c->address))) {
			held[0]++;
			held[1] += c->notifies;
		}
	return fabric_gate_admits(&h->gate, r, held, cause, say);
}

static void connect_request(struct fabric_verbs_host *h, struct rdma_cm_id *id,
			    const struct fabric_host_request *r)
{
	struct fabric_verbs_refusal say = {0}, *told = &say;
	enum fabric_refusal cause;
	struct fabric_conn *c;

	if (!admits_request(h, id, r, &cause, &say)) {
		reject_request(h, id, cause, &say);
		return;
	}
	cause = FABRIC_REFUSED_SYSTEM;
	say.error = ENOMEM;
	c = calloc(1, sizeof(*c));
	if (!c)
		goto err;
	c->id = id;
	c->notifies = r->plain.flags & FABRIC_VERBS_NOTIFY;
	c->writes = r->plain.flags & FABRIC_VERBS_STORE;
	c->serial = ++h->serial;
	memcpy(c->address, r->address, sizeof(c->address));
	snprintf(c->name, sizeof(c->name), "%s", c->writes ? r->plain.name : "");
	if (!make_queue(h, c))
		goto err_queue;
	if (c->writes && !h->writers.came(h->writers.arg, c->serial, c->name)) {
		cause = FABRIC_REFUSED_PROOF;
		say.error = EACCES;
		goto err_queue;
	}
	if (!accept_conn(h, c, r)) {
		told = NULL;
		if (c->writes && h->writers.gone)
			h->writers.gone(h->writers.arg, c->serial, c->name);
		goto err_queue;
	}
	h->gate.notifiers += c->notifies;
	id->context = c;
	add_connection(h, c);
	return;

err_queue:
	free_queue(c);
	free(c);
err:
	reject_request(h, id, cause, told);
}

struct ibv_qp *fabric_host_queue_new(struct fabric_host *base, const char *name, uint64_t *queue)
{
	struct fabric_verbs_host *h = fabric_verbs_host_of(base);
	struct ibv_qp_init_attr attr = queue_attr(h, true);
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = (uint8_t)h->gate.stats.ib_port,
		.qp_access_flags = WRITER_ACCESS,
	};
	struct fabric_conn *c;
	int err;

	if (h->gate.stats.lost || h->gate.queues >= h->gate.queues_max) {
		errno = h->gate.stats.lost ? ENODEV : ENOSPC;
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->qp = ibv_create_qp(h->pd, &attr);
	err = c->qp ? 0 : errno;
	err = err
		      ?: ibv_modify_qp(c->qp, &init,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS);
	err = err ?: -post_receives(c->qp, NOTICES_OUT);
	if (err) {
		if (c->qp)
			ibv_destroy_qp(c->qp);
		free(c);
		errno = err;
		return NULL;
	}
	c->writes = true;
	c->serial = ++h->serial;
	snprintf(c->name, sizeof(c->name), "%s", name);
	*queue = c->serial;
	add_connection(h, c);
	return c->qp;
}

int fabric_host_queue_end(struct fabric_host *base, uint64_t queue)
{
	struct fabric_verbs_host *h = fabric_verbs_host_of(base);

	for (struct fabric_conn *c = h->conns; c; c = c->next)
		if (c->serial == queue) {
			fabric_host_drop(h, c);
			return 0;
		}
	return -ENOENT;
}

static void cm_event(struct fabric_verbs_host *h, struct rdma_cm_event *event)
{
	enum rdma_cm_event_type type = event->event;
	struct rdma_cm_id *id = event->id;
	const struct rdma_conn_param *conn = &event->param.conn;
	struct fabric_host_request r = {.queue = conn->qp_num, .reads = conn->responder_resources};

	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		fabric_gate_share_of(rdma_get_peer_addr(id), r.address);
		if (conn->private_data &&
		    conn->private_data_len >= offsetof(struct fabric_verbs_request, instance))
			memcpy(&r.plain, conn->private_data,
			       BASE_MIN(conn->private_data_len, sizeof(r.plain)));
	}
	/* rdma_destroy_id() waits until all events are acknowledged. */
	rdma_ack_cm_event(event);

	switch (type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		connect_request(h, id, &r);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		((struct fabric_conn *)id->context)->connected_ns = base_now_ns();
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		h->gate.stats.lost = true;
		__attribute__((fallthrough));
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		if (id != h->listener)
			fabric_host_drop(h, id->context);
		break;
	default:
		break;
	}
}

/* An empty WRITE needs no memory and no rkey of the peer (IBTA C9-88). */
static void send_probe(struct fabric_conn *c)
{
	struct ibv_send_wr wr = {
		.wr_id = c->serial,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;
	int err;

	if (!c->connected_ns || c->probing)
		return;
	err = ibv_post_send(c->qp, &wr, &bad);
	c->probing = !err;
	if (err)
		base_log_limited(BASE_WARN, "rdma", "cannot probe a peer queue=%u error=\"%s\"",
				 c->qp->qp_num, strerror(err));
}

/* Drops connections that never finish connecting, and notifiers with an old key. */
static void drop_old(struct fabric_verbs_host *h)
{
	uint64_t now = base_now_ns();

	for (struct fabric_conn *c = h->conns, *next; c; c = next) {
		uint64_t age = now - c->accepted_ns;
		bool half_open = c->id && !c->connected_ns && age > HALF_OPEN_NS;

		next = c->next;
		h->gate.stats.half_open += half_open;
		if (half_open || (c->notifies && h->notifier_ns && age > h->notifier_ns))
			fabric_host_drop(h, c);
	}
}

static void send_probes(struct fabric_verbs_host *h)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(h->cq, 1, &wc) > 0) {
		struct fabric_conn *c = h->conns;

		while (c && c->serial != wc.wr_id)
			c = c->next;
		if (!c)
			continue;
		c->probing = false;
		if (wc.status != IBV_WC_SUCCESS)
			fabric_host_drop(h, c);
	}
	drop_old(h);
	for (struct fabric_conn *c = h->conns; c; c = c->next)
		send_probe(c);
}

/*
 * Takes all pending notices, whose number is limited by the posted receives, then posts the
 * receives again: a flood cannot block the loop, and a faster collector waits on its side.
 */
static void handle_notices(struct fabric_verbs_host *h)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(h->bell, &cq, &context))
		return;
	ibv_ack_cq_events(cq, 1);
	/* before polling, so that a later notice wakes us again */
	ibv_req_notify_cq(h->notices, 0);
	take_notices(h);
	for (struct fabric_conn *c = h->conns; c; c = c->next) {
		if (c->taken)
			post_receives(c->qp, c->taken);
		c->taken = 0;
	}
}

static void async_events(struct fabric_verbs_host *h)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(h->listener->verbs, &event)) {
		enum ibv_event_type type = event.event_type;

		ibv_ack_async_event(&event);
		if (type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_CQ_ERR)
			h->gate.stats.lost = true;
	}
	/* The descriptor of a lost device would stay readable forever. */
	if (errno != EAGAIN) {
		h->gate.stats.lost = true;
		epoll_ctl(h->epoll, EPOLL_CTL_DEL, h->listener->verbs->async_fd, NULL);
	}
}

void fabric_verbs_host_dispatch(struct fabric_host *base)
{
	struct fabric_verbs_host *h = fabric_verbs_host_of(base);
	struct rdma_cm_event *event;
	struct epoll_event ready[4];
	uint64_t ticks;
	int count = epoll_wait(h->epoll, ready, 4, 0);

	for (int i = 0; i < count; i++) {
		if (ready[i].data.fd == h->timer) {
			if (read(h->timer, &ticks, sizeof(ticks)) == sizeof(ticks))
				send_probes(h);
		} else if (ready[i].data.fd == h->channel->fd) {
			for (int n = 0; n < EVENTS_PER_DISPATCH; n++) {
				if (rdma_get_cm_event(h->channel, &event))
					break;
				cm_event(h, event);
			}
		} else if (h->bell && ready[i].data.fd == h->bell->fd) {
			handle_notices(h);
		} else {
			async_events(h);
		}
	}
}
