// SPDX-License-Identifier: Apache-2.0
/*
 * reads.c - the READs of a link: landing memory, posting in batches, completions. The purpose of a
 * READ is its struct collect_op_kind.
 *
 * Landing memory is allocated upwards and reset when no READ is in flight: the READs of a round
 * complete together, so holes are not worth filling.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/base.h"
#include "collect/read/link.h"
#include "collect/read/reads.h"
#include "collect/read/worker.h"

#define POLL_BATCH 64u

int collect_reads_init(struct collect_link *l)
{
	l->landing = fabric_buffer(l->fabric, &l->landing_bytes);
	l->read = calloc(LINK_OPS, sizeof(*l->read));
	l->op = calloc(LINK_OPS, sizeof(*l->op));
	return l->read && l->op ? 0 : -ENOMEM;
}

void collect_reads_free(struct collect_link *l)
{
	free(l->read);
	free(l->op);
	l->read = NULL;
	l->op = NULL;
}

struct collect_op *collect_reads_new(struct collect_link *l, const struct collect_op_kind *kind,
				     struct collect_region *r, const struct fabric_remote *remote,
				     uint64_t offset, uint32_t length)
{
	struct collect_op *op;

	if (!l->ops_live && l->op_posted == l->op_head) {
		l->op_head = l->op_posted = 0;
		l->landing_used = 0;
	}
	if (l->op_head == LINK_OPS || l->landing_used + length > l->landing_bytes)
		return NULL;
	op = &l->op[l->op_head];
	*op = (struct collect_op){.region = r, .kind = kind, .epoch = l->epoch, .high = length};
	l->read[l->op_head] = (struct fabric_read){
		.remote = remote,
		.offset = offset,
		.length = length,
		.to = l->landing + l->landing_used,
		.tag = l->op_head,
	};
	l->landing_used += (length + SL_LINE_SIZE - 1) / SL_LINE_SIZE * SL_LINE_SIZE;
	l->op_head++;
	l->ops_live++;
	if (r)
		r->ops++;
	return op;
}

bool collect_reads_narrow(struct collect_op *op, struct fabric_read *read, uint32_t low,
			  uint32_t high)
{
	if (op->tries == LINK_TRIES - 1)
		return false;
	read->offset += low - op->low;
	read->to = (uint8_t *)read->to + (low - op->low);
	read->length = high - low;
	op->low = low;
	op->high = high;
	return true;
}

bool collect_reads_post(struct collect_link *l, uint64_t now_ns)
{
	uint32_t before = l->op_posted + l->reposts;
	int n;

	while (l->reposts) {
		uint32_t i = l->repost[l->reposts - 1];

		l->op[i].posted_ns = now_ns;
		if (fabric_post(l->fabric, &l->read[i], 1) != 1)
			break;
		l->reposts--;
	}
	if (l->op_posted != l->op_head) {
		for (uint32_t i = l->op_posted; i < l->op_head; i++)
			l->op[i].posted_ns = now_ns;
		n = fabric_post(l->fabric, &l->read[l->op_posted], l->op_head - l->op_posted);
		if (n > 0)
			l->op_posted += (uint32_t)n;
	}
	return l->op_posted + l->reposts != before;
}

static void count_read(struct collect_worker *w, const struct collect_op *op,
		       const struct fabric_read *read, uint64_t now_ns)
{
	uint64_t took = now_ns > op->posted_ns ? now_ns - op->posted_ns : 0;

	relaxed_bump(w->reads, 1);
	relaxed_bump(w->bytes, read->length);
	relaxed_bump(w->latency[collect_latency_bucket(took)], 1);
	relaxed_bump(w->latency_sum_ns, took);
}

static void complete_read(struct collect_link *l, struct fabric_read *read, uint64_t now_ns)
{
	struct collect_op *op = &l->op[read->tag];

	if (read->status || op->epoch != l->epoch) {
		relaxed_bump(l->worker->read_errors, 1);
		if (op->kind->failed)
			op->kind->failed(l, op, read->status, now_ns);
	} else {
		count_read(l->worker, op, read, now_ns);
		if (!op->kind->take(l, op, read, now_ns) && op->tries < LINK_TRIES - 1) {
			op->tries++;
			l->repost[l->reposts++] = (uint32_t)read->tag;
			return;
		}
	}
	l->ops_live--;
	if (op->region)
		op->region->ops--;
	if (op->kind->over)
		op->kind->over(l, op, now_ns);
}

bool collect_reads_poll(struct collect_link *l, uint64_t now_ns)
{
	struct fabric_read *done[POLL_BATCH];
	int n = fabric_poll(l->fabric, done, POLL_BATCH, now_ns, l->c->opts.read_timeout_ns);

	if (n <= 0)
		return false;
	/* Must precede reading the clock: see collect_collector_shown(). */
	relaxed_store(l->worker->showing_ns, 0);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	l->real_ns = (int64_t)base_realtime_ns();
	relaxed_store(l->worker->showing_ns, l->real_ns);
	for (int i = 0; i < n; i++)
		complete_read(l, done[i], now_ns);
	__atomic_store_n(&l->worker->showing_ns, INT64_MAX, __ATOMIC_RELEASE);
	return true;
}

void collect_reads_cancel(struct collect_link *l, uint64_t now_ns)
{
	l->real_ns = (int64_t)base_realtime_ns();
	while (l->reposts || l->op_posted < l->op_head) {
		uint32_t i = l->reposts ? l->repost[--l->reposts] : l->op_posted++;

		l->read[i].status = -ENOTCONN;
		complete_read(l, &l->read[i], now_ns);
	}
}
