// SPDX-License-Identifier: Apache-2.0
/*
 * output_kernel.c - the queue pair of a receive queue, over which the translator in the kernel
 * sends. Here are its beginning, its end, and the answers to its frames.
 *
 * A frame that is lost stops the responder, which names the PSN that it waits for (IBTA 9.7.5.2.8).
 * The kernel keeps no frames, so it goes on with that PSN, as the switch of the original does; what
 * it sent from there on was not executed. If no answer tells, a WRITE of no bytes with an old PSN
 * asks: a responder answers a repetition with the newest PSN that it has executed (IBTA 9.7.5.1.4).
 */
#include "dta/io/kernel.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <sidelight/store.h>

#include "base/base.h"
#include "dta/io/output_raw.h"

#define PORT_FIRST 0xc000u
#define ASK_NS	   20000000ull	 /* without progress */
#define SILENT_NS  5000000000ull /* until it is given up */
#define BATCHES	   16u

struct kernel_store {
	struct kernel_store *next;
	struct sl_store_config config;
	struct dta_object object;
	uint64_t bank;
	uint32_t lane;
};

struct output_kernel {
	struct dta_output o;
	struct dta_kernel *kernel;
	struct dta_kernel_queue *queue;
	uint32_t number;
	struct dta_raw_port port;
	enum dta_output_state state;
	struct dta_roce_end ours, theirs;
	struct dta_roce_builder builder;
	bool ready;		  /* the session is */
	uint32_t acked, resynced; /* PSNs; resynced: where it went on last, or ~0 */
	uint32_t asked; /* the PSN to send next, when it was asked; asks: times since progress */
	uint32_t asks;
	uint64_t counted; /* frames of the queue that are in the statistics */
	struct {
		uint64_t frames, adds, bytes;
	} before; /* of earlier outputs */
	uint64_t progress_ns, asked_ns;
	struct kernel_store *stores;
	uint64_t limited[65536 / 64];
};

static struct output_kernel *of(struct dta_output *o)
{
	return (struct output_kernel *)o;
}

static uint32_t psn_of(const struct output_kernel *r)
{
	return __atomic_load_n(&r->queue->psn, __ATOMIC_ACQUIRE) & DTA_ROCE_24;
}

/* What the program has sent since is outstanding. */
static void count(struct output_kernel *r)
{
	const struct dta_kernel_queue *q = r->queue;
	const uint64_t frames = __atomic_load_n(&q->frames, __ATOMIC_ACQUIRE);

	r->o.outstanding += frames - r->counted;
	r->counted = frames;
	r->o.stats.adds = __atomic_load_n(&q->sent_adds, __ATOMIC_RELAXED) - r->before.adds;
	r->o.stats.writes = frames - r->before.frames - r->o.stats.adds;
	r->o.stats.bytes = __atomic_load_n(&q->bytes, __ATOMIC_RELAXED) - r->before.bytes;
}

/* Of the outstanding ones, n are settled as the counter says. */
static void settle(struct output_kernel *r, uint64_t n, uint64_t *as)
{
	n = n < r->o.outstanding ? n : r->o.outstanding;
	r->o.outstanding -= n;
	*as += n;
}

static void set_open(struct output_kernel *r)
{
	const uint32_t open = r->ready && r->state == DTA_OUTPUT_UP;

	if (__atomic_exchange_n(&r->queue->open, open, __ATOMIC_ACQ_REL) && !open)
		dta_kernel_settle();
	count(r);
}

static void go_down(struct output_kernel *r)
{
	const bool up = r->state == DTA_OUTPUT_UP;

	r->state = DTA_OUTPUT_DOWN;
	set_open(r);
	r->o.stats.disconnects += up;
	settle(r, r->o.outstanding, &r->o.stats.unconfirmed);
}

/* ---- connecting ---- */

