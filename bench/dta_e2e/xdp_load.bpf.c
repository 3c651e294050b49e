// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * xdp_load.bpf.c - packets of reports without a sender's network stack: the kernel runs this on frames of a template
 * that it makes itself (BPF_F_TEST_XDP_LIVE_FRAMES), and each goes out by an interface with the next sequence
 * and key.
 */
#include <stdbool.h>

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 out = 0;  /* the interface */
const volatile __u64 keys = 1; /* a power of two */

__u32 sequence = 0; /* of the next packet, of one report */

#define PACKET	 (14 + 20 + 8) /* Ethernet, IPv4, UDP: docs/dta-wire.md */
#define SEQUENCE (PACKET + 12)
#define KEY	 (PACKET + 32 + 12)

SEC("xdp")
int load(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 n;

	if (data + KEY + 8 > end)
		return XDP_ABORTED;
	n = sequence++;
	*(__u32 *)(data + SEQUENCE) = bpf_htonl(n);
	/* All keys in turn, but far from each other: an odd factor has an inverse. */
	*(__u32 *)(data + KEY + 4) = bpf_htonl((n * 2654435761u) & (keys - 1));
	return bpf_redirect(out, 0);
}
