// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * net.bpf.c - records each TCP segment that leaves or reaches a network device, with its byte range
 * and time.
 *
 * Outgoing segments are recorded at net_dev_start_xmit, directly before the driver: a TSO segment
 * is still whole, unless the stack has split it. Incoming segments are recorded where the driver
 * hands over a packet (the hooks of layer.bpf.c), before GRO. There, a packet's header may be in a
 * page that a program cannot read; the time is then kept by the skb's address, and the header is
 * read after GRO (netif_receive_skb), when it is in place. A packet that GRO merged into another
 * one no longer has a header; the reader can tell from the byte range that both arrived together.
 *
 * A segment crosses many devices of a host (veth, bridge, bond). It is recorded at the named
 * devices or, by default, at those with a parent, which belong to the hardware or a hypervisor. The
 * addresses are therefore those on the wire, and the socket is unknown, so filters can only use
 * addresses, ports and sampling.
 */
#include <sidelight/nic.h>

#include <linux/ip.h>
#include <linux/ipv6.h>

#include "common.bpf.h"
#include "line.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define IN_BITS	  12
#define ETH_IP	  0x0800
#define ETH_IPV6  0x86dd
#define ETH_VLAN  0x8100
#define IP_OFFSET 0x3fff /* fragment offset and the more-fragments flag */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct device {
	struct device *parent;
};
struct net_device {
	char name[16];
	int ifindex;
	possible_net_t nd_net;
	struct device dev;
};
struct skb_shared_info {
	unsigned short gso_size;
	unsigned short gso_segs;
};
#pragma clang attribute pop

volatile const struct tcp_net_settings settings;

struct element {
	u64 word[SL_NIC_WORDS];
};

/* The region: header, hot line, ring. */
MAP(net_ring, ARRAY, BPF_F_MMAPABLE, 1, u32, struct element);

/* Packets whose header is not yet in place, by the address of their skb. */
struct late {
	u64 skb, time;
};
MAP(net_late, ARRAY, 0, 1 << IN_BITS, u32, struct late);

struct parsed {
	u8 source[16], destination[16];
	u32 flags, bytes;
	u16 ip_id;
	struct tcphdr t;
	u8 option[4]; /* TCP option; expected to be NOP, NOP, timestamp, 10 */
	__be32 tsval, tsecr;
};

static __always_inline void count_cell(u32 cell)
{
	u32 at = TCP_NET_HOT_ELEMENT;
	struct element *hot = bpf_map_lookup_elem(&net_ring, &at);

	if (hot)
		line_add_atomic(hot->word, cell, 1);
}

static __always_inline bool device_wanted(const struct net_device *dev)
{
	char name[16] = {};

	if (!settings.devices)
		return BPF_CORE_READ(dev, dev.parent) != NULL;
	bpf_probe_read_kernel_str(name, sizeof(name), dev->name);
	for (u32 i = 0; i < TCP_NET_DEVICES; i++) {
		const volatile u64 *want = (const volatile u64 *)settings.device[i];
		const u64 *have = (const u64 *)name;

		if (i < settings.devices && want[0] == have[0] && want[1] == have[1])
			return true;
	}
	return false;
}

enum found { OTHER, TCP, NO_HEADER };

/*
 * ip: the IP header, whose first `there` bytes are contiguous; whole: number of bytes from ip to
 * the end, for packets without a length (BIG TCP).
 */
static __always_inline enum found parse_ip(const void *ip, u32 there, u32 whole, u8 version,
					   struct parsed *p)
{
	u32 head, length, size = 20;
	u8 buffer[40];

