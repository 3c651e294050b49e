// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* xdp_sink.bpf.c - counts RoCEv2 frames by queue pair, whether each follows the one before, and
 * drops them. */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "xdp_sink.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SINK_PAIRS);
	__type(key, __u32);
	__type(value, struct sink_pair);
} pairs SEC(".maps");

SEC("xdp.frags")
int sink(struct xdp_md *ctx)
{
	const __u8 *f = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct sink_pair *p;
	__u32 number, psn;

	if (f + 54 > end || *(const __u16 *)(f + 12) != bpf_htons(0x0800) || f[23] != 17 ||
	    *(const __u16 *)(f + 36) != bpf_htons(4791))
		return XDP_PASS;
	number = bpf_ntohl(*(const __u32 *)(f + 46)) & (SINK_PAIRS - 1);
	psn = bpf_ntohl(*(const __u32 *)(f + 50)) & 0xffffff;
	p = bpf_map_lookup_elem(&pairs, &number);
	if (!p)
		return XDP_DROP;
	p->gaps += p->frames && psn != p->next;
	p->next = (psn + 1) & 0xffffff;
	p->frames++;
	return XDP_DROP;
}
