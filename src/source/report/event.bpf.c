// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * event.bpf.c - counts drops and retransmissions of an interface's flows with tracepoints, in a map
 * that report.bpf.c reports. It is a separate object because some kernels refuse it.
 */
#include "../tcp/bpf/kernel.h"
#include "../tcp/bpf/map.h"

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#include "shared.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define IPPROTO_UDP  17
#define IPPROTO_SCTP 132

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct net_device {
	int ifindex;
	possible_net_t nd_net;
};
struct dst_entry {
	struct net_device *dev;
};
struct skb_shared_info {
	unsigned short gso_segs;
};
struct sk_buff___more {
	int skb_iif;
	unsigned long _skb_refdst;
};
struct sock___more {
	struct dst_entry *sk_dst_cache;
};
struct inet_sock___more {
	__be16 inet_sport;
};
#pragma clang attribute pop

const volatile struct report_event_config config = {};

MAP(events, LRU_HASH, 0, 1, struct report_event_key, struct report_event);
__u32 interface = 0; /* index of the interface, set by the loader */
__u64 entered = 0;   /* number of entries inserted into events */
/* dropped frames by reason; the last element counts all further reasons */
MAP(reasons, ARRAY, 0, RPT_REASONS, __u32, __u64);

static __always_inline bool of_interface(const struct net_device *dev, int other)
{
	const int index = dev ? BPF_CORE_READ(dev, ifindex) : 0;

	return index && BPF_CORE_READ(dev, nd_net.net, ns.inum) == config.netns &&
	       (index == (int)interface || other == (int)interface);
}

static __always_inline struct net_device *device_of(const struct sk_buff *skb)
{
	struct net_device *dev = BPF_CORE_READ(skb, dev);
	unsigned long dst;

	if (dev)
		return dev;
	/*
	 * An outgoing packet that has not reached a device. The lowest bit of _skb_refdst is a
	 * flag; the rest is the address of the dst_entry.
	 */
	dst = BPF_CORE_READ((struct sk_buff___more *)skb, _skb_refdst) & ~1ul;
	return dst ? BPF_CORE_READ((struct dst_entry *)dst, dev) : NULL;
}

static __always_inline struct report_event *event_of(const struct report_event_key *k)
{
	struct report_event first = {}, *e = bpf_map_lookup_elem(&events, k);

	if (e)
		return e;
	if (!bpf_map_update_elem(&events, k, &first, BPF_NOEXIST))
		__sync_fetch_and_add(&entered, 1);
	return bpf_map_lookup_elem(&events, k);
}

/* ---- drops ---- */

/*
 * Extracts the flow of the IP header at `at`. Returns the number of bytes starting there, or 0 if
 * this is not a flow.
 */
static __always_inline u32 flow_at(const struct sk_buff *skb, struct report_flow_key *k)
{
	const u16 network = BPF_CORE_READ(skb, network_header);
	const unsigned char *head = BPF_CORE_READ(skb, head), *at = head + network;
	const long offset = at - BPF_CORE_READ(skb, data);
	const u32 len = BPF_CORE_READ(skb, len);
	const u16 type = BPF_CORE_READ(skb, protocol);
	bool ports = true;
	struct iphdr ip;
	struct ipv6hdr ip6;
	u16 port[2];

	if (!network || network == 0xffff)
		return 0;
	if (type == bpf_htons(ETH_P_IP)) {
		if (bpf_probe_read_kernel(&ip, sizeof(ip), at) || ip.version != 4 || ip.ihl < 5)
			return 0;
		__builtin_memcpy(k->source, &ip.saddr, 4);
		__builtin_memcpy(k->target, &ip.daddr, 4);
		k->protocol = ip.protocol;
		ports = !(ip.frag_off & bpf_htons(0x1fff));
		at += ip.ihl * 4;
	} else if (type == bpf_htons(ETH_P_IPV6)) {
		if (bpf_probe_read_kernel(&ip6, sizeof(ip6), at) || ip6.version != 6)
			return 0;
		__builtin_memcpy(k->source, &ip6.saddr, 16);
		__builtin_memcpy(k->target, &ip6.daddr, 16);
		k->protocol = ip6.nexthdr;
		k->v6 = 1;
		at += sizeof(ip6);
	} else {
		return 0;
	}
	if (ports && (k->protocol == IPPROTO_TCP || k->protocol == IPPROTO_UDP ||
		      k->protocol == IPPROTO_SCTP)) {
		if (bpf_probe_read_kernel(port, sizeof(port), at))
			return 0;
		k->source_port = port[0];
		k->target_port = port[1];
	}
	return len - offset; /* does not depend on which header skb->data points to */
}

