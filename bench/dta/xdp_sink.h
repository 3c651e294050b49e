/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* xdp_sink.h - what xdp_sink.bpf.c and xdp_sink.c share */
#ifndef BENCH_DTA_XDP_SINK_H
#define BENCH_DTA_XDP_SINK_H

#define SINK_PAIRS 64u
#define SINK_FIRST 0x100u /* queue pair number of the first */

struct sink_pair {
	__u64 frames, gaps;
	__u32 next, zero;
};

#endif
