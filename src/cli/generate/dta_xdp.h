/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* dta_xdp.h - the frame layout that the BPF program (dta_xdp.bpf.c) shares with its loader. */
#ifndef SL_CLI_GENERATE_DTA_XDP_H
#define SL_CLI_GENERATE_DTA_XDP_H

#define GD_XDP_FRAME_MAX 1520u
#define GD_XDP_FRAME_MIN 42u /* size of the Ethernet, IPv4 and UDP headers */

struct cli_dta_xdp_frame {
	__u32 bytes, unused;
	__u8 data[]; /* content; padded to the size of the longest frame */
};

#endif