SEC("?tp_btf/kfree_skb")
int BPF_PROG(event_drop, struct sk_buff *skb, void *location, u32 reason)
{
	const int arrived_by = BPF_CORE_READ((struct sk_buff___more *)skb, skb_iif);
	struct report_event_key k = {.reason = reason};
	struct skb_shared_info *shared;
	u32 bytes, segments, at;
	struct report_event *e;
	u64 *frames;

	if (!of_interface(device_of(skb), arrived_by))
		return 0;
	bytes = flow_at(skb, &k.flow);
	if (!bytes || (k.flow.protocol == IPPROTO_UDP && k.flow.target_port == config.port &&
		       k.flow.source_port == config.source_port))
		return 0;
	shared = (void *)(BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, end));
	segments = BPF_CORE_READ(shared, gso_segs);
	e = event_of(&k);
	if (e) {
		__sync_fetch_and_add(&e->bytes, bytes);
		__sync_fetch_and_add(&e->packets, segments ? segments : 1);
	}
	at = reason < RPT_REASONS ? reason : RPT_REASONS - 1;
	frames = bpf_map_lookup_elem(&reasons, &at);
	if (frames)
		__sync_fetch_and_add(frames, 1);
	return 0;
}

/* ---- retransmissions ---- */

static __always_inline bool is_mapped(const u8 a[16])
{
	return !*(const u64 *)a && *(const u32 *)(a + 8) == bpf_htonl(0xffff);
}

/* Uses the sums kept by the socket, because newer kernels have no event for tail loss probes. */
static __always_inline int note_retransmissions(const struct sock *sk)
{
	const struct dst_entry *dst = BPF_CORE_READ((struct sock___more *)sk, sk_dst_cache);
	struct report_event_key k = {.flow = {.protocol = IPPROTO_TCP}};
	const struct tcp_sock *tcp = (void *)sk;
	struct report_event *e;

	if (!of_interface(dst ? BPF_CORE_READ(dst, dev) : NULL, 0))
		return 0;
	if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET6)
		BPF_CORE_READ_INTO((struct in6_addr *)k.flow.target, sk, __sk_common.skc_v6_daddr);
	/* An IPv6 socket may have an IPv4 connection, whose packets have an IPv4 key. */
	k.flow.v6 = BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET6 &&
		    !is_mapped(k.flow.target);
	if (k.flow.v6) {
		BPF_CORE_READ_INTO((struct in6_addr *)k.flow.source, sk,
				   __sk_common.skc_v6_rcv_saddr);
	} else {
		__builtin_memset(k.flow.target, 0, sizeof(k.flow.target));
		BPF_CORE_READ_INTO((__be32 *)k.flow.source, sk, __sk_common.skc_rcv_saddr);
		BPF_CORE_READ_INTO((__be32 *)k.flow.target, sk, __sk_common.skc_daddr);
	}
	/* A closed socket still has this port, but no skc_num. */
	k.flow.source_port = BPF_CORE_READ((struct inet_sock___more *)sk, inet_sport);
	k.flow.target_port = BPF_CORE_READ(sk, __sk_common.skc_dport);
	e = event_of(&k);
	if (e) {
		e->bytes = BPF_CORE_READ(tcp, bytes_retrans);
		e->packets = BPF_CORE_READ(tcp, total_retrans);
	}
	return 0;
}

SEC("?tp_btf/tcp_retransmit_skb")
int BPF_PROG(event_retransmission, struct sock *sk)
{
	return note_retransmissions(sk);
}

SEC("?tp_btf/tcp_destroy_sock")
int BPF_PROG(event_end, struct sock *sk)
{
	return BPF_CORE_READ((struct tcp_sock *)sk, total_retrans) ? note_retransmissions(sk) : 0;
}