static int kernel_ours(struct dta_output *o, struct dta_roce_end *ours)
{
	struct output_kernel *r = of(o);
	uint32_t random[2] = {0};
	int err;

	go_down(r);
	if (getrandom(random, sizeof(random), 0) < 0)
		random[0] = random[1] = (uint32_t)base_now_ns();
	r->ours = r->port.end;
	r->ours.qpn = 0x800000u | ((random[0] << KERNEL_QUEUE_BITS | r->number) & 0x7fffffu);
	r->ours.psn = random[1] & DTA_ROCE_24;
	err = dta_raw_port_listen(&r->port, &r->ours);
	if (err)
		DTA_OUTPUT_FAILED(&r->o, "packet socket: %s", strerror(-err));
	else
		r->state = DTA_OUTPUT_CONNECTING;
	*ours = r->ours;
	return err;
}

/* The constant parts of the program's frames. */
static void make_shapes(struct output_kernel *r)
{
	uint8_t frame[DTA_ROCE_AROUND + 8 * KERNEL_SHAPES], payload[8 * KERNEL_SHAPES] = {0};

	for (uint32_t i = 0; i < KERNEL_SHAPES; i++) {
		struct dta_kernel_shape *s = &r->queue->shape[i];
		const struct dta_roce_packet p = {
			.opcode = i ? DTA_ROCE_WRITE_ONLY : DTA_ROCE_FETCH_ADD,
			.payload = payload,
			.bytes = 8 * i,
		};

		s->bytes = (uint32_t)dta_roce_build(&r->builder, &p, frame);
		memcpy(s->head, frame, KERNEL_HEAD);
		s->crc = dta_roce_icrc_head(frame);
	}
}

static int kernel_connect(struct dta_output *o, const struct dta_roce_end *theirs)
{
	struct output_kernel *r = of(o);
	int err;

	if (r->state != DTA_OUTPUT_CONNECTING)
		return -EALREADY;
	err = dta_roce_builder(&r->builder, &r->ours, theirs,
			       (uint16_t)(PORT_FIRST | ((r->ours.qpn ^ theirs->qpn) & 0x3fff)));
	/* The program's headers are those of IPv4. */
	if (!err && r->builder.bth != 42)
		err = -EINVAL;
	if (err)
		return err;
	r->theirs = *theirs;
	make_shapes(r);
	r->acked = r->ours.psn;
	r->resynced = ~0u;
	r->asks = 0;
	r->progress_ns = r->asked_ns = 0;
	__atomic_store_n(&r->queue->psn, r->ours.psn, __ATOMIC_RELAXED);
	__atomic_store_n(&r->queue->acked, r->ours.psn, __ATOMIC_RELAXED);
	r->queue->qpn = r->ours.qpn;
	memcpy(&r->queue->peer, theirs->gid + 12, 4);
	r->queue->adds_max = theirs->atomics ? theirs->atomics : 1;
	r->state = DTA_OUTPUT_UP;
	r->o.stats.connects++;
	set_open(r);
	return 0;
}

static void kernel_session(struct dta_output *o, bool ready)
{
	struct output_kernel *r = of(o);

	if (r->ready == ready)
		return;
	r->ready = ready;
	/* The queue pair ends with the session. */
	if (ready)
		set_open(r);
	else
		go_down(r);
}

/* ---- stores ---- */

static bool is_limited(const struct output_kernel *r, uint16_t tenant)
{
	return r->limited[tenant / 64] >> tenant % 64 & 1;
}

static void give(struct output_kernel *r, const struct kernel_store *s, const uint64_t *next)
{
	const struct dta_output_store told = {&s->config, &s->object, s->bank, s->lane, next};

	dta_kernel_store(r->kernel, r->number, s->config.tenant, s->config.id,
			 is_limited(r, s->config.tenant) ? NULL : &told);
}

static struct kernel_store **find(struct output_kernel *r, uint16_t tenant, uint16_t number)
{
	struct kernel_store **at = &r->stores;

	while (*at && ((*at)->config.tenant != tenant || (*at)->config.id != number))
		at = &(*at)->next;
	return at;
}

