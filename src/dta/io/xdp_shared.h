/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* xdp_shared.h - configuration shared by the program (xdp.bpf.c) and its loader (xdp.c) */
#ifndef SL_DTA_IO_XDP_SHARED_H
#define SL_DTA_IO_XDP_SHARED_H

#define XDP_ADDRESSES 16u

/* Filter for our packets. Addresses and port are in network order. */
struct dta_xdp_config {
	__u8 mac[6]; /* MAC of the interface: excludes multicast and packets to other hosts */
	__u16 port;
	__u32 longest; /* size of the largest frame that fits into a chunk */
	__u32 n4, n6;
	__u32 four[XDP_ADDRESSES];
	__u32 six[XDP_ADDRESSES][4];
};

#endif
