// SPDX-License-Identifier: Apache-2.0
/*
 * verbs.c - the provider for hosts with RDMA: the active side of a reliable connection, which
 * either READs or notifies.
 *
 * The send queue of a reliable connection completes in order of posting, and a successful request
 * without IBV_SEND_SIGNALED produces no completion (ibv_post_send(3), ibv_create_qp(3) on
 * sq_sig_all). So requests form a queue; a completion reports the success of all requests before
 * its own, and the result of its own. A failure always produces a completion. A completion must
 * carry the number of this connection and of an outstanding request: any other is counted and
 * closes the connection, and is never taken for data.
 *
 * After the first failure a queue pair is unusable (IBTA 10.3.1): it is destroyed, outstanding
 * READs fail, and a new connection is made after a back-off. The landing memory may be reused only
 * after the queue pair is destroyed, hence this order.
 */
#include <errno.h>
#include <string.h>

#include "fabric/gate.h"
#include "fabric/provider.h"

/* A relative path with a slash is a mistake, not a host. */
static bool verbs_takes(const char *target)
{
	return target[0] != '\0' && !strchr(target, '/');
}

#if HAVE_VERBS
#include <stdlib.h>

#include <sidelight/attach.h>

#include "base/base.h"
#include "fabric/verbs.h"

#define COMPLETIONS_PER_POLL 32
#define NOTICE_TIMEOUT_NS    1000000000u

_Static_assert(FABRIC_MERGE_GAP_MAX <= FABRIC_BUFFER_TAIL, "the sink");

/* ---- reading ---- */

/* Fills in the work request at this position of the chain. */
static void write_request(struct fabric_verbs *v, uint32_t place, const struct fabric_merged *m)
{
	struct ibv_sge *sge = &v->sge[place * FABRIC_MERGE_AREAS_MAX];

	for (uint32_t i = 0; i < m->areas; i++)
		sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)m->area[i].iov_base,
			.length = (uint32_t)m->area[i].iov_len,
			.lkey = v->mr->lkey,
		};
	v->chain[place] = (struct ibv_send_wr){
		.wr_id = (uint64_t)v->generation << 32 | v->base.tail,
		.sg_list = sge,
		.num_sge = (int)m->areas,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = v->base.tail % v->signal_every ? 0 : IBV_SEND_SIGNALED,
		.wr.rdma.remote_addr = m->addr,
		.wr.rdma.rkey = m->rkey,
	};
	if (place)
		v->chain[place - 1].next = &v->chain[place];
}

static uint32_t verbs_post(struct fabric *f, struct fabric_read *reads, uint32_t count)
{
	struct fabric_verbs *v = fabric_verbs_of(f);
	struct ibv_send_wr *bad = NULL;
	uint64_t now = base_now_ns();
	uint32_t n = 0, taken = 0, posted;
	struct fabric_merged m;
	int err;

	if (v->broken)
		return 0;
	while (taken < count && f->tail - f->head < v->depth &&
	       reads[taken].length <= v->limits.bytes) {
		fabric_merge(&m, &v->limits, reads + taken, count - taken);
		write_request(v, n++, &m);
		f->requests[f->tail++ & f->mask] = (struct fabric_request){
			.first = &reads[taken], .reads = m.reads, .posted_ns = now};
		taken += m.reads;
	}
	if (!n) {
		if (taken < count && reads->length > v->limits.bytes) {
			fabric_finish(f, reads, -ERANGE);
			return 1;
		}
		return 0;
	}
	v->chain[n - 1].send_flags |= IBV_SEND_SIGNALED;
	err = ibv_post_send(v->dial.id->qp, v->chain, &bad);
	f->stats.doorbells++;
	f->stats.work_requests += n;
	if (!err)
		return taken;

	/* The requests before bad were posted; the next drive or poll closes the connection. */
	fabric_failed(f, "%s: ibv_post_send: %s", f->target, strerror(err));
	v->broken = true;
	posted = bad ? (uint32_t)(bad - v->chain) : 0;
	f->stats.work_requests -= n - posted;
	taken = 0;
	for (uint32_t i = 0; i < posted; i++)
		taken += f->requests[(f->tail - n + i) & f->mask].reads;
	f->tail -= n - posted;
	return taken;
}

/*
 * A WRITE with immediate data: the data is in place before the host receives the notice (IBTA
 * 9.4.2), and the host's receives limit the notices in flight. The line is in the buffer at its
 * request's slot; no READ uses the buffer of such a connection.
 */
