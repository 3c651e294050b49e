/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * layer_shared.h - shared by layer.bpf.c and user space: where the region of sidelight/layer.h lies
 * in the map, and the record of a request.
 */
#ifndef SL_SOURCE_TCP_BPF_LAYER_SHARED_H
#define SL_SOURCE_TCP_BPF_LAYER_SHARED_H

#include <sidelight/layer.h>

#include "shared.h"

/*
 * Elements of the map layer_table, SL_LAYER_SLOT_SIZE bytes each: header and hot line, then per CPU
 * one whose first lines count losses, then the flows, then the groups.
 */
#define TCP_LAYERS_HOT_WORD	 (SL_HEADER_SIZE / 8)
#define TCP_LAYERS_FIRST_ELEMENT 1

/* A record for tracing (tcp trace). Times in ns; boundaries are CLOCK_MONOTONIC, 0 if not seen. */
enum tcp_record_kind { TCP_RECORD_REQUEST = 0, TCP_RECORD_IN = 1, TCP_RECORD_OUT = 2 };

struct tcp_layer_record {
	struct tcp_flow_key key;
	__u8 kind; /* enum tcp_record_kind */
	__u8 role;
	__u8 pipelined;
	__u8 pad;
	__u32 seq, length;  /* of the request: A and L; of a segment: its own */
	__u32 response_seq; /* B; of a segment: the acknowledgement number */
	__u64 nic_in, ip_in, tcp_in, copied, sent, ip_out, queued, nic_out;
};

/* Key of a group. */
struct tcp_layer_group_key {
	__u8 remote[16];
	__u64 cgroup;
	__u16 port;
	__u8 role, family;
	__u32 netns;
};

#endif
