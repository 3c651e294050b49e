/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* net_shared.h - shared by net.bpf.c and net.c alone. */
#ifndef SL_SOURCE_TCP_BPF_NET_SHARED_H
#define SL_SOURCE_TCP_BPF_NET_SHARED_H

#include <linux/types.h>

/* Elements of the map net_ring, SL_NIC_SIZE bytes: header page, page of the hot line, ring. */
#define TCP_NET_HOT_ELEMENT   32
#define TCP_NET_FIRST_ELEMENT 64

#define TCP_NET_DEVICES	      8

/* Set before loading. */
struct tcp_net_settings {
	__u32 ring_mask; /* records, a power of two, minus 1 */
	__u32 devices;	 /* 0: all with a parent device: hardware's, or a hypervisor's */
	char device[TCP_NET_DEVICES][16]; /* names; padded with 0 */
};

#endif