static int verbs_notify(struct fabric *f, uint32_t entry, const struct sl_msg_verdict *verdict)
{
	struct fabric_verbs *v = fabric_verbs_of(f);
	struct sl_board_line *line = (struct sl_board_line *)f->buffer + (f->tail & f->mask);
	struct ibv_sge sge = {
		.addr = (uintptr_t)line, .length = sizeof(*line), .lkey = v->mr->lkey};
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = (uint64_t)v->generation << 32 | f->tail,
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
	if (f->tail - f->head == v->depth)
		return -EAGAIN;
	memcpy(cell, verdict, sizeof(*verdict));
	cell[7] = sl_line_check(cell);
	memcpy(line, cell, sizeof(*line));
	err = ibv_post_send(v->dial.id->qp, &wr, &bad);
	if (err) {
		fabric_failed(f, "%s: ibv_post_send: %s", f->target, strerror(err));
		v->broken = true;
		return -ENOTCONN;
	}
	f->requests[f->tail++ & f->mask] = (struct fabric_request){.posted_ns = base_now_ns()};
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

/* Returns false if the connection must be closed. */
static bool finish_requests(struct fabric_verbs *v, const struct ibv_wc *wc)
{
	struct fabric *f = &v->base;
	uint32_t number = (uint32_t)wc->wr_id;
	int status = status_of(wc->status);

	if (wc->wr_id >> 32 != v->generation || number - f->head >= f->tail - f->head) {
		f->stats.wrong_id++;
		fabric_failed(f, "%s: received a completion for which no request is outstanding",
			      f->target);
		return false;
	}
	while (f->head != number)
		fabric_finish_oldest(f, 0);
	if (status && !f->requests[number & f->mask].reads) {
		fabric_failed(f, "%s: WRITE of a verdict failed: %s", f->target,
			      ibv_wc_status_str(wc->status));
	} else if (status) {
		const struct fabric_request *r = &f->requests[number & f->mask];
		const struct fabric_read *first = r->first;

		fabric_failed(f,
			      "%s: READ of region %llu at offset %llu failed (%u reads "
			      "merged): %s",
			      f->target, (unsigned long long)first->remote->id,
			      (unsigned long long)first->offset, r->reads,
			      ibv_wc_status_str(wc->status));
	}
	fabric_finish_oldest(f, status);
	return !status;
}

static void verbs_poll(struct fabric *f, uint64_t now_ns, uint64_t timeout_ns)
{
	struct fabric_verbs *v = fabric_verbs_of(f);
	struct ibv_wc wc[COMPLETIONS_PER_POLL];
	int count;

	if (!v->cq)
		return;
	do {
		count = ibv_poll_cq(v->cq, COMPLETIONS_PER_POLL, wc);
		for (int i = 0; i < count; i++) {
			if (!finish_requests(v, &wc[i])) {
				fabric_verbs_reset(v, now_ns, timeout_ns);
				return;
			}
		}
	} while (count == COMPLETIONS_PER_POLL);
	if (count < 0 || v->broken) {
		if (count < 0)
			fabric_failed(f, "%s: ibv_poll_cq failed", f->target);
		fabric_verbs_reset(v, now_ns, timeout_ns);
		return;
	}
	if (fabric_got_no_answer(f, now_ns, timeout_ns))
		fabric_verbs_reset(v, now_ns, timeout_ns);
}

/* ---- connection ---- */

static void verbs_drive(struct fabric *f, uint64_t now_ns)
{
	struct fabric_verbs *v = fabric_verbs_of(f);

	if (f->state == FABRIC_DOWN) {
		if (now_ns >= f->retry_ns)
			fabric_verbs_start(v, now_ns);
		return;
	}
	if (v->broken) {
		fabric_verbs_reset(v, now_ns, 0);
		return;
	}
	if (f->opts.notify) { /* no caller waits for these completions */
		verbs_poll(f, now_ns, NOTICE_TIMEOUT_NS);
		if (f->state != FABRIC_UP && !v->dial.id)
			return;
	}
	fabric_verbs_events(v, now_ns);
}

/* ---- opening ---- */

static void verbs_fini(struct fabric *f)
{
	struct fabric_verbs *v = fabric_verbs_of(f);

	fabric_verbs_tear_down(v);
	fabric_dial_free(&v->dial);
	free(v->sge);
	free(v->chain);
	free(v->device);
}

static int verbs_init(struct fabric *f, const char *target)
{
	struct fabric_verbs *v = fabric_verbs_of(f);
	int err;

	if (!fabric_gate_split(target, v->dial.host, v->dial.service)) {
		fabric_failed(f, "'%s' is not HOST[:PORT]", target);
		return -EINVAL;
	}
	err = fabric_rdma_find(f->opts.device, f->stats.last_error, sizeof(f->stats.last_error));
	if (err)
		return err;
	v->device = f->opts.device ? strdup(f->opts.device) : NULL;
	f->opts.device = v->device;
	v->chain = calloc(f->opts.queue_depth, sizeof(*v->chain));
	v->sge = calloc((size_t)f->opts.queue_depth * FABRIC_MERGE_AREAS_MAX, sizeof(*v->sge));
	if (!v->chain || !v->sge || !fabric_make_requests(f, f->opts.queue_depth)) {
		verbs_fini(f);
		return -ENOMEM;
	}
	v->limits.sink = f->buffer + f->opts.buffer_bytes;
	return 0;
}

const struct fabric_ops fabric_provider_verbs = {
	.name = "verbs",
	.takes = verbs_takes,
	.bytes = sizeof(struct fabric_verbs),
	.open = verbs_init,
	.close = verbs_fini,
	.drive = verbs_drive,
	.first_addr = 1,
	.post = verbs_post,
	.poll = verbs_poll,
	.notify = verbs_notify,
};
#else
const struct fabric_ops fabric_provider_verbs = {
	.name = "verbs",
	.takes = verbs_takes,
	.absent = FABRIC_NO_VERBS,
};
#endif
