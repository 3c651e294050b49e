/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* dta_xdp.h - shared by the program that fills frames (dta_xdp.bpf.c) and its loader. */
#ifndef SL_CLI_GENERATE_DTA_XDP_H
#define SL_CLI_GENERATE_DTA_XDP_H

#define GD_XDP_FRAME_MAX 1520u
#define GD_XDP_FRAME_MIN 42u /* Ethernet, IPv4, UDP */

struct cli_dta_xdp_frame {
	__u32 bytes, unused;
	__u8 data[]; /* bytes of the longest frame */
};

#endif
