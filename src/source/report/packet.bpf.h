/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * packet.bpf.h - determines a frame's flow, and its number of packets and bytes on the wire.
 * Include it only once.
 */
#ifndef SL_SOURCE_REPORT_PACKET_BPF_H
#define SL_SOURCE_REPORT_PACKET_BPF_H

#define PORT_VXLAN	 4789 /* RFC 7348 */
#define PORT_VXLAN_LINUX 8472 /* default port of Linux */
#define PORT_GENEVE	 6081 /* RFC 8926 */

struct packet {
	__u32 transport; /* offset of the transport header; 0 for a fragment other than the first */
	__u32 packets, bytes;
	__u8 flags; /* TCP flags */
	bool last;  /* this is the last packet of its flow */
};

/* Reads the IP header at `at`. Returns the offset after it, or 0. */
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
		k->protocol = ip.nexthdr; /* an extension header counts as a protocol */
		k->v6 = 1;
		return at + sizeof(ip);
	}
	return 0;
}

/* Extracts the key of the flow whose IP header is at `at`. Returns false if it is not a flow. */
static __always_inline bool packet_flow_at(struct __sk_buff *skb, __be16 type, __u32 at,
					   struct report_flow_key *k, struct packet *p)
{
	bool fragment = false;
	__u32 ports;

	at = packet_ip(skb, type, at, k, &fragment);
	if (!at)
		return false;
	/* later fragments have no ports, so all fragments between two hosts form one flow */
	if (fragment)
		return true;
	p->transport = at;
	if (k->protocol == IPPROTO_TCP || k->protocol == IPPROTO_UDP ||
	    k->protocol == IPPROTO_SCTP) {
		if (bpf_skb_load_bytes(skb, at, &ports, 4))
			return false;
		k->source_port = ports & 0xffff; /* ports stay in network byte order */
		k->target_port = ports >> 16;
		if (k->protocol == IPPROTO_TCP && !bpf_skb_load_bytes(skb, at + 13, &p->flags, 1))
			p->last = p->flags & 0x05; /* FIN or RST */
	}
	return true;
}

static __always_inline bool packet_flow(struct __sk_buff *skb, struct report_flow_key *k,
					struct packet *p)
{
	return packet_flow_at(skb, skb->protocol, ETH_HLEN, k, p);
}

/* ---- tunnels ---- */

/*
 * Finds the packet inside a VXLAN or Geneve packet. Returns the offset of its IP header and sets
 * *type, or returns 0.
 */
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
		if (!(h[0] & 0x08)) /* the header has no VNI */
			return 0;
		*type = bpf_htons(ETH_P_TEB);
		at += 8;
	} else if (port == bpf_htons(PORT_GENEVE)) {
		if (h[0] >> 6) /* not version 0 */
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

/*
 * Returns the number of bytes before the data that segmentation splits. within: the frame contains
 * a packet in a tunnel.
 */
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

/* A coalesced frame stands for several packets on the wire, each with its own headers. */
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
	/* For a frame from a virtual machine, the kernel may have to compute the count. */
	p->packets = skb->gso_segs;
	if (!p->packets && skb->len > headers)
		p->packets = (skb->len - headers + skb->gso_size - 1) / skb->gso_size;
	if (!p->packets)
		p->packets = 1;
	/*
	 * On output, the kernel has already computed the size. But Linux 6.1 counts only the outer
	 * headers of a packet that it forwards, so the size computed here is better for known
	 * tunnels.
	 */
	p->bytes = skb->wire_len > skb->len && !within ? skb->wire_len
						       : skb->len + (p->packets - 1) * headers;
}

#endif