static void kernel_store(struct dta_output *o, const struct dta_output_store *told)
{
	struct output_kernel *r = of(o);
	struct kernel_store **at = find(r, told->config->tenant, told->config->id), *s = *at;

	if (!s && !(s = *at = calloc(1, sizeof(*s))))
		return; /* then user space writes to it alone */
	s->config = *told->config;
	s->object = *told->object;
	s->bank = told->bank;
	s->lane = told->lane;
	give(r, s, told->next);
	/* A rotation is confirmed when what was sent before has settled: no frame may follow it. */
	if (r->queue->open)
		dta_kernel_settle();
	count(r);
}

static void kernel_forget(struct dta_output *o, uint16_t tenant, uint16_t number)
{
	struct output_kernel *r = of(o);
	struct kernel_store **at = find(r, tenant, number), *s = *at;

	dta_kernel_store(r->kernel, r->number, tenant, number, NULL);
	if (!s)
		return;
	*at = s->next;
	free(s);
}

static void kernel_tenant(struct dta_output *o, uint16_t tenant, bool limited)
{
	struct output_kernel *r = of(o);

	if (is_limited(r, tenant) == limited)
		return;
	r->limited[tenant / 64] ^= 1ull << tenant % 64;
	for (const struct kernel_store *s = r->stores; s; s = s->next)
		if (s->config.tenant == tenant)
			give(r, s, NULL);
}

/* ---- answers ---- */

/* What the program for answers, or we, have seen acknowledged. */
static void settle_acked(struct output_kernel *r, uint64_t now)
{
	const uint32_t acked = __atomic_load_n(&r->queue->acked, __ATOMIC_ACQUIRE);

	count(r);
	if (acked == r->acked)
		return;
	settle(r, (acked - r->acked) & DTA_ROCE_24, &r->o.stats.completed);
	r->acked = acked;
	r->progress_ns = now;
	r->asks = 0;
}

/* All frames before psn are executed. False: it does not lie ahead. */
static bool acknowledge(struct output_kernel *r, uint32_t psn, uint64_t now)
{
	uint32_t acked = __atomic_load_n(&r->queue->acked, __ATOMIC_ACQUIRE);

	do
		if (((psn - acked) & DTA_ROCE_24) > ((psn_of(r) - acked) & DTA_ROCE_24))
			return false;
	while (!__atomic_compare_exchange_n(&r->queue->acked, &acked, psn, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE));
	settle_acked(r, now);
	return true;
}

/* Goes on with the PSN that the responder waits for. */
static void go_on(struct output_kernel *r, uint64_t now)
{
	const uint32_t sent = __atomic_exchange_n(&r->queue->psn, r->acked, __ATOMIC_ACQ_REL);

	count(r);
	settle(r, (sent - r->acked) & DTA_ROCE_24, &r->o.stats.failed);
	r->resynced = r->acked;
	r->o.stats.resyncs++;
	r->progress_ns = now;
	r->asks = 0;
}

static void heed(struct output_kernel *r, const struct dta_roce_answer *a, uint64_t now)
{
	const uint32_t kind = a->syndrome & DTA_ROCE_SYNDROME_KIND;
	const uint32_t before = r->acked;

	if (kind == DTA_ROCE_SYNDROME_ACK) {
		/* The second answer in which nothing moved: the rest is lost. */
		if (acknowledge(r, (a->psn + 1) & DTA_ROCE_24, now) && r->acked == before &&
		    r->asks > 1 && ((a->psn + 1) & DTA_ROCE_24) == before && r->asked != before)
			go_on(r, now);
		return;
	}
	if (kind != DTA_ROCE_SYNDROME_NAK)
		return;
	if (a->syndrome != DTA_ROCE_NAK_SEQUENCE) {
		DTA_OUTPUT_FAILED(&r->o, "%#x:%u: the store server refused with NAK %#x",
				  r->theirs.qpn, a->psn, a->syndrome);
		go_down(r);
		return;
	}
	/* A repetition of the one before: the timer asks. */
	if (!acknowledge(r, a->psn, now) || (r->acked == before && r->resynced == before))
		return;
	go_on(r, now);
}

