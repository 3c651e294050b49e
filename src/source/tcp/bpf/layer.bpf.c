// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * layer.bpf.c - measures the time that each layer of the stack takes per segment, and per request
 * of a server.
 *
 * Until TCP knows the sequence numbers of an incoming segment, its times are in the table layer_in,
 * by the address of its skb. From then on, a ring per socket holds the end of each segment and its
 * times, and entries leave the ring as the application copies bytes (copied_seq). GRO, coalescing
 * in the receive queue and partial reads therefore do not matter: an entry is one skb as the stack
 * saw it, and ends when its last byte is copied. For output, a ring of send calls is searched by
 * the sequence number of a segment's first byte. From the queue on, times are kept by socket and
 * sequence number, so neither TSO nor TCP's cloning of each skb matters. layer_note.bpf.h does the
 * counting.
 *
 * A socket's state is written under its lock, except requests that wait for the driver:
 * net_dev_start_xmit runs in any context and removes a request by compare-and-swap.
 */
#include "layer_note.bpf.h"
#include "layer_record.bpf.h"

#include <asm/ptrace.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Used if the kernel does not support fentry. */
#define HOOK_KPROBE(section, name, call, args...) \
	SEC(section) int BPF_KPROBE(name, args)   \
	{                                         \
		return call;                      \
	}

/* ---- input ---- */

static __always_inline struct in_stamp *in_place(const void *skb)
{
	u32 i = address_hash(skb) >> (32 - IN_BITS);

	return bpf_map_lookup_elem(&layer_in, &i);
}

/*
 * Returns true for a TCP segment without data, whose times are not needed. Most segments of a short
 * connection are of this kind. Returns false if unsure. The packet begins with its IP header.
 */
static __always_inline bool lacks_data(const struct sk_buff *skb)
{
	const struct iphdr___sl *v4;
	const struct ipv6hdr___sl *v6;
	const struct tcphdr *tcp;
	unsigned char *at = skb->data;
	u32 linear = skb->len - skb->data_len, header = 40, rest;

	if (!bpf_rdonly_cast)
		return false;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		v4 = bpf_rdonly_cast(at, bpf_core_type_id_kernel(struct iphdr___sl));
		header = BPF_CORE_READ_BITFIELD(v4, ihl) * 4;
		rest = bpf_ntohs(v4->tot_len) - header;
		if (v4->protocol != IPPROTO_TCP || v4->frag_off & bpf_htons(IP_FRAGMENT))
			return false;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		v6 = bpf_rdonly_cast(at, bpf_core_type_id_kernel(struct ipv6hdr___sl));
		rest = bpf_ntohs(v6->payload_len);
		if (v6->nexthdr != IPPROTO_TCP)
			return false;
	} else {
		return false;
	}
	tcp = bpf_rdonly_cast(at + header, bpf_core_type_id_kernel(struct tcphdr));
	return linear >= header + 20 && rest == tcp->doff * 4;
}

/*
 * The driver hands over a packet. An earlier stamp for the same address belongs to another packet.
 */
static __always_inline int nic_in(const struct sk_buff *skb)
{
	struct in_stamp *e = in_place(skb);

	if (e && lacks_data(skb)) {
		if (e->skb == (u64)skb)
			e->skb = 0;
	} else if (e) {
		e->skb = (u64)skb;
		e->nic = bpf_ktime_get_ns();
		e->ip = 0;
		e->tcp = 0;
	}
	return 0;
}

