// SPDX-License-Identifier: Apache-2.0
/*
 * net_ring.c - reads a host's ring of TCP segments at a pace of its own beside the rounds: the hot
 * line, then the records that are new. A pass ends at a record that is being written; what was
 * overwritten shows as a number that is missing.
 */
#include "collect/kernel/segment_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define PERIOD_NS      100000000u /* of a ring of 65,536: 650,000 segments a second */
#define RECORDS_A_READ 512u	  /* 64 KiB */
#define RECORDS_A_PASS 32768u
#define READS_OUT      8u	   /* at once: most of the landing memory is the rounds' */
#define HOT_MAX_NS     5000000000u /* a hot line that does not settle for so long never will */

/* In place of a record's number. */
#define MISSED UINT64_MAX

struct net_ring {
	struct region_nic_info info;
	enum { RING_IDLE, RING_HOT, RING_BODY } phase;
	bool first, failed, hot_asked;
	uint64_t next; /* number of the record to be read next */
	uint64_t due_ns, hot_ok_ns, begun_ns;
	uint32_t ops, want, asked,
		upto; /* of this pass: records; upto: before one that comes yet */
	uint64_t head;
	struct collect_net_batch *batch;
};

static void batch_drop(struct net_ring *t, struct collect_collector *c)
{
	if (t->batch)
		relaxed_sub(c->memory, t->batch->bytes);
	free(t->batch);
	t->batch = NULL;
}

void collect_net_ring_free(struct net_ring *t, struct collect_collector *c)
{
	if (!t)
		return;
	batch_drop(t, c);
	relaxed_sub(c->memory, sizeof(*t));
	free(t);
}

static struct collect_net_batch *batch_new(struct collect_link *l, const struct net_ring *t,
					   uint32_t room)
{
	size_t bytes = sizeof(struct collect_net_batch) + room * sizeof(struct region_nic_record);
	struct collect_net_batch *b = malloc(bytes);

	if (!b)
		return NULL;
	memset(b, 0, sizeof(*b));
	b->bytes = bytes;
	b->host = (size_t)(l->host - l->c->host);
	b->begun_ns = t->begun_ns;
	memcpy(b->boot_id, t->info.boot_id, sizeof(b->boot_id));
	relaxed_add(l->c->memory, bytes);
	return b;
}

/* ---- coming and going ---- */

void collect_net_gone(struct collect_link *l, struct collect_region *r)
{
	struct collect_net_batch *b;

	if (l->net != r)
		return;
	l->net = NULL;
	b = batch_new(l, r->net, 0);
	if (!b)
		return; /* it only looks stale, then */
	b->gone = true;
	collect_pair_latency_push(l->c->nets, b);
}

void collect_net_found(struct collect_link *l, struct collect_region *r,
		       const struct sl_region_header *copy, uint64_t now_ns)
{
	struct region_nic_info info;
	enum region_fault fault;

	if (l->net == r) {
		r->net->hot_ok_ns = now_ns;
		return; /* after a reconnect */
	}
	if (l->net && l->net->step == STEP_BOUND) {
		base_log_limited(BASE_WARN, "collect",
				 "a second ring of segments is not read host=%s: stop one of them",
				 l->host->target);
		return;
	}
	fault = region_nic_info_parse(copy, r->remote.length, &info);
	if (fault) {
		collect_region_drop(l, r, fault, now_ns);
		return;
	}
	/* That of an agent that is gone: it would only be waited for. */
	if (l->net)
		collect_table_remove(l, l->net);
	if (!r->net) {
		r->net = calloc(1, sizeof(*r->net));
		if (!r->net) {
			collect_region_retry_later(l, r, now_ns);
			return;
		}
		relaxed_add(l->c->memory, sizeof(*r->net));
		r->net->info = info;
	}
	r->net->first = true;
	r->net->hot_ok_ns = r->net->due_ns = now_ns;
	l->net = r;
}

