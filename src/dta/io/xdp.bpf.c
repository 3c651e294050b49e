// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * xdp.bpf.c - redirects reports to the AF_XDP socket of their receive queue and passes everything
 * else to the kernel: fragments, options and extension headers, VLANs, long frames, packets to
 * other hosts. Passing is always safe, because reports in passed packets arrive on the UDP socket.
 */
#include <stdbool.h>

#include <linux/bpf.h>

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "xdp_shared.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct dta_xdp_config config = {};

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1); /* one entry per queue; the loader sets the number */
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

static __always_inline bool our_mac(const struct ethhdr *eth)
{
	for (int i = 0; i < ETH_ALEN; i++)
		if (eth->h_dest[i] != config.mac[i])
			return false;
	return true;
}

static __always_inline bool our_four(__be32 address)
{
	for (__u32 i = 0; i < XDP_ADDRESSES && i < config.n4; i++)
		if (address == config.four[i])
			return true;
	return false;
}

static __always_inline bool our_six(const __be32 *address)
{
	for (__u32 i = 0; i < XDP_ADDRESSES && i < config.n6; i++)
		if (address[3] == config.six[i][3] && address[2] == config.six[i][2] &&
		    address[1] == config.six[i][1] && address[0] == config.six[i][0])
			return true;
	return false;
}

/* xdp.frags, because interfaces with a large MTU refuse other programs. */
SEC("xdp.frags")
int reports(struct xdp_md *ctx)
{
	const void *end = (void *)(long)ctx->data_end;
	const struct ethhdr *eth = (void *)(long)ctx->data;
	const struct udphdr *udp;

	if ((void *)(eth + 1) > end || !our_mac(eth) || bpf_xdp_get_buff_len(ctx) > config.longest)
		return XDP_PASS;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		const struct iphdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl != 5 ||
		    ip->frag_off & bpf_htons(0x3fff) || ip->protocol != IPPROTO_UDP ||
		    !our_four(ip->daddr))
			return XDP_PASS;
		udp = (void *)(ip + 1);
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		const struct ipv6hdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end || ip->version != 6 || ip->nexthdr != IPPROTO_UDP ||
		    !our_six(ip->daddr.in6_u.u6_addr32))
			return XDP_PASS;
		udp = (void *)(ip + 1);
	} else {
		return XDP_PASS;
	}
	if ((void *)(udp + 1) > end || udp->dest != config.port)
		return XDP_PASS;
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}
