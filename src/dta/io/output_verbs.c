// SPDX-License-Identifier: Apache-2.0
/*
 * output_verbs.c - the output on an RDMA device: RC WRITE, WRITE with immediate, FETCH_ADD.
 *
 * Operations are numbered consecutively. Operations [head, tail) are in a ring; of these, [head,
 * posted) are in the send queue. A send queue completes in order, and an unsignalled request
 * generates a completion only on failure (ibv_post_send(3)), so one signalled request per chain
 * confirms all requests before it. Data stays in registered memory until then, because WRITEs are
 * posted again after a lost connection.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dta/io/output_rdma.h"

#if HAVE_VERBS
#include <stdlib.h>
#include <sys/mman.h>

#include "base/base.h"
#include "fabric/dial.h"
#include "fabric/host.h"

#define DEPTH_DEFAULT  1024u
#define DEPTH_MAX      32768u
#define TIMEOUT_MS     2000u
#define DATA_BYTES     (8u << 20) /* several times DTA_OUTPUT_WRITE_MAX */
#define CHAIN	       64u	  /* requests per doorbell */
#define COMPLETIONS    32
#define INLINE_WANTED  256u
#define BACKOFF_MIN_NS 50000000ull
#define BACKOFF_MAX_NS 1000000000ull
#define SILENCE_NS     5000000000ull /* longer than the device's own retries */

struct op {
	enum ibv_wr_opcode opcode;
	uint32_t rkey, bytes, immediate;
	uint64_t addr, add;
	uint64_t data; /* position of the operation's data in the buffer */
	bool gone;     /* already counted; skip it */
};

struct output_verbs_out {
	struct dta_output o;
	struct fabric_dial dial;
	enum dta_output_state state;
	struct fabric_verbs_request request;
	uint64_t instance, retry_ns, backoff_ns, progress_ns;

	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint32_t generation; /* generation of the queue pair; upper half of its wr_ids */
	uint32_t depth_wanted, depth, inline_most;
	bool broken;

	uint64_t head, posted, tail;
	uint32_t mask;
	struct op *ops;
	uint8_t *data;
	uint64_t data_head, data_tail; /* running positions, modulo DATA_BYTES */
};

static struct output_verbs_out *verbs_of(struct dta_output *o)
{
	return (struct output_verbs_out *)o;
}

static struct op *op_at(const struct output_verbs_out *v, uint64_t n)
{
	return &v->ops[n & v->mask];
}

/* ---- the ring ---- */

/* Returns the room needed for an operation's data. A FETCH_ADD returns the old value there. */
static uint64_t room_of(uint32_t bytes)
{
	return (bytes + 7u) & ~7ull;
}

/* Removes the oldest operation. */
static void retire_oldest(struct output_verbs_out *v)
{
	struct op *op = op_at(v, v->head++);

	v->data_head = op->data + room_of(op->bytes);
	if (op->gone)
		return;
	v->o.stats.completed++;
	v->o.outstanding--;
}

static void abandon_op(struct output_verbs_out *v, struct op *op, uint64_t *counter)
{
	op->gone = true;
	(*counter)++;
	v->o.outstanding--;
}

/*
 * Called after a lost connection. WRITEs are posted again; FETCH_ADDs already sent are not, because
 * they may have been executed. refused: the operation that the peer refused, or NULL; all other
 * operations with the same rkey fail as well.
 */