/* ---- a pass ---- */

static bool usable(const struct collect_link *l, const struct collect_region *r)
{
	return !r->gone && r->step == STEP_BOUND && l->net == r;
}

static void pass_over(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	struct net_ring *t = r->net;
	struct collect_net_batch *b = t->batch;

	t->phase = RING_IDLE;
	if (t->failed || !usable(l, r)) {
		batch_drop(t, l->c);
		return;
	}
	for (uint32_t i = 0; i < t->upto; i++)
		if (b->record[i].number != MISSED)
			b->record[b->n++] = b->record[i];
	b->to = t->next = t->next + t->upto;
	b->over_ns = now_ns;
	b->anew = t->first;
	t->first = false;
	t->batch = NULL;
	if (t->upto == t->want && t->next < t->head)
		t->due_ns = now_ns; /* there is more */
	relaxed_bump(r->rounds, 1);
	relaxed_store(r->fresh_ns, now_ns);
	relaxed_store(r->last_read_ns, (uint64_t)l->real_ns);
	collect_pair_latency_push(l->c->nets, b);
}

static bool begin_body(struct collect_link *l, struct net_ring *t, const struct region_nic_hot *hot)
{
	uint64_t n;

	if (t->first)
		t->next = hot->head; /* what is there is of before */
	if (hot->head - t->next > t->info.records)
		t->next = hot->head - t->info.records;
	n = hot->head - t->next;
	t->head = hot->head;
	t->want = t->upto = n < RECORDS_A_PASS ? (uint32_t)n : RECORDS_A_PASS;
	t->asked = 0;
	batch_drop(t, l->c);
	t->batch = batch_new(l, t, t->want);
	if (!t->batch)
		return false;
	t->batch->headless = hot->headless;
	t->phase = RING_BODY;
	return true;
}

static bool take_hot(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		     uint64_t now_ns)
{
	struct collect_region *r = op->region;
	struct net_ring *t = r->net;
	struct region_nic_hot hot;
	enum region_fault fault;

	if (!usable(l, r))
		return true;
	fault = region_nic_hot_parse(read->to, &hot);
	if (fault == REGION_FAULT_UNSETTLED && op->tries < LINK_TRIES - 1)
		return false;
	if (fault == REGION_FAULT_UNSETTLED && now_ns - t->hot_ok_ns <= HOT_MAX_NS) {
		relaxed_bump(l->worker->unsettled, 1);
		t->failed = true;
		return true;
	}
	if (!fault && !t->first && hot.head < t->next)
		fault = REGION_FAULT_HOT;
	if (fault) {
		t->first = true; /* if it is looked at again, it is another one */
		collect_region_drop(l, r, fault, now_ns);
		return true;
	}
	relaxed_bump(l->worker->lines, 1);
	t->hot_ok_ns = now_ns;
	t->failed = !begin_body(l, t, &hot);
	return true;
}

static bool take_records(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
			 uint64_t now_ns)
{
	const uint64_t(*place)[SL_NIC_WORDS] = read->to;
	struct net_ring *t = op->region->net;

	(void)now_ns;
	if (!usable(l, op->region) || t->failed)
		return true;
	relaxed_bump(l->worker->lines, read->length / SL_LINE_SIZE);
	for (uint32_t i = 0; i < read->length / SL_NIC_SIZE; i++) {
		uint32_t at = op->index + i;
		struct region_nic_record *to = &t->batch->record[at];
		uint64_t number = t->next + at;
		enum region_fault fault = region_nic_record_parse(place[i], number, to);

		if (region_nic_comes(fault, to, number, t->head, &t->info)) {
			t->upto = at < t->upto ? at : t->upto;
			break;
		}
		if (fault)
			to->number = MISSED;
	}
	return true;
}