static bool take_answer(struct dta_output *o, const struct dta_roce_answer *a, uint64_t now)
{
	struct output_kernel *r = of(o);

	heed(r, a, now);
	return r->state == DTA_OUTPUT_UP;
}

static void ask(struct output_kernel *r, uint64_t now)
{
	const struct dta_roce_packet p = {.opcode = DTA_ROCE_WRITE_ONLY,
					  .psn = (r->acked - 1) & DTA_ROCE_24};
	uint8_t frame[DTA_ROCE_AROUND];
	struct dta_raw_frame f = {frame, dta_roce_build(&r->builder, &p, frame)};

	dta_roce_seal(&r->builder, frame, f.bytes, true);
	dta_raw_port_send(&r->port, &f, 1);
	r->asked_ns = now;
	r->asks++;
	r->o.stats.again++;
}

static enum dta_output_state kernel_drive(struct dta_output *o, uint64_t now)
{
	struct output_kernel *r = of(o);
	uint32_t psn;

	if (r->state != DTA_OUTPUT_UP)
		return r->state;
	settle_acked(r, now);
	dta_raw_answers(o, &r->port, &r->ours, &r->theirs, BATCHES, take_answer, now);
	psn = psn_of(r);
	if (r->state != DTA_OUTPUT_UP || psn == r->acked) {
		r->progress_ns = 0;
		r->asks = 0;
		return r->state;
	}
	if (!r->progress_ns)
		r->progress_ns = now;
	if (now - r->progress_ns < ASK_NS || now - r->asked_ns < ASK_NS)
		return r->state;
	if (now - r->progress_ns > SILENT_NS) {
		DTA_OUTPUT_FAILED(&r->o, "the store server did not answer");
		go_down(r);
		return r->state;
	}
	/* Frames of before the first question are out when the second is asked. */
	if (!r->asks)
		r->asked = psn;
	ask(r, now);
	return r->state;
}

/* ---- the rest ---- */

static int kernel_write(struct dta_output *o, const struct dta_object *to, uint64_t offset,
			const void *data, uint32_t bytes, const uint32_t *immediate)
{
	(void)o, (void)to, (void)offset, (void)data, (void)bytes, (void)immediate;
	return -ENOTCONN;
}

static int kernel_add(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		      uint64_t addend)
{
	(void)o, (void)to, (void)offset, (void)addend;
	return -ENOTCONN;
}

static void kernel_flush(struct dta_output *o)
{
	count(of(o));
}

static void kernel_close(struct dta_output *o)
{
	struct output_kernel *r = of(o);

	go_down(r);
	while (r->stores)
		kernel_forget(o, r->stores->config.tenant, r->stores->config.id);
	dta_raw_port_close(&r->port);
	free(r);
}

struct dta_output *dta_output_kernel(struct dta_kernel *k, uint32_t queue, char *error,
				     size_t error_bytes)
{
	static const struct dta_output_ops ops = {
		.write = kernel_write,
		.add = kernel_add,
		.flush = kernel_flush,
		.drive = kernel_drive,
		.close = kernel_close,
		.store = kernel_store,
		.forget = kernel_forget,
		.tenant = kernel_tenant,
		.session = kernel_session,
		.ours = kernel_ours,
		.connect = kernel_connect,
	};
	const struct dta_output_raw_opts by = {.interface = dta_kernel_interface(k)};
	struct output_kernel *r = calloc(1, sizeof(*r));
	int err;

	if (!r) {
		snprintf(error, error_bytes, "out of memory");
		return NULL;
	}
	r->o.ops = &ops;
	r->kernel = k;
	r->number = queue;
	r->queue = dta_kernel_queue(k, queue);
	r->queue->interface = if_nametoindex(by.interface);
	r->counted = r->before.frames = r->queue->frames;
	r->before.adds = r->queue->sent_adds;
	r->before.bytes = r->queue->bytes;
	err = dta_raw_port_open(&r->port, &by, error, error_bytes);
	if (!err)
		return &r->o;
	free(r);
	errno = -err;
	return NULL;
}
