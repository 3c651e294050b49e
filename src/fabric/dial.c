// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "fabric/dial.h"
#include "fabric/lookup.h"

#define CHECK_UP_NS	    2000000u /* interval of event checks while up */
#define CHECK_CONNECTING_NS 200000u

static enum fabric_dial_event fail_with(struct fabric_dial *d, const char *why)
{
	snprintf(d->error, sizeof(d->error), "%s", why);
	return FABRIC_DIAL_FAILED;
}

static enum fabric_dial_event failed_errno(struct fabric_dial *d, const char *what)
{
	snprintf(d->error, sizeof(d->error), "%s: %s", what, strerror(errno));
	return FABRIC_DIAL_FAILED;
}

/* ---- connecting ---- */

static enum fabric_dial_event resolve_address(struct fabric_dial *d)
{
	uint8_t timeout = FABRIC_VERBS_ACK_TIMEOUT;

	if ((d->device || d->gid_index >= 0) &&
	    fabric_rdma_gid_address(d->device, d->ib_port, d->gid_index, d->to.ss_family, &d->from,
				    d->error, sizeof(d->error)))
		return FABRIC_DIAL_FAILED;
	d->channel = rdma_create_event_channel();
	if (!d->channel)
		return failed_errno(d, "/dev/infiniband/rdma_cm");
	if (fabric_rdma_nonblocking(d->channel->fd) ||
	    rdma_create_id(d->channel, &d->id, d, RDMA_PS_TCP))
		return failed_errno(d, "rdma_create_id");
	/* Older kernels lack this option and use RDMA-CM's default timeout. */
	rdma_set_option(d->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			sizeof(timeout));
	if (rdma_resolve_addr(d->id, d->from.ss_family ? (struct sockaddr *)&d->from : NULL,
			      (struct sockaddr *)&d->to, (int)d->timeout_ms))
		return failed_errno(d, "there is no route to the host");
	d->phase = FABRIC_DIAL_ADDRESS;
	return FABRIC_DIAL_NOTHING;
}

static enum fabric_dial_event look_up(struct fabric_dial *d)
{
	int code = fabric_lookup(&d->lookup, d->host, d->service, &d->to);

	if (code == EAI_INPROGRESS)
		return FABRIC_DIAL_NOTHING;
	return code ? fail_with(d, gai_strerror(code)) : resolve_address(d);
}

enum fabric_dial_event fabric_dial_start(struct fabric_dial *d, uint64_t now_ns)
{
	memset(&d->refusal, 0, sizeof(d->refusal));
	d->deadline_ns = now_ns + (uint64_t)d->timeout_ms * 1000000u;
	d->check_ns = 0;
	d->phase = FABRIC_DIAL_NAME;
	return look_up(d);
}

enum fabric_dial_event fabric_dial_connect(struct fabric_dial *d, const void *request,
					   uint8_t reads)
{
	struct rdma_conn_param param = {
		.private_data = request,
		.private_data_len = sizeof(struct fabric_verbs_request),
		.retry_count = FABRIC_VERBS_RETRIES,
		.rnr_retry_count = 7,
		.initiator_depth = reads,
	};

	if (rdma_connect(d->id, &param))
		return failed_errno(d, "rdma_connect");
	d->phase = FABRIC_DIAL_CONNECT;
	return FABRIC_DIAL_NOTHING;
}

/* ---- events ---- */

static enum fabric_dial_event handle_rejection(struct fabric_dial *d, int reason)
{
	/* See IBTA 12.6.7.2; reason 8 means that no one listens on the port. */
	if (d->refusal.magic == FABRIC_VERBS_REFUSAL_MAGIC)
		snprintf(d->error, sizeof(d->error), "refused: %s", strerror(d->refusal.error));
	else if (reason == 8)
		snprintf(d->error, sizeof(d->error), "no process is listening on that port");
	else
		snprintf(d->error, sizeof(d->error), "refused, reason %d", reason);
	return FABRIC_DIAL_FAILED;
}

