// SPDX-License-Identifier: Apache-2.0
/* verbs_connect.c - sets up and tears down a connection over RDMA, using dial.c for RDMA-CM. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "fabric/host.h"
#include "fabric/verbs.h"
#include "base/base.h"

/* ---- tearing down ---- */

void fabric_verbs_tear_down(struct fabric_verbs *v)
{
	fabric_dial_end(&v->dial, &v->cq, &v->mr, &v->pd);
	v->broken = false;
}

void fabric_verbs_reset(struct fabric_verbs *v, uint64_t now_ns, uint64_t timeout_ns)
{
	fabric_verbs_tear_down(v);
	fabric_went_down(&v->base, now_ns, timeout_ns);
}

static void give_up(struct fabric_verbs *v, uint64_t now_ns, const char *why)
{
	fabric_failed(&v->base, "%s: %s", v->base.target, why);
	fabric_verbs_reset(v, now_ns, 0);
}

static void give_up_errno(struct fabric_verbs *v, uint64_t now_ns, const char *what)
{
	fabric_failed(&v->base, "%s: %s: %s", v->base.target, what, strerror(errno));
	fabric_verbs_reset(v, now_ns, 0);
}

/* ---- connecting ---- */

/* True if the host answered a request without a cookie with a challenge. */
static bool is_challenge(const struct fabric_verbs *v)
{
	const struct fabric_verbs_refusal *r = &v->dial.refusal;

	return v->base.opts.secret && !v->challenged && r->magic == FABRIC_VERBS_REFUSAL_MAGIC &&
	       !r->error;
}

/* Connects again, with the proof. */
static void answer_challenge(struct fabric_verbs *v, uint64_t now_ns)
{
	memcpy(v->request.cookie, v->dial.refusal.cookie, sizeof(v->request.cookie));
	v->challenged = true;
	fabric_verbs_tear_down(v);
	if (fabric_dial_start(&v->dial, now_ns))
		give_up(v, now_ns, v->dial.error);
}

static void handle_refusal(struct fabric_verbs *v, uint64_t now_ns)
{
	const char *why = fabric_gate_why(&v->dial.refusal);

	if (is_challenge(v)) {
		answer_challenge(v, now_ns);
		return;
	}
	give_up(v, now_ns, why ?: v->dial.error);
}

/* Creates a queue pair for the resolved route. Returns NULL, or the failed call with errno set. */
static const char *make_queue(struct fabric_verbs *v, uint8_t *reads)
{
	struct ibv_context *verbs = v->dial.id->verbs;
	struct ibv_device_attr device;
	struct ibv_port_attr port;

	if (ibv_query_device(verbs, &device))
		return "ibv_query_device";
	if (ibv_query_port(verbs, v->dial.id->port_num, &port))
		return "ibv_query_port";
	v->limits.bytes = port.max_msg_sz;
	v->depth = BASE_MIN(v->base.opts.queue_depth, (uint32_t)device.max_qp_wr);
	/* a long queue is refilled before it runs empty */
	v->signal_every = v->depth >= 8 ? v->depth / 4 : 1;
	/* As many READs in flight as the device supports; 255 means "any" to librdmacm. */
	*reads = (uint8_t)BASE_MIN(device.max_qp_init_rd_atom, UINT8_MAX - 1);

	v->pd = ibv_alloc_pd(verbs);
	if (!v->pd)
		return "ibv_alloc_pd";
	v->cq = ibv_create_cq(verbs, (int)v->depth, NULL, NULL, 0);
	if (!v->cq)
		return "ibv_create_cq";
	/* Not every queue pair supports the device's max_sge. */
	for (v->limits.areas = FABRIC_MERGE_AREAS_MAX; v->limits.areas; v->limits.areas /= 2) {
		struct ibv_qp_init_attr attr = {
			.send_cq = v->cq,
			.recv_cq = v->cq,
			.qp_type = IBV_QPT_RC,
			.cap =
				{
					.max_send_wr = v->depth,
					.max_recv_wr = 1,
					.max_send_sge = v->limits.areas,
					.max_recv_sge = 1,
				},
		};

		if ((int)v->limits.areas <= device.max_sge &&
		    !rdma_create_qp(v->dial.id, v->pd, &attr))
			return NULL;
	}
	return "rdma_create_qp";
}

