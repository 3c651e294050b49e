// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * xdp_load.bpf.c - sends packets of reports without a network stack. The kernel runs this program
 * on frames that it makes from a template (BPF_F_TEST_XDP_LIVE_FRAMES); each is sent on an
 * interface with the next sequence number and the next keys.
 */
#include <stdbool.h>

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 out = 0;  /* the interface */
const volatile __u64 keys = 1; /* a power of two */
const volatile __u32 pack = 1; /* reports per packet */

/* The frame of one report. Receivers may have modified it, and the kernel reuses its page. */
const volatile __u64 frame[13] = {};

__u32 sequence = 0; /* of the next report */

#define PACKET	 (14 + 20 + 8) /* Ethernet, IPv4, UDP: docs/dta-wire.md */
#define SEQUENCE (PACKET + 12)
#define KEY	 (PACKET + 32 + 12)
#define ONE	 (KEY + 16) /* bytes of a frame of one report */
#define PACK_MAX 88	    /* in 1,472 bytes */

SEC("xdp")
int load(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 n;

	if (pack == 1 && end - data != ONE) {
		if (bpf_xdp_adjust_tail(ctx, ONE - (int)(end - data)))
			return XDP_ABORTED;
		data = (void *)(long)ctx->data;
		end = (void *)(long)ctx->data_end;
	}
	if (data + KEY + 8 > end)
		return XDP_ABORTED;
	if (pack == 1 && data + ONE <= end) {
		for (int i = 0; i < 12; i++)
			*(__u64 *)(data + 8 * i) = frame[i];
		*(__u32 *)(data + 96) = (__u32)frame[12];
		*(__u16 *)(data + 100) = (__u16)(frame[12] >> 32);
	}
	n = sequence;
	sequence += pack;
	*(__u32 *)(data + SEQUENCE) = bpf_htonl(n);
	data += KEY;
	/* An odd factor permutes the keys, so that neighbours are far apart. */
	for (__u32 i = 0; i < PACK_MAX && i < pack && data + 8 <= end; i++, n++, data += 16)
		*(__u32 *)(data + 4) = bpf_htonl((n * 2654435761u) & (keys - 1));
	return bpf_redirect(out, 0);
}
