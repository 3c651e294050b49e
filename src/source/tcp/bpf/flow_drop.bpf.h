/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * flow_drop.bpf.h - part of flow.bpf.c: counts the segments that the kernel drops, by reason and,
 * if known, by flow. Any CPU may drop a segment of a flow at any time, so all additions are atomic.
 */
#ifndef SL_SOURCE_TCP_BPF_FLOW_DROP_BPF_H
#define SL_SOURCE_TCP_BPF_FLOW_DROP_BPF_H

#include "flow_state.bpf.h"
#include "line.h"

/*
 * Returns false if nothing was lost. The kernel usually frees such packets without a reason or with
 * the reason NOT_SPECIFIED. When a socket is closed, it purges the socket's queues with the reason
 * QUEUE_PURGE.
 */
static __always_inline bool drop_counts(u32 reason)
{
	if (bpf_core_enum_value_exists(enum skb_drop_reason, SKB_DROP_REASON_QUEUE_PURGE) &&
	    reason == bpf_core_enum_value(enum skb_drop_reason, SKB_DROP_REASON_QUEUE_PURGE))
		return false;
	return reason > bpf_core_enum_value(enum skb_drop_reason, SKB_DROP_REASON_NOT_SPECIFIED);
}

/* Addresses and ports of a TCP segment, as seen by its receiver. */
struct drop_ends {
	u8 local[16], remote[16];
	u16 local_port, remote_port;
};

/* Returns false if the packet is not a TCP segment. */
static __always_inline bool drop_ends_of(const struct sk_buff *skb, struct drop_ends *e)
{
	const unsigned char *head = BPF_CORE_READ(skb, head);
	const void *ip = head + BPF_CORE_READ(skb, network_header);
	u16 protocol = bpf_ntohs(BPF_CORE_READ(skb, protocol)), ports[2] = {};

	if (protocol == ETH_P_IP) {
		const struct iphdr___sl *v4 = ip;
		u8 words = 0;

		if (BPF_CORE_READ(v4, protocol) != IPPROTO_TCP)
			return false;
		key_v4(e->local, BPF_CORE_READ(v4, daddr));
		key_v4(e->remote, BPF_CORE_READ(v4, saddr));
		bpf_probe_read_kernel(&words, 1, ip); /* version and header length */
		bpf_probe_read_kernel(ports, sizeof(ports), ip + (words & 15) * 4);
	} else if (protocol == ETH_P_IPV6) {
		const struct ipv6hdr___sl *v6 = ip;

		if (BPF_CORE_READ(v6, nexthdr) != IPPROTO_TCP)
			return false;
		BPF_CORE_READ_INTO(&e->local, v6, daddr);
		BPF_CORE_READ_INTO(&e->remote, v6, saddr);
		bpf_probe_read_kernel(ports, sizeof(ports), ip + 40);
	} else {
		return false;
	}
	e->remote_port = bpf_ntohs(ports[0]);
	e->local_port = bpf_ntohs(ports[1]);
	return true;
}

static __always_inline void drop_remember(u32 slot)
{
	u32 zero = 0, *last = bpf_map_lookup_elem(&tcp_last, &zero);

	if (last)
		*last = slot;
}

/* Returns the flow of the last segment on this CPU, if this segment belongs to it. */
static __always_inline struct flow_state *drop_last(const struct drop_ends *e, u32 *slot)
{
	u32 zero = 0, *last = bpf_map_lookup_elem(&tcp_last, &zero);
	struct flow_state *st = last ? state_at(*last) : NULL;

	if (!st || READ(st->closed) != OPEN || st->local_port != e->local_port ||
	    st->remote_port != e->remote_port || st->local[1] != *(const u64 *)(e->local + 8) ||
	    st->remote[1] != *(const u64 *)(e->remote + 8))
		return NULL;
	*slot = *last;
	return st;
}

/*
 * Returns the open flow of a socket, or NULL. A connection that is in TIME_WAIT or not yet
 * established has a minisocket, which has no storage.
 */
static __always_inline struct flow_state *drop_flow(struct sock *sk, u32 *slot)
{
	struct flow_state *st = near_state(sk, slot);
	struct tcp_bpf_sock *s;
	u8 state;

	if (st)
		return st;
	state = sk->__sk_common.skc_state;
	if (state == TCP_TIME_WAIT || state == TCP_NEW_SYN_RECV || sk->sk_protocol != IPPROTO_TCP)
		return NULL;
	s = flow_of(sk);
	st = s ? state_at(s->slot) : NULL;
	if (!st || READ(st->closed) != OPEN)
		return NULL;
	*slot = s->slot;
	return st;
}

/* Not static, so that the verifier checks it once instead of per caller. */
__noinline int drop_add(struct flow_state *st, u32 slot, u32 reason)
{
	const u64 one = 1ull << 32;

	if (!st)
		return 0;
	for (u32 i = 1; i < SL_DROPS_PER_FLOW; i++) {
		u64 had = READ(st->drops[i]);

		if (!had)
			had = __sync_val_compare_and_swap(&st->drops[i], 0, one | reason);
		if (!had)
			goto out;
		if ((u32)had == reason) {
			__sync_fetch_and_add(&st->drops[i], one);
			goto out;
		}
	}
	__sync_fetch_and_add(&st->drops[SL_DROPS_PER_FLOW], one);
out:
	touch(st, slot);
	return 0;
}

static __always_inline void drop_total(u32 reason)
{
	u32 line = reason < SL_DROP_REASONS ? reason : 0;
	u32 at = settings.reasons_first + line / SL_FLOW_LINES;
	u64 *to = bpf_map_lookup_elem(&tcp_flows, &at);

	if (to)
		line_add_atomic(to + (line & (SL_FLOW_LINES - 1)) * 8, 0, 1);
}

static __always_inline int drop_of(struct sk_buff *skb, u32 reason, struct sock *sk)
{
	struct flow_state *st = NULL;
	struct drop_ends e;
	u32 slot = 0;

	if (sk)
		st = drop_flow(sk, &slot);
	if (!st && !drop_ends_of(skb, &e))
		return 0;
	if (!st && settings.remember)
		st = drop_last(&e, &slot);
	drop_total(reason);
	return drop_add(st, slot, reason);
}

#endif