static void requeue_pending(struct output_verbs_out *v, const struct op *refused)
{
	uint32_t rkey = refused ? refused->rkey : 0;

	for (uint64_t n = v->head; n < v->tail; n++) {
		struct op *op = op_at(v, n);

		if (op->gone)
			continue;
		if (refused && op->rkey == rkey)
			abandon_op(v, op, &v->o.stats.failed);
		else if (n < v->posted && op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			abandon_op(v, op, &v->o.stats.unconfirmed);
		else
			v->o.stats.again += n < v->posted;
	}
	v->posted = v->head;
}

/* ---- connecting and disconnecting ---- */

static void tear_down(struct output_verbs_out *v)
{
	fabric_dial_end(&v->dial, &v->cq, &v->mr, &v->pd);
	v->broken = false;
}

static void go_down(struct output_verbs_out *v, uint64_t now_ns, const struct op *refused)
{
	if (v->state == DTA_OUTPUT_UP)
		v->o.stats.disconnects++;
	v->state = DTA_OUTPUT_DOWN;
	tear_down(v);
	requeue_pending(v, refused);
	v->retry_ns = now_ns + v->backoff_ns;
	v->backoff_ns = v->backoff_ns * 2 > BACKOFF_MAX_NS ? BACKOFF_MAX_NS : v->backoff_ns * 2;
}

static void fail_with_errno(struct output_verbs_out *v, uint64_t now_ns, const char *what)
{
	DTA_OUTPUT_FAILED(&v->o, "%s: %s: %s", v->dial.host, what, strerror(errno));
	go_down(v, now_ns, NULL);
}

/* Creates a queue pair and connects, once the route is resolved. */
static void connect_queue(struct output_verbs_out *v, uint64_t now_ns)
{
	struct ibv_device_attr device;
	uint32_t reads;

	if (ibv_query_device(v->dial.id->verbs, &device)) {
		fail_with_errno(v, now_ns, "ibv_query_device");
		return;
	}
	v->depth = v->depth_wanted < (uint32_t)device.max_qp_wr ? v->depth_wanted
								: (uint32_t)device.max_qp_wr;
	v->pd = ibv_alloc_pd(v->dial.id->verbs);
	if (v->pd)
		v->mr = ibv_reg_mr(v->pd, v->data, DATA_BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (!v->mr) {
		fail_with_errno(v, now_ns, "registering memory (ulimit -l?)");
		return;
	}
	v->cq = ibv_create_cq(v->dial.id->verbs, (int)v->depth, NULL, NULL, 0);
	if (!v->cq) {
		fail_with_errno(v, now_ns, "ibv_create_cq");
		return;
	}
	for (v->inline_most = INLINE_WANTED;; v->inline_most /= 2) {
		struct ibv_qp_init_attr attr = {
			.send_cq = v->cq,
			.recv_cq = v->cq,
			.qp_type = IBV_QPT_RC,
			.cap =
				{
					.max_send_wr = v->depth,
					.max_recv_wr = 1,
					.max_send_sge = 1,
					.max_recv_sge = 1,
					.max_inline_data = v->inline_most,
				},
		};

		if (!rdma_create_qp(v->dial.id, v->pd, &attr))
			break;
		if (!v->inline_most) {
			fail_with_errno(v, now_ns, "rdma_create_qp");
			return;
		}
	}
	v->generation++;
	reads = (uint32_t)device.max_qp_init_rd_atom;
	/* librdmacm takes 255 as "maximum". The peer may reduce the number. */
	if (fabric_dial_connect(&v->dial, &v->request, reads > 254 ? 254 : (uint8_t)reads)) {
		DTA_OUTPUT_FAILED(&v->o, "%s: %s", v->dial.host, v->dial.error);
		go_down(v, now_ns, NULL);
	}
}

static void note_established(struct output_verbs_out *v, uint64_t now_ns,
			     const struct fabric_host_hello *hello)
{
	if (hello->magic != FABRIC_VERBS_HELLO_MAGIC || hello->version != FABRIC_VERBS_VERSION ||
	    hello->agent_instance != v->instance) {
		DTA_OUTPUT_FAILED(&v->o, "%s: this is not the store server that owns these stores",
				  v->dial.host);
		go_down(v, now_ns, NULL);
		return;
	}
	v->state = DTA_OUTPUT_UP;
	v->o.stats.connects++;
	v->backoff_ns = BACKOFF_MIN_NS;
	v->progress_ns = now_ns;
}

static void drive_connection(struct output_verbs_out *v, uint64_t now_ns)
{
	enum fabric_dial_event e = FABRIC_DIAL_NOTHING;
	struct fabric_host_hello hello;

	if (v->state == DTA_OUTPUT_DOWN) {
		if (now_ns < v->retry_ns)
			return;
		v->state = DTA_OUTPUT_CONNECTING;
		e = fabric_dial_start(&v->dial, now_ns);
	}
	if (e == FABRIC_DIAL_NOTHING)
		e = fabric_dial_drive(&v->dial, now_ns, &hello, sizeof(hello));
	if (e == FABRIC_DIAL_ROUTED) {
		connect_queue(v, now_ns);
	} else if (e == FABRIC_DIAL_ESTABLISHED) {
		note_established(v, now_ns, &hello);
	} else if (e == FABRIC_DIAL_FAILED) {
		DTA_OUTPUT_FAILED(&v->o, "%s: %s", v->dial.host, v->dial.error);
		go_down(v, now_ns, NULL);
	}
}

/* ---- operations ---- */

/* Allocates an operation and its data. Returns NULL and sets *err on failure. */
static struct op *allocate_op(struct output_verbs_out *v, const struct dta_object *to,
			      uint64_t offset, uint32_t bytes, int *err)
{
	uint64_t room = room_of(bytes), at = v->data_tail, rest = DATA_BYTES - at % DATA_BYTES;
	struct op *op;

	*err = -ERANGE;
	if (offset > to->bytes || bytes > to->bytes - offset)
		return NULL;
	*err = -ENOTCONN;
	if (v->state != DTA_OUTPUT_UP)
		return NULL;
	*err = -EMSGSIZE;
	if (bytes > DTA_OUTPUT_WRITE_MAX)
		return NULL;
	if (room > rest) /* an operation's data never wraps */
		at += rest;
	*err = -EAGAIN;
	if (v->tail - v->head > v->mask || at + room - v->data_head > DATA_BYTES)
		return NULL;
	op = op_at(v, v->tail++);
	*op = (struct op){.addr = to->addr + offset, .rkey = to->rkey, .bytes = bytes, .data = at};
	v->data_tail = at + room;
	v->o.stats.bytes += bytes;
	v->o.outstanding++;
	*err = 0;
	return op;
}

static int verbs_write(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		       const void *data, uint32_t bytes, const uint32_t *immediate)
{
	struct output_verbs_out *v = verbs_of(o);
	int err;
	struct op *op = allocate_op(v, to, offset, bytes, &err);

	if (!op)
		return err;
	op->opcode = immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	op->immediate = immediate ? *immediate : 0;
	memcpy(v->data + op->data % DATA_BYTES, data, bytes);
	v->o.stats.writes++;
	v->o.stats.immediates += immediate != NULL;
	return 0;
}

static int verbs_add(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		     uint64_t addend)
{
	struct output_verbs_out *v = verbs_of(o);
	int err = -ERANGE;
	struct op *op = offset & 7 ? NULL : allocate_op(v, to, offset, 8, &err);

	if (!op)
		return err;
	op->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	op->add = addend;
	v->o.stats.adds++;
	return 0;
}

/* ---- posting and completing ---- */

static void request_of(struct output_verbs_out *v, uint64_t n, struct ibv_send_wr *wr,
		       struct ibv_sge *sge)
{
	const struct op *op = op_at(v, n);

	*sge = (struct ibv_sge){
		.addr = (uintptr_t)(v->data + op->data % DATA_BYTES),
		.length = op->bytes,
		.lkey = v->mr->lkey,
	};
	*wr = (struct ibv_send_wr){
		.wr_id = (uint64_t)v->generation << 32 | (uint32_t)n,
		.sg_list = sge,
		.num_sge = op->bytes ? 1 : 0,
		.opcode = op->opcode,
	};
	if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = op->addr;
		wr->wr.atomic.rkey = op->rkey;
		wr->wr.atomic.compare_add = op->add;
		return;
	}
	wr->wr.rdma.remote_addr = op->addr;
	wr->wr.rdma.rkey = op->rkey;
	if (op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		wr->imm_data = __builtin_bswap32(op->immediate);
	if (op->bytes <= v->inline_most)
		wr->send_flags = IBV_SEND_INLINE;
}

/* Posts chains of requests, each with one doorbell and one signalled completion. */
static void post_chains(struct output_verbs_out *v, uint64_t now_ns)
{
	struct ibv_send_wr wr[CHAIN], *bad;
	struct ibv_sge sge[CHAIN];
	/* Chains of a quarter of the queue keep the queue from running empty. */
	uint32_t most = v->depth / 4 < CHAIN ? v->depth / 4 + 1 : CHAIN;

	while (!v->broken && v->posted < v->tail) {
		uint64_t n = v->posted, end = n;
		unsigned count = 0;
		int err;

		for (; n < v->tail && count < most && n - v->head < v->depth; n++) {
			if (op_at(v, n)->gone)
				continue;
			request_of(v, n, &wr[count], &sge[count]);
			wr[count].next = NULL;
			if (count)
				wr[count - 1].next = &wr[count];
			count++;
			end = n + 1;
		}
		if (!count) { /* the queue is full, or only operations to be skipped are left */
			if (v->head == v->posted)
				for (v->posted = n; v->head < n;)
					retire_oldest(v);
			return;
		}
		wr[count - 1].send_flags |= IBV_SEND_SIGNALED;
		if (v->posted == v->head)
			v->progress_ns = now_ns;
		err = ibv_post_send(v->dial.id->qp, wr, &bad);
		if (err) {
			/*
			 * Requests that were accepted before the failure are flushed with the queue
			 * pair, so all count as posted.
			 */
			DTA_OUTPUT_FAILED(&v->o, "%s: ibv_post_send: %s", v->dial.host,
					  strerror(err));
			v->broken = true;
		}
		v->posted = end;
	}
}

/* Whether the peer refused the operation, as opposed to losing it in transit. */
static bool is_refusal(enum ibv_wc_status s)
{
	return s == IBV_WC_REM_ACCESS_ERR || s == IBV_WC_REM_INV_REQ_ERR || s == IBV_WC_REM_OP_ERR;
}

/* Processes a completion. Returns false if the connection is lost. */
static bool handle_completion(struct output_verbs_out *v, const struct ibv_wc *wc, uint64_t now_ns)
{
	uint32_t ahead = (uint32_t)wc->wr_id - (uint32_t)v->head;

	if (wc->wr_id >> 32 != v->generation || ahead >= v->posted - v->head) {
		DTA_OUTPUT_FAILED(&v->o,
				  "%s: received a completion for which no operation is "
				  "outstanding",
				  v->dial.host);
		go_down(v, now_ns, NULL);
		return false;
	}
	for (; ahead; ahead--)
		retire_oldest(v);
	if (wc->status != IBV_WC_SUCCESS) {
		DTA_OUTPUT_FAILED(&v->o, "%s: %s", v->dial.host, ibv_wc_status_str(wc->status));
		if (is_refusal(wc->status))
			v->o.stats.naks++;
		go_down(v, now_ns, is_refusal(wc->status) ? op_at(v, v->head) : NULL);
		return false;
	}
	retire_oldest(v);
	v->progress_ns = now_ns;
	return true;
}

static void poll_completions(struct output_verbs_out *v, uint64_t now_ns)
{
	struct ibv_wc wc[COMPLETIONS];
	int count;

	do {
		count = ibv_poll_cq(v->cq, COMPLETIONS, wc);
		for (int i = 0; i < count; i++)
			if (!handle_completion(v, &wc[i], now_ns))
				return;
	} while (count == COMPLETIONS);
	if (count < 0 || v->broken) {
		go_down(v, now_ns, NULL);
	} else if (v->head < v->posted && now_ns > v->progress_ns + SILENCE_NS) {
		DTA_OUTPUT_FAILED(&v->o, "%s: no operation completed for %llu s", v->dial.host,
				  SILENCE_NS / 1000000000);
		go_down(v, now_ns, NULL);
	}
}

static void verbs_flush(struct dta_output *o)
{
	if (verbs_of(o)->state == DTA_OUTPUT_UP)
		post_chains(verbs_of(o), base_now_ns());
}

static enum dta_output_state verbs_drive(struct dta_output *o, uint64_t now_ns)
{
	struct output_verbs_out *v = verbs_of(o);

	if (v->state == DTA_OUTPUT_UP)
		poll_completions(v, now_ns);
	drive_connection(v, now_ns);
	if (v->state == DTA_OUTPUT_UP)
		post_chains(v, now_ns);
	return v->state;
}

/* ---- the rest ---- */

static void verbs_close(struct dta_output *o)
{
	struct output_verbs_out *v = verbs_of(o);

	tear_down(v);
	fabric_dial_free(&v->dial);
	if (v->data)
		munmap(v->data, DATA_BYTES);
	free(v->ops);
	free(v);
}

struct dta_output *dta_output_verbs(const struct dta_output_verbs_opts *opts, char *error,
				    size_t error_bytes)
{
	static const struct dta_output_ops ops = {
		.write = verbs_write,
		.add = verbs_add,
		.flush = verbs_flush,
		.drive = verbs_drive,
		.close = verbs_close,
	};
	struct output_verbs_out *v;

	if (!opts->host || strlen(opts->host) >= sizeof(v->dial.host) || !opts->name ||
	    !*opts->name || strlen(opts->name) >= FABRIC_HOST_NAME_MAX || opts->depth > DEPTH_MAX) {
		snprintf(error, error_bytes,
			 "verbs output: specify a host, a name of at most %u characters, and a "
			 "depth of at most %u",
			 FABRIC_HOST_NAME_MAX - 1, DEPTH_MAX);
		return NULL;
	}
	if (fabric_rdma_find(opts->device, error, error_bytes))
		return NULL;
	v = calloc(1, sizeof(*v));
	if (!v)
		goto err_memory;
	v->o.ops = &ops;
	v->depth_wanted = opts->depth ? opts->depth : DEPTH_DEFAULT;
	for (v->mask = 1; v->mask < 2 * v->depth_wanted; v->mask *= 2)
		;
	v->ops = calloc(v->mask, sizeof(*v->ops));
	v->mask--;
	v->data = mmap(NULL, DATA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	if (v->data == MAP_FAILED)
		v->data = NULL;
	if (!v->ops || !v->data) {
		verbs_close(&v->o);
		goto err_memory;
	}
	v->instance = opts->instance;
	v->request = (struct fabric_verbs_request){
		.magic = FABRIC_VERBS_REQUEST_MAGIC,
		.version = FABRIC_VERBS_VERSION,
		.flags = FABRIC_VERBS_STORE,
		.instance = opts->instance,
	};
	strcpy(v->request.name, opts->name);
	strcpy(v->dial.host, opts->host);
	snprintf(v->dial.service, sizeof(v->dial.service), "%u",
		 opts->port ? opts->port : DTA_VERBS_PORT);
	v->dial.device = opts->device;
	v->dial.gid_index = opts->gid_index;
	v->dial.ib_port = opts->ib_port ? opts->ib_port : 1;
	v->dial.timeout_ms = TIMEOUT_MS;
	v->backoff_ns = BACKOFF_MIN_NS;
	return &v->o;

err_memory:
	snprintf(error, error_bytes, "out of memory");
	return NULL;
}

#else /* built without RDMA */

struct dta_output *dta_output_verbs(const struct dta_output_verbs_opts *opts, char *error,
				    size_t error_bytes)
{
	(void)opts;
	snprintf(error, error_bytes,
		 "this sidelight was built without RDMA (libibverbs, librdmacm)");
	return NULL;
}
#endif