static __always_inline int mac_ip(const void *skb)
{
	struct in_stamp *e = in_place(skb);

	if (e && e->skb == (u64)skb)
		e->ip = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int ip_tcp(const void *skb)
{
	struct in_stamp *e = in_place(skb);

	if (e && e->skb == (u64)skb)
		e->tcp = bpf_ktime_get_ns();
	return 0;
}

/*
 * skb->list is the first member, so the address of a list element is the address of its skb.
 * trusted: the verifier trusts the pointer, which is not the case in a kprobe.
 */
static __always_inline int mac_ip_list(const struct list_head *head, bool trusted)
{
	const struct list_head *p = trusted ? head->next : BPF_CORE_READ(head, next);

	for (int i = 0; i < 64 && p && p != head; i++) {
		mac_ip(p);
		p = trusted ? p->next : BPF_CORE_READ(p, next);
	}
	return 0;
}

DRIVER_HOOKS(nic, nic_in(skb))

HOOK("?fentry/ip_rcv", ip_rcv_v4, mac_ip(skb), struct sk_buff *skb)
HOOK("?fentry/ipv6_rcv", ip_rcv_v6, mac_ip(skb), struct sk_buff *skb)
HOOK("?fentry/ip_list_rcv", ip_list_v4, mac_ip_list(head, true), struct list_head *head)
HOOK("?fentry/ipv6_list_rcv", ip_list_v6, mac_ip_list(head, true), struct list_head *head)
HOOK_KPROBE("?kprobe/ip_rcv", ip_rcv_v4_kp, mac_ip(skb), const void *skb)
HOOK_KPROBE("?kprobe/ipv6_rcv", ip_rcv_v6_kp, mac_ip(skb), const void *skb)
HOOK_KPROBE("?kprobe/ip_list_rcv", ip_list_v4_kp, mac_ip_list(head, false), struct list_head *head)
HOOK_KPROBE("?kprobe/ipv6_list_rcv", ip_list_v6_kp, mac_ip_list(head, false),
	    struct list_head *head)
/* This tracepoint is directly before the protocol's function, in every network namespace. */
HOOK("?tp_btf/netif_receive_skb", ip_tp, mac_ip(skb), struct sk_buff *skb)

HOOK("?fentry/tcp_v4_rcv", tcp_rcv_v4, ip_tcp(skb), struct sk_buff *skb)
HOOK("?fentry/tcp_v6_rcv", tcp_rcv_v6, ip_tcp(skb), struct sk_buff *skb)
HOOK_KPROBE("?kprobe/tcp_v4_rcv", tcp_rcv_v4_kp, ip_tcp(skb), const void *skb)
HOOK_KPROBE("?kprobe/tcp_v6_rcv", tcp_rcv_v6_kp, ip_tcp(skb), const void *skb)

/*
 * Used if functions cannot be traced: TCP runs the filter of the root cgroup for every packet once
 * it has found the socket, in every network namespace.
 */
extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak;

SEC("?cgroup_skb/ingress") int tcp_cgroup(struct __sk_buff *ctx)
{
	if (bpf_cast_to_kern_ctx)
		ip_tcp(bpf_cast_to_kern_ctx(ctx));
	return 1;
}

/* TCP's fields in the skb->cb of an incoming segment, obtained by one read. */
struct taken {
	u32 seq, length, ack;
};

static __always_inline bool taken_of(const struct sk_buff *skb, struct taken *t)
{
	const char *cb = __builtin_preserve_access_index(&skb->cb[0]);
	u64 at = bpf_core_field_offset(struct tcp_skb_cb, tcp_flags);
	u8 flags;

	t->seq = TCP_CB(skb, u32, seq);
	t->ack = TCP_CB(skb, u32, ack_seq);
	/* The field has one or two bytes, depending on the kernel; CO-RE must not adapt it. */
	asm volatile("" : "+r"(at));
	flags = *(const u8 *)(cb + at);
	t->length = TCP_CB(skb, u32, end_seq) - t->seq - (flags & TH_FIN) - !!(flags & TH_SYN);
	return t->length;
}

/* A segment reaches an established connection; rcv_nxt does not yet include it. */
SEC("?tp_btf/tcp_probe") int BPF_PROG(segment_in, struct sock *sk, struct sk_buff *skb)
{
	struct layer_sock *st;
	struct segment *at;
	struct in_stamp *e;
	const struct tcp_sock *tp;
	u32 newest, rcv_nxt, end;
	struct taken t;
	struct note n;

	if (!taken_of(skb, &t))
		return 0;
	st = state_make(sk, SL_ROLE_UNKNOWN);
	tp = tcp_fields(sk);
	e = in_place(skb);
	if (!st || !tp || !e)
		return 0;
	note_begin(&n, st);
	note_count(&n, SL_COUNT_IN);
	rcv_nxt = tp->rcv_nxt;
	end = t.seq + t.length;
	if ((s32)(end - rcv_nxt) <= 0) {
		note_cause(&n, SL_CAUSE_DUPLICATE);
		goto out;
	}
	if ((s32)(t.seq - rcv_nxt) > 0) {
		note_cause(&n, SL_CAUSE_OUT_OF_ORDER);
		goto out;
	}
	/* Remove entries beyond rcv_nxt, which TCP did not accept after all. */
	for (int i = 0; i < 4; i++) {
		newest = st->read_head - 1;
		at = &st->read[newest % RING].segment;
		if (!at->number || at->number != newest + 1 || (s32)(at->end - rcv_nxt) <= 0)
			break;
		at->number = 0;
		st->read_head = newest;
		note_cause(&n, SL_CAUSE_DISCARDED);
	}
	if (st->read_head - st->tail_seen >= RING) {
		st->tail_seen = st->read_tail;
		if (st->read_head - st->tail_seen >= RING) {
			note_cause(&n, SL_CAUSE_READ_RING);
			goto out;
		}
	}
	at = &st->read[st->read_head % RING].segment;
	at->nic = at->ip = at->tcp = 0;
	if (e->skb == (u64)skb) {
		at->nic = e->nic;
		at->ip = e->ip;
		at->tcp = e->tcp;
	}
	at->end = end;
	at->length = t.length;
	at->ack = t.ack;
	at->number = ++st->read_head;
	if (!at->nic)
		note_cause(&n, SL_CAUSE_NO_NIC);
	else if (!at->ip)
		note_cause(&n, SL_CAUSE_NO_IP);
	else if (!note_span(&n, 0, SL_LAYER_MAC_IN, at->nic, at->ip))
		at->nic = 0;
	if (!at->tcp)
		note_cause(&n, SL_CAUSE_NO_TCP);
	else if (at->ip && !note_span(&n, 1, SL_LAYER_IP_IN, at->ip, at->tcp))
		at->ip = 0;
out:
	note_put(&n);
	return 0;
}

/* Removes the next segment if it has been read. Returns nonzero if there are no more. */
__noinline int read_one(struct layer_sock *st, u32 upto, u64 now)
{
	struct segment *g;

	if (!st)
		return 1;
	g = &st->read[st->read_tail % RING].segment;
	if (g->number != st->read_tail + 1)
		return 1;
	if ((s32)(g->end - upto) > 0) {
		/*
		 * A partly read segment contains the last byte read if it begins before that byte.
		 */
		if ((s32)(g->end - g->length - upto) < 0)
			__builtin_memcpy(&st->last, g, sizeof(*g));
		return 1;
	}
	if (g->tcp) {
		struct note n;

		note_begin(&n, st);
		note_span(&n, 0, SL_LAYER_TCP_IN, g->tcp, now);
		note_put(&n);
	}
	if (trace_kinds & 1 << TCP_RECORD_IN)
		record_in(st, g, now);
	if (g->end == upto)
		__builtin_memcpy(&st->last, g, sizeof(*g));
	st->read_tail++;
	return 0;
}

/* The application has copied bytes up to copied_seq. */
SEC("?tp_btf/tcp_rcv_space_adjust") int BPF_PROG(copied, struct sock *sk)
{
	struct layer_sock *st = state_of(sk);
	const struct tcp_sock *tp;
	u32 upto;
	u64 now;

	if (!st)
		return 0;
	tp = tcp_fields(sk);
	if (!tp)
		return 0;
	upto = tp->copied_seq;
	if (upto == st->copied) /* the call was MSG_PEEK or read no data */
		return 0;
	now = bpf_ktime_get_ns();
	st->copied = upto;
	st->copied_time = now;
	st->last.length = 0;
	for (int i = 0; i < RING && !read_one(st, upto, now); i++)
		;
	return 0;
}

/* ---- output ---- */

/*
 * Returns why a response is not complete. A response that the peer has acknowledged no longer
 * waits: the driver's hook was missed.
 */
static __always_inline u32 pending_cause(const void *sk, const struct request *r, u32 waits)
{
	return (s32)(BPF_CORE_READ(tcp_of(sk), snd_una) - r->response) > 0 ? SL_CAUSE_REQ_OUT
									   : waits;
}

/* The application writes a response; the data read since its last response is the request. */
static __always_inline int sending(struct sock *sk, u32 bytes)
{
	struct layer_sock *st = state_of(sk);
	const struct tcp_sock *tp;
	struct send *s;
	u32 seq;
	u64 now;

	if (!st)
		return 0;
	tp = tcp_fields(sk);
	if (!tp)
		return 0;
	now = bpf_ktime_get_ns();
	seq = tp->write_seq;
	s = &st->send[(st->send_head - 1) % RING];
	if (st->send_head == st->send_tail || s->seq != seq) {
		if (st->send_head - st->send_tail >= RING)
			st->send_tail++;
		s = &st->send[st->send_head % RING];
		s->time = now;
		s->seq = seq;
		s->end = seq + bytes;
		st->send_head++;
	}
	if (st->copied != st->base) {
		u32 at = st->request_head % REQUESTS;
		struct request *r = &st->request[at];
		struct note n;

		if (st->role == SL_ROLE_CLIENT) {
			st->base = st->copied;
			return 0;
		}
		note_begin(&n, st);
		note_count(&n, SL_COUNT_REQUESTS);
		if (st->active[at] && __sync_lock_test_and_set(&st->active[at], 0)) {
			cause_only(pending_cause(sk, r, SL_CAUSE_REQ_PENDING));
			note_count(&n, SL_COUNT_INCOMPLETE);
		}
		__builtin_memcpy(&r->in, &st->last, sizeof(r->in));
		r->seq = st->base;
		r->length = st->copied - st->base;
		r->response = seq;
		r->pipelined = tp->rcv_nxt != st->copied;
		r->copied = st->copied_time;
		r->sent = now;
		r->ip = r->queued = 0;
		WRITE(st->active[at], 1);
		st->request_head++;
		st->base = st->copied;
		if (r->pipelined)
			note_count(&n, SL_COUNT_PIPELINED);
		note_span(&n, 0, SL_LAYER_APP, r->copied, now);
		note_put(&n);
	}
	return 0;
}

HOOK("?tp_btf/tcp_sendmsg_locked", send_tp, sending(sk, (u32)msg->msg_iter.count), struct sock *sk,
     struct msghdr *msg)
HOOK("?fentry/tcp_sendmsg_locked", send_locked, sending(sk, (u32)size), struct sock *sk,
     struct msghdr *msg, u64 size)
/* Before Linux 6.5, sendfile() and splice() enter here. */
HOOK("?fentry/do_tcp_sendpages", send_pages, sending(sk, (u32)size), struct sock *sk, void *page,
     int offset, u64 size)

struct header {
	u32 seq, ack, length;
};

/* Reads the TCP header of an outgoing segment. Returns false if the segment has no data. */
static __always_inline bool header_of(struct sk_buff *skb, struct header *h)
{
	unsigned char *head = skb->head;
	u32 at = skb->transport_header, before = (u32)(head + at - skb->data);
	struct tcphdr copy;
	const struct tcphdr *t = &copy;

	if (at == 0xffff)
		return false;
	if (bpf_rdonly_cast)
		t = bpf_rdonly_cast(head + at, bpf_core_type_id_kernel(struct tcphdr));
	else if (bpf_probe_read_kernel(&copy, sizeof(copy), head + at))
		return false;
	before += t->doff * 4;
	if (skb->len <= before || t->syn)
		return false;
	h->seq = bpf_ntohl(t->seq);
	h->ack = bpf_ntohl(t->ack_seq);
	h->length = skb->len - before;
	return true;
}

/*
 * Segments between the queue and the driver. For locality, each socket uses its own range of the
 * table; within it, a segment may be in one of OUT_WAYS places, chosen by sequence number.
 */
static __always_inline u32 out_first(const void *sk, u32 seq)
{
	u32 stretch = address_hash(sk) >> (32 - OUT_BITS + OUT_STRETCH_BITS);
	u32 way = seq * 0x9e3779b1u >> (32 - OUT_STRETCH_BITS);

	return stretch << OUT_STRETCH_BITS | (way & ~(OUT_WAYS - 1));
}

static __always_inline struct out_stamp *out_at(u32 place)
{
	return bpf_map_lookup_elem(&layer_out, &place);
}

/* Returns the place of a segment, or OUT_NOTHING. */
static __always_inline u32 out_find(const void *sk, u32 seq)
{
	u32 first = out_first(sk, seq);

	for (u32 i = 0; i < OUT_WAYS; i++) {
		struct out_stamp *e = out_at(first + i);

		if (e && e->sk == (u64)sk && e->seq == seq)
			return first + i;
	}
	return OUT_NOTHING;
}

/*
 * Returns a place for a new segment: a free one, or the place of the segment that has waited
 * longest.
 */
static __always_inline u32 out_take(const void *sk, u32 seq)
{
	u32 first = out_first(sk, seq), to = first;
	u64 oldest = ~0ull;

	for (u32 i = 0; i < OUT_WAYS; i++) {
		struct out_stamp *e = out_at(first + i);

		if (!e || !e->queued || e->done)
			return first + i;
		if (e->queued < oldest) {
			oldest = e->queued;
			to = first + i;
		}
	}
	return to;
}

static __always_inline struct ip_stamp *ip_place(const void *sk)
{
	u32 i = address_hash(sk) >> (32 - IP_BITS);

	return bpf_map_lookup_elem(&layer_ip, &i);
}

/* TCP hands a segment to IP. All steps up to the queue run in one go, under the socket's lock. */
static __always_inline int tcp_ip(const struct sk_buff *skb, const void *sk)
{
	struct ip_stamp *e = sk ? ip_place(sk) : NULL;

	if (e) {
		e->sk = (u64)sk;
		e->skb = (u64)skb;
		e->out = OUT_NOTHING;
		e->ns = bpf_ktime_get_ns();
	}
	return 0;
}

HOOK("?fentry/__ip_queue_xmit", xmit_v4, tcp_ip(skb, sk), struct sock *sk, struct sk_buff *skb)
HOOK("?fentry/inet6_csk_xmit", xmit_v6, tcp_ip(skb, sk), struct sock *sk, struct sk_buff *skb)
HOOK_KPROBE("?kprobe/__ip_queue_xmit", xmit_v4_kp, tcp_ip(skb, sk), const void *sk, const void *skb)
HOOK_KPROBE("?kprobe/inet6_csk_xmit", xmit_v6_kp, tcp_ip(skb, sk), const void *sk, const void *skb)

/* Runs at LOCAL_OUT in the network namespaces where it is attached. */
SEC("?netfilter") int xmit_nf(struct bpf_nf_ctx *ctx)
{
	struct sk_buff *skb = ctx->skb;
	struct sock *sk = skb->sk;

	if (sk && sk->sk_protocol == IPPROTO_TCP)
		tcp_ip(skb, sk);
	return 1; /* NF_ACCEPT */
}

/* The first queue of a segment; a bridge or tunnel may queue the segment again. */
SEC("?tp_btf/net_dev_queue") int BPF_PROG(queued, struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	const struct tcp_sock *tp;
	struct layer_sock *st;
	u64 now, sent = 0, ip;
	struct out_stamp *e = NULL;
	struct ip_stamp *p;
	struct header h;
	struct send *s;
	u32 index = 0, place;
	bool again;
	struct note n;

	if (!sk)
		return 0;
	st = state_of(sk);
	if (!st)
		return 0;
	p = ip_place(sk);
	tp = tcp_fields(sk);
	if (!p || !tp)
		return 0;
	if (p->sk != (u64)sk || p->skb != (u64)skb) {
		p->sk = (u64)sk;
		p->skb = (u64)skb;
		p->ns = 0;
	}
	ip = p->ns;
	if (!header_of(skb, &h)) {
		p->out = OUT_NOTHING;
		return 0;
	}
	again = (s32)(h.seq - tp->snd_nxt) < 0;
	/* If IP has just received the segment and queued nothing since, it has no place yet. */
	if (!ip || again || p->out != OUT_NOTHING) {
		place = out_find(sk, h.seq);
		e = out_at(place);
		/* IP has not just received the segment: a bridge or tunnel queues it again. */
		if (e && e->queued >= ip)
			return 0;
	}
	if (!e) {
		place = out_take(sk, h.seq);
		e = out_at(place);
		if (!e)
			return 0;
	}
	p->out = place;
	/* the earlier segment is still waiting for the driver, or was dropped there */
	if (e->queued && !e->done)
		cause_only(SL_CAUSE_NO_DRIVER);
	e->sk = (u64)sk;
	e->seq = h.seq;
	e->request = 0;
	e->ip = ip;
	e->done = 0;
	now = bpf_ktime_get_ns();
	e->length = h.length;
	e->ack = h.ack;
	e->flow = st->flow;
	e->group = st->group;
	note_begin(&n, st);
	note_count(&n, SL_COUNT_OUT);
	if (again) {
		note_cause(&n, SL_CAUSE_RETRANSMIT);
		e->queued = now;
		e->done = 1; /* a retransmission is not measured, but not reported as lost either */
		for (u32 i = 0; i < REQUESTS; i++) {
			struct request *r = &st->request[i];

			if (st->active[i] && r->response - h.seq < h.length &&
			    __sync_lock_test_and_set(&st->active[i], 0)) {
				cause_only(SL_CAUSE_REQ_RETRANSMIT);
				note_count(&n, SL_COUNT_INCOMPLETE);
			}
		}
		note_put(&n);
		return 0;
	}
	for (int i = 0; i < RING && st->send_head - st->send_tail > 1; i++) {
		if ((s32)(st->send[(st->send_tail + 1) % RING].seq - h.seq) > 0)
			break;
		st->send_tail++;
	}
	if (st->send_head != st->send_tail) {
		s = &st->send[st->send_tail % RING];
		if ((s32)(s->seq - h.seq) > 0)
			note_cause(&n, SL_CAUSE_SEND_RING);
		else if ((s32)(s->end - h.seq) <= 0)
			note_cause(&n, SL_CAUSE_NO_SEND);
		else
			sent = s->time;
	} else {
		note_cause(&n, SL_CAUSE_NO_SEND);
	}
	if (!e->ip) {
		note_cause(&n, SL_CAUSE_NO_OUT_IP);
	} else {
		if (sent)
			note_span(&n, 0, SL_LAYER_TCP_OUT, sent, e->ip);
		note_span(&n, 1, SL_LAYER_IP_OUT, e->ip, now);
	}
	note_put(&n);
	for (u32 i = 0; i < REQUESTS; i++) {
		struct request *r = &st->request[i];

		if (st->active[i] && r->response - h.seq < h.length) {
			r->ip = e->ip;
			r->queued = now;
			/* the last of several that end here; the others are handled below */
			index = i + 1;
		}
	}
	e->request = index;
	e->sent = sent;
	e->queued = now;
	return 0;
}

/*
 * A response has left, so its request is complete. n: the current note; if it already has a total,
 * it is stored and a new note begins.
 */
__noinline int finish(struct layer_sock *st, u32 index, u64 now, struct note *n)
{
	struct request *q;
	bool in, out;

	if (!st || !n || index >= REQUESTS || !__sync_lock_test_and_set(&st->active[index], 0))
		return 0;
	q = &st->request[index];
	if (n->what >> 60) { /* the note already has a total */
		note_put(n);
		note_begin(n, st);
	}
	in = q->in.length && q->in.nic && q->in.ip && q->in.tcp;
	out = q->ip && q->queued;
	if (in && out && now >= q->in.nic) {
		note_count(n, SL_COUNT_COMPLETE);
		note_span(n, 1, SL_LAYER_TOTAL, q->in.nic, now);
	} else {
		note_count(n, SL_COUNT_INCOMPLETE);
		cause_only(in ? SL_CAUSE_REQ_OUT : SL_CAUSE_REQ_IN);
	}
	if (trace_kinds & 1 << TCP_RECORD_REQUEST)
		record_request(st, q, now);
	return 0;
}

/* Returns the place of the segment that the driver receives, usually the socket's latest one. */
static __always_inline u32 out_of(struct sk_buff *skb, const void *sk)
{
	struct ip_stamp *p = ip_place(sk);
	struct header h;

	if (p && p->sk == (u64)sk && p->skb == (u64)skb)
		return p->out;
	return header_of(skb, &h) ? out_find(sk, h.seq) : OUT_NOTHING;
}

/* The driver receives the packet. If a larger segment was split, its first part counts. */
SEC("?tp_btf/net_dev_start_xmit") int BPF_PROG(nic_out, struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	struct layer_sock *st;
	struct out_stamp *e;
	struct note n;
	bool fresh;
	u64 now;

	if (!sk)
		return 0;
	e = out_at(out_of(skb, sk));
	if (!e || e->sk != (u64)sk || __sync_lock_test_and_set(&e->done, 1))
		return 0;
	now = bpf_ktime_get_ns();
	/* A flow keeps its slot for at least one round; see count_round(). */
	fresh = now - e->queued < ROUND_NS;
	st = fresh && !e->request && !trace_kinds ? NULL : state_of(sk);
	if (!st && !fresh)
		return 0;
	note_begin_of(&n, fresh ? e->flow : st->flow, fresh ? e->group : st->group);
	note_span(&n, 0, SL_LAYER_MAC_OUT, e->queued, now);
	if (st) {
		if (trace_kinds & 1 << TCP_RECORD_OUT)
			record_out(st, e, now);
		for (u32 i = 0; i < REQUESTS && e->request; i++) {
			struct request *r = &st->request[i];

			if (r->queued == e->queued && r->response - e->seq < e->length)
				finish(st, i, now, &n);
		}
	}
	note_put(&n);
	return 0;
}

/* ---- connections ---- */

SEC("?tp_btf/inet_sock_set_state")
int BPF_PROG(state_changed, struct sock *sk, int old, int now)
{
	if (now != TCP_ESTABLISHED || sk->sk_protocol != IPPROTO_TCP)
		return 0;
	state_make(sk, old == TCP_SYN_SENT ? SL_ROLE_CLIENT : SL_ROLE_SERVER);
	return 0;
}

static __always_inline void state_end(const struct sock *sk, struct layer_sock *st)
{
	u32 flow = st->flow;
	struct note n;

	st->closed = 1;
	note_begin(&n, st);
	for (u32 i = 0; i < REQUESTS; i++) {
		if (__sync_lock_test_and_set(&st->active[i], 0)) {
			cause_only(pending_cause(sk, &st->request[i], SL_CAUSE_REQ_CLOSED));
			note_count(&n, SL_COUNT_INCOMPLETE);
		}
	}
	note_put(&n);
	st->flow = NO_SLOT;
	group_use(st->group, -1);
	flow_end(flow, bpf_ktime_get_ns());
}

SEC("?tp_btf/tcp_destroy_sock") int BPF_PROG(closed, struct sock *sk)
{
	struct layer_sock *st = near_place(sk);

	if (st && st->sk == (u64)sk) {
		if (!st->closed)
			state_end(sk, st);
		/* Release the state once everything above is written. */
		__sync_lock_test_and_set(&st->sk, 0);
		return 0;
	}
	st = bpf_sk_storage_get(&layer_socks, sk, NULL, 0);
	if (st && !st->closed)
		state_end(sk, st);
	return 0;
}
