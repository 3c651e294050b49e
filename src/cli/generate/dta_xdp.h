/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* generate_dta_xdp.h - what the program that fills frames (generate_dta_xdp.bpf.c) and its loader
 * agree on. */
#ifndef SL_CLI_GENERATE_DTA_XDP_H
#define SL_CLI_GENERATE_DTA_XDP_H

#define GD_XDP_FRAME_MAX 1520u
#define GD_XDP_FRAME_MIN 42u /* Ethernet, IPv4, UDP */

struct cli_generate_dta_xdp_frame {
	__u32 bytes, unused;
	__u8 data[]; /* as many as the longest has */
};

#endif
