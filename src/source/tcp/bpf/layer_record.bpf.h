/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * layer_record.bpf.h - part of layer.bpf.c: records of single segments and requests, for tracing.
 * If the ring is full, a record is dropped and counted.
 */
#ifndef SL_SOURCE_TCP_BPF_LAYER_RECORD_BPF_H
#define SL_SOURCE_TCP_BPF_LAYER_RECORD_BPF_H

#include "layer_note.bpf.h"

/* Completes a record of this connection and delivers it. */
static __always_inline int record_put(const struct layer_sock *st, enum tcp_record_kind kind,
				      struct tcp_layer_record *r)
{
	__builtin_memcpy(&r->key, &st->key, sizeof(r->key));
	r->role = st->role;
	r->kind = (u8)kind;
	if (bpf_ringbuf_output(&layer_records, r, sizeof(*r), 0))
		cause_only(SL_CAUSE_TRACE_DROPPED);
	return 0;
}

static __noinline int record_in(const struct layer_sock *st, const struct segment *g, u64 now)
{
	struct tcp_layer_record r = {};

	if (!st || !g)
		return 0;
	r.seq = g->end - g->length;
	r.length = g->length;
	r.response_seq = g->ack;
	r.nic_in = g->nic;
	r.ip_in = g->ip;
	r.tcp_in = g->tcp;
	r.copied = now;
	return record_put(st, TCP_RECORD_IN, &r);
}

static __noinline int record_out(const struct layer_sock *st, const struct out_stamp *e, u64 now)
{
	struct tcp_layer_record r = {};

	if (!st || !e)
		return 0;
	r.seq = e->seq;
	r.length = e->length;
	r.response_seq = e->ack;
	r.sent = e->sent;
	r.ip_out = e->ip;
	r.queued = e->queued;
	r.nic_out = now;
	return record_put(st, TCP_RECORD_OUT, &r);
}

static __noinline int record_request(const struct layer_sock *st, const struct request *q, u64 now)
{
	struct tcp_layer_record r = {};

	if (!st || !q)
		return 0;
	r.pipelined = (u8)q->pipelined;
	r.seq = q->seq;
	r.length = q->length;
	r.response_seq = q->response;
	if (q->in.length) {
		r.nic_in = q->in.nic;
		r.ip_in = q->in.ip;
		r.tcp_in = q->in.tcp;
	}
	r.copied = q->copied;
	r.sent = q->sent;
	r.ip_out = q->ip;
	r.queued = q->queued;
	r.nic_out = now;
	return record_put(st, TCP_RECORD_REQUEST, &r);
}

#endif
