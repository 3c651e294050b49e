/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* packet.bpf.h - what a frame is: its flow, and what it is on the wire. Include it once. */
#ifndef SL_SOURCE_REPORT_PACKET_BPF_H
#define SL_SOURCE_REPORT_PACKET_BPF_H

#define PORT_VXLAN	 4789 /* RFC 7348 */
#define PORT_VXLAN_LINUX 8472 /* the kernel's own default */
#define PORT_GENEVE	 6081 /* RFC 8926 */

struct packet {
	__u32 transport; /* offset of the transport header; 0: a later fragment */
	__u32 packets, bytes;
	__u8 flags; /* of TCP */
	bool last;  /* of its flow */
};

/* Reads the IP header at `at`. Returns the offset behind it, or 0. */
static __always_inline __u32 packet_ip(struct __sk_buff *skb, __be16 type, __u32 at,
				       struct report_flow_key *k, bool *fragment)
{
	if (type == bpf_htons(ETH_P_IP)) {
		struct iphdr ip;

		if (bpf_skb_load_bytes(skb, at, &ip, sizeof(ip)) || ip.ihl < 5)
			return 0;
		__builtin_memcpy(k->source, &ip.saddr, 4);
		__builtin_memcpy(k->target, &ip.daddr, 4);
		k->protocol = ip.protocol;
		*fragment = ip.frag_off & bpf_htons(0x1fff);
		return at + ip.ihl * 4;
	}
	if (type == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr ip;

		if (bpf_skb_load_bytes(skb, at, &ip, sizeof(ip)))
			return 0;
		__builtin_memcpy(k->source, &ip.saddr, 16);
		__builtin_memcpy(k->target, &ip.daddr, 16);
		k->protocol = ip.nexthdr; /* extension headers count as a protocol */
		k->v6 = 1;
		return at + sizeof(ip);
	}
	return 0;
}

/* Extracts the key of the flow whose IP header is at `at`. False: not a flow. */
static __always_inline bool packet_flow_at(struct __sk_buff *skb, __be16 type, __u32 at,
					   struct report_flow_key *k, struct packet *p)
{
	bool fragment = false;
	__u32 ports;

	at = packet_ip(skb, type, at, k, &fragment);
	if (!at)
		return false;
	if (fragment) /* later ones have no ports: the fragments between two hosts are a flow */
		return true;
	p->transport = at;
	if (k->protocol == IPPROTO_TCP || k->protocol == IPPROTO_UDP ||
	    k->protocol == IPPROTO_SCTP) {
		if (bpf_skb_load_bytes(skb, at, &ports, 4))
			return false;
		k->source_port = ports & 0xffff; /* in network order */
		k->target_port = ports >> 16;
		if (k->protocol == IPPROTO_TCP && !bpf_skb_load_bytes(skb, at + 13, &p->flags, 1))
			p->last = p->flags & 0x05; /* FIN, RST */
	}
	return true;
}

static __always_inline bool packet_flow(struct __sk_buff *skb, struct report_flow_key *k,
					struct packet *p)
{
	return packet_flow_at(skb, skb->protocol, ETH_HLEN, k, p);
}

/* ---- tunnels ---- */

/* The packet within a VXLAN or Geneve packet: offset of its IP header, and its type; or 0. */
static __always_inline __u32 packet_inner(struct __sk_buff *skb, const struct report_flow_key *k,
					  const struct packet *p, __be16 *type)
{
	const __be16 port = k->target_port;
	__u32 at = p->transport + sizeof(struct udphdr);
	__u8 h[4];

	if (!p->transport || k->protocol != IPPROTO_UDP ||
	    bpf_skb_load_bytes(skb, at, h, sizeof(h)))
		return 0;
	if (port == bpf_htons(PORT_VXLAN) || port == bpf_htons(PORT_VXLAN_LINUX)) {
		if (!(h[0] & 0x08)) /* without a VNI */
			return 0;
		*type = bpf_htons(ETH_P_TEB);
		at += 8;
	} else if (port == bpf_htons(PORT_GENEVE)) {
		if (h[0] >> 6) /* version 0 */
			return 0;
		__builtin_memcpy(type, h + 2, 2);
		at += 8 + (h[0] & 0x3f) * 4;
	} else {
		return 0;
	}
	if (*type != bpf_htons(ETH_P_TEB))
		return at;
	if (bpf_skb_load_bytes(skb, at + 2 * ETH_ALEN, type, sizeof(*type)))
		return 0;
	return at + ETH_HLEN;
}

/* ---- segments ---- */

/* Bytes before the data that segmentation splits. within: there is a packet within a tunnel. */
static __always_inline __u32 packet_headers(struct __sk_buff *skb, const struct report_flow_key *k,
					    const struct packet *p, bool *within)
{
	struct report_flow_key inner = {};
	struct packet in = {};
	__u8 protocol = k->protocol, words = 0;
	__u32 at = p->transport, inside;
	__be16 type = 0;

	inside = packet_inner(skb, k, p, &type);
	if (inside && packet_flow_at(skb, type, inside, &inner, &in) && in.transport) {
		protocol = inner.protocol;
		at = in.transport;
		*within = true;
	}
	if (protocol == IPPROTO_UDP)
		return at + sizeof(struct udphdr);
	if (protocol == IPPROTO_TCP && !bpf_skb_load_bytes(skb, at + 12, &words, 1))
		return at + (words >> 4) * 4;
	return at;
}

/* A coalesced frame is as many packets on the wire, each with the headers. */
static __always_inline void packet_size(struct __sk_buff *skb, const struct report_flow_key *k,
					struct packet *p)
{
	bool within = false;
	__u32 headers;

	p->packets = 1;
	p->bytes = skb->len;
	if (!skb->gso_size)
		return;
	headers = packet_headers(skb, k, p, &within);
	/* A virtual machine's frame may leave the count to the kernel. */
	p->packets = skb->gso_segs;
	if (!p->packets && skb->len > headers)
		p->packets = (skb->len - headers + skb->gso_size - 1) / skb->gso_size;
	if (!p->packets)
		p->packets = 1;
	/*
	 * On the way out, the kernel has computed it. But that of Linux 6.1 takes the outer headers
	 * of a packet that it forwards for all, so that tunnels that we know are better ours.
	 */
	p->bytes = skb->wire_len > skb->len && !within ? skb->wire_len
						       : skb->len + (p->packets - 1) * headers;
}

#endif
