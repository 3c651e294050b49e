/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* print.h - one record of print.bpf.c. */
#ifndef SL_BENCH_TCP_PRINT_H
#define SL_BENCH_TCP_PRINT_H

#include <linux/types.h>

struct print_event {
	__u64 ns;
	__u32 local, remote;
	__u16 local_port, remote_port;
	__u32 pid, length, snd_nxt, rcv_nxt, cwnd, srtt;
	char comm[16];
};

#endif
