/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * layer_record.bpf.h - of layer.bpf.c: single segments and requests, for tracing. Records that find
 * the ring full are dropped and counted.
 */
#ifndef SL_SOURCE_TCP_BPF_LAYER_RECORD_BPF_H
#define SL_SOURCE_TCP_BPF_LAYER_RECORD_BPF_H

#include "layer_note.bpf.h"

/* A record of this connection, otherwise zero. NULL: no room. */
static __always_inline struct tcp_layer_record *record_new(const struct layer_sock *st, u32 kind)
{
	struct tcp_layer_record *r = bpf_ringbuf_reserve(&layer_records, sizeof(*r), 0);

	if (!r) {
		cause_only(SL_CAUSE_TRACE_DROPPED);
		return NULL;
	}
	__builtin_memset(r, 0, sizeof(*r));
	__builtin_memcpy(&r->key, &st->key, sizeof(r->key));
	r->role = st->role;
	r->kind = (u8)kind;
	return r;
}

static __noinline int record_in(const struct layer_sock *st, const struct segment *g, u64 now)
{
	struct tcp_layer_record *r;

	if (!st || !g)
		return 0;
	r = record_new(st, TCP_RECORD_IN);
	if (!r)
		return 0;
	r->seq = g->end - g->length;
	r->length = g->length;
	r->response_seq = g->ack;
	r->nic_in = g->nic;
	r->ip_in = g->ip;
	r->tcp_in = g->tcp;
	r->copied = now;
	bpf_ringbuf_submit(r, 0);
	return 0;
}

static __noinline int record_out(const struct layer_sock *st, const struct out_stamp *e, u64 now)
{
	struct tcp_layer_record *r;

	if (!st || !e)
		return 0;
	r = record_new(st, TCP_RECORD_OUT);
	if (!r)
		return 0;
	r->seq = e->seq;
	r->length = e->length;
	r->response_seq = e->ack;
	r->sent = e->sent;
	r->ip_out = e->ip;
	r->queued = e->queued;
	r->nic_out = now;
	bpf_ringbuf_submit(r, 0);
	return 0;
}

static __noinline int record_request(const struct layer_sock *st, const struct request *q, u64 now)
{
	struct tcp_layer_record *r;

	if (!st || !q)
		return 0;
	r = record_new(st, TCP_RECORD_REQUEST);
	if (!r)
		return 0;
	r->pipelined = (u8)q->pipelined;
	r->seq = q->seq;
	r->length = q->length;
	r->response_seq = q->response;
	if (q->in.length) {
		r->nic_in = q->in.nic;
		r->ip_in = q->in.ip;
		r->tcp_in = q->in.tcp;
	}
	r->copied = q->copied;
	r->sent = q->sent;
	r->ip_out = q->ip;
	r->queued = q->queued;
	r->nic_out = now;
	bpf_ringbuf_submit(r, 0);
	return 0;
}

#endif
