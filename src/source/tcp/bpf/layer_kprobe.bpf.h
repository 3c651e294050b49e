/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * layer_kprobe.bpf.h - of layer.bpf.c: boundaries by kprobe, where the kernel has no fentry. They
 * stamp by address alone: the verifier does not trust a kprobe's pointers.
 */
#ifndef SL_SOURCE_TCP_BPF_LAYER_KPROBE_BPF_H
#define SL_SOURCE_TCP_BPF_LAYER_KPROBE_BPF_H

#include <asm/ptrace.h>

SEC("?kprobe/ip_rcv") int BPF_KPROBE(ip_rcv_v4_kp, const void *skb)
{
	return mac_ip(skb);
}

SEC("?kprobe/ipv6_rcv") int BPF_KPROBE(ip_rcv_v6_kp, const void *skb)
{
	return mac_ip(skb);
}

static __always_inline int mac_ip_list_read(const struct list_head *head)
{
	const struct list_head *p = BPF_CORE_READ(head, next);

	for (int i = 0; i < 64 && p && p != head; i++) {
		mac_ip(p);
		p = BPF_CORE_READ(p, next);
	}
	return 0;
}

SEC("?kprobe/ip_list_rcv") int BPF_KPROBE(ip_list_v4_kp, const struct list_head *head)
{
	return mac_ip_list_read(head);
}

SEC("?kprobe/ipv6_list_rcv") int BPF_KPROBE(ip_list_v6_kp, const struct list_head *head)
{
	return mac_ip_list_read(head);
}

SEC("?kprobe/tcp_v4_rcv") int BPF_KPROBE(tcp_rcv_v4_kp, const void *skb)
{
	return ip_tcp(skb);
}

SEC("?kprobe/tcp_v6_rcv") int BPF_KPROBE(tcp_rcv_v6_kp, const void *skb)
{
	return ip_tcp(skb);
}

SEC("?kprobe/__ip_queue_xmit") int BPF_KPROBE(xmit_v4_kp, const void *sk, const void *skb)
{
	return tcp_ip(skb, sk);
}

SEC("?kprobe/inet6_csk_xmit") int BPF_KPROBE(xmit_v6_kp, const void *sk, const void *skb)
{
	return tcp_ip(skb, sk);
}

#endif
