/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * layer_shared.h - definitions shared by layer.bpf.c and user space: the layout of a region of
 * sidelight/layer.h in the map, and the record of a request or segment.
 */
#ifndef SL_SOURCE_TCP_BPF_LAYER_SHARED_H
#define SL_SOURCE_TCP_BPF_LAYER_SHARED_H

#include <sidelight/layer.h>

#include "shared.h"

/*
 * The elements of the map layer_table have SL_LAYER_SLOT_SIZE bytes each. In this order: one with
 * the header and the hot line, one per CPU (its first lines count losses), one per flow, and one
 * per group.
 */
#define TCP_LAYERS_HOT_WORD	 (SL_HEADER_SIZE / 8)
#define TCP_LAYERS_FIRST_ELEMENT 1

/*
 * A record for tracing (tcp trace). Times are CLOCK_MONOTONIC in ns; 0 means that the boundary was
 * not seen.
 */
enum tcp_record_kind { TCP_RECORD_REQUEST = 0, TCP_RECORD_IN = 1, TCP_RECORD_OUT = 2 };

struct tcp_layer_record {
	struct tcp_flow_key key;
	__u8 kind; /* enum tcp_record_kind */
	__u8 role;
	__u8 pipelined;
	__u8 pad;
	__u32 seq, length; /* range of the request's bytes, or of the segment's */
	/* first sequence number of the response; for a segment, its acknowledgement number */
	__u32 response_seq;
	__u64 nic_in, ip_in, tcp_in, copied, sent, ip_out, queued, nic_out;
};

/* Key of the map from groups to slots. */
struct tcp_layer_group_key {
	__u8 remote[16];
	__u64 cgroup;
	__u16 port;
	__u8 role, family;
	__u32 netns;
};

#endif