static void request_connection(struct fabric_verbs *v, uint64_t now_ns)
{
	struct fabric_verbs_proof *p = &v->request;
	uint8_t reads;
	const char *what = make_queue(v, &reads);

	p->magic = FABRIC_VERBS_REQUEST_MAGIC;
	p->version = FABRIC_VERBS_VERSION;
	p->flags = (v->base.opts.notify ? FABRIC_VERBS_NOTIFY : 0) |
		   (v->base.opts.secret ? FABRIC_VERBS_PROOF : 0);
	if (!what && v->base.opts.secret && !v->challenged &&
	    getrandom(p->nonce, sizeof(p->nonce), 0) != sizeof(p->nonce))
		what = "getrandom";
	if (what) {
		give_up_errno(v, now_ns, what);
		return;
	}
	if (v->challenged)
		fabric_auth_prove(v->base.opts.secret, v->base.opts.secret_bytes, p,
				  v->dial.id->qp->qp_num);
	v->generation++;
	if (fabric_dial_connect(&v->dial, p, reads))
		give_up(v, now_ns, v->dial.error);
}

static void handle_established(struct fabric_verbs *v, uint64_t now_ns,
			       const struct fabric_verbs_welcome *w)
{
	const struct fabric_host_hello *hello = &w->hello;

	if (!fabric_gate_hello_is_sound(hello)) {
		give_up(v, now_ns, "the peer is not a sidelight agent of this version");
		return;
	}
	if (v->base.opts.secret &&
	    !fabric_auth_welcome_fits(v->base.opts.secret, v->base.opts.secret_bytes, &v->request,
				      v->dial.id->qp->qp_num, w)) {
		give_up(v, now_ns,
			"the agent did not prove that it knows the secret: start it with "
			"--rdma-secret, too");
		return;
	}
	if (v->base.opts.notify && (!hello->board_addr || !hello->board_rkey)) {
		give_up(v, now_ns, "the agent does not accept verdicts");
		return;
	}
	v->board_addr = hello->board_addr;
	v->board_rkey = hello->board_rkey;
	/* Register only now: an unreachable host then costs no registration per attempt. */
	v->mr = ibv_reg_mr(v->pd, v->base.buffer, v->base.opts.buffer_bytes + FABRIC_BUFFER_TAIL,
			   IBV_ACCESS_LOCAL_WRITE);
	if (!v->mr) {
		give_up_errno(v, now_ns, "registering the memory for READs (ulimit -l?)");
		return;
	}
	fabric_went_up(&v->base, &(struct fabric_remote){
					 .addr = hello->directory_addr,
					 .length = hello->directory_length,
					 .rkey = hello->directory_rkey,
				 });
}

void fabric_verbs_start(struct fabric_verbs *v, uint64_t now_ns)
{
	v->base.state = FABRIC_CONNECTING;
	v->challenged = false;
	memset(&v->request, 0, sizeof(v->request));
	v->dial.device = v->device;
	v->dial.gid_index = v->base.opts.gid_index;
	v->dial.ib_port = v->base.opts.ib_port;
	v->dial.timeout_ms = v->base.opts.connect_timeout_ms;
	if (fabric_dial_start(&v->dial, now_ns))
		give_up(v, now_ns, v->dial.error);
}

void fabric_verbs_events(struct fabric_verbs *v, uint64_t now_ns)
{
	struct fabric_verbs_welcome w;

	switch (fabric_dial_drive(&v->dial, now_ns, &w, sizeof(w))) {
	case FABRIC_DIAL_ROUTED:
		request_connection(v, now_ns);
		break;
	case FABRIC_DIAL_ESTABLISHED:
		handle_established(v, now_ns, &w);
		break;
	case FABRIC_DIAL_FAILED:
		handle_refusal(v, now_ns);
		break;
	case FABRIC_DIAL_NOTHING:
		break;
	}
}