static void failed(struct collect_link *l, struct collect_op *op, int status, uint64_t now_ns)
{
	struct collect_region *r = op->region;

	r->net->failed = true;
	/* The memory is not there any more, or it moved: ask for it anew. */
	if (op->epoch == l->epoch && r->step == STEP_BOUND &&
	    (status == -EACCES || status == -ERANGE))
		collect_region_retry_later(l, r, now_ns);
}

static bool all_asked(const struct net_ring *t)
{
	return t->failed || (t->phase == RING_BODY && t->asked == t->want);
}

static void over(struct collect_link *l, struct collect_op *op, const struct fabric_read *read,
		 uint64_t now_ns)
{
	struct net_ring *t = op->region->net;

	(void)read;
	t->ops--;
	if (t->phase != RING_IDLE && !t->ops && all_asked(t))
		pass_over(l, op->region, now_ns);
}

static const struct collect_op_kind hot_read = {.take = take_hot, .failed = failed, .over = over};
static const struct collect_op_kind records_read = {
	.take = take_records, .failed = failed, .over = over};

static struct collect_op *ask(struct collect_link *l, struct collect_region *r,
			      const struct collect_op_kind *kind, uint64_t offset, uint32_t length)
{
	struct net_ring *t = r->net;
	struct collect_op *op;

	if (t->ops >= READS_OUT)
		return NULL;
	op = collect_reads_new(l, kind, r, &r->remote, offset, length);
	t->ops += op != NULL;
	return op;
}

static void ask_for_body(struct collect_link *l, struct collect_region *r)
{
	struct net_ring *t = r->net;

	while (!t->failed && t->asked < t->want) {
		uint64_t place = (t->next + t->asked) & (t->info.records - 1);
		uint64_t n = t->want - t->asked;
		struct collect_op *op;

		n = n < RECORDS_A_READ ? n : RECORDS_A_READ;
		n = n < t->info.records - place ? n : t->info.records - place;
		op = ask(l, r, &records_read, t->info.ring + place * SL_NIC_SIZE,
			 (uint32_t)n * SL_NIC_SIZE);
		if (!op)
			return;
		op->index = t->asked;
		t->asked += (uint32_t)n;
	}
}

/* True while there is something to be asked for. */
static bool begin(struct collect_link *l, struct net_ring *t, uint64_t now_ns)
{
	uint64_t period = l->c->opts.tcp_period_ns < PERIOD_NS ? l->c->opts.tcp_period_ns
							       : PERIOD_NS;

	if (t->phase != RING_IDLE)
		return true;
	if (now_ns < t->due_ns)
		return false;
	t->due_ns = now_ns + period;
	t->phase = RING_HOT;
	t->failed = t->hot_asked = false;
	t->begun_ns = now_ns;
	return true;
}

void collect_net_poll(struct collect_link *l, uint64_t now_ns)
{
	struct collect_region *r = l->net;
	struct net_ring *t = r ? r->net : NULL;

	if (!t)
		return;
	if (r->step != STEP_BOUND || l->state != FABRIC_UP) {
		if (!t->ops)
			t->phase = RING_IDLE;
		t->failed = true;
		return;
	}
	if (!begin(l, t, now_ns))
		return;
	if (!t->ops && t->failed) {
		t->phase = RING_IDLE;
		return;
	}
	if (!collect_directory_lease_holds(l, now_ns)) {
		collect_directory_read(l, now_ns);
		return;
	}
	if (t->phase == RING_HOT && !t->hot_asked)
		t->hot_asked = ask(l, r, &hot_read, t->info.hot, SL_LINE_SIZE);
	if (t->phase == RING_BODY)
		ask_for_body(l, r);
	if (t->phase == RING_BODY && !t->ops && all_asked(t))
		pass_over(l, r, now_ns);
}

uint64_t collect_net_due(const struct collect_link *l)
{
	const struct net_ring *t = l->net && l->net->step == STEP_BOUND ? l->net->net : NULL;

	return !t ? UINT64_MAX : t->phase == RING_IDLE ? t->due_ns : 0;
}