	p->flags = 0;
	p->ip_id = 0;
	if (version == 4) {
		struct iphdr *h = (void *)buffer;

		if (there < sizeof(*h) || bpf_probe_read_kernel(h, sizeof(*h), ip))
			return NO_HEADER;
		if (h->version != 4 || h->protocol != IPPROTO_TCP)
			return OTHER;
		if (h->frag_off & bpf_htons(IP_OFFSET)) {
			count_cell(SL_NIC_FRAGMENTS);
			return OTHER;
		}
		head = h->ihl * 4;
		length = h->tot_len ? bpf_ntohs(h->tot_len) : whole;
		p->ip_id = bpf_ntohs(h->id);
		key_v4(p->source, h->saddr);
		key_v4(p->destination, h->daddr);
	} else {
		struct ipv6hdr *h = (void *)buffer;

		if (there < sizeof(*h) || bpf_probe_read_kernel(h, sizeof(*h), ip))
			return NO_HEADER;
		if (h->nexthdr != IPPROTO_TCP) {
			/* These extension headers begin with the type of the next header. */
			if ((h->nexthdr == 0 || h->nexthdr == 43 || h->nexthdr == 44 ||
			     h->nexthdr == 60) &&
			    !bpf_probe_read_kernel(&p->t, 1, (const char *)ip + sizeof(*h)) &&
			    *(const u8 *)&p->t == IPPROTO_TCP)
				count_cell(SL_NIC_FRAGMENTS);
			return OTHER;
		}
		head = sizeof(*h);
		length = h->payload_len ? bpf_ntohs(h->payload_len) + head : whole;
		__builtin_memcpy(p->source, &h->saddr, 16);
		__builtin_memcpy(p->destination, &h->daddr, 16);
		p->flags |= SL_NIC_V6;
	}
	if (head < 20 || there < head + size ||
	    bpf_probe_read_kernel(&p->t, size, (const char *)ip + head))
		return NO_HEADER;
	size = p->t.doff * 4;
	if (size < 20 || length < head + size)
		return OTHER; /* TCP itself refuses such a header */
	p->bytes = length - head - size;
	if (size >= 32 && there >= head + 32 &&
	    !bpf_probe_read_kernel(&p->option, 12, (const char *)ip + head + 20) &&
	    p->option[0] == 1 && p->option[1] == 1 && p->option[2] == 8 && p->option[3] == 10)
		p->flags |= SL_NIC_HAS_TS;
	if (p->t.syn)
		p->flags |= SL_NIC_SYN;
	if (p->t.fin)
		p->flags |= SL_NIC_FIN;
	if (p->t.rst)
		p->flags |= SL_NIC_RST;
	return TCP;
}

static __always_inline bool segment_wanted(const struct parsed *p, bool out, u32 netns)
{
	const struct tcp_kernel_filter *f = filter_now();
	struct tcp_flow_key key = {.netns = netns};
	u16 source = bpf_ntohs(p->t.source), destination = bpf_ntohs(p->t.dest);

	if (!f)
		return false;
	__builtin_memcpy(key.local, out ? p->source : p->destination, 16);
	__builtin_memcpy(key.remote, out ? p->destination : p->source, 16);
	key.local_port = out ? source : destination;
	key.remote_port = out ? destination : source;
	return flow_wanted(f, &key);
}

static __noinline int record_segment(const struct sk_buff *skb, const struct net_device *dev,
				     const struct parsed *p, u64 time, u32 more)
{
	u32 at = TCP_NET_HOT_ELEMENT, seq, end, flags;
	const struct skb_shared_info *shared;
	u32 netns, gso_size, gso_segs;
	struct element *hot, *e;
	u64 number, tag, *w;

	if (!skb || !dev || !p)
		return 0;
	netns = BPF_CORE_READ(dev, nd_net.net, ns.inum);
	if (!segment_wanted(p, more & SL_NIC_OUT, netns))
		return 0;
	hot = bpf_map_lookup_elem(&net_ring, &at);
	if (!hot)
		return 0;
	number = line_add_atomic(hot->word, SL_NIC_HEAD, 1);
	at = TCP_NET_FIRST_ELEMENT + (number & settings.ring_mask);
	e = bpf_map_lookup_elem(&net_ring, &at);
	if (!e)
		return 0;
	flags = p->flags | more;
	seq = bpf_ntohl(p->t.seq);
	end = seq + p->bytes + !!(flags & SL_NIC_SYN) + !!(flags & SL_NIC_FIN);
	shared = (const void *)(BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, end));
	gso_size = BPF_CORE_READ(shared, gso_size);
	gso_segs = BPF_CORE_READ(shared, gso_segs);
	tag = number << 8 | flags;
	w = e->word;
	w[SL_NIC_TAG] = tag;
	w[SL_NIC_TIME_NS] = time;
	w[SL_NIC_SEQ_END] = seq | (u64)end << 32;
	w[SL_NIC_ACK] = bpf_ntohl(p->t.ack_seq) | (u64)bpf_ntohs(p->t.window) << 32 |
			(u64)p->ip_id << 48;
	w[SL_NIC_TIMESTAMPS] = flags & SL_NIC_HAS_TS
				       ? bpf_ntohl(p->tsval) | (u64)bpf_ntohl(p->tsecr) << 32
				       : 0;
	w[SL_NIC_PORTS] = bpf_ntohs(p->t.source) | (u64)bpf_ntohs(p->t.dest) << 16 |
			  (u64)(gso_size & 0xffff) << 32 | (u64)(gso_segs & 0xffff) << 48;
	w[SL_NIC_DEVICE] = netns | (u64)(u32)BPF_CORE_READ(dev, ifindex) << 32;
	w[7] = sl_folded_check((const uint64_t *)w);
	w[SL_NIC_TAG_AGAIN] = tag;
	w[SL_NIC_SOURCE] = ((const u64 *)p->source)[0];
	w[SL_NIC_SOURCE + 1] = ((const u64 *)p->source)[1];
	w[SL_NIC_DESTINATION] = ((const u64 *)p->destination)[0];
	w[SL_NIC_DESTINATION + 1] = ((const u64 *)p->destination)[1];
	w[SL_NIC_BYTES] = p->bytes;
	w[SL_NIC_RESERVED] = 0;
	w[15] = sl_folded_check((const uint64_t *)w + 8);
	if (more & SL_NIC_MERGED)
		line_add_atomic(hot->word, SL_NIC_LATE, 1);
	return 0;
}