/* Handles one event. Sets *more if there was one. */
static enum fabric_dial_event cm_event(struct fabric_dial *d, void *hello, size_t hello_bytes,
				       bool *more)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_event *event;
	int status;

	*more = false;
	if (rdma_get_cm_event(d->channel, &event))
		return errno == EAGAIN ? FABRIC_DIAL_NOTHING : failed_errno(d, "rdma_get_cm_event");
	*more = true;
	type = event->event;
	status = event->status;
	if (type == RDMA_CM_EVENT_ESTABLISHED) {
		size_t came = event->param.conn.private_data ? event->param.conn.private_data_len
							     : 0;

		memset(hello, 0, hello_bytes);
		if (came)
			memcpy(hello, event->param.conn.private_data, BASE_MIN(came, hello_bytes));
	}
	if (type == RDMA_CM_EVENT_REJECTED && event->param.conn.private_data &&
	    event->param.conn.private_data_len >= sizeof(d->refusal))
		memcpy(&d->refusal, event->param.conn.private_data, sizeof(d->refusal));
	rdma_ack_cm_event(event);

	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (d->phase != FABRIC_DIAL_ADDRESS)
			return FABRIC_DIAL_NOTHING;
		if (rdma_resolve_route(d->id, (int)d->timeout_ms))
			return failed_errno(d, "rdma_resolve_route");
		d->phase = FABRIC_DIAL_ROUTE;
		return FABRIC_DIAL_NOTHING;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (d->phase != FABRIC_DIAL_ROUTE)
			return FABRIC_DIAL_NOTHING;
		if (d->device && strcmp(d->device, ibv_get_device_name(d->id->verbs->device)))
			return fail_with(d, "the route leads through another RDMA device");
		return FABRIC_DIAL_ROUTED;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (d->phase != FABRIC_DIAL_CONNECT)
			return FABRIC_DIAL_NOTHING;
		d->phase = FABRIC_DIAL_UP;
		return FABRIC_DIAL_ESTABLISHED;
	case RDMA_CM_EVENT_REJECTED:
		return handle_rejection(d, status);
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return fail_with(d, "the address cannot be reached over RDMA");
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return fail_with(d, "no answer");
	case RDMA_CM_EVENT_DISCONNECTED:
		return fail_with(d, "the peer closed the connection");
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		d->lost = true;
		return fail_with(d, "the RDMA device was removed");
	default: /* ignore TIMEWAIT_EXIT and ADDR_CHANGE: the next request would notice */
		return FABRIC_DIAL_NOTHING;
	}
}

enum fabric_dial_event fabric_dial_drive(struct fabric_dial *d, uint64_t now_ns, void *hello,
					 size_t hello_bytes)
{
	enum fabric_dial_event e = FABRIC_DIAL_NOTHING;
	bool more = d->channel != NULL;

	if (now_ns < d->check_ns || d->phase == FABRIC_DIAL_IDLE)
		return FABRIC_DIAL_NOTHING;
	d->check_ns = now_ns + (d->phase == FABRIC_DIAL_UP ? CHECK_UP_NS : CHECK_CONNECTING_NS);
	if (d->phase != FABRIC_DIAL_UP) {
		if (now_ns >= d->deadline_ns)
			return fail_with(d, d->phase == FABRIC_DIAL_NAME
						    ? "the host name cannot be resolved"
						    : "no answer");
		if (d->phase == FABRIC_DIAL_NAME)
			return look_up(d);
	}
	while (more && e == FABRIC_DIAL_NOTHING)
		e = cm_event(d, hello, hello_bytes, &more);
	return e;
}

/* ---- tear-down ---- */

void fabric_dial_end(struct fabric_dial *d, struct ibv_cq **cq, struct ibv_mr **mr,
		     struct ibv_pd **pd)
{
	if (d->id && d->id->qp) {
		rdma_disconnect(d->id);
		rdma_destroy_qp(d->id);
	}
	if (*cq)
		ibv_destroy_cq(*cq);
	if (*mr)
		ibv_dereg_mr(*mr);
	if (*pd)
		ibv_dealloc_pd(*pd);
	*cq = NULL;
	*mr = NULL;
	*pd = NULL;
	if (d->id)
		rdma_destroy_id(d->id);
	if (d->channel)
		rdma_destroy_event_channel(d->channel);
	d->id = NULL;
	d->channel = NULL;
	d->phase = FABRIC_DIAL_IDLE;
	if (d->lost)
		fabric_rdma_forget_lost();
	d->lost = false;
}

void fabric_dial_free(struct fabric_dial *d)
{
	fabric_lookup_end(&d->lookup);
}
