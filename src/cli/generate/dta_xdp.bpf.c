// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * dta_xdp.bpf.c - copies the generator's next frame into a frame of the kernel
 * (BPF_F_TEST_XDP_LIVE_FRAMES) and redirects it to an interface.
 */
#include <stdbool.h>

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "dta_xdp.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 out = 0; /* index of the interface */
const volatile __u32 longest = GD_XDP_FRAME_MAX;

__u32 next = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the loader sets max_entries and value_size */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct cli_dta_xdp_frame) + GD_XDP_FRAME_MAX);
} frames SEC(".maps");

SEC("xdp")
int send(struct xdp_md *ctx)
{
	const __u32 at = next++;
	struct cli_dta_xdp_frame *f = bpf_map_lookup_elem(&frames, &at);
	const __u32 have = ctx->data_end - ctx->data;
	__u32 bytes;

	if (!f)
		return XDP_DROP;
	bytes = f->bytes;
	if (bytes < GD_XDP_FRAME_MIN || bytes > longest)
		return XDP_DROP;
	if (bytes != have && bpf_xdp_adjust_tail(ctx, (int)bytes - (int)have))
		return XDP_DROP;
	if (bpf_xdp_store_bytes(ctx, 0, f->data, bytes))
		return XDP_DROP;
	return bpf_redirect(out, 0);
}