static __always_inline int handle_found(enum found found, const struct sk_buff *skb,
					const struct net_device *dev, const struct parsed *p,
					u64 time, u32 more)
{
	if (found == TCP)
		record_segment(skb, dev, p, time, more);
	else if (found == NO_HEADER)
		count_cell(SL_NIC_HEADLESS);
	return 0;
}

/* ---- output ---- */

SEC("?tp_btf/net_dev_start_xmit")
int BPF_PROG(net_out, struct sk_buff *skb, struct net_device *dev)
{
	u64 now = bpf_ktime_get_ns();
	u32 at = skb->network_header, before;
	unsigned char *head = skb->head;
	struct parsed p = {};
	u8 version = 0;

	if (at == 0xffff || !device_wanted(dev) || bpf_probe_read_kernel(&version, 1, head + at))
		return 0;
	version >>= 4;
	if (version != 4 && version != 6)
		return 0;
	before = (u32)(head + at - skb->data);
	if (before > skb->len)
		return 0;
	return handle_found(parse_ip(head + at, skb->len - skb->data_len - before,
				     skb->len - before, version, &p),
			    skb, dev, &p, now, SL_NIC_OUT);
}

/* ---- input ---- */

static __always_inline struct late *late_place(const void *skb)
{
	u32 i = address_hash(skb) >> (32 - IN_BITS);

	return bpf_map_lookup_elem(&net_late, &i);
}

/* data points to the IP header or to a VLAN tag. */
static __always_inline enum found parse_packet(struct sk_buff *skb, struct parsed *p)
{
	u32 skip = 0, there = skb->len - skb->data_len;
	unsigned char *data = skb->data;
	__be16 protocol = skb->protocol;

	if (protocol == bpf_htons(ETH_VLAN)) {
		if (there < 4 || bpf_probe_read_kernel(&protocol, 2, data + 2))
			return NO_HEADER;
		skip = 4;
	}
	if (protocol != bpf_htons(ETH_IP) && protocol != bpf_htons(ETH_IPV6))
		return OTHER;
	if (there < skip)
		return NO_HEADER;
	return parse_ip(data + skip, there - skip, skb->len - skip,
			protocol == bpf_htons(ETH_IP) ? 4 : 6, p);
}

static __always_inline int net_in(struct sk_buff *skb)
{
	u64 now = bpf_ktime_get_ns();
	struct net_device *dev = skb->dev;
	struct parsed p = {};
	struct late *e;

	if (!dev || !device_wanted(dev))
		return 0;
	e = late_place(skb);
	if (!e)
		return 0;
	switch (parse_packet(skb, &p)) {
	case TCP:
		record_segment(skb, dev, &p, now, 0);
		/* fall through */
	default:
		if (e->skb == (u64)skb)
			e->skb = 0;
		break;
	case NO_HEADER:
		e->skb = (u64)skb;
		e->time = now;
		break;
	}
	return 0;
}

DRIVER_HOOKS(net, net_in(skb))

/* Runs after GRO, when the header of a late packet is in place. */
SEC("?tp_btf/netif_receive_skb") int BPF_PROG(net_behind, struct sk_buff *skb)
{
	struct late *e = late_place(skb);
	struct net_device *dev;
	struct parsed p = {};

	if (!e || e->skb != (u64)skb)
		return 0;
	e->skb = 0;
	dev = skb->dev;
	if (!dev)
		return 0;
	return handle_found(parse_packet(skb, &p), skb, dev, &p, e->time, SL_NIC_MERGED);
}
