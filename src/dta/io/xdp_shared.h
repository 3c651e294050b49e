/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* xdp_shared.h - what the program on an interface (xdp.bpf.c) and its loader (xdp.c) agree on. */
#ifndef SL_DTA_IO_XDP_SHARED_H
#define SL_DTA_IO_XDP_SHARED_H

#define XDP_ADDRESSES 16u

/* What is for us. Addresses and the port are as on the wire. */
struct dta_xdp_config {
	__u8 mac[6]; /* of the interface: not what is for others, or for many */
	__u16 port;
	__u32 longest; /* bytes of a frame that our memory has room for */
	__u32 n4, n6;
	__u32 four[XDP_ADDRESSES];
	__u32 six[XDP_ADDRESSES][4];
};

#endif
